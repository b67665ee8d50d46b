/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes, queue-pair numbers, published keys, extents. */
#include "tests/unit/fabric_util.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static struct util_world world;
static struct fab_node *me;

static struct fab_node *join(void)
{
	struct fab_node *n;

	cr_assert_eq(node_join(world.f, &n), 0);
	cr_assert_eq(node_hold_life(n), 0);
	return n;
}

static void leave(struct fab_node *n)
{
	node_drop_life(n);
	node_leave(n);
}

static void setup(void)
{
	util_world_open(&world, "node", 2);
	me = join();
}

static void teardown(void)
{
	leave(me);
	util_world_close(&world);
}

TestSuite(fabric_node, .init = setup, .fini = teardown, .timeout = 60);

/* ---- life ---- */

Test(fabric_node, join_and_leave)
{
	struct fab_node *a = join(), *b = join();
	uint32_t index = node_index(a);
	uint64_t inc = node_incarnation(a);

	cr_assert_neq(node_index(a), node_index(b));
	cr_assert_neq(node_incarnation(a), node_incarnation(b));
	cr_assert(node_alive(me, index, inc));
	cr_assert_not(node_alive(me, index, inc + 100));
	cr_assert_not(node_alive(me, FAB_NODES_MAX, inc));
	leave(a);
	cr_assert_not(node_alive(me, index, inc));
	a = join();
	cr_assert_eq(node_index(a), index, "the slot is used again");
	cr_assert_neq(node_incarnation(a), inc);
	cr_assert_not(node_alive(me, index, inc));
	leave(a);
	leave(b);
}

Test(fabric_node, all_slots_taken)
{
	struct fab_node *n[FAB_NODES_MAX], *more;

	for (uint32_t i = 1; i < FAB_NODES_MAX; i++)
		n[i] = join();
	cr_assert_eq(node_join(world.f, &more), -EUSERS);
	leave(n[5]);
	n[5] = join();
	cr_assert_eq(node_index(n[5]), 5);
	for (uint32_t i = 1; i < FAB_NODES_MAX; i++)
		leave(n[i]);
}

/* A node without its agent counts as alive for a while, then not; an agent that comes too late is told. */
Test(fabric_node, grace)
{
	struct fab_node *n;

	cr_assert_eq(node_join(world.f, &n), 0);
	uint32_t index = node_index(n);
	uint64_t inc = node_incarnation(n);
	cr_assert(node_alive(me, index, inc));
	node_seg(n)->changed_ns -= (uint64_t)FAB_GRACE_NS;
	cr_assert_not(node_alive(me, index, inc));
	cr_assert_eq(node_hold_life(n), -ESTALE);
	node_leave(n);
}

Test(fabric_node, stopped_process_is_alive)
{
	pid_t pid = util_fork();

	if (!pid) {
		struct fabric *f = util_attach(&world);
		struct fab_node *n;
		CHECK(!node_join(f, &n) && !node_hold_life(n));
		for (;;)
			pause();
	}
	uint32_t peer = util_find_peer(me);
	uint64_t inc = atomic_load(&fabric_seg(world.f)->nodes[peer].incarnation);
	while (atomic_load(&fabric_seg(world.f)->nodes[peer].life_state) != LIFE_HELD)
		util_nap_us(50);
	kill(pid, SIGSTOP);
	util_nap_us(20000);
	cr_assert(node_alive(me, peer, inc));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_assert_not(node_alive(me, peer, inc));
}

Test(fabric_node, direct_path_probe)
{
	int go[2];
	int32_t pid_seen;

	cr_assert_eq(pipe(go), 0);
	pid_t pid = util_fork();
	if (!pid) {
		struct fabric *f = util_attach(&world);
		struct fab_node *n;
		char c;
		CHECK(!node_join(f, &n) && !node_hold_life(n));
		(void)!read(go[0], &c, 1);
		node_drop_life(n);
		node_leave(n);
		fabric_close(f);
		util_child_done();
	}
	uint32_t peer = util_find_peer(me);
	struct seg_node *s = &fabric_seg(world.f)->nodes[peer];
	uint64_t inc = atomic_load(&s->incarnation), value = s->probe_value;
	cr_assert(node_direct_ok(me, peer, inc, &pid_seen));
	cr_assert_eq(pid_seen, pid);
	cr_assert(node_direct_ok(me, node_index(me), node_incarnation(me), &pid_seen));
	cr_assert_not(node_direct_ok(me, peer, inc + 1, &pid_seen));
	/* Another process with that pid would hold another value there. */
	struct fab_node *other = join();
	s->probe_value = value + 1;
	cr_assert_not(node_direct_ok(other, peer, inc, &pid_seen));
	leave(other);
	cr_assert_eq(write(go[1], "x", 1), 1);
	util_wait_ok(pid);
}

