// More facts of each GPU: memory that failed and errors that were counted, where displays are connected, and who has it open.
#include "base/cleanup.h"
#include "gpu/bad_pages.h"
#include "host/gpus.h"
#include "host/host.h"

enum { RAS_MOST = 64 };

void errors_ask(struct gpu_looks *l, struct gpu_look *g)
{
	struct arena *a = &l->h->arena;
	struct str names = g->ras;
	g->ras_ask = g->asks.probes.len;
	struct probe pages[BAD_PAGES_READS];
	bad_pages_ask(arena_printf(a, STR_FMT "/ras/gpu_vram_bad_pages", STR_ARG(g->d->sysfs)).p, pages);
	for (size_t n = 0; n < BAD_PAGES_READS; n++)
		vec_push(&g->asks.probes, pages[n]);
	while (names.n && g->nras < RAS_MOST) {
		struct str name = str_split(&names, '\n');
		if (!str_ends(name, S("_err_count")))
			continue;
		ask_gpu(l, g, PROBE_FILE, arena_printf(a, "ras/" STR_FMT, STR_ARG(name)).p, 256);
		g->nras++;
	}
}

/** Pages that were retired, wait to be, or could not be. */
static void note_pages(struct gpu_looks *l, struct gpu_look *g)
{
	struct str where = answer_place(&g->asks, g->ras_ask);
	struct bad_pages pages;
	if (!bad_pages_count(&g->asks.probes.data[g->ras_ask], BAD_PAGES_READS, &pages))
		return;
	const struct {
		const char *name;
		int64_t count;
	} rows[] = { { "bad_pages_retired", pages.retired }, { "bad_pages_pending", pages.pending }, { "bad_pages_failed", pages.failed } };
	for (size_t n = 0; n < ARRAY_SIZE(rows); n++)
		if (rows[n].count)
			host_note_number(l->h, g->item, rows[n].name, rows[n].count, where);
	host_note_number(l->h, g->item, "bad_pages", pages.retired + pages.pending + pages.failed, where);
	if (pages.more)
		host_note(l->h, g->item, "bad_pages_bound", S("at least"), where);
}

/** `ue: 0` and `ce: 12`. */
static int64_t count_of(struct str text, struct str key)
{
	const int64_t most = (int64_t)1 << 48;
	struct str rest;
	int64_t number;
	str_each (line, text, '\n')
		if (str_behind(line, key, &rest) && str_number(rest, &number) && number >= 0)
			return number < most ? number : most;
	return -1;
}

/** The sum over all blocks, and the blocks that counted anything. A sum of 0 is a fact, too: the counters were read. */
static void note_counts(struct gpu_looks *l, struct gpu_look *g, struct str key, const char *fact, const char *blocks)
{
	int64_t sum = -1;
	struct str where = { 0 };
	_cleanup_text_ struct text names = { 0 };
	for (size_t n = 0; n < g->nras; n++) {
		size_t at = g->ras_ask + BAD_PAGES_READS + n;
		struct str place = answer_place(&g->asks, at), block = str_from(place, (size_t)str_find(place, S("/ras/")) + 5);
		int64_t count = count_of(answer_text(&g->asks, at), key);
		if (count < 0)
			continue;
		if (sum < 0 || (count && sum == 0))
			where = place;
		sum = (sum < 0 ? 0 : sum) + count;
		if (count)
			text_printf(&names, "%s" STR_FMT " %lld", names.n ? ", " : "",
				    STR_ARG(str_cut(block, block.n - sizeof("_err_count") + 1)), (long long)count);
	}
	if (sum >= 0)
		host_note_number(l->h, g->item, fact, sum, where);
	host_note(l->h, g->item, blocks, text_str(&names), where);
}

/** What the driver has counted since it was loaded. Those of a hive are counted together, so they are told of its first GPU. */
static void note_events(struct gpu_looks *l, struct gpu_look *g)
{
	const struct ras_events *r = &g->d->ras;
	const struct {
		const char *fact;
		int64_t count;
	} rows[] = { { "ras_fatal_events", r->fatal },
		     { "ras_poison_created", r->poison_created },
		     { "ras_poison_consumed", r->poison_consumed } };
	struct str where = arena_printf(&l->h->arena, STR_FMT "/ras/event_state", STR_ARG(g->d->sysfs));
	for (size_t n = 0; n < ARRAY_SIZE(rows) && r->first; n++)
		if (rows[n].count >= 0)
			host_note_number(l->h, g->item, rows[n].fact, rows[n].count, where);
	if (r->first && r->gpus > 1 && r->fatal >= 0)
		host_note_number(l->h, g->item, "ras_events_gpus", (int64_t)r->gpus, where);
}

