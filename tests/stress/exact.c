/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exact OP [count]: many operations of one kind over a wire that may drop, double and swap packets
 * (SIMHCA_WIRE_TEST); checks that bytes, count and order are exact. OP is send, write, read or atomic.
 */
#include "tests/counts.h"
#include "tests/scenarios/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operation i uses slot i modulo WINDOW on both sides, and at most WINDOW are under way. */
enum { WINDOW = 8, SLOT_B = 4096 };
_Static_assert(WINDOW *SLOT_B <= PAIR_BUF_B, "the slots fit the buffer");

static uint32_t mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

/* 1 to SLOT_B bytes: mostly several packets, every eighth a small one. */
static uint32_t length_of(uint32_t i)
{
	return i % 8 ? 1 + mix(i) % SLOT_B : 1 + mix(i) % 16;
}

static void pattern(uint8_t *to, uint32_t i, uint32_t len)
{
	for (uint32_t k = 0; k < len; k++)
		to[k] = (uint8_t)(mix(i + 1) >> 8 * (k % 4)) ^ (uint8_t)(k / 4);
}

static void check_pattern(struct side *s, uint32_t off, uint32_t i, uint32_t len)
{
	uint8_t got[SLOT_B], want[SLOT_B];

	side_peek(s, off, got, len);
	pattern(want, i, len);
	if (memcmp(got, want, len)) {
		fprintf(stderr, "operation %u: %u bytes are not what was sent\n", i, len);
		abort();
	}
}

static uint32_t slot(uint32_t i)
{
	return i % WINDOW * SLOT_B;
}

static void complete(struct side *s, enum queue q, uint32_t i)
{
	struct done d;
	int n = side_wc(s, q, &d, patience_ms(20000));

	if (n != 1 || d.wc.status != IBV_WC_SUCCESS || d.wc.wr_id != i) {
		fprintf(stderr, "%s completion %u: n %d, status %s, wr_id %lu\n", q == SQ ? "send" : "receive", i, n,
			n == 1 ? ibv_wc_status_str(d.wc.status) : "-", n == 1 ? (unsigned long)d.wc.wr_id : 0ul);
		abort();
	}
	if (q == RQ) {
		must(d.wc.byte_len == length_of(i));
		must(d.wc.wc_flags & IBV_WC_WITH_IMM);
		must(d.wc.imm_data == i);
	}
}

static void none_left(struct pair *p)
{
	struct done d;

	must(side_wc(&p->a, SQ, &d, 50) == 0);
	must(side_wc(&p->b, RQ, &d, 50) == 0);
}

/* ---- one kind each: start operation i, and finish it ------------------------------------------------------ */

static void start_send(struct pair *p, uint32_t i)
{
	struct op op = {.code = IBV_WR_SEND_WITH_IMM,
			.wr_id = i,
			.off = slot(i),
			.len = length_of(i),
			.imm = i,
			.flags = IBV_SEND_SIGNALED};

	must(!side_recv(&p->b, i, slot(i), SLOT_B));
	pattern(p->a.buf + slot(i), i, length_of(i));
	must(!side_post(&p->a, &op));
}

static void finish_send(struct pair *p, uint32_t i)
{
	complete(&p->a, SQ, i);
	complete(&p->b, RQ, i);
	check_pattern(&p->b, slot(i), i, length_of(i));
}

static void start_write(struct pair *p, uint32_t i)
{
	struct op op = {.code = i % 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
			.wr_id = i,
			.off = slot(i),
			.len = length_of(i),
			.imm = i,
			.raddr = p->b.info.addr + slot(i),
			.rkey = p->b.info.rkey,
			.flags = IBV_SEND_SIGNALED};

	if (i % 2)
		must(!side_recv(&p->b, i, 0, 0));
	pattern(p->a.buf + slot(i), i, length_of(i));
	must(!side_post(&p->a, &op));
}

