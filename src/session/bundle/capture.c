// unhang capture: the looks whose answers a bundle keeps, and what is said of it.
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/command.h"
#include "base/print.h"
#include "gpu/target.h"
#include "host/host.h"
#include "session/look.h"
#include "session/bundle/bug_report.h"
#include "session/bundle/capture.h"
#include "session/machine.h"
#include "session/session.h"

/** What the looks of a capture share. They run in one process, one after the other. */
struct recording {
	enum user_data user_data;
	int64_t job_began;
	struct know *know; // as long as the capture
	struct devices devices;
	bool found;
	struct uh_machine machine;
	_Atomic bool *calm; // all GPUs are well and awake, as the look at the machine found; shared with the capture
	FILE *nowhere;      // a look's answer is for nobody: only what the machine answered is kept
};

/** Files of the driver that wait for nothing are read first: where another one blocks, only those are asked again that have answered. */
static void ask_the_harmless(struct recording *r)
{
	enum { SIZE = 1 << 16, ASK_MS = 700 };
	struct arena a = { 0 };
	for (size_t i = 0; i < r->devices.n; i++) {
		const struct device *d = &r->devices.list[i];
		struct probe p = { .path = arena_printf(&a, STR_FMT "/amdgpu_firmware_info", STR_ARG(d->debugfs)).p,
				   .size = SIZE };
		if (d->debugfs.n && device_awake(d))
			probe_run(&a, &p, 1, ASK_MS, NULL, &r->devices.count);
	}
	arena_free(&a);
}

/** Hands the machine over to the next look. The first finds the GPUs for all. */
static struct recording *record_on(struct tape *tape, void *ctx)
{
	enum { PATIENCE_MS = 10000 };
	struct recording *r = ctx;
	r->machine = (struct uh_machine){ .tape = tape, .devices = &r->devices, .know = r->know, .job_began = r->job_began };
	if (!r->nowhere)
		r->nowhere = fopen("/dev/null", "w");
	if (!r->found) {
		devices_find_at(r->know, (struct machine_at){ .tape = tape }, &r->devices);
		ask_the_harmless(r);
	}
	r->found = true;
	*r->devices.count.patience = (struct probe_patience){ PATIENCE_MS, tape };
	return r;
}

static void look_for_gpus(struct tape *tape, void *ctx) { record_on(tape, ctx); }

static bool is_calm(const struct uh_session *s)
{
	bool calm = s->seen && s->seen->n;
	for (size_t i = 0; calm && i < s->seen->n; i++) {
		const struct gpu_observation *g = &s->seen->gpus[i];
		calm = g->known && !g->unwell && device_awake(g->device);
	}
	return calm;
}

static bool was_calm(void *ctx)
{
	const struct recording *r = ctx;
	return r->calm && *r->calm;
}

static void look_at_machine(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	struct host host;
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	uh_session_on_machine(s, &r->machine);
	uh_error_free(uh_session_add_machine(s, NULL));
	if (r->calm)
		*r->calm = is_calm(s);
	uh_session_free(s);
	host_look_beside(r->know, tape, &host); // what an incident's advice is held against
	host_free(&host);
}

/** Text and JSON ask for different things. */
static void look_at_waves(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	struct uh_look_options o = { .machine = &r->machine, .registers = r->user_data != USER_DATA_NONE, .all = true };
	uh_error_free(uh_look_waves(&o, r->nowhere, tell_nobody, NULL));
}

static void look_at_queues(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	struct uh_look_options o = { .machine = &r->machine };
	for (int json = 0; json < 2; json++) {
		o.json = json;
		uh_error_free(uh_look_queues(&o, r->nowhere, tell_nobody, NULL));
	}
}

static void look_at_rings(struct tape *tape, void *ctx)
{
	enum { PACKETS = 64 }; // on each side of where a ring stands
	struct recording *r = record_on(tape, ctx);
	struct uh_look_options o = { .machine = &r->machine, .packets = PACKETS, .json = true };
	uh_error_free(uh_look_rings(&o, NULL, 0, r->nowhere, tell_nobody, NULL));
}

