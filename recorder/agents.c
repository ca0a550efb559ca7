// The GPUs and pools of memory that the runtime knows, written down when the recorder is loaded.
#include "recorder/recorder.h"

enum { POOL_KERNARG = 1 };

typedef hsa_status info_fn(hsa_handle of, uint32_t what, void *ret);
typedef hsa_status each_fn(hsa_handle one, void *ctx);

static hsa_status pool_note(hsa_handle pool, void *agent)
{
	info_fn *info = (info_fn *)next.ext[EXT_POOL_GET_INFO];
	uint32_t segment = 0, flags = 0;
	size_t bytes = 0;
	info(pool, POOL_INFO_SEGMENT, &segment);
	if (info(pool, POOL_INFO_FLAGS, &flags) != HSA_OK)
		flags = 0;
	info(pool, POOL_INFO_SIZE, &bytes);
	uint32_t device = 0;
	((info_fn *)next.core[CORE_AGENT_GET_INFO])(*(const hsa_handle *)agent, AGENT_INFO_DEVICE, &device);
	if (!rec.host_pool && device != DEVICE_GPU && !segment && !(flags & POOL_KERNARG)) {
		rec.host_pool = pool;
		rec.host_agent = *(const hsa_handle *)agent;
	}
	if (!rec.argument_pool && device != DEVICE_GPU && !segment && flags & POOL_KERNARG)
		rec.argument_pool = pool;
	pthread_mutex_lock(&rec.lock);
	log_add(ENTRY_POOL, 0, (uint64_t[]){ pool, *(const hsa_handle *)agent, flags | (uint64_t)segment << 32, bytes }, 4,
		NULL);
	pthread_mutex_unlock(&rec.lock);
	return HSA_OK;
}

static hsa_status agent_note(hsa_handle agent, void *ctx)
{
	info_fn *info = (info_fn *)next.core[CORE_AGENT_GET_INFO];
	hsa_status (*pools)(hsa_handle, each_fn *, void *) =
		(hsa_status(*)(hsa_handle, each_fn *, void *))next.ext[EXT_ITERATE_POOLS];
	char name[64] = "", product[64] = "", text[132];
	uint32_t device = 0, node = 0, bdf = 0, domain = 0;
	(void)ctx;
	info(agent, AGENT_INFO_NAME, name);
	info(agent, AGENT_INFO_DEVICE, &device);
	info(agent, AGENT_INFO_NODE, &node);
	if (info(agent, AGENT_INFO_PRODUCT, product) != HSA_OK)
		product[0] = 0;
	if (device == DEVICE_GPU &&
	    (info(agent, AGENT_INFO_BDF, &bdf) != HSA_OK || info(agent, AGENT_INFO_DOMAIN, &domain) != HSA_OK))
		domain = 0;
	name[63] = product[63] = 0;
	if (device == DEVICE_GPU && rec.ngpus < GPUS_MOST) {
		struct rec_agent *g = &rec.gpus[rec.ngpus++];
		*g = (struct rec_agent){ .handle = agent, .node = node, .bdf = bdf };
		memcpy(g->name, name, sizeof(name));
	}
	const size_t len = strlen(name);
	memcpy(text, name, len);
	text[len] = '\n';
	memcpy(text + len + 1, product, strlen(product) + 1);
	pthread_mutex_lock(&rec.lock);
	log_add(ENTRY_AGENT, 0, (uint64_t[]){ agent, device, node, bdf, domain }, 5, text);
	pthread_mutex_unlock(&rec.lock);
	if (pools && next.ext[EXT_POOL_GET_INFO])
		pools(agent, pool_note, &agent);
	return HSA_OK;
}

void agents_note(void)
{
	hsa_status (*iterate)(each_fn *, void *) = (hsa_status(*)(each_fn *, void *))next.core[CORE_ITERATE_AGENTS];
	rec.ngpus = 0;
	rec.host_pool = rec.host_agent = rec.argument_pool = 0;
	iterate(agent_note, NULL);
}
