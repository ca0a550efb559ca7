// Memory that GPUs may reach: allocated here, at an address that is the same for the host and every GPU, or the program's own.
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	GAP = 64 << 10, // between two mappings nothing is, so that who runs over the end of one does not find another
	LARGE = 2 << 20,
};

// --- finding ---

/** Where a block with this base is, or would be. */
static size_t place_of(const struct thunk *t, uint64_t base)
{
	size_t low = 0, high = t->blocks.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (t->blocks.data[middle]->base < base)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct kmt_block *memory_block(struct thunk *t, uint64_t address)
{
	size_t at = place_of(t, address);
	if (at < t->blocks.len && t->blocks.data[at]->base == address)
		return t->blocks.data[at];
	struct kmt_block *b = at ? t->blocks.data[at - 1] : NULL;
	return b && address - b->base < b->size ? b : NULL;
}

/** By the address that the host or that the GPU has for it. Of those that overlap, the one that begins there. */
static struct kmt_block *registered_block(struct thunk *t, uint64_t address)
{
	for (size_t i = t->registered.len; i--;)
		if ((uintptr_t)t->registered.data[i]->inside == address)
			return t->registered.data[i];
	for (size_t i = t->registered.len; i--;) {
		struct kmt_block *b = t->registered.data[i];
		if (address - (uintptr_t)b->inside < b->size || address - b->base < b->size)
			return b;
	}
	return NULL;
}

static struct kmt_block *any_block(struct thunk *t, uint64_t address)
{
	struct kmt_block *b = memory_block(t, address);
	return b ? b : registered_block(t, address);
}

static bool is_mapped(const struct kmt_block *b, uint32_t node)
{
	for (uint32_t i = 0; i < b->nmapped; i++)
		if (b->mapped[i] == node)
			return true;
	return false;
}

/** A block of the program's own memory is given to GPUs by whole pages. */
static uint64_t first_page(const struct kmt_block *b) { return b->base & ~(uint64_t)(KMT_PAGE - 1); }
static uint64_t last_page_end(const struct kmt_block *b)
{
	return (b->base + b->size + KMT_PAGE - 1) & ~(uint64_t)(KMT_PAGE - 1);
}

static struct kmt_block *reachable(struct thunk *t, uint32_t node, uint64_t address)
{
	struct kmt_block *b = memory_block(t, address);
	if (b && is_mapped(b, node))
		return b;
	for (size_t i = t->registered.len; i--;) {
		b = t->registered.data[i];
		if (address >= first_page(b) && address < last_page_end(b) && is_mapped(b, node))
			return b;
	}
	return svm_block(t, node, address);
}

char *memory_reach(struct thunk *t, uint32_t node, uint64_t address, bool write, uint64_t *ret_size)
{
	const struct kmt_block *b = reachable(t, node, address);
	if (!b || (write && b->flags & KMT_MEMORY_READ_ONLY))
		return NULL;
	*ret_size = last_page_end(b) - address;
	return b->inside + (int64_t)(address - b->base);
}

// --- allocating ---

static void insert(struct thunk *t, struct kmt_block *b)
{
	size_t at = place_of(t, b->base);
	vec_push(&t->blocks, b);
	memmove(t->blocks.data + at + 1, t->blocks.data + at, (t->blocks.len - 1 - at) * sizeof(b));
	t->blocks.data[at] = b;
}

/** Address space with nothing in it, and a gap behind it. What is large lies as the driver lays it, which the runtime relies on. */
static char *reserve(uint64_t size)
{
	uint64_t align = size < LARGE ? KMT_PAGE : LARGE, all = size + GAP + align;
	char *space = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		return NULL;
	char *begin = (char *)(((uintptr_t)space + align - 1) & ~(uintptr_t)(align - 1)), *end = begin + size + GAP;
	if (begin > space)
		munmap(space, (size_t)(begin - space));
	if (end < space + all)
		munmap(end, (size_t)(space + all - end));
	return begin;
}

/** VRAM is a file, so that there can be two mappings of it, and others' processes can map it. A child of this process does not see it. */
static bool map_file(const struct thunk *t, struct kmt_block *b, char *at)
{
	bool closed = t->plan.closed;
	void *inside = mmap(closed ? NULL : at, b->size, PROT_READ | PROT_WRITE, MAP_SHARED | (closed ? 0 : MAP_FIXED), b->file,
			    (off_t)b->offset);
	if (inside == MAP_FAILED)
		return false;
	madvise(inside, b->size, MADV_DONTFORK);
	b->inside = inside;
	return true;
}

static bool map_system(struct kmt_block *b, char *at)
{
	int access = b->flags & KMT_MEMORY_SCRATCH ? PROT_NONE : PROT_READ | PROT_WRITE;
	b->inside = mmap(at, b->size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return b->inside != MAP_FAILED;
}

struct kmt_block *memory_map(struct thunk *t, const struct kmt_block *wanted)
{
	char *space = reserve(wanted->size);
	if (!space)
		return NULL;
	struct kmt_block *b = mem_alloc(sizeof(*b));
	*b = *wanted;
	b->base = (uintptr_t)space;
	if (b->file >= 0 ? map_file(t, b, space) : map_system(b, space)) {
		insert(t, b);
		return b;
	}
	munmap(space, b->size + GAP);
	free(b);
	return NULL;
}

static struct kmt_block *allocate(struct thunk *t, uint32_t node, uint64_t size, uint32_t flags)
{
	struct kmt_block wanted = { .size = size, .type = KMT_POINTER_ALLOCATED, .flags = flags, .node = node, .file = -1 };
	wanted.vram = thunk_gpu(t, node) && !(flags & KMT_MEMORY_SCRATCH);
	if (wanted.vram) {
		wanted.file = t->vram;
		wanted.offset = t->vram_end;
		if (ftruncate(t->vram, (off_t)(t->vram_end + size)))
			return NULL;
		t->vram_end += size;
	}
	return memory_map(t, &wanted);
}

/** Where the plan says so it never comes back, as in a driver that is stuck. */
static void stop_where_planned(struct thunk *t, uint64_t size)
{
	for (size_t i = 0; i < t->plan.nrules; i++) {
		struct plan_rule *r = &t->plan.rules[i];
		if (!r->allocation || size < r->bytes)
			continue;
		if (r->nth && __atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED) != r->nth)
			continue;
		if (r->does == PLAN_SLOW)
			sleep_seconds(r->seconds);
		while (r->does == PLAN_HANG)
			sleep_seconds(1);
	}
}

static void tell_used(struct thunk *t, const struct plan_gpu *g, uint64_t used)
{
	if (g)
		thunk_tell(t, "vram %u %llu", g->id, (unsigned long long)used);
}

int hsaKmtAllocMemory(uint32_t node, uint64_t size, uint32_t flags, void **address)
{
	struct thunk *t = thunk_get();
	const struct plan_gpu *g = thunk_gpu(t, node);
	if ((node && !g) || !size || size % KMT_PAGE || size >> 46 || flags & KMT_MEMORY_FIXED)
		return KMT_INVALID_PARAMETER;
	bool vram = g && !(flags & KMT_MEMORY_SCRATCH);
	if (vram)
		stop_where_planned(t, size);
	pthread_rwlock_wrlock(&t->memory);
	bool room = !vram || size <= g->vram - t->used[node];
	struct kmt_block *b = room ? allocate(t, node, size, flags) : NULL;
	if (b) {
		// As on a gfx94x, whose runtime puts the arguments of kernels into VRAM that the host may write.
		if (t->plan.closed && flags & KMT_MEMORY_UNCACHED)
			b->node = t->plan.gpus[0].node;
		t->used[node] += vram ? size : 0;
		*address = (void *)(uintptr_t)b->base;
	}
	uint64_t used = t->used[node];
	pthread_rwlock_unlock(&t->memory);
	if (vram && b)
		tell_used(t, g, used);
	return b ? KMT_SUCCESS : KMT_NO_MEMORY;
}

void memory_unmap(struct thunk *t, struct kmt_block *b)
{
	size_t at = place_of(t, b->base);
	memmove(t->blocks.data + at, t->blocks.data + at + 1, (--t->blocks.len - at) * sizeof(b));
	if (b->file >= 0 && t->plan.closed)
		munmap(b->inside, b->size);
	munmap((void *)(uintptr_t)b->base, b->size + GAP);
	code_free(b->code);
	free(b);
}

int hsaKmtFreeMemory(void *address, uint64_t size)
{
	struct thunk *t = thunk_get();
	(void)size;
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = memory_block(t, (uintptr_t)address);
	bool good = b && b->base == (uintptr_t)address && b->type == KMT_POINTER_ALLOCATED;
	const struct plan_gpu *g = good && b->vram ? thunk_gpu(t, b->node) : NULL;
	if (g) {
		t->used[g->node] -= b->size;
		fallocate(t->vram, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)b->offset, (off_t)b->size);
	}
	if (good)
		memory_unmap(t, b);
	uint64_t used = g ? t->used[g->node] : 0;
	pthread_rwlock_unlock(&t->memory);
	tell_used(t, g, used);
	return good ? KMT_SUCCESS : KMT_INVALID_PARAMETER;
}

