// unhang watch: what the watch has others do. unhang incidents: what it stored.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "base/print.h"
#include "base/save.h"
#include "diagnose/take.h"
#include "job/job.h"
#include "session/run/finish.h"
#include "session/run/look.h"
#include "session/bundle/apart.h"
#include "session/bundle/capture.h"
#include "session/look.h"
#include "session/machine.h"
#include "session/session.h"
#include "source/clerk/clerk.h"
#include "store/store.h"
#include "watch/progress.h"
#include "watch/watch.h"

// --- explaining, without rights: a bundle holds what strangers wrote ---

enum { EXPLAIN_MS = 55000, EXPLAINED_MOST = 32 << 20 };

/** What the child sends: three texts, one behind the other. */
struct explained {
	uint32_t lines, json, text;
};

static struct str report(struct uh_session *s, struct arena *a, bool json)
{
	const struct uh_report_options options = { .json = json };
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return (struct str){ 0 };
	uh_session_report(s, out, &options);
	fclose(out);
	struct str kept = arena_str(a, (struct str){ text, n });
	free(text);
	return kept;
}

/** Of another GPU, or of another process. */
static bool is_others(const struct incident *i, const struct stored *c)
{
	int64_t pid;
	return (c->gpu.n && i->gpu.device.n && !str_eq(c->gpu, i->gpu.device)) ||
	       (c->pid && str_number(incident_owner(i), &pid) && pid != c->pid);
}

/** How far it is, in seconds, from the one that the watch stored: of the same GPU, with its first message; one that a look found lasts; one
 * that a program was held for is in its recording, a moment before. INFINITY: it is another. */
static double distance(const struct incident *i, const struct stored *c)
{
	const double near_s = 0.5, held_s = 6, first = (double)c->first_us / 1e6;
	const bool held = str_is(c->origin, STORE_ORIGIN_HOLD);
	double least = INFINITY;
	if (is_others(i, c))
		return INFINITY;
	if (str_is(c->origin, "look"))
		return i->now ? 0 : INFINITY;
	for (size_t n = 0; n < i->events.len; n++) {
		const struct stamp at = i->events.data[n]->time;
		const double recorded = held && at.clock == TIME_WALL ? fabs(at.seconds - (double)c->began) : INFINITY;
		const double logged = at.clock == TIME_BOOT ? fabs(at.seconds - first) : INFINITY;
		const double from = recorded < held_s ? recorded : logged >= near_s ? INFINITY : held ? held_s + logged : 0;
		least = from < least ? from : least;
	}
	return least;
}

/** A boot may have seen several incidents, and several GPUs: this one is told first, or else one of its GPU. false: it is not among them, but
 * others are. */
static bool put_first(struct uh_session *s, const struct stored *c)
{
	struct incident **all = s->ledger.incidents.data;
	size_t at = SIZE_MAX;
	double least = INFINITY;
	for (size_t n = s->ledger.incidents.len; n-- > 0;)
		if (c->gpu.n && str_eq(all[n]->gpu.device, c->gpu) && !is_others(all[n], c))
			at = n;
	for (size_t n = s->ledger.incidents.len; n-- > 0;) {
		const double from = distance(all[n], c);
		if (from < INFINITY && from <= least) {
			least = from;
			at = n;
		}
	}
	if (at == SIZE_MAX)
		return !s->ledger.incidents.len || !is_others(all[0], c);
	struct incident *one = all[at];
	memmove(all + 1, all, at * sizeof(*all));
	all[0] = one;
	return true;
}

/** What the child that explains is given. */
struct to_explain {
	int bundle; // open
	const struct stored *of;
	bool since; // with what the kernel wrote since
};

static struct str answer_lines(const struct uh_session *s, struct arena *a)
{
	char *text = NULL;
	size_t n = 0;
	const struct incident *i = s->ledger.incidents.len ? s->ledger.incidents.data[0] : NULL;
	FILE *to = i ? open_memstream(&text, &n) : NULL;
	if (!to)
		return (struct str){ 0 };
	print_line(to, "class", i->cause->head.id);
	print_line(to, "title", i->title);
	print_line(to, "fault", i->fault);
	print_line(to, "action", i->action ? i->action->action : (struct str){ 0 });
	print_line(to, "fit", incident_fit(i));
	print_line(to, "gpu", i->gpu.device);
	print_line(to, "job", i->processes.len ? i->processes.data[0].name : (struct str){ 0 });
	fclose(to);
	struct str kept = arena_str(a, (struct str){ text, n });
	free(text);
	return kept;
}

