// What the schedulers of GPUs without MES were told to run: packets that name processes and queues.
#include "gpu/find/kfd.h"
#include "gpu/packet.h"
#include "report/live/look.h"

enum { PACKETS_MOST = 256, INDENT = 9 };

static const struct device *device_of(const struct runlists *r, uint32_t gpu_id)
{
	for (size_t i = 0; i < r->devices->n; i++)
		if (r->devices->list[i].gpu_id == gpu_id)
			return &r->devices->list[i];
	return NULL;
}

static void walk_packet(struct sheet *s, const struct packet *p)
{
	static const struct column name[] = { { "name" } };
	struct wrapping w = { .out = s->json.out, .margin = INDENT + 1 };
	sheet_open(s, NULL, '{');
	sheet_put(s, "name", v_text(p->name));
	w.column = sheet_say(s, "%*s", INDENT, "") + sheet_part(s, COLUMNS(name));
	walk_packet_fields(s, p, &w, false);
	sheet_say(s, "\n");
	sheet_close(s, '}');
}

static void walk_list(struct sheet *s, const struct runlists *r, const struct kfd_runlist *list)
{
	static const struct column head[] = { { "gpu_id", "GPU " },
					      { "pci", " at ", .none = "an unknown place",
						.after = ": what its scheduler was told to run" } };
	const struct device *d = device_of(r, list->gpu_id);
	const struct packet_stream stream = { r->know, PACKETS_PM4, d ? d->gfx : (struct str){ 0 }, list->words, list->n };
	struct arena a = { 0 };
	struct packet p = { 0 };
	sheet_open(s, NULL, '{');
	sheet_put(s, "gpu_id", v_number(list->gpu_id));
	sheet_put(s, "pci", v_text(d ? d->pci : (struct str){ 0 }));
	sheet_say(s, "\n");
	sheet_line(s, 0, COLUMNS(head));
	sheet_open(s, "packets", '[');
	// What is behind the last that is known is not one of the list.
	for (size_t at = 0, n = 0; at < list->n && n < PACKETS_MOST; at += p.words, n++) {
		if (!packet_decode(&stream, &a, at, &p) || !p.known)
			break;
		walk_packet(s, &p);
	}
	sheet_close(s, ']');
	sheet_close(s, '}');
	arena_free(&a);
}

void walk_runlists(struct sheet *s, const struct runlists *r)
{
	sheet_open(s, "runlists", '[');
	for (size_t i = 0; i < r->kfd->nrunlists; i++)
		if (r->kfd->runlists[i].n)
			walk_list(s, r, &r->kfd->runlists[i]);
	sheet_close(s, ']');
}