// --- the program's own memory ---

/** The GPU gets it at an address of its own, by whole pages: the host's address means nothing to it. */
static struct kmt_block *register_block(struct thunk *t, char *address, uint64_t size, uint32_t flags)
{
	uint64_t offset = (uintptr_t)address % KMT_PAGE;
	char *space = reserve((offset + size + KMT_PAGE - 1) & ~(uint64_t)(KMT_PAGE - 1));
	if (!space)
		return NULL;
	struct kmt_block *b = mem_alloc(sizeof(*b));
	*b = (struct kmt_block){ .base = (uintptr_t)space + offset,
				 .size = size,
				 .inside = address,
				 .file = -1,
				 .type = KMT_POINTER_USER,
				 .flags = flags };
	vec_push(&t->registered, b);
	return b;
}

int hsaKmtRegisterMemoryWithFlags(void *address, uint64_t size, uint32_t flags)
{
	struct thunk *t = thunk_get();
	if (!address || !size || size >> 46)
		return KMT_INVALID_PARAMETER;
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = registered_block(t, (uintptr_t)address);
	if (!b || b->inside != address || b->size != size)
		b = register_block(t, address, size, flags);
	if (b)
		b->registrations++;
	pthread_rwlock_unlock(&t->memory);
	return b ? KMT_SUCCESS : KMT_NO_MEMORY;
}

