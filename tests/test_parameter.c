// Parameters: which kernel has which, what it reads as, and what a wrong name means.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "knowledge/parameter.h"

static const struct know *known(void **state) { return *state; }

static int setup(void **state)
{
	struct know_problems problems = { 0 };
	*state = know_load_with("none", S(""), &problems);
	return (int)problems.count;
}

static int teardown(void **state)
{
	know_free(*state);
	return 0;
}

static const struct know_parameter *find(void **state, const char *name)
{
	const struct know_parameter *p = know_parameter(known(state), str_z(name));
	if (!p)
		fail_msg("%s is not known", name);
	return p;
}

static void a_parameter_is_found_with_dashes_or_underscores(void **state)
{
	assert_ptr_equal(find(state, "amdgpu.cwsr_enable"), find(state, "amdgpu.cwsr-enable"));
	assert_ptr_equal(find(state, "pcie-aspm"), find(state, "pcie_aspm"));
	assert_null(know_parameter(known(state), S("cwsr_enable")));
	assert_null(know_parameter(known(state), S("amdgpu.cwsr_enabled")));
	assert_null(know_parameter(known(state), S("")));
	assert_true(parameter_same(S("a-b_c"), S("a_b-c")));
	assert_false(parameter_same(S("ab"), S("abc")));
	assert_true(parameter_same(S(""), S("")));
}

static void which_kernel_has_which_parameter(void **state)
{
	static const struct {
		const char *name, *kernel;
		enum truth exists;
	} cases[] = {
		{ "amdgpu.cwsr_enable", "6.1.0-50-amd64", TRUTH_YES },
		{ "amdgpu.cwsr_enable", "6.12.115+deb13-amd64", TRUTH_YES },
		{ "amdgpu.cwsr_enable", "6.8.0-90-generic", TRUTH_YES },
		{ "amdgpu.cwsr_enable", "5.4.0-1-generic", TRUTH_YES },
		// Before the oldest source and behind the newest nobody has looked.
		{ "amdgpu.cwsr_enable", "4.19.0", TRUTH_UNKNOWN },
		{ "amdgpu.cwsr_enable", "7.1.0", TRUTH_UNKNOWN },
		{ "amdgpu.cwsr_enable", "7.0.9-arch1-1", TRUTH_YES },
		{ "amdgpu.cwsr_enable", "", TRUTH_UNKNOWN },
		{ "amdgpu.cwsr_enable", "unknown", TRUTH_UNKNOWN },
		{ "amdgpu.gfxoff", "6.1.0-50-amd64", TRUTH_NO },
		{ "amdgpu.gfxoff", "6.17.9", TRUTH_NO },
		{ "amdgpu.gfxoff", "", TRUTH_NO },
		// Only in newer ones.
		{ "amdgpu.uni_mes", "6.1.190", TRUTH_NO },
		{ "amdgpu.uni_mes", "6.6.3", TRUTH_NO },
		{ "amdgpu.uni_mes", "4.19", TRUTH_NO },
		{ "amdgpu.uni_mes", "6.9.3", TRUTH_UNKNOWN },
		{ "amdgpu.uni_mes", "6.12", TRUTH_YES },
		{ "amdgpu.uni_mes", "6.17.1", TRUTH_YES },
		{ "amdgpu.user_queue", "6.15.9", TRUTH_NO },
		{ "amdgpu.user_queue", "6.16.0", TRUTH_YES },
		{ "amdgpu.user_queue", "6.17.9-arch1", TRUTH_YES },
		{ "amdgpu.user_queue", "7.0.1", TRUTH_YES },
		{ "amdgpu.ptl", "7.0.1", TRUTH_NO },
		{ "amdgpu.ptl", "7.1.9", TRUTH_NO },
		{ "amdgpu.ptl", "7.2.8-cachyos", TRUTH_YES },
		// Only in older ones.
		{ "amdgpu.vm_debug", "6.1.5", TRUTH_YES },
		{ "amdgpu.vm_debug", "6.8.1", TRUTH_UNKNOWN },
		{ "amdgpu.vm_debug", "6.12.1", TRUTH_NO },
		{ "amdgpu.vm_debug", "7.3.1", TRUTH_NO },
		{ "amdgpu.ngg", "5.4.100", TRUTH_YES },
		{ "amdgpu.ngg", "6.12.1", TRUTH_NO },
		{ "amdgpu.vram_page_split", "5.4.1", TRUTH_NO },
		{ "amdgpu.vram_page_split", "4.19.1", TRUTH_UNKNOWN },
		// Taken out and put back.
		{ "amdgpu.freesync_video", "6.1.1", TRUTH_YES },
		{ "amdgpu.freesync_video", "6.6.1", TRUTH_NO },
		{ "amdgpu.freesync_video", "6.12.1", TRUTH_YES },
		{ "amdgpu.freesync_video", "6.3.1", TRUTH_UNKNOWN },
		// It came with 6.2, and went into 6.1 later.
		{ "amdgpu.sg_display", "6.2.1", TRUTH_YES },
		{ "amdgpu.sg_display", "6.1.0-50-amd64", TRUTH_UNKNOWN },
		{ "amdgpu.sg_display", "5.15.3", TRUTH_NO },
		// A kernel may be built without it.
		{ "amdgpu.si_support", "6.12.1", TRUTH_UNKNOWN },
		{ "amdgpu.si_support", "4.12.1", TRUTH_NO },
		{ "amdgpu.pcie_p2p", "6.12.1", TRUTH_UNKNOWN },
		// These distributions' drivers are newer than their kernels.
		{ "amdgpu.uni_mes", "5.14.0-570.12.1.el9_6.x86_64", TRUTH_UNKNOWN },
		{ "amdgpu.uni_mes", "6.4.0-150600.23.7-default", TRUTH_UNKNOWN },
		{ "iommu", "6.8.0-90-generic", TRUTH_YES },
		{ "amdttm.pages_limit", "6.8.0-90-generic", TRUTH_UNKNOWN },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum truth exists = parameter_exists(find(state, cases[i].name), str_z(cases[i].kernel));
		if (exists != cases[i].exists)
			fail_msg("%s in %s: %d, not %d", cases[i].name, cases[i].kernel, exists, cases[i].exists);
	}
}

