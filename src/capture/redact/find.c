// Finds names and secrets in a text: one pass over its bytes, in which each place is asked what may begin there. A name is told by its form
// (shapes.c), by the words before it (signs.c), or by the option, variable, path or address that has it, which is here.
#include "capture/redact/redact.h"

static bool in_name(char c) { return char_word(c) || c == '-' || c == '.'; }
static bool in_parameter(char c) { return redact_is_value(c) && !char_among(c, "&#?"); }
static bool is_url_host(char c) { return redact_is_value(c) && c != '/'; }
static bool is_url_part(char c) { return redact_is_value(c) && !char_among(c, "/?#&"); }

static bool is_whole_number(struct str s)
{
	int64_t number;
	return str_number(s, &number);
}

// --- values that have a name ---

/** What the words of a name say of its value. */
static const struct word {
	const char *words;
	enum redact_kind kind;
	bool weak; // they have other meanings: behind a colon they say nothing, and a word that messages have stays
} words[] = {
	{ "token|password|passwd|passphrase|secret|apikey|pwd|credential|credentials|key|auth|bearer|accesskey|secretkey",
	  REDACT_SECRET },
	{ "model|tokenizer|checkpoint|ckpt|weights|lora|adapter|models", REDACT_MODEL },
	{ "host|hostname|nodename|nodelist|hosts|addr|address|endpoint", REDACT_HOST },
	{ "user|username|logname|login", REDACT_USER },
	{ "serial|serialnumber|uuid|partuuid|guid|wwn|wwid", REDACT_SERIAL },
	{ "signature|pass|pw|passcode|psk|jwt|cookie", REDACT_SECRET, true },
};

/** Whether a part of a name is one of the words, or ends with one that tells of a secret: PGPASSWORD, AccountKey, AWSAccessKeyId. A short word
 * at the end must begin with a capital: monkey is no key. */
static bool name_says(struct str part, struct str lower, const struct word *w)
{
	enum { LONG = 5 };
	if (str_among(lower, STR_EQUALS, w->words).n)
		return true;
	if (str_ends(part, S("Id")))
		lower = str_cut(lower, lower.n - 2);
	for (struct str rest = str_z(w->words); rest.n && w->kind == REDACT_SECRET;) {
		const struct str word = str_split(&rest, '|');
		if (!str_ends(lower, word) || lower.n == word.n)
			continue;
		const char *at = part.p + lower.n - word.n;
		if (word.n >= LONG || (*at != char_lower(*at) && at[-1] == char_lower(at[-1])))
			return true;
	}
	return false;
}

/** A name is made of words, by whatever is between them: HF_TOKEN, --hf-token, api.token. */
static const struct word *telling_word(struct str name)
{
	char lower[64];
	for (size_t at = 0; at < name.n;) {
		size_t n = 0;
		while (at + n < name.n && (char_alpha(name.p[at + n]) || char_digit(name.p[at + n])) && n + 1 < sizeof(lower)) {
			lower[n] = char_lower(name.p[at + n]);
			n++;
		}
		for (size_t i = 0; n && i < ARRAY_SIZE(words); i++)
			if (name_says(str_cut(str_from(name, at), n), (struct str){ lower, n }, &words[i]))
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
		if (part.n >= LEAST && !is_whole_number(part))
			redact_add(r, REDACT_MODEL, part);
	}
}

