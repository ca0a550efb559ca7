#include "evidence/allocations/tell.h"

#include <time.h>

#include "base/door/door.h"
#include "evidence/allocations/statistics.h"
#include "evidence/recording/places.h"
#include "evidence/recording/process.h"
#include "evidence/recording/recording.h"
#include "evidence/recording/waits.h"
#include "source/file.h"
#include "source/source.h"

enum { FINDINGS_TOLD = 24, FRAMES_SAID = 5, BOOKS_MOST = 64, BURST_LEAST = 1000 };
#define NEAR (UINT64_C(1) << 30)
#define BESIDE (UINT64_C(64) << 10) // so far from an allocation a wrong index leads from that one, and not from any other
#define CLOCKS_APART (26 * 3600.0)  // a log without a time zone
enum { FAULT_RETURNS = 70000000 }; // from HIP 7 on a fault is an error that calls return, and the program may end in order
static const double STILL = 5;      // seconds inside of a call, before which it is nothing to tell

struct allocations_telling {
	const struct artefact_output *out;
	struct allocations *of;
	struct arena arena;
};

static bool allocations_event(struct allocations_telling *t, const char *signature, uint64_t time, struct event *ret)
{
	const struct allocations *a = t->of;
	if (!artefact_event(t->out, signature, (struct place){ t->out->source, 0 }, ret))
		return false;
	if (time)
		ret->time = (struct stamp){ TIME_WALL, allocations_time(a, time) };
	ret->boot_id = a->boot_id;
	ret->now = a->alive;
	event_add_text(ret, &t->arena, "process", a->program);
	event_add_number(ret, &t->arena, a->header.pid_namespace ? "pid_inside" : "pid", a->header.pid);
	return true;
}

/** How long before @time something was, in words; empty: it is not known. */
static struct str ago_say(struct arena *a, uint64_t when, uint64_t time)
{
	return when && time > when ? seconds_say(a, (double)(time - when) / 1e9) : (struct str){ 0 };
}

static struct str tid_say(struct arena *a, uint32_t tid, const char *name)
{
	return tid ? arena_printf(a, STR_FMT " (%u)", STR_ARG(((struct str){ name, strnlen(name, 16) })), tid) :
		     (struct str){ 0 };
}

/** What is known of an allocation at a time. */
static void add_row(struct event *e, struct arena *to, struct allocations *a, const struct alloc_row *r, uint64_t time)
{
	event_add_text(e, to, "allocation", allocation_say(to, r));
	event_add_number(e, to, "allocation_bytes", (int64_t)r->size);
	event_add_text(e, to, "allocated_ago", ago_say(to, r->born, time));
	event_add_text(e, to, "allocated_by", tid_say(to, r->by, r->name));
	event_add_text(e, to, "allocated_in", allocation_stack_say(a, to, r->stack, FRAMES_SAID));
	event_add_text(e, to, "allocated_for", allocation_operation_say(a, r->doing));
	if (r->state == ALLOC_LIVE)
		return;
	event_add_text(e, to, "freed_ago", ago_say(to, r->died, time));
	event_add_text(e, to, "freed_by", tid_say(to, r->freed_by, r->freed_name));
	event_add_text(e, to, "freed_in", allocation_stack_say(a, to, r->freed_stack, FRAMES_SAID));
	event_add_text(e, to, "freed_for", allocation_operation_say(a, r->freed_doing));
}

// --- what it found by itself ---

static const struct alloc_row *finding_row(const struct allocations *a, const struct alloc_finding *f)
{
	for (size_t i = 0; f->row && i < a->nrows; i++)
		if (a->rows[i].id == f->row - 1 && (!f->born || a->rows[i].born == f->born))
			return &a->rows[i];
	return NULL;
}

