/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the model_*.c tests: profiles of the source tree by name, test profiles by file. */
#pragma once

#include <criterion/criterion.h>

#include "sim/model/model.h"

static inline struct profile model_file(const char *path)
{
	struct profile p;
	char err[512];
	int rc = profile_load(path, &p, err, sizeof(err));

	cr_assert_eq(rc, 0, "%s: %d %s", path, rc, err);
	return p;
}

#define model_profile(name) model_file(TEST_PROFILE_DIR "/" name ".ini")
