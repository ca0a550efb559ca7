// KFD's own files about the queues of processes, and their parsers. kfd/mqds and kfd/rls are in memory; for kfd/hqds the driver reads
// registers of every GPU of the machine, so it is read only where the gate of each is open.
#include "gpu/find/kfd.h"

#include <errno.h>
#include <stdlib.h>

#include "gpu/silicon/silicon.h"

enum { LIST_BYTES = 1 << 20, FILE_BYTES = 16 << 20, DEADLINE_MS = 700, PIDS_MOST = 4096 };

/** Why registers of all GPUs must not be read; empty. */
static struct str gpus_unsafe(struct arena *a, const struct know *know, const struct devices *d)
{
	for (size_t i = 0; i < d->n; i++) {
		if (!str_is(d->list[i].driver, "amdgpu"))
			continue;
		_cleanup_target_ struct target *t = target_device(know, &d->list[i]);
		struct gate g = target_gate(t);
		if (!g.open)
			return arena_printf(a, STR_FMT ": " STR_FMT, STR_ARG(d->list[i].pci), STR_ARG(g.why_not));
	}
	return (struct str){ 0 };
}

/** Reads a file, or explains which knowledge it @lacks then. */
static bool kfd_read(struct kfd *k, const char *path, const char *lacks, struct str *ret)
{
	struct probe p = { .kind = PROBE_FILE, .path = path, .size = FILE_BYTES };
	struct probe_stuck stuck = { 0 };
	probe_run(&k->arena, &p, 1, DEADLINE_MS, &stuck, &k->count);
	if (stuck.is)
		k->stuck = stuck;
	*ret = probe_text(&p);
	if (p.end == PROBE_GOOD || k->why_not.n)
		return p.end == PROBE_GOOD;
	if (p.end == PROBE_STUCK)
		k->why_not =
			arena_printf(&k->arena, "%s: reading it did not return within %d ms; %s", path, DEADLINE_MS, lacks);
	else if (p.end == PROBE_FAILED && (p.error == EACCES || p.error == EPERM))
		k->why_not = arena_printf(&k->arena, "%s can be read only by root: %s", path, lacks);
	else
		k->why_not = arena_printf(&k->arena, "%s could not be read: %s", path, lacks);
	return false;
}

void kfd_look(const struct devices *d, struct kfd *ret)
{
	struct probe processes = { .kind = PROBE_LIST, .path = "/sys/class/kfd/kfd/proc", .size = LIST_BYTES };
	struct str mqds;
	*ret = (struct kfd){ .count.patience = d->count.patience };
	probe_run(&ret->arena, &processes, 1, DEADLINE_MS, &ret->stuck, &ret->count);
	ret->there = processes.end == PROBE_GOOD;
	if (!ret->there)
		return;
	ret->pids = arena_alloc(&ret->arena, PIDS_MOST * sizeof(*ret->pids));
	for (struct str names = probe_text(&processes); names.n && ret->npids < PIDS_MOST;) {
		int64_t pid;
		if (str_number(str_split(&names, '\n'), &pid) && pid > 0)
			ret->pids[ret->npids++] = pid;
	}
	qsort(ret->pids, ret->npids, sizeof(*ret->pids), compare_numbers);
	ret->mqds_read =
		kfd_read(ret, "/sys/kernel/debug/kfd/mqds", "where the queues of processes lie in memory is not known", &mqds);
	if (ret->mqds_read)
		ret->nmqds = kfd_mqds_parse(&ret->arena, mqds, &ret->mqds);
}

void kfd_look_at_places(struct kfd *k, const struct know *know, const struct devices *d)
{
	struct str hqds;
	if (!k->nmqds)
		return;
	struct str why = gpus_unsafe(&k->arena, know, d);
	if (why.n) {
		k->why_not = arena_printf(&k->arena, "which queues are on a GPU was not checked: " STR_FMT, STR_ARG(why));
		return;
	}
	k->hqds_read = kfd_read(k, "/sys/kernel/debug/kfd/hqds", "which queues are on a GPU is not known", &hqds);
	k->nhqds = k->hqds_read ? kfd_hqds_parse(&k->arena, hqds, &k->hqds) : 0;
}

