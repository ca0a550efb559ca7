// Votes on progress and what is made of them, over years of healthy work that looks like hangs, and over hangs. The clock is the test's.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "watch/progress.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, HOURS = 10000 };

static int load(void **state)
{
	struct know_problems problems = { 0 };
	*state = know_load(&problems);
	return problems.count != 0;
}

static int unload(void **state)
{
	know_free(*state);
	return 0;
}

/** A GPU of the simulation: what its signs are in a second of a phase. */
struct scene {
	const char *name;
	int64_t shortest, longest; // s
	enum vote interrupts, queues, heartbeat;
	enum vote waves, look; // what a look would see
	const char *loop, *peers, *stopped, *kernel, *busy, *launched;
	enum vote recordings;
};

/** Healthy ones. What stands here stands for as long as it does on real machines, and longer. */
static const struct scene healthy[] = {
	{ "training", 600, 36000, VOTE_MOVED, VOTE_MOVED, 0, VOTE_MOVED, VOTE_MOVED, .busy = "98" },
	{ "a kernel of minutes", 30, 1800, VOTE_STOOD, VOTE_STOOD, 0, VOTE_MOVED, VOTE_MOVED, .busy = "100" },
	{ "the same, without queues", 30, 1800, VOTE_STOOD, 0, 0, VOTE_MOVED, VOTE_MOVED, .busy = "100" },
	{ "a spin while rank 3 computes", 60, 900, VOTE_STOOD, VOTE_STOOD, 0, VOTE_STOOD, VOTE_STOOD, "yes", "ahead",
	  .busy = "100" },
	{ "a spin while another machine saves a checkpoint", 60, 1200, VOTE_STOOD, VOTE_STOOD, 0, VOTE_STOOD, VOTE_STOOD, "yes",
	  .kernel = "ncclDevKernel_Generic", .busy = "100" },
	{ "stopped by a signal", 60, 36000, VOTE_STOOD, VOTE_STOOD, 0, VOTE_STOOD, VOTE_STOOD, .stopped = "a signal",
	  .busy = "100" },
	{ "stopped by a debugger", 60, 7200, VOTE_STOOD, VOTE_STOOD, 0, VOTE_STOOD, VOTE_STOOD, .stopped = "a debugger",
	  .busy = "0" },
	{ "a checkpoint", 300, 1200, 0, 0, 0, 0, 0, .busy = "0" },
	{ "a partition beside busy ones", 600, 7200, VOTE_MOVED, 0, 0, VOTE_MOVED, VOTE_MOVED, .busy = "60" },
	{ "a heartbeat", 60, 3600, VOTE_STOOD, VOTE_STOOD, VOTE_MOVED, VOTE_STOOD, VOTE_STOOD, "yes", .busy = "100" },
	{ "nothing", 60, 7200, 0, 0, 0, 0, 0, .busy = "0" },
	{ "a recording, where nothing else is seen", 60, 3600, VOTE_STOOD, 0, 0, 0, 0, .busy = "100",
	  .recordings = VOTE_MOVED },
};
enum { HEALTHY = ARRAY_SIZE(healthy) };

static void set(struct gpu_progress *p, const char *name, const char *value)
{
	progress_fact(p, name, value ? str_z(value) : (struct str){ 0 });
}

static void begin_scene(struct gpu_progress *p, const struct scene *s)
{
	set(p, "processes", "1");
	set(p, "process", "python");
	set(p, "pid", "4242");
	set(p, "peers", s->peers);
	set(p, "stopped", s->stopped);
	set(p, "busy", s->busy);
	set(p, "launched", s->launched);
}

static void look(struct gpu_progress *p, const struct scene *s, int64_t now)
{
	progress_looks(p, now);
	set(p, "loop", s->loop);
	set(p, "kernel", s->kernel);
	progress_vote(p, S("waves"), s->waves, now);
	progress_vote(p, S("look"), s->look, now);
}

/** One second. Returns whether a look was taken. */
static enum pace beat(struct gpu_progress *p, const struct scene *s, int64_t now, unsigned *looks)
{
	progress_vote(p, S("interrupts"), s->interrupts, now);
	progress_vote(p, S("queues"), s->queues, now);
	progress_vote(p, S("heartbeat"), s->heartbeat, now);
	progress_vote(p, S("recordings"), s->recordings, now);
	if (progress_look_due(p, now)) {
		++*looks;
		look(p, s, now);
	}
	return progress_judge(p, now).pace;
}

/** A phase of @seconds: as in the watch, what moves is told once, and what stands each second. */
static enum pace play(struct gpu_progress *p, const struct scene *s, int64_t *now, int64_t seconds, unsigned *looks)
{
	bool steady = s->interrupts != VOTE_STOOD && s->queues != VOTE_STOOD;
	enum pace worst = PACE_UNKNOWN;
	begin_scene(p, s);
	for (int64_t i = 0; i < (steady ? 2 : seconds); i++) {
		enum pace pace = beat(p, s, *now + i * SECOND, looks);
		worst = pace > worst ? pace : worst;
	}
	*now += seconds * SECOND;
	return worst;
}

