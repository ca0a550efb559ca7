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
#include "watch/kernel_log.h"
#include "watch/pulse/pulse.h"
#include "watch/watcher.h"

enum { READ_AT_ONCE = 64 << 10, READER_AGAIN_MS = 5000, LOG_SILENT_MS = 3 * LOG_LIVES_MS };

// --- what the log reader sees ---

/** What follows is of this boot: with another one ends all that is open. */
static void turn_to_boot(struct watcher *w, struct str boot_id)
{
	if (str_is(boot_id, w->log_boot))
		return;
	evidence_record(w->evidence, NULL, NULL);
	engine_end(w->engine);
	evidence_record(w->evidence, "/dev/kmsg", NULL);
	str_copy(w->log_boot, sizeof(w->log_boot), boot_id);
}

static void watch_take_line(struct watcher *w, struct source_record *line)
{
	line->boot_id = str_z(w->log_boot);
	if (!w->ready)
		cases_replay(w, line->boot_seconds);
	evidence_record(w->evidence, "/dev/kmsg", line);
}

static void watch_take_record(struct watcher *w, struct str record)
{
	enum { MS = 1000, US = 1000000 };
	const uint64_t sequence = source_kmsg_sequence(record);
	if (sequence && sequence <= w->read.sequence) // a new log reader begins where the log does
		return;
	struct source_record out = source_kmsg_record(record);
	int64_t ms = (int64_t)(out.boot_seconds * MS);
	w->read.sequence = sequence;
	w->read.microseconds = (int64_t)(out.boot_seconds * US);
	w->read_at = w->now;
	if (w->ready && out.boot_seconds >= 0 && ms > watch_kernel_ms(w))
		w->clock_ms = ms - w->now;
	turn_to_boot(w, str_z(w->boot_id));
	watch_take_line(w, &out);
}

/** It begins some minutes before the place, so that what belongs together is known; a judge that goes on has these. */
static void take_kept(struct watcher *w, struct str text)
{
	enum { US = 1000000 };
	struct kept_record kept;
	if (!kept_parse(text, &kept) || kept.boot_id.n >= sizeof(w->log_boot))
		return;
	const int64_t us = (int64_t)(kept.record.boot_seconds * US);
	if (w->read.sequence && (!str_is(kept.boot_id, w->boot_id) || us <= w->read.microseconds))
		return;
	turn_to_boot(w, kept.boot_id);
	w->log_began_us = kept.wall_us - us;
	watch_take_line(w, &kept.record);
}

static void take_kfd(struct watcher *w, struct str text)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct kfd_told told;
	struct event e;
	if (kfd_told_parse(text, &told) && kfd_told_event(w->know, &told, &a, &e))
		cases_second(w, &e);
}

static void take_uevent(struct watcher *w, struct str text)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct uevent u;
	struct event e;
	// Other vendors' GPUs are wedged in the same words.
	if (!uevent_parse(text, &u) || !uevent_matters(&u) || (u.wedged.n && !watched_gpu(w, uevent_pci(&u))))
		return;
	if (uevent_event(w->know, &u, &a, &e))
		cases_second(w, &e);
	cases_evidence(w, uevent_pci(&u));
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

static void take_notice(struct watcher *w, const struct notice *f)
{
	_cleanup_text_ struct text why = { 0 };
	switch (f->kind) {
	case NOTICE_RECORD:
		watch_take_record(w, f->text);
		break;
	case NOTICE_KEPT:
		take_kept(w, f->text);
		break;
	case NOTICE_GAP:
	case NOTICE_LOST:
		w->lost++;
		w->state_old = true;
		if (f->kind == NOTICE_GAP)
			voice_warn(&w->voice,
				   "The kernel overwrote messages while nobody read them, and the journal lacks some.");
		else
			voice_problem(&w->voice, "The kernel wrote messages faster than they were read; some are lost.");
		break;
	case NOTICE_READY:
		turn_to_boot(w, str_z(w->boot_id));
		w->ready = true;
		if (!w->log_failed)
			set_unread(w, &w->unread, (struct str){ 0 });
		break;
	case NOTICE_UEVENT:
		take_uevent(w, f->text);
		break;
	case NOTICE_FAILED:
		text_printf(&why, "/dev/kmsg: " STR_FMT, STR_ARG(f->text));
		w->log_failed = true;
		set_unread(w, &w->unread, text_str(&why));
		break;
	case NOTICE_VOTES:
		votes_take(w, f->text, false);
		suspicions_follow(w);
		break;
	case NOTICE_SAMPLE:
		diary_sample(w, f->text);
		break;
	case NOTICE_BEAT:
		w->pulse_due = w->now + PULSE_SILENT_MS;
		set_unread(w, &w->uncounted, (struct str){ 0 });
		break;
	case NOTICE_HOLD:
		holds_take(w, f->text);
		break;
	case NOTICE_KFD:
		take_kfd(w, f->text);
		break;
	case NOTICE_ERRORS:
		errors_take(w, f->text);
		break;
	case NOTICE_ASTRAY:
		w->place = (struct store_place){ 0 };
		w->read.sequence = 0;
		voice_warn(&w->voice,
			   "The place in the kernel's log that was kept is none of this log's: all of it is read again.");
		break;
	case NOTICE_LIVES:
	case NOTICE_KINDS:
		break;
	}
}

