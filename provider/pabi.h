/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private provider ABI of libibverbs for one release, SIMHCA_RDMA_CORE (the integer release of the installed
 * library; the build finds it out). Only provider/ includes this; what it promises is checked twice: by the
 * assertions below when it is compiled, by the self-check (selfcheck.h) when it is loaded.
 *
 * With PABI_STANDALONE the layouts of any release can be looked at whatever header is installed: public structures
 * that changed come from the tables then, and no function is declared.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef PABI_STANDALONE
#define PABI_PUBLIC(name) struct model_##name
#else
#define PABI_PUBLIC(name) struct name
#endif

#include "provider/pabi_tables.h"

/* ---- expansion into declarations ----------------------------------------------------------------------------- */

#define PABI_MEMBER(since, type, field) PABI_IF_##since(__typeof__(type) field;)
#define PABI_UNION(type_a, field_a, type_b, field_b)                                                                   \
	union {                                                                                                        \
		__typeof__(type_a) field_a;                                                                            \
		__typeof__(type_b) field_b;                                                                            \
	};
#define PABI_OP_MEMBER(since, field, op) PABI_IF_##since(void *field;)

/* Embedded list heads of the library; never touched here. */
struct pabi_list_node {
	struct pabi_list_node *next, *prev;
};

#define PABI_FORWARD(name) struct name;
PABI_PRIVATE_STRUCTS(PABI_FORWARD)
#undef PABI_FORWARD

#define PABI_MODEL(name)                                                                                               \
	struct model_##name {                                                                                          \
		PABI_##name(PABI_MEMBER, PABI_UNION)                                                                   \
	};
PABI_PUBLIC_STRUCTS(PABI_MODEL)
#undef PABI_MODEL

struct model_verbs_context {
	PABI_verbs_context(PABI_MEMBER, PABI_OP_MEMBER)
};

#define PABI_DECLARE(name)                                                                                             \
	struct name {                                                                                                  \
		PABI_##name(PABI_MEMBER, PABI_UNION)                                                                   \
	};
PABI_PRIVATE_STRUCTS(PABI_DECLARE)
#undef PABI_DECLARE

/* ---- what the library says elsewhere --------------------------------------------------------------------------- */

/* verbs_qp.comp_mask: the queue pair has the ibv_wr_* functions. */
#define PABI_QP_EX 2u
/* verbs_device.core_support: the provider takes optional access bits (relaxed ordering). */
#define PABI_CORE_OPTIONAL_MR_ACCESS 1u
/* verbs_mr.mr_type */
enum pabi_mr_type { PABI_MR = 0, PABI_NULL_MR = 1, PABI_IMPORTED_MR = 2 };

/* ---- what the self-check compares (selfcheck.h) ------------------------------------------------------------------ */

struct pabi_op {
	const char *name;
	unsigned int index; /* place in verbs_context_ops */
	size_t public_off;  /* of the public pointer, from the start of verbs_context */
};

struct pabi_expect {
	unsigned int release;
	size_t context_size;	 /* of verbs_context */
	size_t context_off;	 /* of verbs_context.context */
	size_t priv_off;	 /* of verbs_context.priv */
	size_t qp_comp_mask_off; /* of verbs_qp.comp_mask */
	unsigned int num_ops;	 /* entries of verbs_context_ops */
	unsigned int num_public;
	const struct pabi_op *public_ops;
};

#define PABI_OP_INDEX(op) ((unsigned int)(offsetof(struct verbs_context_ops, op) / sizeof(void *)))
#define PABI_EXPECT_ROW(since, type, field)
#define PABI_EXPECT_OP(since, field, op)                                                                               \
	PABI_IF_##since({#op, PABI_OP_INDEX(op), offsetof(struct model_verbs_context, field)}, )
