/* SPDX-License-Identifier: BSD-2-Clause */
/* simhca config: the table of settings with what each is now. */
#include "tools/simhca/simhca.h"

static error_t parse_config(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = state->input;
	return 0;
}

static const struct argp argp_config = {
    .parser = parse_config,
    .doc = "Lists every setting: environment variable, value now, default, what is accepted. `simhca run -s' takes the "
	   "name without SIMHCA_, in lower case: -s log=1 sets SIMHCA_LOG=1.",
    .children = (const struct argp_child[]){{&argp_json, 0, NULL, 0}, {0}},
};

static int add_setting(const struct setting_info *info, void *arg)
{
	struct json_object *row = row_add(arg);
	row_str(row, "variable", info->variable);
	row_str(row, "value", info->value);
	row_str(row, "default", info->def);
	row_bool(row, "is_set", info->is_set);
	row_str(row, "accepted", info->accepted);
	row_str(row, "help", info->help);
	return 0;
}

/* For people: two lines a setting, since the help is a sentence. */
static int print_setting(const struct setting_info *info, void *arg)
{
	(void)arg;
	printf("%s=%s%s\n    %s\n    default %s; accepted: %s\n", info->variable, info->value,
	       info->is_set ? "    (set in the environment)" : "", info->help, *info->def ? info->def : "empty",
	       info->accepted);
	return 0;
}

int cmd_config(int argc, char **argv)
{
	struct common common = {0};
	struct settings set;
	if (argp_parse(&argp_config, argc, argv, 0, NULL, &common))
		return EXIT_SETUP;
	int rc = load_settings(&set);
	if (rc)
		return rc;
	if (common.json) {
		struct json_object *list = list_new();
		settings_each(&set, add_setting, list);
		return list_print("settings", list, true);
	}
	settings_each(&set, print_setting, NULL);
	printf("\nFor one program: `simhca run -s log=1' sets SIMHCA_LOG=1. The name is the variable's without "
	       "SIMHCA_, in\n"
	       "lower case.\n");
	return fflush(stdout) ? complain("writing: output error") : 0;
}
