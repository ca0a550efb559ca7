// The table of unhang run: every row is reached, and what is stored of a run is read back, also where it was cut.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job/supervisor.h"
#include "session/run/run.h"

enum { TRIES = 4 };

/** A try in short; 0 is not known. */
struct short_try {
	const char *ended;
	int level, signal, exit_code, launch, launches;
	bool fill; // it was the kernel fill
	const char *fault;
	const char *offset; // of the fault, in its buffer
	const char *guard;  // what the guard says of it
	const char *class;
	const char *small; // allocations
};

/** A case: what happened in the tries before and in the last one, and the row that it comes to. */
struct table_case {
	const char *row;
	struct short_try before[TRIES - 1], last;
	bool agent, on_repeat, allow_inputs, guarded;
	bool alone; // no other try may follow
	const char *act;
	int level;
	const char *sure; // what the reason says of that
};

static struct run_try try_of(const struct short_try *s)
{
	return (struct run_try){ .ended = str_in_list(run_ended_words, str_z(s->ended)),
				 .level = s->level,
				 .signal = s->signal ? s->signal : -1,
				 .exit_code = s->exit_code ? s->exit_code : -1,
				 .packet = -1,
				 .launch = s->launch ? s->launch : -1,
				 .launches = s->launches,
				 .kernel = str_z(s->fill ? "fill" : ""),
				 .symbol = str_z(s->fill ? "_Z4fill" : ""),
				 .offset = str_z(s->offset ? s->offset : ""),
				 .guard = str_z(s->guard ? s->guard : ""),
				 .class = str_z(s->class ? s->class : ""),
				 .small_allocations = str_z(s->small ? s->small : ""),
				 .fault = str_z(s->fault ? s->fault : "job") };
}

#define FAULT(at_level, at_launch)                                                                                             \
	{                                                                                                                      \
		"gpu-fault", at_level, .launch = at_launch, .launches = 9, .fill = true                                        \
	}
#define PLACED(at_level, at_launch, at)                                                                                        \
	{                                                                                                                      \
		"gpu-fault", at_level, .launch = at_launch, .launches = 9, .fill = true, .offset = at                          \
	}
#define HANG(at_level, at_launch)                                                                                              \
	{                                                                                                                      \
		"gpu-hang", at_level, .launch = at_launch, .launches = 9, .fill = true                                         \
	}
#define EXIT(n)                                                                                                                \
	{                                                                                                                      \
		"exit", 1, .exit_code = 1, .launches = n                                                                       \
	}
#define SIGNAL(how, n, after)                                                                                                  \
	{                                                                                                                      \
		how, 1, .signal = n, .launches = after                                                                         \
	}

