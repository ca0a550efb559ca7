// Finds names and secrets: by their form, by what stands before them, by the option or variable that has them.
#include "capture/redact/redact.h"

static bool is_name(char c) { return char_word(c) || c == '-' || c == '.'; }
static bool is_value(char c) { return !char_space(c) && c && !char_among(c, "\"'`,;()[]{}<>|"); }

static size_t run_of(struct str s, bool (*is)(char))
{
	size_t n = 0;
	while (n < s.n && is(s.p[n]))
		n++;
	return n;
}

static bool is_url_host(char c) { return is_value(c) && c != '/'; }
static bool is_url_part(char c) { return is_value(c) && !char_among(c, "/?#&"); }

static bool is_number(struct str s)
{
	int64_t number;
	return str_number(s, &number);
}

// --- values that have a name ---

/** What the words of a name say of its value. */
static const struct word {
	const char *word;
	enum redact_kind kind;
	bool weak; // it has other meanings: behind a colon it says nothing, and a word that messages have stays
} words[] = {
	{ "token", REDACT_SECRET },        { "password", REDACT_SECRET },   { "passwd", REDACT_SECRET },
	{ "passphrase", REDACT_SECRET },   { "secret", REDACT_SECRET },     { "apikey", REDACT_SECRET },
	{ "pwd", REDACT_SECRET },          { "credential", REDACT_SECRET }, { "credentials", REDACT_SECRET },
	{ "key", REDACT_SECRET },          { "auth", REDACT_SECRET },       { "bearer", REDACT_SECRET },
	{ "model", REDACT_MODEL },         { "tokenizer", REDACT_MODEL },   { "checkpoint", REDACT_MODEL },
	{ "ckpt", REDACT_MODEL },          { "weights", REDACT_MODEL },     { "lora", REDACT_MODEL },
	{ "adapter", REDACT_MODEL },       { "models", REDACT_MODEL },      { "host", REDACT_HOST },
	{ "hostname", REDACT_HOST },       { "nodename", REDACT_HOST },     { "nodelist", REDACT_HOST },
	{ "hosts", REDACT_HOST },          { "addr", REDACT_HOST },         { "address", REDACT_HOST },
	{ "endpoint", REDACT_HOST },       { "user", REDACT_USER },         { "username", REDACT_USER },
	{ "logname", REDACT_USER },        { "login", REDACT_USER },        { "serial", REDACT_SERIAL },
	{ "serialnumber", REDACT_SERIAL }, { "accesskey", REDACT_SECRET },  { "secretkey", REDACT_SECRET },
	{ "signature", REDACT_SECRET, 1 }, { "pass", REDACT_SECRET, 1 },    { "pw", REDACT_SECRET, 1 },
	{ "passcode", REDACT_SECRET, 1 },  { "psk", REDACT_SECRET, 1 },     { "jwt", REDACT_SECRET, 1 },
	{ "cookie", REDACT_SECRET, 1 },    { "uuid", REDACT_SERIAL },       { "partuuid", REDACT_SERIAL },
	{ "guid", REDACT_SERIAL },         { "wwn", REDACT_SERIAL },        { "wwid", REDACT_SERIAL },
};

/** Whether a word of a name is @w, or ends with it: PGPASSWORD, AccountKey, AWSAccessKeyId. */
static bool says(struct str name, struct str lower, const struct word *w)
{
	enum { LONG = 5 };
	struct str word = str_z(w->word);
	if (str_eq(lower, word))
		return true;
	if (w->kind != REDACT_SECRET)
		return false;
	if (str_ends(name, S("Id")))
		lower = str_cut(lower, lower.n - 2);
	if (!str_ends(lower, word) || lower.n == word.n)
		return false;
	const char *at = name.p + lower.n - word.n;
	return word.n >= LONG || (*at != char_lower(*at) && at[-1] == char_lower(at[-1]));
}

static const struct word *word_of(struct str name)
{
	char lower[64];
	for (size_t at = 0; at < name.n;) {
		size_t n = 0;
		while (at + n < name.n && (char_alpha(name.p[at + n]) || char_digit(name.p[at + n])) && n + 1 < sizeof(lower)) {
			lower[n] = char_lower(name.p[at + n]);
			n++;
		}
		for (size_t i = 0; n && i < sizeof(words) / sizeof(words[0]); i++)
			if (says(str_cut(str_from(name, at), n), (struct str){ lower, n }, &words[i]))
				return &words[i];
		at += n + 1;
	}
	return NULL;
}

