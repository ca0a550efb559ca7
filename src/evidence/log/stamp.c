#include "evidence/log/stamp.h"

enum { DIGITS_MAX = 15 }; // more are no time

struct stamp_cursor {
	struct str s;
	size_t at;
};

static bool at_end(const struct stamp_cursor *c) { return c->at >= c->s.n; }
static char peek(const struct stamp_cursor *c) { return at_end(c) ? 0 : c->s.p[c->at]; }
static struct str rest(const struct stamp_cursor *c) { return str_from(c->s, c->at); }

static bool eat(struct stamp_cursor *c, char want)
{
	if (peek(c) != want)
		return false;
	c->at++;
	return true;
}

/** Between @least and @most digits. */
static bool eat_digits(struct stamp_cursor *c, size_t least, size_t most, int *ret)
{
	size_t n = 0;
	int v = 0;
	while (n < most && char_digit(peek(c))) {
		v = v * 10 + (peek(c) - '0');
		c->at++;
		n++;
	}
	*ret = v;
	return n >= least && !char_digit(peek(c));
}

/** Digits after a point (or a decimal comma), as a fraction. */
static double eat_fraction(struct stamp_cursor *c)
{
	double unit = 0.1, v = 0;
	if ((peek(c) != '.' && peek(c) != ',') || c->at + 1 >= c->s.n || !char_digit(c->s.p[c->at + 1]))
		return 0;
	c->at++;
	for (; char_digit(peek(c)); c->at++, unit /= 10)
		v += unit * (peek(c) - '0');
	return v;
}

/** HH:MM:SS with a fraction. */
static bool eat_clock(struct stamp_cursor *c, double *ret)
{
	struct stamp_cursor t = *c;
	int h, m, s;
	if (!eat_digits(&t, 1, 2, &h) || !eat(&t, ':') || !eat_digits(&t, 2, 2, &m) || !eat(&t, ':') ||
	    !eat_digits(&t, 2, 2, &s) || h > 23 || m > 59 || s > 60)
		return false;
	*ret = h * 3600 + m * 60 + s + eat_fraction(&t);
	*c = t;
	return true;
}

