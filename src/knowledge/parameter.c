// Parameters of the kernel and its modules: in which kernels they are, what they mean, and which one was meant by a name that is none. Sources
// stand for series (6.12), while distributions backport and count builds of their own, so the answer is often that it is not known.
#include "knowledge/parameter.h"

#include <errno.h>
#include <stdlib.h>

/** Releases of Red Hat and SUSE: their drivers are of a later version than their name says. */
static const char *const later_drivers[] = { "*.el*", "*-150*-default" };

static char plain(char c) { return c == '-' ? '_' : c; }

bool parameter_same(struct str a, struct str b)
{
	size_t i = 0;
	while (i < a.n && i < b.n && plain(a.p[i]) == plain(b.p[i]))
		i++;
	return i == a.n && i == b.n;
}

const struct know_parameter *know_parameter(const struct know *k, struct str name)
{
	for (size_t i = 0; i < k->parameters.len; i++)
		if (parameter_same(k->parameters.data[i]->head.id, name))
			return k->parameters.data[i];
	return NULL;
}

// --- values ---

bool parameter_number(struct str s, uint64_t *ret)
{
	char room[32], *end;
	if (!s.n || s.n >= sizeof(room) || char_space(s.p[0]))
		return false;
	str_copy(room, sizeof(room), s);
	errno = 0;
	*ret = room[0] == '-' ? (uint64_t)strtoll(room, &end, 0) : strtoull(room, &end, 0);
	return !errno && end != room && !*end;
}

bool parameter_truth(struct str s, bool *ret)
{
	static const char *const yes[] = { "y", "Y", "t", "T", "1", "on", "On", "ON" };
	static const char *const no[] = { "n", "N", "f", "F", "0", "off", "Off", "OFF" };
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		*ret = str_is(s, yes[i]);
		if (*ret || str_is(s, no[i]))
			return true;
	}
	return false;
}

bool value_same(struct str a, struct str b)
{
	uint64_t x, y;
	bool p, q;
	a = str_trim(a);
	b = str_trim(b);
	bool numbers[] = { parameter_number(a, &x), parameter_number(b, &y) };
	if (numbers[0] && numbers[1])
		return x == y || ((uint32_t)x == (uint32_t)y && (x >> 32 == UINT32_MAX || y >> 32 == UINT32_MAX));
	// The kernel shows truth as Y and N: a number beside a word is of a parameter that takes no words.
	if ((!numbers[0] || b.n == 1) && (!numbers[1] || a.n == 1) && parameter_truth(a, &p) && parameter_truth(b, &q))
		return p == q;
	return str_eq(a, b);
}

// --- versions ---

/** The first @parts numbers of a release. */
static struct str version_cut(struct str release, size_t parts)
{
	size_t n = 0;
	while (n < release.n && (char_digit(release.p[n]) || (release.p[n] == '.' && --parts)))
		n++;
	return str_cut(release, n);
}

/** As str_version_cmp(), but 6.12.5 is as 6.12: a source stands for all releases of its series. */
static int series_cmp(struct str kernel, struct str version)
{
	size_t parts = 1;
	for (size_t i = 0; i < version.n; i++)
		parts += version.p[i] == '.';
	return str_version_cmp(version_cut(kernel, parts), version);
}

/** Distributions count their own builds and leave the last number at 0 (6.1.0-50-amd64): it says nothing of what is in it. */
static bool hides_patch_level(struct str kernel)
{
	struct str version = version_cut(kernel, 3);
	return version.n < kernel.n && version.n == version_cut(kernel, 2).n + 2 && str_ends(version, S(".0"));
}

static bool release_tells(struct str kernel)
{
	for (size_t i = 0; i < ARRAY_SIZE(later_drivers); i++)
		if (str_glob(str_z(later_drivers[i]), kernel))
			return false;
	return kernel.n && char_digit(kernel.p[0]);
}

// --- existence ---

/** What the sources before and behind a kernel say. */
struct sides {
	struct str low, high; // versions
	enum truth has_low, has_high;
};

static void sides_add(struct sides *s, struct str kernel, struct str version, enum truth has)
{
	int c = series_cmp(kernel, version);
	if (c >= 0 && (!s->low.n || str_version_cmp(version, s->low) > 0)) {
		s->low = version;
		s->has_low = has;
	}
	if (c <= 0 && (!s->high.n || str_version_cmp(version, s->high) < 0)) {
		s->high = version;
		s->has_high = has;
	}
}

static struct sides sides_of(const struct know_parameter *p, struct str kernel)
{
	struct sides s = { .has_low = TRUTH_UNKNOWN, .has_high = TRUTH_UNKNOWN };
	for (const struct know_list *v = p->seen; v; v = v->next)
		sides_add(&s, kernel, v->text, TRUTH_YES);
	for (const struct know_list *v = p->lacks; v; v = v->next)
		sides_add(&s, kernel, v->text, TRUTH_NO);
	if (p->since.n)
		sides_add(&s, kernel, p->since, TRUTH_YES);
	return s;
}

