/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of sim/hca/: the objects and who may touch what. Only files of this folder include it.
 *
 * Three domains, each with its lock:
 *   posting    queue lock of a send or receive queue: builds WQEs, moves `head`
 *   engine     engine lock, one a process and fabric: transport, keys, completions written, timers
 *   polling    lock of a completion queue: takes CQEs out, moves `tail` of the queues they belong to
 * Lock order: completion queues (of a pair the one at the lower address first), send queue, receive queue, engine: a
 * program may post and register between start_poll and end_poll. Indices that cross a border are atomics and say
 * what they pair with. Indices run freely over 32 bits; a slot is index & mask.
 */
#pragma once

#include "sim/fabric/wire.h"
#include "sim/hca/hca.h"
#include "sim/hca/lock.h"
#include "sim/lab/wiretest.h"
#include "sim/model/stage.h"
#include <limits.h>
#include <semaphore.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#define PSN_MASK 0xffffffu

/* a - b in the 24-bit circle: negative when a is before b. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/* ---- send and receive queues -------------------------------------------------------------------------------- */

enum wqe_flag {
	WQF_SIGNALED = 1 << 0,
	WQF_INLINE = 1 << 1,
	WQF_FENCE = 1 << 2,
	WQF_SOLICITED = 1 << 3,
	WQF_PUSH = 1 << 4,
	WQF_PSN = 1 << 5,  /* has its packet sequence numbers */
	WQF_DONE = 1 << 6, /* its response has arrived */
};

/* A send work request in the queue. Written by the poster before head moves; then owned by the engine. */
struct wqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t compare_add, swap;
	int64_t have_ps; /* the adapter has it */
	int64_t done_ps; /* the adapter makes its completion, by the model: known once sent, or once answered */
	uint32_t rkey, imm;
	uint32_t length;    /* payload bytes */
	uint32_t units_end; /* running total of queue units up to and including this one */
	uint32_t psn, psn_count;
	uint32_t resp_B; /* READ: bytes of the response placed so far */
	uint32_t rd_seq; /* READ, atomic: running number */
	uint16_t num_sge;
	uint8_t op, flags; /* enum sim_op, enum wqe_flag */
	uint32_t error;	   /* enum ibv_wc_status found before it was sent; it waits for its turn to complete */
	uint16_t blocks;   /* basic blocks of the WQE */
	uint16_t wqe_B;	   /* its bytes in the family's layout */
	union {
		struct ibv_sge sge[1];
		uint8_t data[16];
	}; /* as many as the slot holds */
};

struct send_queue {
	struct lock lock;
	char *slots;
	size_t slots_B;
	uint32_t stride_B, mask;
	uint32_t max_units; /* see qp_grant.sq_units */
	/* posting */
	uint32_t build;	       /* slot being built; head moves to it at the end of a call */
	uint32_t units_posted; /* running total at build */
	_Atomic uint32_t head; /* release by the poster, acquire by the engine */
	/* engine */
	uint32_t una;  /* oldest not completed */
	uint32_t next; /* to be transmitted now; tx_off_B bytes of it are out */
	uint32_t sent; /* behind the furthest ever transmitted */
	uint32_t tx_off_B;
	/* polling */
	_Atomic uint32_t tail;	      /* given back: release by the poller, acquire by the poster */
	_Atomic uint32_t units_freed; /* the same in units */
};

struct rqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length;
	struct ibv_sge sge[1];
};

struct recv_queue {
	struct lock lock;
	char *slots;
	size_t slots_B;
	uint32_t stride_B, mask;
	uint32_t max_wr, max_sge;
	_Atomic uint32_t head; /* release by the poster, acquire by the engine */
	uint32_t next;	       /* engine: next to be used */
	_Atomic uint32_t tail; /* release by the poller, acquire by the poster */
};

static inline struct wqe *sq_slot(const struct send_queue *sq, uint32_t i)
{
	return (struct wqe *)(void *)(sq->slots + (size_t)(i & sq->mask) * sq->stride_B);
}

static inline struct rqe *rq_slot(const struct recv_queue *rq, uint32_t i)
{
	return (struct rqe *)(void *)(rq->slots + (size_t)(i & rq->mask) * rq->stride_B);
}

/* ---- the process as a node ---------------------------------------------------------------------------------- */