/** A model is named by a path, by ORGANISATION/NAME, or by a word: each part is a name. */
static void add_model(struct redactor *r, struct str value)
{
	enum { LEAST = 4 };
	redact_add(r, REDACT_MODEL, value);
	while (value.n) {
		struct str part = str_split(&value, '/');
		if (part.n >= LEAST && !is_number(part))
			redact_add(r, REDACT_MODEL, part);
	}
}

static void add_value(struct redactor *r, enum redact_kind kind, struct str value)
{
	enum { SECRET_LEAST = 4, NUMBER_LEAST = 8 };
	enum redact_kind shape;
	bool number = is_number(value), hex = str_starts(value, S("0x"));
	bool secret = kind == REDACT_SECRET || kind == REDACT_SERIAL;
	if (value.n < 2 || char_among(value.p[0], "-$%") || hex || (number && (!secret || value.n < NUMBER_LEAST)))
		return;
	if (kind == REDACT_SERIAL && !redact_is_id(value)) // the option uuid=on of a mount
		return;
	if ((kind == REDACT_HOST || kind == REDACT_USER) && !char_alpha(value.p[0]) && !redact_shape(value, false, 0, &shape))
		return;
	if (kind == REDACT_MODEL) {
		add_model(r, value);
	} else if (kind == REDACT_HOST) {
		size_t n = redact_shape(value, false, 0, &shape);
		struct str label = value, first = str_split(&label, '.');
		if (n)
			redact_add(r, shape, str_cut(value, n));
		else
			redact_add(r, REDACT_HOST, str_split(&value, ':'));
		if (n && shape == REDACT_HOST)
			redact_add(r, REDACT_HOST, first);
	} else if (kind != REDACT_SECRET || value.n >= SECRET_LEAST) {
		redact_add(r, kind, value);
	}
}

static void add_named(struct redactor *r, const struct word *w, struct str value)
{
	if (w->weak)
		redact_add_weak(r, w->kind, value);
	else
		add_value(r, w->kind, value);
}

void redact_value(struct redactor *r, struct str name, struct str value)
{
	static const char *const of_work[] = { "*JOB_NAME", "*JOB_ACCOUNT", "POD_*", "*NAMESPACE", "*REF_NAME", "*BRANCH*", "--name", "--account",
					       "*IFNAME" };
	const struct word *w = word_of(name);
	r->from = name.p;
	for (size_t i = 0; i < sizeof(of_work) / sizeof(of_work[0]); i++)
		if (str_glob(str_z(of_work[i]), name))
			redact_add_weak(r, REDACT_NAME, value);
	if (w)
		add_named(r, w, value);
	r->from = NULL;
}

/** A text that is searched. What was looked at as a whole is not looked at again from each of its parts, so that the time grows with the
 * text and no faster. */
struct redact_search {
	struct redactor *r;
	struct str text;
	bool command;
	size_t line;   // where the line begins
	size_t shaped; // how far it is known what has a form of its own
	size_t label;  // the end of a word with dashes
	size_t url;    // the end of a web address
	size_t name;   // the end of the name of an option or a variable
	size_t value;  // the end of a value
	size_t sign;   // the end of what was told by a sign
	size_t weights;
};

/** The value at @at. One that is part of another is its own only if it is short. */
static struct str value_at(struct redact_search *s, size_t at)
{
	enum { SHORT = 256 };
	struct str rest = str_from(s->text, at);
	const bool part = at < s->value;
	if (!part)
		s->value = at + run_of(rest, is_value);
	struct str value = str_cut(rest, s->value - at);
	return part && value.n > SHORT ? (struct str){ 0 } : value;
}

/** `NAME=VALUE`, `--name VALUE`, `"name": "VALUE"`; a colon without quotes is enough for serial numbers and secrets. */
static void find_named(struct redact_search *s, size_t at)
{
	struct str text = s->text, rest = str_from(text, at), name = str_cut(rest, run_of(rest, is_name));
	s->name = at + name.n;
	rest = str_from(rest, name.n);
	bool option = at > 0 && text.p[at - 1] == '-' && (s->command || (at > 1 && text.p[at - 2] == '-'));
	const struct word *w = rest.n && (option || char_among(rest.p[0], "=:\"'")) ? word_of(name) : NULL;
	if (!w)
		return;
	bool quoted = rest.n && char_among(rest.p[0], "\"'"), equal = rest.n && rest.p[0] == '=';
	rest = str_from(rest, quoted);
	bool colon = rest.n && rest.p[0] == ':';
	bool plain = !w->weak && (w->kind == REDACT_SECRET || w->kind == REDACT_SERIAL || str_is(name, "Hostname"));
	if (!(equal || (option && rest.n && char_space(rest.p[0])) || (colon && (quoted || plain || option))))
		return;
	rest = str_from(rest, 1);
	while (rest.n && (char_space(rest.p[0]) || char_among(rest.p[0], "\"'<")) && rest.p[0] != '\n')
		rest = str_from(rest, 1);
	add_named(s->r, w, value_at(s, (size_t)(rest.p - text.p)));
}

