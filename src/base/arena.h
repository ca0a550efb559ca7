// Memory. An arena is freed as a whole; vectors and text buffers grow. Nothing here returns NULL.
//
// unhang's memory is bounded by design (fixed numbers of incidents, events and facts), so an allocation that
// fails means a machine that is out of memory: mem_alloc() then ends the program with one line and status 2.
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/str.h"

void *mem_alloc(size_t size); // zeroed
void *mem_large(size_t size); // for a file's bytes: not zeroed
void *mem_grow(void *p, size_t old_size, size_t new_size);
/** Copies to memory that is zeroed. Pages of zeros are left out: nobody has touched them, so that they cost nothing. */
void mem_copy_sparse(char *to, const char *from, size_t n);
/** Whether all of them are zero. */
bool mem_zero(const char *p, size_t n);

struct arena {
	struct arena_block *top;
	size_t total;
};

void *arena_alloc(struct arena *a, size_t size); // zeroed
struct str arena_str(struct arena *a, struct str s);
/** A copy of @size bytes, which may be none. */
void *arena_copy(struct arena *a, const void *from, size_t size);
/** NUL-terminated copy. */
char *arena_z(struct arena *a, struct str s);
/** 48,112 */
struct str arena_grouped(struct arena *a, uint64_t n);
struct str arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Leaves an empty one behind. */
void arena_free(struct arena *a);
#define _cleanup_arena_ _cleanup_(arena_free)

// A growing array: struct { T *data; size_t len, cap; }
#define VEC(T)                                                                                                                 \
	struct {                                                                                                               \
		T *data;                                                                                                       \
		size_t len, cap;                                                                                               \
	}
#define vec_push(v, item)                                                                                                      \
	do {                                                                                                                   \
		if ((v)->len == (v)->cap) {                                                                                    \
			size_t _cap = (v)->cap ? 2 * (v)->cap : 8;                                                             \
			(v)->data = mem_grow((v)->data, (v)->cap * sizeof(*(v)->data), _cap * sizeof(*(v)->data));             \
			(v)->cap = _cap;                                                                                       \
		}                                                                                                              \
		(v)->data[(v)->len++] = (item);                                                                                \
	} while (0)
/** How many elements at the begin of a list that is sorted by a member have it at most @key: the place of the first that is greater. */
#define sorted_upto(list, n, member, key)                                                                                      \
	({                                                                                                                     \
		size_t _low = 0, _high = (n);                                                                                  \
		while (_low < _high) {                                                                                         \
			const size_t _middle = _low + (_high - _low) / 2;                                                      \
			if ((list)[_middle].member <= (key))                                                                   \
				_low = _middle + 1;                                                                            \
			else                                                                                                   \
				_high = _middle;                                                                               \
		}                                                                                                              \
		_low;                                                                                                          \
	})
/** The first element of a list for which a condition holds, in which a pointer to it is called @it; NULL: there is none. */
#define list_find(list, n, it, condition)                                                                                      \
	({                                                                                                                     \
		__typeof__((list)[0]) *it = (list);                                                                            \
		size_t it##_left = (n);                                                                                        \
		for (; it##_left && !(condition); it##_left--)                                                                 \
			it++;                                                                                                  \
		it##_left ? it : NULL;                                                                                         \
	})
/** The same for a list of pointers. */
#define list_find_of(list, n, it, condition)                                                                                   \
	({                                                                                                                     \
		__typeof__((list)[0]) it = NULL;                                                                               \
		for (size_t it##_at = 0, it##_end = (n); !it && it##_at < it##_end; it##_at++) {                               \
			it = (list)[it##_at];                                                                                  \
			it = (condition) ? it : NULL;                                                                          \
		}                                                                                                              \
		it;                                                                                                            \
	})
/** Leaves an empty one behind, whatever its type. */
void vec_free(void *vec);
#define _cleanup_vec_ _cleanup_(vec_free)

// A growing text, freed with text_free(). It is not NUL-terminated.
struct text {
	char *p;
	size_t n, cap;
};

void text_add(struct text *t, struct str s);
/** Room for @more characters behind the text. The caller writes them and then adds their number to t->n. */
char *text_room(struct text *t, size_t more);
void text_printf(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(struct text *t, const char *format, va_list ap);
void text_free(struct text *t);
#define _cleanup_text_ _cleanup_(text_free)
static inline void text_clear(struct text *t) { t->n = 0; }
static inline struct str text_str(const struct text *t) { return (struct str){ t->p, t->n }; }
