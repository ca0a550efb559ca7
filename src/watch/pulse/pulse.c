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
#include "base/print.h"
#include "source/privileged/privileged.h"
#include "watch/kernel_log.h"
#include "watch/pulse/errors.h"
#include "watch/progress.h"

enum { INTERRUPTS_ROOM = 256 << 10, BEAT_MS = 1000, NOBODY_MS = 2000, SAMPLE_MS = 10000, TEXT_ROOM = 512 };

/** Files of a GPU. */
struct pulse_paths {
	char busy[256], awake[256], power[2][320], temperature[320], memory[256];
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

/** The name of its sensors, hwmonN, is not the same at each start. */
static void find_power(struct str sysfs, struct pulse_paths *p)
{
	char path[256];
	snprintf(path, sizeof(path), STR_FMT "/hwmon", STR_ARG(sysfs));
	_cleanup_dir_ DIR *d = opendir(path);
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(p->power[0], sizeof(p->power[0]), "%s/%.30s/power1_average", path, e->d_name);
		snprintf(p->power[1], sizeof(p->power[1]), "%s/%.30s/power1_input", path, e->d_name);
		snprintf(p->temperature, sizeof(p->temperature), "%s/%.30s/temp1_input", path, e->d_name);
	}
}

static void find_paths(const struct device *d, struct pulse_paths *p)
{
	*p = (struct pulse_paths){ 0 };
	snprintf(p->busy, sizeof(p->busy), STR_FMT "/gpu_busy_percent", STR_ARG(d->sysfs));
	snprintf(p->awake, sizeof(p->awake), STR_FMT "/power/runtime_status", STR_ARG(d->sysfs));
	snprintf(p->memory, sizeof(p->memory), STR_FMT "/mem_info_vram_used", STR_ARG(d->sysfs));
	find_power(d->sysfs, p);
}

/** Of a GPU that sleeps nothing is read that would wake it up. */
static void read_gpu(const struct pulse_paths *p, struct pulse_gpu *g)
{
	enum { WATT = 1000000 };
	char room[32];
	bool awake = str_is(str_trim(small_file(p->awake, room, sizeof(room))), "active");
	g->busy = awake ? signs_number(p->busy) : -1;
	int64_t power = awake && p->power[0][0] ? signs_number(p->power[0]) : -1;
	power = power < 0 && awake && p->power[1][0] ? signs_number(p->power[1]) : power;
	g->power = power < 0 ? -1 : power / WATT;
}

/** What the history keeps of a GPU that works, around a failure. */
static void send_sample(int to, const struct pulse_paths *p, const struct pulse_gpu *g, struct str pci)
{
	_cleanup_text_ struct text t = { 0 };
	const int64_t temperature = g->busy >= 0 && p->temperature[0] ? signs_number(p->temperature) : -1;
	if (g->busy < 0)
		return;
	text_printf(&t, STR_FMT "\n%lld %lld %lld %lld", STR_ARG(pci), (long long)g->busy, (long long)g->power,
		    (long long)temperature, (long long)signs_number(p->memory));
	notice_send(to, NOTICE_SAMPLE, text_str(&t));
}

static void send_errors(int to, struct error_count *c, struct str pci)
{
	struct errors_told told;
	_cleanup_text_ struct text t = { 0 };
	if (!error_count_take(c, &told))
		return;
	told.pci = pci;
	errors_told_text(&told, &t);
	notice_send(to, NOTICE_ERRORS, text_str(&t));
}

