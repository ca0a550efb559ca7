// What is known: the blocks of the knowledge files, as the rest of the program uses them.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "knowledge/block.h"
#include "knowledge/condition.h"
#include "knowledge/cases/cases.h"
#include "knowledge/know_gpu.h"
#include "knowledge/know_head.h"
#include "knowledge/know_run.h"
#include "knowledge/kinds/system.h"
#include "knowledge/know_work.h"
#include "knowledge/template.h"

enum know_level { LEVEL_INFO, LEVEL_WARNING, LEVEL_ERROR };
enum know_opens { OPENS_LATER, OPENS_YES, OPENS_CONTEXT };
enum know_frame { FRAME_NO, FRAME_YES, FRAME_NEAR };
/** What an event tells of the life of the machine or a GPU, for those who follow it. */
enum know_tells {
	TELLS_NOTHING,
	TELLS_NOTICE, // what healthy machines print too
	TELLS_BOOT,
	TELLS_COMMAND_LINE,
	TELLS_GPU_FOUND,
	TELLS_GPU_READY,
	TELLS_IDENTITY, // which part a GPU is
	TELLS_RANK_GPU,
	TELLS_PROCESS, // how a process of a job ended, by its recorder
	TELLS_SLEEP,
	TELLS_WAKE,
	TELLS_RESET_BEGINS,
	TELLS_RING_RESET_BEGINS,
	TELLS_INSIDE_RESET, // it is printed only while a reset runs
	TELLS_RESET_ENDS,
	TELLS_RESET_FAILS,
	TELLS_FRAME,         // a function of the driver, in a stack
	TELLS_FRAME_PROCESS, // whose stack it is
	TELLS_PACKET,
	TELLS_PACKET_KERNEL, // the kernel of the packet that follows
	TELLS_IN_FLIGHT,     // a kernel that has begun and not ended
	TELLS_CONTEXT,       // what work it was
	TELLS_FAULTED,       // the function of the driver in which the kernel failed
	TELLS_ELSEWHERE,     // it failed in another module, or in what every module uses
	TELLS_UNREAD,        // the command that was to save the log was refused
	TELLS_UNKNOWN,       // of a failure that nobody has described yet
	TELLS_CORRECTED,     // hardware errors that harmed nothing: ras_count of them, or one
};
/** Where an event of a bus was seen: it may be about any device. */
enum know_bus { BUS_NONE, BUS_PCIE, BUS_SLOT, BUS_IOMMU, BUS_GUEST, BUS_PORT };
/** How a kernel failed, where the event alone says it. */
enum know_fails { FAILS_UNSAID, FAILS_ASSERT, FAILS_HANG };
enum know_role { ROLE_CAUSE, ROLE_EFFECT, ROLE_ARTEFACT, ROLE_BYSTANDER };

// Ids that stand in C; resolve.c tells where knowledge lacks one.
#define KNOW_EVENT_MESSAGE "driver-message" // what a message is that has no event of its own
#define KNOW_CLASS_RESET_LOOP "reset-loop"

struct know_event {
	struct know_head head;
	struct str title, say, many, tag;
	struct str aside; // said only where there is no incident
	enum know_opens opens;
	enum know_role in_reset;
	enum know_frame needs_frame;
	bool hang, means_reset, needs_gpu;
	int keep;            // how many of them an incident keeps
	bool once;           // several messages report the same thing
	bool any_vendor;     // NVIDIA's software prints the same
	bool any_machine;    // so do machines without a GPU
	bool of_rank;        // it speaks for one process of a job
	bool before_failure; // the newest before a failure is told with it
	bool told_hang;      // how a program learns of a hang that the kernel's log explains
	bool note;           // said by itself, also where there is no incident
	bool quiet;          // only shown when every event is asked for
	bool whole;          // the first screen has it, and has all of it
	bool announced;      // a fatal error that another GPU of the hive may have announced just before
	bool announces;      // it tells that there is an error, and another message which, perhaps of another GPU of the hive
	int gap;             // seconds without news after which its incident is over
	enum know_tells tells;
	enum know_bus bus;
	enum know_fails fails_by;
	bool as_hang;         // programs are told it as a hang
	bool followed;        // its facts stand on the lines that follow, so that it cannot be told from others before them
	bool until_ready;     // it was none that mattered where the driver has started the GPU all the same
	bool waits;           // somebody waits for a kernel to end
	bool late_job;        // it names the process whose job was late, which may not be the one that hung the GPU
	bool of_process;      // of one process alone: the same of another is another incident
	bool frees_ring;      // the late work of a ring ended, and the GPU goes on
	bool undoes_reset;    // behind the end of a reset it says that the GPU did not come back
	bool trouble;         // told without an incident, it may be one that is not known
	bool log_decides;     // without the kernel's log of the time its cause may be another one
	bool machine_decides; // the same without part, kernel and firmware
};

