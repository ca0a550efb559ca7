// How much was allocated, of which sizes, for how long, and what that cost.
#include <stdlib.h>

#include "evidence/allocations/statistics.h"
#include "evidence/recording/recording.h"
#include "gpu/memory/map.h"

enum { SIZES_SAID = 3, BURST_LEAST = 1000 };

/** The sizes of a class, as people write them: 4 to 8 KiB. */
static struct str class_say(struct arena *a, unsigned class)
{
	struct str least = map_size_say(a, UINT64_C(1) << class), most = map_size_say(a, UINT64_C(2) << class);
	struct str number = least, unit = most;
	str_word(&unit);
	number = str_word(&least);
	return str_eq(str_trim(least), str_trim(unit)) ?
		       arena_printf(a, STR_FMT " to " STR_FMT, STR_ARG(number), STR_ARG(most)) :
		       arena_printf(a, STR_FMT " " STR_FMT " to " STR_FMT, STR_ARG(number), STR_ARG(str_trim(least)), STR_ARG(most));
}

/** 640 KiB, 17.1 MiB. */
static struct str about_say(struct arena *a, uint64_t bytes)
{
	return bytes < 1 << 10 ? arena_printf(a, STR_FMT " byte%s", STR_ARG(arena_grouped(a, bytes)), bytes == 1 ? "" : "s") :
	       bytes < 1 << 20 ? arena_printf(a, "%llu KiB", (unsigned long long)bytes >> 10) :
				 arena_printf(a, "%.1f MiB", (double)bytes / (1 << 20));
}

bool allocations_of_torch(const struct allocations *a)
{
	static const char *const names[] = { "libc10", "libtorch" };
	for (size_t i = 0; i < a->nmodules; i++) {
		const struct str base = str_base((struct str){ a->modules[i].path, strnlen(a->modules[i].path, sizeof(a->modules[i].path)) });
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (str_starts(base, str_z(names[k])))
				return true;
	}
	return false;
}

struct allocations_sum allocations_sum(const struct allocations *a)
{
	const struct alloc_header *h = &a->header;
	struct allocations_sum s = {
		.peak_bytes = h->peak_bytes, .taken_peak = h->taken_peak, .kfd_calls = h->kfd_calls
	};
	for (size_t i = 0; i < a->nfindings; i++)
		s.findings += a->findings[i].kind != ALLOC_FOUND_REFUSED; // which is no error of the program
	s.findings += h->lost_findings;
	for (unsigned c = 0; c < a->nsizes && c < ALLOC_CLASSES; c++) {
		const struct alloc_size *z = &a->sizes[c];
		s.count += z->count;
		s.bytes += z->bytes;
		s.served += z->guarded;
		for (unsigned l = 0; l < ALLOC_LIVES; l++) {
			s.freed += z->lives[l];
			s.lives[l] += z->lives[l];
		}
	}
	return s;
}

double lifetime_most(unsigned bucket)
{
	double seconds = 1e-6;
	for (unsigned i = 0; i < bucket; i++)
		seconds *= 8;
	return seconds;
}

/** The lifetime that half of those that were freed did not reach. */
static struct str half_say(struct arena *a, const struct allocations_sum *s)
{
	uint64_t below = 0;
	for (unsigned l = 0; l + 1 < ALLOC_LIVES; l++) {
		below += s->lives[l];
		if (s->freed && below * 2 >= s->freed)
			return seconds_say(a, lifetime_most(l));
	}
	return (struct str){ 0 };
}

static int larger_count(const void *a, const void *b)
{
	const struct alloc_size *const *x = a, *const *y = b;
	return (*x)->count > (*y)->count ? -1 : (*x)->count < (*y)->count;
}

struct str allocations_sizes_say(struct arena *a, const struct allocations *of)
{
	const struct alloc_size *list[ALLOC_CLASSES];
	size_t n = 0;
	_cleanup_text_ struct text t = { 0 };
	for (size_t c = 0; c < of->nsizes && c < ALLOC_CLASSES; c++)
		if (of->sizes[c].count)
			list[n++] = &of->sizes[c];
	qsort(list, n, sizeof(*list), larger_count);
	for (size_t i = 0; i < n && i < SIZES_SAID; i++) {
		const unsigned class = (unsigned)(list[i] - of->sizes);
		text_printf(&t, "%s" STR_FMT " of " STR_FMT, i ? ", " : "", STR_ARG(arena_grouped(a, list[i]->count)),
			    STR_ARG(class_say(a, class)));
	}
	return arena_str(a, text_str(&t));
}

