#include "watch/pulse/signs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "source/clerk/clerk.h"

#define SHARED_MEMORY "/dev/shm/"
enum { MS = 1000, WORKS_PERCENT = 10, WORKS_BYTES = 1 << 20, FILE_ROOM = 64 << 10, SEARCH_MS = 30000, WORKS_MS = 30000 };

// --- what does not change ---

/** What stands in @text behind @head, as long as it is of these characters. */
static struct str behind(struct str text, struct str head, const char *characters)
{
	ptrdiff_t at = str_find(text, head);
	struct str rest = at < 0 ? (struct str){ 0 } : str_from(text, (size_t)at + head.n);
	size_t n = 0;
	while (n < rest.n && rest.p[n] && strchr(characters, rest.p[n]))
		n++;
	return str_cut(rest, n);
}

bool process_job(struct str cgroup, char *ret, size_t size)
{
	enum { UID = 36 };
	struct str slurm = behind(cgroup, S("/job_"), "0123456789");
	struct str pod = behind(cgroup, S("/pod"), "0123456789abcdef-");
	pod = pod.n ? pod : behind(cgroup, S("-pod"), "0123456789abcdef_"); // systemd does not want a hyphen there
	ret[0] = '\0';
	if (str_find(cgroup, S("slurm")) >= 0 && slurm.n)
		snprintf(ret, size, "Slurm job " STR_FMT, STR_ARG(slurm));
	else if (str_find(cgroup, S("kubepods")) >= 0 && pod.n >= UID)
		snprintf(ret, size, "pod " STR_FMT, STR_ARG(str_cut(pod, UID)));
	for (char *c = ret; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return ret[0];
}

/** Its rank, and where its heartbeat is. The path is a stranger's: only what lies in the memory of this machine is looked at, since a file
 * elsewhere may be on a server that does not answer. */
static void read_environment(struct sign_process *p)
{
	static const char *const ranks[] = { "UNHANG_RANK=", "RANK=", "SLURM_PROCID=", "OMPI_COMM_WORLD_RANK=", "PMI_RANK=" };
	char *room = mem_alloc(FILE_ROOM);
	struct str all = clerk_process_file(p->pid, "environ", room, FILE_ROOM), value;
	int64_t number;
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]) && !p->rank[0]; i++)
		if (environ_value(all, str_z(ranks[i]), &value) && str_number(value, &number) && number >= 0)
			snprintf(p->rank, sizeof(p->rank), "%lld", (long long)number);
	if (environ_value(all, S("UNHANG_HEARTBEAT="), &value) && str_starts(value, S(SHARED_MEMORY)))
		str_copy(p->heartbeat, sizeof(p->heartbeat), str_from(value, sizeof(SHARED_MEMORY) - 1));
	if (environ_value(all, S("SLURM_JOB_ID="), &value) && str_number(value, &number) && number > 0)
		snprintf(p->job, sizeof(p->job), "Slurm job %lld", (long long)number);
	else
		process_job(clerk_process_file(p->pid, "cgroup", room, FILE_ROOM), p->job, sizeof(p->job));
	free(room);
}

// --- what does ---

/** What keeps it from running: a signal, a debugger, or its cgroup. */
static const char *stopped_by(const struct sign_process *p)
{
	char room[4096], path[4200];
	if (p->stat.state == 'T')
		return "a signal (SIGSTOP, or Slurm's suspend)";
	if (p->stat.state == 't')
		return "a debugger";
	struct str all = clerk_process_file(p->pid, "cgroup", room, sizeof(room));
	while (all.n) {
		struct str line = str_split(&all, '\n');
		if (!str_starts(line, S("0::/")) || str_find(line, S("..")) >= 0)
			continue;
		snprintf(path, sizeof(path), "/sys/fs/cgroup" STR_FMT "/cgroup.events", STR_ARG(str_from(line, 3)));
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, room, sizeof(room));
		return n > 0 && str_find((struct str){ room, (size_t)n }, S("frozen 1")) >= 0 ? "the cgroup freezer" : NULL;
	}
	return NULL;
}

static uint64_t io_of(int64_t pid)
{
	char room[512];
	uint64_t sum = 0;
	int64_t n;
	for (struct str all = clerk_process_file(pid, "io", room, sizeof(room)); all.n;) {
		struct str line = str_split(&all, '\n'), key = str_word(&line);
		if ((str_is(key, "rchar:") || str_is(key, "wchar:")) && str_number(str_word(&line), &n) && n > 0)
			sum += (uint64_t)n;
	}
	return sum;
}

