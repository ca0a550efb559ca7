#include "report/trial/try.h"

#include <string.h>

#include "base/print.h"
#include "report/text/wrap.h"
#include "report/trial/rates.h"

enum { ROWS_SHOWN = 9, SUSPECTS_SHOWN = 3 };
static const double GONE_ERROR = 0.05;

static const struct know_suspect *suspect_at(const struct try_result *r, size_t i) { return r->model.suspects[i].of; }

static const struct know_experiment *experiment_of(const struct try_told *t, const struct try_question *q)
{
	const struct str family = t->result->model.experiments[q->experiment].family;
	for (size_t i = 0; i < t->know->experiments.len; i++)
		if (str_eq(t->know->experiments.data[i]->head.id, family))
			return t->know->experiments.data[i];
	return NULL;
}

static const char *sure_say(double weight)
{
	return weight >= 0.95 ? "almost certain" : weight >= 0.8 ? "likely" : weight >= 0.6 ? "more likely than not" : "open";
}

/** Without the prior knowledge that it fails: by one run that shows it. */
static const struct try_question *found_by(const struct try_result *r)
{
	for (size_t i = 0; i < r->questions.len; i++)
		if (r->questions.data[i].answer == TRY_FINDS)
			return &r->questions.data[i];
	return NULL;
}

static struct str try_verdict_say(struct arena *a, const struct try_told *t)
{
	const struct try_result *r = t->result;
	// What a run showed is no matter of weights.
	if (t->found.title.n)
		return arena_printf(a, STR_FMT ".", STR_ARG(t->found.title));
	if (t->found.findings)
		return arena_printf(a, "The guard found %lld memory error%s.", (long long)t->found.findings,
				    t->found.findings == 1 ? "" : "s");
	switch (r->verdict) {
	case TRY_EXPLAINED:
		return arena_printf(a, STR_FMT ": %s.", STR_ARG(suspect_at(r, r->leads)->title),
				    sure_say(r->weights[r->leads]));
	case TRY_UNDECIDED:
		return arena_printf(a, "Not decided. The best explanation so far: " STR_FMT ".",
				    STR_ARG(suspect_at(r, r->leads)->title));
	case TRY_NEVER:
		if (t->unused)
			return S("Guard and pool had no allocation of the job to look at.");
		return arena_printf(a, "It did not fail in %u run%s%s.", r->control.runs, r->control.runs == 1 ? "" : "s",
				    r->control.runs > 1 ? ": it fails seldom, or not here" : "");
	case TRY_HIDES:
		return S("It fails, but not while unhang looks. Any small delay hides it.");
	case TRY_NOWHERE:
		return S("No process of this job used the GPU: nothing was recorded. Switches of ROCm cannot change it.");
	case TRY_RARE:
		return rare_say(a, r->control, r->bare, r->low_rate);
	default:
		return S("Not finished.");
	}
}

/** What an answer means, by knowledge. */
static const struct command *answer_means(struct arena *a, const struct try_told *t, const struct try_question *q)
{
	const struct know_experiment *e = experiment_of(t, q);
	const bool fails = t->result->control.failed;
	if (!e)
		return NULL;
	if (t->unused && (e->guard.n || e->pool))
		return COMMAND(a, "No allocation of the job went through the allocator, so this run says nothing about its memory.");
	return trial_step(a, &t->asked,
			  q->answer == TRY_FINDS  ? (fails && e->shows.n ? e->shows : e->exposes) :
			  q->answer == TRY_GONE   ? e->cures :
			  q->answer == TRY_FAILS  ? (fails ? e->fails : e->exposes) :
			  !fails && q->tally.runs ? e->passes :
						    (struct str){ 0 });
}

static const struct command *explain_run(struct arena *a, struct str directory)
{
	struct command_maker *m = command_begin(a);
	command_add(m, "Who allocated it, and where: ");
	command_mark(m);
	command_add(m, "unhang explain -v ");
	command_add_value(m, PIECE_PATH, directory);
	command_mark(m);
	return command_end(m);
}

static struct str try_next_text(const struct try_told *t)
{
	const struct try_result *r = t->result;
	const struct try_question *last = r->questions.len ? &r->questions.data[r->questions.len - 1] : NULL;
	const struct know_experiment *e = last && last->stage == TRY_EXPERIMENT ? experiment_of(t, last) : NULL;
	switch (r->verdict) {
	case TRY_EXPLAINED:
	case TRY_UNDECIDED:
		return suspect_at(r, r->leads)->next;
	case TRY_NEVER:
		if (t->unused)
			return S("Check that the job sees a GPU, allocates with hipMalloc, is not linked statically, and keeps LD_PRELOAD.");
		if (e && e->again.n)
			return e->again;
		return S("Run it where it failed, with the same load beside it; --low-rate names a lower rate.");
	case TRY_NOWHERE:
		return t->failure.lacking.n ? t->failure.lacking :
					      S("Read what the job said. If it uses a GPU in a container or on another host: ``unhang try --unrecorded -- PROGRAM``");
	case TRY_RARE:
		return RARE_NEXT;
	case TRY_HIDES:
		return S("Read the code for launches on several streams that share a buffer without an event between them.");
	default:
		return t->error.n ? (struct str){ 0 } : S("Run the same command again: it goes on where it ended.");
	}
}

