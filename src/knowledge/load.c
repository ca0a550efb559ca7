// From blocks to struct know. What a block may hold is a table here; docs/KNOWLEDGE.md is its text for people.
#include "knowledge/know.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/door.h"
#include "knowledge/matcher.h"
#include "knowledge/packet.h"
#include "knowledge/parameter.h"
#include "knowledge/resolve.h"
#include "knowledge/update.h"
#include "knowledge_version.h"

enum field_kind {
	FIELD_TEXT,
	FIELD_LIST,
	FIELD_WORDS,
	FIELD_WHEN,
	FIELD_NUMBER,
	FIELD_CHOICE,
	FIELD_FLAG,
	FIELD_SET,
	FIELD_NEXT,
	FIELD_MATCH
};

struct field {
	const char *key;
	enum field_kind kind;
	size_t offset;
	bool required;
	const char *choices; // of a FIELD_CHOICE, or of the words of a FIELD_TEXT; separated by spaces
};

struct loader {
	struct know *know;
	struct know_problems *problems;
	bool user; // the file is not one of ours
};

struct kind {
	const char *name;
	size_t size;
	const struct field *fields;
	void (*add)(struct loader *l, void *object);
};

static const char subsystems[] = "ring mes smu psp ras display kfd memory reset init power pcie iommu irq media "
				 "firmware kernel driver hsa hip collective framework container debugger";
static const char program_subsystems[] = "hsa hip collective framework container debugger";
static const char levels[] = "info warning error";

#define AT(type, member) offsetof(struct type, member)

static const struct field event_fields[] = {
	{ "title", FIELD_TEXT, AT(know_event, title), .required = true },
	{ "say", FIELD_TEXT, AT(know_event, say) },
	{ "many", FIELD_TEXT, AT(know_event, many) },
	{ "tag", FIELD_TEXT, AT(know_event, tag) },
	{ "opens", FIELD_CHOICE, AT(know_event, opens), .choices = "later yes context" },
	{ "in-reset", FIELD_CHOICE, AT(know_event, in_reset), .choices = "cause effect artefact" },
	{ "needs-frame", FIELD_CHOICE, AT(know_event, needs_frame), .choices = "no yes near" },
	{ "hang", FIELD_FLAG, AT(know_event, hang) },
	{ "means-reset", FIELD_FLAG, AT(know_event, means_reset) },
	{ "needs-gpu", FIELD_FLAG, AT(know_event, needs_gpu) },
	{ "once", FIELD_FLAG, AT(know_event, once) },
	{ "quiet", FIELD_FLAG, AT(know_event, quiet) },
	{ "note", FIELD_FLAG, AT(know_event, note) },
	{ "any-vendor", FIELD_FLAG, AT(know_event, any_vendor) },
	{ "of-rank", FIELD_FLAG, AT(know_event, of_rank) },
	{ "told-hang", FIELD_FLAG, AT(know_event, told_hang) },
	{ "gap", FIELD_NUMBER, AT(know_event, gap) },
	{ "keep", FIELD_NUMBER, AT(know_event, keep) },
	{ 0 },
};
static const struct field signature_fields[] = {
	{ "match", FIELD_MATCH, 0 },
	{ "reader", FIELD_TEXT, AT(know_signature, reader) },
	{ "event", FIELD_TEXT, AT(know_signature, event_id) },
	{ "detail", FIELD_WORDS, AT(know_signature, detail_ids) },
	{ "subsystem", FIELD_TEXT, AT(know_signature, subsystem), .required = true, .choices = subsystems },
	{ "level", FIELD_CHOICE, AT(know_signature, level), .required = true, .choices = levels },
	{ "set", FIELD_SET, AT(know_signature, sets) },
	{ "bare", FIELD_FLAG, AT(know_signature, bare) },
	{ "beside", FIELD_TEXT, AT(know_signature, beside), .choices = "error" },
	{ "of-writer", FIELD_CHOICE, AT(know_signature, of_other), .choices = "yes no" },
	{ 0 },
};
static const struct field cause_fields[] = {
	{ "from", FIELD_WORDS, AT(know_cause, from), .required = true },
	{ "when", FIELD_WHEN, AT(know_cause, when) },
	{ "beside", FIELD_WORDS, AT(know_cause, beside) },
	{ "without", FIELD_WORDS, AT(know_cause, without) },
	{ "tier", FIELD_NUMBER, AT(know_cause, tier), .required = true },
	{ "confidence", FIELD_NUMBER, AT(know_cause, confidence), .required = true },
	{ "severity", FIELD_NUMBER, AT(know_cause, severity), .required = true },
	{ "title", FIELD_TEXT, AT(know_cause, title), .required = true },
	{ "explain", FIELD_TEXT, AT(know_cause, explain), .required = true },
	{ "fault", FIELD_TEXT, AT(know_cause, fault), .required = true, .choices = "job node driver unknown" },
	{ "next", FIELD_NEXT, AT(know_cause, next_steps) },
	{ 0 },
};
static const char severities[] = "critical warning advice ok";
#define CHANGE_FIELDS(type)                                                                                                    \
	{ "set", FIELD_SET, AT(type, change.sets) }, { "clear", FIELD_SET, AT(type, change.clears) },                          \
		{ "env", FIELD_SET, AT(type, change.envs) },                                                                   \
	{                                                                                                                      \
		"drop", FIELD_WORDS, AT(type, change.drops)                                                                    \
	}
