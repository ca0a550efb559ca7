// What a machine is: its kernel, its GPUs and their firmware.
#include <stdio.h>

#include "evidence/silicon/facts.h"

static void tell_gpu(const struct artefact_output *out, const struct device *d)
{
	struct event e;
	struct arena a = { 0 };
	const struct place at = { out->source, 0 };
	if (artefact_event(out, "silicon-gpu", at, &e)) {
		char id[16];
		e.device = d->pci;
		e.driver = S("amdgpu");
		event_add(&e, S("pci"), d->pci, FACT_TEXT);
		event_add(&e, S("gfx"), d->gfx, FACT_TEXT);
		event_add(&e, S("gpu_name"), d->name, FACT_TEXT);
		snprintf(id, sizeof(id), "%x", d->device);
		event_add_text(&e, &a, "device_id", str_z(id));
		artefact_tell(out, &e);
	}
	if (d->vram_total > 0 && artefact_event(out, "silicon-memory", at, &e)) {
		e.device = d->pci;
		e.driver = S("amdgpu");
		event_add(&e, S("vram_mb"), arena_printf(&a, "%lld", (long long)d->vram_total >> 20), FACT_NUMBER);
		artefact_tell(out, &e);
	}
	for (size_t i = 0; i < d->nfirmware; i++) {
		if (!artefact_event(out, "silicon-firmware", at, &e))
			break;
		e.device = d->pci;
		e.driver = S("amdgpu");
		firmware_fact(&e, &a, d->firmware[i].name, d->firmware[i].version);
		artefact_tell(out, &e);
	}
	arena_free(&a);
}

void silicon_tell_machine(const struct artefact_output *out, const struct devices *d)
{
	struct event e;
	if (d->kernel.n && artefact_event(out, "silicon-kernel", (struct place){ out->source, 0 }, &e)) {
		event_add(&e, S("kernel"), d->kernel, FACT_TEXT);
		artefact_tell(out, &e);
	}
	for (size_t i = 0; i < d->n; i++)
		tell_gpu(out, &d->list[i]);
}
