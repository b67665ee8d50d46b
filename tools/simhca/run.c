/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * simhca run: makes or joins the fabric, tells libibverbs where the provider and the device tree are, and becomes the
 * program. Nothing stays that could get between the program and its terminal, signals or exit status.
 */
#include "tools/simhca/simhca.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* X(word of --mode) */
#define MODES(X) X(preload) X(plain) X(userns)
enum mode {
#define MODE_ENUM(name) MODE_##name,
	MODES(MODE_ENUM)
#undef MODE_ENUM
};
static const char *const mode_names[] = {
#define MODE_NAME(name) #name,
    MODES(MODE_NAME)
#undef MODE_NAME
};

struct run {
	const char *profile, *devices, *fabric, *fabric_file;
	enum mode mode;
	bool prepare;
	char **program; /* argv of the program, or NULL */
};

/* ---- options ---- */

enum { OPT_FABRIC_FILE = 0x100, OPT_MODE, OPT_PREPARE };

static const struct argp_option options[] = {
    {"profile", 'p', "PROFILE", 0,
     "adapter to simulate: a name that `simhca profiles' lists, or a file (default generic)", 0},
    {"devices", 'd', "NAME[=PROFILE],...", 0, "devices to have (default simhca0,simhca1)", 0},
    {"fabric", 'f', "FABRIC", 0, "name of the fabric (default: SIMHCA_FABRIC, else \"default\")", 0},
    {"fabric-file", OPT_FABRIC_FILE, "FILE", 0, "devices, ports, addresses and links from an INI file", 0},
    {"mode", OPT_MODE, "MODE", 0, "how the program sees the devices: preload (default), plain or userns", 0},
    {"prepare", OPT_PREPARE, NULL, 0, "with --mode plain, as root: make the links in /dev/infiniband first", 0},
    {"set", 's', "NAME=VALUE", 0, "a setting that `simhca config' lists, in lower case, for the program (log=1)", 0},
    {0},
};

struct find_setting {
	const char *name;
	size_t len;
	char variable[SETTING_NAME_MAX];
};

/* "log" and "SIMHCA_LOG" both mean SIMHCA_LOG. */
static int match_setting(const struct setting_info *info, void *arg)
{
	struct find_setting *want = arg;
	const char *shortened = info->variable + strlen("SIMHCA_");
	bool same = strlen(info->variable) == want->len && strncasecmp(info->variable, want->name, want->len) == 0;
	bool same_short = strlen(shortened) == want->len && strncasecmp(shortened, want->name, want->len) == 0;
	if (same || same_short)
		snprintf(want->variable, sizeof(want->variable), "%s", info->variable);
	return same || same_short;
}

static void apply_set(char *arg)
{
	static const struct settings none;
	char *equals = strchr(arg, '=');
	struct find_setting want = {.name = arg, .len = equals ? (size_t)(equals - arg) : strlen(arg)};
	if (!equals)
		exit(complain("--set %s: NAME=VALUE expected", arg));
	if (!settings_each(&none, match_setting, &want))
		exit(complain("--set %s: no such setting; `simhca config' lists them", arg));
	if (setenv(want.variable, equals + 1, 1) < 0)
		exit(complain("--set %s: %s", arg, strerror(errno)));
}