void kfd_look_at_runlists(struct kfd *k)
{
	struct str rls;
	if (k->nmqds && !k->stuck.is &&
	    kfd_read(k, "/sys/kernel/debug/kfd/rls", "what the scheduler was told to run is not known", &rls))
		k->nrunlists = kfd_runlists_parse(&k->arena, rls, &k->runlists);
}

void kfd_free(struct kfd *k) { arena_free(&k->arena); }

const struct device *devices_with_gpu_id(const struct devices *d, int64_t gpu_id, unsigned *ret_partition)
{
	const struct kfd_place *p = list_find(d->kfd, d->nkfd, it, it->gpu_id == gpu_id);
	if (!p)
		return NULL;
	*ret_partition = p->partition;
	return &d->list[p->device];
}

unsigned device_partitions(const struct device *d)
{
	static const char *const words[] = { "SPX", "DPX", "TPX", "QPX" };
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
		if (str_is(d->compute_partition, words[i]))
			return i + 1;
	return str_is(d->compute_partition, "CPX") && d->shaders.xccs ? d->shaders.xccs : 1;
}

enum { WORDS_MOST = 1 << 22, ENTRIES_MOST = 1 << 16 };

/** The words of the entry that is read. How many there are of all entries together is limited. */
struct kfd_row {
	VEC(uint32_t) row; // first, so that vec_free() finds it
	size_t all;
};

