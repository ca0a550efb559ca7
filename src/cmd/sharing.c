// The options of several commands for reports that are given to others.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/door/caller.h"
#include "base/error.h"
#include "base/print.h"
#include "base/save.h"
#include "cmd/telling.h"

int sharing_take(struct sharing *s, int option, const char *value)
{
	switch (option) {
	case TELL_HTML:
		s->html = value;
		return -1;
	case TELL_MARKDOWN:
		s->markdown = true;
		return -1;
	case TELL_REDACT:
		s->options.redact = true;
		return -1;
	case TELL_FULL:
		s->options.full_evidence = true;
		return -1;
	default:
		return -2;
	}
}

bool sharing_begin(const struct sharing *o, struct uh_session *s)
{
	const bool asked = sharing_asked(o);
	if (!asked && (o->options.redact || o->options.full_evidence)) {
		complain("--redact and --full-evidence belong to --html or --markdown");
		return false;
	}
	if (o->html && o->markdown) {
		complain("--html and --markdown: one of them at a time, please");
		return false;
	}
	static const struct output_kind page = { "--html", "<!DOCTYPE html>", "content=\"unhang " };
	if (o->html && strcmp(o->html, "-") && !output_allowed(&page, o->html, o->inputs, o->ninputs))
		return false;
	if (asked)
		uh_session_keep_around(s, o->options.full_evidence);
	return true;
}

/** With sudo, the file belongs to who called, wherever that user may write. */
static struct uh_error *save_for_caller(const char *path, struct str bytes)
{
	struct caller before;
	const bool begun = caller_begin(&before);
	struct uh_error *err = begun ? save_file(AT_FDCWD, path, bytes, 0600) : NULL;
	if (begun)
		caller_end(&before);
	if (begun && (!err || !before.changed))
		return err;
	uh_error_free(err);
	return save_file(AT_FDCWD, path, bytes, 0600);
}

/** Whole or not at all, and for its owner only: it quotes logs. */
static struct uh_error *save_html(const struct sharing *o, struct uh_session *s)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return uh_error_new("%s: there is no memory for the report", o->html);
	uh_session_write_html(s, out, &o->options);
	fclose(out);
	struct uh_error *err = save_for_caller(o->html, (struct str){ text, n });
	free(text);
	return err;
}

bool sharing_write(const struct sharing *o, struct uh_session *s)
{
	struct uh_error *err = NULL;
	if (o->markdown)
		uh_session_write_markdown(s, stdout, &o->options);
	else if (!strcmp(o->html, "-"))
		uh_session_write_html(s, stdout, &o->options);
	else
		err = save_html(o, s);
	if (err)
		cannot(err);
	else if (o->html && strcmp(o->html, "-"))
		complain("the report is in %s", o->html);
	return !err;
}
