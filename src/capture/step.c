// One step: a child, its deadline, and what the manifest says of it.
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "base/door/door.h"
#include "base/save.h"
#include "capture/parts.h"
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

static void work(int fd, const void *ctx)
{
	const struct step_plan *p = ((const void *const *)ctx)[0];
	struct step s = *(const struct step *)((const void *const *)ctx)[1];
	(void)fd;
	door_leave();
	close(s.capture->lock); // which must not live on in a child that cannot be killed
	_cleanup_error_ struct uh_error *err = partial_save_manifest(s.capture);
	if (err)
		step_end(&s, ITEM_FAILED, "%s", uh_error_message(err));
	else
		p->run(&s);
	door_end();
}

// --- what the capture itself writes ---

struct step_written {
	const struct taking *capture;
	struct uh_error *(*write)(const void *ctx);
	const void *ctx;
};

/** Its answer: the number of the error, and its message. */
static void write_child(int fd, const void *ctx)
{
	const struct step_written *w = ctx;
	close(w->capture->lock);
	_cleanup_error_ struct uh_error *err = w->write(w->ctx);
	if (err && write_all(fd, (struct str){ (const char *)&err->errnum, sizeof(err->errnum) }))
		write_all(fd, str_z(uh_error_message(err)));
}

struct uh_error *step_write(const struct taking *c, struct uh_error *(*write)(const void *ctx), const void *ctx, int64_t until)
{
	enum { ANSWER_MOST = 1 << 14 };
	const struct step_written w = { c, write, ctx };
	struct child child;
	struct text answer = { 0 };
	struct uh_error *err = NULL;
	int number = 0;
	if (!child_begin_free(write_child, &w, &child))
		return uh_error_os(errno, "%s", c->path);
	const enum child_end end = child_wait(&child, until, ANSWER_MOST, &answer);
	if (end != CHILD_GOOD) {
		err = uh_error_new("%s: it could not be written%s", c->path, end == CHILD_LATE ? " in time" : "");
		err->errnum = end == CHILD_LATE ? ETIMEDOUT : EIO;
	} else if (answer.n >= sizeof(number)) {
		memcpy(&number, answer.p, sizeof(number));
		err = uh_error_new(STR_FMT, STR_ARG(str_from(text_str(&answer), sizeof(number))));
		err->errnum = number;
	}
	child_kill(&child, DIE_MS);
	text_free(&answer);
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

/** Waits for the child. false: it is late. */
static bool wait_for(const struct taking *c, const struct step_plan *p, const struct step_shared *shared, struct child *child,
		     enum child_end *ret)
{
	struct text nothing = { 0 };
	int64_t began = now_ms();
	do {
		*ret = child_wait(child, now_ms() + POLL_MS, 0, &nothing);
		int64_t since = p->progress ? shared->moved : began;
		if (*ret == CHILD_LATE && (now_ms() >= c->deadline || now_ms() - since >= p->milliseconds || step_stopped(c)))
			break;
	} while (*ret == CHILD_LATE);
	text_free(&nothing);
	return *ret != CHILD_LATE;
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

static void run(struct taking *c, const struct step_plan *p, struct manifest_item *i, struct step_shared *shared)
{
	struct step s = { c, p->name, p->ctx, shared };
	const void *const both[] = { p, &s };
	struct child child;
	enum child_end end;
	if (!child_begin_free(work, both, &child)) {
		i->state = ITEM_FAILED;
		i->reason = arena_printf(c->arena, "no child could be started: %s", strerror(errno));
		return;
	}
	bool good = wait_for(c, p, shared, &child, &end);
	const struct step_result result = shared->result; // a child that is left behind may still write
	if (good)
		step_note_end(c, i, end, &result);
	else
		step_note_late(c, i, &child);
	child_kill(&child, DIE_MS);
	const size_t files = !p->files[0] ? 0 : !p->files[1] ? 1 : 2;
	if (good && result.whole && files && !step_name(c, p->files, files)) {
		i->state = ITEM_FAILED;
		i->reason = arena_str(c->arena, str_z(strerror(errno)));
	}
}

struct manifest_item *step_run(struct taking *c, const struct step_plan *p)
{
	const char *why = step_exhausted(c);
	if (why)
		return step_note(c, p->name, p->what, ITEM_CUT, why);
	step_progress(c, p->what);
	struct manifest_item *i = step_note(c, p->name, p->what, ITEM_RUNNING, "");
	struct step_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t began = now_ms();
	if (shared == MAP_FAILED) {
		i->state = ITEM_FAILED;
		i->reason = S("there is no memory for it");
		return i;
	}
	shared->moved = began;
	run(c, p, i, shared);
	i->took_ms = now_ms() - began;
	munmap(shared, sizeof(*shared));
	return i;
}
