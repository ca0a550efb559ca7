// What the doctor found, as a table for people or as JSON. Bad findings come first, each with what to do; what is well is one line
// each, so that a reader knows what was looked at; what could not be read comes last, because it limits all of it.
#include "report/doctor.h"

#include "base/print.h"
#include "diagnose/doctor/verdict.h"
#include "report/report.h"
#include "report/sheet.h"

enum { SEVERITY_WIDTH = 10, LABEL_WIDTH = 8, TITLE_FEW = 2, NAME_WIDTH = 28, STEP_WIDTH = 3 };

/** What is to be dropped, the user drops. */
static bool report_doctor_can_apply(const struct finding *f)
{
	return f->change && (f->change->sets || f->change->clears || f->change->envs || f->change->sessions);
}

// --- the machine ---

/** A fact of the machine that is not in doubt; else empty. */
static struct str said(const struct host *h, const char *name)
{
	const struct host_fact *f = host_fact(h, host_machine(h), str_z(name), 0);
	return f && !f->doubt ? f->value : (struct str){ 0 };
}

static void walk_facts(struct sheet *s, const struct host_item *i)
{
	sheet_open(s, "facts", '[');
	for (size_t n = 0; n < i->facts.len; n++) {
		const struct host_fact *f = i->facts.data[n];
		if (f->doubt)
			continue;
		sheet_open(s, NULL, '{');
		sheet_put(s, "name", v_text(f->name)); // of a parameter: what a directory has
		sheet_fields(s, { "value", v_text(f->value) }, { "where", v_known(f->where) });
		sheet_part(s, COLUMNS_OF({ "name", "  " }));
		sheet_say(s, "%*s ", f->name.n < NAME_WIDTH ? (int)(NAME_WIDTH - f->name.n) : 0, "");
		sheet_line(s, 0, COLUMNS_OF({ "value", .none = "", .after = "   " }, { "where", .none = "" }));
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static void walk_item(struct sheet *s, const struct host_item *i)
{
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "kind", v_text(i->kind) }, { "gpu", i->gpu ? v_known(i->gpu->pci) : v_null() });
	sheet_say(s, "\n");
	sheet_line(s, 0, COLUMNS_OF({ "kind" }, { "gpu", " " }));
	walk_facts(s, i);
	sheet_close(s, '}');
}

/** All that was read; a text has it last, and only where it is asked for. */
static void walk_items(struct sheet *s, const struct doctor_view *v)
{
	const struct host *h = v->host;
	for (size_t n = 0; !s->as_json && n < h->items.len; n++)
		walk_item(s, h->items.data[n]);
	if (!s->as_json)
		return;
	sheet_open(s, "gpus", '[');
	for (size_t n = 0; n < h->items.len; n++)
		if (str_is(h->items.data[n]->kind, "gpu")) {
			const struct host_item *i = h->items.data[n];
			sheet_open(s, NULL, '{');
			sheet_fields(s, { "pci", v_text(i->gpu->pci) },
				     { "verdict", v_word(verdict_name(doctor_verdict_of_gpu(v->findings, h->items.data[n]))) },
				     { "name", v_known(i->gpu->name) }, { "gfx", v_known(i->gpu->gfx) });
			walk_facts(s, i);
			sheet_close(s, '}');
		}
	sheet_close(s, ']');
	walk_facts(s, host_machine(h));
	sheet_open(s, "items", '[');
	for (size_t n = 1; n < h->items.len; n++)
		if (!str_is(h->items.data[n]->kind, "gpu"))
			walk_item(s, h->items.data[n]);
	sheet_close(s, ']');
}

