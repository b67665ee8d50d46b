/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/scenarios/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void pair_die(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: cannot go on without: %s (errno %d, %s)\n", file, line, what, errno, strerror(errno));
	fflush(stderr);
	abort();
}

int patience_ms(int ms)
{
	const char *slow = getenv("SIMHCA_TEST_SLOW");
	int factor = slow ? atoi(slow) : 1;

	return ms * (factor > 0 ? factor : 1);
}

uint8_t lossy_timeout(void)
{
	return patience_ms(1) > 1 ? 13 : 12;
}

int64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool pair_split(void)
{
	const char *procs = getenv("SIMHCA_TEST_PROCS");

	return procs && atoi(procs) == 2;
}

struct pair_attr pair_attr(uint32_t inline_B, uint32_t depth)
{
	return (struct pair_attr){
	    .cap = {.max_send_wr = depth,
		    .max_recv_wr = depth,
		    .max_send_sge = 1,
		    .max_recv_sge = 1,
		    .max_inline_data = inline_B},
	    .cqe = 64,
	    .mtu = IBV_MTU_1024,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .min_rnr_timer = 1,
	    .rd_atomic = 4,
	    .gid_index = {-1, -1},
	};
}

/* ---- opening ------------------------------------------------------------------------------------------------ */

struct ibv_context *open_device(int index)
{
	int num = 0;
	struct ibv_device **list = ibv_get_device_list(&num);

	must(list);
	must(num > 0);
	struct ibv_context *ctx = ibv_open_device(list[index < num ? index : 0]);

	must(ctx);
	ibv_free_device_list(list);
	return ctx;
}

int default_gid_index(struct ibv_context *ctx)
{
	static const uint8_t v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	struct ibv_gid_entry e;

	for (uint32_t i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(ctx, 1, i, &e, 0) && e.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(e.gid.raw, v4, sizeof(v4)))
			return (int)i;
	return 0;
}

uint64_t device_counter(struct ibv_context *ctx, const char *name)
{
	static const char *const folders[] = {"hw_counters", "counters"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		char path[IBV_SYSFS_PATH_MAX + 128];
		unsigned long long value;

		snprintf(path, sizeof(path), "%s/ports/1/%s/%s", ctx->device->ibdev_path, folders[i], name);
		FILE *f = fopen(path, "re");

		if (!f)
			continue;
		must(fscanf(f, "%llu", &value) == 1);
		fclose(f);
		return value;
	}
	fprintf(stderr, "no counter %s below %s\n", name, ctx->device->ibdev_path);
	must(!"the counter is in the emulated sysfs");
	return 0;
}

unsigned all_access(struct ibv_context *ctx)
{
	struct ibv_device_attr attr;
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	must(!ibv_query_device(ctx, &attr));
	return attr.atomic_cap == IBV_ATOMIC_NONE ? access : access | IBV_ACCESS_REMOTE_ATOMIC;
}

static void make_cqs(struct side *s)
{
	if (s->attr.events) {
		s->channel = ibv_create_comp_channel(s->ctx);
		must(s->channel);
	}
	if (s->attr.timestamps) {
		struct ibv_cq_init_attr_ex ex = {.cqe = (uint32_t)s->attr.cqe,
						 .wc_flags =
						     IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};

		s->scq_ex = ibv_create_cq_ex(s->ctx, &ex);
		must(s->scq_ex);
		ex.channel = s->channel;
		s->rcq_ex = ibv_create_cq_ex(s->ctx, &ex);
		must(s->rcq_ex);
		s->scq = ibv_cq_ex_to_cq(s->scq_ex);
		s->rcq = ibv_cq_ex_to_cq(s->rcq_ex);
		return;
	}
	s->scq = ibv_create_cq(s->ctx, s->attr.cqe, NULL, NULL, 0);
	must(s->scq);
	s->rcq = ibv_create_cq(s->ctx, s->attr.cqe, NULL, s->channel, 0);
	must(s->rcq);
}

static void fill_info(struct side *s)
{
	struct ibv_port_attr port;
	int gid = s->attr.gid_index[s->index];

	must(!ibv_query_port(s->ctx, 1, &port));
	if (gid < 0)
		gid = default_gid_index(s->ctx);
	must(!ibv_query_gid(s->ctx, 1, gid, &s->info.gid));
	s->info.gid_index = (uint8_t)gid;
	s->info.lid = port.lid;
	s->info.link_layer = port.link_layer;
	s->info.addr = (uint64_t)(uintptr_t)s->buf;
	s->info.rkey = s->mr->rkey;
	s->info.lkey = s->mr->lkey;
	s->info.qpn = s->qp->qp_num;
	s->info.psn = 0x1000u + 0x100u * (uint32_t)s->index;
}

