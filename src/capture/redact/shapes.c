// Names and secrets that can be told by their form: each function takes the front of a text and returns how many bytes of it have the form,
// or 0. What looks like one but is evidence (versions, PCI addresses, offsets) is told apart here.
#include "capture/redact/redact.h"

static bool is_alnum(char c) { return char_alpha(c) || char_digit(c); }
static bool in_label(char c) { return is_alnum(c) || c == '-' || c == '_'; }
static bool is_token(char c) { return in_label(c) || char_among(c, ".+/=~"); }
static bool in_key(char c) { return is_alnum(c) || c == '+' || c == '/'; }

/** Six pairs of digits, or the eight and twenty of InfiniBand. PCI addresses have other groups. */
static size_t mac(struct str s)
{
	size_t pairs = 0, at = 0;
	char between = s.n > 2 ? s.p[2] : 0;
	if (between != ':' && between != '-')
		return 0;
	while (str_run(str_cut(str_from(s, at), 3), char_hex) == 2) {
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
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		if (i && (at >= s.n || s.p[at++] != s.p[groups[0]] || !char_among(s.p[at - 1], "-_"))) // _ in names of pods
			return 0;
		if (str_run(str_from(s, at), char_hex) != groups[i])
			return 0;
		at += groups[i];
	}
	return at < s.n && in_label(s.p[at]) ? 0 : at;
}

/** Four numbers up to 255, and no fifth: versions have leading zeros, or more or fewer parts. */
static size_t ipv4(struct str s)
{
	size_t at = 0;
	for (int part = 0; part < 4; part++) {
		int64_t number;
		size_t n = str_run(str_from(s, at), char_digit);
		if (!n || n > 3 || (n > 1 && s.p[at] == '0') || !str_number(str_cut(str_from(s, at), n), &number) ||
		    number > 255)
			return 0;
		at += n;
		if (part < 3 && (at >= s.n || s.p[at++] != '.'))
			return 0;
	}
	bool more = at + 1 < s.n && s.p[at] == '.' && char_digit(s.p[at + 1]);
	return more || (at < s.n && in_label(s.p[at]) && s.p[at] != '-') ? 0 : at;
}

