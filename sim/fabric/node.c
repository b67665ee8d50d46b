/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes: joining, leaving, who is alive, what the dead left behind, waking, published keys. */
#include "sim/fabric/private.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

int64_t fab_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint32_t node_index(const struct fab_node *n)
{
	return n->index;
}

uint64_t node_incarnation(const struct fab_node *n)
{
	return n->incarnation;
}

struct seg_node *node_seg(const struct fab_node *n)
{
	return n->wire.self;
}

struct fabric *node_fabric(const struct fab_node *n)
{
	return n->f;
}

/* ---- life and death ---- */

/* Try-lock: true if no living thread holds it; it is held then. */
static bool taken_from_nobody(pthread_mutex_t *m)
{
	int rc = pthread_mutex_trylock(m);

	if (rc == EOWNERDEAD)
		rc = pthread_mutex_consistent(m);
	return rc == 0;
}

/* Of a process that is being killed the agent may be gone while another thread is still inside a peer's memory. */
static bool nobody_moves(struct seg_node *s)
{
	if (!taken_from_nobody(&s->moving))
		return false;
	pthread_mutex_unlock(&s->moving);
	return true;
}

static bool grace_is_over(const struct seg_node *s)
{
	return fab_now_ns() - (int64_t)s->changed_ns > FAB_GRACE_NS;
}

/* Keys stay where they are, for the next node of the slot: peers may be reading them. */
static void clear_keys(struct fabric *f, struct seg_node *s)
{
	for (uint32_t i = 0; i < FAB_KEY_CHUNKS_MAX; i++) {
		struct seg_key *k = seg_at(f, atomic_load(&s->key_chunks[i]), SEG_KEY_CHUNK_B);
		for (uint32_t j = 0; k && j < FAB_KEY_CHUNK; j++)
			atomic_store_explicit(&k[j].key, 0, memory_order_seq_cst);
	}
}

/* What a node that left or died has anywhere in the segment. Under lock; may be cut short and done again. */
static void release_slot(struct fabric *f, uint32_t index)
{
	struct seg_header *h = seg_of(f);
	struct seg_node *s = &h->nodes[index];
	uint64_t incarnation = atomic_load_explicit(&s->incarnation, memory_order_acquire);

	clear_keys(f, s);
	for (uint32_t p = 0; p < FAB_NODES_MAX; p++)
		atomic_store_explicit(&h->nodes[p].inside[index], 0, memory_order_seq_cst);
	qp_release_owner(f, SEG_OWNER(index, incarnation));
	uint64_t peers = ring_detach_node(f, index, incarnation);
	ring_tell(f, index, peers);
	atomic_store_explicit(&s->agent_sleeps, 0, memory_order_relaxed);
	atomic_store_explicit(&s->life_state, LIFE_GRACE, memory_order_release);
	/* Last, for all of this is done again should we be killed in between. */
	atomic_store_explicit(&s->incarnation, 0, memory_order_release);
	/* Once more for those who looked before it was gone. */
	ring_tell(f, index, peers);
}

bool node_reclaim(struct fabric *f, uint32_t index)
{
	struct seg_node *s = &seg_of(f)->nodes[index];

	if (!atomic_load_explicit(&s->incarnation, memory_order_acquire))
		return true;
	if (atomic_load_explicit(&s->life_state, memory_order_acquire) == LIFE_GRACE && !grace_is_over(s))
		return false;
	if (!taken_from_nobody(&s->life))
		return false;
	if (!nobody_moves(s)) { /* dying: a moment later */
		pthread_mutex_unlock(&s->life);
		return false;
	}
	say(LOG_STATE, "node %u (pid %d) has died", index, s->pid);
	release_slot(f, index);
	pthread_mutex_unlock(&s->life);
	return true;
}

bool node_alive(struct fab_node *n, uint32_t index, uint64_t incarnation)
{
	if (index >= FAB_NODES_MAX || !incarnation || n->peers[index].refused_inc == incarnation)
		return false;
	struct seg_node *s = &seg_of(n->f)->nodes[index];
	/* acquire: pairs with the release in node_join */
	if (atomic_load_explicit(&s->incarnation, memory_order_acquire) != incarnation)
		return false;
	if (index == n->index)
		return true;
	if (atomic_load_explicit(&s->life_state, memory_order_acquire) == LIFE_HELD) {
		if (!taken_from_nobody(&s->life))
			return true;
		pthread_mutex_unlock(&s->life); /* node_reclaim looks again, under the lock */
	} else if (!grace_is_over(s)) {
		return true;
	}
	if (seg_lock(n->f))
		return true;
	bool dead =
	    atomic_load_explicit(&s->incarnation, memory_order_acquire) != incarnation || node_reclaim(n->f, index);
	seg_unlock(n->f);
	return !dead;
}

/* ---- joining and leaving ---- */

static int claim_slot(struct fabric *f, uint32_t *index)
{
	for (uint32_t i = 0; i < FAB_NODES_MAX; i++)
		node_reclaim(f, i);
	for (uint32_t i = 0; i < FAB_NODES_MAX; i++) {
		if (!atomic_load_explicit(&seg_of(f)->nodes[i].incarnation, memory_order_relaxed)) {
			*index = i;
			return 0;
		}
	}
	return -EUSERS;
}

