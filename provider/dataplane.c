/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data path: posting, polling, and the function pointers of extended queue pairs and completion queues. Each is
 * one step to the adapter.
 */
#include "provider/provider.h"

int simhca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return hca_post_send(to_qp(qp)->hqp, wr, bad);
}

int simhca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return hca_post_recv(to_qp(qp)->hqp, wr, bad);
}

int simhca_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return hca_cq_poll(to_cq(cq)->hcq, n, wc);
}

int simhca_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return hca_cq_arm(to_cq(cq)->hcq, solicited_only != 0);
}

/* ---- extended polling ---- */

static int take(struct p_cq *cq, int err)
{
	if (err) {
		cq->cur = NULL;
		return err;
	}
	cq->vcq.cq_ex.wr_id = cq->cur->wr_id;
	cq->vcq.cq_ex.status = (enum ibv_wc_status)cq->cur->status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct p_cq *cq = ex_to_cq(ibcq);
	const struct hca_cqe *cqe;
	int err;

	if (unlikely(attr->comp_mask))
		return EINVAL;
	err = hca_cq_start_poll(cq->hcq, &cqe);
	if (err)
		return err; /* not locked: another thread may be polling, its completion stays current */
	cq->cur = cqe;
	return take(cq, 0);
}

static int next_poll(struct ibv_cq_ex *ibcq)
{
	struct p_cq *cq = ex_to_cq(ibcq);

	return take(cq, hca_cq_next_poll(cq->hcq, &cq->cur));
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
	hca_cq_end_poll(ex_to_cq(ibcq)->hcq);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return (enum ibv_wc_opcode)ex_to_cq(cq)->cur->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return ex_to_cq(cq)->cur->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return ex_to_cq(cq)->cur->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return ex_to_cq(cq)->cur->imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return ex_to_cq(cq)->cur->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return ex_to_cq(cq)->cur->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	return ex_to_cq(cq)->cur->wc_flags;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return ex_to_cq(cq)->cur->sl;
}

/* Ticks of the adapter's clock at which it made the CQE. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ibcq)
{
	const struct p_cq *cq = ex_to_cq(ibcq);

	return time_ticks(hca_profile(to_context(ibcq->context)->hca->h), cq->cur->generated_ps);
}

/* The modelled clock began when the device was opened, as far as the wall is concerned. */
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ibcq)
{
	return (uint64_t)(to_context(ibcq->context)->wall_offset_ns + ex_to_cq(ibcq)->cur->generated_ps / 1000);
}

/* No subnet, no VLANs, no flows, no tags: the fields that only those fill are zero. */
static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint16_t read_cvlan(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	(void)cq;
	*info = (struct ibv_wc_tm_info){0};
}

/* All of them, whatever was asked: a reader that was not asked for is a mistake, not a crash. */
void cq_ex_fill(struct ibv_cq_ex *cq)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_byte_len = read_byte_len;
	cq->read_imm_data = read_imm_data;
	cq->read_qp_num = read_qp_num;
	cq->read_src_qp = read_src_qp;
	cq->read_wc_flags = read_wc_flags;
	cq->read_slid = read_slid;
	cq->read_sl = read_sl;
	cq->read_dlid_path_bits = read_dlid_path_bits;
	cq->read_completion_ts = read_completion_ts;
	cq->read_cvlan = read_cvlan;
	cq->read_flow_tag = read_flow_tag;
	cq->read_tm_info = read_tm_info;
	cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

/* ---- the work-request builder ---- */

static void begin(struct ibv_qp_ex *qp, enum sim_op op)
{
	hca_wr_begin(ex_to_qp(qp)->hqp, qp->wr_id, qp->wr_flags, op);
}

static void wr_start(struct ibv_qp_ex *qp)
{
	hca_wr_start(ex_to_qp(qp)->hqp);
	ex_to_qp(qp)->wr_error = 0; /* under the send queue's lock from here to complete or abort */
}

static int wr_complete(struct ibv_qp_ex *ibqp)
{
	struct p_qp *qp = ex_to_qp(ibqp);

	if (unlikely(qp->wr_error)) {
		int err = qp->wr_error; /* read before the lock goes */

		hca_wr_abort(qp->hqp);
		return err;
	}
	return hca_wr_complete(qp->hqp);
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	hca_wr_abort(ex_to_qp(qp)->hqp);
}

