// The journal, through journal/files.c, or through libsystemd where that does not know the form of a file. Both map files,
// and a file that is truncated under a mapping kills its reader. So it works in a child.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/lifetime.h"
#include "source/journal.h"
#include "source/process.h"

struct str journal_field(const struct journal_api *api, sd_journal *j, const char *field)
{
	const void *data;
	size_t n;
	if (api->sd_journal_get_data(j, field, &data, &n) < 0)
		return (struct str){ 0 };
	return str_from((struct str){ data, n }, strlen(field) + 1);
}

bool journal_by_kernel(const struct journal_api *api, sd_journal *j)
{
	int64_t facility;
	return !str_number(journal_field(api, j, "SYSLOG_FACILITY"), &facility) || !facility;
}

// --- in the child ---

/** What stands before the text of a record that is sent. */
struct sent_record {
	double boot_seconds, wall_seconds;
	bool kernel;
	char boot_id[33], subsystem[32], device[80]; // the kernel's own bounds are 16 and 48
};

/** How much of what was asked for could be read. */
enum journal_read { READ_WHOLE, READ_DAMAGED, READ_LATE };

static enum journal_read journal_send_damage(int to, struct str text)
{
	const int why = EBADMSG;
	feed_send(to, PROBLEM, journal_bytes_of(&why, sizeof(why)), text);
	return READ_DAMAGED;
}

/** Tells where part of the journal of this time could not be read. */
static enum journal_read journal_tell_damage(const struct journal_api *api, const sd_journal *j, uint64_t from, uint64_t until,
					     int to)
{
	_cleanup_text_ struct text told = { 0 };
	const bool own = api->sd_journal_next == journal_files.sd_journal_next;
	return own && journal_files_unread(j, from, until, &told) ? journal_send_damage(to, text_str(&told)) : READ_WHOLE;
}

/** No kernel writes so long a line, and no more of one is looked at (evidence/log/line.h): what hides behind it was not read. */
enum { KERNEL_LINE_MOST = 4096 };

