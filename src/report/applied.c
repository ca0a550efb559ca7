#include "report/applied.h"

#include <time.h>

#include "base/print.h"

void report_commands(FILE *out, const char *before, const struct command *const *list, size_t n)
{
	fputs(before, out);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? "; " : " ", out);
		print_safe(out, command_str(list[i]));
	}
	fputc('\n', out);
}

static void put_date(FILE *out, int64_t date)
{
	time_t at = (time_t)date;
	struct tm tm = { 0 };
	gmtime_r(&at, &tm);
	fprintf(out, "%04d-%02d-%02d %02d:%02d UTC", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min);
}

static void put_rows(FILE *out, const char *label, const struct str *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fprintf(out, "  %-8s", label);
		print_safe(out, list[i]);
		fputc('\n', out);
	}
}

static void put_one(const struct applied_view *v, FILE *out)
{
	print_safe(out, v->id);
	fprintf(out, ": %s, since ", v->state);
	put_date(out, v->date);
	fputs("\n  ", out);
	print_safe(out, v->title);
	fputc('\n', out);
	put_rows(out, "sets", v->sets, v->nsets);
	put_rows(out, "in", v->files, v->nfiles);
	put_rows(out, "but", v->why, v->nwhy);
	if (v->needless)
		fprintf(out, "  versions here make it unnecessary: " STR_FMT "\n", STR_ARG(v->undo));
	if (v->until) {
		fputs("  ", out);
		report_commands(out, v->until, v->commands, v->ncommands);
	}
}

static void jw_texts(struct json *j, const char *key, const struct str *list, size_t n)
{
	jw_key(j, key);
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++)
		jw_str(j, list[i]);
	jw_close(j, ']');
}

static void jw_one(const struct applied_view *v, struct json *j)
{
	jw_open(j, '{');
	jw_field(j, "id", v->id);
	jw_field(j, "title", v->title);
	jw_field(j, "state", str_z(v->state));
	jw_key(j, "date");
	jw_int(j, v->date);
	jw_key(j, "needed");
	jw_bool(j, !v->needless);
	jw_texts(j, "sets", v->sets, v->nsets);
	jw_texts(j, "files", v->files, v->nfiles);
	jw_texts(j, "why", v->why, v->nwhy);
	jw_commands(j, "not_active_until", v->commands, v->ncommands);
	jw_close(j, '}');
}

void report_applied_begin(struct applied_report *r, bool as_json, FILE *out)
{
	*r = (struct applied_report){ .as_json = as_json, .json = { .out = out } };
	if (!as_json)
		return;
	jw_open(&r->json, '{');
	jw_field(&r->json, "schema", S("unhang/applied/1"));
	jw_key(&r->json, "applied");
	jw_open(&r->json, '[');
}

void report_applied(struct applied_report *r, const struct applied_view *v)
{
	if (r->as_json)
		jw_one(v, &r->json);
	else
		put_one(v, r->json.out);
	r->shown++;
}

void report_applied_end(struct applied_report *r)
{
	if (r->as_json) {
		jw_close(&r->json, ']');
		jw_close(&r->json, '}');
	} else if (!r->shown) {
		fputs("unhang has changed nothing here.\n", r->json.out);
	}
}
