// Names, secrets and serial numbers that are told by the words before them: disks, networks, devices, containers and people.
//
// Most are a row of one table: the sign, what a name behind it is made of, and what becomes of it. What a row cannot say (a serial number in
// any case of letters, the third part of a line about a disk, a key over many lines) has a function of its own.
#include "capture/redact/redact.h"

static bool is_quoted(char c) { return c && !char_among(c, "\"'`\n"); }
static bool is_bracketed(char c) { return c && !char_among(c, "]\n"); }
static bool is_rest(char c) { return c && c != '\n'; }
static bool in_sign_name(char c) { return char_word(c) || (c & 0x80) || char_among(c, "-."); }
static bool is_target(char c) { return char_word(c) || char_among(c, "-.:"); }
static bool is_dashed(char c) { return char_word(c) || c == '-'; }
static bool is_secret(char c) { return !char_space(c) && is_quoted(c); }
static bool in_pem(char c) { return char_alpha(c) || char_digit(c) || char_among(c, "+/="); }
static bool is_disk(char c) { return char_word(c) || char_among(c, "-.:+"); }

/** What becomes of a name behind a sign. */
enum sign_way {
	SIGN_WEAK,   // it may be any word, so it goes only where nothing else speaks for it
	SIGN_WHOLE,  // the sign goes with it: the name alone may be any number
	SIGN_PERSON, // the number of a user, with its sign
	SIGN_DISK,   // the id of a disk or of a part of one; of any length, as are those below
	SIGN_PARTS,  // the same, and each part of it that may be a serial number
	SIGN_VALUE,  // as the value of an option; other signs may stand in it
};

/** Where one sign begins with another, the longer one comes first. */
static const struct sign {
	const char *signs;
	bool (*is)(char c); // what a name is made of
	enum redact_kind kind;
	enum sign_way way;
} signs[] = {
	{ "UUID=|PARTUUID=|by-uuid/|by-partuuid/|by-diskseq/|eui.|naa.|wwn-0x|luks-", is_disk, REDACT_SERIAL, SIGN_DISK },
	{ "by-id/", is_disk, REDACT_SERIAL, SIGN_PARTS },
	{ "LABEL=|PARTLABEL=|by-label/|by-partlabel/", is_disk, REDACT_SERIAL, SIGN_WEAK }, // people give them
	{ "mounted filesystem \"", is_quoted, REDACT_SERIAL, SIGN_WEAK },
	{ "label ", in_sign_name, REDACT_SERIAL, SIGN_WEAK },
	{ "iqn.|nqn.", is_target, REDACT_SERIAL, SIGN_WHOLE },
	{ "unique_id ", redact_is_value, REDACT_SERIAL, SIGN_VALUE },
	{ "SSID='|SSID=\"|connection '|Device \"|pod=\"", is_quoted, REDACT_NAME, SIGN_WEAK },
	{ "SSID |SSID=|wireguard: |job_name=|container name=|container\" name=|lat |lon |SMS to ", in_sign_name, REDACT_NAME,
	  SIGN_WEAK },
	{ "Product: |Manufacturer: |monitor name ", is_rest, REDACT_NAME, SIGN_WEAK },
	{ "Keyboard [|Mouse [|Device [", is_bracketed, REDACT_NAME, SIGN_WEAK },
	{ "proctitle=|exe=", char_hex, REDACT_NAME, SIGN_WEAK }, // what audit writes in place of a text with blanks
	{ "$GP|$GN", is_rest, REDACT_NAME, SIGN_WHOLE },         // what a GPS receiver says of where it is
	{ "nfs: server |NFS: server |nfsroot=|nfs4 |nfs |cifs //", in_sign_name, REDACT_HOST, SIGN_WEAK },
	{ "Hostname set to <|Set hostname to <", redact_is_value, REDACT_HOST, SIGN_VALUE },
	{ "acct=\"", is_quoted, REDACT_USER, SIGN_WEAK },
	{ "of User ", is_dashed, REDACT_USER, SIGN_WEAK },
	{ "uid=|UID:|uid_|user-|user@", in_sign_name, REDACT_USER, SIGN_PERSON },
	{ "session of user |for user |Accepted publickey for |Accepted password for |Failed password for ", redact_is_value,
	  REDACT_USER, SIGN_VALUE },
	{ "passphrase ", is_secret, REDACT_SECRET, SIGN_WEAK },
	{ "Bearer |Basic |SHA256:", redact_is_value, REDACT_SECRET, SIGN_VALUE },
};

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