static const struct table_case cases[] = {
	{ "node-at-fault", .last = { "gpu-fault", 1, .fault = "node" }, .act = "stop" },
	{ "stopped", .last = SIGNAL("stopped", 15, 9), .act = "stop" },
	{ "deadline", .last = SIGNAL("deadline", 15, 9), .act = "stop" },
	{ "no-launch", .last = { "no-launch", 1 }, .act = "stop" },
	{ "memory", .last = SIGNAL("oom", 9, 9), .act = "restart", .level = 1 },
	{ "memory-once", .last = SIGNAL("oom", 9, 9), .alone = true, .act = "stop" },
	{ "memory-again", { SIGNAL("oom", 9, 7) }, SIGNAL("oom", 9, 9), .act = "stop" },
	{ "guard-freed", .last = { "gpu-fault", 1, .guard = "freed" }, .act = "stop" },
	{ "guard-before", .last = { "gpu-fault", 1, .guard = "before" }, .act = "stop" },
	{ "guard-past", .last = { "gpu-fault", 1, .guard = "past" }, .act = "stop" },
	{ "guard-wild", .last = { "gpu-fault", 1, .guard = "wild" }, .act = "stop" },
	{ "gpu-fault-first", .last = FAULT(1, 7), .act = "restart", .level = 3 },
	{ "gpu-first", .last = FAULT(1, 7), .guarded = true, .act = "restart", .level = 3 }, // which has what would be proposed
	{ "inputs-stored", .last = FAULT(10, 7), .allow_inputs = true, .act = "restart", .level = 10 },
	{ "inputs-stored", .last = HANG(10, 7), .allow_inputs = true, .act = "restart", .level = 10 },
	{ "gpu-first", .last = HANG(1, 7), .act = "restart", .level = 3 },
	{ "gpu-first", .last = SIGNAL("silent", 15, 9), .act = "restart", .level = 3 },
	{ "crash-first", .last = SIGNAL("signal", 11, 9), .act = "restart", .level = 3 },
	{ "deterministic", { PLACED(1, 7, "past+0/64") }, PLACED(3, 7, "past+0/64"), .act = "stop", .sure = "certain" },
	{ "raise-to-5", { PLACED(1, 7, "past+0/64") }, PLACED(3, 7, "past+8/64"), .act = "restart", .level = 5 },
	{ "raise-to-5", { PLACED(1, 6, "past+0/64") }, PLACED(3, 7, "past+0/64"), .act = "restart", .level = 5 },
	{ "raise-to-5", { FAULT(1, 7) }, FAULT(3, 7), .act = "restart", .level = 5 },
	{ "deterministic", { FAULT(1, 7), FAULT(3, 7) }, FAULT(5, 7), .act = "stop", .sure = "likely: 3 tries" },
	{ "deterministic", { HANG(1, 7), FAULT(3, 7), HANG(3, 7) }, HANG(5, 7), .act = "stop", .sure = "likely: 3 tries" },
	{ "host-again", { EXIT(9) }, EXIT(9), .act = "stop" },
	{ "raise-to-3", { SIGNAL("signal", 11, 9) }, SIGNAL("signal", 11, 9), .act = "restart", .level = 3 },
	{ "deterministic", { SIGNAL("signal", 11, 9), SIGNAL("signal", 11, 9) }, SIGNAL("signal", 11, 9), .act = "stop" },
	{ "small-allocations", .last = { "runtime-hang", 1, .launches = 9, .small = "3120" }, .act = "restart", .level = 1 },
	{ "small-allocations-again",
	  { { "runtime-hang", 1, .launches = 9, .small = "2900" } },
	  { "runtime-hang", 1, .launches = 9, .small = "3120" },
	  .act = "stop" },
	{ "call", .last = { "runtime-hang", 1, .launches = 9 }, .act = "restart", .level = 1 },
	{ "call-again", { { "runtime-hang", 1, .launches = 9 } }, { "runtime-hang", 1, .launches = 9 }, .act = "stop" },
	{ "call-again",
	  { { "runtime-hang", 1, .launches = 9 } },
	  { "runtime-hang", 1, .launches = 9, .class = "silent-hang" },
	  .act = "stop" }, // which stood for longer when it was looked at
	{ "deterministic-changed",
	  { PLACED(1, 7, "past+0/64") },
	  PLACED(3, 7, "past+0/64"),
	  .on_repeat = true,
	  .act = "restart",
	  .level = 3 },
	{ "other-fault", { HANG(3, 7) }, FAULT(3, 7), .act = "restart", .level = 3 },
	{ "raise-to-3", { EXIT(7) }, EXIT(9), .act = "restart", .level = 3 },
	{ "raise-to-5", { FAULT(1, 6) }, FAULT(3, 7), .act = "restart", .level = 5 },
	{ "raise-to-10", { FAULT(3, 6) }, FAULT(5, 7), .allow_inputs = true, .act = "restart", .level = 10 },
	{ "top", { FAULT(3, 6) }, FAULT(5, 7), .act = "stop" },
	{ "top", { FAULT(5, 6) }, FAULT(10, 7), .allow_inputs = true, .act = "stop" },
	{ "debug-agent", { FAULT(3, 6) }, FAULT(5, 7), .agent = true, .act = "restart", .level = 5 },
	{ "host-first", .last = EXIT(9), .act = "restart", .level = 1 },
	{ "host-first", .last = SIGNAL("signal", 9, 9), .act = "restart", .level = 1 },
	{ "host-again", { EXIT(0) }, EXIT(0), .act = "stop" },
};
enum { CASES = ARRAY_SIZE(cases) };

