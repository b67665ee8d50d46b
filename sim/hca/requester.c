/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester: work requests to packets. Runs under the engine lock, never blocks: it keeps its place in the send
 * queue (sq.next, sq.tx_off_B) when the ring is full, a limit is reached or its turn is over, and goes on from there.
 */
#include "sim/hca/engine.h"

#define RUN_BUDGET_B   (4u << 20) /* payload bytes of one run */
#define PIECE_MAX_B    16384u	  /* payload of one record when packets may be larger than the path MTU */
#define BY_REF_MIN_B   16384u	  /* from here on a message is pulled from our memory instead of going by the ring */
#define BY_REF_PIECE_B (1u << 20)
#define REFS_MAX       16

/* ---- the peer ---- */

/* Port that the address vector names: by GID on a global route, by LID otherwise. */
static int peer_port(const struct hca_qp *qp, uint32_t *device, uint32_t *port)
{
	const struct ibv_ah_attr *ah = &qp->attr.ah_attr;

	if (ah->is_global)
		return fabric_find_gid(qp->e->fabric, ah->grh.dgid.raw, device, port);
	return fabric_find_lid(qp->e->fabric, ah->dlid, device, port);
}

static bool port_active(const struct seg_device *d, uint32_t port)
{
	return port >= 1 && port <= FAB_PORTS_MAX &&
	       atomic_load_explicit(&d->ports[port - 1].state, memory_order_relaxed) == IBV_PORT_ACTIVE;
}

static bool find_peer(struct hca_qp *qp)
{
	uint32_t device, port;

	if (peer_port(qp, &device, &port))
		return false;
	struct seg_qp *slot = fabric_qp(qp->e->fabric, qp->attr.dest_qp_num);
	if (!slot)
		return false;
	uint64_t owner = atomic_load_explicit(&slot->owner, memory_order_acquire);
	if (!owner || slot->device != device)
		return false;
	uint32_t node = SEG_OWNER_NODE(owner);
	if (node >= FAB_NODES_MAX)
		return false;
	int rc = wire_tx_open(qp->e->node, node, &qp->tx);
	if (rc) {
		say(LOG_WHY, "queue pair 0x%x: no ring to node %u: %s", qp->qpn, node, strerror(-rc));
		return false;
	}
	qp->peer = slot;
	qp->peer_owner = owner;
	return true;
}

bool requester_resolve(struct hca_qp *qp)
{
	/* acquire pairs with the owner's claim and release of the slot */
	if (unlikely(!qp->peer || atomic_load_explicit(&qp->peer->owner, memory_order_acquire) != qp->peer_owner)) {
		qp->peer = NULL;
		if (!find_peer(qp))
			return false;
	}
	/* acquire pairs with the release of rx_state when the queue pair became ready */
	return atomic_load_explicit(&qp->peer->rx_state, memory_order_acquire) == RX_READY &&
	       qp->peer->dest_qpn == qp->qpn && qp->peer->gid_type == qp->gid_type &&
	       port_active(qp->h->seg, qp->attr.port_num) && qp->peer->device < FAB_DEVICES_MAX &&
	       port_active(&fabric_seg(qp->e->fabric)->devices[qp->peer->device], qp->peer->port);
}

/* ---- modelled time of a message on its way out ---- */

