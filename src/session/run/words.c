#include "session/run/words.h"

#include "base/print.h"
#include "evidence/log/line.h"

enum { LINES = 400, SAID_MOST = 300 };

struct str words_tail(struct str output, unsigned lines)
{
	size_t at = output.n;
	if (at && output.p[at - 1] == '\n')
		at--;
	for (; at; at--)
		if (output.p[at - 1] == '\n' && !--lines)
			break;
	return str_from(output, at);
}

static bool fits(const struct know_list *patterns, struct str line)
{
	for (; patterns; patterns = patterns->next)
		if (str_glob(patterns->text, line))
			return true;
	return false;
}

/** Of a block of lines that begin alike, such as `[rank3]: `, the first that is not indented; empty: it is cut. */
static struct str behind(struct str front, struct str rest)
{
	while (rest.n) {
		struct str line = str_split(&rest, '\n'), own = str_from(line, front.n);
		if (str_starts(line, front) && own.n && !char_space(own.p[0]))
			return line;
	}
	return (struct str){ 0 };
}

/** Where the message of a line begins, behind times and whoever wrote it. */
static struct str front_of(const struct know *k, struct str line, struct logline *parsed)
{
	*parsed = (struct logline){ 0 };
	line_parse_front(k, line, parsed);
	return str_cut(line, (size_t)(parsed->message.p - line.p));
}

static struct str find(const struct know *k, const struct know_last_words *w, struct str text)
{
	struct logline parsed;
	while (text.n) {
		struct str line = str_split(&text, '\n');
		if (!fits(w->match, line))
			continue;
		struct str said = w->behind ? behind(front_of(k, line, &parsed), text) : line;
		if (said.n && !fits(w->unless, said))
			return said;
	}
	return (struct str){ 0 };
}

struct last_words words_find(const struct know *k, struct str output, struct arena *a)
{
	const struct str text = words_tail(output, LINES);
	struct last_words found = { .rank = -1 };
	struct logline parsed;
	for (size_t i = 0; i < k->last_words.len && !found.line.n; i++) {
		found.line = find(k, k->last_words.data[i], text);
		found.killed = k->last_words.data[i]->killed;
	}
	if (!found.line.n)
		return found;
	front_of(k, found.line, &parsed);
	if (!str_number(parsed.writer.rank, &found.rank))
		found.rank = -1;
	struct text safe = { 0 };
	text_add_safe(&safe, str_cut(str_trim(parsed.message), SAID_MOST));
	found.line = arena_str(a, text_str(&safe));
	text_free(&safe);
	return found;
}
