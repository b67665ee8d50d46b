/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/fabric_util.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

void util_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(NULL);
	_exit(1);
}

int64_t util_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void util_nap_us(unsigned us)
{
	struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};

	nanosleep(&t, NULL);
}

static void on_alarm(int sig)
{
	static const char text[] = "the test takes too long\n";

	(void)sig;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

void util_deadline_s(unsigned s)
{
	signal(SIGALRM, on_alarm);
	alarm(s);
}

/* ---- worlds ---- */

/* A default profile without the reader: the fabric does not care what is in it. */
static void default_profile(struct profile *p)
{
	char err[256];

	memset(p, 0, sizeof(*p));
	if (profile_load("generic", p, err, sizeof(err)))
		util_die("%s", err);
}

void util_world_prepare(struct util_world *w, const char *name, uint32_t devices)
{
	memset(w, 0, sizeof(*w));
	snprintf(w->base, sizeof(w->base), "/dev/shm/simhca-test-%d-XXXXXX", (int)getpid());
	if (!mkdtemp(w->base))
		util_die("%s: %m", w->base);
	snprintf(w->cfg.base, sizeof(w->cfg.base), "%s", w->base);
	snprintf(w->cfg.name, sizeof(w->cfg.name), "%s", name);
	w->cfg.devices = w->devices;
	w->cfg.num_devices = devices;
	for (uint32_t i = 0; i < devices; i++) {
		snprintf(w->devices[i].name, sizeof(w->devices[i].name), "sim%u", i);
		default_profile(&w->devices[i].profile);
		w->devices[i].num_ports = 1;
		for (uint32_t p = 0; p < FAB_PORTS_MAX; p++) {
			w->devices[i].ports[p].link_layer = -1;
			w->devices[i].ports[p].switch_hops = UINT32_MAX;
		}
	}
	fabric_dir(w->base, name, w->dir, sizeof(w->dir));
}

void util_world_open(struct util_world *w, const char *name, uint32_t devices)
{
	char err[256];

	util_world_prepare(w, name, devices);
	if (fabric_ensure(&w->cfg, false, &w->f, err, sizeof(err)))
		util_die("%s", err);
}

void util_world_close(struct util_world *w)
{
	fabric_close(w->f);
	DIR *d = opendir(w->base);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			util_die("%s/%s is left", w->base, e->d_name);
	if (d)
		closedir(d);
	if (rmdir(w->base))
		util_die("%s: %m", w->base);
}

struct fabric *util_attach(const struct util_world *w)
{
	struct fabric *f;
	char err[256];

	if (fabric_open(w->dir, false, &f, err, sizeof(err)))
		util_die("%s", err);
	return f;
}

/* ---- children ---- */

pid_t util_fork(void)
{
	fflush(NULL);
	pid_t pid = fork();

	if (pid < 0)
		util_die("fork: %m");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

void util_child_done(void)
{
	fflush(NULL);
	for (;;)
		raise(SIGSTOP);
}

/* Waits for one child (-1: any). False when there is none. */
static bool wait_one(pid_t pid)
{
	int status;

	pid = waitpid(pid, &status, WUNTRACED);
	if (pid < 0)
		return false;
	if (WIFSTOPPED(status)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	} else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		util_die("a child failed (status %x)", (unsigned)status);
	}
	return true;
}

void util_wait_ok(pid_t pid)
{
	if (!wait_one(pid))
		util_die("waitpid: %m");
}

void util_wait_all(void)
{
	while (wait_one(-1))
		;
}

uint32_t util_find_peer(struct fab_node *n)
{
	struct seg_header *h = fabric_seg(node_fabric(n));

	for (;; util_nap_us(50))
		for (uint32_t i = 0; i < FAB_NODES_MAX; i++)
			if (i != node_index(n) && atomic_load(&h->nodes[i].incarnation))
				return i;
}

/* ---- packets ---- */

void util_fill(void *p, uint32_t len_B, uint32_t number)
{
	unsigned char *b = p;

	for (uint32_t i = 0; i < len_B; i++)
		b[i] = (unsigned char)(number * 31 + i * 7 + (i >> 8));
}

bool util_same(const void *p, uint32_t len_B, uint32_t number)
{
	const unsigned char *b = p;

	for (uint32_t i = 0; i < len_B; i++)
		if (b[i] != (unsigned char)(number * 31 + i * 7 + (i >> 8)))
			return false;
	return true;
}

bool util_send(struct wire_tx *tx, uint8_t op, uint32_t psn, const void *data, uint32_t len_B)
{
	struct pkt *p = wire_reserve(tx, pkt_ext_B(op, 0), len_B);

	if (!p)
		return false;
	p->op = op;
	p->psn = psn;
	p->psn_count = 1;
	p->payload_B = len_B;
	if (data)
		memcpy(pkt_payload(p), data, len_B);
	wire_publish(tx);
	return true;
}

bool util_receive(struct fab_node *n, uint32_t peer)
{
	if (!wire_has_work(n) || wire_pending(n) != (int)peer || !wire_next(n, peer))
		return false;
	wire_consume(n, peer);
	return true;
}