static const struct field remedy_fields[] = {
	{ "for", FIELD_WORDS, AT(know_remedy, for_classes), .required = true },
	{ "when", FIELD_WHEN, AT(know_remedy, when) },
	{ "unless", FIELD_WHEN, AT(know_remedy, unless) },
	{ "kind", FIELD_TEXT, AT(know_remedy, kind), .required = true, .choices = "cure workaround experiment" },
	{ "title", FIELD_TEXT, AT(know_remedy, title), .required = true },
	{ "do", FIELD_LIST, AT(know_remedy, steps), .required = true },
	{ "undo", FIELD_TEXT, AT(know_remedy, undo) },
	{ "cost", FIELD_TEXT, AT(know_remedy, cost) },
	{ "risk", FIELD_TEXT, AT(know_remedy, risk) },
	{ "until", FIELD_TEXT, AT(know_remedy, until) },
	{ "grade", FIELD_TEXT, AT(know_remedy, grade), .required = true, .choices = "A B C" },
	{ "source", FIELD_TEXT, AT(know_remedy, source), .required = true },
	{ "if", FIELD_TEXT, AT(know_remedy, condition_text) },
	{ "obsolete", FIELD_WHEN, AT(know_remedy, obsolete) },
	{ "applied", FIELD_WHEN, AT(know_remedy, applied) },
	{ "verify", FIELD_TEXT, AT(know_remedy, verify) },
	{ "last", FIELD_FLAG, AT(know_remedy, last) },
	{ "takes", FIELD_CHOICE, AT(know_remedy, takes), .choices = "nothing restart reboot install hardware" },
	CHANGE_FIELDS(know_remedy),
	{ 0 },
};
static const struct field check_fields[] = {
	{ "each", FIELD_TEXT, AT(know_check, each) },
	{ "severity", FIELD_CHOICE, AT(know_check, severity), .required = true, .choices = severities },
	{ "when", FIELD_WHEN, AT(know_check, when), .required = true },
	{ "unless", FIELD_WHEN, AT(know_check, unless) },
	{ "title", FIELD_TEXT, AT(know_check, title), .required = true },
	{ "seen", FIELD_TEXT, AT(know_check, seen) },
	{ "why", FIELD_TEXT, AT(know_check, why) },
	{ "remedy", FIELD_TEXT, AT(know_check, remedy_id) },
	{ "do", FIELD_LIST, AT(know_check, steps) },
	{ "undo", FIELD_TEXT, AT(know_check, undo) },
	{ "cost", FIELD_TEXT, AT(know_check, cost) },
	{ "risk", FIELD_TEXT, AT(know_check, risk) },
	{ "until", FIELD_TEXT, AT(know_check, until) },
	{ "verify", FIELD_TEXT, AT(know_check, verify) },
	{ "grade", FIELD_TEXT, AT(know_check, grade), .choices = "A B C" },
	{ "source", FIELD_TEXT, AT(know_check, source) },
	{ "hides", FIELD_WORDS, AT(know_check, hides) },
	{ "without-gpu", FIELD_FLAG, AT(know_check, without_gpu) },
	CHANGE_FIELDS(know_check),
	{ 0 },
};
static const struct field bad_fields[] = {
	{ "for", FIELD_WORDS, AT(know_bad, for_classes), .required = true },
	{ "when", FIELD_WHEN, AT(know_bad, when), .required = true },
	{ "title", FIELD_TEXT, AT(know_bad, title), .required = true },
	{ "good", FIELD_TEXT, AT(know_bad, good) },
	{ "why", FIELD_TEXT, AT(know_bad, why) },
	{ "undo", FIELD_TEXT, AT(know_bad, undo) },
	{ "cost", FIELD_TEXT, AT(know_bad, cost) },
	{ "verify", FIELD_TEXT, AT(know_bad, verify) },
	{ "remedy", FIELD_TEXT, AT(know_bad, remedy_id) },
	{ "severity", FIELD_CHOICE, AT(know_bad, severity), .choices = severities },
	{ "grade", FIELD_TEXT, AT(know_bad, grade), .required = true, .choices = "A B C" },
	{ "source", FIELD_TEXT, AT(know_bad, source), .required = true },
	{ 0 },
};
static const struct field setting_fields[] = {
	{ "for", FIELD_WORDS, AT(know_setting, for_classes) },
	{ "when", FIELD_WHEN, AT(know_setting, when), .required = true },
	{ "unless", FIELD_WHEN, AT(know_setting, unless) },
	{ "say", FIELD_TEXT, AT(know_setting, say), .required = true },
	{ "grade", FIELD_TEXT, AT(know_setting, grade), .required = true, .choices = "A B C" },
	{ "source", FIELD_TEXT, AT(know_setting, source), .required = true },
	{ 0 },
};
static const struct field action_fields[] = {
	{ "do", FIELD_TEXT, AT(know_action, action), .required = true,
	  .choices = "nothing restart-program restart-session reset reboot power-cycle replace" },
	{ "when", FIELD_WHEN, AT(know_action, when) },
	{ "text", FIELD_TEXT, AT(know_action, text), .required = true },
	{ 0 },
};
static const struct field parameter_fields[] = {
	{ "type", FIELD_TEXT, AT(know_parameter, type),
	  .choices = "int uint hexint long ulong ullong bool bint charp string option" },
	{ "default", FIELD_TEXT, AT(know_parameter, default_value) },
	{ "since", FIELD_TEXT, AT(know_parameter, since) },
	{ "until", FIELD_TEXT, AT(know_parameter, until) },
	{ "seen", FIELD_WORDS, AT(know_parameter, seen) },
	{ "lacks", FIELD_WORDS, AT(know_parameter, lacks) },
	{ "was", FIELD_SET, AT(know_parameter, was) },
	{ "reads", FIELD_WORDS, AT(know_parameter, reads) },
	{ "shows", FIELD_CHOICE, AT(know_parameter, shows_first), .choices = "all first" },
	{ "changed", FIELD_LIST, AT(know_parameter, changed) },
	{ "bit", FIELD_SET, AT(know_parameter, bits) },
	{ "value", FIELD_SET, AT(know_parameter, values) },
	{ "config", FIELD_TEXT, AT(know_parameter, config) },
	{ "writable", FIELD_FLAG, AT(know_parameter, writable) },
	{ "exists", FIELD_CHOICE, AT(know_parameter, absent), .choices = "yes no" },
	{ "meaning", FIELD_TEXT, AT(know_parameter, meaning), .required = true },
	{ "instead", FIELD_TEXT, AT(know_parameter, instead) },
	{ "instead-clear", FIELD_SET, AT(know_parameter, instead_change.clears) },
	{ "instead-set", FIELD_SET, AT(know_parameter, instead_change.sets) },
	{ "source", FIELD_TEXT, AT(know_parameter, source), .required = true },
	{ 0 },
};
static const struct field kernel_fields[] = {
	{ "name", FIELD_LIST, AT(know_kernel, names), .required = true },
	{ "library", FIELD_TEXT, AT(know_kernel, library), .required = true },
	{ "operation", FIELD_TEXT, AT(know_kernel, operation), .required = true },
	{ "source", FIELD_TEXT, AT(know_kernel, source) },
	{ "wrapper", FIELD_TEXT, AT(know_kernel, wrapper) },
	{ "asserts", FIELD_TEXT, AT(know_kernel, asserts) },
	{ "on-assert", FIELD_TEXT, AT(know_kernel, on_assert) },
	{ "on-fault", FIELD_TEXT, AT(know_kernel, on_fault) },
	{ "on-illegal", FIELD_TEXT, AT(know_kernel, on_illegal) },
	{ "on-hang", FIELD_TEXT, AT(know_kernel, on_hang) },
	{ "workspace", FIELD_FLAG, AT(know_kernel, workspace) },
	{ "generic", FIELD_FLAG, AT(know_kernel, generic) },
	{ "issue", FIELD_TEXT, AT(know_kernel, issue) },
	{ 0 },
};
static const char operand_roles[] = "skip result data address base offset";
static const struct field instruction_fields[] = {
	{ "name", FIELD_WORDS, AT(know_instruction, names), .required = true },
	{ "title", FIELD_TEXT, AT(know_instruction, title), .required = true },
	{ "space", FIELD_CHOICE, AT(know_instruction, space),
	  .choices = "none global flat scratch lds gds scalar buffer image" },
	{ "act", FIELD_CHOICE, AT(know_instruction, act), .required = true,
	  .choices = "load store atomic prefetch compute compare cache wait barrier sleep message branch trap halt end other" },
	{ "form", FIELD_CHOICE, AT(know_instruction, form), .choices = "unknown vector lane offset scalar descriptor" },
	{ "operands", FIELD_WORDS, AT(know_instruction, operand_words) },
	{ "writes", FIELD_WORDS, AT(know_instruction, writes) },
	{ "bytes", FIELD_NUMBER, AT(know_instruction, bytes) },
	{ "pair", FIELD_NUMBER, AT(know_instruction, pair) },
	{ "counted", FIELD_WORDS, AT(know_instruction, counted) },
	{ "counter", FIELD_SET, AT(know_instruction, counters) },
	{ "waits-for", FIELD_TEXT, AT(know_instruction, waits_for) },
	{ "say", FIELD_TEXT, AT(know_instruction, say), .required = true },
	{ 0 },
};
static const struct field sequence_fields[] = {
	{ "order", FIELD_LIST, AT(know_sequence, order), .required = true },
	{ 0 },
};
static const struct field save_area_fields[] = {
	{ "parts", FIELD_WORDS, AT(know_save_area, parts), .required = true },
	{ "like", FIELD_TEXT, AT(know_save_area, like) },
	{ "registers", FIELD_WORDS, AT(know_save_area, registers) },
	{ "number", FIELD_SET, AT(know_save_area, numbers) },
	{ "bits", FIELD_SET, AT(know_save_area, bits) },
	{ "stop", FIELD_SET, AT(know_save_area, stops) },
	{ 0 },
};
static const struct field wave_words_fields[] = {
	{ "parts", FIELD_WORDS, AT(know_wave_words, parts), .required = true },
	{ "type", FIELD_NUMBER, AT(know_wave_words, type), .required = true },
	{ "words", FIELD_WORDS, AT(know_wave_words, words), .required = true },
	{ "simds", FIELD_NUMBER, AT(know_wave_words, simds), .required = true },
	{ "slots", FIELD_NUMBER, AT(know_wave_words, slots), .required = true },
	{ "wgp", FIELD_FLAG, AT(know_wave_words, wgp) },
	{ "number", FIELD_SET, AT(know_wave_words, numbers) },
	{ "bits", FIELD_SET, AT(know_wave_words, bits) },
	{ 0 },
};

