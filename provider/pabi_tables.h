/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The provider ABI of libibverbs that no public header declares, written once: a table a structure, a row a field,
 * each with the rdma-core release that brought it. pabi.h expands the tables for one release; nothing else includes
 * this file. 65 stands for the tree after release 64.
 *
 * Rows, in the order of the structure:
 *   ROW(since, type, field)            a plain member; type is whatever __typeof__ accepts
 *   OP(since, field, op)               only in verbs_context: the library copies verbs_context_ops.op there
 *   OVERLAY(type, field, type, field)  an anonymous union of two members, in every release
 *
 * PABI_PUBLIC(x) names a public structure that changed between releases, so that a table can be expanded for a
 * release other than the installed one.
 */
#pragma once

/* Releases at which a row may begin; the layouts between them are named A to I in the order of their age. */
#define PABI_RELEASE_MIN    34
#define PABI_RELEASE_MASTER 65

#if SIMHCA_RDMA_CORE < PABI_RELEASE_MIN || SIMHCA_RDMA_CORE > PABI_RELEASE_MASTER
#error "SIMHCA_RDMA_CORE must be the integer release of the installed rdma-core, between 34 and 65"
#endif

#define PABI_IF_34(...) __VA_ARGS__
#if SIMHCA_RDMA_CORE >= 35
#define PABI_IF_35(...) __VA_ARGS__
#else
#define PABI_IF_35(...)
#endif
#if SIMHCA_RDMA_CORE >= 36
#define PABI_IF_36(...) __VA_ARGS__
#else
#define PABI_IF_36(...)
#endif
#if SIMHCA_RDMA_CORE >= 44
#define PABI_IF_44(...) __VA_ARGS__
#else
#define PABI_IF_44(...)
#endif
#if SIMHCA_RDMA_CORE >= 45
#define PABI_IF_45(...) __VA_ARGS__
#else
#define PABI_IF_45(...)
#endif
#if SIMHCA_RDMA_CORE >= 49
#define PABI_IF_49(...) __VA_ARGS__
#else
#define PABI_IF_49(...)
#endif
#if SIMHCA_RDMA_CORE >= 59
#define PABI_IF_59(...) __VA_ARGS__
#else
#define PABI_IF_59(...)
#endif
#if SIMHCA_RDMA_CORE >= 62
#define PABI_IF_62(...) __VA_ARGS__
#else
#define PABI_IF_62(...)
#endif
#if SIMHCA_RDMA_CORE >= 64
#define PABI_IF_64(...) __VA_ARGS__
#else
#define PABI_IF_64(...)
#endif
#if SIMHCA_RDMA_CORE >= 65
#define PABI_IF_65(...) __VA_ARGS__
#else
#define PABI_IF_65(...)
#endif

/* ---- private structures ---------------------------------------------------------------------------------- */

/* X(struct): every table that declares a private structure. An order in which each only names earlier ones. */
#define PABI_PRIVATE_STRUCTS(X)                                                                                        \
	X(verbs_match_ent)                                                                                             \
	X(verbs_device_ops)                                                                                            \
	X(verbs_sysfs_dev)                                                                                             \
	X(verbs_device)                                                                                                \
	X(verbs_mr)                                                                                                    \
	X(verbs_qp)                                                                                                    \
	X(verbs_cq)                                                                                                    \
	X(verbs_xrcd)                                                                                                  \
	X(verbs_srq)                                                                                                   \
	X(verbs_dm)                                                                                                    \
	X(verbs_context_ops)

#define PABI_verbs_match_ent(ROW, OVERLAY)                                                                             \
	ROW(34, void *, driver_data)                                                                                   \
	ROW(34, uint64_t, u)                                                                                           \
	ROW(34, uint16_t, vendor)                                                                                      \
	ROW(34, uint16_t, device)                                                                                      \
	ROW(34, uint8_t, kind)

/* alloc_context and import_context return the verbs_context inside the provider's own context. */
#define PABI_verbs_device_ops(ROW, OVERLAY)                                                                            \
	ROW(34, const char *, name)                                                                                    \
	ROW(34, uint32_t, match_min_abi_version)                                                                       \
	ROW(34, uint32_t, match_max_abi_version)                                                                       \
	ROW(34, const struct verbs_match_ent *, match_table)                                                           \
	ROW(34, const struct verbs_device_ops **, static_providers)                                                    \
	ROW(34, bool (*)(struct verbs_sysfs_dev * sysfs_dev), match_device)                                            \
	ROW(34, struct verbs_context *(*)(struct ibv_device * device, int cmd_fd, void *private_data), alloc_context)  \
	ROW(34, struct verbs_context *(*)(struct ibv_device * device, int cmd_fd), import_context)                     \
	ROW(34, struct verbs_device *(*)(struct verbs_sysfs_dev * sysfs_dev), alloc_device)                            \
	ROW(34, void (*)(struct verbs_device * device), uninit_device)