#define KEY_CHUNK  256u
#define KEY_CHUNKS 4096u /* 1,048,576 memory keys a process */

struct engine {
	struct lock lock;
	struct hca_qp
	    *_Atomic work;	/* posted while the engine was busy: pushed by posters, taken whole by the engine */
	_Atomic bool more;	/* something was left for the next turn: resume list not empty and not waiting */
	_Atomic bool rnr_waits; /* a queue pair waits for an RNR timer: polls look at the clock */
	_Atomic bool app_alive; /* set by posts and polls, cleared by the agent: is the application driving us? */
	_Atomic bool deep;	/* the agent sleeps without a time limit */
	bool forked;		/* we are a child: nothing is ours */
	bool fast;		/* untimed, no instrument armed: large packets, direct path */
	bool strict_timers;
	bool renews_files; /* no preload renders counter files at open: the agent renews them each second */
	uint64_t renewed_ns;
	struct fab_node *node;
	struct seg_node *seg;	/* ours */
	struct seg_node *nodes; /* all of the fabric */
	struct fabric *fabric;
	uint32_t index; /* of the node */
	/* engine lock */
	uint64_t notify;	    /* peers that were sent something and not told yet */
	struct hca_qp *resume;	    /* kept their place: ring full or turn over */
	struct hca_qp *owe;	    /* owe acknowledgements or responses */
	struct hca_qp *active;	    /* have something outstanding; timers; doubly linked */
	_Atomic uint32_t armed_cqs; /* written under the lock, read by the agent without it (relaxed) */
	struct hca_qp **qps[FAB_QP_CHUNKS_MAX];
	struct hca_mr **keys[KEY_CHUNKS];
	uint32_t key_hint;
	uint32_t num_mrs;
	uint64_t locked_B;
	struct wiretest *wiretest; /* NULL unless armed */
	_Atomic uint64_t
	    rnr_next_ns; /* earliest RNR deadline; written under the lock, read by polls without it (relaxed) */
	_Atomic bool stop;
	pthread_t agent;
	sem_t agent_ready; /* it holds the node's life, or agent_err says why not */
	int agent_err;
	bool agent_runs;
	char dir[PATH_MAX];
	unsigned users; /* opened devices, under the list lock */
	struct engine *next;
};

/* Figures of a port (link and switches may be the fabric file's), and constants of the closed forms made of them. */
struct port_time {
	struct timing t;
	int64_t net_ps, ack_ps, cqe_generated_ps;
};

struct hca {
	struct engine *e;
	struct profile prof;
	struct port_time ports[FAB_PORTS_MAX];
	uint32_t device;
	struct seg_device *seg;
	struct settings set;
	struct hca_callbacks cb;
	void *user;
	_Atomic uint32_t num_pds, num_cqs, num_qps;
};

struct hca_pd {
	struct hca *h;
	uint32_t id;
	_Atomic uint32_t users;
};

struct hca_mr {
	struct hca_pd *pd;
	uint64_t addr, iova, length;
	uint32_t key, access;
	struct seg_key *published; /* NULL = not published */
};

struct hca_cq {
	struct hca *h;
	void *user;
	struct lock lock; /* polling */
	bool single_threaded;
	/* engine produces, poller consumes */
	struct hca_cqe *ring;
	size_t ring_B;
	uint32_t mask, cqe;
	_Atomic uint32_t head; /* release by the engine, acquire by the poller */
	_Atomic uint32_t tail; /* release by the poller, acquire by the engine */
	uint32_t armed;	       /* engine: 0, 1 = any, 2 = solicited */
	bool overrun;
	_Atomic uint32_t users;
	_Atomic uint32_t polls; /* relaxed: a lost count does not matter */
	struct hca_cqe last;	/* polling: copy handed out */
};

/* A READ or atomic that the responder works on or keeps for duplicates. */
struct read_res {
	uint64_t va;
	uint64_t value; /* atomic: original value */
	uint32_t rkey, length, psn, psn_count;
	uint32_t off_B; /* sent so far */
	int64_t arrive_ps;
	bool atomic, used;
	bool started; /* at least one packet of the response is out (a READ may be empty) */
};

