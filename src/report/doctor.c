// What the doctor found, as a table for people or as JSON.
#include "diagnose/doctor.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "base/print.h"
#include "unhang/unhang.h"

enum { LABEL = 12, WIDTH = 100 };

static void put_row(FILE *out, const char *label, struct str text, size_t width)
{
	if (!text.n)
		return;
	fprintf(out, "  %-*s", LABEL - 2, label);
	print_wrapped(out, text, LABEL, LABEL, width);
}

static void put_finding(const struct finding *f, FILE *out, const struct uh_doctor_options *o)
{
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[36m", "\033[32m" };
	size_t width = o->width ? o->width : WIDTH;
	struct text head = { 0 };
	fprintf(out, "%s%-*s%s", o->colour ? colours[f->severity] : "", LABEL, severity_name(f->severity),
		o->colour ? "\033[0m" : "");
	text_printf(&head, STR_FMT "  [" STR_FMT "]", STR_ARG(f->title), STR_ARG(f->id));
	print_wrapped(out, text_str(&head), LABEL, LABEL, width);
	text_free(&head);
	put_row(out, "seen", f->seen, width);
	put_row(out, "why", f->why, width);
	for (size_t n = 0; n < f->steps.len; n++)
		put_row(out, n ? "" : "do", f->steps.data[n], width);
	put_row(out, "check", f->verify, width);
	put_row(out, "costs", f->cost, width);
	put_row(out, "risk", f->risk, width);
	put_row(out, "undo", f->undo, width);
	put_row(out, "until", f->until, width);
	struct text source = { 0 };
	if (f->grade.n)
		text_printf(&source, "grade " STR_FMT ", " STR_FMT, STR_ARG(f->grade), STR_ARG(f->source));
	put_row(out, "source", text_str(&source), width);
	text_free(&source);
}

static void put_text(const struct host *h, const struct findings *f, FILE *out, const struct uh_doctor_options *o)
{
	for (size_t n = 0; n < f->list.len; n++)
		put_finding(f->list.data[n], out, o);
	(void)h;
}

static void jw_known(struct json *j, const char *key, struct str v)
{
	jw_key(j, key);
	if (v.n)
		jw_str(j, v);
	else
		jw_null(j);
}

static void jw_list(struct json *j, const char *key, const struct str *list, size_t n)
{
	jw_key(j, key);
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++)
		jw_str(j, list[i]);
	jw_close(j, ']');
}

static void jw_finding(struct json *j, const struct finding *f)
{
	jw_open(j, '{');
	jw_field(j, "id", f->id);
	jw_field(j, "severity", str_z(severity_name(f->severity)));
	jw_field(j, "title", f->title);
	jw_list(j, "gpus", f->gpus.data, f->gpus.len);
	jw_known(j, "seen", f->seen);
	jw_known(j, "why", f->why);
	jw_list(j, "do", f->steps.data, f->steps.len);
	jw_known(j, "check", f->verify);
	jw_known(j, "undo", f->undo);
	jw_known(j, "cost", f->cost);
	jw_known(j, "risk", f->risk);
	jw_known(j, "until", f->until);
	jw_known(j, "grade", f->grade);
	jw_known(j, "source", f->source);
	jw_close(j, '}');
}

/** Every fact, item by item: what a person would have to collect. */
static void jw_item(struct json *j, const struct host_item *i)
{
	jw_open(j, '{');
	jw_field(j, "kind", i->kind);
	jw_known(j, "gpu", i->gpu ? i->gpu->pci : (struct str){ 0 });
	jw_key(j, "facts");
	jw_open(j, '[');
	for (size_t n = 0; n < i->facts.len; n++) {
		jw_open(j, '{');
		jw_field(j, "name", i->facts.data[n].name);
		jw_field(j, "value", i->facts.data[n].value);
		jw_known(j, "where", i->facts.data[n].where);
		jw_close(j, '}');
	}
	jw_close(j, ']');
	jw_close(j, '}');
}

static void put_json(const struct host *h, const struct findings *f, FILE *out)
{
	struct json j = { .out = out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/doctor/1"));
	jw_key(&j, "machine");
	jw_open(&j, '{');
	jw_known(&j, "root", str_z(h->root));
	jw_key(&j, "items");
	jw_open(&j, '[');
	for (size_t n = 0; n < h->items.len; n++)
		jw_item(&j, h->items.data[n]);
	jw_close(&j, ']');
	jw_close(&j, '}');
	jw_key(&j, "findings");
	jw_open(&j, '[');
	for (size_t n = 0; n < f->list.len; n++)
		jw_finding(&j, f->list.data[n]);
	jw_close(&j, ']');
	jw_close(&j, '}');
}

struct teller {
	uh_problem_fn *problem;
	void *ctx;
};

static void on_knowledge_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	const struct teller *t = ctx;
	struct text full = { 0 };
	text_printf(&full, "%s:%u: %s", file, line, message);
	if (t->problem)
		t->problem(t->ctx, full.p);
	text_free(&full);
}

struct uh_error *uh_doctor(const struct uh_doctor_options *o, FILE *out, uh_problem_fn *problem, void *ctx, unsigned *ret_wrong)
{
	struct teller teller = { problem, ctx };
	struct know_problems problems = { .report = on_knowledge_problem, .ctx = &teller };
	struct know *k = know_load(&problems);
	struct host h;
	struct findings f;
	host_look(k, o->root, &h);
	doctor_read_log(&h);
	doctor_find(k, &h, &f);
	*ret_wrong = 0;
	for (size_t n = 0; n < f.list.len; n++)
		*ret_wrong += f.list.data[n]->severity <= SEVERITY_WARNING;
	if (o->json)
		put_json(&h, &f, out);
	else
		put_text(&h, &f, out, o);
	struct uh_error *err = NULL;
	if (!h.devices.n)
		err = uh_error_new("no AMD GPU is in %s/sys/bus/pci/devices", o->root ? o->root : "");
	findings_free(&f);
	host_free(&h);
	know_free(k);
	return err;
}
