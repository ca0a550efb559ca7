// The processes of the job, and those of others that are in its way. We are the subreaper of the job: whoever loses its parent becomes our
// child, also a daemon that has forked twice. What reads the environment of a process runs in a child: of one that hangs in the kernel that
// may block.
#include <stdio.h>
#include <stdlib.h>

#include "evidence/recording/process.h"
#include "job/supervisor.h"

enum { STAT_ROOM = 1024, ALL_MOST = 65536, SAID_MOST = 8 };

struct process_seen {
	int64_t pid, parent, session;
	uint64_t began;
	bool ours;
};

/** A process whose first thread has ended looks like a zombie for as long as its others run. */
static bool process_has_ended(const struct process_stat *p) { return p->state == 'X' || (p->state == 'Z' && p->threads < 2); }

static size_t tree_read(struct process_seen *list)
{
	_cleanup_dir_ DIR *d = opendir("/proc");
	size_t n = 0;
	char room[STAT_ROOM];
	struct process_stat stat;
	for (const char *name; n < ALL_MOST && (name = dir_next(d));) {
		if (!char_digit(name[0]) || !str_number(str_z(name), &list[n].pid))
			continue;
		if (!process_stat_parse(process_file(list[n].pid, "stat", room, sizeof(room)), &stat) ||
		    process_has_ended(&stat))
			continue;
		list[n].parent = stat.parent;
		list[n].session = stat.session;
		list[n].began = stat.began;
		list[n++].ours = false;
	}
	return n;
}