static const struct field watch_fields[] = {
	{ "render", FIELD_WORDS, AT(know_watch, render) },
	{ "deep", FIELD_WORDS, AT(know_watch, deep) },
	{ 0 },
};
static const struct field unit_fields[] = {
	{ "title", FIELD_TEXT, AT(know_unit, title), .required = true },
	{ "busy", FIELD_WORDS, AT(know_unit, busy) },
	{ "idle", FIELD_WORDS, AT(know_unit, idle) },
	{ "still", FIELD_TEXT, AT(know_unit, still) },
	{ "waits", FIELD_SET, AT(know_unit, waits) },
	{ "rings", FIELD_WORDS, AT(know_unit, rings) },
	{ "engine", FIELD_FLAG, AT(know_unit, engine) },
	{ 0 },
};
static const struct field verdict_fields[] = {
	{ "when", FIELD_WHEN, AT(know_verdict, when) },
	{ "event", FIELD_TEXT, AT(know_verdict, event) },
	{ "health", FIELD_TEXT, AT(know_verdict, health), .required = true,
	  .choices = "idle busy asleep hung stuck resetting off-bus unknown" },
	{ "unit", FIELD_TEXT, AT(know_verdict, unit) },
	{ "each-xcc", FIELD_FLAG, AT(know_verdict, each_xcc) },
	{ "go-on", FIELD_FLAG, AT(know_verdict, go_on) },
	{ "well", FIELD_FLAG, AT(know_verdict, well) },
	{ 0 },
};
static const struct field mqd_fields[] = {
	{ "parts", FIELD_WORDS, AT(know_mqd, parts), .required = true },
	{ "registers", FIELD_WORDS, AT(know_mqd, registers), .required = true },
	{ "first", FIELD_NUMBER, AT(know_mqd, first), .required = true },
	{ "sdma", FIELD_WORDS, AT(know_mqd, sdma), .required = true },
	{ "bits", FIELD_SET, AT(know_mqd, bits), .required = true },
	{ "sdma-bits", FIELD_SET, AT(know_mqd, sdma_bits), .required = true },
	{ 0 },
};

