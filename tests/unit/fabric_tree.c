/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated sysfs tree: what libibverbs, UCX and the tools look for, and that live values change in place. */
#include "sim/fabric/tree.h"
#include "tests/unit/fabric_util.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

static struct util_world world;

static void setup(void)
{
	util_world_prepare(&world, "tree", 2);
	strcpy(world.devices[0].name, "mlx5_0");
	world.devices[0].profile.gid_tbl_len = 256;
	world.devices[0].profile.pkey_tbl_len = 128;
	world.devices[0].profile.link_Gbps = 12500;
	world.devices[1].num_ports = 2;
	world.devices[1].profile.node_type = NODE_RNIC;
	world.devices[1].ports[0].link_Gbps = 200;
	world.devices[1].ports[1].link_layer = IBV_LINK_LAYER_INFINIBAND;
	world.devices[1].ports[1].down = true;
	char err[256];
	cr_assert_eq(fabric_ensure(&world.cfg, false, &world.f, err, sizeof(err)), 0, "%s", err);
}

static void teardown(void)
{
	util_world_close(&world);
}

TestSuite(fabric_tree, .init = setup, .fini = teardown, .timeout = 30);

static const char *full(const char *name)
{
	static char path[1024];

	snprintf(path, sizeof(path), "%s/%s", world.dir, name);
	return path;
}

/* Content of a file, "(none)" if it is absent. */
static const char *text(const char *name)
{
	static char buf[1024];
	FILE *f = fopen(full(name), "r");
	size_t n = f ? fread(buf, 1, sizeof(buf) - 1, f) : 0;

	buf[n] = 0;
	if (!f)
		return "(none)";
	fclose(f);
	return buf;
}

#define D0 "sys/class/infiniband/mlx5_0/"
#define D1 "sys/class/infiniband/sim1/"

static const struct {
	const char *name, *content;
} fixed[] = {
    {"sys/class/infiniband_verbs/abi_version", "6\n"},
    {"sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n"},
    {"sys/class/infiniband_verbs/uverbs1/ibdev", "sim1\n"},
    {"sys/class/infiniband_verbs/uverbs0/abi_version", "1\n"},
    {D0 "node_type", "1: CA\n"},
    {D1 "node_type", "4: RNIC\n"},
    {D0 "fw_ver", "1.0.0\n"},
    {D0 "ports/1/state", "4: ACTIVE\n"},
    {D0 "ports/1/phys_state", "5: LinkUp\n"},
    {D1 "ports/2/state", "1: DOWN\n"},
    {D1 "ports/2/phys_state", "3: Disabled\n"},
    {D0 "ports/1/rate", "100 Gb/sec (4X EDR)\n"},
    {D1 "ports/1/rate", "200 Gb/sec (4X HDR)\n"},
    {D0 "ports/1/lid", "0x0\n"},
    {D1 "ports/2/lid", "0x4\n"},
    {D0 "ports/1/link_layer", "Ethernet\n"},
    {D1 "ports/2/link_layer", "InfiniBand\n"},
    {D0 "ports/1/gids/2", "0000:0000:0000:0000:0000:ffff:7f2f:0101\n"},
    {D0 "ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:7f2f:0101\n"},
    {D1 "ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:7f2f:0201\n"},
    {D0 "ports/1/gids/4", "0000:0000:0000:0000:0000:0000:0000:0000\n"},
    {D0 "ports/1/gids/255", "0000:0000:0000:0000:0000:0000:0000:0000\n"},
    {D0 "ports/1/gids/256", "(none)"},
    {D0 "ports/1/gid_attrs/types/0", "IB/RoCE v1\n"},
    {D0 "ports/1/gid_attrs/types/1", "RoCE v2\n"},
    {D0 "ports/1/gid_attrs/types/2", "IB/RoCE v1\n"},
    {D0 "ports/1/gid_attrs/types/3", "RoCE v2\n"},
    {D0 "ports/1/gid_attrs/types/255", "IB/RoCE v1\n"},
    {D0 "ports/1/gid_attrs/ndevs/3", "lo\n"},
    {D1 "ports/2/gid_attrs/types/0", "IB/RoCE v1\n"},
    {D0 "ports/1/pkeys/0", "0xffff\n"},
    {D0 "ports/1/pkeys/127", "0x0000\n"},
    {D0 "ports/1/pkeys/128", "(none)"},
    {D0 "ports/2/state", "(none)"},
    {D0 "ports/1/hw_counters/posts", "0\n"},
    {D0 "ports/1/counters/tx_bytes", "0\n"},
    {D0 "device/numa_node", "0\n"},
    {D0 "device/net/lo/dev_port", "0\n"},
    {D0 "device/modalias", "(none)"},
};

