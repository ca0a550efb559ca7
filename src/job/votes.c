// Votes on whether the job moves, from the heads of its recordings: some kilobytes of each file, some times a second.
#include <dirent.h>
#include <fcntl.h>

#include "evidence/recording/head.h"
#include "job/parts.h"

enum { RECORDINGS_MOST = 1024, FRESH_MS = 2000, CALLS_MS = 500, LASTS_MS = 1000 };

struct queue_look {
	uint64_t sum, clock, packets;
	unsigned recordings;
	unsigned waiting,
		working; // processes that have work on a GPU, or a call that does not return; that have a queue, and none on it
	bool gap, lost;  // see struct votes
	uint64_t removed;
	bool calls; // they are looked at
	struct votes_call call;
};

/** Nobody holds the lock of a recording whose process has ended, however it ended. */
static bool lives(int fd, const struct rec_header *h)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return h->state == RECORDING_ON && (fcntl(fd, F_GETLK, &lock) || lock.l_type != F_UNLCK);
}

/** A fault holds the process for us: we are here. */
static void answer(struct votes *v, int directory, const char *name)
{
	struct held h;
	const int fd = v->nholds < HOLDS_MOST ? openat(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	if (fd >= 0 && hold_look(fd, &h) && hold_asks(&h) && hold_answer(fd, &h))
		v->holds[v->nholds++] = fd;
	else if (fd >= 0)
		close(fd);
}

int64_t votes_held(const struct votes *v)
{
	int64_t left = INT64_MAX;
	for (size_t i = 0; i < v->nholds; i++) {
		struct held h;
		if (!hold_look(v->holds[i], &h))
			continue;
		if (h.state < REC_HOLD_HELD)
			return -1;
		left = h.state == REC_HOLD_HELD ? (h.left_ms < left ? h.left_ms : left) : 0;
	}
	return left == INT64_MAX ? 0 : left;
}

void votes_release(struct votes *v)
{
	for (size_t i = 0; i < v->nholds; i++) {
		struct held h;
		if (hold_look(v->holds[i], &h))
			hold_release(v->holds[i], &h);
		close(v->holds[i]);
	}
	v->nholds = 0;
}

static void note_process(struct pid_list *p, int64_t pid)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i] == pid)
			return;
	if (p->n < PIDS_MOST)
		p->list[p->n++] = pid;
}

/** Whether a thread of it is inside of a call for longer than such calls last. */
static bool look_at_call(int fd, const struct rec_header *h, struct queue_look *l)
{
	struct votes_call own = { .pid = h->pid, .rank = h->rank };
	if (!l->calls || !recording_call(fd, h, &own.of) || own.of.age_ms < LASTS_MS)
		return false;
	if (own.of.age_ms > l->call.of.age_ms)
		l->call = own;
	return true;
}

static void look_at_recording(struct votes *v, int directory, const char *name, struct queue_look *l)
{
	struct rec_header h;
	struct recorded_pace p;
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || !recording_head(fd, &h)) {
		l->lost = true;
		return;
	}
	if (h.hold >= REC_HOLD_ASKED && h.hold <= REC_HOLD_HELD && h.answered != h.holds)
		answer(v, directory, name);
	note_process(&v->computed, h.pid);
	l->recordings++;
	l->gap = l->gap || h.torn_queues || h.state == RECORDING_ASIDE;
	l->removed += h.removed;
	l->clock += h.clocks[h.newest & 1].boot_ns;
	const bool alive = lives(fd, &h), inside = alive && look_at_call(fd, &h, l);
	if (!recording_pace(fd, &p))
		return;
	l->sum += p.taken + p.written;
	l->packets += p.written;
	l->waiting += alive && (p.busy || inside);
	l->working += alive && p.queues && !p.busy && !inside;
}

static bool is_recording(const char *name) { return str_ends(str_z(name), S(".recording")); }

void votes_look(struct votes *v, const char *directory, int64_t now)
{
	struct queue_look l = { .calls = now >= v->calls_due || v->call.of.call };
	DIR *d = opendir(directory);
	for (struct dirent *e = d ? readdir(d) : NULL; e && l.recordings < RECORDINGS_MOST; e = readdir(d))
		if (is_recording(e->d_name))
			look_at_recording(v, dirfd(d), e->d_name, &l);
	if (d)
		closedir(d);
	// A process whose queues are empty works on the host, and others may wait for it on their GPUs: that is no hang of a GPU.
	const bool in_flight = l.waiting && !l.working;
	// A process that was stopped records nothing: that its queues stand says nothing. A busy machine lets a recorder wait for a moment.
	if (l.clock != v->clock)
		v->ticked = now;
	if (l.sum != v->sum || l.recordings != v->recordings || !in_flight || now - v->ticked > FRESH_MS)
		v->moved = now;
	v->sum = l.sum;
	v->clock = l.clock;
	v->packets = l.packets;
	v->recordings = l.recordings;
	v->gap = l.gap;
	v->lost = l.lost;
	v->removed = l.removed;
	v->in_flight = in_flight;
	v->call = l.call;
	v->calls_due = l.calls ? now + CALLS_MS : v->calls_due;
}
