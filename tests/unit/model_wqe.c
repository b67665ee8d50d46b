/* SPDX-License-Identifier: BSD-2-Clause */
/* WQE sizes by family, blocks in the send queue, and what is pushed. */
#include "tests/unit/model_test.h"

#include <stdlib.h>

static struct wqe_plan plan_of(const struct profile *p, struct wqe_shape s)
{
	struct wqe_plan plan;

	if (!s.posted_with)
		s.posted_with = 1;
	model_wqe_plan(p, &s, &plan);
	return plan;
}

static struct wqe_plan inline_plan(const struct profile *p, enum qp_kind kind, enum sim_op op, uint32_t bytes)
{
	return plan_of(p, (struct wqe_shape){.kind = kind, .op = op, .is_inline = true, .bytes = bytes, .num_sge = 1});
}

static struct wqe_plan gather_plan(const struct profile *p, enum qp_kind kind, enum sim_op op, uint32_t sges)
{
	return plan_of(p, (struct wqe_shape){.kind = kind, .op = op, .bytes = 100 * sges, .num_sge = sges});
}

/* Largest inline payload that still goes through the BlueFlame buffer. */
Test(model_wqe, mlx5_push_boundaries)
{
	const struct profile p = model_profile("connectx6dx");
	static const struct {
		enum qp_kind kind;
		enum sim_op op;
		uint32_t bytes;
	} rows[] = {
	    {QP_RC, OP_SEND, 236},     {QP_RC, OP_SEND_IMM, 236},   {QP_RC, OP_SEND_INV, 236},	  {QP_UC, OP_SEND, 236},
	    {QP_RC, OP_WRITE, 220},    {QP_RC, OP_WRITE_IMM, 220},  {QP_UC, OP_WRITE, 220},	  {QP_UD, OP_SEND, 188},
	    {QP_UD, OP_SEND_IMM, 188}, {QP_XRC_SEND, OP_SEND, 220}, {QP_XRC_SEND, OP_WRITE, 204},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct wqe_plan fits = inline_plan(&p, rows[i].kind, rows[i].op, rows[i].bytes);
		struct wqe_plan over = inline_plan(&p, rows[i].kind, rows[i].op, rows[i].bytes + 1);
		cr_expect(fits.push, "row %zu", i);
		cr_expect_eq(fits.wqe_B, 256, "row %zu: %u", i, fits.wqe_B);
		cr_expect_eq(fits.blocks, 4);
		cr_expect(!over.push, "row %zu", i);
		cr_expect_eq(over.wqe_B, 272);
		cr_expect_eq(over.blocks, 5);
	}
}

Test(model_wqe, mlx5_push_of_gathers)
{
	struct profile p = model_profile("connectx6dx");
	static const struct {
		enum qp_kind kind;
		enum sim_op op;
		uint32_t sges;
	} rows[] = {{QP_RC, OP_SEND, 15}, {QP_RC, OP_WRITE, 14}, {QP_RC, OP_READ, 14}, {QP_UD, OP_SEND, 12}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect(gather_plan(&p, rows[i].kind, rows[i].op, rows[i].sges).push, "row %zu", i);
		cr_expect(!gather_plan(&p, rows[i].kind, rows[i].op, rows[i].sges + 1).push, "row %zu", i);
	}
	cr_expect_eq(gather_plan(&p, QP_RC, OP_WRITE, 1).wqe_B, 48);
	p.push_non_inline = false;
	cr_expect(!gather_plan(&p, QP_RC, OP_SEND, 1).push);
	cr_expect(inline_plan(&p, QP_RC, OP_SEND, 1).push);
}

