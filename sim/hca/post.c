/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting: the stages `post`, `push` and `doorbell`. A work request is checked as the adapter's driver checks it,
 * built into its slot (inline data is copied here and now from the virtual address, whatever the lkey) and handed to
 * the engine. ibv_post_send and the ibv_wr_* builder share everything below the first section.
 */
#include "sim/hca/engine.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- refusals ---- */

/*
 * Counts a refusal under its reason and explains it; returns err as the driver does, sign included. The text is only
 * made when somebody reads it.
 */
#define refuse(qp, reason, err, ...)                                                                                   \
	({                                                                                                             \
		int refuse_err = (err);                                                                                \
		count_shared((qp)->slot, CTR_REFUSALS, 1);                                                             \
		count_shared((qp)->slot, CTR_REFUSALS_POST, 1);                                                        \
		count_shared((qp)->slot, reason, 1);                                                                   \
		if (sim_log_level >= LOG_WHY)                                                                          \
			refuse_say(qp, refuse_err, __VA_ARGS__);                                                       \
		refuse_err;                                                                                            \
	})

__attribute__((format(printf, 3, 4), cold)) static void refuse_say(const struct hca_qp *qp, int err, const char *fmt,
								   ...)
{
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sim_log_line("post on %s, queue pair 0x%x: %s: %s%s", qp->h->prof.name, qp->qpn, text, err < 0 ? "-" : "",
		     strerrorname_np(err < 0 ? -err : err));
}

/* ---- building one work request ---- */

static inline int check_state(struct hca_qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	if (likely(state == IBV_QPS_RTS || state == IBV_QPS_SQD))
		return 0;
	if (state == IBV_QPS_ERR || state == IBV_QPS_SQE)
		return qp->h->prof.err_errored ? refuse(qp, CTR_REFUSALS_STATE, qp->h->prof.err_errored,
							"the queue pair is in %s", qp_state_name(state))
					       : 0;
	return refuse(qp, CTR_REFUSALS_STATE, qp->h->prof.err_state, "the queue pair is in %s, sending needs RTS",
		      qp_state_name(state));
}

static inline int check_op(struct hca_qp *qp, unsigned op, uint64_t remote_addr)
{
	const struct profile *p = &qp->h->prof;

	if (unlikely(op >= OP_COUNT))
		return refuse(qp, CTR_REFUSALS_OPCODE, p->err_opcode, "opcode %u is not known", op);
	unsigned flags = sim_ops[op].flags;
	if (likely(!(flags & (OPF_ATOMIC | OPF_LOCAL | OPF_INV))))
		return 0;
	if (flags & (OPF_LOCAL | OPF_INV))
		return refuse(qp, CTR_REFUSALS_OPCODE, EOPNOTSUPP, "%s is not emulated yet", sim_ops[op].name);
	if (p->atomic_cap == ATOMIC_NONE)
		return refuse(qp, CTR_REFUSALS_OPCODE, p->err_opcode, "%s: this adapter has no atomics",
			      sim_ops[op].name);
	if (p->err_atomic_align && (remote_addr & 7))
		return refuse(qp, CTR_REFUSALS_OPCODE, p->err_atomic_align,
			      "%s at an address that is not a multiple of 8", sim_ops[op].name);
	return 0;
}

static inline uint32_t sq_used(const struct send_queue *sq)
{
	/* acquire pairs with give_back in cq.c: the slot is free to be written */
	return sq->build - atomic_load_explicit(&sq->tail, memory_order_acquire);
}

