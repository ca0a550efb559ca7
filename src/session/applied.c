// Changes that were made: their list, and whether they are in effect.
#include "report/applied.h"

#include <stdlib.h>

#include "base/error.h"
#include "session/visit.h"

static void write_one(struct applied_report *r, const struct host *h, const struct applied *a, const struct judged *j)
{
	struct arena room = { 0 };
	struct apply_commands commands = { 0 };
	struct str *sets = arena_alloc(&room, a->sets.len * sizeof(*sets) + 1);
	struct str *files = arena_alloc(&room, a->files.len * sizeof(*files) + 1);
	for (size_t n = 0; n < a->sets.len; n++)
		sets[n] =
			arena_printf(&room, STR_FMT "=" STR_FMT, STR_ARG(a->sets.data[n].name), STR_ARG(a->sets.data[n].value));
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
		.nsets = a->sets.len,
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
	apply_commands_free(&commands);
	arena_free(&room);
}

static void write_all(struct visit *v, const char *id, struct applied_report *r, unsigned *ret_half, unsigned *ret_wrong)
{
	const int64_t booted = boot_time(&v->host);
	for (size_t n = 0; n < v->have.list.len; n++) {
		const struct applied *a = v->have.list.data[n];
		struct judged judged;
		if (id && !str_is(a->id, id))
			continue;
		applied_judge(&v->host, a, booted, &judged);
		*ret_half += judged.state == JUDGED_HALF;
		*ret_wrong += judged.state != JUDGED_ACTIVE;
		write_one(r, &v->host, a, &judged);
		apply_notes_free(&judged.why);
	}
}

struct uh_error *uh_doctor_applied(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem,
				   void *ctx, unsigned *ret_half, unsigned *ret_wrong)
{
	struct visit v;
	struct applied_report r;
	struct uh_error *err = visit_begin(&v, o, problem, ctx);
	if (!err && v.bundle) {
		err = uh_error_new("%s: a bundle, which does not tell what unhang changed", o->root);
		visit_end(&v);
	}
	if (err)
		return err;
	*ret_wrong = 0;
	*ret_half = (unsigned)(v.have.problems.len + v.have.cut.len);
	applied_tell_left(&v.have, problem, ctx);
	if (v.have_unread)
		err = uh_error_new(APPLIED_DIRECTORY " did not answer, so what was changed is unknown");
	else if (id && !applied_named(&v.have, str_z(id)))
		err = uh_error_new("%s: it is not applied; unhang doctor --list-applied shows what is", id);
	if (!err) {
		report_applied_begin(&r, o->json, out);
		write_all(&v, id, &r, ret_half, ret_wrong);
		report_applied_end(&r);
	}
	visit_end(&v);
	return err;
}
