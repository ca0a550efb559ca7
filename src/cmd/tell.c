// What is told of incidents, and reports that are given to others: HTML and Markdown. A name in the wrong place must not cost users their
// evidence, so a file is only replaced if unhang wrote it.
#include "cmd/tell.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/door/caller.h"
#include "base/door/door.h"
#include "base/error.h"
#include "base/child/put.h"
#include "base/save.h"

void sharing_rows(struct sharing *s, struct option_row room[static SHARING_ROWS])
{
	const struct option_row rows[SHARING_ROWS] = {
		{ 0, "html", "FILE",
		  "write a report with pictures into one HTML file, which needs no network; - is standard output",
		  TO_TEXT(&s->html) },
		{ 0, "markdown", NULL, "the answer for a bug tracker or a chat", TO_FLAG(&s->markdown) },
		{ 0, "redact", NULL,
		  "in these two, replace names of machines and people, addresses, serial numbers and secrets",
		  TO_FLAG(&s->options.redact) },
		{ 0, "full-evidence", NULL, "in these two, quote every line, not only three around each that matters",
		  TO_FLAG(&s->options.full_evidence) },
	};
	memcpy(room, rows, sizeof(rows));
}

/** As option_row.take: twice, it is --evidence too. */
static bool take_verbose(void *to, const char *text)
{
	struct uh_report_options *report = to;
	(void)text;
	report->lines |= report->verbose;
	return report->verbose = true;
}

void telling_rows(struct telling *t, struct option_row room[static TELLING_ROWS])
{
	const struct option_row rows[TELLING_ROWS - SHARING_ROWS] = {
		{ 'a', "all", NULL, "show every incident, not only the most important one", TO_FLAG(&t->report.all) },
		{ 0, "answer", "QUESTION=REPLY", "your reply to the question that an answer ended with; also -a QUESTION=REPLY",
		  TO_LIST(t->answers, &t->nanswers, ANSWERS_MOST) },
		{ 'v', "verbose", NULL, "every event and fact, and each remedy with its steps",
		  TO_FUNCTION(take_verbose, &t->report) },
		{ 0, "evidence", NULL, "the lines behind each statement, as FILE:LINE:TEXT; also -vv",
		  TO_FLAG(&t->report.lines) },
		{ 0, "since", "TIME", "incidents since then: 2026-11-16, '3 days ago', 2h", TO_TEXT(&t->since) },
		{ 0, "newest", NULL, "only the newest incident", TO_FLAG(&t->newest) },
		{ 0, "part", "NAME", "the GPU, if the evidence does not say which: 'RX 7900 XTX', MI300X, or its PCI device id",
		  TO_TEXT(&t->part) },
		{ 0, "without", "LIST", "leave out these public cases: OWNER/REPO#NUMBER, separated by commas, or @FILE",
		  TO_TEXT(&t->without) },
		{ 0, "oneline", NULL, "a line with tabs for each incident; docs/OPERATORS.md names the fields",
		  TO_FLAG(&t->report.oneline) },
		{ 0, "fail-on", "WHAT", "exit with 1 on any `incident`, or only if the machine is at fault or unfit: `node`",
		  TO_CHOICE(&t->fail_on, "incident node") },
		JSON_ROW(&t->report.json, "diagnosis"),
	};
	memcpy(room, rows, sizeof(rows));
	sharing_rows(&t->share, room + ARRAY_SIZE(rows));
}

/** `one-game=yes`: letters, digits and - on both sides. A file of such a name is given as ./NAME. */
static bool is_answer(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	const size_t id = word ? strspn(word, plain) : 0;
	return id && word[0] != '-' && word[id] == '=' && strspn(word + id + 1, plain) == strlen(word + id + 1);
}

/** What can be read only once cannot be read again. */
static bool is_stream(const char *word)
{
	return !strcmp(word, "-") || !strncmp(word, "/dev/fd/", 8) || !strcmp(word, "/dev/stdin") ||
	       !strncmp(word, "/proc/self/fd/", 14);
}

void telling_keep(struct telling *t, char *name, int argc, char **argv)
{
	static char answer[] = "--answer";
	if (name)
		t->again[t->nagain++] = name;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-a") && is_answer(argv[i + 1]))
			argv[i] = answer;
		else if (!strcmp(argv[i], "-a") && argv[i + 1] && !strchr(argv[i + 1], '='))
			t->behind_all = argv[i + 1];
		// Behind -- no option can follow.
		t->once |= is_stream(argv[i]) || !strcmp(argv[i], "--") || t->nagain == AGAIN_MOST;
		if (!strcmp(argv[i], "--answer") || !strcmp(argv[i], "--html"))
			i++;
		else if (!t->once && strncmp(argv[i], "--answer=", 9) && strncmp(argv[i], "--html=", 7) &&
			 strcmp(argv[i], "--json") && strcmp(argv[i], "--markdown"))
			t->again[t->nagain++] = argv[i];
	}
}

