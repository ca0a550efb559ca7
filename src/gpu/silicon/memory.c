// Memory behind addresses of a live GPU: its page tables are walked, then what they lead to is read. All requests of a batch go down the
// tables together, a child for each level; entries that several of them need are read once, adjacent ones with one operation.
//
// Reading VRAM touches no register of the graphics engine. But it neither wakes the GPU nor waits for a reset, so it is done only while
// registers may be read too. The walk begins with registers anyway.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "gpu/silicon/target.h"
#include "gpu/memory/vm.h"

enum {
	SPACES_MOST = 16,  // that one batch asks for
	CHUNKS_MOST = 512, // pages
	RUN_MOST = 16 << 10,
	UNIT = 24,         // log2 of what FB_LOCATION, FB_OFFSET and AGP count in
	ADDRESS_BITS = 48, // of VRAM whose size is not known
	COPIES_MOST = 16,  // of a register
};

// --- registers ---

enum { CNTL, BASE_LO, BASE_HI, FIRST_LO, FIRST_HI, LAST_LO, LAST_HI, CONTEXT_REGISTERS };
static const char *const context_names[CONTEXT_REGISTERS] = {
	[CNTL] = "CNTL",
	[BASE_LO] = "PAGE_TABLE_BASE_ADDR_LO32",
	[BASE_HI] = "PAGE_TABLE_BASE_ADDR_HI32",
	[FIRST_LO] = "PAGE_TABLE_START_ADDR_LO32",
	[FIRST_HI] = "PAGE_TABLE_START_ADDR_HI32",
	[LAST_LO] = "PAGE_TABLE_END_ADDR_LO32",
	[LAST_HI] = "PAGE_TABLE_END_ADDR_HI32",
};
/** Of the whole GPU; both hubs have the same. */
enum { FB_BASE, FB_TOP, FB_OFFSET, AGP_BASE, AGP_BOT, AGP_TOP, HIVE_REQUIRED, HIVE = HIVE_REQUIRED, HIVE_SIZE, GPU_REGISTERS };
static const char *const gpu_names[GPU_REGISTERS] = {
	[FB_BASE] = "MC_VM_FB_LOCATION_BASE", [FB_TOP] = "MC_VM_FB_LOCATION_TOP",  [FB_OFFSET] = "MC_VM_FB_OFFSET",
	[AGP_BASE] = "MC_VM_AGP_BASE",        [AGP_BOT] = "MC_VM_AGP_BOT",         [AGP_TOP] = "MC_VM_AGP_TOP",
	[HIVE] = "MC_VM_XGMI_LFB_CNTL",       [HIVE_SIZE] = "MC_VM_XGMI_LFB_SIZE",
};
/** What stands before these names, by the hub and its generation. */
static const char *const prefixes[] = { "", "GC", "MM", "VML2VC0_", "VML2VC1_" };
static const char *const hubs[] = { [HUB_GFX] = "gc", [HUB_MM] = "mmhub" };

/** An address space of the GPU, and who asks for it. */
struct space {
	enum hub hub;
	unsigned instance, vmid;
	const struct vm_tables *tables; // instead of the VMID's; NULL
	enum answer answer;
	const char *why_not;
	struct vm_space vm;
	struct request registers[CONTEXT_REGISTERS];
};

/** A page, or a part of one, that is read. */
struct chunk {
	struct request *request;
	uint64_t address;
	char *to;
	size_t n;
	struct vm_walk walk;
};

struct memory_reading {
	struct silicon *t;
	struct arena arena;
	struct vm_format format;
	struct request gpu[GPU_REGISTERS];
	size_t nspaces;
	struct space spaces[SPACES_MOST];
	size_t nchunks;
	struct chunk *chunks;
};

static void memory_reading_free(struct memory_reading **r)
{
	arena_free(&(*r)->arena);
	free(*r);
}

