/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening, importing and closing a device, and what the query verbs say about it.
 */
#include "provider/provider.h"
#include "provider/simhcadv.h"
#include "provider/slots.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the adapter behind one or more contexts ---- */

static struct p_hca *adapters; /* provider_lock */

static struct p_hca *adapter_open(const struct p_device *dev)
{
	struct p_hca *a = calloc(1, sizeof(*a));
	char err[256] = "";
	int rc;

	if (!a) {
		errno = ENOMEM;
		return NULL;
	}
	rc = hca_open(dev->fabric, dev->name, provider_settings, &provider_callbacks, a, &a->h, err, sizeof(err));
	if (rc) {
		sim_log_line("cannot open %s: %s", dev->name, *err ? err : strerror(rc));
		free(a);
		errno = rc;
		return NULL;
	}
	memcpy(a->fabric, dev->fabric, sizeof(a->fabric));
	memcpy(a->name, dev->name, sizeof(a->name));
	a->users = 1;
	a->life = provider_life;
	pthread_mutex_lock(&provider_lock);
	a->next = adapters;
	adapters = a;
	pthread_mutex_unlock(&provider_lock);
	return a;
}

static void adapter_put(struct p_hca *a)
{
	struct p_hca **p;
	bool last;

	pthread_mutex_lock(&provider_lock);
	last = --a->users == 0;
	for (p = &adapters; last && *p != a; p = &(*p)->next)
		;
	if (last)
		*p = a->next;
	pthread_mutex_unlock(&provider_lock);
	if (!last)
		return;
	if (hca_close(a->h))
		sim_log_line("%s was closed with objects left in it; this is a defect of simhca", a->name);
	free(a);
}

/* The newest adapter that this process opened on the device, with a reference, or NULL. */
static struct p_hca *adapter_find(const struct p_device *dev)
{
	struct p_hca *a;

	pthread_mutex_lock(&provider_lock);
	for (a = adapters; a; a = a->next)
		if (a->life == provider_life && !strcmp(a->name, dev->name) && !strcmp(a->fabric, dev->fabric))
			break;
	if (a)
		a->users++;
	pthread_mutex_unlock(&provider_lock);
	return a;
}

/* ---- opening ---- */

static int64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Takes cmd_fd and the reference to the adapter, whether it succeeds or not. */
static struct p_context *context_new(struct ibv_device *dev, int cmd_fd, struct p_hca *a)
{
	struct p_context *ctx = _verbs_init_and_alloc_context(
	    dev, cmd_fd, sizeof(*ctx), (struct verbs_context *)offsetof(struct p_context, vctx), 0);
	int rc;

	if (!ctx) {
		adapter_put(a);
		return NULL;
	}
	ctx->hca = a;
	ctx->life = provider_life;
	ctx->async_write = -1;
	ctx->overflow_end = &ctx->overflow;
	ctx->wall_offset_ns = wall_ns() - hca_now_ps() / 1000;
	ctx->vctx.context.num_comp_vectors = (int)hca_profile(a->h)->num_comp_vectors;
	verbs_set_ops(&ctx->vctx, &simhca_context_ops);
	verbs_set_ops(&ctx->vctx, &simhca_absent_ops);
	pthread_mutex_lock(&provider_lock);
	ctx->next = a->contexts;
	a->contexts = ctx;
	pthread_mutex_unlock(&provider_lock);
	rc = slots_add(cmd_fd, ctx);
	if (rc) {
		sim_log_line("cannot open %s: too many devices are open", a->name);
		simhca_free_context(&ctx->vctx.context);
		errno = rc;
		return NULL;
	}
	return ctx;
}

/* The library gives cmd_fd away: on failure it is ours to close. */
struct verbs_context *simhca_alloc_context(struct ibv_device *dev, int cmd_fd, void *private_data)
{
	struct p_hca *a = adapter_open(to_device(dev));
	struct p_context *ctx;
	int rc;

	(void)private_data;
	if (!a) {
		rc = errno;
		close(cmd_fd);
		errno = rc;
		return NULL;
	}
	ctx = context_new(dev, cmd_fd, a);
	if (!ctx)
		return NULL;
	/* The library asks the kernel for this descriptor unless it is there already. */
	rc = events_create_async(ctx, &ctx->vctx.context.async_fd);
	if (rc) {
		simhca_free_context(&ctx->vctx.context);
		errno = rc;
		return NULL;
	}
	return &ctx->vctx;
}

/*
 * An imported context works on the adapter of the context it comes from. The descriptor cannot say which that was
 * (it is a duplicate of a harmless device node), so it is the newest of the device in this process; a process without
 * one opens the device. The library asks for the asynchronous descriptor afterwards, in every case.
 */
struct verbs_context *simhca_import_context(struct ibv_device *dev, int cmd_fd)
{
	struct p_hca *a = adapter_find(to_device(dev));
	struct p_context *ctx;
	int rc;

