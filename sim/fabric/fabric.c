/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabrics: making, opening, closing; their devices and addresses. */
#include "sim/fabric/private.h"
#include "sim/fabric/tree.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TRIES 20 /* makers and removers that may come in between before we give up */

static const char *reason(int rc)
{
	switch (-rc) {
	case ENOSPC: return "no space left on the file system";
	case EPROTO: return "made by another build of simhca; wait for its last process to end, or remove the folder";
	case EPERM: return "the folder is not yours alone";
	case EBUSY: return "it is being removed and the remover does not get on";
	case EOVERFLOW: return "too many devices";
	default: return strerror(-rc);
	}
}

const char *fabric_path(const struct fabric *f)
{
	return f->dir;
}

int fabric_lock_fd(const struct fabric *f)
{
	return f->lock_fd;
}

struct seg_header *fabric_seg(struct fabric *f)
{
	return seg_of(f);
}

void fabric_set_ring_B(struct fabric *f, uint32_t ring_B)
{
	uint32_t size_B = MIN(MAX(ring_B, FAB_RING_MIN_B), FAB_RING_MAX_B);

	f->ring_B = (uint32_t)pow2_up_u64(size_B);
}

/* ---- addresses ---- */

/* Locally administered, the same for every process and every run of a fabric of this name. */
static void make_mac(const char *fabric, const char *device, uint32_t port, uint8_t mac[6])
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (const char *s = fabric; *s; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	h = (h ^ 0xff) * UINT64_C(0x100000001b3);
	for (const char *s = device; *s; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	h = (h ^ port) * UINT64_C(0x100000001b3);
	h ^= h >> 32;
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)(h >> 8 * i);
	mac[0] = (uint8_t)((mac[0] & ~1u) | 2u);
}

static uint64_t mac_to_guid(const uint8_t mac[6], uint32_t port)
{
	uint8_t g[8] = {mac[0], mac[1], mac[2], 0xff, (uint8_t)(0xfe - port), mac[3], mac[4], mac[5]};
	uint64_t guid = 0;

	for (int i = 0; i < 8; i++)
		guid = guid << 8 | g[i];
	return guid;
}

static void put_gid(struct seg_port *p, enum gid_type type, const uint8_t raw[16], const char *ndev)
{
	if (p->num_gids == FAB_GIDS_MAX)
		return;
	struct seg_gid *g = &p->gids[p->num_gids++];
	memcpy(g->raw, raw, 16);
	g->type = type;
	fab_copy_name(g->ndev, sizeof(g->ndev), ndev);
}

/* The interface that has this address, or the loopback one, to which all of 127.0.0.0/8 belongs. */
static void find_ndev(struct in_addr addr, char *ndev, size_t size)
{
	struct ifaddrs *list;

	snprintf(ndev, size, "lo");
	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *i = list; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr == addr.s_addr)
			snprintf(ndev, size, "%s", i->ifa_name);
	freeifaddrs(list);
}

/* RoCE: link-local v1 and v2, then the IPv4 address v1 and v2. */
static void fill_roce_gids(struct seg_port *p, struct in_addr addr)
{
	uint8_t local[16] = {0xfe, 0x80}, v4[16] = {[10] = 0xff, [11] = 0xff};
	char ndev[sizeof(p->gids[0].ndev)];

	find_ndev(addr, ndev, sizeof(ndev));
	local[8] = p->mac[0] ^ 2;
	local[9] = p->mac[1];
	local[10] = p->mac[2];
	local[11] = 0xff;
	local[12] = 0xfe;
	memcpy(local + 13, p->mac + 3, 3);
	memcpy(v4 + 12, &addr, 4);
	put_gid(p, GID_ROCE_V1, local, ndev);
	put_gid(p, GID_ROCE_V2, local, ndev);
	put_gid(p, GID_ROCE_V1, v4, ndev);
	put_gid(p, GID_ROCE_V2, v4, ndev);
}

static void fill_ib_gid(struct seg_port *p, uint64_t port_guid)
{
	uint8_t raw[16] = {0xfe, 0x80};

	for (int i = 0; i < 8; i++)
		raw[8 + i] = (uint8_t)(port_guid >> (56 - 8 * i));
	put_gid(p, GID_IB, raw, "");
}

