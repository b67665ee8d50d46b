/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated sysfs tree. */
#include "sim/fabric/tree.h"
#include "sim/fabric/private.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PCI_BUS	 "pci4700:00"
#define PCI_FUNC "4700:00:%02x.0"

/* Entries of a table shown at most; an adapter's own table may be longer. */
#define TABLE_MAX 1024u

/* Harmless character devices that anybody may open for reading and writing, each with a number of its own. */
static const char *const char_devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};

/* Where we are while a tree is written; the first error sticks. */
struct writer {
	int root; /* folder the paths are relative to */
	int rc;
	char path[PATH_MAX]; /* prefix of every name */
};

static int join_path(struct writer *w, char *path, size_t size, const char *name)
{
	if (snprintf(path, size, "%s%s", w->path, name) >= (int)size)
		w->rc = -ENAMETOOLONG;
	return w->rc;
}

static void put_dir(struct writer *w, const char *name)
{
	char path[PATH_MAX];

	if (w->rc || join_path(w, path, sizeof(path), name))
		return;
	if (mkdirat(w->root, path, 0755) && errno != EEXIST)
		w->rc = -errno;
}

static void put(struct writer *w, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void put(struct writer *w, const char *name, const char *fmt, ...)
{
	char path[PATH_MAX], text[PATH_MAX + FAB_NAME_MAX];
	va_list ap;

	if (w->rc || join_path(w, path, sizeof(path), name))
		return;
	va_start(ap, fmt);
	int len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (len < 0 || len >= (int)sizeof(text))
		w->rc = -ENAMETOOLONG;
	else
		w->rc = folder_write(w->root, path, text, (size_t)len);
}

static void put_link(struct writer *w, const char *name, const char *target)
{
	char path[PATH_MAX];

	if (w->rc || join_path(w, path, sizeof(path), name))
		return;
	if (symlinkat(target, w->root, path))
		w->rc = -errno;
}

/* Another name for a file that is there: hundreds of empty table entries take one page together. */
static void put_same(struct writer *w, const char *name, const char *as, const char *text)
{
	char from[PATH_MAX], to[PATH_MAX];

	if (w->rc || join_path(w, from, sizeof(from), as) || join_path(w, to, sizeof(to), name))
		return;
	if (linkat(w->root, from, w->root, to, 0))
		put(w, name, "%s", text); /* a file system without links, or too many */
}

/* ---- values ---- */

static const char *node_type_text(enum prof_node_type t)
{
	switch (t) {
	case NODE_RNIC: return "4: RNIC\n";
	case NODE_UNSPECIFIED: return "7: unspecified\n";
	case NODE_CA:
	default: return "1: CA\n";
	}
}

static const char *state_text(uint32_t state)
{
	return state == IBV_PORT_ACTIVE ? "4: ACTIVE\n" : state == IBV_PORT_INIT ? "2: INIT\n" : "1: DOWN\n";
}

static const char *phys_state_text(uint32_t state)
{
	return state == IBV_PORT_DOWN ? "3: Disabled\n" : "5: LinkUp\n";
}

/* Lanes and speed in the words of the kernel, by rate. */
static const char *rate_words(uint32_t Gbps)
{
	static const struct {
		uint32_t Gbps;
		const char *words;
	} rates[] = {{10, "4X SDR"}, {20, "4X DDR"},  {25, "1X EDR"},  {40, "4X QDR"},	{50, "1X HDR"},
		     {56, "4X FDR"}, {100, "4X EDR"}, {200, "4X HDR"}, {400, "4X NDR"}, {800, "4X XDR"}};

	for (size_t i = 0; i < ARRAY_LEN(rates); i++)
		if (rates[i].Gbps == Gbps)
			return rates[i].words;
	return "4X";
}

static void format_guid(char text[20], uint64_t guid)
{
	snprintf(text, 20, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48), (unsigned)(guid >> 32 & 0xffff),
		 (unsigned)(guid >> 16 & 0xffff), (unsigned)(guid & 0xffff));
}

