/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the provider: verbs objects laid over the objects of sim/hca/. Each begins with, or contains, the
 * library's structure, and carries the adapter's handle. Only files of provider/ include this.
 *
 * provider.c    the list of verbs; finding devices; the constructor
 * context.c     opening, closing and querying a device
 * objects.c     protection domains, memory regions, completion queues, queue pairs
 * absent.c      verbs that are not emulated yet: they say so
 * dataplane.c   posting and polling
 * events.c      completion channels and asynchronous events
 *
 * One lock, provider_lock, guards what is not the adapter's: the lists of contexts and objects and everything about
 * events. It is a leaf: nothing is called under it that takes another lock.
 */
#pragma once

#include "provider/pabi.h"
#include "sim/hca/hca.h"
#include <pthread.h>

struct p_channel; /* events.c: a completion channel */
struct p_cq;

extern pthread_mutex_t provider_lock;

/* ---- process ---- */

/* Settings of the environment, read once by the constructor. */
extern const struct settings *provider_settings;
extern const struct verbs_device_ops simhca_device_ops;
extern const struct verbs_context_ops simhca_context_ops;
extern const struct verbs_context_ops simhca_absent_ops; /* disjoint from the one above */

/* ---- device ---- */

struct p_device {
	struct verbs_device vdev;
	struct p_device *next;
	char fabric[SETTING_PATH_MAX]; /* folder, from the marker file */
	char name[FAB_NAME_MAX];       /* in the fabric */
};

static inline struct p_device *to_device(struct ibv_device *d)
{
	return CONTAINER_OF(d, struct p_device, vdev.device);
}

/* ---- context ---- */

enum object_kind { OBJ_QP, OBJ_CQ, OBJ_MR, OBJ_PD, OBJ_KINDS }; /* in the order in which a close destroys them */

/* Every object is on its context's list: a close frees what the program left, an import finds it by handle. */
struct p_object {
	struct p_object *next, **link; /* link NULL: abandoned by a close, its adapter part is gone */
	struct p_context *ctx;
	uint32_t handle;
};

/* An opened adapter: one a context, except that an imported context shares the one it was imported from. */
struct p_hca {
	struct hca *h;
	struct p_hca *next; /* of the process, newest first */
	struct p_context *contexts;
	unsigned int users;
	unsigned int life;				   /* provider_life at its birth */
	char fabric[SETTING_PATH_MAX], name[FAB_NAME_MAX]; /* of the device */
};

struct p_async_overflow;

struct p_context {
	struct p_hca *hca;
	struct p_context *next; /* of the same p_hca */
	struct p_object *objects[OBJ_KINDS];
	unsigned int life; /* provider_life at its birth */
	/* events.c */
	int async_read, async_write; /* -1: none yet */
	struct p_async_overflow *overflow, **overflow_end;
	_Atomic bool async_overflows; /* the list is not empty; see put_or_wait */
	/* what turns modelled time into wall-clock time */
	int64_t wall_offset_ns;
	struct verbs_context vctx;
};

/* Counts the generations of forks: an object of an older one belongs to the parent. */
extern unsigned int provider_life;

static inline struct p_context *to_context(struct ibv_context *c)
{
	return CONTAINER_OF(c, struct p_context, vctx.context);
}

/* Name of the adapter's profile, for messages. */
static inline const char *adapter_name(struct ibv_context *c)
{
	return hca_profile(to_context(c)->hca->h)->name;
}

static inline bool inherited(struct ibv_context *c)
{
	return to_context(c)->life != provider_life;
}

struct verbs_context *simhca_alloc_context(struct ibv_device *dev, int cmd_fd, void *private_data);
struct verbs_context *simhca_import_context(struct ibv_device *dev, int cmd_fd);
void simhca_free_context(struct ibv_context *ctx);
int simhca_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size);
int simhca_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr);
int simhca_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values);
/* slot_calls */
int context_query_gid(void *ctx, uint32_t port, uint32_t index, struct ib_uverbs_gid_entry *entry);

/* ---- objects ---- */

struct p_pd {
	struct ibv_pd pd;
	struct hca_pd *hpd;
	struct p_object obj;
	bool imported; /* hpd is another p_pd's */
};

struct p_mr {
	struct verbs_mr vmr;
	struct hca_mr *hmr;
	struct p_object obj;
};

