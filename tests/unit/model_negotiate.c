/* SPDX-License-Identifier: BSD-2-Clause */
/* What each profile grants or refuses. Request -> grant rows of the vendors' libraries and drivers. */
#include "tests/unit/model_test.h"

#include <string.h>

#define BIG 0xFFFFFFFFu

/* Grant of a plain ibv_create_qp with one receive. */
static struct qp_grant ask(const struct profile *p, enum qp_kind kind, uint32_t wr, uint32_t sge, uint32_t inline_B)
{
	const struct qp_request req = {
	    .kind = kind,
	    .caps = {.max_send_wr = wr,
		     .max_recv_wr = 1,
		     .max_send_sge = sge,
		     .max_recv_sge = 1,
		     .max_inline_data = inline_B},
	};
	struct qp_grant g;
	int err = model_negotiate(p, &req, &g);

	cr_assert_eq(err, g.err);
	return g;
}

static uint32_t granted_inline(const struct profile *p, enum qp_kind kind, uint32_t wr, uint32_t sge, uint32_t inline_B)
{
	struct qp_grant g = ask(p, kind, wr, sge, inline_B);

	cr_assert_eq(g.err, 0, "%s %s W=%u S=%u N=%u: refused, %s %u of %u", p->name, qp_kind_name(kind), wr, sge,
		     inline_B, g.why, g.asked, g.allowed);
	cr_expect_eq(g.inline_limit_post_B,
		     p->inline_compare == COMPARE_CONSTANT ? p->inline_constant : g.caps.max_inline_data);
	return g.caps.max_inline_data;
}

static void expect_refused(const struct profile *p, struct qp_grant g, const char *why, uint32_t asked,
			   uint32_t allowed)
{
	cr_expect_eq(g.err, EINVAL, "%s: err %d", p->name, g.err);
	cr_expect(g.why && !strcmp(g.why, why), "%s: why '%s', not '%s'", p->name, g.why ? g.why : "-", why);
	cr_expect_eq(g.asked, asked, "%s %s: asked %u", p->name, why, g.asked);
	cr_expect_eq(g.allowed, allowed, "%s %s: allowed %u, not %u", p->name, why, g.allowed, allowed);
	cr_expect(!g.errno_untouched);
}

struct row {
	uint32_t asked, granted;
};

Test(model_negotiate, B3_mlx5_rounding)
{
	static const struct row rows[] = {{0, 60},    {60, 60},	  {61, 124},  {64, 124},  {124, 124}, {125, 188},
					  {188, 188}, {189, 252}, {220, 252}, {236, 252}, {252, 252}, {253, 316},
					  {512, 572}, {764, 764}, {765, 828}, {828, 828}};
	const struct profile ps[] = {model_profile("connectx6dx"), model_profile("connectx5")};

	for (size_t i = 0; i < ARRAY_LEN(ps); i++) {
		for (size_t j = 0; j < ARRAY_LEN(rows); j++) {
			uint32_t got = granted_inline(&ps[i], QP_RC, 16, 1, rows[j].asked);
			cr_expect_eq(got, rows[j].granted, "RC %u -> %u, got %u", rows[j].asked, rows[j].granted, got);
			cr_expect_eq(granted_inline(&ps[i], QP_UC, 16, 1, rows[j].asked), rows[j].granted);
		}
		expect_refused(&ps[i], ask(&ps[i], QP_RC, 16, 1, 829), "max_inline_data", 829, 828);
		expect_refused(&ps[i], ask(&ps[i], QP_RC, 16, 1, 1024), "max_inline_data", 1024, 828);
		expect_refused(&ps[i], ask(&ps[i], QP_XRC_SEND, 16, 1, 813), "max_inline_data", 813, 812);
		cr_expect_eq(granted_inline(&ps[i], QP_XRC_SEND, 16, 1, 812), 812);
	}
}

