// What a machine is: its kernel, its GPUs and their firmware; and what a reset of a GPU takes with it.
#include <stdio.h>

#include "base/command.h"
#include "evidence/silicon/facts.h"

static void silicon_machine_tell_gpu(const struct artefact_output *out, const struct device *d)
{
	struct event e;
	_cleanup_arena_ struct arena a = { 0 };
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
}

void silicon_tell_machine(const struct artefact_output *out, const struct devices *d)
{
	struct event e;
	if (d->kernel.n && artefact_event(out, "silicon-kernel", (struct place){ out->source, 0 }, &e)) {
		event_add(&e, S("kernel"), d->kernel, FACT_TEXT);
		artefact_tell(out, &e);
	}
	for (size_t i = 0; i < d->n; i++)
		silicon_machine_tell_gpu(out, &d->list[i]);
}

// --- What a reset of a GPU takes with it, for whoever is told to reset one ---

void reset_facts(struct event *e, const struct devices *all, const struct device *d, struct arena *a)
{
	_cleanup_text_ struct text gpus = { 0 }, holders = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < all->n; i++) {
		const struct device *o = &all->list[i];
		if (o != d && !(d->hive.n && str_eq(d->hive, o->hive)))
			continue;
		text_printf(&gpus, "%s" STR_FMT, n++ ? ", " : "", STR_ARG(o->pci));
		for (size_t h = 0; h < o->nholders; h++) {
			_cleanup_text_ struct text one = { 0 };
			// It stands beside a command, so a name with characters that mean something to a shell is left out.
			struct str name = piece_plain(PIECE_WORDS, o->holders[h].name) ? o->holders[h].name : S("process");
			text_printf(&one, STR_FMT " (%lld)", STR_ARG(name), (long long)o->holders[h].pid);
			if (str_find(text_str(&holders), text_str(&one)) < 0)
				text_printf(&holders, "%s" STR_FMT, holders.n ? ", " : "", STR_ARG(text_str(&one)));
		}
	}
	if (n > 1)
		event_add_text(e, a, "reset_gpus", text_str(&gpus));
	if (holders.n)
		event_add_text(e, a, "reset_ends", text_str(&holders));
}
