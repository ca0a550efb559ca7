// Finds code objects in whatever carries them: fat binaries, offload bundles, archives, and files in which containers simply follow one
// another. It reads a window at a time and hands over only targets that somebody wants, because a library of ROCm has hundreds of
// objects and gigabytes.
#include "code/object/bundle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "code/object/unpack.h"
#include "code/walk.h"

enum {
	NEAR = 4096, // bytes that are read around a header
	PAGE = 4096,
	WINDOW = 64 << 10, // bytes that are read at once where there are no headers
	PROBLEMS = 32,     // the most that are reported
	NAME_LIKELY = 256, // no real target is named longer
};

static const uint64_t OBJECT_MOST = 2ULL << 30, UNPACK_MOST = 4ULL << 30;
// Deflate cannot do better than 1 to 1032. zstd can, but not with code: the rest is for small bundles.
static const uint64_t UNPACK_RATIO = 1100, UNPACK_FREE = 16ULL << 20;

static void walk_open(struct walk *w, const struct code_finder *finder, const struct file *f)
{
	*w = (struct walk){
		.finder = finder,
		.f = f,
		.inside = "",
		.objects_left = f->size < UINT64_MAX / WALK_DEPTH ? WALK_DEPTH * f->size : UINT64_MAX,
		.unpack_left = f->size < UNPACK_MOST ? UNPACK_FREE + UNPACK_RATIO * f->size : UINT64_MAX,
		.window = f->door ? mem_alloc(WINDOW) : NULL,
	};
}

static void walk_close(struct walk *w) { free(w->window); }

void walk_unpacked(struct walk *w, struct stretch s, const char *inside, struct str bytes, bool offload)
{
	const struct file f = file_memory(w->f->name, bytes);
	const struct stretch all = { 0, bytes.n, s.target, s.depth + 1 };
	struct walk in;
	walk_open(&in, w->finder, &f);
	in.inside = inside;
	in.unpacked = true;
	in.problems = w->problems;
	if (offload)
		walk_offload_binary(&in, all, true);
	else
		walk_containers(&in, all, "its content");
	w->problems = in.problems;
	walk_close(&in);
}

void walk_problem(struct walk *w, const char *format, ...)
{
	_cleanup_text_ struct text message = { 0 };
	va_list ap;
	if (++w->problems > PROBLEMS || !w->finder->problem)
		return;
	va_start(ap, format);
	text_printf(&message, "%s", w->inside);
	text_vprintf(&message, format, ap);
	va_end(ap);
	w->finder->problem(w->finder->ctx, uh_error_new(STR_FMT "%s", STR_ARG(text_str(&message)),
							w->problems == PROBLEMS ? " (and no more of this is told)" : ""));
}

bool walk_may_unpack(struct walk *w, uint64_t packed, uint64_t size)
{
	if (w->unpacked || size > UNPACK_MOST || size > w->unpack_left)
		return false;
	if (packed < UNPACK_MOST && size > UNPACK_FREE + UNPACK_RATIO * packed)
		return false;
	w->unpack_left -= size;
	return true;
}

struct str walk_peek(struct walk *w, uint64_t at, uint64_t end, size_t want)
{
	end = earlier(end, w->f->size);
	if (at >= end)
		return (struct str){ 0 };
	size_t n = (size_t)earlier(earlier(want, WINDOW), end - at);
	if (!w->window)
		return (struct str){ (const char *)w->f->data + at, n };
	if (at < w->window_at || at - w->window_at > w->window_size || n > w->window_size - (at - w->window_at)) {
		size_t more = (size_t)earlier(later(n, NEAR), w->f->size - at);
		w->window_size = file_read(w->f, at, w->window, more) ? more : 0;
		w->window_at = at;
	}
	return str_cut((struct str){ (const char *)w->window + (at - w->window_at), w->window_size - (at - w->window_at) }, n);
}

// --- the places at which a container begins ---

/** Whether two bytes with which a magic number begins are among the first 64 of @p. Without a branch for each byte, the compiler
 * compares many at once. */
static bool find_near(const uint8_t *p)
{
	uint8_t any = 0;
	for (size_t i = 0; i < 64; i++) {
		any |= (p[i] == 0x7f) & (p[i + 1] == 'E');
		any |= (p[i] == '_') & (p[i + 1] == '_');
		any |= (p[i] == 'C') & (p[i + 1] == 'C');
		any |= (p[i] == 0x10) & (p[i + 1] == 0xff);
	}
	return any;
}

