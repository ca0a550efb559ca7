#include "watch/tell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/lock.h"
#include "base/print.h"
#include "watch/keeper.h"
#include "watch/watcher.h"

#define JOURNAL "/run/systemd/journal/socket"
enum { PROBLEMS_MOST = 16 << 10, PRIORITY_INFO = 6, PRIORITY_NOTICE = 5, PRIORITY_WARNING = 4, PRIORITY_ERROR = 3 };

static bool socket_address(const char *path, struct sockaddr_un *ret, socklen_t *ret_size)
{
	size_t n = strlen(path);
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (!n || n >= sizeof(ret->sun_path))
		return false;
	memcpy(ret->sun_path, path, n);
	if (path[0] == '@') // systemd's way to write an abstract socket
		ret->sun_path[0] = '\0';
	*ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	return true;
}

void voice_open(struct watch_voice *v, int keeper)
{
	const char *usec = getenv("WATCHDOG_USEC");
	int64_t number;
	*v = (struct watch_voice){ .journal = -1, .notify = getenv("NOTIFY_SOCKET"), .keeper = keeper };
	if (usec && str_number(str_z(usec), &number) && number > 0)
		v->watchdog_ms = number / 2000;
	// On a terminal, in a container and without systemd the lines go to standard output.
	if (getenv("JOURNAL_STREAM"))
		v->journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void voice_close(struct watch_voice *v)
{
	cleanup_close(&v->journal);
	text_free(&v->problems);
}

static void watch_tell_journal_field(struct text *to, const char *key, struct str value)
{
	if (!value.n)
		return;
	text_printf(to, "%s=", key);
	text_add_safe(to, value); // without line ends
	text_add(to, S("\n"));
}

/** To the journal by its name: a connection would end with the journal that was there when it was made. What the journal does not take goes
 * to standard output. */
static void voice_put(const struct watch_voice *v, const struct text *record, struct str line)
{
	struct sockaddr_un to;
	socklen_t size;
	if (v->journal >= 0 && socket_address(JOURNAL, &to, &size) &&
	    sendto(v->journal, record->p, record->n, MSG_NOSIGNAL, (struct sockaddr *)&to, size) >= 0)
		return;
	print_safe(stdout, line);
	fputc('\n', stdout);
	fflush(stdout);
}

void voice_incident(struct watch_voice *v, const struct stored *i, const char *what)
{
	_cleanup_text_ struct text line = { 0 }, record = { 0 };
	text_printf(&line, "incident " STR_FMT " %s: " STR_FMT, STR_ARG(i->id), what,
		    STR_ARG(i->title.n ? i->title : S("not explained yet")));
	if (i->gpu.n)
		text_printf(&line, " (GPU " STR_FMT ")", STR_ARG(i->gpu));
	watch_tell_journal_field(&record, "MESSAGE", text_str(&line));
	text_printf(&record, "MESSAGE_ID=" WATCH_MESSAGE_ID "\nSYSLOG_IDENTIFIER=unhang\nPRIORITY=%d\n",
		    i->state == STORED_CLOSED    ? PRIORITY_NOTICE :
		    i->state == STORED_SUSPECTED ? PRIORITY_WARNING :
						   PRIORITY_ERROR);
	watch_tell_journal_field(&record, "UNHANG_CHANGE", str_z(what));
	watch_tell_journal_field(&record, "UNHANG_INCIDENT", i->id);
	watch_tell_journal_field(&record, "UNHANG_STATE", stored_state_word(i->state));
	watch_tell_journal_field(&record, "UNHANG_CLASS", i->class);
	watch_tell_journal_field(&record, "UNHANG_FAULT", i->fault);
	watch_tell_journal_field(&record, "UNHANG_DO", i->action);
	watch_tell_journal_field(&record, "UNHANG_FIT", i->fit);
	watch_tell_journal_field(&record, "UNHANG_GPU", i->gpu);
	watch_tell_journal_field(&record, "UNHANG_GPU_UNIQUE_ID", i->unique_id);
	watch_tell_journal_field(&record, "UNHANG_GPU_SERIAL", i->serial);
	watch_tell_journal_field(&record, "UNHANG_JOB", i->job);
	voice_put(v, &record, text_str(&line));
}

static void voice_line(struct watch_voice *v, const char *message, int priority)
{
	_cleanup_text_ struct text record = { 0 };
	watch_tell_journal_field(&record, "MESSAGE", str_z(message));
	text_printf(&record, "SYSLOG_IDENTIFIER=unhang\nPRIORITY=%d\n", priority);
	voice_put(v, &record, str_z(message));
}

void voice_note(struct watch_voice *v, const char *message) { voice_line(v, message, PRIORITY_INFO); }

void voice_warn(struct watch_voice *v, const char *message) { voice_line(v, message, PRIORITY_WARNING); }

void voice_problem(struct watch_voice *v, const char *message)
{
	struct str told = text_str(&v->problems);
	while (told.n)
		if (str_is(str_split(&told, '\n'), message))
			return;
	if (v->problems.n > PROBLEMS_MOST)
		text_clear(&v->problems);
	text_printf(&v->problems, "%s\n", message);
	voice_warn(v, message);
}

void voice_notify(const struct watch_voice *v, const char *state)
{
	struct sockaddr_un to;
	socklen_t size;
	if (v->notify && v->keeper >= 0) { // only the process that systemd started may tell it
		keeper_ask(v->keeper, KEEPER_NOTIFY, str_z(state), NULL, NULL);
		return;
	}
	if (!v->notify || !socket_address(v->notify, &to, &size))
		return;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, size);
}

