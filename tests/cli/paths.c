/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls every function that the preload stands in front of, below `simhca run`, and checks that it sees the tree,
 * leaves other paths alone and keeps errno. argv[1]: "on" (the devices are there) or "off" (SIMHCA_ENABLE=0: they are
 * not).
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"
#define ATTR  CLASS "/simhca0/node_type"

static bool on;
static int failed, checked;

/* A call works when the emulator is on, and fails with ENOENT when it is off; it does not touch errno when it works. */
static void check(const char *what, bool worked)
{
	checked++;
	int e = errno;
	if (on ? worked && e == 4711 : !worked && e == ENOENT)
		return;
	failed++;
	printf("FAILED: %s: %s, errno %d\n", what, worked ? "works" : "fails", e);
}

static void that(const char *what, bool truth)
{
	checked++;
	if (truth)
		return;
	failed++;
	printf("FAILED: %s\n", what);
}

#define CHECK(expr)                                                                                                    \
	do {                                                                                                           \
		errno = 4711;                                                                                          \
		bool ok_ = (expr);                                                                                     \
		check(#expr, ok_);                                                                                     \
	} while (0)

static bool close_fd(int fd)
{
	int e = errno;
	char c;
	bool ok = fd >= 0 && read(fd, &c, 1) == 1;
	if (fd >= 0)
		close(fd);
	errno = e;
	return ok;
}

static bool close_file(FILE *f)
{
	int e = errno;
	char line[64];
	bool ok = f && fgets(line, sizeof(line), f) && strcmp(line, "1: CA\n") == 0;
	if (f)
		fclose(f);
	errno = e;
	return ok;
}

static bool free_text(char *text)
{
	int e = errno;
	bool ok = text && *text;
	free(text);
	errno = e;
	return ok;
}

/* Functions that today's headers do not declare, by name; absent ones are not checked. */
#define BY_NAME(name, ...) ((int (*)())(void (*)(void))dlsym(RTLD_DEFAULT, name))(__VA_ARGS__)

static void check_opening(void)
{
	CHECK(close_fd(open(ATTR, O_RDONLY)));
	CHECK(close_fd(open64(ATTR, O_RDONLY)));
	CHECK(close_fd(openat(AT_FDCWD, ATTR, O_RDONLY)));
	CHECK(close_fd(openat64(AT_FDCWD, ATTR, O_RDONLY)));
	CHECK(close_fd(BY_NAME("__open_2", ATTR, O_RDONLY)));
	CHECK(close_fd(BY_NAME("__open64_2", ATTR, O_RDONLY)));
	CHECK(close_fd(BY_NAME("__openat_2", AT_FDCWD, ATTR, O_RDONLY)));
	CHECK(close_fd(BY_NAME("__openat64_2", AT_FDCWD, ATTR, O_RDONLY)));
	CHECK(close_file(fopen(ATTR, "r")));
	CHECK(close_file(fopen64(ATTR, "re")));
	CHECK(close_file(fopen("//sys/class//infiniband/simhca0/node_type", "r")));
	CHECK(close_file(fopen("/sys/class/infiniband_verbs/../infiniband/simhca0/node_type", "r")));
}

static void check_looking(void)
{
	struct stat st;
	struct stat64 st64;
	struct statx stx;
	char buf[PATH_MAX];

	CHECK(stat(ATTR, &st) == 0);
	CHECK(stat64(ATTR, &st64) == 0);
	CHECK(lstat(CLASS "/simhca0", &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(lstat64(CLASS "/simhca0", &st64) == 0);
	CHECK(fstatat(AT_FDCWD, ATTR, &st, 0) == 0);
	CHECK(fstatat64(AT_FDCWD, ATTR, &st64, 0) == 0);
	CHECK(statx(AT_FDCWD, ATTR, 0, STATX_ALL, &stx) == 0);
#ifdef __x86_64__
	if (dlsym(RTLD_DEFAULT, "__xstat")) {
		CHECK(BY_NAME("__xstat", 1, ATTR, &st) == 0);
		CHECK(BY_NAME("__xstat64", 1, ATTR, &st64) == 0);
		CHECK(BY_NAME("__lxstat", 1, ATTR, &st) == 0);
		CHECK(BY_NAME("__lxstat64", 1, ATTR, &st64) == 0);
		CHECK(BY_NAME("__fxstatat", 1, AT_FDCWD, ATTR, &st, 0) == 0);
		CHECK(BY_NAME("__fxstatat64", 1, AT_FDCWD, ATTR, &st64, 0) == 0);
	}
#endif
	CHECK(access(ATTR, R_OK) == 0);
	CHECK(eaccess(ATTR, R_OK) == 0);
	CHECK(euidaccess(ATTR, R_OK) == 0);
	CHECK(faccessat(AT_FDCWD, ATTR, R_OK, 0) == 0);
	CHECK(readlink(CLASS "/simhca0", buf, sizeof(buf)) > 0);
	CHECK(readlinkat(AT_FDCWD, CLASS "/simhca0", buf, sizeof(buf)) > 0);
	/* The C library's realpath leaves what it met on the way in errno. */
	that("free_text(realpath(CLASS \"/simhca0\", NULL))", (free_text(realpath(CLASS "/simhca0", NULL))) == on);
	that("realpath(CLASS \"/simhca0\", buf) != NULL", (realpath(CLASS "/simhca0", buf) != NULL) == on);
	that("free_text(canonicalize_file_name(CLASS \"/simhca0\"))",
	     (free_text(canonicalize_file_name(CLASS "/simhca0"))) == on);
	errno = 0;
	that("getxattr reaches the tree", getxattr(ATTR, "user.none", buf, sizeof(buf)) < 0 && (errno != ENOENT) == on);
	/* The C library's checked variants end in the same calls. */
	ssize_t (*chk)(const char *, char *, size_t, size_t) =
	    (ssize_t(*)(const char *, char *, size_t, size_t))dlsym(RTLD_DEFAULT, "__readlink_chk");
	CHECK(chk(CLASS "/simhca0", buf, sizeof(buf), sizeof(buf)) > 0);
	char *(*rchk)(const char *, char *, size_t) =
	    (char *(*)(const char *, char *, size_t))dlsym(RTLD_DEFAULT, "__realpath_chk");
	that("rchk(CLASS \"/simhca0\", buf, sizeof(buf)) != NULL",
	     (rchk(CLASS "/simhca0", buf, sizeof(buf)) != NULL) == on);
}

static void check_listing(void)
{
	struct dirent **list;
	struct dirent64 **list64;
	struct stat st;
	DIR *dir;

	CHECK((dir = opendir(CLASS)) != NULL);
	if (dir)
		closedir(dir);
	/* scandir reads to the end of the folder and may leave what it likes in errno. */
	that("scandir", (scandir(CLASS, &list, NULL, alphasort) == 4) == on);
	that("scandir64", (scandir64(CLASS "_verbs", &list64, NULL, alphasort64) == 5) == on);
	CHECK(stat("/dev/infiniband/uverbs0", &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(stat("/sys/devices/pci4700:00", &st) == 0);
	CHECK(chdir(CLASS "/simhca0") == 0 && access("ports/1/gids/0", R_OK) == 0);
}

/* What is left alone, on or off. */
static void check_others(void)
{
	struct stat st;
	char big[8192];

	that("a similar name", stat("/sys/class/infinibandx", &st) < 0 && errno == ENOENT);
	that("a similar device", stat("/dev/infiniband0", &st) < 0 && errno == ENOENT);
	that("what the tree lacks", open(CLASS "/simhca0/device/modalias", O_RDONLY) < 0 && errno == ENOENT);
	that("no rdma_cm node", open("/dev/infiniband/rdma_cm", O_RDWR) < 0 && errno == ENOENT);
	memset(big, 'x', sizeof(big) - 1);
	memcpy(big, CLASS "/", strlen(CLASS "/"));
	big[sizeof(big) - 1] = '\0';
	that("a path too long", stat(big, &st) < 0 && errno == ENAMETOOLONG);
	that("/dev/null", stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
	int fd = open("/tmp", O_RDWR | O_TMPFILE, 0640);
	if (fd >= 0) {
		that("the mode of open is handed on", fstat(fd, &st) == 0 && (st.st_mode & 0777) == (0640 & ~022));
		close(fd);
	}
}

static void check_sockets(void)
{
	errno = 0;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 20);
	if (on)
		that("RDMA netlink is refused", fd < 0 && errno == EPROTONOSUPPORT);
	fd = socket(AF_NETLINK, SOCK_RAW, 0);
	that("route netlink is not", fd >= 0);
}

/* Counter files are rendered for each open; the descriptor has the flags that were asked for. */
static void check_counters(void)
{
	char text[32];
	if (!on)
		return;
	int fd = open(CLASS "/simhca0/ports/1/hw_counters/posts", O_RDONLY | O_CLOEXEC);
	that("a counter", fd >= 0 && read(fd, text, sizeof(text)) == 2 && memcmp(text, "0\n", 2) == 0);
	that("close-on-exec", fcntl(fd, F_GETFD) == FD_CLOEXEC);
	fd = open(CLASS "/simhca0/ports/1/counters/tx_bytes", O_RDONLY);
	that("inherited without it", fcntl(fd, F_GETFD) == 0);
	FILE *f = fopen(CLASS "/simhca0/ports/1/state", "r");
	that("port state", f && fgets(text, sizeof(text), f) && strcmp(text, "4: ACTIVE\n") == 0);
	that("no such counter", open(CLASS "/simhca0/ports/1/counters/none", O_RDONLY) < 0 && errno == ENOENT);
}

static void reap(pid_t pid, int expected)
{
	int status;
	that("child", pid > 0 && waitpid(pid, &status, 0) == pid && status == expected);
}

/* Children of fork and vfork end in their different ways; the tree stays for us. */
static void check_children(void)
{
	struct stat st;
	pid_t pid = fork();
	if (pid == 0)
		exit(stat(ATTR, &st) == 0 ? 1 : 2);
	reap(pid, (on ? 1 : 2) << 8);
	pid = fork();
	if (pid == 0)
		_exit(3);
	reap(pid, 3 << 8);
	pid = vfork();
	if (pid == 0)
		_exit(4);
	reap(pid, 4 << 8);
	CHECK(stat(ATTR, &st) == 0);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	on = strcmp(argv[1], "on") == 0;
	umask(022);
	check_opening();
	check_looking();
	check_listing();
	check_others();
	check_sockets();
	check_counters();
	fflush(stdout);
	check_children();
	printf("%d checks, %d failed\n", checked, failed);
	return failed || checked < 40;
}
