#include "watch/hand.h"

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
#include "source/tape/tomb.h"
#include "store/store.h"
#include "watch/attend.h"
#include "watch/eye.h"
#include "watch/hooks.h"
#include "watch/pulse/pulse.h"
#include "watch/tell.h"

enum { MESSAGE_MOST = 192 << 10, KILL_MS = 200, AGAIN_S = 2, STOP_MS = 5000 };
// The mind writes its state each minute. Others of nobody can stop it: it is replaced before that state has expired.
enum { MIND_SILENT_MS = 150000 };

/** Before each text, in both directions. */
struct hand_head {
	uint32_t task;
	int32_t good;
};

// --- messages ---

static bool send_message(int socket, struct hand_head head, struct str text, int fd)
{
	struct iovec parts[] = { { &head, sizeof(head) }, { (void *)(uintptr_t)text.p, text.n } };
	return message_send(socket, parts, 2, fd) == (ssize_t)(sizeof(head) + text.n);
}

/** false: there is none, or it is cut. */
static bool receive_message(int socket, struct hand_head *head, struct text *text, int *ret_fd)
{
	text_clear(text);
	struct iovec parts[] = { { head, sizeof(*head) }, { text_room(text, MESSAGE_MOST), MESSAGE_MOST } };
	int fd, flags = 0;
	ssize_t n = message_receive(socket, parts, 2, &flags, &fd);
	if (ret_fd)
		*ret_fd = fd;
	else
		cleanup_close(&fd);
	if (n < (ssize_t)sizeof(*head) || flags & MSG_TRUNC)
		return false;
	text->n = (size_t)n - sizeof(*head);
	text->p[text->n] = '\0';
	return true;
}

bool hand_ask(int hand, enum hand_task task, struct str text, struct text *ret_why, int *ret_fd)
{
	struct hand_head head = { .task = task };
	struct text why = { 0 };
	bool sent = send_message(hand, head, text, -1), large = !sent && errno == EMSGSIZE;
	// A mind whose hand was killed tells nothing more: what it could not store, the next one tells.
	if (!large && (!sent || !receive_message(hand, &head, &why, ret_fd)))
		_exit(EXIT_FAILURE);
	bool good = sent && head.good;
	if (ret_why) {
		text_clear(ret_why);
		text_add(ret_why, why.n || good ? text_str(&why) :
				  large         ? S("There is more to write than fits.") :
						  S("It could not be done."));
	}
	text_free(&why);
	return good;
}

// --- jobs ---

struct hand_job {
	const struct hand *hand;
	enum hand_task task;
	const struct stored *stored;
};

/** What KFD told and the log may not have. */
static struct str kfd_note(struct arena *a, const struct stored *i)
{
	enum { US = 1000000 };
	struct str what = i->pid ? arena_printf(a, "page fault of " STR_FMT " pid %lld",
						STR_ARG(i->job.n ? i->job : S("process")), (long long)i->pid) :
				   S("reset");
	return arena_printf(a, "[%5lld.%06lld] unhang watch: amdgpu " STR_FMT ": KFD tells of a " STR_FMT "\n",
			    (long long)(i->first_us / US), (long long)(i->first_us % US), STR_ARG(i->gpu), STR_ARG(what));
}

/** What no log has, as a line of one: the diagnosis reads it like any other. The time of votes is that since which nothing moved. */
static struct str note_of(struct arena *a, const struct stored *i)
{
	enum { US = 1000000 };
	if (str_is(i->origin, STORE_ORIGIN_KFD))
		return kfd_note(a, i);
	if (!i->votes.n)
		return (struct str){ 0 };
	const int64_t stood = i->stood > 0 && i->stood < i->last_us / US ? i->stood : 0, since = i->last_us - stood * US;
	return arena_printf(a, "[%5lld.%06lld] unhang watch: amdgpu " STR_FMT ": nothing moved for %lld s: " STR_FMT "\n",
			    (long long)(since / US), (long long)(since % US), STR_ARG(i->gpu), (long long)stood,
			    STR_ARG(i->votes));
}

