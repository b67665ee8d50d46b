/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sim/model/profile.h"

#include <dirent.h>
#include <ini.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/model/model.h"

/* Folders compiled in; a build without them has only $SIMHCA_PROFILES and paths. */
#ifndef SIMHCA_PROFILE_INSTALL_DIR
#define SIMHCA_PROFILE_INSTALL_DIR ""
#endif
#ifndef SIMHCA_PROFILE_SOURCE_DIR
#define SIMHCA_PROFILE_SOURCE_DIR ""
#endif

/* ---- the key table as data ------------------------------------------------------------------------------ */

/* Spellings of the value sets, in the order of their enums. */
#define PROFILE_SETS(X)                                                                                                \
	X(node_type, "ca, rnic or unspecified", "ca", "rnic", "unspecified")                                           \
	X(link, "ethernet or infiniband", "ethernet", "infiniband")                                                    \
	X(atomic, "none, hca or glob", "none", "hca", "glob")                                                          \
	X(policy, "echo, mlx5, irdma or rxe", "echo", "mlx5", "irdma", "rxe")                                          \
	X(wqe, "plain, mlx5, irdma, erdma or rxe", "plain", "mlx5", "irdma", "erdma", "rxe")                           \
	X(doorbell, "register, blueflame, push_page or syscall", "register", "blueflame", "push_page", "syscall")      \
	X(sq_counts, "wr or blocks", "wr", "blocks")                                                                   \
	X(compare, "grant or constant", "grant", "constant")

enum value_type {
	T_U32,
	T_HEX32,
	T_U64,
	T_BOOL,
	T_STR,
	T_ERRNO,
	T_PS,
	T_MBPS,
	T_GBPS,
	T_FRAC,
#define SET_TYPE(set, ...) T_E_##set,
	PROFILE_SETS(SET_TYPE)
#undef SET_TYPE
	    T_COUNT
};

#define SET_WORDS(set, accepted, ...) static const char *const words_##set[] = {__VA_ARGS__, NULL};
PROFILE_SETS(SET_WORDS)
#undef SET_WORDS

static const struct {
	const char *accepted;
	const char *const *words; /* of a set, or NULL */
} value_types[T_COUNT] = {[T_U32] = {"a number up to 4294967295", NULL},
			  [T_HEX32] = {"a number up to 0xffffffff", NULL},
			  [T_U64] = {"a number, or 1<<n", NULL},
			  [T_BOOL] = {"0 or 1", NULL},
			  [T_STR] = {"text of at most 63 characters", NULL},
			  [T_ERRNO] = {"0 or an errno name such as EINVAL or -EINVAL", NULL},
			  [T_PS] = {"nanoseconds with at most 3 decimals, up to 1000000000000", NULL},
			  [T_MBPS] = {"GB/s with at most 3 decimals, up to 1000000", NULL},
			  [T_GBPS] = {"Gb/s, a whole number of MB/s, up to 8000000", NULL},
			  [T_FRAC] = {"a fraction with at most 6 decimals, up to 1000", NULL},
#define SET_ROW(set, acc, ...) [T_E_##set] = {acc, words_##set},
			  PROFILE_SETS(SET_ROW)
#undef SET_ROW
};

enum key_id {
#define KEY_ID(section, key, type, def, help) KEY_##key,
	PROFILE_KEYS(KEY_ID)
#undef KEY_ID
	    KEY_COUNT
};

static const struct key {
	const char *section, *name;
	enum value_type type;
	size_t offset;
	const char *help;
} keys[KEY_COUNT] = {
#define KEY_ROW(section, key, type, def, help) {#section, #key, T_##type, offsetof(struct profile, key), help},
    PROFILE_KEYS(KEY_ROW)
#undef KEY_ROW
};

/* The reader stores the sets as int. */
_Static_assert(sizeof(enum prof_node_type) == sizeof(int), "enums are ints");

