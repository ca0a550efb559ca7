// An incident: the events that belong together, and what is concluded from them.
#pragma once

#include "base/arena.h"
#include "diagnose/changes/judge.h"
#include "diagnose/like/like.h"
#include "diagnose/remedy_state.h"
#include "evidence/event.h"
#include "knowledge/steps.h"

/** Where in the life of the GPU an event stands. */
enum phase { PHASE_RUN, PHASE_PROBE, PHASE_RESET, PHASE_SLEEP };

/** An event as an incident keeps it; one that repeats is counted. */
struct diag_event {
	const struct know_event *kind;
	struct stamp time, last;
	struct place at;
	unsigned count;
	struct str device, driver, text;
	struct str named; // how who saw it named the incident; empty: nobody did
	enum phase phase;
	bool program;    // a program reported it, not the kernel
	bool recorded;   // the recorder of a process did
	bool now;        // it is so at this moment
	bool unattested; // no record of it carries the device
	bool confirmed;  // of events that need a frame of the driver behind them
	bool elsewhere;  // such an event is of another module, whatever its stack holds
	bool framed;     // some of its stack was read
	uint64_t began;  // as in struct event
	uint32_t hold;   // as in struct event
	uint64_t numbered; // as in struct event
	size_t nfacts, facts_cap;
	struct fact *facts;
	struct dump dump;
	// Concluded:
	const struct know_cause *cause; // what it is evidence for
	enum know_role role;
	const struct know_lead *lead;    // the rule by which another event can have led to it; NULL: none
	const struct diag_event *led_by; // which one
	bool unrelated;                  // not about this GPU after all
	bool only_seen;                  // nothing says that it is about a GPU: it is told, and no cause
	struct str who;                  // `python (4242)`
	struct str sentence;
	struct str many; // the same for several ranks or processes at once
	struct diag_note *notes;
};

/** A sentence about an event that explanations may use; it is no fact. */
struct diag_note {
	struct str name, text;
	struct diag_note *next;
};

struct diag_gpu {
	struct str device; // PCI address, or what the log calls it
	struct str name, gfx;
	struct str serial, unique_id, slot; // of the module; empty: not known
	int64_t oam;                        // its position, as XGMI numbers it, and 1; 0: not known
	bool apu;
};

struct diag_process {
	struct str name, pid;
	const char *role; // owner, victim, bystander
};

/** One process of a job, as far as its reports tell. */
struct diag_rank {
	struct str who, group; // what tells it from the others; its process group
	struct str rank, worker, pid, node, collective;
	int64_t seq, enqueued, completed; // of its collective operations; -1: not known
	const struct diag_event *first;
	struct str alias;  // what another source tells it by; empty: none does
	unsigned alias_of; // that source
	const char *role;  // first, victim; NULL: not known
};

struct diag_remedy {
	const struct know_remedy *remedy;
	bool certain;        // its condition is known to hold
	bool shown;          // it is among the few that a person is told
	enum like_near like; // how near the nearest case is that it solved; LIKE_FAR: none
	unsigned called;     // its place among those of the explanation that leads; 0: none
	int fit;             // how, best first
	unsigned met;        // facts that speak for it
	unsigned solved;     // tenths of the weight of the cases that are near that it solved
	struct str why;      // what of the evidence speaks for it; empty: nothing in particular
	struct remedy_verdict verdict;
	struct str numbers;      // the settings that it asks for, with the values that this machine gives them
	const struct fact *fact; // of the evidence: what the verdict rests on; NULL: none
	struct str where;        // a file of this machine that it rests on instead; empty: none
	struct steps steps;
};

/** Something that the user has set, and what to say about it. */
struct diag_setting {
	struct str id, text, grade, source;
	const struct fact *fact;
};

struct diag_next {
	struct str why;
	const struct command *run;
};

/** What the user said. */
struct diag_answer {
	const struct know_question *question;
	struct str reply;
};

struct diag_explanation {
	const struct know_explanation *explanation;
	double weight; // those of all that fit add up to 1
};

/** What would be said if this were the reply. */
struct diag_reply {
	struct str reply;
	double likely;                        // of 1
	const struct know_explanation *leads; // NULL: none does
	const struct know_action *action;
	struct str action_text, fault;
	int fault_confidence;
	const struct diag_remedy *first; // NULL: none is shown
	bool acts;                       // otherwise than without it
	bool changes;                    // that, or what to try first
};