/** The bytes of a finding, counted from the end that they lie behind, or from the beginning. */
static struct str touched_say(struct arena *a, const struct alloc_finding *f, const struct alloc_row *r)
{
	const int64_t size = r ? (int64_t)r->size : 0;
	const bool past = r && f->begin >= size;
	const int64_t first = past         ? f->begin - size :
			      f->begin < 0 ? -f->end + 1 :
					     f->begin,
		      last = past         ? f->end - size - 1 :
			     f->begin < 0 ? -f->begin :
					    f->end - 1;
	if (f->end <= f->begin)
		return (struct str){ 0 };
	const char *where = past ? "past the end" : f->begin < 0 ? "before the start" : "from the start";
	if (first == last)
		return arena_printf(a, "byte %lld %s", (long long)first, where);
	return arena_printf(a, "bytes %lld to %lld %s", (long long)first, (long long)last, where);
}

/** The allocation that was overwritten, or freed wrongly. */
static void add_found_row(struct allocations_telling *t, struct event *e, const struct alloc_finding *f,
			  const struct alloc_row *r)
{
	const bool wild = f->kind == ALLOC_FOUND_WILD_FREE;
	struct alloc_row then = *r;
	if (wild && then.died > f->time)
		then.state = ALLOC_LIVE; // its own end, later, is no part of the story
	add_row(e, &t->arena, t->of, &then, f->time);
	if (wild && f->begin > 0 && (uint64_t)f->begin < r->size)
		event_add_text(e, &t->arena, "freed_inside",
			       arena_printf(&t->arena, STR_FMT " byte%s inside " STR_FMT,
					    STR_ARG(arena_grouped(&t->arena, (uint64_t)f->begin)), f->begin == 1 ? "" : "s",
					    STR_ARG(allocation_say(&t->arena, r))));
}

static void tell_findings(struct allocations_telling *t)
{
	static const char *const signatures[] = {
		[ALLOC_FOUND_DOUBLE_FREE] = "guard-double-free", [ALLOC_FOUND_WILD_FREE] = "guard-wild-free",
		[ALLOC_FOUND_BROKEN_BELOW] = "guard-broken",     [ALLOC_FOUND_BROKEN_ABOVE] = "guard-broken",
		[ALLOC_FOUND_REFUSED] = "guard-refused",
	};
	static const char *const proofs[] = {
		[ALLOC_FOUND_DOUBLE_FREE] = "the guard saw the call",
		[ALLOC_FOUND_WILD_FREE] = "the guard saw the call",
		[ALLOC_FOUND_BROKEN_BELOW] = "the guard's own bytes had changed",
		[ALLOC_FOUND_BROKEN_ABOVE] = "the guard's own bytes had changed",
		[ALLOC_FOUND_REFUSED] = NULL,
	};
	const uint64_t all = t->of->nfindings + t->of->header.lost_findings;
	for (size_t i = 0; i < t->of->nfindings && i < FINDINGS_TOLD; i++) {
		const struct alloc_finding *f = &t->of->findings[i];
		const char *signature = f->kind < ARRAY_SIZE(signatures) ? signatures[f->kind] : NULL;
		const struct alloc_row *r = finding_row(t->of, f);
		struct event e;
		if (!signature || !allocations_event(t, signature, f->time, &e))
			continue;
		if (all > FINDINGS_TOLD)
			event_add_text(&e, &t->arena, "guard_findings", arena_grouped(&t->arena, all));
		if (proofs[f->kind])
			event_add_text(&e, &t->arena, "proof", str_z(proofs[f->kind]));
		event_add_code(&e, &t->arena, "address", f->address);
		event_add_text(&e, &t->arena, "hip_call", str_z(alloc_call_name(f->call)));
		event_add_text(&e, &t->arena, "found_by", tid_say(&t->arena, f->thread, f->name));
		event_add_text(&e, &t->arena, "found_in", allocation_stack_say(t->of, &t->arena, f->stack, FRAMES_SAID));
		event_add_text(&e, &t->arena, "touched", touched_say(&t->arena, f, r));
		event_add_text(&e, &t->arena, "found_when",
			       f->at_exit ? S("at the end of the program") : S("when it was freed"));
		if (r)
			add_found_row(t, &e, f, r);
		artefact_tell(t->out, &e);
	}
}

