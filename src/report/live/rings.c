#include "report/live/rings.h"

enum { RINGS_SHOWN = 16, RAW_MOST = 64, NAME_COLUMNS = 16, PACKET_INDENT = 13 };

struct rings_sheet {
	struct sheet sheet;
	const struct uh_look_options *options;
	bool named; // rings were asked for by name
};

static void walk_ib(struct sheet *s, const struct ring_packet *row)
{
	const struct packet *p = row->packet;
	if (!sheet_object(s, "ib", p->ib_address))
		return;
	sheet_put(s, "address", v_hex(p->ib_address));
	sheet_put(s, "words", v_number(p->ib_words));
	sheet_put(s, "vmid", v_number(row->depth ? row->vmid : p->ib_vmid));
	sheet_put(s, "chain", v_bool(p->ib_chain));
	sheet_put(s, "read", v_bool(row->ib_read));
	sheet_put(s, "why_not", v_word(row->ib_why_not));
	sheet_close(s, '}');
}

void walk_packet_fields(struct sheet *s, const struct packet *p, struct wrapping *w, bool texts)
{
	static const struct column word[] = { { "name" }, { "shown", "=" }, { "text", "(", .after = ")" } };
	sheet_open(s, "fields", '[');
	for (size_t i = 0; i < p->nfields; i++) {
		const struct packet_field *f = &p->fields[i];
		sheet_open(s, NULL, '{');
		sheet_put(s, "name", v_text(f->name));
		sheet_put(s, "value", v_hex(f->value));
		sheet_note(s, "shown", f->digits ? v_hex(f->value) : v_number(f->value));
		sheet_put(s, "text", v_known(f->text));
		sheet_wrap(s, word, texts ? 3 : 2, w);
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static void walk_packet(struct rings_sheet *r, const struct ring_packet *row)
{
	struct sheet *s = &r->sheet;
	const struct packet *p = row->packet;
	const unsigned indent = 2 * (unsigned)row->depth;
	const struct column head[] = { { "at", .digits = 4 },
				       { "name", "  " },
				       { "repeat", " (", .after = " times)", .least = 2 },
				       { "cut", " (its end is missing)" } };
	const struct column waits[] = { { "waits_for", "waits for " } };
	struct wrapping w = { .out = s->json.out, .width = r->options->width, .margin = indent + PACKET_INDENT };
	sheet_open(s, NULL, '{');
	sheet_put(s, "at", v_number(row->at));
	sheet_put(s, "address", v_if(row->address, v_hex(row->address)));
	sheet_put(s, "depth", v_number(row->depth));
	sheet_put(s, "here", v_bool(row->here));
	sheet_put(s, "language", v_word(packet_language_name(p->language)));
	sheet_put(s, "name", v_text(p->name));
	sheet_put(s, "opcode", v_number(p->opcode));
	sheet_put(s, "known", v_bool(p->known));
	sheet_put(s, "cut", v_bool(p->cut));
	sheet_put(s, "words", v_number(p->words));
	sheet_put(s, "repeat", v_number(row->repeat));
	sheet_put(s, "waits_for", v_known(p->waits_for));
	walk_ib(s, row);
	w.column = sheet_say(s, " %c %*s", row->here ? '>' : ' ', (int)indent, "") + sheet_part(s, COLUMNS(head));
	walk_packet_fields(s, p, &w, true);
	sheet_say(s, "\n");
	sheet_line(s, w.margin, COLUMNS(waits));
	if (p->ib_address && p->ib_words && !row->ib_read && (row->here || row->ib_why_not))
		sheet_say(s, "%*sthe commands it runs cannot be read%s%s\n", (int)w.margin, "",
			  row->ib_why_not ? ": " : " from here", row->ib_why_not ? row->ib_why_not : "");
	sheet_open(s, "raw", '[');
	for (size_t i = 0; s->as_json && i < p->words && i < RAW_MOST; i++)
		jw_hex(&s->json, row->raw[i]);
	sheet_close(s, ']');
	sheet_close(s, '}');
}

static void walk_packets(struct rings_sheet *r, const struct ring_view *v)
{
	struct sheet *s = &r->sheet;
	const char *language = packet_language_name(v->language);
	sheet_say_safe(s, "\n", v->ring->name, "");
	if (!v->packets.len)
		sheet_say(s, ": its packets (%s) are not known\n", language);
	else
		sheet_say(s, ": packets (%s)%s\n", language, v->state == RING_STILL ? "; it is stuck at >" : "");
	sheet_open(s, "packets", '[');
	for (size_t i = 0; i < v->packets.len; i++)
		walk_packet(r, &v->packets.data[i]);
	sheet_close(s, ']');
	if (v->packets.len && !v->pending)
		sheet_say(s, "   0x%04x  everything up to here is done\n", v->wptr);
}

static void walk_fences(struct sheet *s, const struct ring_fence *f)
{
	if (!sheet_object(s, "fences", f))
		return;
	sheet_put(s, "signaled", v_number(f->signaled));
	sheet_put(s, "emitted", v_number(f->emitted));
	sheet_close(s, '}');
}

/** A row of the table. The packets come behind all rows. */
static void walk_ring(struct rings_sheet *r, const struct ring_view *v)
{
	struct sheet *s = &r->sheet;
	const char *no_fence = r->options->fences ? "-" : NULL;
	const struct column row[] = { { "name", .width = -NAME_COLUMNS },
				      { "rptr", "  ", .digits = 5 },
				      { "wptr", "  ", .digits = 5 },
				      { "driver_wptr", "  ", .digits = 5 },
				      { "pending_words", "  ", 7 },
				      { "fences.signaled", "  ", 8, .none = no_fence },
				      { "fences.emitted", "  ", 7, .none = no_fence },
				      { "state", "  " },
				      { "unseen", ": the driver wrote packets that the GPU has not noticed" } };
	sheet_open(s, NULL, '{');
	sheet_put(s, "name", v_text(v->ring->name));
	sheet_put(s, "language", v_word(packet_language_name(v->language)));
	sheet_put(s, "words", v_number(v->ring->n));
	sheet_put(s, "rptr", v_number(v->rptr));
	sheet_put(s, "wptr", v_number(v->wptr));
	sheet_put(s, "driver_wptr", v_number(v->driver_wptr));
	sheet_put(s, "pending_words", v_number(v->pending));
	sheet_put(s, "state", v_word(ring_state_name(v->state)));
	sheet_note(s, "unseen", v_bool(v->state == RING_UNSEEN));
	walk_fences(s, v->fence);
	sheet_line(s, 0, COLUMNS(row));
	if (s->as_json)
		walk_packets(r, v);
	sheet_close(s, '}');
}

static void walk_table(struct rings_sheet *r, const struct rings_seen *g)
{
	struct sheet *s = &r->sheet;
	const bool every = r->named || r->options->all;
	size_t left = 0;
	for (size_t i = 0; i < g->n; i++)
		left += g->views[i].state == RING_IDLE && !every && g->n > RINGS_SHOWN;
	if (left < g->n)
		sheet_say(s, "\n%-*s     rptr     wptr   driver  waiting  %sstate\n", NAME_COLUMNS, "ring",
			  r->options->fences ? "signaled  emitted  " : "");
	for (size_t i = 0; i < g->n; i++)
		if (s->as_json || !left || g->views[i].state != RING_IDLE)
			walk_ring(r, &g->views[i]);
	if (left && left < g->n)
		sheet_say(s, "and %zu that are idle (--all shows them)\n", left);
	for (size_t i = 0; !s->as_json && i < g->n; i++)
		if (every || g->views[i].state != RING_IDLE)
			walk_packets(r, &g->views[i]);
}

static void walk_gpu(struct rings_sheet *r, const struct rings_seen *g)
{
	struct sheet *s = &r->sheet;
	size_t count[RING_UNSEEN + 1] = { 0 };
	for (size_t i = 0; i < g->n; i++)
		count[g->views[i].state]++;
	sheet_open(s, NULL, '{');
	sheet_put(s, "target", v_text(g->target));
	sheet_put(s, "gfx", v_known(g->gfx));
	sheet_put(s, "why_not", v_known(g->why_not));
	sheet_put(s, "between_looks_ms", v_if(g->watched_ms, v_int(g->watched_ms)));
	if (g->n) {
		sheet_say_safe(s, "", g->title, "");
		sheet_say(s, ": %zu ring%s, %zu of them idle", g->n, g->n == 1 ? "" : "s", count[RING_IDLE]);
		if (count[RING_STILL])
			sheet_say(s, ", %zu not moving in %u ms", count[RING_STILL], g->watched_ms);
		sheet_say(s, "\n");
	}
	sheet_open(s, "rings", '[');
	walk_table(r, g);
	sheet_close(s, ']');
	sheet_close(s, '}');
}

void report_rings(const struct rings_seen *seen, size_t n, bool named, const struct uh_look_options *o, FILE *out)
{
	struct rings_sheet r = { sheet_on(o->json, out), o, named };
	sheet_begin(&r.sheet, "unhang/rings/1", "gpus");
	for (size_t i = 0; i < n; i++) {
		if (i)
			sheet_say(&r.sheet, "\n");
		walk_gpu(&r, &seen[i]);
	}
	sheet_end(&r.sheet);
}