struct know_signature {
	struct know_head head;
	const struct know_event *event; // that it reports; NULL for a message that is only recognised
	struct know_list *detail_ids;   // events that it adds facts to, instead
	const struct know_event *details[4];
	struct str event_id, subsystem;
	enum know_level level;
	struct know_pair *sets;
	struct condition *when; // on its values, without which the message is not meant
	struct template **templates;
	size_t ntemplates;
	struct str reader; // of the artefact that reports it, where no message does
	bool program;      // of a program, not of the kernel
	int of_other;      // it tells of another process than the one that wrote it
	struct str beside; // it counts only where the line speaks of an error
	bool bare;         // printed without the driver's prefix
	bool message;      // a one-line `message`, which any signature outweighs
	bool bank;         // a register of an error bank, which is decoded together with the others of it
	bool vague;        // words that any message of the driver may have; every other message outweighs it
};

/** What to run to learn more. */
struct know_next {
	struct str why, run;
	struct know_list *work; // the kinds of work that it is meant for; NULL: any
	struct condition *when;
	struct know_next *next;
};

/** What a report draws of an incident. */
enum know_picture {
	SHOWS_TIMELINE,
	SHOWS_ADDRESSES,
	SHOWS_WAITS,
	SHOWS_LANES,
	SHOWS_RANKS,
	SHOWS_QUEUES,
	SHOWS_CHIP,
	SHOWS_KINDS
};

/** A kind of cause, or a word for what else an incident has. */
struct know_class {
	struct know_head head;
	struct str meaning;
	bool memory_fault;         // sources may name different ones of these for one faulting access
	bool gives_up;             // the others gave up waiting for a process that had failed
	bool reset_artefact;       // behind a reset it is a by-product of it
	bool compute_stuck;        // compute queues hold the GPU, so that the desktop's job is late
	enum know_picture picture; // that tells most of it
};

/** What words around a failure say of the work. */
struct know_context {
	struct know_head head;
	struct know_list *words;     // phrases in lower case, as words of their own
	struct know_list *processes; // patterns of names of programs that mean it
	struct know_pair *says;      // facts
	struct str version;          // the fact that a version behind the phrase becomes; empty: none
};

/** How far down the chain a cause stands. */
enum know_band {
	BAND_FIRST,       // it explains what follows
	BAND_SYMPTOM,     // something may stand behind it, yet it begins something new after a reset
	BAND_LATE,        // it is mostly an effect
	BAND_AFTERMATH,   // it follows from a reset
	BAND_UNEXPLAINED, // all that is known is that there was a reset
};

/** What a thread or document says that blocks cite. */
struct know_source {
	struct know_head head;
	struct str says, confirms;
};

/** A step of a chain that causes may stand at. */
struct know_stage {
	struct know_head head;
	struct str title;
	enum know_band counts;
};

/** What can lead to what. */
struct know_lead {
	struct know_head head;
	struct know_list *from, *to; // stages or classes; * for any
	int within;                  // seconds behind the cause at most
	int late;                    // seconds that the message of the cause may stand behind that of its effect
	struct know_list *at;        // phases of the effect; NULL: any
	struct str why;
};

