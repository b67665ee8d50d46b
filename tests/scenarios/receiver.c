/* SPDX-License-Identifier: BSD-2-Clause */
/* F: the receiver's side. */
#include "tests/scenarios/scenario.h"

#include <ctype.h>

static struct op send_op(uint64_t wr_id, uint32_t len)
{
	return (struct op){.code = IBV_WR_SEND, .wr_id = wr_id, .len = len, .flags = IBV_SEND_SIGNALED};
}

Test(F1, rnr_retry_0)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = send_op(1, 64);

	attr.rnr_retry = 0;
	pair_make(&p, &attr);
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_RNR_RETRY_EXC_ERR, 1);
	expect_state(&p.a, IBV_QPS_ERR);
	op.wr_id = 2;
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_WR_FLUSH_ERR, 2);
	pair_free(&p);
}

Test(F1, rnr_retry_7_waits_for_ever)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = send_op(1, 64);

	pair_make(&p, &attr);
	uint64_t rnr = device_counter(p.a.ctx, "rnr"), received = device_counter(p.a.ctx, "rnr_received");

	side_fill(&p.a, 0, 0x42, 64);
	ok(side_post(&p.a, &op));
	expect_no_wc(&p.a, SQ, 1000);
	ok(side_recv(&p.b, 70, 0, 64));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
	cr_assert(side_all(&p.b, 0, 0x42, 64));
	cr_assert_gt(device_counter(p.a.ctx, "rnr"), rnr);
	cr_assert_gt(device_counter(p.a.ctx, "rnr_received"), received);
	pair_free(&p);
}

Test(F1, rnr_retry_3_is_four_tries)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = send_op(1, 64);

	attr.rnr_retry = 3;
	attr.min_rnr_timer = 1; /* 0.01 ms */
	attr.timestamps = true;
	pair_make(&p, &attr);
	int64_t start_ps = side_now_ps(&p.a), start_ns = wall_ns();
	uint64_t received = device_counter(p.a.ctx, "rnr_received");

	ok(side_post(&p.a, &op));
	struct done d = expect_wc(&p.a, SQ, IBV_WC_RNR_RETRY_EXC_ERR, 1);

	cr_assert_geq(d.at_ps - start_ps, 3 * INT64_C(10000000), "only %ld ps of model time", d.at_ps - start_ps);
	cr_assert_geq(wall_ns() - start_ns, 3 * 10000);
	cr_assert_eq(device_counter(p.a.ctx, "rnr_received") - received, 4);
	pair_free(&p);
}

Test(F2, receive_buffer_too_small)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = send_op(1, 64);

	pair_make(&p, &attr);
	side_fill(&p.b, 0, 0x11, 4096);
	side_fill(&p.a, 0, 0x22, 64);
	ok(side_recv(&p.b, 70, 1024, 32));
	ok(side_post(&p.a, &op));
	expect_wc(&p.b, RQ, IBV_WC_LOC_LEN_ERR, 70);
	expect_wc(&p.a, SQ, IBV_WC_REM_INV_REQ_ERR, 1);
	expect_state(&p.a, IBV_QPS_ERR);
	expect_state(&p.b, IBV_QPS_ERR);
	cr_assert(side_all(&p.b, 0, 0x11, 1024));
	cr_assert(side_all(&p.b, 1024 + 32, 0x11, 4096 - 1024 - 32));
	pair_free(&p);
}

/* A message of several packets whose later packets do not fit. */
Test(F2, several_packets)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = send_op(1, 5000);

	pair_make(&p, &attr);
	side_fill(&p.b, 0, 0x11, 16384);
	side_fill(&p.a, 0, 0x22, 5000);
	ok(side_recv(&p.b, 70, 1024, 3000));
	ok(side_post(&p.a, &op));
	expect_wc(&p.b, RQ, IBV_WC_LOC_LEN_ERR, 70);
	expect_wc(&p.a, SQ, IBV_WC_REM_INV_REQ_ERR, 1);
	cr_assert(side_all(&p.b, 0, 0x11, 1024));
	cr_assert(side_all(&p.b, 1024 + 3000, 0x11, 16384 - 1024 - 3000));
	pair_free(&p);
}

