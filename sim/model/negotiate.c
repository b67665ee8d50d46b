/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a queue pair is granted, by family. Each policy is one function that starts from a copy of the request in
 * grant->caps, refuses by naming the limit, or writes what is granted. All sums are 64-bit: a request of 0xFFFFFFFF
 * must be refused, not wrapped.
 */
#include "sim/model/model.h"

const char *qp_kind_name(enum qp_kind kind)
{
	static const char *const names[QP_KINDS] = {
	    [QP_RC] = "RC", [QP_UC] = "UC", [QP_UD] = "UD", [QP_XRC_SEND] = "XRC_SEND", [QP_XRC_RECV] = "XRC_RECV",
	};

	return (unsigned)kind < QP_KINDS ? names[kind] : "?";
}

static bool kind_offered(const struct profile *p, enum qp_kind kind)
{
	switch (kind) {
	case QP_RC: return p->qp_rc;
	case QP_UC: return p->qp_uc;
	case QP_UD: return p->qp_ud;
	case QP_XRC_SEND:
	case QP_XRC_RECV: return p->qp_xrc;
	default: return false;
	}
}

static uint32_t clamp_u32(uint64_t x)
{
	return x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}

static int refuse(struct qp_grant *g, int err, const char *why, uint32_t asked, uint64_t allowed)
{
	g->err = err;
	g->why = why;
	g->asked = asked;
	g->allowed = clamp_u32(allowed);
	return err;
}

static int refuse_kind(const struct profile *p, struct qp_grant *g)
{
	return refuse(g, p->qp_kind_errno, "qp_type", 0, 0);
}

/* Refuses a figure above its limit; non-zero when refused. The order of calls is the order of a driver's checks. */
static int above(const struct profile *p, struct qp_grant *g, const char *why, uint32_t asked, uint64_t allowed)
{
	return asked > allowed ? refuse(g, p->create_errno, why, asked, allowed) : 0;
}

/* Limits of the five capabilities as plain comparisons. */
static int check_plain(const struct profile *p, struct qp_grant *g)
{
	const struct qp_caps *c = &g->caps;

	if (above(p, g, "max_send_wr", c->max_send_wr, p->max_qp_wr) ||
	    above(p, g, "max_recv_wr", c->max_recv_wr, p->max_qp_wr) ||
	    above(p, g, "max_send_sge", c->max_send_sge, p->max_send_sge) ||
	    above(p, g, "max_recv_sge", c->max_recv_sge, p->max_recv_sge) ||
	    above(p, g, "max_inline_data", c->max_inline_data, p->max_inline_data))
		return g->err;
	return 0;
}

/* ---- echo: what is not too much is granted as asked ------------------------------------------------------- */

static int policy_echo(const struct profile *p, const struct qp_request *req, struct qp_grant *g)
{
	struct qp_caps *c = &g->caps;

	/* An adapter without inline data does not refuse the request for it. */
	if (!p->max_inline_data)
		c->max_inline_data = 0;
	if (check_plain(p, g))
		return g->err;
	if (p->zero_wr_refused && !c->max_send_wr)
		return refuse(g, p->create_errno, "max_send_wr of 0", 0, p->max_qp_wr);
	if (p->zero_wr_refused && !c->max_recv_wr && !req->has_srq)
		return refuse(g, p->create_errno, "max_recv_wr of 0", 0, p->max_qp_wr);
	if (!kind_offered(p, req->kind))
		return refuse_kind(p, g);
	g->wqe_overhead_B = 16;
	g->sq_units = c->max_send_wr;
	if (p->sq_counts == SQ_COUNTS_BLOCKS && c->max_send_wr)
		g->sq_units = clamp_u32(pow2_up_u64((uint64_t)c->max_send_wr * p->sq_blocks_per_wr));
	return 0;
}

/* ---- mlx5: whole 64-byte blocks ---------------------------------------------------------------------------- */

