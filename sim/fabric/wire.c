/* SPDX-License-Identifier: BSD-2-Clause */
/* The wire: what is not inline in wire.h. Everything here runs under the engine lock of the node. */
#include "sim/fabric/private.h"

/* A word with this bit is no record: the units from here to the end of the ring are to be skipped. */
#define WORD_SKIP UINT32_C(0x80000000)

static struct pkt *unit_at(unsigned char *data, uint64_t pos, uint32_t mask)
{
	return (struct pkt *)(void *)(data + (pos & mask) * PKT_UNIT_B);
}

/* ---- sending ---- */

/* The largest record of any ring: what fits a quarter of it, and the headers. */
#define SCRATCH_B (FAB_RING_MAX_B / 4 + 2 * PKT_UNIT_B)

/* Lets go of a ring whose consumer has gone. What the owner of tx publishes from now on vanishes. */
static void tx_let_go(struct wire_tx *tx)
{
	struct fab_node *n = tx->node;

	if (!tx->ring)
		return;
	if (tx->reserved) {
		tx->drop = true;
		return;
	}
	tx->ring = NULL;
	tx->drop = false;
	tx->limit = tx->tail; /* always the slow way */
	n->wire.waiting &= ~(UINT64_C(1) << tx->to);
	if (!seg_lock(n->f)) {
		ring_detach(n->f, n->index, tx->to, tx->off, false);
		seg_unlock(n->f);
	}
}

static bool tx_is_dead(const struct wire_tx *tx)
{
	/* acquire: pairs with the consumer's or reclaimer's release */
	return tx->ring && (!atomic_load_explicit(&tx->ring->rx_attached, memory_order_acquire) ||
			    atomic_load_explicit(&tx->ring->refused, memory_order_acquire));
}

static int tx_make(struct fab_node *n, uint32_t to, uint64_t inc, struct wire_tx **out)
{
	struct wire_tx *tx = aligned_alloc(_Alignof(struct wire_tx), sizeof(*tx));

	if (!tx)
		return -ENOMEM;
	__builtin_memset(tx, 0, sizeof(*tx));
	int rc = seg_lock(n->f);
	if (rc)
		goto fail;
	struct seg_node *peer = &seg_of(n->f)->nodes[to];
	/* Nobody reclaims while we hold the lock: the ring is made for a living incarnation or not at all. */
	rc = atomic_load_explicit(&peer->incarnation, memory_order_acquire) == inc ? ring_create(n, to, inc, &tx->off)
										   : -EHOSTUNREACH;
	seg_unlock(n->f);
	if (rc)
		goto fail;
	tx->ring = ring_at(n->f, tx->off);
	if (!tx->ring) {
		rc = -ENOMEM;
		goto fail;
	}
	tx->data = tx->ring->data;
	tx->mask = tx->ring->units - 1;
	tx->limit = (uint64_t)tx->mask + 1;
	tx->peer = peer;
	tx->bit = UINT64_C(1) << n->index;
	tx->node = n;
	tx->inc = inc;
	tx->to = to;
	*out = tx;
	return 0;
fail:
	free(tx);
	return rc;
}

int wire_tx_open(struct fab_node *n, uint32_t to, struct wire_tx **out)
{
	struct wire_node *w = &n->wire;

	if (to >= FAB_NODES_MAX)
		return -EHOSTUNREACH;
	uint64_t inc = atomic_load_explicit(&seg_of(n->f)->nodes[to].incarnation, memory_order_acquire);
	struct wire_tx *tx = w->tx[to], *fresh;
	if (tx && tx->inc == inc && tx->ring && !tx_is_dead(tx)) {
		*out = tx;
		return 0;
	}
	if (!inc || (tx && tx->inc == inc) || !node_alive(n, to, inc))
		return -EHOSTUNREACH;
	int rc = tx_make(n, to, inc, &fresh);
	if (rc)
		return rc;
	if (tx) { /* of an incarnation that has gone; somebody may still hold it */
		tx_let_go(tx);
		tx->next = w->gone;
		w->gone = tx;
	}
	w->tx[to] = *out = fresh;
	return 0;
}

