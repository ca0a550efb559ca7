// The driver's rings, and packets of other buffers.
#include "report/live/look.h"

enum { RINGS_SHOWN = 16, RAW_MOST = 64, NAME_COLUMNS = 16, PACKET_INDENT = 13 };

struct rings_sheet {
	struct sheet sheet;
	const struct uh_look_options *options;
	bool named; // rings were asked for by name
};

void walk_packet_fields(struct sheet *s, const struct packet *p, struct wrapping *w, bool texts)
{
	static const struct column word[] = { { "name" }, { "shown", "=" }, { "text", "(", .after = ")" } };
	sheet_each (i, s, "fields", p->nfields) {
		const struct packet_field *f = &p->fields[i];
		if (f->told && !s->as_json)
			continue;
		sheet_fields(s, { "name", v_text(f->name) }, { "value", v_hex(f->value) },
			     { "shown", f->digits ? v_hex(f->value) : v_number(f->value), TEXT_ONLY },
			     { "text", v_known(f->text) });
		sheet_wrap(s, word, texts ? 3 : 2, w);
	}
}

static const char *const access_names[] = { [PACKET_WRITES] = "write",
					    [PACKET_READS] = "read",
					    [PACKET_POLLS] = "poll",
					    [PACKET_CHANGES] = "change",
					    [PACKET_LOADS] = "load" };

/** `COMPUTE_PGM_LO = 0x00012345`, `reads GRBM_STATUS`, `loads SPI_PS_INPUT_CNTL_0 and 31 more` */
static void walk_packet_register(struct sheet *s, const struct packet_register *p, unsigned margin, unsigned width)
{
	static const char *const words[] = { [PACKET_WRITES] = "",
					     [PACKET_READS] = "reads ",
					     [PACKET_POLLS] = "polls ",
					     [PACKET_CHANGES] = "changes ",
					     [PACKET_LOADS] = "loads " };
	const struct reg none = { 0 }, *reg = p->is ? &p->is->reg : &none;
	const bool plain = !p->is || register_is_plain(reg, p->value),
		   whole = p->access == PACKET_WRITES || (p->access == PACKET_CHANGES && plain);
	struct wrapping w = { .out = s->json.out, .width = width, .margin = margin + 2 };
	sheet_fields(s, { "access", v_word(access_names[p->access]) }, { "place", v_hex(p->place) },
		     { "block", v_if(p->is, v_text(p->is ? p->is->block : S(""))) }, { "name", v_known(reg->name) },
		     { "value", v_if(p->valued, v_hex(p->value)) }, { "mask", v_if(p->mask != UINT32_MAX, v_hex(p->mask)) },
		     { "count", v_number(p->count) }, { "unknown", v_if(!p->is, v_hex(p->place)), TEXT_ONLY },
		     { "whole", v_if(p->valued && whole, v_hex(p->value)), TEXT_ONLY },
		     { "of", v_if(whole && p->mask != UINT32_MAX, v_hex(p->mask)), TEXT_ONLY },
		     { "more", v_if(p->count > 1, v_number(p->count - 1)), TEXT_ONLY });
	sheet_values (i, s, "also", p->nnames ? p->nnames - 1 : 0)
		jw_str(&s->json, p->is[i + 1].reg.name);
	w.column = sheet_say(s, "%*s%s", (int)margin, "", words[p->access]) +
		   sheet_part(s, COLUMNS_OF({ "name" }, { "unknown", "register " }, { "whole", " = ", .digits = 8 },
					    { "of", " (mask ", .after = ")" }, { "more", " and ", .after = " more" }));
	const struct register_shown shown = { reg, p->valued, p->value, p->mask };
	if (s->as_json || (p->valued && !plain))
		walk_register_fields(s, &shown, false, &w);
	sheet_say(s, "\n");
}

static void say_waits(struct wrapping *w, struct str phrase)
{
	fprintf(w->out, "%*swaits for", (int)w->margin, "");
	w->column = w->margin + 9;
	str_each (word, phrase, ' ')
		wrap_word(w, word);
	fputc('\n', w->out);
}

/** A packet with its fields. Commands that it calls are walked below it, one step further in; where they could not be read, that is
 * told. */