#define MLX5_CTRL_B		16
#define MLX5_RADDR_B		16
#define MLX5_ATOMIC_B		16
#define MLX5_UMR_B		(48 + 64 + 64) /* UMR control, memory-key context, one block of list */
#define MLX5_AV_B		48
#define MLX5_XRC_B		16
#define MLX5_SGE_B		16
#define MLX5_INLINE_HDR_B	4
#define MLX5_RECV_DESC_MAX_B(p) ((uint64_t)(p)->max_recv_sge * MLX5_SGE_B)

#define OPS_RDMA   (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)
#define OPS_ATOMIC (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define OPS_UMR	   (IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)

/* Largest header of the operations a queue pair was declared for; none declared: all that its kind can do. */
static uint32_t mlx5_overhead_B(const struct qp_request *req)
{
	uint64_t ops = req->send_ops;
	uint32_t size = MLX5_CTRL_B;

	if (!ops && req->kind != QP_UD)
		ops = OPS_RDMA | OPS_ATOMIC | OPS_UMR;
	if (ops & OPS_RDMA)
		size = MAX(size, MLX5_CTRL_B + MLX5_RADDR_B);
	if (ops & OPS_ATOMIC)
		size = MAX(size, MLX5_CTRL_B + MLX5_RADDR_B + MLX5_ATOMIC_B);
	if (ops & OPS_UMR)
		size = MAX(size, MLX5_CTRL_B + MLX5_UMR_B);
	if (req->kind == QP_UD)
		return size + MLX5_AV_B;
	return req->kind == QP_XRC_SEND ? size + MLX5_XRC_B : size;
}

static int mlx5_send_queue(const struct profile *p, const struct qp_request *req, struct qp_grant *g)
{
	struct qp_caps *c = &g->caps;
	const uint64_t desc_B = p->max_sq_desc_B, ovh_B = mlx5_overhead_B(req);
	const uint64_t ring_max_B = (uint64_t)p->max_sq_blocks * p->block_B;

	g->wqe_overhead_B = (uint32_t)ovh_B;
	/* Without a send queue nothing is computed: the inline figure is echoed, and no inline post can succeed. */
	if (!c->max_send_wr) {
		g->sge_limit_post = g->inline_limit_post_B = 0;
		return 0;
	}
	if (above(p, g, "max_send_sge", c->max_send_sge, (desc_B - ovh_B) / MLX5_SGE_B) ||
	    above(p, g, "max_inline_data", c->max_inline_data, (desc_B - ovh_B) / 16 * 16 - MLX5_INLINE_HDR_B))
		return g->err;
	uint64_t gather_B = ovh_B + (uint64_t)c->max_send_sge * MLX5_SGE_B;
	uint64_t inline_B = c->max_inline_data ? ovh_B + round_up_u64(MLX5_INLINE_HDR_B + c->max_inline_data, 16) : 0;
	uint64_t wqe_B = round_up_u64(MAX(gather_B, inline_B), p->block_B);

	/* With neither SGEs nor inline data this wraps to 2^32 - 4: so does the adapter's own library. */
	c->max_inline_data = (uint32_t)(wqe_B - ovh_B - MLX5_INLINE_HDR_B);
	/* ibv_create_qp_ex works on the caller's structure: by now the inline figure in it is rounded up. */
	g->caps_edited = req->extended;
	if (above(p, g, "max_send_wr", c->max_send_wr, ring_max_B / wqe_B))
		return g->err;
	c->max_send_wr = (uint32_t)(pow2_up_u64(c->max_send_wr * wqe_B) / wqe_B);
	g->sq_units = p->sq_counts == SQ_COUNTS_WR ? c->max_send_wr : clamp_u32(c->max_send_wr * (wqe_B / p->block_B));
	g->inline_limit_post_B = (int32_t)c->max_inline_data < 0 ? 0 : c->max_inline_data;
	g->sge_limit_post = c->max_send_sge;
	return 0;
}