static void add_log(struct uh_session *s, int fd)
{
	const struct source_visitor v = session_visitor(s);
	engine_end(s->engine);
	source_kmsg_here(fd, "/dev/kmsg", &v);
	engine_end(s->engine);
}

/** In a child, which gets the bundle as a descriptor. Where it cannot be read, nothing is said of it. */
static void explain_child(int fd, const void *ctx)
{
	struct arena a = { 0 };
	const struct to_explain *given = ctx;
	struct uh_session *s = apart_begin(fd, given->bundle);
	const int log = given->since ? open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
	session_add_bundle(s, apart_open(given->bundle, STORE_BUNDLE));
	if (log >= 0)
		add_log(s, log);
	uh_session_end(s);
	const bool told = put_first(s, given->of);
	struct str lines = told ? answer_lines(s, &a) : (struct str){ 0 }, json = report(s, &a, true),
		   text = report(s, &a, false);
	const struct explained head = { (uint32_t)lines.n, (uint32_t)json.n, (uint32_t)text.n };
	if (!write_all(fd, (struct str){ (const char *)&head, sizeof(head) }) || !write_all(fd, lines) ||
	    !write_all(fd, json) || !write_all(fd, text))
		_exit(1);
	uh_session_free(s);
	arena_free(&a);
	door_end();
}

