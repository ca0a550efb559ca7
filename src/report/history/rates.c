// Which machines, or GPUs, fail more often than the others, for people and programs.
#include <math.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "report/history/history.h"
#include "report/sheet.h"

enum { PER_HOURS = 1000, ROWS_SHOWN = 14, NUMBERS = 49 };

static double per_1000(struct rate r) { return r.hours > 0 ? PER_HOURS * r.events / r.hours : NAN; }

static void put_rates(struct sheet *s, const struct history_rates *r)
{
	sheet_record(s, "fleet", { "incidents", v_decimal(r->all.events, 0) }, { "gpu_hours", v_decimal(r->all.hours, 1) },
		     { "per_1000_gpu_hours", v_decimal(per_1000(r->all), 2) }, { "unnamed", v_int(r->nameless) });
	sheet_each (n, s, "machines", r->list.len) {
		const struct history_rate *m = &r->list.data[n];
		const bool known = m->rate.hours > 0;
		sheet_fields(s, { "name", v_text(m->name) }, { "node", v_known(m->host) }, { "part", v_known(m->part) },
			     { "incidents", v_decimal(m->rate.events, 0) }, { "gpu_hours", v_decimal(m->rate.hours, 1) },
			     { "per_1000_gpu_hours", v_decimal(per_1000(m->rate), 2) },
			     { "low", v_if(known, v_decimal(PER_HOURS * m->limits.low, 2)) },
			     { "high", v_if(known, v_decimal(PER_HOURS * m->limits.high, 2)) },
			     { "outlier", v_bool(m->outlier) });
	}
}

static void say_rate(const struct history_rate *m, size_t width, FILE *out)
{
	const size_t room = width > NUMBERS + 16 ? width - NUMBERS : 16;
	_cleanup_text_ struct text name = { 0 };
	text_add_safe(&name, m->name);
	if (m->host.n && !str_starts(m->name, m->host)) { // a GPU's serial number says nobody where to go
		text_add(&name, S(" "));
		text_add_safe(&name, m->host);
	}
	const struct str shown = str_cut(text_str(&name), room - 2);
	fprintf(out, "%c " STR_FMT "%*s %9.0f ", m->outlier ? '*' : ' ', STR_ARG(shown), (int)(room - 2 - shown.n), "",
		m->rate.events);
	if (m->rate.hours > 0)
		fprintf(out, "%9.0f %10.1f  %.1f to %.1f\n", m->rate.hours, per_1000(m->rate), PER_HOURS * m->limits.low,
			PER_HOURS * m->limits.high);
	else
		fputs("not counted\n", out);
}

static void say_rates(const struct history_told *t, FILE *out)
{
	const struct history_rates *r = &t->rates;
	const size_t width = history_width(t), room = width > NUMBERS + 16 ? width - NUMBERS : 16;
	const size_t most = t->options->all ? r->list.len : t->options->most ? t->options->most : ROWS_SHOWN;
	bool outliers = false;
	_cleanup_text_ struct text head = { 0 };
	text_printf(&head, "%s", t->options->gpus ? "GPUs" : "Nodes");
	history_window_said(&head, t);
	if (r->all.hours > 0)
		text_printf(&head, ", the worst first. All together: %.1f incidents in 1000 GPU-hours of work.",
			    per_1000(r->all));
	else
		text_add(&head, S(". No work was counted: unhang watch counts it, and only then can they be compared."));
	print_wrapped(out, text_str(&head), 0, 0, width);
	fprintf(out, "\n  %-*s %9s %9s %10s  %s\n", (int)room - 2, t->options->gpus ? "GPU" : "node", "incidents", "GPU-hours",
		"per 1000 h", "at 95 %");
	for (size_t n = 0; n < r->list.len && n < most; n++) {
		say_rate(&r->list.data[n], width, out);
		outliers |= r->list.data[n].outlier;
	}
	if (r->list.len > most)
		fprintf(out, "and %zu more: --all\n", r->list.len - most);
	if (outliers)
		fputs("*: worse than all together; chance alone does not explain it\n", out);
	fputs("\nIncidents within an hour count as one.\n", out);
	if (r->nameless)
		fprintf(out, "Left out: %lld incident%s whose evidence names no %s.\n", (long long)r->nameless,
			r->nameless == 1 ? "" : "s", t->options->gpus ? "GPU" : "node");
}

void report_rates(const struct history_told *t, FILE *out)
{
	struct sheet s = sheet_on(true, out);
	if (!t->options->json) {
		say_rates(t, out);
		return;
	}
	history_begin(&s, t);
	put_rates(&s, &t->rates);
	sheet_close(&s, '}');
}
