// Incidents while they are open: what an incident takes and what it only counts, whose faults it has, how incidents open and close, which one
// an event belongs to, and what joins them.
#include "diagnose/open.h"

#include "diagnose/join_merge.h"
#include "diagnose/take.h"

enum {
	EVENTS_MAX = 192,      // events that one incident keeps
	EVENTS_PER_KIND = 12,  // of which of one kind
	DUMP_BYTES = 16 << 20, // of registers and memory that one incident keeps
	DETAIL_SECONDS = 5,    // between a message and the lines that belong to it
	GAP = 60,              // seconds without news after which an incident is over
};

// --- taking an event ---

bool later_than(struct stamp a, struct stamp b, double seconds)
{
	return a.clock == b.clock && a.clock != TIME_NONE && a.seconds - b.seconds > seconds;
}

void incident_follow_phase(struct incident *i, enum know_tells tells)
{
	switch (tells) {
	case TELLS_RESET_BEGINS:
	case TELLS_RING_RESET_BEGINS:
		i->phase = PHASE_RESET;
		i->reset_began = true;
		i->reset_ended = false;
		break;
	case TELLS_RESET_ENDS:
	case TELLS_RESET_FAILS:
		i->reset_evidence = true;
		i->phase = PHASE_RUN;
		i->reset_ended = tells == TELLS_RESET_ENDS; // what follows a failed one is still the same misery
		break;
	case TELLS_INSIDE_RESET:
		i->reset_evidence = true;
		i->phase = PHASE_RESET;
		break;
	default:
		break;
	}
}

static bool same_facts(const struct diag_event *a, const struct event *e)
{
	for (size_t n = 0; n < e->nfacts; n++) {
		bool found = false;
		for (size_t f = 0; f < a->nfacts && !found; f++)
			found = str_eq(a->facts[f].name, e->facts[n].name) && str_eq(a->facts[f].value, e->facts[n].value);
		if (!found)
			return false;
	}
	return true;
}

static void keep_dump(struct incident *i, struct diag_event *d, const struct event *e)
{
	size_t bytes = dump_bytes(&e->dump);
	if (i->dump_bytes + bytes > DUMP_BYTES)
		return;
	i->dump_bytes += bytes;
	d->dump = dump_copy(&i->arena, &e->dump);
}

struct diag_event *incident_add_event(struct incident *i, const struct event *e, const struct know_event *kind,
				      enum phase phase)
{
	unsigned of_kind = 0;
	struct diag_event *last = NULL;
	for (size_t n = 0; n < i->events.len; n++) {
		if (i->events.data[n]->kind == kind) {
			last = i->events.data[n];
			of_kind++;
		}
	}
	i->dropping = false;
	if (last && last->phase == phase &&
	    ((!kind->followed && same_facts(last, e)) || of_kind >= (unsigned)(kind->keep ? kind->keep : EVENTS_PER_KIND))) {
		i->dropping = !same_facts(last, e) || kind->followed;
		last->count++;
		last->unattested &= e->unattested;
		last->last = e->time;
		return last;
	}
	if (i->events.len >= EVENTS_MAX) {
		i->dropped++;
		i->dropping = true;
		return NULL;
	}
	struct diag_event *d = arena_alloc(&i->arena, sizeof(*d));
	*d = (struct diag_event){ .kind = kind, .time = e->time, .last = e->time, .at = e->at, .count = 1 };
	d->device = arena_str(&i->arena, e->device);
	d->driver = arena_str(&i->arena, e->driver);
	d->text = arena_str(&i->arena, str_cut(e->text, 240));
	d->phase = phase;
	d->program = e->signature->program;
	d->recorded = str_is(e->signature->reader, "recording");
	d->began = e->began;
	d->hold = e->hold;
	d->numbered = e->numbered;
	d->named = arena_str(&i->arena, e->named);
	d->now = e->now;
	d->unattested = e->unattested;
	keep_dump(i, d, e);
	vec_push(&i->events, d);
	return d;
}

void incident_add_facts(struct incident *i, struct diag_event *d, const struct event *e)
{
	for (size_t n = 0; n < e->nfacts; n++) {
		const struct fact *f = &e->facts[n];
		// "process  pid 0" says that it was the kernel's own job.
		bool nobody = (str_is(f->name, "pid") || str_is(f->name, "tid")) && str_is(f->value, "0");
		if (!nobody)
			diag_set_fact(i, d, *f);
	}
	if (event_names_gpu(e) && !diag_fact(d, "pci") && pci_length(e->device))
		diag_set_fact(i, d, (struct fact){ S("pci"), e->device, FACT_TEXT, e->at });
}

struct diag_event *incident_find_detailed(struct incident *i, const struct event *e)
{
	for (size_t n = i->events.len; n-- > 0;) {
		struct diag_event *d = i->events.data[n];
		bool kind = false;
		for (size_t k = 0; k < 4 && e->signature->details[k]; k++)
			kind |= d->kind == e->signature->details[k];
		if (!kind)
			continue;
		if (d->device.n && e->device.n && !str_eq(d->device, e->device))
			continue;
		for (size_t f = 0; f < e->nfacts; f++)
			if (diag_find(d, e->facts[f].name))
				return NULL;
		return later_than(e->time, d->last, DETAIL_SECONDS) ? NULL : d;
	}
	return NULL;
}