Test(fabric_tree, contents)
{
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		cr_expect_str_eq(text(fixed[i].name), fixed[i].content, "%s", fixed[i].name);
	for (int c = 0; c < CTR_COUNT; c++) {
		char name[128];
		snprintf(name, sizeof(name), D1 "ports/2/%s/%s",
			 sim_counters[c].where == COUNTER_PORT ? "counters" : "hw_counters", sim_counters[c].name);
		cr_expect_str_eq(text(name), "0\n", "%s", name);
	}
}

/* Addresses follow from the names alone: the next run has the same. */
Test(fabric_tree, stable_addresses)
{
	char guid[64], gid[64], err[256];

	strcpy(guid, text(D0 "node_guid"));
	strcpy(gid, text(D0 "ports/1/gids/0"));
	cr_assert_eq(strlen(guid), 20);
	cr_assert_eq(strspn(guid, "0123456789abcdef:"), 19);
	cr_assert_str_eq(text(D0 "sys_image_guid"), guid);
	cr_assert_eq(strncmp(gid, "fe80:0000:0000:0000:", 20), 0);
	cr_assert(strstr(gid, "ff:fe"));
	cr_assert_str_eq(text(D0 "ports/1/gids/1"), gid);
	cr_assert_str_neq(text(D1 "ports/1/gids/1"), gid);
	fabric_close(world.f);
	cr_assert_eq(fabric_ensure(&world.cfg, false, &world.f, err, sizeof(err)), 0, "%s", err);
	cr_assert_str_eq(text(D0 "node_guid"), guid);
	cr_assert_str_eq(text(D0 "ports/1/gids/0"), gid);
}

Test(fabric_tree, marker_names_fabric_and_device)
{
	char expected[1024];

	snprintf(expected, sizeof(expected), "%s\nmlx5_0\n", world.dir);
	cr_assert_str_eq(text(D0 TREE_MARKER), expected);
	cr_assert_eq(world.dir[0], '/');
}

Test(fabric_tree, character_devices)
{
	struct stat st, other;
	char number[64];

	for (int i = 0; i < 2; i++) {
		char name[64], via[80];
		snprintf(name, sizeof(name), "dev/uverbs%d", i);
		snprintf(via, sizeof(via), "dev/infiniband/uverbs%d", i);
		int fd = open(full(name), O_RDWR);
		cr_assert_geq(fd, 0);
		cr_assert_eq(fstat(fd, &st), 0);
		close(fd);
		cr_assert(S_ISCHR(st.st_mode));
		cr_assert_eq(stat(full(via), &other), 0);
		cr_assert_eq(other.st_rdev, st.st_rdev);
		snprintf(number, sizeof(number), "%u:%u\n", major(st.st_rdev), minor(st.st_rdev));
		snprintf(name, sizeof(name), "sys/class/infiniband_verbs/uverbs%d/dev", i);
		cr_assert_str_eq(text(name), number);
	}
	cr_assert_eq(stat(full("dev/uverbs0"), &other), 0);
	cr_assert_neq(other.st_rdev, st.st_rdev, "devices are told apart by it");
}

/* The shape from which UCX takes the PCI address. */
Test(fabric_tree, looks_like_a_pci_function)
{
	char real[PATH_MAX], up[PATH_MAX];

	cr_assert_not_null(realpath(full(D0), real));
	cr_assert_str_eq(strrchr(real, '/'), "/mlx5_0");
	cr_assert(strstr(real, "/sys/devices/pci4700:00/4700:00:00.0/infiniband/mlx5_0"), "%s", real);
	cr_assert_not_null(realpath(full(D0 "device"), up));
	cr_assert_eq(strncmp(real, up, strlen(up)), 0);
	cr_assert_str_eq(strrchr(up, '/'), "/4700:00:00.0");
	ssize_t n = readlink(full("sys/class/infiniband/mlx5_0"), up, sizeof(up) - 1);
	cr_assert_gt(n, 0);
	up[n] = 0;
	cr_assert_neq(up[0], '/', "it works wherever the tree is looked at from");
}

/* Programs take the first device; on a tmpfs libibverbs finds the newest entry first. */
static void check_order(void)
{
	char dir[1024], last[32] = "";
	struct stat st;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s", full("sys/class/infiniband_verbs"));
	cr_assert_not_null(d = opendir(dir));
	for (struct dirent *e; (e = readdir(d));) {
		if (strncmp(e->d_name, "uverbs", 6))
			continue;
		cr_assert_eq(fstatat(dirfd(d), e->d_name, &st, 0), 0);
		cr_assert(S_ISDIR(st.st_mode));
		cr_assert_lt(strcmp(last, e->d_name), 0, "%s before %s", last, e->d_name);
		strcpy(last, e->d_name);
	}
	closedir(d);
}

