// A session ties the way of the data together: source, evidence, events, incidents, report. Sources are read one after another, each by
// itself; what several say of one failure is joined when all have been read (uh_session_end).
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/run/run.h"
#include "session/look.h"
#include "session/session.h"
#include "source/process.h"

enum { BOOTS_BACK = 5, NOTES_MAX = 16, NAMES_MAX = 4096, REFUSED_TOLD = 8 };

/** Leaves out what tells of a failure that was over when what is to be explained began, and so cannot be joined to it. What is said of the
 * machine itself still holds. */
static void session_event(void *ctx, const struct event *e)
{
	struct uh_session *s = ctx;
	const struct stamp at = evidence_wall(evidence_at(s->evidence, e->at.source), e->time);
	corrected_take(&s->corrected, e, at);
	if (e->signature && e->signature->event && e->signature->event->tells == TELLS_BOOT &&
	    (at.clock == TIME_WALL || at.clock == TIME_LOCAL) && at.seconds > s->booted.seconds)
		s->booted = at;
	const bool context = !e->signature || (e->signature->event && e->signature->event->opens == OPENS_CONTEXT);
	if (s->told.lines && !context && at.clock == TIME_WALL && at.seconds < s->told.since)
		return;
	if (s->lines)
		lines_want(s->lines, e->at);
	session_take_boot(s, e);
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

/** The boot id of the machine that is asked; of a bundle, as its manifest has it. */
static struct str session_boot(struct uh_session *s)
{
	const struct bundle *b = s->asked ? s->asked->bundle : NULL;
	const struct bundle_member *manifest = b ? bundle_member(b, S(BUNDLE_MANIFEST)) : NULL;
	const struct str key = S("\"boot_id\": \"");
	char room[64];
	if (!s->boot.n && !s->asked)
		s->boot = arena_str(&s->arena, source_boot_id(room));
	if (!s->boot.n && manifest) {
		struct str text = { manifest->bytes, manifest->n };
		const ptrdiff_t at = str_find(text, key);
		text = str_from(text, at < 0 ? text.n : (size_t)at + key.n);
		s->boot = str_cut(str_split(&text, '"'), sizeof(room));
	}
	return s->boot;
}

static void session_named(void *ctx, uint32_t term, struct place at)
{
	struct uh_session *s = ctx;
	const struct case_named one = { term, at };
	if (s->cases.names.len < NAMES_MAX)
		vec_push(&s->cases.names, one);
}

static void session_look(void *ctx, const struct machine_observation *m) { ((struct uh_session *)ctx)->seen = m; }
/** Called when an incident closes. The session owns it from here on. */
static void session_incident(void *ctx, struct incident *i)
{
	struct uh_session *s = ctx;
	i->this_boot = s->this_boot;
	if (is_of_others_before(s, i)) {
		incident_free(i);
		return;
	}
	if (s->this_boot && !i->boot_id.n) {
		i->machine_boot = arena_str(&i->arena, session_boot(s));
		incident_name(i);
	}
	ledger_add(&s->ledger, i);
}

static int64_t note_count(const struct note *n)
{
	int64_t count;
	return n->error && str_number(module_error_value(n->error, "ras_count"), &count) ? count : 0;
}

void session_add_note(struct uh_session *s, struct note note)
{
	for (size_t n = 0; n < s->notes.len; n++)
		if (str_eq(s->notes.data[n].text, note.text))
			return;
	if (s->notes.len == NOTES_MAX)
		return;
	note.text = arena_str(&s->arena, note.text);
	note.gpu.device = arena_str(&s->arena, note.gpu.device);
	if (note.error)
		note.error = module_error_copy(note.error, &s->arena);
	vec_push(&s->notes, note);
	// Of counters that tell the same, the largest first: it is the one that somebody wants to see.
	struct note *list = s->notes.data;
	for (size_t n = s->notes.len - 1;
	     n && str_eq(list[n].event, list[n - 1].event) && note_count(&list[n]) > note_count(&list[n - 1]); n--) {
		list[n] = list[n - 1];
		list[n - 1] = note;
	}
}

static void session_machine(void *ctx, const struct machine *m)
{
	struct uh_session *s = ctx;
	machine_merge(&s->machine, m);
	const struct str text =
		S("This log ends when the machine goes to sleep. If it did not wake up: boot the older kernel if an "
		  "update began it, else update kernel and BIOS. To see how far it gets, boot with "
		  "no_console_suspend");
	if (m->sleeping)
		session_add_note(s, (struct note){ S("ends-asleep"), text, .seen = true, .trouble = true });
}

static void session_process(void *ctx, const struct event *e) { job_take(&((struct uh_session *)ctx)->job, e); }

static void session_note(void *ctx, const struct diag_seen *seen)
{
	struct uh_session *s = ctx;
	_cleanup_text_ struct text text = { 0 };
	s->refusals += seen->kind->tells == TELLS_UNREAD;
	s->unknown_failures += seen->kind->tells == TELLS_UNKNOWN;
	phrase_fill(&text, seen->kind->aside.n ? seen->kind->aside : seen->kind->say, &seen->facts);
	if (!text.n) // of most messages only the words are known
		text_printf(&text, "The driver reported an error: " STR_FMT, STR_ARG(seen->text));
	struct note note = { seen->kind->head.id, text_str(&text), seen->at, !seen->kind->note, seen->kind->trouble };
	_cleanup_arena_ struct arena a = { 0 };
	struct module_error error = { 0 };
	module_error_add(&error, &seen->facts, NULL);
	if (module_error_known(&error)) {
		note.gpu.device = seen->device;
		note.error = &error;
		note.text = module_error_says(&error, &note.gpu, note.text, &a);
	}
	session_add_note(s, note);
}

void session_error(void *ctx, struct uh_error *err)
{
	struct uh_session *s = ctx;
	s->problems++;
	if (s->problem)
		s->problem(s->ctx, err->message);
	uh_error_free(err);
}

/** A directory may hold thousands of files that are no evidence: the first are named, the others counted. */
void session_visit(void *ctx, struct source *source)
{
	struct uh_session *s = ctx;
	engine_end(s->engine);
	_cleanup_error_ struct uh_error *err = evidence_read(s->evidence, s->lines ? lines_watch(s->lines, source) : source);
	if (s->lines)
		lines_take(s->lines, source);
	if (err && ++s->refused > REFUSED_TOLD)
		s->problems++;
	else if (err)
		session_error(s, take_ptr(err));
}

static void session_record(void *ctx, const char *name, const struct source_record *record)
{
	struct uh_session *s = ctx;
	if (name && !record)
		engine_end(s->engine);
	if (s->lines && !record)
		lines_begin_records(s->lines);
	evidence_record(s->evidence, name, record);
	if (s->lines && record)
		lines_take_record(s->lines, record->text);
	if (record && s->of_machine)
		past_add_boot(&s->past, record->boot_id);
}

/** Two machines in one answer would be taken for one. */
static void session_bundle(void *ctx, const char *name, struct bundle *b)
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
		.visit = session_visit, .record = session_record, .problem = session_error, .ctx = s, .bundle = session_bundle
	};
}

