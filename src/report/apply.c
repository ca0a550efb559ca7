// unhang doctor --apply and --undo: what would be written is shown, then asked, then done.
#include "report/apply.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/print.h"
#include "source/source.h"

enum { LABEL = 8, WIDTH = 100 };

/** What is asked for, as a finding of this machine or as a remedy. */
struct order {
	struct visit visit;
	const struct uh_doctor_options *o;
	FILE *out;
	struct findings findings;
	const struct finding *finding;
	const struct know_remedy *remedy;
	struct apply_request request; // change NULL: there is none
};

static void put_row(const struct order *r, const char *label, struct str text)
{
	if (!text.n)
		return;
	fprintf(r->out, "  %-*s", LABEL, label);
	print_wrapped(r->out, text, LABEL + 2, LABEL + 2, r->o->width ? r->o->width : WIDTH);
}

static void put_head(const struct order *r)
{
	print_safe(r->out, r->request.id);
	fputs(": ", r->out);
	print_safe(r->out, r->request.title); // with facts of the machine in it
	fputc('\n', r->out);
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
	if (r->finding)
		r->request.change = r->finding->change;
	else if (r->remedy)
		r->request.change = &r->remedy->change;
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
		uh_error_new(STR_FMT ": no finding of this machine and no remedy has this id; these can be applied: " STR_FMT,
			     STR_ARG(r->request.id), STR_ARG(t.n ? text_str(&t) : S("none")));
	text_free(&t);
	return err;
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
					fprintf(r->out, "  " STR_FMT ": unhang set it: unhang doctor --undo " STR_FMT "\n",
						STR_ARG(drops->text), STR_ARG(a->id));
		}
		for (size_t n = 0; n < h->items.len; n++) {
			const struct host_scope scope = { h, h->items.data[n] };
			struct str name, value, place;
			if (!str_is(h->items.data[n]->kind, "setting") || !host_get(&scope, S("name"), 0, &name) ||
			    !str_eq(name, drops->text) || !host_get(&scope, S("value"), 0, &value) ||
			    !host_get(&scope, S("written"), 0, &place) || str_starts(place, S("/proc/")))
				continue;
			fputs("  ", r->out);
			print_safe(r->out, place);
			fputs(": take out ", r->out);
			print_safe(r->out, name);
			fputc('=', r->out);
			print_safe(r->out, value);
			fputs(" by hand\n", r->out);
		}
	}
}

static struct uh_error *by_hand(const struct order *r)
{
	put_head(r);
	if (r->finding)
		for (size_t n = 0; n < r->finding->steps.len; n++)
			put_row(r, n ? "" : "do", r->finding->steps.data[n]);
	else
		for (const struct know_list *s = r->remedy->steps; s; s = s->next)
			put_row(r, s == r->remedy->steps ? "do" : "", s->text);
	if (r->request.change)
		put_drops(r, r->request.change->drops);
	return uh_error_new(STR_FMT ": there is nothing that unhang could write; its steps are done by hand",
			    STR_ARG(r->request.id));
}

static size_t common(struct str a, struct str b)
{
	size_t n = 0, line = 0;
	for (; n < a.n && n < b.n && a.p[n] == b.p[n]; n++)
		if (a.p[n] == '\n')
			line = n + 1;
	return n == a.n && n == b.n ? n : line;
}

static void put_lines(FILE *out, char mark, struct str text)
{
	while (text.n) {
		fprintf(out, "  %c ", mark);
		print_safe(out, str_split(&text, '\n'));
		fputc('\n', out);
	}
}

/** The lines that differ. */
static void put_difference(FILE *out, struct str before, struct str after)
{
	size_t front = common(before, after);
	before = str_from(before, front);
	after = str_from(after, front);
	while (before.n && after.n) {
		size_t b = before.n - 1, a = after.n - 1;
		while (b && before.p[b - 1] != '\n')
			b--;
		while (a && after.p[a - 1] != '\n')
			a--;
		if (!str_eq(str_from(before, b), str_from(after, a)))
			break;
		before.n = b;
		after.n = a;
	}
	put_lines(out, '-', before);
	put_lines(out, '+', after);
}

static struct uh_error *put_files(const struct order *r, const struct applied *a, bool undo)
{
	struct uh_error *err = NULL;
	for (size_t n = 0; n < a->files.len && !err; n++) {
		struct arena room = { 0 };
		struct own_preview p;
		err = own_preview(r->o->root, a, &a->files.data[n], undo, &room, &p);
		if (!err) {
			print_safe(r->out, a->files.data[n].path);
			fputs(!p.there_before && !p.there_after ? " (it is gone)\n" :
			      !p.there_before                   ? " (a new file)\n" :
			      !p.there_after                    ? " (it is deleted)\n" :
			      str_eq(p.before, p.after)         ? " (it has nothing to change)\n" :
								  "\n",
			      r->out);
			put_difference(r->out, p.before, p.there_after ? p.after : (struct str){ 0 });
		}
		arena_free(&room);
	}
	return err;
}

