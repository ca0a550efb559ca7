// unhang capture: the looks whose answers a bundle keeps, and what is said of it.
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>

#include "capture/capture.h"
#include "host/host.h"
#include "session/look.h"
#include "session/machine.h"

static void say_nothing(void *ctx, const char *message)
{
	(void)ctx;
	(void)message;
}

/** A look's answer is not for anybody: only what the machine answered is kept. */
struct quiet {
	struct uh_machine machine;
	FILE *out;
};

static struct quiet quiet(struct tape *tape) { return (struct quiet){ { .tape = tape }, fopen("/dev/null", "w") }; }

static void look_at_machine(struct tape *tape, void *ctx)
{
	struct quiet q = quiet(tape);
	struct teller teller = { say_nothing, NULL };
	struct host host;
	struct uh_session *s = uh_session_new(say_nothing, ctx);
	uh_session_on_machine(s, &q.machine);
	uh_error_free(uh_session_add_machine(s, NULL));
	uh_session_free(s);
	// What an incident's advice is held against.
	struct know *k = look_knowledge(&teller);
	host_look_beside(k, tape, &host);
	host_free(&host);
	know_free(k);
	fclose(q.out);
}

static void look_at_waves(struct tape *tape, void *ctx)
{
	const struct capture_options *c = ctx;
	struct quiet q = quiet(tape);
	struct uh_look_options o = { .machine = &q.machine, .registers = c->user_data != USER_DATA_NONE, .all = true };
	uh_error_free(uh_look_waves(&o, q.out, say_nothing, NULL));
	fclose(q.out);
}

static void look_at_queues(struct tape *tape, void *ctx)
{
	struct quiet q = quiet(tape);
	struct uh_look_options o = { .machine = &q.machine, .json = true };
	(void)ctx;
	uh_error_free(uh_look_queues(&o, q.out, say_nothing, NULL));
	fclose(q.out);
}

static void rings(struct tape *tape, bool fences)
{
	struct quiet q = quiet(tape);
	struct uh_look_options o = { .machine = &q.machine, .all = true, .json = true, .fences = fences };
	uh_error_free(uh_look_rings(&o, NULL, 0, q.out, say_nothing, NULL));
	fclose(q.out);
}

static void look_at_rings(struct tape *tape, void *ctx)
{
	(void)ctx;
	rings(tape, false);
}

static void look_at_fences(struct tape *tape, void *ctx)
{
	(void)ctx;
	rings(tape, true);
}

static void look_at_registers(struct tape *tape, void *ctx)
{
	static const char *const names[] = { "*STATUS*", "*FAULT*" };
	struct quiet q = quiet(tape);
	struct teller teller = { say_nothing, NULL };
	struct know *k = look_knowledge(&teller);
	struct devices d;
	(void)ctx;
	devices_find_at(k, (struct machine_at){ .tape = tape }, &d);
	for (size_t i = 0; i < d.n; i++) {
		unsigned read;
		struct arena a = { 0 };
		struct uh_look_options o = { .machine = &q.machine,
					     .gpu = arena_z(&a, d.list[i].pci),
					     .all = true,
					     .bank = { -1, -1, -1, -1, -1, -1, -1, -1 } };
		uh_error_free(uh_look_regs(&o, names, sizeof(names) / sizeof(names[0]), q.out, say_nothing, NULL, &read));
		arena_free(&a);
	}
	devices_free(&d);
	know_free(k);
	fclose(q.out);
}

static void look_as_doctor(struct tape *tape, void *ctx)
{
	struct quiet q = quiet(tape);
	struct uh_doctor_options o = { .machine = &q.machine };
	unsigned wrong;
	(void)ctx;
	uh_error_free(uh_doctor(&o, q.out, say_nothing, NULL, &wrong));
	fclose(q.out);
}

/** The silicon first: the state of a hung GPU may be gone soon. Fences last: reading them may end a hang. */
static const struct capture_look looks[] = {
	{ "machine", "the GPUs: registers, waves, rings, queues", look_at_machine, NULL, false },
	{ "waves", "waves on the GPUs", look_at_waves, NULL, false },
	{ "rings", "the driver's rings", look_at_rings, NULL, false },
	{ "queues", "queues of programs that compute", look_at_queues, NULL, false },
	{ "regs", "status registers", look_at_registers, NULL, false },
	{ "doctor", "the machine around the GPUs", look_as_doctor, NULL, false },
	{ "fences", "fences of the rings", look_at_fences, NULL, true },
};
enum { LOOKS = sizeof(looks) / sizeof(looks[0]) };

/** unhang-HOST-20261116-031500.tar.zst */
static const char *usual_name(struct arena *a)
{
	struct utsname host = { 0 };
	char stamp[32] = "", name[65] = "";
	time_t now = time(NULL);
	struct tm tm;
	uname(&host);
	for (size_t i = 0; i + 1 < sizeof(name) && host.nodename[i] && host.nodename[i] != '.'; i++)
		name[i] = char_word(host.nodename[i]) || host.nodename[i] == '-' ? host.nodename[i] : '-';
	if (gmtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	return arena_printf(a, "unhang-%s-%s.tar.zst", *name ? name : "machine", stamp).p;
}

struct uh_error *uh_capture(const struct uh_capture_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct arena a = { 0 };
	struct capture_look list[LOOKS];
	struct captured done;
	struct know *k = look_knowledge(&teller);
	struct capture_options c = {
		.file = o->file ? o->file : usual_name(&a),
		.know = k,
		.looks = list,
		.nlooks = LOOKS,
		.pids = (const int64_t *)o->pids,
		.npids = o->npids,
		.user_data = (enum user_data)o->user_data,
		.redact = o->redact || o->bug_report,
		.tools = o->tools,
		.debugger = o->attach_debugger,
		.release_dumps = o->release_devcoredump,
		.deadline_ms = (int)o->seconds * 1000,
		.tell = problem,
		.ctx = ctx,
	};
	for (size_t i = 0; i < LOOKS; i++) {
		list[i] = looks[i];
		list[i].ctx = &c;
	}
	struct uh_error *err = capture_take(&c, &done);
	if (!err && o->json)
		report_manifest(&done.manifest, out);
	else if (!err)
		report_captured(&done.manifest, c.file, done.bytes, out);
	captured_free(&done);
	know_free(k);
	arena_free(&a);
	return err;
}