// --- what stands before a name ---

static bool is_person(char c) { return char_word(c) || c == '.' || c == '-'; }

/** Directories of people, and of what they work at. */
static void find_home(struct redactor *r, struct str rest)
{
	static const struct {
		const char *above;
		bool work;
	} places[] = {
		{ "/home/" },           { "/Users/" },         { "/users/" },           { "/projects/", true }, { "/project/", true },
		{ "/srv/", true },      { "/workspace/", true }, { "/scratch/", true }, { "/data/", true },     { "/datasets/", true },
		{ "/lustre/", true },   { "/gpfs/", true },    { "/mnt/", true },       { "/media/", true },    { "/work/", true },
		{ "/opt/", true },      { "/envs/", true },
	};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct str above = str_z(places[i].above), name = str_from(rest, above.n);
		if (!str_starts(rest, above))
			continue;
		name = str_cut(name, run_of(name, is_person));
		if (places[i].work)
			redact_add_weak(r, REDACT_NAME, name);
		else
			redact_add(r, REDACT_USER, name);
	}
}

static bool is_model_name(char c) { return char_word(c) || c == '.' || c == '-'; }

/** /models/NAME, models--ORGANISATION--NAME. How far it reaches; 0: there is none. */
static size_t find_model(struct redactor *r, struct str rest)
{
	if (str_starts(rest, S("/models/")))
		add_model(r, str_cut(str_from(rest, 8), run_of(str_from(rest, 8), is_model_name)));
	if (!str_starts(rest, S("models--")))
		return 0;
	struct str name = str_cut(str_from(rest, 8), run_of(str_from(rest, 8), is_model_name));
	ptrdiff_t at = str_find(name, S("--"));
	redact_add(r, REDACT_MODEL, name);
	if (at > 0) {
		redact_add(r, REDACT_MODEL, str_cut(name, (size_t)at));
		redact_add(r, REDACT_MODEL, str_from(name, (size_t)at + 2));
	}
	return name.n + 8;
}

/** NAME.gguf */
static void find_weights(struct redact_search *s, size_t at)
{
	static const char *const ends[] = { ".gguf", ".safetensors", ".ckpt", ".pth", ".pt" };
	size_t from = at;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (!str_starts(str_from(s->text, at), str_z(ends[i])))
			continue;
		while (from > s->weights && is_model_name(s->text.p[from - 1]))
			from--;
		s->r->from = s->text.p + at + str_z(ends[i]).n - 1; // all of it tells what the name is
		if (at - from > 2)
			redact_add(s->r, REDACT_MODEL, (struct str){ s->text.p + from, at - from });
		s->r->from = s->text.p + at;
		s->weights = at + 1;
		return;
	}
}

/** user@host, but not unit@instance.service */
static void find_mail(struct redactor *r, struct str text, size_t at)
{
	static const char *const units[] = {
		".service", ".socket", ".slice", ".scope", ".mount", ".timer", ".target", ".device"
	};
	size_t from = at;
	struct str rest = str_from(text, at + 1), host = str_cut(rest, run_of(rest, is_person));
	while (from > 0 && is_person(text.p[from - 1]))
		from--;
	if (from == at || !char_alpha(text.p[from]) || !host.n || is_number(host))
		return;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (str_ends(host, str_z(units[i])))
			return;
	redact_add(r, REDACT_USER, (struct str){ text.p + from, at - from });
	redact_add(r, REDACT_HOST, host);
}

/** Parts of a web address behind its host that are secrets: all that a webhook has, and what has the form of one. */
static size_t find_url_path(struct redactor *r, struct str all, bool hook)
{
	enum { LEAST = 4, PARTS = 16 };
	enum redact_kind kind;
	struct str path = all;
	for (int i = 0; path.n && i < PARTS; i++) {
		struct str part = str_cut(path, run_of(path, is_url_part));
		if (part.n >= LEAST && hook)
			redact_add_weak(r, REDACT_SECRET, part);
		else if (part.n && redact_shape(part, true, 0, &kind) == part.n)
			redact_add(r, kind, part);
		hook |= str_find(part, S("hook")) >= 0;
		if (part.n == path.n || path.p[part.n] != '/')
			break;
		path = str_from(path, part.n + 1);
	}
	return all.n - path.n;
}

