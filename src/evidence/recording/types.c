// What kernels take: by the metadata of their code, which the recorder kept, and by the types in their names.
#include <stdlib.h>

#include "base/bytes.h"
#include "code/demangle.h"
#include "code/object/metadata.h"
#include "evidence/recording/recording.h"

enum { PARAMETERS_MOST = 64 };

static int by_kernel(const void *a, const void *b)
{
	const struct recorded_type *x = a, *y = b;
	return x->executable != y->executable ? (x->executable < y->executable ? -1 : 1) :
						str_cmp(x->kernel->name, y->kernel->name);
}

void recording_type_add(struct flight_recording *r, const struct rec_entry *e, struct str text)
{
	struct code_problems nobody = { 0 };
	struct metadata m = { 0 };
	metadata_read(&r->arena, text, 0, text.n, &nobody, &m);
	for (size_t i = 0; i < m.nkernels; i++)
		vec_push(&r->types, ((struct recorded_type){ e->n[0], &m.kernels[i].kernel }));
}

void recording_types_join(struct flight_recording *r)
{
	if (!r->types.len)
		return;
	qsort(r->types.data, r->types.len, sizeof(*r->types.data), by_kernel);
	for (size_t i = 0; i < r->nkernels; i++) {
		const struct code_kernel wanted = { .name = r->kernels[i].name };
		const struct recorded_type key = { r->kernels[i].executable, &wanted };
		const struct recorded_type *t = bsearch(&key, r->types.data, r->types.len, sizeof(key), by_kernel);
		r->kernels[i].takes = t ? t->kernel : NULL;
	}
}

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

static bool hidden(const struct code_argument *a) { return str_starts(a->value_kind, S("hidden_")); }

size_t packet_takes(struct arena *a, const struct recorded_packet *p, struct packet_argument **ret)
{
	const struct code_kernel *k = p->kernel ? p->kernel->takes : NULL;
	size_t n = 0, named = 0;
	for (size_t i = 0; k && i < k->narguments; i++)
		named += !hidden(&k->arguments[i]);
	if (!named || !p->arguments || p->arguments->state != REC_ARGUMENTS_COPIED)
		return 0;
	struct packet_argument *list = *ret = arena_alloc(a, named * sizeof(*list));
	const struct kernel_words *words = kernel_words(p->kernel);
	for (size_t i = 0; i < k->narguments; i++) {
		const struct code_argument *c = &k->arguments[i];
		const uint32_t copied = p->arguments->copied;
		if (hidden(c))
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

static bool one_of(struct str s, const char *const *words)
{
	for (; *words; words++)
		if (str_is(s, *words))
			return true;
	return false;
}

void argument_number_say(struct text *t, const struct packet_argument *x)
{
	static const char *const whole[] = { "char", "signed char", "short", "int", "long", "long long", NULL };
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
	else if (one_of(x->type, whole) && bits && bits <= 64)
		text_printf(t, "%lld", (long long)((int64_t)(v << (64 - bits)) >> (64 - bits)));
	else
		text_printf(t, str_starts(x->type, S("unsigned")) || v < 1u << 16 ? "%llu" : "0x%llx", (unsigned long long)v);
}
