// Signs of life of the processes that compute, as the pulse takes them each second: whether they are stopped, whether they compute on the
// host, how far their queues, their recording and their heartbeat are. Of the kernel only /proc and KFD's sysfs are read; the addresses of
// queues are asked for when queues came or went.
#pragma once

#include "gpu/find/clients.h"
#include "source/privileged/privileged.h"
#include "source/process.h"

enum { SIGNS_PROCESSES = 256, SIGNS_QUEUES = 1024, SIGNS_GPUS = 64 };

/** The job that a process belongs to, by its cgroup: `pod UID`, `Slurm job 4711`. false: it is none of a scheduler that is known. */
bool process_job(struct str cgroup, char *ret, size_t size);
/** The namespace and name of a pod by its UID: kubelet keeps a directory NAMESPACE_NAME_UID for its logs. false: it is not in @directory. */
bool pod_find(const char *directory, struct str uid, struct text *ret);

/** How far the watch is with the recording of a process, which asks it to look before the program ends. */
struct pulse_hold {
	uint64_t file;          // which one it is: another one may get the name
	bool refused;           // it is not the recording of this user
	int followed;           // number of the inotify watch; 0: none
	unsigned asked;         // how often the watch was asked to announce itself
	uint32_t number, state; // of the newest hold that was told
};

/** A process that computes. */
struct sign_process {
	int64_t pid;
	uid_t uid;
	struct process_stat stat;
	int64_t launcher;    // the process that started it; where that is an `unhang run` around one rank, who started that
	uint64_t io;         // bytes that it read and wrote
	bool works;          // on the host: it computed, read or wrote a moment ago
	int64_t worked;      // ms: when that was
	const char *stopped; // what stops it; NULL
	char rank[24];
	char job[400];                       // of a scheduler: `Slurm job 4711`, `pod NAMESPACE/NAME (UID)`; empty: none
	char heartbeat[200], recording[200]; // paths below /dev/shm; empty: none
	uint64_t recorded;                   // packets that the GPU took, by its recording
	enum vote recordings, beats;
	char call[96]; // for memory or a queue, that a thread of it is inside of for seconds, by its recording; empty: none
	int64_t first, search; // ms: when it was first seen, and when its recording is looked for again
	struct pulse_hold hold;
	uint64_t gpus; // a bit for each that it uses
	bool unknown_queues, launched, seen;
};

struct sign_queue {
	size_t process;
	size_t gpu; // in the list of devices
	uint64_t read_address, write_address;
	uint64_t read;
	const struct client_queue *client; // it is of a client of the driver, in struct sign_clients; NULL: of KFD
	bool known, pending, moved;
};

/** User queues of the driver's clients. Their indexes lie in the GPU's memory: they are read every few seconds. */
struct sign_clients {
	struct client_queues queues;
	uint64_t names;      // what their names add up to
	int64_t asked, read; // ms: when names were listed, and when indexes were read; 0: never
	bool fresh;          // they were read at this beat
};

struct signs {
	struct sign_clients clients;
	int inotify; // tells of recordings that ask; -1: nobody does
	int told;    // where holds are told
	const struct know *know;
	const struct devices *devices;
	uint64_t changed; // what the names of processes and queues add up to
	int64_t asked;    // ms: when queues were last asked for
	int64_t taken;    // ms: the beat before
	size_t n, nqueues;
	struct sign_process processes[SIGNS_PROCESSES];
	struct sign_queue queues[SIGNS_QUEUES];
	struct privileged_word words[2 * SIGNS_QUEUES]; // of a moment: the read and the write index of each queue
};

void signs_begin(struct signs *s, const struct know *k, const struct devices *d);
/** Takes them. false: nobody computes, and nothing was read. */
bool signs_take(struct signs *s, int64_t now_ms);
/** The number that a small file has; -1: it has none. */
int64_t signs_number(const char *path);
/** The process that started a job, by the parent of one of its processes: an `unhang run` around a rank is not it, but its parent is. */
int64_t signs_launcher(int64_t parent);

/** clients.c: finds the user queues of the driver's clients when they change, and reads how far they are. */
void signs_see_clients(struct signs *s, int64_t now_ms);
/** Adds their processes to @pids, of which @n are there; returns how many are there then. */
size_t signs_client_pids(const struct signs *s, int64_t *pids, size_t n, size_t most);
/** Notes the GPUs of their processes. */
void signs_client_gpus(const struct signs *s, struct sign_process *p);
/** Adds them to the queues that are known, and what was read last to those. */
void signs_add_clients(struct signs *s);
void signs_read_clients(struct signs *s);

/** holds.c: sees whether the recording of a process asks the watch to look, and tells it. */
void signs_see_hold(struct signs *s, struct sign_process *p, int recording);
/** Nobody need hear of the recordings of processes that ended: all but these. */
void signs_forget_holds(const struct signs *s, const int64_t *pids, size_t n);
/** Waits for the next beat, and looks meanwhile at recordings that changed. */
void signs_wait(struct signs *s, int milliseconds);
/** How far a recording is: packets that the GPU took in all queues. false: it is none. */
bool recorded_packets(int fd, uint64_t *ret_taken, bool *ret_waits);
/** Finds the recording of a process: its path below /dev/shm. */
void recorded_find(const struct sign_process *p, char *ret, size_t size);
