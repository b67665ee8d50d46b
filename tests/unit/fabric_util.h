/* SPDX-License-Identifier: BSD-2-Clause */
/* What the fabric's tests share: a fabric of their own in a private folder, children, checked packets. */
#pragma once

#include "sim/fabric/fabric.h"
#include "sim/fabric/wire.h"

#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

struct util_world {
	char base[128]; /* stands for /dev/shm */
	char dir[512];
	struct fab_config cfg;
	struct fab_device_config devices[4];
	struct fabric *f; /* keeps the fabric there while children come and go */
};

/* Makes a folder below /dev/shm and in it a fabric with this many devices of default profiles. Dies on failure. */
void util_world_open(struct util_world *w, const char *name, uint32_t devices);
/* The same without the fabric: only base and cfg are filled in. */
void util_world_prepare(struct util_world *w, const char *name, uint32_t devices);
/* Closes, checks that nothing is left of the fabric, removes the folder. */
void util_world_close(struct util_world *w);
/* Another mapping of the same fabric. */
struct fabric *util_attach(const struct util_world *w);

/* Prints the message and ends the process with status 1. */
void util_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define CHECK(cond)                                                                                                    \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			util_die("%s:%d: %s", __FILE__, __LINE__, #cond);                                              \
	} while (0)

/* fork with flushed streams; children die with the parent. */
pid_t util_fork(void);
/*
 * A child of a Criterion test stops here, having done well, and is killed by the parent's util_wait_ok or
 * util_wait_all: neither exit handlers nor a leak check see what the runner's process had at the fork.
 */
void util_child_done(void) __attribute__((noreturn));
/* Waits for all children; dies unless each ended with 0 or by util_child_done. */
void util_wait_all(void);
void util_wait_ok(pid_t pid);

int64_t util_now_ns(void);
void util_nap_us(unsigned us);
/* Ends the process with status 1 when the test takes longer. */
void util_deadline_s(unsigned s);

/* Waits for a node other than n, and gives its index. */
uint32_t util_find_peer(struct fab_node *n);

/* A generator that both sides run. */
static inline uint32_t util_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

/* Sends a packet; NULL data: whatever is there. False when the ring is full. */
bool util_send(struct wire_tx *tx, uint8_t op, uint32_t psn, const void *data, uint32_t len_B);
/* Takes one packet from the peer if there is one. */
bool util_receive(struct fab_node *n, uint32_t peer);
/* Writes / checks a payload that follows from the number. */
void util_fill(void *p, uint32_t len_B, uint32_t number);
bool util_same(const void *p, uint32_t len_B, uint32_t number);
