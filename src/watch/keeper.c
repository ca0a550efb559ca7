#include "watch/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "base/message.h"
#include "base/print.h"
#include "base/save.h"
#include "source/tape/stuck_reads.h"
#include "evidence/documents/watch_event.h"
#include "store/history/index.h"
#include "store/history/line.h"
#include "store/store.h"
#include "store/trend.h"
#include "watch/answer.h"
#include "watch/kernel_log.h"
#include "watch/hooks.h"
#include "watch/pulse/pulse.h"
#include "watch/tell.h"

enum { MESSAGE_MOST = 192 << 10, KILL_MS = 200, AGAIN_S = 2, STOP_MS = 5000 };
// The judge writes its state each minute. If it is stopped, it is replaced before that state has expired.
enum { JUDGE_SILENT_MS = 150000 };

/** What is sent, in both directions: what is asked for and its text, and whether that was done and what is said of it. */
struct keeper_message {
	uint32_t task;
	bool good;
	struct str text;
};
static const struct wire_field message_fields[] = {
	WIRE_NUMBER(struct keeper_message, task, KEEPER_TASKS - 1),
	WIRE_BOOL(struct keeper_message, good),
	WIRE_TEXT(struct keeper_message, text),
};
static const struct wire_kind message_kind = WIRE_KIND('w', struct keeper_message, message_fields);

// --- messages ---

static bool send_message(int socket, const struct keeper_message *m, int fd)
{
	_cleanup_text_ struct text bytes = { 0 };
	wire_put(&bytes, &message_kind, m);
	return message_send(socket, &(struct iovec){ bytes.p, bytes.n }, 1, fd) == (ssize_t)bytes.n;
}

/** false: there is none, or it is cut, or no message. */
static bool receive_message(int socket, struct arena *a, struct keeper_message *ret, int *ret_fd)
{
	_cleanup_text_ struct text bytes = { 0 };
	_cleanup_close_ int fd = -1;
	int flags = 0;
	const ssize_t n =
		message_receive(socket, &(struct iovec){ text_room(&bytes, MESSAGE_MOST), MESSAGE_MOST }, 1, &flags, &fd);
	if (n < 0 || flags & MSG_TRUNC || !wire_take((struct str){ bytes.p, (size_t)n }, &message_kind, a, ret))
		return false;
	if (ret_fd)
		*ret_fd = take_fd(&fd);
	return true;
}

bool keeper_ask(int keeper, enum keeper_task task, struct str text, struct text *ret_why, int *ret_fd)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct keeper_message m = { .task = task, .text = text };
	const bool sent = send_message(keeper, &m, -1), large = !sent && errno == EMSGSIZE;
	// A judge whose keeper was killed tells nothing more: what it could not store, the next one tells.
	if (!large && (!sent || !receive_message(keeper, &a, &m, ret_fd)))
		_exit(EXIT_FAILURE);
	const bool good = sent && m.good;
	if (ret_why) {
		text_clear(ret_why);
		text_add(ret_why, sent && (m.text.n || good) ? m.text :
				  large                      ? S("There is more to write than fits.") :
							       S("It could not be done."));
	}
	return good;
}

// --- jobs ---

struct keeper_job {
	const struct keeper *keeper;
	enum keeper_task task;
	const struct stored *stored;
};

/** What no log has, as an event for its bundle: what KFD told, or the votes. The time of votes is that since which nothing moved. */
static struct str note_of(struct arena *a, const struct stored *i)
{
	enum { US = 1000000 };
	const bool counted = str_is(i->origin, STORE_ORIGIN_COUNTED), kfd = counted || str_is(i->origin, STORE_ORIGIN_KFD);
	if (!kfd && !i->votes.n)
		return (struct str){ 0 };
	const int64_t stood = i->stood > 0 && i->stood < i->last_us / US ? i->stood : 0;
	const struct watch_event e = { .signature = counted ? S("watch-ras-counted") :
						    !kfd    ? S("watch-votes") :
						    i->pid  ? S("kfd-page-fault") :
							      S("kfd-reset-begin"),
				       .incident = i->id,
				       .boot_id = i->boot_id,
				       .gpu = i->gpu,
				       .us = kfd ? i->first_us : i->last_us - stood * US,
				       .process = i->job.n ? i->job : S("process"),
				       .pid = kfd ? i->pid : 0,
				       .votes = kfd ? (struct str){ 0 } : i->votes,
				       .reset_source = i->reset_source,
				       .stood = stood };
	return watch_event_text(&e, a);
}

static const char *history_place(struct arena *a, const struct watch_settings *s)
{
	return arena_printf(a, "%s/" HISTORY_DIRECTORY, s->state_dir).p;
}

