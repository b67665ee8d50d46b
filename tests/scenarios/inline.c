/* SPDX-License-Identifier: BSD-2-Clause */
/* C: posting inline. */
#include "tests/scenarios/scenario.h"

static struct op send_op(uint64_t wr_id, uint32_t off, uint32_t len, unsigned flags)
{
	return (struct op){.code = IBV_WR_SEND, .wr_id = wr_id, .off = off, .len = len, .flags = flags};
}

/* Posts one SEND of side A and checks that it arrives whole and completes. */
static void send_and_check(struct pair *p, uint32_t len, unsigned flags)
{
	struct op op = send_op(7, 0, len, flags | IBV_SEND_SIGNALED);

	ok(side_recv(&p->b, 70, 8192, 1024));
	side_fill(&p->a, 0, 0x5a, len + 1);
	side_fill(&p->b, 8192, 0, 1024);
	ok(side_post(&p->a, &op));
	expect_wc(&p->a, SQ, IBV_WC_SUCCESS, 7);
	struct done d = expect_wc(&p->b, RQ, IBV_WC_SUCCESS, 70);

	cr_assert_eq(d.wc.byte_len, len);
	cr_assert_eq(d.wc.opcode, IBV_WC_RECV);
	cr_assert(side_all(&p->b, 8192, 0x5a, len));
	cr_assert(side_all(&p->b, 8192 + len, 0, 1024 - len));
}

/* An inline SEND of 60 and 64 bytes fits; `over` does not. */
static void over_the_grant(uint32_t ask, uint32_t fits, uint32_t over)
{
	struct pair p;
	struct pair_attr attr = pair_attr(ask, 8);

	pair_make(&p, &attr);
	uint32_t depth = p.a.info.cap.max_send_wr;

	send_and_check(&p, fits, IBV_SEND_INLINE);

	struct ibv_sge sge = {p.a.info.addr, over, p.a.info.lkey};
	struct ibv_send_wr second = {.wr_id = 2,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
			   *bad;
	uint64_t refusals = device_counter(p.a.ctx, "refusals");

	cr_assert_eq(raw_post(&p.a, &second, &bad), card()->post_inline);
	cr_assert_eq(bad, &second);
	cr_assert_eq(device_counter(p.a.ctx, "refusals") - refusals, 1);
	ok(side_recv(&p.b, 71, 8192, 1024));
	expect_no_wc(&p.b, RQ, 50);

	/* The refused request took no room: the whole depth is there. */
	for (uint32_t i = 0; i < depth; i++) {
		struct op op = send_op(100 + i, 0, 8, i + 1 == depth ? IBV_SEND_SIGNALED : 0);

		if (i)
			ok(side_recv(&p.b, 71 + i, 8192, 1024));
		ok(side_post(&p.a, &op));
		if (i % 4 == 3 || i + 1 == depth)
			for (uint32_t k = i / 4 * 4; k <= i; k++)
				expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 71 + k);
	}
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 100 + depth - 1);
	pair_free(&p);
}

Test(C1, over_the_grant)
{
	if (card()->post_inline_constant)
		over_the_grant(64, card()->post_inline_constant, card()->post_inline_constant + 1);
	else if (card()->mlx5)
		over_the_grant(60, 60, 61);
	else
		over_the_grant(64, 64, 65);
}

Test(C1, constant_not_grant)
{
	struct pair p;
	struct pair_attr attr = pair_attr(64, 8);

	if (!card()->post_inline_constant)
		cr_skip_test("this adapter compares with the grant");
	pair_make(&p, &attr);
	send_and_check(&p, 65, IBV_SEND_INLINE);
	pair_free(&p);
}

Test(C1, earlier_requests_of_the_list_are_posted)
{
	struct pair p;
	struct pair_attr attr = pair_attr(60, 8);
	uint32_t over = card()->post_inline_constant ? card()->post_inline_constant + 1 : 61;

	pair_make(&p, &attr);
	ok(side_recv(&p.b, 70, 8192, 1024));
	ok(side_recv(&p.b, 71, 8192, 1024));

	struct ibv_sge sge = {p.a.info.addr, 16, p.a.info.lkey}, long_sge = {p.a.info.addr, over, p.a.info.lkey};
	struct ibv_send_wr wr[3], *bad;

	for (int i = 0; i < 3; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
					     .next = i < 2 ? &wr[i + 1] : NULL,
					     .sg_list = i == 1 ? &long_sge : &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED};
	cr_assert_eq(raw_post(&p.a, &wr[0], &bad), card()->post_inline);
	cr_assert_eq(bad, &wr[1]);
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 0);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
	expect_no_wc(&p.a, SQ, 50);
	expect_no_wc(&p.b, RQ, 50);
	pair_free(&p);
}

