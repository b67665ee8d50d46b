/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The self-check accepts the installed libibverbs for the release it is of, and refuses what was built for any other
 * layout, with a line that says where they differ.
 */
#include "provider/pabi.h"
#include "provider/selfcheck.h"
#include "tests/unit/pabi_variant.h"

#include <criterion/criterion.h>
#include <string.h>

PABI_DEFINE_EXPECT(static, installed);

#define VARIANT_PTR(release) &pabi_variant_##release,
static const struct pabi_variant *const variants[] = {PABI_VARIANTS(VARIANT_PTR)};

static bool same_layout(const struct pabi_expect *a, const struct pabi_expect *b)
{
	return a->context_size == b->context_size && a->num_ops == b->num_ops &&
	       a->qp_comp_mask_off == b->qp_comp_mask_off;
}

Test(pabi_selfcheck, accepts_the_installed_library)
{
	char line[512] = "";

	cr_expect_eq(selfcheck_run(&installed, line, sizeof(line)), 0, "%s", line);
	cr_expect_str_empty(line);
}

Test(pabi_selfcheck, refuses_every_other_layout)
{
	unsigned int refused = 0;

	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		const struct pabi_expect *e = variants[i]->expect;
		char line[512] = "";
		int ret = selfcheck_run(e, line, sizeof(line));

		if (same_layout(e, &installed)) {
			cr_expect_eq(ret, 0, "release %u: %s", e->release, line);
			continue;
		}
		refused++;
		cr_expect_eq(ret, -1, "release %u was accepted", e->release);
		cr_expect(strstr(line, "in the running libibverbs"), "release %u: '%s'", e->release, line);
		cr_expect(strstr(line, "libibverbs.so"), "release %u: no file name in '%s'", e->release, line);
		cr_expect_null(strchr(line, '\n'), "more than one line");
	}
	cr_expect_geq(refused, 8);
}

/* An op moved by one place, as an addition in the middle does. */
Test(pabi_selfcheck, names_the_op_that_moved)
{
	struct pabi_op ops[64];
	struct pabi_expect e = installed;
	char line[512] = "";

	cr_assert_leq(e.num_public, 64);
	memcpy(ops, e.public_ops, e.num_public * sizeof(ops[0]));
	for (unsigned int i = 0; i < e.num_public; i++)
		if (strcmp(ops[i].name, "modify_cq") == 0)
			ops[i].index++;
	e.public_ops = ops;
	cr_expect_eq(selfcheck_run(&e, line, sizeof(line)), -1);
	cr_expect(strstr(line, "modify_cq is entry"), "%s", line);
}

/* Entries added behind the last public one are seen by their number only. */
Test(pabi_selfcheck, counts_the_ops)
{
	struct pabi_expect e = installed;
	char line[512] = "";

	e.num_ops++;
	cr_expect_eq(selfcheck_run(&e, line, sizeof(line)), -1);
	cr_expect(strstr(line, "entries here"), "%s", line);
}
