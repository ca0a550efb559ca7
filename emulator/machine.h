// The inside of the emulated machine, for the files that read a scenario and answer for it.
#pragma once

#include "emulator/model.h"
#include "emulator/number.h"

// --- reading ---

enum {
	EMU_TEXT_MOST = 4 << 20,  // bytes of a scenario
	EMU_LINE_MOST = 64 << 10, // bytes of a line
	EMU_FEW = 1024,           // rings, firmwares, files, words of queues: of a GPU
	EMU_GPUS_MOST = 64,
	EMU_SLOTS_MOST = 1 << 16,  // of waves, in a GPU
	EMU_PLACES_MOST = 1 << 18, // waves, in a GPU, at all times
	EMU_WAVES_MOST = 4096,     // statements, in a GPU
	EMU_RING_MOST = 1 << 20,   // words
	EMU_QUEUES_MOST = 1024,
	EMU_PROCESSES_MOST = 256,
	EMU_PROCESS_MOST = 256 << 20, // bytes of memory of a process
};

struct emu_line {
	struct str text; // from the statement's name on
	unsigned number;
};

struct emu_block {
	struct str kind, id;
	unsigned line;
	struct emu_line *lines;
	size_t nlines;
};

/** What all readers share. The first error stays. */
struct emu_reader {
	const struct know *k;
	struct emu_machine *m;
	const char *file;
	struct uh_error *error;
	const struct emu_block *parts; // that may be named
	size_t nparts;
	size_t steps; // that were needed to find slots for waves
};

/** Where in a line the reader is. */
struct cursor {
	struct emu_reader *r;
	struct str rest;
	unsigned line;
};

