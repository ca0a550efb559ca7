// Lines that a terminal, a forum or a person has broken: a message that goes on over the following lines.
#include <stdlib.h>

#include "evidence/log/parts.h"

/** Whether @line is nothing but the driver's prefix: `amdgpu 0000:04:00.0:`, with the message on the next line. */
static bool only_prefix(const struct logline *line)
{
	struct str rest = line->message, whole = str_trim(rest);
	// `[drm:amdgpu_job_timedout` with the rest of its bracket on the next line
	if (str_starts(whole, S("[drm:")) && str_find(whole, S("]")) < 0)
		return true;
	while (rest.n) {
		struct str word = str_word(&rest);
		while (word.n && word.p[word.n - 1] == ':')
			word.n--;
		if (word.n && !str_eq(word, line->driver) && !str_eq(word, line->device) && !str_is(word, "amdgpu"))
			return false;
	}
	return line->device.n;
}

void log_joined_end(struct log_joined *j)
{
	lifetime_end(&j->lent);
	free(j->room);
}

/** The line that @head and @tail make with a space between them, or without. */
static bool match_glued(struct log_reader *r, const struct logline *head, struct str tail, bool space, struct log_joined *out)
{
	size_t at = head->text.n;
	if (at + 1 + tail.n >= JOINED_BYTES)
		return false;
	memcpy(out->room, head->text.p, at);
	out->room[at] = ' ';
	memcpy(out->room + at + space, tail.p, tail.n);
	struct str whole = lifetime_begin(&out->lent, (struct str){ out->room, at + space + tail.n });
	out->space = space;
	out->line = (struct logline){ .stamps = head->stamps, .boot_id = head->boot_id };
	line_parse(r->know, whole, &out->line);
	size_t skipped = (size_t)(out->line.message.p - whole.p);
	const struct match *m = &out->match;
	if (skipped > at || !line_recognise(r->know, &out->line, &out->match))
		return false;
	// Only a match that needs both parts is a reason to join them.
	size_t border = at - skipped;
	return m->end > border && (m->begin < border || only_prefix(head));
}

/** Terminals break a line anywhere, at one and the same width; people and forums break it at a space. */
static bool match_joined(struct log_reader *r, const struct line_at *c, const struct logline *head, struct str tail,
			 bool indented, struct log_joined *out)
{
	bool hard = r->wrap_width && c->end - c->begin == r->wrap_width && !indented;
	return match_glued(r, head, tail, !hard, out) || (!indented && match_glued(r, head, tail, hard, out));
}

bool log_continuation(struct log_reader *r, const struct line_at *c, const struct logline *line, struct log_joined *out,
		      size_t *ret_end)
{
	LINE_ROOM(clean);
	LINE_ROOM(tails);
	char *tail_room = tails.bytes;
	size_t tail_n = 0, at = c->end + 1, width = c->end - c->begin;
	struct str best = { 0 }; // of the tails
	bool best_space = false;
	size_t best_weight = 0;
	for (int i = 0; i < JOIN_LINES && at < c->window->size; i++) {
		size_t next;
		struct str raw = log_raw_line(c->window, at, &next);
		// A line that begins like this one has a time like this one: no need to read it.
		if (raw.n >= 4 && c->end - c->begin >= 4 && !memcmp(raw.p, c->window->bytes + c->begin, 4))
			break;
		struct str text = line_clean(raw, &clean), unquoted = quoting_skip(text);
		if (!unquoted.n || stamps_read(r->know, text).found || tail_n + unquoted.n + 1 >= LINE_MAX_BYTES)
			break;
		if (i && width != r->wrap_width)
			tail_room[tail_n++] = ' ';
		memcpy(tail_room + tail_n, unquoted.p, unquoted.n);
		tail_n += unquoted.n;
		width = raw.n;
		bool indented = text.n && text.p[0] == ' ';
		if (match_joined(r, c, line, (struct str){ tail_room, tail_n }, indented, out) &&
		    (!best.n || out->match.weight > best_weight)) {
			best = (struct str){ tail_room, tail_n };
			best_space = out->space;
			best_weight = out->match.weight;
			*ret_end = next;
		}
		at = next;
	}
	// Another may have been tried behind the best one.
	return best.n && match_glued(r, line, best, best_space, out);
}
