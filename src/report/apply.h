// What --apply and --undo show before they ask, and after they did it.
#pragma once

#include <stdio.h>

#include "knowledge/steps.h"

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
void report_file(const struct file_view *v, FILE *out);
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