Test(model_wqe, mlx5_never_pushed)
{
	struct profile p = model_profile("connectx6dx");
	struct wqe_shape listed = {.kind = QP_RC, .op = OP_SEND, .is_inline = true, .bytes = 8, .num_sge = 1};

	/* A list rings one doorbell. */
	listed.posted_with = 2;
	cr_expect(!plan_of(&p, listed).push);
	/* Nothing but a control segment. */
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 0).wqe_B, 16);
	cr_expect(!inline_plan(&p, QP_RC, OP_SEND, 0).push);
	cr_expect(!gather_plan(&p, QP_RC, OP_SEND, 0).push);
	/* A zero-length WRITE has its remote address. */
	cr_expect_eq(inline_plan(&p, QP_RC, OP_WRITE, 0).wqe_B, 32);
	cr_expect(inline_plan(&p, QP_RC, OP_WRITE, 0).push);
	p.push_buf_B = 0;
	cr_expect(!inline_plan(&p, QP_RC, OP_SEND, 8).push);
}

Test(model_wqe, mlx5_sizes)
{
	const struct profile p = model_profile("connectx6dx");

	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 12).wqe_B, 32);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 13).wqe_B, 48);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 44).blocks, 1);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 45).blocks, 2);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 64).blocks, 2);
	cr_expect_eq(inline_plan(&p, QP_UD, OP_SEND, 8).wqe_B, 80);
	cr_expect_eq(gather_plan(&p, QP_RC, OP_CMP_SWAP, 1).wqe_B, 64);
	cr_expect_eq(gather_plan(&p, QP_RC, OP_LOCAL_INV, 0).wqe_B, 128);
	/* Room is counted in work requests, however long they are. */
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 800).units, 1);
	/* The flag on a READ changes nothing of its layout. */
	cr_expect_eq(inline_plan(&p, QP_RC, OP_READ, 100).wqe_B, 48);
}

Test(model_wqe, D2_environment_switches)
{
	struct profile p = model_profile("connectx6dx"), q = model_profile("generic");

	setenv("MLX5_SHUT_UP_BF", "0", 1);
	model_apply_env(&p);
	cr_expect(inline_plan(&p, QP_RC, OP_SEND, 8).push);
	cr_expect(gather_plan(&p, QP_RC, OP_SEND, 1).push);
	setenv("MLX5_POST_SEND_PREFER_BF", "0", 1);
	model_apply_env(&p);
	cr_expect(inline_plan(&p, QP_RC, OP_SEND, 8).push);
	cr_expect(!gather_plan(&p, QP_RC, OP_SEND, 1).push);
	setenv("MLX5_SHUT_UP_BF", "1", 1);
	model_apply_env(&p);
	cr_expect(!inline_plan(&p, QP_RC, OP_SEND, 8).push);
	q.kind = DB_BLUEFLAME;
	q.push_buf_B = 256;
	model_apply_env(&q);
	cr_expect_eq(q.push_buf_B, 256);
	unsetenv("MLX5_SHUT_UP_BF");
	unsetenv("MLX5_POST_SEND_PREFER_BF");
}

Test(model_wqe, irdma_quanta)
{
	struct profile e810 = model_profile("e810"), x722 = model_profile("x722");
	static const uint32_t capacity[] = {8, 39, 70, 101, 132, 163, 194, 225};

	for (uint32_t i = 0; i < ARRAY_LEN(capacity); i++) {
		cr_expect_eq(inline_plan(&e810, QP_RC, OP_SEND, capacity[i]).units, i + 1);
		cr_expect_eq(inline_plan(&e810, QP_UD, OP_SEND, capacity[i] + 1).units, i + 2);
		cr_expect_eq(inline_plan(&e810, QP_RC, OP_WRITE, capacity[i]).wqe_B, 32 * (i + 1));
	}
	cr_expect_eq(inline_plan(&e810, QP_RC, OP_SEND, 0).units, 1);
	cr_expect_eq(gather_plan(&e810, QP_RC, OP_SEND, 0).units, 1);
	cr_expect_eq(gather_plan(&e810, QP_RC, OP_SEND, 1).units, 1);
	cr_expect_eq(gather_plan(&e810, QP_RC, OP_SEND, 2).units, 2);
	cr_expect_eq(gather_plan(&e810, QP_RC, OP_SEND, 3).units, 2);
	cr_expect_eq(gather_plan(&e810, QP_RC, OP_SEND_IMM, 1).units, 2);
	cr_expect_eq(gather_plan(&e810, QP_RC, OP_SEND, 13).units, 7);
	cr_expect_eq(inline_plan(&x722, QP_RC, OP_SEND, 16).units, 1);
	cr_expect_eq(inline_plan(&x722, QP_RC, OP_SEND, 17).units, 2);
	cr_expect_eq(inline_plan(&x722, QP_RC, OP_WRITE, 48).units, 2);
	cr_expect_eq(gather_plan(&x722, QP_RC, OP_SEND, 3).units, 2);
	cr_expect(!inline_plan(&e810, QP_RC, OP_SEND, 8).push);
}

