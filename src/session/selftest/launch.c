// The checks with kernels of unhang's own: what the recorder, the looks and the kernel log say of them, against what the child that launched
// them knows.
#include "session/selftest/selftest.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "apply/launch.h"
#include "base/save.h"
#include "session/session.h"

enum { LAUNCH_MS = 60000, TIMES = 40, AGAIN_MS = 100 };

/** One GPU whose kernels run. */
struct launching {
	struct selftest *t;
	const struct selftest_gpu *g;
	struct launch launch;
	char directory[64]; // of the recording
};

static const char recorder_what[] = "launches that the recorder counted, against the program's own count";
static const char waves_what[] = "the waves of a kernel that spins, by unhang waves";
static const char queues_what[] = "the queue of a kernel that spins, by unhang queues";
static const char votes_what[] = "a kernel that spins, by the votes on progress of a look";
static const char end_what[] = "the kernel that spun has ended, and the GPU is idle again";
static const char fault_what[] = "a page fault of its own, by the recorder";
static const char core_what[] = "the same page fault, by the GPU core that ROCm hands to unhang core";
static const char log_what[] = "the same page fault, by the kernel log";

static void add_launched(const struct launching *l, const char *id, const char *what, struct selftest_result r)
{
	selftest_add(l->t, id, what, l->g, r);
}

/** What a command of unhang prints, as JSON. */
struct printed {
	char *p;
	size_t n;
	FILE *f;
};
static FILE *print_begin(struct printed *p) { return p->f = open_memstream(&p->p, &p->n); }
static struct str print_end(struct printed *p)
{
	fclose(p->f);
	return (struct str){ p->p, p->n };
}
static void printed_free(struct printed *p) { free(p->p); }
#define _cleanup_printed_ _cleanup_(printed_free)

/** The pattern that unhang doctor --apply gpu-cores sets, with a place of its own; the first command says that it was called. */
static struct str handler_of(struct arena *a, const char *directory)
{
	char program[PATH_MAX] = "";
	const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n <= 0 || !directory[0] || strpbrk(program, " \"\\'$`"))
		return (struct str){ 0 };
	return arena_printf(a, "|/bin/sh -c \"touch %s/called; %s core --state-dir %s/cores %%p || cat >/dev/null\"", directory,
			    program, directory);
}

static bool launching_start(struct launching *l, struct launch_options o)
{
	const struct device *d = l->g->device;
	snprintf(l->directory, sizeof(l->directory), "/dev/shm/unhang-selftest.XXXXXX");
	if (!mkdtemp(l->directory))
		l->directory[0] = 0;
	o.pci = d->pci;
	o.gfx = d->gfx;
	o.recorder = l->directory[0] ? l->t->options->recorder : NULL;
	o.recordings = l->directory;
	o.handler = o.fault ? handler_of(&l->t->arena, l->directory).p : NULL;
	o.milliseconds = LAUNCH_MS;
	return launch_start(&o, &l->launch);
}

