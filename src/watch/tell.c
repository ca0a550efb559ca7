#include "watch/tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "watch/hand.h"

#define JOURNAL "/run/systemd/journal/socket"
enum { PROBLEMS_MOST = 16 << 10, PRIORITY_INFO = 6, PRIORITY_NOTICE = 5, PRIORITY_WARNING = 4, PRIORITY_ERROR = 3 };

static bool address(const char *path, struct sockaddr_un *ret, socklen_t *ret_size)
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

void voice_open(struct watch_voice *v, int hand)
{
	const char *usec = getenv("WATCHDOG_USEC");
	int64_t number;
	*v = (struct watch_voice){ .journal = -1, .notify = getenv("NOTIFY_SOCKET"), .hand = hand };
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

static void field(struct text *to, const char *key, struct str value)
{
	if (!value.n)
		return;
	text_printf(to, "%s=", key);
	text_add_safe(to, value); // without line ends
	text_add(to, S("\n"));
}

/** To the journal by its name: a connection would end with the journal that was there when it was made. */
static bool put_journal(const struct watch_voice *v, const struct text *record)
{
	struct sockaddr_un to;
	socklen_t size;
	return v->journal >= 0 && address(JOURNAL, &to, &size) &&
	       sendto(v->journal, record->p, record->n, MSG_NOSIGNAL, (struct sockaddr *)&to, size) >= 0;
}

/** What the journal does not take goes to standard output. */
static void put(const struct watch_voice *v, const struct text *record, struct str line)
{
	if (put_journal(v, record))
		return;
	print_safe(stdout, line);
	fputc('\n', stdout);
	fflush(stdout);
}

void voice_incident(struct watch_voice *v, const struct stored *i, const char *what)
{
	struct text line = { 0 }, record = { 0 };
	bool closed = str_is(i->state, "closed"), suspected = str_is(i->state, "suspected");
	text_printf(&line, "incident " STR_FMT " %s: " STR_FMT, STR_ARG(i->id), what,
		    STR_ARG(i->title.n ? i->title : S("not explained yet")));
	if (i->gpu.n)
		text_printf(&line, " (GPU " STR_FMT ")", STR_ARG(i->gpu));
	field(&record, "MESSAGE", text_str(&line));
	text_printf(&record, "MESSAGE_ID=" WATCH_MESSAGE_ID "\nSYSLOG_IDENTIFIER=unhang\nPRIORITY=%d\n",
		    closed    ? PRIORITY_NOTICE :
		    suspected ? PRIORITY_WARNING :
				PRIORITY_ERROR);
	field(&record, "UNHANG_CHANGE", str_z(what));
	field(&record, "UNHANG_INCIDENT", i->id);
	field(&record, "UNHANG_STATE", i->state);
	field(&record, "UNHANG_CLASS", i->class);
	field(&record, "UNHANG_FAULT", i->fault);
	field(&record, "UNHANG_DO", i->action);
	field(&record, "UNHANG_FIT", i->fit);
	field(&record, "UNHANG_GPU", i->gpu);
	field(&record, "UNHANG_GPU_UNIQUE_ID", i->unique_id);
	field(&record, "UNHANG_GPU_SERIAL", i->serial);
	field(&record, "UNHANG_JOB", i->job);
	put(v, &record, text_str(&line));
	text_free(&line);
	text_free(&record);
}

static void tell(struct watch_voice *v, const char *message, int priority)
{
	struct text record = { 0 };
	field(&record, "MESSAGE", str_z(message));
	text_printf(&record, "SYSLOG_IDENTIFIER=unhang\nPRIORITY=%d\n", priority);
	put(v, &record, str_z(message));
	text_free(&record);
}

void voice_note(struct watch_voice *v, const char *message) { tell(v, message, PRIORITY_INFO); }

void voice_warn(struct watch_voice *v, const char *message) { tell(v, message, PRIORITY_WARNING); }

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
	if (v->notify && v->hand >= 0) { // only the process that systemd started may tell it
		hand_ask(v->hand, HAND_NOTIFY, str_z(state), NULL, NULL);
		return;
	}
	if (!v->notify || !address(v->notify, &to, &size))
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
