/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/scenarios/scenario.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct bare bare_open(void)
{
	struct bare b = {.ctx = open_device(0)};

	b.pd = ibv_alloc_pd(b.ctx);
	must(b.pd);
	b.cq = ibv_create_cq(b.ctx, 64, NULL, NULL, 0);
	must(b.cq);
	return b;
}

void bare_close(struct bare *b)
{
	ok(ibv_destroy_cq(b->cq));
	ok(ibv_dealloc_pd(b->pd));
	ok(ibv_close_device(b->ctx));
}

struct ibv_qp *bare_qp(struct bare *b, struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr init = {.send_cq = b->cq, .recv_cq = b->cq, .cap = *cap, .qp_type = IBV_QPT_RC};

	errno = 0;
	struct ibv_qp *qp = ibv_create_qp(b->pd, &init);

	if (qp)
		*cap = init.cap;
	return qp;
}

struct ibv_qp *bare_qp_inline(struct bare *b, uint32_t inline_B, uint32_t *grant)
{
	struct ibv_qp_cap cap = pair_attr(inline_B, 16).cap;
	struct ibv_qp *qp = bare_qp(b, &cap);

	if (qp && grant)
		*grant = cap.max_inline_data;
	return qp;
}

static int caught_fd = -1, kept_fd = -1;

void stderr_catch(void)
{
	fflush(stderr);
	caught_fd = memfd_create("stderr", MFD_CLOEXEC);
	must(caught_fd >= 0);
	kept_fd = dup(STDERR_FILENO);
	must(kept_fd >= 0);
	must(dup2(caught_fd, STDERR_FILENO) >= 0);
}

const char *stderr_caught(void)
{
	static char text[16384];

	fflush(stderr);
	must(dup2(kept_fd, STDERR_FILENO) >= 0);
	close(kept_fd);
	ssize_t n = pread(caught_fd, text, sizeof(text) - 1, 0);

	must(n >= 0);
	text[n] = '\0';
	close(caught_fd);
	return text;
}
