// The driver's own dump of a hung GPU: its lines, and the whole of it as a target, which has the registers and rings that the driver wrote
// down before it reset the GPU.
#include "gpu/core/devcoredump.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/silicon/silicon.h"
#include "source/file.h"

enum { NAME_BYTES = 96, NUMBER_MOST = 1 << 16 };

/** Takes the digits behind @word, and what separates them. */
static bool number_behind(struct str *s, const char *word, unsigned *ret)
{
	uint64_t n = 0;
	size_t at = 0, begin;
	if (!str_after(*s, str_z(word), s))
		return false;
	while (at < s->n && (s->p[at] == ' ' || s->p[at] == ':' || s->p[at] == '['))
		at++;
	for (begin = at; at < s->n && char_digit(s->p[at]); at++)
		n = n < NUMBER_MOST ? 10 * n + (uint64_t)(s->p[at] - '0') : n;
	*s = str_from(*s, at);
	*ret = (unsigned)n;
	return at > begin;
}

/** `mec 0, pipe 1, queue 2`, `me 0, pipe 0, queue 0`, `xcc:0 mec:0, pipe:1, queue:2` */
static bool queue_line(struct str line, struct dump_line *d)
{
	struct str rest = line;
	bool xcc = str_starts(line, S("xcc:"));
	if (xcc && !number_behind(&rest, "xcc", &d->numbers[0]))
		return false;
	rest = str_trim(rest);
	bool mec = str_starts(rest, S("mec")), me = str_starts(rest, S("me ")) || str_starts(rest, S("me:"));
	if ((!mec && !me) || !number_behind(&rest, mec ? "mec" : "me", &d->numbers[1]) ||
	    !number_behind(&rest, "pipe", &d->numbers[2]) || !number_behind(&rest, "queue", &d->numbers[3]))
		return false;
	d->numbers[1] += mec; // ME 0 is the one of graphics
	d->kind = DUMP_QUEUE;
	return true;
}

static bool core_devcoredump_register_line(struct str line, struct dump_line *d)
{
	struct str rest = line, name = str_word(&rest), number = str_word(&rest);
	if (!str_among(name, STR_BEGINS, "reg|mm|ix").n || name.n > NAME_BYTES || !str_starts(number, S("0x")) ||
	    !str_hex(number, &d->value) || str_trim(rest).n)
		return false;
	d->kind = DUMP_REGISTER;
	d->name = name;
	return true;
}

static bool word_line(struct str line, struct dump_line *d)
{
	struct str rest = line, first = str_word(&rest), second = str_word(&rest);
	if (!str_starts(first, S("0x")) || str_trim(rest).n || !str_hex(second.n ? second : first, &d->value))
		return false;
	if (second.n && !str_hex(first, &d->other))
		return false;
	d->kind = second.n ? DUMP_RING_WORD : DUMP_IB_WORD;
	return true;
}

static bool ib_line(struct str line, struct dump_line *d)
{
	struct str rest;
	if (!str_behind(line, S("IB #"), &rest))
		return false;
	d->name = str_word(&rest);
	d->kind = DUMP_IB;
	return str_hex(str_word(&rest), &d->value);
}

static bool ring_line(struct str line, struct dump_line *d)
{
	struct str rest;
	uint64_t mask;
	if (str_behind(line, S("ring name: "), &d->name)) {
		d->kind = DUMP_RING;
	} else if (str_behind(line, S("Rptr:"), &rest)) {
		struct str rptr = str_word(&rest), mark = str_word(&rest), wptr = str_word(&rest);
		bool good = str_hex(rptr, &d->value) && str_is(mark, "Wptr:") && str_hex(wptr, &d->other);
		d->kind = good ? DUMP_RING_POINTERS : DUMP_RING_HEAD;
		if (str_behind(str_trim(rest), S("RB mask:"), &rest) && str_hex(rest, &mask))
			d->numbers[0] = (unsigned)mask;
	} else if (str_among(line, STR_BEGINS, "Ring size in dwords|Ring contents|Offset").n) {
		d->kind = DUMP_RING_HEAD;
	}
	return d->kind != DUMP_OTHER;
}

static bool version_line(struct str line, struct dump_line *d)
{
	struct str rest;
	if (!str_behind(line, S("HWIP: "), &rest))
		return false;
	d->name = str_split(&rest, '[');
	ptrdiff_t v = str_find(rest, S(": v"));
	if (v < 0 || !d->name.n || d->name.n > 24)
		return false;
	struct str place = str_cut(rest, (size_t)v);
	number_behind(&place, "][", &d->numbers[0]);
	d->text = str_trim(str_from(rest, (size_t)v + 3));
	d->kind = DUMP_VERSION;
	return true;
}

static bool other_line(struct str line, struct dump_line *d)
{
	static const struct {
		const char *begin;
		enum dump_kind kind;
	} numbered[] = { { "SOC Device id: ", DUMP_DEVICE }, { "SOC PCI Revision id: ", DUMP_REVISION } };
	struct str rest;
	int64_t n;
	if (str_behind(line, S("IP: "), &d->name)) {
		d->kind = DUMP_BLOCK;
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbered); i++)
		if (str_behind(line, str_z(numbered[i].begin), &rest) && str_number(rest, &n) && n >= 0) {
			d->kind = numbered[i].kind;
			d->value = (uint64_t)n;
			return true;
		}
	struct str number = line;
	if (str_starts(line, S("Instance")) || str_starts(line, S("Active Instance:")))
		if (number_behind(&number,
				  str_find(line, S("VCN")) >= 0         ? "VCN" :
				  str_find(line, S("Instance id")) >= 0 ? "Instance id" :
									  "Instance",
				  &d->numbers[0]))
			d->kind = DUMP_INSTANCE;
	return d->kind != DUMP_OTHER;
}