/** Of the log reader, or of the pulse. false: it is gone. */
static bool take_notices(struct watcher *w, int fd, struct text *inbox)
{
	ssize_t n = read(fd, text_room(inbox, READ_AT_ONCE), READ_AT_ONCE);
	struct notice notice;
	bool wrong = false, was_ready = w->ready;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	inbox->n += (size_t)n;
	struct str bytes = text_str(inbox);
	while (notice_take(&bytes, &notice, &wrong)) {
		take_notice(w, &notice);
		if (w->ready && !was_ready) {
			cases_follow(w, w->now + w->settings.settle); // what was there is told at once
			cases_follow(w, w->now + 2 * w->settings.settle);
			cases_adopt(w);
			was_ready = true;
		}
	}
	memmove(inbox->p, bytes.p, bytes.n);
	inbox->n = bytes.n;
	return !wrong;
}

/** Has the keeper start it. -1: it could not. */
static int have_started(struct watcher *w, enum keeper_task task, struct str text)
{
	_cleanup_text_ struct text why = { 0 };
	int fd = -1;
	if (keeper_ask(w->keeper, task, text, &why, &fd))
		fcntl(fd, F_SETFL, O_NONBLOCK);
	else
		voice_problem(&w->voice, why.p);
	return fd;
}

static void open_reader(struct watcher *w)
{
	_cleanup_text_ struct text place = { 0 };
	store_place_text(w->read.sequence ? &w->read : &w->place, &place);
	text_clear(&w->inbox);
	w->log_failed = false;
	w->reader_began = w->now;
	w->reader = have_started(w, KEEPER_LOG, text_str(&place));
	w->reader_again = w->reader < 0 ? w->reader_began + READER_AGAIN_MS : -1;
	w->reader_due = w->reader_began + LOG_SILENT_MS;
}

/** There will be another: at once, unless it ended as soon as it had begun. */
static void lose_reader(struct watcher *w)
{
	const int64_t soonest = w->reader_began + READER_AGAIN_MS;
	cleanup_close(&w->reader);
	w->reader_again = soonest > w->now ? soonest : w->now;
	if (!w->log_failed) // else it said why
		set_unread(w, &w->unread, S("The process that reads the kernel's log has ended; another one is started."));
}

/** A log reader that is silent was stopped: a debugger can do that, or root. */
static void check_reader(struct watcher *w)
{
	if (w->reader < 0 || w->now < w->reader_due)
		return;
	set_unread(w, &w->unread, S("The process that reads the kernel's log does not answer; another one is started."));
	cleanup_close(&w->reader);
	w->reader_again = w->now; // which ends the old one
}

/** Starts the pulse, or another one where the configuration has changed. */
static void open_pulse(struct watcher *w)
{
	cleanup_close(&w->pulse);
	w->pulse_due = 0;
	keeper_ask(w->keeper, KEEPER_END, S("pulse"), NULL, NULL);
	w->nprogress = 0; // what the one before counted is not known any more
	text_clear(&w->pulse_inbox);
	if (!w->settings.silent || w->options->until_quiet)
		return;
	w->pulse = have_started(w, KEEPER_PULSE, (struct str){ 0 });
	w->pulse_due = w->now + (w->pulse < 0 ? READER_AGAIN_MS : PULSE_SILENT_MS);
}

static void lose_pulse(struct watcher *w)
{
	cleanup_close(&w->pulse);
	w->pulse_due = w->now + READER_AGAIN_MS;
	set_unread(w, &w->uncounted, S("The process that counts progress has ended; another one is started."));
}