Test(model_negotiate, mlx5_refusal_leaves_the_request)
{
	const struct profile p = model_profile("connectx6dx");
	struct qp_grant g = ask(&p, QP_RC, 16, 1, 829);

	cr_expect(!g.caps_edited);
	cr_expect_eq(g.caps.max_inline_data, 829);
	cr_expect_eq(g.caps.max_send_wr, 16);
}

Test(model_negotiate, B4_mlx5_kind_and_operations)
{
	static const struct row ud[] = {{0, 60}, {188, 188}, {236, 252}, {956, 956}};
	static const struct row send[] = {{0, 44}, {236, 236}, {1004, 1004}};
	static const struct row rdma[] = {{0, 28}, {220, 220}, {988, 988}};
	static const struct row atomic[] = {{0, 12}, {13, 76}, {972, 972}};
	static const struct {
		uint64_t ops;
		const struct row *rows;
		size_t count;
		uint32_t first_refused;
	} sets[] = {
	    {IBV_QP_EX_WITH_SEND, send, ARRAY_LEN(send), 1005},
	    {IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV, send, ARRAY_LEN(send), 1005},
	    {IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ, rdma, ARRAY_LEN(rdma), 989},
	    {IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, atomic, ARRAY_LEN(atomic), 973},
	};
	const struct profile p = model_profile("connectx6dx");

	for (size_t i = 0; i < ARRAY_LEN(ud); i++)
		cr_expect_eq(granted_inline(&p, QP_UD, 16, 1, ud[i].asked), ud[i].granted);
	expect_refused(&p, ask(&p, QP_UD, 16, 1, 957), "max_inline_data", 957, 956);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		struct qp_request req = {.kind = QP_RC, .send_ops = sets[i].ops, .extended = true};
		struct qp_grant g;
		req.caps = (struct qp_caps){.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
		for (size_t j = 0; j < sets[i].count; j++) {
			req.caps.max_inline_data = sets[i].rows[j].asked;
			cr_expect_eq(model_negotiate(&p, &req, &g), 0);
			cr_expect_eq(g.caps.max_inline_data, sets[i].rows[j].granted, "set %zu: %u -> %u", i,
				     sets[i].rows[j].asked, g.caps.max_inline_data);
		}
		req.caps.max_inline_data = sets[i].first_refused;
		cr_expect_eq(model_negotiate(&p, &req, &g), EINVAL);
	}
}

Test(model_negotiate, B5_mlx5_depth_and_inline_share_memory)
{
	const struct profile p = model_profile("connectx6dx");

	cr_expect_eq(granted_inline(&p, QP_RC, 8192, 1, 0), 60);
	expect_refused(&p, ask(&p, QP_RC, 8192, 1, 61), "max_send_wr", 8192, 6553);
	expect_refused(&p, ask(&p, QP_RC, 8192, 1, 236), "max_send_wr", 8192, 4681);
	expect_refused(&p, ask(&p, QP_RC, 8193, 1, 0), "max_send_wr", 8193, 8192);
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 0).caps.max_send_wr, 16);
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 64).caps.max_send_wr, 25);
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 236).caps.max_send_wr, 18);
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 236).sq_units, 18);
	expect_refused(&p, ask(&p, QP_RC, BIG, 1, 0), "max_send_wr", BIG, 8192);
}