/* Last bit of the message (or of the request of a READ) reaches the far port. */
int64_t requester_depart(struct hca_qp *qp, struct wqe *w, bool response)
{
	const struct timing *t = &qp->pt->t;
	uint32_t bytes = response ? 0 : w->length;
	bool gather = !response && bytes && !(w->flags & WQF_INLINE);

	uint32_t ext_B = time_request_ext_B(qp->kind, (enum sim_op)w->op);

	if (unlikely(bytes != qp->cached_B || gather != qp->cached_gather || ext_B != qp->cached_ext_B)) {
		qp->cached_tx_ps = time_tx_ps(t, bytes, gather, qp->mtu_B, ext_B);
		qp->cached_B = bytes;
		qp->cached_gather = gather;
		qp->cached_ext_B = ext_B;
	}
	int64_t start_ps = MAX(w->have_ps, qp->floor_ps);
	if (response) /* as many as max_rd_atomic at a time: this one follows the one that far before it */
		start_ps = MAX(start_ps, qp->rd_done_ps[w->rd_seq % qp->rd_depth]);
	if (w->flags & WQF_FENCE)
		start_ps = MAX(start_ps, qp->rd_last_ps);
	int64_t arrive_ps = start_ps + qp->cached_tx_ps + qp->pt->net_ps;
	qp->last_arrive_ps = MAX(qp->last_arrive_ps, arrive_ps);
	/*
	 * The far adapter's turn-round, where it can be asked. Each message has a time of its own, although one packet
	 * may acknowledge many.
	 */
	if (!response)
		w->done_ps =
		    qp->last_arrive_ps + (qp->peer ? qp->peer->ack_ps : qp->pt->ack_ps) + qp->pt->cqe_generated_ps;
	return qp->last_arrive_ps;
}

/* First data of a by-reference payload is at hand. */
int64_t requester_gathered_ps(const struct hca_qp *qp, const struct wqe *w)
{
	return MAX(w->have_ps, qp->floor_ps) + qp->pt->t.dma_op + qp->pt->t.pcie_read_rtt;
}

/* ---- packets ---- */

/* Outcome of one attempt to transmit. */
enum step { STEP_ON, STEP_FULL, STEP_STOP };

/* Names the next piece by its addresses in our memory; its length, or 0: not possible here. */
static uint32_t by_ref_piece(struct hca_qp *qp, const struct wqe *w, struct pkt_ref *ref, uint32_t *num_refs)
{
	uint32_t left_B = w->length - qp->sq.tx_off_B, len_B = 0;
	struct iovec iov[REFS_MAX];
	enum mr_fault fault;

	if (!qp->e->fast || qp->no_by_ref || w->length < BY_REF_MIN_B || (w->flags & WQF_INLINE))
		return 0;
	int n =
	    sges_iov(qp, w->sge, w->num_sge, qp->sq.tx_off_B, MIN(left_B, BY_REF_PIECE_B), 0, iov, REFS_MAX, &fault);
	for (int i = 0; i < n; i++)
		len_B += (uint32_t)iov[i].iov_len;
	if (len_B != left_B) /* pieces end on packet borders */
		len_B = len_B >> qp->mtu_shift << qp->mtu_shift;
	uint32_t rest_B = len_B;
	*num_refs = 0;
	for (int i = 0; i < n && rest_B; i++) {
		uint64_t piece_B = MIN(iov[i].iov_len, rest_B);
		ref[(*num_refs)++] = (struct pkt_ref){(uint64_t)(uintptr_t)iov[i].iov_base, piece_B};
		rest_B -= (uint32_t)piece_B;
	}
	return len_B;
}

uint32_t piece_max_B(const struct hca_qp *qp)
{
	uint32_t max_B = MIN(PIECE_MAX_B, wire_payload_max_B(qp->tx)) >> qp->mtu_shift << qp->mtu_shift;

	return qp->e->fast ? MAX(max_B, qp->mtu_B) : qp->mtu_B;
}

static enum step local_fault(struct hca_qp *qp, struct wqe *w, enum mr_fault fault)
{
	say(LOG_WHY, "queue pair 0x%x, work request %llu: local key: %s", qp->qpn, (unsigned long long)w->wr_id,
	    mr_fault_name(fault));
	w->error = IBV_WC_LOC_PROT_ERR;
	return STEP_STOP;
}

/* Next piece of a SEND or WRITE: by reference, or eager through the ring. */
static enum step send_piece(struct hca_qp *qp, struct wqe *w, uint32_t *moved_B)
{
	enum pkt_op op = sim_ops[w->op].flags & OPF_SEND ? PKT_SEND : PKT_WRITE;
	uint32_t off_B = qp->sq.tx_off_B, left_B = w->length - off_B, num_refs = 0;
	struct pkt_ref refs[REFS_MAX];
	uint32_t len_B = by_ref_piece(qp, w, refs, &num_refs);
	uint32_t ref_B = num_refs * (uint32_t)sizeof(refs[0]);

