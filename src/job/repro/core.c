// The plan of a program, from a GPU's core: the dispatch that its waves ran, and the memory that the core has. A light core has no contents of
// buffers; ROCm's own has all of them.
#include "base/bytes.h"
#include "code/names.h"
#include "evidence/waves/wave_code.h"
#include "gpu/target_code.h"
#include "job/repro/make.h"

/** What is read of a core. */
struct core_plan {
	struct repro_making *m;
	struct target *target;
	struct request map;
	VEC(const struct memory_range *) ranges; // of each buffer
};

/** A wave that stopped, else any. NULL: the core has none. */
static const struct wave *wave_to_blame(struct target *t)
{
	struct request waves = { .kind = REQUEST_WAVES };
	target_ask(t, &waves);
	const struct wave *w = list_find(waves.waves, waves.n, it, it->stop_reasons && it->dispatched);
	return w ? w : list_find(waves.waves, waves.n, it, it->dispatched);
}

/** The dispatch that failed, and how. */
static bool dispatch_to_blame(struct target *t, struct arena *a, struct dispatch *ret, struct repro_failure *f,
			      uint32_t *ret_queue)
{
	static const uint32_t memory = 1u << STOP_MEMORY_VIOLATION | 1u << STOP_ADDRESS_ERROR;
	const struct wave *w = wave_to_blame(t);
	struct request queues = { .kind = REQUEST_QUEUES };
	*f = (struct repro_failure){ .kind = REPRO_HANG, .relation = NEAR_NOWHERE, .argument = -1, .coarse = true };
	target_ask(t, &queues);
	if (w && w->queue && wave_dispatch(t, w, ret)) {
		f->kind = w->stop_reasons & memory ? REPRO_FAULT : w->stop_reasons ? REPRO_ERROR : REPRO_HANG;
		f->said = stop_reasons_text(a, w->stop_reasons);
		*ret_queue = w->queue->id;
		return true;
	}
	for (size_t i = 0; i < queues.n; i++) {
		const struct queue *q = &queues.queues[i];
		if (!q->indexes_known || q->write_index <= q->read_index || !queue_dispatch(t, q, q->read_index, ret))
			continue;
		f->kind = q->exceptions ? REPRO_ERROR : REPRO_HANG;
		*ret_queue = q->id;
		return true;
	}
	return false;
}

/** The buffer that an address lies in; false: none of the GPU's. */
static bool core_buffer_of(struct core_plan *c, uint64_t address, struct repro_pointer *ret)
{
	struct repro_plan *p = c->m->plan;
	const struct memory_range *r =
		list_find(c->map.map, c->map.n, it, it->of_gpu && address >= it->begin && address < it->end);
	if (!r)
		return false;
	const struct memory_range **known = list_find(c->ranges.data, c->ranges.len, it, *it == r);
	ret->buffer = (uint32_t)(known ? (size_t)(known - c->ranges.data) : c->ranges.len);
	ret->offset = (int64_t)(address - r->begin);
	if (known)
		return true;
	const uint64_t bytes = r->end - r->begin;
	vec_push(&c->ranges, r);
	vec_push(&p->steps, ((struct repro_step){ 0, REPRO_ALLOCATE, (uint32_t)p->buffers.len }));
	vec_push(&p->buffers, ((struct repro_buffer){ .address = r->begin, .recorded = bytes, .bytes = bytes }));
	return true;
}

/** As repro_write.read(). */
static bool read_core(const struct repro_write *w, uint64_t at, void *to, size_t size)
{
	return target_contents((struct target *)w->from, w->from_at + at, to, size);
}

static void core_contents(struct core_plan *c, const struct repro_launch *l)
{
	struct repro_plan *p = c->m->plan;
	for (size_t i = 0; i < l->npointers; i++) {
		const uint32_t buffer = l->pointers[i].buffer;
		const struct memory_range *r = c->ranges.data[buffer];
		const bool saved = r->kept && p->user_data;
		if (list_find(p->writes.data, p->writes.len, it, it->buffer == buffer))
			continue;
		vec_push(&p->writes, ((struct repro_write){ .buffer = buffer,
							    .bytes = r->end - r->begin,
							    .fill = saved ? REPRO_SAVED : REPRO_ZEROS,
							    .withheld = r->kept && !saved,
							    .read = read_core,
							    .from = c->target,
							    .from_at = r->begin,
							    .file = (unsigned)p->writes.len }));
		vec_push(&p->steps, ((struct repro_step){ 1, REPRO_WRITE, (uint32_t)p->writes.len - 1 }));
		if (!r->kept)
			repro_leave_out(p, "What buffer %u held: this core does not have it.", buffer);
		else
			repro_leave_out(p, "Buffer %u has what it held after the failure: kernels may have changed it.",
					buffer);
	}
}

