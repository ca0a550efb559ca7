#include "watch/kfd_events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gpu/find/device.h"
#include "source/kfd/events.h"
#include "source/process.h"
#include "watch/kernel_log.h"

#define KFD "/sys/class/kfd/kfd"
enum { NODES_MOST = 64, LOOK_MS = 2000, HELD_LOOK_MS = 1000, FAILED_MS = 30000, FAILED = 3, LINES_ROOM = 1024 };

/** As linux/kfd_ioctl.h has it, of which old ones know no events of all processes. */
struct ask_events {
	uint32_t gpu_id, fd;
};
#define ASK_EVENTS _IOWR('K', 0x1f, struct ask_events)
#define EVENT(number) (UINT64_C(1) << ((number)-1))

/** A GPU whose events are heard. */
struct heard {
	int fd;
	char pci[32];
	struct kfd_lines lines;
	size_t n;
	char room[LINES_ROOM]; // the beginning of a line
};

/** Whether a program beside this one is known to KFD. */
static bool others_compute(void)
{
	_cleanup_dir_ DIR *d = opendir(KFD "/proc");
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		int64_t pid;
		if (str_number(str_z(e->d_name), &pid) && pid != getpid())
			return true;
	}
	return false;
}

/** Waits. true: nobody listens any more. */
static bool is_alone(int to, int milliseconds)
{
	struct pollfd wait = { to, POLLERR, 0 };
	return poll(&wait, 1, milliseconds) > 0;
}

// --- who asks ---

/** The address of a node's GPU; false: it says none. The nodes of a partitioned GPU have their number in the place of the function. */
static bool kfd_events_name_gpu(const char *node, struct heard *h)
{
	enum { BUS = 8, DEVICE = 3, FUNCTIONS = 7, LOW = 31, BYTE = 255 };
	char path[128], room[4096];
	snprintf(path, sizeof(path), KFD "/topology/nodes/%.20s/properties", node);
	struct str text = small_file(path, room, sizeof(room));
	const int64_t at = kfd_property(text, "location_id"), domain = kfd_property(text, "domain");
	for (int64_t function = at & FUNCTIONS; at >= 0; function = 0) {
		snprintf(h->pci, sizeof(h->pci), "%04x:%02x:%02x.%x", (unsigned)(domain < 0 ? 0 : domain),
			 (unsigned)(at >> BUS) & BYTE, (unsigned)(at >> DEVICE) & LOW, (unsigned)function);
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", h->pci);
		if (!function || !access(path, F_OK))
			return true;
	}
	return false;
}

/** Resets, and faults of all processes. Not the end of a reset: KFD tells it of one that failed, too. */
static bool subscribe(int kfd, uint32_t gpu_id, int *ret_fd)
{
	const uint64_t events = EVENT(KFD_PAGE_FAULT) | EVENT(KFD_RESET_BEGINS) | EVENT(KFD_ALL_PROCESSES);
	struct ask_events asked = { .gpu_id = gpu_id };
	if (ioctl(kfd, ASK_EVENTS, &asked))
		return false;
	*ret_fd = (int)asked.fd;
	fcntl(*ret_fd, F_SETFL, O_NONBLOCK);
	return write(*ret_fd, &events, sizeof(events)) == sizeof(events);
}

static size_t hear_all(int kfd, struct heard *heard)
{
	size_t n = 0;
	_cleanup_dir_ DIR *d = opendir(KFD "/topology/nodes");
	for (const struct dirent *e = d ? readdir(d) : NULL; e && n < NODES_MOST; e = readdir(d)) {
		char path[128], room[32];
		int64_t gpu_id;
		snprintf(path, sizeof(path), KFD "/topology/nodes/%.20s/gpu_id", e->d_name);
		if (!str_number(str_trim(small_file(path, room, sizeof(room))), &gpu_id) || gpu_id <= 0 || gpu_id > UINT32_MAX)
			continue;
		n += kfd_events_name_gpu(e->d_name, &heard[n]) && subscribe(kfd, (uint32_t)gpu_id, &heard[n].fd);
	}
	return n;
}

