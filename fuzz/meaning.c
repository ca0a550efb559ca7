// Fuzzes the text of instructions: each line is taken apart, said and evaluated; all of them are a window of code.
#include <stdlib.h>

#include "code/meaning.h"
#include "know.h"

static bool read_any(void *ctx, char bank, unsigned number, unsigned lane, uint32_t *ret)
{
	(void)ctx;
	*ret = number * 0x01010101u + lane;
	return bank == 'v' || bank == 's';
}

static bool read_named_any(void *ctx, struct str name, uint64_t *ret)
{
	(void)ctx;
	*ret = name.n * 0x123456789abcdefull;
	return name.n % 2;
}

static void try_line(const struct know *k, struct arena *a, struct str line)
{
	const struct meaning_registers r = { .read = read_any, .read_named = read_named_any };
	struct lane_address lanes[MEANING_LANES];
	struct meaning m;
	struct str waits_for;
	if (!meaning_of(k, line, &m) || !meaning_say(a, k, &m).n)
		return;
	size_t n = meaning_addresses(&m, &r, 0x8000000100000003, 64, lanes);
	if (n > 4 || (n && !m.understood))
		abort();
	meaning_waits(a, &m, &waits_for);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };
	struct arena a = { 0 };
	VEC(struct instruction) code = { 0 };
	while (text.n && code.len < 16) {
		struct str line = str_split(&text, '\n');
		try_line(know, &a, line);
		vec_push(&code, ((struct instruction){ 4 * code.len, 4, line }));
	}
	struct meaning_candidate candidates[MEANING_CANDIDATES];
	struct meaning_parked parked;
	size_t n = meaning_candidates(know, code.data, code.len, UINT32_MAX, candidates);
	for (size_t i = 0; i < n; i++)
		if (candidates[i].index >= code.len || (i && candidates[i].index >= candidates[i - 1].index))
			abort();
	// Each looks at all of the code, so that it is asked of some places only.
	for (size_t i = 0; i < code.len; i += code.len / 3 + 1)
		if (meaning_parked(&a, know, code.data, code.len, i, &parked) &&
		    (parked.index >= code.len || parked.polled >= code.len))
			abort();
	vec_free(&code);
	arena_free(&a);
	return 0;
}