static uint32_t chance(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static void years_of_healthy_work_have_no_hang(void **state)
{
	struct gpu_progress p;
	uint32_t seed = 19;
	unsigned looks = 0, suspected = 0, standing = 0;
	int64_t now = HOUR;
	progress_begin(&p, *state);
	while (now < (int64_t)HOURS * HOUR) {
		const struct scene *s = &healthy[chance(&seed) % HEALTHY];
		int64_t seconds = s->shortest + chance(&seed) % (uint32_t)(s->longest - s->shortest + 1);
		if (s->kernel) // it was launched: something moved
			play(&p, &healthy[0], &now, 2, &looks);
		enum pace pace = play(&p, s, &now, seconds, &looks);
		standing += s->interrupts == VOTE_STOOD ? (unsigned)seconds / 60 : 0;
		suspected += pace == PACE_SUSPECTED;
		if (pace == PACE_HUNG)
			print_message("# '%s' was called hung\n", s->name);
		assert_int_not_equal(pace, PACE_HUNG);
	}
	print_message("# %d GPU-hours, %u of them standing: %u looks, %u suspicions\n", HOURS, standing / 60, looks, suspected);
	assert_true(standing / 60 > HOURS / 10);
}

static const struct scene hung[] = {
	{ "all stands", 0, 0, VOTE_STOOD, VOTE_STOOD, 0, VOTE_STOOD, VOTE_STOOD, .busy = "100" },
	{ "a loop", 0, 0, VOTE_STOOD, VOTE_STOOD, 0, VOTE_STOOD, VOTE_STOOD, "yes", .busy = "100" },
	{ "without root", 0, 0, VOTE_STOOD, 0, 0, 0, VOTE_STOOD, .busy = "100" },
	{ "a display draws on", 0, 0, VOTE_MOVED, VOTE_STOOD, 0, VOTE_STOOD, VOTE_STOOD, .busy = "100" },
	{ "a recording that claims to move", 0, 0, VOTE_STOOD, VOTE_STOOD, 0, VOTE_STOOD, VOTE_STOOD, .busy = "100",
	  .recordings = VOTE_MOVED },
	{ "the heart has stopped", 0, 0, VOTE_STOOD, VOTE_STOOD, VOTE_STOOD, VOTE_STOOD, VOTE_STOOD, .busy = "100" },
};

static void a_hang_is_suspected_then_certain(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(hung); i++) {
		for (size_t before = 0; before < HEALTHY; before++) {
			struct gpu_progress p;
			int64_t now = HOUR, suspected = 0, certain = 0;
			unsigned looks = 0;
			if (healthy[before].stopped || healthy[before].loop)
				continue; // how long those stood before counts, too
			progress_begin(&p, *state);
			play(&p, &healthy[0], &now, 600, &looks);
			play(&p, &healthy[before], &now, healthy[before].longest, &looks);
			play(&p, &healthy[0], &now, 10, &looks);
			begin_scene(&p, &hung[i]);
			for (int64_t s = 0; s < 120; s++) {
				enum pace pace = beat(&p, &hung[i], now + s * SECOND, &looks);
				suspected = pace == PACE_SUSPECTED && !suspected ? s + 1 : suspected;
				certain = pace == PACE_HUNG && !certain ? s + 1 : certain;
			}
			if (!suspected || suspected > 10 || certain <= suspected || certain > 60)
				print_message("# '%s' after '%s': suspected after %d s, hung after %d s\n", hung[i].name,
					      healthy[before].name, (int)suspected, (int)certain);
			assert_true(suspected && suspected <= 10 && certain > suspected && certain <= 60);
		}
	}
}

static void a_job_that_never_launched_is_told(void **state)
{
	struct gpu_progress p;
	struct text says = { 0 };
	progress_begin(&p, *state);
	begin_scene(&p, &(struct scene){ .busy = "0", .launched = "no" });
	set(&p, "held", "299");
	assert_int_not_equal(progress_judge(&p, HOUR).pace, PACE_UNUSED);
	set(&p, "held", "300");
	struct progress_answer a = progress_judge(&p, HOUR);
	assert_int_equal(a.pace, PACE_UNUSED);
	progress_say(&p, &a, &says);
	assert_string_equal(says.p, "python (pid 4242) has held the GPU for 300 s and launched no work on it");
	text_free(&says);
}

static void each_vote_is_listed(void **state)
{
	struct gpu_progress p;
	struct text list = { 0 };
	progress_begin(&p, *state);
	progress_vote(&p, S("interrupts"), VOTE_STOOD, HOUR);
	progress_vote(&p, S("interrupts"), VOTE_STOOD, HOUR + 31 * SECOND);
	progress_vote(&p, S("waves"), VOTE_MOVED, HOUR);
	progress_vote(&p, S("nonsense"), VOTE_STOOD, HOUR);
	progress_list(&p, &list);
	assert_non_null(strstr(list.p, "stood still: interrupts (31 s); moved: the waves; not known: the program's queues, "));
	text_free(&list);
	for (int i = 0; i < 2 * PROGRESS_FACTS; i++)
		progress_fact(&p, i % 2 ? "busy" : "power", i % 3 ? S("1") : (struct str){ 0 });
	assert_true(p.nfacts <= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(years_of_healthy_work_have_no_hang),
		cmocka_unit_test(a_hang_is_suspected_then_certain),
		cmocka_unit_test(a_job_that_never_launched_is_told),
		cmocka_unit_test(each_vote_is_listed),
	};
	return cmocka_run_group_tests(tests, load, unload);
}
