/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A profile: everything that makes an adapter the one it is, as data. The table below is the only list of keys;
 * the structure, the INI reader, the dump and the manual page come from it. A key that a profile file leaves out
 * takes the default here. An unknown key or a value out of range is an error with file and line.
 */
#pragma once

#include "sim/base.h"

#define PROFILE_STR_MAX 64

/* Value sets of the ENUM keys; the first word of each is the spelling in a profile. */
enum prof_node_type { NODE_CA, NODE_RNIC, NODE_UNSPECIFIED }; /* ca rnic unspecified */
enum prof_link { LINK_ETHERNET, LINK_INFINIBAND };	      /* ethernet infiniband */
enum prof_atomic { ATOMIC_NONE, ATOMIC_HCA, ATOMIC_GLOB };    /* none hca glob */
/* Named negotiation policies and WQE layouts: a handful of small functions in negotiate.c and wqe.c. */
enum prof_policy { POLICY_ECHO, POLICY_MLX5, POLICY_IRDMA, POLICY_RXE };    /* echo mlx5 irdma rxe */
enum prof_wqe { WQE_PLAIN, WQE_MLX5, WQE_IRDMA, WQE_ERDMA, WQE_RXE };	    /* plain mlx5 irdma erdma rxe */
enum prof_doorbell { DB_REGISTER, DB_BLUEFLAME, DB_PUSH_PAGE, DB_SYSCALL }; /* register blueflame push_page syscall */
enum prof_sq_counts { SQ_COUNTS_WR, SQ_COUNTS_BLOCKS };			    /* wr blocks */
enum prof_compare { COMPARE_GRANT, COMPARE_CONSTANT };			    /* grant constant */

/*
 * Key types: U32, HEX32, U64 (decimal or 0x...; U64 also 1<<n), BOOL (0/1), STR, ERRNO (a name such as EINVAL, with a
 * leading minus where the provider returns it negative), PS (decimal nanoseconds in the file, picoseconds here),
 * MBPS (decimal GB/s or Gb/s in the file as the key says, MB/s here), FRAC (decimal in the file, millionths here),
 * E_xxx (one of the sets above).
 *
 * X(section, key, type, default, help)
 */
