// Of several recordings the one counts whose fault came first; without a fault, the one that has stood longest with work in flight.
#include "session/run/suspect.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "evidence/recording/head.h"
#include "evidence/recording/process.h"
#include "session/last/last.h"

enum { LOG_LINES = 50, NEIGHBOURS = 64 << 10 };

struct suspect {
	const struct flight_recording *of;
	const char *path;
	const struct recorded_packet *packet;
	const struct recorded_queue *queue;
	const struct rec_event *fault; // NULL: none
	double time;                   // seconds since 1970
};

/** A kernel is accused only where it is known to run: its queue stands. */
static const struct recorded_packet *accused(const struct recorded_queue *q)
{
	const struct recorded_packet *p = q->stands ? queue_running(q) : NULL;
	return p && p->kind == PACKET_DISPATCH ? p : NULL;
}

static const struct rec_event *first_fault(const struct flight_recording *r)
{
	for (size_t i = 0; i < r->nevents; i++)
		if (r->events[i].raw.call == CALL_FAULT || r->events[i].raw.call == CALL_QUEUE_ERROR)
			return &r->events[i].raw;
	return NULL;
}

/** A fault outweighs what only stands; of the same, the earlier. */
static bool outweighs(const struct suspect *a, const struct suspect *b)
{
	if (!b->of || !a->fault != !b->fault)
		return !b->of || a->fault;
	return a->time < b->time;
}

/** @rank: of the others only faults count; -1: all count. */
static void look(const struct flight_recording *r, const char *path, int64_t rank, struct suspect *best)
{
	const struct rec_event *fault = first_fault(r);
	if (!fault && rank >= 0 && r->header.rank != rank)
		return;
	struct suspect s = { .of = r, .path = path, .fault = fault, .time = fault ? recording_time(r, fault->time) : 0 };
	if (fault) {
		s.packet = recording_faulted(r, fault, &s.queue);
		*best = outweighs(&s, best) ? s : *best;
		return;
	}
	for (size_t i = 0; i < r->nqueues; i++) {
		s.queue = &r->queues[i];
		s.packet = accused(s.queue);
		if (!s.packet)
			continue;
		// Packets may be written long before their turn comes.
		const uint64_t moved = s.queue->head.moved;
		s.time = recording_time(r, s.packet->raw.time > moved ? s.packet->raw.time : moved);
		*best = outweighs(&s, best) ? s : *best;
	}
}

/** The number of the launch among those of its kernel, from 1 on; -1: older ones are not there any more. */
static int64_t launch_of(const struct suspect *s)
{
	int64_t n = 0;
	for (size_t q = 0; q < s->of->nqueues; q++) {
		const struct recorded_queue *queue = &s->of->queues[q];
		if (queue->n && queue->packets[0].id)
			return -1;
		for (size_t i = 0; i < queue->n; i++) {
			const struct recorded_packet *p = &queue->packets[i];
			n += p->kind == PACKET_DISPATCH && p->kernel && p->kernel == s->packet->kernel &&
			     (p == s->packet || p->raw.time < s->packet->raw.time);
		}
	}
	return n;
}

static void tell_fault(const struct suspect *s, struct arena *a, struct run_try *ret)
{
	ret->ended = S("gpu-fault");
	if (s->fault->call == CALL_QUEUE_ERROR) {
		ret->because = arena_printf(a, "The runtime reported an error of a queue (code 0x%llx) to the recorder.",
					    (unsigned long long)s->fault->a[1]);
		return;
	}
	const struct nearby n = recording_near(s->of, s->fault->a[0], s->fault->time, s->fault->a[2]);
	ret->because = arena_printf(a, "The recorder saw a memory fault at 0x%llx.", (unsigned long long)s->fault->a[0]);
	ret->place = near_say(a, s->of, &n, s->fault->time);
	// How far two buffers lie apart changes from try to try.
	if (n.allocation && (n.relation == NEAR_INSIDE || n.relation == NEAR_FREED || n.distance < NEIGHBOURS))
		ret->offset = arena_printf(a, "%s+%llu/%llu", near_name(n.relation), (unsigned long long)n.distance,
					   (unsigned long long)n.allocation->size);
}

/** Who holds the lock of a recording, as this process numbers it: the kernel translates between namespaces. -1: nobody, or one that is not
 * seen from here. */
static int64_t owner_of(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const bool held = fd >= 0 && !fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK;
	return held && lock.l_pid > 0 ? lock.l_pid : -1;
}

/** As this process numbers it; -1: it was in another namespace, and is gone. */
static int64_t pid_of(const struct suspect *s)
{
	return recording_numbers_ours(s->of) ? (int64_t)s->of->header.pid : owner_of(s->path);
}

