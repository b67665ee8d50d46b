/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue-pair state machine: every pair of states, every required attribute left out in turn. */
#include "tests/unit/model_test.h"

#include <string.h>

#define STATES (IBV_QPS_ERR + 1)

#define INIT_CONNECTED (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_DATAGRAM  (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RTR_PATH       (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTR_RESPONDER  (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_REQUESTER  (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

/* Attributes that must be there, beside IBV_QP_STATE. */
static int required(enum qp_kind kind, enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const int init[QP_KINDS] = {INIT_CONNECTED, INIT_CONNECTED, INIT_DATAGRAM, INIT_CONNECTED,
					   INIT_CONNECTED};
	static const int rtr[QP_KINDS] = {RTR_PATH | RTR_RESPONDER, RTR_PATH, 0, RTR_PATH, RTR_PATH | RTR_RESPONDER};
	static const int rts[QP_KINDS] = {RTS_REQUESTER, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN, RTS_REQUESTER,
					  IBV_QP_TIMEOUT | IBV_QP_SQ_PSN};

	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		return init[kind];
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		return rtr[kind];
	return from == IBV_QPS_RTR && to == IBV_QPS_RTS ? rts[kind] : 0;
}

static bool legal(enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const bool table[STATES][STATES] = {
	    /*                    RESET INIT RTR RTS SQD SQE ERR */
	    [IBV_QPS_RESET] = {1, 1, 0, 0, 0, 0, 1}, [IBV_QPS_INIT] = {1, 1, 1, 0, 0, 0, 1},
	    [IBV_QPS_RTR] = {1, 0, 0, 1, 0, 0, 1},   [IBV_QPS_RTS] = {1, 0, 0, 1, 1, 0, 1},
	    [IBV_QPS_SQD] = {1, 0, 0, 1, 1, 0, 1},   [IBV_QPS_SQE] = {1, 0, 0, 1, 0, 0, 1},
	    [IBV_QPS_ERR] = {1, 0, 0, 0, 0, 0, 1},
	};

	return table[from][to];
}

Test(model_qpstate, every_pair_of_states)
{
	const struct profile p = model_profile("generic");
	const char *why;

	for (int k = 0; k < QP_KINDS; k++) {
		for (int from = 0; from < STATES; from++) {
			for (int to = 0; to < STATES; to++) {
				int mask = IBV_QP_STATE |
					   required((enum qp_kind)k, (enum ibv_qp_state)from, (enum ibv_qp_state)to);
				int err = model_qp_transition(&p, (enum qp_kind)k, (enum ibv_qp_state)from,
							      (enum ibv_qp_state)to, mask, &why);
				bool ok = legal((enum ibv_qp_state)from, (enum ibv_qp_state)to);
				cr_expect_eq(err, ok ? 0 : EINVAL, "%s %d -> %d: %d %s", qp_kind_name((enum qp_kind)k),
					     from, to, err, why ? why : "");
				cr_expect_eq(why == NULL, ok);
			}
		}
	}
}

