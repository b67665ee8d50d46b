/* SPDX-License-Identifier: BSD-2-Clause */
/* What most subcommands begin with: settings, the fabric, and where the libraries are. */
#include "tools/simhca/simhca.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SIMHCA_INSTALL_LIBDIR
#define SIMHCA_INSTALL_LIBDIR "lib"
#endif
#ifndef SIMHCA_INSTALL_FULL_LIBDIR
#define SIMHCA_INSTALL_FULL_LIBDIR "/usr/local/lib"
#endif

#ifndef SIMHCA_PABI
#define SIMHCA_PABI "*"
#endif

#define PRELOAD_FILE	"libsimhca-host.so"
#define DRIVER_FILE	"libsimhca"
#define PROVIDER_SUFFIX "-rdmav"

int load_settings(struct settings *set)
{
	char err[512];
	return settings_load(set, err, sizeof(err)) ? complain("%s", err) : 0;
}

int load_profile(const char *name, struct profile *p)
{
	char err[512];
	int rc = profile_load(name, p, err, sizeof(err));
	if (rc == -ENOENT && !profile_is_path(name))
		return complain("%s; `simhca profiles' lists them", err);
	return rc ? complain("%s", err) : 0;
}

const char *fabric_name(const struct settings *set, const char *option)
{
	if (option)
		return option;
	return set->fabric[0] ? set->fabric : "default";
}

int open_fabric(const struct settings *set, const char *option, struct fabric **f)
{
	char dir[PATH_MAX], err[512];
	const char *name = fabric_name(set, option);
	fabric_dir(set->dir, name, dir, sizeof(dir));
	if (access(dir, F_OK) < 0)
		return complain("fabric '%s': %s: %s; `simhca run' makes it and it lives as long as a program uses it",
				name, dir, strerror(errno));
	return fabric_open(dir, true, f, err, sizeof(err)) ? complain("%s", err) : 0;
}

/* ---- files ---- */

static bool find_provider(const char *lib_dir, char *path, size_t size)
{
	char pattern[PATH_MAX + 64];
	glob_t g = {0};
	bool found = false;

	snprintf(pattern, sizeof(pattern), "%s/" DRIVER_FILE PROVIDER_SUFFIX "[0-9]*.so", lib_dir);
	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc && !found; i++)
			if (access(g.gl_pathv[i], R_OK) == 0) {
				snprintf(path, size, "%s", g.gl_pathv[i]);
				found = true;
			}
	globfree(&g);
	return found;
}

/* Fills *files for one folder. True if it holds any of our libraries. */
static bool try_folder(const char *lib_dir, struct files *files)
{
	char path[PATH_MAX];
	*files = (struct files){0};
	if (!realpath(lib_dir, path))
		snprintf(path, sizeof(path), "%s", lib_dir);
	snprintf(files->lib_dir, sizeof(files->lib_dir), "%.*s", (int)(sizeof(files->lib_dir) - 64), path);
	snprintf(files->driver, sizeof(files->driver), "%.*s/" DRIVER_FILE, PATH_MAX - 64, files->lib_dir);
	snprintf(files->preload, sizeof(files->preload), "%.*s/" PRELOAD_FILE, PATH_MAX - 64, files->lib_dir);
	files->has_preload = access(files->preload, R_OK) == 0;
	files->has_provider = find_provider(files->lib_dir, files->provider, sizeof(files->provider));
	if (!files->has_provider)
		snprintf(files->provider, sizeof(files->provider),
			 "%.*s/" DRIVER_FILE PROVIDER_SUFFIX SIMHCA_PABI ".so", PATH_MAX - 64, files->lib_dir);
	return files->has_preload || files->has_provider;
}

void find_files(struct files *files)
{
	static const char *const beside[] = {"lib", SIMHCA_INSTALL_LIBDIR};
	char exe[PATH_MAX], lib_dir[PATH_MAX + 64];
	struct files first;

	const char *told = secure_getenv("SIMHCA_LIB_DIR");
	if (told && *told) {
		try_folder(told, files);
		return;
	}
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[MAX(n, 0)] = '\0';
	for (int up = 0; up < 2; up++) { /* the command, then bin */
		char *slash = strrchr(exe, '/');
		if (slash)
			*slash = '\0';
	}
	for (size_t i = 0; i < ARRAY_LEN(beside); i++) {
		snprintf(lib_dir, sizeof(lib_dir), "%s/%s", exe, beside[i]);
		if (try_folder(lib_dir, files))
			return;
		if (i == 0)
			first = *files;
	}
	if (!try_folder(SIMHCA_INSTALL_FULL_LIBDIR, files))
		*files = first;
}
