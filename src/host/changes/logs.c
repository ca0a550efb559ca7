// The logs of package managers that are text: dpkg, apt, pacman, zypper. Each parser takes lines one by one; a line that is none of its
// kind says nothing.
#include <stdlib.h>
#include <time.h>

#include "host/changes/readers.h"

enum { PAUSE_S = 120 }; // lines of one run of a package manager lie nearer together

/** The next line. One that has no end was cut, and may say what it did not mean. */
static bool next_line(struct str *text, struct str *ret, unsigned *number)
{
	if (!text->n || !memchr(text->p, '\n', text->n))
		return false;
	*ret = str_split(text, '\n');
	++*number;
	return true;
}

// --- times ---

/** A number of just @digits. */
static bool take_digits(struct str *s, size_t digits, int *ret)
{
	int n = 0;
	if (s->n < digits || str_run(*s, char_digit) < digits)
		return false;
	for (size_t i = 0; i < digits; i++)
		n = 10 * n + (s->p[i] - '0');
	*s = str_from(*s, digits);
	*ret = n;
	return true;
}

static bool take_char(struct str *s, const char *among)
{
	if (!s->n || !char_among(s->p[0], among))
		return false;
	*s = str_from(*s, 1);
	return true;
}

/** `+0200`, `-03:30` or `Z`, in seconds; false: there is none. */
static bool take_offset(struct str *s, int *ret)
{
	struct str rest = *s;
	int hours, minutes;
	const bool minus = str_starts(rest, S("-"));
	*ret = 0;
	if (take_char(s, "Z"))
		return true;
	if (!take_char(&rest, "+-") || !take_digits(&rest, 2, &hours))
		return false;
	take_char(&rest, ":");
	if (!take_digits(&rest, 2, &minutes))
		return false;
	*s = rest;
	*ret = (minus ? -60 : 60) * (60 * hours + minutes);
	return true;
}

