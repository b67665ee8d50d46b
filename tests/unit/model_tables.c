/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of counters, stages and operations: names, uniqueness, and how a stage keeps its server. */
#include <criterion/criterion.h>

#include <string.h>

#include "sim/model/counters.h"
#include "sim/model/op.h"
#include "sim/model/stage.h"

Test(model_tables, counters_have_stable_names)
{
	static const char *const promised[] = {"inline_posts",	"push_writes", "doorbells", "wqe_fetches",
					       "payload_reads", "refusals",    "rnr",	    "retries",
					       "tx_bytes",	"rx_bytes"};

	for (size_t i = 0; i < ARRAY_LEN(promised); i++) {
		size_t found = 0;
		for (size_t c = 0; c < CTR_COUNT; c++)
			found += !strcmp(sim_counters[c].name, promised[i]);
		cr_expect_eq(found, 1, "%s", promised[i]);
	}
	cr_expect_str_eq(sim_counters[CTR_INLINE_POSTS].name, "inline_posts");
	cr_expect_eq(sim_counters[CTR_TX_BYTES].where, COUNTER_PORT);
	for (size_t a = 0; a < CTR_COUNT; a++)
		for (size_t b = a + 1; b < CTR_COUNT; b++)
			cr_expect_str_neq(sim_counters[a].name, sim_counters[b].name);
}

Test(model_tables, stages)
{
	cr_expect_str_eq(sim_stages[STAGE_WQE_FETCH].name, "wqe_fetch");
	cr_expect_eq(sim_stages[STAGE_WQE_FETCH].counter, CTR_WQE_FETCHES);
	for (size_t i = 0; i < STAGE_COUNT; i++) {
		const struct stage_info *s = &sim_stages[i];
		cr_expect(*s->name && *s->help);
		/* A pure delay has no server, everything else has one. */
		cr_expect_eq(s->kind == STAGE_DELAY, s->server == SERVER_NONE, "%s", s->name);
		cr_expect_str_neq(stage_server_name(s->server), "?");
		cr_expect_str_neq(stage_kind_name(s->kind), "?");
		for (size_t j = i + 1; j < STAGE_COUNT; j++)
			cr_expect_str_neq(s->name, sim_stages[j].name);
	}
	cr_expect_str_eq(stage_server_name(SERVER_COUNT), "?");
}

Test(model_tables, servers)
{
	int64_t holding = 100, pipelined = 100;

	cr_expect_eq(stage_pass(STAGE_DELAY, NULL, 50, 7, 20), 70);
	/* Busy until 100, then for 7; the latency follows the occupancy. */
	cr_expect_eq(stage_pass(STAGE_HOLDING, &holding, 50, 7, 20), 127);
	cr_expect_eq(holding, 107);
	cr_expect_eq(stage_pass(STAGE_HOLDING, &holding, 200, 7, 20), 227);
	cr_expect_eq(holding, 207);
	/* The latency runs beside the occupancy. */
	cr_expect_eq(stage_pass(STAGE_PIPELINED, &pipelined, 50, 7, 20), 120);
	cr_expect_eq(pipelined, 107);
	cr_expect_eq(stage_pass(STAGE_PIPELINED, &pipelined, 60, 7, 20), 127);
}

Test(model_tables, operations)
{
	cr_expect_str_eq(sim_ops[IBV_WR_RDMA_READ].name, "READ");
	cr_expect_eq(sim_ops[IBV_WR_SEND_WITH_INV].flags, OPF_SEND | OPF_INV);
	for (size_t i = 0; i < OP_COUNT; i++)
		cr_expect(sim_ops[i].name && sim_ops[i].flags && sim_ops[i].send_ops_bit, "opcode %zu", i);
}
