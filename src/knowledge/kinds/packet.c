// Packets of GPU queues (PM4, SDMA, MES, AQL), as knowledge/packets.know describes them: which words, which bits of them, what they mean,
// and what a packet waits for. A block is read here rather than by the table of kinds, because its fields refer to one another.
#include "knowledge/kinds/kinds.h"

static const char *const languages[] = {
	[PACKETS_PM4] = "pm4",
	[PACKETS_SDMA] = "sdma",
	[PACKETS_MES] = "mes",
	[PACKETS_AQL] = "aql",
};

enum { WORD_MAX = 255, OPCODE_MAX = KNOW_OPCODES - 1 };

enum packet_language know_packet_language(struct str name)
{
	enum packet_language l = PACKETS_PM4;
	while (l < PACKETS_UNKNOWN && !str_is(name, languages[l]))
		l++;
	return l;
}

static bool number_to(struct str s, int64_t max, int64_t *ret) { return str_number(s, ret) && *ret >= 0 && *ret <= max; }

static struct know_packet_field *packet_field(const struct know_packet *p, struct str name)
{
	struct know_packet_field *f = p->fields;
	while (f && !str_eq(f->name, name))
		f = f->next;
	return f;
}

/** NAME=VALUE[,VALUE...] of a field that stands before. */
static bool take_when(const struct know_packet *p, struct str text, struct know_packet_when *ret)
{
	struct str values = text, name = str_split(&values, '=');
	int64_t value;
	ret->field = packet_field(p, name);
	ret->n = 0;
	while (values.n) {
		if (ret->n == KNOW_PACKET_VALUES || !number_to(str_split(&values, ','), UINT32_MAX, &value))
			return false;
		ret->values[ret->n++] = (uint32_t)value;
	}
	return ret->field && ret->n;
}

/** HIGH:LOW or one bit. */
static bool take_range(struct str text, struct know_packet_field *ret)
{
	struct str low = text, high = str_split(&low, ':');
	int64_t h, l;
	if (!number_to(high, 63, &h) || !number_to(low.n ? low : high, h, &l))
		return false;
	ret->high = (unsigned)h;
	ret->low = (unsigned)l;
	return true;
}

static bool take_option(const struct know_packet *p, struct str word, struct str *rest, struct know_packet_field *f)
{
	static const char *const prints[] = {
		[PACKET_HEX] = "hex", [PACKET_ADDRESS] = "address", [PACKET_REGISTER] = "register"
	};
	const struct {
		const char *word;
		bool *to;
	} flags[] = { { "each", &f->each }, { "nonzero", &f->nonzero }, { "hidden", &f->hidden } };
	int64_t n;
	for (size_t i = 0; i < ARRAY_SIZE(prints); i++)
		if (prints[i] && str_is(word, prints[i])) {
			f->print = (enum know_packet_print)i;
			return true;
		}
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (str_is(word, flags[i].word))
			return *flags[i].to = true;
	if (str_is(word, "if"))
		return take_when(p, str_word(rest), &f->when);
	if (str_is(word, "step")) {
		const bool good = number_to(str_word(rest), WORD_MAX, &n) && n;
		f->step = good ? (unsigned)n : 0;
		return good;
	}
	if (word.p[0] == '+' && number_to(str_from(word, 1), UINT32_MAX, &n)) {
		f->plus = (uint32_t)n;
		return true;
	}
	const bool first = !f->table.n;
	f->table = word;
	return first;
}

/** NAME WORD HIGH:LOW OPTIONS */
static bool packet_add_field(struct arena *a, struct know_packet *p, struct str rest)
{
	struct know_packet_field *f = arena_alloc(a, sizeof(*f));
	int64_t word;
	f->name = str_word(&rest);
	if (!number_to(str_word(&rest), WORD_MAX, &word) || !take_range(str_word(&rest), f))
		return false;
	f->word = (unsigned)word;
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
		if (!take_option(p, one, &rest, f))
			return false;
	*LIST_END(&p->fields) = f;
	return true;
}

/** NUMBER or FIELD, with *N and +N behind it, and `if` */
static bool add_words(struct arena *a, struct know_packet *p, struct str rest)
{
	struct know_packet_words *w = arena_alloc(a, sizeof(*w));
	struct str what = str_word(&rest);
	int64_t n;
	w->times = 1;
	if (number_to(what, 1 << 16, &n))
		w->plus = (uint32_t)n;
	else if (!(w->field = packet_field(p, what)))
		return false;
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest)) {
		if (str_is(one, "if")) {
			if (!take_when(p, str_word(&rest), &w->when))
				return false;
		} else if (!number_to(str_from(one, 1), 1 << 16, &n)) {
			return false;
		} else if (one.p[0] == '*' && n) {
			w->times = (uint32_t)n;
		} else if (one.p[0] == '+') {
			w->plus += (uint32_t)n;
		} else {
			return false;
		}
	}
	*LIST_END(&p->words) = w;
	return true;
}

/** [if CONDITION] PHRASE */
static bool add_waits(struct arena *a, struct know_packet *p, struct str rest)
{
	struct know_packet_waits *w = arena_alloc(a, sizeof(*w));
	if (str_starts(rest, S("if "))) {
		str_word(&rest);
		if (!take_when(p, str_word(&rest), &w->when))
			return false;
	}
	w->say = str_trim(rest);
	*LIST_END(&p->waits) = w;
	return w->say.n;
}

