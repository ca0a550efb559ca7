#include "report/trial/bisect.h"

#include "base/print.h"
#include "report/text/wrap.h"
#include "report/trial/rates.h"

enum { QUESTIONS_SHOWN = 6 };

// --- the pair ---

static const struct bisect_op *op_at(const struct bisect_result *r, size_t i) { return &r->launches.ops.data[i]; }

/** Who only reads is the one that is disturbed. Where both write, the earlier one's data are lost. */
size_t bisect_victim(const struct bisect_result *r)
{
	if (op_at(r, r->pair.late)->place == PLACE_HOST)
		return r->pair.early;
	return r->pair.early_writes && !r->pair.late_writes ? r->pair.late : r->pair.early;
}

size_t bisect_racer(const struct bisect_result *r) { return bisect_victim(r) == r->pair.early ? r->pair.late : r->pair.early; }

const char *bisect_pattern(const struct bisect_result *r)
{
	const struct bisect_pair *p = &r->pair;
	const int early = op_at(r, p->early)->place, late = op_at(r, p->late)->place;
	if (late == PLACE_HOST)
		return p->early_writes ? "host-reads-early" : "host-writes-early";
	if (early == PLACE_COPIES || late == PLACE_COPIES)
		return "copy-without-event";
	return p->early_writes && p->late_writes ? "shared-workspace" : p->early_writes ? "late-read" : "reused-buffer";
}

/** The functions that launch one of the two. */
static struct str launched_in(const struct bisect_result *r, size_t op)
{
	return op == r->pair.early ? r->pair.early_launch.in : r->pair.late_launch.in;
}

static struct str op_say(struct arena *a, const struct bisect_op *o)
{
	return o->place == PLACE_HOST   ? S("the host") :
	       o->place == PLACE_COPIES ? S("a copy") :
					  arena_printf(a, STR_FMT " (queue %d)", STR_ARG(o->plain), o->place);
}

static struct str verdict_say(struct arena *a, const struct bisect_result *r)
{
	const struct tally c = r->control;
	switch (r->verdict) {
	case BISECT_RACE:
		return arena_printf(a, "Two launches race: " STR_FMT " disturbs " STR_FMT ".",
				    STR_ARG(op_say(a, op_at(r, bisect_racer(r)))),
				    STR_ARG(op_say(a, op_at(r, bisect_victim(r)))));
	case BISECT_NO_RACE:
		return c.failed == c.runs ?
			       S("It always fails, also when each launch waits for all before it: no race between launches.") :
			       S("No race between launches: it fails as well when each launch waits for all before it.");
	case BISECT_NOWHERE:
		return S("Cannot be done: this job ran nothing on a GPU that the recorder saw.");
	case BISECT_NEVER:
		return arena_printf(a, "It did not fail in %u runs: it fails in fewer than %.3g %% of them, or not here.",
				    c.runs, r->low_rate * 100);
	case BISECT_HIDES:
		return S("Unresolved: it fails, but not while unhang looks. Any small delay hides it.");
	case BISECT_RARE:
		return rare_say(a, c, r->bare, r->low_rate);
	case BISECT_CHANGED:
		return CHANGED_SAYS;
	case BISECT_UNSHOWN:
		return S("Unresolved: it vanishes when each launch waits for all before it, but no pair could be shown.");
	default:
		return r->paired ? S("Not finished. A pair was found, and is not confirmed yet.") : S("Not finished.");
	}
}

