#include "base/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/print.h"

/** Where a part that can be run begins and ends. */
struct runnable {
	size_t begin, end;
};

struct command {
	struct str text;
	struct runnable *runs;
	size_t nruns;
	bool value_first; // it begins with a value, which is no sentence
};

struct command_maker {
	struct arena *arena;
	struct text text;
	VEC(struct runnable) runs;
	bool inside; // of the last run
	bool refused;
	bool value_first;
};

enum { VALUE_MOST = 256, PATH_MOST = 4096 };

// --- values ---

static const char *const type_names[PIECE_TYPES] = {
	[PIECE_WORD] = "word",           [PIECE_NUMBER] = "number", [PIECE_PCI] = "pci",   [PIECE_NAME] = "name",
	[PIECE_PARAMETER] = "parameter", [PIECE_WORDS] = "words",   [PIECE_PATH] = "path", [PIECE_VERSION] = "version",
};

enum piece_type piece_type_named(struct str name)
{
	enum piece_type t = PIECE_WORD;
	while (t < PIECE_TYPES && !str_is(name, type_names[t]))
		t++;
	return t;
}

/** Only of such characters. */
static bool only(struct str s, const char *besides)
{
	for (size_t n = 0; n < s.n; n++)
		if (!char_word(s.p[n]) && !char_among(s.p[n], besides))
			return false;
	return s.n && s.n <= VALUE_MOST;
}

/** zsh takes a word that begins with = for the path of a program. */
static bool is_parameter(struct str s) { return only(s, "./:,=+@%-") && s.p[0] != '='; }
static bool command_is_word(struct str s) { return is_parameter(s) && s.p[0] != '-'; }

static bool is_words(struct str s)
{
	bool good = s.n && s.n <= VALUE_MOST && s.p[s.n - 1] != ' ';
	while (good && s.n)
		good = command_is_word(str_split(&s, ' '));
	return good;
}

/** A ~ means a home only at the begin of a word, and behind = or :. */
static bool is_package_version(struct str s)
{
	for (size_t n = 0; n < s.n; n++)
		if (s.p[n] == '~' && (!n || (!char_word(s.p[n - 1]) && s.p[n - 1] != '.' && s.p[n - 1] != '+')))
			return false;
	return only(s, ".:+-~") && char_word(s.p[0]) && (char_word(s.p[s.n - 1]) || s.p[s.n - 1] == '+'); // 6.18.0+ is a kernel
}

static bool is_number(struct str s)
{
	int64_t number;
	return str_number(s, &number) && s.p[0] != '+';
}

static bool is_hex(struct str s, size_t least, size_t most)
{
	for (size_t n = 0; n < s.n; n++)
		if (!char_hex(s.p[n]))
			return false;
	return s.n >= least && s.n <= most;
}

static bool is_pci(struct str s)
{
	struct str rest = s, domain = str_split(&rest, ':'), bus = str_split(&rest, ':'), device = str_split(&rest, '.');
	return is_hex(domain, 4, 8) && is_hex(bus, 2, 2) && is_hex(device, 2, 2) && is_hex(rest, 1, 1) &&
	       s.n == domain.n + bus.n + device.n + rest.n + 3;
}

bool piece_plain(enum piece_type type, struct str value)
{
	switch (type) {
	case PIECE_WORD:
	case PIECE_PATH:
		return command_is_word(value);
	case PIECE_NUMBER:
		return is_number(value);
	case PIECE_PCI:
		return is_pci(value);
	case PIECE_NAME:
		return only(value, ".-") && (char_alpha(value.p[0]) || value.p[0] == '_');
	case PIECE_PARAMETER:
		return is_parameter(value);
	case PIECE_WORDS:
		return is_words(value);
	case PIECE_VERSION:
		return is_package_version(value);
	case PIECE_TYPES:
		break;
	}
	return false;
}

void shell_quote(struct text *to, struct str s)
{
	text_add(to, S("'"));
	for (; s.n; s = str_from(s, 1))
		text_add(to, s.p[0] == '\'' ? S("'\\''") : str_cut(s, 1));
	text_add(to, S("'"));
}

void shell_word(struct text *to, struct str s)
{
	if (is_parameter(s))
		text_add(to, s);
	else
		shell_quote(to, s);
}

void shell_words(struct text *to, char *const *words)
{
	for (size_t i = 0; words[i]; i++) {
		text_add(to, i ? S(" ") : S(""));
		shell_word(to, str_z(words[i]));
	}
}

/** What does not print cannot be copied either. */
static bool command_add_path(struct text *to, struct str path)
{
	if (!path.n || path.n > PATH_MOST || !print_is_safe(path))
		return false;
	if (path.p[0] == '-')
		text_add(to, S("./"));
	shell_word(to, path);
	return true;
}

// --- commands ---

struct command_maker *command_begin(struct arena *arena)
{
	struct command_maker *m = arena_alloc(arena, sizeof(*m));
	m->arena = arena;
	return m;
}

void command_mark(struct command_maker *m)
{
	m->inside = !m->inside;
	if (m->inside)
		vec_push(&m->runs, ((struct runnable){ m->text.n, m->text.n }));
	else
		m->runs.data[m->runs.len - 1].end = m->text.n;
}

