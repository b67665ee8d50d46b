/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: a ring written by the engine and read by pollers. Queue room of a send or receive queue is
 * given back when the completion that covers it is polled, as on hardware.
 */
#include "sim/hca/engine.h"

#include <stdlib.h>
#include <sys/mman.h>

static int ring_alloc(uint32_t cqe, struct hca_cqe **ring, size_t *ring_B, uint32_t *mask)
{
	/* cqe is at most the profile's 32-bit limit, so the power of two fits in 64 bits and is checked for 32 */
	uint64_t slots = pow2_up_u64(cqe);
	if (slots > UINT64_C(1) << 31)
		return ENOMEM;
	*ring_B = slots * sizeof(**ring);
	/* Mapped, not allocated: costs memory only as it fills. */
	void *p = mmap(NULL, *ring_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return ENOMEM;
	*ring = p;
	*mask = (uint32_t)slots - 1;
	return 0;
}

static int cqe_check(const struct hca *h, uint32_t cqe, const char *call)
{
	if (cqe && cqe <= h->prof.max_cqe)
		return 0;
	say(LOG_WHY, "%s on %s: %u entries asked, 1 to %u allowed: EINVAL", call, h->prof.name, cqe, h->prof.max_cqe);
	return EINVAL;
}

int hca_cq_create(struct hca *h, uint32_t *cqe, unsigned flags, void *user, struct hca_cq **out)
{
	if (h->e->forked)
		return EIO;
	int err = cqe_check(h, *cqe, "ibv_create_cq");
	if (err)
		return err;
	if (atomic_fetch_add(&h->num_cqs, 1) >= h->prof.max_cq) {
		say(LOG_WHY, "ibv_create_cq: %u completion queues are the limit of %s: ENOMEM", h->prof.max_cq,
		    h->prof.name);
		err = ENOMEM;
	}
	struct hca_cq *cq = err ? NULL : calloc(1, sizeof(*cq));
	if (!cq)
		goto fail;
	cq->h = h;
	cq->user = user;
	cq->single_threaded = flags & 1;
	cq->cqe = *cqe;
	if (ring_alloc(*cqe, &cq->ring, &cq->ring_B, &cq->mask))
		goto fail;
	*out = cq;
	return 0;
fail:
	free(cq);
	atomic_fetch_sub(&h->num_cqs, 1);
	return ENOMEM;
}

int hca_cq_destroy(struct hca_cq *cq)
{
	struct engine *e = cq->h->e;

	if (!e->forked) {
		if (atomic_load(&cq->users)) {
			say(LOG_WHY, "ibv_destroy_cq: %u queue pairs still use it: EBUSY", atomic_load(&cq->users));
			return EBUSY;
		}
		engine_enter(e);
		if (cq->armed)
			atomic_fetch_sub_explicit(&e->armed_cqs, 1, memory_order_relaxed);
		engine_leave(e);
	}
	atomic_fetch_sub(&cq->h->num_cqs, 1);
	munmap(cq->ring, cq->ring_B);
	free(cq);
	return 0;
}

int hca_cq_resize(struct hca_cq *cq, uint32_t *cqe)
{
	struct hca_cqe *ring;
	size_t ring_B;
	uint32_t mask;

	if (cq->h->e->forked)
		return EIO;
	int err = cqe_check(cq->h, *cqe, "ibv_resize_cq");
	if (err)
		return err;
	err = ring_alloc(*cqe, &ring, &ring_B, &mask);
	if (err)
		return err;
	lock_take(&cq->lock);
	engine_enter(cq->h->e);
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	if (head - tail > *cqe) {
		say(LOG_WHY, "ibv_resize_cq: %u completions wait, %u entries asked: EINVAL", head - tail, *cqe);
		err = EINVAL;
	} else {
		for (uint32_t i = tail; i != head; i++)
			ring[i & mask] = cq->ring[i & cq->mask];
		struct hca_cqe *old = cq->ring;
		size_t old_B = cq->ring_B;
		cq->ring = ring;
		cq->ring_B = ring_B;
		cq->mask = mask;
		cq->cqe = *cqe;
		ring = old;
		ring_B = old_B;
	}
	engine_leave(cq->h->e);
	lock_drop(&cq->lock);
	munmap(ring, ring_B);
	return err;
}

/* ---- engine side ---- */

static void raise_event(struct hca_cq *cq, const struct hca_cqe *cqe)
{
	if (cq->armed == 2 && !cqe->solicited && cqe->status == IBV_WC_SUCCESS)
		return;
	cq->armed = 0;
	atomic_fetch_sub_explicit(&cq->h->e->armed_cqs, 1, memory_order_relaxed);
	count_device(cq->h, CTR_COMPLETION_EVENTS, 1);
	cq->h->cb.comp_event(cq->user);
}

static void cq_lost(struct hca_cq *cq)
{
	count_device(cq->h, CTR_CQ_OVERRUNS, 1);
	if (cq->overrun)
		return;
	cq->overrun = true;
	say(LOG_WHY, "completion queue of %u entries is full: completions are lost, IBV_EVENT_CQ_ERR", cq->cqe);
	count_device(cq->h, CTR_ASYNC_EVENTS, 1);
	cq->h->cb.async_event(cq->h->user, IBV_EVENT_CQ_ERR, cq->user, 0);
}

void cq_push(struct hca_cq *cq, const struct hca_cqe *cqe)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	/* acquire pairs with the poller's release of tail: the entry has been read before it is written again */
	if (unlikely(head - atomic_load_explicit(&cq->tail, memory_order_acquire) >= cq->cqe)) {
		cq_lost(cq);
		return;
	}
	cq->ring[head & cq->mask] = *cqe;
	atomic_store_explicit(&cq->head, head + 1, memory_order_release); /* pairs with cq_peek */
	if (cq->armed)
		raise_event(cq, cqe);
}

