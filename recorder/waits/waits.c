// Who waits for whom: the rows of the table, held against packets and copies as they are launched.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "recorder/waits/tails.h"

enum { STOP_AFTER_S = 2 };

static bool is_of(const struct wait_op *o, int place, const char *name)
{
	return (o->place < 0 || o->place == place) && (!o->name || (name && !strcmp(o->name, name)));
}

static bool any_row(enum wait_does does, int place, const char *name)
{
	for (size_t i = 0; i < waits_all.table.n; i++)
		if (waits_all.table.rows[i].does == does && is_of(&waits_all.table.rows[i].who, place, name))
			return true;
	return false;
}

static bool left_alone(int place, const char *name) { return any_row(WAIT_NOT, place, name); }
static bool host_waits(int place, const char *name) { return any_row(WAIT_HOST, place, name); }
static bool is_traced(int place, const char *name) { return traces_on() && any_row(WAIT_TRACE, place, name); }

// --- packets ---

struct waiting *waiting_new(hsa_handle agent, uint32_t queue)
{
	if (!waits_all.table.n || queue >= WAITS_QUEUES)
		return NULL;
	struct waiting *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	*q = (struct waiting){ .agent = agent, .queue = queue, .counter = signal_new(0, agent) };
	pthread_mutex_lock(&waits_all.lock);
	waits_thread_start();
	q->next = waits_all.queues;
	waits_all.queues = q;
	pthread_mutex_unlock(&waits_all.lock);
	return q;
}

/** The queue is gone, and what it waited for does not matter any more; its tails have fired, or never will. */
void waiting_free(struct waiting *q)
{
	if (!q)
		return;
	pthread_mutex_lock(&waits_all.lock);
	q->gone = true;
	for (size_t i = waits_all.npending; i-- > 0;)
		if (waits_all.pending[i].queue == q) {
			pending_fire(&waits_all.pending[i]);
			pending_end(&waits_all.pending[i]);
		}
	for (size_t i = 0; i < waits_all.table.n; i++) {
		struct tail **last = &waits_all.table.rows[i].last[q->queue];
		if (*last) {
			tail_set((*last)->signal, 0);
			(*last)->users--;
		}
		*last = NULL;
	}
	pthread_mutex_unlock(&waits_all.lock);
}

static size_t barrier(uint64_t (*to)[8], const struct tail *const *for_tails, hsa_handle completion)
{
	memset(to, 0, sizeof(*to));
	(*to)[0] = BARRIER_HEADER;
	for (size_t i = 0; for_tails && i < WAITED_MOST && for_tails[i]; i++)
		(*to)[1 + i] = for_tails[i]->signal;
	(*to)[7] = completion;
	return 1;
}

/** The newest tail of each place that an op is to wait for; what its own queue launched before it waits for anyway. */
static size_t tails_for(int place, const char *name, struct tail *ret[static WAITS_PLACES])
{
	struct tail *newest[WAITS_PLACES] = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < waits_all.table.n; i++) {
		const struct wait_row *r = &waits_all.table.rows[i];
		if (r->does != WAIT_FOR || !is_of(&r->who, place, name))
			continue;
		for (int p = 0; p < WAITS_PLACES; p++)
			if (p != place && r->last[p] && (!newest[p] || newest[p]->number < r->last[p]->number))
				newest[p] = r->last[p];
	}
	for (int p = 0; p < WAITS_PLACES; p++)
		if (newest[p] && tail_value(newest[p]->signal) > 0)
			ret[n++] = newest[p];
	return n;
}

static uint32_t delay_of(int place, const char *name)
{
	uint32_t us = 0;
	for (size_t i = 0; i < waits_all.table.n; i++) {
		const struct wait_row *r = &waits_all.table.rows[i];
		if (r->does == WAIT_DELAY && is_of(&r->who, place, name) && r->us > us)
			us = r->us;
	}
	return us;
}

static size_t delay_put(struct waiting *q, uint32_t us, uint64_t (*to)[8])
{
	struct tail *t = us ? tail_new(q->agent) : NULL;
	const struct pending first = { .kind = PENDING_DELAY, .queue = q, .count = q->counted + 1, .us = us, .tails = { t } };
	const struct pending second = { .kind = PENDING_KEEP, .queue = q, .count = q->counted + 2, .tails = { t } };
	if (!t || waits_all.npending + 2 > PENDING_MOST || !pending_add(&first) || !pending_add(&second))
		return 0;
	q->counted += 2;
	rec.header->delays++;
	barrier(&to[0], NULL, q->counter);
	return 1 + barrier(&to[1], (const struct tail *const[WAITED_MOST]){ t }, q->counter);
}