static enum mode parse_mode(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(mode_names); i++)
		if (strcmp(word, mode_names[i]) == 0)
			return (enum mode)i;
	exit(complain("--mode %s: preload, plain or userns expected", word));
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct run *run = state->input;
	switch (key) {
	case 'p': run->profile = arg; break;
	case 'd': run->devices = arg; break;
	case 'f': run->fabric = arg; break;
	case 's': apply_set(arg); break;
	case OPT_FABRIC_FILE: run->fabric_file = arg; break;
	case OPT_MODE: run->mode = parse_mode(arg); break;
	case OPT_PREPARE: run->prepare = true; break;
	case ARGP_KEY_ARGS:
		run->program = state->argv + state->next;
		state->next = state->argc;
		break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp_run = {
    .options = options,
    .parser = parse_option,
    .args_doc = "[--] PROGRAM [ARG...]",
    .doc = "Runs PROGRAM on simulated RDMA adapters.\v"
	   "Without -p, -d and --fabric-file the program gets the devices that the fabric has; a new fabric gets "
	   "simhca0 and "
	   "simhca1. The exit status is that of the program; 2 if the setup fails, 127 if there is no such program, "
	   "126 if "
	   "it cannot be executed.",
};

/* ---- devices ---- */

static void device_defaults(struct fab_device_config *dev)
{
	memset(dev, 0, sizeof(*dev));
	dev->num_ports = 1;
	for (size_t i = 0; i < FAB_PORTS_MAX; i++) {
		dev->ports[i].link_layer = -1;
		dev->ports[i].switch_hops = UINT32_MAX;
	}
}

/* The profile of the next device. Read once, however many devices have it: it may be a pipe. */
static int next_profile(struct fab_config *cfg, const char **names, const char *profile)
{
	struct profile *p = &cfg->devices[cfg->num_devices].profile;
	names[cfg->num_devices] = profile;
	for (uint32_t i = 0; i < cfg->num_devices; i++)
		if (strcmp(names[i], profile) == 0) {
			*p = cfg->devices[i].profile;
			return 0;
		}
	return load_profile(profile, p);
}

/* Adds one "NAME" or "NAME=PROFILE" of -d. */
static int add_device(struct fab_config *cfg, const char **names, char *item, const char *profile)
{
	char *equals = strchr(item, '=');
	if (equals) {
		*equals = '\0';
		profile = equals + 1;
		if (!*profile)
			return complain("-d: '%s=' has no profile behind the '='", item);
	}
	if (!*item || strlen(item) >= FAB_NAME_MAX)
		return complain("-d: '%s' is no device name", item);
	if (cfg->num_devices == FAB_DEVICES_MAX)
		return complain("-d: more than %u devices", FAB_DEVICES_MAX);
	for (uint32_t i = 0; i < cfg->num_devices; i++)
		if (strcmp(cfg->devices[i].name, item) == 0)
			return complain("-d: '%s' is named twice", item);

	struct fab_device_config *dev = &cfg->devices[cfg->num_devices];
	device_defaults(dev);
	strcpy(dev->name, item);
	int rc = next_profile(cfg, names, profile);
	cfg->num_devices += !rc;
	return rc;
}

static int devices_from_options(struct fab_config *cfg, const char *devices, const char *profile)
{
	char *list = strdup(devices), *rest = list;
	const char *names[FAB_DEVICES_MAX];
	cfg->devices = calloc(FAB_DEVICES_MAX, sizeof(*cfg->devices));
	int rc = list && cfg->devices ? 0 : complain("out of memory");
	while (!rc && rest)
		rc = add_device(cfg, names, strsep(&rest, ","), profile);
	free(list);
	return rc;
}

/* The folder of the fabrics, absolute: the program may change its directory. */
static int find_base(struct fab_config *cfg, const struct settings *set)
{
	char path[PATH_MAX];
	const char *dir = cfg->base[0] ? cfg->base : set->dir;
	if (!realpath(dir, path))
		return complain("folder of the fabrics: %s: %s", dir, strerror(errno));
	if (strlen(path) >= sizeof(cfg->base))
		return complain("folder of the fabrics: %s is longer than %zu bytes", dir, sizeof(cfg->base) - 1);
	strcpy(cfg->base, path);
	return 0;
}

static int read_config(const struct run *run, const struct settings *set, struct fab_config *cfg)
{
	char err[512];
	int rc = 0;
	if (run->fabric_file) {
		if (run->profile || run->devices)
			return complain("--fabric-file excludes -p and -d: the file names devices and profiles");
		if (fab_config_read(run->fabric_file, cfg, err, sizeof(err)))
			return complain("%s", err);
	} else if (run->profile || run->devices) {
		rc = devices_from_options(cfg, run->devices ? run->devices : "simhca0,simhca1",
					  run->profile ? run->profile : "generic");
	}
	if (!rc)
		rc = find_base(cfg, set);
	if (run->fabric || !cfg->name[0]) {
		const char *name = fabric_name(set, run->fabric);
		if (!*name || strlen(name) >= sizeof(cfg->name))
			return complain("-f: '%s' is no fabric name", name);
		snprintf(cfg->name, sizeof(cfg->name), "%s", name);
	}
	return rc;
}

/* The device in a slot of the fabric, or NULL. */
static const struct seg_device *device_at(struct fabric *f, uint32_t i)
{
	const struct seg_device *dev = &fabric_seg(f)->devices[i];
	return atomic_load_explicit(&dev->used, memory_order_acquire) ? dev : NULL; /* pairs: release by the maker */
}

static uint32_t count_devices(struct fabric *f)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++)
		n += device_at(f, i) != NULL;
	return n;
}

