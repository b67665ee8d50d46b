/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes are killed at random moments: while they send, and while they join, leave, claim queue pairs and make
 * rings. Whoever remains sees whole packets only, sees the death, gets everything back, and never hangs.
 */
#include "sim/fabric/private.h"
#include "tests/unit/fabric_util.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define KILLS 50

static struct util_world world;

static uint32_t free_qp_slots(struct fabric *f, uint32_t *all)
{
	struct seg_header *h = fabric_seg(f);
	uint32_t none = 0;
	struct seg_qp *qp;

	*all = atomic_load(&h->num_qp_chunks) * FAB_QP_CHUNK;
	for (uint32_t n = 0, i = 0; i < *all; n++)
		if ((qp = fabric_qp(f, n))) {
			none += !atomic_load(&qp->owner);
			i++;
		}
	return none;
}

/* What is on the list of free extents; each begins with {next, size}. */
static uint64_t free_B(struct fabric *f)
{
	const struct seg_header *h = fabric_seg(f);
	uint64_t sum = 0, last = 0;

	for (seg_off off = h->free_extents; off;) {
		const uint64_t *e = seg_at(f, off, 16);
		CHECK(e && off > last && e[1] && off + e[1] <= h->size_B);
		sum += e[1];
		last = off;
		off = e[0];
	}
	return sum;
}

static void kill_child(pid_t pid)
{
	int status;

	CHECK(!kill(pid, SIGKILL));
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
}

/* ---- while sending ---- */

/* Sends for ever to the first node it sees; holds two queue pairs with counters and some READ budget. */
static void victim_sender(void)
{
	struct fabric *f = util_attach(&world);
	static unsigned char data[4096];
	struct fab_node *n;
	struct wire_tx *tx;
	struct seg_qp *qp;
	uint32_t qpn;

	CHECK(!node_join(f, &n) && !node_hold_life(n));
	uint32_t peer = util_find_peer(n);
	for (int i = 0; i < 2; i++) {
		CHECK(!fabric_qp_alloc(n, &qpn, &qp));
		qp->port = 1;
		atomic_store(&qp->counters[CTR_POSTS], 5);
		qp->rd_atom = 3;
		atomic_fetch_add(&fabric_seg(f)->devices[0].rd_atom_used, 3);
	}
	CHECK(node_key_slot(n, 300));
	atomic_store(&node_key_slot(n, 300)->key, 0x1234);
	atomic_store(&fabric_seg(f)->nodes[peer].inside[node_index(n)], 1);
	CHECK(!wire_tx_open(n, peer, &tx));
	for (uint32_t i = 0;; i++) {
		util_fill(data, i % 4096, i);
		while (!util_send(tx, PKT_SEND, i & 0xffffff, data, i % 4096))
			;
	}
}

/* Receives until the deadline; every packet must be whole and in order. */
static uint32_t receive_until(struct fab_node *n, uint32_t peer, int64_t end_ns)
{
	uint32_t got = 0;

	while (util_now_ns() < end_ns) {
		int from = wire_pending(n);
		struct pkt *p = from == (int)peer ? wire_next(n, peer) : NULL;
		if (!p)
			continue;
		CHECK(p->psn == got % (1 << 24) && p->payload_B == got % 4096);
		CHECK(util_same(pkt_payload(p), p->payload_B, got));
		wire_consume(n, peer);
		got++;
	}
	return got;
}

static void drain(struct fab_node *n)
{
	for (int i = 0; wire_has_work(n); i++) {
		int from = wire_pending(n);
		struct pkt *p;
		CHECK(i < 1000);
		while (from >= 0 && (p = wire_next(n, (uint32_t)from))) {
			CHECK(util_same(pkt_payload(p), p->payload_B, p->psn));
			wire_consume(n, (uint32_t)from);
		}
	}
}

static void kill_senders(void)
{
	struct fabric *f = util_attach(&world);
	struct seg_header *h = fabric_seg(f);
	struct fab_node *n;
	uint64_t random = 99, size_B = 0, total = 0;
	uint32_t all;

	CHECK(!node_join(f, &n) && !node_hold_life(n));
	for (int i = 0; i < KILLS; i++) {
		pid_t pid = util_fork();
		if (!pid)
			victim_sender();
		uint32_t peer = util_find_peer(n);
		uint64_t inc = atomic_load(&h->nodes[peer].incarnation);
		while (!wire_has_work(n))
			util_nap_us(20);
		total += receive_until(n, peer, util_now_ns() + util_random(&random) % 4000000);
		CHECK(node_alive(n, peer, inc));
		kill_child(pid);
		CHECK(!node_alive(n, peer, inc));
		CHECK(!atomic_load(&h->nodes[peer].incarnation));
		drain(n);
		node_wait_outside(n);
		CHECK(!atomic_load(&h->rings[peer][node_index(n)]));
		CHECK(free_qp_slots(f, &all) == all);
		CHECK(fabric_counter(f, 0, CTR_POSTS) == 10 * ((uint64_t)i + 1));
		CHECK(!atomic_load(&h->devices[0].rd_atom_used));
		CHECK(!node_peer_key(n, peer, 300) || !atomic_load(&node_peer_key(n, peer, 300)->key));
		if (i == 2)
			size_B = h->size_B;
		CHECK(i < 3 || h->size_B == size_B);
	}
	printf("%d senders killed, %llu packets received\n", KILLS, (unsigned long long)total);
	node_drop_life(n);
	node_leave(n);
	fabric_close(f);
}

