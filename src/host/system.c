// How this machine is kept: its package manager, boot loader, initramfs and the way to its kernel's words. What tells them is in
// `sign` blocks of knowledge, tried in their order; the first of a fact counts. What no sign tells is as usual on the distribution.
#include <stdlib.h>

#include "host/host.h"
#include "knowledge/way.h"

enum { TEXT_MOST = 1 << 18, NAMES_MOST = 1 << 16 };

static struct probe probe_of(struct host *h, const struct know_sign *s, struct str path)
{
	bool directory = str_ends(path, S("/"));
	if (directory)
		return (struct probe){ .kind = PROBE_LIST,
				       .path = arena_z(&h->arena, str_cut(path, path.n - 1)),
				       .size = NAMES_MOST };
	return (struct probe){ .kind = PROBE_READ, .path = arena_z(&h->arena, path), .size = s->text.n ? TEXT_MOST : 1 };
}

/** The path of @s that shows it, of the probes that begin with its own; NULL: none does. */
static const struct probe *shown(const struct know_sign *s, const struct probe *p)
{
	for (const struct know_list *path = s->paths; path; path = path->next, p++)
		if (p->end == PROBE_GOOD && (!s->text.n || str_find(probe_text(p), s->text) >= 0))
			return p;
	return NULL;
}

static struct str value_of(struct host *h, struct str value)
{
	return str_starts(value, S("$")) ? host_value(h, NULL, arena_z(&h->arena, str_from(value, 1))) : value;
}

static void note_sign(struct host *h, const struct know_sign *s, const struct probe *probes)
{
	struct host_item *m = host_machine(h);
	const struct host_scope scope = { h, m };
	const struct fact_view own = host_view(&scope);
	const struct usual_facts facts = { h->know, &own };
	const struct fact_view view = usual_view(&facts);
	const struct probe *place = shown(s, probes);
	if (host_fact(h, m, s->says->name, 0) || (s->paths && !place))
		return;
	if (condition_eval(s->when, &view) != TRUTH_YES || (s->unless && condition_eval(s->unless, &view) == TRUTH_YES))
		return;
	const struct host_fact *from = host_fact(h, m, S("distribution"), 0);
	host_note(h, m, arena_z(&h->arena, s->says->name), value_of(h, s->says->value),
		  place ? str_z(place->path) :
		  from  ? from->where :
			  S("/etc/os-release"));
}

/** Facts that are as usual on this distribution, so that checks can ask for them. */
static void note_usual(struct host *h)
{
	struct host_item *m = host_machine(h);
	const struct host_scope scope = { h, m };
	const struct fact_view own = host_view(&scope);
	const struct usual_facts facts = { h->know, &own };
	const struct fact_view view = usual_view(&facts);
	for (size_t n = 0; n < h->know->usuals.len; n++) {
		struct str rest = h->know->usuals.data[n]->value, name = str_word(&rest), value;
		const struct host_fact *from = host_fact(h, m, S("distribution"), 0);
		if (from && !host_fact(h, m, name, 0) && view.get(view.ctx, name, 0, &value))
			host_note(h, m, arena_z(&h->arena, name), value, from->where);
	}
}

void host_read_system(struct host *h)
{
	VEC(struct probe) probes = { 0 };
	size_t at = 0;
	for (size_t n = 0; n < h->know->signs.len; n++)
		for (const struct know_list *p = h->know->signs.data[n]->paths; p; p = p->next)
			vec_push(&probes, probe_of(h, h->know->signs.data[n], p->text));
	host_probe(h, probes.data, probes.len);
	for (size_t n = 0; n < h->know->signs.len; n++) {
		const struct know_sign *s = h->know->signs.data[n];
		note_sign(h, s, probes.data + at);
		for (const struct know_list *p = s->paths; p; p = p->next)
			at++;
	}
	note_usual(h);
	vec_free(&probes);
}