	if (!len_B)
		len_B = MIN(left_B, piece_max_B(qp));
	bool first = off_B == 0, last = len_B == left_B;
	unsigned flags = (first ? PKF_FIRST : 0) | (ref_B ? PKF_BY_REF : 0) | (last ? PKF_LAST : 0);
	if (last && (sim_ops[w->op].flags & OPF_IMM))
		flags |= PKF_IMM;
	if (last && (w->flags & WQF_SOLICITED))
		flags |= PKF_SOLICITED;
	struct pkt *p = wire_reserve(qp->tx, pkt_ext_B((uint8_t)op, (uint8_t)flags), ref_B ? ref_B : len_B);
	if (!p)
		return STEP_FULL;
	packet_head(qp, p, op, flags, psn_add(w->psn, off_B >> qp->mtu_shift));
	p->psn_count = MAX((len_B + qp->mtu_B - 1) >> qp->mtu_shift, 1u);
	p->payload_B = len_B;
	p->imm = w->imm;
	p->syndrome = (uint8_t)num_refs;
	p->arrive_ps = requester_depart(qp, w, false);
	if (op == PKT_WRITE && first) {
		p->ext->reth.va = w->remote_addr;
		p->ext->reth.rkey = w->rkey;
		p->ext->reth.length = w->length;
	}
	if (ref_B) {
		memcpy(pkt_payload(p), refs, ref_B);
	} else if (w->flags & WQF_INLINE) {
		memcpy(pkt_payload(p), w->data + off_B, len_B);
	} else if (len_B) {
		enum mr_fault fault = sges_read(qp, w->sge, w->num_sge, off_B, pkt_payload(p), len_B);
		if (unlikely(fault))
			return local_fault(qp, w, fault);
	}
	engine_publish(qp->e, qp, p, w->wr_id);
	count(qp, CTR_TX_BYTES, len_B);
	*moved_B += len_B;
	qp->sq.tx_off_B += len_B;
	if (last) {
		qp->sq.next++;
		qp->sq.tx_off_B = 0;
	}
	return STEP_ON;
}

/* READ (from where the response stands) or atomic. */
static enum step send_request(struct hca_qp *qp, struct wqe *w)
{
	bool atomic = sim_ops[w->op].flags & OPF_ATOMIC;
	enum pkt_op op = atomic ? PKT_ATOMIC_REQ : PKT_READ_REQ;
	unsigned flags = PKF_FIRST | PKF_LAST | (w->op == OP_CMP_SWAP ? PKF_CAS : 0);
	struct pkt *p = wire_reserve(qp->tx, pkt_ext_B((uint8_t)op, (uint8_t)flags), 0);

	if (!p)
		return STEP_FULL;
	uint32_t done_pkts = w->resp_B >> qp->mtu_shift;
	packet_head(qp, p, op, flags, psn_add(w->psn, done_pkts));
	p->psn_count = w->psn_count - done_pkts;
	p->arrive_ps = requester_depart(qp, w, true);
	if (atomic) {
		p->ext->atomic.va = w->remote_addr;
		p->ext->atomic.rkey = w->rkey;
		p->ext->atomic.pad = 0;
		p->ext->atomic.compare = w->compare_add;
		p->ext->atomic.swap_add = w->op == OP_CMP_SWAP ? w->swap : w->compare_add;
	} else {
		p->ext->reth.va = w->remote_addr + w->resp_B;
		p->ext->reth.rkey = w->rkey;
		p->ext->reth.length = w->length - w->resp_B;
	}
	engine_publish(qp->e, qp, p, w->wr_id);
	qp->rd_out++;
	qp->sq.next++;
	return STEP_ON;
}

/* ---- one work request ---- */

/* How many sequence numbers a work request takes. */
static uint32_t psns_of(const struct hca_qp *qp, const struct wqe *w)
{
	bool atomic = sim_ops[w->op].flags & OPF_ATOMIC;

	return atomic ? 1 : MAX((uint32_t)(((uint64_t)w->length + qp->mtu_B - 1) >> qp->mtu_shift), 1u);
}

