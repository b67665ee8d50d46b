/* SPDX-License-Identifier: BSD-2-Clause */
/* The SIMHCA_* environment variables. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/model/settings.h"

static struct settings loaded(void)
{
	struct settings s;
	char err[256];

	cr_assert_eq(settings_load(&s, err, sizeof(err)), 0, "%s", err);
	cr_expect_str_empty(err);
	return s;
}

Test(model_settings, defaults)
{
	struct settings s = loaded();

	cr_expect_str_empty(s.fabric);
	cr_expect_str_eq(s.dir, "/dev/shm");
	cr_expect(s.enable);
	cr_expect_eq(s.log, 0);
	cr_expect_str_empty(s.profiles);
	cr_expect_eq(s.ring_KB, 256);
	cr_expect(s.direct);
	cr_expect(!s.strict_timers && !s.strict_cm);
	cr_expect_eq(s.wire_test.drop + s.wire_test.dup + s.wire_test.swap + s.wire_test.seed, 0);
	cr_expect_eq(s.max_locked_B, 0);
	cr_expect_eq(s.ack_warn_ms, 1000);
	cr_expect_eq(s.clock, SIM_CLOCK_REAL);
}

Test(model_settings, values)
{
	setenv("SIMHCA_FABRIC", "job-7.a_B", 1);
	setenv("SIMHCA_DIR", "/tmp/x y", 1);
	setenv("SIMHCA_ENABLE", "0", 1);
	setenv("SIMHCA_LOG", "3", 1);
	setenv("SIMHCA_RING_KB", "64", 1);
	setenv("SIMHCA_MAX_LOCKED_B", "18446744073709551615", 1);
	setenv("SIMHCA_WIRE_TEST", "drop=7,dup=5,swap=11,seed=1", 1);
	setenv("SIMHCA_CLOCK", "real", 1);
	struct settings s = loaded();

	cr_expect_str_eq(s.fabric, "job-7.a_B");
	cr_expect_str_eq(s.dir, "/tmp/x y");
	cr_expect(!s.enable);
	cr_expect_eq(s.log, 3);
	cr_expect_eq(s.ring_KB, 64);
	cr_expect_eq(s.max_locked_B, UINT64_MAX);
	cr_expect_eq(s.wire_test.drop, 7);
	cr_expect_eq(s.wire_test.dup, 5);
	cr_expect_eq(s.wire_test.swap, 11);
	cr_expect_eq(s.wire_test.seed, 1);
	setenv("SIMHCA_WIRE_TEST", "swap=3", 1);
	s = loaded();
	cr_expect_eq(s.wire_test.drop, 0);
	cr_expect_eq(s.wire_test.swap, 3);
}

Test(model_settings, errors_name_variable_value_and_what_is_accepted)
{
	static const struct {
		const char *variable, *value;
		int rc;
		const char *tail;
	} rows[] = {
	    {"SIMHCA_ENABLE", "yes", -EINVAL, "accepted: 0 or 1"},
	    {"SIMHCA_ENABLE", "", -EINVAL, "accepted: 0 or 1"},
	    {"SIMHCA_ENABLE", "01", -EINVAL, "accepted: 0 or 1"},
	    {"SIMHCA_DIRECT", "2", -EINVAL, "accepted: 0 or 1"},
	    {"SIMHCA_LOG", "4", -EINVAL, "accepted: 0 to 3"},
	    {"SIMHCA_LOG", "-1", -EINVAL, "accepted: 0 to 3"},
	    {"SIMHCA_LOG", "1 ", -EINVAL, "accepted: 0 to 3"},
	    {"SIMHCA_RING_KB", "32", -EINVAL, "accepted: 64 to 16384, a power of two"},
	    {"SIMHCA_RING_KB", "32768", -EINVAL, "accepted: 64 to 16384, a power of two"},
	    {"SIMHCA_RING_KB", "100", -EINVAL, "accepted: 64 to 16384, a power of two"},
	    {"SIMHCA_MAX_LOCKED_B", "18446744073709551616", -EINVAL, "accepted: a number of at most 64 bits"},
	    {"SIMHCA_MAX_LOCKED_B", "64K", -EINVAL, "accepted: a number of at most 64 bits"},
	    {"SIMHCA_ACK_WARN_MS", "3600001", -EINVAL, "accepted: 0 to 3600000"},
	    {"SIMHCA_FABRIC", "a/b", -EINVAL, "accepted: at most 63 letters, digits, '.', '_', '-', not first a '.'"},
	    {"SIMHCA_FABRIC", "..", -EINVAL, "accepted: at most 63 letters, digits, '.', '_', '-', not first a '.'"},
	    {"SIMHCA_WIRE_TEST", "drop", -EINVAL,
	     "accepted: drop=N,dup=N,swap=N,seed=N, any of them, N from 1 to 4294967295"},
	    {"SIMHCA_WIRE_TEST", "drop=0", -EINVAL, NULL},
	    {"SIMHCA_WIRE_TEST", "drop=7,", -EINVAL, NULL},
	    {"SIMHCA_WIRE_TEST", ",drop=7", -EINVAL, NULL},
	    {"SIMHCA_WIRE_TEST", "drop=7,drop=8", -EINVAL, NULL},
	    {"SIMHCA_WIRE_TEST", "drop=7;dup=3", -EINVAL, NULL},
	    {"SIMHCA_WIRE_TEST", "lose=7", -EINVAL, NULL},
	    {"SIMHCA_WIRE_TEST", "drop=4294967296", -EINVAL, NULL},
	    {"SIMHCA_CLOCK", "virtual", -EOPNOTSUPP, "not available yet, accepted: real"},
	    {"SIMHCA_CLOCK", "atomic", -EINVAL, "accepted: real"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct settings s;
		char err[256], want[256];
		setenv(rows[i].variable, rows[i].value, 1);
		cr_expect_eq(settings_load(&s, err, sizeof(err)), rows[i].rc, "%s=%s", rows[i].variable, rows[i].value);
		snprintf(want, sizeof(want), "%s=%s: %s", rows[i].variable, rows[i].value,
			 rows[i].tail ? rows[i].tail : "");
		cr_expect_eq(strncmp(err, want, strlen(want)), 0, "%s", err);
		unsetenv(rows[i].variable);
	}
}

Test(model_settings, limits_of_text)
{
	struct settings s;
	char text[1024], err[64];

	memset(text, 'a', sizeof(text));
	text[SETTING_NAME_MAX] = '\0';
	setenv("SIMHCA_FABRIC", text, 1);
	cr_expect_eq(settings_load(&s, err, sizeof(err)), -EINVAL);
	setenv("SIMHCA_FABRIC", text + 1, 1);
	cr_expect_eq(settings_load(&s, err, sizeof(err)), 0);
	text[SETTING_NAME_MAX] = 'a';
	text[SETTING_PATH_MAX] = '\0';
	setenv("SIMHCA_DIR", text, 1);
	cr_expect_eq(settings_load(&s, err, sizeof(err)), -EINVAL);
	cr_expect_lt(strlen(err), sizeof(err));
	setenv("SIMHCA_DIR", text + 1, 1);
	cr_expect_eq(settings_load(&s, NULL, 0), 0);
}

static int look(const struct setting_info *info, void *arg)
{
	int *count = arg;

	++*count;
	cr_expect(!strncmp(info->variable, "SIMHCA_", 7));
	cr_expect(*info->help && *info->accepted);
	if (!strcmp(info->variable, "SIMHCA_WIRE_TEST")) {
		cr_expect(info->is_set);
		cr_expect_str_eq(info->value, "dup=5,seed=2");
		cr_expect_str_empty(info->def);
	} else {
		cr_expect(!info->is_set);
		cr_expect_str_eq(info->value, info->def, "%s", info->variable);
	}
	return 0;
}

static int stop(const struct setting_info *info, void *arg)
{
	(void)info;
	++*(int *)arg;
	return 7;
}

Test(model_settings, each)
{
	int count = 0;

	setenv("SIMHCA_WIRE_TEST", "seed=2,dup=5", 1);
	struct settings s = loaded();
	cr_expect_eq(settings_each(&s, look, &count), 0);
	cr_expect_eq(count, 13);
	count = 0;
	cr_expect_eq(settings_each(&s, stop, &count), 7);
	cr_expect_eq(count, 1);
}