static void prepare(int fd)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	child_keep_two(fd, STDERR_FILENO);
	fcntl(fd, F_SETFD, FD_CLOEXEC); // what a hook leaves running must not hold the answer open
	door_leave();
}

/** In the job's child. Its last line says that it came to its end. */
static void work(int fd, const void *ctx)
{
	const struct hand_job *j = ctx;
	const struct watch_settings *s = &j->hand->settings;
	const struct watch_hands *hands = j->hand->hands;
	struct arena a = { 0 };
	struct text problems = { 0 };
	prepare(fd);
	FILE *to = fdopen(fd, "w");
	if (!to)
		_exit(1);
	if (j->task == HAND_CAPTURE) {
		const char *directory = store_path(&a, s->state_dir, j->stored->id);
		store_vacuum(s->state_dir, (size_t)s->keep_incidents, (uint64_t)s->keep_megabytes << 20);
		struct uh_error *err = access(directory, F_OK) ? store_save(s->state_dir, j->stored) : NULL;
		if (err) // a full disk: there is no place for a bundle, and that is told
			fprintf(to, "bundle %s\n", uh_error_message(err));
		else
			hands->capture(hands->ctx, s, directory, note_of(&a, j->stored), to);
		uh_error_free(err);
	}
	if (j->task == HAND_LOOK)
		hands->look(hands->ctx, to);
	if (j->task == HAND_EXPLAIN)
		hands->explain(hands->ctx, j->stored, store_path(&a, s->state_dir, j->stored->id), to);
	if (j->task == HAND_HOOKS)
		hooks_tell(s, j->stored, &problems);
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

static bool started(bool begun, struct child *c, struct text *why, int *ret_fd)
{
	if (!begun)
		text_add(why, S("No process could be started."));
	*ret_fd = begun ? c->fd : -1;
	c->fd = -1; // the mind has it from now on
	return begun;
}

static bool start_job(struct hand *h, enum hand_task task, const struct stored *stored, struct text *why, int *ret_fd)
{
	const struct hand_job job = { h, task, stored };
	child_kill(&h->job, KILL_MS);
	return started(child_begin_free(work, &job, &h->job), &h->job, why, ret_fd);
}

static void end_attendant(struct child *c)
{
	enum { END_MS = 20 };
	if (c->pid > 0)
		child_kill(c, END_MS);
}

/** Nobody waits for it. One that has not ended when its place is needed again waits for a user's file, and is ended. */
static bool attend(struct hand *h, struct str text)
{
	struct attend_task task;
	struct child *c = &h->attendants[h->attended % HAND_ATTENDANTS];
	if (!attend_parse(text, &task))
		return false;
	h->attended++;
	end_attendant(c);
	if (!attend_begin(&task, c))
		return false;
	close(c->fd);
	c->fd = -1;
	return true;
}

static bool save(const struct hand *h, const struct stored *i, struct text *why)
{
	struct uh_error *err = store_save(h->settings.state_dir, i);
	if (err)
		text_add(why, str_z(uh_error_message(err)));
	uh_error_free(err);
	return !err;
}

static bool save_place(const struct hand *h, struct str text, struct text *why)
{
	struct store_place place;
	if (!store_place_parse(text, &place))
		return false;
	struct uh_error *err = store_place_save(h->settings.state_dir, &place);
	if (err)
		text_add(why, str_z(uh_error_message(err)));
	uh_error_free(err);
	return !err;
}

static bool write_state(const struct hand *h, struct str text, struct text *why)
{
	struct arena a = { 0 };
	mkdir(h->settings.run_dir, 0755);
	struct uh_error *err = save_file(AT_FDCWD, arena_printf(&a, "%s/state.json", h->settings.run_dir).p, text, 0644);
	if (err)
		text_add(why, str_z(uh_error_message(err)));
	uh_error_free(err);
	arena_free(&a);
	return !err;
}

static struct child *named(struct hand *h, struct str name)
{
	return str_is(name, "eye") ? &h->eye : str_is(name, "pulse") ? &h->pulse : str_is(name, "job") ? &h->job : NULL;
}

/** Does what the mind asks for. What it says is not believed: a record must be one, with the id of one. */
static bool serve(struct hand *h, enum hand_task task, struct str text, struct text *why, int *ret_fd)
{
	struct arena a = { 0 };
	struct stored stored = { 0 };
	struct store_place place;
	struct child *c;
	struct watch_voice voice = { .journal = -1, .hand = -1, .notify = getenv("NOTIFY_SOCKET") };
	bool record = stored_parse(text, &a, &stored), good = false;
	switch (task) {
	case HAND_EYE:
		child_kill(&h->eye, KILL_MS);
		place = store_place_parse(text, &place) ? place : (struct store_place){ 0 };
		good = started(eye_begin(&place, h->settings.kfd_events, &h->eye), &h->eye, why, ret_fd);
		break;
	case HAND_PULSE:
		child_kill(&h->pulse, KILL_MS);
		good = started(pulse_begin(h->know, &h->pulse), &h->pulse, why, ret_fd);
		break;
	case HAND_LOOK:
		good = start_job(h, task, &stored, why, ret_fd);
		break;
	case HAND_CAPTURE:
	case HAND_EXPLAIN:
	case HAND_HOOKS:
		good = record && start_job(h, task, &stored, why, ret_fd);
		break;
	case HAND_END:
		c = named(h, text);
		good = c && child_kill(c, KILL_MS);
		break;
	case HAND_SAVE:
		good = record && save(h, &stored, why);
		break;
	case HAND_PLACE:
		good = save_place(h, text, why);
		break;
	case HAND_STATE:
		good = write_state(h, text, why);
		break;
	case HAND_NOTIFY:
		voice_notify(&voice, arena_z(&a, text));
		good = true;
		break;
	case HAND_CLOSES:
		good = store_is_id(text) && store_close_asked(h->settings.state_dir, text, why);
		break;
	case HAND_HOLD:
		good = attend(h, text);
		break;
	case HAND_TASKS:
		break;
	}
	arena_free(&a);
	return good;
}

/** false: the mind is gone. */
static bool answer(struct hand *h)
{
	struct hand_head head;
	struct text text = { 0 }, why = { 0 };
	int fd = -1;
	bool there = receive_message(h->socket, &head, &text, NULL);
	if (there) {
		head.good = head.task < HAND_TASKS && serve(h, (enum hand_task)head.task, text_str(&text), &why, &fd);
		there = send_message(h->socket, head, text_str(&why), fd);
	}
	cleanup_close(&fd);
	text_free(&text);
	text_free(&why);
	return there;
}

void hand_override(struct watch_settings *s, const struct watch_options *o)
{
	s->state_dir = o->state_dir ? o->state_dir : s->state_dir;
	s->run_dir = o->run_dir ? o->run_dir : s->run_dir;
	s->hooks_dir = o->hooks_dir ? o->hooks_dir : s->hooks_dir;
	if (s->may_block)
		setenv(TOMB_MAY_BLOCK, "1", 1); // for the children that look
}

/** The mind reads it too, and tells the mistakes. */
static void reload(struct hand *h)
{
	struct watch_settings s;
	unsigned mistakes;
	struct uh_error *err = settings_load(&s, h->options->config, tell_nobody, NULL, &mistakes);
	door_end();
	if (err || mistakes) {
		settings_free(&s);
	} else {
		settings_free(&h->settings);
		h->settings = s;
		hand_override(&h->settings, h->options);
	}
	uh_error_free(err);
}

static void take_signal(struct hand *h, int signals)
{
	struct signalfd_siginfo s;
	while (read(signals, &s, sizeof(s)) == sizeof(s)) {
		h->stop |= s.ssi_signo == SIGTERM || s.ssi_signo == SIGINT;
		if (s.ssi_signo == SIGHUP)
			reload(h);
		if (s.ssi_signo != SIGCHLD && h->mind.pid) {
			kill(h->mind.pid, (int)s.ssi_signo);
			kill(h->mind.pid, SIGCONT); // others of nobody can stop it
		}
	}
	if (h->stop && !h->stop_by)
		h->stop_by = now_ms() + STOP_MS;
}

/** Children that have ended; the mind's end is told by its pipe. */
static void reap(struct hand *h)
{
	struct child *all[HAND_ATTENDANTS + 3] = { &h->eye, &h->pulse, &h->job };
	for (size_t i = 0; i < HAND_ATTENDANTS; i++)
		all[3 + i] = &h->attendants[i];
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->pid > 0 && waitpid(all[i]->pid, NULL, WNOHANG) == all[i]->pid)
			all[i]->pid = 0;
}