static void format_gid(char text[41], const uint8_t raw[16])
{
	for (int i = 0; i < 8; i++)
		snprintf(text + 5 * i, 6, "%02x%02x%s", raw[2 * i], raw[2 * i + 1], i < 7 ? ":" : "\n");
}

/* All processors, as groups of 32 bits, highest first. */
static void format_cpus(char *text, size_t size)
{
	long cpus = MIN(MAX(sysconf(_SC_NPROCESSORS_CONF), 1), 1024);
	size_t at = 0;

	for (long group = (cpus - 1) / 32; group >= 0 && at < size; group--) {
		long bits = MIN(cpus - 32 * group, 32);
		unsigned mask = (unsigned)((UINT64_C(1) << bits) - 1);
		at += (size_t)snprintf(text + at, size - at, at ? ",%08x" : "%x", mask);
	}
}

/* ---- a port ---- */

static void put_gid_table(struct writer *w, const struct seg_port *p, uint32_t entries)
{
	static const char zero[] = "0000:0000:0000:0000:0000:0000:0000:0000\n";
	char name[64], first_gid[64] = "", first_type[64] = "", text[41];

	put_dir(w, "gids");
	put_dir(w, "gid_attrs");
	put_dir(w, "gid_attrs/types");
	put_dir(w, "gid_attrs/ndevs");
	for (uint32_t i = 0; i < entries && !w->rc; i++) {
		const struct seg_gid *g = i < p->num_gids ? &p->gids[i] : NULL;
		snprintf(name, sizeof(name), "gids/%u", i);
		if (g)
			format_gid(text, g->raw);
		if (g || !*first_gid)
			put(w, name, "%s", g ? text : zero);
		else
			put_same(w, name, first_gid, zero);
		if (!g && !*first_gid)
			snprintf(first_gid, sizeof(first_gid), "%s", name);
		snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
		if (g && g->type == GID_ROCE_V2)
			put(w, name, "RoCE v2\n");
		else if (*first_type)
			put_same(w, name, first_type, "IB/RoCE v1\n");
		else
			put(w, name, "IB/RoCE v1\n");
		if (!*first_type && !(g && g->type == GID_ROCE_V2))
			snprintf(first_type, sizeof(first_type), "%s", name);
		snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", i);
		if (g && *g->ndev)
			put(w, name, "%s\n", g->ndev);
	}
}

static void put_pkey_table(struct writer *w, uint32_t entries)
{
	char name[32];

	put_dir(w, "pkeys");
	put(w, "pkeys/0", "0xffff\n");
	for (uint32_t i = 1; i < entries && !w->rc; i++) {
		snprintf(name, sizeof(name), "pkeys/%u", i);
		if (i == 1)
			put(w, name, "0x0000\n");
		else
			put_same(w, name, "pkeys/1", "0x0000\n");
	}
}

static void put_counters(struct writer *w)
{
	char name[FAB_NAME_MAX + 32];

	put_dir(w, "counters");
	put_dir(w, "hw_counters");
	for (uint32_t c = 0; c < CTR_COUNT; c++) {
		snprintf(name, sizeof(name), "%s/%s",
			 sim_counters[c].where == COUNTER_PORT ? "counters" : "hw_counters", sim_counters[c].name);
		put(w, name, "0\n");
	}
}

