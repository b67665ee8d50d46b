/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: creation by the profile's rules, the state machine, errors and flushing, destruction.
 */
#include "sim/hca/engine.h"

#include <stdlib.h>
#include <sys/mman.h>

/* ---- queues ---- */

static void *slots_alloc(uint64_t slots, uint32_t stride_B, size_t *size_B)
{
	*size_B = slots * stride_B;
	/* Mapped, not allocated: a thousand queue pairs of full depth cost memory only as they are used. */
	void *p = mmap(NULL, *size_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static int sq_init(struct send_queue *sq, const struct qp_grant *g)
{
	uint64_t payload_B = MAX((uint64_t)MAX(g->sge_limit_post, g->caps.max_send_sge) * sizeof(struct ibv_sge),
				 g->inline_limit_post_B);
	uint64_t slots = pow2_up_u64(g->sq_units);

	payload_B = MAX(payload_B, sizeof(((struct wqe *)0)->data));
	sq->stride_B = (uint32_t)round_up_u64(offsetof(struct wqe, data) + payload_B, CACHE_LINE);
	sq->mask = (uint32_t)slots - 1;
	sq->max_units = g->sq_units;
	sq->slots = slots_alloc(slots, sq->stride_B, &sq->slots_B);
	return sq->slots ? 0 : ENOMEM;
}

static int rq_init(struct recv_queue *rq, const struct qp_caps *caps)
{
	uint64_t slots = pow2_up_u64(caps->max_recv_wr);

	rq->max_wr = caps->max_recv_wr;
	rq->max_sge = caps->max_recv_sge;
	rq->stride_B = (uint32_t)round_up_u64(
	    offsetof(struct rqe, sge) + MAX(caps->max_recv_sge, 1u) * sizeof(struct ibv_sge), 16);
	rq->mask = (uint32_t)slots - 1;
	rq->slots = slots_alloc(slots, rq->stride_B, &rq->slots_B);
	return rq->slots ? 0 : ENOMEM;
}

/* ---- creation ---- */

static int create_refuse(struct hca *h, struct qp_grant *g, int err, const char *why)
{
	g->err = err;
	g->why = why;
	count_device(h, CTR_REFUSALS, 1);
	count_device(h, CTR_REFUSALS_CREATE, 1);
	say(LOG_WHY, "ibv_create_qp on %s: %s: %s", h->prof.name, why, strerrorname_np(err));
	return err;
}

static int create_negotiate(struct hca *h, const struct hca_qp_init *init, struct qp_grant *g)
{
	struct qp_request req = {
	    .kind = init->kind, .caps = init->caps, .send_ops = init->send_ops, .extended = init->extended};

	if (model_negotiate(&h->prof, &req, g)) {
		count_device(h, CTR_REFUSALS, 1);
		count_device(h, CTR_REFUSALS_CREATE, 1);
		say(LOG_WHY, "ibv_create_qp on %s, %s: %s %u asked, %u allowed: %s", h->prof.name,
		    qp_kind_name(init->kind), g->why, g->asked, g->allowed,
		    g->errno_untouched ? "NULL, errno untouched" : strerrorname_np(g->err));
		return g->err;
	}
	if (init->kind != QP_RC)
		return create_refuse(h, g, EOPNOTSUPP, "only RC queue pairs are emulated yet");
	return 0;
}

static void qp_free(struct hca_qp *qp)
{
	if (qp->sq.slots)
		munmap(qp->sq.slots, qp->sq.slots_B);
	if (qp->rq.slots)
		munmap(qp->rq.slots, qp->rq.slots_B);
	free(qp->r.res);
	free(qp->rd_done_ps);
	free(qp);
}

/* Gives the queue pair a number and lets the engine find it. Engine lock held. */
static int qp_enlist(struct hca_qp *qp)
{
	struct engine *e = qp->e;
	int err = -fabric_qp_alloc(e->node, &qp->qpn, &qp->slot);

	if (err)
		return err;
	err = engine_qp_set(e, qp->qpn, qp);
	if (err) {
		fabric_qp_free(e->node, qp->qpn);
		return err;
	}
	qp->slot->device = qp->h->device;
	qp->slot->kind = (uint32_t)qp->kind;
	qp->slot->pd = qp->pd->id;
	return 0;
}

int hca_qp_create(struct hca *h, const struct hca_qp_init *init, struct qp_grant *g, struct hca_qp **out)
{
	memset(g, 0, sizeof(*g));
	g->caps = init->caps;
	if (h->e->forked)
		return g->err = EIO;
	int err = create_negotiate(h, init, g);
	if (err)
		return err;
	if (atomic_fetch_add(&h->num_qps, 1) >= h->prof.max_qp) {
		atomic_fetch_sub(&h->num_qps, 1);
		return create_refuse(h, g, ENOMEM, "max_qp queue pairs exist");
	}
	struct hca_qp *qp = calloc(1, sizeof(*qp));
	err = qp ? 0 : ENOMEM;
	if (!err) {
		*qp = (struct hca_qp){.h = h,
				      .e = h->e,
				      .pt = &h->ports[0],
				      .pd = init->pd,
				      .send_cq = init->send_cq,
				      .recv_cq = init->recv_cq,
				      .user = init->user,
				      .kind = init->kind,
				      .grant = *g,
				      .sq_sig_all = init->sq_sig_all,
				      .cached_B = UINT32_MAX};
		err = sq_init(&qp->sq, g);
	}
	if (!err)
		err = rq_init(&qp->rq, &g->caps);
	if (!err) {
		engine_enter(h->e);
		err = qp_enlist(qp);
		engine_leave(h->e);
	}
	if (err) {
		if (qp)
			qp_free(qp);
		atomic_fetch_sub(&h->num_qps, 1);
		return create_refuse(h, g, err, "out of memory or of room in the fabric");
	}
	atomic_fetch_add(&qp->pd->users, 1);
	atomic_fetch_add(&qp->send_cq->users, 1);
	atomic_fetch_add(&qp->recv_cq->users, 1);
	*out = qp;
	return 0;
}

/* ---- leaving the wire ---- */

/* Closes the receive side to senders in other processes and waits until none of them is inside. Engine lock held. */
static void close_receive(struct hca_qp *qp, enum seg_rx_state state)
{
	if (atomic_load_explicit(&qp->slot->rx_state, memory_order_relaxed) == RX_CLOSED)
		return;
	atomic_store(&qp->slot->rx_state, state); /* seq_cst: pairs with the direct path's check inside its mark */
	if (qp->e->fast)
		node_wait_outside(qp->e->node);
}

static void give_back_rd_atom(struct hca_qp *qp)
{
	atomic_fetch_sub_explicit(&qp->h->seg->rd_atom_used, qp->slot->rd_atom, memory_order_relaxed);
	qp->slot->rd_atom = 0;
}

int hca_qp_destroy(struct hca_qp *qp)
{
	struct hca *h = qp->h;

	if (!h->e->forked) {
		cqs_lock(qp->send_cq, qp->recv_cq);
		engine_enter(h->e);
		close_receive(qp, RX_CLOSED);
		engine_forget(qp);
		engine_qp_set(h->e, qp->qpn, NULL);
		cq_forget_qp(qp->send_cq, qp);
		cq_forget_qp(qp->recv_cq, qp);
		fabric_qp_free(h->e->node, qp->qpn); /* and its share of the READ/atomic budget */
		engine_leave(h->e);
		cqs_unlock(qp->send_cq, qp->recv_cq);
	}
	atomic_fetch_sub(&qp->pd->users, 1);
	atomic_fetch_sub(&qp->send_cq->users, 1);
	atomic_fetch_sub(&qp->recv_cq->users, 1);
	atomic_fetch_sub(&h->num_qps, 1);
	qp_free(qp);
	return 0;
}

uint32_t hca_qp_num(const struct hca_qp *qp)
{
	return qp->qpn;
}

enum ibv_qp_state hca_qp_state(const struct hca_qp *qp)
{
	return qp_state(qp);
}

/* ---- errors and flushing ---- */

void qp_event(struct hca_qp *qp, enum ibv_event_type type)
{
	count_device(qp->h, CTR_ASYNC_EVENTS, 1);
	qp->h->cb.async_event(qp->h->user, type, qp->user, 0);
}

static void flush_recv(struct hca_qp *qp)
{
	if (qp->r.have_rqe) { /* taken for a message that will not end */
		qp->rq.next = qp->r.rqe;
		qp->r.have_rqe = false;
	}
	/* acquire pairs with hca_post_recv's release: the entries are whole */
	uint32_t head = atomic_load_explicit(&qp->rq.head, memory_order_acquire);

	while (qp->rq.next != head) {
		const struct rqe *rqe = rq_slot(&qp->rq, qp->rq.next++);
		struct hca_cqe c = {.wr_id = rqe->wr_id,
				    .qp = qp,
				    .status = IBV_WC_WR_FLUSH_ERR,
				    .opcode = IBV_WC_RECV,
				    .qp_num = qp->qpn,
				    .frees = qp->rq.next,
				    .is_recv = 1,
				    .generated_ps = qp->last_arrive_ps,
				    .visible_ps = qp->last_arrive_ps};
		count(qp, CTR_FLUSHED, 1);
		cq_push(qp->recv_cq, &c);
	}
}

void qp_flush(struct hca_qp *qp)
{
	/* acquire pairs with the poster's release: the WQEs are whole */
	uint32_t head = atomic_load_explicit(&qp->sq.head, memory_order_acquire);

	while (qp->sq.una != head) {
		count(qp, CTR_FLUSHED, 1);
		complete_one(qp, IBV_WC_WR_FLUSH_ERR, 0, qp->last_arrive_ps);
	}
	qp->sq.next = qp->sq.sent = qp->sq.una;
	qp->sq.tx_off_B = 0;
	qp->lost = false;
	qp->rnr_until_ns = 0;
	flush_recv(qp);
}

void qp_to_error(struct hca_qp *qp)
{
	if (qp_state(qp) == IBV_QPS_ERR)
		return;
	say(LOG_STATE, "queue pair 0x%x goes to ERR", qp->qpn);
	atomic_store_explicit(&qp->state, IBV_QPS_ERR, memory_order_relaxed);
	close_receive(qp, RX_ERROR);
	qp_flush(qp);
}

/* ---- modify ---- */

const char *qp_state_name(enum ibv_qp_state state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return (unsigned)state < ARRAY_LEN(names) ? names[state] : "?";
}

static const char out_of_memory[] = "out of memory";

static int modify_refuse(struct hca_qp *qp, enum ibv_qp_state to, const char *why)
{
	int err = why == out_of_memory ? ENOMEM : EINVAL;
	enum ibv_qp_state from = qp_state(qp);

	count_device(qp->h, CTR_REFUSALS, 1);
	count_device(qp->h, CTR_REFUSALS_MODIFY, 1);
	say(LOG_WHY, "ibv_modify_qp on %s, queue pair 0x%x, from %s to %s: %s: %s", qp->h->prof.name, qp->qpn,
	    qp_state_name(from), qp_state_name(to), why, strerrorname_np(err));
	return err;
}

/* The values behind the mask. NULL or the reason for a refusal. */
static const char *check_values(struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	const struct profile *p = &qp->h->prof;
	struct seg_gid gid;

	if ((mask & IBV_QP_PORT) && (a->port_num < 1 || a->port_num > qp->h->seg->num_ports))
		return "no such port";
	if ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index >= p->pkey_tbl_len)
		return "P_Key index outside the table";
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > p->max_qp_init_rd_atom)
		return "max_rd_atomic above max_qp_init_rd_atom";
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > p->max_qp_rd_atom)
		return "max_dest_rd_atomic above max_qp_rd_atom";
	if ((mask & IBV_QP_PATH_MTU) &&
	    (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096 || (128u << a->path_mtu) > p->max_mtu))
		return "path MTU not supported";
	if ((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31)
		return "min_rnr_timer above 31";
	if ((mask & IBV_QP_TIMEOUT) && a->timeout > 31)
		return "timeout above 31";
	if ((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > 7)
		return "retry_cnt above 7";
	if ((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > 7)
		return "rnr_retry above 7";
	if (!(mask & IBV_QP_AV))
		return NULL;
	uint32_t port = mask & IBV_QP_PORT ? a->port_num : qp->attr.port_num;
	if (qp->h->seg->ports[(port ? port : 1) - 1].link_layer == IBV_LINK_LAYER_ETHERNET && !a->ah_attr.is_global)
		return "an Ethernet port needs a global route (is_global)";
	if (a->ah_attr.is_global &&
	    (hca_query_gid(qp->h, port ? port : 1, a->ah_attr.grh.sgid_index, &gid) || gid.type == GID_NONE))
		return "sgid_index outside the GID table or empty";
	return NULL;
}

/* Responder depth from the device's budget. */
static const char *take_rd_atom(struct hca_qp *qp, uint32_t depth)
{
	uint32_t budget = qp->h->prof.max_res_rd_atom;

	give_back_rd_atom(qp);
	uint32_t used = atomic_fetch_add_explicit(&qp->h->seg->rd_atom_used, depth, memory_order_relaxed);
	qp->slot->rd_atom = depth;
	if (budget && (depth > budget || used > budget - depth)) {
		give_back_rd_atom(qp);
		return "the device's responder READ/atomic budget is spent";
	}
	return NULL;
}

static const char *to_rtr(struct hca_qp *qp, const struct ibv_qp_attr *a)
{
	struct responder *r = &qp->r;
	uint32_t num_res = MAX(a->max_dest_rd_atomic, 1u);
	struct read_res *res = calloc(num_res, sizeof(*res));
	struct seg_gid gid = {.type = GID_IB};

	if (!res)
		return out_of_memory;
	const char *why = take_rd_atom(qp, a->max_dest_rd_atomic);
	if (why) {
		free(res);
		return why;
	}
	responder_reset(qp);
	free(r->res);
	r->res = res;
	r->num_res = num_res;
	if (a->ah_attr.is_global)
		hca_query_gid(qp->h, qp->attr.port_num, a->ah_attr.grh.sgid_index, &gid);
	qp->gid_type = gid.type;
	qp->mtu_shift = 7u + (uint32_t)a->path_mtu;
	qp->mtu_B = 1u << qp->mtu_shift;
	qp->peer = NULL;
	qp->slot->gid_type = gid.type;
	qp->slot->port = qp->attr.port_num;
	qp->slot->ack_ps = qp->pt->ack_ps;
	qp->slot->dest_qpn = a->dest_qp_num;
	atomic_store_explicit(&qp->slot->epsn, a->rq_psn & PSN_MASK, memory_order_relaxed);
	atomic_store_explicit(&qp->slot->msn, 0, memory_order_relaxed);
	return NULL;
}

static const char *to_rts(struct hca_qp *qp, const struct ibv_qp_attr *a)
{
	uint32_t depth = MAX(a->max_rd_atomic, 1u);
	int64_t *done_ps = calloc(depth, sizeof(*done_ps));

	if (!done_ps)
		return out_of_memory;
	free(qp->rd_done_ps);
	qp->rd_done_ps = done_ps;
	qp->rd_depth = depth;
	return NULL;
}

static void start_requester(struct hca_qp *qp)
{
	qp->next_psn = qp->una_psn = qp->attr.sq_psn & PSN_MASK;
	qp->retry_left = qp->attr.retry_cnt;
	qp->rnr_left = qp->attr.rnr_retry;
}

/* Everything as after creation; completions of this queue pair leave the completion queues, as on hardware. */
static void to_reset(struct hca_qp *qp)
{
	close_receive(qp, RX_CLOSED);
	engine_forget(qp);
	cq_forget_qp(qp->send_cq, qp);
	cq_forget_qp(qp->recv_cq, qp);
	give_back_rd_atom(qp);
	responder_reset(qp);
	struct send_queue *sq = &qp->sq;
	sq->una = sq->next = sq->sent = sq->build = sq->tx_off_B = sq->units_posted = 0;
	atomic_store(&sq->head, 0);
	atomic_store(&sq->tail, 0);
	atomic_store(&sq->units_freed, 0);
	qp->rq.next = 0;
	atomic_store(&qp->rq.head, 0);
	atomic_store(&qp->rq.tail, 0);
	qp->rd_out = 0;
	qp->lost = qp->unanswered = qp->stalled = qp->no_by_ref = false;
	qp->rnr_until_ns = qp->deadline_ns = 0;
	qp->floor_ps = qp->last_arrive_ps = qp->last_done_ps = qp->rd_last_ps = 0;
	qp->rd_seq = 0;
	qp->peer = NULL;
	memset(&qp->attr, 0, sizeof(qp->attr));
}

/* Copies what the mask names into the stored attributes. */
static void store_attr(struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr *to = &qp->attr;

#define STORE(bit, field)                                                                                              \
	if (mask & (bit))                                                                                              \
	to->field = a->field
	STORE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	STORE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	STORE(IBV_QP_PKEY_INDEX, pkey_index);
	STORE(IBV_QP_PORT, port_num);
	STORE(IBV_QP_QKEY, qkey);
	STORE(IBV_QP_AV, ah_attr);
	STORE(IBV_QP_PATH_MTU, path_mtu);
	STORE(IBV_QP_TIMEOUT, timeout);
	STORE(IBV_QP_RETRY_CNT, retry_cnt);
	STORE(IBV_QP_RNR_RETRY, rnr_retry);
	STORE(IBV_QP_RQ_PSN, rq_psn);
	STORE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	STORE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	STORE(IBV_QP_SQ_PSN, sq_psn);
	STORE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	STORE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	STORE(IBV_QP_DEST_QPN, dest_qp_num);
#undef STORE
}

/* Runs with posting, receiving and engine locks held. 0, or EINVAL or ENOMEM with nothing changed. */
static int modify_locked(struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	enum ibv_qp_state from = qp_state(qp);
	enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : from;
	const struct profile *p = &qp->h->prof;
	const char *why = NULL;

	if ((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != from)
		return modify_refuse(qp, to, "the current state is another one");
	if (model_qp_transition(p, qp->kind, from, to, mask, &why))
		return modify_refuse(qp, to, why);
	if (p->node_type == NODE_RNIC && (p->strict_cm || qp->h->set.strict_cm) &&
	    (to == IBV_QPS_RTR || to == IBV_QPS_RTS) && from != to)
		return modify_refuse(qp, to, "only a connection manager connects an iWARP queue pair (strict_cm)");
	if (qp->spoiled && to == IBV_QPS_INIT)
		return modify_refuse(qp, to, "it was reset twice (quirk_reset_twice)");
	why = check_values(qp, a, mask);
	if (!why && from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		why = to_rtr(qp, a);
	if (!why && from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		why = to_rts(qp, a);
	if (why)
		return modify_refuse(qp, to, why);
	if (to == IBV_QPS_RESET) {
		qp->spoiled |= from == IBV_QPS_RESET && p->quirk_reset_twice;
		to_reset(qp);
	} else if (to == IBV_QPS_ERR) {
		qp_to_error(qp);
	} else {
		store_attr(qp, a, mask);
		qp->slot->access = qp->attr.qp_access_flags;
		if (mask & IBV_QP_PORT)
			qp->pt = &qp->h->ports[MIN(qp->attr.port_num, FAB_PORTS_MAX) - 1];
		if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
			start_requester(qp);
	}
	atomic_store_explicit(&qp->state, to, memory_order_relaxed);
	if (to == IBV_QPS_RTR || to == IBV_QPS_RTS || to == IBV_QPS_SQD)
		atomic_store(&qp->slot->rx_state, RX_READY); /* release of epsn and the rest to senders */
	qp->drain_event = to == IBV_QPS_SQD && (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && a->en_sqd_async_notify;
	if (to == IBV_QPS_SQD || (from == IBV_QPS_SQD && to == IBV_QPS_RTS))
		requester_run(qp);
	return 0;
}

int hca_qp_modify(struct hca_qp *qp, const struct ibv_qp_attr *attr, int attr_mask)
{
	if (qp->e->forked)
		return EIO;
	bool reset = (attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	if (reset) /* takes its completions out */
		cqs_lock(qp->send_cq, qp->recv_cq);
	lock_take(&qp->sq.lock);
	lock_take(&qp->rq.lock);
	engine_enter(qp->e);
	int err = modify_locked(qp, attr, attr_mask);
	engine_leave(qp->e);
	lock_drop(&qp->rq.lock);
	lock_drop(&qp->sq.lock);
	if (reset)
		cqs_unlock(qp->send_cq, qp->recv_cq);
	return err;
}

int hca_qp_query(struct hca_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	if (qp->e->forked)
		return EIO;
	engine_enter(qp->e);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp_state(qp);
	attr->sq_psn = qp->next_psn;
	if (attr->qp_state >= IBV_QPS_RTR)
		attr->rq_psn = atomic_load_explicit(&qp->slot->epsn, memory_order_relaxed);
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && qp->sq.una != qp->sq.sent;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	engine_leave(qp->e);
	attr->cap =
	    (struct ibv_qp_cap){qp->grant.caps.max_send_wr, qp->grant.caps.max_recv_wr, qp->grant.caps.max_send_sge,
				qp->grant.caps.max_recv_sge, qp->grant.caps.max_inline_data};
	init->cap = attr->cap;
	init->qp_type = IBV_QPT_RC;
	init->sq_sig_all = qp->sq_sig_all;
	return 0;
}