static void finish_write(struct pair *p, uint32_t i)
{
	complete(&p->a, SQ, i);
	if (i % 2)
		complete(&p->b, RQ, i);
	check_pattern(&p->b, slot(i), i, length_of(i));
}

static void start_read(struct pair *p, uint32_t i)
{
	struct op op = {.code = IBV_WR_RDMA_READ,
			.wr_id = i,
			.off = slot(i),
			.len = length_of(i),
			.raddr = p->b.info.addr + slot(i),
			.rkey = p->b.info.rkey,
			.flags = IBV_SEND_SIGNALED};
	uint8_t data[SLOT_B];

	pattern(data, i, length_of(i));
	side_poke(&p->b, slot(i), data, length_of(i));
	memset(p->a.buf + slot(i), 0, SLOT_B);
	must(!side_post(&p->a, &op));
}

static void finish_read(struct pair *p, uint32_t i)
{
	complete(&p->a, SQ, i);
	check_pattern(&p->a, slot(i), i, length_of(i));
}

/* Even ones add 1 to a counter, odd ones swap a chain i -> i + 1: each must see exactly its predecessor. */
static void start_atomic(struct pair *p, uint32_t i)
{
	bool add = i % 2 == 0;
	struct op op = {.code = add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP,
			.wr_id = i,
			.off = slot(i),
			.len = 8,
			.raddr = p->b.info.addr + (add ? 0 : 8),
			.rkey = p->b.info.rkey,
			.compare_add = add ? 1 : i / 2,
			.swap = i / 2 + 1,
			.flags = IBV_SEND_SIGNALED};

	must(!side_post(&p->a, &op));
}

static void finish_atomic(struct pair *p, uint32_t i)
{
	uint64_t old;

	complete(&p->a, SQ, i);
	memcpy(&old, p->a.buf + slot(i), 8);
	if (old != i / 2) {
		fprintf(stderr, "atomic %u returned %lu, not %u\n", i, (unsigned long)old, i / 2);
		abort();
	}
}

static void end_atomic(struct pair *p, uint32_t count)
{
	uint64_t words[2];

	side_peek(&p->b, 0, words, sizeof(words));
	must(words[0] == (count + 1) / 2);
	must(words[1] == count / 2);
}

static const struct kind {
	const char *name;
	void (*start)(struct pair *p, uint32_t i);
	void (*finish)(struct pair *p, uint32_t i);
	void (*end)(struct pair *p, uint32_t count);
} kinds[] = {
    {"send", start_send, finish_send, NULL},
    {"write", start_write, finish_write, NULL},
    {"read", start_read, finish_read, NULL},
    {"atomic", start_atomic, finish_atomic, end_atomic},
};

static void run(const struct kind *k, uint32_t count)
{
	struct pair p;
	struct pair_attr attr = pair_attr(0, 2 * WINDOW);

	attr.mtu = IBV_MTU_256;
	attr.timeout = lossy_timeout();
	attr.rd_atomic = WINDOW;
	pair_make(&p, &attr);
	for (uint32_t i = 0; i < count + WINDOW; i++) {
		if (i >= WINDOW)
			k->finish(&p, i - WINDOW);
		if (i < count)
			k->start(&p, i);
	}
	none_left(&p);
	if (k->end)
		k->end(&p, count);
	printf("%s: %u operations exact; retries %lu, duplicates %lu, out of sequence %lu\n", k->name, count,
	       (unsigned long)device_counter(p.a.ctx, "retries"), (unsigned long)device_counter(p.a.ctx, "duplicates"),
	       (unsigned long)device_counter(p.a.ctx, "out_of_sequence"));
	if (getenv("SIMHCA_WIRE_TEST"))
		must(device_counter(p.a.ctx, "retries") > 0); /* the wire did lose something */
	pair_free(&p);
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && argc >= 2; i++)
		if (!strcmp(argv[1], kinds[i].name)) {
			run(&kinds[i], argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : test_count("exact_ops"));
			return 0;
		}
	fprintf(stderr, "usage: exact send|write|read|atomic [count]\n");
	return 2;
}