int voice_watchdog(struct watch_voice *v, int64_t now)
{
	if (!v->watchdog_ms)
		return -1;
	if (!v->heard || now - v->heard >= v->watchdog_ms) {
		voice_notify(v, "WATCHDOG=1");
		v->heard = now;
	}
	return (int)(v->watchdog_ms - (now - v->heard));
}

// === state.json, and the lock on the place where incidents are stored ===

enum { STATE_AGAIN_MS = 60000, STATE_VALID_S = 180 };

/** What the votes make of what a look saw: waves of a program that is stopped, or waits for another, stand too. */
static void tell_progress(struct watched_gpu *g, const struct watched_progress *p)
{
	const bool excused = p->pace != PACE_UNKNOWN && p->pace < PACE_SUSPECTED;
	const bool idle = p->pace == PACE_UNKNOWN && !g->unwell && str_is(g->health, pace_name(PACE_IDLE));
	g->pace = str_z(pace_name(idle ? PACE_IDLE : p->pace));
	g->waits_for = str_z(p->says);
	if (!excused || !g->unwell)
		return;
	g->unwell = false;
	g->health = S("busy");
	g->says = (struct str){ 0 };
}

/** A GPU that is not to be used stays unwell, however well it looks. */
static void tell_case(struct watched_gpu *g, const struct stored *i)
{
	if (!i->gpu.n || !str_eq(g->pci, i->gpu) || !case_lasts(i))
		return;
	g->unwell = true;
	g->says = g->says.n ? g->says : i->title;
}

void state_write(struct watcher *w)
{
	const struct stored *open[CASES_MOST];
	_cleanup_free_ struct watched_gpu *gpus = mem_alloc(GPUS_MOST * sizeof(*gpus));
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	struct watch_state s = { .host = str_z(w->host),
				 .boot_id = str_z(w->boot_id),
				 .written = (int64_t)time(NULL),
				 .valid_until = (int64_t)time(NULL) + (w->stop ? 0 : STATE_VALID_S),
				 .looked = w->looked,
				 .lost = w->lost,
				 .unread = text_str(&w->unread),
				 .uncounted = text_str(&w->uncounted),
				 .unlisted = w->unlisted,
				 .gpus = gpus,
				 .ngpus = w->ngpus,
				 .open = open };
	for (size_t i = 0; i < w->cases.len; i++)
		if (case_is(w->cases.data[i], CASES_OPEN))
			open[s.nopen++] = &w->cases.data[i]->stored;
	for (size_t i = 0; i < w->ngpus; i++) {
		gpus[i] = w->gpus[i];
		for (size_t k = 0; k < w->nprogress; k++)
			if (str_is(gpus[i].pci, w->progress[k].pci))
				tell_progress(&gpus[i], &w->progress[k]);
		for (size_t k = 0; k < s.nopen; k++)
			tell_case(&gpus[i], open[k]);
	}
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return;
	report_state(&s, out);
	fclose(out);
	_cleanup_text_ struct text why = { 0 };
	if (!keeper_ask(w->keeper, KEEPER_STATE, (struct str){ text, n }, &why, NULL))
		voice_problem(&w->voice, why.p);
	w->state_old = false;
	w->state_due = w->now + STATE_AGAIN_MS;
}

/** Whether a place may become good while the watch runs: it is full, or cannot be written now. */
static bool may_pass(int error) { return error == EROFS || error == ENOSPC || error == EDQUOT || error == EIO; }

/** One that was just killed may have had a child that had not yet closed what it inherited: that takes a moment to end. */
static enum lock_end take_lock(int place, struct lock *ret)
{
	enum { PATIENCE_MS = 2000, STEP_MS = 50 };
	const int64_t until = now_ms() + PATIENCE_MS;
	enum lock_end end = lock_take(place, ret);
	while (end == LOCK_HELD && now_ms() < until) {
		poll(NULL, 0, STEP_MS);
		end = lock_take(place, ret);
	}
	return end;
}

struct uh_error *state_take(const char *directory, int *ret_lock)
{
	if (mkdir(directory, 0755) && errno != EEXIST && !may_pass(errno))
		return uh_error_os(errno, "incidents cannot be stored in %s", directory);
	_cleanup_close_ int place = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct lock lock = LOCK_FREE;
	if (place >= 0 && take_lock(place, &lock) == LOCK_HELD)
		return uh_error_new("another unhang watch stores its incidents in %s", directory);
	*ret_lock = lock.fd;
	return NULL;
}
