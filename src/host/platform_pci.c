// The IOMMU in front of the GPUs, and power saving of PCIe links.
#include "host/gpus.h"

/** What the kernel calls the kind of a group's domain. */
static const struct {
	const char *type, *mode;
} types[] = {
	{ "identity", "passthrough" },
	{ "DMA", "translated" },
	{ "DMA-FQ", "translated" },
};

/** Words of the command line that say it. A later row counts more. */
static const struct {
	const char *word, *mode;
} words[] = {
	{ "iommu=pt", "passthrough" },
	{ "iommu.passthrough=1", "passthrough" },
	{ "iommu.passthrough=0", "translated" },
	{ "iommu=nopt", "translated" },
	{ "amd_iommu=off", "off" },
	{ "intel_iommu=off", "off" },
	{ "iommu=off", "off" },
};

void iommu_note(struct gpu_looks *l, struct gpu_look *g, struct str type, struct str where)
{
	for (size_t n = 0; n < sizeof(types) / sizeof(types[0]); n++) {
		if (!str_is(type, types[n].type))
			continue;
		g->iommu = str_z(types[n].mode);
		g->iommu_place = where;
		host_note(l->h, g->item, "iommu", g->iommu, where);
	}
}

static struct str said_by_command_line(const struct gpu_looks *l)
{
	const struct host_fact *f = host_fact(l->h, host_machine(l->h), S("cmdline"), 0);
	struct str ret = { 0 };
	for (size_t n = 0; f && n < sizeof(words) / sizeof(words[0]); n++) {
		struct str line = f->value;
		for (struct str word = str_word(&line); word.n; word = str_word(&line))
			if (str_is(word, words[n].word))
				ret = str_z(words[n].mode);
	}
	return ret;
}

/** Cards come first: an APU often has a group of its own kind. */
void iommu_note_machine(struct gpu_looks *l)
{
	struct host_item *m = host_machine(l->h);
	const struct gpu_look *best = NULL;
	bool group = false;
	for (size_t n = 0; n < l->n; n++) {
		const struct gpu_look *g = &l->list[n];
		group |= g->grouped;
		if (g->iommu.n &&
		    (!best || (best->d->apu && !g->d->apu) || (best->d->apu == g->d->apu && str_is(g->iommu, "translated"))))
			best = g;
	}
	struct str said = said_by_command_line(l);
	if (best)
		host_note(l->h, m, "iommu", best->iommu, best->iommu_place);
	else if (l->iommus_known && !l->iommus.n && !group)
		host_note(l->h, m, "iommu", S("off"), S("/sys/class/iommu"));
	else if (said.n)
		host_note(l->h, m, "iommu", said, S("/proc/cmdline"));
	else if (l->iommus.n || group)
		host_note(l->h, m, "iommu", S("on"), S("/sys/class/iommu"));
}

/** `default performance [powersave] powersupersave`. */
void aspm_note(struct gpu_looks *l, struct str policy, struct str where)
{
	struct str rest = policy;
	str_split(&rest, '[');
	host_note(l->h, host_machine(l->h), "aspm", str_trim(str_split(&rest, ']')), where);
}
