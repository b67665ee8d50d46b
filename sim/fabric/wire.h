/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire: packets between nodes. For each ordered pair of nodes one single-producer single-consumer ring of
 * 64-byte units in an extent of the segment, made on first use. A record is one packet: header, extended headers,
 * payload, in consecutive units. It is published by one release store of its first word, so a sender that is killed
 * half-way publishes nothing, and a receiver finds header and small payload with one cache miss.
 *
 * All functions are called under the node's engine lock; none blocks. Records name nodes and queue pairs, never
 * pointers, so a wire between machines fits behind the same calls.
 */
#pragma once

#include "sim/base.h"
#include "sim/fabric/fabric.h"

/* Packet opcodes. The transport uses message-level opcodes: first/middle/last are flags. */
enum pkt_op {
	PKT_SEND,
	PKT_WRITE,
	PKT_READ_REQ,
	PKT_ATOMIC_REQ,
	PKT_READ_RESP,
	PKT_ATOMIC_RESP,
	PKT_ACK,
	PKT_NAK,
	PKT_RNR_NAK,
	PKT_OP_COUNT
};

enum pkt_flag {
	PKF_FIRST = 1 << 0,
	PKF_LAST = 1 << 1,
	PKF_IMM = 1 << 2,
	PKF_SOLICITED = 1 << 3,
	PKF_BY_REF = 1 << 4, /* payload is a list of struct pkt_ref in the sender's memory: pulled by the receiver */
	PKF_CAS = 1 << 5,
};

struct pkt {
	_Atomic uint32_t word; /* 0 = nothing here yet; else record length in units, written last (release) */
	uint8_t op;	       /* enum pkt_op */
	uint8_t flags;	       /* enum pkt_flag */
	uint8_t gid_type;      /* enum gid_type of the sender's source GID */
	uint8_t syndrome;      /* NAK code / RNR timer code */
	uint32_t src_qpn, dst_qpn;
	uint32_t psn;	    /* of the first path-MTU packet in this record (24 bits) */
	uint32_t psn_count; /* path-MTU packets in this record, at least 1 (untimed mode packs several) */
	uint32_t payload_B; /* payload bytes in the record; for PKF_BY_REF the bytes named by the list */
	uint32_t imm;	    /* immediate data (network order as posted); MSN in acknowledgements */
	int64_t arrive_ps;  /* modelled time at which the last bit reaches the far port */
	/* 40 bytes so far */
	union {
		struct {
			uint64_t va;
			uint32_t rkey, length; /* of the whole message */
		} reth;			       /* PKT_WRITE with PKF_FIRST, PKT_READ_REQ */
		struct {
			uint64_t va;
			uint32_t rkey, pad;
			uint64_t swap_add, compare;
		} atomic;
	} ext[]; /* present as pkt_ext_B() says; payload follows */
};
_Static_assert(sizeof(struct pkt) == 40, "a packet header and 24 bytes share a line");

struct pkt_ref {
	uint64_t addr, len_B;
};

#define PKT_UNIT_B  64u
#define STAGE_UNITS 4u

#ifdef __SANITIZE_THREAD__
#define WIRE_PEEK __attribute__((no_sanitize_thread, noinline, unused))
#else
#define WIRE_PEEK inline
#endif

/* Extended header bytes of a packet, from its opcode and flags alone: 16 (RETH), 32 (atomic), 0. */
static inline uint32_t pkt_ext_B(uint8_t op, uint8_t flags)
{
	if (op == PKT_READ_REQ || (op == PKT_WRITE && (flags & PKF_FIRST)))
		return 16;
	return op == PKT_ATOMIC_REQ ? 32 : 0;
}

static inline void *pkt_payload(struct pkt *p)
{
	return (char *)p->ext + pkt_ext_B(p->op, p->flags);
}

