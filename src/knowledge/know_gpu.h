// What is known of the hardware: instructions, parts, registers, packets, page tables, queues.
#pragma once

#include "knowledge/condition.h"
#include "knowledge/know_head.h"
#include "knowledge/template.h"

/** Which memory an instruction works on. */
enum know_space {
	SPACE_NONE,
	SPACE_GLOBAL,
	SPACE_FLAT, // global memory, scratch or LDS, as the address says
	SPACE_SCRATCH,
	SPACE_LDS,
	SPACE_GDS,
	SPACE_SCALAR, // global memory, through the scalar cache
	SPACE_BUFFER, // global memory, through a descriptor of four SGPRs
	SPACE_IMAGE,
};
/** What it does. Those up to ACT_PREFETCH use an address. */
enum know_act {
	ACT_LOAD,
	ACT_STORE,
	ACT_ATOMIC,
	ACT_PREFETCH,
	ACT_COMPUTE,
	ACT_COMPARE, // no register of its operands is written
	ACT_CACHE,
	ACT_WAIT,
	ACT_BARRIER,
	ACT_SLEEP,
	ACT_MESSAGE,
	ACT_BRANCH,
	ACT_TRAP,
	ACT_HALT,
	ACT_END,
	ACT_OTHER,
};
/** How its address is made. */
enum know_form {
	FORM_UNKNOWN,
	FORM_VECTOR,     // 64 bits in VGPRs, or 64 bits in SGPRs and 32 in a VGPR
	FORM_LANE,       // 64 bits in SGPRs, and four bytes for each lane before
	FORM_OFFSET,     // 32 bits: an offset into LDS or into a lane's scratch
	FORM_SCALAR,     // 64 bits in SGPRs and an offset
	FORM_DESCRIPTOR, // the base of a buffer, and offsets
};
/** What the operand at a place is. */
enum know_operand { OPERAND_SKIP, OPERAND_RESULT, OPERAND_DATA, OPERAND_ADDRESS, OPERAND_BASE, OPERAND_OFFSET };

enum { KNOW_OPERANDS = 6 };

/** An instruction of the GPU's shader cores, by patterns of its mnemonic. */
struct know_instruction {
	struct know_head head;
	struct str title;
	struct know_list *names;
	enum know_space space;
	enum know_act act;
	enum know_form form;
	struct know_list *operand_words, *writes; // writes: registers that it changes besides its operands; all: any
	enum know_operand operands[KNOW_OPERANDS];
	bool optional[KNOW_OPERANDS]; // the operand may be missing
	size_t noperands;
	int bytes;                  // of one lane's access, where the mnemonic does not tell; 0: not known
	int pair;                   // two accesses, whose offsets are in units of their size times this
	struct know_list *counted;  // counters that say when it has ended
	struct know_pair *counters; // that it waits for -> what they count
	struct str say, waits_for;
};

struct know_names {
	struct know_head head;
	struct know_pair *names;
};

struct know_part {
	struct know_head head;
	unsigned device;
	int revision; // -1: any
	bool apu;
	struct str gfx, name;
};

struct know_field {
	struct str name;
	unsigned high, low;
	struct know_field *next;
};

struct know_register {
	struct know_head head;
	struct know_field *fields;
};

/** An error bank of the hardware; the head of knowledge/error-banks.know says what its keys are. */
struct know_bank {
	struct know_head head;
	struct str title, kind, block, fields;
	struct know_list *ip, *instances;
	struct know_pair *errors, *units;
	uint64_t hardware, type; // of ip
};

/** How bad an error is, by the bits of its bank. */
struct know_error_severity {
	struct know_head head;
	struct str is;
	struct condition *when;
};

/** AMD's number for a kind of hardware error. */
struct know_afid {
	struct know_head head;
	struct str title;
	struct str block; // as the driver calls it; empty: more than one may have it
	struct condition *when;
};

