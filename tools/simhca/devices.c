/* SPDX-License-Identifier: BSD-2-Clause */
/* simhca devices: one row a port, or one row a GID. */
#include "tools/simhca/simhca.h"

#include <arpa/inet.h>
#include <string.h>

struct devices {
	struct common common;
	bool gids;
};

static const struct argp_option options[] = {
    {"gids", 'g', NULL, 0, "list the GID tables instead", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct devices *d = state->input;
	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &d->common; return 0;
	case 'g': d->gids = true; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp_devices = {
    .options = options,
    .parser = parse_option,
    .doc = "Lists the devices of a fabric.",
    .children = (const struct argp_child[]){{&argp_listing, 0, NULL, 0}, {0}},
};

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
	return state < ARRAY_LEN(names) ? names[state] : "?";
}

static const char *gid_type_name(uint32_t type)
{
	static const char *const names[] = {"", "IB", "RoCE v1", "RoCE v2"};
	return type < ARRAY_LEN(names) ? names[type] : "?";
}

static void add_port(struct json_object *list, const struct seg_device *dev, uint32_t p)
{
	const struct seg_port *port = &dev->ports[p];
	char guid[32];
	struct json_object *row = row_add(list);
	snprintf(guid, sizeof(guid), "%04x:%04x:%04x:%04x", (unsigned)(dev->node_guid >> 48 & 0xffff),
		 (unsigned)(dev->node_guid >> 32 & 0xffff), (unsigned)(dev->node_guid >> 16 & 0xffff),
		 (unsigned)(dev->node_guid & 0xffff));
	row_str(row, "device", dev->name);
	row_int(row, "port", p + 1);
	row_str(row, "profile", dev->profile);
	row_str(row, "state", state_name(atomic_load_explicit(&port->state, memory_order_relaxed)));
	row_str(row, "link_layer", port->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet");
	row_int(row, "lid", port->lid);
	row_int(row, "gids", port->num_gids);
	row_str(row, "node_guid", guid);
}

static void add_gids(struct json_object *list, const struct seg_device *dev, uint32_t p)
{
	const struct seg_port *port = &dev->ports[p];
	for (uint32_t i = 0; i < MIN(port->num_gids, FAB_GIDS_MAX); i++) {
		char text[INET6_ADDRSTRLEN];
		const struct seg_gid *gid = &port->gids[i];
		if (gid->type == GID_NONE || !inet_ntop(AF_INET6, gid->raw, text, sizeof(text)))
			continue;
		struct json_object *row = row_add(list);
		row_str(row, "device", dev->name);
		row_int(row, "port", p + 1);
		row_int(row, "index", i);
		row_str(row, "type", gid_type_name(gid->type));
		row_str(row, "ndev", gid->ndev);
		row_str(row, "gid", text);
	}
}

int cmd_devices(int argc, char **argv)
{
	struct devices d = {0};
	struct settings set;
	struct fabric *f;
	if (argp_parse(&argp_devices, argc, argv, 0, NULL, &d))
		return EXIT_SETUP;
	int rc = load_settings(&set);
	if (!rc)
		rc = open_fabric(&set, d.common.fabric, &f);
	if (rc)
		return rc;

	struct json_object *list = list_new();
	const struct seg_header *seg = fabric_seg(f);
	for (uint32_t i = 0; i < FAB_DEVICES_MAX; i++) {
		const struct seg_device *dev = &seg->devices[i];
		if (!atomic_load_explicit(&dev->used, memory_order_acquire)) /* pairs: release by the maker */
			continue;
		for (uint32_t p = 0; p < MIN(dev->num_ports, FAB_PORTS_MAX); p++)
			(d.gids ? add_gids : add_port)(list, dev, p);
	}
	rc = list_print(d.gids ? "gids" : "ports", list, d.common.json);
	fabric_close(f);
	return rc;
}