static size_t waits_put(struct waiting *q, struct tail *const *tails, size_t n, uint64_t (*to)[8])
{
	size_t out = 0;
	for (size_t i = 0; i < n && out < WAITS_EACH - 4; i += WAITED_MOST) {
		struct pending p = { .kind = PENDING_WAIT, .queue = q, .count = q->counted + 1, .since = now_us() };
		for (size_t k = 0; k < WAITED_MOST && i + k < n; k++)
			p.tails[k] = tails[i + k];
		if (!pending_add(&p))
			break;
		q->counted++;
		rec.header->waits++;
		out += barrier(&to[out], (const struct tail *const *)p.tails, q->counter);
	}
	return out;
}

static bool concerns(const struct waiting *q, const uint64_t *packet)
{
	return q && !q->gone && atomic_load(&waits_all.runs) && (packet[0] & 0xff) == AQL_KIND_DISPATCH;
}

size_t waits_before(struct waiting *q, const uint64_t *packet, uint64_t (*to)[8])
{
	struct tail *tails[WAITS_PLACES];
	if (!concerns(q, packet))
		return 0;
	const char *name = kernel_name(packet[4]);
	size_t out = 0;
	if (is_traced((int)q->queue, name))
		trace_note(packet[4], q->queue);
	pthread_mutex_lock(&waits_all.lock);
	if (!left_alone((int)q->queue, name)) {
		out = delay_put(q, delay_of((int)q->queue, name), to);
		out += waits_put(q, tails, tails_for((int)q->queue, name, tails), to + out);
	}
	pthread_mutex_unlock(&waits_all.lock);
	return out;
}

/** Makes a tail the newest of the rows that have somebody wait for it. false: no row does. */
static bool tail_keep(struct tail *t, int place, const char *name)
{
	bool kept = false;
	for (size_t i = 0; i < waits_all.table.n; i++) {
		struct wait_row *r = &waits_all.table.rows[i];
		if (r->does != WAIT_FOR || !is_of(&r->whom, place, name))
			continue;
		if (t && r->last[place])
			r->last[place]->users--;
		if (t) {
			r->last[place] = t;
			t->users++;
		}
		kept = true;
	}
	return kept;
}

size_t waits_behind(struct waiting *q, const uint64_t *packet, uint64_t (*to)[8])
{
	if (!concerns(q, packet))
		return 0;
	const char *name = kernel_name(packet[4]);
	const int place = (int)q->queue;
	size_t out = 0;
	pthread_mutex_lock(&waits_all.lock);
	const bool host = host_waits(place, name);
	struct tail *t = !left_alone(place, name) && (host || tail_keep(NULL, place, name)) ? tail_new(q->agent) : NULL;
	if (t) {
		tail_keep(t, place, name);
		struct thread_state *here = thread_here();
		if (host) {
			if (here->awaited)
				here->awaited->users--;
			t->users++;
			here->awaited = t;
		}
		out = barrier(to, NULL, t->signal);
	}
	pthread_mutex_unlock(&waits_all.lock);
	return out;
}

void waits_failed(void) { atomic_store(&waits_all.failed, true); }

void waits_host(void)
{
	struct thread_state *here = thread_here();
	struct tail *t = here->awaited;
	if (!t)
		return;
	const uint64_t until = now_ms() + waits_all.table.deadline;
	here->awaited = NULL;
	while (tail_value(t->signal) > 0 && now_ms() < until && !atomic_load(&waits_all.failed))
		look_pause();
	pthread_mutex_lock(&waits_all.lock);
	rec.header->waits++;
	if (tail_value(t->signal) > 0 && !atomic_load(&waits_all.failed) && !rec.header->waits_lost++)
		rec_line("a launch was not waited for any longer after %u ms", waits_all.table.deadline);
	t->users--;
	pthread_mutex_unlock(&waits_all.lock);
}

// --- copies ---

