/* SPDX-License-Identifier: BSD-2-Clause */
/* What a fork leaves intact in the parent, and what it takes from the child. */
#include "tests/scenarios/scenario.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sends both ways; must work before, during and after. */
static void traffic(struct pair *p, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		struct op op = {.code = IBV_WR_SEND, .wr_id = (uint64_t)i, .len = 5000, .flags = IBV_SEND_SIGNALED};

		must(!side_recv(&p->b, 100, 8192, 8192));
		side_fill(&p->a, 0, (uint8_t)(i + 1), 5000);
		must(!side_post(&p->a, &op));
		struct done d;

		must(side_wc(&p->a, SQ, &d, patience_ms(PAIR_POLL_MS)) == 1 && d.wc.status == IBV_WC_SUCCESS);
		must(side_wc(&p->b, RQ, &d, patience_ms(PAIR_POLL_MS)) == 1 && d.wc.status == IBV_WC_SUCCESS);
		must(side_all(&p->b, 8192, (uint8_t)(i + 1), 5000));
	}
}

static void make(struct pair *p)
{
	struct pair_attr attr = pair_attr(0, 8);

	pair_make(p, &attr);
	traffic(p, 10);
}

static int status_of(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, 0) == pid);
	return status;
}

Test(fork, child_exits)
{
	struct pair p;

	make(&p);
	for (int with_atexit = 0; with_atexit < 2; with_atexit++) {
		pid_t pid = fork();

		must(pid >= 0);
		if (!pid) {
			if (with_atexit)
				exit(0); /* destructors of the libraries run in the child */
			_exit(0);
		}
		traffic(&p, 10);
		cr_assert_eq(status_of(pid), 0);
		traffic(&p, 10);
	}
	pair_free(&p);
}

Test(fork, child_execs)
{
	struct pair p;

	make(&p);
	pid_t pid = fork();

	must(pid >= 0);
	if (!pid) {
		execlp("sh", "sh", "-c", "ibv_devices >/dev/null && exec true", (char *)NULL);
		_exit(127);
	}
	traffic(&p, 10);
	cr_assert_eq(status_of(pid), 0);
	traffic(&p, 10);
	pair_free(&p);
}

Test(fork, child_opens_its_own_device)
{
	struct pair p;

	make(&p);
	pid_t pid = fork();

	must(pid >= 0);
	if (!pid) {
		struct pair own;

		make(&own);
		traffic(&own, 50);
		pair_free(&own);
		_exit(0);
	}
	traffic(&p, 50);
	cr_assert_eq(status_of(pid), 0);
	traffic(&p, 10);
	pair_free(&p);
}

/* The child's new node talks to the parent's old one. */
Test(fork, child_talks_to_its_parent)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 8);

	make(&p);
	setenv("SIMHCA_TEST_PROCS", "2", 1);
	struct pair across;

	pair_make(&across, &attr); /* side B forks from a process with an open device */
	traffic(&across, 50);
	traffic(&p, 10);
	pair_free(&across);
	pair_free(&p);
}

static int use_inherited(struct pair *p)
{
	struct op op = {.code = IBV_WR_SEND, .len = 8, .flags = IBV_SEND_SIGNALED};
	struct done d;

	if (abs(side_post(&p->a, &op)) != EIO)
		return 1;
	if (abs(side_recv(&p->a, 1, 0, 64)) != EIO)
		return 2;
	if (raw_poll(&p->a, SQ, &d) != -EIO)
		return 3;
	errno = 0;
	if (ibv_reg_mr(p->a.pd, p->a.buf, 4096, 0) || errno != EIO)
		return 4;
	if (ibv_destroy_qp(p->a.qp) || ibv_destroy_cq(p->a.scq) || ibv_destroy_cq(p->a.rcq) || ibv_dereg_mr(p->a.mr))
		return 5;
	if (ibv_dealloc_pd(p->a.pd) || ibv_close_device(p->a.ctx))
		return 6;
	return 0;
}

