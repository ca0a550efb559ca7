// What a recording tells of its process as a whole: how it ended, what it used, and which of its kernels is to blame as far as it alone can
// tell. It is an event like all others; who of several processes was the first is chosen by diagnose/job.c.
#include <fcntl.h>

#include "base/cleanup.h"
#include "evidence/recording/process.h"
#include "evidence/recording/tell.h"

enum { NEIGHBOURS = 64 << 10 };

bool recording_accuse(const struct flight_recording *r, struct accused *ret)
{
	*ret = (struct accused){ 0 };
	for (size_t i = 0; i < r->nevents && !ret->fault; i++)
		if (r->events[i].raw.call == CALL_FAULT || r->events[i].raw.call == CALL_QUEUE_ERROR)
			ret->fault = &r->events[i].raw;
	if (ret->fault) {
		ret->packet = recording_faulted(r, ret->fault, &ret->queue);
		ret->since = ret->fault->time;
		return true;
	}
	for (size_t i = 0; i < r->nqueues; i++) {
		const struct recorded_queue *q = &r->queues[i];
		const struct recorded_packet *p = q->stands ? queue_running(q) : NULL;
		const uint64_t since = p && p->raw.time > q->head.moved ? p->raw.time : q->head.moved;
		if (p && p->kind == PACKET_DISPATCH && (!ret->packet || since < ret->since))
			*ret = (struct accused){ .packet = p, .queue = q, .since = since };
	}
	return ret->packet;
}

/** The number of the launch among those of its kernel, from 1 on; -1: older ones are not there any more. */
static int64_t launch_of(const struct flight_recording *r, const struct recorded_packet *of)
{
	int64_t n = 0;
	for (size_t q = 0; q < r->nqueues; q++) {
		const struct recorded_queue *queue = &r->queues[q];
		if (queue->n && queue->packets[0].id)
			return -1;
		for (size_t i = 0; i < queue->n; i++) {
			const struct recorded_packet *p = &queue->packets[i];
			n += p->kind == PACKET_DISPATCH && p->kernel && p->kernel == of->kernel &&
			     (p == of || p->raw.time < of->raw.time);
		}
	}
	return n;
}

static struct str launch_say(struct arena *a, const struct recorded_queue *q, const struct recorded_packet *p)
{
	return arena_printf(a, "Kernel API Call: " STR_FMT " queue %u packet %llu %s", STR_ARG(packet_say(a, p)), q->id,
			    (unsigned long long)p->id, progress_name(p->progress));
}

static void add_accused(struct event *e, struct arena *a, const struct flight_recording *r)
{
	struct accused s;
	if (!recording_accuse(r, &s))
		return;
	event_add_text(e, a, "accused_since", arena_printf(a, "%.9f", recording_time(r, s.since)));
	if (s.fault && s.fault->call == CALL_QUEUE_ERROR) {
		event_add_text(e, a, "fault_seen",
			       arena_printf(a, "The runtime reported an error of a queue (code 0x%llx) to the recorder.",
					    (unsigned long long)s.fault->a[1]));
	} else if (s.fault) {
		const struct nearby n = recording_near(r, s.fault->a[0], s.fault->time, s.fault->a[2]);
		event_add_text(
			e, a, "fault_seen",
			arena_printf(a, "The recorder saw a memory fault at 0x%llx.", (unsigned long long)s.fault->a[0]));
		event_add_text(e, a, "fault_place", near_say(a, r, &n, s.fault->time, " the fault"));
		// How far two buffers lie apart changes from try to try.
		if (n.allocation && (n.relation == NEAR_INSIDE || n.relation == NEAR_FREED || n.distance < NEIGHBOURS))
			event_add_text(e, a, "fault_offset",
				       arena_printf(a, "%s+%llu/%llu", near_name(n.relation), (unsigned long long)n.distance,
						    (unsigned long long)n.allocation->size));
	}
	if (!s.packet)
		return;
	event_add_text(e, a, "kernel_name", packet_say(a, s.packet));
	event_add_text(e, a, "symbol", s.packet->kernel ? s.packet->kernel->name : (struct str){ 0 });
	event_add_text(e, a, "launch_line", launch_say(a, s.queue, s.packet));
	event_add_number(e, a, "packet", (int64_t)s.packet->id);
	event_add_number(e, a, "launch", s.packet->kernel ? launch_of(r, s.packet) : -1);
}

/** Who holds the lock of a recording, as this process numbers it: the kernel translates between namespaces. -1: nobody, or one that is not
 * seen from here. */
static int64_t lock_owner(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const bool held = fd >= 0 && !fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK;
	return held && lock.l_pid > 0 ? lock.l_pid : -1;
}

void recording_tell_process(const struct artefact_output *out, const struct flight_recording *r, const char *path)
{
	const struct rec_header *h = &r->header;
	const unsigned status = h->exited > 1 ? h->exited - 1 : 0;
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (!artefact_event(out, "recording-process", (struct place){ out->source, 0 }, &e))
		return;
	e.time = (struct stamp){ TIME_WALL, recording_time(r, h->clocks[h->newest & 1].ticks) };
	e.boot_id = r->boot_id;
	if (!h->pid_namespace)
		event_add_number(&e, &a, "pid", h->pid);
	event_add_number(&e, &a, "pid_here", recording_numbers_ours(r) ? (int64_t)h->pid : path ? lock_owner(path) : -1);
	event_add_number(&e, &a, "rank", h->rank);
	event_add_text(&e, &a, "end", status ? S("failed") : h->state == RECORDING_ON ? S("silent") : S("well"));
	event_add_number(&e, &a, "exit_code", status);
	_cleanup_text_ struct text gpus = { 0 };
	uint64_t packets = 0;
	for (size_t i = 0; i < r->nqueues; i++) {
		const struct rec_queue *q = &r->queues[i].head;
		const struct recorded_agent *agent = r->queues[i].agent;
		packets += q->write > q->seen ? q->write : q->seen; // what came behind the last sample of a process that died
		if (agent && agent->pci.n && str_find(text_str(&gpus), agent->pci) < 0)
			text_printf(&gpus, "%s" STR_FMT, gpus.n ? " " : "", STR_ARG(agent->pci));
	}
	event_add_number(&e, &a, "packets", (int64_t)packets);
	event_add_text(&e, &a, "gpus", arena_str(&a, text_str(&gpus)));
	for (size_t i = 0; i < r->nagents; i++)
		if (r->agents[i].gpu && !event_fact(&e, "gfx"))
			event_add_text(&e, &a, "gfx", r->agents[i].name);
	add_accused(&e, &a, r);
	artefact_tell(out, &e);
}

void recording_launches(const struct flight_recording *r, struct arena *a, struct text *to, struct str *ret_last)
{
	enum { LOG_LINES = 50 };
	uint64_t newest = 0;
	for (size_t q = 0; q < r->nqueues; q++) {
		const struct recorded_queue *queue = &r->queues[q];
		for (size_t i = queue->n > LOG_LINES ? queue->n - LOG_LINES : 0; i < queue->n; i++) {
			const struct recorded_packet *p = &queue->packets[i];
			if (p->kind != PACKET_DISPATCH)
				continue;
			struct str said = launch_say(a, queue, p);
			text_printf(to, STR_FMT "\n", STR_ARG(said));
			if (p->progress == PROGRESS_ENDED && p->raw.time >= newest) {
				newest = p->raw.time;
				*ret_last = said;
			}
		}
	}
}
