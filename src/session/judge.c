// What the incidents of a session mean for this machine, and what the answer as a whole is.
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "diagnose/ask/question.h"
#include "host/host.h"
#include "session/history/module.h"
#include "session/session.h"
#include "store/store.h"
#include "watch/watch.h"

/** Who has the GPU open through KFD uses ROCm, whatever it is called. */
static void take_stack(struct incident *i, const struct device *d)
{
	bool computes = false;
	for (size_t n = 0; n < i->events.len; n++) {
		const struct fact *f = diag_fact(i->events.data[n], "pid");
		int64_t pid;
		for (size_t h = 0; f && str_number(f->value, &pid) && h < d->nholders; h++)
			computes |= d->holders[h].compute && d->holders[h].pid == pid;
	}
	if (computes)
		incident_add_machine(i, (struct fact){ S("stack"), S("rocm"), FACT_TEXT, i->events.data[0]->at });
}

/** How many GPUs are reset together with it. */
static void take_hive(const struct uh_session *s, struct incident *i, const struct device *d)
{
	size_t gpus = 0;
	for (size_t n = 0; n < s->seen->n && d->hive.n; n++)
		gpus += str_eq(s->seen->gpus[n].device->hive, d->hive);
	if (gpus > 1)
		incident_add_machine(i, (struct fact){ S("hive_gpus"), arena_printf(&i->arena, "%zu", gpus), FACT_NUMBER, i->events.data[0]->at });
}

/** Which module it was, and whether its GPU is well again, or may be: where it cannot be looked at, that its reset succeeded counts. A fault of the
 * hardware does not pass. */
static void take_state(const struct uh_session *s, struct incident *i)
{
	bool named = false, well = s->seen->n, over = false;
	struct str undone;
	for (size_t n = 0; n < s->seen->n; n++) {
		const struct gpu_observation *g = &s->seen->gpus[n];
		if (!str_eq(g->device->pci, i->gpu.device))
			continue;
		named = true;
		well = gpu_verdict(g) == UH_HEALTHY;
		over = gpu_verdict(g) == UH_UNKNOWN && i->reset_ended && !incident_get(i, S("reset_undone"), 0, &undone);
		i->gpu.serial = g->device->serial;
		i->gpu.slot = g->device->slot;
		i->gpu.oam = g->device->oam + 1;
		i->gpu.unique_id = g->device->unique_id;
		take_stack(i, g->device);
		take_hive(s, i, g->device);
	}
	for (size_t n = 0; n < s->seen->n && !named; n++)
		well &= gpu_verdict(&s->seen->gpus[n]) == UH_HEALTHY;
	i->host = i->host.n ? i->host : s->host;
	i->history = (well || over) && !i->now && !str_is(i->fault, "node");
	if (i->history && well)
		incident_add_machine(i, (struct fact){ S("gpu_now"), S("healthy"), FACT_TEXT, i->events.data[0]->at });
}

/** Whether this module had the same fault before, and again after it had been without power. */
static void take_module(const struct uh_session *s, struct incident *i)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct module_pasts here;
	const struct stored now = { .id = i->id,
				    .serial = i->gpu.serial,
				    .boot_id = i->boot_id,
				    .class = i->cause ? i->cause->head.id : (struct str){ 0 } };
	if (!str_is(i->fault, "node") || !now.serial.n)
		return;
	if (!s->modules)
		module_pasts_find(STATE_DIR, &now, &a, &here);
	const struct module_past *past =
		module_past_of(s->modules ? s->modules : &here, now.serial, i->gpu.unique_id, now.class);
	if (!past)
		return;
	const struct place at = i->events.data[0]->at;
	incident_add_machine(i, (struct fact){ S("module_before"), arena_printf(&a, "%zu", past->n), FACT_NUMBER, at });
	incident_add_machine(i, (struct fact){ S("module_before_id"), past->id, FACT_TEXT, at });
	if (past->powered)
		incident_add_machine(i, (struct fact){ S("module_returned"), S("yes"), FACT_TEXT, at });
}

static bool process_runs(int64_t pid)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%lld", (long long)pid);
	return !access(path, F_OK);
}