static int fill_port(const struct fab_device_config *cfg, const char *fabric, uint32_t index, uint32_t port,
		     struct seg_port *p)
{
	int link_layer = cfg->ports[port - 1].link_layer;
	char text[32];
	struct in_addr addr;

	if (link_layer < 0)
		link_layer =
		    cfg->profile.link_layer == LINK_INFINIBAND ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
	p->link_layer = (uint32_t)link_layer;
	p->link_Gbps = cfg->ports[port - 1].link_Gbps;
	p->switch_hops = cfg->ports[port - 1].switch_hops;
	atomic_store_explicit(&p->state, cfg->ports[port - 1].down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
			      memory_order_relaxed);
	make_mac(fabric, cfg->name, port, p->mac);
	if (link_layer == IBV_LINK_LAYER_INFINIBAND) {
		p->lid = index * FAB_PORTS_MAX + port;
		fill_ib_gid(p, mac_to_guid(p->mac, port));
		return 0;
	}
	snprintf(text, sizeof(text), "127.47.%u.%u", index + 1, port);
	const char *address = cfg->ports[port - 1].address;
	if (inet_pton(AF_INET, *address ? address : text, &addr) != 1)
		return -EINVAL;
	fill_roce_gids(p, addr);
	return 0;
}

/* ---- devices ---- */

int fabric_find_device(struct fabric *f, const char *name)
{
	struct seg_header *h = seg_of(f);

	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++)
		/* acquire: pairs with the release in add_device */
		if (atomic_load_explicit(&h->devices[i].used, memory_order_acquire) &&
		    !strncmp(h->devices[i].name, name, FAB_NAME_MAX))
			return (int)i;
	return -1;
}

/* Calls for each port of each device; the first for which fn is true. 0 or -ENOENT. */
static int find_port(struct fabric *f, bool (*fn)(const struct seg_port *, const void *), const void *what,
		     uint32_t *device, uint32_t *port)
{
	struct seg_header *h = seg_of(f);

	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++) {
		struct seg_device *d = &h->devices[i];
		if (!atomic_load_explicit(&d->used, memory_order_acquire))
			continue;
		for (uint32_t p = 0; p < MIN(d->num_ports, FAB_PORTS_MAX); p++) {
			if (!fn(&d->ports[p], what))
				continue;
			*device = i;
			*port = p + 1;
			return 0;
		}
	}
	return -ENOENT;
}

static bool has_gid(const struct seg_port *p, const void *gid)
{
	for (uint32_t i = 0; i < MIN(p->num_gids, FAB_GIDS_MAX); i++)
		if (p->gids[i].type != GID_NONE && !memcmp(p->gids[i].raw, gid, 16))
			return true;
	return false;
}

int fabric_find_gid(struct fabric *f, const uint8_t gid[16], uint32_t *device, uint32_t *port)
{
	return find_port(f, has_gid, gid, device, port);
}

static bool has_lid(const struct seg_port *p, const void *lid)
{
	return p->lid && p->lid == *(const uint32_t *)lid;
}

int fabric_find_lid(struct fabric *f, uint32_t lid, uint32_t *device, uint32_t *port)
{
	return find_port(f, has_lid, &lid, device, port);
}

/* The text of a profile in memory; the caller frees it. */
static int profile_text(const struct profile *p, char **text, size_t *len)
{
	struct stat st;
	int fd = memfd_create("profile", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	int rc = profile_dump(p, fd);
	if (!rc && fstat(fd, &st))
		rc = -errno;
	*text = rc ? NULL : malloc((size_t)st.st_size + 1);
	if (!rc && !*text)
		rc = -ENOMEM;
	if (!rc) {
		*len = (size_t)st.st_size;
		if (pread(fd, *text, *len, 0) != (ssize_t)*len)
			rc = -EIO;
		if (rc)
			free(*text);
	}
	close(fd);
	return rc;
}

/* Is the file's content exactly this? */
static bool same_content(int dir_fd, const char *name, const char *text, size_t len)
{
	char buf[4096];
	size_t at = 0;
	ssize_t n = 0;
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return false;
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		if ((size_t)n > len - at || memcmp(buf, text + at, (size_t)n))
			break;
		at += (size_t)n;
	}
	close(fd);
	return n == 0 && at == len;
}

