/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric: a folder below SIMHCA_DIR (default /dev/shm) named simhca-<uid>-<name>, with
 *
 *   lock          flock: shared by every process that uses the fabric, exclusive to remove it
 *   segment       the shared segment (layout.h)
 *   profiles/     one INI file a device: the profile it was made with
 *   sys/, dev/    the tree that stands in for /sys/class/infiniband* and /dev/infiniband (tree.h)
 *
 * It is made under a temporary name and renamed into place, so it is whole or absent. The last user removes it; one
 * whose users were all killed is swept by the next process of the same uid.
 */
#pragma once

#include "sim/base.h"
#include "sim/fabric/layout.h"
#include "sim/model/model.h"

struct fabric;	 /* a mapped fabric, process-local */
struct fab_node; /* this process as a node of it */

/* ---- what a fabric is made of ---- */

struct fab_device_config {
	char name[FAB_NAME_MAX];
	struct profile profile;
	uint32_t num_ports; /* 1..FAB_PORTS_MAX */
	struct {
		int link_layer;	      /* IBV_LINK_LAYER_*, -1 = the profile's */
		uint32_t link_Gbps;   /* 0 = the profile's */
		uint32_t switch_hops; /* UINT32_MAX = the profile's */
		char address[64];     /* IPv4 address of the port, "" = 127.47.<device+1>.<port> */
		bool down;	      /* port state DOWN at start */
	} ports[FAB_PORTS_MAX];
};

struct fab_config {
	char base[512]; /* SIMHCA_DIR */
	char name[FAB_NAME_MAX];
	uint32_t num_devices;
	struct fab_device_config *devices;
};

/* Reads a fabric file (INI; sections [fabric], [device NAME], [port NAME:N]). 0 or negative errno with one line in err.
 */
int fab_config_read(const char *path, struct fab_config *cfg, char *err, size_t err_size);
/* Frees the device table that fab_config_read made. */
void fab_config_free(struct fab_config *cfg);

/* ---- making, finding, removing ---- */

/* Path of the folder of a fabric of the calling uid. */
void fabric_dir(const char *base, const char *name, char *dir, size_t dir_size);

/*
 * Opens the fabric, making it when absent; devices of cfg that it lacks are added. A device that exists with another
 * profile is -EEXIST. Takes a shared flock (inheritable when `inherit`: for a launcher that execs). Sweeps dead
 * fabrics of this uid first. 0 or negative errno with one line in err (ENOSPC: file system full, EPROTO: made by
 * another build, ...).
 */
int fabric_ensure(const struct fab_config *cfg, bool inherit, struct fabric **out, char *err, size_t err_size);

/* Maps an existing fabric by its folder. read_only: no flock, for listings. */
int fabric_open(const char *dir, bool read_only, struct fabric **out, char *err, size_t err_size);

/* Unmaps; if no process uses the fabric any more, removes it. NULL is fine. */
void fabric_close(struct fabric *f);

/* The same at process exit: unmaps and frees nothing, other threads may still look. */
void fabric_close_at_exit(struct fabric *f);

/*
 * As fabric_close for a process that only inherited the flock on `lock_fd` (exit of a launched program). Closes
 * lock_fd, then tries the exclusive lock on a descriptor of its own: parents and children share the inherited open
 * file description, so upgrading that one would succeed while they still live.
 */
void fabric_release_fd(const char *dir, int lock_fd);

/* Waits until no process uses the fabric, however the last one ended, and removes it: for a watcher without a lock. */
void fabric_wait_and_remove(const char *dir);

/* Descriptor that holds the shared flock (for a launcher: inherited by the program), or -1 when opened read-only. */
int fabric_lock_fd(const struct fabric *f);

/* Removes every fabric of this uid below base that no process uses, and unfinished ones. Returns how many. */
int fabric_sweep(const char *base);

/*
 * Bytes of data in the rings this process makes from now on: rounded up to a power of two and clamped to
 * FAB_RING_MIN_B..FAB_RING_MAX_B. Default FAB_RING_DEFAULT_B.
 */
#define FAB_RING_MIN_B	   (UINT32_C(16) << 10)
#define FAB_RING_MAX_B	   (UINT32_C(16) << 20)
#define FAB_RING_DEFAULT_B (UINT32_C(256) << 10)
void fabric_set_ring_B(struct fabric *f, uint32_t ring_B);

const char *fabric_path(const struct fabric *f);
struct seg_header *fabric_seg(struct fabric *f);

/* ---- devices ---- */

/* Index of the device by name, or -1. */
int fabric_find_device(struct fabric *f, const char *name);
/* Port that owns this GID: device index and port number (from 1). Type is that of the first entry that matches. 0 or
 * -ENOENT. */
