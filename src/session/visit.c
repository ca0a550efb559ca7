#include "session/visit.h"

#include <errno.h>

#include "base/door/door.h"
#include "base/error.h"
#include "session/look.h"
#include "session/machine.h"

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
	*v = (struct visit){ .know = look_knowledge_of(o->machine, &teller),
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
	struct text t = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&t, format, ap);
	va_end(ap);
	if (v->problem)
		v->problem(v->ctx, t.p);
	text_free(&t);
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
		visit_tell(&v, "/etc/unhang is empty. Nothing is changed. If a change was interrupted, unhang doctor --undo ID removes "
			       "the directory");
	for (size_t n = 0; n < l->cut.len; n++) {
		const struct applied *a = applied_named(l, l->cut.data[n]);
		struct arena room = { 0 };
		if (!a || a->state == APPLIED_DONE)
			visit_tell(&v, STR_FMT ": %s was interrupted before it changed anything: " STR_FMT " %s",
				   STR_ARG(l->cut.data[n]), a ? "undoing it" : "writing it",
				   STR_ARG(DOCTOR(&room, "--undo", l->cut.data[n])), a ? "undoes it" : "removes what is left");
		arena_free(&room);
	}
}