int node_join(struct fabric *f, struct fab_node **out)
{
	struct seg_header *h = seg_of(f);
	/* aligned: the hot fields of the wire share no line with anything else */
	struct fab_node *n = aligned_alloc(CACHE_LINE, round_up_u64(sizeof(*n), CACHE_LINE));

	if (!n)
		return -ENOMEM;
	memset(n, 0, sizeof(*n));
	n->f = f;
	uint64_t probe;
	if (getrandom(&probe, sizeof(probe), GRND_NONBLOCK) != sizeof(probe))
		probe = (uint64_t)fab_now_ns();
	n->probe_word = probe;
	int rc = seg_lock(f);
	if (rc)
		goto fail;
	rc = claim_slot(f, &n->index);
	if (rc) {
		seg_unlock(f);
		goto fail;
	}
	struct seg_node *s = &h->nodes[n->index];
	n->incarnation = ++h->next_incarnation;
	s->pid = getpid();
	s->probe_addr = (uintptr_t)&n->probe_word;
	s->probe_value = n->probe_word;
	s->changed_ns = (uint64_t)fab_now_ns();
	atomic_store_explicit(&s->life_state, LIFE_GRACE, memory_order_relaxed);
	atomic_store_explicit(&s->pending, 0, memory_order_relaxed);
	atomic_store_explicit(&s->agent_sleeps, 0, memory_order_relaxed);
	n->wire.self = s;
	n->wire.hot = n->wire.last = -1;
	/* release: the rest is written; pairs with peers' acquire */
	atomic_store_explicit(&s->incarnation, n->incarnation, memory_order_release);
	seg_unlock(f);
	*out = n;
	return 0;
fail:
	free(n);
	return rc;
}

int node_hold_life(struct fab_node *n)
{
	struct seg_node *s = n->wire.self;
	/* Before the segment's lock, as ever after. Whoever else holds it is only looking and waits for nothing. */
	int rc = -pthread_mutex_lock(&s->life);

	if (rc == -EOWNERDEAD)
		rc = -pthread_mutex_consistent(&s->life);
	if (rc)
		return rc;
	rc = seg_lock(n->f);
	if (!rc) {
		if (atomic_load_explicit(&s->incarnation, memory_order_acquire) == n->incarnation)
			atomic_store_explicit(&s->life_state, LIFE_HELD, memory_order_release);
		else
			rc = -ESTALE;
		seg_unlock(n->f);
	}
	if (rc)
		pthread_mutex_unlock(&s->life);
	return rc;
}

void node_drop_life(struct fab_node *n)
{
	struct seg_node *s = n->wire.self;

	if (seg_lock(n->f))
		return;
	s->changed_ns = (uint64_t)fab_now_ns();
	atomic_store_explicit(&s->life_state, LIFE_GRACE, memory_order_release);
	pthread_mutex_unlock(&s->life);
	seg_unlock(n->f);
}

static void free_local(struct fab_node *n)
{
	struct wire_node *w = &n->wire;

	for (uint32_t i = 0; i < FAB_NODES_MAX; i++)
		free(w->tx[i]);
	while (w->gone) {
		struct wire_tx *tx = w->gone;
		w->gone = tx->next;
		free(tx);
	}
	free(w->scratch);
	free(n);
}

static void leave(struct fab_node *n)
{
	struct fabric *f = n->f;

	if (seg_lock(f))
		return;
	if (atomic_load_explicit(&n->wire.self->incarnation, memory_order_acquire) == n->incarnation)
		release_slot(f, n->index);
	seg_unlock(f);
}

void node_leave(struct fab_node *n)
{
	if (!n)
		return;
	leave(n);
	free_local(n);
}

void node_leave_at_exit(struct fab_node *n)
{
	leave(n);
}

void node_forget_after_fork(struct fab_node *n)
{
	if (n)
		free_local(n);
}

/* ---- direct path ---- */

void node_enter(struct fab_node *n, uint32_t peer)
{
	/* Left locked by a predecessor of the slot who died inside: node_reclaim saw that it was gone. */
	if (pthread_mutex_lock(&n->wire.self->moving) == EOWNERDEAD)
		pthread_mutex_consistent(&n->wire.self->moving);
	/* seq_cst: pairs with node_wait_outside, whose caller withdraws first and looks second */
	atomic_store(&seg_of(n->f)->nodes[peer].inside[n->index], 1);
}

void node_exit(struct fab_node *n, uint32_t peer)
{
	/* release: what was done inside is done; pairs with node_wait_outside */
	atomic_store_explicit(&seg_of(n->f)->nodes[peer].inside[n->index], 0, memory_order_release);
	pthread_mutex_unlock(&n->wire.self->moving);
}

/* Does the word that the node named hold what it said, seen through process_vm_readv? */
static bool probe(const struct seg_node *s, int32_t pid)
{
	uint64_t value = 0, expected = s->probe_value;
	struct iovec local = {&value, sizeof(value)};
	struct iovec remote = {(void *)(uintptr_t)s->probe_addr, sizeof(value)};

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof(value) && value == expected;
}

