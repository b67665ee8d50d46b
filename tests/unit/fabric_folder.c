/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabrics as folders: made, joined, extended, refused, swept, removed, also when processes race or are killed. */
#include "tests/unit/fabric_util.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct util_world world;
static char err[256];

static void setup(void)
{
	util_world_prepare(&world, "folder", 2);
}

static void teardown(void)
{
	util_world_close(&world);
}

TestSuite(fabric_folder, .init = setup, .fini = teardown, .timeout = 60);

static bool there(const char *name)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", world.dir, name);
	return !access(path, F_OK);
}

static int entries(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	if (d)
		closedir(d);
	return n;
}

static void ensure(void)
{
	cr_assert_eq(fabric_ensure(&world.cfg, false, &world.f, err, sizeof(err)), 0, "%s", err);
}

Test(fabric_folder, made_and_removed)
{
	ensure();
	cr_assert_str_eq(fabric_path(world.f), world.dir);
	cr_assert(there("segment") && there("lock") && there("profiles/sim1.ini") &&
		  there("sys/class/infiniband/sim0/ports"));
	cr_assert_eq(entries(world.base), 1);
	cr_assert_eq(fabric_find_device(world.f, "sim1"), 1);
	cr_assert_eq(fabric_find_device(world.f, "sim"), -1);
	fabric_close(world.f);
	world.f = NULL;
	cr_assert_eq(entries(world.base), 0);
	fabric_close(NULL);
}

Test(fabric_folder, last_one_removes)
{
	struct fabric *second;

	ensure();
	cr_assert_eq(fabric_ensure(&world.cfg, false, &second, err, sizeof(err)), 0, "%s", err);
	fabric_close(world.f);
	cr_assert(there("segment"));
	world.f = second;
	cr_assert_eq(fabric_sweep(world.base), 0, "somebody uses it");
}

Test(fabric_folder, two_names_are_two_worlds)
{
	struct util_world other = world;
	struct fabric *f;

	strcpy(other.cfg.name, "other");
	ensure();
	cr_assert_eq(fabric_ensure(&other.cfg, false, &f, err, sizeof(err)), 0, "%s", err);
	cr_assert_neq(fabric_seg(f)->seed, fabric_seg(world.f)->seed);
	cr_assert(memcmp(fabric_seg(f)->devices[0].ports[0].mac, fabric_seg(world.f)->devices[0].ports[0].mac, 6));
	fabric_close(f);
}

Test(fabric_folder, bad_names)
{
	static const char *const bad[] = {"", ".x", "a/b", "a b", "ä"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		strcpy(world.cfg.name, bad[i]);
		cr_assert_eq(fabric_ensure(&world.cfg, false, &world.f, err, sizeof(err)), -EINVAL);
	}
	strcpy(world.cfg.name, "x");
	strcpy(world.cfg.base, "/nowhere/at/all");
	cr_assert_eq(fabric_ensure(&world.cfg, false, &world.f, err, sizeof(err)), -ENOENT);
	cr_assert(strstr(err, "/nowhere/at/all"), "%s", err);
}

/* ---- devices ---- */

