/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reader of fabric files:
 *
 *   [fabric]
 *   name = lab
 *
 *   [device mlx5_0]
 *   profile = connectx6dx        a profile's name or path; a relative path starts at the folder of the fabric file
 *   ports = 2                    1 or 2, default 1
 *
 *   [port mlx5_0:1]
 *   link_layer = ethernet        or infiniband; default: the profile's
 *   link_Gbps = 100              default: the profile's
 *   switch_hops = 1              default: the profile's
 *   address = 127.47.1.1         IPv4; default 127.47.<device from 1>.<port>
 *   state = up                   or down
 */
#include "sim/fabric/private.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <infiniband/verbs.h>
#include <ini.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum section { SEC_NONE, SEC_FABRIC, SEC_DEVICE, SEC_PORT };

struct reader {
	const char *path;
	FILE *file;
	struct fab_config *cfg;
	char *err;
	size_t err_size;
	int line; /* being read, from 1 */
	int rc;	  /* of the first error; nothing more is looked at */
	enum section section;
	uint32_t device, port;
	bool has_profile[FAB_DEVICES_MAX];
	int device_line[FAB_DEVICES_MAX];
	int port_line[FAB_DEVICES_MAX];		/* of the last port section of the device */
	uint32_t highest_port[FAB_DEVICES_MAX]; /* named by a port section */
};

static void fail_at(struct reader *r, int line, int rc, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void fail_at(struct reader *r, int line, int rc, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (r->rc)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->rc = fab_fail(rc, r->err, r->err_size, "%s:%d: %s", r->path, line, text);
}

#define fail(r, ...) fail_at(r, (r)->line, -EINVAL, __VA_ARGS__)

/* ---- values ---- */

static bool parse_u32(struct reader *r, const char *key, const char *value, uint32_t min, uint32_t max, uint32_t *out)
{
	char *end;

	errno = 0;
	unsigned long long v = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || errno || v < min || v > max) {
		fail(r, "%s = '%s' is not a number from %u to %u", key, value, min, max);
		return false;
	}
	*out = (uint32_t)v;
	return true;
}

static void set_fabric(struct reader *r, const char *key, const char *value)
{
	if (strcmp(key, "name"))
		fail(r, "unknown key '%s' in [fabric]", key);
	else if (!fab_name_ok(value))
		fail(r, "name = '%s': letters, digits, '.', '_' and '-' only, at most %u", value, FAB_NAME_MAX - 1);
	else
		fab_copy_name(r->cfg->name, sizeof(r->cfg->name), value);
}

/* A path that is relative starts at the folder of the fabric file, so that the two can be moved together. */
static void set_profile(struct reader *r, const char *value)
{
	const char *slash = strrchr(r->path, '/');
	char path[PATH_MAX], why[256];
	bool relative = profile_is_path(value) && *value != '/';
	int folder_len = slash && relative ? (int)(slash + 1 - r->path) : 0;

	r->has_profile[r->device] = true;
	if (snprintf(path, sizeof(path), "%.*s%s", folder_len, r->path, value) >= (int)sizeof(path)) {
		fail(r, "profile: the path is too long");
		return;
	}
	int rc = profile_load(path, &r->cfg->devices[r->device].profile, why, sizeof(why));
	if (rc)
		fail_at(r, r->line, rc, "%s", why);
}

static void set_device(struct reader *r, const char *key, const char *value)
{
	struct fab_device_config *d = &r->cfg->devices[r->device];

	if (!strcmp(key, "ports"))
		parse_u32(r, key, value, 1, FAB_PORTS_MAX, &d->num_ports);
	else if (!strcmp(key, "profile"))
		set_profile(r, value);
	else
		fail(r, "unknown key '%s' in [device %s]", key, d->name);
}

static void set_address(struct reader *r, char *to, size_t size, const char *value)
{
	struct in_addr addr;

	if (inet_pton(AF_INET, value, &addr) != 1) {
		fail(r, "address = '%s' is not an IPv4 address", value);
		return;
	}
	for (uint32_t d = 0; d < r->cfg->num_devices; d++)
		for (uint32_t p = 0; p < FAB_PORTS_MAX; p++)
			if (r->cfg->devices[d].ports[p].address != to &&
			    !strcmp(r->cfg->devices[d].ports[p].address, value))
				fail(r, "address %s is already that of %s:%u", value, r->cfg->devices[d].name, p + 1);
	fab_copy_name(to, size, value);
}

