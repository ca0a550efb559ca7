// What the journal tells of all boots at once: when each began and ended, whether in order, and which of its first lines have a mark.
#include "source/journal.h"

#include <stdio.h>
#include <time.h>

#include "base/arena.h"
#include "base/door/caller.h"
#include "base/error.h"

// --- in the child ---

/** The first or last entry that matches, and its time; false: there is none. */
static bool journal_end_of(const struct journal_api *api, sd_journal *j, bool last, double *ret)
{
	uint64_t usec;
	const int there = (last ? api->sd_journal_seek_tail : api->sd_journal_seek_head)(j) < 0 ? -1 :
			  last                                                                  ? api->sd_journal_previous(j) :
												  api->sd_journal_next(j);
	if (there <= 0 || api->sd_journal_get_realtime_usec(j, &usec) < 0)
		return false;
	*ret = (double)usec / 1e6;
	return true;
}

/** journald's own last words, logind's, or a target that only a shutdown reaches, near its last entry: journald is also restarted at other
 * times, and its last words are lost where /var is gone before it ends. Who wrote them is what journald itself attests: anybody may send
 * such a MESSAGE_ID, and programs of root do in containers. */
static bool ended_cleanly(const struct journal_api *api, sd_journal *j, sd_id128_t id, double end)
{
	enum { NEAR_S = 180 };
	static const char *const stopped[] = { "MESSAGE_ID=d93fb3c9c24d451a97cea615ce59c00b", "_TRANSPORT=driver", NULL };
	static const char *const logind[] = { "MESSAGE_ID=98268866d1d54a499c4e98921d93bc40",
					      "_SYSTEMD_UNIT=systemd-logind.service", "_UID=0", "_TRANSPORT=journal", NULL };
	static const char *const targets[] = { "UNIT=reboot.target",
					       "UNIT=poweroff.target",
					       "UNIT=halt.target",
					       "UNIT=shutdown.target",
					       "UNIT=kexec.target",
					       "UNIT=final.target",
					       "UNIT=soft-reboot.target",
					       "_PID=1",
					       "_UID=0",
					       "_TRANSPORT=journal",
					       NULL };
	const char *const *const ways[] = { stopped, logind, targets };
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		double at;
		journal_match(api, j, id, ways[i]);
		if (journal_end_of(api, j, true, &at) && end - at < NEAR_S)
			return true;
	}
	return false;
}

static bool journal_has_mark(struct str text, const char *const *marks)
{
	while (*marks && str_find(text, str_z(*marks)) < 0)
		marks++;
	return *marks;
}

/** The kernel's lines up to when its drivers have started, mostly a thousand. */
static void journal_tell_lines(const struct journal_api *api, sd_journal *j, const struct source_boots *w, int to)
{
	enum { LINES_MOST = 3000 };
	for (unsigned n = 0; n < LINES_MOST; n++) {
		if (journal_has_mark(journal_field(api, j, "MESSAGE"), w->marks) && journal_by_kernel(api, j))
			feed_send(to, BOOT_LINE, str_cut(journal_field(api, j, "MESSAGE"), MESSAGE_MOST), S(""));
		if (api->sd_journal_next(j) <= 0)
			break;
	}
}

struct sent_boot {
	double begin, end;
	bool log, clean;
	char id[33];
};

/** The entry before those of this boot; then @j stands there. */
static bool boot_before(const struct journal_api *api, sd_journal *j, sd_id128_t id)
{
	static const char *const all[] = { NULL };
	_cleanup_free_ char *cursor = NULL;
	double begin;
	journal_match(api, j, id, all);
	if (!journal_end_of(api, j, false, &begin) || api->sd_journal_get_cursor(j, &cursor) < 0)
		return false;
	api->sd_journal_flush_matches(j);
	return api->sd_journal_seek_cursor(j, cursor) >= 0 && api->sd_journal_next(j) > 0 && api->sd_journal_previous(j) > 0;
}

static void tell_boot(const struct journal_api *api, sd_journal *j, const struct source_boots *w, sd_id128_t id, int to)
{
	static const char *const all[] = { NULL };
	struct sent_boot out = { 0 };
	double first;
	journal_boot_text(id, out.id);
	journal_match(api, j, id, all);
	if (!journal_end_of(api, j, false, &out.begin) || !journal_end_of(api, j, true, &out.end))
		return;
	out.clean = ended_cleanly(api, j, id, out.end);
	journal_match_kernel(api, j, id);
	out.log = journal_end_of(api, j, false, &first);
	feed_send(to, BOOT, journal_bytes_of(&out, sizeof(out)), S(""));
	if (out.log)
		journal_tell_lines(api, j, w, to);
}

