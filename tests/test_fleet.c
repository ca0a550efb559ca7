// What the arbiter decides and remembers, its journal cut at every byte, and the state of a watch cut at every byte.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "session/fleet/fleet.h"
#include "watch/node/fitness.h"
#include "watch/node/state.h"

enum { NOW = 1794960000 };

static const struct fleet_rules rules = { .most = 2, .reboots = true, .stale_s = 900, .reboot_s = 1800, .resumes = 3 };
static const struct node_memory ours = { .name = { "n1", 2 },
					 .drained = NOW - 100,
					 .holds = true,
					 .boot_id = { "a", 1 },
					 .user = { "root", 4 },
					 .set = { "then", 4 },
					 .action = { "reboot", 6 },
					 .reason = { "[unhang driver] x", 17 } };

static struct slurm_node node(const char *state, const char *reason)
{
	return (struct slurm_node){ S("n1"), str_z(state), str_z(reason), S("root"), S("then"), true };
}

static struct node_word word(enum node_status status, const char *boot, const char *smoke)
{
	return (struct node_word){
		.host = S("n1"), .status = status, .boot_id = str_z(boot), .smoke = str_z(smoke), .asked = NOW - 10
	};
}

static enum fleet_move decided(const struct slurm_node *n, const struct node_word *w, const struct node_memory *m)
{
	struct str why;
	return fleet_decide(n, w, m, &rules, NOW, &why);
}

static void only_plain_states_are_drained(void **unused)
{
	static const struct {
		const char *state, *reason;
		enum fleet_move move;
	} rows[] = {
		{ "idle", "", MOVE_DRAIN },
		{ "mixed", "", MOVE_DRAIN },
		{ "allocated", "", MOVE_DRAIN },
		{ "idle*", "", MOVE_DRAIN },
		{ "mixed+completing", "", MOVE_DRAIN },
		{ "idle+maint", "", MOVE_NONE },
		{ "idle+reserved", "", MOVE_NONE },
		{ "idle+planned", "", MOVE_NONE },
		{ "down", "", MOVE_NONE },
		{ "idle+drain", "x", MOVE_NONE },
		{ "idle", "of somebody", MOVE_NONE },
		{ "idle+reboot_requested", "", MOVE_NONE },
		{ "future", "", MOVE_NONE },
		{ "a-state-to-come", "", MOVE_NONE },
		{ "idle+powered_down", "", MOVE_NONE },
		{ "idle+drain", "[unhang node] y", MOVE_NONE },
	};
	const struct node_word w = word(NODE_FAILED, "a", "");
	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct slurm_node n = node(rows[i].state, rows[i].reason);
		if (decided(&n, &w, NULL) != rows[i].move)
			fail_msg("%s, '%s'", rows[i].state, rows[i].reason);
	}
	const struct slurm_node idle = node("idle", "");
	struct node_word other = word(NODE_UNKNOWN, "a", "");
	assert_int_equal(decided(&idle, &other, NULL), MOVE_NONE);
	other = word(NODE_FAILED, "a", "");
	other.asked = NOW - 901;
	assert_int_equal(decided(&idle, &other, NULL), MOVE_NONE);
	other.asked = NOW + 3600; // a clock that is wrong
	assert_int_equal(decided(&idle, &other, NULL), MOVE_NONE);
}