/** A thread that does not come back from HIP. */
static void tell_calls(struct allocations_telling *t)
{
	struct allocations *a = t->of;
	for (size_t i = 0; i < a->nthreads; i++) {
		const struct alloc_thread *h = &a->threads[i];
		struct event e;
		const double age = h->call && !h->ended && a->upto > h->since ? (double)(a->upto - h->since) / 1e9 : 0;
		if (age < STILL || !allocations_event(t, "allocations-waits", h->since, &e))
			continue;
		event_add_text(&e, &t->arena, "thread", tid_say(&t->arena, h->tid, h->name));
		event_add_text(&e, &t->arena, "waits_in",
			       arena_printf(&t->arena, "%s(%llu)", alloc_call_name(h->call), (unsigned long long)h->a[0]));
		event_add_text(&e, &t->arena, "age", seconds_say(&t->arena, age));
		event_add_number(&e, &t->arena, "allocation_bytes", (int64_t)h->a[0]);
		event_add_text(&e, &t->arena, "allocated_before", allocations_sizes_say(&t->arena, a));
		event_add_number(&e, &t->arena, "small_allocations", (int64_t)a->header.small);
		if (a->alive)
			event_add_text(&e, &t->arena, "kernel_waits_in",
				       thread_wait_say(&t->arena, NULL, a->header.pid, h->tid));
		artefact_tell(t->out, &e);
	}
}

/** What the allocator was, and the many small allocations that some cards hang by. */
static void tell_allocator(struct allocations_telling *t)
{
	static const char *const modes[] = { "none", "guard", "pool" };
	const struct allocations *a = t->of;
	const struct alloc_header *h = &a->header;
	const struct alloc_burst *b = allocations_burst(a);
	struct event e;
	if (!allocations_event(t, "allocator", 0, &e))
		return;
	event_add_text(&e, &t->arena, "allocator_mode", str_z(modes[h->mode < ARRAY_SIZE(modes) ? h->mode : 0]));
	if (h->sample > 1 || h->sampling > 1)
		event_add_number(&e, &t->arena, "guard_sampled", h->sampling > h->sample ? h->sampling : h->sample);
	event_add_number(&e, &t->arena, "guard_granularity", h->granularity);
	if (b && b->count >= BURST_LEAST)
		event_add_text(&e, &t->arena, "small_burst", burst_say(&t->arena, b));
	artefact_tell(t->out, &e);
}

// --- what others found ---

/** Who faulted, as far as it is told; empty: nobody says. */
struct fault_user {
	struct str pid, name;
};

void allocations_note(struct allocation_books *b, const struct event *e)
{
	const struct fact *pid = event_fact(e, "pid"), *process = event_fact(e, "process");
	if (!pid)
		return;
	b->user_at = e->at;
	str_copy(b->user_pid, sizeof(b->user_pid), pid->value);
	str_copy(b->user_name, sizeof(b->user_name), process ? process->value : (struct str){ 0 });
}

static struct fault_user fault_user(const struct allocation_books *b, const struct event *e)
{
	enum { LINES = 2 };
	const struct fact *pid = event_fact(e, "pid"), *process = event_fact(e, "process");
	if (pid)
		return (struct fault_user){ pid->value, process ? process->value : (struct str){ 0 } };
	const bool told =
		b->user_at.source == e->at.source && e->at.line > b->user_at.line && e->at.line - b->user_at.line <= LINES;
	return told ? (struct fault_user){ str_z(b->user_pid), str_z(b->user_name) } : (struct fault_user){ 0 };
}

/** Of another container, a number says nothing. */
static bool user_is(const struct fault_user *u, const struct allocations *a)
{
	int64_t n;
	return !a->header.pid_namespace && str_number(u->pid, &n) && n == a->header.pid;
}

/** Several ranks have the same addresses, and no fault is older than its process. */
static bool event_may_be_of(const struct event *e, const struct fault_user *u, const struct allocations *a)
{
	if (e->time.clock == TIME_WALL && e->time.seconds + CLOCKS_APART < (double)a->header.real_ns / 1e9)
		return false;
	return !u->pid.n || a->header.pid_namespace || user_is(u, a);
}

