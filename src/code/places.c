#include "code/places.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/caller.h"
#include "base/cleanup.h"
#include "code/bundle.h"
#include "code/uri.h"
#include "source/file.h"
#include "source/process.h"

enum { DEPTH_MAX = 4, OBJECT_MOST = 1 << 30 };

static struct str base_name(struct str path)
{
	for (size_t i = path.n; i--;)
		if (path.p[i] == '/')
			return str_from(path, i + 1);
	return path;
}

// --- one file ---

struct offer {
	const struct code_places *places;
	const struct code_taker *taker;
	struct text *problems;
	struct str name;
	bool taken, first_only;
	bool by_evidence; // the path stands in the evidence: nobody named it to unhang
};

/** What evidence names is opened with the rights of the user who called. */
static struct uh_error *open_file(const struct offer *o, const char *path, struct file *ret)
{
	struct caller before = { 0 };
	const bool allowed = !o->by_evidence || caller_begin(&before);
	const bool there = allowed && (!o->by_evidence || file_answers(path));
	struct uh_error *err = there ? file_open(path, ret) : uh_error_new("%s: not for the user who called", path);
	caller_end(&before);
	return err;
}

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
	struct text name = { 0 };
	text_printf(&name, STR_FMT, STR_ARG(o->name));
	if (f->offset && !f->unpacked)
		text_printf(&name, "#offset=%llu&size=%zu", (unsigned long long)f->offset, f->bytes.n);
	o->taken = o->taker->take(o->taker->ctx, text_str(&name), bytes, f->bytes.n) && o->first_only;
	text_free(&name);
}

static void offer_problem(void *ctx, struct uh_error *err)
{
	struct offer *o = ctx;
	if (o->problems)
		text_printf(o->problems, STR_FMT ": %s\n", STR_ARG(o->name), uh_error_message(err));
	uh_error_free(err);
}

/** Every code object in a file. */
static void offer_file(struct offer *o, const char *path)
{
	struct file f;
	struct uh_error *err = open_file(o, path, &f);
	if (err) {
		if (o->problems)
			text_printf(o->problems, "%s\n", uh_error_message(err));
		uh_error_free(err);
		return;
	}
	o->name = str_z(path);
	const struct code_finder finder = { wanted_target, offer_found, offer_problem, o };
	code_find(&f, &finder);
	file_close(&f);
}

/** The part of a file that a URI names; false where it has no such part. */
static bool offer_part(const struct offer *o, const struct code_uri *u, const char *path)
{
	struct file f;
	_cleanup_error_ struct uh_error *err = open_file(o, path, &f);
	bool taken = false;
	if (err)
		return false;
	if (u->size <= OBJECT_MOST && u->offset <= f.size && u->size <= f.size - u->offset) {
		char *bytes = mem_alloc(u->size + 1);
		if (file_read(&f, u->offset, bytes, u->size))
			taken = o->taker->take(o->taker->ctx, str_z(path), bytes, u->size);
		else
			free(bytes);
	}
	file_close(&f);
	return taken;
}

// --- directories ---

typedef bool visit_fn(void *ctx, const char *path);