/* Ranges narrower than the type: X(key, min, max, power of two). What the arithmetic of the model relies on. */
#define PROFILE_RANGES(X)                                                                                              \
	X(max_qp, 1, 1 << 24, 0)                                                                                       \
	X(max_qp_wr, 1, 1 << 24, 0)                                                                                    \
	X(max_send_sge, 1, 256, 0)                                                                                     \
	X(max_recv_sge, 1, 256, 0)                                                                                     \
	X(max_sge_rd, 1, 256, 0)                                                                                       \
	X(max_inline_data, 0, 65536, 0)                                                                                \
	X(max_cq, 1, 1 << 24, 0)                                                                                       \
	X(max_cqe, 1, 1 << 26, 0)                                                                                      \
	X(max_srq_wr, 0, 1 << 24, 0)                                                                                   \
	X(max_srq_sge, 0, 256, 0)                                                                                      \
	X(max_qp_rd_atom, 0, 256, 0)                                                                                   \
	X(max_qp_init_rd_atom, 0, 256, 0)                                                                              \
	X(max_msg_sz, 1, UINT32_MAX, 0)                                                                                \
	X(max_mtu, 256, 4096, 1)                                                                                       \
	X(active_mtu, 256, 4096, 1)                                                                                    \
	X(gid_tbl_len, 1, 256, 0)                                                                                      \
	X(pkey_tbl_len, 1, 128, 0)                                                                                     \
	X(num_comp_vectors, 1, 1024, 0)                                                                                \
	X(max_sq_desc_B, 64, 1024, 1)                                                                                  \
	X(max_sq_blocks, 1, 1 << 24, 0)                                                                                \
	X(max_rq_blocks, 1, 1 << 24, 0)                                                                                \
	X(sq_blocks_per_wr, 0, 64, 0)                                                                                  \
	X(hw_gen, 0, 3, 0)                                                                                             \
	X(block_B, 16, 256, 1)                                                                                         \
	X(push_buf_B, 0, 4096, 0)                                                                                      \
	X(inline_constant, 0, 65536, 0)                                                                                \
	X(dma_chunk_B, 64, 1 << 30, 0)                                                                                 \
	X(wqe_prefetch_depth, 1, 1024, 0)                                                                              \
	X(umr_inline_max_B, 0, 4096, 0)                                                                                \
	X(read_depth, 1, 256, 0)                                                                                       \
	X(pkt_ovh_B, 0, 1024, 0)                                                                                       \
	X(switch_hops, 0, 64, 0)

static const struct range {
	uint32_t min, max;
	bool pow2;
} ranges[KEY_COUNT] = {
#define RANGE_ROW(key, lo, hi, two) [KEY_##key] = {lo, hi, two},
    PROFILE_RANGES(RANGE_ROW)
#undef RANGE_ROW
};

void profile_defaults(struct profile *p)
{
	static const struct profile defaults = {.name = "default",
#define KEY_DEFAULT(section, key, type, def, help) .key = def,
						PROFILE_KEYS(KEY_DEFAULT)
#undef KEY_DEFAULT
	};

	*p = defaults;
}

/* ---- values from and to text ------------------------------------------------------------------------------ */

#define ERRNO_NAMES(X)                                                                                                 \
	X(EPERM)                                                                                                       \
	X(ENOENT)                                                                                                      \
	X(EINTR)                                                                                                       \
	X(EIO)                                                                                                         \
	X(ENXIO)                                                                                                       \
	X(E2BIG)                                                                                                       \
	X(EBADF)                                                                                                       \
	X(EAGAIN)                                                                                                      \
	X(ENOMEM)                                                                                                      \
	X(EACCES)                                                                                                      \
	X(EFAULT)                                                                                                      \
	X(EBUSY)                                                                                                       \
	X(EEXIST)                                                                                                      \
	X(ENODEV)                                                                                                      \
	X(EINVAL)                                                                                                      \
	X(ENOSPC)                                                                                                      \
	X(ERANGE)                                                                                                      \
	X(ENOSYS)                                                                                                      \
	X(EMSGSIZE)                                                                                                    \
	X(EOPNOTSUPP)                                                                                                  \
	X(ENOBUFS)                                                                                                     \
	X(ENOTCONN)                                                                                                    \
	X(ETIMEDOUT)                                                                                                   \
	X(ECONNREFUSED)                                                                                                \
	X(EOVERFLOW)                                                                                                   \
	X(EPROTONOSUPPORT)

