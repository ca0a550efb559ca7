// What is done when a try has ended: what the job said last, the state of its container, the texts that a child hands back to who has it
// explained; crash diagnostics for agents, and hooks.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/print.h"
#include "base/child/put.h"
#include "base/save.h"
#include "evidence/log/line.h"
#include "evidence/recording/tell.h"
#include "session/last/last.h"
#include "session/run/run.h"
#include "session/session.h"
#include "store/store.h"
#include "watch/hooks.h"

// --- what the job itself said before it failed ---

enum { LINES = 400, SAID_MOST = 300 };

struct str words_tail(struct str output, unsigned lines)
{
	size_t at = output.n;
	if (at && output.p[at - 1] == '\n')
		at--;
	for (; at; at--)
		if (output.p[at - 1] == '\n' && !--lines)
			break;
	return str_from(output, at);
}

static bool run_words_fits(const struct know_list *patterns, struct str line)
{
	for (; patterns; patterns = patterns->next)
		if (str_glob(patterns->text, line))
			return true;
	return false;
}

/** Of a block of lines that begin alike, such as `[rank3]: `, the first that is not indented; empty: it is cut. */
static struct str behind(struct str front, struct str rest)
{
	while (rest.n) {
		struct str line = str_split(&rest, '\n'), own = str_from(line, front.n);
		if (str_starts(line, front) && own.n && !char_space(own.p[0]))
			return line;
	}
	return (struct str){ 0 };
}

/** Where the message of a line begins, behind times and whoever wrote it. */
static struct str front_of(const struct know *k, struct str line, struct logline *parsed)
{
	*parsed = (struct logline){ 0 };
	line_parse_front(k, line, parsed);
	return str_cut(line, (size_t)(parsed->message.p - line.p));
}

static struct str find(const struct know *k, const struct know_last_words *w, struct str text)
{
	struct logline parsed;
	while (text.n) {
		struct str line = str_split(&text, '\n');
		if (!run_words_fits(w->match, line))
			continue;
		struct str said = w->behind ? behind(front_of(k, line, &parsed), text) : line;
		if (said.n && !run_words_fits(w->unless, said))
			return said;
	}
	return (struct str){ 0 };
}

struct last_words words_find(const struct know *k, struct str output, struct arena *a)
{
	const struct str text = words_tail(output, LINES);
	struct last_words found = { .rank = -1 };
	struct logline parsed;
	for (size_t i = 0; i < k->last_words.len && !found.line.n; i++) {
		found.line = find(k, k->last_words.data[i], text);
		found.killed = k->last_words.data[i]->killed;
	}
	if (!found.line.n)
		return found;
	front_of(k, found.line, &parsed);
	if (!str_number(parsed.writer.rank, &found.rank))
		found.rank = -1;
	_cleanup_text_ struct text safe = { 0 };
	text_add_safe(&safe, str_cut(str_trim(parsed.message), SAID_MOST));
	found.line = arena_str(a, text_str(&safe));
	return found;
}

// --- a container ---

enum { INSPECT_MS = 5000, INSPECT_MOST = 1 << 20, ID_MOST = 128 };

/** The value of `--name X` or `--name=X`, before the image's own arguments begin; nobody knows where that is, so the first counts. */
static struct str option_of(char *const *command, const char *option)
{
	for (size_t i = 1; command[0] && command[i]; i++) {
		struct str value;
		if (!strcmp(command[i], option) && command[i + 1])
			return str_z(command[i + 1]);
		if (str_behind(str_z(command[i]), str_z(option), &value) && value.n > 1 && value.p[0] == '=')
			return str_from(value, 1);
	}
	return (struct str){ 0 };
}

/** The name of the container; empty: it has none, or the command is another. */
static struct str container_named(char *const *command, struct arena *a)
{
	struct str name, file;
	const struct str engine = str_base(str_z(command && command[0] ? command[0] : ""));
	if ((!str_is(engine, "docker") && !str_is(engine, "podman")) || !command[1] || strcmp(command[1], "run"))
		return (struct str){ 0 };
	name = option_of(command, "--name");
	file = option_of(command, "--cidfile");
	if (!name.n && file.n)
		uh_error_free(named_read(&(struct named){ .path = arena_z(a, file) }, ID_MOST, a, &name, NULL));
	name = str_trim(name);
	return name.n && name.p[0] != '-' ? name : (struct str){ 0 };
}