static void a_drain_of_ours_ends_after_boot_and_test(void **unused)
{
	(void)unused;
	const struct slurm_node n = node("idle+drain", "[unhang driver] x");
	struct node_word w = word(NODE_HEALTHY, "b", "passed");
	struct node_memory m = ours;
	assert_int_equal(decided(&n, &w, &m), MOVE_RESUME);
	w = word(NODE_HEALTHY, "a", "passed"); // the same boot
	assert_int_equal(decided(&n, &w, &m), MOVE_REBOOT);
	w = word(NODE_HEALTHY, "b", "");
	assert_int_equal(decided(&n, &w, &m), MOVE_NONE);
	w = word(NODE_UNKNOWN, "b", "passed");
	assert_int_equal(decided(&n, &w, &m), MOVE_NONE);
	w = word(NODE_HEALTHY, "b", "passed");
	m.action = S("replace");
	assert_int_equal(decided(&n, &w, &m), MOVE_NONE);
	w.worst.action = S("replace"); // it says so only later
	m = ours;
	assert_int_equal(decided(&n, &w, &m), MOVE_KEEP);
	w.worst.action = (struct str){ 0 };
	m = ours;
	m.resumes = 3;
	assert_int_equal(decided(&n, &w, &m), MOVE_NONE);
	m = ours;
	m.set = S("earlier"); // somebody has set it since
	assert_int_equal(decided(&n, &w, &m), MOVE_NONE);
	m = ours;
	m.user = S("admin");
	assert_int_equal(decided(&n, &w, &m), MOVE_NONE);
	m = ours;
	m.rebooted = NOW - 1801;
	w = word(NODE_FAILED, "a", "");
	assert_int_equal(decided(&n, &w, &m), MOVE_POWER);
	const struct slurm_node busy = node("mixed+drain", "[unhang driver] x");
	assert_int_equal(decided(&busy, &w, &ours), MOVE_NONE); // its jobs run on
}

static struct fleet_entry drain_of(const char *name, int64_t when, enum fleet_step step)
{
	return (struct fleet_entry){
		.when = when, .move = MOVE_DRAIN, .step = step, .node = str_z(name), .boot_id = S("a"), .reason = S("r")
	};
}

static void the_limit_counts_what_was_begun(void **unused)
{
	struct fleet_memory m = { 0 };
	(void)unused;
	struct fleet_rules r = rules;
	assert_int_equal(fleet_budget(&m, &r, 100, 0, NOW), 2);
	struct fleet_entry e = drain_of("n1", NOW - 60, STEP_WILL);
	fleet_memory_take(&m, &e, NOW);
	fleet_memory_take(&m, &e, NOW); // tried again after a kill: it is the same node
	assert_int_equal(fleet_budget(&m, &r, 100, 0, NOW), 1);
	assert_int_equal(fleet_remember(&m, S("n1"), false)->begun.when, NOW - 60);
	e = drain_of("n2", NOW - 50, STEP_WOULD);
	fleet_memory_take(&m, &e, NOW);
	assert_int_equal(fleet_budget(&m, &r, 100, 0, NOW), 1);
	e = drain_of("n3", NOW - 40, STEP_WILL);
	fleet_memory_take(&m, &e, NOW);
	assert_int_equal(fleet_budget(&m, &r, 100, 0, NOW), 0);
	assert_int_equal(fleet_budget(&m, &r, 100, 0, NOW + 3600), 2);
	assert_int_equal(fleet_budget(&m, &r, 100, 0, NOW - 7200), 0); // the clock was set back
	r.percent = 1;
	r.most = 0;
	assert_int_equal(fleet_budget(&m, &r, 1250, 0, NOW), 10);
	assert_int_equal(fleet_budget(&m, &r, 10, 0, NOW + 3600), 1); // one at least
	r.held_percent = 10;
	assert_int_equal(fleet_budget(&m, &r, 1250, 120, NOW + 3600), 5); // 125 at a time
	assert_int_equal(fleet_budget(&m, &r, 1250, 125, NOW + 3600), 0);
	assert_int_equal(fleet_budget(&m, &r, 1250, 500, NOW + 3600), 0);
	assert_int_equal(fleet_budget(&m, &r, 4, 0, NOW + 3600), 1);
	r.held_most = 3;
	assert_int_equal(fleet_budget(&m, &r, 1250, 1, NOW + 3600), 2);
	fleet_memory_free(&m);
}

static void entries_are_read_as_written(void **unused)
{
	_cleanup_text_ struct text line = { 0 };
	struct fleet_entry e = drain_of("n1", NOW, STEP_DONE), got;
	(void)unused;
	e.reason = S("a\tb\nc");
	fleet_entry_write(&line, &e);
	assert_true(str_starts(text_str(&line), S("2026-11-18T00:00:00Z\tdrain\tdone\tn1\t")));
	assert_true(fleet_entry_read(str_trim(text_str(&line)), &got));
	assert_true(got.when == NOW && got.move == MOVE_DRAIN && got.step == STEP_DONE && str_is(got.node, "n1"));
	assert_true(str_is(got.reason, "a b c") && !got.user.n);
	for (size_t n = 0; n < line.n; n++) {
		char *copy = malloc(n ? n : 1);
		memcpy(copy, line.p, n);
		fleet_entry_read((struct str){ copy, n }, &got);
		free(copy);
	}
}

