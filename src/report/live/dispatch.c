// A dispatch and its kernel's arguments.
#include "report/live/look.h"

enum { ARGUMENTS_SHOWN = 64, ARGUMENTS_INDENT = 25 };

static void walk_argument(struct sheet *s, const struct kernel_argument *x)
{
	sheet_open(s, NULL, '{');
	sheet_put(s, "name", v_text(x->what->name));
	sheet_put(s, "type", v_text(x->what->type_name));
	sheet_put(s, "kind", v_text(x->what->value_kind));
	sheet_put(s, "offset", v_number(x->what->offset));
	sheet_put(s, "size", v_number(x->what->size));
	sheet_put(s, "value", v_if(x->known && x->what->size <= 8, v_hex(x->value)));
	sheet_close(s, '}');
}

void walk_dispatch(struct sheet *s, const char *key, struct look *l, const struct dispatch *d)
{
	static const struct column head[] = { { "packet", "         packet ", -8, .after = " " },
					      { "kernel_name" },
					      { "unnamed", "kernel at " } };
	static const struct column told[] = { { "told" } };
	const struct code_kernel *k = target_code_kernel(&l->code, d->kernel_object);
	const struct str name = k ? code_set_name(&l->code.set, k->name) : (struct str){ 0 };
	struct kernel_argument args[ARGUMENTS_SHOWN];
	struct arena a = { 0 };
	size_t n = dispatch_arguments(l->target, k, d, args, ARGUMENTS_SHOWN);
	sheet_open(s, key, '{');
	sheet_put(s, "packet", v_number(d->packet));
	sheet_put(s, "kernel_name", v_text(name));
	sheet_put(s, "kernel_object", v_hex(d->kernel_object));
	sheet_note(s, "unnamed", v_if(!name.n, v_hex(d->kernel_object)));
	sheet_put(s, "kernarg", v_hex(d->kernarg));
	sheet_three(s, "grid", d->grid, true);
	sheet_three(s, "workgroup_size", d->workgroup, true);
	sheet_put(s, "lds_bytes", v_number(d->lds));
	sheet_put(s, "scratch_bytes", v_number(d->scratch));
	sheet_part(s, COLUMNS(head));
	sheet_say(s, "   grid %u,%u,%u of %u,%u,%u\n", d->grid[0], d->grid[1], d->grid[2], d->workgroup[0], d->workgroup[1],
		  d->workgroup[2]);
	sheet_open(s, "arguments", '[');
	for (size_t i = 0; i < n; i++)
		walk_argument(s, &args[i]);
	sheet_close(s, ']');
	sheet_note(s, "told", s->as_json || !n ? v_null() : v_text(arguments_say(&a, args, n, NULL, 0)));
	sheet_line(s, ARGUMENTS_INDENT, COLUMNS(told));
	sheet_close(s, '}');
	arena_free(&a);
}
