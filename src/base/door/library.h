// Libraries that are loaded when they are needed, so that unhang runs where they are missing. What is called of one stands in a list:
//
//	#define JOURNAL_CALLS(call) call(sd_journal_open) call(sd_journal_close)
//	struct journal_api { LIBRARY_API(JOURNAL_CALLS) };
//
// and api->sd_journal_open() is called as the function itself is, with its types.
//
// The static file (docs/DECISIONS.md) and the page load nothing: what LIBRARY_TAKE() names is inside them, all else is missing.
#pragma once

#include <stdbool.h>

#define LIBRARY_MEMBER(function) typeof(function) *function;
#define LIBRARY_NAME(function) #function,
#define LIBRARY_ADDRESS(function) (void *)(function),
#define LIBRARY_API(list)                                                                                                      \
	void *library;                                                                                                         \
	list(LIBRARY_MEMBER)

/** Loads the first of the files that is there, unless @api has its library already. NULL, or the first function that it lacks; then
 * @api->library tells whether it is there at all. */
#define LIBRARY_LOAD(api, list, ...)                                                                                           \
	library_load((api), (const char *const[]){ list(LIBRARY_NAME) NULL }, (const char *const[]){ __VA_ARGS__, NULL })

/** The same for a library that is linked where none can be loaded. */
#ifdef UNHANG_LINKED
#define LIBRARY_TAKE(api, list, ...) library_take((api), (void *const[]){ list(LIBRARY_ADDRESS) NULL })
#else
#define LIBRARY_TAKE LIBRARY_LOAD
#endif

/** @api begins with the library, and a pointer for each of @names follows. */
const char *library_load(void *api, const char *const *names, const char *const *files);
const char *library_take(void *api, void *const *functions);

/** Whether this unhang can load libraries at all. */
extern const bool library_loads;
/** dlopen() and dlsym(). */
void *library_open(const char *file, int flags);
void *library_find(void *library, const char *name);
