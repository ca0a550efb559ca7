#include "evidence/silicon/hardware.h"

#include "evidence/silicon/facts.h"
#include "source/tape/tape.h"

// --- looking ---

/** The files of one GPU, in this order; those that nobody has reason to read are none. */
enum { ASK_METRICS, ASK_PORT_WIDTH, ASK_PORT_SPEED, ASK_PAGES, ASKS = ASK_PAGES + BAD_PAGES_READS };
enum { CLOSER_MS = 700, TABLE_MOST = 8192 };

/** The driver has counted errors, so that its list may be long. Else the first part of it is enough: what it could not retire before a reboot stands
 * there. The lock of the list is held by nobody then. */
static bool has_bad_memory(const struct device *d)
{
	return d->ras.fatal > 0 || d->ras.poison_created > 0 || d->ras.poison_consumed > 0;
}

static bool link_is_less(const struct device *d)
{
	return (d->link.width > 0 && d->link.width < d->link.max_width) ||
	       (link_speed(d->link.speed) > 0 && link_speed(d->link.speed) < link_speed(d->link.max_speed));
}

/** The bridge above a device; empty: the path does not tell. */
static struct str bridge_above(const struct device *d)
{
	struct str path = d->path, above = { 0 };
	while (path.n) {
		struct str one = str_split(&path, '/');
		unsigned domain, location;
		if (str_eq(one, d->pci))
			return above;
		if (pci_numbers(one, &domain, &location))
			above = one;
	}
	return (struct str){ 0 };
}

/** @ret has room for ASKS; returns how many there are. What each is for is in @what. */
static size_t ask_closer(const struct hardware_seen *h, struct arena *a, struct probe *ret, size_t what[static ASKS])
{
	const struct device *d = h->device;
	const struct str above = link_is_less(d) ? bridge_above(d) : (struct str){ 0 };
	size_t n = 0;
	if (!device_awake(d))
		return 0;
	if (metrics_counts_throttle(&h->first)) {
		what[n] = ASK_METRICS;
		ret[n++] = (struct probe){ .path = arena_printf(a, STR_FMT "/gpu_metrics", STR_ARG(d->sysfs)).p, .size = TABLE_MOST };
	}
	for (size_t i = 0; above.n && i < 2; i++) {
		what[n] = i ? ASK_PORT_SPEED : ASK_PORT_WIDTH;
		ret[n++] = (struct probe){ .path = arena_printf(a, "/sys/bus/pci/devices/" STR_FMT "/max_link_%s", STR_ARG(above),
								i ? "speed" : "width")
							   .p };
	}
	if (d->ras.fatal >= 0) {
		struct probe pages[BAD_PAGES_READS];
		bad_pages_ask(arena_printf(a, STR_FMT "/ras/gpu_vram_bad_pages", STR_ARG(d->sysfs)).p, pages);
		for (size_t i = 0; i < (has_bad_memory(d) ? BAD_PAGES_READS : 1); i++) {
			what[n] = ASK_PAGES;
			ret[n++] = pages[i];
		}
	}
	return n;
}

static void take_closer(const struct know *k, struct hardware_seen *h, const struct probe *answers, const size_t *what, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct probe *p = &answers[i];
		int64_t number;
		switch (what[i]) {
		case ASK_METRICS:
			if (p->end == PROBE_GOOD)
				metrics_of(k, (struct str){ p->data, p->n }, &h->now);
			break;
		case ASK_PORT_WIDTH:
			h->port_width = str_number(str_trim(probe_text(p)), &number) ? number : -1;
			break;
		case ASK_PORT_SPEED:
			h->port_speed = link_speed(probe_text(p));
			break;
		default: // the rest is the list of pages
			h->pages_known = bad_pages_count(p, n - i, &h->pages);
			return;
		}
	}
}

/** The tracks of a tape were not recorded in the order in which they are played. */
static void put_tables_in_order(struct hardware_seen *h)
{
	uint64_t first, now;
	if (h->first.layout && h->now.layout == h->first.layout && metrics_value(&h->first, h->first.layout->cycles, 0, &first) &&
	    metrics_value(&h->now, h->first.layout->cycles, 0, &now) && now < first) {
		const struct metrics later = h->first;
		h->first = h->now;
		h->now = later;
	}
}

void hardware_look(const struct know *k, struct devices *all, struct hardware_seen *seen, size_t n)
{
	struct arena *a = &all->arena;
	struct probe_batch *batches = arena_alloc(a, n * sizeof(*batches) + 1);
	size_t(*what)[ASKS] = arena_alloc(a, n * sizeof(*what) + 1), any = 0;
	for (size_t i = 0; i < n; i++) {
		struct hardware_seen *h = &seen[i];
		metrics_of(k, h->device->metrics, &h->first);
		h->now = h->first;
		h->port_width = h->port_speed = -1;
		batches[i].probes = arena_alloc(a, ASKS * sizeof(struct probe));
		batches[i].n = ask_closer(h, a, batches[i].probes, what[i]);
		any += batches[i].n;
	}
	if (!any)
		return;
	probe_run_all(a, batches, n, CLOSER_MS, &all->count);
	for (size_t i = 0; i < n; i++)
		take_closer(k, &seen[i], batches[i].probes, what[i], batches[i].n);
	for (size_t i = 0; i < n && tape_plays(probe_tape(&all->count)); i++)
		put_tables_in_order(&seen[i]);
}