Test(fabric_node, forked_child_forgets)
{
	pid_t pid = util_fork();

	if (!pid) {
		node_forget_after_fork(me);
		util_child_done();
	}
	util_wait_ok(pid);
	cr_assert_eq(atomic_load(&node_seg(me)->incarnation), node_incarnation(me));
	struct fab_node *n = join();
	cr_assert(node_alive(n, node_index(me), node_incarnation(me)));
	leave(n);
}

/* ---- queue pairs ---- */

Test(fabric_node, qp_numbers)
{
	enum { NUM = 3 * FAB_QP_CHUNK + 5 };
	static uint32_t qpn[NUM];
	static struct seg_qp *qp[NUM];
	uint32_t again;
	struct seg_qp *slot;

	cr_assert_null(fabric_qp(world.f, 0));
	cr_assert_null(fabric_qp(world.f, 1));
	cr_assert_null(fabric_qp(world.f, 0x11));
	for (int i = 0; i < NUM; i++) {
		cr_assert_eq(fabric_qp_alloc(me, &qpn[i], &qp[i]), 0);
		cr_assert(qpn[i] > 1 && qpn[i] < 1 << 24);
		cr_assert_eq(fabric_qp(world.f, qpn[i]), qp[i]);
		cr_assert_eq(atomic_load(&qp[i]->owner), SEG_OWNER(node_index(me), node_incarnation(me)));
		qp[i]->pd = (uint32_t)i;
	}
	for (uint32_t i = 0; i < NUM; i++)
		cr_assert_eq(qp[i]->pd, i, "slots are distinct");
	cr_assert_eq(SEG_OWNER_NODE(atomic_load(&qp[0]->owner)), node_index(me));
	cr_assert_eq(SEG_OWNER_INC(atomic_load(&qp[0]->owner)), node_incarnation(me));
	cr_assert_null(fabric_qp(world.f, 0x11 + 4 * FAB_QP_CHUNK));
	cr_assert_null(fabric_qp(world.f, UINT32_MAX));
	fabric_qp_free(me, qpn[0]);
	fabric_qp_free(me, qpn[1]);
	cr_assert_eq(qp[0]->pd, 0, "a free slot is clean");
	cr_assert_eq(fabric_qp_alloc(me, &again, &slot), 0);
	cr_assert_neq(again, qpn[0], "a number is not used again at once");
	cr_assert_neq(again, qpn[1]);
	fabric_qp_free(me, again);
	for (int i = 2; i < NUM; i++)
		fabric_qp_free(me, qpn[i]);
}

Test(fabric_node, only_the_owner_frees)
{
	struct fab_node *other = join();
	struct seg_qp *qp;
	uint32_t qpn;

	cr_assert_eq(fabric_qp_alloc(me, &qpn, &qp), 0);
	fabric_qp_free(other, qpn);
	cr_assert_neq(atomic_load(&qp->owner), 0);
	fabric_qp_free(other, 0xffffff);
	leave(other);
	cr_assert_neq(atomic_load(&qp->owner), 0);
}

Test(fabric_node, counters_outlive_queue_pairs)
{
	struct seg_device *d = &fabric_seg(world.f)->devices[1];
	struct seg_qp *qp[2];
	uint32_t qpn[2];

	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(fabric_qp_alloc(me, &qpn[i], &qp[i]), 0);
		qp[i]->device = 1;
		qp[i]->port = i + 1;
		atomic_store(&qp[i]->counters[CTR_TX_BYTES], 100 + i);
		qp[i]->rd_atom = 4;
		atomic_fetch_add(&d->rd_atom_used, 4);
	}
	atomic_fetch_add(&d->counters[CTR_TX_BYTES], 1000);
	for (uint32_t living = 3; living-- > 0;) {
		cr_assert_eq(fabric_counter(world.f, 1, CTR_TX_BYTES), 1201);
		cr_assert_eq(fabric_counter(world.f, 0, CTR_TX_BYTES), 0);
		cr_assert_eq(fabric_port_counter(world.f, 1, 1, CTR_TX_BYTES), 1100);
		cr_assert_eq(fabric_port_counter(world.f, 1, 2, CTR_TX_BYTES), 101);
		cr_assert_eq(atomic_load(&d->rd_atom_used), 4 * living);
		if (living)
			fabric_qp_free(me, qpn[living - 1]);
	}
}

/* ---- keys ---- */

Test(fabric_node, published_keys)
{
	struct fab_node *peer = join();
	struct seg_key *k = node_key_slot(me, 1000);

	cr_assert_not_null(k);
	cr_assert_eq(atomic_load(&k->key), 0);
	cr_assert_null(node_key_slot(me, FAB_KEY_CHUNKS_MAX * FAB_KEY_CHUNK));
	cr_assert_not_null(node_key_slot(me, FAB_KEY_CHUNKS_MAX * FAB_KEY_CHUNK - 1));
	atomic_store(&k->key, 0xabc);
	cr_assert_eq(node_peer_key(peer, node_index(me), 1000), k);
	cr_assert_null(node_peer_key(peer, node_index(me), 3000), "no chunk there");
	cr_assert_null(node_peer_key(peer, node_index(me), UINT32_MAX));
	cr_assert_null(node_peer_key(peer, FAB_NODES_MAX, 0));
	node_withdraw_key(me, k);
	cr_assert_eq(atomic_load(&k->key), 0);
	leave(peer);
}

