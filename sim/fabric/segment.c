/* SPDX-License-Identifier: BSD-2-Clause */
/* The segment's file: making, mapping, its robust lock, its extents. */
#include "sim/fabric/private.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* An extent on the free list. The list is ordered by offset, neighbours are merged. */
struct free_extent {
	seg_off next;
	uint64_t size_B;
};

#define HEADER_B round_up_u64(sizeof(struct seg_header), SEG_PAGE_B)

/* More extents than a segment can have: bounds every walk over the free list. */
#define EXTENTS_MAX (FAB_FAR_B / SEG_PAGE_B)

static int fallocate_all(int fd, uint64_t from, uint64_t len_B)
{
	struct rlimit limit;
	int rc;

	/* Past this limit the system would send SIGXFSZ, which ends a program that does not expect it. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && from + len_B > limit.rlim_cur)
		return -ENOSPC;
	do
		rc = posix_fallocate(fd, (off_t)from, (off_t)len_B);
	while (rc == EINTR);
	/* Past RLIMIT_FSIZE or a quota: for the caller it is all the same a file system that has no room. */
	if (rc == EFBIG || rc == EDQUOT)
		rc = ENOSPC;
	return -rc;
}

/* ---- mapping ---- */

/*
 * The file is mapped for as long as it may ever get, in two windows: an offset becomes a pointer by one addition, and
 * what the file grows by is there at once. Beyond its end nothing may be touched, so its size is asked for before a new
 * offset is believed.
 */
static void *map_window(struct fabric *f, uint64_t size_B)
{
	int prot = f->read_only ? PROT_READ : PROT_READ | PROT_WRITE;
	void *p = mmap(NULL, size_B, prot, MAP_SHARED | MAP_NORESERVE, f->seg_fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int map_file(struct fabric *f)
{
	atomic_init(&f->known_B, 0);
	f->near = map_window(f, FAB_NEAR_B);
	return f->near ? seg_learn_size(f, HEADER_B) : -ENOMEM;
}

/* Smaller and smaller while a limit on the address space refuses. */
static char *map_far(struct fabric *f)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&one_at_a_time);
	char *far = atomic_load_explicit(&f->far, memory_order_acquire);
	for (uint64_t size_B = FAB_FAR_B; !far && size_B >= FAB_FAR_MIN_B; size_B /= 2) {
		far = map_window(f, size_B);
		if (far)
			f->far_B = size_B;
	}
	atomic_store_explicit(&f->far, far, memory_order_release); /* far_B is written; pairs with seg_far */
	pthread_mutex_unlock(&one_at_a_time);
	return far;
}

void *seg_far(struct fabric *f, seg_off off, uint64_t end)
{
	char *far = atomic_load_explicit(&f->far, memory_order_acquire);

	if (!far)
		far = map_far(f);
	return far && end <= f->far_B ? far + off : NULL;
}

int seg_learn_size(struct fabric *f, uint64_t end)
{
	struct stat st;

	/* The file's own size, not what the header says. */
	if (fstat(f->seg_fd, &st))
		return -errno;
	uint64_t size_B = (uint64_t)st.st_size / SEG_PAGE_B * SEG_PAGE_B;
	if (end > size_B)
		return -EPROTO;
	/* A file never shrinks, so it does not matter whose answer stays. */
	atomic_store_explicit(&f->known_B, MIN(size_B, FAB_FAR_B), memory_order_relaxed);
	return 0;
}

void seg_unmap(struct fabric *f)
{
	char *far = atomic_load_explicit(&f->far, memory_order_acquire);

	if (f->near)
		munmap(f->near, FAB_NEAR_B);
	if (far)
		munmap(far, f->far_B);
	if (f->seg_fd >= 0)
		close(f->seg_fd);
	f->near = NULL;
	atomic_store_explicit(&f->far, NULL, memory_order_relaxed);
	f->seg_fd = -1;
}

static int check_header(const struct seg_header *h)
{
	if (h->magic != SEG_MAGIC || h->version != SEG_VERSION || h->header_B != sizeof(*h))
		return -EPROTO;
	return memchr(h->name, 0, sizeof(h->name)) ? 0 : -EPROTO;
}