/* A device of that name is there: is it the same? */
static int compare_device(const struct fab_device_config *cfg, const struct seg_device *d, int dir_fd, char *err,
			  size_t err_size)
{
	char file[FAB_NAME_MAX + 16], *text;
	size_t len;
	int rc = profile_text(&cfg->profile, &text, &len);

	if (rc)
		return fab_fail(rc, err, err_size, "device %s: %s", cfg->name, reason(rc));
	snprintf(file, sizeof(file), "profiles/%s.ini", cfg->name);
	bool same = !strncmp(d->profile, cfg->profile.name, FAB_NAME_MAX) && same_content(dir_fd, file, text, len);
	free(text);
	if (!same)
		return fab_fail(-EEXIST, err, err_size, "device %s exists with another profile (%.*s, not %s)",
				cfg->name, FAB_NAME_MAX, d->profile, cfg->profile.name);
	if (cfg->num_ports > d->num_ports)
		return fab_fail(-EEXIST, err, err_size, "device %s exists with %u port", cfg->name, d->num_ports);
	return 0;
}

/* Two ports of the same address would be one host to whoever looks for it. */
static int check_addresses(struct fabric *f, const struct seg_device *d, char *err, size_t err_size)
{
	uint32_t device, port;

	for (uint32_t p = 0; p < d->num_ports; p++) {
		const struct seg_port *sp = &d->ports[p];
		const uint8_t *gid = sp->gids[sp->num_gids - 1].raw;
		bool twice = p && has_gid(&d->ports[0], gid);
		if (!twice && fabric_find_gid(f, gid, &device, &port))
			continue;
		return fab_fail(-EADDRINUSE, err, err_size,
				"device %s port %u: another port of the fabric has its address", d->name, p + 1);
	}
	return 0;
}

static int add_device(struct fabric *f, int dir_fd, const char *dir, const struct fab_device_config *cfg,
		      uint32_t index, char *err, size_t err_size)
{
	struct seg_header *h = seg_of(f);
	struct seg_device *d = &h->devices[index];
	char file[FAB_NAME_MAX + 16], *text;
	size_t len;
	int rc = 0;

	memset(d, 0, sizeof(*d));
	fab_copy_name(d->name, sizeof(d->name), cfg->name);
	fab_copy_name(d->profile, sizeof(d->profile), cfg->profile.name);
	d->num_ports = cfg->num_ports;
	for (uint32_t p = 1; p <= d->num_ports && !rc; p++)
		rc = fill_port(cfg, h->name, index, p, &d->ports[p - 1]);
	if (rc)
		return fab_fail(rc, err, err_size, "device %s: a port's address is not an IPv4 address", cfg->name);
	d->node_guid = mac_to_guid(d->ports[0].mac, 0);
	rc = check_addresses(f, d, err, err_size);
	if (rc)
		return rc;
	rc = profile_text(&cfg->profile, &text, &len);
	if (!rc) {
		snprintf(file, sizeof(file), "profiles/%s.ini", cfg->name);
		rc = folder_write(dir_fd, file, text, len);
		free(text);
	}
	if (!rc)
		rc = tree_add_device(dir_fd, dir, d, index, &cfg->profile);
	if (rc)
		return fab_fail(rc, err, err_size, "device %s: %s", cfg->name, reason(rc));
	/* release: the rest is written; pairs with the acquire in readers */
	atomic_store_explicit(&d->used, 1, memory_order_release);
	return 0;
}

static bool all_listed(const struct seg_header *h, int dir_fd)
{
	char path[64];

	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++) {
		snprintf(path, sizeof(path), "sys/class/infiniband_verbs/uverbs%u", i);
		if (atomic_load_explicit(&h->devices[i].used, memory_order_acquire) &&
		    faccessat(dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW))
			return false;
	}
	return true;
}

