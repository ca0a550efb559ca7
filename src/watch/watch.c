#include "watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/lock.h"
#include "base/lower.h"
#include "watch/eye.h"
#include "watch/parts.h"
#include "watch/pulse/pulse.h"

enum { READ_AT_ONCE = 64 << 10, EYE_AGAIN_MS = 5000, EYE_SILENT_MS = 3 * EYE_LIVES_MS };

// --- what the eye sees ---

static void on_event(void *ctx, const struct event *e) { engine_event(((struct watcher *)ctx)->engine, e); }

/** What follows is of this boot: with another one ends all that is open. */
static void turn_to(struct watcher *w, struct str boot_id)
{
	if (str_is(boot_id, w->log_boot))
		return;
	evidence_record(w->evidence, NULL, NULL);
	engine_end(w->engine);
	evidence_record(w->evidence, "/dev/kmsg", NULL);
	str_copy(w->log_boot, sizeof(w->log_boot), boot_id);
}

static void take_line(struct watcher *w, struct source_record *line)
{
	line->boot_id = str_z(w->log_boot);
	if (!w->ready)
		cases_replay(w, line->boot_seconds);
	evidence_record(w->evidence, "/dev/kmsg", line);
}

static void take_record(struct watcher *w, struct str record)
{
	enum { MS = 1000, US = 1000000 };
	const uint64_t sequence = source_kmsg_sequence(record);
	if (sequence && sequence <= w->read.sequence) // a new eye begins where the log does
		return;
	struct source_record out = source_kmsg_record(record);
	int64_t ms = (int64_t)(out.boot_seconds * MS);
	w->read.sequence = sequence;
	w->read.microseconds = (int64_t)(out.boot_seconds * US);
	w->read_at = now_ms();
	if (w->ready && out.boot_seconds >= 0 && ms > watch_kernel_ms(w))
		w->clock_ms = ms - now_ms();
	turn_to(w, str_z(w->boot_id));
	take_line(w, &out);
}

/** It begins some minutes before the place, so that what belongs together is known; a mind that goes on has these. */
static void take_kept(struct watcher *w, struct str text)
{
	enum { US = 1000000 };
	struct kept_record kept;
	if (!kept_parse(text, &kept) || kept.boot_id.n >= sizeof(w->log_boot))
		return;
	const int64_t us = (int64_t)(kept.record.boot_seconds * US);
	if (w->read.sequence && (!str_is(kept.boot_id, w->boot_id) || us <= w->read.microseconds))
		return;
	turn_to(w, kept.boot_id);
	w->log_began_us = kept.wall_us - us;
	take_line(w, &kept.record);
}

static void take_kfd(struct watcher *w, struct str text)
{
	struct arena a = { 0 };
	struct kfd_told told;
	struct event e;
	if (kfd_told_parse(text, &told) && kfd_told_event(w->know, &told, &a, &e))
		cases_second(w, &e);
	arena_free(&a);
}

static void take_uevent(struct watcher *w, struct str text)
{
	struct arena a = { 0 };
	struct uevent u;
	struct event e;
	// Other vendors' GPUs are wedged in the same words.
	if (!uevent_parse(text, &u) || !uevent_matters(&u) || (u.wedged.n && !watched_gpu(w, uevent_pci(&u))))
		return;
	if (uevent_event(w->know, &u, &a, &e))
		cases_second(w, &e);
	cases_evidence(w, uevent_pci(&u));
	arena_free(&a);
}

static void set_clock(struct watcher *w, double seconds)
{
	w->clock_ms = seconds > 0 ? (int64_t)(seconds * 1000) - now_ms() : 0;
}

/** @which: why something is not read; empty: it is. Who reads state.json or the journal is told of both. */
static void set_unread(struct watcher *w, struct text *which, struct str why)
{
	if (str_eq(text_str(which), why))
		return;
	text_clear(which);
	text_add(which, why);
	w->state_old = true;
	if (why.n)
		voice_warn(&w->voice, which->p);
	else
		voice_note(&w->voice, which == &w->unread ? "The kernel's log is read again." : "Progress is counted again.");
}

static void take_failure(struct watcher *w, struct str why)
{
	struct text text = { 0 };
	text_printf(&text, "/dev/kmsg: " STR_FMT, STR_ARG(why));
	w->log_failed = true;
	set_unread(w, &w->unread, text_str(&text));
	text_free(&text);
}

