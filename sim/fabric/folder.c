/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The folder of a fabric: whole or absent, used or removed.
 *
 * Who uses a fabric holds a shared flock on its lock file. Who wants to remove it needs an exclusive one, on a
 * description of its own; then it renames the folder away and deletes it, the lock file last. The lock file may have
 * been unlinked between open and flock, so whoever got a lock checks that the path still leads to the file it locked.
 */
#include "sim/fabric/private.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_NS                                                                                                   \
	INT64_C(5000000000) /* a remover that is stopped while it holds the lock is not waited for longer */

int fab_fail(int rc, char *err, size_t err_size, const char *fmt, ...)
{
	va_list ap;

	if (err && err_size) {
		va_start(ap, fmt);
		vsnprintf(err, err_size, fmt, ap);
		va_end(ap);
	}
	return rc;
}

bool fab_name_ok(const char *name)
{
	size_t len = strlen(name);

	if (!len || len >= FAB_NAME_MAX || *name == '.')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

void fabric_dir(const char *base, const char *name, char *dir, size_t dir_size)
{
	snprintf(dir, dir_size, "%s/" FAB_PREFIX "%u-%s", base, (unsigned)getuid(), name);
}

void folder_tmp_path(const char *base, char *path, size_t size)
{
	uint64_t r;

	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != sizeof(r))
		r = (uint64_t)fab_now_ns() ^ (uint64_t)getpid() << 32;
	snprintf(path, size, "%s/" FAB_TMP_PREFIX "%u-%016llx", base, (unsigned)getuid(), (unsigned long long)r);
}

int folder_write(int dir_fd, const char *name, const void *text, size_t len)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return -errno;
	int rc = 0;
	for (size_t done = 0; done < len && !rc;) {
		ssize_t w = write(fd, (const char *)text + done, len - done);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			rc = w < 0 ? -errno : -ENOSPC;
		else
			done += (size_t)w;
	}
	if (close(fd) && !rc)
		rc = -errno;
	return rc;
}

/* ---- removing ---- */

static void remove_content(int dir_fd, bool keep_lock);

void folder_remove_tree(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		unlinkat(dir_fd, name, 0);
		return;
	}
	remove_content(fd, false);
	close(fd);
	unlinkat(dir_fd, name, AT_REMOVEDIR);
}

/* Called at _exit too, perhaps in a signal handler: nothing here may allocate, as opendir does. */
static void remove_content(int dir_fd, bool keep_lock)
{
	_Alignas(struct dirent64) char batch[1024];
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t n;

	while (fd >= 0 && (n = getdents64(fd, batch, sizeof(batch))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const struct dirent64 *)(const void *)(batch + at);
			at += e->d_reclen;
			if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
			    !(keep_lock && !strcmp(e->d_name, FAB_LOCK_FILE)))
				folder_remove_tree(dir_fd, e->d_name);
		}
	}
	if (fd >= 0)
		close(fd);
}

/* Does the folder's lock file still lead to what fd is? */
static bool still_linked(const char *dir, int fd)
{
	char path[PATH_MAX];
	struct stat a, b;

	if (snprintf(path, sizeof(path), "%s/" FAB_LOCK_FILE, dir) >= (int)sizeof(path))
		return false;
	return !fstat(fd, &a) && !lstat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int open_lock(const char *dir, int flags)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/" FAB_LOCK_FILE, dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	int fd = open(path, O_RDWR | O_NOFOLLOW | flags, 0600);
	return fd < 0 ? -errno : fd;
}

/* Away under a name that nobody opens, so that it is absent at once; a half-done removal is finished by a sweep. */
static void remove_folder(const char *dir)
{
	char tmp[PATH_MAX], base[PATH_MAX];
	const char *slash = strrchr(dir, '/');

	if (!slash)
		return;
	if (strncmp(slash + 1, FAB_TMP_PREFIX, strlen(FAB_TMP_PREFIX))) {
		snprintf(base, sizeof(base), "%.*s", (int)(slash - dir), dir);
		folder_tmp_path(base, tmp, sizeof(tmp));
		if (rename(dir, tmp))
			return;
		dir = tmp;
	}
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	remove_content(fd, true);
	unlinkat(fd, FAB_LOCK_FILE, 0);
	close(fd);
	rmdir(dir);
}

bool folder_remove_if_unused(const char *dir)
{
	int fd = open_lock(dir, O_CLOEXEC);

	/* Between mkdir and the lock file, or between the lock file's end and rmdir: nothing else is in it then. */
	if (fd == -ENOENT)
		return !rmdir(dir);
	if (fd < 0)
		return false;
	bool ours = !flock(fd, LOCK_EX | LOCK_NB) && still_linked(dir, fd);
	if (ours)
		remove_folder(dir);
	close(fd);
	return ours;
}

int fabric_sweep(const char *base)
{
	char prefix[64], tmp_prefix[64], dir[PATH_MAX];
	int removed = 0;
	DIR *d = opendir(base);

	if (!d)
		return 0;
	snprintf(prefix, sizeof(prefix), FAB_PREFIX "%u-", (unsigned)getuid());
	snprintf(tmp_prefix, sizeof(tmp_prefix), FAB_TMP_PREFIX "%u-", (unsigned)getuid());
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;
		if (strncmp(e->d_name, prefix, strlen(prefix)) && strncmp(e->d_name, tmp_prefix, strlen(tmp_prefix)))
			continue;
		if (snprintf(dir, sizeof(dir), "%s/%s", base, e->d_name) >= (int)sizeof(dir))
			continue;
		if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
			continue;
		removed += folder_remove_if_unused(dir);
	}
	closedir(d);
	return removed;
}

/* ---- using ---- */

int folder_lock_shared(const char *dir, bool inherit)
{
	static const struct timespec nap = {0, 1000000};
	struct stat st;

	/* Others can make names in a shared folder: what is not ours alone is not trusted. */
	if (lstat(dir, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	for (int64_t end = fab_now_ns() + LOCK_WAIT_NS; fab_now_ns() < end; nanosleep(&nap, NULL)) {
		int fd = open_lock(dir, inherit ? 0 : O_CLOEXEC);
		if (fd < 0)
			return fd;
		if (!flock(fd, LOCK_SH | LOCK_NB) && still_linked(dir, fd))
			return fd;
		close(fd);
	}
	return -EBUSY;
}

void fabric_release_fd(const char *dir, int lock_fd)
{
	if (lock_fd >= 0)
		close(lock_fd);
	folder_remove_if_unused(dir);
}

void fabric_wait_and_remove(const char *dir)
{
	int fd = open_lock(dir, O_CLOEXEC);
	int rc;

	if (fd < 0)
		return;
	do
		rc = flock(fd, LOCK_EX);
	while (rc && errno == EINTR);
	if (!rc && still_linked(dir, fd))
		remove_folder(dir);
	close(fd);
}
