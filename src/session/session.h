// A session and what it is made of: for its own files.
#pragma once
#include "diagnose/engine.h"
#include "diagnose/ledger.h"
#include "diagnose/machine.h"
#include "diagnose/told/told.h"
#include "evidence/lines.h"
#include "evidence/reader.h"
#include "evidence/silicon.h"
#include "report/report.h"

struct uh_session {
	struct know *know;
	struct evidence_reader *evidence;
	struct engine *engine;
	struct ledger ledger;
	struct machine machine; // what all sources together say of it
	struct arena arena;
	VEC(struct str) kinds; // of evidence
	VEC(struct note) notes;
	const struct machine_observation *seen; // its GPUs, where they were looked at; else NULL
	bool this_boot;                         // what is read now is of this machine, since it was started
	struct uh_machine *asked;               // in place of this machine; NULL
	struct uh_machine *opened;              // the session's own; NULL
	uh_problem_fn *problem;
	void *ctx;
	unsigned problems;
	uint64_t refusals;         // events that say that a log could not be saved
	bool log_wanted, log_read; // the kernel's log of this machine
	unsigned expected;         // GPUs; 0: nobody said
	enum uh_verdict verdict;
	struct text unread;  // what could not be read for it
	struct lines *lines; // of the evidence; NULL: nobody asks
	struct told_options told;
	size_t earlier;  // incidents that were left out
	struct str host; // this machine's name
};

/** Actions, remedies and next steps of each incident. */
void session_advise(struct uh_session *s);
/** The verdict, and what could not be read for it. */
void session_judge(struct uh_session *s);
