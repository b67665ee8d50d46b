/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Durations of an idle system as closed forms, all in integer picoseconds. One message of S bytes; the names of the
 * parts are those of the stage table.
 */
#include "sim/model/model.h"

/* A frame cannot be shorter than this on Ethernet: 64 bytes, preamble and gap. */
#define ETHERNET_MIN_PKT_B 84
#define CACHE_LINE_B	   64 /* unit of write-combining stores and inline copies */

void model_timing(const struct profile *p, struct timing *t)
{
	*t = (struct timing){
	    .cpu_post = p->cpu_post_ns,
	    .cpu_copy_64B = p->cpu_copy_64B_ns,
	    .mmio_doorbell = p->mmio_doorbell_ns,
	    .wc_store_64B = p->wc_store_64B_ns,
	    .cpu_poll = p->cpu_poll_ns,
	    .cpu_empty_poll = p->cpu_empty_poll_ns,
	    .cpu_event = p->cpu_event_ns,
	    .pcie_mmio = p->pcie_mmio_ns,
	    .pcie_read_rtt = p->pcie_read_rtt_ns,
	    .pcie_write = p->pcie_write_ns,
	    .dma_op = p->dma_op_ns,
	    .nic_tx = p->nic_tx_ns,
	    .nic_rx = p->nic_rx_ns,
	    .nic_rx_occ = p->nic_rx_occ_ns,
	    .cqe_write = p->cqe_write_ns,
	    .ack_turn = p->ack_turn_ns,
	    .atomic_exec = p->atomic_exec_ns,
	    .recv_wqe = p->recv_wqe_ns,
	    .nic_multi_pkt = p->nic_multi_pkt_ns,
	    .wire = p->wire_ns,
	    .switch_hop = p->switch_ns,
	    .switch_hops = p->switch_hops,
	    .dma_chunk_B = p->dma_chunk_B,
	    .pkt_ovh_B = p->pkt_ovh_B,
	    .mtu_B = p->active_mtu,
	    .bf_buf_B = p->push_buf_B,
	    .block_B = p->block_B,
	    .wqe_prefetch_depth = p->wqe_prefetch_depth,
	    .min_pkt_B = p->link_layer == LINK_ETHERNET ? ETHERNET_MIN_PKT_B : 0,
	    .pcie_MBps = p->pcie_GBps,
	    .link_MBps = p->link_Gbps,
	    .guess = p->guess,
	};
}

int64_t time_bytes_ps(uint64_t bytes, uint64_t MBps)
{
	if (!MBps)
		return 0;
	/* A megabyte a second is a byte a microsecond. Split so that no product overflows. */
	return (int64_t)(bytes / MBps * 1000000 + (bytes % MBps * 1000000 + MBps / 2) / MBps);
}

static uint64_t packets_of(uint64_t n, uint32_t mtu_B)
{
	return n <= mtu_B ? 1 : (n + mtu_B - 1) / mtu_B;
}

int64_t time_wire_ps(const struct timing *t, uint64_t n, uint32_t mtu_B, uint32_t ext_B)
{
	uint64_t packets = packets_of(n, mtu_B);
	uint64_t last_B = n - (packets - 1) * mtu_B + t->pkt_ovh_B + (packets == 1 ? ext_B : 0);
	uint64_t padding_B = last_B < t->min_pkt_B ? t->min_pkt_B - last_B : 0;

	return time_bytes_ps(n + packets * t->pkt_ovh_B + ext_B + padding_B, t->link_MBps);
}

int64_t time_net_ps(const struct timing *t)
{
	return t->wire + (int64_t)t->switch_hops * t->switch_hop;
}

static int64_t lines_of(uint32_t bytes)
{
	return ((int64_t)bytes + CACHE_LINE_B - 1) / CACHE_LINE_B;
}

int64_t time_post_cpu_ps(const struct timing *t, const struct wqe_plan *plan, bool is_inline, uint32_t bytes,
			 bool last_of_list)
{
	int64_t cpu = t->cpu_post;

	if (is_inline)
		cpu += lines_of(bytes) * t->cpu_copy_64B;
	if (plan->push)
		return cpu + lines_of(plan->wqe_B) * t->wc_store_64B;
	return last_of_list ? cpu + t->mmio_doorbell : cpu;
}