void errors_note(struct gpu_looks *l, struct gpu_look *g)
{
	// What the PCIe link counts, by the kernel's AER.
	const struct link *k = &g->d->link;
	const struct {
		const char *fact, *file;
		int64_t value;
	} counts[] = {
		{ "aer_correctable", "aer_dev_correctable", k->correctable },
		{ "aer_nonfatal", "aer_dev_nonfatal", k->nonfatal },
		{ "aer_fatal", "aer_dev_fatal", k->fatal },
	};
	for (size_t n = 0; n < ARRAY_SIZE(counts); n++)
		if (counts[n].value >= 0)
			host_note_said(l->h, g->item, counts[n].fact,
				       arena_printf(&l->h->arena, "%lld", (long long)counts[n].value),
				       arena_printf(&l->h->arena, STR_FMT "/%s", STR_ARG(g->d->sysfs), counts[n].file));
	note_events(l, g);
	if (g->ras_ask == SIZE_MAX)
		return;
	note_pages(l, g);
	note_counts(l, g, S("ue:"), "ras_ue", "ras_ue_blocks");
	note_counts(l, g, S("ce:"), "ras_ce", "ras_ce_blocks");
}

// Where displays are connected.

/** `card1-DP-2` is one of card 1; `eDP-1` its name. Its status is what the kernel saw last: nothing is asked of the display. */
static bool connector_of(struct str connector, int64_t *ret_card, struct str *ret_name)
{
	struct str rest;
	if (!str_behind(connector, S("card"), &rest))
		return false;
	struct str number = str_split(&rest, '-');
	*ret_name = rest;
	return rest.n && str_number(number, ret_card) && !str_starts(rest, S("Writeback"));
}

static bool has_connectors(struct str names, int card)
{
	struct str name;
	int64_t number;
	str_each (connector, names, '\n')
		if (connector_of(connector, &number, &name) && number == card)
			return true;
	return false;
}

/** Its own directory has them; where a tree has lost that, the class has a link to each. */
void displays_ask(struct gpu_looks *l, struct gpu_look *g)
{
	struct arena *a = &l->h->arena;
	bool own = has_connectors(g->connectors, g->d->card);
	struct str names = own ? g->connectors : l->connectors;
	struct str directory =
		own ? arena_printf(a, STR_FMT "/drm/card%d", STR_ARG(g->d->sysfs), g->d->card) : S("/sys/class/drm");
	g->displays = g->asks.probes.len;
	while (names.n && g->ndisplays < DISPLAYS_MOST) {
		struct str connector = str_split(&names, '\n'), name;
		int64_t card;
		if (!connector_of(connector, &card, &name) || card != g->d->card)
			continue;
		ask(&g->asks, PROBE_FILE,
		    arena_printf(a, STR_FMT "/" STR_FMT "/status", STR_ARG(directory), STR_ARG(connector)), 64);
		g->ndisplays++;
	}
}

void displays_note(struct gpu_looks *l, struct gpu_look *g)
{
	_cleanup_text_ struct text names = { 0 };
	if ((!l->connectors.n && !g->connectors.n) || g->d->card < 0)
		return;
	g->connected = 0;
	for (size_t n = 0; n < g->ndisplays; n++) {
		// `card1-DP-2` of `.../card1-DP-2/status`.
		struct str place = answer_place(&g->asks, g->displays + n);
		struct str last = { 0 };
		for (struct str next = str_split(&place, '/'); place.n; next = str_split(&place, '/'))
			last = next;
		struct str name = last;
		if (!str_is(answer_text(&g->asks, g->displays + n), "connected"))
			continue;
		str_split(&name, '-');
		text_printf(&names, "%s" STR_FMT, names.n ? ", " : "", STR_ARG(name));
		g->connected++;
	}
	struct str where = arena_printf(&l->h->arena, "/sys/class/drm/card%d", g->d->card);
	host_note_number(l->h, g->item, "displays", g->connected, where);
	host_note(l->h, g->item, "display_names", text_str(&names), where);
}

