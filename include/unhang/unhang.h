// libunhang: evidence in, diagnosis out. The program is a thin user of this header.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What failed, where, and errno; NULL is success. */
struct uh_error;
const char *uh_error_message(const struct uh_error *err);
void uh_error_free(struct uh_error *err);

/** One diagnosis of any number of sources. */
struct uh_session;

/** Receives one line for each thing that could not be read, and for each mistake in the user's knowledge files. */
typedef void uh_problem_fn(void *ctx, const char *message);

/** How far a large source is read; @done equals @total when it is. Called some times a second at most. */
typedef void uh_progress_fn(void *ctx, const char *name, unsigned long long done, unsigned long long total);

struct uh_session *uh_session_new(uh_problem_fn *problem, void *ctx);
void uh_session_on_progress(struct uh_session *s, uh_progress_fn *progress, void *ctx);
void uh_session_free(struct uh_session *s);

/** A file, directory, archive, FIFO, journal file or /dev/kmsg; "-" is standard input. */
void uh_session_add_path(struct uh_session *s, const char *path);
/** The @n bytes of a log, document, core or archive that the caller has in memory, called @name. They are needed until the call returns. */
void uh_session_add_bytes(struct uh_session *s, const char *name, const void *bytes, size_t n);
/** The journal's kernel messages of boot 0 (this one), -1 (the one before), ... of the system under @root (NULL: this one). */
void uh_session_add_journal(struct uh_session *s, const char *root, int boot);
/** What a crash left under @root: pstore, kdump's dmesg. */
void uh_session_add_crash_files(struct uh_session *s, const char *root);
/** The newest incident of the system under @root: this boot and the ones before it, then crash files. */
void uh_session_add_newest(struct uh_session *s, const char *root);
/** This machine's GPUs, looked at now; @gpu: only this one (a PCI address, card1, renderD128, or its place in the list), or NULL. The
 * error is that there is no such GPU. */
struct uh_error *uh_session_add_machine(struct uh_session *s, const char *gpu);
/** This machine's programs under the flight recorder that wait for memory or a queue for longer than that takes. */
void uh_session_add_stuck_calls(struct uh_session *s);
/** How many AMD GPUs this machine should have: fewer are an incident. */
void uh_session_expect_gpus(struct uh_session *s, unsigned n);
/** Which GPU it was, where the evidence does not say: a name (RX 7900 XTX, MI300X), or a PCI device id (744c); before the sources. The
 * error is that there is no such part, or several. */
struct uh_error *uh_session_part(struct uh_session *s, const char *name);
/** Keeps the lines that events are read from, for reports that show them; before the sources. */
void uh_session_keep_lines(struct uh_session *s);
/** Leaves incidents out: those before a time (2026-11-16T04:00:00Z, 2h, yesterday), and all but the newest. The error is that it is no
 * time. */
struct uh_error *uh_session_since(struct uh_session *s, const char *time);
void uh_session_newest(struct uh_session *s);
/** Lets the answer end with one question, where a reply would change it; before uh_session_end(). @words: the command that was given, without
 * `unhang`, for people to repeat; NULL: it cannot be repeated. */
void uh_session_ask(struct uh_session *s, char *const *words, size_t n);
/** The reply to such a question: `one-game=yes`; before uh_session_end(). The error is that there is no such question or reply. */
struct uh_error *uh_session_answer(struct uh_session *s, const char *text);
/** Whether there is a question of this name. */
bool uh_session_has_question(const struct uh_session *s, const char *id);
/** A file or directory with the code that waves ran; before the sources. What lies beside the evidence is found without. */
void uh_session_add_code(struct uh_session *s, const char *path);
/** After the last source. */
void uh_session_end(struct uh_session *s);

/** Sources that could be read; problems that were reported; incidents that were found. */
unsigned uh_session_sources(const struct uh_session *s);
unsigned uh_session_problems(const struct uh_session *s);
unsigned uh_session_incidents(const struct uh_session *s);
/** What the whole comes to; the greater one counts. HEALTHY is earned: what it takes was read, and nothing is wrong. */
enum uh_verdict { UH_HEALTHY, UH_UNKNOWN, UH_INCIDENT };
enum uh_verdict uh_session_verdict(const struct uh_session *s);
/** Whether a fault of the machine itself, not of a job or of the driver, was found: hardware, a GPU that is not well now, or one that is
 * missing. */