Test(model_negotiate, mlx5_sges)
{
	const struct profile p = model_profile("connectx6dx");
	struct qp_grant g;

	cr_expect_eq(granted_inline(&p, QP_RC, 16, 13, 0), 252);
	cr_expect_eq(granted_inline(&p, QP_RC, 16, 16, 0), 252);
	cr_expect_eq(granted_inline(&p, QP_RC, 16, 30, 0), 508);
	/* More than ibv_query_device reports is granted. */
	g = ask(&p, QP_RC, 16, 52, 0);
	cr_expect_eq(g.err, 0);
	cr_expect_eq(g.caps.max_send_sge, 52);
	cr_expect_eq(g.sge_limit_post, 52);
	expect_refused(&p, ask(&p, QP_RC, 16, 53, 0), "max_send_sge", 53, 52);
	cr_expect_eq(ask(&p, QP_UD, 16, 60, 0).err, 0);
	expect_refused(&p, ask(&p, QP_UD, 16, 61, 0), "max_send_sge", 61, 60);
	/* Nothing asked for: 2^32 - 4 comes back, and no inline post can succeed. */
	for (int ud = 0; ud < 2; ud++) {
		g = ask(&p, ud ? QP_UD : QP_RC, 16, 0, 0);
		cr_expect_eq(g.err, 0);
		cr_expect_eq(g.caps.max_inline_data, 4294967292u);
		cr_expect_eq(g.inline_limit_post_B, 0);
		cr_expect_eq(g.sge_limit_post, 0);
	}
	/* No send queue: the figure is echoed, not computed. */
	g = ask(&p, QP_RC, 0, 1, 5000);
	cr_expect_eq(g.err, 0);
	cr_expect_eq(g.caps.max_inline_data, 5000);
	cr_expect_eq(g.inline_limit_post_B, 0);
	cr_expect_eq(g.sq_units, 0);
}

Test(model_negotiate, mlx5_receive_queue)
{
	const struct profile p = model_profile("connectx6dx");
	struct qp_request req = {.kind = QP_RC, .caps = {16, 16, 1, 1, 0}};
	struct qp_grant g;

	cr_expect_eq(model_negotiate(&p, &req, &g), 0);
	cr_expect_eq(g.caps.max_recv_wr, 16);
	cr_expect_eq(g.caps.max_recv_sge, 1);
	/* A ring is at least one 64-byte block; depth and SGEs are powers of two. */
	req.caps.max_recv_wr = 1;
	model_negotiate(&p, &req, &g);
	cr_expect_eq(g.caps.max_recv_wr, 4);
	req.caps.max_recv_wr = 100;
	req.caps.max_recv_sge = 3;
	model_negotiate(&p, &req, &g);
	cr_expect_eq(g.caps.max_recv_wr, 128);
	cr_expect_eq(g.caps.max_recv_sge, 4);
	req.caps.max_recv_wr = 32768;
	req.caps.max_recv_sge = 32;
	cr_expect_eq(model_negotiate(&p, &req, &g), 0);
	req.caps.max_recv_sge = 33;
	model_negotiate(&p, &req, &g);
	expect_refused(&p, g, "max_recv_sge", 33, 32);
	req.caps.max_recv_wr = 32769;
	model_negotiate(&p, &req, &g);
	expect_refused(&p, g, "max_recv_wr", 32769, 32768);
	req = (struct qp_request){.kind = QP_RC, .caps = {16, 16, 1, 1, 0}, .has_srq = true};
	cr_expect_eq(model_negotiate(&p, &req, &g), 0);
	cr_expect_eq(g.caps.max_recv_wr, 0);
}

Test(model_negotiate, mlx5_extended_create_edits_the_caller)
{
	const struct profile p = model_profile("connectx6dx");
	struct qp_request req = {.kind = QP_RC, .caps = {8192, 1, 1, 1, 61}, .extended = true};
	struct qp_grant g;

	cr_expect_eq(model_negotiate(&p, &req, &g), EINVAL);
	cr_expect(g.caps_edited);
	cr_expect_eq(g.caps.max_inline_data, 124);
	cr_expect_eq(g.caps.max_send_wr, 8192);
	req.extended = false;
	cr_expect_eq(model_negotiate(&p, &req, &g), EINVAL);
	cr_expect(!g.caps_edited);
	cr_expect_eq(g.caps.max_inline_data, 61);
}

