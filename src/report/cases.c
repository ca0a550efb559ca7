// Cases in words and in JSON: beside an incident, as a list of their own, and as a draft for the base.
#include "report/cases.h"

#include "base/print.h"

static const char *const states[] = { [STATE_SOLVED] = "solved", [STATE_OPEN] = "open" };
static const char *const confirmations[] = {
	[CONFIRMED_UNSAID] = NULL,
	[CONFIRMED_ONE] = "one",
	[CONFIRMED_SEVERAL] = "several",
	[CONFIRMED_MAINTAINER] = "maintainer",
};
static const char *const nearness[] = { [LIKE_FAR] = "somewhat like", [LIKE_NEAR] = "like", [LIKE_VERY_NEAR] = "very like" };

// --- in JSON ---

static void facts_write(struct sheet *s, const char *key, const struct like_fact *facts, size_t n)
{
	sheet_each (f, s, key, n) {
		sheet_fields(s, { "what", v_word(term_kind_name(facts[f].kind)) }, { "value", v_text(facts[f].value) },
			     { "here", v_known(facts[f].here) },
			     { "worth", v_if(facts[f].worth > 0, v_decimal(facts[f].worth, 3)) });
	}
}

static void words_write(struct sheet *s, const char *key, const struct know_list *list)
{
	sheet_open(s, key, '[');
	for (; list && s->as_json; list = list->next)
		jw_str(&s->json, list->text);
	sheet_close(s, ']');
}

static void defect_write(struct sheet *s, const struct know_defect *d)
{
	sheet_fields(s, { "defect", v_text(d->head.id) }, { "title", v_text(d->title) }, { "state", v_word(states[d->state]) },
		     { "by", v_known(d->by) }, { "fix", v_known(d->fix) });
	words_write(s, "versions", d->versions);
	sheet_put(s, "confirmed", v_word(confirmations[d->confirmed]));
	words_write(s, "remedies", d->remedies);
}

void like_write(struct sheet *s, const struct diag_like *l)
{
	sheet_open(s, NULL, '{');
	defect_write(s, l->defect);
	sheet_fields(s, { "source", v_text(l->nearest->head.id) }, { "near", v_word(nearness[l->near]) },
		     { "score", v_decimal(l->score, 2) }, { "shown", v_bool(l->shown) });
	sheet_values (n, s, "sources", l->ncases)
		jw_str(&s->json, l->cases[n]->head.id);
	facts_write(s, "same", l->same, l->nsame);
	facts_write(s, "differs", l->differs, l->ndiffers);
	sheet_close(s, '}');
}

// --- in words ---

/** Facts as people call them; others by their name, with spaces. */
static const struct {
	const char *fact, *words;
} fact_words[] = {
	{ "ring", "ring" },
	{ "hip_error", "HIP error" },
	{ "hsa_status", "HSA status" },
	{ "hsa_code", "fault code" },
	{ "fault_status", "fault status" },
	{ "fault_client", "client of the fault" },
	{ "mes_message", "request to MES" },
	{ "smu_message", "request to the SMU" },
	{ "smu_message_name", "request to the SMU" },
	{ "smu_response", "answer of the SMU" },
	{ "reset_method", "kind of reset" },
	{ "ip_block", "block of the GPU" },
	{ "errno", "error code" },
	{ "gfx_missing", "missing part" },
	{ "crtc", "display controller" },
	{ "mes", "MES firmware" },
};

static void fact_name(struct text *to, struct str name)
{
	for (size_t n = 0; n < ARRAY_SIZE(fact_words); n++)
		if (str_is(name, fact_words[n].fact)) {
			text_add(to, str_z(fact_words[n].words));
			return;
		}
	for (size_t n = 0; n < name.n; n++)
		text_printf(to, "%c", name.p[n] == '_' ? ' ' : name.p[n]);
}

