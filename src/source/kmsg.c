// The running kernel's messages. Each read() returns one record: priority,sequence,microseconds,flags;text, and lines of notes about the
// device. Newlines in the text are escaped, so that nobody can write a note into it.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "source/source.h"

/** When the kernel's clock began, in seconds since 1970; -1 where that is not known, because the clock stood still while the machine
 * slept. */
static double clock_began(void)
{
	struct timespec now, awake, all;
	const double uptime = source_uptime();
	if (uptime < 0 || clock_gettime(CLOCK_REALTIME, &now) || clock_gettime(CLOCK_MONOTONIC, &awake) ||
	    clock_gettime(CLOCK_BOOTTIME, &all) || all.tv_sec > awake.tv_sec + 1)
		return -1;
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - uptime;
}

enum { FACILITY_SHIFT = 3 }; // below it is the level; what programs write has another facility than the kernel's, which is 0

struct source_record source_kmsg_record(struct str record)
{
	struct source_record out = { .boot_seconds = -1, .wall_seconds = -1 };
	struct str text = record, head = str_split(&text, ';');
	int64_t priority, microseconds;
	if (str_number(str_split(&head, ','), &priority))
		out.by.writer = priority >> FACILITY_SHIFT ? WRITER_INTO_LOG : WRITER_KERNEL;
	str_split(&head, ',');
	if (str_number(str_split(&head, ','), &microseconds))
		out.boot_seconds = (double)microseconds / 1e6;
	out.text = str_split(&text, '\n');
	while (text.n) {
		struct str note = str_split(&text, '\n');
		if (str_behind(note, S(" SUBSYSTEM="), &note))
			out.by.subsystem = note;
		else if (str_behind(note, S(" DEVICE="), &note))
			out.by.device = note;
	}
	return out;
}

uint64_t source_kmsg_sequence(struct str record)
{
	int64_t n;
	str_split(&record, ',');
	return str_number(str_split(&record, ','), &n) && n > 0 ? (uint64_t)n : 0;
}

static void visit(const char *name, struct str record, double began, const struct source_visitor *v)
{
	struct source_record out = source_kmsg_record(record);
	if (began >= 0 && out.boot_seconds >= 0)
		out.wall_seconds = began + out.boot_seconds;
	v->record(v->ctx, name, &out);
}

// --- reading, in a child: a machine whose driver hangs may hang here too ---

enum { LOG_MOST = 64 << 20, RECORD_MOST = 8192 };

/** What the child sends before each record; an error in place of the last. */
struct sent {
	uint32_t n;
	int32_t error;
};

static bool send(int to, struct sent head, const char *record)
{
	return write(to, &head, sizeof(head)) == sizeof(head) && write(to, record, head.n) == (ssize_t)head.n;
}

static void kmsg_read_all(int to, const void *path)
{
	char record[RECORD_MOST];
	child_keep_only(to);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	int error = fd < 0 ? errno : 0;
	while (!error) {
		ssize_t n = read(fd, record, sizeof(record));
		if (n > 0 && !send(to, (struct sent){ .n = (uint32_t)n }, record))
			return;
		if (n == 0 || (n < 0 && errno == EAGAIN))
			return;
		if (n < 0 && errno != EPIPE && errno != EINTR) // EPIPE: records were overwritten meanwhile; go on
			error = errno;
	}
	send(to, (struct sent){ .error = error }, record);
}

static struct uh_error *kmsg_take_all(const char *path, struct str all, const struct source_visitor *v)
{
	struct sent head;
	const double began = clock_began();
	while (all.n >= sizeof(head)) {
		memcpy(&head, all.p, sizeof(head));
		all = str_from(all, sizeof(head));
		if (head.error)
			return uh_error_os(head.error, "%s", path);
		if (head.n > all.n)
			break;
		visit(path, (struct str){ all.p, head.n }, began, v);
		all = str_from(all, head.n);
	}
	return NULL;
}

struct uh_error *source_kmsg(const char *path, const struct source_visitor *v)
{
	_cleanup_text_ struct text all = { 0 };
	// No struct is sent here: what came before the log stopped answering counts.
	enum child_end end =
		child_collect(&(struct child_task){ CHILD_KERNEL_LOG, .most = LOG_MOST }, kmsg_read_all, path, &all);
	if (end == CHILD_REFUSED)
		return uh_error_os(errno, "%s", path);
	struct uh_error *err = NULL;
	if (all.n || end == CHILD_GOOD) {
		v->record(v->ctx, path, NULL);
		err = kmsg_take_all(path, text_str(&all), v);
		v->record(v->ctx, NULL, NULL);
	}
	if (!err && end != CHILD_GOOD)
		err = uh_error_new("%s: %s", path,
				   end == CHILD_LATE ? "reading it does not return" : "it could not be read to its end");
	return err;
}

void source_kmsg_here(int fd, const char *path, const struct source_visitor *v)
{
	char record[RECORD_MOST];
	const double began = clock_began();
	ssize_t n;
	v->record(v->ctx, path, NULL);
	while ((n = read(fd, record, sizeof(record))) > 0 || (n < 0 && (errno == EPIPE || errno == EINTR)))
		if (n > 0)
			visit(path, (struct str){ record, (size_t)n }, began, v);
	v->record(v->ctx, NULL, NULL);
}
