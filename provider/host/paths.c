/* SPDX-License-Identifier: BSD-2-Clause */
/* Which paths are rewritten, and to what. */
#include "provider/host/host.h"

#include <string.h>

/*
 * X(prefix in the program's eyes, folder below the fabric's, characters that may follow the prefix; NULL = any)
 *
 * The last row serves programs that resolve links themselves: those in class/infiniband lead to the PCI functions of
 * the tree (tree.h), whose domain no machine has.
 */
#define REWRITES(X)                                                                                                    \
	X("/sys/class/infiniband", "/sys/class/infiniband", "/_")                                                      \
	X("/dev/infiniband", "/dev", "/")                                                                              \
	X("/sys/devices/pci4700:", "/sys/devices/pci4700:", NULL)

static const struct rewrite {
	const char *from, *to, *next;
} rewrites[] = {
#define ROW(from, to, next) {from, to, next},
    REWRITES(ROW)
#undef ROW
};

/* What follows `prefix` in `path`, or NULL. Programs glue "/sys/" and "/class" together: runs of '/' count as one. */
static const char *after_prefix(const char *path, const char *prefix)
{
	while (*prefix) {
		if (*path++ != *prefix++)
			return NULL;
		if (path[-1] == '/')
			while (*path == '/')
				path++;
	}
	return path;
}

const char *host_rewrite(const char *path, char *room)
{
	size_t dir_len;
	const char *dir;
	/* Relative paths are left alone; a program that changed into the tree is in the tree already. */
	if (!path || path[0] != '/' || !(dir = host_fabric_dir(&dir_len)))
		return path;
	for (size_t i = 0; i < ARRAY_LEN(rewrites); i++) {
		const struct rewrite *r = &rewrites[i];
		const char *rest = after_prefix(path, r->from);
		if (!rest || (*rest && r->next && !strchr(r->next, *rest)))
			continue;
		size_t to_len = strlen(r->to), rest_len = strlen(rest);
		if (dir_len + to_len + rest_len >= HOST_PATH_MAX)
			return path;
		char *p = mempcpy(room, dir, dir_len);
		p = mempcpy(p, r->to, to_len);
		memcpy(p, rest, rest_len + 1);
		return room;
	}
	return path;
}

size_t host_inside(const char *path)
{
	size_t len;
	const char *dir = host_fabric_dir(&len);
	return dir && path && strncmp(path, dir, len) == 0 && path[len] == '/' ? len : 0;
}
