/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of libc that the preload stands in front of: one table, everything else is made from it.
 *
 * Each is defined under a name of our own with an assembler label, so that the prototypes, 64-bit redirections and
 * fortified macros of the system's headers stay out of the way. The optional mode of the open family is declared as
 * an ordinary argument: the calling conventions of x86-64 and AArch64 pass both alike, and it is handed on unread.
 *
 * The __xstat family is what binaries built against glibc before 2.33 call; old and new libraries export different
 * halves of this table, so a function that is missing behind us answers ENOSYS.
 */
#include "provider/host/host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct stat;
struct stat64;
struct statx;
typedef int (*filter_fn)(const struct dirent *);
typedef int (*compare_fn)(const struct dirent **, const struct dirent **);

#define KEEP_FD(call)                                                                                                  \
	do {                                                                                                           \
		int fd_ = (call);                                                                                      \
		if (fd_ >= 0)                                                                                          \
			return fd_;                                                                                    \
	} while (0)
#define KEEP_FILE(call)                                                                                                \
	do {                                                                                                           \
		FILE *file_ = (call);                                                                                  \
		if (file_)                                                                                             \
			return file_;                                                                                  \
	} while (0)
#define COUNTER_FD   KEEP_FD(host_open_counter(path, flags))
#define COUNTER_FILE KEEP_FILE(host_fopen_counter(path, mode))
#define PLAIN	     (void)0

/* X(return type, name, value of failure, parameters, arguments, what else is done with the rewritten path) */
#define PATH_FUNCTIONS(X)                                                                                              \
	X(int, open, -1, (const char *path, int flags, mode_t mode), (path, flags, mode), COUNTER_FD)                  \
	X(int, open64, -1, (const char *path, int flags, mode_t mode), (path, flags, mode), COUNTER_FD)                \
	X(int, openat, -1, (int dir, const char *path, int flags, mode_t mode), (dir, path, flags, mode), COUNTER_FD)  \
	X(int, openat64, -1, (int dir, const char *path, int flags, mode_t mode), (dir, path, flags, mode),            \
	  COUNTER_FD)                                                                                                  \
	X(int, __open_2, -1, (const char *path, int flags), (path, flags), COUNTER_FD)                                 \
	X(int, __open64_2, -1, (const char *path, int flags), (path, flags), COUNTER_FD)                               \
	X(int, __openat_2, -1, (int dir, const char *path, int flags), (dir, path, flags), COUNTER_FD)                 \
	X(int, __openat64_2, -1, (int dir, const char *path, int flags), (dir, path, flags), COUNTER_FD)               \
	X(FILE *, fopen, NULL, (const char *path, const char *mode), (path, mode), COUNTER_FILE)                       \
	X(FILE *, fopen64, NULL, (const char *path, const char *mode), (path, mode), COUNTER_FILE)                     \
	X(int, stat, -1, (const char *path, struct stat *st), (path, st), PLAIN)                                       \
	X(int, stat64, -1, (const char *path, struct stat64 *st), (path, st), PLAIN)                                   \
	X(int, lstat, -1, (const char *path, struct stat *st), (path, st), PLAIN)                                      \
	X(int, lstat64, -1, (const char *path, struct stat64 *st), (path, st), PLAIN)                                  \
	X(int, fstatat, -1, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags), PLAIN)    \
	X(int, fstatat64, -1, (int dir, const char *path, struct stat64 *st, int flags), (dir, path, st, flags),       \
	  PLAIN)                                                                                                       \
	X(int, statx, -1, (int dir, const char *path, int flags, unsigned int mask, struct statx *st),                 \
	  (dir, path, flags, mask, st), PLAIN)                                                                         \
	X(int, __xstat, -1, (int ver, const char *path, struct stat *st), (ver, path, st), PLAIN)                      \
	X(int, __xstat64, -1, (int ver, const char *path, struct stat64 *st), (ver, path, st), PLAIN)                  \
	X(int, __lxstat, -1, (int ver, const char *path, struct stat *st), (ver, path, st), PLAIN)                     \
	X(int, __lxstat64, -1, (int ver, const char *path, struct stat64 *st), (ver, path, st), PLAIN)                 \
	X(int, __fxstatat, -1, (int ver, int dir, const char *path, struct stat *st, int flags),                       \
	  (ver, dir, path, st, flags), PLAIN)                                                                          \
	X(int, __fxstatat64, -1, (int ver, int dir, const char *path, struct stat64 *st, int flags),                   \
	  (ver, dir, path, st, flags), PLAIN)                                                                          \
	X(int, access, -1, (const char *path, int mode), (path, mode), PLAIN)                                          \
	X(int, eaccess, -1, (const char *path, int mode), (path, mode), PLAIN)                                         \
	X(int, euidaccess, -1, (const char *path, int mode), (path, mode), PLAIN)                                      \
	X(int, faccessat, -1, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags), PLAIN)       \
	X(DIR *, opendir, NULL, (const char *path), (path), PLAIN)                                                     \
	X(int, scandir, -1, (const char *path, struct dirent ***list, filter_fn filter, compare_fn compare),           \
	  (path, list, filter, compare), PLAIN)                                                                        \
	X(int, scandir64, -1, (const char *path, struct dirent ***list, filter_fn filter, compare_fn compare),         \
	  (path, list, filter, compare), PLAIN)                                                                        \
	X(ssize_t, readlink, -1, (const char *path, char *buf, size_t len), (path, buf, len), PLAIN)                   \
	X(ssize_t, __readlink_chk, -1, (const char *path, char *buf, size_t len, size_t room_B),                       \
	  (path, buf, len, room_B), PLAIN)                                                                             \
	X(ssize_t, readlinkat, -1, (int dir, const char *path, char *buf, size_t len), (dir, path, buf, len), PLAIN)   \
	X(ssize_t, __readlinkat_chk, -1, (int dir, const char *path, char *buf, size_t len, size_t room_B),            \
	  (dir, path, buf, len, room_B), PLAIN)                                                                        \
	X(char *, realpath, NULL, (const char *path, char *resolved), (path, resolved), PLAIN)                         \
	X(char *, __realpath_chk, NULL, (const char *path, char *resolved, size_t room_B), (path, resolved, room_B),   \
	  PLAIN)                                                                                                       \
	X(int, chdir, -1, (const char *path), (path), PLAIN)                                                           \
	X(ssize_t, getxattr, -1, (const char *path, const char *key, void *value, size_t len),                         \
	  (path, key, value, len), PLAIN)                                                                              \
	X(ssize_t, lgetxattr, -1, (const char *path, const char *key, void *value, size_t len),                        \
	  (path, key, value, len), PLAIN)                                                                              \
	X(ssize_t, listxattr, -1, (const char *path, char *list, size_t len), (path, list, len), PLAIN)                \
	X(ssize_t, llistxattr, -1, (const char *path, char *list, size_t len), (path, list, len), PLAIN)               \
	X(char *, canonicalize_file_name, NULL, (const char *path), (path), PLAIN)