static void put_port(struct writer *w, const struct seg_device *d, uint32_t port, const struct profile *prof)
{
	const struct seg_port *p = &d->ports[port - 1];
	size_t len = strlen(w->path);
	bool ib = p->link_layer == IBV_LINK_LAYER_INFINIBAND;
	uint32_t Gbps = p->link_Gbps ? p->link_Gbps : (uint32_t)((prof->link_Gbps * 8 + 500) / 1000);
	uint32_t state = atomic_load_explicit(&d->ports[port - 1].state, memory_order_relaxed);

	snprintf(w->path + len, sizeof(w->path) - len, "ports/%u", port);
	put_dir(w, "");
	snprintf(w->path + len, sizeof(w->path) - len, "ports/%u/", port);
	put(w, "state", "%s", state_text(state));
	put(w, "phys_state", "%s", phys_state_text(state));
	put(w, "rate", "%u Gb/sec (%s)\n", Gbps, rate_words(Gbps));
	put(w, "lid", "0x%x\n", p->lid);
	put(w, "lid_mask_count", "0\n");
	put(w, "sm_lid", "0x%x\n", ib ? 1u : 0u);
	put(w, "sm_sl", "0\n");
	put(w, "cap_mask", "0x%08x\n", ib ? 0x2651e848u : 0x04010000u);
	put(w, "link_layer", "%s\n", ib ? "InfiniBand" : "Ethernet");
	put_gid_table(w, p, MIN(MAX(prof->gid_tbl_len, p->num_gids), TABLE_MAX));
	put_pkey_table(w, MIN(prof->pkey_tbl_len, TABLE_MAX));
	put_counters(w);
	w->path[len] = 0;
}

/* ---- a device ---- */

/* The PCI function with what UCX and the rdma-core tests look for. No modalias: other providers would match on it. */
static void put_function(struct writer *w, const struct seg_device *d, const struct profile *prof)
{
	char cpus[512], name[96];

	format_cpus(cpus, sizeof(cpus));
	put(w, "numa_node", "0\n");
	put(w, "local_cpus", "%s\n", cpus);
	put(w, "vendor", "0x%04x\n", prof->vendor_id);
	put(w, "device", "0x%04x\n", prof->vendor_part_id);
	put_dir(w, "net");
	put_dir(w, "infiniband");
	for (uint32_t p = 0; p < d->num_ports; p++) {
		const char *ndev = d->ports[p].gids[0].ndev;
		if (!*ndev)
			continue;
		snprintf(name, sizeof(name), "net/%s", ndev);
		put_dir(w, name);
		snprintf(name, sizeof(name), "net/%s/dev_port", ndev);
		put(w, name, "%u\n", p);
	}
}

static void put_ib_device(struct writer *w, const struct seg_device *d, const char *dir, const struct profile *prof)
{
	char guid[20];

	format_guid(guid, d->node_guid);
	put(w, "node_type", "%s", node_type_text(prof->node_type));
	put(w, "node_guid", "%s\n", guid);
	put(w, "sys_image_guid", "%s\n", guid);
	put(w, "fw_ver", "%s\n", prof->fw_ver);
	put(w, "hca_type", "%s\n", d->profile);
	put(w, "hw_rev", "%x\n", prof->hw_ver);
	put(w, "board_id", "%s\n", prof->board_id);
	put(w, "node_desc", "simhca %s\n", d->name);
	put(w, TREE_MARKER, "%s\n%s\n", dir, d->name);
	put_link(w, "device", "../..");
	put_dir(w, "ports");
	for (uint32_t p = 1; p <= d->num_ports; p++)
		put_port(w, d, p, prof);
}

/* The character device of the device with this index, and its number. */
static int pick_char_device(uint32_t index, const char **path, struct stat *st)
{
	const char *usable[ARRAY_LEN(char_devices)];
	uint32_t num = 0;

	for (size_t i = 0; i < ARRAY_LEN(char_devices); i++)
		if (!stat(char_devices[i], st) && S_ISCHR(st->st_mode) && !access(char_devices[i], R_OK | W_OK))
			usable[num++] = char_devices[i];
	if (!num)
		return -ENODEV;
	*path = usable[index % num];
	return stat(*path, st) ? -errno : 0;
}

