/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the scenario tests expect of each adapter, written down apart from the profiles so that the two can disagree.
 * The test runner says in SIMHCA_TEST_PROFILE which adapter the process runs on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct card {
	const char *profile;
	/* ibv_post_send, sign included: inline too long, too many SGEs, queue full, wrong state. */
	int post_inline, post_sge, post_full, post_state;
	/* A fixed length that posts are compared with; 0 = the grant. */
	uint32_t post_inline_constant;
	uint32_t inline_max; /* largest request that an RC queue pair of one SGE is granted */
	uint32_t vendor_id, vendor_part_id;
	bool mlx5, atomics;
	/* Send-queue room is counted in basic blocks: more small requests fit than the granted depth says. */
	bool room_in_blocks;
};

/* The adapter that this process runs on, its name taken up to the first dash ("rxe-old" is rxe); aborts when the runner
 * named none that is known. */
const struct card *card(void);
