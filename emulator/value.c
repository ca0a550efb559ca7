// Values that change with time.
#include "emulator/machine.h"

#include <stdlib.h>
#include <sys/uio.h>

enum value_kind { VALUE_CONSTANT, VALUE_CYCLE, VALUE_COUNT, VALUE_UNTIL, VALUE_SCALED, VALUE_MEMORY };

struct value {
	enum value_kind kind;
	uint64_t number; // or the factor
	double seconds;
	int64_t step;
	size_t n;
	const uint64_t *numbers;
	const struct value *first, *then;
	uint64_t mask;
	unsigned shift;
};

enum { VALUE_DEPTH = 16 };

static bool word_number(struct str word, const char *const *names, uint64_t *ret)
{
	for (size_t i = 0; names && names[i]; i++)
		if (str_is(word, names[i])) {
			*ret = i;
			return true;
		}
	return !names && emu_number_of(word, ret);
}

static bool read_cycle(struct cursor *c, const char *const *names, struct value *v)
{
	VEC(uint64_t) numbers = { 0 };
	uint64_t number;
	v->kind = VALUE_CYCLE;
	if (!cursor_seconds(c, &v->seconds))
		return false;
	while (word_number(cursor_peek(c), names, &number)) {
		cursor_word(c);
		vec_push(&numbers, number);
	}
	v->n = numbers.len;
	uint64_t *kept = arena_alloc(&c->r->m->arena, numbers.len * sizeof(*kept) + 1);
	if (numbers.len)
		memcpy(kept, numbers.data, numbers.len * sizeof(*kept));
	v->numbers = kept;
	vec_free(&numbers);
	return v->n || emu_wrong(c, "cycle without values");
}

static bool read_count(struct cursor *c, struct value *v)
{
	v->kind = VALUE_COUNT;
	if (!cursor_number(c, "count", UINT64_MAX, &v->number))
		return false;
	struct str step = cursor_word(c);
	uint64_t size;
	bool minus = step.n && step.p[0] == '-';
	if (!emu_number_of(str_from(step, minus), &size) || size > INT64_MAX)
		return emu_wrong(c, "count: the step is no number");
	v->step = minus ? -(int64_t)size : (int64_t)size;
	return cursor_seconds(c, &v->seconds);
}

static bool read_value(struct cursor *c, const char *const *names, unsigned depth, const struct value **ret);

static bool read_simple(struct cursor *c, const char *const *names, unsigned depth, struct value *v, const struct value **ret)
{
	struct str word = cursor_word(c);
	*ret = v;
	if (str_is(word, "(")) {
		if (!read_value(c, names, depth + 1, ret))
			return false;
		return cursor_is(c, ")") || emu_wrong(c, "a ) is missing");
	}
	if (str_is(word, "cycle"))
		return read_cycle(c, names, v);
	if (str_is(word, "count") && !names)
		return read_count(c, v);
	if (word_number(word, names, &v->number))
		return true;
	return word.n ? emu_wrong(c, "'" STR_FMT "' is no value", STR_ARG(str_cut(word, 80))) :
			emu_wrong(c, "a value is missing");
}

/** Whether `until SECONDS VALUE` follows; a wave may end in `until SECONDS`. */
static bool until_follows(struct cursor *c, const char *const *names)
{
	struct cursor ahead = *c;
	uint64_t number;
	if (!cursor_is(&ahead, "until"))
		return false;
	cursor_word(&ahead);
	struct str word = cursor_peek(&ahead);
	return str_is(word, "(") || str_is(word, "cycle") || str_is(word, "count") || word_number(word, names, &number);
}

static bool read_value(struct cursor *c, const char *const *names, unsigned depth, const struct value **ret)
{
	struct value *v = arena_alloc(&c->r->m->arena, sizeof(*v));
	if (depth > VALUE_DEPTH)
		return emu_wrong(c, "values inside of values, more than %d deep", VALUE_DEPTH);
	if (!read_simple(c, names, depth, v, ret))
		return false;
	if ((*ret)->kind != VALUE_CONSTANT && (*ret)->kind != VALUE_UNTIL && (*ret)->seconds < 1e-6)
		return emu_wrong(c, "a step of less than a microsecond");
	if (!until_follows(c, names))
		return true;
	struct value *u = arena_alloc(&c->r->m->arena, sizeof(*u));
	u->kind = VALUE_UNTIL;
	u->first = *ret;
	*ret = u;
	cursor_word(c);
	return cursor_seconds(c, &u->seconds) && read_value(c, names, depth + 1, &u->then);
}

bool cursor_value(struct cursor *c, const char *const *names, const struct value **ret) { return read_value(c, names, 0, ret); }

const struct value *value_constant(struct arena *a, uint64_t number)
{
	struct value *v = arena_alloc(a, sizeof(*v));
	v->number = number;
	return v;
}

const struct value *value_scaled(struct arena *a, const struct value *of, uint64_t factor, uint64_t mask, unsigned shift)
{
	struct value *v = arena_alloc(a, sizeof(*v));
	*v = (struct value){ .kind = VALUE_SCALED, .number = factor, .first = of, .mask = mask, .shift = shift };
	return v;
}

const struct value *value_memory(struct arena *a, int pid, uint64_t address)
{
	struct value *v = arena_alloc(a, sizeof(*v));
	*v = (struct value){ .kind = VALUE_MEMORY, .step = pid, .number = address };
	return v;
}

static uint64_t memory_of(const struct value *v)
{
	uint64_t word = 0;
	struct iovec here = { &word, sizeof(word) }, there = { (void *)(uintptr_t)v->number, sizeof(word) };
	return process_vm_readv((pid_t)v->step, &here, 1, &there, 1, 0) == sizeof(word) ? word : 0;
}

uint64_t value_at(const struct value *v, double t)
{
	if (!v)
		return 0;
	if (!(t > 0))
		t = 0;
	double steps = v->seconds > 0 ? t / v->seconds : 0;
	uint64_t n = steps < 1e18 ? (uint64_t)steps : 0;
	switch (v->kind) {
	case VALUE_CONSTANT:
		return v->number;
	case VALUE_CYCLE:
		return v->numbers[n % v->n];
	case VALUE_COUNT:
		return v->number + (uint64_t)v->step * n;
	case VALUE_UNTIL:
		return value_at(t < v->seconds ? v->first : v->then, t);
	case VALUE_SCALED:
		return (value_at(v->first, t) * v->number & v->mask) >> v->shift;
	case VALUE_MEMORY:
		return memory_of(v);
	}
	return 0;
}

bool value_changes(const struct value *v)
{
	return v && v->kind != VALUE_CONSTANT && (v->kind != VALUE_SCALED || value_changes(v->first));
}
