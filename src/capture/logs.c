// The kernel's logs: of this boot, the end of the one before, and what a crash left.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "base/door/door.h"
#include "base/lower.h"
#include "capture/parts.h"

#define LOG_TEXT "kernel-log.txt"
enum { LOG_MS = 10000, CRASH_MS = 3000, FILES_MOST = 256, FILE_MOST = 16 << 20 };
static const uint64_t log_most = 64 << 20, before_most = 4 << 20;

/** The log as text, for people. */
struct log_text {
	struct item_file file;
	struct text room;
	bool failed;
};

static void on_record(void *ctx, const char *name, const struct source_record *record)
{
	enum { AT_ONCE = 1 << 18 };
	struct log_text *t = ctx;
	if (record)
		text_printf(&t->room, "[%12.6f] " STR_FMT "\n", record->boot_seconds, STR_ARG(record->text));
	else if (name)
		text_printf(&t->room, "# %s\n", name);
	if (t->room.n < AT_ONCE && record)
		return;
	t->failed |= !item_write(&t->file, text_str(&t->room));
	text_clear(&t->room);
}

static void on_visit(void *ctx, struct source *s)
{
	(void)ctx;
	(void)s;
}

static void on_problem(void *ctx, struct uh_error *err)
{
	(void)ctx;
	uh_error_free(err);
}

/** Reads one log. @boot 1: the kernel's buffer. */
static struct uh_error *read_log(struct tape *tape, struct log_text *text, int boot)
{
	const struct source_visitor to = { .visit = on_visit, .record = on_record, .problem = on_problem, .ctx = text };
	struct tape_log log = { .tape = tape,
				.to = boot < 0 ? NULL : &to,
				.name = boot > 0 ? TAPE_LOG_BUFFER :
					boot     ? TAPE_LOG_BEFORE :
						   TAPE_LOG_BOOT,
				.most = boot < 0 ? before_most : log_most,
				.from_end = boot < 0 };
	const struct source_visitor v = tape_visitor(&log);
	struct uh_error *err = boot > 0 ? source_kmsg("/dev/kmsg", &v) : source_journal(NULL, boot, &v);
	tape_log_end(&log);
	return err;
}

static void end_logs(struct step *s, struct tape *tape, struct log_text *text, struct uh_error *err)
{
	bool whole = tape_end(tape);
	int why = errno;
	if (!item_close(&text->file))
		text->failed = true;
	if (err)
		step_end(s, err->errnum == EPERM || err->errnum == EACCES ? ITEM_REFUSED : ITEM_FAILED, "%s",
			 uh_error_message(err));
	else if (!whole || text->failed)
		step_end(s, ITEM_CUT, "%s",
			 why == EFBIG ? "it has more bytes than an item may have" : strerror(why ? why : EIO));
	else
		step_end(s, ITEM_SAVED, "%s", "");
}

static void read_logs(struct step *s)
{
	struct log_text text = { 0 };
	struct item_file tape_file;
	if (!item_create(s->capture, LOG_TEXT, &text.file) || !item_create(s->capture, s->name, &tape_file)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		return;
	}
	prctl(PR_SET_NAME, "unhang-log");
	if (!lower_keeping(LOWER_NOGROUP, LOWER_READS_FILES | LOWER_READS_LOG)) {
		step_end(s, ITEM_FAILED, "its reader could not put its rights down");
		return;
	}
	struct tape *tape =
		tape_record(&(struct tape_recording){ .fd = tape_file.fd, .most = step_room(s), .budget = s->capture->budget, .id = s->capture->manifest->id });
	int boots = source_journal_boots(NULL);
	struct uh_error *err = read_log(tape, &text, boots ? 0 : 1);
	if (boots > 1)
		uh_error_free(read_log(tape, &text, -1));
	end_logs(s, tape, &text, err);
	s->shared->result.bytes = tape_written(tape) + text.file.bytes;
	uh_error_free(err);
	tape_free(tape);
	text_free(&text.room);
	s->shared->result.whole = item_close(&tape_file);
	if (!s->shared->result.whole)
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
}

void capture_logs(struct taking *c)
{
	step_run(c, &(struct step_plan){ BUNDLE_TRACKS BUNDLE_LOG,
					 "the kernel's log",
					 read_logs,
					 NULL,
					 LOG_MS,
					 false,
					 { BUNDLE_TRACKS BUNDLE_LOG, LOG_TEXT } });
}

// --- what a crash left ---

/** Plain copies of what the crash left; reading them changes nothing. */
static size_t copy_directory(struct step *s, const char *directory)
{
	struct arena a = { 0 };
	struct door_names names = { 0 };
	size_t n = 0;
	uh_error_free(door_names(&(struct named){ .path = directory }, false, &a, &names));
	for (size_t i = 0; i < names.n && i < FILES_MOST; i++) {
		struct str bytes;
		struct item_file f;
		const char *name = arena_printf(&a, "%s%s", s->name, names.list[i]).p;
		struct named from = { .path = directory, .below = names.list[i] };
		_cleanup_error_ struct uh_error *err = named_read(&from, FILE_MOST, &a, &bytes, NULL);
		if (err || bundle_name_wrong(str_z(name)) || !item_create(s->capture, name, &f))
			continue;
		if (!item_write(&f, bytes) || !item_finish(s->capture, &f)) {
			step_end(s, ITEM_CUT, "%s", strerror(errno));
			break;
		}
		s->shared->result.bytes += f.bytes;
		n++;
	}
	arena_free(&a);
	return n;
}

static void copy_crash_files(struct step *s)
{
	lower_to_reading(); // it copies
	size_t n = copy_directory(s, "/sys/fs/pstore") + copy_directory(s, "/var/lib/systemd/pstore");
	if (s->shared->result.state == ITEM_RUNNING)
		step_end(s, n ? ITEM_SAVED : ITEM_ABSENT, "%s", n ? "" : "there is none, or it may not be read");
}

void capture_crash_files(struct taking *c)
{
	step_run(c, &(struct step_plan){ BUNDLE_CRASH, "what a crash left (pstore)", copy_crash_files, NULL, CRASH_MS, false });
}

/** What whoever takes the capture saw before it: the watch's votes. */
static void save_note(struct step *s)
{
	struct item_file f = { .fd = -1 };
	bool good = item_create(s->capture, s->name, &f) && item_write(&f, s->capture->options->note) &&
		    item_finish(s->capture, &f);
	s->shared->result.bytes = f.bytes;
	if (!good && f.fd >= 0)
		item_drop(s->capture, &f);
	step_end(s, good ? ITEM_SAVED : ITEM_FAILED, "%s", good ? "" : strerror(errno));
}

void capture_note(struct taking *c)
{
	if (c->options->note.n)
		step_run(c, &(struct step_plan){ BUNDLE_TOOLS "unhang-watch.txt", "what unhang watch saw", save_note, NULL,
						 CRASH_MS, false });
}
