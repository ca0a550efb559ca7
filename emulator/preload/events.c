// Events: what the driver wakes a waiting runtime with.
#include "emulator/preload/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct kmt_slot *slot_of(struct kmt *t, uint32_t id) { return id < KMT_EVENTS_MOST ? t->slots[id] : NULL; }

/** The page of mailboxes is the runtime's own here; the kernel says by its offset only that there is one. */
int event_create(struct kmt *t, struct kfd_ioctl_create_event_args *a)
{
	pthread_mutex_lock(&t->lock);
	uint32_t id = 1; // a signal without an event has the number 0
	while (id < KMT_EVENTS_MOST && t->slots[id])
		id++;
	if (id < KMT_EVENTS_MOST) {
		struct kmt_slot *s = t->slots[id] = mem_alloc(sizeof(*s));
		*s = (struct kmt_slot){ .type = a->event_type, .manual = !a->auto_reset, .age = 1 };
		a->event_page_offset = UINT64_C(1) << 62;
		a->event_id = a->event_trigger_data = a->event_slot_index = id;
	}
	pthread_mutex_unlock(&t->lock);
	return id < KMT_EVENTS_MOST ? 0 : -ENOSPC;
}

int event_destroy(struct kmt *t, uint32_t id)
{
	pthread_mutex_lock(&t->lock);
	struct kmt_slot *s = slot_of(t, id);
	if (s) {
		t->slots[id] = NULL;
		free(s);
		pthread_cond_broadcast(&t->happened); // who waits for it is told that it is gone
	}
	pthread_mutex_unlock(&t->lock);
	return s ? 0 : -EINVAL;
}

/** As the driver does it: who waits is woken; where nobody waits the event stays set for the next. */
static void set(struct kmt *t, struct kmt_slot *s)
{
	if (s->manual || !s->waiters)
		s->signaled = true;
	s->age++;
	if (s->waiters)
		pthread_cond_broadcast(&t->happened);
}

int event_set(struct kmt *t, uint32_t id)
{
	pthread_mutex_lock(&t->lock);
	struct kmt_slot *s = slot_of(t, id);
	if (s)
		set(t, s);
	pthread_mutex_unlock(&t->lock);
	return s ? 0 : -EINVAL;
}

int event_reset(struct kmt *t, uint32_t id)
{
	pthread_mutex_lock(&t->lock);
	struct kmt_slot *s = slot_of(t, id);
	if (s)
		s->signaled = false;
	pthread_mutex_unlock(&t->lock);
	return s ? 0 : -EINVAL;
}

// --- who watches ---

int event_watch(struct kmt *t, struct kfd_ioctl_smi_events_args *a)
{
	int ends[2];
	if (!kfd_gpu(t, a->gpuid))
		return -EINVAL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return -errno;
	pthread_mutex_lock(&t->lock);
	vec_push(&t->watchers, ((struct kmt_watcher){ ends[1], a->gpuid, 0 }));
	pthread_mutex_unlock(&t->lock);
	a->anon_fd = (uint32_t)ends[0];
	return 0;
}

/** To each who has written that it wants to know. */
static void tell_watchers(struct kmt *t, uint32_t gpu_id, unsigned event, const char *what)
{
	char line[96];
	int n = snprintf(line, sizeof(line), "%x %s\n", event, what);
	for (size_t i = 0; i < t->watchers.len; i++) {
		struct kmt_watcher *w = &t->watchers.data[i];
		uint64_t wants;
		while (recv(w->socket, &wants, sizeof(wants), 0) == (ssize_t)sizeof(wants))
			w->wants = wants;
		if (w->gpu_id == gpu_id && w->wants & UINT64_C(1) << (event - 1))
			send(w->socket, line, (size_t)n, MSG_NOSIGNAL);
	}
}

void event_fault(struct kmt *t, const struct kfd_hsa_memory_exception_data *fault)
{
	pthread_mutex_lock(&t->lock);
	for (uint32_t id = 1; id < KMT_EVENTS_MOST; id++) {
		struct kmt_slot *s = t->slots[id];
		if (!s || s->type != KFD_IOC_EVENT_MEMORY)
			continue;
		s->fault = *fault;
		set(t, s);
	}
	char who[64];
	snprintf(who, sizeof(who), "%x:%.15s", (unsigned)getpid(), program_invocation_short_name);
	tell_watchers(t, fault->gpu_id, KFD_SMI_EVENT_VMFAULT, who);
	pthread_mutex_unlock(&t->lock);
}

