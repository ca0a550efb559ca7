// One walk over a diagnosis; text and JSON are two ways to write down what it meets. A report decides nothing.
#pragma once

#include <stdio.h>

#include "diagnose/ledger.h"
#include "diagnose/explain/module_error.h"
#include "base/json.h"
#include "evidence/lines.h"
#include "evidence/reader.h"
#include "evidence/silicon/silicon.h"
#include "unhang/unhang.h"

/** Something that is said by itself. */
struct note {
	struct str event, text;
	struct place at;
	bool seen;    // an event that is no incident
	bool trouble; // but it may be one that is not known
	bool quiet;   // on the first screen it is left out
	// Of a hardware error:
	struct diag_gpu gpu;
	struct str host;
	const struct module_error *error; // NULL: it is none
};

struct diagnosis {
	const struct know *know;
	const struct evidence_reader *evidence;
	const struct ledger *ledger;
	const struct machine_observation *observed; // the GPUs of a machine that was looked at; else NULL
	const struct note *notes;
	size_t nnotes;
	enum uh_verdict verdict;
	struct str unread;           // what could not be read for it; empty
	unsigned expected;           // GPUs; 0: nobody said
	struct str host;             // this machine, where it was looked at; else empty
	size_t earlier;              // incidents that were left out because they are older than asked for
	const struct lines *lines;   // of the evidence; NULL: nobody asked
	const struct command *again; // the command that was given; NULL: it cannot be repeated
};

enum report_list {
	LIST_SOURCES,
	LIST_INCIDENTS,
	LIST_TIMELINE,
	LIST_CHANGES,
	LIST_LIKE,
	LIST_KNOWN,
	LIST_REMEDIES,
	LIST_SETTINGS,
	LIST_NEXT,
	LIST_NOTES
};

/** What the walk meets; a callback that is NULL is not called. Lists are opened and closed also where they are empty; open() and close() get the incident of
 * the lists inside one, and NULL for the two others. */
struct report_writer {
	void (*begin)(void *ctx, const struct diagnosis *d);
	void (*machine)(void *ctx, const struct machine_observation *m); // only where it was looked at
	void (*open)(void *ctx, enum report_list list, const struct incident *i);
	void (*source)(void *ctx, const struct evidence *e);
	void (*incident)(void *ctx, const struct incident *i);
	void (*event)(void *ctx, const struct diag_event *e, size_t id);
	void (*change)(void *ctx, const struct incident *i, const struct diag_change *c);
	void (*like)(void *ctx, const struct incident *i, const struct diag_like *l);
	void (*known)(void *ctx, const struct know_bad *b);
	void (*remedy)(void *ctx, const struct diag_remedy *r, size_t number);
	void (*setting)(void *ctx, const struct diag_setting *s);
	void (*next)(void *ctx, const struct diag_next *n);
	void (*question)(void *ctx, const struct diag_question *q); // only where one is asked
	void (*note)(void *ctx, const struct note *n);
	void (*close)(void *ctx, enum report_list list, const struct incident *i);
	void (*incident_end)(void *ctx, const struct incident *i);
	void (*end)(void *ctx, const struct diagnosis *d);
};

void report_walk(const struct diagnosis *d, const struct report_writer *w, void *ctx);
/** Whether the walk meets a note: what was only seen says nothing beside an incident. */
bool report_has_note(const struct diagnosis *d, const struct note *n);
/** How a question is answered, with its first reply, so that it can be pasted: `unhang explain log.txt -a one-game=yes`. Where the command
 * cannot be repeated only what is added to it. */
void question_command(const struct diagnosis *d, const struct diag_question *q, struct text *to);
/** Its replies, from number @from on: `mesa, program, nothing`. */
void question_replies(const struct diag_question *q, size_t from, struct text *to);
/** The first step of a remedy that leads back from the change that is to blame; NULL: it does not. */
const struct command *way_back_step(const struct diag_remedy *r);
/** The same of an incident's remedies; NULL: no change is to blame, or there is no way back. */
const struct command *incident_way_back(const struct incident *i);
void report_text(const struct diagnosis *d, FILE *out, const struct uh_report_options *options);
void report_json(const struct diagnosis *d, FILE *out);
/** A line for each incident; docs/OPERATORS.md names the fields. */
void report_oneline(const struct diagnosis *d, FILE *out);
/** The list of GPUs. @o: of a text. */
struct sheet;
void report_machine(const struct machine_observation *m, struct sheet *s, const struct uh_report_options *o);
const char *verdict_name(enum uh_verdict v);
/** Columns to write in. */
size_t report_width(const struct uh_report_options *o);
const char *role_name(enum know_role role);
const char *clock_name(enum time_clock clock);
