#include "watch/eye.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lower.h"
#include "base/save.h"
#include "watch/kfd/follow.h"

enum { UEVENT_ROOM = 256 << 10, UEVENTS_KERNEL = 1, AGAIN_MS = 10000, ERRORS_MOST = 16 };

/** Before each text. */
struct eye_head {
	uint32_t kind, n;
};

void eye_send(int to, enum eye_kind kind, struct str text)
{
	const struct eye_head head = { kind, (uint32_t)text.n };
	if (!write_all(to, (struct str){ (const char *)&head, sizeof(head) }) || !write_all(to, text))
		_exit(0); // nobody listens any more
}

static void send_text(int to, enum eye_kind kind, const char *text) { eye_send(to, kind, str_z(text)); }

/** Sends all records that are there. false: it cannot be read now. The kernel steps over a record that it cannot hand out, so one error does
 * not end it. */
static bool send_records(int to, int log)
{
	char record[EYE_FRAME_MOST];
	for (unsigned errors = 0;;) {
		ssize_t n = read(log, record, sizeof(record));
		if (n > 0) {
			eye_send(to, EYE_RECORD, (struct str){ record, (size_t)n });
			errors = 0;
		} else if (n < 0 && errno == EPIPE) {
			send_text(to, EYE_LOST, "");
		} else if (n < 0 && errno == EAGAIN) {
			return true;
		} else if (n == 0 || (errno != EINTR && ++errors == ERRORS_MOST)) {
			send_text(to, EYE_FAILED, n ? strerror(errno) : "it has ended");
			return false;
		}
	}
}

/** Only what the kernel itself sent: everybody may send to this socket. */
static void send_uevent(int to, int events)
{
	char room[EYE_FRAME_MOST];
	struct sockaddr_nl from = { 0 };
	socklen_t size = sizeof(from);
	ssize_t n = recvfrom(events, room, sizeof(room), MSG_DONTWAIT, (struct sockaddr *)&from, &size);
	if (n > 0 && from.nl_pid == 0)
		eye_send(to, EYE_UEVENT, (struct str){ room, (size_t)n });
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

/** Its first record, which shows whether there were others before it. */
static void read_first(int log, struct text *ret)
{
	char *room = text_room(ret, EYE_FRAME_MOST);
	ssize_t n = log < 0 ? 0 : read(log, room, EYE_FRAME_MOST);
	while (n < 0 && (errno == EPIPE || errno == EINTR))
		n = read(log, room, EYE_FRAME_MOST);
	ret->n = n > 0 ? (size_t)n : 0;
}

/** Hands on what KFD told, behind what the log has of the same: that tells more. false: there is nobody who tells. */
static bool send_kfd(int to, int from, struct text *inbox)
{
	struct eye_frame frame;
	bool wrong;
	ssize_t n = read(from, text_room(inbox, EYE_FRAME_MOST), EYE_FRAME_MOST);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	inbox->n += (size_t)n;
	struct str bytes = text_str(inbox);
	while (eye_take(&bytes, &frame, &wrong))
		eye_send(to, frame.kind, frame.text);
	memmove(inbox->p, bytes.p, bytes.n);
	inbox->n = bytes.n;
	return !wrong;
}

struct eye_start {
	const struct store_place *from;
	bool kfd;
};

static void watch(int to, const void *ctx)
{
	const struct eye_start *start = ctx;
	struct text first = { 0 };
	struct gap gap;
	prctl(PR_SET_NAME, "unhang-eye");
	signal(SIGHUP, SIG_IGN);
	child_keep_only(to);
	_cleanup_close_ int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	const int why = errno;
	_cleanup_close_ int events = open_uevents();
	read_first(log, &first);
	const bool missing = first.n && gap_begin(start->from, text_str(&first), &gap);
	struct child kfd = { .fd = -1 };
	struct text inbox = { 0 };
	if (start->kfd)
		kfd_follow_begin(&kfd);
	lower_privileges(LOWER_NOGROUP); // what is open stays open
	if (missing)
		gap_send(&gap, to);
	if (first.n)
		eye_send(to, EYE_RECORD, text_str(&first));
	text_free(&first);
	if (log < 0)
		send_text(to, EYE_FAILED, strerror(why));
	else if (!send_records(to, log))
		cleanup_close(&log);
	int64_t again = now_ms() + AGAIN_MS;
	send_text(to, EYE_READY, "");
	struct pollfd wait[] = { { log, POLLIN, 0 }, { events, POLLIN, 0 }, { to, POLLERR, 0 }, { kfd.fd, POLLIN, 0 } };
	// A log that could not be read needs to be opened again, by one that still has the rights.
	while (wait[0].fd >= 0 || now_ms() < again) {
		const int ready = poll(wait, 4, wait[0].fd < 0 ? AGAIN_MS : EYE_LIVES_MS);
		if (ready < 0 && errno != EINTR)
			return;
		if (ready == 0)
			send_text(to, EYE_LIVES, "");
		if (wait[2].revents)
			return;
		if ((wait[0].revents || (wait[0].fd >= 0 && wait[3].revents)) && !send_records(to, log)) {
			wait[0].fd = -1;
			again = now_ms() + AGAIN_MS;
		}
		if (wait[1].revents)
			send_uevent(to, events);
		if (wait[3].revents && !send_kfd(to, kfd.fd, &inbox))
			wait[3].fd = -1;
	}
}

bool eye_begin(const struct store_place *from, bool kfd, struct child *ret)
{
	return child_begin_free(watch, &(struct eye_start){ from, kfd }, ret);
}

bool eye_take(struct str *bytes, struct eye_frame *ret, bool *ret_wrong)
{
	struct eye_head head;
	*ret_wrong = false;
	if (bytes->n < sizeof(head))
		return false;
	memcpy(&head, bytes->p, sizeof(head));
	*ret_wrong = head.kind >= EYE_KINDS || head.n > EYE_FRAME_MOST;
	if (*ret_wrong || bytes->n - sizeof(head) < head.n)
		return false;
	*ret = (struct eye_frame){ (enum eye_kind)head.kind, str_cut(str_from(*bytes, sizeof(head)), head.n) };
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