struct inspect {
	const char *engine, *name;
};

static void inspect(int fd, const void *ctx)
{
	const struct inspect *i = ctx;
	char *const arguments[] = { (char *)i->engine, (char *)"inspect", (char *)i->name, NULL };
	if (dup2(fd, STDOUT_FILENO) >= 0)
		execvp(i->engine, arguments);
	_exit(1);
}

bool container_save(char *const *command, const char *path)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text said = { 0 };
	const struct str name = container_named(command, &a);
	const struct inspect i = { command[0], name.n ? arena_z(&a, name) : NULL };
	const struct child_task task = { .name = CHILD_RUN_CONTAINER, .deadline = now_ms() + INSPECT_MS, .most = INSPECT_MOST };
	if (!i.name || child_collect(&task, inspect, &i, &said) != CHILD_GOOD || !said.n)
		return false;
	_cleanup_error_ struct uh_error *err = save_soon(AT_FDCWD, path, text_str(&said), 0640);
	return !err;
}

// --- texts that one process writes and another keeps ---

static const struct wire_field told_texts_fields[] = {
	WIRE_TEXT(struct told_texts, lines),
	WIRE_TEXT(struct told_texts, json),
	WIRE_TEXT(struct told_texts, text),
};
const struct wire_kind told_texts_kind = WIRE_KIND('T', struct told_texts, told_texts_fields);

struct str text_written(void (*write)(const void *ctx, FILE *to), const void *ctx, struct arena *a)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);
	if (!to)
		return (struct str){ 0 };
	write(ctx, to);
	fclose(to);
	return arena_str(a, (struct str){ text, n });
}

struct report_wanted {
	struct uh_session *session;
	struct uh_report_options options;
};

static void write_report(const void *ctx, FILE *to)
{
	const struct report_wanted *r = ctx;
	uh_session_report(r->session, to, &r->options);
}

void incident_lines(const struct incident *i, FILE *to)
{
	print_line(to, "class", i->cause->head.id);
	print_line(to, "title", i->title);
	print_line(to, "fault", i->fault);
	print_line(to, "action", i->action ? i->action->action : (struct str){ 0 });
	print_line(to, "fit", incident_fit(i));
	print_line(to, "gpu", i->gpu.device);
}

struct str session_report_text(struct uh_session *s, bool json, unsigned width, struct arena *a)
{
	const struct report_wanted r = { s, { .json = json, .width = width } };
	return text_written(write_report, &r, a);
}

void told_texts_save(const struct told_texts *t, const char *directory,
		     struct uh_error *(*save)(int dir, const char *path, struct str bytes, mode_t mode))
{
	enum { MODE = 0640 };
	_cleanup_arena_ struct arena a = { 0 };
	if (t->json.n)
		uh_error_free(save(AT_FDCWD, arena_printf(&a, "%s/" STORE_DIAGNOSIS, directory).p, t->json, MODE));
	if (t->text.n)
		uh_error_free(save(AT_FDCWD, arena_printf(&a, "%s/" STORE_TEXT, directory).p, t->text, MODE));
}

// --- the end of a run ---

enum { DUMPS_MOST = 5, HOOK_MS = 30000, OUTPUT_MOST = 1 << 20, LAST_LINES = 50 };

struct dumps {
	struct str list[DUMPS_MOST]; // a ring
	size_t n;
};

/** metadata.json of inputs that are whole: DIRECTORY/PID/NUMBER/metadata.json. */
static void finish_find_dumps(struct arena *a, const char *directory, int depth, struct dumps *ret)
{
	struct door_names names = { 0 };
	struct uh_error *err = door_names(&(struct named){ .path = directory }, false, a, &names);
	for (size_t i = 0; !err && i < names.n; i++) {
		const char *path = arena_printf(a, "%s/%s", directory, names.list[i]).p;
		if (depth)
			finish_find_dumps(a, path, depth - 1, ret);
		else if (!strcmp(names.list[i], "metadata.json"))
			ret->list[ret->n++ % DUMPS_MOST] = str_z(path);
	}
	uh_error_free(err);
}

/** The process whose launches an agent is to read: the one to blame, or else one of the rank that failed. */
static const struct job_process *process_of(const struct job_seen *j, int64_t rank)
{
	const struct job_process *best = job_suspect(j, rank);
	for (size_t i = 0; !best && i < j->list.len; i++)
		if (rank < 0 || j->list.data[i].rank == rank)
			best = &j->list.data[i];
	return best;
}

