// A session ties the way of the data together: source, evidence, events, incidents, report.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "host/host.h"
#include "session/machine.h"
#include "session/run/directory.h"
#include "session/session.h"

enum { BOOTS_BACK = 5, NOTES_MAX = 16, REFUSED_TOLD = 8 };

static void session_problem(struct uh_session *s, const char *message)
{
	s->problems++;
	if (s->problem)
		s->problem(s->ctx, message);
}

static void on_knowledge_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	struct uh_session *s = ctx;
	struct text full = { 0 };
	text_printf(&full, "%s:%u: %s", file, line, message);
	// A mistake in a user's file is worth a line, but it is no source that could not be read.
	if (s->problem)
		s->problem(s->ctx, full.p);
	text_free(&full);
}

/** Whether it tells of a failure that was over when what is to be explained began, and so cannot be joined to it. What is said of the
 * machine itself still holds. */
static bool is_of_before(const struct uh_session *s, const struct event *e)
{
	if (!s->told.lines || !e->signature || (e->signature->event && e->signature->event->opens == OPENS_CONTEXT))
		return false;
	const struct stamp when = evidence_wall(evidence_at(s->evidence, e->at.source), e->time);
	return when.clock == TIME_WALL && when.seconds < s->told.since;
}

static void on_event(void *ctx, const struct event *e)
{
	struct uh_session *s = ctx;
	if (is_of_before(s, e))
		return;
	if (s->lines)
		lines_want(s->lines, e->at);
	engine_event(s->engine, e);
}

/** The log's clock may be off by some seconds, and so what it has of just before the job may be the job's. Not what names other processes. */
static bool is_of_others_before(const struct uh_session *s, const struct incident *i)
{
	if (!s->told.lines || !i->events.len || i->now)
		return false;
	const struct stamp when = evidence_wall(evidence_at(s->evidence, i->events.data[0]->at.source), i->begin);
	return when.clock == TIME_WALL && when.seconds < s->told.began && !incident_of_job(i, &s->told.job);
}

static void on_look(void *ctx, const struct machine_observation *m) { ((struct uh_session *)ctx)->seen = m; }
static void on_incident(void *ctx, struct incident *i)
{
	struct uh_session *s = ctx;
	i->this_boot = s->this_boot;
	if (is_of_others_before(s, i))
		incident_free(i);
	else
		ledger_add(&s->ledger, i);
}

static void on_machine(void *ctx, const struct machine *m) { machine_merge(&((struct uh_session *)ctx)->machine, m); }

static void on_note(void *ctx, const struct event *e)
{
	struct uh_session *s = ctx;
	const struct fact_view view = { event_get, e };
	struct text text = { 0 };
	s->refusals += e->signature->event->tells == TELLS_UNREAD;
	s->unknown_failures += e->signature->event->tells == TELLS_UNKNOWN;
	if (s->notes.len == NOTES_MAX)
		return;
	const struct str aside = e->signature->event->aside;
	phrase_fill(&text, aside.n ? aside : e->signature->event->say, &view);
	for (size_t n = 0; n < s->notes.len; n++) {
		if (str_eq(s->notes.data[n].text, text_str(&text))) {
			text_free(&text);
			return;
		}
	}
	struct note note = { e->signature->event->head.id, arena_str(&s->arena, text_str(&text)), e->at, aside.n };
	vec_push(&s->notes, note);
	text_free(&text);
}

void session_error(void *ctx, struct uh_error *err)
{
	session_problem(ctx, err->message);
	uh_error_free(err);
}

/** A directory may hold thousands of files that are no evidence: the first are named, the others counted. */
static void refuse_source(struct uh_session *s, struct uh_error *err)
{
	if (++s->refused <= REFUSED_TOLD) {
		session_error(s, err);
		return;
	}
	s->problems++;
	uh_error_free(err);
}

static void tell_refused(const struct uh_session *s)
{
	struct text line = { 0 };
	if (s->refused <= REFUSED_TOLD || !s->problem)
		return;
	text_printf(&line, "and %u more that could not be read", s->refused - REFUSED_TOLD);
	s->problem(s->ctx, line.p);
	text_free(&line);
}

void session_visit(void *ctx, struct source *source)
{
	struct uh_session *s = ctx;
	engine_end(s->engine);
	struct uh_error *err = evidence_read(s->evidence, s->lines ? lines_watch(s->lines, source) : source);
	if (s->lines)
		lines_take(s->lines, source);
	if (err)
		refuse_source(s, err);
}

static void on_record(void *ctx, const char *name, const struct source_record *record)
{
	struct uh_session *s = ctx;
	if (name && !record)
		engine_end(s->engine);
	if (s->lines && !record)
		lines_begin_records(s->lines);
	evidence_record(s->evidence, name, record);
	if (s->lines && record)
		lines_take_record(s->lines, record->text);
}

static void on_bundle(void *ctx, const char *name, struct bundle *b)
{
	struct uh_session *s = ctx;
	if (!s->asked) {
		session_add_bundle(s, machine_new(b, name));
		return;
	}
	bundle_free(b);
	session_error(s, uh_error_new("%s: a second bundle; each is a machine of its own, so explain one at a time", name));
}