static bool asked_for(const struct fab_config *cfg, const struct seg_device *dev)
{
	for (uint32_t i = 0; i < cfg->num_devices; i++)
		if (strncmp(cfg->devices[i].name, dev->name, FAB_NAME_MAX) == 0)
			return true;
	return false;
}

/* -p alone names no device: who takes the first one may get one of another profile that was there before. */
static void note_other_devices(const struct run *run, const struct fab_config *cfg, struct fabric *f)
{
	const char *profile = run->profile && !run->devices ? cfg->devices[0].profile.name : NULL;
	for (uint32_t i = 0; profile && i < FAB_DEVICES_MAX; i++) {
		const struct seg_device *dev = device_at(f, i);
		if (!dev || asked_for(cfg, dev) || strncmp(dev->profile, profile, FAB_NAME_MAX) == 0)
			continue;
		complain("note: fabric '%s' was there with other devices (%.*s is %.*s): the first one listed may not "
			 "be %s; -f gives a fabric of its own",
			 cfg->name, FAB_NAME_MAX, dev->name, FAB_NAME_MAX, dev->profile, profile);
		return;
	}
}

/* In the way is what another process left or uses: which one, and how to get round it. */
static int complain_exists(const struct fab_config *cfg, const char *err)
{
	char dir[PATH_MAX], pids[256];
	fabric_dir(cfg->base, cfg->name, dir, sizeof(dir));
	fabric_pids(dir, pids, sizeof(pids));
	return complain("%s; fabric '%s' is used by process %s; -f NAME gives another fabric", err, cfg->name,
			*pids ? pids : "(none to be seen)");
}

/* Joins or makes the fabric; one that is new and was told of no devices gets the default ones. */
static int ensure_fabric(const struct run *run, struct fab_config *cfg, struct fabric **f)
{
	char err[512];
	int ensured = fabric_ensure(cfg, true, f, err, sizeof(err));
	if (ensured)
		return ensured == -EEXIST ? complain_exists(cfg, err) : complain("%s", err);
	note_other_devices(run, cfg, *f);
	if (cfg->num_devices || count_devices(*f))
		return 0;
	int rc = devices_from_options(cfg, "simhca0,simhca1", "generic");
	fabric_close(*f);
	*f = NULL;
	if (rc)
		return rc;
	return fabric_ensure(cfg, true, f, err, sizeof(err)) ? complain("%s", err) : 0;
}

/* ---- environment ---- */

static void set_env(const char *name, const char *value)
{
	if (setenv(name, value, 1) < 0)
		exit(complain("%s: %s", name, strerror(errno)));
}

/* Is `item` an element of the list? */
static bool listed(const char *list, const char *separators, const char *item)
{
	size_t len = strlen(item);
	while (*list) {
		size_t n = strcspn(list, separators);
		if (n == len && strncmp(list, item, n) == 0)
			return true;
		list += n;
		list += strspn(list, separators);
	}
	return false;
}

/* Puts item into the variable's list, at its front or end, unless it is there already. */
static void list_env(const char *name, const char *separators, const char *item, bool front)
{
	const char *old = getenv(name);
	char *list;
	if (!old || !*old) {
		set_env(name, item);
		return;
	}
	if (listed(old, separators, item))
		return;
	if (asprintf(&list, "%s%c%s", front ? item : old, separators[0], front ? old : item) < 0)
		exit(complain("out of memory"));
	set_env(name, list);
	free(list);
}

/*
 * A shared sanitizer runtime insists on being first: that of the program once there is a preload, and that of our own
 * provider if this is a sanitizer build, which the program's process will load.
 */
static void put_runtimes_first(const struct files *files, const char *program)
{
	static const char *const runtimes[] = {"libasan.so", "libtsan.so"};
	char soname[256], path[PATH_MAX];
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++) {
		const char *old = getenv("LD_PRELOAD");
		if (!(old && *old && elf_needs(program, runtimes[i], soname, sizeof(soname))) &&
		    !elf_needs(files->provider, runtimes[i], soname, sizeof(soname)))
			continue;
		if (old && strstr(old, soname))
			continue;
		elf_resolve(soname, path, sizeof(path));
		list_env("LD_PRELOAD", ": ", path, true);
	}
}

