// The processes that hold a GPU: who they are, and where their threads wait.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/parts.h"
#include "gpu/find/device.h"

enum { PIDS_MOST = 256, THREADS_MOST = 256, ASK_MS = 700, STEP_MS = 10000, SMALL = 16 << 10, LARGE = 4 << 20 };

static bool add(int64_t *list, size_t *n, size_t most, int64_t pid)
{
	for (size_t i = 0; i < *n; i++)
		if (list[i] == pid)
			return false;
	if (*n < most)
		list[(*n)++] = pid;
	return true;
}

static size_t holders_of(const struct devices *d, int64_t *ret, size_t most)
{
	size_t n = 0;
	for (size_t i = 0; i < d->n; i++)
		for (size_t h = 0; h < d->list[i].nholders; h++)
			add(ret, &n, most, d->list[i].holders[h].pid);
	return n;
}

size_t capture_holders(const struct taking *c, struct tape *tape, int64_t *ret, size_t most)
{
	const struct capture_options *o = c->options;
	struct devices own = { 0 };
	if (!tape || !o->devices)
		devices_find_at(o->know, (struct machine_at){ .tape = tape }, &own);
	size_t n = holders_of(tape && o->devices ? o->devices(tape, o->devices_ctx) : &own, ret, most);
	devices_free(&own);
	for (size_t i = 0; i < o->npids; i++)
		add(ret, &n, most, o->pids[i]);
	return n;
}

/** A file of a process, and how it is shown. */
static const struct {
	const char *name;
	size_t size;
} files[] = {
	{ "comm", SMALL },  { "cmdline", SMALL },   { "status", SMALL }, { "stat", SMALL },   { "wchan", SMALL },
	{ "stack", SMALL }, { "environ", 1 << 16 }, { "limits", SMALL }, { "cgroup", SMALL }, { "maps", LARGE },
};
static const char *const of_thread[] = { "comm", "stat", "wchan", "stack" };
enum { FILES = sizeof(files) / sizeof(files[0]), OF_THREAD = sizeof(of_thread) / sizeof(of_thread[0]) };

struct process_look {
	const struct taking *capture;
	struct tape *tape;
	struct probe_patience patience;
	struct probe_count count;
	struct arena arena;
	struct text text; // for people
};

static void show(struct process_look *l, const char *title, const struct probe *p)
{
	struct text kept = { 0 };
	struct str data = { p->data, p->end == PROBE_GOOD ? p->n : 0 };
	if (str_ends(str_z(p->path), S("/environ"))) {
		filter_environment(l->capture->options->know, data, &kept);
		data = text_str(&kept);
	}
	if (data.n) {
		text_printf(&l->text, "--- %s\n", title);
		for (size_t i = 0; i < data.n; i++)
			text_add(&l->text, data.p[i] ? (struct str){ data.p + i, 1 } : S("\n"));
		if (data.p[data.n - 1] != '\n')
			text_add(&l->text, S("\n"));
	} else if (p->end != PROBE_GOOD) {
		text_printf(&l->text, "--- %s: %s\n", title, p->end == PROBE_FAILED ? strerror(p->error) : "it did not answer");
	}
	text_free(&kept);
}

static void run(struct process_look *l, struct probe *probes, size_t n)
{
	struct probe_batch batch = { .probes = probes, .n = n, .goes_on = true };
	probe_run_all(&l->arena, &batch, 1, ASK_MS, &l->count);
}

static void threads(struct process_look *l, int64_t pid)
{
	struct probe list = { .kind = PROBE_LIST,
			      .path = arena_printf(&l->arena, "/proc/%lld/task", (long long)pid).p,
			      .size = SMALL };
	run(l, &list, 1);
	struct str names = probe_text(&list);
	for (size_t n = 0; names.n && n < THREADS_MOST; n++) {
		struct str thread = str_split(&names, '\n');
		struct probe p[OF_THREAD];
		for (size_t i = 0; i < OF_THREAD; i++)
			p[i] = (struct probe){ .path = arena_printf(&l->arena, "/proc/%lld/task/" STR_FMT "/%s", (long long)pid,
								    STR_ARG(thread), of_thread[i])
							       .p,
					       .size = SMALL };
		run(l, p, OF_THREAD);
		for (size_t i = 0; i < OF_THREAD; i++)
			show(l, arena_printf(&l->arena, "thread " STR_FMT " %s", STR_ARG(thread), of_thread[i]).p, &p[i]);
	}
}

static void process(struct process_look *l, int64_t pid)
{
	struct probe p[FILES];
	text_printf(&l->text, "=== process %lld\n", (long long)pid);
	for (size_t i = 0; i < FILES; i++)
		p[i] = (struct probe){ .path = arena_printf(&l->arena, "/proc/%lld/%s", (long long)pid, files[i].name).p,
				       .size = files[i].size };
	run(l, p, FILES);
	for (size_t i = 0; i < FILES; i++)
		show(l, files[i].name, &p[i]);
	threads(l, pid);
}

/** To a file that was opened when there still were rights; it gets its name when this is over. */
static void save_text(struct step *s, const struct process_look *l)
{
	struct item_file f = *(const struct item_file *)s->ctx;
	s->shared->result.whole = f.fd >= 0 && item_write(&f, text_str(&l->text)) && item_close(&f);
	if (!s->shared->result.whole)
		step_end(s, ITEM_CUT, "%s", strerror(errno));
	s->shared->result.bytes += f.bytes;
}

void capture_processes(struct step *s, struct tape *tape)
{
	int64_t pids[PIDS_MOST];
	struct process_look l = { .capture = s->capture, .tape = tape, .patience = { STEP_MS, tape } };
	l.count.patience = &l.patience;
	size_t n = capture_holders(s->capture, tape, pids, PIDS_MOST);
	for (size_t i = 0; i < n; i++)
		process(&l, pids[i]);
	step_end(s, n ? ITEM_SAVED : ITEM_ABSENT, "%s", n ? "" : "no process holds a GPU");
	if (n)
		save_text(s, &l);
	text_free(&l.text);
	arena_free(&l.arena);
}