static void tell_boots(const struct journal_api *api, sd_journal *j, const struct source_boots *w, int to)
{
	const clock_t deadline = clock() + w->milliseconds * (CLOCKS_PER_SEC / 1000);
	_cleanup_free_ sd_id128_t *seen = mem_alloc(JOURNAL_BOOTS * sizeof(*seen));
	uint64_t usec;
	sd_id128_t id;
	api->sd_journal_flush_matches(j);
	api->sd_journal_seek_tail(j);
	bool more = api->sd_journal_previous(j) > 0;
	for (size_t n = 0; more && api->sd_journal_get_monotonic_usec(j, &usec, &id) >= 0; n++) {
		// A clock that was set back mixes boots up: one that was told before is the end.
		if (list_find(seen, n, it, !memcmp(it, &id, sizeof(id))))
			return;
		if (n == JOURNAL_BOOTS || clock() >= deadline) {
			feed_send(to, CUT, S(""), S(""));
			return;
		}
		seen[n] = id;
		tell_boot(api, j, w, id, to);
		more = boot_before(api, j, id);
	}
}

enum { FIELD_MOST = 1000, ENTRIES_MOST = 4096, FIELDS = ARRAY_SIZE(((struct source_entries *)NULL)->fields) };

struct sent_entry {
	unsigned kind; // place in the list
	double when;
};

/** The values of the fields, each behind a NUL. */
static void tell_entries(const struct journal_api *api, sd_journal *j, const struct source_entries *e, unsigned kind, int to)
{
	char caller[32];
	snprintf(caller, sizeof(caller), "_UID=%u", (unsigned)caller_uid());
	api->sd_journal_flush_matches(j);
	api->sd_journal_add_match(j, e->message, 0);
	api->sd_journal_add_match(j, "_UID=0", 0); // other users speak for themselves only
	api->sd_journal_add_match(j, caller, 0);
	api->sd_journal_seek_head(j);
	for (unsigned n = 0; n < ENTRIES_MOST && api->sd_journal_next(j) > 0; n++) {
		_cleanup_text_ struct text values = { 0 };
		uint64_t usec;
		if (api->sd_journal_get_realtime_usec(j, &usec) < 0)
			continue;
		const struct sent_entry out = { kind, (double)usec / 1e6 };
		for (size_t i = 0; i < FIELDS; i++) {
			text_add(&values, (struct str){ "", 1 });
			if (e->fields[i])
				text_add(&values, str_cut(journal_field(api, j, e->fields[i]), FIELD_MOST));
		}
		feed_send(to, ENTRY, journal_bytes_of(&out, sizeof(out)), text_str(&values));
	}
}

void journal_tell(const struct journal_api *api, sd_journal *j, const struct source_boots *w, int to)
{
	tell_boots(api, j, w, to);
	for (unsigned i = 0; w->entries && w->entries[i].message; i++)
		tell_entries(api, j, &w->entries[i], i, to);
}

// --- in unhang ---

static void journal_take_told(const struct source_boots *w, int kind, struct str piece)
{
	struct sent_boot b;
	struct sent_entry e;
	if (kind == BOOT && piece.n == sizeof(b)) {
		memcpy(&b, piece.p, sizeof(b));
		w->boot(w->ctx, &(struct source_boot){ SENT(b.id), b.begin, b.end, b.log, b.clean });
	} else if (kind == BOOT_LINE) {
		w->line(w->ctx, piece);
	} else if (kind == ENTRY && piece.n > sizeof(e)) {
		struct str values[FIELDS], rest = str_from(piece, sizeof(e) + 1);
		memcpy(&e, piece.p, sizeof(e));
		for (size_t i = 0; i < FIELDS; i++)
			values[i] = str_split(&rest, 0);
		w->entries[e.kind].take(w->ctx, e.when, values);
	}
}

struct uh_error *source_journal_told(const char *root, const struct source_boots *w, bool *ret_cut)
{
	struct feed feed;
	struct str piece;
	const struct journal_wanted wanted = { .root = root, .told = w };
	struct uh_error *err = feed_begin(&feed, CHILD_JOURNAL, "the journal", journal_child, &wanted), *told = NULL;
	*ret_cut = false;
	if (err)
		return err;
	for (int kind; (kind = feed_next(&feed, &piece, &err)) > 0;) {
		*ret_cut |= kind == CUT;
		if (kind == PROBLEM && !told)
			told = journal_problem(piece);
		else
			journal_take_told(w, kind, piece);
	}
	feed_end(&feed);
	if (!told)
		return err;
	uh_error_free(err);
	return told;
}
