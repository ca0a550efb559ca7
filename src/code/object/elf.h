// ELF64, little-endian, as the GPU's linker writes it, from bytes that may be damaged.
#pragma once

#include <elf.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "code/object/object.h"

// Damage in a code object that leaves the rest of it usable: a line for each, with structure and offset.
struct code_problems {
	struct text *to; // NULL: nobody wants to know
	unsigned count;
};

/** Adds a line. A file that is damaged everywhere tells only the first few. */
void code_problem(struct code_problems *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct elf_segment {
	uint32_t type, flags;
	uint64_t offset, address, file_size, memory_size;
};

struct elf_section {
	uint32_t type, link;
	uint64_t flags, address, offset, size;
};

struct elf {
	struct str bytes;
	struct code_problems *problems;
	unsigned osabi, abi;
	uint32_t flags;
	size_t nsegments, nsections, nloads;
	const struct elf_segment *segments; // of all types
	const struct elf_section *sections;
	const struct code_segment *loads; // by address, without overlaps
	size_t names; // bytes of names that may still be read: names that overlap must not multiply the work
	size_t notes; // the same for notes
};

struct elf_note {
	size_t offset, text_offset;
	struct str text;
};

struct elf_symbol {
	struct str name;
	uint64_t address, size;
	unsigned type, binding, section;
};

enum { STT_AMDGPU_HSA_KERNEL = 10 }; // a function of code object V2

/** Reads the headers. An error if they or the segments cannot be used. Damaged sections are only a line in @problems. */
struct uh_error *elf_open(struct arena *a, struct str bytes, struct code_problems *problems, struct elf *ret);
/** The same of a program or library of the host. */
struct uh_error *elf_open_program(struct arena *a, struct str bytes, struct code_problems *problems, struct elf *ret);
/** Whether @size bytes at @offset are in the file. */
static inline bool elf_inside(const struct elf *e, uint64_t offset, uint64_t size)
{
	return offset <= e->bytes.n && size <= e->bytes.n - offset;
}
/** The segment that @address lies in, or NULL. @segments are ordered by address. */
const struct code_segment *elf_segment_at(const struct code_segment *segments, size_t n, uint64_t address);
/** The first note of this owner and type, in a segment or a section. */
bool elf_note(struct elf *e, struct str owner, uint32_t type, struct elf_note *ret);

typedef void elf_symbol_fn(void *ctx, const struct elf_symbol *s);

/** Calls @fn for every symbol that has a name. They are found by the section headers, and if those have no dynamic symbols, by
 * PT_DYNAMIC. */
void elf_symbols(struct elf *e, elf_symbol_fn *fn, void *ctx);
