/* SPDX-License-Identifier: BSD-2-Clause */
/* What a fork leaves intact in the parent, and what it takes from the child. */
#include "tests/scenarios/scenario.h"

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
