// The kernels in code: what they need and which arguments they take.
#include <stdlib.h>

#include "base/print.h"
#include "report/live/look.h"

static void jw_arguments(struct json *j, const struct code_kernel *k)
{
	jw_key(j, "arguments");
	jw_open(j, '[');
	for (size_t i = 0; i < k->narguments; i++) {
		const struct code_argument *a = &k->arguments[i];
		jw_open(j, '{');
		jw_field(j, "name", a->name);
		jw_field(j, "type", a->type_name);
		jw_field(j, "kind", a->value_kind);
		jw_field(j, "address_space", a->address_space);
		jw_number(j, "offset", a->offset);
		jw_number(j, "size", a->size);
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void jw_kernel(struct json *j, struct code_set *s, const struct code_kernel *k)
{
	jw_open(j, '{');
	jw_field(j, "kernel_name", code_set_name(s, k->name));
	jw_field(j, "symbol", k->name);
	jw_key(j, "address");
	jw_hex(j, k->entry);
	jw_number(j, "size", k->size);
	jw_key(j, "descriptor");
	jw_hex(j, k->descriptor);
	jw_number(j, "vgprs", k->vgprs);
	jw_number(j, "vgprs_allocated", k->vgprs_allocated);
	jw_number(j, "agprs", k->agprs);
	jw_number(j, "accum_offset", k->accum_offset);
	jw_number(j, "sgprs", k->sgprs);
	jw_number(j, "vgpr_spills", k->vgpr_spills);
	jw_number(j, "sgpr_spills", k->sgpr_spills);
	jw_number(j, "lds_bytes", k->lds);
	jw_number(j, "scratch_bytes", k->scratch);
	jw_number(j, "kernarg_bytes", k->kernarg_size);
	jw_number(j, "wave_size", k->wave_size);
	jw_number(j, "max_workgroup", k->max_workgroup);
	jw_key(j, "dynamic_stack");
	jw_bool(j, k->dynamic_stack);
	jw_arguments(j, k);
	jw_close(j, '}');
}

void report_kernels_json(struct code_set *s, FILE *out)
{
	struct json j = { .out = out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/code/1"));
	jw_key(&j, "objects");
	jw_open(&j, '[');
	for (size_t i = 0; i < s->objects.len; i++) {
		const struct code_object *o = s->objects.data[i]->object;
		jw_open(&j, '{');
		jw_field(&j, "code_object", s->objects.data[i]->name);
		jw_field(&j, "target", o->target_id);
		jw_key(&j, "kernels");
		jw_open(&j, '[');
		for (size_t k = 0; k < o->nkernels; k++)
			jw_kernel(&j, s, &o->kernels[k]);
		jw_close(&j, ']');
		jw_close(&j, '}');
	}
	jw_close(&j, ']');
	jw_close(&j, '}');
}

void report_kernels_text(struct code_set *s, FILE *out)
{
	for (size_t i = 0; i < s->objects.len; i++) {
		const struct code_object *o = s->objects.data[i]->object;
		fputs(i ? "\n" : "", out);
		print_safe(out, s->objects.data[i]->name);
		fprintf(out, ": %zu kernel%s for %.*s\n", o->nkernels, o->nkernels == 1 ? "" : "s",
			STR_ARG(o->target_id.n ? o->target_id : S("an unknown GPU")));
		if (o->nkernels)
			fputs(" address  wave  VGPRs  AGPRs  SGPRs     LDS  scratch  kernel\n", out);
		for (size_t n = 0; n < o->nkernels; n++) {
			const struct code_kernel *k = &o->kernels[n];
			fprintf(out, "%#8llx  %4u  %5u  %5u  %5u  %6u  %7u  ", (unsigned long long)k->entry, k->wave_size,
				k->vgprs, k->agprs, k->sgprs, k->lds, k->scratch);
			print_safe(out, code_set_name(s, k->name));
			fputc('\n', out);
		}
	}
}
