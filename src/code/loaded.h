// Code objects at the addresses at which they were loaded, and what is at a program counter.
#pragma once

#include "code/disassemble/disassemble.h"
#include "code/lines/lines.h"
#include "code/object/object.h"

/** A code object that a program had loaded, or a file to look into. */
struct loaded {
	struct str name; // of the file it came from, or its URI
	struct code_object *object;
	uint64_t base;  // added to the object's addresses
	bool of_memory; // its bytes are the memory's, not the file's
	char *bytes;
	struct code_lines *lines;   // NULL: not asked for yet, or there are none
	struct code_lines *earlier; // those of some addresses, which frames may point into
	enum { LINES_UNASKED, LINES_SOME, LINES_ALL } lines_asked;
};

enum { CODE_NAMES = 1024 };

struct code_set {
	struct arena arena;
	struct code_name *names[CODE_NAMES]; // that were demangled, by where they lie
	int64_t demangling;                  // milliseconds that this took
	int64_t children;                    // milliseconds that lines and instructions took
	bool functions_only;                 // is all that is asked of objects: their metadata are not read
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

/** Parses @bytes (malloc'ed, taken over also where it fails). NULL and a line in the problems where it is no code object. */
struct loaded *code_set_take(struct code_set *s, struct str name, char *bytes, size_t size, uint64_t base);
/** Takes an object out again. */
void code_set_drop(struct code_set *s, struct loaded *l);
void code_set_free(struct code_set *s);
/** A name as people write it; demangled once. @name must stay. */
struct str code_set_name(struct code_set *s, struct str name);
/** The object that @pc lies in, or NULL. */
struct loaded *code_set_find(const struct code_set *s, uint64_t pc);
/** For each of @n program counters; the results live as long as the set. @context: instructions before and behind; negative: none at
 * all. */
void code_where(struct code_set *s, const uint64_t *pcs, size_t n, int context, struct where *ret);
/** The same for addresses that are known to lie in @l. */
void code_where_in(struct code_set *s, struct loaded *l, const uint64_t *pcs, size_t n, int context, struct where *ret);

// For very many addresses, of which nothing need be kept: first all of them, then one by one.

/** Makes ready for these addresses in @l, and no others. */
void code_where_expect(struct code_set *s, struct loaded *l, const uint64_t *pcs, size_t n);
/** Without frames and instructions. @function: that @pc lies in. */
struct where code_where_one(struct code_set *s, struct loaded *l, uint64_t pc, const struct code_symbol *function);
/** The frames of what code_where_one() found, with the names of functions as DWARF has them. */
size_t code_where_frames(const struct where *w, struct code_frame frames[static CODE_FRAMES]);
