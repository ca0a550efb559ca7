#include "report/smoke.h"

enum { LATER_LINES = 14 };

void report_smoke_begin(struct smoke_report *r) { sheet_begin(&r->sheet, "unhang/smoke/1", "gpus"); }

void report_smoke(struct smoke_report *r, const struct smoke_view *v)
{
	static const struct column line[] = { { "pci", ", " },
					      { "name", "  ", .none = "AMD GPU" },
					      { "text", ": ", .none = "" } };
	struct sheet *s = &r->sheet;
	sheet_open(s, NULL, '{');
	sheet_put(s, "pci", v_text(v->device->pci));
	sheet_note(s, "name", v_known(v->device->name));
	sheet_put(s, "result", v_word(v->result));
	sheet_put(s, "step", v_known(v->step));
	sheet_put(s, "error", v_known(v->error));
	sheet_put(s, "library", v_known(v->library));
	sheet_put(s, "milliseconds", v_int(v->milliseconds));
	sheet_put(s, "text", v_text(v->text));
	sheet_list(s, COLUMNS(line), (struct row_style){ 0, LATER_LINES, r->width ? r->width : WRAP_WIDTH });
	sheet_close(s, '}');
	fflush(s->json.out);
}

void report_smoke_end(struct smoke_report *r) { sheet_end(&r->sheet); }