static const struct field page_table_fields[] = {
	{ "parts", FIELD_WORDS, AT(know_page_table, parts), .required = true },
	{ "bits", FIELD_SET, AT(know_page_table, bits), .required = true },
	{ "mmhub", FIELD_WORDS, AT(know_page_table, mmhub), .required = true },
	{ "second-mmhub", FIELD_WORDS, AT(know_page_table, second_mmhub) },
	{ "guests-from-zero", FIELD_FLAG, AT(know_page_table, guests_from_zero) },
	{ 0 },
};

static bool list_has_word(const char *list, struct str word)
{
	struct str all = str_z(list);
	for (struct str one = str_word(&all); one.n; one = str_word(&all))
		if (str_eq(one, word))
			return true;
	return false;
}

static int choice_index(const char *list, struct str word)
{
	struct str all = str_z(list);
	int i = 0;
	for (struct str one = str_word(&all); one.n; one = str_word(&all), i++)
		if (str_eq(one, word))
			return i;
	return -1;
}

/** Appends to the list whose end is at or behind @list; returns the new end, so that many words cost no more than few. */
static struct know_list **list_append(struct arena *a, struct know_list **list, struct str text)
{
	while (*list)
		list = &(*list)->next;
	*list = arena_alloc(a, sizeof(**list));
	(*list)->text = text;
	return &(*list)->next;
}

static void pair_append(struct arena *a, struct know_pair **list, struct str name, struct str value)
{
	while (*list)
		list = &(*list)->next;
	*list = arena_alloc(a, sizeof(**list));
	**list = (struct know_pair){ .name = name, .value = value };
}

static void signature_template(struct know *k, struct know_signature *s, struct str text, const char *file, unsigned line,
			       struct know_problems *problems)
{
	struct template *t = template_parse(&k->arena, text, file, line, problems);
	if (!t)
		return;
	t->owner = s;
	struct template **grown = arena_alloc(&k->arena, (s->ntemplates + 1) * sizeof(*grown));
	if (s->ntemplates)
		memcpy(grown, s->templates, s->ntemplates * sizeof(*grown));
	grown[s->ntemplates++] = t;
	s->templates = grown;
}

/** WHY :: COMMAND [:: CONDITION] */
static void next_append(struct loader *l, struct know_next **list, struct str text, const char *file, unsigned line)
{
	struct str parts[3] = { 0 };
	for (size_t n = 0; n < 3 && text.n; n++) {
		ptrdiff_t colons = n < 2 ? str_find(text, S(" :: ")) : -1;
		parts[n] = colons < 0 ? text : str_cut(text, (size_t)colons);
		text = colons < 0 ? S("") : str_from(text, (size_t)colons + 4);
	}
	if (!parts[1].n) {
		know_problem(l->problems, file, line, "'next' is: WHY :: COMMAND, or WHY :: COMMAND :: CONDITION");
		return;
	}
	while (*list)
		list = &(*list)->next;
	*list = arena_alloc(&l->know->arena, sizeof(**list));
	(*list)->why = parts[0];
	(*list)->run = parts[1];
	if (parts[2].n)
		(*list)->when = condition_parse(&l->know->arena, NULL, parts[2], file, line, l->problems);
}

static void field_set(struct loader *l, void *object, const struct field *f, const struct know_key *key, const char *file)
{
	struct know *k = l->know;
	void *at = (char *)object + f->offset;
	struct str value = key->value;
	if (!value.n && f->kind != FIELD_MATCH) {
		know_problem(l->problems, file, key->line, "'%s' has no value", f->key);
		return;
	}
	int64_t number;
	switch (f->kind) {
	case FIELD_TEXT:
		if (f->choices && !list_has_word(f->choices, value))
			know_problem(l->problems, file, key->line, "'%s' is one of: %s", f->key, f->choices);
		*(struct str *)at = value;
		break;
	case FIELD_LIST:
		list_append(&k->arena, at, value);
		break;
	case FIELD_WORDS: {
		struct know_list **end = at;
		for (struct str one = str_word(&value); one.n; one = str_word(&value))
			end = list_append(&k->arena, end, one);
		break;
	}
	case FIELD_WHEN:
		*(struct condition **)at =
			condition_parse(&k->arena, *(struct condition **)at, value, file, key->line, l->problems);
		break;
	case FIELD_NUMBER:
		if (!str_number(value, &number) || number < 0 || number > 1000)
			know_problem(l->problems, file, key->line, "'%s' wants a number, not '" STR_FMT "'", f->key,
				     STR_ARG(value));
		else
			*(int *)at = (int)number;
		break;
	case FIELD_CHOICE: {
		int index = choice_index(f->choices, value);
		if (index < 0)
			know_problem(l->problems, file, key->line, "'%s' is one of: %s", f->key, f->choices);
		else
			*(int *)at = index;
		break;
	}
	case FIELD_FLAG:
		*(bool *)at = str_is(value, "yes");
		if (!list_has_word("yes no", value))
			know_problem(l->problems, file, key->line, "'%s' is yes or no", f->key);
		break;
	case FIELD_SET: {
		struct str name = str_word(&value);
		pair_append(&k->arena, at, name, str_trim(value));
		if (!str_trim(value).n)
			know_problem(l->problems, file, key->line, "'%s' wants a name and a value", f->key);
		break;
	}
	case FIELD_NEXT:
		next_append(l, at, value, file, key->line);
		break;
	case FIELD_MATCH:
		signature_template(k, object, value, file, key->line, l->problems);
		break;
	}
}

