// Memory that GPUs may reach: in a file of ours, which the program maps from its render node, or the program's own.
#include "emulator/preload/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/** Where mmap offsets begin that name another process's memory; below they are those of the file. */
#define FOREIGN KMT_FILE_BYTES

// --- finding ---

/** Where a block with this base is, or would be. */
static size_t place_of(const struct kmt *t, uint64_t base)
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

struct kmt_block *memory_block(struct kmt *t, uint64_t address)
{
	size_t at = place_of(t, address);
	if (at < t->blocks.len && t->blocks.data[at]->base == address)
		return t->blocks.data[at];
	struct kmt_block *b = at ? t->blocks.data[at - 1] : NULL;
	return b && b->base && address - b->base < b->size ? b : NULL; // 0: it has no address
}

struct kmt_block *memory_of(struct kmt *t, uint64_t handle)
{
	for (size_t i = t->blocks.len; i--;)
		if (t->blocks.data[i]->handle == handle)
			return t->blocks.data[i];
	return NULL;
}

char *memory_reach(struct kmt *t, const struct plan_gpu *g, uint64_t address, bool write, uint64_t *ret_size)
{
	const struct kmt_block *b = memory_block(t, address);
	if (!b || !(b->gpus & gpu_bit(t, g)))
		b = svm_block(t, g, address);
	if (!b || !b->inside || (write && !(b->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)))
		return NULL;
	*ret_size = b->base + b->size - address;
	return b->inside + (address - b->base);
}

bool memory_commands(struct kmt *t, uint64_t address)
{
	pthread_rwlock_rdlock(&t->memory);
	const struct kmt_block *b = memory_block(t, address);
	bool is = b && (b->ring || b->flags & KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED);
	pthread_rwlock_unlock(&t->memory);
	return is;
}

int memory_file(struct kmt *t, uint64_t mmap_offset, uint64_t *ret_offset)
{
	int file = t->file;
	*ret_offset = mmap_offset;
	pthread_rwlock_rdlock(&t->memory);
	for (size_t i = 0; mmap_offset >= FOREIGN && i < t->blocks.len; i++)
		if (t->blocks.data[i]->mmap_offset == mmap_offset) {
			file = t->blocks.data[i]->file;
			*ret_offset = t->blocks.data[i]->offset;
		}
	pthread_rwlock_unlock(&t->memory);
	return file;
}

// --- allocating ---

/** The program's own mapping may be closed to it, or gone: the stand-ins have another. A child of this process does not see it. */
bool memory_open(struct kmt_block *b)
{
	b->inside = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->file, (off_t)b->offset);
	return b->inside != MAP_FAILED && !madvise(b->inside, b->size, MADV_DONTFORK);
}

struct kmt_block *memory_insert(struct kmt *t, const struct kmt_block *wanted)
{
	struct kmt_block *b = mem_alloc(sizeof(*b));
	size_t at = place_of(t, wanted->base);
	*b = *wanted;
	b->handle = ++t->handles;
	if (b->file >= 0 && b->file != t->file)
		b->mmap_offset = FOREIGN + b->handle * KMT_PAGE;
	vec_push(&t->blocks, b);
	memmove(t->blocks.data + at + 1, t->blocks.data + at, (t->blocks.len - 1 - at) * sizeof(b));
	t->blocks.data[at] = b;
	return b;
}

/** Where the plan says so it never comes back, as in a driver that is stuck. */
static void stop_where_planned(struct kmt *t, const struct plan_gpu *g, uint64_t size)
{
	for (size_t i = 0; i < t->plan.nrules; i++) {
		struct plan_rule *r = &t->plan.rules[i];
		if (!r->allocation || size < r->bytes || (r->gpu >= 0 && g != &t->plan.gpus[r->gpu]))
			continue;
		if (r->nth && __atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED) != r->nth)
			continue;
		if (r->does == PLAN_SLOW)
			sleep_seconds(r->seconds);
		while (r->does == PLAN_HANG)
			sleep_seconds(1);
	}
}

static bool is_vram(const struct kmt_block *b) { return b->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM; }

static uint64_t charge_of(uint64_t size) { return (size + KMT_CHARGE - 1) / KMT_CHARGE * KMT_CHARGE; }

static void tell_used(struct kmt *t, const struct plan_gpu *g, uint64_t used)
{
	kfd_tell(t, "vram %u %llu", g->id, (unsigned long long)used);
}

/** Room in the file. Doorbells have a place of their own in it, which queues name. */
static bool take_room(struct kmt *t, struct kmt_block *b)
{
	if (b->flags & (KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL))
		return true;
	b->file = t->file;
	b->offset = b->mmap_offset = t->file_end;
	if (b->size > KMT_FILE_BYTES - t->file_end || !memory_open(b))
		return false;
	t->file_end += b->size;
	return true;
}

