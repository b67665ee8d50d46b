/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric files: what is read, and that each mistake names its line. */
#include "sim/fabric/fabric.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fab_config cfg;
static char err[256], path[] = "/tmp/fabric-config-XXXXXX";

static int read_text(const char *text, size_t len)
{
	int fd = mkstemp(path);

	cr_assert(fd >= 0 && write(fd, text, len) == (ssize_t)len);
	close(fd);
	memset(&cfg, 0, sizeof(cfg));
	*err = 0;
	int rc = fab_config_read(path, &cfg, err, sizeof(err));
	unlink(path);
	return rc;
}

Test(fabric_config, everything)
{
	static const char text[] = "; a comment\n"
				   "[fabric]\n"
				   "name = lab\n"
				   "\n"
				   "[device mlx5_0]\n"
				   "  profile = generic\n"
				   "  ports = 2   ; indented on purpose\n"
				   "[port mlx5_0:1]\n"
				   "link_Gbps = 25\n"
				   "switch_hops = 3\n"
				   "address = 10.0.0.1\n"
				   "[port mlx5_0:2]\n"
				   "link_layer = infiniband\n"
				   "state = down\n"
				   "[ device b-2 ]\n"
				   "profile = generic\n";

	cr_assert_eq(read_text(text, sizeof(text) - 1), 0, "%s", err);
	cr_assert_str_eq(cfg.name, "lab");
	cr_assert_eq(cfg.num_devices, 2);
	struct fab_device_config *d = cfg.devices;
	cr_assert_str_eq(d[0].name, "mlx5_0");
	cr_assert_str_eq(d[0].profile.name, "generic");
	cr_assert_eq(d[0].num_ports, 2);
	cr_assert_eq(d[0].ports[0].link_layer, -1);
	cr_assert_eq(d[0].ports[0].link_Gbps, 25);
	cr_assert_eq(d[0].ports[0].switch_hops, 3);
	cr_assert_str_eq(d[0].ports[0].address, "10.0.0.1");
	cr_assert_not(d[0].ports[0].down);
	cr_assert_eq(d[0].ports[1].link_layer, IBV_LINK_LAYER_INFINIBAND);
	cr_assert_eq(d[0].ports[1].switch_hops, UINT32_MAX);
	cr_assert_eq(d[0].ports[1].link_Gbps, 0);
	cr_assert(d[0].ports[1].down);
	cr_assert_str_eq(d[1].name, "b-2");
	cr_assert_eq(d[1].num_ports, 1);
	fab_config_free(&cfg);
}

#define DEVICE "[device a]\nprofile = generic\n"

/* A text, the line of its mistake, and a word of the message. */
static const struct {
	const char *text;
	int line;
	const char *word;
} mistakes[] = {
    {"", 0, "no device"},
    {"[fabric]\nname = x\n", 2, "no device"},
    {"name = x\n", 1, "no section"},
    {"[fabric]\nnome = x\n", 2, "nome"},
    {"[fabric]\nname = a/b\n", 2, "a/b"},
    {"[fabrik]\n", 1, "unknown section"},
    {DEVICE "[fabric x]\n", 3, "unknown section"},
    {"[device]\n", 1, "unknown section"},
    {"[device a b]\n", 1, "unknown section"},
    {"[device a\nprofile = generic\n", 1, "']'"},
    {"[device .a]\n", 1, ".a"},
    {DEVICE "\n[device a]\n", 4, "twice"},
    {"[device a]\n\n[device b]\nprofile = generic\n", 1, "no profile"},
    {"[device a]\nprofile = no-such-adapter\n", 2, "no-such-adapter"},
    {DEVICE "ports = 3\n", 3, "ports"},
    {DEVICE "ports = 0\n", 3, "ports"},
    {DEVICE "ports = two\n", 3, "two"},
    {DEVICE "ports = -1\n", 3, "-1"},
    {DEVICE "color = red\n", 3, "color"},
    {DEVICE "[port a]\n", 3, "DEVICE:NUMBER"},
    {DEVICE "[port b:1]\n", 3, "no [device b]"},
    {DEVICE "[port a:3]\n", 3, "port number"},
    {DEVICE "[port a:1]\n[port a:2]\n", 4, "has 1 port"},
    {DEVICE "[port a:1]\nstate = maybe\n", 4, "maybe"},
    {DEVICE "[port a:1]\nlink_layer = tokenring\n", 4, "tokenring"},
    {DEVICE "[port a:1]\nlink_Gbps = 0\n", 4, "link_Gbps"},
    {DEVICE "[port a:1]\nlink_Gbps = 99999999999999999999\n", 4, "link_Gbps"},
    {DEVICE "[port a:1]\nswitch_hops = 1.5\n", 4, "1.5"},
    {DEVICE "[port a:1]\naddress = 1.2.3\n", 4, "1.2.3"},
    {DEVICE "ports = 2\n[port a:1]\naddress = 1.2.3.4\n[port a:2]\naddress = 1.2.3.4\n", 7, "already"},
    {DEVICE "just words\n", 3, "key = value"},
};

Test(fabric_config, mistakes_name_their_line)
{
	for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
		char where[64];
		cr_expect_lt(read_text(mistakes[i].text, strlen(mistakes[i].text)), 0, "%s", mistakes[i].text);
		snprintf(where, sizeof(where), "%s:%d: ", path, mistakes[i].line);
		cr_expect(!strncmp(err, where, strlen(where)) && strstr(err, mistakes[i].word), "'%s' for:\n%s", err,
			  mistakes[i].text);
		cr_expect_null(cfg.devices);
		strcpy(strrchr(path, '-'), "-XXXXXX");
	}
}

Test(fabric_config, odd_files)
{
	char text[4000];

	cr_assert_eq(fab_config_read("/nowhere/x.ini", &cfg, err, sizeof(err)), -ENOENT);
	cr_assert(strstr(err, "/nowhere/x.ini"));
	cr_assert_eq(fab_config_read("/tmp", &cfg, err, sizeof(err)), -EISDIR);
	memset(text, 'x', sizeof(text));
	cr_assert_eq(read_text(text, sizeof(text)), -EINVAL);
	cr_assert(strstr(err, ":1: the line is longer"), "%s", err);
	strcpy(strrchr(path, '-'), "-XXXXXX");
	cr_assert_eq(read_text("[device a]\nprofile = generic\n\0[x]\n", 34), -EINVAL);
	cr_assert(strstr(err, ":3: a zero byte"), "%s", err);
	strcpy(strrchr(path, '-'), "-XXXXXX");
	size_t len = 0;
	for (int i = 0; i < 17; i++)
		len += (size_t)sprintf(text + len, "[device d%d]\nprofile = generic\n", i);
	cr_assert_eq(read_text(text, len), -EINVAL);
	cr_assert(strstr(err, ":33: more than 16 devices"), "%s", err);
}