Test(fabric_tree, order)
{
	struct fabric *f;
	struct statfs fs;
	char err[256];

	cr_assert_eq(statfs(world.dir, &fs), 0);
	if (fs.f_type != TMPFS_MAGIC)
		cr_skip_test("the order of a folder is known on tmpfs only");
	check_order();
	for (int i = 0; i < 5; i++) {
		snprintf(world.devices[0].name, sizeof(world.devices[0].name), "later%d", i);
		cr_assert_eq(fabric_ensure(&world.cfg, false, &f, err, sizeof(err)), 0, "%s", err);
		fabric_close(f);
		check_order();
	}
	cr_assert_str_eq(text("sys/class/infiniband_verbs/uverbs6/ibdev"), "later4\n");
	/* A maker that died before it listed its device. */
	cr_assert_eq(unlink(full("sys/class/infiniband_verbs/uverbs3")), 0);
	cr_assert_eq(fabric_ensure(&world.cfg, false, &f, err, sizeof(err)), 0, "%s", err);
	fabric_close(f);
	cr_assert_str_eq(text("sys/class/infiniband_verbs/uverbs3/ibdev"), "later1\n");
	check_order();
}

/* ---- live values ---- */

Test(fabric_tree, live_values)
{
	struct seg_header *h = fabric_seg(world.f);
	struct stat before, after;
	char buf[64];

	cr_assert_eq(stat(full(D0), &before), 0);
	int fd = open(full(D0 "ports/1/counters/tx_bytes"), O_RDONLY);
	atomic_store(&h->devices[0].counters[CTR_TX_BYTES], 123456);
	atomic_store(&h->devices[1].counters[CTR_POSTS], 7);
	atomic_store(&h->devices[0].ports[0].state, IBV_PORT_DOWN);
	cr_assert_eq(tree_render_counter(world.f, "/sys/class/infiniband/mlx5_0/ports/1/counters/tx_bytes", buf, 64),
		     7);
	cr_assert_str_eq(buf, "123456\n");
	cr_assert_eq(tree_render_counter(world.f, "sys/devices/pci4700:00/4700:00:00.0/infiniband/mlx5_0/ports/1/state",
					 buf, sizeof(buf)),
		     8);
	cr_assert_str_eq(buf, "1: DOWN\n");
	cr_assert_str_eq(text(D0 "ports/1/counters/tx_bytes"), "0\n");
	util_nap_us(20000);
	cr_assert_eq(tree_refresh_counters(world.f), 0);
	cr_assert_str_eq(text(D0 "ports/1/counters/tx_bytes"), "123456\n");
	cr_assert_eq(pread(fd, buf, sizeof(buf), 0), 7, "the same file, in place");
	close(fd);
	cr_assert_str_eq(text(D1 "ports/1/hw_counters/posts"), "7\n");
	cr_assert_str_eq(text(D1 "ports/2/hw_counters/posts"), "0\n");
	cr_assert_str_eq(text(D0 "ports/1/state"), "1: DOWN\n");
	atomic_store(&h->devices[0].counters[CTR_TX_BYTES], 9);
	atomic_store(&h->devices[0].ports[0].state, IBV_PORT_ACTIVE);
	cr_assert_eq(tree_refresh_counters(world.f), 0);
	cr_assert_str_eq(text(D0 "ports/1/counters/tx_bytes"), "9\n");
	cr_assert_str_eq(text(D0 "ports/1/state"), "4: ACTIVE\n");
	cr_assert_eq(stat(full(D0), &after), 0);
	cr_assert(!memcmp(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim)),
		  "the device's folder is not touched");
}

Test(fabric_tree, what_is_no_live_value)
{
	static const char *const names[] = {"",
					    "infiniband/",
					    "infiniband/mlx5_0/ports/1/",
					    "infiniband/mlx5_0/ports/1/rate",
					    "infiniband/mlx5_0/ports/1/gids/0",
					    "infiniband/mlx5_0/ports/2/state",
					    "infiniband/mlx5_0/ports/0/state",
					    "infiniband/other/ports/1/state",
					    "infiniband/mlx5_0/ports/1/counters/posts",
					    "infiniband/mlx5_0/ports/1/hw_counters/tx_bytes",
					    "infiniband/mlx5_0/ports/1/count/tx_bytes",
					    "infiniband/mlx5_0/ports/1/countersx/tx_bytes",
					    "infiniband/mlx5_0/ports/1/counters/tx_bytes/",
					    "infiniband/mlx5_0/fw_ver"};
	char buf[64];

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		cr_expect_eq(tree_render_counter(world.f, names[i], buf, sizeof(buf)), -ENOENT, "%s", names[i]);
}

/* Tables of hundreds of empty entries cost names and no pages. */
Test(fabric_tree, small)
{
	char command[600];
	unsigned KiB = 0;

	snprintf(command, sizeof(command), "du -sk '%s'", world.dir);
	FILE *p = popen(command, "r");
	cr_assert_eq(fscanf(p, "%u", &KiB), 1);
	pclose(p);
	cr_assert_lt(KiB, 1600);
}
