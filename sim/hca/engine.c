/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of a process: one a fabric, shared by every device opened in it. It runs inside post_send and poll_cq of
 * whichever thread calls, and in the agent thread when the application does not. One turn is bounded.
 */
#include "sim/hca/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

__thread int64_t thread_clock_ps __attribute__((tls_model("initial-exec")));

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and engine.users */
static struct engine *engines;

#define TURN_BUDGET 64u	  /* packets of one turn */
#define NOTIFY_B    4096u /* a packet this large is announced at once, not at the end of the section */

uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void lock_wait(struct lock *l)
{
	for (int i = 0; i < 100; i++) {
		if (lock_try(l))
			return;
		__builtin_ia32_pause();
	}
	/* acquire on success pairs with the release of the holder's exchange */
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire))
		futex_call(&l->word, FUTEX_WAIT_PRIVATE, 2, NULL);
}

/* ---- entering and leaving ---- */

static void run_work(struct engine *e)
{
	/* acquire pairs with engine_post's push: the queue pair's new head is seen */
	struct hca_qp *qp = atomic_exchange_explicit(&e->work, NULL, memory_order_acq_rel);

	while (qp) {
		struct hca_qp *next = qp->work_next;
		/* Cleared before running: a post from now on queues it again. */
		atomic_exchange(&qp->queued, false);
		requester_run(qp);
		qp = next;
	}
}

void engine_enter(struct engine *e)
{
	lock_take(&e->lock);
}

static void tell(struct engine *e, uint64_t peers)
{
	struct seg_node *nodes = e->nodes;

	for (; peers; peers &= peers - 1)
		wire_notify(&nodes[__builtin_ctzll(peers)], UINT64_C(1) << e->index);
}

void engine_notify(struct engine *e)
{
	uint64_t peers = e->notify;

	if (!peers)
		return;
	e->notify = 0;
	wire_fence(); /* pairs as wire_notify says */
	tell(e, peers);
}

void engine_leave(struct engine *e)
{
	for (;;) {
		if (atomic_load_explicit(&e->work, memory_order_relaxed))
			run_work(e);
		uint64_t peers = e->notify;
		e->notify = 0;
		lock_drop(&e->lock);
		/* The exchange in lock_drop is the fence that wire_notify wants: one a section, not one a packet. */
		tell(e, peers);
		/*
		 * Ordered behind the release by lock_drop's exchange; pairs with engine_post, which pushes first and
		 * tries the lock second: one of the two sees the other.
		 */
		if (!atomic_load(&e->work) || !lock_try(&e->lock))
			return;
	}
}

void engine_try(struct engine *e)
{
	if (!lock_try(&e->lock))
		return;
	engine_turn(e, TURN_BUDGET);
	engine_leave(e);
}

static void run_owe(struct engine *e);

static void push_work(struct engine *e, struct hca_qp *qp)
{
	if (atomic_exchange(&qp->queued, true))
		return;
	qp->work_next = atomic_load_explicit(&e->work, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&e->work, &qp->work_next, qp))
		;
}

void engine_post(struct engine *e, struct hca_qp *qp)
{
	if (!atomic_load_explicit(&e->app_alive, memory_order_relaxed))
		atomic_store_explicit(&e->app_alive, true, memory_order_relaxed);
	if (unlikely(!lock_try(&e->lock))) {
		push_work(e, qp);
		if (!lock_try(&e->lock))
			return; /* the holder will see the work list after it has dropped the lock */
	}
	requester_run(qp);
	engine_leave(e);
	/* One poster wakes it; it may take a while to run. */
	if (unlikely(atomic_load_explicit(&e->deep, memory_order_relaxed)) && atomic_exchange(&e->deep, false))
		agent_nudge(e);
}

/* ---- lists ---- */

void engine_resume_later(struct hca_qp *qp, bool waits_for_ring)
{
	if (!waits_for_ring)
		atomic_store_explicit(&qp->e->more, true, memory_order_relaxed);
	if (qp->on_resume)
		return;
	qp->on_resume = true;
	qp->resume_next = qp->e->resume;
	qp->e->resume = qp;
}