#define PABI_EXPECT_CONTEXT_OP(op)                                                                                     \
	{#op, PABI_OP_INDEX(op), offsetof(struct model_verbs_context, context) + offsetof(struct ibv_context, ops.op)},

/* Defines the expectations of this release as a constant of the given name. */
#define PABI_DEFINE_EXPECT(linkage, name)                                                                              \
	static const struct pabi_op name##_ops[] = {PABI_verbs_context(PABI_EXPECT_ROW, PABI_EXPECT_OP)                \
							PABI_CONTEXT_OPS(PABI_EXPECT_CONTEXT_OP)};                     \
	linkage const struct pabi_expect name = {                                                                      \
	    .release = SIMHCA_RDMA_CORE,                                                                               \
	    .context_size = sizeof(struct model_verbs_context),                                                        \
	    .context_off = offsetof(struct model_verbs_context, context),                                              \
	    .priv_off = offsetof(struct model_verbs_context, priv),                                                    \
	    .qp_comp_mask_off = offsetof(struct verbs_qp, comp_mask),                                                  \
	    .num_ops = sizeof(struct verbs_context_ops) / sizeof(void *),                                              \
	    .num_public = sizeof(name##_ops) / sizeof(name##_ops[0]),                                                  \
	    .public_ops = name##_ops,                                                                                  \
	}

/* ---- compile-time checks ------------------------------------------------------------------------------------------
 */

#ifndef PABI_STANDALONE

/* The installed header must be that of the release we were told: every modelled field at its place, nothing behind. */
#define PABI_SAME(name, field)                                                                                         \
	_Static_assert(offsetof(struct name, field) == offsetof(struct model_##name, field) &&                         \
			   sizeof(((struct name *)0)->field) == sizeof(((struct model_##name *)0)->field),             \
		       "the installed verbs.h is not of this release: " #name "." #field);
#define PABI_SAME_SIZE(name)                                                                                           \
	_Static_assert(sizeof(struct name) == sizeof(struct model_##name),                                             \
		       "the installed verbs.h is not of this release: " #name);
#define PABI_SAME_NO_UNION(a, b, c, d)
#define PABI_SAME_PORT(since, type, field)     PABI_IF_##since(PABI_SAME(ibv_port_attr, field))
#define PABI_SAME_QP_EX(since, type, field)    PABI_IF_##since(PABI_SAME(ibv_qp_ex, field))
#define PABI_SAME_CONTEXT(since, type, field)  PABI_IF_##since(PABI_SAME(verbs_context, field))
#define PABI_SAME_CONTEXT_OP(since, field, op) PABI_IF_##since(PABI_SAME(verbs_context, field))
PABI_ibv_port_attr(PABI_SAME_PORT, PABI_SAME_NO_UNION) PABI_ibv_qp_ex(PABI_SAME_QP_EX, PABI_SAME_NO_UNION)
    PABI_verbs_context(PABI_SAME_CONTEXT, PABI_SAME_CONTEXT_OP) PABI_SAME_SIZE(ibv_port_attr) PABI_SAME_SIZE(ibv_qp_ex)
	PABI_SAME_SIZE(verbs_context)

#endif /* PABI_STANDALONE */

#if defined(__x86_64__)
	    _Static_assert(sizeof(struct verbs_device_ops) == 72, "verbs_device_ops");
_Static_assert(sizeof(struct verbs_match_ent) == 24, "verbs_match_ent");
_Static_assert(sizeof(struct verbs_sysfs_dev) == (SIMHCA_RDMA_CORE >= 35 ? 992 : 984), "verbs_sysfs_dev");
_Static_assert(sizeof(struct verbs_device) == 712, "verbs_device");
_Static_assert(sizeof(struct verbs_mr) == 56, "verbs_mr");
_Static_assert(sizeof(struct verbs_cq) == 288, "verbs_cq");
_Static_assert(sizeof(struct verbs_srq) == 160, "verbs_srq");
_Static_assert(sizeof(struct verbs_xrcd) == 16, "verbs_xrcd");
_Static_assert(sizeof(struct verbs_dm) == 40, "verbs_dm");
_Static_assert(offsetof(struct verbs_qp, comp_mask) == (SIMHCA_RDMA_CORE >= 45	 ? 360
							: SIMHCA_RDMA_CORE == 44 ? 352
										 : 344),
	       "verbs_qp.comp_mask");
_Static_assert(sizeof(struct model_verbs_context) == (SIMHCA_RDMA_CORE >= 64   ? 696
						      : SIMHCA_RDMA_CORE >= 62 ? 680
						      : SIMHCA_RDMA_CORE >= 59 ? 672
									       : 648),
	       "verbs_context");
_Static_assert(sizeof(struct verbs_context_ops) / sizeof(void *) == (SIMHCA_RDMA_CORE >= 65   ? 93
								     : SIMHCA_RDMA_CORE >= 64 ? 83
								     : SIMHCA_RDMA_CORE >= 62 ? 81
								     : SIMHCA_RDMA_CORE >= 59 ? 79
								     : SIMHCA_RDMA_CORE >= 36 ? 76
								     : SIMHCA_RDMA_CORE == 35 ? 75
											      : 73),
	       "verbs_context_ops");
#endif

#ifndef PABI_STANDALONE

/* ---- the four private functions ------------------------------------------------------------------------------------
 */

#define PABI_CAT_(a, b)	      a##b
#define PABI_CAT(a, b)	      PABI_CAT_(a, b)
#define verbs_register_driver PABI_CAT(verbs_register_driver_, SIMHCA_PABI)

/* Makes the provider known; called once from a constructor. ops must live for ever. */
void verbs_register_driver(const struct verbs_device_ops *ops);
/*
 * Allocates alloc_size zeroed bytes with a verbs_context at context_offset (an offset, in spite of its type) and sets
 * it up; cmd_fd belongs to the context from then on. NULL and errno on failure.
 */
void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
				    struct verbs_context *context_offset, uint32_t driver_id);
/* Copies every non-NULL op over the default, which answers EOPNOTSUPP. */
void verbs_set_ops(struct verbs_context *vctx, const struct verbs_context_ops *ops);
/* Closes cmd_fd and async_fd and frees what the library allocated, but not the context. */
void verbs_uninit_context(struct verbs_context *context);

#endif /* PABI_STANDALONE */
