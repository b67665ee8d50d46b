/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test hook on the wire: drops, doubles or swaps one of each n packets that a node sends (SIMHCA_WIRE_TEST). Called
 * under the engine lock.
 */
#pragma once

#include "sim/fabric/wire.h"
#include "sim/model/settings.h"

struct wiretest;

/* *out is NULL where the setting asks for nothing. 0 or ENOMEM. */
int wiretest_new(const struct wire_test *set, struct wiretest **out);
void wiretest_free(struct wiretest *w);

/* Publishes, drops, doubles or holds back the reserved record p of this ring. */
void wiretest_publish(struct wiretest *w, struct wire_tx *tx, struct pkt *p);