void engine_owe(struct hca_qp *qp)
{
	if (qp->on_owe)
		return;
	qp->on_owe = true;
	qp->owe_next = qp->e->owe;
	qp->e->owe = qp;
}

void engine_activate(struct hca_qp *qp)
{
	if (qp->on_active)
		return;
	qp->on_active = true;
	qp->active_prev = NULL;
	qp->active_next = qp->e->active;
	if (qp->active_next)
		qp->active_next->active_prev = qp;
	qp->e->active = qp;
}

void engine_deactivate(struct hca_qp *qp)
{
	if (!qp->on_active)
		return;
	qp->on_active = false;
	if (qp->active_next)
		qp->active_next->active_prev = qp->active_prev;
	if (qp->active_prev)
		qp->active_prev->active_next = qp->active_next;
	else
		qp->e->active = qp->active_next;
}

void engine_forget(struct hca_qp *qp)
{
	struct engine *e = qp->e;

	run_work(e); /* takes it off the work list; nobody may post on a queue pair that is being destroyed */
	run_owe(e);  /* what it owes is paid while it can be */
	for (struct hca_qp **p = &e->resume; *p; p = &(*p)->resume_next)
		if (*p == qp) {
			*p = qp->resume_next;
			break;
		}
	for (struct hca_qp **p = &e->owe; *p; p = &(*p)->owe_next)
		if (*p == qp) {
			*p = qp->owe_next;
			break;
		}
	qp->on_resume = qp->on_owe = false;
	engine_deactivate(qp);
}

static void run_resume(struct engine *e)
{
	struct hca_qp *list = e->resume;

	e->resume = NULL;
	while (list) {
		struct hca_qp *qp = list;
		list = qp->resume_next;
		qp->on_resume = false;
		qp->stalled = false;
		requester_run(qp);
	}
}

static void run_owe(struct engine *e)
{
	struct hca_qp *list = e->owe;

	e->owe = NULL;
	while (list) {
		struct hca_qp *qp = list;
		list = qp->owe_next;
		qp->on_owe = false;
		if (!responder_pay(qp))
			engine_owe(qp);
	}
}

/* ---- queue pairs by number ---- */

#define QPN_CHUNK(qpn) ((qpn) / FAB_QP_CHUNK)

struct hca_qp *engine_qp(struct engine *e, uint32_t qpn)
{
	if (QPN_CHUNK(qpn) >= FAB_QP_CHUNKS_MAX || !e->qps[QPN_CHUNK(qpn)])
		return NULL;
	return e->qps[QPN_CHUNK(qpn)][qpn % FAB_QP_CHUNK];
}

int engine_qp_set(struct engine *e, uint32_t qpn, struct hca_qp *qp)
{
	if (QPN_CHUNK(qpn) >= FAB_QP_CHUNKS_MAX)
		return ENOSPC;
	struct hca_qp ***chunk = &e->qps[QPN_CHUNK(qpn)];
	if (!*chunk)
		*chunk = calloc(FAB_QP_CHUNK, sizeof(**chunk));
	if (!*chunk)
		return ENOMEM;
	(*chunk)[qpn % FAB_QP_CHUNK] = qp;
	return 0;
}

/* ---- a turn ---- */

static void say_packet(const char *way, const struct pkt *p)
{
	static const char *const names[PKT_OP_COUNT] = {
	    "SEND", "WRITE", "READ request", "atomic request", "READ response", "atomic response",
	    "ACK",  "NAK",   "RNR NAK"};

	say(LOG_PACKET, "%s %s 0x%x to 0x%x, PSN %u+%u, %u bytes%s%s%s, syndrome 0x%x", way,
	    p->op < PKT_OP_COUNT ? names[p->op] : "?", p->src_qpn, p->dst_qpn, p->psn, p->psn_count, p->payload_B,
	    p->flags & PKF_FIRST ? ", first" : "", p->flags & PKF_LAST ? ", last" : "",
	    p->flags & PKF_BY_REF ? ", by reference" : "", p->syndrome);
}

