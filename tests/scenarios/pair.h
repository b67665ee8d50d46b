/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connected RC queue pairs in plain verbs, for every test that needs traffic. Anyone in tests/ may call it.
 *
 * A pair has two sides, A and B, each with its own context, protection domain, two completion queues, one buffer
 * registered with all remote rights and one queue pair. Side A lives in the calling process. Side B lives there too,
 * or, when SIMHCA_TEST_PROCS is 2, in a child made before any device is opened; the calls below work on both, so a
 * test is written once and must come out the same.
 *
 * What a test cannot go on without stops it: the line goes to stderr and the process aborts. What a test is about is
 * returned.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Stops the process with file, line and errno unless `cond` holds. */
#define must(cond)                                                                                                     \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			pair_die(__FILE__, __LINE__, #cond);                                                           \
	} while (0)
void pair_die(const char *file, int line, const char *what) __attribute__((noreturn));

enum { PAIR_BUF_B = 64 * 1024, PAIR_PEEK_MAX_B = 4096, PAIR_EXTRA_MRS = 4, PAIR_POLL_MS = 2000 };

/* How long a test waits for something that must come, in ms of the wall clock: ms, stretched by SIMHCA_TEST_SLOW. */
int patience_ms(int ms);
/*
 * An acknowledgement timeout for a wire that loses packets: short, because the last packet of a burst gets lost often
 * (16.8 ms), but eight of them must be longer than the other process may have to wait for a processor.
 */
uint8_t lossy_timeout(void);
/* Monotonic wall clock. */
int64_t wall_ns(void);

struct pair_attr {
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	bool events;	 /* completion channel on the receive queue's CQ */
	bool timestamps; /* CQs made with ibv_create_cq_ex, completions carry model time */
	int cqe;
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
	int gid_index[2]; /* of A and B; -1 = RoCEv2 IPv4 where there is one */
};

/* The usual pair: inline I, depth N, one SGE each way. */
struct pair_attr pair_attr(uint32_t inline_B, uint32_t depth);

/* What the other side has to know. */
struct side_info {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, psn, rkey, lkey;
	uint16_t lid;
	uint8_t link_layer, gid_index;
	struct ibv_qp_cap cap; /* granted */
	bool atomics;
};

struct side {
	struct side_info info;
	struct side_info peer;
	struct pair_attr attr;
	int index; /* 0 = A, 1 = B */
	int sock;  /* >= 0: the side lives in process `pid` at the other end */
	pid_t pid;
	/* Local sides only. */
	struct ibv_context *ctx;
	struct ibv_pd *pd, *other_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_cq_ex *scq_ex, *rcq_ex;
	struct ibv_mr *mr, *extra[PAIR_EXTRA_MRS];
	struct ibv_qp *qp;
	unsigned char *buf;
	uint64_t clock_khz;
};

struct pair {
	struct side a, b;
};

/* One work request of one SGE, or none. */
struct op {
	enum ibv_wr_opcode code;
	unsigned flags;
	uint64_t wr_id;
	uint32_t off, len; /* in the side's buffer */
	bool no_sge;
	uint32_t lkey_add; /* added to the right lkey */
	uint64_t raddr;
	uint32_t rkey, imm;
	uint64_t compare_add, swap;
};

/* A completion; at_ps is model time and only there with attr.timestamps. */
struct done {
	struct ibv_wc wc;
	int64_t at_ps;
};

enum queue { SQ, RQ };

/* Opens both sides and connects them to RTS. */
void pair_make(struct pair *p, const struct pair_attr *attr);
/* The same without the connecting: both queue pairs are in RESET. */
void pair_open(struct pair *p, const struct pair_attr *attr);
void pair_free(struct pair *p);
/* Does B live in another process? */
bool pair_split(void);

/* Opens device `index` of the list, waiting for nothing. */
struct ibv_context *open_device(int index);
/* Index of the RoCEv2 IPv4 GID, or 0. */
int default_gid_index(struct ibv_context *ctx);
/* A counter of the device's port 1 by its name, read from the emulated sysfs. */
uint64_t device_counter(struct ibv_context *ctx, const char *name);
/* All access rights that the device has. */
unsigned all_access(struct ibv_context *ctx);

/* Names the queue pair that side_rtr connects to; pair_open has named the other side's. */
void side_meet(struct side *s, const struct side_info *peer);

/* Calls on a side. The int ones give what the verb returned; errno travels with it. */
int side_init(struct side *s);
int side_rtr(struct side *s);
int side_rts(struct side *s);
int side_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len);
int side_recv_lkey(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len, uint32_t lkey_add);
int side_post(struct side *s, const struct op *op);
/* 1 = got one, 0 = none within the time, negative = error. */
int side_wc(struct side *s, enum queue q, struct done *d, int timeout_ms);
enum ibv_qp_state side_state(struct side *s);
void side_peek(struct side *s, uint32_t off, void *to, uint32_t len);
void side_poke(struct side *s, uint32_t off, const void *from, uint32_t len);
void side_fill(struct side *s, uint32_t off, uint8_t value, uint32_t len);
/* Is every byte of the range `value`? */
bool side_all(struct side *s, uint32_t off, uint8_t value, uint32_t len);
/* Gets and acknowledges the next async event; -1 = none within the time. */
int side_event(struct side *s, int timeout_ms);
/* Registers a part of the buffer once more, in another PD if asked; gives the rkey. */
uint32_t side_reg(struct side *s, uint32_t off, uint32_t len, unsigned access, bool other_pd);
int side_destroy_qp(struct side *s);
/* One more RC queue pair of a local side, receiving into that CQ; in RESET, and the caller's to destroy. */
struct ibv_qp *side_qp(struct side *s, struct ibv_cq *recv_cq);
/* The model clock of the side's thread (ibv_query_rt_values_ex). */
int64_t side_now_ps(struct side *s);

/* The same for a local side only, without a struct op in between. */
int raw_post(struct side *s, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int raw_poll(struct side *s, enum queue q, struct done *d);
