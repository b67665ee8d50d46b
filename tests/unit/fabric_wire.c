/* SPDX-License-Identifier: BSD-2-Clause */
/* The wire between nodes of one process: order, fullness, turns, what hostile content does. */
#include "tests/unit/fabric_util.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct util_world world;
static struct fab_node *node[4];

static void setup(void)
{
	util_world_open(&world, "wire", 1);
	fabric_set_ring_B(world.f, FAB_RING_MIN_B);
	for (size_t i = 0; i < ARRAY_LEN(node); i++) {
		cr_assert_eq(node_join(world.f, &node[i]), 0);
		cr_assert_eq(node_hold_life(node[i]), 0);
	}
}

static void teardown(void)
{
	for (size_t i = 0; i < ARRAY_LEN(node); i++) {
		if (node[i])
			node_drop_life(node[i]);
		node_leave(node[i]);
	}
	util_world_close(&world);
}

TestSuite(fabric_wire, .init = setup, .fini = teardown, .timeout = 30);

static struct wire_tx *tx_between(int from, int to)
{
	struct wire_tx *tx = NULL;

	cr_assert_eq(wire_tx_open(node[from], node_index(node[to]), &tx), 0);
	return tx;
}

/* Takes one packet at node `at` from whoever has the turn; the PSN, or -1. */
static int take(int at, int *from)
{
	int peer = wire_pending(node[at]);
	struct pkt *p = peer < 0 ? NULL : wire_next(node[at], (uint32_t)peer);
	int psn = p ? (int)p->psn : -1;

	if (p)
		wire_consume(node[at], (uint32_t)peer);
	if (from)
		*from = peer;
	return psn;
}

Test(fabric_wire, one_packet)
{
	struct wire_tx *tx = tx_between(0, 1);
	char text[] = "payload of a packet";

	cr_assert_not(wire_has_work(node[1]));
	cr_assert_eq(wire_pending(node[1]), -1);
	cr_assert(wire_tx_drained(tx));
	struct pkt *p = wire_reserve(tx, 16, sizeof(text));
	cr_assert_not_null(p);
	cr_assert_not(wire_has_work(node[1]), "a reserved record must not be visible");
	p->op = PKT_WRITE;
	p->flags = PKF_FIRST | PKF_LAST;
	p->psn_count = 1;
	p->payload_B = sizeof(text);
	p->ext[0].reth.va = 0x1234;
	memcpy(pkt_payload(p), text, sizeof(text));
	wire_publish(tx);
	cr_assert(wire_has_work(node[1]));
	cr_assert_not(wire_tx_drained(tx));
	cr_assert_eq(wire_pending(node[1]), (int)node_index(node[0]));
	struct pkt *q = wire_next(node[1], node_index(node[0]));
	cr_assert_not_null(q);
	cr_assert_eq(q->ext[0].reth.va, 0x1234);
	cr_assert_str_eq((char *)pkt_payload(q), text);
	wire_consume(node[1], node_index(node[0]));
	cr_assert_null(wire_next(node[1], node_index(node[0])));
	cr_assert(wire_tx_drained(tx));
	cr_assert_not(wire_has_work(node[1]));
}

Test(fabric_wire, loopback)
{
	struct wire_tx *tx = tx_between(2, 2);
	int from;

	for (int i = 0; i < 5000; i++) {
		cr_assert(util_send(tx, PKT_SEND, (uint32_t)i, NULL, (uint32_t)(i % 500)));
		cr_assert(wire_has_work(node[2]));
		cr_assert_eq(take(2, &from), i);
		cr_assert_eq(from, (int)node_index(node[2]));
		cr_assert_eq(take(2, NULL), -1);
	}
}

/* Fills the ring, drains it, over and over with all sizes: nothing lost, nothing out of order, nothing torn. */
Test(fabric_wire, full_and_empty)
{
	struct wire_tx *tx = tx_between(0, 1);
	uint32_t max_B = wire_payload_max_B(tx), sent = 0, got = 0;
	unsigned char data[FAB_RING_MIN_B / 4];
	uint64_t r = 1;

	cr_assert_eq(max_B, FAB_RING_MIN_B / 4);
	cr_assert_null(wire_reserve(tx, 32, 4 * max_B), "larger than any room");
	for (int round = 0; round < 300; round++) {
		for (;;) {
			uint32_t len_B = util_random(&r) % (round % 2 ? max_B + 1 : 100);
			util_fill(data, len_B, sent);
			if (!util_send(tx, PKT_SEND, sent, data, len_B))
				break;
			sent++;
		}
		uint32_t until = round % 3 ? sent : got + (sent - got) / 2;
		while (got < until) {
			int peer = wire_pending(node[1]);
			cr_assert_eq(peer, (int)node_index(node[0]));
			struct pkt *p = wire_next(node[1], (uint32_t)peer);
			cr_assert_not_null(p);
			cr_assert_eq(p->psn, got);
			cr_assert(util_same(pkt_payload(p), p->payload_B, got));
			wire_consume(node[1], (uint32_t)peer);
			got++;
		}
	}
	cr_assert_gt(sent, 3000);
}

