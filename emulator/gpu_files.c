// What a scenario says of a GPU's files: what is in them, and what they do instead of answering.
#include "emulator/machine.h"

#include <errno.h>
#include <stdlib.h>

static bool path_right(struct str path)
{
	if (!path.n || path.n > 255 || path.p[0] == '/')
		return false;
	while (path.n) {
		struct str part = str_split(&path, '/');
		if (!part.n || str_is(part, "..") || str_is(part, "."))
			return false;
	}
	return true;
}

static bool read_path(struct cursor *c, struct str *ret)
{
	*ret = cursor_word(c);
	return path_right(*ret) ||
	       emu_wrong(c, "'" STR_FMT "' is no path inside of the GPU's directory", STR_ARG(str_cut(*ret, 80)));
}

/** \n, \t and \xNN are what they are in C. A text with bytes gets no newline. */
static struct str unescape(struct arena *a, struct str text)
{
	struct text out = { 0 };
	bool bytes = false;
	for (size_t i = 0; i < text.n; i++) {
		uint64_t byte;
		if (str_starts(str_from(text, i), S("\\x")) && text.n - i >= 4 && str_hex(str_cut(str_from(text, i + 2), 2), &byte)) {
			text_add(&out, (struct str){ &(char){ (char)byte }, 1 });
			bytes = true;
			i += 3;
			continue;
		}
		bool escaped = text.p[i] == '\\' && i + 1 < text.n && (text.p[i + 1] == 'n' || text.p[i + 1] == 't');
		char ch = escaped ? (text.p[++i] == 'n' ? '\n' : '\t') : text.p[i];
		text_add(&out, (struct str){ &ch, 1 });
	}
	if (!bytes)
		text_add(&out, S("\n"));
	struct str kept = arena_str(a, text_str(&out));
	text_free(&out);
	return kept;
}

/** `from SECONDS`, where seconds follow: a text may begin with the word. */
static bool take_from(struct cursor *c, double *ret)
{
	struct cursor ahead = *c;
	struct str word;
	if (!cursor_is(&ahead, "from") || !(word = cursor_peek(&ahead)).n || !char_digit(word.p[0]))
		return true;
	*c = ahead;
	return cursor_seconds(c, ret);
}

/** The file of a path, which is added where there is none. */
static struct emu_file *file_of(struct emu_gpu *g, enum emu_tree tree, struct str path)
{
	for (size_t i = 0; i < g->files[tree].len; i++)
		if (str_eq(g->files[tree].data[i].path, path))
			return &g->files[tree].data[i];
	if (g->files[tree].len == EMU_FEW)
		return NULL;
	vec_push(&g->files[tree], ((struct emu_file){ .path = path }));
	return &g->files[tree].data[g->files[tree].len - 1];
}

bool emu_file_put(struct emu_gpu *g, enum emu_tree tree, struct str path, double from, struct str text)
{
	struct emu_content *content = arena_alloc(&g->machine->arena, sizeof(*content));
	struct emu_file *f = file_of(g, tree, path);
	if (!f)
		return false;
	*content = (struct emu_content){ .from = from, .text = arena_str(&g->machine->arena, text), .older = f->content };
	f->content = content;
	return true;
}

static bool read_file_text(struct cursor *c, struct emu_gpu *g, enum emu_tree tree)
{
	struct str path;
	double from = 0;
	if (!read_path(c, &path) || !take_from(c, &from))
		return false;
	const struct str text = unescape(&g->machine->arena, cursor_text(c));
	if (!emu_file_put(g, tree, path, from, text))
		return emu_wrong(c, "more than %d files", EMU_FEW);
	return emu_text_right(c->r, text, c->line);
}
bool emu_sysfs_read(struct cursor *c, void *gpu) { return read_file_text(c, gpu, EMU_SYSFS); }
bool emu_debugfs_read(struct cursor *c, void *gpu) { return read_file_text(c, gpu, EMU_DEBUGFS); }

static bool read_errno(struct cursor *c, int *ret)
{
	static const struct {
		const char *name;
		int number;
	} errors[] = { { "EIO", EIO },
		       { "EPERM", EPERM },
		       { "EACCES", EACCES },
		       { "ENOENT", ENOENT },
		       { "ENODEV", ENODEV },
		       { "EBUSY", EBUSY },
		       { "EINVAL", EINVAL },
		       { "ENXIO", ENXIO },
		       { "EAGAIN", EAGAIN },
		       { "ENOMEM", ENOMEM },
		       { "EOPNOTSUPP", EOPNOTSUPP },
		       { "ETIME", ETIME },
		       { "ETIMEDOUT", ETIMEDOUT },
		       { "ECANCELED", ECANCELED },
		       { "EFAULT", EFAULT },
		       { "ENODATA", ENODATA } };
	struct str word = cursor_word(c);
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (str_is(word, errors[i].name)) {
			*ret = errors[i].number;
			return true;
		}
	return emu_wrong(c, "'" STR_FMT "' is no name of an error", STR_ARG(str_cut(word, 80)));
}

bool emu_file_read(struct cursor *c, void *gpu)
{
	static const struct {
		const char *word;
		enum emu_does does;
	} rows[] = { { "answers", EMU_ANSWERS }, { "fails", EMU_FAILS },   { "blocks", EMU_BLOCKS },
		     { "ones", EMU_ONES },       { "absent", EMU_ABSENT }, { "wakes", EMU_WAKES } };
	struct emu_gpu *g = gpu;
	struct emu_rule rule = { 0 };
	if (!read_path(c, &rule.path) || !take_from(c, &rule.from))
		return false;
	struct str word = cursor_word(c);
	size_t i = 0;
	while (i < ARRAY_SIZE(rows) && !str_is(word, rows[i].word))
		i++;
	if (i == ARRAY_SIZE(rows))
		return emu_wrong(c, "'" STR_FMT "' is none of answers, fails, blocks, ones, absent, wakes",
				 STR_ARG(str_cut(word, 80)));
	rule.behaviour.does = rows[i].does;
	if (rule.behaviour.does == EMU_FAILS && !read_errno(c, &rule.behaviour.error))
		return false;
	if (rule.behaviour.does == EMU_BLOCKS && cursor_more(c) && !cursor_seconds(c, &rule.behaviour.seconds))
		return false;
	vec_push(&g->rules, rule);
	return true;
}

bool emu_devcoredump_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	// The spaces at the front of a line of a dump mean something; one is the statement's.
	if (c->rest.n && char_space(c->rest.p[0]))
		c->rest = str_from(c->rest, 1);
	text_add(&g->devcoredump, c->rest);
	text_add(&g->devcoredump, S("\n"));
	cursor_text(c);
	return true;
}
