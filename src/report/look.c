// Opens a target and hands it to whoever writes about it.
#include "report/look.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "source/file.h"

static void tell(const struct teller *t, const char *message)
{
	if (t->problem)
		t->problem(t->ctx, message);
}

void look_tell(const struct teller *t, struct str text)
{
	while (text.n) {
		const struct str line = str_split(&text, '\n');
		struct text z = { 0 };
		text_printf(&z, STR_FMT, STR_ARG(line));
		if (line.n)
			tell(t, z.p);
		text_free(&z);
	}
}

static void tell_knowledge(void *ctx, const char *file, unsigned line, const char *message)
{
	struct text full = { 0 };
	text_printf(&full, "%s:%u: %s", file, line, message);
	tell(ctx, full.p);
	text_free(&full);
}

struct know *look_knowledge(struct teller *t)
{
	struct know_problems problems = { .report = tell_knowledge, .ctx = t };
	return know_load(&problems);
}

// --- targets ---

static struct uh_error *open_target(const struct know *k, const struct uh_look_options *o, struct target **ret)
{
	struct file files[8];
	size_t n = 0;
	struct uh_error *err = NULL;
	if (o->ntargets > sizeof(files) / sizeof(files[0]))
		return uh_error_new("more than %zu files as one target", sizeof(files) / sizeof(files[0]));
	while (n < o->ntargets && !(err = file_open(o->targets[n], &files[n])))
		n++;
	if (!err)
		return target_core(k, files, n, ret);
	while (n--)
		file_close(&files[n]);
	return err;
}

static void tell_differences(const struct look *l, const struct teller *t)
{
	for (size_t i = 0; i < l->code.differences.len; i++) {
		struct text line = { 0 };
		code_difference_say(&l->code.differences.data[i], &line);
		tell(t, line.p);
		text_free(&line);
	}
}

static struct uh_error *look_at(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx,
				void (*report)(struct look *l))
{
	struct teller teller = { problem, ctx };
	struct know *k = look_knowledge(&teller);
	struct look l = { .know = k, .options = o, .out = out };
	struct uh_error *err = open_target(k, o, &l.target);
	if (!err) {
		struct code_places places = { .n = o->ncode, .paths = o->code, .beside = str_z(o->targets[0]) };
		target_code_open(&l.code, l.target, &places);
		report(&l);
		struct request queues = { .kind = REQUEST_QUEUES };
		target_ask(l.target, &queues);
		for (size_t i = 0; i < queues.n; i++)
			if (queues.queues[i].problem.n)
				look_tell(&teller, queues.queues[i].problem);
		look_tell(&teller, l.target->problems(l.target));
		look_tell(&teller, text_str(&l.code.set.problems));
		tell_differences(&l, &teller);
		target_code_close(&l.code);
		target_close(l.target);
	}
	know_free(k);
	return err;
}

struct uh_error *uh_look_waves(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	return look_at(o, out, problem, ctx, report_waves);
}

struct uh_error *uh_look_queues(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	return look_at(o, out, problem, ctx, report_queues);
}
