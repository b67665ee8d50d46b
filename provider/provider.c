/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this provider is: the list of verbs it answers, how it knows its devices, and how it enters the process.
 */
#include "provider/provider.h"
#include "provider/selfcheck.h"
#include "provider/slots.h"
#include "sim/fabric/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The list of verbs. What is not here is in absent.c, or answered by the library's defaults, which say EOPNOTSUPP
 * silently.
 */
const struct verbs_context_ops simhca_context_ops = {
    .alloc_pd = simhca_alloc_pd,
    .async_event = simhca_async_event,
    .cq_event = simhca_cq_event,
    .create_cq = simhca_create_cq,
    .create_cq_ex = simhca_create_cq_ex,
    .create_qp = simhca_create_qp,
    .create_qp_ex = simhca_create_qp_ex,
    .dealloc_pd = simhca_dealloc_pd,
    .dereg_mr = simhca_dereg_mr,
    .destroy_cq = simhca_destroy_cq,
    .destroy_qp = simhca_destroy_qp,
    .free_context = simhca_free_context,
    .import_mr = simhca_import_mr,
    .import_pd = simhca_import_pd,
    .modify_qp = simhca_modify_qp,
    .poll_cq = simhca_poll_cq,
    .post_recv = simhca_post_recv,
    .post_send = simhca_post_send,
    .query_device_ex = simhca_query_device_ex,
    .query_port = simhca_query_port,
    .query_qp = simhca_query_qp,
    .query_rt_values = simhca_query_rt_values,
    .reg_mr = simhca_reg_mr,
    .req_notify_cq = simhca_req_notify_cq,
    .resize_cq = simhca_resize_cq,
    .unimport_mr = simhca_unimport_mr,
    .unimport_pd = simhca_unimport_pd,
};

/* ---- the process ---- */

pthread_mutex_t provider_lock = PTHREAD_MUTEX_INITIALIZER;
unsigned int provider_life;

static struct settings settings;
const struct settings *provider_settings = &settings;

/* ---- devices ---- */

/* One line of a file without its newline. 0 or -1. */
static int read_line(FILE *f, char *line, size_t size)
{
	if (!fgets(line, (int)size, f))
		return -1;
	line[strcspn(line, "\n")] = 0;
	return *line ? 0 : -1;
}

/*
 * Our devices carry a file `simhca` in their sysfs folder: the fabric's folder on the first line, the device's name
 * there on the second. Names mean nothing: a simulated device may well be called mlx5_0.
 */
static bool read_marker(const struct verbs_sysfs_dev *sysfs, struct p_device *dev)
{
	char path[sizeof(sysfs->ibdev_path) + sizeof("/" TREE_MARKER)];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/" TREE_MARKER, sysfs->ibdev_path);
	f = text_open(path);
	if (!f)
		return false;
	ok = !read_line(f, dev->fabric, sizeof(dev->fabric)) && !read_line(f, dev->name, sizeof(dev->name));
	fclose(f);
	if (!ok || dev->fabric[0] != '/') {
		sim_log_line("%s is damaged: an absolute folder and a device name are expected", path);
		return false;
	}
	return true;
}

static bool match_device(struct verbs_sysfs_dev *sysfs)
{
	struct p_device dev;

	return provider_settings->enable && read_marker(sysfs, &dev);
}

/*
 * Devices that the library keeps for the life of the process. It points into their middle only; from here a leak
 * checker sees that they are not lost. Under provider_lock.
 */
static struct p_device *devices;

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs)
{
	struct p_device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	if (!read_marker(sysfs, dev)) {
		free(dev);
		return NULL;
	}
	dev->vdev.core_support = PABI_CORE_OPTIONAL_MR_ACCESS;
	pthread_mutex_lock(&provider_lock);
	dev->next = devices;
	devices = dev;
	pthread_mutex_unlock(&provider_lock);
	return &dev->vdev;
}

static void uninit_device(struct verbs_device *vdev)
{
	struct p_device *dev = CONTAINER_OF(vdev, struct p_device, vdev);

	pthread_mutex_lock(&provider_lock);
	for (struct p_device **p = &devices; *p; p = &(*p)->next)
		if (*p == dev) {
			*p = dev->next;
			break;
		}
	pthread_mutex_unlock(&provider_lock);
	free(dev);
}

const struct verbs_device_ops simhca_device_ops = {
    .name = "simhca",
    .match_min_abi_version = TREE_PROVIDER_ABI,
    .match_max_abi_version = TREE_PROVIDER_ABI,
    .match_device = match_device,
    .alloc_context = simhca_alloc_context,
    .import_context = simhca_import_context,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

/* ---- entering the process ---- */

static const char *context_name(void *ctx)
{
	return adapter_name(&((struct p_context *)ctx)->vctx.context);
}

static const struct slot_calls answers = {
    .create_channel = events_create_channel,
    .create_async = events_create_async,
    .query_gid = context_query_gid,
    .closing = events_closing,
    .name = context_name,
};

static void before_fork(void)
{
	pthread_mutex_lock(&provider_lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&provider_lock);
}

static void after_fork_child(void)
{
	provider_life++;
	pthread_mutex_unlock(&provider_lock);
}

PABI_DEFINE_EXPECT(static, expected);

/*
 * Registers the provider, or says in one line why not. The fork handlers come before the adapter's own, which are
 * installed at the first open: so the adapter's lock is taken before ours, here as everywhere.
 */
static __attribute__((constructor)) void simhca_register(void)
{
	char line[512] = "";

	if (settings_load(&settings, line, sizeof(line))) {
		sim_log_line("%s", line);
		return;
	}
	sim_log_level = (int)settings.log;
	if (selfcheck_run(&expected, line, sizeof(line)) || slots_install(&answers, line, sizeof(line))) {
		sim_log_line("%s", line);
		return;
	}
	if (pthread_atfork(before_fork, after_fork_parent, after_fork_child)) {
		sim_log_line("will not register: out of memory");
		return;
	}
	verbs_register_driver(&simhca_device_ops);
}