struct source_visitor session_visitor(struct uh_session *s)
{
	return (struct source_visitor){
		.visit = session_visit, .record = on_record, .problem = session_error, .ctx = s, .bundle = on_bundle
	};
}

struct uh_session *uh_session_new(uh_problem_fn *problem, void *ctx)
{
	struct uh_session *s = mem_alloc(sizeof(*s));
	s->problem = problem;
	s->ctx = ctx;
	struct know_problems problems = { .report = on_knowledge_problem, .ctx = s };
	s->know = know_load(&problems);
	s->evidence = evidence_reader_new(s->know, (struct event_sink){ on_event, s, on_look });
	s->engine = engine_new(s->know, (struct incident_sink){ on_incident, on_machine, on_note, s });
	return s;
}

void uh_session_on_progress(struct uh_session *s, uh_progress_fn *progress, void *ctx)
{
	evidence_on_progress(s->evidence, progress, ctx);
}

void uh_session_free(struct uh_session *s)
{
	if (!s)
		return;
	engine_free(s->engine);
	ledger_free(&s->ledger);
	machine_clear(&s->machine);
	vec_free(&s->kinds);
	vec_free(&s->notes);
	arena_free(&s->arena);
	text_free(&s->unread);
	lines_free(s->lines);
	evidence_reader_free(s->evidence);
	know_free(s->know);
	uh_machine_free(s->opened);
	free(s);
}

void uh_session_on_machine(struct uh_session *s, struct uh_machine *m) { s->asked = m; }

void uh_session_add_path(struct uh_session *s, const char *path)
{
	struct source_visitor v = session_visitor(s);
	if (!session_add_run(s, path))
		source_path(path, &v);
}

void uh_session_add_bytes(struct uh_session *s, const char *name, const void *bytes, size_t n)
{
	struct source_visitor v = session_visitor(s);
	source_bytes(name, (struct str){ bytes, n }, &v);
}

void uh_session_add_journal(struct uh_session *s, const char *root, int boot)
{
	struct source_visitor v = session_visitor(s);
	engine_end(s->engine);
	s->this_boot = !root && !boot;
	struct uh_error *err = source_journal(root, boot, &v);
	if (err)
		session_error(s, err);
	engine_end(s->engine);
	s->this_boot = false;
}

void uh_session_add_crash_files(struct uh_session *s, const char *root)
{
	struct source_visitor v = session_visitor(s);
	source_crash_files(root, &v);
}

void uh_session_add_newest(struct uh_session *s, const char *root)
{
	struct source_visitor v = session_visitor(s);
	if (session_plays(s)) {
		session_add_taped_logs(s);
		return;
	}
	unsigned before = s->problems;
	s->log_wanted |= !root;
	int boots = source_journal_boots(root);
	// Without a journal, the running kernel's own buffer is what this machine has.
	if (!boots && !root) {
		s->this_boot = true;
		struct uh_error *err = source_kmsg("/dev/kmsg", &v);
		if (err)
			session_error(s, err);
		engine_end(s->engine);
		s->this_boot = false;
	}
	s->log_read |= boots || s->problems == before;
	for (int back = 0; back < boots && back < BOOTS_BACK && !s->ledger.incidents.len; back++) {
		uh_session_add_journal(s, root, -back);
		engine_end(s->engine);
	}
	if (!s->ledger.incidents.len)
		uh_session_add_crash_files(s, root);
}

/** Which answers that the look at the GPUs needs the bundle has lost; empty: none. */
static struct str lost_answers(const struct uh_session *s)
{
	return !machine_whole(s->asked, "gpus")    ? S("answers/gpus in the bundle is missing, damaged, cut short or of another capture") :
	       !machine_whole(s->asked, "machine") ? S("answers/machine in the bundle is missing, damaged, cut short or of another capture") :
						     (struct str){ 0 };
}

struct uh_error *uh_session_add_machine(struct uh_session *s, const char *gpu)
{
	struct silicon_options o = { .gpu = gpu ? str_z(gpu) : (struct str){ 0 },
				     .tape = machine_tape(s->asked, "machine"),
				     .name = s->asked ? s->asked->path : NULL,
				     .devices = s->asked ? s->asked->devices : NULL,
				     .lacks = s->lost = lost_answers(s) };
	char host[HOST_NAME_MAX + 1] = "";
	if (gethostname(host, sizeof(host) - 1))
		host[0] = 0;
	s->host = arena_str(&s->arena, tape_said(o.tape, &s->arena, "host", str_z(host)));
	const int64_t job_began = tape_number(o.tape, "job began", s->asked ? s->asked->job_began : 0);
	if (job_began > 0 && tape_plays(o.tape)) {
		s->job_ended = true;
		session_since_job(s, (double)job_began / 1000);
	}
	engine_end(s->engine);
	s->this_boot = true;
	evidence_machine(s->evidence, &o);
	engine_end(s->engine);
	s->this_boot = false;
	if (gpu && !devices_named(&s->seen->devices, o.gpu))
		return uh_error_new("this machine has no AMD GPU '%s'", gpu);
	return NULL;
}

