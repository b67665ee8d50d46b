/* SPDX-License-Identifier: BSD-2-Clause */
/* Closed forms of an idle system against worked figures. */
#include "tests/unit/model_test.h"

#define TOLERANCE_PS 20 /* a few stages, each rounded to a picosecond */

static void expect_ps(const char *what, int64_t got, int64_t want)
{
	cr_expect(got >= want - TOLERANCE_PS && got <= want + TOLERANCE_PS, "%s: %lld ps, not %lld", what,
		  (long long)got, (long long)want);
}

struct golden {
	enum sim_op op;
	uint32_t bytes;
	bool kernel;
	int64_t by_reference_ps, inline_ps; /* 0: not given */
};

static void check_golden(const struct profile *p, const struct golden *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct time_msg m = {.op = rows[i].op,
				     .kind = QP_RC,
				     .bytes = rows[i].bytes,
				     .mtu_B = p->active_mtu,
				     .kernel = rows[i].kernel};
		expect_ps(p->name, time_one_way_ps(p, &m), rows[i].by_reference_ps);
		m.is_inline = true;
		if (rows[i].inline_ps)
			expect_ps(p->name, time_one_way_ps(p, &m), rows[i].inline_ps);
	}
}

Test(model_timing, golden_connectx6dx)
{
	const struct profile p = model_profile("connectx6dx");
	static const struct golden rows[] = {{OP_SEND, 64, false, 1447603, 881142},
					     {OP_SEND, 64, true, 2050065, 1461065},
					     {OP_SEND, 4096, false, 2099997, 0},
					     {OP_READ, 8, false, 1591975, 0}};

	check_golden(&p, rows, ARRAY_LEN(rows));
}

Test(model_timing, golden_connectx5)
{
	const struct profile p = model_profile("connectx5");
	static const struct golden rows[] = {{OP_SEND, 64, true, 3138065, 2140065}};

	check_golden(&p, rows, ARRAY_LEN(rows));
}

Test(model_timing, golden_other_hosts)
{
	const struct profile cx7 = model_file(TEST_DATA_DIR "/cx7-xeon8480c.ini"),
			     cx6 = model_file(TEST_DATA_DIR "/cx6-epyc7742.ini");
	static const struct golden cx7_rows[] = {{OP_WRITE, 8, false, 1153308, 723154},
						 {OP_SEND, 200, false, 1204212, 863366}};
	static const struct golden cx6_rows[] = {{OP_WRITE, 8, false, 2099615, 1209308},
						 {OP_READ, 4096, false, 2893797, 0}};

	check_golden(&cx7, cx7_rows, ARRAY_LEN(cx7_rows));
	check_golden(&cx6, cx6_rows, ARRAY_LEN(cx6_rows));
}

Test(model_timing, rates)
{
	cr_expect_eq(time_bytes_ps(1, 12500), 80);
	cr_expect_eq(time_bytes_ps(64, 26000), 2462); /* 2461.5 */
	cr_expect_eq(time_bytes_ps(1000, 0), 0);
	cr_expect_eq(time_bytes_ps(UINT64_C(1) << 40, 12500), (int64_t)80 << 40);
	cr_expect_eq(time_bytes_ps(UINT64_C(1) << 52, 1000000), (int64_t)1 << 52);
}

/* What inline data saves is the bus round trip, whatever its length; the rest cancels out exactly. */
Test(model_timing, D3_inline_saves_the_round_trip)
{
	struct profile p = model_profile("connectx6dx");
	struct time_msg by_ref = {.op = OP_SEND, .kind = QP_RC, .bytes = 64, .mtu_B = 1024}, in = by_ref;
	in.is_inline = true;
	int64_t saved = time_one_way_ps(&p, &by_ref) - time_one_way_ps(&p, &in);

	p.pcie_read_rtt_ns += 123456;
	cr_expect_eq(time_one_way_ps(&p, &by_ref) - time_one_way_ps(&p, &in), saved + 123456);
	p.pcie_read_rtt_ns = 600000;
	p.dma_op_ns = p.cpu_copy_64B_ns = p.wc_store_64B_ns = 0;
	p.pcie_GBps = 0;
	cr_expect_eq(time_one_way_ps(&p, &by_ref) - time_one_way_ps(&p, &in), 600000);
	/* A kernel consumer never pushes, and saves the same. */
	by_ref.kernel = in.kernel = true;
	cr_expect_eq(time_one_way_ps(&p, &by_ref) - time_one_way_ps(&p, &in), 600000);
}

