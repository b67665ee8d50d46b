/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/base.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

int sim_log_level = LOG_SILENT;

void sim_log_line(const char *fmt, ...)
{
	static const char prefix[] = "simhca: ";
	char line[512];
	int saved = errno;
	size_t len = sizeof(prefix) - 1;

	__builtin_memcpy(line, prefix, len);
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
	va_end(ap);
	if (n > 0)
		len += MIN((size_t)n, sizeof(line) - len - 2);
	line[len++] = '\n';
	for (size_t done = 0; done < len;) {
		ssize_t w = write(STDERR_FILENO, line + done, len - done);
		if (w <= 0)
			break;
		done += (size_t)w;
	}
	errno = saved;
}

#define TEXT_MAX_B (1u << 20)

/* All of it, at most TEXT_MAX_B. Bytes, or -1 with errno. */
static ssize_t read_all(int fd, char *text)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, TEXT_MAX_B + 1 - len)) > 0)
		len += (size_t)n;
	if (n == 0 && len > TEXT_MAX_B) {
		errno = EFBIG;
		n = -1;
	}
	return n < 0 ? -1 : (ssize_t)len;
}

FILE *text_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = fd < 0 ? NULL : malloc(TEXT_MAX_B + 1);
	ssize_t len = text ? read_all(fd, text) : -1;
	/* A buffer of its own, which goes with the stream; one byte more, for none would be refused. */
	FILE *stream = len < 0 ? NULL : fmemopen(NULL, (size_t)len + 1, "w+");
	int saved = errno;

	if (stream) {
		fwrite(text, 1, (size_t)len, stream);
		rewind(stream);
	}
	free(text);
	if (fd >= 0)
		close(fd);
	errno = saved;
	return stream;
}
