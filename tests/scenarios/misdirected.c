/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that the other queue pair must not take, and messages that are very long or land in very many places. */
#include "tests/scenarios/scenario.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MTU_B = 1024, SHORT_B = 4096, LONG_B = 32768, WAS_A = 0xaa, WAS_B = 0xbb };
_Static_assert(LONG_B < (int)PAIR_BUF_B, "the longest fits the buffer");

static const struct op kinds[] = {
    {.code = IBV_WR_SEND, .len = SHORT_B},	 {.code = IBV_WR_SEND, .len = LONG_B},
    {.code = IBV_WR_RDMA_WRITE, .len = SHORT_B}, {.code = IBV_WR_RDMA_WRITE, .len = LONG_B},
    {.code = IBV_WR_RDMA_READ, .len = SHORT_B},	 {.code = IBV_WR_RDMA_READ, .len = LONG_B},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static void open_sides(struct pair *p)
{
	struct pair_attr attr = pair_attr(0, 8);

	attr.timeout = 8; /* 1 ms */
	attr.retry_cnt = 2;
	pair_open(p, &attr);
	side_fill(&p->a, 0, WAS_A, PAIR_BUF_B);
	side_fill(&p->b, 0, WAS_B, PAIR_BUF_B);
}

/* A is connected to B, but B to what is given. */
static void connect_sides(struct pair *p, const struct side_info *peer_of_b)
{
	side_meet(&p->b, peer_of_b);
	for (int i = 0; i < 2; i++) {
		struct side *s = i ? &p->a : &p->b;

		ok(side_init(s));
		ok(side_rtr(s));
		ok(side_rts(s));
	}
}

/* The receive was not used up: the flush gives it back. */
static void receive_is_there(struct side *s, uint64_t wr_id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (s->sock >= 0)
		return; /* no call for that */
	ok(ibv_modify_qp(s->qp, &attr, IBV_QP_STATE));
	expect_wc(s, RQ, IBV_WC_WR_FLUSH_ERR, wr_id);
}

/* The request ends as it should, and B notices nothing. */
static void without_effect(struct pair *p, struct op op, enum ibv_wc_status want)
{
	op.wr_id = 1;
	op.flags = IBV_SEND_SIGNALED;
	op.raddr = p->b.info.addr;
	op.rkey = p->b.info.rkey;
	ok(side_recv(&p->b, 70, 0, PAIR_BUF_B));
	ok(side_post(&p->a, &op));
	expect_wc(&p->a, SQ, want, 1);
	expect_state(&p->a, want == IBV_WC_SUCCESS ? IBV_QPS_RTS : IBV_QPS_ERR);
	if (want == IBV_WC_REM_INV_REQ_ERR) { /* B has given up too */
		expect_wc(&p->b, RQ, IBV_WC_WR_FLUSH_ERR, 70);
	} else {
		expect_no_wc(&p->b, RQ, 20);
		receive_is_there(&p->b, 70);
	}
	cr_assert(side_all(&p->b, 0, WAS_B, PAIR_BUF_B), "opcode %d changed B's memory", (int)op.code);
	cr_assert(side_all(&p->a, 0, WAS_A, PAIR_BUF_B), "opcode %d changed A's memory", (int)op.code);
}

/* B expects a PSN so many after the one that A starts with; modulo 2^24. */
static void with_psn_apart(struct op op, uint32_t apart, enum ibv_wc_status want)
{
	struct pair p;

	open_sides(&p);
	struct side_info expected = p.a.info;

	expected.psn = (expected.psn + apart) & 0xffffff;
	connect_sides(&p, &expected);
	without_effect(&p, op, want);
	pair_free(&p);
}

/* Taken for repetitions of what B has had; its acknowledgement names a PSN that A never used, which A must ignore. */
Test(misdirected, peer_expects_a_later_psn)
{
	for (int i = 0; i < KINDS; i++) {
		with_psn_apart(kinds[i], 1000, IBV_WC_RETRY_EXC_ERR);
		with_psn_apart(kinds[i], 0x7fffff, IBV_WC_RETRY_EXC_ERR);
	}
}

/* Something seems to be missing before it, and stays missing. */
Test(misdirected, peer_expects_an_earlier_psn)
{
	for (int i = 0; i < KINDS; i++) {
		with_psn_apart(kinds[i], 0xffffff, IBV_WC_RETRY_EXC_ERR);
		with_psn_apart(kinds[i], 0x900000, IBV_WC_RETRY_EXC_ERR);
	}
}

/*
 * B has had just these PSNs, as far as it knows: it acknowledges them again, and A cannot tell the difference. A READ
 * that B does not remember gets no answer.
 */
Test(misdirected, peer_has_had_these_psns)
{
	for (int i = 0; i < KINDS; i++) {
		bool read = kinds[i].code == IBV_WR_RDMA_READ;

		with_psn_apart(kinds[i], kinds[i].len / MTU_B, read ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
	}
}

/* B waits for the middle of a message of which it has no beginning. */
Test(misdirected, peer_expects_the_middle)
{
	for (int i = 0; i < KINDS; i++) {
		bool read = kinds[i].code == IBV_WR_RDMA_READ;

		with_psn_apart(kinds[i], kinds[i].len / MTU_B / 2,
			       read ? IBV_WC_RETRY_EXC_ERR : IBV_WC_REM_INV_REQ_ERR);
	}
}

Test(misdirected, peer_is_connected_elsewhere)
{
	for (int i = 0; i < KINDS; i++) {
		struct pair p;

		open_sides(&p);
		struct ibv_qp *third = side_qp(&p.a, p.a.rcq);
		struct side_info other = p.a.info; /* the PSN too: only the number is another one */

		other.qpn = third->qp_num;
		connect_sides(&p, &other);
		without_effect(&p, kinds[i], IBV_WC_RETRY_EXC_ERR);
		ok(ibv_destroy_qp(third));
		pair_free(&p);
	}
}

/* ---- many PSNs: messages that take nearly all of the sequence space together ------------------------------ */

enum { HUGE_COUNT = 4, TILE_B = 4 << 20 };
static const uint32_t huge_B = (1u << 30) - 256; /* nearly a quarter of the PSNs each */

/* Address space without memory behind it. */
static unsigned char *huge_map(size_t size_B)
{
	unsigned char *mem =
	    mmap(NULL, size_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(mem != MAP_FAILED);
	return mem;
}

/* The same few megabytes over and over. */
static unsigned char *tiled_map(size_t size_B)
{
	unsigned char *mem = huge_map(size_B);
	int fd = memfd_create("tile", MFD_CLOEXEC);

	must(fd >= 0 && !ftruncate(fd, TILE_B));
	for (size_t off_B = 0; off_B < size_B; off_B += TILE_B)
		must(mmap(mem + off_B, TILE_B, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	close(fd);
	return mem;
}

static void post_huge(struct pair *p, struct ibv_mr *from, struct ibv_mr *to, uint32_t i)
{
	struct ibv_sge sge = {(uint64_t)(uintptr_t)from->addr + i, huge_B, from->lkey};
	struct ibv_sge room = {(uint64_t)(uintptr_t)to->addr, huge_B, to->lkey};
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = i,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_recv_wr recv = {.wr_id = i, .sg_list = &room, .num_sge = 1}, *bad_recv;

	ok(ibv_post_recv(p->b.qp, &recv, &bad_recv));
	ok(raw_post(&p->a, &wr, &bad));
}

static void expect_huge(struct pair *p, uint32_t i)
{
	struct done d;

	cr_assert_eq(side_wc(&p->b, RQ, &d, patience_ms(20000)), 1, "message %u does not arrive", i);
	cr_assert_eq(d.wc.status, IBV_WC_SUCCESS, "%s", ibv_wc_status_str(d.wc.status));
	cr_assert_eq(d.wc.wr_id, i);
	cr_assert_eq(d.wc.imm_data, i);
	cr_assert_eq(d.wc.byte_len, huge_B);
	expect_wc(&p->a, SQ, IBV_WC_SUCCESS, i);
}

Test(many_psns, nearly_the_whole_sequence_space, .timeout = 120)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);

	attr.mtu = IBV_MTU_256;
	pair_open(&p, &attr);
	unsigned char *from = huge_map(1u << 30), *to = tiled_map(1u << 30);
	struct ibv_mr *from_mr = ibv_reg_mr(p.a.pd, from, 1u << 30, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *to_mr = ibv_reg_mr(p.b.pd, to, 1u << 30, IBV_ACCESS_LOCAL_WRITE);
	const size_t tail_off_B = (1u << 30) - 4096;

	must(from_mr && to_mr);
	for (size_t i = 0; i < 4096; i++)
		from[tail_off_B + i] = (unsigned char)(i % 251);
	ok(side_init(&p.a));
	ok(side_init(&p.b));
	ok(side_rtr(&p.a));
	ok(side_rts(&p.a));
	for (uint32_t i = 0; i < HUGE_COUNT; i++)
		post_huge(&p, from_mr, to_mr, i);
	usleep(50000); /* nobody is there yet: all that may go is lost */
	ok(side_rtr(&p.b));
	ok(side_rts(&p.b));
	for (uint32_t i = 0; i < HUGE_COUNT; i++)
		expect_huge(&p, i);
	/* The last message ends so many bytes later in the source. */
	cr_assert_eq(memcmp(to + tail_off_B, from + tail_off_B + HUGE_COUNT - 1, huge_B - tail_off_B), 0);
	ok(ibv_dereg_mr(from_mr));
	ok(ibv_dereg_mr(to_mr));
	munmap(from, 1u << 30);
	munmap(to, 1u << 30);
	pair_free(&p);
}

/* ---- many pieces: more of them in one receive than the card fills at once --------------------------------------- */

enum { PIECES = 200, MANY_B = 24576, SMALL_B = 16, GAP_B = 4 };

/* Small pieces with gaps between them, and one that takes the rest. */
static void post_pieces(struct side *s, struct ibv_sge sge[PIECES])
{
	uint32_t off = 0, left = MANY_B;
	struct ibv_recv_wr wr = {.wr_id = 70, .sg_list = sge, .num_sge = PIECES}, *bad;

	for (int i = 0; i < PIECES; i++) {
		uint32_t len = i < PIECES - 1 ? SMALL_B : left;

		sge[i] = (struct ibv_sge){(uint64_t)(uintptr_t)s->buf + off, len, s->mr->lkey};
		off += len + GAP_B;
		left -= len;
	}
	ok(ibv_post_recv(s->qp, &wr, &bad));
}

Test(many_pieces, every_byte_of_a_large_message)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct ibv_sge sge[PIECES];
	struct op op = {.code = IBV_WR_SEND, .wr_id = 1, .len = MANY_B, .flags = IBV_SEND_SIGNALED};
	unsigned char want[PAIR_BUF_B];

	attr.cap.max_recv_sge = PIECES;
	pair_make(&p, &attr);
	for (size_t i = 0; i < MANY_B; i++)
		p.a.buf[i] = (unsigned char)(i % 251);
	side_fill(&p.b, 0, WAS_B, PAIR_BUF_B);
	post_pieces(&p.b, sge);
	memset(want, WAS_B, sizeof(want));
	const unsigned char *next = p.a.buf;

	for (int i = 0; i < PIECES; i++) {
		memcpy(want + (sge[i].addr - p.b.info.addr), next, sge[i].length);
		next += sge[i].length;
	}
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	struct done d = expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);

	cr_assert_eq(d.wc.byte_len, MANY_B);
	cr_assert_eq(memcmp(p.b.buf, want, sizeof(want)), 0);
	pair_free(&p);
}