static void pulse_work(int to, const void *ctx)
{
	const struct know *k = ctx;
	struct devices devices;
	prctl(PR_SET_NAME, "unhang-pulse");
	signal(SIGHUP, SIG_IGN);
	child_keep_only(to);
	door_leave();
	if (!privileged_begin(LOWER_NOGROUP)) // it takes apart what programs wrote
		return;
	devices_find(k, &devices);
	size_t n = devices.n < SIGNS_GPUS ? devices.n : SIGNS_GPUS;
	struct pulse_paths *paths = mem_alloc((n + 1) * sizeof(*paths));
	struct pulse_gpu *gpus = mem_alloc((n + 1) * sizeof(*gpus));
	struct error_count *errors = mem_alloc((n + 1) * sizeof(*errors));
	struct text *sent = mem_alloc((n + 1) * sizeof(*sent)), text = { 0 };
	struct signs *signs = mem_alloc(sizeof(*signs));
	char *room = mem_alloc(INTERRUPTS_ROOM);
	signs_begin(signs, k, &devices);
	signs->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	signs->told = to;
	for (size_t i = 0; i < n; i++) {
		find_paths(&devices.list[i], &paths[i]);
		error_count_begin(&errors[i], &devices.list[i]);
		gpus[i].interrupts = -1;
	}
	door_end();
	for (int64_t told = -PULSE_BEAT_MS, sampled = 0;;) {
		bool works = signs_take(signs, now_ms());
		if (now_ms() - told >= PULSE_BEAT_MS) {
			notice_send(to, NOTICE_BEAT, (struct str){ 0 });
			told = now_ms();
			for (size_t i = 0; i < n; i++)
				send_errors(to, &errors[i], devices.list[i].pci);
		}
		struct str interrupts = works ? small_file("/proc/interrupts", room, INTERRUPTS_ROOM) : (struct str){ 0 };
		for (size_t i = 0; i < n; i++) {
			gpus[i].busy = gpus[i].power = -1;
			if (works)
				read_gpu(&paths[i], &gpus[i]);
			pulse_vote(&gpus[i], signs, i, pulse_interrupts(interrupts, devices.list[i].irqs));
		}
		if (works && now_ms() - sampled >= SAMPLE_MS) {
			sampled = now_ms();
			for (size_t i = 0; i < n; i++)
				send_sample(to, &paths[i], &gpus[i], devices.list[i].pci);
		}
		for (size_t i = 0; i < n; i++) {
			text_clear(&text);
			pulse_text(gpus, signs, i, now_ms(), &text);
			if (!gpus[i].stands && str_eq(text_str(&text), text_str(&sent[i])))
				continue;
			notice_send(to, NOTICE_VOTES, text_str(&text));
			text_clear(&sent[i]);
			text_add(&sent[i], text_str(&text));
		}
		signs_wait(signs, works ? BEAT_MS : NOBODY_MS);
	}
}

bool pulse_begin(const struct know *k, struct child *ret) { return child_start(CHILD_WATCH_PROGRESS, pulse_work, k, ret); }

// === what the signs of a second make of each GPU ===

enum { BUSY_LEAST = 50, BUSY_MUCH = 90, IDLE_MOST = 5, POWER_LEAST = 50, MS = 1000, MINUTE = 60 };

static bool uses(const struct signs *s, size_t process, size_t gpu) { return s->processes[process].gpus >> gpu & 1; }

/** One that moved shows that the GPU works; else one that stood. */
static enum vote pulse_either(enum vote a, enum vote b)
{
	return a == VOTE_MOVED || b == VOTE_MOVED ? VOTE_MOVED : a == VOTE_STOOD || b == VOTE_STOOD ? VOTE_STOOD : VOTE_UNKNOWN;
}

static int low_power(const struct know *k)
{
	int low = 0;
	for (size_t i = 0; i < k->votes.len; i++)
		low = k->votes.data[i]->low ? k->votes.data[i]->low : low;
	return low;
}

/** What the queues of one process on a GPU did. */
static enum vote queues_of(const struct signs *s, size_t process, size_t gpu)
{
	enum vote v = VOTE_UNKNOWN;
	for (size_t i = 0; i < s->nqueues; i++) {
		const struct sign_queue *q = &s->queues[i];
		if (q->process == process && q->gpu == gpu && q->known)
			v = pulse_either(v, q->moved ? VOTE_MOVED : q->pending ? VOTE_STOOD : VOTE_UNKNOWN);
	}
	return v;
}