bool uh_session_node_at_fault(const struct uh_session *s);
/** Where that is UH_UNKNOWN: what could not be read, and why; else empty. It lives as long as the session. */
const char *uh_session_unread(const struct uh_session *s);
/** AMD GPUs of this machine that were looked at, and how many of them are not well. */
unsigned uh_session_gpus(const struct uh_session *s, unsigned *ret_unwell);

/** What pictures in a text may be made of. */
enum uh_drawing { UH_DRAW_NOTHING, UH_DRAW_ASCII, UH_DRAW_UNICODE };
struct uh_report_options {
	bool json;
	bool all;     // every incident in full, not only the first
	bool verbose; // every event and fact
	bool lines;   // the lines of the evidence, too, where they were kept
	bool oneline; // a line of fields with tabs between for each incident, or for each GPU that has none
	bool colour;
	unsigned width;          // columns of the terminal; 0: 80
	enum uh_drawing drawing; // a picture of the incident, where it helps and fits
	unsigned height;         // lines of the terminal; 0: not known
};
void uh_session_report(struct uh_session *s, FILE *out, const struct uh_report_options *options);

/** A report for others: one file that shows the incidents. */
struct uh_share_options {
	bool redact;        // names of machines and people, addresses, serial numbers and secrets are replaced
	bool full_evidence; // every line that was kept, not only three around each that is told
};
/** Keeps the lines that reports for others quote, with three around each; @all: every line of a source that has an event. Before the
 * sources. */
void uh_session_keep_around(struct uh_session *s, bool all);
/** One HTML file: it needs no network, no other file and no script. It is written to @out, which may be memory. */
void uh_session_write_html(struct uh_session *s, FILE *out, const struct uh_share_options *options);
/** The same answer for a bug tracker or a chat: one screen, with the rest folded. */
void uh_session_write_markdown(struct uh_session *s, FILE *out, const struct uh_share_options *options);

/** The machine that a bundle of `unhang capture` holds. It answers as it did then, so that all that follows says of it what it would have
 * said there. *@ret is NULL without an error where the file is no bundle. */
struct uh_machine;
struct uh_error *uh_machine_open(const char *path, struct uh_machine **ret);
void uh_machine_free(struct uh_machine *m);
/** What the session is asked of this machine it answers of @m, which outlives it. */
void uh_session_on_machine(struct uh_session *s, struct uh_machine *m);

/** Which copy of registers that there are several of. -1: the first XCC; every engine; the queue that is in force. */
struct uh_bank {
	int xcc;
	int se, sh, instance;      // shader engine, shader array, CU or other instance
	int me, pipe, queue, vmid; // me -1: no queue is chosen
};

/** What to look at, and how to write it. */
struct uh_look_options {
	const char *const *
		targets; // cores of one process: the GPU's, the process's own, or one that holds both; a device core of the driver
	size_t ntargets;
	struct uh_machine *machine; // that is looked at where there is no target; NULL: this one, or a bundle among the targets
	const char
		*gpu; // where there is no target: the GPU of this machine, by PCI address or number; NULL: the only one, or all
	const char *const *code; // files and directories with code objects
	size_t ncode;
	const char *const *sources; // directories in which source files are looked for, besides those of the code
	size_t nsources;
	const char *gfx;       // only code for this GPU; NULL: any
	const char *loaded_at; // address at which the code object was loaded; NULL: addresses are the object's own
	bool json;
	bool registers; // waves with their registers and local memory
	bool all;       // every wave, not only groups of them
	int context;    // instructions before and behind; negative: none
	bool colour;
	unsigned width;           // columns of the terminal; 0: 80
	struct uh_bank bank;      // of registers
	const char *space;        // of registers that are given by their addresses: mmio, pcie or didt; NULL: mmio, and only where it has a name
	const char *queue;        // the copy for this queue of a program, as PID:ID, in place of me, pipe and queue; NULL
	unsigned looks;           // at a GPU of this machine, to see what moves; 0: 2
	unsigned packets;         // of a ring, before and behind where it stands
	uh_progress_fn *progress; // which of several GPUs is being looked at; NULL
	void *progress_ctx;
	bool fences; // read those of rings too: this completes fences that are done, and wakes who waits for them
};
/** The waves, the queues of a target. The error is what kept it from being opened; problems are lines about what is odd or missing. */
struct uh_error *uh_look_waves(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx);
struct uh_error *uh_look_queues(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx);
/** The kernels in the code: what they need, which arguments they take. */
struct uh_error *uh_look_code(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx);
/** What is at addresses (0x7f00, or KERNEL+0x34) of the code; *@ret_missed of them are nowhere. */
struct uh_error *uh_look_where(const struct uh_look_options *o, const char *const *addresses, size_t n, FILE *out,
			       uh_problem_fn *problem, void *ctx, unsigned *ret_missed);

