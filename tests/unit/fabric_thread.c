/* SPDX-License-Identifier: BSD-2-Clause */
/* What needs threads: an agent that ends, sleeping and waking, withdrawing a key while a peer is inside. */
#include "tests/unit/fabric_util.h"

#include <pthread.h>
#include <stdio.h>

static struct util_world world;
static struct fab_node *me;

static struct fab_node *join(void)
{
	struct fab_node *n;

	CHECK(!node_join(world.f, &n) && !node_hold_life(n));
	return n;
}

static void leave(struct fab_node *n)
{
	node_drop_life(n);
	node_leave(n);
}

/* The thread that holds the life is what counts. */
static void *agent_that_ends(void *n)
{
	node_hold_life(n);
	return NULL;
}

static void dead_agent_is_a_dead_node(void)
{
	struct fab_node *n;
	struct seg_qp *qp;
	pthread_t t;
	uint32_t qpn;

	CHECK(!node_join(world.f, &n));
	CHECK(!fabric_qp_alloc(n, &qpn, &qp));
	uint32_t index = node_index(n);
	uint64_t inc = node_incarnation(n);
	pthread_create(&t, NULL, agent_that_ends, n);
	pthread_join(t, NULL);
	CHECK(!node_alive(me, index, inc));
	CHECK(!atomic_load(&qp->owner));
	fabric_qp_free(n, qpn); /* too late, and harmless */
	node_leave(n);
}

static void *waker(void *arg)
{
	struct seg_node *s = arg;

	while (!atomic_load(&s->agent_sleeps))
		util_nap_us(50);
	util_nap_us(1000);
	node_wake(s);
	return NULL;
}

static void sleep_and_wake(void)
{
	pthread_t t;
	int64_t start = util_now_ns();

	CHECK(!node_sleep(me, 20000000));
	CHECK(util_now_ns() - start >= 20000000);
	pthread_create(&t, NULL, waker, node_seg(me));
	CHECK(node_sleep(me, INT64_C(10000000000)));
	pthread_join(t, NULL);
	CHECK(!atomic_load(&node_seg(me)->agent_sleeps));
	atomic_fetch_or(&node_seg(me)->pending, 2);
	CHECK(node_sleep(me, -1)); /* work that came before is not slept over */
	CHECK(wire_pending(me) == 1);
	CHECK(!wire_has_work(me));
}

struct inside {
	_Atomic uint32_t *mark;
	_Atomic int64_t left_ns;
};

static void *stay_inside(void *arg)
{
	struct inside *in = arg;

	util_nap_us(20000);
	in->left_ns = util_now_ns();
	atomic_store(in->mark, 0);
	return NULL;
}

static void withdrawal_waits_for_peers(void)
{
	struct fab_node *peer = join();
	struct seg_key *k = node_key_slot(me, 0);
	struct inside in = {.mark = &node_seg(me)->inside[node_index(peer)]};
	pthread_t t;

	atomic_store(&k->key, 1);
	atomic_store(in.mark, 1);
	pthread_create(&t, NULL, stay_inside, &in);
	node_withdraw_key(me, k);
	CHECK(in.left_ns && util_now_ns() >= in.left_ns);
	pthread_join(t, NULL);
	leave(peer);
	/* Nobody is in that slot: its mark counts for nothing. */
	atomic_store(in.mark, 1);
	node_wait_outside(me);
	CHECK(!atomic_load(in.mark));
}

/* Threads of one process claim and free queue pairs and keys at once. */
static void *churn(void *arg)
{
	struct seg_qp *qp[40];
	uint32_t qpn[40];

	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 40; i++) {
			CHECK(!fabric_qp_alloc(me, &qpn[i], &qp[i]));
			CHECK(!qp[i]->pd);
			qp[i]->pd = qpn[i];
			atomic_store(&qp[i]->counters[CTR_POSTS], 1);
		}
		for (int i = 0; i < 40; i++) {
			CHECK(qp[i]->pd == qpn[i]);
			fabric_qp_free(me, qpn[i]);
		}
	}
	return arg;
}

static void threads_share_the_slots(void)
{
	pthread_t t[4];

	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_create(&t[i], NULL, churn, NULL);
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	CHECK(fabric_counter(world.f, 0, CTR_POSTS) == 4 * 200 * 40);
}

int main(void)
{
	util_deadline_s(60);
	util_world_open(&world, "thread", 1);
	me = join();
	dead_agent_is_a_dead_node();
	sleep_and_wake();
	withdrawal_waits_for_peers();
	threads_share_the_slots();
	leave(me);
	util_world_close(&world);
	puts("all well");
	return 0;
}
