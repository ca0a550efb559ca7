// What the evidence says of the machine in one boot: kernel, parameters, firmware, GPUs.
#pragma once

#include "base/arena.h"
#include "evidence/event.h"
#include "knowledge/know.h"

enum { MACHINE_GPUS = 64, MACHINE_FACTS = 256, MACHINE_BYTES = 256 << 10 };

struct machine_gpu {
	struct str device;
	struct place at; // where it was named first
	const struct know_part *part;
	struct str gfx, name; // where no part is known
	int64_t node;         // its number in the HSA runtime; 0: not known, since node 0 is the CPU
	int64_t index;        // its number among AMD's tools, and 1; 0: not known
	bool probing;
};

/** A fact about the machine, or about one of its GPUs. */
struct machine_fact {
	struct fact fact;
	struct str device; // empty: the machine
	bool many;         // of context: each value counts
};

struct machine {
	struct arena arena;
	bool has_boot;      // the kernel's first messages were seen
	bool sleeping;      // the system went to sleep and is not awake again
	struct stamp slept; // the newest sign of that
	size_t ngpus;
	struct machine_gpu gpus[MACHINE_GPUS];
	struct machine_gpu *named; // the GPU in the newest line with an address
	const struct know_part
		*unnamed;             // from a line without an address (before 6.13): it belongs to the next GPU that is named
	const struct know_part *said; // by the user; it outlives boots and sources
	const struct know_part *spoken; // the one part that the text around names, without saying which GPU it is
	bool several;                   // it names more than one
	struct str told_gfx;            // what a program says that it runs on, without the GPU's address
	bool told_apu, told_others;     // that is inside a CPU; programs name more than one
	VEC(struct machine_fact) facts;
};

/** Takes what a context event says. */
void machine_note(struct machine *m, const struct know *k, const struct event *e);
/** The GPU at this device address; it is added if it is new. NULL: it is not a GPU, or there are too many. */
struct machine_gpu *machine_gpu(struct machine *m, struct str device, struct place at);
/** Whether a PCI address, with or without its domain, is that of a GPU. */
bool machine_is_gpu(const struct machine *m, struct str device);
/** The PCI address of an HSA node; empty where it is not known. */
struct str machine_node(const struct machine *m, int64_t node);
/** The GPU behind a PCIe port: @port is the port's address, @bus the bus behind it. Between it and the GPU there may be the two ports of the
 * switch that is on AMD's boards. Empty where none that is known can be. */
struct str machine_behind(const struct machine *m, struct str port, uint64_t bus);
/** The PCI address of the GPU that AMD's tools call by this number; empty where none of them listed it with its address. */
struct str machine_index(const struct machine *m, int64_t index);
/** Adds what another source says. A fact on which the two disagree is dropped. */
void machine_merge(struct machine *m, const struct machine *from);
void machine_clear(struct machine *m);
/** Forgets the boot before the one that begins at @at; what words of the same text say from there on is of the new one. */
void machine_begin_boot(struct machine *m, struct place at);
