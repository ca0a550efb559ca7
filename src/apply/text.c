// What is written to a file, and how it is found again. own_strip() undoes own_insert() byte for byte.
#include "apply/applied.h"

#include <stdio.h>
#include <time.h>

#include "base/print.h"
#include "knowledge/parameter.h"

bool applied_id_good(struct str id)
{
	if (!id.n || id.n > 64 || id.p[0] == '.' || id.p[0] == '-')
		return false;
	for (size_t n = 0; n < id.n; n++)
		if (!char_word(id.p[n]) && id.p[n] != '-' && id.p[n] != '.')
			return false;
	return true;
}

bool applied_set_good(struct str name, struct str value)
{
	return piece_plain(PIECE_NAME, name) && piece_plain(PIECE_PARAMETER, value);
}

bool applied_variable_good(struct str name, struct str value)
{
	bool good = piece_plain(PIECE_NAME, name) && value.n && value.n < 1024;
	for (size_t n = 0; good && n < value.n; n++)
		good = value.p[n] >= ' ' && value.p[n] < 0x7f && !char_among(value.p[n], "'$\\");
	return good;
}

/** How a shell calls a limit. */
static const struct {
	const char *name;
	char letter;
} shell_limits[] = { { "core", 'c' }, { "memlock", 'l' }, { "nofile", 'n' } };

static char limit_letter(struct str name)
{
	for (size_t n = 0; n < ARRAY_SIZE(shell_limits); n++)
		if (str_is(name, shell_limits[n].name))
			return shell_limits[n].letter;
	return 0;
}

bool applied_limit_good(struct str name, struct str value)
{
	int64_t n;
	return limit_letter(name) && str_number(value, &n) && n >= 0 && str_run(value, char_digit) == value.n;
}

struct str title_line(struct arena *to, struct str title)
{
	_cleanup_text_ struct text line = { 0 };
	text_add_safe(&line, title);
	return arena_str(to, text_str(&line));
}

static bool in_entries(struct str path)
{
	static const char *const directories[] = { "/boot/loader/entries/", "/efi/loader/entries/",
						   "/boot/efi/loader/entries/" };
	for (size_t n = 0; n < ARRAY_SIZE(directories); n++) {
		struct str directory = str_z(directories[n]), name = str_from(path, directory.n);
		if (str_starts(path, directory) && name.n && name.n < 256 && name.p[0] != '.' && str_ends(name, S(".conf")) &&
		    !memchr(name.p, '/', name.n))
			return true;
	}
	return false;
}

static bool named_after(struct str path, struct str before, struct str id, struct str end)
{
	return path.n == before.n + id.n + end.n && str_starts(path, before) && str_starts(str_from(path, before.n), id) &&
	       str_ends(path, end);
}

bool own_file_good(const struct applied *a, enum own_kind kind, struct str path)
{
	switch (kind) {
	case OWN_MODPROBE:
		return named_after(path, S("/etc/modprobe.d/zz-unhang-"), a->id, S(".conf"));
	case OWN_ENVIRONMENT:
		return named_after(path, S("/etc/environment.d/zz-unhang-"), a->id, S(".conf"));
	case OWN_PROFILE:
		return named_after(path, S("/etc/profile.d/zz-unhang-"), a->id, S(".sh"));
	case OWN_GRUB_D:
		return named_after(path, S("/etc/default/grub.d/zz-unhang-"), a->id, S(".cfg"));
	case OWN_GRUB:
		return str_is(path, "/etc/default/grub");
	case OWN_ENTRY_LINE:
	case OWN_ENTRY_WORDS:
		return in_entries(path);
	case OWN_CMDLINE:
		return str_is(path, "/etc/kernel/cmdline");
	}
	return false;
}

/** `options amdgpu a=1 b=2` of amdgpu.a=1 amdgpu.b=2, a line for each module. */
static void add_options(struct text *t, struct str words)
{
	struct str rest = words, module = { 0 };
	for (struct str word; (word = str_word(&rest)).n;) {
		struct str setting = word, of = str_split(&setting, '.');
		if (!str_eq(of, module))
			text_printf(t, "%soptions " STR_FMT, module.n ? "\n" : "", STR_ARG(of));
		text_printf(t, " " STR_FMT, STR_ARG(setting));
		module = of;
	}
	text_add(t, S("\n"));
}

static void apply_text_add_assignment(struct text *t, const struct own_file *f)
{
	const char *variable = f->last ? "GRUB_CMDLINE_LINUX_DEFAULT" : "GRUB_CMDLINE_LINUX";
	text_printf(t, "%s=\"$%s " STR_FMT "\"", variable, variable, STR_ARG(f->words));
}

