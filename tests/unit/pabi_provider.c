/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What only the provider decides, seen through the installed libibverbs: which verbs exist, what the extended ones
 * refuse, import inside a process, what a close does with what is left, and the direct verbs. Runs in a fabric.
 */
#include "provider/simhcadv.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c;

	cr_assert(list && list[0], "no device");
	c = ibv_open_device(list[0]);
	cr_assert_not_null(c, "ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
	return c;
}

static void setup(void)
{
	ctx = open_first();
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	cr_assert(pd && cq);
}

static void teardown(void)
{
	cr_expect_eq(ibv_destroy_cq(cq), 0);
	cr_expect_eq(ibv_dealloc_pd(pd), 0);
	cr_expect_eq(ibv_close_device(ctx), 0);
}

TestSuite(pabi_provider, .init = setup, .fini = teardown);

static struct ibv_qp_init_attr_ex qp_attr(uint64_t send_ops)
{
	return (struct ibv_qp_init_attr_ex){
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = pd,
	    .send_ops_flags = send_ops,
	};
}

/* ---- what is not there says so ---- */

#define EXPECT_NULL(call, err)                                                                                         \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		cr_expect_null(call);                                                                                  \
		cr_expect_eq(errno, err, #call ": errno is %s", strerrorname_np(errno));                               \
	} while (0)

Test(pabi_provider, absent_verbs_say_eopnotsupp)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_init_attr_ex srq_ex = {.comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd};
	struct ibv_ah_attr ah = {.port_num = 1};
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_xrcd_init_attr xrcd = {.fd = -1};
	struct ibv_td_init_attr td = {0};
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	struct ibv_wq_init_attr wq = {.pd = pd, .cq = cq};
	struct ibv_counters_init_attr counters = {0};
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_sge sge = {0};

	EXPECT_NULL(ibv_create_srq(pd, &srq), EOPNOTSUPP);
	EXPECT_NULL(ibv_create_srq_ex(ctx, &srq_ex), EOPNOTSUPP);
	EXPECT_NULL(ibv_create_ah(pd, &ah), EOPNOTSUPP);
	EXPECT_NULL(ibv_alloc_mw(pd, IBV_MW_TYPE_1), EOPNOTSUPP);
	EXPECT_NULL(ibv_alloc_dm(ctx, &dm), EOPNOTSUPP);
	EXPECT_NULL(ibv_alloc_null_mr(pd), EOPNOTSUPP);
	EXPECT_NULL(ibv_open_xrcd(ctx, &xrcd), EOPNOTSUPP);
	EXPECT_NULL(ibv_alloc_td(ctx, &td), EOPNOTSUPP);
	EXPECT_NULL(ibv_alloc_parent_domain(ctx, &parent), EOPNOTSUPP);
	EXPECT_NULL(ibv_create_wq(ctx, &wq), EOPNOTSUPP);
	EXPECT_NULL(ibv_create_counters(ctx, &counters), EOPNOTSUPP);
	EXPECT_NULL(ibv_reg_dmabuf_mr(pd, 0, 64, 0, -1, 0), EOPNOTSUPP);
	cr_expect_eq(ibv_modify_cq(cq, &moderate), EOPNOTSUPP);
	cr_expect_eq(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
}

/* A function pointer that does not exist would be called by the first program that was let in. */
Test(pabi_provider, extended_queue_pairs_are_refused_what_they_cannot_do)
{
	static const uint64_t absent[] = {IBV_QP_EX_WITH_LOCAL_INV,
					  IBV_QP_EX_WITH_BIND_MW,
					  IBV_QP_EX_WITH_SEND_WITH_INV,
					  IBV_QP_EX_WITH_TSO,
					  1u << 11,
					  1u << 12,
					  UINT64_C(1) << 40};
	struct ibv_qp_init_attr_ex attr;

	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		attr = qp_attr(IBV_QP_EX_WITH_SEND | absent[i]);
		EXPECT_NULL(ibv_create_qp_ex(ctx, &attr), EOPNOTSUPP);
	}
	attr = qp_attr(IBV_QP_EX_WITH_SEND);
	attr.comp_mask |= 1u << 20;
	EXPECT_NULL(ibv_create_qp_ex(ctx, &attr), EINVAL);
	attr = qp_attr(IBV_QP_EX_WITH_SEND);
	attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	EXPECT_NULL(ibv_create_qp_ex(ctx, &attr), EOPNOTSUPP);
	attr = qp_attr(IBV_QP_EX_WITH_SEND);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	EXPECT_NULL(ibv_create_qp_ex(ctx, &attr), EOPNOTSUPP);
	attr = qp_attr(IBV_QP_EX_WITH_SEND);
	attr.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD;
	EXPECT_NULL(ibv_create_qp_ex(ctx, &attr), EINVAL);
}