/** READ_LATE: this process has worked until @until (0: without end). */
static enum journal_read journal_send_records(const struct journal_api *api, sd_journal *j, const char *name, clock_t until,
					      int to)
{
	enum { BETWEEN = 64 }; // looks at the clock
	uint64_t first = 0, last = UINT64_MAX;
	bool longer = false;
	feed_send(to, RECORDS, str_z(name), S(""));
	for (unsigned n = 0; api->sd_journal_next(j) > 0; n++) {
		struct sent_record out = { .boot_seconds = -1, .wall_seconds = -1 };
		uint64_t usec;
		int64_t source_usec;
		sd_id128_t boot;
		if (api->sd_journal_get_realtime_usec(j, &usec) >= 0) {
			out.wall_seconds = (double)usec / 1e6;
			first = n ? first : usec;
			last = usec;
		}
		if (api->sd_journal_get_monotonic_usec(j, &usec, &boot) >= 0)
			out.boot_seconds = (double)usec / 1e6;
		// Each field is valid only until the next one is asked for, so what is kept is copied.
		if (str_number(journal_field(api, j, "_SOURCE_MONOTONIC_TIMESTAMP"), &source_usec))
			out.boot_seconds = (double)source_usec / 1e6;
		struct str id = journal_field(api, j, "_BOOT_ID");
		if (id.n == sizeof(out.boot_id) - 1)
			memcpy(out.boot_id, id.p, id.n);
		str_copy(out.subsystem, sizeof(out.subsystem), journal_field(api, j, "_KERNEL_SUBSYSTEM"));
		str_copy(out.device, sizeof(out.device), journal_field(api, j, "_KERNEL_DEVICE"));
		out.kernel = journal_by_kernel(api, j);
		struct str text = journal_field(api, j, "MESSAGE");
		longer |= out.kernel && text.n > KERNEL_LINE_MOST;
		if (text.n)
			feed_send(to, RECORD, journal_bytes_of(&out, sizeof(out)), str_cut(text, MESSAGE_MOST));
		if (until && n % BETWEEN == 0 && clock() > until)
			return READ_LATE;
	}
	if (longer)
		return journal_send_damage(
			to, S("the journal has a line of the kernel that is too long; only its beginning was read"));
	return journal_tell_damage(api, j, first, last, to);
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

/** Where the journal of another machine's tree is: beside it may lie those of containers, and of machines that sent theirs. */
static const char *journal_directory(const char *root, char room[static 96])
{
	char text[64] = "";
	struct opened o;
	const struct named of_id = { .path = "/etc/machine-id", .root = root };
	snprintf(room, 96, "/var/log/journal");
	if (!root)
		return room;
	_cleanup_error_ struct uh_error *err = named_open(&of_id, false, &o), *lacks = NULL;
	const ssize_t n = err || o.fd < 0 ? 0 : read(o.fd, text, sizeof(text) - 1);
	const struct str id = str_trim((struct str){ text, n > 0 ? (size_t)n : 0 });
	if (!err)
		cleanup_close(&o.fd);
	if (id.n != 32 || str_run(id, char_hex) != id.n)
		return room;
	snprintf(room, 96, "/var/log/journal/" STR_FMT, STR_ARG(id));
	lacks = named_open(&(struct named){ .path = room, .root = root }, false, &o);
	if (!lacks)
		cleanup_close(&o.fd);
	else
		snprintf(room, 96, "/var/log/journal");
	return room;
}

/** As for every file that was named, what was opened is judged by its descriptor. */
static struct uh_error *journal_open_with(const struct journal_api *api, const struct journal_wanted *w, sd_journal **ret)
{
	struct opened o;
	char path[96];
	const struct named directory = { .path = journal_directory(w->root, path), .root = w->root };
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

/** What libsystemd unpacks has no bounds of its own. */
static void limit_library(void)
{
	enum { LIBRARY_BYTES = 1 << 30, LIBRARY_SECONDS = 600 };
	if (ADDRESSES_CHECKED) // the sanitizer's shadow is larger than any limit
		return;
	setrlimit(RLIMIT_DATA, &(struct rlimit){ LIBRARY_BYTES, LIBRARY_BYTES });
	setrlimit(RLIMIT_CPU, &(struct rlimit){ LIBRARY_SECONDS, LIBRARY_SECONDS });
}

/** libsystemd passes over damage in silence, and follows links out of another machine's tree; but it knows what the newest journald writes. */
static struct uh_error *journal_open(struct journal_api *api, const struct journal_wanted *w, sd_journal **ret)
{
	const struct str asked = str_z(secure_getenv("UNHANG_JOURNAL"));
	*api = journal_files;
	struct uh_error *err = journal_open_with(api, w, ret);
	const bool foreign = err ? err->errnum == EPROTONOSUPPORT : journal_files_foreign(*ret);
	if (!str_is(asked, "libsystemd") && (w->root || !foreign || str_is(asked, "files")))
		return err;
	struct journal_api library = { 0 };
	if (LIBRARY_LOAD(&library, JOURNAL_CALLS, "libsystemd.so.0"))
		return err;
	if (!err)
		api->sd_journal_close(*ret);
	uh_error_free(err);
	*api = library;
	limit_library();
	return journal_open_with(api, w, ret);
}

struct str journal_boot_text(sd_id128_t id, char ret[static 33])
{
	for (size_t i = 0; i < sizeof(id.bytes); i++)
		snprintf(ret + 2 * i, 3, "%02x", id.bytes[i]);
	return (struct str){ ret, 32 };
}

void journal_match(const struct journal_api *api, sd_journal *j, sd_id128_t id, const char *const *others)
{
	char match[64] = "_BOOT_ID=";
	journal_boot_text(id, match + strlen(match));
	api->sd_journal_flush_matches(j);
	api->sd_journal_add_match(j, match, 0);
	for (; *others; others++)
		api->sd_journal_add_match(j, *others, 0);
}

void journal_match_kernel(const struct journal_api *api, sd_journal *j, sd_id128_t id)
{
	static const char *const by_kernel[] = { "_TRANSPORT=kernel", NULL };
	journal_match(api, j, id, by_kernel);
}

static bool boot_has_lines(const struct journal_api *api, sd_journal *j, sd_id128_t id)
{
	journal_match_kernel(api, j, id);
	api->sd_journal_seek_head(j);
	return api->sd_journal_next(j) > 0;
}

static enum journal_read send_boot(const struct journal_api *api, sd_journal *j, sd_id128_t id, int number, clock_t until,
				   int to)
{
	char name[64];
	if (!boot_has_lines(api, j, id)) // though the boot is known by a record of the kernel
		return journal_send_damage(to, S("part of the journal is damaged, and was not read"));
	api->sd_journal_seek_head(j);
	snprintf(name, sizeof(name), "journal (boot %d)", number);
	return journal_send_records(api, j, name, until, to);
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

/** As boot_list(); of this machine the one that runs is the last, also where the journal has nothing of it. */
static size_t boots_known(const struct journal_api *api, sd_journal *j, const struct journal_wanted *w,
			  sd_id128_t boots[static JOURNAL_BOOTS])
{
	char room[64];
	sd_id128_t runs;
	const size_t n = boot_list(api, j, boots, JOURNAL_BOOTS - 1);
	const struct str id = source_boot_id(room);
	room[id.n] = 0;
	if (!n || w->root || !id.n || !boot_of_text(id.p, &runs) || list_find(boots, n, it, !memcmp(it, &runs, sizeof(runs))))
		return n;
	boots[n] = runs;
	return n + 1;
}

static struct uh_error *send_boots(const struct journal_api *api, sd_journal *j, const struct journal_wanted *w, int to)
{
	int boot = w->boot;
	const clock_t until = w->past_ms ? clock() + w->past_ms * (CLOCKS_PER_SEC / 1000) : 0;
	_cleanup_free_ sd_id128_t *boots = mem_alloc(JOURNAL_BOOTS * sizeof(*boots));
	const size_t n = boots_known(api, j, w, boots);
	if (!n && journal_tell_damage(api, j, 0, UINT64_MAX, to))
		return NULL;
	if (!n)
		return uh_error_new("the journal has no kernel messages that this user can read; use sudo, or join the group "
				    "systemd-journal");
	if (boot > 0 || (size_t)-boot >= n)
		return uh_error_new("the journal knows %zu boots; there is no boot %d", n, boot);
	if (!boot && !w->root && !boot_has_lines(api, j, boots[n - 1]))
		return uh_error_os(ENODATA, "the journal of this boot");
	for (; (size_t)-boot < n; boot--) {
		const enum journal_read read = send_boot(api, j, boots[n - 1 - (size_t)-boot], boot, until, to);
		if (!until || read == READ_LATE)
			break;
		feed_send(to, BOOT_READ, read == READ_WHOLE ? S("whole") : S("damaged"), S(""));
	}
	return NULL;
}

/** The next record is the first of that boot from @us on, or else its last one; behind it come all later boots. A file that does not know
 * the boot would begin at its own head, so that the place is looked up among the boot's own records. false: nobody knows it. */
static bool journal_go_to(const struct journal_api *api, sd_journal *j, const char *boot, int64_t us)
{
	sd_id128_t id;
	_cleanup_free_ char *cursor = NULL;
	if (!boot_of_text(boot, &id))
		return false;
	journal_match_kernel(api, j, id);
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
	struct uh_error *err = journal_open(&api, w, &j);
	if (err)
		return err;
	if (w->told) {
		journal_tell(&api, j, w->told, to);
	} else if (w->count) {
		_cleanup_free_ sd_id128_t *boots = mem_alloc(JOURNAL_BOOTS * sizeof(*boots));
		uint32_t n = (uint32_t)boots_known(&api, j, w, boots);
		if (!n)
			journal_tell_damage(&api, j, 0, UINT64_MAX, to);
		feed_send(to, BOOTS, journal_bytes_of(&n, sizeof(n)), S(""));
	} else if (w->named) {
		api.sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
		api.sd_journal_seek_head(j);
		journal_send_records(&api, j, w->named->path, 0, to);
	} else if (w->from_boot) {
		if (journal_go_to(&api, j, w->from_boot, w->from_us) || journal_go_to(&api, j, w->or_boot, 0))
			journal_send_records(&api, j, "journal", 0, to);
	} else {
		err = send_boots(&api, j, w, to);
	}
	api.sd_journal_close(j);
	return err;
}

void journal_child(int to, const void *ctx)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_keep_only(to);
	_cleanup_error_ struct uh_error *err = journal_read_journal(ctx, to);
	if (err)
		feed_send(to, PROBLEM, journal_bytes_of(&err->errnum, sizeof(err->errnum)),
			  str_cut(str_z(err->message), MESSAGE_MOST));
}

// --- in unhang ---

struct uh_error *journal_problem(struct str piece)
{
	struct uh_error *err = uh_error_new(STR_FMT, STR_ARG(str_from(piece, sizeof(err->errnum))));
	memcpy(&err->errnum, piece.p, str_cut(piece, sizeof(err->errnum)).n);
	return err;
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

/** What is not records. */
struct journal_told {
	int boots;                             // how many there are
	void (*read)(void *ctx, bool damaged); // one of several was read to its end; NULL
};

static void end_records(struct text *title, const struct source_visitor *v)
{
	if (title->n)
		v->record(v->ctx, NULL, NULL);
	text_clear(title);
}

/** Records go to @v, the rest to @ret (NULL: nowhere). @name: of the source; NULL: as the child says. */
static struct uh_error *journal_run(const struct journal_wanted *w, const char *name, const struct source_visitor *v,
				    struct journal_told *ret)
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
			told = journal_problem(piece);
		} else if (kind == BOOTS && ret && piece.n == sizeof(ret->boots)) {
			memcpy(&ret->boots, piece.p, piece.n);
		} else if (kind == BOOT_READ && ret && ret->read) {
			end_records(&title, v);
			ret->read(v->ctx, !str_is(piece, "whole"));
		}
	}
	end_records(&title, v);
	feed_end(&feed);
	if (!told)
		return err;
	uh_error_free(err);
	return told;
}

struct uh_error *source_journal_boots(const char *root, int *ret)
{
	struct journal_told told = { 0 };
	struct uh_error *err = journal_run(&(struct journal_wanted){ .root = root, .count = true }, NULL, NULL, &told);
	*ret = told.boots;
	if (!err || err->errnum == EBADMSG)
		return err;
	door_forget(err); // a machine may have no journal
	return NULL;
}

struct uh_error *source_journal(const char *root, int boot, const struct source_visitor *v)
{
	return journal_run(&(struct journal_wanted){ .root = root, .boot = boot }, NULL, v, NULL);
}

struct uh_error *source_journal_past(const char *root, int boot, int milliseconds, const struct source_visitor *v,
				     void (*read)(void *ctx, bool damaged))
{
	const struct journal_wanted w = { .root = root, .boot = boot, .past_ms = milliseconds };
	struct journal_told told = { .read = read };
	return journal_run(&w, NULL, v, &told);
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