/*
 * The preload goes behind what the user preloads already. Programs started later, say by a script, cannot be known
 * here; for them the address sanitizer is told not to insist.
 */
static void set_preload(const struct files *files)
{
	list_env("LD_PRELOAD", ": ", files->preload, false);
	const char *asan = getenv("ASAN_OPTIONS");
	if (!asan || !strstr(asan, "verify_asan_link_order"))
		list_env("ASAN_OPTIONS", ":", "verify_asan_link_order=0", false);
}

/* The program inherits the descriptor that holds the fabric, at a number where it does not expect one of its own. */
static int inherit_lock(int fd)
{
	static const int places[] = {700, 200, 50, 10};
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		int moved = fcntl(fd, F_DUPFD, places[i]);
		if (moved < 0)
			continue;
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		return moved;
	}
	return fd;
}

static void set_environment(const struct run *run, const struct files *files, const struct fab_config *cfg,
			    struct fabric *f, int lock_fd, const char *program)
{
	char text[PATH_MAX + 8];
	list_env("RDMAV_DRIVERS", ":;", files->driver, true);
	snprintf(text, sizeof(text), "%s/sys", fabric_path(f));
	set_env("SYSFS_PATH", text);
	set_env("SIMHCA_DIR", cfg->base);
	set_env("SIMHCA_FABRIC", cfg->name);
	set_env("SIMHCA_FABRIC_DIR", fabric_path(f));
	snprintf(text, sizeof(text), "%d", lock_fd);
	set_env("SIMHCA_LOCK_FD", text);
	if (run->mode == MODE_preload)
		set_preload(files);
	put_runtimes_first(files, program);
}

/* ---- the program ---- */

/* Path of the program as execvp would find it. 0, or the exit status with a complaint. */
static int find_program(const char *name, char *path, size_t size)
{
	struct stat st;
	if (strchr(name, '/')) {
		snprintf(path, size, "%s", name);
		if (stat(name, &st) == 0)
			return 0;
		int rc = errno == EACCES ? EXIT_NOEXEC : EXIT_NOPROG;
		complain("%s: %s", name, strerror(errno));
		return rc;
	}
	const char *dirs = getenv("PATH");
	for (dirs = dirs ? dirs : "/bin:/usr/bin"; *name && *dirs;) {
		size_t n = strcspn(dirs, ":");
		int len = snprintf(path, size, "%.*s%s%s", (int)n, dirs, n ? "/" : "", name);
		if (len > 0 && (size_t)len < size && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
		    access(path, X_OK) == 0)
			return 0;
		dirs += n + (dirs[n] == ':');
	}
	complain("%s: program not found", name);
	return EXIT_NOPROG;
}

static int check_files(const struct run *run, const struct files *files)
{
	if (!files->has_provider)
		return complain("missing %s (the provider)", files->provider);
	if (run->mode == MODE_preload && !files->has_preload)
		return complain("missing %s (the preload)", files->preload);
	if (strpbrk(files->lib_dir, ":; "))
		return complain("%s: libraries cannot be loaded from a folder with ':', ';' or space in its name",
				files->lib_dir);
	if (run->mode != MODE_preload && rdma_netlink_present())
		return complain(
		    "the kernel of this machine answers RDMA netlink, which hides simulated devices in mode %s; "
		    "use --mode preload",
		    mode_names[run->mode]);
	return 0;
}

/* The command that makes the links for this fabric: with the options that tell which devices there are. */
static int complain_plain(const struct run *run, struct fabric *f, const char *what)
{
	char text[512] = "", *at = text;
	const char *const end = text + sizeof(text);
#define ADD(...) (at += MIN(snprintf(at, (size_t)(end - at), __VA_ARGS__), (int)(end - at) - 1))
	if (strcmp(fabric_seg(f)->name, "default") != 0)
		ADD(" -f %.*s", FAB_NAME_MAX, fabric_seg(f)->name);
	if (run->fabric_file)
		ADD(" --fabric-file %s", run->fabric_file);
	if (run->profile)
		ADD(" -p %s", run->profile);
	if (run->devices)
		ADD(" -d %s", run->devices);
	/* Devices that the fabric had already: root's own fabric of this name is another one. */
	else if (!run->fabric_file && count_devices(f) > 2)
		for (uint32_t i = 0, n = 0; i < FAB_DEVICES_MAX; i++) {
			const struct seg_device *dev = device_at(f, i);
			if (dev)
				ADD("%s%.*s=%.*s", n++ ? "," : " -d ", FAB_NAME_MAX, dev->name, FAB_NAME_MAX,
				    dev->profile);
		}
#undef ADD
	return complain("mode plain: %s; as root: simhca run --mode plain --prepare%s", what, text);
}

