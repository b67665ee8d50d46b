/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An opened device: its profile, its place in the fabric, and what the query verbs say about it.
 */
#include "sim/hca/engine.h"

#include <stdio.h>
#include <stdlib.h>

static void time_port(const struct profile *p, const struct seg_port *sp, struct port_time *pt)
{
	struct timing *t = &pt->t;

	model_timing(p, t);
	if (sp->link_Gbps)
		t->link_MBps = (uint64_t)sp->link_Gbps * 125;
	if (sp->switch_hops != UINT32_MAX)
		t->switch_hops = sp->switch_hops;
	pt->net_ps = time_net_ps(t);
	pt->ack_ps = t->nic_rx + t->ack_turn + time_wire_ps(t, 0, t->mtu_B, time_response_ext_B(OP_SEND)) + pt->net_ps;
	time_cqe_ps(t, &pt->cqe_generated_ps);
}

static int load_profile(struct hca *h, const char *device, char *err, size_t err_size)
{
	char path[sizeof(h->e->dir) + FAB_NAME_MAX + 32];

	snprintf(path, sizeof(path), "%s/profiles/%s.ini", h->e->dir, device);
	int rc = profile_load(path, &h->prof, err, err_size);
	if (rc)
		return -rc;
	/* The file is named after the device; the segment knows which profile it is. */
	snprintf(h->prof.name, sizeof(h->prof.name), "%.*s", (int)sizeof(h->seg->profile) - 1, h->seg->profile);
	model_apply_env(&h->prof);
	for (uint32_t i = 0; i < FAB_PORTS_MAX; i++)
		time_port(&h->prof, &h->seg->ports[i], &h->ports[i]);
	return 0;
}

int hca_open(const char *dir, const char *device, const struct settings *set, const struct hca_callbacks *cb,
	     void *user, struct hca **out, char *err, size_t err_size)
{
	struct hca *h = calloc(1, sizeof(*h));
	int rc = ENOMEM;

	if (!h) {
		snprintf(err, err_size, "out of memory");
		return ENOMEM;
	}
	h->set = *set;
	h->cb = *cb;
	h->user = user;
	h->e = engine_get(dir, set, err, err_size);
	if (!h->e) {
		rc = errno;
		goto fail;
	}
	int index = fabric_find_device(h->e->fabric, device);
	if (index < 0) {
		snprintf(err, err_size, "fabric %s has no device %s", dir, device);
		rc = ENODEV;
		goto fail;
	}
	h->device = (uint32_t)index;
	h->seg = &fabric_seg(h->e->fabric)->devices[index];
	rc = load_profile(h, device, err, err_size);
	if (rc)
		goto fail;
	*out = h;
	return 0;
fail:
	if (h->e)
		engine_put(h->e);
	free(h);
	return rc;
}

int hca_close(struct hca *h)
{
	if (!h->e->forked && (atomic_load(&h->num_pds) || atomic_load(&h->num_cqs) || atomic_load(&h->num_qps)))
		return EBUSY;
	engine_put(h->e);
	free(h);
	return 0;
}

const struct profile *hca_profile(const struct hca *h)
{
	return &h->prof;
}

struct fabric *hca_fabric(const struct hca *h)
{
	return h->e->fabric;
}

uint32_t hca_device_index(const struct hca *h)
{
	return h->device;
}

bool hca_forked(const struct hca *h)
{
	return h->e->forked;
}

int64_t hca_now_ps(void)
{
	return thread_clock_ps;
}

static enum ibv_atomic_cap atomic_cap(enum prof_atomic a)
{
	static const enum ibv_atomic_cap caps[] = {
	    [ATOMIC_NONE] = IBV_ATOMIC_NONE, [ATOMIC_HCA] = IBV_ATOMIC_HCA, [ATOMIC_GLOB] = IBV_ATOMIC_GLOB};
	return caps[a];
}

static int int_of(uint32_t limit)
{
	return (int)MIN(limit, (uint32_t)INT32_MAX);
}

