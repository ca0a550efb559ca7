// unhang fleet check: unhang check on each host of a list, over ssh, for those who have no scheduler to ask.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/print.h"
#include "evidence/documents/document.h"
#include "report/node/node.h"
#include "report/sheet.h"
#include "session/fleet/fleet.h"

enum { HOSTS_MOST = 65536, AT_ONCE = 32, HOST_MS = 15000, HOST_FILES = 3, KILL_MS = 200, FRESH_S = 60 };
enum { ANSWER_MOST = 1 << 20, COMPLAINT_MOST = 4096, SAYS_MOST = 100 };

struct remote_hosts {
	struct arena arena;
	VEC(const char *) list;
};

// --- host lists: node[01-16,20],login1 ---

static bool hosts_add_one(struct remote_hosts *h, struct str name)
{
	for (size_t n = 0; n < name.n; n++)
		if (!char_word(name.p[n]) && !char_among(name.p[n], "-.:@"))
			return false;
	if (!name.n || name.p[0] == '-' || h->list.len == HOSTS_MOST)
		return false;
	vec_push(&h->list, arena_z(&h->arena, name));
	return true;
}

static bool hosts_add_range(struct remote_hosts *h, struct str before, struct str range, struct str after)
{
	struct str last = range, first = str_split(&last, '-');
	int64_t from, to;
	if (!str_number(first, &from))
		return false;
	to = from;
	if (last.n && (!str_number(last, &to) || to < from || to - from >= HOSTS_MOST))
		return false;
	for (int64_t n = from; n <= to; n++)
		if (!hosts_add_one(h, arena_printf(&h->arena, STR_FMT "%0*lld" STR_FMT, STR_ARG(before), (int)first.n,
						   (long long)n, STR_ARG(after))))
			return false;
	return true;
}

static bool hosts_add(struct remote_hosts *h, struct str list)
{
	while (list.n) {
		const ptrdiff_t comma = str_find(list, S(",")), open = str_find(list, S("["));
		if (open < 0 || (comma >= 0 && comma < open)) {
			if (!hosts_add_one(h, str_trim(str_split(&list, ','))))
				return false;
			continue;
		}
		if (str_find(list, S("]")) < open)
			return false;
		const struct str before = str_cut(list, (size_t)open);
		struct str rest = str_from(list, (size_t)open + 1), ranges = str_split(&rest, ']'),
			   after = str_split(&rest, ',');
		while (ranges.n)
			if (!hosts_add_range(h, before, str_split(&ranges, ','), after))
				return false;
		list = rest;
	}
	return h->list.len;
}

// --- one host ---

struct remote_asked {
	const char *host, *ssh, *remote;
	int errors; // what ssh complains to
};

