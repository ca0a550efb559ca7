// A process that computes: its queues by the driver's descriptors, everything else by its memory.
//
// Rings are the driver's buffers. Only /proc/PID/mem can read them, through the driver, which may wait for a GPU that hangs. So each
// read has a deadline, and after the first that does not return there are no more.
#include "gpu/process/target.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/find/kfd.h"
#include "gpu/process/memory.h"
#include "source/tape/tape.h"

enum {
	MAPS_BYTES = 16 << 20,
	QUEUES_MOST = 4096,
	LIST_BYTES = 64 << 10,
	SMALL = 256,
	DEADLINE_MS = 2000,
};

struct process_target {
	struct target target;
	const struct know *know;
	const struct devices *devices;
	const struct kfd *kfd;
	struct arena arena;
	char mem[40];
	struct agent *agents;
	size_t nagents;
	struct queue *queues;
	size_t nqueues;
	int64_t looked_at; // when the indexes were read first
	struct mapping *maps;
	size_t nmaps;
	bool maps_read, code_read;
	struct memory_range *ranges;
	struct runtime_list list;
	struct pages pages;
	bool stuck;
	struct text problems;
	struct probe_count count;
};

// --- memory ---

static void process_target_process_run(struct process_target *t, struct arena *a, struct probe *probes, size_t n)
{
	struct probe_stuck stuck = { 0 };
	if (t->stuck || !n)
		return;
	probe_run(a, probes, n, DEADLINE_MS, &stuck, &t->count);
	if (!stuck.is)
		return;
	t->stuck = true;
	text_printf(&t->problems, STR_FMT " did not answer within %d s%s" STR_FMT "; the rest of the process was not read\n",
		    STR_ARG(stuck.at), DEADLINE_MS / 1000, stuck.wchan.n ? ", the reader waits in " : "", STR_ARG(stuck.wchan));
}

static void run_for_pages(void *ctx, struct arena *a, struct probe *p) { process_target_process_run(ctx, a, p, 1); }

static bool process_target_read_memory(void *ctx, uint64_t address, void *to, size_t size)
{
	return pages_read(&((struct process_target *)ctx)->pages, address, to, size, false);
}

// --- the map and the code ---

/** `7f00-7f10 r-xp 00001000 08:01 42   /usr/lib/x.so` */
static bool take_mapping(struct str line, struct mapping *m)
{
	uint64_t begin, end, offset;
	struct str addresses = str_word(&line), low = str_split(&addresses, '-');
	str_word(&line);
	struct str at = str_word(&line);
	str_word(&line);
	str_word(&line);
	if (!str_hex(low, &begin) || !str_hex(addresses, &end) || !str_hex(at, &offset) || end <= begin)
		return false;
	*m = (struct mapping){ begin, end, offset, str_trim(line) };
	return true;
}

static void process_target_read_map(struct process_target *t)
{
	if (t->maps_read)
		return;
	t->maps_read = true;
	const char *path = arena_printf(&t->arena, "/proc/%lld/maps", (long long)t->target.pid).p;
	struct probe p = { .kind = PROBE_FILE, .path = path, .size = MAPS_BYTES };
	process_target_process_run(t, &t->arena, &p, 1);
	struct str text = probe_text(&p), count = text;
	size_t lines = 0;
	for (; count.n; lines++)
		str_split(&count, '\n');
	t->maps = arena_alloc(&t->arena, lines * sizeof(*t->maps) + 1);
	t->ranges = arena_alloc(&t->arena, lines * sizeof(*t->ranges) + 1);
	while (text.n) {
		struct mapping *m = &t->maps[t->nmaps];
		if (!take_mapping(str_split(&text, '\n'), m))
			continue;
		bool gpu = str_starts(m->path, S("/dev/dri/render")) || str_is(m->path, "/dev/kfd");
		t->ranges[t->nmaps++] = (struct memory_range){ m->begin, m->end, gpu, true, m->path };
	}
}

