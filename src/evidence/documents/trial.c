// The answers of `unhang try`, `unhang bisect` and `unhang repro`: what experiments showed is evidence like any other. What is said of it is knowledge's, so of
// the document only ids, numbers and names are taken.
#include <jansson.h>

#include "base/command.h"
#include "code/names.h"
#include "evidence/artefact.h"
#include "evidence/documents/document.h"

#define TRY_SCHEMA "unhang/try/2"
#define BISECT_SCHEMA "unhang/bisect/1"
#define REPRO_SCHEMA "unhang/repro/1"

static const struct know_suspect *suspect_named(const struct know *k, struct str id)
{
	for (size_t i = 0; i < k->suspects.len; i++)
		if (str_eq(k->suspects.data[i]->head.id, id))
			return k->suspects.data[i];
	return NULL;
}

static void add_number(struct event *e, struct arena *a, const char *name, const json_t *value)
{
	if (json_is_integer(value) && json_integer_value(value) >= 0)
		event_add_number(e, a, name, json_integer_value(value));
}

/** Runs and how many of them failed; false: the document does not say so. */
static bool tally_of(const json_t *root, const char *name, double *ret_runs, double *ret_failed)
{
	const json_t *tally = json_object_get(root, name);
	const json_t *runs = json_object_get(tally, "runs"), *failed = json_object_get(tally, "failed");
	*ret_runs = (double)json_integer_value(runs);
	*ret_failed = (double)json_integer_value(failed);
	return json_is_integer(runs) && json_is_integer(failed) && *ret_runs > 0 && *ret_failed >= 0 &&
	       *ret_failed <= *ret_runs;
}

static void add_rate(struct event *e, struct arena *a, const json_t *rate)
{
	add_number(e, a, "trial_runs", json_object_get(rate, "runs"));
	add_number(e, a, "trial_failed", json_object_get(rate, "failed"));
}

/** How often the job failed when the two were in order, and when the first was late. */
static void add_rate_of(struct event *e, struct arena *a, const char *name, const json_t *rate)
{
	event_add_text(e, a, name, arena_printf(a, "%lld of %lld", (long long)json_integer_value(json_object_get(rate, "failed")),
						(long long)json_integer_value(json_object_get(rate, "runs"))));
}

static bool trial_event(const struct artefact_output *out, const char *signature, struct event *ret)
{
	return artefact_event(out, signature, (struct place){ out->source, out->line ? out->line : 1 }, ret);
}

/** What is explained has a weight, experiments, and a failure: as the job is, or one that an experiment found. */
static bool try_holds(const json_t *root)
{
	const json_t *confidence = json_object_get(root, "confidence");
	double runs, failed;
	return str_is(document_text(root, "verdict"), "explained") && json_is_number(confidence) &&
	       json_number_value(confidence) >= 0 && json_number_value(confidence) <= 1 &&
	       json_array_size(json_object_get(root, "experiments")) && tally_of(root, "as_it_is", &runs, &failed) &&
	       (failed > 0 || json_is_object(json_object_get(root, "found")));
}

static bool try_read(const struct artefact_output *out, const json_t *root)
{
	const json_t *confidence = json_object_get(root, "confidence"), *failure = json_object_get(root, "failure");
	const struct know_suspect *s = suspect_named(out->know, document_text(root, "explanation"));
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (!str_is(document_text(root, "schema"), TRY_SCHEMA))
		return false;
	if (!s || !try_holds(root) || !trial_event(out, "trial-explained", &e))
		return true; // it explains nothing
	event_add_text(&e, &a, "suspect", s->head.id);
	event_add_text(&e, &a, "suspect_title", s->title);
	event_add_text(&e, &a, "suspect_explain", s->explain);
	event_add_text(&e, &a, "suspect_next", command_str(command_literal(&a, s->next))); // without its marks
	event_add_text(&e, &a, "failure_class", document_text(failure, "class"));
	event_add_text(&e, &a, "kernel_name", document_text(failure, "kernel"));
	event_add_number(&e, &a, "suspect_percent", (int64_t)(json_number_value(confidence) * 100 + 0.5));
	add_rate(&e, &a, json_object_get(root, "as_it_is"));
	event_add_text(&e, &a, "proof", S("runs with one thing changed point to it"));
	e.text = S("unhang try: explained");
	artefact_tell(out, &e);
	return true;
}