/** A pulse that is silent waits for the driver, which is a sign by itself, or was stopped. Another one is started when this one is gone, not
 * before. */
static void check_pulse(struct watcher *w)
{
	enum { AGAIN_MS = 60000 };
	if (!w->pulse_due || w->now < w->pulse_due)
		return;
	w->pulse_due = w->now + AGAIN_MS;
	if (w->pulse >= 0) {
		set_unread(w, &w->uncounted,
			   S("The process that counts progress does not answer: it was stopped, or waits for the driver."));
		w->nprogress = 0;
		w->look_wanted = true;
	}
	cleanup_close(&w->pulse);
	if (keeper_ask(w->keeper, KEEPER_END, S("pulse"), NULL, NULL))
		open_pulse(w);
}

// --- the loop ---

static void watch_take_signal(struct watcher *w, int fd)
{
	struct signalfd_siginfo s;
	while (read(fd, &s, sizeof(s)) == sizeof(s)) {
		w->stop |= s.ssi_signo == SIGTERM || s.ssi_signo == SIGINT;
		w->reload |= s.ssi_signo == SIGHUP;
	}
}

static void tell_mistake(void *ctx, const char *message) { voice_problem(&((struct watcher *)ctx)->voice, message); }

/** A configuration with mistakes does not replace one that works. */
static void watch_reload(struct watcher *w)
{
	_cleanup_settings_ struct watch_settings s;
	unsigned mistakes;
	w->reload = false;
	voice_notify(&w->voice, "RELOADING=1");
	text_clear(&w->voice.problems);
	_cleanup_error_ struct uh_error *err = settings_load(&s, w->options->config, tell_mistake, w, &mistakes);
	door_end();
	if (err)
		voice_problem(&w->voice, uh_error_message(err));
	if (err || mistakes) {
		voice_problem(&w->voice, "The configuration has mistakes. The one before stays in use.");
	} else {
		voice_note(&w->voice, "The configuration was read again and is in use.");
		settings_replace(&w->settings, &s);
		keeper_override(&w->settings, w->options);
		open_pulse(w);
	}
	voice_notify(&w->voice, "READY=1");
}

/** Everything that does not wait. */
static void watch_step(struct watcher *w)
{
	jobs_go_on(w);
	check_pulse(w);
	if (w->ready) {
		cases_follow(w, w->now);
		cases_sweep(w);
		diary_follow(w);
	}
	if (w->reload && w->job.kind == JOB_NONE)
		watch_reload(w);
	jobs_start(w);
	holds_follow(w);
	if ((w->state_old || w->now >= w->state_due) && w->ready)
		state_write(w);
	w->stop |= w->options->until_quiet && w->ready && w->job.kind == JOB_NONE && !w->look_wanted && !cases_busy(w);
	if (w->ready)
		cases_keep_place(w);
}

/** Milliseconds until the first of what is due; -1: nothing is. */
static int until_due(struct watcher *w)
{
	const int64_t due[] = { cases_next(w),
				holds_next(w),
				diary_next(w),
				w->job.kind == JOB_NONE ? -1 : w->job.deadline,
				w->reader < 0 ? w->reader_again : w->reader_due,
				w->pulse_due ? w->pulse_due : -1,
				w->state_due };
	int wait = voice_watchdog(&w->voice, w->now);
	for (size_t i = 0; i < ARRAY_SIZE(due); i++) {
		const int64_t left = due[i] > w->now ? due[i] - w->now : 0;
		if (due[i] >= 0 && (wait < 0 || left < wait))
			wait = (int)left;
	}
	return wait;
}

static void watch_loop(struct watcher *w, int signals)
{
	while (!w->stop) {
		struct pollfd on[] = {
			{ signals, POLLIN, 0 }, { w->reader, POLLIN, 0 }, { w->job.fd, POLLIN, 0 }, { w->pulse, POLLIN, 0 }
		};
		w->now = now_ms();
		poll(on, 4, until_due(w));
		w->now = now_ms();
		if (on[0].revents)
			watch_take_signal(w, signals);
		if (on[1].revents)
			w->reader_due = w->now + LOG_SILENT_MS;
		if (on[1].revents && !take_notices(w, w->reader, &w->inbox))
			lose_reader(w);
		check_reader(w);
		if (on[3].revents && !take_notices(w, w->pulse, &w->pulse_inbox))
			lose_pulse(w);
		if (w->reader_again >= 0 && w->now >= w->reader_again)
			open_reader(w);
		watch_step(w);
	}
}

