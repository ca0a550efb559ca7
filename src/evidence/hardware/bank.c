#include "evidence/hardware/bank.h"

#include "knowledge/kinds/kinds.h"

enum {
	BITS_MAX = 32,
	GFX_FIRST = 0x3a, // of the extended error codes with which the power controller reports for others
	GFX_LAST = 0x3e,
	SOCKETS_LOW = 2, // bits of the socket's number in the upper half of IPID; the next one is in the lower
};

enum bank_register bank_register(struct str name)
{
	static const char *const names[] = { "STATUS", "ADDR", "MISC", "IPID", "SYND", "MISC0" };
	static const enum bank_register which[] = { BANK_STATUS, BANK_ADDR, BANK_MISC, BANK_IPID, BANK_SYND, BANK_MISC };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_is(name, names[i]))
			return which[i];
	return BANK_REGISTERS;
}

static uint64_t bank_bits(uint64_t value, unsigned high, unsigned low)
{
	return value >> low & (high - low >= 63 ? UINT64_MAX : (1ull << (high - low + 1)) - 1);
}

/** What the conditions of the tables may ask for. */
struct bank_view {
	struct bank_fact {
		struct str name;
		struct str value;
	} facts[BITS_MAX];
	size_t n;
	char rooms[BITS_MAX][24];
};

static bool bank_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct bank_view *v = ctx;
	for (size_t i = 0; i < v->n; i++)
		if (!index && str_eq(v->facts[i].name, name)) {
			*ret = v->facts[i].value;
			return true;
		}
	return false;
}

static void bank_note(struct bank_view *v, struct str name, struct str value)
{
	if (v->n < BITS_MAX && value.n)
		v->facts[v->n++] = (struct bank_fact){ name, value };
}

static void note_bits(const struct know *k, const struct error_bank *b, struct bank_view *v)
{
	const struct know_register *r = know_register(k, S("ACA_STATUS"));
	for (const struct know_field *f = r ? r->fields : NULL; f && v->n < BITS_MAX; f = f->next)
		bank_note(v, f->name, code_text(bank_bits(b->value[BANK_STATUS], f->high, f->low), v->rooms[v->n]));
}

/** `0x1` compares with 1, too. */
static const struct know_error_severity *bank_severity(const struct know *k, const struct fact_view *view)
{
	for (size_t i = 0; i < k->error_severities.len; i++)
		if (condition_eval(k->error_severities.data[i]->when, view) == TRUTH_YES)
			return k->error_severities.data[i];
	return NULL;
}

static const struct know_afid *bank_afid(const struct know *k, const struct fact_view *view)
{
	for (size_t i = 0; i < k->afids.len; i++)
		if (condition_eval(k->afids.data[i]->when, view) == TRUTH_YES)
			return k->afids.data[i];
	return NULL;
}

static const struct know_bank *bank_find(const struct know *k, uint64_t ipid)
{
	for (size_t i = 0; i < k->banks.len; i++)
		if (k->banks.data[i]->hardware == bank_bits(ipid, 43, 32) && k->banks.data[i]->type == bank_bits(ipid, 63, 48))
			return k->banks.data[i];
	return NULL;
}

/** What the lower half of IPID names; empty: no table has it. */
static struct str bank_instance(const struct know_bank *bank, uint64_t ipid, struct arena *a)
{
	const uint64_t id = bank_bits(ipid, 31, 2) << 2;
	for (const struct know_list *l = bank->instances; l; l = l->next) {
		struct str rest = l->text, first = str_word(&rest), name = str_word(&rest), number = str_word(&rest);
		uint64_t base, step = 0;
		int64_t count = 1;
		if (!str_hex(first, &base) || (number.n && (!str_number(number, &count) || !str_hex(str_trim(rest), &step))))
			continue;
		if (id == base && count == 1)
			return name;
		if (step && id >= base && (id - base) % step == 0 && (id - base) / step < (uint64_t)count)
			return arena_printf(a, STR_FMT "%llu", STR_ARG(name), (unsigned long long)((id - base) / step));
	}
	return (struct str){ 0 };
}

/** Where it is: module, die, instance, and what the table's fields say. Parts without AMD's numbers have no module and die there. */
static void add_bank_place(const struct know *k, const struct know_bank *bank, const struct error_bank *b, struct str instance,
			   struct event *e, struct arena *a)
{
	const struct know_register *r = bank && bank->fields.n ? know_register(k, bank->fields) : NULL;
	const uint64_t ipid = b->value[BANK_IPID], upper = bank_bits(ipid, 47, 44);
	if (!b->unnumbered) {
		event_add_number(e, a, "bank_socket", (int64_t)(bank_bits(ipid, 0, 0) << SOCKETS_LOW | (upper & 3)));
		event_add_number(e, a, "bank_die", (int64_t)(upper >> SOCKETS_LOW));
	}
	event_add(e, S("bank_instance"), instance, FACT_TEXT);
	for (const struct know_field *f = r ? r->fields : NULL; f; f = f->next) {
		uint64_t value = 0;
		unsigned at = 0;
		bool first = true;
		for (const struct know_field *same = r->fields; same; same = same->next) {
			if (!str_eq(same->name, f->name))
				continue;
			first &= at || same == f;
			value |= bank_bits(ipid, same->high, same->low) << at;
			at += same->high - same->low + 1;
		}
		if (first)
			event_add_number(e, a, arena_printf(a, "bank_" STR_FMT "%c", STR_ARG(f->name), 0).p, (int64_t)value);
	}
}

