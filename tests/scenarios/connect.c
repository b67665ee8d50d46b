/* SPDX-License-Identifier: BSD-2-Clause */
/* G: connecting. */
#include "tests/scenarios/scenario.h"

/* ---- G1: the state machine ----------------------------------------------------------------------------------- */

static const struct {
	int bit;
	const char *name;
} rtr_bits[] = {
    {IBV_QP_AV, "AV"},
    {IBV_QP_PATH_MTU, "PATH_MTU"},
    {IBV_QP_DEST_QPN, "DEST_QPN"},
    {IBV_QP_RQ_PSN, "RQ_PSN"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
    {IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
};

enum {
	INIT_MASK = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RTS_MASK = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		   IBV_QP_MAX_QP_RD_ATOMIC,
};

static struct ibv_qp_attr full_attr(struct pair *p, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to,
				   .port_num = 1,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = p->b.info.qpn,
				   .max_dest_rd_atomic = 1,
				   .max_rd_atomic = 1,
				   .min_rnr_timer = 1,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7};

	attr.ah_attr.port_num = 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid = p->b.info.gid;
	attr.ah_attr.grh.sgid_index = p->a.info.gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	return attr;
}

static int modify(struct pair *p, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = full_attr(p, to);

	return ibv_modify_qp(p->a.qp, &attr, mask);
}

static void open_pair(struct pair *p)
{
	struct pair_attr attr = pair_attr(0, 8);

	pair_open(p, &attr);
	cr_assert_eq(side_state(&p->a), IBV_QPS_RESET);
}

Test(G1, forbidden_transitions)
{
	struct pair p;

	open_pair(&p);
	cr_assert_eq(modify(&p, IBV_QPS_RTR, RTR_MASK), EINVAL);
	cr_assert_eq(side_state(&p.a), IBV_QPS_RESET);
	cr_assert_eq(modify(&p, IBV_QPS_RTS, RTS_MASK), EINVAL);
	cr_assert_eq(side_state(&p.a), IBV_QPS_RESET);
	ok(side_init(&p.a));
	cr_assert_eq(modify(&p, IBV_QPS_RTS, RTS_MASK), EINVAL);
	cr_assert_eq(side_state(&p.a), IBV_QPS_INIT);
	pair_free(&p);
}

Test(G1, init_to_rtr_lacking_one_attribute)
{
	struct pair p;

	open_pair(&p);
	ok(side_init(&p.a));
	for (size_t i = 0; i < sizeof(rtr_bits) / sizeof(*rtr_bits); i++) {
		stderr_catch();
		int ret = modify(&p, IBV_QPS_RTR, RTR_MASK & ~rtr_bits[i].bit);
		const char *said = stderr_caught();

		cr_assert_eq(ret, EINVAL, "without %s: %d", rtr_bits[i].name, ret);
		cr_assert_eq(side_state(&p.a), IBV_QPS_INIT);
		cr_assert(strstr(said, rtr_bits[i].name), "without %s, said: %s", rtr_bits[i].name, said);
	}
	ok(modify(&p, IBV_QPS_RTR, RTR_MASK));
	cr_assert_eq(side_state(&p.a), IBV_QPS_RTR);
	pair_free(&p);
}

Test(G1, any_state_to_reset_and_error)
{
	struct pair p;

	open_pair(&p);
	for (int from = IBV_QPS_RESET; from <= IBV_QPS_RTS; from++)
		for (int to_err = 0; to_err < 2; to_err++) {
			if (from >= IBV_QPS_INIT)
				ok(side_init(&p.a));
			if (from >= IBV_QPS_RTR)
				ok(side_rtr(&p.a));
			if (from >= IBV_QPS_RTS)
				ok(side_rts(&p.a));
			cr_assert_eq((int)side_state(&p.a), from);
			if (to_err && from != IBV_QPS_RESET) {
				ok(modify(&p, IBV_QPS_ERR, IBV_QP_STATE));
				cr_assert_eq(side_state(&p.a), IBV_QPS_ERR);
			}
			ok(modify(&p, IBV_QPS_RESET, IBV_QP_STATE));
			cr_assert_eq(side_state(&p.a), IBV_QPS_RESET);
		}
	pair_free(&p);
}

Test(G1, reset_to_reset)
{
	struct pair p;

	open_pair(&p);
	ok(modify(&p, IBV_QPS_RESET, IBV_QP_STATE));
	ok(side_init(&p.a));
	cr_assert_eq(side_state(&p.a), IBV_QPS_INIT);
	pair_free(&p);
}

/* On a file made from e810's with quirk_reset_twice = 1. */
Test(G1, reset_to_reset_quirk)
{
	struct pair p;

	open_pair(&p);
	ok(side_init(&p.a));
	ok(modify(&p, IBV_QPS_RESET, IBV_QP_STATE));
	ok(side_init(&p.a));
	ok(modify(&p, IBV_QPS_RESET, IBV_QP_STATE));
	ok(modify(&p, IBV_QPS_RESET, IBV_QP_STATE));
	stderr_catch();
	int ret = side_init(&p.a);
	const char *said = stderr_caught();

	cr_assert_eq(ret, EINVAL);
	cr_assert(strstr(said, "quirk_reset_twice"), "said: %s", said);
	cr_assert_eq(side_state(&p.a), IBV_QPS_RESET);
	ok(side_init(&p.b));
	pair_free(&p);
}

Test(G1, posting_by_state)
{
	struct pair p;
	struct op op = {.code = IBV_WR_SEND, .len = 8, .flags = IBV_SEND_SIGNALED};

	open_pair(&p);
	cr_assert_neq(side_recv(&p.a, 1, 0, 64), 0);
	cr_assert_eq(side_post(&p.a, &op), card()->post_state);
	ok(side_init(&p.a));
	ok(side_recv(&p.a, 1, 0, 64));
	cr_assert_eq(side_post(&p.a, &op), card()->post_state);
	ok(side_rtr(&p.a));
	ok(side_recv(&p.a, 2, 0, 64));
	cr_assert_eq(side_post(&p.a, &op), card()->post_state);
	pair_free(&p);
}

Test(G1, error_state_flushes)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = {.code = IBV_WR_SEND, .wr_id = 9, .len = 8};

	pair_make(&p, &attr);
	ok(side_recv(&p.a, 1, 0, 64));
	ok(side_recv(&p.a, 2, 0, 64));
	ok(modify(&p, IBV_QPS_ERR, IBV_QP_STATE));
	expect_wc(&p.a, RQ, IBV_WC_WR_FLUSH_ERR, 1);
	expect_wc(&p.a, RQ, IBV_WC_WR_FLUSH_ERR, 2);
	int ret = side_post(&p.a, &op);

	if (!ret) /* erdma refuses instead */
		expect_wc(&p.a, SQ, IBV_WC_WR_FLUSH_ERR, 9);
	else
		cr_assert_lt(ret, 0);
	pair_free(&p);
}