/* Opens the slot of the next work request, which has at least one unit of room. */
static inline int open_slot(struct hca_qp *qp, uint64_t wr_id, unsigned send_flags, unsigned op, struct wqe **out)
{
	struct send_queue *sq = &qp->sq;
	int err = check_state(qp);

	if (unlikely(err))
		return err;
	err = check_op(qp, op, 0);
	if (unlikely(err))
		return err;
	uint32_t used = sq_used(sq);
	if (unlikely(used >= sq->max_units))
		return refuse(qp, CTR_REFUSALS_FULL, qp->h->prof.err_full, "send queue full, %u entries are in use",
			      used);
	struct wqe *w = sq_slot(sq, sq->build);
	w->wr_id = wr_id;
	w->op = (uint8_t)op;
	w->flags = (uint8_t)(((send_flags & IBV_SEND_SIGNALED) || qp->sq_sig_all ? WQF_SIGNALED : 0) |
			     (send_flags & IBV_SEND_FENCE ? WQF_FENCE : 0) |
			     (send_flags & IBV_SEND_SOLICITED ? WQF_SOLICITED : 0));
	w->length = 0;
	w->num_sge = 0;
	w->error = IBV_WC_SUCCESS;
	w->resp_B = 0;
	w->imm = 0;
	*out = w;
	return 0;
}

static inline bool wants_inline(const struct hca_qp *qp, unsigned send_flags, unsigned op, int *err)
{
	if (!(send_flags & IBV_SEND_INLINE))
		return false;
	if (likely(!(sim_ops[op].flags & OPF_RESPONSE)))
		return true;
	*err = qp->h->prof.err_inline_op;
	return false;
}

static inline int put_sges(struct hca_qp *qp, struct wqe *w, const struct ibv_sge *sge, size_t num)
{
	uint64_t total = 0;

	if (unlikely(num > qp->grant.sge_limit_post))
		return refuse(qp, CTR_REFUSALS_SGE, qp->h->prof.err_sge, "%zu SGEs asked, %u allowed", num,
			      qp->grant.sge_limit_post);
	for (size_t i = 0; i < num; i++) {
		w->sge[i] = sge[i];
		total += sge[i].length;
	}
	w->num_sge = (uint16_t)num;
	if (unlikely(total > qp->h->prof.max_msg_sz))
		w->error = IBV_WC_LOC_LEN_ERR;
	w->length = (uint32_t)total;
	return 0;
}

/* Is there room for this much inline data? It is copied behind what is there by put_bytes, the only place that does. */
static inline int open_inline(struct hca_qp *qp, struct wqe *w, uint64_t total, size_t num)
{
	if (unlikely(total > qp->grant.inline_limit_post_B))
		return refuse(qp, CTR_REFUSALS_INLINE, qp->h->prof.err_inline, "%llu bytes inline asked, %u allowed",
			      (unsigned long long)total, qp->grant.inline_limit_post_B);
	w->flags |= WQF_INLINE;
	w->num_sge = (uint16_t)MIN(num, UINT16_MAX);
	return 0;
}

static inline void put_bytes(struct wqe *w, const void *from, size_t len)
{
	if (len) /* an empty piece may have no address */
		memcpy(w->data + w->length, from, len);
	w->length += (uint32_t)len;
}

static inline int put_inline(struct hca_qp *qp, struct wqe *w, const struct ibv_sge *sge, size_t num)
{
	uint64_t total = 0;

	if (unlikely(num > qp->grant.sge_limit_post && qp->h->prof.inline_counts_sge))
		return refuse(qp, CTR_REFUSALS_SGE, qp->h->prof.err_sge, "%zu SGEs asked, %u allowed", num,
			      qp->grant.sge_limit_post);
	for (size_t i = 0; i < num; i++)
		total += sge[i].length;
	int err = open_inline(qp, w, total, num);
	for (size_t i = 0; i < num && !err; i++)
		put_bytes(w, (const void *)(uintptr_t)sge[i].addr, sge[i].length);
	return err;
}

static inline void shape_of(const struct hca_qp *qp, const struct wqe *w, uint32_t posted_with, struct wqe_shape *s)
{
	*s = (struct wqe_shape){.kind = qp->kind,
				.op = (enum sim_op)w->op,
				.is_inline = w->flags & WQF_INLINE,
				.bytes = w->length,
				.num_sge = w->num_sge,
				.posted_with = posted_with,
				.sq_idle = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed) == qp->build_start};
}

