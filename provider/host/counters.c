/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counter and port state files. A reader gets the figures of the moment at which it opened the file, whatever the file
 * itself holds: a private memory file with freshly rendered text. The segment is mapped for just this call, so that
 * there is no state to guard against threads, fork or a fabric that ends.
 */
#include "provider/host/host.h"
#include "sim/fabric/fabric.h"
#include "sim/fabric/tree.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* .../ports/<n>/counters/<name>, .../hw_counters/<name>, .../state or .../phys_state of the fabric's tree. */
static bool is_live(const char *path)
{
	static const char *const folders[] = {"/counters", "/hw_counters"};
	static const char *const files[] = {"/state", "/phys_state"};
	size_t dir_len = host_inside(path);
	const char *name = dir_len ? strrchr(path, '/') : NULL;
	if (!name || !strstr(path + dir_len, "/ports/"))
		return false;
	const char *folder = memrchr(path, '/', (size_t)(name - path));
	for (size_t i = 0; folder && i < ARRAY_LEN(folders); i++)
		if (strlen(folders[i]) == (size_t)(name - folder) &&
		    strncmp(folder, folders[i], (size_t)(name - folder)) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (strcmp(name, files[i]) == 0)
			return true;
	return false;
}

static int render(const char *path, char *text, size_t size)
{
	size_t len;
	struct fabric *f;
	const char *dir = host_fabric_dir(&len);
	if (!dir || fabric_open(dir, true, &f, NULL, 0))
		return -1;
	int n = tree_render_counter(f, path, text, size);
	fabric_close(f);
	return n;
}

int host_open_counter(const char *path, int flags)
{
	char text[64];
	if ((flags & (O_ACCMODE | O_DIRECTORY | O_PATH | O_TRUNC)) != O_RDONLY || !is_live(path))
		return -1;
	int saved = errno, fd = -1;
	int n = render(path, text, sizeof(text));
	if (n >= 0)
		fd = memfd_create("simhca-counter", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	if (fd >= 0 && (write(fd, text, (size_t)n) != n || lseek(fd, 0, SEEK_SET) != 0)) {
		close(fd);
		fd = -1;
	}
	errno = saved;
	return fd;
}

FILE *host_fopen_counter(const char *path, const char *mode)
{
	if (!mode || mode[0] != 'r' || strchr(mode, '+'))
		return NULL;
	int saved = errno;
	int fd = host_open_counter(path, strchr(mode, 'e') ? O_CLOEXEC : 0);
	FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (fd >= 0 && !file)
		close(fd);
	errno = saved;
	return file;
}
