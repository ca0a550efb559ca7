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
		target_close(q->processes[i].target);
	free(q->processes);
	free(q->list);
	kfd_free(&q->kfd);
	arena_free(&q->arena);
}

static struct user_queue *queue_of(struct user_queues *q, size_t process, uint32_t id)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->list[i].process == process && q->list[i].id == id)
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

/** The signals that hold a barrier. Of those of which one is enough, none counts unless only one is left. */
static void find_signals(const struct aql_packet *p, struct user_queue *u)
{
	bool come = false;
	u->nsignals = 0;
	for (size_t i = 0; i < p->nsignals; i++) {
		come |= p->signals[i].known && !p->signals[i].value;
		if (p->signals[i].known && p->signals[i].value)
			u->signals[u->nsignals++] = p->signals[i].address;
	}
	u->waits = p->type == AQL_BARRIER_AND ? u->nsignals : p->type == AQL_BARRIER_OR && !come && p->nsignals == 1;
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
		if (!i)
			find_signals(&packet, u);
		name_packet(q, k, &at, &packet, &u->tasks[u->ntasks++]);
	}
	target_code_close(&c);
	if (u->ntasks) {
		u->packet = u->tasks[0].packet;
		u->kernel = u->tasks[0].kernel;
	}
}

/** What waits in it: packets, or bytes for a copy engine. Indexes lie in the process's memory and may be anything: more than there is
 * room for is nothing. */
static uint64_t pending_of(const struct queue *q)
{
	uint64_t n = q->write_index - q->read_index, most = q->type == QUEUE_AQL ? q->ring_size / AQL_PACKET : q->ring_size;
	return n > most ? 0 : n;
}

static void look_at_process(struct user_queues *q, const struct know *k, const struct devices *d, size_t process)
{
	struct target *t = q->processes[process].target;
	struct request r = { .kind = REQUEST_QUEUES };
	if (target_ask(t, &r) != ANSWER_GIVEN)
		return;
	for (size_t i = 0; i < r.n; i++) {
		const struct queue *queue = &r.queues[i];
		struct user_queue *u = queue->indexes_known ? queue_of(q, process, queue->id) : NULL;
		if (!u)
			continue;
		if (u->gpu.n)
			u->known = true;
		else
			u->first_read = queue->read_index;
		find_partition(d, queue, u);
		u->read = queue->read_index;
		u->pending = pending_of(queue);
		u->packets = queue->type == QUEUE_AQL;
		u->packet = u->kernel = (struct str){ 0 };
		u->waits = false;
		u->ntasks = 0;
		if (u->known && user_queue_stands(u))
			name_packets(q, k, t, queue, u);
	}
}

static struct str process_name(const struct devices *d, int64_t pid)
{
	for (size_t i = 0; i < d->n; i++)
		for (size_t h = 0; h < d->list[i].nholders; h++)
			if (d->list[i].holders[h].pid == pid)
				return d->list[i].holders[h].name;
	return (struct str){ 0 };
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
		struct user_process p = { .pid = q->kfd.pids[i], .name = process_name(d, q->kfd.pids[i]) };
		struct uh_error *err = target_process_of(k, d, &q->kfd, p.pid, &p.target);
		if (!err) {
			stuck = process_stuck(p.target);
			q->processes[q->nprocesses++] = p;
		}
		uh_error_free(err);
	}
}

void user_queues_look(struct user_queues *q, const struct know *k, const struct devices *d)
{
	bool first = !q->looks++;
	if (first)
		find_processes(q, k, d);
	for (size_t i = 0; i < q->nprocesses; i++) {
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
		process_find_places(q->processes[i].target);
		target_ask(q->processes[i].target, &r);
		for (size_t n = 0; n < r.n; n++) {
			struct user_queue *u = r.queues[n].indexes_known ? queue_of(q, i, r.queues[n].id) : NULL;
			if (u)
				find_partition(d, &r.queues[n], u);
		}
	}
}