static void open_local(struct side *s)
{
	struct ibv_device_attr_ex dev;

	s->ctx = open_device(pair_split() ? s->index : 0);
	must(!ibv_query_device_ex(s->ctx, NULL, &dev));
	s->clock_khz = dev.hca_core_clock;
	s->pd = ibv_alloc_pd(s->ctx);
	must(s->pd);
	s->buf = aligned_alloc(4096, PAIR_BUF_B);
	must(s->buf);
	memset(s->buf, 0, PAIR_BUF_B);
	s->mr = ibv_reg_mr(s->pd, s->buf, PAIR_BUF_B, all_access(s->ctx));
	must(s->mr);
	make_cqs(s);

	struct ibv_qp_init_attr init = {.send_cq = s->scq,
					.recv_cq = s->rcq,
					.cap = s->attr.cap,
					.qp_type = IBV_QPT_RC,
					.sq_sig_all = s->attr.sq_sig_all};

	s->qp = ibv_create_qp(s->pd, &init);
	must(s->qp);
	s->info.cap = init.cap;
	s->info.atomics = dev.orig_attr.atomic_cap != IBV_ATOMIC_NONE;
	fill_info(s);
}

static void close_local(struct side *s)
{
	if (s->qp)
		must(!ibv_destroy_qp(s->qp));
	for (int i = 0; i < PAIR_EXTRA_MRS; i++)
		if (s->extra[i])
			must(!ibv_dereg_mr(s->extra[i]));
	if (s->scq)
		must(!ibv_destroy_cq(s->scq));
	if (s->rcq)
		must(!ibv_destroy_cq(s->rcq));
	if (s->channel)
		must(!ibv_destroy_comp_channel(s->channel));
	must(!ibv_dereg_mr(s->mr));
	if (s->other_pd)
		must(!ibv_dealloc_pd(s->other_pd));
	must(!ibv_dealloc_pd(s->pd));
	must(!ibv_close_device(s->ctx));
	free(s->buf);
}

/* ---- what a side can do, in the process where it lives --------------------------------------------------- */

static int local_init(struct side *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = all_access(s->ctx)};

	return ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int local_rtr(struct side *s)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = s->attr.mtu,
	    .dest_qp_num = s->peer.qpn,
	    .rq_psn = s->peer.psn,
	    .max_dest_rd_atomic = s->attr.rd_atomic,
	    .min_rnr_timer = s->attr.min_rnr_timer,
	    .ah_attr = {.port_num = 1, .dlid = s->peer.lid},
	};

	if (s->info.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = s->peer.gid;
		attr.ah_attr.grh.sgid_index = s->info.gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	return ibv_modify_qp(s->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int local_rts(struct side *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .timeout = s->attr.timeout,
				   .retry_cnt = s->attr.retry_cnt,
				   .rnr_retry = s->attr.rnr_retry,
				   .sq_psn = s->info.psn,
				   .max_rd_atomic = s->attr.rd_atomic};

	return ibv_modify_qp(s->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC);
}

static int local_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len, uint32_t lkey_add)
{
	struct ibv_sge sge = {(uint64_t)(uintptr_t)s->buf + off, len, s->mr->lkey + lkey_add};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(s->qp, &wr, &bad);
}

static int local_post(struct side *s, const struct op *op)
{
	struct ibv_sge sge = {(uint64_t)(uintptr_t)s->buf + op->off, op->len, s->mr->lkey + op->lkey_add};
	struct ibv_send_wr wr = {.wr_id = op->wr_id,
				 .sg_list = &sge,
				 .num_sge = op->no_sge ? 0 : 1,
				 .opcode = op->code,
				 .send_flags = op->flags,
				 .imm_data = op->imm},
			   *bad;

	if (op->code == IBV_WR_ATOMIC_CMP_AND_SWP || op->code == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = op->raddr;
		wr.wr.atomic.rkey = op->rkey;
		wr.wr.atomic.compare_add = op->compare_add;
		wr.wr.atomic.swap = op->swap;
	} else {
		wr.wr.rdma.remote_addr = op->raddr;
		wr.wr.rdma.rkey = op->rkey;
	}
	return ibv_post_send(s->qp, &wr, &bad);
}

