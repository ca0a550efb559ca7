// What --apply and --undo show before they ask, and after they did it.
#pragma once

#include <stdio.h>

#include "gpu/find/device.h"
#include "knowledge/steps.h"
#include "report/sheet.h"

/** What is asked for. */
struct order_view {
	struct str id, title;
	const struct steps *steps;
	struct str undo;         // how to take it back
	const struct str *notes; // on how it is written here
	size_t nnotes;
	struct str but; // why it may be wrong here; empty
	unsigned width; // columns; 0: 80
};

/** A file that is to be changed. */
struct file_view {
	struct str path, before, after;
	bool there_before, there_after;
};

void report_order(const struct order_view *v, FILE *out);
/** The same, of one that unhang cannot write. */
void report_by_hand(const struct order_view *v, FILE *out);
void report_file_change(const struct file_view *v, FILE *out);
/** A setting that is to go, and that unhang set. @undo: how. */
void report_drop(struct str name, struct str undo, FILE *out);
/** One that the user set. */
void report_drop_by_hand(const struct command *what, FILE *out);
/** The shell file @id.sh with variables of one job, in @directory. */
void report_profile(const char *directory, struct str id, struct str text, FILE *out);
void report_profile_written(const char *directory, struct str id, FILE *out);
void report_profile_deleted(const char *directory, struct str id, FILE *out);
/** The rest of a record that was never finished. */
void report_rest_deleted(FILE *out);

// Changes that unhang made of this machine, one after the other.
struct applied_view {
	struct str id, title;
	const char *state; // in a word
	int64_t date;      // seconds since 1970
	bool needless;     // versions here make it unnecessary
	const struct str *sets, *files, *why;
	size_t nsets, nfiles, nwhy;
	struct str undo;   // how to take it back
	const char *until; // before the commands that make it active; NULL: it needs none
	const struct command *const *commands;
	size_t ncommands;
};

struct applied_report {
	struct sheet sheet;
	size_t shown;
};

void report_applied_begin(struct applied_report *r, bool as_json, FILE *out);
void report_applied(struct applied_report *r, const struct applied_view *v);
void report_applied_end(struct applied_report *r);
/** `written, not active until: update-grub; reboot` */
void report_commands(FILE *out, const char *before, const struct command *const *list, size_t n);

// The smoke test of GPUs, written down as each of them ends.
struct smoke_view {
	const struct device *device;
	const char *result; // in a word
	struct str step, error, library;
	int64_t milliseconds;
	struct str text; // the same as a sentence
};

struct smoke_report {
	struct sheet sheet;
	unsigned width; // columns; 0: 80
};

void report_smoke_begin(struct smoke_report *r);
void report_smoke(struct smoke_report *r, const struct smoke_view *v);
void report_smoke_end(struct smoke_report *r);
