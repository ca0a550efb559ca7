// unhang watch: what the watch has others do. unhang incidents: what it stored.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "base/print.h"
#include "base/save.h"
#include "diagnose/identity.h"
#include "diagnose/take.h"
#include "host/changes/changes.h"
#include "host/host.h"
#include "job/job.h"
#include "session/run/run.h"
#include "session/bundle/bundle.h"
#include "session/look.h"
#include "session/machine.h"
#include "session/history/module.h"
#include "session/session.h"
#include "source/privileged/privileged.h"
#include "store/store.h"
#include "watch/progress.h"
#include "watch/watch.h"

// --- explaining, without rights: a bundle holds what strangers wrote ---

enum { EXPLAIN_MS = 55000, EXPLAINED_MOST = 32 << 20 };

/** Whether it may be what the watch stored, as far as anybody can tell by GPU and process. */
static bool session_watch_may_be(const struct incident *i, const struct stored *c)
{
	int64_t pid;
	return (!c->gpu.n || !i->gpu.device.n || str_eq(c->gpu, i->gpu.device)) &&
	       (!c->pid || !str_number(incident_owner(i), &pid) || pid == c->pid);
}

/** A boot may have seen several incidents, and several GPUs: the one that the watch stored is told first, by its name. Where nothing of the
 * evidence gives it that name, as where a device core was the first that anybody saw, one of its GPU is. false: it is not among them, but
 * others are. */
static bool put_first(struct uh_session *s, const struct stored *c)
{
	struct incident **all = s->ledger.incidents.data;
	const size_t n = s->ledger.incidents.len;
	size_t at = 0;
	while (at < n && !incident_is(all[at], c->id))
		at++;
	for (size_t i = n; at >= n && i-- > 0;)
		if (c->gpu.n && str_eq(all[i]->gpu.device, c->gpu) && session_watch_may_be(all[i], c))
			at = i;
	if (at >= n)
		return !n || session_watch_may_be(all[0], c);
	struct incident *one = all[at];
	memmove(all + 1, all, at * sizeof(*all));
	all[0] = one;
	one->id = arena_str(&one->arena, c->id);
	return true;
}

/** What the child that explains is given. */
struct to_explain {
	int bundle; // open
	const struct stored *of;
	bool since; // with what the kernel wrote since
	struct module_pasts modules;
};

static void write_answer(const void *ctx, FILE *to)
{
	const struct incident *i = ctx;
	incident_lines(i, to);
	print_line(to, "job", i->processes.len ? i->processes.data[0].name : (struct str){ 0 });
}

/** In a child, which gets the bundle as a descriptor. Where it cannot be read, nothing is said of it. */
static void explain_child(int fd, const void *ctx)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text message = { 0 };
	const struct to_explain *given = ctx;
	struct uh_session *s = apart_begin(fd, given->bundle);
	const int log = given->since ? open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
	s->modules = &given->modules;
	session_add_bundle(s, apart_open(given->bundle, STORE_BUNDLE));
	if (log >= 0) {
		const struct source_visitor v = session_visitor(s);
		engine_end(s->engine);
		source_kmsg_here(log, "/dev/kmsg", &v);
		engine_end(s->engine);
	}
	uh_session_end(s);
	const bool told = put_first(s, given->of) && s->ledger.incidents.len;
	const struct told_texts texts = {
		.lines = told ? text_written(write_answer, s->ledger.incidents.data[0], &a) : (struct str){ 0 },
		.json = session_report_text(s, true, 0, &a),
		.text = session_report_text(s, false, 0, &a),
	};
	wire_put(&message, &told_texts_kind, &texts);
	if (!write_all(fd, text_str(&message)))
		_exit(1);
	uh_session_free(s);
	door_end();
}

