/* SPDX-License-Identifier: BSD-2-Clause */
/* simhca fabrics and simhca sweep: the fabrics of this user. */
#include "tools/simhca/simhca.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static error_t parse_fabrics(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = state->input;
	return 0;
}

static const struct argp argp_fabrics = {
    .parser = parse_fabrics,
    .doc = "Lists the fabrics of this user.",
    .children = (const struct argp_child[]){{&argp_json, 0, NULL, 0}, {0}},
};

static const struct argp argp_sweep = {
    .doc = "Removes the fabrics of this user that no process uses. Every `simhca run' does the same first.",
};

static void add_fabric(struct json_object *list, const char *dir, const char *name)
{
	struct fabric *f;
	char err[512];
	uint64_t devices = 0, processes = 0;
	if (fabric_open(dir, true, &f, err, sizeof(err))) {
		complain("%s", err);
		return;
	}
	const struct seg_header *seg = fabric_seg(f);
	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++)
		devices += atomic_load_explicit(&seg->devices[i].used, memory_order_relaxed) != 0;
	for (uint32_t i = 0; i < FAB_NODES_MAX; i++)
		processes += atomic_load_explicit(&seg->nodes[i].incarnation, memory_order_relaxed) != 0;
	struct json_object *row = row_add(list);
	row_str(row, "fabric", name);
	row_int(row, "devices", devices);
	row_int(row, "nodes", processes);
	row_int(row, "segment_B", seg->size_B);
	row_str(row, "path", dir);
	fabric_close(f);
}

int cmd_fabrics(int argc, char **argv)
{
	struct common common = {0};
	struct settings set;
	char prefix[64], path[PATH_MAX];
	if (argp_parse(&argp_fabrics, argc, argv, 0, NULL, &common))
		return EXIT_SETUP;
	int rc = load_settings(&set);
	if (rc)
		return rc;
	struct dirent **names;
	int n = scandir(set.dir, &names, NULL, alphasort);
	if (n < 0)
		return complain("%s: %s", set.dir, strerror(errno));
	struct json_object *list = list_new();
	int len = snprintf(prefix, sizeof(prefix), "simhca-%u-", getuid());
	for (int i = 0; i < n; i++) {
		if (strncmp(names[i]->d_name, prefix, (size_t)len) == 0) {
			snprintf(path, sizeof(path), "%s/%s", set.dir, names[i]->d_name);
			add_fabric(list, path, names[i]->d_name + len);
		}
		free(names[i]);
	}
	free(names);
	return list_print("fabrics", list, common.json);
}

int cmd_sweep(int argc, char **argv)
{
	struct settings set;
	if (argp_parse(&argp_sweep, argc, argv, 0, NULL, NULL))
		return EXIT_SETUP;
	int rc = load_settings(&set);
	if (rc)
		return rc;
	int n = fabric_sweep(set.dir);
	if (n < 0)
		return complain("%s: %s", set.dir, strerror(-n));
	printf("%d removed\n", n);
	return fflush(stdout) ? complain("writing: %s", strerror(errno)) : 0;
}
