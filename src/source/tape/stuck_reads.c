// Which files may never answer, who waits for them already, and one child at a time that asks them.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/lock.h"
#include "base/save.h"
#include "source/probe_stuck.h"
#include "source/process.h"
#include "source/tape/stuck_reads.h"

#define DEBUGFS "/sys/kernel/debug/dri/"
#define RENDER "/dev/dri/renderD"
struct stuck_read {
	int pid;
	char path[512];
};

enum { NOTE_MOST = 1024, KEY_MOST = STUCK_READS_KEY_MOST, FIRST_RENDER = 128 };

/** Whether the kernel panics if a task sleeps for long, and nobody said that it does not matter. */
static bool stuck_reads_panics(void)
{
	char room[16];
	const char *allowed = getenv(STUCK_READS_MAY_BLOCK);
	return !(allowed && !strcmp(allowed, "1")) &&
	       str_is(str_trim(small_file("/proc/sys/kernel/hung_task_panic", room, sizeof(room))), "1");
}

/** How a path leads to a GPU: not at all; to what says which directory is whose; to a text that the driver has in memory, and that should answer
 * always; further down; by the render node. Of each one child may be left behind. */
enum stuck_reads_way { STUCK_READS_NONE, STUCK_READS_NAME, STUCK_READS_TEXT, STUCK_READS_DEEP, STUCK_READS_RENDER };

static enum stuck_reads_way stuck_reads_way(struct str path)
{
	if (str_starts(path, S(RENDER)))
		return STUCK_READS_RENDER;
	if (str_starts(path, S("/sys/kernel/debug/kfd/")))
		return STUCK_READS_DEEP;
	if (!str_starts(path, S(DEBUGFS)))
		return STUCK_READS_NONE;
	struct str name = str_from(path, sizeof(DEBUGFS) - 1);
	str_split(&name, '/');
	// The handlers of these only print what the driver has in memory.
	const bool harmless = str_among(name, STR_EQUALS, "amdgpu_gca_config|amdgpu_firmware_info|amdgpu_gfxoff").n;
	return !name.n || str_is(name, "name") ? STUCK_READS_NAME : harmless ? STUCK_READS_TEXT : STUCK_READS_DEEP;
}

// --- which GPU ---

/** The PCI address that a node of a GPU leads to: .../0000:03:00.0/drm/card0. */
static bool pci_of_node(const char *node, char ret[static KEY_MOST])
{
	char path[96], target[512];
	snprintf(path, sizeof(path), "/sys/class/drm/%.32s", node);
	ssize_t n = readlink(path, target, sizeof(target));
	struct str link = { target, n > 0 ? (size_t)n : 0 };
	ptrdiff_t at = str_find(link, S("/drm/"));
	struct str pci = at < 0 ? (struct str){ 0 } : str_base(str_cut(link, (size_t)at));
	str_copy(ret, KEY_MOST, pci);
	return pci.n && pci.p[0] != '.';
}

/** What all files of a GPU share: its PCI address; else the directory, or the file. */
static void stuck_reads_gpu_of(struct str path, char ret[static KEY_MOST])
{
	char node[40];
	int64_t minor;
	struct str rest = path;
	if (str_starts(path, S(RENDER))) {
		str_copy(node, sizeof(node), str_from(path, sizeof("/dev/dri/") - 1));
	} else if (str_starts(path, S(DEBUGFS))) {
		rest = str_from(path, sizeof(DEBUGFS) - 1);
		rest = str_split(&rest, '/');
		if (!str_number(rest, &minor)) { // newer kernels name it by its address
			str_copy(ret, KEY_MOST, rest);
			return;
		}
		snprintf(node, sizeof(node), minor < FIRST_RENDER ? "card%lld" : "renderD%lld", (long long)minor);
	} else {
		str_copy(ret, KEY_MOST, S("kfd"));
		return;
	}
	if (!pci_of_node(node, ret))
		str_copy(ret, KEY_MOST, str_z(node));
}

/** What all files share that are asked by one child at a time: the GPU and the way. */
static void stuck_reads_key(struct str path, char ret[static KEY_MOST])
{
	static const char *const ends[] = { [STUCK_READS_NONE] = "",
					    [STUCK_READS_NAME] = "-name",
					    [STUCK_READS_TEXT] = "-text",
					    [STUCK_READS_DEEP] = "",
					    [STUCK_READS_RENDER] = "-render" };
	char gpu[KEY_MOST];
	stuck_reads_gpu_of(path, gpu);
	snprintf(ret, KEY_MOST, "%.50s%s", gpu, ends[stuck_reads_way(path)]);
}