struct know_cause {
	struct know_head head;
	struct know_list *from;
	struct know_list *beside, *without; // events of which the incident has one, or none
	struct condition *when;
	int confidence, severity;
	struct str stage_id;
	const struct know_stage *stage; // never NULL
	const struct know_class *class; // never NULL
	struct str title, explain, fault;
	struct know_pair *explains_for; // a kind of work -> what to say there instead of explain
	struct know_next *next_steps;
};

/** What a remedy changes, so that a machine can tell whether it is in force, and make the change. */
struct know_change {
	struct know_pair *sets;              // a parameter of the kernel or of a module -> its value
	struct know_pair *clears;            // a parameter that is a mask -> bits to take out of the value in effect
	struct know_pair *envs;              // a variable in the environment of one job -> its value
	struct know_pair *sessions, *limits; // of every login: a variable -> its value, a resource (core) -> its soft limit
	struct know_list *drops;             // parameters to set no more
};

/** How much a remedy asks of its user, the least first. */
enum know_takes { TAKES_NOTHING, TAKES_RESTART, TAKES_REBOOT, TAKES_INSTALL, TAKES_HARDWARE };

struct know_remedy {
	struct know_head head;
	struct know_list *for_classes, *steps;
	struct know_list *work; // the kinds of work that it is meant for; NULL: any
	struct condition *when, *unless;
	struct condition *obsolete; // versions that make it unnecessary
	struct condition *applied;  // it is in force where this holds, besides where its changes are
	struct str kind, title, undo, cost, risk, until, grade, source, condition_text, verify;
	enum know_takes takes;
	bool first;   // before all others: it takes back what brought the failure
	bool last;    // behind all others: it names no cause, or only helps to find it
	bool general; // it is offered where nothing better is known
	struct know_change change;
};

/** How bad a finding is, the worst first. */
enum know_severity { SEVERITY_CRITICAL, SEVERITY_WARNING, SEVERITY_ADVICE, SEVERITY_OK, SEVERITY_UNSAID };

struct know_bad {
	struct know_head head;
	struct know_list *for_classes;
	struct condition *when;
	struct str title, good, why, undo, cost, verify, grade, source;
	struct str begins, ends; // the release or commit at each end of its versions, or `open: REASON`
	struct str remedy_id;
	const struct know_remedy *remedy; // what helps; NULL: what @good says
	enum know_severity severity;
};

/** What the doctor looks for. */
struct know_check {
	struct know_head head;
	struct str each; // the kind of items that it is asked of, one by one; empty: the machine
	enum know_severity severity;
	struct condition *when, *unless;
	struct str title, seen, why;
	struct str remedy_id;
	const struct know_remedy *remedy; // says what the block itself does not
	struct know_list *steps;
	struct str undo, cost, risk, until, verify, grade, source;
	struct know_change change;
	struct know_list *hides; // findings that need not be told where this one is
	bool without_gpu;        // asked also where there is no GPU
};

/** What is said of something that a user has set, beside an incident. */
struct know_setting {
	struct know_head head;
	struct know_list *for_classes; // none: all
	struct condition *when, *unless;
	struct str say, grade, source;
};

/** Whether the machine can take the next job as it is. */
enum know_fit { FIT_UNKNOWN, FIT_YES, FIT_NO };

struct know_action {
	struct know_head head;
	struct condition *when;
	struct str action, text;
	struct str saved; // in place of the text where the evidence lies in a bundle
	struct str ended; // in place of both where the program does not run any more
	struct str service, source; // what is to be done with a module that has a hardware error, and who says so
	enum know_fit fit;
	struct know_next *next_steps; // before those of the cause: what must not be lost
	struct know_next *then_steps; // behind them, where their condition holds
};

