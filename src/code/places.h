// Where the files of loaded code objects are looked for: places that the user named, the directory of the evidence, and the path that
// the runtime noted.
#pragma once

#include "code/loaded.h"

struct code_places {
	size_t n;
	const char *const *paths; // files and directories
	struct str beside;        // a file of evidence; empty: none
	struct str gfx;           // of the GPU, gfx90a; empty: any
	struct tape *tape;        // that what the machine itself has goes to or comes from; NULL
};

/** Is offered each candidate, the likeliest first: its bytes, which are malloc'ed and which it has to free, and the name of the file.
 * It returns true to take the candidate, which ends the search. */
struct code_taker {
	bool (*take)(void *ctx, struct str name, char *bytes, size_t size);
	void *ctx;
};

/** Offers what the object of @uri may be; true once one was taken. */
bool code_places_find(const struct code_places *p, struct str uri, const struct code_taker *taker);
/** Offers everything that the user named, since the file may have another name by now; true once one was taken. */
bool code_places_any(const struct code_places *p, const struct code_taker *taker);
/** Offers every code object in the files and directories that the user named. */
void code_places_all(const struct code_places *p, const struct code_taker *taker, struct text *problems);
/** Offers every code object in the directory of the evidence. */
void code_places_beside(const struct code_places *p, const struct code_taker *taker);
