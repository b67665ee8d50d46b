/* SPDX-License-Identifier: BSD-2-Clause */
#include "provider/slots.h"
#include "provider/pabi.h"
#include "sim/base.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(void *) == 8, "only 64-bit relocations (RELA) are understood");

#if defined(__x86_64__)
enum { R_JUMP_SLOT = R_X86_64_JUMP_SLOT, R_GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { R_JUMP_SLOT = R_AARCH64_JUMP_SLOT, R_GLOB_DAT = R_AARCH64_GLOB_DAT };
#elif defined(__powerpc64__)
enum { R_JUMP_SLOT = R_PPC64_JMP_SLOT, R_GLOB_DAT = R_PPC64_GLOB_DAT };
#elif defined(__riscv)
enum { R_JUMP_SLOT = R_RISCV_JUMP_SLOT, R_GLOB_DAT = R_RISCV_64 };
#else
#error "relocation types of this architecture are not known"
#endif

typedef ssize_t write_fn(int fd, const void *buf, size_t len);
typedef int ioctl_fn(int fd, unsigned long request, ...);
typedef int close_fn(int fd);

/* Where the slots pointed before: another tool's patch stays in the chain. */
static write_fn *next_write;
static ioctl_fn *next_ioctl;
static close_fn *next_close;
static const struct slot_calls *calls;

/* ---- registered cmd_fds ------------------------------------------------------------------------------------------ */

enum { CMD_FDS_MAX = 1024 };

/*
 * Read without a lock, since every write, ioctl and close of libibverbs looks here. fd is stored last when an entry
 * is made (release, pairs with the acquire in find_user) and first when it goes. 0 = free; descriptors are kept + 1.
 */
static struct {
	_Atomic int fd_plus_1;
	void *user;
} cmd_fds[CMD_FDS_MAX];
static _Atomic unsigned int cmd_fds_used; /* entries behind this were never taken; relaxed, only grows */

static void *find_user(int fd)
{
	unsigned int used = fd < 0 ? 0 : atomic_load_explicit(&cmd_fds_used, memory_order_relaxed);

	for (unsigned int i = 0; i < used; i++)
		if (atomic_load_explicit(&cmd_fds[i].fd_plus_1, memory_order_acquire) == fd + 1)
			return cmd_fds[i].user;
	return NULL;
}

int slots_add(int cmd_fd, void *user)
{
	const int taking = INT_MIN; /* no descriptor's */

	for (unsigned int i = 0; i < CMD_FDS_MAX; i++) {
		int free = 0;

		if (!atomic_compare_exchange_strong(&cmd_fds[i].fd_plus_1, &free, taking))
			continue;
		cmd_fds[i].user = user;
		atomic_store_explicit(&cmd_fds[i].fd_plus_1, cmd_fd + 1, memory_order_release);
		for (unsigned int used = i; used < i + 1;)
			if (atomic_compare_exchange_weak(&cmd_fds_used, &used, MAX(used, i + 1)))
				break;
		return 0;
	}
	return EMFILE;
}

void slots_remove(int cmd_fd)
{
	for (unsigned int i = 0; i < CMD_FDS_MAX; i++) {
		int mine = cmd_fd + 1;

		if (atomic_compare_exchange_strong(&cmd_fds[i].fd_plus_1, &mine, 0))
			return;
	}
}

/* ---- the write form ------------------------------------------------------------------------------------------------
 */

/* One command exists in this form without the provider's doing: the channel. Anything else is a verb that we forgot. */
static int write_command(void *user, uint32_t command, void *resp, size_t resp_size)
{
	struct ib_uverbs_create_comp_channel_resp out;
	int fd, err;

	if (command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) {
		say(LOG_WHY, "libibverbs sent kernel command %u on %s, which is not emulated: EOPNOTSUPP", command,
		    calls->name(user));
		return EOPNOTSUPP;
	}
	if (resp_size < sizeof(out))
		return EINVAL;
	err = calls->create_channel(user, &fd);
	if (err)
		return err;
	out.fd = (uint32_t)fd;
	memcpy(resp, &out, sizeof(out));
	return 0;
}

static ssize_t slot_write(int fd, const void *buf, size_t len)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_create_comp_channel cmd;
	} req = {0};
	void *user = find_user(fd);
	int err = EINVAL;

	if (!user)
		return next_write(fd, buf, len);
	if (len >= sizeof(req.hdr)) {
		memcpy(&req, buf, MIN(len, sizeof(req)));
		err = write_command(user, req.hdr.command, (void *)(uintptr_t)req.cmd.response,
				    req.hdr.out_words * sizeof(uint32_t));
	}
	if (err) {
		errno = err;
		return -1;
	}
	return (ssize_t)len;
}

/* ---- the ioctl form ------------------------------------------------------------------------------------------------
 */

