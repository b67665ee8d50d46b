/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of stages that a work request passes, in the order of a send. One row is one function of the engine, one
 * server of the timing model, one bar of a timeline and one place for an instrument. Anyone may include it; it
 * holds no state: a server is an int64_t `free_ps` of whoever owns it.
 */
#pragma once

#include "sim/base.h"
#include "sim/model/counters.h"

/* How a stage treats those who come after. */
enum stage_kind {
	STAGE_DELAY,	 /* no server: everybody is delayed by the latency, nobody waits */
	STAGE_HOLDING,	 /* busy for the occupancy; the latency follows it */
	STAGE_PIPELINED, /* busy for the occupancy; the latency runs from the start */
};

/* Whose free_ps a stage uses. */
enum stage_server {
	SERVER_NONE,
	SERVER_THREAD,	  /* the calling thread's CPU clock */
	SERVER_HCA,	  /* the adapter's WQE and packet processing */
	SERVER_QP,	  /* one a queue pair */
	SERVER_UMR,	  /* registration unit */
	SERVER_ATOMIC,	  /* atomic unit of a responder */
	SERVER_DMA_READ,  /* DMA engine, read side */
	SERVER_DMA_WRITE, /* DMA engine, write side */
	SERVER_PORT,	  /* transmit port */
	SERVER_COUNT
};

/*
 * X(id, name, server, kind, counter moved or CTR_COUNT for none, help)
 *
 * A DMA transaction also holds the opposite side for its issue slot. The scheduler is two servers in a row, so two
 * rows. An acknowledgement leaves through the port like any packet.
 */
#define SIM_STAGES(X)                                                                                                  \
	X(POST, "post", THREAD, HOLDING, CTR_POSTS, "post_send: checks, WQE built, inline data copied, stores issued") \
	X(PUSH, "push", NONE, DELAY, CTR_PUSH_WRITES, "the WQE itself travels to the BlueFlame or push buffer")        \
	X(DOORBELL, "doorbell", NONE, DELAY, CTR_DOORBELLS, "an 8-byte store travels to the adapter")                  \
	X(WQE_FETCH, "wqe_fetch", DMA_READ, HOLDING, CTR_WQE_FETCHES, "DMA read of WQEs from the send queue")          \
	X(SCHEDULER, "scheduler", HCA, PIPELINED, CTR_COUNT, "the adapter takes up the WQE")                           \
	X(QP_SCHEDULER, "qp_scheduler", QP, PIPELINED, CTR_COUNT, "the queue pair's turn: WQEs of one queue in order") \
	X(REGISTRATION, "registration", UMR, HOLDING, CTR_REGISTRATIONS, "registration work request executed")         \
	X(PAYLOAD_READ, "payload_read", DMA_READ, HOLDING, CTR_PAYLOAD_READS,                                          \
	  "DMA read of payload through key and translation")                                                           \
	X(TRANSMIT, "transmit", PORT, HOLDING, CTR_TX_PACKETS, "packets leave the port")                               \
	X(WIRE, "wire", NONE, DELAY, CTR_COUNT, "cable and switches")                                                  \
	X(RECEIVE, "receive", HCA, PIPELINED, CTR_RX_PACKETS, "packets checked, key and bounds looked up")             \
	X(RECV_WQE, "recv_wqe", DMA_READ, HOLDING, CTR_COUNT, "a receive work request is taken")                       \
	X(REMOTE_WRITE, "remote_write", DMA_WRITE, HOLDING, CTR_COUNT, "DMA write of payload into memory")             \
	X(RESPONDER_READ, "responder_read", DMA_READ, HOLDING, CTR_COUNT, "RDMA READ: DMA read at the responder")      \
	X(ATOMIC, "atomic", ATOMIC, HOLDING, CTR_COUNT, "atomic executed at the responder")                            \
	X(ACKNOWLEDGEMENT, "acknowledgement", HCA, PIPELINED, CTR_COUNT,                                               \
	  "the responder turns round an ACK, NAK or response")                                                         \
	X(CQE_WRITE, "cqe_write", DMA_WRITE, PIPELINED, CTR_CQES, "CQE built and written")                             \
	X(EVENT, "event", NONE, DELAY, CTR_COMPLETION_EVENTS, "a sleeping thread woken through a completion channel")  \
	X(POLL, "poll", THREAD, HOLDING, CTR_COUNT, "poll_cq hands out the completion")

enum stage {
#define STAGE_ENUM(id, name, server, kind, counter, help) STAGE_##id,
	SIM_STAGES(STAGE_ENUM)
#undef STAGE_ENUM
	    STAGE_COUNT
};

struct stage_info {
	const char *name;
	enum stage_server server;
	enum stage_kind kind;
	enum counter counter; /* CTR_COUNT: none */
	const char *help;
};

extern const struct stage_info sim_stages[STAGE_COUNT];

const char *stage_server_name(enum stage_server server); /* "dma_read", ... */
const char *stage_kind_name(enum stage_kind kind);	 /* "holding", ... */

/*
 * One customer passes a stage: arrives at arrival_ps, keeps the server for occupancy_ps and is under way for
 * latency_ps. Moves *free_ps (NULL for a STAGE_DELAY) and returns the time of leaving, all in picoseconds. Customers
 * of one server must be presented in order of arrival.
 */
static inline int64_t stage_pass(enum stage_kind kind, int64_t *free_ps, int64_t arrival_ps, int64_t occupancy_ps,
				 int64_t latency_ps)
{
	if (kind == STAGE_DELAY)
		return arrival_ps + latency_ps;
	int64_t start_ps = MAX(arrival_ps, *free_ps);
	*free_ps = start_ps + occupancy_ps;
	return (kind == STAGE_HOLDING ? *free_ps : start_ps) + latency_ps;
}
