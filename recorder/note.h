// The metadata of a code object: what its kernels' arguments are. The recorder keeps their bytes as they are; a reader understands them.
#pragma once

#include <elf.h>
#include <stdint.h>
#include <string.h>

/** The text of the note "AMDGPU" among @size bytes of notes; NULL: there is none. */
static inline const char *note_among(const char *notes, uint64_t size, uint32_t *ret_size)
{
	enum { METADATA = 32 };
	while (size >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		memcpy(&n, notes, sizeof(n));
		const uint64_t name = ((uint64_t)n.n_namesz + 3) & ~3ull, text = ((uint64_t)n.n_descsz + 3) & ~3ull;
		notes += sizeof(n);
		size -= sizeof(n);
		if (name > size || n.n_descsz > size - name)
			return NULL;
		if (n.n_type == METADATA && n.n_namesz == sizeof("AMDGPU") && !memcmp(notes, "AMDGPU", sizeof("AMDGPU"))) {
			*ret_size = n.n_descsz;
			return notes + name;
		}
		const uint64_t whole = name + text < size ? name + text : size;
		notes += whole;
		size -= whole;
	}
	return NULL;
}

/** The metadata of the code object of @size bytes at @elf; NULL: it has none, or is none. */
static inline const char *metadata_find(const char *elf, uint64_t size, uint32_t *ret_size)
{
	Elf64_Ehdr h;
	if (size < sizeof(h))
		return NULL;
	memcpy(&h, elf, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_phentsize != sizeof(Elf64_Phdr))
		return NULL;
	for (unsigned i = 0; i < h.e_phnum; i++) {
		Elf64_Phdr p;
		const uint64_t at = (uint64_t)i * sizeof(p);
		if (h.e_phoff > size || at > size - h.e_phoff || sizeof(p) > size - h.e_phoff - at)
			return NULL;
		memcpy(&p, elf + h.e_phoff + at, sizeof(p));
		if (p.p_type != PT_NOTE || p.p_offset > size || p.p_filesz > size - p.p_offset)
			continue;
		const char *found = note_among(elf + p.p_offset, p.p_filesz, ret_size);
		if (found)
			return found;
	}
	return NULL;
}