/** Visits files until one visit says that it was the last. */
static bool walk_path(const char *path, int depth, visit_fn *visit, void *ctx)
{
	struct stat st;
	struct dirent **names;
	if (stat(path, &st))
		return false;
	if (!S_ISDIR(st.st_mode))
		return S_ISREG(st.st_mode) && visit(ctx, path);
	int n = depth < DEPTH_MAX ? scandir(path, &names, NULL, alphasort) : -1;
	bool done = false;
	for (int i = 0; i < n; i++) {
		struct text below = { 0 };
		text_printf(&below, "%s%s%s", path, str_ends(str_z(path), S("/")) ? "" : "/", names[i]->d_name);
		// Links are not followed: they may lead round in circles.
		if (names[i]->d_name[0] != '.' && !done && !lstat(below.p, &st) && !S_ISLNK(st.st_mode))
			done = walk_path(below.p, depth + 1, visit, ctx);
		text_free(&below);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return done;
}

// --- the object of a URI ---

struct hunt {
	struct str uri;
	const struct code_uri *parsed;
	struct offer offer;
};

/** A file that the debug agent saved for this URI, or one with the name of the file that the URI is a part of. */
static bool visit_named(void *ctx, const char *path)
{
	struct hunt *h = ctx;
	struct str name = base_name(str_z(path));
	if (code_uri_saved_as(h->uri, name)) {
		offer_file(&h->offer, path);
		return h->offer.taken;
	}
	if (h->parsed->memory || !str_eq(name, base_name(h->parsed->path)))
		return false;
	if (h->parsed->has_range && offer_part(&h->offer, h->parsed, path))
		return true;
	offer_file(&h->offer, path);
	return h->offer.taken;
}

static bool visit_any(void *ctx, const char *path)
{
	struct offer *o = ctx;
	offer_file(o, path);
	return o->taken;
}

static bool walk_beside(const struct code_places *p, visit_fn *visit, void *ctx)
{
	struct str beside = str_cut(p->beside, p->beside.n - base_name(p->beside).n);
	struct text directory = { 0 };
	text_add(&directory, beside.n ? beside : S("."));
	bool done = p->beside.n && walk_path(directory.p, DEPTH_MAX - 1, visit, ctx);
	text_free(&directory);
	return done;
}

bool code_places_find(const struct code_places *p, struct str uri, const struct code_taker *taker)
{
	struct arena arena = { 0 };
	struct code_uri parsed = { 0 };
	struct hunt h = { uri, &parsed, { .places = p, .taker = taker, .first_only = true } };
	bool taken = false, readable = code_uri_parse(&arena, uri, &parsed);
	for (size_t i = 0; readable && i < p->n && !taken; i++)
		taken = walk_path(p->paths[i], 0, visit_named, &h);
	if (!taken && readable)
		taken = walk_beside(p, visit_named, &h);
	const char *path = readable && !parsed.memory ? arena_z(&arena, parsed.path) : NULL;
	h.offer.by_evidence = true;
	if (!taken && path)
		taken = visit_named(&h, path);
	arena_free(&arena);
	return taken;
}

bool code_places_any(const struct code_places *p, const struct code_taker *taker)
{
	struct offer o = { .places = p, .taker = taker, .first_only = true };
	bool taken = false;
	for (size_t i = 0; i < p->n && !taken; i++)
		taken = walk_path(p->paths[i], 0, visit_any, &o);
	return taken;
}

/** What a URI itself names: a part of a file, or memory of a process that still runs. */
static void offer_uri(struct offer *o, const char *text)
{
	struct arena arena = { 0 };
	struct code_uri u;
	struct uh_error *err = NULL;
	char *bytes = NULL;
	if (!code_uri_parse(&arena, str_z(text), &u))
		err = uh_error_new(
			"%s: not understood; such a URI is file://PATH#offset=N&size=N or memory://PID#offset=N&size=N", text);
	else if (!u.memory && !u.has_range)
		offer_file(o, arena_z(&arena, u.path));
	else if (u.size > OBJECT_MOST)
		err = uh_error_new("%s: larger than any code object", text);
	else if (u.memory)
		err = process_memory(u.pid, u.offset, u.size, &bytes);
	else if (!offer_part(o, &u, arena_z(&arena, u.path)))
		err = uh_error_new("%s: there is no code object in that part of the file", text);
	if (bytes)
		o->taker->take(o->taker->ctx, str_z(text), bytes, u.size);
	if (err && o->problems)
		text_printf(o->problems, "%s\n", uh_error_message(err));
	uh_error_free(err);
	arena_free(&arena);
}

static bool is_uri(const char *path)
{
	return str_starts(str_z(path), S("file://")) || str_starts(str_z(path), S("memory://"));
}

static bool visit_all(void *ctx, const char *path)
{
	offer_file(ctx, path);
	return false;
}

void code_places_all(const struct code_places *p, const struct code_taker *taker, struct text *problems)
{
	struct offer o = { .places = p, .taker = taker, .problems = problems };
	for (size_t i = 0; i < p->n; i++) {
		struct stat st;
		if (is_uri(p->paths[i])) {
			offer_uri(&o, p->paths[i]);
			continue;
		}
		if (stat(p->paths[i], &st) && problems)
			text_printf(problems, "%s: there is no such file or directory\n", p->paths[i]);
		walk_path(p->paths[i], 0, visit_all, &o);
	}
}

/** Whether a file is code and nothing else. Beside the evidence lie logs and cores of any size, which nobody named. */
static bool is_code(const char *path)
{
	enum { TYPE_AT = 16, MACHINE_AT = 18, CORE = 4, AMDGPU = 224, HEAD = 24 };
	char head[HEAD] = { 0 };
	struct file f;
	_cleanup_error_ struct uh_error *err = file_open(path, &f);
	if (err)
		return false;
	bool read = f.size <= OBJECT_MOST && file_read(&f, 0, head, sizeof(head));
	file_close(&f);
	struct str s = { head, sizeof(head) };
	return read &&
	       ((str_starts(s, S("\177ELF")) && get_u16(head + MACHINE_AT) == AMDGPU && get_u16(head + TYPE_AT) != CORE) ||
		str_starts(s, S("__CLANG_OFFLOAD_BUNDLE__")) || str_starts(s, S("CCOB")));
}

static bool visit_code(void *ctx, const char *path)
{
	if (is_code(path))
		offer_file(ctx, path);
	return false;
}

void code_places_beside(const struct code_places *p, const struct code_taker *taker)
{
	struct offer o = { .places = p, .taker = taker };
	walk_beside(p, visit_code, &o);
}
