// Between the files that read the journal: what is called of libsystemd or of our own reader, what is asked of the child, and what that sends.
#pragma once

#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include "base/door/library.h"
#include "source/feed.h"
#include "source/source.h"

// clang-format off
#define JOURNAL_CALLS(call) \
	call(sd_journal_open) call(sd_journal_close) call(sd_journal_open_directory_fd) call(sd_journal_open_files_fd) \
	call(sd_journal_add_match) call(sd_journal_flush_matches) call(sd_journal_next) call(sd_journal_previous) \
	call(sd_journal_seek_tail) call(sd_journal_seek_head) call(sd_journal_seek_monotonic_usec) \
	call(sd_journal_seek_cursor) call(sd_journal_get_cursor) call(sd_journal_get_data) \
	call(sd_journal_get_monotonic_usec) call(sd_journal_get_realtime_usec)
// clang-format on

struct journal_api {
	LIBRARY_API(JOURNAL_CALLS)
};

/** unhang's own reader. */
extern const struct journal_api journal_files;
/** Whether a file has a form that only libsystemd may know. */
bool journal_files_foreign(const sd_journal *j);
/** Whether something could not be read that may have entries of this time (microseconds); @ret gets a sentence of it. */
bool journal_files_unread(const sd_journal *j, uint64_t from, uint64_t until, struct text *ret);
/** One file that lies in memory; NULL: it is no journal. */
sd_journal *journal_of_bytes(struct str bytes);

enum { JOURNAL_BOOTS = 512, MESSAGE_MOST = 64 << 10 };

struct journal_wanted {
	const char *root;          // of another machine; NULL: this one
	const struct named *named; // one file
	bool count;                // the boots only
	int boot;
	int past_ms;                     // that boot and all before it, for so long of a processor; 0: that boot only
	const char *from_boot, *or_boot; // from a time on, over all boots
	int64_t from_us;
	const struct source_boots *told; // all boots
};

/** What the child sends. */
enum journal_piece { RECORDS = FEED_KINDS, RECORD, PROBLEM, BOOTS, BOOT, BOOT_LINE, ENTRY, CUT, BOOT_READ };

static inline struct str journal_bytes_of(const void *p, size_t n) { return (struct str){ p, n }; }
#define SENT(room)                                                                                                             \
	{                                                                                                                      \
		(room), strnlen((room), sizeof(room))                                                                          \
	}

/** The child's work. @ctx: struct journal_wanted. */
void journal_child(int to, const void *ctx);
/** In the child: a field of the entry, valid until the next one is asked for; empty. */
struct str journal_field(const struct journal_api *api, sd_journal *j, const char *field);
/** Whether the entry is the kernel's own: programs can write into the kernel's log, but not as the kernel. */
bool journal_by_kernel(const struct journal_api *api, sd_journal *j);
struct str journal_boot_text(sd_id128_t id, char ret[static 33]);
/** From now on only entries of this boot with all of these count; a field may have several values. */
void journal_match(const struct journal_api *api, sd_journal *j, sd_id128_t id, const char *const *others);
void journal_match_kernel(const struct journal_api *api, sd_journal *j, sd_id128_t id);
/** Tells all boots. */
void journal_tell(const struct journal_api *api, sd_journal *j, const struct source_boots *w, int to);
/** In unhang: the error that a PROBLEM is. */
struct uh_error *journal_problem(struct str piece);