/** The copy of a register that an instance of a hub has; the request's answer is ANSWER_ABSENT where there is none. */
static struct request silicon_memory_find_register(struct memory_reading *r, enum hub hub, unsigned instance, const char *name)
{
	struct request q = { .kind = REQUEST_REGISTER, .answer = ANSWER_ABSENT, .bank = BANK_NONE };
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		struct device_register copies[COPIES_MOST];
		char full[96];
		snprintf(full, sizeof(full), "%s.%s%s", hubs[hub], prefixes[i], name);
		size_t n = device_registers(r->t->device, str_z(full), copies, COPIES_MOST);
		n = n < COPIES_MOST ? n : COPIES_MOST;
		if (instance < n) {
			struct reg *reg = arena_alloc(&r->arena, sizeof(*reg));
			*reg = copies[instance].reg;
			q.reg = reg;
			q.ip = copies[instance].ip->name;
			q.ip_instance = copies[instance].ip->instance;
			return q;
		}
		instance -= (unsigned)n;
	}
	return q;
}

static bool by_vmid(const struct space *s) { return !s->tables && s->hub != HUB_VRAM; }

static void ask_registers(struct memory_reading *r)
{
	const size_t most = GPU_REGISTERS + SPACES_MOST * CONTEXT_REGISTERS;
	struct request *all = arena_alloc(&r->arena, most * sizeof(*all));
	struct request **from = arena_alloc(&r->arena, most * sizeof(*from));
	size_t n = 0;
	for (size_t i = 0; i < GPU_REGISTERS; i++) {
		r->gpu[i] = silicon_memory_find_register(r, HUB_GFX, 0, gpu_names[i]);
		// What a GPU has of a hive's memory the driver reads in the graphics hub only.
		if (!r->gpu[i].reg && i < HIVE_REQUIRED)
			r->gpu[i] = silicon_memory_find_register(r, HUB_MM, 0, gpu_names[i]);
		from[n++] = &r->gpu[i];
	}
	for (size_t i = 0; i < r->nspaces; i++)
		for (size_t k = 0; k < CONTEXT_REGISTERS && by_vmid(&r->spaces[i]); k++) {
			char name[64];
			snprintf(name, sizeof(name), "VM_CONTEXT%u_%s", r->spaces[i].vmid, context_names[k]);
			r->spaces[i].registers[k] =
				silicon_memory_find_register(r, r->spaces[i].hub, r->spaces[i].instance, name);
			from[n++] = &r->spaces[i].registers[k];
		}
	for (size_t i = 0; i < n; i++)
		all[i] = *from[i];
	silicon_registers(r->t, all, n);
	for (size_t i = 0; i < n; i++)
		*from[i] = all[i];
}

static uint32_t field(const struct request *q, const char *name)
{
	struct reg_field f;
	return q->answer == ANSWER_GIVEN && register_field_find(q->reg, str_z(name), &f) ? field_of(&f, q->value) : 0;
}

static uint64_t both(const struct request *low, const struct request *high) { return low->value | (uint64_t)high->value << 32; }

static uint64_t units(const struct request *q) { return (uint64_t)(q->value & 0xffffff) << UNIT; }
static uint64_t last_of(const struct request *q) { return units(q) | ((UINT64_C(1) << UNIT) - 1); }

/** Memory of the hive that is of other GPUs, before this one's. */
static uint64_t hive_before(const struct memory_reading *r)
{
	const struct request *g = r->gpu;
	return field(&g[HIVE], "PF_MAX_REGION") ?
		       (uint64_t)field(&g[HIVE], "PF_LFB_REGION") * ((uint64_t)field(&g[HIVE_SIZE], "PF_LFB_SIZE") << UNIT) :
		       0;
}

