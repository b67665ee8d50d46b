/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/lab/wiretest.h"

#include <stdlib.h>
#include <string.h>

#define HELD_MAX_B 8192u

/*
 * One of each `every` packets is hit; which one of them is drawn from the seed. A fixed place would hit the same packet
 * of every retransmission when its length is a multiple.
 */
struct picker {
	uint32_t every; /* 0 = never */
	uint32_t left;	/* packets of this group to come */
	uint32_t hit;	/* hits when left has this value */
};

struct wiretest {
	struct picker drop, dup, swap;
	uint64_t random;
	/* A packet held back until the next one to the same ring has gone. */
	struct wire_tx *held_tx;
	uint32_t held_ext_B;
	union {
		struct pkt pkt;
		char bytes[HELD_MAX_B];
	} held;
};

int wiretest_new(const struct wire_test *set, struct wiretest **out)
{
	*out = NULL;
	if (!set->drop && !set->dup && !set->swap)
		return 0;
	struct wiretest *w = calloc(1, sizeof(*w));
	if (!w)
		return ENOMEM;
	w->drop.every = set->drop;
	w->dup.every = set->dup;
	w->swap.every = set->swap;
	w->random = set->seed;
	*out = w;
	return 0;
}

void wiretest_free(struct wiretest *w)
{
	free(w);
}

static uint32_t draw(struct wiretest *w, uint32_t below)
{
	w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(w->random >> 33) % below;
}

static bool hit(struct wiretest *w, struct picker *p)
{
	if (!p->every)
		return false;
	if (!p->left) {
		p->left = p->every;
		p->hit = 1 + draw(w, p->every);
	}
	return p->left-- == p->hit;
}

static size_t record_B(const struct pkt *p)
{
	size_t payload_B = p->flags & PKF_BY_REF ? 0 : p->payload_B;
	return sizeof(*p) + pkt_ext_B(p->op, p->flags) + payload_B;
}

/* Copies a packet into a fresh record of the ring; a full ring loses it, which is what this hook is for. */
static void send_copy(struct wire_tx *tx, const struct pkt *from)
{
	uint32_t ext_B = pkt_ext_B(from->op, from->flags);
	struct pkt *p = wire_reserve(tx, ext_B, from->payload_B);

	if (!p)
		return;
	memcpy((char *)p + sizeof(p->word), (const char *)from + sizeof(from->word),
	       record_B(from) - sizeof(from->word));
	wire_publish(tx);
}

void wiretest_publish(struct wiretest *w, struct wire_tx *tx, struct pkt *p)
{
	bool drop = hit(w, &w->drop), dup = hit(w, &w->dup), swap = hit(w, &w->swap);

	if (drop)
		return; /* the record stays private and is overwritten by the next one */
	size_t size_B = record_B(p);
	if (swap && !w->held_tx && size_B <= HELD_MAX_B) {
		memcpy(&w->held, p, size_B);
		w->held_tx = tx;
		return;
	}
	if (dup && size_B <= HELD_MAX_B) {
		union {
			struct pkt pkt;
			char bytes[HELD_MAX_B];
		} twin;
		memcpy(&twin, p, size_B);
		wire_publish(tx);
		send_copy(tx, &twin.pkt);
	} else {
		wire_publish(tx);
	}
	if (w->held_tx == tx) {
		w->held_tx = NULL;
		send_copy(tx, &w->held.pkt);
	}
}
