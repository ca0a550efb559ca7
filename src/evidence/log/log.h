// The reader of logs, the kernel's and those of programs: lines in, events out.
#pragma once

#include "evidence/event.h"
#include "evidence/log/scan.h"

struct log_reader;

struct code_shelf;
struct log_words;
/** @name: of the source. @code: where the code of waves is found; NULL: nowhere. @words: outlive the reader. */
struct log_reader *log_reader_new(const struct know *k, unsigned source, struct str name, struct code_shelf *code,
				  const struct log_words *words, struct event_sink sink);
/** A log that arrives as it happens: its order is known, and nothing is held back. */
void log_reader_live(struct log_reader *r);
/** Reads the candidates of the next window. @offset: where the window begins in the text. */
void log_reader_window(struct log_reader *r, const struct window *w, uint64_t offset);
/** Reads one record of the journal or of /dev/kmsg. */
struct source_record;
void log_reader_record(struct log_reader *r, const struct source_record *record);
void log_reader_end(struct log_reader *r);
/** Looks at the first lines for what must be known before any is read. true: no line may be skipped, because the log prints
 * differences of time, or has records of several lines. */
bool log_reader_look(struct log_reader *r, struct str head);
uint64_t log_reader_lines(const struct log_reader *r);
uint64_t log_reader_events(const struct log_reader *r);
/** What was read, the most telling first; returns how many kinds. */
size_t log_reader_kinds(const struct log_reader *r, const char **ret, size_t room);
/** Whether an export of the journal ends inside of a record, or is damaged: what is behind that was not read. */
bool log_reader_cut(const struct log_reader *r);
/** How many events were lost because a log runs backwards and has too many: the oldest ones. */
uint64_t log_reader_lost(const struct log_reader *r);
void log_reader_free(struct log_reader *r);
