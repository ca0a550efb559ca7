// The interrupts of the GPUs, as the kernel counts them.
#include "gpu/find/device.h"

enum { INTERRUPTS_SIZE = 1 << 20, DEADLINE_MS = 500 };

static const int64_t count_most = INT64_C(1) << 48;

static bool has_irq(const struct device *d, struct str number, struct str line)
{
	struct str irqs = d->irqs;
	while (irqs.n)
		if (str_eq(str_split(&irqs, '\n'), number))
			return true;
	return str_find(line, d->pci) >= 0; // the name of its controller: IR-PCI-MSI-0000:03:00.0
}

/** ` 94:  0  12  IR-PCI-MSI-0000:03:00.0  0-edge  amdgpu`: a count for each CPU of the first line. */
static void count(const struct devices *d, struct str text, int64_t *ret)
{
	struct str head = str_split(&text, '\n');
	size_t cpus = 0;
	while (str_word(&head).n)
		cpus++;
	while (text.n) {
		struct str line = str_split(&text, '\n'), rest = line, number = str_word(&rest);
		if (!str_ends(str_trim(line), S("amdgpu")) || !number.n)
			continue;
		int64_t sum = 0, n;
		for (size_t i = 0; i < cpus; i++)
			sum += str_number(str_word(&rest), &n) && n > 0 && n < count_most ? n : 0;
		for (size_t i = 0; i < d->n; i++)
			if (has_irq(&d->list[i], str_cut(number, number.n - 1), line))
				ret[i] = (ret[i] < 0 ? 0 : ret[i]) + sum;
	}
}

void devices_interrupts(const struct devices *d, int64_t *ret)
{
	struct arena a = { 0 };
	struct probe p = { .path = "/proc/interrupts", .size = INTERRUPTS_SIZE };
	struct probe_count unused = { .patience = d->count.patience };
	for (size_t i = 0; i < d->n; i++)
		ret[i] = -1;
	if (d->n && !d->tree) { // a record does not count on
		struct probe_batch batch = { .probes = &p, .n = 1 };
		probe_run_all(&a, &batch, 1, DEADLINE_MS, &unused);
		count(d, probe_text(&p), ret);
	}
	arena_free(&a);
}