// --- the notes ---

/** A child of another container has a number that means nothing here. */
static uint64_t stuck_reads_here(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

/** When a process began, in ticks; 0: there is none. */
static uint64_t began(int pid, char *ret_state)
{
	char room[1024];
	struct process_stat p;
	if (!process_stat_parse(process_file(pid, "stat", room, sizeof(room)), &p))
		return 0;
	*ret_state = p.state;
	return p.began;
}

/** The process of a note, where it is still the same; its state. */
static bool stuck_reads_of_note(struct str note, struct stuck_read *ret, char *ret_state)
{
	int64_t pid, since, space;
	if (!str_number(str_word(&note), &pid) || !str_number(str_word(&note), &since) ||
	    !str_number(str_word(&note), &space) || pid <= 0 || pid > INT32_MAX || (uint64_t)space != stuck_reads_here())
		return false;
	ret->pid = (int)pid;
	str_copy(ret->path, sizeof(ret->path), str_trim(note));
	*ret_state = '?';
	if (began((int)pid, ret_state) != (uint64_t)since)
		*ret_state = 0;
	return true;
}

/** The note about who asks a file. */
static bool stuck_reads_note(int pid, struct str path, struct text *ret)
{
	char state = '?';
	uint64_t since = began(pid, &state);
	text_printf(ret, "%d %llu %llu " STR_FMT "\n", pid, (unsigned long long)since, (unsigned long long)stuck_reads_here(),
		    STR_ARG(str_cut(path, 500)));
	return since;
}

/** The child that waits for a file of these. A note about one that has gone is removed. */
static bool noted(const char *key, struct stuck_read *ret)
{
	char file[sizeof(STUCK_READS_DIRECTORY) + KEY_MOST], room[NOTE_MOST], state;
	struct stat st;
	snprintf(file, sizeof(file), STUCK_READS_DIRECTORY "/%s", key);
	if (strchr(key, '/') || stat(STUCK_READS_DIRECTORY, &st) || st.st_uid != 0 || st.st_mode & 022)
		return false;
	if (!stuck_reads_of_note(small_file(file, room, sizeof(room)), ret, &state))
		return false;
	if (state != 'D')
		unlink(file);
	return state == 'D';
}

/** The child because of which @path is not asked. Where a text does not answer, what lies behind it will not. */
static bool stuck_reads_of(struct str path, struct stuck_read *ret)
{
	char key[KEY_MOST], text[KEY_MOST];
	if (!stuck_reads_way(path))
		return false;
	stuck_reads_key(path, key);
	snprintf(text, sizeof(text), "%.50s-text", key);
	return noted(key, ret) || (stuck_reads_way(path) == STUCK_READS_DEEP && noted(text, ret));
}

void stuck_reads_note_child(int pid, struct str path)
{
	char key[KEY_MOST], file[sizeof(STUCK_READS_DIRECTORY) + KEY_MOST];
	_cleanup_text_ struct text note = { 0 };
	stuck_reads_key(path, key);
	if (stuck_reads_note(pid, path, &note) && geteuid() == 0 && stuck_reads_way(path) && !strchr(key, '/')) {
		mkdir("/run/unhang", 0755);
		mkdir(STUCK_READS_DIRECTORY, 0755);
		snprintf(file, sizeof(file), STUCK_READS_DIRECTORY "/%s", key);
		uh_error_free(save_file(AT_FDCWD, file, text_str(&note), 0644)); // without it the next look waits once more
	}
}

void stuck_reads_mark(struct probe_batch *b)
{
	bool panics = !b->root && stuck_reads_panics(), any = false;
	for (size_t i = 0; i < b->n && !b->root; i++) {
		struct probe *p = &b->probes[i];
		struct stuck_read t;
		const struct str path = str_z(p->path);
		const enum stuck_reads_way way = stuck_reads_way(path);
		// The word about GFXOFF is in memory, but who reads it wakes the device up.
		const bool blocks = way > STUCK_READS_TEXT || (way == STUCK_READS_TEXT && str_ends(path, S("/amdgpu_gfxoff")));
		p->buried = i && p->path == p[-1].path ? p[-1].buried : (panics && blocks) || stuck_reads_of(path, &t);
		p->buried |= any && !b->goes_on;
		any |= p->buried;
	}
}

void stuck_reads_tell(struct arena *a, struct probe_batch *b)
{
	bool told = false;
	for (size_t i = 0; i < b->n; i++) {
		struct probe *p = &b->probes[i];
		struct stuck_read t;
		if (!p->buried)
			continue;
		p->buried = false;
		bool stuck = told || stuck_reads_of(str_z(p->path), &t);
		p->end = !stuck ? PROBE_FAILED : told && !b->goes_on ? PROBE_NOT_MADE : PROBE_STUCK;
		p->error = stuck ? 0 : ECANCELED; // it was not asked, since the kernel would panic
		if (stuck && !told)
			probe_where_stuck(a, t.pid, p->path, &b->stuck);
		told |= stuck;
	}
}

// === One child at a time asks the files of a GPU that may block (stuck_reads.h). ===

enum { NAP_US = 3000, TIMES = 20 };

/** -1: there is none, and everybody reads as he likes: who is not root leaves no child behind in debugfs. */
static int open_lock(const char *key)
{
	struct stat st;
	if (geteuid() != 0 || strchr(key, '/'))
		return -1;
	mkdir("/run/unhang", 0755);
	mkdir(STUCK_READS_READING, 0755);
	_cleanup_close_ int dir = open(STUCK_READS_READING, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) || st.st_uid != 0 || st.st_mode & 022)
		return -1;
	return lock_open(dir, key);
}