struct dump_line dump_line_parse(struct str line)
{
	static bool (*const readers[])(struct str line, struct dump_line * d) = {
		core_devcoredump_register_line, word_line, ib_line, ring_line, queue_line, version_line, other_line
	};
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		struct dump_line d = { .text = line };
		if (readers[i](line, &d))
			return d;
	}
	return (struct dump_line){ .kind = DUMP_OTHER, .text = line };
}

// --- A devcoredump as a target: the registers and rings that the driver wrote down before it reset the GPU ---

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
static struct str core_devcoredump_plain_name(struct arena *a, struct str name, int *ret_engine)
{
	*ret_engine = 0;
	name = str_from(name, str_among(name, STR_BEGINS, "reg|mm|ix").n);
	if (!str_starts(name, S("SDMA")) || name.n < 6 || !char_digit(name.p[4]) || name.p[5] != '_')
		return arena_str(a, name);
	*ret_engine = name.p[4] - '0';
	return arena_printf(a, "SDMA" STR_FMT, STR_ARG(str_from(name, 5)));
}

static void core_devcoredump_take_register(struct dump_target *t, const struct dump_line *l)
{
	int engine;
	if (t->registers.len == REGISTERS_MOST || t->arena.total > TEXTS_MOST)
		return;
	struct dumped d = t->at;
	d.name = core_devcoredump_plain_name(&t->arena, l->name, &engine);
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
		*c = char_lower(*c);
	ip.name = str_z(lower);
	for (size_t i = 0; i < 3; i++) {
		int64_t n;
		if (!str_number(str_split(&version, '.'), &n) || n < 0 || n > 255)
			return;
		ip.version[i] = (unsigned)n;
	}
	vec_push(&t->ips, ip);
}

static void core_devcoredump_take_line(struct dump_target *t, struct str text)
{
	const struct dump_line l = dump_line_parse(text);
	struct dumped_ring *ring = t->in_ring ? &t->parsed.data[t->parsed.len - 1] : NULL;
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
		core_devcoredump_take_register(t, &l);
		break;
	case DUMP_RING:
		t->in_ring = t->parsed.len < RINGS_MOST;
		if (t->in_ring)
			vec_push(&t->parsed, ((struct dumped_ring){ .name = arena_str(&t->arena, str_cut(l.name, 64)) }));
		break;
	case DUMP_RING_POINTERS:
		if (ring) {
			ring->rptr = l.value;
			ring->wptr = l.other;
			ring->mask = l.numbers[0];
		}
		break;
	case DUMP_RING_WORD: // words lie where their offsets say; a damaged file may lack some, which are not known
		if (ring && ring->words.len < RING_WORDS_MOST && l.other == 4 * ring->words.len)
			vec_push(&ring->words, (uint32_t)l.value);
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

/** To be called when all lines were read. */
static void dump_finish(struct dump_target *t, const struct know *k)
{
	struct device *d = &t->device;
	const struct know_part *part = know_part(k, d->device, (int)d->revision);
	d->vendor = VENDOR_AMD;
	d->ips = t->ips.data;
	d->nips = t->ips.len;
	for (size_t i = 0; i < t->ips.len; i++)
		d->shaders.xccs += str_is(t->ips.data[i].name, "gc");
	const struct ip *gc = device_ip(d, S("gc"), 0);
	d->gfx = gc ? gfx_of_gc(k, gc->version) : (struct str){ 0 };
	d->gfx = d->gfx.n || !part ? d->gfx : part->gfx;
	d->name = part ? part->name : (struct str){ 0 };
	d->driver = S("amdgpu");
	t->agent = (struct agent){
		.vendor = d->vendor, .device = d->device, .revision = d->revision, .gfx = d->gfx, .xccs = d->shaders.xccs
	};
	if (t->registers.len)
		qsort(t->registers.data, t->registers.len, sizeof(*t->registers.data), compare_registers);
	t->rings = arena_alloc(&t->arena, t->parsed.len * sizeof(*t->rings) + 1);
	for (size_t i = 0; i < t->parsed.len; i++) {
		const struct dumped_ring *r = &t->parsed.data[i];
		const uint32_t mask = r->mask ? r->mask : UINT32_MAX, rptr = (uint32_t)r->rptr & mask,
			       wptr = (uint32_t)r->wptr & mask;
		t->rings[i] = (struct ring){ r->name, rptr, wptr, wptr, r->words.len, r->words.data };
	}
}

// --- answers ---

static enum answer register_value(struct dump_target *t, struct request *r)
{
	_cleanup_arena_ struct arena a = { 0 };
	int engine;
	struct str name = core_devcoredump_plain_name(&a, r->reg->name, &engine);
	const struct bank *b = &r->bank;
	int instance = engine + (int)r->ip_instance + (b->xcc > 0 ? b->xcc : 0);
	size_t low = 0, high = t->registers.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (str_cmp(t->registers.data[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (b->se >= 0 || b->sh >= 0 || b->instance >= 0) // the driver dumps none of these
		return ANSWER_ABSENT;
	for (; low < t->registers.len && str_eq(t->registers.data[low].name, name); low++) {
		const struct dumped *d = &t->registers.data[low];
		if (d->instance != instance || d->me != b->me || (b->me >= 0 && (d->pipe != b->pipe || d->queue != b->queue)))
			continue;
		r->value = d->value;
		return ANSWER_GIVEN;
	}
	return ANSWER_ABSENT;
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
		core_devcoredump_take_line(t, str_trim(str_split(&text, '\n')));
	dump_finish(t, k);
	*ret = &t->target;
	return NULL;
}
