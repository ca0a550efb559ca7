// GPU cores are hostile input: small ones, which are the seeds of the fuzz target, are cut at every byte and have every byte changed.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "core_check.h"
#include "light_check.h"

enum { TRIAL_SECONDS = 60 }; // for all trials of a core

static const char *const names[] = { "gfx906", "gfx942", "gfx1201", "shifted" };

static void load(const char *name, struct text *ret)
{
	char path[512], chunk[4096];
	snprintf(path, sizeof(path), "%s/core/%s.core", SEEDS, name);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	for (size_t n; (n = fread(chunk, 1, sizeof(chunk), f));)
		text_add(ret, (struct str){ chunk, n });
	fclose(f);
}

/** Says where the damage is, or what the core tells of a GPU that cannot be. */
static bool well_said(struct str s)
{
	static const char *const said[] = { "at 0x",
					    "control stack word",
					    "no AMDGPU note",
					    "does not describe",
					    "is not known",
					    "has no save area",
					    "XCCs",
					    "could not be suspended",
					    "no queue of the process" };
	for (size_t i = 0; i < ARRAY_SIZE(said); i++)
		if (str_find(s, str_z(said[i])) >= 0)
			return true;
	return !s.n;
}

static void try_core(const struct know *k, const char *name, const char *how, size_t at, const char *bytes, size_t size)
{
	// A copy of exactly this size, so that AddressSanitizer sees a read behind its end.
	_cleanup_free_ char *copy = mem_alloc(size);
	struct text error = { 0 };
	memcpy(copy, bytes, size);
	const char *complaint = core_complaint(k, copy, size, &error);
	if (complaint)
		fail_msg("%s %s at %zu: %s", name, how, at, complaint);
	if (!well_said(text_str(&error)))
		fail_msg("%s %s at %zu: '%s' does not say where", name, how, at, error.p);
	text_free(&error);
}

static struct know *knowledge(void)
{
	struct know_problems problems = { 0 };
	return know_load(&problems);
}

static void waves_and_code_of_the_seeds_are_read(void **state)
{
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct text core = { 0 };
		struct target *t;
		load(names[i], &core);
		struct file f = file_memory(S("core"), text_str(&core));
		assert_null(target_core(k, &f, 1, &t));
		struct request waves = { .kind = REQUEST_WAVES }, code = { .kind = REQUEST_CODE };
		target_ask(t, &waves);
		target_ask(t, &code);
		assert_int_equal(waves.n, 2);
		assert_int_equal(code.n, 2);
		assert_int_equal(waves.waves[1].stop_reasons, 1u << STOP_ASSERT_TRAP);
		assert_int_equal(waves.waves[1].at, waves.waves[1].pc - 4);
		target_close(t);
		text_free(&core);
	}
	know_free(k);
}

static void cores_cut_or_changed_at_any_byte_harm_nobody(void **state)
{
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct text core = { 0 };
		const clock_t begin = clock(); // of the processor: a busy machine takes longer
		load(names[i], &core);
		for (size_t n = 0; n <= core.n; n++)
			try_core(k, names[i], "cut", n, core.p, n);
		for (size_t at = 0; at < core.n; at++) {
			static const char changes[] = { 1, (char)0x80, (char)0xff };
			for (size_t c = 0; c < sizeof(changes); c++) {
				core.p[at] = (char)(core.p[at] ^ changes[c]);
				try_core(k, names[i], "changed", at, core.p, core.n);
				core.p[at] = (char)(core.p[at] ^ changes[c]);
			}
		}
		assert_true((clock() - begin) / CLOCKS_PER_SEC < TRIAL_SECONDS);
		text_free(&core);
	}
	know_free(k);
}

/** As a stream it comes in pieces of any size, and may end anywhere. */
static void streams_cut_or_changed_at_any_byte_harm_nobody(void **state)
{
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct text core = { 0 };
		load(names[i], &core);
		for (size_t at = 0; at <= core.n; at++) {
			_cleanup_free_ char *copy = mem_alloc(core.n + 1);
			memcpy(copy, core.p, core.n);
			const bool reads = at % 2, all = at % 3 == 0;
			const char *cut = light_complaint(k, (struct str){ copy, at }, 1 + at % 700, reads, all);
			copy[at] ^= at % 5 ? (char)0xff : 1;
			const char *changed =
				at % 4 ? NULL : light_complaint(k, (struct str){ copy, core.n }, 4096, reads, all);
			if (cut || changed)
				fail_msg("%s at %zu: %s", names[i], at, cut ? cut : changed);
		}
		text_free(&core);
	}
	know_free(k);
}

static size_t waves_in(const struct know *k, struct str core, size_t *ret_code)
{
	struct target *t;
	struct file f = file_memory(S("light"), core);
	struct request waves = { .kind = REQUEST_WAVES }, code = { .kind = REQUEST_CODE };
	assert_null(target_core(k, &f, 1, &t));
	target_ask(t, &waves);
	target_ask(t, &code);
	const size_t n = waves.n;
	*ret_code = code.n;
	target_close(t);
	return n;
}

