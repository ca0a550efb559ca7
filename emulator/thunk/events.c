// Events: what the driver wakes a waiting runtime with.
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static struct kmt_slot *slot_of(struct thunk *t, uint32_t id) { return id < KMT_EVENTS_MOST ? t->slots[id] : NULL; }

int hsaKmtCreateEvent(const struct kmt_event_wanted *wanted, bool manual, bool signaled, struct kmt_event **ret)
{
	struct thunk *t = thunk_get();
	pthread_mutex_lock(&t->lock);
	uint32_t id = 1; // a signal without an event has the number 0
	while (id < KMT_EVENTS_MOST && t->slots[id])
		id++;
	if (id < KMT_EVENTS_MOST) {
		struct kmt_slot *s = t->slots[id] = mem_alloc(sizeof(*s));
		s->event = mem_alloc(sizeof(*s->event));
		s->manual = manual;
		s->signaled = signaled;
		*s->event = (struct kmt_event){
			.id = id, .type = wanted->type, .handle = id, .mailbox = (uintptr_t)&t->mailboxes[id]
		};
		*ret = s->event;
	}
	pthread_mutex_unlock(&t->lock);
	return id < KMT_EVENTS_MOST ? KMT_SUCCESS : KMT_NO_MEMORY;
}

int hsaKmtDestroyEvent(struct kmt_event *e)
{
	struct thunk *t = thunk_get();
	if (!e)
		return KMT_INVALID_HANDLE;
	pthread_mutex_lock(&t->lock);
	struct kmt_slot *s = slot_of(t, e->id);
	if (s && s->event == e) {
		t->slots[e->id] = NULL;
		free(s);
		free(e);
	}
	pthread_mutex_unlock(&t->lock);
	return KMT_SUCCESS;
}

/** As the driver does it: who waits is woken; where nobody waits the event stays set for the next. */
static void set(struct thunk *t, struct kmt_slot *s)
{
	if (s->manual || !s->waiters)
		s->signaled = true;
	if (s->waiters) {
		s->wakes++;
		pthread_cond_broadcast(&t->happened);
	}
}

void event_set(struct thunk *t, uint32_t id)
{
	pthread_mutex_lock(&t->lock);
	struct kmt_slot *s = slot_of(t, id);
	if (s)
		set(t, s);
	pthread_mutex_unlock(&t->lock);
}

int hsaKmtSetEvent(struct kmt_event *e)
{
	if (!e)
		return KMT_INVALID_HANDLE;
	event_set(thunk_get(), e->id);
	return KMT_SUCCESS;
}

void event_fault(struct thunk *t, const struct kmt_fault *fault)
{
	pthread_mutex_lock(&t->lock);
	for (uint32_t id = 1; id < KMT_EVENTS_MOST; id++) {
		struct kmt_slot *s = t->slots[id];
		if (!s || s->event->type != KMT_EVENT_MEMORY)
			continue;
		s->fault = *fault;
		set(t, s);
	}
	pthread_mutex_unlock(&t->lock);
}

// --- waiting ---

struct kmt_wait {
	struct thunk *thunk;
	struct kmt_event **events;
	uint32_t n;
	bool all;
	uint64_t wakes[]; // of each, when the wait began
};

/** What the driver would copy to the runtime when its wait ends. */
static void hand_over(struct kmt_slot *s)
{
	if (s->event->type == KMT_EVENT_MEMORY)
		s->event->fault = s->fault;
	if (!s->manual)
		s->signaled = false;
}

static bool over(struct kmt_wait *w)
{
	uint32_t met = 0;
	for (uint32_t i = 0; i < w->n; i++) {
		struct kmt_slot *s = w->events[i] ? slot_of(w->thunk, w->events[i]->id) : NULL;
		met += s && (s->signaled || s->wakes != w->wakes[i]);
	}
	if (w->all ? met < w->n : !met)
		return false;
	for (uint32_t i = 0; i < w->n; i++) {
		struct kmt_slot *s = w->events[i] ? slot_of(w->thunk, w->events[i]->id) : NULL;
		if (s && (s->signaled || s->wakes != w->wakes[i]))
			hand_over(s);
	}
	return true;
}

static void count_waiters(struct kmt_wait *w, int step)
{
	for (uint32_t i = 0; i < w->n; i++) {
		struct kmt_slot *s = w->events[i] ? slot_of(w->thunk, w->events[i]->id) : NULL;
		if (!s)
			continue;
		s->waiters += (unsigned)step;
		if (step > 0)
			w->wakes[i] = s->wakes;
	}
}

static struct timespec deadline(uint32_t ms)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += ms % 1000 * 1000000L;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

int hsaKmtWaitOnMultipleEvents(struct kmt_event *events[], uint32_t n, bool all, uint32_t ms)
{
	struct thunk *t = thunk_get();
	struct kmt_wait *w = mem_alloc(sizeof(*w) + n * sizeof(w->wakes[0]));
	w->thunk = t;
	w->events = events;
	w->n = n;
	w->all = all;
	struct timespec until = deadline(ms);
	int error = 0;
	pthread_mutex_lock(&t->lock);
	count_waiters(w, 1);
	bool met = over(w);
	while (!met && error != ETIMEDOUT) {
		error = ms == UINT32_MAX ? pthread_cond_wait(&t->happened, &t->lock) :
					   pthread_cond_clockwait(&t->happened, &t->lock, CLOCK_MONOTONIC, &until);
		met = over(w);
	}
	count_waiters(w, -1);
	pthread_mutex_unlock(&t->lock);
	free(w);
	return met ? KMT_SUCCESS : KMT_WAIT_TIMEOUT;
}

int hsaKmtWaitOnEvent(struct kmt_event *e, uint32_t ms)
{
	return e ? hsaKmtWaitOnMultipleEvents(&e, 1, true, ms) : KMT_INVALID_HANDLE;
}
