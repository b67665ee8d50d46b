/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared segment of a fabric, byte for byte. One file `segment` in the fabric's folder; every process of the
 * fabric maps it. It is reserved when it is made (posix_fallocate) and grows by whole extents, reserved in the same
 * way, so that a full file system is ENOSPC at a call and never SIGBUS later.
 *
 * Shared memory is hostile: whoever reads an index, a length or an offset from here checks it before use.
 * Nothing in here is a pointer.
 */
#pragma once

#include "sim/base.h"
#include "sim/model/counters.h"
#include <pthread.h>

#define SEG_MAGIC	   UINT64_C(0x00006163686d6973) /* "simhca" */
#define SEG_VERSION	   1u
#define FAB_NODES_MAX	   64u /* processes of a fabric at one time: one bit each in a pending word */
#define FAB_DEVICES_MAX	   16u
#define FAB_PORTS_MAX	   2u
#define FAB_GIDS_MAX	   16u
#define FAB_NAME_MAX	   64u
#define FAB_QP_CHUNK	   256u /* queue-pair slots of an extent */
#define FAB_QP_CHUNKS_MAX  512u /* 131,072 queue pairs in a fabric */
#define FAB_KEY_CHUNK	   256u /* published keys of an extent */
#define FAB_KEY_CHUNKS_MAX 64u	/* 16,384 published keys a node; more are not published (no direct path) */

/* Where an extent lies: byte offset in the file, 0 = none; always a multiple of the page size. */
typedef uint64_t seg_off;

enum gid_type { GID_NONE, GID_IB, GID_ROCE_V1, GID_ROCE_V2 };

struct seg_gid {
	uint8_t raw[16];
	uint32_t type; /* enum gid_type */
	char ndev[16]; /* network interface it belongs to, "" = none */
};

struct seg_port {
	_Atomic uint32_t state; /* enum ibv_port_state; relaxed: a reader may see a change late, as on hardware */
	uint32_t lid;
	uint32_t link_layer; /* IBV_LINK_LAYER_* */
	uint32_t num_gids;
	uint32_t link_Gbps;   /* of the fabric file, 0 = the profile's */
	uint32_t switch_hops; /* of the fabric file, UINT32_MAX = the profile's */
	uint8_t mac[6];
	uint8_t pad[2];
	struct seg_gid gids[FAB_GIDS_MAX];
	_Atomic uint64_t
	    left[CTR_COUNT]; /* part of the device's counters that destroyed queue pairs of this port left */
};

struct seg_device {
	_Atomic uint32_t used; /* 0 / 1; release after the rest is written, pairs with acquire in readers */
	uint32_t num_ports;
	char name[FAB_NAME_MAX];
	char profile[FAB_NAME_MAX]; /* its name; the text is the file `<fabric>/profiles/<device>.ini` */
	uint64_t node_guid;	    /* host order */
	struct seg_port ports[FAB_PORTS_MAX];
	/* Responder budget taken, see profile key max_res_rd_atom; fetch_add and fetch_sub, relaxed. */
	_Atomic uint32_t rd_atom_used;
	/* Moves of counters from a slot to here, begun and done; seq_cst on both sides, see fabric_counter. */
	_Atomic uint32_t moves_begun, moves_done;
	/* Refusals, and what queue pairs left when they were destroyed; relaxed. */
	_Atomic uint64_t counters[CTR_COUNT];
};

/* Receive side of a queue pair as senders see it. */
enum seg_rx_state { RX_CLOSED = 0, RX_READY = 1 /* RTR, RTS, SQD */, RX_ERROR = 2 };

/*
 * One queue pair. Claimed by compare-and-swap of `owner` from 0; everything else is written by the owner, except
 * epsn/msn by the one peer that is inside the direct path (see hca.h).
 */
struct seg_qp {
	_Atomic uint64_t owner; /* 0 = free; else incarnation << 8 | node + 1; acq_rel, pairs with readers' acquire */
	_Atomic uint32_t rx_state; /* enum seg_rx_state; release by the owner, acquire by senders */
	uint32_t device;
	uint32_t port;	   /* from 1 */
	uint32_t kind;	   /* enum qp_kind */
	uint32_t gid_type; /* enum gid_type of its source GID once in RTR */
	uint32_t dest_qpn;
	uint32_t pd;	  /* identity of its PD inside the owner, compared with seg_key.pd */
	uint32_t access;  /* IBV_ACCESS_REMOTE_* of the queue pair (qp_access_flags) */
	uint32_t rd_atom; /* share of the device's rd_atom_used it holds; given back when the slot is freed */
	int64_t ack_ps;	  /* modelled time from a message's arrival here to its acknowledgement's arrival there */
	/* A line of its own: written with every message, while senders look at the one above with every post. */
	_Alignas(CACHE_LINE) _Atomic uint32_t
	    epsn;	      /* next PSN the responder expects (24 bits); release/acquire with direct writers */
	_Atomic uint32_t msn; /* messages completed by the responder (24 bits) */
	_Atomic int64_t write_visible_ps; /* modelled time at which the last RDMA WRITE became visible; relaxed */
	_Alignas(CACHE_LINE) _Atomic uint64_t counters[CTR_COUNT]; /* relaxed stores, one writer at a time */
};

