// Code objects at the addresses where they were loaded, and what is at a program counter.
#pragma once

#include "code/disassemble/disassemble.h"
#include "code/lines/lines.h"
#include "code/object/object.h"

/** A code object that a program had loaded, or a file to look into. */
struct loaded {
	struct str name; // of the file it came from, or its URI
	struct code_object *object;
	uint64_t base;  // added to the object's addresses
	bool of_memory; // its bytes came from memory, not from a file
	bool bare;      // they are code without an object, which begins with an instruction
	char *bytes;
	struct code_lines *lines;   // NULL: not asked for yet, or there are none
	struct code_lines *earlier; // an index for some addresses only; frames may still point into it
	enum { LINES_UNASKED, LINES_SOME, LINES_ALL } lines_asked;
};

enum { CODE_NAMES = 1024 };

struct code_set {
	struct arena arena;
	struct code_name *names[CODE_NAMES]; // names that were demangled, hashed by their address
	int64_t demangling;                  // milliseconds that this took
	int64_t children;                    // milliseconds that lines and instructions took
	bool functions_only;                 // only functions are asked for, so objects' metadata are not read
	VEC(struct loaded *) objects;
	struct text problems; // one line for each thing that could not be used
	const char *refused;  // a library that was not believed, and why
};

/** What is at a program counter. */
struct where {
	uint64_t pc;
	const struct loaded *in;            // NULL: in none of the objects
	uint64_t address;                   // in the object
	const struct code_symbol *function; // NULL: in none
	uint64_t offset;                    // from the function's begin
	struct str name;                    // of the function, demangled
	size_t nframes;
	const struct code_frame *frames; // innermost first; function names are demangled
	size_t ninstructions, here;      // here: index of the one at the pc; == ninstructions where there is none
	const struct instruction *instructions;
	struct str no_instructions; // why there are none
};

/** Parses @bytes, which are malloc'ed and belong to the set from now on, even if it fails. NULL, and a line in the problems: it is not
 * a code object. */
struct loaded *code_set_take(struct code_set *s, struct str name, char *bytes, size_t size, uint64_t base);
/** Code of memory that belongs to no object: @bytes as above, the first instruction at @base. @functions: what is known to begin in it,
 * by address from @base on. */
struct loaded *code_set_take_bare(struct code_set *s, struct str gfx, struct str bytes, uint64_t base,
				  const struct code_symbol *functions, size_t n);
/** Removes an object from the set and frees it. */
void code_set_drop(struct code_set *s, struct loaded *l);
void code_set_free(struct code_set *s);
/** The demangled name; each name is demangled only once. @name must outlive the set. */
struct str code_set_name(struct code_set *s, struct str name);
/** The object that @pc lies in, or NULL. */
struct loaded *code_set_find(const struct code_set *s, uint64_t pc);
/** What is at each of @n program counters. The results live as long as the set. @context: how many instructions before and behind;
 * negative: no instructions at all. */
void code_where(struct code_set *s, const uint64_t *pcs, size_t n, int context, struct where *ret);
/** The same for addresses that are known to lie in @l. */
void code_where_in(struct code_set *s, struct loaded *l, const uint64_t *pcs, size_t n, int context, struct where *ret);

// For very many addresses, when nothing is kept: first announce all of them, then ask one by one.

/** Makes ready for these addresses in @l, and no others. */
void code_where_expect(struct code_set *s, struct loaded *l, const uint64_t *pcs, size_t n);
/** What is at @pc, without frames and instructions. @function: the one that @pc lies in. */
struct where code_where_one(struct code_set *s, struct loaded *l, uint64_t pc, const struct code_symbol *function);
/** The frames of what code_where_one() found. Names of functions are not demangled. */
size_t code_where_frames(const struct where *w, struct code_frame frames[static CODE_FRAMES]);