/** Registers by name, pattern or address, of a GPU or of a device core; without names those of every look. *@ret_read of them could be read. */
struct uh_error *uh_look_regs(const struct uh_look_options *o, const char *const *names, size_t n, FILE *out,
			      uh_problem_fn *problem, void *ctx, unsigned *ret_read);
/** What values mean: NAME=VALUE, or NAME.FIELD=VALUE, in registers of @part (gfx1100, or a table such as mmhub_3_0_0). */
struct uh_error *uh_decode_regs(const struct uh_look_options *o, const char *part, const char *const *values, size_t n,
				FILE *out, uh_problem_fn *problem, void *ctx);
/** The registers of @part whose names are like any of @patterns; all where there is none. */
struct uh_error *uh_list_regs(const struct uh_look_options *o, const char *part, const char *const *patterns, size_t n,
			      FILE *out, uh_problem_fn *problem, void *ctx);
/** The driver's rings, of GPUs or of a device core, whose names are like any of @names; all where there is none. */
struct uh_error *uh_look_rings(const struct uh_look_options *o, const char *const *names, size_t n, FILE *out,
			       uh_problem_fn *problem, void *ctx);

/** The same again and again, until @out cannot be written, or @o says how many looks: the packets that the driver writes, and where the engine
 * is, in one line each; the time between two looks is at least a tenth of a second. */
struct uh_error *uh_follow_rings(const struct uh_look_options *o, double seconds, const char *const *names, size_t n, FILE *out,
				 uh_problem_fn *problem, void *ctx);

/** Memory that a GPU sees. */
struct uh_memory_query {
	const char *address; // a number
	int vmid;            // whose address it is; -1: that of the process, or of the only one that computes
	long long pid;       // 0: none was named
	int xcc;             // -1: the one that has it, where that is clear
	unsigned long long length; // bytes; 0: some
	bool walk;                 // through which entries of the page tables the GPU gets there, and what is mapped around it
	bool code;                 // the bytes as instructions
	bool fault;                // the address of a page fault in this machine's log, instead of one that is named
	const char *incident;      // of this incident; NULL: the newest
};
/** Bytes, page tables and instructions behind an address. The error says what is ambiguous, or why nothing can be read. */
struct uh_error *uh_look_memory(const struct uh_look_options *o, const struct uh_memory_query *q, FILE *out,
				uh_problem_fn *problem, void *ctx);

/** Commands for a GPU, from its memory or from words that somebody has. */
struct uh_packets_query {
	const char *part;     // whose packets they are: gfx1100; NULL: those of the GPU that is looked at
	const char *language; // pm4, sdma, mes or aql; NULL: pm4
	const char *path;     // a file of words, as bytes or as hexadecimal numbers; `-`: standard input; NULL: the buffer at an address
	struct uh_memory_query at;
};
/** Takes them apart, with the buffers that they run where these can be read. */
struct uh_error *uh_look_packets(const struct uh_look_options *o, const struct uh_packets_query *q, FILE *out,
				 uh_problem_fn *problem, void *ctx);

/** One screen for all GPUs, again and again. It remembers what it saw before, which shows what moves. */
struct uh_top;
struct uh_top_style {
	unsigned width, height; // of the terminal; 0: a line for each GPU, without control characters
	unsigned seconds;       // between two of them, for the head
	bool colour, json;      // json: a line
};
/** @gpu: only this one; NULL: all. @state_dir: where incidents are stored; NULL: as unhang watch has it. */
struct uh_top *uh_top_new(const char *gpu, const char *state_dir, uh_problem_fn *problem, void *ctx);
/** Looks at them and writes what was seen. Nothing of a GPU that sleeps is read. */
struct uh_error *uh_top_write(struct uh_top *t, const struct uh_top_style *style, FILE *out);
void uh_top_free(struct uh_top *t);

