// From the events of a closed incident to its cause: what each event is evidence for, which one came first in the
// chain, what role the others play, and how sure that is.
#include <stdio.h>
#include <stdlib.h>

#include "diagnose/chain.h"
#include "diagnose/identity.h"
#include "diagnose/join_merge.h"

enum { LOOP_RESETS = 3 };

static bool has_event(const struct incident *i, const struct know_list *kinds)
{
	for (; kinds; kinds = kinds->next)
		for (size_t n = 0; n < i->events.len; n++)
			if (str_eq(i->events.data[n]->kind->head.id, kinds->text))
				return true;
	return false;
}

/** Whether the rest of the incident allows it. */
static bool fits_in(const struct know_cause *c, const struct incident *i)
{
	return !(c->beside && !has_event(i, c->beside)) && !has_event(i, c->without);
}

const struct know_cause *event_cause(const struct know *k, const struct diag_event *e, const struct incident *in)
{
	const struct fact_view view = { diag_event_get, e };
	for (size_t i = 0; i < k->causes.len; i++) {
		const struct know_cause *c = k->causes.data[i];
		for (const struct know_list *from = c->from; from; from = from->next)
			if (str_eq(from->text, e->kind->head.id) && condition_eval(c->when, &view) == TRUTH_YES &&
			    fits_in(c, in))
				return c;
	}
	return NULL;
}

/** Begin and end by the first @n events, which are those that stay. */
static void take_times(struct incident *i, size_t n)
{
	i->begin = i->end = (struct stamp){ 0 };
	for (size_t k = 0; k < n; k++) {
		const struct diag_event *e = i->events.data[k];
		if (e->time.clock == TIME_NONE)
			continue;
		if (i->begin.clock == TIME_NONE)
			i->begin = e->time;
		if (e->last.clock == i->begin.clock && (i->end.clock == TIME_NONE || e->last.seconds > i->end.seconds))
			i->end = e->last;
	}
}

static void drop_unrelated(struct incident *i)
{
	size_t n = 0;
	for (size_t k = 0; k < i->events.len; k++) {
		struct diag_event *e = i->events.data[k];
		if (!e->unrelated && (!e->kind->needs_frame || (e->confirmed && !e->elsewhere)))
			i->events.data[n++] = e;
	}
	if (n && n < i->events.len)
		take_times(i, n);
	i->events.len = n;
}

static bool same_process(const struct diag_event *a, const struct diag_event *b)
{
	const struct fact *x = diag_fact(a, "pid"), *y = diag_fact(b, "pid");
	return !x || !y || str_eq(x->value, y->value);
}

/** A look at a GPU judges each program by itself: what it calls hung hangs for a reason of its own. */
static bool hangs_itself(const struct incident *i, const struct diag_event *e) { return i->root->now && e->now && e->cause; }

static void conclude_assign_roles(struct incident *i)
{
	bool before_root = true;
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		bool names_process = diag_fact(e, "process");
		before_root &= e != i->root;
		if (e == i->root || (before_root && e->cause == i->cause))
			e->role = ROLE_CAUSE;
		else if (e->phase == PHASE_RESET)
			e->role = e->kind->in_reset;
		else if (e->phase == PHASE_PROBE && e->kind->in_reset == ROLE_ARTEFACT)
			e->role = ROLE_ARTEFACT;
		else if (i->reset_ended && e->cause && e->cause->class->reset_artefact)
			e->role = ROLE_ARTEFACT;
		else if (e->cause == i->cause || (names_process && hangs_itself(i, e)))
			e->role = ROLE_CAUSE;
		else if (names_process && !same_process(e, i->root))
			e->role = ROLE_BYSTANDER;
		else
			e->role = ROLE_EFFECT;
	}
}

static void also_add(struct incident *i, struct str word)
{
	if (!word.n || str_eq(word, i->cause->head.id))
		return;
	for (size_t n = 0; n < i->also.len; n++)
		if (str_eq(i->also.data[n], word))
			return;
	vec_push(&i->also, word);
}

static void collect_also(struct incident *i)
{
	unsigned resets = 0;
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		resets += e->kind->tells == TELLS_RESET_BEGINS ? e->count : 0;
		also_add(i, e->kind->tag);
		if (e->cause && e->role != ROLE_ARTEFACT && e->cause->stage->counts < BAND_UNEXPLAINED)
			also_add(i, e->cause->head.id);
	}
	if (resets >= LOOP_RESETS)
		also_add(i, S(KNOW_CLASS_RESET_LOOP));
}

/** Whether a reset that succeeded was the last word: what follows may say that the GPU did not come back, and one that failed may have been
 *  tried again in another way. */