/* A work request never takes more quanta than the depth was computed for. */
Test(model_wqe, irdma_fits_its_grant)
{
	const struct profile ps[] = {model_profile("e810"), model_profile("x722")};

	for (size_t k = 0; k < ARRAY_LEN(ps); k++) {
		const struct profile *p = &ps[k];
		for (uint32_t sge = 1; sge <= p->max_send_sge; sge++) {
			for (uint32_t n = 0; n <= p->max_inline_data; n++) {
				struct qp_request req = {.kind = QP_RC, .caps = {16, 1, sge, 1, n}};
				struct qp_grant g;
				cr_assert_eq(model_negotiate(p, &req, &g), 0);
				uint32_t most = MAX(inline_plan(p, QP_RC, OP_SEND, n).units,
						    gather_plan(p, QP_RC, OP_SEND_IMM, sge).units);
				cr_assert_geq(g.sq_units, g.caps.max_send_wr * most, "%s S=%u N=%u", p->name, sge, n);
			}
		}
	}
}

Test(model_wqe, push_page)
{
	struct profile p = model_profile("e810");
	struct wqe_shape s = {.kind = QP_RC, .op = OP_SEND, .bytes = 8, .num_sge = 1, .posted_with = 3};

	p.kind = DB_PUSH_PAGE;
	p.push_buf_B = 256;
	cr_expect(!plan_of(&p, s).push);
	s.sq_idle = true;
	cr_expect(plan_of(&p, s).push);
}

Test(model_wqe, erdma_blocks)
{
	const struct profile p = model_profile("erdma");

	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 96).wqe_B, 112);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 96).units, 4);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_WRITE, 96).wqe_B, 128);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_WRITE, 96).units, 4);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 16).units, 1);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_SEND, 17).units, 2);
	cr_expect_eq(inline_plan(&p, QP_RC, OP_WRITE, 1).units, 2);
	cr_expect_eq(gather_plan(&p, QP_RC, OP_SEND, 1).units, 1);
	cr_expect_eq(gather_plan(&p, QP_RC, OP_WRITE, 6).units, 4);
	cr_expect(!inline_plan(&p, QP_RC, OP_SEND, 8).push);
}

Test(model_wqe, rxe_and_generic)
{
	const struct profile rxe = model_profile("rxe"), generic = model_profile("generic");

	cr_expect_eq(inline_plan(&rxe, QP_RC, OP_SEND, 100).wqe_B, 308);
	cr_expect_eq(gather_plan(&rxe, QP_RC, OP_SEND, 2).wqe_B, 240);
	cr_expect_eq(inline_plan(&rxe, QP_RC, OP_SEND, 100).units, 1);
	cr_expect(!inline_plan(&rxe, QP_RC, OP_SEND, 8).push);
	cr_expect_eq(inline_plan(&generic, QP_RC, OP_SEND, 8).wqe_B, 32);
	cr_expect_eq(gather_plan(&generic, QP_RC, OP_FETCH_ADD, 1).wqe_B, 64);
	cr_expect(!inline_plan(&generic, QP_RC, OP_SEND, 8).push);
}