static int enter_mode(const struct run *run, struct fabric *f)
{
	const char *dir = fabric_path(f);
	char what[PATH_MAX + 64];
	int rc = 0;
	if (run->mode == MODE_userns)
		return mode_userns_enter(dir);
	if (run->prepare)
		rc = mode_plain_prepare(dir);
	if (!rc && run->mode == MODE_plain && mode_plain_lacks(dir, what, sizeof(what)))
		rc = *what ? complain_plain(run, f, what) : EXIT_SETUP;
	return rc;
}

/* Below another `simhca run`: this process gives back what it holds of that fabric, before it becomes the program. */
static void leave_outer(void)
{
	const char *dir = getenv("SIMHCA_FABRIC_DIR"), *text = getenv("SIMHCA_LOCK_FD");
	void (*let_go)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "simhca_host_let_go");
	char path[PATH_MAX];
	struct stat held, lock;
	if (!dir || !text)
		return;
	if (let_go) {
		let_go();
		return;
	}
	int fd = atoi(text);
	snprintf(path, sizeof(path), "%s/lock", dir);
	if (fstat(fd, &held) == 0 && stat(path, &lock) == 0 && held.st_dev == lock.st_dev && held.st_ino == lock.st_ino)
		fabric_release_fd(dir, fd);
}

/*
 * Without the preload nobody inside the program gives the fabric back at its end. A process of no terminal waits until
 * the fabric's last user has gone, however it went, and removes it. It is nobody's child, so that the program, which
 * takes this process over, does not find one that it did not start.
 */
static void watch_fabric(const char *dir)
{
	pid_t pid = fork();
	if (pid > 0)
		waitpid(pid, NULL, 0);
	if (pid != 0)
		return; /* no watcher: the next simhca sweeps */
	if (fork() != 0)
		_exit(0);
	setsid();
	leave_outer();
	if (chdir("/") == 0 && close_range(0, ~0u, 0) == 0)
		fabric_wait_and_remove(dir);
	_exit(0);
}

/* Does not return if all goes well. */
static int become(const struct run *run, const struct files *files, const struct fab_config *cfg, struct fabric *f,
		  const char *program)
{
	int lock_fd = inherit_lock(fabric_lock_fd(f));
	leave_outer();
	set_environment(run, files, cfg, f, lock_fd, program);
	execvp(run->program[0], run->program);
	int rc = errno == ENOENT ? EXIT_NOPROG : EXIT_NOEXEC;
	complain("%s: %s", run->program[0], strerror(errno));
	if (lock_fd != fabric_lock_fd(f))
		close(lock_fd);
	return rc;
}

int cmd_run(int argc, char **argv)
{
	struct run run = {.mode = MODE_preload};
	struct settings set;
	struct files files;
	struct fab_config cfg = {0};
	struct fabric *f = NULL;
	char program[PATH_MAX];

	if (argp_parse(&argp_run, argc, argv, ARGP_IN_ORDER, NULL, &run))
		return EXIT_SETUP;
	if (run.prepare && run.mode != MODE_plain)
		return complain("--prepare goes with --mode plain");
	if (!run.program && !run.prepare)
		return complain("no program given; simhca run --help shows how");
	int rc = load_settings(&set);
	if (!rc && run.program)
		rc = find_program(run.program[0], program, sizeof(program));
	if (rc)
		return rc;
	find_files(&files);
	rc = check_files(&run, &files);
	if (!rc)
		rc = read_config(&run, &set, &cfg);
	if (!rc)
		rc = ensure_fabric(&run, &cfg, &f);
	if (!rc && run.program && run.mode != MODE_preload)
		watch_fabric(fabric_path(f));
	if (!rc)
		rc = enter_mode(&run, f);
	if (!rc && run.program)
		rc = become(&run, &files, &cfg, f, program);
	fabric_close(f);
	free(cfg.devices);
	return rc;
}