/** A fact for people: `fault code 0x29`, `part gfx1151`. */
static void fact_text(struct text *to, const struct like_fact *f)
{
	struct str value = f->value, name = str_split(&value, '=');
	switch (f->kind) {
	case TERM_FIRMWARE:
	case TERM_CODE:
		fact_name(to, name);
		text_printf(to, " " STR_FMT, STR_ARG(value));
		break;
	case TERM_NAME:
	case TERM_PROGRAM:
	case TERM_SETTING:
		text_add(to, f->value);
		break;
	case TERM_PROGRAM_VERSION:
		text_printf(to, STR_FMT " " STR_FMT, STR_ARG(name), STR_ARG(value));
		break;
	default:
		text_printf(to, "%s " STR_FMT, term_kind_name(f->kind), STR_ARG(f->value));
	}
	if (f->here.n)
		text_printf(to, " (here " STR_FMT ")", STR_ARG(f->here));
}

void like_facts_text(struct text *to, const struct like_fact *facts, size_t n)
{
	for (size_t f = 0; f < n; f++) {
		text_add(to, f ? S(", ") : S(""));
		fact_text(to, &facts[f]);
	}
}

/** The same in short: what a reader knows of his own machine is named by its kind alone. */
static void same_text(struct text *to, const struct diag_like *l)
{
	enum { NAMED = 3, LONGEST = 40 };
	unsigned told = 0;
	bool seen[TERM_KINDS] = { 0 };
	for (size_t n = 0; n < l->nsame && told < NAMED; n++) {
		const struct like_fact *f = &l->same[n];
		const bool by_kind = f->kind == TERM_GFX || f->kind == TERM_CLASS || f->kind == TERM_EVENT;
		const bool near = f->here.n && (f->kind == TERM_GFX || f->kind == TERM_KERNEL);
		if (f->value.n > LONGEST || (by_kind && seen[f->kind]))
			continue;
		seen[f->kind] = true;
		text_add(to, told++ ? S(", same ") : S("Same "));
		if (near)
			text_add(to, f->kind == TERM_GFX ? S("family of parts") : S("kernel series"));
		else if (by_kind)
			text_add(to, f->kind == TERM_EVENT ? S("events") : str_z(term_kind_name(f->kind)));
		else
			fact_text(to, &(struct like_fact){ f->kind, f->value, (struct str){ 0 }, 0 });
	}
}

static void versions_text(struct text *to, const struct know_defect *d)
{
	for (const struct know_list *v = d->versions; v; v = v->next)
		text_printf(to, "%s" STR_FMT, v == d->versions ? "" : ", ", STR_ARG(v->text));
}

void like_solved(struct text *to, const struct know_defect *d)
{
	static const char *const who[] = { [CONFIRMED_UNSAID] = "",
					   [CONFIRMED_ONE] = "; one user reports it",
					   [CONFIRMED_SEVERAL] = "; several confirm it",
					   [CONFIRMED_MAINTAINER] = "; a developer confirms it" };
	if (d->state == STATE_OPEN) {
		text_add(to, S("still open"));
		return;
	}
	text_printf(to, "solved by " STR_FMT, STR_ARG(d->by));
	if (d->versions) {
		text_add(to, S(": "));
		versions_text(to, d);
	}
	text_add(to, str_z(who[d->confirmed]));
}

void case_link(struct text *to, const struct know_case *c)
{
	struct str number = c->head.id, repository = str_split(&number, '#');
	if (str_starts(c->head.id, S("http")) || !number.n)
		text_add(to, c->head.id);
	else
		text_printf(to, "https://github.com/" STR_FMT "/issues/" STR_FMT, STR_ARG(repository), STR_ARG(number));
}

size_t like_row(struct text *to, const struct diag_like *l)
{
	const struct know_defect *d = l->defect;
	text_printf(to, STR_FMT ": ", STR_ARG(l->nearest->head.id));
	const struct str said = d->state == STATE_OPEN ? d->title : d->fix;
	text_add(to, said);
	text_add(to, str_ends(said, S(".")) ? S("") : S("."));
	const size_t fix = to->n;
	if (d->state == STATE_OPEN)
		text_add(to, S(" Nobody has solved it yet."));
	else if (d->confirmed == CONFIRMED_ONE)
		text_add(to, S(" One user says so."));
	text_add(to, S(" "));
	same_text(to, l);
	text_add(to, S("."));
	return fix;
}