static void judge_reset(struct incident *i)
{
	bool succeeded = false, undone = false, failed = false, mended = false;
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		const struct str outcome = diag_value(e, "reset_outcome");
		if (str_is(outcome, "succeeded")) {
			succeeded = true;
			undone = false;
			mended = failed;
		} else if (succeeded && e->kind->undoes_reset) {
			undone = true;
		}
		if (str_is(outcome, "failed")) {
			failed = true;
			mended = false;
		}
	}
	diag_conclude(i, i->root, "reset_undone", undone ? S("yes") : (struct str){ 0 });
	diag_conclude(i, i->root, "reset_mended", mended && !undone ? S("yes") : (struct str){ 0 });
}

/** Whether @b is later than the last time of @a, or stands behind it where their times do not tell. */
static bool event_later(const struct diag_event *a, const struct diag_event *b, bool behind)
{
	const bool timed = a->last.clock == b->last.clock && a->last.clock != TIME_NONE;
	return timed ? b->last.seconds >= a->last.seconds : behind;
}

/** Whether something freed the ring of a late job after its last timeout. */
static bool was_freed(const struct incident *i, size_t late)
{
	const struct str ring = diag_value(i->events.data[late], "ring");
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		const struct str freed = diag_value(e, "ring");
		if (e->kind->frees_ring && (!ring.n || !freed.n || str_eq(ring, freed)) &&
		    event_later(i->events.data[late], e, n > late))
			return true;
	}
	return false;
}

/** Whether a ring was freed, and then one is late that nothing has freed. */
static void judge_rings(struct incident *i)
{
	bool freed = false, late = false;
	for (size_t n = 0; n < i->events.len; n++) {
		freed |= i->events.data[n]->kind->frees_ring;
		late |= i->events.data[n]->kind->late_job && !was_freed(i, n);
	}
	diag_conclude(i, i->root, "ring_late", freed && late ? S("yes") : (struct str){ 0 });
}

static void collect_processes(struct incident *i, const struct know *k)
{
	bool compute_stuck = false;
	for (size_t n = 0; n < i->also.len; n++) {
		const struct know_class *class = know_class(k, i->also.data[n]);
		compute_stuck |= class && class->compute_stuck;
	}
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		const struct fact *name = diag_fact(e, "process"), *pid = diag_fact(e, "pid");
		bool known = !name;
		for (size_t p = 0; p < i->processes.len && !known; p++)
			known = str_eq(i->processes.data[p].name, name->value) &&
				(!pid || str_eq(i->processes.data[p].pid, pid->value));
		if (known)
			continue;
		struct diag_process p = { .name = name->value, .pid = pid ? pid->value : (struct str){ 0 } };
		// The desktop is named because its drawing was late, not because it hung the GPU.
		bool innocent =
			e->role == ROLE_BYSTANDER || (e->kind->late_job && compute_stuck && know_is_desktop(k, name->value));
		p.role = innocent ? "bystander" : e->role == ROLE_CAUSE ? "owner" : "victim";
		vec_push(&i->processes, p);
	}
}

static bool same_page(const struct diag_event *a, const struct diag_event *b)
{
	uint64_t x, y;
	return diag_page(a, &x) && diag_page(b, &y) && x == y;
}

/** The fault names no kernel, but a dump of its waves does, or a recording that tells of the same fault. */
static void borrow_kernel(struct incident *i)
{
	static const char *const names[] = { "kernel_short", "operation",      "operation_note", "pc_note", "source",
					     "access_note",  "arguments_note", "api_call",       "shapes" };
	if (diag_fact(i->root, "kernel_name"))
		return;
	// Of several, the one whose access made the fault.
	struct diag_event *e = NULL;
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *x = i->events.data[n];
		bool stopped = diag_fact(x, "kernel_short") && (diag_fact(x, "stop_reason") || same_page(x, i->root));
		if (x != i->root && (stopped || diag_fact(x, "api_call")) &&
		    (!e || (diag_fact(x, "fault_lanes") && !diag_fact(e, "fault_lanes"))))
			e = x;
	}
	if (e)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			struct str value;
			if (diag_event_get(e, str_z(names[k]), 0, &value))
				diag_set_note(i, i->root, names[k], value);
		}
}

/** It is printed beside commands, so a name with characters that mean something to a shell is left out. */
static struct str conclude_plain_name(struct incident *i, const struct diag_process *p)
{
	bool plain = piece_plain(PIECE_WORDS, p->name);
	if (piece_plain(PIECE_NUMBER, p->pid))
		return arena_printf(&i->arena, STR_FMT " (" STR_FMT ")", STR_ARG(plain ? p->name : S("process")),
				    STR_ARG(p->pid));
	return plain ? p->name : S("the program");
}

