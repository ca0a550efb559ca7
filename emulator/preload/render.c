// The ioctls of a render node that libdrm asks before the runtime uses it: who the driver is, and what GPU this is.
#include "emulator/preload/state.h"

#include <errno.h>
#include <sys/ioctl.h>

enum { DRM_VERSION = 0x00, DRM_AMDGPU_INFO = 0x45 };
enum { INFO_ACCEL_WORKING = 0x00, INFO_DEVICE = 0x16 };

struct kmt_version {
	int major, minor, patch;
	size_t name_size;
	char *name;
	size_t date_size;
	char *date;
	size_t description_size;
	char *description;
};

struct kmt_query {
	uint64_t to;
	uint32_t size, what, more[4];
};

/** The beginning of the driver's description of a GPU. */
struct kmt_device_info {
	uint32_t device, chip_revision, external_revision, revision, family, engines, arrays, counter_khz;
	uint64_t clock, memory_clock;
	uint32_t cus, cus_always_on, cu_bitmap[4][4], render_backends, nrender_backends, contexts, pad;
	uint64_t flags, address_offset, address_most;
	uint32_t address_align, fragment, gart_page, ce_ram, vram_type, vram_bits;
};
_Static_assert(sizeof(struct kmt_device_info) == 184, "as the driver has it");

static void give_text(char *to, size_t *size, const char *text)
{
	const size_t n = strlen(text);
	if (to)
		memcpy(to, text, *size < n ? *size : n);
	*size = n;
}

static int version(struct kmt_version *v)
{
	v->major = 3, v->minor = 54, v->patch = 0;
	give_text(v->name, &v->name_size, "amdgpu");
	give_text(v->date, &v->date_size, "20150101");
	give_text(v->description, &v->description_size, "AMD GPU");
	return 0;
}

/** The driver's number of a family, which libdrm wants to know. */
static uint32_t family_of(const struct plan_gpu *g)
{
	enum { FAMILY_VI = 130, FAMILY_AI = 141, FAMILY_NV = 143, FAMILY_GC_11 = 145, FAMILY_GC_12 = 152 };
	switch (target_of(g) / 10000) {
	case 8:
		return FAMILY_VI;
	case 9:
		return FAMILY_AI;
	case 10:
		return FAMILY_NV;
	case 11:
		return FAMILY_GC_11;
	default:
		return FAMILY_GC_12;
	}
}

static int query(const struct kmt *t, const struct plan_gpu *g, const struct kmt_query *q)
{
	const struct kmt_device_info device = { .device = g->device,
						.external_revision = 1,
						.revision =
							(uint32_t)(g - t->plan.gpus), // its line in libdrm's table (files.c)
						.family = family_of(g),
						.engines = g->engines,
						.arrays = g->arrays,
						.counter_khz = 100000,
						.clock = 1700000,
						.memory_clock = 1600000,
						.cus = g->engines * g->arrays * g->cus,
						.render_backends = 1,
						.nrender_backends = 1,
						.contexts = 8,
						.address_offset = UINT64_C(1) << 21,
						.address_most = UINT64_C(1) << 47,
						.address_align = KMT_PAGE,
						.fragment = 2 << 20,
						.gart_page = KMT_PAGE,
						.vram_bits = 4096 };
	char *to = (char *)(uintptr_t)q->to;
	memset(to, 0, q->size);
	switch (q->what) {
	case INFO_ACCEL_WORKING:
		memcpy(to, &(uint32_t){ 1 }, q->size < 4 ? q->size : 4);
		return 0;
	case INFO_DEVICE:
		memcpy(to, &device, q->size < sizeof(device) ? q->size : sizeof(device));
		return 0;
	default: // numbers of engines and words of configuration registers, of which nobody here draws anything
		return 0;
	}
}

int render_ioctl(struct kmt *t, const struct plan_gpu *g, unsigned long request, void *arguments)
{
	if (_IOC_TYPE(request) != 'd')
		return -ENOTTY;
	if (_IOC_NR(request) == DRM_VERSION)
		return version(arguments);
	if (_IOC_NR(request) == DRM_AMDGPU_INFO)
		return query(t, g, arguments);
	return gem_ioctl(t, g, _IOC_NR(request), arguments);
}
