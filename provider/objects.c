/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, memory regions, completion queues and queue pairs: the library's structures filled, the
 * adapter's objects behind them made and destroyed. What is allowed is the adapter's decision (sim/hca/), except for
 * what only the extended verbs can ask.
 */
#include "provider/provider.h"

#include <stdlib.h>
#include <string.h>

/* ---- the objects of a context ---- */

static void object_link(struct p_context *ctx, enum object_kind kind, struct p_object *obj)
{
	pthread_mutex_lock(&provider_lock);
	obj->next = ctx->objects[kind];
	obj->link = &ctx->objects[kind];
	if (obj->next)
		obj->next->link = &obj->next;
	ctx->objects[kind] = obj;
	pthread_mutex_unlock(&provider_lock);
}

static void object_add(struct p_context *ctx, enum object_kind kind, struct p_object *obj)
{
	static _Atomic uint32_t last_handle;

	obj->handle = atomic_fetch_add(&last_handle, 1) + 1;
	obj->ctx = ctx;
	object_link(ctx, kind, obj);
}

/* false: it was not there any more. */
static bool object_del(struct p_object *obj)
{
	bool there;

	pthread_mutex_lock(&provider_lock);
	there = obj->link != NULL;
	if (there) {
		*obj->link = obj->next;
		if (obj->next)
			obj->next->link = obj->link;
		obj->link = NULL;
	}
	pthread_mutex_unlock(&provider_lock);
	return there;
}

/* An object by handle in any context of the adapter. The program keeps it alive while it is imported. */
static struct p_object *object_find(struct p_hca *a, enum object_kind kind, uint32_t handle)
{
	struct p_object *obj = NULL;

	pthread_mutex_lock(&provider_lock);
	for (struct p_context *c = a->contexts; c && !obj; c = c->next)
		for (obj = c->objects[kind]; obj && obj->handle != handle; obj = obj->next)
			;
	pthread_mutex_unlock(&provider_lock);
	return obj;
}

/* The adapter's part of an object. 0 or a positive errno. */
static int destroy(enum object_kind kind, struct p_object *obj)
{
	switch (kind) {
	case OBJ_QP: return hca_qp_destroy(CONTAINER_OF(obj, struct p_qp, obj)->hqp);
	case OBJ_CQ: return hca_cq_destroy(CONTAINER_OF(obj, struct p_cq, obj)->hcq);
	case OBJ_MR: return hca_mr_dereg(CONTAINER_OF(obj, struct p_mr, obj)->hmr);
	case OBJ_PD: return hca_pd_free(CONTAINER_OF(obj, struct p_pd, obj)->hpd);
	case OBJ_KINDS: break;
	}
	return EINVAL;
}

/* Off the list first: a child that is forked in between finds no object whose adapter part is gone. */
static int object_end(enum object_kind kind, struct p_object *obj)
{
	int err;

	if (!object_del(obj))
		return 0;
	err = destroy(kind, obj);
	if (err)
		object_link(obj->ctx, kind, obj);
	return err;
}

void objects_abandon(struct p_context *ctx)
{
	for (enum object_kind kind = 0; kind < OBJ_KINDS; kind++) {
		struct p_object *next;

		for (struct p_object *obj = ctx->objects[kind]; obj; obj = next) {
			next = obj->next;
			object_del(obj);
			destroy(kind, obj);
		}
	}
}

/* calloc, with errno for the caller. */
static void *new_object(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		errno = ENOMEM;
	return p;
}

/* ---- protection domains ---- */

struct ibv_pd *simhca_alloc_pd(struct ibv_context *context)
{
	struct p_context *ctx = to_context(context);
	struct p_pd *pd = new_object(sizeof(*pd));
	int err;

	if (!pd)
		return NULL;
	err = hca_pd_alloc(ctx->hca->h, &pd->hpd);
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	object_add(ctx, OBJ_PD, &pd->obj);
	pd->pd.context = context;
	pd->pd.handle = pd->obj.handle;
	return &pd->pd;
}

int simhca_dealloc_pd(struct ibv_pd *ibpd)
{
	struct p_pd *pd = to_pd(ibpd);
	int err = object_end(OBJ_PD, &pd->obj);

	if (err)
		return err;
	free(pd);
	return 0;
}

struct ibv_pd *simhca_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct p_object *obj = object_find(to_context(context)->hca, OBJ_PD, handle);
	struct p_pd *pd;

	if (!obj) {
		errno = ENOENT;
		return NULL;
	}
	pd = new_object(sizeof(*pd));
	if (!pd)
		return NULL;
	pd->hpd = CONTAINER_OF(obj, struct p_pd, obj)->hpd;
	pd->imported = true;
	pd->pd.context = context;
	pd->pd.handle = handle;
	return &pd->pd;
}