bool node_direct_ok(struct fab_node *n, uint32_t index, uint64_t incarnation, int32_t *pid)
{
	if (index >= FAB_NODES_MAX || !incarnation)
		return false;
	struct fab_peer *p = &n->peers[index];
	if (p->probed_inc != incarnation) {
		struct seg_node *s = &seg_of(n->f)->nodes[index];
		if (atomic_load_explicit(&s->incarnation, memory_order_acquire) != incarnation)
			return false;
		p->pid = s->pid;
		p->direct_ok = p->pid > 0 && probe(s, p->pid) &&
			       atomic_load_explicit(&s->incarnation, memory_order_acquire) == incarnation;
		p->probed_inc = incarnation;
	}
	*pid = p->pid;
	return p->direct_ok;
}

/* ---- sleeping and waking ---- */

void node_wake(struct seg_node *s)
{
	uint32_t sleeps = 1;

	/* seq_cst: pairs with node_sleep; only one of many wakers makes the system call */
	if (atomic_load_explicit(&s->agent_sleeps, memory_order_seq_cst) &&
	    atomic_compare_exchange_strong(&s->agent_sleeps, &sleeps, 0))
		syscall(SYS_futex, &s->agent_sleeps, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool node_sleep(struct fab_node *n, int64_t timeout_ns)
{
	struct seg_node *s = n->wire.self;
	struct timespec t = {timeout_ns / 1000000000, timeout_ns % 1000000000};

	/* Either we see the record or the sender sees that we sleep: fence here, fence in wire_publish. */
	atomic_store_explicit(&s->agent_sleeps, 1, memory_order_seq_cst);
	wire_fence();
	bool work = wire_has_work(n);
	if (!work)
		syscall(SYS_futex, &s->agent_sleeps, FUTEX_WAIT, 1, timeout_ns < 0 ? NULL : &t, NULL, 0);
	bool woken = !atomic_exchange_explicit(&s->agent_sleeps, 0, memory_order_seq_cst);
	return work || woken;
}

/* ---- published keys ---- */

static struct seg_key *key_at(struct fab_node *n, uint32_t node, uint32_t index)
{
	if (node >= FAB_NODES_MAX || index >= FAB_KEY_CHUNKS_MAX * FAB_KEY_CHUNK)
		return NULL;
	/* acquire: pairs with the release in node_key_slot */
	seg_off off =
	    atomic_load_explicit(&seg_of(n->f)->nodes[node].key_chunks[index / FAB_KEY_CHUNK], memory_order_acquire);
	struct seg_key *chunk = off ? seg_at(n->f, off, SEG_KEY_CHUNK_B) : NULL;
	return chunk ? chunk + index % FAB_KEY_CHUNK : NULL;
}

struct seg_key *node_key_slot(struct fab_node *n, uint32_t index)
{
	struct seg_key *k = key_at(n, n->index, index);

	if (k || index >= FAB_KEY_CHUNKS_MAX * FAB_KEY_CHUNK)
		return k;
	_Atomic seg_off *chunk = &n->wire.self->key_chunks[index / FAB_KEY_CHUNK];
	seg_off off;
	if (seg_lock(n->f))
		return NULL;
	if (!atomic_load_explicit(chunk, memory_order_relaxed) && !seg_alloc(n->f, SEG_KEY_CHUNK_B, &off)) {
		memset(seg_at(n->f, off, SEG_KEY_CHUNK_B), 0, SEG_KEY_CHUNK_B);
		/* release: the chunk is zero */
		atomic_store_explicit(chunk, off, memory_order_release);
	}
	seg_unlock(n->f);
	return key_at(n, n->index, index);
}

struct seg_key *node_peer_key(struct fab_node *n, uint32_t peer, uint32_t index)
{
	return key_at(n, peer, index);
}

void node_withdraw_key(struct fab_node *n, struct seg_key *k)
{
	/* seq_cst: a peer marks itself inside before it reads the key */
	atomic_store_explicit(&k->key, 0, memory_order_seq_cst);
	node_wait_outside(n);
}

/* Waits for one peer; a mark that a dead one left does not count. */
static void wait_for_peer(struct fab_node *n, uint32_t peer)
{
	_Atomic uint32_t *mark = &n->wire.self->inside[peer];
	static const struct timespec nap = {0, 50000};

	for (uint32_t turns = 0; atomic_load_explicit(mark, memory_order_seq_cst); turns++) {
		if (turns < 1000) {
			cpu_relax();
			continue;
		}
		struct seg_node *s = &seg_of(n->f)->nodes[peer];
		uint64_t inc = atomic_load_explicit(&s->incarnation, memory_order_acquire);
		if ((!inc || !node_alive(n, peer, inc)) && nobody_moves(s)) {
			atomic_store_explicit(mark, 0, memory_order_seq_cst);
			return;
		}
		nanosleep(&nap, NULL);
	}
}

void node_wait_outside(struct fab_node *n)
{
	for (uint32_t p = 0; p < FAB_NODES_MAX; p++)
		if (p != n->index)
			wait_for_peer(n, p);
}