void stage_say(const struct hca_qp *qp, enum stage stage, uint64_t wr_id, int64_t left_ps)
{
	say(LOG_PACKET, "queue pair 0x%x, work request %llu: %s until %lld ps", qp->qpn, (unsigned long long)wr_id,
	    sim_stages[stage].name, (long long)left_ps);
}

void packet_head(const struct hca_qp *qp, struct pkt *p, enum pkt_op op, unsigned flags, uint32_t psn)
{
	p->op = (uint8_t)op;
	p->flags = (uint8_t)flags;
	p->gid_type = (uint8_t)qp->gid_type;
	p->syndrome = 0;
	p->src_qpn = qp->qpn;
	p->dst_qpn = qp->attr.dest_qp_num;
	p->psn = psn;
	p->psn_count = 1;
	p->payload_B = 0;
	p->imm = 0;
}

void engine_publish(struct engine *e, struct hca_qp *qp, struct pkt *p, uint64_t wr_id)
{
	if (unlikely(sim_log_level >= LOG_PACKET))
		say_packet("out", p);
	stage_passed(qp, STAGE_TRANSMIT, p->psn_count, wr_id, p->arrive_ps - qp->pt->net_ps);
	stage_passed(qp, STAGE_WIRE, 1, wr_id, p->arrive_ps);
	bool large = p->payload_B >= NOTIFY_B; /* once it is published the line is the receiver's */
	if (unlikely(e->wiretest != NULL))
		wiretest_publish(e->wiretest, qp->tx, p);
	else
		wire_publish_quietly(qp->tx);
	e->notify |= UINT64_C(1) << wire_tx_to(qp->tx);
	if (large)
		engine_notify(e);
}

/* One packet to its queue pair. Only the connected peer is heard. */
static void dispatch(struct engine *e, struct pkt *p)
{
	struct hca_qp *qp = engine_qp(e, p->dst_qpn);

	if (unlikely(sim_log_level >= LOG_PACKET))
		say_packet("in ", p);
	if (unlikely(!qp))
		return;
	enum ibv_qp_state state = qp_state(qp);
	bool receives = state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
	if (unlikely(!receives || qp->attr.dest_qp_num != p->src_qpn || qp->gid_type != p->gid_type)) {
		count(qp, CTR_RX_DISCARDS, 1);
		return;
	}
	stage_passed(qp, STAGE_RECEIVE, p->psn_count, 0, p->arrive_ps + qp->pt->t.nic_rx);
	switch ((enum pkt_op)p->op) {
	case PKT_SEND:
	case PKT_WRITE:
	case PKT_READ_REQ:
	case PKT_ATOMIC_REQ: responder_request(qp, p); break;
	case PKT_ACK: completer_ack(qp, p); break;
	case PKT_NAK: completer_nak(qp, p); break;
	case PKT_RNR_NAK: completer_rnr(qp, p); break;
	case PKT_READ_RESP: completer_read(qp, p); break;
	case PKT_ATOMIC_RESP: completer_atomic(qp, p); break;
	case PKT_OP_COUNT: break;
	}
}

void engine_turn(struct engine *e, unsigned budget)
{
	int from;

	if (atomic_load_explicit(&e->more, memory_order_relaxed))
		atomic_store_explicit(&e->more, false, memory_order_relaxed);
	while (budget && (from = wire_pending(e->node)) >= 0) {
		struct pkt *p;
		while (budget && (p = wire_next(e->node, (uint32_t)from)) != NULL) {
			dispatch(e, p);
			wire_consume(e->node, (uint32_t)from);
			budget--;
		}
		if (!wire_has_work(e->node))
			break;
	}
	if (atomic_load_explicit(&e->work, memory_order_relaxed))
		run_work(e);
	if (e->resume)
		run_resume(e);
	if (e->owe)
		run_owe(e);
	if (unlikely(rnr_is_due(e)))
		timers_run(e, clock_ns());
}

