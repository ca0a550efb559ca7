// unhang doctor --apply and --undo: what would be written is shown, then asked, then done. --list-applied and --verify: what was done, and
// whether it is in effect.
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "report/apply.h"
#include "session/visit.h"
#include "source/source.h"

/** What is asked for, as a finding of this machine or as a remedy. */
struct order {
	struct visit visit;
	const struct uh_doctor_options *o;
	FILE *out;
	struct findings findings;
	const struct finding *finding;
	const struct know_remedy *remedy;
	struct steps steps;
	struct apply_request request; // change NULL: there is none
};

static struct order_view view_of(const struct order *r)
{
	return (struct order_view){ .id = r->request.id, .title = r->request.title, .steps = &r->steps, .width = r->o->width };
}

static bool writes(const struct know_change *c) { return c && (c->sets || c->clears || c->envs || c->sessions); }

/** A finding of this machine has its numbers filled in; a remedy is applied as knowledge has it. */
static void find_order(struct order *r, const char *id)
{
	doctor_find(r->visit.know, &r->visit.host, &r->findings);
	r->request.id = str_z(id);
	r->finding = findings_named(&r->findings, str_z(id));
	r->remedy = r->finding ? r->finding->remedy : know_remedy(r->visit.know, str_z(id));
	r->request.title = r->finding ? r->finding->title : r->remedy ? r->remedy->title : (struct str){ 0 };
	if (r->finding) {
		r->request.change = r->finding->change;
		r->steps = r->finding->steps;
	} else if (r->remedy) {
		const struct host_scope scope = { &r->visit.host, host_machine(&r->visit.host) };
		const struct fact_view view = host_view(&scope);
		r->request.change = &r->remedy->change;
		steps_of_remedy(&r->visit.host.arena, r->remedy, r->visit.know, &view, &r->steps);
	}
}

/** With all that could have been meant: ids are typed by hand. */
static struct uh_error *unknown_id(const struct order *r)
{
	_cleanup_text_ struct text t = { 0 };
	for (size_t n = 0; n < r->findings.list.len; n++)
		if (writes(r->findings.list.data[n]->change))
			text_printf(&t, "%s" STR_FMT, t.n ? ", " : "", STR_ARG(r->findings.list.data[n]->id));
	for (size_t n = 0; n < r->visit.know->remedies.len; n++)
		if (writes(&r->visit.know->remedies.data[n]->change))
			text_printf(&t, "%s" STR_FMT, t.n ? ", " : "", STR_ARG(r->visit.know->remedies.data[n]->head.id));
	return uh_error_new(STR_FMT ": no finding on this machine and no remedy has this id; you can apply: " STR_FMT,
			    STR_ARG(r->request.id), STR_ARG(t.n ? text_str(&t) : S("none")));
}

/** The value only where it can be told as it stands. */
static void put_by_hand(const struct order *r, const struct host_fact *written, struct str name, struct str value)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct command_maker *m = command_begin(&room);
	command_add_command(m, written->command);
	command_add(m, ": remove ");
	command_add_value(m, PIECE_NAME, name);
	if (piece_plain(PIECE_PARAMETER, value)) {
		command_add(m, "=");
		command_add_value(m, PIECE_PARAMETER, value);
	}
	command_add(m, " by hand");
	report_drop_by_hand(command_end(m), r->out);
}

/** A leftover of the user's is not ours to edit: where it is, and what to take out. */
static void put_drops(const struct order *r, const struct know_list *drops)
{
	const struct host *h = &r->visit.host;
	for (; drops; drops = drops->next) {
		for (size_t n = 0; n < r->visit.have.list.len; n++) {
			const struct applied *a = r->visit.have.list.data[n];
			for (size_t s = 0; s < a->sets.len; s++)
				if (str_eq(a->sets.data[s].name, drops->text))
					report_drop(drops->text, DOCTOR(&r->visit.have.list.data[n]->arena, "--undo", a->id),
						    r->out);
		}
		for (size_t n = 0; n < h->items.len; n++) {
			const struct host_scope scope = { h, h->items.data[n] };
			struct str name, value, place;
			if (!str_is(h->items.data[n]->kind, "setting") || !host_get(&scope, S("name"), 0, &name) ||
			    !str_eq(name, drops->text) || !host_get(&scope, S("value"), 0, &value) ||
			    !host_get(&scope, S("written"), 0, &place) || str_starts(place, S("/proc/")))
				continue;
			put_by_hand(r, host_fact(h, h->items.data[n], S("written"), 0), name, value);
		}
	}
}