// Objects with the same id replace each other, so that a user's file can correct ours.
#define ADD(vec, object)                                                                                                       \
	do {                                                                                                                   \
		typeof((vec)->data[0]) _o = (object);                                                                          \
		size_t _i = 0;                                                                                                 \
		while (_i < (vec)->len && !str_eq((vec)->data[_i]->head.id, _o->head.id))                                      \
			_i++;                                                                                                  \
		if (_i < (vec)->len)                                                                                           \
			(vec)->data[_i] = _o;                                                                                  \
		else                                                                                                           \
			vec_push((vec), _o);                                                                                   \
	} while (0)

static void add_event(struct loader *l, void *object) { ADD(&l->know->events, (struct know_event *)object); }

static void add_signature(struct loader *l, void *object)
{
	struct know_signature *s = object;
	if (!s->event_id.n == !s->detail_ids)
		know_problem(l->problems, s->head.file, s->head.line, "a signature has either 'event' or 'detail'");
	if (!s->ntemplates == !s->reader.n)
		know_problem(l->problems, s->head.file, s->head.line, "'" STR_FMT "' has either 'match' or 'reader'",
			     STR_ARG(s->head.id));
	s->program = list_has_word(program_subsystems, s->subsystem);
	// Those of a user's file are looked for everywhere: who wrote them need not know of prefixes.
	s->bare |= l->user;
	ADD(&l->know->signatures, s);
}

static void add_cause(struct loader *l, void *object)
{
	// A class may have several blocks, and the first that fits is taken: so a user's stand before ours.
	struct know *k = l->know;
	vec_push(&k->causes, (struct know_cause *)object);
	if (!l->user)
		return;
	memmove(k->causes.data + k->user_causes + 1, k->causes.data + k->user_causes,
		(k->causes.len - 1 - k->user_causes) * sizeof(k->causes.data[0]));
	k->causes.data[k->user_causes++] = object;
}

static void add_remedy(struct loader *l, void *object) { ADD(&l->know->remedies, (struct know_remedy *)object); }

static void add_check(struct loader *l, void *object) { ADD(&l->know->checks, (struct know_check *)object); }

/** What one person reported is worth knowing, but no warning. */
static void add_bad(struct loader *l, void *object)
{
	struct know_bad *b = object;
	if (b->severity == SEVERITY_UNSAID)
		b->severity = str_is(b->grade, "C") ? SEVERITY_ADVICE : SEVERITY_WARNING;
	ADD(&l->know->bad, b);
}

static void add_setting(struct loader *l, void *object) { ADD(&l->know->settings, (struct know_setting *)object); }

static void add_action(struct loader *l, void *object) { ADD(&l->know->actions, (struct know_action *)object); }

static void add_parameter(struct loader *l, void *object)
{
	struct know_parameter *p = object;
	// No value can be written down as nothing.
	if (str_is(p->default_value, "empty"))
		p->default_value = S("");
	if (parameter_check(p, l->problems))
		ADD(&l->know->parameters, p);
}

static void add_kernel(struct loader *l, void *object) { ADD(&l->know->kernels, (struct know_kernel *)object); }

/** A '?' behind an operand says that it may be missing. */
static void add_instruction(struct loader *l, void *object)
{
	struct know_instruction *in = object;
	for (const struct know_list *w = in->operand_words; w; w = w->next) {
		bool optional = str_ends(w->text, S("?"));
		int role = choice_index(operand_roles, str_cut(w->text, w->text.n - optional));
		if (role < 0 || in->noperands == KNOW_OPERANDS) {
			know_problem(l->problems, in->head.file, in->head.line, "'operands' are at most %d of: %s",
				     KNOW_OPERANDS, operand_roles);
			return;
		}
		in->optional[in->noperands] = optional;
		in->operands[in->noperands++] = (enum know_operand)role;
	}
	ADD(&l->know->instructions, in);
}

static void add_sequence(struct loader *l, void *object) { ADD(&l->know->sequences, (struct know_sequence *)object); }

static void add_wave_words(struct loader *l, void *object) { ADD(&l->know->wave_words, (struct know_wave_words *)object); }
static void add_save_area(struct loader *l, void *object) { ADD(&l->know->save_areas, (struct know_save_area *)object); }

static void add_watch(struct loader *l, void *object) { ADD(&l->know->watches, (struct know_watch *)object); }

static void add_unit(struct loader *l, void *object) { ADD(&l->know->units, (struct know_unit *)object); }

static void add_verdict(struct loader *l, void *object) { ADD(&l->know->verdicts, (struct know_verdict *)object); }
static void add_page_table(struct loader *l, void *object) { ADD(&l->know->page_tables, (struct know_page_table *)object); }
static void add_mqd(struct loader *l, void *object) { ADD(&l->know->mqds, (struct know_mqd *)object); }

