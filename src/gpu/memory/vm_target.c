// The memory that a VMID of a live GPU sees, as a target of its own: for code that is looked for where a wave runs. Pages are kept, and
// read many at once, because each look down the page tables costs several children.
#include <stdlib.h>

#include "gpu/memory/vm.h"

enum {
	BLOCK_PAGES = 64,
	BLOCK = BLOCK_PAGES * VM_PAGE,
	BLOCKS_MOST = 64, // 16 MiB
};

struct vm_block {
	uint64_t address; // a multiple of BLOCK
	bool there[BLOCK_PAGES];
	char *bytes;
};

struct vm_target {
	struct target target;
	struct target *gpu;
	enum hub hub;
	unsigned instance, vmid;
	VEC(struct vm_block) blocks;
};

static const struct vm_block *block_of(struct vm_target *t, uint64_t address)
{
	const uint64_t begin = address & ~(uint64_t)(BLOCK - 1);
	struct vm_block b = { .address = begin };
	struct request pages[BLOCK_PAGES];
	for (size_t i = 0; i < t->blocks.len; i++)
		if (t->blocks.data[i].address == begin)
			return &t->blocks.data[i];
	if (t->blocks.len == BLOCKS_MOST)
		return NULL;
	b.bytes = mem_alloc(BLOCK);
	for (size_t i = 0; i < BLOCK_PAGES; i++)
		pages[i] = (struct request){ .kind = REQUEST_MEMORY,
					     .address = begin + i * VM_PAGE,
					     .size = VM_PAGE,
					     .to = b.bytes + i * VM_PAGE,
					     .hub = t->hub,
					     .hub_instance = t->instance,
					     .vmid = t->vmid };
	t->gpu->ask(t->gpu, pages, BLOCK_PAGES);
	for (size_t i = 0; i < BLOCK_PAGES; i++)
		b.there[i] = pages[i].answer == ANSWER_GIVEN;
	vec_push(&t->blocks, b);
	return &t->blocks.data[t->blocks.len - 1];
}

static enum answer read_memory(struct vm_target *t, const struct request *r)
{
	if (r->size > BLOCKS_MOST * (size_t)BLOCK || r->address > UINT64_MAX - r->size - BLOCK)
		return ANSWER_ABSENT;
	for (size_t done = 0; done < r->size;) {
		const uint64_t address = r->address + done, at = address % BLOCK;
		const size_t left = VM_PAGE - address % VM_PAGE, n = left < r->size - done ? left : r->size - done;
		const struct vm_block *b = block_of(t, address);
		if (!b || !b->there[at / VM_PAGE])
			return ANSWER_ABSENT;
		memcpy((char *)r->to + done, b->bytes + at, n);
		done += n;
	}
	return ANSWER_GIVEN;
}

static void vm_ask(struct target *target, struct request *requests, size_t n)
{
	for (size_t i = 0; i < n; i++)
		requests[i].answer = requests[i].kind == REQUEST_MEMORY ?
					     read_memory((struct vm_target *)target, &requests[i]) :
					     ANSWER_ABSENT;
}

static struct str vm_problems(struct target *target)
{
	(void)target;
	return (struct str){ 0 };
}

static void vm_close(struct target *target)
{
	struct vm_target *t = (struct vm_target *)target;
	for (size_t i = 0; i < t->blocks.len; i++)
		free(t->blocks.data[i].bytes);
	vec_free(&t->blocks);
	free(t);
}

struct target *target_vmid(struct target *gpu, enum hub hub, unsigned instance, unsigned vmid)
{
	struct vm_target *t = mem_alloc(sizeof(*t));
	t->target = (struct target){
		.kind = "gpu-memory", .name = gpu->name, .ask = vm_ask, .problems = vm_problems, .close = vm_close
	};
	t->gpu = gpu;
	t->hub = hub;
	t->instance = instance;
	t->vmid = vmid;
	return &t->target;
}
