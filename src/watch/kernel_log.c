#include "watch/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/save.h"
#include "source/process.h"
#include "watch/kfd_events.h"

enum { UEVENT_ROOM = 256 << 10, UEVENTS_KERNEL = 1, AGAIN_MS = 10000, ERRORS_MOST = 16 };

/** As a place keeps it. */
static int64_t kernel_log_microseconds(const struct source_record *r) { return (int64_t)(r->boot_seconds * 1000000); }

/** Before each text. */
struct notice_head {
	uint32_t kind, n;
};

void notice_send(int to, enum notice_kind kind, struct str text)
{
	const struct notice_head head = { kind, (uint32_t)text.n };
	if (!write_all(to, (struct str){ (const char *)&head, sizeof(head) }) || !write_all(to, text))
		_exit(0); // nobody listens any more
}

static void kernel_log_send_text(int to, enum notice_kind kind, const char *text) { notice_send(to, kind, str_z(text)); }

/** Sends all records that are there. false: it cannot be read now. The kernel steps over a record that it cannot hand out, so one error does
 * not end it. */
static bool kernel_log_send_records(int to, int log)
{
	char record[NOTICE_MOST];
	for (unsigned errors = 0;;) {
		ssize_t n = read(log, record, sizeof(record));
		if (n > 0) {
			notice_send(to, NOTICE_RECORD, (struct str){ record, (size_t)n });
			errors = 0;
		} else if (n < 0 && errno == EPIPE) {
			kernel_log_send_text(to, NOTICE_LOST, "");
		} else if (n < 0 && errno == EAGAIN) {
			return true;
		} else if (n == 0 || (errno != EINTR && ++errors == ERRORS_MOST)) {
			kernel_log_send_text(to, NOTICE_FAILED, n ? strerror(errno) : "it has ended");
			return false;
		}
	}
}

/** Only what the kernel itself sent: everybody may send to this socket. */
static void send_uevent(int to, int events)
{
	char room[NOTICE_MOST];
	struct sockaddr_nl from = { 0 };
	socklen_t size = sizeof(from);
	ssize_t n = recvfrom(events, room, sizeof(room), MSG_DONTWAIT, (struct sockaddr *)&from, &size);
	if (n > 0 && from.nl_pid == 0)
		notice_send(to, NOTICE_UEVENT, (struct str){ room, (size_t)n });
}

static int open_uevents(void)
{
	const struct sockaddr_nl at = { .nl_family = AF_NETLINK, .nl_groups = UEVENTS_KERNEL };
	const int room = UEVENT_ROOM;
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof(at)))
		cleanup_close(&fd);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	return fd;
}

/** Whether the log may have come to this place: what lies ahead of it, or was written at another time there, would be taken for known. A machine
 * that was rolled back with its disk kept has such a place, and so has a damaged file. */
static bool place_fits(const struct store_place *from)
{
	char room[NOTICE_MOST];
	int64_t first = -1, there = -1;
	uint64_t last = 0;
	_cleanup_close_ int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (log < 0 || !source_this_boot(str_z(from->boot_id)))
		return true;
	for (ssize_t n; (n = read(log, room, sizeof(room))) > 0 || (n < 0 && (errno == EPIPE || errno == EINTR));) {
		const struct str text = { room, n > 0 ? (size_t)n : 0 };
		const struct source_record record = source_kmsg_record(text);
		if (n < 0)
			continue;
		last = source_kmsg_sequence(text);
		first = first < 0 ? kernel_log_microseconds(&record) : first;
		there = last == from->sequence ? kernel_log_microseconds(&record) : there;
	}
	return first < 0 || (last >= from->sequence && (there < 0 ? from->microseconds <= first : there == from->microseconds));
}

/** Its first record, which shows whether there were others before it. */
static void read_first(int log, struct text *ret)
{
	char *room = text_room(ret, NOTICE_MOST);
	ssize_t n = log < 0 ? 0 : read(log, room, NOTICE_MOST);
	while (n < 0 && (errno == EPIPE || errno == EINTR))
		n = read(log, room, NOTICE_MOST);
	ret->n = n > 0 ? (size_t)n : 0;
}

/** Hands on what KFD told, behind what the log has of the same: that tells more. false: there is nobody who tells. */
static bool send_kfd(int to, int from, struct text *inbox)
{
	struct notice frame;
	bool wrong;
	ssize_t n = read(from, text_room(inbox, NOTICE_MOST), NOTICE_MOST);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	inbox->n += (size_t)n;
	struct str bytes = text_str(inbox);
	while (notice_take(&bytes, &frame, &wrong))
		notice_send(to, frame.kind, frame.text);
	memmove(inbox->p, bytes.p, bytes.n);
	inbox->n = bytes.n;
	return !wrong;
}

struct kernel_log_start {
	const struct store_place *from;
	bool kfd;
};