#define PSN_WINDOW (1 << 23) /* half of the sequence space: older and newer could not be told apart beyond */

/* Room for it among what is under way? What never has room goes on, to fail as too long. */
static bool psn_room(const struct hca_qp *qp, const struct wqe *w)
{
	uint32_t count = psns_of(qp, w);

	return (w->flags & WQF_PSN) || count >= PSN_WINDOW ||
	       psn_diff(qp->next_psn, qp->una_psn) < PSN_WINDOW - (int32_t)count;
}

/* What is wrong with it before anything is sent. */
static enum ibv_wc_status check_local(struct hca_qp *qp, struct wqe *w)
{
	unsigned flags = sim_ops[w->op].flags;

	if (w->error)
		return (enum ibv_wc_status)w->error;
	if (((flags & OPF_ATOMIC) && w->length != 8) || psns_of(qp, w) >= PSN_WINDOW)
		return IBV_WC_LOC_LEN_ERR;
	if (!(flags & OPF_RESPONSE))
		return IBV_WC_SUCCESS; /* keys are checked as the data is read */
	for (uint32_t i = 0; i < w->num_sge; i++) {
		char *mem;
		enum mr_fault fault = w->sge[i].length == 0 ? MR_OK
							    : mr_check(qp->e, qp->pd, w->sge[i].lkey, w->sge[i].addr,
								       w->sge[i].length, IBV_ACCESS_LOCAL_WRITE, &mem);
		if (fault) {
			say(LOG_WHY, "queue pair 0x%x, work request %llu: local key 0x%x: %s", qp->qpn,
			    (unsigned long long)w->wr_id, w->sge[i].lkey, mr_fault_name(fault));
			return IBV_WC_LOC_PROT_ERR;
		}
	}
	return IBV_WC_SUCCESS;
}

/* First touch of a work request: sequence numbers. */
static void take_psns(struct hca_qp *qp, struct wqe *w)
{
	w->psn = qp->next_psn;
	w->psn_count = psns_of(qp, w);
	w->flags |= WQF_PSN;
	if (sim_ops[w->op].flags & OPF_RESPONSE)
		w->rd_seq = qp->rd_seq++;
	qp->next_psn = psn_add(qp->next_psn, w->psn_count);
	if (!(w->flags & WQF_INLINE) && w->length && (sim_ops[w->op].flags & OPF_DATA_OUT))
		stage_passed(qp, STAGE_PAYLOAD_READ, 1, w->wr_id, requester_gathered_ps(qp, w));
}

/* Everything except the last step: may it start now? */
static bool may_start(const struct hca_qp *qp, const struct wqe *w)
{
	if (qp->sq.tx_off_B)
		return true;
	if ((w->flags & WQF_FENCE) && qp->rd_out)
		return false;
	if ((sim_ops[w->op].flags & OPF_RESPONSE) && qp->rd_out >= MAX(qp->attr.max_rd_atomic, 1u))
		return false;
	return psn_room(qp, w);
}

static enum step transmit(struct hca_qp *qp, struct wqe *w, uint32_t *moved_B)
{
	unsigned flags = sim_ops[w->op].flags;

	if (!(w->flags & WQF_PSN) || qp->sq.tx_off_B == 0) {
		w->error = check_local(qp, w);
		if (unlikely(w->error))
			return STEP_STOP;
	}
	if ((flags & (OPF_WRITE | OPF_READ)) && qp->sq.tx_off_B == 0 && w->resp_B == 0 && direct_run(qp, w)) {
		*moved_B += w->length;
		return STEP_ON;
	}
	if (!(w->flags & WQF_PSN))
		take_psns(qp, w);
	return flags & OPF_RESPONSE ? send_request(qp, w) : send_piece(qp, w, moved_B);
}

