#include "session/history/module.h"

#include "base/cleanup.h"
#include "store/store.h"

/** That it was closed by hand says that what it asked for was done: nothing else ends it while the module is in its place. */
static bool was_powered(const struct stored *s)
{
	return s->state == STORED_CLOSED && str_starts(s->closed_by, S("an operator")) &&
	       str_among(s->action, STR_EQUALS, "power-cycle|replace").n;
}

void module_past_find(const char *state_dir, const struct stored *now, struct arena *a, struct module_past *ret)
{
	struct stored_list all = { 0 };
	*ret = (struct module_past){ .serial = arena_str(a, now->serial), .class = arena_str(a, now->class) };
	if (!now->serial.n || !now->class.n)
		return;
	uh_error_free(store_list(state_dir, &all)); // what cannot be read is not known
	for (size_t i = 0; i < all.list.len; i++) {
		const struct stored *s = all.list.data[i];
		if (!str_eq(s->serial, now->serial) || !str_eq(s->class, now->class) || str_eq(s->id, now->id) || !s->boot_id.n ||
		    !now->boot_id.n || str_eq(s->boot_id, now->boot_id))
			continue;
		if (!ret->n++) // the newest is the first
			ret->id = arena_str(a, s->id);
		ret->powered |= was_powered(s);
	}
	stored_list_free(&all);
}
