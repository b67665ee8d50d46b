/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench WHAT: one figure that the stock tools do not give, as "name value unit" lines.
 *   writev   one process_vm_writev of 8 bytes to another process
 *   post     one post_send of 64 B inline, and one poll of an empty CQ
 *   pairs N  one 8-byte WRITE, posted and polled, to another process when N queue pairs are connected to it: always
 *            over the same one, and over all of them
 */
#include "tests/scenarios/pair.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 7, REPEATS = 20000, POST_DEPTH = 256, POST_ROUNDS = 100, SEND_B = 64 };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of some rounds: the machine is shared. */
static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

/* ---- process_vm_writev ------------------------------------------------------------------------------------------- */

static int bench_writev(void)
{
	static uint64_t word;
	double ns[ROUNDS];
	pid_t pid = fork();

	must(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	uint64_t value = 1;
	struct iovec from = {&value, sizeof(value)}, to = {&word, sizeof(word)};

	for (int round = 0; round < ROUNDS; round++) {
		int64_t start = wall_ns();

		for (int i = 0; i < REPEATS; i++)
			must(process_vm_writev(pid, &from, 1, &to, 1, 0) == sizeof(value));
		ns[round] = (double)(wall_ns() - start) / REPEATS;
	}
	kill(pid, SIGKILL);
	must(waitpid(pid, NULL, 0) == pid);
	printf("process_vm_writev_8B %.1f ns\n", median(ns, ROUNDS));
	return 0;
}

/* ---- posting and polling -------------------------------------------------------------------------------------------
 */

static double empty_poll_ns(struct pair *p)
{
	double ns[ROUNDS];
	struct ibv_wc wc;

	for (int round = 0; round < ROUNDS; round++) {
		int64_t start = wall_ns();

		for (int i = 0; i < REPEATS; i++)
			must(ibv_poll_cq(p->a.rcq, 1, &wc) == 0);
		ns[round] = (double)(wall_ns() - start) / REPEATS;
	}
	return median(ns, ROUNDS);
}

/* Only the posts are timed; every batch is drained before the next. */
static double post_ns(struct pair *p, enum ibv_wr_opcode code)
{
	double ns[POST_ROUNDS];
	struct done d;

	for (int round = 0; round < POST_ROUNDS; round++) {
		struct ibv_sge sge = {p->a.info.addr, SEND_B, 0};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = code,
					 .send_flags = IBV_SEND_INLINE,
					 .wr.rdma = {p->b.info.addr, p->b.info.rkey}},
				   *bad;

		for (int i = 0; code == IBV_WR_SEND && i < POST_DEPTH; i++)
			must(!side_recv(&p->b, 0, 0, SEND_B));
		int64_t start = wall_ns();

		for (int i = 0; i < POST_DEPTH; i++) {
			if (i == POST_DEPTH - 1)
				wr.send_flags |= IBV_SEND_SIGNALED;
			must(!ibv_post_send(p->a.qp, &wr, &bad));
		}
		ns[round] = (double)(wall_ns() - start) / POST_DEPTH;
		while (raw_poll(&p->a, SQ, &d) != 1)
			;
		must(d.wc.status == IBV_WC_SUCCESS);
		for (int i = 0; code == IBV_WR_SEND && i < POST_DEPTH; i++)
			must(side_wc(&p->b, RQ, &d, PAIR_POLL_MS) == 1);
	}
	return median(ns, POST_ROUNDS);
}

static int bench_post(void)
{
	struct pair p;
	struct pair_attr attr = pair_attr(SEND_B, POST_DEPTH);

	attr.cqe = 2 * POST_DEPTH;

	setenv("SIMHCA_TEST_PROCS", "2", 1);
	pair_make(&p, &attr);
	printf("post_send_64B_inline %.1f ns\n", post_ns(&p, IBV_WR_SEND));
	printf("post_write_64B_inline %.1f ns\n", post_ns(&p, IBV_WR_RDMA_WRITE));
	printf("poll_empty_cq %.1f ns\n", empty_poll_ns(&p));
	pair_free(&p);
	return 0;
}

/* ---- many queue pairs
 * ------------------------------------------------------------------------------------------------ */

/* One side of N queue pairs; what the other has to know of each is its number. */
struct many {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp **qp;
	uint64_t buf[8];
	unsigned count;
};

struct hello {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
};

static void all(int fd, void *p, size_t n, bool out)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = out ? write(fd, (char *)p + done, n - done) : read(fd, (char *)p + done, n - done);

		must(k > 0);
		done += (size_t)k;
	}
}

