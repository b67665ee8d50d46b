/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of counters. Each device port and each queue pair has one 64-bit cell a row; `simhca stat`, the files
 * under ports/<n>/counters and ports/<n>/hw_counters and their documentation are made from this table, and the names
 * are stable. Anyone may include it.
 *
 * Two rows are sums, moved together with their parts: refusals with each refusals_create and refusals_post, rnr with
 * each rnr_sent and rnr_received.
 */
#pragma once

#include <stdint.h>

/* Folder of the emulated port that shows a counter. */
enum counter_where { COUNTER_PORT /* counters */, COUNTER_HW /* hw_counters */ };

/* X(id, name, where, help) */
#define SIM_COUNTERS(X)                                                                                                \
	X(POSTS, "posts", HW, "send work requests accepted")                                                           \
	X(RECV_POSTS, "recv_posts", HW, "receive work requests accepted")                                              \
	X(INLINE_POSTS, "inline_posts", HW, "send work requests accepted with inline data")                            \
	X(PUSH_WRITES, "push_writes", HW, "WQEs written through the BlueFlame or push buffer")                         \
	X(DOORBELLS, "doorbells", HW, "doorbells rung for WQEs that the adapter fetches")                              \
	X(WQE_FETCHES, "wqe_fetches", HW, "DMA reads that fetched WQEs")                                               \
	X(PAYLOAD_READS, "payload_reads", HW, "DMA reads of payload through a memory key, one a work request")         \
	X(REGISTRATIONS, "registrations", HW, "registration work requests executed")                                   \
	X(LIST_FETCHES, "list_fetches", HW, "translation lists fetched by pointer")                                    \
	X(CQES, "cqes", HW, "completion queue entries written")                                                        \
	X(CQES_ERROR, "cqes_error", HW, "completion queue entries with a status other than success")                   \
	X(FLUSHED, "flushed", HW, "work requests completed in error because the queue pair went to ERR")               \
	X(TX_BYTES, "tx_bytes", PORT, "payload bytes sent")                                                            \
	X(RX_BYTES, "rx_bytes", PORT, "payload bytes received")                                                        \
	X(TX_PACKETS, "tx_packets", PORT, "packets sent")                                                              \
	X(RX_PACKETS, "rx_packets", PORT, "packets received")                                                          \
	X(RX_DISCARDS, "rx_discards", PORT,                                                                            \
	  "packets dropped on arrival: no such queue pair, or one that cannot receive")                                \
	X(RNR, "rnr", HW, "receiver-not-ready events, sent and received together")                                     \
	X(RNR_SENT, "rnr_sent", HW, "RNR NAKs sent: the receive queue was empty")                                      \
	X(RNR_RECEIVED, "rnr_received", HW, "RNR NAKs received")                                                       \
	X(RETRIES, "retries", HW, "times a requester went back and sent again, for whatever reason")                   \
	X(TIMEOUTS, "timeouts", HW, "acknowledgement timers that ran out")                                             \
	X(DUPLICATES, "duplicates", HW, "requests received again")                                                     \
	X(OUT_OF_SEQUENCE, "out_of_sequence", HW, "packets received ahead of the expected PSN")                        \
	X(NAK_SENT, "nak_sent", HW, "NAKs sent, RNR not counted")                                                      \
	X(NAK_RECEIVED, "nak_received", HW, "NAKs received, RNR not counted")                                          \
	X(ACCESS_ERRORS, "access_errors", HW, "remote requests refused by key, bounds, protection domain or rights")   \
	X(DIRECT_WRITES, "direct_writes", HW, "messages placed in the peer's memory without its engine")               \
	X(DIRECT_READS, "direct_reads", HW, "messages fetched from the peer's memory without its engine")              \
	X(REFUSALS, "refusals", HW, "calls refused, all reasons together")                                             \
	X(REFUSALS_CREATE, "refusals_create", HW, "queue pairs refused at creation")                                   \
	X(REFUSALS_MODIFY, "refusals_modify", HW, "queue pair modifications refused; not part of refusals")            \
	X(REFUSALS_POST, "refusals_post", HW, "work requests refused by a post call")                                  \
	X(REFUSALS_INLINE, "refusals_inline", HW, "of refusals_post: inline data too long")                            \
	X(REFUSALS_SGE, "refusals_sge", HW, "of refusals_post: too many SGEs")                                         \
	X(REFUSALS_FULL, "refusals_full", HW, "of refusals_post: queue full")                                          \
	X(REFUSALS_OPCODE, "refusals_opcode", HW, "of refusals_post: opcode not allowed")                              \
	X(REFUSALS_STATE, "refusals_state", HW, "of refusals_post: wrong queue pair state")                            \
	X(ASYNC_EVENTS, "async_events", HW, "asynchronous events raised")                                              \
	X(COMPLETION_EVENTS, "completion_events", HW, "events raised on completion channels")                          \
	X(CQ_OVERRUNS, "cq_overruns", HW, "completions lost because the completion queue was full")

enum counter {
#define COUNTER_ENUM(id, name, where, help) CTR_##id,
	SIM_COUNTERS(COUNTER_ENUM)
#undef COUNTER_ENUM
	    CTR_COUNT
};

struct counter_info {
	const char *name;
	enum counter_where where;
	const char *help;
};

extern const struct counter_info sim_counters[CTR_COUNT];