static void ignore(void *ctx, const char *file, unsigned line, const char *message)
{
	(void)ctx;
	(void)file;
	(void)line;
	(void)message;
}

/** Decides one try after the other, as a run does. The last is in *@ret. */
static void decide(const struct know *k, const struct table_case *c, unsigned restarts, struct arena *a, struct run_try *ret)
{
	static const char *const changes[] = { "SEED=2" };
	const struct uh_run_options o = { .restarts = restarts,
					  .agent = c->agent ? "librocm-debug-agent.so.2" : NULL,
					  .on_repeat = changes,
					  .non_repeat = c->on_repeat,
					  .allow_inputs = c->allow_inputs,
					  .guard = c->guarded ? "above" : NULL };
	struct run_try tries[TRIES];
	const struct run_try *list[TRIES];
	struct run_told run = { .tries = list };
	for (size_t i = 0; i < TRIES; i++) {
		const bool last = i + 1 == TRIES || !c->before[i].ended;
		list[i] = &tries[i];
		tries[i] = try_of(last ? &c->last : &c->before[i]);
		tries[i].number = (int64_t)i + 1;
		run.ntries = i + 1;
		const struct job_study s = { .run = &run, .of = &tries[i], .options = &o };
		job_decide(k, &s, a, &tries[i]);
		*ret = tries[i];
		if (last)
			return;
	}
}

static struct know *knowledge(void)
{
	struct know_problems problems = { .report = ignore };
	return know_load_update(NULL, &problems);
}

static void every_row_is_reached(void **state)
{
	struct arena a = { 0 };
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < CASES; i++) {
		struct run_try t;
		decide(k, &cases[i], cases[i].alone ? 0 : 100, &a, &t);
		if (!str_is(t.row, cases[i].row))
			fail_msg("case %zu: row " STR_FMT ", not %s", i, STR_ARG(t.row), cases[i].row);
		assert_true(str_is(str_of_list(run_act_words, t.act), cases[i].act));
		assert_true(t.reason.n);
		assert_true(!cases[i].sure || str_find(t.reason, str_z(cases[i].sure)) >= 0);
		if (cases[i].level)
			assert_int_equal(t.next_level, cases[i].level);
	}
	for (size_t r = 0; r < k->escalations.len; r++) {
		bool reached = false;
		for (size_t i = 0; i < CASES && !reached; i++)
			reached = str_is(k->escalations.data[r]->head.id, cases[i].row);
		if (!reached)
			fail_msg("no case reaches " STR_FMT, STR_ARG(k->escalations.data[r]->head.id));
	}
	know_free(k);
	arena_free(&a);
}

/** Whatever happens, level 10 needs to be allowed; and where no try is left, nothing is started. */
static void the_table_keeps_its_promises(void **state)
{
	struct arena a = { 0 };
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < CASES; i++) {
		struct run_try t;
		decide(k, &cases[i], 100, &a, &t);
		assert_true(cases[i].allow_inputs || t.next_level <= 5);
		decide(k, &cases[i], 0, &a, &t);
		assert_true(str_is(str_of_list(run_act_words, t.act), "stop"));
		assert_true(!str_is(S("restart"), cases[i].act) || t.propose.n);
	}
	know_free(k);
	arena_free(&a);
}

static char *exact(struct str s, size_t n)
{
	char *copy = malloc(n ? n : 1);
	assert_non_null(copy);
	memcpy(copy, s.p, n);
	return copy;
}