static struct uh_error *add_lines(const struct watch_settings *s, struct str lines)
{
	_cleanup_arena_ struct arena a = { 0 };
	if (!str_starts(lines, S("{\"schema\":\"" HISTORY_SCHEMA "\",")) || lines.p[lines.n - 1] != '\n')
		return uh_error_new("what the history was to get is none of its lines");
	return spool_append(history_place(&a, s), lines);
}

static void problem_of(struct uh_error *err, struct text *to)
{
	if (err)
		text_printf(to, "%s\n", uh_error_message(err));
	uh_error_free(err);
}

/** Each change of an incident that hooks are told of is in the history before. */
static void tell_history(const struct watch_settings *s, const struct stored *i, struct text *problems)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text line = { 0 };
	const char *directory = store_path(&a, s->state_dir, i->id);
	line_of_incident(&line, i, str_z(directory), store_diagnosis(s->state_dir, i->id, HISTORY_DIAGNOSIS_MOST, &a)); // there may be none
	struct uh_error *err = spool_append(history_place(&a, s), text_str(&line));
	// Where nothing can be stored at all, that was told; and what was stored, who reads the history finds.
	if (err && (err->errnum == ENOSPC || err->errnum == EDQUOT || access(directory, F_OK)))
		uh_error_free(err);
	else
		problem_of(err, problems);
}

/** The name of this machine's directory among others. */
static const char *host_directory(struct arena *a, const char *spool)
{
	char host[SOURCE_HOST_MAX];
	_cleanup_text_ struct text name = { 0 };
	spool_host_name(&name, str_z(source_host(host)));
	return arena_printf(a, "%s/" STR_FMT, spool, STR_ARG(text_str(&name))).p;
}

static void ship_history(const struct watch_settings *s, struct text *problems)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *history = history_place(&a, s), *to = s->spool_dir ? host_directory(&a, s->spool_dir) : NULL;
	spool_vacuum(history, s->keep_history_days, (uint64_t)s->keep_history_megabytes << 20);
	if (to)
		problem_of(spool_ship(history, to), problems);
	if (to && s->spool_bundles)
		problem_of(spool_ship_bundles(s->state_dir, to), problems);
}

/** In the job's child. Its last line says that it came to its end. */
static void job_work(int fd, const void *ctx)
{
	const struct keeper_job *j = ctx;
	const struct watch_settings *s = &j->keeper->settings;
	const struct watch_helpers *helpers = j->keeper->helpers;
	struct arena a = { 0 };
	struct text problems = { 0 };
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	child_keep_two(fd, STDERR_FILENO);
	fcntl(fd, F_SETFD, FD_CLOEXEC); // what a hook leaves running must not hold the answer open
	door_leave();
	FILE *to = fdopen(fd, "w");
	if (!to)
		_exit(1);
	const char *directory = j->stored->id.n ? store_path(&a, s->state_dir, j->stored->id) : NULL;
	if (j->task == KEEPER_CAPTURE) {
		store_vacuum(s->state_dir, (size_t)s->keep_incidents, (uint64_t)s->keep_megabytes << 20);
		_cleanup_error_ struct uh_error *err = access(directory, F_OK) ? store_save(s->state_dir, j->stored) : NULL;
		if (err) // a full disk: there is no place for a bundle, and that is told
			fprintf(to, "bundle %s\n", uh_error_message(err));
		else
			helpers->capture(helpers->ctx, s, directory, note_of(&a, j->stored), to);
	}
	if (j->task == KEEPER_LOOK)
		helpers->look(helpers->ctx, to);
	if (j->task == KEEPER_EXPLAIN)
		helpers->explain(helpers->ctx, j->stored, directory, to);
	if (j->task == KEEPER_HOOKS) {
		tell_history(s, j->stored, &problems);
		hooks_tell(s, j->stored, &problems);
	}
	if (j->task == KEEPER_NOTE)
		helpers->note(helpers->ctx, to);
	if (j->task == KEEPER_SHIP)
		ship_history(s, &problems);
	for (struct str rest = text_str(&problems); rest.n;) {
		struct str line = str_split(&rest, '\n');
		fprintf(to, "problem " STR_FMT "\n", STR_ARG(line));
	}
	fputs("done\n", to);
	fclose(to);
	door_end();
	_exit(0);
}

// --- serving ---

static bool child_handed_over(bool begun, struct child *c, struct text *why, int *ret_fd)
{
	if (!begun)
		text_add(why, S("No process could be started."));
	*ret_fd = take_fd(&c->fd); // the judge has it from now on
	return begun;
}

static bool keeper_start_job(struct keeper *h, enum keeper_task task, const struct stored *stored, struct text *why,
			     int *ret_fd)
{
	const struct keeper_job job = { h, task, stored };
	child_kill(&h->job, KILL_MS);
	return child_handed_over(child_start(CHILD_WATCH_CAPTURE, job_work, &job, &h->job), &h->job, why, ret_fd);
}

