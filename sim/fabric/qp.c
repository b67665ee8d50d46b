/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue-pair slots: numbers, claiming, giving back, and the counters that go with them. */
#include "sim/fabric/private.h"

/* Number of the first slot: 0 and 1 are the special queue pairs of InfiniBand, low ones look like mistakes. */
#define QPN_BASE 0x11u
_Static_assert(QPN_BASE + FAB_QP_CHUNK * FAB_QP_CHUNKS_MAX < 1 << 24, "queue-pair numbers have 24 bits");

static uint32_t num_slots(struct fabric *f)
{
	/* acquire: pairs with the release in add_chunk */
	uint32_t chunks = atomic_load_explicit(&seg_of(f)->num_qp_chunks, memory_order_acquire);

	return MIN(chunks, FAB_QP_CHUNKS_MAX) * FAB_QP_CHUNK;
}

static struct seg_qp *slot_at(struct fabric *f, uint32_t index)
{
	seg_off off = atomic_load_explicit(&seg_of(f)->qp_chunks[index / FAB_QP_CHUNK], memory_order_relaxed);
	struct seg_qp *chunk = seg_at(f, off, SEG_QP_CHUNK_B);

	return chunk ? chunk + index % FAB_QP_CHUNK : NULL;
}

struct seg_qp *fabric_qp(struct fabric *f, uint32_t qpn)
{
	uint32_t index = qpn - QPN_BASE;

	return qpn >= QPN_BASE && index < num_slots(f) ? slot_at(f, index) : NULL;
}

/* One more chunk unless somebody else added one since `seen` slots were found taken. */
static int add_chunk(struct fabric *f, uint32_t seen)
{
	struct seg_header *h = seg_of(f);
	seg_off off;
	int rc = seg_lock(f);

	if (rc)
		return rc;
	uint32_t chunks = num_slots(f) / FAB_QP_CHUNK;
	if (chunks * FAB_QP_CHUNK > seen)
		goto out;
	rc = chunks < FAB_QP_CHUNKS_MAX ? seg_alloc(f, SEG_QP_CHUNK_B, &off) : -ENOSPC;
	if (rc)
		goto out;
	__builtin_memset(seg_at(f, off, SEG_QP_CHUNK_B), 0, SEG_QP_CHUNK_B);
	atomic_store_explicit(&h->qp_chunks[chunks], off, memory_order_relaxed);
	/* release: the chunk is zero and its offset known; pairs with the acquire in num_slots */
	atomic_store_explicit(&h->num_qp_chunks, chunks + 1, memory_order_release);
out:
	seg_unlock(f);
	return rc;
}

int fabric_qp_alloc(struct fab_node *n, uint32_t *qpn, struct seg_qp **slot)
{
	struct fabric *f = n->f;
	struct seg_header *h = seg_of(f);
	uint64_t owner = SEG_OWNER(n->index, n->incarnation);

	for (;;) {
		uint32_t slots = num_slots(f);
		uint32_t hint = atomic_load_explicit(&h->next_qp_hint, memory_order_relaxed);
		for (uint32_t i = 0; i < slots; i++) {
			uint32_t index = (uint32_t)(((uint64_t)hint + i) % slots);
			struct seg_qp *qp = slot_at(f, index);
			uint64_t none = 0;
			/* acq_rel: pairs with the release of the one who freed it, and with readers' acquire */
			if (!qp || atomic_load_explicit(&qp->owner, memory_order_relaxed) ||
			    !atomic_compare_exchange_strong_explicit(&qp->owner, &none, owner, memory_order_acq_rel,
								     memory_order_relaxed))
				continue;
			atomic_store_explicit(&h->next_qp_hint, index + 1, memory_order_relaxed);
			*qpn = QPN_BASE + index;
			*slot = qp;
			return 0;
		}
		int rc = add_chunk(f, slots);
		if (rc)
			return rc;
	}
}

