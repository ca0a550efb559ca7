// What changed, as one list: transactions are added by readers, written into a bundle and taken from it again. The form is lines of
// fields with a tab between them, so that people can read it in a bundle too. It is also what the child that reads sends.
#include "host/changes/changes.h"

#include <stdlib.h>
#include <time.h>

#include "host/changes/readers.h"
#include "source/tape/tape.h"

enum {
	TRANSACTIONS_MOST = 4096,
	CHANGES_MOST = 4096,
	BOOTS_MOST = 512,
	UNREAD_MOST = 32,
	UNREAD_LENGTH = 512,
	TEXT_MOST = 8 << 20,
	DAYS = 183
};
#define CHANGES_HEAD "unhang/changes/1"

void changes_free(struct changes *c)
{
	for (size_t i = 0; i < c->transactions.len; i++)
		vec_free(&c->transactions.data[i].changes);
	vec_free(&c->transactions);
	vec_free(&c->boots);
	vec_free(&c->unread);
	arena_free(&c->arena);
}

// --- for readers ---

/** Names and versions are one word of the log, and stay one: what a log is made to say must not look like more than it is. */
static struct str change_word(struct arena *a, struct str s)
{
	char *copy = arena_z(a, str_cut(s, CHANGE_WORD_MOST));
	const size_t n = s.n < CHANGE_WORD_MOST ? s.n : CHANGE_WORD_MOST;
	for (size_t i = 0; i < n; i++)
		copy[i] = copy[i] > ' ' && copy[i] < 127 ? copy[i] : '?';
	return (struct str){ copy, n };
}

/** A log of packages has names of packages. Paths are of settings and images, which others tell of: in a log one would be a file or an address
 * that the way back then installs. */
static bool is_of_manager(struct str manager, struct str name)
{
	if (!str_among(manager, STR_EQUALS, "apt|dpkg|pacman|dnf|dnf5|zypper|pip|dkms|snap").n)
		return true;
	for (size_t n = 0; n < name.n; n++)
		if (!char_word(name.p[n]) && (!n || !char_among(name.p[n], "+.-")))
			return false;
	return true;
}

void transaction_add(struct changes *c, const struct know *k, struct transaction *t, struct change change)
{
	change.kind = is_of_manager(t->manager, change.package) ? know_package(k, change.package) : NULL;
	if (!change.kind || t->changes.len >= CHANGES_MOST) {
		t->others++;
		return;
	}
	const struct change kept = { change_word(&c->arena, change.package), change_word(&c->arena, change.from),
				     change_word(&c->arena, change.to), change.kind };
	vec_push(&t->changes, kept);
}

void transaction_end(struct changes *c, struct transaction *t)
{
	struct transaction kept = *t;
	*t = (struct transaction){ .manager = t->manager };
	if (kept.when > 0 && (!c->since || kept.when < c->since) && !kept.last)
		c->since = kept.when;
	if (!kept.changes.len || kept.when <= 0 || c->transactions.len >= TRANSACTIONS_MOST) {
		vec_free(&kept.changes);
		return;
	}
	kept.begin = kept.begin > 0 && kept.begin < kept.when ? kept.begin : kept.when;
	kept.manager = change_word(&c->arena, kept.manager);
	kept.id = change_word(&c->arena, kept.id);
	vec_push(&c->transactions, kept);
}

void changes_unread(struct changes *c, struct str what, const char *why)
{
	enum { WHAT_MOST = 300 };
	if (c->unread.len < UNREAD_MOST)
		vec_push(&c->unread, arena_printf(&c->arena, STR_FMT ": %s", STR_ARG(str_cut(what, WHAT_MOST)), why));
}

struct str change_place(struct changes *c, const struct change_log *log, unsigned line)
{
	return line ? arena_printf(&c->arena, STR_FMT ":%u", STR_ARG(log->path), line) : arena_str(&c->arena, log->path);
}

struct str change_before(const struct changes *c, struct str manager, struct str package)
{
	for (size_t i = c->transactions.len; i-- > 0;) {
		const struct transaction *t = &c->transactions.data[i];
		const struct change *had = str_eq(t->manager, manager) ? list_find(t->changes.data, t->changes.len, it,
										   str_eq(it->package, package)) :
									 NULL;
		if (had)
			return had->to;
	}
	return (struct str){ 0 };
}

// --- order ---

static int by_time(const void *a, const void *b)
{
	const struct transaction *x = a, *y = b;
	return x->when != y->when ? (x->when < y->when ? -1 : 1) : str_cmp(x->where, y->where);
}

