#include "session/run/finish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/door/door.h"
#include "base/save.h"
#include "session/run/suspect.h"
#include "session/run/words.h"
#include "watch/hooks.h"

enum { DUMPS_MOST = 5, HOOK_MS = 30000, OUTPUT_MOST = 1 << 20, LAST_LINES = 50 };

struct dumps {
	struct str list[DUMPS_MOST]; // a ring
	size_t n;
};

/** metadata.json of inputs that are whole: DIRECTORY/PID/NUMBER/metadata.json. */
static void find_dumps(struct arena *a, const char *directory, int depth, struct dumps *ret)
{
	struct door_names names = { 0 };
	struct uh_error *err = door_names(&(struct named){ .path = directory }, false, a, &names);
	for (size_t i = 0; !err && i < names.n; i++) {
		const char *path = arena_printf(a, "%s/%s", directory, names.list[i]).p;
		if (depth)
			find_dumps(a, path, depth - 1, ret);
		else if (!strcmp(names.list[i], "metadata.json"))
			ret->list[ret->n++ % DUMPS_MOST] = str_z(path);
	}
	uh_error_free(err);
}

static void write_diagnostics(const struct job_study *s, FILE *to)
{
	struct arena a = { 0 };
	struct suspect_log log;
	struct dumps dumps = { 0 };
	struct str output = { 0 };
	char *p = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&p, &n);
	if (!out)
		return;
	suspect_log(s->recordings, s->of->rank, &a, &log);
	find_dumps(&a, arena_printf(&a, "%s/%lld/inputs", s->directory, (long long)s->of->number).p, 2, &dumps);
	if (s->of->output.n)
		uh_error_free(named_read(&(struct named){ .path = s->of->output.p }, OUTPUT_MOST, &a, &output, NULL));
	const struct crash_diagnostics d = { .run = s->run,
					     .log = log.lines,
					     .boundary = log.last,
					     .gfx = log.gfx,
					     .output = words_tail(output, LAST_LINES),
					     .dumps = dumps.list,
					     .ndumps = dumps.n < DUMPS_MOST ? dumps.n : DUMPS_MOST };
	report_crash_diagnostics(&d, out);
	fclose(out);
	struct uh_error *err = save_check(AT_FDCWD, s->options->crash_diagnostics);
	if (!err)
		err = save_file(AT_FDCWD, s->options->crash_diagnostics, (struct str){ p, n }, 0640);
	if (err)
		fprintf(to, "%s\n", uh_error_message(err));
	uh_error_free(err);
	free(p);
	arena_free(&a);
}

static void run_hooks(const struct job_study *s, FILE *to)
{
	struct arena a = { 0 };
	struct text problems = { 0 };
	const struct run_try *t = s->of;
	char *environment[] = { (char *)arena_printf(&a, "UNHANG_RUN=" STR_FMT, STR_ARG(s->run->id)).p,
				(char *)arena_printf(&a, "UNHANG_ENDED=" STR_FMT, STR_ARG(t->ended)).p,
				(char *)arena_printf(&a, "UNHANG_CLASS=" STR_FMT, STR_ARG(t->class)).p,
				(char *)arena_printf(&a, "UNHANG_TITLE=" STR_FMT, STR_ARG(t->title)).p,
				(char *)arena_printf(&a, "UNHANG_FAULT=" STR_FMT, STR_ARG(t->fault)).p,
				(char *)arena_printf(&a, "UNHANG_DO=" STR_FMT, STR_ARG(t->action)).p,
				(char *)arena_printf(&a, "UNHANG_FIT=" STR_FMT, STR_ARG(t->fit)).p,
				(char *)arena_printf(&a, "UNHANG_GPU=" STR_FMT, STR_ARG(t->gpu)).p,
				(char *)arena_printf(&a, "UNHANG_STATUS=%lld", (long long)s->run->status).p,
				(char *)arena_printf(&a, "UNHANG_DIRECTORY=%s", s->directory).p,
				(char *)arena_printf(&a, "PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin").p,
				NULL };
	const struct hooks_call c = { .directory = s->options->hooks,
				      .input = arena_printf(&a, "%s/report.json", s->directory).p,
				      .environment = environment,
				      .milliseconds = HOOK_MS };
	hooks_run(&c, &problems);
	fprintf(to, STR_FMT, STR_ARG(text_str(&problems)));
	text_free(&problems);
	arena_free(&a);
}

void run_finish(void *ctx, const struct job_study *s, FILE *to)
{
	(void)ctx;
	if (s->options->crash_diagnostics)
		write_diagnostics(s, to);
	if (s->options->hooks)
		run_hooks(s, to);
}
