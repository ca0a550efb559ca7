// Up to where the kernel's log is stored: `boot BOOT-ID`, `sequence N`, `microseconds N`, a line each.
#include <fcntl.h>

#include "base/door/door.h"
#include "base/save.h"
#include "store/store.h"

#define PLACE "place"
enum { PLACE_MOST = 4096, PLACE_MODE = 0640 };

void store_place_text(const struct store_place *p, struct text *to)
{
	text_printf(to, "boot %s\nsequence %llu\nmicroseconds %lld\n", p->boot_id, (unsigned long long)p->sequence,
		    (long long)p->microseconds);
}

bool store_place_parse(struct str text, struct store_place *ret)
{
	int64_t n;
	*ret = (struct store_place){ 0 };
	while (text.n) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		value = str_trim(value);
		if (str_is(key, "boot") && value.n < sizeof(ret->boot_id))
			str_copy(ret->boot_id, sizeof(ret->boot_id), value);
		else if (str_is(key, "sequence") && str_number(value, &n) && n >= 0)
			ret->sequence = (uint64_t)n;
		else if (str_is(key, "microseconds") && str_number(value, &n))
			ret->microseconds = n;
		else
			return false;
	}
	return ret->boot_id[0];
}

struct uh_error *store_place_save(const char *directory, const struct store_place *p)
{
	struct arena a = { 0 };
	struct text text = { 0 };
	store_place_text(p, &text);
	struct uh_error *err = save_file(AT_FDCWD, arena_printf(&a, "%s/" PLACE, directory).p, text_str(&text), PLACE_MODE);
	text_free(&text);
	arena_free(&a);
	return err;
}

bool store_place_load(const char *directory, struct store_place *ret)
{
	struct arena a = { 0 };
	struct str text;
	*ret = (struct store_place){ 0 };
	const char *path = arena_printf(&a, "%s/" PLACE, directory).p;
	struct uh_error *err = named_read(&(struct named){ .path = path }, PLACE_MOST, &a, &text, NULL);
	const bool good = !err && store_place_parse(text, ret);
	uh_error_free(err);
	arena_free(&a);
	return good;
}