int fabric_find_gid(struct fabric *f, const uint8_t gid[16], uint32_t *device, uint32_t *port);
/* The same by LID (InfiniBand link layer). */
int fabric_find_lid(struct fabric *f, uint32_t lid, uint32_t *device, uint32_t *port);
/* Sum of a counter over the device and its living queue pairs. */
uint64_t fabric_counter(struct fabric *f, uint32_t device, enum counter c);
/* The same for one port (from 1). What belongs to no port (refusals at creation) is shown at port 1. */
uint64_t fabric_port_counter(struct fabric *f, uint32_t device, uint32_t port, enum counter c);

/* ---- queue-pair numbers ---- */

/* Claims a slot for node n. The queue-pair number is nonzero, 24 bits. 0, -ENOSPC, -ENOMEM. */
int fabric_qp_alloc(struct fab_node *n, uint32_t *qpn, struct seg_qp **slot);
/* Adds the slot's counters to its device, gives its rd_atom back to rd_atom_used, and frees it. */
void fabric_qp_free(struct fab_node *n, uint32_t qpn);
/* Slot of a number, or NULL if no such slot exists. The caller checks owner. Bounds-checked, lock-free. */
struct seg_qp *fabric_qp(struct fabric *f, uint32_t qpn);

#define SEG_OWNER(node, incarnation) ((uint64_t)(incarnation) << 8 | ((node) + 1u))
#define SEG_OWNER_NODE(owner)	     ((uint32_t)((owner)&0xff) - 1u)
#define SEG_OWNER_INC(owner)	     ((owner) >> 8)

/* ---- nodes ---- */

/*
 * Joins: claims a node slot, reclaims those of the dead first. 0, -EUSERS (all taken), -ENOMEM, -ENOSPC.
 * node_hold_life must then be called by the agent thread, which keeps it until it calls node_drop_life. In between,
 * peers see the death of the process at once; before and after, FAB_GRACE_NS later.
 * node_hold_life: 0, or -ESTALE when the node was taken for dead meanwhile (stopped for longer than the grace).
 */
#define FAB_GRACE_NS INT64_C(5000000000)
int node_join(struct fabric *f, struct fab_node **out);
int node_hold_life(struct fab_node *n);
void node_drop_life(struct fab_node *n);
/* Leaves: queue-pair slots, rings and keys are given back. After node_drop_life (agent joined). Frees n. */
void node_leave(struct fab_node *n);
/* The same at process exit: frees nothing, other threads may still look. */
void node_leave_at_exit(struct fab_node *n);
/* In a forked child: frees local memory and unmaps nothing of the parent's; touches no shared state. */
void node_forget_after_fork(struct fab_node *n);

uint32_t node_index(const struct fab_node *n);
uint64_t node_incarnation(const struct fab_node *n);
struct seg_node *node_seg(const struct fab_node *n);
struct fabric *node_fabric(const struct fab_node *n);

/* Is the node with this incarnation alive? Robust mutex try-lock; a dead one is reclaimed on the way. ~50 ns when
 * alive. */
bool node_alive(struct fab_node *n, uint32_t index, uint64_t incarnation);
/* May this process use process_vm_* on that node (probed once per incarnation)? Gives its pid. */
bool node_direct_ok(struct fab_node *n, uint32_t index, uint64_t incarnation, int32_t *pid);

/*
 * Marks this node as being inside a peer's memory (process_vm_*), and no more. What the peer has withdrawn before it
 * looks at the mark is seen withdrawn inside: check there. The mark counts as long as the thread that set it lives,
 * whatever becomes of the rest of its process. Engine lock held; one peer at a time.
 */
void node_enter(struct fab_node *n, uint32_t peer);
void node_exit(struct fab_node *n, uint32_t peer);

/* Wakes the agent of a node if it sleeps and wants to be woken; cheap when it does not. */
void node_wake(struct seg_node *s);
/*
 * For the agent: announces that it sleeps, looks once more whether there is work (wire_has_work), and sleeps until
 * node_wake or for timeout_ns (negative: for ever). True when it was woken or there is work.
 */
bool node_sleep(struct fab_node *n, int64_t timeout_ns);

/* ---- published keys ---- */

/* Slot `index` (below FAB_KEY_CHUNKS_MAX * FAB_KEY_CHUNK) of this node's table, made if need be; NULL = cannot be
 * published. */
struct seg_key *node_key_slot(struct fab_node *n, uint32_t index);
/* The same of a peer; bounds-checked; NULL if absent. */
struct seg_key *node_peer_key(struct fab_node *n, uint32_t peer, uint32_t index);
/* Withdraws (key := 0) and waits until no living peer is inside this node's direct path. */
void node_withdraw_key(struct fab_node *n, struct seg_key *k);
/* Waits until no living peer is inside this node's direct path. */
void node_wait_outside(struct fab_node *n);