static void tell(const struct suspect *s, struct arena *a, struct run_try *ret)
{
	if (!s->of)
		return;
	ret->pid = pid_of(s);
	ret->rank = s->of->header.rank;
	if (s->fault)
		tell_fault(s, a, ret);
	if (!s->packet)
		return;
	ret->kernel = arena_str(a, packet_say(a, s->packet)); // the recording is closed before it is told
	ret->symbol = s->packet->kernel ? arena_str(a, s->packet->kernel->name) : (struct str){ 0 };
	ret->packet = (int64_t)s->packet->id;
	ret->launch = s->packet->kernel ? launch_of(s) : -1;
}

struct recordings {
	struct recording_paths paths;
	VEC(struct flight_recording *) list;
	VEC(const char *) names; // of each
};

static void open_all(const char *directory, struct recordings *ret)
{
	*ret = (struct recordings){ 0 };
	uh_error_free(recordings_find(directory, &ret->paths));
	for (size_t i = 0; i < ret->paths.list.len; i++) {
		struct flight_recording *r;
		struct uh_error *err = recording_open(&ret->paths.list.data[i], &r, NULL);
		if (!err) {
			vec_push(&ret->list, r);
			vec_push(&ret->names, ret->paths.list.data[i].path);
		}
		uh_error_free(err);
	}
}

static void close_all(struct recordings *r)
{
	for (size_t i = 0; i < r->list.len; i++)
		recording_free(r->list.data[i]);
	vec_free(&r->list);
	vec_free(&r->names);
	recording_paths_free(&r->paths);
}

void suspect_find(const char *directory, int64_t rank, struct arena *a, struct run_try *ret)
{
	struct recordings all;
	struct suspect best = { 0 };
	open_all(directory, &all);
	for (size_t i = 0; i < all.list.len; i++)
		look(all.list.data[i], all.names.data[i], rank, &best);
	tell(&best, a, ret);
	close_all(&all);
}

bool suspect_uses(const struct suspect_gpus *g, struct str pci)
{
	for (size_t i = 0; i < g->n; i++)
		if (str_eq(g->list[i], pci))
			return true;
	return !g->n;
}

void suspect_gpus(const char *directory, struct arena *a, struct suspect_gpus *ret)
{
	struct recordings all;
	ret->n = 0;
	open_all(directory, &all);
	for (size_t i = 0; i < all.list.len; i++)
		for (size_t q = 0; q < all.list.data[i]->nqueues; q++) {
			const struct recorded_agent *agent = all.list.data[i]->queues[q].agent;
			if (agent && agent->pci.n && ret->n < sizeof(ret->list) / sizeof(ret->list[0]) &&
			    (!ret->n || !suspect_uses(ret, agent->pci)))
				ret->list[ret->n++] = arena_str(a, agent->pci);
		}
	close_all(&all);
}

void suspect_pids(const char *directory, struct job_pids *ret)
{
	struct recordings all;
	ret->n = 0;
	open_all(directory, &all);
	for (size_t i = 0; i < all.list.len && ret->n < sizeof(ret->list) / sizeof(ret->list[0]); i++) {
		const struct rec_header *h = &all.list.data[i]->header;
		if (!h->pid_namespace)
			ret->list[ret->n++] = h->pid;
	}
	close_all(&all);
}

// --- which rank was the first to fail ---

enum { RANKS_MOST = 1024 };
static const double certain = 0.1; // seconds: a recorder on a busy machine notes that its process lives some times in these

/** What a recording says of the end of its process. */
enum rank_end {
	RANK_WELL,   // it ended in order, and not with a status that says otherwise
	RANK_FAILED, // it ended with such a status
	RANK_SILENT, // it did not say that it ended
};

struct last_sign {
	int64_t rank, pid;
	double time;
	enum rank_end end;
	unsigned status;
};

static struct last_sign sign_of(const struct flight_recording *r, const char *path)
{
	const struct rec_header *h = &r->header;
	const struct suspect of = { .of = r, .path = path };
	const unsigned status = h->exited > 1 ? h->exited - 1 : 0;
	return (struct last_sign){ .rank = h->rank,
				   .pid = pid_of(&of),
				   .time = recording_time(r, h->clocks[h->newest & 1].ticks),
				   .end = status                   ? RANK_FAILED :
					  h->state == RECORDING_ON ? RANK_SILENT :
								     RANK_WELL,
				   .status = status };
}

/** A rank may have several processes; it ends with the last of them. */
static void add_sign(struct last_sign *list, size_t *n, const struct last_sign *own)
{
	for (size_t i = 0; i < *n; i++)
		if (list[i].rank == own->rank) {
			list[i] = own->time > list[i].time ? *own : list[i];
			return;
		}
	if (*n < RANKS_MOST)
		list[(*n)++] = *own;
}

