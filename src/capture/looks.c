// Looks at the machine, each on a track of its own. One child makes the first look alone, which finds the GPUs for all. The others
// are made beside each other, by children of it, in the order in which what they see dies, and the last ones alone again. Where a look
// does not come back, another child makes those that were not begun.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
// The looks of a capture: the same that unhang's commands make, with their answers recorded on a track each.
//
// One child makes them one after another, without rights, and has what needs rights read by the privileged reader. Once the GPUs are found, root's
// child has some made by children of its own beside each other. Any of them may block for ever at a file of the driver; so all say in shared
// memory when they began and ended. Where one is late, the child is left behind with it, and a new one makes those that were not begun.
#include <stdatomic.h>
#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/door/door.h"
#include "base/lower.h"
#include "capture/steps.h"
#include "recorder/ranks.h"
#include "source/privileged/privileged.h"

enum { LOOK_MS = 15000, LOOKS_MOST = 32, BESIDE = 4, NAP_US = 2000, POLL_MS = 20, DIE_MS = 200 };

// --- what of an answer is kept ---

/** Variables that tell which job a process belongs to. Those that change how programs behave are knowledge's. */
static bool variable_matters(const struct know *k, struct str name)
{
	static const char of_the_job[] = RANK_WORDS "|WORLD_SIZE|SLURM_JOB_ID|SLURM_STEP_ID|SLURM_LOCALID|SLURM_NODEID|"
						    "POD_NAME|POD_NAMESPACE|POD_UID|container|UNHANG_RECORD";
	return str_among(name, STR_EQUALS, of_the_job).n || know_variable(k, name);
}

void filter_environment(const struct know *k, struct str all, struct text *ret)
{
	while (all.n) {
		struct str entry = str_split(&all, 0), value = entry, name = str_split(&value, '=');
		if (name.n == entry.n || !variable_matters(k, name))
			continue;
		text_add(ret, entry);
		text_add(ret, (struct str){ "", 1 });
	}
}

/** The words of `Environment="A=B" C=D` whose names matter. */
static void keep_unit_line(const struct know *k, struct str line, struct text *ret)
{
	text_add(ret, S("Environment="));
	while (line.n) {
		char end = line.p[0] == '"' || line.p[0] == '\'' ? line.p[0] : ' ';
		line = str_from(line, end != ' ');
		struct str word = str_split(&line, end), value = word, name = str_split(&value, '=');
		if (word.n && variable_matters(k, name))
			text_printf(ret, "\"" STR_FMT "\" ", STR_ARG(word));
		line = str_trim(line);
	}
}

/** Lines keep their numbers: what does not matter is left empty. */
static void filter_file(const struct know *k, struct str all, struct text *ret)
{
	while (all.n) {
		struct str line = str_trim(str_split(&all, '\n')), rest = line;
		bool unit = str_behind(line, S("Environment="), &rest);
		if (!unit)
			str_behind(line, S("export "), &rest);
		struct str value = rest, name = str_split(&value, '=');
		if (unit)
			keep_unit_line(k, rest, ret);
		else if (name.n < rest.n && variable_matters(k, name))
			text_add(ret, line);
		text_add(ret, S("\n"));
	}
}

/** Registers of waves come from two files; in the second, an argument says whether it is them or the state of the wave. */
static bool is_register_file(const struct probe *p)
{
	struct str path = str_z(p->path);
	if (!str_starts(path, S("/sys/kernel/debug/dri/")))
		return false;
	uint32_t of_registers = 0;
	if (str_ends(path, S("/amdgpu_gprwave")) && p->argument && p->argument_size >= sizeof(of_registers))
		memcpy(&of_registers, p->argument, sizeof(of_registers));
	return str_ends(path, S("/amdgpu_gpr")) || of_registers;
}