/** https://user:password@host/. Returns how far it was looked at. */
static size_t find_url(struct redactor *r, struct str rest)
{
	rest = str_from(rest, 3);
	struct str host = str_cut(rest, run_of(rest, is_url_host)), path = str_from(rest, host.n + 1);
	ptrdiff_t at = str_find(host, S("@"));
	if (at >= 0) {
		struct str who = str_cut(host, (size_t)at), user = str_split(&who, ':');
		redact_add(r, REDACT_USER, user);
		redact_add(r, REDACT_SECRET, who);
		host = str_from(host, (size_t)at + 1);
	}
	host = str_split(&host, ':');
	if (host.n && char_alpha(host.p[0]))
		redact_add(r, REDACT_HOST, host);
	return (size_t)(path.p - rest.p) + 3 + find_url_path(r, path, str_find(host, S("hook")) >= 0);
}

static void find_behind(struct redactor *r, struct str rest)
{
	static const struct {
		const char *word;
		enum redact_kind kind;
	} before[] = {
		{ "Bearer ", REDACT_SECRET },    { "Basic ", REDACT_SECRET },         { "Hostname set to <", REDACT_HOST },
		{ "Set hostname to <", REDACT_HOST },
		{ "unique_id ", REDACT_SERIAL }, { "session of user ", REDACT_USER }, { "for user ", REDACT_USER },
		{ "Accepted publickey for ", REDACT_USER }, { "Accepted password for ", REDACT_USER }, { "Failed password for ", REDACT_USER },
		{ "SHA256:", REDACT_SECRET },
	};
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		struct str value;
		if (rest.p[0] == before[i].word[0] && str_behind(rest, str_z(before[i].word), &value))
			add_value(r, before[i].kind, str_cut(value, run_of(value, is_value)));
	}
}

static bool is_label(char c) { return char_word(c) || c == '-'; }

/** What has a form of its own. It begins where a word does; most also behind a mark in a longer one. */
static void find_shape(struct redact_search *s, size_t at)
{
	const char before = at ? s->text.p[at - 1] : ' ';
	const bool inside = at < s->label || (at > 1 && char_among(before, "/+") && !char_space(s->text.p[at - 2]));
	enum redact_kind kind;
	if (char_word(before) || before == '.' || s->text.p[at] == '-' || at < s->shaped)
		return;
	if (at >= s->label)
		s->label = at + run_of(str_from(s->text, at), is_label);
	size_t n = redact_shape(str_from(s->text, at), s->command, inside || before == ':' ? before : 0, &kind);
	if (!n)
		return;
	redact_add(s->r, kind, str_cut(str_from(s->text, at), n));
	s->shaped = at + n;
}

/** What a sign before it tells, which begins at @at. */
static void find_sign(struct redact_search *s, size_t at)
{
	struct str rest = str_from(s->text, at);
	size_t reach = find_model(s->r, rest);
	const size_t disk = redact_find_disk(s->r, rest), device = redact_find_device(s->r, rest);
	reach = disk > reach ? disk : reach;
	reach = device > reach ? device : reach;
	s->sign = reach ? at + reach : s->sign;
	find_behind(s->r, rest);
}

static void find_at(struct redact_search *s, size_t at)
{
	const char c = s->text.p[at], before = at ? s->text.p[at - 1] : ' ';
	struct str rest = str_from(s->text, at);
	find_shape(s, at);
	if (c == '/') {
		find_home(s->r, rest);
		find_model(s->r, rest);
	}
	if (c == '@')
		find_mail(s->r, s->text, at);
	if (c == '.')
		find_weights(s, at);
	if (at >= s->url && str_starts(rest, S("://")))
		s->url = at + find_url(s->r, rest);
	if (!char_word(before) && at >= s->sign)
		find_sign(s, at);
	if (at >= s->name && is_name(c) && c != '-')
		find_named(s, at);
	if (c == '?' || c == '&')
		redact_find_query(s->r, rest);
	if (c == '-' && s->command && (char_space(before) || !before))
		redact_find_option(s->r, s->text, s->line, at);
}

void redact_find(struct redactor *r, struct str text, bool command)
{
	struct redact_search s = { .r = r, .text = text, .command = command };
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '\n')
			s.line = i + 1;
		r->from = text.p + i;
		if (text.p[i] > ' ')
			find_at(&s, i);
	}
	r->from = NULL;
}
