// The smoke test of GPUs, one after the other.
#include "apply/smoke.h"

#include "report/apply.h"
#include "session/look.h"

/** In words that say what was tried: a user reads whether the fault is the GPU's, the library's, or ours. */
static void explain_smoke(struct text *to, const struct smoke *s)
{
	switch (s->end) {
	case SMOKE_PASSED:
		text_printf(to, "passed in %lld ms: 4 MB filled by a kernel, copied both ways and compared, through " STR_FMT,
			    (long long)s->milliseconds, STR_ARG(s->library));
		break;
	case SMOKE_NO_RUNTIME:
		if (s->refused.n)
			text_printf(to, "not tested: " STR_FMT, STR_ARG(s->refused));
		else
			text_printf(to, "not tested: there is no HIP runtime (libamdhip64.so) here; --hip FILE names one");
		break;
	case SMOKE_NO_DEVICE:
		text_printf(to, "not tested: " STR_FMT " does not see this GPU (" STR_FMT ")", STR_ARG(s->library),
			    STR_ARG(s->error));
		break;
	case SMOKE_FAILED:
		text_printf(to, "failed while " STR_FMT ": " STR_FMT, STR_ARG(s->step), STR_ARG(s->error));
		break;
	case SMOKE_WRONG:
		text_printf(to, "failed: what came back while " STR_FMT " is not what was written", STR_ARG(s->step));
		break;
	case SMOKE_LATE:
		text_printf(to, "does not answer: unhang gave up after %lld ms while " STR_FMT "%s", (long long)s->milliseconds,
			    STR_ARG(s->step),
			    s->left_behind ? "; the test process is stuck in the kernel and was left behind" : "");
		break;
	case SMOKE_CRASHED:
		text_printf(to, "failed: the test process ended while " STR_FMT, STR_ARG(s->step));
		break;
	}
	if (s->refused.n && s->end != SMOKE_NO_RUNTIME)
		text_printf(to, "; " STR_FMT, STR_ARG(s->refused));
}

/** Whether it was tried at all. */
static bool try_one(const struct device *d, const struct uh_doctor_options *o, struct smoke_report *r, unsigned *ret_failed)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct smoke s;
	_cleanup_text_ struct text said = { 0 };
	smoke_run(&a, d->pci, o->hip, (int)(o->seconds ? o->seconds : UH_SMOKE_SECONDS) * 1000, &s);
	explain_smoke(&said, &s);
	bool tried = s.end != SMOKE_NO_RUNTIME && s.end != SMOKE_NO_DEVICE;
	*ret_failed += tried && s.end != SMOKE_PASSED;
	const struct smoke_view view = { d, smoke_name(s.end), s.step, s.error, s.library, s.milliseconds, text_str(&said) };
	report_smoke(r, &view);
	return tried;
}

struct uh_error *uh_doctor_smoke(const struct uh_doctor_options *o, FILE *out, unsigned *ret_failed)
{
	struct know_problems problems = { 0 };
	_cleanup_know_ struct know *k = know_load(&problems);
	_cleanup_(devices_free) struct devices d;
	struct smoke_report r = { sheet_on(o->json, out), o->width };
	bool tried = false;
	*ret_failed = 0;
	devices_find(k, &d);
	report_smoke_begin(&r);
	for (size_t n = 0; n < d.n; n++)
		if (d.list[n].driver.n && !d.list[n].off_bus)
			tried |= try_one(&d.list[n], o, &r, ret_failed);
	report_smoke_end(&r);
	return tried ? NULL : uh_error_new(d.n ? "no GPU could be tested" : "no AMD GPU found in /sys/bus/pci/devices");
}