/** When it happened, by the file's clock; 0: nobody knows. What a program prints has no time, and how long before it something was is not known then. */
static uint64_t event_time_in(const struct event *e, const struct allocations *a)
{
	const double since = e->time.clock == TIME_WALL ? e->time.seconds - (double)a->header.real_ns / 1e9 : -1;
	return since > 0 && since < 1e9 ? a->header.boot_ns + (uint64_t)(since * 1e9) : 0;
}

/** Why an address that no row has may be an allocation's; empty: it is none's. A log without a process may be of another run, where the same
 * addresses are others'; one near an allocation is of this run. */
static struct str wild_doubt_say(struct arena *to, const struct fault_user *u, const struct allocations *a, uint64_t distance)
{
	if (a->missing)
		return arena_printf(to, "the guard's list lacks " STR_FMT " allocation%s",
				    STR_ARG(arena_grouped(to, a->missing)), a->missing == 1 ? "" : "s");
	if (a->damage.n)
		return S("the guard's list is damaged");
	return distance > NEAR && !u->pid.n ? S("the log names no process and may be of another run") : (struct str){ 0 };
}

/** How far beside the allocation the page lies; 0: in it. */
static uint64_t beside(const struct allocation_at *at)
{
	const int64_t behind = at->first - (int64_t)at->row->size;
	return at->place == ALLOC_PAST && behind > 0     ? (uint64_t)behind :
	       at->place == ALLOC_BEFORE && at->last < 0 ? (uint64_t)-at->last :
							   0;
}

/** Why an address beside an allocation may be none of its own. @others: so many other processes have lists. */
static struct str near_doubt_say(struct arena *to, const struct fault_user *u, const struct allocations *a,
				 const struct allocation_at *at, size_t others)
{
	const struct str name = str_cut(a->program, 15); // the kernel has no more of it
	if (beside(at) > BESIDE)
		return S("it is so far beside an allocation that an index from any other one could lead there");
	if (user_is(u, a))
		return (struct str){ 0 };
	if (u->pid.n && u->name.n && !str_starts(u->name, name))
		return arena_printf(to, "the log names " STR_FMT ", and the guard's list is of " STR_FMT, STR_ARG(u->name),
				    STR_ARG(a->program));
	if (a->header.state == ALLOC_ENDED && a->header.hip_version < FAULT_RETURNS)
		return S("the process of the guard's list ended in order");
	return others && !u->pid.n ? S("the message does not say which process of the job it was") : (struct str){ 0 };
}

static void add_allocation(struct event *e, struct arena *to, struct allocations *a, const struct allocation_at *at,
			   const struct fault_user *u, size_t others)
{
	static const char *const kinds[] = { [ALLOC_ELSEWHERE] = "wild",
					     [ALLOC_INSIDE] = "inside",
					     [ALLOC_PAST] = "past",
					     [ALLOC_BEFORE] = "before",
					     [ALLOC_FREED] = "freed" };
	const struct alloc_header *h = &a->header;
	const uint32_t every = h->sampling > h->sample ? h->sampling : h->sample;
	const struct str doubt =
		at->place == ALLOC_ELSEWHERE ? wild_doubt_say(to, u, a, at->distance) : near_doubt_say(to, u, a, at, others);
	event_add_text(e, to, "guard", doubt.n ? S("unsure") : str_z(kinds[at->place]));
	event_add_text(e, to, "guard_doubt", doubt);
	if (at->guess)
		event_add_text(e, to, "guard_guess", S("a guess"));
	else if (at->place > ALLOC_INSIDE && !doubt.n)
		event_add_text(e, to, "proof",
			       at->place == ALLOC_FREED ?
				       S("the address lies in memory that the guard keeps unmapped since it was freed") :
				       S("the address lies in the guard's gap"));
	if (every > 1)
		event_add_number(e, to, "guard_sampled", every);
	if (!at->row || (at->place == ALLOC_ELSEWHERE && at->distance > NEAR))
		return; // which one is nearest says nothing
	event_add_text(e, to, "guard_offset", allocation_offset_say(to, at));
	add_row(e, to, a, at->row, event_time_in(e, a));
}

const struct fact *allocations_asked(const struct event *e)
{
	const struct fact *exact = event_fact(e, "effective_address"); // of a wave
	return exact ? exact : event_fact(e, "fault_address");
}

