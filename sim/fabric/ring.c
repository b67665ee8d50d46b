/* SPDX-License-Identifier: BSD-2-Clause */
/* Rings as extents: making them, and giving them back when neither side looks at them any more. Under the lock. */
#include "sim/fabric/private.h"

struct seg_ring *ring_at(struct fabric *f, seg_off off)
{
	struct seg_ring *r = seg_at(f, off, sizeof(*r));

	if (!r)
		return NULL;
	uint32_t units = r->units;
	uint64_t data_B = (uint64_t)units * PKT_UNIT_B, size_B = r->size_B;
	if (units & (units - 1) || data_B < FAB_RING_MIN_B || data_B > FAB_RING_MAX_B)
		return NULL;
	if (size_B != round_up_u64(sizeof(*r) + data_B, SEG_PAGE_B) || !seg_at(f, off, size_B))
		return NULL;
	return r;
}

static _Atomic seg_off *chain_head(struct fabric *f, uint32_t from, uint32_t to)
{
	return &seg_of(f)->rings[from][to];
}

static uint32_t chain_length(struct fabric *f, seg_off off)
{
	uint32_t len = 0;

	for (struct seg_ring *r; off && len < RING_CHAIN_MAX && (r = ring_at(f, off)); off = r->older)
		len++;
	return len;
}

int ring_create(struct fab_node *n, uint32_t to, uint64_t to_inc, seg_off *off)
{
	struct fabric *f = n->f;
	_Atomic seg_off *head = chain_head(f, n->index, to);
	seg_off newest = atomic_load_explicit(head, memory_order_relaxed);

	if (chain_length(f, newest) == RING_CHAIN_MAX)
		return -ENOSPC;
	if (newest && !ring_at(f, newest))
		newest = 0; /* damaged: the extent is lost, the pair works on */
	uint64_t size_B = round_up_u64(sizeof(struct seg_ring) + f->ring_B, SEG_PAGE_B);
	int rc = seg_alloc(f, size_B, off);
	if (rc)
		return rc;
	struct seg_ring *r = seg_at(f, *off, size_B);
	if (!r)
		return -ENOMEM;
	r->size_B = size_B;
	r->older = newest;
	r->from_inc = n->incarnation;
	r->to_inc = to_inc;
	r->units = f->ring_B / PKT_UNIT_B;
	atomic_init(&r->tx_attached, 1);
	/* Attached on behalf of the consumer, which may not have noticed yet: nobody else gives the extent back. */
	atomic_init(&r->rx_attached, 1);
	atomic_init(&r->refused, 0);
	atomic_init(&r->head, 0);
	atomic_init(&r->want_space, 0);
	atomic_init(&r->seen, 0);
	/* A word that is not zero is a record, so every unit that is free begins with zero. */
	for (uint32_t i = 0; i < r->units; i++)
		atomic_init(&((struct pkt *)(void *)(r->data + (size_t)i * PKT_UNIT_B))->word, 0);
	/* release: the ring is whole; pairs with the acquire in the consumer */
	atomic_store_explicit(head, *off, memory_order_release);
	return 0;
}

/* Takes a ring out of its pair's list by one store, and gives its extent back. */
static void unlink_ring(struct fabric *f, uint32_t from, uint32_t to, seg_off off, struct seg_ring *r)
{
	_Atomic seg_off *head = chain_head(f, from, to);
	seg_off at = atomic_load_explicit(head, memory_order_relaxed);

	if (at == off) {
		atomic_store_explicit(head, r->older, memory_order_release);
		seg_free(f, off, r->size_B);
		return;
	}
	for (uint32_t len = 0; at && len < RING_CHAIN_MAX; len++) {
		struct seg_ring *prev = ring_at(f, at);
		if (!prev)
			return;
		if (prev->older == off) {
			prev->older = r->older;
			seg_free(f, off, r->size_B);
			return;
		}
		at = prev->older;
	}
}

void ring_detach(struct fabric *f, uint32_t from, uint32_t to, seg_off off, bool rx)
{
	struct seg_ring *r = ring_at(f, off);

	if (!r)
		return;
	/* release: what this side did with the ring is done; pairs with the other side's acquire */
	atomic_store_explicit(rx ? &r->rx_attached : &r->tx_attached, 0, memory_order_release);
	if (!atomic_load_explicit(&r->tx_attached, memory_order_acquire) &&
	    !atomic_load_explicit(&r->rx_attached, memory_order_acquire))
		unlink_ring(f, from, to, off, r);
}

seg_off ring_oldest_rx(struct fabric *f, uint32_t from, uint32_t to, uint64_t to_inc)
{
	seg_off off = atomic_load_explicit(chain_head(f, from, to), memory_order_acquire), oldest = 0;
	struct seg_ring *r;

	for (uint32_t len = 0; off && len < RING_CHAIN_MAX && (r = ring_at(f, off)); off = r->older, len++)
		if (r->to_inc == to_inc && atomic_load_explicit(&r->rx_attached, memory_order_relaxed))
			oldest = off;
	return oldest;
}

/* One direction of one pair: detaches the side with this incarnation. True if a peer is still attached. */
static bool detach_chain(struct fabric *f, uint32_t from, uint32_t to, bool rx, uint64_t incarnation)
{
	seg_off off = atomic_load_explicit(chain_head(f, from, to), memory_order_acquire);
	bool peer = false;

	for (uint32_t len = 0; off && len < RING_CHAIN_MAX; len++) {
		struct seg_ring *r = ring_at(f, off);
		if (!r) {
			if (!len)
				atomic_store_explicit(chain_head(f, from, to), 0, memory_order_release);
			break;
		}
		seg_off older = r->older;
		if ((rx ? r->to_inc : r->from_inc) == incarnation) {
			peer |= atomic_load_explicit(rx ? &r->tx_attached : &r->rx_attached, memory_order_acquire) != 0;
			ring_detach(f, from, to, off, rx);
		}
		off = older;
	}
	return peer;
}

void ring_tell(struct fabric *f, uint32_t index, uint64_t peers)
{
	struct seg_node *nodes = seg_of(f)->nodes;

	for (uint32_t p = 0; p < FAB_NODES_MAX; p++) {
		uint64_t bit = UINT64_C(1) << p;
		if (!(peers & bit))
			continue;
		/* If our ring is the peer's hot one our bit is hidden, then its own shows. seq_cst as in wire_publish.
		 */
		atomic_fetch_or_explicit(&nodes[p].pending, UINT64_C(1) << index | bit, memory_order_seq_cst);
		node_wake(&nodes[p]);
	}
}

uint64_t ring_detach_node(struct fabric *f, uint32_t index, uint64_t incarnation)
{
	uint64_t peers = 0;

	for (uint32_t p = 0; p < FAB_NODES_MAX; p++) {
		bool peer = detach_chain(f, index, p, false, incarnation);
		peer |= detach_chain(f, p, index, true, incarnation);
		if (peer && p != index)
			peers |= UINT64_C(1) << p;
	}
	return peers;
}
