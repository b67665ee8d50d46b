/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that nobody read: when their object goes, and when there are more of them than a pipe holds. */
#include "tests/counts.h"
#include "tests/scenarios/scenario.h"

#include <poll.h>

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void make(struct pair *p)
{
	struct pair_attr attr = pair_attr(0, 8);

	attr.events = true;
	pair_make(p, &attr);
}

/* Arms B's CQ and lets one message arrive: one more unread event. */
static void one_event(struct pair *p)
{
	struct op op = {.code = IBV_WR_SEND, .wr_id = 1, .len = 8, .flags = IBV_SEND_SIGNALED};

	must(!side_recv(&p->b, 70, 0, 64));
	must(!ibv_req_notify_cq(p->b.rcq, 0));
	must(!side_post(&p->a, &op));
	expect_wc(&p->a, SQ, IBV_WC_SUCCESS, 1);
	expect_wc(&p->b, RQ, IBV_WC_SUCCESS, 70);
}

/* A WRITE with a wrong key: B's queue pair raises an access error. */
static void one_async_event(struct pair *p)
{
	struct op op = {.code = IBV_WR_RDMA_WRITE,
			.wr_id = 2,
			.len = 8,
			.flags = IBV_SEND_SIGNALED,
			.raddr = p->b.info.addr,
			.rkey = p->b.info.rkey + 1};

	must(!side_post(&p->a, &op));
	expect_wc(&p->a, SQ, IBV_WC_REM_ACCESS_ERR, 2);
}

static void back_to_rts(struct side *s)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	must(!ibv_modify_qp(s->qp, &reset, IBV_QP_STATE));
	must(!side_init(s));
	must(!side_rtr(s));
	must(!side_rts(s));
}

Test(events, cq_destroyed_with_an_unread_event)
{
	struct pair p;

	make(&p);
	one_event(&p);
	cr_assert(readable(p.b.channel->fd));
	ok(side_destroy_qp(&p.b));
	ok(ibv_destroy_cq(p.b.rcq));
	p.b.rcq = NULL;
	cr_assert(!readable(p.b.channel->fd), "the event of a destroyed CQ is still there");
	pair_free(&p);
}

Test(events, events_of_other_cqs_stay)
{
	struct pair p;
	struct ibv_cq *cq;
	void *context;

	make(&p);
	struct ibv_cq *other = ibv_create_cq(p.b.ctx, 8, NULL, p.b.channel, 0);

	cr_assert(other);
	struct ibv_qp_init_attr init = {
	    .send_cq = other, .recv_cq = other, .cap = pair_attr(0, 8).cap, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(p.b.pd, &init);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr wr = {.wr_id = 5}, *bad;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	cr_assert(qp);
	ok(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	ok(ibv_post_recv(qp, &wr, &bad));
	one_event(&p); /* B's own CQ first in the channel, then the other one's */
	ok(ibv_req_notify_cq(other, 0));
	ok(ibv_modify_qp(qp, &err, IBV_QP_STATE)); /* the receive is flushed: a completion */
	one_event(&p);

	ok(side_destroy_qp(&p.b));
	ok(ibv_destroy_cq(p.b.rcq));
	p.b.rcq = NULL;
	cr_assert(readable(p.b.channel->fd));
	ok(ibv_get_cq_event(p.b.channel, &cq, &context));
	cr_assert_eq(cq, other);
	cr_assert(!readable(p.b.channel->fd));
	ibv_ack_cq_events(cq, 1);
	ok(ibv_destroy_qp(qp));
	ok(ibv_destroy_cq(other));
	pair_free(&p);
}

Test(events, qp_destroyed_with_an_unread_event)
{
	struct pair p;

	make(&p);
	one_async_event(&p);
	cr_assert(readable(p.b.ctx->async_fd));
	ok(side_destroy_qp(&p.b));
	cr_assert(!readable(p.b.ctx->async_fd), "the event of a destroyed queue pair is still there");
	pair_free(&p);
}

Test(events, more_than_a_pipe_holds, .timeout = 300)
{
	struct pair p;
	struct ibv_cq *cq;
	void *context;
	unsigned count = test_count("events"), got = 0;

	make(&p);
	for (unsigned i = 0; i < count; i++)
		one_event(&p);
	while (got < count && readable(p.b.channel->fd)) {
		ok(ibv_get_cq_event(p.b.channel, &cq, &context));
		cr_assert_eq(cq, p.b.rcq);
		got++;
		if (got % 1000 == 0)
			ibv_ack_cq_events(cq, 1000);
	}
	cr_assert_eq(got, count);
	cr_assert(!readable(p.b.channel->fd));
	ibv_ack_cq_events(p.b.rcq, count % 1000);
	pair_free(&p);
}

Test(events, destroyed_with_more_than_a_pipe_holds, .timeout = 300)
{
	struct pair p;
	unsigned count = test_count("events");

	make(&p);
	for (unsigned i = 0; i < count; i++)
		one_event(&p);
	ok(side_destroy_qp(&p.b));
	ok(ibv_destroy_cq(p.b.rcq));
	p.b.rcq = NULL;
	cr_assert(!readable(p.b.channel->fd));
	pair_free(&p);
}

Test(events, more_async_events_than_a_pipe_holds, .timeout = 300)
{
	struct pair p;
	struct ibv_async_event e;
	unsigned count = test_count("events") / 2, got = 0;

	make(&p);
	for (unsigned i = 0; i < count; i++) {
		one_async_event(&p);
		back_to_rts(&p.a);
		back_to_rts(&p.b);
	}
	while (readable(p.b.ctx->async_fd)) {
		ok(ibv_get_async_event(p.b.ctx, &e));
		if (e.event_type == IBV_EVENT_QP_ACCESS_ERR)
			got++;
		cr_assert_eq(e.element.qp, p.b.qp);
		ibv_ack_async_event(&e);
	}
	cr_assert_eq(got, count);
	pair_free(&p);
}