	if (!a)
		a = adapter_open(to_device(dev));
	if (!a) {
		rc = errno;
		close(cmd_fd);
		errno = rc;
		return NULL;
	}
	ctx = context_new(dev, cmd_fd, a);
	return ctx ? &ctx->vctx : NULL;
}

void simhca_free_context(struct ibv_context *context)
{
	struct p_context *ctx = to_context(context);
	struct p_hca *a = ctx->hca;

	slots_remove(context->cmd_fd);
	objects_abandon(ctx);
	pthread_mutex_lock(&provider_lock);
	for (struct p_context **p = &a->contexts; *p; p = &(*p)->next)
		if (*p == ctx) {
			*p = ctx->next;
			break;
		}
	pthread_mutex_unlock(&provider_lock);
	events_close(ctx);
	adapter_put(a);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

/* ---- queries ---- */

int simhca_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex full = {0};

	if (input && input->comp_mask)
		return EINVAL;
	if (attr_size < sizeof(full.orig_attr))
		return EINVAL;
	hca_query_device(to_context(ctx)->hca->h, &full);
	memset(attr, 0, attr_size);
	memcpy(attr, &full, MIN(attr_size, sizeof(full)));
	return 0;
}

/* The library passes its own structure, whose size is that of the header we were built with (pabi.h asserts it). */
int simhca_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	return hca_query_port(to_context(ctx)->hca->h, port, attr);
}

/* Ticks of the completion timestamps, in tv_nsec as other adapters give them. */
int simhca_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values)
{
	const struct profile *prof = hca_profile(to_context(ctx)->hca->h);
	uint32_t given = 0;

	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		if (!prof->hca_core_clock_khz)
			return EOPNOTSUPP;
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)time_ticks(prof, hca_now_ps());
		given |= IBV_VALUES_MASK_RAW_CLOCK;
	}
	values->comp_mask = given;
	return 0;
}

int context_query_gid(void *user, uint32_t port, uint32_t index, struct ib_uverbs_gid_entry *entry)
{
	static const uint32_t types[] = {
	    [GID_IB] = IBV_GID_TYPE_IB, [GID_ROCE_V1] = IBV_GID_TYPE_ROCE_V1, [GID_ROCE_V2] = IBV_GID_TYPE_ROCE_V2};
	struct p_context *ctx = user;
	struct seg_gid gid;
	int rc = hca_query_gid(ctx->hca->h, port, index, &gid);

	if (rc)
		return rc;
	if (gid.type == GID_NONE || gid.type >= ARRAY_LEN(types))
		return ENODATA;
	memcpy(entry->gid, gid.raw, sizeof(gid.raw));
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = types[gid.type];
	gid.ndev[sizeof(gid.ndev) - 1] = 0;
	entry->netdev_ifindex = gid.ndev[0] ? if_nametoindex(gid.ndev) : 0;
	return 0;
}

/* ---- direct verbs ---- */

static bool is_ours(const struct ibv_device *device)
{
	return CONTAINER_OF(device, struct verbs_device, device)->ops == &simhca_device_ops;
}

bool simhcadv_is_supported(struct ibv_device *device)
{
	return device && is_ours(device);
}

int simhcadv_query_device(struct ibv_context *context, struct simhcadv_device_attr *attr, size_t attr_size)
{
	struct simhcadv_device_attr full = {0};
	struct hca *h;

	if (!is_ours(context->device))
		return EOPNOTSUPP;
	if (attr_size < offsetof(struct simhcadv_device_attr, profile))
		return EINVAL;
	h = to_context(context)->hca->h;
	full.comp_mask = SIMHCADV_DEVICE_ATTR_ALL;
	snprintf(full.profile, sizeof(full.profile), "%s", hca_profile(h)->name);
	snprintf(full.fabric, sizeof(full.fabric), "%.*s", (int)FAB_NAME_MAX, fabric_seg(hca_fabric(h))->name);
	full.block_B = hca_profile(h)->block_B;
	full.push_buf_B = hca_profile(h)->push_buf_B;
	full.core_clock_khz = hca_profile(h)->hca_core_clock_khz;
	memset(attr, 0, attr_size);
	memcpy(attr, &full, MIN(attr_size, sizeof(full)));
	return 0;
}

int64_t simhcadv_completion_time_ps(struct ibv_cq_ex *cq)
{
	const struct p_cq *c = ex_to_cq(cq);

	return c->cur ? c->cur->visible_ps : -1;
}

int simhcadv_last_completion_time_ps(struct ibv_cq *cq, int64_t *time_ps)
{
	int64_t last_ps;

	if (!is_ours(cq->context->device))
		return EOPNOTSUPP;
	last_ps = hca_cq_last_ps(to_cq(cq)->hcq);
	if (!last_ps)
		return ENODATA;
	*time_ps = last_ps;
	return 0;
}

int64_t simhcadv_now_ps(void)
{
	return hca_now_ps();
}
