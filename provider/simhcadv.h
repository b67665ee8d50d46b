/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * <infiniband/simhcadv.h>: direct verbs of the simulated adapter, in libsimhca.so.1. What this adapter can say that
 * no other can: the modelled time, to the picosecond, and which adapter it stands in for.
 *
 * Every function may be called from any thread. Structures grow at their end: pass their size as compiled.
 */
#ifndef INFINIBAND_SIMHCADV_H
#define INFINIBAND_SIMHCADV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SIMHCADV_API __attribute__((visibility("default")))
#else
#define SIMHCADV_API
#endif

/* Is this a device of simhca? The other functions refuse those of other providers with EOPNOTSUPP. */
SIMHCADV_API bool simhcadv_is_supported(struct ibv_device *device);

/* Bits of comp_mask: which fields were filled. */
enum simhcadv_device_attr_mask {
	SIMHCADV_DEVICE_ATTR_NAMES = 1 << 0,  /* profile, fabric */
	SIMHCADV_DEVICE_ATTR_LAYOUT = 1 << 1, /* block_B, push_buf_B */
	SIMHCADV_DEVICE_ATTR_CLOCK = 1 << 2,  /* core_clock_khz */
	SIMHCADV_DEVICE_ATTR_ALL = (1 << 3) - 1,
};

struct simhcadv_device_attr {
	uint64_t comp_mask;	 /* bits filled */
	char profile[64];	 /* name of the adapter's profile, "connectx6dx" */
	char fabric[64];	 /* name of the fabric it belongs to */
	uint32_t block_B;	 /* basic block of its send queues */
	uint32_t push_buf_B;	 /* BlueFlame or push buffer; 0 = it has none */
	uint32_t core_clock_khz; /* rate of completion timestamps; 0 = it has none */
	uint32_t reserved;
};

/* Fills at most attr_size bytes. 0, EOPNOTSUPP (not ours), EINVAL (size). */
SIMHCADV_API int simhcadv_query_device(struct ibv_context *context, struct simhcadv_device_attr *attr,
				       size_t attr_size);

/*
 * Modelled time, in picoseconds, at which the completion that ibv_start_poll or ibv_next_poll made current became
 * visible to a poll. The queue must be one of simhca. -1: no completion is current.
 */
SIMHCADV_API int64_t simhcadv_completion_time_ps(struct ibv_cq_ex *cq);

/*
 * The same of the completion that ibv_poll_cq returned last, by whichever thread. 0, EOPNOTSUPP (not ours), ENODATA
 * (nothing was polled yet).
 */
SIMHCADV_API int simhcadv_last_completion_time_ps(struct ibv_cq *cq, int64_t *time_ps);

/* Modelled clock of the calling thread in picoseconds: what its posts and polls have cost so far. */
SIMHCADV_API int64_t simhcadv_now_ps(void);

#ifdef __cplusplus
}
#endif

#endif