void simhca_unimport_pd(struct ibv_pd *pd)
{
	free(to_pd(pd));
}

/* ---- memory regions ---- */

struct ibv_mr *simhca_reg_mr(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova, int access)
{
	struct p_mr *mr = new_object(sizeof(*mr));
	int err;

	if (!mr)
		return NULL;
	err = hca_mr_reg(to_pd(ibpd)->hpd, addr, length, iova, access, &mr->hmr);
	if (err) {
		free(mr);
		errno = err;
		return NULL;
	}
	object_add(to_context(ibpd->context), OBJ_MR, &mr->obj);
	mr->vmr.mr_type = PABI_MR;
	mr->vmr.access = access; /* the library reads it back at dereg */
	mr->vmr.ibv_mr = (struct ibv_mr){
	    .context = ibpd->context,
	    .pd = ibpd,
	    .addr = addr,
	    .length = length,
	    .handle = mr->obj.handle,
	    .lkey = hca_mr_lkey(mr->hmr),
	    .rkey = hca_mr_rkey(mr->hmr),
	};
	return &mr->vmr.ibv_mr;
}

int simhca_dereg_mr(struct verbs_mr *vmr)
{
	struct p_mr *mr = to_mr(vmr);
	int err = object_end(OBJ_MR, &mr->obj);

	if (err)
		return err;
	free(mr);
	return 0;
}

struct ibv_mr *simhca_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct p_object *obj = object_find(to_context(pd->context)->hca, OBJ_MR, handle);
	struct p_mr *from, *mr;

	if (!obj) {
		errno = ENOENT;
		return NULL;
	}
	mr = new_object(sizeof(*mr));
	if (!mr)
		return NULL;
	from = CONTAINER_OF(obj, struct p_mr, obj);
	mr->hmr = from->hmr;
	mr->vmr.mr_type = PABI_IMPORTED_MR;
	mr->vmr.ibv_mr = from->vmr.ibv_mr;
	mr->vmr.ibv_mr.context = pd->context;
	mr->vmr.ibv_mr.pd = pd;
	mr->vmr.ibv_mr.addr = NULL; /* what it covers is the exporter's business */
	return &mr->vmr.ibv_mr;
}

void simhca_unimport_mr(struct ibv_mr *mr)
{
	free(to_mr(CONTAINER_OF(mr, struct verbs_mr, ibv_mr)));
}

/* ---- completion queues ---- */

static struct p_cq *cq_new(struct p_context *ctx, uint32_t cqe, unsigned int flags, struct ibv_comp_channel *channel,
			   uint32_t vector)
{
	struct p_cq *cq;
	int err = 0;

	if (vector >= (uint32_t)ctx->vctx.context.num_comp_vectors) {
		say(LOG_WHY, "ibv_create_cq on %s: completion vector %u asked, %d exist: EINVAL",
		    adapter_name(&ctx->vctx.context), vector, ctx->vctx.context.num_comp_vectors);
		errno = EINVAL;
		return NULL;
	}
	cq = new_object(sizeof(*cq));
	if (!cq)
		return NULL;
	if (channel) {
		cq->channel = events_find_channel(ctx, channel);
		if (!cq->channel) {
			say(LOG_WHY, "ibv_create_cq on %s: the completion channel is not of this context: EINVAL",
			    adapter_name(&ctx->vctx.context));
			err = EINVAL;
		}
	}
	if (!err)
		err = hca_cq_create(ctx->hca->h, &cqe, flags, cq, &cq->hcq);
	if (err) {
		free(cq);
		errno = err;
		return NULL;
	}
	object_add(ctx, OBJ_CQ, &cq->obj);
	cq->vcq.cq.context = &ctx->vctx.context;
	cq->vcq.cq.handle = cq->obj.handle;
	cq->vcq.cq.cqe = (int)cqe;
	return cq;
}

struct ibv_cq *simhca_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel, int vector)
{
	struct p_cq *cq = cq_new(to_context(context), cqe < 0 ? 0 : (uint32_t)cqe, 0, channel, (uint32_t)vector);

	return cq ? &cq->vcq.cq : NULL;
}