#define PABI_verbs_sysfs_dev(ROW, OVERLAY)                                                                             \
	ROW(34, struct pabi_list_node, entry)                                                                          \
	ROW(34, void *, provider_data)                                                                                 \
	ROW(34, const struct verbs_match_ent *, match)                                                                 \
	ROW(34, uint32_t, flags)                                                                                       \
	ROW(34, char[64], sysfs_name)                                                                                  \
	ROW(34, dev_t, sysfs_cdev)                                                                                     \
	ROW(34, char[64], ibdev_name)                                                                                  \
	ROW(34, char[256], ibdev_path)                                                                                 \
	ROW(34, char[512], modalias)                                                                                   \
	ROW(34, uint64_t, node_guid)                                                                                   \
	ROW(34, uint32_t, driver_id)                                                                                   \
	ROW(34, enum ibv_node_type, node_type)                                                                         \
	ROW(34, int, ibdev_idx)                                                                                        \
	ROW(35, uint32_t, num_ports)                                                                                   \
	ROW(34, uint32_t, abi_ver)                                                                                     \
	ROW(34, struct timespec, time_created)

#define PABI_verbs_device(ROW, OVERLAY)                                                                                \
	ROW(34, struct ibv_device, device)                                                                             \
	ROW(34, const struct verbs_device_ops *, ops)                                                                  \
	ROW(34, _Atomic int, refcount)                                                                                 \
	ROW(34, struct pabi_list_node, entry)                                                                          \
	ROW(34, struct verbs_sysfs_dev *, sysfs)                                                                       \
	ROW(34, uint64_t, core_support)

#define PABI_verbs_mr(ROW, OVERLAY)                                                                                    \
	ROW(34, struct ibv_mr, ibv_mr)                                                                                 \
	ROW(34, uint32_t, mr_type)                                                                                     \
	ROW(34, int, access)

#define PABI_verbs_qp(ROW, OVERLAY)                                                                                    \
	OVERLAY(struct ibv_qp, qp, PABI_PUBLIC(ibv_qp_ex), qp_ex)                                                      \
	ROW(34, uint32_t, comp_mask)                                                                                   \
	ROW(34, struct verbs_xrcd *, xrcd)

#define PABI_verbs_cq(ROW, OVERLAY) OVERLAY(struct ibv_cq, cq, struct ibv_cq_ex, cq_ex)

#define PABI_verbs_xrcd(ROW, OVERLAY)                                                                                  \
	ROW(34, struct ibv_xrcd, xrcd)                                                                                 \
	ROW(34, uint32_t, comp_mask)                                                                                   \
	ROW(34, uint32_t, handle)

#define PABI_verbs_srq(ROW, OVERLAY)                                                                                   \
	ROW(34, struct ibv_srq, srq)                                                                                   \
	ROW(34, enum ibv_srq_type, srq_type)                                                                           \
	ROW(34, struct verbs_xrcd *, xrcd)                                                                             \
	ROW(34, struct ibv_cq *, cq)                                                                                   \
	ROW(34, uint32_t, srq_num)

#define PABI_verbs_dm(ROW, OVERLAY)                                                                                    \
	ROW(34, struct ibv_dm, dm)                                                                                     \
	ROW(34, uint32_t, handle)

/*
 * The list of verbs, in alphabetical order as the library keeps it: an addition moves everything behind it. What is
 * newer than the oldest public header we build on has no prototype here; the provider sets none of those.
 */