#define PROFILE_KEYS(X)                                                                                                \
	X(identity, family, STR, "generic", "family of adapters, for messages")                                        \
	X(identity, vendor_id, HEX32, 0, "vendor_id of ibv_query_device")                                              \
	X(identity, vendor_part_id, U32, 0, "vendor_part_id of ibv_query_device")                                      \
	X(identity, hw_ver, U32, 0, "hw_ver of ibv_query_device")                                                      \
	X(identity, fw_ver, STR, "1.0.0", "firmware version string")                                                   \
	X(identity, board_id, STR, "SIMHCA", "board id")                                                               \
	X(identity, node_type, E_node_type, NODE_CA, "node type: ca, rnic (iWARP) or unspecified")                     \
	X(identity, link_layer, E_link, LINK_ETHERNET, "link layer of the ports: ethernet or infiniband")              \
	X(identity, qp_rc, BOOL, 1, "offers RC")                                                                       \
	X(identity, qp_uc, BOOL, 1, "offers UC")                                                                       \
	X(identity, qp_ud, BOOL, 1, "offers UD")                                                                       \
	X(identity, qp_xrc, BOOL, 0, "offers XRC")                                                                     \
	X(identity, qp_kind_errno, ERRNO, EOPNOTSUPP, "errno of ibv_create_qp for a type not offered")                 \
	X(limits, max_qp, U32, 65536, "queue pairs")                                                                   \
	X(limits, max_qp_wr, U32, 16384, "work requests of a queue")                                                   \
	X(limits, max_send_sge, U32, 30, "SGEs of a send work request, as ibv_query_device reports")                   \
	X(limits, max_recv_sge, U32, 30, "SGEs of a receive work request")                                             \
	X(limits, max_sge_rd, U32, 30, "SGEs of an RDMA READ")                                                         \
	X(limits, max_inline_data, U32, 256,                                                                           \
	  "largest inline request where the policy has one limit; echo with 0: never refused, grants 0")               \
	X(limits, max_cq, U32, 65536, "completion queues")                                                             \
	X(limits, max_cqe, U32, 4194303, "entries of a completion queue")                                              \
	X(limits, max_mr, U32, 1048576, "memory regions")                                                              \
	X(limits, max_mr_size, U64, UINT64_MAX, "bytes of a memory region")                                            \
	X(limits, max_locked_bytes, U64, 0, "bytes registered at once by one process; 0 = no limit")                   \
	X(limits, max_pd, U32, 65536, "protection domains")                                                            \
	X(limits, max_ah, U32, 65536, "address handles")                                                               \
	X(limits, max_srq, U32, 65536, "shared receive queues")                                                        \
	X(limits, max_srq_wr, U32, 32767, "work requests of a shared receive queue")                                   \
	X(limits, max_srq_sge, U32, 31, "SGEs of a shared receive")                                                    \
	X(limits, max_mw, U32, 0, "memory windows")                                                                    \
	X(limits, max_qp_rd_atom, U32, 16, "READs and atomics outstanding at a responder queue pair")                  \
	X(limits, max_qp_init_rd_atom, U32, 16, "READs and atomics outstanding at a requester queue pair")             \
	X(limits, max_res_rd_atom, U32, 0, "responder READ/atomic budget of the whole device; 0 = no limit")           \
	X(limits, max_msg_sz, U32, 0x80000000u, "bytes of a message")                                                  \
	X(limits, max_mtu, U32, 4096, "largest path MTU")                                                              \
	X(limits, active_mtu, U32, 1024, "path MTU that the port reports as active")                                   \
	X(limits, gid_tbl_len, U32, 16, "entries of the GID table")                                                    \
	X(limits, pkey_tbl_len, U32, 1, "entries of the P_Key table")                                                  \
	X(limits, num_comp_vectors, U32, 4, "completion vectors")                                                      \
	X(limits, atomic_cap, E_atomic, ATOMIC_HCA, "atomics: none, hca or glob")                                      \
	X(limits, page_size_cap, U64, 0xfffff000u, "page_size_cap of ibv_query_device")                                \
	X(limits, hca_core_clock_khz, U32, 1000000, "rate of completion timestamps; 0 = the adapter has none")         \
	X(limits, max_fast_reg_pages, U32, 512, "entries of a fast-register list")                                     \
	X(inline, policy, E_policy, POLICY_ECHO, "how a queue pair's capacities are granted")                          \
	X(inline, max_sq_desc_B, U32, 1024, "mlx5: largest send WQE in bytes")                                         \
	X(inline, max_sq_blocks, U32, 32768, "mlx5, irdma: basic blocks of a send queue")                              \
	X(inline, max_rq_blocks, U32, 32768, "irdma: basic blocks of a receive queue")                                 \
	X(inline, sq_blocks_per_wr, U32, 0,                                                                            \
	  "echo with sq_counts=blocks: blocks reserved for each granted work request")                                 \
	X(inline, hw_gen, U32, 0, "irdma: generation 1, 2 or 3")                                                       \
	X(inline, create_errno, ERRNO, EINVAL, "errno of a refused ibv_create_qp")                                     \
	X(inline, zero_wr_refused, BOOL, 0, "max_send_wr or max_recv_wr of 0 is refused")                              \
	X(inline, edits_caps_on_failure, BOOL, 0,                                                                      \
	  "a refused ibv_create_qp leaves changed numbers in the caller's caps")                                       \
	X(wqe, layout, E_wqe, WQE_PLAIN, "layout of a send WQE")                                                       \
	X(wqe, block_B, U32, 64, "basic block of the send queue in bytes")                                             \
	X(wqe, sq_counts, E_sq_counts, SQ_COUNTS_WR, "send-queue room is counted in work requests or basic blocks")    \
	X(doorbell, kind, E_doorbell, DB_REGISTER, "how the adapter learns of a WQE")                                  \
	X(doorbell, push_buf_B, U32, 0, "bytes of the BlueFlame or push buffer; 0 = none")                             \
	X(doorbell, push_non_inline, BOOL, 0, "by-reference WQEs are pushed too (MLX5_POST_SEND_PREFER_BF)")           \
	X(doorbell, mlx5_env, BOOL, 0, "MLX5_SHUT_UP_BF and MLX5_POST_SEND_PREFER_BF act on this adapter")             \
	X(post, inline_compare, E_compare, COMPARE_GRANT, "a posted inline length is compared with grant or constant") \
	X(post, inline_constant, U32, 0, "the constant")                                                               \
	X(post, inline_counts_sge, BOOL, 1, "an inline work request is held to max_send_sge too")                      \
	X(post, err_inline, ERRNO, EINVAL, "return value of ibv_post_send: inline data too long")                      \
	X(post, err_sge, ERRNO, EINVAL, "too many SGEs")                                                               \
	X(post, err_full, ERRNO, ENOMEM, "send queue full")                                                            \
	X(post, err_opcode, ERRNO, EINVAL, "opcode unknown or not allowed for the queue pair")                         \
	X(post, err_state, ERRNO, EINVAL, "queue pair in RESET, INIT or RTR")                                          \
	X(post, err_errored, ERRNO, 0, "queue pair in ERR; 0 = accepted and flushed")                                  \
	X(post, err_inline_op, ERRNO, EINVAL, "inline flag on READ or atomic; 0 = the flag is ignored there")          \
	X(post, err_atomic_align, ERRNO, 0,                                                                            \
	  "atomic at an address not a multiple of 8 refused by the post; 0 = remotely")                                \
	X(post, err_recv_full, ERRNO, ENOMEM, "ibv_post_recv: queue full")                                             \
	X(post, err_recv_sge, ERRNO, EINVAL, "ibv_post_recv: too many SGEs")                                           \
	X(post, err_recv_state, ERRNO, EINVAL, "ibv_post_recv: queue pair in RESET")                                   \
	X(cm, strict_cm, BOOL, 0, "iWARP: ibv_modify_qp to RTR or RTS is refused, only a connection manager connects") \
	X(quirk, quirk_reset_twice, BOOL, 0, "RESET of a queue pair in RESET spoils it: INIT is refused from then on") \
	X(timing, timing_source, STR, "guess", "where the figures come from")                                          \
	X(timing, guess, BOOL, 1, "the figures are not this adapter's own")                                            \
	X(timing, cpu_post_ns, PS, 45000, "CPU: one work request through the verbs call")                              \
	X(timing, cpu_copy_64B_ns, PS, 6000, "CPU: copy of 64 B of inline data")                                       \
	X(timing, mmio_doorbell_ns, PS, 30000, "CPU: barrier and 8-byte store")                                        \
	X(timing, wc_store_64B_ns, PS, 25000, "CPU: 64 B into the write-combining buffer")                             \
	X(timing, cpu_poll_ns, PS, 45000, "CPU: successful poll")                                                      \
	X(timing, cpu_empty_poll_ns, PS, 15000, "CPU: empty poll")                                                     \
	X(timing, cpu_event_ns, PS, 3000000, "CPU: wake-up through a completion channel")                              \
	X(timing, pcie_mmio_ns, PS, 137000, "bus: store leaves the CPU until the adapter sees it")                     \
	X(timing, pcie_read_rtt_ns, PS, 574000, "bus: read round trip")                                                \
	X(timing, pcie_write_ns, PS, 210000, "bus: posted write until visible")                                        \
	X(timing, pcie_GBps, MBPS, 12700, "bus: payload rate of a direction in GB/s; 0 = unlimited")                   \
	X(timing, dma_op_ns, PS, 21000, "HCA: issue slot of one DMA transaction")                                      \
	X(timing, dma_chunk_B, U32, 4096, "HCA: store-and-forward unit of a long message")                             \
	X(timing, nic_tx_ns, PS, 135000, "HCA: WQE and data at hand until first bit out")                              \
	X(timing, nic_rx_ns, PS, 135000, "HCA: last bit in until write issued")                                        \
	X(timing, nic_wqe_occ_ns, PS, 7000, "HCA: occupancy per WQE")                                                  \
	X(timing, qp_wqe_occ_ns, PS, 60000, "HCA: occupancy per WQE of one queue pair")                                \
	X(timing, nic_rx_occ_ns, PS, 7000, "HCA: occupancy per packet")                                                \
	X(timing, nic_multi_pkt_ns, PS, 37000, "HCA: once per message of more than one packet")                        \
	X(timing, wqe_prefetch_depth, U32, 8, "HCA: WQEs brought in by one fetch")                                     \
	X(timing, umr_fetch_ns, PS, 751000, "HCA: registration with its list by pointer")                              \
	X(timing, umr_load_frac, FRAC, 342000, "HCA: share of the payload's bus time added to it")                     \
	X(timing, umr_inline_ns, PS, 60000, "HCA: registration with its list inline")                                  \
	X(timing, umr_inline_max_B, U32, 64, "HCA: longest inline registration list")                                  \
	X(timing, recv_wqe_ns, PS, 0, "HCA: fetch of a receive WQE")                                                   \
	X(timing, cqe_write_ns, PS, 40000, "HCA: CQE build")                                                           \
	X(timing, ack_turn_ns, PS, 60000, "HCA: responder's turn-round")                                               \
	X(timing, atomic_exec_ns, PS, 50000, "HCA: atomic unit")                                                       \
	X(timing, read_depth, U32, 16, "HCA: outstanding READs and atomics of a queue pair")                           \
	X(timing, link_Gbps, GBPS, 12500, "wire: rate in Gb/s; 0 = unlimited")                                         \
	X(timing, pkt_ovh_B, U32, 82, "wire: header bytes of a packet")                                                \
	X(timing, wire_ns, PS, 10000, "wire: propagation")                                                             \
	X(timing, switch_ns, PS, 0, "wire: one switch pass")                                                           \
	X(timing, switch_hops, U32, 0, "wire: switches between two ports")