static void a_try_is_read_as_it_was_written(void **state)
{
	struct arena a = { 0 };
	struct text text = { 0 }, again = { 0 };
	struct run_try *read = try_new(&a), written = try_of(&cases[6].last);
	(void)state;
	written.because = S("It said:\nnothing \x1b[31m");
	try_text(&written, &text);
	try_take(text_str(&text), &a, read);
	try_text(read, &again);
	assert_true(str_eq(text_str(&text), text_str(&again)));
	for (size_t n = 0; n <= text.n; n++) {
		char *cut = exact(text_str(&text), n);
		struct run_try *t = try_new(&a);
		struct run_told r = { 0 };
		try_take((struct str){ cut, n }, &a, t);
		run_take((struct str){ cut, n }, &a, &r);
		free(cut);
	}
	text_free(&text);
	text_free(&again);
	arena_free(&a);
}

static void a_job_says_why_it_failed(void **state)
{
	static const struct {
		const char *output, *line;
		int64_t rank;
	} said[] = {
		{ "step 7\nTraceback (most recent call last):\n  File \"a.py\", line 3\n    f()\nValueError: empty\nERROR: "
		  "later\n",
		  "ValueError: empty", -1 },
		{ "[rank3]: Traceback (most recent call last):\n[rank1]: other\n[rank3]:   File\n[rank3]: KeyError: 'x'\n",
		  "KeyError: 'x'", 3 },
		{ "Traceback (most recent call last):\n  File\ntorch.ChildFailedError: x\nKilled\n", "Killed", -1 },
		{ "Traceback (most recent call last):\n  File \"a.py\", line 3\n", "", -1 },
		{ "all is well\n", "", -1 },
		{ "", "", -1 },
		{ "RuntimeError: HIP error: invalid argument", "RuntimeError: HIP error: invalid argument", -1 },
		{ "ERROR one\nERROR two\n", "ERROR one", -1 },
	};
	struct arena a = { 0 };
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		const struct str output = str_z(said[i].output);
		const struct last_words found = words_find(k, output, &a);
		if (!str_is(found.line, said[i].line) || found.rank != said[i].rank)
			fail_msg("case %zu: '" STR_FMT "' of rank %d", i, STR_ARG(found.line), (int)found.rank);
		for (size_t n = 0; n <= output.n; n++) {
			char *cut = exact(output, n);
			words_find(k, (struct str){ cut, n }, &a);
			free(cut);
		}
	}
	assert_true(str_is(words_tail(S("a\nb\nc\n"), 2), "b\nc\n"));
	assert_true(str_is(words_tail(S("a"), 2), "a"));
	know_free(k);
	arena_free(&a);
}

static void a_profile_is_what_the_doctor_writes(void **state)
{
	static const char good[] = "# unhang profile x\nexport A='1 2'\nexport B='it'\\''s'\n\nexport C=3\n";
	struct text to = { 0 };
	struct str wrong;
	(void)state;
	assert_true(profile_parse(S(good), &to, &wrong));
	assert_true(str_eq(text_str(&to), S("A=1 2\nB=it's\nC=3\n")));
	assert_false(profile_parse(S("rm -rf /\n"), &to, &wrong));
	assert_true(str_is(wrong, "rm -rf /"));
	assert_false(profile_parse(S("export 1A=2\n"), &to, &wrong));
	assert_false(profile_parse(S("export A='2\n"), &to, &wrong));
	for (size_t n = 0; n < sizeof(good); n++) {
		char *cut = exact(S(good), n);
		profile_parse((struct str){ cut, n }, &to, &wrong);
		free(cut);
	}
	text_free(&to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_reached),
		cmocka_unit_test(the_table_keeps_its_promises),
		cmocka_unit_test(a_try_is_read_as_it_was_written),
		cmocka_unit_test(a_job_says_why_it_failed),
		cmocka_unit_test(a_profile_is_what_the_doctor_writes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