bool telling_begin(const struct telling *t, struct uh_session *s)
{
	if (sharing_asked(&t->share) && (t->report.json || t->report.oneline))
		return reject("--html, --markdown, --json and --oneline: one of them at a time, please");
	if (!sharing_begin(&t->share, s))
		return false;
	struct uh_error *err = t->since ? uh_session_since(s, t->since) : NULL;
	if (!err && t->part)
		err = uh_session_part(s, t->part);
	if (!err && t->behind_all && uh_session_has_question(s, t->behind_all) && access(t->behind_all, F_OK))
		err = uh_session_answer(s, t->behind_all);
	for (size_t n = 0; n < t->nanswers && !err; n++)
		err = uh_session_answer(s, t->answers[n]);
	if (!err && t->without)
		err = uh_session_without(s, t->without);
	if (err) {
		cannot(err);
		return false;
	}
	if (!t->report.oneline)
		uh_session_ask(s, t->once ? NULL : t->again, t->nagain);
	if (t->newest)
		uh_session_newest(s);
	if (t->report.lines)
		uh_session_keep_lines(s);
	return true;
}

int telling_status(const struct telling *t, const struct uh_session *s)
{
	const enum uh_verdict verdict = uh_session_verdict(s);
	if (verdict == UH_INCIDENT && t->fail_on == FAIL_ON_NODE && !uh_session_node_at_fault(s))
		return *uh_session_unread(s) ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
	return verdict == UH_INCIDENT ? EXIT_INCIDENT : verdict == UH_UNKNOWN ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
}

// --- Files that a user names for output ---

static bool is_input(const struct stat *st, char *const *inputs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct opened input;
		_cleanup_error_ struct uh_error *err =
			door_look(&(struct named){ .path = inputs[i] }, &input); // told when it is read
		if (!err && input.st.st_dev == st->st_dev && input.st.st_ino == st->st_ino)
			return true;
	}
	return false;
}

/** An empty file has nothing to lose. */
static bool output_is_ours(const struct output_kind *kind, const char *path)
{
	char bytes[2048];
	struct door_file *file = NULL;
	_cleanup_error_ struct uh_error *err = door_open(&(struct named){ .path = path }, &file);
	const ssize_t n = err ? -1 : door_read(file, 0, bytes, sizeof(bytes), &err);
	const struct str first = { bytes, n > 0 ? (size_t)n : 0 };
	door_close(file);
	return n == 0 || (str_starts(first, str_z(kind->begins)) && str_find(first, str_z(kind->has)) >= 0);
}

bool output_allowed(const struct output_kind *kind, const char *path, char *const *inputs, size_t n)
{
	struct opened there;
	_cleanup_error_ struct uh_error *err = door_look(&(struct named){ .path = path }, &there);
	if (err && (err->errnum == ENOENT || err->errnum == ENOTDIR)) // if the name is a bad one, writing tells
		return true;
	if (err)
		complain("%s", uh_error_message(err));
	else if (is_input(&there.st, inputs, n))
		complain("%s %s: this is the evidence; give the report a name of its own", kind->option, path);
	else if (!S_ISREG(there.st.st_mode) || !output_is_ours(kind, path))
		complain("%s %s: this exists, and unhang did not write it; give %s a new name", kind->option, path,
			 kind->option);
	else
		return true;
	return false;
}

// --- Reports for others ---

bool sharing_begin(const struct sharing *o, struct uh_session *s)
{
	static const struct output_kind page = { "--html", "<!DOCTYPE html>", "content=\"unhang " };
	const bool asked = sharing_asked(o);
	if (!asked && (o->options.redact || o->options.full_evidence))
		return reject("--redact and --full-evidence belong to --html or --markdown");
	if (o->html && o->markdown)
		return reject("--html and --markdown: one of them at a time, please");
	if (o->html && strcmp(o->html, "-") && !output_allowed(&page, o->html, o->inputs, o->ninputs))
		return false;
	if (asked)
		uh_session_keep_around(s, o->options.full_evidence);
	return true;
}

struct html_bytes {
	const char *path;
	struct str bytes;
};

/** With sudo, it belongs to who called, wherever that user may write. */
static struct uh_error *put_html(const void *ctx)
{
	const struct html_bytes *h = ctx;
	struct caller before;
	if (caller_begin(&before)) {
		struct uh_error *err = save_file(AT_FDCWD, h->path, h->bytes, 0600);
		caller_end(&before);
		if (!err || !before.changed)
			return err;
		uh_error_free(err);
	}
	return save_file(AT_FDCWD, h->path, h->bytes, 0600);
}

/** Whole or not at all, and for its owner only: it quotes logs. */
static struct uh_error *save_html(const struct sharing *o, struct uh_session *s)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return uh_error_new("%s: there is no memory for the report", o->html);
	uh_session_write_html(s, out, &o->options);
	fclose(out);
	const struct html_bytes bytes = { o->html, { text, n } };
	return put_within(o->html, 0, put_html, &bytes);
}

bool sharing_write(const struct sharing *o, struct uh_session *s)
{
	const bool file = o->html && strcmp(o->html, "-");
	struct uh_error *err = NULL;
	if (o->markdown)
		uh_session_write_markdown(s, stdout, &o->options);
	else if (!file)
		uh_session_write_html(s, stdout, &o->options);
	else
		err = save_html(o, s);
	if (err)
		cannot(err);
	else if (file)
		complain("the report is in %s", o->html);
	return !err;
}