/** Of those that did not end well; with @failed, of those that certainly failed. @ret_alone: no other one ended at nearly the same time. */
static const struct last_sign *earliest(const struct last_sign *list, size_t n, bool failed, bool *ret_alone)
{
	const struct last_sign *first = NULL;
	*ret_alone = true;
	for (size_t i = 0; i < n; i++) {
		if (list[i].end == RANK_WELL || (failed && list[i].end != RANK_FAILED))
			continue;
		const double later = first ? list[i].time - first->time : -certain;
		*ret_alone = later <= -certain || (*ret_alone && later >= certain);
		first = later < 0 ? &list[i] : first;
	}
	return first;
}

/** Who ended well did not fail, however early. Who ended without a word most likely did; but a program may also leave so on purpose, and if
 * another one certainly failed later, nobody can tell which of the two was the first. */
static struct str first_say(const struct last_sign *list, size_t n, struct arena *a, struct run_try *ret)
{
	static const char silent[] = "without a word: it crashed, was killed, or called _exit()";
	bool alone, any;
	const struct last_sign *first = earliest(list, n, false, &alone), *failed = earliest(list, n, true, &any);
	if (n < 2 || !first)
		return (struct str){ 0 };
	if (!alone)
		return S("Which rank failed first is not known: several ended at nearly the same time.");
	if (failed && failed != first)
		return arena_printf(
			a,
			"Which rank failed first is not known: rank %lld ended %s; rank %lld ended %.1f s later with "
			"status %u.",
			(long long)first->rank, silent, (long long)failed->rank, failed->time - first->time, failed->status);
	ret->rank = first->rank;
	ret->pid = first->pid;
	if (failed)
		return arena_printf(a, "Rank %lld was the first to fail: it ended with status %u.", (long long)first->rank,
				    first->status);
	return arena_printf(a, "Rank %lld was the first to end %s.", (long long)first->rank, silent);
}

struct str suspect_first(const char *directory, struct arena *a, struct run_try *ret)
{
	struct recordings all;
	struct last_sign *list = mem_alloc(RANKS_MOST * sizeof(*list));
	size_t n = 0;
	open_all(directory, &all);
	for (size_t i = 0; i < all.list.len; i++) {
		const struct last_sign own = sign_of(all.list.data[i], all.names.data[i]);
		if (own.rank >= 0)
			add_sign(list, &n, &own);
	}
	struct str said = first_say(list, n, a, ret);
	close_all(&all);
	free(list);
	return said;
}

// --- for crash diagnostics ---

static struct str launch_say(struct arena *a, const struct recorded_queue *q, const struct recorded_packet *p)
{
	return arena_printf(a, "Kernel API Call: " STR_FMT " queue %u packet %llu %s", STR_ARG(packet_say(a, p)), q->id,
			    (unsigned long long)p->id, progress_name(p->progress));
}

/** @ret_last: the newest that is known to have ended. */
static void add_launches(const struct flight_recording *r, struct arena *a, struct text *to, struct str *ret_last)
{
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

int64_t suspect_packets(const char *directory, int64_t rank)
{
	struct recording_paths paths = { 0 };
	int64_t packets = -1;
	uh_error_free(recordings_find(directory, &paths));
	for (size_t i = 0; rank >= 0 && i < paths.list.len; i++) {
		struct rec_header h;
		struct recorded_pace p;
		_cleanup_close_ int fd = open(paths.list.data[i].path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd >= 0 && recording_head(fd, &h) && h.rank == rank && recording_pace(fd, &p))
			packets = (packets < 0 ? 0 : packets) + (int64_t)p.written;
	}
	recording_paths_free(&paths);
	return packets;
}

/** The recording whose launches count where no kernel is to blame. */
static const struct flight_recording *recording_of(const struct recordings *all, int64_t rank)
{
	for (size_t i = 0; i < all->list.len; i++)
		if (all->list.data[i]->header.rank == rank)
			return all->list.data[i];
	return all->list.len && rank < 0 ? all->list.data[0] : NULL;
}

void suspect_log(const char *directory, int64_t rank, struct arena *a, struct suspect_log *ret)
{
	struct recordings all;
	struct suspect best = { 0 };
	struct text lines = { 0 };
	*ret = (struct suspect_log){ 0 };
	open_all(directory, &all);
	for (size_t i = 0; i < all.list.len; i++)
		look(all.list.data[i], all.names.data[i], rank, &best);
	if (!best.of)
		best.of = recording_of(&all, rank);
	if (best.of)
		add_launches(best.of, a, &lines, &ret->last);
	for (size_t i = 0; best.of && i < best.of->nagents; i++)
		if (best.of->agents[i].gpu && !ret->gfx.n)
			ret->gfx = arena_str(a, best.of->agents[i].name);
	if (best.packet)
		ret->last = launch_say(a, best.queue, best.packet);
	ret->lines = arena_str(a, text_str(&lines));
	text_free(&lines);
	close_all(&all);
}