void waits_copy(struct copy_waits *c, uint32_t n, const hsa_handle *signals)
{
	struct tail *tails[WAITS_PLACES + 1];
	*c = (struct copy_waits){ .n = n };
	if (!atomic_load(&waits_all.runs) || !waits_all.table.n || n > COPY_SIGNALS - WAITS_PLACES - 1 || (n && !signals))
		return;
	memcpy(c->signals, signals, n * sizeof(*signals));
	c->used = true;
	if (is_traced(WAITS_COPIES, NULL))
		trace_note(0, WAITS_COPIES);
	pthread_mutex_lock(&waits_all.lock);
	const hsa_handle agent = waits_all.queues ? waits_all.queues->agent : 0;
	const uint32_t us = delay_of(WAITS_COPIES, NULL);
	struct tail *late = us ? tail_new(agent) : NULL;
	if (late && pending_add(&(struct pending){ .kind = PENDING_LATE, .since = now_us(), .us = us, .tails = { late } })) {
		tails[c->ntails++] = late;
		rec.header->delays++;
	}
	const size_t found = tails_for(WAITS_COPIES, NULL, tails + c->ntails);
	rec.header->waits += (uint32_t)found;
	c->ntails += found;
	for (size_t i = 0; i < c->ntails; i++) {
		tails[i]->users++; // until the copy has ended: nobody tells when it has begun
		c->tails[i] = tails[i];
		c->signals[c->n++] = tails[i]->signal;
	}
	pthread_mutex_unlock(&waits_all.lock);
}

/** The lock is held. */
static void copy_keep(const struct copy_waits *c, hsa_handle completion)
{
	for (size_t i = 0; i < c->ntails; i += WAITED_MOST) {
		struct pending p = { .kind = PENDING_COPIES, .since = now_us(), .signal = completion };
		for (size_t k = 0; k < WAITED_MOST && i + k < c->ntails; k++)
			p.tails[k] = c->tails[i + k];
		if (completion)
			pending_add(&p);
	}
	for (size_t i = 0; i < c->ntails; i++)
		c->tails[i]->users--;
}

void waits_copied(const struct copy_waits *c, hsa_handle completion)
{
	int64_t v;
	if (!c->used)
		return;
	pthread_mutex_lock(&waits_all.lock);
	copy_keep(c, completion);
	const bool host = completion && host_waits(WAITS_COPIES, NULL);
	struct tail *t = completion && tail_keep(NULL, WAITS_COPIES, NULL) ?
				 tail_new(waits_all.queues ? waits_all.queues->agent : 0) :
				 NULL;
	if (t &&
	    pending_add(&(struct pending){ .kind = PENDING_COPY, .since = now_us(), .signal = completion, .tails = { t } }))
		tail_keep(t, WAITS_COPIES, NULL);
	pthread_mutex_unlock(&waits_all.lock);
	const uint64_t until = now_ms() + waits_all.table.deadline;
	while (host && signal_value(completion, &v) && v > 0 && now_ms() < until)
		look_pause();
}

// --- beginning and end ---

bool waits_on(void) { return atomic_load(&waits_all.on); }

void waits_begin(void)
{
	const char *path = rec.settings.waits;
	unsigned line = 0;
	if (!*path || waits_all.text)
		return;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	_cleanup_free_ char *text = fd < 0 ? NULL : calloc(1, WAITS_FILE + 1);
	const ssize_t n = text ? read(fd, text, WAITS_FILE) : -1;
	if (n <= 0 || !waits_parse(text, &waits_all.table, &line)) {
		if (n <= 0)
			rec_line("UNHANG_WAITS: %s cannot be read; nothing waits", path);
		else
			rec_line("UNHANG_WAITS: line %u is none of a table; nothing waits", line);
		return;
	}
	waits_all.text = text;
	text = NULL;
	bool traced = false;
	for (size_t i = 0; i < waits_all.table.n; i++)
		traced |= waits_all.table.rows[i].does == WAIT_TRACE;
	traces_begin(traced);
	atomic_store(&waits_all.on, true);
}

void waits_end(void)
{
	const struct timespec until = in_seconds(STOP_AFTER_S);
	if (!atomic_exchange(&waits_all.runs, false))
		return;
	pthread_mutex_lock(&waits_all.lock);
	for (size_t i = 0; i < waits_all.npending; i++)
		pending_fire(&waits_all.pending[i]);
	waits_all.npending = 0;
	for (size_t i = 0; i < waits_all.table.n; i++)
		memset(waits_all.table.rows[i].last, 0, sizeof(waits_all.table.rows[i].last));
	waits_all.ntails = 0; // the signals are the runtime's, which ends them
	waits_all.queues = NULL;
	pthread_mutex_unlock(&waits_all.lock);
	atomic_store(&waits_all.stop, true);
	pthread_timedjoin_np(waits_all.thread, NULL, &until);
}
