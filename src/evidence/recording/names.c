// The log of a recording: kernels, code, GPUs, pools and texts.
#include <stdlib.h>

#include "base/bytes.h"
#include "code/names.h"
#include "code/object/metadata.h"
#include "evidence/recording/recording.h"

enum { ENTRIES_MOST = 4 << 20 };

typedef void entry_fn(struct flight_recording *r, const struct rec_entry *e, struct str text);

/** Calls @each for every whole entry; the first that is not whole ends the log. */
static void recording_names_walk(struct flight_recording *r, const struct recording_piece *log, entry_fn *each)
{
	const uint64_t room = log->extent.slots * log->extent.stride;
	uint64_t used = log->extent.head >= sizeof(struct rec_log) ? get_u64(log->head) : 0;
	used = used < room ? used : room;
	for (uint64_t at = 0; used - at >= sizeof(struct rec_entry);) {
		struct rec_entry e;
		memcpy(&e, log->slots + at, sizeof(e));
		if (e.size < sizeof(e) || e.size % 8 || e.size > used - at || e.size > UINT16_MAX ||
		    e.text > e.size - sizeof(e))
			break;
		uint64_t *words = mem_alloc(e.size);
		memcpy(words, log->slots + at, e.size);
		const bool whole = rec_check(words, e.size / 8, at) == e.check;
		free(words);
		if (!whole)
			break;
		each(r, &e, (struct str){ log->slots + at + sizeof(e), e.text });
		at += e.size;
	}
}

/** The first walk counts, so that there is room for what the second keeps. */
static void recording_names_count(struct flight_recording *r, const struct rec_entry *e, struct str text)
{
	(void)text;
	r->nkernels += e->kind == ENTRY_KERNEL;
	r->ncode += e->kind == ENTRY_CODE;
	r->nagents += e->kind == ENTRY_AGENT;
	r->npools += e->kind == ENTRY_POOL;
	r->nnames += e->kind == ENTRY_TEXT;
}

static void recording_names_take(struct flight_recording *r, const struct rec_entry *e, struct str text)
{
	struct str rest = text;
	struct kernel_words *words;
	struct code_problems nobody = { 0 };
	struct metadata m = { 0 };
	const unsigned bus = (unsigned)e->n[3] & 0xffff;
	switch (e->kind) {
	case ENTRY_KERNEL:
		words = arena_alloc(&r->arena, sizeof(*words));
		words->arena = &r->arena;
		r->kernels[r->nkernels++] = (struct recorded_kernel){ .object = e->n[0],
								      .words = words,
								      .argument_bytes = (uint32_t)e->n[1],
								      .executable = e->n[2],
								      .loaded = e->time,
								      .unloaded = UINT64_MAX,
								      .name = text };
		break;
	case ENTRY_CODE:
		r->code[r->ncode++] = (struct recorded_code){ .base = e->n[0],
							      .size = e->n[1],
							      .delta = e->n[2],
							      .executable = e->n[3],
							      .loaded = e->time,
							      .unloaded = UINT64_MAX,
							      .uri = text };
		break;
	case ENTRY_UNLOAD:
		for (size_t i = 0; i < r->nkernels; i++)
			if (r->kernels[i].executable == e->n[0] && r->kernels[i].unloaded == UINT64_MAX)
				r->kernels[i].unloaded = e->time;
		for (size_t i = 0; i < r->ncode; i++)
			if (r->code[i].executable == e->n[0] && r->code[i].unloaded == UINT64_MAX)
				r->code[i].unloaded = e->time;
		break;
	case ENTRY_AGENT:
		r->agents[r->nagents++] = (struct recorded_agent){ .handle = e->n[0],
								   .gpu = e->n[1] == 1,
								   .node = (uint32_t)e->n[2],
								   .name = str_split(&rest, '\n'),
								   .product = str_trim(rest) };
		if (e->n[1] == 1 && bus)
			r->agents[r->nagents - 1].pci = arena_printf(&r->arena, "%04x:%02x:%02x.%x", (unsigned)e->n[4] & 0xffff,
								     bus >> 8, bus >> 3 & 31, bus & 7);
		break;
	case ENTRY_POOL:
		r->pools[r->npools++] = (struct recorded_pool){ .handle = e->n[0],
								.agent = e->n[1],
								.flags = (uint32_t)e->n[2],
								.segment = (uint32_t)(e->n[2] >> 32),
								.bytes = e->n[3] };
		break;
	case ENTRY_TEXT:
		if (e->id && e->id <= r->nnames)
			r->names[e->id - 1] = text;
		break;
	case ENTRY_ALLOCATOR:
		r->allocator = text;
		r->allocator_segment = e->n[0];
		break;
	case ENTRY_METADATA:
		metadata_read(&r->arena, text, 0, text.n, &nobody, &m);
		for (size_t i = 0; i < m.nkernels; i++)
			vec_push(&r->types, ((struct recorded_type){ e->n[0], &m.kernels[i].kernel }));
		break;
	default:
		break;
	}
}