/** Whether every process that it names ran on this machine since it was started, and is gone. */
static bool processes_gone(const struct uh_session *s, const struct incident *i)
{
	if (i->now || s->asked || !i->processes.len || source_in_container() || !source_this_boot(i->boot_id))
		return false;
	for (size_t n = 0; n < i->processes.len; n++) {
		int64_t pid;
		if (!str_number(i->processes.data[n].pid, &pid) || process_runs(pid))
			return false;
	}
	return true;
}

static bool may_walk(const struct devices *all, struct str pci, int64_t pid)
{
	const struct device *d = list_find(all->list, all->n, it, str_eq(it->pci, pci));
	return d && !d->guest && device_awake(d) && list_find(d->holders, d->nholders, h, h->pid == pid);
}

/** Whether `unhang memory --fault` can say more than the log: the process whose access faulted still runs and has its GPU open, which is awake and
 * no virtual function. */
static bool fault_space(const struct uh_session *s, const struct incident *i, const struct diag_event *e)
{
	const struct fact *pid = diag_fact(e, "pid");
	int64_t number;
	if (!i->this_boot || s->asked || source_in_container() || !pid || !str_number(pid->value, &number) || !process_runs(number))
		return false;
	if (s->seen)
		return may_walk(&s->seen->devices, e->device, number);
	_cleanup_devices_ struct devices here;
	devices_find(s->know, &here);
	return may_walk(&here, e->device, number);
}

/** Of all incidents only the one whose fault that command would take. */
static void find_fault_space(struct uh_session *s)
{
	struct incident *newest = NULL;
	const struct diag_event *at = NULL;
	for (size_t n = 0; n < s->ledger.incidents.len; n++) {
		struct incident *i = s->ledger.incidents.data[n];
		const struct diag_event *e = incident_fault(i);
		if (e && i->this_boot && (!at || incident_fault_later(e, at))) {
			newest = i;
			at = e;
		}
	}
	if (newest)
		newest->fault_space = fault_space(s, newest, at);
}

/** An incident of this boot is held against the machine as it is; an earlier one only against what its log says. */
void session_advise(struct uh_session *s)
{
	enum { DRIVER_KEEPS = 300 }; // seconds, for a device core
	_cleanup_(host_free) struct host host = { 0 };
	_cleanup_free_ bool *used = mem_alloc(s->answers.len + 1);
	bool look = false;
	for (size_t n = 0; n < s->ledger.incidents.len; n++)
		look |= s->ledger.incidents.data[n]->this_boot;
	find_fault_space(s);
	if (look)
		host_look_beside(s->know, s->asked ? s->asked->tape : NULL, &host);
	for (size_t n = 0; n < s->ledger.incidents.len; n++) {
		struct incident *i = s->ledger.incidents.data[n];
		double when;
		if (s->seen)
			take_state(s, i);
		take_module(s, i);
		// What of the evidence is out of danger, and what is out of reach.
		i->saved = s->asked;
		i->ended = s->job_ended || processes_gone(s, i);
		i->long_past = i->saved || (!i->now && incident_when(i, s->evidence, s->told.now, &when) &&
					    when + DRIVER_KEEPS < (double)s->told.now);
		i->evidence = s->kinds.data;
		i->nevidence = s->kinds.len;
		i->cases = &s->cases;
		incident_weigh_records(i, s->evidence, s->booted);
		if (s->log_wanted)
			incident_weigh_log(i, s->log_read);
		const struct asking asking = { s->know, look ? &host : NULL, s->of_machine || s->asked || s->seen };
		if (s->answers.len)
			incident_take_answers(i, &asking, s->answers.data, s->answers.len, used);
		incident_advise(i, s->know, look ? &host : NULL);
		if (s->asks)
			incident_ask(i, &asking);
	}
	session_tell_unused(s, used);
}

static void add_unread(struct uh_session *s, struct str what, const char *why)
{
	text_printf(&s->unread, "%s" STR_FMT "%s", s->unread.n ? "; " : "", STR_ARG(what), why);
}

