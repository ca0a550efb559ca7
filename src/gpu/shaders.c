// Where shaders begin, by the registers that buffers of commands write. What the engine had from earlier buffers is not seen: those may
// have been overwritten.
#include "gpu/shaders.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/find/clients.h"
#include "gpu/packet.h"
#include "gpu/silicon/silicon.h"

enum {
	STAGES_MOST = 16,
	STARTS_MOST = 4096,
	BUFFERS_MOST = 16,        // of a ring
	BUFFER_WORDS = 128 << 10, // of one that are read
	WORDS_MOST = 1 << 20,     // of all
	DEPTH_MOST = 3,           // chains and buffers inside of buffers
	BEFORE = 16,              // packets before the one that a ring is at
};

/** A kind of shader, and the registers that say where it begins, in units of 256 bytes. */
struct shader_stage {
	struct str title;
	uint32_t low, high; // word addresses of the registers
	uint32_t values[2];
	bool known[2];
};

struct shader_search {
	struct arena *arena;
	const struct know *know;
	struct target *gpu;
	struct str gfx, origin;
	unsigned vmid;
	const struct vm_tables *tables; // instead of those of the VMID; NULL
	size_t nstages;
	struct shader_stage stages[STAGES_MOST];
	size_t words, buffers; // that were read
	VEC(struct shader_start) starts;
};

/** Where the register of a stage that holds the upper half is called so. */
static bool high_register(const struct device *d, struct str low, uint32_t *ret)
{
	struct device_register r;
	char name[96];
	const ptrdiff_t at = str_find(low, S("_LO"));
	if (at < 0)
		return false;
	snprintf(name, sizeof(name), "gc." STR_FMT "_HI" STR_FMT, STR_ARG(str_cut(low, (size_t)at)),
		 STR_ARG(str_from(low, (size_t)at + 3)));
	if (!device_registers(d, str_z(name), &r, 1))
		return false;
	*ret = r.address / 4;
	return true;
}

static void find_stages(struct shader_search *s, const struct device *d)
{
	for (size_t i = 0; i < s->know->shaders.len && s->nstages < STAGES_MOST; i++) {
		const struct know_row *row = s->know->shaders.data[i];
		struct device_register r;
		struct shader_stage stage = { .title = row->value };
		char name[96];
		snprintf(name, sizeof(name), "gc." STR_FMT, STR_ARG(row->head.id));
		if (!device_registers(d, str_z(name), &r, 1) || !high_register(d, row->head.id, &stage.high))
			continue;
		stage.low = r.address / 4;
		s->stages[s->nstages++] = stage;
	}
}

// --- registers that a packet writes ---

/** A place in a buffer. */
struct shader_at {
	uint64_t ib;
	size_t word;
};

static void write_register(struct shader_search *s, uint32_t number, uint32_t value, struct shader_at at)
{
	for (size_t i = 0; i < s->nstages; i++) {
		struct shader_stage *x = &s->stages[i];
		if (number != x->low && number != x->high)
			continue;
		x->values[number == x->high] = value;
		x->known[number == x->high] = true;
		const uint64_t address = ((uint64_t)(x->values[1] & 0xff) << 32 | x->values[0]) << 8;
		const bool again = list_find(s->starts.data, s->starts.len, it,
					     it->address == address && str_eq(it->stage, x->title));
		if (x->known[0] && x->known[1] && address && !again && s->starts.len < STARTS_MOST)
			vec_push(&s->starts, ((struct shader_start){ address, x->title, s->origin, at.ib, at.word }));
	}
}

/** Registers one after the other, in pairs of number and value, or two numbers in a word before their two values. */
static void take_writes(struct shader_search *s, const struct packet *p, const uint32_t *words, struct shader_at at)
{
	enum { FIRST = 0x2c00, PACKED = 3 };
	if (str_is(p->name, "SET_SH_REG") || str_is(p->name, "SET_SH_REG_INDEX")) {
		for (size_t i = 2; i < p->words; i++)
			write_register(s, FIRST + (words[1] & 0xffff) + (uint32_t)i - 2, words[i], at);
	} else if (str_is(p->name, "SET_SH_REG_PAIRS")) {
		for (size_t i = 1; i + 1 < p->words; i += 2)
			write_register(s, FIRST + (words[i] & 0xffff), words[i + 1], at);
	} else if (str_starts(p->name, S("SET_SH_REG_PAIRS_PACKED"))) {
		for (size_t i = 2; i + 2 < p->words; i += PACKED) {
			write_register(s, FIRST + (words[i] & 0xffff), words[i + 1], at);
			write_register(s, FIRST + (words[i] >> 16), words[i + 2], at);
		}
	}
}

// --- buffers ---

static void scan_buffer(struct shader_search *s, uint64_t address, uint64_t words, unsigned depth);

/** @depth: of buffers around this one. */
static void scan_words(struct shader_search *s, uint64_t address, const uint32_t *words, size_t n, unsigned depth)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct packet_stream stream = { s->know, PACKETS_PM4, s->gfx, words, n };
	struct packet p;
	for (size_t at = 0; at < n && packet_decode(&stream, &a, at, &p); at += p.words) {
		take_writes(s, &p, words + at, (struct shader_at){ address, at });
		if (p.ib_address && s->gpu && s->buffers++ < BUFFERS_MOST)
			scan_buffer(s, p.ib_address, p.ib_words, depth + 1);
	}
}