static struct ib_uverbs_attr *find_attr(struct ib_uverbs_ioctl_hdr *hdr, uint16_t id)
{
	for (unsigned int i = 0; i < hdr->num_attrs; i++)
		if (hdr->attrs[i].attr_id == id)
			return &hdr->attrs[i];
	return NULL;
}

/* An input number; short inputs travel inside the attribute. */
static uint64_t attr_in(const struct ib_uverbs_attr *attr)
{
	uint64_t value = 0;

	if (attr && attr->len && attr->len <= sizeof(value))
		memcpy(&value, &attr->data, attr->len);
	return value;
}

/* Copies a result of at most the size that the caller has room for, and marks it as given. */
static int attr_out(struct ib_uverbs_attr *attr, const void *data, size_t size)
{
	if (!attr || !attr->data)
		return EINVAL;
	memcpy((void *)(uintptr_t)attr->data, data, MIN(size, (size_t)attr->len));
	attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return 0;
}

static int ioctl_invoke_write(void *user, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *cmd = find_attr(hdr, UVERBS_ATTR_WRITE_CMD);
	struct ib_uverbs_attr *resp = find_attr(hdr, UVERBS_ATTR_CORE_OUT);

	if (!cmd || !resp || !resp->data)
		return ENOSPC; /* the library's probe, answered as a kernel that has this method does */
	return write_command(user, (uint32_t)attr_in(cmd), (void *)(uintptr_t)resp->data, resp->len);
}

static int ioctl_gid_entry(void *user, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_gid_entry entry = {0};
	int err;

	if (attr_in(find_attr(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS)))
		return EINVAL;
	err = calls->query_gid(user, (uint32_t)attr_in(find_attr(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_PORT)),
			       (uint32_t)attr_in(find_attr(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)), &entry);
	if (err)
		return err;
	return attr_out(find_attr(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY), &entry, sizeof(entry));
}

/* All entries that are not empty, port after port, as far as the caller's array goes. */
static int ioctl_gid_table(void *user, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *out = find_attr(hdr, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
	uint64_t size = attr_in(find_attr(hdr, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE));
	uint64_t num = 0;

	if (!out || !out->data || !size || attr_in(find_attr(hdr, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS)))
		return EINVAL;
	for (uint32_t port = 1;; port++) {
		int err = 0;
		uint32_t index;

		for (index = 0;; index++) {
			struct ib_uverbs_gid_entry entry = {0};

			err = calls->query_gid(user, port, index, &entry);
			if (err == ENODATA)
				continue;
			if (err)
				break;
			if ((num + 1) * size > out->len)
				return EINVAL;
			memcpy((char *)(uintptr_t)out->data + num++ * size, &entry, MIN(size, sizeof(entry)));
		}
		if (index == 0)
			break; /* no such port */
	}
	out->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return attr_out(find_attr(hdr, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES), &num, sizeof(num));
}

static int ioctl_async_alloc(void *user, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *attr = find_attr(hdr, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
	int fd, err;

	if (!attr)
		return EINVAL;
	err = calls->create_async(user, &fd);
	if (!err)
		attr->data_s64 = fd;
	return err;
}

static const struct {
	uint16_t object, method;
	int (*answer)(void *user, struct ib_uverbs_ioctl_hdr *hdr);
} methods[] = {
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, ioctl_invoke_write},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, ioctl_gid_entry},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, ioctl_gid_table},
    {UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, ioctl_async_alloc},
};

static int ioctl_verbs(void *user, struct ib_uverbs_ioctl_hdr *hdr)
{
	if (hdr->length < sizeof(*hdr) + hdr->num_attrs * sizeof(hdr->attrs[0]))
		return EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (methods[i].object == hdr->object_id && methods[i].method == hdr->method_id)
			return methods[i].answer(user, hdr);
	/* This one method is absent; ENOTTY would tell the library that all are. */
	say(LOG_WHY, "libibverbs sent kernel method %u of object %u on %s, which is not emulated: EPROTONOSUPPORT",
	    hdr->method_id, hdr->object_id, calls->name(user));
	return EPROTONOSUPPORT;
}

static int slot_ioctl(int fd, unsigned long request, ...)
{
	void *user = find_user(fd);
	va_list ap;
	void *arg;
	int err;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!user)
		return next_ioctl(fd, request, arg);
	err = request == RDMA_VERBS_IOCTL && arg ? ioctl_verbs(user, arg) : ENOTTY;
	if (err) {
		errno = err;
		return -1;
	}
	return 0;
}

static int slot_close(int fd)
{
	calls->closing(fd);
	return next_close(fd);
}

/* ---- patching
 * -------------------------------------------------------------------------------------------------------- */

struct patch {
	const char *name;
	void *hook;
	void **next;
	unsigned int patched;
};

