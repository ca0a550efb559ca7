// What the doctor found, as a table for people or as JSON.
#include "report/doctor.h"

#include "base/json.h"
#include "base/print.h"
#include "diagnose/doctor/verdict.h"
#include "report/report.h"

enum {
	SEVERITY_WIDTH = 10,
	LABEL_WIDTH = 8,
	INDENT = SEVERITY_WIDTH + LABEL_WIDTH,
	TITLE_FEW = 2,
	NAME_WIDTH = 28,
	STEP_WIDTH = 3
};

/** What is to be dropped, the user drops. */
static bool can_apply(const struct finding *f)
{
	return f->change && (f->change->sets || f->change->clears || f->change->envs);
}

// --- text ---

static void add_part(struct text *to, const char *before, struct str value)
{
	if (value.n)
		text_printf(to, "%s%s%s" STR_FMT, to->n ? ", " : "", before, *before ? " " : "", STR_ARG(value));
}

static void put_line(const struct doctor_view *v, struct text *line, size_t indent)
{
	print_wrapped(v->out, text_str(line), indent, 0, v->width);
	text_free(line);
}

/** A fact of the machine that is not in doubt; else empty. */
static struct str said(const struct host *h, const char *name)
{
	const struct host_fact *f = host_fact(h, host_machine(h), str_z(name), 0);
	return f && !f->doubt ? f->value : (struct str){ 0 };
}

/** `kernel 6.8.0-90-generic, amdgpu of the kernel, ROCm 7.1.1, ubuntu 24.04`. */
static void put_machine(const struct doctor_view *v)
{
	const struct host *h = v->host;
	struct text line = { 0 };
	struct str driver = said(h, "driver_kind"), version = said(h, "driver");
	add_part(&line, "kernel", said(h, "kernel"));
	if (driver.n)
		text_printf(&line, "%samdgpu " STR_FMT "%s" STR_FMT, line.n ? ", " : "", STR_ARG(driver), version.n ? " " : "",
			    STR_ARG(version));
	add_part(&line, "ROCm", said(h, "rocm"));
	add_part(&line, "", said(h, "distribution"));
	if (said(h, "distribution").n && said(h, "distribution_version").n)
		text_printf(&line, " " STR_FMT, STR_ARG(said(h, "distribution_version")));
	if (str_is(said(h, "container"), "yes"))
		add_part(&line, "", S("in a container"));
	if (line.n)
		put_line(v, &line, 2);
	else
		text_free(&line);
}

/** Engines whose firmware is most asked for; --verbose and --json have all. */
static const char *const asked_firmware[] = { "fw_mes", "fw_mec", "fw_smu", "fw_sdma0", "fw_dmcub" };

static bool same_board(const struct host *h, const struct host_item *a, const struct host_item *b)
{
	bool same = str_eq(a->gpu->name, b->gpu->name) && str_eq(a->gpu->gfx, b->gpu->gfx);
	for (size_t n = 0; n < sizeof(asked_firmware) / sizeof(asked_firmware[0]); n++)
		same &= str_eq(host_value(h, a, asked_firmware[n]), host_value(h, b, asked_firmware[n]));
	return same;
}

static struct str short_address(struct str pci) { return str_starts(pci, S("0000:")) ? str_from(pci, 5) : pci; }

