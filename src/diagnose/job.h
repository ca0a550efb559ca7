// The processes of a job, as their recorders tell of them: which kernel is to blame, and which rank was the first to fail.
#pragma once

#include "base/arena.h"
#include "evidence/event.h"

enum job_end {
	JOB_WELL,   // it ended in order, and not with a status that says otherwise
	JOB_FAILED, // it ended with such a status
	JOB_SILENT, // it did not say that it ended
};

struct job_process {
	struct place at;   // whose source is the recording
	int64_t pid, here; // as the driver and the log number it; as this process does. -1: not known
	int64_t rank;      // -1: none
	int64_t packets;   // that it submitted
	struct str gpus;   // PCI addresses that it used, as words
	struct str gfx;    // of one of them
	double sign;       // its last sign of life, in seconds since 1970
	enum job_end end;
	int64_t status;
	// What it accuses; -1 and empty: not known.
	double since;             // when that was; 0: it accuses nobody
	struct str fault;         // the fault in a sentence; empty: it only stands
	struct str place, offset; // of its address, among the buffers
	struct str kernel, symbol, line;
	int64_t packet, launch;
};

struct job_seen {
	struct arena arena;
	VEC(struct job_process) list;
};

/** Takes what a recorder tells of a process: as incident_sink.process(). */
void job_take(struct job_seen *j, const struct event *e);
void job_seen_free(struct job_seen *j);
/** The process whose kernel is to blame: the one whose fault came first; without a fault, the one that has stood longest with work in flight.
 * @rank: of the others only faults count; -1: all count. NULL: none is. */
const struct job_process *job_suspect(const struct job_seen *j, int64_t rank);
/** Of several ranks the one that failed first, in a sentence that lies in @a; *@ret: it, or NULL where the sentence says that nobody can tell.
 * Empty: there is one rank only, or all ended well. All must have ended. */
struct str job_first(const struct job_seen *j, struct arena *a, const struct job_process **ret);
/** Packets that the processes of a rank submitted; -1: none of it recorded. */
int64_t job_packets(const struct job_seen *j, int64_t rank);
/** Whether it used this GPU; where none is known, it may have. */
bool job_uses(const struct job_seen *j, struct str pci);
