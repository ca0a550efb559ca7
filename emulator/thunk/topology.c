// What there is: nodes, their memory, caches and links, and clocks.
#include "emulator/number.h"
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

#include <unistd.h>

// Where the apertures of LDS and scratch begin; only the upper halves count.
#define LDS_APERTURE UINT64_C(0x1000000000000)
#define SCRATCH_APERTURE UINT64_C(0x2000000000000)

enum { KFD_MAJOR = 1, KFD_MINOR = 11, GPU_BANKS = 3, GPU_CACHES = 2, MHZ = 1700, AMD = 0x1002, GPU_CLOCK_NS = 10 };

static uint32_t nodes(const struct thunk *t) { return t->plan.gpus[t->plan.ngpus - 1].node + 1; }

uint32_t engine_of(const struct plan_gpu *g)
{
	enum { UCODE = 100 };
	const struct gfx_version v = emu_gfx_version(str_z(g->gfx));
	return UCODE | (v.major & 63) << 10 | (v.minor & 255) << 16 | (v.stepping & 255) << 24;
}

static unsigned major_of(const struct plan_gpu *g) { return engine_of(g) >> 10 & 63; }

int hsaKmtGetVersion(struct kmt_version *ret)
{
	*ret = (struct kmt_version){ KFD_MAJOR, KFD_MINOR };
	return KMT_SUCCESS;
}

int hsaKmtAcquireSystemProperties(struct kmt_system *ret)
{
	*ret = (struct kmt_system){ .nodes = nodes(thunk_get()) };
	return KMT_SUCCESS;
}

int hsaKmtReleaseSystemProperties(void) { return KMT_SUCCESS; }

static void fill_gpu(const struct thunk *t, const struct plan_gpu *g, struct kmt_node *n)
{
	n->simds = g->engines * g->arrays * g->cus * g->simds;
	n->banks = GPU_BANKS;
	n->caches = GPU_CACHES;
	n->links = (uint32_t)t->plan.ngpus;
	n->simd_first = 0x80001000;
	n->capability =
		KMT_CAPABLE_DOORBELL_64 | KMT_CAPABLE_DEBUG_TRAP | KMT_CAPABLE_SVM | g->revision << KMT_CAPABLE_REVISION_SHIFT;
	n->waves_per_simd = g->waves;
	n->lds_kb = 64;
	n->wave_size = major_of(g) < 10 ? 64 : 32;
	n->engines = g->engines * g->arrays;
	n->arrays_per_engine = g->arrays;
	n->cus_per_array = g->cus;
	n->simds_per_cu = g->simds;
	n->scratch_slots_per_cu = 32;
	n->engine_id = engine_of(g);
	n->vendor = AMD;
	n->device = (uint16_t)g->device;
	n->location = g->location;
	n->local_memory = g->vram;
	n->gpu_mhz = n->cpu_mhz = MHZ;
	n->render = g->render;
	n->compute_queues = 24;
	n->gws = 64;
	n->domain = g->domain;
	n->unique_id = 0x8b3f51a0c47e0000 + g->node;
	n->vgpr_bytes = 256 << 10;
	n->sgpr_bytes = 12 << 10;
	const char *name = g->name[0] ? g->name : g->gfx;
	for (size_t i = 0; i < KMT_NAME - 1 && name[i]; i++)
		n->marketing_name[i] = (unsigned char)name[i];
	memcpy(n->amd_name, g->gfx, sizeof(g->gfx));
}

int hsaKmtGetNodeProperties(uint32_t node, struct kmt_node *ret)
{
	struct thunk *t = thunk_get();
	const struct plan_gpu *g = thunk_gpu(t, node);
	*ret = (struct kmt_node){ 0 };
	if (g) {
		fill_gpu(t, g, ret);
	} else if (node) {
		return KMT_INVALID_NODE;
	} else {
		ret->cpu_cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
		ret->banks = ret->caches = 1;
		ret->links =
			t->plan.closed ? 0 : (uint32_t)t->plan.ngpus; // from the CPU there is one to VRAM that it may reach
		ret->cpu_mhz = MHZ;
	}
	return KMT_SUCCESS;
}

int hsaKmtGetNodeMemoryProperties(uint32_t node, uint32_t count, struct kmt_bank *ret)
{
	struct thunk *t = thunk_get();
	const struct plan_gpu *g = thunk_gpu(t, node);
	struct kmt_bank banks[GPU_BANKS] = { { .heap = KMT_HEAP_SYSTEM, .width = 64, .mhz = 1600 } };
	uint32_t n = 1;
	if (node && !g)
		return KMT_INVALID_NODE;
	if (g) {
		uint32_t heap = t->plan.closed ? KMT_HEAP_PRIVATE : KMT_HEAP_PUBLIC;
		banks[0] = (struct kmt_bank){ .heap = heap, .size = g->vram, .width = 4096, .mhz = 1600 };
		banks[1] = (struct kmt_bank){ .heap = KMT_HEAP_LDS, .size = 64 << 10, .base = LDS_APERTURE };
		banks[2] = (struct kmt_bank){ .heap = KMT_HEAP_SCRATCH, .size = UINT64_C(1) << 32, .base = SCRATCH_APERTURE };
		n = GPU_BANKS;
	} else {
		banks[0].size = (uint64_t)sysconf(_SC_PHYS_PAGES) * KMT_PAGE;
	}
	memcpy(ret, banks, (count < n ? count : n) * sizeof(*ret));
	return KMT_SUCCESS;
}

/** The runtime wants some of each. */
int hsaKmtGetNodeCacheProperties(uint32_t node, uint32_t processor, uint32_t count, struct kmt_cache *ret)
{
	bool gpu = thunk_gpu(thunk_get(), node);
	for (uint32_t i = 0; i < count; i++)
		ret[i] = (struct kmt_cache){ .processor = processor,
					     .level = i + 1,
					     .size_kb = i ? 8192 : 16,
					     .line = 64,
					     .type = KMT_CACHE_DATA | (gpu ? KMT_CACHE_GPU : KMT_CACHE_CPU) };
	return KMT_SUCCESS;
}

/** From each node to each other. */
int hsaKmtGetNodeIoLinkProperties(uint32_t node, uint32_t count, struct kmt_link *ret)
{
	struct thunk *t = thunk_get();
	uint32_t n = 0;
	for (size_t i = 0; i <= t->plan.ngpus && n < count; i++) {
		uint32_t to = i ? t->plan.gpus[i - 1].node : 0;
		if (to != node)
			ret[n++] = (struct kmt_link){
				.type = KMT_LINK_PCIE, .from = node, .to = to, .weight = to && node ? 40 : 20
			};
	}
	return KMT_SUCCESS;
}

/** A GPU counts 100 MHz. */
int hsaKmtGetClockCounters(uint32_t node, struct kmt_clocks *ret)
{
	(void)node;
	uint64_t now = clock_ns();
	*ret = (struct kmt_clocks){ .gpu = now / GPU_CLOCK_NS, .cpu = now, .system = now, .system_hz = 1000000000 };
	return KMT_SUCCESS;
}

int hsaKmtGetXNACKMode(int32_t *ret)
{
	*ret = 0;
	return KMT_SUCCESS;
}

int hsaKmtSetXNACKMode(int32_t enable) { return enable ? KMT_NOT_SUPPORTED : KMT_SUCCESS; }