static void put_uverbs(struct writer *w, const struct seg_device *d, uint32_t index)
{
	const char *target = NULL;
	struct stat st;
	char name[64];

	if (w->rc)
		return;
	w->rc = pick_char_device(index, &target, &st);
	if (w->rc)
		return;
	snprintf(w->path, sizeof(w->path), "sys/devices/" PCI_BUS "/" PCI_FUNC "/infiniband_verbs", index);
	put_dir(w, "");
	snprintf(name, sizeof(name), "/uverbs%u", index);
	put_dir(w, name);
	strncat(w->path, name, sizeof(w->path) - strlen(w->path) - 1);
	put(w, "/ibdev", "%s\n", d->name);
	put(w, "/dev", "%u:%u\n", major(st.st_rdev), minor(st.st_rdev));
	put(w, "/abi_version", "%u\n", TREE_PROVIDER_ABI);
	w->path[0] = 0;
	snprintf(name, sizeof(name), "dev/uverbs%u", index);
	put_link(w, name, target);
}

/* What an attempt left that was cut short. */
static void remove_device(int fabric_fd, const char *name, uint32_t index)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "sys/class/infiniband_verbs/uverbs%u", index);
	unlinkat(fabric_fd, path, 0);
	snprintf(path, sizeof(path), "sys/class/infiniband/%s", name);
	unlinkat(fabric_fd, path, 0);
	snprintf(path, sizeof(path), "sys/devices/" PCI_BUS "/" PCI_FUNC, index);
	folder_remove_tree(fabric_fd, path);
	snprintf(path, sizeof(path), "dev/uverbs%u", index);
	unlinkat(fabric_fd, path, 0);
}

/* A class link, new or in the place of the old one. */
static void put_class_link(struct writer *w, const char *class, uint32_t index, const char *name)
{
	char from[PATH_MAX], to[PATH_MAX], target[PATH_MAX];

	snprintf(from, sizeof(from), "sys/class/%s/.new", class);
	snprintf(to, sizeof(to), "sys/class/%s/%s", class, name);
	snprintf(target, sizeof(target), "../../devices/" PCI_BUS "/" PCI_FUNC "/%s/%s", index, class, name);
	unlinkat(w->root, from, 0);
	put_link(w, from, target);
	if (!w->rc && renameat(w->root, from, w->root, to))
		w->rc = -errno;
}

int tree_list_devices(int fabric_fd, const struct seg_header *h)
{
	struct writer w = {.root = fabric_fd};
	char name[32];

	for (uint32_t i = FAB_DEVICES_MAX; i-- > 0;) {
		if (!atomic_load_explicit(&h->devices[i].used, memory_order_acquire))
			continue;
		snprintf(name, sizeof(name), "uverbs%u", i);
		put_class_link(&w, "infiniband", i, h->devices[i].name);
		put_class_link(&w, "infiniband_verbs", i, name);
	}
	return w.rc;
}

int tree_make(int fabric_fd)
{
	static const char *const dirs[] = {"sys",
					   "sys/class",
					   "sys/class/infiniband",
					   "sys/class/infiniband_verbs",
					   "sys/devices",
					   ("sys/devices/" PCI_BUS),
					   "dev"};
	struct writer w = {.root = fabric_fd};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		put_dir(&w, dirs[i]);
	put(&w, "sys/class/infiniband_verbs/abi_version", "6\n");
	put_link(&w, "dev/infiniband", ".");
	return w.rc;
}

int tree_add_device(int fabric_fd, const char *dir, const struct seg_device *d, uint32_t index, const struct profile *p)
{
	struct writer w = {.root = fabric_fd};

	remove_device(fabric_fd, d->name, index);
	snprintf(w.path, sizeof(w.path), "sys/devices/" PCI_BUS "/" PCI_FUNC, index);
	put_dir(&w, "");
	strncat(w.path, "/", sizeof(w.path) - strlen(w.path) - 1);
	put_function(&w, d, p);
	size_t len = strlen(w.path);
	snprintf(w.path + len, sizeof(w.path) - len, "infiniband/%s", d->name);
	put_dir(&w, "");
	strncat(w.path, "/", sizeof(w.path) - strlen(w.path) - 1);
	put_ib_device(&w, d, dir, p);
	w.path[0] = 0;
	put_uverbs(&w, d, index);
	return w.rc;
}

/* ---- live values ---- */