static void wr_send(struct ibv_qp_ex *qp)
{
	begin(qp, OP_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	begin(qp, OP_SEND_IMM);
	hca_wr_imm(ex_to_qp(qp)->hqp, imm);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	begin(qp, OP_WRITE);
	hca_wr_remote(ex_to_qp(qp)->hqp, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	begin(qp, OP_WRITE_IMM);
	hca_wr_remote(ex_to_qp(qp)->hqp, rkey, remote_addr);
	hca_wr_imm(ex_to_qp(qp)->hqp, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	begin(qp, OP_READ);
	hca_wr_remote(ex_to_qp(qp)->hqp, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
			      uint64_t swap)
{
	begin(qp, OP_CMP_SWAP);
	hca_wr_remote(ex_to_qp(qp)->hqp, rkey, remote_addr);
	hca_wr_atomic(ex_to_qp(qp)->hqp, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	begin(qp, OP_FETCH_ADD);
	hca_wr_remote(ex_to_qp(qp)->hqp, rkey, remote_addr);
	hca_wr_atomic(ex_to_qp(qp)->hqp, add, 0);
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	hca_wr_sges(ex_to_qp(qp)->hqp, 1, &sge);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
	hca_wr_sges(ex_to_qp(qp)->hqp, num_sge, sg_list);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	const struct ibv_data_buf buf = {.addr = addr, .length = length};

	hca_wr_inline(ex_to_qp(qp)->hqp, 1, &buf);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf, const struct ibv_data_buf *bufs)
{
	hca_wr_inline(ex_to_qp(qp)->hqp, num_buf, bufs);
}

/* ---- operations that this adapter lacks: ibv_create_qp_ex refuses them, so calling one is a mistake ---- */

static void not_offered(struct ibv_qp_ex *qp, const char *call)
{
	say(LOG_WHY, "%s on %s: the queue pair was not created for it: EOPNOTSUPP", call,
	    adapter_name(qp->qp_base.context));
	ex_to_qp(qp)->wr_error = EOPNOTSUPP;
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	(void)mw, (void)rkey, (void)info;
	not_offered(qp, "ibv_wr_bind_mw");
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	(void)rkey;
	not_offered(qp, "ibv_wr_local_inv");
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	(void)rkey;
	not_offered(qp, "ibv_wr_send_inv");
}

static void wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	(void)hdr, (void)hdr_sz, (void)mss;
	not_offered(qp, "ibv_wr_send_tso");
}

static void wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	(void)ah, (void)remote_qpn, (void)remote_qkey;
	not_offered(qp, "ibv_wr_set_ud_addr");
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	(void)remote_srqn;
	not_offered(qp, "ibv_wr_set_xrc_srqn");
}

#if SIMHCA_RDMA_CORE >= 44
static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr)
{
	(void)rkey, (void)remote_addr, (void)atomic_wr;
	not_offered(qp, "ibv_wr_atomic_write");
}
#endif

#if SIMHCA_RDMA_CORE >= 45
static void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level)
{
	(void)rkey, (void)remote_addr, (void)len, (void)type, (void)level;
	not_offered(qp, "ibv_wr_flush");
}
#endif

uint64_t qp_ex_ops(enum ibv_qp_type type)
{
	const uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	const uint64_t reads =
	    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

	switch (type) {
	case IBV_QPT_RC: return sends | writes | reads;
	case IBV_QPT_UC: return sends | writes;
	case IBV_QPT_UD: return sends;
	default: return 0;
	}
}

void qp_ex_fill(struct ibv_qp_ex *qp)
{
	qp->wr_start = wr_start;
	qp->wr_complete = wr_complete;
	qp->wr_abort = wr_abort;
	qp->wr_send = wr_send;
	qp->wr_send_imm = wr_send_imm;
	qp->wr_rdma_write = wr_rdma_write;
	qp->wr_rdma_write_imm = wr_rdma_write_imm;
	qp->wr_rdma_read = wr_rdma_read;
	qp->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	qp->wr_atomic_fetch_add = wr_atomic_fetch_add;
	qp->wr_set_sge = wr_set_sge;
	qp->wr_set_sge_list = wr_set_sge_list;
	qp->wr_set_inline_data = wr_set_inline_data;
	qp->wr_set_inline_data_list = wr_set_inline_data_list;
	qp->wr_bind_mw = wr_bind_mw;
	qp->wr_local_inv = wr_local_inv;
	qp->wr_send_inv = wr_send_inv;
	qp->wr_send_tso = wr_send_tso;
	qp->wr_set_ud_addr = wr_set_ud_addr;
	qp->wr_set_xrc_srqn = wr_set_xrc_srqn;
#if SIMHCA_RDMA_CORE >= 44
	qp->wr_atomic_write = wr_atomic_write;
#endif
#if SIMHCA_RDMA_CORE >= 45
	qp->wr_flush = wr_flush;
#endif
}