// --- cases like an incident ---

static void like_say(const struct diag_like *l, const struct row_style *style, FILE *out)
{
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "%s: " STR_FMT " [" STR_FMT "]", nearness[l->near], STR_ARG(l->defect->title),
		    STR_ARG(l->defect->head.id));
	print_wrapped(out, text_str(&line), 2, 0, style->width ? style->width : WRAP_WIDTH);
	text_clear(&line);
	like_solved(&line, l->defect);
	wrap_row(out, style, "State", text_str(&line), 0);
	wrap_row(out, style, "Fix", l->defect->fix, 0);
	text_clear(&line);
	like_facts_text(&line, l->same, l->nsame);
	wrap_row(out, style, "Same", text_str(&line), 0);
	text_clear(&line);
	like_facts_text(&line, l->differs, l->ndiffers);
	wrap_row(out, style, "Differs", text_str(&line), 0);
	text_clear(&line);
	for (size_t n = 0; n < l->ncases; n++)
		text_printf(&line, "%s" STR_FMT, n ? ", " : "", STR_ARG(l->cases[n]->head.id));
	wrap_row(out, style, "Threads", text_str(&line), 0);
}

/** An incident, or a case, with what it is like. */
struct like_head {
	struct str id, title, class;
	const diag_likes *like;
	const struct know_defect *own; // of the case; NULL: it is an incident. Nobody needs to be told that it is like itself
};

static void report_like_of(struct sheet *s, const struct like_head *h, const struct uh_cases_options *o)
{
	enum { TOLD = 10 };
	const struct row_style style = { 2, 9, o->width };
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "id", v_text(h->id) }, { "title", v_text(h->title) }, { "class", v_known(h->class) });
	if (!o->json) {
		print_wrapped(s->json.out, h->title, 0, 0, o->width ? o->width : WRAP_WIDTH);
		fputs(h->like->len ? "" : "  No case of the base shares anything with it.\n", s->json.out);
	}
	sheet_open(s, "like", '[');
	for (size_t k = 0, told = 0; k < h->like->len; k++) {
		if (o->json)
			like_write(s, &h->like->data[k]);
		else if (h->like->data[k].defect != h->own && told++ < TOLD)
			like_say(&h->like->data[k], &style, s->json.out);
	}
	sheet_close(s, ']');
	sheet_close(s, '}');
}

void report_like(const struct diagnosis *d, const struct uh_cases_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	sheet_begin(&s, "unhang/cases/1", "incidents");
	for (size_t n = 0; n < d->ledger->incidents.len; n++) {
		const struct incident *i = d->ledger->incidents.data[n];
		report_like_of(&s, &(struct like_head){ i->id, i->title, i->cause->head.id, &i->like, NULL }, o);
	}
	sheet_end(&s);
	if (!o->json && !d->ledger->incidents.len)
		fputs("There is no incident in it.\n", out);
}

void report_like_case(const struct know *k, const struct know_case *c, const struct uh_cases_options *o, FILE *out)
{
	_cleanup_arena_ struct arena room = { 0 };
	_cleanup_vec_ diag_likes like = { 0 };
	struct sheet s = sheet_on(o->json, out);
	case_find_like(k, c, &room, &like);
	sheet_begin(&s, "unhang/cases/1", "incidents");
	report_like_of(&s, &(struct like_head){ c->head.id, c->defect->title, (struct str){ 0 }, &like, c->defect }, o);
	sheet_end(&s);
}

// --- the base ---

/** Whether a case has a fact of this kind that is like @asked; NULL: any is. */
static bool case_has(const struct know *k, const struct know_case *c, enum know_term_kind kind, const char *asked)
{
	bool has = !asked;
	for (uint32_t n = 0; n < c->nterms && !has; n++) {
		const struct know_term *t = &k->base.terms.list.data[c->terms[n]];
		has = t->kind == (uint32_t)kind && str_like(str_z(asked), t->text);
	}
	return has;
}

