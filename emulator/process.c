// Processes that compute: what a scenario says of them, and their memory, which they fill themselves.
#include "emulator/machine.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/cleanup.h"

enum {
	AMD_QUEUE_BASE = 0x8,
	AMD_QUEUE_SIZE = 0x18,
	AMD_QUEUE_ID = 0x20,
	AMD_QUEUE_WRITE = 0x38,
	AMD_QUEUE_READ = 0x80,
};

// --- statements ---

static struct emu_process_queue *queue_of(const struct emu_process *p, unsigned id)
{
	for (size_t i = 0; i < p->machine->queues.len; i++)
		if (p->machine->queues.data[i].facts.process == p && p->machine->queues.data[i].facts.id == id)
			return &p->machine->queues.data[i];
	return NULL;
}

static bool read_place(struct cursor *c, struct emu_process_queue *q)
{
	struct str word = cursor_word(c), rest = word;
	unsigned *numbers[] = { &q->facts.me, &q->facts.pipe, &q->facts.queue };
	for (size_t i = 0; i < 3; i++) {
		uint64_t v;
		if (!emu_number_of(str_split(&rest, '.'), &v) || v > 255)
			return emu_wrong(c, "'" STR_FMT "' is no place ME.PIPE.QUEUE", STR_ARG(str_cut(word, 80)));
		*numbers[i] = (unsigned)v;
	}
	q->placed = true;
	return !rest.n || emu_wrong(c, "'" STR_FMT "' is no place ME.PIPE.QUEUE", STR_ARG(str_cut(word, 80)));
}

static bool read_type(struct cursor *c, struct emu_process_queue *q)
{
	struct str word = cursor_word(c);
	q->facts.sdma = str_is(word, "sdma");
	return q->facts.sdma || str_is(word, "compute") ||
	       emu_wrong(c, "'" STR_FMT "' is neither compute nor sdma", STR_ARG(str_cut(word, 80)));
}

static bool read_queue_key(struct cursor *c, struct emu_process_queue *q)
{
	struct str key = cursor_word(c);
	struct emu_gpu *g;
	if (str_is(key, "gpu")) {
		if (!emu_gpu_word(c, &g))
			return false;
		q->facts.gpu = g;
		return true;
	}
	q->one_xcc |= str_is(key, "xcc");
	return str_is(key, "ring")  ? cursor_number(c, "ring", UINT64_C(1) << 47, &q->facts.ring) :
	       str_is(key, "size")  ? cursor_unsigned(c, "size", 64 << 20, &q->facts.size) :
	       str_is(key, "rptr")  ? cursor_value(c, NULL, &q->rptr) :
	       str_is(key, "wptr")  ? cursor_value(c, NULL, &q->wptr) :
	       str_is(key, "place") ? read_place(c, q) :
	       str_is(key, "vmid")  ? cursor_unsigned(c, "vmid", 15, &q->facts.vmid) :
	       str_is(key, "xcc")   ? cursor_unsigned(c, "xcc", 7, &q->facts.xcc) :
	       str_is(key, "type") ?
				    read_type(c, q) :
				    emu_wrong(c, "'" STR_FMT "' is none of gpu, ring, size, rptr, wptr, place, vmid, xcc, type",
					      STR_ARG(str_cut(key, 80)));
}

/** The amd_queue_t behind a ring, as the runtime has it. */
static void add_record(struct emu_process *p, const struct emu_process_queue *q)
{
	struct arena *a = &p->machine->arena;
	uint64_t at = emu_queue_record(q);
	const struct {
		unsigned offset;
		const struct value *value;
	} wide[] = { { AMD_QUEUE_BASE, value_constant(a, q->facts.ring) },
		     { AMD_QUEUE_SIZE, value_constant(a, q->facts.size / EMU_AQL) },
		     { AMD_QUEUE_ID, value_constant(a, q->facts.id) },
		     { AMD_QUEUE_WRITE, q->wptr },
		     { AMD_QUEUE_READ, q->rptr } };
	for (size_t i = 0; i < ARRAY_SIZE(wide); i++) {
		words_add(&p->memory, at + wide[i].offset, value_scaled(a, wide[i].value, 1, UINT32_MAX, 0));
		words_add(&p->memory, at + wide[i].offset + 4, value_scaled(a, wide[i].value, 1, UINT64_MAX, 32));
	}
}

