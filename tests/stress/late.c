/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * late MODE [ROUNDS [SEED]]: nothing is written late. Another process floods this one's memory, and in the middle of it
 *
 *   dereg    the memory region is deregistered
 *   error    the queue pair goes to ERR
 *   destroy  the queue pair is destroyed
 *   kill     the other process is killed, and the memory region deregistered at once
 *   send     (SENDs instead of WRITEs) the sender leaves by ERR, or dies, and then uses its buffer for something else
 *
 * From then on no byte may change any more, and of what was sent only the old bytes may arrive.
 */
#include "tests/counts.h"
#include "tests/scenarios/pair.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BUF_B = 1 << 20,
	SENDS = 8,
	SEND_B = 65536,
	DEPTH = 16,
	FLOOD = 0x11,	/* what the other process writes */
	FIRST = 0x20,	/* SEND i carries bytes of this plus i */
	LATER = 0xee,	/* what a buffer is used for afterwards */
	WATCH_MS = 3,	/* how long a buffer is watched */
	QUICK_MS = 1000 /* no teardown takes longer */
};
_Static_assert(SENDS *SEND_B <= BUF_B, "the messages fit the buffer");

struct hello {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *buf;
	int sock;
	pid_t pid; /* of the other end */
};

static uint32_t rng;

static uint32_t rnd(uint32_t below)
{
	rng = rng * 1664525u + 1013904223u;
	return (rng >> 8) % below;
}

static void spin_us(uint32_t us)
{
	int64_t end = wall_ns() + (int64_t)us * 1000;

	while (wall_ns() < end)
		;
}

/* ---- an end of the connection ------------------------------------------------------------------------------ */

static void make_qp(struct end *e)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = e->cq, .recv_cq = e->cq, .cap = pair_attr(0, DEPTH).cap, .qp_type = IBV_QPT_RC};

	e->qp = ibv_create_qp(e->pd, &init);
	must(e->qp);
}

static void register_buf(struct end *e)
{
	e->mr = ibv_reg_mr(e->pd, e->buf, BUF_B, all_access(e->ctx));
	must(e->mr);
}

static void open_end(struct end *e, int device)
{
	e->ctx = open_device(device);
	e->pd = ibv_alloc_pd(e->ctx);
	must(e->pd);
	e->cq = ibv_create_cq(e->ctx, 4 * DEPTH, NULL, NULL, 0);
	must(e->cq);
	e->buf = aligned_alloc(4096, BUF_B);
	must(e->buf);
	make_qp(e);
}

static void close_end(struct end *e)
{
	must(!ibv_destroy_qp(e->qp));
	must(!ibv_destroy_cq(e->cq));
	must(!ibv_dealloc_pd(e->pd));
	must(!ibv_close_device(e->ctx));
	free(e->buf);
}

static void to_state(struct end *e, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	must(!ibv_modify_qp(e->qp, &attr, IBV_QP_STATE));
}

/* Ready to be connected again. */
static void reset_end(struct end *e)
{
	struct ibv_wc wc;

	to_state(e, IBV_QPS_RESET);
	while (ibv_poll_cq(e->cq, 1, &wc) > 0)
		;
}

static void connect_end(struct end *e, const struct hello *peer)
{
	int gid = default_gid_index(e->ctx);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = all_access(e->ctx)};

	must(!ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = peer->qpn,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 1,
				    .ah_attr = {.is_global = 1, .port_num = 1}};
	attr.ah_attr.grh.dgid = peer->gid;
	attr.ah_attr.grh.sgid_index = (uint8_t)gid;
	must(!ibv_modify_qp(e->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	/* short tries: the peer goes away every round */
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 3, .rnr_retry = 7, .max_rd_atomic = 1};
	must(!ibv_modify_qp(e->qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC));
}

/* ---- words between the two processes ---------------------------------------------------------------------- */

static void tell(struct end *e, const void *what, size_t size)
{
	must(send(e->sock, what, size, MSG_NOSIGNAL) == (ssize_t)size);
}

static void hear(struct end *e, void *what, size_t size)
{
	must(recv(e->sock, what, size, MSG_WAITALL) == (ssize_t)size);
}

static void introduce_self(struct end *e)
{
	struct hello h = {.addr = (uint64_t)(uintptr_t)e->buf, .qpn = e->qp->qp_num, .rkey = e->mr->rkey};

	must(!ibv_query_gid(e->ctx, 1, default_gid_index(e->ctx), &h.gid));
	tell(e, &h, sizeof(h));
}

static struct hello connect_to_other(struct end *e)
{
	struct hello h;

	hear(e, &h, sizeof(h));
	connect_end(e, &h);
	return h;
}