struct str own_text(struct arena *to, const struct applied *a, const struct own_file *f)
{
	_cleanup_text_ struct text t = { 0 };
	if (own_whole(f->kind)) {
		// So that who finds the file knows where it is from and how to take it back.
		time_t date = (time_t)a->date;
		struct tm tm = { 0 };
		gmtime_r(&date, &tm);
		text_printf(&t, "# unhang " STR_FMT ": " STR_FMT "\n", STR_ARG(a->id), STR_ARG(a->title));
		_cleanup_arena_ struct arena room = { 0 };
		text_printf(&t, "# unhang since %04d-%02d-%02d; undo it with: " STR_FMT "\n", tm.tm_year + 1900, tm.tm_mon + 1,
			    tm.tm_mday, STR_ARG(DOCTOR(&room, "--undo", a->id)));
	}
	if (f->bare)
		text_add(&t, S("\n"));
	switch (f->kind) {
	case OWN_MODPROBE:
		add_options(&t, f->words);
		break;
	case OWN_ENVIRONMENT:
		for (size_t n = 0; n < a->variables.len; n++)
			text_printf(&t, STR_FMT "='" STR_FMT "'\n", STR_ARG(a->variables.data[n].name),
				    STR_ARG(a->variables.data[n].value));
		break;
	case OWN_PROFILE:
		for (size_t n = 0; n < a->variables.len; n++)
			text_printf(&t, "export " STR_FMT "='" STR_FMT "'\n", STR_ARG(a->variables.data[n].name),
				    STR_ARG(a->variables.data[n].value));
		for (size_t n = 0; n < a->limits.len; n++) {
			const char letter = limit_letter(a->limits.data[n].name);
			text_printf(&t, "[ \"$(ulimit -S%c)\" != 0 ] || ulimit -S%c " STR_FMT " 2>/dev/null || :\n", letter,
				    letter, STR_ARG(a->limits.data[n].value));
		}
		break;
	case OWN_GRUB_D:
		apply_text_add_assignment(&t, f);
		text_add(&t, S("\n"));
		break;
	case OWN_GRUB:
		apply_text_add_assignment(&t, f);
		text_printf(&t, " # unhang " STR_FMT "\n", STR_ARG(a->id));
		break;
	case OWN_ENTRY_LINE:
		text_printf(&t, "# unhang " STR_FMT "\noptions " STR_FMT "\n", STR_ARG(a->id), STR_ARG(f->words));
		break;
	case OWN_ENTRY_WORDS:
	case OWN_CMDLINE:
		text_printf(&t, " " STR_FMT, STR_ARG(f->words));
		break;
	}
	return arena_str(to, text_str(&t));
}

/** Whether a line, without its newline, holds words of the command line in a file of this kind. */
static bool holds_words(enum own_kind kind, struct str line)
{
	struct str rest = line, key = str_word(&rest);
	if (own_entry(kind))
		return str_is(key, "options");
	return key.n && key.p[0] != '#';
}

/** Where words go: behind the first options line, or the last line of the command line. */
static bool words_place(enum own_kind kind, struct str content, size_t *ret)
{
	bool found = false;
	for (struct str rest = content; rest.n;) {
		struct str line = str_split(&rest, '\n');
		if (!holds_words(kind, line))
			continue;
		*ret = (size_t)(line.p - content.p) + line.n - str_ends(line, S("\r"));
		found = true;
		if (kind == OWN_ENTRY_WORDS)
			break;
	}
	return found;
}

/** @content with [at, at + n) replaced by @by. */
static struct str replaced(struct arena *to, struct str content, size_t at, size_t n, struct str by)
{
	struct str behind = str_from(content, at + n);
	char *p = arena_alloc(to, at + by.n + behind.n + 1);
	memcpy(p, content.p, at);
	memcpy(p + at, by.p, by.n);
	memcpy(p + at + by.n, behind.p, behind.n);
	return (struct str){ p, at + by.n + behind.n };
}

bool own_insert(struct arena *to, const struct applied *a, const struct own_file *f, struct str base, struct str *ret)
{
	struct str text = own_text(to, a, f);
	size_t at = base.n;
	if (own_whole(f->kind)) {
		*ret = text;
		return true;
	}
	if ((f->kind == OWN_ENTRY_WORDS || f->kind == OWN_CMDLINE) && !words_place(f->kind, base, &at))
		return false;
	*ret = base.n ? replaced(to, base, at, 0, text) : text;
	return true;
}

/** The last place of @text that begins a line, or -1. */
static ptrdiff_t find_lines(struct str content, struct str text)
{
	for (size_t at = content.n - text.n + 1; text.n && text.n <= content.n && at-- > 0;)
		if (!memcmp(content.p + at, text.p, text.n) && (!at || text.p[0] == '\n' || content.p[at - 1] == '\n'))
			return (ptrdiff_t)at;
	return -1;
}

