// A bundle: the evidence of one capture in one file, a .tar.zst whose first member is its manifest. It may come from anybody, so a child
// unpacks it, and one that is not as a capture writes them is refused as a whole, with the name of the entry.
#pragma once

#include "base/arena.h"
#include "base/door/named.h"
#include "base/error.h"

#define BUNDLE_MANIFEST "manifest.json"
#define BUNDLE_SCHEMA "unhang/capture/1"
#define BUNDLE_TRACKS "answers/" // the tracks of a tape
#define BUNDLE_LOG "log"         // the track with the kernel's logs
#define BUNDLE_CHANGES "changes" // the track with what was updated or set, and the boots
#define BUNDLE_DUMPS "devcoredump/"
#define BUNDLE_CRASH "crash/" // what a crash left: pstore
#define BUNDLE_RECORDINGS "recordings/"
#define BUNDLE_TOOLS "tools/" // what other programs said

enum { BUNDLE_ENTRIES_MOST = 4096, BUNDLE_NAME_MOST = 200 };

struct bundle_member {
	struct str name;
	char *bytes;
	size_t n, cap;
};

struct bundle {
	struct arena arena;
	VEC(struct bundle_member) members;
};

/** Reads it. *@ret is NULL without an error where the file is something else. @name: what it is called in messages. */
struct uh_error *bundle_open(const struct named *n, const char *name, struct bundle **ret);
/** The same of a file that is open, for who may not open it. */
struct uh_error *bundle_read(int fd, const char *name, struct bundle **ret);
/** The same of a tar that is unpacked already. */
struct uh_error *bundle_of_bytes(struct str bytes, const char *name, struct bundle **ret);
void bundle_free(struct bundle *b);
/** The member with this name; NULL. */
const struct bundle_member *bundle_member(const struct bundle *b, struct str name);

/** What is wrong with the name of an entry, as a phrase; NULL: nothing. */
const char *bundle_name_wrong(struct str name);
