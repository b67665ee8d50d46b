/* SPDX-License-Identifier: BSD-2-Clause */
/* simhca profiles and simhca probe: what adapters there are, and what they grant. */
#include "tools/simhca/simhca.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- profiles ---- */

struct profiles {
	struct common common;
	const char *dump;
};

static const struct argp_option profiles_options[] = {
    {"dump", 'd', "NAME", 0, "write this profile out, complete, as a file to start one's own from", 0},
    {0},
};

static error_t parse_profiles(int key, char *arg, struct argp_state *state)
{
	struct profiles *p = state->input;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &p->common; return 0;
	case 'd': p->dump = arg; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp_profiles = {
    .options = profiles_options,
    .parser = parse_profiles,
    .doc = "Lists the adapters that can be simulated.",
    .children = (const struct argp_child[]){{&argp_json, 0, NULL, 0}, {0}},
};

static const char *node_type_name(enum prof_node_type type)
{
	switch (type) {
	case NODE_CA: return "ca";
	case NODE_RNIC: return "rnic";
	default: return "unspecified";
	}
}

static int add_profile(const char *name, void *arg)
{
	struct profile p;
	char id[16];
	int rc = load_profile(name, &p);
	if (rc)
		return rc;
	struct json_object *row = row_add(arg);
	row_str(row, "profile", name);
	row_str(row, "family", p.family);
	snprintf(id, sizeof(id), "0x%06x", p.vendor_id);
	row_str(row, "vendor_id", id);
	row_int(row, "vendor_part_id", p.vendor_part_id);
	row_str(row, "node_type", node_type_name(p.node_type));
	row_str(row, "link_layer", p.link_layer == LINK_INFINIBAND ? "infiniband" : "ethernet");
	row_str(row, "timing_source", p.timing_source);
	row_bool(row, "timing_guess", p.guess);
	return 0;
}

int cmd_profiles(int argc, char **argv)
{
	struct profiles opt = {0};
	struct profile p;
	if (argp_parse(&argp_profiles, argc, argv, 0, NULL, &opt))
		return EXIT_SETUP;
	if (opt.dump) {
		int rc = load_profile(opt.dump, &p);
		if (rc)
			return rc;
		rc = profile_dump(&p, STDOUT_FILENO);
		return rc ? complain("writing: %s", strerror(-rc)) : 0;
	}
	struct json_object *list = list_new();
	int rc = profile_each(add_profile, list);
	if (!rc)
		return list_print("profiles", list, opt.common.json);
	obj_free(list);
	return rc < 0 ? complain("profiles: %s", strerror(-rc)) : rc;
}

/* ---- probe ---- */

/* What programs are known to ask for, and the edges of the adapters' rules. */
static const uint32_t requests[] = {0,	 1,   16,  32,	48,  49,  60,  61,   64,   65,	 80,   81,
				    96,	 97,  101, 102, 124, 125, 128, 129,  188,  189,	 220,  221,
				    236, 237, 252, 253, 256, 257, 316, 317,  400,  401,	 512,  513,
				    572, 828, 829, 956, 957, 988, 989, 1004, 1005, 1023, 1024, 4096};

struct probe {
	struct common common;
	const char *profile;
	uint32_t depth, sge;
	uint32_t only; /* UINT32_MAX: the list above */
	struct json_object *list;
	bool first, other_kinds; /* text: no heading yet; a column is not RC */
};

static const struct argp_option probe_options[] = {
    {"profile", 'p', "PROFILE", 0, "only this adapter: a name or a file", 0},
    {"inline", 'i', "BYTES", 0, "only this request", 0},
    {"depth", 'n', "N", 0, "max_send_wr to ask for (default 16)", 0},
    {"sge", 's', "N", 0, "max_send_sge to ask for (default 1)", 0},
    {0},
};

static uint32_t number(const char *option, const char *text)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || n > UINT32_MAX - 1)
		exit(complain("%s %s: a number expected, at most %u", option, text, UINT32_MAX - 1));
	return (uint32_t)n;
}