/* A waiting producer is told by its pending bit, also when the consumer's ring to it is the hot one. */
static void check_room_signal(bool hot)
{
	struct wire_tx *tx = tx_between(0, 1), *back = tx_between(1, 0);
	uint32_t sent = 0;
	int from;

	if (hot) {
		cr_assert(util_send(back, PKT_ACK, 7, NULL, 0));
		cr_assert_eq(take(0, &from), 7);
	}
	for (int round = 0; round < 20; round++) {
		while (util_send(tx, PKT_SEND, sent & 0xffffff, NULL, 1000))
			sent++;
		cr_assert_eq(take(0, NULL), -1);
		cr_assert_not(wire_has_work(node[0]));
		int got = 0;
		while (!wire_has_work(node[0])) {
			cr_assert_geq(take(1, NULL), 0, "drained without a signal");
			got++;
		}
		cr_assert_eq(wire_pending(node[0]), (int)node_index(node[1]));
		cr_assert_null(wire_next(node[0], node_index(node[1])));
		cr_assert_not(wire_has_work(node[0]));
		if (hot) { /* and the ring is still polled */
			cr_assert(util_send(back, PKT_ACK, 8, NULL, 0));
			cr_assert(wire_has_work(node[0]));
			cr_assert_eq(take(0, &from), 8);
		}
	}
}

Test(fabric_wire, room_signal)
{
	check_room_signal(false);
}

Test(fabric_wire, room_signal_of_hot_peer)
{
	check_room_signal(true);
}

/* A drained ring always has room for the largest record, wherever its end lies. */
Test(fabric_wire, largest_always_fits_when_empty)
{
	struct wire_tx *tx = tx_between(0, 1);
	uint32_t max_B = wire_payload_max_B(tx);

	for (int i = 0; i < 2000; i++) {
		cr_assert(util_send(tx, PKT_SEND, 1, NULL, (uint32_t)(i % 3 ? 10 : 64 * (i % 7))));
		cr_assert(util_send(tx, PKT_ATOMIC_REQ, 2, NULL, max_B));
		cr_assert_eq(take(1, NULL), 1);
		cr_assert_eq(take(1, NULL), 2);
		cr_assert_eq(take(1, NULL), -1);
	}
}

Test(fabric_wire, peers_take_turns)
{
	struct wire_tx *tx[3] = {tx_between(0, 3), tx_between(1, 3), tx_between(2, 3)};
	int from, seen[3] = {0};

	for (uint32_t i = 0; i < 60; i++)
		cr_assert(util_send(tx[i % 3], PKT_SEND, i / 3, NULL, 8));
	for (int i = 0; i < 60; i++) {
		int psn = take(3, &from);
		int who = from == (int)node_index(node[0]) ? 0 : from == (int)node_index(node[1]) ? 1 : 2;
		cr_assert_eq(psn, seen[who]++);
		for (int j = 0; j < 3; j++)
			cr_assert_leq(seen[who], seen[j] + 1, "one peer is served twice before another");
	}
	cr_assert_eq(take(3, NULL), -1);
	cr_assert_not(wire_has_work(node[3]));
	/* Cold rings wake up again. */
	for (uint32_t i = 0; i < 30; i++) {
		cr_assert(util_send(tx[i % 3], PKT_SEND, i, NULL, 8));
		cr_assert(wire_has_work(node[3]));
		cr_assert_eq(take(3, NULL), (int)i);
		cr_assert_eq(take(3, NULL), -1);
	}
}

/* While a ring is hot its sender finds the bit set: no atomic operation on the receiver's line. */
Test(fabric_wire, hot_ring_keeps_its_bit)
{
	struct wire_tx *tx = tx_between(0, 1);
	uint64_t bit = UINT64_C(1) << node_index(node[0]);

	for (uint32_t i = 0; i < 10; i++) {
		cr_assert(util_send(tx, PKT_SEND, i, NULL, 8));
		cr_assert_eq(take(1, NULL), (int)i);
		cr_assert_eq(take(1, NULL), -1);
		cr_assert(atomic_load(&node_seg(node[1])->pending) & bit);
		cr_assert_not(wire_has_work(node[1]));
	}
}

