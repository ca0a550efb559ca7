// A capture from its beginning to its end: the directory, the steps in the order in which evidence dies, redaction, the bundle. Nothing is
// packed before all is saved, because packing takes time that a dying machine does not have.
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>

#include "capture/steps.h"

enum { DEADLINE_MS = 30000, PACK_LEAST_MS = 5000, REMOVE_MS = 2000 };
static const uint64_t item_most = 512ull << 20, most = 1ull << 30, floor_most = 1ull << 30;

const char *const user_data_names[] = { "none", "registers", "all", NULL };

/** A twentieth of the disk stays free, and a gigabyte is enough. */
static uint64_t usual_floor(int dir)
{
	enum { PART = 20 };
	struct statvfs v;
	uint64_t part = fstatvfs(dir, &v) ? 0 : (uint64_t)v.f_blocks * v.f_frsize / PART;
	return part < floor_most ? part : floor_most;
}

static struct str first_line_of(struct arena *a, const char *path)
{
	char room[256];
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, room, sizeof(room));
	struct str text = { room, n > 0 ? (size_t)n : 0 };
	return arena_str(a, str_split(&text, '\n'));
}

/** What is known before anything is asked. The uptime ties the kernel's times to the wall clock. */
static void begin_manifest(struct captured *ret, const struct capture_options *o)
{
	enum { MS = 1000 };
	struct utsname kernel = { 0 };
	char host[SOURCE_HOST_MAX];
	uint64_t id = 0;
	struct arena *a = &ret->arena;
	(void)!getrandom(&id, sizeof(id), GRND_NONBLOCK);
	uname(&kernel);
	ret->manifest = (struct manifest){
		.id = arena_printf(a, "%016llx", (unsigned long long)id),
		.host = arena_str(a, str_z(source_host(host))),
		.boot_id = first_line_of(a, "/proc/sys/kernel/random/boot_id"),
		.kernel = arena_str(a, str_z(kernel.release)),
		.version = S(UNHANG_VERSION),
		.state = "running",
		.user_data = user_data_names[o->user_data],
		.began = (int64_t)time(NULL),
		.uptime_ms = (int64_t)(source_uptime() * MS),
		.deadline_ms = o->deadline_ms,
	};
}

/** In the order in which evidence dies; what strangers can fill comes behind what the GPUs answer. */
static const struct {
	void (*take)(struct taking *c); // NULL: it is one step
	struct step_plan plan;
} order[] = {
	{ capture_dumps },
	{ NULL, { BUNDLE_TOOLS "unhang-watch.txt", "what unhang watch saw", copy_note, NULL, CHILD_CAPTURE_WRITE, 3000 } },
	{ NULL,
	  { BUNDLE_TRACKS BUNDLE_LOG,
	    "the kernel's log",
	    copy_logs,
	    NULL,
	    CHILD_CAPTURE_LOG,
	    10000,
	    false,
	    { BUNDLE_TRACKS BUNDLE_LOG, LOG_TEXT } } },
	{ capture_first_looks },
	{ NULL,
	  { BUNDLE_TRACKS BUNDLE_CHANGES,
	    "what was updated or set, and the boots",
	    copy_changes,
	    NULL,
	    CHILD_CAPTURE_LOG,
	    15000,
	    false,
	    { BUNDLE_TRACKS BUNDLE_CHANGES } } },
	{ NULL, { BUNDLE_CRASH, "what a crash left (pstore)", copy_crash_files, NULL, CHILD_CAPTURE_COPY, 3000 } },
	{ NULL,
	  { BUNDLE_RECORDINGS, "recordings of flight recorders", copy_recordings, NULL, CHILD_CAPTURE_COPY, 10000, true } },
	{ NULL, { BUNDLE_TOOLS "job-output.txt", "the end of the job's output", copy_output, NULL, CHILD_CAPTURE_COPY, 3000 } },
	{ NULL, { BUNDLE_MORE "board.txt", "board and firmware (DMI)", copy_board, NULL, CHILD_CAPTURE_COPY, 3000 } },
	{ NULL, { PCI_CONFIG, "PCI configuration of the GPUs and their bridges", copy_pci, NULL, CHILD_CAPTURE_COPY, 3000 } },
	{ NULL, { BUNDLE_MORE "dkms-", "build logs of the driver (DKMS)", copy_builds, NULL, CHILD_CAPTURE_COPY, 3000 } },
	{ capture_programs },
	{ capture_tools },
	{ capture_last_looks },
	{ capture_debugger },
};

static void take_evidence(struct taking *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		const struct step_plan *p = &order[i].plan;
		const bool absent =
			(p->run == copy_note && !c->options->note.n) || (p->run == copy_output && !c->options->output);
		if (order[i].take)
			order[i].take(c);
		else if (!absent)
			step_run(c, p);
	}
}

/** Each file of the driver that never answered, with the place in the kernel where its reader waits: often that is the diagnosis. */
static void note_dead(struct taking *c)
{
	struct probe_stuck stuck;
	for (size_t i = 0; tape_dead_at(c->dead, i, &stuck); i++) {
		struct str path = arena_str(c->arena, stuck.at);
		struct manifest_item *item =
			step_note(c, path.p ? arena_z(c->arena, path) : "", "a file of the driver", ITEM_BLOCKED,
				  stuck.uninterruptible ? "its reader cannot be killed, and is left behind" :
							  "it did not answer in time");
		item->at = path;
		item->stack = arena_str(c->arena, stuck.stack.n ? stuck.stack : stuck.wchan);
	}
}

