#include "watch/pulse.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "gpu/find/device.h"
#include "watch/eye.h"

#define KFD_PROCESSES "/sys/class/kfd/kfd/proc"
enum { BUSY_LEAST = 50, INTERRUPTS_ROOM = 256 << 10, AGAIN_S = 60, AGAIN_MOST_S = 600, NOBODY_S = 2 };

/** Of a GPU. */
struct beat {
	char busy_path[256], awake_path[256];
	int64_t interrupts;
	int64_t since;       // when it last moved
	int64_t told, again; // when that was told, and the pause behind it; 0: not yet
};

static bool counts(struct str irqs, struct str number)
{
	while (irqs.n)
		if (str_eq(str_trim(str_split(&irqs, '\n')), number))
			return true;
	return false;
}

int64_t pulse_interrupts(struct str text, struct str irqs)
{
	int64_t sum = -1, n;
	while (text.n) {
		struct str line = str_split(&text, '\n'), number = str_word(&line);
		if (!number.n || number.p[number.n - 1] != ':' || !counts(irqs, str_cut(number, number.n - 1)))
			continue;
		sum = sum < 0 ? 0 : sum;
		for (struct str word = str_word(&line); word.n && str_number(word, &n) && n >= 0 && n <= INT64_MAX - sum;
		     word = str_word(&line))
			sum += n;
	}
	return sum;
}

static struct str read_small(const char *path, char *room, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t more;
	while (fd >= 0 && n < size && (more = read(fd, room + n, size - n)) > 0)
		n += (size_t)more;
	return (struct str){ room, n };
}

/** Whether a program computes. Without one nothing of the driver is read: that would keep a GPU awake. */
static bool somebody_computes(void)
{
	DIR *d = opendir(KFD_PROCESSES);
	bool found = false;
	for (struct dirent *e = d ? readdir(d) : NULL; e && !found; e = readdir(d))
		found = char_digit(e->d_name[0]);
	if (d)
		closedir(d);
	return found;
}

static bool is_busy(const struct beat *b)
{
	char room[32];
	int64_t busy;
	if (!str_is(str_trim(read_small(b->awake_path, room, sizeof(room))), "active"))
		return false;
	return str_number(str_trim(read_small(b->busy_path, room, sizeof(room))), &busy) && busy >= BUSY_LEAST;
}

static void vote(int to, const struct device *d, struct beat *b, struct str interrupts, int64_t stood_s)
{
	int64_t now = now_ms() / 1000, count = pulse_interrupts(interrupts, d->irqs);
	if (count < 0 || count != b->interrupts || !is_busy(b)) {
		b->interrupts = count;
		b->since = now;
		b->told = b->again = 0;
		return;
	}
	if (now - b->since < stood_s || (b->told && now - b->told < b->again))
		return;
	b->again = !b->told ? AGAIN_S : b->again * 2 < AGAIN_MOST_S ? b->again * 2 : AGAIN_MOST_S;
	b->told = now;
	eye_send(to, EYE_STOOD, d->pci);
}

static void watch(int to, const void *ctx)
{
	const struct pulse_options *o = ctx;
	struct devices devices;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "unhang-pulse");
	signal(SIGHUP, SIG_IGN);
	child_keep_only(to);
	door_leave();
	devices_find(o->know, &devices);
	struct beat *beats = mem_alloc((devices.n ? devices.n : 1) * sizeof(*beats));
	char *room = mem_alloc(INTERRUPTS_ROOM);
	for (size_t i = 0; i < devices.n; i++) {
		snprintf(beats[i].busy_path, sizeof(beats[i].busy_path), STR_FMT "/gpu_busy_percent",
			 STR_ARG(devices.list[i].sysfs));
		snprintf(beats[i].awake_path, sizeof(beats[i].awake_path), STR_FMT "/power/runtime_status",
			 STR_ARG(devices.list[i].sysfs));
		beats[i].since = now_ms() / 1000;
	}
	door_end();
	for (;;) {
		bool works = somebody_computes();
		struct str interrupts = works ? read_small("/proc/interrupts", room, INTERRUPTS_ROOM) : (struct str){ 0 };
		for (size_t i = 0; i < devices.n; i++)
			vote(to, &devices.list[i], &beats[i], interrupts, o->stood_s);
		nanosleep(&(struct timespec){ .tv_sec = works ? 1 : NOBODY_S }, NULL);
	}
}

bool pulse_begin(const struct pulse_options *o, struct child *ret) { return child_begin_free(watch, o, ret); }
