// The journal, through libsystemd, which is loaded only when needed: a machine without systemd does without it. The library maps files,
// and a file that is truncated under a mapping kills its reader. So it works in a child.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/library.h"
#include "source/feed.h"
#include "source/source.h"

enum { BOOTS_MAX = 512, MESSAGE_MOST = 64 << 10 };

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

static struct uh_error *journal_load(struct journal_api *api)
{
	api->library = NULL;
	const char *lacks = LIBRARY_LOAD(api, JOURNAL_CALLS, "libsystemd.so.0");
	if (!api->library)
		return uh_error_new("the journal: libsystemd is not on this machine");
	return lacks ? uh_error_new("the journal: libsystemd lacks %s", lacks) : NULL;
}

static struct str journal_journal_field(const struct journal_api *api, sd_journal *j, const char *field)
{
	const void *data;
	size_t n;
	if (api->sd_journal_get_data(j, field, &data, &n) < 0)
		return (struct str){ 0 };
	return str_from((struct str){ data, n }, strlen(field) + 1);
}

// --- in the child ---

enum { RECORDS = FEED_KINDS, RECORD, PROBLEM, BOOTS };

/** What stands before the text of a record that is sent. */
struct sent_record {
	double boot_seconds, wall_seconds;
	bool kernel;
	char boot_id[33], subsystem[32], device[80]; // the kernel's own bounds are 16 and 48
};

static struct str journal_bytes_of(const void *p, size_t n) { return (struct str){ p, n }; }

static void journal_send_records(const struct journal_api *api, sd_journal *j, const char *name, int to)
{
	feed_send(to, RECORDS, str_z(name), S(""));
	while (api->sd_journal_next(j) > 0) {
		struct sent_record out = { .boot_seconds = -1, .wall_seconds = -1 };
		uint64_t usec;
		int64_t source_usec, facility;
		sd_id128_t boot;
		if (api->sd_journal_get_realtime_usec(j, &usec) >= 0)
			out.wall_seconds = (double)usec / 1e6;
		if (api->sd_journal_get_monotonic_usec(j, &usec, &boot) >= 0)
			out.boot_seconds = (double)usec / 1e6;
		// Each field is valid only until the next one is asked for, so what is kept is copied.
		if (str_number(journal_journal_field(api, j, "_SOURCE_MONOTONIC_TIMESTAMP"), &source_usec))
			out.boot_seconds = (double)source_usec / 1e6;
		struct str id = journal_journal_field(api, j, "_BOOT_ID");
		if (id.n == sizeof(out.boot_id) - 1)
			memcpy(out.boot_id, id.p, id.n);
		str_copy(out.subsystem, sizeof(out.subsystem), journal_journal_field(api, j, "_KERNEL_SUBSYSTEM"));
		str_copy(out.device, sizeof(out.device), journal_journal_field(api, j, "_KERNEL_DEVICE"));
		// Programs can write into the kernel's log, but not as the kernel.
		out.kernel = !str_number(journal_journal_field(api, j, "SYSLOG_FACILITY"), &facility) || !facility;
		struct str text = journal_journal_field(api, j, "MESSAGE");
		if (text.n)
			feed_send(to, RECORD, journal_bytes_of(&out, sizeof(out)), str_cut(text, MESSAGE_MOST));
	}
}

/** The boots in the journal, newest last, by walking back from its end one boot at a time. */
static size_t boot_list(const struct journal_api *api, sd_journal *j, sd_id128_t *boots, size_t max)
{
	size_t n = 0;
	api->sd_journal_flush_matches(j);
	api->sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
	api->sd_journal_seek_tail(j);
	while (n < max && api->sd_journal_previous(j) > 0) {
		uint64_t usec;
		sd_id128_t boot;
		if (api->sd_journal_get_monotonic_usec(j, &usec, &boot) < 0)
			break;
		if (n && !memcmp(&boots[n - 1], &boot, sizeof(boot)))
			break; // it does not go back any further
		boots[n++] = boot;
		// To the first message of this boot, then one back.
		api->sd_journal_seek_monotonic_usec(j, boot, 0);
		if (api->sd_journal_next(j) <= 0)
			break;
	}
	for (size_t i = 0; i < n / 2; i++) {
		sd_id128_t swap = boots[i];
		boots[i] = boots[n - 1 - i];
		boots[n - 1 - i] = swap;
	}
	return n;
}