static int mlx5_recv_queue(const struct profile *p, const struct qp_request *req, struct qp_grant *g)
{
	struct qp_caps *c = &g->caps;

	/* The depth is looked at even when a shared receive queue makes it meaningless. */
	if (above(p, g, "max_recv_wr", req->caps.max_recv_wr, p->max_qp_wr))
		return g->err;
	if (!c->max_recv_wr)
		return 0;
	if (above(p, g, "max_recv_sge", c->max_recv_sge, MLX5_RECV_DESC_MAX_B(p) / MLX5_SGE_B))
		return g->err;
	uint64_t wqe_B = pow2_up_u64((uint64_t)MAX(c->max_recv_sge, 1u) * MLX5_SGE_B);
	uint64_t ring_B = MAX(pow2_up_u64(c->max_recv_wr) * wqe_B, p->block_B);
	c->max_recv_wr = clamp_u32(ring_B / wqe_B);
	c->max_recv_sge = clamp_u32(wqe_B / MLX5_SGE_B);
	return 0;
}

static int policy_mlx5(const struct profile *p, const struct qp_request *req, struct qp_grant *g)
{
	if (!kind_offered(p, req->kind))
		return refuse_kind(p, g);
	int err = mlx5_send_queue(p, req, g);
	if (!err)
		err = mlx5_recv_queue(p, req, g);
	if (err && g->caps_edited) {
		uint32_t rounded_B = g->caps.max_inline_data;
		g->caps = req->caps;
		g->caps.max_inline_data = rounded_B;
	}
	return err;
}

/* ---- irdma: rings of 32-byte quanta ------------------------------------------------------------------------- */

#define IRDMA_SQ_RESERVED   258 /* quanta set aside by the sizing rule */
#define IRDMA_SQ_UNUSABLE   257 /* quanta a full ring still has free */
#define IRDMA_RQ_RESERVED   1
#define IRDMA_RQ_SHIFT_GEN1 2

/* log2 of the quanta that each work request is given. */
static uint32_t irdma_shift(uint32_t gen, uint64_t sge, uint32_t inline_B)
{
	if (gen == 1)
		return sge <= 1 && inline_B <= 16 ? 0 : sge < 4 && inline_B <= 48 ? 1 : 2;
	if (sge <= 1 && inline_B <= 8)
		return 0;
	if (sge < 4 && inline_B <= 39)
		return 1;
	return sge < 8 && inline_B <= 101 ? 2 : 3;
}

/* Quanta of a ring for wr work requests. */
static uint64_t irdma_ring(uint32_t gen, uint32_t wr, uint32_t shift, uint32_t reserved)
{
	static const uint32_t least[] = {[1] = 4, [2] = 8, [3] = 16};
	uint64_t quanta = pow2_up_u64(((uint64_t)wr << shift) + reserved);

	return MAX(quanta, (uint64_t)least[gen] << shift);
}

static int policy_irdma(const struct profile *p, const struct qp_request *req, struct qp_grant *g)
{
	struct qp_caps *c = &g->caps;
	const uint32_t gen = p->hw_gen;

	if (req->kind != QP_RC && req->kind != QP_UD)
		return refuse_kind(p, g);
	if (above(p, g, "max_inline_data", c->max_inline_data, p->max_inline_data) ||
	    above(p, g, "max_send_sge", c->max_send_sge, p->max_send_sge) ||
	    above(p, g, "max_recv_sge", c->max_recv_sge, p->max_recv_sge))
		return g->err;
	/* From generation 2 on a slot is kept for immediate data. */
	uint32_t sq_shift = irdma_shift(gen, (uint64_t)c->max_send_sge + (gen > 1), c->max_inline_data);
	uint32_t rq_shift = gen == 1 ? IRDMA_RQ_SHIFT_GEN1 : irdma_shift(gen, c->max_recv_sge, 0);
	uint64_t sq = irdma_ring(gen, c->max_send_wr, sq_shift, IRDMA_SQ_RESERVED);
	uint64_t rq = irdma_ring(gen, c->max_recv_wr, rq_shift, IRDMA_RQ_RESERVED);

	if (sq > p->max_sq_blocks)
		return refuse(g, p->create_errno, "max_send_wr", c->max_send_wr,
			      (p->max_sq_blocks - MIN(p->max_sq_blocks, IRDMA_SQ_RESERVED)) >> sq_shift);
	if (rq > p->max_rq_blocks)
		return refuse(g, p->create_errno, "max_recv_wr", c->max_recv_wr,
			      (p->max_rq_blocks - IRDMA_RQ_RESERVED) >> rq_shift);
	c->max_send_wr = (uint32_t)((sq - IRDMA_SQ_RESERVED) >> sq_shift);
	if (!req->has_srq)
		c->max_recv_wr = (uint32_t)((rq - IRDMA_RQ_RESERVED) >> rq_shift);
	g->wqe_overhead_B = gen == 1 ? 16 : 24;
	g->sq_units = (uint32_t)(p->sq_counts == SQ_COUNTS_BLOCKS ? sq - IRDMA_SQ_UNUSABLE : c->max_send_wr);
	/* The kernel refuses UD on an iWARP adapter, after the library has rounded the caller's figures. */
	if (!kind_offered(p, req->kind)) {
		g->caps_edited = p->edits_caps_on_failure;
		return refuse_kind(p, g);
	}
	return 0;
}

