/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, memory regions and the one place where keys are checked and memory is touched on behalf of
 * the adapter.
 */
#include "sim/hca/engine.h"

#include <stdlib.h>
#include <sys/uio.h>

#define ACCESS_KNOWN                                                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |        \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)
#define ACCESS_OPTIONAL 0x3ff00000 /* IBV_ACCESS_OPTIONAL_RANGE of the specification of access flags */

int hca_pd_alloc(struct hca *h, struct hca_pd **out)
{
	static _Atomic uint32_t next_id = 1;

	if (h->e->forked)
		return EIO;
	if (atomic_fetch_add(&h->num_pds, 1) >= h->prof.max_pd) {
		atomic_fetch_sub(&h->num_pds, 1);
		say(LOG_WHY, "ibv_alloc_pd: %u protection domains are the limit of %s: ENOMEM", h->prof.max_pd,
		    h->prof.name);
		return ENOMEM;
	}
	struct hca_pd *pd = calloc(1, sizeof(*pd));
	if (!pd) {
		atomic_fetch_sub(&h->num_pds, 1);
		return ENOMEM;
	}
	pd->h = h;
	pd->id = atomic_fetch_add(&next_id, 1);
	*out = pd;
	return 0;
}

int hca_pd_free(struct hca_pd *pd)
{
	if (atomic_load(&pd->users) && !pd->h->e->forked) {
		say(LOG_WHY, "ibv_dealloc_pd: %u objects still use it: EBUSY", atomic_load(&pd->users));
		return EBUSY;
	}
	atomic_fetch_sub(&pd->h->num_pds, 1);
	free(pd);
	return 0;
}

/* ---- keys: index << 8 | tag ---- */

static struct hca_mr **key_cell(struct engine *e, uint32_t index)
{
	if (index >= KEY_CHUNKS * KEY_CHUNK || !e->keys[index / KEY_CHUNK])
		return NULL;
	return &e->keys[index / KEY_CHUNK][index % KEY_CHUNK];
}

struct hca_mr *mr_find(struct engine *e, uint32_t key)
{
	struct hca_mr **cell = key_cell(e, key >> 8);

	return (key & 0xff) && cell && *cell && (*cell)->key == key ? *cell : NULL;
}

/* The tag makes a key that was given back stale for its index's next owners. */
static int key_alloc(struct engine *e, struct hca_mr *mr)
{
	static uint8_t tag;

	for (uint32_t n = 0; n < KEY_CHUNKS * KEY_CHUNK; n++) {
		uint32_t index = e->key_hint++ % (e->num_mrs < KEY_CHUNK / 2 ? KEY_CHUNK : KEY_CHUNKS * KEY_CHUNK);
		struct hca_mr ***chunk = &e->keys[index / KEY_CHUNK];
		if (!*chunk)
			*chunk = calloc(KEY_CHUNK, sizeof(**chunk));
		if (!*chunk)
			return ENOMEM;
		/* Index 0 is never given out: a key of a few small bits is always somebody's mistake. */
		if (index == 0 || (*chunk)[index % KEY_CHUNK])
			continue;
		(*chunk)[index % KEY_CHUNK] = mr;
		tag = tag % 255 + 1; /* 0 marks a key that was withdrawn */
		mr->key = index << 8 | tag;
		return 0;
	}
	return ENOMEM;
}

static void key_publish(struct engine *e, struct hca_mr *mr)
{
	const uint32_t remote = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	if (!(mr->access & remote))
		return;
	struct seg_key *k = node_key_slot(e->node, mr->key >> 8);
	if (!k)
		return;
	k->access = mr->access;
	k->pd = mr->pd->id;
	k->addr = mr->addr;
	k->iova = mr->iova;
	k->length = mr->length;
	atomic_store(&k->key, mr->key); /* pairs with the direct path's look at it inside its mark */
	mr->published = k;
}

static int reg_refuse(const struct hca *h, const char *why, int err)
{
	say(LOG_WHY, "ibv_reg_mr on %s: %s: %s", h->prof.name, why, err == EINVAL ? "EINVAL" : "ENOMEM");
	return err;
}

static int reg_over_limit(const struct hca *h, uint64_t length, uint64_t locked_B, uint64_t limit_B)
{
	say(LOG_WHY, "ibv_reg_mr on %s: %llu bytes asked, %llu registered, %llu allowed (SIMHCA_MAX_LOCKED_B): ENOMEM",
	    h->prof.name, (unsigned long long)length, (unsigned long long)locked_B, (unsigned long long)limit_B);
	return ENOMEM;
}

static int reg_check(const struct hca *h, uint64_t start, uint64_t length, int access)
{
	if ((unsigned)access & ~(unsigned)(ACCESS_KNOWN | ACCESS_OPTIONAL))
		return reg_refuse(h, "access flags that this adapter does not have", EINVAL);
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return reg_refuse(h, "remote write or atomic without local write", EINVAL);
	if (length > h->prof.max_mr_size)
		return reg_refuse(h, "longer than max_mr_size", EINVAL);
	if (start + length < start)
		return reg_refuse(h, "the range wraps around", EINVAL);
	return 0;
}