/** Where one of the magic numbers may begin in @p: four bytes of it are there. */
static size_t object_bundle_find_in(const char *p, size_t n)
{
	const uint32_t magics[] = { get_u32("\177ELF"), get_u32("__CL"), get_u32("CCOB"), get_u32("\x10\xff\x10\xad") };
	size_t at = 0;
	while (at + 4 <= n) {
		if (n - at > 64 && !find_near((const uint8_t *)p + at)) {
			at += 64;
			continue;
		}
		for (size_t stop = n - 3 - at < 64 ? n - 3 : at + 64; at < stop; at++) {
			uint32_t v = get_u32(p + at);
			if (v == magics[0] || v == magics[1] || v == magics[2] || v == magics[3])
				return at;
		}
	}
	return n;
}

/** The bytes in the window from @at on; if there are too few, @want bytes are read. */
static struct str peek_on(struct walk *w, uint64_t at, uint64_t end, size_t want)
{
	if (w->window && at >= w->window_at && at - w->window_at + 64 < w->window_size)
		want = w->window_size - (size_t)(at - w->window_at);
	return walk_peek(w, at, end, want);
}

static uint64_t find_magic(struct walk *w, uint64_t at, uint64_t end)
{
	for (size_t want = NEAR; at < end; want = WINDOW) {
		struct str s = peek_on(w, at, end, want);
		if (s.n < 4)
			return end;
		size_t hit = object_bundle_find_in(s.p, s.n);
		if (hit < s.n)
			return at + hit;
		at += s.n - 3;
	}
	return end;
}

static uint64_t skip_zeros(struct walk *w, uint64_t at, uint64_t end)
{
	for (size_t want = NEAR; at < end; want = WINDOW) {
		struct str s = peek_on(w, at, end, want);
		for (size_t i = 0; i < s.n; i++)
			if (s.p[i])
				return at + i;
		if (!s.n)
			return end;
		at += s.n;
	}
	return end;
}

static uint64_t walk_bundle(struct walk *w, struct stretch s, bool sure);

static uint64_t walk_at(struct walk *w, struct stretch s, bool sure)
{
	struct str head = walk_peek(w, s.begin, s.end, BUNDLE_MAGIC.n);
	if (str_starts(head, BUNDLE_MAGIC))
		return walk_bundle(w, s, sure);
	if (str_starts(head, COMPRESSED_MAGIC))
		return walk_compressed(w, s, sure);
	if (str_starts(head, OFFLOAD_MAGIC))
		return walk_offload_binary(w, s, sure);
	if (str_starts(head, ELF_MAGIC))
		return walk_elf(w, s, sure);
	return s.begin;
}

void walk_containers(struct walk *w, struct stretch s, const char *name)
{
	uint64_t first = s.begin;
	bool sane = true;
	while (s.begin < s.end) {
		uint64_t at = name ? skip_zeros(w, s.begin, s.end) : s.begin;
		uint64_t hit = find_magic(w, at, s.end);
		size_t problems = w->problems;
		if (name && sane && at < hit)
			walk_problem(w, "%s at 0x%" PRIx64 ": no offload bundle begins at 0x%" PRIx64, name, first, at);
		if (hit >= s.end)
			return;
		s.begin = hit;
		s.begin = later(walk_at(w, s, name), hit + 4);
		// Behind damage it is not known where the next one should begin.
		sane = w->problems == problems;
	}
}

// --- bundles ---

/** A library that reads bundles has the magic number in it, too. */
static bool bundle_likely(struct walk *w, struct stretch s)
{
	struct str head = walk_peek(w, s.begin, s.end, 56);
	if (head.n < 56)
		return false;
	uint64_t count = get_u64(head.p + 24), length = get_u64(head.p + 48);
	return count && count < 1 << 16 && length && length < NAME_LIKELY && inside(s, get_u64(head.p + 32), 0);
}

