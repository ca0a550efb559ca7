#include "report/live/regs.h"

enum { NAME_WIDTH_MOST = 48 };

static const char *const state_names[] = {
	[ROW_LISTED] = "listed",   [ROW_GIVEN] = "given",   [ROW_READ] = "read",
	[ROW_REFUSED] = "refused", [ROW_ABSENT] = "absent", [ROW_TIMED_OUT] = "timed-out",
};

static bool has_value(const struct row *r) { return r->state == ROW_GIVEN || r->state == ROW_READ; }

static void walk_bank(struct sheet *s, const struct uh_bank *b)
{
	const struct {
		const char *key;
		int value;
	} parts[] = { { "xcc", b->xcc }, { "se", b->se },     { "sh", b->sh },       { "instance", b->instance },
		      { "me", b->me },   { "pipe", b->pipe }, { "queue", b->queue }, { "vmid", b->vmid } };
	sheet_open(s, "bank", '{');
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		sheet_put(s, parts[i].key, v_count(parts[i].value));
		if (parts[i].value >= 0)
			sheet_say(s, ", %s %d", parts[i].key, parts[i].value);
	}
	sheet_close(s, '}');
}

static void walk_field(struct sheet *s, const struct row *row, size_t i, struct wrapping *w)
{
	static const struct column word[] = {
		{ "name" }, { "bits_shown", "[", .after = "]" }, { "small", "=" }, { "large", "=" }
	};
	const struct reg_field f = register_field(&row->r.reg, i);
	const uint32_t value = field_of(&f, row->value);
	char bits[24];
	snprintf(bits, sizeof(bits), "%u:%u", f.low + f.bits - 1, f.low);
	sheet_open(s, NULL, '{');
	sheet_put(s, "name", v_text(f.name));
	sheet_put(s, "low", v_number(f.low));
	sheet_put(s, "bits", v_number(f.bits));
	sheet_put(s, "value", v_if(has_value(row), v_number(value)));
	sheet_note(s, "bits_shown", v_if(!has_value(row), v_word(bits)));
	sheet_note(s, "small", v_if(has_value(row) && value <= 9, v_number(value)));
	sheet_note(s, "large", v_if(has_value(row) && value > 9, v_hex(value)));
	sheet_wrap(s, COLUMNS(word), w);
	sheet_close(s, '}');
}

/** A text has those that are not zero, then, where all are wanted, the others. */
static void walk_fields(struct sheet *s, const struct row *row, bool all, struct wrapping *w)
{
	const struct reg *r = &row->r.reg;
	const bool some = !s->as_json && has_value(row), shown = s->as_json || some || all;
	uint32_t unnamed = has_value(row) ? row->value : 0;
	char word[32];
	sheet_open(s, "fields", '[');
	for (int zero = !some; shown && zero <= (all || !some); zero++)
		for (size_t i = 0; i < r->nfields; i++) {
			struct reg_field f = register_field(r, i);
			unnamed &= ~field_mask(&f);
			if (!some || (field_of(&f, row->value) == 0) == zero)
				walk_field(s, row, i, w);
		}
	sheet_close(s, ']');
	snprintf(word, sizeof(word), "(no name: 0x%x)", unnamed);
	if (some && unnamed && r->nfields)
		wrap_word(w, str_z(word));
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

static void walk_row(struct sheet *s, const struct regs *g, const struct row *row, unsigned name_width)
{
	static const struct column head[] = { { "block", .after = "." }, { "name" } };
	static const struct column what[] = { { "what", "  " } };
	const struct reg *r = &row->r.reg;
	struct wrapping w = { .out = g->out, .width = g->options->width };
	char room[64];
	sheet_open(s, NULL, '{');
	sheet_put(s, "block", v_text(row->r.block.name));
	sheet_put(s, "name", v_text(r->name));
	sheet_put(s, "table", v_text(register_table_name(r->table)));
	sheet_put(s, "kind", v_word(r->kind == REGISTER_INDEX ? "index" : "mmio"));
	sheet_put(s, "base", v_number(r->base));
	sheet_put(s, "offset", v_number(r->offset));
	sheet_put(s, "address", v_if(row->r.addressed, v_hex(row->r.address)));
	sheet_put(s, "state", v_word(state_names[row->state]));
	sheet_put(s, "why_not", v_text(row->why_not));
	sheet_put(s, "value", v_if(has_value(row), v_hex(row->value)));
	sheet_note(s, "what", v_text(what_of(row, room, sizeof(room))));
	w.column = sheet_part(s, COLUMNS(head));
	w.column += sheet_say(s, "%*s", w.column < name_width ? (int)(name_width - w.column) : 0, "");
	w.column += sheet_part(s, COLUMNS(what));
	w.margin = w.column;
	walk_fields(s, row, g->options->all, &w);
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
	sheet_put(&s, "target", v_known(g->target));
	sheet_put(&s, "gfx", v_known(g->gfx));
	sheet_say_safe(&s, "", g->title, "");
	walk_bank(&s, &g->options->bank);
	sheet_say(&s, "\n");
	sheet_open(&s, "registers", '[');
	for (size_t i = 0; i < g->rows.len; i++)
		walk_row(&s, g, &g->rows.data[i], width);
	sheet_end(&s);
}
