/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs sends a few requests to the kernel without asking the provider: completion channels, GID queries, the
 * asynchronous descriptor of an imported device. They leave through its own `write` and `ioctl` on the context's
 * cmd_fd. slots_install() points these two entries of its global offset table here, and `close` as well, so that the
 * end of a completion channel is seen; every call that is not about a registered cmd_fd goes on to where the slot
 * pointed before. No other module of the process is touched.
 *
 * The two message formats are decoded here; what they ask for is answered by the calls of struct slot_calls.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ib_uverbs_gid_entry;

/* Each returns 0 or a positive errno. `user` is what was registered with the cmd_fd. */
struct slot_calls {
	/* A new completion channel: *fd becomes the application's. */
	int (*create_channel)(void *user, int *fd);
	/* The descriptor of asynchronous events of an imported context. */
	int (*create_async)(void *user, int *fd);
	/* ENODATA: the entry is empty. EINVAL: no such port or index. */
	int (*query_gid)(void *user, uint32_t port, uint32_t index, struct ib_uverbs_gid_entry *entry);
	/* The library closes a descriptor, perhaps one of a completion channel. Before the close itself. */
	void (*closing)(int fd);
	/* Name of the adapter, for messages. */
	const char *(*name)(void *user);
};

/* Once, from the constructor. 0, or -1 with one line in `line`. */
int slots_install(const struct slot_calls *calls, char *line, size_t line_size);

/* Answer for this cmd_fd from now on. EMFILE: too many. */
int slots_add(int cmd_fd, void *user);
void slots_remove(int cmd_fd);