/** Days since 1970-01-01 in the Gregorian calendar. */
static int64_t days_of(int64_t y, int m, int d)
{
	y -= m <= 2;
	int64_t era = (y >= 0 ? y : y - 399) / 400, in_era = y - era * 400;
	int64_t in_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

/** Without a year, dates are counted in a leap year, so that 29 February has a place. */
static double yearless(int month, int day, double clock)
{
	return month ? (double)(days_of(1972, month, day) - days_of(1972, 1, 1)) * 86400 + clock : clock;
}

static void stamp_skip_spaces(struct stamp_cursor *c) { c->at += str_run(rest(c), char_space); }

/** 2026-08-27T05:28:27.652671+00:00, with a space for the T, with or without a zone. */
static bool eat_iso(struct stamp_cursor *c, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	int y, m, d, zh = 0, zm = 0;
	double clock;
	if (!eat_digits(&t, 4, 4, &y) || !eat(&t, '-') || !eat_digits(&t, 2, 2, &m) || !eat(&t, '-') ||
	    !eat_digits(&t, 2, 2, &d) || m < 1 || m > 12 || d < 1 || d > 31)
		return false;
	if (!eat(&t, 'T') && !eat(&t, ' '))
		return false;
	if (!eat_clock(&t, &clock))
		return false;
	*ret = (struct stamp){ TIME_LOCAL, (double)days_of(y, m, d) * 86400 + clock };
	char sign = peek(&t);
	if (sign == 'Z') {
		t.at++;
		ret->clock = TIME_WALL;
	} else if (sign == '+' || sign == '-') {
		t.at++;
		if (eat_digits(&t, 2, 4, &zh)) {
			if (zh > 99) {
				zm = zh % 100;
				zh /= 100;
			} else if (eat(&t, ':')) {
				eat_digits(&t, 2, 2, &zm);
			}
			ret->clock = TIME_WALL;
			ret->seconds -= (sign == '-' ? -1 : 1) * (zh * 3600 + zm * 60);
		}
	}
	*c = t;
	return true;
}

/** Month, day, time and perhaps a year, in any order, in any language: `Do Dez 11 21:07:40 2025`, `kvě 25 19:33:09`. */
static bool eat_words(const struct know *k, struct stamp_cursor *c, size_t max_words, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	int month = 0, day = 0, year = 0, number;
	double clock = -1;
	for (size_t words = 0; words < max_words && !at_end(&t); words++) {
		stamp_skip_spaces(&t);
		struct stamp_cursor w = t;
		if (clock < 0 && eat_clock(&w, &clock)) {
			t = w;
			// A year may follow (dmesg -T); anything else is the host's name.
			stamp_skip_spaces(&w);
			if (eat_digits(&w, 4, 4, &number) && number > 1969 && number < 2200) {
				year = number;
				t = w;
			}
			break;
		}
		if (!day && eat_digits(&w, 1, 2, &number) && (char_space(peek(&w)) || peek(&w) == '.')) {
			eat(&w, '.');
			day = number;
			t = w;
			continue;
		}
		struct str line = rest(&t), word = str_word(&line);
		bool letters = word.n && word.n < 16, wide = false;
		for (size_t i = 0; i < word.n; i++)
			wide |= (unsigned char)word.p[i] >= 0x80;
		for (size_t i = 0; i < word.n; i++) // `12月` has digits in it
			letters &= char_alpha(word.p[i]) || (unsigned char)word.p[i] >= 0x80 || char_among(word.p[i], ".,") ||
				   (wide && char_digit(word.p[i]));
		if (!letters)
			return false;
		// `mar. janv. 7`: the word next to the day is the month, the one before it a weekday.
		int named = know_month(k, word);
		month = named ? named : month;
		t.at += word.n;
	}
	if (clock < 0 || !day || day > 31)
		return false;
	*ret = year && month ? (struct stamp){ TIME_LOCAL, (double)days_of(year, month, day) * 86400 + clock } :
			       (struct stamp){ TIME_YEARLESS, yearless(month, day, clock) };
	*c = t;
	return true;
}

/** dmesg -H: [Jul24 12:28] */
static bool eat_minute(const struct know *k, struct stamp_cursor *c, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	size_t n = 0;
	while (t.at + n < t.s.n && !char_digit(t.s.p[t.at + n]) && !char_space(t.s.p[t.at + n]))
		n++;
	int month = n ? know_month(k, str_cut(rest(&t), n)) : 0, day, h, m;
	t.at += n;
	if (!month || !eat_digits(&t, 1, 2, &day) || !eat(&t, ' ') || !eat_digits(&t, 2, 2, &h) || !eat(&t, ':') ||
	    !eat_digits(&t, 2, 2, &m) || peek(&t) != ']')
		return false;
	*ret = (struct stamp){ TIME_YEARLESS, yearless(month, day, h * 3600 + m * 60) };
	*c = t;
	return true;
}

/** glog, as torch prints it: E0902 15:15:33.626000, E626 06:28:12.903881913 */
static bool eat_glog(struct stamp_cursor *c, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	int date;
	double clock;
	if (!char_among(peek(&t), "IWEF"))
		return false;
	t.at++;
	size_t from = t.at;
	if (!eat_digits(&t, 3, 4, &date) || !eat(&t, ' ') || !eat_clock(&t, &clock))
		return false;
	// Before October torch prints the month with one digit.
	int month = date / 100, day = date % 100;
	if (month < 1 || month > 12 || day < 1 || day > 31 || t.at - from < 11)
		return false;
	*ret = (struct stamp){ TIME_YEARLESS, yearless(month, day, clock) };
	*c = t;
	return true;
}

/** What stands between '[' and ']', where it is a time. */
static bool eat_bracket(const struct know *k, struct stamp_cursor *c, struct stamps *out)
{
	struct stamp_cursor t = *c;
	struct stamp stamp = { 0 };
	t.at++;
	stamp_skip_spaces(&t);
	bool delta = eat(&t, '+'), own = true; // the kernel's own form
	size_t from = t.at;
	double seconds = 0;
	while (char_digit(peek(&t)) && t.at - from < 12)
		seconds = seconds * 10 + (t.s.p[t.at++] - '0');
	if (t.at > from && (peek(&t) == '.' || peek(&t) == ',')) {
		size_t fraction = t.at;
		bool comma = peek(&t) == ',';
		seconds += eat_fraction(&t);
		if (comma && t.at - fraction < 7) // a decimal comma stands before microseconds; `[1,6]` is something else
			return false;
		stamp_skip_spaces(&t);
		if (peek(&t) == '<') // dmesg -d, journalctl -o short-delta: the difference stands beside it
			while (!at_end(&t) && peek(&t) != ']')
				t.at++;
		if (!eat(&t, ']'))
			return false;
		stamp = (struct stamp){ delta ? TIME_RELATIVE : TIME_BOOT, seconds };
	} else {
		t.at = from;
		bool digit_follows = t.at + 1 < t.s.n && char_digit(t.s.p[t.at + 1]);
		if ((peek(&t) == 'T' || peek(&t) == 'C') && digit_follows) { // printk's caller: [  T1234]
			int id;
			t.at++;
			if (!eat_digits(&t, 1, 9, &id) || !eat(&t, ']'))
				return false;
			*c = t;
			return true;
		}
		own = !eat_iso(&t, &stamp);
		if (own && !eat_minute(k, &t, &stamp) && !eat_glog(&t, &stamp) && !eat_words(k, &t, 5, &stamp))
			return false;
		size_t tail = t.at;
		while (peek(&t) != ']' && !at_end(&t))
			t.at++;
		out->inside = (struct str){ t.s.p + tail, t.at - tail };
		eat(&t, ']');
		eat(&t, ':');
	}
	// The kernel's own clock is the finest; it wins over one that a terminal or syslog put before it.
	if (!out->found || stamp.clock == TIME_BOOT)
		out->best = stamp;
	out->delta |= delta;
	out->found = true;
	out->kernel |= own && !out->inside.n;
	*c = t;
	return true;
}

/** journalctl -o short-unix: 1753351680.123456 */
static bool eat_unix(struct stamp_cursor *c, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	double seconds = 0;
	size_t n = 0;
	for (; char_digit(peek(&t)); t.at++, n++)
		seconds = seconds * 10 + (peek(&t) - '0');
	if (n != 10 || peek(&t) != '.')
		return false;
	seconds += eat_fraction(&t);
	if (!char_space(peek(&t)))
		return false;
	*ret = (struct stamp){ TIME_WALL, seconds };
	*c = t;
	return true;
}

enum { FACILITY = 8 }; // a priority below it is the kernel's

/** /dev/kmsg: priority,sequence,microseconds,flags;text */
static bool eat_kmsg(struct stamp_cursor *c, struct stamps *out, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	double v[3] = { 0 };
	for (int i = 0; i < 3; i++) {
		size_t from = t.at;
		for (; char_digit(peek(&t)); t.at++)
			v[i] = v[i] * 10 + (peek(&t) - '0');
		if (t.at == from || t.at - from > DIGITS_MAX || !eat(&t, ','))
			return false;
	}
	while (!at_end(&t) && peek(&t) != ';' && !char_space(peek(&t)))
		t.at++;
	if (!eat(&t, ';'))
		return false;
	*ret = (struct stamp){ TIME_BOOT, v[2] / 1e6 };
	*c = t;
	out->kernel = v[0] < FACILITY;
	out->foreign |= !out->kernel;
	return true;
}

/** dmesg --decode: `kern  :err   : [` */
static void skip_facility(struct stamp_cursor *c, struct stamps *out)
{
	struct stamp_cursor t = *c;
	static const char others[] = "user |mail |daemon |auth |syslog |lpr |news |uucp |cron |authpriv|ftp |user:|daemon:";
	const bool foreign = str_among(rest(c), STR_BEGINS, others).n;
	for (int i = 0; i < 2; i++) {
		size_t from = t.at;
		while (char_alpha(peek(&t)))
			t.at++;
		if (t.at == from)
			return;
		stamp_skip_spaces(&t);
		if (!eat(&t, ':'))
			return;
		stamp_skip_spaces(&t);
	}
	if (peek(&t) != '[')
		return;
	*c = t;
	out->foreign |= foreign;
}

/** journalctl -o short-full: `Thu 2026-09-10 14:36:15 UTC` */
static bool eat_full(struct stamp_cursor *c, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	size_t letters = 0;
	while (t.at < t.s.n && !char_space(peek(&t)) && !char_digit(peek(&t)) && letters < 16) {
		t.at++;
		letters++;
	}
	if (!letters || !eat(&t, ' ') || !eat_iso(&t, ret))
		return false;
	if (str_starts(rest(&t), S(" UTC "))) {
		t.at += 4;
		ret->clock = TIME_WALL;
	}
	*c = t;
	return true;
}

/** vLLM: `ERROR 02-24 02:40:51 ` */
static bool eat_level(struct stamp_cursor *c, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	const struct str level = str_among(rest(c), STR_BEGINS, "INFO |WARNING |ERROR |DEBUG |CRITICAL ");
	int month, day;
	double clock;
	t.at += level.n;
	if (!level.n || !eat_digits(&t, 2, 2, &month) || !eat(&t, '-') || !eat_digits(&t, 2, 2, &day) || !eat(&t, ' ') ||
	    !eat_clock(&t, &clock) || month < 1 || month > 12 || day < 1 || day > 31)
		return false;
	*ret = (struct stamp){ TIME_YEARLESS, yearless(month, day, clock) };
	*c = t;
	return true;
}

/** HIP's own log prints the kernel's monotonic clock: `:0:rocdevice.cpp            :2673: 1263352162 us: ` */
static bool eat_hip(struct stamp_cursor *c, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	int level;
	if (!eat(&t, ':') || !eat_digits(&t, 1, 1, &level) || !eat(&t, ':'))
		return false;
	ptrdiff_t colon = str_find(str_cut(rest(&t), 60), S(":"));
	if (colon < 0)
		return false;
	t.at += (size_t)colon + 1;
	while (char_digit(peek(&t)) || peek(&t) == ' ')
		t.at++;
	if (!eat(&t, ':'))
		return false;
	stamp_skip_spaces(&t);
	double us = 0;
	size_t from = t.at;
	for (; char_digit(peek(&t)) && t.at - from < DIGITS_MAX; t.at++)
		us = us * 10 + (peek(&t) - '0');
	if (t.at > from)
		eat(&t, 'd'); // ROCm 6.3 prints it behind the number
	if (t.at == from || !str_starts(rest(&t), S(" us:")))
		return false;
	t.at += 4;
	*ret = (struct stamp){ TIME_BOOT, us / 1e6 };
	*c = t;
	return true;
}

/** logfmt (ollama): time=2025-09-01T12:00:00.000-07:00 */
static bool eat_logfmt(struct stamp_cursor *c, struct stamp *ret)
{
	struct stamp_cursor t = *c;
	if (!str_starts(rest(&t), S("time=")))
		return false;
	t.at += 5;
	eat(&t, '"');
	if (!eat_iso(&t, ret))
		return false;
	eat(&t, '"');
	*c = t;
	return true;
}

static void skip_quoting(struct stamp_cursor *c, struct stamps *out)
{
	static const char bar[] = "\xe2\x94\x82"; // a box that a terminal program draws
	for (;;) {
		if (str_starts(rest(c), str_z(bar)))
			c->at += strlen(bar);
		else if (char_space(peek(c)) || char_among(peek(c), ">|`") || str_starts(rest(c), S("* ")))
			c->at++;
		else
			break;
	}
	int number;
	struct stamp_cursor t = *c;
	if (eat_digits(&t, 1, 9, &number) && eat(&t, ':') && (peek(&t) == '[' || char_alpha(peek(&t)))) // grep -n
		*c = t;
	t = *c;
	if (eat(&t, '<') && eat_digits(&t, 1, 3, &number) && eat(&t, '>')) {
		out->foreign |= number >= FACILITY && peek(&t) == '['; // dmesg --raw; syslog's own numbers are of any program
		if (str_starts(rest(&t), S("1 "))) // RFC 5424
			t.at += 2;
		*c = t;
	}
	skip_facility(c, out);
}

/** What may stand between a time and the message: a container's stream, a host, `kernel:`. */
static void skip_tags(struct stamp_cursor *c, struct stamps *out)
{
	static const char *const streams[] = { "stderr F ", "stdout F ", "stderr P ", "stdout P " };
	stamp_skip_spaces(c);
	for (size_t i = 0; i < 4; i++)
		if (str_starts(rest(c), str_z(streams[i]))) {
			c->at += strlen(streams[i]);
			out->program = true;
			out->kernel = false;
		}
	ptrdiff_t kernel = str_find(str_cut(rest(c), STAMP_HOST), S("kernel: "));
	// A host's name may stand before it, not half a sentence.
	struct str before = str_cut(rest(c), kernel > 0 ? (size_t)kernel : 0);
	if (kernel == 0 || (kernel > 0 && c->s.p[c->at + (size_t)kernel - 1] == ' ' && !memchr(before.p, '[', before.n) &&
			    !memchr(before.p, ',', before.n))) {
		struct str host = before;
		if (before.n)
			out->host = str_word(&host);
		out->kernel = !str_trim(host).n;
		c->at += (size_t)kernel + 8;
	}
	stamp_skip_spaces(c);
}

struct stamps stamps_read(const struct know *k, struct str line)
{
	struct stamps out = { 0 };
	struct stamp_cursor c = { line, 0 };
	for (int i = 0; i < 4; i++) {
		skip_quoting(&c, &out);
		struct stamp stamp;
		double clock;
		if (peek(&c) == '[') {
			if (!eat_bracket(k, &c, &out))
				break;
		} else if (eat_iso(&c, &stamp) || (!out.found && eat_full(&c, &stamp)) || eat_kmsg(&c, &out, &stamp) ||
			   eat_unix(&c, &stamp) || eat_glog(&c, &stamp) || eat_level(&c, &stamp) || eat_hip(&c, &stamp) ||
			   eat_logfmt(&c, &stamp) || (!out.found && eat_words(k, &c, 4, &stamp))) {
			if (!out.found || stamp.clock == TIME_BOOT)
				out.best = stamp;
			out.found = true;
		} else if (!out.found && eat_clock(&c, &clock)) {
			out.best = (struct stamp){ TIME_YEARLESS, clock };
			out.found = true;
		} else {
			break;
		}
		skip_tags(&c, &out);
	}
	out.end = c.at;
	return out;
}

void stamps_keep(const struct stamps *s, struct kept_stamps *kept)
{
	struct str host = str_cut(s->host, sizeof(kept->host));
	*kept = (struct kept_stamps){ .found = s->found, .delta = s->delta, .kernel = s->kernel, .program = s->program, .best = s->best, .nhost = host.n };
	if (host.n)
		memcpy(kept->host, host.p, host.n);
}

struct stamps stamps_kept(const struct kept_stamps *kept)
{
	return (struct stamps){
		.found = kept->found, .delta = kept->delta, .kernel = kept->kernel, .program = kept->program, .best = kept->best, .host = { kept->host, kept->nhost }
	};
}

struct str quoting_skip(struct str line)
{
	struct stamp_cursor c = { line, 0 };
	struct stamps ignored = { 0 };
	skip_quoting(&c, &ignored);
	return rest(&c);
}
