// The driver's rings and the registers of GPUs. Registers are read while they are written about, because there may be gigabytes of
// them; nothing is kept.
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
		sheet_fields(s, { "name", v_text(f->name) }, { "value", v_hex(f->value) },
			     { "shown", f->digits ? v_hex(f->value) : v_number(f->value), TEXT_ONLY },
			     { "text", v_known(f->text) });
		sheet_wrap(s, word, texts ? 3 : 2, w);
	}
}

/** A packet with its fields. Commands that it calls are walked below it, one step further in; where they could not be read, that is
 * told. */
static void live_rings_walk_packet(struct rings_sheet *r, const struct ring_packet *row)
{
	struct sheet *s = &r->sheet;
	const struct packet *p = row->packet;
	const unsigned indent = 2 * (unsigned)row->depth;
	struct wrapping w = { .out = s->json.out, .width = r->options->width, .margin = indent + PACKET_INDENT };
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
	sheet_line(s, w.margin, COLUMNS_OF({ "waits_for", "waits for " }));
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
		sheet_say(s, ": packets (%s)%s\n", language, v->state == RING_STILL ? "; it is stuck at >" : "");
	sheet_each (i, s, "packets", v->packets.len)
		live_rings_walk_packet(r, &v->packets.data[i]);
	if (v->packets.len && !v->pending)
		sheet_say(s, "   0x%04x  everything up to here is done\n", v->wptr);
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
	sheet_fields(s, { "name", v_text(v->ring->name) }, { "language", v_word(packet_language_name(v->language)) },
		     { "words", v_number(v->ring->n) }, { "rptr", v_number(v->rptr) }, { "wptr", v_number(v->wptr) },
		     { "driver_wptr", v_number(v->driver_wptr) }, { "pending_words", v_number(v->pending) },
		     { "state", v_word(ring_state_name(v->state)) }, { "unseen", v_bool(v->state == RING_UNSEEN), TEXT_ONLY });
	if (sheet_object(s, "fences", v->fence)) {
		sheet_fields(s, { "signaled", v_number(v->fence->signaled) }, { "emitted", v_number(v->fence->emitted) });
		sheet_close(s, '}');
	}
	sheet_line(s, 0, COLUMNS(row));
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
			sheet_say(s, ", %zu not moving in %u ms", count[RING_STILL], g->watched_ms);
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
			walk_ring(r, &g->views[i]);
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
		live_rings_walk_packet(&r, &p->view->packets.data[i]);
		sheet_close(s, '}');
	}
	sheet_end(s);
}

// --- registers ---

enum { NAME_WIDTH_MOST = 48 };

static const char *const state_names[] = {
	[ROW_LISTED] = "listed",   [ROW_GIVEN] = "given",   [ROW_READ] = "read",
	[ROW_REFUSED] = "refused", [ROW_ABSENT] = "absent", [ROW_TIMED_OUT] = "timed-out",
};

static bool has_value(const struct row *r) { return r->state == ROW_GIVEN || r->state == ROW_READ; }

static void walk_field(struct sheet *s, const struct row *row, size_t i, struct wrapping *w)
{
	const struct reg_field f = register_field(&row->r.reg, i);
	const uint32_t value = field_of(&f, row->value);
	char bits[24];
	snprintf(bits, sizeof(bits), "%u:%u", f.low + f.bits - 1, f.low);
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "name", v_text(f.name) }, { "low", v_number(f.low) }, { "bits", v_number(f.bits) },
		     { "value", v_if(has_value(row), v_number(value)) },
		     { "bits_shown", v_if(!has_value(row), v_word(bits)), TEXT_ONLY },
		     { "small", v_if(has_value(row) && value <= 9, v_number(value)), TEXT_ONLY },
		     { "large", v_if(has_value(row) && value > 9, v_hex(value)), TEXT_ONLY });
	sheet_wrap(s, COLUMNS_OF({ "name" }, { "bits_shown", "[", .after = "]" }, { "small", "=" }, { "large", "=" }), w);
	sheet_close(s, '}');
}