static void take_frame(struct watcher *w, const struct eye_frame *f)
{
	switch (f->kind) {
	case EYE_RECORD:
		take_record(w, f->text);
		break;
	case EYE_KEPT:
		take_kept(w, f->text);
		break;
	case EYE_GAP:
		w->lost++;
		w->state_old = true;
		voice_warn(&w->voice, "The kernel overwrote messages while nobody read them, and the journal lacks some.");
		break;
	case EYE_LOST:
		w->lost++;
		w->state_old = true;
		voice_problem(&w->voice, "The kernel wrote messages faster than they were read; some are lost.");
		break;
	case EYE_READY:
		turn_to(w, str_z(w->boot_id));
		w->ready = true;
		if (!w->log_failed)
			set_unread(w, &w->unread, (struct str){ 0 });
		break;
	case EYE_UEVENT:
		take_uevent(w, f->text);
		break;
	case EYE_FAILED:
		take_failure(w, f->text);
		break;
	case EYE_VOTES:
		votes_take(w, f->text, false, now_ms());
		suspicions_follow(w, now_ms());
		break;
	case EYE_BEAT:
		w->pulse_due = now_ms() + PULSE_SILENT_MS;
		set_unread(w, &w->uncounted, (struct str){ 0 });
		break;
	case EYE_LIVES:
		break;
	case EYE_HOLD:
		holds_take(w, f->text, now_ms());
		break;
	case EYE_KFD:
		take_kfd(w, f->text);
		break;
	case EYE_KINDS:
		break;
	}
}

/** Of the eye, or of the pulse. false: it is gone. */
static bool take_frames(struct watcher *w, int fd, struct text *inbox)
{
	ssize_t n = read(fd, text_room(inbox, READ_AT_ONCE), READ_AT_ONCE);
	struct eye_frame frame;
	bool wrong = false, was_ready = w->ready;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	inbox->n += (size_t)n;
	struct str bytes = text_str(inbox);
	while (eye_take(&bytes, &frame, &wrong)) {
		take_frame(w, &frame);
		if (w->ready && !was_ready) {
			cases_follow(w, now_ms() + w->settings.settle); // what was there is told at once
			cases_follow(w, now_ms() + 2 * w->settings.settle);
			cases_adopt(w);
			was_ready = true;
		}
	}
	memmove(inbox->p, bytes.p, bytes.n);
	inbox->n = bytes.n;
	return !wrong;
}

/** Has the hand start it. -1: it could not. */
static int begin(struct watcher *w, enum hand_task task, struct str text)
{
	struct text why = { 0 };
	int fd = -1;
	if (hand_ask(w->hand, task, text, &why, &fd))
		fcntl(fd, F_SETFL, O_NONBLOCK);
	else
		voice_problem(&w->voice, why.p);
	text_free(&why);
	return fd;
}

static void open_eye(struct watcher *w)
{
	struct text place = { 0 };
	store_place_text(w->read.sequence ? &w->read : &w->place, &place);
	text_clear(&w->inbox);
	w->log_failed = false;
	w->eye_began = now_ms();
	w->eye = begin(w, HAND_EYE, text_str(&place));
	text_free(&place);
	w->eye_again = w->eye < 0 ? w->eye_began + EYE_AGAIN_MS : -1;
	w->eye_due = w->eye_began + EYE_SILENT_MS;
}

/** There will be another: at once, unless it ended as soon as it had begun. */
static void lose_eye(struct watcher *w)
{
	const int64_t now = now_ms(), soonest = w->eye_began + EYE_AGAIN_MS;
	cleanup_close(&w->eye);
	w->eye_again = soonest > now ? soonest : now;
	if (!w->log_failed) // else it said why
		set_unread(w, &w->unread, S("The process that reads the kernel's log has ended; another one is started."));
}

/** An eye that is silent was stopped: others of nobody can do that. */
static void check_eye(struct watcher *w, int64_t now)
{
	if (w->eye < 0 || now < w->eye_due)
		return;
	set_unread(w, &w->unread, S("The process that reads the kernel's log does not answer; another one is started."));
	cleanup_close(&w->eye);
	w->eye_again = now; // which ends the old one
}

/** Starts the pulse, or another one where the configuration has changed. */
static void open_pulse(struct watcher *w)
{
	cleanup_close(&w->pulse);
	w->pulse_due = 0;
	hand_ask(w->hand, HAND_END, S("pulse"), NULL, NULL);
	suspicions_forget(w);
	text_clear(&w->pulse_inbox);
	if (!w->settings.silent || w->options->until_quiet)
		return;
	w->pulse = begin(w, HAND_PULSE, (struct str){ 0 });
	w->pulse_due = now_ms() + (w->pulse < 0 ? EYE_AGAIN_MS : PULSE_SILENT_MS);
}

static void lose_pulse(struct watcher *w)
{
	cleanup_close(&w->pulse);
	w->pulse_due = now_ms() + EYE_AGAIN_MS;
	set_unread(w, &w->uncounted, S("The process that counts progress has ended; another one is started."));
}

