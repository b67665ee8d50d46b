/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls verbs that are not emulated yet and prints the name of each; fails if one does not give EOPNOTSUPP. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

static int wrong;

static void failed(const char *verb, int refused)
{
	puts(verb);
	if (!refused) {
		fprintf(stderr, "%s: EOPNOTSUPP expected\n", verb);
		wrong = 1;
	}
}

#define POINTER(verb, ...) (errno = 0, failed(#verb, verb(__VA_ARGS__) == NULL && errno == EOPNOTSUPP))
#define STATUS(verb, ...)  failed(#verb, verb(__VA_ARGS__) == EOPNOTSUPP)

static void call_all(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_qp *qp,
		     struct ibv_mr *mr)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq_init_attr_ex srq_ex = {.attr = srq.attr,
					      .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
					      .srq_type = IBV_SRQT_TM,
					      .pd = pd};
	struct ibv_ah_attr ah = {.port_num = 1};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_td_init_attr td = {0};
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_rwq_ind_table_init_attr table = {0};
	struct ibv_counters_init_attr counters = {0};
	struct ibv_flow_attr flow = {.size = sizeof(flow), .port = 1};
	struct ibv_qp_open_attr open_attr = {0};
	struct ibv_sge sge = {.addr = (uintptr_t)mr->addr, .length = 8, .lkey = mr->lkey};
	union ibv_gid gid = {{0xff}};

	POINTER(ibv_create_srq, pd, &srq);
	POINTER(ibv_create_srq_ex, ctx, &srq_ex);
	POINTER(ibv_alloc_mw, pd, IBV_MW_TYPE_2);
	POINTER(ibv_create_ah, pd, &ah);
	POINTER(ibv_open_xrcd, ctx, &xrcd);
	POINTER(ibv_alloc_dm, ctx, &dm);
	POINTER(ibv_alloc_td, ctx, &td);
	POINTER(ibv_alloc_parent_domain, ctx, &parent);
	POINTER(ibv_alloc_null_mr, pd);
	POINTER(ibv_reg_dmabuf_mr, pd, 0, 4096, 0, -1, 0);
	POINTER(ibv_create_wq, ctx, &wq);
	POINTER(ibv_create_rwq_ind_table, ctx, &table);
	POINTER(ibv_create_counters, ctx, &counters);
	POINTER(ibv_create_flow, qp, &flow);
	POINTER(ibv_open_qp, ctx, &open_attr);
	/* The library gives a code of its own. */
	errno = 0;
	failed("ibv_rereg_mr", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) && errno == EOPNOTSUPP);
	STATUS(ibv_advise_mr, pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);
	STATUS(ibv_modify_cq, cq, &moderation);
	STATUS(ibv_attach_mcast, qp, &gid, 0);
	STATUS(ibv_detach_mcast, qp, &gid, 0);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_cq *cq = ctx ? ibv_create_cq(ctx, 16, NULL, NULL, 0) : NULL;
	static char buf[64];
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf), 0) : NULL;
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &attr) : NULL;

	if (!qp || !mr) {
		fprintf(stderr, "no queue pair\n");
		return 1;
	}
	call_all(ctx, pd, cq, qp, mr);
	ibv_destroy_qp(qp);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	ibv_free_device_list(list);
	return wrong;
}