/* Nobody is there to receive: what is sent now is lost, and the timer counts. */
static void lose(struct hca_qp *qp, uint32_t head)
{
	struct send_queue *sq = &qp->sq;

	for (; sq->next != head; sq->next++) {
		struct wqe *w = sq_slot(sq, sq->next);
		if (!psn_room(qp, w))
			break;
		if (!(w->flags & WQF_PSN))
			take_psns(qp, w);
		requester_depart(qp, w, sim_ops[w->op].flags & OPF_RESPONSE);
	}
	sq->tx_off_B = 0;
	if ((int32_t)(sq->next - sq->sent) > 0)
		sq->sent = sq->next;
	qp->lost = true;
	qp->progress++;
	engine_activate(qp);
}

void requester_run(struct hca_qp *qp)
{
	struct send_queue *sq = &qp->sq;
	enum ibv_qp_state state = qp_state(qp);
	uint32_t moved_B = 0;
	bool any = false;

	if (unlikely(state == IBV_QPS_ERR)) {
		qp_flush(qp);
		return;
	}
	if (unlikely(state == IBV_QPS_SQD && qp->drain_event && sq->una == sq->sent && !sq->tx_off_B)) {
		qp->drain_event = false;
		qp_event(qp, IBV_EVENT_SQ_DRAINED);
	}
	if (unlikely(state != IBV_QPS_RTS || qp->rnr_until_ns || qp->stalled))
		return;
	for (;;) {
		/* acquire pairs with commit: the WQEs are whole */
		uint32_t head = atomic_load_explicit(&sq->head, memory_order_acquire);
		if (sq->next == head)
			break;
		struct wqe *w = sq_slot(sq, sq->next);
		if (unlikely((w->flags & (WQF_PSN | WQF_DONE)) == (WQF_PSN | WQF_DONE))) {
			sq->next++; /* sent again from further back, but this one is answered */
			qp->rd_out++;
			continue;
		}
		if (!may_start(qp, w))
			break;
		if (unlikely(w->error)) {
			completer_settle(qp);
			break;
		}
		if (unlikely(!requester_resolve(qp))) {
			lose(qp, head);
			break;
		}
		enum step step = transmit(qp, w, &moved_B);
		if (unlikely(step == STEP_STOP)) {
			completer_settle(qp);
			break;
		}
		if (unlikely(step == STEP_FULL)) {
			qp->stalled = true;
			engine_resume_later(qp, true);
			engine_activate(qp);
			break;
		}
		any = true;
		if ((int32_t)(sq->next - sq->sent) > 0)
			sq->sent = sq->next;
		if (moved_B >= RUN_BUDGET_B) {
			engine_resume_later(qp, false);
			break;
		}
	}
	if (any) {
		qp->progress++;
		if (sq->una != sq->sent || sq->tx_off_B)
			engine_activate(qp);
	}
}

void requester_go_back(struct hca_qp *qp, uint32_t psn)
{
	struct send_queue *sq = &qp->sq;
	uint32_t end = sq->sent;

	if (sq->tx_off_B && sq->next == sq->sent)
		end++; /* partly out */
	count(qp, CTR_RETRIES, 1);
	qp->rd_out = 0;
	for (uint32_t i = sq->una; i != end; i++) {
		const struct wqe *w = sq_slot(sq, i);
		bool response = sim_ops[w->op].flags & OPF_RESPONSE;
		int32_t in = psn_diff(psn, w->psn);
		bool done = response && (w->flags & WQF_DONE);
		if (in < (int32_t)w->psn_count && !done) {
			sq->next = i;
			sq->tx_off_B = in > 0 && !response ? (uint32_t)in << qp->mtu_shift : 0;
			return;
		}
		qp->rd_out += response;
	}
}

uint32_t requester_oldest(const struct hca_qp *qp)
{
	const struct send_queue *sq = &qp->sq;

	if (sq->una == sq->sent)
		return qp->una_psn;
	const struct wqe *w = sq_slot(sq, sq->una);
	bool unanswered = (sim_ops[w->op].flags & OPF_RESPONSE) && !(w->flags & WQF_DONE);
	return unanswered && psn_diff(w->psn, qp->una_psn) < 0 ? w->psn : qp->una_psn;
}