/** The files as they are and as they would be. Nothing is asked before they were shown. */
static struct uh_error *put_files(const struct order *r, const struct applied *a, bool undo)
{
	struct uh_error *err = NULL;
	for (size_t n = 0; n < a->files.len && !err; n++) {
		_cleanup_arena_ struct arena room = { 0 };
		struct own_preview p;
		err = own_preview(r->o->root, a, &a->files.data[n], undo, &room, &p);
		const struct file_view view =
			err ? (struct file_view){ 0 } :
			      (struct file_view){ a->files.data[n].path, p.before, p.after, p.there_before, p.there_after };
		if (!err)
			report_file_change(&view, r->out);
	}
	return err;
}

static void put_commands(const struct order *r, const struct applied *a, bool undo, const char *before)
{
	_cleanup_(apply_commands_free) struct apply_commands commands = { 0 };
	applied_commands(&r->visit.host, a, undo, &commands);
	report_commands(r->out, before, commands.list.data, commands.list.len);
}

/** A plan that could not be shown was not agreed to. */
static struct uh_error *ask_user(const struct order *r, const char *question)
{
	if (!print_arrived(r->out))
		return uh_error_new("nothing was done, because the plan could not be shown");
	if (r->o->yes || (r->o->ask && r->o->ask(question)))
		return NULL;
	return uh_error_new(r->o->ask ? "nothing was done" : "nothing was done: there is no terminal to ask on; add --yes");
}

/** An order that was carried out, whose end did not reach the user. */
static struct uh_error *order_told(const struct order *r)
{
	if (print_arrived(r->out))
		return NULL;
	return uh_error_new(STR_FMT ": done, but the next step could not be shown; see unhang doctor --list-applied",
			    STR_ARG(r->request.id));
}

/** In a container the parameters are the host's, and a change here would be lost without a word. */
static struct uh_error *may_write(const struct order *r)
{
	_cleanup_arena_ struct arena room = { 0 };
	const struct host *h = &r->visit.host;
	const struct host_fact *container = host_fact(h, host_machine(h), S("container"), 0);
	if (container ? str_is(container->value, "yes") : !r->o->root && source_in_container())
		return r->request.change && r->request.change->sessions ?
			       uh_error_new(
				       "this is a container: set variables where it is started; " STR_FMT " has the words",
				       STR_ARG(command_str(COMMAND_OF(&room, "unhang remedy ", PIECE_WORD, r->request.id)))) :
			       uh_error_new("this is a container: set kernel parameters on its host");
	if (!r->o->root && !r->o->dry_run && geteuid())
		return uh_error_new("only root can change this machine: use sudo");
	return NULL;
}

/** Shown, asked, done, told: in this order for both directions, so that undoing is as careful as doing. */
static struct uh_error *carry_out(const struct order *r, struct applied *a, bool undo)
{
	struct uh_error *err = put_files(r, a, undo);
	if (err)
		return err;
	if (a->kargs)
		put_commands(r, a, undo, "no file is changed; run afterward:");
	if (r->o->dry_run)
		return NULL;
	err = ask_user(r, undo ? "Undo this?" : "Write this?");
	if (err)
		return err;
	err = undo ? applied_undo(r->o->root, a) : applied_do(r->o->root, a);
	if (err) { // half of it may be done
		_cleanup_(applied_list_free) struct applied_list left = { 0 };
		applied_load_all(r->o->root, &left);
		applied_tell_left(&left, r->visit.problem, r->visit.ctx);
		return err;
	}
	put_commands(r, a, undo,
		     undo     ? "undone; it stays in effect until:" :
		     a->kargs ? "noted, not active until:" :
				"written, not active until:");
	return order_told(r);
}

/** Why a remedy that is no finding here is not for any GPU of this machine; empty where it may be. */
static struct str unfit(struct order *r)
{
	const struct host *h = &r->visit.host;
	const struct know_remedy *m = r->remedy;
	bool others = !r->finding && h->devices.n, excepted = false;
	for (size_t n = 0; others && n < h->items.len; n++) {
		const struct host_scope scope = { h, h->items.data[n] };
		const struct fact_view view = host_view(&scope);
		if (!str_is(h->items.data[n]->kind, "gpu"))
			continue;
		bool wrong = condition_eval(m->when, &view) == TRUTH_NO;
		excepted |= !wrong && m->unless && condition_eval(m->unless, &view) == TRUTH_YES;
		others = wrong || excepted;
	}
	if (!others)
		return (struct str){ 0 };
	if (excepted)
		return S("with this machine's firmware or versions it does not help, or is not needed");
	return arena_printf(&r->visit.host.arena, "it is not known to help here" STR_FMT STR_FMT,
			    STR_ARG(m->condition_text.n ? S(": it is only for machines where ") : S("")),
			    STR_ARG(command_str(r->steps.condition)));
}

