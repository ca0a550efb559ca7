// The words by which people name a GPU: `RX 7900 XTX`, `7900XTX`, `MI300X`. They follow from the names in knowledge/parts.know.
#include "base/arena.h"
#include "knowledge/know.h"

enum { DIGITS_LEAST = 3 }; // a model has a number of so many; `Radeon R7` is half a name

struct naming {
	const struct know_part *part;
	know_part_name_fn *each;
	void *ctx;
	struct text *room; // for a name
};

static size_t digits_in(struct str s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++)
		n += char_digit(s.p[i]);
	return n;
}

static bool has_letter(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (char_alpha(s.p[i]))
			return true;
	return false;
}

/** In lower case; @without: a character that is left out. */
static void name_say(const struct naming *n, struct str name, char without)
{
	char *lower = text_room(n->room, name.n);
	size_t length = 0;
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] != without)
			lower[length++] = char_lower(name.p[i]);
	n->each(n->ctx, (struct str){ lower, length }, n->part);
}

/** `7900 XTX` is a name by itself, and `MI300X`; `580` and `780M` are not, since any number may look so. */
static bool name_stands_alone(struct str name)
{
	const char *space = name.n ? memchr(name.p, ' ', name.n) : NULL;
	const struct str behind = space ? str_from(name, (size_t)(space - name.p) + 1) : (struct str){ 0 };
	return name.n && (char_alpha(name.p[0]) || (char_digit(name.p[0]) && has_letter(behind)));
}

/** What is left of `Pro W7900`, `Instinct MI300X` and `RX 7900 XTX` without the words that have no number. */
static struct str behind_brand(struct str name)
{
	struct str rest = name, ahead = name;
	while (ahead.n && !digits_in(str_word(&ahead)))
		rest = str_trim(ahead);
	return rest;
}

/** One of the names between the slashes of a part's name, without the word that most begin with. */
static void say_forms(const struct naming *n, struct str name)
{
	const struct str model = behind_brand(name);
	_cleanup_text_ struct text full = { 0 };
	if (digits_in(name) < DIGITS_LEAST)
		return;
	text_add(&full, S("Radeon "));
	text_add(&full, name);
	name_say(n, text_str(&full), 0);
	if (char_alpha(name.p[0]))
		name_say(n, name, 0);
	if (str_starts(name, S("RX ")))
		name_say(n, name, ' '); // rx7900xtx
	if (!name_stands_alone(model))
		return;
	name_say(n, model, 0);
	if (memchr(model.p, ' ', model.n))
		name_say(n, model, ' '); // 7900xtx
}

void know_part_names(const struct know *k, know_part_name_fn *each, void *ctx)
{
	_cleanup_text_ struct text room = { 0 };
	for (size_t i = 0; i < k->parts.len; i++) {
		const struct naming n = { k->parts.data[i], each, ctx, &room };
		struct str whole = n.part->name, names = str_split(&whole, '(');
		str_behind(names, S("Radeon "), &names);
		for (struct str name = str_trim(str_split(&names, '/')); name.n; name = str_trim(str_split(&names, '/')))
			say_forms(&n, name);
	}
}

struct part_search {
	struct str wanted;
	const struct know_part *found;
	bool several;
};

static void try_name(void *ctx, struct str name, const struct know_part *p)
{
	struct part_search *s = ctx;
	if (!str_eq(name, s->wanted))
		return;
	s->several |= s->found && !str_eq(s->found->gfx, p->gfx);
	s->found = s->found ? s->found : p;
}

const struct know_part *know_part_called(const struct know *k, struct str name, bool *ret_several)
{
	_cleanup_text_ struct text lower = { 0 };
	uint64_t device;
	str_behind(name, S("AMD "), &name);
	for (size_t i = 0; i < name.n; i++)
		text_add(&lower, (struct str){ &(char){ char_lower(name.p[i]) }, 1 });
	struct part_search s = { .wanted = text_str(&lower) };
	know_part_names(k, try_name, &s);
	if (!s.found && str_hex(name, &device) && device <= 0xffff && name.n >= 4)
		s.found = know_part(k, (unsigned)device, -1);
	*ret_several = s.several;
	return s.several ? NULL : s.found;
}
