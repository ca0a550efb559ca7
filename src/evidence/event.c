// Events and what they bring along, built and copied. A copy owns all of its texts in one arena, because the reader's views are gone when
// it has handed the event on.
#include "evidence/event.h"

void event_begin(struct event *e, struct place at)
{
	memset(e, 0, offsetof(struct event, facts));
	e->at = at;
}

const struct fact *event_fact(const struct event *e, const char *name)
{
	for (size_t i = 0; i < e->nfacts; i++)
		if (str_is(e->facts[i].name, name))
			return &e->facts[i];
	return NULL;
}

bool event_get(const void *event, struct str name, size_t index, struct str *ret_value)
{
	const struct fact *f = NULL;
	const struct event *e = event;
	for (size_t i = 0; i < e->nfacts && !f; i++)
		if (str_eq(e->facts[i].name, name) && !index--)
			f = &e->facts[i];
	*ret_value = f ? f->value : (struct str){ 0 };
	return f;
}

void event_add(struct event *e, struct str name, struct str value, enum fact_type type)
{
	if (e->nfacts < EVENT_FACTS && value.n)
		e->facts[e->nfacts++] = (struct fact){ name, value, type, e->at };
}

struct str code_text(uint64_t value, char room[static 24])
{
	char *at = room + 23;
	do
		*--at = "0123456789abcdef"[value & 15];
	while (value >>= 4);
	*--at = 'x';
	*--at = '0';
	return (struct str){ at, (size_t)(room + 23 - at) };
}

void event_add_text(struct event *e, struct arena *a, const char *name, struct str value)
{
	event_add(e, str_z(name), arena_str(a, value), FACT_TEXT);
}

void event_add_number(struct event *e, struct arena *a, const char *name, int64_t value)
{
	event_add(e, str_z(name), arena_printf(a, "%lld", (long long)value), FACT_NUMBER);
}

void event_add_code(struct event *e, struct arena *a, const char *name, uint64_t value)
{
	char room[24];
	event_add(e, str_z(name), arena_str(a, code_text(value, room)), FACT_CODE);
}

static struct register_set registers_copy(struct arena *a, const struct register_set *s)
{
	struct register_set copy = { arena_copy(a, s->data, s->len * sizeof(*s->data)), s->len, s->len };
	for (size_t i = 0; i < s->len; i++) {
		struct wave_register *r = &copy.data[i];
		r->group = arena_str(a, r->group);
		r->name = arena_str(a, r->name);
		r->data = arena_copy(a, r->data, r->n * sizeof(*r->data));
	}
	return copy;
}

static struct values *values_copy(struct arena *a, const struct values *v, size_t n)
{
	struct values *copy = n ? arena_copy(a, v, n * sizeof(*copy)) : NULL;
	for (size_t i = 0; i < n; i++) {
		copy[i].group = arena_str(a, v[i].group);
		copy[i].name = arena_str(a, v[i].name);
		copy[i].data = arena_copy(a, v[i].data, v[i].n * sizeof(*v[i].data));
	}
	return copy;
}

/** Names that follow one another are often the same: then they are copied once. */
static struct str copy_again(struct arena *a, struct str s, struct str before, struct str copied)
{
	return s.p == before.p && s.n == before.n ? copied : arena_str(a, s);
}

static const struct wave_row *waves_copy(struct arena *a, const struct wave_row *rows, size_t n)
{
	struct wave_row *copy = arena_alloc(a, n * sizeof(*copy) + 1);
	for (size_t i = 0; i < n; i++) {
		const struct wave_row none = { 0 }, *before = i ? &rows[i - 1] : &none, *copied = i ? &copy[i - 1] : &none;
		copy[i] = rows[i];
		copy[i].kernel = copy_again(a, rows[i].kernel, before->kernel, copied->kernel);
		copy[i].state = copy_again(a, rows[i].state, before->state, copied->state);
	}
	return copy;
}

struct dump dump_copy(struct arena *a, const struct dump *d)
{
	struct dump copy = *d;
	struct wave_access *accesses = arena_copy(a, d->accesses, d->naccesses * sizeof(*accesses));
	struct code_row *code = arena_copy(a, d->code, d->ncode * sizeof(*code));
	struct queue_row *queues = arena_copy(a, d->queues, d->nqueues * sizeof(*queues));
	for (size_t i = 0; i < d->naccesses; i++)
		accesses[i].instruction = arena_str(a, accesses[i].instruction);
	for (size_t i = 0; i < d->ncode; i++)
		code[i].text = arena_str(a, code[i].text);
	for (size_t i = 0; i < d->nqueues; i++)
		queues[i].head = arena_str(a, queues[i].head);
	copy.registers = registers_copy(a, &d->registers);
	copy.values = values_copy(a, d->values, d->nvalues);
	copy.accesses = accesses;
	copy.map = arena_copy(a, d->map, d->nmap * sizeof(*d->map));
	copy.waves = waves_copy(a, d->waves, d->nwaves);
	copy.code = code;
	copy.queues = queues;
	copy.memory = arena_copy(a, d->memory, d->nmemory * sizeof(*d->memory));
	copy.units = arena_copy(a, d->units, d->nunits * sizeof(*d->units));
	return copy;
}

size_t dump_bytes(const struct dump *d)
{
	size_t bytes = d->naccesses * sizeof(*d->accesses) + d->nmap * sizeof(*d->map);
	bytes += d->nwaves * sizeof(*d->waves) + d->ncode * sizeof(*d->code) + d->nqueues * sizeof(*d->queues) +
		 d->nmemory * sizeof(*d->memory) + d->nunits * sizeof(*d->units);
	for (size_t i = 0; i < d->registers.len; i++)
		bytes += sizeof(d->registers.data[i]) + d->registers.data[i].n * sizeof(uint64_t);
	for (size_t i = 0; i < d->nvalues; i++)
		bytes += sizeof(d->values[i]) + d->values[i].n * sizeof(d->values[i].data[0]);
	return bytes;
}