static struct str bisect_next_text(const struct bisect_told *t)
{
	const struct bisect_result *r = t->result;
	switch (r->verdict) {
	case BISECT_NO_RACE:
		return S("Look for other causes: ``unhang try -- PROGRAM``. Races inside of one kernel (LDS, barriers, atomics) are "
			 "not looked for here: AMD's ConSan finds those.");
	case BISECT_NOWHERE:
		return S("Read what the job said. If it uses a GPU, its process did not load the recorder: it is linked statically, "
			 "lost HSA_TOOLS_LIB, or runs in a container or on another host. Then run unhang there.");
	case BISECT_NEVER:
		return S("Run it where it failed, with the same load beside it; or let --low-rate name a lower rate.");
	case BISECT_RARE:
		return RARE_NEXT;
	case BISECT_HIDES:
		return S("Read the code for launches on several streams that share a buffer without an event between them.");
	case BISECT_CHANGED:
		return CHANGED_NEXT;
	case BISECT_UNSHOWN:
		return S(
			"Suspect launches on different queues that share a buffer (unhang last --all). A kernel that waits for "
			"others was left out, or its arguments were not recorded.");
	case BISECT_RACE:
		return S("Repair it, then run the same command again: the job must not fail any more.");
	default:
		return t->error.n ? (struct str){ 0 } : S("Run the same command again: it goes on where it ended.");
	}
}

static const struct command *next_say(struct arena *a, const struct bisect_told *t)
{
	return trial_step(a, &t->asked, bisect_next_text(t));
}

// --- JSON ---

static void put_op(struct sheet *s, const char *key, const struct bisect_op *o, struct str in)
{
	static const char *const kinds[] = { "kernel", "copy", "host" };
	const int kind = o && o->place == PLACE_HOST ? 2 : o && o->place == PLACE_COPIES ? 1 : 0;
	if (!sheet_object(s, key, o))
		return;
	sheet_fields(s, { "what", v_word(kinds[kind]) }, { "kernel", v_known(o->name) },
		     { "name", v_if(!kind, v_text(o->plain)) }, { "queue", v_if(!kind, v_int(o->place)) },
		     { "launches", v_if(kind < 2, v_number(o->launches)) }, { "launched_in", v_known(in) });
	sheet_close(s, '}');
}

static void put_pair(struct sheet *s, const struct bisect_told *t)
{
	const struct bisect_result *r = t->result;
	const struct bisect_buffer *b = &r->pair.buffer;
	const struct {
		const char *key;
		size_t op;
	} parties[] = { { "racer", r->paired ? bisect_racer(r) : 0 },
			{ "victim", r->paired ? bisect_victim(r) : 0 },
			{ "first", r->pair.early },
			{ "second", r->pair.late } };
	for (size_t i = 0; i < ARRAY_SIZE(parties); i++)
		put_op(s, parties[i].key, r->paired ? op_at(r, parties[i].op) : NULL, launched_in(r, parties[i].op));
	sheet_put(s, "pattern", v_if(r->paired, v_word(r->paired ? bisect_pattern(r) : "")));
	if (sheet_object(s, "buffer", r->paired && b->size)) {
		sheet_fields(s, { "address", v_hex(b->begin) }, { "bytes", v_number(b->size) }, { "offset", v_number(b->from) },
			     { "made_by", v_known(b->made) }, { "made_in", v_known(b->in) },
			     { "host_memory", v_bool(b->host) });
		sheet_close(s, '}');
	}
	put_tally(s, "as_it_is", r->control);
	put_tally(s, "without_recorder", r->bare);
	put_tally(s, "widened", r->paired ? r->widened : (struct tally){ 0 });
	put_tally(s, "in_order", r->paired ? r->fixed : (struct tally){ 0 });
	sheet_put(s, "another_cause", v_if(r->paired && r->fixed.runs, v_bool(r->part)));
	sheet_put(s, "fix", v_if(t->repair, v_known(t->repair ? t->repair->fix : (struct str){ 0 })));
	sheet_put(s, "fix_source", v_if(t->repair, v_known(t->repair ? t->repair->source : (struct str){ 0 })));
}

