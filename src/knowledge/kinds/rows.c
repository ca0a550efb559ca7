// Kinds whose heading says more than an id: rows of tables, and blocks with keys of their own.
#include "knowledge/kinds/kinds.h"
#include "knowledge/kinds/packet.h"

static void take_row(struct loader *l, const struct know_kind *kind, const struct know_block *b, struct str name,
		     struct str value)
{
	struct know_row *row = kind_object(l, kind, b, name);
	row->value = value;
	kind_take(l, &row->head);
}

/** A word and what it means; false and a problem where one is missing. */
static bool split_pair(struct loader *l, const struct know_block *b, struct str *ret_name, struct str *ret_value)
{
	struct str rest = b->id;
	*ret_name = str_word(&rest);
	*ret_value = str_trim(rest);
	if (ret_value->n)
		return true;
	know_problem(l->problems, b->file, b->line, "'" STR_FMT "' needs a name and what it means", STR_ARG(b->kind));
	return false;
}

void load_pair(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct str name, value;
	if (split_pair(l, b, &name, &value))
		take_row(l, kind, b, name, value);
}

void load_rows(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	unsigned before = l->problems->count;
	ptrdiff_t at = str_find(b->id, S(" :: "));
	struct str names = at < 0 ? b->id : str_cut(b->id, (size_t)at);
	struct str value = at < 0 ? (struct str){ 0 } : str_trim(str_from(b->id, (size_t)at + 4));
	if (!names.n || (!value.n && !kind->optional))
		know_problem(l->problems, b->file, b->line, "'%s' needs NAMES :: VALUE", kind->name);
	for (struct str one = str_word(&names); one.n && l->problems->count == before; one = str_word(&names))
		take_row(l, kind, b, one, value);
}

void load_words(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct str rest = b->id;
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
		take_row(l, kind, b, one, S(""));
}

/** month NUMBER NAMES */
void load_month(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct str rest = b->id, number = str_word(&rest);
	int64_t n;
	if (!str_number(number, &n) || n < 1 || n > 12) {
		know_problem(l->problems, b->file, b->line, "a month is: month NUMBER NAMES");
		return;
	}
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
		take_row(l, kind, b, one, number);
}

void load_anchor(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	if (b->id.n < 3)
		know_problem(l->problems, b->file, b->line, "an anchor has at least three characters");
	else
		take_row(l, kind, b, b->id, S(""));
}

/** message SUBSYSTEM LEVEL TEXT */
void load_message(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct str rest = b->id;
	struct know_signature *s = kind_object(l, kind, b, (struct str){ 0 });
	s->message = true;
	s->subsystem = str_word(&rest);
	int level = word_index(know_levels, str_word(&rest));
	if (level < 0 || word_index(know_subsystems, s->subsystem) < 0) {
		know_problem(l->problems, b->file, b->line, "a message is: message SUBSYSTEM LEVEL TEXT");
		return;
	}
	s->level = (enum know_level)level;
	s->bare = l->user;
	signature_template(l, s, str_trim(rest), b->file, b->line);
	kind_take(l, &s->head);
}

/** class NAME MEANING, and keys */
void load_class(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct str name, meaning;
	bool named = split_pair(l, b, &name, &meaning);
	struct know_class *c = kind_object(l, kind, b, name);
	c->meaning = meaning;
	if (named && kind_fill(l, kind, b, &c->head))
		kind_take(l, &c->head);
}

void load_part(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct str rest = b->id;
	struct know_part *p = kind_object(l, kind, b, b->id);
	p->revision = -1;
	uint64_t device, revision;
	struct str word = str_word(&rest);
	bool ok = str_hex(word, &device) && device < 0x10000;
	word = str_word(&rest);
	if (ok && word.n == 2 && str_hex(word, &revision)) {
		p->revision = (int)revision;
		word = str_word(&rest);
	}
	p->gfx = word;
	rest = str_trim(rest);
	if (str_starts(rest, S("apu "))) {
		p->apu = true;
		rest = str_trim(str_from(rest, 4));
	}
	p->name = rest;
	if (!ok || !str_starts(p->gfx, S("gfx")) || !p->name.n) {
		know_problem(l->problems, b->file, b->line, "a part is: part DEVICE [REVISION] GFX [apu] NAME");
		return;
	}
	p->device = (unsigned)device;
	kind_take(l, &p->head);
}

void load_names(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct know_names *n = kind_object(l, kind, b, b->id);
	int64_t number;
	for (size_t i = 0; i < b->nkeys; i++) {
		if (!str_number(b->keys[i].key, &number) || !b->keys[i].value.n)
			know_problem(l->problems, b->file, b->keys[i].line, "a line of names is: NUMBER NAME");
		else
			pair_append(&l->know->arena, &n->names, b->keys[i].key, b->keys[i].value);
	}
	kind_take(l, &n->head);
}

void load_register(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct know_register *r = kind_object(l, kind, b, b->id);
	struct know_field **tail = &r->fields;
	for (size_t i = 0; i < b->nkeys; i++) {
		struct str low = b->keys[i].key, high = str_split(&low, ':');
		int64_t h, o;
		if (!str_number(high, &h) || !str_number(low.n ? low : high, &o) || h < o || o < 0 || h > 63) {
			know_problem(l->problems, b->file, b->keys[i].line, "a field is: HIGH:LOW NAME");
			continue;
		}
		*tail = arena_alloc(&l->know->arena, sizeof(**tail));
		**tail = (struct know_field){ .name = b->keys[i].value, .high = (unsigned)h, .low = (unsigned)o };
		tail = &(*tail)->next;
	}
	kind_take(l, &r->head);
}

void load_packet(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct know_packet *p = kind_object(l, kind, b, b->id);
	if (packet_parse(&l->know->arena, b, l->problems, p))
		kind_take(l, &p->head);
}
