// Addresses that were asked for, looked up in all the code that was named. There may be a million of them, and gigabytes of code; so each object
// is held against all addresses while it is in memory, and is dropped at once where none lies in it.
// And lines of source files: which file a path of debug information means here, and whether it may be read.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/print.h"
#include "session/look.h"

enum { SOURCE_MOST = 16 << 20, FILES_MOST = 64, ASKED_MOST = 8 };

struct source_file {
	struct str beside, path, bytes;
};

struct source_texts {
	struct arena arena;
	const char *const *directories;
	size_t n;
	VEC(struct source_file) files;
	unsigned asked;     // how many files were asked whether they are there
	struct text unread; // the first that is there and was not read, and why
};

struct source_texts *source_texts_new(const char *const *directories, size_t n)
{
	struct source_texts *t = mem_alloc(sizeof(*t));
	t->directories = directories;
	t->n = n;
	return t;
}

void source_texts_free(struct source_texts *t, struct text *problems)
{
	text_add(problems, text_str(&t->unread));
	text_free(&t->unread);
	vec_free(&t->files);
	arena_free(&t->arena);
	free(t);
}

/** What is not shown is said once. */
static void note_source_unread(struct source_texts *t, struct str path, const char *why)
{
	if (!t->unread.n)
		text_printf(&t->unread, "source: " STR_FMT ": %s\n", STR_ARG(path), why);
}

/** With the rights of the user who called; links do not lead out of the directory. */
static bool read_below(struct source_texts *t, const char *directory, struct str path, struct str *ret)
{
	const struct named n = { .path = directory, .below = arena_z(&t->arena, path), .as_caller = true, .inside = true };
	struct uh_error *err = named_read(&n, SOURCE_MOST, &t->arena, ret, NULL);
	bool read = !err;
	if (err && (err->errnum == EACCES || err->errnum == EPERM))
		note_source_unread(t, path, strerror(err->errnum));
	door_forget(err);
	return read;
}

static bool file_is_there(const char *path)
{
	struct opened what;
	struct uh_error *err = door_look(&(struct named){ .path = path, .as_caller = true }, &what);
	const bool there = !err && S_ISREG(what.st.st_mode);
	door_forget(err);
	return there;
}

/** /build/src/k.hip below /home/me: /home/me/build/src/k.hip, /home/me/src/k.hip, /home/me/k.hip. */
static bool find_below(struct source_texts *t, const char *directory, struct str path, struct str *ret)
{
	while (path.n) {
		if (read_below(t, directory, path, ret))
			return true;
		while (path.n && path.p[0] != '/')
			path = str_from(path, 1);
		while (path.n && path.p[0] == '/')
			path = str_from(path, 1);
	}
	return false;
}

/** A user's directory has secrets in it that begin with a dot, and no source. */
static bool is_hidden(struct str path)
{
	while (path.n) {
		const struct str name = str_split(&path, '/');
		if (name.n > 1 && name.p[0] == '.' && !str_is(name, ".."))
			return true;
	}
	return false;
}

/** Where the file of the code lies; empty for code of a process's memory, and in the root directory, which is no place for it. */
static struct str directory_of_code(struct str object)
{
	size_t n = object.n;
	while (n && object.p[n - 1] != '/')
		n--;
	if (n == 1 || str_starts(object, S("memory:")))
		return S("");
	return n ? str_cut(object, n) : S(".");
}

/** Directories that were named count more than the one beside the code, which a package may have filled. */
static bool find_source_file(struct source_texts *t, struct str beside, struct str path, struct str *ret)
{
	bool found = false;
	for (size_t i = 0; i < t->n && !found; i++)
		found = find_below(t, t->directories[i], path, ret);
	if (!found && beside.n && !is_hidden(path))
		found = find_below(t, arena_z(&t->arena, beside), path, ret);
	if (!found && !t->unread.n && str_starts(path, S("/")) && t->asked++ < ASKED_MOST &&
	    file_is_there(arena_z(&t->arena, path)))
		note_source_unread(t, path, "not read: it is neither below a --source directory nor beside the code");
	return found;
}

/** A file's text; empty where it is nowhere. */
static struct str source_text_of(struct source_texts *t, struct str beside, struct str path)
{
	for (size_t i = 0; i < t->files.len; i++)
		if (str_eq(t->files.data[i].path, path) && str_eq(t->files.data[i].beside, beside))
			return t->files.data[i].bytes;
	struct source_file f = { arena_str(&t->arena, beside), arena_str(&t->arena, path), { 0 } };
	if (t->files.len == FILES_MOST)
		return f.bytes;
	if (!find_source_file(t, beside, path, &f.bytes))
		f.bytes = (struct str){ 0 };
	vec_push(&t->files, f);
	return f.bytes;
}