Test(model_negotiate, B1_e810)
{
	const struct profile p = model_profile("e810");
	static const uint32_t refused[] = {102, 220, 256, BIG};

	cr_expect_eq(granted_inline(&p, QP_RC, 16, 1, 0), 0);
	cr_expect_eq(granted_inline(&p, QP_RC, 16, 1, 101), 101);
	cr_expect_eq(granted_inline(&p, QP_UD, 16, 1, 101), 101);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		expect_refused(&p, ask(&p, QP_RC, 16, 1, refused[i]), "max_inline_data", refused[i], 101);
	expect_refused(&p, ask(&p, QP_RC, 16, 14, 0), "max_send_sge", 14, 13);
	cr_expect_eq(ask(&p, QP_UC, 16, 1, 0).err, EOPNOTSUPP);
	cr_expect_eq(ask(&p, QP_XRC_SEND, 16, 1, 0).err, EOPNOTSUPP);
}

/* The inline figure decides the quanta of a work request, so the depth. */
Test(model_negotiate, e810_depth)
{
	const struct profile p = model_profile("e810");
	static const struct {
		uint32_t wr, sge, inline_B, granted_wr;
	} rows[] = {{16, 1, 39, 127}, {16, 1, 40, 63}, {16, 1, 101, 63},
		    {16, 0, 8, 254},  {16, 13, 0, 31}, {0, 1, 0, 127}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct qp_grant g = ask(&p, QP_RC, rows[i].wr, rows[i].sge, rows[i].inline_B);
		cr_expect_eq(g.err, 0);
		cr_expect_eq(g.caps.max_send_wr, rows[i].granted_wr, "row %zu: %u", i, g.caps.max_send_wr);
	}
	/* 4063 of eight quanta fill the 32768, with the reserve taken off. */
	cr_expect_eq(ask(&p, QP_RC, 4063, 13, 0).caps.max_send_wr, 4063);
	expect_refused(&p, ask(&p, QP_RC, 4064, 13, 0), "max_send_wr", 4064, 4063);
	expect_refused(&p, ask(&p, QP_RC, BIG, 1, 0), "max_send_wr", BIG, 16255);
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 40).sq_units, 512 - 257);
	/* Room for every granted work request at its full size. */
	cr_expect_geq(ask(&p, QP_RC, 16, 1, 40).sq_units, 63u * 4);
}

Test(model_negotiate, irdma_generation_3)
{
	struct profile p = model_profile("e810");

	p.hw_gen = 3;
	p.max_inline_data = 216;
	p.max_send_sge = p.max_recv_sge = 14;
	cr_expect_eq(granted_inline(&p, QP_RC, 16, 1, 216), 216);
	expect_refused(&p, ask(&p, QP_RC, 16, 1, 217), "max_inline_data", 217, 216);
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 102).caps.max_send_wr, 31);
}

Test(model_negotiate, B2_x722)
{
	const struct profile p = model_profile("x722");

	cr_expect_eq(granted_inline(&p, QP_RC, 16, 1, 48), 48);
	expect_refused(&p, ask(&p, QP_RC, 16, 1, 49), "max_inline_data", 49, 48);
	expect_refused(&p, ask(&p, QP_RC, 16, 4, 0), "max_send_sge", 4, 3);
	cr_expect_eq(ask(&p, QP_RC, 895, 3, 0).caps.max_send_wr, 895);
	expect_refused(&p, ask(&p, QP_RC, 896, 3, 0), "max_send_wr", 896, 895);
	/* One quantum holds 16 bytes of inline data on this generation, two hold 48. */
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 16).caps.max_send_wr, 254);
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 17).caps.max_send_wr, 127);
	/* UD is refused by the kernel, after the library has rounded the caller's figures. */
	struct qp_grant g = ask(&p, QP_UD, 16, 1, 0);
	cr_expect_eq(g.err, EOPNOTSUPP);
	cr_expect(g.caps_edited);
	cr_expect_eq(g.caps.max_send_wr, 254);
}