int hca_mr_reg(struct hca_pd *pd, void *addr, uint64_t length, uint64_t iova, int access, struct hca_mr **out)
{
	struct hca *h = pd->h;
	struct engine *e = h->e;
	uint64_t limit_B = h->set.max_locked_B ? h->set.max_locked_B : h->prof.max_locked_bytes;

	if (e->forked)
		return EIO;
	int err = reg_check(h, (uint64_t)(uintptr_t)addr, length, access);
	if (err)
		return err;
	struct hca_mr *mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ENOMEM;
	*mr = (struct hca_mr){.pd = pd,
			      .addr = (uint64_t)(uintptr_t)addr,
			      .iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova,
			      .length = length,
			      .access = (uint32_t)access};
	engine_enter(e);
	if (e->num_mrs >= h->prof.max_mr)
		err = reg_refuse(h, "max_mr regions are registered", ENOMEM);
	else if (limit_B && (length > limit_B || e->locked_B > limit_B - length))
		err = reg_over_limit(h, length, e->locked_B, limit_B);
	else
		err = key_alloc(e, mr);
	if (!err) {
		e->num_mrs++;
		e->locked_B += length;
		atomic_fetch_add(&pd->users, 1);
		key_publish(e, mr);
	}
	engine_leave(e);
	if (err)
		free(mr);
	else
		*out = mr;
	return err;
}

/* The key is dead, its bytes are not touched any more. The index stays taken: peers may still be reading its entry. */
static void key_withdraw(struct engine *e, struct hca_mr *mr)
{
	engine_enter(e);
	mr->key &= ~UINT32_C(0xff); /* a tag that is never given out */
	engine_leave(e);
	/* Not under the lock: a peer that is stopped inside must not stop everything here. */
	if (mr->published)
		node_withdraw_key(e->node, mr->published);
}

int hca_mr_dereg(struct hca_mr *mr)
{
	struct engine *e = mr->pd->h->e;

	if (!e->forked) {
		key_withdraw(e, mr);
		engine_enter(e);
		struct hca_mr **cell = key_cell(e, mr->key >> 8);
		if (cell && *cell == mr)
			*cell = NULL;
		e->num_mrs--;
		e->locked_B -= mr->length;
		engine_leave(e);
	}
	atomic_fetch_sub(&mr->pd->users, 1);
	free(mr);
	return 0;
}

uint32_t hca_mr_lkey(const struct hca_mr *mr)
{
	return mr->key;
}

uint32_t hca_mr_rkey(const struct hca_mr *mr)
{
	return mr->key;
}

/* ---- access ---- */

const char *mr_fault_name(enum mr_fault f)
{
	static const char *const names[] = {
	    [MR_OK] = "no fault",
	    [MR_NO_KEY] = "no memory region has this key",
	    [MR_WRONG_PD] = "the memory region belongs to another protection domain",
	    [MR_OUT_OF_RANGE] = "the range leaves the memory region",
	    [MR_NO_RIGHT] = "the memory region does not grant this access",
	};
	return (unsigned)f < ARRAY_LEN(names) ? names[f] : "?";
}

enum mr_fault mr_check(struct engine *e, const struct hca_pd *pd, uint32_t key, uint64_t va, uint64_t len,
		       uint32_t access, char **mem)
{
	const struct hca_mr *mr = mr_find(e, key);

	if (!mr)
		return MR_NO_KEY;
	if (mr->pd != pd)
		return MR_WRONG_PD;
	if (va < mr->iova || va - mr->iova > mr->length || len > mr->length - (va - mr->iova))
		return MR_OUT_OF_RANGE;
	if ((mr->access & access) != access)
		return MR_NO_RIGHT;
	*mem = (char *)(uintptr_t)(mr->addr + (va - mr->iova));
	return MR_OK;
}

int sges_iov(struct hca_qp *qp, const struct ibv_sge *sge, uint32_t num, uint64_t off, uint64_t len, uint32_t access,
	     struct iovec *iov, int max, enum mr_fault *fault)
{
	int n = 0;

	for (uint32_t i = 0; i < num && len; i++) {
		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		char *mem;
		*fault = mr_check(qp->e, qp->pd, sge[i].lkey, sge[i].addr, sge[i].length, access, &mem);
		if (*fault)
			return -1;
		if (n == max)
			break;
		uint64_t piece = MIN(len, sge[i].length - off);
		iov[n++] = (struct iovec){mem + off, piece};
		len -= piece;
		off = 0;
	}
	*fault = MR_OK;
	return n;
}

enum mr_fault sges_read(struct hca_qp *qp, const struct ibv_sge *sge, uint32_t num, uint64_t off, void *dst, size_t len)
{
	char *to = dst;

	for (uint32_t i = 0; i < num && len; i++) {
		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		char *mem;
		enum mr_fault fault = mr_check(qp->e, qp->pd, sge[i].lkey, sge[i].addr, sge[i].length, 0, &mem);
		if (fault)
			return fault;
		size_t piece = MIN(len, sge[i].length - off);
		memcpy(to, mem + off, piece);
		to += piece;
		len -= piece;
		off = 0;
	}
	return MR_OK;
}

enum mr_fault sges_write(struct hca_qp *qp, const struct ibv_sge *sge, uint32_t num, uint64_t off, const void *src,
			 size_t len)
{
	const char *from = src;

	for (uint32_t i = 0; i < num && len; i++) {
		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		char *mem;
		enum mr_fault fault =
		    mr_check(qp->e, qp->pd, sge[i].lkey, sge[i].addr, sge[i].length, IBV_ACCESS_LOCAL_WRITE, &mem);
		if (fault)
			return fault;
		size_t piece = MIN(len, sge[i].length - off);
		memcpy(mem + off, from, piece);
		from += piece;
		len -= piece;
		off = 0;
	}
	return MR_OK;
}
