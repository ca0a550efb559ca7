// How replies move the weights of explanations, and how much a question is expected to tell.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "diagnose/ask/question.h"

#define QUESTION(id, replies) "question " id "\n    ask Is it?\n    replies " replies "\n    fact f_" id "\n    why So.\n"
#define EXPLANATION(id, fault, lines)                                                                                          \
	"explanation " id "\n    title the " id "\n    fault " fault "\n    for thermal-shutdown\n" lines
static const char blocks[] = QUESTION("dusty", "yes no") QUESTION("other", "one two three")
	EXPLANATION("dust", "node", "    prior 30\n    likely dusty yes 90 no 10\n")
		EXPLANATION("load", "job", "    prior 10\n    likely dusty yes 20 no 80\n")
			EXPLANATION("never", "driver", "    prior 60\n    when f_dusty is maybe\n");

static int setup(void **state)
{
	struct know_problems problems = { 0 };
	*state = know_load_with("test", str_z(blocks), &problems);
	return (int)problems.count;
}

static int teardown(void **state)
{
	know_free(*state);
	return 0;
}

static const struct know_question *question(const struct know *k, const char *id)
{
	for (size_t n = 0; n < k->questions.len; n++)
		if (str_is(k->questions.data[n]->head.id, id))
			return k->questions.data[n];
	return NULL;
}

static int percent(double share) { return (int)(share * 100 + 0.5); }

static struct incident *weighed(const struct know *k, const struct diag_answer *answer)
{
	static const struct know_cause cause = { .head.id = { "thermal-shutdown", 16 } };
	struct incident *i = mem_alloc(sizeof(*i));
	i->cause = &cause;
	i->fault = S("unknown");
	if (answer)
		vec_push(&i->answers, *answer);
	incident_weigh_explanations(i, k, &(struct fact_view){ incident_get, i });
	return i;
}

static void test_without_a_reply(void **state)
{
	struct incident *i = weighed(*state, NULL);
	assert_int_equal(i->explanations.len, 2);
	assert_int_equal(percent(i->explanations.data[0].weight), 75);
	assert_int_equal(percent(i->explanations.data[1].weight), 25);
	assert_null(i->leads);
	assert_true(str_is(i->fault, "unknown"));
	incident_free(i);
}

static void test_reply(void **state)
{
	const struct diag_answer no = { question(*state, "dusty"), S("no") }, yes = { no.question, S("yes") };
	struct incident *i = weighed(*state, &no);
	// 30 * 10 against 10 * 80.
	assert_int_equal(percent(i->explanations.data[0].weight), 27);
	assert_int_equal(percent(i->explanations.data[1].weight), 73);
	assert_true(str_is(i->leads->head.id, "load"));
	assert_true(str_is(i->fault, "job"));
	assert_true(str_is(i->fault_say, "the load"));
	assert_int_equal(i->fault_confidence, 72);
	struct str value;
	assert_true(incident_get(i, S("f_dusty"), 0, &value) && str_is(value, "no"));
	assert_true(incident_get(i, S("explanation"), 0, &value) && str_is(value, "load"));
	incident_free(i);
	i = weighed(*state, &yes);
	assert_int_equal(percent(i->explanations.data[0].weight), 93);
	assert_int_equal(i->fault_confidence, 90); // a reply is somebody's word
	incident_free(i);
}

/** What a log can forge does not become the node's fault by a reply. */
static void test_unattested(void **state)
{
	struct incident *i = weighed(*state, NULL);
	const struct diag_answer yes = { question(*state, "dusty"), S("yes") };
	i->unattested = true;
	vec_push(&i->answers, yes);
	incident_weigh_explanations(i, *state, &(struct fact_view){ incident_get, i });
	assert_true(str_is(i->leads->head.id, "dust"));
	assert_true(str_is(i->fault, "unknown"));
	incident_free(i);
}

static void test_gain(void **state)
{
	struct incident *i = weighed(*state, NULL);
	const struct know_question *dusty = question(*state, "dusty"), *other = question(*state, "other");
	// 0.625 before; 0.872 behind 72.5 % of the replies, 0.603 behind the others.
	assert_int_equal(percent(question_gain(dusty, i->explanations.data, i->explanations.len)), 17);
	assert_int_equal(percent(question_gain(other, i->explanations.data, i->explanations.len)), 0);
	assert_int_equal(explanation_likely(i->explanations.data[0].explanation, dusty, S("no")), 10);
	assert_int_equal(explanation_likely(i->explanations.data[0].explanation, other, S("two")), 33);
	incident_free(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_a_reply),
		cmocka_unit_test(test_reply),
		cmocka_unit_test(test_unattested),
		cmocka_unit_test(test_gain),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