/** false, always. */
bool emu_wrong(struct cursor *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Whether something follows that is no comment. */
bool cursor_more(struct cursor *c);
/** The next word; = ( ) are words of their own. Empty at the end. */
struct str cursor_peek(struct cursor *c);
struct str cursor_word(struct cursor *c);
/** Takes the next word if it is this one. */
bool cursor_is(struct cursor *c, const char *word);
/** All that is left, as it is. */
struct str cursor_text(struct cursor *c);
bool cursor_number(struct cursor *c, const char *what, uint64_t most, uint64_t *ret);
bool cursor_unsigned(struct cursor *c, const char *what, unsigned most, unsigned *ret);
bool cursor_seconds(struct cursor *c, double *ret);
/** Nothing more may follow. */
bool cursor_end(struct cursor *c);

/** The blocks of a text. */
bool emu_blocks(struct emu_reader *r, struct str text, struct emu_block **ret, size_t *ret_n);

struct emu_statement {
	const char *name;
	bool (*read)(struct cursor *c, void *of);
};
/** Reads each line of a block by the statement that its first word names. */
bool emu_statements(struct emu_reader *r, const struct emu_block *b, const struct emu_statement *statements, void *of);

// --- values ---

struct value;
/** @names: words that stand for 0, 1, ...; NULL. */
bool cursor_value(struct cursor *c, const char *const *names, const struct value **ret);
const struct value *value_constant(struct arena *a, uint64_t number);
/** @v times @factor, and of that the bits of @mask, shifted right. */
/** 64 bits of a process's memory, whatever is there when it is asked for; 0 where it cannot be read. */
const struct value *value_memory(struct arena *a, int pid, uint64_t address);
const struct value *value_scaled(struct arena *a, const struct value *v, uint64_t factor, uint64_t mask, unsigned shift);
uint64_t value_at(const struct value *v, double t);
bool value_changes(const struct value *v);

// --- words at addresses ---

struct emu_word {
	uint64_t address;
	size_t order;
	const struct value *value;
};
struct emu_words {
	VEC(struct emu_word) list;
	bool sorted;
};
void words_add(struct emu_words *w, uint64_t address, const struct value *v);
void words_sort(struct emu_words *w);
const struct emu_word *words_find(const struct emu_words *w, uint64_t address);
/** `ADDRESS VALUE...`, with addresses @step apart. */
bool words_read(struct cursor *c, struct emu_words *w, unsigned step);

// --- GPUs ---

/** What a statement sets of a register. */
struct emu_setting {
	uint32_t address;
	size_t order;
	struct bank bank;
	uint32_t mask;
	unsigned low;
	const struct value *value;
	bool passing; // while a guest keeps the GPU busy
};

struct emu_ring_state {
	struct str name;
	uint32_t words;
	const struct value *rptr, *wptr, *driver;
	uint32_t nop;
	const struct value *signaled, *emitted, *done;
	struct emu_words content;
};

/** What is in a file from a time on; the newest first. */
struct emu_content {
	double from;
	struct str text;
	const struct emu_content *older;
};

struct emu_file {
	struct str path;
	const struct emu_content *content;
};

struct emu_rule {
	struct str path;
	double from;
	struct emu_behaviour behaviour;
};

struct emu_gpr {
	bool vector;
	unsigned number;
	const struct value *value;
};

/** What a wave's word, or some bits of it, are. */
struct emu_wave_part {
	size_t word;
	uint32_t mask;
	unsigned low;
	const struct value *value;
	unsigned shift; // of the value
};

/** Units that were switched off in the factory. */
struct emu_harvested {
	int place[6]; // as those of waves
	bool silent;  // it answers as one without a wave
};

/** What the hardware writes of waves when it starts them. */
struct emu_dispatch {
	bool known;
	unsigned packet;      // its index in the queue
	unsigned group[3];    // of the first wave
	unsigned group_waves; // waves of a workgroup; 0: 1
};

struct emu_waves {
	int place[6]; // xcc, se, sh, cu, simd, slot; -1: any
	size_t n;
	size_t first; // index of the first of its places
	struct emu_dispatch dispatch;
	unsigned line;
	double from, until;
	VEC(struct emu_wave_part) parts;
	VEC(struct emu_gpr) gprs;
};

/** A wave in a slot, and the next in the same slot at another time. */
struct emu_wave_place {
	uint32_t waves, next; // index + 1; 0: none
};

/** A word of an MQD or HQD that a scenario sets. */
struct emu_queue_word {
	bool hqd;
	unsigned queue, line;
	struct str name;
	const struct value *value;
};

/** Pages of a VMID. */
struct emu_map {
	unsigned vmid, line;
	uint64_t address, to, size;
	bool system;
};

/** The page tables that a VMID has on one XCC: those that the maps of another VMID make. */
struct emu_tables {
	unsigned xcc, vmid, of, line;
};

/** A value in the table gpu_metrics. */
struct emu_metric {
	unsigned at, width;        // bytes
	int number;                // which of the GPU's numbers it is; -1: @value
	const struct value *value;
};

struct emu_metrics {
	unsigned format, content, size; // size: 0: there is no such table
	VEC(struct emu_metric) values;
};

/** A page of VRAM that failed. */
struct emu_bad_page {
	uint64_t page, when; // when: seconds since 1970
	char state;          // as the driver prints it
	unsigned channel;
	double from;
};

/** A record of a hardware error (CPER). */
struct emu_record {
	unsigned severity, oam;
	uint64_t status, ipid, synd, misc, address, when;
	bool limit; // the driver's own, of too many bad pages
	double from;
};

struct emu_gpu {
	struct emu_facts facts;
	VEC(struct emu_bad_page) bad_pages;
	VEC(struct emu_record) records;
	bool eeprom_bad; // the driver marked it as one with too many bad pages
	struct emu_metrics metrics;
	struct emu_machine *machine;
	VEC(struct ip) ips;
	unsigned external_revision;
	unsigned depth, parts; // of parts that name parts; how many were applied
	const struct value *state;
	const struct value *numbers[EMU_INTERRUPTS + 1];
	const struct value *load; // what the scenario says of it, while a guest keeps it busy
	VEC(struct emu_setting) settings;
	size_t order; // of the newest setting
	VEC(struct emu_ring_state) rings;
	VEC(struct emu_firmware) firmware;
	VEC(struct emu_file) files[2];
	VEC(struct emu_rule) rules;
	VEC(struct emu_queue_word) queue_words;
	struct emu_words vram, iomem;
	VEC(struct emu_map) maps;
	VEC(struct emu_tables) tables;
	uint64_t roots[16]; // of each VMID: where its page tables begin, as the driver writes it; 0: nowhere
	bool further;       // the last of its page tables lead to one more
	struct text devcoredump;
	struct wave_words wave_words;
	const struct wave_layout *layout; // of its waves; NULL: not known
	bool waves_known;
	struct emu_wave_part place_parts[6];
	VEC(struct emu_harvested) harvested;
	VEC(struct emu_waves) waves;
	uint32_t *slots; // index + 1 into places
	VEC(struct emu_wave_place) places;
};

/** Adds the statements of a part. */
bool emu_part_apply(struct cursor *c, struct emu_gpu *g, struct str name);
bool emu_gpu_read(struct emu_reader *r, const struct emu_block *b);
/** When all of its block was read. */
bool emu_gpu_finish(struct emu_reader *r, struct emu_gpu *g, unsigned line);
void emu_gpu_free(struct emu_gpu *g);
bool emu_register_read(struct cursor *c, void *gpu);
/** Sets a register of GC by its name in one bank; false where the GPU has none of that name. */
bool emu_register_set(struct emu_gpu *g, const struct bank *b, const char *name, const char *field, const struct value *v);
/** Sets it in every hub of the address translation; its name there may begin with GC, MM or the like. */
void emu_hubs_set(struct emu_gpu *g, const char *name, const char *field, const struct value *v);
/** Sets the registers that say of the hardware what the driver says of it elsewhere. */
void emu_hardware_set(struct emu_gpu *g);
bool emu_gc_register(const struct emu_gpu *g, const char *name, struct reg *ret);
uint32_t emu_gc_address(const struct emu_gpu *g, unsigned xcc, const struct reg *r);
void emu_settings_sort(struct emu_gpu *g);

/** Gives those their minor numbers of which the scenario says none. */
bool emu_gpus_number(struct emu_reader *r);
bool emu_sysfs_read(struct cursor *c, void *gpu);
bool emu_debugfs_read(struct cursor *c, void *gpu);
bool emu_file_read(struct cursor *c, void *gpu);
bool emu_devcoredump_read(struct cursor *c, void *gpu);
/** Sets what a file holds from a time on. false: there are too many files. */
bool emu_file_put(struct emu_gpu *g, enum emu_tree tree, struct str path, double from, struct str text);
bool emu_bad_page_read(struct cursor *c, void *gpu);
bool emu_eeprom_read(struct cursor *c, void *gpu);
bool emu_record_read(struct cursor *c, void *gpu);
bool emu_link_read(struct cursor *c, void *gpu);
/** Writes the files that hold them. */
bool emu_errors_finish(struct emu_reader *r, struct emu_gpu *g, unsigned line);
bool emu_metrics_read(struct cursor *c, void *gpu);
bool emu_metric_read(struct cursor *c, void *gpu);
bool emu_harvested_read(struct cursor *c, void *gpu);
bool emu_tables_read(struct cursor *c, void *gpu);
bool emu_waves_read(struct cursor *c, void *gpu);
/** Takes `packet N`, `group X Y Z` or `group-waves N`, whose first word is @key; false: it is none of them. */
bool emu_dispatch_take(struct cursor *c, struct emu_dispatch *d, struct str key, bool *ret_good);
/** A trap temporary of the wave in a place, which is the @ordinal-th of those that came together. */
uint32_t emu_ttmp(const struct emu_gpu *g, const struct emu_dispatch *d, size_t ordinal, const struct wave_slot *place,
		  double t, unsigned number);
/** Gives waves their slots. */
bool emu_waves_place(struct emu_reader *r, struct emu_gpu *g);
bool emu_map_read(struct cursor *c, void *gpu);
bool emu_virtual_read(struct cursor *c, void *gpu);
bool emu_page_tables_read(struct cursor *c, void *gpu);
/** Writes the page tables that `map` asks for. */
bool emu_pages_finish(struct emu_reader *r, struct emu_gpu *g);
/** Whether `map` names a page of the machine's memory. */
bool emu_page_shown(const struct emu_gpu *g, uint64_t address);
bool emu_ring_read(struct cursor *c, void *gpu);
bool emu_packets_read(struct cursor *c, void *gpu);
bool emu_fence_read(struct cursor *c, void *gpu);

// --- processes ---

struct emu_code {
	uint64_t address;
	struct str path;
};

struct emu_share {
	const struct emu_gpu *gpu;
	uint64_t vram;
	bool opens;
};

struct emu_process_queue {
	struct emu_queue facts;
	const struct value *rptr, *wptr;
	uint64_t doorbell;
	bool placed, one_xcc; // where it is was said; it is on one XCC only
	unsigned line;
	uint64_t record;               // where its amd_queue_t is; 0: behind its ring
	size_t waves;                  // index + 1 into its GPU's waves, of a guest's kernel that hangs
	VEC(struct emu_wave_part) mqd; // words that the scenario sets
};

struct emu_process {
	struct emu_machine *machine;
	struct str name;
	int pid;
	unsigned pasid;
	bool guest; // it is the command's
	struct emu_words memory;
	VEC(struct emu_code) code;
	VEC(struct emu_share) shares;
	VEC(struct emu_user_queue) user_queues;
	struct text environment; // NAME=VALUE, each with its NUL
	unsigned computes;       // per cent of a core
	bool stopped;
};

enum { EMU_AQL = 64, EMU_PAGE = 4096 };
/** Where a queue's amd_queue_t is. */
uint64_t emu_queue_record(const struct emu_process_queue *q);
bool emu_process_read(struct emu_reader *r, const struct emu_block *b);
/** Places queues on their GPUs, and sets their HQDs. */
bool emu_queues_finish(struct emu_reader *r);
/** Gives a queue that came later a place, and sets its HQD. */
void emu_queue_place(struct emu_machine *m, size_t index);
/** Its HQD is no longer active. */
void emu_queue_vacate(struct emu_machine *m, const struct emu_process_queue *q);
bool emu_kfd_read(struct emu_reader *r, const struct emu_block *b);

struct emu_machine {
	struct arena arena;
	const struct know *k;
	struct str name, title;
	bool lockdown, user, no_debugfs;
	bool kfd;          // programs may use it
	struct text plan;  // what the block says of it
	unsigned guests;   // that ever came
	struct str kernel; // release; empty: not said
	VEC(struct emu_gpu *) gpus;
	VEC(struct emu_process *) processes;
	VEC(struct emu_process_queue) queues;
	VEC(struct emu_message) messages;
	unsigned overwritten;         // messages that were before those
	const struct emu_block *mqds; // which word of an MQD is what
	size_t nmqds;
};

struct emu_gpu *emu_gpu_named(const struct emu_machine *m, struct str pci);
bool emu_gpu_word(struct cursor *c, struct emu_gpu **ret);
/** $pid(NAME) and $pasid(NAME) name processes that there are. */
bool emu_text_right(struct emu_reader *r, struct str text, unsigned line);

/** The parts, and the words of MQDs. */
extern const struct emu_builtin emu_texts[];
