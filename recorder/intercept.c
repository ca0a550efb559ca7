// Levels 5 and 10: packets are held back until the work before them has ended, so that the buffers are read as the kernel will find them.
// Only an intercept queue can do that: the command processor polls the write index of an ordinary one and would run ahead. It makes the
// queue run one kernel after the other.
#include <stdlib.h>

#include "recorder/inputs.h"

static const int64_t MARKS_FULL = INT64_C(1) << 62;
enum { WAIT_MS = 2000, LOOK_US = 20, HELD_MOST = 64, BARRIER_HEADER = AQL_KIND_BARRIER_AND | 1 << 8 | 2 << 9 | 2 << 11 };

/** A kernel that is held back: a barrier before it tells when all earlier work has ended, a second one waits for us. */
struct held {
	const uint64_t *packet;
	uint64_t index;
	hsa_handle reached, released;
};

static hsa_handle signal_new(int64_t value)
{
	hsa_status (*create)(int64_t, uint32_t, const void *, hsa_handle *) =
		(hsa_status(*)(int64_t, uint32_t, const void *, hsa_handle *))next.core[CORE_SIGNAL_CREATE];
	hsa_handle signal = 0;
	return create(value, 0, NULL, &signal) == HSA_OK ? signal : 0;
}

static void signal_end(hsa_handle signal)
{
	if (signal)
		((hsa_status(*)(hsa_handle))next.core[CORE_SIGNAL_DESTROY])(signal);
}

/** false: earlier work has not ended within the time that the job may be held. */
static bool reached(hsa_handle signal)
{
	int64_t (*load)(hsa_handle) = (int64_t(*)(hsa_handle))next.core[CORE_SIGNAL_LOAD_SCACQUIRE];
	for (unsigned i = 0; i < WAIT_MS * 1000 / LOOK_US; i++) {
		if (load(signal) <= 0)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_US * 1000 }, NULL);
	}
	return false;
}

static bool wanted(const uint64_t *packet)
{
	return (packet[0] & 0xff) == AQL_KIND_DISPATCH && kernel_arguments(packet[4]) > 0;
}

static void take(struct queue_state *q, const struct held *h)
{
	const uint64_t kernel = h->packet[4];
	struct inputs in = { .queue = q,
			     .packet = h->index,
			     .kernel = kernel,
			     .name = kernel_name(kernel),
			     .operation = thread_here()->operation };
	inputs_find(&in, h->packet[5], kernel_arguments(kernel), q->agent);
	if (in.n && rec_level() >= LEVEL_INPUTS)
		inputs_dump(&in);
	if (in.n)
		inputs_count(&in);
}

// --- marks ---

static uint64_t marks_passed(const struct queue_marks *m)
{
	int64_t value = MARKS_FULL;
	return read_safely((const char *)(uintptr_t)m->signal + offsetof(struct amd_signal, value), &value, sizeof(value)) ?
		       0 :
		       (uint64_t)(MARKS_FULL - value);
}

uint64_t intercept_ended(const struct queue_state *q, uint64_t read)
{
	const struct queue_marks *m = q->marks;
	if (!m || !m->signal)
		return read;
	const uint64_t passed = marks_passed(m), written = __atomic_load_n(&m->written, __ATOMIC_ACQUIRE);
	const uint64_t next_one = passed < written ? m->packet[passed % MARKS] : read;
	return next_one < read ? next_one : read;
}

/** The signal for marks behind @n packets from @index on; 0: there are none. */
static hsa_handle marks_add(struct queue_state *q, uint64_t n, uint64_t index)
{
	struct queue_marks *m = q->marks;
	if (!m || !m->signal || n > MARKS || m->written + n - marks_passed(m) > MARKS)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		m->packet[(m->written + i) % MARKS] = index + i;
	__atomic_store_n(&m->written, m->written + n, __ATOMIC_RELEASE);
	return m->signal;
}

