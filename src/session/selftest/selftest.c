// unhang selftest: looks at this machine as all commands do, and holds what they read against what the driver tells elsewhere.
#include "session/selftest/selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/child/put.h"
#include "capture/redact/redact.h"
#include "session/session.h"

/** In the order in which they are made. Rings come last: their fences change when they are read. */
static const struct selftest_row {
	const char *id, *what;
	check_fn *check;
} rows[] = {
	{ "chip", "which chip it is, by ip_discovery, KFD, the render node, debugfs and its PCI ID", check_told },
	{ "units", "the units that answer when they are asked for waves, against the driver's counts", check_units },
	{ "shaders", "counts of shader engines, arrays, CUs and XCCs, by KFD, the render node, debugfs and probing",
	  check_told },
	{ "registers", "registers at the addresses that unhang computes, against what the driver read there", check_registers },
	{ "banks", "the copies of a register in each array, against the CUs that the driver found", check_banks },
	{ "firmware", "versions of firmware, by sysfs, debugfs and KFD", check_told },
	{ "clocks", "the clock now, and the highest by KFD and the render node", check_clocks },
	{ "verdict", "whether a look calls this GPU healthy", check_verdict },
	{ "rings", "positions of rings against their fences", check_rings },
};

void selftest_add(struct selftest *t, const char *id, const char *what, const struct selftest_gpu *g, struct selftest_result r)
{
	vec_push(
		&t->checks,
		((struct selftest_check){
			.id = id, .what = what, .gpu = g ? g->device->pci : (struct str){ 0 }, .end = r.end, .text = r.text }));
}

/** The looks of unhang's commands, with every file that they read. */
static void look_as_commands_do(struct selftest *t)
{
	FILE *nowhere = fopen("/dev/null", "w");
	struct uh_look_options o = { .machine = &t->machine, .all = true };
	if (!nowhere)
		return;
	uh_session_on_machine(t->session, &t->machine);
	uh_error_free(uh_session_add_machine(t->session, NULL));
	uh_error_free(uh_look_waves(&o, nowhere, NULL, NULL));
	uh_error_free(uh_look_queues(&o, nowhere, NULL, NULL));
	uh_error_free(uh_look_rings(&o, NULL, 0, nowhere, NULL, NULL));
	fclose(nowhere);
}

static struct uh_error *choose_gpus(struct selftest *t)
{
	const char *gpu = t->options->gpu;
	const struct device *named = gpu ? devices_named(&t->devices, str_z(gpu)) : NULL;
	if (!t->devices.n)
		return uh_error_new("this machine has no AMD GPU");
	if (gpu && !named)
		return uh_error_new("there is no GPU %s; unhang lists those of this machine", gpu);
	t->gpus = arena_alloc(&t->arena, t->devices.n * sizeof(*t->gpus));
	for (size_t i = 0; i < t->devices.n; i++)
		if (!named || named == &t->devices.list[i])
			t->gpus[t->ngpus++].device = &t->devices.list[i];
	return NULL;
}

static void check_gpus(struct selftest *t)
{
	const struct machine_observation *seen = t->session->seen;
	for (size_t i = 0; i < t->ngpus; i++) {
		struct selftest_gpu *g = &t->gpus[i];
		g->seen = seen ? list_find(seen->gpus, seen->n, it, str_eq(it->device->pci, g->device->pci)) : NULL;
		device_witnesses(t->know, &t->devices, g->device, &t->arena, &g->witnesses);
		g->target = target_device(t->know, g->device);
	}
	for (size_t k = 0; k < ARRAY_SIZE(rows); k++)
		for (size_t i = 0; i < t->ngpus; i++)
			selftest_add(t, rows[k].id, rows[k].what, &t->gpus[i], rows[k].check(t, &t->gpus[i], rows[k].id));
}

/** Gives each check its witnesses. */
static void attach_witnesses(struct selftest *t)
{
	for (size_t i = 0; i < t->checks.len; i++) {
		struct selftest_check *c = &t->checks.data[i];
		const struct selftest_gpu *g = list_find(t->gpus, t->ngpus, it, c->gpu.n && str_eq(it->device->pci, c->gpu));
		struct witness *list = g ? arena_alloc(&t->arena, g->witnesses.list.len * sizeof(*list) + 1) : NULL;
		for (size_t k = 0; g && k < g->witnesses.list.len; k++)
			if (str_eq(str_z(g->witnesses.list.data[k].about), str_z(c->id)))
				list[c->nwitnesses++] = g->witnesses.list.data[k];
		c->witnesses = list;
	}
}

