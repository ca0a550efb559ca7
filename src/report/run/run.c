// A run, for people and for machines.
#include <signal.h>
#include <string.h>

#include "base/command.h"
#include "base/json.h"
#include "base/print.h"
#include "report/run/run.h"
#include "report/sheet.h"
#include "report/text/wrap.h"

const char *const run_ended_words[] = {
	[RUN_RUNS] = "",
	[RUN_DONE] = "done",
	[RUN_NO_LAUNCH] = "no-launch",
	[RUN_EXIT] = "exit",
	[RUN_SIGNAL] = "signal",
	[RUN_OOM] = "oom",
	[RUN_GPU_FAULT] = "gpu-fault",
	[RUN_GPU_HANG] = "gpu-hang",
	[RUN_RUNTIME_HANG] = "runtime-hang",
	[RUN_SILENT] = "silent",
	[RUN_DEADLINE] = "deadline",
	[RUN_STOPPED] = "stopped",
	[RUN_KILLED] = "killed",
	[RUN_OTHER] = NULL,
};
const char *const run_act_words[] = { [RUN_UNDECIDED] = "", [RUN_RESTART] = "restart", [RUN_STOP] = "stop", NULL };
const char *const run_changes_words[] = {
	[RUN_SAME] = "", [RUN_WITH_AGENT] = "debug-agent", [RUN_ON_REPEAT] = "on-repeat", NULL
};

/** Behind "the job". */
static const char *const ended_say[] = {
	[RUN_RUNS] = "runs",
	[RUN_DONE] = "ended well",
	[RUN_NO_LAUNCH] = "ended with status 0; no launch on a GPU was recorded",
	[RUN_EXIT] = "failed",
	[RUN_SIGNAL] = "was ended by a signal",
	[RUN_OOM] = "was killed because the host's memory ran out",
	[RUN_GPU_FAULT] = "was ended by a fault on the GPU",
	[RUN_GPU_HANG] = "hung on the GPU, and was ended",
	[RUN_RUNTIME_HANG] = "hung inside a call into ROCm's runtime, and was ended",
	[RUN_SILENT] = "was silent for too long, and was ended",
	[RUN_DEADLINE] = "ran into the deadline, and was ended",
	[RUN_STOPPED] = "was stopped by the user or the scheduler",
	[RUN_KILLED] = "was running when unhang was killed",
	[RUN_OTHER] = "ended",
};

const char *run_ended_say(struct str word)
{
	for (size_t n = RUN_DONE; n < RUN_OTHER; n++)
		if (str_is(word, run_ended_words[n]))
			return ended_say[n];
	return ended_say[word.n ? RUN_OTHER : RUN_RUNS];
}

struct str run_failure(const struct run_try *t, struct arena *a)
{
	if (!t || t->ended == RUN_RUNS || t->ended == RUN_DONE)
		return (struct str){ 0 };
	_cleanup_text_ struct text said = { 0 };
	text_printf(&said, "The job %s.", ended_say[t->ended]);
	if (t->title.n)
		text_printf(&said, " " STR_FMT "%s", STR_ARG(t->title), str_ends(t->title, S(".")) ? "" : ".");
	if (t->words.n)
		text_printf(&said, " It said: " STR_FMT "%s", STR_ARG(t->words), str_ends(t->words, S(".")) ? "" : ".");
	if (t->kernel.n)
		text_printf(&said, " Kernel: " STR_FMT ".", STR_ARG(t->kernel));
	const char *signal = t->signal > 0      ? sigabbrev_np((int)t->signal) :
			     t->exit_code > 128 ? sigabbrev_np((int)t->exit_code - 128) :
						  NULL;
	if (t->ended == RUN_RUNTIME_HANG)
		text_printf(&said, " " STR_FMT, STR_ARG(t->because));
	if (signal && t->signal > 0)
		text_printf(&said, " SIG%s ended it.", signal);
	if (t->exit_code > 0)
		text_printf(&said, signal ? " Status %lld: SIG%s ended what it started." : " Status %lld.",
			    (long long)t->exit_code, signal);
	return arena_str(a, text_str(&said));
}

static void put_decision(struct sheet *s, const struct run_try *t)
{
	if (!sheet_object(s, "decision", t->act))
		return;
	sheet_fields(s, { "row", v_known(t->row) }, { "do", v_known(str_of_list(run_act_words, t->act)) },
		     { "level", v_count(t->next_level) }, { "reason", v_known(t->reason) }, { "propose", v_known(t->propose) });
	sheet_close(s, '}');
}

