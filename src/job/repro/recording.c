// The plan of a program, from a recording: the launch that failed, those before it that used its buffers, and these buffers.
#include <stdlib.h>

#include "base/bytes.h"
#include "job/repro/make.h"

enum {
	ARGUMENTS_LEAST_POINTER = 1 << 16, // addresses below it are nobody's
	BEHIND_MOST = 64 << 10,            // bytes behind a buffer that still belong to it
};

void repro_leave_out(struct repro_plan *p, const char *format, ...)
{
	_cleanup_text_ struct text t = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&t, format, ap);
	va_end(ap);
	if (!list_find(p->left_out.data, p->left_out.len, it, str_eq(*it, text_str(&t))))
		vec_push(&p->left_out, arena_str(p->arena, text_str(&t)));
}

void repro_plan_free(struct repro_plan *p)
{
	vec_free(&p->objects);
	vec_free(&p->buffers);
	vec_free(&p->writes);
	vec_free(&p->launches);
	vec_free(&p->steps);
	vec_free(&p->left_out);
}

static int by_step(const void *a, const void *b)
{
	const struct repro_step *x = a, *y = b;
	return x->time != y->time ? (x->time < y->time ? -1 : 1) :
	       x->act != y->act   ? (int)x->act - (int)y->act :
				    (x->index > y->index) - (x->index < y->index);
}

void repro_order(struct repro_plan *p)
{
	if (p->steps.len)
		qsort(p->steps.data, p->steps.len, sizeof(p->steps.data[0]), by_step);
}

// --- how it failed ---

/** The argument of a packet whose pointer lies in an allocation, or right behind it; -1: none does. */
static int64_t argument_near(const struct flight_recording *r, const struct recorded_packet *p,
			     const struct recorded_allocation *of)
{
	for (uint32_t at = 0;
	     p && p->arguments && p->arguments->state == REC_ARGUMENTS_COPIED && at + 8u <= p->arguments->copied; at += 8) {
		const uint64_t word = get_u64(p->argument_bytes + at);
		if (word >= ARGUMENTS_LEAST_POINTER && recording_near(r, word, p->raw.time, 0).allocation == of)
			return at;
	}
	return -1;
}

/** Without names and threads, which a bug report need not have. */
static struct str place_say(struct arena *a, const struct repro_failure *f, uint64_t size)
{
	static const char *const places[] = {
		[NEAR_INSIDE] = "at byte %llu of a buffer of %llu bytes",
		[NEAR_FREED] = "at byte %llu of a buffer of %llu bytes that was freed",
		[NEAR_PAST] = "%llu bytes past the end of a buffer of %llu bytes",
		[NEAR_BEFORE] = "%llu bytes before a buffer of %llu bytes",
	};
	if (f->relation == NEAR_PAST && !f->distance)
		return arena_printf(a, "at the first byte past the end of a buffer of %llu bytes", (unsigned long long)size);
	if (f->relation == NEAR_NOWHERE)
		return arena_printf(a, "at 0x%llx, near no buffer", (unsigned long long)f->address);
	return arena_printf(a, places[f->relation], (unsigned long long)f->distance, (unsigned long long)size);
}

bool repro_failure_of(const struct flight_recording *r, struct arena *a, struct repro_failure *ret)
{
	struct accused s;
	if (!recording_accuse(r, &s))
		return false;
	*ret = (struct repro_failure){ .kind = !s.fault                    ? REPRO_HANG :
					       s.fault->call == CALL_FAULT ? REPRO_FAULT :
									     REPRO_ERROR,
				       .relation = NEAR_NOWHERE,
				       .argument = -1 };
	if (s.packet && s.packet->kernel)
		ret->kernel = arena_str(a, s.packet->kernel->name);
	if (ret->kind == REPRO_ERROR)
		ret->status = s.fault->a[1];
	if (ret->kind != REPRO_FAULT)
		return true;
	const struct nearby n = recording_near(r, s.fault->a[0], s.fault->time, s.fault->a[2]);
	ret->address = s.fault->a[0];
	ret->relation = n.relation;
	ret->distance = n.distance;
	ret->argument = n.allocation ? argument_near(r, s.packet, n.allocation) : -1;
	ret->said = place_say(a, ret, n.allocation ? n.allocation->size : 0);
	return true;
}

/** Which of the waves beyond a buffer faults first is chance, how far they are beyond it is not. */
static bool distance_alike(uint64_t a, uint64_t b)
{
	const uint64_t near = a < b ? a : b, far = a < b ? b : a;
	return far < BEHIND_MOST || far / 4 <= near;
}

