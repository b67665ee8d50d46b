/* SPDX-License-Identifier: BSD-2-Clause */
/* simhca stat: counters of the devices, and with --qp of each queue pair that lives. */
#include "tools/simhca/simhca.h"

#include <string.h>

struct stat_options {
	struct common common;
	bool qp, all, explain;
	const char *device;
};

enum { OPT_EXPLAIN = 0x100 };

static const struct argp_option options[] = {
    {"qp", 'q', NULL, 0, "each queue pair that lives, too", 0},
    {"all", 'a', NULL, 0, "counters that are zero, too (JSON always has them)", 0},
    {"explain", OPT_EXPLAIN, NULL, 0, "what each counter counts, and no figures; needs no fabric", 0},
    {"device", 'd', "NAME", 0, "only this device", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct stat_options *s = state->input;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &s->common; return 0;
	case 'q': s->qp = true; return 0;
	case 'a': s->all = true; return 0;
	case 'd': s->device = arg; return 0;
	case OPT_EXPLAIN: s->explain = true; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp_stat = {
    .options = options,
    .parser = parse_option,
    .doc = "Prints the counters of a fabric.",
    .children = (const struct argp_child[]){{&argp_listing, 0, NULL, 0}, {0}},
};

/* One thing that has counters. */
struct subject {
	char title[128];
	struct json_object *row; /* JSON: its fields so far */
	uint64_t values[CTR_COUNT];
};

static void print_subject(const struct stat_options *opt, const struct subject *s)
{
	puts(s->title);
	for (int c = 0; c < CTR_COUNT; c++)
		if (s->values[c] || opt->all)
			printf("  %-18s %llu\n", sim_counters[c].name, (unsigned long long)s->values[c]);
}

static void json_subject(const struct subject *s)
{
	struct json_object *counters = obj_new();
	for (int c = 0; c < CTR_COUNT; c++)
		row_int(counters, sim_counters[c].name, s->values[c]);
	row_obj(s->row, "counters", counters);
}

static void add_device(const struct stat_options *opt, struct fabric *f, uint32_t index, struct json_object *list)
{
	const struct seg_device *dev = &fabric_seg(f)->devices[index];
	struct subject s;
	for (int c = 0; c < CTR_COUNT; c++)
		s.values[c] = fabric_counter(f, index, (enum counter)c);
	if (!opt->common.json) {
		snprintf(s.title, sizeof(s.title), "%.60s (%.60s)", dev->name, dev->profile);
		print_subject(opt, &s);
		return;
	}
	s.row = row_add(list);
	row_str(s.row, "device", dev->name);
	row_str(s.row, "profile", dev->profile);
	json_subject(&s);
}

static const char *rx_state_name(uint32_t state)
{
	static const char *const names[] = {"closed", "ready", "error"};
	return state < ARRAY_LEN(names) ? names[state] : "?";
}

static void add_qp(const struct stat_options *opt, struct fabric *f, uint32_t qpn, const struct seg_qp *qp,
		   uint64_t owner, struct json_object *list)
{
	const struct seg_header *seg = fabric_seg(f);
	const struct seg_device *dev = &seg->devices[qp->device];
	uint32_t node = SEG_OWNER_NODE(owner);
	uint32_t kind = qp->kind;
	int32_t pid = node < FAB_NODES_MAX ? seg->nodes[node].pid : 0;
	const char *kind_name = kind < QP_KINDS ? qp_kind_name((enum qp_kind)kind) : "?";
	const char *state = rx_state_name(atomic_load_explicit(&qp->rx_state, memory_order_relaxed));
	struct subject s;
	for (int c = 0; c < CTR_COUNT; c++)
		s.values[c] = atomic_load_explicit(&qp->counters[c], memory_order_relaxed);
	if (!opt->common.json) {
		snprintf(s.title, sizeof(s.title),
			 "%.60s port %u qp 0x%06x %s receive side %s, peer 0x%06x, process %d", dev->name, qp->port,
			 qpn, kind_name, state, qp->dest_qpn, pid);
		print_subject(opt, &s);
		return;
	}
	s.row = row_add(list);
	row_str(s.row, "device", dev->name);
	row_int(s.row, "port", qp->port);
	row_int(s.row, "qp_num", qpn);
	row_str(s.row, "qp_type", kind_name);
	row_str(s.row, "receive_state", state);
	row_int(s.row, "dest_qp_num", qp->dest_qpn);
	row_int(s.row, "pid", (uint64_t)MAX(pid, 0));
	json_subject(&s);
}

static bool wanted(const struct stat_options *opt, const struct seg_device *dev)
{
	return atomic_load_explicit(&dev->used, memory_order_acquire) /* pairs: release by the maker */ &&
	       (!opt->device || strcmp(opt->device, dev->name) == 0);
}

static void add_qps(const struct stat_options *opt, struct fabric *f, struct json_object *list)
{
	const struct seg_header *seg = fabric_seg(f);
	/* acquire: pairs with the release of whoever added a chunk. Numbers start a little above 0. */
	uint32_t chunks = MIN(atomic_load_explicit(&seg->num_qp_chunks, memory_order_acquire), FAB_QP_CHUNKS_MAX);
	for (uint32_t qpn = 1; qpn < (chunks + 1) * FAB_QP_CHUNK; qpn++) {
		const struct seg_qp *qp = fabric_qp(f, qpn);
		uint64_t owner = qp ? atomic_load_explicit(&qp->owner, memory_order_acquire) : 0;
		if (owner && qp->device < FAB_DEVICES_MAX && wanted(opt, &seg->devices[qp->device]))
			add_qp(opt, f, qpn, qp, owner, list);
	}
}

static int print_all(const struct stat_options *opt, struct fabric *f)
{
	const struct seg_header *seg = fabric_seg(f);
	struct json_object *devices = list_new(), *qps = list_new();
	bool found = false;
	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++) {
		if (!wanted(opt, &seg->devices[i]))
			continue;
		found = true;
		add_device(opt, f, i, devices);
	}
	if (found && opt->qp)
		add_qps(opt, f, qps);
	struct json_object *top = obj_new();
	row_str(top, "fabric", seg->name);
	row_obj(top, "devices", devices);
	row_obj(top, "qps", qps);
	if (found && opt->common.json)
		return json_print(top);
	obj_free(top);
	if (!found && opt->device)
		return complain("no device '%s' in fabric '%s'", opt->device, seg->name);
	return fflush(stdout) ? complain("writing: %s", strerror(errno)) : 0;
}

static int explain(bool json)
{
	struct json_object *list = list_new();
	for (int c = 0; c < CTR_COUNT; c++) {
		struct json_object *row = row_add(list);
		row_str(row, "counter", sim_counters[c].name);
		row_str(row, "folder", sim_counters[c].where == COUNTER_PORT ? "counters" : "hw_counters");
		row_str(row, "counts", sim_counters[c].help);
	}
	return list_print("counters", list, json);
}

int cmd_stat(int argc, char **argv)
{
	struct stat_options opt = {0};
	struct settings set;
	struct fabric *f;
	if (argp_parse(&argp_stat, argc, argv, 0, NULL, &opt))
		return EXIT_SETUP;
	if (opt.explain)
		return explain(opt.common.json);
	int rc = load_settings(&set);
	if (!rc)
		rc = open_fabric(&set, opt.common.fabric, &f);
	if (rc)
		return rc;
	rc = print_all(&opt, f);
	fabric_close(f);
	return rc;
}
