// The table of waits, line by line: docs/RECORDING.md. `unhang bisect` writes it.
#include <stdlib.h>

#include "recorder/waits/waits.h"

static char *word(char **rest)
{
	char *p = *rest + strspn(*rest, " ");
	const size_t n = strcspn(p, " ");
	*rest = p + n + (p[n] == ' ');
	p[n] = 0;
	return *p ? p : NULL;
}

static bool number(const char *text, unsigned long most, unsigned long *ret)
{
	char *end;
	if (!text || *text < '0' || *text > '9')
		return false;
	*ret = strtoul(text, &end, 10);
	return !*end && *ret <= most;
}

/** `PLACE NAME`: a queue's number, `copies` or `*`; a kernel's name or `*`. */
static bool op(char **rest, struct wait_op *ret)
{
	const char *place = word(rest);
	char *name = word(rest);
	unsigned long n = 0;
	if (!name)
		return false;
	if (!strcmp(place, "*"))
		ret->place = -1;
	else if (!strcmp(place, "copies"))
		ret->place = WAITS_COPIES;
	else if (number(place, WAITS_QUEUES - 1, &n))
		ret->place = (int)n;
	else
		return false;
	ret->name = strcmp(name, "*") ? name : NULL;
	return true;
}

static bool row(char *what, char **rest, struct wait_row *r)
{
	static const char *const does[] = { "wait", "host", "delay", "except", "trace" };
	enum { US_MOST = 10000000 };
	unsigned long us = 0;
	const char *between;
	for (unsigned i = 0; i < ARRAY_SIZE(does); i++) {
		if (strcmp(what, does[i]))
			continue;
		r->does = (enum wait_does)i;
		if (!op(rest, &r->who))
			return false;
		if (r->does == WAIT_DELAY && !number(word(rest), US_MOST, &us))
			return false;
		r->us = (uint32_t)us;
		return r->does != WAIT_FOR || ((between = word(rest)) && !strcmp(between, "for") && op(rest, &r->whom));
	}
	return false;
}

bool waits_parse(char *text, struct wait_table *ret, unsigned *ret_line)
{
	enum { DEADLINE_MS = 2000, DEADLINE_MOST = 600000 };
	_cleanup_free_ struct wait_row *rows = calloc(WAITS_ROWS, sizeof(*rows));
	struct wait_table t = { .rows = rows, .deadline = DEADLINE_MS };
	unsigned line = 0;
	bool good = t.rows;
	while (good && *text) {
		char *rest = text, *what;
		const size_t n = strcspn(text, "\n");
		text += n + (text[n] == '\n');
		rest[n] = 0;
		what = word(&rest);
		if (!line++) {
			good = what && !strcmp(what, "unhang-waits") && (what = word(&rest)) && !strcmp(what, "1");
		} else if (what && !strcmp(what, "deadline")) {
			unsigned long ms = 0;
			good = number(word(&rest), DEADLINE_MOST, &ms) && ms;
			t.deadline = (uint32_t)ms;
		} else if (what) {
			good = t.n < WAITS_ROWS && row(what, &rest, &t.rows[t.n]);
			t.n++;
		}
		good = good && !word(&rest);
	}
	*ret_line = line;
	if (!good || !line)
		return false;
	*ret = t;
	rows = NULL; // the table has them
	return true;
}
