#include "store/record.h"

#include "base/print.h"

enum { VALUE_MOST = 8192 };

/** The value as it is read back: what the reader would cut or trim must not be written. */
static void store_record_add_line(struct text *to, const char *key, struct str value)
{
	_cleanup_text_ struct text safe = { 0 };
	text_add_safe(&safe, str_cut(value, VALUE_MOST));
	value = str_trim(text_str(&safe));
	if (value.n)
		text_printf(to, "%s " STR_FMT "\n", key, STR_ARG(value));
}

void record_text(const void *object, const struct record_key *keys, struct text *to)
{
	for (const struct record_key *k = keys; k->key; k++) {
		const void *member = (const char *)object + k->offset;
		if (k->number)
			text_printf(to, "%s %lld\n", k->key, (long long)*(const int64_t *)member);
		else if (k->words)
			store_record_add_line(to, k->key, str_of_list(k->words, *(const unsigned *)member));
		else
			store_record_add_line(to, k->key, *(const struct str *)member);
	}
}

void record_take(struct str text, struct arena *a, void *object, const struct record_key *keys)
{
	while (text.n) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		int64_t number;
		value = str_cut(str_trim(value), VALUE_MOST);
		for (const struct record_key *k = keys; k->key; k++) {
			void *member = (char *)object + k->offset;
			if (!str_is(key, k->key))
				continue;
			if (k->words)
				*(unsigned *)member = str_in_list(k->words, value);
			else if (!k->number)
				*(struct str *)member = arena_str(a, value);
			else if (str_number(value, &number))
				*(int64_t *)member = number;
		}
	}
}

void record_json(const void *object, const struct record_key *keys, struct json *j)
{
	jw_open(j, '{');
	for (const struct record_key *k = keys; k->key; k++) {
		const void *member = (const char *)object + k->offset;
		const struct str value = k->number ? (struct str){ 0 } :
					 k->words  ? str_of_list(k->words, *(const unsigned *)member) :
						     *(const struct str *)member;
		jw_key(j, k->key);
		if (k->number)
			jw_int(j, *(const int64_t *)member);
		else if (value.n)
			jw_str(j, str_cut(value, VALUE_MOST));
		else
			jw_null(j);
	}
	jw_close(j, '}');
}