Test(pabi_provider, every_builder_function_is_there)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QP_EX_WITH_SEND);
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &attr);
	struct ibv_qp_ex *ex = qp ? ibv_qp_to_qp_ex(qp) : NULL;
	const char *first = (const char *)&ex->wr_atomic_cmp_swp;

	cr_assert_not_null(ex);
	for (const char *p = first; p < (const char *)(ex + 1); p += sizeof(void *)) {
		void *fn;

		memcpy(&fn, p, sizeof(fn));
		cr_expect_not_null(fn, "function %td of ibv_qp_ex is missing", (p - first) / (ptrdiff_t)sizeof(fn));
	}
	/* What the queue pair was not made for fails at the end, and the queue can be used again. */
	for (int i = 0; i < 2; i++) {
		ibv_wr_start(ex);
		ibv_wr_local_inv(ex, 1);
		cr_expect_eq(ibv_wr_complete(ex), EOPNOTSUPP);
	}
	cr_expect_eq(ibv_destroy_qp(qp), 0);

	struct ibv_qp_init_attr_ex plain = qp_attr(0);
	plain.comp_mask = IBV_QP_INIT_ATTR_PD;
	qp = ibv_create_qp_ex(ctx, &plain);
	cr_assert_not_null(qp);
	cr_expect_null(ibv_qp_to_qp_ex(qp), "a plain queue pair has no builder");
	cr_expect_eq(ibv_destroy_qp(qp), 0);
}

Test(pabi_provider, extended_completion_queues_are_refused_what_they_cannot_do)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_TM_INFO};

	EXPECT_NULL(ibv_create_cq_ex(ctx, &attr), EOPNOTSUPP);
	attr = (struct ibv_cq_init_attr_ex){.cqe = 4, .comp_mask = 1u << 20};
	EXPECT_NULL(ibv_create_cq_ex(ctx, &attr), EINVAL);
	attr = (struct ibv_cq_init_attr_ex){
	    .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
	EXPECT_NULL(ibv_create_cq_ex(ctx, &attr), EOPNOTSUPP);
	attr = (struct ibv_cq_init_attr_ex){.cqe = 4, .comp_vector = (uint32_t)ctx->num_comp_vectors};
	EXPECT_NULL(ibv_create_cq_ex(ctx, &attr), EINVAL);
	EXPECT_NULL(ibv_create_cq(ctx, 4, NULL, NULL, -1), EINVAL);
	EXPECT_NULL(ibv_create_cq(ctx, 0, NULL, NULL, 0), EINVAL);
}

/* ---- queries ---- */

Test(pabi_provider, device_queries)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	cr_expect_eq(ibv_query_device_ex(ctx, &input, &ex), EINVAL);
	cr_assert_eq(ibv_query_device_ex(ctx, NULL, &ex), 0);
	cr_assert_eq(ibv_query_device(ctx, &attr), 0);
	cr_expect_eq(memcmp(&attr, &ex.orig_attr, sizeof(attr)), 0);
	cr_expect_eq(ex.phys_port_cnt_ex, attr.phys_port_cnt);
	for (uint8_t n = 1; n <= attr.phys_port_cnt; n++)
		cr_expect_eq(ibv_query_port(ctx, n, &port), 0);
	cr_expect_eq(ibv_query_port(ctx, (uint8_t)(attr.phys_port_cnt + 1), &port), EINVAL);
	cr_expect_eq(ibv_query_port(ctx, 0, &port), EINVAL);
	if (ex.hca_core_clock) {
		cr_expect_eq(ibv_query_rt_values_ex(ctx, &values), 0);
		cr_expect_eq(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	}
}

/* ---- channels ---- */

Test(pabi_provider, a_channel_in_use_cannot_be_destroyed)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *q;

	cr_assert_not_null(channel);
	q = ibv_create_cq(ctx, 4, NULL, channel, 0);
	cr_assert_not_null(q);
	cr_expect_eq(ibv_destroy_comp_channel(channel), EBUSY);
	cr_expect_eq(ibv_destroy_cq(q), 0);
	cr_expect_eq(ibv_destroy_comp_channel(channel), 0);
}

Test(pabi_provider, a_channel_of_another_device_is_refused)
{
	struct ibv_context *other = open_first();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(other);

	cr_assert_not_null(channel);
	EXPECT_NULL(ibv_create_cq(ctx, 4, NULL, channel, 0), EINVAL);
	cr_expect_eq(ibv_destroy_comp_channel(channel), 0);
	cr_expect_eq(ibv_close_device(other), 0);
}

