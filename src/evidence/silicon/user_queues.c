// The queues of processes at several looks, and whether their barriers wait for each other.
#include "evidence/silicon/user_queues.h"

#include <stdlib.h>

#include "gpu/packet.h"
#include "gpu/target_code.h"

enum {
	PROCESSES_MOST = 64,
	QUEUES_MOST = 1024,
	TASKS_MOST = 64, // packets of a queue that are looked at
};

/** A queue of a process whose code is at hand. */
struct queue_at {
	struct target *process;
	const struct queue *queue;
	struct target_code *code;
};

void user_queues_free(struct user_queues *q)
{
	for (size_t i = 0; i < q->nprocesses; i++)
		if (q->processes[i].target)
			target_close(q->processes[i].target);
	client_queues_free(&q->clients);
	free(q->processes);
	free(q->list);
	kfd_free(&q->kfd);
	arena_free(&q->arena);
}

static struct user_queue *user_queues_queue_of(struct user_queues *q, size_t process, uint32_t id)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->list[i].process == process && q->list[i].id == id && !q->list[i].client)
			return &q->list[i];
	if (q->n == QUEUES_MOST)
		return NULL;
	struct user_queue *new = &q->list[q->n++];
	*new = (struct user_queue){ .process = process, .id = id };
	return new;
}

// --- where a queue is ---

/** XCCs of a GPU, divided into @partitions. */
static uint64_t xccs_of_partition(unsigned xccs, unsigned partitions, unsigned partition)
{
	uint64_t mask = 0;
	for (unsigned xcc = 0; xcc < xccs && xcc < 64; xcc++)
		if (xcc * partitions / xccs == partition)
			mask |= UINT64_C(1) << xcc;
	return mask;
}

uint64_t partition_of_xcc(const struct device *d, unsigned xcc)
{
	unsigned xccs = d->shaders.xccs ? d->shaders.xccs : 1, partitions = device_partitions(d);
	return xccs_of_partition(xccs, partitions, xcc * partitions / xccs);
}

/** Which nodes KFD has tells it; where it has one for the whole GPU, the places that show the queue. */
static void find_partition(const struct devices *d, const struct queue *queue, struct user_queue *u)
{
	unsigned partition = 0, nodes = 0;
	const struct device *g = queue->agent ? devices_with_gpu_id(d, queue->agent->gpu_id, &partition) : NULL;
	if (!g)
		return;
	u->gpu = g->pci;
	u->slot = queue->slot;
	u->xccs = 0;
	for (size_t i = 0; i < d->nkfd; i++)
		nodes += &d->list[d->kfd[i].device] == g;
	if (nodes > 1)
		u->xccs = xccs_of_partition(g->shaders.xccs, nodes, partition);
	for (unsigned xcc = 0; xcc < g->shaders.xccs && nodes <= 1; xcc++)
		if (queue->slot.xccs >> xcc & 1)
			u->xccs |= partition_of_xcc(g, xcc);
}

// --- what waits in it ---

/** What a packet is called, and the kernel that it runs. */
static void name_packet(struct user_queues *q, const struct know *k, const struct queue_at *at, const struct aql_packet *packet,
			struct queue_task *ret)
{
	enum { DONE = 14 }; // the word at which the signal begins that it gives when it is done
	struct packet p;
	struct dispatch d;
	const struct packet_stream s = { k, PACKETS_AQL, { 0 }, packet->words, AQL_PACKET / 4 };
	*ret = (struct queue_task){ .index = packet->index };
	if (!packet_decode(&s, &q->arena, 0, &p))
		return;
	ret->packet = p.name;
	if (packet->type != AQL_VENDOR && packet->type != AQL_INVALID)
		ret->signal = packet->words[DONE] | (uint64_t)packet->words[DONE + 1] << 32;
	if (!queue_dispatch(at->process, at->queue, packet->index, &d))
		return;
	const struct code_kernel *kernel = target_code_kernel(at->code, d.kernel_object);
	if (kernel)
		ret->kernel = arena_str(&q->arena, code_set_name(&at->code->set, kernel->name));
}