/** Exactly eight hexadecimal digits. */
static bool kfd_take_word(struct str s, uint32_t *ret)
{
	uint64_t v;
	if (s.n != 8 || str_run(s, char_hex) != 8 || !str_hex(s, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

/** `    00000020: 00000000 00000001 ...`: the offset, or address, and words. */
static bool row_begins(struct str line, uint32_t *ret_at, struct str *ret_words)
{
	struct str rest = str_trim(line), at = str_split(&rest, ':');
	*ret_words = rest;
	return rest.n && kfd_take_word(at, ret_at);
}

static void row_words(struct kfd_row *w, struct str words)
{
	uint32_t word;
	for (; w->all < WORDS_MOST && kfd_take_word(str_word(&words), &word); w->all++)
		vec_push(&w->row, word);
}

/** The words of an entry that is complete, at their place; the next begins without. */
static const uint32_t *entry_end(struct kfd_row *w, struct arena *a, size_t *ret_n)
{
	const uint32_t *words = arena_copy(a, w->row.data, w->row.len * sizeof(*words));
	*ret_n = w->row.len;
	w->row.len = 0;
	return words;
}

/** Takes `WORD NUMBER` off a line such as `Inst 0,  CP Pipe 1, Queue 2`. */
static bool kfd_take_number(struct str *line, const char *word, unsigned *ret)
{
	int64_t n;
	if (!str_after(*line, str_z(word), line))
		return false;
	struct str number = str_word(line);
	while (number.n && !char_digit(number.p[number.n - 1]))
		number.n--;
	if (!str_number(number, &n) || n < 0 || n > 1 << 16)
		return false;
	*ret = (unsigned)n;
	return true;
}

/** `Compute queue on device 3f2a`; the number is hexadecimal, without 0x. */
static bool device_behind(struct str line, const char *word, uint32_t *ret)
{
	struct str rest;
	uint64_t id;
	if (!str_after(line, str_z(word), &rest))
		return false;
	struct str number = str_word(&rest);
	if (str_ends(number, S(":")))
		number.n--;
	if (!str_hex(number, &id) || id > UINT32_MAX)
		return false;
	*ret = (uint32_t)id;
	return true;
}

// --- mqds ---

struct mqd_state {
	struct kfd_mqd next; // whose rows follow
	unsigned queues;
	bool open;
};

static void mqd_head(struct mqd_state *s, struct str line)
{
	static const struct {
		const char *begin;
		enum kfd_kind kind;
	} heads[] = { { "Compute queue", KFD_COMPUTE }, { "SDMA queue", KFD_SDMA }, { "DIQ", KFD_DEBUG } };
	struct str rest;
	int64_t pid;
	s->open = false;
	if (str_behind(line, S("Process "), &rest)) {
		s->next.pid = str_number(str_word(&rest), &pid) ? pid : 0;
		s->queues = 0;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		if (str_starts(line, str_z(heads[i].begin)) && device_behind(line, " on device ", &s->next.gpu_id)) {
			s->next.kind = heads[i].kind;
			s->next.queue = s->queues++;
			s->next.copy = 0;
			s->open = s->next.pid > 0;
		}
}

size_t kfd_mqds_parse(struct arena *a, struct str text, const struct kfd_mqd **ret)
{
	_cleanup_vec_ struct kfd_row words = { 0 };
	_cleanup_vec_ VEC(struct kfd_mqd) list = { 0 };
	struct mqd_state s = { 0 };
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n')), row;
		uint32_t at;
		if (!row_begins(line, &at, &row)) {
			mqd_head(&s, line);
			continue;
		}
		if (!s.open || (at && !s.next.copy))
			continue;
		if (!at && list.len < ENTRIES_MOST) {
			if (list.len)
				list.data[list.len - 1].words = entry_end(&words, a, &list.data[list.len - 1].n);
			vec_push(&list, s.next);
			list.data[list.len - 1].copy = s.next.copy++;
		}
		// A row that is missing would put the others at wrong places.
		if (at == 4 * words.row.len)
			row_words(&words, row);
	}
	if (list.len)
		list.data[list.len - 1].words = entry_end(&words, a, &list.data[list.len - 1].n);
	*ret = arena_copy(a, list.data, list.len * sizeof(*list.data));
	return list.len;
}

// --- hqds ---

/** `Inst 0, HIQ on MEC 2 Pipe 1 Queue 0`, `Inst 0,  CP Pipe 1, Queue 2`, `SDMA Engine 1, RLC 0` */
static bool hqd_head(struct str line, struct kfd_hqd *h)
{
	struct str rest = line;
	h->n = h->xcc = 0;
	if (str_starts(line, S("SDMA Engine "))) {
		h->kind = KFD_SDMA;
		h->me = 0;
		return kfd_take_number(&rest, "Engine ", &h->pipe) && kfd_take_number(&rest, "RLC ", &h->queue);
	}
	h->kind = str_find(line, S("HIQ on ")) >= 0 ? KFD_SCHEDULER : KFD_COMPUTE;
	h->me = 1; // KFD's queues are those of the first compute engine
	if (!kfd_take_number(&rest, "Inst ", &h->xcc) || (h->kind == KFD_SCHEDULER && !kfd_take_number(&rest, "MEC ", &h->me)))
		return false;
	return kfd_take_number(&rest, "Pipe ", &h->pipe) && kfd_take_number(&rest, "Queue ", &h->queue);
}

size_t kfd_hqds_parse(struct arena *a, struct str text, const struct kfd_hqd **ret)
{
	_cleanup_vec_ struct kfd_row words = { 0 };
	_cleanup_vec_ VEC(struct kfd_hqd) list = { 0 };
	struct kfd_hqd next = { 0 }, *last = NULL;
	bool open = false;
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n')), row;
		uint32_t at;
		if (str_starts(line, S("Node "))) {
			open = false;
			if (!device_behind(line, "gpu_id ", &next.gpu_id))
				next.gpu_id = 0;
		} else if (!row_begins(line, &at, &row)) {
			open = next.gpu_id && list.len < ENTRIES_MOST && hqd_head(line, &next);
			if (!open)
				continue;
			if (last)
				last->words = entry_end(&words, a, &last->n);
			vec_push(&list, next);
			last = &list.data[list.len - 1];
			last->address = UINT32_MAX;
		} else if (open) {
			last->address = last->address == UINT32_MAX ? at : last->address;
			row_words(&words, row);
		}
	}
	if (last)
		last->words = entry_end(&words, a, &last->n);
	*ret = arena_copy(a, list.data, list.len * sizeof(*list.data));
	return list.len;
}

// --- rls ---

size_t kfd_runlists_parse(struct arena *a, struct str text, const struct kfd_runlist **ret)
{
	_cleanup_vec_ struct kfd_row words = { 0 };
	_cleanup_vec_ VEC(struct kfd_runlist) list = { 0 };
	struct kfd_runlist *last = NULL;
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n')), row;
		uint32_t at;
		struct kfd_runlist next = { 0 };
		if (row_begins(line, &at, &row)) {
			if (last && at == 4 * words.row.len)
				row_words(&words, row);
		} else if (str_starts(line, S("Node ")) && device_behind(line, "gpu_id ", &next.gpu_id) &&
			   list.len < ENTRIES_MOST) {
			if (last)
				last->words = entry_end(&words, a, &last->n);
			vec_push(&list, next);
			last = &list.data[list.len - 1];
		}
	}
	if (last)
		last->words = entry_end(&words, a, &last->n);
	*ret = arena_copy(a, list.data, list.len * sizeof(*list.data));
	return list.len;
}

// --- what the words mean ---

const struct know_mqd *mqd_layout(const struct know *k, struct str gfx)
{
	return list_find_of(k->mqds.data, k->mqds.len, it, patterns_fit(it->parts, gfx));
}

int mqd_word(const struct know_mqd *m, bool sdma, bool hqd, struct str name)
{
	int at = sdma || hqd ? 0 : m->first;
	for (const struct know_list *r = sdma ? m->sdma : m->registers; r; r = r->next, at++)
		if (str_eq(r->text, name))
			return at;
	return -1;
}

struct mqd_words mqd_words_of(const struct know_mqd *m, const struct kfd_mqd *q)
{
	return (struct mqd_words){ m, q->kind == KFD_SDMA, false, q->words, q->n };
}

struct mqd_words hqd_words_of(const struct know_mqd *m, const struct kfd_hqd *h)
{
	return (struct mqd_words){ m, h->kind == KFD_SDMA, true, h->words, h->n };
}

bool mqd_value(struct mqd_words w, const char *name, uint32_t *ret)
{
	const struct know_pair *p = w.sdma ? w.layout->sdma_bits : w.layout->bits;
	while (p && !str_is(p->name, name))
		p = p->next;
	struct str range = p ? p->value : (struct str){ 0 }, reg = str_word(&range);
	struct str high = str_trim(str_split(&range, ':'));
	int at = p ? mqd_word(w.layout, w.sdma, w.hqd, reg) : -1;
	int64_t h, low;
	if (at < 0 || (size_t)at >= w.n || !str_number(high, &h) || h > 31 ||
	    !str_number(range.n ? str_trim(range) : high, &low) || low < 0 || low > h)
		return false;
	*ret = w.words[at] >> low & (UINT32_MAX >> (31 - (h - low)));
	return true;
}

/** An address, of two words whose names end in -low and -high. */
static bool mqd_address(struct mqd_words w, const char *low, const char *high, uint64_t *ret)
{
	uint32_t l, h;
	if (!mqd_value(w, low, &l) || !mqd_value(w, high, &h))
		return false;
	*ret = (uint64_t)h << 32 | l;
	return true;
}

enum { RING_UNIT = 8, WORD = 2, SIZE_MOST = 40 }; // logarithms

bool mqd_queue(const struct know_mqd *m, const struct kfd_mqd *q, struct queue *ret)
{
	const struct mqd_words w = mqd_words_of(m, q);
	uint32_t size, aql = 0, doorbell = 0, save_size = 0;
	uint64_t ring;
	if ((q->kind != KFD_COMPUTE && !w.sdma) || !mqd_address(w, "ring-low", "ring-high", &ring) ||
	    !mqd_value(w, "size", &size) || !mqd_address(w, "rptr-low", "rptr-high", &ret->read_address) ||
	    !mqd_address(w, "wptr-low", "wptr-high", &ret->write_address))
		return false;
	ret->ring = ring << RING_UNIT;
	size += WORD + !w.sdma;
	ret->ring_size = size < SIZE_MOST ? UINT64_C(1) << size : 0;
	mqd_value(w, "aql", &aql);
	mqd_value(w, "doorbell", &doorbell);
	mqd_value(w, "save-size", &save_size);
	mqd_address(w, "save-low", "save-high", &ret->save_area);
	ret->type = w.sdma ? QUEUE_SDMA : aql ? QUEUE_AQL : QUEUE_PM4;
	ret->doorbell = doorbell;
	ret->save_area_size = save_size;
	return true;
}

uint64_t hqd_ring(const struct know_mqd *m, const struct kfd_hqd *h)
{
	uint64_t ring = 0;
	mqd_address(hqd_words_of(m, h), "ring-low", "ring-high", &ring);
	return ring << RING_UNIT;
}

bool hqd_active(const struct know_mqd *m, const struct kfd_hqd *h, unsigned *ret_vmid)
{
	uint32_t active = 0, vmid = 0;
	const struct mqd_words w = hqd_words_of(m, h);
	mqd_value(w, "active", &active);
	mqd_value(w, "vmid", &vmid);
	*ret_vmid = vmid;
	return active;
}