Test(model_negotiate, B2_erdma)
{
	const struct profile p = model_profile("erdma");
	struct qp_request req = {.kind = QP_RC, .caps = {128, 128, 2, 1, 96}};
	struct qp_grant g;

	cr_expect_eq(granted_inline(&p, QP_RC, 128, 2, 96), 96);
	cr_expect_eq(granted_inline(&p, QP_RC, 128, 2, 0), 0);
	expect_refused(&p, ask(&p, QP_RC, 128, 2, 97), "max_inline_data", 97, 96);
	expect_refused(&p, ask(&p, QP_RC, 8193, 2, 0), "max_send_wr", 8193, 8192);
	expect_refused(&p, ask(&p, QP_RC, 16, 7, 0), "max_send_sge", 7, 6);
	expect_refused(&p, ask(&p, QP_RC, 0, 1, 0), "max_send_wr of 0", 0, 8192);
	req.caps.max_recv_wr = 0;
	model_negotiate(&p, &req, &g);
	expect_refused(&p, g, "max_recv_wr of 0", 0, 8192);
	req.caps.max_recv_wr = 1;
	req.caps.max_recv_sge = 2;
	model_negotiate(&p, &req, &g);
	expect_refused(&p, g, "max_recv_sge", 2, 1);
	/* Figures are looked at before the type. */
	cr_expect_eq(ask(&p, QP_UD, 16, 1, 0).err, EOPNOTSUPP);
	cr_expect_eq(ask(&p, QP_UD, 16, 1, 97).err, EINVAL);
	/* The post knows its constant only, and room is set aside in blocks. */
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 0).inline_limit_post_B, 96);
	cr_expect_eq(ask(&p, QP_RC, 100, 1, 0).sq_units, 512);
}

/* A step-down loop 236, 220, 204, ... on a limit of 96. */
Test(model_negotiate, B2_step_down)
{
	const struct profile p = model_profile("erdma");
	uint32_t refused = 0, asked = 236;

	while (ask(&p, QP_RC, 16, 1, asked).err) {
		refused++;
		asked -= 16;
	}
	cr_expect_eq(asked, 92);
	cr_expect_eq(refused, 9);
}

Test(model_negotiate, B8_rxe)
{
	struct profile p = model_profile("rxe");
	struct qp_grant g;

	cr_expect_eq(granted_inline(&p, QP_RC, 16, 1, 512), 512);
	expect_refused(&p, ask(&p, QP_RC, 16, 1, 513), "max_inline_data", 513, 512);
	cr_expect_eq(granted_inline(&p, QP_RC, 16, 1, 0), 16);
	g = ask(&p, QP_RC, 16, 1, 64);
	cr_expect_eq(g.caps.max_inline_data, 64);
	cr_expect_eq(g.caps.max_send_sge, 4);
	cr_expect_eq(g.sge_limit_post, 4);
	cr_expect_eq(granted_inline(&p, QP_UD, 16, 2, 0), 32);
	g = ask(&p, QP_UC, 16, 1, 100);
	cr_expect_eq(g.caps.max_inline_data, 100);
	cr_expect_eq(g.caps.max_send_sge, 6);
	expect_refused(&p, ask(&p, QP_RC, 16, 33, 0), "max_send_sge", 33, 32);
	expect_refused(&p, ask(&p, QP_RC, 1048577, 1, 0), "max_send_wr", 1048577, 1048576);
	cr_expect_eq(ask(&p, QP_XRC_SEND, 16, 1, 0).err, EOPNOTSUPP);
	/* Rings keep a slot free. */
	cr_expect_eq(ask(&p, QP_RC, 16, 1, 0).caps.max_send_wr, 31);
	cr_expect_eq(ask(&p, QP_RC, 15, 1, 0).caps.max_send_wr, 15);
	/* Old kernels: a plain limit of 400, echoed. */
	p.policy = POLICY_ECHO;
	p.max_inline_data = 400;
	cr_expect_eq(granted_inline(&p, QP_RC, 16, 1, 400), 400);
	expect_refused(&p, ask(&p, QP_RC, 16, 1, 401), "max_inline_data", 401, 400);
}

