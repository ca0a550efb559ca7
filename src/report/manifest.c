// What a bundle says of itself: the manifest for programs, a few lines for the person who asked for it, and the text of a bug report. A
// manifest names also what is not there and why, because an expert who opens the bundle a week later cannot ask the machine again.
#include "report/manifest.h"

#include <stdlib.h>

#include "base/print.h"
#include "report/sheet.h"

static const char *const states[ITEM_STATES] = {
	[ITEM_RUNNING] = "interrupted", [ITEM_SAVED] = "saved", [ITEM_ABSENT] = "absent", [ITEM_REFUSED] = "refused",
	[ITEM_BLOCKED] = "blocked",     [ITEM_CUT] = "cut",     [ITEM_FAILED] = "failed"
};

void report_manifest(const struct manifest *m, FILE *out)
{
	struct sheet s = sheet_on(true, out);
	sheet_begin(&s, "unhang/capture/1", NULL);
	sheet_fields(&s, { "id", v_text(m->id) }, { "state", v_word(m->state) }, { "unhang", v_known(m->version) },
		     { "host", v_known(m->host) }, { "boot_id", v_known(m->boot_id) }, { "kernel", v_known(m->kernel) },
		     { "began", v_date(m->began) }, { "ended", v_date(m->ended) }, { "uptime_ms", v_int(m->uptime_ms) },
		     { "deadline_ms", v_int(m->deadline_ms) }, { "took_ms", v_int(m->took_ms) },
		     { "user_data", v_word(m->user_data) }, { "redacted", v_bool(m->redacted) });
	sheet_each (i, &s, "replaced", m->nreplaced) {
		sheet_fields(&s, { "kind", v_word(m->replaced[i].kind) }, { "names", v_number(m->replaced[i].names) },
			     { "places", v_number(m->replaced[i].places) });
	}
	sheet_each (i, &s, "items", m->items.len) {
		const struct manifest_item *item = &m->items.data[i];
		struct str stack = item->stack;
		sheet_fields(&s, { "name", v_text(item->name) }, { "what", v_text(item->what) },
			     { "state", v_word(states[item->state]) }, { "reason", v_known(item->reason) },
			     { "bytes", v_number(item->bytes) }, { "took_ms", v_int(item->took_ms) },
			     { "at", v_known(item->at) });
		sheet_open(&s, "stack", '[');
		while (stack.n)
			jw_str(&s.json, str_split(&stack, '\n'));
		sheet_close(&s, ']');
	}
	sheet_texts(&s, "notes", m->notes.data, m->notes.len);
	sheet_close(&s, '}');
	fputc('\n', out);
}

static void say_lacking(const struct manifest_item *i, FILE *out)
{
	if (i->state == ITEM_SAVED || i->state == ITEM_ABSENT)
		return;
	fputs("  ", out);
	print_safe(out, i->what);
	fprintf(out, ": %s", states[i->state]);
	if (i->reason.n) {
		fputs("; ", out);
		print_safe(out, i->reason);
	}
	fputc('\n', out);
}

void report_captured(const struct manifest *m, const char *file, uint64_t bytes, FILE *out)
{
	enum { KB = 1024, MB = 1024 * 1024 };
	size_t saved = 0, lacking = 0;
	for (size_t i = 0; i < m->items.len; i++) {
		const enum item_state state = m->items.data[i].state;
		// Of what was refused there may be as much as this user may read.
		saved += state == ITEM_SAVED || state == ITEM_CUT || (state == ITEM_REFUSED && m->items.data[i].bytes);
		lacking += state != ITEM_SAVED && state != ITEM_ABSENT;
	}
	fputs("Saved ", out);
	print_safe(out, str_z(file));
	if (bytes >= MB)
		fprintf(out, " (%.1f MB", (double)bytes / MB);
	else
		fprintf(out, " (%llu KB", (unsigned long long)(bytes + KB - 1) / KB);
	fprintf(out, ", %zu item%s, %.1f s).\n", saved, saved == 1 ? "" : "s", (double)m->took_ms / 1000);
	if (lacking)
		fputs("Not all could be saved:\n", out);
	for (size_t i = 0; i < m->items.len; i++)
		say_lacking(&m->items.data[i], out);
	for (size_t i = 0; i < m->notes.len; i++) {
		print_safe(out, m->notes.data[i]);
		fputc('\n', out);
	}
	if (m->redacted) {
		// Lines that were left out are counted apart: nothing stands in their place.
		bool any = false;
		unsigned long long lines = 0;
		for (size_t i = 0; i < m->nreplaced; i++) {
			const bool is_line = !strcmp(m->replaced[i].kind, "line");
			lines += is_line ? m->replaced[i].places : 0;
			if (!m->replaced[i].names || is_line)
				continue;
			fprintf(out, "%s%s %llu (%llu place%s)", any ? ", " : "Replaced: ", m->replaced[i].kind,
				m->replaced[i].names, m->replaced[i].places, m->replaced[i].places == 1 ? "" : "s");
			any = true;
		}
		if (any)
			fputs(".\n", out);
		if (lines)
			fprintf(out, "Left out: %llu line%s and setting%s that %s not known to be needed.\n", lines,
				lines == 1 ? "" : "s", lines == 1 ? "" : "s", lines == 1 ? "is" : "are");
	}
}

