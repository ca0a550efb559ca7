// Where displays are connected.
#include "host/gpus.h"

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
	while (names.n) {
		struct str name;
		int64_t number;
		if (connector_of(str_split(&names, '\n'), &number, &name) && number == card)
			return true;
	}
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

/** `card1-DP-2` of `.../card1-DP-2/status`. */
static struct str connector_at(struct str place)
{
	struct str last = { 0 };
	for (struct str next = str_split(&place, '/'); place.n; next = str_split(&place, '/'))
		last = next;
	return last;
}

void displays_note(struct gpu_looks *l, struct gpu_look *g)
{
	struct text names = { 0 };
	if ((!l->connectors.n && !g->connectors.n) || g->d->card < 0)
		return;
	g->connected = 0;
	for (size_t n = 0; n < g->ndisplays; n++) {
		struct str name = connector_at(answer_place(&g->asks, g->displays + n));
		if (!str_is(answer_text(&g->asks, g->displays + n), "connected"))
			continue;
		str_split(&name, '-');
		text_printf(&names, "%s" STR_FMT, names.n ? ", " : "", STR_ARG(name));
		g->connected++;
	}
	struct str where = arena_printf(&l->h->arena, "/sys/class/drm/card%d", g->d->card);
	host_note_number(l->h, g->item, "displays", g->connected, where);
	host_note(l->h, g->item, "display_names", text_str(&names), where);
	text_free(&names);
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
