// Where the code objects of a program may lie: in what the user named, at the path that the runtime noted, in the directory of the
// evidence. Whoever asks says whether an object fits, since files are rebuilt after a crash.
#include "code/places.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "code/object/bundle.h"
#include "code/names.h"
#include "source/file.h"
#include "source/process.h"
#include "source/tape/tape.h"

enum { DEPTH_MAX = 4, OBJECT_MOST = 1 << 30 };

// --- one file ---

struct offer {
	const struct code_places *places;
	const struct code_taker *taker;
	struct text *problems;
	struct str name;
	bool taken, first_only;
};

static bool wanted_target(void *ctx, struct str target)
{
	const struct offer *o = ctx;
	struct str gfx = code_target_gfx(target);
	if (o->taken)
		return false;
	struct str wanted = o->places->gfx;
	return !wanted.n || !gfx.n || str_eq(str_split(&gfx, ':'), str_split(&wanted, ':'));
}

static void offer_found(void *ctx, const struct code_found *f)
{
	struct offer *o = ctx;
	if (o->taken)
		return;
	char *bytes = f->ours ? *f->ours : mem_alloc(f->bytes.n + 1);
	if (f->ours)
		*f->ours = NULL;
	else
		memcpy(bytes, f->bytes.p, f->bytes.n);
	_cleanup_text_ struct text name = { 0 };
	text_printf(&name, STR_FMT, STR_ARG(o->name));
	if (f->offset && !f->unpacked)
		text_printf(&name, "#offset=%llu&size=%zu", (unsigned long long)f->offset, f->bytes.n);
	o->taken = o->taker->take(o->taker->ctx, text_str(&name), bytes, f->bytes.n) && o->first_only;
}

static void offer_problem(void *ctx, struct uh_error *err)
{
	struct offer *o = ctx;
	if (o->problems)
		text_printf(o->problems, STR_FMT ": %s\n", STR_ARG(o->name), uh_error_message(err));
	uh_error_free(err);
}

/** A file that is looked into, as the user, evidence or a directory names it. */
struct code_file {
	struct named named;
	const char *path;
};

static void tell_or_keep(struct text *problems, struct uh_error *err)
{
	if (!problems) {
		door_forget(err);
		return;
	}
	text_printf(problems, "%s\n", uh_error_message(err));
	uh_error_free(err);
}

/** Every code object in a file. true: one of them was taken, and no more are wanted. */
static bool offer_file(void *ctx, const struct code_file *c)
{
	struct offer *o = ctx;
	struct file f;
	struct uh_error *err = file_open_named(&c->named, c->path, &f);
	if (err) {
		tell_or_keep(o->problems, err);
		return o->taken;
	}
	o->name = str_z(c->path);
	const struct code_finder finder = { wanted_target, offer_found, offer_problem, o };
	code_find(&f, &finder);
	file_close(&f);
	return o->taken;
}

/** The part of a file that a URI names; false where it has no such part. */
static bool offer_part(const struct offer *o, const struct code_uri *u, const struct code_file *c)
{
	struct file f;
	struct uh_error *err = file_open_named(&c->named, c->path, &f);
	bool taken = false;
	door_forget(err);
	if (err)
		return false;
	if (u->size <= OBJECT_MOST && u->offset <= f.size && u->size <= f.size - u->offset) {
		char *bytes = mem_alloc(u->size + 1);
		if (file_read(&f, u->offset, bytes, u->size))
			taken = o->taker->take(o->taker->ctx, str_z(c->path), bytes, u->size);
		else
			free(bytes);
	}
	file_close(&f);
	return taken;
}

// --- directories ---

typedef bool visit_fn(void *ctx, const struct code_file *c);

/** A walk through a directory: nothing in it that is a link is followed, as they may lead round in circles. */
struct code_walk {
	const char *top;
	visit_fn *visit;
	void *ctx;
	bool silent; // something did not answer; the rest is not tried
};

