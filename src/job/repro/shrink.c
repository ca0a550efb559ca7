// Makes the program smaller as long as it fails alike: fewer launches, zeros in place of contents, smaller buffers. What does not fail alike at once
// is taken back, so that a failure that comes and goes keeps more than it needs, never less. A buffer that is made smaller is a bug of its own where
// the sound part of the launch needs it. So without the bug the smaller program has to end well, too.
#include "base/cleanup.h"
#include "job/repro/trial.h"

enum { SMALLEST = 4096, ROOM_BEHIND = 64 << 20 };

struct shrinking {
	struct repro_plan *plan;
	const struct uh_repro_options *options;
	int dir;
	void (*tell)(const char *line);
	struct repro_buffer *blamed; // that the fault was in or behind; NULL: none is known
};

static bool runs_left(const struct shrinking *s) { return s->plan->tried.runs < s->options->runs && !s->plan->tried.why_not.n; }

/** Saves and runs what the plan is now. false: it ends otherwise. */
static bool run_ends(struct shrinking *s, enum trial_end wanted, const char *what)
{
	struct repro_tried *t = &s->plan->tried;
	struct str said = { 0 };
	if (!runs_left(s))
		return false;
	struct uh_error *err = repro_save(s->plan, s->dir);
	if (err) {
		t->why_not = arena_str(s->plan->arena, str_z(uh_error_message(err)));
		uh_error_free(err);
		return false;
	}
	const enum trial_end end = trial_run(s->plan, s->options, s->dir, s->plan->arena, &said);
	if (end == TRIAL_CANNOT) {
		t->why_not = said;
		return false;
	}
	t->runs++;
	t->alike |= end == TRIAL_ALIKE;
	if (s->tell) {
		char line[160];
		snprintf(line, sizeof(line), "run %u of at most %u: %s: %s", t->runs, s->options->runs, what,
			 end == TRIAL_ALIKE ? "fails in the same way" :
			 end == TRIAL_WELL  ? "ends well" :
					      "fails otherwise");
		s->tell(line);
	}
	if (end != TRIAL_ALIKE && !t->alike)
		t->other = said;
	return end == wanted;
}

static bool still_fails(struct shrinking *s, const char *what) { return run_ends(s, TRIAL_ALIKE, what); }

/** Whether it ends well with the bug mended: with room behind the buffer, or with the buffer not freed. */
static bool ends_well(struct shrinking *s)
{
	const struct repro_buffer was = *s->blamed;
	s->blamed->bytes += s->plan->failure.relation == NEAR_PAST ? s->plan->failure.distance + ROOM_BEHIND : 0;
	s->blamed->freed = false;
	const bool well = run_ends(s, TRIAL_WELL, "with the bug mended");
	*s->blamed = was;
	return well;
}

/** Without the launches from @from on, @n of those that are left beside the failing one. false: they stay. */
static bool without_launches(struct shrinking *s, const uint32_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->plan->launches.data[list[i]].dropped = true;
	if (n && still_fails(s, "fewer launches"))
		return true;
	for (size_t i = 0; i < n; i++)
		s->plan->launches.data[list[i]].dropped = false;
	return false;
}

static void shrink_launches(struct shrinking *s)
{
	VEC(uint32_t) left = { 0 };
	for (uint32_t i = 0; i < s->plan->launches.len; i++)
		if (s->plan->launches.data[i].role != REPRO_FAILS)
			vec_push(&left, i);
	size_t size = left.len;
	while (size && runs_left(s)) {
		for (size_t at = 0; at < left.len && runs_left(s);) {
			const size_t n = left.len - at < size ? left.len - at : size;
			if (!without_launches(s, left.data + at, n)) {
				at += n;
				continue;
			}
			memmove(left.data + at, left.data + at + n, (left.len - at - n) * sizeof(*left.data));
			left.len -= n;
		}
		size = size == 1 ? 0 : (size + 1) / 2;
	}
	vec_free(&left);
}

