// journalctl's forms for programs: export, JSON, and JSON with a field in each line. Any user may log a text that looks like a record of the
// kernel, so nothing inside of a record is taken for another one.
#include "base/bytes.h"
#include "evidence/log/log_reader.h"

enum {
	HEAD_LOOK = 8192,
	RECORD_MOST = 64 << 10, // none of the kernel's is as long
	LENGTH = 8,             // bytes before those of a field
};

static bool speaks_of_records(struct str head)
{
	return str_find(head, S("\"__CURSOR\"")) >= 0 || str_find(head, S("\"_TRANSPORT\"")) >= 0;
}

static struct str without_mark(struct str head) { return str_from(head, str_starts(head, S("\xef\xbb\xbf")) ? 3 : 0); }

/** An object of JSON; json-sse and json-seq put something before it. */
static struct str journal_object(struct str line)
{
	struct str object = str_trim(line), behind;
	if (str_behind(object, S("data: "), &behind) || str_behind(object, S("\x1e"), &behind))
		object = str_trim(behind);
	return str_starts(object, S("{")) ? object : (struct str){ 0 };
}

bool log_journal_look(struct log_journal *j, struct str head)
{
	head = str_cut(without_mark(head), HEAD_LOOK);
	struct str rest = head, first = str_trim(str_split(&rest, '\n'));
	if (str_starts(head, S("__CURSOR=")))
		j->form = JOURNAL_EXPORT;
	else if (!speaks_of_records(head))
		j->form = JOURNAL_NONE;
	else if (str_is(first, "{") || str_starts(first, S("[")))
		j->form = JOURNAL_PRETTY;
	else if (journal_object(first).n)
		j->form = JOURNAL_JSON;
	j->cut = j->form == JOURNAL_PRETTY && first.n > 1; // all records in one line
	return j->form > JOURNAL_JSON;
}

void log_journal_free(struct log_journal *j)
{
	arena_free(&j->arena);
	text_free(&j->object);
}

/** The line at @c, also where it is so long that @c is a piece of it. false: it is not whole in this window. */
static bool whole_line(const struct line_at *c, struct str *ret, size_t *ret_begin)
{
	const struct window *w = c->window;
	const char *before = c->begin ? memrchr(w->bytes, '\n', c->begin) : NULL,
		   *after = memchr(w->bytes + c->end, '\n', w->size - c->end);
	const size_t begin = before ? (size_t)(before - w->bytes) + 1 : 0, end = after ? (size_t)(after - w->bytes) : w->size;
	*ret_begin = begin;
	*ret = (struct str){ w->bytes + begin, end - begin };
	*ret = c->offset + begin ? *ret : without_mark(*ret);
	return (before || !c->offset) && ret->n <= RECORD_MOST;
}

static void record_end(struct log_reader *r)
{
	struct log_journal *j = &r->journal;
	if (j->text.n) {
		j->line.text = j->text;
		line_settle_writer(&j->line);
		log_wrapped(r, &j->line, j->number);
	}
	arena_free(&j->arena);
	j->line = (struct logline){ 0 };
	j->text = (struct str){ 0 };
}

static void export_line(struct log_reader *r, const struct line_at *c, struct str line, uint64_t number)
{
	struct log_journal *j = &r->journal;
	const uint64_t at = c->offset + c->begin;
	if (at < j->skip)
		return;
	if (!line.n) {
		record_end(r);
		return;
	}
	struct str value = line, key = str_split(&value, '=');
	if (key.n == line.n) {
		const size_t behind = c->end + 1, have = c->window->size > behind ? c->window->size - behind : 0;
		const uint64_t n = have < LENGTH ? UINT64_MAX : get_u64(c->window->bytes + behind);
		const bool possible = n < UINT64_MAX / 4 && str_run(key, char_word) == key.n;
		j->skip = possible ? c->offset + behind + LENGTH + n + 1 : UINT64_MAX;
		value = possible ? str_cut((struct str){ c->window->bytes + behind + LENGTH, have - LENGTH }, (size_t)n) :
				   (struct str){ 0 };
	}
	if (j->arena.total > RECORD_MOST)
		return;
	const bool text = str_is(key, "MESSAGE");
	j->number = text ? number : j->number;
	line_wrapped_field(key, arena_str(&j->arena, str_cut(value, LINE_MAX_BYTES)), &j->text, &j->line);
}

static void pretty_line(struct log_reader *r, struct str line, bool whole, uint64_t number)
{
	struct log_journal *j = &r->journal;
	const struct str part = str_trim(line);
	LINE_ROOM(unwrapped);
	if (str_is(part, "{") || str_is(part, "[{")) {
		j->object.n = 0;
		j->inside = true;
		j->number = number;
		text_add(&j->object, S("{"));
	} else if (j->inside && (str_is(part, "}") || str_is(part, "},") || str_is(part, "}]"))) {
		struct logline wrapped = { 0 };
		j->inside = false;
		if (line_unwrap(text_str(&j->object), &unwrapped, &wrapped))
			log_wrapped(r, &wrapped, j->number);
	} else if (j->inside && whole && j->object.n + part.n < RECORD_MOST) {
		text_add(&j->object, part);
	} else if (j->inside) {
		j->inside = false; // it is too long for one of the kernel's
	}
}

static bool json_line(struct log_reader *r, struct str object, uint64_t number)
{
	struct logline wrapped = { 0 };
	LINE_ROOM(unwrapped);
	// Of a long one that is cut off it is not known who wrote it.
	if (line_unwrap(object, &unwrapped, &wrapped) && (wrapped.transport.n || object.n < LINE_MAX_BYTES))
		log_wrapped(r, &wrapped, number);
	return true;
}

bool log_journal_line(struct log_reader *r, const struct line_at *c, uint64_t number)
{
	struct log_journal *j = &r->journal;
	_lifetime_ lent = { 0 };
	struct str line;
	size_t begin;
	if (!j->form)
		return false;
	const bool whole = whole_line(c, &line, &begin);
	line = lifetime_begin(&lent, line);
	if (j->form == JOURNAL_JSON) {
		const struct str object = whole ? journal_object(line) : (struct str){ 0 };
		if (object.n)
			r->consumed = c->offset + begin + line.n; // its other pieces are read
		return object.n ? json_line(r, object, number) : begin != c->begin || !whole;
	}
	if (begin == c->begin && j->form == JOURNAL_EXPORT)
		export_line(r, c, line, number);
	else if (begin == c->begin)
		pretty_line(r, line, whole, number);
	return true;
}

void log_journal_end(struct log_reader *r)
{
	struct log_journal *j = &r->journal;
	if (j->form == JOURNAL_EXPORT) {
		j->cut |= j->skip > j->upto + 1;
		record_end(r);
	} else {
		j->cut |= j->inside;
	}
}
