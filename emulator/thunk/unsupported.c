// What the runtime asks for and goes on without, or what changes nothing here.
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

int hsaKmtRuntimeEnable(void *list, bool registers)
{
	(void)registers;
	thunk_get()->list = (uintptr_t)list;
	return KMT_SUCCESS; // the runtime then takes exceptions of queues from the driver
}

int hsaKmtRuntimeDisable(void) { return KMT_SUCCESS; }

int hsaKmtSetTrapHandler(uint32_t node, void *handler, uint64_t size, void *buffer, uint64_t buffer_size)
{
	(void)node, (void)handler, (void)size, (void)buffer, (void)buffer_size;
	return KMT_SUCCESS;
}

int hsaKmtSetMemoryPolicy(uint32_t node, uint32_t normal, uint32_t other, void *address, uint64_t size)
{
	(void)node, (void)normal, (void)other, (void)address, (void)size;
	return KMT_SUCCESS;
}

int hsaKmtSetQueueCUMask(uint64_t queue, uint32_t bits, uint32_t *mask)
{
	(void)queue, (void)bits, (void)mask;
	return KMT_SUCCESS;
}

int hsaKmtAllocQueueGWS(uint64_t queue, uint32_t n, uint32_t *ret_first)
{
	(void)queue, (void)n;
	if (ret_first)
		*ret_first = 0;
	return KMT_SUCCESS;
}

/** The runtime asks for it when it starts; who uses images reads it. */
int hsaKmtGetTileConfig(uint32_t node, struct kmt_tiles *config)
{
	(void)node;
	config->tiles = config->macro_tiles = 0;
	config->address_config = 0x2a114042;
	config->banks = config->ranks = 0;
	return KMT_SUCCESS;
}

int hsaKmtRegisterGraphicsHandleToNodes(uint64_t handle, void *ret, uint64_t n, uint32_t *nodes)
{
	(void)handle, (void)ret, (void)n, (void)nodes;
	return KMT_NOT_SUPPORTED;
}