enum {
	NAK_NONE = 0,
	NAK_PSN_SEQ = 0x60,
	NAK_INVALID_REQ = 0x61,
	NAK_REM_ACCESS = 0x62,
	NAK_REM_OP = 0x63,
	NAK_NO_BY_REF = 0x7e /* ours: pull the payload through the ring instead */
};

struct responder {
	/* epsn and msn live in the shared slot, where a direct writer moves them too */
	bool nak_sent; /* for the current gap; cleared when the expected packet comes */
	bool in_msg;
	bool have_rqe;
	uint8_t op;   /* of the message under way */
	uint32_t rqe; /* index of the receive in use */
	uint64_t va;  /* WRITE: start of the message */
	uint32_t rkey, length;
	uint32_t off_B;
	struct read_res *res;		      /* ring of max_dest_rd_atomic */
	uint32_t num_res, res_head, res_next; /* next free (free-running), next to send */
	/* owed */
	bool ack;	/* an acknowledgement of everything before epsn */
	int64_t ack_ps; /* modelled arrival of the packet it answers */
	uint8_t nak;	/* NAK_*; sent once */
	bool rnr;
	uint32_t nak_psn;
};

struct hca_qp {
	struct hca *h;
	struct engine *e;
	const struct port_time *pt; /* of its port */
	struct hca_pd *pd;
	struct hca_cq *send_cq, *recv_cq;
	void *user;
	uint32_t qpn;
	enum qp_kind kind;
	_Atomic uint32_t state; /* enum ibv_qp_state; written under engine + queue locks, read anywhere (relaxed) */
	struct seg_qp *slot;
	struct qp_grant grant;
	bool sq_sig_all;
	struct send_queue sq;
	struct recv_queue rq;
	/* builder */
	int wr_error;
	struct wqe *wr_open; /* begun and not yet closed */
	uint32_t wr_count;   /* work requests of this call */
	uint32_t build_start, units_start;
	/* engine: requester */
	uint32_t next_psn; /* of the next new packet */
	uint32_t una_psn;  /* oldest not acknowledged */
	uint32_t rd_out;   /* READs and atomics sent and not completed */
	uint32_t retry_left, rnr_left;
	uint32_t rnr_psn; /* that the last RNR NAK named */
	uint32_t chased;  /* sq.una + 1 of the response asked for again, 0 = none */
	bool resp_gap;	  /* a missing READ response was asked for again */
	uint32_t progress, seen_progress;
	uint64_t deadline_ns, rnr_until_ns;   /* 0 = none */
	int64_t floor_ps;		      /* nothing leaves before this (RNR and retry waits) */
	int64_t last_arrive_ps, last_done_ps; /* of all sent; of all completed: neither goes back */
	int64_t *rd_done_ps; /* when the last max_rd_atomic READs and atomics completed, by running number */
	int64_t rd_last_ps;  /* latest of them */
	uint32_t rd_depth, rd_seq;
	bool spoiled;	     /* quirk_reset_twice has struck */
	bool drain_event;    /* SQD: raise SQ_DRAINED once nothing is outstanding */
	bool unanswered;     /* sent again at the last timeout, no progress since */
	bool lost;	     /* something was dropped on the way, so the timer counts */
	bool no_by_ref;	     /* the peer cannot read our memory */
	bool stalled;	     /* ring full */
	_Atomic bool queued; /* on the work stack */
	bool on_resume, on_owe, on_active;
	struct hca_qp *work_next, *resume_next, *owe_next, *active_next, *active_prev;
	struct responder r;
	/* peer */
	struct seg_qp *peer;
	uint64_t peer_owner;
	struct wire_tx *tx;
	/* time of the last length sent: most programs repeat one */
	uint32_t cached_B;
	bool cached_gather;
	uint32_t cached_ext_B;
	int64_t cached_tx_ps;
	/* attributes as set by modify */
	struct ibv_qp_attr attr;
	uint32_t gid_type;
	uint32_t mtu_B, mtu_shift;
};

/* The acknowledgement timeout (InfiniBand specification 9.7.6.1.3). */
static inline uint64_t qp_timeout_ns(const struct hca_qp *qp)
{
	return UINT64_C(4096) << (qp->attr.timeout & 31);
}

/* ---- engine.c ---- */
extern __thread int64_t thread_clock_ps __attribute__((tls_model("initial-exec")));