/* Runs on a profile with max_msg_sz = 4096. */
Test(F3, message_above_the_ports_maximum)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = send_op(1, 4096);
	struct ibv_port_attr port;

	pair_make(&p, &attr);
	ok(ibv_query_port(p.a.ctx, 1, &port));
	cr_assert_eq(port.max_msg_sz, 4096);
	ok(side_recv(&p.b, 70, 0, 8192));
	ok(side_recv(&p.b, 71, 0, 8192));
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	cr_assert_eq(expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70).wc.byte_len, 4096);
	op = send_op(2, 4100);
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_LOC_LEN_ERR, 2);
	expect_state(&p.a, IBV_QPS_ERR);
	pair_free(&p);
}

Test(F4, bad_lkey_in_a_receive)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = send_op(1, 64);

	pair_make(&p, &attr);
	side_fill(&p.b, 0, 0x11, 4096);
	ok(side_recv_lkey(&p.b, 70, 0, 64, 1));
	ok(side_post(&p.a, &op));
	expect_wc(&p.b, RQ, IBV_WC_LOC_PROT_ERR, 70);
	expect_wc(&p.a, SQ, IBV_WC_REM_OP_ERR, 1);
	expect_state(&p.a, IBV_QPS_ERR);
	expect_state(&p.b, IBV_QPS_ERR);
	cr_assert(side_all(&p.b, 0, 0x11, 4096));
	pair_free(&p);
}

/* ---- F5: the four ways to be refused access -------------------------------------------------------------- */

enum wrong { WRONG_RKEY, WRONG_PD, PAST_THE_END, NO_REMOTE_WRITE };

/* Gives what was said about it, in static memory. */
static const char *write_refused(enum wrong wrong)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = {.code = IBV_WR_RDMA_WRITE, .wr_id = 1, .len = 64, .flags = IBV_SEND_SIGNALED};

	pair_make(&p, &attr);
	side_fill(&p.b, 0, 0x11, 32768);
	side_fill(&p.a, 0, 0x22, 64);
	op.raddr = p.b.info.addr;
	op.rkey = p.b.info.rkey;
	switch (wrong) {
	case WRONG_RKEY: op.rkey++; break;
	case WRONG_PD: op.rkey = side_reg(&p.b, 0, 4096, all_access(p.a.ctx), true); break;
	case PAST_THE_END:
		op.rkey = side_reg(&p.b, 0, 4096, all_access(p.a.ctx), false);
		op.raddr += 4096 - 63;
		break;
	case NO_REMOTE_WRITE:
		op.rkey = side_reg(&p.b, 0, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, false);
		break;
	}
	stderr_catch();
	ok(side_post(&p.a, &op));
	struct done d;
	int n = side_wc(&p.a, SQ, &d, patience_ms(PAIR_POLL_MS));
	int event = side_event(&p.b, patience_ms(PAIR_POLL_MS));
	const char *said = stderr_caught();

	cr_assert_eq(n, 1, "no completion");
	cr_assert_eq(d.wc.status, IBV_WC_REM_ACCESS_ERR, "status %s", ibv_wc_status_str(d.wc.status));
	cr_assert_eq(d.wc.wr_id, 1);
	cr_assert_eq(event, IBV_EVENT_QP_ACCESS_ERR, "event %d", event);
	expect_state(&p.a, IBV_QPS_ERR);
	expect_state(&p.b, IBV_QPS_ERR);
	cr_assert(side_all(&p.b, 0, 0x11, 32768), "memory was written");
	pair_free(&p);
	return said;
}

Test(F5, wrong_rkey)
{
	write_refused(WRONG_RKEY);
}

Test(F5, key_of_another_pd)
{
	write_refused(WRONG_PD);
}

Test(F5, one_byte_past_the_end)
{
	write_refused(PAST_THE_END);
}

Test(F5, no_remote_write_right)
{
	write_refused(NO_REMOTE_WRITE);
}

/* The figures of a line differ from run to run; its words tell the reason. */
static void keep_words(const char *said, char *words, size_t size)
{
	size_t n = 0;

	for (; *said && n + 1 < size; said++)
		if (!isxdigit((unsigned char)*said) || isalpha((unsigned char)said[1]))
			words[n++] = *said;
	words[n] = '\0';
}