struct str source_line(struct source_texts *t, struct str object, struct str path, unsigned line)
{
	struct str text = path.n && line ? source_text_of(t, directory_of_code(object), path) : (struct str){ 0 };
	for (unsigned i = 1; i < line && text.n; i++)
		str_split(&text, '\n');
	return str_trim(str_cut(str_split(&text, '\n'), 400));
}

// --- addresses ---

struct asked {
	const char *text;
	struct str name;      // of a function; empty: @value is the address
	uint64_t value;       // address, or offset in the function
	uint64_t size;        // of a function with the name that is too short
	uint32_t first, last; // numbers of its hits, from 1 on; 0: not found
};

struct hit {
	struct loaded *in;
	const struct code_symbol *function; // NULL: between functions
	uint64_t pc;
	uint32_t asked, next; // next: of the same address, 0 for none
};

struct hunt {
	struct code_set set;
	struct asked *asked;
	size_t n;
	struct str gfx; // of the GPU; empty: any
	bool based;
	uint64_t loaded_at;
	VEC(struct hit) matches;
	size_t objects;
};

static void hunt_free(struct hunt *h)
{
	vec_free(&h->matches);
	cleanup_free(&h->asked);
	code_set_free(&h->set);
}

/** An address, or a function with an offset as disassemblers write it. */
static bool parse_asked(const char *text, struct asked *ret)
{
	struct str s = str_trim(str_z(text));
	*ret = (struct asked){ .text = text };
	// A kernel may be named add; no name begins with a digit.
	if (s.n && char_digit(s.p[0]))
		return str_hex(s, &ret->value);
	ptrdiff_t plus = -1;
	for (size_t i = s.n; i-- && plus < 0;)
		plus = s.p[i] == '+' ? (ptrdiff_t)i : -1;
	struct str offset = plus < 0 ? (struct str){ 0 } : str_trim(str_from(s, (size_t)plus + 1));
	int64_t n = 0;
	if (plus >= 0 && str_number(offset, &n) && n >= 0) {
		ret->name = str_trim(str_cut(s, (size_t)plus));
		ret->value = (uint64_t)n;
	} else {
		ret->name = s;
	}
	return ret->name.n;
}

/** Without arguments and result: saxpy for saxpy(float const*, float*), fill<int> for void fill<int>(int*). */
static bool short_for(struct str name, struct str plain)
{
	ptrdiff_t at = str_find(plain, name);
	return at >= 0 && (!at || plain.p[at - 1] == ' ') && plain.n > (size_t)at + name.n &&
	       plain.p[(size_t)at + name.n] == '(';
}

/** The function of this name, mangled or as people write it. */
static const struct code_symbol *find_symbol(struct hunt *h, const struct code_object *o, struct str name)
{
	for (size_t i = 0; i < o->nsymbols; i++)
		if (str_eq(o->symbols[i].name, name))
			return &o->symbols[i];
	for (size_t i = 0; i < o->nsymbols; i++) {
		struct str plain = code_set_name(&h->set, o->symbols[i].name);
		if (str_eq(plain, name) || short_for(name, plain))
			return &o->symbols[i];
	}
	return NULL;
}

/** Without a base an address is one within the object, as a linker gives it. */
static bool match_address(struct hunt *h, struct loaded *l, struct asked *a, struct hit *ret)
{
	ret->pc = a->value;
	if (a->name.n) {
		const struct code_symbol *s = find_symbol(h, l->object, a->name);
		if (!s || a->value >= s->size) {
			a->size = s ? s->size : a->size;
			return false;
		}
		ret->pc += l->base + s->address;
	} else if (a->value < l->base) {
		return false;
	}
	ret->function = code_object_symbol(l->object, ret->pc - l->base); // of a name, too: one may lie in the other
	return a->name.n || ret->function;
}

/** Hits of one address are chained, so that they can be told in the order in which the addresses were asked for. */
static void add_hit(struct hunt *h, const struct hit *m)
{
	struct asked *a = &h->asked[m->asked];
	vec_push(&h->matches, *m);
	if (a->first)
		h->matches.data[a->last - 1].next = (uint32_t)h->matches.len;
	else
		a->first = (uint32_t)h->matches.len;
	a->last = (uint32_t)h->matches.len;
}

/** An object for the GPU that is asked for, or NULL. */
static struct loaded *take_wanted(struct hunt *h, struct str name, char *bytes, size_t size)
{
	struct loaded *l = code_set_take(&h->set, name, bytes, size, 0);
	struct str wanted = h->gfx;
	if (!l || !wanted.n || str_eq(l->object->gfx, str_split(&wanted, ':')))
		return l;
	code_set_drop(&h->set, l);
	return NULL;
}