/* C types of the key types. */
#define PROF_C_U32		    uint32_t
#define PROF_C_U64		    uint64_t
#define PROF_C_BOOL		    bool
#define PROF_C_ERRNO		    int32_t
#define PROF_C_PS		    int64_t
#define PROF_C_MBPS		    uint64_t
#define PROF_C_GBPS		    uint64_t
#define PROF_C_FRAC		    uint32_t
#define PROF_C_E_node_type	    enum prof_node_type
#define PROF_C_E_link		    enum prof_link
#define PROF_C_E_atomic		    enum prof_atomic
#define PROF_C_E_policy		    enum prof_policy
#define PROF_C_E_wqe		    enum prof_wqe
#define PROF_C_E_doorbell	    enum prof_doorbell
#define PROF_C_E_sq_counts	    enum prof_sq_counts
#define PROF_C_E_compare	    enum prof_compare
#define PROF_FIELD_STR(key)	    char key[PROFILE_STR_MAX];
#define PROF_FIELD(type, key)	    PROF_FIELD_##type(key)
#define PROF_FIELD_U32(key)	    PROF_C_U32 key;
#define PROF_FIELD_HEX32(key)	    PROF_C_U32 key;
#define PROF_FIELD_U64(key)	    PROF_C_U64 key;
#define PROF_FIELD_BOOL(key)	    PROF_C_BOOL key;
#define PROF_FIELD_ERRNO(key)	    PROF_C_ERRNO key;
#define PROF_FIELD_PS(key)	    PROF_C_PS key;
#define PROF_FIELD_MBPS(key)	    PROF_C_MBPS key;
#define PROF_FIELD_GBPS(key)	    PROF_C_GBPS key;
#define PROF_FIELD_FRAC(key)	    PROF_C_FRAC key;
#define PROF_FIELD_E_node_type(key) PROF_C_E_node_type key;
#define PROF_FIELD_E_link(key)	    PROF_C_E_link key;
#define PROF_FIELD_E_atomic(key)    PROF_C_E_atomic key;
#define PROF_FIELD_E_policy(key)    PROF_C_E_policy key;
#define PROF_FIELD_E_wqe(key)	    PROF_C_E_wqe key;
#define PROF_FIELD_E_doorbell(key)  PROF_C_E_doorbell key;
#define PROF_FIELD_E_sq_counts(key) PROF_C_E_sq_counts key;
#define PROF_FIELD_E_compare(key)   PROF_C_E_compare key;

