/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that is between ibv_start_poll and ibv_end_poll may call any verb, whatever another thread does at that
 * moment with other objects of the same CQ.
 */
#include "tests/scenarios/scenario.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { ROUNDS = 600 };

struct game {
	struct pair p;
	struct ibv_qp *cycled; /* on the same CQ; goes through its states while it is posted to */
	/* These only steer who comes when: they carry no data. */
	_Atomic unsigned calls; /* begun by the other thread */
	_Atomic unsigned ended; /* and ended */
	_Atomic bool inside;	/* the holder is between start and end */
	_Atomic bool stop;
};

/* What it returns depends on the state that the other thread has just put the queue pair in. */
static void post_on_cycled(struct game *g)
{
	struct ibv_sge sge = {g->p.a.info.addr, 8, g->p.a.mr->lkey};
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad_send;
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;

	ibv_post_send(g->cycled, &send, &bad_send);
	ibv_post_recv(g->cycled, &recv, &bad_recv);
}

/* Inside, with the other thread in its call, or nearly so. */
static void call_verbs(struct game *g, const struct op *op)
{
	unsigned calls = atomic_load(&g->calls);
	int64_t end = wall_ns() + 1000000;

	atomic_store(&g->inside, true);
	while (atomic_load(&g->calls) == calls && wall_ns() < end)
		sched_yield();
	usleep(20);
	struct ibv_mr *mr = ibv_reg_mr(g->p.a.pd, g->p.a.buf, 4096, IBV_ACCESS_LOCAL_WRITE);

	must(mr);
	side_post(&g->p.a, op); /* may be full */
	post_on_cycled(g);
	must(!ibv_dereg_mr(mr));
}

static void *hold_the_cq(void *arg)
{
	struct game *g = arg;
	struct ibv_poll_cq_attr none = {0};
	struct op op = {.code = IBV_WR_RDMA_WRITE,
			.len = 8,
			.raddr = g->p.b.info.addr,
			.rkey = g->p.b.info.rkey,
			.flags = IBV_SEND_SIGNALED};

	while (!atomic_load(&g->stop)) {
		side_post(&g->p.a, &op);
		if (ibv_start_poll(g->p.a.scq_ex, &none))
			continue;
		call_verbs(g, &op);
		atomic_store(&g->inside, false);
		while (!ibv_next_poll(g->p.a.scq_ex))
			;
		ibv_end_poll(g->p.a.scq_ex);
		while (atomic_load(&g->ended) != atomic_load(&g->calls)) /* its turn: the locks know no order */
			sched_yield();
	}
	return NULL;
}

/* The call after this one shall meet an open poll. */
static void begin_call(struct game *g)
{
	int64_t end = wall_ns() + 1000000;

	while (!atomic_load(&g->inside) && wall_ns() < end)
		sched_yield();
	atomic_fetch_add(&g->calls, 1);
}

static void play(void (*round)(struct game *g, int i))
{
	static struct game g; /* a failed assertion leaves this function before the thread ends */
	struct pair_attr attr = pair_attr(0, 8);
	pthread_t holder;

	attr.timestamps = true;
	attr.cqe = 256;
	pair_make(&g.p, &attr);
	g.cycled = side_qp(&g.p.a, g.p.a.scq);
	alarm((unsigned)patience_ms(10000) / 1000); /* a deadlock ends here */
	must(!pthread_create(&holder, NULL, hold_the_cq, &g));
	for (int i = 0; i < ROUNDS; i++) {
		round(&g, i);
		atomic_fetch_add(&g.ended, 1);
	}
	atomic_store(&g.stop, true);
	must(!pthread_join(holder, NULL));
	alarm(0);
	ok(ibv_destroy_qp(g.cycled));
	pair_free(&g.p);
}

static void destroy_round(struct game *g, int i)
{
	struct ibv_qp *qp = side_qp(&g->p.a, g->p.a.scq);

	(void)i;
	begin_call(g);
	ok(ibv_destroy_qp(qp));
}

Test(locks, destroy_qp_while_a_poll_is_open)
{
	play(destroy_round);
}

static void cycle_round(struct game *g, int i)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_ERR, IBV_QPS_RESET};
	enum ibv_qp_state to = states[i % 3];
	struct ibv_qp_attr attr = {.qp_state = to, .port_num = 1};
	int init_mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	begin_call(g);
	ok(ibv_modify_qp(g->cycled, &attr, IBV_QP_STATE | (to == IBV_QPS_INIT ? init_mask : 0)));
}

Test(locks, reset_qp_while_a_poll_is_open)
{
	play(cycle_round);
}

static void resize_round(struct game *g, int i)
{
	begin_call(g);
	ok(ibv_resize_cq(g->p.a.scq, i % 2 ? 256 : 512));
}

Test(locks, resize_cq_while_a_poll_is_open)
{
	play(resize_round);
}