static void process_target_note_list(void *ctx, const char *message)
{
	struct process_target *t = ctx;
	text_printf(&t->problems, "process %lld: %s\n", (long long)t->target.pid, message);
}

/** The runtime exports where its list is; several libraries may have been mapped that do. */
static void read_code(struct process_target *t)
{
	uint64_t places[16];
	size_t n = 0;
	if (t->code_read)
		return;
	t->code_read = true;
	process_target_read_map(t);
	if (!t->stuck)
		n = process_symbols(&(struct mapped){ t->mem, t->nmaps, t->maps, &t->count }, "_amdgpu_r_debug", places,
				    ARRAY_SIZE(places));
	t->list = (struct runtime_list){
		.read = process_target_read_memory, .odd = process_target_note_list, .ctx = t, .arena = &t->arena
	};
	for (size_t i = 0; i < n && !t->target.runtime_version; i++) {
		t->list.r_debug = places[i];
		t->target.runtime_version = runtime_list_version(&t->list);
	}
	if (t->target.runtime_version)
		runtime_list_read(&t->list);
	else if (t->pages.refused)
		text_printf(&t->problems, "process %lld: only its owner and root can read its memory\n",
			    (long long)t->target.pid);
}

// --- queues ---

static const struct agent *agent_of(struct process_target *t, uint32_t gpu_id)
{
	struct agent *g = list_find(t->agents, t->nagents, it, it->gpu_id == gpu_id);
	if (g)
		return g;
	unsigned partition;
	const struct device *d = devices_with_gpu_id(t->devices, gpu_id, &partition);
	g = &t->agents[t->nagents++];
	*g = (struct agent){ .gpu_id = gpu_id };
	if (!d)
		return g;
	g->domain_known = pci_numbers(d->pci, &g->domain, &g->location);
	g->vendor = d->vendor;
	g->device = d->device;
	g->revision = d->revision;
	g->gfx = d->gfx;
	g->xccs = d->shaders.xccs;
	for (size_t i = 0; i < d->nfirmware; i++)
		if (str_is(d->firmware[i].name, "MEC"))
			g->firmware = d->firmware[i].version;
	return g;
}