void redact_add_value(struct redactor *r, enum redact_kind kind, struct str value)
{
	enum { SECRET_LEAST = 4, NUMBER_LEAST = 8 };
	enum redact_kind shape;
	bool number = is_whole_number(value), hex = str_starts(value, S("0x"));
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

/** Words with other meanings count for less: a `pass` of a test is no password. */
static void add_named_value(struct redactor *r, const struct word *w, struct str value)
{
	if (w->weak)
		redact_add_weak(r, w->kind, value);
	else
		redact_add_value(r, w->kind, value);
}

void redact_value(struct redactor *r, struct str name, struct str value)
{
	const struct word *w = telling_word(name);
	r->from = name.p;
	if (str_among(name, STR_MATCHES, "*JOB_NAME|*JOB_ACCOUNT|POD_*|*NAMESPACE|*REF_NAME|*BRANCH*|--name|--account|*IFNAME")
		    .n)
		redact_add_weak(r, REDACT_NAME, value);
	if (w)
		add_named_value(r, w, value);
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
		s->value = at + str_run(rest, redact_is_value);
	struct str value = str_cut(rest, s->value - at);
	return part && value.n > SHORT ? (struct str){ 0 } : value;
}

/** `NAME=VALUE`, `--name VALUE`, `"name": "VALUE"`; a colon without quotes is enough for serial numbers and secrets. */
static void find_named(struct redact_search *s, size_t at)
{
	struct str text = s->text, rest = str_from(text, at), name = str_cut(rest, str_run(rest, in_name));
	s->name = at + name.n;
	rest = str_from(rest, name.n);
	bool option = at > 0 && text.p[at - 1] == '-' && (s->command || (at > 1 && text.p[at - 2] == '-'));
	const struct word *w = rest.n && (option || char_among(rest.p[0], "=:\"'")) ? telling_word(name) : NULL;
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
	add_named_value(s->r, w, value_at(s, (size_t)(rest.p - text.p)));
}

// --- what stands before a name ---

/** Directories of people, and of what they work at. */
static void find_home(struct redactor *r, struct str rest)
{
	static const char people[] = "/home/|/Users/|/users/";
	static const char work[] =
		"/projects/|/project/|/srv/|/workspace/|/scratch/|/data/|/datasets/|/lustre/|/gpfs/|/mnt/|/media/|"
		"/work/|/opt/|/envs/";
	const struct str home = str_among(rest, STR_BEGINS, people);
	const struct str above = home.n ? home : str_among(rest, STR_BEGINS, work), name = str_from(rest, above.n);
	if (home.n)
		redact_add(r, REDACT_USER, str_cut(name, str_run(name, in_name)));
	else if (above.n)
		redact_add_weak(r, REDACT_NAME, str_cut(name, str_run(name, in_name)));
}

/** /models/NAME, models--ORGANISATION--NAME. How far it reaches; 0: there is none. */
static size_t find_model(struct redactor *r, struct str rest)
{
	if (str_starts(rest, S("/models/")))
		add_model(r, str_cut(str_from(rest, 8), str_run(str_from(rest, 8), in_name)));
	if (!str_starts(rest, S("models--")))
		return 0;
	struct str name = str_cut(str_from(rest, 8), str_run(str_from(rest, 8), in_name));
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
	const struct str end = str_among(str_from(s->text, at), STR_BEGINS, ".gguf|.safetensors|.ckpt|.pth|.pt");
	size_t from = at;
	if (!end.n)
		return;
	while (from > s->weights && in_name(s->text.p[from - 1]))
		from--;
	s->r->from = s->text.p + at + end.n - 1; // all of it tells what the name is
	if (at - from > 2)
		redact_add(s->r, REDACT_MODEL, (struct str){ s->text.p + from, at - from });
	s->r->from = s->text.p + at;
	s->weights = at + 1;
}

/** user@host, but not unit@instance.service */
static void find_mail(struct redactor *r, struct str text, size_t at)
{
	size_t from = at;
	struct str rest = str_from(text, at + 1), host = str_cut(rest, str_run(rest, in_name));
	while (from > 0 && in_name(text.p[from - 1]))
		from--;
	if (from == at || !char_alpha(text.p[from]) || !host.n || is_whole_number(host) ||
	    str_among(host, STR_ENDS, ".service|.socket|.slice|.scope|.mount|.timer|.target|.device").n)
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
		struct str part = str_cut(path, str_run(path, is_url_part));
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
	struct str host = str_cut(rest, str_run(rest, is_url_host)), path = str_from(rest, host.n + 1);
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

static bool in_dashed(char c) { return char_word(c) || c == '-'; }

/** What has a form of its own. It begins where a word does; most also behind a mark in a longer one. */
static void find_shape(struct redact_search *s, size_t at)
{
	const char before = at ? s->text.p[at - 1] : ' ';
	const bool inside = at < s->label || (at > 1 && char_among(before, "/+") && !char_space(s->text.p[at - 2]));
	enum redact_kind kind;
	if (char_word(before) || before == '.' || s->text.p[at] == '-' || at < s->shaped)
		return;
	if (at >= s->label)
		s->label = at + str_run(str_from(s->text, at), in_dashed);
	size_t n = redact_shape(str_from(s->text, at), s->command, inside || before == ':' ? before : 0, &kind);
	if (!n)
		return;
	redact_add(s->r, kind, str_cut(str_from(s->text, at), n));
	s->shaped = at + n;
}

/** A parameter of a web address, at its ? or &: `?sig=X`. */
static void find_query(struct redactor *r, struct str rest)
{
	enum { LEAST = 4 };
	// Endings that mean nothing elsewhere: `sig` is also a signal.
	static const char signing[] =
		"*sig|*signature|*hmac|*jwt|*credential|*token|*session_id|*accessid|*key|*keyid|*auth|*pass|*pw|"
		"*key_id|*secret";
	rest = str_from(rest, 1);
	struct str name = str_cut(rest, str_run(rest, in_name)), value = str_from(rest, name.n);
	enum redact_kind kind;
	if (!name.n || !value.n || value.p[0] != '=')
		return;
	value = str_from(value, 1);
	value = str_cut(value, str_run(value, in_parameter));
	if (value.n >= LEAST && (str_among(name, STR_LIKE, signing).n || redact_shape(value, true, 0, &kind)))
		redact_add(r, REDACT_SECRET, value);
}

/** An option of one letter that has a password, at its dash: `-p X`, of some programs also `-pX`. */
static void find_option(struct redact_search *s, size_t at)
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
	const struct str program = str_cut((struct str){ s->text.p + s->line, at - s->line }, PROGRAM);
	struct str rest = str_from(s->text, at + 1), value = str_from(rest, 1);
	const bool joined = value.n && !char_space(value.p[0]);
	value = str_from(value, !joined);
	while (value.n && char_among(value.p[0], "\"'"))
		value = str_from(value, 1);
	value = str_cut(value, str_run(value, redact_is_value));
	if (!value.n)
		return;
	if (char_among(rest.p[0], "uU") && !joined && memchr(value.p, ':', value.n)) { // -u user:password
		redact_add(s->r, REDACT_USER, str_split(&value, ':'));
		redact_add(s->r, REDACT_SECRET, value);
	}
	const bool digits = redact_count_digits(value), letters = value.n >= LEAST_LETTERS; // not the -pthread of a compiler
	for (size_t i = 0; value.n >= LEAST && i < ARRAY_SIZE(options); i++) {
		if (rest.p[0] != options[i].letter || joined != options[i].joined)
			continue;
		if (options[i].program && str_find(program, str_z(options[i].program)) >= 0) {
			redact_add(s->r, REDACT_SECRET, value);
			return;
		}
		if (!options[i].program && (joined ? digits && letters : digits || letters))
			redact_add_weak(s->r, REDACT_SECRET, value);
	}
}

/** Everything that may begin at this byte. What was found is remembered by its end, so that no part of it is looked at again. */
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
	if (!char_word(before) && at >= s->sign) {
		const size_t model = find_model(s->r, rest), sign = redact_find_sign(s->r, rest),
			     reach = sign > model ? sign : model;
		s->sign = reach ? at + reach : s->sign;
	}
	if (at >= s->name && in_name(c) && c != '-')
		find_named(s, at);
	if (c == '?' || c == '&')
		find_query(s->r, rest);
	if (c == '-' && s->command && (char_space(before) || !before))
		find_option(s, at);
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