struct diag_question {
	const struct know_question *question;
	struct diag_reply replies[QUESTION_REPLIES];
	size_t n;
};

enum { CONFIDENCE_HIGH = 90, CONFIDENCE_MEDIUM = 70 }; // per cent, from which on it is called so

struct incident {
	struct arena arena;
	struct str id, fingerprint, boot_id, host;
	struct str machine_boot; // of the machine that was asked, whose log has no boot id; only for its id
	bool open;
	struct diag_gpu gpu;
	VEC(struct diag_gpu) other_gpus; // if it is on several GPUs
	struct stamp begin, end;
	VEC(struct diag_event *) events;
	unsigned dropped;           // events beyond what an incident keeps
	VEC(struct str) names;      // of facts
	VEC(struct fact) machine;   // kernel, firmware, parameters
	bool log_has_boot;          // the boot's own messages were seen
	bool vendor_known;          // something says that the GPU is AMD's
	bool joined;                // put together from several sources
	bool now;                   // it is so at this moment
	bool this_boot;             // it happened on this machine, since it was started
	bool saved;                 // its evidence lies in a bundle
	bool ended;                 // its program does not run any more
	bool fault_space;           // of the newest page fault on this machine: its process still runs, so that its page tables can be read
	bool long_past;             // the driver no longer keeps what it kept of it
	bool history;               // it happened on this machine, and its GPU is well now
	struct str record_age;      // of which time its records of hardware errors are; empty: it has none
	struct str joined_by;       // what brought their clocks together
	const struct str *evidence; // kinds of all sources of the diagnosis
	size_t nevidence;
	const struct cases_asked *cases; // names in the evidence, and what is left out; NULL: none
	// Concluded:
	struct diag_event *root;
	const struct know_cause *cause;
	int confidence; // percent
	bool before_log;
	bool unattested; // only lines that carry no device say that the node is at fault
	struct str title, explanation, sure, action_text;
	struct str last_work; // sentences about what the program named last before it failed; empty: nothing
	struct str work;      // the kind of work that failed; empty: not known
	struct str fault;     // job, node, driver or unknown
	struct str fault_say; // who that is, for people; empty: as the report says it
	int fault_confidence; // percent
	unsigned times;       // that this failure came on this GPU, in all evidence
	double over;          // seconds between the first and the last of them, where their clocks tell
	struct str program;   // whose job it was: `python (4242)`, or `the program`
	VEC(struct str) also;
	const struct know_action *action;
	enum know_fit fit; // whether the machine can take the next job; never yes where nothing tells how the machine is
	VEC(struct diag_rank) ranks;
	VEC(struct diag_process) processes;
	VEC(struct diag_remedy) remedies; // those to try, then those that are mentioned for another reason
	VEC(struct diag_setting) settings;
	VEC(const struct know_bad *) known;
	diag_likes like;
	VEC(struct diag_next) next;
	VEC(struct diag_answer) answers;
	VEC(struct diag_explanation) explanations;
	const struct know_explanation *leads; // by the answers; NULL: none does
	const struct diag_question *question; // NULL: none is asked
	struct diag_changes changes;          // of the machine, before it
	// While it is open:
	enum phase phase;
	bool reset_began, reset_ended, reset_evidence;
	bool dropping; // the newest event was dropped, and so are its follow-up lines
	int gap;
	size_t dump_bytes; // of registers and memory that are kept
	uint64_t order;    // counts incidents as they are opened
	uint64_t touched;  // counts events of all incidents: its newest one
	uint64_t boot;     // number of the boot, counted through the evidence
};