struct engine *engine_get(const char *dir, const struct settings *set, char *err, size_t err_size);
void engine_put(struct engine *e);
/* Takes the engine if it is free, runs a bounded turn and whatever was queued meanwhile. */
void engine_try(struct engine *e);
/* Runs this queue pair's requester now, or leaves it on the work list when the engine is busy. */
void engine_post(struct engine *e, struct hca_qp *qp);
void engine_enter(struct engine *e);
void engine_notify(struct engine *e); /* tells the receivers now: before anything long */
/* Leaves the engine and runs what posters queued while it was held. */
void engine_leave(struct engine *e);
void engine_turn(struct engine *e, unsigned budget); /* engine lock held */
uint64_t clock_ns(void);

static inline bool rnr_is_due(struct engine *e)
{
	return atomic_load_explicit(&e->rnr_waits, memory_order_relaxed) &&
	       clock_ns() >= atomic_load_explicit(&e->rnr_next_ns, memory_order_relaxed);
}

static inline bool engine_has_work(struct engine *e)
{
	return wire_has_work(e->node) || atomic_load_explicit(&e->work, memory_order_relaxed) ||
	       atomic_load_explicit(&e->more, memory_order_relaxed) || unlikely(rnr_is_due(e));
}

/* The following run under the engine lock. */
struct hca_qp *engine_qp(struct engine *e, uint32_t qpn);
int engine_qp_set(struct engine *e, uint32_t qpn, struct hca_qp *qp);
void engine_resume_later(struct hca_qp *qp, bool waits_for_ring);
void engine_owe(struct hca_qp *qp);
void engine_activate(struct hca_qp *qp);
void engine_deactivate(struct hca_qp *qp);
void engine_forget(struct hca_qp *qp); /* off every list */
/* Header of a packet to the connected peer: everything but payload, immediate and time. */
void packet_head(const struct hca_qp *qp, struct pkt *p, enum pkt_op op, unsigned flags, uint32_t psn);
void engine_publish(struct engine *e, struct hca_qp *qp, struct pkt *p, uint64_t wr_id);

/* ---- agent.c ---- */
int agent_start(struct engine *e);
void agent_stop(struct engine *e);
void agent_nudge(struct engine *e); /* wake it if it sleeps without a limit */
void timers_run(struct engine *e, uint64_t now_ns);

/* ---- direct.c ---- */
/* Tries the whole message on the direct path; false: nothing was changed, it takes the ring. */
bool direct_run(struct hca_qp *qp, struct wqe *w);

/* ---- requester.c, completer.c ---- */
/* Last bit of the message (or of the request of a READ or atomic) reaches the far port. Moves the queue pair's clock.
 */
int64_t requester_depart(struct hca_qp *qp, struct wqe *w, bool response);
/* First data of a by-reference payload is at hand. */
int64_t requester_gathered_ps(const struct hca_qp *qp, const struct wqe *w);
/* Largest payload of the next record: the path MTU, or whole packets up to a limit where nothing looks at them one by
 * one. The ring is open. */
uint32_t piece_max_B(const struct hca_qp *qp);
void requester_run(struct hca_qp *qp);
bool requester_resolve(struct hca_qp *qp); /* finds the peer's slot and ring; false = not deliverable now */
void requester_go_back(struct hca_qp *qp, uint32_t psn);
uint32_t requester_oldest(const struct hca_qp *qp); /* PSN from which everything still needed is sent again */
void completer_ack(struct hca_qp *qp, const struct pkt *p);
void completer_nak(struct hca_qp *qp, const struct pkt *p);
void completer_rnr(struct hca_qp *qp, const struct pkt *p);
void completer_read(struct hca_qp *qp, struct pkt *p);
void completer_atomic(struct hca_qp *qp, struct pkt *p);
void completer_timeout(struct hca_qp *qp, uint64_t now_ns);
/* When the adapter makes the completion of a READ or atomic whose response arrives then. */
int64_t responded_ps(const struct hca_qp *qp, const struct wqe *w, int64_t arrive_ps);
/* Completes the oldest work request; generated_ps is when the adapter made the CQE. */
void complete_one(struct hca_qp *qp, enum ibv_wc_status status, uint32_t vendor_err, int64_t generated_ps);
/* The oldest work request fails: error completion, queue pair to ERR, everything else is flushed. */
void requester_fail(struct hca_qp *qp, enum ibv_wc_status status, uint32_t vendor_err, int64_t generated_ps);
void completer_settle(struct hca_qp *qp); /* completes what was found bad before sending, once its turn has come */

