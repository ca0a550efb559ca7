// unhang core: what ROCm's runtime pipes a GPU core into, while the process that failed waits for it. Nothing here may hold that process up or
// change how it ends: whatever goes wrong, the stream is read to its end, and nothing is printed.
//
// Three processes. This one reads nothing but the stream, and only when nobody else does; it watches the others. The keeper writes: it makes the
// place of the incident, has the core explained, and writes the record last. The taker has no rights: it takes the stream apart.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/print.h"
#include "base/save.h"
#include "diagnose/identity.h"
#include "gpu/core/light.h"
#include "session/place.h"
#include "session/run/run.h"
#include "session/session.h"
#include "source/process.h"
#include "store/store.h"
#include "watch/settings.h"
#include "watch/tell.h"
#include "watch/watch.h"

enum {
	CHUNK = 1 << 20,
	MEMORY_MS = 5000,   // for the memory of the process: less than STALL_MS, so that what was read by then is kept
	EXPLAIN_MS = 30000, // for the explanation
	ALONE_MS = 10000,   // for it if the process is gone: nobody waits, and a scheduler may want to end the job
	STALL_MS = 10000,   // bytes wait, and nobody takes them
	END_MS = 45000,     // from the end of the stream to the end of all
	IDLE_MS = 3600000,  // a stream that neither goes on nor ends
	GONE_MS = 5000,     // the same where its writer is gone: somebody else has its pipe
	LOOK_MS = 200,
	KILL_MS = 200,
	SHARE = 8,       // of the room that is left on the disk: at most one of so many parts
	LEAVE = 2,       // of it: one of so many parts stays, however many handlers write at once
	LEAST = 1 << 20, // bytes, without which a core says little
	LIGHT_MB = 64,   // of a light core, unless the options say otherwise
	ANCESTORS_MOST = 64,
	NAME_MOST = 64,
};

struct core_job {
	const struct uh_core_options *o;
	int64_t pid;
	_Atomic uint64_t *taken; // bytes of the stream, by the taker
};

// --- the taker ---

struct core_taking {
	const struct core_job *job;
	struct light_options light;
	int memory;     // /proc/PID/mem; -1: it may not be read
	int watch;      // to the one that watches
	uint64_t leave; // bytes that stay free on the disk
};

static ssize_t read_process(void *ctx, uint64_t address, void *to, size_t size)
{
	return pread(((const struct core_taking *)ctx)->memory, to, size, (off_t)address);
}

static uint64_t core_disk_free(int fd)
{
	struct statvfs fs;
	return fstatvfs(fd, &fs) ? 0 : (uint64_t)fs.f_bavail * fs.f_frsize;
}

static bool core_room(void *ctx, size_t bytes)
{
	const struct core_taking *t = ctx;
	return core_disk_free(t->light.fd) >= t->leave + bytes;
}

/** The one that watches reads the rest of the stream, so that its writer need not wait. */
static void take_leave(void *ctx) { (void)!write(((const struct core_taking *)ctx)->watch, "", 1); }