void command_add_text(struct command_maker *m, struct str text)
{
	for (ptrdiff_t at; (at = str_find(text, S("``"))) >= 0; text = str_from(text, (size_t)at + 2)) {
		text_add(&m->text, str_cut(text, (size_t)at));
		command_mark(m);
	}
	text_add(&m->text, text);
}

void command_add_command(struct command_maker *m, const struct command *c)
{
	const size_t before = m->text.n;
	m->refused |= !c;
	m->value_first |= !before && c && c->value_first;
	for (size_t n = 0; c && !m->inside && n < c->nruns; n++)
		vec_push(&m->runs, ((struct runnable){ before + c->runs[n].begin, before + c->runs[n].end }));
	text_add(&m->text, command_str(c));
}

void command_add_within(struct command_maker *m, const struct command *c)
{
	const size_t at = m->text.n;
	struct str s = command_str(c);
	command_add_command(m, c);
	if (s.n > 1 && !c->value_first && s.p[0] >= 'A' && s.p[0] <= 'Z' && s.p[1] >= 'a' && s.p[1] <= 'z')
		m->text.p[at] = (char)(s.p[0] + 32);
}

bool command_add_value(struct command_maker *m, enum piece_type type, struct str value)
{
	m->value_first |= !m->text.n;
	bool good = type == PIECE_PATH ? command_add_path(&m->text, value) : piece_plain(type, value);
	if (good && type != PIECE_PATH)
		text_add(&m->text, value);
	m->refused |= !good;
	return good;
}

void command_add_blank(struct command_maker *m, struct str name)
{
	for (size_t n = 0; n < name.n; n++) {
		char c = name.p[n];
		if (c == '@')
			text_add(&m->text, S("_FILE"));
		else
			text_printf(&m->text, "%c", c >= 'a' && c <= 'z' ? c - 32 : char_word(c) ? c : '_');
	}
}

const struct command *command_end(struct command_maker *m)
{
	struct command *c = m->refused || !m->text.n ? NULL : arena_alloc(m->arena, sizeof(*c));
	if (m->inside)
		command_mark(m);
	if (c) {
		c->text = arena_str(m->arena, text_str(&m->text));
		c->nruns = m->runs.len;
		c->value_first = m->value_first;
		c->runs = arena_alloc(m->arena, c->nruns * sizeof(*c->runs) + 1);
		for (size_t n = 0; n < c->nruns; n++)
			c->runs[n] = m->runs.data[n];
	}
	vec_free(&m->runs);
	text_free(&m->text);
	return c;
}

const struct command *command_literal(struct arena *arena, struct str text)
{
	struct command_maker *m = command_begin(arena);
	command_add_text(m, text);
	return command_end(m);
}

const struct command *command_of(struct arena *arena, struct str before, enum piece_type type, struct str value)
{
	struct command_maker *m = command_begin(arena);
	command_add_text(m, before);
	command_add_value(m, type, value);
	return command_end(m);
}

// --- a job ---

/** Whether a shell that is given its words and variables starts the same. */
static bool job_can_be_copied(const struct job_words *job)
{
	bool good = job->words[0] && print_is_safe(job->trial) && print_is_safe(job->run);
	for (size_t i = 0; job->words[i]; i++)
		good &= print_is_safe(str_z(job->words[i]));
	for (size_t i = 0; i < job->nenv; i++) {
		struct str value = str_z(job->env[i]);
		good &= only(str_split(&value, '='), "") && print_is_safe(value);
	}
	return good;
}

/** What stands in front of it for a shell to set, but what @text sets. */
static void job_settings(struct text *to, const struct job_words *job, struct str text)
{
	for (size_t i = 0; i < job->nenv; i++) {
		struct str value = str_z(job->env[i]), name = str_split(&value, '=');
		if (str_find(text, str_cut(str_z(job->env[i]), name.n + 1)) >= 0)
			continue;
		text_printf(to, STR_FMT "=", STR_ARG(name));
		if (value.n)
			shell_word(to, value);
		text_add(to, S(" "));
	}
}

const struct command *command_of_job(struct arena *arena, const struct job_words *job, struct str text)
{
	static const char *const marks[] = { "PROGRAM", "unhang try", "unhang bisect", "unhang run" };
	struct command_maker *m = command_begin(arena);
	const struct str all = text;
	bool ours = false; // the command that PROGRAM stands in
	while (job_can_be_copied(job) && text.n) {
		size_t first = text.n, which = ARRAY_SIZE(marks);
		for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
			const ptrdiff_t at = str_find(text, str_z(marks[i]));
			if (at >= 0 && (size_t)at < first) {
				first = (size_t)at;
				which = i;
			}
		}
		if (which == ARRAY_SIZE(marks))
			break;
		command_add_text(m, str_cut(text, first));
		text = str_from(text, first + strlen(marks[which]));
		if (which) {
			text_add(&m->text, str_z(marks[which]));
			text_add(&m->text, which == ARRAY_SIZE(marks) - 1 ? job->run : job->trial);
		} else {
			if (!ours)
				job_settings(&m->text, job, all);
			shell_words(&m->text, job->words);
		}
		ours = which;
	}
	command_add_text(m, text);
	return command_end(m);
}

struct str command_str(const struct command *c) { return c ? c->text : (struct str){ 0 }; }

struct str command_run(const struct command *c, size_t index)
{
	if (!c || index >= c->nruns)
		return (struct str){ 0 };
	return str_cut(str_from(c->text, c->runs[index].begin), c->runs[index].end - c->runs[index].begin);
}