// --- what is written ---

/** The document with names and secrets replaced. */
static struct uh_error *save_document(struct selftest *t, const struct selftest_view *v, const char *path)
{
	enum { MODE = 0644 };
	_cleanup_(redactor_free) struct redactor r = { 0 };
	_cleanup_free_ char *bytes = NULL;
	_cleanup_text_ struct text text = { 0 };
	size_t n = 0;
	FILE *f = open_memstream(&bytes, &n);
	if (!f)
		return uh_error_os(errno, "%s", path);
	report_selftest(v, true, f);
	fclose(f);
	for (size_t i = 0; i < t->devices.n; i++) {
		redact_add(&r, REDACT_SERIAL, t->devices.list[i].serial);
		redact_add(&r, REDACT_SERIAL, t->devices.list[i].unique_id);
	}
	redact_add(&r, REDACT_HOST, t->session->host);
	redact_find(&r, (struct str){ bytes, n }, false);
	redact_ready(&r);
	redact_text(&r, (struct str){ bytes, n }, false, &text);
	return put_file(path, text_str(&text), MODE, PUT_SAFE, 0);
}

static const char *document_name(struct selftest *t)
{
	const time_t now = time(NULL);
	struct tm tm;
	char stamp[32] = "now";
	if (t->options->file || t->options->json)
		return t->options->file;
	if (gmtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	return arena_printf(&t->arena, "unhang-selftest-%s.json", stamp).p;
}

static struct uh_error *write_all_of_it(struct selftest *t, FILE *out, unsigned *ret_failed, unsigned *ret_passed)
{
	const struct uh_selftest_options *o = t->options;
	struct selftest_view v = { .kernel = t->devices.kernel,
				   .driver = t->devices.driver_version,
				   .root = t->devices.root,
				   .gpus = t->devices.list,
				   .ngpus = t->devices.n,
				   .checks = t->checks.data,
				   .nchecks = t->checks.len,
				   .files = t->files.data,
				   .nfiles = t->files.len,
				   .file = document_name(t),
				   .width = o->width };
	struct uh_error *err = v.file ? save_document(t, &v, v.file) : NULL;
	v.file = err ? NULL : v.file;
	report_selftest(&v, o->json, out);
	*ret_failed = (unsigned)selftest_count(&v, SELFTEST_FAILED);
	*ret_passed = (unsigned)selftest_count(&v, SELFTEST_PASSED);
	return err;
}

static void selftest_free(struct selftest *t)
{
	for (size_t i = 0; i < t->ngpus; i++) {
		target_close(t->gpus[i].target);
		vec_free(&t->gpus[i].witnesses.list);
	}
	vec_free(&t->checks);
	vec_free(&t->files);
	uh_session_free(t->session);
	devices_free(&t->devices);
	tape_free(t->machine.tape);
	know_free(t->know);
	arena_free(&t->arena);
}

struct uh_error *uh_selftest(const struct uh_selftest_options *o, FILE *out, uh_problem_fn *problem, void *ctx,
			     unsigned *ret_failed, unsigned *ret_passed)
{
	enum { TAPE_MOST = 256 << 20 };
	const struct teller teller = { problem, ctx };
	_cleanup_close_ int fd = memfd_create("selftest", MFD_CLOEXEC);
	_cleanup_(selftest_free) struct selftest t = { .options = o, .know = look_knowledge(teller) };
	*ret_failed = *ret_passed = 0;
	t.session = uh_session_new(NULL, NULL);
	t.machine = (struct uh_machine){
		.tape = tape_record(&(struct tape_recording){
			.fd = fd, .most = TAPE_MOST, .filter = { .seen = selftest_file_seen, .ctx = &t } }),
		.know = t.know,
		.devices = &t.devices
	};
	devices_find_at(t.know, (struct machine_at){ .tape = t.machine.tape }, &t.devices);
	struct uh_error *err = choose_gpus(&t);
	if (err)
		return err;
	look_as_commands_do(&t);
	selftest_add(&t, "files", "how long each file takes that a look reads", NULL, check_files(&t));
	selftest_add(&t, "sleep", "whether one of them wakes a GPU that sleeps", NULL, check_sleep(&t));
	check_gpus(&t);
	selftest_launch(&t);
	attach_witnesses(&t);
	return write_all_of_it(&t, out, ret_failed, ret_passed);
}