/** What waits in a queue that stands still: the head, and as much as a look may cost behind it. */
static void name_packets(struct user_queues *q, const struct know *k, struct target *t, const struct queue *queue,
			 struct user_queue *u)
{
	struct code_places none = { .tape = probe_tape(&q->kfd.count) };
	struct target_code c;
	struct aql_packet packet;
	const struct queue_at at = { t, queue, &c };
	u->ntasks = 0;
	u->tasks = arena_alloc(&q->arena, TASKS_MOST * sizeof(*u->tasks));
	target_code_open(&c, t, &none);
	for (uint64_t i = 0; i < u->pending && u->packets && u->ntasks < TASKS_MOST; i++) {
		if (!queue_packet(t, queue, u->read + i, &packet))
			break;
		if (!i) { // the signals that hold a barrier; of those of which one is enough, none counts unless only one is left
			bool come = false;
			u->nsignals = 0;
			for (size_t n = 0; n < packet.nsignals; n++) {
				come |= packet.signals[n].known && !packet.signals[n].value;
				if (packet.signals[n].known && packet.signals[n].value)
					u->signals[u->nsignals++] = packet.signals[n].address;
			}
			u->waits = packet.type == AQL_BARRIER_AND ?
					   u->nsignals :
					   packet.type == AQL_BARRIER_OR && !come && packet.nsignals == 1;
		}
		name_packet(q, k, &at, &packet, &u->tasks[u->ntasks++]);
	}
	target_code_close(&c);
	if (u->ntasks) {
		u->packet = u->tasks[0].packet;
		u->kernel = u->tasks[0].kernel;
	}
}

static void look_at_process(struct user_queues *q, const struct know *k, const struct devices *d, size_t process)
{
	struct target *t = q->processes[process].target;
	struct request r = { .kind = REQUEST_QUEUES };
	if (target_ask(t, &r) != ANSWER_GIVEN)
		return;
	for (size_t i = 0; i < r.n; i++) {
		const struct queue *queue = &r.queues[i];
		struct user_queue *u = queue->indexes_known ? user_queues_queue_of(q, process, queue->id) : NULL;
		if (!u)
			continue;
		if (u->gpu.n)
			u->known = true;
		else
			u->first_read = queue->read_index;
		find_partition(d, queue, u);
		u->read = queue->read_index;
		// Packets, or bytes for a copy engine. Indexes lie in the process's memory and may be anything: more than there is room for
		// is nothing.
		const uint64_t n = queue->write_index - queue->read_index;
		u->pending = n > (queue->type == QUEUE_AQL ? queue->ring_size / AQL_PACKET : queue->ring_size) ? 0 : n;
		u->packets = queue->type == QUEUE_AQL;
		u->packet = u->kernel = (struct str){ 0 };
		u->waits = false;
		u->ntasks = 0;
		if (u->known && user_queue_stands(u))
			name_packets(q, k, t, queue, u);
	}
}

/** A process that has ended or may not be read has no known queues. After one whose memory did not answer, no others are tried: each would
 * cost its deadline, and all wait for the same driver. */
static void find_processes(struct user_queues *q, const struct know *k, const struct devices *d)
{
	q->processes = mem_alloc(PROCESSES_MOST * sizeof(*q->processes));
	q->list = mem_alloc(QUEUES_MOST * sizeof(*q->list));
	kfd_look(d, &q->kfd);
	bool stuck = false;
	for (size_t i = 0; i < q->kfd.npids && q->nprocesses < PROCESSES_MOST && !stuck; i++) {
		struct user_process p = { .pid = q->kfd.pids[i] };
		for (size_t n = 0; n < d->n; n++)
			for (size_t h = 0; h < d->list[n].nholders && !p.name.n; h++)
				if (d->list[n].holders[h].pid == p.pid)
					p.name = d->list[n].holders[h].name;
		_cleanup_error_ struct uh_error *err = target_process_of(k, d, &q->kfd, p.pid, &p.target);
		if (err)
			continue;
		stuck = process_stuck(p.target);
		q->processes[q->nprocesses++] = p;
	}
}

// --- queues of clients of the driver ---

/** The process of a client, which may compute through KFD, too. */
static bool process_of_client(struct user_queues *q, const struct client_queue *c, size_t *ret)
{
	size_t i = 0;
	while (i < q->nprocesses && q->processes[i].pid != c->pid)
		i++;
	if (i == PROCESSES_MOST)
		return false;
	if (i == q->nprocesses)
		q->processes[q->nprocesses++] = (struct user_process){ .pid = c->pid, .name = c->process };
	*ret = i;
	return true;
}

static void user_queues_find_clients(struct user_queues *q, const struct know *k, const struct devices *d)
{
	client_queues_look(k, d, &q->clients);
	for (size_t i = 0; i < q->clients.n && q->n < QUEUES_MOST; i++) {
		const struct client_queue *c = &q->clients.list[i];
		struct user_queue u = { .client = c, .id = c->queue.id, .first_read = c->queue.read_index };
		if (!c->queue.indexes_known || !c->device || !c->pid || !process_of_client(q, c, &u.process))
			continue;
		u.gpu = c->device->pci;
		u.read = u.first_read;
		u.pending = client_queue_waiting(c);
		q->list[q->n++] = u;
	}
}

static void look_at_clients(struct user_queues *q, const struct know *k)
{
	if (q->clients.n)
		client_queues_look_again(k, &q->clients);
	for (size_t i = 0; i < q->n; i++) {
		struct user_queue *u = &q->list[i];
		if (!u->client)
			continue;
		u->known = u->client->answered;
		u->read = u->client->queue.read_index;
		u->pending = client_queue_waiting(u->client);
	}
}