void uh_session_expect_gpus(struct uh_session *s, unsigned n) { s->expected = n; }

unsigned uh_session_gpus(const struct uh_session *s, unsigned *ret_unwell)
{
	*ret_unwell = 0;
	for (size_t n = 0; s->seen && n < s->seen->n; n++)
		*ret_unwell += s->seen->gpus[n].unwell;
	return s->seen ? (unsigned)s->seen->n : 0;
}

static bool has_kind(const struct uh_session *s, const char *kind)
{
	for (size_t n = 0; n < s->kinds.len; n++)
		if (str_is(s->kinds.data[n], kind))
			return true;
	return false;
}

/** In a container half of the story is out of reach. A file may come from elsewhere, and says nothing of this machine. */
static void say_what_the_host_has(struct uh_session *s)
{
	if (s->asked || !s->log_wanted || has_kind(s, "kernel-log") || !evidence_count(s->evidence) ||
	    s->notes.len == NOTES_MAX || !source_in_container())
		return;
	struct note note = {
		S("container"),
		S("This is a container; only the host has the kernel log. On the host, run sudo journalctl -k -b -o "
		  "short-monotonic > "
		  "kernel.txt, then explain that file. The driver's files and device cores are on the host too."),
		{ 0, 0 }
	};
	vec_push(&s->notes, note);
}

struct uh_error *uh_session_part(struct uh_session *s, const char *name)
{
	bool several;
	const struct know_part *part = know_part_called(s->know, str_z(name), &several);
	engine_say_part(s->engine, part);
	s->machine.said = part;
	return part    ? NULL :
	       several ? uh_error_new("there are several parts called '%s'; give the PCI device id (lspci -nn): --part 744c",
				      name) :
			 uh_error_new("there is no part '%s'; unhang knowledge list part lists them", name);
}

static void keep_lines(struct uh_session *s, unsigned around)
{
	lines_free(s->lines);
	s->lines = lines_new(around);
}

void uh_session_keep_lines(struct uh_session *s)
{
	if (!s->lines)
		keep_lines(s, 0);
}

void uh_session_keep_around(struct uh_session *s, bool all)
{
	enum { AROUND = 3 };
	keep_lines(s, all ? AROUND_ALL : AROUND);
}

struct uh_error *uh_session_since(struct uh_session *s, const char *since)
{
	s->told.limited = true;
	return since_parse(s->know, str_z(since), time(NULL), &s->told.since);
}

void session_since_job(struct uh_session *s, double began)
{
	enum { SLACK_S = 2 };
	if (!s->told.limited || s->told.since < began - SLACK_S) // or somebody has asked for less
		s->told.since = began - SLACK_S;
	s->told.began = began;
	s->told.limited = s->told.lines = true;
}

void uh_session_newest(struct uh_session *s) { s->told.newest = true; }

void uh_session_add_code(struct uh_session *s, const char *path) { evidence_add_code(s->evidence, path); }

void uh_session_end(struct uh_session *s)
{
	engine_end(s->engine);
	tell_refused(s);
	struct uh_error *err = evidence_end(s->evidence);
	if (err)
		session_error(s, err);
	const char *refused = evidence_refused(s->evidence);
	if (refused && s->problem) // nothing of the evidence was left unread for it
		s->problem(s->ctx, refused);
	engine_end(s->engine);
	for (size_t n = 0; n < evidence_count(s->evidence); n++)
		for (size_t k = 0; k < evidence_at(s->evidence, n)->nkinds; k++)
			vec_push(&s->kinds, str_z(evidence_at(s->evidence, n)->kinds[k]));
	say_what_the_host_has(s);
	if (evidence_count(s->evidence) > 1 || s->ledger.incidents.len > 1)
		ledger_join(&s->ledger, s->know, &s->machine);
	ledger_sort(&s->ledger);
	s->told.now = time(NULL);
	s->earlier = told_leave_out(&s->ledger, s->evidence, &s->told);
	session_advise(s);
	session_judge(s);
}

unsigned uh_session_sources(const struct uh_session *s) { return (unsigned)evidence_count(s->evidence); }
unsigned uh_session_problems(const struct uh_session *s) { return s->problems; }
unsigned uh_session_incidents(const struct uh_session *s) { return (unsigned)s->ledger.incidents.len; }

struct diagnosis session_diagnosis(const struct uh_session *s)
{
	return (struct diagnosis){
		.know = s->know,
		.evidence = s->evidence,
		.ledger = &s->ledger,
		.machine = s->seen,
		.notes = s->notes.data,
		.nnotes = s->notes.len,
		.verdict = s->verdict,
		.unread = text_str(&s->unread),
		.expected = s->expected,
		.host = s->host,
		.earlier = s->earlier,
		.lines = s->lines,
	};
}

void uh_session_report(struct uh_session *s, FILE *out, const struct uh_report_options *options)
{
	struct diagnosis d = session_diagnosis(s);
	d.lines = options->lines ? s->lines : NULL;
	if (options->json)
		report_json(&d, out);
	else if (options->oneline)
		report_oneline(&d, out);
	else
		report_text(&d, out, options);
}
