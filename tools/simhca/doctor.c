/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * simhca doctor: why is there no device? Each check is a function that adds one finding; the table below is the order
 * in which a reader wants them. "problem" means that programs see no device or work badly; "note" is worth knowing.
 */
#include "tools/simhca/simhca.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct doctor {
	struct common common;
	bool list_devices; /* the inner process of check_listing */
	struct settings set;
	bool settings_ok;
	struct files files;
	char dir[PATH_MAX]; /* folder of the fabric */
	struct fabric *f;   /* NULL: there is none */
	bool inside;	    /* started by simhca run */
	struct json_object *list;
	const char *check; /* the one that runs */
	unsigned int problems;
};

/* X(name): check_<name> */
#define CHECKS(X)                                                                                                      \
	X(settings)                                                                                                    \
	X(sweep)                                                                                                       \
	X(provider)                                                                                                    \
	X(libibverbs)                                                                                                  \
	X(preload)                                                                                                     \
	X(environment)                                                                                                 \
	X(fabric)                                                                                                      \
	X(tree)                                                                                                        \
	X(space)                                                                                                       \
	X(netlink)                                                                                                     \
	X(plain)                                                                                                       \
	X(userns)                                                                                                      \
	X(direct)                                                                                                      \
	X(listing)

enum level { OK, NOTE, PROBLEM };

static void finding(struct doctor *d, enum level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void finding(struct doctor *d, enum level level, const char *fmt, ...)
{
	static const char *const words[] = {"ok", "note", "problem"};
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->problems += level == PROBLEM;
	struct json_object *row = row_add(d->list);
	row_str(row, "level", words[level]);
	row_str(row, "check", d->check);
	row_str(row, "finding", text);
}

static void check_settings(struct doctor *d)
{
	char err[512];
	d->settings_ok = settings_load(&d->set, err, sizeof(err)) == 0;
	if (!d->settings_ok) {
		finding(d, PROBLEM, "%s", err);
		return;
	}
	if (!d->set.enable)
		finding(d, PROBLEM, "SIMHCA_ENABLE=0: the emulator is switched off, programs see no device");
	else
		finding(d, OK, "no bad value in the environment");
	if (getuid() != geteuid())
		finding(d, PROBLEM, "set-user-id: libibverbs ignores RDMAV_DRIVERS and SYSFS_PATH then");
}

static void check_sweep(struct doctor *d)
{
	if (!d->settings_ok)
		return;
	int n = fabric_sweep(d->set.dir);
	if (n < 0)
		finding(d, PROBLEM, "%s: %s", d->set.dir, strerror(-n));
	else if (n > 0)
		finding(d, NOTE, "%d dead fabrics removed from %s", n, d->set.dir);
	else
		finding(d, OK, "no dead fabrics in %s", d->set.dir);
}

static void check_provider(struct doctor *d)
{
	if (d->files.has_provider)
		finding(d, OK, "%s", d->files.provider);
	else
		finding(d, PROBLEM, "missing %s", d->files.provider);
}

/* The provider's file name carries the number of the private interface it was built for. */
static void check_libibverbs(struct doctor *d)
{
	char symbol[64];
	const char *suffix = strstr(d->files.provider, "-rdmav");
	void *lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (!lib) {
		finding(d, PROBLEM, "%s", dlerror());
		return;
	}
	int number = suffix ? atoi(suffix + strlen("-rdmav")) : 0;
	snprintf(symbol, sizeof(symbol), "verbs_register_driver_%d", number);
	if (!d->files.has_provider)
		finding(d, OK, "libibverbs.so.1 can be loaded");
	else if (dlsym(lib, symbol))
		finding(d, OK, "libibverbs has the provider interface %d", number);
	else
		finding(d, PROBLEM,
			"libibverbs does not have provider interface %d: build simhca for the one installed", number);
	dlclose(lib);
}

static void check_preload(struct doctor *d)
{
	if (d->files.has_preload)
		finding(d, OK, "%s", d->files.preload);
	else
		finding(d, PROBLEM, "missing %s: mode preload cannot work", d->files.preload);
}

static void check_environment(struct doctor *d)
{
	const char *drivers = getenv("RDMAV_DRIVERS"), *preload = getenv("LD_PRELOAD");
	if (!d->inside) {
		finding(d, NOTE, "not below `simhca run': only programs started by it see the devices");
		if (drivers)
			finding(d, NOTE, "RDMAV_DRIVERS=%s is kept, with the provider in front", drivers);
		return;
	}
	if (!drivers || !strstr(drivers, d->files.driver))
		finding(d, PROBLEM, "RDMAV_DRIVERS=%s does not name %s", drivers ? drivers : "", d->files.driver);
	else
		finding(d, OK, "RDMAV_DRIVERS=%s", drivers);
	if (!preload || !strstr(preload, d->files.preload))
		finding(d, NOTE, "LD_PRELOAD does not name %s: fine in modes plain and userns", d->files.preload);
}

static void check_fabric(struct doctor *d)
{
	char err[512];
	unsigned int devices = 0, active = 0;
	if (access(d->dir, F_OK) < 0) {
		finding(d, d->inside ? PROBLEM : NOTE, "%s: %s%s", d->dir, strerror(errno),
			d->inside ? "" : "; `simhca run' makes it");
		return;
	}
	if (fabric_open(d->dir, true, &d->f, err, sizeof(err))) {
		d->f = NULL;
		finding(d, PROBLEM, "%s", err);
		return;
	}
	const struct seg_header *seg = fabric_seg(d->f);
	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++) {
		const struct seg_device *dev = &seg->devices[i];
		if (!atomic_load_explicit(&dev->used, memory_order_acquire)) /* pairs: release by the maker */
			continue;
		devices++;
		uint32_t state = atomic_load_explicit(&dev->ports[0].state, memory_order_relaxed);
		active += state == IBV_PORT_ACTIVE;
		if (state != IBV_PORT_ACTIVE)
			finding(d, NOTE, "port 1 of %s is not active", dev->name);
	}
	finding(d, devices ? OK : PROBLEM, "%s: %u devices, %u active", d->dir, devices, active);
}