#define PABI_verbs_context_ops(ROW, OVERLAY)                                                                           \
	ROW(34, int (*)(struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t, struct ibv_sge *, uint32_t), advise_mr)  \
	ROW(64, void *, alloc_buf)                                                                                     \
	ROW(34, struct ibv_dm *(*)(struct ibv_context *, struct ibv_alloc_dm_attr *), alloc_dm)                        \
	ROW(59, void *, alloc_dmah)                                                                                    \
	ROW(34, struct ibv_mw *(*)(struct ibv_pd *, enum ibv_mw_type), alloc_mw)                                       \
	ROW(34, struct ibv_mr *(*)(struct ibv_pd *), alloc_null_mr)                                                    \
	ROW(34, struct ibv_pd *(*)(struct ibv_context *, struct ibv_parent_domain_init_attr *), alloc_parent_domain)   \
	ROW(34, struct ibv_pd *(*)(struct ibv_context *), alloc_pd)                                                    \
	ROW(34, struct ibv_td *(*)(struct ibv_context *, struct ibv_td_init_attr *), alloc_td)                         \
	ROW(34, void (*)(struct ibv_context *, struct ibv_async_event *), async_event)                                 \
	ROW(34, int (*)(struct ibv_counters *, struct ibv_counter_attach_attr *, struct ibv_flow *),                   \
	    attach_counters_point_flow)                                                                                \
	ROW(34, int (*)(struct ibv_qp *, const union ibv_gid *, uint16_t), attach_mcast)                               \
	ROW(34, int (*)(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *), bind_mw)                              \
	ROW(34, int (*)(struct ibv_xrcd *), close_xrcd)                                                                \
	ROW(34, void (*)(struct ibv_cq *), cq_event)                                                                   \
	ROW(34, struct ibv_ah *(*)(struct ibv_pd *, struct ibv_ah_attr *), create_ah)                                  \
	ROW(65, void *, create_comp_cntr)                                                                              \
	ROW(34, struct ibv_counters *(*)(struct ibv_context *, struct ibv_counters_init_attr *), create_counters)      \
	ROW(34, struct ibv_cq *(*)(struct ibv_context *, int, struct ibv_comp_channel *, int), create_cq)              \
	ROW(34, struct ibv_cq_ex *(*)(struct ibv_context *, struct ibv_cq_init_attr_ex *), create_cq_ex)               \
	ROW(34, struct ibv_flow *(*)(struct ibv_qp *, struct ibv_flow_attr *), create_flow)                            \
	ROW(34, struct ibv_flow_action *(*)(struct ibv_context *, struct ibv_flow_action_esp_attr *),                  \
	    create_flow_action_esp)                                                                                    \
	ROW(34, struct ibv_qp *(*)(struct ibv_pd *, struct ibv_qp_init_attr *), create_qp)                             \
	ROW(34, struct ibv_qp *(*)(struct ibv_context *, struct ibv_qp_init_attr_ex *), create_qp_ex)                  \
	ROW(34, struct ibv_rwq_ind_table *(*)(struct ibv_context *, struct ibv_rwq_ind_table_init_attr *),             \
	    create_rwq_ind_table)                                                                                      \
	ROW(34, struct ibv_srq *(*)(struct ibv_pd *, struct ibv_srq_init_attr *), create_srq)                          \
	ROW(34, struct ibv_srq *(*)(struct ibv_context *, struct ibv_srq_init_attr_ex *), create_srq_ex)               \
	ROW(34, struct ibv_wq *(*)(struct ibv_context *, struct ibv_wq_init_attr *), create_wq)                        \
	ROW(59, void *, dealloc_dmah)                                                                                  \
	ROW(34, int (*)(struct ibv_mw *), dealloc_mw)                                                                  \
	ROW(34, int (*)(struct ibv_pd *), dealloc_pd)                                                                  \
	ROW(34, int (*)(struct ibv_td *), dealloc_td)                                                                  \
	ROW(34, int (*)(struct verbs_mr *), dereg_mr)                                                                  \
	ROW(34, int (*)(struct ibv_ah *), destroy_ah)                                                                  \
	ROW(65, void *, destroy_comp_cntr)                                                                             \
	ROW(34, int (*)(struct ibv_counters *), destroy_counters)                                                      \
	ROW(34, int (*)(struct ibv_cq *), destroy_cq)                                                                  \
	ROW(34, int (*)(struct ibv_flow *), destroy_flow)                                                              \
	ROW(34, int (*)(struct ibv_flow_action *), destroy_flow_action)                                                \
	ROW(34, int (*)(struct ibv_qp *), destroy_qp)                                                                  \
	ROW(34, int (*)(struct ibv_rwq_ind_table *), destroy_rwq_ind_table)                                            \
	ROW(34, int (*)(struct ibv_srq *), destroy_srq)                                                                \
	ROW(34, int (*)(struct ibv_wq *), destroy_wq)                                                                  \
	ROW(34, int (*)(struct ibv_qp *, const union ibv_gid *, uint16_t), detach_mcast)                               \
	ROW(62, void *, dm_export_dmabuf_fd)                                                                           \
	ROW(64, void *, free_buf)                                                                                      \
	ROW(34, void (*)(struct ibv_context *), free_context)                                                          \
	ROW(34, int (*)(struct ibv_dm *), free_dm)                                                                     \
	ROW(34, int (*)(struct ibv_srq *, uint32_t *), get_srq_num)                                                    \
	ROW(35, struct ibv_dm *(*)(struct ibv_context *, uint32_t), import_dm)                                         \
	ROW(34, struct ibv_mr *(*)(struct ibv_pd *, uint32_t), import_mr)                                              \
	ROW(34, struct ibv_pd *(*)(struct ibv_context *, uint32_t), import_pd)                                         \
	ROW(65, void *, inc_comp_cntr)                                                                                 \
	ROW(65, void *, inc_err_comp_cntr)                                                                             \
	ROW(34, int (*)(struct ibv_cq *, struct ibv_modify_cq_attr *), modify_cq)                                      \
	ROW(34, int (*)(struct ibv_flow_action *, struct ibv_flow_action_esp_attr *), modify_flow_action_esp)          \
	ROW(34, int (*)(struct ibv_qp *, struct ibv_qp_attr *, int), modify_qp)                                        \
	ROW(34, int (*)(struct ibv_qp *, struct ibv_qp_rate_limit_attr *), modify_qp_rate_limit)                       \
	ROW(34, int (*)(struct ibv_srq *, struct ibv_srq_attr *, int), modify_srq)                                     \
	ROW(34, int (*)(struct ibv_wq *, struct ibv_wq_attr *), modify_wq)                                             \
	ROW(34, struct ibv_qp *(*)(struct ibv_context *, struct ibv_qp_open_attr *), open_qp)                          \
	ROW(34, struct ibv_xrcd *(*)(struct ibv_context *, struct ibv_xrcd_init_attr *), open_xrcd)                    \
	ROW(34, int (*)(struct ibv_cq *, int, struct ibv_wc *), poll_cq)                                               \
	ROW(34, int (*)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **), post_recv)                      \
	ROW(34, int (*)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **), post_send)                      \
	ROW(34, int (*)(struct ibv_srq *, struct ibv_ops_wr *, struct ibv_ops_wr **), post_srq_ops)                    \
	ROW(34, int (*)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **), post_srq_recv)                 \
	ROW(65, void *, qp_attach_comp_cntr)                                                                           \
	ROW(65, void *, query_comp_cntr_caps)                                                                          \
	ROW(34,                                                                                                        \
	    int (*)(struct ibv_context *, const struct ibv_query_device_ex_input *, struct ibv_device_attr_ex *,       \
		    size_t),                                                                                           \
	    query_device_ex)                                                                                           \
	ROW(34, int (*)(struct ibv_qp *, struct ibv_ece *), query_ece)                                                 \
	ROW(34, int (*)(struct ibv_context *, uint8_t, struct ibv_port_attr *), query_port)                            \
	ROW(62, void *, query_port_speed)                                                                              \
	ROW(34, int (*)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *), query_qp)              \
	ROW(36, int (*)(struct ibv_qp *, enum ibv_wr_opcode, uint32_t), query_qp_data_in_order)                        \
	ROW(34, int (*)(struct ibv_context *, struct ibv_values_ex *), query_rt_values)                                \
	ROW(34, int (*)(struct ibv_srq *, struct ibv_srq_attr *), query_srq)                                           \
	ROW(65, void *, read_comp_cntr)                                                                                \
	ROW(34, int (*)(struct ibv_counters *, uint64_t *, uint32_t, uint32_t), read_counters)                         \
	ROW(65, void *, read_err_comp_cntr)                                                                            \
	ROW(34, struct ibv_mr *(*)(struct ibv_pd *, struct ibv_dm *, uint64_t, size_t, unsigned int), reg_dm_mr)       \
	ROW(34, struct ibv_mr *(*)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int), reg_dmabuf_mr)              \
	ROW(34, struct ibv_mr *(*)(struct ibv_pd *, void *, size_t, uint64_t, int), reg_mr)                            \
	ROW(59, void *, reg_mr_ex)                                                                                     \
	ROW(34, int (*)(struct ibv_cq *, int), req_notify_cq)                                                          \
	ROW(34, int (*)(struct verbs_mr *, int, struct ibv_pd *, void *, size_t, int), rereg_mr)                       \
	ROW(34, int (*)(struct ibv_cq *, int), resize_cq)                                                              \
	ROW(65, void *, set_comp_cntr)                                                                                 \
	ROW(34, int (*)(struct ibv_qp *, struct ibv_ece *), set_ece)                                                   \
	ROW(65, void *, set_err_comp_cntr)                                                                             \
	ROW(35, void (*)(struct ibv_dm *), unimport_dm)                                                                \
	ROW(34, void (*)(struct ibv_mr *), unimport_mr)                                                                \
	ROW(34, void (*)(struct ibv_pd *), unimport_pd)