static bool list_has_series(const struct know_list *versions, struct str kernel)
{
	while (versions && series_cmp(kernel, versions->text))
		versions = versions->next;
	return versions;
}

/** A kernel older than the first that has it may still have it, if it was backported to later releases of its series. */
static bool may_be_backported(const struct know_parameter *p, struct str kernel)
{
	return list_has_series(p->seen, kernel) ||
	       (hides_patch_level(kernel) && !series_cmp(version_cut(kernel, 2), version_cut(p->since, 2)));
}

static enum truth exists_by_sources(const struct know_parameter *p, struct str kernel)
{
	struct sides s = sides_of(p, kernel);
	if (s.has_low == TRUTH_YES && p->until.n)
		return TRUTH_YES;
	// What the oldest source lacks came later, unless it went before it; what the newest lacks has gone.
	if (!s.low.n && p->until.n)
		return TRUTH_UNKNOWN;
	if (!s.low.n || !s.high.n)
		return s.has_low == TRUTH_NO || s.has_high == TRUTH_NO ? TRUTH_NO : TRUTH_UNKNOWN;
	return s.has_low == s.has_high ? s.has_low : TRUTH_UNKNOWN;
}

enum truth parameter_exists(const struct know_parameter *p, struct str kernel)
{
	if (p->absent)
		return TRUTH_NO;
	if (!release_tells(kernel))
		return TRUTH_UNKNOWN;
	if (p->since.n && series_cmp(kernel, p->since) < 0)
		return may_be_backported(p, kernel) ? TRUTH_UNKNOWN : TRUTH_NO;
	if (p->until.n && series_cmp(kernel, p->until) >= 0)
		return TRUTH_NO;
	enum truth exists = exists_by_sources(p, kernel);
	return exists == TRUTH_YES && p->config.n ? TRUTH_UNKNOWN : exists;
}

static struct str default_in(const struct know_parameter *p, struct str version)
{
	for (const struct know_pair *w = p->was; w; w = w->next) {
		struct str value = w->value;
		if (str_eq(w->name, version))
			return str_word(&value);
	}
	return p->default_value;
}

struct str parameter_default(const struct know_parameter *p, struct str kernel)
{
	struct sides s = { 0 };
	if (!release_tells(kernel) || !p->default_value.p)
		return (struct str){ 0 };
	for (const struct know_list *v = p->seen; v; v = v->next)
		sides_add(&s, kernel, v->text, TRUTH_YES);
	if (!s.low.n || !s.high.n || !str_eq(default_in(p, s.low), default_in(p, s.high)))
		return (struct str){ 0 };
	return default_in(p, s.low);
}

// --- names that are nearly right ---

enum { NAME_MOST = 64, NAME_SHORT = 6, NEAR_MOST = 2 };
/** How near a name is, the nearest first. */
enum near { NEAR_DASHES, NEAR_ENDING, NEAR_ONE, NEAR_TWO, NEAR_NOT };

/** What people leave off or put behind. */
static const char *const endings[] = { "d", "s", "_enable", "_support", "_mask", "mask", "_size", "size" };

/** amdgpu of amdgpu.gttsize; the kernel's own have none. */
static struct str parameter_module(struct str *name)
{
	const char *dot = name->n ? memchr(name->p, '.', name->n) : NULL;
	if (!dot)
		return S("");
	struct str module = str_cut(*name, (size_t)(dot - name->p));
	*name = str_from(*name, module.n + 1);
	return module;
}

static struct str without_dashes(struct str s, char room[static NAME_MOST])
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++)
		if (plain(s.p[i]) != '_')
			room[n++] = s.p[i];
	return (struct str){ room, n };
}

static bool differ_by_ending(struct str longer, struct str shorter)
{
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		struct str ending = str_z(endings[i]);
		if (longer.n == shorter.n + ending.n && parameter_same(str_cut(longer, shorter.n), shorter) &&
		    parameter_same(str_from(longer, shorter.n), ending))
			return true;
	}
	return false;
}

/** How many letters must be put in, left out or changed. */
static size_t letters_between(struct str a, struct str b)
{
	size_t row[NAME_MOST + 1];
	for (size_t i = 0; i <= b.n; i++)
		row[i] = i;
	for (size_t i = 1; i <= a.n; i++) {
		size_t across = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			size_t changed = across + (a.p[i - 1] != b.p[j - 1]);
			size_t moved = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
			across = row[j];
			row[j] = changed < moved ? changed : moved;
		}
	}
	return row[b.n];
}

