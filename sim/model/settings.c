/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sim/model/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum setting_type { S_NAME, S_PATH, S_BOOL, S_U32, S_POW2, S_U64, S_CLOCK, S_WIRE };

static const struct setting {
	const char *variable;
	enum setting_type type;
	size_t offset;
	const char *def;
	uint64_t min, max;
	const char *help;
} table[] = {
#define SETTING_ROW(field, variable, type, def, min, max, help)                                                        \
	{variable, S_##type, offsetof(struct settings, field), def, min, max, help},
    SETTINGS(SETTING_ROW)
#undef SETTING_ROW
};

static const struct {
	const char *name;
	size_t offset;
} wire_words[] = {
    {"drop", offsetof(struct wire_test, drop)},
    {"dup", offsetof(struct wire_test, dup)},
    {"swap", offsetof(struct wire_test, swap)},
    {"seed", offsetof(struct wire_test, seed)},
};

static void describe(const struct setting *row, char *buf, size_t size)
{
	unsigned long long min = row->min, max = row->max;

	switch (row->type) {
	case S_NAME:
		snprintf(buf, size, "at most %d letters, digits, '.', '_', '-', not first a '.'", SETTING_NAME_MAX - 1);
		break;
	case S_PATH: snprintf(buf, size, "a path of at most %d bytes", SETTING_PATH_MAX - 1); break;
	case S_BOOL: snprintf(buf, size, "0 or 1"); break;
	case S_U32: snprintf(buf, size, "%llu to %llu", min, max); break;
	case S_POW2: snprintf(buf, size, "%llu to %llu, a power of two", min, max); break;
	case S_U64: snprintf(buf, size, "a number of at most 64 bits"); break;
	case S_CLOCK: snprintf(buf, size, "real"); break;
	case S_WIRE: snprintf(buf, size, "drop=N,dup=N,swap=N,seed=N, any of them, N from 1 to 4294967295"); break;
	}
}

/* Decimal digits up to `end`, within min..max. */
static bool parse_range(const char *text, const char *end, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (text == end)
		return false;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return false;
	}
	*out = value;
	return value >= min && value <= max;
}

static bool parse_name(const char *text, char *field)
{
	if (strlen(text) >= SETTING_NAME_MAX || *text == '.')
		return false;
	for (const char *c = text; *c; c++)
		if (!isascii((unsigned char)*c) || !(isalnum((unsigned char)*c) || strchr("._-", *c)))
			return false;
	strncpy(field, text, SETTING_NAME_MAX);
	return true;
}

/* One "word=N" of the wire test, [text, end). */
static bool parse_wire_item(const char *text, const char *end, struct wire_test *wire)
{
	for (size_t i = 0; i < ARRAY_LEN(wire_words); i++) {
		size_t len = strlen(wire_words[i].name);
		uint32_t *field = (uint32_t *)(void *)((char *)wire + wire_words[i].offset);
		uint64_t n;
		if ((size_t)(end - text) <= len || strncmp(text, wire_words[i].name, len) || text[len] != '=')
			continue;
		if (*field || !parse_range(text + len + 1, end, 1, UINT32_MAX, &n))
			return false;
		*field = (uint32_t)n;
		return true;
	}
	return false;
}

static bool parse_wire(const char *text, struct wire_test *wire)
{
	*wire = (struct wire_test){0};
	if (!*text)
		return true;
	for (;;) {
		const char *end = strchrnul(text, ',');
		if (!parse_wire_item(text, end, wire))
			return false;
		if (!*end)
			return true;
		text = end + 1;
	}
}

static int parse_clock(const char *text, enum sim_clock *clock)
{
	*clock = SIM_CLOCK_REAL;
	if (!strcmp(text, "virtual"))
		return -EOPNOTSUPP;
	return strcmp(text, "real") ? -EINVAL : 0;
}

/* 0 or negative errno. */
static int parse(const struct setting *row, const char *text, struct settings *s)
{
	void *field = (char *)s + row->offset;
	const char *end = text + strlen(text);
	uint64_t n;

	switch (row->type) {
	case S_NAME: return parse_name(text, field) ? 0 : -EINVAL;
	case S_PATH:
		if (strlen(text) >= SETTING_PATH_MAX)
			return -EINVAL;
		strncpy(field, text, SETTING_PATH_MAX);
		return 0;
	case S_CLOCK: return parse_clock(text, field);
	case S_WIRE: return parse_wire(text, field) ? 0 : -EINVAL;
	default: break;
	}
	if (!parse_range(text, end, row->min, row->max, &n) || (row->type == S_POW2 && (n & (n - 1))) ||
	    (row->type == S_BOOL && text[1]))
		return -EINVAL;
	switch (row->type) {
	case S_BOOL: *(bool *)field = n; break;
	case S_U64: *(uint64_t *)field = n; break;
	default: *(uint32_t *)field = (uint32_t)n; break;
	}
	return 0;
}

static void format_wire(const struct wire_test *wire, char *buf, size_t size)
{
	size_t len = 0;

	*buf = '\0';
	for (size_t i = 0; i < ARRAY_LEN(wire_words); i++) {
		uint32_t n = *(const uint32_t *)(const void *)((const char *)wire + wire_words[i].offset);
		if (n && len < size)
			len +=
			    (size_t)snprintf(buf + len, size - len, "%s%s=%u", len ? "," : "", wire_words[i].name, n);
	}
}

static void format(const struct setting *row, const struct settings *s, char *buf, size_t size)
{
	const void *field = (const char *)s + row->offset;

	switch (row->type) {
	case S_NAME:
	case S_PATH: snprintf(buf, size, "%s", (const char *)field); break;
	case S_BOOL: snprintf(buf, size, "%d", *(const bool *)field); break;
	case S_U32:
	case S_POW2: snprintf(buf, size, "%u", *(const uint32_t *)field); break;
	case S_U64: snprintf(buf, size, "%llu", (unsigned long long)*(const uint64_t *)field); break;
	case S_CLOCK:
		snprintf(buf, size, "%s", *(const enum sim_clock *)field == SIM_CLOCK_REAL ? "real" : "virtual");
		break;
	case S_WIRE: format_wire(field, buf, size); break;
	}
}

static int complain(const struct setting *row, const char *value, int rc, char *err, size_t err_size)
{
	char accepted[128];

	describe(row, accepted, sizeof(accepted));
	if (rc == -EOPNOTSUPP)
		snprintf(err, err_size, "%s=%s: not available yet, accepted: %s", row->variable, value, accepted);
	else
		snprintf(err, err_size, "%s=%s: accepted: %s", row->variable, value, accepted);
	return rc;
}

int settings_load(struct settings *s, char *err, size_t err_size)
{
	memset(s, 0, sizeof(*s));
	if (err_size)
		*err = '\0';
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		const char *value = secure_getenv(table[i].variable);
		int rc = parse(&table[i], value ? value : table[i].def, s);
		if (rc)
			return complain(&table[i], value ? value : table[i].def, rc, err, err_size);
	}
	return 0;
}

int settings_each(const struct settings *s, int (*fn)(const struct setting_info *info, void *arg), void *arg)
{
	char accepted[128], value[SETTING_PATH_MAX];
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(table) && !rc; i++) {
		describe(&table[i], accepted, sizeof(accepted));
		format(&table[i], s, value, sizeof(value));
		const struct setting_info info = {.variable = table[i].variable,
						  .accepted = accepted,
						  .value = value,
						  .def = table[i].def,
						  .is_set = secure_getenv(table[i].variable) != NULL,
						  .help = table[i].help};
		rc = fn(&info, arg);
	}
	return rc;
}