struct uh_session *uh_session_new(uh_problem_fn *problem, void *ctx)
{
	struct uh_session *s = mem_alloc(sizeof(*s));
	s->problem = problem;
	s->ctx = ctx;
	s->know = look_knowledge((struct teller){ problem, ctx });
	s->evidence = evidence_reader_new(s->know, (struct event_sink){ session_event, s, session_look, session_named });
	s->engine = engine_new(s->know,
			       (struct incident_sink){ session_incident, session_machine, session_note, s, session_process });
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
	job_seen_free(&s->job);
	cases_asked_free(&s->cases);
	vec_free(&s->kinds);
	corrected_free(&s->corrected);
	vec_free(&s->notes);
	vec_free(&s->answers);
	arena_free(&s->arena);
	text_free(&s->unread);
	lines_free(s->lines);
	evidence_reader_free(s->evidence);
	know_free(s->know);
	uh_machine_free(s->opened);
	past_free(&s->past);
	changes_free(&s->changes);
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
	s->of_machine = true;
	s->this_boot = !root && !boot;
	s->machine_root = root;
	struct uh_error *err = source_journal(root, boot, &v);
	if (err && s->this_boot && err->errnum == ENODATA) { // journald has not stored it: the kernel still has it
		uh_error_free(err);
		err = source_kmsg("/dev/kmsg", &v);
	}
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
	s->of_machine = true;
	s->log_wanted |= !root;
	s->machine_root = root;
	int boots;
	struct uh_error *damaged = source_journal_boots(root, &boots);
	if (damaged)
		session_error(s, damaged);
	// Without a journal, the running kernel's own buffer is what this machine has.
	s->this_boot = !boots && !root;
	if (s->this_boot) {
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
		s->boots_read = back + 1;
	}
	if (!s->ledger.incidents.len)
		uh_session_add_crash_files(s, root);
}