/* A pair can be taken through RESET and connected again. */
Test(G1, reconnect)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);

	attr.rnr_retry = 0;
	pair_make(&p, &attr);
	if (pair_split())
		cr_skip_test("resets both sides from one process");
	struct op op = {.code = IBV_WR_SEND, .wr_id = 1, .len = 8, .flags = IBV_SEND_SIGNALED};

	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_RNR_RETRY_EXC_ERR, 1);
	for (int i = 0; i < 2; i++) {
		struct side *s = i ? &p.b : &p.a;
		struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

		ok(ibv_modify_qp(s->qp, &reset, IBV_QP_STATE));
		ok(side_init(s));
		ok(side_rtr(s));
		ok(side_rts(s));
	}
	ok(side_recv(&p.b, 70, 0, 64));
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
	expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
	pair_free(&p);
}

/* ---- G3: GID index ------------------------------------------------------------------------------------------- */

Test(G3, table)
{
	struct bare b = bare_open();
	static const enum ibv_gid_type_sysfs {
		V1 = IBV_GID_TYPE_ROCE_V1,
		V2 = IBV_GID_TYPE_ROCE_V2
	} types[] = {V1, V2, V1, V2};
	static const uint8_t link_local[8] = {0xfe, 0x80}, v4[12] = {[10] = 0xff, [11] = 0xff};
	struct ibv_gid_entry e;
	struct ibv_port_attr port;

	for (uint32_t i = 0; i < 4; i++) {
		ok(ibv_query_gid_ex(b.ctx, 1, i, &e, 0));
		cr_assert_eq(e.gid_type, (uint32_t)types[i], "index %u has type %u", i, e.gid_type);
		cr_assert_eq(memcmp(e.gid.raw, i < 2 ? link_local : v4, i < 2 ? 8 : 12), 0, "index %u", i);
	}
	ok(ibv_query_port(b.ctx, 1, &port));
	cr_assert_gt(port.gid_tbl_len, 4);
	for (int i = 4; i < port.gid_tbl_len; i++) {
		union ibv_gid gid, zero = {.raw = {0}};

		ok(ibv_query_gid(b.ctx, 1, i, &gid));
		cr_assert_eq(memcmp(&gid, &zero, sizeof(gid)), 0, "index %d is not empty", i);
		cr_assert_neq(ibv_query_gid_ex(b.ctx, 1, (uint32_t)i, &e, 0), 0, "index %d has a type", i);
	}
	struct ibv_gid_entry all[64];

	cr_assert_eq(ibv_query_gid_table(b.ctx, all, 64, 0), 4, "only what is not empty");
	bare_close(&b);
}