static void launching_end(struct launching *l)
{
	launch_free(&l->launch);
	if (!l->directory[0])
		return;
	_cleanup_close_ int dir = open(l->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		remove_below(dir);
	rmdir(l->directory);
}

/** Why the kernels did not run. */
static struct selftest_result did_not_run(const struct launching *l)
{
	const struct str why = launch_said(&l->launch, 'E'), step = launch_said(&l->launch, 'S');
	if (!launch_said(&l->launch, 'L').n)
		return NOT_POSSIBLE(&l->t->arena, "there is no ROCm runtime (libhsa-runtime64.so.1) here");
	if (str_is(step, LAUNCH_STARTING))
		return NOT_POSSIBLE(&l->t->arena, "ROCm does not start here (" STR_FMT "): is there a /dev/kfd?", STR_ARG(why));
	if (str_is(why, "the runtime does not see this GPU") || str_starts(why, S("unhang was built")))
		return NOT_POSSIBLE(&l->t->arena, STR_FMT, STR_ARG(why));
	return FAILED(&l->t->arena, "it stopped while " STR_FMT "%s" STR_FMT, STR_ARG(step), why.n ? ": " : "", STR_ARG(why));
}

/** What `unhang last` says of the recording, as JSON in @p; false: *@wrong says why there is none. */
static bool recording_read(const struct launching *l, const char *but, struct printed *p, struct str *ret,
			   struct selftest_result *wrong)
{
	const char *target = l->directory;
	struct uh_last_options o = { .targets = &target, .ntargets = 1, .json = true };
	if (!l->t->options->recorder || !print_begin(p)) {
		*wrong =
			NOT_POSSIBLE(&l->t->arena, "%s",
				     l->t->options->recorder ? "there is no memory" : "libunhang-recorder.so is not installed");
		return false;
	}
	_cleanup_error_ struct uh_error *err = uh_last(&o, p->f, NULL, NULL);
	*ret = print_end(p);
	if (err)
		*wrong = FAILED(&l->t->arena, "%sthere is no recording: %s", but, uh_error_message(err));
	return !err;
}

static struct selftest_result check_recorder(const struct launching *l, unsigned launched)
{
	_cleanup_printed_ struct printed p = { 0 };
	struct selftest_result wrong;
	struct str text, rest;
	int64_t counted = -1;
	if (!recording_read(l, "the runtime ran, but ", &p, &text, &wrong))
		return wrong;
	if (str_after(text, S("\"launched\":"), &rest))
		str_number(str_trim(str_split(&rest, ',')), &counted);
	if (counted != (int64_t)launched)
		return FAILED(&l->t->arena, "%u kernels were launched, and the recorder has %lld", launched,
			      (long long)counted);
	return PASSED(&l->t->arena, "the recorder has all %u of %u, and each was run", launched, launched);
}

/** Whether what a command prints names the kernel. It may take some looks until it is there. */
static struct selftest_result check_named(const struct launching *l, const char *command,
					  struct uh_error *(*look)(const struct uh_look_options *, FILE *, uh_problem_fn *,
								   void *))
{
	const struct uh_look_options o = { .json = true };
	_cleanup_error_ struct uh_error *err = NULL;
	for (unsigned i = 0; i < TIMES; i++) {
		_cleanup_printed_ struct printed p = { 0 };
		if (!print_begin(&p))
			break;
		cleanup_error(&err);
		err = look(&o, p.f, NULL, NULL);
		if (str_find(print_end(&p), S(LAUNCH_SPIN)) >= 0)
			return PASSED(&l->t->arena, "unhang %s names the kernel", command);
		tape_pause(NULL, AGAIN_MS);
	}
	if (err)
		return NOT_POSSIBLE(&l->t->arena, "%s", uh_error_message(err));
	return FAILED(&l->t->arena, "unhang %s does not show " LAUNCH_SPIN, command);
}

static struct selftest_result check_votes(const struct launching *l, bool spins)
{
	struct str health = { 0 };
	for (unsigned i = 0; i < TIMES; i++) {
		struct uh_session *s = uh_session_new(NULL, NULL);
		uh_error_free(uh_session_add_machine(s, NULL));
		const struct gpu_observation *g =
			s->seen ? list_find(s->seen->gpus, s->seen->n, it, str_eq(it->device->pci, l->g->device->pci)) : NULL;
		const bool loop = g && g->votes.loop, known = g && g->known, busy = g && (g->waves || loop);
		health = g ? arena_str(&l->t->arena, g->health) : health;
		uh_session_free(s);
		if (g && !known && !loop)
			return NOT_POSSIBLE(&l->t->arena, "not enough of the GPU could be read");
		if (spins && loop)
			return PASSED(&l->t->arena, "a look sees its waves go round in a short loop");
		if (!spins && !busy)
			return PASSED(&l->t->arena, "it ended as told; the GPU is " STR_FMT " again", STR_ARG(health));
		tape_pause(NULL, AGAIN_MS);
	}
	return FAILED(&l->t->arena, "%s: the GPU is " STR_FMT, spins ? "no look sees the loop" : "its waves have not gone",
		      STR_ARG(health));
}

static void launch_on(struct selftest *t, const struct selftest_gpu *g)
{
	struct launching l = { .t = t, .g = g };
	struct launch_options o = { 0 };
	if (!launching_start(&l, o) || !launch_wait(&l.launch, "spinning")) {
		add_launched(&l, "launch", recorder_what, did_not_run(&l));
		launching_end(&l);
		return;
	}
	add_launched(&l, "launch", recorder_what, check_recorder(&l, LAUNCH_STORES + 1));
	add_launched(&l, "waves", waves_what, check_named(&l, "waves", uh_look_waves));
	add_launched(&l, "queues", queues_what, check_named(&l, "queues", uh_look_queues));
	add_launched(&l, "votes", votes_what, check_votes(&l, true));
	launch_go_on(&l.launch);
	if (launch_wait(&l.launch, "ended") && launch_finish(&l.launch))
		add_launched(&l, "end", end_what, check_votes(&l, false));
	else
		add_launched(&l, "end", end_what, did_not_run(&l));
	launching_end(&l);
}

// --- a page fault ---

/** An address as the driver prints it, without the zeros in front: its page. */
static struct str page_of(struct arena *a, struct str address)
{
	uint64_t n = 0;
	struct str digits;
	if (str_behind(address, S("0x"), &digits))
		str_hex(digits, &n);
	return arena_printf(a, "0x%llx", (unsigned long long)(n & ~UINT64_C(0xfff)));
}

static struct selftest_result check_fault_recorded(const struct launching *l, struct str page)
{
	_cleanup_printed_ struct printed p = { 0 };
	struct selftest_result wrong;
	struct str text;
	if (!recording_read(l, "", &p, &text, &wrong))
		return wrong;
	if (str_find(text, str_cut(page, page.n - 3)) < 0 || str_find(text, S("memory-fault")) < 0)
		return FAILED(&l->t->arena, "the recording has no fault at " STR_FMT, STR_ARG(page));
	if (str_find(text, S(LAUNCH_FAULT)) < 0)
		return FAILED(&l->t->arena, "the recording has the fault, and does not name " LAUNCH_FAULT);
	return PASSED(&l->t->arena, "recorded at " STR_FMT ", with its kernel", STR_ARG(page));
}

/** The log may come some time after the fault. */
static struct selftest_result check_fault_logged(const struct launching *l, struct str page)
{
	bool log = false;
	for (unsigned i = 0; i < TIMES; i++) {
		_cleanup_printed_ struct printed p = { 0 };
		struct uh_session *s = uh_session_new(NULL, NULL);
		uh_session_add_newest(s, NULL);
		uh_session_end(s);
		log |= uh_session_sources(s) > 0;
		if (print_begin(&p)) {
			uh_session_report(s, p.f, &(struct uh_report_options){ .json = true });
			print_end(&p);
		}
		uh_session_free(s);
		if (p.p && str_find((struct str){ p.p, p.n }, page) >= 0)
			return PASSED(&l->t->arena, "the kernel log has it, at " STR_FMT, STR_ARG(page));
		tape_pause(NULL, AGAIN_MS);
	}
	return log ? FAILED(&l->t->arena, "the kernel log was read, and has no fault at " STR_FMT, STR_ARG(page)) :
		     NOT_POSSIBLE(&l->t->arena, "the kernel log cannot be read");
}

/** The id of the only incident in a list; empty: there is none. */
static struct str incident_listed(struct arena *a, const char *state)
{
	_cleanup_printed_ struct printed p = { 0 };
	struct str rest, id = { 0 };
	if (!print_begin(&p))
		return id;
	uh_error_free(uh_incidents(&(struct uh_incidents_options){ .state_dir = state, .json = true }, p.f));
	if (str_after(print_end(&p), S("\"id\": \""), &rest))
		id = arena_str(a, str_split(&rest, '"'));
	return id;
}

/** The runtime waits for its handler before it ends the process, so what it stored is there. */
static struct selftest_result check_fault_core(const struct launching *l, struct str page)
{
	struct arena *a = &l->t->arena;
	const char *state = arena_printf(a, "%s/cores", l->directory).p;
	_cleanup_printed_ struct printed p = { 0 };
	if (access(arena_printf(a, "%s/called", l->directory).p, F_OK))
		return NOT_POSSIBLE(a, "none came: it takes ROCm 7, and no GPU from gfx11 on");
	const struct str id = incident_listed(a, state);
	if (!id.n || !print_begin(&p))
		return FAILED(a, "unhang core was called, and stored nothing");
	uh_error_free(
		uh_incidents(&(struct uh_incidents_options){ .state_dir = state, .id = arena_z(a, id), .json = true }, p.f));
	const struct str told = print_end(&p);
	if (str_find(told, page) < 0 && str_find(told, S(LAUNCH_FAULT)) < 0)
		return FAILED(a, "the GPU core has neither the fault at " STR_FMT " nor its kernel", STR_ARG(page));
	return PASSED(a, "unhang core stored it%s", str_find(told, S(LAUNCH_FAULT)) < 0 ? "" : ", with its kernel");
}

static void fault_on(struct selftest *t, const struct selftest_gpu *g)
{
	struct launching l = { .t = t, .g = g };
	if (!launching_start(&l, (struct launch_options){ .fault = true }) || !launch_wait(&l.launch, "faulting")) {
		add_launched(&l, "fault", fault_what, did_not_run(&l));
	} else if (launch_finish(&l.launch) && !str_is(launch_said(&l.launch, 'M'), "no fault")) {
		const struct str page = page_of(&t->arena, launch_said(&l.launch, 'A'));
		add_launched(&l, "fault", fault_what, check_fault_recorded(&l, page));
		add_launched(&l, "core", core_what, check_fault_core(&l, page));
		add_launched(&l, "log", log_what, check_fault_logged(&l, page));
	} else {
		add_launched(&l, "fault", fault_what,
			     FAILED(&t->arena, "a store to memory that is not there made no page fault"));
	}
	launching_end(&l);
}

void selftest_launch(struct selftest *t)
{
	const struct uh_selftest_options *o = t->options;
	for (size_t i = 0; i < t->ngpus && (o->launch || o->fault); i++) {
		const struct selftest_gpu *g = &t->gpus[i];
		if (!g->device->driver.n || g->device->off_bus || (g->seen && g->seen->unwell)) {
			selftest_add(t, "launch", recorder_what, g,
				     NOT_POSSIBLE(&t->arena, "nothing is launched on a GPU that is not well"));
			continue;
		}
		if (o->launch)
			launch_on(t, g);
		if (o->fault)
			fault_on(t, g);
	}
	if (!o->launch)
		selftest_add(t, "launch", recorder_what, NULL, NOT_ASKED(&t->arena, "--launch runs tiny kernels"));
	if (!o->fault)
		selftest_add(t, "fault", fault_what, NULL, NOT_ASKED(&t->arena, "--fault makes a page fault"));
}
