#include "gpu/arguments.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"

enum { SEGMENT_MOST = 64 << 10, HEX_FROM = 1 << 24 };

static bool is_pointer(const struct code_argument *a)
{
	return a->size == 8 && (str_is(a->value_kind, "global_buffer") || str_is(a->value_kind, "dynamic_shared_pointer"));
}

size_t dispatch_arguments(struct target *t, const struct code_kernel *k, const struct dispatch *d, struct kernel_argument *ret,
			  size_t most)
{
	size_t n = 0;
	for (size_t i = 0; k && i < k->narguments && n < most; i++) {
		const struct code_argument *a = &k->arguments[i];
		if (str_starts(a->value_kind, S("hidden_")))
			continue;
		struct kernel_argument *x = &ret[n++];
		size_t size = a->size < ARGUMENT_BYTES ? a->size : ARGUMENT_BYTES;
		*x = (struct kernel_argument){ .what = a, .pointer = is_pointer(a) };
		x->known = a->offset < SEGMENT_MOST && d->kernarg && target_contents(t, d->kernarg + a->offset, x->bytes, size);
		uint8_t word[8] = { 0 };
		memcpy(word, x->bytes, size < 8 ? size : 8);
		x->value = get_u64(word);
	}
	return n;
}

static void say_value(struct text *out, struct arena *a, const struct kernel_argument *x, const struct address_range *map,
		      size_t nmap)
{
	if (!x->known) {
		text_add(out, S("?"));
	} else if (x->pointer) {
		struct map_place p = nmap ? map_locate(map, nmap, x->value) : (struct map_place){ 0 };
		text_printf(out, "0x%llx", (unsigned long long)x->value);
		if (nmap && (p.relation != MAP_INSIDE || p.distance))
			text_printf(out, " (" STR_FMT ")", STR_ARG(map_say(a, &p)));
		else if (nmap)
			text_printf(out, " (a buffer of " STR_FMT ")", STR_ARG(map_size_say(a, p.range.end - p.range.begin)));
	} else if (x->what->size > 8) {
		text_printf(out, "%u bytes", x->what->size);
	} else {
		text_printf(out, x->value < HEX_FROM ? "%llu" : "0x%llx", (unsigned long long)x->value);
	}
}

struct str arguments_say(struct arena *a, const struct kernel_argument *args, size_t n, const struct address_range *map,
			 size_t nmap)
{
	struct text out = { 0 };
	for (size_t i = 0; i < n; i++) {
		text_printf(&out, "%s", i ? ", " : "");
		if (args[i].what->name.n)
			text_printf(&out, STR_FMT " = ", STR_ARG(args[i].what->name));
		say_value(&out, a, &args[i], map, nmap);
	}
	struct str s = arena_str(a, text_str(&out));
	text_free(&out);
	return s;
}
