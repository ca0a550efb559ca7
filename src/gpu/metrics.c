#include "gpu/metrics.h"

#include "base/bytes.h"

enum { HEAD = 4, FORMAT = 2, CONTENT = 3, BITS_64 = 64 };

/** A value of @width bytes. false: all its bits are set. */
static bool metrics_get(const char *p, size_t width, uint64_t *ret)
{
	*ret = 0;
	memcpy(ret, p, width);
	return *ret != UINT64_MAX >> (BITS_64 - 8 * width);
}

// --- tables whose fields lie at fixed places ---

/** Where a field lies. */
struct metrics_place {
	size_t at, width, count; // count: 0: there is no such field, and the table ends at @at
};

/** Goes through the fields up to @field; an empty one is none of them. */
static struct metrics_place metrics_find(const struct know_metrics *layout, struct str field)
{
	size_t at = HEAD, width = 1, widest = sizeof(uint16_t);
	for (const struct know_list *l = layout->fields; l; l = l->next) {
		struct str times = l->text, name = str_split(&times, '*'), digits;
		int64_t number = 1;
		if (str_behind(l->text, S("u"), &digits) && str_number(digits, &number)) {
			width = (size_t)number / 8;
			widest = width > widest ? width : widest;
			continue;
		}
		if (times.n)
			str_number(times, &number);
		else
			number = 1;
		at = (at + width - 1) / width * width;
		if (field.n && str_eq(name, field))
			return (struct metrics_place){ at, width, (size_t)number };
		at += width * (size_t)number;
	}
	return (struct metrics_place){ .at = (at + widest - 1) / widest * widest };
}

static bool metrics_field(const struct metrics *m, struct str field, size_t index, uint64_t *ret)
{
	const struct metrics_place p = metrics_find(m->layout, field);
	return index < p.count && metrics_get(m->bytes.p + p.at + index * p.width, p.width, ret);
}

// --- tables that are a list of attributes ---

/** Behind the head is their number; each is a word that says what it is and how many values of which type follow. */
static bool metrics_attribute(const struct metrics *m, struct str field, size_t index, uint64_t *ret)
{
	enum { COUNT = 4, FIRST = 8, WORD = 8, TYPES = 8, TYPE_AT = 20, NUMBER_AT = 10, TEN_BITS = 0x3ff };
	static const size_t widths[TYPES] = { 1, 1, 2, 2, 4, 4, 8, 8 };
	const struct str b = m->bytes;
	size_t at = FIRST;
	if (b.n < FIRST)
		return false;
	for (uint32_t left = get_u32(b.p + COUNT); left && b.n - at >= WORD; left--) {
		const uint64_t what = get_u64(b.p + at);
		const size_t n = what & TEN_BITS, type = what >> TYPE_AT & 15;
		at += WORD;
		if (type >= TYPES || n > (b.n - at) / widths[type])
			return false;
		if (str_eq(know_name(m->know, m->layout->names, (int64_t)(what >> NUMBER_AT & TEN_BITS)), field))
			return index < n && metrics_get(b.p + at + index * widths[type], widths[type], ret);
		at += n * widths[type];
	}
	return false;
}

// --- any ---

bool metrics_of(const struct know *k, struct str bytes, struct metrics *ret)
{
	*ret = (struct metrics){ .know = k };
	const size_t size = bytes.n >= HEAD ? get_u16(bytes.p) : 0;
	if (size < HEAD || size > bytes.n)
		return false;
	const int format = (unsigned char)bytes.p[FORMAT], content = (unsigned char)bytes.p[CONTENT];
	ret->bytes = str_cut(bytes, size);
	ret->layout = list_find_of(k->metrics.data, k->metrics.len, it,
				   it->format == format && it->content == content &&
					   (it->names.n || metrics_find(it, (struct str){ 0 }).at == size));
	return ret->layout;
}

bool metrics_value(const struct metrics *m, struct str field, size_t index, uint64_t *ret)
{
	if (!m->layout || !field.n)
		return false;
	return m->layout->names.n ? metrics_attribute(m, field, index, ret) : metrics_field(m, field, index, ret);
}

// --- what slows it down ---

struct causes {
	struct metrics_cause *list;
	size_t n;
};

/** The most of those with one name is told. */
static void metrics_add_cause(struct causes *c, struct str cause, int percent)
{
	struct metrics_cause *same = list_find(c->list, c->n, it, str_eq(it->cause, cause));
	if (same)
		same->percent = percent > same->percent ? percent : same->percent;
	else if (cause.n && c->n < METRICS_CAUSES)
		c->list[c->n++] = (struct metrics_cause){ cause, percent };
}

/** How far a counter went; 0: it did not, or one of the tables does not have it. */
static uint64_t metrics_grew(const struct metrics *older, const struct metrics *newer, struct str field)
{
	uint64_t before, now;
	return metrics_value(older, field, 0, &before) && metrics_value(newer, field, 0, &now) && now > before ? now - before : 0;
}

size_t metrics_throttle(const struct metrics *older, const struct metrics *newer, struct metrics_cause ret[static METRICS_CAUSES])
{
	enum { HUNDRED = 100 };
	const struct know_metrics *l = newer->layout;
	struct causes causes = { ret, 0 };
	uint64_t status = 0;
	if (l && metrics_value(newer, l->status, 0, &status))
		for (int bit = 0; bit < BITS_64; bit++)
			if (status >> bit & 1)
				metrics_add_cause(&causes, know_name(newer->know, S("throttle-causes"), bit), -1);
	if (!l || older->layout != l)
		return causes.n;
	const uint64_t cycles = metrics_grew(older, newer, l->cycles);
	for (const struct know_pair *p = l->residencies; p; p = p->next) {
		const uint64_t grew = metrics_grew(older, newer, p->name);
		// Where nobody says what it is a share of, that it grew is all that is known.
		const uint64_t percent = cycles && grew < cycles ? grew * HUNDRED / cycles : HUNDRED;
		if (grew && (cycles || !l->cycles.n))
			metrics_add_cause(&causes, p->value, cycles ? (int)percent : -1);
	}
	return causes.n;
}

bool metrics_counts_throttle(const struct metrics *m)
{
	uint64_t value;
	for (const struct know_pair *p = m->layout ? m->layout->residencies : NULL; p; p = p->next)
		if (metrics_value(m, p->name, 0, &value) && value)
			return true;
	return false;
}

struct str metrics_throttle_text(struct arena *a, const struct metrics_cause *causes, size_t n)
{
	_cleanup_text_ struct text t = { 0 };
	for (size_t i = 0; i < n; i++) {
		text_printf(&t, "%s" STR_FMT, i ? ", " : "", STR_ARG(causes[i].cause));
		if (causes[i].percent >= 0)
			text_printf(&t, " (%d %% of the time)", causes[i].percent);
	}
	return arena_str(a, text_str(&t));
}