static void scan_buffer(struct shader_search *s, uint64_t address, uint64_t words, unsigned depth)
{
	const size_t n = words < BUFFER_WORDS ? (size_t)words : BUFFER_WORDS;
	if (!n || depth == DEPTH_MOST || s->words + n > WORDS_MOST)
		return;
	s->words += n;
	_cleanup_free_ uint32_t *room = mem_alloc(n * sizeof(*room));
	struct request r = { .kind = REQUEST_MEMORY,
			     .address = address,
			     .size = n * sizeof(*room),
			     .to = room,
			     .vmid = s->vmid,
			     .hub = HUB_GFX,
			     .tables = s->tables };
	if (target_ask(s->gpu, &r) == ANSWER_GIVEN)
		scan_words(s, address, room, n, depth);
}

/** The buffers that the packets around word @rptr run. @own: they are all of the same address space, whatever VMID they name. */
static void scan_around(struct shader_search *s, const struct packet_stream *ring, size_t rptr, size_t pending, bool own)
{
	_cleanup_arena_ struct arena a = { 0 };
	const size_t n = ring->n, back = packets_before(ring, rptr, BEFORE);
	const size_t length = back + pending < n ? back + pending : n;
	uint32_t *words = arena_alloc(&a, (length + 1) * sizeof(*words));
	struct packet p;
	for (size_t i = 0; i < length; i++)
		words[i] = ring->words[(rptr + n - back + i) % n];
	const struct packet_stream stream = { ring->know, ring->language, ring->gfx, words, length };
	for (size_t at = 0; at < length && packet_decode(&stream, &a, at, &p); at += p.words)
		if (p.ib_address && (own || p.ib_vmid == s->vmid) && s->buffers++ < BUFFERS_MOST)
			scan_buffer(s, p.ib_address, p.ib_words, 0);
}

static int by_start(const void *a, const void *b)
{
	const struct shader_start *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

static size_t end_search(struct shader_search *s, const struct shader_start **ret)
{
	const size_t n = s->starts.len;
	if (n)
		qsort(s->starts.data, n, sizeof(*s->starts.data), by_start);
	*ret = arena_copy(s->arena, s->starts.data, n * sizeof(**ret));
	vec_free(&s->starts);
	return n;
}

static struct shader_search begin_search(struct arena *a, const struct know *k, const struct device *d, struct target *gpu)
{
	struct shader_search s = { .arena = a, .know = k, .gpu = gpu, .gfx = d->gfx };
	find_stages(&s, d);
	return s;
}

size_t shaders_of_rings(struct arena *a, const struct know *k, struct target *gpu, unsigned vmid, const struct shader_start **ret)
{
	struct shader_search s = begin_search(a, k, target_device_of(gpu), gpu);
	struct request list = { .kind = REQUEST_RINGS, .positions = true };
	s.vmid = vmid;
	*ret = NULL;
	if (!s.nstages || target_ask(gpu, &list) != ANSWER_GIVEN)
		return 0;
	_cleanup_vec_ VEC(struct str) names = { 0 };
	for (size_t i = 0; i < list.n; i++) // a ring that has never run anything stands at its beginning
		if (packet_language_of(k, list.rings[i].name) == PACKETS_PM4 && (list.rings[i].rptr || list.rings[i].wptr))
			vec_push(&names, arena_str(a, list.rings[i].name));
	for (size_t i = 0; i < names.len; i++) {
		struct request r = { .kind = REQUEST_RINGS, .ring = names.data[i] };
		if (target_ask(gpu, &r) != ANSWER_GIVEN || !r.n || !r.rings[0].n || !r.rings[0].words)
			continue;
		const struct ring *ring = &r.rings[0];
		const struct packet_stream stream = { k, PACKETS_PM4, s.gfx, ring->words, ring->n };
		const size_t rptr = ring->rptr % ring->n;
		s.origin = names.data[i];
		s.buffers = 0;
		for (size_t n = 0; n < s.nstages; n++)
			s.stages[n].known[0] = s.stages[n].known[1] = false;
		scan_around(&s, &stream, rptr, (ring->wptr % ring->n + ring->n - rptr) % ring->n, false);
	}
	return end_search(&s, ret);
}

size_t shaders_of_client(struct arena *a, const struct know *k, struct target *gpu, const struct client_queue *q,
			 const struct shader_start **ret)
{
	struct shader_search s = begin_search(a, k, target_device_of(gpu), gpu);
	const size_t n = q->queue.ring_size / 4;
	*ret = NULL;
	if (!s.nstages || !q->tables_known || q->queue.type != QUEUE_PM4 || !q->queue.indexes_known || !n || n > BUFFER_WORDS)
		return 0;
	s.tables = &q->tables;
	s.origin = arena_printf(a, "queue %u of " STR_FMT " (%lld)", q->queue.id, STR_ARG(q->process), (long long)q->pid);
	uint32_t *words = arena_alloc(a, n * sizeof(*words));
	struct request r = { .kind = REQUEST_MEMORY,
			     .address = q->queue.ring,
			     .size = n * sizeof(*words),
			     .to = words,
			     .hub = HUB_GFX,
			     .tables = s.tables };
	if (target_ask(gpu, &r) != ANSWER_GIVEN)
		return 0;
	const struct packet_stream stream = { k, PACKETS_PM4, s.gfx, words, n };
	scan_around(&s, &stream, q->queue.read_index % n, client_queue_waiting(q) % n, true);
	return end_search(&s, ret);
}

size_t shaders_of_words(struct arena *a, const struct know *k, const struct device *d, const uint32_t *words, size_t n,
			const struct shader_start **ret)
{
	struct shader_search s = begin_search(a, k, d, NULL);
	scan_words(&s, 0, words, n, 0);
	return end_search(&s, ret);
}

struct str shader_say(struct arena *a, const struct shader_start *s)
{
	return arena_printf(a, STR_FMT " at 0x%llx, set at word %zu of the buffer 0x%llx of " STR_FMT, STR_ARG(s->stage),
			    (unsigned long long)s->address, s->word, (unsigned long long)s->ib, STR_ARG(s->origin));
}