struct journal_wanted {
	const char *root;          // of another machine; NULL: this one
	const struct named *named; // one file
	bool count;                // the boots only
	int boot;
	const char *from_boot, *or_boot; // from a time on, over all boots
	int64_t from_us;
};

/** As for every file that was named, what was opened is judged by its descriptor. */
static struct uh_error *journal_open(const struct journal_api *api, const struct journal_wanted *w, sd_journal **ret)
{
	struct opened o;
	const struct named directory = { .path = "/var/log/journal", .root = w->root };
	if (!w->named && !w->root) {
		int r = api->sd_journal_open(ret, SD_JOURNAL_LOCAL_ONLY);
		return r < 0 ? uh_error_os(-r, "the journal") : NULL;
	}
	_cleanup_error_ struct uh_error *err = named_open(w->named ? w->named : &directory, false, &o);
	int r = err ? -err->errnum : -EINVAL;
	if (!err && o.fd >= 0)
		r = w->named ? api->sd_journal_open_files_fd(ret, &o.fd, 1, 0) :
			       api->sd_journal_open_directory_fd(ret, o.fd, 0);
	if (r >= 0)
		return NULL;
	return w->named ? uh_error_os(-r, "%s%s%s", w->named->path, w->named->below ? "/" : "",
				      w->named->below ? w->named->below : "") :
			  uh_error_os(-r, "the journal in %s/var/log/journal%s", w->root, err ? " (not there)" : "");
}

static void match_boot(const struct journal_api *api, sd_journal *j, sd_id128_t id)
{
	_cleanup_text_ struct text match = { 0 };
	text_printf(&match, "_BOOT_ID=");
	for (size_t i = 0; i < sizeof(id.bytes); i++)
		text_printf(&match, "%02x", id.bytes[i]);
	api->sd_journal_flush_matches(j);
	api->sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
	api->sd_journal_add_match(j, match.p, 0);
}

static struct uh_error *one_boot(const struct journal_api *api, sd_journal *j, int boot, int to)
{
	_cleanup_free_ sd_id128_t *boots = mem_alloc(BOOTS_MAX * sizeof(*boots));
	size_t n = boot_list(api, j, boots, BOOTS_MAX);
	if (!n)
		return uh_error_new("the journal has no kernel messages that this user can read; use sudo, or join the group "
				    "systemd-journal");
	if (boot > 0 || (size_t)-boot >= n)
		return uh_error_new("the journal knows %zu boots; there is no boot %d", n, boot);
	match_boot(api, j, boots[n - 1 - (size_t)-boot]);
	api->sd_journal_seek_head(j);
	char name[64];
	snprintf(name, sizeof(name), "journal (boot %d)", boot);
	journal_send_records(api, j, name, to);
	return NULL;
}

/** Dashes may stand between its digits. */
static bool boot_of_text(const char *text, sd_id128_t *ret)
{
	size_t n = 0;
	for (*ret = (sd_id128_t){ 0 }; *text; text++) {
		const char *digits = "0123456789abcdef", *digit = strchr(digits, *text);
		if (*text == '-')
			continue;
		if (!digit || n == 2 * sizeof(ret->bytes))
			return false;
		ret->bytes[n / 2] = (uint8_t)(ret->bytes[n / 2] << 4 | (digit - digits));
		n++;
	}
	return n == 2 * sizeof(ret->bytes);
}

/** The next record is the first of that boot from @us on, or else its last one; behind it come all later boots. A file that does not know
 * the boot would begin at its own head, so that the place is looked up among the boot's own records. false: nobody knows it. */
static bool journal_go_to(const struct journal_api *api, sd_journal *j, const char *boot, int64_t us)
{
	sd_id128_t id;
	_cleanup_free_ char *cursor = NULL;
	if (!boot_of_text(boot, &id))
		return false;
	match_boot(api, j, id);
	api->sd_journal_seek_monotonic_usec(j, id, us > 0 ? (uint64_t)us : 0);
	if (api->sd_journal_next(j) <= 0) {
		api->sd_journal_seek_tail(j);
		if (api->sd_journal_previous(j) <= 0)
			return false;
	}
	if (api->sd_journal_get_cursor(j, &cursor) < 0)
		return false;
	api->sd_journal_flush_matches(j);
	api->sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
	return api->sd_journal_seek_cursor(j, cursor) >= 0;
}

