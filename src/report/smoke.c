#include "report/smoke.h"

#include "base/print.h"

enum { INDENT = 14, WIDTH = 100 };

static void put_text(const struct smoke_view *v, FILE *out, unsigned width)
{
	const struct device *d = v->device;
	struct text line = { 0 };
	text_printf(&line, STR_FMT "  " STR_FMT ": " STR_FMT, STR_ARG(d->pci), STR_ARG(d->name.n ? d->name : S("AMD GPU")),
		    STR_ARG(v->text));
	print_wrapped(out, text_str(&line), INDENT, 0, width ? width : WIDTH);
	text_free(&line);
}

static struct str or_null(struct str s) { return s.n ? s : (struct str){ 0 }; }

static void put_json(const struct smoke_view *v, struct json *j)
{
	jw_open(j, '{');
	jw_field(j, "pci", v->device->pci);
	jw_field(j, "result", str_z(v->result));
	jw_field(j, "step", or_null(v->step));
	jw_field(j, "error", or_null(v->error));
	jw_field(j, "library", or_null(v->library));
	jw_key(j, "milliseconds");
	jw_int(j, v->milliseconds);
	jw_field(j, "text", v->text);
	jw_close(j, '}');
}

void report_smoke_begin(struct smoke_report *r)
{
	if (!r->as_json)
		return;
	jw_open(&r->json, '{');
	jw_field(&r->json, "schema", S("unhang/smoke/1"));
	jw_key(&r->json, "gpus");
	jw_open(&r->json, '[');
}

void report_smoke(struct smoke_report *r, const struct smoke_view *v)
{
	if (r->as_json)
		put_json(v, &r->json);
	else
		put_text(v, r->json.out, r->width);
	fflush(r->json.out);
}

void report_smoke_end(struct smoke_report *r)
{
	if (!r->as_json)
		return;
	jw_close(&r->json, ']');
	jw_close(&r->json, '}');
}
