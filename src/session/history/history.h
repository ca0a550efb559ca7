// The store of the history, for the commands that ask it or write to it.
#pragma once

#include "knowledge/know.h"
#include "session/look.h"
#include "session/session.h"
#include "store/history/query.h"
#include "unhang/unhang.h"

/** @store: a directory, whose index is brought up to date; a file; a server; NULL: this machine's. @t is told where
 * the index of a directory is not used. */
struct uh_error *history_store_open(const char *store, struct teller t, struct db **ret);
/** Whether a store, or a spool, is on a mount that answers; a server is left to its client. */
struct uh_error *history_place_answers(const char *place);
/** The directory whose history this is where none is named; NULL: there are several. */
const char *history_state_directory(void);
/** Where a state directory has its lines. */
const char *history_lines_of(struct arena *a, const char *state);
/** An incident of a session as a watch would have stored it. One that is explained again by a newer knowledge is a new revision of it. @otherwise:
 * when it was, where the evidence has no date. */
struct stored session_stored(const struct uh_session *s, const struct incident *i, int64_t otherwise, struct arena *a);
/** A line for each incident of a session that has ended. @place: of its evidence; may be empty. @otherwise: when it was, where the evidence has
 * no date. */
void session_history_lines(struct uh_session *s, struct str place, int64_t otherwise, struct text *to);
/** Times as people write them; what is empty stays as it is. The error is that one is none, or makes no sense. */
struct uh_error *history_asked_times(const struct know *k, int64_t now, struct str since, struct str until,
				     struct history_filter *f);
/** The error is that nobody knows such a class or part. */
struct uh_error *history_asked_known(const struct know *k, const struct history_filter *f);
struct uh_error *history_filter_of(const struct uh_history_options *o, const struct know *k, int64_t now,
				   struct history_filter *ret);