void walk_ring_packet(struct sheet *s, const struct ring_packet *row, unsigned width)
{
	const struct packet *p = row->packet;
	const unsigned indent = 2 * (unsigned)row->depth;
	struct wrapping w = { .out = s->json.out, .width = width, .margin = indent + PACKET_INDENT };
	sheet_fields(s, { "at", v_number(row->at) }, { "address", v_if(row->address, v_hex(row->address)) },
		     { "depth", v_number(row->depth) }, { "here", v_bool(row->here) },
		     { "language", v_word(packet_language_name(p->language)) }, { "name", v_text(p->name) },
		     { "opcode", v_number(p->opcode) }, { "known", v_bool(p->known) }, { "cut", v_bool(p->cut) },
		     { "words", v_number(p->words) }, { "repeat", v_number(row->repeat) },
		     { "waits_for", v_known(p->waits_for) });
	if (sheet_object(s, "ib", p->ib_address)) {
		sheet_fields(s, { "address", v_hex(p->ib_address) }, { "words", v_number(p->ib_words) },
			     { "vmid", v_number(row->depth ? row->vmid : p->ib_vmid) }, { "chain", v_bool(p->ib_chain) },
			     { "read", v_bool(row->ib_read) }, { "why_not", v_word(row->ib_why_not) });
		sheet_close(s, '}');
	}
	w.column = sheet_say(s, " %c %*s", row->here ? '>' : ' ', (int)indent, "") +
		   sheet_part(s, COLUMNS_OF({ "at", .digits = 4 }, { "name", "  " },
					    { "repeat", " (", .after = " times)", .least = 2 },
					    { "cut", " (its end is missing)" }));
	walk_packet_fields(s, p, &w, true);
	sheet_say(s, "\n");
	sheet_each (i, s, "registers", p->nregisters)
		walk_packet_register(s, &p->registers[i], w.margin, width);
	if (p->waits_for.n && !s->as_json)
		say_waits(&w, p->waits_for);
	if (p->ib_address && p->ib_words && !row->ib_read && (row->here || row->ib_why_not))
		sheet_say(s, "%*sthe commands it runs cannot be read%s%s\n", (int)w.margin, "",
			  row->ib_why_not ? ": " : " from here", row->ib_why_not ? row->ib_why_not : "");
	sheet_values (i, s, "raw", p->words < RAW_MOST ? p->words : RAW_MOST)
		jw_hex(&s->json, row->raw[i]);
}

static void live_rings_walk_packets(struct rings_sheet *r, const struct ring_view *v)
{
	struct sheet *s = &r->sheet;
	const char *language = packet_language_name(v->language);
	sheet_say_safe(s, "\n", v->ring->name, "");
	if (!v->packets.len)
		sheet_say(s, ": its packets (%s) are not known\n", language);
	else
		sheet_say(s, ": packets (%s)%s\n", language, v->state == RING_STILL   ? "; it is at >" :
											  v->state == RING_WORKING ? "; it moves, and was last at >" :
														     "");
	sheet_each (i, s, "packets", v->packets.len)
		walk_ring_packet(s, &v->packets.data[i], r->options->width);
	if (v->packets.len && !v->pending)
		sheet_say(s, "   0x%04x  everything up to here is done\n", v->wptr);
}

/** A row of the table. The packets come behind all rows. */
static void walk_ring(struct rings_sheet *r, const struct ring_view *v, const struct silicon_state *state)
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
				      { "verdict.state", ", " },
				      { "unseen", ": the driver wrote packets that the GPU has not noticed" } };
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "name", v_text(v->ring->name) }, { "language", v_word(packet_language_name(v->language)) },
		     { "words", v_number(v->ring->n) }, { "rptr", v_number(v->rptr) }, { "wptr", v_number(v->wptr) },
		     { "driver_wptr", v_number(v->driver_wptr) }, { "pending_words", v_number(v->pending) },
		     { "state", v_word(ring_state_name(v->state)) }, { "unseen", v_bool(v->state == RING_UNSEEN), TEXT_ONLY });
	if (sheet_object(s, "fences", v->fence)) {
		sheet_fields(s, { "signaled", v_number(v->fence->signaled) }, { "emitted", v_number(v->fence->emitted) });
		sheet_close(s, '}');
	}
	walk_state(s, state);
	sheet_line(s, 0, COLUMNS(row));
	if (!s->as_json && state)
		wrap_row(s->json.out, &(struct row_style){ .left = NAME_COLUMNS + 2 }, "", state->why, 0);
	if (s->as_json)
		live_rings_walk_packets(r, v);
	sheet_close(s, '}');
}