static int by_object(const void *a, const void *b)
{
	const struct recorded_kernel *x = a, *y = b;
	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return x->loaded < y->loaded ? -1 : x->loaded > y->loaded;
}

static int by_kernel(const void *a, const void *b)
{
	const struct recorded_type *x = a, *y = b;
	return x->executable != y->executable ? (x->executable < y->executable ? -1 : 1) :
						str_cmp(x->kernel->name, y->kernel->name);
}

void recording_names(struct flight_recording *r, const struct recording_piece *log)
{
	recording_names_walk(r, log, recording_names_count);
	r->kernels = arena_alloc(&r->arena, (r->nkernels + 1) * sizeof(*r->kernels));
	r->code = arena_alloc(&r->arena, (r->ncode + 1) * sizeof(*r->code));
	r->agents = arena_alloc(&r->arena, (r->nagents + 1) * sizeof(*r->agents));
	r->pools = arena_alloc(&r->arena, (r->npools + 1) * sizeof(*r->pools));
	r->names = arena_alloc(&r->arena, (r->nnames + 1) * sizeof(*r->names));
	const size_t names = r->nnames;
	r->nkernels = r->ncode = r->nagents = r->npools = 0;
	recording_names_walk(r, log, recording_names_take);
	r->nnames = names;
	qsort(r->kernels, r->nkernels, sizeof(*r->kernels), by_object);
	if (r->types.len)
		qsort(r->types.data, r->types.len, sizeof(*r->types.data), by_kernel);
	for (size_t i = 0; i < r->nkernels && r->types.len; i++) {
		const struct code_kernel wanted = { .name = r->kernels[i].name };
		const struct recorded_type key = { r->kernels[i].executable, &wanted };
		const struct recorded_type *of = bsearch(&key, r->types.data, r->types.len, sizeof(key), by_kernel);
		r->kernels[i].takes = of ? of->kernel : NULL;
	}
	vec_free(&r->types);
}

const struct recorded_kernel *recording_kernel(const struct flight_recording *r, uint64_t object, uint64_t time)
{
	size_t low = 0, high = r->nkernels;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct recorded_kernel *k = &r->kernels[middle];
		if (k->object < object || (k->object == object && k->loaded <= time))
			low = middle + 1;
		else
			high = middle;
	}
	const struct recorded_kernel *k = low ? &r->kernels[low - 1] : NULL;
	return object && k && k->object == object ? k : NULL;
}

const struct recorded_agent *recording_agent(const struct flight_recording *r, uint64_t handle)
{
	for (size_t i = 0; i < r->nagents; i++)
		if (r->agents[i].handle == handle)
			return &r->agents[i];
	return NULL;
}

// === What kernels take: by the metadata of their code, which the recorder kept, and by the types in their names. ===

enum { PARAMETERS_MOST = 64 };

/** The parameters of a function as its name has them: `saxpy(float const*, float*, float, int)`. Returns how many; 0: it has none, or more
 * than there is room for. */