/** A pulse that is silent waits for the driver, which is a sign by itself, or was stopped. Another one is started when this one is gone, not
 * before. */
static void check_pulse(struct watcher *w, int64_t now)
{
	enum { AGAIN_MS = 60000 };
	if (!w->pulse_due || now < w->pulse_due)
		return;
	w->pulse_due = now + AGAIN_MS;
	if (w->pulse >= 0) {
		set_unread(w, &w->uncounted,
			   S("The process that counts progress does not answer: it was stopped, or waits for the driver."));
		suspicions_forget(w);
		w->look_wanted = true;
	}
	cleanup_close(&w->pulse);
	if (hand_ask(w->hand, HAND_END, S("pulse"), NULL, NULL))
		open_pulse(w);
}

// --- the loop ---

static int milliseconds_to(int64_t when, int64_t now) { return when < 0 ? -1 : when <= now ? 0 : (int)(when - now); }

static int shorter(int a, int b) { return a < 0 ? b : b < 0 || a < b ? a : b; }

static void take_signal(struct watcher *w, int fd)
{
	struct signalfd_siginfo s;
	while (read(fd, &s, sizeof(s)) == sizeof(s)) {
		w->stop |= s.ssi_signo == SIGTERM || s.ssi_signo == SIGINT;
		w->reload |= s.ssi_signo == SIGHUP;
	}
}

static void tell_mistake(void *ctx, const char *message) { voice_problem(&((struct watcher *)ctx)->voice, message); }

/** A configuration with mistakes does not replace one that works. */
static void reload(struct watcher *w)
{
	struct watch_settings s;
	unsigned mistakes;
	w->reload = false;
	voice_notify(&w->voice, "RELOADING=1");
	text_clear(&w->voice.problems);
	struct uh_error *err = settings_load(&s, w->options->config, tell_mistake, w, &mistakes);
	door_end();
	if (err)
		voice_problem(&w->voice, uh_error_message(err));
	if (err || mistakes || w->job.kind != JOB_NONE) {
		settings_free(&s);
		voice_problem(&w->voice, "The configuration has mistakes. The one before stays in use.");
	} else {
		voice_note(&w->voice, "The configuration was read again and is in use.");
		settings_free(&w->settings);
		w->settings = s;
		hand_override(&w->settings, w->options);
		open_pulse(w);
	}
	uh_error_free(err);
	voice_notify(&w->voice, "READY=1");
}

static bool is_quiet(const struct watcher *w)
{
	bool busy = !w->ready || w->job.kind != JOB_NONE || w->look_wanted;
	for (size_t n = 0; n < w->cases.len; n++) {
		const struct watch_case *c = w->cases.data[n];
		bool full = c->dirty && c->retry; // it could not be written: nothing is to be waited for
		busy |= !full && ((!c->known && !c->causeless) || c->capture == CAPTURE_WANTED || c->explain_wanted ||
				  c->hooks_wanted || c->dirty);
	}
	return !busy;
}

/** Everything that does not wait. */
static void step(struct watcher *w)
{
	int64_t now = now_ms();
	jobs_go_on(w, now);
	check_pulse(w, now);
	if (w->ready) {
		cases_follow(w, now);
		cases_close_asked(w, now);
		closings_make_room(w);
		cases_sweep(w, now);
	}
	if (w->reload && w->job.kind == JOB_NONE)
		reload(w);
	jobs_start(w, now);
	holds_follow(w, now);
	if ((w->state_old || now >= w->state_due) && w->ready)
		state_write(w);
	w->stop |= w->options->until_quiet && is_quiet(w);
	if (w->ready)
		restart_keep(w, now);
}

static void loop(struct watcher *w, int signals)
{
	while (!w->stop) {
		int64_t now = now_ms();
		int wait = shorter(milliseconds_to(cases_next(w, now), now), voice_watchdog(&w->voice, now));
		wait = shorter(wait, w->job.kind == JOB_NONE ? -1 : milliseconds_to(w->job.deadline, now));
		wait = shorter(wait, milliseconds_to(w->eye < 0 ? w->eye_again : w->eye_due, now));
		wait = shorter(wait, milliseconds_to(holds_next(w), now));
		wait = shorter(wait, milliseconds_to(closings_next(w, now), now));
		wait = shorter(wait, milliseconds_to(w->state_due, now));
		wait = shorter(wait, w->pulse_due ? milliseconds_to(w->pulse_due, now) : -1);
		struct pollfd on[] = {
			{ signals, POLLIN, 0 }, { w->eye, POLLIN, 0 }, { w->job.fd, POLLIN, 0 }, { w->pulse, POLLIN, 0 }
		};
		poll(on, 4, wait);
		if (on[0].revents)
			take_signal(w, signals);
		if (on[1].revents)
			w->eye_due = now_ms() + EYE_SILENT_MS;
		if (on[1].revents && !take_frames(w, w->eye, &w->inbox))
			lose_eye(w);
		check_eye(w, now_ms());
		if (on[3].revents && !take_frames(w, w->pulse, &w->pulse_inbox))
			lose_pulse(w);
		if (w->eye_again >= 0 && now_ms() >= w->eye_again)
			open_eye(w);
		step(w);
	}
}

