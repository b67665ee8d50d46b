/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent: a thread that holds the node's life mutex, runs the engine when the application does not, and fires
 * the timers. It has three ways to sleep, all on the shared word agent_sleeps:
 *
 *   driven    the application polls: a nap of TICK_NS; senders do not wake it (word 0)
 *   watching  the application is silent or has an armed completion queue: any packet wakes it (word 1), and so does
 *             the next deadline
 *   deep      as watching, with nothing outstanding: no time limit; a post wakes it (engine.deep)
 */
#include "sim/fabric/tree.h"
#include "sim/hca/engine.h"

#include <signal.h>

#define TICK_NS	 2000000u /* how late the agent may notice that the application fell silent */
#define RENEW_NS UINT64_C(1000000000)
#define SILENT_NS                                                                                                      \
	(2 * TICK_NS)  /* without a sign of the application before it counts as silent: it may just not run            \
			*/
#define SPIN_NS 30000u /* how long it keeps looking after it has served one-sided requests */

static void timer_check(struct hca_qp *qp, uint64_t now_ns)
{
	if (qp->rnr_until_ns) {
		if (now_ns >= qp->rnr_until_ns) {
			qp->rnr_until_ns = 0;
			qp->progress++;
			requester_run(qp);
		}
		return;
	}
	if (qp->progress != qp->seen_progress || !qp->deadline_ns) {
		qp->seen_progress = qp->progress;
		qp->deadline_ns = now_ns + qp_timeout_ns(qp);
		return;
	}
	if (qp->attr.timeout && now_ns >= qp->deadline_ns)
		completer_timeout(qp, now_ns);
}

static bool outstanding(const struct hca_qp *qp)
{
	return qp->sq.una != qp->sq.sent || qp->sq.tx_off_B || qp->rnr_until_ns || qp->lost;
}

/* Engine lock held. Sets rnr_next_ns to the earliest RNR deadline left. */
void timers_run(struct engine *e, uint64_t now_ns)
{
	uint64_t rnr_next_ns = UINT64_MAX;
	struct hca_qp *next;

	for (struct hca_qp *qp = e->active; qp; qp = next) {
		next = qp->active_next;
		if (!outstanding(qp)) {
			engine_deactivate(qp);
			continue;
		}
		timer_check(qp, now_ns);
		if (qp->rnr_until_ns)
			rnr_next_ns = MIN(rnr_next_ns, qp->rnr_until_ns);
	}
	atomic_store_explicit(&e->rnr_next_ns, rnr_next_ns, memory_order_relaxed);
	atomic_store_explicit(&e->rnr_waits, rnr_next_ns != UINT64_MAX, memory_order_relaxed);
}

/* Earliest deadline of any queue pair, or UINT64_MAX. Engine lock held. */
static uint64_t next_deadline(struct engine *e)
{
	uint64_t first_ns = UINT64_MAX;

	for (struct hca_qp *qp = e->active; qp; qp = qp->active_next) {
		uint64_t t = qp->rnr_until_ns ? qp->rnr_until_ns : qp->attr.timeout ? qp->deadline_ns : UINT64_MAX;
		first_ns = MIN(first_ns, t);
	}
	return first_ns;
}

static void nap(struct engine *e, uint32_t expected, uint64_t limit_ns)
{
	struct timespec ts = {.tv_sec = (time_t)(limit_ns / 1000000000u), .tv_nsec = (long)(limit_ns % 1000000000u)};

	/* Shared futex: senders in other processes wake it. */
	futex_call(&e->seg->agent_sleeps, FUTEX_WAIT, expected, limit_ns == UINT64_MAX ? NULL : &ts);
}