static error_t parse_probe(int key, char *arg, struct argp_state *state)
{
	struct probe *p = state->input;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &p->common; return 0;
	case 'p': p->profile = arg; return 0;
	case 'i': p->only = number("--inline", arg); return 0;
	case 'n': p->depth = number("--depth", arg); return 0;
	case 's': p->sge = number("--sge", arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp_probe = {
    .options = probe_options,
    .parser = parse_probe,
    .doc = "Shows what max_inline_data ibv_create_qp grants, or its errno, for a request and queue-pair type.",
    .children = (const struct argp_child[]){{&argp_json, 0, NULL, 0}, {0}},
};

static bool offers(const struct profile *p, enum qp_kind kind)
{
	switch (kind) {
	case QP_RC: return p->qp_rc;
	case QP_UC: return p->qp_uc;
	case QP_UD: return p->qp_ud;
	case QP_XRC_SEND: return p->qp_xrc;
	default: return false; /* an XRC receiver sends nothing */
	}
}

static void ask(const struct probe *opt, const struct profile *p, enum qp_kind kind, uint32_t bytes,
		struct qp_grant *grant)
{
	struct qp_request req = {.kind = kind,
				 .caps = {.max_send_wr = opt->depth,
					  .max_recv_wr = opt->depth,
					  .max_send_sge = opt->sge,
					  .max_recv_sge = 1,
					  .max_inline_data = bytes}};
	memset(grant, 0, sizeof(*grant));
	model_negotiate(p, &req, grant);
}

static const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);
	return name ? name : "?";
}

static void probe_rows(const struct probe *opt, const struct profile *p, uint32_t bytes)
{
	for (int k = 0; k < QP_KINDS; k++) {
		struct qp_grant grant;
		enum qp_kind kind = (enum qp_kind)k;
		if (!offers(p, kind))
			continue;
		ask(opt, p, kind, bytes, &grant);
		struct json_object *row = row_add(opt->list);
		row_str(row, "profile", p->name);
		row_str(row, "qp_type", qp_kind_name(kind));
		row_int(row, "request", bytes);
		if (grant.err) {
			row_null(row, "grant");
			row_null(row, "max_send_wr");
			row_str(row, "errno", errno_name(grant.err));
			row_str(row, "why", grant.why ? grant.why : "");
		} else {
			row_int(row, "grant", grant.caps.max_inline_data);
			row_int(row, "max_send_wr", grant.caps.max_send_wr);
			row_null(row, "errno");
			row_null(row, "why");
		}
	}
}

static void probe_heading(struct probe *opt, const struct profile *p)
{
	printf("%s%s\n  %8s", opt->first ? "" : "\n", p->name, "request");
	for (int k = 0; k < QP_KINDS; k++)
		if (offers(p, (enum qp_kind)k)) {
			printf("  %10s", qp_kind_name((enum qp_kind)k));
			opt->other_kinds |= k != QP_RC;
		}
	printf("\n");
	opt->first = false;
}

#define WHY_INLINE "max_inline_data" /* what a reader of the table expects */

static void probe_line(const struct probe *opt, const struct profile *p, uint32_t bytes)
{
	const char *why = NULL; /* a limit that refused, other than that of inline data */
	printf("  %8u", bytes);
	for (int k = 0; k < QP_KINDS; k++) {
		struct qp_grant grant;
		if (!offers(p, (enum qp_kind)k))
			continue;
		ask(opt, p, (enum qp_kind)k, bytes, &grant);
		if (grant.err)
			printf("  %10s", errno_name(grant.err));
		if (grant.err && grant.why && strcmp(grant.why, WHY_INLINE) != 0)
			why = grant.why;
		if (!grant.err)
			printf("  %10u", grant.caps.max_inline_data);
	}
	if (why)
		printf("  (%s)", why);
	printf("\n");
}

static int probe_profile(const char *name, void *arg)
{
	struct probe *opt = arg;
	struct profile p;
	int rc = load_profile(name, &p);
	if (rc)
		return rc;
	if (!opt->common.json)
		probe_heading(opt, &p);
	size_t count = opt->only == UINT32_MAX ? ARRAY_LEN(requests) : 1;
	for (size_t i = 0; i < count; i++) {
		uint32_t bytes = opt->only == UINT32_MAX ? requests[i] : opt->only;
		if (opt->common.json)
			probe_rows(opt, &p, bytes);
		else
			probe_line(opt, &p, bytes);
	}
	return 0;
}

int cmd_probe(int argc, char **argv)
{
	struct probe opt = {.depth = 16, .sge = 1, .only = UINT32_MAX, .first = true};
	if (argp_parse(&argp_probe, argc, argv, 0, NULL, &opt))
		return EXIT_SETUP;
	opt.list = list_new();
	int rc = opt.profile ? probe_profile(opt.profile, &opt) : profile_each(probe_profile, &opt);
	if (!rc && opt.other_kinds)
		printf("\nOnly RC queue pairs can be created yet; the other columns are what the adapter's driver "
		       "grants.\n");
	if (!rc)
		return list_print("probe", opt.list, opt.common.json);
	obj_free(opt.list);
	return rc < 0 ? complain("profiles: %s", strerror(-rc)) : rc;
}
