#include "report/run/try.h"

#include "base/json.h"
#include "base/print.h"
#include "report/sheet.h"

static const char *const arm_names[TRY_ARMS] = { "without", "with" };
static const char *const outcome_names[] = {
	[TRY_PASSES] = "passes", [TRY_EXPOSES] = "exposes", [TRY_CURES] = "cures", [TRY_FAILS] = "fails"
};

static void try_say(struct sheet *s, const char *label, struct str text, size_t width)
{
	_cleanup_text_ struct text safe = { 0 };
	if (s->as_json || !text.n)
		return;
	sheet_say(s, "  %-9s ", label);
	text_add_safe(&safe, text);
	print_wrapped(s->json.out, text_str(&safe), 12, 12, width);
}

static void put_arm(struct sheet *s, struct arena *a, const struct try_told *t, size_t i, size_t width)
{
	const struct tried *arm = &t->arms[i];
	const struct run_try *last = arm->last;
	const struct str ended = str_of_list(run_ended_words, last ? last->ended : RUN_RUNS);
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "arm", v_word(arm_names[i]) }, { "status", v_int(arm->status) }, { "ended", v_known(ended) },
		     { "ran_ms", v_count(last ? last->ran_ms : -1) }, { "findings", v_count(arm->findings) });
	if (last)
		sheet_fields(s, { "class", v_known(last->class) }, { "title", v_known(last->title) },
			     { "kernel", v_known(last->kernel) }, { "place", v_known(last->place) },
			     { "allocator", v_known(last->allocator) }, { "words", v_known(last->words) },
			     { "bundle", v_known(last->bundle) });
	sheet_put(s, "directory", v_known(arm->directory));
	if (last && !s->as_json) {
		sheet_say(s, "%s%s\n", i ? "With " : "Without", i ? "it" : "");
		try_say(s, "Ended",
			arena_printf(a, "after %lld.%lld s the job %s (status %d)", (long long)last->ran_ms / 1000,
				     (long long)(last->ran_ms % 1000) / 100, run_ended_say(ended), arm->status),
			width);
		try_say(s, "Cause", last->title, width);
		try_say(s, "It said", last->title.n ? (struct str){ 0 } : last->words, width);
		if (arm->findings > 0)
			try_say(s, "Found", arena_printf(a, "%lld by the allocator itself", (long long)arm->findings), width);
	}
	sheet_close(s, '}');
}

void report_try(const struct try_told *t, bool json, size_t width, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct sheet s = sheet_on(json, out);
	width = width ? width : WRAP_WIDTH;
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "schema", v_word("unhang/try/1") }, { "experiment", v_text(t->experiment->head.id) },
		     { "changed", v_text(t->experiment->title) }, { "cost", v_known(t->experiment->cost) });
	sheet_open(&s, "runs", '[');
	if (!json)
		print_wrapped(out, arena_printf(&a, "Experiment: the job as it is, and with " STR_FMT ".", STR_ARG(t->experiment->title)), 0,
			      0, width);
	for (size_t i = 0; i < t->narms; i++)
		put_arm(&s, &a, t, i, width);
	sheet_close(&s, ']');
	sheet_fields(&s, { "whole", v_bool(t->whole) }, { "outcome", v_if(t->whole, v_word(outcome_names[t->outcome])) },
		     { "means", v_if(t->whole, v_text(t->means)) });
	if (!json && t->whole)
		print_wrapped(out, t->means, 0, 0, width);
	if (!json && !t->whole)
		sheet_say(&s, "The first run was stopped, so there was no second.\n");
	for (size_t i = 0; i < t->narms && !json; i++)
		sheet_say_safe(&s, i ? "Files, with: " : "Files, without: ", t->arms[i].directory, "\n");
	sheet_close(&s, '}');
	if (json)
		fputc('\n', out);
}
