/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How often a test repeats what it repeats: one row of tests/counts.tsv, its second column, or its third when
 * SIMHCA_TEST_LEVEL is "full". SIMHCA_TEST_COUNTS says where the table is. Aborts on an unknown name.
 */
#pragma once

unsigned test_count(const char *name);