static struct pkt *reserve_in_hole(struct wire_tx *tx, uint32_t units)
{
	struct wire_node *w = &tx->node->wire;

	if (!w->scratch)
		w->scratch = malloc(SCRATCH_B);
	if (!w->scratch)
		return NULL;
	struct pkt *p = w->scratch;
	__builtin_memset(p, 0, sizeof(*p));
	tx->reserved = units;
	return p;
}

void wire_publish_hole(struct wire_tx *tx)
{
	tx->reserved = 0;
	if (tx->drop)
		tx_let_go(tx);
}

/*
 * The ring is full: a pending bit from that peer now also means "there is room". So the bit may not stay set unseen
 * while its ring is the hot one.
 */
static void start_waiting(struct wire_tx *tx)
{
	struct wire_node *w = &tx->node->wire;
	uint64_t bit = UINT64_C(1) << tx->to;

	if (w->waiting & bit)
		return;
	w->waiting |= bit;
	if (w->hot == (int)tx->to) {
		atomic_store_explicit(&w->hot_mask, 0, memory_order_relaxed);
		/* before want_space is set; the hot ring itself is polled directly */
		atomic_fetch_and_explicit(&w->self->pending, ~bit, memory_order_seq_cst);
	}
}

static bool has_room(struct wire_tx *tx, uint32_t units)
{
	/* acquire: the consumer is done with what it gave back; pairs with the release in publish_head */
	uint64_t head = atomic_load_explicit(&tx->ring->head, memory_order_acquire);
	uint64_t used = tx->tail - head;

	if (used > (uint64_t)tx->mask + 1) /* damaged; no index but our own is ever written to */
		return false;
	tx->limit = head + tx->mask + 1;
	return tx->tail + units < tx->limit;
}

/* Zero for the first word of each unit in [from, to). */
static void zero_words(unsigned char *data, uint64_t from, uint64_t to, uint32_t mask)
{
	for (uint64_t pos = from; pos != to; pos++)
		atomic_store_explicit(&unit_at(data, pos, mask)->word, 0, memory_order_relaxed);
}

void wire_wipe(struct wire_tx *tx)
{
	if (tx->ring)
		zero_words(tx->data, tx->tail, tx->tail + tx->reserved, tx->mask);
	tx->reserved = 0;
}

struct pkt *wire_reserve_slow(struct wire_tx *tx, uint32_t units)
{
	if (!tx->ring || tx->drop || tx_is_dead(tx)) {
		tx->reserved = 0;
		tx_let_go(tx);
		return units <= SCRATCH_B / PKT_UNIT_B ? reserve_in_hole(tx, units) : NULL;
	}
	if (units > (tx->mask + 1) / 4 + 2)
		return NULL;
	if (tx->reserved)
		wire_wipe(tx);
	uint32_t at = (uint32_t)tx->tail & tx->mask, to_end = tx->mask + 1 - at;
	uint32_t skip = units > to_end ? to_end : 0;
	if (!has_room(tx, units + skip)) {
		start_waiting(tx);
		/* Either we see the index the consumer stores, or it sees that we wait: fences on both sides. */
		atomic_store_explicit(&tx->ring->want_space, 1, memory_order_seq_cst);
		wire_fence();
		if (!has_room(tx, units + skip))
			return NULL;
		atomic_store_explicit(&tx->ring->want_space, 0, memory_order_relaxed);
	}
	if (skip) {
		/* release for the sake of form: nothing was written before it; pairs with the acquire in wire_next */
		atomic_store_explicit(&unit_at(tx->data, at, tx->mask)->word, skip | WORD_SKIP, memory_order_release);
		tx->tail += skip;
	}
	return wire_begin(tx, units);
}

