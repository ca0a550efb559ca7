// The smoke test of GPUs: written down as it ends.
#include "apply/smoke.h"

#include "base/error.h"
#include "base/json.h"
#include "base/print.h"
#include "gpu/device.h"
#include "unhang/unhang.h"

enum { INDENT = 14, WIDTH = 100 };

static void explain(struct text *to, const struct smoke *s)
{
	switch (s->end) {
	case SMOKE_PASSED:
		text_printf(to, "passed in %lld ms: 4 MB filled by a kernel, copied both ways and compared, through " STR_FMT,
			    (long long)s->milliseconds, STR_ARG(s->library));
		break;
	case SMOKE_NO_RUNTIME:
		if (s->refused.n)
			text_printf(to, "not tried: " STR_FMT, STR_ARG(s->refused));
		else
			text_printf(to, "not tried: there is no HIP runtime (libamdhip64.so) here; --hip FILE names one");
		break;
	case SMOKE_NO_DEVICE:
		text_printf(to, "not tried: " STR_FMT " does not see this GPU (" STR_FMT ")", STR_ARG(s->library),
			    STR_ARG(s->error));
		break;
	case SMOKE_FAILED:
		text_printf(to, "failed while " STR_FMT ": " STR_FMT, STR_ARG(s->step), STR_ARG(s->error));
		break;
	case SMOKE_WRONG:
		text_printf(to, "failed: what came back while " STR_FMT " is not what was written", STR_ARG(s->step));
		break;
	case SMOKE_LATE:
		text_printf(to, "does not answer: given up after %lld ms while " STR_FMT "%s", (long long)s->milliseconds,
			    STR_ARG(s->step),
			    s->left_behind ? "; the process that tried it waits in the kernel and was left behind" : "");
		break;
	case SMOKE_CRASHED:
		text_printf(to, "failed: the process that tried it ended while " STR_FMT, STR_ARG(s->step));
		break;
	}
	if (s->refused.n && s->end != SMOKE_NO_RUNTIME)
		text_printf(to, "; " STR_FMT, STR_ARG(s->refused));
}

static void put_text(const struct device *d, struct str said, FILE *out, unsigned width)
{
	struct text line = { 0 };
	text_printf(&line, STR_FMT "  " STR_FMT ": " STR_FMT, STR_ARG(d->pci), STR_ARG(d->name.n ? d->name : S("AMD GPU")),
		    STR_ARG(said));
	print_wrapped(out, text_str(&line), INDENT, 0, width ? width : WIDTH);
	text_free(&line);
}

static void put_json(struct json *j, const struct device *d, const struct smoke *s, struct str said)
{
	jw_open(j, '{');
	jw_field(j, "pci", d->pci);
	jw_field(j, "result", str_z(smoke_name(s->end)));
	jw_field(j, "step", s->step.n ? s->step : (struct str){ 0 });
	jw_field(j, "error", s->error.n ? s->error : (struct str){ 0 });
	jw_field(j, "library", s->library.n ? s->library : (struct str){ 0 });
	jw_key(j, "milliseconds");
	jw_int(j, s->milliseconds);
	jw_field(j, "text", said);
	jw_close(j, '}');
}

/** Whether it was tried at all. */
static bool try_one(const struct device *d, const struct uh_doctor_options *o, FILE *out, struct json *j, unsigned *ret_failed)
{
	struct arena a = { 0 };
	struct smoke s;
	struct text said = { 0 };
	smoke_run(&a, d->pci, o->hip, (int)(o->seconds ? o->seconds : UH_SMOKE_SECONDS) * 1000, &s);
	explain(&said, &s);
	bool tried = s.end != SMOKE_NO_RUNTIME && s.end != SMOKE_NO_DEVICE;
	*ret_failed += tried && s.end != SMOKE_PASSED;
	if (o->json)
		put_json(j, d, &s, text_str(&said));
	else
		put_text(d, text_str(&said), out, o->width);
	fflush(out);
	text_free(&said);
	arena_free(&a);
	return tried;
}

struct uh_error *uh_doctor_smoke(const struct uh_doctor_options *o, FILE *out, unsigned *ret_failed)
{
	struct know_problems problems = { 0 };
	struct know *k = know_load(&problems);
	struct devices d;
	struct json j = { .out = out };
	bool tried = false;
	*ret_failed = 0;
	devices_find(k, &d);
	if (o->json) {
		jw_open(&j, '{');
		jw_field(&j, "schema", S("unhang/smoke/1"));
		jw_key(&j, "gpus");
		jw_open(&j, '[');
	}
	for (size_t n = 0; n < d.n; n++)
		if (d.list[n].driver.n && !d.list[n].off_bus)
			tried |= try_one(&d.list[n], o, out, &j, ret_failed);
	if (o->json) {
		jw_close(&j, ']');
		jw_close(&j, '}');
	}
	struct uh_error *err = NULL;
	if (!tried)
		err = uh_error_new(d.n ? "no GPU could be tried" : "no AMD GPU is in /sys/bus/pci/devices");
	devices_free(&d);
	know_free(k);
	return err;
}