Test(G3, empty_or_absent_index)
{
	struct pair p;

	open_pair(&p);
	ok(side_init(&p.a));
	for (int i = 0; i < 3; i++) {
		static const uint8_t wrong[] = {4, 15, 200};
		struct ibv_qp_attr attr = full_attr(&p, IBV_QPS_RTR);

		attr.ah_attr.grh.sgid_index = wrong[i];
		cr_assert_neq(ibv_modify_qp(p.a.qp, &attr, RTR_MASK), 0, "index %u accepted", wrong[i]);
		cr_assert_eq(side_state(&p.a), IBV_QPS_INIT);
	}
	pair_free(&p);
}

Test(G3, versions_do_not_mix)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = {.code = IBV_WR_SEND, .wr_id = 1, .len = 8, .flags = IBV_SEND_SIGNALED};

	attr.gid_index[0] = 2;
	attr.gid_index[1] = 3;
	attr.timeout = 8;
	attr.retry_cnt = 2;
	pair_make(&p, &attr);
	ok(side_recv(&p.b, 70, 0, 64));
	ok(side_post(&p.a, &op));
	expect_wc(&p.a, SQ, IBV_WC_RETRY_EXC_ERR, 1);
	expect_no_wc(&p.b, RQ, 20);
	pair_free(&p);
}

Test(G3, same_version_works)
{
	for (int index = 0; index < 4; index++) {
		struct pair p;
		struct pair_attr attr = pair_attr(0, 8);
		struct op op = {.code = IBV_WR_SEND, .wr_id = 1, .len = 8, .flags = IBV_SEND_SIGNALED};

		attr.gid_index[0] = attr.gid_index[1] = index;
		pair_make(&p, &attr);
		ok(side_recv(&p.b, 70, 0, 64));
		ok(side_post(&p.a, &op));
		expect_wc(&p.a, SQ, IBV_WC_SUCCESS, 1);
		expect_wc(&p.b, RQ, IBV_WC_SUCCESS, 70);
		pair_free(&p);
	}
}

/* ---- G4: the peer is gone ------------------------------------------------------------------------------------ */

Test(G4, destroyed_peer)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct op op = {.code = IBV_WR_SEND, .wr_id = 1, .len = 8, .flags = IBV_SEND_SIGNALED};

	attr.timeout = 10;
	attr.retry_cnt = 2;
	attr.timestamps = true;
	pair_make(&p, &attr);
	ok(side_destroy_qp(&p.b));
	int64_t start_ps = side_now_ps(&p.a), start_ns = wall_ns();
	uint64_t retries = device_counter(p.a.ctx, "retries");

	ok(side_post(&p.a, &op));
	struct done d = expect_wc(&p.a, SQ, IBV_WC_RETRY_EXC_ERR, 1);
	/* First try and two more, 4.096 us * 2^10 each. */
	int64_t least_ps = 3 * (INT64_C(4096000) << 10);

	cr_assert_geq(d.at_ps - start_ps, least_ps, "model time %ld ps", d.at_ps - start_ps);
	cr_assert_geq(wall_ns() - start_ns, least_ps / 1000);
	expect_state(&p.a, IBV_QPS_ERR);
	cr_assert_geq(device_counter(p.a.ctx, "retries") - retries, 2);
	pair_free(&p);
}