void allocations_add_to(const struct allocation_books *b, struct event *e, struct arena *a)
{
	const struct fact *address = allocations_asked(e);
	struct allocations *best = NULL;
	struct allocation_at found = { 0 };
	const struct fault_user user = fault_user(b, e);
	uint64_t v;
	size_t hits = 0, lists = 0;
	if (!b->list.len || !address || event_fact(e, "guard") || !str_hex(address->value, &v))
		return;
	for (size_t i = 0; i < b->list.len; i++) {
		struct allocations *one = b->list.data[i];
		const struct allocation_at at = allocations_find(one, v);
		const bool known =
			at.row || one->missing || one->damage.n; // one whose rows are all torn knows that it does not know
		if (one->header.mode != ALLOC_MODE_GUARD || !known || !event_may_be_of(e, &user, one))
			continue;
		lists++;
		// A wild address of one process may be an allocation of another.
		if (!best || (found.place == ALLOC_ELSEWHERE && at.place != ALLOC_ELSEWHERE)) {
			best = one;
			found = at;
			hits = 0;
		}
		hits += at.place != ALLOC_ELSEWHERE;
	}
	if (best && hits < 2)
		add_allocation(e, a, best, &found, &user, lists - 1);
}

// --- reading ---

static struct uh_error *allocations_load(const struct source *s, struct str bytes, struct allocations **ret)
{
	struct file f = file_memory(str_z(s->name), bytes);
	if (s->door)
		f = (struct file){ .name = str_z(s->name), .door = s->door, .size = s->size };
	char *copy = f.size <= ALLOCATIONS_MOST ? mem_alloc(f.size + 1) : NULL;
	if (copy && !f.door)
		mem_copy_sparse(copy, bytes.p, bytes.n);
	if (!copy || (f.door && !file_read(&f, 0, copy, f.size))) {
		free(copy);
		return uh_error_new("%s: it could not be read to its end", s->name);
	}
	return allocations_parse(s->name, copy, f.size, ret);
}

static bool allocations_alive(const struct allocations *a, const struct source *s)
{
	char boot[64];
	return s->door && a->header.state == ALLOC_ON && !a->header.pid_namespace && str_eq(source_boot_id(boot), a->boot_id) &&
	       process_user(a->header.pid) == (int64_t)door_what(s->door)->st.st_uid;
}

/** A bundle may have a copy of what lies beside it. */
static bool is_read(const struct allocation_books *b, const struct allocations *a)
{
	for (size_t i = 0; b && i < b->list.len; i++) {
		const struct allocations *old = b->list.data[i];
		if (old->header.pid == a->header.pid && old->header.boot_ns == a->header.boot_ns &&
		    str_eq(old->boot_id, a->boot_id))
			return true;
	}
	return false;
}

struct uh_error *allocations_read(const struct artefact_output *out, const struct source *s, struct str bytes,
				  struct allocation_books *books)
{
	struct allocations *a;
	struct uh_error *err = allocations_load(s, bytes, &a);
	if (err)
		return err;
	if (is_read(books, a)) {
		allocations_free(a);
		return NULL;
	}
	a->alive = allocations_alive(a, s);
	if (a->alive) {
		struct timespec now;
		clock_gettime(CLOCK_BOOTTIME, &now);
		const uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
		a->upto = ns > a->upto ? ns : a->upto;
	}
	struct allocations_telling t = { .out = out, .of = a };
	tell_allocator(&t);
	tell_findings(&t);
	tell_calls(&t);
	arena_free(&t.arena);
	// What is whole was told; that there is no more is not known.
	err = a->damage.n ? uh_error_new("%s: " STR_FMT, s->name, STR_ARG(a->damage)) : NULL;
	if (books && books->list.len < BOOKS_MOST)
		vec_push(&books->list, a);
	else
		allocations_free(a);
	return err;
}

void allocation_books_free(struct allocation_books *b)
{
	for (size_t i = 0; i < b->list.len; i++)
		allocations_free(b->list.data[i]);
	vec_free(&b->list);
}