/** Eight groups, or `::` among at least three characters of groups that begin as addresses that are given out do. */
static size_t ipv6(struct str s)
{
	enum { LONGEST = 48 };
	size_t at = 0, groups = 0, doubles = 0;
	s = str_cut(s, LONGEST);
	while (at < s.n) {
		size_t n = str_run(str_from(s, at), char_hex);
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
	if (at < s.n && in_label(s.p[at]))
		return 0;
	bool given = s.n > 4 && str_run(s, char_hex) == 4 && (char_among(s.p[0], "23fF"));
	return groups == 8 || (doubles == 1 && groups >= 2 && given) ? at : 0;
}

/** host.cluster.example.com, in any case: names of hosts have none */
static size_t domain(struct str s)
{
	static const char ends[] =
		"com|org|net|edu|gov|io|ai|dev|local|internal|lan|corp|cluster|cloud|home|de|uk|fr|eu|cn|jp|intra|"
		"private|example|test|arpa|ch|nl|us|tech";
	size_t at = 0, labels = 0;
	struct str last = { 0 };
	while (at < s.n) {
		size_t n = str_run(str_from(s, at), in_label);
		if (!n)
			break;
		last = str_cut(str_from(s, at), n);
		labels++;
		at += n;
		if (at + 1 >= s.n || s.p[at] != '.' || !in_label(s.p[at + 1]))
			break;
		at++;
	}
	return labels > 1 && str_among(last, STR_LIKE, ends).n ? at : 0;
}

/** Tokens of services, by their first letters. */
static size_t known_token(struct str s)
{
	static const char heads[] =
		"hf_|sk-|ghp_|gho_|ghs_|github_pat_|glpat-|AKIA|ASIA|xoxb-|xoxp-|nvapi-|AIza|ya29.|eyJ|pypi-|npm_|"
		"dckr_pat_|rpa_|tok_|key-";
	enum { LEAST = 16 };
	const size_t n = str_among(s, STR_BEGINS, heads).n ? str_run(s, is_token) : 0;
	return n >= LEAST ? n : 0;
}

struct letter_counts {
	size_t upper, lower, digits, other;
};

/** What a jumble is made of. Words have letters of one case, keys have all kinds. */
static struct letter_counts count_letters(struct str s)
{
	struct letter_counts n = { 0 };
	for (size_t i = 0; i < s.n; i++) {
		const bool upper = s.p[i] >= 'A' && s.p[i] <= 'Z', lower = s.p[i] >= 'a' && s.p[i] <= 'z';
		n.upper += upper;
		n.lower += lower;
		n.digits += char_digit(s.p[i]);
		n.other += !upper && !lower && !char_digit(s.p[i]);
	}
	return n;
}

/** Letters and digits in a long jumble. Of texts other than command lines that may be a build or a checksum. */
static size_t jumble(struct str s)
{
	enum { LEAST = 20 };
	size_t n = str_run(s, in_label);
	struct letter_counts l = count_letters(str_cut(s, n));
	return n >= LEAST && l.upper > 2 && l.lower > 2 && l.digits > 2 ? n : 0;
}

static size_t plain_jumble(struct str s)
{
	enum { LEAST = 32 };
	size_t n = str_run(s, is_alnum);
	return n >= LEAST && !(n < s.n && in_label(s.p[n])) && count_letters(str_cut(s, n)).digits > 4 ? n : 0;
}

/** The number of a container, or a checksum: nobody needs either. */
static size_t long_hex(struct str s)
{
	enum { LEAST = 64 };
	size_t n = str_run(s, char_hex);
	return n >= LEAST && !(n < s.n && in_label(s.p[n])) ? n : 0;
}

/** A key: base64 of 30 bytes or more. Paths have dots, or more slashes. */
static size_t base64(struct str s)
{
	enum { LEAST = 40, PADDED = 24, SLASH_EACH = 10, KINDS = 3 };
	size_t n = str_run(s, in_key), pads = 0;
	while (n + pads < s.n && pads < 2 && s.p[n + pads] == '=')
		pads++;
	struct letter_counts l = count_letters(str_cut(s, n));
	if (n < (pads ? PADDED : LEAST) || s.p[0] == '/' || l.upper < KINDS || l.lower < KINDS || l.digits < KINDS ||
	    l.other * SLASH_EACH > n || (n + pads < s.n && char_among(s.p[n + pads], "._-")))
		return 0;
	return n + pads;
}

/** +31 6 1234 5678, (020) 555-0199 */
static size_t phone(struct str s)
{
	enum { LEAST = 8, MOST = 15, PREFIX = 4 };
	size_t digits = 0, n = 1;
	if (s.n < LEAST || !char_among(s.p[0], "+(") || !char_digit(s.p[1]))
		return 0;
	while (n < s.n &&
	       (char_digit(s.p[n]) || (char_among(s.p[n], " -()") && n + 1 < s.n && char_among(s.p[n + 1], "0123456789( ")))) {
		digits += char_digit(s.p[n]);
		if (s.p[0] == '(' && n == PREFIX + 1 && !memchr(s.p, ')', n + 1))
			return 0;
		n++;
	}
	const bool ends = n >= s.n || (!char_word(s.p[n]) && s.p[n] != '.');
	return ends && digits >= LEAST && digits <= MOST && (s.p[0] == '+' || memchr(s.p, ')', n)) ? n : 0;
}

/** The digits of a card add up (Luhn): 4111 1111 1111 1111. */
static size_t card(struct str s)
{
	enum { LEAST = 13, MOST = 19, TEN = 10 };
	char digits[MOST];
	size_t n = 0, at = 0;
	unsigned sum = 0;
	while (at < s.n && n < MOST &&
	       (char_digit(s.p[at]) || (n && char_among(s.p[at], " -") && at + 1 < s.n && char_digit(s.p[at + 1])))) {
		if (char_digit(s.p[at]))
			digits[n++] = s.p[at];
		at++;
	}
	if (n < LEAST || !char_among(s.p[0], "3456") || (at < s.n && char_word(s.p[at])))
		return 0;
	for (size_t i = 0; i < n; i++) {
		unsigned d = (unsigned)(digits[n - 1 - i] - '0') << (i & 1);
		sum += d >= TEN ? d - TEN + 1 : d;
	}
	return sum % TEN ? 0 : at;
}

/** Degrees with four decimals or more, twice: 52.0907,5.1214. */
static size_t coordinates(struct str s)
{
	enum { DECIMALS = 4, MOST_DECIMALS = 12, DEGREES = 3 };
	size_t at = 0;
	for (int part = 0; part < 2; part++) {
		at += part && at < s.n && char_among(s.p[at], ",; ");
		at += at < s.n && s.p[at] == ' ';
		at += at < s.n && s.p[at] == '-';
		size_t n = str_run(str_from(s, at), char_digit);
		if (!n || n > DEGREES || at + n >= s.n || s.p[at + n] != '.')
			return 0;
		at += n + 1;
		n = str_run(str_cut(str_from(s, at), MOST_DECIMALS), char_digit);
		if (n < DECIMALS || n == MOST_DECIMALS)
			return 0;
		at += n;
	}
	return at;
}

size_t redact_shape(struct str text, bool command, char before, enum redact_kind *ret)
{
	static const struct {
		size_t (*is)(struct str s);
		enum redact_kind kind;
		bool command;           // only there
		const char *not_behind; // marks behind which it would be part of something longer
	} shapes[] = {
		{ mac, REDACT_MAC, false, ":" },
		{ uuid, REDACT_SERIAL, false, ":" },
		{ ipv4, REDACT_IP },
		{ ipv6, REDACT_IP },
		{ coordinates, REDACT_NAME, false, "-:" },
		{ phone, REDACT_NAME, false, ":" },
		{ known_token, REDACT_SECRET },
		{ long_hex, REDACT_SERIAL },
		{ domain, REDACT_HOST, false, "-:" },
		{ base64, REDACT_SECRET, false, "-:/+" },
		{ card, REDACT_SECRET, true, "-:" },
		{ jumble, REDACT_SECRET, true, "-:" },
		{ plain_jumble, REDACT_SECRET, true, ":" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		const bool part = shapes[i].not_behind && char_among(before, shapes[i].not_behind);
		size_t n = (shapes[i].command && !command) || part ? 0 : shapes[i].is(text);
		*ret = shapes[i].kind;
		if (n)
			return n;
	}
	return 0;
}
