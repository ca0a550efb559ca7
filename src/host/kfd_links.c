// KFD's links of a GPU: XGMI to other GPUs, and whether the one to the processor carries atomics.
#include "host/gpus.h"

enum { LINKS_MOST = 128, TYPE_PCIE = 2, TYPE_XGMI = 11, NO_ATOMICS = 3 << 2 };

void xgmi_ask(struct gpu_looks *l, struct gpu_look *g)
{
	struct str names = g->links;
	g->xgmi_ask = g->asks.probes.len;
	while (names.n && g->nxgmi < LINKS_MOST) {
		struct str name = str_split(&names, '\n');
		int64_t number;
		if (!str_number(name, &number))
			continue;
		ask(&g->asks, PROBE_FILE,
		    arena_printf(&l->h->arena, "/sys/class/kfd/kfd/topology/nodes/%lld/io_links/" STR_FMT "/properties",
				 (long long)g->d->kfd_node, STR_ARG(name)),
		    1024);
		g->nxgmi++;
	}
}

/** The GPU of a node, by its place in the list; -1: it is a processor's. */
static ptrdiff_t gpu_at(const struct gpu_looks *l, int64_t node)
{
	const struct devices *d = &l->h->devices;
	for (size_t n = 0; n < d->nkfd; n++)
		if (d->kfd[n].node == node && d->kfd[n].device < l->n)
			return (ptrdiff_t)d->kfd[n].device;
	return -1;
}

static void read_links(struct gpu_looks *l, size_t index)
{
	struct gpu_look *g = &l->list[index];
	bool answered = false;
	g->peers = arena_alloc(&l->h->arena, l->n * sizeof(*g->peers) + 1);
	for (size_t n = 0; n < g->nxgmi; n++) {
		struct str text = answer_text(&g->asks, g->xgmi_ask + n);
		int64_t type = kfd_property(text, "type"), flags = kfd_property(text, "flags");
		ptrdiff_t to = gpu_at(l, kfd_property(text, "node_to"));
		answered |= type >= 0;
		if (type == TYPE_PCIE && to < 0 && flags >= 0 && !g->d->apu)
			host_note(l->h, g->item, "atomics", flags & NO_ATOMICS ? S("no") : S("yes"),
				  answer_place(&g->asks, g->xgmi_ask + n));
		if (type == TYPE_XGMI && to >= 0 && (size_t)to != index && !g->peers[to]) {
			g->peers[to] = true;
			g->npeers++;
		}
	}
	g->links_known = answered;
	if (answered)
		host_note_number(l->h, g->item, "xgmi_links", (int64_t)g->npeers, S("/sys/class/kfd/kfd/topology/nodes"));
}

/** Where KFD tells no links, those of one hive count as connected. */
static void read_hive(struct gpu_looks *l, size_t index)
{
	struct gpu_look *g = &l->list[index];
	for (size_t n = 0; n < l->n && !g->links_known && g->d->hive.n; n++)
		if (n != index && str_eq(l->list[n].d->hive, g->d->hive)) {
			g->peers[n] = true;
			g->npeers++;
		}
}

static bool same_kind(const struct gpu_look *a, const struct gpu_look *b) { return a->d->device == b->d->device; }

static bool same_hive(const struct gpu_look *a, const struct gpu_look *b)
{
	return a->d->hive.n && str_eq(a->d->hive, b->d->hive);
}

/** Whether all others of its kind are linked with one another, and together with it they are as many as boards and bridges link. */
static bool left_out(const struct gpu_looks *l, const struct gpu_look *g)
{
	enum { FEW = 4, MANY = 8 };
	size_t kind = 0, joined = 0;
	for (size_t n = 0; n < l->n; n++) {
		if (!same_kind(&l->list[n], g))
			continue;
		kind++;
		for (size_t m = 0; m < l->n && &l->list[n] != g; m++)
			joined += same_kind(&l->list[m], g) && &l->list[m] != g && l->list[n].peers[m];
	}
	return (kind == FEW || kind == MANY) && joined == (kind - 1) * (kind - 2);
}

/** Notes the GPUs that it should be linked to and is not: those of its hive, or all of its kind if it alone is left out. */
static void note_missing(struct gpu_looks *l, const struct gpu_look *g)
{
	struct text names = { 0 };
	struct str where = g->links_known ? S("/sys/class/kfd/kfd/topology/nodes") : g->d->sysfs;
	bool out = left_out(l, g);
	int64_t others = 0;
	if (!g->links_known && !g->d->hive.n)
		return;
	for (size_t n = 0; n < l->n; n++) {
		const struct gpu_look *o = &l->list[n];
		if (o == g || !same_kind(o, g) || (!out && !same_hive(o, g)))
			continue;
		others++;
		if (!g->peers[n])
			text_printf(&names, "%s" STR_FMT, names.n ? ", " : "", STR_ARG(o->d->pci));
	}
	host_note(l->h, g->item, "xgmi_peers_missing", text_str(&names), where);
	if (names.n) {
		host_note_number(l->h, g->item, "xgmi_others", others, where);
		host_note_number(l->h, g->item, "xgmi_joined", (int64_t)g->npeers, where);
	}
	text_free(&names);
}

/** The GPUs that the driver resets together with it: all of its hive. */
static void note_reset(struct gpu_looks *l, const struct gpu_look *g)
{
	struct text names = { 0 };
	for (size_t n = 0; n < l->n; n++)
		if (same_hive(&l->list[n], g))
			text_printf(&names, "%s" STR_FMT, names.n ? ", " : "", STR_ARG(l->list[n].d->pci));
	if (str_find(text_str(&names), S(",")) >= 0)
		host_note(l->h, g->item, "reset_gpus", text_str(&names), g->d->sysfs);
	text_free(&names);
}

void xgmi_note(struct gpu_looks *l)
{
	size_t most = 0;
	for (size_t n = 0; n < l->n; n++) {
		read_links(l, n);
		read_hive(l, n);
		most = l->list[n].npeers > most ? l->list[n].npeers : most;
	}
	for (size_t n = 0; n < l->n; n++) {
		note_missing(l, &l->list[n]);
		note_reset(l, &l->list[n]);
	}
	if (most)
		host_note_number(l->h, host_machine(l->h), "hive_size", (int64_t)most + 1,
				 S("/sys/class/kfd/kfd/topology/nodes"));
}