/* ---- import ---- */

Test(pabi_provider, import_in_one_process)
{
	char buf[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_context *imp;
	struct ibv_pd *imp_pd;
	struct ibv_mr *imp_mr, *more;
	struct ibv_comp_channel *channel;
	struct ibv_cq *q;

	cr_assert_not_null(mr);
	imp = ibv_import_device(dup(ctx->cmd_fd)); /* which takes the duplicate */
	cr_assert_not_null(imp, "ibv_import_device: %s", strerror(errno));
	cr_expect_geq(imp->async_fd, 0);
	cr_expect_neq(imp->async_fd, ctx->async_fd);
	EXPECT_NULL(ibv_import_pd(imp, 0xffffffff), ENOENT);
	imp_pd = ibv_import_pd(imp, pd->handle);
	cr_assert_not_null(imp_pd);
	EXPECT_NULL(ibv_import_mr(imp_pd, 0xffffffff), ENOENT);
	imp_mr = ibv_import_mr(imp_pd, mr->handle);
	cr_assert_not_null(imp_mr);
	cr_expect_eq(imp_mr->lkey, mr->lkey);
	cr_expect_eq(imp_mr->rkey, mr->rkey);
	cr_expect_eq(imp_mr->length, mr->length);
	more = ibv_reg_mr(imp_pd, buf, sizeof(buf), 0);
	cr_assert_not_null(more, "an imported domain registers");
	channel = ibv_create_comp_channel(imp);
	cr_assert_not_null(channel);
	q = ibv_create_cq(imp, 4, NULL, channel, 0);
	cr_assert_not_null(q);

	cr_expect_eq(ibv_destroy_cq(q), 0);
	cr_expect_eq(ibv_destroy_comp_channel(channel), 0);
	cr_expect_eq(ibv_dereg_mr(more), 0);
	ibv_unimport_mr(imp_mr);
	ibv_unimport_pd(imp_pd);
	cr_expect_eq(ibv_close_device(imp), 0);
	cr_expect_eq(ibv_dereg_mr(mr), 0, "the exporter's region outlives the import");
}

/* ---- close ---- */

static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* As a kernel does: the next open starts clean. The library's structures are the program's to leak. */
Test(pabi_provider, close_gives_back_what_the_program_left)
{
	int before = open_fds();

	for (int i = 0; i < 3; i++) {
		struct ibv_context *c = open_first();
		struct ibv_pd *p = ibv_alloc_pd(c);
		struct ibv_cq *q = ibv_create_cq(c, 4, NULL, NULL, 0);
		struct ibv_qp_init_attr attr = {
		    .send_cq = q,
		    .recv_cq = q,
		    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		    .qp_type = IBV_QPT_RC};
		static char buf[64];

		cr_assert(p && q);
		cr_assert_not_null(ibv_reg_mr(p, buf, sizeof(buf), 0));
		cr_assert_not_null(ibv_create_qp(p, &attr));
		cr_expect_eq(ibv_close_device(c), 0);
	}
	cr_expect_eq(open_fds(), before, "descriptors are left open");
}

Test(pabi_provider, async_descriptor_is_pollable_and_empty)
{
	struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};

	cr_expect_eq(poll(&p, 1, 0), 0);
}

/* ---- direct verbs ---- */

Test(pabi_provider, direct_verbs)
{
	struct simhcadv_device_attr attr;
	struct simhcadv_device_attr small;
	int64_t ps;

	cr_expect(simhcadv_is_supported(ctx->device));
	cr_expect_not(simhcadv_is_supported(NULL));
	memset(&attr, 0xff, sizeof(attr));
	cr_assert_eq(simhcadv_query_device(ctx, &attr, sizeof(attr)), 0);
	cr_expect_eq(attr.comp_mask, SIMHCADV_DEVICE_ATTR_ALL);
	cr_expect_str_eq(attr.profile, getenv("SIMHCA_TEST_PROFILE"));
	cr_expect_str_not_empty(attr.fabric);
	cr_expect_gt(attr.block_B, 0);

	memset(&small, 0xff, sizeof(small));
	cr_expect_eq(simhcadv_query_device(ctx, &small, offsetof(struct simhcadv_device_attr, block_B)), 0);
	cr_expect_eq(small.block_B, UINT32_MAX, "a caller built for fewer fields gets no more");
	cr_expect_eq(simhcadv_query_device(ctx, &attr, 4), EINVAL);

	cr_expect_eq(simhcadv_last_completion_time_ps(cq, &ps), ENODATA, "nothing was polled");
}
