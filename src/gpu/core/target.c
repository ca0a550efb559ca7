// A core as a target: a GPU's own (gpucore.PID), its process's, or one that holds both.
#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "gpu/core/core.h"
#include "gpu/process/memory.h"

enum {
	XCCS_MOST = 64,
	WAVES_MOST = 1 << 20,
	WAVES_BYTES = 256 << 20, // of save areas: a limit for damaged cores that refer to the same bytes again and again
	RUNTIME_ENABLED = 1,
	SHIFT_MOST = 16,
	SHIFT_SEGMENTS = 4096, // how many are looked at to tell whether they are shifted
};

struct core_target {
	struct target target;
	const struct know *know;
	struct arena arena;
	struct core core;
	struct core_note note;
	int runtime_version; // 0: r_debug is not in the core
	bool waves_read, code_read;
	VEC(struct wave) waves;
	struct runtime_list list;
	VEC(struct memory_range) map;
	struct queue *reading; // whose waves are being read
	size_t bytes_read;     // of save areas
};

/** For save areas. */
static bool read_saved(void *ctx, uint64_t address, void *to, size_t size)
{
	struct core_target *t = ctx;
	if (size > WAVES_BYTES - t->bytes_read) {
		t->bytes_read = WAVES_BYTES;
		return false;
	}
	t->bytes_read += size;
	return core_read(&t->core, address, to, size);
}

// --- the runtime's list of code objects ---

static bool core_target_read_core(void *ctx, uint64_t address, void *to, size_t size)
{
	return core_read(&((struct core_target *)ctx)->core, address, to, size);
}

static void core_target_note_list(void *ctx, const char *message)
{
	core_problem(&((struct core_target *)ctx)->core, "%s", message);
}

// --- waves ---

static void note_odd(void *ctx, const char *message)
{
	struct core_target *t = ctx;
	core_problem(&t->core, "queue %u: %s", t->reading->id, message);
}

static void take_wave(void *ctx, const struct wave *w)
{
	struct core_target *t = ctx;
	const struct queue *q = w->queue;
	if (t->waves.len == WAVES_MOST)
		return;
	struct wave mine = *w;
	mine.id = t->waves.len + 1;
	// Without the runtime's version it is not known whether stopped waves are parked; then the pc that lies in memory is the wave's.
	const uint64_t own = w->hwregs[w->layout->pc_lo] | (uint64_t)w->hwregs[w->layout->pc_hi] << 32;
	if (w->parked && !t->runtime_version && !core_segment_at(&t->core, w->pc) && core_segment_at(&t->core, own)) {
		mine.parked = false;
		mine.pc = own;
	}
	// A wave that stopped at a trap stands on it or behind it, depending on the age of the runtime's trap handler.
	char here[4], before[4];
	const uint64_t trap = w->layout->numbers[NUMBER_TRAP_INSTRUCTION] << 16 | w->trap;
	const bool behind = w->trap && core_read(&t->core, mine.pc, here, 4) && get_u32(here) != trap &&
			    core_read(&t->core, mine.pc - 4, before, 4) && get_u32(before) == trap;
	mine.at = behind ? mine.pc - 4 : mine.pc;
	mine.dispatched = mine.placed && mine.packet < q->ring_size / AQL_PACKET;
	if (mine.dispatched) {
		mine.packet = queue_whole_packet(q, mine.packet);
		if (q->indexes_known && (mine.packet < q->read_index || mine.packet >= q->write_index))
			note_odd(t, "a packet of its waves lies outside of its read and write index");
	} else if (mine.placed) {
		note_odd(t, "the packet of a wave lies outside of its ring");
	}
	vec_push(&t->waves, mine);
	t->reading->nwaves++;
}

static struct save_area area_of(struct core_target *t, const struct queue *q, const struct wave_layout *l)
{
	return (struct save_area){ .queue = q,
				   .layout = l,
				   .runtime_version = t->runtime_version,
				   .ttmps_set_up =
					   t->note.ttmps_set_up || (q->agent && q->agent->debug_properties & DEBUG_TTMPS),
				   .read = read_saved,
				   .wave = take_wave,
				   .odd = note_odd,
				   .ctx = t };
}