// --- telling ---

static void hardware_add_number(struct verdict_facts *f, const char *name, int64_t value)
{
	if (value >= 0)
		verdict_fact_add(f, name, arena_printf(f->arena, "%lld", (long long)value));
}

static int64_t least_known(int64_t x, int64_t y) { return x < 0 ? y : y < 0 || x < y ? x : y; }

/** A GPU that does little slows its link down, and at the lowest speed may give lanes up too. */
static void hardware_add_link(struct verdict_facts *f, const struct hardware_seen *h)
{
	enum { BUSY = 50, LOWEST = 25 };
	const struct device *d = h->device;
	const int64_t width = d->link.width, speed = link_speed(d->link.speed);
	const int64_t width_can = least_known(d->link.max_width, h->port_width);
	const int64_t speed_can = least_known(link_speed(d->link.max_speed), h->port_speed);
	if (h->port_width < 0 || h->port_speed < 0 || width <= 0 || speed <= 0)
		return;
	if (width < width_can && (speed > LOWEST || speed == speed_can || d->busy >= BUSY))
		verdict_fact_add(f, "link_state", S("narrow"));
	else if (speed < speed_can && d->busy >= BUSY)
		verdict_fact_add(f, "link_state", S("slow"));
	verdict_fact_add(f, "link", link_text(d, f->arena));
	verdict_fact_add(f, "link_can",
			 arena_printf(f->arena, "%lld.%lld GT/s x%lld", (long long)speed_can / 10, (long long)speed_can % 10,
				      (long long)width_can));
}

/** Links between modules that are up, where the table tells. */
static void hardware_add_xgmi(struct verdict_facts *f, const struct hardware_seen *h, const struct devices *all)
{
	enum { LINKS = 8 };
	int64_t up = 0, known = 0, others = 0;
	for (size_t i = 0; i < LINKS; i++) {
		uint64_t state;
		if (!metrics_value(&h->now, S("xgmi_link_status"), i, &state))
			continue;
		known++;
		up += state == 1;
	}
	for (size_t i = 0; i < all->n && h->device->hive.n; i++)
		others += &all->list[i] != h->device && str_eq(all->list[i].hive, h->device->hive);
	if (!known || !others)
		return;
	hardware_add_number(f, "xgmi_up", up);
	hardware_add_number(f, "xgmi_missing", others > up ? others - up : 0);
	hardware_add_number(f, "xgmi_others", others);
}

static void hardware_add_counts(struct verdict_facts *f, const struct ras_events *r)
{
	hardware_add_number(f, "ras_fatal", r->fatal);
	hardware_add_number(f, "ras_poison_created", r->poison_created);
	hardware_add_number(f, "ras_poison_consumed", r->poison_consumed);
	if (r->gpus > 1)
		hardware_add_number(f, "ras_gpus", (int64_t)r->gpus);
}

struct str hive_hints(const struct know *k, const struct device *first, int *ret_fit, struct arena *a)
{
	struct verdict_facts f = { .arena = a };
	_cleanup_text_ struct text hints = { 0 };
	hardware_add_counts(&f, &first->ras);
	*ret_fit = verdict_asides(k, &f, &hints);
	return arena_str(a, text_str(&hints));
}

struct str hardware_hints(const struct know *k, struct hardware_seen *h, const struct devices *all, struct arena *a)
{
	struct verdict_facts f = { .arena = a };
	struct metrics_cause causes[METRICS_CAUSES];
	const size_t n = metrics_throttle(&h->first, &h->now, causes);
	_cleanup_text_ struct text hints = { 0 };
	if (h->device->ras.gpus < 2)
		hardware_add_counts(&f, &h->device->ras);
	if (h->pages_known) {
		hardware_add_number(&f, "pages_pending", h->pages.pending);
		hardware_add_number(&f, "pages_failed", h->pages.failed);
	}
	for (size_t i = 0; i < n; i++)
		verdict_fact_add(&f, "throttle", causes[i].cause);
	h->throttle = metrics_throttle_text(a, causes, n);
	verdict_fact_add(&f, "throttle_says", h->throttle);
	hardware_add_link(&f, h);
	hardware_add_xgmi(&f, h, all);
	h->fit = verdict_asides(k, &f, &hints);
	return arena_str(a, text_str(&hints));
}
