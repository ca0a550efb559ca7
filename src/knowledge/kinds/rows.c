// What the table of kinds cannot say: how kinds are read whose heading is more than an id (rows of tables, blocks with keys of their own),
// what a block must be besides its keys, and what follows from them.
#include "base/command.h"
#include "knowledge/kinds/kinds.h"
#include "knowledge/know_opening.h"
#include "knowledge/parameter.h"

const struct know_kind *kind_named(struct str name)
{
	const struct know_kind *kind = know_kinds;
	while (kind->name && !str_is(name, kind->name))
		kind++;
	return kind->name ? kind : NULL;
}

static void rows_row_take(struct loader *l, const struct know_kind *kind, const struct know_block *b, struct str name,
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
		rows_row_take(l, kind, b, name, value);
}

void load_rows(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	unsigned before = l->problems->count;
	struct str value = b->id, names = part_take(&value, S(" :: "));
	value = str_trim(value);
	if (!names.n || (!value.n && !kind->optional))
		know_problem(l->problems, b->file, b->line, "'%s' needs NAMES :: VALUE", kind->name);
	for (struct str one = str_word(&names); one.n && l->problems->count == before; one = str_word(&names))
		rows_row_take(l, kind, b, one, value);
}

void load_words(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct str rest = b->id;
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
		rows_row_take(l, kind, b, one, str_cut(one, 0));
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
		rows_row_take(l, kind, b, one, number);
}

void load_anchor(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	if (b->id.n < 3)
		know_problem(l->problems, b->file, b->line, "an anchor has at least three characters");
	else
		rows_row_take(l, kind, b, b->id, str_cut(b->id, 0));
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

// --- checks ---

static bool block_wrong(struct loader *l, const struct know_head *h, const char *what)
{
	know_problem(l->problems, h->file, h->line, "%s", what);
	return false;
}

bool check_signature(struct loader *l, struct know_head *object)
{
	static const char programs[] = "hsa hip collective framework container debugger";
	struct know_signature *s = (struct know_signature *)object;
	if (!s->event_id.n == !s->detail_ids)
		block_wrong(l, object, "a signature has either 'event' or 'detail'");
	if (!s->ntemplates == !s->reader.n)
		know_problem(l->problems, object->file, object->line, "'" STR_FMT "' has either 'match' or 'reader'",
			     STR_ARG(object->id));
	s->program = word_index(programs, s->subsystem) >= 0;
	// A user's signatures are looked for in every line, because users need not know about prefixes.
	s->bare |= l->user;
	return true;
}

bool check_opening(struct loader *l, struct know_head *object)
{
	struct know_opening *o = (struct know_opening *)object;
	size_t n = 0;
	for (const struct know_list *b = o->begins; b; b = b->next)
		n++;
	o->templates = arena_alloc(&l->know->arena, n * sizeof(*o->templates) + 1);
	for (const struct know_list *b = o->begins; b; b = b->next) {
		o->templates[o->ntemplates] = template_parse(&l->know->arena, b->text, object->file, object->line, l->problems);
		o->ntemplates += o->templates[o->ntemplates] != NULL;
	}
	return o->ntemplates;
}

/** What one person reported is worth knowing, but no warning. */
bool check_bad(struct loader *l, struct know_head *object)
{
	(void)l;
	struct know_bad *b = (struct know_bad *)object;
	if (b->severity == SEVERITY_UNSAID)
		b->severity = str_is(b->grade, "C") ? SEVERITY_ADVICE : SEVERITY_WARNING;
	return true;
}

bool check_parameter(struct loader *l, struct know_head *object)
{
	struct know_parameter *p = (struct know_parameter *)object;
	// No value can be written down as nothing.
	if (str_is(p->default_value, "empty"))
		p->default_value.n = 0;
	return parameter_check(p, l->problems);
}

/** A '?' behind an operand says that it may be missing. */
bool check_instruction(struct loader *l, struct know_head *object)
{
	static const char roles[] = "skip result data address base offset";
	struct know_instruction *in = (struct know_instruction *)object;
	for (const struct know_list *w = in->operand_words; w; w = w->next) {
		bool optional = str_ends(w->text, S("?"));
		int role = word_index(roles, str_cut(w->text, w->text.n - optional));
		if (role < 0 || in->noperands == KNOW_OPERANDS) {
			know_problem(l->problems, object->file, object->line, "'operands' are at most %d of: %s", KNOW_OPERANDS,
				     roles);
			return false;
		}
		in->optional[in->noperands] = optional;
		in->operands[in->noperands++] = (enum know_operand)role;
	}
	return true;
}

static struct str row_value(const struct know_head *row) { return ((const struct know_row *)row)->value; }

bool check_calibration(struct loader *l, struct know_head *object)
{
	int64_t points, percent;
	return (str_number(object->id, &points) && str_number(row_value(object), &percent) && points >= 0 && points <= 100 &&
		percent >= 0 && percent <= 100) ||
	       block_wrong(l, object, "a calibration is: calibration POINTS PERCENT, both of 0 to 100");
}

bool check_context(struct loader *l, struct know_head *object)
{
	const struct know_context *c = (const struct know_context *)object;
	for (const struct know_list *w = c->words; w; w = w->next) {
		bool upper = w->text.n < 3;
		for (size_t i = 0; i < w->text.n; i++)
			upper |= w->text.p[i] >= 'A' && w->text.p[i] <= 'Z';
		if (upper)
			return block_wrong(l, object, "words of a context are in lower case and have three letters or more");
	}
	return true;
}

bool check_fact(struct loader *l, struct know_head *object)
{
	return piece_type_named(row_value(object)) != PIECE_TYPES ||
	       block_wrong(l, object, "a fact is: fact NAMES :: word|number|pci|name|parameter|words|path");
}

bool check_frame(struct loader *l, struct know_head *object)
{
#define FRAMES "background peer waits nvidia locks runtime blocked-smu blocked-resume blocked-reset blocked-lock"
	return word_index(FRAMES, object->id) >= 0 ||
	       block_wrong(l, object, "a frame is: frame WORD PART-OF-ITS-NAME, with one of " FRAMES);
}

bool check_ring(struct loader *l, struct know_head *object)
{
	return know_packet_language(row_value(object)) != PACKETS_UNKNOWN ||
	       block_wrong(l, object, "a ring is: ring PATTERN pm4|sdma|mes|aql");
}

bool check_vendor(struct loader *l, struct know_head *object)
{
	return word_index("amd nvidia cuda", object->id) >= 0 ||
	       block_wrong(l, object, "a vendor is: vendor amd|nvidia|cuda WORD");
}

bool check_way(struct loader *l, struct know_head *object)
{
	const struct know_way *w = (const struct know_way *)object;
	return !w->run.n != !w->say.n || block_wrong(l, object, "a way has either 'run' or 'say'");
}

bool check_sign(struct loader *l, struct know_head *object)
{
	const struct know_sign *s = (const struct know_sign *)object;
	if (!s->paths && !s->when)
		return block_wrong(l, object, "a sign has a 'path' or a 'when'");
	return !s->text.n || s->paths || block_wrong(l, object, "what contains the 'text'? a 'path' is missing");
}
