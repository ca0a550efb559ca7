// The status registers of a GPU on one screen: which units are busy on which XCC, and of each register what is not as at rest. Copies of a
// register that tell the same are one line.
#include "base/cleanup.h"
#include "report/live/look.h"

enum { STATUS_INDENT = 2, STATUS_LABEL = 11, COPIES_MOST = 64 };

/** The copies of a block, such as XCCs, by their numbers: a bit each. */
struct copies {
	const char *word; // XCC, engine
	uint64_t is, all;
};

/** ` on XCC 0-2, 5`; nothing where it is all of them. */
static void add_copies(struct text *to, const struct copies *c)
{
	const char *comma = "";
	if (c->is == c->all)
		return;
	text_printf(to, " on %s ", c->word);
	for (unsigned i = 0; i < COPIES_MOST; i++) {
		unsigned last = i;
		if (!(c->is >> i & 1))
			continue;
		while (last + 1 < COPIES_MOST && c->is >> (last + 1) & 1)
			last++;
		text_printf(to, last > i ? "%s%u-%u" : "%s%u", comma, i, last);
		comma = ", ";
		i = last;
	}
}

static uint64_t copy_bit(const struct row *r) { return UINT64_C(1) << (r->r.block.instance % COPIES_MOST); }

static bool of_xcc(const struct row *r) { return str_is(r->r.block.ip, "gc"); }

/** The XCCs of which nothing was read. */
static struct copies xccs_unread(const struct regs *g)
{
	struct copies c = { .word = "XCC" };
	uint64_t seen = 0;
	for (size_t i = 0; i < g->rows.len; i++) {
		const struct row *r = &g->rows.data[i];
		c.all |= of_xcc(r) ? copy_bit(r) : 0;
		seen |= of_xcc(r) && r->state == ROW_READ ? copy_bit(r) : 0;
	}
	c.is = c.all & ~seen;
	return c;
}

static bool one_register(const struct row *a, const struct row *b)
{
	return str_eq(a->r.reg.name, b->r.reg.name) && str_eq(a->r.block.ip, b->r.block.ip);
}

// --- what is not as at rest ---

static bool set_at_rest(const struct know *k, struct str name)
{
	for (size_t i = 0; i < k->watches.len; i++)
		for (const struct know_list *l = k->watches.data[i]->rest; l; l = l->next)
			if (str_glob(l->text, name))
				return true;
	return false;
}

/** Whether a unit is busy while this field is clear. */
static bool tells_idle(const struct know *k, struct str name)
{
	for (size_t i = 0; i < k->units.len; i++)
		for (const struct know_list *l = k->units.data[i]->idle; l; l = l->next)
			if (str_eq(l->text, name))
				return true;
	return false;
}

static bool field_tells(const struct know *k, const struct reg *r, const struct reg_field *f, uint32_t value)
{
	char name[128];
	snprintf(name, sizeof(name), STR_FMT "." STR_FMT, STR_ARG(r->name), STR_ARG(f->name));
	return value ? !set_at_rest(k, str_z(name)) : tells_idle(k, str_z(name));
}

static const char plain_value[] = "(plain)";

/** What a value tells: the fields that are not as at rest, one behind the other. */
static void add_status_words(struct text *to, const struct know *k, const struct row *row)
{
	const struct reg *r = &row->r.reg;
	const bool ones = row->value == UINT32_MAX, plain = !ones && register_is_plain(r, row->value);
	if (row->state == ROW_READ && (ones || (plain && row->value)))
		text_add(to, ones ? S("(all ones: no answer)") : str_z(plain_value));
	for (size_t i = 0; i < r->nfields && row->state == ROW_READ && !ones && !plain; i++) {
		const struct reg_field f = register_field(r, i);
		const uint32_t value = field_of(&f, row->value);
		if (!field_tells(k, r, &f, value))
			continue;
		text_printf(to, "%s" STR_FMT, to->n ? " " : "", STR_ARG(f.name));
		if (value != 1)
			text_printf(to, value > 9 ? "=0x%x" : "=%u", value);
	}
}

