// unhang doctor: the machine is looked at and held against what is known. unhang remedy: one remedy, as it is done on this machine.
#include "report/doctor.h"

#include <errno.h>

#include "base/door/door.h"
#include "diagnose/doctor/verdict.h"
#include "report/knowledge.h"
#include "session/look.h"
#include "session/visit.h"

// --- what the doctor's commands share ---

struct uh_error *visit_begin(struct visit *v, const struct uh_doctor_options *o, uh_problem_fn *problem, void *ctx)
{
	struct opened what;
	struct teller teller = { problem, ctx };
	struct uh_machine *bundle = NULL;
	struct uh_error *err = o->root ? door_look(&(struct named){ .path = o->root }, &what) : NULL;
	if (!err && o->root && S_ISREG(what.st.st_mode))
		err = uh_machine_open(o->root, &bundle);
	if (err)
		return err;
	if (o->root && !bundle && !S_ISDIR(what.st.st_mode))
		return uh_error_os(ENOTDIR, "%s", o->root);
	*v = (struct visit){ .know = look_knowledge_of(o->machine, teller),
			     .problem = problem,
			     .ctx = ctx,
			     .bundle = bundle,
			     .machine = o->machine };
	struct machine_at at = { .root = bundle ? NULL : o->root,
				 .tape = machine_tape(bundle ? bundle : o->machine, "doctor") };
	host_look_with(v->know, at, o->machine ? o->machine->devices : NULL, &v->host);
	doctor_read_log(&v->host);
	if (bundle) // what unhang changed on that machine is not in it
		return NULL;
	v->have_unread = !host_answers(&v->host, "/etc/unhang") || !host_answers(&v->host, APPLIED_DIRECTORY);
	if (!v->have_unread)
		applied_load_all(o->root, &v->have);
	for (size_t n = 0; n < v->have.problems.len; n++)
		visit_tell(v, STR_FMT, STR_ARG(v->have.problems.data[n]));
	return NULL;
}

void visit_end(struct visit *v)
{
	applied_list_free(&v->have);
	host_free(&v->host);
	look_knowledge_free(v->machine, v->know);
	uh_machine_free(v->bundle);
}

void visit_tell(const struct visit *v, const char *format, ...)
{
	_cleanup_text_ struct text t = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&t, format, ap);
	va_end(ap);
	if (v->problem)
		v->problem(v->ctx, t.p);
}

void applied_tell_left(const struct applied_list *l, uh_problem_fn *problem, void *ctx)
{
	struct visit v = { .problem = problem, .ctx = ctx };
	for (size_t n = 0; n < l->list.len; n++) {
		struct applied *a = l->list.data[n];
		if (a->state != APPLIED_DONE)
			visit_tell(&v, STR_FMT ": %s was interrupted: " STR_FMT " finishes it, --undo " STR_FMT " undoes it",
				   STR_ARG(a->id), a->state == APPLIED_PLANNED ? "writing it" : "undoing it",
				   STR_ARG(DOCTOR(&a->arena, "--apply", a->id)), STR_ARG(a->id));
	}
	if (l->empty)
		visit_tell(&v, "/etc/unhang is empty. Nothing is changed. If a change was interrupted, unhang doctor --undo ID "
			       "removes "
			       "the directory");
	for (size_t n = 0; n < l->cut.len; n++) {
		const struct applied *a = applied_named(l, l->cut.data[n]);
		_cleanup_arena_ struct arena room = { 0 };
		if (!a || a->state == APPLIED_DONE)
			visit_tell(&v, STR_FMT ": %s was interrupted before it changed anything: " STR_FMT " %s",
				   STR_ARG(l->cut.data[n]), a ? "undoing it" : "writing it",
				   STR_ARG(DOCTOR(&room, "--undo", l->cut.data[n])), a ? "undoes it" : "removes what is left");
	}
}

// --- unhang doctor ---

struct uh_error *uh_doctor(const struct uh_doctor_options *o, FILE *out, uh_problem_fn *problem, void *ctx, unsigned *ret_wrong)
{
	enum { WIDTH = 100 };
	_cleanup_(visit_end) struct visit v = { 0 };
	_cleanup_(findings_free) struct findings f = { 0 };
	struct uh_error *err = visit_begin(&v, o, problem, ctx);
	if (err)
		return err;
	doctor_find(v.know, &v.host, &f);
	*ret_wrong = 0;
	for (size_t n = 0; n < f.list.len; n++)
		*ret_wrong += finding_is_wrong(f.list.data[n]);
	const struct doctor_view view = { &v.host, &f, o, out, o->width ? o->width : WIDTH, doctor_verdict(&v.host, &f) };
	if (view.verdict == UH_UNKNOWN)
		err = doctor_why_unknown(&v.host);
	applied_tell_left(&v.have, problem, ctx);
	if (o->json || v.host.devices.n || *ret_wrong)
		report_doctor(&view);
	return err;
}

// --- unhang remedy ---

struct uh_error *uh_remedy(const struct uh_remedy_options *o, const char *id, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	_cleanup_know_ struct know *k = look_knowledge(teller);
	const struct know_remedy *r = know_remedy(k, str_z(id));
	if (!r)
		return look_no_such(k, "remedy", "unhang knowledge list remedy", id);
	_cleanup_(host_free) struct host host;
	_cleanup_arena_ struct arena room = { 0 };
	host_look_beside(k, NULL, &host);
	const struct host_scope scope = { &host, host_machine(&host) };
	const struct fact_view view = { host_get, &scope };
	struct remedy_view v = { .know = k,
				 .remedy = r,
				 .verdict = remedy_judge(k, r, &view, &room),
				 .numbers = remedy_numbers(&r->change, &view, &room),
				 .distribution = host_value(&host, NULL, "distribution") };
	steps_of_remedy(&room, r, k, &view, &v.steps);
	report_remedy(&v, o, out);
	return NULL;
}