Test(C2, inline_ignores_the_lkey)
{
	struct pair p;
	struct pair_attr attr = pair_attr(card()->inline_max < 64 ? 48 : 64, 8);
	unsigned char stack[16];

	pair_make(&p, &attr);
	memset(stack, 0x77, sizeof(stack));
	ok(side_recv(&p.b, 70, 0, 64));

	struct ibv_sge sge = {(uint64_t)(uintptr_t)stack, sizeof(stack), 0};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
			   *bad;

	ok(raw_post(&p.a, &wr, &bad));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
	cr_assert(side_all(&p.b, 0, 0x77, sizeof(stack)));
	pair_free(&p);
}

Test(C2, by_reference_does_not)
{
	struct pair p;
	struct pair_attr attr = pair_attr(card()->inline_max < 64 ? 48 : 64, 8);
	unsigned char stack[16] = {0};

	pair_make(&p, &attr);
	ok(side_recv(&p.b, 70, 0, 64));

	struct ibv_sge sge = {(uint64_t)(uintptr_t)stack, sizeof(stack), 0};
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	ok(raw_post(&p.a, &wr, &bad)); /* not signaled: an error completes all the same */
	struct done d = expect_wc(&p.a, SQ, IBV_WC_LOC_PROT_ERR, 2);

	cr_assert_eq(d.wc.qp_num, p.a.info.qpn);
	expect_state(&p.a, IBV_QPS_ERR);
	expect_no_wc(&p.b, RQ, 50);
	pair_free(&p);
}

Test(C3, inline_buffer_may_be_reused_at_once)
{
	struct pair p;
	struct pair_attr attr = pair_attr(card()->inline_max < 64 ? 48 : 64, 8);

	pair_make(&p, &attr);
	for (int round = 0; round < 200; round++) {
		struct op op = send_op((uint64_t)round, 0, 4, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
		char got[4];

		ok(side_recv(&p.b, 70, 0, 64));
		memcpy(p.a.buf, "AAAA", 4);
		ok(side_post(&p.a, &op));
		memcpy(p.a.buf, "BBBB", 4);
		expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
		side_peek(&p.b, 0, got, 4);
		cr_assert_eq(memcmp(got, "AAAA", 4), 0, "round %d: got %.4s", round, got);
		expect_wc(&p.a, SQ, IBV_WC_SUCCESS, round);
	}
	pair_free(&p);
}

Test(C3, by_reference_may_be_reused_after_its_completion)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);

	pair_make(&p, &attr);
	for (int round = 0; round < 200; round++) {
		struct op op = send_op((uint64_t)round, 0, 4, IBV_SEND_SIGNALED);
		char got[4];

		ok(side_recv(&p.b, 70, 0, 64));
		memcpy(p.a.buf, "AAAA", 4);
		ok(side_post(&p.a, &op));
		expect_wc(&p.a, SQ, IBV_WC_SUCCESS, round);
		memcpy(p.a.buf, "BBBB", 4);
		expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
		side_peek(&p.b, 0, got, 4);
		cr_assert_eq(memcmp(got, "AAAA", 4), 0, "round %d: got %.4s", round, got);
	}
	pair_free(&p);
}

/*
 * The receiver is not ready, so the payload is read again when it is: by reference that is late, and what is in the
 * buffer then counts. Inline data was copied once.
 */
static void overwritten_before_the_receive(unsigned flags, const char *want)
{
	struct pair p;
	struct pair_attr attr = pair_attr(card()->inline_max < 64 ? 48 : 64, 8);
	struct op op = send_op(1, 0, 4, IBV_SEND_SIGNALED | flags);
	int64_t end = wall_ns() + (int64_t)patience_ms(PAIR_POLL_MS) * 1000000;
	char got[4];

	attr.min_rnr_timer = 22; /* 20.48 ms: nothing is under way while the buffer changes */
	pair_make(&p, &attr);
	uint64_t rnr = device_counter(p.a.ctx, "rnr_received");

	memcpy(p.a.buf, "AAAA", 4);
	ok(side_post(&p.a, &op));
	while (device_counter(p.a.ctx, "rnr_received") == rnr) {
		expect_no_wc(&p.a, SQ, 1);
		cr_assert_lt(wall_ns(), end, "no RNR NAK");
	}
	memcpy(p.a.buf, "BBBB", 4);
	ok(side_recv(&p.b, 70, 0, 64));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
	side_peek(&p.b, 0, got, 4);
	cr_assert_eq(memcmp(got, want, 4), 0, "got %.4s, not %s", got, want);
	pair_free(&p);
}