/** What of an answer is not kept: variables that do not matter, and contents of users' memory as the options say. */
static bool filter_answer(void *ctx, const struct probe *p, struct text *instead)
{
	// They set variables for everyone, or for a service.
	static const char settings[] = "/etc/environment*|/etc/profile*|/etc/systemd/system/*";
	const struct capture_options *o = ((const struct taking *)ctx)->options;
	const struct str path = str_z(p->path), data = { p->data, p->n };
	if (str_starts(path, S("/proc/")) && str_ends(path, S("/environ"))) {
		filter_environment(o->know, data, instead);
	} else if (p->kind == PROBE_FILE && str_among(path, STR_MATCHES, settings).n) {
		filter_file(o->know, data, instead);
	} else if (o->user_data == USER_DATA_NONE && is_register_file(p)) {
		memset(text_room(instead, p->n + 1), 0, p->n);
		instead->n += p->n;
	} else {
		return false;
	}
	return true;
}

// --- the child ---

/** What a child says of a look while it makes it. */
struct look_said {
	_Atomic int64_t began, ended; // 0: not yet
	_Atomic int pid;              // who makes it
	_Atomic bool given_up;        // said by the capture: nobody waits for it any more
	struct step_result result;
};

/** One of them: as the options have it, or what the capture itself looks at. */
struct look_kind {
	const char *track, *what;
	const struct capture_look *of; // NULL
	void (*own)(struct step *s, struct tape *tape);
	bool beside; // others may be made at the same time
};

struct looks_work {
	const struct taking *taking;
	struct look_kind looks[LOOKS_MOST];
	size_t n;
	struct look_said *said; // shared, of each
	size_t items;           // of the manifest: where theirs begin
	// In the child, from when it still had rights.
	int tracks[LOOKS_MOST], why[LOOKS_MOST]; // open; -1: errno
	struct item_file for_people;             // LOOKS_TEXT
};

/** A track is written in place: each of its records is whole, or not there. One that is empty was never begun. -1: see errno. */
static int create_track(const struct taking *c, const struct look_kind *l)
{
	struct item_file f;
	char name[BUNDLE_NAME_MOST];
	snprintf(name, sizeof(name), BUNDLE_TRACKS "%s", l->track);
	if (item_create(c, name, &f) && !item_name(c, name))
		item_drop(c, &f);
	return f.fd;
}

/** What this user may not read: a file that was asked for, or those of a GPU that were therefore not asked for. Empty: nothing. */
static struct str refused_path(const struct looks_work *w, const struct look_kind *l, struct tape *tape)
{
	const struct capture_options *o = w->taking->options;
	struct str path = tape_refused(tape);
	const struct devices *devices = l->of && l->of->driver && o->devices ? o->devices(tape, o->devices_ctx) : NULL;
	for (size_t i = 0; devices && !path.n && i < devices->n; i++) {
		struct str all = devices->list[i].refused;
		path = str_split(&all, '\n');
	}
	return path;
}

/** What came of it is written to shared memory at the end, in one assignment: a look that is left behind never says half of it. */
static void make_look(struct looks_work *w, size_t i)
{
	const struct look_kind *l = &w->looks[i];
	const struct taking *c = w->taking;
	_cleanup_close_ int fd = take_fd(&w->tracks[i]);
	struct step_shared shared = { .moved = 0 };
	struct step s = { .capture = c, .shared = &shared, .ctx = &w->for_people };
	if (fd < 0) {
		step_end(&s, ITEM_FAILED, "%s", strerror(w->why[i]));
	} else {
		struct tape *tape =
			tape_record(&(struct tape_recording){ .fd = fd,
							      .most = step_room(&s),
							      .budget = c->budget,
							      .filter = { .replace = filter_answer, .ctx = (void *)c },
							      .contents = c->options->user_data == USER_DATA_ALL,
							      .dead = c->dead,
							      .id = c->manifest->id });
		step_end(&s, ITEM_SAVED, "%s", "");
		if (l->own)
			l->own(&s, tape);
		else
			l->of->look(tape, l->of->ctx);
		const struct str refused = refused_path(w, l, tape), unread = tape_unread(tape);
		if (refused.n)
			step_end(&s, ITEM_REFUSED, STR_FMT ": %s", STR_ARG(refused), strerror(EACCES));
		if (unread.n)
			step_end(&s, ITEM_CUT, STR_FMT ": not read, since another process of unhang waits for that GPU",
				 STR_ARG(unread));
		if (!tape_end(tape))
			step_end(&s, ITEM_CUT, "%s",
				 errno == EFBIG ? "it has more bytes than an item may have" : strerror(errno));
		shared.result.bytes += tape_written(tape);
		tape_free(tape);
	}
	w->said[i].result = shared.result;
	w->said[i].ended = now_ms();
}

