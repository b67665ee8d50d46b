/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI tables against the layouts extracted from rdma-core's own headers (tests/data/pabi-fields.csv, one release
 * a layout, x86-64): same fields, same order, same offsets and sizes, none missing and none too many.
 */
#include "tests/unit/pabi_variant.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 1024

#define VARIANT_PTR(release) &pabi_variant_##release,
static const struct pabi_variant *const variants[] = {PABI_VARIANTS(VARIANT_PTR)};

static struct pabi_row truth[ROWS_MAX];
static char names[ROWS_MAX][2][40];

/* Reads the rows of one release; returns how many. */
static size_t read_truth(unsigned int release)
{
	FILE *f = fopen(TEST_DATA_DIR "/pabi-fields.csv", "r");
	char line[256];
	size_t n = 0;

	cr_assert_not_null(f, "cannot open %s", TEST_DATA_DIR "/pabi-fields.csv");
	while (fgets(line, sizeof(line), f)) {
		unsigned int rel, pos;

		if (sscanf(line, "%u,%39[^,],%u,%39[^,],%zu,%zu", &rel, names[n][0], &pos, names[n][1],
			   &truth[n].offset, &truth[n].size) != 6 ||
		    rel != release)
			continue;
		truth[n].structure = names[n][0];
		truth[n].field = names[n][1];
		n++;
		cr_assert(n < ROWS_MAX, "too many rows for release %u", release);
	}
	fclose(f);
	return n;
}

static size_t first_of(const struct pabi_row *rows, size_t n, const char *structure)
{
	size_t i = 0;

	while (i < n && strcmp(rows[i].structure, structure) != 0)
		i++;
	return i;
}

/* The two lists may name the structures in another order, but each structure's rows lie together in both. */
static void compare(const struct pabi_variant *v)
{
	size_t n = read_truth(v->release);

	cr_assert_gt(n, 0, "no rows for release %u", v->release);
	cr_expect_eq(n, v->num_rows, "release %u: %zu fields in our tables, %zu in rdma-core", v->release, v->num_rows,
		     n);
	for (size_t i = 0; i < v->num_rows; i++) {
		const struct pabi_row *ours = &v->rows[i];
		size_t place = i - first_of(v->rows, v->num_rows, ours->structure);
		const struct pabi_row *theirs = &truth[first_of(truth, n, ours->structure) + place];

		cr_assert(theirs < truth + n, "release %u: %s.%s is not in rdma-core", v->release, ours->structure,
			  ours->field);
		cr_assert_str_eq(ours->structure, theirs->structure, "release %u: %s has too many fields at %s",
				 v->release, ours->structure, ours->field);
		cr_assert_str_eq(ours->field, theirs->field, "release %u: %s[%zu] is %s, not %s", v->release,
				 ours->structure, place, theirs->field, ours->field);
		cr_expect(ours->offset == theirs->offset && ours->size == theirs->size,
			  "release %u: %s.%s at %zu size %zu, in rdma-core at %zu size %zu", v->release,
			  ours->structure, ours->field, ours->offset, ours->size, theirs->offset, theirs->size);
	}
}

Test(pabi_layout, every_release_has_the_fields_of_rdma_core)
{
#ifdef __x86_64__
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		compare(variants[i]);
#else
	cr_skip_test("the extracted layouts are those of x86-64");
#endif
}