static enum vote heartbeat(const struct signs *s, const struct sign_process *p)
{
	struct stat st;
	_cleanup_close_ int fd = p->heartbeat[0] ? clerk_open_shared(p->heartbeat, CLERK_STATUS) : -1;
	int64_t within = 0;
	for (size_t i = 0; i < s->know->votes.len; i++)
		within = s->know->votes.data[i]->within ? s->know->votes.data[i]->within : within;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return VOTE_UNKNOWN;
	return (int64_t)time(NULL) - (int64_t)st.st_mtime < within ? VOTE_MOVED : VOTE_STOOD;
}

static enum vote recording(struct signs *s, struct sign_process *p)
{
	uint64_t taken;
	bool waits;
	_cleanup_close_ int fd = p->recording[0] ? clerk_open_shared(p->recording, CLERK_RECORDING) : -1;
	if (!recorded_is_of(fd, p)) {
		p->recording[0] = '\0'; // it was replaced; the next search may find the right one
		return VOTE_UNKNOWN;
	}
	signs_see_hold(s, p, fd);
	if (!recorded_packets(fd, &taken, &waits))
		return VOTE_UNKNOWN;
	bool moved = taken != p->recorded;
	p->recorded = taken;
	return moved ? VOTE_MOVED : waits ? VOTE_STOOD : VOTE_UNKNOWN;
}

/** A program that computes, reads or writes does so with pauses, and on a busy machine it has to wait for its turn. */
static void see_work(struct sign_process *p, const struct process_stat *now, uint64_t io, int64_t now_ms, int64_t before_ms)
{
	int64_t ms = now_ms > before_ms ? now_ms - before_ms : 1;
	uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK) * (uint64_t)ms / MS;
	bool again = p->stat.began == now->began && p->stat.began;
	if (!again || (now->cpu - p->stat.cpu) * 100 >= ticks * WORKS_PERCENT || io - p->io >= WORKS_BYTES)
		p->worked = now_ms;
	p->works = now_ms - p->worked < WORKS_MS;
}

int64_t signs_launcher(int64_t parent)
{
	char room[1024];
	struct process_stat stat;
	const bool known = process_stat_parse(clerk_process_file(parent, "stat", room, sizeof(room)), &stat);
	return known && !strcmp(stat.name, "unhang") ? stat.parent : parent;
}

static void take_process(struct signs *s, struct sign_process *p, int64_t now_ms)
{
	char room[1024];
	struct process_stat now;
	if (!process_stat_parse(clerk_process_file(p->pid, "stat", room, sizeof(room)), &now))
		return;
	uint64_t io = io_of(p->pid);
	see_work(p, &now, io, now_ms, s->taken);
	p->io = io;
	if (!p->launcher || p->stat.began != now.began || p->stat.parent != now.parent) // its parent may be gone by now
		p->launcher = signs_launcher(now.parent);
	p->stat = now;
	if (!process_owner(p->pid, &p->uid))
		p->uid = (uid_t)-1;
	p->stopped = stopped_by(p);
	p->beats = heartbeat(s, p);
	p->recordings = recording(s, p);
}

void signs_begin(struct signs *s, const struct know *k, const struct devices *d)
{
	*s = (struct signs){ .know = k, .devices = d, .inotify = -1, .told = -1 };
}

/** A program makes its recording a moment after it opened the GPU, or never. */
static int64_t pause_behind(int64_t age) { return age < MS ? MS : age < SEARCH_MS ? age : SEARCH_MS; }

bool signs_take(struct signs *s, int64_t now_ms)
{
	signs_find(s, now_ms);
	for (size_t i = 0; i < s->n; i++) {
		struct sign_process *p = &s->processes[i];
		if (!p->seen) {
			p->seen = true;
			p->first = now_ms;
			read_environment(p);
		}
		take_process(s, p, now_ms);
		if (!p->recording[0] && now_ms >= p->search) {
			p->search = now_ms + pause_behind(now_ms - p->first);
			recorded_find(p, p->recording, sizeof(p->recording));
		}
	}
	signs_read_queues(s);
	s->taken = now_ms;
	return s->n;
}
