// What of a bundle a session reads: the machine, its logs, and members that are evidence by themselves.
#include <string.h>

#include "recorder/format.h"
#include "session/machine.h"
#include "session/session.h"

bool session_plays(const struct uh_session *s) { return s->asked && tape_plays(s->asked->tape); }

/** Of a member that is evidence by itself, what is left is the source's ctx. */
static ssize_t read_rest(struct source *source, void *buffer, size_t size, struct uh_error **)
{
	struct str *left = source->ctx, part = str_cut(*left, size);
	if (part.n)
		memcpy(buffer, part.p, part.n);
	*left = str_from(*left, part.n);
	return (ssize_t)part.n;
}

/** Reads the members below a directory of the bundle. */
static void add_members(struct uh_session *s, struct str directory)
{
	const struct bundle *b = s->asked->bundle;
	for (size_t i = 0; b && i < b->members.len; i++) {
		const struct bundle_member *m = &b->members.data[i];
		struct str left = { m->bytes, m->n };
		if (!str_starts(m->name, directory) || !m->n)
			continue;
		struct str name = arena_printf(&s->arena, "%s:" STR_FMT, s->asked->path, STR_ARG(m->name));
		struct source source = { .name = name.p,
					 .size = m->n,
					 .read = read_rest,
					 .ctx = &left,
					 .bytes = m->bytes,
					 .tape = machine_tape(s->asked, "processes") };
		session_visit(s, &source);
	}
}

/** A run saves the recordings of its job, and no others. In a container the kernel's log has other numbers than they. */
static void note_job(struct uh_session *s)
{
	const struct bundle *b = s->asked->bundle;
	struct job_pids *job = &s->told.job;
	for (size_t i = 0; i < b->members.len && job->n < ARRAY_SIZE(job->list); i++) {
		const struct bundle_member *m = &b->members.data[i];
		struct rec_header h;
		if (!str_starts(m->name, S(BUNDLE_RECORDINGS)) || m->n < sizeof(h))
			continue;
		memcpy(&h, m->bytes, sizeof(h));
		if (!memcmp(h.magic, RECORDING_MAGIC, sizeof(h.magic)) && h.version == RECORDING_VERSION && !h.pid_namespace)
			job->list[job->n++] = h.pid;
	}
}

void session_add_bundle(struct uh_session *s, struct uh_machine *m)
{
	static const char *const evidence[] = { BUNDLE_DUMPS, BUNDLE_RECORDINGS, BUNDLE_TOOLS };
	s->asked = s->opened = m;
	note_job(s);
	struct uh_error *err = uh_session_add_machine(s, NULL);
	if (err)
		session_error(s, err);
	uh_session_add_newest(s, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(evidence); i++)
		add_members(s, str_z(evidence[i]));
}

void session_add_taped_logs(struct uh_session *s)
{
	struct source_visitor v = session_visitor(s);
	struct tape *tape = s->asked->tape;
	s->log_wanted = s->this_boot = s->of_machine = true;
	const bool played = tape_play_log(tape, TAPE_LOG_BOOT, &v) || tape_play_log(tape, TAPE_LOG_BUFFER, &v);
	s->log_read = played && machine_whole(s->asked, BUNDLE_LOG);
	engine_end(s->engine);
	s->this_boot = false;
	if (!s->ledger.incidents.len)
		tape_play_log(tape, TAPE_LOG_BEFORE, &v);
	engine_end(s->engine);
	if (!s->ledger.incidents.len)
		add_members(s, S(BUNDLE_CRASH));
}
