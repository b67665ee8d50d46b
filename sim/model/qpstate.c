/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue-pair state machine: InfiniBand Architecture Specification volume 1, chapter 11, the modify-QP tables of
 * required and optional attributes by transition. XRC's two halves are those of the XRC annex: the initiator has the
 * requester's attributes, the target the responder's.
 */
#include "sim/model/model.h"

/* Attribute bits by their short names, so that the table below reads like the specification's. */
#define QP_BITS(X)                                                                                                     \
	X(STATE)                                                                                                       \
	X(CUR_STATE)                                                                                                   \
	X(EN_SQD_ASYNC_NOTIFY)                                                                                         \
	X(ACCESS_FLAGS)                                                                                                \
	X(PKEY_INDEX)                                                                                                  \
	X(PORT)                                                                                                        \
	X(QKEY)                                                                                                        \
	X(AV)                                                                                                          \
	X(PATH_MTU)                                                                                                    \
	X(TIMEOUT)                                                                                                     \
	X(RETRY_CNT)                                                                                                   \
	X(RNR_RETRY)                                                                                                   \
	X(RQ_PSN)                                                                                                      \
	X(MAX_QP_RD_ATOMIC)                                                                                            \
	X(ALT_PATH)                                                                                                    \
	X(MIN_RNR_TIMER)                                                                                               \
	X(SQ_PSN)                                                                                                      \
	X(MAX_DEST_RD_ATOMIC)                                                                                          \
	X(PATH_MIG_STATE)                                                                                              \
	X(CAP)                                                                                                         \
	X(DEST_QPN)                                                                                                    \
	X(RATE_LIMIT)

enum {
#define BIT_ENUM(bit) bit = IBV_QP_##bit,
	QP_BITS(BIT_ENUM)
#undef BIT_ENUM
};

static const struct {
	int bit;
	const char *missing, *surplus;
} bit_texts[] = {
#define BIT_ROW(bit) {bit, "IBV_QP_" #bit " missing", "IBV_QP_" #bit " not allowed in this transition"},
    QP_BITS(BIT_ROW)
#undef BIT_ROW
};

#define STATES	  (IBV_QPS_ERR + 1)
#define CONNECTED (AV | PATH_MTU | DEST_QPN | RQ_PSN)
#define RESPONDER (MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER)
#define REQUESTER (TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC)
#define REPATH	  (ALT_PATH | ACCESS_FLAGS | PKEY_INDEX)
#define RUNNING	  (CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE)
#define DRAINED	  (AV | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | PATH_MIG_STATE)
#define ALL(mask) [QP_RC] = (mask), [QP_UC] = (mask), [QP_UD] = (mask), [QP_XRC_SEND] = (mask), [QP_XRC_RECV] = (mask)
#define ROW(rc, uc, ud, xs, xr)                                                                                        \
	[QP_RC] = (rc), [QP_UC] = (uc), [QP_UD] = (ud), [QP_XRC_SEND] = (xs), [QP_XRC_RECV] = (xr)