/* One byte too long for the push buffer: one round trip saved, one added. */
Test(model_timing, no_gain_above_the_push_buffer)
{
	const struct profile p = model_profile("connectx6dx");
	struct time_msg by_ref = {.op = OP_SEND, .kind = QP_RC, .bytes = 237, .mtu_B = 1024}, in = by_ref;
	in.is_inline = true;
	int64_t saved = time_one_way_ps(&p, &by_ref) - time_one_way_ps(&p, &in);

	cr_expect_lt(saved, p.pcie_write_ns / 10, "%lld", (long long)saved);
	by_ref.bytes = in.bytes = 236;
	cr_expect_gt(time_one_way_ps(&p, &by_ref) - time_one_way_ps(&p, &in), p.pcie_read_rtt_ns / 2);
}

/* The pieces an engine adds up are the closed form, for one chunk and for many. */
Test(model_timing, pieces_add_up)
{
	const struct profile p = model_profile("connectx6dx");
	static const uint32_t sizes[] = {0, 1, 64, 1024, 1025, 4096, 4097, 65536, 1000001, 8388608};
	struct timing t;
	int64_t generated;

	model_timing(&p, &t);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		const struct time_msg m = {.op = OP_SEND, .kind = QP_RC, .bytes = sizes[i], .mtu_B = 1024};
		const struct wqe_shape s = {
		    .kind = QP_RC, .op = OP_SEND, .bytes = sizes[i], .num_sge = sizes[i] ? 1 : 0, .posted_with = 1};
		struct wqe_plan plan;
		model_wqe_plan(&p, &s, &plan);
		int64_t sent = time_post_cpu_ps(&t, &plan, false, sizes[i], true) + time_have_wqe_ps(&t, &plan, 0) +
			       time_tx_ps(&t, sizes[i], true, 1024, 0);
		cr_expect_eq(time_one_way_ps(&p, &m), sent + time_net_ps(&t) + time_rx_write_ps(&t, sizes[i]) +
							  t.recv_wqe + t.cqe_write + t.cpu_poll);
		cr_expect_eq(time_sender_completion_ps(&p, &m), sent + 2 * time_net_ps(&t) + t.nic_rx + t.ack_turn +
								    86 * 80 + time_cqe_ps(&t, &generated) + t.cpu_poll);
		cr_expect_eq(generated, t.nic_rx + t.cqe_write);
	}
}

/* The pipe of long messages against the recurrence it stands for, chunk by chunk. */
static int64_t pipe_by_recurrence(const struct timing *t, uint64_t bytes, uint32_t mtu_B)
{
	int64_t read = 0, link = 0, write = 0;

	while (bytes) {
		uint64_t piece = MIN(bytes, t->dma_chunk_B);
		int64_t bus = time_bytes_ps(piece, t->pcie_MBps);
		read += bus;
		link = MAX(read, link) + time_wire_ps(t, piece, mtu_B, 0);
		write = MAX(link, write) + bus;
		bytes -= piece;
	}
	return write;
}

Test(model_timing, long_messages)
{
	struct profile p = model_profile("connectx6dx");
	static const uint64_t rates[] = {26000, 7200, 50000};

	for (size_t r = 0; r < ARRAY_LEN(rates); r++) {
		struct timing t;
		p.pcie_GBps = rates[r];
		model_timing(&p, &t);
		for (uint32_t bytes = 4000; bytes < 60000; bytes += 777) {
			struct time_msg m = {.op = OP_WRITE, .kind = QP_RC, .bytes = bytes, .mtu_B = 1024};
			struct time_msg none = m;
			none.bytes = 8; /* no padding */
			int64_t fixed = time_one_way_ps(&p, &none) - pipe_by_recurrence(&t, 8, 1024);
			expect_ps("pipe", time_one_way_ps(&p, &m) - fixed, pipe_by_recurrence(&t, bytes, 1024));
		}
	}
}

Test(model_timing, large_blocks_are_bound_by_the_link)
{
	const struct profile p = model_profile("connectx6dx");
	struct time_msg m = {.op = OP_WRITE, .kind = QP_RC, .bytes = 1 << 30, .mtu_B = 1024}, half = m;
	half.bytes = 1 << 29;
	int64_t ps = time_one_way_ps(&p, &m) - time_one_way_ps(&p, &half);

	/* 100 Gb/s less the headers of 1024-byte packets: 82 of 1106 bytes. */
	expect_ps("link", ps / 1000000, ((int64_t)(1 << 29) / 1024 * (1024 + 82) * 80) / 1000000);
}