/** An offload bundle names its entries with offset and size, neither of which is believed. */
static uint64_t walk_bundle(struct walk *w, struct stretch s, bool sure)
{
	if (!sure && !bundle_likely(w, s))
		return s.begin;
	struct str head = walk_peek(w, s.begin, s.end, 32);
	if (head.n < 32) {
		walk_problem(w, "offload bundle at 0x%" PRIx64 ": its header is cut off at 0x%" PRIx64, s.begin, s.end);
		return s.end;
	}
	uint64_t count = get_u64(head.p + 24), at = s.begin + 32, end = at;
	for (uint64_t i = 0; i < count; i++) {
		char name[WALK_NAME], what[96];
		struct str row = walk_peek(w, at, s.end, 24);
		snprintf(what, sizeof(what), "entry %" PRIu64 " at 0x%" PRIx64 " of the offload bundle at 0x%" PRIx64, i, at,
			 s.begin);
		uint64_t offset = row.n < 24 ? 0 : get_u64(row.p), size = row.n < 24 ? 0 : get_u64(row.p + 8);
		uint64_t length = row.n < 24 ? UINT64_MAX : get_u64(row.p + 16);
		if (length > sizeof(name) || length > s.end - at - 24) {
			walk_problem(w, "%s: it is cut off, or its name is too long", what);
			return later(at, end);
		}
		struct str target = walk_peek(w, at + 24, s.end, (size_t)length);
		if (target.n)
			memcpy(name, target.p, target.n);
		at += 24 + length;
		if (!inside(s, offset, size)) {
			walk_problem(w, "%s: its bytes 0x%" PRIx64 "-0x%" PRIx64 " lie outside (0x%" PRIx64 ")", what,
				     s.begin + offset, s.begin + offset + size, s.end);
			continue;
		}
		struct stretch image = { s.begin + offset, s.begin + offset + size, { name, target.n }, s.depth + 1 };
		end = later(end, image.end);
		if (size)
			walk_image(w, image, what);
	}
	return later(at, end);
}

struct compressed {
	unsigned header, version, method;
	uint64_t total, size, hash; // total: 0 where the header does not say
};

/** Each version has its sizes elsewhere, and the first has no total. The hash is compared after unpacking. */
static bool compressed_header(struct str p, struct compressed *ret)
{
	struct compressed c = { .version = p.n < 8 ? 0 : get_u16(p.p + 4), .method = p.n < 8 ? 0 : get_u16(p.p + 6) };
	c.header = c.version == 1 ? 20 : c.version == 2 ? 24 : 32;
	if (!c.version || c.version > 3 || c.method > UNPACK_ZSTD || p.n < c.header)
		return false;
	if (c.version == 3) {
		c.total = get_u64(p.p + 8);
		c.size = get_u64(p.p + 16);
	} else {
		c.total = c.version == 2 ? get_u32(p.p + 8) : 0;
		c.size = get_u32(p.p + c.header - 12);
	}
	c.hash = get_u64(p.p + c.header - 8);
	*ret = c;
	return true;
}

uint64_t walk_compressed(struct walk *w, struct stretch s, bool sure)
{
	struct compressed c;
	if (!compressed_header(walk_peek(w, s.begin, s.end, 32), &c)) {
		if (sure)
			walk_problem(w,
				     "compressed bundle at 0x%" PRIx64
				     ": its header is cut off, or of an unknown version or method",
				     s.begin);
		return s.begin;
	}
	uint64_t room = s.end - s.begin, have = c.total && c.total < room ? c.total : room;
	if (have < c.header || s.depth >= WALK_DEPTH || !walk_may_unpack(w, have, c.size)) {
		walk_problem(w,
			     "compressed bundle at 0x%" PRIx64 ": not unpacked: its 0x%" PRIx64
			     " bytes are said to hold 0x%" PRIx64 ", or it is in another",
			     s.begin, have, c.size);
		return s.begin + c.header;
	}
	struct unpacked u = { 0 };
	const struct packed_stream packed = { c.method, s.begin + c.header, have - c.header, .most = c.size };
	_cleanup_error_ struct uh_error *err = unpack(w->f, &packed, &u);
	if (err)
		walk_problem(w, "compressed bundle at 0x%" PRIx64 ": %s", s.begin, uh_error_message(err));
	else if (c.total && (c.total > room || c.header + u.used > c.total))
		walk_problem(w, "compressed bundle at 0x%" PRIx64 ": its 0x%" PRIx64 " bytes lie outside (0x%" PRIx64 ")",
			     s.begin, c.total, s.end);
	if (u.bytes) {
		char inside[64];
		uint64_t hash = unpack_hash(u.bytes, u.size);
		if (!err && (u.size != c.size || hash != c.hash))
			walk_problem(w,
				     "compressed bundle at 0x%" PRIx64 ": it holds %" PRIu64 " bytes with hash %016" PRIx64
				     ", its header says %" PRIu64 " and %016" PRIx64,
				     s.begin, u.size, hash, c.size, c.hash);
		snprintf(inside, sizeof(inside), "in the compressed bundle at 0x%" PRIx64 ": ", s.begin);
		walk_unpacked(w, s, inside, (struct str){ (const char *)u.bytes, u.size }, false);
	}
	free(u.bytes);
	if (err)
		return s.begin + c.header;
	return s.begin + (c.total ? have : c.header + u.used);
}

