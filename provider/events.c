/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels and asynchronous events. Each is a pipe whose read end the application owns and the library
 * reads: 8 bytes (the address of the CQ) a completion event, 16 bytes an asynchronous one. So poll, epoll and
 * O_NONBLOCK behave as on a kernel's descriptor.
 *
 * The adapter must never block on an application that does not read. The write end does not block; what finds no room
 * waits and follows when an event has been read: completion events as a number in their CQ (nothing to allocate, none
 * can be lost), asynchronous ones in a list.
 *
 * Every event put into a pipe is counted in its object (`reported`), every one taken out by us is discounted. At
 * destruction the unread ones are taken out; the rest has been read, and is waited for until it is acknowledged, as
 * the specification wants and every provider does.
 *
 * Everything here is under provider_lock, which the adapter's callbacks take inside its own lock.
 */
#include "provider/provider.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct p_channel {
	struct p_channel *next; /* of the process */
	struct p_context *ctx;	/* NULL: its context was closed, the program still has the descriptor */
	int read_fd, write_fd;
	ino_t pipe; /* of both ends */
	struct p_cq *overflow, **overflow_end;
	_Atomic bool overflows; /* the list is not empty: so that reading an event takes the lock only then */
};

struct comp_record {
	uint64_t cq;
};

struct async_record {
	uint64_t element;
	uint32_t type;
	uint32_t pad;
};

struct p_async_overflow {
	struct p_async_overflow *next;
	struct async_record record;
};

static struct p_channel *channels;

/* A pipe whose write end never blocks. 0 or errno. */
static int make_pipe(int *read_fd, int *write_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return errno;
	if (fcntl(fds[1], F_SETFL, O_NONBLOCK)) {
		int err = errno;

		close(fds[0]);
		close(fds[1]);
		return err;
	}
	*read_fd = fds[0];
	*write_fd = fds[1];
	return 0;
}

/* Records are shorter than PIPE_BUF, so they are written whole or not at all. */
static bool put(int fd, const void *record, size_t size)
{
	ssize_t n;

	do
		n = write(fd, record, size);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)size;
}

/* ---- taking unread events out ---- */

/*
 * A descriptor of the same pipe that does not block, whatever the application's does: another thread may read an
 * event between our look and our read. Without /proc the application's own is used after a look, which is as good
 * unless two threads race for the last event of a shared channel.
 */