/** Saves what the child says of the bundle, without a look at it. */
static void session_watch_explain(const char *directory, const struct stored *of, bool since, FILE *to)
{
	_cleanup_text_ struct text all = { 0 };
	_cleanup_arena_ struct arena a = { 0 };
	struct told_texts texts;
	_cleanup_close_ int bundle = open(arena_printf(&a, "%s/" STORE_BUNDLE, directory).p, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct to_explain given = { .bundle = bundle, .of = of, .since = since };
	// DIRECTORY/incidents/ID: the others are beside it.
	module_pasts_find(arena_printf(&a, "%s/../..", directory).p, of, &a, &given.modules);
	const struct child_task task = { .name = CHILD_EXPLAIN, .deadline = now_ms() + EXPLAIN_MS, .most = EXPLAINED_MOST };
	const enum child_end end = bundle < 0 ? CHILD_REFUSED : child_collect(&task, explain_child, &given, &all);
	if (end == CHILD_REFUSED) {
		print_line(to, "problem", S("Nobody could explain the bundle."));
	} else if (end == CHILD_GOOD && wire_take(text_str(&all), &told_texts_kind, &a, &texts)) {
		fprintf(to, STR_FMT, STR_ARG(texts.lines));
		told_texts_save(&texts, directory, save_shared);
	} else {
		print_line(to, "problem", S("The bundle could not be explained; unhang explain may say why."));
	}
}

static enum user_data user_data_of(const char *word)
{
	enum uh_user_data named;
	return uh_user_data_named(word, &named) ? (enum user_data)named : USER_DATA_NONE;
}

/** Packs what a capture that was killed has saved. A process that it left behind may hold its directory for some seconds. */
static void recover(const struct capture_options *o, const char *partial)
{
	enum { PATIENCE_MS = 40000, PAUSE_NS = 100000000 };
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	for (int64_t end = now_ms() + PATIENCE_MS; !access(partial, F_OK) && now_ms() < end;) {
		capture_recover(o, 0);
		if (!access(partial, F_OK))
			nanosleep(&pause, NULL);
	}
}

static void say_saved(void *ctx)
{
	FILE *to = ctx;
	fputs("saved\n", to);
	fflush(to);
}

/** What a capture that was killed had saved may be gone by now, and most of it is missing there: it is kept, and another one is taken. That is
 * done once, so that a machine on which each capture is killed comes to an end. */
static void put_cut_aside(struct arena *a, const char *directory, const char *partial)
{
	const char *cut = arena_printf(a, "%s/" STORE_CUT, directory).p;
	if (!access(partial, F_OK) && !capture_is_packed(partial) && access(cut, F_OK))
		rename(partial, arena_printf(a, "%s.partial", cut).p);
}

static void capture(void *ctx, const struct watch_settings *settings, const char *directory, struct str note, FILE *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct captured done = { 0 };
	const struct capture_options o = { .file = arena_printf(&a, "%s/" STORE_BUNDLE, directory).p,
					   .know = ctx,
					   .user_data = user_data_of(settings->user_data),
					   .note = note,
					   .saved = say_saved,
					   .saved_ctx = to,
					   .deadline_ms = (int)settings->capture_deadline * 1000 };
	const char *partial = arena_printf(&a, "%s.partial", o.file).p;
	put_cut_aside(&a, directory, partial);
	recover(&o, partial);
	recover(&o, arena_printf(&a, "%s/" STORE_CUT ".partial", directory).p);
	struct uh_error *err = access(o.file, F_OK) ? bundle_take(&o, &done) : NULL;
	if (err)
		print_line(to, "bundle", str_z(uh_error_message(err)));
	else
		print_line(to, "bundle", S("taken"));
	uh_error_free(err);
	captured_free(&done);
}

/** Of one that is over the log has the end. */
static void explain_stored(void *ctx, const struct stored *of, const char *directory, FILE *to)
{
	(void)ctx;
	session_watch_explain(directory, of, of->state == STORED_CLOSED, to);
}

static const char *word(struct arena *a, struct str s)
{
	if (!s.n)
		return "-";
	char *copy = arena_z(a, s);
	for (char *p = copy; *p; p++)
		*p = *p <= ' ' ? '_' : *p;
	return copy;
}

static void look(void *ctx, FILE *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	(void)ctx;
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	prctl(PR_SET_NAME, "unhang-look");
	if (!privileged_begin(LOWER_NOGROUP))
		_exit(1);
	uh_error_free(uh_session_add_machine(s, NULL));
	uh_session_end(s);
	const struct machine_observation *m = s->seen;
	for (size_t i = 0; m && i < m->n; i++) {
		const struct gpu_observation *g = &m->gpus[i];
		const char *well = g->unwell ? "unwell" : g->known ? "well" : "unknown";
		struct str says = g->says.n ? g->says : g->unseen;
		fprintf(to, "gpu %s %s %s %s %s %s %s %s ", word(&a, g->device->pci), word(&a, g->device->unique_id),
			word(&a, g->device->serial), word(&a, g->device->slot), word(&a, g->device->compute_partition),
			g->device->nholders || m->devices.processes_unread.n ? "owned" : "free", well, word(&a, g->health));
		_cleanup_text_ struct text safe = { 0 };
		text_add_safe(&safe, says);
		fprintf(to, STR_FMT "\n", STR_ARG(text_str(&safe)));
	}
	const struct str unlisted = m ? devices_unlisted(&m->devices, &a) : (struct str){ 0 };
	if (unlisted.n)
		print_line(to, "unlisted", unlisted);
	for (size_t i = 0; m && i < m->n; i++) {
		fprintf(to, "votes\n" STR_FMT "\n", STR_ARG(m->gpus[i].device->pci));
		look_votes(&m->gpus[i], to);
		print_line(to, "fact incident", look_incident(s, m->gpus[i].device->pci));
		fputs("end\n", to);
	}
	uh_session_free(s);
	privileged_end();
}

static void note_item(FILE *to, struct str name, struct str value)
{
	_cleanup_text_ struct text safe = { 0 };
	text_add_safe(&safe, value);
	if (name.n && safe.n)
		fprintf(to, "item " STR_FMT " " STR_FMT "\n", STR_ARG(name), STR_ARG(text_str(&safe)));
}

/** Packages by what their manager installed last: of each the newest version. */
static void note_packages(const struct know *k, FILE *to)
{
	_cleanup_changes_ struct changes c = { 0 };
	_cleanup_vec_ VEC(struct str) told = { 0 };
	changes_read(k, (struct machine_at){ 0 }, 0, &c);
	for (size_t n = c.transactions.len; n-- > 0;)
		for (size_t i = 0; i < c.transactions.data[n].changes.len; i++) {
			const struct change *one = &c.transactions.data[n].changes.data[i];
			const struct str kind = str_among(one->kind->head.id, STR_EQUALS, "firmware|driver|mesa|vulkan-driver");
			if (!kind.n || list_find(told.data, told.len, it, str_eq(*it, one->package)))
				continue;
			note_item(to, one->package, one->to);
			vec_push(&told, one->package);
		}
	if (c.boots.len)
		note_item(to, S("bios"), c.boots.data[c.boots.len - 1].bios);
}

/** What people change, by the doctor's names for it; parameters by their own. */
static void session_watch_note(void *ctx, FILE *to)
{
	static const char *const names[][2] = { { "kernel", "kernel" },
						{ "driver", "amdgpu" },
						{ "driver_package", "amdgpu-dkms" },
						{ "rocm", "rocm" },
						{ "torch", "torch" } };
	struct host h;
	prctl(PR_SET_NAME, "unhang-note");
	note_packages(ctx, to);
	if (!privileged_begin(LOWER_NOGROUP))
		_exit(1);
	host_look_beside(ctx, NULL, &h);
	const struct host_item *m = host_machine(&h);
	for (size_t n = 0; n < ARRAY_SIZE(names); n++)
		note_item(to, str_z(names[n][1]), host_value(&h, m, names[n][0]));
	for (size_t n = 0; n < m->facts.len; n++) {
		struct str name;
		if (str_behind(m->facts.data[n]->name, S("set."), &name) && !str_ends(name, S("@")))
			note_item(to, name, m->facts.data[n]->value);
	}
	host_free(&h);
	privileged_end();
}

/** Explains what nobody else will: its record says nothing of the bundle before that is done. */
static void explain_late(const char *state_dir, const char *directory, struct stored *i)
{
	_cleanup_free_ char *said = NULL;
	size_t n;
	FILE *to = open_memstream(&said, &n);
	if (!to)
		return;
	session_watch_explain(directory, i, false, to);
	fclose(to);
	i->bundle = S("taken");
	uh_error_free(store_save(state_dir, i));
}

/** Bundles that could not be packed or explained, since the disk was full or the watch was killed, of incidents that are over. Those that are not
 * are captured and explained by the watch, which then looks at the GPU as it is now. */
static void complete_bundles(const char *state_dir)
{
	struct stored_list all = { 0 };
	uh_error_free(store_list(state_dir, &all));
	for (size_t i = 0; i < all.list.len; i++) {
		_cleanup_arena_ struct arena a = { 0 };
		struct stored s = *all.list.data[i];
		const char *directory = store_path(&a, state_dir, s.id);
		const char *file = arena_printf(&a, "%s/" STORE_BUNDLE, directory).p;
		if (s.state != STORED_CLOSED && source_this_boot(s.boot_id))
			continue;
		const bool partial = !access(arena_printf(&a, "%s.partial", file).p, F_OK);
		if (partial)
			capture_recover_file(&(struct capture_options){ .file = file }, 0);
		if ((partial || !s.bundle.n) && !access(file, F_OK))
			explain_late(state_dir, directory, &s);
	}
	stored_list_free(&all);
}

struct uh_error *uh_watch(const struct uh_watch_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct teller teller = { problem, ctx };
	struct know *k = look_knowledge(teller);
	const struct watch_helpers helpers = { capture, explain_stored, look, session_watch_note, k };
	const struct watch_options options = { .config = o->config,
					       .state_dir = absolute_path(&a, o->state_dir), // which hooks are told
					       .run_dir = absolute_path(&a, o->run_dir),
					       .hooks_dir = absolute_path(&a, o->hooks_dir),
					       .check = o->check_config,
					       .until_quiet = o->until_quiet,
					       .tell = problem,
					       .ctx = ctx };
	if (!o->check_config) {
		// Jobs that were killed together with their `unhang run`, in a container or by a reset of the machine.
		const char *state_dir = options.state_dir ? options.state_dir : STATE_DIR;
		job_complete(arena_printf(&a, "%s/runs", state_dir).p, run_hands_left(), print_said);
		complete_bundles(state_dir);
	}
	struct uh_error *err = watch_run(&options, k, &helpers);
	if (!err && o->check_config && !o->config && access(WATCH_CONF, F_OK))
		fputs("There is no " WATCH_CONF ": the usual values are in use.\n", out);
	else if (!err && o->check_config)
		fputs("The configuration is right.\n", out);
	know_free(k);
	return err;
}