static bool walk_below(struct code_walk *w, const char *below, int depth)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct opened what = { 0 };
	struct door_names names = { 0 };
	const struct code_file c = {
		{ .path = w->top, .below = *below ? below : NULL },
		*below ? arena_printf(&room, "%s%s%s", w->top, str_ends(str_z(w->top), S("/")) ? "" : "/", below).p : w->top
	};
	struct uh_error *err = door_look(&c.named, &what);
	bool done = !err && S_ISREG(what.st.st_mode) && w->visit(w->ctx, &c);
	if (!err && S_ISDIR(what.st.st_mode) && depth < DEPTH_MAX)
		err = door_names(&c.named, false, &room, &names);
	w->silent |= err && err->errnum == ETIMEDOUT;
	door_forget(err);
	for (size_t i = 0; i < names.n && !done && !w->silent; i++)
		done = walk_below(w, arena_printf(&room, "%s%s%s", below, *below ? "/" : "", names.list[i]).p, depth + 1);
	return done;
}

/** Visits files until one visit says that it was the last. */
static bool code_places_walk_path(const char *path, int depth, visit_fn *visit, void *ctx)
{
	struct code_walk w = { .top = path, .visit = visit, .ctx = ctx };
	return walk_below(&w, "", depth);
}

// --- the object of a URI ---

struct places_hunt {
	struct str uri;
	const struct code_uri *parsed;
	struct offer offer;
};

/** A file that the debug agent saved for this URI, or one with the name of the file that the URI is a part of. */
static bool visit_named(void *ctx, const struct code_file *c)
{
	struct places_hunt *h = ctx;
	struct str name = str_base(str_z(c->path));
	if (code_uri_saved_as(h->uri, name))
		return offer_file(&h->offer, c);
	if (h->parsed->memory || !str_eq(name, str_base(h->parsed->path)))
		return false;
	return (h->parsed->has_range && offer_part(&h->offer, h->parsed, c)) || offer_file(&h->offer, c);
}

static bool walk_beside(const struct code_places *p, visit_fn *visit, void *ctx)
{
	struct str beside = str_cut(p->beside, p->beside.n - str_base(p->beside).n);
	_cleanup_text_ struct text directory = { 0 };
	text_add(&directory, beside.n ? beside : S("."));
	return p->beside.n && code_places_walk_path(directory.p, DEPTH_MAX - 1, visit, ctx);
}

/** Code that the machine itself has, on its way to the tape. */
struct taping {
	const struct code_taker *taker;
	struct tape *tape;
	struct str uri;
};

/** @what: `code` or `name`. */
static const char *taped_name(struct arena *a, const char *what, const struct taping *t)
{
	return arena_printf(a, "%s " STR_FMT, what, STR_ARG(t->uri)).p;
}

static bool take_on_tape(void *ctx, struct str name, char *bytes, size_t size)
{
	const struct taping *t = ctx;
	_cleanup_arena_ struct arena a = { 0 };
	struct str copy = arena_str(&a, (struct str){ bytes, size }); // who takes the bytes may free them
	name = arena_str(&a, name);
	bool taken = t->taker->take(t->taker->ctx, name, bytes, size);
	if (taken) {
		tape_said(t->tape, &a, taped_name(&a, "name", t), name);
		tape_said(t->tape, &a, taped_name(&a, "code", t), copy);
	}
	return taken;
}

static bool offer_taped(const struct taping *t)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str name = tape_said(t->tape, &a, taped_name(&a, "name", t), (struct str){ 0 });
	struct str said = tape_said(t->tape, &a, taped_name(&a, "code", t), (struct str){ 0 });
	char *bytes = said.n ? mem_large(said.n) : NULL;
	if (bytes)
		memcpy(bytes, said.p, said.n);
	return bytes && t->taker->take(t->taker->ctx, name, bytes, said.n);
}

bool code_places_find(const struct code_places *p, struct str uri, const struct code_taker *taker)
{
	_cleanup_arena_ struct arena arena = { 0 };
	struct code_uri parsed = { 0 };
	struct places_hunt h = { uri, &parsed, { .places = p, .taker = taker, .first_only = true } };
	bool taken = false, readable = code_uri_parse(&arena, uri, &parsed);
	for (size_t i = 0; readable && i < p->n && !taken; i++)
		taken = code_places_walk_path(p->paths[i], 0, visit_named, &h);
	if (!taken && readable)
		taken = walk_beside(p, visit_named, &h);
	const char *path = readable && !parsed.memory ? arena_z(&arena, parsed.path) : NULL;
	struct taping taping = { taker, p->tape, uri };
	const struct code_taker on_tape = { take_on_tape, &taping };
	if (tape_records(p->tape))
		h.offer.taker = &on_tape;
	if (!taken && path && tape_plays(p->tape))
		taken = offer_taped(&taping);
	// What evidence names is opened with the rights of the user who called.
	else if (!taken && path)
		taken = visit_named(&h, &(struct code_file){ { .path = path, .as_caller = true }, path });
	return taken;
}

