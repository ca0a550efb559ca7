#include "watch/pulse/signs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "evidence/recording/head.h"
#include "evidence/recording/places.h"
#include "evidence/recording/recording.h"
#include "gpu/process/target.h"
#include "source/privileged/privileged.h"
#include "recorder/ranks.h"

// === which processes compute, which queues they have, and how far each is ===

#define KFD_PROCESSES "/sys/class/kfd/kfd/proc"
enum { ASK_MS = 5000 }; // between two questions for the addresses of queues: each takes the mutex of every process in turn

/** The number that a name is; -1: it is none. */
static int64_t pulse_signs_number_of(const char *name)
{
	int64_t n;
	return str_number(str_z(name), &n) && n >= 0 ? n : -1;
}

/** The names of its queues, added up. */
static uint64_t queue_names(int64_t pid)
{
	char path[96];
	uint64_t sum = 0;
	snprintf(path, sizeof(path), KFD_PROCESSES "/%lld/queues", (long long)pid);
	_cleanup_dir_ DIR *d = opendir(path);
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		if (char_digit(e->d_name[0]))
			sum += hash_mix(1, (uint64_t)pulse_signs_number_of(e->d_name));
	return sum;
}

static size_t list_pids(int64_t *ret, size_t most)
{
	_cleanup_dir_ DIR *d = opendir(KFD_PROCESSES);
	size_t n = 0;
	for (const struct dirent *e = d ? readdir(d) : NULL; e && n < most; e = readdir(d))
		if (char_digit(e->d_name[0]) && pulse_signs_number_of(e->d_name) > 0)
			ret[n++] = pulse_signs_number_of(e->d_name);
	return n;
}

static size_t pulse_signs_gpu_of(const struct devices *d, int64_t gpu_id)
{
	unsigned partition;
	const struct device *found = devices_with_gpu_id(d, gpu_id, &partition);
	return found ? (size_t)(found - d->list) : d->n;
}

int64_t signs_number(const char *path)
{
	char room[32];
	int64_t n;
	return str_number(str_trim(small_file(path, room, sizeof(room))), &n) ? n : -1;
}

/** The GPUs that it has queues or memory on. */
static void find_gpus(struct signs *s, struct sign_process *p)
{
	char path[160];
	snprintf(path, sizeof(path), KFD_PROCESSES "/%lld/queues", (long long)p->pid);
	_cleanup_dir_ DIR *d = opendir(path);
	p->gpus = 0;
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		if (!char_digit(e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), KFD_PROCESSES "/%lld/queues/%.20s/gpuid", (long long)p->pid, e->d_name);
		size_t gpu = pulse_signs_gpu_of(s->devices, signs_number(path));
		p->gpus |= gpu < s->devices->n && gpu < SIGNS_GPUS ? UINT64_C(1) << gpu : 0;
		p->unknown_queues = true; // until their indexes were read
	}
	for (size_t i = 0; i < s->devices->n && i < SIGNS_GPUS; i++) {
		snprintf(path, sizeof(path), KFD_PROCESSES "/%lld/vram_%lld", (long long)p->pid,
			 (long long)s->devices->list[i].gpu_id);
		p->gpus |= signs_number(path) > 0 ? UINT64_C(1) << i : 0;
	}
}

static void take_queue(struct signs *s, size_t process, const struct queue *q)
{
	size_t gpu = q->agent ? pulse_signs_gpu_of(s->devices, q->agent->gpu_id) : s->devices->n;
	if (!q->indexes_known || q->type != QUEUE_AQL || gpu >= s->devices->n || s->nqueues == SIGNS_QUEUES)
		return;
	s->queues[s->nqueues++] = (struct sign_queue){ .process = process,
						       .gpu = gpu,
						       .read_address = q->read_address,
						       .write_address = q->write_address,
						       .read = q->read_index };
}