int64_t time_have_listed_ps(const struct timing *t, const struct wqe_plan *plan, uint32_t index, uint32_t count)
{
	if (plan->push)
		return t->pcie_mmio;
	/* Fetches before the WQE's own are full; its own brings what is left of the list. */
	uint32_t depth = t->wqe_prefetch_depth, before = index / depth;
	uint32_t in_own = MIN(depth, MAX(count, index + 1) - before * depth);
	uint64_t wqe_B = (uint64_t)plan->blocks * t->block_B;

	return t->pcie_mmio + t->pcie_read_rtt + t->dma_op + time_bytes_ps(in_own * wqe_B, t->pcie_MBps) +
	       before * (t->dma_op + time_bytes_ps(depth * wqe_B, t->pcie_MBps));
}

int64_t time_have_wqe_ps(const struct timing *t, const struct wqe_plan *plan, uint32_t index)
{
	return time_have_listed_ps(t, plan, index, index + 1);
}

/*
 * DMA read (if gathered), link and DMA write of one message, cut into chunks that each stage hands on whole:
 * done[i][j] = max(done[i-1][j], done[i][j-1]) + time[i][j]. All chunks but the last are alike, and for alike ones
 * the slowest stage sets the pace.
 */
static int64_t pipe_ps(const struct timing *t, uint64_t bytes, bool gather, uint32_t mtu_B, uint32_t ext_B)
{
	uint64_t chunk_B = t->dma_chunk_B, full = bytes ? (bytes - 1) / chunk_B : 0, last_B = bytes - full * chunk_B;
	int64_t bus = time_bytes_ps(last_B, t->pcie_MBps), read = gather ? bus : 0;

	if (!full)
		return read + time_wire_ps(t, last_B, mtu_B, ext_B) + bus;
	int64_t full_bus = time_bytes_ps(chunk_B, t->pcie_MBps), full_read = gather ? full_bus : 0;
	int64_t full_link = time_wire_ps(t, chunk_B, mtu_B, 0), ext = time_bytes_ps(ext_B, t->link_MBps);
	int64_t more = (int64_t)full - 1;
	int64_t read_done = (int64_t)full * full_read;
	int64_t link_done = full_read + full_link + ext + more * MAX(full_read, full_link);
	int64_t write_done = full_read + full_link + ext + full_bus + more * MAX(full_bus, MAX(full_read, full_link));

	read_done += read;
	link_done = MAX(read_done, link_done) + time_wire_ps(t, last_B, mtu_B, 0);
	return MAX(link_done, write_done) + bus;
}

/* The DMA write of the last piece: what of the pipe lies behind the far port. */
static int64_t pipe_tail_ps(const struct timing *t, uint64_t bytes)
{
	return time_bytes_ps(MIN(bytes, t->dma_chunk_B), t->pcie_MBps);
}

int64_t time_tx_ps(const struct timing *t, uint32_t bytes, bool gather, uint32_t mtu_B, uint32_t ext_B)
{
	int64_t read = gather && bytes ? t->dma_op + t->pcie_read_rtt : 0;

	return read + t->nic_tx + pipe_ps(t, bytes, gather, mtu_B, ext_B) - pipe_tail_ps(t, bytes);
}

int64_t time_rx_write_ps(const struct timing *t, uint32_t bytes)
{
	return t->nic_rx + t->dma_op + pipe_tail_ps(t, bytes) + t->pcie_write;
}

int64_t time_cqe_ps(const struct timing *t, int64_t *generated)
{
	*generated = t->nic_rx + t->cqe_write;
	return *generated + t->pcie_write;
}

uint64_t time_ticks(const struct profile *p, int64_t ps)
{
	uint64_t khz = p->hca_core_clock_khz, t = ps < 0 ? 0 : (uint64_t)ps;

	return t / 1000000000 * khz + t % 1000000000 * khz / 1000000000;
}

/* ---- headers -------------------------------------------------------------------------------------------------- */