static int compare_ids(const void *a, const void *b)
{
	const struct queue *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void list_queues(struct process_target *t)
{
	// The driver's number of a kind of queue is not that of its interface.
	static const uint32_t types[] = { QUEUE_AQL, QUEUE_SDMA, QUEUE_AQL, QUEUE_AQL, QUEUE_SDMA_XGMI, QUEUE_SDMA_ENGINE };
	const char *directory = arena_printf(&t->arena, "/sys/class/kfd/kfd/proc/%lld/queues", (long long)t->target.pid).p;
	struct probe list = { .kind = PROBE_LIST, .path = directory, .size = LIST_BYTES };
	process_target_process_run(t, &t->arena, &list, 1);
	struct str names = probe_text(&list);
	struct probe *files = arena_alloc(&t->arena, QUEUES_MOST * 3 * sizeof(*files));
	static const char *const what[3] = { "gpuid", "type", "size" };
	t->queues = arena_alloc(&t->arena, QUEUES_MOST * sizeof(*t->queues));
	t->agents = arena_alloc(&t->arena, QUEUES_MOST * sizeof(*t->agents));
	while (names.n && t->nqueues < QUEUES_MOST) {
		int64_t id;
		if (!str_number(str_split(&names, '\n'), &id) || id < 0 || id > UINT32_MAX)
			continue;
		for (size_t i = 0; i < 3; i++)
			files[3 * t->nqueues + i] = (struct probe){
				.kind = PROBE_FILE,
				.path = arena_printf(&t->arena, "%s/%lld/%s", directory, (long long)id, what[i]).p,
				.size = SMALL
			};
		t->queues[t->nqueues++].id = (uint32_t)id;
	}
	process_target_process_run(t, &t->arena, files, 3 * t->nqueues);
	for (size_t i = 0; i < t->nqueues; i++) {
		int64_t gpu_id = -1, kind = 0, size = 0;
		str_number(probe_text(&files[3 * i]), &gpu_id);
		str_number(probe_text(&files[3 * i + 1]), &kind);
		str_number(probe_text(&files[3 * i + 2]), &size);
		t->queues[i].agent = gpu_id >= 0 && gpu_id <= UINT32_MAX ? agent_of(t, (uint32_t)gpu_id) : NULL;
		t->queues[i].type = kind >= 0 && kind < (int64_t)ARRAY_SIZE(types) ? types[kind] : QUEUE_AQL;
		t->queues[i].ring_size = size > 0 ? (uint64_t)size : 0;
	}
	if (t->nqueues)
		qsort(t->queues, t->nqueues, sizeof(*t->queues), compare_ids);
}

static bool is_copy(uint32_t type) { return type != QUEUE_AQL && type != QUEUE_PM4; }

/** The driver lists the descriptors without numbers, the newest queue first, and gives a new queue the lowest free number. So if queues
 * were closed, the numbers of queues that are otherwise equal may be swapped. */
static struct queue *process_target_queue_of(struct process_target *t, const struct kfd_mqd *m, uint64_t size)
{
	for (size_t i = t->nqueues; i--;) {
		struct queue *q = &t->queues[i];
		if (!q->ring && q->agent && q->agent->gpu_id == m->gpu_id && is_copy(q->type) == (m->kind == KFD_SDMA) &&
		    q->ring_size == size)
			return q;
	}
	return NULL;
}

/** Keeps the words as they were read: they live as long as @kfd. */
static void process_target_keep_words(struct process_target *t, struct queue *q, struct queue_words w)
{
	struct queue_words *list = arena_alloc(&t->arena, (q->nwords + 1) * sizeof(*list));
	if (q->nwords)
		memcpy(list, q->words, q->nwords * sizeof(*list));
	list[q->nwords++] = w;
	q->words = list;
}

static void process_target_keep_copies(struct process_target *t, const struct kfd_mqd *m, struct queue *q)
{
	for (size_t i = 0; i < t->kfd->nmqds; i++) {
		const struct kfd_mqd *c = &t->kfd->mqds[i];
		if (c->pid == m->pid && c->gpu_id == m->gpu_id && c->kind == m->kind && c->queue == m->queue)
			process_target_keep_words(t, q,
						  (struct queue_words){ m->kind == KFD_SDMA ? WORDS_COPY : WORDS_COMPUTE, false,
									c->copy, c->n, c->words });
	}
}

/** The place on the GPU that the descriptor's queue is in. Rings of two processes may have the same address, descriptors not. */
static void process_target_find_place(struct process_target *t, const struct know_mqd *layout, const struct kfd_mqd *m,
				      struct queue *q)
{
	static const char *const names[] = { "mqd-low", "mqd-high" };
	q->active_known = t->kfd->hqds_read;
	for (size_t i = 0; i < t->kfd->nhqds; i++) {
		const struct kfd_hqd *h = &t->kfd->hqds[i];
		bool same = h->gpu_id == m->gpu_id && h->kind == m->kind && hqd_ring(layout, h) == q->ring;
		for (size_t n = 0; same && n < 2; n++) {
			uint32_t of_place = 0, of_queue = 0;
			mqd_value(hqd_words_of(layout, h), names[n], &of_place);
			mqd_value(mqd_words_of(layout, m), names[n], &of_queue);
			same = of_place == of_queue;
		}
		unsigned vmid;
		bool active = same && hqd_active(layout, h, &vmid);
		if (!active)
			continue;
		q->active = true;
		process_target_keep_words(
			t, q,
			(struct queue_words){ m->kind == KFD_SDMA ? WORDS_COPY : WORDS_COMPUTE, true, h->xcc, h->n, h->words });
		if (!q->slot.known)
			q->slot = (struct queue_slot){ true, h->xcc, h->me, h->pipe, h->queue, vmid, 0 };
		q->slot.xccs |= UINT64_C(1) << (h->xcc & 63);
	}
}

/** What a descriptor says of a queue of the process, and its layout, which is NULL where none is known. false: it is none of its queues',
 * or not understood. */
static bool mqd_of_queue(const struct process_target *t, const struct kfd_mqd *m, struct queue *ret,
			 const struct know_mqd **ret_layout)
{
	unsigned partition;
	const bool own = m->pid == t->target.pid && !m->copy;
	const struct device *d = own ? devices_with_gpu_id(t->devices, m->gpu_id, &partition) : NULL;
	*ret = (struct queue){ 0 };
	*ret_layout = d ? mqd_layout(t->know, d->gfx) : NULL;
	return *ret_layout && mqd_queue(*ret_layout, m, ret);
}

static void describe_queues(struct process_target *t)
{
	for (size_t i = 0; i < t->kfd->nmqds; i++) {
		const struct kfd_mqd *m = &t->kfd->mqds[i];
		const struct know_mqd *layout;
		struct queue found;
		if (m->pid != t->target.pid || m->copy || (m->kind != KFD_COMPUTE && m->kind != KFD_SDMA))
			continue;
		if (!mqd_of_queue(t, m, &found, &layout)) {
			text_printf(&t->problems,
				    "process %lld: the descriptor (MQD) of a queue on GPU %u is not understood%s\n",
				    (long long)t->target.pid, m->gpu_id, layout ? "" : ": its layout is not known");
			continue;
		}
		struct queue *q = process_target_queue_of(t, m, found.ring_size);
		if (!q)
			continue; // it was opened or closed between the looks
		q->ring = found.ring;
		q->read_address = found.read_address;
		q->write_address = found.write_address;
		q->save_area = found.save_area;
		q->save_area_size = found.save_area_size;
		q->doorbell = found.doorbell;
		if (!is_copy(found.type))
			q->type = found.type;
		process_target_keep_copies(t, m, q);
		process_target_find_place(t, layout, m, q);
	}
	for (size_t i = 0; i < t->nqueues; i++)
		if (!t->queues[i].ring)
			t->queues[i].problem = t->kfd->mqds_read ? S("the driver did not show its descriptor (MQD)") :
								   S("only root can see where it is in memory");
}

/** All indexes in one batch. */
static void process_target_read_indexes(struct process_target *t)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct probe *p = arena_alloc(&a, t->nqueues * 2 * sizeof(*p) + 1);
	struct queue **of = arena_alloc(&a, t->nqueues * sizeof(struct queue *) + 1);
	size_t n = 0;
	for (size_t i = 0; i < t->nqueues; i++) {
		struct queue *q = &t->queues[i];
		if (!q->read_address || !q->write_address)
			continue;
		p[2 * n] = (struct probe){ .kind = PROBE_READ, .path = t->mem, .offset = q->read_address, .size = 8 };
		p[2 * n + 1] = (struct probe){ .kind = PROBE_READ, .path = t->mem, .offset = q->write_address, .size = 8 };
		of[n++] = q;
	}
	int64_t now = tape_now(probe_tape(&t->count));
	process_target_process_run(t, &a, p, 2 * n);
	for (size_t i = 0; i < n; i++) {
		const struct probe *r = &p[2 * i], *w = &p[2 * i + 1];
		struct queue *q = of[i];
		bool read = r->end == PROBE_GOOD && w->end == PROBE_GOOD && r->n == 8 && w->n == 8;
		bool again = read && q->indexes_known;
		q->watched_ms = again ? now - t->looked_at : q->watched_ms;
		q->moved |= again && get_u64(r->data) != q->read_index;
		if (read) {
			q->indexes_known = true;
			q->read_index = get_u64(r->data);
			q->write_index = get_u64(w->data);
		} else if (!q->indexes_known && !q->problem.n) {
			q->problem = t->stuck ? S("its indexes could not be read: reading the process's memory did not "
						  "return") :
						S("its indexes could not be read: only the process's owner and root can read "
						  "its memory");
		}
	}
	t->looked_at = t->looked_at ? t->looked_at : now;
}