Test(model_negotiate, B9_absurd_capabilities)
{
	const struct profile p = model_profile("generic");
	static const char *const names[] = {"max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge",
					    "max_inline_data"};
	const uint32_t limits[] = {p.max_qp_wr, p.max_qp_wr, p.max_send_sge, p.max_recv_sge, 256};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		uint32_t caps[5] = {16, 16, 1, 1, 0};
		struct qp_request req = {.kind = QP_RC};
		struct qp_grant g;
		caps[i] = BIG;
		req.caps = (struct qp_caps){caps[0], caps[1], caps[2], caps[3], caps[4]};
		model_negotiate(&p, &req, &g);
		expect_refused(&p, g, names[i], BIG, limits[i]);
	}
}

/* No sum overflows: 0xFFFFFFFF in any capability alone is refused by every profile. */
Test(model_negotiate, absurd_capabilities_of_every_profile)
{
	const struct profile ps[] = {model_profile("connectx6dx"), model_profile("connectx5"), model_profile("e810"),
				     model_profile("x722"),	   model_profile("erdma"),     model_profile("rxe")};

	for (size_t k = 0; k < ARRAY_LEN(ps); k++) {
		for (size_t i = 0; i < 5; i++) {
			uint32_t caps[5] = {16, 16, 1, 1, 0};
			struct qp_request req = {.kind = QP_RC};
			struct qp_grant g;
			caps[i] = BIG;
			req.caps = (struct qp_caps){caps[0], caps[1], caps[2], caps[3], caps[4]};
			cr_expect_eq(model_negotiate(&ps[k], &req, &g), EINVAL, "%s, capability %zu", ps[k].name, i);
			cr_expect_eq(g.asked, BIG);
		}
	}
}

Test(model_negotiate, generic_echo)
{
	struct profile p = model_profile("generic");
	struct qp_grant g = ask(&p, QP_RC, 100, 7, 256);

	cr_expect_eq(g.err, 0);
	cr_expect_eq(g.caps.max_send_wr, 100);
	cr_expect_eq(g.caps.max_send_sge, 7);
	cr_expect_eq(g.caps.max_inline_data, 256);
	cr_expect_eq(g.sq_units, 100);
	expect_refused(&p, ask(&p, QP_RC, 16, 1, 257), "max_inline_data", 257, 256);
	/* B6: an adapter without inline data grants 0 and refuses nothing. */
	p.max_inline_data = 0;
	cr_expect_eq(granted_inline(&p, QP_RC, 16, 1, 64), 0);
}

Test(model_negotiate, xrc_halves)
{
	const struct profile p = model_profile("connectx6dx");
	struct qp_grant g = ask(&p, QP_XRC_RECV, 16, 1, 64);

	cr_expect_eq(g.err, 0);
	cr_expect_eq(g.caps.max_send_wr, 0);
	cr_expect_eq(g.caps.max_recv_wr, 0);
	cr_expect_eq(ask(&p, QP_XRC_SEND, 16, 1, 64).caps.max_recv_wr, 0);
}

/* Whatever is granted is at least what was asked for, and one more step of inline data never lowers it. */
Test(model_negotiate, grants_cover_requests)
{
	const struct profile ps[] = {model_profile("connectx6dx"), model_profile("e810"), model_profile("x722"),
				     model_profile("erdma"),	   model_profile("rxe"),  model_profile("generic")};

	for (size_t k = 0; k < ARRAY_LEN(ps); k++) {
		uint32_t last = 0;
		for (uint32_t n = 0; n < 1100; n++) {
			struct qp_grant g = ask(&ps[k], QP_RC, 33, 2, n);
			if (g.err) {
				cr_expect_eq(g.allowed, last, "%s: %u refused at %u", ps[k].name, n, g.allowed);
				break;
			}
			cr_expect_geq(g.caps.max_inline_data, n);
			cr_expect_geq(g.caps.max_inline_data, last);
			cr_expect_geq(g.caps.max_send_wr, 33);
			cr_expect_geq(g.caps.max_send_sge, 2);
			last = g.caps.max_inline_data;
		}
	}
}
