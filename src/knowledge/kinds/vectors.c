// The vectors of struct know, whatever their blocks are: to add, to take out, to list, to free.
#include "knowledge/kinds/kinds.h"

#include <stdlib.h>

// Every one of them is a VEC() of pointers to structs that begin with a know_head, and is looked at as one of those.
typedef struct know_head *head_pointer __attribute__((may_alias));
struct __attribute__((may_alias)) heads {
	head_pointer *data;
	size_t len, cap;
};

static struct heads *heads_of(struct know *k, const struct know_kind *kind) { return (void *)((char *)k + kind->place); }

static size_t find(const struct heads *v, const struct know_head *object)
{
	size_t i = 0;
	while (i < v->len && (v->data[i]->kind != object->kind || !str_eq(v->data[i]->id, object->id)))
		i++;
	return i;
}

void kind_add(struct know *k, struct know_head *object)
{
	struct heads *v = heads_of(k, object->kind);
	size_t at = object->kind->same == SAME_REPLACES ? find(v, object) : v->len;
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
static struct str label_of(const struct know_head *object)
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
			const struct know_listed one = { kind->name, h->id, label_of(h), h->file, h->line, kind->bulk };
			if (h->kind == kind)
				fn(ctx, &one);
		}
	}
}

const char *know_kind_name(size_t n) { return know_kinds[n].name; }
