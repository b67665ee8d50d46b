/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/model/counters.h"

const struct counter_info sim_counters[CTR_COUNT] = {
#define COUNTER_ROW(id, name, where, help) [CTR_##id] = {name, COUNTER_##where, help},
    SIM_COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
};
