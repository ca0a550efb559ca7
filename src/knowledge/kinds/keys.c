// From the keys of a block to the members of its struct, as the table of its kind says; and the vectors of struct know, whatever their
// blocks are: to add, to take out, to list, to free. Nothing here knows a kind, so that a new one is a row of the table.
#include "knowledge/kinds/kinds.h"

#include <stdlib.h>

int word_index(const char *list, struct str word)
{
	struct str all = str_z(list);
	int i = 0;
	for (struct str one = str_word(&all); one.n; one = str_word(&all), i++)
		if (str_eq(one, word))
			return i;
	return -1;
}

/** Appends to a list. @list may be any link of it, best the last. Returns the new last link, so that appending many words is cheap. */
static struct know_list **list_append(struct arena *a, struct know_list **list, struct str text)
{
	list = LIST_END(list);
	*list = arena_alloc(a, sizeof(**list));
	(*list)->text = text;
	return &(*list)->next;
}

void pair_append(struct arena *a, struct know_pair **list, struct str name, struct str value)
{
	list = LIST_END(list);
	*list = arena_alloc(a, sizeof(**list));
	**list = (struct know_pair){ .name = name, .value = value };
}

void signature_template(struct loader *l, struct know_signature *s, struct str text, const char *file, unsigned line)
{
	struct know *k = l->know;
	struct template *t = template_parse(&k->arena, text, file, line, l->problems);
	if (!t)
		return;
	t->owner = s;
	struct template **grown = arena_alloc(&k->arena, (s->ntemplates + 1) * sizeof(*grown));
	if (s->ntemplates)
		memcpy(grown, s->templates, s->ntemplates * sizeof(*grown));
	grown[s->ntemplates++] = t;
	s->templates = grown;
}

/** [WORK] WHY :: COMMAND [:: CONDITION] */
static void next_append(struct loader *l, struct know_next **list, struct str text, const char *file, unsigned line)
{
	struct str why = part_take(&text, S(" :: ")), run = part_take(&text, S(" :: "));
	struct str work = str_starts(why, S("[")) ? str_split(&why, ']') : (struct str){ 0 };
	if (!run.n || (work.n < 2 && !l->user)) {
		know_problem(l->problems, file, line,
			     "'next' is: [WORK] WHY :: COMMAND, or [WORK] WHY :: COMMAND :: CONDITION");
		return;
	}
	list = LIST_END(list);
	*list = arena_alloc(&l->know->arena, sizeof(**list));
	work = work.n ? str_from(work, 1) : work;
	for (struct str one = str_word(&work); one.n; one = str_word(&work))
		list_append(&l->know->arena, &(*list)->work, one);
	(*list)->why = str_trim(why);
	(*list)->run = run;
	if (text.n)
		(*list)->when = condition_parse(&l->know->arena, NULL, text, file, line, l->problems);
}

static void key_set(struct loader *l, void *object, const struct kind_key *f, const struct know_key *key, const char *file)
{
	struct know *k = l->know;
	void *at = (char *)object + f->offset;
	struct str value = key->value;
	if (!value.n && f->type != KEY_MATCH) {
		know_problem(l->problems, file, key->line, "'%s' has no value", f->key);
		return;
	}
	int64_t number;
	switch (f->type) {
	case KEY_TEXT:
		if (f->choices && word_index(f->choices, value) < 0)
			know_problem(l->problems, file, key->line, "'%s' is one of: %s", f->key, f->choices);
		*(struct str *)at = value;
		break;
	case KEY_LIST:
		list_append(&k->arena, at, value);
		break;
	case KEY_WORDS: {
		struct know_list **end = at;
		for (struct str one = str_word(&value); one.n; one = str_word(&value))
			end = list_append(&k->arena, end, one);
		break;
	}
	case KEY_WHEN:
		*(struct condition **)at =
			condition_parse(&k->arena, *(struct condition **)at, value, file, key->line, l->problems);
		break;
	case KEY_NUMBER:
	case KEY_SECONDS:
		if (!str_number(value, &number) || number < 0 || number > (f->type == KEY_SECONDS ? 86400 : 1000))
			know_problem(l->problems, file, key->line, "'%s' needs a number, not '" STR_FMT "'", f->key,
				     STR_ARG(value));
		else
			*(int *)at = (int)number;
		break;
	case KEY_CHOICE: {
		int index = word_index(f->choices, value);
		if (index < 0)
			know_problem(l->problems, file, key->line, "'%s' is one of: %s", f->key, f->choices);
		else
			*(int *)at = index;
		break;
	}
	case KEY_FLAG:
		*(bool *)at = str_is(value, "yes");
		if (word_index("yes no", value) < 0)
			know_problem(l->problems, file, key->line, "'%s' is yes or no", f->key);
		break;
	case KEY_SET: {
		struct str name = str_word(&value);
		pair_append(&k->arena, at, name, str_trim(value));
		if (!str_trim(value).n)
			know_problem(l->problems, file, key->line, "'%s' needs a name and a value", f->key);
		break;
	}
	case KEY_NEXT:
		next_append(l, at, value, file, key->line);
		break;
	case KEY_NONE:
		break;
	case KEY_MATCH:
		signature_template(l, object, value, file, key->line);
		break;
	}
}