/** What the flight recorder of a job saw last. */
struct uh_last_options {
	const char *const
		*targets; // recordings, directories with recordings, or numbers of processes; none: the newest of this user
	size_t ntargets;
	bool json, all;             // all: every packet that is there
	unsigned packets;           // of each queue before those in flight, in JSON
	unsigned long long address; // what is it in or near? 0: not asked
	const char *perfetto;       // a file for the timeline; NULL: none
};
/** The error is that there is no recording that can be read. */
struct uh_error *uh_last(const struct uh_last_options *o, FILE *out, uh_problem_fn *problem, void *ctx);
/** Asks the recorder of a process for another level. The error says why it cannot have it. */
struct uh_error *uh_record_level(const char *target, unsigned level, FILE *out);

/** A failing launch as a program of its own. */
struct uh_repro_options {
	const char *target;      // a recording, a bundle, a core, or the directory of a run
	const char *directory;   // where the program goes: it is made, or empty
	const char *inputs;      // directory with inputs that level 10 saved; NULL: where the recording says
	const char *const *code; // files and directories with the code
	size_t ncode;
	unsigned before;      // so many earlier launches at most
	bool user_data;       // what buffers held is saved, too
	bool redact;          // without names of program, machine and paths
	bool check, shrink;   // build and run it; make it smaller as long as it fails alike
	unsigned runs;        // of it at most
	unsigned seconds;     // that a run may take
	const char *recorder; // libunhang-recorder.so; NULL: it is not here, and nothing can be checked
	bool json;
	void (*tell)(const char *line); // progress; NULL: nobody wants to know
};
/** The error is that there is no program. *ret_alike: it was run, and failed alike; without a check, too. */
struct uh_error *uh_repro(const struct uh_repro_options *o, FILE *out, uh_problem_fn *problem, void *ctx, bool *ret_alike);

/** What the doctor looks at, and how it writes. */
struct uh_doctor_options {
	const char *root;           // the proc, sys, etc, boot, usr, ... of another machine, or a bundle; NULL: this one
	struct uh_machine *machine; // NULL: this one
	bool json, verbose, colour;
	unsigned width;   // columns of the terminal; 0: 80
	const char *hip;  // of a smoke test: the HIP runtime; NULL: ROCm's
	unsigned seconds; // of a smoke test, for each GPU; 0: UH_SMOKE_SECONDS
	// of changes
	bool yes, dry_run;
	bool (*ask)(const char *question); // on the terminal; NULL: there is none
	const char *profile;               // directory for variables of one job; NULL: the current one
};
enum { UH_SMOKE_SECONDS = 30 };
/** Holds this machine's kernel, firmware, parameters and software against what is known. *@ret_wrong findings are critical or warnings.
 * The error is that there is nothing to look at. */
struct uh_error *uh_doctor(const struct uh_doctor_options *o, FILE *out, uh_problem_fn *problem, void *ctx,
			   unsigned *ret_wrong);
/** Makes the change of a finding or of a remedy, or takes it back, in files of its own where that is possible; it shows and asks first.
 * No other program is run. The error is the reason why nothing was done. */
struct uh_error *uh_doctor_apply(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem,
				 void *ctx);
struct uh_error *uh_doctor_undo(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem,
				void *ctx);
/** The changes that were made, or the one @id, and whether they are in effect. *@ret_half of them were cut short, *@ret_wrong are not in
 * effect. */
struct uh_error *uh_doctor_applied(const struct uh_doctor_options *o, const char *id, FILE *out, uh_problem_fn *problem,
				   void *ctx, unsigned *ret_half, unsigned *ret_wrong);
/** Lets each GPU of this machine compute and copy a little, through ROCm's HIP runtime, in a process of its own with a deadline.
 * *@ret_failed of them did not. The error is that none was tried. */
struct uh_error *uh_doctor_smoke(const struct uh_doctor_options *o, FILE *out, unsigned *ret_failed);