static enum near how_near(struct str name, struct str other)
{
	char room[NAME_MOST], other_room[NAME_MOST];
	if (name.n > NAME_MOST || other.n > NAME_MOST || parameter_same(name, other))
		return NEAR_NOT;
	struct str a = without_dashes(name, room), b = without_dashes(other, other_room);
	if (str_eq(a, b))
		return NEAR_DASHES;
	if (differ_by_ending(name, other) || differ_by_ending(other, name))
		return NEAR_ENDING;
	size_t far = letters_between(a, b);
	if (far == 1)
		return NEAR_ONE;
	return far == NEAR_MOST && a.n >= NAME_SHORT ? NEAR_TWO : NEAR_NOT;
}

bool parameter_name_near(struct str name, struct str other) { return name.n && how_near(name, other) != NEAR_NOT; }

struct nearest {
	struct str name, found;
	enum near near;
	bool several;
};

static void nearest_try(struct nearest *best, struct str other)
{
	enum near near = how_near(best->name, other);
	if (near > best->near || near == NEAR_NOT || parameter_same(other, best->found))
		return;
	best->several = near == best->near;
	best->near = near;
	best->found = other;
}

struct str parameter_near(const struct know *k, struct str name, const struct str *others, size_t n)
{
	struct nearest best = { .name = name, .near = NEAR_NOT };
	struct str module = parameter_module(&best.name);
	for (size_t i = 0; i < n; i++)
		nearest_try(&best, others[i]);
	for (size_t i = 0; i < k->parameters.len && !n; i++) {
		struct str other = k->parameters.data[i]->head.id;
		if (parameter_same(parameter_module(&other), module) && !k->parameters.data[i]->absent)
			nearest_try(&best, other);
	}
	return best.near == NEAR_NOT || best.several ? S("") : best.found;
}

// --- what a block must be ---

static bool is_version(struct str s)
{
	return s.n > 2 && char_digit(s.p[0]) && version_cut(s, s.n).n == s.n && s.p[s.n - 1] != '.';
}

static bool are_versions(const struct know_list *v)
{
	while (v && is_version(v->text))
		v = v->next;
	return !v;
}

static bool are_numbers(const struct know_pair *p, bool first)
{
	int64_t number;
	for (; p; p = p->next) {
		struct str value = p->value;
		if (!str_number(first ? p->name : str_word(&value), &number))
			return false;
	}
	return true;
}

bool parameter_check(const struct know_parameter *p, struct know_problems *problems)
{
	const char *wrong = NULL;
	if ((p->since.n && !is_version(p->since)) || (p->until.n && !is_version(p->until)) || !are_versions(p->seen) ||
	    !are_versions(p->lacks))
		wrong = "'since', 'until', 'seen' and 'lacks' are versions such as 6.12";
	else if (!are_numbers(p->bits, true) || !are_numbers(p->instead_change.clears, false))
		wrong = "a 'bit' is: NUMBER NAME: MEANING, and 'instead-clear': PARAMETER NUMBER";
	else if (!p->absent == !p->type.n)
		wrong = "a parameter has either 'type' or 'exists no'";
	else if (p->absent && (p->seen || p->since.n))
		wrong = "a parameter that no kernel has cannot be in one";
	if (wrong)
		know_problem(problems, p->head.file, p->head.line, "%s", wrong);
	return !wrong;
}

/** Reports advice that names a parameter which no kernel has. */
static void resolve_pairs(const struct know *k, const struct know_head *head, const struct know_pair *pairs, bool must_be_known,
			  struct know_problems *problems)
{
	for (; pairs; pairs = pairs->next) {
		const struct know_parameter *p = know_parameter(k, pairs->name);
		if (p ? p->absent : must_be_known)
			know_problem(problems, head->file, head->line, "no kernel has a parameter '" STR_FMT "'",
				     STR_ARG(pairs->name));
	}
}

void parameters_resolve(const struct know *k, struct know_problems *problems)
{
	for (size_t i = 0; i < k->parameters.len; i++) {
		const struct know_parameter *p = k->parameters.data[i];
		resolve_pairs(k, &p->head, p->instead_change.clears, true, problems);
		resolve_pairs(k, &p->head, p->instead_change.sets, true, problems);
	}
	for (size_t i = 0; i < k->remedies.len; i++) {
		const struct know_remedy *r = k->remedies.data[i];
		resolve_pairs(k, &r->head, r->change.clears, false, problems);
		resolve_pairs(k, &r->head, r->change.sets, false, problems);
	}
	for (size_t i = 0; i < k->checks.len; i++) {
		const struct know_check *c = k->checks.data[i];
		resolve_pairs(k, &c->head, c->change.clears, false, problems);
		resolve_pairs(k, &c->head, c->change.sets, false, problems);
	}
}
