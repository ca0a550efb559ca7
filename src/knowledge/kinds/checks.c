// What a block must be besides what the table of its kind says, and what follows from its keys.
#include "base/command.h"
#include "knowledge/kinds/kinds.h"
#include "knowledge/know_opening.h"
#include "knowledge/parameter.h"

static bool wrong(struct loader *l, const struct know_head *h, const char *what)
{
	know_problem(l->problems, h->file, h->line, "%s", what);
	return false;
}

bool check_signature(struct loader *l, struct know_head *object)
{
	static const char programs[] = "hsa hip collective framework container debugger";
	struct know_signature *s = (struct know_signature *)object;
	if (!s->event_id.n == !s->detail_ids)
		wrong(l, object, "a signature has either 'event' or 'detail'");
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
		p->default_value = S("");
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

static struct str value_of(const struct know_head *row) { return ((const struct know_row *)row)->value; }

bool check_calibration(struct loader *l, struct know_head *object)
{
	int64_t points, percent;
	return (str_number(object->id, &points) && str_number(value_of(object), &percent) && points >= 0 && points <= 100 &&
		percent >= 0 && percent <= 100) ||
	       wrong(l, object, "a calibration is: calibration POINTS PERCENT, both of 0 to 100");
}

bool check_context(struct loader *l, struct know_head *object)
{
	const struct know_context *c = (const struct know_context *)object;
	for (const struct know_list *w = c->words; w; w = w->next) {
		bool upper = w->text.n < 3;
		for (size_t i = 0; i < w->text.n; i++)
			upper |= w->text.p[i] >= 'A' && w->text.p[i] <= 'Z';
		if (upper)
			return wrong(l, object, "words of a context are in lower case and have three letters or more");
	}
	return true;
}

bool check_fact(struct loader *l, struct know_head *object)
{
	return piece_type_named(value_of(object)) != PIECE_TYPES ||
	       wrong(l, object, "a fact is: fact NAMES :: word|number|pci|name|parameter|words|path");
}

bool check_frame(struct loader *l, struct know_head *object)
{
#define FRAMES "background peer waits nvidia blocked-smu blocked-resume blocked-reset blocked-lock"
	return word_index(FRAMES, object->id) >= 0 ||
	       wrong(l, object, "a frame is: frame WORD PART-OF-ITS-NAME, with one of " FRAMES);
}

bool check_ring(struct loader *l, struct know_head *object)
{
	return know_packet_language(value_of(object)) != PACKETS_UNKNOWN ||
	       wrong(l, object, "a ring is: ring PATTERN pm4|sdma|mes|aql");
}

bool check_vendor(struct loader *l, struct know_head *object)
{
	return word_index("amd nvidia cuda", object->id) >= 0 || wrong(l, object, "a vendor is: vendor amd|nvidia|cuda WORD");
}

bool check_way(struct loader *l, struct know_head *object)
{
	const struct know_way *w = (const struct know_way *)object;
	return !w->run.n != !w->say.n || wrong(l, object, "a way has either 'run' or 'say'");
}

bool check_sign(struct loader *l, struct know_head *object)
{
	const struct know_sign *s = (const struct know_sign *)object;
	if (!s->paths && !s->when)
		return wrong(l, object, "a sign has a 'path' or a 'when'");
	return !s->text.n || s->paths || wrong(l, object, "what contains the 'text'? a 'path' is missing");
}