/** Which cases, and how they are written. */
struct uh_cases_options {
	const char *part, *cause, *program; // patterns: only cases with such a part (gfx1151), class or program; NULL: all
	bool json;
	unsigned width; // columns of the terminal; 0: 80
};
/** Leaves cases out: OWNER/REPO#NUMBER, separated by commas, or @FILE with such a list. The error is that the file cannot be read. */
struct uh_error *uh_session_without(struct uh_session *s, const char *list);
/** The base of cases, but for those that are left out. The error is that there is no such class or part. */
struct uh_error *uh_session_list_cases(struct uh_session *s, FILE *out, const struct uh_cases_options *o);
/** Cases like the incidents of a session that has ended. */
void uh_session_report_cases(struct uh_session *s, FILE *out, const struct uh_cases_options *o);
/** The same of a case of the base, OWNER/REPO#NUMBER, by its own facts. false: the base has none of this name. */
bool uh_session_like_case(struct uh_session *s, const char *source, FILE *out, const struct uh_cases_options *o);
/** Whether it names a thread, as OWNER/REPO#NUMBER or https://..., and not a file. */
bool uh_session_is_thread(const char *word);
/** A case to be filled in, of the first incident; @link: where it was reported. The error is that there is none, or that it is no link. */
struct uh_error *uh_session_draft_case(struct uh_session *s, const char *link, FILE *out);

/** How one remedy is written. */
struct uh_remedy_options {
	bool json, colour;
	unsigned width; // columns of the terminal; 0: 80
};
/** All that is known of a remedy: its steps on this machine, cost, undo, sources. The error is that there is none of this name, and which
 * was meant. */
struct uh_error *uh_remedy(const struct uh_remedy_options *o, const char *id, FILE *out, uh_problem_fn *problem, void *ctx);

/** How much of what users' programs keep in memory goes into a bundle. */
enum uh_user_data { UH_USER_NONE, UH_USER_REGISTERS, UH_USER_ALL };
/** By its word: none, registers, all. false: it is none of them. */
bool uh_user_data_named(const char *word, enum uh_user_data *ret);
struct uh_capture_options {
	const char *file;      // that is made, or a directory; NULL: unhang-HOST-TIME.tar.zst in the current directory
	const long long *pids; // processes beside those that hold a GPU
	size_t npids;
	enum uh_user_data user_data;
	unsigned seconds; // for all of it; 0: 30
	bool redact, bug_report, json;
	bool tools;               // run py-spy, where it is installed
	bool attach_debugger;     // run rocgdb: it may take every queue off the GPU
	bool release_devcoredump; // free dumps when they are saved, so that the driver can make others
	uh_progress_fn *progress; // what is being saved; NULL
	void *progress_ctx;
	bool (*stopped)(void *ctx); // whether somebody wants it to end now; NULL
	void *stopped_ctx;
};
/** Saves all evidence of this machine in one bundle. The error is that there is none. */
struct uh_error *uh_capture(const struct uh_capture_options *o, FILE *out, uh_problem_fn *problem, void *ctx);

/** What is tested, beside what only reads. */
struct uh_selftest_options {
	const char *gpu;      // only this one, by PCI address or number; NULL: all
	bool launch;          // tiny kernels of its own, through ROCm
	bool fault;           // a page fault of its own
	const char *recorder; // libunhang-recorder.so; NULL: it is not here
	bool json;            // the document instead of the table
	const char
		*file; // where the document goes, with names replaced; NULL: unhang-selftest-TIME.json here, or with @json none
	unsigned width;           // columns; 0: 80
	uh_progress_fn *progress; // NULL
	void *progress_ctx;
};
/** Holds what unhang reads of this machine's GPUs against what their driver tells elsewhere. The error is that there is no GPU, or that the
 * file could not be written. *@ret_failed, *@ret_passed: checks. */
struct uh_error *uh_selftest(const struct uh_selftest_options *o, FILE *out, uh_problem_fn *problem, void *ctx,
			     unsigned *ret_failed, unsigned *ret_passed);

/** How the watch runs. NULL: as the configuration says. */
struct uh_watch_options {
	const char *config; // file; NULL: /etc/unhang/watch.conf
	const char *state_dir, *run_dir, *hooks_dir;
	bool check_config; // only say whether it is right
	bool until_quiet;  // end when the log was read and nothing is left to do
};
/** Watches this machine until SIGTERM. Problems are mistakes in the configuration. The error is that it could not begin. */
struct uh_error *uh_watch(const struct uh_watch_options *o, FILE *out, uh_problem_fn *problem, void *ctx);

