// crash_diagnostics.json: the five keys that scripts around SGLang and vLLM write for their agents, and what unhang knows besides.
#include "base/json.h"
#include "report/run/run.h"

void report_crash_diagnostics(const struct crash_diagnostics *d, FILE *out)
{
	struct arena a = { 0 };
	struct json j = { .out = out };
	const struct run_told *r = d->run;
	const struct run_try *last = r->ntries ? r->tries[r->ntries - 1] : NULL;
	jw_open(&j, '{');
	jw_field(&j, "kernel_api_log", d->log.n ? d->log : S(""));
	jw_field(&j, "last_kernel_boundary", d->boundary.n ? d->boundary : S(""));
	jw_key(&j, "crash_dumps");
	jw_open(&j, '[');
	for (size_t i = 0; i < d->ndumps; i++)
		jw_str(&j, d->dumps[i]);
	jw_close(&j, ']');
	jw_field(&j, "gpu_arch", d->gfx.n ? d->gfx : S(""));
	jw_key(&j, "exit_code");
	jw_int(&j, r->status);
	struct str failure = run_failure(last, &a);
	jw_field(&j, "failure_reason", failure.n ? failure : S(""));
	jw_field(&j, "run", r->id);
	jw_field(&j, "directory", r->directory);
	if (last) {
		jw_field(&j, "ended", last->ended);
		jw_field(&j, "class", last->class);
		jw_field(&j, "fault", last->fault);
		jw_field(&j, "kernel", last->kernel);
		jw_field(&j, "fingerprint", last->fingerprint);
		jw_field(&j, "words", last->words);
		jw_field(&j, "output", last->output);
		jw_field(&j, "last_output", d->output);
		jw_field(&j, "bundle", last->bundle);
		jw_field(&j, "diagnosis", last->diagnosis);
	}
	jw_close(&j, '}');
	fputc('\n', out);
	arena_free(&a);
}