void cqs_lock(struct hca_cq *a, struct hca_cq *b)
{
	lock_take(a < b ? &a->lock : &b->lock);
	if (a != b)
		lock_take(a < b ? &b->lock : &a->lock);
}

void cqs_unlock(struct hca_cq *a, struct hca_cq *b)
{
	lock_drop(&a->lock);
	if (a != b)
		lock_drop(&b->lock);
}

void cq_forget_qp(struct hca_cq *cq, struct hca_qp *qp)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	for (uint32_t i = atomic_load_explicit(&cq->tail, memory_order_relaxed); i != head; i++)
		if (cq->ring[i & cq->mask].qp == qp)
			cq->ring[i & cq->mask].qp = NULL;
}

/* ---- polling side ---- */

/* Gives back the queue room that this completion covers. */
static void give_back(const struct hca_cqe *c)
{
	struct hca_qp *qp = c->qp;

	/* Pairs with the poster's acquire: the slots are no longer read by anyone. */
	if (c->is_recv) {
		atomic_store_explicit(&qp->rq.tail, c->frees, memory_order_release);
		return;
	}
	uint32_t units = sq_slot(&qp->sq, c->frees - 1)->units_end;
	atomic_store_explicit(&qp->sq.units_freed, units, memory_order_relaxed);
	atomic_store_explicit(&qp->sq.tail, c->frees, memory_order_release);
}

/* Oldest completion of a living queue pair, not yet taken; NULL when empty. Polling lock held. */
static const struct hca_cqe *cq_peek(struct hca_cq *cq)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	/* acquire pairs with cq_push: the entry is whole */
	while (tail != atomic_load_explicit(&cq->head, memory_order_acquire)) {
		const struct hca_cqe *c = &cq->ring[tail & cq->mask];
		if (likely(c->qp != NULL))
			return c;
		atomic_store_explicit(&cq->tail, ++tail, memory_order_release);
	}
	return NULL;
}

/* Takes what cq_peek gave. */
static void cq_take(struct hca_cq *cq, const struct hca_cqe *c)
{
	int64_t visible = c->visible_ps;

	give_back(c);
	cq->last.visible_ps = visible;
	thread_clock_ps = MAX(thread_clock_ps, visible) + cq->h->ports[0].t.cpu_poll;
	/* pairs with cq_push's acquire */
	atomic_store_explicit(&cq->tail, atomic_load_explicit(&cq->tail, memory_order_relaxed) + 1,
			      memory_order_release);
}