static void words_are_believed_whole(void **unused)
{
	static const char word[] =
		"{\"schema\":\"unhang/check/1\",\"status\":\"failed\",\"host\":\"n1\",\"asked\":\"2026-11-18T00:00:00Z\","
		"\"boot_id\":\"01234567-89ab-cdef-0123-456789abcdef\",\"action\":\"reboot\"}";
	static const struct {
		const char *is, *becomes;
	} lies[] = { { "01234567-89ab", "" },
		     { "01234567-", "0123456-7" },
		     { "456789abcdef", "456789abcdeg" },
		     { "456789abcdef", "456789abcdef0" },
		     { "failed", "fallen" },
		     { "\"n1\"", "\"\"" },
		     { "2026-11-18T", "18.11.2026 " },
		     { "check/1", "check/2" } };
	_cleanup_arena_ struct arena a = { 0 };
	struct node_word w;
	(void)unused;
	for (size_t n = 0; n < sizeof(word); n++) {
		char *copy = malloc(n ? n : 1);
		memcpy(copy, word, n);
		assert_int_equal(node_word_parse((struct str){ copy, n }, &a, &w), n == sizeof(word) - 1);
		free(copy);
	}
	assert_true(w.status == NODE_FAILED && str_is(w.worst.action, "reboot") && w.asked == 1794960000);
	for (size_t n = 0; n < ARRAY_SIZE(lies); n++) {
		const char *at = strstr(word, lies[n].is);
		const struct str lie =
			arena_printf(&a, "%.*s%s%s", (int)(at - word), word, lies[n].becomes, at + strlen(lies[n].is));
		if (node_word_parse(lie, &a, &w))
			fail_msg("%s", lie.p);
	}
}

static void states_are_cut_at_every_byte(void **unused)
{
	static const char state[] =
		"{\"schema\":\"unhang/watch-state/1\",\"host\":\"n1\",\"boot_id\":\"b\",\"written\":\"2026-11-18T00:00:00Z\","
		"\"valid_until\":\"2026-11-18T00:03:00Z\",\"looked\":\"2026-11-18T00:00:00Z\",\"log_overruns\":0,\"log_"
		"unread\":null,"
		"\"progress_unread\":null,\"gpus\":[{\"pci\":\"0000:85:00.0\",\"unwell\":true,\"seen\":true,\"health\":\"off-"
		"bus\"}],"
		"\"incidents\":[{\"id\":\"0\",\"state\":\"open\",\"action\":\"reboot\",\"fit\":\"no\",\"gpu\":{\"pci\":\"0000:"
		"85:00.0\"}}]}";
	(void)unused;
	for (size_t n = 0; n < sizeof(state); n++) {
		_cleanup_arena_ struct arena a = { 0 };
		struct watch_state s;
		char *copy = malloc(n ? n : 1);
		memcpy(copy, state, n);
		struct uh_error *err = state_parse((struct str){ copy, n }, &a, &s);
		assert_int_equal(err == NULL, n == sizeof(state) - 1);
		uh_error_free(err);
		free(copy);
	}
}

static void new_rules_wait_for_their_share(void **unused)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct watched_gpu g = { .pci = S("0000:85:00.0"), .unwell = true, .health = S("off-bus") };
	const struct watch_state s = { .gpus = &g, .ngpus = 1, .looked = NOW };
	struct node_answer r = { 0 };
	(void)unused;
	fitness_judge(&s, &(struct fitness_asked){ .now = NOW, .new_rules = 1, .machine = 99 }, &a, &r);
	assert_int_equal(r.status, NODE_FAILED); // an old rule is in force on all machines
	assert_string_equal(node_fit(&r), "no");
	vec_free(&r.findings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_plain_states_are_drained),   cmocka_unit_test(a_drain_of_ours_ends_after_boot_and_test),
		cmocka_unit_test(the_limit_counts_what_was_begun), cmocka_unit_test(entries_are_read_as_written),
		cmocka_unit_test(states_are_cut_at_every_byte),    cmocka_unit_test(words_are_believed_whole),
		cmocka_unit_test(new_rules_wait_for_their_share),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
