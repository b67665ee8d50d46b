/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The direct path: an RDMA WRITE or READ straight to or from the peer's memory (process_vm_*), without its engine. Same
 * results, fewer copies, and a target that only spins on its memory sees data at once. Runs under the engine lock of
 * the requester; what it touches of the peer is guarded by our mark there (seg_node.inside).
 */
#include "sim/hca/engine.h"

#define DIRECT_PIECE_B (1u << 20) /* bytes moved inside one mark: bounds how long a peer's dereg waits */
#define IOV_MAX_LOCAL  16

struct direct {
	uint32_t index;
	int32_t pid;
	struct seg_key *key;
};

/*
 * Only for a queue pair with nothing outstanding, so that the order of messages is kept: everything before this one
 * has completed, and the responder's PSN is ours to move.
 */
static bool direct_possible(struct hca_qp *qp, const struct wqe *w, struct direct *d)
{
	struct engine *e = qp->e;

	if (!e->fast || qp->sq.una != qp->sq.next || qp->sq.una != qp->sq.sent || qp->lost || !w->length ||
	    sim_ops[w->op].flags & OPF_IMM || qp->slot == qp->peer)
		return false;
	d->index = SEG_OWNER_NODE(qp->peer_owner);
	uint64_t incarnation = SEG_OWNER_INC(qp->peer_owner);
	/* Alive, or its pid may be somebody else's by now. */
	if (d->index == e->index || !node_direct_ok(e->node, d->index, incarnation, &d->pid) ||
	    !node_alive(e->node, d->index, incarnation))
		return false;
	d->key = node_peer_key(e->node, d->index, w->rkey >> 8);
	return d->key != NULL;
}

/* Inside our mark: may we touch these bytes? */
static bool direct_allowed(struct hca_qp *qp, const struct wqe *w, const struct direct *d, uint32_t psn, uint32_t right)
{
	const struct seg_key *k = d->key;
	const struct seg_qp *peer = qp->peer;

	/* seq_cst loads behind the mark's store: pair with the owner's withdrawal, which is followed by its look at the
	 * marks */
	return atomic_load(&k->key) == w->rkey && atomic_load(&peer->rx_state) == RX_READY &&
	       atomic_load(&peer->owner) == qp->peer_owner && peer->dest_qpn == qp->qpn && k->pd == peer->pd &&
	       (k->access & right) == right && (peer->access & right) == right && w->remote_addr >= k->iova &&
	       w->remote_addr - k->iova <= k->length && w->length <= k->length - (w->remote_addr - k->iova) &&
	       atomic_load_explicit(&peer->epsn, memory_order_acquire) == psn;
}

static int local_iov(struct hca_qp *qp, struct wqe *w, uint32_t off_B, uint32_t len_B, uint32_t access,
		     struct iovec *iov)
{
	enum mr_fault fault;

	if (w->flags & WQF_INLINE) {
		iov[0] = (struct iovec){w->data + off_B, len_B};
		return 1;
	}
	return sges_iov(qp, w->sge, w->num_sge, off_B, len_B, access, iov, IOV_MAX_LOCAL, &fault);
}

/* Moves one piece; bytes moved, or -1. */
static ssize_t direct_move(struct hca_qp *qp, struct wqe *w, const struct direct *d, uint32_t off_B, bool write)
{
	struct iovec local[IOV_MAX_LOCAL];
	uint32_t len_B = MIN(w->length - off_B, DIRECT_PIECE_B);
	int n = local_iov(qp, w, off_B, len_B, write ? 0 : IBV_ACCESS_LOCAL_WRITE, local);

	if (n <= 0)
		return -1;
	struct iovec far = {(void *)(uintptr_t)(d->key->addr + (w->remote_addr - d->key->iova) + off_B), 0};
	for (int i = 0; i < n; i++)
		far.iov_len += local[i].iov_len;
	return write ? process_vm_writev(d->pid, local, (unsigned long)n, &far, 1, 0)
		     : process_vm_readv(d->pid, local, (unsigned long)n, &far, 1, 0);
}

