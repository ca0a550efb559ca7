// unhang capture: the looks whose answers a bundle keeps, and what is said of it.
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/command.h"
#include "base/child/put.h"
#include "base/print.h"
#include "gpu/target.h"
#include "host/host.h"
#include "session/look.h"
#include "session/bundle/bundle.h"
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
	_cleanup_arena_ struct arena a = { 0 };
	for (size_t i = 0; i < r->devices.n; i++) {
		const struct device *d = &r->devices.list[i];
		struct probe p = { .path = arena_printf(&a, STR_FMT "/amdgpu_firmware_info", STR_ARG(d->debugfs)).p,
				   .size = SIZE };
		if (d->debugfs.n && device_awake(d))
			probe_run(&a, &p, 1, ASK_MS, NULL, &r->devices.count);
	}
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

static void record_gpus(struct tape *tape, void *ctx) { record_on(tape, ctx); }

static bool was_calm(void *ctx)
{
	const struct recording *r = ctx;
	return r->calm && *r->calm;
}

/** The look that explain makes. What it finds tells, too, whether programs of others may be run that open every GPU. */
static void record_machine(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	_cleanup_(host_free) struct host host;
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	uh_session_on_machine(s, &r->machine);
	uh_error_free(uh_session_add_machine(s, NULL));
	bool calm = s->seen && s->seen->n;
	for (size_t i = 0; calm && i < s->seen->n; i++) {
		const struct gpu_observation *g = &s->seen->gpus[i];
		calm = g->known && !g->unwell && device_awake(g->device);
	}
	if (r->calm)
		*r->calm = calm;
	uh_session_free(s);
	host_look_beside(r->know, tape, &host); // what an incident's advice is held against
}

/** Text and JSON ask for different things. */
static void record_waves(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	struct uh_look_options o = { .machine = &r->machine, .registers = r->user_data != USER_DATA_NONE, .all = true };
	uh_error_free(uh_look_waves(&o, r->nowhere, tell_nobody, NULL));
}

static void record_queues(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	struct uh_look_options o = { .machine = &r->machine };
	for (int json = 0; json < 2; json++) {
		o.json = json;
		uh_error_free(uh_look_queues(&o, r->nowhere, tell_nobody, NULL));
	}
}

static void record_rings(struct tape *tape, void *ctx)
{
	enum { PACKETS = 64 }; // on each side of where a ring stands
	struct recording *r = record_on(tape, ctx);
	struct uh_look_options o = { .machine = &r->machine, .packets = PACKETS, .json = true };
	uh_error_free(uh_look_rings(&o, NULL, 0, r->nowhere, tell_nobody, NULL));
}

/** Registers are asked of one GPU at a time. */
static void record_registers(struct tape *tape, void *ctx)
{
	static const char *const names[] = { "*STATUS*", "*FAULT*" };
	struct recording *r = record_on(tape, ctx);
	for (size_t i = 0; i < r->devices.n; i++) {
		unsigned read;
		_cleanup_arena_ struct arena a = { 0 };
		struct uh_look_options o = { .machine = &r->machine,
					     .gpu = arena_z(&a, r->devices.list[i].pci),
					     .all = true,
					     .bank = { -1, -1, -1, -1, -1, -1, -1, -1 } };
		uh_error_free(uh_look_regs(&o, names, ARRAY_SIZE(names), r->nowhere, tell_nobody, NULL, &read));
	}
}

static void record_doctor(struct tape *tape, void *ctx)
{
	struct recording *r = record_on(tape, ctx);
	struct uh_doctor_options o = { .machine = &r->machine };
	_cleanup_arena_ struct arena a = { 0 };
	unsigned wrong;
	bug_report_cpu(&a, &r->devices); // which the doctor does not ask for
	uh_error_free(uh_doctor(&o, r->nowhere, tell_nobody, NULL, &wrong));
}

static const struct devices *devices_of(struct tape *tape, void *ctx) { return &record_on(tape, ctx)->devices; }

