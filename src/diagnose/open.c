// The incidents of the engine that are open: how they open and close, which one an event belongs to, and what joins them.
#include "diagnose/open.h"

#include "diagnose/join_merge.h"
#include "diagnose/take.h"

enum { GAP = 60 }; // seconds without news after which an incident is over

// --- opening and closing ---

void open_close(struct engine *g, size_t index)
{
	struct incident *i = g->open[index];
	g->open[index] = g->open[--g->nopen];
	if (g->newest == i)
		g->newest = NULL;
	i->open = false;
	incident_attribute(i, g->know, &g->machine);
	incident_conclude(i, g->know);
	if (i->events.len)
		g->sink.incident(g->sink.ctx, i);
	else
		incident_free(i);
}

static void close_oldest(struct engine *g, const struct incident *keep)
{
	size_t oldest = g->open[0] == keep && g->nopen > 1 ? 1 : 0;
	for (size_t n = 0; n < g->nopen; n++)
		if (g->open[n] != keep && g->open[n]->order < g->open[oldest]->order)
			oldest = n;
	open_close(g, oldest);
}

/** In the order in which they were opened, so that the result does not depend on how they lie in memory. */
void open_close_all(struct engine *g)
{
	while (g->nopen)
		close_oldest(g, NULL);
}

void open_close_old(struct engine *g, struct stamp now)
{
	for (size_t n = 0; n < g->nopen;) {
		if (later_than(now, g->open[n]->end, g->open[n]->gap))
			open_close(g, n);
		else
			n++;
	}
}

struct incident *open_new(struct engine *g, const struct event *e, const struct incident *keep)
{
	if (g->nopen == OPEN_MAX)
		close_oldest(g, keep);
	struct incident *i = mem_alloc(sizeof(*i));
	i->open = true;
	i->gap = GAP;
	i->begin = i->end = e->time;
	i->order = g->opened++;
	i->boot = g->boots;
	i->boot_id = arena_str(&i->arena, g->boot_id);
	g->open[g->nopen++] = i;
	return i;
}

// --- finding ---

bool open_is_process_of(const struct incident *i, const struct event *e)
{
	const struct fact *pid = event_fact(e, "pid"), *pasid = event_fact(e, "pasid");
	if (pid)
		return str_eq(incident_owner(i), pid->value);
	for (size_t n = 0; pasid && n < i->events.len; n++)
		if (str_eq(diag_value(i->events.data[n], "pasid"), pasid->value))
			return true;
	return false;
}

struct incident *open_find_on_gpu(const struct engine *g, const struct event *e, bool by_process)
{
	struct incident *found = NULL;
	bool own = false;
	for (size_t n = 0; n < g->nopen; n++) {
		struct incident *i = g->open[n];
		if (!str_eq(i->gpu.device, e->device))
			continue;
		const bool its = by_process && open_is_process_of(i, e);
		if (!found || its > own || (its == own && i->touched > found->touched)) {
			found = i;
			own = its;
		}
	}
	return found;
}

struct incident *open_find(struct engine *g, const struct event *e)
{
	struct incident *nameless = NULL,
			*on_gpu = event_names_gpu(e) ? open_find_on_gpu(g, e, e->signature->event != NULL) : NULL;
	if (on_gpu)
		return on_gpu;
	for (size_t n = 0; n < g->nopen; n++)
		if (!g->open[n]->gpu.device.n && (!nameless || g->open[n]->touched > nameless->touched))
			nameless = g->open[n];
	if (event_names_gpu(e)) // lines without an address came before the first one with it
		return nameless;
	if (nameless)
		return nameless;
	if (g->newest)
		return g->newest;
	return g->nopen == 1 ? g->open[0] : NULL;
}

static bool joins(const struct know_event *kind)
{
	return kind->hang || kind->means_reset || (kind->tells >= TELLS_RESET_BEGINS && kind->tells <= TELLS_RESET_FAILS);
}

struct incident *open_join(struct engine *g, struct incident *i, const struct event *e)
{
	if (!e->signature->event || !joins(e->signature->event))
		return i;
	for (size_t n = 0; n < g->nopen; n++)
		if (str_eq(g->open[n]->gpu.device, i->gpu.device) && g->open[n]->order < i->order)
			i = g->open[n];
	for (size_t n = 0; n < g->nopen;) {
		struct incident *other = g->open[n];
		if (other == i || !other->gpu.device.n || !str_eq(other->gpu.device, i->gpu.device)) {
			n++;
			continue;
		}
		g->open[n] = g->open[--g->nopen];
		g->newest = g->newest == other ? i : g->newest;
		i->gap = other->gap > i->gap ? other->gap : i->gap;
		if (g->sink.joined)
			g->sink.joined(g->sink.ctx, other->order, i->order);
		incident_merge(i, other, &(struct clock_bridge){ 0 });
	}
	return i;
}

void open_touch(struct engine *g, struct incident *i)
{
	g->newest = i;
	i->touched = ++g->taken;
}
