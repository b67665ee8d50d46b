/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes and blocks of one send WQE in each family's layout, and whether it is pushed or fetched.
 */
#include "sim/model/model.h"

#define SGE_B 16

static bool has_remote(enum sim_op op)
{
	return sim_ops[op].flags & OPF_RETH;
}

static bool is_atomic(enum sim_op op)
{
	return sim_ops[op].flags & OPF_ATOMIC;
}

static bool is_local(enum sim_op op)
{
	return sim_ops[op].flags & OPF_LOCAL;
}

/* Inline data is only ever placed by operations that carry payload out. */
static bool carries_inline(const struct wqe_shape *s)
{
	return s->is_inline && (sim_ops[s->op].flags & OPF_DATA_OUT);
}

/* Control, remote address, atomic and address segments, each a multiple of 16 bytes. */
static uint32_t segments_B(const struct wqe_shape *s)
{
	uint32_t size = 16;

	if (has_remote(s->op))
		size += 16;
	if (is_atomic(s->op))
		size += 16;
	if (s->kind == QP_UD)
		size += 48;
	if (s->kind == QP_XRC_SEND)
		size += 16;
	return size;
}

static uint32_t plain_B(const struct wqe_shape *s)
{
	if (is_local(s->op))
		return 32;
	if (carries_inline(s))
		return segments_B(s) + (uint32_t)round_up_u64(s->bytes, 16);
	return segments_B(s) + s->num_sge * SGE_B;
}

static uint32_t mlx5_B(const struct wqe_shape *s)
{
	/* Control, UMR control and memory-key context; binding a length adds one padded list entry. */
	if (is_local(s->op))
		return 16 + 48 + 64 + (s->op == OP_BIND_MW && s->bytes ? 64 : 0);
	if (!carries_inline(s))
		return segments_B(s) + s->num_sge * SGE_B;
	/* One length word, then the data; nothing at all for no data. */
	return segments_B(s) + (s->bytes ? (uint32_t)round_up_u64(4 + (uint64_t)s->bytes, 16) : 0);
}

/* 32-byte quanta; from generation 2 on the last byte of each holds the valid bit. */
static uint32_t irdma_quanta(uint32_t gen, const struct wqe_shape *s)
{
	if (is_local(s->op) || is_atomic(s->op))
		return 1;
	if (carries_inline(s)) {
		if (gen == 1)
			return s->bytes <= 16 ? 1 : 2;
		return s->bytes <= 8 ? 1 : 1 + (s->bytes - 8 + 30) / 31;
	}
	/* One SGE sits in the first quantum, two in each further one; immediate data takes a slot. */
	uint32_t slots = s->num_sge + (gen > 1 && sim_ops[s->op].flags & OPF_IMM ? 1 : 0);
	return slots <= 1 ? 1 : slots / 2 + 1;
}

static uint32_t erdma_B(const struct wqe_shape *s)
{
	uint32_t header = sim_ops[s->op].flags & (OPF_WRITE | OPF_READ) ? 32 : 16;

	if (is_local(s->op) || is_atomic(s->op))
		return 64;
	return header + (carries_inline(s) ? s->bytes : s->num_sge * SGE_B);
}

static uint32_t rxe_B(const struct wqe_shape *s)
{
	return 208 + (s->is_inline ? s->bytes : s->num_sge * SGE_B);
}

static uint32_t wqe_B(const struct profile *p, const struct wqe_shape *s)
{
	switch (p->layout) {
	case WQE_MLX5: return mlx5_B(s);
	case WQE_IRDMA: return irdma_quanta(p->hw_gen, s) * 32;
	case WQE_ERDMA: return erdma_B(s);
	case WQE_RXE: return rxe_B(s);
	default: return plain_B(s);
	}
}

/* Written through the push buffer? The doorbell register is the alternative. */
static bool pushed(const struct profile *p, const struct wqe_shape *s, uint32_t size_B)
{
	if (size_B > p->push_buf_B)
		return false;
	switch (p->kind) {
	case DB_BLUEFLAME:
		/* A lone WQE that has more than its control segment. */
		return s->posted_with == 1 && (s->is_inline || p->push_non_inline) && size_B > 16;
	case DB_PUSH_PAGE: return s->sq_idle;
	default: return false;
	}
}

void model_wqe_plan(const struct profile *p, const struct wqe_shape *shape, struct wqe_plan *plan)
{
	uint32_t size_B = wqe_B(p, shape);

	plan->wqe_B = size_B;
	plan->blocks = (size_B + p->block_B - 1) / p->block_B;
	plan->units = p->sq_counts == SQ_COUNTS_BLOCKS ? plan->blocks : 1;
	plan->push = pushed(p, shape, size_B);
}
