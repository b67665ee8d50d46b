/* SPDX-License-Identifier: BSD-2-Clause */
/* E: send queue, completions, events. */
#include "tests/scenarios/scenario.h"

#include <stdbool.h>
#include <string.h>
#include <stdlib.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static struct op write_op(struct pair *p, uint64_t wr_id, unsigned flags)
{
	return (struct op){.code = IBV_WR_RDMA_WRITE,
			   .wr_id = wr_id,
			   .len = 8,
			   .flags = flags,
			   .raddr = p->b.info.addr,
			   .rkey = p->b.info.rkey};
}

Test(E1, unsignaled_sends_fill_the_queue)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 16);

	pair_make(&p, &attr);
	uint32_t depth = p.a.info.cap.max_send_wr;
	struct op op = write_op(&p, 0, 0);

	cr_assert_geq(depth, 16);
	for (uint32_t i = 0; i < depth; i++)
		ok(side_post(&p.a, &op));
	for (uint32_t i = 0; card()->room_in_blocks && i < 7 * depth && !side_post(&p.a, &op); i++)
		;

	cr_assert_eq(side_post(&p.a, &op), card()->post_full);
	expect_no_wc(&p.a, SQ, 100);
	cr_assert_eq(side_post(&p.a, &op), card()->post_full);
	op.flags = IBV_SEND_SIGNALED;
	cr_assert_eq(side_post(&p.a, &op), card()->post_full);
	pair_free(&p);
}

Test(E1, one_signaled_completion_frees_all_before_it)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 16);

	pair_make(&p, &attr);
	uint32_t depth = p.a.info.cap.max_send_wr, posted = 0, seen = 0;

	while (posted < 10 * depth) {
		struct op op = write_op(&p, posted, posted % 4 == 3 ? IBV_SEND_SIGNALED : 0);
		int ret = side_post(&p.a, &op);

		if (!ret) {
			posted++;
			continue;
		}
		cr_assert_eq(ret, card()->post_full);
		expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 4 * seen++ + 3);
		/* Exactly four places are free now. */
		for (int i = 0; i < 4 && posted < 10 * depth; i++, posted++) {
			op = write_op(&p, posted, posted % 4 == 3 ? IBV_SEND_SIGNALED : 0);
			ok(side_post(&p.a, &op));
		}
	}
	while (seen < posted / 4)
		expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 4 * seen++ + 3);
	expect_no_wc(&p.a, SQ, 20);
	pair_free(&p);
}

Test(E1, destroy_drops_unpolled_completions)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 16);
	struct done d;

	pair_make(&p, &attr);
	for (uint32_t i = 0; i < 4; i++) {
		struct op op = write_op(&p, i, IBV_SEND_SIGNALED);

		ok(side_post(&p.a, &op));
	}
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 0);
	ok(side_destroy_qp(&p.a));
	cr_assert_eq(raw_poll(&p.a, SQ, &d), 0);
	pair_free(&p);
}

/* ---- E4: notification, side B local with a channel ------------------------------------------------------ */

static bool event_waits(struct side *s, int ms)
{
	struct pollfd fd = {.fd = s->channel->fd, .events = POLLIN};

	return poll(&fd, 1, ms) == 1;
}

static void get_and_ack(struct side *s)
{
	struct ibv_cq *cq;
	void *context;

	cr_assert(event_waits(s, patience_ms(PAIR_POLL_MS)), "no event");
	ok(ibv_get_cq_event(s->channel, &cq, &context));
	cr_assert_eq(cq, s->rcq);
	ibv_ack_cq_events(cq, 1);
}

static void make_events(struct pair *p)
{
	struct pair_attr attr = pair_attr(0, 16);

	attr.events = true;
	pair_make(p, &attr);
	cr_assert(p->b.sock < 0, "this test wants both sides in one process");
	for (uint64_t i = 0; i < 8; i++)
		ok(side_recv(&p->b, i, (uint32_t)i * 64, 64));
}

/* One message, waited for at the sender: its receive completion is in B's CQ (or about to be within the wait). */
static void message(struct pair *p, unsigned flags)
{
	struct op op = {.code = IBV_WR_SEND, .wr_id = 1, .len = 8, .flags = IBV_SEND_SIGNALED | flags};

	ok(side_post(&p->a, &op));
	expect_wc(&p->a, SQ, IBV_WC_SUCCESS, 1);
}

Test(E4, one_shot)
{
	struct pair p;

	make_events(&p);
	ok(ibv_req_notify_cq(p.b.rcq, 0));
	for (int i = 0; i < 3; i++)
		message(&p, 0);
	get_and_ack(&p.b);
	cr_assert(!event_waits(&p.b, 100), "a second event");

	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 0);
	ok(ibv_req_notify_cq(p.b.rcq, 0));
	cr_assert(!event_waits(&p.b, 200), "an event for old completions");
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 1);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 2);
	message(&p, 0);
	get_and_ack(&p.b);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 3);
	pair_free(&p);
}

Test(E4, armed_twice_is_armed_once)
{
	struct pair p;

	make_events(&p);
	ok(ibv_req_notify_cq(p.b.rcq, 0));
	ok(ibv_req_notify_cq(p.b.rcq, 0));
	message(&p, 0);
	get_and_ack(&p.b);
	cr_assert(!event_waits(&p.b, 100), "a second event");
	pair_free(&p);
}