/* ---- public structures that changed: declared by the installed header, modelled here ------------------------ */

/* X(struct): every table of a public structure. pabi.h asserts that the installed header agrees. */
#define PABI_PUBLIC_STRUCTS(X)                                                                                         \
	X(ibv_port_attr)                                                                                               \
	X(ibv_qp_ex)

#define PABI_ibv_port_attr(ROW, OVERLAY)                                                                               \
	ROW(34, enum ibv_port_state, state)                                                                            \
	ROW(34, enum ibv_mtu, max_mtu)                                                                                 \
	ROW(34, enum ibv_mtu, active_mtu)                                                                              \
	ROW(34, int, gid_tbl_len)                                                                                      \
	ROW(34, uint32_t, port_cap_flags)                                                                              \
	ROW(34, uint32_t, max_msg_sz)                                                                                  \
	ROW(34, uint32_t, bad_pkey_cntr)                                                                               \
	ROW(34, uint32_t, qkey_viol_cntr)                                                                              \
	ROW(34, uint16_t, pkey_tbl_len)                                                                                \
	ROW(34, uint16_t, lid)                                                                                         \
	ROW(34, uint16_t, sm_lid)                                                                                      \
	ROW(34, uint8_t, lmc)                                                                                          \
	ROW(34, uint8_t, max_vl_num)                                                                                   \
	ROW(34, uint8_t, sm_sl)                                                                                        \
	ROW(34, uint8_t, subnet_timeout)                                                                               \
	ROW(34, uint8_t, init_type_reply)                                                                              \
	ROW(34, uint8_t, active_width)                                                                                 \
	ROW(34, uint8_t, active_speed)                                                                                 \
	ROW(34, uint8_t, phys_state)                                                                                   \
	ROW(34, uint8_t, link_layer)                                                                                   \
	ROW(34, uint8_t, flags)                                                                                        \
	ROW(34, uint16_t, port_cap_flags2)                                                                             \
	ROW(49, uint32_t, active_speed_ex)

