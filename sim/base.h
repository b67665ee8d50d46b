/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every room of sim/ stands on: integer helpers, atomics by their pairing, the log.
 * Nothing here knows of verbs or of shared memory.
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ARRAY_LEN(a)		      (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)		      ((a) < (b) ? (a) : (b))
#define MAX(a, b)		      ((a) > (b) ? (a) : (b))
#define CONTAINER_OF(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

#define CACHE_LINE 64

/* x rounded up to a multiple of a; a > 0. */
static inline uint64_t round_up_u64(uint64_t x, uint64_t a)
{
	return (x + a - 1) / a * a;
}

/* x rounded up to a power of two; 0 gives 1; above 2^63 gives 0. */
static inline uint64_t pow2_up_u64(uint64_t x)
{
	if (x <= 1)
		return 1;
	return x > (UINT64_C(1) << 63) ? 0 : UINT64_C(1) << (64 - __builtin_clzll(x - 1));
}

/*
 * Log. Level 0 is silent; 1 says why a call was refused or a setup is wrong (one line each);
 * 2 adds state changes; 3 adds every packet. Lines go to stderr in one write, prefixed "simhca: ".
 */
enum log_level { LOG_SILENT = 0, LOG_WHY = 1, LOG_STATE = 2, LOG_PACKET = 3 };
extern int sim_log_level;

#define say(level, ...)                                                                                                \
	do {                                                                                                           \
		if (unlikely(sim_log_level >= (level)))                                                                \
			sim_log_line(__VA_ARGS__);                                                                     \
	} while (0)

/*
 * A text file as a stream over a copy in memory: unlike one from fopen it shares no position with a forked child. NULL
 * with errno: EISDIR, EFBIG (over a MiB), or what the system says. Close with fclose.
 */
FILE *text_open(const char *path);

/* Writes one line to stderr whatever the level; keeps errno. */
void sim_log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2), cold));
