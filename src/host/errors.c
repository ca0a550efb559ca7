// Memory that failed, and errors that were counted.
#include "host/gpus.h"

/** The driver writes whole lines of 28 characters, as many as end before what it was asked for. */
enum { PAGE_LINE = 28, PAGE_LINES = 145, PAGES_READS = 8, RAS_MOST = 64 };

static bool is_count(struct str name) { return str_ends(name, S("_err_count")); }

void errors_ask(struct gpu_looks *l, struct gpu_look *g)
{
	struct arena *a = &l->h->arena;
	struct str names = g->ras;
	g->ras_ask = g->asks.probes.len;
	for (size_t n = 0; n < PAGES_READS; n++) {
		ask_gpu(l, g, PROBE_READ, "ras/gpu_vram_bad_pages", PAGE_LINES * PAGE_LINE + 1);
		struct probe *p = &g->asks.probes.data[g->asks.probes.len - 1];
		p->offset = n * PAGE_LINES * PAGE_LINE;
	}
	while (names.n && g->nras < RAS_MOST) {
		struct str name = str_split(&names, '\n');
		if (!is_count(name))
			continue;
		ask_gpu(l, g, PROBE_FILE, arena_printf(a, "ras/" STR_FMT, STR_ARG(name)).p, 256);
		g->nras++;
	}
}

enum { RETIRED, PENDING, FAILED, FLAGS };

/** `0x00000001 : 0x00001000 : R`. */
static void count_pages(struct str text, int64_t counts[FLAGS])
{
	static const char flags[] = "RPF";
	text = str_cut(text, PAGE_LINES * PAGE_LINE);
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n'));
		const char *flag = line.n ? strchr(flags, line.p[line.n - 1]) : NULL;
		if (flag && *flag && (line.n == 1 || char_space(line.p[line.n - 2])))
			counts[flag - flags]++;
	}
}

static void note_pages(struct gpu_looks *l, struct gpu_look *g)
{
	static const char *const names[FLAGS] = { "bad_pages_retired", "bad_pages_pending", "bad_pages_failed" };
	int64_t counts[FLAGS] = { 0 }, all = 0;
	struct str where = answer_place(&g->asks, g->ras_ask);
	if (g->asks.probes.data[g->ras_ask].end != PROBE_GOOD)
		return;
	for (size_t n = 0; n < PAGES_READS; n++) {
		const struct probe *p = &g->asks.probes.data[g->ras_ask + n];
		count_pages((struct str){ p->data, p->end == PROBE_GOOD ? p->n : 0 }, counts);
	}
	for (size_t n = 0; n < FLAGS; n++) {
		all += counts[n];
		if (counts[n])
			host_note_number(l->h, g->item, names[n], counts[n], where);
	}
	host_note_number(l->h, g->item, "bad_pages", all, where);
	if (g->asks.probes.data[g->ras_ask + PAGES_READS - 1].n > PAGE_LINES * PAGE_LINE)
		host_note(l->h, g->item, "bad_pages_bound", S("at least"), where);
}

/** `ue: 0` and `ce: 12`. */
static int64_t count_of(struct str text, struct str key)
{
	const int64_t most = (int64_t)1 << 48;
	while (text.n) {
		struct str rest;
		int64_t number;
		if (str_behind(str_split(&text, '\n'), key, &rest) && str_number(rest, &number) && number >= 0)
			return number < most ? number : most;
	}
	return -1;
}

static void note_counts(struct gpu_looks *l, struct gpu_look *g, struct str key, const char *fact, const char *blocks)
{
	int64_t sum = -1;
	struct str where = { 0 };
	struct text names = { 0 };
	for (size_t n = 0; n < g->nras; n++) {
		size_t at = g->ras_ask + PAGES_READS + n;
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
	text_free(&names);
}

static void note_link_errors(struct gpu_looks *l, struct gpu_look *g)
{
	const struct link *k = &g->d->link;
	const struct {
		const char *fact, *file;
		int64_t value;
	} counts[] = {
		{ "aer_correctable", "aer_dev_correctable", k->correctable },
		{ "aer_nonfatal", "aer_dev_nonfatal", k->nonfatal },
		{ "aer_fatal", "aer_dev_fatal", k->fatal },
	};
	for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++)
		if (counts[n].value >= 0)
			host_note_said(l->h, g->item, counts[n].fact,
				       arena_printf(&l->h->arena, "%lld", (long long)counts[n].value),
				       arena_printf(&l->h->arena, STR_FMT "/%s", STR_ARG(g->d->sysfs), counts[n].file));
}

void errors_note(struct gpu_looks *l, struct gpu_look *g)
{
	note_link_errors(l, g);
	if (g->ras_ask == SIZE_MAX)
		return;
	note_pages(l, g);
	note_counts(l, g, S("ue:"), "ras_ue", "ras_ue_blocks");
	note_counts(l, g, S("ce:"), "ras_ce", "ras_ce_blocks");
}
