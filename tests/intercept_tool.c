// A tools library of the other kind, as profilers are: it makes every queue an intercept queue and counts the packets.
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "recorder/hsa.h"

enum { POOL_ALLOCATE = 13, ASYNC_COPY = 15, INTERCEPT_CREATE = 35, INTERCEPT_REGISTER = 36, LATER = 2, SIZE_OF_LATER = 456 };

static _Atomic unsigned long seen;
static queue_create_fn *intercept_create;
static hsa_status (*intercept_register)(struct hsa_queue *queue, intercept_fn *handler, void *data);

static void handle(const void *packets, uint64_t n, uint64_t index, void *data, packet_writer_fn *write)
{
	(void)index;
	(void)data;
	seen += n;
	write(packets, n);
}

static hsa_status create(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
			 uint32_t private_size, uint32_t group_size, struct hsa_queue **ret)
{
	const hsa_status status = intercept_create(agent, size, type, error, data, private_size, group_size, ret);
	return status == HSA_OK ? intercept_register(*ret, handle, NULL) : status;
}

static hsa_status (*allocate)(hsa_handle pool, size_t size, uint32_t flags, void **ret);

/** Threads that allocate much at the same time have it one after the other. */
static hsa_status allocate_slowly(hsa_handle pool, size_t size, uint32_t flags, void **ret)
{
	enum { MUCH = 4 << 20, EACH = 100 * 1000 * 1000 };
	static _Atomic long calls;
	void *memory = NULL;
	const hsa_status status = allocate(pool, size, flags, &memory);
	if (size > MUCH)
		nanosleep(&(struct timespec){ .tv_nsec = EACH * (1 + calls++ % 4) }, NULL);
	*ret = memory;
	return status;
}

typedef hsa_status copy_fn(void *to, hsa_handle to_agent, const void *from, hsa_handle from_agent, size_t size, uint32_t n,
			   const hsa_handle *signals, hsa_handle completion);
static copy_fn *copy;

static hsa_status copy_slowly(void *to, hsa_handle to_agent, const void *from, hsa_handle from_agent, size_t size, uint32_t n,
			      const hsa_handle *signals, hsa_handle completion)
{
	nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
	return copy(to, to_agent, from, from_agent, size, n, signals, completion);
}

static hsa_status copy_never(void *to, hsa_handle to_agent, const void *from, hsa_handle from_agent, size_t size, uint32_t n,
			     const hsa_handle *signals, hsa_handle completion)
{
	pause();
	return copy(to, to_agent, from, from_agent, size, n, signals, completion);
}

static hsa_status (*code_read)(const void *code, size_t size, hsa_handle *ret);

/** The recorder's kernel is smaller than any other code object here. */
static hsa_status code_refuse(const void *code, size_t size, hsa_handle *ret)
{
	enum { SMALL = 4096 };
	return size < SMALL ? HSA_ERROR : code_read(code, size, ret);
}

bool OnLoad(struct hsa_root *root, uint64_t version, uint64_t failed, const char *const *names);
bool OnLoad(struct hsa_root *root, uint64_t version, uint64_t failed, const char *const *names)
{
	const int later = root->ext->minor >= SIZE_OF_LATER ? LATER : 0;
	(void)version;
	(void)failed;
	(void)names;
	if (getenv("INTERCEPT_TOOL_SLOW")) {
		allocate = (hsa_status(*)(hsa_handle, size_t, uint32_t, void **))root->ext->functions[POOL_ALLOCATE];
		root->ext->functions[POOL_ALLOCATE] = (void *)allocate_slowly;
		return true;
	}
	const char *how = getenv("INTERCEPT_TOOL_COPY");
	if (how) {
		code_read = (hsa_status(*)(const void *, size_t, hsa_handle *))root->core->functions[CORE_READER_FROM_MEMORY];
		root->core->functions[CORE_READER_FROM_MEMORY] = (void *)code_refuse;
		copy = (copy_fn *)root->ext->functions[ASYNC_COPY];
		if (!strcmp(how, "slow"))
			root->ext->functions[ASYNC_COPY] = (void *)copy_slowly;
		else if (!strcmp(how, "never"))
			root->ext->functions[ASYNC_COPY] = (void *)copy_never;
		return true;
	}
	intercept_create = (queue_create_fn *)root->ext->functions[INTERCEPT_CREATE + later];
	intercept_register =
		(hsa_status(*)(struct hsa_queue *, intercept_fn *, void *))root->ext->functions[INTERCEPT_REGISTER + later];
	root->core->functions[CORE_QUEUE_CREATE] = (void *)create;
	return true;
}

static __attribute__((destructor)) void tell(void) { fprintf(stderr, "intercept-tool: %lu\n", seen); }