/* What the responder would have noted. Inside our mark. */
static void direct_note(struct hca_qp *qp, const struct wqe *w, uint32_t psn, uint32_t psn_count, bool write,
			int64_t arrive_ps)
{
	struct seg_qp *peer = qp->peer;

	if (write) {
		int64_t visible_ps = arrive_ps + time_rx_write_ps(&qp->pt->t, w->length);
		atomic_store_explicit(&peer->write_visible_ps, visible_ps, memory_order_relaxed);
		count_shared(peer, CTR_RX_BYTES, w->length);
	} else {
		count_shared(peer, CTR_TX_BYTES, w->length);
	}
	atomic_store_explicit(&peer->msn, (atomic_load_explicit(&peer->msn, memory_order_relaxed) + 1) & PSN_MASK,
			      memory_order_relaxed);
	/* release pairs with the responder's load when our next packet has come through the ring */
	atomic_store_explicit(&peer->epsn, psn_add(psn, psn_count), memory_order_release);
}

static int64_t direct_read_arrival(struct hca_qp *qp, const struct wqe *w, int64_t request_ps)
{
	const struct timing *t = &qp->pt->t;

	return request_ps + t->nic_rx + time_tx_ps(t, w->length, true, qp->mtu_B, 4) - t->nic_tx + qp->pt->net_ps;
}

/* The message is where it belongs: on our side too. */
static void direct_done(struct hca_qp *qp, struct wqe *w, uint32_t next_psn, uint32_t psn_count, bool write,
			int64_t arrive_ps)
{
	qp->next_psn = qp->una_psn = next_psn;
	qp->sq.next++;
	qp->sq.sent = qp->sq.next;
	count(qp, write ? CTR_DIRECT_WRITES : CTR_DIRECT_READS, 1);
	count(qp, CTR_TX_PACKETS, write ? psn_count : 1);
	if (write) {
		count(qp, CTR_TX_BYTES, w->length);
		if (!(w->flags & (WQF_INLINE | WQF_PSN)))
			stage_passed(qp, STAGE_PAYLOAD_READ, 1, w->wr_id, requester_gathered_ps(qp, w));
	} else {
		count_shared(qp->slot, CTR_RX_BYTES, w->length);
		w->done_ps = responded_ps(qp, w, direct_read_arrival(qp, w, arrive_ps));
	}
	complete_one(qp, IBV_WC_SUCCESS, 0, w->done_ps);
}

/* Tries the whole message; false: nothing was changed, it takes the ring. */
bool direct_run(struct hca_qp *qp, struct wqe *w)
{
	bool write = sim_ops[w->op].flags & OPF_WRITE;
	uint32_t right = write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
	uint32_t psn_count = (w->length + qp->mtu_B - 1) >> qp->mtu_shift;
	uint32_t psn = w->flags & WQF_PSN ? w->psn : qp->next_psn;
	struct direct d;
	uint32_t off_B = 0;
	int64_t arrive_ps = 0;

	if (!direct_possible(qp, w, &d))
		return false;
	while (off_B < w->length) {
		node_enter(qp->e->node, d.index);
		ssize_t moved = direct_allowed(qp, w, &d, psn, right) ? direct_move(qp, w, &d, off_B, write) : -1;
		if (moved > 0 && (off_B += (uint32_t)moved) == w->length) {
			if (!write && !(w->flags & WQF_PSN))
				w->rd_seq = qp->rd_seq++;
			arrive_ps = requester_depart(qp, w, !write);
			direct_note(qp, w, psn, psn_count, write, arrive_ps);
		}
		node_exit(qp->e->node, d.index);
		if (moved <= 0)
			return false; /* done again through the ring, where the responder finds out what is wrong */
	}
	direct_done(qp, w, psn_add(psn, psn_count), psn_count, write, arrive_ps);
	return true;
}