/* ---- peers that go ---- */

Test(fabric_wire, leaving_peer_is_drained_first)
{
	struct wire_tx *tx = tx_between(0, 1), *back = tx_between(1, 0);
	int from;

	for (uint32_t i = 0; i < 5; i++)
		cr_assert(util_send(tx, PKT_SEND, i, NULL, 8));
	uint32_t gone = node_index(node[0]);
	node_drop_life(node[0]);
	node_leave(node[0]);
	node[0] = NULL;
	for (int i = 0, turns = 0; i < 5; turns++) {
		cr_assert_lt(turns, 8);
		cr_assert(wire_has_work(node[1]));
		int psn = take(1, &from);
		if (psn < 0) /* the departure takes a turn too */
			continue;
		cr_assert_eq(psn, i++);
		cr_assert_eq(from, (int)gone);
	}
	/* Its departure shows once; then all is quiet and the rings are given back. */
	for (int i = 0; wire_has_work(node[1]); i++) {
		cr_assert_lt(i, 3);
		take(1, NULL);
	}
	cr_assert_eq(atomic_load(&fabric_seg(world.f)->rings[gone][node_index(node[1])]), 0);
	cr_assert_eq(atomic_load(&fabric_seg(world.f)->rings[node_index(node[1])][gone]), 0);
	/* What is sent there vanishes. */
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert(util_send(back, PKT_SEND, 1, NULL, wire_payload_max_B(back)));
	cr_assert(wire_tx_drained(back));
	cr_assert_eq(wire_tx_open(node[1], gone, &back), -EHOSTUNREACH);
}

/* The slot's next node uses rings of its own, also while the old ones are not drained. */
Test(fabric_wire, slot_used_again)
{
	struct wire_tx *old_back = tx_between(1, 0), *fresh;
	uint32_t gone = node_index(node[0]);

	for (int life = 0; life < 5; life++) {
		cr_assert(util_send(tx_between(0, 1), PKT_SEND, (uint32_t)life, NULL, 8));
		node_drop_life(node[0]);
		node_leave(node[0]);
		cr_assert_eq(node_join(world.f, &node[0]), 0);
		cr_assert_eq(node_hold_life(node[0]), 0);
		cr_assert_eq(node_index(node[0]), gone);
	}
	cr_assert(util_send(tx_between(0, 1), PKT_SEND, 5, NULL, 8));
	for (int expected = 0, tries = 0; expected < 6; tries++) {
		cr_assert_lt(tries, 30);
		int psn = take(1, NULL);
		if (psn >= 0)
			cr_assert_eq(psn, expected++);
	}
	cr_assert(util_send(old_back, PKT_SEND, 99, NULL, 8), "to the node that has gone");
	cr_assert_eq(wire_tx_open(node[1], gone, &fresh), 0);
	cr_assert_neq(fresh, old_back);
	cr_assert(util_send(old_back, PKT_SEND, 98, NULL, 8));
	cr_assert(util_send(fresh, PKT_SEND, 42, NULL, 8));
	cr_assert_eq(take(0, NULL), 42);
}

/* A departure is seen while the ring of the one who left is the hot one and idle. */
Test(fabric_wire, hot_peer_leaves)
{
	cr_assert(util_send(tx_between(0, 1), PKT_SEND, 3, NULL, 8));
	cr_assert_eq(take(1, NULL), 3);
	cr_assert_eq(take(1, NULL), -1);
	uint32_t gone = node_index(node[0]);
	node_drop_life(node[0]);
	node_leave(node[0]);
	node[0] = NULL;
	for (int i = 0; wire_has_work(node[1]); i++) {
		cr_assert_lt(i, 4);
		take(1, NULL);
	}
	cr_assert_eq(atomic_load(&fabric_seg(world.f)->rings[gone][node_index(node[1])]), 0);
}

/* ---- hostile content ---- */

