// The base of cases: names of cases in a text, what is right of what the base tells of itself, and what 5,000 cases cost.
// --measure prints what they cost, for bench/run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "diagnose/like/like.h"

enum { MANY = 5000, OF_DEFECT = 2, MEASURED = 200 };

static void no_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	(void)ctx;
	fail_msg("%s:%u: %s", file, line, message);
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// --- names in a text ---

static const char small[] =
	"defect one\n title a\n state open\n"
	"case a/b#1\n defect one\n names svm_range_restore amd::HostQueue::wait libMIOpen.so\n program ComfyUI=1.2 cs2\n"
	" settings HSA_XNACK=1\n read 2026-11-17\n"
	"common cs2\n";

static struct str name_at(const struct know *k, struct str text, size_t at)
{
	const uint32_t term = terms_name_at(&k->base.terms, text, at, TERM_NONE);
	return term == TERM_NONE ? (struct str){ 0 } : k->base.terms.list.data[term].text;
}

static void names_are_found_as_whole_words_whatever_their_case(void **state)
{
	(void)state;
	struct know *k = know_load_alone("small.know", str_z(small), &(struct know_problems){ 0 });
	static const struct {
		const char *text, *name;
	} tries[] = {
		{ "svm_range_restore+0x12", "svm_range_restore" },
		{ "svm_range_restore_work", "" },
		{ "svm_range", "" },
		{ "AMD::hostqueue::WAIT(int)", "amd::HostQueue::wait" },
		{ "amd::HostQueue::waits", "" },
		{ "amd::HostQueue", "" },
		{ "libmiopen.so.1", "libMIOpen.so" },
		{ "comfyui", "ComfyUI" },
		{ "HSA_XNACK=1 ./a", "HSA_XNACK=1" },
		{ "HSA_XNACK=10", "" },
		{ "cs2", "" }, // it is common
	};
	for (size_t n = 0; n < ARRAY_SIZE(tries); n++) {
		const struct str found = name_at(k, str_z(tries[n].text), 0);
		if (!str_is(found, tries[n].name))
			fail_msg("'%s' has '" STR_FMT "', not '%s'", tries[n].text, STR_ARG(found), tries[n].name);
	}
	// Cut at every byte, nothing behind its end is read: a sanitizer sees that.
	for (size_t n = 0; n < sizeof(small); n++) {
		char *cut = malloc(n + 1);
		memcpy(cut, small, n);
		char *exact = realloc(cut, n ? n : 1);
		for (size_t at = 0; at < n; at++)
			name_at(k, (struct str){ exact, n }, at);
		free(exact);
	}
	know_free(k);
}

// --- the base against itself ---

static void of_what_is_told_of_the_base_four_of_five_are_right(void **state)
{
	(void)state;
	enum { LEAST_SHOWN = 5 }; // per cent of the cases
	struct know *k = know_load_with("none.know", S(""), &(struct know_problems){ .report = no_problem });
	size_t shown = 0, right = 0, cases = 0, told = 0;
	for (size_t c = 0; c < k->base.cases.len; c++) {
		_cleanup_arena_ struct arena room = { 0 };
		_cleanup_vec_ diag_likes like = { 0 };
		size_t here = shown;
		case_find_like(k, k->base.cases.data[c], &room, &like);
		for (size_t n = 0; n < like.len && like.data[n].shown; n++) {
			assert_ptr_not_equal(like.data[n].nearest, k->base.cases.data[c]);
			right += defects_same_fix(like.data[n].defect, k->base.cases.data[c]->defect);
			shown++;
		}
		assert_true(shown - here <= 3);
		told += shown > here;
		cases++;
	}
	printf("# %zu cases: %zu with something like them; %zu defects shown, %zu right (%.1f %%)\n", cases, told, shown, right,
	       shown ? 100.0 * (double)right / (double)shown : 0);
	assert_true(right * 100 >= shown * 80);
	assert_true(told * 100 >= cases * LEAST_SHOWN);
	know_free(k);
}

// --- what it costs ---

