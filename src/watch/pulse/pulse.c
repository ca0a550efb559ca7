#include "watch/pulse/pulse.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "source/clerk/clerk.h"
#include "watch/eye.h"

enum { INTERRUPTS_ROOM = 256 << 10, BEAT_MS = 1000, NOBODY_MS = 2000, TEXT_ROOM = 512 };

/** Files of a GPU. */
struct pulse_paths {
	char busy[256], awake[256], power[2][320];
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

static int64_t read_number(const char *path)
{
	char room[32];
	int64_t n;
	return str_number(str_trim(small_file(path, room, sizeof(room))), &n) ? n : -1;
}

/** The name of its sensors, hwmonN, is not the same at each start. */
static void find_power(struct str sysfs, struct pulse_paths *p)
{
	char path[256];
	snprintf(path, sizeof(path), STR_FMT "/hwmon", STR_ARG(sysfs));
	DIR *d = opendir(path);
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(p->power[0], sizeof(p->power[0]), "%s/%.30s/power1_average", path, e->d_name);
		snprintf(p->power[1], sizeof(p->power[1]), "%s/%.30s/power1_input", path, e->d_name);
	}
	if (d)
		closedir(d);
}

static void find_paths(const struct device *d, struct pulse_paths *p)
{
	*p = (struct pulse_paths){ 0 };
	snprintf(p->busy, sizeof(p->busy), STR_FMT "/gpu_busy_percent", STR_ARG(d->sysfs));
	snprintf(p->awake, sizeof(p->awake), STR_FMT "/power/runtime_status", STR_ARG(d->sysfs));
	find_power(d->sysfs, p);
}

/** Of a GPU that sleeps nothing is read that would wake it up. */
static void read_gpu(const struct pulse_paths *p, struct pulse_gpu *g)
{
	enum { WATT = 1000000 };
	char room[32];
	bool awake = str_is(str_trim(small_file(p->awake, room, sizeof(room))), "active");
	g->busy = awake ? read_number(p->busy) : -1;
	int64_t power = awake && p->power[0][0] ? read_number(p->power[0]) : -1;
	power = power < 0 && awake && p->power[1][0] ? read_number(p->power[1]) : power;
	g->power = power < 0 ? -1 : power / WATT;
}

static void watch(int to, const void *ctx)
{
	const struct know *k = ctx;
	struct devices devices;
	prctl(PR_SET_NAME, "unhang-pulse");
	signal(SIGHUP, SIG_IGN);
	child_keep_only(to);
	door_leave();
	if (!clerk_begin(LOWER_NOGROUP)) // it takes apart what programs wrote
		return;
	devices_find(k, &devices);
	size_t n = devices.n < SIGNS_GPUS ? devices.n : SIGNS_GPUS;
	struct pulse_paths *paths = mem_alloc((n + 1) * sizeof(*paths));
	struct pulse_gpu *gpus = mem_alloc((n + 1) * sizeof(*gpus));
	struct text *sent = mem_alloc((n + 1) * sizeof(*sent)), text = { 0 };
	struct signs *signs = mem_alloc(sizeof(*signs));
	char *room = mem_alloc(INTERRUPTS_ROOM);
	signs_begin(signs, k, &devices);
	signs->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	signs->told = to;
	for (size_t i = 0; i < n; i++) {
		find_paths(&devices.list[i], &paths[i]);
		gpus[i].interrupts = -1;
	}
	door_end();
	for (int64_t told = -PULSE_BEAT_MS;;) {
		bool works = signs_take(signs, now_ms());
		if (now_ms() - told >= PULSE_BEAT_MS) {
			eye_send(to, EYE_BEAT, (struct str){ 0 });
			told = now_ms();
		}
		struct str interrupts = works ? small_file("/proc/interrupts", room, INTERRUPTS_ROOM) : (struct str){ 0 };
		for (size_t i = 0; i < n; i++) {
			gpus[i].busy = gpus[i].power = -1;
			if (works)
				read_gpu(&paths[i], &gpus[i]);
			pulse_vote(&gpus[i], signs, i, pulse_interrupts(interrupts, devices.list[i].irqs));
		}
		for (size_t i = 0; i < n; i++) {
			text_clear(&text);
			pulse_text(gpus, signs, i, now_ms(), &text);
			if (!gpus[i].stands && str_eq(text_str(&text), text_str(&sent[i])))
				continue;
			eye_send(to, EYE_VOTES, text_str(&text));
			text_clear(&sent[i]);
			text_add(&sent[i], text_str(&text));
		}
		signs_wait(signs, works ? BEAT_MS : NOBODY_MS);
	}
}

bool pulse_begin(const struct know *k, struct child *ret) { return child_begin_free(watch, k, ret); }
