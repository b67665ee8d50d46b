/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is the libibverbs in this process the one we were built for? One ABI number hides several layouts, and the wrong
 * one fails late and oddly. Called by the constructor before the provider registers; needs no device and leaves
 * nothing behind.
 */
#pragma once

#include <stddef.h>

struct pabi_expect;

/*
 * Compares the running library with the expectations. 0, or -1 with one line in `line` that says what we were built
 * for, the first difference, and the file of the running library.
 */
int selfcheck_run(const struct pabi_expect *e, char *line, size_t line_size);
