#include "source/journal/objects.h"

#include <errno.h>
#include <zstd.h>

#include "base/bytes.h"
#include "source/journal/lz4.h"

enum { OBJECT_DATA = 1, OBJECT_FIELD = 2, OBJECT_ENTRY = 3, OBJECT_FIELD_TABLE = 5, OBJECT_ENTRY_ARRAY = 6 };
enum { DATA_LZ4 = 2, DATA_ZSTD = 4, DATA_PACKED = 7 };
enum { FLAG_LZ4 = 2, FLAG_KEYED_HASH = 4, FLAG_ZSTD = 8, FLAG_COMPACT = 16 };
// Where things lie in a header and in objects.
enum {
	HEADER_INCOMPATIBLE = 12,
	HEADER_FILE_ID = 24,
	HEADER_SEQNUM_ID = 72,
	HEADER_SIZE = 88,
	HEADER_ARENA = 96,
	HEADER_FIELDS = 120,
	HEADER_FIELDS_SIZE = 128
};
enum {
	HEADER_N_ENTRIES = 152,
	HEADER_LAST_SEQNUM = 160,
	HEADER_ENTRY_ARRAY = 176,
	HEADER_FIRST_TIME = 184,
	HEADER_LAST_TIME = 192,
	HEADER_LEAST = 208
};
enum { OBJECT_HEAD = 16 };
enum { FIELD_NEXT_HASH = 24, FIELD_HEAD_DATA = 32, FIELD_TEXT = 40 };
enum {
	DATA_HASH = 16,
	DATA_NEXT_FIELD = 32,
	DATA_ENTRY = 40,
	DATA_ENTRY_ARRAY = 48,
	DATA_N_ENTRIES = 56,
	DATA_TEXT = 64,
	DATA_TEXT_COMPACT = 72
};
enum { ENTRY_SEQNUM = 16, ENTRY_REALTIME = 24, ENTRY_MONOTONIC = 32, ENTRY_BOOT = 40, ENTRY_XOR = 56, ENTRY_ITEMS = 64 };
enum { ARRAY_NEXT = 16, ARRAY_ITEMS = 24 };
enum { FIELDS_MOST = 1 << 16, ITEMS_MOST = 1024 }; // of a file, and of an entry, as journald's

// --- objects ---

static const uint8_t *object_at(const struct journal_file *f, uint64_t at, unsigned type, size_t least, size_t *ret_size)
{
	if (at % 8 || at < HEADER_LEAST || at > f->n || f->n - at < OBJECT_HEAD)
		return NULL;
	const uint8_t *p = f->p + at;
	const uint64_t size = get_u64(p + 8);
	if (p[0] != type || size < least || size > f->n - at)
		return NULL;
	*ret_size = size;
	return p;
}

static uint64_t item_at(const struct journal_file *f, const uint8_t *items, size_t i, size_t width)
{
	return f->compact ? get_u32(items + i * width) : get_u64(items + i * width);
}

/** @n: how many there should be. A counter that is too low must not hide the rest: what stands behind it in the arrays counts, too. */
static struct entry_list list_of(const struct journal_file *f, uint64_t first, uint64_t array, uint64_t n)
{
	struct entry_list l = { .first = first, .n = first ? 1 : 0 };
	const size_t width = f->compact ? 4 : 8;
	uint64_t before = 0;
	size_t size;
	const uint8_t *p;
	for (; array > before && l.nruns < RUNS_MOST; array = get_u64(p + ARRAY_NEXT)) {
		p = object_at(f, array, OBJECT_ENTRY_ARRAY, ARRAY_ITEMS, &size);
		if (!p)
			break;
		const size_t holds = (size - ARRAY_ITEMS) / width;
		size_t used = l.n >= n ? 0 : holds < n - l.n ? holds : (size_t)(n - l.n);
		while (used < holds && item_at(f, p + ARRAY_ITEMS, used, width))
			used++;
		l.runs[l.nruns++] = (struct entry_run){ array, used };
		l.n += used;
		before = array;
	}
	l.damaged = l.n < n || array;
	return l;
}

const uint8_t *journal_list_entry(const struct journal_file *f, const struct entry_list *l, size_t i)
{
	size_t size;
	uint64_t at = l->first;
	if (!l->first || i) {
		i -= l->first ? 1 : 0;
		size_t r = 0;
		for (; r < l->nruns && i >= l->runs[r].n; r++)
			i -= l->runs[r].n;
		at = r < l->nruns ? item_at(f, f->p + l->runs[r].array + ARRAY_ITEMS, i, f->compact ? 4 : 8) : 0;
	}
	return object_at(f, at, OBJECT_ENTRY, ENTRY_ITEMS, &size);
}

struct journal_place journal_entry_place(const struct journal_file *f, const uint8_t *entry)
{
	struct journal_place p = { .seqnum = get_u64(entry + ENTRY_SEQNUM),
				   .realtime = get_u64(entry + ENTRY_REALTIME),
				   .monotonic = get_u64(entry + ENTRY_MONOTONIC),
				   .hash = get_u64(entry + ENTRY_XOR) };
	memcpy(p.seqnum_id, f->p + HEADER_SEQNUM_ID, ID);
	memcpy(p.boot, entry + ENTRY_BOOT, ID);
	return p;
}