static const struct {
	const char *name;
	int32_t value;
} errno_names[] = {
#define ERRNO_ROW(e) {#e, e},
    ERRNO_NAMES(ERRNO_ROW)
#undef ERRNO_ROW
};

/* Digits of one base, nothing else; false on overflow. */
static bool parse_digits(const char *text, unsigned base, uint64_t *out)
{
	uint64_t value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		unsigned digit = (unsigned)(*text >= 'a'   ? *text - 'a' + 10
					    : *text >= 'A' ? *text - 'A' + 10
							   : *text - '0');
		if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*out = value;
	return true;
}

/* Decimal, 0x hexadecimal, or 1<<n. */
static bool parse_number(const char *text, uint64_t *out)
{
	if (!strncmp(text, "0x", 2))
		return parse_digits(text + 2, 16, out);
	if (!strncmp(text, "1<<", 3)) {
		uint64_t shift;
		if (!parse_digits(text + 3, 10, &shift) || shift > 63)
			return false;
		*out = UINT64_C(1) << shift;
		return true;
	}
	return parse_digits(text, 10, out);
}

/* "12.5" with `decimals` = 3 gives 12500. More decimals than that are an error, not a rounding. */
static bool parse_fixed(const char *text, unsigned decimals, uint64_t max, uint64_t *out)
{
	char digits[32];
	size_t len = 0;
	unsigned after = 0;
	bool point = false;

	for (; *text; text++) {
		if (*text == '.' && !point && len) {
			point = true;
			continue;
		}
		if (*text < '0' || *text > '9' || len + decimals + 1 >= sizeof(digits) || (point && ++after > decimals))
			return false;
		digits[len++] = *text;
	}
	if (!len || (point && !after))
		return false;
	for (; after < decimals; after++)
		digits[len++] = '0';
	digits[len] = '\0';
	return parse_digits(digits, 10, out) && *out <= max;
}

/* The reverse, without trailing zeroes: 12500, 3 gives "12.5". */
static void format_fixed(uint64_t value, unsigned decimals, char *buf, size_t size)
{
	uint64_t scale = 1;

	for (unsigned i = 0; i < decimals; i++)
		scale *= 10;
	uint64_t rest = value % scale;
	if (!rest) {
		snprintf(buf, size, "%llu", (unsigned long long)(value / scale));
		return;
	}
	for (; rest % 10 == 0; decimals--)
		rest /= 10;
	snprintf(buf, size, "%llu.%0*llu", (unsigned long long)(value / scale), (int)decimals,
		 (unsigned long long)rest);
}

static bool parse_errno(const char *text, int32_t *out)
{
	int32_t sign = 1;

	if (!strcmp(text, "0")) {
		*out = 0;
		return true;
	}
	if (*text == '-') {
		sign = -1;
		text++;
	}
	for (size_t i = 0; i < ARRAY_LEN(errno_names); i++) {
		if (!strcmp(text, errno_names[i].name)) {
			*out = sign * errno_names[i].value;
			return true;
		}
	}
	return false;
}

static void format_errno(int32_t value, char *buf, size_t size)
{
	for (size_t i = 0; i < ARRAY_LEN(errno_names); i++) {
		if (abs(value) == errno_names[i].value) {
			snprintf(buf, size, "%s%s", value < 0 ? "-" : "", errno_names[i].name);
			return;
		}
	}
	snprintf(buf, size, "0");
}