/** As many cases, defects and names as the real base would have of them. */
static void many_write(struct text *to)
{
	static const char *const classes[] = { "gfx-ring-timeout", "wrong-isa", "mes-unresponsive", "gpu-page-fault-unmapped" };
	static const char *const events[] = { "ring-timeout", "page-fault", "mes-timeout", "reset-begin", "hsa-memory-fault" };
	static const char *const parts[] = { "gfx1100", "gfx1151", "gfx942", "gfx1030", "gfx90a" };
	for (unsigned n = 0; n < MANY; n++) {
		const unsigned d = n / OF_DEFECT;
		if (n % OF_DEFECT == 0)
			text_printf(
				to,
				"defect defect-of-some-kind-%u\n    title a program stops on kernel 6.%u\n    state solved\n"
				"    by kernel\n    fix Boot kernel 6.%u or newer.\n    version kernel 6.%u.%u\n    confirmed "
				"one\n",
				d, d % 20, d % 20, d % 20, d % 17);
		text_printf(
			to,
			"case some/repository-%u#%u\n    defect defect-of-some-kind-%u\n    date 2025-%02u\n    gfx %s\n"
			"    kernel 6.%u.%u\n    rocm 7.%u.%u\n    program program-%u=1.%u\n    class %s\n    events %s %s %s\n"
			"    names kernel_name_%u function_of_driver_%u library-%u.so\n    codes ring=gfx_0.%u.0 error=-%u "
			"fault_status=0x%x\n    settings NAME_%u=1\n    read 2026-11-17\n",
			n % 97, n, d, 1 + n % 12, parts[n % 5], n % 20, n % 31, n % 3, n % 7, n % 300, n % 9, classes[n % 4],
			events[n % 5], events[(n + 1) % 5], events[(n + 2) % 5], d, n % 2000, n % 900, n % 8, n % 120, n % 700,
			n % 150);
	}
}

/** Bytes of the base in memory, and CPU milliseconds to hold one incident against all of it. */
static void measure(double *ret_megabytes, double *ret_milliseconds)
{
	_cleanup_text_ struct text text = { 0 };
	many_write(&text);
	struct know *k = know_load_with("many.know", text_str(&text), &(struct know_problems){ .report = no_problem });
	const struct know_terms *t = &k->base.terms;
	size_t first = k->base.cases.len - MANY, terms = 0;
	for (size_t n = first; n < k->base.cases.len; n++)
		terms += k->base.cases.data[n]->nterms;
	// What the cases that are built in have of it counts as theirs: so does a part of the terms.
	const double own = (double)MANY / (double)k->base.cases.len;
	const size_t shared = t->list.len * (sizeof(t->list.data[0]) + 1) + (t->nslots + t->nheads) * sizeof(uint32_t);
	const size_t blocks = MANY * (sizeof(struct know_case) + sizeof(void *)) + terms * sizeof(uint32_t) +
			      MANY / OF_DEFECT * (sizeof(struct know_defect) + sizeof(void *) + sizeof(struct know_list));
	*ret_megabytes = ((double)shared * own + (double)blocks) / (1 << 20);
	const double begin = cpu_seconds();
	for (size_t n = 0; n < MEASURED; n++) {
		_cleanup_arena_ struct arena room = { 0 };
		_cleanup_vec_ diag_likes like = { 0 };
		case_find_like(k, k->base.cases.data[first + n * 17 % MANY], &room, &like);
	}
	*ret_milliseconds = (cpu_seconds() - begin) * 1000 / MEASURED * own;
	know_free(k);
}

static void five_thousand_cases_take_two_megabytes_and_few_milliseconds(void **state)
{
	(void)state;
	enum { LOOSE = 100 }; // a busy machine and sanitizers are slower; `make bench` has the figure
	double megabytes, milliseconds;
	measure(&megabytes, &milliseconds);
	printf("# %d cases: %.2f MB, %.2f ms of CPU for an incident\n", MANY, megabytes, milliseconds);
	assert_true(megabytes < 2);
	assert_true(milliseconds < LOOSE);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found_as_whole_words_whatever_their_case),
		cmocka_unit_test(of_what_is_told_of_the_base_four_of_five_are_right),
		cmocka_unit_test(five_thousand_cases_take_two_megabytes_and_few_milliseconds),
	};
	if (argc == 2 && !strcmp(argv[1], "--measure")) {
		double megabytes, milliseconds;
		measure(&megabytes, &milliseconds);
		return printf("%d %.2f %.2f\n", MANY, megabytes, milliseconds) < 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
