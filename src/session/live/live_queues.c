// The queues of the programs that compute, and what each of them does.
#include "evidence/silicon/states.h"
#include "session/look.h"

struct queues_look {
	struct looking *at;
	struct found_devices found;
	struct silicon_round round;
	struct arena arena;
	struct uh_error *err;
};

static const struct silicon_looked *looked_at(const struct silicon_round *r, struct str pci)
{
	return list_find(r->gpus, r->n, it, str_eq(it->device->pci, pci));
}

static struct silicon_state queue_state(struct queues_look *l, const struct user_queue *u)
{
	const struct silicon_looked *g = u ? looked_at(&l->round, u->gpu) : NULL;
	return g ? state_of_queue(&l->round, g, u) : (struct silicon_state){ .is = S("unknown") };
}

/** One process that computes: its queues, and what each of them does. */
static void see_process(struct queues_look *l, size_t process, struct look *look, struct queues_seen *ret)
{
	const struct user_queues *q = &l->round.queues;
	struct request agents = { .kind = REQUEST_AGENTS }, queues = { .kind = REQUEST_QUEUES }, code = { .kind = REQUEST_CODE };
	*look = (struct look){
		.know = l->at->know, .options = &l->at->options, .out = l->at->out, .target = q->processes[process].target
	};
	look->code = arena_alloc(&l->arena, sizeof(*look->code));
	target_code_open(look->code, look->target, &l->round.places);
	if (l->at->options.json)
		target_ask(look->target, &code); // which tells the version
	target_ask(look->target, &agents);
	target_ask(look->target, &queues);
	struct silicon_state *states = arena_alloc(&l->arena, (queues.n + 1) * sizeof(*states));
	for (size_t i = 0; i < queues.n; i++)
		states[i] = queue_state(l, list_find(q->list, q->n, u, !u->client && u->process == process && u->id == queues.queues[i].id));
	*ret = (struct queues_seen){ look, agents.agents, agents.n, queues.queues, queues.n, states };
}

static const struct silicon_state *client_states(struct queues_look *l)
{
	const struct user_queues *q = &l->round.queues;
	struct silicon_state *states = arena_alloc(&l->arena, (q->clients.n + 1) * sizeof(*states));
	for (size_t i = 0; i < q->clients.n; i++)
		states[i] = queue_state(l, list_find(q->list, q->n, u, u->client == &q->clients.list[i]));
	return states;
}

/** @pid: the one that was asked for; NULL: all. */
static void report_programs(struct queues_look *l, const int64_t *pid)
{
	const struct uh_look_options *o = &l->at->options;
	struct user_queues *q = &l->round.queues;
	struct look *looks = arena_alloc(&l->arena, (q->nprocesses + 1) * sizeof(*looks));
	struct queues_seen *seen = arena_alloc(&l->arena, (q->nprocesses + 1) * sizeof(*seen));
	size_t n = 0;
	for (size_t i = 0; i < q->nprocesses; i++)
		if (q->processes[i].target && (!pid || q->processes[i].pid == *pid)) {
			see_process(l, i, &looks[n], &seen[n]);
			n++;
		}
	if (pid && n)
		report_queues(seen, o, l->at->out);
	else if (!pid)
		report_queues_of_all(seen, n,
				     &(struct runlists){ l->at->know, &l->found.devices, &q->kfd, &q->clients, client_states(l) }, o,
				     l->at->out);
	else
		l->err = uh_error_new("process %lld does not compute on a GPU of this machine (/sys/class/kfd/kfd/proc has no such "
				      "process), or has ended",
				      (long long)*pid);
	for (size_t i = 0; i < n; i++) {
		look_tell_target(&looks[i], &l->at->teller);
		target_code_close(looks[i].code);
	}
}

/** Without KFD there are no queues of programs; which it is, absent or silent, must be told apart. */
struct uh_error *live_queues(struct looking *at, const int64_t *pid)
{
	struct queues_look l = { .at = at };
	machine_find(at->options.machine, at->know, "queues", &l.found);
	silicon_round_begin(&l.round, at->know, &l.found.devices, (struct str){ 0 });
	l.round.places.n = at->options.ncode;
	l.round.places.paths = at->options.code;
	silicon_round_look(&l.round, false);
	const struct kfd *kfd = &l.round.queues.kfd;
	if (!kfd->there && kfd->stuck.is) {
		l.err = uh_error_new(STR_FMT " did not answer, so which processes compute is unknown", STR_ARG(kfd->stuck.at));
	} else if (!kfd->there) {
		l.err = uh_error_new("/sys/class/kfd/kfd/proc: this machine has no AMD GPU for compute, or its driver is not "
				     "loaded; for a core: unhang queues --target gpucore.PID");
	} else {
		user_queues_place(&l.round.queues, at->know, &l.found.devices);
		kfd_look_at_runlists(&l.round.queues.kfd);
		silicon_round_judge(&l.round);
		report_programs(&l, pid);
		if (kfd->why_not.n && kfd->npids)
			look_tell(&at->teller, kfd->why_not);
	}
	silicon_round_end(&l.round);
	found_devices_free(&l.found);
	arena_free(&l.arena);
	return l.err;
}