static struct uh_error *journal_read_journal(const struct journal_wanted *w, int to)
{
	struct journal_api api;
	sd_journal *j;
	struct uh_error *err = journal_load(&api);
	if (!err)
		err = journal_open(&api, w, &j);
	if (err)
		return err;
	if (w->count) {
		_cleanup_free_ sd_id128_t *boots = mem_alloc(BOOTS_MAX * sizeof(*boots));
		uint32_t n = (uint32_t)boot_list(&api, j, boots, BOOTS_MAX);
		feed_send(to, BOOTS, journal_bytes_of(&n, sizeof(n)), S(""));
	} else if (w->named) {
		api.sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
		api.sd_journal_seek_head(j);
		journal_send_records(&api, j, w->named->path, to);
	} else if (w->from_boot) {
		if (journal_go_to(&api, j, w->from_boot, w->from_us) || journal_go_to(&api, j, w->or_boot, 0))
			journal_send_records(&api, j, "journal", to);
	} else {
		err = one_boot(&api, j, w->boot, to);
	}
	api.sd_journal_close(j);
	return err;
}

static void journal_child(int to, const void *ctx)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_keep_only(to);
	_cleanup_error_ struct uh_error *err = journal_read_journal(ctx, to);
	if (err)
		feed_send(to, PROBLEM, journal_bytes_of(&err->errnum, sizeof(err->errnum)),
			  str_cut(str_z(err->message), MESSAGE_MOST));
}

// --- in unhang ---

#define SENT(room)                                                                                                             \
	{                                                                                                                      \
		(room), strnlen((room), sizeof(room))                                                                          \
	}

static void journal_take_record(struct str piece, const char *name, const struct source_visitor *v)
{
	struct sent_record sent;
	if (piece.n < sizeof(sent))
		return;
	memcpy(&sent, piece.p, sizeof(sent));
	const struct source_record out = { .text = str_from(piece, sizeof(sent)),
					   .boot_id = SENT(sent.boot_id),
					   .boot_seconds = sent.boot_seconds,
					   .wall_seconds = sent.wall_seconds,
					   .by = { sent.kernel ? WRITER_KERNEL : WRITER_INTO_LOG, SENT(sent.subsystem),
						   SENT(sent.device) } };
	v->record(v->ctx, name, &out);
}

/** Records go to @v; the number of boots to *ret_boots, where that is asked for. @name: of the source; NULL: as the child says. */
static struct uh_error *journal_run(const struct journal_wanted *w, const char *name, const struct source_visitor *v,
				    int *ret_boots)
{
	struct feed feed;
	struct str piece;
	_cleanup_text_ struct text title = { 0 };
	struct uh_error *err = feed_begin(&feed, CHILD_JOURNAL, name ? name : "the journal", journal_child, w), *told = NULL;
	if (err)
		return err;
	for (int kind; (kind = feed_next(&feed, &piece, &err)) > 0;) {
		if (kind == RECORDS && !title.n) {
			text_printf(&title, STR_FMT, STR_ARG(name ? str_z(name) : piece));
			v->record(v->ctx, title.p, NULL);
		} else if (kind == RECORD && title.n) {
			journal_take_record(piece, title.p, v);
		} else if (kind == PROBLEM && !told) {
			told = uh_error_new(STR_FMT, STR_ARG(str_from(piece, sizeof(told->errnum))));
			memcpy(&told->errnum, piece.p, str_cut(piece, sizeof(told->errnum)).n);
		} else if (kind == BOOTS && ret_boots && piece.n == sizeof(uint32_t)) {
			memcpy(ret_boots, piece.p, piece.n);
		}
	}
	if (title.n)
		v->record(v->ctx, NULL, NULL);
	feed_end(&feed);
	if (!told)
		return err;
	uh_error_free(err);
	return told;
}

int source_journal_boots(const char *root)
{
	int boots = 0;
	door_forget(journal_run(&(struct journal_wanted){ .root = root, .count = true }, NULL, NULL, &boots));
	return boots;
}

struct uh_error *source_journal(const char *root, int boot, const struct source_visitor *v)
{
	return journal_run(&(struct journal_wanted){ .root = root, .boot = boot }, NULL, v, NULL);
}

struct uh_error *source_journal_since(const char *boot, int64_t us, const char *or_boot, const struct source_visitor *v)
{
	const struct journal_wanted w = { .from_boot = boot, .from_us = us, .or_boot = or_boot };
	return journal_run(&w, NULL, v, NULL);
}

struct uh_error *source_journal_file(const struct named *n, const char *path, const struct source_visitor *v)
{
	return journal_run(&(struct journal_wanted){ .named = n }, path, v, NULL);
}