static const struct command *try_next_say(struct arena *a, const struct try_told *t)
{
	return t->found.directory.n ? explain_run(a, t->found.directory) : trial_step(a, &t->asked, try_next_text(t));
}

// --- JSON ---

static void put_studied(struct sheet *s, const char *key, const struct try_failure *f)
{
	if (!sheet_object(s, key, f->directory.n))
		return;
	sheet_fields(s, { "class", v_known(f->class) }, { "title", v_known(f->title) }, { "kernel", v_known(f->kernel) },
		     { "place", v_known(f->place) }, { "words", v_known(f->words) }, { "ended", v_known(f->ended) },
		     { "status", v_int(f->status) }, { "findings", v_count(f->findings) },
		     { "allocator", v_known(f->allocator) }, { "directory", v_known(f->directory) });
	sheet_close(s, '}');
}

static void put_experiments(struct sheet *s, struct arena *a, const struct try_told *t)
{
	const struct try_result *r = t->result;
	size_t places[TRY_EXPERIMENTS * 2], n = 0;
	for (size_t i = 0; i < r->questions.len && n < ARRAY_SIZE(places); i++)
		if (r->questions.data[i].stage == TRY_EXPERIMENT)
			places[n++] = i;
	sheet_each (k, s, "experiments", n) {
		const struct try_question *q = &r->questions.data[places[k]];
		const struct try_experiment *e = &r->model.experiments[q->experiment];
		sheet_fields(s, { "id", v_text(e->id) }, { "changed", v_text(e->title) },
			     { "answer", v_word(try_answer_name(q->answer)) },
			     { "error", v_if(q->answer == TRY_GONE, v_decimal(tally_fewer(r->control, q->tally), 4)) },
			     { "expected_bits", v_decimal(q->bits, 3) }, { "means", v_known(command_str(answer_means(a, t, q))) });
		put_tally(s, "rate", q->tally);
	}
}

static void put_suspects(struct sheet *s, const struct try_result *r)
{
	sheet_each (i, s, "explanations", r->modelled ? r->model.nsuspects : 0) {
		const struct know_suspect *of = suspect_at(r, i);
		sheet_fields(s, { "id", v_text(of->head.id) }, { "title", v_text(of->title) }, { "fault", v_text(of->fault) },
			     { "before", v_decimal(r->before[i], 4) }, { "weight", v_decimal(r->weights[i], 4) });
	}
}

static void put_remedies(struct sheet *s, const struct try_result *r, bool holds)
{
	sheet_open(s, "remedies", '[');
	for (const struct know_list *l = holds ? suspect_at(r, r->leads)->remedies : NULL; l; l = l->next)
		jw_str(&s->json, l->text);
	sheet_close(s, ']');
}

static void try_json(const struct try_told *t, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct try_result *r = t->result;
	const bool holds = r->verdict == TRY_EXPLAINED;
	struct sheet s = sheet_on(true, out);
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "schema", v_word("unhang/try/2") }, { "verdict", v_word(try_verdict_name(r->verdict)) },
		     { "title", v_text(try_verdict_say(&a, t)) },
		     { "explanation", v_if(holds, v_text(holds ? suspect_at(r, r->leads)->head.id : S("-"))) },
		     { "confidence", v_if(holds, v_decimal(r->weights[r->leads], 4)) },
		     { "next", v_known(command_str(try_next_say(&a, t))) }, { "said", v_known(t->said) });
	put_remedies(&s, r, holds);
	put_asked(&s, &t->asked);
	put_tally(&s, "as_it_is", r->control);
	put_tally(&s, "without_recorder", r->bare);
	sheet_each (i, &s, "gpus", t->gpus) {
		sheet_fields(&s, { "gpu", v_number(i) });
		put_tally(&s, "rate", r->on_gpu[i]);
	}
	put_studied(&s, "failure", &t->failure);
	put_studied(&s, "found", &t->found);
	put_experiments(&s, &a, t);
	put_suspects(&s, r);
	sheet_open(&s, "left_out", '[');
	for (size_t i = 0; i < t->nleft_out; i++)
		jw_str(&s.json, str_z(t->left_out[i]));
	sheet_close(&s, ']');
	sheet_fields(&s, { "runs", v_number(r->runs) }, { "void_runs", v_number(r->void_runs) }, { "hung", v_number(t->hung) },
		     { "seconds", v_decimal(t->seconds, 1) }, { "resumed", v_bool(t->resumed) },
		     { "directory", v_known(t->directory) }, { "stopped", v_known(t->error.n ? t->error : t->stopped) });
	sheet_close(&s, '}');
	fputc('\n', out);
}