/* A full fence. The thread sanitizer does not know fences but sees a read-modify-write. */
static inline void wire_fence(void)
{
#ifdef __SANITIZE_THREAD__
	static _Atomic uint32_t any;
	atomic_fetch_or_explicit(&any, 0, memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* ---- sending ---- */

/*
 * Producer side of the ring to one incarnation of a peer, process-local; lives until node_leave. When the peer has
 * gone it stays usable as a black hole: what is published there vanishes, as on a cable that leads nowhere.
 * Private to wire.c and the inlines below.
 */
struct wire_tx {
	unsigned char *data;   /* of the ring, or the node's scratch record */
	uint64_t tail;	       /* next unit to write, counted from the start of the ring's life */
	uint64_t limit;	       /* units up to here are known to be free */
	uint32_t mask;	       /* units of the ring - 1 */
	uint32_t reserved;     /* units of the reserved record, 0 = none */
	struct seg_ring *ring; /* NULL: black hole */
	struct seg_node *peer;
	uint64_t bit; /* ours in the peer's pending word */
	/* cold */
	struct fab_node *node;
	struct wire_tx *next; /* list of those that became black holes */
	uint64_t inc;	      /* the peer's incarnation */
	seg_off off;
	uint32_t to;
	bool drop; /* the peer has gone: becomes a black hole once the reserved record is published */
	/*
	 * A record of up to STAGE_UNITS is built here and copied when it is published: the receiver polls the line it
	 * goes to, and would take it away between one store and the next.
	 */
	_Alignas(PKT_UNIT_B) unsigned char stage[STAGE_UNITS * PKT_UNIT_B];
};

/* Consumer side of the ring from one peer. Private to wire.c. */
struct wire_rx {
	unsigned char *data;
	uint64_t pos;	    /* next unit to read */
	uint64_t published; /* last value stored to the ring's head */
	uint32_t mask;
	uint32_t current;      /* units of the record that wire_next returned, 0 = none */
	struct seg_ring *ring; /* NULL: not attached */
	seg_off off;
	seg_off ignored_off;  /* no ring to read was found when the pair's newest ring was this one ... */
	uint64_t ignored_inc; /* ... and the peer this incarnation: not looked at again */
	uint64_t inc;
};

/* First member of struct fab_node: what the inlines look at. Written under the engine lock. */
struct wire_node {
	struct seg_node *self;
	_Atomic(struct pkt *) hot_next; /* next record of the hot ring; relaxed, a late reader only errs for a moment */
	_Atomic uint64_t hot_mask; /* the hot ring's pending bit, which may stay set; 0 when it has a second meaning */
	uint64_t waiting;	   /* peers whose ring was full */
	int hot;		   /* peer whose ring is polled by its next record, -1 = none */
	int last;		   /* peer that wire_pending returned last */
	void *scratch;		   /* record of black holes, made on first use */
	struct wire_tx *gone;
	struct wire_tx *tx[FAB_NODES_MAX];
	struct wire_rx rx[FAB_NODES_MAX];
};

/* Ring to node `to`, made if need be. 0, or -ENOSPC, -ENOMEM, -EHOSTUNREACH (no such node or dead). */
int wire_tx_open(struct fab_node *n, uint32_t to, struct wire_tx **tx);

static inline struct pkt *wire_slot(const struct wire_tx *tx)
{
	return (struct pkt *)(void *)(tx->data + (tx->tail & tx->mask) * PKT_UNIT_B);
}

/* Where the record of that many units at the tail is built, with a header of zeros. */
static inline struct pkt *wire_begin(struct wire_tx *tx, uint32_t units)
{
	struct pkt *p = units <= STAGE_UNITS ? (struct pkt *)(void *)tx->stage : wire_slot(tx);

	__builtin_memset((char *)p + sizeof(p->word), 0, sizeof(*p) - sizeof(p->word));
	tx->reserved = units;
	return p;
}

struct pkt *wire_reserve_slow(struct wire_tx *tx, uint32_t units);
void wire_publish_hole(struct wire_tx *tx);
void wire_wipe(struct wire_tx *tx); /* zero again for the units of a record that was reserved and not published */

/*
 * Room for a record with payload_B bytes after ext_B of extended header (PKF_BY_REF: payload_B of the list). The
 * header is zero and private until wire_publish; at most one may be reserved at a time. NULL when the ring is full:
 * the ring then remembers that the producer waits, and the consumer sets the producer's pending bit when it has made
 * room. Never ask for more than wire_payload_max_B: it might not fit for ever.
 */
static inline struct pkt *wire_reserve(struct wire_tx *tx, uint32_t ext_B, uint32_t payload_B)
{
	uint64_t bytes = sizeof(struct pkt) + (uint64_t)ext_B + payload_B;
	uint32_t units = (uint32_t)((bytes + PKT_UNIT_B - 1) / PKT_UNIT_B);
	uint32_t at = (uint32_t)tx->tail & tx->mask;

	/* One unit more than the record: the consumer finds a zero behind it. */
	if (unlikely(units > tx->mask + 1 - at || tx->tail + units >= tx->limit))
		return wire_reserve_slow(tx, units);
	if (unlikely(tx->reserved))
		wire_wipe(tx); /* an earlier one was given up */
	return wire_begin(tx, units);
}

/* The reserved record into the ring, all but its first word. The receiver looks at its first line: that comes last. */
static inline void wire_unstage(const struct wire_tx *tx, struct pkt *p)
{
	for (uint32_t i = tx->reserved - 1; i; i--)
		__builtin_memcpy((char *)p + i * PKT_UNIT_B, tx->stage + i * PKT_UNIT_B, PKT_UNIT_B);
	__builtin_memcpy((char *)p + sizeof(p->word), tx->stage + sizeof(p->word), PKT_UNIT_B - sizeof(p->word));
}

/*
 * Publishes the reserved record without telling the receiver, who sees it at once if it polls this ring and later
 * otherwise: wire_notify must follow, behind a full fence.
 */
static inline void wire_publish_quietly(struct wire_tx *tx)
{
	if (unlikely(!tx->ring || tx->drop)) {
		wire_publish_hole(tx);
		return;
	}
	struct pkt *p = wire_slot(tx);
	if (tx->reserved <= STAGE_UNITS)
		wire_unstage(tx, p);
	tx->tail += tx->reserved;
	/*
	 * release: header and payload; pairs with the acquire in wire_next. The word behind the record is zero already:
	 * the consumer gives units back that way, so that publishing waits for no line but the record's own.
	 */
	atomic_store_explicit(&p->word, tx->reserved, memory_order_release);
	tx->reserved = 0;
}

/*
 * Tells a peer that this node (bit) has published: sets its pending bit, wakes its agent if it sleeps and wants that.
 * The caller's fence since the last publishing pairs with the receiver's: either the receiver, having cleared the bit
 * or set agent_sleeps, sees the record, or we see what it wrote.
 */
static inline void wire_notify(struct seg_node *peer, uint64_t bit)
{
	if (unlikely(!(atomic_load_explicit(&peer->pending, memory_order_relaxed) & bit)))
		atomic_fetch_or_explicit(&peer->pending, bit, memory_order_seq_cst);
	if (unlikely(atomic_load_explicit(&peer->agent_sleeps, memory_order_relaxed)))
		node_wake(peer);
}

/* Publishes the reserved record and tells the receiver. */
static inline void wire_publish(struct wire_tx *tx)
{
	wire_publish_quietly(tx);
	if (unlikely(!tx->ring))
		return;
	wire_fence(); /* see wire_notify */
	wire_notify(tx->peer, tx->bit);
}

/* Node index of the peer. */
static inline uint32_t wire_tx_to(const struct wire_tx *tx)
{
	return tx->to;
}

/* Largest payload of a record in this ring (a quarter of it). */
static inline uint32_t wire_payload_max_B(const struct wire_tx *tx)
{
	return (tx->mask + 1) * PKT_UNIT_B / 4;
}

/* Have all records been consumed by the receiver? A black hole is always drained. */
bool wire_tx_drained(const struct wire_tx *tx);

/* ---- receiving ---- */

/*
 * The node index whose ring is to be looked at next, or -1: nothing pending. That ring becomes the hot one: as long
 * as it is hot its pending bit stays set, so that its sender touches nothing but the ring, and its next record is
 * polled directly. Peers take turns. A peer is also returned, perhaps with no record, when it has made room for a
 * producer that waits, and once when it has gone.
 */
int wire_pending(struct fab_node *n);

/*
 * A look without the lock may be late: the place where a record was awaited can hold another one's payload by now. Then
 * the answer is wrong for a moment, which costs its reader a look under the lock. The thread sanitizer need not know.
 */
static WIRE_PEEK uint32_t wire_peek(const struct pkt *p)
{
	return atomic_load_explicit(&p->word, memory_order_relaxed);
}

/* Cheap, no lock: is there anything to do? (pending bits of rings other than the hot one, or a record in the hot ring)
 */
static inline bool wire_has_work(const struct fab_node *n)
{
	const struct wire_node *w = (const struct wire_node *)n;
	const struct pkt *p = atomic_load_explicit(&w->hot_next, memory_order_relaxed);

	if (p && wire_peek(p))
		return true;
	/* relaxed: who acts on it takes the engine lock and looks again */
	return (atomic_load_explicit(&w->self->pending, memory_order_relaxed) &
		~atomic_load_explicit(&w->hot_mask, memory_order_relaxed)) != 0;
}

/*
 * Next record from node `from`, or NULL. Length, opcode and the space its header asks for are checked (PKF_BY_REF:
 * the list's lengths sum up to payload_B inside the record): a malformed record closes the ring (the peer is treated
 * as dead by node_alive) and is reported at log level 1. Valid until wire_consume. The sender could still change
 * it: read a field once and check what you read.
 */
struct pkt *wire_next(struct fab_node *n, uint32_t from);
void wire_consume(struct fab_node *n, uint32_t from);
