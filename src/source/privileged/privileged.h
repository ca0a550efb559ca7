// The privileged reader: a process with rights that reads for one that has put them down. It reads what the list of probe_list.c has, and opens what
// flight recorders wrote; it hands the bytes over and takes none of them apart. So what takes them apart needs no rights.
//
// It is a child of the one that it serves and ends with it. What it is asked is not believed: each question is checked as if a stranger
// had sent it.
#pragma once

#include <sys/types.h>

#include "source/probe.h"

/** Starts the privileged reader and leaves root behind, with @group as the only group. From now on probe_run_all() asks the privileged reader for what is on this
 * machine. Who is not root keeps its rights and needs no privileged reader. false: the process still has its rights; it must not go on. */
bool privileged_begin(gid_t group);
/** For a child that is about to be forked: has another privileged reader begun for it. -1: there is none, or no more can be begun. */
int privileged_split(void);
/** In that child: the privileged reader behind @socket, which privileged_split() returned, reads for it. */
void privileged_take(int socket);
/** Ends it. */
void privileged_end(void);
/** As whom this machine's files are read: root, where a privileged reader reads for it. */
uid_t privileged_uid(void);

/** Whether there is one. */
bool privileged_reads(void);
/** probe_run_all() by the privileged reader. */
void privileged_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count);

// For what is looked at each second. The privileged reader answers these itself, without a child: none of them may block. Without a privileged reader they are
// read here.

/** process_file(), of stat, environ, io and cgroup. */
struct str privileged_process_file(int64_t pid, const char *name, char *room, size_t size);

/** Words of programs' memory. */
struct privileged_word {
	int64_t pid;
	uint64_t address, value;
	bool read;
};
void privileged_read_words(struct privileged_word *words, size_t n);

enum privileged_shared {
	PRIVILEGED_RECORDING, // unhang-*/*.recording, to be read
	PRIVILEGED_DIRECTORY, // unhang-*, to be listed
	PRIVILEGED_STATUS,    // any name: only its status can be asked for
};
/** Has an inotify instance tell of the recording of process @pid when its attributes change. It must belong to the user of that process: nobody
 * speaks for the program of another. The number of the watch; -1: see errno. */
int privileged_follow_shared(const char *path, int64_t pid, int inotify);
/** Opens what lies below /dev/shm. No link is followed. -1: see errno. */
int privileged_open_shared(const char *path, enum privileged_shared how);
