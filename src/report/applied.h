// Changes that unhang made of this machine, one after the other.
#pragma once

#include "report/sheet.h"

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
