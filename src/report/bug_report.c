#include "report/bug_report.h"

#include <stdlib.h>

#include "base/print.h"

static void put(struct text *t, const char *heading, struct str value)
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

static void put_head(struct text *t, const struct bug_report *b)
{
	enum { DIAGNOSIS_MOST = 24000 };
	text_add(t, S("<!-- Made by unhang capture --bug-report, redacted. Read it before you send it. -->\n\n"
		      "### Problem Description\n\n"));
	if (!b->incident)
		text_add(t, S("No incident was found. These are the GPUs as they were.\n\n"));
	put_fenced(t, str_cut(b->diagnosis, DIAGNOSIS_MOST));
	put(t, "Operating System", b->system);
	put(t, "CPU", b->cpu);
	put(t, "GPU", b->gpus);
	put(t, "ROCm Version", b->rocm);
	put(t, "Kernel and driver", b->kernel);
	put(t, "ROCm Component", b->driver.n ? b->driver : S("amdgpu (kernel driver)"));
	text_add(t, S("### Steps to Reproduce\n\n(please fill in: the program, its version, how often it happens)\n\n"));
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
static size_t fitting(const struct quoted *lines, size_t n, size_t room)
{
	enum { NUMBER = 12 };
	size_t kept = 0;
	while (kept < n && room > lines[n - 1 - kept].line.n + NUMBER)
		room -= lines[n - 1 - kept++].line.n + NUMBER;
	return kept;
}

static void put_log(struct text *t, const struct bug_report *b)
{
	enum { TAIL = 512 };
	VEC(struct quoted) lines = { 0 };
	struct str rest = b->log;
	for (size_t number = 0; rest.n;) {
		struct str line = str_split(&rest, '\n');
		number += begins(line);
		struct quoted q = { line, number };
		if (number && b->matters(b->ctx, q.line))
			vec_push(&lines, q);
	}
	size_t room = t->n + TAIL < BUG_REPORT_MOST ? BUG_REPORT_MOST - t->n - TAIL : 0;
	size_t kept = fitting(lines.data, lines.len, room);
	struct text quotes = { 0 };
	for (size_t i = lines.len - kept; i < lines.len; i++)
		text_printf(&quotes, "%6zu: " STR_FMT "\n", lines.data[i].number, STR_ARG(lines.data[i].line));
	text_printf(t, "### Kernel log\n\nMessages of %s about the GPU, with their numbers%s.\n\n", b->log_name,
		    kept < lines.len ? "; older ones were left out" : "");
	put_fenced(t, text_str(&quotes));
	text_free(&quotes);
	vec_free(&lines);
}

void report_bug(const struct bug_report *b, FILE *out)
{
	struct text t = { 0 };
	put_head(&t, b);
	put_log(&t, b);
	text_printf(&t, "### Additional Information\n\nAll evidence is in " STR_FMT ", made by unhang capture.\n",
		    STR_ARG(b->bundle));
	struct str rest = str_cut(text_str(&t), BUG_REPORT_MOST);
	while (rest.n) {
		print_safe(out, str_split(&rest, '\n'));
		fputc('\n', out);
	}
	text_free(&t);
}