static void queue_problem(struct core_target *t, struct queue *q, struct uh_error *error)
{
	_cleanup_error_ struct uh_error *err = error;
	if (!q->problem.n)
		q->problem = arena_str(&t->arena, str_z(uh_error_message(err)));
	else
		core_problem(&t->core, "%s", uh_error_message(err));
}

static bool waves_enough(const struct core_target *t) { return t->waves.len == WAVES_MOST || t->bytes_read == WAVES_BYTES; }

static void read_queue_waves(struct core_target *t, struct queue *q)
{
	const struct wave_layout *layout = NULL;
	struct uh_error *err = NULL;
	t->reading = q;
	if (q->type != QUEUE_AQL)
		return;
	if (!q->agent)
		err = uh_error_new("queue %u belongs to a GPU that the core does not describe", q->id);
	else if (!q->save_area && !t->note.kfd_major)
		err = uh_error_new("queue %u: its waves are not in the core, since the driver did not tell its writer of them",
				   q->id);
	else if (!q->save_area)
		err = uh_error_new("queue %u has no save area: its GPU does not save waves (CWSR is off)", q->id);
	else if (!(err = layout_for(&t->arena, t->know, q->agent->gfx, &layout)) && !layout)
		err = uh_error_new("queue %u: how " STR_FMT " (version %u) saves its waves is not known", q->id,
				   STR_ARG(q->agent->gfx), q->agent->target_version);
	else if (!err && q->agent->xccs > XCCS_MOST)
		err = uh_error_new("queue %u: a GPU with %u XCCs", q->id, q->agent->xccs);
	if (err) {
		queue_problem(t, q, err);
		return;
	}
	struct save_area area = area_of(t, q, layout);
	unsigned xccs = q->agent->xccs ? q->agent->xccs : 1;
	for (unsigned i = 0; i < xccs && !waves_enough(t); i++)
		if ((err = save_area_read(&area, i)))
			queue_problem(t, q, err);
}

static void read_waves(struct core_target *t)
{
	if (t->waves_read)
		return;
	t->waves_read = true;
	t->bytes_read = 0;
	for (size_t i = 0; i < t->note.nqueues && !waves_enough(t); i++)
		read_queue_waves(t, &t->note.queues[i]);
	if (waves_enough(t))
		core_problem(&t->core, "more than %d waves, or %d MB of them: the rest is not read", WAVES_MOST,
			     WAVES_BYTES >> 20);
}

static void core_target_read_indexes(struct core_target *t)
{
	for (size_t i = 0; i < t->note.nqueues; i++) {
		struct queue *q = &t->note.queues[i];
		char r[8], w[8];
		q->indexes_known = q->read_address && q->write_address && core_read(&t->core, q->read_address, r, 8) &&
				   core_read(&t->core, q->write_address, w, 8);
		q->read_index = q->indexes_known ? get_u64(r) : 0;
		q->write_index = q->indexes_known ? get_u64(w) : 0;
	}
}

// --- cores whose bytes lie before the place that their headers name ---

static unsigned plausible_areas(struct core_target *t)
{
	unsigned n = 0;
	for (size_t i = 0; i < t->note.nqueues; i++) {
		struct queue *q = &t->note.queues[i];
		struct save_area area = area_of(t, q, NULL);
		n += q->type == QUEUE_AQL && q->save_area && save_area_plausible(&area, 0);
	}
	return n;
}

/** How many queues have plausible indexes. Queues that were never used tell nothing. */
static unsigned plausible_indexes(struct core_target *t)
{
	unsigned n = 0;
	core_target_read_indexes(t);
	for (size_t i = 0; i < t->note.nqueues; i++) {
		const struct queue *q = &t->note.queues[i];
		n += q->write_index && q->read_index <= q->write_index && q->write_index - q->read_index <= q->ring_size / 64;
	}
	return n;
}