int seg_map(struct fabric *f, int dir_fd)
{
	f->seg_fd = openat(dir_fd, FAB_SEG_FILE, (f->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW);
	if (f->seg_fd < 0)
		return -errno;
	int rc = map_file(f);
	if (!rc)
		rc = check_header(seg_of(f));
	if (rc)
		seg_unmap(f);
	return rc;
}

/* ---- making ---- */

static void init_shared_mutex(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

/* A number that is the same for every fabric of this name. */
static uint64_t name_seed(const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return h;
}

int seg_create(struct fabric *f, int dir_fd, const char *name)
{
	f->seg_fd = openat(dir_fd, FAB_SEG_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->seg_fd < 0)
		return -errno;
	int rc = fallocate_all(f->seg_fd, 0, HEADER_B);
	if (!rc)
		rc = map_file(f);
	if (rc) {
		seg_unmap(f);
		return rc;
	}
	struct seg_header *h = seg_of(f);
	init_shared_mutex(&h->lock);
	for (uint32_t i = 0; i < FAB_NODES_MAX; i++) {
		init_shared_mutex(&h->nodes[i].life);
		init_shared_mutex(&h->nodes[i].moving);
	}
	fab_copy_name(h->name, sizeof(h->name), name);
	h->seed = name_seed(name);
	h->size_B = HEADER_B;
	h->version = SEG_VERSION;
	h->header_B = sizeof(*h);
	h->magic = SEG_MAGIC;
	return 0;
}

/* ---- free list, under lock ---- */

static struct free_extent *free_at(struct fabric *f, seg_off off)
{
	struct free_extent *e = seg_at(f, off, sizeof(*e));

	/* A list that does not rise or leaves the file is the work of a stray pointer: the rest of it is forgotten. */
	if (!e || e->size_B < SEG_PAGE_B || e->size_B % SEG_PAGE_B || !seg_at(f, off, e->size_B))
		return NULL;
	return e->next && e->next < off + e->size_B ? NULL : e;
}

void seg_free(struct fabric *f, seg_off off, uint64_t size_B)
{
	seg_off *link = &seg_of(f)->free_extents;
	struct free_extent *e, *before = NULL;
	seg_off before_off = 0;

	for (uint64_t i = 0; i < EXTENTS_MAX && *link && *link < off; i++) {
		e = free_at(f, *link);
		if (!e) {
			*link = 0;
			break;
		}
		before = e;
		before_off = *link;
		link = &e->next;
	}
	e = seg_at(f, off, size_B);
	if (!e || (before && before_off + before->size_B > off))
		return;
	struct free_extent *after = *link ? free_at(f, *link) : NULL;
	e->size_B = size_B;
	e->next = after ? *link : 0;
	if (after && *link == off + size_B) {
		e->size_B += after->size_B;
		e->next = after->next;
	}
	if (before && before_off + before->size_B == off) {
		before->size_B += e->size_B;
		before->next = e->next;
	} else {
		*link = off;
	}
}

/* First extent that fits; its tail is cut off, so that the list need not change when something is left. */
static seg_off take_free(struct fabric *f, uint64_t size_B)
{
	seg_off *link = &seg_of(f)->free_extents;

	for (uint64_t i = 0; i < EXTENTS_MAX && *link; i++) {
		struct free_extent *e = free_at(f, *link);
		if (!e) {
			*link = 0;
			break;
		}
		if (e->size_B > size_B) {
			e->size_B -= size_B;
			return *link + e->size_B;
		}
		if (e->size_B == size_B) {
			seg_off off = *link;
			*link = e->next;
			return off;
		}
		link = &e->next;
	}
	return 0;
}

int seg_alloc(struct fabric *f, uint64_t size_B, seg_off *off)
{
	struct seg_header *h = seg_of(f);

	*off = take_free(f, size_B);
	if (*off)
		return 0;
	uint64_t end = h->size_B;
	if (end < HEADER_B || end % SEG_PAGE_B || end > FAB_FAR_B || size_B > FAB_FAR_B - end)
		return -ENOSPC;
	int rc = fallocate_all(f->seg_fd, end, size_B);
	if (rc)
		return rc;
	h->size_B = end + size_B;
	if (!seg_at(f, end, size_B)) {
		seg_free(f, end, size_B);
		return -ENOMEM;
	}
	*off = end;
	return 0;
}

/* ---- repair ---- */

/* Used extents in the order of their offsets, while the free list is made anew. */
struct used_list {
	struct {
		seg_off off;
		uint64_t size_B;
	} * v;
	size_t num, max;
	bool failed;
};

static void note_used(struct used_list *u, seg_off off, uint64_t size_B)
{
	if (u->num == u->max) {
		size_t max = u->max ? 2 * u->max : 256;
		void *v = realloc(u->v, max * sizeof(*u->v));
		if (!v) {
			u->failed = true;
			return;
		}
		u->v = v;
		u->max = max;
	}
	u->v[u->num].off = off;
	u->v[u->num++].size_B = size_B;
}

static int by_offset(const void *a, const void *b)
{
	seg_off x = *(const seg_off *)a, y = *(const seg_off *)b;

	return x < y ? -1 : x > y;
}

static void note_rings(struct fabric *f, struct used_list *u)
{
	struct seg_header *h = seg_of(f);

	for (uint32_t i = 0; i < FAB_NODES_MAX * FAB_NODES_MAX; i++) {
		seg_off off = atomic_load(&h->rings[i / FAB_NODES_MAX][i % FAB_NODES_MAX]);
		for (uint32_t len = 0; off && len < RING_CHAIN_MAX; len++) {
			struct seg_ring *r = ring_at(f, off);
			if (!r)
				break;
			note_used(u, off, r->size_B);
			off = r->older;
		}
	}
}

/*
 * A process died while it held the lock. Whatever it allocated is either linked from a table or not; so the free list
 * is everything that no table names. Without memory for that the list is left empty: the segment grows instead.
 */
static void repair(struct fabric *f)
{
	struct seg_header *h = seg_of(f);
	struct used_list u = {0};
	struct stat st;

	h->free_extents = 0;
	if (fstat(f->seg_fd, &st) || (uint64_t)st.st_size < HEADER_B)
		return;
	h->size_B = MIN((uint64_t)st.st_size / SEG_PAGE_B * SEG_PAGE_B, FAB_FAR_B);
	uint32_t chunks = MIN(atomic_load(&h->num_qp_chunks), FAB_QP_CHUNKS_MAX);
	for (uint32_t i = 0; i < chunks; i++)
		note_used(&u, atomic_load(&h->qp_chunks[i]), SEG_QP_CHUNK_B);
	for (uint32_t i = 0; i < FAB_NODES_MAX * FAB_KEY_CHUNKS_MAX; i++) {
		seg_off off = atomic_load(&h->nodes[i / FAB_KEY_CHUNKS_MAX].key_chunks[i % FAB_KEY_CHUNKS_MAX]);
		if (off)
			note_used(&u, off, SEG_KEY_CHUNK_B);
	}
	note_rings(f, &u);
	if (!u.failed) {
		qsort(u.v, u.num, sizeof(*u.v), by_offset);
		seg_off at = HEADER_B;
		for (size_t i = 0; i < u.num; i++) {
			if (u.v[i].off > at && u.v[i].off < h->size_B)
				seg_free(f, at, u.v[i].off - at);
			at = MAX(at, u.v[i].off + u.v[i].size_B);
		}
		if (at < h->size_B)
			seg_free(f, at, h->size_B - at);
	}
	free(u.v);
	say(LOG_STATE, "fabric %s: a process died while it held the lock; repaired", h->name);
}

int seg_lock(struct fabric *f)
{
	if (f->read_only)
		return -EROFS;
	int rc = pthread_mutex_lock(&seg_of(f)->lock);
	if (rc == EOWNERDEAD) {
		/* Consistent only afterwards: who dies while repairing leaves the lock to be repaired again. */
		repair(f);
		rc = pthread_mutex_consistent(&seg_of(f)->lock);
	}
	return -rc;
}

void seg_unlock(struct fabric *f)
{
	pthread_mutex_unlock(&seg_of(f)->lock);
}