static int open_reader(int read_fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", read_fd);
	return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static ssize_t read_some(int reader, int read_fd, void *buf, size_t size)
{
	struct pollfd look = {.fd = read_fd, .events = POLLIN};
	ssize_t n;

	if (reader < 0 && poll(&look, 1, 0) != 1)
		return 0;
	do
		n = read(reader < 0 ? read_fd : reader, buf, size);
	while (n < 0 && errno == EINTR);
	return n;
}

/*
 * Turns the pipe round once: every unread record is read, those of `object` are dropped, the others written back in
 * their order. The room is there, since as much has just been read and only holders of the lock write. Returns how
 * many were dropped.
 */
static unsigned int take_out(int read_fd, int write_fd, size_t record_size, const void *object)
{
	_Alignas(16) char buf[PIPE_BUF];
	unsigned int dropped = 0;
	int reader = open_reader(read_fd), unread = 0;

	if (ioctl(read_fd, FIONREAD, &unread))
		unread = 0;
	while (unread >= (int)record_size) {
		ssize_t n = read_some(reader, read_fd, buf, MIN((size_t)unread, sizeof(buf)));
		size_t kept = 0;

		if (n <= 0)
			break; /* somebody else has read the rest */
		unread -= (int)n;
		for (size_t off = 0; off + record_size <= (size_t)n; off += record_size) {
			uint64_t element;

			memcpy(&element, buf + off, sizeof(element));
			if (element == (uint64_t)(uintptr_t)object) {
				dropped++;
				continue;
			}
			memmove(buf + kept, buf + off, record_size);
			kept += record_size;
		}
		if (kept && !put(write_fd, buf, kept))
			sim_log_line("events were lost while an object was destroyed: %s", strerror(errno));
	}
	if (reader >= 0)
		close(reader);
	return dropped;
}

/* ---- completion channels ---- */

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

int events_create_channel(void *user, int *fd)
{
	struct p_context *ctx = user;
	struct p_channel *ch;
	int err;

	if (ctx->life != provider_life)
		return EIO;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return ENOMEM;
	err = make_pipe(&ch->read_fd, &ch->write_fd);
	if (err) {
		free(ch);
		return err;
	}
	ch->ctx = ctx;
	ch->pipe = inode_of(ch->read_fd);
	ch->overflow_end = &ch->overflow;
	pthread_mutex_lock(&provider_lock);
	ch->next = channels;
	channels = ch;
	pthread_mutex_unlock(&provider_lock);
	*fd = ch->read_fd;
	return 0;
}

struct p_channel *events_find_channel(struct p_context *ctx, const struct ibv_comp_channel *channel)
{
	struct p_channel *ch;

	pthread_mutex_lock(&provider_lock);
	for (ch = channels; ch; ch = ch->next)
		if (ch->read_fd == channel->fd && ch->ctx && ch->ctx->hca == ctx->hca)
			break;
	pthread_mutex_unlock(&provider_lock);
	return ch;
}

/* The library destroys a channel only when no CQ uses it. */
void events_closing(int fd)
{
	struct p_channel *ch, **p;

	pthread_mutex_lock(&provider_lock);
	for (p = &channels; *p && (*p)->read_fd != fd; p = &(*p)->next)
		;
	ch = *p;
	if (ch)
		*p = ch->next;
	pthread_mutex_unlock(&provider_lock);
	if (!ch)
		return;
	/* A program that closed our descriptors itself, as a daemon does, may use their numbers for its own by now. */
	if (inode_of(fd) == ch->pipe && inode_of(ch->write_fd) == ch->pipe)
		close(ch->write_fd);
	free(ch);
}

/*
 * As put; before it gives up, `waits` is set and the pipe tried once more. If it is still full, whoever reads one of
 * its events afterwards has the kernel's pipe lock behind that store and sees it: no event is left waiting with
 * nothing in the pipe.
 */
static bool put_or_wait(int fd, const void *record, size_t size, _Atomic bool *waits)
{
	if (put(fd, record, size))
		return true;
	atomic_store(waits, true);
	return put(fd, record, size);
}

/* Moves waiting events into the pipe as far as there is room, one of each CQ in turn. */
static void channel_flush(struct p_channel *ch)
{
	struct p_cq *cq;

	while ((cq = ch->overflow) != NULL) {
		const struct comp_record record = {(uint64_t)(uintptr_t)&cq->vcq.cq};

		if (!put_or_wait(ch->write_fd, &record, sizeof(record), &ch->overflows))
			return;
		cq->comp_reported++;
		cq->num_overflow--;
		ch->overflow = cq->overflow_next;
		if (!ch->overflow)
			ch->overflow_end = &ch->overflow;
		if (cq->num_overflow) {
			cq->overflow_next = NULL;
			*ch->overflow_end = cq;
			ch->overflow_end = &cq->overflow_next;
		}
	}
	atomic_store_explicit(&ch->overflows, false, memory_order_relaxed);
}

/* Called by the adapter. An event joins the waiting ones if there are any, so order between CQs is kept. */
static void comp_event(void *cq_user)
{
	struct p_cq *cq = cq_user;
	struct p_channel *ch = cq->channel;

	if (!ch)
		return;
	pthread_mutex_lock(&provider_lock);
	if (!cq->num_overflow++) {
		cq->overflow_next = NULL;
		*ch->overflow_end = cq;
		ch->overflow_end = &cq->overflow_next;
	}
	channel_flush(ch);
	pthread_mutex_unlock(&provider_lock);
}

void simhca_cq_event(struct ibv_cq *ibcq)
{
	struct p_channel *ch = to_cq(ibcq)->channel;

	/* Relaxed: see put_or_wait. */
	if (!ch || inherited(ibcq->context) || !atomic_load_explicit(&ch->overflows, memory_order_relaxed))
		return;
	pthread_mutex_lock(&provider_lock);
	channel_flush(ch);
	pthread_mutex_unlock(&provider_lock);
}

static void channel_forget(struct p_channel *ch, struct p_cq *cq)
{
	struct p_cq **p = &ch->overflow;

	while (*p && *p != cq)
		p = &(*p)->overflow_next;
	if (*p) {
		*p = cq->overflow_next;
		if (!*p)
			ch->overflow_end = p;
		cq->num_overflow = 0;
	}
	cq->comp_reported -= take_out(ch->read_fd, ch->write_fd, sizeof(struct comp_record), &cq->vcq.cq);
	channel_flush(ch);
}

/* ---- asynchronous events ---- */

/* Count of an object's events in the pipe: where it is kept. Port and device events are not acknowledged to anyone. */
static uint32_t *reported_of(const struct async_record *r)
{
	void *object = (void *)(uintptr_t)r->element;

	switch ((enum ibv_event_type)r->type) {
	case IBV_EVENT_CQ_ERR: return &to_cq(object)->async_reported;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: return &to_qp(object)->async_reported;
	default: return NULL;
	}
}

static bool async_put(struct p_context *ctx, const struct async_record *r)
{
	uint32_t *reported = reported_of(r);

	if (ctx->async_write < 0 || !put_or_wait(ctx->async_write, r, sizeof(*r), &ctx->async_overflows))
		return false;
	if (reported)
		++*reported;
	return true;
}

static void async_flush(struct p_context *ctx)
{
	struct p_async_overflow *first;

	while ((first = ctx->overflow) != NULL) {
		if (!async_put(ctx, &first->record))
			return;
		ctx->overflow = first->next;
		if (!ctx->overflow)
			ctx->overflow_end = &ctx->overflow;
		free(first);
	}
	atomic_store_explicit(&ctx->async_overflows, false, memory_order_relaxed);
}

int events_create_async(void *user, int *fd)
{
	struct p_context *ctx = user;
	int read_fd = -1, write_fd = -1;
	int err = ctx->life != provider_life ? EIO : ctx->async_write >= 0 ? EBUSY : make_pipe(&read_fd, &write_fd);

	if (err)
		return err;
	pthread_mutex_lock(&provider_lock);
	ctx->async_read = read_fd;
	ctx->async_write = write_fd;
	async_flush(ctx); /* what came before */
	pthread_mutex_unlock(&provider_lock);
	*fd = read_fd;
	return 0;
}

static void async_queue(struct p_context *ctx, const struct async_record *r)
{
	struct p_async_overflow *node;

	if (!ctx->overflow && async_put(ctx, r))
		return;
	node = malloc(sizeof(*node));
	if (!node) {
		sim_log_line("out of memory: asynchronous event '%s' is lost", ibv_event_type_str(r->type));
		return;
	}
	node->next = NULL;
	node->record = *r;
	*ctx->overflow_end = node;
	ctx->overflow_end = &node->next;
	async_flush(ctx);
}

/* Called by the adapter: an object's event goes to the object's context, a port's to every context. */
static void async_event(void *hca_user, enum ibv_event_type type, void *object_user, uint32_t port)
{
	struct p_hca *a = hca_user;
	struct async_record r = {.type = type, .element = port};

	pthread_mutex_lock(&provider_lock);
	if (!object_user) {
		for (struct p_context *c = a->contexts; c; c = c->next)
			async_queue(c, &r);
	} else if (type == IBV_EVENT_CQ_ERR) {
		struct p_cq *cq = object_user;

		r.element = (uint64_t)(uintptr_t)&cq->vcq.cq;
		async_queue(to_context(cq->vcq.cq.context), &r);
	} else {
		struct p_qp *qp = object_user;

		r.element = (uint64_t)(uintptr_t)&qp->vqp.qp;
		async_queue(to_context(qp->vqp.qp.context), &r);
	}
	pthread_mutex_unlock(&provider_lock);
}

void simhca_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct p_context *ctx = to_context(context);

	(void)event;
	if (inherited(context) || !atomic_load_explicit(&ctx->async_overflows, memory_order_relaxed))
		return; /* relaxed: see put_or_wait */
	pthread_mutex_lock(&provider_lock);
	async_flush(ctx);
	pthread_mutex_unlock(&provider_lock);
}