void qp_slot_release(struct fabric *f, struct seg_qp *qp)
{
	struct seg_header *h = seg_of(f);
	uint32_t device = qp->device, port = qp->port;
	struct seg_device *d = device < FAB_DEVICES_MAX ? &h->devices[device] : &h->devices[0];
	struct seg_port *p = port - 1 < FAB_PORTS_MAX ? &d->ports[port - 1] : &d->ports[0];

	atomic_store_explicit(&qp->rx_state, RX_CLOSED, memory_order_release);
	/* Readers sum slots and device: these two tell them that figures moved meanwhile (see fabric_counter). */
	atomic_fetch_add(&d->moves_begun, 1);
	for (uint32_t c = 0; c < CTR_COUNT; c++) {
		/* Taken out before it is added: a death in between loses a figure and never counts one twice. */
		uint64_t v = atomic_exchange_explicit(&qp->counters[c], 0, memory_order_relaxed);
		if (!v)
			continue;
		atomic_fetch_add_explicit(&d->counters[c], v, memory_order_relaxed);
		atomic_fetch_add_explicit(&p->left[c], v, memory_order_relaxed);
	}
	atomic_fetch_add(&d->moves_done, 1);
	uint32_t rd_atom = qp->rd_atom;
	qp->rd_atom = 0;
	if (rd_atom)
		atomic_fetch_sub_explicit(&d->rd_atom_used, rd_atom, memory_order_relaxed);
	atomic_store_explicit(&qp->epsn, 0, memory_order_relaxed);
	atomic_store_explicit(&qp->msn, 0, memory_order_relaxed);
	qp->device = qp->port = qp->kind = qp->gid_type = qp->dest_qpn = qp->pd = qp->access = 0;
	/* release: the slot is clean; pairs with the claim in fabric_qp_alloc */
	atomic_store_explicit(&qp->owner, 0, memory_order_release);
}

void fabric_qp_free(struct fab_node *n, uint32_t qpn)
{
	struct seg_qp *qp = fabric_qp(n->f, qpn);

	if (qp && atomic_load_explicit(&qp->owner, memory_order_acquire) == SEG_OWNER(n->index, n->incarnation))
		qp_slot_release(n->f, qp);
}

void qp_release_owner(struct fabric *f, uint64_t owner)
{
	uint32_t slots = num_slots(f);

	for (uint32_t i = 0; i < slots; i++) {
		struct seg_qp *qp = slot_at(f, i);
		uint64_t of = qp ? atomic_load_explicit(&qp->owner, memory_order_acquire) : 0;

		if (!of)
			continue;
		if (of == owner)
			qp_slot_release(f, qp);
	}
}

/* Sum over the living queue pairs of a device; port 0 = all. */
static uint64_t living(struct fabric *f, uint32_t device, uint32_t port, enum counter c)
{
	uint32_t slots = num_slots(f);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < slots; i++) {
		struct seg_qp *qp = slot_at(f, i);
		if (qp && atomic_load_explicit(&qp->owner, memory_order_acquire) && qp->device == device &&
		    (!port || qp->port == port))
			sum += atomic_load_explicit(&qp->counters[c], memory_order_relaxed);
	}
	return sum;
}

#define SUM_TRIES 16 /* a process that died while it moved figures leaves the two counts apart for good */

uint64_t fabric_counter(struct fabric *f, uint32_t device, enum counter c)
{
	uint64_t sum = 0;

	if (device >= FAB_DEVICES_MAX || c >= CTR_COUNT)
		return 0;
	struct seg_device *d = &seg_of(f)->devices[device];
	for (int i = 0; i < SUM_TRIES; i++) {
		uint32_t done = atomic_load(&d->moves_done);
		sum = atomic_load_explicit(&d->counters[c], memory_order_relaxed) + living(f, device, 0, c);
		/* Nothing was being moved before and nothing has begun since: the sum is of one moment. */
		if (atomic_load(&d->moves_begun) == done)
			break;
	}
	return sum;
}

uint64_t fabric_port_counter(struct fabric *f, uint32_t device, uint32_t port, enum counter c)
{
	if (device >= FAB_DEVICES_MAX || port - 1 >= FAB_PORTS_MAX || c >= CTR_COUNT)
		return 0;
	struct seg_device *d = &seg_of(f)->devices[device];
	uint64_t own = 0, all = fabric_counter(f, device, c);
	for (uint32_t p = 2; p <= FAB_PORTS_MAX; p++) {
		uint64_t v =
		    atomic_load_explicit(&d->ports[p - 1].left[c], memory_order_relaxed) + living(f, device, p, c);
		all -= MIN(all, v);
		if (p == port)
			own = v;
	}
	return port == 1 ? all : own;
}