/* ---- the other process ---------------------------------------------------------------------------------------- */

static int post(struct end *e, enum ibv_wr_opcode code, uint32_t off, uint32_t len, const struct hello *peer)
{
	struct ibv_sge sge = {(uint64_t)(uintptr_t)e->buf + off, len, e->mr->lkey};
	struct ibv_send_wr wr = {.opcode = code, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.wr.rdma.remote_addr = peer->addr;
	wr.wr.rdma.rkey = peer->rkey;
	return ibv_post_send(e->qp, &wr, &bad);
}

/* WRITEs until one fails. */
static void flood_once(struct end *e)
{
	introduce_self(e);
	struct hello peer = connect_to_other(e);
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	int under_way = 0;

	while (wc.status == IBV_WC_SUCCESS) {
		while (under_way < 8 && !post(e, IBV_WR_RDMA_WRITE, 0, BUF_B, &peer))
			under_way++;
		int n = ibv_poll_cq(e->cq, 1, &wc);

		must(n >= 0);
		under_way -= n;
	}
	reset_end(e);
}

/* Leaves at any moment, by ERR or for good; once it has all its requests back, its buffer is its own again. */
static void send_once(struct end *e)
{
	introduce_self(e);
	struct hello peer = connect_to_other(e);
	struct ibv_wc wc;
	bool dies = !rnd(3);

	for (uint32_t i = 0; i < SENDS; i++)
		memset(e->buf + i * SEND_B, FIRST + (int)i, SEND_B);
	for (uint32_t i = 0; i < SENDS; i++)
		must(!post(e, IBV_WR_SEND, i * SEND_B, SEND_B, &peer));
	spin_us(rnd((uint32_t)patience_ms(100)));
	if (dies)
		raise(SIGKILL);
	to_state(e, IBV_QPS_ERR);
	for (int i = 0; i < SENDS;) {
		int n = ibv_poll_cq(e->cq, 1, &wc);

		must(n >= 0);
		i += n;
	}
	memset(e->buf, LATER, BUF_B);
	tell(e, "", 1);
	reset_end(e);
}

static void be_the_other(struct end *e, void (*once)(struct end *e))
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_end(e, 0);
	memset(e->buf, FLOOD, BUF_B);
	register_buf(e);
	for (;;)
		once(e);
}

