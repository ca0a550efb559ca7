// Cases as files have them, and each with its defect when all are there.
#include "knowledge/cases/cases.h"

#include <stdlib.h>

#include "knowledge/kinds/kinds.h"

// --- reading a case ---

/** A case as it stands in its file; struct know_case is what is kept of it. */
struct case_block {
	struct know_head head;
	struct str defect, date, read;
	struct str words[TERM_DEFECT];
};
#define WORDS(name, kind)                                                                                                      \
	{                                                                                                                      \
		name, KEY_TEXT, offsetof(struct case_block, words) + (kind) * sizeof(struct str)                               \
	}

const struct kind_key case_keys[] = {
	{ "defect", KEY_TEXT, offsetof(struct case_block, defect), .required = true },
	{ "date", KEY_TEXT, offsetof(struct case_block, date) },
	WORDS("gfx", TERM_GFX),
	WORDS("kernel", TERM_KERNEL),
	WORDS("firmware", TERM_FIRMWARE),
	WORDS("rocm", TERM_ROCM),
	WORDS("mesa", TERM_MESA),
	WORDS("program", TERM_PROGRAM),
	WORDS("class", TERM_CLASS),
	WORDS("events", TERM_EVENT),
	WORDS("names", TERM_NAME),
	WORDS("codes", TERM_CODE),
	WORDS("settings", TERM_SETTING),
	WORDS("differs", TERM_DIFFERS),
	{ "read", KEY_TEXT, offsetof(struct case_block, read), .required = true },
	{ 0 },
};

/** 2025-11 or 2025-11-20 as 20251100, 20251120; 0: it is no date. */
static uint32_t date_number(struct str text)
{
	struct str rest = text;
	int64_t numbers[3] = { 0 };
	for (size_t n = 0; n < 3 && (n < 2 || rest.n); n++) {
		const struct str part = str_split(&rest, '-');
		if (part.n != (n ? 2 : 4) || str_run(part, char_digit) != part.n)
			return 0;
		for (size_t i = 0; i < part.n; i++)
			numbers[n] = numbers[n] * 10 + (part.p[i] - '0');
	}
	const bool right = !rest.n && numbers[1] >= 1 && numbers[1] <= 12 && numbers[2] <= 31 && numbers[0] >= 2000;
	return right ? (uint32_t)(numbers[0] * 10000 + numbers[1] * 100 + numbers[2]) : 0;
}

const struct kind_key source_keys[] = {
	{ "says", KEY_TEXT, offsetof(struct know_source, says), .required = true },
	{ "confirms", KEY_TEXT, offsetof(struct know_source, confirms), .required = true, .choices = "yes partly no" },
	{ 0 },
};
const struct kind_key defect_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_defect, title), .required = true },
	{ "state", KEY_CHOICE, offsetof(struct know_defect, state), .required = true, .choices = "solved open" },
	{ "by", KEY_TEXT, offsetof(struct know_defect, by),
	  .choices = "kernel firmware mesa rocm library program setting bios hardware access" },
	{ "fix", KEY_TEXT, offsetof(struct know_defect, fix) },
	{ "version", KEY_LIST, offsetof(struct know_defect, versions) },
	{ "confirmed", KEY_CHOICE, offsetof(struct know_defect, confirmed), .choices = "unsaid one several maintainer" },
	{ "remedy", KEY_WORDS, offsetof(struct know_defect, remedies), .refers = "remedy" },
	{ 0 },
};
static void case_wrong(struct loader *l, const struct know_head *h, const char *what, struct str word)
{
	know_problem(l->problems, h->file, h->line, "'" STR_FMT "': %s", STR_ARG(word), what);
}

