/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/model/stage.h"

const struct stage_info sim_stages[STAGE_COUNT] = {
#define STAGE_ROW(id, name, server, kind, counter, help)                                                               \
	[STAGE_##id] = {name, SERVER_##server, STAGE_##kind, counter, help},
    SIM_STAGES(STAGE_ROW)
#undef STAGE_ROW
};

const char *stage_server_name(enum stage_server server)
{
	static const char *const names[SERVER_COUNT] = {
	    [SERVER_NONE] = "none",	    [SERVER_THREAD] = "thread",
	    [SERVER_HCA] = "hca",	    [SERVER_QP] = "qp",
	    [SERVER_UMR] = "umr",	    [SERVER_ATOMIC] = "atomic",
	    [SERVER_DMA_READ] = "dma_read", [SERVER_DMA_WRITE] = "dma_write",
	    [SERVER_PORT] = "port",
	};

	return (unsigned)server < SERVER_COUNT ? names[server] : "?";
}

const char *stage_kind_name(enum stage_kind kind)
{
	static const char *const names[] = {
	    [STAGE_DELAY] = "delay", [STAGE_HOLDING] = "holding", [STAGE_PIPELINED] = "pipelined"};

	return (unsigned)kind < ARRAY_LEN(names) ? names[kind] : "?";
}