/** ADDRESS [words FIELD] [vmid FIELD] [chain FIELD] */
static bool set_ib(struct know_packet *p, struct str rest)
{
	p->ib_address = packet_field(p, str_word(&rest));
	bool ok = p->ib_address;
	for (struct str one = str_word(&rest); one.n && ok; one = str_word(&rest)) {
		const struct know_packet_field *f = packet_field(p, str_word(&rest)), **to = NULL;
		if (str_is(one, "words"))
			to = &p->ib_words;
		else if (str_is(one, "vmid"))
			to = &p->ib_vmid;
		else if (str_is(one, "chain"))
			to = &p->ib_chain;
		ok = to && f;
		if (ok)
			*to = f;
	}
	return ok;
}

/** REGISTER [VALUE] [mask FIELD] [keep FIELD] [count FIELD] [still FIELD] [two FIELD] [if CONDITION] */
static bool add_access(struct arena *a, struct know_packet *p, enum packet_access access, struct str rest)
{
	struct know_packet_access *to = arena_alloc(a, sizeof(*to));
	const struct {
		const char *word;
		const struct know_packet_field **to;
	} options[] = { { "mask", &to->mask },
			{ "keep", &to->keep },
			{ "count", &to->count },
			{ "still", &to->still },
			{ "two", &to->two } };
	to->access = access;
	to->name = str_word(&rest);
	to->reg = packet_field(p, to->name);
	bool ok = to->reg || (to->name.n && to->name.p[0] >= 'A' && to->name.p[0] <= 'Z');
	for (struct str one = str_word(&rest); one.n && ok; one = str_word(&rest)) {
		if (str_is(one, "if")) {
			ok = take_when(p, str_word(&rest), &to->when);
			continue;
		}
		size_t i = 0;
		while (i < ARRAY_SIZE(options) && !str_is(one, options[i].word))
			i++;
		const struct know_packet_field **at = i < ARRAY_SIZE(options) ? options[i].to : &to->value;
		const struct know_packet_field *f = packet_field(p, at == &to->value ? one : str_word(&rest));
		ok = f && !*at;
		*at = f;
	}
	*LIST_END(&p->accesses) = to;
	return ok;
}

static bool take_key(struct arena *a, struct know_packet *p, const struct know_key *key)
{
	static const char *const accesses[] = { [PACKET_WRITES] = "writes",
						[PACKET_READS] = "reads",
						[PACKET_POLLS] = "polls",
						[PACKET_CHANGES] = "changes",
						[PACKET_LOADS] = "loads" };
	for (size_t i = 0; i < ARRAY_SIZE(accesses); i++)
		if (str_is(key->key, accesses[i]))
			return add_access(a, p, (enum packet_access)i, key->value);
	if (str_is(key->key, "field"))
		return packet_add_field(a, p, key->value);
	if (str_is(key->key, "words"))
		return add_words(a, p, key->value);
	if (str_is(key->key, "waits"))
		return add_waits(a, p, key->value);
	if (str_is(key->key, "ib"))
		return set_ib(p, key->value);
	if (str_is(key->key, "fence"))
		return (p->fence = packet_field(p, str_trim(key->value)));
	p->rare = str_is(key->value, "yes");
	return str_is(key->key, "rare") && p->rare;
}

/** LANGUAGE OPCODE[.SUB]|typeN NAME [PARTS] */
static bool take_heading(struct arena *a, struct know_packet *p, struct str rest)
{
	struct know_list **end = &p->parts;
	int64_t n;
	p->language = know_packet_language(str_word(&rest));
	struct str sub = str_word(&rest), opcode = str_split(&sub, '.');
	p->type = p->opcode = p->sub = -1;
	if (str_starts(opcode, S("type"))) {
		if (!number_to(str_from(opcode, 4), OPCODE_MAX, &n))
			return false;
		p->type = (int)n;
	} else if (number_to(opcode, OPCODE_MAX, &n)) {
		p->opcode = (int)n;
	} else {
		return false;
	}
	if (sub.n) {
		if (!number_to(sub, OPCODE_MAX, &n))
			return false;
		p->sub = (int)n;
	}
	p->name = str_word(&rest);
	for (struct str part = str_word(&rest); part.n; part = str_word(&rest)) {
		*end = arena_alloc(a, sizeof(**end));
		(*end)->text = part;
		end = &(*end)->next;
	}
	return p->language != PACKETS_UNKNOWN && p->name.n;
}

bool packet_parse(struct arena *a, const struct know_block *b, struct know_problems *problems, struct know_packet *p)
{
	if (!take_heading(a, p, b->id)) {
		know_problem(problems, b->file, b->line,
			     "a packet is: packet pm4|sdma|mes|aql OPCODE[.SUB]|typeN NAME [GFX...]");
		return false;
	}
	bool ok = true;
	for (size_t i = 0; i < b->nkeys; i++) {
		if (take_key(a, p, &b->keys[i]))
			continue;
		know_problem(problems, b->file, b->keys[i].line, "'" STR_FMT "' of packet " STR_FMT " is not understood",
			     STR_ARG(b->keys[i].key), STR_ARG(p->name));
		ok = false;
	}
	return ok;
}