/* ---- G5: depth of READs and atomics -------------------------------------------------------------------------- */

Test(G5, initiator_depth_above_the_devices)
{
	struct pair p;
	struct ibv_device_attr dev;

	open_pair(&p);
	ok(ibv_query_device(p.a.ctx, &dev));
	ok(side_init(&p.a));
	ok(side_rtr(&p.a));
	cr_assert_lt(dev.max_qp_init_rd_atom, 255);
	p.a.attr.rd_atomic = (uint8_t)(dev.max_qp_init_rd_atom + 1);
	cr_assert_eq(side_rts(&p.a), EINVAL);
	cr_assert_eq(side_state(&p.a), IBV_QPS_RTR);
	p.a.attr.rd_atomic = (uint8_t)dev.max_qp_init_rd_atom;
	ok(side_rts(&p.a));
	pair_free(&p);
}

static int rtr_with(struct pair *p, struct ibv_qp *qp, uint8_t depth)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr rtr = full_attr(p, IBV_QPS_RTR);

	rtr.max_dest_rd_atomic = depth;
	must(!ibv_modify_qp(qp, &init, INIT_MASK));
	return ibv_modify_qp(qp, &rtr, RTR_MASK);
}

/* Runs on a profile with a responder budget of 16 for the whole device. */
Test(G5, responder_budget_of_the_device)
{
	struct pair p;

	open_pair(&p);
	struct ibv_qp *first = side_qp(&p.a, p.a.rcq), *second = side_qp(&p.a, p.a.rcq);

	ok(rtr_with(&p, first, 16));
	cr_assert_eq(rtr_with(&p, second, 16), EINVAL);
	ok(ibv_destroy_qp(first));
	ok(ibv_destroy_qp(second));

	first = side_qp(&p.a, p.a.rcq);
	second = side_qp(&p.a, p.a.rcq);
	ok(rtr_with(&p, first, 8));
	ok(rtr_with(&p, second, 8));
	struct ibv_qp *third = side_qp(&p.a, p.a.rcq);

	cr_assert_eq(rtr_with(&p, third, 1), EINVAL);
	ok(ibv_destroy_qp(third));
	ok(ibv_destroy_qp(first)); /* gives its share back */
	third = side_qp(&p.a, p.a.rcq);
	ok(rtr_with(&p, third, 8));
	ok(ibv_destroy_qp(second));
	ok(ibv_destroy_qp(third));
	pair_free(&p);
}

/* Model time between the completions of two READs posted together. */
static int64_t read_gap_ps(uint8_t depth)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);
	struct done d[2];

	attr.timestamps = true;
	attr.rd_atomic = depth;
	pair_make(&p, &attr);
	struct ibv_sge sge = {p.a.info.addr, 64, p.a.info.lkey};
	struct ibv_send_wr wr[2], *bad;

	for (int i = 0; i < 2; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
					     .next = i ? NULL : &wr[1],
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_READ,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = {p.b.info.addr, p.b.info.rkey}};
	ok(raw_post(&p.a, wr, &bad));
	for (int i = 0; i < 2; i++)
		d[i] = expect_wc(&p.a, SQ, IBV_WC_SUCCESS, i);
	pair_free(&p);
	return d[1].at_ps - d[0].at_ps;
}

Test(G5, depth_one_is_one_at_a_time)
{
	int64_t one = read_gap_ps(1), many = read_gap_ps(4);

	/* Alone, the second starts after the first: a whole round trip through both adapters lies between them. */
	cr_assert_gt(one, 2 * many, "gap %ld ps at depth 1, %ld ps at depth 4", one, many);
}