struct uh_error *uh_session_add_machine(struct uh_session *s, const char *gpu)
{
	const char *lost = !machine_whole(s->asked, "gpus") ? "gpus" : !machine_whole(s->asked, "machine") ? "machine" : NULL;
	s->lost = lost ? arena_printf(&s->arena,
				      "answers/%s in the bundle is missing, damaged, cut short or of another capture", lost) :
			 (struct str){ 0 };
	struct silicon_options o = { .gpu = gpu ? str_z(gpu) : (struct str){ 0 },
				     .tape = machine_tape(s->asked, "machine"),
				     .name = s->asked ? s->asked->path : NULL,
				     .devices = s->asked ? s->asked->devices : NULL,
				     .lacks = s->lost };
	char host[SOURCE_HOST_MAX];
	s->host = arena_str(&s->arena, tape_said(o.tape, &s->arena, "host", str_z(source_host(host))));
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

/** In a container half of the story is out of reach. A file may come from elsewhere, and says nothing of this machine. */
static void say_what_the_host_has(struct uh_session *s)
{
	bool kernel_log = false;
	for (size_t n = 0; n < s->kinds.len; n++)
		kernel_log |= str_is(s->kinds.data[n], "kernel-log");
	if (s->asked || !s->log_wanted || kernel_log || !evidence_count(s->evidence) || !source_in_container())
		return;
	const struct str text =
		S("This is a container; only the host has the kernel log. On the host, run sudo journalctl -k -b -o "
		  "short-monotonic > kernel.txt, then explain that file. The driver's files and device cores are "
		  "on the host too.");
	session_add_note(s, (struct note){ S("container"), text });
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

void uh_session_keep_lines(struct uh_session *s)
{
	if (!s->lines)
		s->lines = lines_new(0);
}

void uh_session_keep_around(struct uh_session *s, bool all)
{
	enum { AROUND = 3 };
	lines_free(s->lines);
	s->lines = lines_new(all ? AROUND_ALL : AROUND);
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

/** Of the machine that was looked at, now or for a bundle. */
static struct boot_began session_boot_began(struct uh_session *s)
{
	for (size_t n = 0; n < evidence_count(s->evidence); n++) {
		const struct evidence *e = evidence_at(s->evidence, n);
		if (str_is(str_z(e->kind), "live") && e->wall_most)
			return (struct boot_began){ session_boot(s), e->wall_most };
	}
	return (struct boot_began){ 0 };
}

void uh_session_end(struct uh_session *s)
{
	engine_end(s->engine);
	if (s->refused > REFUSED_TOLD && s->problem) {
		_cleanup_text_ struct text line = { 0 };
		text_printf(&line, "and %u more that could not be read", s->refused - REFUSED_TOLD);
		s->problem(s->ctx, line.p);
	}
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
	session_note_past(s);
	corrected_tell(s);
	const struct boot_began boot = session_boot_began(s);
	if (evidence_count(s->evidence) > 1 || s->ledger.incidents.len > 1)
		ledger_join(&s->ledger, s->know, &s->machine, &boot);
	ledger_sort(&s->ledger);
	s->told.now = time(NULL);
	s->earlier = told_leave_out(&s->ledger, s->evidence, &s->told);
	session_changes(s);
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
		.observed = s->seen,
		.notes = s->notes.data,
		.nnotes = s->notes.len,
		.verdict = s->verdict,
		.unread = text_str(&s->unread),
		.expected = s->expected,
		.host = s->host,
		.earlier = s->earlier,
		.lines = s->lines,
		.again = s->again,
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