static const struct kind kinds[] = {
	{ "event", sizeof(struct know_event), event_fields, add_event },
	{ "signature", sizeof(struct know_signature), signature_fields, add_signature },
	{ "cause", sizeof(struct know_cause), cause_fields, add_cause },
	{ "remedy", sizeof(struct know_remedy), remedy_fields, add_remedy },
	{ "known-bad", sizeof(struct know_bad), bad_fields, add_bad },
	{ "check", sizeof(struct know_check), check_fields, add_check },
	{ "setting", sizeof(struct know_setting), setting_fields, add_setting },
	{ "action", sizeof(struct know_action), action_fields, add_action },
	{ "parameter", sizeof(struct know_parameter), parameter_fields, add_parameter },
	{ "kernel", sizeof(struct know_kernel), kernel_fields, add_kernel },
	{ "instruction", sizeof(struct know_instruction), instruction_fields, add_instruction },
	{ "sequence", sizeof(struct know_sequence), sequence_fields, add_sequence },
	{ "save-area", sizeof(struct know_save_area), save_area_fields, add_save_area },
	{ "watch", sizeof(struct know_watch), watch_fields, add_watch },
	{ "unit", sizeof(struct know_unit), unit_fields, add_unit },
	{ "verdict", sizeof(struct know_verdict), verdict_fields, add_verdict },
	{ "wave-words", sizeof(struct know_wave_words), wave_words_fields, add_wave_words },
	{ "mqd", sizeof(struct know_mqd), mqd_fields, add_mqd },
	{ "page-table", sizeof(struct know_page_table), page_table_fields, add_page_table },
};

static void load_fields(struct loader *l, const struct kind *kind, const struct know_block *b)
{
	struct know_head *head = arena_alloc(&l->know->arena, kind->size);
	*head = (struct know_head){ b->id, b->file, b->line };
	if (kind->fields == event_fields)
		((struct know_event *)head)->in_reset = ROLE_EFFECT;
	if (kind->fields == bad_fields)
		((struct know_bad *)head)->severity = SEVERITY_UNSAID;
	unsigned before = l->problems->count;
	uint64_t seen = 0;
	if (!b->id.n || memchr(b->id.p, ' ', b->id.n))
		know_problem(l->problems, b->file, b->line, "'%s' wants an id of one word", kind->name);
	for (size_t i = 0; i < b->nkeys; i++) {
		const struct field *f = kind->fields;
		while (f->key && !str_is(b->keys[i].key, f->key))
			f++;
		if (!f->key) {
			know_problem(l->problems, b->file, b->keys[i].line, "'%s' has no key '" STR_FMT "'", kind->name,
				     STR_ARG(b->keys[i].key));
			continue;
		}
		seen |= 1ull << (f - kind->fields);
		field_set(l, head, f, &b->keys[i], b->file);
	}
	for (const struct field *f = kind->fields; f->key; f++)
		if (f->required && !(seen >> (f - kind->fields) & 1))
			know_problem(l->problems, b->file, b->line, "'" STR_FMT "' lacks '%s'", STR_ARG(b->id), f->key);
	if (l->problems->count == before)
		kind->add(l, head);
}

static void load_message(struct loader *l, const struct know_block *b)
{
	struct str rest = b->id;
	struct know_signature *s = arena_alloc(&l->know->arena, sizeof(*s));
	*s = (struct know_signature){ .head = { .file = b->file, .line = b->line }, .message = true };
	s->subsystem = str_word(&rest);
	int level = choice_index(levels, str_word(&rest));
	if (level < 0 || !list_has_word(subsystems, s->subsystem)) {
		know_problem(l->problems, b->file, b->line, "a message is: message SUBSYSTEM LEVEL TEXT");
		return;
	}
	s->level = (enum know_level)level;
	s->bare = l->user;
	signature_template(l->know, s, str_trim(rest), b->file, b->line, l->problems);
	vec_push(&l->know->signatures, s);
}

static void load_part(struct loader *l, const struct know_block *b)
{
	struct str rest = b->id;
	struct know_part *p = arena_alloc(&l->know->arena, sizeof(*p));
	*p = (struct know_part){ .head = { b->id, b->file, b->line }, .revision = -1 };
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
	vec_push(&l->know->parts, p);
}

/** A word and what it means; NULL and a problem where one is missing. */
static struct know_pair *load_pair(struct loader *l, const struct know_block *b)
{
	struct know_pair *p = arena_alloc(&l->know->arena, sizeof(*p));
	struct str rest = b->id;
	p->name = str_word(&rest);
	p->value = str_trim(rest);
	if (p->value.n)
		return p;
	know_problem(l->problems, b->file, b->line, "'" STR_FMT "' wants a name and what it means", STR_ARG(b->kind));
	return NULL;
}

static void load_bridge(struct loader *l, const struct know_block *b)
{
	struct know_pair *p = load_pair(l, b);
	if (p)
		vec_push(&l->know->bridges, p);
}

static void load_class(struct loader *l, const struct know_block *b)
{
	struct know_pair *p = load_pair(l, b);
	if (p)
		vec_push(&l->know->classes, p);
}

/** vendor amd|nvidia WORD */
static void load_vendor(struct loader *l, const struct know_block *b)
{
	struct know_pair *p = load_pair(l, b);
	if (!p)
		return;
	if (str_is(p->name, "amd"))
		p->name = S("vendor_amd");
	else if (str_is(p->name, "nvidia"))
		p->name = S("vendor_nvidia");
	else
		know_problem(l->problems, b->file, b->line, "a vendor is: vendor amd|nvidia WORD");
	vec_push(&l->know->vendors, p);
}

