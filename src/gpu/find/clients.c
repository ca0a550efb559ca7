// User queues of the driver's clients. mqd_info and vm_pagetable_info reserve a buffer, and wait for it without being interruptible: they
// are read in a child with a deadline, like all else, and behind what never waits.
#include "gpu/find/clients.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/find/kfd.h"
#include "gpu/silicon/silicon.h"
#include "source/tape/tape.h"

enum {
	NAMES_BYTES = 1 << 16,
	SMALL_BYTES = 256,
	CLIENTS_MOST = 1024,
	USER_QUEUES_MOST = 1024,
	CLIENTS_MS = 700,
	MQD_WORDS = 512,
	INDEX_BYTES = 8,
	PAGE_BITS = 12,
	LEVELS_MOST = 3,
	TABLE_INDEX_BITS = 9,
};

#define DRI_DIRECTORY "/sys/kernel/debug/dri"

// --- texts ---

/** What follows a name, with or without a colon. */
static struct str client_value(struct str text, struct str name)
{
	struct str value = str_trim(line_behind(text, name));
	return str_starts(value, S(":")) ? str_trim(str_from(value, 1)) : value;
}

static bool client_number(struct str text, struct str name, uint64_t *ret)
{
	struct str value = client_value(text, name);
	int64_t number;
	if (str_starts(value, S("0x")))
		return str_hex(str_from(value, 2), ret);
	if (!str_number(value, &number) || number < 0)
		return false;
	*ret = (uint64_t)number;
	return true;
}

bool mqd_info_parse(struct str text, unsigned *ret_type, uint64_t *ret_mqd)
{
	uint64_t type, mqd;
	if (!client_number(text, S("queue_type"), &type) || type > USER_QUEUE_COPY ||
	    !client_number(text, S("mqd_gpu_address"), &mqd) || !mqd)
		return false;
	*ret_type = (unsigned)type;
	*ret_mqd = mqd;
	return true;
}

bool page_table_info_parse(struct str text, struct vm_tables *ret)
{
	uint64_t root, pages, levels, block;
	if (!client_number(text, S("pd_address"), &root) || !root || !client_number(text, S("max_pfn"), &pages) || !pages ||
	    pages > UINT64_C(1) << (64 - PAGE_BITS - 1) || !client_number(text, S("num_level"), &levels) ||
	    levels > LEVELS_MOST || !client_number(text, S("block_size"), &block) || block < TABLE_INDEX_BITS ||
	    block > 3 * TABLE_INDEX_BITS)
		return false;
	// The registers count a block from 9 bits on.
	*ret = (struct vm_tables){ root, (pages << PAGE_BITS) - 1, (unsigned)levels, (unsigned)block - TABLE_INDEX_BITS };
	return true;
}

// --- debugfs ---

static void clients_run(struct client_queues *q, struct probe *probes, size_t n)
{
	struct probe_stuck stuck = { 0 };
	probe_run(&q->arena, probes, n, CLIENTS_MS, &stuck, &q->count);
	if (stuck.is)
		q->stuck = stuck;
}

/** The directories of clients. */
static struct probe *list_clients(struct client_queues *q, size_t *ret_n)
{
	struct probe all = { .kind = PROBE_LIST, .path = DRI_DIRECTORY, .size = NAMES_BYTES };
	struct probe *lists = arena_alloc(&q->arena, CLIENTS_MOST * sizeof(*lists));
	size_t n = 0;
	clients_run(q, &all, 1);
	for (struct str names = probe_text(&all); names.n && n < CLIENTS_MOST;) {
		const struct str name = str_split(&names, '\n');
		if (str_starts(name, S("client-")))
			lists[n++] =
				(struct probe){ .kind = PROBE_LIST,
						.path = arena_printf(&q->arena, DRI_DIRECTORY "/" STR_FMT, STR_ARG(name)).p,
						.size = NAMES_BYTES };
	}
	clients_run(q, lists, n);
	*ret_n = n;
	return lists;
}

static void add_queues(struct client_queues *q, const struct probe *client, struct str *paths)
{
	const struct str number = str_from(str_base(str_z(client->path)), sizeof("client-") - 1);
	int64_t id, of;
	if (!str_number(number, &of) || of < 0)
		return;
	for (struct str names = probe_text(client); names.n && q->n < USER_QUEUES_MOST;) {
		const struct str name = str_split(&names, '\n');
		const bool one = str_starts(name, S("queue-")) || str_starts(name, S("queue_"));
		if (!one || !str_number(str_from(name, sizeof("queue-") - 1), &id) || id < 0 || id > UINT32_MAX)
			continue;
		paths[q->n] = arena_printf(&q->arena, "%s/" STR_FMT "/mqd_info", client->path, STR_ARG(name));
		q->list[q->n++] = (struct client_queue){ .client = (uint64_t)of, .queue = { .id = (uint32_t)id } };
	}
}

enum { CLIENT_PROCESS, CLIENT_DEVICE, CLIENT_FILES };