/** `copy<2>`, `copies` or `the host`. */
static struct str party_say(const json_t *op)
{
	const struct str what = document_text(op, "what");
	return str_is(what, "kernel") ? document_text(op, "name") : str_is(what, "copy") ? S("a copy") : S("the host");
}

static bool is_party(const json_t *op) { return json_is_object(op) && party_say(op).n; }

/** A race was seen both ways: with the first of the two late it failed more often than as it is, with the two in order no
 * more; where it still did, bisect says that there is another cause beside it. */
static bool race_holds(const json_t *root)
{
	double runs, failed, late_runs, late_failed, order_runs, order_failed;
	return str_is(document_text(root, "verdict"), "race") && is_party(json_object_get(root, "racer")) &&
	       is_party(json_object_get(root, "victim")) && tally_of(root, "as_it_is", &runs, &failed) &&
	       tally_of(root, "widened", &late_runs, &late_failed) && tally_of(root, "in_order", &order_runs, &order_failed) &&
	       late_failed * runs > failed * late_runs &&
	       (!order_failed || json_is_true(json_object_get(root, "another_cause")));
}

static bool bisect_read(const struct artefact_output *out, const json_t *root)
{
	const json_t *racer = json_object_get(root, "racer"), *victim = json_object_get(root, "victim");
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (!str_is(document_text(root, "schema"), BISECT_SCHEMA))
		return false;
	if (!race_holds(root) || !trial_event(out, "trial-race", &e))
		return true; // it shows no race
	event_add_text(&e, &a, "racer", party_say(racer));
	event_add_text(&e, &a, "victim", party_say(victim));
	event_add_text(&e, &a, "race_pattern", document_text(root, "pattern"));
	for (size_t i = 0; i < out->know->races.len; i++)
		if (str_eq(out->know->races.data[i]->head.id, document_text(root, "pattern")))
			event_add_text(&e, &a, "race_fix", out->know->races.data[i]->fix);
	add_rate(&e, &a, json_object_get(root, "as_it_is"));
	add_rate_of(&e, &a, "race_in_order", json_object_get(root, "in_order"));
	add_rate_of(&e, &a, "race_widened", json_object_get(root, "widened"));
	event_add_text(&e, &a, "proof", S("the two were run in order, and with the first one late"));
	e.text = S("unhang bisect: a race");
	artefact_tell(out, &e);
	return true;
}

/** A launch that fails in the same way standing alone. */
static bool repro_read(const struct artefact_output *out, const json_t *root)
{
	const json_t *tried = json_object_get(root, "tried"), *failure = json_object_get(root, "failure");
	const struct str kind = document_text(failure, "kind"), kernel = document_text(failure, "kernel");
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (!str_is(document_text(root, "schema"), REPRO_SCHEMA))
		return false;
	if (!json_is_true(json_object_get(tried, "alike")) || !kind.n || !kernel.n || !trial_event(out, "trial-repro", &e))
		return true; // it shows nothing
	event_add_text(&e, &a, "repro_kind",
		       str_is(kind, "memory-fault") ? S("a memory fault") :
		       str_is(kind, "hang")         ? S("a hang") :
						      S("an error of its queue"));
	event_add_text(&e, &a, "kernel_name", demangle(&a, kernel));
	event_add_text(&e, &a, "repro_place", document_text(failure, "place"));
	add_number(&e, &a, "trial_runs", json_object_get(tried, "runs"));
	add_number(&e, &a, "repro_launches", json_object_get(tried, "launches_after"));
	e.text = S("unhang repro: fails in the same way, standing alone");
	artefact_tell(out, &e);
	return true;
}

const struct document_reader try_document = { "try", try_read };
const struct document_reader bisect_document = { "bisect", bisect_read };
const struct document_reader repro_document = { "repro", repro_read };
