// `incident` as text: a line for each value, its key first.
#include "store/record.h"
#include "store/store.h"

#define TEXT(name) RECORD_TEXT(stored, name)
#define NUMBER(name) RECORD_NUMBER(stored, name)
static const struct record_key keys[] = {
	TEXT(id),      TEXT(state),    TEXT(class),     TEXT(title),   TEXT(fault),      TEXT(action),      TEXT(host),
	TEXT(boot_id), TEXT(gpu),      TEXT(unique_id), TEXT(serial),  TEXT(origin),     TEXT(bundle),      TEXT(closed_by),
	TEXT(job),     NUMBER(began),  NUMBER(changed), NUMBER(ended), TEXT(votes),      NUMBER(first_us),  NUMBER(last_us),
	NUMBER(stood), NUMBER(events), NUMBER(hooks),   NUMBER(pid),   NUMBER(revision), TEXT(fingerprint), TEXT(fit), { 0 },
};

bool store_is_id(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if (!char_digit(id.p[i]) && !(id.p[i] >= 'a' && id.p[i] <= 'f'))
			return false;
	return id.n == STORE_ID;
}

void stored_text(const struct stored *i, struct text *to) { record_text(i, keys, to); }

bool stored_parse(struct str text, struct arena *a, struct stored *ret)
{
	*ret = (struct stored){ 0 };
	record_take(text, a, ret, keys);
	return store_is_id(ret->id) && ret->state.n;
}
