// unhang repro: finds the recording or core, has the program made and tried, and tells of it.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "evidence/waves/gpu_core.h"
#include "gpu/target.h"
#include "job/repro/make.h"
#include "session/look.h"
#include "source/source.h"

enum { HEAD = 64, READ_PIECE = 1 << 20 };

/** What was found below the path that was named. */
struct repro_found {
	struct flight_recording *recording; // the one whose program failed first
	struct repro_failure failure;       // of it
	bool failed;
	struct arena arena;
	struct core_source core;
	bool has_core;
	struct target *target; // of the core; NULL: it was not needed
	size_t recordings;
	struct teller teller;
};

static bool take_bytes(struct source *s, struct text *to, size_t upto, struct uh_error **ret_err)
{
	while (to->n < upto) {
		const size_t more = upto - to->n < READ_PIECE ? upto - to->n : READ_PIECE;
		const ssize_t n = s->read(s, text_room(to, more), more, ret_err);
		if (n <= 0)
			return !n;
		to->n += (size_t)n;
	}
	return true;
}

static void found_recording(struct repro_found *f, struct source *s, struct text *bytes)
{
	struct flight_recording *r = NULL;
	struct repro_failure failure;
	struct accused is, was;
	struct uh_error *err = recording_parse(s->name, bytes->p, bytes->n, &r); // which frees the bytes
	*bytes = (struct text){ 0 };
	f->recordings++;
	if (err) {
		f->teller.problem(f->teller.ctx, uh_error_message(err));
		uh_error_free(err);
		return;
	}
	const bool failed = repro_failure_of(r, &f->arena, &failure);
	bool better = !f->recording || (failed && !f->failed);
	if (f->recording && failed && f->failed && recording_accuse(r, &is) && recording_accuse(f->recording, &was))
		better = recording_time(r, is.since) < recording_time(f->recording, was.since);
	if (!better) {
		recording_free(r);
		return;
	}
	recording_free(f->recording);
	f->recording = r;
	f->failed = failed;
}

/** As source_visitor.visit(). */
static void repro_visit(void *ctx, struct source *s)
{
	struct repro_found *f = ctx;
	struct uh_error *err = NULL;
	struct text bytes = { 0 };
	const bool read = take_bytes(s, &bytes, HEAD, &err);
	const bool recording = read && recording_begins(text_str(&bytes));
	const bool core = read && !recording && core_begins(text_str(&bytes)) && !f->has_core;
	if (recording && take_bytes(s, &bytes, RECORDING_MOST, &err)) {
		found_recording(f, s, &bytes);
	} else if (core && (s->door || take_bytes(s, &bytes, RECORDING_MOST, &err))) {
		err = core_source_keep(s, &bytes, &f->core);
		f->has_core = !err && f->core.has_gpu;
		if (!err && !s->door)
			bytes = (struct text){ 0 };
		if (!err && !f->has_core)
			core_source_free(&f->core);
	}
	if (err)
		f->teller.problem(f->teller.ctx, uh_error_message(err));
	uh_error_free(err);
	text_free(&bytes);
}

static void repro_problem(void *ctx, struct uh_error *err)
{
	struct repro_found *f = ctx;
	f->teller.problem(f->teller.ctx, uh_error_message(err));
	uh_error_free(err);
}

/** Takes the inputs of the recording's process from @directory, or from what is below it for that process; NULL: there are none. */
static const char *inputs_in(struct repro_making *m, struct arena *a, const char *directory)
{
	const char *tried[] = { directory, arena_printf(a, "%s/%u", directory, m->r->header.pid).p };
	for (size_t i = 0; i < ARRAY_SIZE(tried); i++) {
		m->inputs = inputs_read(a, tried[i], m->r->header.pid, &m->ninputs);
		if (m->ninputs)
			return tried[i];
	}
	return NULL;
}

/** The same of the tries of a run that was moved. */
static const char *inputs_of_tries(struct repro_making *m, struct arena *a, const char *run)
{
	struct door_names names = { 0 };
	door_forget(door_names(&(struct named){ .path = run }, true, a, &names));
	for (size_t i = 0; i < names.n; i++) {
		const char *found = char_digit(names.list[i][0]) ?
					    inputs_in(m, a, arena_printf(a, "%s/%s/inputs", run, names.list[i]).p) :
					    NULL;
		if (found)
			return found;
	}
	return NULL;
}