/** The unit of a graphics error, which SYND numbers, and the driver's name for its block; neither is added where no table has them. */
static void add_bank_unit(const struct know *k, const struct know_bank *bank, struct str instance, uint64_t synd,
			  struct event *e)
{
	struct str unit = { 0 };
	for (const struct know_pair *p = bank->units; p && !unit.n; p = p->next)
		if (instance.n && str_glob(p->name, instance))
			unit = know_name(k, p->value, (int64_t)bank_bits(synd, 7, 0));
	event_add(e, S("ras_block"), str_word(&unit), FACT_TEXT);
	event_add(e, S("bank_unit"), str_trim(unit), FACT_TEXT);
}

/** The error's name and the kind of error that it is. */
static struct str bank_error(const struct know_bank *bank, uint64_t code, struct str *ret_kind)
{
	*ret_kind = bank ? bank->kind : S("device");
	for (const struct know_pair *p = bank ? bank->errors : NULL; p; p = p->next) {
		struct str rest = p->value, name = str_word(&rest);
		int64_t number;
		if (!str_number(p->name, &number) || (uint64_t)number != code)
			continue;
		*ret_kind = str_trim(rest).n ? str_trim(rest) : *ret_kind;
		return name;
	}
	return (struct str){ 0 };
}

static void add_severity(const struct bank_view *v, const struct know_error_severity *severity, struct event *e,
			 struct arena *a)
{
	_cleanup_text_ struct text bits = { 0 };
	for (size_t i = 0; i < v->n; i++)
		if (str_is(v->facts[i].value, "0x1"))
			text_printf(&bits, "%s" STR_FMT, bits.n ? " " : "", STR_ARG(v->facts[i].name));
	event_add_text(e, a, "bank_bits", text_str(&bits));
	if (severity)
		event_add(e, S("bank_severity"), severity->is, FACT_TEXT);
}

void bank_facts(const struct know *k, const struct error_bank *b, enum bank_register newest, struct event *e, struct arena *a)
{
	const bool all = newest == BANK_REGISTERS;
	struct bank_view v = { .n = 0 };
	const struct fact_view view = { .get = bank_get, .ctx = &v };
	if (!bank_has(b, BANK_STATUS) && !b->boot.n)
		return;
	note_bits(k, b, &v);
	bank_note(&v, S("threshold"), b->threshold ? S("yes") : S("no"));
	bank_note(&v, S("boot"), b->boot);
	const struct know_error_severity *severity = b->boot.n ? NULL : bank_severity(k, &view);
	// Registers that say the opposite of who reports them were lost.
	const bool lost = b->grave && severity && str_is(severity->is, "corrected");
	severity = lost ? NULL : severity;
	if ((all && !b->boot.n) || newest == BANK_STATUS)
		add_severity(&v, severity, e, a);
	if (bank_has(b, BANK_MISC) && (all || newest == BANK_MISC))
		event_add_number(e, a, "bank_count", (int64_t)bank_bits(b->value[BANK_MISC], 43, 32));
	if (bank_has(b, BANK_ADDR) && b->value[BANK_ADDR] && (all || newest == BANK_ADDR))
		event_add_code(e, a, "bank_address", b->value[BANK_ADDR]);
	if (!bank_has(b, BANK_IPID) && !b->boot.n)
		return;
	const uint64_t ipid = b->value[BANK_IPID], code = bank_bits(b->value[BANK_STATUS], 21, 16);
	const struct know_bank *bank = b->boot.n ? NULL : bank_find(k, ipid);
	const struct str instance = bank ? bank_instance(bank, ipid, a) : (struct str){ 0 };
	// Of these codes AMD's tool asks SYND what failed, whatever the bank is.
	const bool others = code >= GFX_FIRST && code <= GFX_LAST && !b->boot.n;
	struct str kind, error = bank_error(bank, code, &kind);
	if (!b->boot.n && !b->threshold && (all || newest == BANK_IPID)) { // whose registers the driver made up
		event_add(e, S("bank"), bank ? bank->head.id : S("not public"), FACT_TEXT);
		event_add(e, S("bank_title"), bank ? bank->title : S("a block that is not public"), FACT_TEXT);
		event_add(e, S("ras_block"), bank ? bank->block : (struct str){ 0 }, FACT_TEXT);
		event_add(e, S("bank_error"), lost ? (struct str){ 0 } : error.n ? error : S("not public"), FACT_TEXT);
		add_bank_place(k, bank, b, instance, e, a);
	}
	if (others && !bank_has(b, BANK_SYND))
		return;
	if (others && bank && (all || newest == BANK_SYND))
		add_bank_unit(k, bank, instance, b->value[BANK_SYND], e);
	if ((!all && newest != (others ? BANK_SYND : BANK_IPID)) || b->unnumbered || lost)
		return;
	if (others && bank)
		kind = bank->kind;
	bank_note(&v, S("kind"), kind);
	bank_note(&v, S("severity"), severity ? severity->is : (struct str){ 0 });
	const struct know_afid *afid = bank_afid(k, &view);
	if (!afid)
		return;
	event_add(e, S("bank_afid"), afid->head.id, FACT_NUMBER);
	event_add(e, S("bank_afid_title"), afid->title, FACT_TEXT);
}