/** Variables are not written for the whole machine: they go into a file that who wants them sources. */
static struct uh_error *apply_profile(const struct order *r)
{
	const char *directory = r->o->profile ? r->o->profile : ".";
	_cleanup_text_ struct text t = { 0 };
	struct uh_error *err = profile_text(&r->request, &t);
	report_profile(directory, r->request.id, text_str(&t), r->out);
	if (!err && r->o->dry_run)
		return NULL;
	if (!err)
		err = ask_user(r, "Write this?");
	if (!err)
		err = profile_write(directory, &r->request);
	if (err)
		return err;
	report_profile_written(directory, r->request.id, r->out);
	return order_told(r);
}

/** A change may have a part for the system and one for the user. Where the first is impossible, the second still helps. */
static struct uh_error *apply_new(struct order *r)
{
	const struct know_change *change = r->request.change;
	_cleanup_(applied_free) struct applied plan = { 0 };
	_cleanup_(apply_notes_free) struct apply_notes notes = { 0 };
	struct uh_error *err = NULL;
	if (change->sets || change->clears || change->sessions) {
		err = may_write(r);
		if (!err)
			err = applied_plan(&r->visit.host, &r->visit.have, &r->request, time(NULL), &plan, &notes);
	}
	if (err && !change->envs)
		return err;
	if (err) // the variables can still be written
		visit_tell(&r->visit, "%s", uh_error_message(err));
	cleanup_error(&err);
	struct order_view view = view_of(r);
	view.undo = DOCTOR(&r->visit.host.arena, "--undo", r->request.id);
	view.notes = notes.list.data;
	view.nnotes = notes.list.len;
	view.but = unfit(r);
	report_order(&view, r->out);
	put_drops(r, change->drops);
	if (plan.sets.len || plan.variables.len)
		err = carry_out(r, &plan, false);
	if (!err && change->envs)
		err = apply_profile(r);
	return err;
}

static void order_end(struct order *r)
{
	findings_free(&r->findings);
	visit_end(&r->visit);
}

/** What an earlier change left half done is told before anything new is done. */
static struct uh_error *order_begin(struct order *r, const char *id, uh_problem_fn *problem, void *ctx)
{
	struct uh_error *err = visit_begin(&r->visit, r->o, problem, ctx);
	if (!err && r->visit.bundle)
		err = uh_error_new("%s: a bundle; nothing can be changed in it", r->o->root);
	if (err)
		return err;
	find_order(r, id);
	applied_tell_left(&r->visit.have, problem, ctx);
	return NULL;
}

struct uh_error *uh_doctor_apply(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem,
				 void *ctx)
{
	_cleanup_(order_end) struct order r = { .o = o, .out = out };
	struct uh_error *err = order_begin(&r, id, problem, ctx);
	struct applied *had = err ? NULL : applied_named(&r.visit.have, r.request.id);
	if (!err)
		err = apply_unread(&r.visit.host, r.request.id);
	if (!err && had)
		err = may_write(&r);
	if (err)
		return err;
	if (had && had->state == APPLIED_DONE)
		return uh_error_new(STR_FMT ": already applied; " STR_FMT " says whether it is in effect", STR_ARG(had->id),
				    STR_ARG(DOCTOR(&had->arena, "--verify", had->id)));
	if (had)
		return carry_out(&r, had, false);
	if (!r.finding && !r.remedy)
		return unknown_id(&r);
	if (writes(r.request.change))
		return apply_new(&r);
	const struct order_view view = view_of(&r);
	report_by_hand(&view, out);
	if (r.request.change)
		put_drops(&r, r.request.change->drops);
	return uh_error_new(STR_FMT ": unhang has nothing to write; do its steps by hand", STR_ARG(r.request.id));
}

/** What is left of a change that was cut short, and variables that were written for the user. */
static struct uh_error *undo_rest(struct order *r)
{
	const char *directory = r->o->profile ? r->o->profile : ".";
	const bool good = applied_id_good(r->request.id), profile = good && profile_there(directory, r->request.id);
	unsigned removed = 0;
	struct uh_error *err = NULL;
	bool cut = good && r->visit.have.empty;
	for (size_t n = 0; n < r->visit.have.cut.len && good && !cut; n++)
		cut = str_eq(r->visit.have.cut.data[n], r->request.id);
	if (!cut && !profile)
		return uh_error_new(STR_FMT ": nothing of it is applied; unhang doctor --list-applied shows what is",
				    STR_ARG(r->request.id));
	if (profile)
		report_profile_deleted(directory, r->request.id, r->out);
	if (cut)
		report_rest_deleted(r->out);
	if (r->o->dry_run)
		return NULL;
	if (cut)
		err = may_write(r);
	if (!err)
		err = ask_user(r, "Undo this?");
	if (!err && cut && !applied_sweep(r->o->root, r->request.id))
		err = uh_error_new(APPLIED_DIRECTORY ": what is left of the record of " STR_FMT " could not be removed",
				   STR_ARG(r->request.id));
	return err ? err : profile_remove(directory, r->request.id, &removed);
}