/* One published memory key of a node: what the direct path may do with it. */
struct seg_key {
	_Atomic uint32_t key; /* the whole rkey while published, 0 while not; seq_cst, pairs with seg_node.inside */
	uint32_t access;      /* IBV_ACCESS_* */
	uint32_t pd;
	uint32_t pad;
	uint64_t addr; /* virtual address in the owner of the first byte */
	uint64_t iova; /* what remote addresses are relative to */
	uint64_t length;
};

/*
 * While an agent holds seg_node.life its death is seen at once. Between joining and the agent's first step, and
 * between its last and leaving, nobody holds it: then the slot counts as alive for a few seconds.
 */
enum seg_life { LIFE_GRACE = 0, LIFE_HELD = 1 };

struct seg_node {
	_Atomic uint64_t incarnation; /* 0 = free; unique in the fabric; release at join, acquire by peers */
	int32_t pid;		      /* for messages and process_vm_* only, never for liveness */
	_Atomic uint32_t life_state;  /* enum seg_life; written under the header's lock, release/acquire */
	uint64_t changed_ns;	      /* CLOCK_MONOTONIC when life_state became LIFE_GRACE; under lock */
	uint64_t probe_addr; /* address in the node of a word that holds probe_value: is process_vm_readv allowed? */
	uint64_t probe_value;
	pthread_mutex_t life;	/* robust, process-shared; locked by the agent thread as long as it lives */
	pthread_mutex_t moving; /* the same; locked by the thread that is inside a peer's memory, see node_enter */
	/* One line: all an empty poll and a sender look at. */
	_Alignas(CACHE_LINE) _Atomic uint64_t pending; /* bit n: ring from node n has something; see wire.h */
	_Atomic uint32_t agent_sleeps;		       /* 1: wake the agent (futex on this word) when a packet comes */
	_Alignas(CACHE_LINE) _Atomic uint32_t
	    inside[FAB_NODES_MAX]; /* peer n is inside our memory; seq_cst, see node_enter */
	_Alignas(CACHE_LINE) _Atomic seg_off key_chunks[FAB_KEY_CHUNKS_MAX]; /* release at growth, acquire by peers */
};

/*
 * A ring: one extent. A pair's rings form a list from the newest to those of dead incarnations that a living peer
 * still reads or writes; an extent is given back when neither side is attached any more.
 */
struct seg_ring {
	uint64_t size_B;	      /* of the extent; written before the ring is linked */
	seg_off older;		      /* next ring of the pair, under lock */
	uint64_t from_inc, to_inc;    /* incarnations of producer and consumer */
	uint32_t units;		      /* of data; a power of two */
	_Atomic uint32_t tx_attached; /* cleared under lock when the producer let go or died; release/acquire */
	_Atomic uint32_t rx_attached; /* the same for the consumer */
	_Atomic uint32_t refused;     /* the consumer found a malformed record and reads no more; release/acquire */
	/* Units given back, their first words zero again; now and then. release, acquire in the producer. */
	_Alignas(CACHE_LINE) _Atomic uint64_t head;
	_Atomic uint64_t seen;				  /* units worked on; release, acquire in the producer */
	_Alignas(CACHE_LINE) _Atomic uint32_t want_space; /* the producer waits; seq_cst on both sides */
	_Alignas(CACHE_LINE) unsigned char data[];
};

struct seg_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_B; /* sizeof(struct seg_header) of the maker: another build is refused */
	char name[FAB_NAME_MAX];
	uint64_t seed;
	pthread_mutex_t lock;	   /* robust: joining, leaving, extents, devices. Never on the data path */
	uint64_t size_B;	   /* of the file, under lock */
	seg_off free_extents;	   /* list head, under lock: an extent's first 16 bytes are {next, size} when free */
	uint64_t next_incarnation; /* under lock */
	_Atomic uint32_t next_qp_hint;	/* rotating, so that a number is not used again at once; relaxed */
	_Atomic uint32_t num_qp_chunks; /* release after qp_chunks[n], acquire by readers */
	_Atomic seg_off qp_chunks[FAB_QP_CHUNKS_MAX];
	struct seg_device devices[FAB_DEVICES_MAX];
	struct seg_node nodes[FAB_NODES_MAX];
	_Atomic seg_off
	    rings[FAB_NODES_MAX][FAB_NODES_MAX]; /* [from][to], newest; written under lock, release/acquire */
};

_Static_assert(sizeof(struct seg_qp) % CACHE_LINE == 0, "queue-pair slots do not share lines");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics must be address-free");
