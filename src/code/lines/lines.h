// Source lines: what DWARF says of an address, through elfutils' libdw, in an index that is built once.
#pragma once

#include "base/arena.h"
#include "base/error.h"

struct code_frame {
	struct str function;   // as DWARF names it: linkage name where there is one
	struct str file;       // with its directory
	unsigned line, column; // line 0: DWARF says that the code belongs to no line in particular
	bool inlined;          // into the next frame
};

struct code_lines;

enum { CODE_FRAMES = 32 };

/** Builds an index of the debug information in the ELF file @bytes, which must outlive it. *ret is NULL if there is none. libdw runs in
 * a child process, so a damaged file cannot crash unhang. With @addresses only they may be asked for later, and only what they need is
 * kept; NULL: any address may be asked for. */
struct uh_error *code_lines_new(struct str name, struct str bytes, const uint64_t *addresses, size_t n,
				struct code_lines **ret);
void code_lines_free(struct code_lines *l);
/** Which debug information could not be read, in one line; empty: all was read. */
struct str code_lines_note(const struct code_lines *l);
/** The frames of @address, innermost first; 0: nothing is known. If there are more than CODE_FRAMES, the outermost are left out. */
size_t code_lines_at(const struct code_lines *l, uint64_t address, struct code_frame frames[static CODE_FRAMES]);
/** The last line-table row at or before @address; an instruction surely begins there. false: there is none. */
bool code_lines_row(const struct code_lines *l, uint64_t address, uint64_t *ret_begin);
