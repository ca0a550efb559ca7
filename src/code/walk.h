// How bundle.c goes through a file. Positions are always those in the file that the walk is in.
#pragma once

#include "base/bytes.h"
#include "code/object/bundle.h"

enum {
	WALK_DEPTH = 4,   // containers in containers
	WALK_NAME = 1024, // of a target
};

struct walk {
	const struct code_finder *finder;
	const struct file *f;
	const char *inside; // problems begin with it: it says in which unpacked bytes the place is
	bool unpacked;
	size_t problems;
	uint64_t objects_left; // bytes that may still be handed over, since objects may share bytes without end
	uint64_t unpack_left;
	uint8_t *window;
	uint64_t window_at;
	size_t window_size;
};

/** A part of the file, and what its container says of it. */
struct stretch {
	uint64_t begin, end;
	struct str target;
	unsigned depth;
};

/** What was unpacked of @s is walked like a file of its own. @inside begins its problems; @offload: it is an offload binary, not containers. */
void walk_unpacked(struct walk *w, struct stretch s, const char *inside, struct str bytes, bool offload);
void walk_problem(struct walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** @want bytes (at most 64 KB) from @at on; fewer where @end or the file comes first. They are valid until the next call. */
struct str walk_peek(struct walk *w, uint64_t at, uint64_t end, size_t want);

/** Whether it is credible that @packed bytes unpack to @size. If so, they are counted against what may be unpacked. */
bool walk_may_unpack(struct walk *w, uint64_t packed, uint64_t size);

/** A whole file: a program, an archive, a code object, or anything that contains bundles. */
void walk_whole(struct walk *w, struct stretch s);
/** Containers one after the other. @name: what @s is, if it holds nothing but containers; NULL: they may be anywhere in it. */
void walk_containers(struct walk *w, struct stretch s, const char *name);
/** An image at @s, where its container says that it lies. @what names its place in the container. */
void walk_image(struct walk *w, struct stretch s, const char *what);

// Each of these takes what begins at s.begin and returns where it ends; s.begin if it is not of this kind. @sure: it has to be, so
// anything else is damage.
uint64_t walk_elf(struct walk *w, struct stretch s, bool sure);
uint64_t walk_offload_binary(struct walk *w, struct stretch s, bool sure);
uint64_t walk_compressed(struct walk *w, struct stretch s, bool sure);
/** A host program and an archive. They are taken apart only if they are a whole file. */
void walk_host(struct walk *w, struct stretch s);
void walk_archive(struct walk *w, struct stretch s);
void walk_hand_over(struct walk *w, struct stretch s);

#define ELF_MAGIC S("\177ELF")
#define ARCHIVE_MAGIC S("!<arch>\n")
#define OFFLOAD_MAGIC S("\x10\xff\x10\xad")
#define BUNDLE_MAGIC S("__CLANG_OFFLOAD_BUNDLE__")
#define COMPRESSED_MAGIC S("CCOB")

/** Whether @size bytes at @offset from @s.begin lie in @s. */
static inline bool inside(struct stretch s, uint64_t offset, uint64_t size)
{
	return offset <= s.end - s.begin && size <= s.end - s.begin - offset;
}
static inline uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }
