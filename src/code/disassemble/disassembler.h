// One way to disassemble: a library that is loaded by name. All of it runs in a child process, which may die of it.
#pragma once

#include "base/str.h"

enum { INSTRUCTION_TEXT = 512, LIBRARY_PATH = 256 };

struct machine_code {
	uint64_t address;
	struct str bytes;
	bool wave64; // it is known to be; otherwise what the processor has by itself
};

struct disassembler {
	struct str kind; // as UNHANG_DISASSEMBLER names it
	/** The @at-th of the libraries that this may be; the best is 0. false: there are no more. */
	bool (*path)(size_t at, char ret[static LIBRARY_PATH]);
	/** Name and version of the library that was loaded from @path; false where it is not one to be used. */
	bool (*describe)(void *library, const char *path, char *ret_by, size_t size);
	/** For gfx90a:sramecc+:xnack-. NULL, or the end of the process, where the library does not know that processor. */
	void *(*open)(void *library, const char *target_id);
	/** The size of the instruction at the front of @code, and its text; 0 where it is none. */
	size_t (*instruction)(void *opened, const struct machine_code *code, char text[static INSTRUCTION_TEXT]);
};

extern const struct disassembler disasm_rocm;      // comgr of an installed ROCm
extern const struct disassembler disasm_comgr;     // comgr 3 in the loader's path
extern const struct disassembler disasm_comgr_old; // an older one
extern const struct disassembler disasm_llvm;