struct mind_work {
	const struct hand *hand;
	int socket;
	void (*mind)(int hand, void *ctx);
	void *ctx;
};

static void think(int fd, const void *ctx)
{
	const struct mind_work *m = ctx;
	(void)fd;
	close(m->hand->socket);
	if (m->hand->lock >= 0)
		close(m->hand->lock);
	prctl(PR_SET_NAME, "unhang-mind");
	m->mind(m->socket, m->ctx);
}

/** Serves one mind until it ends. false: it crashed. */
static bool serve_mind(struct hand *h, int signals)
{
	struct text nothing = { 0 };
	int64_t heard = now_ms();
	bool gone = false;
	while (!gone) {
		struct pollfd on[] = { { signals, POLLIN, 0 }, { h->socket, POLLIN, 0 }, { h->mind.fd, POLLIN, 0 } };
		const int64_t left = (h->stop_by ? h->stop_by : heard + MIND_SILENT_MS) - now_ms();
		poll(on, 3, left > 0 ? (int)left : 0);
		if (on[0].revents)
			take_signal(h, signals);
		reap(h);
		heard = on[1].revents ? now_ms() : heard;
		gone = now_ms() >=
		       (h->stop_by ? h->stop_by : heard + MIND_SILENT_MS); // a mind that is stopped, or stuck, is killed
		if (on[1].revents && !answer(h))
			gone = true;
		gone |= on[2].revents;
	}
	enum child_end end = child_wait(&h->mind, now_ms() + KILL_MS * 10, 1, &nothing);
	child_kill(&h->mind, KILL_MS);
	child_kill(&h->job, KILL_MS);
	child_kill(&h->eye, KILL_MS);
	child_kill(&h->pulse, KILL_MS);
	for (size_t i = 0; i < HAND_ATTENDANTS; i++)
		end_attendant(&h->attendants[i]);
	text_free(&nothing);
	return end == CHILD_GOOD;
}

int hand_signals(bool children)
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

struct uh_error *hand_serve(struct hand *h, void (*mind)(int hand, void *ctx), void *ctx)
{
	_cleanup_close_ int signals = hand_signals(true);
	bool good = false;
	while (!h->stop && !good) {
		int ends[2];
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
			return uh_error_os(errno, "no socket");
		const struct mind_work work = { h, ends[1], mind, ctx };
		h->socket = ends[0];
		bool begun = child_begin_free(think, &work, &h->mind);
		close(ends[1]);
		if (begun)
			good = serve_mind(h, signals);
		close(ends[0]);
		if (!begun)
			return uh_error_new("no process can be started");
		h->again = true;
		if (!good && !h->stop)
			nanosleep(&(struct timespec){ .tv_sec = AGAIN_S }, NULL);
	}
	return NULL;
}
