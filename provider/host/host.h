/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsimhca-host.so: the thin preload of `simhca run`. It lets a program that reads /sys/class/infiniband* and
 * /dev/infiniband see the tree of a fabric instead, refuses the RDMA netlink family (whose valid, empty answer would
 * hide every simulated device on a host that has RDMA), and holds the fabric for a program that opens no device.
 * It does nothing to any other path, and nothing at all unless the launcher's variables are set:
 *
 *   SIMHCA_FABRIC_DIR  folder of the fabric; absent: every call passes through
 *   SIMHCA_ENABLE      0: every call passes through
 *   SIMHCA_LOCK_FD     inherited descriptor that keeps the fabric alive
 *
 * Only the files of provider/host/ include this header. Nothing here allocates, takes a lock or changes errno on the
 * way of a call that is passed through, so the preload is safe in signal handlers and after fork.
 */
#pragma once

#include "sim/base.h"
#include <stdio.h>

#define HOST_EXPORT   __attribute__((visibility("default")))
#define HOST_PATH_MAX 1024 /* longest rewritten path; a longer one is passed through */

/* ---- life.c: what the environment said ---- */

/* Folder of the fabric, or NULL: pass everything through. Reads the environment at the first call. */
const char *host_fabric_dir(size_t *len);

/* Gives the fabric back: the process is about to end. */
void host_let_go(void);

/* The same for `simhca run` below `simhca run`, which finds it with dlsym before it becomes another program. */
HOST_EXPORT void simhca_host_let_go(void);

/* ---- paths.c ---- */

/*
 * The path to use in place of `path`: `path` itself, or its counterpart in the fabric's tree, written to `room`
 * (HOST_PATH_MAX bytes). NULL stays NULL. Keeps errno.
 */
const char *host_rewrite(const char *path, char *room);

/* Length of the fabric's folder if `path` lies below it, else 0. */
size_t host_inside(const char *path);

/* ---- counters.c ---- */

/*
 * Freshly rendered text of a counter file, as a descriptor or stream that reads it; -1 / NULL if `path` (already
 * rewritten) is no counter file, is not opened for reading, or could not be rendered: the caller opens the file then.
 */
int host_open_counter(const char *path, int flags);
FILE *host_fopen_counter(const char *path, const char *mode);

/* ---- interpose.c ---- */

/* Looks up the functions behind ours. Called by the constructor so that a first call in a signal handler finds them. */
void host_resolve_all(void);
