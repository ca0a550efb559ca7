// What a child without rights does with a bundle, which holds what strangers wrote: how it begins, and the text of a bug report.
#include "session/bundle/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "base/print.h"
#include "base/save.h"
#include "host/host.h"
#include "report/manifest.h"
#include "session/machine.h"
#include "session/session.h"
#include "session/run/run.h"

struct uh_session *apart_begin(int out, int bundle)
{
	prctl(PR_SET_NAME, "unhang-explain");
	child_keep_two(out, bundle);
	hold_descriptors();
	door_leave();
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	door_end(); // what read the knowledge has rights
	return s;
}

struct uh_machine *apart_open(int bundle, const char *name)
{
	struct uh_machine *m = NULL;
	if (!lower_privileges(LOWER_NOGROUP) || machine_of_bundle(bundle, name, &m) || !m)
		_exit(1);
	return m;
}

#define LOG_MEMBER "kernel-log.txt"

/** Whether a line is about a GPU: knowledge has it, or the driver wrote it. */
static bool report_keeps(const void *ctx, struct str line)
{
	struct match m;
	struct str text = line;
	if (str_starts(line, S("[")))
		str_split(&text, ']');
	return str_find(line, S("amdgpu")) >= 0 || str_find(line, S("kfd")) >= 0 || know_match(ctx, str_trim(text), &m);
}

/** What explain says of the bundle, as on a terminal. */
static struct str explain_bundle(struct uh_session *s, struct arena *a, struct uh_machine *m, bool *ret_incident)
{
	enum { WIDTH = 100 };
	uh_session_on_machine(s, m);
	uh_error_free(uh_session_add_machine(s, NULL));
	uh_session_add_newest(s, NULL);
	uh_session_end(s);
	*ret_incident = uh_session_incidents(s) > 0;
	return session_report_text(s, false, WIDTH, a);
}

static struct str join_texts(struct arena *a, struct str x, const char *between, struct str y)
{
	return x.n && y.n ? arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(x), between, STR_ARG(y)) : x.n ? x : y;
}

struct str bug_report_cpu(struct arena *a, struct devices *d)
{
	enum { ASK_MS = 700 };
	struct probe p = { .path = "/proc/cpuinfo" }; // the first processor is enough
	probe_run(a, &p, 1, ASK_MS, NULL, &d->count);
	struct str text = probe_text(&p);
	while (text.n) {
		struct str value = str_split(&text, '\n');
		if (str_eq(str_trim(str_split(&value, ':')), S("model name")))
			return str_trim(value);
	}
	return (struct str){ 0 };
}

/** What the form of a bug report asks for, from the answers that the doctor got on that machine. */
static void bug_report_add_facts(struct arena *a, struct uh_machine *m, const struct know *k, struct bug_report *b)
{
	_cleanup_(host_free) struct host h;
	host_look(k, (struct machine_at){ .tape = machine_tape(m, "doctor") }, &h);
	const struct host_item *i = host_machine(&h);
	b->system =
		arena_str(a, join_texts(a, host_value(&h, i, "distribution"), " ", host_value(&h, i, "distribution_version")));
	b->cpu = bug_report_cpu(a, &h.devices);
	b->rocm = arena_str(a, host_value(&h, i, "rocm"));
	b->kernel = arena_str(a, join_texts(a, host_value(&h, i, "kernel"), ", amdgpu ", host_value(&h, i, "driver_kind")));
	for (size_t d = 0; d < h.devices.n; d++) {
		const struct device *g = &h.devices.list[d];
		b->gpus = arena_printf(a, STR_FMT "%s" STR_FMT " (" STR_FMT ") at " STR_FMT, STR_ARG(b->gpus), d ? "\n" : "",
				       STR_ARG(g->name), STR_ARG(g->gfx), STR_ARG(g->pci));
	}
}

// --- the child: a bundle holds what strangers wrote ---

struct bug_report_work {
	const char *bundle;
	int fd;
	const struct know *know;
};

/** Its output is the report. Knowledge is read before the rights go, the bundle is taken apart behind that. */
static void report_child(int fd, const void *ctx)
{
	const struct bug_report_work *given = ctx;
	struct arena a = { 0 };
	struct uh_session *s = apart_begin(fd, given->fd);
	struct uh_machine *m = apart_open(given->fd, given->bundle);
	FILE *out = fdopen(fd, "w");
	if (!out)
		_exit(1);
	const struct bundle_member *log = bundle_member(m->bundle, S(LOG_MEMBER));
	struct bug_report b = {
		.bundle = str_base(str_z(given->bundle)), .log_name = LOG_MEMBER, .matters = report_keeps, .ctx = given->know
	};
	b.diagnosis = explain_bundle(s, &a, m, &b.incident);
	if (log)
		b.log = (struct str){ log->bytes, log->n };
	bug_report_add_facts(&a, m, given->know, &b);
	report_bug(&b, out);
	const bool bad = fclose(out);
	uh_session_free(s);
	uh_machine_free(m);
	arena_free(&a);
	door_end();
	_exit(bad);
}

const char *bug_report_name(struct arena *a, const char *bundle) { return arena_printf(a, "%s.md", bundle).p; }

struct uh_error *bug_report_write(const char *bundle, const struct know *k)
{
	enum { MODE = 0640, REPORT_MS = 60000 };
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text text = { 0 };
	_cleanup_close_ int fd = open(bundle, O_RDONLY | O_CLOEXEC);
	const struct bug_report_work given = { bundle, fd, k };
	const struct child_task task = { .name = CHILD_REPORT, .deadline = now_ms() + REPORT_MS };
	const enum child_end end = fd < 0 ? CHILD_REFUSED : child_collect(&task, report_child, &given, &text);
	if (end == CHILD_REFUSED)
		return uh_error_os(errno, "%s", bundle);
	return end == CHILD_GOOD && text.n ? save_new_file(AT_FDCWD, bug_report_name(&a, bundle), text_str(&text), MODE) :
					     uh_error_new("%s: the text for a bug report could not be written%s", bundle,
							  end == CHILD_LATE ? " in time" : "");
}