/** A look that blocks takes only its own child with it. Each child has a privileged reader of its own, since the answers of one must not reach
 * another. */
static void make_in_child(struct looks_work *w, size_t i)
{
	const int parent = (int)getpid();
	_cleanup_close_ int reader = privileged_split();
	int pid = fork();
	if (!pid) {
		child_of(parent);
		privileged_take(take_fd(&reader));
		door_leave();
		make_look(w, i);
		door_end();
		_exit(0);
	}
	w->said[i].pid = pid > 0 ? pid : getpid();
	if (pid < 0) // there is no child, but there is this one
		make_look(w, i);
}

/** How many are being made by children of this one. One that was given up is killed; its end, which may never come, is not waited for. */
static unsigned count_running(const struct looks_work *w)
{
	unsigned n = 0;
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->said[i];
		int pid = said->pid;
		if (!said->began || pid <= 0 || pid == getpid())
			continue;
		if (waitpid(pid, NULL, WNOHANG) == 0 && !said->given_up) {
			n++;
			continue;
		}
		if (said->given_up)
			kill(pid, SIGKILL);
		said->pid = -1;
		if (!said->ended) // it crashed
			said->ended = now_ms();
	}
	return n;
}

/** What needs rights. false: what cannot even be noted is not begun. */
static bool open_tracks(struct looks_work *w)
{
	_cleanup_error_ struct uh_error *err = partial_save_manifest(w->taking);
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->said[i];
		w->tracks[i] = -1;
		if (said->began)
			continue;
		if (err) {
			said->result.state = ITEM_FAILED;
			str_copy(said->result.reason, sizeof(said->result.reason), str_z(uh_error_message(err)));
			said->began = said->ended = now_ms();
			continue;
		}
		w->tracks[i] = create_track(w->taking, &w->looks[i]);
		w->why[i] = errno;
		if (w->looks[i].own)
			item_create(w->taking, LOOKS_TEXT, &w->for_people);
	}
	return !err;
}

/** The child. All that needs rights is done first: the manifest, the tracks, the text of the processes. */
static void make_all_looks(int fd, const void *ctx)
{
	struct looks_work *w = (void *)ctx; // the child's own copy
	bool found = false;
	(void)fd;
	door_leave();
	cleanup_close(&(int){ w->taking->lock });
	w->for_people.fd = -1;
	if (!open_tracks(w))
		return;
	prctl(PR_SET_NAME, "unhang-look");
	if (!privileged_begin(LOWER_NOGROUP)) // what takes the answers apart has no rights
		_exit(1);
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->said[i];
		if (said->began)
			continue;
		// Only root's children take turns at a GPU (tape/stuck_reads.h): those of others might all be left at one that does not answer.
		const bool beside = w->looks[i].beside && found && (privileged_reads() || geteuid() == 0);
		while (count_running(w) >= (beside ? BESIDE : 1))
			usleep(NAP_US);
		said->pid = getpid();
		said->began = now_ms();
		found = true;
		if (beside)
			make_in_child(w, i);
		else
			make_look(w, i);
	}
	while (count_running(w))
		usleep(NAP_US);
	privileged_end();
	fsync(w->taking->dir);
	door_end();
}

// --- the capture ---

/** Notes looks that are late. false: it is one that the child itself makes, for which all others wait. */
static bool note_late_looks(struct taking *c, const struct looks_work *w, const struct child *child)
{
	const bool over = now_ms() >= c->deadline || step_stopped(c);
	bool goes_on = !over;
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->said[i];
		if (!said->began || said->ended || said->given_up || (!over && now_ms() - said->began < LOOK_MS))
			continue;
		const struct child who = { .pid = said->pid > 0 ? said->pid : 0 };
		goes_on &= who.pid != child->pid;
		step_note_late(c, &c->manifest->items.data[w->items + i], &who);
		said->given_up = true;
	}
	return goes_on;
}

