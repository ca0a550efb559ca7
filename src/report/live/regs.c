#include "base/print.h"
#include "report/live/regs.h"
#include "report/text/wrap.h"

enum { NAME_WIDTH_MOST = 48 };

static const char *const state_names[] = {
	[ROW_LISTED] = "listed",   [ROW_GIVEN] = "given",   [ROW_READ] = "read",
	[ROW_REFUSED] = "refused", [ROW_ABSENT] = "absent", [ROW_TIMED_OUT] = "timed-out",
};

static bool has_value(const struct row *r) { return r->state == ROW_GIVEN || r->state == ROW_READ; }

// --- JSON ---

static void jw_bank_number(struct json *j, const char *key, int v)
{
	jw_key(j, key);
	v < 0 ? jw_null(j) : jw_int(j, v);
}

static void jw_bank(struct json *j, const struct uh_bank *b)
{
	jw_key(j, "bank");
	jw_open(j, '{');
	jw_bank_number(j, "xcc", b->xcc);
	jw_bank_number(j, "se", b->se);
	jw_bank_number(j, "sh", b->sh);
	jw_bank_number(j, "instance", b->instance);
	jw_bank_number(j, "me", b->me);
	jw_bank_number(j, "pipe", b->pipe);
	jw_bank_number(j, "queue", b->queue);
	jw_bank_number(j, "vmid", b->vmid);
	jw_close(j, '}');
}

static void jw_row(struct json *j, const struct row *row)
{
	const struct reg *r = &row->r.reg;
	jw_open(j, '{');
	jw_field(j, "block", row->r.block.name);
	jw_field(j, "name", r->name);
	jw_field(j, "table", register_table_name(r->table));
	jw_field(j, "kind", r->kind == REGISTER_INDEX ? S("index") : S("mmio"));
	jw_number(j, "base", r->base);
	jw_number(j, "offset", r->offset);
	jw_key(j, "address");
	row->r.addressed ? jw_hex(j, row->r.address) : jw_null(j);
	jw_field(j, "state", str_z(state_names[row->state]));
	jw_field(j, "why_not", row->why_not);
	jw_key(j, "value");
	has_value(row) ? jw_hex(j, row->value) : jw_null(j);
	jw_key(j, "fields");
	jw_open(j, '[');
	for (size_t i = 0; i < r->nfields; i++) {
		struct reg_field f = register_field(r, i);
		jw_open(j, '{');
		jw_field(j, "name", f.name);
		jw_number(j, "low", f.low);
		jw_number(j, "bits", f.bits);
		jw_key(j, "value");
		has_value(row) ? jw_unsigned(j, field_of(&f, row->value)) : jw_null(j);
		jw_close(j, '}');
	}
	jw_close(j, ']');
	jw_close(j, '}');
}

static void regs_json(const struct regs *g)
{
	struct json j = { .out = g->out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/regs/1"));
	jw_field(&j, "target", g->target.n ? g->target : (struct str){ 0 });
	jw_field(&j, "gfx", g->gfx.n ? g->gfx : (struct str){ 0 });
	jw_bank(&j, &g->options->bank);
	jw_key(&j, "registers");
	jw_open(&j, '[');
	for (size_t i = 0; i < g->rows.len; i++)
		jw_row(&j, &g->rows.data[i]);
	jw_close(&j, ']');
	jw_close(&j, '}');
}

// --- text ---

static void text_field(struct wrapping *w, const struct reg_field *f, const struct row *row)
{
	char word[160];
	uint32_t value = field_of(f, row->value);
	if (!has_value(row))
		snprintf(word, sizeof(word), "%.*s[%u:%u]", STR_ARG(f->name), f->low + f->bits - 1, f->low);
	else
		snprintf(word, sizeof(word), value > 9 ? "%.*s=0x%x" : "%.*s=%u", STR_ARG(f->name), value);
	wrap_word(w, str_z(word));
}

/** Fields that are not zero, then, where all are wanted, the others. */
static void text_fields(struct wrapping *w, const struct row *row, bool all)
{
	const struct reg *r = &row->r.reg;
	uint32_t unnamed = has_value(row) ? row->value : 0;
	for (int zero = 0; zero <= all; zero++)
		for (size_t i = 0; i < r->nfields; i++) {
			struct reg_field f = register_field(r, i);
			unnamed &= ~field_mask(&f);
			if ((has_value(row) && field_of(&f, row->value)) == !zero)
				text_field(w, &f, row);
		}
	char word[32];
	snprintf(word, sizeof(word), "(no name: 0x%x)", unnamed);
	if (unnamed && r->nfields)
		wrap_word(w, str_z(word));
}

static void text_row(const struct regs *g, const struct row *row, unsigned name_width)
{
	const struct reg *r = &row->r.reg;
	char name[160], what[160];
	snprintf(name, sizeof(name), "%.*s.%.*s", STR_ARG(row->r.block.name), STR_ARG(r->name));
	if (has_value(row))
		snprintf(what, sizeof(what), "0x%08x", row->value);
	else if (row->state != ROW_LISTED)
		snprintf(what, sizeof(what), "%s:", state_names[row->state]);
	else if (r->kind == REGISTER_INDEX)
		snprintf(what, sizeof(what), "index 0x%04x    ", r->offset);
	else
		snprintf(what, sizeof(what), "base %u + 0x%05x", r->base, r->offset * 4);
	struct wrapping w = { .out = g->out, .width = g->options->width };
	w.column = (unsigned)fprintf(g->out, "%-*s  %s", (int)name_width, name, what);
	w.margin = w.column;
	if (has_value(row) || g->options->all)
		text_fields(&w, row, g->options->all);
	while (row->why_not.n && w.column == w.margin)
		wrap_word(&w, row->why_not);
	fputc('\n', g->out);
}

static void text_bank(const struct regs *g)
{
	const struct uh_bank *b = &g->options->bank;
	const struct {
		const char *name;
		int value;
	} parts[] = { { "xcc", b->xcc }, { "se", b->se },     { "sh", b->sh },       { "instance", b->instance },
		      { "me", b->me },   { "pipe", b->pipe }, { "queue", b->queue }, { "vmid", b->vmid } };
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].value >= 0)
			fprintf(g->out, ", %s %d", parts[i].name, parts[i].value);
}

static void regs_text(const struct regs *g)
{
	unsigned width = 0;
	if (!g->rows.len)
		return;
	print_safe(g->out, g->title);
	text_bank(g);
	fputc('\n', g->out);
	for (size_t i = 0; i < g->rows.len; i++) {
		const struct named_register *r = &g->rows.data[i].r;
		unsigned n = (unsigned)(r->block.name.n + 1 + r->reg.name.n);
		width = n > width && n <= NAME_WIDTH_MOST ? n : width;
	}
	for (size_t i = 0; i < g->rows.len; i++)
		text_row(g, &g->rows.data[i], width);
}

void report_regs(const struct regs *g)
{
	if (g->options->json)
		regs_json(g);
	else
		regs_text(g);
}