size_t redact_count_digits(struct str s)
{
	size_t digits = 0;
	for (size_t i = 0; i < s.n; i++)
		digits += char_digit(s.p[i]);
	return digits;
}

/** A disk's name ends with its serial number, which stands elsewhere too: nvme-Samsung_SSD_990_S6Z1NJ0W-part3. */
static void add_disk_parts(struct redactor *r, struct str disk)
{
	enum { LEAST = 8 };
	while (disk.n) {
		struct str part = str_split(&disk, '_');
		part = str_split(&part, '-');
		if (part.n >= LEAST && redact_count_digits(part) > 2)
			redact_add_weak(r, REDACT_SERIAL, part);
	}
}

/** What a row of the table tells at the front of @rest, whose first @length bytes are one of its signs. Returns how far it reaches; 0: nothing. */
static size_t find_by_row(struct redactor *r, struct str rest, const struct sign *row, size_t length)
{
	enum { LEAST = 3, MOST = 256, FIRST_USER = 1000 };
	const struct str sign = str_cut(rest, length), behind = str_from(rest, sign.n);
	const struct str all = row->way == SIGN_VALUE ? str_trim(behind) : behind;
	const struct str value = str_cut(all, str_run(row->way < SIGN_DISK ? str_cut(all, MOST) : all, row->is));
	int64_t number = 0;
	size_t n;
	switch (row->way) {
	case SIGN_PERSON: // `uid=28443`, `user-28443.slice`; the first user is on every machine, and so are those before
		n = str_run(value, char_digit);
		if ((n == value.n || value.p[n] == '.') && str_number(str_cut(value, n), &number) && number > FIRST_USER)
			redact_add(r, REDACT_USER, str_cut(rest, sign.n + n));
		break;
	case SIGN_VALUE:
		redact_add_value(r, row->kind, value);
		return 0;
	case SIGN_DISK:
	case SIGN_PARTS:
		if (redact_is_id(value))
			redact_add(r, REDACT_SERIAL, value);
		else
			redact_add_weak(r, REDACT_SERIAL, value);
		if (row->way == SIGN_PARTS)
			add_disk_parts(r, value);
		break;
	default:
		if (row->way == SIGN_WHOLE && value.n >= LEAST)
			redact_add(r, row->kind, str_cut(rest, sign.n + value.n));
		else if (row->kind == REDACT_NAME && char_digit(value.n ? value.p[0] : ' ') && value.n > LEAST)
			redact_add(r, REDACT_NAME, value);
		else
			redact_add_weak(r, row->kind, value);
		break;
	}
	return sign.n + value.n;
}

/** Whether @text begins with @word, in whatever case. */
static bool begins_loosely(struct str text, struct str word, struct str *ret)
{
	if (text.n < word.n)
		return false;
	for (size_t i = 0; i < word.n; i++)
		if (char_lower(text.p[i]) != word.p[i])
			return false;
	*ret = str_from(text, word.n);
	return true;
}

/** `serial S4EVNX0R123456`, `Serial Number: X`; not `serial console`, nor the addresses and ids of PCI. */
static void find_serial(struct redactor *r, struct str rest)
{
	static const struct {
		const char *word;
		bool hex; // it may be written so; of the others that is an address
	} words[] = {
		{ "serial number" }, { "serial no." }, { "serial no" },       { "serial" },
		{ "s/n" },           { "asset tag" },  { "asset_tag" },       { "imei" },
		{ "imsi" },          { "iccid" },      { "equipment id" },    { "volume id" },
		{ "wwn", true },     { "wwid", true }, { "node guid", true }, { "guid", true },
	};
	enum { LEAST = 6, DIGITS = 3, WORDS = ARRAY_SIZE(words) };
	struct str value = { 0 };
	size_t word = 0, gap = 0;
	while (word < WORDS &&
	       (char_lower(rest.p[0]) != words[word].word[0] || !begins_loosely(rest, str_z(words[word].word), &value)))
		word++;
	while (gap < value.n && char_among(value.p[gap], " :=#\"'\t"))
		gap++;
	if (word == WORDS || !gap)
		return;
	value = str_from(value, gap);
	const size_t n = str_run(value, is_dashed);
	const bool goes_on = n < value.n && value.p[n] == ':' && n + 1 < value.n && char_hex(value.p[n + 1]);
	if (n >= LEAST && redact_count_digits(str_cut(value, n)) >= DIGITS && !goes_on &&
	    (words[word].hex || !str_starts(value, S("0x"))))
		redact_add(r, REDACT_SERIAL, str_cut(value, n));
}