static void case_write(struct sheet *s, const struct know *k, const struct know_case *c)
{
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "source", v_text(c->head.id) }, { "date", v_if(c->date, v_int(c->date)) });
	sheet_each (n, s, "facts", c->nterms) {
		const struct know_term *t = &k->base.terms.list.data[c->terms[n]];
		sheet_fields(s, { "what", v_word(term_kind_name((enum know_term_kind)t->kind)) }, { "value", v_text(t->text) });
	}
	sheet_close(s, '}');
}

void report_cases(const struct know *k, const struct cases_asked *a, const struct uh_cases_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	const struct row_style style = { 2, 9, o->width };
	size_t defects = 0, cases = 0, solved = 0;
	// Cases of one defect behind one another.
	_cleanup_free_ size_t *first = mem_alloc((k->base.defects.len + 1) * sizeof(*first)), *next = NULL;
	next = mem_alloc((k->base.cases.len + 1) * sizeof(*next));
	for (size_t n = k->base.cases.len; n-- > 0;) {
		const struct know_case *c = k->base.cases.data[n];
		const bool wanted = c->defect && !(a->without && a->without[n]) && case_has(k, c, TERM_GFX, o->part) &&
				    case_has(k, c, TERM_CLASS, o->cause) && case_has(k, c, TERM_PROGRAM, o->program);
		const uint32_t id = wanted ? term_find(&k->base.terms, TERM_DEFECT, c->defect_id) : TERM_NONE;
		if (id == TERM_NONE)
			continue;
		size_t *place = &first[k->base.terms.list.data[id].defects - 1];
		next[n] = *place;
		*place = n + 1;
	}
	sheet_begin(&s, "unhang/cases/1", "defects");
	for (size_t d = 0; d < k->base.defects.len; d++) {
		const struct know_defect *one = k->base.defects.data[d];
		if (!first[d])
			continue;
		_cleanup_text_ struct text threads = { 0 }, state = { 0 };
		sheet_open(&s, NULL, '{');
		defect_write(&s, one);
		sheet_open(&s, "cases", '[');
		for (size_t c = first[d]; c; c = next[c - 1], cases++) {
			if (o->json)
				case_write(&s, k, k->base.cases.data[c - 1]);
			text_printf(&threads, "%s" STR_FMT, threads.n ? ", " : "", STR_ARG(k->base.cases.data[c - 1]->head.id));
		}
		sheet_close(&s, ']');
		sheet_close(&s, '}');
		defects++;
		solved += one->state == STATE_SOLVED;
		if (o->json)
			continue;
		like_solved(&state, one);
		fprintf(out, STR_FMT "\n", STR_ARG(one->head.id));
		wrap_row(out, &style, "Title", one->title, 0);
		wrap_row(out, &style, "State", text_str(&state), 0);
		wrap_row(out, &style, "Fix", one->fix, 0);
		wrap_row(out, &style, "Threads", text_str(&threads), 0);
	}
	sheet_end(&s);
	if (!o->json)
		fprintf(out, "%zu defect%s, of which %zu %s solved, in %zu case%s.\n", defects, defects == 1 ? "" : "s", solved,
			solved == 1 ? "is" : "are", cases, cases == 1 ? "" : "s");
}

// --- a draft ---

static void draft_key(FILE *out, const char *key, struct str value)
{
	if (!value.n)
		return;
	fprintf(out, "    %-10s ", key);
	print_safe(out, value);
	fputc('\n', out);
}

/** A word that a line of the base can hold. */
static bool is_word(struct str s) { return s.n && s.n <= 80 && !memchr(s.p, ' ', s.n) && !memchr(s.p, '\n', s.n); }