static struct uh_error *ask(const struct order *r, const char *question)
{
	fflush(r->out);
	if (r->o->yes || (r->o->ask && r->o->ask(question)))
		return NULL;
	return uh_error_new(r->o->ask ? "nothing was done" : "nothing was done: there is no terminal to ask on, and no --yes");
}

static struct uh_error *may_write(const struct order *r)
{
	const struct host *h = &r->visit.host;
	const struct host_fact *container = host_fact(h, host_machine(h), S("container"), 0);
	if (container ? str_is(container->value, "yes") : !r->o->root && source_in_container())
		return uh_error_new("this is a container: parameters of the kernel are set on its host");
	if (!r->o->root && !r->o->dry_run && geteuid())
		return uh_error_new("only root may change this machine: run it with sudo");
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
		put_commands(&r->visit.host, a, undo, r->out, "no file is changed; to be run afterwards:");
	if (r->o->dry_run)
		return NULL;
	err = ask(r, undo ? "Take this back?" : "Write this?");
	if (err)
		return err;
	err = undo ? applied_undo(r->o->root, a) : applied_do(r->o->root, a);
	if (err)
		tell_left(r);
	else
		put_commands(&r->visit.host, a, undo, r->out,
			     undo     ? "taken back; what is in effect stays until:" :
			     a->kargs ? "noted, not active until:" :
					"written, not active until:");
	return err;
}

/** Why a remedy that is no finding here is not for any GPU of this machine; empty where it may be. */
static struct str unfit(struct order *r)
{
	const struct host *h = &r->visit.host;
	const struct know_remedy *m = r->remedy;
	bool others = !r->finding && h->devices.n, excepted = false;
	for (size_t n = 0; others && n < h->items.len; n++) {
		const struct host_scope scope = { h, h->items.data[n] };
		const struct fact_view view = { host_get, &scope };
		if (!str_is(h->items.data[n]->kind, "gpu"))
			continue;
		bool wrong = condition_eval(m->when, &view) == TRUTH_NO;
		excepted |= !wrong && m->unless && condition_eval(m->unless, &view) == TRUTH_YES;
		others = wrong || excepted;
	}
	if (!others)
		return (struct str){ 0 };
	if (excepted)
		return S("with the firmware or versions of this machine it does not help, or is not needed");
	return arena_printf(&r->visit.host.arena, "it is not known to help here" STR_FMT STR_FMT,
			    STR_ARG(m->condition_text.n ? S(": it is for the case that ") : S("")), STR_ARG(m->condition_text));
}

static void put_order(struct order *r, const struct apply_notes *notes)
{
	const struct finding *f = r->finding;
	const struct know_remedy *m = r->remedy;
	put_head(r);
	put_row(r, "costs", f ? f->cost : m->cost);
	put_row(r, "risk", f ? f->risk : m->risk);
	put_row(r, "until", f ? f->until : m->until);
	put_row(r, "check", f ? f->verify : m->verify);
	put_row(r, "undo", arena_printf(&r->visit.host.arena, "unhang doctor --undo " STR_FMT, STR_ARG(r->request.id)));
	for (size_t n = 0; n < notes->list.len; n++)
		put_row(r, "note", notes->list.data[n]);
	put_row(r, "BUT", unfit(r));
}

static struct uh_error *apply_profile(const struct order *r)
{
	const char *directory = r->o->profile ? r->o->profile : ".";
	struct text t = { 0 };
	struct uh_error *err = profile_text(&r->request, &t);
	fprintf(r->out, "%s/" STR_FMT ".sh (and .json): variables for one job, nothing of the system\n", directory,
		STR_ARG(r->request.id));
	put_lines(r->out, '+', text_str(&t));
	text_free(&t);
	if (!err && r->o->dry_run)
		return NULL;
	if (!err)
		err = ask(r, "Write this?");
	if (!err)
		err = profile_write(directory, &r->request);
	if (!err)
		fprintf(r->out, "written, not active until: . %s/" STR_FMT ".sh in the shell of the job\n", directory,
			STR_ARG(r->request.id));
	return err;
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
		return uh_error_new(STR_FMT ": it is applied already; unhang doctor --verify " STR_FMT
					    " says whether it is in effect",
				    STR_ARG(a->id), STR_ARG(a->id));
	return err ? err : carry_out(r, a, false);
}

static struct uh_error *order_begin(struct order *r, const struct uh_doctor_options *o, const char *id, FILE *out,
				    uh_problem_fn *problem, void *ctx)
{
	*r = (struct order){ .o = o, .out = out };
	struct uh_error *err = visit_begin(&r->visit, o, problem, ctx);
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
		fprintf(r->out, "%s/" STR_FMT ".sh and .json (they are deleted)\n", directory, STR_ARG(r->request.id));
	if (cut)
		fprintf(r->out, "what is left of a record that was never finished (it is deleted)\n");
	if (r->o->dry_run)
		return NULL;
	if (cut)
		err = may_write(r);
	if (!err)
		err = ask(r, "Take this back?");
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
