// Plays: the same requests get the same answers, in the order in which they were given.
#include <stdlib.h>

#include "base/bytes.h"
#include "base/child.h"
#include "source/tape/parts.h"

enum { TRACKS_MOST = 64, PATHS_MOST = 1 << 20 };

struct tape *tape_new(void)
{
	struct tape *t = mem_alloc(sizeof(*t));
	t->plays = true;
	return t;
}

bool tape_plays(const struct tape *t) { return t && t->plays; }

void tape_free(struct tape *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->player.tracks.len; i++) {
		free(t->player.tracks.data[i].bytes);
		vec_free(&t->player.tracks.data[i].batches);
	}
	vec_free(&t->player.tracks);
	vec_free(&t->player.answers);
	vec_free(&t->player.logs);
	tape_names_free(&t->paths);
	text_free(&t->recorder.room);
	free(t);
}

// --- loading ---

/** A track being read: paths by their numbers in it. */
struct loading {
	struct tape *tape;
	struct tape_track *track;
	VEC(uint32_t) paths;
};

/** A path has the same number in all tracks of a tape, so that requests can be compared as bytes. The bytes are the tape's own. */
static void take_probe(struct loading *l, struct str record)
{
	struct taped one = { .track = (uint32_t)l->tape->player.tracks.len, .order = (uint32_t)l->tape->player.answers.len };
	if (!tape_take_probe(record, &one.probe) || one.probe.path >= l->paths.len)
		return;
	one.probe.path = l->paths.data[one.probe.path];
	memcpy((char *)one.probe.key.p + 4, &one.probe.path, sizeof(one.probe.path));
	if (one.probe.end == PROBE_STUCK && one.probe.batch < l->track->batches.len)
		l->track->batches.data[one.probe.batch].stuck_order = one.order;
	vec_push(&l->tape->player.answers, one);
}

bool tape_add(struct tape *t, struct str name, struct str bytes)
{
	struct tape_track track = { .n = bytes.n };
	struct loading l = { .tape = t, .track = &track };
	enum tape_type type;
	struct str record;
	if (!str_starts(bytes, S(TAPE_HEAD)) || t->player.tracks.len == TRACKS_MOST)
		return false;
	track.bytes = mem_large(bytes.n);
	memcpy(track.bytes, bytes.p, bytes.n);
	uint32_t number = tape_name(&t->paths, name, true);
	track.name = t->paths.list.data[number];
	struct str left = str_from((struct str){ track.bytes, bytes.n }, sizeof(TAPE_HEAD) - 1);
	for (size_t at = bytes.n - left.n; tape_take_record(&left, &type, &record); at = bytes.n - left.n) {
		struct tape_batch batch = { 0 };
		struct tape_cursor c = { record };
		struct tape_last last;
		if (type == TAPE_PATH && l.paths.len < PATHS_MOST)
			vec_push(&l.paths, tape_name(&t->paths, record, true));
		else if (type == TAPE_BATCH && tape_take_batch(record, &batch))
			vec_push(&track.batches, batch);
		else if (type == TAPE_PROBE)
			take_probe(&l, record);
		else if (type == TAPE_END && !left.n)
			track.whole = tape_take_last(record, str_cut(bytes, at), &last);
		if (type != TAPE_LOG)
			continue;
		const struct taped_log log = { tape_take_text(&c), tape_take_text(&c), left };
		if (!c.short_of)
			vec_push(&t->player.logs, log);
	}
	vec_free(&l.paths);
	vec_push(&t->player.tracks, track);
	t->player.sorted = false;
	return true;
}

bool tape_whole(const struct tape *t, struct str name)
{
	for (size_t i = 0; i < t->player.tracks.len; i++)
		if (str_eq(t->player.tracks.data[i].name, name))
			return t->player.tracks.data[i].whole;
	return false;
}

// --- finding ---

static int play_compare(const struct taped *x, uint32_t track, struct str key)
{
	return x->track != track ? (x->track < track ? -1 : 1) : str_cmp(x->probe.key, key);
}

static int by_request(const void *a, const void *b)
{
	const struct taped *x = a, *y = b;
	int order = play_compare(x, y->track, y->probe.key);
	return order ? order : x->order < y->order ? -1 : x->order > y->order;
}

void tape_begin(struct tape *t, const char *track)
{
	if (!tape_plays(t))
		return;
	struct tape_player *p = &t->player;
	p->track = UINT32_MAX;
	for (uint32_t i = 0; i < p->tracks.len; i++)
		p->track = str_is(p->tracks.data[i].name, track) ? i : p->track;
	for (size_t i = 0; i < p->answers.len; i++)
		p->answers.data[i].played = 0;
	const struct tape_track *own = p->track < p->tracks.len ? &p->tracks.data[p->track] : NULL;
	p->now = own && own->batches.len ? own->batches.data[0].began : 0;
}