/** The first fact of this name, or NULL. */
const struct fact *diag_find(const struct diag_event *e, struct str name);
static inline const struct fact *diag_fact(const struct diag_event *e, const char *name) { return diag_find(e, str_z(name)); }
/** Why its cause is shown, and no log or machine could change it; NULL: it is not. */
static inline const struct fact *incident_proof(const struct incident *i) { return diag_fact(i->root, "proof"); }
/** Its value; empty where there is none. */
struct str diag_value(const struct diag_event *e, const char *name);
void diag_set_fact(struct incident *i, struct diag_event *e, struct fact fact);
/** A fact that follows from others. */
void diag_conclude(struct incident *i, struct diag_event *e, const char *name, struct str value);
void diag_set_note(struct incident *i, struct diag_event *e, const char *name, struct str text);
/** Adds a fact of the machine. */
void incident_add_machine(struct incident *i, struct fact fact);
/** Whether part, kernel and firmware are known, from the log or from a look at the machine. */
bool incident_knows_machine(const struct incident *i);
/** All facts of the incident, and those that docs/KNOWLEDGE.md adds. As fact_view.get(). */
bool incident_get(const void *incident, struct str name, size_t index, struct str *ret_value);
/** The facts of one event, and `at`. As fact_view.get(). */
bool diag_event_get(const void *event, struct str name, size_t index, struct str *ret_value);

struct machine;
/** Finds out which GPU of which machine it is about. Marks events of the bus about other devices as unrelated. */
void incident_attribute(struct incident *i, const struct know *k, const struct machine *m);
/** Decodes fault status registers; finds cause, roles and confidence. false: it is no incident. May be called again when more events
 * were joined to it. */
bool incident_conclude(struct incident *i, const struct know *k);
/** How sure its cause is, and why. */
void incident_weigh(struct incident *i, const struct know *k);
/** Finds the role of the program that is named, the kind of work that failed, and whose fault that makes it. */
void incident_judge_work(struct incident *i, const struct know *k);
/** Of what is so at this moment: whether the kernel's log of this machine was read, in which it is not explained. */
void incident_weigh_log(struct incident *i, bool read);
/** What to do with the machine now, by the incident alone: for who cannot wait for the rest of the advice. */
void incident_choose_action(struct incident *i, const struct know *k);
struct host;
/** Adds action, remedies and next steps to a concluded incident. @host: the machine as it is now, for incidents of this boot; may be
 * NULL. */
void incident_advise(struct incident *i, const struct know *k, const struct host *host);
/** Of a hardware error: how bad it was, and what failed. */
void incident_weigh_error(struct incident *i, const struct know *k);
/** What the event says that is the cause, else another that may be evidence of it: banks of other errors may stand beside them. */
struct str incident_error(const struct incident *i, const char *fact);
struct evidence_reader;
/** Finds out of which time its records of hardware errors are: before it is advised. @booted: when the newest boot that a log shows began; of no
 * clock: none does. */
void incident_weigh_records(struct incident *i, const struct evidence_reader *r, struct stamp booted);
/** A copy to be advised with another reply. It shares what a reply does not change, and its texts stay in the original when it ends. */
void incident_trial_begin(struct incident *trial, const struct incident *of);
void incident_trial_end(struct incident *trial, struct incident *of);
/** Advises such a copy: action, fault, and the remedies, of which only the first has its steps. */
void incident_advise_reply(struct incident *i, const struct know *k, const struct host *host);
/** The cause that an event is evidence for, with what else is in the incident @in; or NULL. */
const struct know_cause *event_cause(const struct know *k, const struct diag_event *e, const struct incident *in);
/** Adds what a fault's status register says beyond its lines, and whether the two agree. */
void fault_status_decode(struct incident *i, struct diag_event *e, const struct know *k);
/** Explains the kernel that an event names: its operation, its library, what mostly makes it fail. */
void kernels_explain(struct incident *i, struct diag_event *e, const struct know *k);
/** Which lanes of stopped waves were active, and which are out of step. */
void waves_explain(struct incident *i);
/** Which kernels in flight wait for each other, or do not end. */
void dispatches_explain(struct incident *i);
/** Says whether a request for memory is larger than the whole card. */
void request_explain(struct incident *i, struct diag_event *e);
/** Gives the packets that a runtime dumped the names of their kernels. */
void packets_name(struct incident *i);
/** Which process of a job went first, and which lags. */
void ranks_explain(struct incident *i);
/** Whether the machine itself tells of it: an event that is no program's. */
bool incident_has_kernel_events(const struct incident *i);
/** yes, no or unknown. */
struct str incident_fit(const struct incident *i);
/** Adds what other sources say about the machine. */
void incident_complete(struct incident *i, const struct machine *m);
/** Fills in its id, by what is known of it now. */
void incident_name(struct incident *i);
void incident_free(struct incident *i);