/* Adds what is missing, compares what is there. Under lock. */
static int add_devices(struct fabric *f, int dir_fd, const char *dir, const struct fab_config *cfg, char *err,
		       size_t err_size)
{
	struct seg_header *h = seg_of(f);
	bool added = false;
	int rc = 0;

	for (uint32_t i = 0; i < cfg->num_devices && !rc; i++) {
		const struct fab_device_config *c = &cfg->devices[i];
		uint32_t slot = 0;
		if (!fab_name_ok(c->name) || !c->num_ports || c->num_ports > FAB_PORTS_MAX)
			return fab_fail(-EINVAL, err, err_size, "device '%s': bad name or number of ports", c->name);
		int at = fabric_find_device(f, c->name);
		if (at >= 0) {
			rc = compare_device(c, &h->devices[at], dir_fd, err, err_size);
			continue;
		}
		while (slot < FAB_DEVICES_MAX && atomic_load_explicit(&h->devices[slot].used, memory_order_relaxed))
			slot++;
		if (slot == FAB_DEVICES_MAX)
			return fab_fail(-EOVERFLOW, err, err_size, "a fabric has at most %u devices", FAB_DEVICES_MAX);
		rc = add_device(f, dir_fd, dir, c, slot, err, err_size);
		added |= !rc;
	}
	/* Also after an error: those before it are there. And once more when a maker died in between. */
	if (added || !all_listed(h, dir_fd)) {
		int listed = tree_list_devices(dir_fd, h);
		if (!rc && listed)
			rc = fab_fail(listed, err, err_size, "fabric %s: %s", h->name, reason(listed));
	}
	return rc;
}

/* ---- opening ---- */

static struct fabric *new_fabric(const char *dir)
{
	struct fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	snprintf(f->dir, sizeof(f->dir), "%s", dir);
	f->lock_fd = f->seg_fd = -1;
	f->ring_B = FAB_RING_DEFAULT_B;
	return f;
}

static void free_fabric(struct fabric *f)
{
	seg_unmap(f);
	if (f->lock_fd >= 0)
		close(f->lock_fd);
	free(f);
}

/* Locks and maps a folder that may be there. */
static int open_folder(const char *dir, bool read_only, bool inherit, struct fabric **out)
{
	struct fabric *f = new_fabric(dir);
	int rc = 0;

	if (!f)
		return -ENOMEM;
	f->read_only = read_only;
	if (!read_only) {
		rc = f->lock_fd = folder_lock_shared(dir, inherit);
		rc = MIN(rc, 0);
	}
	int dir_fd = rc ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!rc)
		rc = dir_fd < 0 ? -errno : seg_map(f, dir_fd);
	if (dir_fd >= 0)
		close(dir_fd);
	if (rc)
		free_fabric(f);
	else
		*out = f;
	return rc;
}

int fabric_open(const char *dir, bool read_only, struct fabric **out, char *err, size_t err_size)
{
	int rc = open_folder(dir, read_only, false, out);

	return rc ? fab_fail(rc, err, err_size, "fabric %s: %s", dir, reason(rc)) : 0;
}

void fabric_close(struct fabric *f)
{
	if (!f)
		return;
	char dir[PATH_MAX];
	bool was_user = !f->read_only;
	memcpy(dir, f->dir, sizeof(dir));
	free_fabric(f);
	if (was_user)
		folder_remove_if_unused(dir);
}

void fabric_close_at_exit(struct fabric *f)
{
	if (f->lock_fd < 0)
		return;
	close(f->lock_fd);
	f->lock_fd = -1;
	folder_remove_if_unused(f->dir);
}

/* ---- making ---- */

static int fill_folder(struct fabric *f, int dir_fd, const struct fab_config *cfg, char *err, size_t err_size)
{
	if (mkdirat(dir_fd, "profiles", 0700))
		return fab_fail(-errno, err, err_size, "fabric %s: %s", cfg->name, strerror(errno));
	int rc = seg_create(f, dir_fd, cfg->name);
	if (!rc)
		rc = tree_make(dir_fd);
	if (rc)
		return fab_fail(rc, err, err_size, "fabric %s in %s: %s", cfg->name, cfg->base, reason(rc));
	return add_devices(f, dir_fd, f->dir, cfg, err, err_size);
}

