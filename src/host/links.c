// How a GPU is connected: the PCIe link at the edge of its card and those above it (the links of the switch on the card itself always
// look fine), XGMI to other GPUs by KFD, and whether atomics get through.
#include "base/bytes.h"
#include "host/gpus.h"

// KFD's links of a GPU: XGMI to other GPUs, and whether the one to the processor carries atomics.

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
	const struct kfd_place *p = list_find(d->kfd, d->nkfd, it, it->node == node && it->device < l->n);
	return p ? (ptrdiff_t)p->device : -1;
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

static bool links_same_kind(const struct gpu_look *a, const struct gpu_look *b) { return a->d->device == b->d->device; }

static bool same_hive(const struct gpu_look *a, const struct gpu_look *b)
{
	return a->d->hive.n && str_eq(a->d->hive, b->d->hive);
}

/** Notes the GPUs that it should be linked to and is not: those of its hive, or all of its kind if it alone is left out. */
static void note_missing(struct gpu_looks *l, const struct gpu_look *g)
{
	_cleanup_text_ struct text names = { 0 };
	struct str where = g->links_known ? S("/sys/class/kfd/kfd/topology/nodes") : g->d->sysfs;
	// Whether all others of its kind are linked with one another, and together with it they are as many as boards and bridges link.
	enum { FEW = 4, MANY = 8 };
	size_t kind = 0, joined = 0;
	for (size_t n = 0; n < l->n; n++) {
		if (!links_same_kind(&l->list[n], g))
			continue;
		kind++;
		for (size_t m = 0; m < l->n && &l->list[n] != g; m++)
			joined += links_same_kind(&l->list[m], g) && &l->list[m] != g && l->list[n].peers[m];
	}
	bool out = (kind == FEW || kind == MANY) && joined == (kind - 1) * (kind - 2);
	int64_t others = 0;
	if (!g->links_known && !g->d->hive.n)
		return;
	for (size_t n = 0; n < l->n; n++) {
		const struct gpu_look *o = &l->list[n];
		if (o == g || !links_same_kind(o, g) || (!out && !same_hive(o, g)))
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
}

/** The GPUs that the driver resets together with it: all of its hive. */
static void note_reset(struct gpu_looks *l, const struct gpu_look *g)
{
	_cleanup_text_ struct text names = { 0 };
	for (size_t n = 0; n < l->n; n++)
		if (same_hive(&l->list[n], g))
			text_printf(&names, "%s" STR_FMT, names.n ? ", " : "", STR_ARG(l->list[n].d->pci));
	if (str_find(text_str(&names), S(",")) >= 0)
		host_note(l->h, g->item, "reset_gpus", text_str(&names), g->d->sysfs);
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

// --- the PCIe link ---

enum { STOP_VENDOR, STOP_DEVICE, STOP_SPEED, STOP_WIDTH, STOP_MAX_SPEED, STOP_MAX_WIDTH, STOP_CONFIG, STOP_FILES };
static const char *const files[STOP_FILES] = {
	"vendor", "device", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "config",
};
enum { CONFIG_SIZE = 256, WIDTH_MOST = 32 };

/** `0000:03:00.0`. */
static bool is_address(struct str s)
{
	static const char form[] = "hhhh:hh:hh.h";
	if (s.n != sizeof(form) - 1)
		return false;
	for (size_t n = 0; n < s.n; n++)
		if (form[n] == 'h' ? !char_hex(s.p[n]) : s.p[n] != form[n])
			return false;
	return true;
}

/** The configuration of a GPU that sleeps is not read: that would wake it. One that is awake has its bridges awake too. */
static bool links_may_read(const struct device *d)
{
	return !d->off_bus && !str_starts(d->runtime_status, S("suspend")) && !str_is(d->power_state, "D3cold");
}

void links_ask(struct gpu_looks *l, struct gpu_look *g)
{
	struct str path = g->d->path;
	if (g->d->apu || g->d->guest || !links_may_read(g->d))
		return;
	while (path.n && g->nway < WAY_MOST - 1) {
		struct str pci = str_split(&path, '/');
		if (is_address(pci) && !str_eq(pci, g->d->pci))
			g->way[g->nway++].pci = pci;
	}
	g->way[g->nway++].pci = g->d->pci;
	for (size_t n = 0; n < g->nway; n++) {
		bool own = n == g->nway - 1;
		g->way[n].ask = g->asks.probes.len;
		for (size_t f = 0; f < STOP_FILES; f++) {
			size_t size = f == STOP_CONFIG ? CONFIG_SIZE : 64;
			if (own)
				ask_gpu(l, g, PROBE_FILE, files[f], size);
			else
				ask(&g->asks, PROBE_FILE,
				    arena_printf(&l->h->arena, "/sys/bus/pci/devices/" STR_FMT "/%s", STR_ARG(g->way[n].pci),
						 files[f]),
				    size);
		}
	}
}

static int64_t links_width_of(const struct gpu_look *g, const struct way_stop *s, size_t file)
{
	int64_t width = answer_number(&g->asks, s->ask + file);
	return width >= 1 && width <= WIDTH_MOST ? width : -1;
}

static int64_t speed_at(const struct gpu_look *g, const struct way_stop *s, size_t file)
{
	return link_speed(answer_text(&g->asks, s->ask + file));
}

static int64_t least(int64_t x, int64_t y) { return x < 0 ? y : y < 0 ? x : x < y ? x : y; }

/** A link between two devices of the way; @upper is NULL where nothing above is known. */
struct hop {
	const struct way_stop *upper, *lower;
	int64_t width, speed, width_can, speed_can, width_card, speed_card, width_port;
};

static bool read_hop(const struct gpu_look *g, size_t lower, struct hop *ret)
{
	const struct way_stop *low = &g->way[lower], *up = lower ? low - 1 : NULL;
	*ret = (struct hop){ .upper = up, .lower = low };
	ret->width_card = links_width_of(g, low, STOP_MAX_WIDTH);
	ret->speed_card = speed_at(g, low, STOP_MAX_SPEED);
	ret->width = links_width_of(g, low, STOP_WIDTH);
	ret->speed = speed_at(g, low, STOP_SPEED);
	ret->width_port = up ? links_width_of(g, up, STOP_MAX_WIDTH) : -1;
	ret->width_can = least(ret->width_card, ret->width_port);
	ret->speed_can = least(ret->speed_card, up ? speed_at(g, up, STOP_MAX_SPEED) : -1);
	return ret->width > 0 && ret->width_can > 0;
}

/** What knowledge calls a device of the way: a switch on the card, or a tunnel to a box beside the machine; empty: neither. */
static struct str bridge_name(struct gpu_looks *l, const struct gpu_look *g, const struct way_stop *s)
{
	int64_t vendor = answer_number(&g->asks, s->ask + STOP_VENDOR), device = answer_number(&g->asks, s->ask + STOP_DEVICE);
	if (vendor < 0 || device < 0)
		return (struct str){ 0 };
	struct str id = arena_printf(&l->h->arena, "%04llx:%04llx", (long long)vendor, (long long)device);
	const struct know_row *bridge =
		list_find_of(l->h->know->bridges.data, l->h->know->bridges.len, it, str_eq(it->head.id, id));
	return bridge ? bridge->value : (struct str){ 0 };
}

/** A GPU that does little slows its link down, and at the lowest speed may give lanes up too. */
static const char *links_state_of(const struct gpu_look *g, const struct hop *h)
{
	enum { BUSY = 50, LOWEST = 25 };
	bool works = g->d->busy >= BUSY, slow = h->speed > 0 && h->speed < h->speed_can;
	if (h->width < h->width_can)
		return slow && h->speed <= LOWEST && !works ? "idle" : "narrow";
	return !slow ? "full" : works ? "slow" : "idle";
}

static struct str speed_text(struct arena *a, int64_t speed)
{
	return speed < 0 ? (struct str){ 0 } : arena_printf(a, "%lld.%lld GT/s", (long long)speed / 10, (long long)speed % 10);
}

/** The weakest hop is what is told: a link is as wide as its narrowest part. */
static void note_hop(struct gpu_looks *l, struct gpu_look *g, const struct hop *h, const char *state)
{
	struct arena *a = &l->h->arena;
	struct str where = answer_place(&g->asks, h->lower->ask + STOP_WIDTH);
	host_note_number(l->h, g->item, "link_width", h->width, where);
	host_note_number(l->h, g->item, "link_width_can", h->width_can, where);
	host_note(l->h, g->item, "link_speed", speed_text(a, h->speed), answer_place(&g->asks, h->lower->ask + STOP_SPEED));
	host_note(l->h, g->item, "link_speed_can", speed_text(a, h->speed_can),
		  answer_place(&g->asks, h->lower->ask + STOP_SPEED));
	host_note(l->h, g->item, "link_state", str_z(state), where);
	if (h->upper)
		host_note(l->h, g->item, "link_at",
			  arena_printf(a, STR_FMT " to " STR_FMT, STR_ARG(h->upper->pci), STR_ARG(h->lower->pci)), where);
	if (h->width_card > 0)
		host_note_number(l->h, g->item, "card_width", h->width_card, where);
	if (h->width_port > 0)
		host_note_number(l->h, g->item, "port_width", h->width_port, where);
	if (h->upper && h->width_can < h->width_card)
		host_note(l->h, g->item, "link_limited_by", h->upper->pci,
			  arena_printf(a, "/sys/bus/pci/devices/" STR_FMT "/max_link_width", STR_ARG(h->upper->pci)));
}

/** From the card's edge up: the narrowest is told, else the slowest, else the edge. */
static void note_link(struct gpu_looks *l, struct gpu_look *g)
{
	static const char *const order[] = { "narrow", "slow", "idle", "full" };
	struct hop chosen = { 0 };
	size_t best = ARRAY_SIZE(order);
	for (size_t lower = g->nway; lower-- > 0;) {
		struct str bridge = lower ? bridge_name(l, g, &g->way[lower - 1]) : (struct str){ 0 };
		struct hop hop;
		if (str_find(bridge, S("Thunderbolt")) >= 0 || str_find(bridge, S("USB4")) >= 0) {
			host_note(l->h, g->item, "egpu", S("yes"),
				  arena_printf(&l->h->arena, "/sys/bus/pci/devices/" STR_FMT, STR_ARG(g->way[lower - 1].pci)));
			return;
		}
		if (bridge.n || (!lower && g->nway > 1) || !read_hop(g, lower, &hop))
			continue;
		size_t rank = 0;
		while (strcmp(order[rank], links_state_of(g, &hop)) != 0)
			rank++;
		if (rank < best) {
			best = rank;
			chosen = hop;
		}
	}
	if (chosen.lower)
		note_hop(l, g, &chosen, order[best]);
}

// --- atomics, from the configuration of the way, where KFD does not say ---

enum { PORT_ROOT = 4, PORT_UP = 5, PORT_DOWN = 6 };
struct express {
	unsigned port;
	uint32_t capabilities2;
	uint16_t control2;
};

/** The PCI Express capability in the configuration space. Its list is followed a limited number of turns: a device that fell off the
 * bus reads as ones. */
static bool read_express(struct str config, struct express *ret)
{
	enum { POINTER = 0x34, EXPRESS = 0x10, HEADER = 0x40, CONTROL2 = 0x28 };
	size_t at = config.n > POINTER ? (unsigned char)config.p[POINTER] & ~3u : 0;
	for (unsigned turns = 0; turns < 48 && at >= HEADER && config.n >= 2 && at <= config.n - 2; turns++) {
		if ((unsigned char)config.p[at] == EXPRESS) {
			if (config.n - at < CONTROL2 + 2)
				return false;
			ret->port = get_u16(config.p + at + 2) >> 4 & 15;
			ret->capabilities2 = get_u32(config.p + at + 0x24);
			ret->control2 = get_u16(config.p + at + CONTROL2);
			return true;
		}
		at = (unsigned char)config.p[at + 1] & ~3u;
	}
	return false;
}

void links_note(struct gpu_looks *l, struct gpu_look *g)
{
	if (!g->nway)
		return;
	note_link(l, g);
	// What the kernel asks for before it lets a device send atomics to the root complex.
	enum { ROUTE = 1 << 6, COMPLETES = 3 << 7, BLOCKED = 1 << 7 };
	const struct host_fact *said = host_fact(l->h, g->item, S("atomics"), 0);
	bool able = true;
	size_t at = 0;
	if (said || g->nway < 2)
		return;
	for (size_t n = 0; n + 1 < g->nway; n++) {
		struct express e;
		size_t ask = g->way[n].ask + STOP_CONFIG;
		const struct probe *p = &g->asks.probes.data[ask];
		if (!read_express((struct str){ p->data, p->end == PROBE_GOOD ? p->n : 0 }, &e) ||
		    (n == 0) != (e.port == PORT_ROOT))
			return;
		bool good = e.port == PORT_ROOT ? (e.capabilities2 & COMPLETES) == COMPLETES :
						  e.capabilities2 & ROUTE && !(e.port == PORT_UP && e.control2 & BLOCKED);
		at = able ? ask : at;
		able &= good;
	}
	host_note(l->h, g->item, "atomics", able ? S("yes") : S("no"), answer_place(&g->asks, at));
}