bool wire_tx_drained(const struct wire_tx *tx)
{
	/* acquire: the consumer has worked on all of it; pairs with the release in wire_consume */
	return !tx->ring || atomic_load_explicit(&tx->ring->seen, memory_order_acquire) == tx->tail || tx_is_dead(tx);
}

/* ---- receiving ---- */

static bool rx_has_record(const struct wire_rx *rx)
{
	return rx->ring && atomic_load_explicit(&unit_at(rx->data, rx->pos, rx->mask)->word, memory_order_acquire);
}

static bool rx_is_orphan(const struct wire_rx *rx)
{
	/* acquire: pairs with the release in ring_detach */
	return rx->ring && !atomic_load_explicit(&rx->ring->tx_attached, memory_order_acquire);
}

static void set_hot_next(struct wire_node *w, const struct wire_rx *rx)
{
	atomic_store_explicit(&w->hot_next, unit_at(rx->data, rx->pos, rx->mask), memory_order_relaxed);
}

/* Without the lock, so only a hint: the extent may be something else by now. */
static bool is_for_us(struct fab_node *n, seg_off off)
{
	const struct seg_ring *r = ring_at(n->f, off);

	return r && r->to_inc == n->incarnation && atomic_load_explicit(&r->rx_attached, memory_order_relaxed);
}

/* Looks for the ring to read from a peer: the oldest of those that are not drained. False if there is none. */
static bool rx_attach(struct fab_node *n, uint32_t from)
{
	struct wire_rx *rx = &n->wire.rx[from];
	struct seg_header *h = seg_of(n->f);
	/* acquire: pairs with the release in ring_create */
	seg_off newest = atomic_load_explicit(&h->rings[from][n->index], memory_order_acquire);
	uint64_t inc = atomic_load_explicit(&h->nodes[from].incarnation, memory_order_acquire);

	if (!newest || (newest == rx->ignored_off && inc == rx->ignored_inc && !is_for_us(n, newest)))
		return false;
	if (seg_lock(n->f))
		return false;
	seg_off off = ring_oldest_rx(n->f, from, n->index, n->incarnation);
	struct seg_ring *r = off ? ring_at(n->f, off) : NULL;
	if (r) {
		rx->ring = r;
		rx->data = r->data;
		rx->mask = r->units - 1;
		rx->off = off;
		rx->inc = r->from_inc;
		rx->pos = rx->published = atomic_load_explicit(&r->head, memory_order_relaxed);
		rx->current = 0;
	}
	rx->ignored_off = r ? 0 : newest;
	rx->ignored_inc = inc;
	seg_unlock(n->f);
	return r != NULL;
}

/* Done with a ring: its producer has gone and it is empty, or it is damaged. */
static void rx_detach(struct fab_node *n, uint32_t from)
{
	struct wire_node *w = &n->wire;
	struct wire_rx *rx = &w->rx[from];
	uint64_t bit = UINT64_C(1) << from;

	rx->ring = NULL;
	if (w->hot == (int)from) {
		w->hot = -1;
		atomic_store_explicit(&w->hot_next, NULL, memory_order_relaxed);
		atomic_store_explicit(&w->hot_mask, 0, memory_order_relaxed);
		atomic_fetch_and_explicit(&w->self->pending, ~bit, memory_order_seq_cst);
	}
	if (seg_lock(n->f))
		return;
	ring_detach(n->f, from, n->index, rx->off, true);
	if (ring_oldest_rx(n->f, from, n->index, n->incarnation))
		atomic_fetch_or_explicit(&w->self->pending, bit, memory_order_seq_cst);
	seg_unlock(n->f);
}

/* The producer of this ring has gone, and our own ring to it may have lost its reader with it. */
static void rx_producer_gone(struct fab_node *n, uint32_t from)
{
	struct wire_tx *tx = n->wire.tx[from];

	rx_detach(n, from);
	if (tx && tx_is_dead(tx))
		tx_let_go(tx);
}