Test(fork, inherited_objects_give_eio)
{
	struct pair p;

	make(&p);
	pid_t pid = fork();

	must(pid >= 0);
	if (!pid)
		_exit(use_inherited(&p));
	int status = status_of(pid);

	cr_assert(WIFEXITED(status), "child ended with status %x", (unsigned)status);
	cr_assert_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
	traffic(&p, 10);
	pair_free(&p);
}

/* ---- with other threads at work in the parent ------------------------------------------------------------------ */

enum { FORKS = 100 };

struct crowd {
	struct pair p;
	struct ibv_device **list; /* got once: libibverbs has a lock of its own there, which no fork leaves intact */
	_Atomic bool stop;	  /* only ends the loops */
	_Atomic unsigned rounds;  /* of traffic */
};

static void *carry_on(void *arg)
{
	struct crowd *c = arg;

	while (!atomic_load(&c->stop)) {
		traffic(&c->p, 1);
		atomic_fetch_add(&c->rounds, 1);
	}
	return NULL;
}

/* Devices come and go, and regions and queues of the device that the children close. */
static void *churn(void *arg)
{
	struct crowd *c = arg;

	while (!atomic_load(&c->stop)) {
		struct ibv_context *ctx = ibv_open_device(c->list[0]);
		struct ibv_pd *pd = ibv_alloc_pd(c->p.a.ctx);
		struct ibv_cq *cq = ibv_create_cq(c->p.a.ctx, 16, NULL, NULL, 0);
		struct ibv_qp_init_attr init = {
		    .send_cq = cq, .recv_cq = cq, .cap = pair_attr(0, 8).cap, .qp_type = IBV_QPT_RC};

		must(ctx && pd && cq);
		struct ibv_mr *mr = ibv_reg_mr(pd, c->p.a.buf, 4096, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_qp *qp = ibv_create_qp(pd, &init);

		must(mr && qp);
		must(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq));
		must(!ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
	}
	return NULL;
}

static int destroy_inherited(struct crowd *c)
{
	int step = use_inherited(&c->p);

	if (!step)
		exit(0); /* with the destructors of the libraries */
	return step;
}

static int use_own_device(struct crowd *c)
{
	struct pair own;

	(void)c;
	make(&own);
	traffic(&own, 10);
	pair_free(&own);
	return 0;
}

static void fork_many(struct crowd *c, int (*child)(struct crowd *c))
{
	for (int i = 0; i < FORKS; i++) {
		unsigned rounds = atomic_load(&c->rounds);
		pid_t pid = fork();

		must(pid >= 0);
		if (!pid) {
			alarm((unsigned)patience_ms(10000) / 1000); /* a child that hangs ends here */
			_exit(child(c));
		}
		int status = status_of(pid);

		cr_assert(WIFEXITED(status), "child %d ended with status %x", i, (unsigned)status);
		cr_assert_eq(WEXITSTATUS(status), 0, "child %d, step %d", i, WEXITSTATUS(status));
		while (atomic_load(&c->rounds) == rounds)
			usleep(100); /* the traffic goes on */
	}
}

static void in_a_crowd(int (*child)(struct crowd *c))
{
	static struct crowd c; /* a failed assertion leaves this function before the threads end */
	pthread_t threads[2];

	make(&c.p);
	c.list = ibv_get_device_list(NULL);
	must(c.list);
	alarm((unsigned)patience_ms(50000) / 1000); /* a parent that hangs ends here */
	must(!pthread_create(&threads[0], NULL, carry_on, &c));
	must(!pthread_create(&threads[1], NULL, churn, &c));
	fork_many(&c, child);
	atomic_store(&c.stop, true);
	for (int i = 0; i < 2; i++)
		must(!pthread_join(threads[i], NULL));
	alarm(0);
	ibv_free_device_list(c.list);
	traffic(&c.p, 10);
	pair_free(&c.p);
}

Test(fork, threads_work_while_children_destroy, .timeout = 300)
{
	in_a_crowd(destroy_inherited);
}

Test(fork, threads_work_while_children_open_devices, .timeout = 300)
{
	in_a_crowd(use_own_device);
}