static bool parse_word(const char *text, const char *const *words, int *out)
{
	for (int i = 0; words[i]; i++) {
		if (!strcmp(text, words[i])) {
			*out = i;
			return true;
		}
	}
	return false;
}

/* Stores the value of a key in p; false if the text does not have the key's type. */
static bool key_parse(const struct key *key, const char *text, struct profile *p)
{
	void *field = (char *)p + key->offset;
	uint64_t n = 0;

	switch (key->type) {
	case T_U32:
	case T_HEX32:
		if (!parse_number(text, &n) || n > UINT32_MAX)
			return false;
		*(uint32_t *)field = (uint32_t)n;
		return true;
	case T_U64: return parse_number(text, field);
	case T_BOOL:
		if (strcmp(text, "0") && strcmp(text, "1"))
			return false;
		*(bool *)field = *text == '1';
		return true;
	case T_STR:
		if (strlen(text) >= PROFILE_STR_MAX)
			return false;
		/* The whole field is written: profiles are compared as bytes. */
		strncpy(field, text, PROFILE_STR_MAX);
		return true;
	case T_ERRNO: return parse_errno(text, field);
	case T_PS:
		if (!parse_fixed(text, 3, UINT64_C(1000000000000000), &n))
			return false;
		*(int64_t *)field = (int64_t)n;
		return true;
	case T_MBPS: return parse_fixed(text, 3, UINT64_C(1000000000), field);
	case T_GBPS:
		/* 1 Gb/s is 125 MB/s; n counts Mb/s. */
		if (!parse_fixed(text, 3, UINT64_C(8000000000), &n) || n % 8)
			return false;
		*(uint64_t *)field = n / 8;
		return true;
	case T_FRAC:
		if (!parse_fixed(text, 6, UINT64_C(1000000000), &n))
			return false;
		*(uint32_t *)field = (uint32_t)n;
		return true;
	default: return parse_word(text, value_types[key->type].words, field);
	}
}

static void key_format(const struct key *key, const struct profile *p, char *buf, size_t size)
{
	const void *field = (const char *)p + key->offset;

	switch (key->type) {
	case T_U32: snprintf(buf, size, "%u", *(const uint32_t *)field); break;
	case T_HEX32: snprintf(buf, size, "0x%04x", *(const uint32_t *)field); break;
	case T_U64: snprintf(buf, size, "0x%llx", (unsigned long long)*(const uint64_t *)field); break;
	case T_BOOL: snprintf(buf, size, "%d", *(const bool *)field); break;
	case T_STR: snprintf(buf, size, "%.*s", PROFILE_STR_MAX - 1, (const char *)field); break;
	case T_ERRNO: format_errno(*(const int32_t *)field, buf, size); break;
	case T_PS: format_fixed((uint64_t) * (const int64_t *)field, 3, buf, size); break;
	case T_MBPS: format_fixed(*(const uint64_t *)field, 3, buf, size); break;
	case T_GBPS: format_fixed(*(const uint64_t *)field * 8, 3, buf, size); break;
	case T_FRAC: format_fixed(*(const uint32_t *)field, 6, buf, size); break;
	default: snprintf(buf, size, "%s", value_types[key->type].words[*(const int *)field]); break;
	}
}

/* ---- reading a file ---------------------------------------------------------------------------------------- */

/* One file being read. The INI parser does not tell line numbers, so its line reader counts them. */
struct reading {
	FILE *file;
	const char *path;
	struct profile *p;
	int line;
	int key_line[KEY_COUNT]; /* line that set the key, 0 = none */
	int failed;		 /* negative errno once something was wrong; the first error is kept */
	char *err;
	size_t err_size;
};

static void __attribute__((format(printf, 3, 4))) fail(struct reading *r, int line, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	if (r->failed)
		return;
	r->failed = -EINVAL;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (line)
		snprintf(r->err, r->err_size, "profile %s:%d: %s", r->path, line, what);
	else
		snprintf(r->err, r->err_size, "profile %s: %s", r->path, what);
}