/** The manifest, and a bundle with it. */
static struct uh_error *write_bundle(const void *ctx)
{
	const struct taking *c = ctx;
	struct pack p = { .partial = c->path, .file = c->options->file, .dir = c->dir, .lock = -1 };
	struct uh_error *err = partial_save_manifest(c);
	return err ? err : pack_bundle(&p);
}

/** From here on the deadline of saving does not count any more, but packing has some seconds in any case. */
static struct uh_error *finish_bundle(struct taking *c, struct captured *ret)
{
	struct stat st;
	ret->manifest.state = "complete";
	ret->manifest.ended = (int64_t)time(NULL);
	ret->manifest.took_ms = now_ms() - c->began;
	c->budget->most = UINT64_MAX; // what is redacted takes the place of what was saved
	struct uh_error *err = c->options->redact ? redact_partial(c, 0) : NULL;
	const int64_t least = now_ms() + PACK_LEAST_MS;
	if (!err)
		err = step_write(c, write_bundle, c, c->last > least ? c->last : least);
	if (!err && !stat(c->options->file, &st))
		ret->bytes = (uint64_t)st.st_size;
	return err;
}

static struct uh_error *write_manifest(const void *ctx) { return partial_save_manifest(ctx); }

static struct uh_error *remove_partial(const void *ctx)
{
	const struct taking *c = ctx;
	return partial_remove(c->path, c->dir);
}

/** The error with what is left, and what to do. Where nothing could be saved, nothing is left. */
static struct uh_error *with_rest(const struct taking *c, struct uh_error *error)
{
	_cleanup_error_ struct uh_error *err = error;
	const struct str said = str_z(uh_error_message(err));
	const char *file = c->options->file;
	const int why = str_find(said, str_z(strerror(ENOSPC))) >= 0 ? ENOSPC : EDQUOT;
	const bool full = str_find(said, str_z(strerror(why))) >= 0, begun = c->dir >= 0;
	if (!full && !begun)
		return take_ptr(err);
	if (!full)
		return uh_error_new("%s; what was saved is in %s, and the next capture into that directory packs it", said.p,
				    c->path);
	if (begun && !partial_empty(c->dir))
		return uh_error_new(
			"%s: %s. What was saved is in %s: make room there and capture again, which packs it, or name "
			"a file on another disk with -o FILE",
			file, strerror(why), c->path);
	if (begun)
		uh_error_free(step_write(c, remove_partial, c, now_ms() + REMOVE_MS));
	return uh_error_new("%s: %s. Nothing could be saved: make room there, or name a file on another disk with -o FILE",
			    file, strerror(why));
}

static void taking_end(struct taking *c)
{
	tape_dead_free(c->dead);
	tape_budget_free(c->budget);
	cleanup_close(&c->dir);
	cleanup_close(&c->lock);
}

struct uh_error *capture_take(const struct capture_options *options, struct captured *ret)
{
	struct capture_options o = *options;
	*ret = (struct captured){ 0 };
	struct taking c = {
		.options = &o, .arena = &ret->arena, .manifest = &ret->manifest, .dir = -1, .lock = -1, .began = now_ms()
	};
	o.deadline_ms = o.deadline_ms ? o.deadline_ms : DEADLINE_MS;
	o.item_most = o.item_most ? o.item_most : item_most;
	o.most = o.most ? o.most : most;
	c.last = c.began + o.deadline_ms;
	c.deadline = c.last - o.deadline_ms / 4; // the rest is for packing
	capture_recover_file(&o, c.last);
	begin_manifest(ret, &o);
	struct uh_error *err = partial_create(&o, &c);
	if (err)
		return with_rest(&c, err);
	o.floor = o.floor ? o.floor : usual_floor(c.dir);
	c.dead = tape_dead_new();
	c.budget = tape_budget_new(o.most);
	take_evidence(&c);
	if (o.saved)
		o.saved(o.saved_ctx);
	note_dead(&c);
	step_progress(&c, NULL);
	if (step_stopped(&c)) { // the next capture says `interrupted` of it
		uh_error_free(step_write(&c, write_manifest, &c, now_ms() + REMOVE_MS));
		err = uh_error_new("%s: stopped before it was complete", c.options->file);
	} else if (step_full(&c) && partial_empty(c.dir)) // a bundle without evidence would be taken for one
		err = uh_error_os(ENOSPC, "%s", o.file);
	else
		err = finish_bundle(&c, ret);
	if (err) {
		err = with_rest(&c, err);
		taking_end(&c);
		return err;
	}
	_cleanup_error_ struct uh_error *left = step_write(&c, remove_partial, &c, now_ms() + REMOVE_MS);
	if (left && left->errnum != ETIMEDOUT && o.tell) // what is late the next capture removes
		o.tell(o.ctx, uh_error_message(left));
	taking_end(&c);
	capture_recover(&o, c.last); // where there is an error, its own would be among them
	return NULL;
}

void captured_free(struct captured *c)
{
	vec_free(&c->manifest.items);
	vec_free(&c->manifest.notes);
	arena_free(&c->arena);
}