// --- the text of a bug report: lines of the log are left out first, the oldest before the others ---

static void manifest_put(struct text *t, const char *heading, struct str value)
{
	text_printf(t, "### %s\n\n" STR_FMT "\n\n", heading, STR_ARG(value.n ? value : S("not known")));
}

/** In a fence that the text cannot end: backticks in it become quotes. */
static void put_fenced(struct text *t, struct str value)
{
	text_add(t, S("```text\n"));
	for (size_t i = 0; i < value.n; i++) {
		char c = value.p[i] == '`' ? '\'' : value.p[i];
		text_add(t, (struct str){ &c, 1 });
	}
	if (value.n && value.p[value.n - 1] != '\n')
		text_add(t, S("\n"));
	text_add(t, S("```\n\n"));
}

/** A line of the log that is quoted. */
struct quoted {
	struct str line;
	size_t number;
};

/** Whether a message begins here: its time stands before it. The name of the log and the rest of a message of several lines have none. */
static bool begins(struct str line)
{
	size_t n = 1;
	if (!line.n || line.p[0] != '[')
		return false;
	while (n < line.n && (char_digit(line.p[n]) || char_among(line.p[n], " .")))
		n++;
	return n > 1 && n < line.n && line.p[n] == ']';
}

/** How many of the last lines fit into @room characters. */
static size_t manifest_fitting(const struct quoted *lines, size_t n, size_t room)
{
	enum { NUMBER = 12 };
	size_t kept = 0;
	while (kept < n && room > lines[n - 1 - kept].line.n + NUMBER)
		room -= lines[n - 1 - kept++].line.n + NUMBER;
	return kept;
}

/** The last lines that matter, as many as fit: what happened last is what a maintainer reads first. */
static void put_log(struct text *t, const struct bug_report *b)
{
	enum { TAIL = 512 };
	_cleanup_vec_ VEC(struct quoted) lines = { 0 };
	struct str rest = b->log;
	for (size_t number = 0; rest.n;) {
		struct str line = str_split(&rest, '\n');
		number += begins(line);
		struct quoted q = { line, number };
		if (number && b->matters(b->ctx, q.line))
			vec_push(&lines, q);
	}
	size_t room = t->n + TAIL < BUG_REPORT_MOST ? BUG_REPORT_MOST - t->n - TAIL : 0;
	size_t kept = manifest_fitting(lines.data, lines.len, room);
	_cleanup_text_ struct text quotes = { 0 };
	for (size_t i = lines.len - kept; i < lines.len; i++)
		text_printf(&quotes, "%6zu: " STR_FMT "\n", lines.data[i].number, STR_ARG(lines.data[i].line));
	text_printf(t, "### Kernel log\n\nMessages of %s about the GPU, with their numbers%s.\n\n", b->log_name,
		    kept < lines.len ? "; older ones were left out" : "");
	put_fenced(t, text_str(&quotes));
}

void report_bug(const struct bug_report *b, FILE *out)
{
	_cleanup_text_ struct text t = { 0 };
	// The headings are those of ROCm's issue form.
	enum { DIAGNOSIS_MOST = 24000 };
	text_add(&t, S("<!-- Made by unhang capture --bug-report, redacted. Read it before you send it. -->\n\n"
		       "### Problem Description\n\n"));
	if (!b->incident)
		text_add(&t, S("No incident was found. These are the GPUs as they were.\n\n"));
	put_fenced(&t, str_cut(b->diagnosis, DIAGNOSIS_MOST));
	manifest_put(&t, "Operating System", b->system);
	manifest_put(&t, "CPU", b->cpu);
	manifest_put(&t, "GPU", b->gpus);
	manifest_put(&t, "ROCm Version", b->rocm);
	manifest_put(&t, "Kernel and driver", b->kernel);
	manifest_put(&t, "ROCm Component", b->driver.n ? b->driver : S("amdgpu (kernel driver)"));
	text_add(&t, S("### Steps to Reproduce\n\n(please fill in: the program, its version, how often it happens)\n\n"));
	put_log(&t, b);
	text_printf(&t, "### Additional Information\n\nAll evidence is in " STR_FMT ", made by unhang capture.\n",
		    STR_ARG(b->bundle));
	struct str rest = str_cut(text_str(&t), BUG_REPORT_MOST);
	while (rest.n) {
		print_safe(out, str_split(&rest, '\n'));
		fputc('\n', out);
	}
}