/** Segments of @file whose bytes begin as an ELF file does: code objects lie on page boundaries. */
static unsigned elf_segments(const struct core_target *t, unsigned file, unsigned shift)
{
	unsigned n = 0;
	const struct core *c = &t->core;
	for (size_t i = 0; i < c->segments.len && i < SHIFT_SEGMENTS; i++) {
		const struct core_segment *s = &c->segments.data[i];
		char magic[4];
		n += s->file == file && s->kept >= 64 && file_read(&c->files[file].file, s->offset - shift, magic, 4) &&
		     !memcmp(magic, "\177ELF", 4);
	}
	return n;
}

/** The gap before the first segment tells, then code objects, then queues. */
static bool is_shifted(struct core_target *t, unsigned file, unsigned shift)
{
	struct core_file *f = &t->core.files[file];
	char gap[SHIFT_MOST];
	if (f->end == f->file.size + shift || !file_read(&f->file, f->notes_end, gap, shift) || !mem_zero(gap, shift))
		return true;
	unsigned elf = elf_segments(t, file, 0), elf_shifted = elf_segments(t, file, shift);
	if (elf != elf_shifted)
		return elf_shifted > elf;
	unsigned plausible = plausible_areas(t) + plausible_indexes(t);
	f->shift = shift;
	unsigned plausible_shifted = plausible_areas(t) + plausible_indexes(t);
	f->shift = 0;
	return plausible_shifted > plausible;
}

/** Some versions of ROCr write the segments one behind the other but round up the offsets that their headers name. */
static void find_shift(struct core_target *t)
{
	for (unsigned i = 0; i < t->core.nfiles; i++) {
		struct core_file *f = &t->core.files[i];
		if (!f->of_gpu || f->loads_at <= f->notes_end || f->loads_at - f->notes_end >= SHIFT_MOST)
			continue;
		unsigned shift = (unsigned)(f->loads_at - f->notes_end);
		if (!is_shifted(t, i, shift))
			continue;
		f->shift = shift;
		core_problem(&t->core,
			     STR_FMT ": its writer (ROCr) put all memory %u bytes before the offsets in its headers; read so",
			     STR_ARG(f->file.name), shift);
	}
}

// --- the map ---

static void core_target_read_map(struct core_target *t)
{
	const struct core *c = &t->core;
	if (t->map.len)
		return;
	for (size_t i = 0; i < c->segments.len; i++) {
		const struct core_segment *s = &c->segments.data[i];
		const struct core_mapping *m = core_mapping_at(c, s->address);
		struct memory_range r = { .begin = s->address, .end = s->address + s->size, .kept = s->kept };
		r.path = m ? m->path : (struct str){ 0 };
		r.of_gpu = c->files[s->file].of_gpu || str_starts(r.path, S("/dev/dri/render")) || str_is(r.path, "/dev/kfd");
		// The process's core knows the same range, without its bytes.
		struct memory_range *last = t->map.len ? &t->map.data[t->map.len - 1] : NULL;
		if (last && last->begin == r.begin && last->end == r.end) {
			last->of_gpu |= r.of_gpu;
			last->kept |= r.kept;
			last->path = last->path.n ? last->path : r.path;
		} else {
			vec_push(&t->map, r);
		}
	}
}

// --- the target ---

static void core_target_ask(struct target *target, struct request *requests, size_t n)
{
	struct core_target *t = (struct core_target *)target;
	for (struct request *r = requests; r < requests + n; r++) {
		r->answer = ANSWER_GIVEN;
		switch (r->kind) {
		case REQUEST_AGENTS:
			r->agents = t->note.agents;
			r->n = t->note.nagents;
			break;
		case REQUEST_QUEUES:
			read_waves(t); // they are counted
			r->queues = t->note.queues;
			r->n = t->note.nqueues;
			break;
		case REQUEST_WAVES:
			read_waves(t);
			r->waves = t->waves.data;
			r->n = t->waves.len;
			break;
		case REQUEST_CODE:
			if (!t->code_read)
				runtime_list_read(&t->list);
			t->code_read = true;
			r->code = t->list.code.data;
			r->n = t->list.code.len;
			r->answer = t->runtime_version ? ANSWER_GIVEN : ANSWER_ABSENT;
			break;
		case REQUEST_MAP:
			core_target_read_map(t);
			r->map = t->map.data;
			r->n = t->map.len;
			break;
		case REQUEST_MEMORY:
			if (!core_read(&t->core, r->address, r->to, r->size))
				r->answer = ANSWER_ABSENT;
			break;
		case REQUEST_WAVE_REGISTERS:
		case REQUEST_REGISTER:
		case REQUEST_RINGS:
		case REQUEST_FENCES:
			r->answer = ANSWER_ABSENT;
			break;
		}
	}
}

