/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/model/op.h"

const struct op_info sim_ops[OP_COUNT] = {
#define OP_ROW(name, verb, flags, wc, bit) [verb] = {#name, flags, wc, bit},
    SIM_OPS(OP_ROW)
#undef OP_ROW
};