/** Whether a line is ours by itself: one of @text, or one with our mark. */
static bool line_ours(const struct applied *a, const struct own_file *f, struct str line, struct str text)
{
	char mark[96];
	snprintf(mark, sizeof(mark), "# unhang " STR_FMT, STR_ARG(a->id));
	while (text.n) {
		struct str ours = str_split(&text, '\n');
		if (ours.n && str_eq(str_trim(line), ours))
			return true;
	}
	return f->kind == OWN_GRUB && str_ends(str_trim(line), str_z(mark));
}

/** Takes our lines out: as they were written, or else those that still carry our mark, which somebody changed since. */
static enum own_found strip_lines(struct arena *to, const struct applied *a, const struct own_file *f, struct str content,
				  struct str *ret)
{
	struct str text = own_text(to, a, f);
	ptrdiff_t at = find_lines(content, text);
	// The newline before it was ours, unless somebody has added lines since.
	if (f->bare && (at < 0 || (size_t)at + text.n < content.n)) {
		text = str_from(text, 1);
		at = find_lines(content, text);
	}
	if (at >= 0) {
		*ret = replaced(to, content, (size_t)at, text.n, S(""));
		return OWN_THERE;
	}
	_cleanup_text_ struct text kept = { 0 };
	enum own_found found = OWN_ABSENT;
	for (struct str rest = content; rest.n;) {
		struct str line = str_split(&rest, '\n');
		size_t whole = line.n + (line.p + line.n < content.p + content.n);
		if (line_ours(a, f, line, text))
			found = OWN_ALTERED;
		else
			text_add(&kept, (struct str){ line.p, whole });
	}
	*ret = arena_str(to, text_str(&kept));
	return found;
}

/** The first place of @text in a line that holds words, as words of their own; -1. */
static ptrdiff_t find_words(enum own_kind kind, struct str content, struct str text)
{
	for (struct str rest = content; rest.n;) {
		struct str line = str_split(&rest, '\n');
		if (!holds_words(kind, line))
			continue;
		for (size_t at = 0; text.n <= line.n && at <= line.n - text.n; at++)
			if (!memcmp(line.p + at, text.p, text.n) && (at + text.n == line.n || char_space(line.p[at + text.n])))
				return line.p + at - content.p;
	}
	return -1;
}

static enum own_found strip_words(struct arena *to, const struct own_file *f, struct str content, struct str *ret)
{
	struct str text = arena_printf(to, " " STR_FMT, STR_ARG(f->words)), words = f->words;
	ptrdiff_t at = find_words(f->kind, content, text);
	enum own_found found = OWN_ABSENT;
	*ret = content;
	if (at >= 0) {
		*ret = replaced(to, content, (size_t)at, text.n, S(""));
		return OWN_THERE;
	}
	for (struct str word; (word = str_word(&words)).n;) {
		text = arena_printf(to, " " STR_FMT, STR_ARG(word));
		at = find_words(f->kind, *ret, text);
		if (at < 0)
			continue;
		*ret = replaced(to, *ret, (size_t)at, text.n, S(""));
		found = OWN_ALTERED;
	}
	return found;
}

enum own_found own_strip(struct arena *to, const struct applied *a, const struct own_file *f, struct str content,
			 struct str *ret)
{
	if (f->kind == OWN_ENTRY_WORDS || f->kind == OWN_CMDLINE)
		return strip_words(to, f, content, ret);
	enum own_found found = strip_lines(to, a, f, content, ret);
	// What somebody wrote into a file of ours stays.
	return own_whole(f->kind) && found == OWN_THERE && ret->n ? OWN_ALTERED : found;
}

static bool has_word(enum own_kind kind, struct str content, struct str word)
{
	while (content.n) {
		struct str line = str_split(&content, '\n');
		bool holds = holds_words(kind, line);
		for (struct str have; holds && (have = str_word(&line)).n;)
			if (str_eq(have, word))
				return true;
	}
	return false;
}

struct str own_missing(struct arena *to, enum own_kind kind, struct str content, struct str words)
{
	_cleanup_text_ struct text missing = { 0 };
	for (struct str word; (word = str_word(&words)).n;)
		if (!has_word(kind, content, word))
			text_printf(&missing, "%s" STR_FMT, missing.n ? " " : "", STR_ARG(word));
	return arena_str(to, text_str(&missing));
}

bool command_line_value(struct str line, struct str name, struct str *ret)
{
	bool found = false;
	for (struct str word; (word = str_word(&line)).n;) {
		struct str value = word, key = str_split(&value, '=');
		if (!parameter_same(key, name))
			continue;
		*ret = value;
		found = true;
	}
	return found;
}
