// Fuzzes the reader of gpu_metrics: each field of its layout and of another one is asked for, of two tables.
#include "gpu/metrics.h"
#include "know.h"

/** Each field of the table's own layout, and those of another. */
static void ask_all(const struct metrics *m, size_t another)
{
	const struct know_metrics *const layouts[] = { m->layout, know->metrics.data[another % know->metrics.len] };
	uint64_t value;
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		for (const struct know_list *f = layouts[i] ? layouts[i]->fields : NULL; f; f = f->next) {
			struct str times = f->text, name = str_split(&times, '*');
			for (size_t n = 0; n < 10; n += 3)
				metrics_value(m, name, n, &value);
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct str all = { (const char *)data, size };
	struct metrics first, now;
	struct metrics_cause causes[METRICS_CAUSES];
	struct arena a = { 0 };
	// The first word of the input is where the second table begins.
	const size_t at = size > 2 ? (size_t)(data[0] | data[1] << 8) % size : 0;
	metrics_of(know, str_from(str_cut(all, at), 2), &first);
	metrics_of(know, str_from(all, at), &now);
	ask_all(&first, size ? data[size - 1] : 0);
	ask_all(&now, size ? data[size - 1] : 0);
	const size_t n = metrics_throttle(&first, &now, causes);
	for (size_t i = 0; i < n; i++)
		if (!causes[i].cause.n || causes[i].percent < -1 || causes[i].percent > 100)
			abort();
	metrics_throttle_text(&a, causes, n);
	arena_free(&a);
	return 0;
}