static bool tape_hold_holder_of(int fd, struct stuck_read *ret)
{
	char room[NOTE_MOST], state;
	ssize_t n = pread(fd, room, sizeof(room), 0);
	return n > 0 && stuck_reads_of_note((struct str){ room, (size_t)n }, ret, &state) && state;
}

/** How often a process was woken up: one that waits for a file that does not answer is not. */
static uint64_t wakes(int pid)
{
	char room[4096];
	struct str text = process_file(pid, "status", room, sizeof(room));
	uint64_t sum = 0;
	int64_t number;
	while (text.n) {
		struct str line = str_split(&text, '\n');
		if (str_find(line, S("voluntary_ctxt_switches:")) >= 0 &&
		    str_number(str_trim(str_from(line, (size_t)str_find(line, S(":")) + 1)), &number))
			sum += (uint64_t)number;
	}
	return sum;
}

/** Waits for the lock. false: who has it stands still for longer than an operation may take. */
static bool tape_hold_wait_for(const struct stuck_reads_hold *h, int fd)
{
	struct stuck_read other;
	uint64_t last = 0;
	const int64_t began = now_ms();
	int64_t moved = began;
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		const int64_t now = now_ms();
		if (errno != EWOULDBLOCK && errno != EINTR)
			return true; // it cannot be locked at all
		uint64_t sum = tape_hold_holder_of(fd, &other) ? wakes(other.pid) : last;
		moved = sum != last ? now : moved;
		last = sum;
		if (now - moved > h->milliseconds || now - began > (int64_t)TIMES * h->milliseconds)
			return false;
		h->waits(h->ctx);
		usleep(NAP_US);
	}
	return true;
}

bool stuck_reads_take(struct stuck_reads_hold *h, struct str path)
{
	char key[STUCK_READS_KEY_MOST] = "";
	if (stuck_reads_way(path))
		stuck_reads_key(path, key);
	if (strcmp(key, h->key) != 0)
		cleanup_close(&h->fd);
	if (!*key)
		return true;
	if (h->fd < 0) {
		_cleanup_close_ int fd = open_lock(key);
		if (fd >= 0 && !tape_hold_wait_for(h, fd))
			return false;
		h->fd = take_fd(&fd);
		str_copy(h->key, sizeof(h->key), str_z(key));
	}
	_cleanup_text_ struct text note = { 0 };
	if (h->fd >= 0 && stuck_reads_note((int)getpid(), path, &note) && !ftruncate(h->fd, 0))
		(void)!pwrite(h->fd, note.p, note.n, 0);
	return true;
}

void stuck_reads_adopt(struct str path)
{
	char key[STUCK_READS_KEY_MOST];
	struct stuck_read other;
	stuck_reads_key(path, key);
	_cleanup_close_ int fd = open_lock(key);
	if (fd >= 0 && tape_hold_holder_of(fd, &other))
		stuck_reads_note_child(other.pid, str_z(other.path));
}