Test(fabric_folder, devices_are_added)
{
	struct fabric *f;

	world.cfg.num_devices = 1;
	ensure();
	cr_assert_eq(fabric_find_device(world.f, "sim1"), -1);
	world.cfg.num_devices = 2;
	cr_assert_eq(fabric_ensure(&world.cfg, false, &f, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(fabric_find_device(world.f, "sim1"), 1);
	cr_assert(there("sys/class/infiniband_verbs/uverbs1/ibdev"));
	fabric_close(f);
}

Test(fabric_folder, other_profile_is_refused)
{
	struct fabric *f;

	ensure();
	world.devices[1].profile.max_qp++;
	cr_assert_eq(fabric_ensure(&world.cfg, false, &f, err, sizeof(err)), -EEXIST);
	cr_assert(strstr(err, "sim1"), "%s", err);
	world.devices[1].profile.max_qp--;
	world.devices[1].num_ports = 2;
	cr_assert_eq(fabric_ensure(&world.cfg, false, &f, err, sizeof(err)), -EEXIST);
}

Test(fabric_folder, same_address_twice)
{
	strcpy(world.devices[0].ports[0].address, "10.1.2.3");
	strcpy(world.devices[1].ports[0].address, "10.1.2.3");
	cr_assert_eq(fabric_ensure(&world.cfg, false, &world.f, err, sizeof(err)), -EADDRINUSE);
	cr_assert_eq(entries(world.base), 0, "nothing is left of the attempt");
	strcpy(world.devices[1].ports[0].address, "10.1.2");
	cr_assert_eq(fabric_ensure(&world.cfg, false, &world.f, err, sizeof(err)), -EINVAL);
}

Test(fabric_folder, too_many_devices)
{
	struct fabric *f;

	ensure();
	world.cfg.num_devices = 1;
	for (int i = 2; i <= (int)FAB_DEVICES_MAX; i++) {
		snprintf(world.devices[0].name, sizeof(world.devices[0].name), "more%d", i);
		int rc = fabric_ensure(&world.cfg, false, &f, err, sizeof(err));
		cr_assert_eq(rc, i < (int)FAB_DEVICES_MAX ? 0 : -EOVERFLOW, "%s", err);
		if (!rc)
			fabric_close(f);
	}
}

Test(fabric_folder, addresses)
{
	uint32_t device, port;
	uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, 127, 47, 2, 1}, zero[16] = {0};

	world.devices[0].num_ports = 2;
	world.devices[0].ports[1].link_layer = 1; /* InfiniBand */
	ensure();
	cr_assert_eq(fabric_find_gid(world.f, v4, &device, &port), 0);
	cr_assert_eq(device, 1);
	cr_assert_eq(port, 1);
	cr_assert_eq(fabric_find_gid(world.f, zero, &device, &port), -ENOENT);
	struct seg_device *d = &fabric_seg(world.f)->devices[0];
	static const uint32_t types[] = {GID_ROCE_V1, GID_ROCE_V2, GID_ROCE_V1, GID_ROCE_V2};
	cr_assert_eq(d->ports[0].num_gids, 4);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(d->ports[0].gids[i].type, types[i]);
	cr_assert_eq(d->ports[0].gids[0].raw[0], 0xfe);
	cr_assert_eq(d->ports[0].mac[0] & 3, 2, "locally administered");
	cr_assert_eq(d->ports[1].num_gids, 1);
	cr_assert_eq(d->ports[1].gids[0].type, GID_IB);
	cr_assert_neq(d->ports[1].lid, 0);
	cr_assert_eq(fabric_find_lid(world.f, d->ports[1].lid, &device, &port), 0);
	cr_assert(device == 0 && port == 2);
	cr_assert_eq(fabric_find_lid(world.f, 0, &device, &port), -ENOENT);
}

/* ---- opening ---- */

Test(fabric_folder, read_only_listing)
{
	struct fabric *f;

	ensure();
	cr_assert_eq(fabric_open(world.dir, true, &f, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(fabric_find_device(f, "sim1"), 1);
	cr_assert_eq(fabric_counter(f, 1, CTR_POSTS), 0);
	fabric_close(world.f);
	world.f = NULL;
	cr_assert(!there("segment"), "a listing keeps nothing alive");
	fabric_close(f);
	cr_assert_eq(fabric_open(world.dir, true, &f, err, sizeof(err)), -ENOENT);
	cr_assert_eq(fabric_open(world.dir, false, &f, err, sizeof(err)), -ENOENT);
}

static void patch_segment(off_t at, const void *bytes, size_t len)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/segment", world.dir);
	int fd = open(path, O_WRONLY);
	cr_assert(fd >= 0 && pwrite(fd, bytes, len, at) == (ssize_t)len);
	close(fd);
}

Test(fabric_folder, other_build_is_refused)
{
	struct fabric *f;
	char path[1024];
	uint32_t version = SEG_VERSION + 1, header_B = sizeof(struct seg_header) + 64, good = SEG_VERSION;
	uint64_t magic = 1;

	ensure();
	patch_segment(offsetof(struct seg_header, version), &version, sizeof(version));
	cr_assert_eq(fabric_open(world.dir, false, &f, err, sizeof(err)), -EPROTO);
	cr_assert_eq(fabric_ensure(&world.cfg, false, &f, err, sizeof(err)), -EPROTO);
	cr_assert(strstr(err, "another build"), "%s", err);
	patch_segment(offsetof(struct seg_header, version), &good, sizeof(good));
	patch_segment(offsetof(struct seg_header, header_B), &header_B, sizeof(header_B));
	cr_assert_eq(fabric_open(world.dir, false, &f, err, sizeof(err)), -EPROTO);
	header_B = sizeof(struct seg_header);
	patch_segment(offsetof(struct seg_header, header_B), &header_B, sizeof(header_B));
	patch_segment(0, &magic, sizeof(magic));
	cr_assert_eq(fabric_open(world.dir, false, &f, err, sizeof(err)), -EPROTO);
	fabric_close(world.f);
	world.f = NULL;
	/* One that is too short. */
	ensure();
	snprintf(path, sizeof(path), "%s/segment", world.dir);
	cr_assert_eq(truncate(path, 100), 0);
	cr_assert_eq(fabric_open(world.dir, false, &f, err, sizeof(err)), -EPROTO);
}

Test(fabric_folder, folder_of_others_is_refused)
{
	ensure();
	struct fabric *f;
	cr_assert_eq(chmod(world.dir, 0777), 0);
	cr_assert_eq(fabric_open(world.dir, false, &f, err, sizeof(err)), -EPERM);
	cr_assert_eq(chmod(world.dir, 0700), 0);
}

/* ---- death ---- */

/* A process that is killed while it uses the fabric. */
static void run_and_die(void)
{
	struct fabric *f;
	pid_t pid = util_fork();

	if (!pid) {
		CHECK(!fabric_ensure(&world.cfg, false, &f, err, sizeof(err)));
		util_child_done();
	}
	util_wait_ok(pid);
}

Test(fabric_folder, killed_users_are_swept)
{
	char tmp[1024];

	for (int round = 0; round < 2; round++) {
		run_and_die();
		cr_assert(there("segment"));
		if (round) { /* by whoever comes next */
			char mark[1024];
			snprintf(mark, sizeof(mark), "%s/mark", world.dir);
			close(open(mark, O_CREAT | O_WRONLY, 0600));
			ensure();
			cr_assert(!there("mark"), "a dead fabric is not used again");
		} else {
			cr_assert_eq(fabric_sweep(world.base), 1);
			cr_assert_eq(entries(world.base), 0);
		}
	}
	/* Unfinished ones of both kinds, with and without the lock file; and what is not ours. */
	snprintf(tmp, sizeof(tmp), "%s/.simhca-%u-0123", world.base, (unsigned)getuid());
	cr_assert_eq(mkdir(tmp, 0700), 0);
	cr_assert_eq(fabric_sweep(world.base), 1);
	cr_assert_eq(mkdir(tmp, 0700), 0);
	strcat(tmp, "/lock");
	close(open(tmp, O_CREAT | O_WRONLY, 0600));
	cr_assert_eq(fabric_sweep(world.base), 1);
	snprintf(tmp, sizeof(tmp), "%s/simhca-%u-x", world.base, (unsigned)getuid() + 1);
	cr_assert_eq(mkdir(tmp, 0700), 0);
	cr_assert_eq(fabric_sweep(world.base), 0);
	cr_assert_eq(rmdir(tmp), 0);
}

/* Makers killed at any moment leave nothing that a sweep does not take away. */
Test(fabric_folder, killed_makers)
{
	for (unsigned i = 0; i < 40; i++) {
		pid_t pid = util_fork();
		if (!pid)
			for (;;) {
				struct fabric *f;
				CHECK(!fabric_ensure(&world.cfg, false, &f, err, sizeof(err)));
				fabric_close(f);
			}
		util_nap_us(1000 + i * 333);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		fabric_sweep(world.base);
		cr_assert_eq(entries(world.base), 0);
	}
	ensure();
}

/* Several processes make, join, leave and remove the same fabric all the time: each always gets a whole one. */
Test(fabric_folder, race)
{
	for (int p = 0; p < 4; p++) {
		if (util_fork())
			continue;
		for (int i = 0; i < 60; i++) {
			struct fabric *f;
			struct fab_node *n;
			CHECK(!fabric_ensure(&world.cfg, false, &f, err, sizeof(err)));
			CHECK(fabric_find_device(f, "sim1") == 1);
			CHECK(there("sys/class/infiniband/sim1/simhca"));
			CHECK(!node_join(f, &n) && !node_hold_life(n));
			node_drop_life(n);
			node_leave(n);
			CHECK(there("sys/class/infiniband/sim1/simhca"));
			fabric_close(f);
		}
		util_child_done();
	}
	util_wait_all();
	cr_assert_eq(entries(world.base), 0);
}

Test(fabric_folder, inherited_by_exec)
{
	struct fabric *f;
	int go[2];

	cr_assert_eq(pipe(go), 0);
	pid_t pid = util_fork();
	if (!pid) { /* a launcher: ensures, and becomes the program */
		char text[64];
		close(go[1]);
		dup2(go[0], 0);
		CHECK(!fabric_ensure(&world.cfg, true, &f, err, sizeof(err)));
		snprintf(text, sizeof(text), "read x");
		execl("/bin/sh", "sh", "-c", text, NULL);
		_exit(1);
	}
	while (!there("segment"))
		util_nap_us(100);
	util_nap_us(50000);
	cr_assert_eq(fabric_sweep(world.base), 0, "the program holds it");
	cr_assert_eq(write(go[1], "\n", 1), 1);
	util_wait_ok(pid);
	fabric_release_fd(world.dir, -1);
	cr_assert_eq(entries(world.base), 0);
}

/* ---- no room ---- */

/* Ensures in a file system of that size; the errno, or 0 when it had room. */
static int try_in_small(const char *dir, unsigned KiB)
{
	char options[64];
	struct fabric *f;

	snprintf(options, sizeof(options), "size=%uk,mode=700", KiB);
	if (mount("tmpfs", dir, "tmpfs", 0, options))
		util_die("tmpfs: %m");
	snprintf(world.cfg.base, sizeof(world.cfg.base), "%s", dir);
	int rc = fabric_ensure(&world.cfg, false, &f, err, sizeof(err));
	if (!rc) {
		struct fab_node *n;
		struct wire_tx *tx;
		struct seg_qp *qp;
		uint32_t qpn;
		CHECK(!node_join(f, &n));
		/* What needs more than there is fails by itself; the rest works on. */
		rc = wire_tx_open(n, node_index(n), &tx);
		if (!rc)
			CHECK(util_send(tx, PKT_SEND, 1, NULL, 8));
		for (uint32_t i = 0; !rc && i < 100000; i++)
			rc = fabric_qp_alloc(n, &qpn, &qp);
		node_leave(n);
		fabric_close(f);
	}
	CHECK(entries(dir) == 0);
	umount2(dir, MNT_DETACH);
	return rc;
}

Test(fabric_folder, full_file_system)
{
	int can[2];
	char c;

	cr_assert_eq(pipe(can), 0);
	pid_t pid = util_fork();
	if (!pid) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, ""))
			_exit(0);
		CHECK(write(can[1], "x", 1) == 1);
		char dir[256];
		snprintf(dir, sizeof(dir), "%s", world.base);
		for (unsigned KiB = 64; KiB < 2600; KiB += 100)
			CHECK(try_in_small(dir, KiB) == -ENOSPC);
		util_child_done();
	}
	close(can[1]);
	if (read(can[0], &c, 1) != 1)
		cr_skip_test("no right to mount a small tmpfs here");
	util_wait_ok(pid);
}

/* A file-size limit is the same to the caller. */
Test(fabric_folder, file_size_limit)
{
	pid_t pid = util_fork();

	if (!pid) {
		struct rlimit small = {100000, 100000};
		struct fabric *f;
		signal(SIGXFSZ, SIG_IGN);
		CHECK(!setrlimit(RLIMIT_FSIZE, &small));
		CHECK(fabric_ensure(&world.cfg, false, &f, err, sizeof(err)) == -ENOSPC);
		CHECK(strstr(err, "no space"));
		util_child_done();
	}
	util_wait_ok(pid);
	cr_assert_eq(entries(world.base), 0);
}
