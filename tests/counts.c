/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/counts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned test_count(const char *name)
{
	const char *path = getenv("SIMHCA_TEST_COUNTS"), *level = getenv("SIMHCA_TEST_LEVEL");
	bool full = level && !strcmp(level, "full");
	char line[256], row[64];
	unsigned brief, whole, found = 0;
	FILE *f = fopen(path ? path : "tests/counts.tsv", "re");

	while (f && !found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %u %u", row, &brief, &whole) == 3 && !strcmp(row, name))
			found = full ? whole : brief;
	if (f)
		fclose(f);
	if (!found) {
		fprintf(stderr, "no count '%s' in %s (SIMHCA_TEST_COUNTS)\n", name, path ? path : "tests/counts.tsv");
		abort();
	}
	return found;
}