static void to_wc(const struct hca_cqe *c, struct ibv_wc *wc)
{
	wc->wr_id = c->wr_id;
	wc->status = (enum ibv_wc_status)c->status;
	wc->opcode = (enum ibv_wc_opcode)c->opcode;
	wc->vendor_err = c->vendor_err;
	wc->byte_len = c->byte_len;
	wc->imm_data = c->imm;
	wc->qp_num = c->qp_num;
	wc->src_qp = c->src_qp;
	wc->wc_flags = c->wc_flags;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = c->sl;
	wc->dlid_path_bits = 0;
}

static int take_many(struct hca_cq *cq, int n, struct ibv_wc *wc)
{
	int got = 0;

	while (got < n) {
		const struct hca_cqe *c = cq_peek(cq);
		if (!c)
			break;
		to_wc(c, &wc[got++]);
		cq_take(cq, c);
	}
	return got;
}

static inline void poll_lock(struct hca_cq *cq)
{
	if (!cq->single_threaded)
		lock_take(&cq->lock);
}

static inline void poll_unlock(struct hca_cq *cq)
{
	if (!cq->single_threaded)
		lock_drop(&cq->lock);
}

/* Runs the engine if it has work, when the queue is empty and now and then when it is not. */
static inline void poll_drive(struct hca_cq *cq)
{
	struct engine *e = cq->h->e;

	if (!atomic_load_explicit(&e->app_alive, memory_order_relaxed))
		atomic_store_explicit(&e->app_alive, true, memory_order_relaxed);
	uint32_t polls = atomic_load_explicit(&cq->polls, memory_order_relaxed) + 1;
	atomic_store_explicit(&cq->polls, polls, memory_order_relaxed);
	if ((cq_looks_empty(cq) || polls % 16 == 0) && engine_has_work(e))
		engine_try(e);
}

int hca_cq_poll(struct hca_cq *cq, int n, struct ibv_wc *wc)
{
	if (unlikely(cq->h->e->forked))
		return -EIO;
	poll_drive(cq);
	if (cq_looks_empty(cq))
		return 0;
	poll_lock(cq);
	int got = take_many(cq, n, wc);
	poll_unlock(cq);
	return got;
}

int hca_cq_start_poll(struct hca_cq *cq, const struct hca_cqe **cqe)
{
	if (unlikely(cq->h->e->forked))
		return EIO;
	poll_drive(cq);
	if (cq_looks_empty(cq))
		return ENOENT;
	poll_lock(cq);
	int err = hca_cq_next_poll(cq, cqe);
	if (err)
		poll_unlock(cq);
	return err;
}

int hca_cq_next_poll(struct hca_cq *cq, const struct hca_cqe **cqe)
{
	const struct hca_cqe *c = cq_peek(cq);

	if (!c)
		return ENOENT;
	cq->last = *c;
	cq_take(cq, c);
	*cqe = &cq->last;
	return 0;
}

void hca_cq_end_poll(struct hca_cq *cq)
{
	poll_unlock(cq);
}

int64_t hca_cq_last_ps(const struct hca_cq *cq)
{
	return cq->last.visible_ps;
}

int hca_cq_arm(struct hca_cq *cq, bool solicited_only)
{
	struct engine *e = cq->h->e;

	if (e->forked)
		return EIO;
	engine_enter(e);
	if (!cq->armed)
		atomic_fetch_add_explicit(&e->armed_cqs, 1, memory_order_relaxed);
	if (cq->armed != 1) /* any is wider than solicited */
		cq->armed = solicited_only ? 2 : 1;
	/* From now on a packet must wake the agent; pairs with the sender's look at it after publishing. */
	atomic_store(&e->seg->agent_sleeps, 1);
	engine_turn(e, 64); /* what came before that store is handled here */
	engine_leave(e);
	return 0;
}
