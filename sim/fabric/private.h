/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of sim/fabric/ share among themselves. Nobody else includes it.
 *
 * Locks: a node's life is taken by its own agent before anything else and by others only with try-lock; then the
 * segment's lock (seg_lock).
 */
#pragma once

#include "sim/fabric/fabric.h"
#include "sim/fabric/layout.h"
#include "sim/fabric/wire.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>

#define FAB_FAR_B     (UINT64_C(4) << 30)  /* address space for a segment; its file never gets larger */
#define FAB_FAR_MIN_B (UINT64_C(64) << 20) /* what an address-space limit may cut it down to */
#define FAB_NEAR_B    (UINT64_C(16) << 20) /* most fabrics never need more; memory checkers walk all that is mapped */
#define SEG_PAGE_B    UINT64_C(4096)	   /* granule of extents */

/* Of the fabric's folder. */
#define FAB_PREFIX     "simhca-"
#define FAB_TMP_PREFIX ".simhca-"
#define FAB_LOCK_FILE  "lock"
#define FAB_SEG_FILE   "segment"

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

/* Copies a string, cut off if need be, into a zeroed array. */
static inline void fab_copy_name(char *to, size_t size, const char *from)
{
	size_t len = __builtin_strlen(from);

	len = MIN(len, size - 1);
	__builtin_memcpy(to, from, len);
	to[len] = 0;
}

struct fabric {
	char dir[PATH_MAX];
	int lock_fd; /* shared flock; -1 when read-only */
	int seg_fd;
	bool read_only;
	uint32_t ring_B;
	char *near;		  /* the file's first FAB_NEAR_B bytes, and room for it to grow up to them */
	_Atomic(char *) far;	  /* the whole file, mapped when something lies beyond; release/acquire */
	uint64_t far_B;		  /* written before far */
	_Atomic uint64_t known_B; /* bytes the file is known to have; relaxed: it never shrinks */
};

/* What this process knows of a peer. */
struct fab_peer {
	uint64_t probed_inc;  /* incarnation that direct_ok belongs to */
	uint64_t refused_inc; /* incarnation that sent something malformed: treated as dead */
	int32_t pid;
	bool direct_ok;
};

struct fab_node {
	struct wire_node wire; /* first: the inlines of wire.h look at it */
	struct fabric *f;
	uint32_t index;
	uint64_t incarnation;
	volatile uint64_t probe_word; /* what peers read to learn whether process_vm_readv is allowed */
	struct fab_peer peers[FAB_NODES_MAX];
};

/* ---- segment.c ---- */

/* Makes the file of a segment in the folder dir_fd, maps it, fills the header in. 0 or negative errno. */
int seg_create(struct fabric *f, int dir_fd, const char *name);
/* Maps the segment of dir_fd after checking that this build can use it. 0 or negative errno (-EPROTO: another build).
 */
int seg_map(struct fabric *f, int dir_fd);
void seg_unmap(struct fabric *f);

static inline struct seg_header *seg_of(const struct fabric *f)
{
	return (struct seg_header *)(void *)f->near;
}

/* Takes the segment's lock, repairing what a dead holder left. 0, or -EROFS, -ENOTRECOVERABLE ... */
int seg_lock(struct fabric *f);
void seg_unlock(struct fabric *f);

/* An extent of at least size_B bytes, a multiple of SEG_PAGE_B; its content is arbitrary. Under lock. 0 or negative
 * errno. */
int seg_alloc(struct fabric *f, uint64_t size_B, seg_off *off);
void seg_free(struct fabric *f, seg_off off, uint64_t size_B);

/* Has the file grown to `end` bytes at least? 0 or negative errno. */
int seg_learn_size(struct fabric *f, uint64_t end);

/* The far window at off, mapped if need be; NULL without address space for it. */
void *seg_far(struct fabric *f, seg_off off, uint64_t end);

/* Pointer to len_B bytes at an extent's offset, or NULL when they are not all inside the file. */
static inline void *seg_at(struct fabric *f, seg_off off, uint64_t len_B)
{
	if (off < sizeof(struct seg_header) || off % SEG_PAGE_B || len_B > FAB_FAR_B || off > FAB_FAR_B - len_B)
		return NULL;
	uint64_t end = off + len_B;
	if (unlikely(end > atomic_load_explicit(&f->known_B, memory_order_relaxed)) && seg_learn_size(f, end))
		return NULL;
	return likely(end <= FAB_NEAR_B) ? f->near + off : seg_far(f, off, end);
}

#define SEG_QP_CHUNK_B	round_up_u64(FAB_QP_CHUNK * sizeof(struct seg_qp), SEG_PAGE_B)
#define SEG_KEY_CHUNK_B round_up_u64(FAB_KEY_CHUNK * sizeof(struct seg_key), SEG_PAGE_B)

/* ---- ring.c; all under lock ---- */

/* The ring at off if its header makes sense, else NULL. */
struct seg_ring *ring_at(struct fabric *f, seg_off off);
/* Rings of one pair: as many nodes may come and go in a slot before a peer that is stopped has looked. */
#define RING_CHAIN_MAX 32
/* A new ring from node n to `to`, linked and attached on both sides. */
int ring_create(struct fab_node *n, uint32_t to, uint64_t to_inc, seg_off *off);
/* Clears the attachment of a side and gives the extent back when nobody is attached. */
void ring_detach(struct fabric *f, uint32_t from, uint32_t to, seg_off off, bool rx);
/* The oldest ring from -> to that the consumer with this incarnation has still to read; 0 = none. */
seg_off ring_oldest_rx(struct fabric *f, uint32_t from, uint32_t to, uint64_t to_inc);
/* Detaches a node that left or died from all its rings. Mask of the peers that are still attached to some. */
uint64_t ring_detach_node(struct fabric *f, uint32_t index, uint64_t incarnation);
/* Makes these peers look at their rings with `index`: they drain what is left and let go. */
void ring_tell(struct fabric *f, uint32_t index, uint64_t peers);

/* ---- node.c ---- */

/* Under lock: frees the slot if its node is dead. True if it is free now. */
bool node_reclaim(struct fabric *f, uint32_t index);
int64_t fab_now_ns(void);

/* ---- qp.c ---- */

/* Counters to the device, rd_atom given back, slot free. The caller owns the slot or its owner is dead (under lock). */
void qp_slot_release(struct fabric *f, struct seg_qp *qp);
/* Slots of an owner that left or died. Under lock. */
void qp_release_owner(struct fabric *f, uint64_t owner);

/* ---- folder.c ---- */

/* Is `name` usable in a path: letters, digits, '.', '_', '-', not starting with '.', shorter than FAB_NAME_MAX? */
bool fab_name_ok(const char *name);
/* Removes the folder if no process uses it. True if it is gone. */
bool folder_remove_if_unused(const char *dir);
/* Takes a shared flock on the folder's lock file, which is still linked then. fd or negative errno. */
int folder_lock_shared(const char *dir, bool inherit);
/* Deletes a tree below dir_fd. */
void folder_remove_tree(int dir_fd, const char *name);
/* A fresh folder for making or removing a fabric: its path below base. */
void folder_tmp_path(const char *base, char *path, size_t size);
/* Writes a whole new file. 0 or negative errno. */
int folder_write(int dir_fd, const char *name, const void *text, size_t len);

/* Fills err when it is there; returns rc. */
int fab_fail(int rc, char *err, size_t err_size, const char *fmt, ...) __attribute__((format(printf, 4, 5), cold));