static struct uh_error *core_launch(struct core_plan *c, struct target_code *code, const struct dispatch *d, uint32_t queue)
{
	enum { KERNARG_MOST = 64 << 10 };
	struct repro_plan *p = c->m->plan;
	struct loaded *from = target_code_need(code, d->kernel_object);
	const struct code_kernel *k = from ? target_code_kernel(code, d->kernel_object) : NULL;
	if (!k)
		return uh_error_new("the code of the kernel at 0x%llx is not in it: name its file with --code",
				    (unsigned long long)d->kernel_object);
	const uint32_t n = repro_given_bytes(k) < KERNARG_MOST ? repro_given_bytes(k) : KERNARG_MOST;
	char *bytes = arena_alloc(p->arena, n + 1);
	if (n && !target_contents(c->target, d->kernarg, bytes, n))
		return uh_error_new("the arguments of the kernel are not in it");
	const struct str object = from->object->bytes;
	vec_push(&p->objects, ((struct repro_object){ { arena_copy(p->arena, object.p, object.n), object.n },
						      arena_str(p->arena, from->object->gfx),
						      from->base,
						      from->object->abi }));
	struct repro_launch l = { .role = REPRO_FAILS,
				  .queue = queue,
				  .packet = d->packet,
				  .symbol = arena_str(p->arena, k->name),
				  .plain = demangle(p->arena, arena_str(p->arena, k->name)),
				  .lds = d->lds > k->lds ? d->lds - k->lds : 0,
				  .arguments = { bytes, n } };
	memcpy(l.grid, d->grid, sizeof(l.grid));
	memcpy(l.group, d->workgroup, sizeof(l.group));
	struct repro_pointer *list = arena_alloc(p->arena, (n / 8 + 1) * sizeof(*list));
	for (uint32_t at = 0; at + 8u <= n; at += 8) {
		list[l.npointers].at = at;
		if (repro_may_point(k, at) && core_buffer_of(c, get_u64(bytes + at), &list[l.npointers]))
			l.npointers++;
		else if (get_u64(bytes + at) && repro_is_pointer(k, at)) {
			p->unrecorded++;
			repro_leave_out(p,
					"The pointer at byte %u of the arguments is in no buffer of the core: it stays 0x%llx.",
					at, (unsigned long long)get_u64(bytes + at));
		}
	}
	l.pointers = list;
	p->failure.kernel = l.symbol;
	vec_push(&p->launches, l);
	vec_push(&p->steps, ((struct repro_step){ 2, REPRO_LAUNCH, 0 }));
	core_contents(c, &l);
	return NULL;
}

/** `element (model.cpp:7) < gather_rows (model.cpp:14)`: the innermost first; empty: the code has no source lines. */
static struct str lines_say(struct arena *a, struct target_code *code, uint64_t pc)
{
	_cleanup_text_ struct text t = { 0 };
	struct where at = { 0 };
	code_where(&code->set, &pc, 1, -1, &at);
	for (size_t i = 0; i < at.nframes; i++)
		if (at.frames[i].line)
			text_printf(&t, "%s" STR_FMT " (" STR_FMT ":%u)", t.n ? " < " : "", STR_ARG(at.frames[i].function),
				    STR_ARG(str_base(at.frames[i].file)), at.frames[i].line);
	return arena_str(a, text_str(&t));
}

/** The instruction that a wave failed at: an access may be told when the wave has gone on. */
static uint64_t failed_at(const struct know *k, struct target_code *code, const struct wave *w)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct where **at = target_code_waves(code, w, 1, WAVE_CONTEXT);
	struct event *e = arena_alloc(&a, sizeof(*e));
	struct wave stopped = *w;
	int64_t pc;
	stopped.reason = stop_reasons_text(&a, w->stop_reasons);
	if (at[0])
		wave_code_tell(e, &a, &(struct wave_code){ .know = k, .where = at[0], .wave = &stopped });
	const struct fact *access = event_fact(e, "access_pc");
	return access && str_number(access->value, &pc) ? (uint64_t)pc : w->at;
}

void repro_place_of_core(struct repro_making *m, const struct know *k, struct target *core)
{
	struct repro_plan *p = m->plan;
	struct dispatch d;
	struct target_code code;
	const struct wave *w = wave_to_blame(core);
	target_code_open(&code, core, m->places);
	const struct code_kernel *ran =
		w && w->queue && wave_dispatch(core, w, &d) ? target_code_kernel(&code, d.kernel_object) : NULL;
	if (ran && str_eq(ran->name, p->failure.kernel) && !p->redacted && target_code_need(&code, w->at))
		p->failure.code = lines_say(p->arena, &code, failed_at(k, &code, w));
	target_code_close(&code);
}

struct uh_error *repro_from_core(struct repro_making *m, struct target *core)
{
	struct core_plan c = { .m = m, .target = core, .map = { .kind = REQUEST_MAP } };
	struct repro_plan *p = m->plan;
	struct dispatch d;
	struct target_code code;
	uint32_t queue = 0;
	if (!dispatch_to_blame(core, p->arena, &d, &p->failure, &queue))
		return uh_error_new("it has no kernel that ran or waits");
	p->program = core->process;
	target_ask(core, &c.map);
	target_code_open(&code, core, m->places);
	struct uh_error *err = core_launch(&c, &code, &d, queue);
	target_code_close(&code);
	vec_free(&c.ranges);
	repro_leave_out(p, "The launches before it: a core does not tell of them. A recording does.");
	repro_order(p);
	return err;
}
