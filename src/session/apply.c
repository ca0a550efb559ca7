// unhang doctor --apply and --undo: what would be written is shown, then asked, then done.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/print.h"
#include "report/applied.h"
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

static bool writes(const struct know_change *c) { return c && (c->sets || c->clears || c->envs); }
static bool of_system(const struct know_change *c) { return c->sets || c->clears; }

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

static struct uh_error *unknown_id(const struct order *r)
{
	struct text t = { 0 };
	for (size_t n = 0; n < r->findings.list.len; n++)
		if (writes(r->findings.list.data[n]->change))
			text_printf(&t, "%s" STR_FMT, t.n ? ", " : "", STR_ARG(r->findings.list.data[n]->id));
	for (size_t n = 0; n < r->visit.know->remedies.len; n++)
		if (writes(&r->visit.know->remedies.data[n]->change))
			text_printf(&t, "%s" STR_FMT, t.n ? ", " : "", STR_ARG(r->visit.know->remedies.data[n]->head.id));
	struct uh_error *err =
		uh_error_new(STR_FMT ": no finding on this machine and no remedy has this id; you can apply: " STR_FMT,
			     STR_ARG(r->request.id), STR_ARG(t.n ? text_str(&t) : S("none")));
	text_free(&t);
	return err;
}

/** The value only where it can be told as it stands. */
static void put_by_hand(const struct order *r, const struct host_fact *written, struct str name, struct str value)
{
	struct arena room = { 0 };
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
	arena_free(&room);
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

static struct uh_error *by_hand(const struct order *r)
{
	const struct order_view view = view_of(r);
	report_by_hand(&view, r->out);
	if (r->request.change)
		put_drops(r, r->request.change->drops);
	return uh_error_new(STR_FMT ": unhang has nothing to write; do its steps by hand", STR_ARG(r->request.id));
}

static struct uh_error *put_files(const struct order *r, const struct applied *a, bool undo)
{
	struct uh_error *err = NULL;
	for (size_t n = 0; n < a->files.len && !err; n++) {
		struct arena room = { 0 };
		struct own_preview p;
		err = own_preview(r->o->root, a, &a->files.data[n], undo, &room, &p);
		const struct file_view view =
			err ? (struct file_view){ 0 } :
			      (struct file_view){ a->files.data[n].path, p.before, p.after, p.there_before, p.there_after };
		if (!err)
			report_file(&view, r->out);
		arena_free(&room);
	}
	return err;
}

static void put_commands(const struct order *r, const struct applied *a, bool undo, const char *before)
{
	struct apply_commands commands = { 0 };
	applied_commands(&r->visit.host, a, undo, &commands);
	report_commands(r->out, before, commands.list.data, commands.list.len);
	apply_commands_free(&commands);
}

static struct uh_error *ask(const struct order *r, const char *question)
{
	if (!print_arrived(r->out))
		return uh_error_new("nothing was done, because the plan could not be shown");
	if (r->o->yes || (r->o->ask && r->o->ask(question)))
		return NULL;
	return uh_error_new(r->o->ask ? "nothing was done" : "nothing was done: there is no terminal to ask on; add --yes");
}

/** An order that was carried out, whose end did not reach the user. */
static struct uh_error *told(const struct order *r)
{
	if (print_arrived(r->out))
		return NULL;
	return uh_error_new(STR_FMT ": done, but the next step could not be shown; see unhang doctor --list-applied",
			    STR_ARG(r->request.id));
}

static struct uh_error *may_write(const struct order *r)
{
	const struct host *h = &r->visit.host;
	const struct host_fact *container = host_fact(h, host_machine(h), S("container"), 0);
	if (container ? str_is(container->value, "yes") : !r->o->root && source_in_container())
		return uh_error_new("this is a container: set kernel parameters on its host");
	if (!r->o->root && !r->o->dry_run && geteuid())
		return uh_error_new("only root can change this machine: use sudo");
	return NULL;
}

/** After an error half of it may be done. */
static void tell_left(const struct order *r)
{
	struct applied_list left;
	applied_load_all(r->o->root, &left);
	applied_tell_left(&left, r->visit.problem, r->visit.ctx);
	applied_list_free(&left);
}

static struct uh_error *carry_out(const struct order *r, struct applied *a, bool undo)
{
	struct uh_error *err = put_files(r, a, undo);
	if (err)
		return err;
	if (a->kargs)
		put_commands(r, a, undo, "no file is changed; run afterward:");
	if (r->o->dry_run)
		return NULL;
	err = ask(r, undo ? "Undo this?" : "Write this?");
	if (err)
		return err;
	err = undo ? applied_undo(r->o->root, a) : applied_do(r->o->root, a);
	if (err) {
		tell_left(r);
		return err;
	}
	put_commands(r, a, undo,
		     undo     ? "undone; it stays in effect until:" :
		     a->kargs ? "noted, not active until:" :
				"written, not active until:");
	return told(r);
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

static void put_order(struct order *r, const struct apply_notes *notes)
{
	struct order_view view = view_of(r);
	view.undo = DOCTOR(&r->visit.host.arena, "--undo", r->request.id);
	view.notes = notes->list.data;
	view.nnotes = notes->list.len;
	view.but = unfit(r);
	report_order(&view, r->out);
}

static struct uh_error *apply_profile(const struct order *r)
{
	const char *directory = r->o->profile ? r->o->profile : ".";
	struct text t = { 0 };
	struct uh_error *err = profile_text(&r->request, &t);
	report_profile(directory, r->request.id, text_str(&t), r->out);
	text_free(&t);
	if (!err && r->o->dry_run)
		return NULL;
	if (!err)
		err = ask(r, "Write this?");
	if (!err)
		err = profile_write(directory, &r->request);
	if (err)
		return err;
	report_profile_written(directory, r->request.id, r->out);
	return told(r);
}

static struct uh_error *apply_new(struct order *r)
{
	struct applied plan = { 0 };
	struct apply_notes notes = { 0 };
	struct uh_error *err = NULL;
	if (of_system(r->request.change)) {
		err = may_write(r);
		if (!err)
			err = applied_plan(&r->visit.host, &r->visit.have, &r->request, time(NULL), &plan, &notes);
	}
	if (err && r->request.change->envs) {
		visit_tell(&r->visit, "%s", uh_error_message(err));
		uh_error_free(err);
		err = NULL;
	}
	if (!err) {
		put_order(r, &notes);
		put_drops(r, r->request.change->drops);
	}
	if (!err && plan.sets.len)
		err = carry_out(r, &plan, false);
	if (!err && r->request.change->envs)
		err = apply_profile(r);
	applied_free(&plan);
	apply_notes_free(&notes);
	return err;
}

static struct applied *record_of(struct order *r)
{
	for (size_t n = 0; n < r->visit.have.list.len; n++)
		if (str_eq(r->visit.have.list.data[n]->id, r->request.id))
			return r->visit.have.list.data[n];
	return NULL;
}

static struct uh_error *finish(struct order *r, struct applied *a)
{
	struct uh_error *err = may_write(r);
	if (a->state == APPLIED_DONE && !err)
		return uh_error_new(STR_FMT ": already applied; " STR_FMT " says whether it is in effect", STR_ARG(a->id),
				    STR_ARG(DOCTOR(&a->arena, "--verify", a->id)));
	return err ? err : carry_out(r, a, false);
}

static struct uh_error *order_begin(struct order *r, const struct uh_doctor_options *o, const char *id, FILE *out,
				    uh_problem_fn *problem, void *ctx)
{
	*r = (struct order){ .o = o, .out = out };
	struct uh_error *err = visit_begin(&r->visit, o, problem, ctx);
	if (!err && r->visit.bundle) {
		err = uh_error_new("%s: a bundle; nothing can be changed in it", o->root);
		visit_end(&r->visit);
	}
	if (err)
		return err;
	find_order(r, id);
	applied_tell_left(&r->visit.have, problem, ctx);
	return NULL;
}

static void order_end(struct order *r)
{
	findings_free(&r->findings);
	visit_end(&r->visit);
}

struct uh_error *uh_doctor_apply(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem,
				 void *ctx)
{
	struct order r;
	struct uh_error *err = order_begin(&r, o, id, out, problem, ctx);
	if (err)
		return err;
	struct applied *had = record_of(&r);
	err = apply_unread(&r.visit.host, r.request.id);
	if (!err && had)
		err = finish(&r, had);
	else if (!err && !r.finding && !r.remedy)
		err = unknown_id(&r);
	else if (!err && !writes(r.request.change))
		err = by_hand(&r);
	else if (!err)
		err = apply_new(&r);
	order_end(&r);
	return err;
}

static bool was_cut(const struct order *r)
{
	for (size_t n = 0; n < r->visit.have.cut.len; n++)
		if (str_eq(r->visit.have.cut.data[n], r->request.id))
			return true;
	return r->visit.have.empty;
}

static struct uh_error *undo_rest(struct order *r)
{
	const char *directory = r->o->profile ? r->o->profile : ".";
	unsigned removed = 0;
	struct uh_error *err = NULL;
	bool cut = applied_id_good(r->request.id) && was_cut(r),
	     profile = applied_id_good(r->request.id) && profile_there(directory, r->request.id);
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
		err = ask(r, "Undo this?");
	if (!err && cut && !applied_sweep(r->o->root, r->request.id))
		err = uh_error_new(APPLIED_DIRECTORY ": what is left of the record of " STR_FMT " could not be removed",
				   STR_ARG(r->request.id));
	return err ? err : profile_remove(directory, r->request.id, &removed);
}

struct uh_error *uh_doctor_undo(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct order r;
	struct uh_error *err = order_begin(&r, o, id, out, problem, ctx);
	if (err)
		return err;
	struct applied *had = record_of(&r);
	if (r.visit.have_unread)
		err = apply_unread(&r.visit.host, r.request.id);
	else if (had)
		err = may_write(&r);
	if (!err && had)
		applied_find_entries(o->root, had);
	if (!err && had)
		err = carry_out(&r, had, true);
	if (!err && (!had || (applied_id_good(r.request.id) && profile_there(o->profile ? o->profile : ".", r.request.id))))
		err = undo_rest(&r);
	order_end(&r);
	return err;
}
