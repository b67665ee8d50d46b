/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plain multi-threaded verbs program, made for the thread sanitizer: threads that post and poll on queue pairs of
 * their own, threads that share one queue pair and one CQ, one that sleeps on a completion channel, one that
 * registers and deregisters, one that makes and destroys queue pairs, one that reads counters.
 */
#include "tests/counts.h"
#include "tests/scenarios/pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic bool stop;	/* relaxed: only ends loops, carries no data */
static _Atomic uint64_t posted; /* relaxed: a count, read after the threads are joined */

static void count_post(void)
{
	atomic_fetch_add_explicit(&posted, 1, memory_order_relaxed);
}

/* ---- a queue pair to itself: SEND both ways --------------------------------------------------------------- */

static void await_done(struct side *s, enum queue q)
{
	struct done d;
	int64_t end = wall_ns() + (int64_t)patience_ms(20000) * 1000000;
	int n;

	while (!(n = raw_poll(s, q, &d)))
		must(wall_ns() < end);
	must(n == 1);
	must(d.wc.status == IBV_WC_SUCCESS);
}

static void *ping(void *arg)
{
	unsigned count = *(unsigned *)arg;
	struct pair p;
	struct pair_attr attr = pair_attr(32, 16);

	pair_make(&p, &attr);
	for (unsigned i = 0; i < count; i++) {
		struct side *from = i % 2 ? &p.b : &p.a, *to = i % 2 ? &p.a : &p.b;
		struct op op = {.code = IBV_WR_SEND,
				.len = i % 3 ? 16 : 3000,
				.flags = IBV_SEND_SIGNALED | (i % 3 ? IBV_SEND_INLINE : 0u)};

		must(!side_recv(to, i, 4096, 4096));
		must(!side_post(from, &op));
		count_post();
		await_done(from, SQ);
		await_done(to, RQ);
	}
	pair_free(&p);
	return NULL;
}

/* ---- one queue pair for several threads ------------------------------------------------------------------ */

enum { SHARERS = 3, SHARED_DEPTH = 64 };

struct shared {
	struct pair p;
	unsigned count;	       /* of each sharer */
	_Atomic unsigned done; /* relaxed: a count, read after the threads are joined */
};

/* Each posts its WRITEs and polls whatever completion comes. */
static void *share(void *arg)
{
	struct shared *s = arg;
	unsigned mine = 0;
	struct done d;

	while (mine < s->count || atomic_load_explicit(&s->done, memory_order_relaxed) < SHARERS * s->count) {
		struct op op = {.code = IBV_WR_RDMA_WRITE,
				.len = 64,
				.raddr = s->p.b.info.addr,
				.rkey = s->p.b.info.rkey,
				.flags = IBV_SEND_SIGNALED};

		if (mine < s->count && !side_post(&s->p.a, &op)) {
			count_post();
			mine++;
		}
		int n = raw_poll(&s->p.a, SQ, &d);

		must(n >= 0);
		if (n) {
			must(d.wc.status == IBV_WC_SUCCESS);
			atomic_fetch_add_explicit(&s->done, 1, memory_order_relaxed);
		}
	}
	return NULL;
}

/* ---- a sleeper on a channel -------------------------------------------------------------------------------- */

struct sleeper {
	struct pair p;
	unsigned count;
};

static void *sleep_on_channel(void *arg)
{
	struct sleeper *s = arg;
	unsigned got = 0;
	struct done d;

	while (got < s->count) {
		struct ibv_cq *cq;
		void *context;

		must(!ibv_req_notify_cq(s->p.b.rcq, 0));
		while (raw_poll(&s->p.b, RQ, &d) == 1) {
			must(d.wc.status == IBV_WC_SUCCESS);
			must(!side_recv(&s->p.b, 0, 0, 64));
			got++;
		}
		if (got >= s->count)
			break;
		must(!ibv_get_cq_event(s->p.b.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

static void *feed_sleeper(void *arg)
{
	struct sleeper *s = arg;

	for (unsigned i = 0; i < s->count; i++) {
		struct op op = {.code = IBV_WR_SEND, .len = 8, .flags = IBV_SEND_SIGNALED};

		must(!side_post(&s->p.a, &op));
		count_post();
		await_done(&s->p.a, SQ);
	}
	return NULL;
}

/* ---- resources come and go --------------------------------------------------------------------------------- */

static void *churn_regions(void *arg)
{
	struct ibv_context *ctx = open_device(0);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	char *mem = malloc(1 << 20);

	(void)arg;
	must(pd && mem);
	for (unsigned i = 0; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
		struct ibv_mr *mr =
		    ibv_reg_mr(pd, mem, 4096u + i * 977u % 500000u, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

		must(mr);
		must(!ibv_dereg_mr(mr));
	}
	must(!ibv_dealloc_pd(pd));
	must(!ibv_close_device(ctx));
	free(mem);
	return NULL;
}

static void *churn_pairs(void *arg)
{
	(void)arg;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct pair p;
		struct pair_attr attr = pair_attr(0, 4);
		struct op op = {.code = IBV_WR_RDMA_READ, .len = 512, .flags = IBV_SEND_SIGNALED};

		pair_make(&p, &attr);
		op.raddr = p.b.info.addr;
		op.rkey = p.b.info.rkey;
		must(!side_post(&p.a, &op));
		count_post();
		await_done(&p.a, SQ);
		pair_free(&p);
	}
	return NULL;
}

static void *read_counters(void *arg)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		device_counter(arg, "posts");
	return NULL;
}

/* ---- all together ---------------------------------------------------------------------------------------------- */

static pthread_t start_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	must(!pthread_create(&t, NULL, fn, arg));
	return t;
}

int main(int argc, char **argv)
{
	unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : test_count("thread_ops");
	static struct shared shared;
	static struct sleeper sleeper;
	pthread_t workers[2 + SHARERS + 2], background[3];
	int n = 0;

	must(!pair_split());
	struct ibv_context *ctx = open_device(0);
	uint64_t before = device_counter(ctx, "posts");

	shared.count = sleeper.count = count;
	struct pair_attr attr = pair_attr(0, SHARED_DEPTH);

	attr.cqe = 2 * SHARED_DEPTH;
	pair_make(&shared.p, &attr);
	attr = pair_attr(0, 16);
	attr.events = true;
	pair_make(&sleeper.p, &attr);
	for (uint64_t i = 0; i < 16; i++)
		must(!side_recv(&sleeper.p.b, i, 0, 64));

	background[0] = start_thread(churn_regions, NULL);
	background[1] = start_thread(churn_pairs, NULL);
	background[2] = start_thread(read_counters, ctx);
	for (int i = 0; i < 2; i++)
		workers[n++] = start_thread(ping, &count);
	for (int i = 0; i < SHARERS; i++)
		workers[n++] = start_thread(share, &shared);
	workers[n++] = start_thread(sleep_on_channel, &sleeper);
	workers[n++] = start_thread(feed_sleeper, &sleeper);
	while (n)
		must(!pthread_join(workers[--n], NULL));
	atomic_store_explicit(&stop, true, memory_order_relaxed);
	for (int i = 0; i < 3; i++)
		must(!pthread_join(background[i], NULL));
	must(shared.done == SHARERS * count);
	pair_free(&shared.p);
	pair_free(&sleeper.p);
	/* Those of the queue pairs that are gone are counted too, each once. */
	must(device_counter(ctx, "posts") - before == posted);
	must(!ibv_close_device(ctx));
	printf("threads: %u operations each\n", count);
	return 0;
}