/* Every node of the tree leads to a character device with the number that the tree names. */
static void check_tree(struct doctor *d)
{
	char path[PATH_MAX + 512], text[32] = "";
	unsigned int good = 0;
	if (!d->f)
		return;
	snprintf(path, sizeof(path), "%s/dev", d->dir);
	DIR *dir = opendir(path);
	if (!dir) {
		finding(d, PROBLEM, "%s: %s", path, strerror(errno));
		return;
	}
	for (struct dirent *e; (e = readdir(dir));) {
		struct stat st;
		unsigned int major, minor;
		if (strncmp(e->d_name, "uverbs", strlen("uverbs")) != 0)
			continue;
		if (fstatat(dirfd(dir), e->d_name, &st, 0) < 0) {
			finding(d, PROBLEM, "%s/%s: %s", path, e->d_name, strerror(errno));
			continue;
		}
		char attr[PATH_MAX + 512];
		snprintf(attr, sizeof(attr), "%s/sys/class/infiniband_verbs/%s/dev", d->dir, e->d_name);
		FILE *file = fopen(attr, "re");
		if (!file || !fgets(text, sizeof(text), file) || sscanf(text, "%u:%u", &major, &minor) != 2)
			finding(d, PROBLEM, "%s: %s", attr, file ? "no device number in it" : strerror(errno));
		else if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(major, minor))
			finding(d, PROBLEM, "%s/%s is not the character device %u:%u that the tree names", path,
				e->d_name, major, minor);
		else
			good++;
		if (file)
			fclose(file);
	}
	closedir(dir);
	finding(d, good ? OK : PROBLEM, "%u device nodes lead to the right character device", good);
}

#define SPACE_WANTED_MB 64

static void check_space(struct doctor *d)
{
	struct statvfs fs;
	const char *dir = d->set.dir;
	if (!d->settings_ok)
		return;
	if (statvfs(dir, &fs) < 0) {
		finding(d, PROBLEM, "%s: %s", dir, strerror(errno));
		return;
	}
	uint64_t free_MB = (uint64_t)fs.f_bavail * fs.f_frsize >> 20;
	if (access(dir, W_OK | X_OK) < 0)
		finding(d, PROBLEM, "%s: %s", dir, strerror(errno));
	else if (free_MB < SPACE_WANTED_MB)
		finding(d, PROBLEM, "%s has %llu MiB free, a fabric in use wants %u", dir, (unsigned long long)free_MB,
			SPACE_WANTED_MB);
	else
		finding(d, OK, "%s is writable and has %llu MiB free", dir, (unsigned long long)free_MB);
}

static void check_netlink(struct doctor *d)
{
	if (rdma_netlink_present())
		finding(d, NOTE, "the kernel answers RDMA netlink: only mode preload shows simulated devices");
	else
		finding(d, OK, "RDMA netlink is refused, so libibverbs reads the device tree");
}

static void check_plain(struct doctor *d)
{
	char what[PATH_MAX + 64];
	if (d->inside)
		return; /* the preload would show us its own nodes */
	if (mode_plain_lacks(d->f ? d->dir : NULL, what, sizeof(what)))
		finding(d, NOTE, "%s: mode plain needs it, modes preload and userns do not", what);
	else
		finding(d, OK, "/dev/infiniband has the links for mode plain");
}

/* Exit status of a child that runs fn, or -1. */
static int in_child(int (*fn)(void *arg), void *arg)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(fn(arg));
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int try_userns(void *arg)
{
	(void)arg;
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0;
}