/* ---- while holding locks ---- */

/* Does what takes the segment's lock, all the time. */
static void victim_churner(void)
{
	struct fabric *f = util_attach(&world);
	struct wire_tx *tx;
	struct fab_node *n;
	struct seg_qp *qp;
	uint32_t qpn;

	fabric_set_ring_B(f, FAB_RING_MIN_B);
	for (;;) {
		if (node_join(f, &n))
			continue;
		CHECK(!node_hold_life(n));
		for (uint32_t i = 0; i < 4; i++)
			wire_tx_open(n, i, &tx);
		for (uint32_t i = 0; i < 3; i++)
			fabric_qp_alloc(n, &qpn, &qp);
		node_key_slot(n, 0);
		fabric_qp_free(n, qpn);
		node_drop_life(n);
		node_leave(n);
	}
}

static void kill_churners(void)
{
	struct fabric *f = util_attach(&world);
	struct seg_header *h = fabric_seg(f);
	struct fab_node *n[2];
	uint64_t random = 5;
	uint32_t all;

	for (int i = 0; i < 2; i++)
		CHECK(!node_join(f, &n[i]) && !node_hold_life(n[i]));
	pid_t pid[2] = {0};
	for (int i = 0; i < KILLS; i++) {
		for (int j = 0; j < 2; j++)
			if (!pid[j] && !(pid[j] = util_fork()))
				victim_churner();
		util_nap_us(1000 + util_random(&random) % 3000);
		kill_child(pid[i % 2]);
		pid[i % 2] = 0;
		for (int j = 0; j < 2; j++)
			drain(n[j]);
	}
	for (int j = 0; j < 2; j++)
		if (pid[j])
			kill_child(pid[j]);
	/* The grace of those who died between joining and holding their life runs out here and not in five seconds. */
	for (uint32_t i = 0; i < FAB_NODES_MAX; i++)
		h->nodes[i].changed_ns -= (uint64_t)FAB_GRACE_NS;
	struct fab_node *last;
	CHECK(!node_join(f, &last));
	node_leave(last);
	for (int j = 0; j < 2; j++)
		drain(n[j]);
	for (uint32_t i = 0; i < FAB_NODES_MAX; i++)
		CHECK(!atomic_load(&h->nodes[i].incarnation) || i == node_index(n[0]) || i == node_index(n[1]));
	CHECK(free_qp_slots(f, &all) == all);
	for (uint32_t i = 0; i < FAB_NODES_MAX * FAB_NODES_MAX; i++) {
		seg_off off = atomic_load(&h->rings[i / FAB_NODES_MAX][i % FAB_NODES_MAX]);
		struct seg_ring *r = (void *)((char *)h + off);
		if (off)
			util_die("ring %u (%llu) -> %u (%llu) is left, tx %u rx %u", i / FAB_NODES_MAX,
				 (unsigned long long)r->from_inc, i % FAB_NODES_MAX, (unsigned long long)r->to_inc,
				 r->tx_attached, r->rx_attached);
	}
	CHECK(h->size_B < 64 << 20 && h->size_B - free_B(world.f) < 2 << 20);
	printf("%d churners killed in %llu lives, segment %llu KiB, %llu of them free\n", KILLS,
	       (unsigned long long)h->next_incarnation, (unsigned long long)h->size_B >> 10,
	       (unsigned long long)free_B(world.f) >> 10);
	for (int i = 0; i < 2; i++) {
		node_drop_life(n[i]);
		node_leave(n[i]);
	}
	fabric_close(f);
}

/* One dies in the middle of the free extents' list: whoever comes next makes it anew from what is in use. */
static void kill_holder(void)
{
	struct fabric *f = util_attach(&world);
	struct seg_header *h = fabric_seg(f);
	static const seg_off wrong[] = {0, 4096, UINT64_MAX};
	struct fab_node *n, *more;
	struct wire_tx *tx;

	CHECK(!node_join(f, &n) && !node_hold_life(n));
	CHECK(!wire_tx_open(n, node_index(n), &tx) && node_key_slot(n, 0));
	uint64_t before_B = free_B(world.f), size_B = h->size_B;
	CHECK(before_B);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		pid_t pid = util_fork();
		if (!pid) {
			pthread_mutex_lock(&h->lock);
			h->free_extents = wrong[i];
			h->size_B = 1;
			util_child_done();
		}
		util_wait_ok(pid);
		CHECK(!node_join(f, &more));
		node_leave(more);
		CHECK(h->size_B == size_B);
		CHECK(free_B(world.f) == before_B);
	}
	CHECK(util_send(tx, PKT_SEND, 1, NULL, 8) && util_receive(n, node_index(n)));
	node_drop_life(n);
	node_leave(n);
	fabric_close(f);
}

int main(void)
{
	util_deadline_s(100);
	util_world_open(&world, "kill", 1);
	kill_senders();
	kill_churners();
	kill_holder();
	util_world_close(&world);
	return 0;
}