static int tree_by_pid(const void *a, const void *b)
{
	const struct process_seen *x = a, *y = b;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static bool job_processes_is_ours(const struct process_seen *list, size_t n, int64_t pid, int64_t self)
{
	const struct process_seen key = { .pid = pid }, *found = bsearch(&key, list, n, sizeof(*list), tree_by_pid);
	return pid == self || (found && found->ours);
}

/** Whoever is in the job's group belongs to it, whoever its parent is. */
static void tree_take_group(const struct job_group *g, struct process_seen *list, size_t n, struct pid_list *ret)
{
	_cleanup_free_ struct pid_list *in = mem_alloc(sizeof(*in));
	group_list(g, in);
	for (size_t i = 0; i < in->n; i++) {
		const struct process_seen key = { .pid = in->list[i] };
		struct process_seen *found = bsearch(&key, list, n, sizeof(*list), tree_by_pid);
		if (!found || found->ours || ret->n == PIDS_MOST)
			continue;
		found->ours = true;
		ret->list[ret->n++] = found->pid;
	}
}

static bool was_before(const struct helper *h, int64_t pid, uint64_t began)
{
	for (size_t i = 0; i < h->nbefore; i++)
		if (h->before[i].pid == pid && h->before[i].began == began)
			return true;
	return false;
}

/** Whether it is no process of the job although it descends from us. Between its birth and its first call a helper is in our session. */
static bool is_no_jobs(const struct helper *h, const struct process_seen *p)
{
	if (was_before(h, p->pid, p->began))
		return true;
	for (size_t i = 0; i < HELPERS_KEPT && i < h->nsessions; i++)
		if (p->session == h->sessions[i] || p->pid == h->sessions[i])
			return true;
	return h->copier > 0 && p->pid == h->copier;
}

void tree_list(const struct helper *h, const struct job_group *g, struct pid_list *ret)
{
	_cleanup_free_ struct process_seen *list = mem_alloc(ALL_MOST * sizeof(*list));
	const size_t n = tree_read(list);
	const int64_t self = getpid();
	bool more = true;
	qsort(list, n, sizeof(*list), tree_by_pid);
	ret->n = 0;
	if (g->fd >= 0)
		tree_take_group(g, list, n, ret);
	while (more) {
		more = false;
		for (size_t i = 0; i < n && ret->n < PIDS_MOST; i++) {
			if (list[i].ours || is_no_jobs(h, &list[i]) || !job_processes_is_ours(list, n, list[i].parent, self))
				continue;
			list[i].ours = more = true;
			ret->list[ret->n++] = list[i].pid;
		}
	}
}

void tree_note_before(struct helper *h)
{
	_cleanup_free_ struct pid_list *all = mem_alloc(sizeof(*all));
	const struct job_group none = { .fd = -1 };
	char room[STAT_ROOM];
	struct process_stat stat;
	tree_list(h, &none, all);
	for (size_t i = 0; i < all->n && h->nbefore < BEFORE_MOST; i++)
		if (process_stat_parse(process_file(all->list[i], "stat", room, sizeof(room)), &stat)) {
			h->before[h->nbefore].pid = all->list[i];
			h->before[h->nbefore++].began = stat.began;
		}
}

bool tree_descends(const struct helper *h, int64_t pid)
{
	enum { DEPTH_MOST = 256 };
	char room[STAT_ROOM];
	struct process_stat stat;
	for (int i = 0; i < DEPTH_MOST && pid > 1; i++, pid = stat.parent) {
		if (!process_stat_parse(process_file(pid, "stat", room, sizeof(room)), &stat) || was_before(h, pid, stat.began))
			return false;
		if (stat.parent == getpid())
			return true;
	}
	return false;
}

void tree_signal(const struct pid_list *p, int signal)
{
	for (size_t i = 0; i < p->n; i++)
		kill((pid_t)p->list[i], signal);
}

struct str tree_say(struct arena *a, const struct pid_list *p)
{
	_cleanup_text_ struct text said = { 0 };
	char room[64];
	for (size_t i = 0; i < p->n && i < SAID_MOST; i++) {
		struct str name = str_trim(process_file(p->list[i], "comm", room, sizeof(room)));
		text_printf(&said, "%s" STR_FMT " (%lld)", i ? ", " : "", STR_ARG(name.n ? name : S("process")),
			    (long long)p->list[i]);
	}
	if (p->n > SAID_MOST)
		text_printf(&said, " and %zu more", p->n - SAID_MOST);
	return arena_str(a, text_str(&said));
}

uint64_t tree_written(const struct pid_list *p)
{
	uint64_t sum = 0;
	char room[STAT_ROOM];
	for (size_t i = 0; i < p->n; i++) {
		struct str text = process_file(p->list[i], "io", room, sizeof(room));
		while (text.n) {
			struct str line = str_split(&text, '\n'), value;
			int64_t n;
			if (str_behind(line, S("wchar:"), &value) && str_number(value, &n))
				sum += (uint64_t)n + (uint64_t)p->list[i];
		}
	}
	return sum;
}

// --- questions whose answer may take long ---

enum { ENVIRON_ROOM = 128 << 10, MAPS_ROOM = 4 << 20, LONG_MS = 3000, SHORT_MS = 300 };

#define KFD_PROCESSES "/sys/class/kfd/kfd/proc"

/** What a child is asked about processes, and what it says. */
struct processes_asked {
	const struct pid_list *pids;
	const char *run_id;
};
struct processes_said {
	struct str list, uncalled;
	bool yes; // one of those that were named is among them; that anything could be looked at
};
static const struct wire_field said_fields[] = {
	WIRE_TEXT(struct processes_said, list),
	WIRE_TEXT(struct processes_said, uncalled),
	WIRE_BOOL(struct processes_said, yes),
};
static const struct wire_kind said_kind = WIRE_KIND('p', struct processes_said, said_fields);

static struct processes_said processes_ask(struct arena *a, void (*work)(const void *, struct arena *, void *),
					   const struct processes_asked *asked, int milliseconds)
{
	struct processes_said said;
	const struct child_task task = { CHILD_RUN_PROCESSES, work, &said_kind, now_ms() + milliseconds };
	child_call(&task, asked, a, &said); // whose answer is empty where there is none
	return said;
}

/** The run that a process belongs to, by its environment; empty: none. */
static struct str job_processes_process_run(const char *process, char *room)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%.20s/environ", process);
	struct str text = small_file(path, room, ENVIRON_ROOM), run;
	return environ_value(text, S("UNHANG_RUN="), &run) ? run : (struct str){ 0 };
}

static uint64_t vram_of(const char *process)
{
	char path[512], room[64];
	uint64_t sum = 0;
	int64_t n;
	snprintf(path, sizeof(path), KFD_PROCESSES "/%s", process);
	_cleanup_dir_ DIR *d = opendir(path);
	for (const char *name; (name = dir_next(d));) {
		snprintf(path, sizeof(path), KFD_PROCESSES "/%.32s/%.64s", process, name);
		if (str_starts(str_z(name), S("vram_")) && str_number(str_trim(small_file(path, room, sizeof(room))), &n) &&
		    n > 0)
			sum += (uint64_t)n;
	}
	return sum;
}

static struct str holder_say(struct arena *a, const char *process, const char *run_id, char *room)
{
	char path[64], name[64];
	const int64_t bytes = (int64_t)vram_of(process);
	const struct str size = job_size_say(a, bytes);
	if (!process_numbers_shared())
		return arena_printf(a, "process %.20s of the host (" STR_FMT ")", process, STR_ARG(size));
	snprintf(path, sizeof(path), "/proc/%.20s/comm", process);
	const struct str comm = str_trim(small_file(path, name, sizeof(name)));
	struct str run = job_processes_process_run(process, room);
	if (!bytes && str_is(comm, "unhang-kfd")) // which only listens to KFD
		return (struct str){ 0 };
	run = str_is(run, run_id) ? (struct str){ 0 } : str_cut(run, 64);
	return arena_printf(a, STR_FMT " (%.20s) " STR_FMT "%s" STR_FMT, STR_ARG(comm.n ? comm : S("process")), process,
			    STR_ARG(size), run.n ? ", left by the run " : "", STR_ARG(run));
}