/** What stands behind the name: its value, or why it has none, or where it is. */
static struct str what_of(const struct row *row, char *room, size_t size)
{
	const struct reg *r = &row->r.reg;
	if (has_value(row))
		snprintf(room, size, "0x%08x", row->value);
	else if (row->state != ROW_LISTED)
		snprintf(room, size, "%s:", state_names[row->state]);
	else if (r->kind == REGISTER_INDEX)
		snprintf(room, size, "index 0x%04x    ", r->offset);
	else
		snprintf(room, size, "base %u + 0x%05x", r->base, r->offset * 4);
	return str_z(room);
}

/** One register of one instance, with its fields by name. */
static void walk_row(struct sheet *s, const struct regs *g, const struct row *row, unsigned name_width)
{
	const struct reg *r = &row->r.reg;
	struct wrapping w = { .out = g->out, .width = g->options->width };
	char room[64];
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "block", v_text(row->r.block.name) }, { "name", v_text(r->name) },
		     { "table", v_text(register_table_name(r->table)) },
		     { "kind", v_word(r->kind == REGISTER_INDEX ? "index" : "mmio") }, { "base", v_number(r->base) },
		     { "offset", v_number(r->offset) }, { "address", v_if(row->r.addressed, v_hex(row->r.address)) },
		     { "state", v_word(state_names[row->state]) }, { "why_not", v_text(row->why_not) },
		     { "value", v_if(has_value(row), v_hex(row->value)) },
		     { "what", v_text(what_of(row, room, sizeof(room))), TEXT_ONLY });
	w.column = sheet_part(s, COLUMNS_OF({ "block", .after = "." }, { "name" }));
	w.column += sheet_say(s, "%*s", w.column < name_width ? (int)(name_width - w.column) : 0, "");
	w.column += sheet_part(s, COLUMNS_OF({ "what", "  " }));
	w.margin = w.column;
	// A text has those that are not zero, then, where all are wanted, the others.
	const bool some = !s->as_json && has_value(row), shown = s->as_json || some || g->options->all;
	uint32_t unnamed = has_value(row) ? row->value : 0;
	char word[32];
	sheet_open(s, "fields", '[');
	for (int zero = !some; shown && zero <= (g->options->all || !some); zero++)
		for (size_t i = 0; i < r->nfields; i++) {
			struct reg_field f = register_field(r, i);
			unnamed &= ~field_mask(&f);
			if (!some || (field_of(&f, row->value) == 0) == zero)
				walk_field(s, row, i, &w);
		}
	sheet_close(s, ']');
	snprintf(word, sizeof(word), "(no name: 0x%x)", unnamed);
	if (some && unnamed && r->nfields)
		wrap_word(&w, str_z(word));
	if (!s->as_json && row->why_not.n && w.column == w.margin)
		wrap_word(&w, row->why_not);
	sheet_say(s, "\n");
	sheet_close(s, '}');
}

void report_regs(const struct regs *g)
{
	struct sheet s = sheet_on(g->options->json, g->out);
	unsigned width = 0;
	for (size_t i = 0; i < g->rows.len; i++) {
		const struct named_register *r = &g->rows.data[i].r;
		unsigned n = (unsigned)(r->block.name.n + 1 + r->reg.name.n);
		width = n > width && n <= NAME_WIDTH_MOST ? n : width;
	}
	if (!s.as_json && !g->rows.len)
		return;
	sheet_begin(&s, "unhang/regs/1", NULL);
	sheet_fields(&s, { "target", v_known(g->target) }, { "gfx", v_known(g->gfx) });
	sheet_say_safe(&s, "", g->title, "");
	const struct uh_bank *b = &g->options->bank;
	const struct {
		const char *key;
		int value;
	} parts[] = { { "xcc", b->xcc }, { "se", b->se },     { "sh", b->sh },       { "instance", b->instance },
		      { "me", b->me },   { "pipe", b->pipe }, { "queue", b->queue }, { "vmid", b->vmid } };
	sheet_open(&s, "bank", '{');
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		sheet_put(&s, parts[i].key, v_count(parts[i].value));
		if (parts[i].value >= 0)
			sheet_say(&s, ", %s %d", parts[i].key, parts[i].value);
	}
	sheet_close(&s, '}');
	sheet_say(&s, "\n");
	sheet_open(&s, "registers", '[');
	for (size_t i = 0; i < g->rows.len; i++)
		walk_row(&s, g, &g->rows.data[i], width);
	sheet_end(&s);
}