/** Eight GPUs that are the same are one line. */
static void put_gpus(const struct doctor_view *v)
{
	const struct host *h = v->host;
	for (size_t n = 0; n < h->items.len; n++) {
		const struct host_item *i = h->items.data[n];
		bool first = str_is(i->kind, "gpu");
		for (size_t p = 0; first && p < n; p++)
			first = !str_is(h->items.data[p]->kind, "gpu") || !same_board(h, h->items.data[p], i);
		if (!first)
			continue;
		struct text line = { 0 };
		text_printf(&line, STR_FMT, STR_ARG(i->gpu->pci));
		for (size_t p = n + 1; p < h->items.len; p++)
			if (str_is(h->items.data[p]->kind, "gpu") && same_board(h, i, h->items.data[p]))
				text_printf(&line, " " STR_FMT, STR_ARG(short_address(h->items.data[p]->gpu->pci)));
		text_printf(&line, "  " STR_FMT, STR_ARG(i->gpu->name.n ? i->gpu->name : S("AMD GPU")));
		if (i->gpu->gfx.n)
			text_printf(&line, " (" STR_FMT ")", STR_ARG(i->gpu->gfx));
		const char *before = "  firmware ";
		for (size_t f = 0; f < sizeof(asked_firmware) / sizeof(asked_firmware[0]); f++) {
			struct str version = host_value(h, i, asked_firmware[f]);
			if (!version.n)
				continue;
			text_printf(&line, "%s", before);
			for (const char *c = asked_firmware[f] + 3; *c; c++)
				text_printf(&line, "%c", *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
			text_printf(&line, " " STR_FMT, STR_ARG(version));
			before = ", ";
		}
		put_line(v, &line, 14);
	}
}

static void put_severity(const struct doctor_view *v, enum know_severity s)
{
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[36m", "\033[32m" };
	fprintf(v->out, "%s%-*s%s", v->options->colour ? colours[s] : "", SEVERITY_WIDTH, severity_name(s),
		v->options->colour ? "\033[0m" : "");
}

/** @more: what lines behind the first are indented beyond it. */
static void put_row_at(const struct doctor_view *v, const char *label, struct str text, size_t more)
{
	if (!text.n)
		return;
	fprintf(v->out, "%*s%-*s", SEVERITY_WIDTH, "", LABEL_WIDTH, label);
	print_wrapped(v->out, text, INDENT + more, INDENT, v->width);
}

static void put_row(const struct doctor_view *v, const char *label, struct str text) { put_row_at(v, label, text, 0); }

static void put_command(const struct doctor_view *v, const char *label, const struct command *c)
{
	put_row(v, label, command_str(c));
}

static void put_title(const struct doctor_view *v, const struct finding *f)
{
	struct text head = { 0 };
	put_severity(v, f->severity);
	text_printf(&head, STR_FMT " [" STR_FMT "]", STR_ARG(f->title), STR_ARG(f->id));
	print_wrapped(v->out, text_str(&head), SEVERITY_WIDTH, SEVERITY_WIDTH, v->width);
	text_free(&head);
}

static void put_steps(const struct doctor_view *v, const struct finding *f)
{
	for (size_t n = 0; n < f->steps.n; n++) {
		struct text step = { 0 };
		if (f->steps.n > 1)
			text_printf(&step, "%zu. ", n + 1);
		text_add(&step, command_str(f->steps.list[n]));
		put_row_at(v, n ? "" : "Do", text_str(&step), f->steps.n > 1 ? STEP_WIDTH : 0);
		text_free(&step);
	}
}

/** GPUs are only named where not every one has it. */
static void put_which(const struct doctor_view *v, const struct finding *f)
{
	struct text which = { 0 };
	for (size_t n = 0; n < f->gpus.len; n++)
		text_printf(&which, "%s" STR_FMT, n ? ", " : "", STR_ARG(f->gpus.data[n]));
	if (v->host->devices.n > 1 && f->gpus.len < v->host->devices.n)
		put_row(v, "GPU", text_str(&which));
	text_free(&which);
}

static void put_finding(const struct doctor_view *v, const struct finding *f)
{
	struct text source = { 0 };
	put_title(v, f);
	put_which(v, f);
	put_row(v, "Seen", f->seen);
	put_row(v, "Why", f->why);
	put_steps(v, f);
	put_command(v, "Check", f->steps.verify);
	put_command(v, "Costs", f->steps.cost);
	put_command(v, "Risk", f->steps.risk);
	put_command(v, "Undo", f->steps.undo);
	put_command(v, "Until", f->steps.until);
	if (f->grade.n)
		text_printf(&source, "grade " STR_FMT ", " STR_FMT, STR_ARG(f->grade), STR_ARG(f->source));
	put_row(v, "Source", text_str(&source));
	text_free(&source);
}

/** A title names the part: where there are several of it, and not all are meant, how many. */
static struct str good_title(const struct doctor_view *v, const struct finding *f, struct text *to)
{
	size_t same = 0;
	for (size_t n = 0; n < v->host->devices.n && f->item->gpu; n++)
		same += str_eq(v->host->devices.list[n].name, f->item->gpu->name);
	text_add(to, f->title);
	if (f->gpus.len && f->gpus.len < same)
		text_printf(to, " (%zu of %zu GPUs)", f->gpus.len, same);
	return text_str(to);
}

static void put_good(const struct doctor_view *v)
{
	for (size_t n = 0; n < v->findings->list.len; n++) {
		const struct finding *f = v->findings->list.data[n];
		struct text title = { 0 };
		if (f->severity != SEVERITY_OK)
			continue;
		put_severity(v, f->severity);
		print_wrapped(v->out, good_title(v, f, &title), SEVERITY_WIDTH, SEVERITY_WIDTH, v->width);
		text_free(&title);
	}
}

static void put_facts(const struct doctor_view *v)
{
	for (size_t n = 0; n < v->host->items.len; n++) {
		const struct host_item *i = v->host->items.data[n];
		fprintf(v->out, "\n" STR_FMT "%s", STR_ARG(i->kind), i->gpu ? " " : "");
		if (i->gpu)
			print_safe(v->out, i->gpu->pci);
		fputc('\n', v->out);
		for (size_t f = 0; f < i->facts.len; f++) {
			struct str name = i->facts.data[f]->name; // of a parameter: what a directory has
			if (i->facts.data[f]->doubt)
				continue;
			fputs("  ", v->out);
			print_safe(v->out, name);
			fprintf(v->out, "%*s ", name.n < NAME_WIDTH ? (int)(NAME_WIDTH - name.n) : 0, "");
			print_safe(v->out, i->facts.data[f]->value);
			fputs("   ", v->out);
			print_safe(v->out, i->facts.data[f]->where);
			fputc('\n', v->out);
		}
	}
}

static void put_hint(const struct doctor_view *v, struct str hint)
{
	fputc('\n', v->out);
	print_wrapped(v->out, hint, 0, 0, v->width);
}

static void put_late(const struct doctor_view *v)
{
	enum { NAMED = 3 };
	const struct host_fact *f;
	struct text late = { 0 };
	size_t count = 0;
	for (size_t n = 0; (f = host_fact(v->host, host_machine(v->host), S("unread"), n)); n++) {
		if (unread_is_late(f) && count++ < NAMED)
			text_printf(&late, "%s" STR_FMT, late.n ? ", " : "Not read, as it gave no answer: ", STR_ARG(f->value));
	}
	if (count > NAMED)
		text_printf(&late, " and %zu more", count - NAMED);
	if (count) {
		text_printf(&late, ". What depends on it was not checked.");
		put_hint(v, text_str(&late));
	}
	text_free(&late);
}

static void put_unread(const struct doctor_view *v)
{
	const struct host *h = v->host;
	const struct host_fact *f;
	struct text refused = { 0 }, blind = { 0 };
	put_late(v);
	for (size_t n = 0; (f = host_fact(h, host_machine(h), S("unread"), n)); n++)
		if (!unread_is_late(f))
			text_printf(&refused, "%s" STR_FMT,
				    refused.n ? ", " : "Not read for want of permission: ", STR_ARG(f->value));
	for (size_t n = 0; n < h->items.len; n++)
		if (str_is(h->items.data[n]->kind, "gpu") && h->items.data[n]->gpu->driver.n &&
		    !firmware_known(h->items.data[n]))
			text_printf(&blind, "%s" STR_FMT, blind.n ? ", " : "", STR_ARG(h->items.data[n]->gpu->pci));
	if (refused.n)
		text_printf(&refused, "; as root unhang would see them: sudo unhang doctor%s", blind.n ? ". " : "");
	if (blind.n)
		text_printf(&refused,
			    "The firmware of " STR_FMT " could not be looked at: its versions are in nothing that was read",
			    STR_ARG(text_str(&blind)));
	if (refused.n)
		put_hint(v, text_str(&refused));
	text_free(&refused);
	text_free(&blind);
}

/** First all of them, a line each, where they do not fit on a screen; then each in full. */
static void put_text(const struct doctor_view *v)
{
	const struct findings *f = v->findings;
	size_t bad = 0, change = 0;
	for (size_t n = 0; n < f->list.len; n++) {
		bad += f->list.data[n]->severity != SEVERITY_OK;
		change += f->list.data[n]->severity != SEVERITY_OK && can_apply(f->list.data[n]);
	}
	put_machine(v);
	put_gpus(v);
	for (size_t n = 0; bad > TITLE_FEW && n < f->list.len; n++) {
		if (!n)
			fputc('\n', v->out);
		if (f->list.data[n]->severity != SEVERITY_OK)
			put_title(v, f->list.data[n]);
	}
	for (size_t n = 0; n < f->list.len; n++) {
		if (f->list.data[n]->severity == SEVERITY_OK)
			continue;
		fputc('\n', v->out);
		put_finding(v, f->list.data[n]);
	}
	fputc('\n', v->out);
	put_good(v);
	if (!bad && v->verdict == UH_HEALTHY)
		fputs("Nothing is known against this machine.\n", v->out);
	else if (!bad)
		fputs("Nothing is known against this machine in what could be read; that was not enough for an all-clear.\n",
		      v->out);
	if (change)
		put_hint(v,
			 S("unhang doctor --apply ID makes such a change in a file of its own, and --undo ID takes it back."));
	put_unread(v);
	if (v->options->verbose)
		put_facts(v);
}

// --- JSON ---

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
	jw_commands(j, "do", f->steps.list, f->steps.n);
	jw_command(j, "check", f->steps.verify);
	jw_command(j, "undo", f->steps.undo);
	jw_command(j, "cost", f->steps.cost);
	jw_command(j, "risk", f->steps.risk);
	jw_command(j, "until", f->steps.until);
	jw_known(j, "grade", f->grade);
	jw_known(j, "source", f->source);
	jw_key(j, "can_apply");
	jw_bool(j, can_apply(f));
	jw_close(j, '}');
}

static void jw_facts(struct json *j, const struct host_item *i)
{
	jw_key(j, "facts");
	jw_open(j, '[');
	for (size_t n = 0; n < i->facts.len; n++) {
		if (i->facts.data[n]->doubt)
			continue;
		jw_open(j, '{');
		jw_field(j, "name", i->facts.data[n]->name);
		jw_field(j, "value", i->facts.data[n]->value);
		jw_known(j, "where", i->facts.data[n]->where);
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void jw_gpu(struct json *j, const struct host_item *i, enum uh_verdict verdict)
{
	jw_open(j, '{');
	jw_field(j, "pci", i->gpu->pci);
	jw_field(j, "verdict", str_z(verdict_name(verdict)));
	jw_known(j, "name", i->gpu->name);
	jw_known(j, "gfx", i->gpu->gfx);
	jw_facts(j, i);
	jw_close(j, '}');
}

static void jw_item(struct json *j, const struct host_item *i)
{
	jw_open(j, '{');
	jw_field(j, "kind", i->kind);
	jw_known(j, "gpu", i->gpu ? i->gpu->pci : (struct str){ 0 });
	jw_facts(j, i);
	jw_close(j, '}');
}

static void jw_machine(struct json *j, const struct doctor_view *v)
{
	const struct host *h = v->host;
	static const char *const named[] = { "kernel", "driver_kind", "driver",   "distribution", "distribution_version",
					     "rocm",   "boot_loader", "container" };
	const struct host_item *m = host_machine(h);
	jw_open(j, '{');
	jw_known(j, "root", str_z(h->root));
	for (size_t n = 0; n < sizeof(named) / sizeof(named[0]); n++)
		jw_known(j, named[n], said(h, named[n]));
	jw_key(j, "unread");
	jw_open(j, '[');
	for (size_t n = 0; host_fact(h, m, S("unread"), n); n++)
		jw_str(j, host_fact(h, m, S("unread"), n)->value);
	jw_close(j, ']');
	jw_key(j, "gpus");
	jw_open(j, '[');
	for (size_t n = 0; n < h->items.len; n++)
		if (str_is(h->items.data[n]->kind, "gpu"))
			jw_gpu(j, h->items.data[n], doctor_verdict_of_gpu(v->findings, h->items.data[n]));
	jw_close(j, ']');
	jw_facts(j, m);
	jw_key(j, "items");
	jw_open(j, '[');
	for (size_t n = 1; n < h->items.len; n++)
		if (!str_is(h->items.data[n]->kind, "gpu"))
			jw_item(j, h->items.data[n]);
	jw_close(j, ']');
	jw_close(j, '}');
}

static void put_json(const struct doctor_view *v)
{
	struct json j = { .out = v->out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/doctor/1"));
	jw_field(&j, "verdict", str_z(verdict_name(v->verdict)));
	jw_key(&j, "machine");
	jw_machine(&j, v);
	jw_key(&j, "findings");
	jw_open(&j, '[');
	for (size_t n = 0; n < v->findings->list.len; n++)
		jw_finding(&j, v->findings->list.data[n]);
	jw_close(&j, ']');
	jw_close(&j, '}');
}

// --- the whole ---

void report_doctor(const struct doctor_view *v)
{
	if (v->options->json)
		put_json(v);
	else
		put_text(v);
}