static bool read_queue(struct cursor *c, void *process)
{
	struct emu_process *p = process;
	struct emu_machine *m = p->machine;
	struct emu_process_queue q = { .facts = { .process = p, .vmid = 8 }, .line = c->line };
	if (!cursor_unsigned(c, "the number of a queue", UINT32_MAX, &q.facts.id))
		return false;
	while (cursor_more(c))
		if (!read_queue_key(c, &q))
			return false;
	uint32_t size = q.facts.size;
	if (queue_of(p, q.facts.id))
		return emu_wrong(c, "the process has two queues %u", q.facts.id);
	if (!q.facts.gpu || !q.facts.ring || q.facts.ring % EMU_PAGE)
		return emu_wrong(c, "a queue needs 'gpu PCI' and 'ring ADDRESS', which is a multiple of 4096");
	if (size < EMU_PAGE || size & (size - 1))
		return emu_wrong(c, "the size of a queue is a power of two, at least 4096 bytes");
	if (q.facts.xcc >= q.facts.gpu->facts.shaders.xccs)
		return emu_wrong(c, "there is no XCC %u", q.facts.xcc);
	if (m->queues.len == EMU_QUEUES_MOST)
		return emu_wrong(c, "more than %d queues", EMU_QUEUES_MOST);
	vec_push(&m->queues, q);
	add_record(p, &q);
	return true;
}

static bool read_sizes(struct cursor *c, const char *what, uint32_t most, uint32_t ret[static 3])
{
	for (size_t i = 0; i < 3; i++)
		if (!cursor_unsigned(c, what, most, &ret[i]))
			return false;
	return true;
}

enum { AQL_FENCES = 0x1500, AQL_WORDS = EMU_AQL / 4 };

static void put_wide(uint32_t *words, size_t at, uint64_t v)
{
	words[at] = (uint32_t)v;
	words[at + 1] = (uint32_t)(v >> 32);
}

static bool read_wide(struct cursor *c, const char *what, uint32_t *words, size_t at)
{
	uint64_t v;
	if (!cursor_number(c, what, UINT64_MAX, &v))
		return false;
	put_wide(words, at, v);
	return true;
}

/** `kernel ADDRESS args ADDRESS grid X Y Z group X Y Z [private N] [lds N] [signal ADDRESS]` */
static bool read_dispatch(struct cursor *c, uint32_t w[static AQL_WORDS])
{
	uint32_t group[3] = { 64, 1, 1 };
	w[3] = 64;
	w[4] = w[5] = 1;
	while (cursor_more(c)) {
		struct str key = cursor_word(c);
		if (!(str_is(key, "kernel")  ? read_wide(c, "kernel", w, 8) :
		      str_is(key, "args")    ? read_wide(c, "args", w, 10) :
		      str_is(key, "grid")    ? read_sizes(c, "grid", UINT32_MAX, w + 3) :
		      str_is(key, "group")   ? read_sizes(c, "group", UINT16_MAX, group) :
		      str_is(key, "private") ? cursor_unsigned(c, "private", UINT32_MAX, &w[6]) :
		      str_is(key, "lds")     ? cursor_unsigned(c, "lds", UINT32_MAX, &w[7]) :
		      str_is(key, "signal") ?
					   read_wide(c, "signal", w, 14) :
					   emu_wrong(c,
						     "'" STR_FMT "' is none of kernel, args, grid, group, private, lds, signal",
						     STR_ARG(str_cut(key, 80)))))
			return false;
	}
	w[0] = AQL_DISPATCH | AQL_FENCES | 3u << 16;
	w[1] = group[0] | group[1] << 16;
	w[2] = group[2];
	return true;
}

/** `signal ADDRESS...`: that it waits for, five at most; `done ADDRESS`: its own. */
static bool read_barrier(struct cursor *c, uint32_t type, uint32_t w[static AQL_WORDS])
{
	size_t n = 0;
	w[0] = type | AQL_FENCES;
	while (cursor_more(c)) {
		struct str key = cursor_word(c);
		if (str_is(key, "signal") && n < 5 ? !read_wide(c, "signal", w, 2 + 2 * n++) :
		    str_is(key, "done")            ? !read_wide(c, "done", w, 14) :
						     !emu_wrong(c,
								"a barrier has five times 'signal ADDRESS' at most, and 'done ADDRESS'"))
			return false;
	}
	return true;
}