static void check_userns(struct doctor *d)
{
	if (in_child(try_userns, NULL) == 0)
		finding(d, OK, "user namespaces are allowed");
	else
		finding(d, NOTE, "user namespaces are not allowed: mode userns cannot work");
}

static int read_parent(void *word)
{
	uint64_t copy = 0;
	struct iovec here = {&copy, sizeof(copy)}, there = {word, sizeof(copy)};
	return process_vm_readv(getppid(), &here, 1, &there, 1, 0) != sizeof(copy);
}

static void check_direct(struct doctor *d)
{
	static uint64_t word = 1;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* as every process that opens a device does */
	if (in_child(read_parent, &word) != 0)
		finding(d, NOTE, "process_vm_readv is refused: large transfers take the slower way through the rings");
	else
		finding(d, OK, "process_vm_readv works between processes of this user");
}

/* ---- the whole way: what does libibverbs say below simhca run? ---- */

static int list_devices(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!lib)
		return complain("%s", dlerror());
	struct ibv_device **(*get)(int *) = (struct ibv_device * *(*)(int *)) dlsym(lib, "ibv_get_device_list");
	const char *(*name)(struct ibv_device *) =
	    (const char *(*)(struct ibv_device *))dlsym(lib, "ibv_get_device_name");
	int n = 0;
	struct ibv_device **list = get && name ? get(&n) : NULL;
	for (int i = 0; list && i < n; i++)
		printf("device %s\n", name(list[i]));
	return fflush(stdout) ? EXIT_SETUP : 0;
}

static int exec_listing(void *arg)
{
	struct doctor *d = ((void **)arg)[0];
	int *fds = ((void **)arg)[1];
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[MAX(n, 0)] = '\0';
	dup2(fds[1], STDOUT_FILENO);
	dup2(fds[1], STDERR_FILENO);
	const char *fabric = fabric_name(&d->set, d->common.fabric);
	execl(exe, "simhca", "run", "-f", fabric, "--", exe, "doctor", "--list-devices", (char *)NULL);
	return EXIT_NOEXEC;
}

/* First line that is no device, which is what went wrong. */
static void read_listing(int fd, unsigned int *devices, char *said, size_t size)
{
	char line[512];
	FILE *in = fdopen(fd, "r");
	*devices = 0;
	*said = '\0';
	while (in && fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "device ", strlen("device ")) == 0)
			(*devices)++;
		else if (!*said)
			snprintf(said, size, "%s", line);
	}
	if (in)
		fclose(in);
}

static void check_listing(struct doctor *d)
{
	int fds[2];
	unsigned int devices;
	char said[512];
	if (!d->settings_ok || pipe2(fds, O_CLOEXEC) < 0)
		return;
	void *arg[] = {d, fds};
	int rc = in_child(exec_listing, arg); /* its few lines fit into the pipe */
	close(fds[1]);
	read_listing(fds[0], &devices, said, sizeof(said));
	if (rc == 0 && devices)
		finding(d, OK, "libibverbs lists %u devices below `simhca run'", devices);
	else
		finding(d, PROBLEM, "libibverbs lists no device below `simhca run'%s%s", *said ? ": " : "", said);
}

/* ---- */

static const struct {
	const char *name;
	void (*run)(struct doctor *d);
} checks[] = {
#define ROW(name) {#name, check_##name},
    CHECKS(ROW)
#undef ROW
};

enum { OPT_LIST = 0x100 };

static const struct argp_option options[] = {
    {"list-devices", OPT_LIST, NULL, OPTION_HIDDEN, "what libibverbs lists in this process", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct doctor *d = state->input;
	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &d->common; return 0;
	case OPT_LIST: d->list_devices = true; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp_doctor = {
    .options = options,
    .parser = parse_option,
    .doc = "Finds out why there is no device, one line a finding. The exit status is 1 if one of them is a problem.",
    .children = (const struct argp_child[]){{&argp_listing, 0, NULL, 0}, {0}},
};

int cmd_doctor(int argc, char **argv)
{
	struct doctor d = {0};
	if (argp_parse(&argp_doctor, argc, argv, 0, NULL, &d))
		return EXIT_SETUP;
	if (d.list_devices)
		return list_devices();

	const char *inside = getenv("SIMHCA_FABRIC_DIR");
	d.inside = inside && *inside;
	d.list = list_new();
	find_files(&d.files);
	char err[512];
	if (settings_load(&d.set, err, sizeof(err)))
		snprintf(d.set.dir, sizeof(d.set.dir), "/dev/shm");
	if (d.inside && !d.common.fabric)
		snprintf(d.dir, sizeof(d.dir), "%s", inside);
	else
		fabric_dir(d.set.dir, fabric_name(&d.set, d.common.fabric), d.dir, sizeof(d.dir));

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		d.check = checks[i].name;
		checks[i].run(&d);
	}
	fabric_close(d.f);
	int rc = list_print("findings", d.list, d.common.json);
	return rc ? rc : d.problems ? EXIT_NO : 0;
}