/* Publishes a good record after `spoil` had its way with it: it must close the ring, and nothing else. */
static void check_refused(void (*spoil)(struct pkt *, unsigned units), bool by_ref)
{
	struct wire_tx *tx = tx_between(0, 1);
	uint32_t from = node_index(node[0]);

	cr_assert(util_send(tx, PKT_SEND, 1, NULL, 8));
	struct pkt *p = wire_reserve(tx, 0, 32);
	p->op = PKT_SEND;
	p->psn_count = 1;
	p->payload_B = by_ref ? 300 : 32;
	if (by_ref) {
		struct pkt_ref refs[2] = {{0x1000, 100}, {0x2000, 200}};
		p->flags = PKF_BY_REF;
		memcpy(pkt_payload(p), refs, sizeof(refs));
	}
	p = wire_slot(tx);
	wire_publish(tx);
	cr_assert_eq(take(1, NULL), 1);
	if (!spoil) {
		cr_assert_not_null(wire_next(node[1], from));
		return;
	}
	spoil(p, 2);
	cr_assert(node_alive(node[1], from, node_incarnation(node[0])));
	cr_assert_null(wire_next(node[1], from));
	cr_assert_null(wire_next(node[1], from));
	cr_assert_not(node_alive(node[1], from, node_incarnation(node[0])), "treated as dead");
	for (int i = 0; wire_has_work(node[1]); i++) {
		cr_assert_lt(i, 3);
		cr_assert_eq(take(1, NULL), -1);
	}
	/* The sender's packets vanish; others are not harmed. */
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert(util_send(tx, PKT_SEND, 1, NULL, 1000));
	cr_assert(util_send(tx_between(2, 1), PKT_SEND, 77, NULL, 8));
	for (int i = 0; take(1, NULL) != 77; i++)
		cr_assert_lt(i, 3);
}

static void spoil_op(struct pkt *p, unsigned units)
{
	(void)units;
	p->op = PKT_OP_COUNT;
}

static void spoil_payload(struct pkt *p, unsigned units)
{
	p->payload_B = units * PKT_UNIT_B - 40 + 1;
}

static void spoil_payload_huge(struct pkt *p, unsigned units)
{
	(void)units;
	p->payload_B = UINT32_MAX;
}

static void spoil_word(struct pkt *p, unsigned units)
{
	(void)units;
	p->word = 0x7fffffff;
}

static void spoil_skip(struct pkt *p, unsigned units)
{
	(void)units;
	p->word = 0x80000003;
}

static void spoil_ext(struct pkt *p, unsigned units)
{
	(void)units;
	p->word = 1;
	p->op = PKT_ATOMIC_REQ;
	p->payload_B = 0;
}

static void spoil_count(struct pkt *p, unsigned units)
{
	(void)units;
	p->psn_count = 0;
}

static void spoil_psn(struct pkt *p, unsigned units)
{
	(void)units;
	p->psn = 1 << 24;
}

static void spoil_ref(struct pkt *p, unsigned units)
{
	(void)units;
	((struct pkt_ref *)pkt_payload(p))[1].len_B = UINT64_MAX - 50;
}

static void spoil_ref_short(struct pkt *p, unsigned units)
{
	(void)units;
	((struct pkt_ref *)pkt_payload(p))[1].len_B = 0;
}

#define HOSTILE(name, by_ref)                                                                                          \
	Test(fabric_wire, hostile_##name)                                                                              \
	{                                                                                                              \
		check_refused(spoil_##name, by_ref);                                                                   \
	}
HOSTILE(op, false)
HOSTILE(payload, false)
HOSTILE(payload_huge, false)
HOSTILE(word, false)
HOSTILE(skip, false)
HOSTILE(ext, false)
HOSTILE(count, false)
HOSTILE(psn, false)
HOSTILE(ref, true)
HOSTILE(ref_short, true)

Test(fabric_wire, good_records_pass)
{
	check_refused(NULL, false);
}

Test(fabric_wire, good_list_passes)
{
	check_refused(NULL, true);
}

/* Random bytes over the whole ring and its header: no access outside, no endless loop. */
Test(fabric_wire, noise)
{
	uint64_t r = 42;

	for (int round = 0; round < 300; round++) {
		struct wire_tx *tx = tx_between(0, 1), *back = tx_between(1, 0);
		seg_off off = atomic_load(&fabric_seg(world.f)->rings[node_index(node[0])][node_index(node[1])]);
		cr_assert(util_send(tx, PKT_SEND, 1, NULL, 200));
		if (round % 2)
			take(1, NULL);
		char *ring = (char *)fabric_seg(world.f) + off;
		for (int i = 0; i < 400; i++) {
			size_t at = util_random(&r) % (round % 3 ? 4096 : 192);
			ring[at] = (char)util_random(&r);
		}
		for (int i = 0; i < 100; i++) {
			take(1, NULL);
			util_send(tx, PKT_SEND, 1, NULL, util_random(&r) % 3000);
			util_send(back, PKT_SEND, 1, NULL, 10);
			take(0, NULL);
		}
		node_drop_life(node[0]);
		node_leave(node[0]);
		cr_assert_eq(node_join(world.f, &node[0]), 0);
		cr_assert_eq(node_hold_life(node[0]), 0);
	}
	cr_assert(util_send(tx_between(2, 3), PKT_SEND, 5, NULL, 8));
	cr_assert_eq(take(3, NULL), 5, "others work on");
}
