#include "watch/pulse/holds.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "evidence/recording/hold.h"
#include "watch/kernel_log.h"
#include "watch/pulse/signs.h"

enum { PAUSE_MS = 20, HOLD_MOST_MS = 5000 };

// --- the text ---

static const char *const stages[] = {
	[HOLD_NEW] = "new", [HOLD_ASKS] = "asks", [HOLD_STANDS] = "stands", [HOLD_OVER] = "over"
};

void hold_told_text(const struct hold_told *h, struct text *to)
{
	text_printf(to, "%s %u %lld %lld %llu " STR_FMT " " STR_FMT, stages[h->stage], h->number, (long long)h->left_ms,
		    (long long)h->pid, (unsigned long long)h->began, STR_ARG(h->gpu.n ? h->gpu : S("-")), STR_ARG(h->path));
}

bool hold_told_parse(struct str text, struct hold_told *ret)
{
	int64_t number, since;
	struct str stage = str_split(&text, ' '), count = str_split(&text, ' '), left = str_split(&text, ' '),
		   pid = str_split(&text, ' '), began = str_split(&text, ' '), gpu = str_split(&text, ' ');
	*ret = (struct hold_told){ .stage = HOLD_STAGES, .gpu = str_is(gpu, "-") ? (struct str){ 0 } : gpu, .path = text };
	for (int i = 0; i < HOLD_STAGES; i++)
		if (str_is(stage, stages[i]))
			ret->stage = (enum hold_stage)i;
	if (ret->stage == HOLD_STAGES || !str_number(count, &number) || number < 0 || number > UINT32_MAX ||
	    !str_number(left, &ret->left_ms) || !str_number(pid, &ret->pid) || !str_number(began, &since) || since < 0 ||
	    ret->left_ms < 0 || ret->pid <= 0 || !text.n)
		return false;
	ret->number = (uint32_t)number;
	ret->began = (uint64_t)since;
	return true;
}

// --- telling ---

static struct str only_gpu(const struct signs *s, const struct sign_process *p)
{
	for (size_t i = 0; i < s->devices->n && i < SIGNS_GPUS; i++)
		if (p->gpus == UINT64_C(1) << i)
			return s->devices->list[i].pci;
	return (struct str){ 0 };
}

static void hold_tell(const struct signs *s, const struct sign_process *p, enum hold_stage stage, const struct held *h)
{
	_cleanup_text_ struct text text = { 0 };
	const struct hold_told told = { .stage = stage,
					.number = h->number,
					.left_ms = h->left_ms < HOLD_MOST_MS ? h->left_ms : HOLD_MOST_MS,
					.pid = p->pid,
					.began = h->began <= INT64_MAX ? h->began : 0,
					.gpu = only_gpu(s, p),
					.path = str_z(p->recording) };
	hold_told_text(&told, &text);
	notice_send(s->told, NOTICE_HOLD, text_str(&text));
}

/** Where nobody hears of changes the program would not be answered in time: it is not announced that somebody looks after it. */
static void recording_follow(struct signs *s, struct sign_process *p, uint64_t file)
{
	if (p->hold.followed)
		inotify_rm_watch(s->inotify, p->hold.followed);
	p->hold = (struct pulse_hold){ .file = file };
	int found = privileged_follow_shared(p->recording, p->pid, s->inotify);
	p->hold.refused = found < 0;
	p->hold.followed = found < 0 ? 0 : found;
}

void signs_see_hold(struct signs *s, struct sign_process *p, int recording)
{
	enum { ASKED_MOST = 3 };
	struct held h;
	struct stat st;
	struct pulse_hold *seen = &p->hold;
	if (recording < 0 || s->inotify < 0 || !hold_look(recording, &h) || fstat(recording, &st))
		return;
	if (seen->file != st.st_ino)
		recording_follow(s, p, st.st_ino);
	if (seen->refused)
		return;
	if (!h.supervisor && seen->asked++ < ASKED_MOST)
		hold_tell(s, p, HOLD_NEW, &h);
	if (h.supervisor != REC_SUPERVISOR_WATCH || (seen->number == h.number && seen->state == h.state))
		return;
	seen->number = h.number;
	seen->state = h.state;
	if (hold_asks(&h))
		hold_tell(s, p, HOLD_ASKS, &h);
	else if (h.state == REC_HOLD_HELD)
		hold_tell(s, p, HOLD_STANDS, &h);
	else if (h.state > REC_HOLD_HELD)
		hold_tell(s, p, HOLD_OVER, &h);
}

// --- waiting ---

static void recordings_look_at(struct signs *s, int watch)
{
	for (size_t i = 0; i < s->n; i++) {
		struct sign_process *p = &s->processes[i];
		if (!p->hold.followed || p->hold.followed != watch)
			continue;
		_cleanup_close_ int fd = privileged_open_shared(p->recording, PRIVILEGED_RECORDING);
		signs_see_hold(s, p, fd);
	}
}

static void take_changes(struct signs *s)
{
	_Alignas(struct inotify_event) char room[4096];
	ssize_t n = read(s->inotify, room, sizeof(room));
	int last = -1;
	for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= n;) {
		struct inotify_event e;
		memcpy(&e, room + at, sizeof(e));
		if (e.wd != last)
			recordings_look_at(s, e.wd);
		last = e.wd;
		at += (ssize_t)(sizeof(e) + e.len);
	}
}

/** A user who touches a recording all the time wakes it up fifty times a second, and not more often. */
void signs_wait(struct signs *s, int milliseconds)
{
	for (int64_t end = now_ms() + milliseconds, now = end - milliseconds; now < end; now = now_ms()) {
		struct pollfd on = { s->inotify, POLLIN, 0 };
		if (poll(&on, 1, (int)(end - now)) <= 0)
			continue;
		take_changes(s);
		poll(NULL, 0, PAUSE_MS);
	}
}

void signs_forget_holds(const struct signs *s, const int64_t *pids, size_t n)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct sign_process *p = &s->processes[i];
		size_t k = 0;
		while (k < n && pids[k] != p->pid)
			k++;
		if (k == n && p->hold.followed)
			inotify_rm_watch(s->inotify, p->hold.followed);
	}
}