static void put_questions(struct sheet *s, const struct bisect_result *r)
{
	static const char *const stages[] = { "control", "bare", "serial", "delay", "pair", "widen", "confirm" };
	static const char *const answers[] = { "open", "yes", "no" };
	sheet_each (i, s, "questions", r->questions.len) {
		const struct bisect_question *q = &r->questions.data[i];
		sheet_fields(s, { "stage", v_word(stages[q->stage]) }, { "about", v_text(q->words) },
			     { "answer", v_if(q->stage != STAGE_CONTROL, v_word(answers[q->answer])) },
			     { "error", v_if(q->stage >= STAGE_SERIAL, v_decimal(q->error, 5)) });
		put_tally(s, "runs", q->tally);
	}
}

static void put_left_out(struct sheet *s, const struct bisect_launches *l)
{
	sheet_open(s, "left_out", '[');
	for (size_t i = 0; s->as_json && i < l->ops.len; i++)
		if (l->ops.data[i].left_out)
			jw_str(&s->json, l->ops.data[i].plain);
	sheet_close(s, ']');
}

static void bisect_json(const struct bisect_told *t, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct bisect_result *r = t->result;
	struct sheet s = sheet_on(true, out);
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "schema", v_word("unhang/bisect/1") }, { "verdict", v_word(bisect_verdict_name(r->verdict)) },
		     { "title", v_text(verdict_say(&a, r)) }, { "next", v_known(command_str(next_say(&a, t))) },
		     { "said", v_known(t->said) });
	put_asked(&s, &t->asked);
	put_pair(&s, t);
	sheet_fields(&s, { "runs", v_number(r->runs) }, { "void_runs", v_number(r->void_runs) }, { "hung", v_number(t->hung) },
		     { "one_at_a_time", v_if(r->one_at_a_time, v_number(r->one_at_a_time)) },
		     { "launches", v_if(r->launches.launches, v_number(r->launches.launches)) },
		     { "queues", v_if(r->launches.queues, v_number(r->launches.queues)) },
		     { "seconds", v_decimal(t->seconds, 1) }, { "resumed", v_bool(t->resumed) },
		     { "directory", v_known(t->directory) }, { "stopped", v_known(t->error.n ? t->error : t->stopped) });
	put_left_out(&s, &r->launches);
	put_questions(&s, r);
	sheet_close(&s, '}');
	fputc('\n', out);
}

// --- text ---

static struct str party_row(struct arena *a, const struct bisect_result *r, size_t op)
{
	const struct str in = launched_in(r, op);
	return arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(op_say(a, op_at(r, op))), in.n ? ", launched in " : "",
			    STR_ARG(in));
}

/** A thread says little where the functions are known; an operation of a framework says more. */
static struct str buffer_row(struct arena *a, const struct bisect_buffer *b)
{
	const bool by = b->made.n && !(b->in.n && str_starts(b->made, S("thread ")));
	return arena_printf(a, "%llu bytes at 0x%llx%s, from byte %llu on%s%s" STR_FMT "%s" STR_FMT,
			    (unsigned long long)b->size, (unsigned long long)b->begin, b->host ? " (host memory)" : "",
			    (unsigned long long)b->from, b->in.n || by ? "; allocated" : "", b->in.n ? " in " : "",
			    STR_ARG(b->in), by ? " by " : "", STR_ARG(by ? b->made : (struct str){ 0 }));
}

static void text_pair(const struct bisect_told *t, struct arena *a, const struct row_style *style, FILE *out)
{
	const struct bisect_result *r = t->result;
	const struct bisect_pair *p = &r->pair;
	const struct bisect_op *first = op_at(r, p->early), *second = op_at(r, p->late);
	const struct bisect_buffer *b = &p->buffer;
	wrap_row(out, style, "Racer", party_row(a, r, bisect_racer(r)), 0);
	wrap_row(out, style, "Victim", party_row(a, r, bisect_victim(r)), 0);
	if (b->size)
		wrap_row(out, style, "Buffer", buffer_row(a, b), 0);
	wrap_row(out, style, "Works",
		 arena_printf(a, STR_FMT " ends, then " STR_FMT, STR_ARG(op_say(a, first)), STR_ARG(op_say(a, second))), 0);
	wrap_row(out, style, "Fails",
		 arena_printf(a, STR_FMT " comes before " STR_FMT " has ended", STR_ARG(op_say(a, second)),
			      STR_ARG(op_say(a, first))),
		 0);
}

