/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: request packets to memory, receives and answers. Runs under the engine lock. Answers that find the
 * ring full are owed and paid on a later turn, in order: responses of READs and atomics first, then the
 * acknowledgement that covers them.
 */
#include "sim/hca/engine.h"

#define RESP_BUDGET_B (1u << 20) /* response bytes of one payment */

static uint32_t epsn_of(const struct hca_qp *qp)
{
	/* acquire pairs with a direct writer's release */
	return atomic_load_explicit(&qp->slot->epsn, memory_order_acquire);
}

static void advance(struct hca_qp *qp, uint32_t psn_count)
{
	atomic_store_explicit(&qp->slot->epsn, psn_add(epsn_of(qp), psn_count), memory_order_release);
}

static void message_done(struct hca_qp *qp)
{
	uint32_t msn = atomic_load_explicit(&qp->slot->msn, memory_order_relaxed);

	atomic_store_explicit(&qp->slot->msn, (msn + 1) & PSN_MASK, memory_order_relaxed);
	qp->r.in_msg = false;
	qp->r.have_rqe = false;
}

void responder_reset(struct hca_qp *qp)
{
	struct read_res *res = qp->r.res;
	uint32_t num_res = qp->r.num_res;

	if (res)
		memset(res, 0, num_res * sizeof(*res));
	qp->r = (struct responder){.res = res, .num_res = num_res};
}

/* ---- answers owed ---- */

static void owe_ack(struct hca_qp *qp, const struct pkt *p)
{
	qp->r.ack = true;
	qp->r.ack_ps = MAX(qp->r.ack_ps, p->arrive_ps);
	engine_owe(qp);
}

static void owe_nak(struct hca_qp *qp, const struct pkt *p, uint8_t nak)
{
	qp->r.nak = nak;
	qp->r.nak_psn = epsn_of(qp);
	qp->r.ack_ps = MAX(qp->r.ack_ps, p->arrive_ps);
	engine_owe(qp);
}

static void owe_rnr(struct hca_qp *qp, const struct pkt *p)
{
	qp->r.rnr = true;
	qp->r.nak_psn = epsn_of(qp);
	qp->r.nak_sent = true; /* what follows is out of sequence until the sender comes back */
	qp->r.ack_ps = MAX(qp->r.ack_ps, p->arrive_ps);
	engine_owe(qp);
}

/* A request that must not be executed: NAK, asynchronous event, queue pair to ERR. */
static void reject(struct hca_qp *qp, const struct pkt *p, uint8_t nak, enum ibv_event_type event)
{
	owe_nak(qp, p, nak);
	count_shared(qp->slot, CTR_ACCESS_ERRORS, nak == NAK_REM_ACCESS);
	if (event)
		qp_event(qp, event);
	qp_to_error(qp);
}