/** Where entries of page tables count its VRAM from, and its size. */
static uint64_t vram_first(const struct memory_reading *r)
{
	return (r->t->device->guest && r->format.guests_from_zero ? 0 : units(&r->gpu[FB_OFFSET])) + hive_before(r);
}
static uint64_t vram_bytes(const struct memory_reading *r)
{
	const int64_t total = r->t->device->vram_total;
	return total > 0 ? (uint64_t)total : UINT64_C(1) << ADDRESS_BITS;
}

/** The space as the registers have it. */
static void make_space(const struct memory_reading *r, struct space *s)
{
	const struct request *q = s->registers, *g = r->gpu;
	s->vm = (struct vm_space){
		.format = r->format,
		.kernel = !s->vmid,
		.enabled = field(&q[CNTL], "ENABLE_CONTEXT"),
		.depth = field(&q[CNTL], "PAGE_TABLE_DEPTH"),
		.block = field(&q[CNTL], "PAGE_TABLE_BLOCK_SIZE"),
		.root = both(&q[BASE_LO], &q[BASE_HI]),
		.first = both(&q[FIRST_LO], &q[FIRST_HI]) * VM_PAGE,
		.last = both(&q[LAST_LO], &q[LAST_HI]) * VM_PAGE + VM_PAGE - 1,
		.vram = vram_first(r),
		.vram_size = vram_bytes(r),
		.fb_first = units(&g[FB_BASE]),
		.fb_last = last_of(&g[FB_TOP]),
		.fb_vram = units(&g[FB_BASE]) + hive_before(r),
		.agp_first = units(&g[AGP_BOT]),
		.agp_last = last_of(&g[AGP_TOP]),
		.agp_base = units(&g[AGP_BASE]),
	};
	if (s->tables) {
		s->vm.kernel = false;
		s->vm.enabled = true;
		s->vm.depth = s->tables->depth;
		s->vm.block = s->tables->block;
		s->vm.root = s->tables->root;
		s->vm.first = 0;
		s->vm.last = s->tables->last;
	}
	if (s->vm.root == UINT64_MAX) {
		s->answer = ANSWER_REFUSED;
		s->why_not = "the registers that describe its page tables read all ones";
	}
}

static void judge_registers(const struct memory_reading *r, struct space *s)
{
	const struct request *bad = list_find(r->gpu, HIVE_REQUIRED, it, it->answer != ANSWER_GIVEN);
	bad = bad || !by_vmid(s) ? bad : list_find(s->registers, CONTEXT_REGISTERS, it, it->answer != ANSWER_GIVEN);
	s->answer = bad ? bad->answer : ANSWER_GIVEN;
	if (!bad)
		make_space(r, s);
	else if (bad->answer == ANSWER_ABSENT)
		s->why_not = "the registers that describe its page tables are not known";
	else
		s->why_not = "the GPU cannot be read now";
}

// --- reading ---

/** Bytes that are wanted for a chunk. */
struct slice {
	struct vm_place at;
	uint64_t end; // behind them
	struct chunk *chunk;
	size_t probe;
};

static int slices_by_place(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;
	if (x->at.system != y->at.system)
		return x->at.system ? 1 : -1;
	if (x->at.address != y->at.address)
		return x->at.address < y->at.address ? -1 : 1;
	return x->chunk < y->chunk ? -1 : x->chunk > y->chunk;
}

/** A probe for each run of slices. */
static void plan_slices(struct batch *b, struct slice *slices, size_t n)
{
	const char *vram = silicon_file(b->t, &b->arena, "amdgpu_vram"),
		   *system = silicon_file(b->t, &b->arena, "amdgpu_iomem");
	qsort(slices, n, sizeof(*slices), slices_by_place);
	gate_guard(b);
	for (size_t i = 0; i < n;) {
		const struct slice *first = &slices[i];
		uint64_t begin = first->at.address & ~UINT64_C(3), end = first->end;
		size_t k = i + 1;
		for (; k < n && slices[k].at.system == first->at.system && (slices[k].at.address & ~UINT64_C(3)) <= end &&
		       slices[k].end - begin <= RUN_MOST;
		     k++)
			end = slices[k].end > end ? slices[k].end : end;
		size_t probe = batch_add(b, (struct probe){ .kind = PROBE_READ,
							    .path = first->at.system ? system : vram,
							    .offset = begin,
							    .size = (size_t)(end - begin + 3) & ~(size_t)3 });
		for (; i < k; i++)
			slices[i].probe = probe;
	}
}