Test(F5, the_reason_is_said)
{
	char words[4][2048];

	if (pair_split())
		cr_skip_test("the line is written by the other process");
	for (int i = 0; i < 4; i++)
		keep_words(write_refused((enum wrong)i), words[i], sizeof(words[i]));
	for (int i = 0; i < 4; i++) {
		cr_assert_gt(strlen(words[i]), 10, "nothing said of case %d", i);
		for (int k = 0; k < i; k++)
			cr_assert(strcmp(words[i], words[k]), "cases %d and %d are not told apart: %s", k, i, words[i]);
	}
}

Test(F5, read_needs_remote_read)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = {.code = IBV_WR_RDMA_READ, .wr_id = 1, .len = 64, .flags = IBV_SEND_SIGNALED};

	pair_make(&p, &attr);
	side_fill(&p.a, 0, 0x11, 64);
	op.raddr = p.b.info.addr;
	op.rkey = side_reg(&p.b, 0, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, false);
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_REM_ACCESS_ERR, 1);
	expect_state(&p.b, IBV_QPS_ERR);
	cr_assert(side_all(&p.a, 0, 0x11, 64));
	pair_free(&p);
}

/* ---- F6: atomics ------------------------------------------------------------------------------------------- */

static struct op add_op(struct pair *p, uint64_t raddr_add, uint64_t add)
{
	return (struct op){.code = IBV_WR_ATOMIC_FETCH_AND_ADD,
			   .wr_id = 1,
			   .len = 8,
			   .flags = IBV_SEND_SIGNALED,
			   .raddr = p->b.info.addr + raddr_add,
			   .rkey = p->b.info.rkey,
			   .compare_add = add};
}

Test(F6, fetch_and_add)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	uint64_t word = 7, old = 0;

	pair_make(&p, &attr);
	struct op op = add_op(&p, 64, 5);

	side_poke(&p.b, 64, &word, 8);
	ok(side_post(&p.a, &op));
	struct done d = expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);

	cr_assert_eq(d.wc.opcode, IBV_WC_FETCH_ADD);
	side_peek(&p.a, 0, &old, 8);
	side_peek(&p.b, 64, &word, 8);
	cr_assert_eq(old, 7);
	cr_assert_eq(word, 12);
	pair_free(&p);
}

Test(F6, compare_and_swap)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	uint64_t word = 7, old = 0;

	pair_make(&p, &attr);
	struct op op = add_op(&p, 64, 7);

	op.code = IBV_WR_ATOMIC_CMP_AND_SWP;
	op.swap = 99;
	side_poke(&p.b, 64, &word, 8);
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	side_peek(&p.a, 0, &old, 8);
	side_peek(&p.b, 64, &word, 8);
	cr_assert_eq(old, 7);
	cr_assert_eq(word, 99);
	/* Compares with 7 again, finds 99: unchanged. */
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	side_peek(&p.a, 0, &old, 8);
	side_peek(&p.b, 64, &word, 8);
	cr_assert_eq(old, 99);
	cr_assert_eq(word, 99);
	pair_free(&p);
}

Test(F6, unaligned)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	uint64_t word = 7;

	pair_make(&p, &attr);
	struct op op = add_op(&p, 68, 5);

	side_poke(&p.b, 68, &word, 8);
	if (!strcmp(card()->profile, "rxe")) {
		cr_assert_eq(side_post(&p.a, &op), EINVAL);
	} else {
		ok(side_post(&p.a, &op));
		expect_wc(&p.a, SQ, IBV_WC_REM_INV_REQ_ERR, 1);
		expect_state(&p.a, IBV_QPS_ERR);
	}
	side_peek(&p.b, 68, &word, 8);
	cr_assert_eq(word, 7);
	pair_free(&p);
}

Test(F6, no_remote_atomic_right)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	uint64_t word = 7;

	pair_make(&p, &attr);
	struct op op = add_op(&p, 64, 5);

	side_poke(&p.b, 64, &word, 8);
	op.rkey =
	    side_reg(&p.b, 0, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, false);
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_REM_ACCESS_ERR, 1);
	side_peek(&p.b, 64, &word, 8);
	cr_assert_eq(word, 7);
	pair_free(&p);
}
