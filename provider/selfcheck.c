/* SPDX-License-Identifier: BSD-2-Clause */
#include "provider/selfcheck.h"
#include "provider/pabi.h"
#include "sim/base.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The library sets up a context inside memory that is ours, with slack on both sides: a larger or smaller
 * verbs_context than we expect then shows instead of corrupting the heap.
 */
enum { SLACK_BEFORE_B = 1024, SLACK_BEHIND_B = 3072, FAKE_OPS = 256, PRIV_HEAD_MAX_B = 64 };

struct probe {
	const struct pabi_expect *e;
	struct verbs_device device;
	char *area; /* what the library allocated */
	char *vctx; /* where we expect the verbs_context */
	char diff[192];
};

static void *pointer_at(const char *base, size_t off)
{
	void *p;

	memcpy(&p, base + off, sizeof(p));
	return p;
}

/* Distinct, never called, never followed. */
static void *fake_op(unsigned int index)
{
	return (void *)(uintptr_t)(UINT64_C(0x5afe00000000) + (uint64_t)index * 16);
}

static unsigned int fake_index(const void *p)
{
	uint64_t d = (uint64_t)(uintptr_t)p - UINT64_C(0x5afe00000000);

	return d % 16 == 0 && d / 16 < FAKE_OPS ? (unsigned int)(d / 16) : FAKE_OPS;
}

/* Where the library put the ibv_context inside its verbs_context: found by the device pointer it begins with. */
static size_t find_context(const struct probe *p)
{
	const size_t end = p->e->context_size + SLACK_BEHIND_B;

	for (size_t off = 0; off < end; off += sizeof(void *))
		if (pointer_at(p->vctx, off) == &p->device.device)
			return off;
	return 0;
}

/* verbs_context has the size we expect and its ibv_context lies where we expect it. */
static int check_context(struct probe *p)
{
	const struct pabi_expect *e = p->e;
	size_t off = find_context(p);
	size_t sz = 0;

	if (off)
		memcpy(&sz, p->vctx + off - sizeof(sz), sizeof(sz)); /* `sz` is always just before it */
	if (off == e->context_off && sz == e->context_size)
		return 0;
	snprintf(p->diff, sizeof(p->diff),
		 "verbs_context is %zu bytes with ibv_context at %zu here, %zu and %zu in the running libibverbs",
		 e->context_size, e->context_off, sz, off);
	return -1;
}

/* Every public pointer that the library copies from the ops holds the value of our index for that op. */
static int check_public_ops(struct probe *p)
{
	for (unsigned int i = 0; i < p->e->num_public; i++) {
		const struct pabi_op *op = &p->e->public_ops[i];
		unsigned int there = fake_index(pointer_at(p->vctx, op->public_off));

		if (there == op->index)
			continue;
		if (there == FAKE_OPS)
			snprintf(p->diff, sizeof(p->diff), "verbs_context.%s is not filled by the running libibverbs",
				 op->name);
		else
			snprintf(p->diff, sizeof(p->diff),
				 "verbs_context_ops differs: %s is entry %u here, %u in the running libibverbs",
				 op->name, op->index, there);
		return -1;
	}
	return 0;
}

/*
 * The library keeps a private copy of all ops in its own allocation: the highest fake pointer in it is the last entry
 * it knows. They lie together behind a short head and before a flag, so the scan stays inside the allocation.
 */
static int check_op_count(struct probe *p)
{
	const char *priv = pointer_at(p->vctx, p->e->priv_off);
	unsigned int entries = 0;
	size_t off = 0;

	while (off < PRIV_HEAD_MAX_B && fake_index(pointer_at(priv, off)) == FAKE_OPS)
		off += sizeof(void *);
	for (unsigned int i; (i = fake_index(pointer_at(priv, off))) < FAKE_OPS; off += sizeof(void *))
		entries = MAX(entries, i + 1);
	if (entries == p->e->num_ops)
		return 0;
	snprintf(p->diff, sizeof(p->diff), "verbs_context_ops has %u entries here, %u in the running libibverbs",
		 p->e->num_ops, entries);
	return -1;
}

/* ibv_qp_to_qp_ex reads the mask of a verbs_qp where we write it. */
static int check_qp_mask(struct probe *p)
{
	_Alignas(16) char qp[1024] = {0};
	const uint32_t mask = PABI_QP_EX;

	memcpy(qp + p->e->qp_comp_mask_off, &mask, sizeof(mask));
	if ((void *)ibv_qp_to_qp_ex((struct ibv_qp *)(void *)qp) == (void *)qp)
		return 0;
	snprintf(p->diff, sizeof(p->diff), "verbs_qp.comp_mask is not at %zu in the running libibverbs",
		 p->e->qp_comp_mask_off);
	return -1;
}

static int check_all(struct probe *p)
{
	void *fakes[FAKE_OPS];

	if (check_context(p))
		return -1;
	for (unsigned int i = 0; i < FAKE_OPS; i++)
		fakes[i] = fake_op(i);
	verbs_set_ops((struct verbs_context *)(void *)p->vctx, (const struct verbs_context_ops *)(const void *)fakes);
	if (check_public_ops(p) || check_op_count(p) || check_qp_mask(p))
		return -1;
	return 0;
}

int selfcheck_run(const struct pabi_expect *e, char *line, size_t line_size)
{
	struct probe p = {.e = e};
	Dl_info lib = {0};
	int ret = -1;

	p.device.refcount = 1 << 20; /* nothing that the library drops frees this device */
	p.area = _verbs_init_and_alloc_context(&p.device.device, -1, SLACK_BEFORE_B + e->context_size + SLACK_BEHIND_B,
					       (struct verbs_context *)(uintptr_t)SLACK_BEFORE_B, 0);
	if (!p.area) {
		snprintf(p.diff, sizeof(p.diff), "no memory for the self-check");
	} else {
		p.vctx = p.area + SLACK_BEFORE_B;
		ret = check_all(&p);
		verbs_uninit_context((struct verbs_context *)(void *)p.vctx);
	}
	if (ret) {
		dladdr((void *)(uintptr_t)verbs_set_ops, &lib);
		snprintf(line, line_size, "built for rdma-core %u, will not register: %s (%s)", e->release, p.diff,
			 lib.dli_fname ? lib.dli_fname : "libibverbs");
	}
	free(p.area);
	return ret;
}
