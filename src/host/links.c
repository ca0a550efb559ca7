// The PCIe link of a card. What counts is the one at its edge and those above it: the links of the switch on the card itself, whose last
// port the GPU sits behind, say nothing of the slot.
#include "base/bytes.h"
#include "host/gpus.h"

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
static bool may_read(const struct device *d)
{
	return !d->off_bus && !str_starts(d->runtime_status, S("suspend")) && !str_is(d->power_state, "D3cold");
}

void links_ask(struct gpu_looks *l, struct gpu_look *g)
{
	struct str path = g->d->path;
	if (g->d->apu || g->d->guest || !may_read(g->d))
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

/** `16.0 GT/s PCIe` is 160. */
static int64_t speed_of(struct str text)
{
	int64_t whole, tenth = 0;
	struct str number = str_word(&text);
	if (!str_starts(str_trim(text), S("GT/s")) || !str_number(str_split(&number, '.'), &whole) ||
	    (number.n && !str_number(str_cut(number, 1), &tenth)) || whole < 1 || whole > 1000)
		return -1;
	return 10 * whole + tenth;
}

static int64_t width_of(const struct gpu_look *g, const struct way_stop *s, size_t file)
{
	int64_t width = answer_number(&g->asks, s->ask + file);
	return width >= 1 && width <= WIDTH_MOST ? width : -1;
}

static int64_t speed_at(const struct gpu_look *g, const struct way_stop *s, size_t file)
{
	return speed_of(answer_text(&g->asks, s->ask + file));
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
	ret->width_card = width_of(g, low, STOP_MAX_WIDTH);
	ret->speed_card = speed_at(g, low, STOP_MAX_SPEED);
	ret->width = width_of(g, low, STOP_WIDTH);
	ret->speed = speed_at(g, low, STOP_SPEED);
	ret->width_port = up ? width_of(g, up, STOP_MAX_WIDTH) : -1;
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
	const struct know *k = l->h->know;
	for (size_t n = 0; n < k->bridges.len; n++)
		if (str_eq(k->bridges.data[n]->head.id, id))
			return k->bridges.data[n]->value;
	return (struct str){ 0 };
}

static bool is_tunnel(struct str bridge) { return str_find(bridge, S("Thunderbolt")) >= 0 || str_find(bridge, S("USB4")) >= 0; }

/** A GPU that does little slows its link down, and at the lowest speed may give lanes up too. */
static const char *state_of(const struct gpu_look *g, const struct hop *h)
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
	size_t best = sizeof(order) / sizeof(order[0]);
	for (size_t lower = g->nway; lower-- > 0;) {
		struct str bridge = lower ? bridge_name(l, g, &g->way[lower - 1]) : (struct str){ 0 };
		struct hop hop;
		if (is_tunnel(bridge)) {
			host_note(l->h, g->item, "egpu", S("yes"),
				  arena_printf(&l->h->arena, "/sys/bus/pci/devices/" STR_FMT, STR_ARG(g->way[lower - 1].pci)));
			return;
		}
		if (bridge.n || (!lower && g->nway > 1) || !read_hop(g, lower, &hop))
			continue;
		size_t rank = 0;
		while (strcmp(order[rank], state_of(g, &hop)) != 0)
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

/** What the kernel asks for before it lets a device send atomics to the root complex. */
static void note_atomics(struct gpu_looks *l, struct gpu_look *g)
{
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

void links_note(struct gpu_looks *l, struct gpu_look *g)
{
	if (!g->nway)
		return;
	note_link(l, g);
	note_atomics(l, g);
}