/* Takes an object's events out of the list and the pipe of its context. Returns how many were in the pipe. */
static uint32_t async_forget(struct p_context *ctx, const void *object)
{
	struct p_async_overflow **p = &ctx->overflow;
	uint32_t dropped = 0;

	while (*p) {
		struct p_async_overflow *node = *p;

		if (node->record.element != (uint64_t)(uintptr_t)object) {
			p = &node->next;
			continue;
		}
		*p = node->next;
		free(node);
	}
	ctx->overflow_end = p;
	if (ctx->async_read >= 0)
		dropped = take_out(ctx->async_read, ctx->async_write, sizeof(struct async_record), object);
	async_flush(ctx);
	return dropped;
}

/* ---- destruction ---- */

/* An object with events that were read: what is waited for, and what to call it if that takes long. */
struct ack_wait {
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	const uint32_t *completed[2];
	uint32_t reported[2];
	const char *call, *object;
	uint32_t number;
};

static uint32_t ack_missing(const struct ack_wait *w)
{
	uint32_t missing = 0;

	for (int i = 0; i < 2; i++)
		if (w->completed[i])
			missing += w->reported[i] - *w->completed[i];
	return missing;
}

/* Acknowledging signals the condition. Says once what it waits for. */
static void wait_for_acks(const struct ack_wait *w)
{
	uint32_t warn_ms = provider_settings->ack_warn_ms;
	bool said = warn_ms == 0;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(warn_ms / 1000);
	until.tv_nsec += (long)(warn_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(w->mutex);
	while (ack_missing(w)) {
		if (said) {
			pthread_cond_wait(w->cond, w->mutex);
		} else if (pthread_cond_clockwait(w->cond, w->mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT) {
			said = true;
			if (ack_missing(w))
				sim_log_line("%s: %s %u waits for %u event(s) that were read but not acknowledged",
					     w->call, w->object, w->number, ack_missing(w));
		}
	}
	pthread_mutex_unlock(w->mutex);
}

void events_forget_cq(struct p_cq *cq)
{
	struct ibv_cq *ib = &cq->vcq.cq;
	struct ack_wait w = {
	    .mutex = &ib->mutex,
	    .cond = &ib->cond,
	    .completed = {&ib->comp_events_completed, &ib->async_events_completed},
	    .call = "ibv_destroy_cq",
	    .object = "CQ",
	    .number = ib->handle,
	};

	if (inherited(ib->context))
		return; /* the pipes are the parent's */
	pthread_mutex_lock(&provider_lock);
	if (cq->channel)
		channel_forget(cq->channel, cq);
	cq->async_reported -= async_forget(to_context(ib->context), ib);
	w.reported[0] = cq->comp_reported;
	w.reported[1] = cq->async_reported;
	pthread_mutex_unlock(&provider_lock);
	wait_for_acks(&w);
}

void events_forget_qp(struct p_qp *qp)
{
	struct ibv_qp *ib = &qp->vqp.qp;
	struct ack_wait w = {
	    .mutex = &ib->mutex,
	    .cond = &ib->cond,
	    .completed = {&ib->events_completed},
	    .call = "ibv_destroy_qp",
	    .object = "QP",
	    .number = ib->qp_num,
	};

	if (inherited(ib->context))
		return;
	pthread_mutex_lock(&provider_lock);
	qp->async_reported -= async_forget(to_context(ib->context), ib);
	w.reported[0] = qp->async_reported;
	pthread_mutex_unlock(&provider_lock);
	wait_for_acks(&w);
}

void events_close(struct p_context *ctx)
{
	struct p_async_overflow *node;

	pthread_mutex_lock(&provider_lock);
	for (struct p_channel *ch = channels; ch; ch = ch->next)
		if (ch->ctx == ctx)
			ch->ctx = NULL; /* the program has not destroyed it; nothing writes to it any more */
	while ((node = ctx->overflow) != NULL) {
		ctx->overflow = node->next;
		free(node);
	}
	ctx->overflow_end = &ctx->overflow;
	if (ctx->async_write >= 0)
		close(ctx->async_write);
	ctx->async_write = -1;
	pthread_mutex_unlock(&provider_lock);
}

const struct hca_callbacks provider_callbacks = {
    .comp_event = comp_event,
    .async_event = async_event,
};