/** A layout of the driver's table gpu_metrics; the head of knowledge/metrics.know says what its keys are. */
struct know_metrics {
	struct know_head head;
	struct know_list *version, *fields;
	struct str names, cycles, status;
	struct know_pair *residencies;
	int format, content; // of version
};

struct know_sequence {
	struct know_head head;
	struct know_list *order; // signature ids
};

/** How a family of GPUs saves its waves to memory. */
struct know_save_area {
	struct know_head head;
	struct know_list *parts;     // patterns of gfx names
	struct str like;             // the block that says the rest
	struct know_list *registers; // the hardware registers of a wave, in their order
	struct know_pair *numbers, *bits, *stops;
};

/** Registers that are read at each look at a GPU. */
struct know_watch {
	struct know_head head;
	struct know_list *render, *deep;
	struct know_list *rest; // patterns of REGISTER.FIELD: what is set while nothing happens
};

/** A block of the hardware, and how its registers tell what it does. */
struct know_unit {
	struct know_head head;
	struct str title;
	struct know_list *busy, *idle, *rings;
	struct str still;
	struct know_pair *waits; // unit -> fields
	bool engine;
};

/** What follows from a look at a GPU. */
struct know_verdict {
	struct know_head head;
	struct condition *when;
	struct str event, health, unit, hint;
	bool each_xcc, go_on, well, stands;
	enum { SITS_WELL, SITS_WARNS, SITS_UNKNOWN, SITS_UNFIT } fit; // of one that stands aside: whether the GPU can take the next job
	bool aside; // it is told beside the answer, and is of the whole GPU
};

/** What a queue, a ring or waves do. */
struct know_queue_state {
	struct know_head head;
	struct condition *when;
	struct str is, say;
};

/** What a sign of progress says. */
enum vote { VOTE_UNKNOWN, VOTE_MOVED, VOTE_STOOD };

/** A sign of progress: what moves while work is done. */
struct know_vote {
	struct know_head head;
	struct str title;
	bool proves; // that it moved proves that work was done
	bool told;   // a program's file tells it: it proves nothing while a sign of the GPU itself stands
	bool own;    // it is such a sign
	bool deep;   // a look at the GPU takes it
	int low;     // per cent of the most that was seen, below which it stands; 0: it is a count
	int within;  // seconds: it moved if it did in these; 0: since it was last seen
};

enum { WORK_VOTES = 0 }; // know_work.is: the votes decide
/** A kind of work, and what votes make of it. */
struct know_work {
	struct know_head head;
	struct str title, say;
	struct condition *when;
	int is; // a place in the words of the key
	struct know_list *votes, *needs;
	int look_after, suspect_votes, suspect_after, hung_votes, hung_after; // seconds
};

/** What the driver answers for a wave on the GPU. */
struct know_wave_words {
	struct know_head head;
	struct know_list *parts, *words;
	struct know_pair *numbers, *bits;
	int type, simds, slots;
	bool wgp, always_on;
};

/** How the page tables of a family of GPUs are written. */
struct know_page_table {
	struct know_head head;
	struct know_list *parts;
	struct know_pair *bits;
	struct know_pair *page; // what else an entry says that is a page
	struct str pasid;       // the register with the PASID of VMID *; empty
	struct know_list *mmhub,
		*second_mmhub; // patterns of rings whose addresses they translate; those of the others: the gfxhub
	bool guests_from_zero; // where the GPU is lent, VRAM begins at 0 in them
};

/** The languages of rings; `ring` and `packet` blocks name them pm4, sdma, mes and aql. */
enum packet_language { PACKETS_PM4, PACKETS_SDMA, PACKETS_MES, PACKETS_AQL, PACKETS_UNKNOWN };

struct know_packet_field;
enum { KNOW_PACKET_VALUES = 8, KNOW_OPCODES = 256 };