static void kernel_log_work(int to, const void *ctx)
{
	const struct kernel_log_start *start = ctx;
	_cleanup_text_ struct text first = { 0 }, inbox = { 0 };
	struct gap gap;
	prctl(PR_SET_NAME, "unhang-kmsg");
	signal(SIGHUP, SIG_IGN);
	child_keep_only(to);
	_cleanup_close_ int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	const int why = errno;
	_cleanup_close_ int events = open_uevents();
	const bool astray = !place_fits(start->from);
	const struct store_place nowhere = { 0 };
	read_first(log, &first);
	const bool missing = first.n && gap_begin(astray ? &nowhere : start->from, text_str(&first), &gap);
	struct child kfd = { .fd = -1 };
	if (start->kfd)
		kfd_events_begin(&kfd);
	if (!child_put_down(CHILD_WATCH_LOG)) // what is open stays open
		return;
	if (astray)
		kernel_log_send_text(to, NOTICE_ASTRAY, "");
	if (missing)
		gap_send(&gap, to);
	if (first.n)
		notice_send(to, NOTICE_RECORD, text_str(&first));
	if (log < 0)
		kernel_log_send_text(to, NOTICE_FAILED, strerror(why));
	else if (!kernel_log_send_records(to, log))
		cleanup_close(&log);
	int64_t again = now_ms() + AGAIN_MS;
	kernel_log_send_text(to, NOTICE_READY, "");
	struct pollfd wait[] = { { log, POLLIN, 0 }, { events, POLLIN, 0 }, { to, POLLERR, 0 }, { kfd.fd, POLLIN, 0 } };
	// A log that could not be read needs to be opened again, by one that still has the rights.
	while (wait[0].fd >= 0 || now_ms() < again) {
		const int ready = poll(wait, 4, wait[0].fd < 0 ? AGAIN_MS : LOG_LIVES_MS);
		if (ready < 0 && errno != EINTR)
			return;
		if (ready == 0)
			kernel_log_send_text(to, NOTICE_LIVES, "");
		if (wait[2].revents)
			return;
		if ((wait[0].revents || (wait[0].fd >= 0 && wait[3].revents)) && !kernel_log_send_records(to, log)) {
			wait[0].fd = -1;
			again = now_ms() + AGAIN_MS;
		}
		if (wait[1].revents)
			send_uevent(to, events);
		if (wait[3].revents && !send_kfd(to, kfd.fd, &inbox))
			wait[3].fd = -1;
	}
}

bool kernel_log_begin(const struct store_place *from, bool kfd, struct child *ret)
{
	return child_start(CHILD_WATCH_LOG, kernel_log_work, &(struct kernel_log_start){ from, kfd }, ret);
}

bool notice_take(struct str *bytes, struct notice *ret, bool *ret_wrong)
{
	struct notice_head head;
	*ret_wrong = false;
	if (bytes->n < sizeof(head))
		return false;
	memcpy(&head, bytes->p, sizeof(head));
	*ret_wrong = head.kind >= NOTICE_KINDS || head.n > NOTICE_MOST;
	if (*ret_wrong || bytes->n - sizeof(head) < head.n)
		return false;
	*ret = (struct notice){ (enum notice_kind)head.kind, str_cut(str_from(*bytes, sizeof(head)), head.n) };
	*bytes = str_from(*bytes, sizeof(head) + head.n);
	return true;
}

bool uevent_parse(struct str bytes, struct uevent *ret)
{
	*ret = (struct uevent){ 0 };
	struct str head = str_split(&bytes, '\0');
	if (!head.n || !memchr(head.p, '@', head.n))
		return false;
	while (bytes.n) {
		struct str value = str_split(&bytes, '\0'), key = str_split(&value, '=');
		uevent_take(ret, key, value);
	}
	return ret->action.n && ret->path.n;
}

bool uevent_matters(const struct uevent *u)
{
	return (str_is(u->subsystem, "devcoredump") && str_is(u->action, "add")) || u->wedged.n;
}

// === what the kernel wrote and overwrote while nobody read ===

enum {
	JOURNAL_MS = 10000,
	JOURNAL_MOST = 32 << 20,
	TEXT_MOST = 1800, // the kernel's own have 1 KB; each byte may take four
	BOOT_DIGITS = 32,
	SECOND_US = 1000000,
	BACK_US = 600 *
		  SECOND_US, // an incident may have begun before the place; and the journal's clock is not quite the kernel's
};

// --- a record, on its way from the journal's reader to the judge ---

/** As the kernel writes it, so that nobody can write a line of notes. */
static void add_escaped(struct text *to, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
			text_printf(to, "\\x%02x", (unsigned char)s.p[i]);
		else
			text_add(to, (struct str){ s.p + i, 1 });
}