/* Index of a word in a list, or -1 after reporting. */
static int parse_word(struct reader *r, const char *key, const char *value, const char *a, const char *b)
{
	if (!strcmp(value, a))
		return 0;
	if (!strcmp(value, b))
		return 1;
	fail(r, "%s = '%s' is neither %s nor %s", key, value, a, b);
	return -1;
}

static void set_port(struct reader *r, const char *key, const char *value)
{
	struct fab_device_config *d = &r->cfg->devices[r->device];

	if (!strcmp(key, "link_layer")) {
		int word = parse_word(r, key, value, "ethernet", "infiniband");
		d->ports[r->port].link_layer = word == 1 ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
	} else if (!strcmp(key, "state")) {
		d->ports[r->port].down = parse_word(r, key, value, "up", "down") == 1;
	} else if (!strcmp(key, "link_Gbps")) {
		parse_u32(r, key, value, 1, 100000, &d->ports[r->port].link_Gbps);
	} else if (!strcmp(key, "switch_hops")) {
		parse_u32(r, key, value, 0, 1000, &d->ports[r->port].switch_hops);
	} else if (!strcmp(key, "address")) {
		set_address(r, d->ports[r->port].address, sizeof(d->ports[0].address), value);
	} else {
		fail(r, "unknown key '%s' in [port %s:%u]", key, d->name, r->port + 1);
	}
}

/* ---- sections ---- */

static int find_device(const struct fab_config *cfg, const char *name)
{
	for (uint32_t i = 0; i < cfg->num_devices; i++)
		if (!strcmp(cfg->devices[i].name, name))
			return (int)i;
	return -1;
}

static void begin_device(struct reader *r, const char *name)
{
	struct fab_config *cfg = r->cfg;

	if (!fab_name_ok(name)) {
		fail(r, "device name '%s': letters, digits, '.', '_' and '-' only, at most %u", name, FAB_NAME_MAX - 1);
	} else if (find_device(cfg, name) >= 0) {
		fail(r, "[device %s] appears twice", name);
	} else if (cfg->num_devices == FAB_DEVICES_MAX) {
		fail(r, "more than %u devices", FAB_DEVICES_MAX);
	} else {
		struct fab_device_config *d = &cfg->devices[cfg->num_devices];
		fab_copy_name(d->name, sizeof(d->name), name);
		d->num_ports = 1;
		for (uint32_t p = 0; p < FAB_PORTS_MAX; p++) {
			d->ports[p].link_layer = -1;
			d->ports[p].switch_hops = UINT32_MAX;
		}
		r->section = SEC_DEVICE;
		r->device_line[cfg->num_devices] = r->line;
		r->device = cfg->num_devices++;
	}
}

static void begin_port(struct reader *r, char *name)
{
	char *colon = strrchr(name, ':');
	uint32_t port;

	if (!colon) {
		fail(r, "[port %s]: a port is named DEVICE:NUMBER", name);
		return;
	}
	*colon = 0;
	int device = find_device(r->cfg, name);
	if (device < 0) {
		fail(r, "[port %s:%s]: there is no [device %s] before it", name, colon + 1, name);
		return;
	}
	if (!parse_u32(r, "port number", colon + 1, 1, FAB_PORTS_MAX, &port))
		return;
	r->section = SEC_PORT;
	r->device = (uint32_t)device;
	r->port = port - 1;
	if (port > r->highest_port[device]) {
		r->highest_port[device] = port;
		r->port_line[device] = r->line;
	}
}

