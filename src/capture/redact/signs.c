// Secrets and serial numbers that are told by a sign before them: parameters of web addresses, options of one letter, disks.
#include "capture/redact/redact.h"

static bool is_name(char c) { return char_word(c) || c == '-' || c == '.'; }
static bool is_value(char c) { return !char_space(c) && c && !char_among(c, "\"'`,;()[]{}<>|"); }
static bool is_parameter(char c) { return is_value(c) && !char_among(c, "&#?"); }
static bool is_disk(char c) { return char_word(c) || char_among(c, "-.:+"); }
static bool is_serial(char c) { return char_word(c) || c == '-'; }

static size_t run_of(struct str s, bool (*is)(char))
{
	size_t n = 0;
	while (n < s.n && is(s.p[n]))
		n++;
	return n;
}

/** Whether @text begins with @word, in whatever case. */
static bool behind(struct str text, struct str word, struct str *ret)
{
	if (text.n < word.n)
		return false;
	for (size_t i = 0; i < word.n; i++)
		if (char_lower(text.p[i]) != word.p[i])
			return false;
	*ret = str_from(text, word.n);
	return true;
}

// --- web addresses ---

/** Names of parameters that mean nothing elsewhere: `sig` is also a signal. */
static bool is_signing(struct str name)
{
	static const char *const ends[] = { "sig",   "signature",  "hmac",     "jwt",    "credential",
					    "token", "session_id", "accessid", "key",    "keyid",
					    "auth",  "pass",       "pw",       "key_id", "secret" };
	struct str left;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct str end = str_z(ends[i]);
		if (name.n >= end.n && behind(str_from(name, name.n - end.n), end, &left))
			return true;
	}
	return false;
}

void redact_find_query(struct redactor *r, struct str rest)
{
	enum { LEAST = 4 };
	rest = str_from(rest, 1);
	struct str name = str_cut(rest, run_of(rest, is_name)), value = str_from(rest, name.n);
	enum redact_kind kind;
	if (!name.n || !value.n || value.p[0] != '=')
		return;
	value = str_from(value, 1);
	value = str_cut(value, run_of(value, is_parameter));
	if (value.n >= LEAST && (is_signing(name) || redact_shape(value, true, 0, &kind)))
		redact_add(r, REDACT_SECRET, value);
}

// --- options of one letter ---

void redact_find_option(struct redactor *r, struct str text, size_t line, size_t at)
{
	static const struct {
		const char *program; // NULL: any
		char letter;
		bool joined; // the value follows without a space
	} options[] = {
		{ "mysql", 'p', true }, { "mariadb", 'p', true }, { "sshpass", 'p', true }, { "sshpass", 'p', false },
		{ "7z", 'p', true },    { "ldap", 'w', false },   { "redis", 'a', false },  { "ipmitool", 'P', false },
		{ NULL, 'p', false },   { NULL, 'P', false },     { NULL, 'p', true },
	};
	enum { LEAST = 4, LEAST_LETTERS = 6, PROGRAM = 256 };
	struct str program = str_cut((struct str){ text.p + line, at - line }, PROGRAM), rest = str_from(text, at + 1), value = str_from(rest, 1);
	const bool joined = value.n && !char_space(value.p[0]);
	value = str_from(value, !joined);
	while (value.n && char_among(value.p[0], "\"'"))
		value = str_from(value, 1);
	value = str_cut(value, run_of(value, is_value));
	if (!value.n)
		return;
	if (char_among(rest.p[0], "uU") && !joined && memchr(value.p, ':', value.n)) { // -u user:password
		redact_add(r, REDACT_USER, str_split(&value, ':'));
		redact_add(r, REDACT_SECRET, value);
	}
	for (size_t i = 0; value.n >= LEAST && i < sizeof(options) / sizeof(options[0]); i++) {
		if (rest.p[0] != options[i].letter || joined != options[i].joined)
			continue;
		if (options[i].program && str_find(program, str_z(options[i].program)) >= 0) {
			redact_add(r, REDACT_SECRET, value);
			return;
		}
		bool digits = false;
		for (size_t n = 0; n < value.n; n++)
			digits |= char_digit(value.p[n]);
		const bool long_enough = value.n >= LEAST_LETTERS; // not the -pthread of a compiler
		if (!options[i].program && (joined ? digits && long_enough : digits || long_enough))
			redact_add_weak(r, REDACT_SECRET, value);
	}
}