static void rx_refuse(struct fab_node *n, uint32_t from, const char *why)
{
	struct wire_rx *rx = &n->wire.rx[from];

	say(LOG_WHY, "malformed record from node %u (%s): its ring is closed", from, why);
	n->peers[from].refused_inc = rx->inc;
	/* release/acquire with tx_is_dead: the producer stops writing and waiting */
	atomic_store_explicit(&rx->ring->refused, 1, memory_order_release);
	rx_detach(n, from);
}

/* Which peer's turn it is: the first of the candidates after the last one served. */
static int next_turn(uint64_t candidates, int last)
{
	uint64_t after = last < 0 || last >= 63 ? 0 : candidates & ~((UINT64_C(2) << last) - 1);

	return __builtin_ctzll(after ? after : candidates);
}

/* The hot ring's bit means nothing while its next record is polled, unless the ring is to be given back when empty. */
static void hide_hot_bit(struct wire_node *w, int peer)
{
	uint64_t bit = UINT64_C(1) << peer;
	bool orphan = rx_is_orphan(&w->rx[peer]);

	atomic_store_explicit(&w->hot_mask, orphan ? 0 : bit, memory_order_relaxed);
	if (orphan)
		atomic_fetch_or_explicit(&w->self->pending, bit, memory_order_seq_cst);
}

static void take_turn(struct fab_node *n, int peer)
{
	struct wire_node *w = &n->wire;
	uint64_t bit = UINT64_C(1) << peer;
	struct wire_tx *tx = w->tx[peer];
	int old = w->hot;

	if (tx && unlikely(tx_is_dead(tx)))
		tx_let_go(tx);
	bool attached = w->rx[peer].ring || rx_attach(n, (uint32_t)peer);
	if (!attached || (w->waiting & bit)) {
		/* The bit may not stay set: nobody polls the ring, or it means room as well. Look again behind it. */
		w->waiting &= ~bit;
		atomic_fetch_and_explicit(&w->self->pending, ~bit, memory_order_seq_cst);
		wire_fence();
		if (!attached && !rx_attach(n, (uint32_t)peer))
			return;
	}
	w->hot = peer;
	set_hot_next(w, &w->rx[peer]);
	hide_hot_bit(w, peer);
	if (old < 0 || old == peer)
		return;
	/* The old ring is not polled any more: its sender must see the bit cleared, or we its record (wire_publish). */
	atomic_fetch_and_explicit(&w->self->pending, ~(UINT64_C(1) << old), memory_order_seq_cst);
	wire_fence();
	if (rx_has_record(&w->rx[old]) || rx_is_orphan(&w->rx[old]))
		atomic_fetch_or_explicit(&w->self->pending, UINT64_C(1) << old, memory_order_seq_cst);
}

int wire_pending(struct fab_node *n)
{
	struct wire_node *w = &n->wire;
	/* acquire: pairs with the sender's fetch_or */
	uint64_t others = atomic_load_explicit(&w->self->pending, memory_order_acquire) &
			  ~atomic_load_explicit(&w->hot_mask, memory_order_relaxed);
	bool hot = w->hot >= 0 && rx_has_record(&w->rx[w->hot]);

	if (likely(!others)) {
		if (!hot)
			return -1;
		w->last = w->hot;
		return w->hot;
	}
	/* Our own bit may be here only to say that the hot ring's sender has gone (ring_detach_node). */
	if (w->hot >= 0 && unlikely(rx_is_orphan(&w->rx[w->hot]))) {
		hide_hot_bit(w, w->hot);
		hot = true;
	}
	w->last = next_turn(others | (hot ? UINT64_C(1) << w->hot : 0), w->last);
	take_turn(n, w->last);
	return w->last;
}

/*
 * Gives units back, an eighth of the ring at a time: their words become zero, then the producer may write there again.
 * A producer that waits has seen less than half of the ring free, so it waits for such a step.
 */