/** `pod7c3c9f0e_2b1a...`: in names of control groups, with _ in place of -. */
static size_t find_pod(struct redactor *r, struct str rest)
{
	enum { UUID = 36 };
	enum redact_kind kind;
	struct str id = str_from(rest, 3);
	if (!str_starts(rest, S("pod")) || redact_shape(id, false, 0, &kind) != UUID)
		return 0;
	redact_add(r, REDACT_SERIAL, str_cut(id, UUID));
	return 3 + UUID;
}

/** \\server\share */
static size_t find_share(struct redactor *r, struct str rest)
{
	struct str server = str_from(rest, 2), share;
	if (!str_starts(rest, S("\\\\")))
		return 0;
	server = str_cut(server, str_run(server, in_sign_name));
	share = str_from(rest, 2 + server.n + 1);
	share = str_cut(share,
			server.n && 2 + server.n < rest.n && rest.p[2 + server.n] == '\\' ? str_run(share, in_sign_name) : 0);
	if (server.n && char_alpha(server.p[0]))
		redact_add(r, REDACT_HOST, server);
	redact_add_weak(r, REDACT_NAME, share);
	return server.n ? 2 + server.n + share.n : 0;
}

/** What is between -----BEGIN X----- and -----END. */
static size_t find_pem(struct redactor *r, struct str rest)
{
	enum { MOST = 1 << 14, LEAST = 16 };
	if (!str_starts(rest, S("-----BEGIN ")))
		return 0;
	ptrdiff_t end = str_find(str_cut(rest, MOST), S("-----END"));
	struct str body = str_cut(rest, end < 0 ? MOST : (size_t)end);
	for (size_t at = 0; at < body.n;) {
		size_t n = str_run(str_from(body, at), in_pem);
		if (n >= LEAST)
			redact_add(r, REDACT_SECRET, str_cut(str_from(body, at), n));
		at += n + 1;
	}
	return body.n;
}

/** `ata3.00: ATA-9: MODEL, SERIAL, max UDMA/133`; `input: NAME as /devices/...`: keyboards and headphones carry the names of their owners. */
static void find_in_line(struct redactor *r, struct str rest)
{
	enum { LEAST = 6, LINE = 160 };
	struct str name;
	rest = str_cut(rest, LINE);
	if (str_starts(rest, S("ATA-"))) {
		str_split(&rest, ',');
		struct str serial = str_trim(str_split(&rest, ','));
		if (serial.n >= LEAST && str_run(serial, in_sign_name) == serial.n)
			redact_add(r, REDACT_SERIAL, serial);
	} else if (str_behind(rest, S("input: "), &name)) {
		ptrdiff_t end = str_find(name, S(" as /devices/"));
		name = str_cut(name, end < 0 ? 0 : (size_t)end);
		redact_add_weak(r, REDACT_NAME, str_trim(str_split(&name, '(')));
	}
}

size_t redact_find_sign(struct redactor *r, struct str rest)
{
	size_t reach = 0, row = 0, sign = 0;
	while (row < ARRAY_SIZE(signs) && !(sign = str_among(rest, STR_BEGINS, signs[row].signs).n))
		row++;
	if (sign)
		reach = find_by_row(r, rest, &signs[row], sign);
	find_serial(r, rest);
	if (sign)
		return reach;
	find_in_line(r, rest);
	const size_t share = find_share(r, rest), pod = find_pod(r, rest);
	return share ? share : pod ? pod : find_pem(r, rest);
}