static int by_begin(const void *a, const void *b)
{
	const struct boot *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void changes_order(struct changes *c)
{
	enum { DAY_S = 86400 };
	const double latest = (double)time(NULL) + DAY_S; // what is later is a clock's mistake, or a lie
	size_t kept = 0;
	for (size_t i = 0; i < c->transactions.len; i++)
		if (c->transactions.data[i].when <= latest)
			c->transactions.data[kept++] = c->transactions.data[i];
		else
			vec_free(&c->transactions.data[i].changes);
	c->transactions.len = kept;
	if (c->transactions.len)
		qsort(c->transactions.data, c->transactions.len, sizeof(*c->transactions.data), by_time);
	if (c->boots.len)
		qsort(c->boots.data, c->boots.len, sizeof(*c->boots.data), by_begin);
}

void changes_keep_since(struct changes *c, double oldest)
{
	size_t kept = 0;
	for (size_t i = 0; i < c->transactions.len; i++) {
		if (c->transactions.data[i].when >= oldest)
			c->transactions.data[kept++] = c->transactions.data[i];
		else
			vec_free(&c->transactions.data[i].changes);
	}
	c->transactions.len = kept;
	kept = 0;
	for (size_t i = 0; i < c->boots.len; i++)
		if (c->boots.data[i].end >= oldest)
			c->boots.data[kept++] = c->boots.data[i];
	c->boots.len = kept;
	c->since = c->since && c->since < oldest ? oldest : c->since;
}

void changes_join(struct changes *c)
{
	enum { NEAR_S = 300 };
	size_t kept = 0;
	for (size_t i = 0; i < c->transactions.len; i++) {
		struct transaction *t = &c->transactions.data[i], *before = NULL;
		for (size_t n = kept; n-- > 0 && !before && t->begin - c->transactions.data[n].when <= NEAR_S;)
			if (str_eq(c->transactions.data[n].manager, t->manager) && c->transactions.data[n].own == t->own)
				before = &c->transactions.data[n];
		if (!before || !str_among(t->manager, STR_EQUALS, "pip|file|dkms|steam|flatpak|snap").n) {
			c->transactions.data[kept++] = *t;
			continue;
		}
		for (size_t n = 0; n < t->changes.len && before->changes.len < CHANGES_MOST; n++)
			vec_push(&before->changes, t->changes.data[n]);
		before->when = t->when;
		vec_free(&t->changes);
	}
	c->transactions.len = kept;
	changes_order(c);
}

// --- as text ---

/** One field more. What would end it becomes a space. */
static void changes_put(struct text *to, struct str field)
{
	text_add(to, S("\t"));
	for (size_t i = 0; i < field.n; i++)
		text_add(to, (unsigned char)field.p[i] < ' ' ? S(" ") : (struct str){ field.p + i, 1 });
}

static void changes_put_time(struct text *to, double time) { text_printf(to, "\t%.0f", time); }

void changes_write(const struct changes *c, struct text *to)
{
	text_add(to, S(CHANGES_HEAD "\n"));
	text_printf(to, "since\t%.0f\t%s\n", c->since, c->boots_cut ? "cut" : "");
	for (size_t i = 0; i < c->boots.len; i++) {
		const struct boot *b = &c->boots.data[i];
		text_add(to, S("boot"));
		changes_put(to, b->id);
		changes_put_time(to, b->begin);
		changes_put_time(to, b->end);
		text_printf(to, "\t%s%s%s", b->log ? "l" : "", b->clean ? "c" : "", b->runs ? "r" : "");
		const struct str rest[] = { b->kernel, b->bios, b->vbios, b->firmware, b->command_line };
		for (size_t n = 0; n < ARRAY_SIZE(rest); n++)
			changes_put(to, rest[n]);
		text_add(to, S("\n"));
	}
	for (size_t i = 0; i < c->transactions.len; i++) {
		const struct transaction *t = &c->transactions.data[i];
		text_add(to, S("transaction"));
		changes_put_time(to, t->begin);
		changes_put_time(to, t->when);
		text_printf(to, "\t%s%s%s\t%zu", t->local ? "z" : "", t->last ? "f" : "", t->own ? "u" : "", t->others);
		changes_put(to, t->manager);
		changes_put(to, t->id);
		changes_put(to, t->where);
		text_add(to, S("\n"));
		for (size_t n = 0; n < t->changes.len; n++) {
			const struct change *one = &t->changes.data[n];
			text_add(to, S("change"));
			changes_put(to, one->package);
			changes_put(to, one->from);
			changes_put(to, one->to);
			text_add(to, S("\n"));
		}
	}
	for (size_t i = 0; i < c->unread.len; i++) {
		text_add(to, S("unread"));
		changes_put(to, c->unread.data[i]);
		text_add(to, S("\n"));
	}
}

/** A time is a whole number of seconds that a calendar has. */
static bool changes_take_time(struct str *line, double *ret)
{
	int64_t number;
	if (!str_number(str_split(line, '\t'), &number) || number < 0 || number > INT64_C(1) << 40)
		return false;
	*ret = (double)number;
	return true;
}

static bool has_flag(struct str flags, char flag) { return flags.n && memchr(flags.p, flag, flags.n); }

static bool parse_boot(struct changes *c, struct str line)
{
	struct boot b = { .id = arena_str(&c->arena, str_split(&line, '\t')) };
	if (!changes_take_time(&line, &b.begin) || !changes_take_time(&line, &b.end))
		return false;
	const struct str flags = str_split(&line, '\t');
	b.log = has_flag(flags, 'l');
	b.clean = has_flag(flags, 'c');
	b.runs = has_flag(flags, 'r');
	struct str *const rest[] = { &b.kernel, &b.bios, &b.vbios, &b.firmware, &b.command_line };
	for (size_t n = 0; n < ARRAY_SIZE(rest); n++)
		*rest[n] = arena_str(&c->arena, str_split(&line, '\t'));
	if (c->boots.len < BOOTS_MOST)
		vec_push(&c->boots, b);
	return true;
}

static bool parse_transaction(struct changes *c, struct str line, struct transaction *ret)
{
	int64_t others;
	if (!changes_take_time(&line, &ret->begin) || !changes_take_time(&line, &ret->when))
		return false;
	const struct str flags = str_split(&line, '\t');
	if (!str_number(str_split(&line, '\t'), &others) || others < 0)
		return false;
	ret->local = has_flag(flags, 'z');
	ret->last = has_flag(flags, 'f');
	ret->own = has_flag(flags, 'u');
	ret->others = (size_t)others;
	ret->manager = str_split(&line, '\t');
	ret->id = str_split(&line, '\t');
	ret->where = arena_str(&c->arena, str_split(&line, '\t'));
	return true;
}

static bool parse_line(struct changes *c, const struct know *k, struct str line, struct transaction *open)
{
	const struct str what = str_split(&line, '\t');
	if (str_is(what, "change")) {
		struct change one = { .package = str_split(&line, '\t') };
		one.from = str_split(&line, '\t');
		one.to = str_split(&line, '\t');
		transaction_add(c, k, open, one);
		return open->when > 0;
	}
	transaction_end(c, open);
	if (str_is(what, "transaction"))
		return parse_transaction(c, line, open);
	if (str_is(what, "boot"))
		return parse_boot(c, line);
	if (str_is(what, "unread") && c->unread.len < UNREAD_MOST)
		vec_push(&c->unread, arena_str(&c->arena, str_cut(line, UNREAD_LENGTH)));
	return true; // or a later unhang wrote it
}

bool changes_parse(struct changes *c, const struct know *k, struct str text)
{
	struct transaction open = { 0 };
	double since = 0, one = 0;
	text = str_cut(text, TEXT_MOST);
	bool good = str_starts(text, S(CHANGES_HEAD "\n"));
	while (good && text.n) {
		// A line without an end was cut, and may say what it did not mean.
		if (!memchr(text.p, '\n', text.n)) {
			good = false;
			break;
		}
		struct str line = str_split(&text, '\n'), rest = line;
		if (!str_is(str_split(&rest, '\t'), "since")) {
			good = parse_line(c, k, line, &open);
			continue;
		}
		good = changes_take_time(&rest, &one);
		since = one && (!since || one < since) ? one : since;
		c->boots_cut |= str_is(rest, "cut");
	}
	if (good)
		transaction_end(c, &open);
	vec_free(&open.changes);
	c->since = since; // it is told for what concerns no GPU, too
	return good;
}

// --- reading ---

void changes_read(const struct know *k, struct machine_at at, double when, struct changes *ret)
{
	const double oldest = when > 0 ? when - DAYS * 86400.0 : 0;
	*ret = (struct changes){ 0 };
	if (tape_plays(at.tape)) {
		const struct str said = tape_said(at.tape, &ret->arena, "changes", (struct str){ 0 });
		if (!changes_parse(ret, k, said) && said.n) // older bundles have none
			changes_unread(ret, S("answers/changes"), "this part of the bundle is damaged");
	} else {
		changes_collect(ret, k, at.root, oldest);
		changes_boots(ret, k, at.root);
	}
	changes_order(ret);
	changes_join(ret);
	changes_keep_since(ret, oldest);
	if (tape_records(at.tape)) {
		_cleanup_text_ struct text text = { 0 };
		changes_write(ret, &text);
		tape_said(at.tape, &ret->arena, "changes", text_str(&text));
	}
}
