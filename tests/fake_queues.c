// Queues as ROCm 10 makes them, for fake_runtime: several at once, by descriptions, on compute engines and SDMA. The place in the table and
// the description are those of the headers of ROCm/rocm-systems at 41e1945c (2026-08).
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fake_runtime.h"

enum {
	CU_MASK = 10,
	INTERCEPT = 37,
	PRIORITY = 39,
	QUEUES_CREATE = 86,
	SDMA = 1,
	WRONG = 0x1001,
	SDMA_BYTES = 4096,
	BEHIND = 1 << 20,
	AGENT = 0xa1
};

static struct {
	unsigned intercepted, priority, cus, errors;
	queue_error_fn *error; // of the newest queue
	void *data;
} told;

/** Its ring has bytes, not packets: who takes them for packets reads behind it. */
static struct hsa_queue *sdma_queue(void)
{
	struct amd_queue *q = aligned_alloc(64, 256);
	struct amd_signal *doorbell = aligned_alloc(64, 64);
	char *ring = mmap(NULL, SDMA_BYTES + BEHIND, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(ring, SDMA_BYTES, PROT_READ | PROT_WRITE);
	*q = (struct amd_queue){ .hsa = { .base = ring, .doorbell = (uintptr_t)doorbell, .size = SDMA_BYTES } };
	*doorbell = (struct amd_signal){ .kind = -1, .queue = q };
	return &q->hsa;
}

static hsa_status queues_create(hsa_handle agent, struct hsa_queue_wish *w, uint32_t n)
{
	hsa_status first = n ? HSA_OK : WRONG;
	for (uint32_t i = 0; i < n; i++) {
		w[i].queue = NULL;
		if (w[i].version != WISH_VERSION || !w[i].bytes) {
			first = first ? first : WRONG;
			continue;
		}
		told.error = w[i].error ? w[i].error : told.error;
		told.data = w[i].error ? w[i].data : told.data;
		if (w[i].engine == SDMA)
			w[i].queue = sdma_queue();
		else
			fake_queue_create(agent, w[i].bytes / 64, w[i].type, w[i].error, w[i].data, 0, 0, &w[i].queue);
	}
	return first;
}

static hsa_status intercept(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
			    uint32_t private_size, uint32_t group_size, struct hsa_queue **ret)
{
	told.intercepted++;
	told.error = error;
	told.data = data;
	return fake_queue_create(agent, size, type, error, data, private_size, group_size, ret);
}

static hsa_status priority(struct hsa_queue *q, uint32_t value)
{
	(void)q;
	told.priority = value;
	return HSA_OK;
}

static hsa_status cu_mask(const struct hsa_queue *q, uint32_t bits, const uint32_t *mask)
{
	(void)q;
	told.cus = bits == 32 ? *mask : 0;
	return HSA_OK;
}

/** So that a queue cannot be held, though it is made for it. */
static hsa_status no_signal(int64_t value, uint32_t n, const hsa_handle *consumers, hsa_handle *ret)
{
	(void)value, (void)n, (void)consumers, (void)ret;
	return HSA_ERROR;
}

void fake_queues_table(struct hsa_table *core, struct hsa_table *ext)
{
	core->functions[CORE_SIGNAL_CREATE] = (void *)no_signal;
	ext->functions[CU_MASK] = (void *)cu_mask;
	ext->functions[INTERCEPT] = (void *)intercept;
	ext->functions[PRIORITY] = (void *)priority;
	ext->functions[QUEUES_CREATE] = (void *)queues_create;
}

static void failed(hsa_status status, struct hsa_queue *queue, void *data)
{
	(void)status, (void)queue;
	++*(unsigned *)data;
}

void fake_queues_use(const struct hsa_table *core, const struct hsa_table *ext, unsigned n, unsigned size,
		     struct hsa_queue **ret)
{
	static const uint32_t mask = 0xf0f;
	queues_create_fn *create = (queues_create_fn *)ext->functions[QUEUES_CREATE];
	signal_store_fn *ring = (signal_store_fn *)core->functions[CORE_SIGNAL_STORE_SCRELEASE];
	struct hsa_queue_wish w[20] = { { 0 } };
	for (unsigned i = 0; i < n; i++)
		w[i] = (struct hsa_queue_wish){ .version = WISH_VERSION,
						.bytes = size * 64,
						.priority = 2,
						.cu_mask = &mask,
						.cu_bits = 32,
						.error = failed,
						.data = &told.errors };
	w[n] = (struct hsa_queue_wish){ .version = WISH_VERSION }; // of no size: refused, and the others stay
	w[n + 1] = (struct hsa_queue_wish){
		.version = WISH_VERSION, .engine = SDMA, .bytes = SDMA_BYTES, .priority = PRIORITY_NORMAL
	};
	w[n + 2] = (struct hsa_queue_wish){ .version = WISH_VERSION + 1, .bytes = 64 };
	const hsa_status status = create(AGENT, w, n + 3), none = create(AGENT, NULL, 0);
	unsigned made = 0;
	for (unsigned i = 0; i < n; i++) {
		ret[i] = w[i].queue;
		made += w[i].queue && w[i].error == failed && w[i].data == &told.errors;
	}
	if (w[n + 1].queue)
		for (int64_t at = 64; at < 64 * SDMA_BYTES; at += 1024)
			ring(w[n + 1].queue->doorbell, at);
	if (told.error)
		told.error(HSA_ERROR, ret[0], told.data);
	printf("made %u, refused %d, SDMA %d, status %#x and %#x; intercepted %u, priority %u, CUs %#x, errors %u\n", made, !w[n].queue,
	       w[n + 1].queue != NULL, status, none, told.intercepted, told.priority, told.cus, told.errors);
}
