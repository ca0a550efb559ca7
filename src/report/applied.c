// Changes that were made: their list, and whether they are in effect.
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/door.h"
#include "base/error.h"
#include "base/json.h"
#include "base/print.h"
#include "report/apply.h"
#include "report/look.h"

struct uh_error *visit_begin(struct visit *v, const struct uh_doctor_options *o, uh_problem_fn *problem, void *ctx)
{
	struct opened what;
	struct teller teller = { problem, ctx };
	struct uh_error *err = o->root ? door_look(&(struct named){ .path = o->root }, &what) : NULL;
	if (err)
		return err;
	if (o->root && !S_ISDIR(what.st.st_mode))
		return uh_error_os(ENOTDIR, "%s", o->root);
	*v = (struct visit){ .know = look_knowledge(&teller), .problem = problem, .ctx = ctx };
	host_look(v->know, o->root, &v->host);
	doctor_read_log(&v->host);
	applied_load_all(o->root, &v->have);
	for (size_t n = 0; n < v->have.problems.len; n++)
		visit_tell(v, STR_FMT, STR_ARG(v->have.problems.data[n]));
	return NULL;
}

void visit_end(struct visit *v)
{
	applied_list_free(&v->have);
	host_free(&v->host);
	know_free(v->know);
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
		struct str id = l->list.data[n]->id;
		if (l->list.data[n]->state != APPLIED_DONE)
			visit_tell(&v,
				   STR_FMT ": %s was cut short: unhang doctor --apply " STR_FMT " finishes it, --undo " STR_FMT
					   " takes it back",
				   STR_ARG(id), l->list.data[n]->state == APPLIED_PLANNED ? "writing it" : "taking it back",
				   STR_ARG(id), STR_ARG(id));
	}
	if (l->empty)
		visit_tell(&v, "/etc/unhang: it is empty: a change was cut short before or after all that it wrote; "
			       "unhang doctor --undo ID removes it");
	for (size_t n = 0; n < l->cut.len; n++) {
		const struct applied *a = applied_named(l, l->cut.data[n]);
		if (!a || a->state == APPLIED_DONE)
			visit_tell(&v,
				   STR_FMT ": %s was cut short before anything was changed: unhang doctor --undo " STR_FMT
					   " %s",
				   STR_ARG(l->cut.data[n]), a ? "taking it back" : "writing it", STR_ARG(l->cut.data[n]),
				   a ? "takes it back" : "removes what is left");
	}
}

void put_commands(const struct host *h, const struct applied *a, bool undo, FILE *out, const char *before)
{
	struct apply_notes commands = { 0 };
	applied_commands(h, a, undo, &commands);
	fputs(before, out);
	for (size_t n = 0; n < commands.list.len; n++) {
		fputs(n ? "; " : " ", out);
		print_safe(out, commands.list.data[n]);
	}
	fputc('\n', out);
	apply_notes_free(&commands);
}

void print_date(FILE *out, int64_t date)
{
	time_t at = (time_t)date;
	struct tm tm = { 0 };
	gmtime_r(&at, &tm);
	fprintf(out, "%04d-%02d-%02d %02d:%02d UTC", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min);
}

static void put_one(const struct host *h, const struct applied *a, const struct judged *j, FILE *out)
{
	print_safe(out, a->id);
	fprintf(out, ": %s, since ", judged_name(j->state));
	print_date(out, a->date);
	fputs("\n  ", out);
	print_safe(out, a->title);
	fputc('\n', out);
	for (size_t n = 0; n < a->sets.len; n++)
		fprintf(out, "  sets    " STR_FMT "=" STR_FMT "\n", STR_ARG(a->sets.data[n].name),
			STR_ARG(a->sets.data[n].value));
	for (size_t n = 0; n < a->files.len; n++) {
		fputs("  in      ", out);
		print_safe(out, a->files.data[n].path);
		fputc('\n', out);
	}
	for (size_t n = 0; n < j->why.list.len; n++) {
		fputs("  but     ", out);
		print_safe(out, j->why.list.data[n]);
		fputc('\n', out);
	}
	if (j->needless)
		fprintf(out, "  versions here make it unnecessary: unhang doctor --undo " STR_FMT "\n", STR_ARG(a->id));
	if (j->state == JUDGED_WRITTEN)
		put_commands(h, a, false, out, a->kargs ? "  noted, not active until:" : "  written, not active until:");
}

