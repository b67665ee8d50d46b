/* SPDX-License-Identifier: BSD-2-Clause */
/* The `simhca` command: finds the subcommand in the table of simhca.h and calls it. */
#include "tools/simhca/simhca.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#ifndef SIMHCA_VERSION
#define SIMHCA_VERSION "unknown"
#endif

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
#define ROW(name, help) {#name, cmd_##name, help},
    COMMANDS(ROW)
#undef ROW
};

static char running[64] = "simhca";

int complain(const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", running, text);
	return EXIT_SETUP;
}

/* ---- options shared by subcommands ---- */

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct common *c = state->input;
	switch (key) {
	case 'f': c->fabric = arg; return 0;
	case 'j': c->json = true; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

#define OPTION_FABRIC                                                                                                  \
	{                                                                                                              \
		"fabric", 'f', "FABRIC", 0, "name of the fabric (default: SIMHCA_FABRIC, else \"default\")", 1         \
	}
#define OPTION_JSON                                                                                                    \
	{                                                                                                              \
		"json", 'j', NULL, 0, "print JSON, for programs", 1                                                    \
	}

static const struct argp_option options_fabric[] = {OPTION_FABRIC, {0}};
static const struct argp_option options_json[] = {OPTION_JSON, {0}};
static const struct argp_option options_listing[] = {OPTION_FABRIC, OPTION_JSON, {0}};
const struct argp argp_fabric = {.options = options_fabric, .parser = parse_common};
const struct argp argp_json = {.options = options_json, .parser = parse_common};
const struct argp argp_listing = {.options = options_listing, .parser = parse_common};

/* ---- the command itself ---- */

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "-?") == 0;
}

static void usage(FILE *out)
{
	fprintf(out, "Usage: simhca COMMAND [OPTION...]\n\nA software RDMA adapter for unmodified verbs programs.\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(out, "\nTry: simhca run -p connectx6dx -- ibv_devinfo\n"
		     "`simhca COMMAND --help' lists the options of a command; see also simhca(1).\n");
}

int main(int argc, char **argv)
{
	static char help[] = "--help";
	argp_program_version = "simhca " SIMHCA_VERSION;
	argp_err_exit_status = EXIT_SETUP;
	if (argc < 2) {
		usage(stderr);
		return EXIT_SETUP;
	}
	char *help_of[] = {argv[0], argv[2], help, NULL};		      /* argv[argc] is NULL */
	if (argc == 3 && strcmp(argv[1], "help") == 0 && !is_help(argv[2])) { /* simhca help run */
		argv = help_of;
	} else if (argc > 2 && is_help(argv[2])) { /* -h is no option of argp's */
		argv[2] = help;
	}
	if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
		usage(stdout);
		return fflush(stdout) ? EXIT_SETUP : 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts(argp_program_version);
		return fflush(stdout) ? EXIT_SETUP : 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		snprintf(running, sizeof(running), "simhca %s", commands[i].name);
		argv[1] = running;
		return commands[i].run(argc - 1, argv + 1);
	}
	return complain("no command '%s'; simhca --help lists them", argv[1]);
}
