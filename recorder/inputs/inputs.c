// Which buffers a kernel will use, and their bytes.
#include "recorder/inputs/inputs.h"

#include <stdlib.h>

#define UNHANG_RECORDER_INSIDE
#include "recorder/statistics.h"
#include "unhang/recorder.h"

enum { GUESSED_MOST = 64 << 20, STATISTICS_SLOTS = 4096 };
static const uint64_t lowest = 1 << 16, highest = 1ull << 47;

/** What the runtime knows of an address; false: nothing. */
static bool memory_ask(uint64_t address, struct hsa_pointer_info *ret)
{
	pointer_info_fn *ask = (pointer_info_fn *)next.ext[EXT_POINTER_INFO];
	*ret = (struct hsa_pointer_info){ .size = sizeof(*ret) };
	return ask && ask((const void *)(uintptr_t)address, ret, NULL, NULL, NULL) == HSA_OK && ret->type && ret->bytes &&
	       address - (uintptr_t)ret->agent_base < ret->bytes;
}

/** How many bytes from @address on are mapped, @most at most. Of a piece that was mapped ROCr 7.2.4 tells the size, but not where in it an
 * address is; behind it may be nothing, and the GPU would fault there. */
static uint64_t mapped_from(uint64_t address, uint64_t most)
{
	enum { PAGE = 4096 };
	struct hsa_pointer_info info;
	uint64_t n = PAGE - address % PAGE;
	while (n < most && memory_ask(address + n, &info) && info.type == POINTER_MAPPED)
		n += PAGE;
	return n < most ? n : most;
}

static bool memory_at(uint64_t address, struct hsa_pointer_info *ret)
{
	if (address < lowest || address >= highest || !memory_ask(address, ret))
		return false;
	if (ret->type == POINTER_MAPPED) {
		ret->bytes = mapped_from(address, ret->bytes < GUESSED_MOST ? ret->bytes : GUESSED_MOST);
		ret->host_base = NULL;
		ret->agent_base = (void *)(uintptr_t)address;
	}
	return true;
}

bool owner_is_gpu(hsa_handle agent)
{
	hsa_status (*info)(hsa_handle, uint32_t, void *) =
		(hsa_status(*)(hsa_handle, uint32_t, void *))next.core[CORE_AGENT_GET_INFO];
	uint32_t device = 0;
	return agent && info(agent, AGENT_INFO_DEVICE, &device) == HSA_OK && device == DEVICE_GPU;
}

/** Where the host finds what the GPU has at @address. */
static uint64_t host_address(const struct hsa_pointer_info *info, uint64_t address)
{
	return info->host_base ? (uintptr_t)info->host_base + (address - (uintptr_t)info->agent_base) : address;
}

/** What the framework said of an operation; false: nothing, or the slot is that of another one by now. */
static bool operation_read(uint32_t operation, struct rec_operation *ret)
{
	if (!operation || !__atomic_load_n(&rec.operations, __ATOMIC_ACQUIRE))
		return false;
	const struct rec_operation *slot = &rec.operation_slots[operation & rec.operation_mask];
	const unsigned n = __atomic_load_n(&slot->ntensors, __ATOMIC_RELAXED);
	return n <= REC_TENSORS && rec_read((const uint64_t *)slot, (uint64_t *)ret, rec_operation_words(n), operation) &&
	       ret->ntensors == n;
}

/** @o: what the framework said; NULL: nothing. */
static void type_of(struct input *in, const struct rec_operation *o)
{
	in->dtype = UNHANG_FLOAT32;
	in->guessed = true;
	in->ndim = 1;
	for (unsigned i = 0; o && i < o->ntensors; i++) {
		const struct rec_tensor *t = &o->tensors[i];
		uint64_t elements = 1;
		if (t->address != in->address || !dtype_size(t->dtype) || t->ndim > REC_DIMENSIONS)
			continue;
		for (unsigned d = 0; d < t->ndim; d++)
			if (__builtin_mul_overflow(elements, t->shape[d], &elements))
				return;
		if (elements > in->bytes / dtype_size(t->dtype))
			return;
		in->dtype = t->dtype;
		in->guessed = false;
		in->bytes = elements * dtype_size(t->dtype);
		in->ndim = t->ndim;
		memcpy(in->shape, t->shape, sizeof(in->shape));
		return;
	}
	in->bytes = (in->bytes < GUESSED_MOST ? in->bytes : GUESSED_MOST) / 4 * 4;
	in->shape[0] = in->bytes / 4;
}

/** Memory of the host may be gone, or not be where the runtime says: it is read through the kernel. */
static bool host_copy(void *to, uint64_t from, size_t n) { return !read_safely((const void *)(uintptr_t)from, to, n); }

