/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face of the adapter at work, used by provider/ and tools/. Speaks the public verbs types.
 *
 * Every function that can fail returns 0 or a positive errno, unless it says otherwise; hca_post_* return what the
 * adapter's driver returns, sign included. All may be called from any thread. In a forked child, posting, polling
 * and creating on inherited objects give EIO, and destroy calls only free local memory.
 *
 * Limits come from the profile; each refusal is counted and, at log level 1, explained in one line.
 */
#pragma once

#include "sim/base.h"
#include "sim/fabric/fabric.h"
#include "sim/model/model.h"
#include "sim/model/settings.h"
#include <infiniband/verbs.h>

struct hca;    /* an opened device */
struct hca_pd; /* protection domain */
struct hca_mr; /* memory region */
struct hca_cq; /* completion queue */
struct hca_qp; /* queue pair */

/*
 * Calls back into the user of the adapter, made under the engine lock from any thread of the process, the agent
 * included: must not block and must not call back into this header.
 */
struct hca_callbacks {
	void (*comp_event)(void *cq_user);
	/* object_user: the queue pair's or completion queue's user pointer; NULL for port and device events. */
	void (*async_event)(void *hca_user, enum ibv_event_type type, void *object_user, uint32_t port);
};

/* ---- device ---- */

/* Opens a device of the fabric in folder `dir` by name. ENODEV, EPROTO, ENOMEM, EUSERS, ENOSPC; one line in err. */
int hca_open(const char *dir, const char *device, const struct settings *set, const struct hca_callbacks *cb,
	     void *user, struct hca **out, char *err, size_t err_size);
/* EBUSY while objects are left (nothing is closed then). */
int hca_close(struct hca *h);

const struct profile *hca_profile(const struct hca *h);
struct fabric *hca_fabric(const struct hca *h);
uint32_t hca_device_index(const struct hca *h);
bool hca_forked(const struct hca *h);

/* Fills all that the profile knows; the rest is zero. */
void hca_query_device(const struct hca *h, struct ibv_device_attr_ex *attr);
/* Fills the fields of the first 52 bytes (up to and including flags, port_cap_flags2). EINVAL: no such port. */
int hca_query_port(const struct hca *h, uint32_t port, struct ibv_port_attr *attr);
/* GID table entry; type GID_NONE = empty. EINVAL: no such port or index. */
int hca_query_gid(const struct hca *h, uint32_t port, uint32_t index, struct seg_gid *gid);
/* The calling thread's modelled clock. */
int64_t hca_now_ps(void);

/* ---- protection domains and memory ---- */

int hca_pd_alloc(struct hca *h, struct hca_pd **pd);
int hca_pd_free(struct hca_pd *pd); /* EBUSY while used */

/* access: IBV_ACCESS_*; optional-range bits are ignored. EINVAL, ENOMEM (limits). */
int hca_mr_reg(struct hca_pd *pd, void *addr, uint64_t length, uint64_t iova, int access, struct hca_mr **mr);
int hca_mr_dereg(struct hca_mr *mr);
uint32_t hca_mr_lkey(const struct hca_mr *mr);
uint32_t hca_mr_rkey(const struct hca_mr *mr);

/* ---- completion queues ---- */

struct hca_cqe {
	uint64_t wr_id;
	int64_t generated_ps; /* what a hardware completion timestamp reports */
	int64_t visible_ps;   /* when a poll can see it */
	struct hca_qp *qp;    /* NULL: the queue pair is gone, skip */
	uint32_t status;      /* enum ibv_wc_status */
	uint32_t opcode;      /* enum ibv_wc_opcode */
	uint32_t vendor_err, byte_len, imm, qp_num, src_qp;
	uint32_t wc_flags; /* enum ibv_wc_flags */
	uint32_t frees;	   /* queue entries it gives back when polled */
	uint8_t is_recv, solicited, sl, pad;
};

/* flags: bit 0 = polled by one thread only. *cqe in: asked, out: granted. EINVAL: 0 or above the limit. */
int hca_cq_create(struct hca *h, uint32_t *cqe, unsigned flags, void *user, struct hca_cq **cq);
int hca_cq_destroy(struct hca_cq *cq); /* EBUSY while a queue pair uses it */
/* EINVAL: below the entries now in it, or out of range. *cqe as above. */
int hca_cq_resize(struct hca_cq *cq, uint32_t *cqe);
/* As ibv_poll_cq: number of completions, 0, or a negative errno. */
int hca_cq_poll(struct hca_cq *cq, int n, struct ibv_wc *wc);
/*
 * Extended polling. start: locks the queue and takes the first completion, 0 or ENOENT (not locked then). next: 0 or
 * ENOENT. end: unlocks. *cqe is a copy that stays valid until the next call.
 */
int hca_cq_start_poll(struct hca_cq *cq, const struct hca_cqe **cqe);
int hca_cq_next_poll(struct hca_cq *cq, const struct hca_cqe **cqe);
void hca_cq_end_poll(struct hca_cq *cq);
/* As ibv_req_notify_cq. */
int hca_cq_arm(struct hca_cq *cq, bool solicited_only);
/* visible_ps of the completion returned last. */
int64_t hca_cq_last_ps(const struct hca_cq *cq);

/* ---- queue pairs ---- */

struct hca_qp_init {
	struct hca_pd *pd;
	struct hca_cq *send_cq, *recv_cq;
	enum qp_kind kind;
	struct qp_caps caps;
	uint64_t send_ops; /* IBV_QP_EX_WITH_*; 0 = none declared */
	bool extended;	   /* ibv_create_qp_ex */
	bool sq_sig_all;
	void *user;
};

/*
 * grant is always filled: the granted capabilities, or why not (grant->err, errno_untouched, caps_edited). Kinds that
 * the adapter offers but this engine does not carry yet: EOPNOTSUPP.
 */
int hca_qp_create(struct hca *h, const struct hca_qp_init *init, struct qp_grant *grant, struct hca_qp **qp);
int hca_qp_destroy(struct hca_qp *qp);
uint32_t hca_qp_num(const struct hca_qp *qp);
enum ibv_qp_state hca_qp_state(const struct hca_qp *qp);
int hca_qp_modify(struct hca_qp *qp, const struct ibv_qp_attr *attr, int attr_mask);
/* All attributes and the granted capabilities in init->cap; the caller fills the pointers of init. */
int hca_qp_query(struct hca_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/* ---- posting ---- */

int hca_post_send(struct hca_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int hca_post_recv(struct hca_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/*
 * The builder behind ibv_wr_*: start takes the send queue's lock, begin opens a work request, the setters fill it,
 * complete posts all (0) or rolls back all (the first error), abort rolls back. Errors are remembered until then.
 */
void hca_wr_start(struct hca_qp *qp);
void hca_wr_begin(struct hca_qp *qp, uint64_t wr_id, unsigned send_flags, enum sim_op op);
void hca_wr_remote(struct hca_qp *qp, uint32_t rkey, uint64_t remote_addr);
void hca_wr_imm(struct hca_qp *qp, uint32_t imm_or_key);
void hca_wr_atomic(struct hca_qp *qp, uint64_t compare_or_add, uint64_t swap);
void hca_wr_sges(struct hca_qp *qp, size_t num_sge, const struct ibv_sge *sg_list);
void hca_wr_inline(struct hca_qp *qp, size_t num_buf, const struct ibv_data_buf *bufs);
int hca_wr_complete(struct hca_qp *qp);
void hca_wr_abort(struct hca_qp *qp);
