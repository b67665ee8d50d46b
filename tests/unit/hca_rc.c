/* SPDX-License-Identifier: BSD-2-Clause */
/* The adapter without libibverbs: two RC queue pairs of one process, every operation, through the face of sim/hca. */
#include "sim/hca/hca.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEM_B 65536u

struct side {
	struct hca_cq *cq;
	struct hca_qp *qp;
	struct hca_mr *mr;
	char *mem;
};

static char base[64];
static struct fabric *fabric;
static struct hca *hca;
static struct hca_pd *pd;
static struct side a, b;
static int events;

static void on_comp(void *user)
{
	(void)user;
	events++;
}

static void on_async(void *user, enum ibv_event_type type, void *object, uint32_t port)
{
	(void)user, (void)type, (void)object, (void)port;
	events += 100;
}

static const struct hca_callbacks callbacks = {on_comp, on_async};

static void make_side(struct side *s)
{
	uint32_t cqe = 64;
	struct qp_grant grant;

	s->mem = calloc(1, MEM_B);
	cr_assert_eq(hca_cq_create(hca, &cqe, 0, s, &s->cq), 0);
	struct hca_qp_init init = {
	    .pd = pd, .send_cq = s->cq, .recv_cq = s->cq, .kind = QP_RC, .caps = {16, 16, 3, 3, 64}, .user = s};
	cr_assert_eq(hca_qp_create(hca, &init, &grant, &s->qp), 0, "%s", grant.why);
	int access =
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	cr_assert_eq(hca_mr_reg(pd, s->mem, MEM_B, (uintptr_t)s->mem, access, &s->mr), 0);
}

static void connect_side(struct side *s, const struct side *peer)
{
	struct seg_gid gid;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 0xf};

	cr_assert_eq(hca_query_gid(hca, 1, 3, &gid), 0);
	cr_assert_eq(hca_qp_modify(s->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		     0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 1,
				    .dest_qp_num = hca_qp_num(peer->qp),
				    .rq_psn = 0xfffff0};
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.sgid_index = 3;
	attr.ah_attr.port_num = 1;
	memcpy(attr.ah_attr.grh.dgid.raw, gid.raw, 16);
	cr_assert_eq(hca_qp_modify(s->qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
		     0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .sq_psn = 0xfffff0,
				    .max_rd_atomic = 4};
	cr_assert_eq(hca_qp_modify(s->qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				       IBV_QP_MAX_QP_RD_ATOMIC),
		     0);
}

static void setup_with(const char *profile)
{
	char err[256] = "";
	struct settings set;

	snprintf(base, sizeof(base), "/tmp/simhca-hca-%d", (int)getpid());
	cr_assert_eq(mkdir(base, 0700), 0);
	cr_assert_eq(settings_load(&set, err, sizeof(err)), 0, "%s", err);
	struct fab_device_config dev = {.name = "simhca0", .num_ports = 1};
	cr_assert_eq(profile_load(profile, &dev.profile, err, sizeof(err)), 0, "%s", err);
	dev.ports[0].link_layer = -1;
	dev.ports[0].switch_hops = UINT32_MAX;
	struct fab_config cfg = {.num_devices = 1, .devices = &dev};
	snprintf(cfg.base, sizeof(cfg.base), "%s", base);
	snprintf(cfg.name, sizeof(cfg.name), "unit");
	cr_assert_eq(fabric_ensure(&cfg, false, &fabric, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(hca_open(fabric_path(fabric), "simhca0", &set, &callbacks, NULL, &hca, err, sizeof(err)), 0, "%s",
		     err);
	cr_assert_eq(hca_pd_alloc(hca, &pd), 0);
	make_side(&a);
	make_side(&b);
	connect_side(&a, &b);
	connect_side(&b, &a);
	events = 0;
}

static void setup(void)
{
	setup_with("generic");
}

static void setup_connectx6dx(void)
{
	setup_with("connectx6dx");
}

static void drop_side(struct side *s)
{
	cr_expect_eq(hca_qp_destroy(s->qp), 0);
	cr_expect_eq(hca_cq_destroy(s->cq), 0);
	cr_expect_eq(hca_mr_dereg(s->mr), 0);
	free(s->mem);
}

static void teardown(void)
{
	drop_side(&a);
	drop_side(&b);
	cr_expect_eq(hca_pd_free(pd), 0);
	cr_expect_eq(hca_close(hca), 0);
	fabric_close(fabric);
	cr_expect_eq(rmdir(base), 0, "the fabric's folder is still there");
}

static struct ibv_wc poll_one(struct side *s)
{
	struct ibv_wc wc;

	for (long i = 0; i < 50000000; i++)
		if (hca_cq_poll(s->cq, 1, &wc) == 1)
			return wc;
	cr_assert_fail("no completion");
	return (struct ibv_wc){0};
}

static int post(struct side *s, enum ibv_wr_opcode op, uint32_t len, unsigned flags, struct side *to, uint64_t x)
{
	struct ibv_sge sge = {(uintptr_t)s->mem, len, hca_mr_lkey(s->mr)};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = flags | IBV_SEND_SIGNALED,
				 .imm_data = 0x1234},
			   *bad;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->mem;
		wr.wr.atomic.rkey = hca_mr_rkey(to->mr);
		wr.wr.atomic.compare_add = x;
		wr.wr.atomic.swap = 99;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to->mem;
		wr.wr.rdma.rkey = hca_mr_rkey(to->mr);
	}
	return hca_post_send(s->qp, &wr, &bad);
}

static void post_recv(struct side *s, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->mem, len, hca_mr_lkey(s->mr)};
	struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1}, *bad;

	cr_assert_eq(hca_post_recv(s->qp, &wr, &bad), 0);
}

