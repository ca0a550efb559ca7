// A devcoredump as a target: the registers and rings that the driver wrote down before it reset the GPU.
#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/core/devcoredump.h"
#include "gpu/silicon/silicon.h"
#include "source/file.h"

enum {
	FILE_MOST = 512 << 20,
	REGISTERS_MOST = 1 << 18,
	RINGS_MOST = 256,
	RING_WORDS_MOST = 1 << 20,
	IPS_MOST = 512,
	TEXTS_MOST = 64 << 20,
	VENDOR_AMD = 0x1002,
	NONE = -1,
};

/** A register as it was dumped. */
struct dumped {
	struct str name; // without reg or mm, and without the number of the copy engine
	int instance;    // of the copy engine, the video engine, the XCC
	int me, pipe, queue;
	size_t order;
	uint32_t value;
};

struct dumped_ring {
	struct str name;
	uint64_t rptr, wptr;
	uint32_t mask;
	VEC(uint32_t) words;
};

struct dump_target {
	struct target target;
	struct arena arena;
	struct device device;
	VEC(struct ip) ips;
	struct agent agent;
	VEC(struct dumped) registers;
	VEC(struct dumped_ring) parsed;
	struct ring *rings;
	bool in_ring;
	struct dumped at; // the block, instance and queue that lines belong to
	struct text problems;
};

/** `SDMA1_STATUS_REG` of the second copy engine is dumped as `regSDMA0_STATUS_REG` of instance 1, or without a number. */
static struct str plain_name(struct arena *a, struct str name, int *ret_engine)
{
	static const char *const prefixes[] = { "reg", "mm", "ix" };
	*ret_engine = 0;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (str_starts(name, str_z(prefixes[i]))) {
			name = str_from(name, strlen(prefixes[i]));
			break;
		}
	if (!str_starts(name, S("SDMA")) || name.n < 6 || !char_digit(name.p[4]) || name.p[5] != '_')
		return arena_str(a, name);
	*ret_engine = name.p[4] - '0';
	return arena_printf(a, "SDMA" STR_FMT, STR_ARG(str_from(name, 5)));
}

static void take_register(struct dump_target *t, const struct dump_line *l)
{
	int engine;
	if (t->registers.len == REGISTERS_MOST || t->arena.total > TEXTS_MOST)
		return;
	struct dumped d = t->at;
	d.name = plain_name(&t->arena, l->name, &engine);
	d.instance += engine;
	d.order = t->registers.len;
	d.value = (uint32_t)l->value;
	vec_push(&t->registers, d);
}