#define DETH_B	     8
#define RETH_B	     16
#define ATOMIC_ETH_B 28
#define AETH_B	     4
#define IMM_B	     4
#define XRCETH_B     4

uint32_t time_request_ext_B(enum qp_kind kind, enum sim_op op)
{
	unsigned flags = sim_ops[op].flags;
	uint32_t ext_B = 0;

	if (flags & (OPF_WRITE | OPF_READ))
		ext_B += RETH_B;
	if (flags & OPF_ATOMIC)
		ext_B += ATOMIC_ETH_B;
	if (flags & (OPF_IMM | OPF_INV))
		ext_B += IMM_B;
	if (kind == QP_UD)
		ext_B += DETH_B;
	if (kind == QP_XRC_SEND)
		ext_B += XRCETH_B;
	return ext_B;
}

uint32_t time_response_ext_B(enum sim_op op)
{
	(void)op; /* READ responses, atomic responses (their 8 bytes are payload) and ACKs alike */
	return AETH_B;
}

/* ---- whole messages -------------------------------------------------------------------------------------------- */

/* Post until the adapter has the WQE of a lone work request. */
static int64_t lone_post_ps(const struct profile *p, const struct timing *t, const struct time_msg *m)
{
	struct wqe_plan plan;

	model_wqe_plan(p,
		       &(struct wqe_shape){.kind = m->kind,
					   .op = m->op,
					   .is_inline = m->is_inline,
					   .bytes = m->bytes,
					   .num_sge = m->bytes ? 1 : 0,
					   .posted_with = 1,
					   .sq_idle = true},
		       &plan);
	if (m->kernel)
		plan.push = false;
	return time_post_cpu_ps(t, &plan, m->is_inline, m->bytes, true) + time_have_wqe_ps(t, &plan, 0);
}

/* READ and atomics: data and completion arrive together. */
static int64_t response_ps(const struct profile *p, const struct timing *t, const struct time_msg *m)
{
	bool atomic = sim_ops[m->op].flags & OPF_ATOMIC;
	uint32_t bytes = atomic ? 8 : m->bytes;
	int64_t generated;

	return lone_post_ps(p, t, m) + t->nic_tx + time_wire_ps(t, 0, m->mtu_B, time_request_ext_B(m->kind, m->op)) +
	       time_net_ps(t) + t->nic_rx + t->dma_op + t->pcie_read_rtt + (atomic ? t->atomic_exec : 0) +
	       pipe_ps(t, bytes, true, m->mtu_B, time_response_ext_B(m->op)) + time_net_ps(t) + t->dma_op +
	       time_cqe_ps(t, &generated) + t->cpu_poll;
}

int64_t time_one_way_ps(const struct profile *p, const struct time_msg *m)
{
	const unsigned flags = sim_ops[m->op].flags;
	struct timing t;

	model_timing(p, &t);
	if (flags & OPF_RESPONSE)
		return response_ps(p, &t, m);
	int64_t ps = lone_post_ps(p, &t, m) +
		     time_tx_ps(&t, m->bytes, !m->is_inline, m->mtu_B, time_request_ext_B(m->kind, m->op)) +
		     time_net_ps(&t) + time_rx_write_ps(&t, m->bytes) + t.cpu_poll;
	/* What consumes a receive leaves a CQE behind the data. */
	return flags & (OPF_SEND | OPF_IMM) ? ps + t.recv_wqe + t.cqe_write : ps;
}

int64_t time_sender_completion_ps(const struct profile *p, const struct time_msg *m)
{
	struct timing t;
	int64_t generated;

	model_timing(p, &t);
	if (sim_ops[m->op].flags & OPF_RESPONSE)
		return response_ps(p, &t, m);
	/* The acknowledgement does not wait for the responder's DMA write. */
	return lone_post_ps(p, &t, m) +
	       time_tx_ps(&t, m->bytes, !m->is_inline, m->mtu_B, time_request_ext_B(m->kind, m->op)) + time_net_ps(&t) +
	       t.nic_rx + t.ack_turn + time_wire_ps(&t, 0, m->mtu_B, time_response_ext_B(m->op)) + time_net_ps(&t) +
	       time_cqe_ps(&t, &generated) + t.cpu_poll;
}