/** Adds it, once. */
static void draft_add(struct text *to, struct str word)
{
	struct str rest = text_str(to);
	if (!is_word(word))
		return;
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
		if (str_eq(one, word))
			return;
	text_printf(to, "%s" STR_FMT, to->n ? " " : "", STR_ARG(word));
}

static void draft_facts(const struct incident *i, const char *name, struct text *to)
{
	struct str value;
	for (size_t n = 0; incident_get(i, str_z(name), n, &value) && n < 8; n++)
		draft_add(to, value);
}

/** Facts that tell one defect from another: codes and names as the driver prints them, not numbers of this one time. */
static void draft_codes(const struct incident *i, struct text *names, struct text *codes)
{
	static const char coded[] = "ring fault_status fault_client hsa_status hsa_code hip_error mes_message ip_block "
				    "reset_method smu_message smu_response error firmware stop_reason";
	static const char named[] = "symbol function kernel_name thread library";
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		for (size_t f = 0; f < e->nfacts; f++) {
			_cleanup_text_ struct text pair = { 0 };
			struct str rest = str_z(coded);
			text_printf(&pair, STR_FMT "=" STR_FMT, STR_ARG(e->facts[f].name), STR_ARG(e->facts[f].value));
			for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
				if (str_eq(one, e->facts[f].name))
					draft_add(codes, text_str(&pair));
			rest = str_z(named);
			for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
				if (str_eq(one, e->facts[f].name))
					draft_add(names, e->facts[f].value);
		}
	}
}

bool report_case_draft(const struct diagnosis *d, struct str source, FILE *out)
{
	const struct incident *i = d->ledger->incidents.len ? d->ledger->incidents.data[0] : NULL;
	_cleanup_text_ struct text classes = { 0 }, events = { 0 }, programs = { 0 }, names = { 0 }, codes = { 0 }, one = { 0 };
	if (!i)
		return false;
	draft_add(&classes, i->cause->head.id);
	for (size_t n = 0; n < i->also.len; n++)
		draft_add(&classes, i->also.data[n]);
	for (size_t n = 0; n < i->events.len; n++)
		if (!i->events.data[n]->kind->quiet)
			draft_add(&events, i->events.data[n]->kind->head.id);
	draft_facts(i, "framework", &programs);
	for (size_t n = 0; n < i->processes.len; n++)
		draft_add(&programs, i->processes.data[n].name);
	draft_codes(i, &names, &codes);
	fputs("# Give the defect a short name, and fill in what # asks for. Where nobody knows a fix: state open, and no by,\n"
	      "# fix, version or confirmed. Names and programs: leave out what any log may have. unhang knowledge check tells\n"
	      "# what is missing.\n"
	      "defect NAME\n"
	      "    # title    what goes wrong, at most 110 characters\n"
	      "    state      solved\n"
	      "    # by       kernel, firmware, mesa, rocm, library, program, setting, bios, hardware or access\n"
	      "    # fix      what to do, one sentence of at most 140 characters\n"
	      "    # version  kernel 6.17.9: the first good version, or the one to go back to\n"
	      "    # confirmed  maintainer, several or one\n\n"
	      "case ",
	      out);
	print_safe(out, source);
	fputs("\n    defect     NAME\n    # date     2026-11: the month of the report\n", out);
	draft_key(out, "gfx", i->gpu.gfx);
	static const struct {
		const char *key, *fact;
	} versions[] = { { "kernel", "kernel" }, { "rocm", "rocm" }, { "mesa", "mesa_version" } };
	for (size_t n = 0; n < ARRAY_SIZE(versions); n++) {
		text_clear(&one);
		draft_facts(i, versions[n].fact, &one);
		draft_key(out, versions[n].key, text_str(&one));
	}
	draft_key(out, "program", text_str(&programs));
	draft_key(out, "class", text_str(&classes));
	draft_key(out, "events", text_str(&events));
	draft_key(out, "names", text_str(&names));
	draft_key(out, "codes", text_str(&codes));
	fputs("    # read     2026-11-17: the day on which you read it\n", out);
	return true;
}
