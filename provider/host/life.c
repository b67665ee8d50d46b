/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the environment said, and the part of the preload that keeps the fabric while the program lives: the inherited
 * lock is given back at exit, so that a fabric vanishes with its last process even if that one opened no device.
 */
#include "provider/host/host.h"
#include "sim/fabric/fabric.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UNREAD, READING, READ };

static struct {
	_Atomic int state; /* READ: release after the rest is written, pairs with the acquire in host_fabric_dir */
	bool enabled;
	size_t dir_len;
	char dir[512];
	int lock_fd; /* written by the constructor only */
} host = {.lock_fd = -1};

static void read_environment(void)
{
	const char *dir = getenv("SIMHCA_FABRIC_DIR");
	const char *enable = getenv("SIMHCA_ENABLE");
	size_t len = dir ? strlen(dir) : 0;

	if (len > 0 && len < sizeof(host.dir) && dir[0] == '/') {
		memcpy(host.dir, dir, len + 1);
		host.dir_len = len;
		host.enabled = !enable || strcmp(enable, "0") != 0;
	}
}

const char *host_fabric_dir(size_t *len)
{
	int state = atomic_load_explicit(&host.state, memory_order_acquire);
	if (unlikely(state != READ)) {
		/* Constructors of other libraries may come here before ours; one that meets us half-way passes through.
		 */
		int unread = UNREAD;
		if (!atomic_compare_exchange_strong(&host.state, &unread, READING))
			return NULL;
		read_environment();
		atomic_store_explicit(&host.state, READ, memory_order_release);
	}
	*len = host.dir_len;
	return host.enabled ? host.dir : NULL;
}

/* Is fd open on the fabric's lock file? Programs close descriptors they do not know, and reuse the numbers. */
static bool holds_lock(int fd, const char *lock_path)
{
	struct stat mine, file;
	return fd >= 0 && fstat(fd, &mine) == 0 && stat(lock_path, &file) == 0 && mine.st_ino == file.st_ino &&
	       mine.st_dev == file.st_dev;
}

/* The inherited lock, or one of our own where somebody closed it on the way. */
static int adopt_lock(void)
{
	const char *text = getenv("SIMHCA_LOCK_FD");
	char path[sizeof(host.dir) + 8];
	if (!text || host.dir_len == 0)
		return -1;
	memcpy(mempcpy(path, host.dir, host.dir_len), "/lock", sizeof("/lock"));

	int fd = atoi(text);
	if (holds_lock(fd, path))
		return fd;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && (flock(fd, LOCK_SH | LOCK_NB) < 0 || !holds_lock(fd, path))) {
		close(fd); /* being removed */
		fd = -1;
	}
	return fd;
}

void host_let_go(void)
{
	int saved = errno;
	/* In a child of vfork this memory is the parent's: nothing is written. */
	if (host.lock_fd >= 0)
		fabric_release_fd(host.dir, host.lock_fd);
	errno = saved;
}

__attribute__((constructor)) static void host_begin(void)
{
	size_t len;
	int saved = errno;
	host_fabric_dir(&len);
	host_resolve_all();
	host.lock_fd = adopt_lock();
	errno = saved;
}

__attribute__((destructor)) static void host_end(void)
{
	host_let_go();
	host.lock_fd = -1;
}
