// One step: a child, its deadline, and what the manifest says of it. A child may block in the kernel for ever, at a file of the driver or at a
// disk. It is left behind then, and the capture goes on; so the child says what it has done in memory that both share, not at its end.
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "base/door/door.h"
#include "base/save.h"
#include "capture/steps.h"
#include "source/probe_stuck.h"

enum { POLL_MS = 20, DIE_MS = 200 };

void step_moved(struct step *s) { s->shared->moved = now_ms(); }

void step_end(struct step *s, enum item_state state, const char *format, ...)
{
	struct step_result *r = &s->shared->result;
	va_list ap;
	va_start(ap, format);
	r->state = state;
	vsnprintf(r->reason, sizeof(r->reason), format, ap);
	va_end(ap);
}

uint64_t step_room(const struct step *s)
{
	const struct capture_options *o = s->capture->options;
	const uint64_t used = s->capture->budget->used, left = used < o->most ? o->most - used : 0;
	return left < o->item_most ? left : o->item_most;
}

bool step_save(struct step *s, const char *name, struct str bytes)
{
	struct item_file f = { .fd = -1 };
	const bool good = item_create(s->capture, name, &f) && item_write(&f, bytes) && item_finish(s->capture, &f);
	if (good) {
		s->shared->result.bytes += bytes.n;
	} else {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		item_drop(s->capture, &f);
	}
	return good;
}

struct step_work {
	const struct step_plan *plan;
	struct step step;
};

/** The manifest is written by each step before it begins: after a power cut it tells which one was at work. */
static void run_in_child(int fd, const void *ctx)
{
	const struct step_work *w = ctx;
	struct step s = w->step;
	(void)fd;
	door_leave();
	cleanup_close(&(int){ s.capture->lock }); // which must not live on in a child that cannot be killed
	_cleanup_error_ struct uh_error *err = partial_save_manifest(s.capture);
	if (!err && w->plan->child == CHILD_CAPTURE_COPY && !child_put_down(CHILD_CAPTURE_COPY))
		step_end(&s, ITEM_FAILED, "its reader could not put its rights down");
	else if (err)
		step_end(&s, ITEM_FAILED, "%s", uh_error_message(err));
	else
		w->plan->run(&s);
	door_end();
}

// --- what the capture itself writes ---

struct step_writing {
	const struct taking *capture;
	struct uh_error *(*write)(const void *ctx);
	const void *ctx;
};

/** What a child answers that wrote something. Without a message it went well. */
struct step_written {
	int number; // of the error
	struct str message;
};
static const struct wire_field written_fields[] = {
	WIRE_NUMBER(struct step_written, number, INT_MAX),
	WIRE_TEXT(struct step_written, message),
};
static const struct wire_kind written_kind = WIRE_KIND('w', struct step_written, written_fields);

/** A disk may not answer for minutes, and nothing of the capture itself may wait for it. */
static void write_in_child(const void *asked, struct arena *a, void *answer)
{
	const struct step_writing *w = asked;
	cleanup_close(&(int){ w->capture->lock });
	_cleanup_error_ struct uh_error *err = w->write(w->ctx);
	if (err)
		*(struct step_written *)answer =
			(struct step_written){ err->errnum, arena_str(a, str_z(uh_error_message(err))) };
}

struct uh_error *step_write(const struct taking *c, struct uh_error *(*write)(const void *ctx), const void *ctx, int64_t until)
{
	const struct step_writing w = { c, write, ctx };
	const struct child_task task = { CHILD_CAPTURE_WRITE, write_in_child, &written_kind, until };
	_cleanup_arena_ struct arena a = { 0 };
	struct step_written said;
	const enum child_end end = child_call(&task, &w, &a, &said);
	if (end == CHILD_REFUSED)
		return uh_error_os(errno, "%s", c->path);
	if (end == CHILD_GOOD && !said.message.n)
		return NULL;
	struct uh_error *err =
		end == CHILD_GOOD ? uh_error_new(STR_FMT, STR_ARG(said.message)) :
				    uh_error_new("%s: it could not be written%s", c->path, end == CHILD_LATE ? " in time" : "");
	err->errnum = end == CHILD_GOOD ? said.number : end == CHILD_LATE ? ETIMEDOUT : EIO;
	return err;
}

struct step_names {
	const struct taking *capture;
	const char *const *names;
	size_t n;
};

static struct uh_error *give_names(const void *ctx)
{
	const struct step_names *s = ctx;
	for (size_t i = 0; i < s->n; i++)
		if (!item_name(s->capture, s->names[i]))
			return uh_error_os(errno, "%s", s->names[i]);
	return NULL;
}

bool step_name(const struct taking *c, const char *const *names, size_t n)
{
	enum { NAME_MS = 2000 };
	const struct step_names s = { c, names, n };
	_cleanup_error_ struct uh_error *err = step_write(c, give_names, &s, now_ms() + NAME_MS);
	errno = err ? err->errnum : 0;
	return !err;
}

