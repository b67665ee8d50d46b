/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the installed libibverbs sends to the kernel by itself reaches the answers of provider/slots.c, in the write
 * form and in the ioctl form, and nothing else does. No device and no fabric: a context on /dev/null.
 */
#include "provider/pabi.h"
#include "provider/slots.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <unistd.h>

enum { PORTS = 2, GIDS = 4 };

static struct {
	void *user;
	unsigned int channels, closings;
	int channel_fd, closed_fd;
	int fail;
} seen;

static int create_channel(void *user, int *fd)
{
	seen.user = user;
	seen.channels++;
	if (seen.fail)
		return seen.fail;
	*fd = seen.channel_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? errno : 0;
}

static int create_async(void *user, int *fd)
{
	seen.user = user;
	*fd = -1;
	return EBUSY;
}

/* Entry 1 of every port is empty; the GID tells port and index. */
static int query_gid(void *user, uint32_t port, uint32_t index, struct ib_uverbs_gid_entry *entry)
{
	seen.user = user;
	if (port < 1 || port > PORTS || index >= GIDS)
		return EINVAL;
	if (index == 1)
		return ENODATA;
	entry->gid[0] = 0x80fe;
	entry->gid[1] = port << 8 | index;
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	return 0;
}

static void closing(int fd)
{
	seen.closings++;
	seen.closed_fd = fd;
}

static const char *name(void *user)
{
	(void)user;
	return "test";
}

static const struct slot_calls calls = {create_channel, create_async, query_gid, closing, name};

/* The library asks for the port's table length before it asks for the table. */
static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->gid_tbl_len = GIDS;
	return port >= 1 && port <= PORTS ? 0 : EINVAL;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	(void)context, (void)input;
	memset(attr, 0, size);
	attr->orig_attr.phys_port_cnt = PORTS;
	return 0;
}

static const struct verbs_context_ops ops = {.query_port = query_port, .query_device_ex = query_device_ex};
static const struct verbs_device_ops device_ops = {.name = "test"};
static struct verbs_sysfs_dev sysfs;
static struct verbs_device device;

/*
 * `early`: the hook answers already while the context is set up, so the library finds the ioctl path and keeps to it;
 * else /dev/null answers ENOTTY there and the library writes.
 */
static struct verbs_context *make_context(bool early)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct verbs_context *vctx;

	cr_assert_geq(fd, 0);
	device.refcount = 1 << 20;
	device.ops = &device_ops;
	device.sysfs = &sysfs;
	if (early)
		cr_assert_eq(slots_add(fd, &seen), 0);
	vctx = _verbs_init_and_alloc_context(&device.device, fd, sizeof(*vctx), NULL, 0);
	cr_assert_not_null(vctx);
	if (!early)
		cr_assert_eq(slots_add(fd, &seen), 0);
	verbs_set_ops(vctx, &ops);
	return vctx;
}

static void free_context(struct verbs_context *vctx)
{
	slots_remove(vctx->context.cmd_fd);
	verbs_uninit_context(vctx);
	free(vctx);
}

static void install(void)
{
	char line[256] = "";

	cr_assert_eq(slots_install(&calls, line, sizeof(line)), 0, "%s", line);
}

TestSuite(pabi_slots, .init = install);

static void channel_in_form(bool early)
{
	struct verbs_context *vctx = make_context(early);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(&vctx->context);

	cr_assert_not_null(channel, "errno %d", errno);
	cr_expect_eq(seen.user, &seen);
	cr_expect_eq(seen.channels, 1);
	cr_expect_eq(channel->fd, seen.channel_fd);
	cr_expect_eq(ibv_destroy_comp_channel(channel), 0);
	cr_expect_eq(seen.closed_fd, seen.channel_fd, "the end of the channel was not seen");

	seen.fail = EMFILE;
	errno = 0;
	cr_expect_null(ibv_create_comp_channel(&vctx->context));
	cr_expect_eq(errno, EMFILE, "errno %d", errno);
	free_context(vctx);
}

Test(pabi_slots, channel_by_write)
{
	channel_in_form(false);
}

Test(pabi_slots, channel_by_ioctl)
{
	channel_in_form(true);
}

Test(pabi_slots, gid_entries)
{
	struct verbs_context *vctx = make_context(false);
	struct ibv_gid_entry entry = {0};
	union ibv_gid gid;

	cr_assert_eq(ibv_query_gid_ex(&vctx->context, 2, 3, &entry, 0), 0, "errno %d", errno);
	cr_expect_eq(entry.port_num, 2);
	cr_expect_eq(entry.gid_index, 3);
	cr_expect_eq(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	cr_expect_eq(entry.gid.raw[8], 3);
	cr_expect_eq(entry.gid.raw[9], 2);

	cr_expect_eq(ibv_query_gid_ex(&vctx->context, 1, 1, &entry, 0), ENODATA);
	cr_expect_eq(ibv_query_gid(&vctx->context, 1, 1, &gid), 0, "an empty entry reads as zero");
	cr_expect_eq(gid.global.interface_id, 0);
	cr_expect_neq(ibv_query_gid(&vctx->context, 1, GIDS, &gid), 0);
	cr_expect_neq(ibv_query_gid(&vctx->context, PORTS + 1, 0, &gid), 0);
	free_context(vctx);
}

Test(pabi_slots, gid_table)
{
	struct verbs_context *vctx = make_context(true);
	struct ibv_gid_entry entries[PORTS * GIDS] = {0};
	ssize_t n = ibv_query_gid_table(&vctx->context, entries, PORTS * GIDS, 0);

	cr_assert_eq(n, PORTS * (GIDS - 1), "%zd entries", n);
	for (int i = 0; i < n; i++) {
		cr_expect_eq(entries[i].port_num, (uint32_t)i / (GIDS - 1) + 1);
		cr_expect_eq(entries[i].gid.raw[8], entries[i].gid_index);
	}
	cr_expect_lt(ibv_query_gid_table(&vctx->context, entries, 2, 0), 0, "more entries than room");
	free_context(vctx);
}

/* Other descriptors go their way, and so does ours once it is no longer registered. */
Test(pabi_slots, others_pass_through)
{
	struct verbs_context *vctx = make_context(false);
	struct ibv_comp_channel *channel;

	slots_remove(vctx->context.cmd_fd);
	channel = ibv_create_comp_channel(&vctx->context); /* /dev/null swallows it: the descriptor is rubbish */
	cr_expect_eq(seen.channels, 0);
	free(channel);
	free_context(vctx);
}

Test(pabi_slots, as_many_as_there_is_room_for)
{
	int added = 0;

	while (slots_add(1000 + added, &seen) == 0)
		added++;
	cr_expect_geq(added, 64);
	cr_expect_eq(slots_add(999, &seen), EMFILE);
	slots_remove(1000);
	cr_expect_eq(slots_add(999, &seen), 0, "room that was given back is used again");
}