int hsaKmtDeregisterMemory(void *address)
{
	struct thunk *t = thunk_get();
	bool found = false;
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *shared = memory_block(t, (uintptr_t)address);
	if (shared && shared->base == (uintptr_t)address && shared->type == KMT_POINTER_SHARED) {
		found = true;
		close(shared->file);
		memory_unmap(t, shared);
	}
	for (size_t i = t->registered.len; i-- && !found;) {
		struct kmt_block *b = t->registered.data[i];
		found = b->inside == address;
		if (!found || --b->registrations)
			continue;
		t->registered.data[i] = t->registered.data[--t->registered.len];
		munmap((void *)(uintptr_t)first_page(b), last_page_end(b) - first_page(b) + GAP);
		free(b);
	}
	pthread_rwlock_unlock(&t->memory);
	return found ? KMT_SUCCESS : KMT_INVALID_PARAMETER;
}

// --- mapping ---

static void map_for(struct kmt_block *b, uint32_t node)
{
	if (!is_mapped(b, node) && b->nmapped < KMT_NODES_MOST)
		b->mapped[b->nmapped++] = node;
}

int hsaKmtMapMemoryToGPUNodes(void *address, uint64_t size, uint64_t *ret_other, uint32_t flags, uint64_t n,
			      const uint32_t *nodes)
{
	struct thunk *t = thunk_get();
	(void)size;
	(void)flags;
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = any_block(t, (uintptr_t)address);
	if (b) {
		b->nmapped = 0;
		for (uint64_t i = 0; i < n; i++)
			map_for(b, nodes[i]);
		if (ret_other)
			*ret_other = b->type == KMT_POINTER_USER ? b->base : (uintptr_t)address;
	}
	pthread_rwlock_unlock(&t->memory);
	return b ? KMT_SUCCESS : KMT_INVALID_PARAMETER;
}

/** Scratch is mapped piece by piece; who maps a piece of it gets all. */
int hsaKmtMapMemoryToGPU(void *address, uint64_t size, uint64_t *ret_other)
{
	struct thunk *t = thunk_get();
	uint32_t nodes[PLAN_GPUS_MOST];
	for (size_t i = 0; i < t->plan.ngpus; i++)
		nodes[i] = t->plan.gpus[i].node;
	return hsaKmtMapMemoryToGPUNodes(address, size, ret_other, 0, t->plan.ngpus, nodes);
}

int hsaKmtUnmapMemoryToGPU(void *address)
{
	struct thunk *t = thunk_get();
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = any_block(t, (uintptr_t)address);
	if (b)
		b->nmapped = 0;
	pthread_rwlock_unlock(&t->memory);
	return b ? KMT_SUCCESS : KMT_INVALID_PARAMETER;
}

// --- asking ---

int hsaKmtQueryPointerInfo(const void *address, struct kmt_pointer *ret)
{
	struct thunk *t = thunk_get();
	*ret = (struct kmt_pointer){ .type = KMT_POINTER_UNKNOWN };
	pthread_rwlock_rdlock(&t->memory);
	struct kmt_block *b = any_block(t, (uintptr_t)address);
	if (b) {
		*ret = (struct kmt_pointer){ .type = b->type,
					     .node = b->node,
					     .flags = b->flags,
					     .host = b->file >= 0 && t->plan.closed ? NULL : b->inside,
					     .gpu = b->base,
					     .size = b->size,
					     .nmapped = b->nmapped,
					     .mapped = b->mapped,
					     .user = b->user };
	}
	pthread_rwlock_unlock(&t->memory);
	return b ? KMT_SUCCESS : KMT_ERROR;
}

int hsaKmtSetMemoryUserData(const void *address, void *user)
{
	struct thunk *t = thunk_get();
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = any_block(t, (uintptr_t)address);
	if (b)
		b->user = user;
	pthread_rwlock_unlock(&t->memory);
	return b ? KMT_SUCCESS : KMT_INVALID_PARAMETER;
}