/* Takes the queue room that the finished work request needs. */
static inline int close_slot(struct hca_qp *qp, struct wqe *w)
{
	struct send_queue *sq = &qp->sq;
	struct wqe_shape shape;
	struct wqe_plan plan;

	shape_of(qp, w, 1, &shape);
	model_wqe_plan(&qp->h->prof, &shape, &plan);
	uint32_t used = sq->units_posted - atomic_load_explicit(&sq->units_freed, memory_order_relaxed);
	if (unlikely(used + plan.units > sq->max_units))
		return refuse(qp, CTR_REFUSALS_FULL, qp->h->prof.err_full, "send queue full: %u blocks asked, %u left",
			      plan.units, sq->max_units - used);
	w->blocks = (uint16_t)plan.blocks;
	w->wqe_B = (uint16_t)plan.wqe_B;
	if (plan.push)
		w->flags |= WQF_PUSH;
	sq->units_posted += plan.units;
	w->units_end = sq->units_posted;
	sq->build++;
	qp->wr_count++;
	return 0;
}

/* ---- handing a call's work requests to the adapter ---- */

static inline void start_call(struct hca_qp *qp)
{
	lock_take(&qp->sq.lock);
	qp->wr_error = 0;
	qp->wr_count = 0;
	qp->build_start = qp->sq.build;
	qp->units_start = qp->sq.units_posted;
}

/* Memory-polling rule: this thread may have seen what an RDMA WRITE placed before its completion was polled. */
static inline void see_writes(struct hca_qp *qp)
{
	int64_t visible = atomic_load_explicit(&qp->slot->write_visible_ps, memory_order_relaxed);

	if (visible > thread_clock_ps)
		thread_clock_ps = visible + qp->pt->t.cpu_poll;
}

/* Push or doorbell for each, and the time at which the adapter has the WQE. */
static void ring(struct hca_qp *qp)
{
	const struct timing *t = &qp->pt->t;
	uint32_t fetched = 0;

	see_writes(qp);
	for (uint32_t i = 0; i < qp->wr_count; i++) {
		struct wqe *w = sq_slot(&qp->sq, qp->build_start + i);
		struct wqe_plan plan = {.wqe_B = w->wqe_B, .blocks = w->blocks, .push = w->flags & WQF_PUSH};
		if (qp->wr_count > 1) {
			struct wqe_shape shape;
			shape_of(qp, w, qp->wr_count, &shape);
			model_wqe_plan(&qp->h->prof, &shape, &plan);
			w->flags = (uint8_t)((w->flags & ~WQF_PUSH) | (plan.push ? WQF_PUSH : 0));
		}
		thread_clock_ps += time_post_cpu_ps(t, &plan, w->flags & WQF_INLINE, w->length, i + 1 == qp->wr_count);
		fetched += !plan.push;
		if (w->flags & WQF_INLINE)
			count(qp, CTR_INLINE_POSTS, 1);
	}
	/* A doorbell is rung once a call; fetches bring wqe_prefetch_depth WQEs at a time. */
	uint32_t depth = MAX(t->wqe_prefetch_depth, 1u);
	for (uint32_t i = 0; i < qp->wr_count; i++) {
		struct wqe *w = sq_slot(&qp->sq, qp->build_start + i);
		struct wqe_plan plan = {.wqe_B = w->wqe_B, .blocks = w->blocks, .push = w->flags & WQF_PUSH};
		w->have_ps = thread_clock_ps + time_have_listed_ps(t, &plan, i, qp->wr_count);
		stage_passed(qp, STAGE_POST, 1, w->wr_id, thread_clock_ps);
		if (plan.push) {
			stage_passed(qp, STAGE_PUSH, 1, w->wr_id, w->have_ps);
			continue;
		}
		stage_passed(qp, STAGE_DOORBELL, fetched > 0, w->wr_id, thread_clock_ps + t->pcie_mmio);
		stage_passed(qp, STAGE_WQE_FETCH, fetched ? (fetched + depth - 1) / depth : 0, w->wr_id, w->have_ps);
		fetched = 0;
	}
}