/** `kernel 6.8.0-90-generic, amdgpu of the kernel, ROCm 7.1.1, ubuntu 24.04`. */
static void walk_machine(struct sheet *s, const struct doctor_view *v)
{
	static const char *const named[] = { "kernel", "driver_kind", "driver",   "distribution", "distribution_version",
					     "rocm",   "boot_loader", "container" };
	const struct host *h = v->host;
	const struct host_fact *f;
	sheet_open(s, "machine", '{');
	sheet_put(s, "root", v_known(str_z(h->root)));
	for (size_t n = 0; n < ARRAY_SIZE(named); n++)
		sheet_put(s, named[n], v_known(said(h, named[n])));
	sheet_fields(s, { "its_version", v_if(said(h, "driver_kind").n, v_known(said(h, "driver"))), TEXT_ONLY },
		     { "of_version", v_if(said(h, "distribution").n, v_known(said(h, "distribution_version"))), TEXT_ONLY },
		     { "contained", v_bool(str_is(said(h, "container"), "yes")), TEXT_ONLY });
	sheet_list(s,
		   COLUMNS_OF({ "machine.kernel", ", kernel " }, { "machine.driver_kind", ", amdgpu " },
			      { "machine.its_version", " " }, { "machine.rocm", ", ROCm " }, { "machine.distribution", ", " },
			      { "machine.of_version", " " }, { "machine.contained", ", in a container" }),
		   (struct row_style){ .label = 2, .width = v->width });
	sheet_open(s, "unread", '[');
	for (size_t n = 0; s->as_json && (f = host_fact(h, host_machine(h), S("unread"), n)); n++)
		jw_str(&s->json, f->value);
	sheet_close(s, ']');
	if (s->as_json)
		walk_items(s, v);
	sheet_close(s, '}');
}

/** Engines whose firmware is most asked for; --verbose and --json have all. */
static const char *const asked_firmware[] = { "fw_mes", "fw_mec", "fw_smu", "fw_sdma0", "fw_dmcub" };

static bool same_board(const struct host *h, const struct host_item *a, const struct host_item *b)
{
	bool same = str_eq(a->gpu->name, b->gpu->name) && str_eq(a->gpu->gfx, b->gpu->gfx);
	for (size_t n = 0; n < ARRAY_SIZE(asked_firmware); n++)
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
		_cleanup_text_ struct text line = { 0 };
		text_printf(&line, STR_FMT, STR_ARG(i->gpu->pci));
		for (size_t p = n + 1; p < h->items.len; p++)
			if (str_is(h->items.data[p]->kind, "gpu") && same_board(h, i, h->items.data[p]))
				text_printf(&line, " " STR_FMT, STR_ARG(short_address(h->items.data[p]->gpu->pci)));
		text_printf(&line, "  " STR_FMT, STR_ARG(i->gpu->name.n ? i->gpu->name : S("AMD GPU")));
		if (i->gpu->gfx.n)
			text_printf(&line, " (" STR_FMT ")", STR_ARG(i->gpu->gfx));
		const char *before = "  firmware ";
		for (size_t f = 0; f < ARRAY_SIZE(asked_firmware); f++) {
			struct str version = host_value(h, i, asked_firmware[f]);
			if (!version.n)
				continue;
			text_printf(&line, "%s", before);
			for (const char *c = asked_firmware[f] + 3; *c; c++)
				text_printf(&line, "%c", *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
			text_printf(&line, " " STR_FMT, STR_ARG(version));
			before = ", ";
		}
		print_wrapped(v->out, text_str(&line), 14, 0, v->width);
	}
}

// --- findings ---

