/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which shared libraries an ELF file names. Just enough of the format for one question: is the program linked to a
 * sanitizer's shared runtime, which insists on being first?
 */
#include "tools/simhca/simhca.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
	const char *base;
	size_t size;
};

static const void *image_at(const struct image *im, uint64_t off, uint64_t len)
{
	return off <= im->size && len <= im->size - off ? im->base + off : NULL;
}

static const ElfW(Phdr) * find_segment(const struct image *im, const ElfW(Ehdr) * eh, uint32_t type, uint64_t vaddr)
{
	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		const ElfW(Phdr) *ph = image_at(im, eh->e_phoff + (uint64_t)i * sizeof(*ph), sizeof(*ph));
		if (!ph)
			return NULL;
		if (ph->p_type == type && (type != PT_LOAD || vaddr - ph->p_vaddr < ph->p_filesz))
			return ph;
	}
	return NULL;
}

/* The dynamic section's strings: its virtual address, found through the segment that holds it. */
static const char *find_strings(const struct image *im, const ElfW(Ehdr) * eh, const ElfW(Dyn) * dyn, size_t count,
				uint64_t *size)
{
	uint64_t vaddr = 0;
	*size = 0;
	for (size_t i = 0; i < count && dyn[i].d_tag != DT_NULL; i++) {
		if (dyn[i].d_tag == DT_STRTAB)
			vaddr = dyn[i].d_un.d_ptr;
		else if (dyn[i].d_tag == DT_STRSZ)
			*size = dyn[i].d_un.d_val;
	}
	const ElfW(Phdr) *load = find_segment(im, eh, PT_LOAD, vaddr);
	return load && *size ? image_at(im, load->p_offset + (vaddr - load->p_vaddr), *size) : NULL;
}

static bool image_needs(const struct image *im, const char *prefix, char *soname, size_t soname_size)
{
	const ElfW(Ehdr) *eh = image_at(im, 0, sizeof(*eh));
	if (!eh || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 || eh->e_phentsize != sizeof(ElfW(Phdr)) ||
	    eh->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || eh->e_phoff % sizeof(void *))
		return false;
	const ElfW(Phdr) *seg = find_segment(im, eh, PT_DYNAMIC, 0);
	const ElfW(Dyn) *dyn =
	    seg && seg->p_offset % sizeof(void *) == 0 ? image_at(im, seg->p_offset, seg->p_filesz) : NULL;
	if (!dyn)
		return false;

	size_t count = seg->p_filesz / sizeof(*dyn);
	uint64_t size;
	const char *strings = find_strings(im, eh, dyn, count, &size);
	for (size_t i = 0; strings && i < count && dyn[i].d_tag != DT_NULL; i++) {
		uint64_t off = dyn[i].d_un.d_val;
		if (dyn[i].d_tag != DT_NEEDED || off >= size || !memchr(strings + off, 0, size - off))
			continue;
		const char *name = strings + off;
		if (strncmp(name, prefix, strlen(prefix)) == 0 && strlen(name) < soname_size) {
			strcpy(soname, name);
			return true;
		}
	}
	return false;
}

bool elf_needs(const char *path, const char *prefix, char *soname, size_t soname_size)
{
	struct stat st;
	bool found = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		struct image im = {.size = (size_t)st.st_size};
		void *map = mmap(NULL, im.size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			im.base = map;
			found = image_needs(&im, prefix, soname, soname_size);
			munmap(map, im.size);
		}
	}
	close(fd);
	return found;
}

void elf_resolve(const char *soname, char *path, size_t size)
{
	Dl_serinfo head, *dirs = NULL;
	void *self = dlopen(NULL, RTLD_LAZY);

	if (self && dlinfo(self, RTLD_DI_SERINFOSIZE, &head) == 0 && (dirs = malloc(head.dls_size))) {
		if (dlinfo(self, RTLD_DI_SERINFOSIZE, dirs) == 0 && dlinfo(self, RTLD_DI_SERINFO, dirs) == 0) {
			for (unsigned int i = 0; i < dirs->dls_cnt; i++) {
				int n = snprintf(path, size, "%s/%s", dirs->dls_serpath[i].dls_name, soname);
				if (n > 0 && (size_t)n < size && path[0] == '/' && access(path, R_OK) == 0)
					goto out;
			}
		}
	}
	snprintf(path, size, "%s", soname);
out:
	free(dirs);
	if (self)
		dlclose(self);
}