/* Functions are plain pointers here: the header has the prototypes. */
#define PABI_ibv_qp_ex(ROW, OVERLAY)                                                                                   \
	ROW(34, struct ibv_qp, qp_base)                                                                                \
	ROW(34, uint64_t, comp_mask)                                                                                   \
	ROW(34, uint64_t, wr_id)                                                                                       \
	ROW(34, unsigned int, wr_flags)                                                                                \
	ROW(34, void *, wr_atomic_cmp_swp)                                                                             \
	ROW(34, void *, wr_atomic_fetch_add)                                                                           \
	ROW(34, void *, wr_bind_mw)                                                                                    \
	ROW(34, void *, wr_local_inv)                                                                                  \
	ROW(34, void *, wr_rdma_read)                                                                                  \
	ROW(34, void *, wr_rdma_write)                                                                                 \
	ROW(34, void *, wr_rdma_write_imm)                                                                             \
	ROW(34, void *, wr_send)                                                                                       \
	ROW(34, void *, wr_send_imm)                                                                                   \
	ROW(34, void *, wr_send_inv)                                                                                   \
	ROW(34, void *, wr_send_tso)                                                                                   \
	ROW(34, void *, wr_set_ud_addr)                                                                                \
	ROW(34, void *, wr_set_xrc_srqn)                                                                               \
	ROW(34, void *, wr_set_inline_data)                                                                            \
	ROW(34, void *, wr_set_inline_data_list)                                                                       \
	ROW(34, void *, wr_set_sge)                                                                                    \
	ROW(34, void *, wr_set_sge_list)                                                                               \
	ROW(34, void *, wr_start)                                                                                      \
	ROW(34, void *, wr_complete)                                                                                   \
	ROW(34, void *, wr_abort)                                                                                      \
	ROW(44, void *, wr_atomic_write)                                                                               \
	ROW(45, void *, wr_flush)

