// Opens a target and hands it to whoever writes about it.
#include "session/look.h"

#include "gpu/find/clients.h"
#include "gpu/process/target.h"
#include "source/file.h"

static void tell_problem(const struct teller *t, const char *message)
{
	if (t->problem)
		t->problem(t->ctx, message);
}

void look_tell(const struct teller *t, struct str text)
{
	while (text.n) {
		const struct str line = str_split(&text, '\n');
		_cleanup_text_ struct text z = { 0 };
		text_printf(&z, STR_FMT, STR_ARG(line));
		if (line.n)
			tell_problem(t, z.p);
	}
}

static void tell_knowledge(void *ctx, const char *file, unsigned line, const char *message)
{
	_cleanup_text_ struct text full = { 0 };
	text_printf(&full, "%s:%u: %s", file, line, message);
	tell_problem(ctx, full.p);
}

struct know_problems knowledge_problems(const struct teller *t)
{
	return (struct know_problems){ .report = tell_knowledge, .ctx = (void *)t };
}

struct know *look_knowledge(struct teller t)
{
	struct know_problems problems = knowledge_problems(&t);
	return know_load(&problems);
}

struct know *look_knowledge_of(const struct uh_machine *m, struct teller t)
{
	return m && m->know ? m->know : look_knowledge(t);
}

void look_knowledge_free(const struct uh_machine *m, struct know *k)
{
	if (!m || m->know != k)
		know_free(k);
}

struct uh_error *looking_begin(struct looking *l, const struct uh_look_options *o, FILE *out, struct teller teller)
{
	struct uh_error *err = NULL;
	size_t n = 0;
	*l = (struct looking){ .options = *o, .out = out, .teller = teller };
	for (size_t i = 0; i < o->ntargets && !err && n < ARRAY_SIZE(l->targets); i++) {
		struct uh_machine *m = NULL;
		if (!o->machine && !l->opened)
			err = uh_machine_open(o->targets[i], &m);
		if (m)
			l->opened = m;
		else
			l->targets[n++] = o->targets[i];
	}
	if (l->opened) {
		l->options.machine = l->opened;
		l->options.targets = l->targets;
		l->options.ntargets = n;
	}
	l->know = err ? NULL : look_knowledge_of(l->options.machine, l->teller);
	return err;
}

void looking_end(struct looking *l)
{
	look_knowledge_free(l->options.machine, l->know);
	uh_machine_free(l->opened);
}

// --- targets that are files ---

/** Several files may be one target: the core of a process and those of its GPUs. */
static struct uh_error *open_target(const struct looking *l, struct target **ret)
{
	const struct uh_look_options *o = &l->options;
	struct file files[8];
	size_t n = 0;
	struct uh_error *err = NULL;
	if (o->ntargets > ARRAY_SIZE(files))
		return uh_error_new("more than %zu files as one target", ARRAY_SIZE(files));
	while (n < o->ntargets && !(err = file_open(o->targets[n], &files[n])))
		n++;
	if (!err)
		return target_core(l->know, files, n, ret);
	while (n--)
		file_close(&files[n]);
	return err;
}

