// The file of allocations as evidence: what it found by itself, and what it knows of the addresses that faults name.
#pragma once

#include "evidence/allocations/allocations.h"
#include "evidence/artefact.h"

struct source;

/** The files that were read, for faults that other evidence tells of. */
struct allocation_books {
	VEC(struct allocations *) list;
	struct place user_at; // the driver names who faulted a line or two before the address
	char user_pid[16], user_name[32];
};
void allocation_books_free(struct allocation_books *b);

/** Reads one, tells what it found, and keeps it in @books. @bytes: of a source that is no file. */
struct uh_error *allocations_read(const struct artefact_output *out, const struct source *s, struct str bytes,
				  struct allocation_books *books);
/** The address that an event asks of; NULL: none. */
const struct fact *allocations_asked(const struct event *e);
/** Keeps whom an event names, for the address that follows. */
void allocations_note(struct allocation_books *b, const struct event *e);
/** Adds to a fault what the allocator knows of its address: which allocation, whose, and how far beside it. Texts lie in @a. */
void allocations_add_to(const struct allocation_books *b, struct event *e, struct arena *a);