/** Its own session, so that all that ssh starts can be ended with it. */
static void become_ssh(int fd, const void *ctx)
{
	const struct remote_asked *r = ctx;
	const int nothing = open("/dev/null", O_RDWR);
	const char *const words[] = { r->ssh, "-o",    "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "LogLevel=ERROR",
				      "--",   r->host, r->remote,       NULL }; // without banners
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	dup2(nothing, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(r->errors, STDERR_FILENO);
	close_from(STDERR_FILENO + 1);
	execvp(r->ssh, (char *const *)words);
	dprintf(STDERR_FILENO, "%s: %s\n", r->ssh, strerror(errno));
	_exit(127);
}

struct remote_host {
	const char *name;
	struct child child;
	int errors, end;             // -1: none; @end becomes readable when ssh has ended
	struct text said, complaint; // its standard output and error
	int refused;                 // why it was not asked: an errno; 0: it was
	bool over, late;
};

static void remote_begin(const struct uh_fleet_options *o, const char *name, struct remote_host *ret)
{
	int errors[2];
	*ret = (struct remote_host){ .name = name, .child = { .fd = -1 }, .errors = -1, .end = -1 };
	if (pipe2(errors, O_CLOEXEC)) {
		ret->refused = errno;
		ret->over = true;
		return;
	}
	const struct remote_asked r = { name, o->ssh ? o->ssh : "ssh", o->remote ? o->remote : "unhang check --json",
					errors[1] };
	ret->errors = errors[0];
	fcntl(ret->errors, F_SETFL, O_NONBLOCK);
	ret->over = !child_start(CHILD_FLEET_COMMAND, become_ssh, &r, &ret->child);
	ret->refused = ret->over ? errno : 0;
	close(errors[1]);
	if (ret->over)
		return;
	fcntl(ret->child.fd, F_SETFL, O_NONBLOCK);
	ret->end =
		(int)syscall(SYS_pidfd_open, ret->child.pid, 0); // old kernels have none: the end of its output is waited for
}

/** What is there now, of one who never ends only some at a time. false: there will be no more, or it is more than @most. */
static bool remote_take(int fd, size_t most, struct text *to)
{
	enum { CHUNKS = 16 };
	char room[4096];
	for (int n = 0; n < CHUNKS; n++) {
		const ssize_t got = read(fd, room, sizeof(room));
		if (got <= 0)
			return got < 0 && (errno == EAGAIN || errno == EINTR);
		if (to->n > most)
			return false;
		text_add(to, (struct str){ room, (size_t)got });
	}
	return true;
}

/** Ends ssh, and what it has started: a proxy, or one that the proxy left. Its number stays its own until it is waited for. */
static void remote_end(struct remote_host *h)
{
	if (h->child.pid)
		kill(-h->child.pid, SIGKILL);
	child_kill(&h->child, h->over ? KILL_MS : 0);
	cleanup_close(&h->errors);
	cleanup_close(&h->end);
	h->over = true;
}

static void remote_hear(struct remote_host *h, const struct pollfd polled[static 3])
{
	bool more = true;
	if (polled[1].revents)
		remote_take(h->errors, COMPLAINT_MOST, &h->complaint);
	if (polled[0].revents || polled[2].revents)
		more = remote_take(h->child.fd, ANSWER_MOST, &h->said);
	if (more && !polled[2].revents)
		return;
	if (more)
		remote_take(h->child.fd, ANSWER_MOST, &h->said); // what was still in the pipe
	remote_take(h->errors, COMPLAINT_MOST, &h->complaint);
	h->over = true;
	remote_end(h);
}

/** Until each has answered, or @deadline. A signal that ends unhang ends what it has started first. */
static void remote_wait(struct remote_host *hosts, size_t n, int64_t deadline, int signals)
{
	struct pollfd *polled = mem_alloc((3 * n + 1) * sizeof(*polled));
	for (;;) {
		size_t waits = 0;
		for (size_t i = 0; i < n; i++) {
			const int fds[] = { hosts[i].child.fd, hosts[i].errors, hosts[i].end };
			for (size_t k = 0; k < 3; k++)
				polled[3 * i + k] = (struct pollfd){ .fd = hosts[i].over ? -1 : fds[k], .events = POLLIN };
			waits += !hosts[i].over;
		}
		polled[3 * n] = (struct pollfd){ .fd = signals, .events = POLLIN };
		const int64_t left = deadline - now_ms();
		if (!waits || left <= 0 || poll(polled, 3 * n + 1, (int)left) <= 0 || polled[3 * n].revents)
			break;
		for (size_t i = 0; i < n; i++)
			if (!hosts[i].over)
				remote_hear(&hosts[i], &polled[3 * i]);
	}
	for (size_t i = 0; i < n; i++)
		if (!hosts[i].over) {
			hosts[i].late = true;
			remote_end(&hosts[i]);
		}
	free(polled);
}

// --- its answer ---

/** The first line that ssh complained with, as it may be shown. */
static struct str first_line(struct str text, struct arena *a)
{
	struct str line = { 0 };
	while (text.n && !line.n)
		line = str_trim(str_split(&text, '\n'));
	return arena_str(a, str_cut(line, SAYS_MOST));
}

static struct node_word word_unknown(struct str why)
{
	return (struct node_word){ .status = NODE_UNKNOWN, .worst = { .says = why } };
}

/** What a host said, where it is believed: it is of now, and of the host that was asked. */
static struct node_word remote_read(const struct uh_fleet_options *o, const struct remote_host *h, struct arena *a)
{
	struct node_word w;
	char date[DATE_ROOM];
	struct str name = str_z(h->name);
	const ptrdiff_t at = str_find(name, S("@"));
	if (!node_word_parse(text_str(&h->said), a, &w)) {
		const struct str why = h->refused ? arena_printf(a, "it was not asked: %s", strerror(h->refused)) :
						    first_line(text_str(&h->complaint), a);
		return word_unknown(why.n     ? why :
				    h->late   ? S("did not answer in time") :
				    h->said.n ? S("what it said is no answer of unhang check") :
						S("no answer of unhang check"));
	}
	if (!node_word_fresh(&w, HOST_MS / 1000 + FRESH_S, time(NULL)))
		return word_unknown(arena_printf(a, "its answer is of " STR_FMT ", or its clock is wrong",
						 STR_ARG(date_text(w.asked, date))));
	if (!o->any_name && !node_word_same_host(w.host, at < 0 ? name : str_from(name, (size_t)at + 1)))
		return word_unknown(
			arena_printf(a, "a host called " STR_FMT " answered (--any-name believes it)", STR_ARG(w.host)));
	return w;
}

static void put_row(const struct uh_fleet_options *o, struct sheet *s, const char *host, const struct node_word *w, FILE *out)
{
	const struct node_finding *f = &w->worst;
	if (o->json) {
		sheet_open(s, NULL, '{');
		sheet_fields(s, { "host", v_word(host) }, { "status", v_word(node_statuses[w->status]) },
			     { "says", v_known(f->says) }, { "gpu", v_known(f->gpu) }, { "action", v_known(f->action) },
			     { "incident", v_known(f->incident) });
		sheet_close(s, '}');
		return;
	}
	if (!o->all && w->status == NODE_HEALTHY)
		return;
	fprintf(out, "%-20s  %-9s ", host, node_statuses[w->status]);
	if (f->action.n) {
		print_safe(out, f->action);
		fputs(": ", out);
	}
	print_safe(out, str_cut(f->says, SAYS_MOST));
	fputc('\n', out);
}

// --- all hosts ---

struct remote_counts {
	unsigned of[NODE_FAILED + 1];
};

/** So many at a time. false: a signal came. */
static bool remote_batch(const struct uh_fleet_options *o, const char *const *names, size_t n, struct sheet *s,
			 struct remote_counts *counts, int signals)
{
	struct remote_host *hosts = mem_alloc(n * sizeof(*hosts));
	struct pollfd waiting = { .fd = signals, .events = POLLIN };
	for (size_t i = 0; i < n; i++)
		remote_begin(o, names[i], &hosts[i]);
	remote_wait(hosts, n, now_ms() + HOST_MS, signals);
	const bool goes_on = poll(&waiting, 1, 0) <= 0;
	for (size_t i = 0; i < n; i++) {
		_cleanup_arena_ struct arena a = { 0 };
		const struct node_word w = remote_read(o, &hosts[i], &a);
		counts->of[w.status]++;
		if (goes_on)
			put_row(o, s, names[i], &w, s->json.out);
		text_free(&hosts[i].said);
		text_free(&hosts[i].complaint);
	}
	free(hosts);
	return goes_on;
}

/** As many as were asked for, and as there are descriptors. */
static size_t hosts_at_once(const struct uh_fleet_options *o)
{
	enum { OTHERS = 32 };
	struct rlimit files;
	const size_t wide = o->at_once ? o->at_once : AT_ONCE;
	const size_t most = getrlimit(RLIMIT_NOFILE, &files)     ? AT_ONCE :
			    files.rlim_cur < OTHERS + HOST_FILES ? 1 :
								   (files.rlim_cur - OTHERS) / HOST_FILES;
	return wide < most ? wide : most;
}

static void remote_all(const struct uh_fleet_options *o, const struct remote_hosts *hosts, struct sheet *s,
		       struct remote_counts *counts)
{
	const size_t wide = hosts_at_once(o);
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t set, before;
	struct sigaction now;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		if (!sigaction(ending[i], NULL, &now) && now.sa_handler != SIG_IGN)
			sigaddset(&set, ending[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	_cleanup_close_ int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	bool goes_on = true;
	for (size_t begin = 0; begin < hosts->list.len && goes_on; begin += wide) {
		const size_t left = hosts->list.len - begin;
		goes_on = remote_batch(o, &hosts->list.data[begin], left < wide ? left : wide, s, counts, signals);
	}
	sigprocmask(SIG_SETMASK, &before, NULL); // a signal that came ends unhang here
}

struct uh_error *uh_fleet_check(const struct uh_fleet_options *o, FILE *out, int *ret_status)
{
	static const int statuses[] = { [NODE_HEALTHY] = 0, [NODE_DEGRADED] = 0, [NODE_UNKNOWN] = 2, [NODE_FAILED] = 1 };
	struct remote_hosts hosts = { 0 };
	struct remote_counts counts = { 0 };
	struct uh_error *err = NULL;
	for (size_t n = 0; n < o->nhosts && !err; n++)
		if (!hosts_add(&hosts, str_z(o->hosts[n])))
			err = uh_error_new("'%s' is no list of hosts; write node1,node2 or node[01-16]", o->hosts[n]);
	struct sheet s = sheet_on(o->json, out);
	if (!err && o->json)
		sheet_begin(&s, "unhang/fleet-check/1", "nodes");
	if (!err)
		remote_all(o, &hosts, &s, &counts);
	if (!err && o->json)
		sheet_end(&s);
	else if (!err)
		fprintf(out, "%zu node%s: %u healthy, %u degraded, %u unknown, %u failed\n", hosts.list.len,
			hosts.list.len == 1 ? "" : "s", counts.of[NODE_HEALTHY], counts.of[NODE_DEGRADED],
			counts.of[NODE_UNKNOWN], counts.of[NODE_FAILED]);
	for (enum node_status n = NODE_HEALTHY; n <= NODE_FAILED; n++)
		if (counts.of[n])
			*ret_status = statuses[n];
	vec_free(&hosts.list);
	arena_free(&hosts.arena);
	return err;
}
