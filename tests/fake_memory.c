// Memory that is more than allocated and freed, for fake_runtime: reserved, mapped, given to a GPU or not, shared, locked. The functions
// of the runtime do nothing; what the program does with them is what a recording must tell apart.
#include <stdlib.h>

#include "fake_runtime.h"

enum { MIB = 1 << 20, PIECE = 2 * MIB };
#define RESERVED UINT64_C(0x7e8000000000)
#define OF_OTHERS UINT64_C(0x7e9000000000)
#define SHARED UINT64_C(0x7ea000000000)

static char locked[2][4096] __attribute__((aligned(4096)));

static hsa_status fine(void) { return HSA_OK; }

static hsa_status reserve(void **ret, size_t size, uint64_t address, uint64_t flags)
{
	(void)size, (void)address, (void)flags;
	*ret = (void *)(uintptr_t)RESERVED;
	return HSA_OK;
}

static hsa_status handle_create(hsa_handle pool, size_t size, uint32_t type, uint64_t flags, hsa_handle *ret)
{
	(void)pool, (void)size, (void)type, (void)flags;
	*ret = 0x77;
	return HSA_OK;
}

static hsa_status lock(void *host, size_t size, hsa_handle *agents, int n, void **ret)
{
	(void)size, (void)agents, (void)n;
	*ret = host;
	return HSA_OK;
}

static hsa_status attach(const void *handle, size_t size, uint32_t n, const hsa_handle *agents, void **ret)
{
	(void)handle, (void)size, (void)n, (void)agents;
	*ret = (void *)(uintptr_t)OF_OTHERS;
	return HSA_OK;
}

// Places in the table of ROCm 6 and later.
enum {
	LOCK = 22,
	UNLOCK = 23,
	ATTACH = 31,
	DETACH = 32,
	SVM = 46,
	RESERVE = 55,
	CREATE = 57,
	MAP = 59,
	UNMAP = 60,
	ACCESS = 61,
	LAST = 70
};

void fake_memory_table(struct hsa_table *ext)
{
	for (int i = 0; i < LAST; i++)
		if (i == UNLOCK || i == DETACH || i == SVM || i == MAP || i == UNMAP || i == ACCESS)
			ext->functions[i] = (void *)fine;
	ext->functions[LOCK] = (void *)lock;
	ext->functions[ATTACH] = (void *)attach;
	ext->functions[RESERVE] = (void *)reserve;
	ext->functions[CREATE] = (void *)handle_create;
}

static void map(const struct hsa_table *ext, unsigned piece)
{
	((hsa_status(*)(void *, size_t, size_t, hsa_handle, uint64_t))ext->functions[MAP])(
		(void *)(uintptr_t)(RESERVED + (uint64_t)piece * PIECE), PIECE, 0, 0x77, 0);
}

/** [0] and [1] are mapped for GPU 0xa1 by one call, [2] for nobody, [3] was and is unmapped, [4] is reserved only. */
static void map_pieces(const struct hsa_table *ext)
{
	struct {
		uint32_t permissions, padding;
		hsa_handle agent;
	} both = { 3, 0, 0xa1 };
	void *p;
	hsa_handle handle;
	hsa_status (*access)(void *, size_t, void *, size_t) =
		(hsa_status(*)(void *, size_t, void *, size_t))ext->functions[ACCESS];
	((hsa_status(*)(void **, size_t, uint64_t, uint64_t))ext->functions[RESERVE])(&p, 5 * PIECE, 0, 0);
	((hsa_status(*)(hsa_handle, size_t, uint32_t, uint64_t, hsa_handle *))ext->functions[CREATE])(0x1a1, PIECE, 0, 0,
												      &handle);
	for (unsigned i = 0; i < 4; i++)
		map(ext, i);
	access(p, 2 * PIECE, &both, 1);
	access((char *)p + 3 * PIECE, PIECE, &both, 1);
	((hsa_status(*)(void *, size_t))ext->functions[UNMAP])((char *)p + 3 * PIECE, PIECE);
}

size_t fake_memory_use(const struct hsa_table *ext, uint64_t *ret)
{
	hsa_handle gpu = 0xa1, cpu = 0xa0;
	void *p;
	size_t n = 0;
	map_pieces(ext);
	((hsa_status(*)(void *, size_t, hsa_handle *, int, void **))ext->functions[LOCK])(locked[0], 4096, &gpu, 1, &p);
	((hsa_status(*)(void *, size_t, hsa_handle *, int, void **))ext->functions[LOCK])(locked[1], 4096, &cpu, 1, &p);
	((hsa_status(*)(const void *, size_t, uint32_t, const hsa_handle *, void **))ext->functions[ATTACH])(&n, PIECE, 1, &gpu,
													     &p);
	((hsa_status(*)(void *, size_t, void *, size_t))ext->functions[SVM])((void *)(uintptr_t)SHARED, PIECE, NULL, 0);
	for (unsigned i = 0; i < 5; i++)
		ret[n++] = RESERVED + (uint64_t)i * PIECE + 16;
	ret[n++] = (uintptr_t)locked[0] + 16;
	ret[n++] = (uintptr_t)locked[1] + 16;
	ret[n++] = OF_OTHERS + 16;
	ret[n++] = SHARED + 16;
	((hsa_status(*)(void *))ext->functions[DETACH])((void *)(uintptr_t)OF_OTHERS);
	((hsa_status(*)(void *))ext->functions[UNLOCK])(locked[0]);
	ret[n++] = OF_OTHERS + 32;
	ret[n++] = (uintptr_t)locked[0] + 32;
	return n;
}
