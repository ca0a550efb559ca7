// Which incidents of a ledger are told, and since when.
#pragma once

#include <time.h>

#include "diagnose/ledger.h"
#include "evidence/reader.h"

struct uh_error;

/** A time as people write it: 2026-11-16, 2026-11-16T04:00:00Z, 11-16 without a zone in this machine's; 2h, 30 min, 3 days ago, yesterday,
 * today. Seconds since 1970. The error is that it is none of these. */
struct uh_error *since_parse(const struct know *k, struct str text, time_t now, double *ret);
/** When something in a source was, and when an incident began, in seconds since 1970. What has no zone is taken as this machine's, and what has no year as the newest that it
 * can be. false: its clock does not tell the day. */
bool told_when(const struct evidence_reader *r, size_t source, struct stamp time, time_t now, double *ret);
bool incident_when(const struct incident *i, const struct evidence_reader *r, time_t now, double *ret);

/** Processes of a job, as far as they are known. */
struct job_pids {
	int64_t list[1024];
	size_t n;
};

/** Whether it can be the job's: it names one of its processes, or none at all. */
bool incident_of_job(const struct incident *i, const struct job_pids *job);

struct told_options {
	bool limited; // incidents before @since are left out
	bool lines;   // lines before it do not count at all
	double since; // seconds since 1970
	bool newest;  // all but the newest are left out
	double began; // of the job that it is about; 0: of none
	struct job_pids job;
	time_t now;
};
/** Takes out of the ledger what is not to be told; how many. An incident of which nobody knows the day stays. */
size_t told_leave_out(struct ledger *l, const struct evidence_reader *r, const struct told_options *o);
