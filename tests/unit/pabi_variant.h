/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI tables of provider/pabi_tables.h expanded for one release, as data: pabi_variant.c is compiled once a
 * release and defines pabi_variant_<release>.
 */
#pragma once

#include <stddef.h>

struct pabi_expect;

struct pabi_row {
	const char *structure;
	const char *field; /* "(end)": offset is the size of the structure */
	size_t offset, size;
};

struct pabi_variant {
	unsigned int release;
	const struct pabi_row *rows;
	size_t num_rows;
	const struct pabi_expect *expect;
};

/* X(release): one a layout, in the order of their age; 49 is a second look at the layout of 45. */
#define PABI_VARIANTS(X) X(34) X(35) X(36) X(44) X(45) X(49) X(59) X(62) X(64) X(65)

#define PABI_VARIANT_EXTERN(release) extern const struct pabi_variant pabi_variant_##release;
PABI_VARIANTS(PABI_VARIANT_EXTERN)
