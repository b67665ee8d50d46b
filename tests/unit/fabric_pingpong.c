/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A measurement, not a test: one-way time of a packet between two processes over the wire, and the cost of the idle
 * look. fabric_pingpong [rounds] [payload bytes]
 */
#include "tests/unit/fabric_util.h"

#include <stdio.h>

static int64_t bounce(struct fab_node *n, struct wire_tx *tx, uint32_t peer, bool first, long rounds, uint32_t len_B)
{
	int64_t start = 0;

	for (long i = 0; i < rounds; i++) {
		if (i == rounds / 10)
			start = util_now_ns();
		if (first)
			util_send(tx, PKT_SEND, (uint32_t)i & 0xffffff, NULL, len_B);
		while (!util_receive(n, peer))
			;
		if (!first)
			util_send(tx, PKT_SEND, (uint32_t)i & 0xffffff, NULL, len_B);
	}
	return util_now_ns() - start;
}

static void measure_idle(struct fab_node *n, long rounds)
{
	unsigned work = 0;
	int64_t t = util_now_ns();

	for (long i = 0; i < rounds; i++)
		work += wire_has_work(n);
	printf("idle look: %.2f ns\n", (double)(util_now_ns() - t) / (double)rounds);
	t = util_now_ns();
	for (long i = 0; i < rounds; i++)
		work += wire_pending(n) >= 0;
	printf("wire_pending, nothing there: %.2f ns\n", (double)(util_now_ns() - t) / (double)rounds);
	CHECK(!work);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1000000;
	uint32_t len_B = argc > 2 ? (uint32_t)atoi(argv[2]) : 8;
	struct util_world world;
	struct wire_tx *tx;

	util_world_open(&world, "pingpong", 1);
	bool child = util_fork() == 0;
	struct fabric *f = util_attach(&world);
	struct fab_node *n;
	if (node_join(f, &n) || node_hold_life(n))
		util_die("join");
	uint32_t peer = util_find_peer(n);
	if (wire_tx_open(n, peer, &tx))
		util_die("tx");
	int64_t ns = bounce(n, tx, peer, !child, rounds, len_B);
	if (!child) {
		printf("one way, %u B: %.1f ns\n", len_B, (double)ns / (double)(rounds - rounds / 10) / 2);
		measure_idle(n, rounds);
		util_send(tx, PKT_SEND, 0, NULL, 0);
	}
	while (child && !util_receive(n, peer))
		util_nap_us(100);
	node_drop_life(n);
	node_leave(n);
	fabric_close(f);
	if (child)
		_exit(0);
	util_wait_all();
	util_world_close(&world);
	return 0;
}