static void put_severity(const struct doctor_view *v, enum know_severity s)
{
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[36m", "\033[32m" };
	fprintf(v->out, "%s%-*s%s", v->options->colour ? colours[s] : "", SEVERITY_WIDTH, severity_name(s),
		v->options->colour ? "\033[0m" : "");
}

static void report_doctor_put_title(const struct doctor_view *v, const struct finding *f)
{
	_cleanup_text_ struct text head = { 0 };
	put_severity(v, f->severity);
	text_printf(&head, STR_FMT " [" STR_FMT "]", STR_ARG(f->title), STR_ARG(f->id));
	print_wrapped(v->out, text_str(&head), SEVERITY_WIDTH, SEVERITY_WIDTH, v->width);
}

/** GPUs are only named where not every one has it. */
static struct sheet_value which_gpus(const struct doctor_view *v, const struct finding *f, struct text *to)
{
	for (size_t n = 0; n < f->gpus.len; n++)
		text_printf(to, "%s" STR_FMT, n ? ", " : "", STR_ARG(f->gpus.data[n]));
	return v_if(v->host->devices.n > 1 && f->gpus.len < v->host->devices.n, v_known(text_str(to)));
}

/** One finding. A text has the severity and the title as a line, and the rest as rows behind labels. */
static void walk_finding(struct sheet *s, const struct doctor_view *v, const struct finding *f)
{
	const struct row_style style = { SEVERITY_WIDTH, LABEL_WIDTH, v->width };
	_cleanup_text_ struct text which = { 0 }, graded = { 0 };
	text_printf(&graded, "grade " STR_FMT ", " STR_FMT, STR_ARG(f->grade), STR_ARG(f->source));
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "id", v_text(f->id) }, { "severity", v_word(severity_name(f->severity)) },
		     { "title", v_text(f->title) });
	sheet_texts(s, "gpus", f->gpus.data, f->gpus.len);
	sheet_fields(s, { "which", which_gpus(v, f, &which), TEXT_ONLY }, { "seen", v_known(f->seen) },
		     { "why", v_known(f->why) });
	sheet_commands(s, "do", f->steps.list, f->steps.n);
	sheet_fields(s, { "check", v_command(f->steps.verify) }, { "undo", v_command(f->steps.undo) },
		     { "cost", v_command(f->steps.cost) }, { "risk", v_command(f->steps.risk) },
		     { "until", v_command(f->steps.until) }, { "grade", v_known(f->grade) }, { "source", v_known(f->source) },
		     { "graded", v_if(f->grade.n, v_text(text_str(&graded))), TEXT_ONLY },
		     { "can_apply", v_bool(report_doctor_can_apply(f)) });
	if (!s->as_json) {
		fputc('\n', v->out);
		report_doctor_put_title(v, f);
		sheet_rows(s, &style, COLUMNS_OF({ "which", "GPU" }, { "seen", "Seen" }, { "why", "Why" }));
		// A single step needs no number.
		for (size_t n = 0; n < f->steps.n; n++) {
			char label[LABEL_WIDTH + NUMBER_DIGITS + STEP_WIDTH];
			struct row_style numbered = style;
			const bool several = f->steps.n > 1;
			const int taken = snprintf(label, sizeof(label), several ? "%-*s%zu. " : "%-*s", LABEL_WIDTH,
						   n ? "" : "Do", n + 1);
			numbered.label += several ? (size_t)taken - LABEL_WIDTH : 0;
			wrap_step_row(v->out, &numbered, label, f->steps.list[n]);
		}
		sheet_rows(s, &style,
			   COLUMNS_OF({ "check", "Check" }, { "cost", "Cost" }, { "risk", "Risk" }, { "undo", "Undo" },
				      { "until", "Until" }, { "graded", "Source" }));
	}
	sheet_close(s, '}');
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

static void put_hint(const struct doctor_view *v, struct str hint)
{
	fputc('\n', v->out);
	print_wrapped(v->out, hint, 0, 0, v->width);
}

/** What limits all that was said: files that did not answer, and those that need root. */
static void put_unread(const struct doctor_view *v)
{
	const struct host *h = v->host;
	const struct host_fact *f;
	_cleanup_text_ struct text refused = { 0 }, blind = { 0 };
	// Files that did not answer in time: the driver may hang.
	enum { NAMED = 3 };
	_cleanup_text_ struct text late = { 0 };
	size_t count = 0;
	for (size_t n = 0; (f = host_fact(v->host, host_machine(v->host), S("unread"), n)); n++) {
		if (unread_is_late(f) && count++ < NAMED)
			text_printf(&late, "%s" STR_FMT,
				    late.n ? ", " : "Not read, because it did not answer: ", STR_ARG(f->value));
	}
	if (count > NAMED)
		text_printf(&late, " and %zu more", count - NAMED);
	if (count) {
		text_printf(&late, ". What depends on it was not checked.");
		put_hint(v, text_str(&late));
	}
	for (size_t n = 0; (f = host_fact(h, host_machine(h), S("unread"), n)); n++)
		if (!unread_is_late(f))
			text_printf(&refused, "%s" STR_FMT,
				    refused.n ? ", " : "Not read, because it needs root: ", STR_ARG(f->value));
	for (size_t n = 0; n < h->items.len; n++)
		if (str_is(h->items.data[n]->kind, "gpu") && h->items.data[n]->gpu->driver.n &&
		    !firmware_known(h->items.data[n]))
			text_printf(&blind, "%s" STR_FMT, blind.n ? ", " : "", STR_ARG(h->items.data[n]->gpu->pci));
	if (refused.n)
		text_printf(&refused, ". Run: sudo unhang doctor%s", blind.n ? ". " : "");
	if (blind.n)
		text_printf(&refused, "The firmware of " STR_FMT " is not known: no file that could be read has its version",
			    STR_ARG(text_str(&blind)));
	if (refused.n)
		put_hint(v, text_str(&refused));
}

/** What stands behind the findings. */
static void put_rest(const struct doctor_view *v, size_t bad, size_t change)
{
	fputc('\n', v->out);
	// What was looked at and is well, so that a reader knows what was covered.
	for (size_t n = 0; n < v->findings->list.len; n++) {
		const struct finding *f = v->findings->list.data[n];
		_cleanup_text_ struct text title = { 0 };
		if (f->severity != SEVERITY_OK)
			continue;
		put_severity(v, f->severity);
		print_wrapped(v->out, good_title(v, f, &title), SEVERITY_WIDTH, SEVERITY_WIDTH, v->width);
	}
	if (!bad && v->verdict == UH_HEALTHY)
		fputs("No known problem found.\n", v->out);
	else if (!bad)
		fputs("No known problem found, but too little could be read for an all-clear.\n", v->out);
	if (change)
		put_hint(v, S("To make such a change: unhang doctor --apply ID. To undo it: --undo ID. Each goes to its own "
			      "file."));
	put_unread(v);
}

void report_doctor(const struct doctor_view *v)
{
	struct sheet s = sheet_on(v->options->json, v->out);
	const struct findings *f = v->findings;
	size_t bad = 0, change = 0;
	for (size_t n = 0; n < f->list.len; n++) {
		bad += f->list.data[n]->severity != SEVERITY_OK;
		change += f->list.data[n]->severity != SEVERITY_OK && report_doctor_can_apply(f->list.data[n]);
	}
	sheet_begin(&s, "unhang/doctor/1", NULL);
	sheet_put(&s, "verdict", v_word(verdict_name(v->verdict)));
	walk_machine(&s, v);
	if (!s.as_json) {
		put_gpus(v);
		// First all of them, a line each, where they do not fit on a screen; then each in full.
		if (bad > TITLE_FEW)
			fputc('\n', v->out);
		for (size_t n = 0; bad > TITLE_FEW && n < f->list.len; n++)
			if (f->list.data[n]->severity != SEVERITY_OK)
				report_doctor_put_title(v, f->list.data[n]);
	}
	sheet_open(&s, "findings", '[');
	for (size_t n = 0; n < f->list.len; n++)
		if (s.as_json || f->list.data[n]->severity != SEVERITY_OK)
			walk_finding(&s, v, f->list.data[n]);
	sheet_close(&s, ']');
	if (!s.as_json)
		put_rest(v, bad, change);
	if (!s.as_json && v->options->verbose)
		walk_items(&s, v);
	sheet_close(&s, '}');
}
