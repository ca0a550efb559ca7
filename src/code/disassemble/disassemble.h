// Instructions as text, through an installed ROCm's comgr or LLVM, whichever is there: loaded when first needed, in a child
// process, because both end the process at a processor that they do not know. UNHANG_DISASSEMBLER in the environment: llvm or
// comgr, only that; none.
#pragma once

#include "base/arena.h"
#include "base/error.h"

struct instruction {
	uint64_t address;
	unsigned size;   // in bytes
	struct str text; // mnemonic and operands, one space between them, no comment; `.long 0x...` where it is none
	uint64_t target; // that it branches to or calls, where the instruction itself says so; 0: none
};

/** Code at address @begin; an instruction begins there. */
struct code_range {
	uint64_t begin;
	struct str bytes;
	unsigned wave_size; // of its kernel: wave64 code of gfx10 and later has vcc where wave32 code has vcc_lo. 0: not known
};

struct disassembly {
	size_t n;
	const struct instruction *instructions; // by address, of all ranges
	const char *by;                         // "LLVM 19.1.7", "comgr 3.0"
	const char *refused;                    // a library that is not believed, and why; also where there is an error
};

/** The instructions of @ranges, in @a. @target_id: gfx90a:sramecc+:xnack-. An error says what is missing and which package has it, or
 * that the processor is not known. */
struct uh_error *disassemble(struct arena *a, struct str target_id, const struct code_range *ranges, size_t n,
			     struct disassembly *ret);