/* ---- life ---- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&list_lock);
	for (struct engine *e = engines; e; e = e->next)
		lock_take(&e->lock);
}

static void fork_parent(void)
{
	for (struct engine *e = engines; e; e = e->next)
		lock_drop(&e->lock);
	pthread_mutex_unlock(&list_lock);
}

/* The node stays the parent's: the child may only free local memory of what it inherited. */
static void fork_child(void)
{
	for (struct engine *e = engines; e; e = e->next) {
		e->forked = true;
		atomic_store(&e->lock.word, 0);
	}
	engines = NULL; /* a device opened afresh makes a new node */
	pthread_mutex_init(&list_lock, NULL);
}

static void install_fork_handlers(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static int engine_start(struct engine *e, const struct settings *set, char *err, size_t err_size)
{
	int rc = fabric_open(e->dir, false, &e->fabric, err, err_size);

	if (rc)
		return -rc;
	fabric_set_ring_B(e->fabric, set->ring_KB * 1024u);
	rc = wiretest_new(&set->wire_test, &e->wiretest);
	if (rc) {
		snprintf(err, err_size, "out of memory");
		return rc;
	}
	e->strict_timers = set->strict_timers;
	e->fast = set->direct && !e->wiretest;
	const char *preload = getenv("LD_PRELOAD");
	e->renews_files = !preload || !strstr(preload, "libsimhca-host.so");
	rc = node_join(e->fabric, &e->node);
	if (rc) {
		snprintf(err, err_size, "cannot join fabric %s: %s", e->dir, strerror(-rc));
		return -rc;
	}
	e->seg = node_seg(e->node);
	e->index = node_index(e->node);
	e->nodes = fabric_seg(e->fabric)->nodes;
	/* Under Yama a sibling may only read and write our memory if we say so; refused elsewhere, which is fine. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	rc = agent_start(e);
	if (rc)
		snprintf(err, err_size, "cannot start the agent thread: %s", strerror(rc));
	return rc;
}

static void engine_free(struct engine *e)
{
	if (e->node && !e->forked)
		node_leave(e->node);
	else if (e->node)
		node_forget_after_fork(e->node);
	if (!e->forked)
		fabric_close(e->fabric);
	for (size_t i = 0; i < ARRAY_LEN(e->qps); i++)
		free(e->qps[i]);
	for (size_t i = 0; i < ARRAY_LEN(e->keys); i++)
		free(e->keys[i]);
	wiretest_free(e->wiretest);
	free(e);
}

struct engine *engine_get(const char *dir, const struct settings *set, char *err, size_t err_size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct engine *e;

	pthread_once(&once, install_fork_handlers);
	pthread_mutex_lock(&list_lock);
	for (e = engines; e; e = e->next)
		if (strcmp(e->dir, dir) == 0)
			break;
	if (!e) {
		int rc = ENOMEM;
		e = calloc(1, sizeof(*e));
		if (!e) {
			snprintf(err, err_size, "out of memory");
		} else {
			snprintf(e->dir, sizeof(e->dir), "%s", dir);
			rc = engine_start(e, set, err, err_size);
		}
		if (rc) {
			if (e)
				engine_free(e);
			pthread_mutex_unlock(&list_lock);
			errno = rc;
			return NULL;
		}
		e->next = engines;
		engines = e;
	}
	e->users++;
	pthread_mutex_unlock(&list_lock);
	return e;
}

void engine_put(struct engine *e)
{
	pthread_mutex_lock(&list_lock);
	if (--e->users) {
		pthread_mutex_unlock(&list_lock);
		return;
	}
	for (struct engine **p = &engines; *p; p = &(*p)->next)
		if (*p == e) {
			*p = e->next;
			break;
		}
	if (!e->forked)
		agent_stop(e);
	engine_free(e);
	pthread_mutex_unlock(&list_lock);
}

/* At process exit with devices left open: leave the fabric, but unmap nothing, other threads may still poll. */
__attribute__((destructor)) static void leave_at_exit(void)
{
	pthread_mutex_lock(&list_lock);
	for (struct engine *e = engines; e; e = e->next) {
		lock_take(&e->lock);
		e->forked = true;
		lock_drop(&e->lock);
		agent_stop(e);
		node_leave_at_exit(e->node);
		fabric_close_at_exit(e->fabric);
	}
	engines = NULL;
	pthread_mutex_unlock(&list_lock);
}