static bool read_packet(struct cursor *c, void *process)
{
	struct emu_process *p = process;
	unsigned id;
	uint64_t index;
	uint32_t w[AQL_WORDS] = { 0 };
	if (!cursor_unsigned(c, "the queue", UINT32_MAX, &id) || !cursor_number(c, "the index", UINT64_MAX, &index))
		return false;
	const struct emu_process_queue *q = queue_of(p, id);
	if (!q)
		return emu_wrong(c, "the process has no queue %u", id);
	uint64_t at = q->facts.ring + index % (q->facts.size / EMU_AQL) * EMU_AQL;
	struct str kind = cursor_word(c);
	if (str_is(kind, "words")) {
		for (uint64_t end = q->facts.ring + q->facts.size; cursor_more(c); at += 4) {
			const struct value *v;
			if (!cursor_value(c, NULL, &v))
				return false;
			if (at >= end)
				return emu_wrong(c, "words behind the end of the ring");
			words_add(&p->memory, at, v);
		}
		return true;
	}
	if (!(str_is(kind, "dispatch")    ? read_dispatch(c, w) :
	      str_is(kind, "barrier-and") ? read_barrier(c, AQL_BARRIER_AND, w) :
	      str_is(kind, "barrier-or")  ? read_barrier(c, AQL_BARRIER_OR, w) :
					    emu_wrong(c, "'" STR_FMT "' is none of dispatch, barrier-and, barrier-or, words",
						      STR_ARG(str_cut(kind, 80)))))
		return false;
	for (size_t i = 0; i < AQL_WORDS; i++)
		words_add(&p->memory, at + 4 * i, value_constant(&p->machine->arena, w[i]));
	return true;
}

static bool read_memory(struct cursor *c, void *process) { return words_read(c, &((struct emu_process *)process)->memory, 4); }

/** A file beside the scenario. */
static bool read_code(struct cursor *c, void *process)
{
	struct emu_process *p = process;
	struct arena *a = &p->machine->arena;
	struct emu_code code;
	if (!cursor_number(c, "the address", UINT64_C(1) << 47, &code.address))
		return false;
	struct str file = cursor_text(c), dir = p->machine->name;
	if (!file.n || memchr(file.p, 0, file.n))
		return emu_wrong(c, "code ADDRESS FILE");
	while (dir.n && dir.p[dir.n - 1] != '/')
		dir.n--;
	code.path = file.p[0] == '/' ? file : arena_printf(a, STR_FMT STR_FMT, STR_ARG(dir), STR_ARG(file));
	if (p->code.len == EMU_FEW)
		return emu_wrong(c, "more than %d code objects", EMU_FEW);
	vec_push(&p->code, code);
	return true;
}

static struct emu_share *share_of(struct emu_process *p, const struct emu_gpu *g)
{
	for (size_t i = 0; i < p->shares.len; i++)
		if (p->shares.data[i].gpu == g)
			return &p->shares.data[i];
	vec_push(&p->shares, (struct emu_share){ .gpu = g });
	return &p->shares.data[p->shares.len - 1];
}

static bool read_vram(struct cursor *c, void *process)
{
	struct emu_gpu *g;
	return emu_gpu_word(c, &g) && cursor_number(c, "vram", UINT64_C(1) << 48, &share_of(process, g)->vram);
}

static bool read_opens(struct cursor *c, void *process)
{
	struct emu_gpu *g;
	return emu_gpu_word(c, &g) && (share_of(process, g)->opens = true);
}