bool change_time(struct str *s, double *ret, bool *ret_local)
{
	struct str rest = *s;
	struct tm tm = { .tm_isdst = -1 };
	int offset;
	bool good = take_digits(&rest, 4, &tm.tm_year) && take_char(&rest, "-") && take_digits(&rest, 2, &tm.tm_mon) &&
		    take_char(&rest, "-") && take_digits(&rest, 2, &tm.tm_mday) && take_char(&rest, " T");
	take_char(&rest, " ");
	good = good && take_digits(&rest, 2, &tm.tm_hour) && take_char(&rest, ":") && take_digits(&rest, 2, &tm.tm_min);
	if (good && take_char(&rest, ":"))
		good = take_digits(&rest, 2, &tm.tm_sec);
	if (!good || tm.tm_year < 1990 || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 ||
	    tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	*ret_local = !take_offset(&rest, &offset);
	const time_t at = *ret_local ? mktime(&tm) : timegm(&tm) - offset;
	*ret = (double)at;
	*s = rest;
	return at > 0;
}

/** `name:amd64` without the architecture. */
static struct str plain_name(struct str name) { return str_split(&name, ':'); }

// --- dpkg.log ---

/** A log without marks of where a run begins: where it pauses the next one begins. */
static void run_goes_on(struct changes *c, struct transaction *t, double when, bool local)
{
	if (t->when && (when - t->when > PAUSE_S || when < t->begin))
		transaction_end(c, t);
	t->begin = t->begin ? t->begin : when;
	t->when = when;
	t->local = local;
}

/** `2025-07-08 10:00:01 upgrade linux-firmware:all 20250613 20250708` */
void changes_of_dpkg(struct changes *c, const struct know *k, const struct change_log *log)
{
	enum { STAMP = sizeof("2025-07-08 10:00:01") };
	struct transaction t = { .manager = S("dpkg") };
	struct str text = log->text, rest;
	unsigned line = 0;
	while (next_line(&text, &rest, &line)) {
		struct str behind = str_from(rest, STAMP);
		double when;
		bool local;
		// Most lines tell of something else.
		if (!str_among(str_word(&behind), STR_EQUALS, "install|upgrade|remove").n || !change_time(&rest, &when, &local))
			continue;
		run_goes_on(c, &t, when, local);
		str_word(&rest);
		const struct str name = plain_name(str_word(&rest)), none = S("<none>");
		struct str from = str_word(&rest), to = str_word(&rest);
		from = str_eq(from, none) ? S("") : from;
		to = str_eq(to, none) ? S("") : to;
		if (!name.n || str_eq(from, to))
			continue;
		t.where = t.where.n ? t.where : change_place(c, log, line);
		transaction_add(c, k, &t, (struct change){ name, from, to });
	}
	transaction_end(c, &t);
}

// --- apt's history.log ---

/** `name:amd64 (1.0, 2.0), other:amd64 (1.0, automatic)`; what the versions are depends on the action. */
static void apt_packages(struct changes *c, const struct know *k, struct transaction *t, struct str act, struct str list)
{
	while (list.n) {
		struct str head = str_split(&list, '('), versions = str_split(&list, ')');
		const struct str name = plain_name(str_trim(head)), first = str_trim(str_split(&versions, ','));
		const struct str second = str_trim(versions);
		str_split(&list, ' '); // the comma
		if (!name.n)
			continue;
		if (str_is(act, "Install"))
			transaction_add(c, k, t, (struct change){ name, .to = first });
		else if (str_is(act, "Remove") || str_is(act, "Purge"))
			transaction_add(c, k, t, (struct change){ name, .from = first });
		else if (str_is(act, "Upgrade") || str_is(act, "Downgrade"))
			transaction_add(c, k, t, (struct change){ name, first, second });
	}
}

/** Paragraphs of `Name: value`, from Start-Date to End-Date. */
void changes_of_apt(struct changes *c, const struct know *k, const struct change_log *log)
{
	struct transaction t = { .manager = S("apt") };
	struct str text = log->text, value;
	unsigned line = 0;
	while (next_line(&text, &value, &line)) {
		const struct str name = str_split(&value, ':');
		double when;
		bool local;
		value = str_trim(value);
		if (str_is(name, "Start-Date")) {
			transaction_end(c, &t); // one that was killed has no end
			if (change_time(&value, &when, &local))
				t = (struct transaction){ when, when, local, .manager = t.manager,
							  .where = change_place(c, log, line) };
		} else if (str_is(name, "End-Date")) {
			t.when = change_time(&value, &when, &local) ? when : t.when;
			transaction_end(c, &t);
		} else if (t.when) {
			apt_packages(c, k, &t, name, value);
		}
	}
	transaction_end(c, &t);
}

// --- pacman.log ---

/** `linux-firmware (20250613-1 -> 20250708-1)` */
static void pacman_package(struct changes *c, const struct know *k, struct transaction *t, struct str act, struct str rest)
{
	const struct str arrow = S(" -> "), name = str_word(&rest);
	struct str versions = str_trim(rest), to = { 0 };
	if (!str_starts(versions, S("(")) || !str_ends(versions, S(")")))
		return;
	versions = str_cut(str_from(versions, 1), versions.n - 2);
	const ptrdiff_t at = str_find(versions, arrow);
	if (at >= 0)
		to = str_from(versions, (size_t)at + arrow.n);
	const struct str first = at >= 0 ? str_cut(versions, (size_t)at) : versions;
	if (str_is(act, "installed"))
		transaction_add(c, k, t, (struct change){ name, .to = first });
	else if (str_is(act, "removed"))
		transaction_add(c, k, t, (struct change){ name, .from = first });
	else if (to.n && !str_eq(first, to))
		transaction_add(c, k, t, (struct change){ name, first, to });
}

/** `[2025-07-08T10:00:01+0200] [ALPM] upgraded NAME (OLD -> NEW)`; before pacman 5.2 `[2019-07-08 10:00]`, long ago without [ALPM]. */
void changes_of_pacman(struct changes *c, const struct know *k, const struct change_log *log)
{
	struct transaction t = { .manager = S("pacman") };
	struct str text = log->text, rest;
	unsigned line = 0;
	while (next_line(&text, &rest, &line)) {
		double when;
		bool local;
		if (!take_char(&rest, "[") || !change_time(&rest, &when, &local) || !str_behind(rest, S("]"), &rest))
			continue;
		str_behind(rest, S("[ALPM]"), &rest);
		if (str_is(rest, "transaction started"))
			transaction_end(c, &t);
		const struct str act = str_word(&rest);
		if (!str_among(act, STR_EQUALS, "upgraded|installed|removed|downgraded|transaction").n)
			continue;
		run_goes_on(c, &t, when, local);
		t.where = t.where.n ? t.where : change_place(c, log, line);
		pacman_package(c, k, &t, act, rest);
	}
	transaction_end(c, &t);
}

// --- zypper's history ---

/** `2025-07-08 10:00:01|install|kernel-default|6.15.5-1.1|x86_64|...`. An update is an install too, so that the version before is the one
 * that this log had last. `command` begins what one call of zypper did. */
void changes_of_zypper(struct changes *c, const struct know *k, const struct change_log *log)
{
	struct transaction t = { .manager = S("zypper") };
	struct str text = log->text, rest;
	unsigned line = 0;
	while (next_line(&text, &rest, &line)) {
		double when;
		bool local;
		if (!change_time(&rest, &when, &local) || !take_char(&rest, "|"))
			continue;
		const struct str act = str_trim(str_split(&rest, '|'));
		const bool remove = str_is(act, "remove");
		if (str_is(act, "command"))
			transaction_end(c, &t);
		if (!remove && !str_is(act, "install"))
			continue;
		run_goes_on(c, &t, when, local);
		const struct str name = str_split(&rest, '|'), version = str_split(&rest, '|');
		if (!name.n)
			continue;
		t.where = t.where.n ? t.where : change_place(c, log, line);
		const struct str before = remove ? version : change_before(c, t.manager, name);
		if (remove || !str_eq(before, version))
			transaction_add(c, k, &t, (struct change){ name, before, remove ? S("") : version });
	}
	transaction_end(c, &t);
}
