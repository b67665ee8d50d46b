/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face of sim/model/: what an adapter is and what things cost. Pure functions of data; no shared memory, no
 * threads, no I/O but reading a profile. Anyone may call it.
 */
#pragma once

#include "sim/base.h"
#include "sim/model/op.h"
#include "sim/model/profile.h"

/*
 * Profiles with mlx5_env=1: applies MLX5_SHUT_UP_BF (set and not "0": no BlueFlame) and MLX5_POST_SEND_PREFER_BF
 * ("0": only inline WQEs are pushed) of the environment to push_buf_B and push_non_inline. Others are left alone.
 * Called once by whoever opens a device, after profile_load.
 */
void model_apply_env(struct profile *p);

/* ---- negotiation: what ibv_create_qp grants ------------------------------------------------------------- */

enum qp_kind { QP_RC, QP_UC, QP_UD, QP_XRC_SEND, QP_XRC_RECV, QP_KINDS };
const char *qp_kind_name(enum qp_kind kind); /* "RC", ... */

struct qp_caps {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct qp_request {
	enum qp_kind kind;
	struct qp_caps caps;
	uint64_t send_ops; /* IBV_QP_EX_WITH_* mask; 0 = plain ibv_create_qp: everything the kind can do */
	bool has_srq;	   /* max_recv_* are ignored then */
	bool extended;	   /* ibv_create_qp_ex: some providers edit the caller's structure in place */
};

struct qp_grant {
	struct qp_caps caps;	      /* written back to the caller */
	int err;		      /* 0, or the errno of the refusal */
	bool errno_untouched;	      /* refused: NULL with errno left as it was (bnxt_re, mthca) */
	bool caps_edited;	      /* refused: the caller's caps are overwritten with caps all the same */
	const char *why;	      /* refused: the limit that refused, a static string ("max_inline_data") */
	uint32_t asked, allowed;      /* refused: the figures of that limit */
	uint32_t wqe_overhead_B;      /* bytes of a WQE before SGEs or inline data, as the sizing rule counts them */
	uint32_t sq_units;	      /* send-queue room: work requests or basic blocks, see profile key sq_counts */
	uint32_t inline_limit_post_B; /* what post_send compares with: the grant or the family's constant */
	uint32_t
	    sge_limit_post; /* max SGEs a posted work request may have (mlx5: limit -1 below RTS is the state check) */
};

/* Fills *grant; returns grant->err (positive errno or 0). */
int model_negotiate(const struct profile *p, const struct qp_request *req, struct qp_grant *grant);

/* ---- WQE arithmetic ---------------------------------------------------------------------------------------- */

/* One work request, as far as its size and its way to the adapter depend on it. */
struct wqe_shape {
	enum qp_kind kind;
	enum sim_op op;
	bool is_inline;
	uint32_t bytes; /* payload, sum of the SGEs */
	uint32_t num_sge;
	uint32_t posted_with; /* work requests of the same call, this one included */
	bool sq_idle;	      /* nothing of the queue is outstanding (irdma, qedr push rules) */
};

struct wqe_plan {
	uint32_t wqe_B;	 /* bytes of the WQE in the family's layout */
	uint32_t blocks; /* basic blocks it takes in the send queue */
	uint32_t units;	 /* what to take from qp_grant.sq_units: 1, or blocks */
	bool push;	 /* written through the BlueFlame / push / LLQ buffer: the adapter does not fetch the WQE */
};

/* Sizes and push decision of one work request. Pure and fast: called for every post. */
void model_wqe_plan(const struct profile *p, const struct wqe_shape *shape, struct wqe_plan *plan);

/* ---- queue-pair state machine -------------------------------------------------------------------------------- */

/*
 * Is the transition from -> to with this IBV_QP_* mask allowed for the kind (InfiniBand specification, tables of
 * modify-QP attributes by transition)? 0 or EINVAL; *why gets a static string that names the missing or surplus
 * attribute bit or the forbidden transition. iWARP-type profiles accept the same masks.
 */
int model_qp_transition(const struct profile *p, enum qp_kind kind, enum ibv_qp_state from, enum ibv_qp_state to,
			int attr_mask, const char **why);

/* ---- time: closed forms of an idle system, all integer picoseconds ------------------------------------------- */

/* Figures of a profile's [timing] in picoseconds; made once by model_timing(). */
struct timing {
	int64_t cpu_post, cpu_copy_64B, mmio_doorbell, wc_store_64B, cpu_poll, cpu_empty_poll, cpu_event;
	int64_t pcie_mmio, pcie_read_rtt, pcie_write;
	int64_t dma_op, nic_tx, nic_rx, nic_rx_occ, cqe_write, ack_turn, atomic_exec, recv_wqe, nic_multi_pkt;
	int64_t wire, switch_hop;
	uint32_t switch_hops, dma_chunk_B, pkt_ovh_B, mtu_B, bf_buf_B, block_B, wqe_prefetch_depth;
	uint32_t min_pkt_B;	       /* shortest packet on the wire, preamble and gap included; 0 = no minimum */
	uint64_t pcie_MBps, link_MBps; /* 0 = unlimited */
	bool guess;		       /* the adapter has no figures of its own */
};

void model_timing(const struct profile *p, struct timing *t);

/* bytes at MBps, rounded to the nearest picosecond; 0 MBps = 0 ps. */
int64_t time_bytes_ps(uint64_t bytes, uint64_t MBps);

/* Wire time of one message of n payload bytes in packets of the path MTU, `ext_B` extra header bytes in the first. */
int64_t time_wire_ps(const struct timing *t, uint64_t n, uint32_t mtu_B, uint32_t ext_B);

/* CPU time of posting one work request (copies and stores included). last_of_list: this one rings the doorbell. */
int64_t time_post_cpu_ps(const struct timing *t, const struct wqe_plan *plan, bool is_inline, uint32_t bytes,
			 bool last_of_list);

/*
 * From the thread's clock after posting to "the adapter has the WQE" of a list of `count` work requests of this plan;
 * index = place in the list from 0. WQEs are fetched wqe_prefetch_depth at a time.
 */
int64_t time_have_listed_ps(const struct timing *t, const struct wqe_plan *plan, uint32_t index, uint32_t count);

/* The same for the last of a list of index + 1 work requests; index 0: a lone one. */
int64_t time_have_wqe_ps(const struct timing *t, const struct wqe_plan *plan, uint32_t index);

/* Bytes of extended transport headers of a request (first packet) and of its response or acknowledgement. */
uint32_t time_request_ext_B(enum qp_kind kind, enum sim_op op);
uint32_t time_response_ext_B(enum sim_op op);

/* From "has the WQE" to "last bit left the port": gather (unless inline), nic_tx, pipe up to the link. */
int64_t time_tx_ps(const struct timing *t, uint32_t bytes, bool gather, uint32_t mtu_B, uint32_t ext_B);

/* Port to port. */
int64_t time_net_ps(const struct timing *t);

/* From "last bit reached the far port" to "data visible in memory" (WRITE), plus recv_wqe + cqe_write for a CQE. */
int64_t time_rx_write_ps(const struct timing *t, uint32_t bytes);

/* From "last bit of the acknowledgement arrived" to "CQE visible"; *generated gets the time the CQE was made. */
int64_t time_cqe_ps(const struct timing *t, int64_t *generated);

/* Whole closed forms, oracles of the tests and the model of `simhca lat`: one idle message. */
struct time_msg {
	enum sim_op op;
	enum qp_kind kind;
	uint32_t bytes, mtu_B;
	bool is_inline;
	bool kernel; /* kernel consumer: never pushes */
};
int64_t time_one_way_ps(const struct profile *p, const struct time_msg *m);	      /* post to far poll */
int64_t time_sender_completion_ps(const struct profile *p, const struct time_msg *m); /* post to own poll */

/* Picoseconds to ticks of the profile's hca_core_clock_khz. */
uint64_t time_ticks(const struct profile *p, int64_t ps);
