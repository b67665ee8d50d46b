/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The completer: acknowledgements, responses and timeouts to completions. Runs under the engine lock.
 */
#include "sim/hca/engine.h"

/* InfiniBand specification, RNR NAK timer field: hundredths of a millisecond. */
static const uint32_t rnr_10us[32] = {65536, 1,	   2,	 3,    4,    6,	    8,	   12,	  16,	 24,   32,
				      48,    64,   96,	 128,  192,  256,   384,   512,	  768,	 1024, 1536,
				      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

static const struct {
	uint8_t nak;
	enum ibv_wc_status status;
	uint32_t vendor_err;
} nak_status[] = {
    {NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR, 0x8a},
    {NAK_REM_ACCESS, IBV_WC_REM_ACCESS_ERR, 0x88},
    {NAK_REM_OP, IBV_WC_REM_OP_ERR, 0x89},
};

/* ---- completing ---- */

int64_t responded_ps(const struct hca_qp *qp, const struct wqe *w, int64_t arrive_ps)
{
	const struct timing *t = &qp->pt->t;

	return arrive_ps + time_rx_write_ps(t, w->length) + t->cqe_write - t->pcie_write;
}

void complete_one(struct hca_qp *qp, enum ibv_wc_status status, uint32_t vendor_err, int64_t generated_ps)
{
	struct send_queue *sq = &qp->sq;
	const struct wqe *w = sq_slot(sq, sq->una);

	generated_ps = qp->last_done_ps = MAX(qp->last_done_ps, generated_ps);
	sq->una++;
	if (sim_ops[w->op].flags & OPF_RESPONSE) {
		if (qp->rd_out)
			qp->rd_out--;
		if (qp->rd_depth)
			qp->rd_done_ps[w->rd_seq % qp->rd_depth] = generated_ps;
		qp->rd_last_ps = MAX(qp->rd_last_ps, generated_ps);
	}
	if (!(w->flags & WQF_SIGNALED) && status == IBV_WC_SUCCESS)
		return;
	struct hca_cqe c = {.wr_id = w->wr_id,
			    .generated_ps = generated_ps,
			    .visible_ps = generated_ps + qp->pt->t.pcie_write,
			    .qp = qp,
			    .status = status,
			    .opcode = sim_ops[w->op].wc,
			    .vendor_err = vendor_err,
			    .byte_len = w->length,
			    .qp_num = qp->qpn,
			    .frees = sq->una};
	stage_passed(qp, STAGE_CQE_WRITE, 1, w->wr_id, c.visible_ps);
	if (status != IBV_WC_SUCCESS)
		count(qp, CTR_CQES_ERROR, 1);
	cq_push(qp->send_cq, &c);
}

void requester_fail(struct hca_qp *qp, enum ibv_wc_status status, uint32_t vendor_err, int64_t generated_ps)
{
	say(LOG_WHY, "queue pair 0x%x, work request %llu fails: %s", qp->qpn,
	    (unsigned long long)sq_slot(&qp->sq, qp->sq.una)->wr_id, ibv_wc_status_str(status));
	complete_one(qp, status, vendor_err, generated_ps);
	qp_to_error(qp);
}

void completer_settle(struct hca_qp *qp)
{
	struct send_queue *sq = &qp->sq;

	/* acquire pairs with commit: the WQE is whole */
	if (sq->una != sq->next || sq->next == atomic_load_explicit(&sq->head, memory_order_acquire))
		return;
	const struct wqe *w = sq_slot(sq, sq->una);
	if (w->error)
		requester_fail(qp, (enum ibv_wc_status)w->error, 0, MAX(w->have_ps, qp->last_arrive_ps));
}

/* Completes in order everything whose last packet is at or before psn. Returns false at a READ or atomic that is not
 * answered yet. */
static bool complete_until(struct hca_qp *qp, uint32_t psn)
{
	struct send_queue *sq = &qp->sq;

	while (sq->una != sq->sent) {
		struct wqe *w = sq_slot(sq, sq->una);
		bool response = sim_ops[w->op].flags & OPF_RESPONSE;
		if (response && !(w->flags & WQF_DONE))
			return psn_diff(psn, w->psn) < 0;
		if (!response && psn_diff(psn, psn_add(w->psn, w->psn_count - 1)) < 0)
			return true;
		complete_one(qp, IBV_WC_SUCCESS, 0, w->done_ps);
		if ((int32_t)(sq->next - sq->una) < 0) {
			/* it had been taken back to be sent again */
			sq->next = sq->una;
			sq->tx_off_B = 0;
		}
	}
	return true;
}

/* The same for all that has been acknowledged so far, which may have waited behind a READ. */
static bool complete_acknowledged(struct hca_qp *qp)
{
	return complete_until(qp, psn_add(qp->una_psn, PSN_MASK));
}

/* The peer answers, whether or not it is the answer to everything: the retry counter begins anew. */
static void heard(struct hca_qp *qp)
{
	qp->retry_left = qp->attr.retry_cnt;
	qp->lost = qp->unanswered = false;
	qp->progress++;
}

/* The peer has made progress up to psn. Stale and impossible numbers are ignored. */
static bool progress(struct hca_qp *qp, uint32_t psn)
{
	if (psn_diff(psn, qp->una_psn) < 0 || psn_diff(psn, qp->next_psn) >= 0)
		return false;
	qp->una_psn = psn_add(psn, 1);
	qp->rnr_left = qp->attr.rnr_retry;
	heard(qp);
	return true;
}

/* A partly sent message that is being sent again need not repeat what is acknowledged now. */
static void skip_acknowledged(struct hca_qp *qp)
{
	struct send_queue *sq = &qp->sq;

	if (sq->next == sq->sent && !sq->tx_off_B)
		return;
	const struct wqe *w = sq_slot(sq, sq->next);
	if (!(w->flags & WQF_PSN) || (sim_ops[w->op].flags & OPF_RESPONSE))
		return;
	int32_t in = psn_diff(qp->una_psn, w->psn);
	if (in > 0 && in < (int32_t)w->psn_count && (uint32_t)in << qp->mtu_shift > sq->tx_off_B)
		sq->tx_off_B = (uint32_t)in << qp->mtu_shift;
}

static void go_on(struct hca_qp *qp)
{
	completer_settle(qp);
	requester_run(qp);
}

/*
 * The oldest READ or atomic was passed by an answer to something later: its response is lost, ask again. Once, then
 * the timer decides; what comes after it is repeated too, which the responder knows how to take.
 */
static void chase_response(struct hca_qp *qp)
{
	if (qp->chased == qp->sq.una + 1)
		return;
	qp->chased = qp->sq.una + 1;
	requester_go_back(qp, sq_slot(&qp->sq, qp->sq.una)->psn);
}

void completer_ack(struct hca_qp *qp, const struct pkt *p)
{
	if (!progress(qp, p->psn))
		return;
	if (complete_acknowledged(qp))
		skip_acknowledged(qp);
	else
		chase_response(qp);
	go_on(qp);
}

/* Everything before psn is acknowledged by a NAK of psn. */
static bool nak_progress(struct hca_qp *qp, const struct pkt *p)
{
	uint32_t before = psn_add(p->psn, PSN_MASK);

	if (psn_diff(p->psn, qp->una_psn) < 0 || psn_diff(p->psn, qp->next_psn) >= 0)
		return false;
	heard(qp);
	if (progress(qp, before))
		complete_acknowledged(qp);
	return true;
}

void completer_nak(struct hca_qp *qp, const struct pkt *p)
{
	count(qp, CTR_NAK_RECEIVED, 1);
	if (p->syndrome == NAK_NO_BY_REF)
		qp->no_by_ref = true;
	if (!nak_progress(qp, p))
		return;
	if (p->syndrome == NAK_PSN_SEQ || p->syndrome == NAK_NO_BY_REF) {
		requester_go_back(qp, requester_oldest(qp));
		qp->progress++;
		go_on(qp);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(nak_status); i++)
		if (nak_status[i].nak == p->syndrome && (qp->sq.una != qp->sq.sent || qp->sq.tx_off_B)) {
			requester_fail(qp, nak_status[i].status, nak_status[i].vendor_err,
				       p->arrive_ps + qp->pt->cqe_generated_ps);
			return;
		}
}

void completer_rnr(struct hca_qp *qp, const struct pkt *p)
{
	struct engine *e = qp->e;
	uint64_t wait_ns = rnr_10us[p->syndrome & 31] * UINT64_C(10000);

	count(qp, CTR_RNR, 1);
	count(qp, CTR_RNR_RECEIVED, 1);
	uint32_t rnr_left = qp->rnr_left;
	if (!nak_progress(qp, p))
		return;
	qp->rnr_left = psn_diff(p->psn, qp->rnr_psn) == 0 ? rnr_left : qp->attr.rnr_retry;
	qp->rnr_psn = p->psn;
	if (qp->rnr_left == 0) {
		requester_fail(qp, IBV_WC_RNR_RETRY_EXC_ERR, 0x87, p->arrive_ps + qp->pt->cqe_generated_ps);
		return;
	}
	if (qp->attr.rnr_retry != 7)
		qp->rnr_left--;
	requester_go_back(qp, requester_oldest(qp));
	qp->floor_ps = MAX(qp->floor_ps, p->arrive_ps + (int64_t)wait_ns * 1000);
	qp->rnr_until_ns = clock_ns() + wait_ns;
	engine_activate(qp);
	if (!atomic_load_explicit(&e->rnr_waits, memory_order_relaxed) ||
	    qp->rnr_until_ns < atomic_load_explicit(&e->rnr_next_ns, memory_order_relaxed))
		atomic_store_explicit(&e->rnr_next_ns, qp->rnr_until_ns, memory_order_relaxed);
	atomic_store_explicit(&e->rnr_waits, true, memory_order_relaxed);
	node_wake(e->seg); /* the agent's nap may be longer than the wait */
}

/* The READ or atomic that a response belongs to; everything before it is acknowledged by the response. */
static struct wqe *responded(struct hca_qp *qp, const struct pkt *p, unsigned kind)
{
	struct send_queue *sq = &qp->sq;

	for (uint32_t i = sq->una; i != sq->sent; i++) {
		struct wqe *w = sq_slot(sq, i);
		int32_t in = psn_diff(p->psn, w->psn);
		if (in < 0)
			return NULL;
		if (in < (int32_t)w->psn_count)
			return (sim_ops[w->op].flags & kind) && !(w->flags & WQF_DONE) ? w : NULL;
	}
	return NULL;
}

/* Places what a response carries. A fault means that the local memory went away meanwhile. */
static bool place(struct hca_qp *qp, struct wqe *w, uint32_t off_B, const void *data, uint32_t len_B)
{
	enum mr_fault fault = sges_write(qp, w->sge, w->num_sge, off_B, data, len_B);

	if (likely(fault == MR_OK))
		return true;
	say(LOG_WHY, "queue pair 0x%x, work request %llu: response cannot be placed: %s", qp->qpn,
	    (unsigned long long)w->wr_id, mr_fault_name(fault));
	w->error = IBV_WC_LOC_PROT_ERR;
	return false;
}

/* A response is complete, or its data cannot be placed. */
static void response_done(struct hca_qp *qp, struct wqe *w, int64_t arrive_ps)
{
	w->done_ps = responded_ps(qp, w, arrive_ps);
	w->flags |= WQF_DONE;
	if (w->error) {
		complete_until(qp, psn_add(w->psn, PSN_MASK));
		if (sq_slot(&qp->sq, qp->sq.una) == w)
			requester_fail(qp, (enum ibv_wc_status)w->error, 0, w->done_ps);
		return;
	}
	if (!complete_acknowledged(qp))
		chase_response(qp);
	go_on(qp);
}

void completer_read(struct hca_qp *qp, struct pkt *p)
{
	struct wqe *w = responded(qp, p, OPF_READ);

	if (!w)
		return;
	uint32_t expected = psn_add(w->psn, w->resp_B >> qp->mtu_shift);
	if (p->psn != expected) {
		/* ahead: a response was lost, ask again from where we are; once a gap */
		if (psn_diff(p->psn, expected) > 0 && !qp->resp_gap) {
			qp->resp_gap = true;
			requester_go_back(qp, w->psn);
			go_on(qp);
		}
		return;
	}
	qp->resp_gap = false;
	if (p->payload_B > w->length - w->resp_B)
		return;
	count_shared(qp->slot, CTR_RX_BYTES, p->payload_B);
	/* A later message may have been acknowledged already; then this moves no sequence number. */
	heard(qp);
	bool ok = place(qp, w, w->resp_B, pkt_payload(p), p->payload_B);
	progress(qp, psn_add(p->psn, p->psn_count - 1));
	w->resp_B += p->payload_B;
	if (!ok || w->resp_B == w->length)
		response_done(qp, w, p->arrive_ps);
}

void completer_atomic(struct hca_qp *qp, struct pkt *p)
{
	struct wqe *w = responded(qp, p, OPF_ATOMIC);

	if (!w || p->payload_B != 8)
		return;
	count_shared(qp->slot, CTR_RX_BYTES, 8);
	place(qp, w, 0, pkt_payload(p), 8);
	progress(qp, p->psn);
	response_done(qp, w, p->arrive_ps);
}

/* ---- timeouts ---- */

/*
 * On a real clock a live but slow peer never runs the counter down: the adapter it stands for would have answered
 * without the CPU. The timer counts where something was lost or nobody is there; and where the peer has looked at all
 * that was sent, and again at all that was sent again, and still does not answer (another PSN, a lossy wire).
 */
static bool timer_counts(struct hca_qp *qp)
{
	struct engine *e = qp->e;

	return e->strict_timers || qp->lost || !qp->peer || !requester_resolve(qp) ||
	       !node_alive(e->node, SEG_OWNER_NODE(qp->peer_owner), SEG_OWNER_INC(qp->peer_owner)) ||
	       (qp->unanswered && wire_tx_drained(qp->tx));
}

void completer_timeout(struct hca_qp *qp, uint64_t now_ns)
{
	uint64_t timeout_ns = qp_timeout_ns(qp);

	qp->deadline_ns = now_ns + timeout_ns;
	if (timer_counts(qp)) {
		count(qp, CTR_TIMEOUTS, 1);
		qp->floor_ps = MAX(qp->floor_ps, qp->last_arrive_ps) + (int64_t)timeout_ns * 1000;
		if (qp->retry_left == 0) {
			requester_fail(qp, IBV_WC_RETRY_EXC_ERR, 0x81, qp->floor_ps);
			return;
		}
		qp->retry_left--;
	} else if (!wire_tx_drained(qp->tx)) {
		return; /* it has not even looked yet */
	}
	qp->unanswered = true;
	qp->lost = false;
	qp->resp_gap = false;
	qp->chased = 0;
	qp->stalled = false;
	requester_go_back(qp, requester_oldest(qp));
	requester_run(qp);
}
