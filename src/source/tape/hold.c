// One child at a time asks the files of a GPU that may block (tomb.h).
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/lock.h"
#include "source/process.h"
#include "source/tape/tomb.h"

enum { NOTE_MOST = 1024, NAP_US = 3000, TIMES = 20 };

/** -1: there is none, and everybody reads as he likes: who is not root leaves no child behind in debugfs. */
static int open_lock(const char *key)
{
	struct stat st;
	if (geteuid() != 0 || strchr(key, '/'))
		return -1;
	mkdir("/run/unhang", 0755);
	mkdir(TOMB_READING, 0755);
	_cleanup_close_ int dir = open(TOMB_READING, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) || st.st_uid != 0 || st.st_mode & 022)
		return -1;
	return lock_open(dir, key);
}

static bool holder_of(int fd, struct tomb *ret)
{
	char room[NOTE_MOST], state;
	ssize_t n = pread(fd, room, sizeof(room), 0);
	return n > 0 && tomb_of_note((struct str){ room, (size_t)n }, ret, &state) && state;
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
static bool wait_for(const struct tomb_hold *h, int fd)
{
	struct tomb other;
	uint64_t last = 0;
	const int64_t began = now_ms();
	int64_t moved = began;
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		const int64_t now = now_ms();
		if (errno != EWOULDBLOCK && errno != EINTR)
			return true; // it cannot be locked at all
		uint64_t sum = holder_of(fd, &other) ? wakes(other.pid) : last;
		moved = sum != last ? now : moved;
		last = sum;
		if (now - moved > h->milliseconds || now - began > (int64_t)TIMES * h->milliseconds)
			return false;
		h->waits(h->ctx);
		usleep(NAP_US);
	}
	return true;
}

static void sign(int fd, struct str path)
{
	struct text note = { 0 };
	if (tomb_note((int)getpid(), path, &note) && !ftruncate(fd, 0))
		(void)!pwrite(fd, note.p, note.n, 0);
	text_free(&note);
}

bool tomb_take(struct tomb_hold *h, struct str path)
{
	char key[TOMB_KEY_MOST] = "";
	if (tomb_way(path))
		tomb_key(path, key);
	if (h->fd >= 0 && strcmp(key, h->key) != 0) {
		close(h->fd);
		h->fd = -1;
	}
	if (!*key)
		return true;
	if (h->fd < 0) {
		int fd = open_lock(key);
		if (fd >= 0 && !wait_for(h, fd)) {
			close(fd);
			return false;
		}
		h->fd = fd;
		str_copy(h->key, sizeof(h->key), str_z(key));
	}
	if (h->fd >= 0)
		sign(h->fd, path);
	return true;
}

void tomb_adopt(struct str path)
{
	char key[TOMB_KEY_MOST];
	struct tomb other;
	tomb_key(path, key);
	_cleanup_close_ int fd = open_lock(key);
	if (fd >= 0 && holder_of(fd, &other))
		tomb_bury(other.pid, str_z(other.path));
}