/** A parameter of a kernel module (amdgpu.cwsr_enable) or of the kernel (iommu). What it means for one kernel: knowledge/parameter.h. */
struct know_parameter {
	struct know_head head;
	struct str type, default_value; // the default as /sys/module shows it; no pointer: not known
	struct str since, until;        // the first kernel that has it, and the first that has it no more; empty: not known
	struct know_list *seen, *lacks; // versions in whose sources it is, and is not
	struct know_pair *was;          // version -> its default there, and its type where that was another
	struct know_list *reads;        // values that the driver itself writes to it, besides the default
	struct know_list *changed;      // what else differs between versions, for people
	struct know_pair *bits, *values;
	struct str config; // option without which a kernel is built without it
	bool writable;     // by root, while the module is loaded
	struct str never;  // of a mask: bits that the driver leaves off, which no value that is proposed has
	int shows_first;   // of a list of values /sys shows the first
	int absent;        // no kernel has it: guides invented it
	struct str meaning, instead, source;
	struct know_change instead_change; // what does what was meant
};

/** A row of a table of a line each: its name is the id. */
struct know_row {
	struct know_head head;
	struct str value; // empty where the names are all
};

/** A file as it was read. */
struct know_text {
	const char *name;
	struct str text;
};

enum { KNOW_LETTERS = 32 };
/** Which list of templates a letter has; capitals and small letters share one. */
static inline unsigned know_letter(char c) { return (unsigned char)c % KNOW_LETTERS; }

struct know {
	struct arena arena;
	// Blocks of each kind: pointers to structs that begin with a know_head. knowledge/kinds/table.c says which is where.
	VEC(struct know_event *) events;
	VEC(struct know_signature *) signatures;
	VEC(struct know_cause *) causes; // those of the user's files first
	VEC(struct know_remedy *) remedies;
	VEC(struct know_bad *) bad;
	VEC(struct know_check *) checks;
	VEC(struct know_setting *) settings;
	VEC(struct know_action *) actions;
	VEC(struct know_work_kind *) work_kinds; // in the order in which they are tried
	VEC(struct know_blame *) blames;         // as those
	VEC(struct know_question *) questions;
	VEC(struct know_explanation *) explanations;
	VEC(struct know_experiment *) experiments;
	VEC(struct know_suspect *) suspects;
	VEC(struct know_escalation *) escalations; // in the order in which they are tried
	VEC(struct know_last_words *) last_words;  // as those
	VEC(struct know_way *) ways;               // in the order in which they are tried
	VEC(struct know_sign *) signs;
	VEC(struct know_package *) packages; // in the order in which they are tried
	VEC(struct know_row *) usuals;       // pattern of distributions -> a fact and the value that it usually has
	VEC(struct know_parameter *) parameters;
	VEC(struct know_kernel *) kernels;
	VEC(struct know_instruction *) instructions;
	VEC(struct know_names *) names;
	VEC(struct know_part *) parts;
	VEC(struct know_row *) bridges;
	VEC(struct know_register *) registers;
	VEC(struct know_bank *) banks;
	VEC(struct know_error_severity *) error_severities; // in the order in which they are tried
	VEC(struct know_afid *) afids;                      // as those
	VEC(struct know_metrics *) metrics;
	VEC(struct know_sequence *) sequences;
	VEC(struct know_save_area *) save_areas;
	VEC(struct know_watch *) watches;
	VEC(struct know_unit *) units;
	VEC(struct know_verdict *) verdicts; // in the order in which they are tried
	VEC(struct know_queue_state *) states;     // in the order in which they are tried
	VEC(struct know_vote *) votes;
	VEC(struct know_work *) works; // in the order in which they are tried
	VEC(struct know_wave_words *) wave_words;
	VEC(struct know_packet *) packets;
	/** The first of each opcode, or type. */
	const struct know_packet *packets_of[PACKETS_UNKNOWN][KNOW_OPCODES];
	VEC(struct know_row *) rings; // pattern of names -> language of its packets
	VEC(struct know_row *) shaders; // register that says where a shader begins -> what kind of shader it is
	VEC(struct know_mqd *) mqds;
	VEC(struct know_mqd_words *) mqd_words;
	VEC(struct know_page_table *) page_tables;
	VEC(struct know_opening *) openings;
	VEC(struct know_row *) frames;  // what a stack frame says -> a part of its name
	VEC(struct know_row *) vendors; // amd or nvidia -> a word in a line that is evidence for it
	VEC(struct know_class *) classes;
	VEC(struct know_context *) contexts;
	VEC(struct know_source *) sources;
	struct know_base base; // of cases
	VEC(struct know_stage *) stages;
	VEC(struct know_lead *) leads; // in the order in which they are tried
	VEC(struct know_race *) races;
	VEC(struct know_row *) togethers;   // patterns of names of kernels that wait for others
	VEC(struct know_row *) matters;     // patterns of names of variables that change what a job does
	VEC(struct know_row *) desktop;     // roles of programs that draw the desktop
	VEC(struct know_row *) foreign;     // platform -> a part of steps that cannot be done there
	VEC(struct know_row *) switches;    // name of a program -> how it is told not to draw with the GPU
	VEC(struct know_row *) variables;   // pattern of names -> pattern of the parts of the value that are kept; empty: all
	VEC(struct know_row *) overrides;   // pattern of what code was built for -> patterns of the parts that run it
	VEC(struct know_row *) calibration; // points of evidence -> percent of such answers that were right
	VEC(struct know_row *) reasons;     // pattern of names of facts -> why a remedy is offered that asks for it
	VEC(struct know_row *) facts;       // pattern of names -> what type of value it is (base/command.h)
	VEC(struct know_row *) tools;       // name -> patterns of its file: below a ROCm, or anywhere
	VEC(struct know_row *) months;      // name -> number
	VEC(struct know_row *) anchors;
	/** Templates of failures by the letter that they begin with: among these a mistyped line is looked for. */
	VEC(const struct template *) typed[KNOW_LETTERS];
	struct matcher *matcher;
	uint64_t version;          // of what is in use: embedded, or the update's
	const char *update;        // the file of the update that is in use, or NULL
	struct arena update_arena; // its bytes
	VEC(struct know_text) texts;
	void *image; // knowledge/image.h: all of it lies in this memory; NULL: in pieces
};