static void chunk_fail(struct chunk *c, enum answer a, const char *why)
{
	c->request->answer = a;
	c->request->why_not = why;
	c->walk.state = VM_NONE;
}

/** Reads what each chunk in a state wants: an entry, or its bytes. */
static void read_round(struct memory_reading *r, enum vm_state state)
{
	static const char no_memory[] = "the GPU has no such memory", no_return[] = "reading it did not return";
	_cleanup_batch_ struct batch b = { .t = r->t };
	struct slice *slices = arena_alloc(&b.arena, (r->nchunks + 1) * sizeof(*slices));
	size_t n = 0;
	for (size_t i = 0; i < r->nchunks; i++) {
		struct chunk *c = &r->chunks[i];
		uint64_t size = state == VM_FOUND ? c->n : VM_ENTRY;
		if (c->walk.state != state || !size)
			continue;
		if (r->t->debugfs_dead)
			chunk_fail(c, ANSWER_TIMED_OUT, no_return);
		else if (c->walk.at.address > (uint64_t)INT64_MAX - size)
			chunk_fail(c, ANSWER_ABSENT, no_memory);
		else
			slices[n++] = (struct slice){ c->walk.at, c->walk.at.address + size, c, 0 };
	}
	if (n) {
		plan_slices(&b, slices, n);
		batch_run(&b, SILICON_LOOK_MS);
	}
	for (size_t i = 0; i < n; i++) {
		const struct probe *p = &b.probes.data[slices[i].probe];
		struct chunk *c = slices[i].chunk;
		const uint64_t at = slices[i].at.address - p->offset, end = slices[i].end - p->offset;
		const bool good = p->end == PROBE_GOOD, failed = p->end == PROBE_FAILED;
		if (good && end <= p->n && state == VM_FOUND)
			memcpy(c->to, p->data + at, c->n);
		else if (good && end <= p->n)
			vm_walk_on(&c->walk, get_u64(p->data + at));
		else if (good || (failed && (p->error == ENXIO || p->error == EFAULT)))
			chunk_fail(c, ANSWER_ABSENT, no_memory);
		else if (failed && p->error == EPERM && slices[i].at.system)
			chunk_fail(c, ANSWER_ABSENT, "it is memory of the machine that the driver does not show");
		else
			chunk_fail(c, batch_answer(&b, p), failed ? "the driver does not let it be read" : no_return);
		if (c->walk.state == VM_NONE && !c->request->why_not)
			chunk_fail(c, ANSWER_ABSENT, c->walk.why_not);
	}
	if (b.late)
		r->t->gate = (struct gate){ .stuck = true, .why_not = str_z(no_return) };
}

// --- requests ---

static struct space *space_of(struct memory_reading *r, const struct request *q)
{
	struct space *s = list_find(r->spaces, r->nspaces, it,
				    it->hub == q->hub && it->instance == q->hub_instance && it->vmid == q->vmid &&
					    it->tables == q->tables);
	if (s || r->nspaces == SPACES_MOST || q->vmid >= VM_IDS || q->hub > HUB_VRAM)
		return s;
	s = &r->spaces[r->nspaces++];
	*s = (struct space){ .hub = q->hub, .instance = q->hub_instance, .vmid = q->vmid, .tables = q->tables };
	for (size_t i = 0; i < CONTEXT_REGISTERS; i++)
		s->registers[i].answer = ANSWER_ABSENT;
	return s;
}