/** Where level 10 saved the inputs: as the user says, or as the recording does; a relative path is one of the job, or beside the recording. */
static struct uh_error *find_inputs(struct repro_making *m, struct arena *a)
{
	const struct uh_repro_options *o = m->options;
	const struct str told =
		str_cut(str_z(arena_z(a, (struct str){ m->r->header.dumps, sizeof(m->r->header.dumps) })), PATH_MAX);
	const char *slash = strrchr(o->target, '/');
	const char *beside = slash ? arena_z(a, (struct str){ o->target, (size_t)(slash - o->target) }) : ".";
	const char *tried[] = { told.n ? told.p : NULL, arena_printf(a, "%s/" STR_FMT, beside, STR_ARG(told)).p,
				arena_printf(a, "%s/inputs", o->target).p, arena_printf(a, "%s/inputs", beside).p };
	if (o->inputs) {
		m->dumps = inputs_in(m, a, o->inputs);
		return m->dumps ? NULL : uh_error_new("no inputs of process %u in %s", m->r->header.pid, o->inputs);
	}
	for (size_t i = 0; i < ARRAY_SIZE(tried) && !m->dumps; i++)
		m->dumps = tried[i] ? inputs_in(m, a, tried[i]) : NULL;
	if (!m->dumps)
		m->dumps = inputs_of_tries(m, a, o->target);
	if (!m->dumps && told.n)
		m->dumps = told.p;
	return NULL;
}

static struct uh_error *repro_plan(struct repro_making *m, struct repro_found *f, const struct know *k)
{
	struct uh_error *err = NULL;
	struct core core = f->core.core;
	f->core.core = (struct core){ 0 };
	if (f->has_core)
		err = target_parsed_core(k, &core, &f->target);
	if (f->recording) {
		uh_error_free(err); // it does without a core
		m->r = f->recording;
		err = find_inputs(m, m->plan->arena);
	}
	err = err ? err : f->recording ? repro_from_recording(m) : repro_from_core(m, f->target);
	if (!err && f->target)
		repro_place_of_core(m, k, f->target);
	return err;
}

static const struct command *next_step(struct arena *a, struct str directory)
{
	struct command_maker *m = command_begin(a);
	command_mark(m);
	command_add(m, "cd ");
	command_add_value(m, PIECE_PATH, directory);
	command_add(m, " && make && ./repro");
	command_mark(m);
	return command_end(m);
}

static struct uh_error *repro_finish(struct repro_plan *p, const struct uh_repro_options *o)
{
	_cleanup_close_ int dir = -1;
	struct uh_error *err = repro_directory(o->directory, &dir);
	err = err ? err : repro_save(p, dir);
	if (err || !(o->check || o->shrink))
		return err;
	err = repro_try_apart(p, o, dir);
	return err ? err : repro_save(p, dir);
}

struct uh_error *uh_repro(const struct uh_repro_options *o, FILE *out, uh_problem_fn *problem, void *ctx, bool *ret_alike)
{
	const struct teller teller = { problem, ctx };
	_cleanup_know_ struct know *know = look_knowledge(teller);
	_cleanup_arena_ struct arena arena = { 0 };
	struct repro_found f = { .teller = teller };
	const struct source_visitor v = { .visit = repro_visit, .problem = repro_problem, .ctx = &f };
	struct repro_plan p = { .arena = &arena,
				.source = str_z(o->target),
				.directory = str_z(o->directory),
				.redacted = o->redact,
				.user_data = o->user_data,
				.next = next_step(&arena, str_z(o->directory)) };
	const struct code_places places = { .n = o->ncode, .paths = o->code, .beside = str_z(o->target) };
	struct repro_making m = { .plan = &p, .options = o, .places = &places };
	source_path(o->target, &v);
	struct uh_error *err = f.recording || f.has_core ? repro_plan(&m, &f, know) :
							   uh_error_new("there is no recording and no GPU core in it");
	if (err) {
		struct uh_error *named = uh_error_new("%s: %s", o->target, uh_error_message(err));
		uh_error_free(err);
		err = named;
	}
	err = err ? err : repro_finish(&p, o);
	if (!err)
		report_repro(&p, o->json, out);
	*ret_alike = !p.tried.asked || p.tried.alike;
	recording_free(f.recording);
	target_close(f.target);
	if (f.has_core)
		core_source_free(&f.core);
	arena_free(&f.arena);
	vec_free(&m.allocations);
	vec_free(&m.code);
	repro_plan_free(&p);
	return err;
}
