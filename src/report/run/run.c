// A run, for people and for machines.
#include "report/run/run.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/command.h"
#include "base/print.h"
#include "report/sheet.h"

enum { TIME_ROOM = 32 };

static struct str stamp(char room[static TIME_ROOM], int64_t ms)
{
	const time_t t = (time_t)(ms / 1000);
	struct tm tm;
	if (ms <= 0 || !gmtime_r(&t, &tm))
		return (struct str){ 0 };
	return (struct str){ room, strftime(room, TIME_ROOM, "%Y-%m-%dT%H:%M:%SZ", &tm) };
}

/** How it ended, in words. */
struct ended_words {
	const char *word, *say;
};
static const struct ended_words words[] = {
	{ "done", "ended well" },
	{ "no-launch", "ended with status 0; no launch on a GPU was recorded" },
	{ "exit", "failed" },
	{ "signal", "was ended by a signal" },
	{ "oom", "was killed because the host's memory ran out" },
	{ "gpu-fault", "was ended by a fault on the GPU" },
	{ "gpu-hang", "hung on the GPU, and was ended" },
	{ "runtime-hang", "hung inside a call into ROCm's runtime, and was ended" },
	{ "silent", "was silent for too long, and was ended" },
	{ "deadline", "ran into the deadline, and was ended" },
	{ "stopped", "was stopped by the user or the scheduler" },
	{ "killed", "was running when unhang was killed" },
};

static const char *ended_say(struct str ended)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (str_is(ended, words[i].word))
			return words[i].say;
	return "runs";
}

struct str run_failure(const struct run_try *t, struct arena *a)
{
	if (!t || !t->ended.n || str_is(t->ended, "done"))
		return (struct str){ 0 };
	struct text said = { 0 };
	text_printf(&said, "The job %s.", ended_say(t->ended));
	if (t->title.n)
		text_printf(&said, " " STR_FMT "%s", STR_ARG(t->title), str_ends(t->title, S(".")) ? "" : ".");
	if (t->words.n)
		text_printf(&said, " It said: " STR_FMT "%s", STR_ARG(t->words), str_ends(t->words, S(".")) ? "" : ".");
	if (t->kernel.n)
		text_printf(&said, " Kernel: " STR_FMT ".", STR_ARG(t->kernel));
	const char *signal = t->signal > 0      ? sigabbrev_np((int)t->signal) :
			     t->exit_code > 128 ? sigabbrev_np((int)t->exit_code - 128) :
						  NULL;
	if (str_is(t->ended, "runtime-hang"))
		text_printf(&said, " " STR_FMT, STR_ARG(t->because));
	if (signal && t->signal > 0)
		text_printf(&said, " SIG%s ended it.", signal);
	if (t->exit_code > 0)
		text_printf(&said, signal ? " Status %lld: SIG%s ended what it started." : " Status %lld.",
			    (long long)t->exit_code, signal);
	struct str kept = arena_str(a, text_str(&said));
	text_free(&said);
	return kept;
}

static void put_end(struct sheet *s, const struct run_try *t)
{
	sheet_put(s, "ended", v_known(t->ended));
	sheet_put(s, "exit_code", v_count(t->exit_code));
	sheet_put(s, "signal", v_count(t->signal));
	sheet_put(s, "because", v_known(t->because));
	sheet_put(s, "class", v_known(t->class));
	sheet_put(s, "title", v_known(t->title));
	sheet_put(s, "fault", v_known(t->fault));
	sheet_put(s, "action", v_known(t->action));
	sheet_put(s, "fit", v_known(t->fit));
	sheet_put(s, "gpu", v_known(t->gpu));
	sheet_put(s, "beside", v_known(t->beside));
	sheet_put(s, "kernel", v_known(t->kernel));
	sheet_put(s, "launch", v_count(t->launch));
	sheet_put(s, "packet", v_count(t->packet));
	sheet_put(s, "place", v_known(t->place));
	sheet_put(s, "offset", v_known(t->offset));
	sheet_put(s, "rank", v_count(t->rank));
	sheet_put(s, "pid", v_count(t->pid));
	sheet_put(s, "fingerprint", v_known(t->fingerprint));
	sheet_put(s, "memory_peak", v_count(t->memory_peak));
	sheet_put(s, "memory_limit", v_count(t->memory_limit));
	sheet_put(s, "oom_kills", v_count(t->oom_kills));
}

static void put_saved(struct sheet *s, const struct run_try *t)
{
	sheet_put(s, "recordings", v_count(t->recordings));
	sheet_put(s, "packets", v_count(t->launches));
	sheet_put(s, "output", v_known(t->output));
	sheet_put(s, "words", v_known(t->words));
	sheet_put(s, "bundle", v_known(t->bundle));
	sheet_put(s, "diagnosis", v_known(t->diagnosis));
	sheet_put(s, "lacking", v_known(t->lacking));
	sheet_put(s, "left", v_known(t->left));
	sheet_put(s, "holders", v_known(t->holders));
	sheet_put(s, "checkpoint", v_known(t->checkpoint));
	sheet_put(s, "lost_ms", v_count(t->lost_ms));
}

static void put_decision(struct sheet *s, const struct run_try *t)
{
	if (!sheet_object(s, "decision", t->act.n))
		return;
	sheet_put(s, "row", v_known(t->row));
	sheet_put(s, "do", v_known(t->act));
	sheet_put(s, "level", v_count(t->next_level));
	sheet_put(s, "reason", v_known(t->reason));
	sheet_put(s, "propose", v_known(t->propose));
	sheet_close(s, '}');
}

