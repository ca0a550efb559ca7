#include "host/settings/modprobe.h"

#include <stdlib.h>

#include "host/words.h"

const char *const modprobe_directories[MODPROBE_DIRECTORIES] = {
	"/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d",
};

/** A line with those that a backslash joins to it. */
static struct str take_line(struct arena *a, struct str *text, unsigned *line)
{
	struct str raw = str_split(text, '\n');
	++*line;
	if (!raw.n || !memchr(raw.p, '\\', raw.n))
		return raw;
	struct text joined = { 0 };
	for (;;) {
		bool open = false;
		for (size_t i = 0; i < raw.n; i++) {
			open = raw.p[i] == '\\' && i + 1 == raw.n;
			i += raw.p[i] == '\\' && !open;
			if (!open)
				text_add(&joined, str_cut(str_from(raw, i), 1));
		}
		if (!open || !text->n)
			break;
		raw = str_split(text, '\n');
		++*line;
	}
	struct str whole = arena_str(a, text_str(&joined));
	text_free(&joined);
	return whole;
}

bool modprobe_next(struct arena *a, struct str *text, unsigned *line, struct modprobe_line *ret)
{
	static const char *const kinds[] = { "options", "blacklist", "install" };
	while (text->n) {
		unsigned begins = *line + 1;
		struct str rest = take_line(a, text, line), word = str_word(&rest);
		struct str module = str_word(&rest);
		size_t k = 0;
		while (k < sizeof(kinds) / sizeof(kinds[0]) && !str_is(word, kinds[k]))
			k++;
		*ret = (struct modprobe_line){ (enum modprobe_kind)k, word, word_plain(a, module), rest, begins };
		if (module.n && word.p[0] != '#')
			return true;
	}
	return false;
}

static int by_name(const void *a, const void *b)
{
	return str_cmp(((const struct modprobe_file *)a)->name, ((const struct modprobe_file *)b)->name);
}

static bool hidden(const struct modprobe_file *files, size_t n, struct str name)
{
	while (n && !str_eq(files[n - 1].name, name))
		n--;
	return n;
}

size_t modprobe_order(struct modprobe_file *files, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (str_ends(files[i].name, S(".conf")) && !hidden(files, kept, files[i].name))
			files[kept++] = files[i];
	if (kept)
		qsort(files, kept, sizeof(files[0]), by_name);
	return kept;
}