static void end_answerer(struct child *c)
{
	enum { END_MS = 20 };
	if (c->pid > 0)
		child_kill(c, END_MS);
}

/** Nobody waits for it. One that has not ended when its place is needed again waits for a user's file, and is ended. */
static bool start_answerer(struct keeper *h, struct str text)
{
	struct hold_task task;
	struct child *c = &h->answerers[h->answered % KEEPER_ANSWERERS];
	if (!hold_task_parse(text, &task))
		return false;
	h->answered++;
	end_answerer(c);
	if (!answer_begin(&task, c))
		return false;
	cleanup_close(&c->fd);
	return true;
}

/** Whether that was done; *@why: why not. */
static bool was_done(struct uh_error *err, struct text *why)
{
	_cleanup_error_ struct uh_error *e = err;
	if (e)
		text_add(why, str_z(uh_error_message(e)));
	return !e;
}

static bool write_state(const struct keeper *h, struct str text, struct text *why)
{
	_cleanup_arena_ struct arena a = { 0 };
	mkdir(h->settings.run_dir, 0755);
	return was_done(save_file(AT_FDCWD, arena_printf(&a, "%s/state.json", h->settings.run_dir).p, text, 0644), why);
}

static struct child *child_named(struct keeper *h, struct str name)
{
	return str_is(name, "log") ? &h->reader : str_is(name, "pulse") ? &h->pulse : str_is(name, "job") ? &h->job : NULL;
}

/** Does what the judge asks for. What it says is not believed: a record must be one, with the id of one. */
static bool keeper_do(struct keeper *h, enum keeper_task task, struct str text, struct text *why, int *ret_fd)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct stored stored = { 0 };
	struct store_place place;
	struct child *c;
	struct watch_voice voice = { .journal = -1, .keeper = -1, .notify = getenv("NOTIFY_SOCKET") };
	bool record = stored_parse(text, &a, &stored), good = false;
	switch (task) {
	case KEEPER_LOG:
		child_kill(&h->reader, KILL_MS);
		place = store_place_parse(text, &place) ? place : (struct store_place){ 0 };
		good = child_handed_over(kernel_log_begin(&place, h->settings.kfd_events, &h->reader), &h->reader, why, ret_fd);
		break;
	case KEEPER_PULSE:
		child_kill(&h->pulse, KILL_MS);
		good = child_handed_over(pulse_begin(h->know, &h->pulse), &h->pulse, why, ret_fd);
		break;
	case KEEPER_LOOK:
	case KEEPER_NOTE:
	case KEEPER_SHIP:
		good = keeper_start_job(h, task, &stored, why, ret_fd);
		break;
	case KEEPER_CAPTURE:
	case KEEPER_EXPLAIN:
	case KEEPER_HOOKS:
		good = record && keeper_start_job(h, task, &stored, why, ret_fd);
		break;
	case KEEPER_END:
		c = child_named(h, text);
		good = c && child_kill(c, KILL_MS);
		break;
	case KEEPER_SAVE:
		good = record && was_done(store_save(h->settings.state_dir, &stored), why);
		break;
	case KEEPER_PLACE:
		good = store_place_parse(text, &place) && was_done(store_place_save(h->settings.state_dir, &place), why);
		break;
	case KEEPER_TREND:
		good = was_done(trend_keep(h->settings.state_dir, text), why);
		break;
	case KEEPER_STATE:
		good = write_state(h, text, why);
		break;
	case KEEPER_NOTIFY:
		voice_notify(&voice, arena_z(&a, text));
		good = true;
		break;
	case KEEPER_CLOSES:
		good = store_is_id(text) && store_close_asked(h->settings.state_dir, text, why);
		break;
	case KEEPER_HOLD:
		good = start_answerer(h, text);
		break;
	case KEEPER_LINES:
		good = was_done(add_lines(&h->settings, text), why);
		break;
	case KEEPER_TASKS:
		break;
	}
	return good;
}

/** false: the judge is gone. */
static bool keeper_answer(struct keeper *h)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text why = { 0 };
	_cleanup_close_ int fd = -1;
	struct keeper_message m;
	if (!receive_message(h->socket, &a, &m, NULL))
		return false;
	m.good = keeper_do(h, (enum keeper_task)m.task, m.text, &why, &fd);
	m.text = text_str(&why);
	return send_message(h->socket, &m, fd);
}

void keeper_override(struct watch_settings *s, const struct watch_options *o)
{
	s->state_dir = o->state_dir ? o->state_dir : s->state_dir;
	s->run_dir = o->run_dir ? o->run_dir : s->run_dir;
	s->hooks_dir = o->hooks_dir ? o->hooks_dir : s->hooks_dir;
	if (s->may_block)
		setenv(STUCK_READS_MAY_BLOCK, "1", 1); // for the children that look
}