/* ---- responder.c ---- */
void responder_request(struct hca_qp *qp, struct pkt *p);
bool responder_pay(struct hca_qp *qp); /* sends what is owed; false = ring full, try again later */
void responder_reset(struct hca_qp *qp);

/* ---- qp.c ---- */
const char *qp_state_name(enum ibv_qp_state state);
void qp_to_error(struct hca_qp *qp); /* engine lock held: state ERR, receive side closed, queues flushed */
void qp_flush(struct hca_qp *qp);
void qp_event(struct hca_qp *qp, enum ibv_event_type type);

/* ---- memory.c ---- */
/* Range of a local or remote access; NULL if refused, then *why names the reason. */
struct hca_mr *mr_find(struct engine *e, uint32_t key);
enum mr_fault { MR_OK, MR_NO_KEY, MR_WRONG_PD, MR_OUT_OF_RANGE, MR_NO_RIGHT };
enum mr_fault mr_check(struct engine *e, const struct hca_pd *pd, uint32_t key, uint64_t va, uint64_t len,
		       uint32_t access, char **mem);
const char *mr_fault_name(enum mr_fault f);
/* Copies between a list of SGEs and a buffer, from byte `off`; access as in mr_check. */
enum mr_fault sges_read(struct hca_qp *qp, const struct ibv_sge *sge, uint32_t num, uint64_t off, void *dst,
			size_t len);
enum mr_fault sges_write(struct hca_qp *qp, const struct ibv_sge *sge, uint32_t num, uint64_t off, const void *src,
			 size_t len);
/* The same as memory pieces: fills at most max iovecs for [off, off + len); number or -1 with *fault. */
int sges_iov(struct hca_qp *qp, const struct ibv_sge *sge, uint32_t num, uint64_t off, uint64_t len, uint32_t access,
	     struct iovec *iov, int max, enum mr_fault *fault);

/* ---- cq.c ---- */
static inline bool cq_looks_empty(const struct hca_cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed) ==
	       atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

void cq_push(struct hca_cq *cq, const struct hca_cqe *cqe); /* engine lock held */
void cq_forget_qp(struct hca_cq *cq, struct hca_qp *qp);    /* engine and polling lock held */
/* The polling locks of a queue pair's completion queues, which may be one. */
void cqs_lock(struct hca_cq *a, struct hca_cq *b);
void cqs_unlock(struct hca_cq *a, struct hca_cq *b);

/* ---- counters ---- */
/* One writer at a time for each counter: the poster under the queue lock or the engine under its own. */
static inline void count(struct hca_qp *qp, enum counter c, uint64_t n)
{
	_Atomic uint64_t *cell = &qp->slot->counters[c];
	atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + n, memory_order_relaxed);
}

/* For counters with several writers. */
static inline void count_shared(struct seg_qp *slot, enum counter c, uint64_t n)
{
	atomic_fetch_add_explicit(&slot->counters[c], n, memory_order_relaxed);
}

static inline void count_device(struct hca *h, enum counter c, uint64_t n)
{
	atomic_fetch_add_explicit(&h->seg->counters[c], n, memory_order_relaxed);
}

/*
 * A work request passes a stage: moves the stage's counter by n and, at log level 3, says so with the modelled time at
 * which the stage is left. The one place where counters, trace and (later) faults meet the stage table.
 */
void stage_say(const struct hca_qp *qp, enum stage stage, uint64_t wr_id, int64_t left_ps);

static inline void stage_passed(struct hca_qp *qp, enum stage stage, uint64_t n, uint64_t wr_id, int64_t left_ps)
{
	if (n && sim_stages[stage].counter != CTR_COUNT)
		count(qp, sim_stages[stage].counter, n);
	if (unlikely(sim_log_level >= LOG_PACKET))
		stage_say(qp, stage, wr_id, left_ps);
}

static inline enum ibv_qp_state qp_state(const struct hca_qp *qp)
{
	return (enum ibv_qp_state)atomic_load_explicit(&qp->state, memory_order_relaxed);
}
