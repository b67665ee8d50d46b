/* SPDX-License-Identifier: BSD-2-Clause */
/* simhca fabrics and simhca sweep: the fabrics of this user. */
#include "tools/simhca/simhca.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- who uses a fabric ---- */

bool fabric_used(const char *dir)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/lock", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno != ENOENT;
	bool used = flock(fd, LOCK_EX | LOCK_NB) < 0; /* users hold it shared; closing gives it back */
	close(fd);
	return used;
}

/* Does the descriptor hold a lock? One that only waits for it, as a watcher does, has none. */
static bool descriptor_holds(const char *pid, const char *fd)
{
	char path[PATH_MAX], line[256];
	bool holds = false;
	snprintf(path, sizeof(path), "/proc/%.20s/fdinfo/%.20s", pid, fd);
	FILE *file = fopen(path, "re");
	while (file && !holds && fgets(line, sizeof(line), file))
		holds = strncmp(line, "lock:", strlen("lock:")) == 0 && strstr(line, "FLOCK");
	if (file)
		fclose(file);
	return holds;
}

static bool process_holds(const char *pid, const struct stat *lock)
{
	char path[64];
	bool holds = false;
	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return false;
	for (struct dirent *e; !holds && (e = readdir(dir));) {
		struct stat st;
		holds = fstatat(dirfd(dir), e->d_name, &st, 0) == 0 && st.st_dev == lock->st_dev &&
			st.st_ino == lock->st_ino && descriptor_holds(pid, e->d_name);
	}
	closedir(dir);
	return holds;
}

static int is_process(const struct dirent *e)
{
	return e->d_name[0] >= '1' && e->d_name[0] <= '9';
}

void fabric_pids(const char *dir, char *text, size_t size)
{
	char path[PATH_MAX];
	struct stat lock;
	struct dirent **processes;
	size_t len = 0;
	*text = '\0';
	snprintf(path, sizeof(path), "%s/lock", dir);
	if (stat(path, &lock) < 0)
		return;
	int n = scandir("/proc", &processes, is_process, versionsort);
	for (int i = 0; i < n; i++) {
		if (len + 24 < size && process_holds(processes[i]->d_name, &lock))
			len +=
			    (size_t)snprintf(text + len, size - len, "%s%.20s", len ? ", " : "", processes[i]->d_name);
		free(processes[i]);
	}
	if (n >= 0)
		free(processes);
}

/* ---- the commands ---- */

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
    .doc = "Removes the fabrics of this user that no process uses. `simhca run' and `simhca doctor' do the same first.",
};

static void add_fabric(struct json_object *list, const char *dir, const char *name)
{
	struct fabric *f;
	char err[512], pids[256];
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
	row_str(row, "state", fabric_used(dir) ? "used" : "unused");
	fabric_pids(dir, pids, sizeof(pids));
	row_str(row, "pids", pids);
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