/** The judge reads it too, and tells the mistakes. */
static void keeper_reload(struct keeper *h)
{
	_cleanup_settings_ struct watch_settings s;
	unsigned mistakes;
	_cleanup_error_ struct uh_error *err = settings_load(&s, h->options->config, tell_nobody, NULL, &mistakes);
	door_end();
	if (err || mistakes)
		return;
	settings_replace(&h->settings, &s);
	keeper_override(&h->settings, h->options);
}

static void keeper_take_signal(struct keeper *h, int signals)
{
	struct signalfd_siginfo s;
	while (read(signals, &s, sizeof(s)) == sizeof(s)) {
		h->stop |= s.ssi_signo == SIGTERM || s.ssi_signo == SIGINT;
		if (s.ssi_signo == SIGHUP)
			keeper_reload(h);
		if (s.ssi_signo != SIGCHLD && h->judge.pid) {
			kill(h->judge.pid, (int)s.ssi_signo);
			kill(h->judge.pid, SIGCONT); // it may be stopped
		}
	}
	if (h->stop && !h->stop_by)
		h->stop_by = now_ms() + STOP_MS;
}

/** Children that have ended; the judge's end is told by its pipe. */
static void keeper_reap(struct keeper *h)
{
	struct child *all[KEEPER_ANSWERERS + 3] = { &h->reader, &h->pulse, &h->job };
	for (size_t i = 0; i < KEEPER_ANSWERERS; i++)
		all[3 + i] = &h->answerers[i];
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i]->pid > 0 && waitpid(all[i]->pid, NULL, WNOHANG) == all[i]->pid)
			all[i]->pid = 0;
}

struct judge_work {
	struct keeper *keeper;
	int socket;
	void (*judge)(int socket, const struct keeper *keeper);
};

static void judge_work_begin(int fd, const void *ctx)
{
	const struct judge_work *work = ctx;
	(void)fd;
	cleanup_close(&work->keeper->socket);
	cleanup_close(&work->keeper->lock);
	prctl(PR_SET_NAME, "unhang-judge");
	work->judge(work->socket, work->keeper);
}

/** Serves one judge until it ends. false: it crashed. */
static bool serve_judge(struct keeper *h, int signals)
{
	_cleanup_text_ struct text nothing = { 0 };
	int64_t heard = now_ms();
	bool gone = false;
	while (!gone) {
		struct pollfd on[] = { { signals, POLLIN, 0 }, { h->socket, POLLIN, 0 }, { h->judge.fd, POLLIN, 0 } };
		const int64_t left = (h->stop_by ? h->stop_by : heard + JUDGE_SILENT_MS) - now_ms();
		poll(on, 3, left > 0 ? (int)left : 0);
		if (on[0].revents)
			keeper_take_signal(h, signals);
		keeper_reap(h);
		heard = on[1].revents ? now_ms() : heard;
		gone = now_ms() >=
		       (h->stop_by ? h->stop_by : heard + JUDGE_SILENT_MS); // a judge that is stopped, or stuck, is killed
		if (on[1].revents && !keeper_answer(h))
			gone = true;
		gone |= on[2].revents;
	}
	enum child_end end = child_wait(&h->judge, now_ms() + KILL_MS * 10, 1, &nothing);
	child_kill(&h->judge, KILL_MS);
	child_kill(&h->job, KILL_MS);
	child_kill(&h->reader, KILL_MS);
	child_kill(&h->pulse, KILL_MS);
	for (size_t i = 0; i < KEEPER_ANSWERERS; i++)
		end_answerer(&h->answerers[i]);
	return end == CHILD_GOOD;
}

int keeper_signals(bool children)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (children)
		sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct uh_error *keeper_serve(struct keeper *h, void (*judge)(int socket, const struct keeper *keeper))
{
	_cleanup_close_ int signals = keeper_signals(true);
	bool good = false;
	while (!h->stop && !good) {
		int ends[2];
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
			return uh_error_os(errno, "no socket");
		_cleanup_close_ int there = ends[1];
		const struct judge_work work = { h, there, judge };
		h->socket = ends[0];
		const bool begun = child_start(CHILD_WATCH_JUDGE, judge_work_begin, &work, &h->judge);
		cleanup_close(&there);
		if (begun)
			good = serve_judge(h, signals);
		cleanup_close(&h->socket);
		if (!begun)
			return uh_error_new("no process can be started");
		h->again = true;
		if (!good && !h->stop)
			nanosleep(&(struct timespec){ .tv_sec = AGAIN_S }, NULL);
	}
	return NULL;
}