/** Whose it is and of which GPU, which never waits; then what waits for a buffer. */
static void read_clients(struct client_queues *q, const struct devices *d, const struct str *paths)
{
	struct probe *quick = arena_alloc(&q->arena, q->n * CLIENT_FILES * sizeof(*quick) + 1);
	struct probe *slow = arena_alloc(&q->arena, q->n * 2 * sizeof(*slow) + 1);
	for (size_t i = 0; i < q->n; i++) {
		struct arena *a = &q->arena;
		const unsigned long long client = q->list[i].client;
		quick[i * CLIENT_FILES + CLIENT_PROCESS] =
			(struct probe){ .kind = PROBE_FILE,
					.path = arena_printf(a, DRI_DIRECTORY "/client-%llu/proc_info", client).p,
					.size = SMALL_BYTES };
		quick[i * CLIENT_FILES + CLIENT_DEVICE] =
			(struct probe){ .kind = PROBE_LINK,
					.path = arena_printf(a, DRI_DIRECTORY "/client-%llu/device", client).p,
					.size = SMALL_BYTES };
		slow[2 * i] = (struct probe){ .kind = PROBE_FILE, .path = paths[i].p, .size = SMALL_BYTES };
		slow[2 * i + 1] =
			(struct probe){ .kind = PROBE_FILE,
					.path = arena_printf(a, DRI_DIRECTORY "/client-%llu/vm_pagetable_info", client).p,
					.size = SMALL_BYTES };
	}
	clients_run(q, quick, q->n * CLIENT_FILES);
	clients_run(q, slow, q->n * 2);
	for (size_t i = 0; i < q->n; i++) {
		struct client_queue *u = &q->list[i];
		const struct str process = probe_text(&quick[i * CLIENT_FILES + CLIENT_PROCESS]);
		const struct str device = str_base(probe_text(&quick[i * CLIENT_FILES + CLIENT_DEVICE]));
		uint64_t pid = 0;
		client_number(process, S("pid"), &pid);
		u->pid = pid <= INT32_MAX ? (int64_t)pid : 0;
		u->process = client_value(process, S("comm"));
		u->device = list_find(d->list, d->n, it, device.n && str_eq(it->pci, device));
		u->tables_known = page_table_info_parse(probe_text(&slow[2 * i + 1]), &u->tables);
		if (slow[2 * i].end == PROBE_STUCK)
			u->problem = S("reading where its descriptor is did not return: a buffer of it is locked");
		else if (!mqd_info_parse(probe_text(&slow[2 * i]), &u->type, &u->mqd))
			u->problem = S("the driver did not tell where its descriptor (MQD) is");
		else if (!u->device)
			u->problem = S("its GPU is not known");
	}
}

// --- the GPU's memory ---

/** Asks the GPU of each queue, all queues of a GPU at once. @requests has @each of them for each queue; an empty one is not asked. */
static void ask_gpus(const struct know *k, const struct client_queues *q, struct request *requests, size_t each)
{
	_cleanup_free_ struct request *batch = mem_alloc(q->n * each * sizeof(*batch) + 1);
	for (size_t i = 0; i < q->n; i++) {
		const struct device *d = q->list[i].device;
		bool first = d;
		size_t n = 0;
		for (size_t b = 0; b < i; b++)
			first &= q->list[b].device != d;
		for (size_t r = i * each; first && r < q->n * each; r++)
			if (q->list[r / each].device == d && requests[r].size)
				batch[n++] = requests[r];
		if (!n)
			continue;
		_cleanup_target_ struct target *t = target_device(k, d);
		t->ask(t, batch, n);
		n = 0;
		for (size_t r = i * each; r < q->n * each; r++)
			if (q->list[r / each].device == d && requests[r].size) {
				requests[r].answer = batch[n].answer;
				requests[r].why_not = batch[n++].why_not;
			}
	}
}

static void read_descriptors(const struct know *k, struct client_queues *q)
{
	_cleanup_free_ struct request *requests = mem_alloc(q->n * sizeof(*requests) + 1);
	uint32_t *words = arena_alloc(&q->arena, q->n * MQD_WORDS * sizeof(*words) + 1);
	for (size_t i = 0; i < q->n; i++)
		if (!q->list[i].problem.n)
			requests[i] = (struct request){ .kind = REQUEST_MEMORY,
							.address = q->list[i].mqd,
							.to = words + i * MQD_WORDS,
							.size = MQD_WORDS * sizeof(*words) };
	ask_gpus(k, q, requests, 1);
	for (size_t i = 0; i < q->n; i++) {
		struct client_queue *u = &q->list[i];
		const struct know_mqd *layout = u->device ? mqd_layout(k, u->device->gfx) : NULL;
		const struct kfd_mqd m = { .kind = u->type == USER_QUEUE_COPY ? KFD_SDMA : KFD_COMPUTE,
					   .n = MQD_WORDS,
					   .words = words + i * MQD_WORDS };
		const uint32_t id = u->queue.id;
		if (u->problem.n)
			continue;
		if (requests[i].answer != ANSWER_GIVEN)
			u->problem = arena_printf(&q->arena, "its descriptor (MQD) could not be read: %s",
						  requests[i].why_not ? requests[i].why_not : "the GPU cannot be read now");
		else if (!layout || !mqd_queue(layout, &m, &u->queue))
			u->problem = S("its descriptor (MQD) is not understood");
		else
			u->described = true;
		// A graphics queue has these values in the same words, but no AQL packets.
		if (u->described && u->type == USER_QUEUE_GFX)
			u->queue.type = QUEUE_PM4;
		u->queue.id = id;
		if (requests[i].answer == ANSWER_GIVEN) {
			static const enum queue_words_of kinds[] = { [USER_QUEUE_GFX] = WORDS_GRAPHICS,
								     [USER_QUEUE_COMPUTE] = WORDS_COMPUTE,
								     [USER_QUEUE_COPY] = WORDS_COPY };
			const struct queue_words w = { .of = kinds[u->type % ARRAY_SIZE(kinds)], .n = m.n, .words = m.words };
			u->queue.words = arena_copy(&q->arena, &w, sizeof(w));
			u->queue.nwords = 1;
		}
		if (u->described && !u->tables_known)
			u->problem = S("its indexes could not be read: the driver did not tell where its page tables are");
	}
}

