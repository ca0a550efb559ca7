#include "session/history/module.h"

#include "base/cleanup.h"
#include "store/store.h"

/** That who closed it by hand says so: there are other reasons to close one. */
static bool was_powered(const struct stored *s)
{
	const struct str why = s->closed_by;
	return s->state == STORED_CLOSED && str_starts(why, S("an operator: ")) &&
	       str_among(s->action, STR_EQUALS, "power-cycle|replace").n &&
	       str_among(why, STR_MATCHES, "*power*|*Power*|*off and on*|*cold*|*Cold*|*unplugged*").n &&
	       !str_among(why, STR_MATCHES, "*n't *|* not *|* no *|* nothing *|*without*|*warm*|*false*").n;
}

/** What stands for a serial number that nobody has written into the module: many modules have the same. */
static bool names_module(struct str serial)
{
	size_t zeros = 0, ones = 0;
	for (size_t i = 0; i < serial.n; i++) {
		zeros += char_among(serial.p[i], "0x-");
		ones += char_among(serial.p[i], "fFxX0") && (i < 2 || serial.p[i] != '0');
	}
	return zeros < serial.n && ones < serial.n && !str_among(serial, STR_EQUALS, "N/A|n/a|unknown|Unknown|none|None|null").n;
}

static bool same_module(struct str unique_id, struct str other)
{
	return !unique_id.n || !other.n || str_eq(unique_id, other);
}

const struct module_past *module_past_of(const struct module_pasts *p, struct str serial, struct str unique_id, struct str class)
{
	return !names_module(serial) ? NULL :
				       list_find(p->list, p->n, it,
						 str_eq(it->serial, serial) && str_eq(it->class, class) &&
							 same_module(it->unique_id, unique_id));
}

void module_pasts_find(const char *state_dir, const struct stored *now, struct arena *a, struct module_pasts *ret)
{
	struct stored_list all = { 0 };
	*ret = (struct module_pasts){ 0 };
	uh_error_free(store_list(state_dir, &all)); // what cannot be read is not known
	for (size_t i = 0; i < all.list.len && now->boot_id.n; i++) {
		const struct stored *s = all.list.data[i];
		if (!names_module(s->serial) || !s->class.n || !s->boot_id.n || str_eq(s->boot_id, now->boot_id) || str_eq(s->id, now->id))
			continue;
		struct module_past *p = (struct module_past *)module_past_of(ret, s->serial, s->unique_id, s->class);
		if (!p && ret->n == MODULES_MOST)
			continue;
		if (!p) { // the newest is the first
			p = &ret->list[ret->n++];
			*p = (struct module_past){ .serial = arena_str(a, s->serial),
						   .unique_id = arena_str(a, s->unique_id),
						   .class = arena_str(a, s->class),
						   .id = arena_str(a, s->id) };
		}
		p->n++;
		p->powered |= was_powered(s);
	}
	stored_list_free(&all);
}
