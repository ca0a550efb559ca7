#include "session/history/module.h"

#include "base/cleanup.h"
#include "store/store.h"

/** That it was closed by hand says that what it asked for was done: nothing else ends it while the module is in its place. */
static bool was_powered(const struct stored *s)
{
	return s->state == STORED_CLOSED && str_starts(s->closed_by, S("an operator")) &&
	       str_among(s->action, STR_EQUALS, "power-cycle|replace").n;
}

const struct module_past *module_past_of(const struct module_pasts *p, struct str serial, struct str class)
{
	return serial.n ? list_find(p->list, p->n, it, str_eq(it->serial, serial) && str_eq(it->class, class)) : NULL;
}

void module_pasts_find(const char *state_dir, const struct stored *now, struct arena *a, struct module_pasts *ret)
{
	struct stored_list all = { 0 };
	*ret = (struct module_pasts){ 0 };
	uh_error_free(store_list(state_dir, &all)); // what cannot be read is not known
	for (size_t i = 0; i < all.list.len && now->boot_id.n; i++) {
		const struct stored *s = all.list.data[i];
		if (!s->serial.n || !s->class.n || !s->boot_id.n || str_eq(s->boot_id, now->boot_id) || str_eq(s->id, now->id))
			continue;
		struct module_past *p = (struct module_past *)module_past_of(ret, s->serial, s->class);
		if (!p && ret->n == MODULES_MOST)
			continue;
		if (!p) { // the newest is the first
			p = &ret->list[ret->n++];
			*p = (struct module_past){ arena_str(a, s->serial), arena_str(a, s->class), 0, arena_str(a, s->id), false };
		}
		p->n++;
		p->powered |= was_powered(s);
	}
	stored_list_free(&all);
}
