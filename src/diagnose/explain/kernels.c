// From the name of a GPU kernel to what it does, in words that its user knows.
#include "code/names.h"
#include "diagnose/incident.h"

enum { SHORT_BYTES = 72, ARGUMENTS_BYTES = 48 };

/** Length of the template arguments at the front of @s, with their brackets. */
static size_t arguments_length(struct str s)
{
	int depth = 0;
	for (size_t i = 0; i < s.n; i++) {
		depth += s.p[i] == '<';
		depth -= s.p[i] == '>';
		if (!depth)
			return i + 1;
	}
	return s.n;
}

/** Without namespaces, and without the spaces that older compilers put between brackets. */
static struct str kernels_tidy(struct arena *a, struct str s)
{
	_cleanup_text_ struct text out = { 0 };
	while (s.n) {
		size_t word = 0;
		while (word < s.n && char_word(s.p[word]))
			word++;
		if (word && str_starts(str_from(s, word), S("::")) && word + 2 < s.n && char_word(s.p[word + 2])) {
			s = str_from(s, word + 2);
			continue;
		}
		word = word ? word : 1;
		if (!(s.p[0] == ' ' && s.n > 1 && s.p[1] == '>'))
			text_add(&out, str_cut(s, word));
		s = str_from(s, word);
	}
	return arena_str(a, text_str(&out));
}

/** The name with which people speak of the kernel: the part that is known, or the function without its arguments. */
static struct str kernels_short_name(struct arena *a, struct str name, struct str fragment)
{
	ptrdiff_t at = fragment.n ? str_find(name, fragment) : -1;
	if (at >= 0 && !str_starts(name, S("_Z"))) {
		size_t begin = (size_t)at, end = begin + fragment.n;
		while (begin && char_word(name.p[begin - 1]))
			begin--;
		while (end < name.n && char_word(name.p[end]))
			end++;
		struct str behind = str_from(name, end);
		size_t arguments = str_starts(behind, S("<")) ? arguments_length(behind) : 0;
		end += arguments <= ARGUMENTS_BYTES ? arguments : 0;
		return str_cut(kernels_tidy(a, (struct str){ name.p + begin, end - begin }), SHORT_BYTES);
	}
	// `void ns::kernel<...>(...)`: the function's own name
	struct str rest = name;
	size_t end = 0;
	for (size_t i = 0; i < rest.n && rest.p[i] != '<' && rest.p[i] != '('; i++) {
		if (rest.p[i] == ' ' && i + 1 < rest.n) {
			rest = str_from(rest, i + 1);
			i = (size_t)-1;
			continue;
		}
		end = i + 1;
	}
	struct str plain = kernels_tidy(a, str_cut(rest, end));
	return str_cut(plain.n ? plain : name, SHORT_BYTES);
}

static const struct know_kernel *find_kernel(const struct know *k, struct str name, struct str *ret_fragment)
{
	for (size_t i = 0; i < k->kernels.len; i++) {
		for (const struct know_list *l = k->kernels.data[i]->names; l; l = l->next) {
			if (str_find(name, l->text) >= 0) {
				*ret_fragment = l->text;
				return k->kernels.data[i];
			}
		}
	}
	return NULL;
}

/** The architecture that a name gives: `_ISA908_` of Tensile, `_gfx942` of others. */
static struct str name_isa(struct arena *a, struct str name)
{
	static const char *const marks[] = { "_ISA", "gfx" };
	for (size_t m = 0; m < 2; m++) {
		ptrdiff_t at = str_find(name, str_z(marks[m]));
		if (at < 0)
			continue;
		struct str rest = str_from(name, (size_t)at + strlen(marks[m]));
		size_t n = 0;
		while (n < rest.n && (char_digit(rest.p[n]) || (rest.p[n] >= 'a' && rest.p[n] <= 'f')))
			n++;
		if (n == 3 || n == 4)
			return arena_printf(a, "gfx" STR_FMT, STR_ARG(str_cut(rest, n)));
	}
	return (struct str){ 0 };
}

/** OpaqueType<4>: the kernel does not care for the type, only for its size. */
static struct str opaque_size(struct str name)
{
	ptrdiff_t at = str_find(name, S("OpaqueType<"));
	struct str rest = at < 0 ? (struct str){ 0 } : str_from(name, (size_t)at + 11);
	size_t n = 0;
	while (n < rest.n && char_digit(rest.p[n]))
		n++;
	return str_cut(rest, n);
}

/** What a kernel's failing mostly means, for how this event failed. */
static struct str usual_cause(const struct know_kernel *k, const struct diag_event *e)
{
	const struct fact *reason = diag_fact(e, "stop_reason"), *status = diag_fact(e, "hsa_status");
	if ((reason && str_find(reason->value, S("ASSERT")) >= 0) || e->kind->fails_by == FAILS_ASSERT)
		return k->on_assert;
	if (reason ? str_find(reason->value, S("ILLEGAL")) >= 0 : status && str_find(status->value, S("ILLEGAL")) >= 0)
		return k->on_illegal;
	if (e->kind->fails_by == FAILS_HANG)
		return k->on_hang;
	if (status && str_find(status->value, S("EXCEPTION")) >= 0)
		return k->on_assert;
	return k->on_fault;
}

static void explain_operation(struct incident *i, struct diag_event *e, const struct know_kernel *k)
{
	_cleanup_text_ struct text note = { 0 };
	struct str usual = usual_cause(k, e);
	text_printf(&note, "What this " STR_FMT " kernel does: " STR_FMT ".", STR_ARG(k->library), STR_ARG(k->operation));
	if (k->asserts.n && usual.p == k->on_assert.p)
		text_printf(&note, " It checks: " STR_FMT ".", STR_ARG(k->asserts));
	if (usual.n)
		text_printf(&note, " Usual cause: " STR_FMT ".", STR_ARG(usual));
	if (k->source.n || k->wrapper.n)
		text_printf(&note, " Look at " STR_FMT "%s" STR_FMT ".", STR_ARG(k->wrapper),
			    k->source.n && k->wrapper.n ? ", " : "", STR_ARG(k->source));
	diag_set_note(i, e, "operation_note", text_str(&note));
}

void kernels_explain(struct incident *i, struct diag_event *e, const struct know *k)
{
	const struct fact *printed = diag_fact(e, "kernel_name");
	if (!printed || !printed->value.n || str_is(printed->value, "<not identified>"))
		return;
	struct str name = demangle(&i->arena, printed->value), fragment = { 0 };
	const struct know_kernel *known = find_kernel(k, name, &fragment);
	if (!known && !str_eq(name, printed->value))
		known = find_kernel(k, printed->value, &fragment);
	diag_conclude(i, e, "kernel_short", kernels_short_name(&i->arena, name, fragment));
	struct str isa = name_isa(&i->arena, printed->value);
	diag_conclude(i, e, "kernel_isa", isa);
	if (isa.n)
		diag_conclude(i, e, "isa_fits", !i->gpu.gfx.n ? S("unknown") : str_eq(isa, i->gpu.gfx) ? S("yes") : S("no"));
	if (!known)
		return;
	struct str size = opaque_size(name);
	diag_conclude(i, e, "library", known->library);
	if (!known->generic)
		diag_conclude(i, e, "operation",
			      size.n ? arena_printf(&i->arena, STR_FMT " on a " STR_FMT "-byte type", STR_ARG(known->operation),
						    STR_ARG(size)) :
				       known->operation);
	diag_conclude(i, e, "workspace", known->workspace ? S("shared") : S(""));
	explain_operation(i, e, known);
}
