// Networks, devices, disks, containers and people, by the words that stand before their names.
#include "capture/redact/redact.h"

static bool is_quoted(char c) { return c && !char_among(c, "\"'`\n"); }
static bool is_bracketed(char c) { return c && !char_among(c, "]\n"); }
static bool is_rest(char c) { return c && c != '\n'; }
static bool is_word(char c) { return char_word(c) || (c & 0x80) || char_among(c, "-."); }
static bool is_target(char c) { return char_word(c) || char_among(c, "-.:"); }
static bool is_login(char c) { return char_word(c) || c == '-'; }
static bool is_secret(char c) { return !char_space(c) && is_quoted(c); }
static bool is_base64(char c) { return char_alpha(c) || char_digit(c) || char_among(c, "+/="); }

static size_t run_of(struct str s, bool (*is)(char))
{
	size_t n = 0;
	while (n < s.n && is(s.p[n]))
		n++;
	return n;
}

/** What stands before a name, and what a name there is made of. */
static const struct {
	const char *sign;
	bool (*is)(char c);
	enum redact_kind kind;
	bool whole; // the sign is part of what goes: the name alone may be any number
} signs[] = {
	{ "SSID='", is_quoted, REDACT_NAME },
	{ "SSID=\"", is_quoted, REDACT_NAME },
	{ "SSID ", is_word, REDACT_NAME },
	{ "SSID=", is_word, REDACT_NAME },
	{ "connection '", is_quoted, REDACT_NAME },
	{ "Device \"", is_quoted, REDACT_NAME },
	{ "Product: ", is_rest, REDACT_NAME },
	{ "Manufacturer: ", is_rest, REDACT_NAME },
	{ "Keyboard [", is_bracketed, REDACT_NAME },
	{ "Mouse [", is_bracketed, REDACT_NAME },
	{ "Device [", is_bracketed, REDACT_NAME },
	{ "monitor name ", is_rest, REDACT_NAME },
	{ "mounted filesystem \"", is_quoted, REDACT_SERIAL },
	{ "label ", is_word, REDACT_SERIAL },
	{ "iqn.", is_target, REDACT_SERIAL, true },
	{ "nqn.", is_target, REDACT_SERIAL, true },
	{ "nfs: server ", is_word, REDACT_HOST },
	{ "NFS: server ", is_word, REDACT_HOST },
	{ "nfsroot=", is_word, REDACT_HOST },
	{ "nfs4 ", is_word, REDACT_HOST },
	{ "nfs ", is_word, REDACT_HOST },
	{ "cifs //", is_word, REDACT_HOST },
	{ "acct=\"", is_quoted, REDACT_USER },
	{ "of User ", is_login, REDACT_USER },
	{ "passphrase ", is_secret, REDACT_SECRET },
	{ "proctitle=", char_hex, REDACT_NAME },
	{ "exe=", char_hex, REDACT_NAME },
	{ "wireguard: ", is_word, REDACT_NAME },
	{ "pod=\"", is_quoted, REDACT_NAME },
	{ "job_name=", is_word, REDACT_NAME },
	{ "container name=", is_word, REDACT_NAME },
	{ "container\" name=", is_word, REDACT_NAME },
	{ "uid=", is_word, REDACT_USER, true },
	{ "UID:", is_word, REDACT_USER, true },
	{ "uid_", is_word, REDACT_USER, true },
	{ "user-", is_word, REDACT_USER, true },
	{ "user@", is_word, REDACT_USER, true },
	{ "lat ", is_word, REDACT_NAME },
	{ "lon ", is_word, REDACT_NAME },
	{ "SMS to ", is_word, REDACT_NAME },
	{ "$GP", is_rest, REDACT_NAME, true },
	{ "$GN", is_rest, REDACT_NAME, true },
};

/** Numbers of users, `uid=28443`, `user-28443.slice`; not the first one, who is on every machine, and those before. */
static void add_user_number(struct redactor *r, struct str sign, struct str value)
{
	enum { FIRST_USER = 1000 };
	int64_t number = 0;
	size_t n = 0;
	while (n < value.n && char_digit(value.p[n]))
		n++;
	if ((n == value.n || value.p[n] == '.') && str_number(str_cut(value, n), &number) && number > FIRST_USER)
		redact_add(r, REDACT_USER, (struct str){ sign.p, sign.n + n });
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
	server = str_cut(server, run_of(server, is_word));
	share = str_from(rest, 2 + server.n + 1);
	share = str_cut(share, server.n && 2 + server.n < rest.n && rest.p[2 + server.n] == '\\' ? run_of(share, is_word) : 0);
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
	struct str body = str_cut(rest, end < 0 ? (rest.n < MOST ? rest.n : MOST) : (size_t)end);
	for (size_t at = 0; at < body.n;) {
		size_t n = run_of(str_from(body, at), is_base64);
		if (n >= LEAST)
			redact_add(r, REDACT_SECRET, str_cut(str_from(body, at), n));
		at += n + 1;
	}
	return body.n;
}

/** `ata3.00: ATA-9: MODEL, SERIAL, max UDMA/133` */
static void find_ata(struct redactor *r, struct str rest)
{
	enum { LEAST = 6, LINE = 160 };
	if (!str_starts(rest, S("ATA-")))
		return;
	rest = str_cut(rest, LINE);
	str_split(&rest, ',');
	struct str serial = str_trim(str_split(&rest, ','));
	if (serial.n >= LEAST && run_of(serial, is_word) == serial.n)
		redact_add(r, REDACT_SERIAL, serial);
}

/** `input: NAME as /devices/...`: keyboards and headphones carry the names of their owners. */
static void find_input(struct redactor *r, struct str rest)
{
	enum { LINE = 160 };
	struct str name;
	if (!str_behind(str_cut(rest, LINE), S("input: "), &name))
		return;
	ptrdiff_t end = str_find(name, S(" as /devices/"));
	name = str_cut(name, end < 0 ? 0 : (size_t)end);
	redact_add_weak(r, REDACT_NAME, str_trim(str_split(&name, '(')));
}

size_t redact_find_device(struct redactor *r, struct str rest)
{
	enum { LEAST = 3, MOST = 256 };
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (rest.p[0] != signs[i].sign[0] || !str_starts(rest, str_z(signs[i].sign)))
			continue;
		struct str sign = str_cut(rest, str_z(signs[i].sign).n), value = str_from(rest, sign.n);
		value = str_cut(value, run_of(str_cut(value, MOST), signs[i].is));
		if (signs[i].kind == REDACT_USER && signs[i].whole)
			add_user_number(r, sign, value);
		else if (signs[i].whole && value.n >= LEAST)
			redact_add(r, signs[i].kind, (struct str){ rest.p, sign.n + value.n });
		else if (signs[i].kind == REDACT_NAME && char_digit(value.n ? value.p[0] : ' ') && value.n > LEAST)
			redact_add(r, REDACT_NAME, value);
		else
			redact_add_weak(r, signs[i].kind, value);
		return sign.n + value.n;
	}
	find_ata(r, rest);
	find_input(r, rest);
	const size_t share = find_share(r, rest), pod = find_pod(r, rest);
	return share ? share : pod ? pod : find_pem(r, rest);
}
