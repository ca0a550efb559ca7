#include "gpu/queue_words.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "gpu/find/kfd.h"

enum { COPY_REGISTERS = 7 }; // of a copy queue that KFD's file shows in the order of the descriptor

/** Gives names to the words from @at on; a gap has none. */
static void name_words(const struct know_list *names, size_t at, struct queue_word *words, size_t n)
{
	int64_t number;
	for (const struct know_list *one = names; one; one = one->next) {
		if (str_number(one->text, &number)) {
			at = number >= 0 ? (size_t)number : n;
			continue;
		}
		if (at < n && !str_is(one->text, "-"))
			words[at].name = one->text;
		at++;
	}
}

static const struct know_list *words_known(const struct know *k, struct str gfx, enum queue_words_of of)
{
	static const char *const kinds[] = {
		[WORDS_COMPUTE] = "compute", [WORDS_GRAPHICS] = "graphics", [WORDS_COPY] = "copy"
	};
	const struct know_mqd_words *w = list_find_of(k->mqd_words.data, k->mqd_words.len, it,
						      str_is(it->of, kinds[of]) && patterns_fit(it->parts, gfx));
	return w ? w->words : NULL;
}

/** The table that has the registers, and what their names there begin with. */
static bool words_tables(const struct know *k, struct str gfx, const struct know_mqd *layout, bool copy,
			 struct part_tables *ret, struct str *ret_prefix)
{
	struct str table = gfx;
	*ret_prefix = (struct str){ 0 };
	if (copy) {
		const struct know_pair *p = layout ? layout->sdma_table : NULL;
		while (p && !str_glob(p->name, gfx))
			p = p->next;
		struct str rest = p ? p->value : (struct str){ 0 };
		table = str_word(&rest);
		*ret_prefix = str_trim(rest);
	}
	_cleanup_error_ struct uh_error *err = part_tables_of(k, table, ret);
	return !err;
}

size_t queue_words_named(struct arena *a, const struct know *k, struct str gfx, const struct queue_words *w,
			 const struct queue_word **ret)
{
	const bool copy = w->of == WORDS_COPY;
	const struct know_mqd *layout = mqd_layout(k, gfx);
	_cleanup_vec_ struct part_tables tables = { 0 };
	struct str prefix;
	struct queue_word *words = arena_alloc(a, w->n * sizeof(*words) + 1);
	const bool has_tables = words_tables(k, gfx, layout, copy, &tables, &prefix);
	if (!w->hqd)
		name_words(words_known(k, gfx, w->of), 0, words, w->n);
	if (layout && w->of != WORDS_GRAPHICS) // by the names of registers, which the structs do not always have
		name_words(copy ? layout->sdma : layout->registers, w->hqd || copy ? 0 : (size_t)layout->first, words,
			   copy && w->hqd && w->n > COPY_REGISTERS ? COPY_REGISTERS : w->n);
	for (size_t i = 0; i < w->n; i++) {
		words[i].at = (unsigned)i;
		words[i].value = w->words[i];
		const struct str name =
			prefix.n ? arena_printf(a, STR_FMT STR_FMT, STR_ARG(prefix), STR_ARG(words[i].name)) : words[i].name;
		words[i].is_register =
			words[i].name.n && has_tables && register_find(tables.data[0].table, name, &words[i].reg);
	}
	*ret = words;
	return w->n;
}
