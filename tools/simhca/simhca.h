/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the `simhca` command share. A subcommand is a row of COMMANDS and a function cmd_<name>(argc, argv)
 * in a file of its own: argv[0] is "simhca <name>", the return value is the exit status.
 *
 * Exit status: 0 done; 1 the answer is "no" (doctor found a problem); 2 wrong option, missing file, unknown name or a
 * setup that cannot work, with one line on stderr; `run` ends with the program's own status, or 126 / 127 as shells do
 * when it cannot be started.
 */
#pragma once

#include "sim/base.h"
#include "sim/fabric/fabric.h"
#include "sim/model/model.h"
#include "sim/model/settings.h"

#include <argp.h>
#include <limits.h>
#include <stdio.h>

#define EXIT_NO	    1
#define EXIT_SETUP  2
#define EXIT_NOEXEC 126
#define EXIT_NOPROG 127

/* X(name, what it does) */
#define COMMANDS(X)                                                                                                    \
	X(run, "run a program on simulated adapters")                                                                  \
	X(devices, "list the devices of a fabric")                                                                     \
	X(profiles, "list the adapters that can be simulated, or write one out")                                       \
	X(probe, "show what each adapter grants for a requested inline size")                                          \
	X(stat, "print the counters of a fabric")                                                                      \
	X(config, "list every setting")                                                                                \
	X(doctor, "find out why there is no device")                                                                   \
	X(fabrics, "list the fabrics of this user")                                                                    \
	X(sweep, "remove fabrics that no process uses")

#define DECLARE(name, help) int cmd_##name(int argc, char **argv);
COMMANDS(DECLARE)
#undef DECLARE

/* ---- main.c ---- */

/* One line on stderr, prefixed with the subcommand; gives EXIT_SETUP, to be returned. */
int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2), cold));

/*
 * Options that several subcommands share, for `argp.children`; input is a struct common. The listing variant has
 * -f and --json, the others one of them.
 */
struct common {
	const char *fabric; /* -f; NULL = setting */
	bool json;
};
extern const struct argp argp_listing, argp_fabric, argp_json;

/* ---- setup.c: settings, fabrics, files ---- */

/* Settings from the environment, complaining about bad ones. 0 or EXIT_SETUP. */
int load_settings(struct settings *set);

/* Name of the fabric: the option (NULL = not given), else the setting, else "default". */
const char *fabric_name(const struct settings *set, const char *option);

/* Reads a profile by name or path. 0 or EXIT_SETUP, complained. */
int load_profile(const char *name, struct profile *p);

/* Opens the fabric for reading. 0 or EXIT_SETUP, complained. */
int open_fabric(const struct settings *set, const char *option, struct fabric **f);

/* The files that `run` and `doctor` need, as absolute paths. */
struct files {
	char lib_dir[PATH_MAX];
	char provider[PATH_MAX]; /* libsimhca-rdmavNN.so */
	char driver[PATH_MAX];	 /* the same without -rdmavNN.so: what RDMAV_DRIVERS wants */
	char preload[PATH_MAX];
	bool has_provider, has_preload;
};

/*
 * Looks in $SIMHCA_LIB_DIR if that is set; else in ../lib as seen from this executable (a build tree, or a prefix), and
 * in the folder the package was configured for. Where a file is missing, its path says where it was expected.
 */
void find_files(struct files *files);

/* ---- fabrics.c ---- */

/* Does any process hold the fabric in this folder? When that cannot be found out, yes. */
bool fabric_used(const char *dir);
/* Numbers of the processes that hold it, "12, 34", as far as this user may see them. */
void fabric_pids(const char *dir, char *text, size_t size);

/* ---- elf.c ---- */

/* Does the ELF file name a library whose soname starts with `prefix` among its NEEDED? Then it is in `soname`. */
bool elf_needs(const char *path, const char *prefix, char *soname, size_t soname_size);
/* Where the dynamic linker would find it, or the soname itself if that is not known. */
void elf_resolve(const char *soname, char *path, size_t size);

/* ---- modes.c: making the device nodes visible without a preload ---- */

/*
 * First link that plain mode lacks for this fabric, or for one of the default devices (fabric_dir NULL), in `what`:
 * "/dev/infiniband/uverbs0: No such file or directory". True if there is one.
 */
bool mode_plain_lacks(const char *fabric_dir, char *what, size_t size);
/* As root: makes the links. 0 or EXIT_SETUP, complained. */
int mode_plain_prepare(const char *fabric_dir);
/* Enters a user and mount namespace in which /dev has the links. 0 or EXIT_SETUP, complained. */
int mode_userns_enter(const char *fabric_dir);
/* Does the kernel speak RDMA netlink, so that only the preload can show a simulated device? */
bool rdma_netlink_present(void);

/* ---- list.c: listings, as a table or JSON ---- */

struct json_object;

/* A row or list; both end the program with one line when memory is short. */
struct json_object *list_new(void);
struct json_object *row_add(struct json_object *list);
void row_str(struct json_object *row, const char *key, const char *value);
void row_int(struct json_object *row, const char *key, uint64_t value);
void row_bool(struct json_object *row, const char *key, bool value);
void row_null(struct json_object *row, const char *key);
void row_obj(struct json_object *row, const char *key, struct json_object *value);
struct json_object *obj_new(void);
void obj_free(struct json_object *obj);

/* Prints {"name": [rows]} or an aligned table whose columns are the keys of the first row. Frees the list. 0 or
 * EXIT_SETUP. */
int list_print(const char *name, struct json_object *list, bool json);
int json_print(struct json_object *obj);