bool code_places_any(const struct code_places *p, const struct code_taker *taker)
{
	struct offer o = { .places = p, .taker = taker, .first_only = true };
	bool taken = false;
	for (size_t i = 0; i < p->n && !taken; i++)
		taken = code_places_walk_path(p->paths[i], 0, offer_file, &o);
	return taken;
}

/** What a URI itself names: a part of a file, or memory of a process that still runs. */
static void offer_uri(struct offer *o, const char *text)
{
	_cleanup_arena_ struct arena arena = { 0 };
	struct code_uri u;
	struct uh_error *err = NULL;
	char *bytes = NULL;
	bool good = code_uri_parse(&arena, str_z(text), &u);
	const char *path = good && !u.memory ? arena_z(&arena, u.path) : NULL;
	if (!good)
		err = uh_error_new(
			"%s: not understood; such a URI is file://PATH#offset=N&size=N or memory://PID#offset=N&size=N", text);
	else if (!u.memory && !u.has_range)
		offer_file(o, &(struct code_file){ { .path = path }, path });
	else if (u.size > OBJECT_MOST)
		err = uh_error_new("%s: larger than any code object", text);
	else if (u.memory)
		err = process_memory(u.pid, u.offset, u.size, &bytes);
	else if (!offer_part(o, &u, &(struct code_file){ { .path = path }, path }))
		err = uh_error_new("%s: there is no code object in that part of the file", text);
	if (bytes)
		o->taker->take(o->taker->ctx, str_z(text), bytes, u.size);
	if (err && o->problems)
		text_printf(o->problems, "%s\n", uh_error_message(err));
	uh_error_free(err);
}

void code_places_all(const struct code_places *p, const struct code_taker *taker, struct text *problems)
{
	struct offer o = { .places = p, .taker = taker, .problems = problems };
	for (size_t i = 0; i < p->n; i++) {
		struct opened what;
		if (str_among(str_z(p->paths[i]), STR_BEGINS, "file://|memory://").n) {
			offer_uri(&o, p->paths[i]);
			continue;
		}
		_cleanup_error_ struct uh_error *err = door_look(&(struct named){ .path = p->paths[i] }, &what);
		if (!err)
			code_places_walk_path(p->paths[i], 0, offer_file, &o);
		else if (err->errnum == ETIMEDOUT)
			tell_or_keep(problems, take_ptr(err));
		else if (problems)
			text_printf(problems, "%s: no such file or directory\n", p->paths[i]);
	}
}

/** Whether a file is code and nothing else. Beside the evidence lie logs and cores of any size, which nobody named. */
static bool code_places_is_code(const struct code_file *c)
{
	enum { TYPE_AT = 16, MACHINE_AT = 18, CORE = 4, AMDGPU = 224, HEAD = 24 };
	char head[HEAD] = { 0 };
	struct file f;
	struct uh_error *err = file_open_named(&c->named, c->path, &f);
	door_forget(err);
	if (err)
		return false;
	bool read = f.size <= OBJECT_MOST && file_read(&f, 0, head, sizeof(head));
	file_close(&f);
	struct str s = { head, sizeof(head) };
	return read &&
	       ((str_starts(s, S("\177ELF")) && get_u16(head + MACHINE_AT) == AMDGPU && get_u16(head + TYPE_AT) != CORE) ||
		str_starts(s, S("__CLANG_OFFLOAD_BUNDLE__")) || str_starts(s, S("CCOB")));
}

static bool visit_code(void *ctx, const struct code_file *c) { return code_places_is_code(c) && offer_file(ctx, c); }

void code_places_beside(const struct code_places *p, const struct code_taker *taker)
{
	struct offer o = { .places = p, .taker = taker };
	walk_beside(p, visit_code, &o);
}