int memory_allocate(struct kmt *t, struct kfd_ioctl_alloc_memory_of_gpu_args *a)
{
	const struct plan_gpu *g = kfd_gpu(t, a->gpu_id);
	struct kmt_block wanted = {
		.base = a->va_addr, .size = a->size, .flags = a->flags, .gpu = g, .file = -1, .socket = -1
	};
	bool user = a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, vram = is_vram(&wanted);
	if (!g || !a->size || a->size % KMT_PAGE || a->size >> 46 || a->va_addr % KMT_PAGE)
		return -EINVAL;
	wanted.counted = vram;
	if (vram)
		stop_where_planned(t, g, a->size);
	if (user) {
		wanted.inside = (char *)(uintptr_t)a->mmap_offset;
		wanted.mmap_offset = a->mmap_offset;
	}
	pthread_rwlock_wrlock(&t->memory);
	uint64_t *used = &t->used[g - t->plan.gpus], now = 0;
	const struct kmt_block *b = NULL;
	if (!vram || a->size <= g->vram - *used)
		b = take_room(t, &wanted) ? memory_insert(t, &wanted) : NULL;
	if (b) {
		*used += vram ? a->size : 0;
		t->charged[g - t->plan.gpus] += vram ? charge_of(a->size) : 0;
		a->handle = b->handle;
		a->mmap_offset = b->mmap_offset;
	}
	now = *used;
	pthread_rwlock_unlock(&t->memory);
	if (vram && b)
		tell_used(t, g, now);
	return b ? 0 : -ENOMEM;
}

/** Whether other addresses have a part of the same memory. */
static bool is_shared(const struct kmt *t, const struct kmt_block *b)
{
	for (size_t i = 0; i < t->blocks.len; i++) {
		const struct kmt_block *o = t->blocks.data[i];
		if (o != b && o->file == b->file && o->offset < b->offset + b->size && b->offset < o->offset + o->size)
			return true;
	}
	return false;
}

void memory_drop(struct kmt *t, struct kmt_block *b)
{
	size_t at = place_of(t, b->base);
	while (t->blocks.data[at] != b)
		at++;
	memmove(t->blocks.data + at, t->blocks.data + at + 1, (--t->blocks.len - at) * sizeof(b));
	if (b->file >= 0)
		munmap(b->inside, b->size);
	if (b->file >= 0 && b->file != t->file)
		syscall(SYS_close, b->file);
	else if (b->file >= 0 && !is_shared(t, b) && !dmabuf_is_out(t, b->offset))
		fallocate(t->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)b->offset, (off_t)b->size);
	if (b->socket >= 0)
		syscall(SYS_close, b->socket);
	code_free(b->code);
	free(b);
}

int memory_free(struct kmt *t, uint64_t handle)
{
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = memory_of(t, handle);
	const struct plan_gpu *g = b && b->counted ? b->gpu : NULL;
	uint64_t now = 0;
	if (g) {
		now = t->used[g - t->plan.gpus] -= b->size;
		t->charged[g - t->plan.gpus] -= charge_of(b->size);
	}
	if (b)
		memory_drop(t, b);
	pthread_rwlock_unlock(&t->memory);
	if (g)
		tell_used(t, g, now);
	return b ? 0 : -EINVAL;
}

/** Also the opposite: both have the same arguments. */
int memory_map(struct kmt *t, const struct kfd_ioctl_map_memory_to_gpu_args *a, bool map)
{
	const uint32_t *ids = (const uint32_t *)(uintptr_t)a->device_ids_array_ptr;
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_block *b = memory_of(t, a->handle);
	for (uint32_t i = 0; b && i < a->n_devices; i++) {
		const struct plan_gpu *g = kfd_gpu(t, ids[i]);
		uint64_t bit = g ? gpu_bit(t, g) : 0;
		b->gpus = map ? b->gpus | bit : b->gpus & ~bit;
	}
	pthread_rwlock_unlock(&t->memory);
	return b ? 0 : -EINVAL;
}

// --- VRAM that several processes share: who has the handle maps the other's file ---

enum { SHARE_OWNER, SHARE_OFFSET, SHARE_PAGES, SHARE_FLAGS, OWNER_FILE_BITS = 10 };

int memory_export(struct kmt *t, struct kmt_ipc_export *a)
{
	pthread_rwlock_rdlock(&t->memory);
	const struct kmt_block *b = memory_of(t, a->handle);
	bool good = b && b->file == t->file;
	if (good) {
		a->share[SHARE_OWNER] = (uint32_t)getpid() << OWNER_FILE_BITS | (uint32_t)b->file;
		a->share[SHARE_OFFSET] = (uint32_t)(b->offset / KMT_PAGE);
		a->share[SHARE_PAGES] = (uint32_t)(b->size / KMT_PAGE);
		a->share[SHARE_FLAGS] = a->flags;
	}
	pthread_rwlock_unlock(&t->memory);
	return good ? 0 : -EINVAL;
}

int memory_import(struct kmt *t, struct kmt_ipc_import *a)
{
	char path[64];
	const struct plan_gpu *g = kfd_gpu(t, a->gpu_id);
	const uint32_t owner = a->share[SHARE_OWNER];
	snprintf(path, sizeof(path), "/proc/%u/fd/%u", owner >> OWNER_FILE_BITS, owner & ((1 << OWNER_FILE_BITS) - 1));
	struct kmt_block wanted = { .base = a->va,
				    .size = (uint64_t)a->share[SHARE_PAGES] * KMT_PAGE,
				    .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE,
				    .gpu = g,
				    .socket = -1,
				    .offset = (uint64_t)a->share[SHARE_OFFSET] * KMT_PAGE };
	if (!g || !wanted.size)
		return -EINVAL;
	wanted.file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	if (wanted.file < 0)
		return -EINVAL;
	if (!memory_open(&wanted)) {
		syscall(SYS_close, wanted.file);
		return -ENOMEM;
	}
	pthread_rwlock_wrlock(&t->memory);
	const struct kmt_block *b = memory_insert(t, &wanted);
	a->handle = b->handle;
	a->mmap_offset = t->plan.closed ? 0 : b->mmap_offset;
	a->flags = a->share[SHARE_FLAGS];
	pthread_rwlock_unlock(&t->memory);
	return 0;
}