static void to_rts(struct ibv_qp *qp, const struct hello *peer, uint32_t qpn, uint8_t gid_index)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = qpn,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 1,
	    .ah_attr = {.port_num = 1, .is_global = 1, .grh = {.dgid = peer->gid, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {
	    .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

	rtr.ah_attr.grh.sgid_index = gid_index;
	must(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	must(!ibv_modify_qp(qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	must(!ibv_modify_qp(qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC));
}

static void open_many(struct many *m, unsigned count, int device, int fd, struct hello *peer)
{
	struct hello mine;

	m->count = count;
	m->ctx = open_device(device);
	m->pd = ibv_alloc_pd(m->ctx);
	m->cq = ibv_create_cq(m->ctx, 64, NULL, NULL, 0);
	m->mr = ibv_reg_mr(m->pd, m->buf, sizeof(m->buf), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	m->qp = calloc(count, sizeof(*m->qp));
	must(m->pd && m->cq && m->mr && m->qp);
	int gid_index = default_gid_index(m->ctx);

	must(!ibv_query_gid(m->ctx, 1, gid_index, &mine.gid));
	mine.addr = (uint64_t)(uintptr_t)m->buf;
	mine.rkey = m->mr->rkey;
	all(fd, &mine, sizeof(mine), true);
	all(fd, peer, sizeof(*peer), false);
	struct ibv_qp_init_attr init = {
	    .send_cq = m->cq, .recv_cq = m->cq, .cap = pair_attr(8, 4).cap, .qp_type = IBV_QPT_RC};

	for (unsigned i = 0; i < count; i++) {
		uint32_t qpn;

		m->qp[i] = ibv_create_qp(m->pd, &init);
		must(m->qp[i]);
		all(fd, &m->qp[i]->qp_num, sizeof(qpn), true);
		all(fd, &qpn, sizeof(qpn), false);
		to_rts(m->qp[i], peer, qpn, (uint8_t)gid_index);
	}
}

static void close_many(struct many *m)
{
	for (unsigned i = 0; i < m->count; i++)
		must(!ibv_destroy_qp(m->qp[i]));
	free(m->qp);
	must(!ibv_dereg_mr(m->mr));
	must(!ibv_destroy_cq(m->cq));
	must(!ibv_dealloc_pd(m->pd));
	must(!ibv_close_device(m->ctx));
}

/* Over the first `used` of the queue pairs, in random order. */
static double message_ns(struct many *m, const struct hello *peer, unsigned used)
{
	double ns[ROUNDS];
	uint32_t next = 1;

	for (int round = 0; round < ROUNDS; round++) {
		int64_t start = wall_ns();

		for (int i = 0; i < REPEATS; i++) {
			struct ibv_sge sge = {(uint64_t)(uintptr_t)m->buf, 8, m->mr->lkey};
			struct ibv_send_wr wr = {.sg_list = &sge,
						 .num_sge = 1,
						 .opcode = IBV_WR_RDMA_WRITE,
						 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
						 .wr.rdma = {peer->addr, peer->rkey}},
					   *bad;
			struct ibv_wc wc;
			int n;

			next = next * 1664525u + 1013904223u;
			must(!ibv_post_send(m->qp[(next >> 8) % used], &wr, &bad));
			while (!(n = ibv_poll_cq(m->cq, 1, &wc)))
				;
			must(n == 1 && wc.status == IBV_WC_SUCCESS);
		}
		ns[round] = (double)(wall_ns() - start) / REPEATS;
	}
	return median(ns, ROUNDS);
}

static int bench_pairs(unsigned count)
{
	static struct many m;
	struct hello peer;
	int fds[2];
	char byte = 0;

	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	pid_t pid = fork();

	must(pid >= 0);
	int fd = fds[!pid];

	close(fds[!!pid]);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	int64_t start = wall_ns();

	open_many(&m, count, pid ? 0 : 1, fd, &peer);
	if (pid) {
		printf("connect_%u_pairs %.1f us each\n", count, (double)(wall_ns() - start) / 1000 / count);
		printf("message_with_%u_pairs %.1f ns\n", count, message_ns(&m, &peer, 1));
		printf("message_over_%u_pairs %.1f ns\n", count, message_ns(&m, &peer, count));
		all(fd, &byte, 1, true);
	} else {
		all(fd, &byte, 1, false);
	}
	close_many(&m);
	if (pid) {
		int status;

		must(waitpid(pid, &status, 0) == pid && !status);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "writev"))
		return bench_writev();
	if (!strcmp(what, "post"))
		return bench_post();
	if (!strcmp(what, "pairs") && argc > 2 && atoi(argv[2]) > 0)
		return bench_pairs((unsigned)atoi(argv[2]));
	fprintf(stderr, "usage: bench writev | post | pairs N\n");
	return 2;
}