Test(C3, by_reference_is_read_late)
{
	overwritten_before_the_receive(0, "BBBB");
}

Test(C3, inline_is_not)
{
	overwritten_before_the_receive(IBV_SEND_INLINE, "AAAA");
}

Test(C5, signaled_inline_completes_once)
{
	struct pair p;
	struct pair_attr attr = pair_attr(32, 8);
	struct op op = send_op(1, 0, 16, IBV_SEND_INLINE | IBV_SEND_SIGNALED);

	pair_make(&p, &attr);
	ok(side_recv(&p.b, 70, 0, 64));
	ok(side_recv(&p.b, 71, 0, 64));
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	expect_no_wc(&p.a, SQ, 50);
	op.flags = IBV_SEND_INLINE;
	ok(side_post(&p.a, &op));
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 71);
	expect_no_wc(&p.a, SQ, 50);
	pair_free(&p);
}

Test(C5, sq_sig_all)
{
	struct pair p;
	struct pair_attr attr = pair_attr(32, 8);
	struct op op = send_op(1, 0, 16, IBV_SEND_INLINE);

	attr.sq_sig_all = true;
	pair_make(&p, &attr);
	ok(side_recv(&p.b, 70, 0, 64));
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
	expect_no_wc(&p.a, SQ, 50);
	pair_free(&p);
}

Test(C6, several_sges)
{
	struct pair p;
	struct pair_attr attr = pair_attr(card()->inline_max < 64 ? 48 : 64, 8);
	char got[24];

	attr.cap.max_send_sge = 3;
	pair_make(&p, &attr);
	ok(side_recv(&p.b, 70, 0, 64));
	memcpy(p.a.buf, "cccccccc........aaaaaaaa........bbbbbbbb", 40);

	struct ibv_sge sge[16];

	for (size_t i = 0; i < sizeof(sge) / sizeof(*sge); i++)
		sge[i] = (struct ibv_sge){p.a.info.addr + 16 * ((i + 1) % 3), 8, p.a.info.lkey};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = sge,
				 .num_sge = 3,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
			   *bad;

	ok(raw_post(&p.a, &wr, &bad));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	struct done d = expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);

	cr_assert_eq(d.wc.byte_len, 24);
	side_peek(&p.b, 0, got, 24);
	cr_assert_eq(memcmp(got, "aaaaaaaabbbbbbbbcccccccc", 24), 0, "got %.24s", got);

	/* Above the granted count it is refused, by reference on every adapter. */
	wr.send_flags = 0;
	wr.num_sge = (int)p.a.info.cap.max_send_sge + 1;
	cr_assert_leq((size_t)wr.num_sge, sizeof(sge) / sizeof(*sge));
	cr_assert_eq(raw_post(&p.a, &wr, &bad), card()->post_sge);
	cr_assert_eq(bad, &wr);
	pair_free(&p);
}

Test(C9, inline_on_read_and_atomic_refused)
{
	struct pair p;
	struct pair_attr attr = pair_attr(64, 8);

	pair_make(&p, &attr);
	uint64_t posts = device_counter(p.a.ctx, "posts"), sent = device_counter(p.a.ctx, "tx_packets");
	static const enum ibv_wr_opcode codes[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
						   IBV_WR_ATOMIC_CMP_AND_SWP};

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		struct op op = {.code = codes[i],
				.wr_id = i,
				.len = 8,
				.flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
				.raddr = p.b.info.addr,
				.rkey = p.b.info.rkey};

		cr_assert_eq(side_post(&p.a, &op), EINVAL);
	}
	expect_no_wc(&p.a, SQ, 50);
	cr_assert_eq(device_counter(p.a.ctx, "posts"), posts);
	cr_assert_eq(device_counter(p.a.ctx, "tx_packets"), sent);
	pair_free(&p);
}

Test(C10, zero_bytes)
{
	struct pair p;
	struct pair_attr attr = pair_attr(32, 8);
	struct op none = {.code = IBV_WR_SEND, .wr_id = 1, .no_sge = true, .flags = IBV_SEND_SIGNALED};
	struct op empty = {.code = IBV_WR_SEND, .wr_id = 2, .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};

	pair_make(&p, &attr);
	side_fill(&p.b, 0, 0x11, 64);
	ok(side_recv(&p.b, 70, 0, 64));
	ok(side_recv(&p.b, 71, 0, 64));
	ok(side_post(&p.a, &none));
	ok(side_post(&p.a, &empty));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 2);
	cr_assert_eq(expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70).wc.byte_len, 0);
	cr_assert_eq(expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 71).wc.byte_len, 0);
	cr_assert(side_all(&p.b, 0, 0x11, 64));
	pair_free(&p);
}