bool process_stuck(const struct target *t) { return ((const struct process_target *)t)->stuck; }

void process_look_again(struct target *t) { process_target_read_indexes((struct process_target *)t); }

void process_find_places(struct target *target)
{
	struct process_target *t = (struct process_target *)target;
	for (size_t i = 0; i < t->kfd->nmqds; i++) {
		const struct kfd_mqd *m = &t->kfd->mqds[i];
		const struct know_mqd *layout;
		struct queue found;
		if (!mqd_of_queue(t, m, &found, &layout))
			continue;
		for (size_t k = 0; k < t->nqueues; k++) {
			struct queue *q = &t->queues[k];
			if (q->ring == found.ring && q->agent && q->agent->gpu_id == m->gpu_id && !q->slot.known)
				process_target_find_place(t, layout, m, q);
		}
	}
}

// --- the target ---

static void process_ask(struct target *target, struct request *requests, size_t n)
{
	struct process_target *t = (struct process_target *)target;
	for (struct request *r = requests; r < requests + n; r++) {
		r->answer = ANSWER_GIVEN;
		switch (r->kind) {
		case REQUEST_AGENTS:
			r->agents = t->agents;
			r->n = t->nagents;
			break;
		case REQUEST_QUEUES:
			r->queues = t->queues;
			r->n = t->nqueues;
			break;
		case REQUEST_CODE:
			read_code(t);
			r->code = t->list.code.data;
			r->n = t->list.code.len;
			r->answer = t->target.runtime_version ? ANSWER_GIVEN :
				    t->pages.refused          ? ANSWER_REFUSED :
								ANSWER_ABSENT;
			break;
		case REQUEST_MAP:
			process_target_read_map(t);
			r->map = t->ranges;
			r->n = t->nmaps;
			break;
		case REQUEST_MEMORY:
			if (!pages_read(&t->pages, r->address, r->to, r->size, r->contents))
				r->answer = t->stuck ? ANSWER_TIMED_OUT : ANSWER_ABSENT;
			break;
		default: // waves, registers and rings are a GPU's
			r->n = 0;
			r->answer = ANSWER_ABSENT;
		}
	}
}