/* A fresh folder with a lock file that we hold. Its descriptor, or negative errno. */
static int make_folder(struct fabric *f, const char *tmp, bool inherit)
{
	if (mkdir(tmp, 0700))
		return -errno;
	int dir_fd = open(tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	int rc = folder_write(dir_fd, FAB_LOCK_FILE, "", 0);
	if (!rc)
		rc = f->lock_fd = folder_lock_shared(tmp, inherit);
	if (rc >= 0)
		return dir_fd;
	close(dir_fd);
	return rc;
}

/*
 * Makes the fabric under a temporary name and renames it. *again: somebody else was faster, or a sweep took the
 * folder for an unfinished one in the moment before it was locked.
 */
static int make(const struct fab_config *cfg, const char *base, const char *dir, bool inherit, struct fabric **out,
		bool *again, char *err, size_t err_size)
{
	char tmp[PATH_MAX];
	struct fabric *f = new_fabric(dir);

	*again = false;
	if (!f)
		return fab_fail(-ENOMEM, err, err_size, "fabric %s: out of memory", cfg->name);
	folder_tmp_path(base, tmp, sizeof(tmp));
	int dir_fd = make_folder(f, tmp, inherit), rc;
	if (dir_fd < 0) {
		rc = dir_fd;
		*again = rc == -ENOENT && !access(base, F_OK);
		fab_fail(rc, err, err_size, "fabric %s: cannot make a folder in %s: %s", cfg->name, base, reason(rc));
	} else {
		rc = fill_folder(f, dir_fd, cfg, err, err_size);
		close(dir_fd);
	}
	if (!rc && rename(tmp, dir)) {
		rc = -errno;
		*again = rc == -EEXIST || rc == -ENOTEMPTY;
		fab_fail(rc, err, err_size, "fabric %s: %s: %s", cfg->name, dir, reason(rc));
	}
	if (!rc) {
		*out = f;
		return 0;
	}
	free_fabric(f);
	folder_remove_if_unused(tmp);
	return rc;
}

/* A fabric that exists: the devices it lacks are added. */
static int extend(struct fabric *f, const struct fab_config *cfg, char *err, size_t err_size)
{
	int dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc = dir_fd < 0 ? -errno : seg_lock(f);

	if (rc) {
		fab_fail(rc, err, err_size, "fabric %s: %s", cfg->name, reason(rc));
	} else {
		rc = add_devices(f, dir_fd, f->dir, cfg, err, err_size);
		seg_unlock(f);
	}
	if (dir_fd >= 0)
		close(dir_fd);
	return rc;
}

int fabric_ensure(const struct fab_config *cfg, bool inherit, struct fabric **out, char *err, size_t err_size)
{
	char base[PATH_MAX], dir[PATH_MAX];
	struct fabric *f = NULL;
	bool again = false;
	int rc = 0;

	if (!fab_name_ok(cfg->name))
		return fab_fail(-EINVAL, err, err_size,
				"fabric '%s': a name has letters, digits, '.', '_' and '-' only", cfg->name);
	/* Absolute: other processes find the fabric by the path in the devices' markers. */
	if (!realpath(cfg->base, base))
		return fab_fail(-errno, err, err_size, "fabric %s: folder %s: %s", cfg->name, cfg->base,
				strerror(errno));
	fabric_sweep(base);
	fabric_dir(base, cfg->name, dir, sizeof(dir));
	for (int i = 0; i < TRIES; i++) {
		rc = open_folder(dir, false, inherit, &f);
		if (!rc) {
			rc = extend(f, cfg, err, err_size);
			if (rc)
				fabric_close(f);
			else
				*out = f;
			return rc;
		}
		if (rc != -ENOENT)
			return fab_fail(rc, err, err_size, "fabric %s: %s", cfg->name, reason(rc));
		rc = make(cfg, base, dir, inherit, out, &again, err, err_size);
		if (!again)
			return rc;
	}
	return rc;
}
