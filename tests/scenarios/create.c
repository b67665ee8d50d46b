/* SPDX-License-Identifier: BSD-2-Clause */
/* B: inline capacity at queue-pair creation. */
#include "tests/scenarios/scenario.h"

static void granted(struct bare *b, uint32_t ask, uint32_t want)
{
	uint32_t grant = 0;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp = bare_qp_inline(b, ask, &grant);

	cr_assert(qp, "request of %u refused, errno %d", ask, errno);
	cr_assert_eq(grant, want, "request of %u granted %u, not %u", ask, grant, want);
	ok(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	cr_assert_eq(init.cap.max_inline_data, want, "ibv_query_qp tells %u", init.cap.max_inline_data);
	ok(ibv_destroy_qp(qp));
}

static void refused(struct bare *b, uint32_t ask)
{
	struct ibv_qp *qp = bare_qp_inline(b, ask, NULL);

	cr_assert_null(qp, "request of %u granted", ask);
	cr_assert_eq(errno, EINVAL, "request of %u: errno %d", ask, errno);
}

Test(B1, e810_limit_101)
{
	struct bare b = bare_open();
	uint32_t grant;

	struct ibv_qp *qp = bare_qp_inline(&b, 101, &grant);

	cr_assert(qp);
	cr_assert_geq(grant, 101);
	ok(ibv_destroy_qp(qp));
	refused(&b, 102);
	refused(&b, 220);
	refused(&b, 256);
	qp = bare_qp_inline(&b, 0, NULL);
	cr_assert(qp);
	ok(ibv_destroy_qp(qp));
	bare_close(&b);
}

Test(B1, e810_refusal_names_both_figures)
{
	struct bare b = bare_open();

	stderr_catch();
	struct ibv_qp *qp = bare_qp_inline(&b, 220, NULL);
	const char *said = stderr_caught();

	cr_assert_null(qp);
	cr_assert(strstr(said, "220"), "said: %s", said);
	cr_assert(strstr(said, "101"), "said: %s", said);
	cr_assert(strstr(said, "ibv_create_qp"), "said: %s", said);
	cr_assert(strstr(said, "EINVAL"), "said: %s", said);
	cr_assert_eq(strchr(said, '\n'), said + strlen(said) - 1, "more than one line: %s", said);
	bare_close(&b);
}

Test(B1, e810_ten_refusals_hold_nothing)
{
	struct bare b = bare_open();
	uint64_t before = device_counter(b.ctx, "refusals");

	for (int i = 0; i < 10; i++)
		refused(&b, 102 + (uint32_t)i);
	cr_assert_eq(device_counter(b.ctx, "refusals") - before, 10);
	struct ibv_qp *qp = bare_qp_inline(&b, 101, NULL);

	cr_assert(qp);
	ok(ibv_destroy_qp(qp));
	bare_close(&b);
}

Test(B2, exact_limit)
{
	struct bare b = bare_open();
	uint32_t max = card()->inline_max; /* 48 and 96 */

	granted(&b, max, max);
	refused(&b, max + 1);
	bare_close(&b);
}

Test(B2, erdma_step_down_from_236)
{
	struct bare b = bare_open();
	struct ibv_qp *qp = NULL;
	int creates = 0, refusals = 0;
	uint32_t ask = 236;

	for (;; ask -= 16) {
		qp = bare_qp_inline(&b, ask, NULL);
		creates++;
		if (qp)
			break;
		cr_assert_eq(errno, EINVAL);
		refusals++;
	}
	cr_assert_eq(ask, 92);
	cr_assert_eq(creates, 10);
	cr_assert_eq(refusals, 9);
	ok(ibv_destroy_qp(qp));
	bare_close(&b);
}

Test(B3, mlx5_rounding)
{
	static const struct {
		uint32_t ask, grant;
	} rows[] = {{0, 60},	{60, 60},   {61, 124},	{64, 124},  {125, 188}, {189, 252},
		    {220, 252}, {236, 252}, {253, 316}, {512, 572}, {828, 828}};
	struct bare b = bare_open();

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		granted(&b, rows[i].ask, rows[i].grant);
	refused(&b, 829);
	bare_close(&b);
}

Test(B3, mlx5_refusal_leaves_the_callers_caps)
{
	struct bare b = bare_open();
	struct ibv_qp_cap cap = pair_attr(829, 16).cap;
	struct ibv_qp_init_attr init = {.send_cq = b.cq, .recv_cq = b.cq, .cap = cap, .qp_type = IBV_QPT_RC};

	cr_assert_null(ibv_create_qp(b.pd, &init));
	cr_assert_eq(memcmp(&init.cap, &cap, sizeof(cap)), 0);
	bare_close(&b);
}

Test(B8, rxe_limit_512)
{
	struct bare b = bare_open();
	struct ibv_qp_cap cap = pair_attr(0, 16).cap;

	granted(&b, 512, 512);
	refused(&b, 513);

	struct ibv_qp *qp = bare_qp(&b, &cap);

	cr_assert(qp);
	cr_assert_eq(cap.max_inline_data, 16);
	cr_assert_eq(cap.max_send_sge, 1);
	ok(ibv_destroy_qp(qp));

	cap = pair_attr(64, 16).cap;
	qp = bare_qp(&b, &cap);
	cr_assert(qp);
	cr_assert_eq(cap.max_inline_data, 64);
	cr_assert_eq(cap.max_send_sge, 4);
	ok(ibv_destroy_qp(qp));
	bare_close(&b);
}

Test(B8, rxe_old_limit_400)
{
	struct bare b = bare_open();

	granted(&b, 400, 400);
	refused(&b, 401);
	bare_close(&b);
}

Test(B9, absurd_capabilities)
{
	struct bare b = bare_open();
	static const size_t fields[] = {
	    offsetof(struct ibv_qp_cap, max_send_wr),	  offsetof(struct ibv_qp_cap, max_recv_wr),
	    offsetof(struct ibv_qp_cap, max_send_sge),	  offsetof(struct ibv_qp_cap, max_recv_sge),
	    offsetof(struct ibv_qp_cap, max_inline_data),
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		struct ibv_qp_cap cap = pair_attr(0, 16).cap;
		uint32_t absurd = UINT32_MAX;

		memcpy((char *)&cap + fields[i], &absurd, sizeof(absurd));
		cr_assert_null(bare_qp(&b, &cap), "field %zu accepted", i);
		cr_assert_eq(errno, EINVAL, "field %zu: errno %d", i, errno);
	}
	struct ibv_qp *qp = bare_qp_inline(&b, 0, NULL);

	cr_assert(qp);
	ok(ibv_destroy_qp(qp));
	bare_close(&b);
}