static void fill(struct side *s, uint32_t len, char first)
{
	for (uint32_t i = 0; i < len; i++)
		s->mem[i] = (char)(first + (char)(i * 7));
}

static void expect_same(uint32_t len)
{
	cr_expect_eq(memcmp(a.mem, b.mem, len), 0, "%u bytes differ", len);
}

TestSuite(hca_rc, .init = setup, .fini = teardown, .timeout = 60);

Test(hca_rc, send_of_many_sizes)
{
	static const uint32_t sizes[] = {0, 1, 8, 63, 64, 1023, 1024, 1025, 5000, 16384, 40000, 65536};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		fill(&a, sizes[i], (char)i);
		post_recv(&b, MEM_B);
		cr_assert_eq(post(&a, IBV_WR_SEND_WITH_IMM, sizes[i], 0, &b, 0), 0);
		struct ibv_wc r = poll_one(&b), s = poll_one(&a);
		cr_expect_eq(r.status, IBV_WC_SUCCESS);
		cr_expect_eq(r.byte_len, sizes[i]);
		cr_expect_eq(r.imm_data, 0x1234u);
		cr_expect_eq(s.status, IBV_WC_SUCCESS);
		cr_expect_eq(s.opcode, IBV_WC_SEND);
		expect_same(sizes[i]);
	}
}

Test(hca_rc, write_and_read)
{
	fill(&a, 50000, 3);
	cr_assert_eq(post(&a, IBV_WR_RDMA_WRITE, 50000, 0, &b, 0), 0);
	cr_expect_eq(poll_one(&a).status, IBV_WC_SUCCESS);
	expect_same(50000);
	fill(&b, 50000, 9);
	cr_assert_eq(post(&a, IBV_WR_RDMA_READ, 50000, 0, &b, 0), 0);
	struct ibv_wc wc = poll_one(&a);
	cr_expect_eq(wc.status, IBV_WC_SUCCESS);
	cr_expect_eq(wc.opcode, IBV_WC_RDMA_READ);
	expect_same(50000);
}