static struct str process_problems(struct target *target) { return text_str(&((struct process_target *)target)->problems); }

static void process_close(struct target *target)
{
	struct process_target *t = (struct process_target *)target;
	vec_free(&t->list.code);
	text_free(&t->problems);
	arena_free(&t->arena);
	pages_free(&t->pages);
	free(t);
}

struct uh_error *target_process_of(const struct know *k, const struct devices *d, const struct kfd *kfd, int64_t pid,
				   struct target **ret)
{
	if (!list_find(kfd->pids, kfd->npids, it, *it == pid))
		return uh_error_new(
			"process %lld does not compute on a GPU of this machine (/sys/class/kfd/kfd/proc has no such "
			"process)",
			(long long)pid);
	struct process_target *t = mem_alloc(sizeof(*t));
	*t = (struct process_target){ .know = k, .devices = d, .kfd = kfd, .count.patience = d->count.patience };
	t->target = (struct target){
		.kind = "process", .pid = pid, .ask = process_ask, .problems = process_problems, .close = process_close
	};
	t->target.name = arena_printf(&t->arena, "process %lld", (long long)pid);
	snprintf(t->mem, sizeof(t->mem), "/proc/%lld/mem", (long long)pid);
	t->pages = (struct pages){ .mem = t->mem, .run = run_for_pages, .ctx = t, .tape = probe_tape(&t->count) };
	const char *comm = arena_printf(&t->arena, "/proc/%lld/comm", (long long)pid).p;
	struct probe name = { .kind = PROBE_FILE, .path = comm, .size = SMALL };
	process_target_process_run(t, &t->arena, &name, 1);
	t->target.process = probe_text(&name);
	list_queues(t);
	describe_queues(t);
	process_target_read_indexes(t);
	*ret = &t->target;
	return NULL;
}