/* What the extended verb may ask of this adapter; the errno that refuses the rest. */
static int cq_ex_check(struct p_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t stamps = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG;

	if (hca_profile(ctx->hca->h)->hca_core_clock_khz)
		known |= stamps;
	if (attr->wc_flags & ~known) {
		say(LOG_WHY, "ibv_create_cq_ex on %s: wc_flags %#llx asked, %#llx offered: EOPNOTSUPP",
		    adapter_name(&ctx->vctx.context), (unsigned long long)attr->wc_flags, (unsigned long long)known);
		return EOPNOTSUPP;
	}
	if (attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) {
		say(LOG_WHY, "ibv_create_cq_ex on %s: comp_mask %#x has bits that are not known: EINVAL",
		    adapter_name(&ctx->vctx.context), attr->comp_mask);
		return EINVAL;
	}
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED)) {
		say(LOG_WHY, "ibv_create_cq_ex on %s: flags %#x: only SINGLE_THREADED is offered: EOPNOTSUPP",
		    adapter_name(&ctx->vctx.context), attr->flags);
		return EOPNOTSUPP;
	}
	return 0;
}

struct ibv_cq_ex *simhca_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct p_context *ctx = to_context(context);
	int err = cq_ex_check(ctx, attr);
	struct p_cq *cq;
	unsigned int flags = 0;

	if (err) {
		errno = err;
		return NULL;
	}
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		flags |= 1;
	cq = cq_new(ctx, attr->cqe, flags, attr->channel, attr->comp_vector);
	if (!cq)
		return NULL;
	cq_ex_fill(&cq->vcq.cq_ex);
	return &cq->vcq.cq_ex;
}

int simhca_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	uint32_t granted = cqe < 0 ? 0 : (uint32_t)cqe;
	int err = hca_cq_resize(to_cq(ibcq)->hcq, &granted);

	if (!err)
		ibcq->cqe = (int)granted;
	return err;
}

int simhca_destroy_cq(struct ibv_cq *ibcq)
{
	struct p_cq *cq = to_cq(ibcq);
	int err = object_end(OBJ_CQ, &cq->obj);

	if (err)
		return err;
	events_forget_cq(cq);
	free(cq);
	return 0;
}

/* ---- queue pairs ---- */

/* The adapter's kind of a queue-pair type, or QP_KINDS. */
static enum qp_kind kind_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC: return QP_RC;
	case IBV_QPT_UC: return QP_UC;
	case IBV_QPT_UD: return QP_UD;
	case IBV_QPT_XRC_SEND: return QP_XRC_SEND;
	case IBV_QPT_XRC_RECV: return QP_XRC_RECV;
	default: return QP_KINDS;
	}
}

static void caps_in(const struct ibv_qp_cap *from, struct qp_caps *to)
{
	to->max_send_wr = from->max_send_wr;
	to->max_recv_wr = from->max_recv_wr;
	to->max_send_sge = from->max_send_sge;
	to->max_recv_sge = from->max_recv_sge;
	to->max_inline_data = from->max_inline_data;
}

static void caps_out(const struct qp_caps *from, struct ibv_qp_cap *to)
{
	to->max_send_wr = from->max_send_wr;
	to->max_recv_wr = from->max_recv_wr;
	to->max_send_sge = from->max_send_sge;
	to->max_recv_sge = from->max_recv_sge;
	to->max_inline_data = from->max_inline_data;
}

/* What the extended verb may ask of this adapter; the errno that refuses the rest. */
static int qp_ex_check(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	const char *name = adapter_name(context);
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const uint32_t absent = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE |
				IBV_QP_INIT_ATTR_RX_HASH;

	if (attr->comp_mask & ~(known | absent)) {
		say(LOG_WHY, "ibv_create_qp_ex on %s: comp_mask %#x has bits that are not known: EINVAL", name,
		    attr->comp_mask);
		return EINVAL;
	}
	if (attr->comp_mask & absent) {
		say(LOG_WHY, "ibv_create_qp_ex on %s: comp_mask %#x asks for features that are not offered: EOPNOTSUPP",
		    name, attr->comp_mask & absent);
		return EOPNOTSUPP;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		say(LOG_WHY, "ibv_create_qp_ex on %s: no protection domain: EINVAL", name);
		return EINVAL;
	}
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags) {
		say(LOG_WHY, "ibv_create_qp_ex on %s: create_flags %#x are not offered: EOPNOTSUPP", name,
		    attr->create_flags);
		return EOPNOTSUPP;
	}
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && (attr->send_ops_flags & ~qp_ex_ops(attr->qp_type))) {
		say(LOG_WHY,
		    "ibv_create_qp_ex on %s: send_ops_flags %#llx asked, %#llx offered for the type: EOPNOTSUPP", name,
		    (unsigned long long)attr->send_ops_flags, (unsigned long long)qp_ex_ops(attr->qp_type));
		return EOPNOTSUPP;
	}
	return 0;
}