/** Saves what the child says of the bundle, without a look at it. */
static void explain(const char *directory, const struct stored *of, bool since, FILE *to)
{
	struct child c;
	struct text all = { 0 };
	struct arena a = { 0 };
	struct explained head;
	const int bundle = open(arena_printf(&a, "%s/" STORE_BUNDLE, directory).p, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const struct to_explain given = { bundle, of, since };
	const bool begun = bundle >= 0 && child_begin_free(explain_child, &given, &c);
	if (bundle >= 0)
		close(bundle);
	if (!begun) {
		print_line(to, "problem", S("Nobody could explain the bundle."));
		arena_free(&a);
		return;
	}
	enum child_end end = child_wait(&c, now_ms() + EXPLAIN_MS, EXPLAINED_MOST, &all);
	child_kill(&c, 0);
	struct str rest = text_str(&all);
	if (end == CHILD_GOOD && rest.n >= sizeof(head)) {
		memcpy(&head, rest.p, sizeof(head));
		rest = str_from(rest, sizeof(head));
		if (rest.n == (uint64_t)head.lines + head.json + head.text) {
			fprintf(to, STR_FMT, STR_ARG(str_cut(rest, head.lines)));
			rest = str_from(rest, head.lines);
			uh_error_free(save_shared(AT_FDCWD, arena_printf(&a, "%s/" STORE_DIAGNOSIS, directory).p,
						  str_cut(rest, head.json), 0640));
			uh_error_free(save_shared(AT_FDCWD, arena_printf(&a, "%s/" STORE_TEXT, directory).p,
						  str_from(rest, head.json), 0640));
		}
	} else {
		print_line(to, "problem", S("The bundle could not be explained; unhang explain may say why."));
	}
	text_free(&all);
	arena_free(&a);
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

/** What a capture that was killed has saved is older than what there is now: where it has all, no other is taken. */
static void capture(void *ctx, const struct watch_settings *settings, const char *directory, struct str note, FILE *to)
{
	struct arena a = { 0 };
	struct captured done = { 0 };
	const struct capture_options o = { .file = arena_printf(&a, "%s/" STORE_BUNDLE, directory).p,
					   .know = ctx,
					   .user_data = user_data_of(settings->user_data),
					   .note = note,
					   .saved = say_saved,
					   .saved_ctx = to,
					   .deadline_ms = (int)settings->capture_deadline * 1000 };
	recover(&o, arena_printf(&a, "%s/" STORE_BUNDLE ".partial", directory).p);
	struct uh_error *err = access(o.file, F_OK) ? bundle_take(&o, &done) : NULL;
	if (err)
		print_line(to, "bundle", str_z(uh_error_message(err)));
	else
		print_line(to, "bundle", S("taken"));
	uh_error_free(err);
	captured_free(&done);
	arena_free(&a);
}

/** Of one that is over the log has the end. */
static void explain_stored(void *ctx, const struct stored *of, const char *directory, FILE *to)
{
	(void)ctx;
	explain(directory, of, str_is(of->state, "closed"), to);
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
	struct arena a = { 0 };
	(void)ctx;
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	prctl(PR_SET_NAME, "unhang-look");
	if (!clerk_begin(LOWER_NOGROUP))
		_exit(1);
	uh_error_free(uh_session_add_machine(s, NULL));
	uh_session_end(s);
	const struct machine_observation *m = s->seen;
	for (size_t i = 0; m && i < m->n; i++) {
		const struct gpu_observation *g = &m->gpus[i];
		const char *well = g->unwell ? "unwell" : g->known ? "well" : "unknown";
		struct str says = g->says.n ? g->says : g->unseen;
		fprintf(to, "gpu %s %s %s %s %s ", word(&a, g->device->pci), word(&a, g->device->unique_id),
			word(&a, g->device->serial), well, word(&a, g->health));
		struct text safe = { 0 };
		text_add_safe(&safe, says);
		fprintf(to, STR_FMT "\n", STR_ARG(text_str(&safe)));
		text_free(&safe);
	}
	for (size_t i = 0; m && i < m->n; i++) {
		fprintf(to, "votes\n" STR_FMT "\n", STR_ARG(m->gpus[i].device->pci));
		look_votes(&m->gpus[i], to);
		fputs("end\n", to);
	}
	uh_session_free(s);
	arena_free(&a);
	clerk_end();
}

static void say_line(const char *line)
{
	fputs("unhang: ", stderr);
	print_safe(stderr, str_z(line));
	fputc('\n', stderr);
}

/** Jobs that were killed together with their `unhang run`, in a container or by a reset of the machine. */
static void complete_runs(const char *state_dir)
{
	struct arena a = { 0 };
	job_complete(arena_printf(&a, "%s/runs", state_dir ? state_dir : STATE_DIR).p, run_hands_left(), say_line);
	arena_free(&a);
}

/** Bundles that could not be packed, since the disk was full or the watch was killed: their incidents may be over. */
static void complete_bundles(const char *state_dir)
{
	const char *directory = state_dir ? state_dir : STATE_DIR;
	struct stored_list all = { 0 };
	uh_error_free(store_list(directory, &all));
	for (size_t i = 0; i < all.list.len; i++) {
		struct arena a = { 0 };
		struct stored s = *all.list.data[i];
		const char *file = arena_printf(&a, "%s/" STORE_BUNDLE, store_path(&a, directory, s.id)).p;
		if (!access(arena_printf(&a, "%s.partial", file).p, F_OK)) {
			capture_recover_file(&(struct capture_options){ .file = file }, 0);
			s.bundle = access(file, F_OK) ? s.bundle : S("taken");
			uh_error_free(store_save(directory, &s));
		}
		arena_free(&a);
	}
	stored_list_free(&all);
}

struct uh_error *uh_watch(const struct uh_watch_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct arena a = { 0 };
	struct teller teller = { problem, ctx };
	struct know *k = look_knowledge(&teller);
	const struct watch_hands hands = { capture, explain_stored, look, k };
	const struct watch_options options = { .config = o->config,
					       .state_dir = absolute_path(&a, o->state_dir), // which hooks are told
					       .run_dir = absolute_path(&a, o->run_dir),
					       .hooks_dir = absolute_path(&a, o->hooks_dir),
					       .check = o->check_config,
					       .until_quiet = o->until_quiet,
					       .tell = problem,
					       .ctx = ctx };
	if (!o->check_config) {
		complete_runs(options.state_dir);
		complete_bundles(options.state_dir);
	}
	struct uh_error *err = watch_run(&options, k, &hands);
	if (!err && o->check_config && !o->config && access(WATCH_CONF, F_OK))
		fputs("There is no " WATCH_CONF ": the usual values are in use.\n", out);
	else if (!err && o->check_config)
		fputs("The configuration is right.\n", out);
	know_free(k);
	arena_free(&a);
	return err;
}