struct module {
	uintptr_t inside; /* an address of the module looked for */
	uintptr_t base, text_start, text_end, relro_start, relro_end;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * tables[2];
	size_t entries[2];
};

/* Addresses in the dynamic section are relocated in place on most architectures, and left alone on some. */
static uintptr_t dyn_ptr(const struct module *m, const ElfW(Dyn) * d)
{
	return d->d_un.d_ptr < m->base ? m->base + d->d_un.d_ptr : d->d_un.d_ptr;
}

static void read_dynamic(struct module *m, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB: m->symbols = (const void *)dyn_ptr(m, d); break;
		case DT_STRTAB: m->strings = (const void *)dyn_ptr(m, d); break;
		case DT_JMPREL: m->tables[0] = (const void *)dyn_ptr(m, d); break;
		case DT_PLTRELSZ: m->entries[0] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
		case DT_RELA: m->tables[1] = (const void *)dyn_ptr(m, d); break;
		case DT_RELASZ: m->entries[1] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
		default: break;
		}
	}
}

static int find_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct module *m = arg;
	const ElfW(Dyn) *dynamic = NULL;
	bool found = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && m->inside >= start && m->inside - start < ph->p_memsz) {
			found = true;
			m->text_start = start;
			m->text_end = start + ph->p_memsz;
		} else if (ph->p_type == PT_DYNAMIC) {
			dynamic = (const void *)start;
		} else if (ph->p_type == PT_GNU_RELRO) {
			m->relro_start = start;
			m->relro_end = start + ph->p_memsz;
		}
	}
	if (!found) {
		m->relro_start = m->relro_end = 0;
		return 0;
	}
	m->base = info->dlpi_addr;
	if (dynamic)
		read_dynamic(m, dynamic);
	return 1;
}

/* The slot's page is read-only after relocation where the module was linked so. */
static int store_slot(const struct module *m, void *_Atomic *slot, void *value)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)slot & ~(page - 1);
	bool relro = (uintptr_t)slot >= m->relro_start && (uintptr_t)slot < m->relro_end;

	if (relro && mprotect((void *)start, page, PROT_READ | PROT_WRITE))
		return -1;
	atomic_store(slot, value);
	if (relro)
		mprotect((void *)start, page, PROT_READ);
	return 0;
}

static int patch_slot(const struct module *m, const ElfW(Rela) * rel, struct patch *p)
{
	void *_Atomic *slot = (void *)(m->base + rel->r_offset);
	void *old = atomic_load(slot);

	/*
	 * A lazy slot that was never called points into the module's own stub, which would resolve it and overwrite
	 * our hook. Nobody can have patched it either, so the resolved function is the right next one.
	 */
	if ((uintptr_t)old >= m->text_start && (uintptr_t)old < m->text_end)
		old = dlsym(RTLD_DEFAULT, p->name);
	if (!old || old == p->hook)
		return -1;
	*p->next = old; /* before the hook can be called */
	if (store_slot(m, slot, p->hook))
		return -1;
	p->patched++;
	return 0;
}

static void patch_module(const struct module *m, struct patch *patches, size_t num)
{
	for (size_t t = 0; t < ARRAY_LEN(m->tables); t++) {
		for (size_t i = 0; m->tables[t] && i < m->entries[t]; i++) {
			const ElfW(Rela) *rel = &m->tables[t][i];
			uint64_t type = ELF64_R_TYPE(rel->r_info);

			if (type != R_JUMP_SLOT && type != R_GLOB_DAT)
				continue;
			const char *name = m->strings + m->symbols[ELF64_R_SYM(rel->r_info)].st_name;
			for (size_t p = 0; p < num; p++)
				if (strcmp(name, patches[p].name) == 0)
					patch_slot(m, rel, &patches[p]);
		}
	}
}

int slots_install(const struct slot_calls *answers, char *line, size_t line_size)
{
	struct patch patches[] = {
	    {"write", (void *)(uintptr_t)slot_write, (void **)(void *)&next_write, 0},
	    {"ioctl", (void *)(uintptr_t)slot_ioctl, (void **)(void *)&next_ioctl, 0},
	    {"close", (void *)(uintptr_t)slot_close, (void **)(void *)&next_close, 0},
	};
	struct module m = {.inside = (uintptr_t)verbs_set_ops};

	calls = answers;
	dl_iterate_phdr(find_module, &m);
	if (m.symbols && m.strings)
		patch_module(&m, patches, ARRAY_LEN(patches));
	for (size_t p = 0; p < ARRAY_LEN(patches); p++) {
		if (patches[p].patched)
			continue;
		snprintf(
		    line, line_size,
		    "will not register: cannot take over '%s' of libibverbs (statically linked, or a policy forbids "
		    "it), completion channels would not work",
		    patches[p].name);
		return -1;
	}
	return 0;
}