/*
 * verbs_context grows at its front, so its newest rows come first. OP rows are what the library fills from
 * verbs_context_ops; the self-check compares them.
 */
#define PABI_verbs_context(ROW, OP)                                                                                    \
	OP(64, free_buf, free_buf)                                                                                     \
	OP(64, alloc_buf, alloc_buf)                                                                                   \
	OP(62, dm_export_dmabuf_fd, dm_export_dmabuf_fd)                                                               \
	OP(59, reg_mr_ex, reg_mr_ex)                                                                                   \
	OP(59, dealloc_dmah, dealloc_dmah)                                                                             \
	OP(59, alloc_dmah, alloc_dmah)                                                                                 \
	ROW(34, void *, query_port) /* the library's own wrapper round the op */                                       \
	OP(34, advise_mr, advise_mr)                                                                                   \
	OP(34, alloc_null_mr, alloc_null_mr)                                                                           \
	OP(34, read_counters, read_counters)                                                                           \
	OP(34, attach_counters_point_flow, attach_counters_point_flow)                                                 \
	OP(34, create_counters, create_counters)                                                                       \
	OP(34, destroy_counters, destroy_counters)                                                                     \
	OP(34, reg_dm_mr, reg_dm_mr)                                                                                   \
	OP(34, alloc_dm, alloc_dm)                                                                                     \
	OP(34, free_dm, free_dm)                                                                                       \
	OP(34, modify_flow_action_esp, modify_flow_action_esp)                                                         \
	OP(34, destroy_flow_action, destroy_flow_action)                                                               \
	OP(34, create_flow_action_esp, create_flow_action_esp)                                                         \
	OP(34, modify_qp_rate_limit, modify_qp_rate_limit)                                                             \
	OP(34, alloc_parent_domain, alloc_parent_domain)                                                               \
	OP(34, dealloc_td, dealloc_td)                                                                                 \
	OP(34, alloc_td, alloc_td)                                                                                     \
	OP(34, modify_cq, modify_cq)                                                                                   \
	OP(34, post_srq_ops, post_srq_ops)                                                                             \
	OP(34, destroy_rwq_ind_table, destroy_rwq_ind_table)                                                           \
	OP(34, create_rwq_ind_table, create_rwq_ind_table)                                                             \
	OP(34, destroy_wq, destroy_wq)                                                                                 \
	OP(34, modify_wq, modify_wq)                                                                                   \
	OP(34, create_wq, create_wq)                                                                                   \
	OP(34, query_rt_values, query_rt_values)                                                                       \
	ROW(34, void *, create_cq_ex) /* the library's own wrapper round the op */                                     \
	ROW(34, void *, priv)	      /* the library allocates it; a provider never looks inside */                    \
	OP(34, query_device_ex, query_device_ex)                                                                       \
	OP(34, ibv_destroy_flow, destroy_flow)                                                                         \
	ROW(34, void *, ABI_placeholder2)                                                                              \
	OP(34, ibv_create_flow, create_flow)                                                                           \
	ROW(34, void *, ABI_placeholder1)                                                                              \
	OP(34, open_qp, open_qp)                                                                                       \
	OP(34, create_qp_ex, create_qp_ex)                                                                             \
	OP(34, get_srq_num, get_srq_num)                                                                               \
	OP(34, create_srq_ex, create_srq_ex)                                                                           \
	OP(34, open_xrcd, open_xrcd)                                                                                   \
	OP(34, close_xrcd, close_xrcd)                                                                                 \
	ROW(34, uint64_t, _ABI_placeholder3)                                                                           \
	ROW(34, size_t, sz)                                                                                            \
	ROW(34, struct ibv_context, context)

/* X(op): the pointers that the library copies into the public ibv_context_ops, under the same name. */
#define PABI_CONTEXT_OPS(X)                                                                                            \
	X(alloc_mw)                                                                                                    \
	X(dealloc_mw)                                                                                                  \
	X(bind_mw)                                                                                                     \
	X(poll_cq)                                                                                                     \
	X(req_notify_cq)                                                                                               \
	X(post_srq_recv)                                                                                               \
	X(post_send)                                                                                                   \
	X(post_recv)