Test(model_qpstate, every_missing_attribute_is_named)
{
	static const struct {
		int bit;
		const char *why;
	} bits[] = {
	    {IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS missing"},
	    {IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX missing"},
	    {IBV_QP_PORT, "IBV_QP_PORT missing"},
	    {IBV_QP_QKEY, "IBV_QP_QKEY missing"},
	    {IBV_QP_AV, "IBV_QP_AV missing"},
	    {IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU missing"},
	    {IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT missing"},
	    {IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT missing"},
	    {IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY missing"},
	    {IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN missing"},
	    {IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC missing"},
	    {IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER missing"},
	    {IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN missing"},
	    {IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC missing"},
	    {IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN missing"},
	};
	static const enum ibv_qp_state steps[][2] = {
	    {IBV_QPS_RESET, IBV_QPS_INIT}, {IBV_QPS_INIT, IBV_QPS_RTR}, {IBV_QPS_RTR, IBV_QPS_RTS}};
	const struct profile p = model_profile("generic");
	int seen = 0;

	for (int k = 0; k < QP_KINDS; k++) {
		for (size_t s = 0; s < ARRAY_LEN(steps); s++) {
			int needed = required((enum qp_kind)k, steps[s][0], steps[s][1]), rest = needed;
			for (size_t b = 0; b < ARRAY_LEN(bits); b++) {
				const char *why = NULL;
				if (!(needed & bits[b].bit))
					continue;
				rest &= ~bits[b].bit;
				seen |= bits[b].bit;
				cr_expect_eq(model_qp_transition(&p, (enum qp_kind)k, steps[s][0], steps[s][1],
								 IBV_QP_STATE | (needed & ~bits[b].bit), &why),
					     EINVAL);
				cr_expect(why && !strcmp(why, bits[b].why), "%s: %s", bits[b].why, why ? why : "-");
			}
			cr_expect_eq(rest, 0);
		}
	}
	for (size_t b = 0; b < ARRAY_LEN(bits); b++)
		cr_expect(seen & bits[b].bit, "%s never needed", bits[b].why);
}

static void expect_why(enum qp_kind kind, enum ibv_qp_state from, enum ibv_qp_state to, int mask, const char *want)
{
	const struct profile p = model_profile("generic");
	const char *why = "?";
	int err = model_qp_transition(&p, kind, from, to, mask, &why);

	cr_expect_eq(err, want ? EINVAL : 0);
	cr_expect(want ? why && !strcmp(why, want) : !why, "%s, not %s", why ? why : "-", want ? want : "-");
}

Test(model_qpstate, G1_forbidden_transitions_are_named)
{
	expect_why(QP_RC, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QP_STATE, "RESET to RTR not allowed");
	expect_why(QP_RC, IBV_QPS_INIT, IBV_QPS_RTS, IBV_QP_STATE, "INIT to RTS not allowed");
	expect_why(QP_UD, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QP_STATE, "ERR to INIT not allowed");
	expect_why(QP_RC, IBV_QPS_RTS, IBV_QPS_SQE, IBV_QP_STATE, "RTS to SQE not allowed");
	expect_why(QP_RC, IBV_QPS_RESET, IBV_QPS_RESET, IBV_QP_STATE, NULL);
	expect_why(QP_RC, IBV_QPS_UNKNOWN, IBV_QPS_RESET, IBV_QP_STATE, "unknown state");
	expect_why(QP_RC, IBV_QPS_RESET, (enum ibv_qp_state)99, IBV_QP_STATE, "unknown state");
}

Test(model_qpstate, optional_and_surplus_attributes)
{
	const int rtr = IBV_QP_STATE | RTR_PATH | RTR_RESPONDER, rts = IBV_QP_STATE | RTS_REQUESTER;

	expect_why(QP_RC, IBV_QPS_INIT, IBV_QPS_RTR, rtr | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_ALT_PATH,
		   NULL);
	expect_why(QP_RC, IBV_QPS_INIT, IBV_QPS_RTR, rtr | IBV_QP_SQ_PSN,
		   "IBV_QP_SQ_PSN not allowed in this transition");
	expect_why(QP_UC, IBV_QPS_INIT, IBV_QPS_RTR, rtr, "IBV_QP_MIN_RNR_TIMER not allowed in this transition");
	expect_why(QP_RC, IBV_QPS_RTR, IBV_QPS_RTS, rts | IBV_QP_CUR_STATE | IBV_QP_MIN_RNR_TIMER, NULL);
	expect_why(QP_RC, IBV_QPS_RTR, IBV_QPS_RTS, rts | IBV_QP_PORT, "IBV_QP_PORT not allowed in this transition");
	expect_why(QP_RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, NULL);
	expect_why(QP_RC, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, NULL);
	expect_why(QP_RC, IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PORT | IBV_QP_TIMEOUT, NULL);
	expect_why(QP_UD, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_QKEY, NULL);
	expect_why(QP_RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_QKEY,
		   "IBV_QP_QKEY not allowed in this transition");
	expect_why(QP_UC, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, NULL);
	expect_why(QP_RC, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_STATE | IBV_QP_PORT,
		   "IBV_QP_PORT not allowed in this transition");
	expect_why(QP_RC, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_STATE | 1 << 30, "unknown attribute bit");
	/* Without IBV_QP_STATE the state stays: same rules. */
	expect_why(QP_RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER, NULL);
}