/** Asks the driver where the indexes of all queues are. */
static void ask_for_queues(struct signs *s)
{
	struct kfd kfd;
	s->nqueues = 0;
	kfd_look(s->devices, &kfd);
	for (size_t i = 0; i < s->n; i++) {
		struct target *t = NULL;
		struct request r = { .kind = REQUEST_QUEUES };
		_cleanup_error_ struct uh_error *err = target_process_of(s->know, s->devices, &kfd, s->processes[i].pid, &t);
		size_t before = s->nqueues, n = !err && target_ask(t, &r) == ANSWER_GIVEN ? r.n : 0;
		for (size_t q = 0; q < n; q++)
			take_queue(s, i, &r.queues[q]);
		s->processes[i].unknown_queues &= !n || s->nqueues - before != n;
		if (!err)
			target_close(t);
	}
	kfd_free(&kfd);
	door_end();
}

static const struct sign_process *process_known(const struct signs *s, int64_t pid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

static void signs_find(struct signs *s, int64_t now_ms)
{
	int64_t pids[SIGNS_PROCESSES];
	size_t n = list_pids(pids, SIGNS_PROCESSES);
	uint64_t sum = n + s->clients.names;
	for (size_t i = 0; i < n; i++)
		sum += hash_mix((uint64_t)pids[i], queue_names(pids[i]));
	n = signs_client_pids(s, pids, n, SIGNS_PROCESSES);
	if (sum == s->changed || (s->asked && now_ms - s->asked < ASK_MS && n))
		return;
	_cleanup_free_ struct sign_process *next = mem_alloc(sizeof(s->processes));
	for (size_t i = 0; i < n; i++) {
		const struct sign_process *old = process_known(s, pids[i]);
		next[i] = old ? *old : (struct sign_process){ .pid = pids[i] };
		find_gpus(s, &next[i]);
		signs_client_gpus(s, &next[i]);
	}
	signs_forget_holds(s, pids, n);
	memcpy(s->processes, next, sizeof(s->processes));
	s->n = n;
	s->changed = sum;
	s->nqueues = 0;
	s->asked = now_ms;
	if (n)
		ask_for_queues(s);
	signs_add_clients(s);
}

/** All at once: each question to the privileged reader wakes it up. */
static void signs_read_queues(struct signs *s)
{
	struct privileged_word *words = s->words;
	for (size_t i = 0; i < s->nqueues; i++) {
		const struct sign_queue *q = &s->queues[i];
		const int64_t pid = s->processes[q->process].pid;
		words[2 * i] = (struct privileged_word){ .pid = pid, .address = q->read_address };
		words[2 * i + 1] = (struct privileged_word){ .pid = pid, .address = q->write_address };
	}
	privileged_read_words(words, 2 * s->nqueues);
	for (size_t i = 0; i < s->nqueues; i++) {
		struct sign_queue *q = &s->queues[i];
		if (q->client)
			continue;
		const uint64_t read = words[2 * i].value, write = words[2 * i + 1].value;
		q->known = words[2 * i].read && words[2 * i + 1].read;
		q->moved = q->known && read != q->read;
		q->pending = q->known && write > read;
		q->read = q->known ? read : q->read;
		s->processes[q->process].launched |= q->known && write > 0;
	}
}

// === how far the flight recording of a process is ===

enum { DIRECTORIES_MOST = 64, FILES_MOST = 1024 };

bool recorded_packets(int fd, uint64_t *ret_taken, bool *ret_waits)
{
	struct rec_header h;
	struct recorded_pace p;
	if (fd < 0 || !recording_head(fd, &h) || h.state != RECORDING_ON || !recording_pace(fd, &p))
		return false;
	*ret_taken = p.taken;
	*ret_waits = p.busy;
	return true;
}

static DIR *list_recordings(const char *name)
{
	_cleanup_close_ int fd = privileged_open_shared(name, PRIVILEGED_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (d)
		take_fd(&fd);
	return d;
}

/** Whether the process was there when the recording began; its start is known in whole ticks. */
static bool began_before(const struct sign_process *p, const struct rec_header *h)
{
	enum { NS = 1000000000 };
	const uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
	return !h->start.boot_ns || h->start.boot_ns / (NS / ticks) + 1 >= p->stat.began;
}

/** Whether the recording that is open at @fd is of this process: it belongs to the same user, names the process, and began after it did. */
static bool recorded_is_of(int fd, const struct sign_process *p)
{
	uid_t owner;
	struct stat file;
	struct rec_header h;
	if (fd < 0 || fstat(fd, &file) || !process_owner(p->pid, &owner) || owner != file.st_uid || !recording_head(fd, &h))
		return false;
	// In a namespace of its own the process does not know the number that others know it by: there it is who holds the file's lock, since a
	// job that is gone, or another container's, may have left a recording, too.
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const bool own = h.pid_namespace ? !fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK && lock.l_pid == p->pid :
					   h.pid == (uint64_t)p->pid;
	return own && began_before(p, &h);
}

void recorded_find(const struct sign_process *p, char *ret, size_t size)
{
	_cleanup_dir_ DIR *top = opendir(RECORDINGS_ROOT);
	ret[0] = '\0';
	unsigned seen = 0;
	for (const struct dirent *e = top ? readdir(top) : NULL; e && seen < DIRECTORIES_MOST && !ret[0]; e = readdir(top)) {
		if (!str_starts(str_z(e->d_name), S("unhang-")))
			continue;
		seen++;
		_cleanup_dir_ DIR *d = list_recordings(e->d_name);
		unsigned files = 0;
		for (const struct dirent *f = d ? readdir(d) : NULL; f && files < FILES_MOST && !ret[0];
		     f = readdir(d), files++)
			if (recording_pid(str_z(f->d_name)) == p->pid) {
				snprintf(ret, size, "%s/%s", e->d_name, f->d_name);
				_cleanup_close_ int fd = privileged_open_shared(ret, PRIVILEGED_RECORDING);
				ret[0] = recorded_is_of(fd, p) ? ret[0] : '\0';
			}
	}
}

// === what a process says of itself, and whether it works ===

#define SHARED_MEMORY "/dev/shm/"
enum { MS = 1000, WORKS_PERCENT = 10, WORKS_BYTES = 1 << 20, FILE_ROOM = 64 << 10, SEARCH_MS = 30000, WORKS_MS = 30000 };

// --- what does not change ---

/** What stands in @text behind @head, as long as it is of these characters. */
static struct str text_behind(struct str text, struct str head, const char *characters)
{
	ptrdiff_t at = str_find(text, head);
	struct str rest = at < 0 ? (struct str){ 0 } : str_from(text, (size_t)at + head.n);
	size_t n = 0;
	while (n < rest.n && char_among(rest.p[n], characters))
		n++;
	return str_cut(rest, n);
}

bool process_job(struct str cgroup, char *ret, size_t size)
{
	enum { UID = 36 };
	struct str slurm = text_behind(cgroup, S("/job_"), "0123456789");
	struct str pod = text_behind(cgroup, S("/pod"), "0123456789abcdef-");
	pod = pod.n ? pod : text_behind(cgroup, S("-pod"), "0123456789abcdef_"); // systemd does not want a hyphen there
	ret[0] = '\0';
	if (str_find(cgroup, S("slurm")) >= 0 && slurm.n)
		snprintf(ret, size, "Slurm job " STR_FMT, STR_ARG(slurm));
	else if (str_find(cgroup, S("kubepods")) >= 0 && pod.n >= UID)
		snprintf(ret, size, "pod " STR_FMT, STR_ARG(str_cut(pod, UID)));
	for (char *c = ret; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return ret[0];
}

bool pod_find(const char *directory, struct str uid, struct text *ret)
{
	enum { ENTRIES_MOST = 4096 };
	_cleanup_dir_ DIR *d = opendir(directory);
	unsigned n = 0;
	for (struct dirent *e; d && uid.n && n < ENTRIES_MOST && (e = readdir(d)); n++) {
		struct str name = str_z(e->d_name), space = str_split(&name, '_'), pod = str_split(&name, '_');
		bool good = space.n && pod.n && str_eq(name, uid);
		for (size_t i = 0; good && i < str_z(e->d_name).n; i++) // what a name of Kubernetes may have
			good = char_word(e->d_name[i]) || e->d_name[i] == '-' || e->d_name[i] == '.';
		if (!good)
			continue;
		text_printf(ret, STR_FMT "/" STR_FMT, STR_ARG(space), STR_ARG(pod));
		return true;
	}
	return false;
}

/** A pod is known by its UID alone, once kubelet has removed it: its name is asked for while it runs. */
static void name_pod(struct sign_process *p)
{
	_cleanup_text_ struct text name = { 0 };
	struct str uid;
	char room[sizeof(p->job)];
	if (!str_behind(str_z(p->job), S("pod "), &uid) || !pod_find("/var/log/pods", uid, &name))
		return;
	snprintf(room, sizeof(room), "pod " STR_FMT " (" STR_FMT ")", STR_ARG(text_str(&name)), STR_ARG(uid));
	str_copy(p->job, sizeof(p->job), str_z(room));
}

/** Its rank, and where its heartbeat is. The path is a stranger's: only what lies in the memory of this machine is looked at, since a file
 * elsewhere may be on a server that does not answer. */
static void read_environment(struct sign_process *p)
{
	static const char *const ranks[] = { RANK_VARIABLES };
	char name[32];
	_cleanup_free_ char *room = mem_alloc(FILE_ROOM);
	struct str all = privileged_process_file(p->pid, "environ", room, FILE_ROOM), value;
	int64_t number;
	for (size_t i = 0; i < ARRAY_SIZE(ranks) && !p->rank[0]; i++) {
		snprintf(name, sizeof(name), "%s=", ranks[i]);
		if (environ_value(all, str_z(name), &value) && str_number(value, &number) && number >= 0)
			snprintf(p->rank, sizeof(p->rank), "%lld", (long long)number);
	}
	if (environ_value(all, S("UNHANG_HEARTBEAT="), &value) && str_starts(value, S(SHARED_MEMORY)))
		str_copy(p->heartbeat, sizeof(p->heartbeat), str_from(value, sizeof(SHARED_MEMORY) - 1));
	if (environ_value(all, S("SLURM_JOB_ID="), &value) && str_number(value, &number) && number > 0)
		snprintf(p->job, sizeof(p->job), "Slurm job %lld", (long long)number);
	else
		process_job(privileged_process_file(p->pid, "cgroup", room, FILE_ROOM), p->job, sizeof(p->job));
	name_pod(p);
}

// --- what does ---

/** What keeps it from running: a signal, a debugger, or its cgroup. */
static const char *stopped_by(const struct sign_process *p)
{
	char room[4096], path[4200];
	if (p->stat.state == 'T')
		return "a signal (SIGSTOP, or Slurm's suspend)";
	if (p->stat.state == 't')
		return "a debugger";
	struct str all = privileged_process_file(p->pid, "cgroup", room, sizeof(room));
	while (all.n) {
		struct str line = str_split(&all, '\n');
		if (!str_starts(line, S("0::/")) || str_find(line, S("..")) >= 0)
			continue;
		snprintf(path, sizeof(path), "/sys/fs/cgroup" STR_FMT "/cgroup.events", STR_ARG(str_from(line, 3)));
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, room, sizeof(room));
		return n > 0 && str_find((struct str){ room, (size_t)n }, S("frozen 1")) >= 0 ? "the cgroup freezer" : NULL;
	}
	return NULL;
}

static uint64_t io_of(int64_t pid)
{
	char room[512];
	uint64_t sum = 0;
	int64_t n;
	for (struct str all = privileged_process_file(pid, "io", room, sizeof(room)); all.n;) {
		struct str line = str_split(&all, '\n'), key = str_word(&line);
		if ((str_is(key, "rchar:") || str_is(key, "wchar:")) && str_number(str_word(&line), &n) && n > 0)
			sum += (uint64_t)n;
	}
	return sum;
}

static enum vote heartbeat(const struct signs *s, const struct sign_process *p)
{
	struct stat st;
	_cleanup_close_ int fd = p->heartbeat[0] ? privileged_open_shared(p->heartbeat, PRIVILEGED_STATUS) : -1;
	int64_t within = 0;
	for (size_t i = 0; i < s->know->votes.len; i++)
		within = s->know->votes.data[i]->within ? s->know->votes.data[i]->within : within;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return VOTE_UNKNOWN;
	return (int64_t)time(NULL) - (int64_t)st.st_mtime < within ? VOTE_MOVED : VOTE_STOOD;
}

/** So long such a call may last: memory of the host is cleared before it is handed out. */
static int64_t call_may_last(const struct recorded_call *c)
{
	enum { LASTS_MS = 2000, BYTES_PER_MS = 256 << 10 };
	return LASTS_MS + (int64_t)(c->a[1] / BYTES_PER_MS);
}

static void see_call(struct sign_process *p, int fd)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct rec_header h;
	struct recorded_call c;
	p->call[0] = '\0';
	if (recording_head(fd, &h) && h.state == RECORDING_ON && recording_call(fd, &h, &c) && c.age_ms >= call_may_last(&c))
		str_copy(p->call, sizeof(p->call),
			 arena_printf(&a, STR_FMT "%s", STR_ARG(call_say(&a, c.call, c.a)),
				      c.call == CALL_POOL_ALLOCATE ? " (hipMalloc or the like)" : ""));
}

static enum vote recording(struct signs *s, struct sign_process *p)
{
	p->call[0] = '\0';
	uint64_t taken;
	bool waits;
	_cleanup_close_ int fd = p->recording[0] ? privileged_open_shared(p->recording, PRIVILEGED_RECORDING) : -1;
	if (!recorded_is_of(fd, p)) {
		p->recording[0] = '\0'; // it was replaced; the next search may find the right one
		return VOTE_UNKNOWN;
	}
	signs_see_hold(s, p, fd);
	see_call(p, fd);
	if (!recorded_packets(fd, &taken, &waits))
		return VOTE_UNKNOWN;
	bool moved = taken != p->recorded;
	p->recorded = taken;
	return moved ? VOTE_MOVED : waits ? VOTE_STOOD : VOTE_UNKNOWN;
}

/** A program that computes, reads or writes does so with pauses, and on a busy machine it has to wait for its turn. */
static void see_work(struct sign_process *p, const struct process_stat *now, uint64_t io, int64_t now_ms, int64_t before_ms)
{
	int64_t ms = now_ms > before_ms ? now_ms - before_ms : 1;
	uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK) * (uint64_t)ms / MS;
	bool again = p->stat.began == now->began && p->stat.began;
	if (!again || (now->cpu - p->stat.cpu) * 100 >= ticks * WORKS_PERCENT || io - p->io >= WORKS_BYTES)
		p->worked = now_ms;
	p->works = now_ms - p->worked < WORKS_MS;
}

