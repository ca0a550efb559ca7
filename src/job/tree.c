// The processes of the job. We are their subreaper: whoever loses its parent becomes our child, also a daemon that has forked twice.
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "job/parts.h"

enum { STAT_ROOM = 1024, ALL_MOST = 65536, SAID_MOST = 8 };

struct process_seen {
	int64_t pid, parent, session;
	bool ours;
};

/** A process whose first thread has ended looks like a zombie for as long as its others run. */
static bool has_ended(const struct process_stat *p) { return p->state == 'X' || (p->state == 'Z' && p->threads < 2); }

static size_t read_all(struct process_seen *list)
{
	DIR *d = opendir("/proc");
	size_t n = 0;
	char room[STAT_ROOM];
	struct process_stat stat;
	for (struct dirent *e = d ? readdir(d) : NULL; e && n < ALL_MOST; e = readdir(d)) {
		if (!isdigit((unsigned char)e->d_name[0]) || !str_number(str_z(e->d_name), &list[n].pid))
			continue;
		if (!process_stat_parse(process_file(list[n].pid, "stat", room, sizeof(room)), &stat) || has_ended(&stat))
			continue;
		list[n].parent = stat.parent;
		list[n].session = stat.session;
		list[n++].ours = false;
	}
	if (d)
		closedir(d);
	return n;
}

static int by_pid(const void *a, const void *b)
{
	const struct process_seen *x = a, *y = b;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static bool is_ours(const struct process_seen *list, size_t n, int64_t pid, int64_t self)
{
	const struct process_seen key = { .pid = pid }, *found = bsearch(&key, list, n, sizeof(*list), by_pid);
	return pid == self || (found && found->ours);
}

/** Whoever is in the job's group belongs to it, whoever its parent is. */
static void take_group(const struct job_group *g, struct process_seen *list, size_t n, struct pid_list *ret)
{
	struct pid_list *in = mem_alloc(sizeof(*in));
	group_list(g, in);
	for (size_t i = 0; i < in->n; i++) {
		const struct process_seen key = { .pid = in->list[i] };
		struct process_seen *found = bsearch(&key, list, n, sizeof(*list), by_pid);
		if (!found || found->ours || ret->n == PIDS_MOST)
			continue;
		found->ours = true;
		ret->list[ret->n++] = found->pid;
	}
	free(in);
}

/** Between its birth and its first call a helper is in our session. */
static bool is_helpers(const struct helper *h, const struct process_seen *p)
{
	for (size_t i = 0; i < HELPERS_KEPT && i < h->nsessions; i++)
		if (p->session == h->sessions[i] || p->pid == h->sessions[i])
			return true;
	return h->copier > 0 && p->pid == h->copier;
}

void tree_list(const struct helper *h, const struct job_group *g, struct pid_list *ret)
{
	struct process_seen *list = mem_alloc(ALL_MOST * sizeof(*list));
	const size_t n = read_all(list);
	const int64_t self = getpid();
	bool more = true;
	qsort(list, n, sizeof(*list), by_pid);
	ret->n = 0;
	if (g->fd >= 0)
		take_group(g, list, n, ret);
	while (more) {
		more = false;
		for (size_t i = 0; i < n && ret->n < PIDS_MOST; i++) {
			if (list[i].ours || is_helpers(h, &list[i]) || !is_ours(list, n, list[i].parent, self))
				continue;
			list[i].ours = more = true;
			ret->list[ret->n++] = list[i].pid;
		}
	}
	free(list);
}

bool tree_descends(int64_t pid)
{
	enum { DEPTH_MOST = 256 };
	char room[STAT_ROOM];
	struct process_stat stat;
	for (int i = 0; i < DEPTH_MOST && pid > 1; i++, pid = stat.parent) {
		if (!process_stat_parse(process_file(pid, "stat", room, sizeof(room)), &stat))
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
	struct text said = { 0 };
	char room[64];
	for (size_t i = 0; i < p->n && i < SAID_MOST; i++) {
		struct str name = str_trim(process_file(p->list[i], "comm", room, sizeof(room)));
		text_printf(&said, "%s" STR_FMT " (%lld)", i ? ", " : "", STR_ARG(name.n ? name : S("process")),
			    (long long)p->list[i]);
	}
	if (p->n > SAID_MOST)
		text_printf(&said, " and %zu more", p->n - SAID_MOST);
	struct str kept = arena_str(a, text_str(&said));
	text_free(&said);
	return kept;
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
