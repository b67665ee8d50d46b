/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of send work request opcodes. Rows are numbered as enum ibv_wr_opcode of the public header, so a
 * verbs opcode is an index; everything that depends on the kind of operation is read from here.
 */
#pragma once

#include "sim/base.h"
#include <infiniband/verbs.h>

/* What an operation is made of. */
enum op_flag {
	OPF_SEND = 1 << 0,			      /* consumes a receive at the target */
	OPF_WRITE = 1 << 1,			      /* places data at a remote address */
	OPF_READ = 1 << 2,			      /* fetches data from a remote address */
	OPF_ATOMIC = 1 << 3,			      /* 8 bytes, compare-and-swap or fetch-and-add */
	OPF_IMM = 1 << 4,			      /* carries immediate data */
	OPF_INV = 1 << 5,			      /* carries a key to invalidate at the target */
	OPF_LOCAL = 1 << 6,			      /* never leaves the adapter (bind, invalidate) */
	OPF_RETH = OPF_WRITE | OPF_READ | OPF_ATOMIC, /* has a remote address */
	OPF_RESPONSE = OPF_READ | OPF_ATOMIC,	      /* completes by a response, counts against max_rd_atomic */
	OPF_DATA_OUT = OPF_SEND | OPF_WRITE,	      /* payload travels with the request */
};

/*     name            verbs opcode                    flags                  completion opcode    send_ops_flags bit */
#define SIM_OPS(X)                                                                                                     \
	X(WRITE, IBV_WR_RDMA_WRITE, OPF_WRITE, IBV_WC_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE)                           \
	X(WRITE_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, OPF_WRITE | OPF_IMM, IBV_WC_RDMA_WRITE,                               \
	  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)                                                                          \
	X(SEND, IBV_WR_SEND, OPF_SEND, IBV_WC_SEND, IBV_QP_EX_WITH_SEND)                                               \
	X(SEND_IMM, IBV_WR_SEND_WITH_IMM, OPF_SEND | OPF_IMM, IBV_WC_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM)               \
	X(READ, IBV_WR_RDMA_READ, OPF_READ, IBV_WC_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ)                                \
	X(CMP_SWAP, IBV_WR_ATOMIC_CMP_AND_SWP, OPF_ATOMIC, IBV_WC_COMP_SWAP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)        \
	X(FETCH_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD, OPF_ATOMIC, IBV_WC_FETCH_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)   \
	X(LOCAL_INV, IBV_WR_LOCAL_INV, OPF_LOCAL, IBV_WC_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV)                          \
	X(BIND_MW, IBV_WR_BIND_MW, OPF_LOCAL, IBV_WC_BIND_MW, IBV_QP_EX_WITH_BIND_MW)                                  \
	X(SEND_INV, IBV_WR_SEND_WITH_INV, OPF_SEND | OPF_INV, IBV_WC_SEND, IBV_QP_EX_WITH_SEND_WITH_INV)

enum sim_op {
#define OP_ENUM(name, verb, flags, wc, bit) OP_##name = (verb),
	SIM_OPS(OP_ENUM)
#undef OP_ENUM
	    OP_COUNT
};

struct op_info {
	const char *name; /* as in messages and filters */
	unsigned flags;	  /* enum op_flag */
	enum ibv_wc_opcode wc;
	uint64_t send_ops_bit;
};

extern const struct op_info sim_ops[OP_COUNT];