static int numbers_compare(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

int journal_place_compare(const struct journal_place *a, const struct journal_place *b)
{
	const bool boot = !memcmp(a->boot, b->boot, ID);
	int c = 0;
	if (boot && a->monotonic == b->monotonic && a->realtime == b->realtime && a->hash == b->hash)
		return 0;
	if (!memcmp(a->seqnum_id, b->seqnum_id, ID))
		c = numbers_compare(a->seqnum, b->seqnum);
	if (!c && boot)
		c = numbers_compare(a->monotonic, b->monotonic);
	if (!c)
		c = numbers_compare(a->realtime, b->realtime);
	return c ? c : numbers_compare(a->hash, b->hash);
}

struct entry_list journal_all_entries(const struct journal_file *f)
{
	return list_of(f, 0, get_u64(f->p + HEADER_ENTRY_ARRAY), get_u64(f->p + HEADER_N_ENTRIES));
}

bool journal_is_whole(const struct journal_file *f)
{
	// Journald may write meanwhile: what the header said before is what must be there after.
	const uint64_t seqnum = get_u64(f->p + HEADER_LAST_SEQNUM), time = get_u64(f->p + HEADER_LAST_TIME);
	const struct entry_list all = journal_all_entries(f);
	const uint8_t *entry = all.n ? journal_list_entry(f, &all, all.n - 1) : NULL;
	if (!entry) // a new file has the number of the one before it already, but no time
		return !all.n && !time;
	const struct journal_place last = journal_entry_place(f, entry);
	// The number is taken before the entry is there.
	return last.seqnum + 1 >= seqnum && (last.realtime >= time || last.seqnum > seqnum);
}

bool journal_file_spans(const struct journal_file *f, uint64_t from, uint64_t until)
{
	return get_u64(f->p + HEADER_FIRST_TIME) <= until && get_u64(f->p + HEADER_LAST_TIME) >= from;
}

int journal_file_begin(struct str bytes, struct journal_file *ret)
{
	struct journal_file f = { .p = (const uint8_t *)bytes.p, .n = bytes.n };
	if (f.n < HEADER_LEAST)
		return -ENODATA;
	const uint32_t flags = get_u32(f.p + HEADER_INCOMPATIBLE);
	const uint64_t head = get_u64(f.p + HEADER_SIZE);
	if (memcmp(f.p, "LPKSHHRH", 8) || head < HEADER_LEAST)
		return -EBADMSG;
	if (head > f.n || get_u64(f.p + HEADER_ARENA) > f.n - head)
		return -ENODATA; // it was cut
	if (flags & ~(uint32_t)(FLAG_LZ4 | FLAG_KEYED_HASH | FLAG_ZSTD | FLAG_COMPACT))
		return -EPROTONOSUPPORT;
	f.compact = flags & FLAG_COMPACT;
	f.keyed = flags & FLAG_KEYED_HASH;
	*ret = f;
	return 0;
}

// --- values ---

#define ROTATE(x, bits) ((x) << (bits) | (x) >> (64 - (bits)))

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = ROTATE(v[1], 13) ^ v[0];
	v[3] = ROTATE(v[3], 16) ^ v[2];
	v[0] = ROTATE(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = ROTATE(v[3], 21) ^ v[0];
	v[1] = ROTATE(v[1], 17) ^ v[2];
	v[2] = ROTATE(v[2], 32);
}

/** SipHash-2-4. */
static uint64_t sip_hash(const uint8_t key[16], struct str s)
{
	const uint64_t k0 = get_u64(key), k1 = get_u64(key + 8);
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573 };
	uint64_t last = (uint64_t)s.n << 56;
	size_t at = 0;
	for (; s.n - at >= 8; at += 8) {
		const uint64_t word = get_u64(s.p + at);
		v[3] ^= word;
		sip_round(v);
		sip_round(v);
		v[0] ^= word;
	}
	for (size_t i = 0; at + i < s.n; i++)
		last |= (uint64_t)(uint8_t)s.p[at + i] << 8 * i;
	v[3] ^= last;
	sip_round(v);
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/** Unpacks as much as there is room for. false: it is damaged. */
static bool data_unpack(struct str packed, unsigned flags, char *to, size_t most, size_t *ret)
{
	if (flags & DATA_LZ4) { // behind its size
		const uint64_t whole = packed.n >= 8 ? get_u64(packed.p) : 0;
		*ret = lz4_unpack(str_from(packed, 8), to, most);
		return whole && *ret == (whole < most ? whole : most);
	}
	if (!(flags & DATA_ZSTD))
		return false;
	ZSTD_DStream *z = ZSTD_createDStream();
	ZSTD_outBuffer out = { to, most, 0 };
	ZSTD_inBuffer in = { packed.p, packed.n, 0 };
	size_t left = 1;
	for (size_t before = 1; z && left && !ZSTD_isError(left) && out.pos < most && in.pos != before;) {
		before = in.pos;
		left = ZSTD_decompressStream(z, &out, &in);
	}
	ZSTD_freeDStream(z);
	*ret = out.pos;
	return !ZSTD_isError(left) && (!left || out.pos == most);
}

struct str journal_data_text(struct journal_file *f, uint64_t at, size_t most, struct text *room)
{
	const size_t head = f->compact ? DATA_TEXT_COMPACT : DATA_TEXT;
	size_t size;
	const uint8_t *p = object_at(f, at, OBJECT_DATA, head, &size);
	if (!p) {
		f->damaged = true;
		return (struct str){ 0 };
	}
	struct str text = { (const char *)p + head, size - head };
	const bool all = !(p[1] & DATA_PACKED) && text.n <= most;
	if (p[1] & DATA_PACKED) {
		const struct str packed = text;
		text_clear(room);
		text.p = text_room(room, most);
		f->damaged |= !data_unpack(packed, p[1], room->p, most, &text.n);
	}
	text = str_cut(text, most);
	// Its front alone tells nothing.
	if (f->keyed && (all || (p[1] & DATA_PACKED && text.n < most)))
		f->damaged |= sip_hash(f->p + HEADER_FILE_ID, text) != get_u64(p + DATA_HASH);
	return text;
}

/** The field of this name; NULL: the file has none. */
static const uint8_t *journal_find_field(struct journal_file *f, struct str name)
{
	enum { BUCKET = 16 };
	const uint64_t table = get_u64(f->p + HEADER_FIELDS), bytes = get_u64(f->p + HEADER_FIELDS_SIZE);
	size_t size, looked = 0;
	if (table > f->n || bytes > f->n - table || bytes < BUCKET ||
	    !object_at(f, table - OBJECT_HEAD, OBJECT_FIELD_TABLE, OBJECT_HEAD + bytes, &size)) {
		f->damaged = true;
		return NULL;
	}
	for (uint64_t i = 0; i + BUCKET <= bytes && looked < FIELDS_MOST; i += BUCKET, looked++) {
		uint64_t before = 0, at = get_u64(f->p + table + i);
		for (; at && looked < FIELDS_MOST; looked++) {
			const uint8_t *p = at > before ? object_at(f, at, OBJECT_FIELD, FIELD_TEXT, &size) : NULL;
			if (!p) {
				f->damaged = true;
				break;
			}
			if (str_eq((struct str){ (const char *)p + FIELD_TEXT, size - FIELD_TEXT }, name))
				return p;
			before = at;
			at = get_u64(p + FIELD_NEXT_HASH);
		}
	}
	f->damaged |= looked >= FIELDS_MOST;
	return NULL;
}

uint64_t journal_find_value(struct journal_file *f, const struct journal_match *m)
{
	enum { VALUE_READ = 256 }; // most are shorter, so that all of it is there to be checked
	_cleanup_text_ struct text room = { 0 };
	size_t size;
	const uint8_t *field = journal_find_field(f, str_cut(m->text, m->name - 1)), *data;
	// New values come to the front of the list.
	uint64_t at = field ? get_u64(field + FIELD_HEAD_DATA) : 0;
	for (uint64_t before = UINT64_MAX; at; at = get_u64(data + DATA_NEXT_FIELD)) {
		data = at < before ? object_at(f, at, OBJECT_DATA, DATA_TEXT, &size) : NULL;
		if (!data) {
			f->damaged = true;
			break;
		}
		if (str_eq(journal_data_text(f, at, VALUE_READ + m->text.n, &room), m->text))
			return at;
		before = at;
	}
	return 0;
}

struct entry_list journal_value_list(const struct journal_file *f, uint64_t value)
{
	size_t size;
	const uint8_t *p = object_at(f, value, OBJECT_DATA, DATA_TEXT, &size);
	if (!p)
		return (struct entry_list){ 0 };
	struct entry_list l = list_of(f, get_u64(p + DATA_ENTRY), get_u64(p + DATA_ENTRY_ARRAY), get_u64(p + DATA_N_ENTRIES));
	l.damaged |= !l.n; // it is there because an entry has it
	return l;
}

uint64_t journal_entry_value(const struct journal_file *f, const uint8_t *entry, size_t i)
{
	// Its size may have changed since it was checked.
	const uint64_t left = f->n - (uint64_t)(entry - f->p), size = get_u64(entry + 8);
	const size_t width = f->compact ? 4 : 16, n = size <= left && size > ENTRY_ITEMS ? (size - ENTRY_ITEMS) / width : 0;
	return i < n && i < ITEMS_MOST ? item_at(f, entry + ENTRY_ITEMS, i, width) : 0;
}

bool journal_entry_has(const struct journal_file *f, const uint8_t *entry, uint64_t value)
{
	uint64_t at = value;
	for (size_t i = 0; at && (at = journal_entry_value(f, entry, i)); i++)
		if (at == value)
			return true;
	return false;
}
