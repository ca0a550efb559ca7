// Instructions as text, through an installed ROCm's comgr or through LLVM. The library is loaded when first needed, in a child process,
// because both libraries end the process when they do not know a processor. The static file, which loads none, runs llvm-objdump. The
// variable UNHANG_DISASSEMBLER chooses: llvm, comgr, objdump or none.
#pragma once

#include "base/arena.h"
#include "base/error.h"

struct instruction {
	uint64_t address;
	unsigned size;   // in bytes
	struct str text; // mnemonic and operands, one space between them, no comment; `.long 0x...`: not an instruction
	uint64_t target; // the address that it branches to or calls, if the instruction itself says so; 0: none
};

/** Code from address @begin on, where an instruction begins. */
struct code_range {
	uint64_t begin;
	struct str bytes;
	unsigned wave_size; // of its kernel: wave64 code of gfx10 and later has vcc where wave32 code has vcc_lo. 0: not known
};

struct disassembly {
	size_t n;
	const struct instruction *instructions; // by address, of all ranges
	const char *by;                         // "LLVM 19.1.7", "comgr 3.0"
	const char *refused;                    // a library that is not believed, and why; also set if there is an error
};

/** The instructions of @ranges, in @a. @target_id: gfx90a:sramecc+:xnack-. An error says what is missing and which package has it, or
 * that the processor is not known. */
struct uh_error *disassemble(struct arena *a, struct str target_id, const struct code_range *ranges, size_t n,
			     struct disassembly *ret);
