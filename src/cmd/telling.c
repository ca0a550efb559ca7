#include "cmd/telling.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/save.h"

int telling_take(struct telling *t, int option, const char *value)
{
	switch (option) {
	case 'a':
		t->report.all = true;
		return -1;
	case 'v': // twice: with the lines
		t->report.lines |= t->report.verbose;
		t->report.verbose = true;
		return -1;
	case 'J':
		t->report.json = true;
		return -1;
	case TELL_ONELINE:
		t->report.oneline = true;
		return -1;
	case TELL_EVIDENCE:
		t->report.lines = true;
		return -1;
	case TELL_SINCE:
		t->since = value;
		return -1;
	case TELL_NEWEST:
		t->newest = true;
		return -1;
	case TELL_PART:
		t->part = value;
		return -1;
	case TELL_HTML:
		t->html = value;
		return -1;
	case TELL_REDACT:
		t->share.redact = true;
		return -1;
	case TELL_FULL:
		t->share.full_evidence = true;
		return -1;
	case TELL_FAIL_ON:
		t->node_only = !strcmp(value, "node");
		if (t->node_only || !strcmp(value, "incident"))
			return -1;
		complain("--fail-on wants incident or node, not '%s'", value);
		return EXIT_CANNOT;
	default:
		return -2;
	}
}

bool telling_begin(const struct telling *t, struct uh_session *s)
{
	if (!telling_shares(t) && (t->share.redact || t->share.full_evidence)) {
		complain("--redact and --full-evidence belong to --html");
		return false;
	}
	struct uh_error *err = t->since ? uh_session_since(s, t->since) : NULL;
	if (!err && t->part)
		err = uh_session_part(s, t->part);
	if (err) {
		cannot(err);
		return false;
	}
	if (t->newest)
		uh_session_newest(s);
	if (telling_shares(t))
		uh_session_keep_around(s, t->share.full_evidence);
	else if (t->report.lines)
		uh_session_keep_lines(s);
	return true;
}

bool telling_shares(const struct telling *t) { return t->html; }

/** Whole or not at all, and for its owner only: it quotes logs. */
static struct uh_error *save_html(const struct telling *t, struct uh_session *s)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return uh_error_new("%s: there is no memory for the report", t->html);
	uh_session_write_html(s, out, &t->share);
	fclose(out);
	struct uh_error *err = save_file(AT_FDCWD, t->html, (struct str){ text, n }, 0600);
	free(text);
	return err;
}

bool telling_share(const struct telling *t, struct uh_session *s)
{
	if (!strcmp(t->html, "-")) {
		uh_session_write_html(s, stdout, &t->share);
		return true;
	}
	struct uh_error *err = save_html(t, s);
	if (err) {
		cannot(err);
		return false;
	}
	return true;
}

int telling_status(const struct telling *t, const struct uh_session *s)
{
	const enum uh_verdict verdict = uh_session_verdict(s);
	if (verdict == UH_INCIDENT && t->node_only && !uh_session_node_at_fault(s))
		return *uh_session_unread(s) ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
	return verdict_status(verdict);
}