/** Called for each object of a file; true: it was for the GPU that was asked for. */
static bool take_object(void *ctx, struct str name, char *bytes, size_t size)
{
	struct hunt *h = ctx;
	struct loaded *l = take_wanted(h, name, bytes, size);
	if (!l)
		return false;
	h->objects++;
	l->base = h->based ? h->loaded_at - code_object_page(l->object) : 0;
	size_t before = h->matches.len;
	for (size_t i = 0; i < h->n; i++) {
		struct hit m = { .in = l, .asked = (uint32_t)i };
		if (match_address(h, l, &h->asked[i], &m))
			add_hit(h, &m);
	}
	// An address between functions still lies in an object; one object is kept for that case.
	if (h->matches.len == before && h->objects > 1)
		code_set_drop(&h->set, l);
	return true;
}

/** Matches of one object, from @begin on: their addresses. */
static size_t same_object(const struct hunt *h, size_t begin, uint64_t *ret_pcs)
{
	size_t end = begin;
	for (; end < h->matches.len && h->matches.data[end].in == h->matches.data[begin].in; end++)
		ret_pcs[end - begin] = h->matches.data[end].pc;
	return end - begin;
}

static int by_asked(const void *a, const void *b)
{
	const struct found_address *x = a, *y = b;
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return x->where < y->where ? -1 : x->where > y->where;
}

/** It is told in its place among the others, and why: the function may be shorter than the offset. */
static struct found_address not_found(const struct hunt *h, size_t i, struct where *where)
{
	const struct asked *a = &h->asked[i];
	*where = (struct where){ .pc = a->name.n ? 0 : a->value };
	return (struct found_address){ a->text, where, i, a->name.n, a->size, NULL };
}

/** All at once, since source lines and instructions of one object come from one child. */
static void report_found(struct hunt *h, const struct know *k, const struct uh_look_options *o, FILE *out)
{
	size_t n = h->matches.len, shown = 0;
	_cleanup_free_ struct where *where = mem_alloc((n + h->n) * sizeof(*where) + 1);
	_cleanup_free_ struct found_address *found = mem_alloc((n + h->n) * sizeof(*found) + 1);
	_cleanup_free_ uint64_t *pcs = mem_alloc(n * sizeof(*pcs) + 1);
	for (size_t begin = 0, count; begin < n; begin += count) { // those of each object at once
		count = same_object(h, begin, pcs);
		code_where_in(&h->set, h->matches.data[begin].in, pcs, count, o->context, where + begin);
	}
	for (; shown < n; shown++)
		found[shown] = (struct found_address){
			h->asked[h->matches.data[shown].asked].text, &where[shown], h->matches.data[shown].asked, false, 0, NULL
		};
	for (size_t i = 0; i < h->n; i++)
		if (!h->asked[i].first) {
			found[shown] = not_found(h, i, &where[shown]);
			shown++;
		}
	qsort(found, shown, sizeof(*found), by_asked);
	struct source_texts *texts = source_texts_new(o->sources, o->nsources);
	_cleanup_arena_ struct arena a = { 0 };
	for (size_t i = 0; i < shown && o->context >= 0; i++) {
		const struct where *w = found[i].where;
		struct str *lines = arena_alloc(&a, w->nframes * sizeof(*lines) + 1); // of source, of each frame
		for (size_t f = 0; f < w->nframes; f++)
			lines[f] = source_line(texts, w->in->name, w->frames[f].file, w->frames[f].line);
		found[i].texts = lines;
	}
	report_where(k, found, shown, o, out);
	source_texts_free(texts, &h->set.problems);
}

static void print_found(const struct found_address *f, struct text *line, FILE *out)
{
	text_clear(line);
	report_where_line(f, line);
	print_safe(out, text_str(line));
	putc_unlocked('\n', out);
}

/** One line for each of very many: made and written while it is in the processor's cache. */
static void report_lines(struct hunt *h, FILE *out)
{
	_cleanup_text_ struct text line = { 0 };
	size_t n = h->matches.len;
	_cleanup_free_ uint64_t *pcs = mem_alloc(n * sizeof(*pcs) + 1);
	for (size_t begin = 0, count; begin < n; begin += count) {
		count = same_object(h, begin, pcs);
		code_where_expect(&h->set, h->matches.data[begin].in, pcs, count);
	}
	for (size_t i = 0; i < h->n; i++) {
		for (uint32_t at = h->asked[i].first; at; at = h->matches.data[at - 1].next) {
			const struct hit *m = &h->matches.data[at - 1];
			const struct where w = code_where_one(&h->set, m->in, m->pc, m->function);
			print_found(&(struct found_address){ .asked = h->asked[i].text, .where = &w }, &line, out);
		}
		if (!h->asked[i].first) {
			struct where w;
			const struct found_address f = not_found(h, i, &w);
			print_found(&f, &line, out);
		}
	}
}

