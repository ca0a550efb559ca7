#include "cmd/telling.h"

#include <string.h>

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
	case TELL_FAIL_ON:
		t->node_only = !strcmp(value, "node");
		if (t->node_only || !strcmp(value, "incident"))
			return -1;
		complain("--fail-on needs incident or node, not '%s'", value);
		return EXIT_CANNOT;
	default:
		return sharing_take(&t->share, option, value);
	}
}

bool telling_begin(const struct telling *t, struct uh_session *s)
{
	if (sharing_asked(&t->share) && (t->report.json || t->report.oneline)) {
		complain("--html, --markdown, --json and --oneline: one of them at a time, please");
		return false;
	}
	if (!sharing_begin(&t->share, s))
		return false;
	struct uh_error *err = t->since ? uh_session_since(s, t->since) : NULL;
	if (!err && t->part)
		err = uh_session_part(s, t->part);
	if (err) {
		cannot(err);
		return false;
	}
	if (t->newest)
		uh_session_newest(s);
	if (t->report.lines)
		uh_session_keep_lines(s);
	return true;
}

int telling_status(const struct telling *t, const struct uh_session *s)
{
	const enum uh_verdict verdict = uh_session_verdict(s);
	if (verdict == UH_INCIDENT && t->node_only && !uh_session_node_at_fault(s))
		return *uh_session_unread(s) ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
	return verdict_status(verdict);
}