static void agent_sleep(struct engine *e, bool app_alive, uint64_t deadline_ns, bool any_active)
{
	uint64_t now_ns = clock_ns();
	uint64_t limit_ns = deadline_ns == UINT64_MAX ? UINT64_MAX : deadline_ns > now_ns ? deadline_ns - now_ns : 0;

	if (e->renews_files)
		limit_ns = MIN(limit_ns, RENEW_NS);
	if (any_active)
		limit_ns = MIN(limit_ns, UINT64_C(5) * TICK_NS);
	if (app_alive && !atomic_load_explicit(&e->armed_cqs, memory_order_relaxed)) {
		/* A thread that arms a queue meanwhile stores 1, so the wait returns at once. */
		nap(e, atomic_load(&e->seg->agent_sleeps), MIN(limit_ns, TICK_NS));
		return;
	}
	if (app_alive)
		limit_ns = MIN(limit_ns, UINT64_C(5) * TICK_NS);
	atomic_store(&e->seg->agent_sleeps, 1); /* pairs with the sender's look after publishing */
	if (limit_ns == UINT64_MAX)
		atomic_store(&e->deep, true); /* pairs with the poster's look after transmitting */
	if (!engine_has_work(e) && !(limit_ns == UINT64_MAX && atomic_load(&e->app_alive)) && !atomic_load(&e->stop))
		nap(e, 1, limit_ns);
	atomic_store(&e->deep, false);
	atomic_store(&e->seg->agent_sleeps, 0);
}

/* A target of one-sided requests that is not driven by its application: stay awake for a while after each. */
static void spin(struct engine *e)
{
	uint64_t end_ns = clock_ns() + SPIN_NS;

	while (clock_ns() < end_ns) {
		for (int i = 0; i < 50; i++) {
			if (engine_has_work(e)) {
				engine_try(e);
				end_ns = clock_ns() + SPIN_NS;
			}
			__builtin_ia32_pause();
		}
		if (atomic_load_explicit(&e->app_alive, memory_order_relaxed) || atomic_load(&e->stop))
			return;
	}
}

/* Counter files for readers without the preload; at the end once more. */
static void renew_files(struct engine *e, bool at_end)
{
	uint64_t now_ns = clock_ns();

	if (!e->renews_files || (!at_end && now_ns - e->renewed_ns < RENEW_NS))
		return;
	e->renewed_ns = now_ns;
	tree_refresh_counters(e->fabric);
}

static void *agent_main(void *arg)
{
	struct engine *e = arg;

	pthread_setname_np(pthread_self(), "simhca-agent");
	e->agent_err = -node_hold_life(e->node);
	sem_post(&e->agent_ready);
	if (e->agent_err)
		return NULL;
	uint64_t alive_ns = 0; /* last sign of the application */
	while (!atomic_load(&e->stop)) {
		uint64_t now_ns = clock_ns();
		if (atomic_exchange(&e->app_alive, false))
			alive_ns = now_ns;
		bool app_alive = alive_ns && now_ns - alive_ns < SILENT_NS;
		engine_enter(e);
		bool worked = engine_has_work(e);
		if (worked)
			engine_turn(e, 256);
		timers_run(e, now_ns);
		uint64_t deadline_ns = next_deadline(e);
		bool any_active = e->active != NULL;
		engine_leave(e);
		renew_files(e, false);
		if (worked && !app_alive && !atomic_load_explicit(&e->armed_cqs, memory_order_relaxed))
			spin(e);
		if (!engine_has_work(e))
			agent_sleep(e, app_alive, deadline_ns, any_active);
	}
	renew_files(e, true);
	node_drop_life(e->node);
	return NULL;
}

void agent_nudge(struct engine *e)
{
	/* A value that no wait expects: an agent that has looked and not yet gone to sleep stays awake. */
	atomic_store(&e->seg->agent_sleeps, 2);
	futex_call(&e->seg->agent_sleeps, FUTEX_WAKE, 1, NULL);
}

int agent_start(struct engine *e)
{
	sigset_t all, old;
	pthread_attr_t attr;

	sem_init(&e->agent_ready, 0, 0);
	/* Signals are the application's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	int err = pthread_create(&e->agent, &attr, agent_main, e);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return err;
	/* From here on peers know us alive by the agent, however long this thread is kept waiting. */
	while (sem_wait(&e->agent_ready) && errno == EINTR)
		;
	if (e->agent_err)
		pthread_join(e->agent, NULL);
	e->agent_runs = e->agent_err == 0;
	return e->agent_err;
}

void agent_stop(struct engine *e)
{
	if (!e->agent_runs)
		return;
	atomic_store(&e->stop, true);
	node_wake(e->seg);
	agent_nudge(e);
	pthread_join(e->agent, NULL);
	e->agent_runs = false;
}