static int64_t ticks_to_ps(const struct side *s, uint64_t ticks)
{
	must(s->clock_khz);
	return (int64_t)((__int128)ticks * 1000000000 / s->clock_khz);
}

static int poll_ex(struct side *s, struct ibv_cq_ex *cq, struct done *d)
{
	struct ibv_poll_cq_attr none = {0};
	int err = ibv_start_poll(cq, &none);

	if (err == ENOENT)
		return 0;
	if (err)
		return -err;
	memset(d, 0, sizeof(*d));
	d->wc.wr_id = cq->wr_id;
	d->wc.status = cq->status;
	d->wc.qp_num = ibv_wc_read_qp_num(cq);
	d->wc.vendor_err = ibv_wc_read_vendor_err(cq);
	if (cq->status == IBV_WC_SUCCESS) {
		d->wc.opcode = ibv_wc_read_opcode(cq);
		d->wc.byte_len = ibv_wc_read_byte_len(cq);
		d->wc.wc_flags = ibv_wc_read_wc_flags(cq);
	}
	d->at_ps = ticks_to_ps(s, ibv_wc_read_completion_ts(cq));
	ibv_end_poll(cq);
	return 1;
}

int raw_poll(struct side *s, enum queue q, struct done *d)
{
	struct ibv_cq_ex *ex = q == SQ ? s->scq_ex : s->rcq_ex;

	if (ex)
		return poll_ex(s, ex, d);
	d->at_ps = 0;
	return ibv_poll_cq(q == SQ ? s->scq : s->rcq, 1, &d->wc);
}

static int local_wc(struct side *s, enum queue q, struct done *d, int timeout_ms)
{
	int64_t end = wall_ns() + (int64_t)timeout_ms * 1000000;

	for (;;) {
		int n = raw_poll(s, q, d);

		if (n || wall_ns() > end)
			return n;
	}
}

