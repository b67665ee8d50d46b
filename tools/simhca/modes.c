/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ways to show the device nodes to a program that runs without the preload. libibverbs looks for
 * /dev/infiniband/<node> under this fixed name; the fabric's own tree holds what each node must lead to.
 *
 * plain: root has made links in /dev/infiniband once. userns: a private mount namespace in which /dev is a tmpfs that
 * has everything the old /dev had, plus the links.
 */
#include "tools/simhca/simhca.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DEV_FOLDER	    "/dev/infiniband"
#define NODE_PREFIX	    "uverbs"
#define NETLINK_FAMILY_RDMA 20

bool rdma_netlink_present(void)
{
	/* Not socket(): below `simhca run` that one is refused by our own preload. */
	int fd = (int)syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_FAMILY_RDMA);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static int is_node(const struct dirent *e)
{
	return strncmp(e->d_name, NODE_PREFIX, strlen(NODE_PREFIX)) == 0;
}

/* Calls fn with the name of each node of the fabric, in their order, and what it leads to, until one is not 0. */
static int each_node(const char *fabric_dir, int (*fn)(const char *node, const char *target, void *arg), void *arg)
{
	char path[PATH_MAX], link[PATH_MAX + NAME_MAX + 2], target[PATH_MAX];
	struct dirent **nodes;
	int rc = 0;
	snprintf(path, sizeof(path), "%s/dev", fabric_dir);
	int n = scandir(path, &nodes, is_node, versionsort);
	if (n < 0)
		return complain("%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		snprintf(link, sizeof(link), "%s/%s", path, nodes[i]->d_name);
		ssize_t len = rc ? 0 : readlink(link, target, sizeof(target) - 1);
		if (len > 0) {
			target[len] = '\0';
			rc = fn(nodes[i]->d_name, target, arg);
		}
		free(nodes[i]);
	}
	free(nodes);
	return rc;
}

/* ---- plain ---- */

struct lacks {
	char *what;
	size_t size;
};

/* The library compares the device number behind the node with the one the tree names, so both must be the same file. */
static int check_node(const char *node, const char *target, void *arg)
{
	const struct lacks *lacks = arg;
	struct stat st, want;
	char path[PATH_MAX];
	snprintf(path, sizeof(path), DEV_FOLDER "/%s", node);
	if (stat(path, &st) < 0)
		snprintf(lacks->what, lacks->size, "%s: %s", path, strerror(errno));
	else if (!S_ISCHR(st.st_mode))
		snprintf(lacks->what, lacks->size, "%s is no character device", path);
	else if (target && (stat(target, &want) < 0 || st.st_rdev != want.st_rdev))
		snprintf(lacks->what, lacks->size, "%s is no link to %s", path, target);
	else
		return 0;
	return 1;
}

bool mode_plain_lacks(const char *fabric_dir, char *what, size_t size)
{
	struct lacks lacks = {what, size};
	if (!fabric_dir)
		return check_node(NODE_PREFIX "0", NULL, &lacks) || check_node(NODE_PREFIX "1", NULL, &lacks);
	*what = '\0';
	return each_node(fabric_dir, check_node, &lacks) != 0;
}

static int make_node(const char *node, const char *target, void *arg)
{
	(void)arg;
	char path[PATH_MAX], now[PATH_MAX];
	snprintf(path, sizeof(path), DEV_FOLDER "/%s", node);
	ssize_t n = readlink(path, now, sizeof(now) - 1);
	if (n > 0) {
		now[n] = '\0';
		if (strcmp(now, target) == 0)
			return 0;
		if (unlink(path) < 0)
			return complain("%s: %s", path, strerror(errno));
	}
	return symlink(target, path) < 0 ? complain("%s: %s", path, strerror(errno)) : 0;
}

int mode_plain_prepare(const char *fabric_dir)
{
	if (mkdir(DEV_FOLDER, 0755) < 0 && errno != EEXIST)
		return complain(DEV_FOLDER ": %s", strerror(errno));
	return each_node(fabric_dir, make_node, NULL);
}

/* ---- userns ---- */

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = write(fd, text, strlen(text));
	int saved = errno;
	close(fd);
	errno = saved;
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* The process keeps its user and group numbers; nothing else is mapped. */
static int enter_namespaces(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return complain("user namespaces are not allowed here (unshare: %s); use --mode preload",
				strerror(errno));
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	if (write_text("/proc/self/uid_map", map) < 0)
		return complain("/proc/self/uid_map: %s; use --mode preload", strerror(errno));
	if (write_text("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
		return complain("/proc/self/setgroups: %s; use --mode preload", strerror(errno));
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	if (write_text("/proc/self/gid_map", map) < 0)
		return complain("/proc/self/gid_map: %s; use --mode preload", strerror(errno));
	return 0;
}

/* One entry of the old /dev, open as old_fd, appears in the new one. What cannot be bound is left out. */
static void carry_over(int old_fd, const char *name)
{
	char from[PATH_MAX], to[PATH_MAX], target[PATH_MAX];
	struct stat st;
	if (fstatat(old_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	snprintf(from, sizeof(from), "/proc/self/fd/%d/%s", old_fd, name);
	snprintf(to, sizeof(to), "/dev/%s", name);
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(old_fd, name, target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = '\0';
			(void)!symlink(target, to);
		}
		return;
	}
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(to, 0755) < 0)
			return;
	} else {
		int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return;
		close(fd);
	}
	if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
		(void)(S_ISDIR(st.st_mode) ? rmdir(to) : unlink(to));
}

static int carry_over_all(int old_fd)
{
	int fd = openat(old_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir)
		return complain("/dev: %s", strerror(errno));
	for (struct dirent *e; (e = readdir(dir));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strcmp(e->d_name, "infiniband") != 0)
			carry_over(old_fd, e->d_name);
	closedir(dir);
	return 0;
}

int mode_userns_enter(const char *fabric_dir)
{
	int rc = enter_namespaces();
	if (rc)
		return rc;
	int old_fd = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (old_fd < 0)
		return complain("/dev: %s", strerror(errno));
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=1m") < 0)
		rc = complain("a private /dev cannot be mounted here (%s); use --mode preload", strerror(errno));
	if (!rc)
		rc = carry_over_all(old_fd);
	close(old_fd);
	if (!rc && (access("/dev/null", R_OK | W_OK) < 0 || access("/dev/shm", W_OK) < 0))
		rc = complain("the private /dev has no %s; use --mode preload",
			      access("/dev/null", R_OK | W_OK) < 0 ? "null" : "shm");
	return rc ? rc : mode_plain_prepare(fabric_dir);
}