/* Everything built so far becomes the engine's. Drops the queue lock. */
static inline void commit(struct hca_qp *qp)
{
	if (unlikely(!qp->wr_count)) {
		lock_drop(&qp->sq.lock);
		return;
	}
	ring(qp);
	/* release pairs with the engine's acquire: the WQEs are whole */
	atomic_store_explicit(&qp->sq.head, qp->sq.build, memory_order_release);
	lock_drop(&qp->sq.lock);
	engine_post(qp->e, qp);
}

/* ---- ibv_post_send ---- */

static int build(struct hca_qp *qp, const struct ibv_send_wr *wr)
{
	struct wqe *w;
	int err = open_slot(qp, wr->wr_id, wr->send_flags, wr->opcode, &w);

	if (unlikely(err))
		return err;
	unsigned flags = sim_ops[wr->opcode].flags;
	if (flags & OPF_ATOMIC) {
		err = check_op(qp, wr->opcode, wr->wr.atomic.remote_addr);
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->compare_add = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
	} else if (flags & OPF_RETH) {
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
	}
	if (flags & OPF_IMM)
		w->imm = wr->imm_data;
	bool is_inline = wants_inline(qp, wr->send_flags, wr->opcode, &err);
	if (unlikely(err))
		return refuse(qp, CTR_REFUSALS_OPCODE, err, "%s cannot be inline", sim_ops[wr->opcode].name);
	size_t num = wr->num_sge > 0 ? (size_t)wr->num_sge : 0;
	err = is_inline ? put_inline(qp, w, wr->sg_list, num) : put_sges(qp, w, wr->sg_list, num);
	return unlikely(err) ? err : close_slot(qp, w);
}

int hca_post_send(struct hca_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	if (unlikely(qp->e->forked)) {
		*bad = wr;
		return EIO;
	}
	start_call(qp);
	for (; wr; wr = wr->next) {
		err = build(qp, wr);
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
	}
	commit(qp);
	return err;
}

/* ---- ibv_wr_* ---- */

/* Finishes the work request that was begun last, if any. */
static void close_open(struct hca_qp *qp)
{
	if (qp->wr_open && !qp->wr_error)
		qp->wr_error = close_slot(qp, qp->wr_open);
	qp->wr_open = NULL;
}

void hca_wr_start(struct hca_qp *qp)
{
	if (unlikely(qp->e->forked))
		return;
	start_call(qp);
	qp->wr_open = NULL;
}

void hca_wr_begin(struct hca_qp *qp, uint64_t wr_id, unsigned send_flags, enum sim_op op)
{
	if (unlikely(qp->e->forked))
		return;
	close_open(qp);
	if (unlikely(qp->wr_error))
		return;
	/* Inline is chosen by the setter, not by the flag. */
	qp->wr_error = open_slot(qp, wr_id, send_flags, op, &qp->wr_open);
	if (qp->wr_error)
		qp->wr_open = NULL;
}

void hca_wr_remote(struct hca_qp *qp, uint32_t rkey, uint64_t remote_addr)
{
	struct wqe *w = qp->wr_open;

	if (!w)
		return;
	w->rkey = rkey;
	w->remote_addr = remote_addr;
	int err = check_op(qp, w->op, remote_addr);
	if (err)
		qp->wr_error = err;
}

void hca_wr_imm(struct hca_qp *qp, uint32_t imm_or_key)
{
	struct wqe *w = qp->wr_open;

	if (w)
		w->imm = imm_or_key;
}

void hca_wr_atomic(struct hca_qp *qp, uint64_t compare_or_add, uint64_t swap)
{
	struct wqe *w = qp->wr_open;

	if (!w)
		return;
	w->compare_add = compare_or_add;
	w->swap = swap;
}