/* ---- rxe: SGEs and inline data share one space -------------------------------------------------------------- */

#define RXE_WQE_HEADER_B 208
#define RXE_SGE_B	 16

static int policy_rxe(const struct profile *p, const struct qp_request *req, struct qp_grant *g)
{
	struct qp_caps *c = &g->caps;

	if (!kind_offered(p, req->kind))
		return refuse_kind(p, g);
	if (check_plain(p, g))
		return g->err;
	uint32_t space_B = MAX(c->max_send_sge * RXE_SGE_B, c->max_inline_data);
	c->max_inline_data = space_B;
	c->max_send_sge = space_B / RXE_SGE_B;
	/* Rings are powers of two and keep one slot free; current kernels report what fits. */
	c->max_send_wr = (uint32_t)(pow2_up_u64((uint64_t)c->max_send_wr + 1) - 1);
	if (!req->has_srq)
		c->max_recv_wr = (uint32_t)(pow2_up_u64((uint64_t)c->max_recv_wr + 1) - 1);
	g->wqe_overhead_B = RXE_WQE_HEADER_B;
	g->sq_units = c->max_send_wr;
	return 0;
}

/* ---- */

/* Capabilities that mean something for the request; the others are 0. */
static struct qp_caps meaningful(const struct qp_request *req)
{
	struct qp_caps c = req->caps;

	if (req->has_srq || req->kind == QP_XRC_SEND || req->kind == QP_XRC_RECV)
		c.max_recv_wr = c.max_recv_sge = 0;
	if (req->kind == QP_XRC_RECV)
		c.max_send_wr = c.max_send_sge = c.max_inline_data = 0;
	return c;
}

int model_negotiate(const struct profile *p, const struct qp_request *req, struct qp_grant *g)
{
	static int (*const policies[])(const struct profile *, const struct qp_request *, struct qp_grant *) = {
	    [POLICY_ECHO] = policy_echo,
	    [POLICY_MLX5] = policy_mlx5,
	    [POLICY_IRDMA] = policy_irdma,
	    [POLICY_RXE] = policy_rxe,
	};

	*g =
	    (struct qp_grant){.caps = meaningful(req), .inline_limit_post_B = UINT32_MAX, .sge_limit_post = UINT32_MAX};
	if (policies[p->policy](p, req, g)) {
		if (!g->caps_edited)
			g->caps = req->caps;
		return g->err;
	}
	g->caps_edited = false;
	if (g->inline_limit_post_B == UINT32_MAX)
		g->inline_limit_post_B = g->caps.max_inline_data;
	if (g->sge_limit_post == UINT32_MAX)
		g->sge_limit_post = g->caps.max_send_sge;
	if (p->inline_compare == COMPARE_CONSTANT)
		g->inline_limit_post_B = p->inline_constant;
	return 0;
}
