/* SPDX-License-Identifier: BSD-2-Clause */
/* H: resources. And A: what the device says of itself. */
#include "tests/scenarios/scenario.h"

Test(H1, busy_objects_refuse_to_go)
{
	struct bare b = bare_open();
	static unsigned char buf[4096];
	struct ibv_mr *mr = ibv_reg_mr(b.pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);

	cr_assert(mr);
	cr_assert_eq(ibv_dealloc_pd(b.pd), EBUSY);
	ok(ibv_dereg_mr(mr));

	struct ibv_qp *qp = bare_qp_inline(&b, 0, NULL);

	cr_assert(qp);
	cr_assert_eq(ibv_dealloc_pd(b.pd), EBUSY);
	cr_assert_eq(ibv_destroy_cq(b.cq), EBUSY);
	ok(ibv_destroy_qp(qp));

	struct ibv_comp_channel *channel = ibv_create_comp_channel(b.ctx);

	cr_assert(channel);
	struct ibv_cq *cq = ibv_create_cq(b.ctx, 8, NULL, channel, 0);

	cr_assert(cq);
	cr_assert_eq(ibv_destroy_comp_channel(channel), EBUSY);
	ok(ibv_destroy_cq(cq));
	ok(ibv_destroy_comp_channel(channel));
	bare_close(&b);
}

Test(A1, identity)
{
	struct bare b = bare_open();
	struct ibv_device_attr_ex dev;
	struct ibv_port_attr port;
	union ibv_gid gid, zero = {.raw = {0}};

	ok(ibv_query_device_ex(b.ctx, NULL, &dev));
	if (card()->vendor_id)
		cr_assert_eq(dev.orig_attr.vendor_id, card()->vendor_id);
	if (card()->vendor_part_id)
		cr_assert_eq(dev.orig_attr.vendor_part_id, card()->vendor_part_id);
	cr_assert_eq(dev.orig_attr.phys_port_cnt, 1);
	ok(ibv_query_port(b.ctx, 1, &port));
	cr_assert_eq(port.state, IBV_PORT_ACTIVE);
	cr_assert_eq(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	ok(ibv_query_gid(b.ctx, 1, 0, &gid));
	cr_assert_neq(memcmp(&gid, &zero, sizeof(gid)), 0);
	cr_assert_neq(ibv_query_port(b.ctx, 2, &port), 0);
	bare_close(&b);
}

Test(A1, devices_of_the_list_are_stable)
{
	int n1 = 0, n2 = 0;
	struct ibv_device **first = ibv_get_device_list(&n1), **second = ibv_get_device_list(&n2);

	cr_assert_eq(n1, 2);
	cr_assert_eq(n2, 2);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(first[i], second[i], "the same device twice");
	ibv_free_device_list(first);
	ibv_free_device_list(second);
}