/** The ranks of a job write to one place: each says which it is. */
static void say_headline(FILE *out, const struct run_told *r, const struct run_try *t, size_t width)
{
	_cleanup_text_ struct text said = { 0 };
	text_printf(&said, "Try %lld, level %lld", (long long)t->number, (long long)t->level);
	if (r->rank >= 0 && r->world > 1)
		text_printf(&said, ", rank %lld of %lld", (long long)r->rank, (long long)r->world);
	text_add(&said, S(": "));
	if (t->ran_ms >= 0)
		text_printf(&said, "after %lld.%lld s ", (long long)t->ran_ms / 1000, (long long)(t->ran_ms % 1000) / 100);
	if (t->ended == RUN_DONE && t->findings > 0)
		text_printf(&said, "the job ended with status 0, but the guard found %lld memory error%s.", (long long)t->findings,
			    t->findings == 1 ? "" : "s");
	else
		text_printf(&said, "the job %s.", ended_say[t->ended]);
	print_wrapped(out, text_str(&said), 2, 0, width);
}

static void say_try(struct sheet *s, const struct run_told *r, const struct run_try *t, size_t width)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str none = { 0 };
	const bool found = t->ended == RUN_DONE && t->findings > 0, named = t->guard.n && t->allocated_in.n;
	const struct {
		const char *label;
		struct str value;
	} rows[] = { { "Evidence", found ? none : t->because },
		     { "It said", t->words },
		     { !found ? "Cause" : t->findings > 1 ? "Error 1" : "Error", t->title },
		     { "Found in", t->found_in },
		     { "Allocated", t->allocated_in.n ? arena_printf(&a, "in " STR_FMT, STR_ARG(t->allocated_in)) : none },
		     { "Before it", t->allocated_before },
		     { "Freed", t->freed_in.n ? arena_printf(&a, "in " STR_FMT, STR_ARG(t->freed_in)) : none },
		     { "Beside it", t->beside }, { "Kernel", t->kernel },         { "Address", named ? none : t->place },
		     { "Lacking", t->lacking },  { "Bundle", t->bundle },         { "Ended too", t->left },
		     { "Allocator", t->guard.n || t->findings > 0 ? none : t->allocator }, { "Memory", t->holders },   { "Checkpoint", t->checkpoint }, { "Decision", t->reason },
		     { "Advice", t->propose } };
	if (s->as_json)
		return;
	say_headline(s->json.out, r, t, width);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!rows[i].value.n)
			continue;
		sheet_say(s, "  %-10s  ", rows[i].label);
		_cleanup_text_ struct text safe = { 0 };
		text_add_safe(&safe, rows[i].value);
		if (rows[i].value.p == t->kernel.p && t->launch >= 0)
			text_printf(&safe, ", launch %lld of it", (long long)t->launch);
		if (rows[i].value.p == t->kernel.p && t->rank >= 0)
			text_printf(&safe, ", rank %lld", (long long)t->rank);
		if (rows[i].value.p == t->checkpoint.p && t->lost_ms >= 0)
			text_printf(&safe, ", %lld s of work lost", (long long)t->lost_ms / 1000);
		print_wrapped(s->json.out, text_str(&safe), 14, 14, width);
	}
}

static void put_try(struct sheet *s, const struct run_told *r, const struct run_try *t, size_t width)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str failure = t->ended == RUN_NO_LAUNCH ? (struct str){ 0 } : run_failure(t, &a);
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "number", v_count(t->number) }, { "level", v_count(t->level) }, { "filter", v_known(t->filter) },
		     { "changes", v_known(str_of_list(run_changes_words, t->changes)) }, { "began", v_date(t->began / 1000) },
		     { "ran_ms", v_count(t->ran_ms) });
	sheet_fields(s, { "ended", v_known(str_of_list(run_ended_words, t->ended)) }, { "exit_code", v_count(t->exit_code) },
		     { "signal", v_count(t->signal) }, { "because", v_known(t->because) },
		     { "failure_reason", v_known(failure) }, { "class", v_known(t->class) }, { "title", v_known(t->title) },
		     { "fault", v_known(t->fault) }, { "action", v_known(t->action) }, { "fit", v_known(t->fit) },
		     { "gpu", v_known(t->gpu) }, { "beside", v_known(t->beside) }, { "kernel", v_known(t->kernel) },
		     { "launch", v_count(t->launch) }, { "packet", v_count(t->packet) }, { "place", v_known(t->place) },
		     { "offset", v_known(t->offset) }, { "rank", v_count(t->rank) }, { "pid", v_count(t->pid) },
		     { "fingerprint", v_known(t->fingerprint) }, { "memory_peak", v_count(t->memory_peak) },
		     { "memory_limit", v_count(t->memory_limit) }, { "oom_kills", v_count(t->oom_kills) });
	sheet_fields(s, { "recordings", v_count(t->recordings) }, { "packets", v_count(t->launches) },
		     { "output", v_known(t->output) }, { "words", v_known(t->words) }, { "bundle", v_known(t->bundle) },
		     { "diagnosis", v_known(t->diagnosis) }, { "lacking", v_known(t->lacking) }, { "left", v_known(t->left) },
		     { "allocator", v_known(t->allocator) }, { "findings", v_count(t->findings) }, { "served", v_count(t->served) }, { "allocated_before", v_known(t->allocated_before) },
		     { "guard", v_known(t->guard) }, { "allocation", v_known(t->allocation) }, { "found_in", v_known(t->found_in) },
		     { "allocated_in", v_known(t->allocated_in) }, { "freed_in", v_known(t->freed_in) }, { "holders", v_known(t->holders) }, { "checkpoint", v_known(t->checkpoint) },
		     { "lost_ms", v_count(t->lost_ms) });
	put_decision(s, t);
	say_try(s, r, t, width);
	sheet_close(s, '}');
}