/** In a child without rights. What it writes to @fd is why there is no core. */
static void take_stream(int fd, const void *ctx)
{
	const struct core_taking *t = ctx;
	_cleanup_free_ char *room = mem_alloc(CHUNK);
	_cleanup_light_ struct light *l = light_new(&t->light);
	struct uh_error *err = NULL;
	ssize_t n = 1;
	prctl(PR_SET_NAME, "unhang-core");
	while (!err && n && light_wants_more(l)) {
		n = read(STDIN_FILENO, room, CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		n = n < 0 ? 0 : n;
		atomic_fetch_add(t->job->taken, (uint64_t)n);
		err = light_take(l, (struct str){ room, (size_t)n });
	}
	if (!err)
		err = light_end(l);
	if (!err && fsync(t->light.fd))
		err = uh_error_os(errno, "the core cannot be written");
	if (!err)
		return;
	(void)!write_all(fd, str_z(uh_error_message(err)));
	_exit(1);
}

// --- the keeper ---

/** Whether it is the process that this one was started for, directly or by a shell: numbers come again. */
static bool core_of_ancestor(int64_t wanted)
{
	char room[1024];
	struct process_stat st;
	int64_t pid = getppid();
	for (int i = 0; i < ANCESTORS_MOST && pid > 1 && pid != wanted; i++)
		pid = process_stat_parse(process_file(pid, "stat", room, sizeof(room)), &st) ? st.parent : 0;
	return pid == wanted && pid > 0;
}

static bool core_gone(int64_t pid) { return kill((pid_t)pid, 0) && errno == ESRCH; }

/** The memory of the process that waits, which must be this user's. Returns what is lacking if it may not be read. */
static uint32_t core_open_memory(int64_t pid, int *ret)
{
	char path[40];
	uid_t owner;
	snprintf(path, sizeof(path), "/proc/%lld/mem", (long long)pid);
	if (core_gone(pid))
		return LIGHT_GONE;
	if (!core_of_ancestor(pid) || !process_owner(pid, &owner) || owner != geteuid())
		return LIGHT_OTHER;
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret >= 0 ? 0 : errno == EACCES || errno == EPERM ? LIGHT_MEMORY : LIGHT_GONE;
}

/** At most what the options say, and a share of what is left: others need the disk, too. */
static uint64_t core_most(const struct core_job *j, const struct watch_settings *s, uint64_t share)
{
	const uint64_t usual = j->o->all ? (uint64_t)s->keep_megabytes : LIGHT_MB;
	const uint64_t most = (j->o->megabytes ? j->o->megabytes : usual) << 20;
	return share < most ? share : most;
}

/** The command as one line, from /proc. */
static struct str core_command(int64_t pid, char *room, size_t size)
{
	const struct str text = process_file(pid, "cmdline", room, size);
	for (size_t i = 0; i < text.n; i++)
		room[i] = room[i] ? room[i] : ' ';
	return text;
}

/** The core in @file, or why there is none. */
static struct uh_error *core_take(const struct core_job *j, const struct watch_settings *s, struct str program, int file,
				  int watch)
{
	char command[256];
	_cleanup_text_ struct text why = { 0 };
	_cleanup_child_ struct child c = { .fd = -1 };
	struct core_taking t = { .job = j, .memory = -1, .watch = watch };
	_cleanup_close_ int memory = -1;
	const uint32_t lacks = core_open_memory(j->pid, &memory);
	t.memory = memory;
	const uint64_t left = core_disk_free(file);
	t.leave = left / LEAVE;
	t.light = (struct light_options){ .fd = file,
					  .most = core_most(j, s, left / SHARE),
					  .milliseconds = MEMORY_MS,
					  .all = j->o->all,
					  .lacks = lacks,
					  .pid = j->pid,
					  .program = program,
					  .command = core_command(j->pid, command, sizeof(command)),
					  .read = memory < 0 ? NULL : read_process,
					  .room = core_room,
					  .enough = take_leave,
					  .ctx = &t };
	if (t.light.most < LEAST)
		return uh_error_new("there is no room on the disk for a GPU core");
	if (!child_start(CHILD_CORE, take_stream, &t, &c))
		return uh_error_os(errno, "no process can be started");
	const enum child_end end = child_wait(&c, INT64_MAX, NAME_MAX, &why);
	if (end == CHILD_GOOD && !why.n)
		return NULL;
	return uh_error_new(STR_FMT, STR_ARG(why.n ? text_str(&why) : S("the stream could not be taken apart")));
}

struct core_found {
	int file; // the core
	const char *path;
	struct stored *stored;
};

static void core_say(const void *ctx, FILE *to)
{
	const struct incident *i = ctx;
	incident_lines(i, to);
	print_line(to, "fingerprint", i->fingerprint);
}

/** In a child, which has the core open and no rights. */
static void core_explain(const void *asked, struct arena *a, void *answer)
{
	const struct core_found *f = asked;
	struct told_texts *texts = answer;
	prctl(PR_SET_NAME, "unhang-explain");
	door_leave();
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	door_end(); // what read the knowledge has rights
	const off_t size = lseek(f->file, 0, SEEK_END);
	const void *core = mmap(NULL, size > 0 ? (size_t)size : 0, PROT_READ, MAP_PRIVATE, f->file, 0);
	if (core == MAP_FAILED || !child_put_down(CHILD_EXPLAIN))
		_exit(1);
	uh_session_add_bytes(s, f->path, core, (size_t)size);
	uh_session_end(s);
	if (s->ledger.incidents.len) {
		struct incident *one = s->ledger.incidents.data[0];
		one->id = arena_str(&one->arena, f->stored->id);
		texts->lines = text_written(core_say, one, a);
	}
	texts->json = session_report_text(s, true, 0, a);
	texts->text = session_report_text(s, false, 0, a);
	uh_session_free(s);
	door_end();
}

static void core_explained(const struct core_found *f, const char *directory, struct arena *a)
{
	enum { MOST = 32 << 20 };
	struct told_texts texts;
	const struct child_task task = { CHILD_EXPLAIN, core_explain, &told_texts_kind,
					 now_ms() + (core_gone(f->stored->pid) ? ALONE_MS : EXPLAIN_MS), MOST };
	if (child_call(&task, f, a, &texts) != CHILD_GOOD)
		return; // the core is there, and can be explained later
	told_texts_save(&texts, directory, save_shared);
	f->stored->title = arena_printf(a, STR_FMT " (pid %lld) failed on the GPU; its core does not tell why",
					STR_ARG(f->stored->job), (long long)f->stored->pid);
	stored_add(texts.lines, a, f->stored);
}

static struct stored core_stored(const struct core_job *j, struct str program, struct arena *a)
{
	char host[SOURCE_HOST_MAX], boot[64];
	struct timespec now;
	struct stored i = { .state = STORED_CLOSED,
			    .origin = S(STORE_ORIGIN_CORE),
			    .bundle = S("no bundle, but a GPU core (" STORE_CORE ")"),
			    .closed_by = S("the program had failed"),
			    .began = (int64_t)time(NULL),
			    .pid = j->pid,
			    .revision = 1,
			    .events = 1,
			    .job = program };
	clock_gettime(CLOCK_REALTIME, &now);
	i.changed = i.ended = i.began;
	i.host = arena_str(a, str_z(source_host(host)));
	i.boot_id = arena_str(a, source_boot_id(boot));
	i.title = arena_printf(a, STR_FMT " (pid %lld) failed on the GPU; its core is not explained yet", STR_ARG(program),
			       (long long)j->pid);
	const struct identity own = { .boot = i.boot_id,
				      .pid = j->pid,
				      .first = FIRST_TOLD,
				      .us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000,
				      .text = program };
	i.id = identity_name(&own, a);
	return i;
}

/** To the journal: the output is the job's. */
static void core_tell(const struct stored *i, const struct uh_error *err)
{
	struct watch_voice voice;
	voice_open(&voice, -1);
	if (voice.journal >= 0 && err)
		voice_problem(&voice, uh_error_message(err));
	else if (voice.journal >= 0)
		voice_incident(&voice, i, "closed");
	voice_close(&voice);
}

/** The file of the core, for those who may read its directory. */
static int core_create(int directory)
{
	struct stat st;
	const int fd = openat(directory, STORE_CORE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && !fstat(directory, &st)) {
		(void)!fchown(fd, (uid_t)-1, st.st_gid);
		fchmod(fd, 0640 & st.st_mode);
	}
	return fd;
}

/** All that is kept of one core. The record comes last, and the directory goes where there is none. */
static struct uh_error *core_keep(const struct core_job *j, const struct watch_settings *s, struct stored *i, int fd,
				  struct arena *a)
{
	_cleanup_close_ int directory = store_begin(s->state_dir, i->id);
	_cleanup_close_ int file = directory < 0 ? -1 : core_create(directory);
	const char *path = store_path(a, s->state_dir, i->id);
	struct uh_error *err = file < 0 ? uh_error_os(errno, "%s", path) : core_take(j, s, i->job, file, fd);
	(void)!write(fd, "", 1); // if it failed, nobody has said so yet
	if (!err) {
		const struct core_found found = { file, arena_printf(a, "%s/" STORE_CORE, path).p, i };
		core_explained(&found, path, a);
		err = store_save(s->state_dir, i);
	}
	if (err && directory >= 0)
		store_drop(s->state_dir, i->id);
	return err;
}

/** In the keeper's process: @fd is read by the one that watches it. */
static void core_work(int fd, const void *ctx)
{
	const struct core_job *j = ctx;
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_settings_ struct watch_settings s = { 0 };
	char name[NAME_MOST];
	unsigned mistakes;
	const char *own = state_of_user(&a);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	uh_error_free(settings_load(&s, NULL, tell_nobody, NULL, &mistakes));
	s.state_dir = j->o->state_dir ? absolute_path(&a, j->o->state_dir) : geteuid() ? own : s.state_dir;
	const struct str program = arena_str(&a, str_trim(process_file(j->pid, "comm", name, sizeof(name))));
	struct stored i = core_stored(j, program.n ? program : S("a program"), &a);
	struct uh_error *err = s.state_dir ? NULL : uh_error_new("this user has no home directory for incidents");
	if (!err) {
		store_vacuum(s.state_dir, (size_t)s.keep_incidents, (uint64_t)s.keep_megabytes << 20);
		err = core_keep(j, &s, &i, fd, &a);
	}
	if (!err)
		store_vacuum(s.state_dir, (size_t)s.keep_incidents, (uint64_t)s.keep_megabytes << 20);
	core_tell(&i, err);
	uh_error_free(err);
	door_end();
}

// --- the one that watches ---

struct core_watch {
	struct child keeper;
	_Atomic uint64_t *taken;
	uint64_t seen;   // of it
	int64_t moved;   // when that was, or when the stream last went on
	int64_t end_by;  // 0: the stream has not ended
	bool free, over; // free: nobody but this process reads the stream
	int64_t pid;
	char *room; // of CHUNK bytes
};

static void core_end_keeper(struct core_watch *w)
{
	child_kill(&w->keeper, KILL_MS);
	cleanup_close(&w->keeper.fd);
	w->free = true;
}

static void core_hear(struct core_watch *w)
{
	char byte;
	const ssize_t n = read(w->keeper.fd, &byte, 1);
	w->free = true;
	w->moved = now_ms();
	if (n <= 0)
		core_end_keeper(w);
}

static void core_drain(struct core_watch *w)
{
	const ssize_t n = read(STDIN_FILENO, w->room, CHUNK);
	w->moved = now_ms();
	if (!n || (n < 0 && errno != EINTR && errno != EAGAIN))
		w->end_by = w->moved + END_MS;
}

/** What has waited for too long ends, one after the other: the keeper, then the stream. */
static void core_watch_time(struct core_watch *w, bool bytes_wait)
{
	const int64_t now = now_ms();
	const uint64_t taken = w->taken ? atomic_load(w->taken) : 0;
	const bool gone = core_gone(w->pid);
	if (taken != w->seen || (!w->free && !bytes_wait && !gone))
		w->moved = now;
	w->seen = taken;
	if (!w->free && now - w->moved >= STALL_MS)
		core_end_keeper(w);
	if (w->free && !w->end_by && now - w->moved >= (gone ? GONE_MS : IDLE_MS))
		w->end_by = now + END_MS; // what was taken may still be explained
	if (w->end_by && now >= w->end_by)
		core_end_keeper(w);
}

static void core_watch_until_end(struct core_watch *w)
{
	w->moved = now_ms();
	while (!w->end_by || w->keeper.fd >= 0) {
		const bool drains = w->free && !w->end_by;
		struct pollfd on[] = { { w->keeper.fd, POLLIN, 0 }, { drains ? STDIN_FILENO : -1, POLLIN, 0 } };
		struct pollfd stream = { STDIN_FILENO, POLLIN, 0 };
		poll(on, 2, LOOK_MS);
		if (on[0].revents)
			core_hear(w);
		if (on[1].revents)
			core_drain(w);
		core_watch_time(w, !w->free && poll(&stream, 1, 0) > 0);
	}
}

/** The output is the job's: who waits for its end must not wait for this, and whatever fails here is not the job's to say. */
static void core_leave_output(void)
{
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	close_between(STDOUT_FILENO, STDERR_FILENO);
	if (null > STDERR_FILENO) {
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
	hold_descriptors();
}

void uh_core(const struct uh_core_options *o)
{
	core_leave_output();
	_cleanup_map_ struct map shared = { 0 };
	_cleanup_free_ char *room = mem_alloc(CHUNK);
	struct core_watch w = { .keeper.fd = -1, .pid = o->pid, .free = true, .room = room };
	fcntl(STDIN_FILENO, F_SETPIPE_SZ, CHUNK);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); // a limit of the job's
	umask(geteuid() ? 0077 : 0022);
	if (map_shared(&shared, sizeof(*w.taken))) {
		w.taken = shared.p;
		w.free = !child_start(CHILD_CORE_KEEP, core_work, &(struct core_job){ o, o->pid, w.taken }, &w.keeper);
	}
	core_watch_until_end(&w);
}