static size_t parameters_of(struct str name, struct str ret[static PARAMETERS_MOST])
{
	size_t n = 0, depth = 0, end = name.n - 1, i = name.n;
	if (!name.n || name.p[end] != ')')
		return 0;
	while (i-- > 0) {
		const char c = name.p[i];
		const bool opens = c == '(' || c == '<' || c == '[' || c == '{';
		depth += c == ')' || c == '>' || c == ']' || c == '}';
		if (!(c == ',' && depth == 1) && !(opens && !--depth))
			continue;
		if (n == PARAMETERS_MOST)
			return 0;
		ret[n++] = str_trim((struct str){ name.p + i + 1, end - i - 1 });
		end = i;
		if (opens)
			break;
	}
	if (depth || (n == 1 && !ret[0].n))
		return 0;
	for (size_t k = 0; k < n / 2; k++) {
		const struct str last = ret[n - 1 - k];
		ret[n - 1 - k] = ret[k];
		ret[k] = last;
	}
	return n;
}

const struct kernel_words *kernel_words(const struct recorded_kernel *k)
{
	struct kernel_words *w = k->words;
	struct str types[PARAMETERS_MOST];
	if (w->known)
		return w;
	w->known = true;
	w->plain = demangle(w->arena, k->name);
	w->nparameters = parameters_of(w->plain, types);
	w->parameters = arena_alloc(w->arena, (w->nparameters + 1) * sizeof(*types));
	memcpy(w->parameters, types, w->nparameters * sizeof(*types));
	return w;
}

static bool types_hidden(const struct code_argument *a) { return str_starts(a->value_kind, S("hidden_")); }

size_t packet_takes(struct arena *a, const struct recorded_packet *p, struct packet_argument **ret)
{
	const struct code_kernel *k = p->kernel ? p->kernel->takes : NULL;
	size_t n = 0, named = 0;
	for (size_t i = 0; k && i < k->narguments; i++)
		named += !types_hidden(&k->arguments[i]);
	if (!named || !p->arguments || p->arguments->state != REC_ARGUMENTS_COPIED)
		return 0;
	struct packet_argument *list = *ret = arena_alloc(a, named * sizeof(*list));
	const struct kernel_words *words = kernel_words(p->kernel);
	for (size_t i = 0; i < k->narguments; i++) {
		const struct code_argument *c = &k->arguments[i];
		const uint32_t copied = p->arguments->copied;
		if (types_hidden(c))
			continue;
		list[n] = (struct packet_argument){ .what = c,
						    .type = c->type_name.n              ? c->type_name :
							    words->nparameters == named ? words->parameters[n] :
											  (struct str){ 0 } };
		if (c->offset < copied && c->size <= copied - c->offset)
			list[n].bytes = p->argument_bytes + c->offset;
		n++;
	}
	return n;
}

bool argument_is_pointer(const struct packet_argument *x)
{
	return x->what->size == 8 && (str_is(x->what->value_kind, "global_buffer") || str_ends(x->type, S("*")));
}

void argument_number_say(struct text *t, const struct packet_argument *x)
{
	const uint32_t bits = 8 * x->what->size;
	uint64_t v = 0;
	float f;
	double d;
	memcpy(&v, x->bytes, x->what->size < 8 ? x->what->size : 8);
	memcpy(&f, &v, sizeof(f));
	memcpy(&d, &v, sizeof(d));
	if (str_is(x->type, "float") && bits == 32)
		text_printf(t, "%g", (double)f);
	else if (str_is(x->type, "double") && bits == 64)
		text_printf(t, "%g", d);
	else if (str_is(x->type, "bool"))
		text_printf(t, "%s", v & 1 ? "true" : "false");
	else if (str_among(x->type, STR_EQUALS, "char|signed char|short|int|long|long long").n && bits && bits <= 64)
		text_printf(t, "%lld", (long long)((int64_t)(v << (64 - bits)) >> (64 - bits)));
	else
		text_printf(t, str_starts(x->type, S("unsigned")) || v < 1u << 16 ? "%llu" : "0x%llx", (unsigned long long)v);
}