void user_queues_look(struct user_queues *q, const struct know *k, const struct devices *d)
{
	bool first = !q->looks++;
	if (first) {
		find_processes(q, k, d);
		user_queues_find_clients(q, k, d);
	} else {
		look_at_clients(q, k);
	}
	for (size_t i = 0; i < q->nprocesses; i++) {
		if (!q->processes[i].target)
			continue;
		if (!first)
			process_look_again(q->processes[i].target);
		look_at_process(q, k, d, i);
	}
}

void user_queues_place(struct user_queues *q, const struct know *k, const struct devices *d)
{
	if (q->placed)
		return;
	q->placed = true;
	kfd_look_at_places(&q->kfd, k, d);
	for (size_t i = 0; i < q->nprocesses; i++) {
		struct request r = { .kind = REQUEST_QUEUES };
		if (!q->processes[i].target)
			continue;
		process_find_places(q->processes[i].target);
		target_ask(q->processes[i].target, &r);
		for (size_t n = 0; n < r.n; n++) {
			struct user_queue *u = r.queues[n].indexes_known ? user_queues_queue_of(q, i, r.queues[n].id) : NULL;
			if (u)
				find_partition(d, &r.queues[n], u);
		}
	}
}

// A signal that a barrier waits for is given by a packet. If that packet stands behind a barrier too, its queue has to move first. A cycle
// of such queues never moves, unless the program itself sets one of the signals.

/** The packet of a process that gives a signal when it is done. */
static bool find_giver(const struct user_queues *q, size_t process, uint64_t signal, struct barrier_wait *ret)
{
	for (size_t i = 0; i < q->n; i++) {
		const struct user_queue *u = &q->list[i];
		for (size_t k = 0; u->process == process && k < u->ntasks; k++)
			if (u->tasks[k].signal == signal) {
				ret->by = u;
				ret->task = &u->tasks[k];
				return true;
			}
	}
	return false;
}

bool barrier_giver(const struct user_queues *q, const struct user_queue *u, struct barrier_wait *ret)
{
	for (size_t i = 0; i < u->nsignals; i++) {
		*ret = (struct barrier_wait){ .queue = u, .signal = u->signals[i] };
		if (find_giver(q, u->process, ret->signal, ret))
			return true;
	}
	return false;
}

struct barrier_path {
	const struct user_queues *queues;
	struct barrier_wait *waits;
	size_t n;
};

/** Goes on from a queue that waits, until the path comes back to its first. */
static bool user_queues_follow(struct barrier_path *p, const struct user_queue *u)
{
	if (p->n == BARRIERS_MOST)
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (p->waits[i].queue == u)
			return false; // a cycle that the first is not in
	struct barrier_wait *w = &p->waits[p->n++];
	for (size_t i = 0; i < u->nsignals; i++) {
		*w = (struct barrier_wait){ .queue = u, .signal = u->signals[i] };
		if (find_giver(p->queues, u->process, w->signal, w) && w->by->waits &&
		    (w->by == p->waits[0].queue || user_queues_follow(p, w->by)))
			return true;
	}
	p->n--;
	return false;
}

size_t barriers_cycle(const struct user_queues *q, struct str gpu, struct barrier_wait ret[static BARRIERS_MOST])
{
	for (size_t i = 0; i < q->n; i++) {
		struct barrier_path p = { q, ret, 0 };
		if (q->list[i].waits && str_eq(q->list[i].gpu, gpu) && user_queues_follow(&p, &q->list[i]))
			return p.n;
	}
	return 0;
}

/** A kernel's name without its parameters. */
static struct str user_queues_short_name(struct str kernel) { return str_split(&kernel, '('); }

struct str barriers_say(struct arena *a, const struct barrier_wait *waits, size_t n)
{
	_cleanup_text_ struct text out = { 0 };
	for (size_t i = 0; i < n; i++) {
		const struct barrier_wait *w = &waits[i];
		struct str before = { 0 }; // the kernel that the queue would run next
		for (size_t t = 0; t < w->queue->ntasks && !before.n; t++)
			before = user_queues_short_name(w->queue->tasks[t].kernel);
		text_printf(&out, "%squeue %u stands at packet %llu, a barrier", i ? "; " : "", w->queue->id,
			    (unsigned long long)w->queue->read);
		if (before.n)
			text_printf(&out, " before " STR_FMT ",", STR_ARG(before));
		text_printf(&out, " that waits for packet %llu of ", (unsigned long long)w->task->index);
		if (w->by == w->queue)
			text_add(&out, S("the same queue"));
		else
			text_printf(&out, "queue %u", w->by->id);
		if (w->task->kernel.n)
			text_printf(&out, " (" STR_FMT ")", STR_ARG(user_queues_short_name(w->task->kernel)));
	}
	return arena_str(a, text_str(&out));
}
