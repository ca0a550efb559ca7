// VRAM that several processes share: who has the handle maps the other's file.
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/** What a handle's words are. The runtime keeps the upper bit and the lowest nine of the seventh for itself. */
enum { SHARE_MARK, SHARE_PROCESS, SHARE_FILE, SHARE_NODE, SHARE_OFFSET, SHARE_PAGES };
enum { MARK = 0x6b667364 };

int hsaKmtShareMemory(void *address, uint64_t size, struct kmt_shared_handle *ret)
{
	struct thunk *t = thunk_get();
	pthread_rwlock_rdlock(&t->memory);
	const struct kmt_block *b = memory_block(t, (uintptr_t)address);
	bool good = b && b->base == (uintptr_t)address && b->size == size && b->vram;
	if (good)
		*ret = (struct kmt_shared_handle){ { [SHARE_MARK] = MARK,
						     [SHARE_PROCESS] = (uint32_t)getpid(),
						     [SHARE_FILE] = (uint32_t)b->file,
						     [SHARE_NODE] = b->node,
						     [SHARE_OFFSET] = (uint32_t)(b->offset / KMT_PAGE),
						     [SHARE_PAGES] = (uint32_t)(b->size / KMT_PAGE) } };
	pthread_rwlock_unlock(&t->memory);
	return good ? KMT_SUCCESS : KMT_INVALID_PARAMETER;
}

int hsaKmtRegisterSharedHandle(const struct kmt_shared_handle *handle, void **ret_address, uint64_t *ret_size)
{
	struct thunk *t = thunk_get();
	const uint32_t *w = handle->words;
	char path[64];
	if (w[SHARE_MARK] != MARK || !w[SHARE_PAGES])
		return KMT_INVALID_PARAMETER;
	snprintf(path, sizeof(path), "/proc/%u/fd/%u", w[SHARE_PROCESS], w[SHARE_FILE]);
	struct kmt_block wanted = { .size = (uint64_t)w[SHARE_PAGES] * KMT_PAGE,
				    .offset = (uint64_t)w[SHARE_OFFSET] * KMT_PAGE,
				    .type = KMT_POINTER_SHARED,
				    .node = w[SHARE_NODE],
				    .file = open(path, O_RDWR | O_CLOEXEC) };
	if (wanted.file < 0)
		return KMT_INVALID_PARAMETER;
	pthread_rwlock_wrlock(&t->memory);
	const struct kmt_block *b = memory_map(t, &wanted);
	if (b) {
		*ret_address = (void *)(uintptr_t)b->base;
		*ret_size = b->size;
	}
	pthread_rwlock_unlock(&t->memory);
	if (!b)
		close(wanted.file);
	return b ? KMT_SUCCESS : KMT_NO_MEMORY;
}

/** For which GPUs is said when it is mapped. */
int hsaKmtRegisterSharedHandleToNodes(const struct kmt_shared_handle *handle, void **ret_address, uint64_t *ret_size,
				      uint64_t n, uint32_t *nodes)
{
	(void)n, (void)nodes;
	return hsaKmtRegisterSharedHandle(handle, ret_address, ret_size);
}
