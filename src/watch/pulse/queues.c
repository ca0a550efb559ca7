// Which processes compute and which queues they have; how far each queue is.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "gpu/process/target.h"
#include "watch/pulse/signs.h"

#define KFD_PROCESSES "/sys/class/kfd/kfd/proc"
enum { ASK_MS = 5000 }; // between two questions for the addresses of queues: each takes the mutex of every process in turn

static void cleanup_directory(DIR **d)
{
	if (*d)
		closedir(*d);
}

/** The number that a name is; -1: it is none. */
static int64_t number_of(const char *name)
{
	int64_t n;
	return str_number(str_z(name), &n) && n >= 0 ? n : -1;
}

static uint64_t mix(uint64_t h, uint64_t n) { return (h ^ n) * 0x100000001b3; }

/** The names of its queues, added up. */
static uint64_t queue_names(int64_t pid)
{
	char path[96];
	uint64_t sum = 0;
	snprintf(path, sizeof(path), KFD_PROCESSES "/%lld/queues", (long long)pid);
	__attribute__((cleanup(cleanup_directory))) DIR *d = opendir(path);
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		if (char_digit(e->d_name[0]))
			sum += mix(1, (uint64_t)number_of(e->d_name));
	return sum;
}

static size_t list_pids(int64_t *ret, size_t most)
{
	__attribute__((cleanup(cleanup_directory))) DIR *d = opendir(KFD_PROCESSES);
	size_t n = 0;
	for (const struct dirent *e = d ? readdir(d) : NULL; e && n < most; e = readdir(d))
		if (char_digit(e->d_name[0]) && number_of(e->d_name) > 0)
			ret[n++] = number_of(e->d_name);
	return n;
}

static size_t gpu_of(const struct devices *d, int64_t gpu_id)
{
	unsigned partition;
	const struct device *found = devices_with_gpu_id(d, gpu_id, &partition);
	return found ? (size_t)(found - d->list) : d->n;
}

static int64_t read_number(const char *path)
{
	char room[32];
	int64_t n;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, room, sizeof(room));
	return got > 0 && str_number(str_trim((struct str){ room, (size_t)got }), &n) ? n : -1;
}

/** The GPUs that it has queues or memory on. */
static void find_gpus(struct signs *s, struct sign_process *p)
{
	char path[160];
	snprintf(path, sizeof(path), KFD_PROCESSES "/%lld/queues", (long long)p->pid);
	__attribute__((cleanup(cleanup_directory))) DIR *d = opendir(path);
	p->gpus = 0;
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		if (!char_digit(e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), KFD_PROCESSES "/%lld/queues/%.20s/gpuid", (long long)p->pid, e->d_name);
		size_t gpu = gpu_of(s->devices, read_number(path));
		p->gpus |= gpu < s->devices->n && gpu < SIGNS_GPUS ? UINT64_C(1) << gpu : 0;
		p->unknown_queues = true; // until their indexes were read
	}
	for (size_t i = 0; i < s->devices->n && i < SIGNS_GPUS; i++) {
		snprintf(path, sizeof(path), KFD_PROCESSES "/%lld/vram_%lld", (long long)p->pid,
			 (long long)s->devices->list[i].gpu_id);
		p->gpus |= read_number(path) > 0 ? UINT64_C(1) << i : 0;
	}
}

static void take_queue(struct signs *s, size_t process, const struct queue *q)
{
	size_t gpu = q->agent ? gpu_of(s->devices, q->agent->gpu_id) : s->devices->n;
	if (!q->indexes_known || q->type != QUEUE_AQL || gpu >= s->devices->n || s->nqueues == SIGNS_QUEUES)
		return;
	s->queues[s->nqueues++] = (struct sign_queue){ .process = process,
						       .gpu = gpu,
						       .read_address = q->read_address,
						       .write_address = q->write_address,
						       .read = q->read_index };
}

/** Asks the driver where the indexes of all queues are. */
static void ask(struct signs *s)
{
	struct kfd kfd;
	s->nqueues = 0;
	kfd_look(s->devices, &kfd);
	for (size_t i = 0; i < s->n; i++) {
		struct target *t = NULL;
		struct request r = { .kind = REQUEST_QUEUES };
		struct uh_error *err = target_process_of(s->know, s->devices, &kfd, s->processes[i].pid, &t);
		size_t before = s->nqueues, n = !err && target_ask(t, &r) == ANSWER_GIVEN ? r.n : 0;
		for (size_t q = 0; q < n; q++)
			take_queue(s, i, &r.queues[q]);
		s->processes[i].unknown_queues &= !n || s->nqueues - before != n;
		if (!err)
			target_close(t);
		uh_error_free(err);
	}
	kfd_free(&kfd);
	door_end();
}

static const struct sign_process *known(const struct signs *s, int64_t pid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

/** Nobody need hear of the recordings of processes that ended. */
static void forget_gone(const struct signs *s, const int64_t *pids, size_t n)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct sign_process *p = &s->processes[i];
		size_t k = 0;
		while (k < n && pids[k] != p->pid)
			k++;
		if (k == n && p->hold.followed)
			inotify_rm_watch(s->inotify, p->hold.followed);
	}
}

void signs_find(struct signs *s, int64_t now_ms)
{
	int64_t pids[SIGNS_PROCESSES];
	size_t n = list_pids(pids, SIGNS_PROCESSES);
	uint64_t sum = n;
	for (size_t i = 0; i < n; i++)
		sum += mix((uint64_t)pids[i], queue_names(pids[i]));
	if (sum == s->changed || (s->asked && now_ms - s->asked < ASK_MS && n))
		return;
	struct sign_process *next = mem_alloc(sizeof(s->processes));
	for (size_t i = 0; i < n; i++) {
		const struct sign_process *old = known(s, pids[i]);
		next[i] = old ? *old : (struct sign_process){ .pid = pids[i] };
		find_gpus(s, &next[i]);
	}
	forget_gone(s, pids, n);
	memcpy(s->processes, next, sizeof(s->processes));
	free(next);
	s->n = n;
	s->changed = sum;
	s->nqueues = 0;
	s->asked = now_ms;
	if (n)
		ask(s);
}

/** All at once: each question to the clerk wakes it up. */
void signs_read_queues(struct signs *s)
{
	struct clerk_word *words = s->words;
	for (size_t i = 0; i < s->nqueues; i++) {
		const struct sign_queue *q = &s->queues[i];
		const int64_t pid = s->processes[q->process].pid;
		words[2 * i] = (struct clerk_word){ .pid = pid, .address = q->read_address };
		words[2 * i + 1] = (struct clerk_word){ .pid = pid, .address = q->write_address };
	}
	clerk_read_words(words, 2 * s->nqueues);
	for (size_t i = 0; i < s->nqueues; i++) {
		struct sign_queue *q = &s->queues[i];
		const uint64_t read = words[2 * i].value, write = words[2 * i + 1].value;
		q->known = words[2 * i].read && words[2 * i + 1].read;
		q->moved = q->known && read != q->read;
		q->pending = q->known && write > read;
		q->read = q->known ? read : q->read;
		s->processes[q->process].launched |= q->known && write > 0;
	}
}