Test(hca_rc, write_with_immediate_takes_a_receive)
{
	fill(&a, 3000, 5);
	post_recv(&b, 0);
	cr_assert_eq(post(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 3000, 0, &b, 0), 0);
	struct ibv_wc wc = poll_one(&b);
	cr_expect_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	cr_expect_eq(wc.byte_len, 3000);
	expect_same(3000);
	poll_one(&a);
}

Test(hca_rc, atomics)
{
	*(uint64_t *)(void *)b.mem = 7;
	cr_assert_eq(post(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, &b, 5), 0);
	cr_expect_eq(poll_one(&a).status, IBV_WC_SUCCESS);
	cr_expect_eq(*(uint64_t *)(void *)a.mem, 7);
	cr_expect_eq(*(uint64_t *)(void *)b.mem, 12);
	cr_assert_eq(post(&a, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 0, &b, 12), 0);
	cr_expect_eq(poll_one(&a).opcode, IBV_WC_COMP_SWAP);
	cr_expect_eq(*(uint64_t *)(void *)a.mem, 12);
	cr_expect_eq(*(uint64_t *)(void *)b.mem, 99);
}

Test(hca_rc, time_only_moves_forward_and_the_same_twice)
{
	int64_t gain[2];

	for (int i = 0; i < 2; i++) {
		int64_t start = hca_now_ps();
		post_recv(&b, 64);
		cr_assert_eq(post(&a, IBV_WR_SEND, 64, IBV_SEND_INLINE, &b, 0), 0);
		poll_one(&b);
		gain[i] = hca_now_ps() - start;
		poll_one(&a);
	}
	cr_expect_gt(gain[0], 0);
	cr_expect_eq(gain[0], gain[1]);
}

static int64_t one_way_ps(uint32_t len, unsigned flags)
{
	int64_t start = hca_now_ps();

	post_recv(&b, MEM_B);
	cr_assert_eq(post(&a, IBV_WR_SEND, len, flags, &b, 0), 0);
	poll_one(&b);
	int64_t took_ps = hca_now_ps() - start;
	poll_one(&a);
	return took_ps;
}

static void expect_about(int64_t ps, int64_t expected_ps)
{
	cr_expect(llabs(ps - expected_ps) <= 20, "%lld ps, expected %lld", (long long)ps, (long long)expected_ps);
}

TestSuite(hca_time, .init = setup_connectx6dx, .fini = teardown, .timeout = 60);

Test(hca_time, the_whole_path_costs_what_the_closed_form_says)
{
	expect_about(one_way_ps(64, IBV_SEND_INLINE), 881142);
	expect_about(one_way_ps(64, 0), 1447603);
	expect_about(one_way_ps(4096, 0), 2099997);
	int64_t start = hca_now_ps();
	cr_assert_eq(post(&a, IBV_WR_RDMA_READ, 8, 0, &b, 0), 0);
	poll_one(&a);
	expect_about(hca_now_ps() - start, 1591975);
}

Test(hca_rc, armed_queue_tells_once)
{
	cr_assert_eq(hca_cq_arm(b.cq, false), 0);
	for (int i = 0; i < 3; i++)
		post_recv(&b, 64);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(post(&a, IBV_WR_SEND, 8, 0, &b, 0), 0);
	for (int i = 0; i < 3; i++)
		poll_one(&a);
	cr_expect_eq(events, 1);
}

Test(hca_rc, wrong_rkey_is_an_access_error_and_both_end_in_error)
{
	struct ibv_sge sge = {(uintptr_t)a.mem, 8, hca_mr_lkey(a.mr)};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)b.mem;
	wr.wr.rdma.rkey = hca_mr_rkey(b.mr) + 1;
	cr_assert_eq(hca_post_send(a.qp, &wr, &bad), 0);
	cr_expect_eq(poll_one(&a).status, IBV_WC_REM_ACCESS_ERR);
	cr_expect_eq(hca_qp_state(a.qp), IBV_QPS_ERR);
	cr_expect_eq(hca_qp_state(b.qp), IBV_QPS_ERR);
	cr_expect_eq(events, 100);
}