/* ---- extents ---- */

Test(fabric_node, memory_does_not_grow)
{
	uint64_t size_B = 0;

	for (int i = 0; i < 200; i++) {
		struct fab_node *n = join();
		struct wire_tx *tx;
		struct seg_qp *qp;
		uint32_t qpn;
		cr_assert_eq(wire_tx_open(n, node_index(me), &tx), 0);
		cr_assert(util_send(tx, PKT_SEND, 1, NULL, 8));
		cr_assert_eq(wire_tx_open(me, node_index(n), &tx), 0);
		cr_assert_eq(wire_tx_open(n, node_index(n), &tx), 0);
		cr_assert_eq(fabric_qp_alloc(n, &qpn, &qp), 0);
		cr_assert_not_null(node_key_slot(n, 0));
		if (i % 2)
			util_receive(me, node_index(n));
		leave(n);
		while (wire_has_work(me)) {
			int from = wire_pending(me);
			while (from >= 0 && wire_next(me, (uint32_t)from))
				wire_consume(me, (uint32_t)from);
		}
		if (i == 5)
			size_B = fabric_seg(world.f)->size_B;
	}
	cr_assert_eq(fabric_seg(world.f)->size_B, size_B);
	cr_assert_lt(size_B, 3 << 20, "a pair of processes is to cost less than this");
}

/* Rings of different sizes share the free extents. */
Test(fabric_node, ring_sizes)
{
	struct wire_tx *tx;
	static const uint32_t asked[] = {0, 20000, 1 << 20, UINT32_MAX},
			      got[] = {16 << 10, 32 << 10, 1 << 20, 16 << 20};

	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		struct fab_node *n = join();
		fabric_set_ring_B(world.f, asked[i]);
		cr_assert_eq(wire_tx_open(n, node_index(me), &tx), 0);
		cr_assert_eq(wire_payload_max_B(tx), got[i] / 4);
		leave(n);
		for (int j = 0; j < 5; j++)
			util_receive(me, (uint32_t)wire_pending(me));
	}
}

/* A list of free extents that a stray pointer has damaged costs memory and nothing else. */
Test(fabric_node, damaged_free_list)
{
	struct seg_header *h = fabric_seg(world.f);
	static const uint64_t bad[] = {1, 4096, UINT64_MAX, UINT64_C(1) << 40, 0};
	struct wire_tx *tx;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct fab_node *n = join();
		cr_assert_eq(wire_tx_open(n, node_index(n), &tx), 0);
		leave(n);
		cr_assert_neq(h->free_extents, 0);
		((uint64_t *)(void *)((char *)h + h->free_extents))[i % 2] = bad[i];
		if (i > 2)
			h->free_extents = bad[i];
		n = join();
		cr_assert_eq(wire_tx_open(n, node_index(n), &tx), 0);
		cr_assert(util_send(tx, PKT_SEND, 1, NULL, 100));
		leave(n);
	}
}

/* Offsets from tables are checked: a chunk that lies outside is no chunk. */
Test(fabric_node, damaged_tables)
{
	struct seg_header *h = fabric_seg(world.f);
	struct fab_node *peer = join();
	static const seg_off bad[] = {1, 8, 4096, UINT64_MAX, UINT64_MAX - 4095, UINT64_C(1) << 33, 12345};
	struct seg_qp *qp;
	uint32_t qpn;

	cr_assert_eq(fabric_qp_alloc(me, &qpn, &qp), 0);
	seg_off good = atomic_load(&h->qp_chunks[0]);
	cr_assert_not_null(node_key_slot(me, 0));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		atomic_store(&h->qp_chunks[0], bad[i]);
		cr_assert_null(fabric_qp(world.f, qpn));
		atomic_store(&node_seg(me)->key_chunks[0], bad[i]);
		cr_assert_null(node_peer_key(peer, node_index(me), 0));
		atomic_store(&h->rings[node_index(peer)][node_index(me)], bad[i]);
		cr_assert_null(wire_next(me, node_index(peer)));
	}
	atomic_store(&h->num_qp_chunks, UINT32_MAX);
	for (uint32_t i = 0; i < 1 << 24; i += 4099)
		cr_assert_null(fabric_qp(world.f, i));
	atomic_store(&h->num_qp_chunks, 1);
	atomic_store(&h->qp_chunks[0], good);
	cr_assert_eq(fabric_qp(world.f, qpn), qp);
	leave(peer);
}