/** The rings of one GPU. Of many rings those that are idle are only counted in a text, and packets are shown where a ring is not idle. */
static void live_rings_walk_gpu(struct rings_sheet *r, const struct rings_seen *g)
{
	struct sheet *s = &r->sheet;
	size_t count[RING_UNSEEN + 1] = { 0 };
	for (size_t i = 0; i < g->n; i++)
		count[g->views[i].state]++;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "target", v_text(g->target) }, { "gfx", v_known(g->gfx) }, { "why_not", v_known(g->why_not) },
		     { "between_looks_ms", v_if(g->watched_ms, v_int(g->watched_ms)) });
	if (g->n) {
		sheet_say_safe(s, "", g->title, "");
		sheet_say(s, ": %zu ring%s, %zu of them idle", g->n, g->n == 1 ? "" : "s", count[RING_IDLE]);
		if (count[RING_STILL])
			sheet_say(s, ", %zu not moving", count[RING_STILL]);
		if (count[RING_STILL] && !g->states)
			sheet_say(s, " in %u ms", g->watched_ms);
		sheet_say(s, "\n");
	}
	sheet_open(s, "rings", '[');
	const bool every = r->named || r->options->all;
	size_t left = 0;
	for (size_t i = 0; i < g->n; i++)
		left += g->views[i].state == RING_IDLE && !every && g->n > RINGS_SHOWN;
	if (left < g->n)
		sheet_say(s, "\n%-*s     rptr     wptr   driver  waiting  %sstate\n", NAME_COLUMNS, "ring",
			  r->options->fences ? "signaled  emitted  " : "");
	for (size_t i = 0; i < g->n; i++)
		if (s->as_json || !left || g->views[i].state != RING_IDLE)
			walk_ring(r, &g->views[i], g->states ? &g->states[i] : NULL);
	if (left && left < g->n)
		sheet_say(s, "and %zu that are idle (--all shows them)\n", left);
	for (size_t i = 0; !s->as_json && i < g->n; i++)
		if (every || g->views[i].state != RING_IDLE)
			live_rings_walk_packets(r, &g->views[i]);
	sheet_close(s, ']');
	sheet_close(s, '}');
}

void report_rings(const struct rings_seen *seen, size_t n, bool named, const struct uh_look_options *o, FILE *out)
{
	struct rings_sheet r = { sheet_on(o->json, out), o, named };
	sheet_begin(&r.sheet, "unhang/rings/1", "gpus");
	for (size_t i = 0; i < n; i++) {
		sheet_say(&r.sheet, i ? "\n" : "");
		live_rings_walk_gpu(&r, &seen[i]);
	}
	sheet_end(&r.sheet);
}

void report_packets(const struct packets_seen *p, const struct uh_look_options *o, FILE *out)
{
	struct rings_sheet r = { sheet_on(o->json, out), o, true };
	struct sheet *s = &r.sheet;
	sheet_begin(s, "unhang/packets/1", NULL);
	sheet_fields(s, { "target", v_known(p->target) }, { "gfx", v_known(p->gfx) },
		     { "language", v_word(packet_language_name(p->view->language)) }, { "words", v_number(p->words) });
	sheet_say_safe(s, "", p->title, "");
	sheet_say(s, ": %zu words, packets (%s)\n", p->words, packet_language_name(p->view->language));
	sheet_open(s, "packets", '[');
	for (size_t i = 0; i < p->view->packets.len; i++) {
		sheet_open(s, NULL, '{');
		walk_ring_packet(s, &p->view->packets.data[i], o->width);
		sheet_close(s, '}');
	}
	sheet_end(s);
}
