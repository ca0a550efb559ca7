// Redacts the files of a bundle by what is in them: tracks, texts, bytes.
#pragma once

#include "capture/redact/allow.h"

/** A file of the partial directory. */
struct redact_file {
	struct str name;
	char *bytes;
	size_t n;
};

struct redaction {
	struct redactor redactor;
	struct allowed *allowed; // of a bug report: what may stay; NULL: everything that nothing speaks against
};

void redaction_find(struct redaction *r, const struct redact_file *f);
/** After redact_ready(): names that would change what a message says go only where they were found. true: there are some. */
bool redaction_hold(struct redaction *r, const struct know *k, const struct redact_file *f);
/** After redact_ready(). */
void redaction_replace(struct redaction *r, const struct redact_file *f, struct text *to);
/** What is found goes; then, of a bug report, what is not known. */
void redaction_replace_text(struct redaction *r, struct str text, enum allow_form form, char end, struct text *to);

/** A recording: where it was made and how the program was called go. */
void allow_recording(struct allowed *a, char *bytes, size_t n);
/** Gives entries of a recording whose texts have changed their checksums. @before: as it was; both have @n bytes. */
void redact_seal_recording(const char *before, char *bytes, size_t n);
