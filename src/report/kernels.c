// The kernels in code: what they need and which arguments they take.
#include "report/live/look.h"

static void walk_argument(struct sheet *s, const struct code_argument *a)
{
	sheet_open(s, NULL, '{');
	sheet_put(s, "name", v_text(a->name));
	sheet_put(s, "type", v_text(a->type_name));
	sheet_put(s, "kind", v_text(a->value_kind));
	sheet_put(s, "address_space", v_text(a->address_space));
	sheet_put(s, "offset", v_number(a->offset));
	sheet_put(s, "size", v_number(a->size));
	sheet_close(s, '}');
}

static void walk_kernel(struct sheet *s, struct code_set *set, const struct code_kernel *k)
{
	static const struct column row[] = { { "address", .width = 8, .none = "0", .least = 1 },
					     { "wave_size", "  ", 4 },
					     { "vgprs", "  ", 5 },
					     { "agprs", "  ", 5 },
					     { "sgprs", "  ", 5 },
					     { "lds_bytes", "  ", 6 },
					     { "scratch_bytes", "  ", 7, .after = "  " },
					     { "kernel_name" } };
	sheet_open(s, NULL, '{');
	sheet_put(s, "kernel_name", v_text(code_set_name(set, k->name)));
	sheet_put(s, "symbol", v_text(k->name));
	sheet_put(s, "address", v_hex(k->entry));
	sheet_put(s, "size", v_number(k->size));
	sheet_put(s, "descriptor", v_hex(k->descriptor));
	sheet_put(s, "vgprs", v_number(k->vgprs));
	sheet_put(s, "vgprs_allocated", v_number(k->vgprs_allocated));
	sheet_put(s, "agprs", v_number(k->agprs));
	sheet_put(s, "accum_offset", v_number(k->accum_offset));
	sheet_put(s, "sgprs", v_number(k->sgprs));
	sheet_put(s, "vgpr_spills", v_number(k->vgpr_spills));
	sheet_put(s, "sgpr_spills", v_number(k->sgpr_spills));
	sheet_put(s, "lds_bytes", v_number(k->lds));
	sheet_put(s, "scratch_bytes", v_number(k->scratch));
	sheet_put(s, "kernarg_bytes", v_number(k->kernarg_size));
	sheet_put(s, "wave_size", v_number(k->wave_size));
	sheet_put(s, "max_workgroup", v_number(k->max_workgroup));
	sheet_put(s, "dynamic_stack", v_bool(k->dynamic_stack));
	sheet_line(s, 0, COLUMNS(row));
	sheet_open(s, "arguments", '[');
	for (size_t i = 0; i < k->narguments; i++)
		walk_argument(s, &k->arguments[i]);
	sheet_close(s, ']');
	sheet_close(s, '}');
}

void report_kernels(struct code_set *set, bool as_json, FILE *out)
{
	static const struct column head[] = { { "code_object" },
					      { "kernels", ": ", .after = " kernel", .plural = true },
					      { "target", " for ", .none = "an unknown GPU" } };
	struct sheet s = sheet_on(as_json, out);
	sheet_begin(&s, "unhang/code/1", "objects");
	for (size_t i = 0; i < set->objects.len; i++) {
		const struct code_object *o = set->objects.data[i]->object;
		sheet_open(&s, NULL, '{');
		sheet_put(&s, "code_object", v_text(set->objects.data[i]->name));
		sheet_put(&s, "target", v_text(o->target_id));
		sheet_note(&s, "kernels", v_number(o->nkernels));
		if (i)
			sheet_say(&s, "\n");
		sheet_line(&s, 0, COLUMNS(head));
		if (o->nkernels)
			sheet_say(&s, " address  wave  VGPRs  AGPRs  SGPRs     LDS  scratch  kernel\n");
		sheet_open(&s, "kernels", '[');
		for (size_t k = 0; k < o->nkernels; k++)
			walk_kernel(&s, set, &o->kernels[k]);
		sheet_close(&s, ']');
		sheet_close(&s, '}');
	}
	sheet_end(&s);
}
