/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the scenario files share: Criterion, the pair, the adapter's card, and a way to read what was said on stderr.
 * The suite of a test is the scenario's name, so `--filter 'B3/' '*'` runs one.
 */
#pragma once

#include "tests/scenarios/card.h"
#include "tests/scenarios/pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

/* Post, with the errno asserted. */
#define ok(call) cr_assert_eq((call), 0, "%s: errno %d", #call, errno)

/* One completion that must come, with its status and wr_id. */
#define expect_wc(side, q, want_status, want_wr_id)                                                                    \
	({                                                                                                             \
		struct done expect_done_ = {0};                                                                        \
		cr_assert_eq(side_wc((side), (q), &expect_done_, patience_ms(PAIR_POLL_MS)), 1, "no completion");      \
		cr_assert_eq(expect_done_.wc.status, (want_status), "status %s, not %s",                               \
			     ibv_wc_status_str(expect_done_.wc.status), ibv_wc_status_str(want_status));               \
		cr_assert_eq(expect_done_.wc.wr_id, (uint64_t)(want_wr_id));                                           \
		expect_done_;                                                                                          \
	})

/* No completion within `ms`. */
#define expect_no_wc(side, q, ms)                                                                                      \
	do {                                                                                                           \
		struct done expect_none_ = {0};                                                                        \
		cr_assert_eq(side_wc((side), (q), &expect_none_, (ms)), 0, "unexpected completion, status %d",         \
			     (int)expect_none_.wc.status);                                                             \
	} while (0)

/* Waits until the side's queue pair is in the state. */
#define expect_state(side, want)                                                                                       \
	do {                                                                                                           \
		int64_t expect_end_ = wall_ns() + (int64_t)patience_ms(PAIR_POLL_MS) * 1000000;                        \
		while (side_state(side) != (want) && wall_ns() < expect_end_)                                          \
			;                                                                                              \
		cr_assert_eq(side_state(side), (want));                                                                \
	} while (0)

/* A device, a PD and a CQ, for tests of creation. */
struct bare {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};
struct bare bare_open(void);
/* Asserts that nothing is held: everything must be destroyable. */
void bare_close(struct bare *b);
/* RC queue pair; on success its grant is in *cap, on failure errno is set. */
struct ibv_qp *bare_qp(struct bare *b, struct ibv_qp_cap *cap);
/* The same with the usual depth 16 and one SGE; *grant may be NULL. */
struct ibv_qp *bare_qp_inline(struct bare *b, uint32_t inline_B, uint32_t *grant);

/* Everything written to stderr between the two calls; the text is static. */
void stderr_catch(void);
const char *stderr_caught(void);
