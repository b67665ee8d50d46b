/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled once a release with -DSIMHCA_RDMA_CORE=<release>. */
#define PABI_STANDALONE
#include "provider/pabi.h"
#include "tests/unit/pabi_variant.h"

#define ROW_OF(type, name, field) {name, #field, offsetof(type, field), sizeof(((type *)0)->field)},
#define END_OF(type, name)	  {name, "(end)", sizeof(type), 0},

/* A table does not know its structure's name: one row macro a structure. */
#define PRIVATE_ROW(s, since, field) PABI_IF_##since(ROW_OF(struct s, #s, field))
#define PUBLIC_ROW(s, since, field)  PABI_IF_##since(ROW_OF(struct model_##s, #s, field))

#define R_verbs_match_ent(since, type, field)	PRIVATE_ROW(verbs_match_ent, since, field)
#define R_verbs_device_ops(since, type, field)	PRIVATE_ROW(verbs_device_ops, since, field)
#define R_verbs_sysfs_dev(since, type, field)	PRIVATE_ROW(verbs_sysfs_dev, since, field)
#define R_verbs_device(since, type, field)	PRIVATE_ROW(verbs_device, since, field)
#define R_verbs_mr(since, type, field)		PRIVATE_ROW(verbs_mr, since, field)
#define R_verbs_qp(since, type, field)		PRIVATE_ROW(verbs_qp, since, field)
#define R_verbs_cq(since, type, field)		PRIVATE_ROW(verbs_cq, since, field)
#define R_verbs_xrcd(since, type, field)	PRIVATE_ROW(verbs_xrcd, since, field)
#define R_verbs_srq(since, type, field)		PRIVATE_ROW(verbs_srq, since, field)
#define R_verbs_dm(since, type, field)		PRIVATE_ROW(verbs_dm, since, field)
#define R_verbs_context_ops(since, type, field) PRIVATE_ROW(verbs_context_ops, since, field)
#define R_ibv_port_attr(since, type, field)	PUBLIC_ROW(ibv_port_attr, since, field)
#define R_ibv_qp_ex(since, type, field)		PUBLIC_ROW(ibv_qp_ex, since, field)
#define R_verbs_context(since, type, field)	PUBLIC_ROW(verbs_context, since, field)
#define R_verbs_context_op(since, field, op)	PUBLIC_ROW(verbs_context, since, field)
#define U_verbs_qp(ta, a, tb, b)		PRIVATE_ROW(verbs_qp, 34, a) PRIVATE_ROW(verbs_qp, 34, b)
#define U_verbs_cq(ta, a, tb, b)		PRIVATE_ROW(verbs_cq, 34, a) PRIVATE_ROW(verbs_cq, 34, b)
#define U_verbs_match_ent(ta, a, tb, b)
#define U_verbs_device_ops(ta, a, tb, b)
#define U_verbs_sysfs_dev(ta, a, tb, b)
#define U_verbs_device(ta, a, tb, b)
#define U_verbs_mr(ta, a, tb, b)
#define U_verbs_xrcd(ta, a, tb, b)
#define U_verbs_srq(ta, a, tb, b)
#define U_verbs_dm(ta, a, tb, b)
#define U_verbs_context_ops(ta, a, tb, b)
#define U_ibv_port_attr(ta, a, tb, b)
#define U_ibv_qp_ex(ta, a, tb, b)

#define PRIVATE_STRUCT(s) PABI_##s(R_##s, U_##s) END_OF(struct s, #s)
#define PUBLIC_STRUCT(s)  PABI_##s(R_##s, U_##s) END_OF(struct model_##s, #s)

static const struct pabi_row rows[] = {PABI_PRIVATE_STRUCTS(PRIVATE_STRUCT) PABI_PUBLIC_STRUCTS(PUBLIC_STRUCT)
					   PABI_verbs_context(R_verbs_context, R_verbs_context_op)
					       END_OF(struct model_verbs_context, "verbs_context")};

PABI_DEFINE_EXPECT(static, expect);

#define CAT_(a, b) a##b
#define CAT(a, b)  CAT_(a, b)
const struct pabi_variant CAT(pabi_variant_, SIMHCA_RDMA_CORE) = {
    .release = SIMHCA_RDMA_CORE,
    .rows = rows,
    .num_rows = sizeof(rows) / sizeof(rows[0]),
    .expect = &expect,
};