static void take_version(struct dump_target *t, const struct dump_line *l)
{
	struct str name = l->name, version = l->text, last;
	struct ip ip = { .instance = l->numbers[0] };
	if (t->ips.len == IPS_MOST)
		return;
	do
		last = str_split(&name, '/'); // UVD/JPEG/VCN
	while (name.n);
	char *lower = arena_z(&t->arena, last);
	for (char *c = lower; *c; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
	ip.name = str_z(lower);
	for (size_t i = 0; i < 3; i++) {
		int64_t n;
		if (!str_number(str_split(&version, '.'), &n) || n < 0 || n > 255)
			return;
		ip.version[i] = (unsigned)n;
	}
	vec_push(&t->ips, ip);
}

static void begin_ring(struct dump_target *t, struct str name)
{
	t->in_ring = t->parsed.len < RINGS_MOST;
	if (t->in_ring)
		vec_push(&t->parsed, ((struct dumped_ring){ .name = arena_str(&t->arena, str_cut(name, 64)) }));
}

/** Words lie where their offsets say. A damaged file may lack some; those are not known. */
static void ring_word(struct dump_target *t, const struct dump_line *l)
{
	struct dumped_ring *r = t->in_ring ? &t->parsed.data[t->parsed.len - 1] : NULL;
	if (r && r->words.len < RING_WORDS_MOST && l->other == 4 * r->words.len)
		vec_push(&r->words, (uint32_t)l->value);
}

static void take_line(struct dump_target *t, struct str text)
{
	const struct dump_line l = dump_line_parse(text);
	switch (l.kind) {
	case DUMP_BLOCK:
		t->at = (struct dumped){ .me = NONE, .pipe = NONE, .queue = NONE };
		t->in_ring = false;
		break;
	case DUMP_INSTANCE:
		t->at = (struct dumped){ .instance = (int)l.numbers[0], .me = NONE, .pipe = NONE, .queue = NONE };
		break;
	case DUMP_QUEUE:
		t->at = (struct dumped){ .instance = (int)l.numbers[0],
					 .me = (int)l.numbers[1],
					 .pipe = (int)l.numbers[2],
					 .queue = (int)l.numbers[3] };
		break;
	case DUMP_REGISTER:
		take_register(t, &l);
		break;
	case DUMP_RING:
		begin_ring(t, l.name);
		break;
	case DUMP_RING_POINTERS:
		if (t->in_ring) {
			t->parsed.data[t->parsed.len - 1].rptr = l.value;
			t->parsed.data[t->parsed.len - 1].wptr = l.other;
			t->parsed.data[t->parsed.len - 1].mask = l.numbers[0];
		}
		break;
	case DUMP_RING_WORD:
		ring_word(t, &l);
		break;
	case DUMP_IB:
		t->in_ring = false;
		break;
	case DUMP_VERSION:
		take_version(t, &l);
		break;
	case DUMP_DEVICE:
		t->device.device = (unsigned)l.value;
		break;
	case DUMP_REVISION:
		t->device.revision = (unsigned)l.value;
		break;
	case DUMP_OTHER:
	case DUMP_RING_HEAD:
	case DUMP_IB_WORD:
		break;
	}
}

// --- when all lines are read ---

static int compare_registers(const void *a, const void *b)
{
	const struct dumped *x = a, *y = b;
	int c = str_cmp(x->name, y->name);
	return c ? c : x->order < y->order ? -1 : 1;
}

static void finish_rings(struct dump_target *t)
{
	t->rings = arena_alloc(&t->arena, t->parsed.len * sizeof(*t->rings) + 1);
	for (size_t i = 0; i < t->parsed.len; i++) {
		const struct dumped_ring *r = &t->parsed.data[i];
		uint32_t mask = r->mask ? r->mask : UINT32_MAX;
		t->rings[i] = (struct ring){ .name = r->name,
					     .rptr = (uint32_t)r->rptr & mask,
					     .wptr = (uint32_t)r->wptr & mask,
					     .driver_wptr = (uint32_t)r->wptr & mask,
					     .n = r->words.len,
					     .words = r->words.data };
	}
}

static void finish(struct dump_target *t, const struct know *k)
{
	struct device *d = &t->device;
	const struct know_part *part = know_part(k, d->device, (int)d->revision);
	const struct ip *gc = NULL;
	d->vendor = VENDOR_AMD;
	d->ips = t->ips.data;
	d->nips = t->ips.len;
	for (size_t i = 0; i < t->ips.len; i++)
		if (str_is(t->ips.data[i].name, "gc")) {
			gc = gc ? gc : &t->ips.data[i];
			d->shaders.xccs++;
		}
	d->gfx = gc ? gfx_of_gc(k, gc->version) : (struct str){ 0 };
	d->gfx = d->gfx.n || !part ? d->gfx : part->gfx;
	d->name = part ? part->name : (struct str){ 0 };
	d->driver = S("amdgpu");
	t->agent = (struct agent){
		.vendor = d->vendor, .device = d->device, .revision = d->revision, .gfx = d->gfx, .xccs = d->shaders.xccs
	};
	if (t->registers.len)
		qsort(t->registers.data, t->registers.len, sizeof(*t->registers.data), compare_registers);
	finish_rings(t);
}

// --- answers ---

static bool right_bank(const struct dumped *d, const struct bank *b, int instance)
{
	if (d->instance != instance || d->me != b->me)
		return false;
	return b->me < 0 || (d->pipe == b->pipe && d->queue == b->queue);
}

static enum answer register_value(struct dump_target *t, struct request *r)
{
	struct arena a = { 0 };
	int engine;
	struct str name = plain_name(&a, r->reg->name, &engine);
	int instance = engine + (int)r->ip_instance + (r->bank.xcc > 0 ? r->bank.xcc : 0);
	size_t low = 0, high = t->registers.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (str_cmp(t->registers.data[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	enum answer answer = ANSWER_ABSENT;
	bool banked = r->bank.se >= 0 || r->bank.sh >= 0 || r->bank.instance >= 0; // the driver dumps none of these
	for (; low < t->registers.len && str_eq(t->registers.data[low].name, name) && !banked; low++)
		if (right_bank(&t->registers.data[low], &r->bank, instance)) {
			r->value = t->registers.data[low].value;
			answer = ANSWER_GIVEN;
			break;
		}
	arena_free(&a);
	return answer;
}

static void dump_ask(struct target *target, struct request *requests, size_t n)
{
	struct dump_target *t = (struct dump_target *)target;
	for (size_t i = 0; i < n; i++) {
		struct request *r = &requests[i];
		r->answer = ANSWER_GIVEN;
		if (r->kind == REQUEST_AGENTS) {
			r->agents = &t->agent;
			r->n = 1;
		} else if (r->kind == REQUEST_RINGS) {
			r->rings = t->rings;
			r->n = t->parsed.len;
		} else if (r->kind == REQUEST_REGISTER) {
			r->answer = register_value(t, r);
		} else {
			r->n = 0;
			r->answer = ANSWER_ABSENT;
		}
	}
}

static struct str dump_problems(struct target *t) { return text_str(&((struct dump_target *)t)->problems); }

static void dump_close(struct target *target)
{
	struct dump_target *t = (struct dump_target *)target;
	for (size_t i = 0; i < t->parsed.len; i++)
		vec_free(&t->parsed.data[i].words);
	vec_free(&t->parsed);
	vec_free(&t->registers);
	vec_free(&t->ips);
	text_free(&t->problems);
	arena_free(&t->arena);
	free(t);
}

const struct device *devcoredump_device(const struct target *t) { return &((const struct dump_target *)t)->device; }

struct uh_error *target_devcoredump(const struct know *k, const struct file *f, struct target **ret)
{
	if (f->size > FILE_MOST)
		return uh_error_new(STR_FMT ": more than %d MB, which is no devcoredump", STR_ARG(f->name), FILE_MOST >> 20);
	_cleanup_free_ char *bytes = mem_large(f->size + 1);
	struct str text = { bytes, f->size };
	if (!file_read(f, 0, bytes, f->size))
		return uh_error_new(STR_FMT ": it could not be read", STR_ARG(f->name));
	if (str_find(str_cut(text, 256), S("AMDGPU Device Coredump")) < 0)
		return uh_error_new(STR_FMT ": not a devcoredump of amdgpu (it begins with **** AMDGPU Device Coredump ****)",
				    STR_ARG(f->name));
	struct dump_target *t = mem_alloc(sizeof(*t));
	t->target = (struct target){ .kind = "devcoredump", .ask = dump_ask, .problems = dump_problems, .close = dump_close };
	t->target.name = arena_str(&t->arena, f->name);
	t->at = (struct dumped){ .me = NONE, .pipe = NONE, .queue = NONE };
	while (text.n)
		take_line(t, str_trim(str_split(&text, '\n')));
	finish(t, k);
	*ret = &t->target;
	return NULL;
}
