/* SPDX-License-Identifier: BSD-2-Clause */
/* D: how the WQE reaches the device. ConnectX adapters with a BlueFlame buffer of 256 bytes. */
#include "tests/scenarios/scenario.h"

#include <stdlib.h>

struct moved {
	uint64_t push_writes, doorbells, wqe_fetches, payload_reads, inline_posts;
};

static struct moved now(struct pair *p)
{
	return (struct moved){device_counter(p->a.ctx, "push_writes"), device_counter(p->a.ctx, "doorbells"),
			      device_counter(p->a.ctx, "wqe_fetches"), device_counter(p->a.ctx, "payload_reads"),
			      device_counter(p->a.ctx, "inline_posts")};
}

/* One RDMA WRITE; gives what it moved. */
static struct moved write_once(struct pair *p, uint32_t len, bool is_inline)
{
	struct op op = {.code = IBV_WR_RDMA_WRITE,
			.wr_id = 1,
			.len = len,
			.flags = IBV_SEND_SIGNALED | (is_inline ? IBV_SEND_INLINE : 0u),
			.raddr = p->b.info.addr,
			.rkey = p->b.info.rkey};
	struct moved was = now(p);

	ok(side_post(&p->a, &op));
	expect_wc(&p->a, SQ, IBV_WC_SUCCESS, 1);
	struct moved is = now(p);

	return (struct moved){is.push_writes - was.push_writes, is.doorbells - was.doorbells,
			      is.wqe_fetches - was.wqe_fetches, is.payload_reads - was.payload_reads,
			      is.inline_posts - was.inline_posts};
}

#define expect_moved(m, push, bell, fetch, payload)                                                                    \
	do {                                                                                                           \
		struct moved m_ = (m);                                                                                 \
		cr_assert_eq(m_.push_writes, (push), "push_writes +%lu", m_.push_writes);                              \
		cr_assert_eq(m_.doorbells, (bell), "doorbells +%lu", m_.doorbells);                                    \
		cr_assert_eq(m_.wqe_fetches, (fetch), "wqe_fetches +%lu", m_.wqe_fetches);                             \
		cr_assert_eq(m_.payload_reads, (payload), "payload_reads +%lu", m_.payload_reads);                     \
	} while (0)

static void make(struct pair *p)
{
	struct pair_attr attr = pair_attr(236, 16);

	pair_make(p, &attr);
}

Test(D1, blueflame_boundary_of_write)
{
	struct pair p;

	make(&p);
	expect_moved(write_once(&p, 220, true), 1, 0, 0, 0);
	expect_moved(write_once(&p, 221, true), 0, 1, 1, 0);
	struct moved m = write_once(&p, 221, false);

	expect_moved(m, 1, 0, 0, 1);
	cr_assert_eq(m.inline_posts, 0);
	pair_free(&p);
}

Test(D2, shut_up_bf)
{
	struct pair p;

	setenv("MLX5_SHUT_UP_BF", "1", 1);
	make(&p);
	expect_moved(write_once(&p, 16, true), 0, 1, 1, 0);
	expect_moved(write_once(&p, 220, true), 0, 1, 1, 0);
	expect_moved(write_once(&p, 16, false), 0, 1, 1, 1);
	pair_free(&p);
}

Test(D2, prefer_bf_off)
{
	struct pair p;

	setenv("MLX5_POST_SEND_PREFER_BF", "0", 1);
	make(&p);
	expect_moved(write_once(&p, 220, true), 1, 0, 0, 0);
	expect_moved(write_once(&p, 16, false), 0, 1, 1, 1);
	pair_free(&p);
}

Test(D2, a_list_rings_the_doorbell)
{
	struct pair p;

	make(&p);
	struct ibv_sge sge = {p.a.info.addr, 16, p.a.info.lkey};
	struct ibv_send_wr wr[2], *bad;

	for (int i = 0; i < 2; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
					     .next = i ? NULL : &wr[1],
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_INLINE | (i ? IBV_SEND_SIGNALED : 0),
					     .wr.rdma = {p.b.info.addr, p.b.info.rkey}};
	struct moved was = now(&p);

	ok(raw_post(&p.a, wr, &bad));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	struct moved is = now(&p);

	cr_assert_eq(is.push_writes, was.push_writes);
	cr_assert_eq(is.doorbells - was.doorbells, 1);
	cr_assert_geq(is.wqe_fetches - was.wqe_fetches, 1);
	pair_free(&p);
}