/** The copies of a register that tell @telling, and whether their whole values are the same. */
static struct copies copies_of(const struct regs *g, const struct know *k, const struct row *row, struct str telling,
			       bool *ret_same)
{
	struct copies c = { .word = str_is(row->r.block.ip, "gc") ? "XCC" : "engine" };
	*ret_same = true;
	for (size_t i = 0; i < g->rows.len; i++) {
		_cleanup_text_ struct text other = { 0 };
		const struct row *r = &g->rows.data[i];
		if (!one_register(r, row))
			continue;
		c.all |= copy_bit(r);
		add_status_words(&other, k, r);
		if (!str_eq(text_str(&other), telling))
			continue;
		c.is |= copy_bit(r);
		*ret_same &= r->value == row->value;
	}
	return c;
}

/** `: 0x1184 on XCC 0-1, 0x118c on XCC 2`: the values of a register without fields, where its copies differ. */
static void add_values(struct text *to, const struct regs *g, const struct row *row, struct copies c)
{
	const char *comma = ": ";
	uint64_t left = c.is;
	for (size_t i = 0; i < g->rows.len && left; i++) {
		const struct row *first = &g->rows.data[i];
		if (!one_register(first, row) || !(left & copy_bit(first)))
			continue;
		c.is = 0;
		for (size_t b = i; b < g->rows.len; b++)
			if (one_register(&g->rows.data[b], row) && g->rows.data[b].value == first->value)
				c.is |= left & copy_bit(&g->rows.data[b]);
		text_printf(to, "%s0x%x", comma, first->value);
		add_copies(to, &c);
		comma = ", ";
		left &= ~c.is;
	}
}

/** `0x80403028 GRBM_STATUS on XCC 3: TA_BUSY SPI_BUSY`, once for all copies that tell the same. */
static bool status_row(struct sheet *s, const struct know *k, const struct regs *g, const struct row *row)
{
	_cleanup_text_ struct text telling = { 0 }, line = { 0 };
	bool same;
	add_status_words(&telling, k, row);
	const struct copies c = copies_of(g, k, row, text_str(&telling), &same);
	if (!telling.n || c.is & (copy_bit(row) - 1))
		return telling.n;
	const bool plain = str_is(text_str(&telling), plain_value);
	const struct row_style style = { .left = STATUS_INDENT, .label = STATUS_LABEL, .width = g->options->width };
	char value[16];
	snprintf(value, sizeof(value), same ? "0x%08x" : "differ", row->value);
	text_add(&line, row->r.reg.name);
	if (!plain || same)
		add_copies(&line, &c);
	if (!plain)
		text_printf(&line, ": " STR_FMT, STR_ARG(text_str(&telling)));
	else if (!same)
		add_values(&line, g, row, c);
	wrap_row(s->json.out, &style, value, text_str(&line), 2);
	return true;
}

// --- units ---

static const struct row *row_in(const struct regs *g, struct str name, unsigned instance)
{
	for (size_t i = 0; i < g->rows.len; i++) {
		const struct row *r = &g->rows.data[i];
		if (r->state == ROW_READ && r->value != UINT32_MAX && r->r.block.instance == instance &&
		    str_eq(r->r.reg.name, name))
			return r;
	}
	return NULL;
}

/** Whether any field of @l, REGISTER.FIELD, has @wanted in this copy of its block. */
static bool any_field(const struct regs *g, const struct know_list *l, unsigned instance, bool wanted)
{
	for (; l; l = l->next) {
		struct str field = l->text, reg = str_split(&field, '.');
		const struct row *r = row_in(g, reg, instance);
		struct reg_field f;
		if (r && register_field_find(&r->r.reg, field, &f) && !field_of(&f, r->value) == !wanted)
			return true;
	}
	return false;
}

/** Whether a copy engine is busy; of parts that have one table for all of them, copy @n of the first's registers is that of engine @n. */
static bool engine_busy(const struct regs *g, const struct know *k, const struct know_unit *u)
{
	char name[16];
	if (any_field(g, u->idle, 0, false))
		return true;
	for (unsigned n = 1; n < COPIES_MOST; n++) {
		snprintf(name, sizeof(name), "SDMA%u", n);
		for (size_t i = 0; i < k->units.len && str_is(u->head.id, name); i++)
			if (any_field(g, k->units.data[i]->idle, n, false))
				return true;
	}
	return false;
}