static void load_frame(struct loader *l, const struct know_block *b)
{
	struct know_pair *p = load_pair(l, b);
	static const char words[] = "background peer waits nvidia blocked-smu blocked-resume blocked-reset blocked-lock";
	if (p && !list_has_word(words, p->name))
		know_problem(l->problems, b->file, b->line, "a frame is: frame WORD PART-OF-ITS-NAME, with one of %s", words);
	else if (p)
		vec_push(&l->know->frames, p);
}

static void load_words(const struct know_block *b, struct know_words *words)
{
	struct str rest = b->id;
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
		vec_push(words, one);
}

static void load_desktop(struct loader *l, const struct know_block *b) { load_words(b, &l->know->desktop); }
static void load_graphics(struct loader *l, const struct know_block *b) { load_words(b, &l->know->graphics); }

/** NAMES... :: VALUE: a row for each name. */
static void load_rows(struct loader *l, const struct know_block *b, struct know_rows *rows, bool optional)
{
	ptrdiff_t at = str_find(b->id, S(" :: "));
	struct str names = at < 0 ? b->id : str_cut(b->id, (size_t)at);
	struct str value = at < 0 ? (struct str){ 0 } : str_trim(str_from(b->id, (size_t)at + 4));
	if (!names.n || (!value.n && !optional))
		know_problem(l->problems, b->file, b->line, "'" STR_FMT "' wants NAMES :: VALUE", STR_ARG(b->kind));
	for (struct str one = str_word(&names); one.n; one = str_word(&names)) {
		struct know_pair *p = arena_alloc(&l->know->arena, sizeof(*p));
		*p = (struct know_pair){ .name = one, .value = value };
		vec_push(rows, p);
	}
}

static void load_switch(struct loader *l, const struct know_block *b) { load_rows(l, b, &l->know->switches, false); }
static void load_variable(struct loader *l, const struct know_block *b) { load_rows(l, b, &l->know->variables, true); }
static void load_override(struct loader *l, const struct know_block *b) { load_rows(l, b, &l->know->overrides, false); }
static void load_tool(struct loader *l, const struct know_block *b) { load_rows(l, b, &l->know->tools, false); }

static void load_month(struct loader *l, const struct know_block *b)
{
	struct str rest = b->id, number = str_word(&rest);
	int64_t n;
	if (!str_number(number, &n) || n < 1 || n > 12) {
		know_problem(l->problems, b->file, b->line, "a month is: month NUMBER NAMES");
		return;
	}
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest)) {
		struct know_pair *p = arena_alloc(&l->know->arena, sizeof(*p));
		*p = (struct know_pair){ .name = one, .value = number };
		vec_push(&l->know->months, p);
	}
}

static void load_anchor(struct loader *l, const struct know_block *b)
{
	if (b->id.n < 3)
		know_problem(l->problems, b->file, b->line, "an anchor has at least three characters");
	else
		vec_push(&l->know->anchors, b->id);
}

static void load_names(struct loader *l, const struct know_block *b)
{
	struct know_names *n = arena_alloc(&l->know->arena, sizeof(*n));
	n->head = (struct know_head){ b->id, b->file, b->line };
	int64_t number;
	for (size_t i = 0; i < b->nkeys; i++) {
		if (!str_number(b->keys[i].key, &number) || !b->keys[i].value.n)
			know_problem(l->problems, b->file, b->keys[i].line, "a line of names is: NUMBER NAME");
		else
			pair_append(&l->know->arena, &n->names, b->keys[i].key, b->keys[i].value);
	}
	ADD(&l->know->names, n);
}

static void load_register(struct loader *l, const struct know_block *b)
{
	struct know_register *r = arena_alloc(&l->know->arena, sizeof(*r));
	r->head = (struct know_head){ b->id, b->file, b->line };
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
	ADD(&l->know->registers, r);
}

static void load_packet(struct loader *l, const struct know_block *b)
{
	struct know_packet *p = packet_parse(&l->know->arena, b, l->problems);
	if (p)
		ADD(&l->know->packets, p);
}

/** ring PATTERN LANGUAGE */
static void load_ring(struct loader *l, const struct know_block *b)
{
	struct know_pair *p = load_pair(l, b);
	if (p && know_packet_language(p->value) == PACKETS_UNKNOWN)
		know_problem(l->problems, b->file, b->line, "a ring is: ring PATTERN pm4|sdma|mes|aql");
	else if (p)
		vec_push(&l->know->rings, p);
}

/** retract KIND ID: what stands behind it counts again. */
static void load_retract(struct loader *l, const struct know_block *b)
{
	struct str id = b->id, kind = str_word(&id);
	id = str_trim(id);
	if (!id.n || b->nkeys)
		know_problem(l->problems, b->file, b->line, "to take a block out: retract KIND ID");
	else if (!know_retract(l->know, kind, id))
		know_problem(l->problems, b->file, b->line, "blocks of the kind '" STR_FMT "' cannot be retracted",
			     STR_ARG(kind));
}

static const struct {
	const char *name;
	void (*load)(struct loader *l, const struct know_block *b);
} special_kinds[] = {
	{ "message", load_message },   { "part", load_part },         { "bridge", load_bridge },
	{ "month", load_month },       { "anchor", load_anchor },     { "names", load_names },
	{ "register", load_register }, { "class", load_class },       { "desktop", load_desktop },
	{ "graphics", load_graphics }, { "frame", load_frame },       { "vendor", load_vendor },
	{ "packet", load_packet },     { "ring", load_ring },         { "switch", load_switch },
	{ "variable", load_variable }, { "override", load_override }, { "tool", load_tool },
	{ "retract", load_retract },
};