/** The ranks of a job write to one place: each says which it is. */
static void say_headline(FILE *out, const struct run_told *r, const struct run_try *t, size_t width)
{
	struct text said = { 0 };
	text_printf(&said, "Try %lld, level %lld", (long long)t->number, (long long)t->level);
	if (r->rank >= 0 && r->world > 1)
		text_printf(&said, ", rank %lld of %lld", (long long)r->rank, (long long)r->world);
	text_add(&said, S(": "));
	if (t->ran_ms >= 0)
		text_printf(&said, "after %lld.%lld s ", (long long)t->ran_ms / 1000, (long long)(t->ran_ms % 1000) / 100);
	text_printf(&said, "the job %s.", ended_say(t->ended));
	print_wrapped(out, text_str(&said), 2, 0, width);
	text_free(&said);
}

static void say_try(struct sheet *s, const struct run_told *r, const struct run_try *t, size_t width)
{
	const struct {
		const char *label;
		struct str value;
	} rows[] = { { "Evidence", t->because }, { "It said", t->words },         { "Cause", t->title },
		     { "Beside it", t->beside }, { "Kernel", t->kernel },         { "Address", t->place },
		     { "Lacking", t->lacking },  { "Bundle", t->bundle },         { "Ended too", t->left },
		     { "Memory", t->holders },   { "Checkpoint", t->checkpoint }, { "Decision", t->reason },
		     { "Advice", t->propose } };
	if (s->as_json)
		return;
	say_headline(s->json.out, r, t, width);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!rows[i].value.n)
			continue;
		sheet_say(s, "  %-10s  ", rows[i].label);
		struct text safe = { 0 };
		text_add_safe(&safe, rows[i].value);
		if (rows[i].value.p == t->kernel.p && t->launch >= 0)
			text_printf(&safe, ", launch %lld of it", (long long)t->launch);
		if (rows[i].value.p == t->kernel.p && t->rank >= 0)
			text_printf(&safe, ", rank %lld", (long long)t->rank);
		if (rows[i].value.p == t->checkpoint.p && t->lost_ms >= 0)
			text_printf(&safe, ", %lld s of work lost", (long long)t->lost_ms / 1000);
		print_wrapped(s->json.out, text_str(&safe), 14, 14, width);
		text_free(&safe);
	}
}

static void put_try(struct sheet *s, const struct run_told *r, const struct run_try *t, size_t width)
{
	char began[TIME_ROOM];
	sheet_open(s, NULL, '{');
	sheet_put(s, "number", v_count(t->number));
	sheet_put(s, "level", v_count(t->level));
	sheet_put(s, "filter", v_known(t->filter));
	sheet_put(s, "changes", v_known(t->changes));
	sheet_put(s, "began", v_known(stamp(began, t->began)));
	sheet_put(s, "ran_ms", v_count(t->ran_ms));
	put_end(s, t);
	put_saved(s, t);
	put_decision(s, t);
	say_try(s, r, t, width);
	sheet_close(s, '}');
}

/** All that is known of the last failure, remedies too. */
static void say_explain(struct sheet *s, const struct run_told *r)
{
	const struct run_try *last = r->ntries ? r->tries[r->ntries - 1] : NULL;
	struct text path = { 0 };
	if (last && last->bundle.n) {
		shell_quote(&path, last->bundle);
		sheet_say_safe(s, "All of it, with remedies: unhang explain ", text_str(&path), "\n");
	}
	text_free(&path);
}

void report_run(const struct run_told *r, bool json, size_t width, FILE *out)
{
	struct sheet s = sheet_on(json, out);
	char began[TIME_ROOM];
	sheet_open(&s, NULL, '{');
	sheet_put(&s, "schema", v_word("unhang/run/1"));
	sheet_put(&s, "id", v_text(r->id));
	sheet_put(&s, "state", v_word(r->status < 0 ? "running" : "ended"));
	sheet_put(&s, "status", v_count(r->status));
	sheet_put(&s, "command", v_text(r->command));
	sheet_put(&s, "host", v_known(r->host));
	sheet_put(&s, "boot_id", v_known(r->boot_id));
	sheet_put(&s, "pid", v_count(r->pid));
	sheet_put(&s, "began", v_known(stamp(began, r->began)));
	sheet_put(&s, "launcher", v_known(r->launcher));
	sheet_put(&s, "job", v_known(r->job));
	sheet_put(&s, "rank", v_count(r->rank));
	sheet_put(&s, "world", v_count(r->world));
	sheet_put(&s, "requeues", v_count(r->restarts));
	sheet_put(&s, "recorder", v_known(r->recorder));
	sheet_put(&s, "directory", v_known(r->directory));
	sheet_put(&s, "holders_before", v_known(r->before));
	sheet_put(&s, "notes", v_known(r->notes));
	sheet_open(&s, "tries", '[');
	for (size_t i = 0; i < r->ntries; i++)
		put_try(&s, r, r->tries[i], width ? width : WRAP_WIDTH);
	sheet_close(&s, ']');
	if (!json && r->notes.n)
		print_wrapped(out, r->notes, 0, 0, width ? width : WRAP_WIDTH);
	if (!json)
		sheet_say_safe(&s, "Files: ", r->directory, "\n");
	if (!json)
		say_explain(&s, r);
	sheet_close(&s, '}');
}