static bool known_section(const char *name, size_t len)
{
	for (size_t i = 0; i < KEY_COUNT; i++)
		if (!strncmp(keys[i].section, name, len) && !keys[i].section[len])
			return true;
	return false;
}

/* ini_reader: one line, counted. Ends the parse at the first error. */
static char *read_line(char *buf, int size, void *arg)
{
	struct reading *r = arg;

	if (r->failed || !fgets(buf, size, r->file))
		return NULL;
	r->line++;
	size_t len = strlen(buf);
	if ((!len || buf[len - 1] != '\n') && !feof(r->file)) {
		fail(r, r->line, "line too long, or not text");
		return NULL;
	}
	/* The parser reports keys only, and goes on after an error: section lines are checked here. */
	const char *s = buf + strspn(buf, " \t"), *end = strchr(s, ']');
	if (*s == '[' && !end) {
		fail(r, r->line, "section without ]");
		return NULL;
	}
	if (*s == '[' && !known_section(s + 1, (size_t)(end - s - 1))) {
		fail(r, r->line, "unknown section [%.*s]", (int)(end - s - 1), s + 1);
		return NULL;
	}
	return buf;
}

/* ini_handler: non-zero is success. */
static int take_key(void *arg, const char *section, const char *name, const char *value)
{
	struct reading *r = arg;
	size_t i = 0;

	while (i < KEY_COUNT && (strcmp(keys[i].section, section) || strcmp(keys[i].name, name)))
		i++;
	if (i == KEY_COUNT) {
		if (*section)
			fail(r, r->line, "unknown key '%s' in [%s]", name, section);
		else
			fail(r, r->line, "key '%s' before the first section", name);
		return 0;
	}
	if (r->key_line[i]) {
		fail(r, r->line, "'%s' set again, first in line %d", name, r->key_line[i]);
		return 0;
	}
	r->key_line[i] = r->line;
	if (!key_parse(&keys[i], value, r->p)) {
		fail(r, r->line, "'%s' in %s is not %s", value, name, value_types[keys[i].type].accepted);
		return 0;
	}
	return 1;
}

static void check_ranges(struct reading *r)
{
	for (size_t i = 0; i < KEY_COUNT; i++) {
		const struct range *range = &ranges[i];
		if (!range->max)
			continue;
		uint32_t value = *(const uint32_t *)((const char *)r->p + keys[i].offset);
		if (value < range->min || value > range->max || (range->pow2 && (value & (value - 1))))
			fail(r, r->key_line[i], "%s is %u, must be %sfrom %u to %u", keys[i].name, value,
			     range->pow2 ? "a power of two " : "", range->min, range->max);
	}
}

/* Keys that only make sense together. */
static void check_combinations(struct reading *r)
{
	const struct profile *p = r->p;

	if (p->active_mtu > p->max_mtu)
		fail(r, r->key_line[KEY_active_mtu], "active_mtu %u is above max_mtu %u", p->active_mtu, p->max_mtu);
	if ((p->policy == POLICY_IRDMA || p->layout == WQE_IRDMA) && !p->hw_gen)
		fail(r, r->key_line[KEY_policy], "irdma needs hw_gen 1, 2 or 3");
	if (p->policy == POLICY_ECHO && p->sq_counts == SQ_COUNTS_BLOCKS && !p->sq_blocks_per_wr)
		fail(r, r->key_line[KEY_sq_counts], "sq_counts=blocks needs sq_blocks_per_wr");
	if (p->inline_compare == COMPARE_CONSTANT && !p->inline_constant)
		fail(r, r->key_line[KEY_inline_compare], "inline_compare=constant needs inline_constant");
}