static void run(struct watcher *w)
{
	_cleanup_close_ int signals = hand_signals(false);
	w->progress = mem_alloc(GPUS_MOST * sizeof(*w->progress));
	w->engine = engine_new(w->know, (struct incident_sink){ .incident = cases_closed, .joined = cases_joined, .ctx = w });
	w->evidence = evidence_reader_new(w->know, (struct event_sink){ .event = on_event, .ctx = w });
	evidence_record(w->evidence, "/dev/kmsg", NULL);
	uh_error_free(store_list(w->settings.state_dir, &w->before));
	quota_remember(w);
	set_clock(w, source_uptime());
	store_place_load(w->settings.state_dir, &w->place);
	str_copy(w->read.boot_id, sizeof(w->read.boot_id), str_z(w->boot_id));
	str_copy(w->log_boot, sizeof(w->log_boot), str_z(w->boot_id));
	door_end();                      // nobody reads through it while nothing happens
	lower_privileges(LOWER_NOGROUP); // before the first byte of a stranger's
	w->look_wanted = w->state_old = true;
	w->state_due = -1;
	open_eye(w);
	open_pulse(w);
	voice_notify(&w->voice, "READY=1");
	loop(w, signals);
	voice_notify(&w->voice, "STOPPING=1");
	if (w->ready)
		state_write(w); // which says that nobody watches any more
	jobs_stop(w);
	cleanup_close(&w->eye);
	cleanup_close(&w->pulse);
	evidence_record(w->evidence, NULL, NULL);
	evidence_reader_free(w->evidence);
	engine_free(w->engine);
	cases_free(w);
	free(w->progress);
	stored_list_free(&w->before);
	arena_free(&w->gpus_arena);
	text_free(&w->inbox);
	text_free(&w->pulse_inbox);
	text_free(&w->unread);
	text_free(&w->uncounted);
}

struct mind_start {
	const struct watch_options *options;
	const struct know *know;
	const struct hand *hand;
};

/** The mind: a process of its own, which puts its rights down before it reads anything. */
static void mind(int hand, void *ctx)
{
	const struct mind_start *m = ctx;
	struct watcher w = { .options = m->options,
			     .know = m->know,
			     .hand = hand,
			     .root = !geteuid(),
			     .disk = -1,
			     .eye = -1,
			     .pulse = -1,
			     .job.fd = -1 };
	char boot[64];
	unsigned mistakes;
	struct uh_error *err = settings_load(&w.settings, m->options->config, m->options->tell, m->options->ctx, &mistakes);
	if (!err && !mistakes) {
		hand_override(&w.settings, m->options);
		w.disk = open(w.settings.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		gethostname(w.host, sizeof(w.host) - 1);
		str_copy(w.boot_id, sizeof(w.boot_id),
			 str_trim(small_file("/proc/sys/kernel/random/boot_id", boot, sizeof(boot))));
		voice_open(&w.voice, hand);
		if (m->hand->again)
			voice_warn(&w.voice, "The process that judges had ended or did not answer; another one goes on.");
		run(&w);
		voice_close(&w.voice);
	}
	uh_error_free(err);
	settings_free(&w.settings);
}

struct uh_error *watch_run(const struct watch_options *o, const struct know *k, const struct watch_hands *hands)
{
	struct hand h = {
		.options = o, .know = k, .hands = hands, .eye.fd = -1, .pulse.fd = -1, .job.fd = -1, .mind.fd = -1, .lock = -1
	};
	unsigned mistakes;
	struct uh_error *err = settings_load(&h.settings, o->config, o->tell, o->ctx, &mistakes);
	if (!err && mistakes)
		err = uh_error_new("the configuration has %u mistake%s", mistakes, mistakes == 1 ? "" : "s");
	if (!err && !o->check) {
		struct mind_start start = { o, k, &h };
		hand_override(&h.settings, o);
		door_end();
		err = state_take(h.settings.state_dir, &h.lock);
		store_give(h.settings.state_dir);
		if (!err)
			err = hand_serve(&h, mind, &start);
		cleanup_close(&h.lock);
	}
	settings_free(&h.settings);
	return err;
}
