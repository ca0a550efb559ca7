// Opens a target and hands it to whoever writes about it.
#include "session/look.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/process/target.h"
#include "session/machine.h"
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

struct know *look_knowledge_of(const struct uh_machine *m, struct teller *t)
{
	return m && m->know ? m->know : look_knowledge(t);
}

void look_knowledge_free(const struct uh_machine *m, struct know *k)
{
	if (!m || m->know != k)
		know_free(k);
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

void look_tell_target(struct look *l, const struct teller *t)
{
	struct request queues = { .kind = REQUEST_QUEUES };
	target_ask(l->target, &queues);
	for (size_t i = 0; i < queues.n; i++)
		if (queues.queues[i].problem.n && strcmp(l->target->kind, "process"))
			look_tell(t, queues.queues[i].problem);
	look_tell(t, l->target->problems(l->target));
	look_tell(t, text_str(&l->code.set.problems));
	tell_differences(l, t);
}

void look_find_code(struct waves_seen *seen, struct arena *a)
{
	enum { CONTEXT = 16 };
	struct target_code *code = &seen->look->code;
	struct str *kernels = arena_alloc(a, seen->n * sizeof(*kernels) + 1);
	seen->where = target_code_waves(code, seen->waves, seen->n, CONTEXT);
	for (size_t i = 0; i < seen->n; i++)
		kernels[i] = target_code_kernel_name(code, &seen->waves[i], seen->where[i]);
	seen->kernels = kernels;
}

static void waves_of_core(struct look *l)
{
	struct request r = { .kind = REQUEST_WAVES }, agents = { .kind = REQUEST_AGENTS }, queues = { .kind = REQUEST_QUEUES };
	struct arena a = { 0 };
	target_ask(l->target, &r);
	struct waves_seen seen = { .look = l, .n = r.n, .waves = r.waves };
	look_find_code(&seen, &a);
	target_ask(l->target, &agents);
	target_ask(l->target, &queues);
	seen.agents = agents.agents;
	seen.nagents = agents.n;
	seen.nqueues = queues.n;
	report_waves(&seen, 1, l->options, l->out);
	arena_free(&a);
}

static struct queues_seen queues_of(struct look *l)
{
	struct request agents = { .kind = REQUEST_AGENTS }, queues = { .kind = REQUEST_QUEUES },
		       code = { .kind = REQUEST_CODE };
	if (l->options->json)
		target_ask(l->target, &code); // which tells the version
	target_ask(l->target, &agents);
	target_ask(l->target, &queues);
	return (struct queues_seen){ l, agents.agents, agents.n, queues.queues, queues.n };
}

static void queues_of_core(struct look *l)
{
	const struct queues_seen seen = queues_of(l);
	report_queues(&seen, l->options, l->out);
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
		look_tell_target(&l, &teller);
		target_code_close(&l.code);
		target_close(l.target);
	}
	know_free(k);
	return err;
}

struct uh_error *uh_look_waves(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct machine_options at;
	struct uh_error *err = machine_resolve(o, &at);
	if (!err && at.options.ntargets)
		err = look_at(&at.options, out, problem, ctx, waves_of_core);
	else if (!err)
		err = live_waves(&at.options, out, &teller);
	machine_options_free(&at);
	return err;
}

// --- processes of this machine ---

enum { WATCH_MS = 100, PROCESSES_MOST = 1024 };

/** Waits long enough for a working queue to move, once for all processes, and looks again. */
static void watch(struct tape *tape, struct look *looks, size_t n)
{
	if (n)
		tape_pause(tape, WATCH_MS);
	for (size_t i = 0; i < n; i++)
		process_look_again(looks[i].target);
}

/** Those of one process, or of all. */
struct machine_look {
	const struct uh_look_options *options;
	FILE *out;
	struct teller teller;
	struct know *know;
	struct found_devices found;
	struct kfd kfd;
};

static struct uh_error *look_at_processes(struct machine_look *m, const int64_t *pids, size_t n)
{
	const struct uh_look_options *o = m->options;
	struct code_places places = { .n = o->ncode, .paths = o->code, .tape = m->found.tape };
	_cleanup_free_ struct look *looks = mem_alloc((n + 1) * sizeof(*looks));
	struct uh_error *err = NULL;
	size_t opened = 0;
	for (size_t i = 0; i < n; i++) {
		struct look *l = &looks[opened];
		*l = (struct look){ .know = m->know, .options = o, .out = m->out };
		uh_error_free(err);
		// One that ended meanwhile is no error where all are meant.
		if ((err = target_process_of(m->know, &m->found.devices, &m->kfd, pids[i], &l->target)))
			continue;
		opened++;
	}
	watch(m->found.tape, looks, opened);
	for (size_t i = 0; i < opened; i++)
		target_code_open(&looks[i].code, looks[i].target, &places);
	_cleanup_free_ struct queues_seen *seen = mem_alloc((n + 1) * sizeof(*seen));
	for (size_t i = 0; i < opened; i++)
		seen[i] = queues_of(&looks[i]);
	if (o->ntargets && opened)
		report_queues(seen, o, m->out);
	else if (!o->ntargets)
		report_queues_of_all(seen, opened, &(struct runlists){ m->know, &m->found.devices, &m->kfd }, o, m->out);
	if (opened || !o->ntargets) {
		uh_error_free(err);
		err = NULL;
	}
	for (size_t i = 0; i < opened; i++) {
		look_tell_target(&looks[i], &m->teller);
		target_code_close(&looks[i].code);
		target_close(looks[i].target);
	}
	return err;
}

static struct uh_error *look_at_machine(const struct uh_look_options *o, FILE *out, const struct teller *t, const int64_t *pid)
{
	struct machine_look m = { .options = o, .out = out, .teller = *t };
	m.know = look_knowledge_of(o->machine, &m.teller);
	machine_find(o->machine, m.know, "queues", &m.found);
	kfd_look(&m.found.devices, &m.kfd);
	kfd_look_at_places(&m.kfd, m.know, &m.found.devices);
	kfd_look_at_runlists(&m.kfd);
	struct uh_error *err = NULL;
	if (!m.kfd.there && m.kfd.stuck.is)
		err = uh_error_new(STR_FMT " did not answer, so which processes compute is unknown", STR_ARG(m.kfd.stuck.at));
	else if (!m.kfd.there)
		err = uh_error_new("/sys/class/kfd/kfd/proc: this machine has no AMD GPU for compute, or its driver is not "
				   "loaded; for a core: unhang queues --target gpucore.PID");
	else if (pid)
		err = look_at_processes(&m, pid, 1);
	else
		err = look_at_processes(&m, m.kfd.pids, m.kfd.npids < PROCESSES_MOST ? m.kfd.npids : PROCESSES_MOST);
	if (m.kfd.there && m.kfd.why_not.n && m.kfd.npids)
		look_tell(&m.teller, m.kfd.why_not);
	kfd_free(&m.kfd);
	found_devices_free(&m.found);
	look_knowledge_free(o->machine, m.know);
	return err;
}

struct uh_error *uh_look_queues(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct machine_options at;
	int64_t pid;
	struct uh_error *err = machine_resolve(o, &at);
	o = &at.options;
	bool number = o->ntargets == 1 && str_number(str_z(o->targets[0]), &pid) && pid > 0 && !file_answers(o->targets[0]);
	if (!err && o->ntargets && !number)
		err = look_at(o, out, problem, ctx, queues_of_core);
	else if (!err)
		err = look_at_machine(o, out, &teller, number ? &pid : NULL);
	machine_options_free(&at);
	return err;
}
