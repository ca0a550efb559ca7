// Names and secrets that can be told by their form.
#include "capture/redact.h"

static size_t run_of(struct str s, bool (*is)(char))
{
	size_t n = 0;
	while (n < s.n && is(s.p[n]))
		n++;
	return n;
}

static bool is_digit(char c) { return char_digit(c); }
static bool is_hex(char c) { return char_hex(c); }
static bool is_label(char c) { return char_alpha(c) || char_digit(c) || c == '-' || c == '_'; }
static bool is_token(char c) { return is_label(c) || c == '.' || c == '+' || c == '/' || c == '=' || c == '~'; }

/** Six pairs of digits, or the eight and twenty of InfiniBand. PCI addresses have other groups. */
static size_t mac(struct str s)
{
	size_t pairs = 0, at = 0;
	char between = s.n > 2 ? s.p[2] : 0;
	if (between != ':' && between != '-')
		return 0;
	while (run_of(str_cut(str_from(s, at), 3), is_hex) == 2) {
		pairs++;
		at += 2;
		if (at >= s.n || s.p[at] != between)
			break;
		at++;
	}
	bool ends = at >= s.n || (!char_hex(s.p[at]) && s.p[at] != between);
	return ends && (pairs == 6 || pairs == 8 || pairs == 20) ? 3 * pairs - 1 : 0;
}

/** 8-4-4-4-12 digits: a disk, a board, a machine. */
static size_t uuid(struct str s)
{
	static const size_t groups[] = { 8, 4, 4, 4, 12 };
	size_t at = 0;
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		if (i && (at >= s.n || s.p[at++] != '-'))
			return 0;
		if (run_of(str_from(s, at), is_hex) != groups[i])
			return 0;
		at += groups[i];
	}
	return at < s.n && is_label(s.p[at]) ? 0 : at;
}

/** Four numbers up to 255, and no fifth: versions have leading zeros, or more or fewer parts. */
static size_t ipv4(struct str s)
{
	size_t at = 0;
	for (int part = 0; part < 4; part++) {
		int64_t number;
		size_t n = run_of(str_from(s, at), is_digit);
		if (!n || n > 3 || (n > 1 && s.p[at] == '0') || !str_number(str_cut(str_from(s, at), n), &number) ||
		    number > 255)
			return 0;
		at += n;
		if (part < 3 && (at >= s.n || s.p[at++] != '.'))
			return 0;
	}
	bool more = at + 1 < s.n && s.p[at] == '.' && char_digit(s.p[at + 1]);
	return more || (at < s.n && is_label(s.p[at]) && s.p[at] != '-') ? 0 : at;
}

/** Eight groups, or `::` among at least three characters of groups that begin as addresses that are given out do. */
static size_t ipv6(struct str s)
{
	size_t at = 0, groups = 0, doubles = 0;
	while (at < s.n) {
		size_t n = run_of(str_from(s, at), is_hex);
		if (n > 4)
			return 0;
		groups += n > 0;
		at += n;
		if (at >= s.n || s.p[at] != ':')
			break;
		if (at + 1 < s.n && s.p[at + 1] == ':') {
			doubles++;
			at++;
		} else if (at + 1 >= s.n || !char_hex(s.p[at + 1])) {
			break;
		}
		at++;
	}
	if (at < s.n && is_label(s.p[at]))
		return 0;
	bool given = s.n > 4 && run_of(s, is_hex) == 4 && (char_among(s.p[0], "23fF"));
	return groups == 8 || (doubles == 1 && groups >= 2 && given) ? at : 0;
}

/** host.cluster.example.com */
static size_t domain(struct str s)
{
	static const char *const ends[] = { "com",   "org",      "net", "edu",  "gov",     "io",    "ai",      "dev",
					    "local", "internal", "lan", "corp", "cluster", "cloud", "home",    "de",
					    "uk",    "fr",       "eu",  "cn",   "jp",      "intra", "private", "example",
					    "test",  "arpa",     "ch",  "nl",   "us",      "tech" };
	size_t at = 0, labels = 0;
	struct str last = { 0 };
	while (at < s.n) {
		size_t n = run_of(str_from(s, at), is_label);
		if (!n)
			break;
		last = str_cut(str_from(s, at), n);
		labels++;
		at += n;
		if (at + 1 >= s.n || s.p[at] != '.' || !is_label(s.p[at + 1]))
			break;
		at++;
	}
	for (size_t i = 0; labels > 1 && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (str_is(last, ends[i]))
			return at;
	return 0;
}

/** Tokens of services, by their first letters. */
static size_t known_token(struct str s)
{
	static const char *const heads[] = { "hf_",  "sk-",   "ghp_",  "gho_",      "ghs_",   "github_pat_", "glpat-",
					     "AKIA", "ASIA",  "xoxb-", "xoxp-",     "nvapi-", "AIza",        "ya29.",
					     "eyJ",  "pypi-", "npm_",  "dckr_pat_", "rpa_",   "tok_",        "key-" };
	enum { LEAST = 16 };
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (str_starts(s, str_z(heads[i]))) {
			size_t n = run_of(s, is_token);
			return n >= LEAST ? n : 0;
		}
	return 0;
}

/** Letters and digits in a long jumble. Of texts other than command lines that may be a build or a checksum. */
static size_t jumble(struct str s)
{
	enum { LEAST = 20, LEAST_PLAIN = 32 };
	size_t n = run_of(s, is_label), digits = 0, upper = 0, lower = 0;
	for (size_t i = 0; i < n; i++) {
		digits += char_digit(s.p[i]);
		upper += s.p[i] >= 'A' && s.p[i] <= 'Z';
		lower += s.p[i] >= 'a' && s.p[i] <= 'z';
	}
	bool mixed = upper > 2 && lower > 2 && digits > 2;
	return (n >= LEAST && mixed) || (n >= LEAST_PLAIN && digits > 4 && digits + upper + lower == n) ? n : 0;
}

size_t redact_shape(struct str text, bool command, enum redact_kind *ret)
{
	static const struct {
		size_t (*is)(struct str s);
		enum redact_kind kind;
		bool command;
	} shapes[] = {
		{ mac, REDACT_MAC, false },      { uuid, REDACT_SERIAL, false }, { ipv4, REDACT_IP, false },
		{ ipv6, REDACT_IP, false },      { domain, REDACT_HOST, false }, { known_token, REDACT_SECRET, false },
		{ jumble, REDACT_SECRET, true },
	};
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		size_t n = shapes[i].command && !command ? 0 : shapes[i].is(text);
		*ret = shapes[i].kind;
		if (n)
			return n;
	}
	return 0;
}
