#include "host/settings/boot_settings.h"

#include <stdlib.h>

enum { WORDS_MOST = 4096 }; // `X="$X $X"` doubles with each line

static void add_word(struct placed_words *w, struct str text, struct str where)
{
	struct placed_word one = { text, where };
	if (w->len < WORDS_MOST)
		vec_push(w, one);
}

static void add_line(struct arena *a, struct placed_words *w, struct str line, const char *path, unsigned number)
{
	struct str word, where = arena_printf(a, "%s:%u", path, number);
	while (word_next(&line, &word))
		add_word(w, word, where);
}

// --- GRUB ---

/** What stands behind `=`, without its quotes, in which a line may go on; variables are left in it. */
static struct str take_value(struct arena *a, struct str *text, unsigned *line)
{
	struct text value = { 0 };
	char quote = 0;
	size_t i = 0;
	for (; i < text->n; i++) {
		char c = text->p[i];
		if (!quote && char_space(c))
			break;
		*line += c == '\n';
		if (c == '\\' && quote != '\'' && i + 1 < text->n) {
			c = text->p[++i];
			*line += c == '\n';
			if (c != '\n')
				text_add(&value, (struct str){ &c, 1 });
		} else if (quote ? c == quote : c == '"' || c == '\'') {
			quote = quote ? 0 : c;
		} else {
			text_add(&value, (struct str){ &c, 1 });
		}
	}
	*text = str_from(*text, i);
	struct str whole = arena_str(a, text_str(&value));
	text_free(&value);
	return whole;
}

static struct placed_words *variable(struct grub *g, struct str name)
{
	if (str_is(name, "GRUB_CMDLINE_LINUX"))
		return &g->all;
	return str_is(name, "GRUB_CMDLINE_LINUX_DEFAULT") ? &g->normal : NULL;
}

/** `$NAME` or `${NAME}` of the two. */
static const struct placed_words *meant_by(struct grub *g, struct str word)
{
	if (!str_starts(word, S("$")))
		return NULL;
	word = str_from(word, 1);
	if (str_starts(word, S("{")) && str_ends(word, S("}")))
		word = str_cut(str_from(word, 1), word.n - 2);
	return variable(g, word);
}

static void assign(struct grub *g, struct placed_words *to, struct str value, bool more, struct str where)
{
	struct placed_words words = { 0 };
	struct str word;
	if (more) {
		words = *to;
		*to = (struct placed_words){ 0 };
	}
	while (word_next(&value, &word)) {
		const struct placed_words *others = meant_by(g, word);
		for (size_t i = 0; others && i < others->len; i++)
			add_word(&words, others->data[i].text, others->data[i].where);
		if (!others)
			add_word(&words, word, where);
	}
	vec_free(to);
	*to = words;
}

/** Takes `export NAME=` or `NAME+=` of one of the two off a line. */
static struct placed_words *take_assignment(struct grub *g, struct str *text, bool *ret_more)
{
	struct str head = *text;
	while (head.n && (head.p[0] == ' ' || head.p[0] == '\t'))
		head = str_from(head, 1);
	if (str_starts(head, S("export ")))
		head = str_from(head, 7);
	size_t n = 0;
	while (n < head.n && char_word(head.p[n]))
		n++;
	struct placed_words *to = variable(g, str_cut(head, n));
	head = str_from(head, n);
	*ret_more = str_starts(head, S("+="));
	if (!to || (!*ret_more && !str_starts(head, S("="))))
		return NULL;
	*text = str_from(head, 1 + *ret_more);
	return to;
}

void grub_read(struct arena *a, struct str text, const char *path, struct grub *g)
{
	for (unsigned line = 1; text.n; line++) {
		bool more;
		struct str where = arena_printf(a, "%s:%u", path, line);
		struct placed_words *to = take_assignment(g, &text, &more);
		if (to)
			assign(g, to, take_value(a, &text, &line), more, where);
		str_split(&text, '\n');
	}
}

void grub_free(struct grub *g)
{
	vec_free(&g->all);
	vec_free(&g->normal);
}

// --- others ---

void kernel_cmdline_read(struct arena *a, struct str text, const char *path, struct placed_words *ret)
{
	for (unsigned line = 1; text.n; line++) {
		struct str one = str_split(&text, '\n');
		if (!str_starts(str_trim(one), S("#")))
			add_line(a, ret, one, path, line);
	}
}

void loader_entry_read(struct arena *a, struct str text, const char *path, struct loader_entry *ret)
{
	for (unsigned line = 1; text.n; line++) {
		struct str rest = str_split(&text, '\n'), key = str_word(&rest);
		if (str_is(key, "options"))
			add_line(a, &ret->words, rest, path, line);
		else if (str_is(key, "version"))
			ret->version = str_trim(rest);
		else if (str_is(key, "title"))
			ret->title = str_trim(rest);
	}
}
