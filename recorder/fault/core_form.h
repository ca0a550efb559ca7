// The form of a light GPU core, which the recorder writes and `unhang core`: an ELF core for AMD's GPUs, its notes behind the headers.
#pragma once

#include <elf.h>
#include <stdint.h>
#include <string.h>

enum {
	CORE_PAGE = 4096,
	CORE_MACHINE = 224, // EM_AMDGPU
	CORE_OSABI = 64,
	CORE_NOTE_GPUS = 33, // NT_AMDGPU_CORE_STATE
	CORE_INFO_PID = 24,  // in the kernel's elf_prpsinfo
	CORE_INFO_NAME = 40,
	CORE_INFO_ARGUMENTS = 56,
	CORE_INFO_SIZE = 136,
};

/** Writes the head of a note, and returns where its @size bytes go. */
static inline char *core_note_begin(char *at, const char *name, uint32_t type, uint32_t size)
{
	const uint32_t n = (uint32_t)strlen(name) + 1;
	memcpy(at, &(Elf64_Nhdr){ n, size, type }, sizeof(Elf64_Nhdr));
	memcpy(at + sizeof(Elf64_Nhdr), name, n);
	return at + sizeof(Elf64_Nhdr) + (n + 3) / 4 * 4;
}

/** Of a core with @n program headers. */
static inline Elf64_Ehdr core_file_head(uint64_t n)
{
	return (Elf64_Ehdr){ .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, CORE_OSABI },
			     .e_type = ET_CORE,
			     .e_machine = CORE_MACHINE,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(Elf64_Ehdr),
			     .e_ehsize = sizeof(Elf64_Ehdr),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = (Elf64_Half)n };
}

static inline Elf64_Phdr core_notes_head(uint64_t offset, uint64_t size)
{
	return (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = offset, .p_filesz = size, .p_align = 4 };
}

/** @kept of the @size bytes at @address are in the file. */
static inline Elf64_Phdr core_load_head(uint64_t address, uint64_t offset, uint64_t kept, uint64_t size)
{
	return (Elf64_Phdr){ .p_type = PT_LOAD,
			     .p_flags = PF_R,
			     .p_offset = offset,
			     .p_vaddr = address,
			     .p_filesz = kept,
			     .p_memsz = size,
			     .p_align = CORE_PAGE };
}