static struct uh_error *parse_addresses(const char *const *addresses, size_t n, struct hunt *h)
{
	h->asked = mem_alloc(n * sizeof(*h->asked) + 1);
	h->n = n;
	h->matches.data = mem_alloc(n * sizeof(*h->matches.data) + 1);
	h->matches.cap = n;
	for (size_t i = 0; i < n; i++)
		if (!parse_asked(addresses[i], &h->asked[i]))
			return uh_error_new("'%s' is neither an address (0x1a34) nor a function with an offset (saxpy+0x34)",
					    addresses[i]);
	return NULL;
}

/** Why there is nothing to look into. */
static struct uh_error *no_code(struct hunt *h, const struct uh_look_options *o, const struct teller *t, struct str problems)
{
	look_tell(t, problems);
	look_tell(t, text_str(&h->set.problems));
	if (problems.n || h->set.problems.n)
		return uh_error_new("no code could be read");
	return uh_error_new("%s%s: no AMD GPU code in it%s%s", o->code[0], o->ncode > 1 ? " and others" : "",
			    o->gfx ? " for " : "", o->gfx ? o->gfx : "");
}

/** For a list of the kernels all objects are needed. */
static bool keep_object(void *ctx, struct str name, char *bytes, size_t size)
{
	struct hunt *h = ctx;
	struct loaded *l = take_wanted(h, name, bytes, size);
	h->objects += l != NULL;
	return l;
}

/** The code of what was named. The error is that there is none. */
static struct uh_error *read_code_named(struct hunt *h, const struct uh_look_options *o,
					bool (*take)(void *ctx, struct str name, char *bytes, size_t size),
					const struct teller *t)
{
	_cleanup_text_ struct text problems = { 0 };
	const struct code_places places = { .n = o->ncode, .paths = o->code, .gfx = h->gfx };
	const struct code_taker taker = { take, h };
	code_places_all(&places, &taker, &problems);
	if (!h->objects)
		return no_code(h, o, t, text_str(&problems));
	look_tell(t, text_str(&problems));
	return NULL;
}

struct uh_error *uh_look_code(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	const struct teller teller = { problem, ctx };
	_cleanup_(hunt_free) struct hunt h = { .gfx = str_z(o->gfx) };
	struct uh_error *err = read_code_named(&h, o, keep_object, &teller);
	if (err)
		return err;
	look_tell(&teller, text_str(&h.set.problems));
	report_kernels(&h.set, o->json, out);
	return NULL;
}

struct uh_error *uh_look_where(const struct uh_look_options *o, const char *const *addresses, size_t n, FILE *out,
			       uh_problem_fn *problem, void *ctx, unsigned *ret_missed)
{
	struct teller teller = { problem, ctx };
	const bool lines = o->context < 0 && !o->json;
	_cleanup_(hunt_free) struct hunt h = { .set.functions_only = lines, .gfx = str_z(o->gfx), .based = o->loaded_at };
	*ret_missed = 0;
	struct uh_error *err = parse_addresses(addresses, n, &h);
	struct str at = str_z(o->loaded_at);
	// As the debug agent prints it: [0x7f00-0x8f00]
	if (str_starts(at, S("[")))
		at = str_from(at, 1);
	at = str_split(&at, '-');
	at = str_starts(at, S("0x")) ? str_from(at, 2) : at;
	if (!err && h.based && !(at.n && str_hex(at, &h.loaded_at)))
		err = uh_error_new("--loaded-at needs an address such as 0x7f3a00000000, not '%s'", o->loaded_at);
	if (!err)
		err = read_code_named(&h, o, take_object, &teller);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++) { // what lies in no function still has its place
		struct loaded *l = h.asked[i].first || h.asked[i].name.n ? NULL : code_set_find(&h.set, h.asked[i].value);
		if (l)
			add_hit(&h, &(struct hit){ .in = l, .pc = h.asked[i].value, .asked = (uint32_t)i });
	}
	_cleanup_know_ struct know *k = o->context < 0 ? NULL : look_knowledge(teller); // it is of instructions
	if (lines)
		report_lines(&h, out);
	else
		report_found(&h, k, o, out);
	look_tell(&teller, text_str(&h.set.problems));
	for (size_t i = 0; i < n; i++)
		*ret_missed += !h.asked[i].first;
	return NULL;
}
