/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * workload [SEED [OPS]]: a random workload over both directions of a queue pair, checked against a model of what
 * memory and completions must be. The seed decides everything this program does; without one it runs
 * tests/counts.tsv's number of seeds from 1. A failure prints its seed.
 */
#include "tests/counts.h"
#include "tests/scenarios/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8, SLOT_B = 2048, AREA_B = SLOTS * SLOT_B, WORD_OFF = AREA_B, FLOW_OFF = 2 * AREA_B };
_Static_assert(2 * FLOW_OFF == PAIR_BUF_B, "two flows fill the buffer");

static uint32_t seed;
static uint64_t rng;

static uint32_t rnd(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 16) % below;
}

#define agree(cond, ...)                                                                                               \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			fprintf(stderr, "workload: seed %u: %s: ", seed, #cond);                                       \
			fprintf(stderr, __VA_ARGS__);                                                                  \
			fprintf(stderr, "\n");                                                                         \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

enum kind { K_SEND, K_SEND_IMM, K_WRITE, K_WRITE_IMM, K_READ, K_ADD, K_CAS, K_COUNT };

static const struct {
	enum ibv_wr_opcode code;
	enum ibv_wc_opcode done;
	bool recv, imm, can_inline, atomic;
} kinds[K_COUNT] = {
    [K_SEND] = {IBV_WR_SEND, IBV_WC_SEND, .recv = true, .can_inline = true},
    [K_SEND_IMM] = {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, .recv = true, .imm = true, .can_inline = true},
    [K_WRITE] = {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, .can_inline = true},
    [K_WRITE_IMM] = {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, .recv = true, .imm = true, .can_inline = true},
    [K_READ] = {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
    [K_ADD] = {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, .atomic = true},
    [K_CAS] = {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, .atomic = true},
};

struct item {
	enum kind kind;
	uint32_t id, slot, len;
	bool signaled, recv_posted;
	uint64_t old; /* atomics: what it must return */
};

/* One direction: a queue of what is under way, oldest first. */
struct flow {
	struct side *from, *to;
	uint32_t off; /* of this flow's part of both buffers */
	struct item items[SLOTS];
	unsigned first, count;
	bool busy[SLOTS];
	uint64_t word; /* the model of the atomic word */
	uint32_t next_id;
};

static void pattern(uint8_t *to, uint32_t id, uint32_t len)
{
	uint32_t x = id * 2654435761u + seed;

	for (uint32_t k = 0; k < len; k++) {
		x = x * 1664525u + 1013904223u;
		to[k] = (uint8_t)(x >> 24);
	}
}

static void check(struct side *s, uint32_t off, const struct item *it)
{
	uint8_t got[SLOT_B], want[SLOT_B];

	side_peek(s, off, got, it->len);
	pattern(want, it->id, it->len);
	agree(!memcmp(got, want, it->len), "operation %u, kind %d, %u bytes", it->id, it->kind, it->len);
}

/* ---- posting -------------------------------------------------------------------------------------------------------
 */

static void post_late_receives(struct flow *f)
{
	for (unsigned i = 0; i < f->count; i++) {
		struct item *it = &f->items[(f->first + i) % SLOTS];

		if (!kinds[it->kind].recv || it->recv_posted)
			continue;
		must(!side_recv(f->to, it->id, f->off + it->slot * SLOT_B, SLOT_B));
		it->recv_posted = true;
	}
}

static void prepare(struct flow *f, struct item *it, struct op *op)
{
	uint32_t at = f->off + it->slot * SLOT_B;
	uint8_t data[SLOT_B];

	*op = (struct op){.code = kinds[it->kind].code,
			  .wr_id = it->id,
			  .off = at,
			  .len = it->len,
			  .imm = it->id,
			  .raddr = f->to->info.addr + at,
			  .rkey = f->to->info.rkey,
			  .flags = (it->signaled ? IBV_SEND_SIGNALED : 0u) | (rnd(8) ? 0u : IBV_SEND_FENCE)};
	pattern(data, it->id, it->len);
	if (it->kind == K_READ) {
		side_poke(f->to, at, data, it->len);
		side_fill(f->from, at, 0, SLOT_B);
	} else if (kinds[it->kind].atomic) {
		op->raddr = f->to->info.addr + f->off + WORD_OFF;
		op->len = it->len = 8;
		it->old = f->word;
		op->compare_add = it->kind == K_ADD ? rnd(1000) : rnd(2) ? f->word : f->word + 1;
		op->swap = rnd(1000000);
		if (it->kind == K_ADD)
			f->word += op->compare_add;
		else if (op->compare_add == f->word)
			f->word = op->swap;
	} else {
		side_poke(f->from, at, data, it->len);
		if (kinds[it->kind].can_inline && it->len <= f->from->info.cap.max_inline_data && rnd(2))
			op->flags |= IBV_SEND_INLINE;
	}
}

static void post_one(struct flow *f)
{
	struct op op;
	struct item *it = &f->items[(f->first + f->count) % SLOTS];

	*it = (struct item){.kind = (enum kind)rnd(f->from->info.atomics ? K_COUNT : K_ADD),
			    .id = f->next_id++,
			    .len = rnd(3) ? 1 + rnd(SLOT_B) : 1 + rnd(64)};
	it->signaled = f->from->attr.sq_sig_all || f->count + 1 == SLOTS || !rnd(3);
	while (f->busy[it->slot])
		it->slot++;
	f->busy[it->slot] = true;
	prepare(f, it, &op);
	f->count++;
	if (rnd(16))
		post_late_receives(f);
	int ret = side_post(f->from, &op);

	agree(!ret, "post of operation %u returned %d", it->id, ret);
	if (op.flags & IBV_SEND_INLINE) /* the buffer is ours again at once */
		side_fill(f->from, op.off, 0xee, it->len);
}

/* ---- completing
 * ------------------------------------------------------------------------------------------------------ */

static void retire(struct flow *f, struct item *it)
{
	uint32_t at = f->off + it->slot * SLOT_B;
	struct done d;

	if (kinds[it->kind].recv) {
		int n = side_wc(f->to, RQ, &d, patience_ms(20000));

		agree(n == 1, "no receive completion for operation %u", it->id);
		agree(d.wc.status == IBV_WC_SUCCESS, "operation %u: %s", it->id, ibv_wc_status_str(d.wc.status));
		agree(d.wc.wr_id == it->id, "receive %lu, not %u", (unsigned long)d.wc.wr_id, it->id);
		agree(d.wc.byte_len == it->len, "operation %u: %u bytes", it->id, d.wc.byte_len);
		agree(!kinds[it->kind].imm == !(d.wc.wc_flags & IBV_WC_WITH_IMM), "operation %u", it->id);
		agree(!kinds[it->kind].imm || d.wc.imm_data == it->id, "operation %u", it->id);
	}
	if (kinds[it->kind].atomic) {
		uint64_t old;

		side_peek(f->from, at, &old, 8);
		agree(old == it->old, "atomic %u returned %lu", it->id, (unsigned long)old);
	} else {
		check(it->kind == K_READ ? f->from : f->to, at, it);
	}
	f->busy[it->slot] = false;
}

/* Waits for the oldest signaled operation and retires everything up to it. */
static void complete_some(struct flow *f)
{
	struct item *it;
	struct done d;
	unsigned i = 0;

	post_late_receives(f);
	while (i < f->count && !f->items[(f->first + i) % SLOTS].signaled)
		i++;
	if (i == f->count)
		return;
	it = &f->items[(f->first + i) % SLOTS];
	int n = side_wc(f->from, SQ, &d, patience_ms(20000));

	agree(n == 1, "no completion for operation %u", it->id);
	agree(d.wc.status == IBV_WC_SUCCESS, "operation %u: %s", it->id, ibv_wc_status_str(d.wc.status));
	agree(d.wc.wr_id == it->id, "completion %lu, not %u", (unsigned long)d.wc.wr_id, it->id);
	agree(d.wc.opcode == kinds[it->kind].done, "operation %u: opcode %d", it->id, (int)d.wc.opcode);
	for (; i != (unsigned)-1; i--) {
		retire(f, &f->items[f->first]);
		f->first = (f->first + 1) % SLOTS;
		f->count--;
	}
}

static void drain(struct flow *f)
{
	struct done d;
	uint64_t word;

	while (f->count) {
		struct item *last = &f->items[(f->first + f->count - 1) % SLOTS];

		if (last->signaled || f->count < SLOTS) {
			if (!last->signaled)
				post_one(f);
			complete_some(f);
		}
	}
	agree(side_wc(f->from, SQ, &d, 20) == 0, "a completion too many");
	agree(side_wc(f->to, RQ, &d, 20) == 0, "a receive completion too many");
	side_peek(f->to, f->off + WORD_OFF, &word, 8);
	agree(word == f->word, "word %lu", (unsigned long)word);
}

static void run(uint32_t use_seed, unsigned ops)
{
	struct pair p;
	struct pair_attr attr = pair_attr(rnd(2) ? 0 : 48, SLOTS + rnd(24));

	attr.mtu = (enum ibv_mtu)(IBV_MTU_256 + rnd(5));
	attr.sq_sig_all = !rnd(4);
	attr.rd_atomic = (uint8_t)(1 + rnd(8));
	attr.timeout = lossy_timeout();
	pair_make(&p, &attr);
	struct flow flows[2] = {{.from = &p.a, .to = &p.b, .off = 0}, {.from = &p.b, .to = &p.a, .off = FLOW_OFF}};

	for (unsigned i = 0; i < ops; i++) {
		struct flow *f = &flows[rnd(2)];

		if (f->count < SLOTS && rnd(8))
			post_one(f);
		else
			complete_some(f);
	}
	drain(&flows[0]);
	drain(&flows[1]);
	pair_free(&p);
	printf("workload: seed %u: %u and %u operations\n", use_seed, flows[0].next_id, flows[1].next_id);
}

int main(int argc, char **argv)
{
	bool lossy = getenv("SIMHCA_WIRE_TEST"); /* waits for timeouts: fewer */
	unsigned ops =
	    argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : test_count(lossy ? "lossy_ops" : "workload_ops");
	uint32_t first = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 1;
	uint32_t seeds = argc > 1 ? 1 : test_count(lossy ? "lossy_seeds" : "workload_seeds");

	setlinebuf(stdout);

	for (seed = first; seed < first + seeds; seed++) {
		rng = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
		run(seed, ops);
	}
	return 0;
}