static void load_block(void *ctx, const struct know_block *b)
{
	struct loader *l = ctx;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (str_is(b->kind, kinds[i].name)) {
			load_fields(l, &kinds[i], b);
			return;
		}
	}
	for (size_t i = 0; i < sizeof(special_kinds) / sizeof(special_kinds[0]); i++) {
		if (str_is(b->kind, special_kinds[i].name)) {
			special_kinds[i].load(l, b);
			return;
		}
	}
	know_problem(l->problems, b->file, b->line, "unknown kind of block '" STR_FMT "'", STR_ARG(b->kind));
}

static void load_text(struct loader *l, const char *file, struct str text)
{
	const struct know_text one = { file, text };
	vec_push(&l->know->texts, one);
	know_blocks(&l->know->arena, file, text, l->problems, load_block, l);
}

static void load_file(struct loader *l, const char *directory, const char *name)
{
	struct arena *a = &l->know->arena;
	const struct named n = { .path = arena_printf(a, "%s/%s", directory, name).p };
	struct str text;
	struct uh_error *err = named_read(&n, KNOW_FILE_MOST, a, &text, NULL);
	if (err) {
		struct str why = str_z(err->message);
		str_behind(why, str_z(n.path), &why);
		str_behind(why, S(": "), &why);
		know_problem(l->problems, n.path, 0, "cannot be read as knowledge: " STR_FMT, STR_ARG(why));
	} else {
		load_text(l, n.path, text);
	}
	uh_error_free(err);
}

static void load_directory(struct loader *l, const char *directory)
{
	struct arena room = { 0 };
	struct door_names names;
	struct uh_error *err = door_names(&(struct named){ .path = directory }, true, &room, &names);
	if (err && err->errnum == ETIMEDOUT)
		know_problem(l->problems, directory, 0, "does not answer, so the knowledge in it is not used");
	uh_error_free(err);
	for (size_t i = 0; i < names.n; i++)
		if (str_ends(str_z(names.list[i]), S(".know")))
			load_file(l, directory, names.list[i]);
	arena_free(&room);
}

static void load_directories(struct loader *l)
{
	load_directory(l, "/etc/unhang/knowledge.d");
	struct text path = { 0 };
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	if (config && *config)
		text_printf(&path, "%s/unhang/knowledge.d", config);
	else if (home)
		text_printf(&path, "%s/.config/unhang/knowledge.d", home);
	if (path.n)
		load_directory(l, path.p);
	text_free(&path);
}

const uint64_t know_embedded_version = KNOWLEDGE_VERSION;

static void load_one(void *ctx, const char *name, struct str text, bool added)
{
	struct loader *l = ctx;
	l->user = added;
	load_text(l, name, text);
}

/** What is built in, with @update. */
static void load_begin(struct loader *l, const struct container *update, struct know_problems *problems)
{
	struct know *k = mem_alloc(sizeof(*k));
	k->matcher = matcher_new();
	k->version = update ? update->version : know_embedded_version;
	k->update = update ? update->path : NULL;
	*l = (struct loader){ .know = k, .problems = problems };
	know_each_text(&k->arena, update, load_one, l);
	l->user = true;
}

/** With the update that is installed, where it is newer. One that is damaged is a problem, not the end. */
static void load_begin_installed(struct loader *l, struct know_problems *problems)
{
	struct container update;
	struct arena a = { 0 };
	bool there;
	struct uh_error *err = update_installed(&a, NULL, &update, &there);
	if (err) {
		struct str why = str_z(err->message);
		str_behind(why, S(UPDATE_PATH ": "), &why);
		know_problem(problems, UPDATE_PATH, 0, STR_FMT "; what is built in is used", STR_ARG(why));
	}
	uh_error_free(err);
	load_begin(l, there && update.version > know_embedded_version ? &update : NULL, problems);
	l->know->update_arena = a;
}

static struct know *load_end(struct loader *l)
{
	know_resolve(l->know, l->problems);
	matcher_finish(l->know->matcher);
	return l->know;
}

struct know *know_load(struct know_problems *problems)
{
	struct loader l;
	load_begin_installed(&l, problems);
	load_directories(&l);
	return load_end(&l);
}

struct know *know_load_with(const char *file, struct str text, struct know_problems *problems)
{
	struct loader l;
	load_begin_installed(&l, problems);
	load_text(&l, file, text);
	return load_end(&l);
}

struct know *know_load_update(const struct container *update, struct know_problems *problems)
{
	struct loader l;
	load_begin(&l, update, problems);
	return load_end(&l);
}

void know_free(struct know *k)
{
	if (!k)
		return;
	matcher_free(k->matcher);
	vec_free(&k->events);
	vec_free(&k->signatures);
	vec_free(&k->causes);
	vec_free(&k->remedies);
	vec_free(&k->bad);
	vec_free(&k->checks);
	vec_free(&k->settings);
	vec_free(&k->actions);
	vec_free(&k->parameters);
	vec_free(&k->kernels);
	vec_free(&k->instructions);
	vec_free(&k->names);
	vec_free(&k->parts);
	vec_free(&k->bridges);
	vec_free(&k->registers);
	vec_free(&k->sequences);
	vec_free(&k->save_areas);
	vec_free(&k->watches);
	vec_free(&k->units);
	vec_free(&k->verdicts);
	vec_free(&k->wave_words);
	vec_free(&k->packets);
	vec_free(&k->rings);
	vec_free(&k->mqds);
	vec_free(&k->page_tables);
	vec_free(&k->frames);
	vec_free(&k->vendors);
	vec_free(&k->classes);
	vec_free(&k->desktop);
	vec_free(&k->graphics);
	vec_free(&k->switches);
	vec_free(&k->variables);
	vec_free(&k->overrides);
	vec_free(&k->tools);
	vec_free(&k->months);
	vec_free(&k->anchors);
	vec_free(&k->texts);
	arena_free(&k->update_arena);
	arena_free(&k->arena);
	free(k);
}
