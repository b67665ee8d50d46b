/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs that are not emulated yet. The library answers for what a provider leaves out, and silently; these say in one
 * line what is missing, at log level 1, and then fail as the library would: EOPNOTSUPP, returned or in errno.
 */
#include "provider/provider.h"

/* X(return type, op, context, verb, what is missing, parameters...) */
#define ABSENT(X)                                                                                                      \
	X(int, advise_mr, pd->context, "ibv_advise_mr", "prefetching is", struct ibv_pd *pd,                           \
	  enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n)                          \
	X(struct ibv_dm *, alloc_dm, ctx, "ibv_alloc_dm", "device memory is", struct ibv_context *ctx,                 \
	  struct ibv_alloc_dm_attr *attr)                                                                              \
	X(struct ibv_mw *, alloc_mw, pd->context, "ibv_alloc_mw", "memory windows are", struct ibv_pd *pd,             \
	  enum ibv_mw_type type)                                                                                       \
	X(struct ibv_mr *, alloc_null_mr, pd->context, "ibv_alloc_null_mr", "null regions are", struct ibv_pd *pd)     \
	X(struct ibv_pd *, alloc_parent_domain, ctx, "ibv_alloc_parent_domain", "parent domains are",                  \
	  struct ibv_context *ctx, struct ibv_parent_domain_init_attr *attr)                                           \
	X(struct ibv_td *, alloc_td, ctx, "ibv_alloc_td", "thread domains are", struct ibv_context *ctx,               \
	  struct ibv_td_init_attr *attr)                                                                               \
	X(int, attach_mcast, qp->context, "ibv_attach_mcast", "multicast is", struct ibv_qp *qp,                       \
	  const union ibv_gid *gid, uint16_t lid)                                                                      \
	X(int, detach_mcast, qp->context, "ibv_detach_mcast", "multicast is", struct ibv_qp *qp,                       \
	  const union ibv_gid *gid, uint16_t lid)                                                                      \
	X(struct ibv_ah *, create_ah, pd->context, "ibv_create_ah", "address handles are", struct ibv_pd *pd,          \
	  struct ibv_ah_attr *attr)                                                                                    \
	X(struct ibv_counters *, create_counters, ctx, "ibv_create_counters", "counter objects are",                   \
	  struct ibv_context *ctx, struct ibv_counters_init_attr *attr)                                                \
	X(struct ibv_flow *, create_flow, qp->context, "ibv_create_flow", "flows are", struct ibv_qp *qp,              \
	  struct ibv_flow_attr *attr)                                                                                  \
	X(struct ibv_flow_action *, create_flow_action_esp, ctx, "ibv_create_flow_action_esp", "flow actions are",     \
	  struct ibv_context *ctx, struct ibv_flow_action_esp_attr *attr)                                              \
	X(struct ibv_rwq_ind_table *, create_rwq_ind_table, ctx, "ibv_create_rwq_ind_table", "indirection tables are", \
	  struct ibv_context *ctx, struct ibv_rwq_ind_table_init_attr *attr)                                           \
	X(struct ibv_srq *, create_srq, pd->context, "ibv_create_srq", "shared receive queues are", struct ibv_pd *pd, \
	  struct ibv_srq_init_attr *attr)                                                                              \
	X(struct ibv_srq *, create_srq_ex, ctx, "ibv_create_srq_ex", "shared receive queues are",                      \
	  struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)                                                  \
	X(struct ibv_wq *, create_wq, ctx, "ibv_create_wq", "work queues are", struct ibv_context *ctx,                \
	  struct ibv_wq_init_attr *attr)                                                                               \
	X(int, modify_cq, cq->context, "ibv_modify_cq", "CQ moderation is", struct ibv_cq *cq,                         \
	  struct ibv_modify_cq_attr *attr)                                                                             \
	X(int, modify_qp_rate_limit, qp->context, "ibv_modify_qp_rate_limit", "rate limits are", struct ibv_qp *qp,    \
	  struct ibv_qp_rate_limit_attr *attr)                                                                         \
	X(struct ibv_qp *, open_qp, ctx, "ibv_open_qp", "shared queue pairs are", struct ibv_context *ctx,             \
	  struct ibv_qp_open_attr *attr)                                                                               \
	X(struct ibv_xrcd *, open_xrcd, ctx, "ibv_open_xrcd", "XRC domains are", struct ibv_context *ctx,              \
	  struct ibv_xrcd_init_attr *attr)                                                                             \
	X(struct ibv_mr *, reg_dmabuf_mr, pd->context, "ibv_reg_dmabuf_mr", "dma-buf regions are", struct ibv_pd *pd,  \
	  uint64_t offset, size_t length, uint64_t iova, int fd, int access)                                           \
	X(int, rereg_mr, vmr->ibv_mr.context, "ibv_rereg_mr", "changing a region is", struct verbs_mr *vmr, int flags, \
	  struct ibv_pd *pd, void *addr, size_t length, int access)

static void missing(struct ibv_context *ctx, const char *verb, const char *what)
{
	say(LOG_WHY, "%s on %s: %s not emulated yet: EOPNOTSUPP", verb, adapter_name(ctx), what);
	errno = EOPNOTSUPP;
}

/* Most parameters only give a function the type that the library expects. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ABSENT_VERB(type, op, ctx, verb, what, ...)                                                                    \
	static type absent_##op(__VA_ARGS__)                                                                           \
	{                                                                                                              \
		missing(ctx, verb, what);                                                                              \
		return _Generic((type)0, int : EOPNOTSUPP, default : NULL);                                            \
	}
ABSENT(ABSENT_VERB)
#undef ABSENT_VERB
#pragma GCC diagnostic pop

const struct verbs_context_ops simhca_absent_ops = {
#define ABSENT_OP(type, op, ...) .op = absent_##op,
    ABSENT(ABSENT_OP)
#undef ABSENT_OP
};