Test(E4, solicited_only)
{
	struct pair p;

	make_events(&p);
	ok(ibv_req_notify_cq(p.b.rcq, 1));
	message(&p, 0);
	cr_assert(!event_waits(&p.b, 100), "an event for an unsolicited message");
	message(&p, IBV_SEND_SOLICITED);
	get_and_ack(&p.b);
	pair_free(&p);
}

struct sender {
	struct pair *p;
	int count;
};

static void *send_many(void *arg)
{
	struct sender *s = arg;

	for (int i = 0; i < s->count; i++)
		message(s->p, 0);
	return NULL;
}

/* poll, arm, poll again, sleep: never sleeps on a completion that is there. */
Test(E4, poll_arm_poll_never_sleeps_on_completions)
{
	struct pair p;
	struct sender s = {&p, 2000};
	pthread_t thread;
	int got = 0;
	struct done d;

	make_events(&p);
	must(!pthread_create(&thread, NULL, send_many, &s));
	while (got < s.count) {
		int n = raw_poll(&p.b, RQ, &d);

		if (!n) {
			ok(ibv_req_notify_cq(p.b.rcq, 0));
			n = raw_poll(&p.b, RQ, &d);
		}
		cr_assert_geq(n, 0);
		if (n) {
			cr_assert_eq(d.wc.status, IBV_WC_SUCCESS);
			ok(side_recv(&p.b, 0, 0, 64));
			got++;
		} else {
			get_and_ack(&p.b);
		}
	}
	must(!pthread_join(thread, NULL));
	pair_free(&p);
}

Test(E4, empty_channel_and_async_fd_do_not_block)
{
	struct pair p;
	struct ibv_cq *cq;
	struct ibv_async_event e;
	void *context;

	make_events(&p);
	must(fcntl(p.b.channel->fd, F_SETFL, fcntl(p.b.channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	must(fcntl(p.b.ctx->async_fd, F_SETFL, fcntl(p.b.ctx->async_fd, F_GETFL) | O_NONBLOCK) == 0);
	errno = 0;
	cr_assert_eq(ibv_get_cq_event(p.b.channel, &cq, &context), -1);
	cr_assert_eq(errno, EAGAIN);
	errno = 0;
	cr_assert_eq(ibv_get_async_event(p.b.ctx, &e), -1);
	cr_assert_eq(errno, EAGAIN);
	pair_free(&p);
}

/* ---- E5: unacknowledged events ---------------------------------------------------------------------------- */

struct destroyer {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int ret;
	_Atomic bool done;
};

static void *destroy_thread(void *arg)
{
	struct destroyer *d = arg;

	d->ret = d->cq ? ibv_destroy_cq(d->cq) : ibv_destroy_qp(d->qp);
	d->done = true; /* seq_cst store: pairs with the loads of the waiting thread */
	return NULL;
}

Test(E5, destroy_cq_waits_for_the_acknowledgement)
{
	struct pair p;
	struct ibv_cq *cq;
	void *context;
	pthread_t thread;

	setenv("SIMHCA_ACK_WARN_MS", "50", 1);
	make_events(&p);
	ok(ibv_req_notify_cq(p.b.rcq, 0));
	message(&p, 0);
	cr_assert(event_waits(&p.b, patience_ms(PAIR_POLL_MS)));
	ok(ibv_get_cq_event(p.b.channel, &cq, &context));
	ok(side_destroy_qp(&p.b));

	struct destroyer d = {.cq = p.b.rcq};

	stderr_catch();
	must(!pthread_create(&thread, NULL, destroy_thread, &d));
	usleep(200000);
	const char *said = stderr_caught();

	cr_assert(!d.done, "ibv_destroy_cq returned with an event unacknowledged");
	cr_assert(strstr(said, "ibv_destroy_cq") && strstr(said, "1"), "said: %s", said);
	ibv_ack_cq_events(cq, 1);
	must(!pthread_join(thread, NULL));
	cr_assert_eq(d.ret, 0);
	p.b.rcq = NULL;
	pair_free(&p);
}

Test(E5, destroy_qp_waits_for_the_acknowledgement)
{
	struct pair p;
	struct ibv_async_event e;
	pthread_t thread;

	make_events(&p);
	struct op op = write_op(&p, 1, IBV_SEND_SIGNALED);

	op.rkey++;
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_REM_ACCESS_ERR, 1);
	ok(ibv_get_async_event(p.b.ctx, &e));
	cr_assert_eq(e.event_type, IBV_EVENT_QP_ACCESS_ERR);
	cr_assert_eq(e.element.qp, p.b.qp);

	struct destroyer d = {.qp = p.b.qp};

	must(!pthread_create(&thread, NULL, destroy_thread, &d));
	usleep(200000);
	cr_assert(!d.done, "ibv_destroy_qp returned with an event unacknowledged");
	ibv_ack_async_event(&e);
	must(!pthread_join(thread, NULL));
	cr_assert_eq(d.ret, 0);
	p.b.qp = NULL;
	pair_free(&p);
}
