/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading, refusing, finding and writing profiles. */
#include "tests/unit/model_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder of this test, removed at its end. */
static char folder[64];

static void folder_make(void)
{
	snprintf(folder, sizeof(folder), "/tmp/simhca-test-XXXXXX");
	cr_assert(mkdtemp(folder) != NULL);
}

static void folder_remove(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

static const char *file_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static const char *file_with(const char *name, const char *text, size_t len)
{
	const char *path = file_path(name);
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
	return path;
}

TestSuite(model_profile, .init = folder_make, .fini = folder_remove);

static struct profile loaded(const char *text)
{
	return model_file(file_with("x.ini", text, strlen(text)));
}

static void expect_error(const char *text, int rc, const char *message)
{
	const char *path = file_with("x.ini", text, strlen(text));
	struct profile p;
	char err[512], want[512];

	cr_expect_eq(profile_load(path, &p, err, sizeof(err)), rc, "%s -> %s", text, err);
	snprintf(want, sizeof(want), "profile %s%s", path, message);
	cr_expect_str_eq(err, want);
}

Test(model_profile, empty_file)
{
	expect_error("", -EINVAL, ": empty");
}

Test(model_profile, comment_alone_is_the_defaults)
{
	struct profile p = loaded("; nothing\n"), defaults;

	profile_defaults(&defaults);
	cr_expect_str_eq(p.name, "x");
	cr_expect_eq(p.max_inline_data, 256);
	cr_expect_eq(p.policy, POLICY_ECHO);
	memcpy(p.name, defaults.name, sizeof(p.name));
	cr_expect_eq(memcmp(&p, &defaults, sizeof(p)), 0);
}

Test(model_profile, values)
{
	struct profile p = loaded("[limits]\nmax_qp = 0x10\nmax_mr_size = 1<<40\natomic_cap = none\n"
				  "[post]\nerr_full = -ENOMEM\nerr_errored=0\n"
				  "[timing]\nguess = 0 ; ours\ncpu_post_ns = 45.125\nwire_ns = 0.5\nnic_tx_ns = 7\n"
				  "pcie_GBps = 12.7\nlink_Gbps = 2.504\numr_load_frac = 0.342\n");

	cr_expect_eq(p.max_qp, 16);
	cr_expect_eq(p.max_mr_size, UINT64_C(1) << 40);
	cr_expect_eq(p.atomic_cap, ATOMIC_NONE);
	cr_expect_eq(p.err_full, -ENOMEM);
	cr_expect_eq(p.err_errored, 0);
	cr_expect_eq(p.guess, false);
	cr_expect_eq(p.cpu_post_ns, 45125);
	cr_expect_eq(p.wire_ns, 500);
	cr_expect_eq(p.nic_tx_ns, 7000);
	cr_expect_eq(p.pcie_GBps, 12700);
	cr_expect_eq(p.link_Gbps, 313);
	cr_expect_eq(p.umr_load_frac, 342000);
}

Test(model_profile, errors_name_file_and_line)
{
	expect_error("[limits]\n\nfoo = 1\n", -EINVAL, ":3: unknown key 'foo' in [limits]");
	expect_error("[limits]\nkind = register\n", -EINVAL, ":2: unknown key 'kind' in [limits]");
	expect_error("[limts]\nmax_qp = 1\n", -EINVAL, ":1: unknown section [limts]");
	expect_error("; c\n[nonsense]\n", -EINVAL, ":2: unknown section [nonsense]");
	expect_error("max_qp = 1\n", -EINVAL, ":1: key 'max_qp' before the first section");
	expect_error("[limits]\nmax_qp = 1\nmax_cq = 2\nmax_qp = 1\n", -EINVAL,
		     ":4: 'max_qp' set again, first in line 2");
	expect_error("[limits]\nmax_qp = 1\n[wqe]\n[limits]\nmax_qp = 1\n", -EINVAL,
		     ":5: 'max_qp' set again, first in line 2");
	expect_error("[limits]\nmax_qp 1\n", -EINVAL, ":2: neither [section], key = value nor comment");
	expect_error("[limits\nmax_qp = 1\n", -EINVAL, ":1: section without ]");
	/* The first error is the one reported. */
	expect_error("[limits]\nmax_qp = x\nfoo = 1\n", -EINVAL, ":2: 'x' in max_qp is not a number up to 4294967295");
}

Test(model_profile, values_of_the_wrong_type)
{
	static const struct {
		const char *section, *key, *value, *accepted;
	} rows[] = {
	    {"limits", "max_qp", "-1", "a number up to 4294967295"},
	    {"limits", "max_qp", "4294967296", "a number up to 4294967295"},
	    {"limits", "max_qp", "12 13", "a number up to 4294967295"},
	    {"limits", "max_qp", "0x", "a number up to 4294967295"},
	    {"limits", "max_qp", "", "a number up to 4294967295"},
	    {"limits", "max_mr_size", "1<<64", "a number, or 1<<n"},
	    {"limits", "max_mr_size", "18446744073709551616", "a number, or 1<<n"},
	    {"identity", "qp_rc", "yes", "0 or 1"},
	    {"identity", "node_type", "hca", "ca, rnic or unspecified"},
	    {"inline", "policy", "mlx4", "echo, mlx5, irdma or rxe"},
	    {"post", "err_sge", "EWHAT", "0 or an errno name such as EINVAL or -EINVAL"},
	    {"post", "err_sge", "22", "0 or an errno name such as EINVAL or -EINVAL"},
	    {"timing", "wire_ns", "1.2345", "nanoseconds with at most 3 decimals, up to 1000000000000"},
	    {"timing", "wire_ns", "-1", "nanoseconds with at most 3 decimals, up to 1000000000000"},
	    {"timing", "wire_ns", "1e3", "nanoseconds with at most 3 decimals, up to 1000000000000"},
	    {"timing", "wire_ns", ".5", "nanoseconds with at most 3 decimals, up to 1000000000000"},
	    {"timing", "wire_ns", "5.", "nanoseconds with at most 3 decimals, up to 1000000000000"},
	    {"timing", "wire_ns", "1000000000001", "nanoseconds with at most 3 decimals, up to 1000000000000"},
	    {"timing", "link_Gbps", "0.001", "Gb/s, a whole number of MB/s, up to 8000000"},
	    {"timing", "umr_load_frac", "1001", "a fraction with at most 6 decimals, up to 1000"},
	    {"identity", "fw_ver", "0123456789012345678901234567890123456789012345678901234567890123",
	     "text of at most 63 characters"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[256], message[256];
		snprintf(text, sizeof(text), "[%s]\n%s = %s\n", rows[i].section, rows[i].key, rows[i].value);
		snprintf(message, sizeof(message), ":2: '%s' in %s is not %s", rows[i].value, rows[i].key,
			 rows[i].accepted);
		expect_error(text, -EINVAL, message);
	}
}

Test(model_profile, values_out_of_range)
{
	expect_error("[wqe]\nblock_B = 0\n", -EINVAL, ":2: block_B is 0, must be a power of two from 16 to 256");
	expect_error("[wqe]\nblock_B = 48\n", -EINVAL, ":2: block_B is 48, must be a power of two from 16 to 256");
	expect_error("[timing]\ndma_chunk_B = 0\n", -EINVAL, ":2: dma_chunk_B is 0, must be from 64 to 1073741824");
	expect_error("[limits]\nmax_mtu = 1024\nactive_mtu = 2048\n", -EINVAL,
		     ":3: active_mtu 2048 is above max_mtu 1024");
	expect_error("[inline]\npolicy = irdma\n", -EINVAL, ":2: irdma needs hw_gen 1, 2 or 3");
	expect_error("[wqe]\nsq_counts = blocks\n", -EINVAL, ":2: sq_counts=blocks needs sq_blocks_per_wr");
	expect_error("[post]\ninline_compare = constant\n", -EINVAL,
		     ":2: inline_compare=constant needs inline_constant");
}

Test(model_profile, not_text)
{
	static const char nul[] = "[limits]\nmax_qp\0 = 1\n";
	char longest[600], err[512];
	struct profile p;

	cr_expect_eq(profile_load(file_with("x.ini", nul, sizeof(nul) - 1), &p, err, sizeof(err)), -EINVAL);
	cr_expect(strstr(err, "x.ini:2: line too long, or not text"), "%s", err);
	memset(longest, 'a', sizeof(longest));
	cr_expect_eq(profile_load(file_with("x.ini", longest, sizeof(longest)), &p, err, sizeof(err)), -EINVAL);
	cr_expect(strstr(err, "x.ini:1: line too long, or not text"), "%s", err);
	cr_expect_eq(profile_load("/dev/zero", &p, err, sizeof(err)), -EFBIG, "%s", err);
	cr_expect(strstr(err, "/dev/zero: File too large"), "%s", err);
}

Test(model_profile, missing_and_unreadable)
{
	struct profile p;
	char err[512];

	cr_expect_eq(profile_load(file_path("none.ini"), &p, err, sizeof(err)), -ENOENT);
	cr_expect(strstr(err, "none.ini: No such file or directory"), "%s", err);
	setenv("SIMHCA_PROFILES", folder, 1);
	cr_expect_eq(profile_load("none", &p, err, sizeof(err)), -ENOENT);
	cr_expect(strstr(err, "profile 'none' not found in /tmp/simhca-test-"), "%s", err);
	cr_expect_eq(profile_load("", &p, err, sizeof(err)), -ENOENT);
	/* A folder where a file should be. */
	cr_assert_eq(mkdir(file_path("dir.ini"), 0700), 0);
	cr_expect_eq(profile_load("dir", &p, err, sizeof(err)), -EISDIR);
	cr_expect(strstr(err, "dir.ini: Is a directory"), "%s", err);
}

Test(model_profile, unreadable)
{
	struct profile p;
	char err[512];
	bool root = !geteuid();

	chmod(file_with("locked.ini", "", 0), 0);
	setenv("SIMHCA_PROFILES", folder, 1);
	/* Root reads everything: be somebody else meanwhile. */
	chmod(folder, 0755);
	cr_assert(!root || !seteuid(65534));
	int rc = profile_load("locked", &p, err, sizeof(err));
	cr_assert(!root || !seteuid(0));
	cr_expect_eq(rc, -EACCES);
	cr_expect(strstr(err, "locked.ini: Permission denied"), "%s", err);
}

Test(model_profile, small_error_buffer)
{
	struct profile p;
	char err[8] = "xxxxxxx";

	cr_expect_eq(profile_load(file_path("none.ini"), &p, err, sizeof(err)), -ENOENT);
	cr_expect_eq(strlen(err), 7);
	cr_expect_eq(profile_load("nowhere", &p, NULL, 0), -ENOENT);
}

Test(model_profile, own_folder_comes_first)
{
	struct profile p;
	char err[512];
	const char text[] = "[limits]\nmax_inline_data = 17\n";

	file_with("generic.ini", text, sizeof(text) - 1);
	cr_assert_eq(profile_load("generic", &p, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(p.max_inline_data, 256);
	setenv("SIMHCA_PROFILES", folder, 1);
	cr_assert_eq(profile_load("generic", &p, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(p.max_inline_data, 17);
	cr_expect_str_eq(p.name, "generic");
	/* What the folder lacks is found behind it. */
	cr_expect_eq(profile_load("e810", &p, err, sizeof(err)), 0, "%s", err);
}

static int collect(const char *name, void *arg)
{
	char *list = arg;

	strcat(strcat(list, " "), name);
	return 0;
}

static int stop_at_second(const char *name, void *arg)
{
	int *count = arg;

	(void)name;
	return ++*count == 2 ? 42 : 0;
}

Test(model_profile, each_in_alphabetical_order_and_once)
{
	char list[512] = "";
	int count = 0;

	file_with("aaa.ini", "", 0);
	file_with("generic.ini", "", 0);
	file_with("readme.txt", "", 0);
	file_with(".ini", "", 0);
	setenv("SIMHCA_PROFILES", folder, 1);
	cr_expect_eq(profile_each(collect, list), 0);
	cr_expect_str_eq(list, " aaa connectx5 connectx6dx e810 erdma generic rxe x722");
	cr_expect_eq(profile_each(stop_at_second, &count), 42);
	cr_expect_eq(count, 2);
}

/* Dumps p to folder/<name>.ini and reads it again. */
static struct profile dumped(const struct profile *p)
{
	char name[PROFILE_STR_MAX + 8];

	snprintf(name, sizeof(name), "%s.ini", p->name);
	const char *path = file_path(name);
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	cr_assert_geq(fd, 0);
	cr_expect_eq(profile_dump(p, fd), 0);
	close(fd);
	return model_file(path);
}

static int round_trip(const char *name, void *arg)
{
	struct profile p, q;
	char err[512];
	int *count = arg;

	cr_assert_eq(profile_load(name, &p, err, sizeof(err)), 0, "%s", err);
	q = dumped(&p);
	cr_expect_eq(memcmp(&p, &q, sizeof(p)), 0, "%s", name);
	++*count;
	return 0;
}

Test(model_profile, dump_and_load_of_every_profile)
{
	int count = 0;

	cr_expect_eq(profile_each(round_trip, &count), 0);
	cr_expect_eq(count, 7);
}

Test(model_profile, dump_keeps_every_digit)
{
	struct profile p = model_profile("connectx6dx"), q;

	p.wire_ns = 1;
	p.nic_tx_ns = 1230;
	p.pcie_GBps = 12345;
	p.link_Gbps = 313;
	p.umr_load_frac = 1000001;
	p.max_locked_bytes = UINT64_MAX;
	p.err_full = -ENOMEM;
	q = dumped(&p);
	cr_expect_eq(memcmp(&p, &q, sizeof(p)), 0);
}

Test(model_profile, dump_reports_a_failed_write)
{
	const struct profile p = model_profile("generic");

	cr_expect_eq(profile_dump(&p, -1), -EBADF);
	int fd = open("/dev/full", O_WRONLY);
	cr_assert_geq(fd, 0);
	cr_expect_eq(profile_dump(&p, fd), -ENOSPC);
	close(fd);
}

static int count_key(const struct profile_key *key, void *arg)
{
	int *count = arg;

	cr_expect(*key->section && *key->key && *key->type && *key->help);
	/* What the INI parser takes in one line. */
	cr_expect_lt(strlen(key->help) + 4, 198, "%s", key->key);
	++*count;
	return 0;
}

Test(model_profile, every_key_is_described)
{
	const struct profile p = model_profile("generic");
	int count = 0;

	cr_expect_eq(profile_each_key(&p, count_key, &count), 0);
	cr_expect_gt(count, 100);
}

/* Who each profile says it is. */
Test(model_profile, identities)
{
	static const struct {
		const char *name;
		uint32_t vendor_id, part_id;
		enum prof_node_type node;
		bool uc, ud;
		enum prof_atomic atomic;
		bool guess;
	} rows[] = {
	    {"connectx6dx", 0x02c9, 4125, NODE_CA, true, true, ATOMIC_HCA, false},
	    {"connectx5", 0x02c9, 4119, NODE_CA, true, true, ATOMIC_HCA, false},
	    {"e810", 0x8086, 0x1592, NODE_CA, false, true, ATOMIC_NONE, true},
	    {"x722", 0x8086, 0x37d2, NODE_RNIC, false, false, ATOMIC_NONE, true},
	    {"erdma", 0x1ded, 0x107f, NODE_RNIC, false, false, ATOMIC_NONE, true},
	    {"rxe", 0xffffff, 0, NODE_CA, true, true, ATOMIC_HCA, true},
	    {"generic", 0, 0, NODE_CA, true, true, ATOMIC_HCA, true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct profile p;
		char err[512];
		cr_assert_eq(profile_load(rows[i].name, &p, err, sizeof(err)), 0, "%s", err);
		cr_expect_eq(p.vendor_id, rows[i].vendor_id, "%s", p.name);
		cr_expect_eq(p.vendor_part_id, rows[i].part_id, "%s", p.name);
		cr_expect_eq(p.node_type, rows[i].node, "%s", p.name);
		cr_expect(p.qp_rc);
		cr_expect_eq(p.qp_uc, rows[i].uc, "%s", p.name);
		cr_expect_eq(p.qp_ud, rows[i].ud, "%s", p.name);
		cr_expect_eq(p.atomic_cap, rows[i].atomic, "%s", p.name);
		cr_expect_eq(p.guess, rows[i].guess, "%s", p.name);
	}
}
