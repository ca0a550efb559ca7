// One way to disassemble: a library that is loaded by name. All of it runs in a child process, which may die of it.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "code/disassemble/disassemble.h"

enum { INSTRUCTION_TEXT = 512, LIBRARY_PATH = 256 };

struct machine_code {
	uint64_t address;
	struct str bytes;
	bool wave64; // known to be code for 64 lanes; false: what the processor uses by default
};

struct disassembler {
	struct str kind; // as UNHANG_DISASSEMBLER names it
	/** The path of candidate @at for the library; candidate 0 is the best. false: there are no more. */
	bool (*path)(size_t at, char ret[static LIBRARY_PATH]);
	/** Name and version of the library that was loaded from @path. false: it cannot be used. */
	bool (*describe)(void *library, const char *path, char *ret_by, size_t size);
	/** Opens it for a target such as gfx90a:sramecc+:xnack-. If the library does not know it: NULL, or the end of the process. */
	void *(*open)(void *library, const char *target_id);
	/** The size of the instruction at the front of @code, and its text; 0: it is no instruction. */
	size_t (*instruction)(void *opened, const struct machine_code *code, char text[static INSTRUCTION_TEXT]);
};

/** One space between words, no comment. Returns the length. */
size_t disasm_normalise(char *text);
/** What is no instruction, as llvm-objdump writes it. Returns how many bytes it is. */
size_t disasm_data(struct str bytes, char text[static INSTRUCTION_TEXT]);
/** One instruction of a range, behind those before it. */
void disasm_record(struct text *out, size_t size, struct str text);

/** The records of all ranges by the program llvm-objdump. */
struct uh_error *objdump_disassemble(const char *target_id, const struct code_range *ranges, size_t n, int64_t deadline,
				     struct text *ret, char ret_by[static LIBRARY_PATH]);

extern const struct disassembler disasm_rocm;      // comgr of an installed ROCm
extern const struct disassembler disasm_comgr;     // comgr 3 in the loader's path
extern const struct disassembler disasm_comgr_old; // an older one
extern const struct disassembler disasm_llvm;
