// Opens a target and hands it to whoever writes about it.
#include "session/look.h"

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

/** Ids that are like one that does not exist. */
struct like_ids {
	const char *kind;
	struct str name;
	size_t typos; // 0: the name is a part of the id
	size_t shown;
	struct text meant;
};

static void like_add(void *ctx, const struct know_listed *one)
{
	enum { SHOWN = 4, PART_LEAST = 3 };
	struct like_ids *l = ctx;
	const bool like = l->typos ? str_typos(one->id, l->name, l->typos) <= l->typos :
				     l->name.n >= PART_LEAST && str_find(one->id, l->name) >= 0;
	if (!strcmp(one->kind, l->kind) && l->shown < SHOWN && like)
		text_printf(&l->meant, "%s" STR_FMT, l->shown++ ? ", " : "", STR_ARG(one->id));
}

struct uh_error *look_no_such(const struct know *k, const char *kind, const char *lists, const char *id)
{
	enum { TYPOS = 4 };
	struct like_ids l = { .kind = kind, .name = str_z(id) };
	for (; l.typos <= TYPOS && !l.shown; l.typos++)
		know_each_block(k, like_add, &l);
	struct uh_error *err = l.shown ? uh_error_new("there is no %s '%s'; did you mean " STR_FMT "?", kind, id,
						      STR_ARG(text_str(&l.meant))) :
					 uh_error_new("there is no %s '%s'; %s lists them", kind, id, lists);
	text_free(&l.meant);
	return err;
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
	if (l->code)
		look_tell_code(l->code, t);
}

void look_tell_code(const struct target_code *c, const struct teller *t)
{
	look_tell(t, text_str(&c->set.problems));
	for (size_t i = 0; i < c->differences.len; i++) {
		_cleanup_text_ struct text line = { 0 };
		code_difference_say(&c->differences.data[i], &line);
		tell_problem(t, line.p);
	}
}

/** Finds out what code the waves of a core run. */
static void find_core_code(struct waves_seen *seen, struct arena *a)
{
	enum { CONTEXT = 16 };
	struct target_code *code = seen->look->code;
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
	find_core_code(&seen, &a);
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
	return (struct queues_seen){ l, agents.agents, agents.n, queues.queues, queues.n, NULL };
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
	struct target_code code;
	target_code_open(&code, l.target, &places);
	l.code = &code;
	report(&l);
	look_tell_target(&l, &at->teller);
	target_code_close(&code);
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
	return o->ntargets && !number ? look_at_files(&l, write_core_queues) : live_queues(&l, number ? &pid : NULL);
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
	const struct str unlisted = devices_unlisted(d, &ret->arena);
	if (!gpu && one && (d->n > 1 || unlisted.n))
		return uh_error_new("which GPU? --gpu names one of " STR_FMT "%s" STR_FMT, STR_ARG(text_str(&names)),
				    unlisted.n ? ". " : "", STR_ARG(unlisted));
	look_tell(&at->teller, unlisted);
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
	if (answer == ANSWER_TIMED_OUT)
		return S("the read did not return");
	return gate.open ? S("the kernel refuses it, as one that is locked down (Secure Boot) does") : S("it needs root");
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