/** Of the guard: what it does not watch, by the calls that made most of it. */
static void unguarded_say(struct text *t, struct arena *a, const struct alloc_header *h, const struct allocations_sum *s)
{
	const uint64_t n = s->count > s->served ? s->count - s->served : 0;
	uint64_t below = UINT64_MAX;
	if (h->mode != ALLOC_MODE_GUARD || !n)
		return;
	if (n == s->count)
		text_add(t, S(" None of them was guarded"));
	else
		text_printf(t, " " STR_FMT " of them %s not guarded", STR_ARG(arena_grouped(a, n)), n == 1 ? "was" : "were");
	for (unsigned said = 0; said < SIZES_SAID; said++) {
		unsigned call = 0;
		for (unsigned c = 1; c < ALLOC_CALLS_MOST; c++)
			call = h->passed[c] && h->passed[c] < below && h->passed[c] > h->passed[call] ? c : call;
		if (!call)
			break;
		below = h->passed[call];
		text_printf(t, "%s%s " STR_FMT, said ? ", " : " (", alloc_call_name(call), STR_ARG(arena_grouped(a, below)));
	}
	text_add(t, below < UINT64_MAX ? S(").") : S("."));
}

/** What the guard reached with this HIP: 50221153 is 5.2. */
static void granularity_say(struct text *t, struct arena *a, const struct alloc_header *h)
{
	enum { MAJOR = 10000000, MINOR = 100000 };
	if (h->mode != ALLOC_MODE_GUARD || !h->granularity)
		return;
	text_printf(t, "; guarded ones take multiples of " STR_FMT, STR_ARG(map_size_say(a, h->granularity)));
	if (h->hip_version >= MAJOR)
		text_printf(t, " with HIP %u.%u", h->hip_version / MAJOR, h->hip_version % MAJOR / MINOR);
}

struct str allocations_statistics_say(struct arena *a, const struct allocations *of)
{
	static const char *const modes[] = {
		[ALLOC_MODE_NONE] = "Allocator", [ALLOC_MODE_GUARD] = "Guard", [ALLOC_MODE_POOL] = "Pool"
	};
	const struct alloc_header *h = &of->header;
	const struct allocations_sum s = allocations_sum(of);
	const struct alloc_burst *b = allocations_burst(of);
	const struct str sizes = allocations_sizes_say(a, of);
	_cleanup_text_ struct text t = { 0 };
	text_printf(&t, "%s: " STR_FMT " allocation%s", modes[h->mode < ARRAY_SIZE(modes) ? h->mode : 0],
		    STR_ARG(arena_grouped(a, s.count)), s.count == 1 ? "" : "s");
	if (sizes.n)
		text_printf(&t, " (" STR_FMT ")", STR_ARG(sizes));
	if (s.peak_bytes)
		text_printf(&t, ", %sat most " STR_FMT " at once", h->mode == ALLOC_MODE_POOL ? "from slabs: " : "",
			    STR_ARG(about_say(a, s.peak_bytes)));
	if (s.taken_peak > s.peak_bytes && s.peak_bytes)
		text_printf(&t, " in " STR_FMT " (%llu %% unused)", STR_ARG(about_say(a, s.taken_peak)),
			    (unsigned long long)((s.taken_peak - s.peak_bytes) * 100 / s.taken_peak));
	granularity_say(&t, a, h);
	const struct str half = half_say(a, &s);
	if (half.n)
		text_printf(&t, "; half of those freed lived less than " STR_FMT, STR_ARG(half));
	if (s.kfd_calls)
		text_printf(&t, "; " STR_FMT " calls of KFD by the whole process", STR_ARG(arena_grouped(a, s.kfd_calls)));
	text_add(&t, S("."));
	unguarded_say(&t, a, h, &s);
	if (b && b->count >= BURST_LEAST)
		text_printf(&t, " Many small ones: " STR_FMT ".", STR_ARG(burst_say(a, b)));
	if (s.findings)
		text_printf(&t, " " STR_FMT " finding%s.", STR_ARG(arena_grouped(a, s.findings)), s.findings == 1 ? "" : "s");
	if (h->sampling > 1 || h->sample > 1)
		text_printf(&t, " Only every %uth was guarded.", h->sampling > h->sample ? h->sampling : h->sample);
	if (h->state == ALLOC_ASIDE && h->notes)
		text_printf(&t, " It stepped aside: %.*s.", (int)sizeof(h->note[0]), h->note[(h->notes - 1) % 8]);
	return arena_str(a, text_str(&t));
}
