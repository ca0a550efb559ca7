// What the framework is doing, where the flight recorder is beside us and is told.
#include <dlfcn.h>

#include "preload/guard.h"

enum { OPERATION_NAME = sizeof(((struct alloc_operation *)0)->name) };

static uint32_t (*current)(char *name, size_t size);

void operations_find(void)
{
	void *in = dlopen("libunhang-recorder.so", RTLD_LAZY | RTLD_NOLOAD);
	void *found = next_symbol(in ? in : RTLD_DEFAULT, "unhang_recorder_operation");
	__atomic_store_n((void **)&current, found, __ATOMIC_RELEASE);
}

uint32_t operation_here(char *ret_name, size_t size)
{
	void *at = __atomic_load_n((void **)&current, __ATOMIC_ACQUIRE);
	uint32_t (*f)(char *name, size_t size);
	memcpy(&f, &at, sizeof(f));
	return f ? f(ret_name, size) : 0;
}

/** The number of a name in the file; 0: there is no room for it. The lock is held. */
static uint32_t name_number(const char name[static OPERATION_NAME])
{
	static uint32_t used;
	uint64_t hash = 0xcbf29ce484222325u;
	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	for (uint32_t n = 0; n < guard.noperations; n++) {
		const uint32_t at = (uint32_t)((hash + n) % guard.noperations);
		struct alloc_operation *o = &guard.operations[at];
		if (o->id && !strcmp(o->name, name))
			return at + 1;
		if (o->id)
			continue;
		if (used >= guard.noperations / 4 * 3)
			return 0; // a table that is full takes long to look through
		struct alloc_operation fresh = { 0 };
		memcpy(fresh.name, name, sizeof(fresh.name));
		record_write(o, &fresh, sizeof(fresh) / 8, at + 1);
		used++;
		return at + 1;
	}
	return 0;
}

void operation_fill(struct request *q)
{
	char name[OPERATION_NAME] = "";
	q->operation = operation_here(name, sizeof(name));
	if (!q->operation || !name[0])
		return;
	pthread_mutex_lock(&guard.lock);
	q->doing = name_number(name);
	pthread_mutex_unlock(&guard.lock);
}