void displays_note_machine(struct gpu_looks *l)
{
	bool known = false, on[2] = { false, false };
	for (size_t n = 0; n < l->n; n++) {
		known |= l->list[n].connected >= 0;
		on[l->list[n].d->apu] |= l->list[n].connected > 0;
	}
	if (known)
		host_note(l->h, host_machine(l->h), "display_on",
			  on[0] && on[1] ? S("both") :
			  on[1]          ? S("apu") :
			  on[0]          ? S("dgpu") :
					   S("none"),
			  S("/sys/class/drm"));
}

// Who has a GPU open, and in which state it is.

enum { STAT_MOST = 1024, PROCESSES_MOST = 256 };

/** Names of the kernel's letters for what a process does. */
static const struct {
	char letter;
	const char *name;
} states[] = {
	{ 'R', "running" }, { 'S', "sleeping" }, { 'D', "uninterruptible" }, { 'Z', "zombie" },
	{ 'X', "dead" },    { 'T', "stopped" },  { 't', "traced" },          { 'I', "idle" },
};

/** `4242 (a) name) S 1 ...`: the letter behind the last bracket. */
static struct str gpus_more_state_of(struct str stat)
{
	size_t at = stat.n;
	while (at && stat.p[at - 1] != ')')
		at--;
	struct str rest = str_trim(str_from(stat, at));
	for (size_t i = 0; at && rest.n && i < ARRAY_SIZE(states); i++)
		if (states[i].letter == rest.p[0])
			return str_z(states[i].name);
	return (struct str){ 0 };
}

static void gpus_more_add_process(struct host *h, struct host_item *gpu, const struct holder *holder, const struct probe *stat,
				  const struct probe *wchan)
{
	struct str where = arena_printf(&h->arena, "/proc/%lld", (long long)holder->pid),
		   off = know_switch(h->know, holder->name);
	struct host_item *i = host_add(h, "process", gpu);
	bool desktop = off.n || know_is_desktop(h->know, holder->name);
	host_note(h, i, "name", holder->name, where);
	host_note_number(h, i, "pid", holder->pid, where);
	host_note(h, i, "state", gpus_more_state_of(probe_text(stat)), str_z(stat->path));
	struct str function = str_trim(probe_text(wchan));
	if (!str_is(function, "0"))
		host_note(h, i, "waits_in", function, str_z(wchan->path));
	host_note(h, i, "compute", holder->compute ? S("yes") : S("no"), where);
	host_note(h, i, "desktop", desktop ? S("yes") : S("no"), where);
	struct command_maker *m = command_begin(&h->arena);
	command_add_known(m, off);
	host_note_command(h, i, "switch", command_end(m), (struct str){ 0 });
	if (holder->vram >= 0)
		host_note_number(h, i, "vram_mb", holder->vram >> 20, where);
	if (holder->compute && !desktop)
		host_note(h, gpu, "compute_process", holder->name, where);
}

void host_read_processes(struct host *h)
{
	_cleanup_free_ struct probe *probes = mem_alloc(2 * PROCESSES_MOST * sizeof(*probes));
	size_t n = 0, at = 0;
	h->doubt |= h->devices.processes_unread.n > 0;
	for (size_t d = 0; d < h->devices.n; d++)
		for (size_t i = 0; i < h->devices.list[d].nholders && n < 2 * PROCESSES_MOST; i++) {
			long long pid = (long long)h->devices.list[d].holders[i].pid;
			probes[n++] =
				(struct probe){ .path = arena_printf(&h->arena, "/proc/%lld/stat", pid).p, .size = STAT_MOST };
			probes[n++] =
				(struct probe){ .path = arena_printf(&h->arena, "/proc/%lld/wchan", pid).p, .size = STAT_MOST };
		}
	if (n)
		host_probe(h, probes, n);
	for (size_t d = 0; d < h->devices.n; d++)
		host_gpu(h, &h->devices.list[d])->doubt |= h->doubt;
	for (size_t d = 0; d < h->devices.n; d++)
		for (size_t i = 0; i < h->devices.list[d].nholders && at < n; i++, at += 2)
			gpus_more_add_process(h, host_gpu(h, &h->devices.list[d]), &h->devices.list[d].holders[i], &probes[at],
					      &probes[at + 1]);
}