/** The process of a thread, while it lives; else what KFD said of the thread. */
static void kfd_events_name_process(struct kfd_told *t, char *room, size_t size)
{
	char path[64], status[4096];
	int64_t pid = 0;
	snprintf(path, sizeof(path), "/proc/%lld/status", (long long)t->event.number);
	for (struct str text = small_file(path, status, sizeof(status)); text.n && !pid;) {
		struct str line = str_split(&text, '\n');
		if (str_behind(line, S("Tgid:"), &line))
			str_number(str_trim(line), &pid);
	}
	snprintf(path, sizeof(path), "/proc/%lld/comm", (long long)pid);
	struct str name = pid > 0 ? small_file(path, room, size) : (struct str){ 0 };
	t->pid = pid > 0 ? pid : (int64_t)t->event.number;
	t->process = name.n ? str_split(&name, '\n') : t->event.text;
}

static void kfd_tell(int to, struct heard *h, const struct kfd_event *e)
{
	struct kfd_told told = { .pci = str_z(h->pci), .event = *e };
	_cleanup_text_ struct text text = { 0 };
	char name[64];
	if (e->kind == KFD_PAGE_FAULT)
		kfd_events_name_process(&told, name, sizeof(name));
	kfd_told_text(&told, &text);
	notice_send(to, NOTICE_KFD, text_str(&text));
}

/** Older kernels hand out no more than eight bytes at once. */
static void kfd_hear(int to, struct heard *h)
{
	for (;;) {
		ssize_t n = read(h->fd, h->room + h->n, sizeof(h->room) - h->n);
		if (n <= 0)
			return;
		h->n += (size_t)n;
		struct str bytes = { h->room, h->n };
		struct kfd_event e;
		while (kfd_event_take(&h->lines, &bytes, &e))
			if (e.kind)
				kfd_tell(to, h, &e);
		h->n = bytes.n < sizeof(h->room) ? bytes.n : 0; // a line is never that long
		memmove(h->room, bytes.p, h->n);
	}
}

/** Asks for events, and hands them on while others compute. */
static void kfd_ask(int to)
{
	struct heard *heard = mem_alloc(NODES_MOST * sizeof(*heard));
	struct pollfd wait[NODES_MOST + 1];
	_cleanup_close_ int kfd = open("/dev/kfd", O_RDONLY | O_CLOEXEC);
	const size_t n = kfd < 0 ? 0 : hear_all(kfd, heard);
	cleanup_close(&kfd);                  // it is a process of KFD until it ends; nobody need take it for one that computes
	if (!child_put_down(CHILD_WATCH_KFD)) // what is open stays open
		_exit(FAILED);
	for (size_t i = 0; i < n; i++)
		wait[i] = (struct pollfd){ heard[i].fd, POLLIN, 0 };
	wait[n] = (struct pollfd){ to, POLLERR, 0 };
	while (n && others_compute() && (poll(wait, n + 1, HELD_LOOK_MS) >= 0 || errno == EINTR) && !wait[n].revents)
		for (size_t i = 0; i < n; i++)
			if (wait[i].revents)
				kfd_hear(to, &heard[i]);
	for (size_t i = 0; i < n; i++) // before KFD forgets it, which its end does: then a GPU may go
		cleanup_close(&heard[i].fd);
	_exit(n ? 0 : FAILED);
}

// --- who waits until somebody computes ---

/** Returns when it has ended. true: it was of no use. Opening KFD waits for processes of it that end. */
static bool have_asked(int to)
{
	int status = 0;
	const pid_t pid = fork();
	if (!pid)
		kfd_ask(to);
	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0)
		if (is_alone(to, HELD_LOOK_MS))
			_exit(0);
	return pid < 0 || status;
}

static void kfd_events_work(int to, const void *ctx)
{
	(void)ctx;
	prctl(PR_SET_NAME, "unhang-kfd");
	signal(SIGHUP, SIG_IGN);
	child_keep_only(to);
	int pause = 0;
	while (!is_alone(to, pause)) {
		pause = access(KFD "/proc", F_OK) ? FAILED_MS : LOOK_MS;
		if (pause == LOOK_MS && others_compute() && have_asked(to))
			pause = FAILED_MS;
	}
}

bool kfd_events_begin(struct child *ret)
{
	return !geteuid() && process_numbers_shared() && child_start(CHILD_WATCH_KFD, kfd_events_work, NULL, ret);
}