/** Whether it waits for memory or a queue of this GPU. The recording does not say of which: the first that it uses stands for all. */
static bool waits_in_call(const struct signs *s, size_t process, size_t gpu)
{
	const struct sign_process *p = &s->processes[process];
	return p->call[0] && !p->stopped && uses(s, process, gpu) && !(p->gpus & ((UINT64_C(1) << gpu) - 1));
}

/** The process that may hang: that another one works, or is stopped, says nothing of it. NULL: there is none. */
static const struct sign_process *subject_of(const struct signs *s, size_t gpu)
{
	for (size_t i = 0; i < s->n; i++)
		if (uses(s, i, gpu) && !s->processes[i].stopped && queues_of(s, i, gpu) == VOTE_STOOD)
			return &s->processes[i];
	for (size_t i = 0; i < s->n; i++)
		if (waits_in_call(s, i, gpu) && queues_of(s, i, gpu) != VOTE_MOVED)
			return &s->processes[i];
	return NULL;
}

/** The votes of the program that may hang; else of all. */
static void vote_of_programs(struct pulse_gpu *g, const struct signs *s, size_t gpu)
{
	const struct sign_process *subject = subject_of(s, gpu);
	for (size_t i = 0; i < s->n; i++) {
		const struct sign_process *p = &s->processes[i];
		if (!uses(s, i, gpu) || (subject && p != subject))
			continue;
		g->queue_vote = pulse_either(g->queue_vote, queues_of(s, i, gpu));
		// A process that uses one GPU alone speaks for it; of one with several nobody knows which it means.
		if (s->processes[i].gpus != UINT64_C(1) << gpu)
			continue;
		g->recording_vote = pulse_either(g->recording_vote, p->recordings);
		g->heartbeat_vote = pulse_either(g->heartbeat_vote, p->beats);
	}
	g->call_vote = subject && waits_in_call(s, (size_t)(subject - s->processes), gpu) ? VOTE_STOOD : VOTE_UNKNOWN;
	// The one before it went on: what stood then does not count for this one.
	const int64_t pid = subject ? subject->pid : 0;
	if (pid && g->subject && pid != g->subject)
		g->queue_vote = VOTE_MOVED;
	g->subject = pid;
}

void pulse_vote(struct pulse_gpu *g, const struct signs *s, size_t gpu, int64_t interrupts)
{
	g->queue_vote = g->recording_vote = g->heartbeat_vote = g->power_vote = g->call_vote = VOTE_UNKNOWN;
	g->pending = false;
	for (size_t i = 0; i < s->nqueues; i++)
		g->pending |= s->queues[i].gpu == gpu && s->queues[i].known && s->queues[i].pending;
	vote_of_programs(g, s, gpu);
	bool work = g->pending || g->busy >= BUSY_LEAST, counted = interrupts >= 0 && g->interrupts >= 0;
	g->interrupt_vote = !s->n || !counted           ? VOTE_UNKNOWN :
			    interrupts != g->interrupts ? VOTE_MOVED :
			    work                        ? VOTE_STOOD :
							  VOTE_UNKNOWN;
	g->interrupts = interrupts;
	if (g->busy >= BUSY_LEAST && g->power > g->most_power)
		g->most_power = g->power;
	if (g->busy >= BUSY_MUCH && g->power >= 0 && g->most_power >= POWER_LEAST &&
	    g->power * 100 < g->most_power * low_power(s->know))
		g->power_vote = VOTE_STOOD;
	g->stands = g->interrupt_vote == VOTE_STOOD || g->queue_vote == VOTE_STOOD || g->recording_vote == VOTE_STOOD ||
		    g->call_vote == VOTE_STOOD;
}

// --- the GPUs of one job ---

/** Processes of one job: those of one user that one process started (torchrun, srun, mpirun, a server's engine). Of those that init
 * started, only those of one session, as in a container whose first process is the launcher. */