static void start_other(struct end *e, void (*once)(struct end *e))
{
	struct timeval patience = {.tv_sec = patience_ms(20000) / 1000};
	int fds[2];

	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	fflush(NULL);
	rng += 12345; /* the next one shall not do the same */
	e->pid = fork();
	must(e->pid >= 0);
	if (!e->pid) {
		struct end other = {.sock = fds[1]};

		close(fds[0]);
		be_the_other(&other, once);
	}
	close(fds[1]);
	e->sock = fds[0];
	must(!setsockopt(e->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
}

static void end_other(struct end *e)
{
	kill(e->pid, SIGKILL);
	must(waitpid(e->pid, NULL, 0) == e->pid);
	close(e->sock);
}

/* ---- this process: WRITEs ---------------------------------------------------------------------------------- */

static bool all_are(const unsigned char *mem, unsigned char value, size_t size)
{
	return mem[0] == value && !memcmp(mem, mem + 1, size - 1);
}

/* Sees byte `at` of a WRITE come. */
static void await_byte(struct end *e, uint32_t at)
{
	volatile unsigned char *byte = e->buf + at;
	int64_t end = wall_ns() + (int64_t)patience_ms(20000) * 1000000;

	*byte = 0;
	while (*byte != FLOOD)
		must(wall_ns() < end);
}

/* The flood is under way, at any moment of it: every other time in the first part of a WRITE. */
static void await_moment(struct end *e)
{
	await_byte(e, BUF_B - 1);
	spin_us(rnd(2000));
	if (rnd(2))
		await_byte(e, rnd(BUF_B / 4));
}

/* The buffer is used for something else: it must stay as it is. */
static void watch(struct end *e, unsigned round)
{
	int64_t end;

	memset(e->buf, LATER, BUF_B);
	end = wall_ns() + (int64_t)WATCH_MS * 1000000;
	while (wall_ns() < end)
		if (!all_are(e->buf, LATER, BUF_B)) {
			fprintf(stderr, "late: round %u: the buffer was written to afterwards\n", round);
			abort();
		}
}

static void end_dereg(struct end *e)
{
	must(!ibv_dereg_mr(e->mr));
}

static void end_error(struct end *e)
{
	to_state(e, IBV_QPS_ERR);
}

static void end_destroy(struct end *e)
{
	must(!ibv_destroy_qp(e->qp));
}

static void end_kill(struct end *e)
{
	kill(e->pid, SIGKILL);
	must(!ibv_dereg_mr(e->mr));
}

static void write_round(struct end *e, void (*stop)(struct end *e), unsigned round)
{
	memset(e->buf, 0, BUF_B);
	register_buf(e);
	connect_to_other(e);
	introduce_self(e); /* from now on it is written to */
	await_moment(e);
	int64_t start = wall_ns();

	stop(e);
	int64_t took = wall_ns() - start;

	watch(e, round);
	if (took > (int64_t)patience_ms(QUICK_MS) * 1000000) {
		fprintf(stderr, "late: round %u: it took %ld ns\n", round, (long)took);
		abort();
	}
	if (stop == end_destroy || stop == end_error)
		must(!ibv_dereg_mr(e->mr));
	if (stop == end_destroy) {
		make_qp(e);
	} else {
		to_state(e, IBV_QPS_ERR);
		reset_end(e);
	}
	if (stop == end_kill) {
		end_other(e);
		start_other(e, flood_once);
	}
}

/* ---- this process: SENDs ----------------------------------------------------------------------------------- */

static void take_receives(struct end *e, bool got[SENDS])
{
	struct ibv_wc wc;

	while (ibv_poll_cq(e->cq, 1, &wc) > 0)
		if (wc.status == IBV_WC_SUCCESS) {
			must(wc.wr_id < SENDS && wc.byte_len == SEND_B);
			got[wc.wr_id] = true;
		}
}

static void check_receives(struct end *e, const bool got[SENDS], unsigned round)
{
	for (int i = 0; i < SENDS; i++)
		if (got[i] && !all_are(e->buf + i * SEND_B, (unsigned char)(FIRST + i), SEND_B)) {
			fprintf(stderr, "late: round %u: message %d succeeded with other bytes\n", round, i);
			abort();
		}
}

/* Until the other one says that it has its buffer back, or is gone; and a little longer. */
static bool receive_all(struct end *e, bool got[SENDS])
{
	int64_t end = wall_ns() + (int64_t)patience_ms(20000) * 1000000;
	char word;
	ssize_t said;

	do {
		take_receives(e, got);
		said = recv(e->sock, &word, 1, MSG_DONTWAIT);
		must(wall_ns() < end);
	} while (said < 0);
	for (end = wall_ns() + (int64_t)WATCH_MS * 1000000; wall_ns() < end;)
		take_receives(e, got);
	return said == 1;
}

static unsigned send_round(struct end *e, unsigned round)
{
	bool got[SENDS] = {false};
	unsigned count = 0;

	memset(e->buf, 0, BUF_B);
	register_buf(e);
	connect_to_other(e);
	for (uint64_t i = 0; i < SENDS; i++) {
		struct ibv_sge sge = {(uint64_t)(uintptr_t)e->buf + i * SEND_B, SEND_B, e->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		must(!ibv_post_recv(e->qp, &wr, &bad));
	}
	introduce_self(e);
	bool lives = receive_all(e, got);

	check_receives(e, got, round);
	to_state(e, IBV_QPS_ERR);
	reset_end(e);
	must(!ibv_dereg_mr(e->mr));
	if (!lives) {
		end_other(e);
		start_other(e, send_once);
	}
	for (int i = 0; i < SENDS; i++)
		count += got[i];
	return count;
}

/* ---- all rounds ---------------------------------------------------------------------------------------------- */

static const struct mode {
	const char *name;
	void (*stop)(struct end *e); /* NULL: SENDs */
} modes[] = {{"dereg", end_dereg}, {"error", end_error}, {"destroy", end_destroy}, {"kill", end_kill}, {"send", NULL}};

static void run(const struct mode *m, unsigned rounds)
{
	void (*once)(struct end * e) = m->stop ? flood_once : send_once;
	struct end e = {.sock = -1};
	unsigned received = 0;

	start_other(&e, once);
	open_end(&e, 1);
	for (unsigned i = 0; i < rounds; i++)
		if (m->stop)
			write_round(&e, m->stop, i);
		else
			received += send_round(&e, i);
	end_other(&e);
	close_end(&e);
	printf("late: %s: %u rounds", m->name, rounds);
	if (!m->stop)
		printf(", %u of %u messages came", received, rounds * SENDS);
	printf("\n");
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes) && argc >= 2; i++)
		if (!strcmp(argv[1], modes[i].name)) {
			rng = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : (uint32_t)wall_ns();
			printf("late: seed %u\n", rng);
			run(&modes[i], argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : test_count("late_rounds"));
			return 0;
		}
	fprintf(stderr, "usage: late dereg|error|destroy|kill|send [rounds [seed]]\n");
	return 2;
}