// --- disks and other parts ---

/** `serial S4EVNX0R123456`, `Serial Number: X`; not `serial console`, nor the addresses and ids of PCI. */
static void find_serial(struct redactor *r, struct str rest)
{
	static const struct {
		const char *word;
		bool hex; // it may be written so; of the others that is an address
	} words[] = {
		{ "serial number" }, { "serial no." }, { "serial no" }, { "serial" },       { "s/n" },       { "asset tag" },
		{ "asset_tag" },     { "imei" },       { "imsi" },      { "iccid" },        { "equipment id" }, { "volume id" },
		{ "wwn", true },     { "wwid", true }, { "node guid", true }, { "guid", true },
	};
	enum { LEAST = 6, DIGITS = 3, WORDS = sizeof(words) / sizeof(words[0]) };
	struct str value = { 0 };
	size_t digits = 0, word = 0;
	while (word < WORDS && (char_lower(rest.p[0]) != words[word].word[0] || !behind(rest, str_z(words[word].word), &value)))
		word++;
	size_t gap = 0;
	while (gap < value.n && char_among(value.p[gap], " :=#\"'\t"))
		gap++;
	if (word == WORDS || !gap)
		return;
	value = str_from(value, gap);
	size_t n = run_of(value, is_serial);
	for (size_t i = 0; i < n; i++)
		digits += char_digit(value.p[i]);
	bool goes_on = n < value.n && value.p[n] == ':' && n + 1 < value.n && char_hex(value.p[n + 1]);
	if (n >= LEAST && digits >= DIGITS && !goes_on && (words[word].hex || !str_starts(value, S("0x"))))
		redact_add(r, REDACT_SERIAL, str_cut(value, n));
}

/** A disk's name ends with its serial number, which stands elsewhere too: nvme-Samsung_SSD_990_S6Z1NJ0W-part3. */
static void add_parts(struct redactor *r, struct str disk)
{
	enum { LEAST = 8 };
	while (disk.n) {
		struct str part = str_split(&disk, '_');
		size_t digits = 0;
		part = str_split(&part, '-');
		for (size_t i = 0; i < part.n; i++)
			digits += char_digit(part.p[i]);
		if (part.n >= LEAST && digits > 2)
			redact_add_weak(r, REDACT_SERIAL, part);
	}
}

bool redact_is_id(struct str value)
{
	enum { LEAST = 4, LEAST_HEX = 8 };
	bool digit = false, hex = value.n >= LEAST_HEX;
	for (size_t i = 0; i < value.n; i++) {
		digit |= char_digit(value.p[i]);
		hex &= char_hex(value.p[i]) || char_among(value.p[i], "-:");
	}
	return hex || (digit && value.n >= LEAST);
}

size_t redact_find_disk(struct redactor *r, struct str rest)
{
	static const struct {
		const char *sign;
		bool weak; // people give labels, which may be any word
	} signs[] = {
		{ "UUID=", false },       { "PARTUUID=", false },    { "by-uuid/", false }, { "by-partuuid/", false },
		{ "by-diskseq/", false }, { "by-id/", false },       { "LABEL=", true },    { "PARTLABEL=", true },
		{ "by-label/", true },    { "by-partlabel/", true }, { "eui.", false },     { "naa.", false },
		{ "wwn-0x", false },      { "luks-", false },
	};
	size_t end = 0;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		struct str value;
		if (rest.p[0] != signs[i].sign[0] || !str_starts(rest, str_z(signs[i].sign)))
			continue;
		value = str_from(rest, str_z(signs[i].sign).n);
		value = str_cut(value, run_of(value, is_disk));
		end = (size_t)(value.p - rest.p) + value.n;
		if (signs[i].weak || !redact_is_id(value))
			redact_add_weak(r, REDACT_SERIAL, value);
		else
			redact_add(r, REDACT_SERIAL, value);
		if (str_is(str_z(signs[i].sign), "by-id/"))
			add_parts(r, value);
	}
	find_serial(r, rest);
	return end;
}
