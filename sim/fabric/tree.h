/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The folders `sys/` and `dev/` of a fabric, which stand in for /sys and /dev/infiniband. With F for the adapter as a
 * PCI function, sys/devices/pci4700:00/4700:00:<index>.0:
 *
 *   F/                                     numa_node, local_cpus, vendor, device, net/
 *   F/infiniband/<device>/                 node_type, node_guid, ports/N/..., and
 *   F/infiniband/<device>/simhca           marker: line 1 the fabric's folder, line 2 the device's name
 *   F/infiniband_verbs/uverbs<index>/      ibdev, dev, abi_version
 *   sys/class/infiniband/<device>          links to these, as on a real system
 *   sys/class/infiniband_verbs/uverbs<index>
 *   sys/class/infiniband_verbs/abi_version
 *   dev/uverbs<index>                      a link to a harmless character device; dev/infiniband leads back here
 *
 * A device's folder is never touched again once it is there: its time stamp is part of the device's identity for
 * libibverbs. What changes (counters, port state) changes inside the files.
 */
#pragma once

#include "sim/fabric/fabric.h"

/* Name of the marker file in a device's folder. */
#define TREE_MARKER "simhca"
/* abi_version of each device; a provider's own, not the kernel's. */
#define TREE_PROVIDER_ABI 1

/* Makes the parts that belong to no device below the fabric's folder. 0 or negative errno. */
int tree_make(int fabric_fd);

/*
 * Adds a device that is filled in in the segment but not yet marked used, after removing what an earlier, interrupted
 * attempt left. dir: the fabric's final folder, for the marker. It shows after tree_list_devices. 0 or negative errno.
 */
int tree_add_device(int fabric_fd, const char *dir, const struct seg_device *d, uint32_t index,
		    const struct profile *p);

/*
 * Makes the class links of all devices marked used. Programs take the first device that libibverbs lists, which is in
 * the order of the folder, on a tmpfs the newest first: so the links are made from the last device to the first, and
 * made again when a device was added. Each is replaced by a rename, so none is ever absent. 0 or negative errno.
 */
int tree_list_devices(int fabric_fd, const struct seg_header *h);

/* Brings the counter and port state files of all devices up to date, in place. 0 or the first error, negative. */
int tree_refresh_counters(struct fabric *f);

/*
 * What a counter or port state file holds at this moment. The path is taken from the last "infiniband/" on:
 * ".../infiniband/<device>/ports/<n>/counters/<name>". Bytes written without the final zero, or -ENOENT.
 */
int tree_render_counter(struct fabric *f, const char *path, char *buf, size_t size);