static void look_at_registers(struct tape *tape, void *ctx)
{
	static const char *const names[] = { "*STATUS*", "*FAULT*" };
	struct recording *r = record_on(tape, ctx);
	for (size_t i = 0; i < r->devices.n; i++) {
		unsigned read;
		struct arena a = { 0 };
		struct uh_look_options o = { .machine = &r->machine,
					     .gpu = arena_z(&a, r->devices.list[i].pci),
					     .all = true,
					     .bank = { -1, -1, -1, -1, -1, -1, -1, -1 } };
		uh_error_free(uh_look_regs(&o, names, sizeof(names) / sizeof(names[0]), r->nowhere, tell_nobody, NULL, &read));
		arena_free(&a);
	}
}

static void look_as_doctor(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	struct uh_doctor_options o = { .machine = &r->machine };
	struct arena a = { 0 };
	unsigned wrong;
	bug_report_cpu(&a, &r->devices); // which the doctor does not ask for
	arena_free(&a);
	uh_error_free(uh_doctor(&o, r->nowhere, tell_nobody, NULL, &wrong));
}

static const struct devices *devices_of(struct tape *tape, void *ctx) { return &record_on(tape, ctx)->devices; }

static void look_at_fences(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	for (size_t i = 0; i < r->devices.n; i++) {
		struct target *t = target_device(r->know, &r->devices.list[i]);
		struct request fences = { .kind = REQUEST_FENCES };
		target_ask(t, &fences);
		target_close(t);
	}
}

/** The silicon first: the state of a hung GPU may be gone soon. Fences last: reading them may end a hang. */
static const struct capture_look looks[] = {
	{ "gpus", "which GPUs there are", look_for_gpus, NULL, false, false },
	{ "machine", "the GPUs: registers, waves, rings, queues", look_at_machine, NULL, false, true },
	{ "waves", "waves on the GPUs", look_at_waves, NULL, false, true },
	{ "rings", "the driver's rings", look_at_rings, NULL, false, true },
	{ "queues", "queues of programs that compute", look_at_queues, NULL, false, true },
	{ "regs", "status registers", look_at_registers, NULL, false, true },
	{ "doctor", "the machine around the GPUs", look_as_doctor, NULL, false, false },
	{ "fences", "fences of the rings", look_at_fences, NULL, true, true },
};
enum { LOOKS = sizeof(looks) / sizeof(looks[0]) };