// --- waiting ---

struct kmt_wait {
	struct kmt *kfd;
	struct kfd_event_data *events;
	uint32_t n;
	bool all, gone;  // gone: an event that is waited for was destroyed
	uint64_t ages[]; // of each, when the wait began
};

static bool is_met(const struct kmt_slot *s, uint64_t age) { return s && (s->signaled || s->age != age); }

/** What the driver copies to the runtime when its wait ends. */
static void hand_over(struct kmt_slot *s, struct kfd_event_data *e)
{
	if (s->type == KFD_IOC_EVENT_MEMORY)
		e->memory_exception_data = s->fault;
	else if (s->type == KFD_IOC_EVENT_SIGNAL && e->last_event_age)
		e->last_event_age = s->age;
	if (!s->manual)
		s->signaled = false;
}

static bool over(struct kmt_wait *w)
{
	uint32_t met = 0;
	for (uint32_t i = 0; i < w->n; i++) {
		const struct kmt_slot *s = slot_of(w->kfd, w->events[i].event_id);
		w->gone |= !s;
		met += is_met(s, w->ages[i]);
	}
	if (w->gone || (w->all ? met < w->n : !met))
		return w->gone;
	for (uint32_t i = 0; i < w->n; i++) {
		struct kmt_slot *s = slot_of(w->kfd, w->events[i].event_id);
		if (is_met(s, w->ages[i]))
			hand_over(s, &w->events[i]);
	}
	return true;
}

static void count_waiters(struct kmt_wait *w, int step)
{
	for (uint32_t i = 0; i < w->n; i++) {
		struct kmt_slot *s = slot_of(w->kfd, w->events[i].event_id);
		if (!s)
			continue;
		s->waiters += (unsigned)step;
		if (step < 0)
			continue;
		const uint64_t seen = s->type == KFD_IOC_EVENT_SIGNAL ? w->events[i].last_event_age : 0;
		w->ages[i] = seen ? seen : s->age;
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

/** ROCr 6.4 forgets the age of an event and asks again at once, without end (ROCm/rocm-systems#7425). With a real driver that costs a
 * processor; here the emulated GPU needs it. */
static bool is_spinning(bool at_once)
{
	enum { TURNS = 64 };
	static _Thread_local unsigned turns;
	turns = at_once ? turns + 1 : 0;
	return turns > TURNS;
}

int event_wait(struct kmt *t, struct kfd_ioctl_wait_events_args *a)
{
	struct kmt_wait *w = mem_alloc(sizeof(*w) + a->num_events * sizeof(w->ages[0]));
	w->kfd = t;
	w->events = (struct kfd_event_data *)(uintptr_t)a->events_ptr;
	w->n = a->num_events;
	w->all = a->wait_for_all;
	struct timespec until = deadline(a->timeout);
	int error = 0;
	pthread_mutex_lock(&t->lock);
	count_waiters(w, 1);
	bool met = over(w);
	if (is_spinning(met)) {
		const struct timespec soon = deadline(1);
		pthread_cond_clockwait(&t->happened, &t->lock, CLOCK_MONOTONIC, &soon);
		over(w);
	}
	if (!met)
		pthread_cond_broadcast(&t->wanted);
	while (!met && error != ETIMEDOUT) {
		error = a->timeout == UINT32_MAX ? pthread_cond_wait(&t->happened, &t->lock) :
						   pthread_cond_clockwait(&t->happened, &t->lock, CLOCK_MONOTONIC, &until);
		met = over(w);
	}
	count_waiters(w, -1);
	pthread_mutex_unlock(&t->lock);
	a->wait_result = w->gone ? KFD_IOC_WAIT_RESULT_FAIL : met ? KFD_IOC_WAIT_RESULT_COMPLETE : KFD_IOC_WAIT_RESULT_TIMEOUT;
	bool gone = w->gone;
	free(w);
	return gone ? -EIO : 0;
}