bool input_read(const struct input *in, piece_fn *take, void *ctx)
{
	const uint64_t chunk = in->bytes < STAGING ? in->bytes : STAGING;
	_cleanup_free_ char *room = in->on_gpu ? NULL : malloc(chunk ? chunk : 1);
	bool good = in->on_gpu || room;
	for (uint64_t at = 0; good && at < in->bytes; at += chunk) {
		const size_t n = in->bytes - at < chunk ? in->bytes - at : chunk;
		const char *piece = in->on_gpu ? fetch(in->from + at, n) : host_copy(room, in->from + at, n) ? room : NULL;
		good = piece && reading_on() && take(ctx, piece, n) && reading_on();
	}
	return good;
}

/** The arguments of a kernel; false: they are not where it says. */
static bool arguments_read(uint64_t address, int size, uint64_t *ret_words, size_t n)
{
	struct hsa_pointer_info info;
	if (size <= 0 || !memory_at(address, &info) || info.bytes - (address - (uintptr_t)info.agent_base) < (uint64_t)size)
		return false;
	if (!owner_is_gpu(info.owner))
		return host_copy(ret_words, host_address(&info, address), n * 8);
	const char *fetched = fetch(address, n * 8);
	if (!fetched)
		return host_copy(ret_words, address, n * 8);
	memcpy(ret_words, fetched, n * 8);
	return true;
}

void inputs_find(struct inputs *in, uint64_t arguments, int size)
{
	struct hsa_pointer_info info;
	uint64_t words[ARGUMENTS_MOST / 8];
	const size_t n = (size_t)size < sizeof(words) ? (size_t)size / 8 : sizeof(words) / 8;
	struct rec_operation operation;
	const bool told = operation_read(in->operation, &operation);
	if (!arguments_read(arguments, size, words, n))
		return;
	for (size_t i = 0; i < n && in->n < INPUTS_MOST; i++) {
		if (!memory_at(words[i], &info))
			continue;
		struct input *one = &in->list[in->n++];
		const bool on_gpu = owner_is_gpu(info.owner);
		*one = (struct input){ .address = words[i],
				       .from = on_gpu ? words[i] : host_address(&info, words[i]),
				       .argument = (uint32_t)(8 * i),
				       .on_gpu = on_gpu,
				       .bytes = info.bytes - (words[i] - (uintptr_t)info.agent_base) };
		type_of(one, told ? &operation : NULL);
	}
}

/** What counts an input while it is read. */
struct counting {
	struct statistics statistics;
	uint32_t dtype;
};

static bool count(void *ctx, const void *bytes, size_t n)
{
	struct counting *c = ctx;
	statistics_add(&c->statistics, c->dtype, bytes, n / dtype_size(c->dtype));
	return true;
}

static void note(const struct inputs *in, const struct input *one, const struct statistics *s)
{
	struct rec_statistics r = { .queue = in->queue,
				    .argument = one->argument,
				    .packet = in->packet,
				    .address = one->address,
				    .elements = s->elements,
				    .zeros = s->zeros,
				    .nans = s->nans,
				    .infinities = s->infinities,
				    .least = s->least,
				    .most = s->most,
				    .mean = statistics_mean(s),
				    .dtype = one->dtype,
				    .guessed = one->guessed,
				    .time = rec_ticks() };
	const uint64_t id = __atomic_fetch_add(&rec.statistics->next, 1, __ATOMIC_RELAXED);
	rec_write((uint64_t *)&rec.statistics_slots[id & rec.statistics_mask], (uint64_t *)&r, sizeof(r) / 8, id);
}

/** The ring, once the level asks for it. */
static bool ring_ready(void)
{
	uint64_t n = STATISTICS_SLOTS;
	pthread_mutex_lock(&rec.lock);
	if (!rec.statistics && !rec.statistics_mask) {
		struct rec_ring *ring = extent_fit(EXTENT_STATISTICS, 0, sizeof(*ring), &n, 16, sizeof(struct rec_statistics));
		rec.statistics_slots = ring ? (struct rec_statistics *)(ring + 1) : NULL;
		rec.statistics_mask = ring ? n - 1 : 1;
		rec.statistics = ring;
	}
	pthread_mutex_unlock(&rec.lock);
	return rec.statistics;
}

void inputs_count(const struct inputs *in)
{
	if (!ring_ready())
		return;
	for (size_t i = 0; i < in->n; i++) {
		struct counting c = { .dtype = in->list[i].dtype };
		statistics_begin(&c.statistics);
		if (input_read(&in->list[i], count, &c) && reading_on())
			note(in, &in->list[i], &c.statistics);
	}
}