/** unhang-HOST-20261116-031500.tar.zst; without the host where that is not to be told. */
static const char *usual_name(struct arena *a, bool redact)
{
	struct utsname host = { 0 };
	char stamp[32] = "", name[65] = "";
	time_t now = time(NULL);
	struct tm tm;
	uname(&host);
	for (size_t i = 0; !redact && i + 1 < sizeof(name) && host.nodename[i] && host.nodename[i] != '.'; i++)
		name[i] = char_word(host.nodename[i]) || host.nodename[i] == '-' ? host.nodename[i] : '-';
	if (gmtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	return arena_printf(a, "unhang-%s-%s.tar.zst", *name ? name : "machine", stamp).p;
}

struct uh_error *bundle_take(const struct capture_options *o, struct captured *ret)
{
	struct capture_options all = *o;
	struct capture_look list[LOOKS];
	struct teller teller = { tell_nobody, NULL };
	struct recording recording = { .user_data = o->user_data, .job_began = o->job_began, .know = o->know ? NULL : look_knowledge(&teller) };
	struct know *own = recording.know;
	if (o->know)
		recording.know = (struct know *)o->know;
	for (size_t i = 0; i < LOOKS; i++) {
		list[i] = looks[i];
		list[i].ctx = &recording;
	}
	all.know = recording.know;
	all.looks = list;
	all.nlooks = LOOKS;
	all.devices = devices_of;
	all.devices_ctx = &recording;
	all.calm = was_calm;
	void *calm = mmap(NULL, sizeof(*recording.calm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	recording.calm = calm == MAP_FAILED ? NULL : calm;
	struct uh_error *err = capture_take(&all, ret);
	if (recording.calm)
		munmap(calm, sizeof(*recording.calm));
	if (own)
		know_free(own);
	return err;
}

bool uh_user_data_named(const char *word, enum uh_user_data *ret)
{
	for (int i = 0; user_data_names[i]; i++)
		if (!strcmp(word, user_data_names[i])) {
			*ret = (enum uh_user_data)i;
			return true;
		}
	return false;
}

/** A directory gets a bundle of the usual name. */
static const char *file_of(struct arena *a, const struct uh_capture_options *o)
{
	struct stat st;
	const char *given = o->file, *usual = usual_name(a, o->redact || o->bug_report);
	if (!given)
		return usual;
	if (stat(given, &st) || !S_ISDIR(st.st_mode))
		return given;
	return arena_printf(a, "%s%s%s", given, str_ends(str_z(given), S("/")) ? "" : "/", usual).p;
}

static struct uh_error *check_processes(const struct uh_capture_options *o)
{
	for (size_t i = 0; i < o->npids; i++)
		if (o->pids[i] > INT_MAX || (kill((pid_t)o->pids[i], 0) && errno == ESRCH))
			return uh_error_new("--pid %lld: there is no such process", o->pids[i]);
	return NULL;
}

/** Before there is a bundle: what has the name of the text is not written over. */
static struct uh_error *check_report(const struct uh_capture_options *o, const char *file)
{
	struct arena a = { 0 };
	struct stat st;
	const char *name = bug_report_name(&a, file);
	struct uh_error *err = o->bug_report && !lstat(name, &st) ? uh_error_os(EEXIST, "%s", name) : NULL;
	arena_free(&a);
	return err;
}

/** What root would have saved: one line. */
static void tell_refused(const struct manifest *m, const struct teller *to)
{
	struct text t = { 0 };
	for (size_t i = 0; i < m->items.len; i++) {
		const struct manifest_item *item = &m->items.data[i];
		struct str name = str_base(item->name);
		if (item->state == ITEM_REFUSED)
			text_printf(&t, "%s" STR_FMT, t.n ? ", " : "without root not all could be saved of ",
				    STR_ARG(name.n ? name : item->name));
	}
	if (t.n && geteuid()) {
		text_add(&t, S(": run sudo unhang capture"));
		look_tell(to, text_str(&t));
	}
	text_free(&t);
}

static void say_captured(const struct captured *done, const char *file, bool bug_report, FILE *out)
{
	struct arena a = { 0 };
	report_captured(&done->manifest, file, done->bytes, out);
	if (bug_report)
		fprintf(out, "The text for a bug report is in %s: read it before you send it.\n", bug_report_name(&a, file));
	struct str next = command_str(COMMAND_OF(&a, "unhang explain ", PIECE_PATH, str_z(file)));
	if (next.n)
		fprintf(out, STR_FMT "\n", STR_ARG(next));
	arena_free(&a);
}

struct uh_error *uh_capture(const struct uh_capture_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct arena a = { 0 };
	struct captured done;
	const char *file = file_of(&a, o);
	struct uh_error *err = check_processes(o);
	if (!err)
		err = check_report(o, file);
	if (err) {
		arena_free(&a);
		return err;
	}
	struct know *k = look_knowledge(&teller);
	const struct capture_options c = {
		.file = file,
		.know = k,
		.pids = (const int64_t *)o->pids,
		.npids = o->npids,
		.user_data = (enum user_data)o->user_data,
		.redact = o->redact || o->bug_report,
		.known_only = o->bug_report,
		.tools = o->tools,
		.debugger = o->attach_debugger,
		.release_dumps = o->release_devcoredump,
		.deadline_ms = (int)o->seconds * 1000,
		.tell = problem,
		.ctx = ctx,
		.progress = o->progress,
		.progress_ctx = o->progress_ctx,
		.stopped = o->stopped,
		.stopped_ctx = o->stopped_ctx,
	};
	err = bundle_take(&c, &done);
	const bool taken = !err;
	if (taken && o->bug_report)
		err = bug_report_write(c.file, k);
	if (taken && o->json)
		report_manifest(&done.manifest, out);
	else if (taken)
		say_captured(&done, c.file, o->bug_report && !err, out);
	if (taken)
		tell_refused(&done.manifest, &teller);
	captured_free(&done);
	know_free(k);
	arena_free(&a);
	return err;
}