static void watch_until_stop(struct watcher *w)
{
	_cleanup_close_ int signals = keeper_signals(false);
	w->now = now_ms();
	w->progress = mem_alloc(GPUS_MOST * sizeof(*w->progress));
	w->engine = engine_new(w->know, (struct incident_sink){ .incident = cases_closed, .joined = cases_joined, .ctx = w });
	w->evidence = evidence_reader_new(w->know, (struct event_sink){ .event = diary_event, .ctx = w });
	evidence_record(w->evidence, "/dev/kmsg", NULL);
	uh_error_free(store_list(w->settings.state_dir, &w->before));
	quota_remember(w);
	const double uptime = source_uptime();
	w->clock_ms = uptime > 0 ? (int64_t)(uptime * 1000) - w->now : 0;
	store_place_load(w->settings.state_dir, &w->place);
	str_copy(w->read.boot_id, sizeof(w->read.boot_id), str_z(w->boot_id));
	str_copy(w->log_boot, sizeof(w->log_boot), str_z(w->boot_id));
	door_end();                             // nobody reads through it while nothing happens
	if (!child_put_down(CHILD_WATCH_JUDGE)) // before the first byte of a stranger's
		_exit(EXIT_FAILURE);
	w->look_wanted = w->state_old = true;
	w->state_due = -1;
	open_reader(w);
	open_pulse(w);
	voice_notify(&w->voice, "READY=1");
	watch_loop(w, signals);
	voice_notify(&w->voice, "STOPPING=1");
	if (w->ready)
		state_write(w); // which says that nobody watches any more
	diary_end(w);
	jobs_stop(w);
	evidence_record(w->evidence, NULL, NULL);
}

static void watcher_free(struct watcher *w)
{
	cleanup_close(&w->reader);
	cleanup_close(&w->pulse);
	cleanup_close(&w->disk);
	if (w->evidence)
		evidence_reader_free(w->evidence);
	if (w->engine)
		engine_free(w->engine);
	cases_free(w);
	vec_free(&w->holds);
	cleanup_free(&w->progress);
	trend_free(&w->corrected);
	stored_list_free(&w->before);
	arena_free(&w->gpus_arena);
	text_free(&w->inbox);
	text_free(&w->pulse_inbox);
	text_free(&w->unread);
	text_free(&w->uncounted);
	voice_close(&w->voice);
	settings_free(&w->settings);
}

/** The judge: a process of its own, which puts its rights down before it reads anything. */
static void judge_main(int socket, const struct keeper *k)
{
	const struct watch_options *o = k->options;
	struct watcher w = { .options = o,
			     .know = k->know,
			     .keeper = socket,
			     .root = !geteuid(),
			     .disk = -1,
			     .reader = -1,
			     .pulse = -1,
			     .voice.journal = -1,
			     .job.fd = -1 };
	char boot[64];
	unsigned mistakes;
	_cleanup_error_ struct uh_error *err = settings_load(&w.settings, o->config, o->tell, o->ctx, &mistakes);
	if (!err && !mistakes) {
		keeper_override(&w.settings, o);
		w.disk = open(w.settings.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		source_host(w.host);
		str_copy(w.boot_id, sizeof(w.boot_id), source_boot_id(boot));
		voice_open(&w.voice, socket);
		if (k->again)
			voice_warn(&w.voice, "The process that judges had ended or did not answer; another one goes on.");
		watch_until_stop(&w);
	}
	watcher_free(&w);
}

struct uh_error *watch_run(const struct watch_options *o, const struct know *k, const struct watch_helpers *helpers)
{
	struct keeper h = { .options = o,
			    .know = k,
			    .helpers = helpers,
			    .reader.fd = -1,
			    .pulse.fd = -1,
			    .job.fd = -1,
			    .judge.fd = -1,
			    .socket = -1,
			    .lock = -1 };
	unsigned mistakes;
	struct uh_error *err = settings_load(&h.settings, o->config, o->tell, o->ctx, &mistakes);
	if (!err && mistakes)
		err = uh_error_new("the configuration has %u mistake%s", mistakes, mistakes == 1 ? "" : "s");
	if (!err && !o->check) {
		keeper_override(&h.settings, o);
		door_end();
		err = state_take(h.settings.state_dir, &h.lock);
		store_give(h.settings.state_dir);
		if (!err)
			err = keeper_serve(&h, judge_main);
	}
	cleanup_close(&h.lock);
	settings_free(&h.settings);
	return err;
}
