#include "store/trend.h"

#include <fcntl.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/save.h"

#define TREND "corrected"
#define NO_BLOCK "-"
enum { DAY_S = 24 * 3600, DAYS_KEPT = 400, ROWS_MOST = 16384, WORD_MOST = 48, FILE_BYTES = 2 << 20, TREND_MODE = 0644 };

int64_t trend_day_of(double seconds) { return (int64_t)seconds / DAY_S; }

static bool trend_is(const struct trend_day *d, struct str module, struct str block)
{
	return str_eq(d->module, module) && str_eq(d->block, block);
}

void trend_add(struct trend *t, const struct trend_day *d)
{
	struct trend_day *known =
		list_find(t->days.data, t->days.len, it, it->day == d->day && trend_is(it, d->module, d->block));
	if (known && known->n <= INT64_MAX / 2 && d->n <= INT64_MAX / 2)
		known->n += d->n;
	else if (!known && t->days.len < ROWS_MOST)
		vec_push(&t->days,
			 ((struct trend_day){ arena_str(&t->arena, d->module), arena_str(&t->arena, d->block), d->day, d->n }));
}

int64_t trend_came(const struct trend *t, struct str module, struct str block, int64_t last, int64_t days)
{
	int64_t n = 0;
	for (size_t i = 0; i < t->days.len; i++) {
		const struct trend_day *d = &t->days.data[i];
		if (trend_is(d, module, block) && d->day <= last && d->day > last - days && n <= INT64_MAX - d->n)
			n += d->n;
	}
	return n;
}

int64_t trend_first(const struct trend *t, struct str module, struct str block)
{
	int64_t first = -1;
	for (size_t i = 0; i < t->days.len; i++)
		if (trend_is(&t->days.data[i], module, block) && (first < 0 || t->days.data[i].day < first))
			first = t->days.data[i].day;
	return first;
}

void trend_free(struct trend *t)
{
	vec_free(&t->days);
	arena_free(&t->arena);
}

// --- on the disk ---

void trend_text(const struct trend *t, struct text *to)
{
	for (size_t i = 0; i < t->days.len; i++) {
		const struct trend_day *d = &t->days.data[i];
		text_printf(to, "%lld %lld " STR_FMT " " STR_FMT "\n", (long long)d->day, (long long)d->n, STR_ARG(d->module),
			    STR_ARG(d->block.n ? d->block : S(NO_BLOCK)));
	}
}

/** Serial numbers, ids, PCI addresses and names of blocks. */
static bool trend_word(struct str word)
{
	for (size_t i = 0; i < word.n; i++)
		if (!char_word(word.p[i]) && !char_among(word.p[i], ":.-_"))
			return false;
	return word.n && word.n < WORD_MOST;
}

bool trend_parse(struct str text, struct trend *t)
{
	while (text.n) {
		struct str line = str_split(&text, '\n');
		struct trend_day d = { 0 };
		const bool numbers = str_number(str_word(&line), &d.day) && str_number(str_word(&line), &d.n);
		d.module = str_word(&line);
		d.block = str_word(&line);
		if (!numbers || d.day < 0 || d.day > TREND_EVER || d.n <= 0 || !trend_word(d.module) || !trend_word(d.block) || str_trim(line).n)
			return false;
		if (str_is(d.block, NO_BLOCK))
			d.block = (struct str){ 0 };
		trend_add(t, &d);
	}
	return true;
}

static void trend_forget(struct trend *t)
{
	int64_t newest = 0;
	size_t kept = 0;
	for (size_t i = 0; i < t->days.len; i++)
		newest = t->days.data[i].day > newest ? t->days.data[i].day : newest;
	for (size_t i = 0; i < t->days.len; i++)
		if (t->days.data[i].day > newest - DAYS_KEPT)
			t->days.data[kept++] = t->days.data[i];
	t->days.len = kept;
}

void trend_load(const char *directory, struct trend *t)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str text = { 0 };
	const struct named file = { .path = arena_printf(&a, "%s/" TREND, directory).p };
	uh_error_free(named_read(&file, FILE_BYTES, &a, &text, NULL));
	trend_parse(text, t); // what was cut is left out
}

struct uh_error *trend_keep(const char *directory, struct str more)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text text = { 0 };
	_cleanup_(trend_free) struct trend all = { 0 };
	trend_load(directory, &all);
	if (!trend_parse(more, &all))
		return uh_error_new("what was to be counted is no count of corrected errors");
	trend_forget(&all);
	trend_text(&all, &text);
	return save_file(AT_FDCWD, arena_printf(&a, "%s/" TREND, directory).p, text_str(&text), TREND_MODE);
}