bool kind_fill(struct loader *l, const struct know_kind *kind, const struct know_block *b, struct know_head *object)
{
	unsigned before = l->problems->count;
	uint64_t seen = 0;
	for (size_t i = 0; i < b->nkeys; i++) {
		const struct kind_key *f = kind->keys;
		while (f->key && !str_is(b->keys[i].key, f->key))
			f++;
		if (!f->key) {
			know_problem(l->problems, b->file, b->keys[i].line, "'%s' has no key '" STR_FMT "'", kind->name,
				     STR_ARG(b->keys[i].key));
			continue;
		}
		seen |= 1ull << (f - kind->keys);
		key_set(l, object, f, &b->keys[i], b->file);
	}
	for (const struct kind_key *f = kind->keys; f->key; f++)
		if (f->required && !(seen >> (f - kind->keys) & 1))
			know_problem(l->problems, b->file, b->line, "'" STR_FMT "' lacks '%s'", STR_ARG(b->id), f->key);
	return l->problems->count == before;
}

void *kind_object(struct loader *l, const struct know_kind *kind, const struct know_block *b, struct str id)
{
	struct know_head *object = arena_alloc(&l->know->arena, kind->size);
	if (kind->defaults)
		memcpy(object, kind->defaults, kind->size);
	*object = (struct know_head){ .id = id, .file = b->file, .line = b->line, .user = l->user, .kind = kind };
	return object;
}

void kind_take(struct loader *l, struct know_head *object)
{
	if (!object->kind->check || object->kind->check(l, object))
		kind_add(l->know, object);
}

static void load_keys(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	struct know_head *object = kind_object(l, kind, b, b->id);
	bool named = b->id.n && !memchr(b->id.p, ' ', b->id.n);
	if (!named)
		know_problem(l->problems, b->file, b->line, "'%s' needs an id of one word", kind->name);
	if (kind_fill(l, kind, b, object) && named)
		kind_take(l, object);
}

void kind_load(struct loader *l, const struct know_kind *kind, const struct know_block *b)
{
	(kind->load ? kind->load : load_keys)(l, kind, b);
}

// --- the vectors ---

// Every one of them is a VEC() of pointers to structs that begin with a know_head, and is looked at as one of those.
typedef struct know_head *head_pointer __attribute__((may_alias));
struct __attribute__((may_alias)) heads {
	head_pointer *data;
	size_t len, cap;
};

static struct heads *heads_of(struct know *k, const struct know_kind *kind) { return (void *)((char *)k + kind->place); }

static size_t heads_find(const struct heads *v, const struct know_head *object)
{
	size_t i = 0;
	while (i < v->len && (v->data[i]->kind != object->kind || !str_eq(v->data[i]->id, object->id)))
		i++;
	return i;
}

void kind_add(struct know *k, struct know_head *object)
{
	struct heads *v = heads_of(k, object->kind);
	size_t at = object->kind->same == SAME_REPLACES ? heads_find(v, object) : v->len;
	if (at < v->len) {
		v->data[at] = object;
		return;
	}
	vec_push(v, object);
	if (object->kind->same != SAME_USERS_FIRST || !object->user)
		return;
	for (; at && !v->data[at - 1]->user; at--)
		v->data[at] = v->data[at - 1];
	v->data[at] = object;
}

void kind_keep_last(struct know *k, const struct know_kind *kind, enum know_term_kind ids, struct know_problems *problems)
{
	struct heads *v = heads_of(k, kind);
	size_t kept = 0;
	for (size_t n = 0; n < v->len; n++) {
		const struct know_head *again = v->data[n], *first;
		const uint32_t at = term_intern(&k->base.terms, ids, again->id);
		struct know_term *id = &k->base.terms.list.data[at];
		if (!id->defects) {
			v->data[kept++] = v->data[n];
			id->defects = (uint32_t)kept & 0xffffff;
			continue;
		}
		// A file that has it twice does not mean to correct itself.
		first = v->data[id->defects - 1];
		if (!again->user || !strcmp(first->file, again->file))
			know_problem(problems, again->file, again->line, "'" STR_FMT "' is there already, in line %u of %s",
				     STR_ARG(again->id), first->line, first->file);
		v->data[id->defects - 1] = v->data[n];
	}
	v->len = kept;
}

