/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes pass records of random sizes to each other, both ways at once, through small rings that fill up all
 * the time; each sleeps when it has nothing to do, so that a lost wake-up hangs. fabric_stream [records]
 */
#include "tests/unit/fabric_util.h"

#include <stdio.h>
#include <string.h>

struct side {
	struct fab_node *n;
	struct wire_tx *tx;
	uint32_t peer, sent, got, total;
	uint64_t random_out, random_in;
	unsigned char data[FAB_RING_MIN_B / 4];
};

/* Mostly small, sometimes as large as it may be. */
static uint32_t random_len(uint64_t *state, uint32_t max_B)
{
	uint32_t r = util_random(state);

	return r % 64 ? r / 64 % 200 : r / 64 % (max_B + 1);
}

static bool send_some(struct side *s)
{
	bool any = false;

	for (int i = 0; i < 50 && s->sent < s->total; i++) {
		uint64_t state = s->random_out;
		uint32_t len_B = random_len(&state, wire_payload_max_B(s->tx));
		util_fill(s->data, len_B, s->sent);
		if (!util_send(s->tx, PKT_SEND, s->sent & 0xffffff, s->data, len_B))
			break;
		s->random_out = state;
		s->sent++;
		any = true;
	}
	return any;
}

static bool receive_some(struct side *s)
{
	bool any = false;
	int from = wire_pending(s->n);

	for (int i = 0; from == (int)s->peer && i < 40; i++) {
		struct pkt *p = wire_next(s->n, s->peer);
		if (!p)
			break;
		CHECK(p->psn == (s->got & 0xffffff));
		CHECK(p->payload_B == random_len(&s->random_in, wire_payload_max_B(s->tx)));
		CHECK(util_same(pkt_payload(p), p->payload_B, s->got));
		wire_consume(s->n, s->peer);
		s->got++;
		any = true;
	}
	return any;
}

static void run(const struct util_world *world, uint32_t total)
{
	struct fabric *f = util_attach(world);
	struct side *s = calloc(1, sizeof(*s));

	CHECK(s);
	fabric_set_ring_B(f, FAB_RING_MIN_B);
	CHECK(!node_join(f, &s->n) && !node_hold_life(s->n));
	s->peer = util_find_peer(s->n);
	CHECK(!wire_tx_open(s->n, s->peer, &s->tx));
	s->total = total;
	s->random_out = s->random_in = 7;
	unsigned sleeps = 0;
	while (s->sent < total || s->got < total || !wire_tx_drained(s->tx)) {
		bool any = send_some(s);
		any |= receive_some(s);
		if (any || wire_has_work(s->n))
			continue;
		if (s->sent == total && s->got == total) { /* nobody tells us when the ring is drained */
			util_nap_us(100);
			continue;
		}
		sleeps++;
		if (!node_sleep(s->n, INT64_C(5000000000)))
			util_die("asleep for 5 s: sent %u, got %u of %u", s->sent, s->got, total);
	}
	printf("sent and received %u records, slept %u times\n", total, sleeps);
	node_drop_life(s->n);
	node_leave(s->n);
	free(s);
	fabric_close(f);
}

int main(int argc, char **argv)
{
	uint32_t total = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000000;
	struct util_world world;

	util_deadline_s(120);
	util_world_open(&world, "stream", 1);
	for (int i = 0; i < 2; i++) {
		if (util_fork() == 0) {
			run(&world, total);
			exit(0);
		}
	}
	util_wait_all();
	util_world_close(&world);
	return 0;
}
