// Bytes of a GPU's memory, brought to the host by the GPU whose memory it is: its caches know what the kernel will find.
#include "recorder/inputs/copier.h"
#include "recorder/inputs/inputs.h"

enum { UNIT = 16 }; // the addresses that are copied begin and end with whole units: an allocation has whole pages

/** Memory of the host that every GPU can write: a buffer may be another's than that of the queue. One thread alone uses it. */
static char *staged;

void staging_begin(hsa_handle agent)
{
	hsa_status (*allocate)(hsa_handle, size_t, uint32_t, void **) =
		(hsa_status(*)(hsa_handle, size_t, uint32_t, void **))next.ext[EXT_POOL_ALLOCATE];
	hsa_status (*allow)(uint32_t, const hsa_handle *, const uint32_t *, const void *) =
		(hsa_status(*)(uint32_t, const hsa_handle *, const uint32_t *, const void *))next.ext[EXT_ALLOW_ACCESS];
	hsa_handle gpus[GPUS_MOST];
	void *room = NULL;
	copier_of(agent);
	if (staged || !rec.host_pool || allocate(rec.host_pool, STAGING + 2 * UNIT, 0, &room) != HSA_OK)
		return;
	for (uint32_t i = 0; i < rec.ngpus; i++)
		gpus[i] = rec.gpus[i].handle;
	if (allow(rec.ngpus, gpus, NULL, room) == HSA_OK)
		staged = room;
	else
		((hsa_status(*)(void *))next.ext[EXT_POOL_FREE])(room);
}

void staging_end(void)
{
	copiers_end();
	if (staged)
		((hsa_status(*)(void *))next.ext[EXT_POOL_FREE])(staged);
	staged = NULL;
}

/** The runtime asks for room for those that may use a piece of memory. One thread alone asks. */
static hsa_handle users[4 * GPUS_MOST];
static void *users_room(size_t size) { return size <= sizeof(users) ? users : NULL; }

/** The GPU whose memory it is, if it can read @n bytes at @address; 0: memory may be known already, or still, and be mapped for nobody. */
static hsa_handle owner_reads(uint64_t address, size_t n)
{
	pointer_info_fn *ask = (pointer_info_fn *)next.ext[EXT_POINTER_INFO];
	struct hsa_pointer_info info = { .size = sizeof(info) };
	hsa_handle *list = NULL;
	uint32_t count = 0;
	if (ask((const void *)(uintptr_t)address, &info, users_room, &count, &list) != HSA_OK || !info.type ||
	    address - (uintptr_t)info.agent_base >= info.bytes || info.bytes - (address - (uintptr_t)info.agent_base) < n)
		return 0;
	for (uint32_t i = 0; list && i < count; i++)
		if (list[i] == info.owner)
			return owner_is_gpu(info.owner) ? info.owner : 0;
	return 0;
}

typedef hsa_status async_copy_fn(void *to, hsa_handle to_agent, const void *from, hsa_handle from_agent, size_t size,
				 uint32_t n, const hsa_handle *signals, hsa_handle completion);

/** Has the runtime copy it, where no copy of the program's is in the way. */
static bool runtime_copy(void *to, uint64_t from, size_t n, hsa_handle owner)
{
	async_copy_fn *copy = (async_copy_fn *)next.ext[EXT_ASYNC_COPY];
	const hsa_handle done = signal_new(1, owner);
	if (!done || !copies_stop()) {
		signal_end(done);
		return false;
	}
	const bool good = copy(to, rec.host_agent, (const void *)(uintptr_t)from, owner, n, 0, NULL, done) == HSA_OK;
	copies_go_on();
	while (good && signal_counted(done)) // still at 1
		look_pause();
	signal_end(done);
	return good;
}

/** Copies @n bytes at @from to the beginning of the staging memory. */
static bool copy_by(hsa_handle owner, uint64_t from, size_t n)
{
	pthread_mutex_lock(&rec.lock);
	struct copier *c = copier_of(owner);
	pthread_mutex_unlock(&rec.lock);
	return c ? copier_copy(c, staged, from, n) : runtime_copy(staged, from, n, owner);
}

const char *fetch(uint64_t from, size_t n)
{
	const uint64_t aside = from % UNIT;
	if (!staged || n > STAGING || !guard_read())
		return NULL;
	const hsa_handle owner = owner_reads(from, n);
	const bool good = owner && copy_by(owner, from - aside, (n + aside + UNIT - 1) / UNIT * UNIT);
	guard_read_end();
	return good ? staged + aside : NULL;
}