/* Transitions to RESET and ERR need no row: every state has them and they take no further attribute. */
static const struct transition {
	bool allowed;
	int required[QP_KINDS], optional[QP_KINDS];
} transitions[STATES][STATES] =
    {
	[IBV_QPS_RESET][IBV_QPS_INIT] =
	    {
		.allowed = true,
		.required = {ROW(PKEY_INDEX | PORT | ACCESS_FLAGS, PKEY_INDEX | PORT | ACCESS_FLAGS,
				 PKEY_INDEX | PORT | QKEY, PKEY_INDEX | PORT | ACCESS_FLAGS,
				 PKEY_INDEX | PORT | ACCESS_FLAGS)},
	    },
	[IBV_QPS_INIT][IBV_QPS_INIT] =
	    {
		.allowed = true,
		.optional = {ROW(PKEY_INDEX | PORT | ACCESS_FLAGS, PKEY_INDEX | PORT | ACCESS_FLAGS,
				 PKEY_INDEX | PORT | QKEY, PKEY_INDEX | PORT | ACCESS_FLAGS,
				 PKEY_INDEX | PORT | ACCESS_FLAGS)},
	    },
	[IBV_QPS_INIT][IBV_QPS_RTR] =
	    {
		.allowed = true,
		.required = {ROW(CONNECTED | RESPONDER, CONNECTED, 0, CONNECTED, CONNECTED | RESPONDER)},
		.optional = {ROW(REPATH, REPATH, PKEY_INDEX | QKEY, REPATH, REPATH)},
	    },
	[IBV_QPS_RTR][IBV_QPS_RTS] =
	    {
		.allowed = true,
		.required = {ROW(REQUESTER, SQ_PSN, SQ_PSN, REQUESTER, TIMEOUT | SQ_PSN)},
		.optional = {ROW(RUNNING | MIN_RNR_TIMER | RATE_LIMIT, RUNNING | RATE_LIMIT,
				 CUR_STATE | QKEY | RATE_LIMIT, RUNNING | RATE_LIMIT,
				 RUNNING | MIN_RNR_TIMER | RATE_LIMIT)},
	    },
	[IBV_QPS_RTS][IBV_QPS_RTS] =
	    {
		.allowed = true,
		.optional = {ROW(RUNNING | MIN_RNR_TIMER | RATE_LIMIT, RUNNING | RATE_LIMIT,
				 CUR_STATE | QKEY | RATE_LIMIT, RUNNING | RATE_LIMIT,
				 RUNNING | MIN_RNR_TIMER | RATE_LIMIT)},
	    },
	[IBV_QPS_RTS][IBV_QPS_SQD] = {.allowed = true, .optional = {ALL(EN_SQD_ASYNC_NOTIFY)}},
	[IBV_QPS_SQD][IBV_QPS_RTS] =
	    {
		.allowed = true,
		.optional = {ROW(RUNNING | MIN_RNR_TIMER, RUNNING, CUR_STATE | QKEY, RUNNING, RUNNING | MIN_RNR_TIMER)},
	    },
	[IBV_QPS_SQD][IBV_QPS_SQD] =
	    {
		.allowed = true,
		.optional = {ROW(DRAINED | PORT | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC |
				     MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
				 DRAINED, PKEY_INDEX | QKEY,
				 DRAINED | PORT | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC,
				 DRAINED | PORT | TIMEOUT | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER)},
	    },
	/* Only the unreliable kinds enter SQE; the transition itself is legal for all. */
	[IBV_QPS_SQE][IBV_QPS_RTS] =
	    {
		.allowed = true,
		.optional = {ROW(CUR_STATE, CUR_STATE | ACCESS_FLAGS, CUR_STATE | QKEY, CUR_STATE, CUR_STATE)},
	    },
};

#define FROM_ROW(from)                                                                                                 \
	{                                                                                                              \
		from " to RESET not allowed", from " to INIT not allowed", from " to RTR not allowed",                 \
		    from " to RTS not allowed", from " to SQD not allowed", from " to SQE not allowed",                \
		    from " to ERR not allowed",                                                                        \
	}

static const char *const forbidden[STATES][STATES] = {
    [IBV_QPS_RESET] = FROM_ROW("RESET"), [IBV_QPS_INIT] = FROM_ROW("INIT"), [IBV_QPS_RTR] = FROM_ROW("RTR"),
    [IBV_QPS_RTS] = FROM_ROW("RTS"),	 [IBV_QPS_SQD] = FROM_ROW("SQD"),   [IBV_QPS_SQE] = FROM_ROW("SQE"),
    [IBV_QPS_ERR] = FROM_ROW("ERR"),
};

static bool allowed(enum ibv_qp_state from, enum ibv_qp_state to)
{
	return to == IBV_QPS_RESET || to == IBV_QPS_ERR || transitions[from][to].allowed;
}

int model_qp_transition(const struct profile *p, enum qp_kind kind, enum ibv_qp_state from, enum ibv_qp_state to,
			int attr_mask, const char **why)
{
	(void)p; /* no family differs so far */
	if ((unsigned)from >= STATES || (unsigned)to >= STATES || (unsigned)kind >= QP_KINDS) {
		*why = "unknown state";
		return EINVAL;
	}
	if (!allowed(from, to)) {
		*why = forbidden[from][to];
		return EINVAL;
	}
	const struct transition *t = &transitions[from][to];
	int missing = t->required[kind] & ~attr_mask;
	int surplus = attr_mask & ~(t->required[kind] | t->optional[kind] | STATE);
	for (size_t i = 0; i < ARRAY_LEN(bit_texts); i++) {
		if (missing & bit_texts[i].bit) {
			*why = bit_texts[i].missing;
			return EINVAL;
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(bit_texts); i++) {
		if (surplus & bit_texts[i].bit) {
			*why = bit_texts[i].surplus;
			return EINVAL;
		}
	}
	if (surplus) {
		*why = "unknown attribute bit";
		return EINVAL;
	}
	*why = NULL;
	return 0;
}