/** What is made of packets. */
struct remake {
	const struct held *held;
	size_t nheld;
	hsa_handle mark; // 0: no marks
};

static size_t add_barrier(uint64_t (*to)[8], size_t at, hsa_handle waits_for, hsa_handle completes)
{
	memset(to[at], 0, sizeof(to[0]));
	to[at][0] = BARRIER_HEADER;
	to[at][1] = waits_for;
	to[at][7] = completes;
	return at + 1;
}

/** The packets with two barriers before each kernel that is held, and a mark behind each. Returns how many packets that are. */
static size_t packets_make(uint64_t (*to)[8], const uint64_t (*from)[8], uint64_t n, const struct remake *r)
{
	size_t out = 0, held_now = 0;
	for (uint64_t i = 0; i < n; i++) {
		const struct held *h = held_now < r->nheld && r->held[held_now].packet == from[i] ? &r->held[held_now++] : NULL;
		if (h) {
			out = add_barrier(to, out, 0, h->reached);
			out = add_barrier(to, out, h->released, 0);
		}
		memcpy(to[out++], from[i], sizeof(to[0]));
		if (r->mark)
			out = add_barrier(to, out, 0, r->mark);
	}
	return out;
}

static size_t held_find(const uint64_t (*p)[8], uint64_t n, uint64_t index, struct held *ret)
{
	size_t found = 0;
	for (uint64_t i = 0; i < n && found < HELD_MOST; i++) {
		struct held h = { .packet = p[i], .index = index + i };
		if (!wanted(p[i]) || !(h.reached = signal_new(1)))
			continue;
		h.released = signal_new(1);
		if (h.released)
			ret[found++] = h;
		else
			signal_end(h.reached);
	}
	return found;
}

/** The kernels one after the other. A signal that the GPU may still look at stays until a later one has been reached. */
static void held_take(struct queue_state *q, const struct held *held, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (reached(held[i].reached)) {
			signal_end(held[i].reached);
			signal_end(q->released);
			q->released = 0;
			take(q, &held[i]);
		}
		((signal_store_fn *)next.core[CORE_SIGNAL_STORE_SCRELEASE])(held[i].released, 0);
		q->released = held[i].released;
	}
}

/** The writer of this runtime may be called once only, so that the packets are submitted whole, and held by barriers. */
static void intercepted(const void *packets, uint64_t n, uint64_t index, void *data, packet_writer_fn *write)
{
	struct queue_state *q = data;
	struct held held[HELD_MOST];
	uint64_t(*room)[8] = rec_level() >= LEVEL_STATISTICS ? aligned_alloc(64, (2 * n + 2 * HELD_MOST) * 64) : NULL;
	if (!room) {
		write(packets, n);
		return;
	}
	const struct remake r = { held, held_find(packets, n, index, held), marks_add(q, n, index) };
	write(room, packets_make(room, packets, n, &r));
	held_take(q, held, r.nheld);
	free(room);
}

hsa_status intercept_create(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
			    uint32_t private_size, uint32_t group_size, struct hsa_queue **ret)
{
	return ((queue_create_fn *)next.ext[EXT_INTERCEPT_CREATE])(agent, size, type, error, data, private_size, group_size,
								   ret);
}

void intercept_begin(struct queue_state *q)
{
	hsa_status (*attach)(struct hsa_queue *, intercept_fn *, void *) =
		(hsa_status(*)(struct hsa_queue *, intercept_fn *, void *))next.ext[EXT_INTERCEPT_REGISTER];
	q->marks = q->marks ? q->marks : calloc(1, sizeof(*q->marks));
	if (q->marks) { // those of a queue that is gone may never be passed
		signal_end(q->marks->signal);
		q->marks->signal = signal_new(MARKS_FULL);
		q->marks->written = 0;
	}
	if (attach && attach(&q->queue->hsa, intercepted, q) == HSA_OK && q->head)
		q->head->flags |= REC_QUEUE_INTERCEPTED;
}