bool know_retract(struct know *k, struct str name, struct str id)
{
	const struct know_kind *kind = kind_named(name);
	if (!kind || kind->fixed)
		return false;
	struct heads *v = heads_of(k, kind);
	size_t kept = 0;
	for (size_t i = 0; i < v->len; i++)
		if (v->data[i]->kind != kind || !str_eq(v->data[i]->id, id))
			v->data[kept++] = v->data[i];
	v->len = kept;
	return true;
}

void kinds_free(struct know *k)
{
	for (const struct know_kind *kind = know_kinds; kind->name; kind++)
		vec_free(heads_of(k, kind));
}

/** What is listed of a block beside its id. */
static struct str head_label(const struct know_head *object)
{
	const void *at = (const char *)object + object->kind->label;
	const struct know_signature *s = (const void *)object;
	switch (object->kind->label_type) {
	case KEY_TEXT:
		return *(const struct str *)at;
	case KEY_LIST:
	case KEY_WORDS:
		return *(struct know_list *const *)at ? (*(struct know_list *const *)at)->text : S("");
	case KEY_SET:
		return *(struct know_pair *const *)at ? (*(struct know_pair *const *)at)->value : S("");
	case KEY_MATCH:
		return s->ntemplates ? s->templates[0]->text : s->reader;
	default:
		return S("");
	}
}

void know_each_block(const struct know *k, know_listed_fn *fn, void *ctx)
{
	for (const struct know_kind *kind = know_kinds; kind->name; kind++) {
		const struct heads *v = heads_of((struct know *)k, kind);
		for (size_t i = 0; i < v->len; i++) {
			const struct know_head *h = v->data[i];
			const struct know_listed one = { kind->name, h->id, head_label(h), h->file, h->line, kind->bulk };
			if (h->kind == kind)
				fn(ctx, &one);
		}
	}
}

const char *know_kind_name(size_t n) { return know_kinds[n].name; }

/** Whether a block of one of these kinds (`stage or class`) is called so. */
static bool is_known(const struct know *k, const char *kinds, struct str id)
{
	struct str rest = str_z(kinds);
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest)) {
		const struct know_kind *kind = kind_named(one);
		const struct know_head wanted = { .id = id, .kind = kind };
		if (!kind) // `or`
			continue;
		const struct heads *v = heads_of((struct know *)k, kind);
		if (heads_find(v, &wanted) < v->len)
			return true;
	}
	return false;
}

static void refer_to(const struct know *k, const struct kind_key *f, const struct know_head *object, struct str id,
		     struct know_problems *problems)
{
	if (id.n && !str_is(id, "*") && !str_is(id, "any") && !is_known(k, f->refers, id))
		know_problem(problems, object->file, object->line, "'%s': there is no %s '" STR_FMT "'", f->key, f->refers,
			     STR_ARG(id));
}

static void refer_to_all(const struct know *k, const struct kind_key *f, const struct know_head *object,
			 const struct know_list *words, struct know_problems *problems)
{
	for (; words; words = words->next)
		refer_to(k, f, object, words->text, problems);
}

void kinds_refer(const struct know *k, struct know_problems *problems)
{
	for (const struct know_kind *kind = know_kinds; kind->name; kind++)
		for (const struct kind_key *f = kind->keys; f && f->key; f++) {
			const struct heads *v = heads_of((struct know *)k, kind);
			for (size_t i = 0; f->refers && i < v->len; i++) {
				const void *at = (const char *)v->data[i] + f->offset;
				if (v->data[i]->kind != kind)
					continue;
				if (f->type == KEY_TEXT)
					refer_to(k, f, v->data[i], *(const struct str *)at, problems);
				else if (f->type == KEY_SET)
					for (const struct know_pair *p = *(struct know_pair *const *)at; p; p = p->next)
						refer_to(k, f, v->data[i], p->name, problems);
				else if (f->type == KEY_NEXT)
					for (const struct know_next *n = *(struct know_next *const *)at; n; n = n->next)
						refer_to_all(k, f, v->data[i], n->work, problems);
				else
					refer_to_all(k, f, v->data[i], *(struct know_list *const *)at, problems);
			}
		}
}