/** Waits until the child has ended, or is late. */
static void wait_for_looks(struct taking *c, const struct looks_work *w, struct child *child)
{
	_cleanup_text_ struct text nothing = { 0 };
	size_t told = SIZE_MAX;
	do {
		size_t at = 0;
		while (at < w->n && w->said[at].ended)
			at++;
		if (at != told && at < w->n)
			step_progress(c, w->looks[at].what);
		told = at;
	} while (child_wait(child, now_ms() + POLL_MS, 0, &nothing) == CHILD_LATE && note_late_looks(c, w, child));
}

/** Has those made that were not begun, of which @first is the first. */
static void run_looks(struct taking *c, const struct looks_work *w, size_t first)
{
	struct manifest_item *items = c->manifest->items.data + w->items;
	struct child child;
	bool fresh[LOOKS_MOST];
	for (size_t i = 0; i < w->n; i++)
		fresh[i] = !w->said[i].began;
	if (!child_start(CHILD_CAPTURE_LOOK, make_all_looks, w, &child)) {
		w->said[first].began = w->said[first].ended = now_ms();
		items[first].state = ITEM_FAILED;
		items[first].reason = S("no child could be started");
		return;
	}
	wait_for_looks(c, w, &child);
	child_kill(&child, DIE_MS);
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->said[i];
		if (!fresh[i] || !said->began || said->given_up)
			continue;
		step_note_end(c, &items[i], CHILD_GOOD, &said->result);
		items[i].took_ms = said->ended ? said->ended - said->began : 0;
		if (w->looks[i].own && said->result.whole && !step_name(c, (const char *const[]){ LOOKS_TEXT }, 1))
			items[i].state = ITEM_CUT;
	}
}

/** The first that was not begun; n: none. */
static size_t next_look(const struct looks_work *w)
{
	size_t i = 0;
	while (i < w->n && w->said[i].began)
		i++;
	return i;
}

/** Its item stands in the manifest before it is begun, so that a capture that is killed tells what it was about to do. */
static void add_look(struct taking *c, struct looks_work *w, struct look_kind l)
{
	if (w->n == LOOKS_MOST)
		return;
	w->looks[w->n++] = l;
	step_note(c, arena_printf(c->arena, BUNDLE_TRACKS "%s", l.track).p, l.what, ITEM_RUNNING, "");
}

/** Goes on as long as there are looks that were not begun. Where a child ends without having begun one, that one is to blame, and is
 * passed over. */
static void capture_looks(struct taking *c, bool last)
{
	struct looks_work w = { .taking = c, .items = c->manifest->items.len };
	for (size_t i = 0; i < c->options->nlooks; i++) {
		const struct capture_look *l = &c->options->looks[i];
		if (l->last == last)
			add_look(c, &w, (struct look_kind){ l->track, l->what, l, NULL, !last });
	}
	if (!last)
		add_look(c, &w, (struct look_kind){ "processes", "processes that hold a GPU", NULL, capture_processes, true });
	_cleanup_map_ struct map room = { 0 };
	if (!map_shared(&room, sizeof(*w.said) * LOOKS_MOST))
		return;
	w.said = room.p;
	for (size_t at; (at = next_look(&w)) < w.n;) {
		struct manifest_item *item = &c->manifest->items.data[w.items + at];
		const char *why = step_exhausted(c);
		if (!why) {
			run_looks(c, &w, at);
			if (next_look(&w) != at)
				continue;
			why = "unhang itself failed while it read it";
		}
		w.said[at].began = now_ms();
		item->state = ITEM_CUT;
		item->reason = arena_str(c->arena, str_z(why));
	}
}

void capture_first_looks(struct taking *c) { capture_looks(c, false); }
void capture_last_looks(struct taking *c) { capture_looks(c, true); }