/* The same for both verbs. */
static int qp_check(struct p_context *ctx, const struct ibv_qp_init_attr_ex *attr)
{
	const char *name = adapter_name(&ctx->vctx.context);

	if (kind_of(attr->qp_type) == QP_KINDS) {
		int err = hca_profile(ctx->hca->h)->qp_kind_errno;

		say(LOG_WHY, "ibv_create_qp on %s: queue pairs of type %d are not offered", name, (int)attr->qp_type);
		return err ? err : EOPNOTSUPP;
	}
	if (!attr->send_cq || !attr->recv_cq) {
		say(LOG_WHY, "ibv_create_qp on %s: a completion queue is missing: EINVAL", name);
		return EINVAL;
	}
	if (attr->srq) {
		say(LOG_WHY, "ibv_create_qp on %s: shared receive queues are not emulated yet: EOPNOTSUPP", name);
		return EOPNOTSUPP;
	}
	return 0;
}

static void qp_fill(struct p_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *ib = &qp->vqp.qp;

	ib->context = pd->context;
	ib->qp_context = attr->qp_context;
	ib->pd = pd;
	ib->send_cq = attr->send_cq;
	ib->recv_cq = attr->recv_cq;
	ib->handle = qp->obj.handle;
	ib->qp_num = hca_qp_num(qp->hqp);
	ib->state = IBV_QPS_RESET;
	ib->qp_type = attr->qp_type;
}

/* extended: ibv_create_qp_ex; wr_api: with declared operations. Capabilities of *attr are written back. */
static struct ibv_qp *qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr, bool extended, bool wr_api)
{
	struct p_context *ctx = to_context(pd->context);
	struct qp_grant grant = {0};
	struct hca_qp_init init = {0};
	struct p_qp *qp;
	int err = qp_check(ctx, attr);

	if (err) {
		errno = err;
		return NULL;
	}
	qp = new_object(sizeof(*qp));
	if (!qp)
		return NULL;
	init = (struct hca_qp_init){
	    .pd = to_pd(pd)->hpd,
	    .send_cq = to_cq(attr->send_cq)->hcq,
	    .recv_cq = to_cq(attr->recv_cq)->hcq,
	    .kind = kind_of(attr->qp_type),
	    .send_ops = wr_api ? attr->send_ops_flags : 0,
	    .extended = extended,
	    .sq_sig_all = attr->sq_sig_all,
	    .user = qp,
	};
	caps_in(&attr->cap, &init.caps);
	/* An asynchronous event may find the queue pair as soon as it exists. */
	pthread_mutex_init(&qp->vqp.qp.mutex, NULL);
	pthread_cond_init(&qp->vqp.qp.cond, NULL);
	qp->vqp.qp.context = pd->context;
	err = hca_qp_create(ctx->hca->h, &init, &grant, &qp->hqp);
	if (!err || grant.caps_edited)
		caps_out(&grant.caps, &attr->cap);
	if (err) {
		free(qp);
		if (!grant.errno_untouched)
			errno = err;
		return NULL;
	}
	object_add(ctx, OBJ_QP, &qp->obj);
	qp->sq_sig_all = attr->sq_sig_all;
	qp_fill(qp, pd, attr);
	if (wr_api) {
		qp->vqp.comp_mask |= PABI_QP_EX;
		qp_ex_fill(&qp->vqp.qp_ex);
	}
	return &qp->vqp.qp;
}

struct ibv_qp *simhca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {0};
	struct ibv_qp *qp;

	memcpy(&ex, attr, sizeof(*attr)); /* the extended structure begins as the plain one */
	qp = qp_new(pd, &ex, false, false);
	attr->cap = ex.cap;
	return qp;
}

struct ibv_qp *simhca_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	int err = qp_ex_check(context, attr);

	if (err) {
		errno = err;
		return NULL;
	}
	return qp_new(attr->pd, attr, true, attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
}

int simhca_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	return hca_qp_modify(to_qp(qp)->hqp, attr, attr_mask);
}

int simhca_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init)
{
	struct p_qp *qp = to_qp(ibqp);
	int err;

	(void)attr_mask; /* names the least that the caller wants */
	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	err = hca_qp_query(qp->hqp, attr, init);
	if (err)
		return err;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->qp_type = ibqp->qp_type;
	init->sq_sig_all = qp->sq_sig_all;
	return 0;
}

int simhca_destroy_qp(struct ibv_qp *ibqp)
{
	struct p_qp *qp = to_qp(ibqp);
	int err = object_end(OBJ_QP, &qp->obj);

	if (err)
		return err;
	events_forget_qp(qp);
	pthread_cond_destroy(&ibqp->cond);
	pthread_mutex_destroy(&ibqp->mutex);
	free(qp);
	return 0;
}