enum function {
#define ENUM(ret, name, fail, params, args, also) FN_##name,
	PATH_FUNCTIONS(ENUM)
#undef ENUM
	    FN_socket,
	FN__exit,
	FN__Exit,
	FN_COUNT
};

static const char *const names[FN_COUNT] = {
#define NAME(ret, name, fail, params, args, also) [FN_##name] = #name,
    PATH_FUNCTIONS(NAME)
#undef NAME
	[FN_socket] = "socket",
    [FN__exit] = "_exit",
    [FN__Exit] = "_Exit",
};

/* The function behind ours. Relaxed: whoever stores a slot stores the same value. */
static _Atomic(void *) behind[FN_COUNT];

static void *find_behind(enum function fn)
{
	/* Two versions of realpath exist on x86-64; the bare name may give the one that takes no NULL. */
	void *p = fn == FN_realpath ? dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3") : NULL;
	if (!p)
		p = dlsym(RTLD_NEXT, names[fn]);
	atomic_store_explicit(&behind[fn], p, memory_order_relaxed);
	return p;
}

static inline void *get_behind(enum function fn)
{
	void *p = atomic_load_explicit(&behind[fn], memory_order_relaxed);
	if (likely(p != NULL))
		return p;
	/* Called before our constructor ran, or not in this libc. */
	int saved = errno;
	p = find_behind(fn);
	errno = p ? saved : ENOSYS;
	return p;
}

void host_resolve_all(void)
{
	for (int fn = 0; fn < FN_COUNT; fn++)
		find_behind((enum function)fn);
}

#define DEFINE(ret, name, fail, params, args, also)                                                                    \
	HOST_EXPORT ret host_##name params __asm__(#name);                                                             \
	ret host_##name params                                                                                         \
	{                                                                                                              \
		char room[HOST_PATH_MAX];                                                                              \
		path = host_rewrite(path, room);                                                                       \
		also;                                                                                                  \
		ret(*next) params = get_behind(FN_##name);                                                             \
		return next ? next args : fail;                                                                        \
	}
PATH_FUNCTIONS(DEFINE)
#undef DEFINE

#define NETLINK_FAMILY_RDMA 20

HOST_EXPORT int host_socket(int domain, int type, int protocol) __asm__("socket");
int host_socket(int domain, int type, int protocol)
{
	size_t len;
	if (domain == AF_NETLINK && protocol == NETLINK_FAMILY_RDMA && host_fabric_dir(&len)) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	int (*next)(int, int, int) = get_behind(FN_socket);
	return next ? next(domain, type, protocol) : -1;
}

/* Shells end with _exit, which runs no destructor. */
#define DEFINE_EXIT(name)                                                                                              \
	HOST_EXPORT void host_##name(int status) __asm__(#name) __attribute__((noreturn));                             \
	void host_##name(int status)                                                                                   \
	{                                                                                                              \
		host_let_go();                                                                                         \
		void (*next)(int) = get_behind(FN_##name);                                                             \
		if (next)                                                                                              \
			next(status);                                                                                  \
		for (;;)                                                                                               \
			syscall(SYS_exit_group, status);                                                               \
	}
DEFINE_EXIT(_exit)
DEFINE_EXIT(_Exit)