/* A list costs half the CPU time of pushes and one round trip: its last WQE overtakes the last push at 15. */
Test(model_timing, lists_against_pushes)
{
	const struct profile p = model_profile("connectx6dx");
	struct timing t;
	struct wqe_plan push, fetch;

	model_timing(&p, &t);
	model_wqe_plan(
	    &p,
	    &(struct wqe_shape){
		.kind = QP_RC, .op = OP_SEND, .is_inline = true, .bytes = 64, .num_sge = 1, .posted_with = 1},
	    &push);
	cr_assert(push.push);
	fetch = push;
	fetch.push = false;
	int64_t one_push = time_post_cpu_ps(&t, &push, true, 64, true);
	int64_t listed = time_post_cpu_ps(&t, &fetch, true, 64, false);
	for (uint32_t n = 1; n < 40; n++) {
		int64_t cpu = n * listed + t.mmio_doorbell;
		int64_t last_push = n * one_push + time_have_wqe_ps(&t, &push, 0);
		int64_t last_listed = cpu + time_have_listed_ps(&t, &fetch, n - 1, n);
		cr_expect_eq(last_listed < last_push, n >= 15, "n = %u", n);
		if (n == 4) {
			expect_ps("first of list", cpu + time_have_listed_ps(&t, &fetch, 0, n), 998692);
			expect_ps("first push", one_push + time_have_wqe_ps(&t, &push, 0), 251000);
		}
	}
	cr_expect_eq(time_have_wqe_ps(&t, &fetch, 9), time_have_listed_ps(&t, &fetch, 9, 10));
}

Test(model_timing, headers_and_short_frames)
{
	const struct profile p = model_profile("connectx6dx"), ib = model_file(TEST_DATA_DIR "/cx7-xeon8480c.ini");
	struct timing t;

	model_timing(&p, &t);
	cr_expect_eq(time_wire_ps(&t, 64, 1024, 0), (64 + 82) * 80);
	cr_expect_eq(time_wire_ps(&t, 1024, 1024, 0), (1024 + 82) * 80);
	cr_expect_eq(time_wire_ps(&t, 1025, 1024, 16), (1025 + 2 * 82 + 16 + 1) * 80);
	/* No frame is shorter than 84 bytes on Ethernet. */
	cr_expect_eq(time_wire_ps(&t, 0, 1024, 0), 84 * 80);
	cr_expect_eq(time_wire_ps(&t, 1, 1024, 0), 84 * 80);
	cr_expect_eq(time_wire_ps(&t, 0, 1024, 4), 86 * 80);
	model_timing(&ib, &t);
	cr_expect_eq(time_wire_ps(&t, 0, 4096, 0), 26 * 20);
	cr_expect_eq(time_request_ext_B(QP_RC, OP_WRITE), 16);
	cr_expect_eq(time_request_ext_B(QP_RC, OP_WRITE_IMM), 20);
	cr_expect_eq(time_request_ext_B(QP_RC, OP_CMP_SWAP), 28);
	cr_expect_eq(time_request_ext_B(QP_UD, OP_SEND_IMM), 12);
	cr_expect_eq(time_request_ext_B(QP_RC, OP_SEND), 0);
}

Test(model_timing, atomics_and_completions)
{
	const struct profile p = model_profile("connectx6dx");
	struct time_msg read = {.op = OP_READ, .kind = QP_RC, .bytes = 8, .mtu_B = 1024}, atomic = read;
	atomic.op = OP_FETCH_ADD;

	/* As a READ of 8 bytes, with the unit's time and 12 more bytes of header; its WQE of 64 bytes is one block too.
	 */
	cr_expect_eq(time_one_way_ps(&p, &atomic), time_one_way_ps(&p, &read) + p.atomic_exec_ns + 12 * 80);
	cr_expect_eq(time_sender_completion_ps(&p, &read), time_one_way_ps(&p, &read));
}

Test(model_timing, ticks)
{
	struct profile p = model_profile("connectx6dx");

	cr_expect_eq(time_ticks(&p, 1000), 1);
	cr_expect_eq(time_ticks(&p, 999), 0);
	cr_expect_eq(time_ticks(&p, INT64_MAX), (uint64_t)INT64_MAX / 1000);
	p.hca_core_clock_khz = 156250;
	cr_expect_eq(time_ticks(&p, INT64_C(1000000000000)), 156250000);
	p.hca_core_clock_khz = 0;
	cr_expect_eq(time_ticks(&p, 1000000), 0);
}
