// What is known of each GPU, as facts.
#include "host/host.h"

static void read_gpu(struct host *h, struct host_item *i)
{
	const struct device *d = i->gpu;
	struct arena *a = &h->arena;
	host_note(h, i, "pci", d->pci, d->sysfs);
	host_note(h, i, "part", d->name, d->sysfs);
	host_note(h, i, "gfx", d->gfx, d->sysfs);
	host_note(h, i, "apu", d->apu ? S("yes") : S("no"), d->sysfs);
	for (size_t n = 0; n < d->nfirmware; n++) {
		char *name = arena_z(a, arena_printf(a, "fw_" STR_FMT, STR_ARG(d->firmware[n].name)));
		for (char *c = name; *c; c++)
			*c = *c == ' ' ? '_' : *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
		host_note(h, i, name, arena_printf(a, "0x%x", d->firmware[n].version),
			  arena_printf(a, STR_FMT "/fw_version", STR_ARG(d->sysfs)));
	}
}

void host_read_gpus(struct host *h)
{
	for (size_t n = 0; n < h->items.len; n++)
		if (str_is(h->items.data[n]->kind, "gpu"))
			read_gpu(h, h->items.data[n]);
}
