// Fuzzes the way of a log from bytes to the report. An input whose length is odd is read a second time, in small
// reads of odd sizes, and must give the same report.
#include <stdlib.h>

#include "base/cleanup.h"
#include "diagnose/engine.h"
#include "report/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
	struct str left;
	size_t step; // bytes of one read; 0: as many as are asked for
};

static ssize_t read_memory(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	(void)ret_err;
	struct memory *m = s->ctx;
	size_t n = size < m->left.n ? size : m->left.n;
	if (m->step && n > m->step) {
		n = m->step;
		m->step = (m->step + 2) % 61 | 1;
	}
	if (n)
		memcpy(buffer, m->left.p, n);
	m->left = str_from(m->left, n);
	return (ssize_t)n;
}

static void on_event(void *ctx, const struct event *e) { engine_event(ctx, e); }
static void on_incident(void *ctx, struct incident *i) { ledger_add(ctx, i); }

/** The report on @bytes, to be freed. */
static char *explain(const struct know *k, struct str bytes, size_t step, size_t *ret_size)
{
	struct ledger ledger = { 0 };
	struct engine *engine = engine_new(k, (struct incident_sink){ .incident = on_incident, .ctx = &ledger });
	struct evidence_reader *reader = evidence_reader_new(k, (struct event_sink){ on_event, engine });
	struct memory memory = { bytes, step };
	struct source source = { .name = "fuzz.log", .read = read_memory, .ctx = &memory };
	uh_error_free(evidence_read(reader, &source));
	engine_end(engine);
	ledger_sort(&ledger);
	for (size_t i = 0; i < ledger.incidents.len; i++)
		incident_advise(ledger.incidents.data[i], k, NULL);

	char *report = NULL;
	FILE *out = open_memstream(&report, ret_size);
	const struct diagnosis d = { .know = k, .evidence = reader, .ledger = &ledger };
	report_json(&d, out);
	fclose(out);
	FILE *null = fopen("/dev/null", "w");
	report_text(&d, null, &(struct uh_report_options){ .verbose = true });
	fclose(null);
	engine_free(engine);
	ledger_free(&ledger);
	evidence_reader_free(reader);
	return report;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct know *know;
	if (!know)
		know = know_load(&(struct know_problems){ 0 });
	struct str bytes = { (const char *)data, size };
	size_t n, again_n;
	_cleanup_free_ char *report = explain(know, bytes, 0, &n);
	if (size % 2) {
		_cleanup_free_ char *again = explain(know, bytes, 1, &again_n);
		if (!str_eq((struct str){ report, n }, (struct str){ again, again_n }))
			abort();
	}
	return 0;
}