/* "a/b/foo.ini" -> "foo". */
static bool take_name(const char *path, struct profile *p)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	size_t len = strlen(base);

	if (len > 4 && !strcmp(base + len - 4, ".ini"))
		len -= 4;
	if (!len || len >= sizeof(p->name))
		return false;
	memset(p->name, 0, sizeof(p->name));
	memcpy(p->name, base, len);
	return true;
}

static int read_stream(struct reading *r)
{
	profile_defaults(r->p);
	if (!take_name(r->path, r->p))
		fail(r, 0, "name too long, at most %d characters", PROFILE_STR_MAX - 1);
	int bad_line = r->failed ? 0 : ini_parse_stream(read_line, r, take_key, r);
	if (ferror(r->file)) {
		r->failed = -(errno ? errno : EIO);
		snprintf(r->err, r->err_size, "profile %s: %s", r->path, strerror(-r->failed));
	} else if (bad_line < 0) {
		r->failed = -ENOMEM;
		snprintf(r->err, r->err_size, "profile %s: out of memory", r->path);
	} else if (!r->line) { /* a pipe that somebody has read already, for one */
		r->failed = -EINVAL;
		snprintf(r->err, r->err_size, "profile %s: empty", r->path);
	} else if (bad_line > 0) {
		fail(r, bad_line, "neither [section], key = value nor comment");
	}
	if (!r->failed)
		check_ranges(r);
	if (!r->failed)
		check_combinations(r);
	return r->failed;
}

static int read_file(const char *path, struct profile *p, char *err, size_t err_size)
{
	struct reading r = {.path = path, .p = p, .err = err, .err_size = err_size};

	r.file = text_open(path);
	if (!r.file) {
		int e = errno;
		snprintf(err, err_size, "profile %s: %s", path, strerror(e));
		return -e;
	}
	errno = 0;
	int rc = read_stream(&r);
	fclose(r.file);
	return rc;
}

/* ---- finding profiles -------------------------------------------------------------------------------------- */

#define PROFILE_DIRS 3

/* Folders in order of search; empty ones are left out. Returns how many. */
static size_t profile_dirs(const char *dirs[PROFILE_DIRS])
{
	const char *all[PROFILE_DIRS] = {secure_getenv("SIMHCA_PROFILES"), SIMHCA_PROFILE_INSTALL_DIR,
					 SIMHCA_PROFILE_SOURCE_DIR};
	size_t n = 0;

	for (size_t i = 0; i < PROFILE_DIRS; i++)
		if (all[i] && *all[i])
			dirs[n++] = all[i];
	return n;
}

bool profile_is_path(const char *name)
{
	size_t len = strlen(name);

	return strchr(name, '/') || (len > 4 && !strcmp(name + len - 4, ".ini"));
}

static int not_found(const char *name, char *err, size_t err_size)
{
	const char *dirs[PROFILE_DIRS];
	size_t n = profile_dirs(dirs);
	int len = snprintf(err, err_size, "profile '%s' not found in", name);

	for (size_t i = 0; i < n && len > 0 && (size_t)len < err_size; i++)
		len += snprintf(err + len, err_size - (size_t)len, "%s %s", i ? "," : "", dirs[i]);
	if (!n && len > 0 && (size_t)len < err_size)
		snprintf(err + len, err_size - (size_t)len, " any folder: SIMHCA_PROFILES is not set");
	return -ENOENT;
}

int profile_load(const char *name_or_path, struct profile *p, char *err, size_t err_size)
{
	const char *dirs[PROFILE_DIRS];
	size_t n = profile_dirs(dirs);
	char path[PATH_MAX];

	if (err_size)
		*err = '\0';
	if (profile_is_path(name_or_path))
		return read_file(name_or_path, p, err, err_size);
	for (size_t i = 0; i < n && *name_or_path; i++) {
		int len = snprintf(path, sizeof(path), "%s/%s.ini", dirs[i], name_or_path);
		if (len < 0 || (size_t)len >= sizeof(path))
			continue;
		int rc = read_file(path, p, err, err_size);
		if (rc != -ENOENT && rc != -ENOTDIR)
			return rc;
	}
	return not_found(name_or_path, err, err_size);
}

