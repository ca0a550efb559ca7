// `incident` as text: a line for each value, its key first.
#include "base/print.h"
#include "store/store.h"

enum { VALUE_MOST = 4096 };

struct stored_key {
	const char *key;
	size_t offset;
	bool number;
};

#define TEXT(name)                                                                                                             \
	{                                                                                                                      \
#name, offsetof(struct stored, name), false                                                                    \
	}
#define NUMBER(name)                                                                                                           \
	{                                                                                                                      \
#name, offsetof(struct stored, name), true                                                                     \
	}
static const struct stored_key keys[] = {
	TEXT(id),     TEXT(state),      TEXT(class),     TEXT(title),     TEXT(fault),     TEXT(action),
	TEXT(host),   TEXT(boot_id),    TEXT(gpu),       TEXT(unique_id), TEXT(serial),    TEXT(origin),
	TEXT(bundle), TEXT(closed_by),  TEXT(job),       NUMBER(began),   NUMBER(changed), NUMBER(ended),
	TEXT(votes),  NUMBER(first_us), NUMBER(last_us), NUMBER(stood),   NUMBER(events),  NUMBER(hooks),
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static void *member(const struct stored *i, const struct stored_key *k) { return (char *)i + k->offset; }

bool store_is_id(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if (!char_digit(id.p[i]) && !(id.p[i] >= 'a' && id.p[i] <= 'f'))
			return false;
	return id.n == STORE_ID;
}

void stored_text(const struct stored *i, struct text *to)
{
	for (size_t n = 0; n < KEYS; n++) {
		if (keys[n].number) {
			text_printf(to, "%s %lld\n", keys[n].key, (long long)*(const int64_t *)member(i, &keys[n]));
			continue;
		}
		struct str value = *(const struct str *)member(i, &keys[n]);
		if (value.n) {
			// A line of its own is all that a value may have; what does not show becomes a space, line ends too.
			text_printf(to, "%s ", keys[n].key);
			text_add_safe(to, str_cut(value, VALUE_MOST));
			text_add(to, S("\n"));
		}
	}
}

bool stored_parse(struct str text, struct arena *a, struct stored *ret)
{
	*ret = (struct stored){ 0 };
	while (text.n) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		value = str_cut(str_trim(value), VALUE_MOST);
		for (size_t n = 0; n < KEYS; n++) {
			int64_t number;
			if (!str_is(key, keys[n].key))
				continue;
			if (!keys[n].number)
				*(struct str *)member(ret, &keys[n]) = arena_str(a, value);
			else if (str_number(value, &number))
				*(int64_t *)member(ret, &keys[n]) = number;
		}
	}
	return store_is_id(ret->id) && ret->state.n;
}
