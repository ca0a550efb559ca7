// The table of unhang selftest, and its document: one row for each check, the worst of all GPUs where there are several.
#include "report/selftest.h"

static const char *const ends[] = { "passed", "failed", "not possible", "not run" };

size_t selftest_count(const struct selftest_view *v, enum selftest_end end)
{
	size_t n = 0;
	for (size_t i = 0; i < v->nchecks; i++)
		n += v->checks[i].end == end;
	return n;
}

// --- the document ---

static void write_check_list(const struct selftest_view *v, struct sheet *s)
{
	sheet_each (i, s, "checks", v->nchecks) {
		const struct selftest_check *c = &v->checks[i];
		sheet_fields(s, { "id", v_word(c->id) }, { "gpu", v_known(c->gpu) }, { "result", v_word(ends[c->end]) },
			     { "what", v_word(c->what) }, { "text", v_text(c->text) });
		sheet_each (k, s, "witnesses", c->nwitnesses) {
			const struct witness *w = &c->witnesses[k];
			sheet_fields(s, { "fact", v_text(w->fact) }, { "place", v_text(w->place) },
				     { "value", v_text(w->value) });
		}
	}
}

static void write_file_list(const struct selftest_view *v, struct sheet *s)
{
	sheet_each (i, s, "files", v->nfiles) {
		const struct selftest_file *f = &v->files[i];
		sheet_fields(s, { "path", v_text(f->path) }, { "gpu", v_known(f->gpu) },
			     { "operations", v_number(f->operations) }, { "bytes", v_number(f->bytes) },
			     { "microseconds", v_number(f->microseconds) }, { "failed", v_number(f->failed) },
			     { "late", v_bool(f->late) }, { "woke", v_bool(f->woke) });
	}
}

static void write_document(const struct selftest_view *v, FILE *out)
{
	struct sheet s = sheet_on(true, out);
	sheet_begin(&s, "unhang/selftest/1", NULL);
	sheet_put(&s, "unhang", v_word(UNHANG_VERSION));
	sheet_each (i, &s, "gpus", v->ngpus)
		sheet_fields(&s, { "pci", v_text(v->gpus[i].pci) }, { "name", v_known(v->gpus[i].name) },
			     { "gfx", v_known(v->gpus[i].gfx) }, { "runtime_status", v_known(v->gpus[i].runtime_status) });
	sheet_fields(&s, { "kernel", v_known(v->kernel) }, { "driver", v_known(v->driver) }, { "root", v_bool(v->root) },
		     { "passed", v_number(selftest_count(v, SELFTEST_PASSED)) },
		     { "failed", v_number(selftest_count(v, SELFTEST_FAILED)) },
		     { "not_possible", v_number(selftest_count(v, SELFTEST_NOT_POSSIBLE)) },
		     { "not_run", v_number(selftest_count(v, SELFTEST_NOT_ASKED)) });
	write_check_list(v, &s);
	write_file_list(v, &s);
	sheet_close(&s, '}');
}

// --- the table ---

enum { RESULT_COLUMNS = 14, NAME_COLUMNS = 11 };

/** Whether the row of this check shows it: the worst of its id, the first of several. */
static bool shown(const struct selftest_view *v, size_t at)
{
	static const int order[] = { [SELFTEST_FAILED] = 2, [SELFTEST_NOT_POSSIBLE] = 1 };
	for (size_t i = 0; i < v->nchecks; i++) {
		const struct selftest_check *c = &v->checks[i];
		if (i == at || !str_eq(str_z(c->id), str_z(v->checks[at].id)))
			continue;
		if (order[c->end] > order[v->checks[at].end] || (c->end == v->checks[at].end && i < at))
			return false;
	}
	return true;
}

static void write_row(const struct selftest_view *v, const struct selftest_check *c, FILE *out)
{
	_cleanup_text_ struct text text = { 0 };
	char label[64];
	snprintf(label, sizeof(label), "%-*s%s", RESULT_COLUMNS, ends[c->end], c->id);
	if (v->ngpus > 1 && c->gpu.n && c->end != SELFTEST_PASSED)
		text_printf(&text, STR_FMT ": ", STR_ARG(c->gpu));
	text_add(&text, c->text);
	wrap_row(out, &(struct row_style){ 2, RESULT_COLUMNS + NAME_COLUMNS, v->width }, label, text_str(&text), 0);
}

static void write_head(const struct selftest_view *v, FILE *out)
{
	const size_t failed = selftest_count(v, SELFTEST_FAILED);
	fprintf(out, "%zu checks passed, %zu failed, %zu not possible here.\n", selftest_count(v, SELFTEST_PASSED), failed,
		selftest_count(v, SELFTEST_NOT_POSSIBLE));
	if (failed)
		fputs("A failed check means that unhang misreads this machine, or that a GPU is not\nwell: sudo unhang says "
		      "what to do then.\n",
		      out);
	for (size_t i = 0; i < v->ngpus; i++)
		fprintf(out, "  %s  " STR_FMT "%s" STR_FMT "%s" STR_FMT "\n", i ? "   " : "GPU", STR_ARG(v->gpus[i].pci),
			v->gpus[i].name.n ? ", " : "", STR_ARG(v->gpus[i].name), v->gpus[i].gfx.n ? ", " : "",
			STR_ARG(v->gpus[i].gfx));
	fputc('\n', out);
}

void report_selftest(const struct selftest_view *v, bool json, FILE *out)
{
	if (json) {
		write_document(v, out);
		return;
	}
	write_head(v, out);
	for (size_t i = 0; i < v->nchecks; i++)
		if (shown(v, i))
			write_row(v, &v->checks[i], out);
	if (!v->file)
		return;
	fprintf(out, "\nTo send (docs/FIRST_HOUR.md): %s\n", v->file);
}