/** It holds where the field has one of the values; without a field always. */
struct know_packet_when {
	const struct know_packet_field *field;
	size_t n;
	uint32_t values[KNOW_PACKET_VALUES];
};

enum know_packet_print { PACKET_NUMBER, PACKET_HEX, PACKET_ADDRESS, PACKET_REGISTER };

struct know_packet_field {
	struct str name, table; // table: the `names` block of its values; empty
	unsigned word, high, low;
	enum know_packet_print print; // an address keeps its low bits as zeros, where the others are shifted down
	uint32_t plus;
	bool each;     // again and again until the packet's end
	unsigned step; // words from one to the next; 0: they stand side by side
	bool nonzero;  // where it is 0 the packet does not have it
	bool hidden;   // only other lines need it
	struct know_packet_when when;
	struct know_packet_field *next;
};

struct know_packet_words {
	const struct know_packet_field *field; // NULL: @plus words
	uint32_t times, plus;
	struct know_packet_when when;
	struct know_packet_words *next;
};

struct know_packet_waits {
	struct str say;
	struct know_packet_when when;
	struct know_packet_waits *next;
};

enum packet_access {
	PACKET_WRITES,
	PACKET_READS,
	PACKET_POLLS,   // until it has the value
	PACKET_CHANGES, // some of its bits
	PACKET_LOADS,   // from memory
};

/** What a packet does with registers. Where it has several fields of one name, the first that there is counts. */
struct know_packet_access {
	enum packet_access access;
	const struct know_packet_field *reg; // NULL: it is always the register of the graphics core that is called @name
	struct str name;
	const struct know_packet_field *value;
	const struct know_packet_field *mask, *keep; // bits that count, and bits that stay; NULL: all count
	const struct know_packet_field *count;       // how many registers in a row
	const struct know_packet_field *still;       // where it is not 0, all values go to one register
	const struct know_packet_field *two;         // where it is not 0, the upper half of the value goes to the next register
	struct know_packet_when when;
	struct know_packet_access *next;
};

/** A packet of a ring or an indirect buffer. */
struct know_packet {
	struct know_head head;
	enum packet_language language;
	struct str name;
	struct know_list *parts; // patterns of gfx names; none: all
	int type, opcode, sub;   // type: of a header without an opcode; -1: any
	bool rare;
	struct know_packet_field *fields;
	struct know_packet_words *words; // none: as the header says
	struct know_packet_waits *waits;
	struct know_packet_access *accesses;
	const struct know_packet_field *ib_address, *ib_words, *ib_vmid, *ib_chain;
	const struct know_packet_field *fence; // the value of a fence that it writes to memory; NULL
	const struct know_packet *same; // the next one of its opcode, or type
};

/** What a family of GPUs keeps of a user queue in memory (MQD), and while it works on it in registers (HQD). */
struct know_mqd {
	struct know_head head;
	struct know_list *parts;            // patterns of gfx names
	struct know_list *registers;        // of a compute queue, as they follow one another in the HQD
	int first;                          // word of the MQD in which the first of them lies
	struct know_list *sdma;             // those of a copy queue, from word 0
	struct know_pair *bits, *sdma_bits; // where a value is found
	struct know_pair *sdma_table;       // pattern of gfx names -> the table of registers, and what their names begin with
};

/** The names of the words of a descriptor in memory. */
struct know_mqd_words {
	struct know_head head;
	struct str of;           // compute, graphics
	struct know_list *parts; // patterns of gfx names
	struct know_list *words; // a number, and the names of the words from there on
};

/** A GPU kernel by a fragment of its name, and what it does. */
struct know_kernel {
	struct know_head head;
	struct know_list *names;
	struct str library, operation, source, wrapper, asserts, issue;
	struct str on_assert, on_fault, on_illegal, on_hang; // what mostly makes it fail so
	bool workspace;                                      // it counts in memory that others may share
	bool generic;                                        // no more is known than whose kernel it is
};