void kept_text(struct str boot_id, const struct source_record *r, struct text *to)
{
	const unsigned priority = r->by.writer == WRITER_KERNEL ? 3 : 8 | 3;
	text_printf(to, STR_FMT " %lld\n%u,0,%lld,-;", STR_ARG(boot_id),
		    r->wall_seconds < 0 ? -1LL : (long long)(r->wall_seconds * SECOND_US), priority,
		    (long long)(r->boot_seconds * SECOND_US + 0.5));
	add_escaped(to, str_cut(r->text, TEXT_MOST));
	text_add(to, S("\n SUBSYSTEM="));
	add_escaped(to, r->by.subsystem);
	text_add(to, S("\n DEVICE="));
	add_escaped(to, r->by.device);
	text_add(to, S("\n"));
}

bool kept_parse(struct str text, struct kept_record *ret)
{
	struct str head = str_split(&text, '\n');
	*ret = (struct kept_record){ .boot_id = str_split(&head, ' '), .record = source_kmsg_record(text) };
	return str_number(head, &ret->wall_us) && ret->boot_id.n && ret->record.boot_seconds >= 0;
}

// --- the reader of the journal ---

struct journal_reading {
	int to;
	const struct gap *gap;
};

/** 32 digits become those of /proc: 8-4-4-4-12. */
static struct str with_dashes(struct str id, char *room)
{
	size_t n = 0;
	for (size_t i = 0; i < BOOT_DIGITS; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			room[n++] = '-';
		room[n++] = id.p[i];
	}
	return (struct str){ room, n };
}

static void kernel_log_on_record(void *ctx, const char *name, const struct source_record *r)
{
	const struct journal_reading *reading = ctx;
	const struct gap *g = reading->gap;
	char room[BOOT_DIGITS + 4];
	_cleanup_text_ struct text text = { 0 };
	if (!name || !r || r->boot_id.n != BOOT_DIGITS || r->boot_seconds < 0)
		return;
	const struct str boot = with_dashes(r->boot_id, room);
	const int64_t us = kernel_log_microseconds(r);
	if (str_is(boot, g->boot_id) && us >= g->end_us) {
		if (us > g->end_us + SECOND_US) // records of several CPUs may be a little out of order
			_exit(0);
		return;
	}
	kept_text(boot, r, &text);
	notice_send(reading->to, NOTICE_KEPT, text_str(&text));
}

static void kernel_log_read_journal(int to, const void *ctx)
{
	const struct gap *g = ctx;
	struct journal_reading reading = { to, g };
	const struct source_visitor v = { .record = kernel_log_on_record, .ctx = &reading };
	prctl(PR_SET_NAME, "unhang-journal");
	child_keep_only(to);
	uh_error_free(source_journal_since(g->from.boot_id, g->from.microseconds - BACK_US, g->boot_id, &v));
}

// --- in the log reader ---

bool gap_begin(const struct store_place *from, struct str first, struct gap *ret)
{
	char room[64];
	const uint64_t sequence = source_kmsg_sequence(first);
	*ret = (struct gap){ .from = *from, .reader.fd = -1, .deadline = now_ms() + JOURNAL_MS };
	str_copy(ret->boot_id, sizeof(ret->boot_id),
		 source_boot_id(room));
	const struct source_record record = source_kmsg_record(first);
	ret->end_us = kernel_log_microseconds(&record);
	const bool same = str_is(str_z(from->boot_id), ret->boot_id);
	const uint64_t read = same ? from->sequence : 0;
	ret->missing = sequence > read + 1 ? sequence - read - 1 : 0;
	if (!from->boot_id[0] || !ret->boot_id[0] || (same && !ret->missing))
		return false;
	if (!child_start(CHILD_WATCH_JOURNAL, kernel_log_read_journal, ret, &ret->reader))
		ret->reader.pid = 0; // then the journal has nothing
	return true;
}

/** Whether it is one of those that /dev/kmsg lacks. */
static bool fills(const struct gap *g, struct str text)
{
	struct kept_record kept;
	if (!kept_parse(text, &kept) || !str_is(kept.boot_id, g->boot_id))
		return false;
	return !str_is(str_z(g->from.boot_id), g->boot_id) || kernel_log_microseconds(&kept.record) > g->from.microseconds;
}

void gap_send(struct gap *g, int to)
{
	_cleanup_text_ struct text all = { 0 };
	struct notice frame;
	uint64_t filled = 0;
	bool wrong;
	if (g->reader.pid > 0) {
		child_wait(&g->reader, g->deadline, JOURNAL_MOST, &all); // what came in time counts
		child_kill(&g->reader, 0);
	}
	for (struct str rest = text_str(&all); notice_take(&rest, &frame, &wrong);) {
		filled += fills(g, frame.text);
		notice_send(to, NOTICE_KEPT, frame.text);
	}
	if (filled < g->missing)
		notice_send(to, NOTICE_GAP, (struct str){ 0 });
}