static bool same_job(const struct sign_process *a, const struct sign_process *b)
{
	return a->pid == b->pid ||
	       (a->uid == b->uid && a->launcher == b->launcher && (a->launcher > 1 || a->stat.session == b->stat.session));
}

struct peers {
	unsigned waiting, others;           // GPUs of the job that stand, this one among them; that do not
	const struct sign_process *lagging; // has no work on its GPU
	bool works;                         // and is busy elsewhere
};

/** Whether a process of the job of @mine uses this GPU: others may be the first there. */
static bool job_uses(const struct signs *s, size_t gpu, const struct sign_process *mine)
{
	for (size_t i = 0; i < s->n; i++)
		if (uses(s, i, gpu) && same_job(mine, &s->processes[i]))
			return true;
	return false;
}

/** The program that may hang; where its queues cannot be read, one that uses the GPU. */
static const struct sign_process *peers_whose(const struct signs *s, size_t gpu)
{
	const struct sign_process *mine = subject_of(s, gpu);
	for (size_t i = 0; i < s->n && !mine; i++)
		mine = uses(s, i, gpu) ? &s->processes[i] : NULL;
	return mine;
}

/** Whether its own work waits on a GPU that stands. */
static bool waits_itself(const struct pulse_gpu *gpus, const struct signs *s, const struct sign_process *p)
{
	for (size_t i = 0; i < s->nqueues; i++)
		if (&s->processes[s->queues[i].process] == p && s->queues[i].known && s->queues[i].pending &&
		    gpus[s->queues[i].gpu].stands)
			return true;
	return false;
}

/** Of the job of @mine, one that uses this GPU and does not wait itself: ROCm has some memory of each process on every GPU. */
static const struct sign_process *other_of(const struct pulse_gpu *gpus, const struct signs *s, size_t gpu,
					   const struct sign_process *mine)
{
	const struct sign_process *found = NULL;
	for (size_t i = 0; i < s->n; i++) {
		const struct sign_process *p = &s->processes[i];
		if (uses(s, i, gpu) && same_job(mine, p) && !waits_itself(gpus, s, p) &&
		    (!found || (p->works && !found->works)))
			found = p;
	}
	return found;
}

static struct peers peers_of(const struct pulse_gpu *gpus, const struct signs *s, size_t gpu)
{
	struct peers r = { 0 };
	const struct sign_process *mine = peers_whose(s, gpu);
	for (size_t i = 0; mine && i < s->devices->n && i < SIGNS_GPUS; i++) {
		const struct sign_process *p;
		if (!job_uses(s, i, mine))
			continue;
		r.waiting += gpus[i].stands;
		r.others += !gpus[i].stands;
		bool idle = !gpus[i].pending && gpus[i].busy < BUSY_LEAST, moves = gpus[i].queue_vote == VOTE_MOVED;
		if (i == gpu || gpus[i].stands || (!idle && !moves) || (r.lagging && r.works))
			continue;
		p = other_of(gpus, s, i, mine);
		r.works = p ? moves || p->works : r.works;
		r.lagging = p ? p : r.lagging;
	}
	// Where most of them work on, they do not wait for each other: they are copies of one server, and this one hangs.
	if (r.waiting < r.others)
		r.lagging = NULL;
	return r;
}

// --- the text ---

static void pulse_add_vote(struct text *to, const char *name, enum vote v)
{
	text_printf(to, "vote %s %s\n", name, vote_name(v));
}

static void pulse_add_fact(struct text *to, const char *name, struct str value)
{
	text_printf(to, "fact %s ", name);
	text_add_safe(to, value); // a line is one value
	text_add(to, S("\n"));
}

static void pulse_add_number(struct text *to, const char *name, int64_t value)
{
	char room[24];
	snprintf(room, sizeof(room), "%lld", (long long)value);
	pulse_add_fact(to, name, str_z(room));
}

/** In steps: a number that changes each second would have to be told each second. */
static int64_t step_of(int64_t busy)
{
	return busy >= BUSY_MUCH ? BUSY_MUCH : busy >= BUSY_LEAST ? BUSY_LEAST : busy >= IDLE_MOST ? IDLE_MOST : 0;
}