/** What becomes of the core files of a job. */
enum uh_cores { UH_CORES_KEEP, UH_CORES_EXPLAIN, UH_CORES_OFF };
/** A job, and what is done around it. Seconds are 0 where the usual counts. */
struct uh_run_options {
	char *const *command;    // ends with NULL
	const char *state_dir;   // NULL: /var/lib/unhang/runs for root, else below the user's state directory
	const char *status_file; // written whole at each change; NULL: none
	const char *recorder;    // the library of the flight recorder; NULL: the job runs without
	const char *python;      // the directory of its sitecustomize.py; NULL: Python's operations have no names
	const char *agent;       // the library of ROCm's debug agent; NULL: none
	const char *allocator;   // the library of guard and pool; NULL: the job runs without
	const char *guard;       // what of UNHANG_GUARD is set, `above` by default; NULL: no guard
	unsigned guard_align;    // 0: as usual
	bool pool;
	const char *const *env;  // NAME=VALUE
	size_t nenv;
	const char *const *on_repeat; // NAME=VALUE, level=N, profile=FILE
	size_t non_repeat;
	const char *profile, *resume, *checkpoint, *crash_diagnostics, *hooks; // NULL
	unsigned silent, deadline, grace, hang_after, delay;
	bool delay_given;
	unsigned restarts;
	int level;
	bool allow_inputs, quiet, json;
	unsigned width; // columns of the report; 0: 80
	enum uh_cores cores;
};
/** Runs it to its end, and reports to @out. *@ret_status is the job's exit status, 128 and more where a signal ended it. The error is that
 * it could not be started; then *@ret_status is 126 or 127, as a shell has it, or -1 where it was refused. */
struct uh_error *uh_run(const struct uh_run_options *o, FILE *out, int *ret_status);

/** How the runs of a trial are made, counted and told. */
struct uh_trial_options {
	char *const *command;   // ends with NULL
	const char *recorder;   // the library of the flight recorder; NULL: the job runs without
	const char *state_dir;  // NULL: /var/lib/unhang/KIND for root, else below the user's state directory
	const char *fails_if;   // NULL: `status or hang`
	const char *html;       // a file to write the answer to; NULL: none
	const char *const *env; // NAME=VALUE
	size_t nenv;
	unsigned hang_after, budget; // seconds; 0: as usual, none
	unsigned jobs;               // runs at a time, each on a GPU of its own; 0: one
	unsigned low_rate;           // per cent; 0: 5
	bool fresh, json;
	unsigned width; // columns of the answer; 0: 80
};

/** What is behind a job that fails: it is run as it is, and with one thing changed, until that is told. */
/** How a trial ended. */
enum uh_trial_end {
	UH_TRIAL_OPEN,     // undecided, or not finished
	UH_TRIAL_ANSWERED,
	UH_TRIAL_IMPOSSIBLE, // it cannot tell anything of this job
};

struct uh_try_options {
	struct uh_trial_options job;
	const char *const *names; // of experiments; none: all that apply
	size_t nnames;
	const char *program;  // unhang itself, under which runs are studied
	bool allocator;       // the library of guard and pool is here
	unsigned guard_align; // 0: as usual
	bool unrecorded;      // also a job of which nothing is recorded on a GPU
};
/** @say: where the plan and each experiment are told; NULL: nowhere. */
struct uh_error *uh_try(const struct uh_try_options *o, FILE *out, FILE *say, uh_problem_fn *problem, void *ctx,
			enum uh_trial_end *ret);

/** Which two launches of a job race: it is run again and again, with launches that wait for each other or begin later. */
struct uh_bisect_options {
	struct uh_trial_options job; // with a recorder
	unsigned repro;              // seconds after which a run ends; 0: it goes on
};
/** @say: where the plan and each question are told; NULL: nowhere. */
struct uh_error *uh_bisect(const struct uh_bisect_options *o, FILE *out, FILE *say, uh_problem_fn *problem, void *ctx,
			   enum uh_trial_end *ret);

/** The handler that ROCm's runtime pipes GPU cores into. */
struct uh_core_options {
	int64_t pid;           // of the process that failed, which waits; 0: not known
	const char *state_dir; // NULL: /var/lib/unhang for root, else below the user's state directory
	bool all;              // keep all of the core
	unsigned megabytes;    // that a core may have; 0: as usual
};
/** Reads the core from standard input to its end, stores a light one and explains it as an incident. It prints nothing and has no error: the
 * process that waits is not to notice it. */
void uh_core(const struct uh_core_options *o);