/** Why a word cannot be a fact of this kind; NULL: it can. */
static const char *word_wrong(enum know_term_kind kind, struct str word)
{
	const bool pair = memchr(word.p, '=', word.n) && word.p[0] != '=' && word.p[word.n - 1] != '=';
	switch (kind) {
	case TERM_KERNEL:
	case TERM_ROCM:
	case TERM_MESA:
		return char_digit(word.p[0]) ? NULL : "a version begins with a digit";
	case TERM_FIRMWARE:
		return pair ? NULL : "a firmware is NAME=VERSION";
	case TERM_CODE:
		return pair && !str_starts(word, S("words=")) ? NULL : "a code is FACT=VALUE";
	case TERM_SETTING:
	case TERM_DIFFERS:
		return pair ? NULL : "NAME=VALUE is needed";
	case TERM_NAME:
		return word.n >= 3 ? NULL : "a name has three letters or more";
	default:
		return NULL;
	}
}

static bool words_have(struct str words, struct str word)
{
	for (struct str one = str_word(&words); one.n; one = str_word(&words))
		if (str_like(word, str_split(&one, '=')))
			return true;
	return false;
}

/** The words of a block as terms. */
static void case_terms(struct loader *l, struct know_case *c, const struct case_block *b)
{
	_cleanup_vec_ VEC(uint32_t) terms = { 0 };
	struct know_terms *all = &l->know->base.terms;
	for (int kind = 0; kind < TERM_DEFECT; kind++) {
		struct str rest = b->words[kind];
		for (struct str word = str_word(&rest); word.n; word = str_word(&rest)) {
			const char *wrong = word_wrong((enum know_term_kind)kind, word);
			struct str name = word, version = word;
			if (wrong)
				case_wrong(l, &c->head, wrong, word);
			// A program's name is told once.
			if (kind == TERM_NAME && words_have(b->words[TERM_PROGRAM], word))
				continue;
			if (kind == TERM_PROGRAM)
				name = str_split(&version, '=');
			vec_push(&terms, term_intern(all, (enum know_term_kind)kind, name));
			if (name.n < word.n)
				vec_push(&terms, term_intern(all, TERM_PROGRAM_VERSION, word));
		}
	}
	c->terms = arena_copy(&l->know->arena, terms.data, terms.len * sizeof(terms.data[0]));
	c->nterms = (uint32_t)terms.len;
}

void load_case(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct case_block block = { .head = { .id = b->id, .file = b->file, .line = b->line } };
	struct know_case *c = kind_object(l, kind, b, b->id);
	const unsigned before = l->problems->count;
	if (!b->id.n || memchr(b->id.p, ' ', b->id.n) || (!memchr(b->id.p, '#', b->id.n) && !memchr(b->id.p, '/', b->id.n)))
		know_problem(l->problems, b->file, b->line, "a case is: case OWNER/REPO#NUMBER");
	if (!kind_fill(l, kind, b, &block.head))
		return;
	c->defect_id = block.defect;
	c->date = block.date.n ? date_number(block.date) : 0;
	if ((block.date.n && !c->date) || !date_number(block.read))
		case_wrong(l, &c->head, "'date' is YEAR-MONTH or YEAR-MONTH-DAY, and so is 'read'", b->id);
	case_terms(l, c, &block);
	if (l->problems->count == before)
		kind_take(l, &c->head);
}

bool check_defect(struct loader *l, struct know_head *object)
{
	enum { TITLE_MOST = 110, FIX_MOST = 140 };
	const struct know_defect *d = (const struct know_defect *)object;
	const unsigned before = l->problems->count;
	const bool told = d->by.n || d->fix.n || d->confirmed != CONFIRMED_UNSAID || d->remedies || d->versions;
	if (str_is(object->id, "NAME"))
		case_wrong(l, object, "a draft: give the defect a name of its own, here and in its cases", object->id);
	if (d->title.n > TITLE_MOST || d->fix.n > FIX_MOST)
		case_wrong(l, object, "'title' has 110 characters at most, 'fix' 140", object->id);
	if (d->state == STATE_SOLVED && (!d->by.n || !d->fix.n || d->confirmed == CONFIRMED_UNSAID))
		case_wrong(l, object, "what is solved has 'by', 'fix' and 'confirmed'", object->id);
	if (d->state == STATE_OPEN && told)
		case_wrong(l, object, "what is open has no 'by', 'fix', 'version', 'confirmed' or 'remedy'", object->id);
	for (const struct know_list *v = d->versions; v; v = v->next) {
		struct str rest = v->text;
		str_word(&rest);
		if (!str_trim(rest).n)
			case_wrong(l, object, "'version' is PART VERSION", object->id);
	}
	return l->problems->count == before;
}