/** The embedded files, the update that is installed, then the machine's and the user's. Problems of those are told, not fatal. */
enum { KNOW_FILE_MOST = 8 << 20 };
struct know *know_load(struct know_problems *problems);
/** The embedded files, the update that is installed, and @text as one more file: what `knowledge check` wants. */
struct know *know_load_with(const char *file, struct str text, struct know_problems *problems);
/** @text and nothing else, as a user's file. */
struct know *know_load_alone(const char *file, struct str text, struct know_problems *problems);
/** The embedded files and @update (NULL: none), whether it is newer or not; always from their text. */
struct container;
struct know *know_load_update(const struct container *update, struct know_problems *problems);
void know_free(struct know *k);

const struct know_event *know_event(const struct know *k, struct str id);
const struct know_class *know_class(const struct know *k, struct str id);
const struct know_signature *know_signature(const struct know *k, struct str id);
const struct know_register *know_register(const struct know *k, struct str id);
const struct know_remedy *know_remedy(const struct know *k, struct str id);
const struct know_part *know_part(const struct know *k, unsigned device, int revision);
/** Each name that people have for each part, in lower case; several parts may share one. */
typedef void know_part_name_fn(void *ctx, struct str name, const struct know_part *p);
void know_part_names(const struct know *k, know_part_name_fn *each, void *ctx);
/** The part of this name, or of this PCI device id; NULL where there is none, or *@ret_several. */
const struct know_part *know_part_called(const struct know *k, struct str name, bool *ret_several);
/** The first part of exactly this name; NULL. */
const struct know_part *know_part_with_name(const struct know *k, struct str name);
/** All parts with this target are inside a CPU. */
bool know_gfx_is_apu(const struct know *k, struct str gfx);
/** The row of a mnemonic: the one whose pattern says most; NULL where there is none. */
const struct know_instruction *know_instruction(const struct know *k, struct str mnemonic);
/** A block of the hardware by its name, or NULL. */
const struct know_unit *know_unit(const struct know *k, struct str name);
/** The packet of this header; NULL where it is not known. With an empty @gfx the first that the opcode fits. */
const struct know_packet *know_packet(const struct know *k, enum packet_language l, struct str gfx, int type, int opcode,
				      int sub);