static void text_numbers(const struct bisect_result *r, struct arena *a, const struct row_style *style, FILE *out)
{
	wrap_row(out, style, "As it is", rate_say(a, r->control), 0);
	wrap_row(out, style, "Bare", bare_say(a, r->bare), 0);
	if (r->paired && r->widened.runs)
		wrap_row(out, style, "Widened",
			 arena_printf(a, STR_FMT ", with " STR_FMT " made late", STR_ARG(rate_say(a, r->widened)),
				      STR_ARG(op_say(a, op_at(r, r->pair.early)))),
			 0);
	if (r->paired && r->fixed.runs)
		wrap_row(out, style, "In order",
			 arena_printf(a, STR_FMT "%s", STR_ARG(rate_say(a, r->fixed)),
				      r->part ? ": there is another cause besides" : ""),
			 0);
	for (size_t i = 0; !r->paired && i < r->questions.len; i++)
		if (r->questions.data[i].stage == STAGE_SERIAL && r->questions.data[i].tally.runs)
			wrap_row(out, style, "Serial", rate_say(a, r->questions.data[i].tally), 0);
}

void report_bisect(const struct bisect_told *t, bool json, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct bisect_result *r = t->result;
	const struct row_style style = { .left = 2, .label = BISECT_LABEL, .width = t->width };
	if (json) {
		bisect_json(t, out);
		return;
	}
	print_wrapped(out, verdict_say(&a, r), 0, 0, t->width ? t->width : WRAP_WIDTH);
	if (r->paired)
		text_pair(t, &a, &style, out);
	text_numbers(r, &a, &style, out);
	wrap_row(out, &style, "Runs", arena_printf(&a, "%u in %.0f s", r->runs, t->seconds), 0);
	if (r->void_runs)
		wrap_row(out, &style, "Void",
			 arena_printf(&a, "%u runs did not count: kernels waited for each other", r->void_runs), 0);
	for (size_t i = 0; i < r->launches.ops.len; i++)
		if (r->launches.ops.data[i].left_out)
			wrap_row(out, &style, "Left out",
				 arena_printf(&a, STR_FMT ": it waits for other kernels",
					      STR_ARG(r->launches.ops.data[i].plain)),
				 0);
	if (t->repair && r->verdict == BISECT_RACE) {
		wrap_row(out, &style, "Fix", t->repair->fix, 0);
		wrap_row(out, &style, "Not", t->repair->not_fix, 0);
	}
	wrap_row(out, &style, "It said", t->said, 0);
	wrap_row(out, &style, "Stopped", t->error.n ? t->error : t->stopped, 0);
	wrap_step_row(out, &style, "Next", next_say(&a, t));
	wrap_row(out, &style, "Stored", t->directory, 0);
}

void report_bisect_plan(double low_rate, double error, unsigned jobs, FILE *out)
{
	static const double rates[] = { 0.5, 0.2, 0.05 };
	fprintf(out, "unhang: the plan, by how often the job fails%s:\n", jobs > 1 ? " (several runs at a time)" : "");
	for (size_t i = 0; i < ARRAY_SIZE(rates) && (!i || rates[i] >= low_rate); i++) {
		const struct bisect_plan p = bisect_plan_at(rates[i], error);
		fprintf(out, "unhang:   %2.0f %%: each `it is gone' needs %u clean runs; about %u runs in all\n",
			rates[i] * 100, p.clean, p.all);
	}
	fprintf(out, "unhang:   fewer than %.3g %%: ends after at most %u runs\n", low_rate * 100, rare_runs(low_rate, error));
	fprintf(out, "unhang:   never: ends after %u runs with the recorder and %u without\n", clean_needed(low_rate, error),
		clean_needed(low_rate, error));
}