// --- text ---

/** The answer in the words of a reader, the same on the screen and on the page. */
static const char *answer_word(const struct try_result *r, const struct try_question *q)
{
	return q->answer == TRY_GONE && tally_fewer(r->control, q->tally) > GONE_ERROR ? "probably gone" :
										       try_answer_name(q->answer);
}

static struct str experiment_say(struct arena *a, const struct try_experiment *e)
{
	return arena_printf(a, STR_FMT ": " STR_FMT, STR_ARG(e->id), STR_ARG(e->title));
}

static void text_experiments(const struct try_told *t, struct arena *a, const struct row_style *style, FILE *out)
{
	const struct try_result *r = t->result;
	size_t shown = 0, left = 0;
	if (r->control.runs)
		wrap_row(out, style, "As it is", rate_say(a, r->control), 0);
	wrap_row(out, style, "Bare", bare_say(a, r->bare), 0);
	for (unsigned i = 0; i < t->gpus; i++)
		if (r->on_gpu[i].runs)
			wrap_row(out, style, arena_printf(a, "  on GPU %u", i).p, rate_say(a, r->on_gpu[i]), 0);
	for (size_t i = 0; i < r->questions.len; i++) {
		const struct try_question *q = &r->questions.data[i];
		if (q->stage != TRY_EXPERIMENT || !q->tally.runs)
			continue;
		left += shown == ROWS_SHOWN;
		if (shown == ROWS_SHOWN)
			continue;
		shown++;
		wrap_row(out, style, arena_z(a, r->model.experiments[q->experiment].id),
			 q->answer == TRY_FINDS ?
				 arena_printf(a, "%u of %u runs: found", q->tally.failed, q->tally.runs) :
				 arena_printf(a, STR_FMT "%s%s", STR_ARG(rate_say(a, q->tally)),
					      q->answer == TRY_GONE ? ": " : "", q->answer == TRY_GONE ? answer_word(r, q) : ""),
			 0);
	}
	if (left)
		wrap_row(out, style, "", arena_printf(a, "and %zu more that change nothing; --json has them", left), 0);
}

static struct str suspect_brief(const struct know_suspect *s) { return s->brief.n ? s->brief : s->head.id; }

/** What is left beside the one that leads. */
static void text_others(const struct try_result *r, struct arena *a, const struct row_style *style, FILE *out)
{
	struct text t = { 0 };
	double below = 2;
	for (size_t n = 0; n <= SUSPECTS_SHOWN; n++) {
		size_t best = SIZE_MAX;
		for (size_t i = 0; i < r->model.nsuspects; i++)
			if (r->weights[i] < below && (best == SIZE_MAX || r->weights[i] > r->weights[best]))
				best = i;
		if (best == SIZE_MAX || r->weights[best] < 0.02)
			break;
		below = r->weights[best];
		if (best != r->leads)
			text_printf(&t, "%s" STR_FMT " %.0f %%", t.n ? ", " : "", STR_ARG(suspect_brief(suspect_at(r, best))),
				    r->weights[best] * 100);
	}
	wrap_row(out, style, "Weight",
		 arena_printf(a, "%.0f %% (%.0f %% before the runs), by rough estimates", r->weights[r->leads] * 100,
			      r->before[r->leads] * 100),
		 0);
	wrap_row(out, style, "Others", text_str(&t), 0);
	text_free(&t);
}

static void text_found(const struct try_told *t, struct arena *a, const struct row_style *style, FILE *out)
{
	const bool both = t->failure.title.n && t->found.place.n;
	if (t->failure.title.n)
		wrap_row(out, style, "Fails by", t->failure.title, 0);
	else
		wrap_row(out, style, "It said", t->failure.words.n ? t->failure.words : t->said, 0);
	wrap_row(out, style, "Buffer",
		 both ? arena_printf(a, STR_FMT " (in the run that found it; `Fails by` is of an earlier one)", STR_ARG(t->found.place)) :
			t->found.place,
		 0);
}

static void text_remedies(const struct try_told *t, struct arena *a, const struct row_style *style, FILE *out)
{
	const struct try_result *r = t->result;
	for (const struct know_list *l = suspect_at(r, r->leads)->remedies; l; l = l->next)
		wrap_row(out, style, "Remedy",
			 arena_printf(a, STR_FMT " (unhang remedy " STR_FMT ")", STR_ARG(l->text), STR_ARG(l->text)), 0);
}