void hca_wr_sges(struct hca_qp *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct wqe *w = qp->wr_open;

	if (w && !qp->wr_error)
		qp->wr_error = put_sges(qp, w, sg_list, num_sge);
}

void hca_wr_inline(struct hca_qp *qp, size_t num_buf, const struct ibv_data_buf *bufs)
{
	struct wqe *w = qp->wr_open;
	uint64_t total = 0;

	if (!w || qp->wr_error)
		return;
	bool is_inline = wants_inline(qp, IBV_SEND_INLINE, w->op, &qp->wr_error);
	if (!is_inline) {
		if (!qp->wr_error)
			qp->wr_error = EINVAL;
		refuse(qp, CTR_REFUSALS_OPCODE, qp->wr_error, "%s cannot be inline", sim_ops[w->op].name);
		return;
	}
	for (size_t i = 0; i < num_buf; i++)
		total += bufs[i].length;
	qp->wr_error = open_inline(qp, w, total, num_buf);
	for (size_t i = 0; i < num_buf && !qp->wr_error; i++)
		put_bytes(w, bufs[i].addr, bufs[i].length);
}

static void roll_back(struct hca_qp *qp)
{
	qp->sq.build = qp->build_start;
	qp->sq.units_posted = qp->units_start;
	qp->wr_count = 0;
	qp->wr_open = NULL;
	lock_drop(&qp->sq.lock);
}

int hca_wr_complete(struct hca_qp *qp)
{
	if (unlikely(qp->e->forked))
		return EIO;
	close_open(qp);
	int err = qp->wr_error;
	if (unlikely(err)) {
		roll_back(qp);
		return err < 0 ? -err : err;
	}
	commit(qp);
	return 0;
}

void hca_wr_abort(struct hca_qp *qp)
{
	if (likely(!qp->e->forked))
		roll_back(qp);
}

/* ---- receives ---- */

static int build_recv(struct hca_qp *qp, const struct ibv_recv_wr *wr)
{
	struct recv_queue *rq = &qp->rq;
	const struct profile *p = &qp->h->prof;
	uint32_t num = wr->num_sge > 0 ? (uint32_t)wr->num_sge : 0;
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);
	uint64_t total = 0;

	if (unlikely(qp_state(qp) == IBV_QPS_RESET))
		return refuse(qp, CTR_REFUSALS_STATE, p->err_recv_state,
			      "the queue pair is in RESET, receives need INIT");
	/* acquire pairs with give_back in cq.c: the slot is free to be written */
	if (unlikely(head - atomic_load_explicit(&rq->tail, memory_order_acquire) >= rq->max_wr))
		return refuse(qp, CTR_REFUSALS_FULL, p->err_recv_full, "receive queue full, %u entries are in use",
			      rq->max_wr);
	if (unlikely(num > rq->max_sge))
		return refuse(qp, CTR_REFUSALS_SGE, p->err_recv_sge, "%u SGEs asked, %u allowed", num, rq->max_sge);
	struct rqe *r = rq_slot(rq, head);
	r->wr_id = wr->wr_id;
	r->num_sge = num;
	for (uint32_t i = 0; i < num; i++) {
		r->sge[i] = wr->sg_list[i];
		total += wr->sg_list[i].length;
	}
	r->length = (uint32_t)MIN(total, UINT32_MAX);
	/* release pairs with the responder's acquire: the entry is whole */
	atomic_store_explicit(&rq->head, head + 1, memory_order_release);
	return 0;
}

int hca_post_recv(struct hca_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = 0;
	uint32_t posted = 0;

	if (unlikely(qp->e->forked)) {
		*bad = wr;
		return EIO;
	}
	lock_take(&qp->rq.lock);
	for (; wr; wr = wr->next, posted++) {
		err = build_recv(qp, wr);
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
	}
	count(qp, CTR_RECV_POSTS, posted);
	lock_drop(&qp->rq.lock);
	if (unlikely(qp_state(qp) == IBV_QPS_ERR))
		engine_post(qp->e, qp); /* flushed at once */
	return err;
}
