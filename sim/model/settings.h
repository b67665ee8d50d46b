/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of SIMHCA_* environment variables. The structure, the parser, the listing of `simhca config` and the
 * manual page come from it. Anyone may call; no state is kept.
 */
#pragma once

#include "sim/base.h"

#define SETTING_NAME_MAX 64
#define SETTING_PATH_MAX 512

enum sim_clock { SIM_CLOCK_REAL, SIM_CLOCK_VIRTUAL };

/* What every nth packet of a sender suffers; 0 = nothing. */
struct wire_test {
	uint32_t drop, dup, swap;
	uint32_t seed; /* shifts where the counting starts */
};

/*
 * Types: NAME (letters, digits, '.', '_', '-', not first a '.'), PATH, BOOL (0/1), U32 and POW2 (decimal within
 * min..max), U64 (decimal), CLOCK (real), WIRE (drop=N,dup=N,swap=N,seed=N, any of them, N from 1).
 *
 * X(field, variable, type, default as text, min, max, help)
 */
#define SETTINGS(X)                                                                                                    \
	X(fabric, "SIMHCA_FABRIC", NAME, "", 0, 0, "name of the fabric; empty: the user's default fabric")             \
	X(dir, "SIMHCA_DIR", PATH, "/dev/shm", 0, 0, "folder that holds the fabrics")                                  \
	X(enable, "SIMHCA_ENABLE", BOOL, "1", 0, 1, "0 switches the emulator off: no devices")                         \
	X(log, "SIMHCA_LOG", U32, "0", 0, 3, "0 silent, 1 why a call was refused, 2 state changes, 3 every packet")    \
	X(profiles, "SIMHCA_PROFILES", PATH, "", 0, 0, "folder with profiles, searched first")                         \
	X(ring_KB, "SIMHCA_RING_KB", POW2, "256", 64, 16384, "KiB of each ring between two processes")                 \
	X(direct, "SIMHCA_DIRECT", BOOL, "1", 0, 1,                                                                    \
	  "1: large and one-sided transfers may go straight to the peer's memory")                                     \
	X(strict_timers, "SIMHCA_STRICT_TIMERS", BOOL, "0", 0, 1,                                                      \
	  "1: retry timers run although the peer is merely slow")                                                      \
	X(strict_cm, "SIMHCA_STRICT_CM", BOOL, "0", 0, 1,                                                              \
	  "1: iWARP queue pairs are connected by a connection manager only, not by ibv_modify_qp")                     \
	X(wire_test, "SIMHCA_WIRE_TEST", WIRE, "", 0, 0, "drop, double or swap every nth packet, for tests")           \
	X(max_locked_B, "SIMHCA_MAX_LOCKED_B", U64, "0", 0, UINT64_MAX,                                                \
	  "bytes that a process may have registered at once; 0: no limit")                                             \
	X(ack_warn_ms, "SIMHCA_ACK_WARN_MS", U32, "1000", 0, 3600000,                                                  \
	  "how long a destroy waits for unacknowledged events before it says so")                                      \
	X(clock, "SIMHCA_CLOCK", CLOCK, "real", 0, 0, "what timers and order follow: the real clock")

#define SETTING_FIELD_NAME(field)  char field[SETTING_NAME_MAX];
#define SETTING_FIELD_PATH(field)  char field[SETTING_PATH_MAX];
#define SETTING_FIELD_BOOL(field)  bool field;
#define SETTING_FIELD_U32(field)   uint32_t field;
#define SETTING_FIELD_POW2(field)  uint32_t field;
#define SETTING_FIELD_U64(field)   uint64_t field;
#define SETTING_FIELD_CLOCK(field) enum sim_clock field;
#define SETTING_FIELD_WIRE(field)  struct wire_test field;

struct settings {
#define SETTING_MEMBER(field, variable, type, def, min, max, help) SETTING_FIELD_##type(field)
	SETTINGS(SETTING_MEMBER)
#undef SETTING_MEMBER
};

/*
 * Fills *s from the environment, defaults where a variable is not set. 0, or a negative errno (-EINVAL; -EOPNOTSUPP
 * for what is known but not available yet) with one line in err: variable, value, what is accepted. Variables are
 * ignored in a set-user-id program.
 */
int settings_load(struct settings *s, char *err, size_t err_size);

struct setting_info {
	const char *variable;
	const char *accepted; /* "0 or 1", "64 to 16384, a power of two", ...; valid during the call */
	const char *value;    /* as set in *s, in the spelling of the environment; valid during the call */
	const char *def;      /* default in the same spelling */
	bool is_set;	      /* the environment has it */
	const char *help;
};

/* Calls fn for each setting in table order until it returns non-zero (then returned). */
int settings_each(const struct settings *s, int (*fn)(const struct setting_info *info, void *arg), void *arg);
