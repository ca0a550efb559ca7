// The user queues of the driver's clients as signs of progress. debugfs tells where their descriptors are, which waits for a buffer: that is
// asked only when queues came or went. How far they are lies in the GPU's memory, which is read only while the GPU is awake.
#include "base/door/door.h"
#include "watch/pulse/signs.h"

enum { READ_MS = 5000, NAMES_MS = 5000, NAMES_NONE_MS = 15000 };

void signs_see_clients(struct signs *s, int64_t now_ms)
{
	struct sign_clients *c = &s->clients;
	const int64_t pause = c->names ? NAMES_MS : NAMES_NONE_MS;
	c->fresh = false;
	if (!s->devices->n)
		return;
	if (!c->asked || now_ms - c->asked >= pause) {
		const uint64_t names = client_queues_names(s->devices);
		c->asked = now_ms;
		if (names != c->names) {
			for (size_t i = 0; i < s->nqueues; i++)
				if (s->queues[i].client) // its process and GPU are looked for anew
					s->queues[i--] = s->queues[--s->nqueues];
			client_queues_free(&c->queues);
			c->queues = (struct client_queues){ 0 };
			if (names)
				client_queues_look(s->know, s->devices, &c->queues);
			c->names = names;
			c->read = now_ms;
			s->asked = 0;
		}
		door_end();
	}
	// One that did not answer is not asked again: each question would leave another child behind.
	if (!c->queues.n || c->queues.stuck.is || now_ms - c->read < READ_MS)
		return;
	client_queues_look_again(s->know, &c->queues);
	door_end();
	c->read = now_ms;
	c->fresh = true;
}

size_t signs_client_pids(const struct signs *s, int64_t *pids, size_t n, size_t most)
{
	for (size_t i = 0; i < s->clients.queues.n; i++) {
		const int64_t pid = s->clients.queues.list[i].pid;
		size_t k = 0;
		while (k < n && pids[k] != pid)
			k++;
		if (k == n && n < most && pid > 0)
			pids[n++] = pid;
	}
	return n;
}

void signs_client_gpus(const struct signs *s, struct sign_process *p)
{
	for (size_t i = 0; i < s->clients.queues.n; i++) {
		const struct client_queue *u = &s->clients.queues.list[i];
		const size_t gpu = u->device ? (size_t)(u->device - s->devices->list) : SIGNS_GPUS;
		if (u->pid != p->pid || gpu >= SIGNS_GPUS)
			continue;
		p->gpus |= UINT64_C(1) << gpu;
		p->launched = true; // a desktop holds its queues for days; that is no job that forgot to begin
	}
}

void signs_add_clients(struct signs *s)
{
	for (size_t i = 0; i < s->clients.queues.n && s->nqueues < SIGNS_QUEUES; i++) {
		const struct client_queue *u = &s->clients.queues.list[i];
		size_t process = 0;
		while (process < s->n && s->processes[process].pid != u->pid)
			process++;
		if (process == s->n || !u->device || !u->queue.indexes_known)
			continue;
		s->queues[s->nqueues++] = (struct sign_queue){ .process = process,
							       .gpu = (size_t)(u->device - s->devices->list),
							       .read = u->queue.read_index,
							       .client = u };
	}
}

void signs_read_clients(struct signs *s)
{
	for (size_t i = 0; s->clients.fresh && i < s->nqueues; i++) {
		struct sign_queue *q = &s->queues[i];
		if (!q->client)
			continue;
		const struct queue *now = &q->client->queue;
		q->known = q->client->answered;
		q->moved = q->known && now->read_index != q->read;
		q->pending = q->known && client_queue_waiting(q->client);
		q->read = now->read_index;
	}
}
