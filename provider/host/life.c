/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the environment said, and the part of the preload that keeps the fabric while the program lives: the inherited
 * lock is given back at exit, so that a fabric vanishes with its last process even if that one opened no device.
 */
#include "provider/host/host.h"
#include "sim/fabric/fabric.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOLD_B 4096 /* never touched: the file is empty */

enum { UNREAD, READING, READ };

static struct {
	_Atomic int state; /* READ: release after the rest is written, pairs with the acquire in host_fabric_dir */
	bool enabled;
	size_t dir_len;
	char dir[512];
	int lock_fd;
	void *hold; /* mapping of the lock file */
	pid_t pid;  /* process that the two belong to */
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
static bool is_lock(int fd, const char *lock_path)
{
	struct stat mine, file;
	return fd >= 0 && fstat(fd, &mine) == 0 && stat(lock_path, &file) == 0 && mine.st_ino == file.st_ino &&
	       mine.st_dev == file.st_dev;
}

/* The inherited lock, or one of our own where somebody closed it on the way; -1 if the fabric is being removed. */
static int find_lock(void)
{
	const char *text = getenv("SIMHCA_LOCK_FD");
	char path[sizeof(host.dir) + 8];
	if (!text || host.dir_len == 0)
		return -1;
	memcpy(mempcpy(path, host.dir, host.dir_len), "/lock", sizeof("/lock"));

	int fd = atoi(text);
	if (is_lock(fd, path))
		return fd;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && (flock(fd, LOCK_SH | LOCK_NB) < 0 || !is_lock(fd, path))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/*
 * A flock lives as long as anything refers to the open file, and a mapping does: so the fabric stays although the
 * program closes our descriptor, which is left open for what this process may exec.
 */
static void hold_fabric(void)
{
	host.lock_fd = find_lock();
	if (host.lock_fd < 0)
		return;
	void *p = mmap(NULL, HOLD_B, PROT_NONE, MAP_SHARED, host.lock_fd, 0);
	host.hold = p == MAP_FAILED ? NULL : p;
	host.pid = getpid();
}

static void in_fork_child(void)
{
	host.pid = getpid();
}

void host_let_go(void)
{
	/* A child of vfork ends: this memory is its parent's. */
	if (host.lock_fd < 0 || getpid() != host.pid)
		return;
	int saved = errno;
	if (host.hold)
		munmap(host.hold, HOLD_B);
	fabric_release_fd(host.dir, host.lock_fd);
	host.lock_fd = -1;
	host.hold = NULL;
	errno = saved;
}

void simhca_host_let_go(void)
{
	host_let_go();
}

__attribute__((constructor)) static void host_begin(void)
{
	size_t len;
	int saved = errno;
	host_fabric_dir(&len);
	host_resolve_all();
	hold_fabric();
	if (host.lock_fd >= 0)
		pthread_atfork(NULL, NULL, in_fork_child);
	errno = saved;
}

__attribute__((destructor)) static void host_end(void)
{
	host_let_go();
}