void hca_query_device(const struct hca *h, struct ibv_device_attr_ex *ex)
{
	const struct profile *p = &h->prof;
	struct ibv_device_attr *a = &ex->orig_attr;

	memset(ex, 0, sizeof(*ex));
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%s", p->fw_ver);
	a->node_guid = __builtin_bswap64(h->seg->node_guid);
	a->sys_image_guid = a->node_guid;
	a->max_mr_size = p->max_mr_size;
	a->page_size_cap = p->page_size_cap;
	a->vendor_id = p->vendor_id;
	a->vendor_part_id = p->vendor_part_id;
	a->hw_ver = p->hw_ver;
	a->max_qp = int_of(p->max_qp);
	a->max_qp_wr = int_of(p->max_qp_wr);
	a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
	a->max_sge = int_of(MIN(p->max_send_sge, p->max_recv_sge));
	a->max_sge_rd = int_of(p->max_sge_rd);
	a->max_cq = int_of(p->max_cq);
	a->max_cqe = int_of(p->max_cqe);
	a->max_mr = int_of(p->max_mr);
	a->max_pd = int_of(p->max_pd);
	a->max_qp_rd_atom = int_of(p->max_qp_rd_atom);
	a->max_qp_init_rd_atom = int_of(p->max_qp_init_rd_atom);
	a->max_res_rd_atom = int_of(p->max_res_rd_atom ? p->max_res_rd_atom : p->max_qp_rd_atom * 4096u);
	a->atomic_cap = atomic_cap(p->atomic_cap);
	a->max_mw = int_of(p->max_mw);
	a->max_ah = int_of(p->max_ah);
	a->max_srq = int_of(p->max_srq);
	a->max_srq_wr = int_of(p->max_srq_wr);
	a->max_srq_sge = int_of(p->max_srq_sge);
	a->max_pkeys = (uint16_t)p->pkey_tbl_len;
	a->local_ca_ack_delay = 16;
	a->phys_port_cnt = (uint8_t)h->seg->num_ports;
	ex->phys_port_cnt_ex = h->seg->num_ports;
	ex->completion_timestamp_mask = p->hca_core_clock_khz ? UINT64_MAX : 0;
	ex->hca_core_clock = p->hca_core_clock_khz;
	ex->device_cap_flags_ex = a->device_cap_flags;
}

static enum ibv_mtu mtu_enum(uint32_t mtu_B)
{
	return mtu_B >= 4096   ? IBV_MTU_4096
	       : mtu_B >= 2048 ? IBV_MTU_2048
	       : mtu_B >= 1024 ? IBV_MTU_1024
	       : mtu_B >= 512  ? IBV_MTU_512
			       : IBV_MTU_256;
}

/* active_width x active_speed closest to the link rate, as enumerated by PortInfo. */
static void link_rate(uint32_t Gbps, uint8_t *width, uint8_t *speed)
{
	static const struct {
		uint32_t Gbps;
		uint8_t width, speed;
	} rates[] = {{400, 2, 128}, {200, 2, 64}, {100, 2, 32}, {50, 1, 64},
		     {40, 2, 4},    {25, 1, 32},  {10, 1, 4},	{0, 1, 1}};
	size_t i = 0;

	while (rates[i].Gbps > Gbps)
		i++;
	*width = rates[i].width;
	*speed = rates[i].speed;
}

static const struct seg_port *port_of(const struct hca *h, uint32_t port)
{
	return port >= 1 && port <= MIN(h->seg->num_ports, FAB_PORTS_MAX) ? &h->seg->ports[port - 1] : NULL;
}

int hca_query_port(const struct hca *h, uint32_t port, struct ibv_port_attr *attr)
{
	const struct profile *p = &h->prof;
	const struct seg_port *sp = port_of(h, port);
	struct ibv_port_attr a = {0};

	if (!sp)
		return EINVAL;
	uint32_t state = atomic_load_explicit(&sp->state, memory_order_relaxed);
	a.state = (enum ibv_port_state)state;
	a.max_mtu = mtu_enum(p->max_mtu);
	a.active_mtu = mtu_enum(p->active_mtu);
	a.gid_tbl_len = int_of(p->gid_tbl_len);
	a.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	a.max_msg_sz = p->max_msg_sz;
	a.pkey_tbl_len = (uint16_t)p->pkey_tbl_len;
	a.lid = (uint16_t)sp->lid;
	a.max_vl_num = 1;
	link_rate(sp->link_Gbps ? sp->link_Gbps : (uint32_t)(p->link_Gbps * 8 / 1000), &a.active_width,
		  &a.active_speed);
	a.phys_state = state == IBV_PORT_ACTIVE ? 5 : 3;
	a.link_layer = (uint8_t)sp->link_layer;
	a.flags = sp->link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_QPF_GRH_REQUIRED : 0;
	if (sp->link_layer == IBV_LINK_LAYER_INFINIBAND)
		a.sm_lid = 1;
	/* Callers built for an older library own 52 bytes only. */
	memcpy(attr, &a, MIN(sizeof(a), 52));
	return 0;
}

int hca_query_gid(const struct hca *h, uint32_t port, uint32_t index, struct seg_gid *gid)
{
	const struct seg_port *sp = port_of(h, port);

	if (!sp || index >= h->prof.gid_tbl_len)
		return EINVAL;
	if (index < MIN(sp->num_gids, FAB_GIDS_MAX))
		*gid = sp->gids[index];
	else
		memset(gid, 0, sizeof(*gid));
	return 0;
}