/** Reading them makes the driver look for finished work, which may end a hang: so nothing is looked at behind it. */
static void record_fences(struct tape *tape, void *ctx)
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
	{ "gpus", "which GPUs there are", record_gpus, NULL, false, false },
	{ "machine", "the GPUs: registers, waves, rings, queues", record_machine, NULL, false, true },
	{ "waves", "waves on the GPUs", record_waves, NULL, false, true },
	{ "rings", "the driver's rings", record_rings, NULL, false, true },
	{ "queues", "queues of programs that compute", record_queues, NULL, false, true },
	{ "regs", "status registers", record_registers, NULL, false, true },
	{ "doctor", "the machine around the GPUs", record_doctor, NULL, false, false },
	{ "fences", "fences of the rings", record_fences, NULL, true, true },
};
enum { LOOKS = ARRAY_SIZE(looks) };

struct uh_error *bundle_take(const struct capture_options *o, struct captured *ret)
{
	struct capture_options all = *o;
	struct capture_look list[LOOKS];
	_cleanup_know_ struct know *own = o->know ? NULL : look_knowledge((struct teller){ 0 });
	_cleanup_map_ struct map calm = { 0 };
	map_shared(&calm, sizeof(_Atomic bool));
	struct recording recording = {
		.user_data = o->user_data, .job_began = o->job_began, .know = own ? own : (struct know *)o->know, .calm = calm.p
	};
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
	return capture_take(&all, ret);
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

/** The file that is named; in a directory, or where none is, unhang-HOST-20261116-031500.tar.zst: without the host where that is not to be
 * told. */
static const char *file_of(struct arena *a, const struct uh_capture_options *o)
{
	char host[SOURCE_HOST_MAX];
	char stamp[32] = "", name[65] = "";
	const time_t now = time(NULL);
	struct tm tm;
	struct stat st;
	if (o->file && (stat(o->file, &st) || !S_ISDIR(st.st_mode)))
		return o->file;
	source_host(host);
	for (size_t i = 0; !o->redact && !o->bug_report && i + 1 < sizeof(name) && host[i] && host[i] != '.'; i++)
		name[i] = char_word(host[i]) || host[i] == '-' ? host[i] : '-';
	if (gmtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	return arena_printf(a, "%s%sunhang-%s-%s.tar.zst", o->file ? o->file : "",
			    !o->file || str_ends(str_z(o->file), S("/")) ? "" : "/", *name ? name : "machine", stamp)
		.p;
}

/** Before there is a bundle. */
static struct uh_error *check_options(const struct uh_capture_options *o, const char *report)
{
	struct stat st;
	for (size_t i = 0; i < o->npids; i++)
		if (o->pids[i] > INT_MAX || (kill((pid_t)o->pids[i], 0) && errno == ESRCH))
			return uh_error_new("--pid %lld: there is no such process", o->pids[i]);
	// What has the name of the text is not written over.
	return o->bug_report && !lstat(report, &st) ? uh_error_os(EEXIST, "%s", report) : NULL;
}

/** What root would have saved: one line. */
static void tell_refused_items(const struct manifest *m, const struct teller *to)
{
	_cleanup_text_ struct text t = { 0 };
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
}

struct uh_error *uh_capture(const struct uh_capture_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_(captured_free) struct captured done = { 0 };
	struct uh_error *err = put_answers(o->file ? o->file : ".");
	if (err)
		return err;
	const char *file = file_of(&a, o), *report = bug_report_name(&a, file);
	err = check_options(o, report);
	if (err)
		return err;
	_cleanup_know_ struct know *k = look_knowledge(teller);
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
	if (err)
		return err;
	if (o->bug_report)
		err = bug_report_write(file, k);
	if (o->json) {
		report_manifest(&done.manifest, out);
	} else {
		report_captured(&done.manifest, file, done.bytes, out);
		if (o->bug_report && !err)
			fprintf(out, "The text for a bug report is in %s: read it before you send it.\n", report);
		struct str next = command_str(COMMAND_OF(&a, "unhang explain ", PIECE_PATH, str_z(file)));
		if (next.n)
			fprintf(out, STR_FMT "\n", STR_ARG(next));
	}
	tell_refused_items(&done.manifest, &teller);
	return err;
}