/** As wide as the longest name of an experiment that was made needs. */
static unsigned label_width(const struct try_result *r)
{
	size_t most = strlen("Not possible here");
	for (size_t i = 0; i < r->questions.len; i++)
		if (r->questions.data[i].key.n > most)
			most = r->questions.data[i].key.n;
	return (unsigned)most + 1;
}

void report_try(const struct try_told *t, bool json, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct try_result *r = t->result;
	const struct try_question *found = found_by(r);
	const struct row_style style = { .left = 2, .label = label_width(r), .width = t->width };
	const bool weighed = r->modelled && (r->verdict == TRY_EXPLAINED || r->verdict == TRY_UNDECIDED);
	if (json) {
		try_json(t, out);
		return;
	}
	print_wrapped(out, try_verdict_say(&a, t), 0, 0, t->width ? t->width : WRAP_WIDTH);
	text_found(t, &a, &style, out);
	text_experiments(t, &a, &style, out);
	const struct try_question *last = found ? found : r->questions.len ? &r->questions.data[r->questions.len - 1] : NULL;
	if (found || (r->model.nexperiments == 1 && last && last->stage == TRY_EXPERIMENT))
		wrap_step_row(out, &style, "Means", answer_means(&a, t, last));
	else if (r->verdict == TRY_EXPLAINED)
		wrap_row(out, &style, "Means", suspect_at(r, r->leads)->explain, 0);
	if (weighed && !found)
		text_others(r, &a, &style, out);
	if (r->verdict == TRY_EXPLAINED)
		text_remedies(t, &a, &style, out);
	wrap_row(out, &style, "Runs", arena_printf(&a, "%u in %.0f s", r->runs, t->seconds), 0);
	struct text absent = { 0 };
	for (size_t i = 0; i < t->nleft_out; i++)
		text_printf(&absent, "%s%s", i ? ", " : "", t->left_out[i]);
	wrap_row(out, &style, "Not possible here", text_str(&absent), 0);
	text_free(&absent);
	wrap_row(out, &style, "Stopped", t->error.n ? t->error : t->stopped, 0);
	wrap_step_row(out, &style, "Next", try_next_say(&a, t));
	wrap_row(out, &style, "Stored", t->directory, 0);
}

static void write_try_text(const void *ctx, FILE *to) { report_try(ctx, false, to); }

void report_try_html(const struct try_told *t, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct html p = { .out = out };
	const struct try_result *r = t->result;
	struct try_told wide = *t;
	wide.width = RATES_WIDTH;
	rates_page_begin(&p, &(struct rates_page){ S("unhang try"), &t->asked, write_try_text, &wide, label_width(r) });
	for (size_t i = 0; i < r->questions.len; i++) {
		const struct try_question *q = &r->questions.data[i];
		const bool experiment = q->stage == TRY_EXPERIMENT;
		if (q->tally.runs)
			rates_page_row(&p,
				       experiment              ? experiment_say(&a, &r->model.experiments[q->experiment]) :
				       q->stage == TRY_CONTROL ? S("as it is") :
								 S("without the recorder"),
				       q->tally, str_z(experiment && q->answer != TRY_OPEN ? answer_word(r, q) : ""));
	}
	rates_page_end(&p);
}

void report_try_plan(const struct try_model *m, double low_rate, double error, FILE *out)
{
	static const double rates[] = { 1, 0.5, 0.2, 0.05 };
	bool finds = m->nexperiments;
	for (size_t i = 0; i < m->nexperiments; i++)
		finds &= m->experiments[i].finds;
	if (finds)
		fprintf(out, "unhang: the plan: 1 run as it is, then %zu with %s; more only if the job fails by itself:\n",
			m->nexperiments, m->nexperiments == 1 ? "the experiment" : "an experiment each");
	else if (m->nexperiments == 1)
		fputs("unhang: the plan: first the job as it is, then 1 experiment\n", out);
	else
		fprintf(out, "unhang: the plan: first the job as it is, then up to %zu experiments, the most telling first\n",
			m->nexperiments);
	for (size_t i = 0; i < ARRAY_SIZE(rates) && rates[i] >= low_rate; i++) {
		struct tally c = { 0 };
		for (double failed = 0; !try_control_done(c, low_rate, error); failed += rates[i])
			c = (struct tally){ c.runs + 1, (unsigned)(failed + rates[i] + 1e-9) };
		fprintf(out, "unhang:   fails in %3.0f %%: %u runs as it is; each `it is gone' needs %u clean runs\n",
			rates[i] * 100, c.runs, clean_needed_after(c, error));
	}
	if (finds)
		return;
	fprintf(out, "unhang:   fewer than %.3g %%: ends after at most %u runs\n", low_rate * 100, rare_runs(low_rate, error));
	fprintf(out, "unhang:   never: ends after %u runs with the recorder and %u without\n", clean_needed(low_rate, error),
		clean_needed(low_rate, error));
}