/** Of those who hang now each has to be ended; of a log the first is the one. Where none had a part in it, it is the only victim. */
static void name_program(struct incident *i)
{
	// One rank of a job is not restarted alone.
	bool job = i->ranks.len > 1 || diag_fact(i->root, "rank") || diag_fact(i->root, "worker");
	size_t told = 0, owners = 0;
	for (size_t n = 0; n < i->processes.len; n++)
		owners += str_is(str_z(i->processes.data[n].role), "owner");
	const char *const role = owners || i->processes.len > 1 ? "owner" : "victim";
	i->program = job ? S("the job") : S("the program");
	for (size_t n = 0; n < i->processes.len && !job; n++) {
		const struct diag_process *p = &i->processes.data[n];
		if (!str_is(str_z(p->role), role) || (told && !i->root->now))
			continue;
		struct str name = conclude_plain_name(i, p);
		const char *glue = told + 1 == owners ? " and " : ", ";
		i->program =
			told++ ? arena_printf(&i->arena, STR_FMT "%s" STR_FMT, STR_ARG(i->program), glue, STR_ARG(name)) : name;
	}
	if (told && (str_is(str_z(role), "victim") || !diag_fact(i->root, "process")))
		diag_set_note(i, i->root, "victim_note", i->program);
}

/** A log that shows a reset but not its beginning begins inside it: empty faults before are its artefacts too. */
static void extend_reset(struct incident *i)
{
	if (i->reset_began || !i->reset_evidence)
		return;
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		const struct fact *vmid = diag_fact(e, "vmid"), *status = diag_fact(e, "fault_status");
		if (e->phase == PHASE_RESET)
			return;
		if (e->phase == PHASE_RUN &&
		    ((vmid && str_is(vmid->value, "0")) || (status && !vmid && str_is(status->value, "0x0"))))
			e->phase = PHASE_RESET;
	}
}

static struct str conclude_fill(struct incident *i, struct str sentence, const struct fact_view *view)
{
	_cleanup_text_ struct text out = { 0 };
	phrase_fill(&out, sentence, view);
	return arena_str(&i->arena, text_str(&out));
}

static void conclude_name_process(struct incident *i, struct diag_event *e)
{
	const struct fact *name = diag_fact(e, "process"), *pid = diag_fact(e, "pid");
	if (name && pid)
		e->who = arena_printf(&i->arena, STR_FMT " (" STR_FMT ")", STR_ARG(name->value), STR_ARG(pid->value));
	else if (pid && !diag_fact(e, "task"))
		e->who = arena_printf(&i->arena, "process " STR_FMT, STR_ARG(pid->value));
	else if (name)
		e->who = name->value;
}

/** The same fault has other usual causes in a program that draws than in one that computes. */
static struct str explain_of_work(const struct incident *i)
{
	for (const struct know_pair *p = i->cause->explains_for; p; p = p->next)
		if (str_eq(p->name, i->work))
			return p->value;
	return i->cause->explain;
}

static void write_sentences(struct incident *i)
{
	const struct fact_view root = { diag_event_get, i->root };
	const struct fact_view all = { incident_get, i };
	if (i->root) {
		i->title = conclude_fill(i, i->cause->title, &root);
		i->explanation = conclude_fill(i, explain_of_work(i), &all);
	}
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		const struct fact_view view = { diag_event_get, e };
		e->sentence = e->kind->say.n ? conclude_fill(i, e->kind->say, &view) : e->text;
		e->many = e->kind->many.n ? conclude_fill(i, e->kind->many, &view) : (struct str){ 0 };
		if (!e->sentence.n)
			e->sentence = e->text;
	}
}

/** What faults that are alike have in common. */
static void print_incident(struct incident *i)
{
	static const char *const same_fault[] = { "process",  "fault_client", "rw",    "mes_message",
						  "ip_block", "kernel_name",  "symbol" };
	uint64_t print = str_hash(str_hash(STR_HASH_BEGIN, i->cause->head.id), i->gpu.gfx);
	for (size_t n = 0; n < ARRAY_SIZE(same_fault); n++) {
		const struct fact *f = diag_fact(i->root, same_fault[n]);
		print = str_hash(print, f ? f->value : S(""));
	}
	i->fingerprint = arena_printf(&i->arena, "%016llx", (unsigned long long)print);
}

void incident_name(struct incident *i)
{
	const struct identity own = incident_identity(i);
	i->id = identity_name(&own, &i->arena);
	for (size_t n = 0; n < i->events.len; n++) // who was there first knows an earlier sign than all that is left to read
		if (i->events.data[n]->named.n)
			i->id = i->events.data[n]->named;
}