struct p_cq {
	struct verbs_cq vcq;
	struct hca_cq *hcq;
	const struct hca_cqe *cur; /* extended polling: the completion that the readers read */
	struct p_object obj;
	/* events.c */
	struct p_channel *channel;
	struct p_cq *overflow_next; /* on the channel's list while num_overflow > 0 */
	uint32_t num_overflow;	    /* events that the pipe had no room for */
	uint32_t comp_reported;	    /* events put into the pipe and not taken out by us */
	uint32_t async_reported;
};

struct p_qp {
	struct verbs_qp vqp;
	struct hca_qp *hqp;
	struct p_object obj;
	bool sq_sig_all;
	int wr_error; /* builder: an operation that this adapter lacks */
	uint32_t async_reported;
};

static inline struct p_pd *to_pd(struct ibv_pd *pd)
{
	return CONTAINER_OF(pd, struct p_pd, pd);
}

static inline struct p_mr *to_mr(struct verbs_mr *vmr)
{
	return CONTAINER_OF(vmr, struct p_mr, vmr);
}

static inline struct p_cq *to_cq(struct ibv_cq *cq)
{
	return CONTAINER_OF(cq, struct p_cq, vcq.cq);
}

static inline struct p_cq *ex_to_cq(struct ibv_cq_ex *cq)
{
	return CONTAINER_OF(cq, struct p_cq, vcq.cq_ex);
}

static inline struct p_qp *to_qp(struct ibv_qp *qp)
{
	return CONTAINER_OF(qp, struct p_qp, vqp.qp);
}

static inline struct p_qp *ex_to_qp(struct ibv_qp_ex *qp)
{
	return CONTAINER_OF(qp, struct p_qp, vqp.qp_ex);
}

struct ibv_pd *simhca_alloc_pd(struct ibv_context *ctx);
int simhca_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *simhca_import_pd(struct ibv_context *ctx, uint32_t handle);
void simhca_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *simhca_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
int simhca_dereg_mr(struct verbs_mr *vmr);
struct ibv_mr *simhca_import_mr(struct ibv_pd *pd, uint32_t handle);
void simhca_unimport_mr(struct ibv_mr *mr);
struct ibv_cq *simhca_create_cq(struct ibv_context *ctx, int cqe, struct ibv_comp_channel *channel, int vector);
struct ibv_cq_ex *simhca_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
int simhca_resize_cq(struct ibv_cq *cq, int cqe);
int simhca_destroy_cq(struct ibv_cq *cq);
struct ibv_qp *simhca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *simhca_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int simhca_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int simhca_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init);
int simhca_destroy_qp(struct ibv_qp *qp);
/* Frees the adapter's side of everything that the program left behind at close. */
void objects_abandon(struct p_context *ctx);

/* ---- data path ---- */

int simhca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int simhca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int simhca_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int simhca_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Sets the ibv_start_poll, ibv_wc_read_* ... of a queue. */
void cq_ex_fill(struct ibv_cq_ex *cq);
/* Sets all ibv_wr_* of a queue pair; those it was not created for make ibv_wr_complete fail. */
void qp_ex_fill(struct ibv_qp_ex *qp);
/* IBV_QP_EX_WITH_* that the functions of qp_ex_fill carry out for the type. */
uint64_t qp_ex_ops(enum ibv_qp_type type);

/* ---- events ---- */

extern const struct hca_callbacks provider_callbacks; /* user of a hca: struct p_hca; of objects: p_cq, p_qp */

/* slot_calls */
int events_create_channel(void *ctx, int *fd);
int events_create_async(void *ctx, int *fd);
void events_closing(int fd);

/* The channel behind the library's, or NULL. */
struct p_channel *events_find_channel(struct p_context *ctx, const struct ibv_comp_channel *channel);
/* Ops: an event has just been read, so there may be room for one that waits. */
void simhca_cq_event(struct ibv_cq *cq);
void simhca_async_event(struct ibv_context *ctx, struct ibv_async_event *event);
/*
 * The adapter's object is gone, so no event can come any more: takes the unread ones out of the pipes, then waits
 * until those that were read are acknowledged. Nothing to do for inherited objects.
 */
void events_forget_cq(struct p_cq *cq);
void events_forget_qp(struct p_qp *qp);
/* Closes what is left of channels and the write end of the asynchronous pipe. */
void events_close(struct p_context *ctx);