// --- what lies in containers ---

void walk_hand_over(struct walk *w, struct stretch s)
{
	uint64_t size = s.end - s.begin;
	struct code_found found = {
		.target = s.target, .offset = s.begin, .unpacked = w->unpacked, .bytes = { NULL, (size_t)size }
	};
	_cleanup_free_ char *copy = NULL;
	if (size > OBJECT_MOST || size > w->objects_left) {
		walk_problem(w, "code object at 0x%" PRIx64 ": its %" PRIu64 " bytes are too many, or others have the same",
			     s.begin, size);
		return;
	}
	w->objects_left -= size;
	if (!w->window) {
		found.bytes.p = (const char *)w->f->data + s.begin;
	} else {
		found.bytes.p = copy = mem_large(size + 1);
		// Gets all pages of a large block at once. One by one, at first touch, they would cost more than reading the file.
#ifdef MADV_POPULATE_WRITE // Linux 5.14; without it they come one by one
		uintptr_t begin = ((uintptr_t)copy + PAGE - 1) & ~(uintptr_t)(PAGE - 1),
			  end = ((uintptr_t)copy + size) & ~(uintptr_t)(PAGE - 1);
		if (end > begin)
			madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
#else
		(void)copy, (void)size;
#endif
		found.ours = &copy;
		if (!file_read(w->f, s.begin, copy, size)) {
			walk_problem(w, "code object at 0x%" PRIx64 ": its %" PRIu64 " bytes cannot be read", s.begin, size);
			return;
		}
	}
	w->finder->found(w->finder->ctx, &found);
}

void walk_image(struct walk *w, struct stretch s, const char *what)
{
	// Intermediate code, which a linker or the runtime compiles.
	static const char bitcode[][5] = { "BC\xc0\xde", "\xde\xc0\x17\x0b", "\x03\x02\x23\x07" };
	const struct code_finder *finder = w->finder;
	if (str_starts(s.target, S("host")) || (finder->wanted && !finder->wanted(finder->ctx, s.target)))
		return;
	struct str head = walk_peek(w, s.begin, s.end, BUNDLE_MAGIC.n);
	for (size_t i = 0; i < ARRAY_SIZE(bitcode); i++)
		if (str_starts(head, (struct str){ bitcode[i], 4 }))
			return;
	if (str_starts(head, ELF_MAGIC) && head.n >= 20 && get_u16(head.p + 18) == 224) {
		walk_hand_over(w, s);
	} else if (str_starts(head, BUNDLE_MAGIC) || str_starts(head, ARCHIVE_MAGIC) || str_starts(head, OFFLOAD_MAGIC) ||
		   str_starts(head, COMPRESSED_MAGIC)) {
		if (s.end - s.begin > w->objects_left) {
			walk_problem(w, "%s: others have the same bytes 0x%" PRIx64 "-0x%" PRIx64, what, s.begin, s.end);
			return;
		}
		w->objects_left -= s.end - s.begin;
		walk_whole(w, s);
	} else if (str_find(s.target, S("amdgcn")) >= 0) {
		walk_problem(w, "%s: what it has at 0x%" PRIx64 " is neither an ELF file nor bitcode", what, s.begin);
	}
}

void walk_whole(struct walk *w, struct stretch s)
{
	struct str head = walk_peek(w, s.begin, s.end, 64);
	if (s.depth > WALK_DEPTH) {
		walk_problem(w, "container at 0x%" PRIx64 ": more than %d in one another", s.begin, WALK_DEPTH);
	} else if (str_starts(head, ARCHIVE_MAGIC)) {
		walk_archive(w, s);
	} else if (str_starts(head, ELF_MAGIC) && head.n >= 20 && get_u16(head.p + 18) != 224) {
		walk_host(w, s);
	} else {
		s.begin = walk_at(w, s, true);
		walk_containers(w, s, NULL);
	}
}

void code_find(const struct file *f, const struct code_finder *finder)
{
	struct walk w;
	walk_open(&w, finder, f);
	walk_whole(&w, (struct stretch){ .end = f->size });
	walk_close(&w);
}

struct str code_target_gfx(struct str target)
{
	for (struct str s = target; s.n; s = str_from(s, 1))
		if (str_starts(s, S("gfx")) && (s.p == target.p || s.p[-1] == '-'))
			return s;
	return (struct str){ 0 };
}