static struct know *load_one(const char *text, unsigned *ret_problems)
{
	struct know_problems problems = { 0 };
	struct know *k = know_load_with("test.know", str_z(text), &problems);
	*ret_problems = problems.count;
	return k;
}

/** Distributions leave the last number at 0 whatever is in it. */
static void a_parameter_that_came_with_a_patch_level(void **state)
{
	(void)state;
	unsigned problems;
	struct know *k = load_one("parameter x.y\n    type int\n    since 6.1.46\n    until 6.9\n    meaning m\n    source s\n",
				  &problems);
	assert_int_equal(problems, 0);
	const struct know_parameter *p = know_parameter(k, S("x.y"));
	assert_int_equal(parameter_exists(p, S("6.1.45")), TRUTH_NO);
	assert_int_equal(parameter_exists(p, S("6.1.46")), TRUTH_YES);
	assert_int_equal(parameter_exists(p, S("6.1.0-50-amd64")), TRUTH_UNKNOWN);
	assert_int_equal(parameter_exists(p, S("6.1.0")), TRUTH_NO);
	assert_int_equal(parameter_exists(p, S("6.0.0-5-amd64")), TRUTH_NO);
	assert_int_equal(parameter_exists(p, S("6.8.0-90-generic")), TRUTH_YES);
	assert_int_equal(parameter_exists(p, S("6.9.0-1-generic")), TRUTH_NO);
	know_free(k);
}