/** `ID gpu PCI type gfx|compute|sdma mqd ADDRESS vmid N [newer]` */
static bool read_user_queue(struct cursor *c, void *process)
{
	static const char *const types[] = { "gfx", "compute", "sdma" }; // AMDGPU_HW_IP_GFX, _COMPUTE, _DMA
	struct emu_process *p = process;
	struct emu_user_queue q = { .vmid = 8, .type = ARRAY_SIZE(types) };
	if (!cursor_unsigned(c, "the number of a queue", UINT32_MAX, &q.id))
		return false;
	while (cursor_more(c)) {
		const struct str key = cursor_word(c);
		struct emu_gpu *g = NULL;
		const struct str type = str_is(key, "type") ? cursor_word(c) : (struct str){ 0 };
		for (unsigned i = 0; i < ARRAY_SIZE(types); i++)
			q.type = str_is(type, types[i]) ? i : q.type;
		q.underscore |= str_is(key, "newer");
		if (!(type.n || str_is(key, "newer") ? true :
		      str_is(key, "gpu")             ? emu_gpu_word(c, &g) :
		      str_is(key, "mqd")             ? cursor_number(c, "mqd", UINT64_C(1) << 48, &q.mqd) :
		      str_is(key, "vmid")            ? cursor_unsigned(c, "vmid", 15, &q.vmid) :
						       emu_wrong(c, "'" STR_FMT "' is none of gpu, type, mqd, vmid, newer",
								 STR_ARG(str_cut(key, 80)))))
			return false;
		q.gpu = g ? g : q.gpu;
	}
	if (!q.gpu || q.type == ARRAY_SIZE(types))
		return emu_wrong(c, "a user queue needs 'gpu PCI' and 'type', which is gfx, compute or sdma");
	vec_push(&p->user_queues, q);
	return true;
}

size_t emu_user_queues(const struct emu_process *p) { return p->user_queues.len; }
struct emu_user_queue emu_user_queue(const struct emu_process *p, size_t index) { return p->user_queues.data[index]; }

static bool read_environment(struct cursor *c, void *process)
{
	struct emu_process *p = process;
	struct str text = cursor_text(c);
	if (str_find(text, S("=")) <= 0 || memchr(text.p, 0, text.n) || p->environment.n + text.n >= EMU_PAGE)
		return emu_wrong(c, "environment NAME=VALUE");
	text_add(&p->environment, text);
	text_add(&p->environment, (struct str){ "", 1 });
	return true;
}

static bool read_computes(struct cursor *c, void *process)
{
	return cursor_unsigned(c, "per cent", 100, &((struct emu_process *)process)->computes);
}

static bool read_stopped(struct cursor *c, void *process)
{
	(void)c;
	return ((struct emu_process *)process)->stopped = true;
}

static const struct emu_statement statements[] = {
	{ "environment", read_environment },
	{ "computes", read_computes },
	{ "stopped", read_stopped },
	{ "queue", read_queue },
	{ "packet", read_packet },
	{ "memory", read_memory },
	{ "code", read_code },
	{ "vram", read_vram },
	{ "opens", read_opens },
	{ "user-queue", read_user_queue },
	{ 0 },
};

bool emu_process_read(struct emu_reader *r, const struct emu_block *b)
{
	for (size_t i = 0; i < r->m->processes.len; i++) {
		struct emu_process *p = r->m->processes.data[i];
		if (!str_eq(p->name, b->id))
			continue;
		if (!emu_statements(r, b, statements, p))
			return false;
		words_sort(&p->memory);
	}
	return true;
}

// --- answers ---

size_t emu_processes(const struct emu_machine *m) { return m->processes.len; }
struct emu_process *emu_process(const struct emu_machine *m, size_t index) { return m->processes.data[index]; }
struct str emu_process_name(const struct emu_process *p) { return p->name; }
int emu_process_pid(const struct emu_process *p) { return p->pid; }
struct str emu_process_environment(const struct emu_process *p) { return text_str(&p->environment); }
unsigned emu_process_computes(const struct emu_process *p) { return p->computes; }
bool emu_process_stopped(const struct emu_process *p) { return p->stopped; }
unsigned emu_process_pasid(const struct emu_process *p) { return p->pasid; }

void emu_process_runs(struct emu_process *p, int pid, unsigned pasid)
{
	p->pid = pid;
	p->pasid = pasid;
}

bool emu_process_opens(const struct emu_process *p, const struct emu_gpu *g)
{
	for (size_t i = 0; i < p->shares.len; i++)
		if (p->shares.data[i].gpu == g && p->shares.data[i].opens)
			return true;
	return false;
}

uint64_t emu_process_vram(const struct emu_process *p, const struct emu_gpu *g)
{
	for (size_t i = 0; i < p->shares.len; i++)
		if (p->shares.data[i].gpu == g)
			return p->shares.data[i].vram;
	return 0;
}