/** PACKETS_UNKNOWN where the word is none of them. */
enum packet_language know_packet_language(struct str name);
/** Name of @number in the table @id; empty where there is none. */
struct str know_name(const struct know *k, struct str id, int64_t number);
/** Month 1 to 12 of a (localised, abbreviated) name, or 0. */
int know_month(const struct know *k, struct str name);
/** Whether one of the patterns fits, whatever its letters are, small or capital. */
bool know_lists(const struct know_list *patterns, struct str name);
/** What a package of this name is to a GPU; NULL: nothing. */
const struct know_package *know_package(const struct know *k, struct str name);
/** Whether this manager is known to bring the package under this name. */
bool know_package_by(const struct know_package *p, struct str manager, struct str name);
/** The role that the name of a program or thread alone says; empty: none. */
struct str know_program_role(const struct know *k, struct str name);
/** Whether @work, a list of kinds of work, has @kind. What is not known to be another kind is not left out. */
bool know_work_fits(const struct know_list *work, struct str kind);
bool know_is_desktop(const struct know *k, struct str process);
bool know_is_bridge(const struct know *k, struct str vendor_device);
/** How a program is told not to draw with the GPU; empty where that is not known. */
struct str know_switch(const struct know *k, struct str program);
/** The row of a variable of the environment that may be looked at; NULL: nothing of it is kept. */
const struct know_row *know_variable(const struct know *k, struct str name);
/** Whether @part runs what was built for @code, another part of its kind. */
bool know_runs(const struct know *k, struct str part, struct str code);
/** The code that is mostly taken for a part that programs have none for: of a row that names it, not a pattern; empty. */
struct str know_usual_code(const struct know *k, struct str part);

/** The best match in @line: a signature before a message, then the one with more text. */
bool know_match(const struct know *k, struct str line, struct match *ret);
/** The message of a failure that @line has with a letter or two mistyped; false also where it could be several. It takes long. */
bool know_match_typed(const struct know *k, struct str line, struct match *ret);
static inline const struct know_signature *match_signature(const struct match *m) { return m->template->owner; }
/** Whether its values are such as the signature means: a file of amdgpu's, not of any device's. */
bool match_is_meant(const struct match *m);

/** The knowledge files that are built in. */
struct know_file {
	const char *name;
	const char *begin, *end;
};
extern const struct know_file know_embedded[];
extern const uint64_t know_embedded_version;

/** Each file of what is built in, where @update (NULL: none) has one of the same name that one instead of it, then the others of
 * @update: those are @added. @name lives as long as @a. */
typedef void know_text_fn(void *ctx, const char *name, struct str text, bool added);
void know_each_text(struct arena *a, const struct container *update, know_text_fn *fn, void *ctx);
/** Takes the blocks of this kind and id out again; false where blocks of this kind cannot be taken out. */
bool know_retract(struct know *k, struct str kind, struct str id);

/** A block, as it is listed. */
struct know_listed {
	const char *kind;
	struct str id, text;
	const char *file;
	unsigned line;
	bool bulk; // one of many that need not be listed unless their kind is asked for
};
typedef void know_listed_fn(void *ctx, const struct know_listed *one);
/** Kind by kind. */
void know_each_block(const struct know *k, know_listed_fn *fn, void *ctx);
/** The name of each kind, in the same order; NULL behind the last. */
const char *know_kind_name(size_t n);