bool repro_alike(const struct repro_failure *a, const struct repro_failure *b)
{
	enum { PAGE_BITS = 12 };
	if (a->kind != b->kind || !str_eq(a->kernel, b->kernel))
		return false;
	if (a->coarse || b->coarse)
		return true;
	if (a->status != b->status || a->relation != b->relation)
		return false;
	if ((a->relation == NEAR_PAST || a->relation == NEAR_BEFORE) && !distance_alike(a->distance, b->distance))
		return false;
	// An address that belongs to no buffer was in the arguments, or came of them, as it is.
	return a->kind != REPRO_FAULT ||
	       (a->relation == NEAR_NOWHERE ? a->address >> PAGE_BITS == b->address >> PAGE_BITS : a->argument == b->argument);
}

// --- buffers ---

static bool host_pool(const struct repro_making *m, const struct recorded_allocation *of)
{
	const struct recorded_agent *agent = of->pool ? recording_agent(m->r, of->pool->agent) : NULL;
	return of->call == CALL_LOCK || (agent && !agent->gpu);
}

/** The number of its buffer, which is made where there is none; UINT32_MAX: there are too many. */
static uint32_t buffer_number(struct repro_making *m, const struct recorded_allocation *of)
{
	struct repro_plan *p = m->plan;
	const struct recorded_allocation **known = list_find(m->allocations.data, m->allocations.len, it, *it == of);
	if (known)
		return (uint32_t)(known - m->allocations.data);
	if (m->allocations.len == REPRO_BUFFERS_MOST)
		return UINT32_MAX;
	const uint32_t number = (uint32_t)p->buffers.len;
	const bool plain = of->call == CALL_POOL_ALLOCATE || of->call == CALL_ALLOCATE;
	vec_push(&m->allocations, of);
	vec_push(&p->buffers, ((struct repro_buffer){ .address = of->begin,
						      .recorded = of->size,
						      .bytes = of->size,
						      .host = host_pool(m, of),
						      .was = plain ? (struct str){ 0 } : str_z(call_noun(of->call)) }));
	vec_push(&p->steps, ((struct repro_step){ of->born, REPRO_ALLOCATE, number }));
	if (!plain)
		repro_leave_out(p, "A buffer was %s; the program takes it from %s.", call_noun(of->call),
				p->buffers.data[number].host ? "hipHostMalloc" : "hipMalloc");
	return number;
}

bool repro_buffer_of(struct repro_making *m, uint64_t address, uint64_t time, struct repro_pointer *ret)
{
	const struct nearby n =
		address >= ARGUMENTS_LEAST_POINTER ? recording_near(m->r, address, time, 0) : (struct nearby){ NEAR_NOWHERE };
	if (!n.allocation || !n.allocation->size || (n.relation == NEAR_PAST && n.distance >= BEHIND_MOST) ||
	    n.relation == NEAR_BEFORE || n.relation == NEAR_NOWHERE)
		return false;
	ret->buffer = buffer_number(m, n.allocation);
	ret->offset = (int64_t)(address - n.allocation->begin);
	return ret->buffer != UINT32_MAX;
}

/** What was freed before @launched is freed in the program; and what the GPU found to be freed, though the recording has it a little later. */
static void add_releases(struct repro_making *m, uint64_t launched, const struct accused *s)
{
	const struct nearby n = s->fault && s->fault->call == CALL_FAULT ?
					recording_near(m->r, s->fault->a[0], s->fault->time, s->fault->a[2]) :
					(struct nearby){ NEAR_NOWHERE };
	for (uint32_t i = 0; i < m->allocations.len; i++) {
		const struct recorded_allocation *of = m->allocations.data[i];
		const bool met = n.relation == NEAR_FREED && n.allocation == of;
		if (!of->died || (of->died > launched && !met))
			continue;
		m->plan->buffers.data[i].freed = true;
		vec_push(&m->plan->steps, ((struct repro_step){ of->died < launched ? of->died : launched, REPRO_RELEASE, i }));
	}
}

// --- launches ---

static bool launch_hidden(const struct code_argument *a) { return str_starts(a->value_kind, S("hidden_")); }

bool repro_may_point(const struct code_kernel *k, uint32_t at)
{
	for (size_t i = 0; i < k->narguments; i++) {
		const struct code_argument *c = &k->arguments[i];
		if (!launch_hidden(c) && at >= c->offset && at + 8u <= c->offset + c->size)
			return c->size > 8 || str_is(c->value_kind, "global_buffer") || str_is(c->value_kind, "by_value");
	}
	return !k->narguments;
}

bool repro_is_pointer(const struct code_kernel *k, uint32_t at)
{
	return list_find(k->arguments, k->narguments, it, it->offset == at && str_is(it->value_kind, "global_buffer"));
}

