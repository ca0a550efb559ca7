// The lines of the evidence themselves, for those who ask for them: of each event the line that it was read from, and some around it.
#pragma once

#include "evidence/event.h"
#include "source/source.h"

struct lines;

enum { AROUND_ALL = 1 << 30 };

/** @around: so many lines before and behind each, too. AROUND_ALL: every line of a source that has an event. */
struct lines *lines_new(unsigned around);
void lines_free(struct lines *l);
/** An event was read here; its line is kept once its source is read. */
void lines_want(struct lines *l, struct place at);
/** What is to be read in place of @s: of a stream, which can be read once only, a copy is kept. Valid until the next call. */
struct source *lines_watch(struct lines *l, struct source *s);
/** Takes the lines that are wanted of @s, which was read to its end. */
void lines_take(struct lines *l, const struct source *s);
/** Records of another source follow. */
void lines_begin_records(struct lines *l);
/** Takes those that are wanted of the one record that was just read, and those before and behind it. */
void lines_take_record(struct lines *l, struct str text);
/** The line at @at, as it stands there; empty where it was not kept: it is of no text, or beyond what is kept. */
struct str lines_at(const struct lines *l, struct place at);