static void job_processes_find_holders(const void *ctx, struct arena *a, void *answer)
{
	const struct processes_asked *asked = ctx;
	struct processes_said *said = answer;
	struct text list = { 0 };
	char *room = mem_large(ENVIRON_ROOM);
	const bool same = process_numbers_shared();
	DIR *d = opendir(KFD_PROCESSES);
	size_t n = 0;
	int64_t pid;
	for (const char *name; (name = dir_next(d));) {
		bool own = false;
		if (!str_number(str_z(name), &pid))
			continue;
		for (size_t i = 0; same && i < asked->pids->n && !own; i++)
			own = asked->pids->list[i] == pid;
		said->yes |= own;
		struct str one = own ? (struct str){ 0 } : holder_say(a, name, asked->run_id, room);
		if (one.n && n++ < SAID_MOST)
			text_printf(&list, "%s" STR_FMT, n > 1 ? "; " : "", STR_ARG(one));
	}
	said->list = text_str(&list);
}

struct str holders_say(struct arena *a, const struct pid_list *own, const char *run_id, bool *ret_ours)
{
	struct processes_said said = { 0 };
	if (!access(KFD_PROCESSES, F_OK))
		said = processes_ask(a, job_processes_find_holders, &(struct processes_asked){ own, run_id }, LONG_MS);
	*ret_ours = said.yes;
	return said.list;
}

/** Of this user's: others do not show their environment, and root need not believe one. */
static void find_survivors(const void *ctx, struct arena *a, void *answer)
{
	const struct processes_asked *asked = ctx;
	struct processes_said *said = answer;
	struct pid_list *found = arena_alloc(a, sizeof(*found));
	char *room = mem_large(ENVIRON_ROOM);
	DIR *d = opendir("/proc");
	int64_t pid;
	uid_t owner;
	said->yes = d;
	for (const char *name; (name = dir_next(d)) && found->n < PIDS_MOST;)
		if (str_number(str_z(name), &pid) && pid > 0 && pid != getpid() && pid != getppid() &&
		    process_owner(pid, &owner) && owner == geteuid() &&
		    str_is(job_processes_process_run(name, room), asked->run_id))
			found->list[found->n++] = pid;
	said->list = tree_say(a, found);
}

struct str survivors_say(struct arena *a, const char *run_id)
{
	const struct processes_said said =
		processes_ask(a, find_survivors, &(struct processes_asked){ .run_id = run_id }, LONG_MS);
	return said.list.n ? arena_printf(a, SURVIVORS STR_FMT ".", STR_ARG(said.list)) :
	       said.yes    ? S("None of its processes was found any more.") :
			     S("It is not known whether processes of it are left.");
}

/** A process that has just ended has neither a command nor variables. Another user's cannot write where the recordings are. */
static void job_processes_find_strangers(const void *ctx, struct arena *a, void *answer)
{
	const struct processes_asked *asked = ctx;
	struct processes_said *said = answer;
	struct pid_list *bare = arena_alloc(a, sizeof(*bare)), *uncalled = arena_alloc(a, sizeof(*uncalled));
	char *room = mem_large(MAPS_ROOM), number[24];
	uid_t owner;
	for (size_t i = 0; i < asked->pids->n; i++) {
		const int64_t pid = asked->pids->list[i];
		snprintf(number, sizeof(number), "%lld", (long long)pid);
		const bool others = process_owner(pid, &owner) && owner != geteuid();
		if (!process_file(pid, "cmdline", room, ENVIRON_ROOM).n)
			continue;
		if (others || !str_is(job_processes_process_run(number, room), asked->run_id))
			bare->list[bare->n++] = pid;
		else if (process_unrecorded(process_file(pid, "maps", room, MAPS_ROOM), pid))
			uncalled->list[uncalled->n++] = pid;
	}
	said->list = tree_say(a, bare);
	said->uncalled = tree_say(a, uncalled);
}

void strangers_find(struct arena *a, const struct pid_list *pids, const char *run_id, struct job_strangers *ret)
{
	const struct processes_said said =
		processes_ask(a, job_processes_find_strangers, &(struct processes_asked){ pids, run_id }, SHORT_MS);
	ret->bare = ret->bare.n ? ret->bare : said.list;
	ret->uncalled = ret->uncalled.n ? ret->uncalled : said.uncalled;
}