struct uh_incidents_options {
	const char *state_dir; // NULL: /var/lib/unhang
	const char *run_dir;   // where the watch writes its state; NULL: /run/unhang, if state_dir is NULL too
	const char *id;        // NULL: all
	bool open;             // only those that are not closed
	bool json;
	unsigned width; // columns of the terminal; 0: 80
};
/** Adds the bundle of an incident that the watch stored. The error is that there is none. */
struct uh_error *uh_session_add_incident(struct uh_session *s, const char *state_dir, const char *id);
/** Closes one of them; @why, for its record, may be NULL. A watch that runs does it, tells the journal and runs its hooks. The error is that
 * there is none of this id, that the user may not, or that the watch did not. */
struct uh_error *uh_incident_close(const char *state_dir, const char *id, const char *why, FILE *out);
/** The incidents that the watch stored, the newest first; or one. The error is that there is none of this id. */
struct uh_error *uh_incidents(const struct uh_incidents_options *o, FILE *out);

/** What of the history, and how it is written. */
struct uh_history_options {
	const char *store; // directory of a watch, a file, or postgresql://...; NULL: this machine's
	// Only such incidents; * stands for any letters. NULL: all.
	const char *since, *until, *cause, *node, *gpu, *serial, *part, *program, *job, *fingerprint;
	const char *id; // only this incident, with all that is known of it; NULL: none
	bool filtered;  // one of them is given
	bool open;      // only those that are not over
	bool json, csv;
	bool list;        // each incident, in place of what they have in common
	bool remedies;    // whether changes helped
	bool nodes, gpus; // how often each of them fails
	const char *html; // directory for pages; NULL: none
	unsigned most;    // incidents or changes; 0: as many as fit
	bool all;         // of them
	unsigned long long skip;
	unsigned width; // columns of the terminal; 0: 80
};
/** What happened over time. The error is that there is no history, or it cannot be read. */
struct uh_error *uh_history(const struct uh_history_options *o, FILE *out, uh_problem_fn *problem, void *ctx);

/** Puts the incidents of a session that has ended into the store in this directory. They are on the disk where there is no error. */
struct uh_error *uh_session_store(struct uh_session *s, const char *store);

/** Spools of machines into one store. */
struct uh_collect_options {
	const char *const *spools; // directories
	size_t nspools;
	const char *store; // a directory, a file, or postgresql://...
	bool follow;       // until SIGTERM
};
/** The error is that a spool or the store cannot be used; a server that is gone is waited for. */
struct uh_error *uh_collect(const struct uh_collect_options *o, FILE *out, uh_problem_fn *problem, void *ctx);
/** Brings a store to the form that this unhang knows; says whether it is sound; makes the index of a directory anew. */
struct uh_error *uh_store_migrate(const char *store, FILE *out);
struct uh_error *uh_store_check(const char *store, FILE *out, bool *ret_good);
struct uh_error *uh_store_rebuild(const char *store, FILE *out);

/** A tree of evidence, each file explained once. */
struct uh_triage_options {
	const char *const *paths; // files and directories
	size_t npaths;
	const char *store;    // directory
	unsigned jobs;        // at once
	unsigned part, parts; // only files whose content falls into part @part, from 0 on, of @parts
};
/** *@ret_failed files could not be read or explained. The error is that the store cannot be written. */
struct uh_error *uh_triage(const struct uh_triage_options *o, FILE *out, uh_problem_fn *problem, void *ctx,
			   unsigned *ret_failed);

/** The pages of the history by HTTP. */
struct uh_serve_options {
	const char *store;  // as in uh_history_options
	const char *listen; // PORT, ADDRESS:PORT, or a path for a Unix socket; NULL: 127.0.0.1:8777
	bool behind_proxy;  // others may reach it: a proxy asks them who they are
};
/** Until SIGTERM or SIGINT. The error is that it cannot listen, or there is no history. */
struct uh_error *uh_serve(const struct uh_serve_options *o, FILE *out, uh_problem_fn *problem, void *ctx);