struct name_list {
	char (*names)[PROFILE_STR_MAX];
	size_t count, room;
};

static int name_add(struct name_list *list, const char *name, size_t len)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 16;
		void *grown = realloc(list->names, room * sizeof(*list->names));
		if (!grown)
			return -ENOMEM;
		list->names = grown;
		list->room = room;
	}
	memcpy(list->names[list->count], name, len);
	list->names[list->count++][len] = '\0';
	return 0;
}

static int name_add_dir(struct name_list *list, const char *dir)
{
	DIR *d = opendir(dir);
	int rc = 0;

	/* A folder that is not there holds no profiles. */
	if (!d)
		return errno == ENOMEM ? -ENOMEM : 0;
	for (struct dirent *e; !rc && (e = readdir(d));) {
		size_t len = strlen(e->d_name);
		if (e->d_name[0] != '.' && len > 4 && len - 4 < PROFILE_STR_MAX && !strcmp(e->d_name + len - 4, ".ini"))
			rc = name_add(list, e->d_name, len - 4);
	}
	closedir(d);
	return rc;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

int profile_each(int (*fn)(const char *name, void *arg), void *arg)
{
	struct name_list list = {0};
	const char *dirs[PROFILE_DIRS];
	size_t n = profile_dirs(dirs);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++)
		rc = name_add_dir(&list, dirs[i]);
	if (list.count)
		qsort(list.names, list.count, sizeof(*list.names), name_compare);
	for (size_t i = 0; i < list.count && !rc; i++)
		if (!i || strcmp(list.names[i], list.names[i - 1]))
			rc = fn(list.names[i], arg);
	free(list.names);
	return rc;
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

int profile_each_key(const struct profile *p, int (*fn)(const struct profile_key *key, void *arg), void *arg)
{
	char value[PROFILE_STR_MAX];
	int rc = 0;

	for (size_t i = 0; i < KEY_COUNT && !rc; i++) {
		key_format(&keys[i], p, value, sizeof(value));
		const struct profile_key row = {.section = keys[i].section,
						.key = keys[i].name,
						.type = value_types[keys[i].type].accepted,
						.value = value,
						.help = keys[i].help};
		rc = fn(&row, arg);
	}
	return rc;
}

struct dump {
	FILE *out;
	const char *section;
};

static int dump_key(const struct profile_key *key, void *arg)
{
	struct dump *d = arg;

	if (!d->section || strcmp(d->section, key->section))
		fprintf(d->out, "%s[%s]\n", d->section ? "\n" : "", key->section);
	d->section = key->section;
	fprintf(d->out, "; %s\n%s = %s\n", key->help, key->key, key->value);
	return 0;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int profile_dump(const struct profile *p, int fd)
{
	char *text = NULL;
	size_t len = 0;
	struct dump d = {.out = open_memstream(&text, &len)};

	if (!d.out)
		return -ENOMEM;
	fprintf(d.out, "; profile %s\n", p->name);
	profile_each_key(p, dump_key, &d);
	bool lost = ferror(d.out);
	int rc = fclose(d.out) || lost ? -ENOMEM : write_all(fd, text, len);
	free(text);
	return rc;
}

/* ---- environment -------------------------------------------------------------------------------------------- */

void model_apply_env(struct profile *p)
{
	if (!p->mlx5_env)
		return;
	const char *shut_up = secure_getenv("MLX5_SHUT_UP_BF"), *prefer = secure_getenv("MLX5_POST_SEND_PREFER_BF");
	if (shut_up && strcmp(shut_up, "0"))
		p->push_buf_B = 0;
	if (prefer)
		p->push_non_inline = strcmp(prefer, "0") != 0;
}