static void add_peers(struct text *to, const struct peers *r)
{
	char room[96];
	pulse_add_fact(to, "peers", r->lagging ? (r->works ? S("ahead") : S("behind")) : S("none"));
	if (!r->lagging)
		return;
	snprintf(room, sizeof(room), "%u GPU%s", r->waiting, r->waiting == 1 ? "" : "s");
	pulse_add_fact(to, "waiting", str_z(room));
	if (r->lagging->rank[0])
		snprintf(room, sizeof(room), "rank %s", r->lagging->rank);
	else
		snprintf(room, sizeof(room), "%.15s (pid %lld)", r->lagging->stat.name, (long long)r->lagging->pid);
	pulse_add_fact(to, "lagging", str_z(room));
}

/** Whether it may have work on the GPU that nobody sees in its queues. */
static bool may_work(const struct signs *s, size_t process, size_t gpu, const struct pulse_gpu *g)
{
	bool queues = false;
	for (size_t i = 0; i < s->nqueues; i++)
		queues |= s->queues[i].process == process && s->queues[i].gpu == gpu;
	return s->processes[process].unknown_queues || (queues && g->busy >= BUSY_LEAST);
}

/** Of the processes that use it: the one that may hang; else one that is stopped, where no other may work; else the first. */
static void pulse_add_processes(struct text *to, const struct pulse_gpu *g, const struct signs *s, size_t gpu, int64_t now_ms)
{
	const struct sign_process *first = NULL, *stopped = NULL, *subject = subject_of(s, gpu);
	bool launched = false, unknown = false, works = false;
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct sign_process *p = &s->processes[i];
		if (!uses(s, i, gpu))
			continue;
		n++;
		first = first ? first : p;
		stopped = stopped ? stopped : p->stopped ? p : NULL;
		works |= !p->stopped && may_work(s, i, gpu, g);
		launched |= p->launched;
		unknown |= p->unknown_queues;
	}
	pulse_add_number(to, "processes", (int64_t)n);
	if (!n)
		return;
	stopped = subject || works ? NULL : stopped;
	first = subject ? subject : stopped ? stopped : first;
	pulse_add_fact(to, "process", str_z(first->stat.name));
	pulse_add_number(to, "pid", first->pid);
	if (first->rank[0])
		pulse_add_fact(to, "rank", str_z(first->rank));
	if (first->job[0])
		pulse_add_fact(to, "job", str_z(first->job));
	if (stopped)
		pulse_add_fact(to, "stopped", str_z(stopped->stopped));
	if (g->call_vote == VOTE_STOOD)
		pulse_add_fact(to, "inside", str_z(first->call));
	if (launched || unknown)
		return;
	pulse_add_fact(to, "launched", S("no"));
	pulse_add_number(to, "held", (now_ms - first->first) / MS / MINUTE * MINUTE);
}

void pulse_text(const struct pulse_gpu *gpus, const struct signs *s, size_t gpu, int64_t now_ms, struct text *to)
{
	const struct pulse_gpu *g = &gpus[gpu];
	text_add(to, s->devices->list[gpu].pci);
	text_add(to, S("\n"));
	pulse_add_vote(to, "interrupts", g->interrupt_vote);
	pulse_add_vote(to, "queues", g->queue_vote);
	pulse_add_vote(to, "recordings", g->recording_vote);
	pulse_add_vote(to, "heartbeat", g->heartbeat_vote);
	pulse_add_vote(to, "power", g->power_vote);
	pulse_add_vote(to, "call", g->call_vote);
	pulse_add_processes(to, g, s, gpu, now_ms);
	if (g->busy >= 0)
		pulse_add_number(to, "busy", step_of(g->busy));
	if (g->stands) {
		const struct peers r = peers_of(gpus, s, gpu);
		add_peers(to, &r);
	}
}