/* A line "[...]". Sections are looked at here and not when their first key comes: an empty one counts as well. */
static void begin_section(struct reader *r, const char *line)
{
	char name[2 * FAB_NAME_MAX], *end;

	fab_copy_name(name, sizeof(name), line + 1);
	end = strchr(name, ']');
	if (!end) {
		fail(r, "a section starts with '[' and ends with ']'");
		return;
	}
	*end = 0;
	char *word = strtok_r(name, " \t", &end), *arg = strtok_r(NULL, " \t", &end);
	bool more = arg && strtok_r(NULL, " \t", &end);
	r->section = SEC_NONE;
	if (word && !strcmp(word, "fabric") && !arg)
		r->section = SEC_FABRIC;
	else if (word && !strcmp(word, "device") && arg && !more)
		begin_device(r, arg);
	else if (word && !strcmp(word, "port") && arg && !more)
		begin_port(r, arg);
	else
		fail(r, "unknown section; there are [fabric], [device NAME] and [port NAME:NUMBER]");
}

/* ---- the file ---- */

static int on_key(void *user, const char *section, const char *key, const char *value)
{
	struct reader *r = user;

	(void)section;
	if (r->rc)
		return 0;
	switch (r->section) {
	case SEC_FABRIC: set_fabric(r, key, value); break;
	case SEC_DEVICE: set_device(r, key, value); break;
	case SEC_PORT: set_port(r, key, value); break;
	case SEC_NONE:
	default: fail(r, "'%s' belongs to no section", key);
	}
	return !r->rc;
}

/* Gives libinih one line without its indentation, which would otherwise make it a continuation of the line before. */
static char *next_line(char *buf, int size, void *user)
{
	struct reader *r = user;
	char *line = NULL, *result = NULL;
	size_t room = 0;
	ssize_t len = r->rc ? -1 : getline(&line, &room, r->file);

	if (len >= 0) {
		r->line++;
		char *start = line + strspn(line, " \t");
		if (strlen(line) != (size_t)len) {
			fail(r, "a zero byte: this is no text file");
		} else if (strlen(start) >= (size_t)size) {
			fail(r, "the line is longer than %d characters", size - 2);
		} else {
			if (*start == '[')
				begin_section(r, start);
			memcpy(buf, start, strlen(start) + 1);
			result = r->rc ? NULL : buf;
		}
	}
	free(line);
	return result;
}

static void check_whole(struct reader *r)
{
	struct fab_config *cfg = r->cfg;

	for (uint32_t i = 0; i < cfg->num_devices; i++) {
		if (!r->has_profile[i])
			fail_at(r, r->device_line[i], -EINVAL, "[device %s] has no profile", cfg->devices[i].name);
		if (r->highest_port[i] > cfg->devices[i].num_ports)
			fail_at(r, r->port_line[i], -EINVAL, "[port %s:%u]: the device has %u port",
				cfg->devices[i].name, r->highest_port[i], cfg->devices[i].num_ports);
	}
	if (!cfg->num_devices)
		fail_at(r, r->line, -EINVAL, "no device");
}

void fab_config_free(struct fab_config *cfg)
{
	free(cfg->devices);
	cfg->devices = NULL;
	cfg->num_devices = 0;
}

int fab_config_read(const char *path, struct fab_config *cfg, char *err, size_t err_size)
{
	struct reader r = {.path = path, .cfg = cfg, .err = err, .err_size = err_size};

	cfg->num_devices = 0;
	cfg->devices = calloc(FAB_DEVICES_MAX, sizeof(*cfg->devices));
	if (!cfg->devices)
		return fab_fail(-ENOMEM, err, err_size, "%s: out of memory", path);
	r.file = text_open(path);
	if (!r.file) {
		r.rc = -errno;
		fab_fail(r.rc, err, err_size, "%s: %s", path, strerror(-r.rc));
	} else {
		int line = ini_parse_stream(next_line, &r, on_key, &r);
		if (line > 0)
			fail_at(&r, line, -EINVAL, "neither a section nor key = value");
		else if (line < 0)
			fail_at(&r, r.line, -ENOMEM, "out of memory");
		if (ferror(r.file))
			fail_at(&r, r.line, -EIO, "cannot be read");
		check_whole(&r);
	}
	if (r.file)
		fclose(r.file);
	if (r.rc)
		fab_config_free(cfg);
	return r.rc;
}
