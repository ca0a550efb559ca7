// The way of `explain` from sources to the report, without what it has beside it (this machine, its files).
#pragma once

#include <stdio.h>

#include "base/cleanup.h"
#include "diagnose/engine.h"
#include "diagnose/ledger.h"
#include "diagnose/machine.h"
#include "report/report.h"

struct explained {
	const struct know *know;
	struct ledger ledger;
	struct machine machine;
	struct engine *engine;
	struct evidence_reader *reader;
	void (*also)(const struct diagnosis *d); // another report; NULL
};

static void on_event(void *ctx, const struct event *e) { engine_event(((struct explained *)ctx)->engine, e); }
static void on_incident(void *ctx, struct incident *i) { ledger_add(&((struct explained *)ctx)->ledger, i); }
static void on_machine(void *ctx, const struct machine *m) { machine_merge(&((struct explained *)ctx)->machine, m); }

/** As source_visitor.visit() calls it. */
static inline void explain_source(void *ctx, struct source *source)
{
	struct explained *x = ctx;
	engine_end(x->engine);
	uh_error_free(evidence_read(x->reader, source));
}

static void explain_begin(struct explained *x, const struct know *k)
{
	*x = (struct explained){ .know = k };
	x->engine = engine_new(k, (struct incident_sink){ .incident = on_incident, .machine = on_machine, .ctx = x });
	x->reader = evidence_reader_new(k, (struct event_sink){ on_event, x });
}

/** The report, to be freed; all else is. */
static inline char *explain_end(struct explained *x, size_t *ret_size)
{
	engine_end(x->engine);
	uh_error_free(evidence_end(x->reader));
	engine_end(x->engine);
	if (evidence_count(x->reader) > 1 || x->ledger.incidents.len > 1)
		ledger_join(&x->ledger, x->know, &x->machine, &(struct boot_began){ 0 });
	ledger_sort(&x->ledger);
	for (size_t i = 0; i < x->ledger.incidents.len; i++)
		incident_advise(x->ledger.incidents.data[i], x->know, NULL);
	const struct diagnosis d = { .know = x->know, .evidence = x->reader, .ledger = &x->ledger };
	_cleanup_free_ char *text = NULL;
	char *report = NULL;
	size_t text_size;
	FILE *out = open_memstream(&report, ret_size);
	report_json(&d, out);
	fclose(out);
	out = open_memstream(&text, &text_size);
	report_text(&d, out, &(struct uh_report_options){ .verbose = true });
	fclose(out);
	if (x->also)
		x->also(&d);
	engine_free(x->engine);
	ledger_free(&x->ledger);
	machine_clear(&x->machine);
	evidence_reader_free(x->reader);
	return report;
}