/** Zeros in place of contents: of all buffers at once, else of one after the other. */
static void shrink_contents(struct shrinking *s)
{
	struct repro_plan *p = s->plan;
	size_t n = 0;
	for (size_t i = 0; i < p->writes.len; i++) {
		p->writes.data[i].dropped = p->writes.data[i].fill != REPRO_ZEROS;
		n += p->writes.data[i].dropped && !p->launches.data[p->writes.data[i].launch].dropped;
	}
	if (!n || still_fails(s, "zeros for contents"))
		return;
	for (size_t i = 0; i < p->writes.len; i++)
		p->writes.data[i].dropped = false;
	for (size_t i = 0; n > 1 && i < p->writes.len && runs_left(s); i++) {
		struct repro_write *w = &p->writes.data[i];
		if (w->fill == REPRO_ZEROS || p->launches.data[w->launch].dropped)
			continue;
		w->dropped = true;
		w->dropped = still_fails(s, "zeros in one buffer");
	}
}

/** A buffer reaches at least as far as pointers do that lie in it. */
static uint64_t smallest_of(const struct repro_plan *p, uint32_t buffer)
{
	uint64_t n = 0;
	for (size_t i = 0; i < p->launches.len; i++)
		for (size_t k = 0; !p->launches.data[i].dropped && k < p->launches.data[i].npointers; k++) {
			const struct repro_pointer *x = &p->launches.data[i].pointers[k];
			const bool within =
				x->buffer == buffer && x->offset > 0 && (uint64_t)x->offset < p->buffers.data[buffer].recorded;
			n = within && (uint64_t)x->offset > n ? (uint64_t)x->offset : n;
		}
	return (n / SMALLEST + 1) * SMALLEST;
}

/** The buffer of the argument that the fault is told by: its size is a part of the bug. */
static struct repro_buffer *buffer_to_blame(struct repro_plan *p)
{
	const struct repro_launch *l = repro_failing(p);
	const struct repro_failure *f = &p->failure;
	const struct repro_pointer *x = f->kind == REPRO_FAULT && (f->relation == NEAR_PAST || f->relation == NEAR_FREED) ?
						list_find(l->pointers, l->npointers, it, (int64_t)it->at == f->argument) :
						NULL;
	return x ? &p->buffers.data[x->buffer] : NULL;
}

/** Only where it is known how the launch ends without the bug. */
static void shrink_buffers(struct shrinking *s)
{
	struct repro_plan *p = s->plan;
	s->blamed = buffer_to_blame(p);
	if (!s->blamed || !ends_well(s))
		return;
	_cleanup_arena_ struct arena a = { 0 };
	const struct repro_walk w = repro_walk_begin(p, &a);
	for (uint32_t i = 0; i < p->buffers.len; i++) {
		struct repro_buffer *b = &p->buffers.data[i];
		uint64_t next = smallest_of(p, i);
		while (w.used[i] && b != s->blamed && runs_left(s) && next < b->bytes) {
			const uint64_t before = b->bytes;
			b->bytes = next;
			if (ends_well(s) && still_fails(s, "a smaller buffer"))
				break;
			b->bytes = before;
			next = next < before / 8 ? next * 8 : before; // from the smallest up: most need little
		}
	}
}

void repro_try(struct repro_plan *p, const struct uh_repro_options *o, int dir, void (*tell)(const char *line))
{
	struct shrinking s = { p, o, dir, tell, NULL };
	struct repro_tried *t = &p->tried;
	t->asked = true;
	t->launches_before = t->launches_after = (unsigned)repro_launches_left(p);
	t->bytes_before = t->bytes_after = repro_bytes_left(p);
	if (!o->recorder) {
		t->why_not = S("libunhang-recorder.so is not installed beside unhang");
		return;
	}
	if (!still_fails(&s, "as it was recorded"))
		return;
	struct str *earlier = list_find(p->left_out.data, p->left_out.len, it, p->earlier.n && str_eq(*it, p->earlier));
	if (earlier) // it fails without them
		memmove(earlier, earlier + 1, (size_t)(&p->left_out.data[p->left_out.len--] - earlier - 1) * sizeof(*earlier));
	if (!o->shrink)
		return;
	shrink_launches(&s);
	shrink_contents(&s);
	shrink_buffers(&s);
	t->launches_after = (unsigned)repro_launches_left(p);
	t->bytes_after = repro_bytes_left(p);
}