static const struct command *run_all_of_it(struct arena *a, struct str path)
{
	struct command_maker *m = command_begin(a);
	command_add(m, "All of it, with remedies: ");
	command_mark(m);
	command_add(m, "unhang explain ");
	command_add_value(m, PIECE_PATH, path);
	command_mark(m);
	return command_end(m);
}

void report_run(const struct run_told *r, bool json, size_t width, FILE *out)
{
	struct sheet s = sheet_on(json, out);
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "schema", v_word("unhang/run/1") }, { "id", v_text(r->id) },
		     { "state", v_word(r->status < 0 ? "running" : "ended") }, { "status", v_count(r->status) },
		     { "command", v_text(r->command) }, { "host", v_known(r->host) }, { "boot_id", v_known(r->boot_id) },
		     { "pid", v_count(r->pid) }, { "began", v_date(r->began / 1000) }, { "launcher", v_known(r->launcher) },
		     { "job", v_known(r->job) }, { "rank", v_count(r->rank) }, { "world", v_count(r->world) },
		     { "requeues", v_count(r->restarts) }, { "recorder", v_known(r->recorder) },
		     { "directory", v_known(r->directory) }, { "holders_before", v_known(r->before) },
		     { "notes", v_known(r->notes) });
	sheet_open(&s, "tries", '[');
	for (size_t i = 0; i < r->ntries; i++)
		put_try(&s, r, r->tries[i], width ? width : WRAP_WIDTH);
	sheet_close(&s, ']');
	if (!json && r->notes.n)
		print_wrapped(out, r->notes, 0, 0, width ? width : WRAP_WIDTH);
	if (!json)
		sheet_say_safe(&s, "Files: ", r->directory, "\n");
	if (!json) {
		// All that is known of the last failure, remedies too: the bundle has no cores.
		_cleanup_arena_ struct arena a = { 0 };
		const struct run_try *last = r->ntries ? r->tries[r->ntries - 1] : NULL;
		const struct row_style style = { .width = width ? width : WRAP_WIDTH };
		const bool well = last && last->ended == RUN_DONE && last->findings > 0; // which leaves no bundle
		if (last && (last->bundle.n || well))
			wrap_step_row(out, &style, "", run_all_of_it(&a, r->directory));
	}
	sheet_close(&s, '}');
}

// --- for agents: crash_diagnostics.json ---

void report_crash_diagnostics(const struct crash_diagnostics *d, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct sheet s = sheet_on(true, out);
	const struct run_told *r = d->run;
	const struct run_try *last = r->ntries ? r->tries[r->ntries - 1] : NULL;
	const struct str failure = run_failure(last, &a), none = S("");
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "kernel_api_log", v_text(d->log.n ? d->log : none) },
		     { "last_kernel_boundary", v_text(d->boundary.n ? d->boundary : none) });
	sheet_texts(&s, "crash_dumps", d->dumps, d->ndumps);
	sheet_fields(&s, { "gpu_arch", v_text(d->gfx.n ? d->gfx : none) }, { "exit_code", v_int(r->status) },
		     { "failure_reason", v_text(failure.n ? failure : none) }, { "run", v_text(r->id) },
		     { "directory", v_text(r->directory) });
	if (last)
		sheet_fields(&s, { "ended", v_text(str_of_list(run_ended_words, last->ended)) },
			     { "class", v_text(last->class) }, { "fault", v_text(last->fault) },
			     { "kernel", v_text(last->kernel) }, { "fingerprint", v_text(last->fingerprint) },
			     { "words", v_text(last->words) }, { "output", v_text(last->output) },
			     { "last_output", v_text(d->output) }, { "bundle", v_text(last->bundle) },
			     { "diagnosis", v_text(last->diagnosis) });
	sheet_close(&s, '}');
	fputc('\n', out);
}
