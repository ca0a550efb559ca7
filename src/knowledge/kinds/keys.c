// From the keys of a block to the members of its struct, as the table of its kind says.
#include "knowledge/kinds/kinds.h"

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
	while (*list)
		list = &(*list)->next;
	*list = arena_alloc(a, sizeof(**list));
	(*list)->text = text;
	return &(*list)->next;
}

void pair_append(struct arena *a, struct know_pair **list, struct str name, struct str value)
{
	while (*list)
		list = &(*list)->next;
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