/** What an earlier conclusion left. */
static void forget_conclusion(struct incident *i)
{
	i->root = NULL;
	i->cause = NULL;
	i->action = NULL;
	i->also.len = i->processes.len = i->ranks.len = i->remedies.len = i->known.len = i->next.len = 0;
	if (i->events.len)
		take_times(i, i->events.len);
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		size_t kept = 0;
		for (size_t f = 0; f < e->nfacts; f++)
			if (!e->facts[f].concluded)
				e->facts[kept++] = e->facts[f];
		e->nfacts = kept;
		e->notes = NULL;
	}
}

/** What an exit code means, where it is known. */
static void explain_exit(struct incident *i, struct diag_event *e, const struct know *k)
{
	const struct fact *code = diag_fact(e, "exit_code");
	int64_t number;
	struct str meaning =
		code && str_number(code->value, &number) ? know_name(k, S("exit-code"), number) : (struct str){ 0 };
	diag_conclude(i, e, "exit_meaning", meaning);
}

/** Whether @a stands behind @b: by time, or by the line where the times cannot be compared. */
static bool stands_behind(const struct diag_event *a, const struct diag_event *b, bool by_time)
{
	return by_time ? a->time.seconds > b->time.seconds : a->at.line > b->at.line;
}

/** Programs write into one log as they come to it, and a dump is told when its last line was read: times give the order, or lines
 * where all stand in one text. */
static void sort_programs(struct incident *i)
{
	bool by_time = true, by_line = true;
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n], *first = i->events.data[0];
		if (!e->program)
			return;
		by_time &= e->time.clock == first->time.clock && e->time.clock != TIME_NONE;
		by_line &= e->at.source == first->at.source;
	}
	for (size_t n = 1; n < i->events.len && (by_time || by_line); n++) {
		struct diag_event *e = i->events.data[n];
		size_t at = n;
		for (; at && stands_behind(i->events.data[at - 1], e, by_time); at--)
			i->events.data[at] = i->events.data[at - 1];
		i->events.data[at] = e;
	}
}

/** Where no event has a time, what explains the others stands before them. */
static void put_causes_first(struct incident *i)
{
	size_t causes = 0;
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->time.clock != TIME_NONE || !i->events.data[n]->program)
			return;
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		if (e->role != ROLE_CAUSE)
			continue;
		memmove(i->events.data + causes + 1, i->events.data + causes, (n - causes) * sizeof(i->events.data[0]));
		i->events.data[causes++] = e;
	}
}

/** The kernel that was named last counts only where the failure names none; its shape always. */
static void take_last_work(struct incident *i)
{
	struct str kernel;
	const bool named = diag_event_get(i->root, S("kernel_short"), 0, &kernel);
	_cleanup_text_ struct text said = { 0 };
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		const bool before = e->at.source == i->root->at.source && e->at.line < i->root->at.line;
		if (e->kind->before_failure && before && (!named || diag_fact(e, "shapes")))
			text_printf(&said, "%s" STR_FMT ".", said.n ? " " : "", STR_ARG(e->sentence));
	}
	i->last_work = arena_str(&i->arena, text_str(&said));
}

bool incident_conclude(struct incident *i, const struct know *k)
{
	forget_conclusion(i);
	drop_unrelated(i);
	sort_programs(i);
	extend_reset(i);
	packets_name(i);
	for (size_t n = 0; n < i->events.len; n++) {
		fault_status_decode(i, i->events.data[n], k);
		conclude_name_process(i, i->events.data[n]);
		kernels_explain(i, i->events.data[n], k);
		explain_exit(i, i->events.data[n], k);
		request_explain(i, i->events.data[n]);
	}
	waves_explain(i);
	dispatches_explain(i);
	for (size_t n = 0; n < i->events.len; n++)
		if (!i->events.data[n]->only_seen)
			i->events.data[n]->cause = event_cause(k, i->events.data[n], i);
	i->root = chain_root(i, k);
	if (!i->root) {
		write_sentences(i);
		return false;
	}
	i->cause = i->root->cause;
	if (i->root->numbered && i->root->device.n && !i->root->kind->announces) // the GPUs of a hive tell of one error
		incident_lead_gpu(i, i->root->device);
	incident_weigh_error(i, k);
	judge_reset(i);
	judge_rings(i);
	conclude_assign_roles(i);
	collect_also(i);
	borrow_kernel(i);
	ranks_explain(i);
	const struct fact *host = diag_fact(i->root, "host");
	if (!i->host.n && host)
		i->host = host->value;
	collect_processes(i, k);
	name_program(i);
	incident_weigh(i, k);
	incident_judge_work(i, k);
	// What happened inside a reset did not lead to it.
	if (i->before_log && i->root->phase == PHASE_RESET)
		i->root->role = ROLE_EFFECT;
	write_sentences(i);
	take_last_work(i);
	put_causes_first(i);
	print_incident(i);
	incident_name(i);
	return true;
}
