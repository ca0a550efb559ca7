#include "gpu/find/kfd_files.h"

#include <stdlib.h>

enum { WORDS_MOST = 1 << 22, ENTRIES_MOST = 1 << 16 };

/** The words of all entries, one behind the other, until they have their place. */
struct pool {
	VEC(uint32_t) words;
	VEC(size_t) begins; // of each entry
};

static void begin_entry(struct pool *p) { vec_push(&p->begins, p->words.len); }

static size_t entry_words(const struct pool *p, size_t i)
{
	return (i + 1 < p->begins.len ? p->begins.data[i + 1] : p->words.len) - p->begins.data[i];
}

static const uint32_t *settle(struct arena *a, struct pool *p)
{
	uint32_t *words = arena_alloc(a, p->words.len * sizeof(*words) + 1);
	if (p->words.len)
		memcpy(words, p->words.data, p->words.len * sizeof(*words));
	return words;
}

static void free_pool(struct pool *p)
{
	vec_free(&p->words);
	vec_free(&p->begins);
}

/** Exactly eight hexadecimal digits. */
static bool take_word(struct str s, uint32_t *ret)
{
	uint64_t v;
	for (size_t i = 0; i < s.n; i++)
		if (!char_hex(s.p[i]))
			return false;
	if (s.n != 8 || !str_hex(s, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

/** `    00000020: 00000000 00000001 ...`: the offset, or address, and words. */
static bool row_begins(struct str line, uint32_t *ret_at, struct str *ret_words)
{
	struct str rest = str_trim(line), at = str_split(&rest, ':');
	*ret_words = rest;
	return rest.n && take_word(at, ret_at);
}

static void row_words(struct pool *p, struct str words)
{
	uint32_t word;
	while (p->words.len < WORDS_MOST && take_word(str_word(&words), &word))
		vec_push(&p->words, word);
}

/** Takes `WORD NUMBER` off a line such as `Inst 0,  CP Pipe 1, Queue 2`. */
static bool take_number(struct str *line, const char *word, unsigned *ret)
{
	ptrdiff_t at = str_find(*line, str_z(word));
	int64_t n;
	if (at < 0)
		return false;
	*line = str_from(*line, (size_t)at + strlen(word));
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
	ptrdiff_t at = str_find(line, str_z(word));
	uint64_t id;
	if (at < 0)
		return false;
	struct str rest = str_from(line, (size_t)at + strlen(word)), number = str_word(&rest);
	if (str_ends(number, S(":")))
		number.n--;
	if (!str_hex(number, &id) || id > UINT32_MAX)
		return false;
	*ret = (uint32_t)id;
	return true;
}

// --- mqds ---

struct mqd_state {
	struct pool pool;
	VEC(struct kfd_mqd) list;
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
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (str_starts(line, str_z(heads[i].begin)) && device_behind(line, " on device ", &s->next.gpu_id)) {
			s->next.kind = heads[i].kind;
			s->next.queue = s->queues++;
			s->next.copy = 0;
			s->open = s->next.pid > 0;
		}
}

size_t kfd_mqds_parse(struct arena *a, struct str text, const struct kfd_mqd **ret)
{
	struct mqd_state s = { 0 };
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n')), words;
		uint32_t at;
		if (!row_begins(line, &at, &words)) {
			mqd_head(&s, line);
			continue;
		}
		if (!s.open || (at && !s.next.copy))
			continue;
		if (!at && s.list.len < ENTRIES_MOST) {
			begin_entry(&s.pool);
			vec_push(&s.list, s.next);
			s.list.data[s.list.len - 1].copy = s.next.copy++;
		}
		// A row that is missing would put the others at wrong places.
		if (at == 4 * (s.pool.words.len - s.pool.begins.data[s.pool.begins.len - 1]))
			row_words(&s.pool, words);
	}
	const uint32_t *words = settle(a, &s.pool);
	struct kfd_mqd *list = arena_alloc(a, s.list.len * sizeof(*list) + 1);
	for (size_t i = 0; i < s.list.len; i++) {
		list[i] = s.list.data[i];
		list[i].words = words + s.pool.begins.data[i];
		list[i].n = entry_words(&s.pool, i);
	}
	size_t n = s.list.len;
	free_pool(&s.pool);
	vec_free(&s.list);
	*ret = list;
	return n;
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
		return take_number(&rest, "Engine ", &h->pipe) && take_number(&rest, "RLC ", &h->queue);
	}
	h->kind = str_find(line, S("HIQ on ")) >= 0 ? KFD_SCHEDULER : KFD_COMPUTE;
	h->me = 1; // KFD's queues are those of the first compute engine
	if (!take_number(&rest, "Inst ", &h->xcc) || (h->kind == KFD_SCHEDULER && !take_number(&rest, "MEC ", &h->me)))
		return false;
	return take_number(&rest, "Pipe ", &h->pipe) && take_number(&rest, "Queue ", &h->queue);
}

size_t kfd_hqds_parse(struct arena *a, struct str text, const struct kfd_hqd **ret)
{
	struct pool pool = { 0 };
	VEC(struct kfd_hqd) found = { 0 };
	struct kfd_hqd next = { 0 };
	bool open = false;
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n')), words;
		uint32_t at;
		if (str_starts(line, S("Node "))) {
			open = false;
			if (!device_behind(line, "gpu_id ", &next.gpu_id))
				next.gpu_id = 0;
		} else if (!row_begins(line, &at, &words)) {
			open = next.gpu_id && found.len < ENTRIES_MOST && hqd_head(line, &next);
			if (open) {
				begin_entry(&pool);
				vec_push(&found, next);
				found.data[found.len - 1].address = UINT32_MAX;
			}
		} else if (open) {
			struct kfd_hqd *h = &found.data[found.len - 1];
			h->address = h->address == UINT32_MAX ? at : h->address;
			row_words(&pool, words);
		}
	}
	const uint32_t *words = settle(a, &pool);
	struct kfd_hqd *list = arena_alloc(a, found.len * sizeof(*list) + 1);
	for (size_t i = 0; i < found.len; i++) {
		list[i] = found.data[i];
		list[i].words = words + pool.begins.data[i];
		list[i].n = entry_words(&pool, i);
	}
	size_t n = found.len;
	free_pool(&pool);
	vec_free(&found);
	*ret = list;
	return n;
}

// --- rls ---

size_t kfd_runlists_parse(struct arena *a, struct str text, const struct kfd_runlist **ret)
{
	struct pool pool = { 0 };
	VEC(struct kfd_runlist) found = { 0 };
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n')), words;
		uint32_t at;
		struct kfd_runlist next = { 0 };
		if (row_begins(line, &at, &words)) {
			if (found.len && at == 4 * (pool.words.len - pool.begins.data[pool.begins.len - 1]))
				row_words(&pool, words);
		} else if (str_starts(line, S("Node ")) && device_behind(line, "gpu_id ", &next.gpu_id) &&
			   found.len < ENTRIES_MOST) {
			begin_entry(&pool);
			vec_push(&found, next);
		}
	}
	const uint32_t *words = settle(a, &pool);
	struct kfd_runlist *list = arena_alloc(a, found.len * sizeof(*list) + 1);
	for (size_t i = 0; i < found.len; i++)
		list[i] = (struct kfd_runlist){ found.data[i].gpu_id, entry_words(&pool, i), words + pool.begins.data[i] };
	size_t n = found.len;
	free_pool(&pool);
	vec_free(&found);
	*ret = list;
	return n;
}