/* One live file of a port: "state", "phys_state", "counters/x" or "hw_counters/x". Length or -ENOENT. */
static int render(struct fabric *f, uint32_t device, uint32_t port, const char *file, char *buf, size_t size)
{
	const char *name = strchr(file, '/');

	if (!name) {
		uint32_t state =
		    atomic_load_explicit(&seg_of(f)->devices[device].ports[port - 1].state, memory_order_relaxed);
		if (!strcmp(file, "state"))
			return snprintf(buf, size, "%s", state_text(state));
		if (!strcmp(file, "phys_state"))
			return snprintf(buf, size, "%s", phys_state_text(state));
		return -ENOENT;
	}
	for (uint32_t c = 0; c < CTR_COUNT; c++) {
		const char *where = sim_counters[c].where == COUNTER_PORT ? "counters" : "hw_counters";
		if (strcmp(name + 1, sim_counters[c].name) || strncmp(file, where, (size_t)(name - file)) ||
		    where[name - file])
			continue;
		return snprintf(buf, size, "%llu\n", (unsigned long long)fabric_port_counter(f, device, port, c));
	}
	return -ENOENT;
}

int tree_render_counter(struct fabric *f, const char *path, char *buf, size_t size)
{
	static const char above[] = "infiniband/";
	const char *at = NULL, *p = path;
	char name[FAB_NAME_MAX];
	uint32_t port;
	int used = 0;

	while ((p = strstr(p, above)))
		at = p += sizeof(above) - 1;
	if (!at || sscanf(at, "%63[^/]/ports/%u/%n", name, &port, &used) != 2 || !used)
		return -ENOENT;
	int device = fabric_find_device(f, name);
	if (device < 0 || !port || port > MIN(seg_of(f)->devices[device].num_ports, FAB_PORTS_MAX))
		return -ENOENT;
	return render(f, (uint32_t)device, port, at + used, buf, size);
}

/* Rewrites a file whose content differs; readers never find it empty. */
static int refresh_file(int root, const char *path, const char *text, size_t len)
{
	char old[64];
	int fd = openat(root, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW), rc = 0;

	if (fd < 0)
		return -errno;
	ssize_t n = pread(fd, old, sizeof(old), 0);
	if (n != (ssize_t)len || memcmp(old, text, len)) {
		if (pwrite(fd, text, len, 0) != (ssize_t)len || (n > (ssize_t)len && ftruncate(fd, (off_t)len)))
			rc = -errno;
	}
	close(fd);
	return rc;
}

static int refresh_port(struct fabric *f, int root, uint32_t device, uint32_t port)
{
	static const char *const states[] = {"state", "phys_state"};
	char file[FAB_NAME_MAX + 32], path[PATH_MAX], text[64];
	int rc = 0;

	for (uint32_t i = 0; i < CTR_COUNT + ARRAY_LEN(states); i++) {
		if (i < CTR_COUNT)
			snprintf(file, sizeof(file), "%s/%s",
				 sim_counters[i].where == COUNTER_PORT ? "counters" : "hw_counters",
				 sim_counters[i].name);
		else
			snprintf(file, sizeof(file), "%s", states[i - CTR_COUNT]);
		int len = render(f, device, port, file, text, sizeof(text));
		snprintf(path, sizeof(path), "sys/class/infiniband/%.*s/ports/%u/%s", FAB_NAME_MAX - 1,
			 seg_of(f)->devices[device].name, port, file);
		int one = len < 0 ? len : refresh_file(root, path, text, (size_t)len);
		rc = rc ? rc : one;
	}
	return rc;
}

int tree_refresh_counters(struct fabric *f)
{
	struct seg_header *h = seg_of(f);
	int root = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (root < 0)
		return -errno;
	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++) {
		if (!atomic_load_explicit(&h->devices[i].used, memory_order_acquire))
			continue;
		for (uint32_t p = 1; p <= MIN(h->devices[i].num_ports, FAB_PORTS_MAX); p++) {
			int one = refresh_port(f, root, i, p);
			rc = rc ? rc : one;
		}
	}
	close(root);
	return rc;
}