struct uh_error *uh_doctor_undo(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem, void *ctx)
{
	_cleanup_(order_end) struct order r = { .o = o, .out = out };
	struct uh_error *err = order_begin(&r, id, problem, ctx);
	struct applied *had = err ? NULL : applied_named(&r.visit.have, r.request.id);
	if (!err && r.visit.have_unread)
		err = apply_unread(&r.visit.host, r.request.id);
	else if (!err && had)
		err = may_write(&r);
	if (!err && had) {
		applied_find_entries(o->root, had);
		err = carry_out(&r, had, true);
	}
	if (!err && (!had || (applied_id_good(r.request.id) && profile_there(o->profile ? o->profile : ".", r.request.id))))
		err = undo_rest(&r);
	return err;
}

// --- what was done ---

/** How it stands with one change; a command is only offered where one is still needed. */
static void write_applied(struct applied_report *r, const struct host *h, const struct applied *a, const struct judged *j)
{
	_cleanup_arena_ struct arena room = { 0 };
	_cleanup_(apply_commands_free) struct apply_commands commands = { 0 };
	struct str *sets = arena_alloc(&room, (a->sets.len + a->variables.len) * sizeof(*sets) + 1);
	struct str *files = arena_alloc(&room, a->files.len * sizeof(*files) + 1);
	for (size_t n = 0; n < a->sets.len; n++)
		sets[n] =
			arena_printf(&room, STR_FMT "=" STR_FMT, STR_ARG(a->sets.data[n].name), STR_ARG(a->sets.data[n].value));
	for (size_t n = 0; n < a->variables.len; n++)
		sets[a->sets.len + n] = arena_printf(&room, STR_FMT "=" STR_FMT, STR_ARG(a->variables.data[n].name),
						     STR_ARG(a->variables.data[n].value));
	for (size_t n = 0; n < a->files.len; n++)
		files[n] = a->files.data[n].path;
	if (j->state == JUDGED_WRITTEN)
		applied_commands(h, a, false, &commands);
	const struct applied_view view = {
		.id = a->id,
		.title = a->title,
		.state = judged_name(j->state),
		.date = a->date,
		.needless = j->needless,
		.sets = sets,
		.nsets = a->sets.len + a->variables.len,
		.files = files,
		.nfiles = a->files.len,
		.why = j->why.list.data,
		.nwhy = j->why.list.len,
		.undo = DOCTOR(&room, "--undo", a->id),
		.until = j->state != JUDGED_WRITTEN ? NULL :
			 a->kargs                   ? "noted, not active until:" :
						      "written, not active until:",
		.commands = commands.list.data,
		.ncommands = commands.list.len,
	};
	report_applied(r, &view);
}

struct uh_error *uh_doctor_applied(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem,
				   void *ctx, unsigned *ret_half, unsigned *ret_wrong)
{
	_cleanup_(visit_end) struct visit v = { 0 };
	struct applied_report r;
	struct uh_error *err = visit_begin(&v, o, problem, ctx);
	if (err)
		return err;
	if (v.bundle)
		return uh_error_new("%s: a bundle, which does not tell what unhang changed", o->root);
	*ret_wrong = 0;
	*ret_half = (unsigned)(v.have.problems.len + v.have.cut.len);
	applied_tell_left(&v.have, problem, ctx);
	if (v.have_unread)
		return uh_error_new(APPLIED_DIRECTORY " did not answer, so what was changed is unknown");
	if (id && !applied_named(&v.have, str_z(id)))
		return uh_error_new("%s: it is not applied; unhang doctor --list-applied shows what is", id);
	report_applied_begin(&r, o->json, out);
	const int64_t booted = boot_time(&v.host);
	for (size_t n = 0; n < v.have.list.len; n++) {
		const struct applied *a = v.have.list.data[n];
		struct judged judged;
		if (id && !str_is(a->id, id))
			continue;
		applied_judge(&v.host, a, booted, &judged);
		*ret_half += judged.state == JUDGED_HALF;
		*ret_wrong += judged.state != JUDGED_ACTIVE;
		write_applied(&r, &v.host, a, &judged);
		apply_notes_free(&judged.why);
	}
	report_applied_end(&r);
	return NULL;
}
