// What the power controller (SMU) counts of each GPU, from two of its tables: what slows it down, and errors of its links.
#include "gpu/metrics.h"
#include "host/gpus.h"

enum { TABLE_MOST = 8192 };

/** The search for GPUs read the first table. Of a tree there is one: its files do not change. */
void metrics_ask(struct gpu_looks *l, struct gpu_look *g)
{
	struct metrics first;
	g->metrics_ask = SIZE_MAX;
	if (!l->h->root && device_awake(g->d) && metrics_of(l->h->know, g->d->metrics, &first) && metrics_counts_throttle(&first))
		g->metrics_ask = ask_gpu(l, g, PROBE_FILE, "gpu_metrics", TABLE_MOST);
}

static void note_throttle(struct gpu_looks *l, struct gpu_look *g, const struct metrics *first, const struct metrics *now,
			  struct str where)
{
	struct metrics_cause causes[METRICS_CAUSES];
	const size_t n = metrics_throttle(first, now, causes);
	for (size_t i = 0; i < n; i++)
		host_note(l->h, g->item, "throttle", causes[i].cause, where);
	host_note(l->h, g->item, "throttle_says", metrics_throttle_text(&l->h->arena, causes, n), where);
}

void metrics_note(struct gpu_looks *l, struct gpu_look *g)
{
	static const struct {
		const char *field, *fact;
	} rows[] = {
		{ "pcie_replay_count_acc", "pcie_replays" },
		{ "pcie_replay_rover_count_acc", "pcie_replay_rollovers" },
		{ "pcie_nak_sent_count_acc", "pcie_naks_sent" },
		{ "pcie_nak_rcvd_count_acc", "pcie_naks_received" },
		{ "pcie_l0_to_recov_count_acc", "pcie_recoveries" },
	};
	const struct str where = arena_printf(&l->h->arena, STR_FMT "/gpu_metrics", STR_ARG(g->d->sysfs));
	struct metrics first, now;
	uint64_t value;
	if (!metrics_of(l->h->know, g->d->metrics, &first))
		return;
	const struct probe *again = g->metrics_ask < g->asks.probes.len ? &g->asks.probes.data[g->metrics_ask] : NULL;
	if (!again || again->end != PROBE_GOOD || !metrics_of(l->h->know, (struct str){ again->data, again->n }, &now))
		now = first;
	host_note(l->h, g->item, "gpu_metrics", now.layout->head.id, where);
	note_throttle(l, g, &first, &now, where);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (metrics_value(&now, str_z(rows[i].field), 0, &value) && value <= INT64_MAX)
			host_note_number(l->h, g->item, rows[i].fact, (int64_t)value, where);
	int64_t up = -1;
	for (size_t i = 0; metrics_value(&now, S("xgmi_link_status"), i, &value); i++)
		up = (up < 0 ? 0 : up) + (value == 1);
	if (up >= 0)
		host_note_number(l->h, g->item, "xgmi_links_up", up, where);
}