/** `busy: the wave launcher (SPI) on XCC 3, ...` */
static void status_units(struct sheet *s, const struct know *k, const struct regs *g)
{
	struct copies c = xccs_unread(g);
	const uint64_t seen = c.all & ~c.is;
	_cleanup_text_ struct text line = { 0 };
	for (size_t i = 0; i < k->units.len; i++) {
		const struct know_unit *u = k->units.data[i];
		c.is = u->engine && engine_busy(g, k, u) ? c.all : 0; // an engine is of the whole GPU
		for (unsigned x = 0; x < COPIES_MOST && !u->engine; x++)
			c.is |= seen >> x & 1 && any_field(g, u->busy, x, true) ? UINT64_C(1) << x : 0;
		if (!c.is)
			continue;
		text_printf(&line, "%s" STR_FMT, line.n ? "; " : "", STR_ARG(u->title));
		add_copies(&line, &c);
	}
	const struct row_style style = { .left = STATUS_INDENT, .label = STATUS_LABEL, .width = g->options->width };
	if (!line.n) {
		text_add(&line, S("nothing"));
		c.is = seen;
		add_copies(&line, &c);
	}
	if (seen)
		wrap_row(s->json.out, &style, "busy", text_str(&line), 0);
}

// --- all of it ---

/** Whether the row is the first of its name that is not told in a line of its own. */
static bool first_named(const struct regs *g, const bool *told, size_t at)
{
	for (size_t b = 0; b < g->rows.len; b++)
		if (str_eq(g->rows.data[b].r.reg.name, g->rows.data[at].r.reg.name) && (told[b] || b < at) &&
		    (told[b] || g->rows.data[b].state == g->rows.data[at].state))
			return false;
	return !told[at];
}

/** The names of registers in this state that have nothing to tell, once each; of a GPU of which none was read, how many. */
static void status_names(struct sheet *s, const struct regs *g, const bool *told, enum row_state state, const char *label)
{
	_cleanup_text_ struct text line = { 0 };
	const struct copies dark = xccs_unread(g);
	struct str why = { 0 };
	size_t n = 0;
	bool xccs = false;
	for (size_t i = 0; i < g->rows.len; i++) {
		const struct row *row = &g->rows.data[i];
		n += row->state == state;
		if (row->state == state && of_xcc(row) && dark.is & copy_bit(row)) {
			xccs = true;
			why = row->why_not;
			continue;
		}
		if (row->state != state || !first_named(g, told, i))
			continue;
		text_printf(&line, "%s" STR_FMT, line.n ? ", " : "", STR_ARG(row->r.reg.name));
		why = row->why_not;
	}
	if (n > 1 && n == g->rows.len && state != ROW_READ) {
		text_free(&line);
		text_printf(&line, "all %zu registers", n);
	} else if (xccs) {
		text_printf(&line, "%sall", line.n ? "; " : "");
		add_copies(&line, &dark);
	}
	if (why.n)
		text_printf(&line, ": " STR_FMT, STR_ARG(why));
	const struct row_style style = { .left = STATUS_INDENT, .label = STATUS_LABEL, .width = g->options->width };
	wrap_row(s->json.out, &style, label, text_str(&line), 0);
}

void report_status(const struct regs *g, const struct know *k)
{
	static const enum row_state unread[] = { ROW_REFUSED, ROW_ABSENT, ROW_TIMED_OUT };
	_cleanup_vec_ VEC(bool) told = { 0 };
	struct sheet s = sheet_on(false, g->out);
	if (!g->rows.len)
		return;
	sheet_say_safe(&s, "", g->title, "\n");
	status_units(&s, k, g);
	for (size_t i = 0; i < g->rows.len; i++)
		vec_push(&told, status_row(&s, k, g, &g->rows.data[i]));
	status_names(&s, g, told.data, ROW_READ, "quiet");
	for (size_t i = 0; i < ARRAY_SIZE(unread); i++)
		status_names(&s, g, told.data, unread[i], "not read");
}