int64_t signs_launcher(int64_t parent)
{
	char room[1024];
	struct process_stat stat;
	const bool known = process_stat_parse(privileged_process_file(parent, "stat", room, sizeof(room)), &stat);
	return known && !strcmp(stat.name, "unhang") ? stat.parent : parent;
}

static void take_process(struct signs *s, struct sign_process *p, int64_t now_ms)
{
	char room[1024];
	struct process_stat now;
	if (!process_stat_parse(privileged_process_file(p->pid, "stat", room, sizeof(room)), &now))
		return;
	uint64_t io = io_of(p->pid);
	see_work(p, &now, io, now_ms, s->taken);
	p->io = io;
	if (!p->launcher || p->stat.began != now.began || p->stat.parent != now.parent) // its parent may be gone by now
		p->launcher = signs_launcher(now.parent);
	p->stat = now;
	if (!process_owner(p->pid, &p->uid))
		p->uid = (uid_t)-1;
	p->stopped = stopped_by(p);
	p->beats = heartbeat(s, p);
	p->recordings = recording(s, p);
}

void signs_begin(struct signs *s, const struct know *k, const struct devices *d)
{
	*s = (struct signs){ .know = k, .devices = d, .inotify = -1, .told = -1 };
}

bool signs_take(struct signs *s, int64_t now_ms)
{
	signs_see_clients(s, now_ms);
	signs_find(s, now_ms);
	for (size_t i = 0; i < s->n; i++) {
		struct sign_process *p = &s->processes[i];
		if (!p->seen) {
			p->seen = true;
			p->first = now_ms;
			read_environment(p);
		}
		take_process(s, p, now_ms);
		if (!p->recording[0] && now_ms >= p->search) {
			// A program makes its recording a moment after it opened the GPU, or never.
			const int64_t age = now_ms - p->first;
			p->search = now_ms + (age < MS ? MS : age < SEARCH_MS ? age : SEARCH_MS);
			recorded_find(p, p->recording, sizeof(p->recording));
		}
	}
	signs_read_queues(s);
	signs_read_clients(s);
	s->taken = now_ms;
	return s->n;
}
