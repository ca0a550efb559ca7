// Source lines: what DWARF says of an address, through elfutils' libdw, in an index that is built once.
#pragma once

#include "base/arena.h"
#include "base/error.h"

struct code_frame {
	struct str function;   // as DWARF names it: linkage name where there is one
	struct str file;       // with its directory
	unsigned line, column; // line 0: the compiler made this of no line in particular, as DWARF says
	bool inlined;          // into the next frame
};

struct code_lines;

enum { CODE_FRAMES = 32 };

/** Index of the debug information in the ELF file @bytes, which must stay. NULL in *ret where there is none. libdw runs in a child
 * process: a damaged file cannot take unhang with it. Where it is known which @addresses will be asked for, only what they need is
 * kept, and only they may be asked for; NULL: any. */
struct uh_error *code_lines_new(struct str name, struct str bytes, const uint64_t *addresses, size_t n,
				struct code_lines **ret);
void code_lines_free(struct code_lines *l);
/** What of the debug information could not be read, in one line; empty where all was. */
struct str code_lines_note(const struct code_lines *l);
/** Frames of @address, innermost first; 0 where nothing is known. Of more than CODE_FRAMES the outermost are left out. */
size_t code_lines_at(const struct code_lines *l, uint64_t address, struct code_frame frames[static CODE_FRAMES]);
/** The begin of the last line-table row at or before @address that an instruction surely begins at; false where there is none. */
bool code_lines_row(const struct code_lines *l, uint64_t address, uint64_t *ret_begin);