struct uh_error *look_open_dump(const struct looking *l, struct target **ret, struct str *ret_gfx)
{
	struct file f;
	struct request agents = { .kind = REQUEST_AGENTS };
	if (l->options.ntargets > 1)
		return uh_error_new("give one device core at a time");
	struct uh_error *err = file_open(l->options.targets[0], &f);
	if (err)
		return err;
	err = target_devcoredump(l->know, &f, ret);
	file_close(&f);
	if (err)
		return err;
	target_ask(*ret, &agents);
	*ret_gfx = agents.n ? agents.agents[0].gfx : (struct str){ 0 };
	return NULL;
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
	for (size_t i = 0; i < l->code.differences.len; i++) {
		_cleanup_text_ struct text line = { 0 };
		code_difference_say(&l->code.differences.data[i], &line);
		tell_problem(t, line.p);
	}
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

static void write_core_waves(struct look *l)
{
	struct request r = { .kind = REQUEST_WAVES }, agents = { .kind = REQUEST_AGENTS }, queues = { .kind = REQUEST_QUEUES };
	_cleanup_arena_ struct arena a = { 0 };
	target_ask(l->target, &r);
	struct waves_seen seen = { .look = l, .n = r.n, .waves = r.waves };
	look_find_code(&seen, &a);
	target_ask(l->target, &agents);
	target_ask(l->target, &queues);
	seen.agents = agents.agents;
	seen.nagents = agents.n;
	seen.nqueues = queues.n;
	report_waves(&seen, 1, l->options, l->out);
}

static struct queues_seen queues_of_look(struct look *l)
{
	struct request agents = { .kind = REQUEST_AGENTS }, queues = { .kind = REQUEST_QUEUES },
		       code = { .kind = REQUEST_CODE };
	if (l->options->json)
		target_ask(l->target, &code); // which tells the version
	target_ask(l->target, &agents);
	target_ask(l->target, &queues);
	return (struct queues_seen){ l, agents.agents, agents.n, queues.queues, queues.n };
}

static void write_core_queues(struct look *l)
{
	const struct queues_seen seen = queues_of_look(l);
	report_queues(&seen, l->options, l->out);
}

/** Code may lie beside the core, so its directory is searched as well. */
static struct uh_error *look_at_files(struct looking *at, void (*report)(struct look *l))
{
	const struct uh_look_options *o = &at->options;
	struct look l = { .know = at->know, .options = o, .out = at->out };
	struct uh_error *err = open_target(at, &l.target);
	if (err)
		return err;
	struct code_places places = { .n = o->ncode, .paths = o->code, .beside = str_z(o->targets[0]) };
	target_code_open(&l.code, l.target, &places);
	report(&l);
	look_tell_target(&l, &at->teller);
	target_code_close(&l.code);
	target_close(l.target);
	return NULL;
}

struct uh_error *uh_look_waves(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	_cleanup_looking_ struct looking l;
	struct uh_error *err = looking_begin(&l, o, out, (struct teller){ problem, ctx });
	if (err)
		return err;
	return l.options.ntargets ? look_at_files(&l, write_core_waves) : live_waves(&l);
}

// --- processes of this machine ---

enum { WATCH_MS = 100, PROCESSES_MOST = 1024 };

/** One process, or all. Between two looks it waits long enough for a working queue to move, once for all of them. */
static struct uh_error *look_at_processes(struct looking *at, struct found_devices *found, struct kfd *kfd, const int64_t *pids,
					  size_t n)
{
	_cleanup_(client_queues_free) struct client_queues user = { 0 };
	const struct uh_look_options *o = &at->options;
	struct code_places places = { .n = o->ncode, .paths = o->code, .tape = found->tape };
	_cleanup_free_ struct look *looks = mem_alloc((n + 1) * sizeof(*looks));
	_cleanup_free_ struct queues_seen *seen = mem_alloc((n + 1) * sizeof(*seen));
	_cleanup_error_ struct uh_error *err = NULL;
	size_t opened = 0;
	for (size_t i = 0; i < n; i++) {
		struct look *l = &looks[opened];
		*l = (struct look){ .know = at->know, .options = o, .out = at->out };
		cleanup_error(&err);
		// One that ended meanwhile is no error where all are meant.
		err = target_process_of(at->know, &found->devices, kfd, pids[i], &l->target);
		opened += !err;
	}
	if (!o->ntargets)
		client_queues_look(at->know, &found->devices, &user);
	if (opened || user.n)
		tape_pause(found->tape, WATCH_MS);
	if (user.n)
		client_queues_look_again(at->know, &user);
	for (size_t i = 0; i < opened; i++)
		process_look_again(looks[i].target);
	for (size_t i = 0; i < opened; i++)
		target_code_open(&looks[i].code, looks[i].target, &places);
	for (size_t i = 0; i < opened; i++)
		seen[i] = queues_of_look(&looks[i]);
	if (o->ntargets && opened)
		report_queues(seen, o, at->out);
	else if (!o->ntargets)
		report_queues_of_all(seen, opened, &(struct runlists){ at->know, &found->devices, kfd, &user }, o, at->out);
	for (size_t i = 0; i < opened; i++) {
		look_tell_target(&looks[i], &at->teller);
		target_code_close(&looks[i].code);
		target_close(looks[i].target);
	}
	return opened || !o->ntargets ? NULL : take_ptr(err);
}

/** Without KFD there are no queues of programs; which it is, absent or silent, must be told apart. */
static struct uh_error *look_at_machine_queues(struct looking *at, const int64_t *pid)
{
	_cleanup_(found_devices_free) struct found_devices found;
	_cleanup_(kfd_free) struct kfd kfd = { 0 };
	struct uh_error *err = NULL;
	machine_find(at->options.machine, at->know, "queues", &found);
	kfd_look(&found.devices, &kfd);
	kfd_look_at_places(&kfd, at->know, &found.devices);
	kfd_look_at_runlists(&kfd);
	if (!kfd.there && kfd.stuck.is)
		return uh_error_new(STR_FMT " did not answer, so which processes compute is unknown", STR_ARG(kfd.stuck.at));
	if (!kfd.there)
		return uh_error_new("/sys/class/kfd/kfd/proc: this machine has no AMD GPU for compute, or its driver is not "
				    "loaded; for a core: unhang queues --target gpucore.PID");
	if (pid)
		err = look_at_processes(at, &found, &kfd, pid, 1);
	else
		err = look_at_processes(at, &found, &kfd, kfd.pids, kfd.npids < PROCESSES_MOST ? kfd.npids : PROCESSES_MOST);
	if (kfd.why_not.n && kfd.npids)
		look_tell(&at->teller, kfd.why_not);
	return err;
}

struct uh_error *uh_look_queues(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	_cleanup_looking_ struct looking l;
	int64_t pid;
	struct uh_error *err = looking_begin(&l, o, out, (struct teller){ problem, ctx });
	if (err)
		return err;
	o = &l.options;
	const bool number =
		o->ntargets == 1 && str_number(str_z(o->targets[0]), &pid) && pid > 0 && !file_answers(o->targets[0]);
	return o->ntargets && !number ? look_at_files(&l, write_core_queues) : look_at_machine_queues(&l, number ? &pid : NULL);
}

// --- GPUs of this machine ---

struct uh_error *live_find(const struct looking *at, const char *track, bool one, struct live *ret)
{
	const char *gpu = at->options.gpu;
	const struct devices *d = &ret->found.devices;
	_cleanup_text_ struct text names = { 0 }; // `0000:03:00.0 (Radeon RX 7900 XTX), 0000:43:00.0`
	*ret = (struct live){ 0 };
	machine_find(at->options.machine, at->know, track, &ret->found);
	const struct device *named = gpu ? devices_named(d, str_z(gpu)) : NULL;
	for (size_t i = 0; i < d->n; i++) {
		text_printf(&names, "%s" STR_FMT, i ? ", " : "", STR_ARG(d->list[i].pci));
		if (d->list[i].name.n)
			text_printf(&names, " (" STR_FMT ")", STR_ARG(d->list[i].name));
	}
	struct str rest = d->unread.paths;
	const struct str late = str_split(&rest, '\n');
	if (!d->n && late.n)
		return uh_error_new(STR_FMT " did not answer, so the GPUs are unknown", STR_ARG(late));
	if (!d->n)
		return uh_error_new("this machine has no AMD GPU");
	if (gpu && !named)
		return uh_error_new("there is no GPU %s; there is " STR_FMT, gpu, STR_ARG(text_str(&names)));
	if (!gpu && one && d->n > 1)
		return uh_error_new("which GPU? --gpu names one of " STR_FMT, STR_ARG(text_str(&names)));
	ret->n = named ? 1 : d->n;
	ret->list = arena_alloc(&ret->arena, ret->n * sizeof(*ret->list));
	for (size_t i = 0; i < ret->n; i++)
		ret->list[i] = named ? named : &d->list[i];
	return NULL;
}

void live_free(struct live *l)
{
	found_devices_free(&l->found);
	arena_free(&l->arena);
}

struct str live_title(struct arena *a, const struct device *d)
{
	struct str comma = S(", "), none = { 0 };
	return arena_printf(a, STR_FMT STR_FMT STR_FMT STR_FMT STR_FMT, STR_ARG(d->pci), STR_ARG(d->name.n ? comma : none),
			    STR_ARG(d->name), STR_ARG(d->gfx.n ? comma : none), STR_ARG(d->gfx));
}

void live_progress(const struct live *l, const struct uh_look_options *o, size_t index)
{
	char pci[32] = "";
	if (index < l->n)
		str_copy(pci, sizeof(pci), l->list[index]->pci);
	if (o->progress)
		o->progress(o->progress_ctx, pci, index, l->n);
}

struct str live_why_not(struct arena *a, struct target *t, enum answer answer)
{
	if (answer == ANSWER_ABSENT)
		return S("this GPU does not have it");
	const struct gate gate = target_gate(t);
	const struct probe_stuck *stuck = target_stuck(t);
	if (answer == ANSWER_REFUSED && gate.why_not.n)
		return arena_str(a, gate.why_not);
	if (stuck && stuck->at.n)
		return arena_printf(a, "the read did not return, at " STR_FMT, STR_ARG(stuck->at));
	return answer == ANSWER_TIMED_OUT ? S("the read did not return") : S("it needs root");
}

static void tell_error(struct uh_error *err, const struct teller *t)
{
	if (err)
		look_tell(t, str_z(uh_error_message(err)));
	uh_error_free(err);
}

void live_cannot(struct uh_error **err, const struct teller *t, struct str gpu, const char *what, struct str why_not)
{
	tell_error(*err, t);
	*err = uh_error_new(STR_FMT ": its %s cannot be read: " STR_FMT, STR_ARG(gpu), what, STR_ARG(why_not));
}

struct uh_error *live_could(struct uh_error *err, const struct teller *t, size_t answered)
{
	if (!answered)
		return err;
	tell_error(err, t);
	return NULL;
}

void live_tell_root(const struct live *l, const struct teller *t)
{
	if (!l->found.devices.root)
		look_tell(t,
			  S("without root, unhang reads only the registers that the render node offers; root adds the others, "
			    "waves and rings"));
}