bool incident_has_hang(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->kind->hang)
			return true;
	return false;
}

// --- faults of one process ---

static const struct know_event *process_kind(const struct know_signature *s)
{
	if (s->event)
		return s->event->of_process ? s->event : NULL;
	for (size_t k = 0; k < 4 && s->details[k]; k++)
		if (s->details[k]->of_process)
			return s->details[k];
	return NULL;
}

struct str incident_owner(const struct incident *i)
{
	struct str pid = { 0 };
	if (i->reset_began || i->reset_evidence || incident_has_hang(i))
		return pid;
	for (size_t n = 0; n < i->events.len && !pid.n; n++)
		if (i->events.data[n]->kind->of_process)
			pid = diag_value(i->events.data[n], "pid");
	return pid;
}

/** A line that only names a process is of the fault right before it, or of none. */
static bool is_of_fault(const struct incident *i, const struct event *e, const struct know_event *kind)
{
	if (!kind || e->signature->event)
		return kind;
	for (size_t n = i->events.len; n-- > 0;)
		if (i->events.data[n]->kind == kind)
			return !later_than(e->time, i->events.data[n]->last, DETAIL_SECONDS);
	return false;
}

bool incident_is_others(const struct incident *i, const struct event *e)
{
	const struct fact *pid = event_fact(e, "pid");
	const struct str owner = pid && is_of_fault(i, e, process_kind(e->signature)) ? incident_owner(i) : (struct str){ 0 };
	return owner.n && !str_is(pid->value, "0") && !str_eq(pid->value, owner);
}

static void end_with_newest(struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (!n || later_than(i->events.data[n]->last, i->end, 0))
			i->end = i->events.data[n]->last;
}

void incident_move_fault(struct incident *to, struct incident *from, const struct event *e, enum phase phase)
{
	const struct know_event *kind = process_kind(e->signature);
	struct event moved;
	memcpy(&moved, e, offsetof(struct event, facts)); // an event that was held back has room for no more facts than its own
	size_t at = from->events.len;
	while (at > 0 && from->events.data[at - 1]->kind != kind)
		at--;
	struct diag_event *d = at ? from->events.data[at - 1] : NULL;
	const bool whole = d && d->count == 1 && !diag_fact(d, "pid") && d->nfacts <= EVENT_FACTS;
	moved.nfacts = 0;
	if (whole) {
		moved.time = d->time;
		moved.at = d->at;
		moved.text = d->text;
		moved.nfacts = d->nfacts;
		memcpy(moved.facts, d->facts, d->nfacts * sizeof(*d->facts));
	}
	struct diag_event *new = incident_add_event(to, &moved, kind, phase);
	if (new &&new->count == 1)
		incident_add_facts(to, new, &moved);
	if (to->events.len == 1)
		to->begin = moved.time;
	to->end = e->time;
	if (whole) {
		memmove(from->events.data + at - 1, from->events.data + at, (from->events.len - at) * sizeof(d));
		from->events.len--;
	} else if (d && d->count > 1 && from->dropping) {
		d->count--;
	}
	end_with_newest(from);
}

// --- opening and closing ---

/** Tells of crashes that no frame says anything of: neither that they are the driver's nor that they are another's. */
static void note_unplaced(const struct engine *g, const struct incident *i)
{
	for (size_t n = 0; n < i->events.len && g->sink.note; n++) {
		const struct diag_event *e = i->events.data[n];
		const struct diag_seen seen = { e->kind, { diag_event_get, e }, e->text, e->device, e->at };
		if (e->kind->needs_frame && e->kind->aside.n && !e->framed)
			g->sink.note(g->sink.ctx, &seen);
	}
}

void open_close(struct engine *g, size_t index)
{
	struct incident *i = g->open[index];
	g->open[index] = g->open[--g->nopen];
	if (g->newest == i)
		g->newest = NULL;
	i->open = false;
	incident_attribute(i, g->know, &g->machine);
	note_unplaced(g, i);
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

bool open_is_on(const struct incident *i, struct str device)
{
	bool on = str_eq(i->gpu.device, device);
	for (size_t n = 0; n < i->events.len && !on; n++) {
		const struct diag_event *d = i->events.data[n];
		on = (d->numbered || d->kind->announces) && str_eq(d->device, device);
	}
	return on;
}

struct incident *open_find_on_gpu(const struct engine *g, const struct event *e, bool by_process)
{
	struct incident *found = NULL;
	bool own = false;
	for (size_t n = 0; n < g->nopen; n++) {
		struct incident *i = g->open[n];
		if (!open_is_on(i, e->device))
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
	return e->signature->event && joins(e->signature->event) ? open_merge(g, i) : i;
}

struct incident *open_merge(struct engine *g, struct incident *i)
{
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

bool open_find_behind(const struct engine *g, struct event *e)
{
	const struct fact *port = event_fact(e, "pci"), *bus = event_fact(e, "bus_behind");
	uint64_t number;
	const struct str gpu = port && bus && str_hex(bus->value, &number) ? machine_behind(&g->machine, port->value, number) : (struct str){ 0 };
	e->device = gpu.n ? gpu : e->device;
	e->driver = gpu.n ? S("amdgpu") : e->driver;
	return gpu.n;
}