static void jw_notes(struct json *j, const char *key, const struct apply_notes *notes)
{
	jw_key(j, key);
	jw_open(j, '[');
	for (size_t n = 0; n < notes->list.len; n++)
		jw_str(j, notes->list.data[n]);
	jw_close(j, ']');
}

static void jw_one(const struct host *h, const struct applied *a, const struct judged *judged, struct json *j)
{
	struct apply_notes commands = { 0 }, files = { 0 }, sets = { 0 };
	for (size_t n = 0; n < a->files.len; n++)
		apply_note(&files, STR_FMT, STR_ARG(a->files.data[n].path));
	for (size_t n = 0; n < a->sets.len; n++)
		apply_note(&sets, STR_FMT "=" STR_FMT, STR_ARG(a->sets.data[n].name), STR_ARG(a->sets.data[n].value));
	if (judged->state == JUDGED_WRITTEN)
		applied_commands(h, a, false, &commands);
	jw_open(j, '{');
	jw_field(j, "id", a->id);
	jw_field(j, "title", a->title);
	jw_field(j, "state", str_z(judged_name(judged->state)));
	jw_key(j, "date");
	jw_int(j, a->date);
	jw_key(j, "needed");
	jw_bool(j, !judged->needless);
	jw_notes(j, "sets", &sets);
	jw_notes(j, "files", &files);
	jw_notes(j, "why", &judged->why);
	jw_notes(j, "not_active_until", &commands);
	jw_close(j, '}');
	apply_notes_free(&commands);
	apply_notes_free(&files);
	apply_notes_free(&sets);
}

static void put_all(struct visit *v, const char *id, bool json, FILE *out, unsigned *ret_half, unsigned *ret_wrong)
{
	struct json j = { .out = out };
	size_t shown = 0;
	int64_t booted = boot_time(&v->host);
	if (json) {
		jw_open(&j, '{');
		jw_field(&j, "schema", S("unhang/applied/1"));
		jw_key(&j, "applied");
		jw_open(&j, '[');
	}
	for (size_t n = 0; n < v->have.list.len; n++) {
		const struct applied *a = v->have.list.data[n];
		struct judged judged;
		if (id && !str_is(a->id, id))
			continue;
		applied_judge(&v->host, a, booted, &judged);
		*ret_half += judged.state == JUDGED_HALF;
		*ret_wrong += judged.state != JUDGED_ACTIVE;
		if (json)
			jw_one(&v->host, a, &judged, &j);
		else
			put_one(&v->host, a, &judged, out);
		apply_notes_free(&judged.why);
		shown++;
	}
	if (json) {
		jw_close(&j, ']');
		jw_close(&j, '}');
	} else if (!shown) {
		fputs("unhang has changed nothing here.\n", out);
	}
}

struct uh_error *uh_doctor_applied(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem,
				   void *ctx, unsigned *ret_half, unsigned *ret_wrong)
{
	struct visit v;
	struct uh_error *err = visit_begin(&v, o, problem, ctx);
	if (err)
		return err;
	*ret_wrong = 0;
	*ret_half = (unsigned)(v.have.problems.len + v.have.cut.len) + v.have.empty;
	applied_tell_left(&v.have, problem, ctx);
	if (id && !applied_named(&v.have, str_z(id)))
		err = uh_error_new("%s: it is not applied; unhang doctor --list-applied shows what is", id);
	else
		put_all(&v, id, o->json, out, ret_half, ret_wrong);
	visit_end(&v);
	return err;
}