/** Whether the next job may run on this node. */
enum uh_check_form { UH_CHECK_TEXT, UH_CHECK_SLURM, UH_CHECK_NPD, UH_CHECK_PROMETHEUS };
struct uh_check_options {
	enum uh_check_form form;         // others than TEXT only read what the watch wrote
	bool json;                       // of TEXT
	bool look;                       // look at the GPUs, whatever the watch says
	const char *run_dir, *state_dir; // of the watch; NULL: the usual ones
	const char *file;                // of PROMETHEUS
	const char *publish;             // a directory: the document goes to HOST.json in it; NULL
	const char *partition;           // that each GPU is to have; NULL: any
	unsigned expected;               // GPUs; 0: any number
	unsigned new_rules;              // per cent of machines on which the newest rules are in force; 0: the usual
	unsigned width;
};
/** *@ret_status: the exit status: 0 fit, 1 not fit, 2 unknown. The error is that a file could not be written. */
struct uh_error *uh_check(const struct uh_check_options *o, FILE *out, int *ret_status);
/** The smoke test of unhang doctor, whose end is noted for this boot. */
struct uh_error *uh_check_smoke(const struct uh_check_options *o, FILE *out, bool *ret_good);

/** unhang check on many hosts, over ssh. */
struct uh_fleet_options {
	const char *const *hosts; // node1,node2 or node[01-16]
	size_t nhosts;
	const char *ssh, *remote; // NULL: ssh, and unhang check --json
	unsigned at_once;         // 0: the usual
	bool all, json;
	bool any_name; // a host may call itself otherwise than it was called
};
struct uh_error *uh_fleet_check(const struct uh_fleet_options *o, FILE *out, int *ret_status);

/** The arbiter beside Slurm's controller. */
struct uh_arbiter_options {
	const char *nodes;     // where nodes publish (uh_check_options.publish)
	const char *owner;     // a user whose files there are believed besides root's; NULL
	const char *state_dir; // of its journal
	bool enforce;          // else it only writes what it would do
	bool reboots, once;
	unsigned most, percent;                // drains in an hour; 0: the usual
	unsigned held_most, held_percent;      // nodes that it keeps drained at a time; 0: the usual
	unsigned interval, stale, reboot_wait; // seconds; 0: the usual
};
/** Until SIGTERM or SIGINT. */
struct uh_error *uh_fleet_arbiter(const struct uh_arbiter_options *o, FILE *out, uh_problem_fn *problem, void *ctx);

/** What is known, and how to write about it. */
struct uh_knowledge_options {
	FILE *out;
	bool json;
	uh_problem_fn *mistake; // in the user's knowledge files: FILE:LINE: what is wrong
	uh_problem_fn *problem; // of what could not be read
	void *ctx;
};
/** The name of the nth kind; NULL behind the last. */
const char *uh_knowledge_kind(size_t n);
/** The blocks of a kind, or of those kinds that people ask for (NULL). The error is that there is no such kind. */
struct uh_error *uh_knowledge_list(const struct uh_knowledge_options *o, const char *kind);
/** The blocks that are called @id. The error is that there is none. */
struct uh_error *uh_knowledge_show(const struct uh_knowledge_options *o, const char *id);
/** Whether a knowledge file is right: *@ret_mistakes were told. The error is that it could not be read. */
struct uh_error *uh_knowledge_check(const struct uh_knowledge_options *o, const char *path, unsigned *ret_mistakes);
/** What each line of a log is recognised as; NULL: of standard input. *@ret_failed sources could not be read, and were told. */
struct uh_error *uh_knowledge_match(const struct uh_knowledge_options *o, const char *path, unsigned *ret_failed);

/** Which version of knowledge is in use below @root (NULL: this machine), and where it is from. */
void uh_knowledge_version(const char *root, bool json, FILE *out);
/** Installs signed knowledge, where a key is trusted that signed it and it is newer. With @dry_run it only says so. */
struct uh_error *uh_knowledge_update(const char *root, const char *path, bool dry_run, FILE *out);
/** Takes it back: what is built in is used. */
struct uh_error *uh_knowledge_remove(const char *root, FILE *out);
/** Makes a key to sign with: @path, and @path.pub for those who trust it. */
struct uh_error *uh_knowledge_key(const char *path, FILE *out);

struct uh_export_options {
	const char *key;  // file
	const char *note; // NULL: none
	const char *file; // that is written; NULL: @out
	unsigned long long version;
};
/** Signs knowledge files; without any, all that this machine knows. */
struct uh_error *uh_knowledge_export(const struct uh_export_options *o, const char *const *paths, size_t n, FILE *out);

#ifdef __cplusplus
}
#endif
