// What the schedulers of GPUs without MES were told to run: packets that name processes and queues.
#include "base/print.h"
#include "gpu/find/kfd.h"
#include "gpu/packet.h"
#include "report/live/look.h"

enum { PACKETS_MOST = 256, INDENT = 9, WIDTH = 100 };

static const struct device *device_of(const struct runlists *r, uint32_t gpu_id)
{
	for (size_t i = 0; i < r->devices->n; i++)
		if (r->devices->list[i].gpu_id == gpu_id)
			return &r->devices->list[i];
	return NULL;
}

/** The packets of a list; what is behind the last that is known is not one of it. */
static size_t packets_of(const struct runlists *r, const struct kfd_runlist *list, struct arena *a, struct packet *ret)
{
	const struct device *d = device_of(r, list->gpu_id);
	const struct packet_stream s = { r->know, PACKETS_PM4, d ? d->gfx : (struct str){ 0 }, list->words, list->n };
	size_t n = 0;
	for (size_t at = 0; at < list->n && n < PACKETS_MOST; at += ret[n++].words)
		if (!packet_decode(&s, a, at, &ret[n]) || !ret[n].known)
			break;
	return n;
}

static void text_list(const struct runlists *r, const struct kfd_runlist *list, FILE *out)
{
	const struct device *d = device_of(r, list->gpu_id);
	struct arena a = { 0 };
	struct packet *packets = arena_alloc(&a, PACKETS_MOST * sizeof(*packets));
	size_t n = packets_of(r, list, &a, packets);
	fprintf(out, "\nGPU %u at " STR_FMT ": what its scheduler was told to run\n", list->gpu_id,
		STR_ARG(d ? d->pci : S("an unknown place")));
	for (size_t i = 0; i < n; i++) {
		struct text line = { 0 };
		text_printf(&line, STR_FMT, STR_ARG(packets[i].name));
		for (size_t f = 0; f < packets[i].nfields; f++)
			text_printf(&line, packets[i].fields[f].digits ? " " STR_FMT "=0x%llx" : " " STR_FMT "=%llu",
				    STR_ARG(packets[i].fields[f].name), (unsigned long long)packets[i].fields[f].value);
		fprintf(out, "%*s", INDENT, "");
		print_wrapped(out, text_str(&line), INDENT + 2, INDENT, WIDTH);
		text_free(&line);
	}
	arena_free(&a);
}

void report_runlists_text(const struct runlists *r, FILE *out)
{
	for (size_t i = 0; i < r->kfd->nrunlists; i++)
		if (r->kfd->runlists[i].n)
			text_list(r, &r->kfd->runlists[i], out);
}

static void jw_list(const struct runlists *r, const struct kfd_runlist *list, struct json *j)
{
	const struct device *d = device_of(r, list->gpu_id);
	struct arena a = { 0 };
	struct packet *packets = arena_alloc(&a, PACKETS_MOST * sizeof(*packets));
	size_t n = packets_of(r, list, &a, packets);
	jw_open(j, '{');
	jw_number(j, "gpu_id", list->gpu_id);
	jw_field(j, "pci", d ? d->pci : (struct str){ 0 });
	jw_key(j, "packets");
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++) {
		jw_open(j, '{');
		jw_field(j, "name", packets[i].name);
		jw_packet_fields(j, &packets[i]);
		jw_close(j, '}');
	}
	jw_close(j, ']');
	jw_close(j, '}');
	arena_free(&a);
}

void report_runlists_json(const struct runlists *r, struct json *j)
{
	jw_key(j, "runlists");
	jw_open(j, '[');
	for (size_t i = 0; i < r->kfd->nrunlists; i++)
		if (r->kfd->runlists[i].n)
			jw_list(r, &r->kfd->runlists[i], j);
	jw_close(j, ']');
}