static void add_pointers(struct repro_making *m, struct repro_launch *l, const struct code_kernel *k, uint64_t time)
{
	struct repro_pointer *list = arena_alloc(m->plan->arena, (l->arguments.n / 8 + 1) * sizeof(*list));
	for (uint32_t at = 0; at + 8u <= l->arguments.n; at += 8) {
		const uint64_t word = get_u64(l->arguments.p + at);
		if (!repro_may_point(k, at))
			continue;
		list[l->npointers].at = at;
		if (repro_buffer_of(m, word, time, &list[l->npointers]))
			l->npointers++;
		else if (word && repro_is_pointer(k, at))
			repro_leave_out(m->plan,
					"The pointer at byte %u of the arguments of " STR_FMT
					" is in no recorded buffer: it stays 0x%llx.",
					at, STR_ARG(l->plain), (unsigned long long)word);
	}
	l->pointers = list;
}

uint32_t repro_given_bytes(const struct code_kernel *k)
{
	uint32_t n = 0;
	for (size_t i = 0; i < k->narguments; i++)
		if (!launch_hidden(&k->arguments[i]) && k->arguments[i].offset + k->arguments[i].size > n)
			n = k->arguments[i].offset + k->arguments[i].size;
	return k->narguments ? n : k->kernarg_size;
}

static struct str arguments_given(struct repro_making *m, const struct recorded_packet *p, const struct code_kernel *k)
{
	enum { KERNARG_MOST = 64 << 10 };
	const uint32_t wanted = repro_given_bytes(k) < KERNARG_MOST ? repro_given_bytes(k) : KERNARG_MOST;
	const uint32_t copied = p->arguments->copied < wanted ? p->arguments->copied : wanted;
	char *bytes = arena_alloc(m->plan->arena, wanted + 1);
	memcpy(bytes, p->argument_bytes, copied);
	if (copied < wanted)
		repro_leave_out(m->plan,
				"Of the arguments of " STR_FMT
				" only %u of %u bytes were recorded, the rest is 0: set UNHANG_ARGUMENT_BYTES=%u.",
				STR_ARG(packet_say(m->plan->arena, p)), copied, wanted, wanted);
	return (struct str){ bytes, wanted };
}

/** Why the arguments of a packet are not there; NULL: they are. */
static const char *arguments_missing(const struct recorded_packet *p)
{
	static const char *const why[] = {
		[REC_ARGUMENTS_IN_VRAM] = "they were in VRAM: record with HIP_FORCE_DEV_KERNARG=0",
		[REC_ARGUMENTS_UNKNOWN] = "the runtime knows of no memory there",
		[REC_ARGUMENTS_LEFT_OUT] = "UNHANG_INCLUDE or UNHANG_EXCLUDE left them out",
	};
	if (!p->arguments)
		return "record at level 3 or above";
	if (p->arguments->state == REC_ARGUMENTS_COPIED)
		return NULL;
	return p->arguments->state < ARRAY_SIZE(why) && why[p->arguments->state] ? why[p->arguments->state] :
										   "they are not known";
}

/** The runtime launches kernels of its own, for copies and fills, in larger groups than it lets a program. */
static bool too_large(const struct recorded_packet *p, const struct code_kernel *k)
{
	return k->max_workgroup && (uint64_t)p->group[0] * p->group[1] * p->group[2] > k->max_workgroup;
}

/** Adds a launch. false: it cannot be one of the program, which is noted. */
static bool add_launch(struct repro_making *m, const struct recorded_queue *q, const struct recorded_packet *p,
		       enum repro_role role)
{
	struct repro_plan *plan = m->plan;
	const struct str plain = packet_say(plan->arena, p);
	const char *missing = arguments_missing(p);
	if (!p->kernel || missing) {
		repro_leave_out(plan, "The launch of " STR_FMT ": its %s.", STR_ARG(plain),
				p->kernel ? arena_printf(plan->arena, "arguments are missing (%s)", missing).p :
					    "kernel is not known");
		return false;
	}
	const struct repro_code *code = repro_code_of(m, p->kernel);
	const struct code_kernel *k = code && code->object ? list_find(code->object->kernels, code->object->nkernels, it,
								       str_eq(it->name, p->kernel->name)) :
							     NULL;
	if (!k)
		return false;
	if (too_large(p, k)) {
		repro_leave_out(plan, "The launch of " STR_FMT ": only the runtime may launch it in groups so large.", STR_ARG(plain));
		return false;
	}
	const uint32_t lds = p->arguments->lds_words * 4u;
	struct repro_launch l = { .role = role,
				  .object = code->number,
				  .queue = q->id,
				  .packet = p->id,
				  .symbol = p->kernel->name,
				  .plain = plain,
				  .grid = { p->raw.grid[0], p->raw.grid[1], p->raw.grid[2] },
				  .group = { p->group[0], p->group[1], p->group[2] },
				  .lds = lds > k->lds ? lds - k->lds : 0,
				  .arguments = arguments_given(m, p, k),
				  .told = plan->redacted ? (struct str){ 0 } : packet_arguments_say(plan->arena, m->r, p) };
	add_pointers(m, &l, k, p->raw.time);
	vec_push(&plan->launches, l);
	vec_push(&plan->steps, ((struct repro_step){ p->raw.time, REPRO_LAUNCH, (uint32_t)plan->launches.len - 1 }));
	repro_contents(m, (uint32_t)plan->launches.len - 1, p->raw.time);
	return true;
}