static struct str core_target_problems(struct target *target)
{
	return text_str(&((struct core_target *)target)->core.problems);
}

static void core_target_close(struct target *target)
{
	struct core_target *t = (struct core_target *)target;
	core_close(&t->core);
	vec_free(&t->waves);
	vec_free(&t->list.code);
	vec_free(&t->map);
	arena_free(&t->arena);
	free(t);
}

/** What the note and the memory together say, and what a lone core of a GPU lacks. */
static void core_target_begin(struct core_target *t)
{
	bool gpu = false, host = false;
	core_ready(&t->core);
	t->target.name = t->core.files[0].file.name;
	for (size_t i = 0; i < t->core.nfiles; i++) {
		const struct core_file *f = &t->core.files[i];
		t->target.pid = f->pid ? f->pid : t->target.pid;
		t->target.process = f->program.n ? f->program : t->target.process;
		gpu |= f->of_gpu;
		host |= !f->of_gpu;
	}
	find_shift(t);
	t->list = (struct runtime_list){ .read = core_target_read_core,
					 .odd = core_target_note_list,
					 .ctx = t,
					 .arena = &t->arena,
					 .r_debug = t->note.r_debug };
	t->runtime_version = runtime_list_version(&t->list);
	t->target.kfd_major = t->note.kfd_major;
	t->target.kfd_minor = t->note.kfd_minor;
	t->target.runtime_version = t->runtime_version;
	t->target.runtime_enabled = t->note.runtime_state == RUNTIME_ENABLED;
	core_target_read_indexes(t);
	if (t->note.runtime_state != RUNTIME_ENABLED && t->note.kfd_major)
		core_problem(&t->core, "the runtime had not prepared the GPU for debuggers (state %u)", t->note.runtime_state);
	if (gpu && !host && !t->runtime_version && t->note.nqueues)
		core_problem(
			&t->core,
			"this GPU core lacks the memory of its process: the list of code objects%s. Give the process's "
			"core too (unhang explain gpucore.PID core.PID; coredumpctl dump PID writes it), or merge them with "
			"AMD's roccoremerge",
			plausible_areas(t) ? "" : ", and the area that the waves were saved to");
}

struct uh_error *target_parsed_core(const struct know *k, struct core *c, struct target **ret)
{
	struct core_target *t = mem_alloc(sizeof(*t));
	t->know = k;
	t->target = (struct target){
		.kind = "gpu-core", .ask = core_target_ask, .problems = core_target_problems, .close = core_target_close
	};
	t->core = *c;
	*c = (struct core){ 0 };
	struct uh_error *err =
		t->core.gpu_note.p ?
			core_note_parse(&t->arena, t->core.gpu_note, t->core.gpu_note_at, &t->note) :
			uh_error_new(STR_FMT ": a core without GPU state (no AMDGPU note); that is in gpucore.PID, in the "
					     "directory in which the program ran",
				     STR_ARG(t->core.files[0].file.name));
	if (err) {
		core_target_close(&t->target);
		return err;
	}
	core_target_begin(t);
	*ret = &t->target;
	return NULL;
}

struct uh_error *target_core(const struct know *k, const struct file *files, size_t n, struct target **ret)
{
	struct core c = { 0 };
	struct uh_error *err = NULL;
	size_t taken = 0;
	while (taken < n && !(err = core_add(&c, &files[taken])))
		taken++;
	if (!err)
		return target_parsed_core(k, &c, ret);
	for (size_t i = taken; i < n; i++)
		file_close(&(struct file){ .door = files[i].door });
	core_close(&c);
	return err;
}