struct profile {
	char name[PROFILE_STR_MAX]; /* "connectx6dx", or the file's base name */
#define PROF_MEMBER(section, key, type, def, help) PROF_FIELD(type, key)
	PROFILE_KEYS(PROF_MEMBER)
#undef PROF_MEMBER
};

/*
 * Reads a profile by name (looked up in $SIMHCA_PROFILES, then the installed folder, then the source tree's folder)
 * or by path (the name holds a slash or ends in .ini). 0, or a negative errno with one line in err
 * ("profile x.ini:12: unknown key 'foo' in [limits]").
 */
int profile_load(const char *name_or_path, struct profile *p, char *err, size_t err_size);
/* Would profile_load take it for the path of a file? */
bool profile_is_path(const char *name_or_path);

/* Writes a complete profile file that profile_load reads back to the same structure. 0 or negative errno. */
int profile_dump(const struct profile *p, int fd);

/*
 * Calls fn for each profile's name that profile_load would find, in alphabetical order, until fn returns non-zero
 * (then returned). 0, what fn returned, or -ENOMEM.
 */
int profile_each(int (*fn)(const char *name, void *arg), void *arg);

/* A row of the key table as text. */
struct profile_key {
	const char *section, *key;
	const char *type;  /* what a value looks like: "number", "0 or 1", "ca, rnic or unspecified", ... */
	const char *value; /* as a profile file writes it; valid during the call */
	const char *help;
};

/* Calls fn for every key in table order with the value p has, until fn returns non-zero (then returned). */
int profile_each_key(const struct profile *p, int (*fn)(const struct profile_key *key, void *arg), void *arg);

/* Sets p to the table's defaults, named "default". */
void profile_defaults(struct profile *p);