static bool shares_buffer(struct repro_making *m, const struct recorded_packet *p)
{
	for (uint32_t at = 0; p->arguments && p->arguments->state == REC_ARGUMENTS_COPIED && at + 8u <= p->arguments->copied;
	     at += 8) {
		const uint64_t word = get_u64(p->argument_bytes + at);
		const struct nearby n = word >= ARGUMENTS_LEAST_POINTER ? recording_near(m->r, word, p->raw.time, 0) :
									  (struct nearby){ NEAR_NOWHERE };
		if (n.relation == NEAR_INSIDE && list_find(m->allocations.data, m->allocations.len, it, *it == n.allocation))
			return true;
	}
	return false;
}

/** A launch of the recording, and its queue. */
struct launched {
	const struct recorded_queue *queue;
	const struct recorded_packet *packet;
};

static int by_latest(const void *a, const void *b)
{
	const struct launched *x = a, *y = b;
	return x->packet->raw.time != y->packet->raw.time ? (x->packet->raw.time < y->packet->raw.time ? 1 : -1) : 0;
}

/** The newest launches before @upto that used a buffer which the program has by now. */
static void add_earlier(struct repro_making *m, const struct recorded_packet *upto)
{
	VEC(struct launched) found = { 0 };
	for (size_t i = 0; i < m->r->nqueues; i++)
		for (size_t k = 0; k < m->r->queues[i].n; k++) {
			const struct recorded_packet *p = &m->r->queues[i].packets[k];
			if (p->kind == PACKET_DISPATCH && p->kernel && p->raw.time < upto->raw.time &&
			    p->progress <= PROGRESS_TAKEN && shares_buffer(m, p))
				vec_push(&found, ((struct launched){ &m->r->queues[i], p }));
		}
	if (found.len)
		qsort(found.data, found.len, sizeof(found.data[0]), by_latest);
	size_t left = m->options->before, i = 0;
	for (; i < found.len && left; i++)
		left -= add_launch(m, found.data[i].queue, found.data[i].packet, REPRO_EARLIER);
	if (i < found.len) {
		repro_leave_out(m->plan, "%zu earlier launches that used the same buffers; --before %zu adds them.",
				found.len - i, found.len);
		m->plan->earlier = m->plan->left_out.data[m->plan->left_out.len - 1];
	}
	vec_free(&found);
}

/** What was on the GPU at the same time: the first packet of each other queue that has not ended, if it shares a buffer, or if nobody knows
 * which of them failed. */
static void add_beside(struct repro_making *m, const struct accused *s)
{
	uint32_t stream = 0;
	for (size_t i = 0; i < m->r->nqueues; i++) {
		const struct recorded_queue *q = &m->r->queues[i];
		const struct recorded_packet *p = list_find(q->packets, q->n, it, it->progress > PROGRESS_TAKEN);
		if (!p || p->kind != PACKET_DISPATCH || p == s->packet || (s->packet && !shares_buffer(m, p)))
			continue;
		if (add_launch(m, q, p, s->packet ? REPRO_BESIDE : REPRO_FAILS))
			m->plan->launches.data[m->plan->launches.len - 1].stream = s->packet ? ++stream : stream++;
	}
}

struct uh_error *repro_from_recording(struct repro_making *m)
{
	struct accused s;
	struct repro_plan *p = m->plan;
	if (!recording_accuse(m->r, &s) || !repro_failure_of(m->r, p->arena, &p->failure))
		return uh_error_new("it shows no fault, no error of a queue, and no kernel that hangs");
	p->program = m->r->program;
	if (s.packet)
		add_launch(m, s.queue, s.packet, REPRO_FAILS);
	if (!s.packet || p->launches.len)
		add_beside(m, &s);
	if (!p->launches.len)
		return uh_error_new("the failing launch cannot be made a program. " STR_FMT,
				    STR_ARG(p->left_out.len ? p->left_out.data[0] : S("It is not recorded.")));
	if (!s.packet && p->launches.len > 1)
		repro_leave_out(p, "Which of %zu kernels failed is not known: the program launches them all.", p->launches.len);
	const struct recorded_packet *first = s.packet;
	uint64_t launched = s.packet ? s.packet->raw.time : s.since;
	if (first)
		add_earlier(m, first);
	add_releases(m, launched, &s);
	repro_order(p);
	return NULL;
}