static void read_user_indexes(const struct know *k, struct client_queues *q, int64_t now)
{
	_cleanup_free_ struct request *requests = mem_alloc(q->n * 2 * sizeof(*requests) + 1);
	_cleanup_free_ char *bytes = mem_alloc(q->n * 2 * INDEX_BYTES + 1);
	for (size_t i = 0; i < q->n; i++) {
		const struct client_queue *u = &q->list[i];
		for (size_t w = 0; w < 2 && u->described && u->tables_known; w++)
			requests[2 * i + w] = (struct request){ .kind = REQUEST_MEMORY,
								.address = w ? u->queue.write_address : u->queue.read_address,
								.tables = &u->tables,
								.to = bytes + (2 * i + w) * INDEX_BYTES,
								.size = INDEX_BYTES };
	}
	ask_gpus(k, q, requests, 2);
	for (size_t i = 0; i < q->n; i++) {
		struct client_queue *u = &q->list[i];
		const struct request *r = &requests[2 * i], *w = r + 1;
		u->answered = false;
		if (!r->size)
			continue;
		if (r->answer != ANSWER_GIVEN || w->answer != ANSWER_GIVEN) {
			const char *why = r->answer != ANSWER_GIVEN ? r->why_not : w->why_not;
			u->problem = u->queue.indexes_known ? u->problem :
							      arena_printf(&q->arena, "its indexes could not be read: %s",
									   why ? why : "the GPU cannot be read now");
			continue;
		}
		const uint64_t read = get_u64(bytes + 2 * i * INDEX_BYTES);
		u->queue.moved |= u->queue.indexes_known && read != u->queue.read_index;
		u->queue.watched_ms = u->queue.indexes_known ? now - q->looked_at : 0;
		u->queue.indexes_known = u->answered = true;
		u->queue.read_index = read;
		u->queue.write_index = get_u64(bytes + (2 * i + 1) * INDEX_BYTES);
	}
}

void client_queues_look(const struct know *k, const struct devices *d, struct client_queues *ret)
{
	*ret = (struct client_queues){ .count.patience = d->count.patience };
	struct str *paths = arena_alloc(&ret->arena, USER_QUEUES_MOST * sizeof(*paths));
	size_t n;
	const struct probe *clients = list_clients(ret, &n);
	ret->list = arena_alloc(&ret->arena, USER_QUEUES_MOST * sizeof(*ret->list));
	for (size_t i = 0; i < n; i++)
		add_queues(ret, &clients[i], paths);
	if (!ret->n)
		return;
	read_clients(ret, d, paths);
	read_descriptors(k, ret);
	ret->looked_at = tape_now(probe_tape(&ret->count));
	read_user_indexes(k, ret, ret->looked_at);
}

void client_queues_look_again(const struct know *k, struct client_queues *q)
{
	read_user_indexes(k, q, tape_now(probe_tape(&q->count)));
}

void client_queues_free(struct client_queues *q) { arena_free(&q->arena); }

uint64_t client_queue_waiting(const struct client_queue *u)
{
	// The GPU's index begins again at the end of the ring, the program's may not.
	const struct queue *q = &u->queue;
	const uint64_t unit = q->type == QUEUE_AQL ? AQL_PACKET : q->type == QUEUE_PM4 ? sizeof(uint32_t) : 1;
	const uint64_t all = q->ring_size / unit;
	return all ? (q->write_index - q->read_index) % all : 0;
}

uint64_t client_queues_names(const struct devices *d)
{
	struct client_queues q = { .count.patience = d->count.patience };
	struct str *paths = arena_alloc(&q.arena, USER_QUEUES_MOST * sizeof(*paths));
	uint64_t sum = 0;
	size_t n;
	const struct probe *clients = list_clients(&q, &n);
	q.list = arena_alloc(&q.arena, USER_QUEUES_MOST * sizeof(*q.list));
	for (size_t i = 0; i < n; i++)
		add_queues(&q, &clients[i], paths);
	for (size_t i = 0; i < q.n; i++)
		sum += hash_mix(q.list[i].client + 1, q.list[i].queue.id + 1);
	client_queues_free(&q);
	return sum;
}