// --- when all are there ---

static bool gfx_is_known(const struct know *k, struct str gfx)
{
	return list_find_of(k->parts.data, k->parts.len, p, str_eq(p->gfx, gfx)) != NULL;
}

/** What a fact of a case has to be the name of; NULL: anything, or it is there. */
static const char *term_lacks(const struct know *k, const struct know_term *t)
{
	switch ((enum know_term_kind)t->kind) {
	case TERM_CLASS:
		return know_class(k, t->text) ? NULL : "class";
	case TERM_EVENT:
		return know_event(k, t->text) ? NULL : "event";
	case TERM_GFX:
		return gfx_is_known(k, t->text) ? NULL : "part";
	default:
		return NULL;
	}
}

/** What is found out of each term beside the base. */
struct term_seen {
	const char *lacks; // as term_lacks()
	uint32_t counted;  // the last defect that was counted, and 1
};

static void case_resolve(struct know *k, struct know_case *c, struct term_seen *seen, struct know_problems *problems)
{
	const uint32_t id = term_find(&k->base.terms, TERM_DEFECT, c->defect_id);
	const uint32_t place = id == TERM_NONE ? 0 : k->base.terms.list.data[id].defects;
	c->defect = place ? k->base.defects.data[place - 1] : NULL;
	if (!c->defect) {
		know_problem(problems, c->head.file, c->head.line, "'defect': there is no defect '" STR_FMT "'",
			     STR_ARG(c->defect_id));
		return;
	}
	c->defect->ncases++;
	c->defect->newest = c->date > c->defect->newest ? c->date : c->defect->newest;
	for (uint32_t n = 0; n < c->nterms; n++) {
		struct know_term *t = &k->base.terms.list.data[c->terms[n]];
		struct term_seen *one = &seen[c->terms[n]];
		t->defects += one->counted != place;
		one->counted = place;
		if (one->lacks)
			know_problem(problems, c->head.file, c->head.line, "there is no %s '" STR_FMT "'", one->lacks,
				     STR_ARG(t->text));
	}
}

void cases_resolve(struct know *k, struct know_problems *problems)
{
	kind_keep_last(k, kind_named(S("defect")), TERM_DEFECT, problems);
	kind_keep_last(k, kind_named(S("case")), TERM_SOURCE, problems);
	for (size_t n = 0; n < k->base.commons.len; n++)
		term_intern(&k->base.terms, TERM_COMMON, k->base.commons.data[n]->head.id);
	_cleanup_free_ struct term_seen *seen = mem_alloc(k->base.terms.list.len * sizeof(*seen) + 1);
	for (size_t n = 0; n < k->base.terms.list.len; n++)
		seen[n].lacks = term_lacks(k, &k->base.terms.list.data[n]);
	for (size_t n = 0; n < k->base.cases.len; n++)
		case_resolve(k, k->base.cases.data[n], seen, problems);
	terms_settle(&k->base);
	for (size_t n = 0; n < k->base.defects.len; n++)
		if (!k->base.defects.data[n]->ncases)
			know_problem(problems, k->base.defects.data[n]->head.file, k->base.defects.data[n]->head.line,
				     "'" STR_FMT "' has no case", STR_ARG(k->base.defects.data[n]->head.id));
}
