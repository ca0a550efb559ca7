// A time as people write it on a command line.
#include "diagnose/told/told.h"

#include "base/error.h"
#include "evidence/log/stamp.h"

enum { MINUTE = 60, HOUR = 3600, DAY = 86400, WEEK = 7 * DAY };

/** `h`, `hour`, `hours`: its seconds; 0 where it is no unit. */
static int64_t since_unit_of(struct str word)
{
	static const struct {
		const char *name;
		int64_t seconds;
	} units[] = {
		{ "s", 1 },    { "sec", 1 },     { "second", 1 }, { "m", MINUTE }, { "min", MINUTE }, { "minute", MINUTE },
		{ "h", HOUR }, { "hour", HOUR }, { "d", DAY },    { "day", DAY },  { "w", WEEK },     { "week", WEEK },
	};
	const struct str one = word.n > 1 && word.p[word.n - 1] == 's' ? str_cut(word, word.n - 1) : word;
	for (size_t n = 0; n < ARRAY_SIZE(units); n++)
		if (str_is(one, units[n].name) || str_is(word, units[n].name))
			return units[n].seconds;
	return 0;
}

/** `2h`, `2 hours ago`, `-2h` */
static bool parse_span(struct str text, time_t now, double *ret)
{
	enum { DIGITS = 9 };
	size_t n = 0;
	int64_t count;
	text = str_from(text, text.n && text.p[0] == '-');
	while (n < text.n && char_digit(text.p[n]))
		n++;
	if (n > DIGITS || !str_number(str_cut(text, n), &count))
		return false;
	struct str rest = str_from(text, n);
	const int64_t unit = since_unit_of(str_word(&rest));
	rest = str_trim(rest);
	if (!unit || (rest.n && !str_is(rest, "ago")))
		return false;
	*ret = (double)now - (double)count * (double)unit;
	return true;
}

/** Midnight of today, or of the day before. */
static bool parse_day(struct str text, time_t now, double *ret)
{
	struct tm tm;
	const bool yesterday = str_is(text, "yesterday");
	if ((!yesterday && !str_is(text, "today")) || !localtime_r(&now, &tm))
		return false;
	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	tm.tm_mday -= yesterday;
	tm.tm_isdst = -1;
	*ret = (double)mktime(&tm);
	return true;
}

/** `2026-11-16`, with or without hours, minutes and seconds behind a space or a T; with or without a zone. */
static bool parse_date(const struct know *k, struct str text, double *ret)
{
	enum { DATE = 10, MINUTES = 16 }; // letters of a date; with hours and minutes
	struct text whole = { 0 };
	text_add(&whole, str_cut(text, text.n < MINUTES ? text.n : MINUTES));
	if (text.n == DATE)
		text_add(&whole, S(" 00:00:00"));
	else if (text.n >= MINUTES && (text.n == MINUTES || text.p[MINUTES] != ':'))
		text_add(&whole, S(":00"));
	text_add(&whole, str_from(text, MINUTES));
	text_add(&whole, S(" x"));
	const struct stamps s = stamps_read(k, text_str(&whole));
	const bool all = s.found && s.end + 1 >= whole.n; // nothing is left over
	const time_t at = (time_t)s.best.seconds;
	struct tm tm;
	const bool wall = s.best.clock == TIME_WALL, local = s.best.clock == TIME_LOCAL && gmtime_r(&at, &tm);
	text_free(&whole);
	if (!all || (!wall && !local))
		return false;
	if (local)
		tm.tm_isdst = -1;
	*ret = wall ? s.best.seconds : (double)mktime(&tm);
	return true;
}

struct uh_error *since_parse(const struct know *k, struct str text, time_t now, double *ret)
{
	text = str_trim(text);
	if (parse_span(text, now, ret) || parse_day(text, now, ret) || parse_date(k, text, ret))
		return NULL;
	return uh_error_new("'" STR_FMT
			    "' is no time; write 2026-11-16, 2026-11-16T04:00:00Z, 2h, '3 days ago', yesterday or today",
			    STR_ARG(text));
}