static void the_default_of_a_parameter_by_kernel(void **state)
{
	static const struct {
		const char *name, *kernel, *value; // NULL: not known
	} cases[] = {
		{ "amdgpu.ppfeaturemask", "6.1.0-50-amd64", "0xfff7bfff" },
		{ "amdgpu.ppfeaturemask", "6.8.0-90-generic", "0xfff7bfff" },
		{ "amdgpu.ppfeaturemask", "5.4.100", "4294950911" },
		{ "amdgpu.ppfeaturemask", "5.10.1", NULL },
		{ "amdgpu.ppfeaturemask", "7.2.1", NULL },
		{ "amdgpu.mcbp", "6.1.5", "0" },
		{ "amdgpu.mcbp", "6.12.5", "-1" },
		{ "amdgpu.mcbp", "6.3.5", NULL },
		{ "amdgpu.abmlevel", "6.6.5", "0" },
		{ "amdgpu.enforce_isolation", "6.12.5", "N" },
		{ "amdgpu.enforce_isolation", "7.0.5", "-1" },
		{ "amdgpu.gartsize", "6.12.5", "4294967295" },
		{ "amdgpu.lockup_timeout", "6.12.5", "" },
		{ "amdgpu.gfxoff", "6.12.5", NULL },
		{ "ttm.pages_limit", "6.12.5", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str value = parameter_default(find(state, cases[i].name), str_z(cases[i].kernel));
		if (!value.p != !cases[i].value || (value.p && !str_is(value, cases[i].value)))
			fail_msg("%s in %s: '" STR_FMT "'", cases[i].name, cases[i].kernel, STR_ARG(value));
	}
	assert_true(find(state, "amdgpu.lockup_timeout")->shows_first);
	assert_false(find(state, "amdgpu.cwsr_enable")->shows_first);
}

static void a_mistyped_name_has_a_nearest_one(void **state)
{
	static const struct {
		const char *name, *near;
	} cases[] = {
		{ "amdgpu.gtt_sizes", "gttsize" },
		{ "amdgpu.gtt-size", "gttsize" },
		{ "amdgpu.cwsr_enabled", "cwsr_enable" },
		{ "amdgpu.cwsr", "cwsr_enable" },
		{ "amdgpu.cwsr_enalbe", "cwsr_enable" },
		{ "amdgpu.gpurecovery", "gpu_recovery" },
		{ "amdgpu.ppfeature_mask", "ppfeaturemask" },
		{ "amdgpu.ppfeature", "ppfeaturemask" },
		{ "amdgpu.sgdisplay", "sg_display" },
		{ "amdgpu.no_retry", "noretry" },
		{ "amdgpu.runpn", "runpm" },
		{ "amdgpu.dcdebug", "dcdebugmask" },
		{ "ttm.page_limit", "pages_limit" },
		{ "pcie_aspn", "pcie_aspm" },
		// A right name is no wrong one, and a short one needs to be nearer.
		{ "amdgpu.cwsr_enable", "" },
		{ "amdgpu.cwsr-enable", "" },
		{ "amdgpu.ab", "" },
		{ "amdgpu.mxy", "" },
		{ "radeon.cwsr_enabled", "" },
		{ "cwsr_enabled", "" },
		{ "amdgpu.something_else_entirely", "" },
		{ "amdgpu.", "" },
		{ ".", "" },
		{ "", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str near = parameter_near(known(state), str_z(cases[i].name), NULL, 0);
		if (!str_is(near, cases[i].near))
			fail_msg("%s: '" STR_FMT "', not '%s'", cases[i].name, STR_ARG(near), cases[i].near);
	}
	char longest[300];
	memset(longest, 'x', sizeof(longest));
	memcpy(longest, "amdgpu.", 7);
	assert_int_equal(parameter_near(known(state), (struct str){ longest, sizeof(longest) }, NULL, 0).n, 0);
}

/** What the module has is all that may be meant. */
static void the_nearest_name_is_one_that_the_module_has(void **state)
{
	const struct str has[] = { S("cwsr_enable"), S("gttsize"), S("newknob1"), S("newknob2"), S("newknob2") };
	const size_t n = ARRAY_SIZE(has);
	assert_true(str_is(parameter_near(known(state), S("amdgpu.cwsr_enabled"), has, n), "cwsr_enable"));
	assert_true(str_is(parameter_near(known(state), S("amdgpu.newknob_2"), has, n), "newknob2"));
	assert_int_equal(parameter_near(known(state), S("amdgpu.sgdisplay"), has, n).n, 0);
	// Two are as near.
	assert_int_equal(parameter_near(known(state), S("amdgpu.newknob3"), has, n).n, 0);
}

static void a_parameter_that_never_was_names_its_substitute(void **state)
{
	const struct know_parameter *p = find(state, "amdgpu.gfxoff");
	assert_true(p->absent);
	assert_true(str_is(p->instead_change.clears->name, "amdgpu.ppfeaturemask"));
	assert_true(str_is(p->instead_change.clears->value, "0x8000"));
	p = find(state, "amdgpu.psr");
	assert_true(str_is(p->instead_change.sets->name, "amdgpu.dcdebugmask"));
}

static void wrong_blocks_of_parameters_are_told(void **state)
{
	(void)state;
	static const char *const wrong[] = {
		"parameter x.y\n    meaning m\n    source s\n",
		"parameter x.y\n    type int\n    exists no\n    meaning m\n    source s\n",
		"parameter x.y\n    type real\n    meaning m\n    source s\n",
		"parameter x.y\n    type int\n    source s\n",
		"parameter x.y\n    type int\n    meaning m\n",
		"parameter x.y\n    type int\n    since soon\n    meaning m\n    source s\n",
		"parameter x.y\n    type int\n    until 6.\n    meaning m\n    source s\n",
		"parameter x.y\n    type int\n    seen 6.1 6,2\n    meaning m\n    source s\n",
		"parameter x.y\n    type int\n    bit first ONE: one\n    meaning m\n    source s\n",
		"parameter x.y\n    exists no\n    seen 6.1\n    meaning m\n    source s\n",
		"parameter x.y\n    exists no\n    instead-clear amdgpu.ppfeaturemask gfxoff\n    meaning m\n    source s\n",
		"parameter x.y\n    exists no\n    instead-clear amdgpu.gfxoff 0x1\n    meaning m\n    source s\n",
		"parameter x.y\n    exists no\n    instead-set amdgpu.unheard_of 1\n    meaning m\n    source s\n",
		"remedy x\n    for compute-ring-timeout\n    kind cure\n    title t\n    do d\n    grade A\n    source s\n    "
		"set "
		"amdgpu.gfxoff 0\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		unsigned problems;
		know_free(load_one(wrong[i], &problems));
		if (!problems)
			fail_msg("taken as right: %s", wrong[i]);
	}
	unsigned problems;
	struct know *k =
		load_one("parameter amdgpu.new_one\n    type int\n    default empty\n    meaning m\n    source s\n", &problems);
	assert_int_equal(problems, 0);
	const struct know_parameter *p = know_parameter(k, S("amdgpu.new-one"));
	assert_non_null(p->default_value.p);
	assert_int_equal(p->default_value.n, 0);
	assert_int_equal(parameter_exists(p, S("6.12.1")), TRUTH_UNKNOWN);
	know_free(k);
}

static void a_retracted_parameter_is_gone(void **state)
{
	(void)state;
	unsigned problems;
	struct know *k = load_one("retract parameter amdgpu.deepfl\n", &problems);
	assert_int_equal(problems, 0);
	assert_null(know_parameter(k, S("amdgpu.deepfl")));
	assert_non_null(know_parameter(k, S("amdgpu.gfxoff")));
	know_free(k);
}

/** Asks everything with @text, which ends where its memory ends. */
static void ask(void **state, struct str text)
{
	char *copy = malloc(text.n + !text.n);
	if (text.n)
		memcpy(copy, text.p, text.n);
	text.p = copy;
	for (size_t i = 0; i < known(state)->parameters.len; i += 7) {
		const struct know_parameter *p = known(state)->parameters.data[i];
		assert_true(parameter_exists(p, text) <= TRUTH_YES);
		assert_true(parameter_default(p, text).n < 64);
	}
	assert_true(parameter_near(known(state), text, NULL, 0).n <= 64);
	const struct str other[] = { text, S("cwsr_enable") };
	assert_true(parameter_near(known(state), S("amdgpu.cwsr_enabled"), other, 2).n <= text.n + 11);
	know_parameter(known(state), text);
	free(copy);
}

/** Releases and names come from files that anybody may have written. */
static void names_of_any_bytes_harm_nobody(void **state)
{
	static const char *const texts[] = { "6.12.115+deb13-amd64", "6.1.0-50-amd64", "amdgpu.cwsr_enabled",
					     "999999999999999999999.1" };
	static const char bytes[] = { 0, '.', '-', '0', '9', 'z', (char)0xff };
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char text[64];
		size_t n = strlen(texts[i]);
		for (size_t cut = 0; cut <= n; cut++) {
			ask(state, (struct str){ texts[i], cut });
			for (size_t b = 0; b < sizeof(bytes) && cut < n; b++) {
				memcpy(text, texts[i], n);
				text[cut] = bytes[b];
				ask(state, (struct str){ text, n });
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_parameter_is_found_with_dashes_or_underscores),
		cmocka_unit_test(which_kernel_has_which_parameter),
		cmocka_unit_test(a_parameter_that_came_with_a_patch_level),
		cmocka_unit_test(the_default_of_a_parameter_by_kernel),
		cmocka_unit_test(a_mistyped_name_has_a_nearest_one),
		cmocka_unit_test(the_nearest_name_is_one_that_the_module_has),
		cmocka_unit_test(a_parameter_that_never_was_names_its_substitute),
		cmocka_unit_test(wrong_blocks_of_parameters_are_told),
		cmocka_unit_test(a_retracted_parameter_is_gone),
		cmocka_unit_test(names_of_any_bytes_harm_nobody),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