static void reject_access(struct hca_qp *qp, const struct pkt *p, uint32_t rkey, const char *why)
{
	say(LOG_WHY, "queue pair 0x%x refuses a remote access with rkey 0x%x: %s", qp->qpn, rkey, why);
	reject(qp, p, NAK_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
}

static struct pkt *answer(struct hca_qp *qp, enum pkt_op op, unsigned flags, uint32_t psn, uint32_t payload_B)
{
	if (!requester_resolve(qp) && !qp->tx)
		return NULL;
	struct pkt *p = wire_reserve(qp->tx, 0, payload_B);
	if (!p)
		return NULL;
	packet_head(qp, p, op, flags, psn);
	p->payload_B = payload_B;
	p->imm = atomic_load_explicit(&qp->slot->msn, memory_order_relaxed);
	return p;
}

/* Next piece of a READ response, or an atomic's. false: ring full. */
static bool pay_response(struct hca_qp *qp, struct read_res *res, uint32_t *paid_B)
{
	const struct timing *t = &qp->pt->t;
	uint32_t left_B = res->length - res->off_B;

	if (!requester_resolve(qp) && !qp->tx)
		return false;
	uint32_t len_B = res->atomic ? 8 : MIN(left_B, piece_max_B(qp));
	bool last = res->atomic || len_B == left_B;
	struct pkt *p = answer(qp, res->atomic ? PKT_ATOMIC_RESP : PKT_READ_RESP,
			       (res->off_B ? 0 : PKF_FIRST) | (last ? PKF_LAST : 0),
			       psn_add(res->psn, res->off_B >> qp->mtu_shift), len_B);
	if (!p)
		return false;
	p->psn_count = MAX((len_B + qp->mtu_B - 1) >> qp->mtu_shift, 1u);
	if (res->atomic) {
		memcpy(pkt_payload(p), &res->value, 8);
		p->arrive_ps = res->arrive_ps + t->nic_rx + t->atomic_exec + time_tx_ps(t, 8, true, qp->mtu_B, 4) -
			       t->nic_tx + qp->pt->net_ps;
	} else if (len_B) {
		char *mem;
		enum mr_fault fault =
		    mr_check(qp->e, qp->pd, res->rkey, res->va + res->off_B, len_B, IBV_ACCESS_REMOTE_READ, &mem);
		if (fault) { /* the key was withdrawn while the response was under way */
			res->off_B = res->length;
			say(LOG_WHY, "queue pair 0x%x: READ response stops: %s", qp->qpn, mr_fault_name(fault));
			qp->r.nak = NAK_REM_ACCESS;
			qp->r.nak_psn = p->psn;
			return true;
		}
		memcpy(pkt_payload(p), mem, len_B);
	}
	if (!res->atomic)
		p->arrive_ps = res->arrive_ps + t->nic_rx + time_tx_ps(t, res->length, true, qp->mtu_B, 4) - t->nic_tx +
			       qp->pt->net_ps;
	engine_publish(qp->e, qp, p, 0);
	count(qp, CTR_TX_BYTES, len_B);
	res->off_B += len_B;
	*paid_B += len_B;
	return true;
}

static bool response_paid(const struct read_res *res)
{
	return res->atomic ? res->off_B != 0 : res->off_B == res->length && res->started;
}

static bool pay_responses(struct hca_qp *qp)
{
	struct responder *r = &qp->r;
	uint32_t paid_B = 0;

	while (r->res_next != r->res_head) {
		struct read_res *res = &r->res[r->res_next % r->num_res];
		do {
			if (!pay_response(qp, res, &paid_B))
				return false;
			res->started = true;
		} while (!response_paid(res) && paid_B < RESP_BUDGET_B);
		if (!response_paid(res)) {
			atomic_store_explicit(&qp->e->more, true, memory_order_relaxed);
			return false;
		}
		r->res_next++;
	}
	return true;
}

/* ACK, NAK and RNR NAK leave in this order: an earlier message's ACK first. */
static bool pay_one(struct hca_qp *qp, enum pkt_op op, uint32_t psn, uint8_t syndrome)
{
	struct pkt *p = answer(qp, op, 0, psn, 0);

	if (!p)
		return false;
	p->syndrome = syndrome;
	p->arrive_ps = qp->r.ack_ps + qp->pt->ack_ps;
	stage_passed(qp, STAGE_ACKNOWLEDGEMENT, 1, 0, qp->r.ack_ps + qp->pt->t.nic_rx + qp->pt->t.ack_turn);
	engine_publish(qp->e, qp, p, 0);
	return true;
}

bool responder_pay(struct hca_qp *qp)
{
	struct responder *r = &qp->r;

	if (!pay_responses(qp))
		return qp->tx == NULL; /* nobody there any more: nothing can be paid */
	if (r->ack) {
		if (!pay_one(qp, PKT_ACK, psn_add(epsn_of(qp), PSN_MASK), 0))
			return qp->tx == NULL;
		r->ack = false;
	}
	if (r->rnr) {
		if (!pay_one(qp, PKT_RNR_NAK, r->nak_psn, qp->attr.min_rnr_timer))
			return false;
		r->rnr = false;
		count(qp, CTR_RNR, 1);
		count(qp, CTR_RNR_SENT, 1);
	}
	if (r->nak) {
		if (!pay_one(qp, PKT_NAK, r->nak_psn, r->nak))
			return false;
		r->nak = NAK_NONE;
		count(qp, CTR_NAK_SENT, 1);
	}
	return true;
}

/* ---- payload ---- */

#define PULL_IOVS 64 /* pieces of a receive that a pull fills at once; more go through the ring */

/* How the payload of a packet got to its place. */
enum placed {
	PLACED,
	PLACED_NOT,  /* the sender's memory cannot be read: it may send through the ring instead */
	PLACED_GONE, /* the sender has left the connection: what it sent does not count any more */
};

static bool sender_is_ready(const struct hca_qp *qp)
{
	/* seq_cst behind node_enter's mark: pair with close_receive in the sender, which looks at the mark second */
	return atomic_load(&qp->peer->rx_state) == RX_READY && atomic_load(&qp->peer->owner) == qp->peer_owner;
}

/* Reads the pieces that the packet names in the sender's memory into iov, which holds that much. */
static enum placed pull(struct hca_qp *qp, struct pkt *p, const struct iovec *iov, int n)
{
	struct iovec far[16];
	const struct pkt_ref *ref = pkt_payload(p);
	struct fab_node *node = qp->e->node;
	unsigned num_refs = p->syndrome;
	uint64_t total_B = 0;
	int32_t pid;

	if (num_refs == 0 || num_refs > ARRAY_LEN(far))
		return PLACED_NOT;
	for (unsigned i = 0; i < num_refs; i++) {
		far[i] = (struct iovec){(void *)(uintptr_t)ref[i].addr, ref[i].len_B};
		total_B += ref[i].len_B;
	}
	if (!requester_resolve(qp))
		return PLACED_GONE;
	uint32_t index = SEG_OWNER_NODE(qp->peer_owner);
	uint64_t incarnation = SEG_OWNER_INC(qp->peer_owner);
	if (total_B != p->payload_B || !node_direct_ok(node, index, incarnation, &pid))
		return PLACED_NOT;
	/* Alive, or its pid may be somebody else's by now. */
	if (!node_alive(node, index, incarnation))
		return PLACED_GONE;
	node_enter(node, index);
	bool ready = sender_is_ready(qp);
	ssize_t got = ready ? process_vm_readv(pid, iov, (unsigned long)n, far, num_refs, 0) : -1;
	node_exit(node, index);
	if (!ready)
		return PLACED_GONE;
	return got == (ssize_t)total_B ? PLACED : PLACED_NOT;
}

/* Places the payload at offset off_B of a list of SGEs (a receive). */
static enum mr_fault place_recv(struct hca_qp *qp, const struct rqe *rqe, uint32_t off_B, struct pkt *p,
				enum placed *placed)
{
	struct iovec iov[PULL_IOVS];
	enum mr_fault fault;
	uint64_t room_B = 0;

	*placed = PLACED;
	if (!(p->flags & PKF_BY_REF))
		return sges_write(qp, rqe->sge, rqe->num_sge, off_B, pkt_payload(p), p->payload_B);
	int n =
	    sges_iov(qp, rqe->sge, rqe->num_sge, off_B, p->payload_B, IBV_ACCESS_LOCAL_WRITE, iov, PULL_IOVS, &fault);
	for (int i = 0; i < n; i++)
		room_B += iov[i].iov_len;
	if (!fault)
		*placed = room_B == p->payload_B ? pull(qp, p, iov, n) : PLACED_NOT;
	return fault;
}

/* true: it is in its place. Otherwise the sender is told, if there is anybody to tell. */
static bool in_place(struct hca_qp *qp, const struct pkt *p, enum placed placed)
{
	if (placed == PLACED_NOT)
		owe_nak(qp, p, NAK_NO_BY_REF);
	return placed == PLACED;
}

/* ---- SEND ---- */

static void recv_cqe(struct hca_qp *qp, const struct pkt *p, enum ibv_wc_status status, uint32_t vendor_err)
{
	const struct responder *r = &qp->r;
	const struct timing *t = &qp->pt->t;
	const struct rqe *rqe = rq_slot(&qp->rq, r->rqe);
	bool write = r->op == PKT_WRITE;
	int64_t visible_ps = p->arrive_ps + time_rx_write_ps(t, r->length) + t->recv_wqe + t->cqe_write;
	struct hca_cqe c = {.wr_id = rqe->wr_id,
			    .generated_ps = visible_ps - t->pcie_write,
			    .visible_ps = visible_ps,
			    .qp = qp,
			    .status = status,
			    .opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
			    .vendor_err = vendor_err,
			    .byte_len = r->length,
			    .qp_num = qp->qpn,
			    .src_qp = p->src_qpn,
			    .frees = r->rqe + 1,
			    .is_recv = 1,
			    .solicited = (p->flags & PKF_SOLICITED) != 0};
	if (p->flags & PKF_IMM) {
		c.imm = p->imm;
		c.wc_flags = IBV_WC_WITH_IMM;
	}
	stage_passed(qp, STAGE_RECV_WQE, 1, rqe->wr_id, visible_ps - t->pcie_write - t->cqe_write);
	stage_passed(qp, STAGE_CQE_WRITE, 1, rqe->wr_id, visible_ps);
	if (status != IBV_WC_SUCCESS)
		count(qp, CTR_CQES_ERROR, 1);
	cq_push(qp->recv_cq, &c);
}

/* Takes the next receive for the message under way. false: none, RNR. */
static bool take_rqe(struct hca_qp *qp)
{
	/* acquire pairs with hca_post_recv: the entry is whole */
	if (qp->rq.next == atomic_load_explicit(&qp->rq.head, memory_order_acquire))
		return false;
	qp->r.rqe = qp->rq.next++;
	qp->r.have_rqe = true;
	return true;
}

static void recv_fails(struct hca_qp *qp, const struct pkt *p, enum ibv_wc_status status, uint8_t nak)
{
	say(LOG_WHY, "queue pair 0x%x, receive %llu fails: %s", qp->qpn,
	    (unsigned long long)rq_slot(&qp->rq, qp->r.rqe)->wr_id, ibv_wc_status_str(status));
	recv_cqe(qp, p, status, 0);
	qp->r.have_rqe = false;
	reject(qp, p, nak, 0);
}

static void on_send(struct hca_qp *qp, struct pkt *p)
{
	struct responder *r = &qp->r;
	enum placed placed;

	if (!r->have_rqe && !take_rqe(qp)) {
		owe_rnr(qp, p);
		return;
	}
	const struct rqe *rqe = rq_slot(&qp->rq, r->rqe);
	r->length = r->off_B + p->payload_B;
	if (r->length > rqe->length) {
		recv_fails(qp, p, IBV_WC_LOC_LEN_ERR, NAK_INVALID_REQ);
		return;
	}
	enum mr_fault fault = place_recv(qp, rqe, r->off_B, p, &placed);
	if (fault) {
		say(LOG_WHY, "queue pair 0x%x, receive: local key: %s", qp->qpn, mr_fault_name(fault));
		recv_fails(qp, p, IBV_WC_LOC_PROT_ERR, NAK_REM_OP);
		return;
	}
	if (!in_place(qp, p, placed))
		return;
	count_shared(qp->slot, CTR_RX_BYTES, p->payload_B);
	r->off_B += p->payload_B;
	r->in_msg = true;
	r->op = PKT_SEND;
	advance(qp, p->psn_count);
	if (p->flags & PKF_LAST) {
		recv_cqe(qp, p, IBV_WC_SUCCESS, 0);
		message_done(qp);
	}
	owe_ack(qp, p);
}

/* ---- WRITE ---- */

/* Rights of the queue pair and of the region. NULL or the reason. */
static const char *remote_refused(struct hca_qp *qp, uint32_t rkey, uint64_t va, uint32_t length, uint32_t right,
				  char **mem)
{
	if ((qp->attr.qp_access_flags & right) != right)
		return "the queue pair does not grant this access";
	enum mr_fault fault = mr_check(qp->e, qp->pd, rkey, va, length, right, mem);
	return fault ? mr_fault_name(fault) : NULL;
}

static bool start_write(struct hca_qp *qp, const struct pkt *p)
{
	struct responder *r = &qp->r;
	char *mem;

	r->va = p->ext->reth.va;
	r->rkey = p->ext->reth.rkey;
	r->length = p->ext->reth.length;
	r->op = PKT_WRITE;
	if (r->length == 0) {
		r->in_msg = true;
		return true;
	}
	const char *why = remote_refused(qp, r->rkey, r->va, r->length, IBV_ACCESS_REMOTE_WRITE, &mem);
	if (why) {
		reject_access(qp, p, r->rkey, why);
		return false;
	}
	r->in_msg = true;
	return true;
}

static void on_write(struct hca_qp *qp, struct pkt *p)
{
	struct responder *r = &qp->r;
	char *mem = NULL;

	if ((p->flags & PKF_FIRST) && !r->in_msg && !start_write(qp, p))
		return;
	if (p->payload_B > r->length - r->off_B) {
		reject(qp, p, NAK_INVALID_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if ((p->flags & PKF_IMM) && !r->have_rqe && !take_rqe(qp)) {
		owe_rnr(qp, p);
		return;
	}
	if (p->payload_B) {
		const char *why =
		    remote_refused(qp, r->rkey, r->va + r->off_B, p->payload_B, IBV_ACCESS_REMOTE_WRITE, &mem);
		if (why) {
			reject_access(qp, p, r->rkey, why);
			return;
		}
		struct iovec iov = {mem, p->payload_B};
		if (!(p->flags & PKF_BY_REF))
			memcpy(mem, pkt_payload(p), p->payload_B);
		else if (!in_place(qp, p, pull(qp, p, &iov, 1)))
			return;
	}
	count_shared(qp->slot, CTR_RX_BYTES, p->payload_B);
	r->off_B += p->payload_B;
	advance(qp, p->psn_count);
	if (p->flags & PKF_LAST) {
		int64_t visible_ps = p->arrive_ps + time_rx_write_ps(&qp->pt->t, r->length);
		stage_passed(qp, STAGE_REMOTE_WRITE, 1, 0, visible_ps);
		atomic_store_explicit(&qp->slot->write_visible_ps, visible_ps, memory_order_relaxed);
		if (p->flags & PKF_IMM)
			recv_cqe(qp, p, IBV_WC_SUCCESS, 0);
		message_done(qp);
	}
	owe_ack(qp, p);
}

/* ---- READ and atomics ---- */

static struct read_res *new_res(struct hca_qp *qp, const struct pkt *p)
{
	struct responder *r = &qp->r;

	/* A peer that has more outstanding than it agreed to is refused. */
	if (!r->num_res || r->res_head - r->res_next >= r->num_res)
		return NULL;
	struct read_res *res = &r->res[r->res_head++ % r->num_res];
	*res = (struct read_res){.psn = p->psn, .psn_count = p->psn_count, .arrive_ps = p->arrive_ps, .used = true};
	return res;
}

static void on_read(struct hca_qp *qp, struct pkt *p)
{
	char *mem;
	uint32_t length = p->ext->reth.length;
	const char *why =
	    length ? remote_refused(qp, p->ext->reth.rkey, p->ext->reth.va, length, IBV_ACCESS_REMOTE_READ, &mem)
		   : NULL;

	if (why) {
		reject_access(qp, p, p->ext->reth.rkey, why);
		return;
	}
	struct read_res *res = new_res(qp, p);
	if (!res) {
		reject(qp, p, NAK_INVALID_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	res->va = p->ext->reth.va;
	res->rkey = p->ext->reth.rkey;
	res->length = length;
	advance(qp, p->psn_count);
	message_done(qp);
	engine_owe(qp);
}

/* Every process may reach the word by other ways too, so it is a true atomic on the host. */
static uint64_t execute_atomic(const struct pkt *p, char *mem)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)(void *)mem;
	uint64_t value = p->ext->atomic.compare;

	if (!(p->flags & PKF_CAS))
		return atomic_fetch_add(word, p->ext->atomic.swap_add);
	atomic_compare_exchange_strong(word, &value, p->ext->atomic.swap_add);
	return value;
}

static void on_atomic(struct hca_qp *qp, struct pkt *p)
{
	char *mem;

	if (p->ext->atomic.va & 7) {
		say(LOG_WHY, "queue pair 0x%x refuses an atomic at an address that is not a multiple of 8", qp->qpn);
		reject(qp, p, NAK_INVALID_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	const char *why = remote_refused(qp, p->ext->atomic.rkey, p->ext->atomic.va, 8, IBV_ACCESS_REMOTE_ATOMIC, &mem);
	if (why) {
		reject_access(qp, p, p->ext->atomic.rkey, why);
		return;
	}
	struct read_res *res = new_res(qp, p);
	if (!res) {
		reject(qp, p, NAK_INVALID_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	res->atomic = true;
	res->length = 8;
	res->value = execute_atomic(p, mem);
	stage_passed(qp, STAGE_ATOMIC, 1, 0, p->arrive_ps + qp->pt->t.nic_rx + qp->pt->t.atomic_exec);
	advance(qp, 1);
	message_done(qp);
	engine_owe(qp);
}

/* ---- order ---- */

/* A READ that was answered before is answered again from memory; an atomic from what was kept. */
static void repeat_response(struct hca_qp *qp, const struct pkt *p)
{
	struct responder *r = &qp->r;
	char *mem;

	for (uint32_t i = 0; i < r->num_res; i++) {
		struct read_res *res = &r->res[i];
		int32_t in = psn_diff(p->psn, res->psn);
		if (!res->used || in < 0 || in >= (int32_t)res->psn_count)
			continue;
		if (!response_paid(res))
			return; /* under way or next */
		if (p->op == PKT_READ_REQ &&
		    (res->atomic || remote_refused(qp, p->ext->reth.rkey, p->ext->reth.va, p->ext->reth.length,
						   IBV_ACCESS_REMOTE_READ, &mem)))
			return;
		if (p->op == PKT_ATOMIC_REQ && !res->atomic)
			return;
		struct read_res copy = *res;
		if (p->op == PKT_READ_REQ) {
			copy.va = p->ext->reth.va;
			copy.rkey = p->ext->reth.rkey;
			copy.length = p->ext->reth.length;
			copy.psn = p->psn;
			copy.psn_count = p->psn_count;
		}
		copy.off_B = 0;
		copy.started = false;
		copy.arrive_ps = p->arrive_ps;
		uint32_t paid_B = 0;
		/* Paid at once where the ring has room; otherwise the requester asks again. */
		while (!response_paid(&copy) && pay_response(qp, &copy, &paid_B))
			copy.started = true;
		return;
	}
}

static void on_duplicate(struct hca_qp *qp, struct pkt *p)
{
	count(qp, CTR_DUPLICATES, 1);
	if (p->op == PKT_READ_REQ || p->op == PKT_ATOMIC_REQ)
		repeat_response(qp, p);
	else
		owe_ack(qp, p);
}

/* Cuts off what was received before. */
static void trim(struct hca_qp *qp, struct pkt *p, uint32_t skip)
{
	uint32_t skip_B = skip << qp->mtu_shift;
	char *payload = pkt_payload(p);

	if (p->flags & PKF_BY_REF || skip_B >= p->payload_B)
		return; /* refused below: out of sequence */
	p->payload_B -= skip_B;
	p->psn = psn_add(p->psn, skip);
	p->psn_count -= skip;
	p->flags &= (uint8_t)~PKF_FIRST;
	memmove(pkt_payload(p), payload + skip_B, p->payload_B);
}

/* FIRST and LAST must fit what is under way. */
static bool in_order(const struct hca_qp *qp, const struct pkt *p)
{
	bool first = p->flags & PKF_FIRST;

	if (p->op == PKT_READ_REQ || p->op == PKT_ATOMIC_REQ)
		return !qp->r.in_msg;
	return qp->r.in_msg ? !first && qp->r.op == p->op : first;
}

void responder_request(struct hca_qp *qp, struct pkt *p)
{
	struct responder *r = &qp->r;
	int32_t ahead = psn_diff(p->psn, epsn_of(qp));

	if (unlikely(ahead < 0)) {
		if (-ahead >= (int32_t)p->psn_count || p->op == PKT_READ_REQ || p->op == PKT_ATOMIC_REQ) {
			on_duplicate(qp, p);
			return;
		}
		trim(qp, p, (uint32_t)-ahead);
		ahead = psn_diff(p->psn, epsn_of(qp));
	}
	if (unlikely(ahead != 0)) {
		count(qp, CTR_OUT_OF_SEQUENCE, 1);
		if (!r->nak_sent) {
			r->nak_sent = true;
			owe_nak(qp, p, NAK_PSN_SEQ);
		}
		return;
	}
	r->nak_sent = false;
	/* A WRITE with immediate that found no receive keeps its place and comes back whole. */
	bool again = r->in_msg && (p->flags & PKF_FIRST) && r->off_B == 0 && r->op == p->op;
	if (unlikely(!again && !in_order(qp, p))) {
		reject(qp, p, NAK_INVALID_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if (p->flags & PKF_FIRST)
		r->off_B = 0;
	switch ((enum pkt_op)p->op) {
	case PKT_SEND: on_send(qp, p); break;
	case PKT_WRITE: on_write(qp, p); break;
	case PKT_READ_REQ: on_read(qp, p); break;
	case PKT_ATOMIC_REQ: on_atomic(qp, p); break;
	default: break;
	}
}