struct manifest_item *step_note(struct taking *c, const char *name, const char *what, enum item_state state, const char *reason)
{
	struct manifest_item i = { .name = arena_str(c->arena, str_z(name)),
				   .what = arena_str(c->arena, str_z(what)),
				   .state = state,
				   .reason = arena_str(c->arena, str_z(reason)) };
	vec_push(&c->manifest->items, i);
	return &c->manifest->items.data[c->manifest->items.len - 1];
}

void step_progress(const struct taking *c, const char *what)
{
	enum { OTHERS = 12 }; // steps that are no looks
	const struct capture_options *o = c->options;
	unsigned long long total = o->nlooks + OTHERS, done = c->manifest->items.len;
	if (o->progress)
		o->progress(o->progress_ctx, what ? what : "", what && done < total ? done : what ? total - 1 : total, total);
}

bool step_stopped(const struct taking *c) { return c->options->stopped && c->options->stopped(c->options->stopped_ctx); }

bool step_full(const struct taking *c)
{
	struct statvfs v;
	return !fstatvfs(c->dir, &v) && (uint64_t)v.f_bavail * v.f_frsize < c->options->floor;
}

const char *step_exhausted(struct taking *c)
{
	if (step_stopped(c))
		return "the capture was stopped";
	if (now_ms() >= c->deadline)
		return "the deadline of the capture had passed";
	if (c->budget->used >= c->options->most)
		return "the capture had as many bytes as it may have";
	if (step_full(c))
		return "the disk has too little space left";
	return NULL;
}

/** What our own deadline ended says nothing of the GPU. Files that truly block are items of their own. */
void step_note_late(struct taking *c, struct manifest_item *i, const struct child *child)
{
	struct probe_stuck stuck = { 0 };
	const char *ours = step_stopped(c)         ? "the capture was stopped" :
			   now_ms() >= c->deadline ? "the deadline of the capture passed meanwhile" :
						     NULL;
	probe_where_stuck(c->arena, child->pid, "", &stuck);
	i->state = ours ? ITEM_CUT : ITEM_BLOCKED;
	i->reason = str_z(ours ? ours : "it did not answer in time");
	i->stack = stuck.stack.n ? stuck.stack : stuck.wchan;
}

void step_note_end(struct taking *c, struct manifest_item *i, enum child_end end, const struct step_result *r)
{
	i->state = r->state;
	i->reason = arena_str(c->arena, (struct str){ r->reason, strnlen(r->reason, sizeof(r->reason)) });
	i->bytes = r->bytes;
	if (end == CHILD_GOOD && r->state > ITEM_RUNNING && r->state < ITEM_STATES)
		return;
	i->state = ITEM_FAILED;
	i->reason = end == CHILD_MEMORY ? S("it needed too much memory") : S("unhang itself failed while it read it");
}

struct manifest_item *step_run(struct taking *c, const struct step_plan *p)
{
	const char *why = step_exhausted(c);
	if (why)
		return step_note(c, p->name, p->what, ITEM_CUT, why);
	step_progress(c, p->what);
	struct manifest_item *i = step_note(c, p->name, p->what, ITEM_FAILED, "there is no memory for it");
	_cleanup_map_ struct map room = { 0 };
	if (!map_shared(&room, sizeof(struct step_shared)))
		return i;
	i->state = ITEM_RUNNING;
	i->reason = S("");
	struct step_shared *shared = room.p;
	const struct step_work work = { p, { c, p->name, p->ctx, shared } };
	const int64_t began = now_ms();
	shared->moved = began;
	struct child child;
	if (!child_start(p->child, run_in_child, &work, &child)) {
		i->state = ITEM_FAILED;
		i->reason = arena_printf(c->arena, "no child could be started: %s", strerror(errno));
		return i;
	}
	_cleanup_text_ struct text nothing = { 0 };
	enum child_end end;
	int64_t since;
	do {
		end = child_wait(&child, now_ms() + POLL_MS, 0, &nothing);
		since = p->progress ? shared->moved : began;
	} while (end == CHILD_LATE && now_ms() < c->deadline && now_ms() - since < p->milliseconds && !step_stopped(c));
	const struct step_result result = shared->result; // a child that is left behind may still write
	if (end == CHILD_LATE)
		step_note_late(c, i, &child);
	else
		step_note_end(c, i, end, &result);
	child_kill(&child, DIE_MS);
	const size_t files = !p->files[0] ? 0 : !p->files[1] ? 1 : 2;
	if (end != CHILD_LATE && result.whole && files && !step_name(c, p->files, files)) {
		i->state = ITEM_FAILED;
		i->reason = arena_str(c->arena, str_z(strerror(errno)));
	}
	i->took_ms = now_ms() - began;
	return i;
}