/** Whatever the pieces: the core that is kept has the waves and the code objects, of the process or of the stream. */
static void streams_keep_waves_and_code(void **state)
{
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names) - 1; i++) { // the last is padded, as none that comes through a pipe
		struct text core = { 0 };
		load(names[i], &core);
		for (size_t step = 1; step <= core.n; step *= 7)
			for (unsigned how = 0; how < 4; how++) {
				struct uh_error *err;
				size_t code;
				_cleanup_map_ struct map file =
					light_make(text_str(&core), step, how & 1, how & 2, LIGHT_CHECK_ROOMS, &err);
				assert_null(err);
				assert_int_equal(waves_in(k, (struct str){ file.p, file.size }, &code), 2);
				assert_int_equal(code, 2);
			}
		text_free(&core);
	}
	know_free(k);
}

/** Whether a core says that it lacks something. */
static bool light_says(struct str bytes, const char *what)
{
	struct core c = { 0 };
	const struct file f = file_memory(S("light"), bytes);
	assert_null(core_add(&c, &f));
	const bool says = str_find(text_str(&c.problems), str_z(what)) >= 0;
	core_free(&c);
	return says;
}

/** A light core of the seed, in whose note something else stands at a number of 8 bytes, and @more behind it. */
static struct map light_of_changed(uint64_t (*number)(const struct core_note *n), uint64_t to, size_t behind, uint32_t more)
{
	struct text core = { 0 };
	struct core_note note = { 0 };
	struct core c = { 0 };
	struct uh_error *err;
	load("gfx942", &core);
	const struct file f = file_memory(S("core"), text_str(&core));
	assert_null(core_add(&c, &f));
	assert_null(core_note_parse(&c.arena, c.gpu_note, c.gpu_note_at, &note));
	const uint64_t was = number(&note);
	const ssize_t in = str_find(c.gpu_note, (struct str){ (const char *)&was, sizeof(was) });
	assert_true(in > 0);
	char *at = core.p + c.gpu_note_at + in;
	memcpy(at, &to, sizeof(to));
	if (behind)
		memcpy(at + behind, &more, sizeof(more));
	light_check_reads = 0;
	struct map file = light_make(text_str(&core), core.n, true, false, LIGHT_CHECK_ROOMS, &err);
	assert_null(err);
	core_free(&c);
	text_free(&core);
	return file;
}

static uint64_t ring_of(const struct core_note *n) { return n->queues[0].ring; }
static uint64_t list_of(const struct core_note *n) { return n->r_debug; }

/** Numbers in the note may be any: what is not there ends a range, and is not looked for page by page. */
static void addresses_that_are_not_there_take_no_time(void **state)
{
	enum { SIZE_BEHIND = 48 - 8, READS_MOST = 1000 };
	const uint64_t nowhere = 0x600000000000;
	struct know *k = knowledge();
	size_t code;
	(void)state;
	_cleanup_map_ struct map ring = light_of_changed(ring_of, nowhere, SIZE_BEHIND, 0xfffff000);
	assert_in_range(light_check_reads, 1, READS_MOST);
	assert_int_equal(waves_in(k, (struct str){ ring.p, ring.size }, &code), 2);
	_cleanup_map_ struct map list = light_of_changed(list_of, nowhere, 0, 0);
	const struct str kept = { list.p, list.size };
	assert_true(light_says(kept, "that its process does not have") && !light_says(kept, "allowed"));
	assert_int_equal(waves_in(k, kept, &code), 2);
	know_free(k);
}

/** Others may fill the disk at any time: what was kept until then is a core that says so. */
static void a_disk_that_fills_up_ends_the_core(void **state)
{
	enum { PIECES_MOST = 100 };
	struct know *k = knowledge();
	struct text core = { 0 };
	(void)state;
	load("gfx942", &core);
	for (unsigned how = 0; how < 4; how++) {
		unsigned rooms = 0;
		for (bool full = true; full && rooms < PIECES_MOST; rooms++) {
			struct uh_error *err;
			size_t code;
			_cleanup_map_ struct map file = light_make(text_str(&core), 1000, how & 1, how & 2, rooms, &err);
			const struct str kept = { file.p, file.size };
			assert_null(err);
			full = light_says(kept, "no room");
			assert_false(full && light_says(kept, "ended early"));
			const size_t waves = waves_in(k, kept, &code);
			assert_true(full ? rooms || !waves : waves == 2);
		}
		assert_in_range(rooms, 2, PIECES_MOST - 1);
	}
	text_free(&core);
	know_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waves_and_code_of_the_seeds_are_read),
		cmocka_unit_test(cores_cut_or_changed_at_any_byte_harm_nobody),
		cmocka_unit_test(streams_cut_or_changed_at_any_byte_harm_nobody),
		cmocka_unit_test(streams_keep_waves_and_code),
		cmocka_unit_test(addresses_that_are_not_there_take_no_time),
		cmocka_unit_test(a_disk_that_fills_up_ends_the_core),
	};
	return cmocka_run_group_tests_name("GPU cores", tests, NULL, NULL);
}
