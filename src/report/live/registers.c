// Registers and their fields: those of a GPU, and those that packets name.
#include "base/cleanup.h"
#include "base/error.h"
#include "report/live/look.h"

enum { NAME_WIDTH_MOST = 48 };

static const char *const state_names[] = {
	[ROW_LISTED] = "listed",   [ROW_GIVEN] = "given",   [ROW_READ] = "read",
	[ROW_REFUSED] = "refused", [ROW_ABSENT] = "absent", [ROW_TIMED_OUT] = "timed-out",
};

static const char *const kind_names[] = {
	[REGISTER_MMIO] = "mmio", [REGISTER_INDEX] = "index", [REGISTER_BUS] = "bus", [REGISTER_DIDT] = "didt"
};

static bool has_value(const struct row *r) { return r->state == ROW_GIVEN || r->state == ROW_READ; }

static void walk_field(struct sheet *s, const struct register_shown *r, struct reg_field f, struct wrapping *w)
{
	const bool known = r->valued && field_mask(&f) & r->mask;
	const uint32_t value = field_of(&f, r->value);
	char bits[24];
	snprintf(bits, sizeof(bits), "%u:%u", f.low + f.bits - 1, f.low);
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "name", v_text(f.name) }, { "low", v_number(f.low) }, { "bits", v_number(f.bits) },
		     { "value", v_if(known, v_number(value)) }, { "bits_shown", v_if(!known, v_word(bits)), TEXT_ONLY },
		     { "small", v_if(known && value <= 9, v_number(value)), TEXT_ONLY },
		     { "large", v_if(known && value > 9, v_hex(value)), TEXT_ONLY });
	sheet_wrap(s, COLUMNS_OF({ "name" }, { "bits_shown", "[", .after = "]" }, { "small", "=" }, { "large", "=" }), w);
	sheet_close(s, '}');
}

bool register_is_plain(const struct reg *r, uint32_t value)
{
	const struct reg_field f = r->nfields == 1 ? register_field(r, 0) : (struct reg_field){ .low = 1 };
	return !r->nfields || (!f.low && !(value & ~field_mask(&f)));
}

/** A text has those that are not zero, or, where only some bits count, those of these bits; then, where all are wanted, the others. */
void walk_register_fields(struct sheet *s, const struct register_shown *r, bool all, struct wrapping *w)
{
	const bool chosen = !s->as_json && r->valued;
	uint32_t unnamed = r->valued ? r->value & r->mask : 0;
	char word[32];
	sheet_open(s, "fields", '[');
	for (int rest = !chosen; rest <= (all || !chosen); rest++)
		for (size_t i = 0; i < r->reg->nfields; i++) {
			const struct reg_field f = register_field(r->reg, i);
			const bool first = r->mask == UINT32_MAX ? field_of(&f, r->value) : field_mask(&f) & r->mask;
			unnamed &= ~field_mask(&f);
			if (!chosen || first == !rest)
				walk_field(s, r, f, w);
		}
	sheet_close(s, ']');
	snprintf(word, sizeof(word), "(no name: 0x%x)", unnamed);
	if (chosen && unnamed && r->reg->nfields)
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
	else if (r->kind == REGISTER_INDEX || r->kind == REGISTER_DIDT)
		snprintf(room, size, "index 0x%04x    ", r->offset);
	else if (r->base == REGISTER_ABSOLUTE)
		snprintf(room, size, "bus 0x%08x  ", r->offset * 4);
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
		     { "table", v_if(r->table, v_text(r->table ? register_table_name(r->table) : S(""))) },
		     { "kind", v_word(kind_names[r->kind]) }, { "base", v_if(r->base != REGISTER_ABSOLUTE, v_number(r->base)) },
		     { "offset", v_number(r->offset) }, { "address", v_if(row->r.addressed, v_hex(row->r.address)) },
		     { "state", v_word(state_names[row->state]) }, { "why_not", v_text(row->why_not) },
		     { "value", v_if(has_value(row), v_hex(row->value)) },
		     { "what", v_text(what_of(row, room, sizeof(room))), TEXT_ONLY });
	w.column = sheet_part(s, COLUMNS_OF({ "block", .after = "." }, { "name" }));
	w.column += sheet_say(s, "%*s", w.column < name_width ? (int)(name_width - w.column) : 0, "");
	w.column += sheet_part(s, COLUMNS_OF({ "what", "  " }));
	w.margin = w.column;
	const struct register_shown shown = { r, has_value(row), row->value, UINT32_MAX };
	if (s->as_json || shown.valued || g->options->all)
		walk_register_fields(s, &shown, g->options->all, &w);
	if (!s->as_json && row->why_not.n && w.column == w.margin)
		wrap_word(&w, row->why_not);
	sheet_say(s, "\n");
	sheet_close(s, '}');
}

enum { WAVE_FIELDS_INDENT = 16 };

void walk_wave_fields(struct sheet *s, const struct know *k, struct str gfx, const struct wave *w, unsigned width)
{
	_cleanup_vec_ struct part_tables tables = { 0 };
	_cleanup_error_ struct uh_error *err = part_tables_of(k, gfx, &tables);
	sheet_open(s, "hardware_fields", '{');
	for (size_t i = 0; !err && w->layout && i < w->layout->nregisters; i++) {
		char name[64], key[32];
		struct reg r;
		snprintf(name, sizeof(name), "SQ_WAVE_" STR_FMT, STR_ARG(w->layout->registers[i]));
		if (!register_find(tables.data[0].table, str_z(name), &r) || register_is_plain(&r, w->hwregs[i]))
			continue;
		const struct register_shown shown = { &r, true, w->hwregs[i], UINT32_MAX };
		struct wrapping wrap = { .out = s->json.out, .width = width, .margin = WAVE_FIELDS_INDENT + 1 };
		str_copy(key, sizeof(key), w->layout->registers[i]);
		if (!s->as_json && !w->hwregs[i])
			continue;
		sheet_open(s, key, '{');
		wrap.column = sheet_say(s, "%*s:", WAVE_FIELDS_INDENT, key);
		walk_register_fields(s, &shown, false, &wrap);
		sheet_say(s, "\n");
		sheet_close(s, '}');
	}
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