/** The first path by name, the others by number: a GPU that is gone has dozens. */
static void tell_late(struct uh_session *s, const struct unread *u)
{
	struct str paths = u->paths, first = str_split(&paths, '\n');
	if (!u->n)
		return;
	add_unread(s, first, " did not answer");
	if (u->n > 1)
		text_printf(&s->unread, ", nor did %zu other file%s", u->n - 1, u->n == 2 ? "" : "s");
}

/** Tells what was not read, so that nobody takes the answer for an all-clear. */
/** Errors that were counted, and that no log tells of; or memory that is known to be bad. */
static void tell_hardware_unsure(struct uh_session *s)
{
	for (size_t n = 0; n < s->seen->n; n++) {
		const struct gpu_observation *g = &s->seen->gpus[n];
		struct str hints = g->hardware, first = str_split(&hints, '\n');
		if (g->fit >= SITS_UNKNOWN)
			add_unread(s, arena_printf(&s->arena, STR_FMT ": " STR_FMT, STR_ARG(g->device->pci), STR_ARG(first)), "");
	}
	for (size_t n = 0; n < s->seen->nhives; n++)
		if (s->seen->hives[n].fit >= SITS_UNKNOWN)
			add_unread(s, s->seen->hives[n].hint, "");
}

static void tell_unread(struct uh_session *s)
{
	const struct devices *d = &s->seen->devices;
	if (s->lost.n)
		add_unread(s, s->lost, "");
	else if (!d->n && !d->unread.n)
		add_unread(s, d->pci_known ? S("this machine has no AMD GPU") : S("/sys/bus/pci/devices cannot be listed"), "");
	tell_late(s, &d->unread);
	tell_late(s, &d->processes_unread);
	for (size_t n = 0; n < s->seen->n; n++) {
		const struct gpu_observation *g = &s->seen->gpus[n];
		if (!g->looked || gpu_verdict(g) != UH_UNKNOWN || s->lost.n)
			continue;
		tell_late(s, &g->device->unread);
		if (g->unseen.n || !g->device->unread.n)
			add_unread(s,
				   arena_printf(&s->arena, STR_FMT ": " STR_FMT, STR_ARG(g->device->pci),
						STR_ARG(g->unseen.n ? g->unseen : S("its state could not be read"))),
				   "");
	}
	tell_hardware_unsure(s);
	if (s->log_wanted && !s->log_read)
		add_unread(s, S("the kernel log could not be read"), "");
}

/** A GPU is unwell, or one is missing. */
static bool gpus_at_fault(const struct uh_session *s)
{
	unsigned unwell;
	uh_session_gpus(s, &unwell);
	return unwell || (s->seen && s->seen->devices.n < s->expected);
}

void session_judge(struct uh_session *s)
{
	bool incident = gpus_at_fault(s);
	uint64_t messages = 0; // that are known
	for (size_t i = 0; i < evidence_count(s->evidence); i++)
		messages += evidence_at(s->evidence, i)->events;
	for (size_t n = 0; n < s->ledger.incidents.len; n++)
		incident |= !s->ledger.incidents.data[n]->history;
	if (s->seen)
		tell_unread(s);
	else if (!evidence_count(s->evidence))
		add_unread(s, S("nothing could be read"), "");
	else if (s->problems)
		add_unread(s, S("not everything could be read"), "");
	else if (s->refusals && s->refusals == messages)
		add_unread(s, S("the file has an error message instead of the kernel log"), "");
	else if (s->unknown_failures)
		add_unread(s, S("it reports a failure that unhang does not know"), "");
	s->verdict = incident ? UH_INCIDENT : s->unread.n ? UH_UNKNOWN : UH_HEALTHY;
}

enum uh_verdict uh_session_verdict(const struct uh_session *s) { return s->verdict; }
bool uh_session_node_at_fault(const struct uh_session *s)
{
	bool node = gpus_at_fault(s);
	for (size_t n = 0; n < s->ledger.incidents.len; n++)
		node |= str_is(s->ledger.incidents.data[n]->fault, "node") || s->ledger.incidents.data[n]->fit == FIT_NO;
	return node;
}
const char *uh_session_unread(const struct uh_session *s) { return s->unread.n ? s->unread.p : ""; }
