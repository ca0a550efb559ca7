// A dispatch and its arguments as JSON, and what else such documents have in common.
#include "report/live/look.h"

void jw_number(struct json *j, const char *key, uint64_t v)
{
	jw_key(j, key);
	jw_unsigned(j, v);
}

void jw_three(struct json *j, const char *key, const uint32_t v[3])
{
	jw_key(j, key);
	jw_open(j, '[');
	for (int i = 0; i < 3; i++)
		jw_int(j, v[i]);
	jw_close(j, ']');
}

static void jw_argument(struct json *j, const struct kernel_argument *x)
{
	jw_open(j, '{');
	jw_field(j, "name", x->what->name);
	jw_field(j, "type", x->what->type_name);
	jw_field(j, "kind", x->what->value_kind);
	jw_number(j, "offset", x->what->offset);
	jw_number(j, "size", x->what->size);
	jw_key(j, "value");
	if (x->known && x->what->size <= 8)
		jw_hex(j, x->value);
	else
		jw_null(j);
	jw_close(j, '}');
}

void jw_dispatch(struct json *j, struct look *l, const struct dispatch *d)
{
	const struct code_kernel *k = target_code_kernel(&l->code, d->kernel_object);
	struct kernel_argument args[ARGUMENTS_SHOWN];
	size_t n = dispatch_arguments(l->target, k, d, args, ARGUMENTS_SHOWN);
	jw_open(j, '{');
	jw_number(j, "packet", d->packet);
	jw_field(j, "kernel_name", k ? code_set_name(&l->code.set, k->name) : (struct str){ 0 });
	jw_key(j, "kernel_object");
	jw_hex(j, d->kernel_object);
	jw_key(j, "kernarg");
	jw_hex(j, d->kernarg);
	jw_three(j, "grid", d->grid);
	jw_three(j, "workgroup_size", d->workgroup);
	jw_number(j, "lds_bytes", d->lds);
	jw_number(j, "scratch_bytes", d->scratch);
	jw_key(j, "arguments");
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++)
		jw_argument(j, &args[i]);
	jw_close(j, ']');
	jw_close(j, '}');
}