static void publish_head(struct fab_node *n, uint32_t from, struct wire_rx *rx)
{
	struct seg_ring *r = rx->ring;

	zero_words(rx->data, rx->published, rx->pos, rx->mask);
	/* release: we are done with the units, and the zeros; pairs with the acquire in has_room */
	atomic_store_explicit(&r->head, rx->pos, memory_order_release);
	rx->published = rx->pos;
	wire_fence(); /* pairs with the one behind want_space := 1 */
	if (atomic_load_explicit(&r->want_space, memory_order_relaxed) &&
	    atomic_exchange_explicit(&r->want_space, 0, memory_order_seq_cst)) {
		struct seg_node *s = &seg_of(n->f)->nodes[from];
		atomic_fetch_or_explicit(&s->pending, UINT64_C(1) << n->index, memory_order_seq_cst);
		node_wake(s);
	}
}

/* Do the lengths of the list in the record's payload_B room sum up to the packet's payload? */
static bool refs_ok(const struct pkt *p, uint32_t room_B, uint32_t payload_B)
{
	const struct pkt_ref *ref = pkt_payload((struct pkt *)(uintptr_t)p);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < room_B / sizeof(*ref) && sum < payload_B; i++) {
		uint64_t len_B = ref[i].len_B;
		if (len_B > payload_B - sum)
			return false;
		sum += len_B;
	}
	return sum == payload_B;
}

/* What is wrong with a record of `units` units; NULL = nothing. */
static const char *record_fault(const struct pkt *p, uint32_t units)
{
	uint8_t op = p->op, flags = p->flags;
	uint32_t payload_B = p->payload_B;

	if (op >= PKT_OP_COUNT)
		return "opcode";
	uint32_t head_B = (uint32_t)sizeof(*p) + pkt_ext_B(op, flags), room_B = units * PKT_UNIT_B;
	if (head_B > room_B)
		return "extended header";
	room_B -= head_B;
	if (flags & PKF_BY_REF ? !refs_ok(p, room_B, payload_B) : payload_B > room_B)
		return "payload length";
	if (!p->psn_count || p->psn > 0xffffff)
		return "PSN";
	return NULL;
}

struct pkt *wire_next(struct fab_node *n, uint32_t from)
{
	struct wire_rx *rx = &n->wire.rx[from];

	if (unlikely(!rx->ring) && !rx_attach(n, from))
		return NULL;
	for (;;) {
		uint32_t at = (uint32_t)rx->pos & rx->mask, to_end = rx->mask + 1 - at;
		struct pkt *p = unit_at(rx->data, at, rx->mask);
		/* before the word: when the producer had gone already, an empty ring stays empty */
		bool gone = rx_is_orphan(rx);
		uint32_t word = atomic_load_explicit(&p->word, memory_order_acquire);
		if (!word) {
			if (unlikely(gone))
				rx_producer_gone(n, from);
			return NULL;
		}
		if (unlikely(word & WORD_SKIP)) {
			if (word != (to_end | WORD_SKIP) || !at) {
				rx_refuse(n, from, "skip");
				return NULL;
			}
			rx->pos += to_end;
			atomic_store_explicit(&rx->ring->seen, rx->pos, memory_order_release);
			if (n->wire.hot == (int)from)
				set_hot_next(&n->wire, rx);
			continue;
		}
		const char *fault = word > to_end ? "length" : record_fault(p, word);
		if (unlikely(fault)) {
			rx_refuse(n, from, fault);
			return NULL;
		}
		rx->current = word;
		return p;
	}
}

void wire_consume(struct fab_node *n, uint32_t from)
{
	struct wire_rx *rx = &n->wire.rx[from];

	rx->pos += rx->current;
	rx->current = 0;
	/* release: it has been worked on; pairs with wire_tx_drained. A line that only its producer's timer reads. */
	atomic_store_explicit(&rx->ring->seen, rx->pos, memory_order_release);
	if (n->wire.hot == (int)from)
		set_hot_next(&n->wire, rx);
	if (unlikely(rx->pos - rx->published > rx->mask / 8))
		publish_head(n, from, rx);
}