/** Fills in log, boundary and gfx of @ret, which lie in @a: the newest launches, and the one that runs or else the last one that is known to
 * have ended. */
static void find_launches(const struct job_study *s, struct arena *a, struct crash_diagnostics *ret)
{
	_cleanup_text_ struct text lines = { 0 };
	struct flight_recording *r = NULL;
	struct uh_session *session = uh_session_new(tell_nobody, NULL);
	recordings_add(session, s->recordings);
	const struct job_process *p = process_of(&session->job, s->of->rank);
	struct recording_path path = { .owner = -1 };
	if (p)
		path.path = arena_z(a, evidence_at(session->evidence, p->at.source)->path);
	uh_error_free(p ? recording_open(&path, &r, NULL) : NULL);
	if (r)
		recording_launches(r, a, &lines, &ret->boundary);
	recording_free(r);
	ret->log = arena_str(a, text_str(&lines));
	ret->gfx = p ? arena_str(a, p->gfx) : (struct str){ 0 };
	if (p && p->line.n)
		ret->boundary = arena_str(a, p->line);
	uh_session_free(session);
}

static void write_diagnostics(const struct job_study *s, FILE *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct dumps dumps = { 0 };
	struct str output = { 0 };
	_cleanup_free_ char *p = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&p, &n);
	if (!out)
		return;
	finish_find_dumps(&a, arena_printf(&a, "%s/%lld/inputs", s->directory, (long long)s->of->number).p, 2, &dumps);
	if (s->of->output.n)
		uh_error_free(named_read(&(struct named){ .path = s->of->output.p }, OUTPUT_MOST, &a, &output, NULL));
	struct crash_diagnostics d = { .run = s->run,
				       .output = words_tail(output, LAST_LINES),
				       .dumps = dumps.list,
				       .ndumps = dumps.n < DUMPS_MOST ? dumps.n : DUMPS_MOST };
	find_launches(s, &a, &d);
	report_crash_diagnostics(&d, out);
	fclose(out);
	_cleanup_error_ struct uh_error *err = put_file(s->options->crash_diagnostics, (struct str){ p, n }, 0640, PUT_SAFE, 0);
	if (err)
		fprintf(to, "%s\n", uh_error_message(err));
}

static void run_hooks(const struct job_study *s, FILE *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text problems = { 0 };
	const struct run_try *t = s->of;
	const struct str ended = str_of_list(run_ended_words, t->ended);
	char *environment[] = { (char *)arena_printf(&a, "UNHANG_RUN=" STR_FMT, STR_ARG(s->run->id)).p,
				(char *)arena_printf(&a, "UNHANG_ENDED=" STR_FMT, STR_ARG(ended)).p,
				(char *)arena_printf(&a, "UNHANG_CLASS=" STR_FMT, STR_ARG(t->class)).p,
				(char *)arena_printf(&a, "UNHANG_TITLE=" STR_FMT, STR_ARG(t->title)).p,
				(char *)arena_printf(&a, "UNHANG_FAULT=" STR_FMT, STR_ARG(t->fault)).p,
				(char *)arena_printf(&a, "UNHANG_DO=" STR_FMT, STR_ARG(t->action)).p,
				(char *)arena_printf(&a, "UNHANG_FIT=" STR_FMT, STR_ARG(t->fit)).p,
				(char *)arena_printf(&a, "UNHANG_GPU=" STR_FMT, STR_ARG(t->gpu)).p,
				(char *)arena_printf(&a, "UNHANG_STATUS=%lld", (long long)s->run->status).p,
				(char *)arena_printf(&a, "UNHANG_DIRECTORY=%s", s->directory).p,
				(char *)arena_printf(&a, "PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin").p,
				NULL };
	const struct hooks_call c = { .directory = s->options->hooks,
				      .input = arena_printf(&a, "%s/report.json", s->directory).p,
				      .environment = environment,
				      .milliseconds = HOOK_MS };
	hooks_run(&c, &problems);
	fprintf(to, STR_FMT, STR_ARG(text_str(&problems)));
}

void run_finish(void *ctx, const struct job_study *s, FILE *to)
{
	(void)ctx;
	if (s->options->crash_diagnostics)
		write_diagnostics(s, to);
	if (s->options->hooks)
		run_hooks(s, to);
}