static void add_chunks(struct memory_reading *r, struct request *q)
{
	const struct space *s = space_of(r, q);
	const uint64_t pages = (q->address % VM_PAGE + q->size + VM_PAGE - 1) / VM_PAGE;
	q->answer = s->answer;
	q->why_not = s->why_not;
	if (s->answer != ANSWER_GIVEN)
		return;
	if (pages + !pages > CHUNKS_MOST - r->nchunks) {
		q->answer = ANSWER_ABSENT;
		q->why_not = "it is more than is read at once";
		return;
	}
	for (size_t at = 0; at < q->size || (!at && q->walk && !q->size);) {
		struct chunk *c = &r->chunks[r->nchunks++];
		const size_t left = VM_PAGE - (q->address + at) % VM_PAGE;
		*c = (struct chunk){ .request = q, .address = q->address + at, .to = (char *)q->to + at };
		c->n = left < q->size - at ? left : q->size - at;
		if (s->hub == HUB_VRAM)
			c->walk = (struct vm_walk){ .state = VM_FOUND, .space = &s->vm, .at = { false, c->address } };
		else
			vm_walk_begin(&c->walk, &s->vm, c->address);
		if (c->walk.state == VM_NONE)
			chunk_fail(c, ANSWER_ABSENT, c->walk.why_not);
		at += c->n ? c->n : 1;
	}
}

void memory_answer(struct silicon *t, struct request *requests, size_t n)
{
	_cleanup_free_ struct request **list = mem_alloc(n * sizeof(*list) + 1);
	size_t asked = 0, k = 0;
	for (size_t i = 0; i < n; i++)
		if (requests[i].kind == REQUEST_MEMORY)
			list[asked++] = &requests[i];
	if (!asked)
		return;
	_cleanup_(memory_reading_free) struct memory_reading *r = mem_alloc(sizeof(*r));
	r->t = t;
	const bool known = vm_format_of(t->know, t->device->gfx, &r->format);
	for (size_t i = 0; i < asked; i++) {
		struct request *q = list[i];
		q->answer = ANSWER_ABSENT;
		q->why_not = NULL;
		if (!known)
			q->why_not = "the page tables of such a GPU are not known";
		else if (q->size > (size_t)CHUNKS_MOST * VM_PAGE || q->address > UINT64_MAX - q->size)
			q->why_not = "it is more than is read at once";
		else if (!space_of(r, q))
			q->why_not = "there is no such VMID, or too many were asked for at once";
		else
			list[k++] = q;
	}
	if (!k)
		return;
	ask_registers(r);
	for (size_t i = 0; i < r->nspaces; i++)
		judge_registers(r, &r->spaces[i]);
	r->chunks = arena_alloc(&r->arena, CHUNKS_MOST * sizeof(*r->chunks));
	for (size_t i = 0; i < k; i++)
		add_chunks(r, list[i]);
	for (size_t i = 0; i < VM_LEVELS; i++)
		read_round(r, VM_WANTS_ENTRY);
	read_round(r, VM_FOUND);
	for (size_t i = r->nchunks; i-- > 0;) // the first page of a request is the last to tell its walk
		if (r->chunks[i].request->walk) {
			*r->chunks[i].request->walk = r->chunks[i].walk;
			r->chunks[i].request->walk->space = NULL;
		}
}

bool target_vram(struct target *target, uint64_t *ret_first, uint64_t *ret_bytes)
{
	_cleanup_(memory_reading_free) struct memory_reading *r = mem_alloc(sizeof(*r));
	r->t = (struct silicon *)target;
	if (!vm_format_of(r->t->know, r->t->device->gfx, &r->format))
		return false;
	ask_registers(r);
	if (list_find(r->gpu, HIVE_REQUIRED, it, it->answer != ANSWER_GIVEN))
		return false;
	*ret_first = vram_first(r);
	*ret_bytes = vram_bytes(r);
	return true;
}
