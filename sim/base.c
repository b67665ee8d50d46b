/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/base.h"

#include <stdarg.h>
#include <stdio.h>
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