/** The first answer of a track whose request is not before @key. */
static size_t lower(const struct tape_player *p, uint32_t track, struct str key)
{
	size_t low = 0, high = p->answers.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (play_compare(&p->answers.data[middle], track, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/** How an answer is looked for in one track. *@ret: what it says of the request. NULL: the track has none. */
typedef const struct taped *find_in_fn(struct tape_player *p, uint32_t track, struct str key, struct tape_probe *ret);

/** The next one to just this request. */
static const struct taped *exact_in(struct tape_player *p, uint32_t track, struct str key, struct tape_probe *ret)
{
	size_t first = lower(p, track, key), n = 0;
	while (first + n < p->answers.len && !play_compare(&p->answers.data[first + n], track, key))
		n++;
	if (!n)
		return NULL;
	struct taped *head = &p->answers.data[first];
	head += head->played + 1 < n ? head->played++ : n - 1;
	*ret = head->probe;
	return head;
}

/** In the track that is played, and else in any. */
static const struct taped *tape_find(struct tape *t, const struct probe *p, find_in_fn *in, struct tape_probe *ret)
{
	_cleanup_text_ struct text key = { 0 };
	struct tape_player *player = &t->player;
	const uint32_t path = tape_name(&t->paths, str_z(p->path), false), own = player->track;
	if (!player->sorted && player->answers.len)
		qsort(player->answers.data, player->answers.len, sizeof(*player->answers.data), by_request);
	player->sorted = true;
	if (path == UINT32_MAX)
		return NULL;
	tape_put_key(&key, p, path);
	const struct taped *found = own != UINT32_MAX ? in(player, own, text_str(&key), ret) : NULL;
	for (uint32_t i = 0; i < player->tracks.len && !found; i++)
		found = in(player, i, text_str(&key), ret);
	return found;
}

// --- a part of what was asked for ---

enum { KEY_PLACE = 8, KEY_OFFSET = 8, KEY_REQUEST = 16, KEY_SIZE = 24, KEY_ARGUMENT = 32, QUERY_KIND = 12, QUERY_WORDS = 16 };

static struct str argument_of(struct str key) { return str_cut(str_from(key, TAPE_KEY), get_u32(key.p + KEY_ARGUMENT)); }

static bool is_query(struct str key) { return key.p[0] == PROBE_QUERY && argument_of(key).n == sizeof(struct amdgpu_query); }

/** The render node's query has the first register in its argument. */
static uint64_t begin_of(struct str key)
{
	return is_query(key) ? (uint64_t)get_u32(argument_of(key).p + QUERY_WORDS) * 4 : get_u64(key.p + KEY_OFFSET);
}

/** Whether both mean the same bank of registers, or the same file in the same state. */
static bool play_same_bank(struct str x, struct str y)
{
	struct str a = argument_of(x), b = argument_of(y);
	if (get_u64(x.p + KEY_REQUEST) != get_u64(y.p + KEY_REQUEST) || a.n != b.n)
		return false;
	if (!is_query(x))
		return str_eq(a, b);
	return !memcmp(a.p + QUERY_KIND, b.p + QUERY_KIND, 4) && !memcmp(a.p + QUERY_WORDS + 8, b.p + QUERY_WORDS + 8, 8);
}

static bool holds(const struct tape_probe *have, struct str wanted, struct tape_probe *ret)
{
	const char kind = wanted.p[0];
	const uint64_t size = get_u64(wanted.p + KEY_SIZE), from = begin_of(wanted), first = begin_of(have->key);
	*ret = *have;
	if (!play_same_bank(have->key, wanted))
		return false;
	if (kind == PROBE_FILE || kind == PROBE_LIST || kind == PROBE_LINK)
		return have->end != PROBE_GOOD || have->data.n <= size;
	if (have->end != PROBE_GOOD || from < first || from - first > have->data.n || size > have->data.n - (from - first))
		return false;
	ret->data = str_cut(str_from(have->data, from - first), size);
	return kind == PROBE_READ || kind == PROBE_BANKED || kind == PROBE_QUERY || kind == TAPE_MEMORY;
}

/** The newest answer that holds the one that is wanted: a read of more, or of the same file in another length. */
static const struct taped *part_in(struct tape_player *p, uint32_t track, struct str key, struct tape_probe *ret)
{
	const struct taped *found = NULL;
	struct str place = str_cut(key, KEY_PLACE);
	struct tape_probe one;
	for (size_t i = lower(p, track, place); i < p->answers.len; i++) {
		const struct taped *a = &p->answers.data[i];
		if (a->track != track || !str_starts(a->probe.key, place))
			break;
		if (holds(&a->probe, key, &one)) {
			*ret = one;
			found = a;
		}
	}
	return found;
}

/** A file that gave no answer then, to anybody who asked in this way, gives none now. */
static const struct taped *failed_in(struct tape_player *p, uint32_t track, struct str key, struct tape_probe *ret)
{
	struct str place = str_cut(key, KEY_PLACE);
	const struct taped *found = NULL;
	for (size_t i = lower(p, track, place); i < p->answers.len; i++) {
		const struct taped *a = &p->answers.data[i];
		if (a->track != track || !str_starts(a->probe.key, place))
			break;
		if (a->probe.end == PROBE_GOOD)
			return NULL;
		if (a->probe.end == PROBE_STUCK || (!found && a->probe.end == PROBE_FAILED))
			found = a;
	}
	if (found)
		*ret = found->probe;
	return found;
}

// --- answering ---

static void play_answer(struct tape *t, struct arena *a, struct probe *p, struct probe_stuck *stuck)
{
	struct tape_probe one = { .end = PROBE_NOT_MADE };
	const struct taped *found = tape_find(t, p, exact_in, &one);
	if (!found && !tape_find(t, p, part_in, &one))
		found = tape_find(t, p, failed_in, &one);
	const struct tape_track *track = found ? &t->player.tracks.data[found->track] : NULL;
	const struct tape_batch *batch =
		found && found->probe.batch < track->batches.len ? &track->batches.data[found->probe.batch] : NULL;
	// Its turn never came, because one before it did not answer. Asked without that one, it would not have answered either.
	if (one.end == PROBE_NOT_MADE && batch && batch->stuck.is && found->order > batch->stuck_order && !stuck->is)
		one.end = PROBE_STUCK;
	const char *data = one.end == PROBE_GOOD || one.end == PROBE_FAILED ? arena_z(a, one.data) : NULL;
	probe_answered(p, one.end, one.error, (struct str){ data, one.data.n });
	if (batch && found->track == t->player.track && batch->ended > t->player.now)
		t->player.now = batch->ended;
	const struct probe_stuck of = batch ? batch->stuck : (struct probe_stuck){ 0 };
	if (of.is && one.end == PROBE_STUCK) {
		*stuck = of;
		stuck->at = arena_str(a, of.at);
		stuck->stack = arena_str(a, of.stack);
		stuck->wchan = arena_str(a, of.wchan);
	}
	stuck->late |= of.late && one.end == PROBE_NOT_MADE;
}

void tape_answer(struct tape *t, struct arena *a, struct probe_batch *batches, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		batches[i].stuck = (struct probe_stuck){ 0 };
		for (size_t j = 0; j < batches[i].n; j++)
			play_answer(t, a, &batches[i].probes[j], &batches[i].stuck);
	}
}

bool tape_memory(struct tape *t, const char *path, uint64_t address, void *to, size_t size)
{
	const struct probe p = { .kind = (enum probe_kind)TAPE_MEMORY, .path = path, .offset = address, .size = size };
	struct tape_probe one = { 0 };
	if ((!tape_find(t, &p, exact_in, &one) && !tape_find(t, &p, part_in, &one)) || one.data.n != size)
		return false;
	memcpy(to, one.data.p, size);
	return true;
}

struct str tape_said(struct tape *t, struct arena *a, const char *name, struct str live)
{
	struct probe p = { .kind = (enum probe_kind)TAPE_SAID, .path = name };
	struct tape_probe one = { 0 };
	if (tape_plays(t))
		return tape_find(t, &p, exact_in, &one) ? arena_str(a, one.data) : (struct str){ 0 };
	probe_answered(&p, PROBE_GOOD, 0, live);
	if (t)
		tape_keep(t, &(struct probe_batch){ .probes = &p, .n = 1 }, now_ms());
	return live;
}

int64_t tape_number(struct tape *t, const char *name, int64_t live)
{
	_cleanup_arena_ struct arena a = { 0 };
	int64_t value = live;
	if (t && !str_number(tape_said(t, &a, name, arena_printf(&a, "%lld", (long long)live)), &value))
		value = -1;
	return value;
}

// --- logs ---

bool tape_play_log(struct tape *t, const char *name, const struct source_visitor *v)
{
	const struct taped_log *log = NULL;
	for (size_t i = 0; i < t->player.logs.len && !log; i++)
		log = str_is(t->player.logs.data[i].name, name) ? &t->player.logs.data[i] : NULL;
	if (!log)
		return false;
	_cleanup_arena_ struct arena a = { 0 };
	const char *called = arena_z(&a, log->called);
	struct str left = log->records, record;
	enum tape_type type;
	struct source_note by = { 0 }; // of the note before a line
	v->record(v->ctx, called, NULL);
	for (bool good = true; good && tape_take_record(&left, &type, &record);) {
		struct tape_cursor c = { record };
		if (type == TAPE_NOTE) {
			by.writer = (enum source_writer)tape_take_number(&c, 1);
			by.subsystem = tape_take_text(&c);
			by.device = tape_take_text(&c);
			good = !c.short_of && by.writer <= WRITER_PROGRAM;
			continue;
		}
		uint64_t boot = tape_take_number(&c, 8), wall = tape_take_number(&c, 8);
		struct source_record line = { .boot_id = tape_take_text(&c), .by = by };
		line.text = c.left;
		memcpy(&line.boot_seconds, &boot, sizeof(boot));
		memcpy(&line.wall_seconds, &wall, sizeof(wall));
		by = (struct source_note){ 0 };
		good = type == TAPE_LINE && !c.short_of;
		if (good)
			v->record(v->ctx, called, &line);
	}
	v->record(v->ctx, NULL, NULL);
	return true;
}
