// What is inside of a session, for its parts.
#pragma once

#include "diagnose/engine.h"
#include "diagnose/job.h"
#include "diagnose/machine.h"
#include "diagnose/changes/past.h"
#include "diagnose/told/told.h"
#include "evidence/lines.h"
#include "evidence/silicon/silicon.h"
#include "report/report.h"
#include "session/corrected.h"
#include "session/machine.h"

struct uh_session {
	struct know *know;
	struct evidence_reader *evidence;
	struct engine *engine;
	struct ledger ledger;
	struct machine machine; // what all sources together say of it
	struct job_seen job;    // processes that recorded themselves
	struct arena arena;
	VEC(struct str) kinds; // of evidence
	VEC(struct note) notes;
	const struct machine_observation *seen; // its GPUs, where they were looked at; else NULL
	struct str lost;                        // which of its answers a bundle has lost; empty
	bool this_boot;                         // what is read now is of this machine, since it was started
	struct uh_machine *asked;               // in place of this machine; NULL
	struct uh_machine *opened;              // the session's own; NULL
	uh_problem_fn *problem;
	void *ctx;
	unsigned problems;
	unsigned refused;          // sources that were opened, but not understood
	uint64_t refusals;         // events that say that a log could not be saved
	uint64_t unknown_failures; // events that speak of a failure in words that fit no message
	bool log_wanted, log_read; // the kernel's log of this machine
	unsigned expected;         // GPUs; 0: nobody said
	enum uh_verdict verdict;
	struct text unread;  // what could not be read for it
	struct lines *lines; // of the evidence; NULL: nobody asks
	struct told_options told;
	struct cases_asked cases;
	struct stamp booted; // the newest start of a machine that a log tells, by the calendar; of no clock: none does
	struct corrected_all corrected; // hardware errors that harmed nothing
	size_t earlier;              // incidents that were left out
	struct str host;             // this machine's name
	struct str boot;             // and the id of its boot; empty: not asked for yet
	const struct module_pasts *modules; // what the watch has stored of modules; NULL: what this machine has stored is asked
	bool job_ended;              // the evidence is of a job that was ended when it was saved
	bool of_machine;             // it was read on a machine, this one or one that is mounted, not given as a file
	bool asks;                   // an answer may end with a question
	const struct command *again; // the command that was given, for the question; NULL: it cannot be repeated
	VEC(struct diag_answer) answers;
	// What changed on the machine:
	const char *machine_root; // of a tree; NULL
	int boots_read;           // boots of the journal, from the newest on, that were read for their incidents
	struct past past;
	struct changes changes;
};

/** Reads a source: as source_visitor.visit(), with the session as its context. */
void session_visit(void *ctx, struct source *source);
/** Tells an error, and frees it. */
void session_error(void *ctx, struct uh_error *err);
struct source_visitor session_visitor(struct uh_session *s);

/** Whether it is about the machine of a bundle. */
bool session_plays(const struct uh_session *s);
/** All that a bundle holds. It belongs to the session from now on. */
void session_add_bundle(struct uh_session *s, struct uh_machine *m);
/** The logs that a bundle has: of the boot in which it was made, or else of the one before. */
void session_add_taped_logs(struct uh_session *s);
/** Only what happened since a job began counts. */
void session_since_job(struct uh_session *s, double began);
/** The event of an incident that tells of a page fault: its cause, or else the first; NULL: it has none. */
const struct diag_event *incident_fault(const struct incident *i);
/** Whether one of them came after the other. */
bool incident_fault_later(const struct diag_event *a, const struct diag_event *b);
/** What reports are made of. */
struct diagnosis session_diagnosis(const struct uh_session *s);
/** Actions, remedies and next steps of each incident. */
void session_advise(struct uh_session *s);
/** Names the replies that steer nothing. @used: of each whether an incident took it. */
void session_tell_unused(const struct uh_session *s, const bool *used);
/** Notes what a line of a log without a machine says of the boot that it is of. */
void session_take_boot(struct uh_session *s, const struct event *e);
/** Keeps the fingerprints of the incidents, as long as each is by itself. */
void session_note_past(struct uh_session *s);
/** Keeps what is to be said beside incidents, or where there is none (note.seen). Said once, however often the evidence has it. */
void session_add_note(struct uh_session *s, struct note note);
/** What changed on the machine before each incident, and whether that is to blame. */
void session_changes(struct uh_session *s);
/** The verdict, and what could not be read for it. */
void session_judge(struct uh_session *s);