static int local_event(struct side *s, int timeout_ms)
{
	struct pollfd fd = {.fd = s->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event e;

	if (poll(&fd, 1, timeout_ms) <= 0)
		return -1;
	must(!ibv_get_async_event(s->ctx, &e));
	ibv_ack_async_event(&e);
	return (int)e.event_type;
}

static uint32_t local_reg(struct side *s, uint32_t off, uint32_t len, unsigned access, bool other_pd)
{
	if (other_pd && !s->other_pd) {
		s->other_pd = ibv_alloc_pd(s->ctx);
		must(s->other_pd);
	}
	for (int i = 0; i < PAIR_EXTRA_MRS; i++)
		if (!s->extra[i]) {
			s->extra[i] = ibv_reg_mr(other_pd ? s->other_pd : s->pd, s->buf + off, len, access);
			must(s->extra[i]);
			return s->extra[i]->rkey;
		}
	must(!"a free place for one more memory region");
	return 0;
}

static int local_destroy_qp(struct side *s)
{
	int err = ibv_destroy_qp(s->qp);

	if (!err)
		s->qp = NULL;
	return err;
}

static enum ibv_qp_state local_state(struct side *s)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	must(!ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static int64_t local_now_ps(struct side *s)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	must(!ibv_query_rt_values_ex(s->ctx, &v));
	/* Providers return cycles: all of them in tv_nsec, or split at a thousand million. */
	return ticks_to_ps(s, (uint64_t)v.raw_clock.tv_sec * 1000000000 + (uint64_t)v.raw_clock.tv_nsec);
}

/* ---- the same from another process ------------------------------------------------------------------------- */

enum fn {
	FN_OPEN,
	FN_PEER,
	FN_INIT,
	FN_RTR,
	FN_RTS,
	FN_RECV,
	FN_POST,
	FN_WC,
	FN_STATE,
	FN_PEEK,
	FN_POKE,
	FN_FILL,
	FN_EVENT,
	FN_REG,
	FN_DESTROY_QP,
	FN_NOW,
	FN_CLOSE
};

struct call {
	enum fn fn;
	union {
		struct pair_attr attr;
		struct side_info info;
		struct op op;
		struct {
			uint64_t wr_id;
			uint32_t off, len, lkey_add;
		} recv;
		struct {
			enum queue q;
			int timeout_ms;
		} wait;
		struct {
			uint32_t off, len;
			uint8_t data[PAIR_PEEK_MAX_B];
		} mem;
		struct {
			uint32_t off, len;
			unsigned access;
			bool other_pd;
		} reg;
	};
};

struct reply {
	int ret, err;
	union {
		struct side_info info;
		struct done done;
		int64_t ps;
		uint32_t rkey;
		uint8_t data[PAIR_PEEK_MAX_B];
	};
};

static int local_do(struct side *s, const struct call *c, struct reply *r)
{
	switch (c->fn) {
	case FN_OPEN:
		s->attr = c->attr;
		open_local(s);
		r->info = s->info;
		return 0;
	case FN_PEER: s->peer = c->info; return 0;
	case FN_INIT: return local_init(s);
	case FN_RTR: return local_rtr(s);
	case FN_RTS: return local_rts(s);
	case FN_RECV: return local_recv(s, c->recv.wr_id, c->recv.off, c->recv.len, c->recv.lkey_add);
	case FN_POST: return local_post(s, &c->op);
	case FN_WC: return local_wc(s, c->wait.q, &r->done, c->wait.timeout_ms);
	case FN_STATE: return (int)local_state(s);
	case FN_PEEK: memcpy(r->data, s->buf + c->mem.off, c->mem.len); return 0;
	case FN_POKE: memcpy(s->buf + c->mem.off, c->mem.data, c->mem.len); return 0;
	case FN_FILL: memset(s->buf + c->mem.off, c->mem.data[0], c->mem.len); return 0;
	case FN_EVENT: return local_event(s, c->wait.timeout_ms);
	case FN_REG: r->rkey = local_reg(s, c->reg.off, c->reg.len, c->reg.access, c->reg.other_pd); return 0;
	case FN_DESTROY_QP: return local_destroy_qp(s);
	case FN_NOW: r->ps = local_now_ps(s); return 0;
	case FN_CLOSE: close_local(s); return 0;
	}
	return EINVAL;
}

static bool whole(int fd, void *p, size_t n, ssize_t (*move)(int, void *, size_t))
{
	for (size_t done = 0; done < n;) {
		ssize_t k = move(fd, (char *)p + done, n - done);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		done += (size_t)k;
	}
	return true;
}

static ssize_t put(int fd, void *p, size_t n)
{
	return send(fd, p, n, MSG_NOSIGNAL);
}

static void serve(struct side *s, int fd)
{
	static struct call c;
	static struct reply r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (whole(fd, &c, sizeof(c), read)) {
		errno = 0;
		r.ret = local_do(s, &c, &r);
		r.err = errno;
		if (!whole(fd, &r, sizeof(r), put))
			break;
		if (c.fn == FN_CLOSE)
			_exit(0);
	}
	_exit(1);
}

static int side_do(struct side *s, struct call *c, struct reply *r)
{
	if (s->sock < 0) {
		r->ret = local_do(s, c, r);
		return r->ret;
	}
	must(whole(s->sock, c, sizeof(*c), put));
	must(whole(s->sock, r, sizeof(*r), read));
	errno = r->err;
	return r->ret;
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static int plain_call(struct side *s, enum fn fn)
{
	struct call c = {.fn = fn};
	struct reply r;

	return side_do(s, &c, &r);
}

void side_meet(struct side *s, const struct side_info *peer)
{
	struct call c = {.fn = FN_PEER, .info = *peer};
	struct reply r;

	s->peer = *peer;
	side_do(s, &c, &r);
}

int side_init(struct side *s)
{
	return plain_call(s, FN_INIT);
}

int side_rtr(struct side *s)
{
	return plain_call(s, FN_RTR);
}

int side_rts(struct side *s)
{
	return plain_call(s, FN_RTS);
}

enum ibv_qp_state side_state(struct side *s)
{
	return (enum ibv_qp_state)plain_call(s, FN_STATE);
}

int side_destroy_qp(struct side *s)
{
	return plain_call(s, FN_DESTROY_QP);
}

int side_recv_lkey(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len, uint32_t lkey_add)
{
	struct call c = {.fn = FN_RECV, .recv = {wr_id, off, len, lkey_add}};
	struct reply r;

	return side_do(s, &c, &r);
}

int side_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len)
{
	return side_recv_lkey(s, wr_id, off, len, 0);
}

int side_post(struct side *s, const struct op *op)
{
	struct call c = {.fn = FN_POST, .op = *op};
	struct reply r;

	return side_do(s, &c, &r);
}

int side_wc(struct side *s, enum queue q, struct done *d, int timeout_ms)
{
	struct call c = {.fn = FN_WC, .wait = {q, timeout_ms}};
	struct reply r;
	int n = side_do(s, &c, &r);

	if (n > 0)
		*d = r.done;
	return n;
}

void side_peek(struct side *s, uint32_t off, void *to, uint32_t len)
{
	struct call c = {.fn = FN_PEEK, .mem = {.off = off, .len = len}};
	struct reply r;

	must(len <= PAIR_PEEK_MAX_B);
	side_do(s, &c, &r);
	memcpy(to, r.data, len);
}

void side_poke(struct side *s, uint32_t off, const void *from, uint32_t len)
{
	struct call c = {.fn = FN_POKE, .mem = {.off = off, .len = len}};
	struct reply r;

	must(len <= PAIR_PEEK_MAX_B);
	memcpy(c.mem.data, from, len);
	side_do(s, &c, &r);
}

void side_fill(struct side *s, uint32_t off, uint8_t value, uint32_t len)
{
	struct call c = {.fn = FN_FILL, .mem = {.off = off, .len = len, .data = {value}}};
	struct reply r;

	side_do(s, &c, &r);
}

bool side_all(struct side *s, uint32_t off, uint8_t value, uint32_t len)
{
	uint8_t part[PAIR_PEEK_MAX_B];

	for (uint32_t done = 0; done < len;) {
		uint32_t n = len - done < sizeof(part) ? len - done : (uint32_t)sizeof(part);

		side_peek(s, off + done, part, n);
		for (uint32_t i = 0; i < n; i++)
			if (part[i] != value)
				return false;
		done += n;
	}
	return true;
}

int side_event(struct side *s, int timeout_ms)
{
	struct call c = {.fn = FN_EVENT, .wait = {SQ, timeout_ms}};
	struct reply r;

	return side_do(s, &c, &r);
}

uint32_t side_reg(struct side *s, uint32_t off, uint32_t len, unsigned access, bool other_pd)
{
	struct call c = {.fn = FN_REG, .reg = {off, len, access, other_pd}};
	struct reply r;

	side_do(s, &c, &r);
	return r.rkey;
}

struct ibv_qp *side_qp(struct side *s, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = s->scq, .recv_cq = recv_cq, .cap = pair_attr(0, 8).cap, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	must(qp);
	return qp;
}

int64_t side_now_ps(struct side *s)
{
	struct call c = {.fn = FN_NOW};
	struct reply r;

	side_do(s, &c, &r);
	return r.ps;
}

int raw_post(struct side *s, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	must(s->sock < 0);
	*bad = NULL;
	return ibv_post_send(s->qp, wr, bad);
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static void start(struct side *s, int index, bool elsewhere)
{
	int fds[2];

	*s = (struct side){.index = index, .sock = -1};
	if (!elsewhere)
		return;
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	fflush(NULL);
	s->pid = fork();
	must(s->pid >= 0);
	if (!s->pid) {
		close(fds[0]);
		serve(s, fds[1]);
	}
	close(fds[1]);
	s->sock = fds[0];
}

static void open_side(struct side *s, const struct pair_attr *attr)
{
	struct call c = {.fn = FN_OPEN, .attr = *attr};
	struct reply r;

	s->attr = *attr;
	side_do(s, &c, &r);
	s->info = r.info;
}

void pair_open(struct pair *p, const struct pair_attr *attr)
{
	/* B first: its process must exist before this one opens a device. */
	start(&p->b, 1, pair_split());
	start(&p->a, 0, false);
	open_side(&p->b, attr);
	open_side(&p->a, attr);
	side_meet(&p->a, &p->b.info);
	side_meet(&p->b, &p->a.info);
}

void pair_make(struct pair *p, const struct pair_attr *attr)
{
	pair_open(p, attr);
	must(!side_init(&p->a));
	must(!side_init(&p->b));
	must(!side_rtr(&p->b));
	must(!side_rtr(&p->a));
	must(!side_rts(&p->b));
	must(!side_rts(&p->a));
}

void pair_free(struct pair *p)
{
	plain_call(&p->a, FN_CLOSE);
	plain_call(&p->b, FN_CLOSE);
	if (p->b.sock >= 0) {
		int status;

		must(waitpid(p->b.pid, &status, 0) == p->b.pid);
		must(status == 0);
		close(p->b.sock);
	}
}
