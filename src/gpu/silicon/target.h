// A live GPU's target from inside: what registers.c, waves.c, rings.c, memory.c and silicon.c share. A look is a batch of probes, made by one
// child, that begins with a check that the gate is still open.
#pragma once

#include "gpu/layout.h"
#include "gpu/silicon/silicon.h"

enum {
	SILICON_QUERY_MS = 700, // for the render node, and for what waits for no hardware
	SILICON_LOOK_MS = 700,  // for debugfs files that read registers
	SILICON_GATE_MS = 50,   // how long a look at the gate is valid; the query keeps GFXOFF away for 100
	SILICON_BATCH_MS = 20,  // behind so much of a batch nothing more is begun that needs the gate
};

/** How a register is read. In the order in which they are tried. */
enum way {
	WAY_RENDER,   // the render node's query
	WAY_REGS,     // amdgpu_regs, where the bank is a part of the position
	WAY_REGS2,    // amdgpu_regs2, where an ioctl sets bank and XCC
	WAY_REGS2_V1, // the same on kernels that do not know XCCs
	WAY_PCIE,     // amdgpu_regs_pcie: the internal bus
	WAY_DIDT,     // amdgpu_regs_didt: registers of the current limiter
	WAYS
};

struct silicon;

/** A batch in the making. */
struct batch {
	struct silicon *t;
	struct arena arena; // of paths, arguments and answers
	VEC(struct probe) probes;
	VEC(struct wave_slot) slots; // that are asked for
	VEC(size_t) slot_probes;     // the probe of each
	VEC(size_t) idle_probes;     // of registers that may say that there are no waves
	VEC(unsigned) idle_xccs;     // whose they are
	struct request *waves;       // the request for waves; NULL: none
	bool late;                   // it did not come back
	struct probe_stuck stuck;    // where
};

/** A block of registers that was planned: its probes are one for the SGPRs, or one for each lane. */
struct gpr_block {
	size_t wave, words; // words: from the first register on
	bool vector;
	unsigned lanes;
	size_t probe; // the first
	size_t guard; // the look at the gate behind it
};

/** Registers of waves that were read together (gprs.c). */
struct gprs_read {
	struct batch batch;
	VEC(struct gpr_block) blocks;
};

struct silicon {
	struct target target;
	const struct know *know;
	const struct device *device;
	struct arena arena;
	struct agent agent;
	bool words_known;
	struct wave_words words;
	const struct wave_layout *layout;
	const char *render, *runtime_status, *config, *gfxoff, *level; // paths
	uint32_t status_address;                                       // of GRBM_STATUS; 0: not known
	struct gate gate;
	int64_t gate_time; // when it was looked at; 0: never
	struct probe_stuck stuck;
	bool by_debugfs; // the gate was opened without the render node, which is then not asked for registers either
	bool render_dead, debugfs_dead, rings_dead; // a read did not return, so no more are made
	bool broken[WAYS];                          // the kernel does not have this way, or does not allow it
	bool no_wave_file, no_gprwave_file;
	struct probe_count count;
	bool rings_listed;
	struct str ring_names; // one per line
	struct str long_rings; // those of them that are longer than usual
	struct text problems;
	const struct wave *waves; // those that were read last
	size_t nwaves;
	struct gprs_read gprs;
	unsigned late; // how often registers of waves were to be read, and the gate was shut by then
};

static inline size_t batch_add(struct batch *b, struct probe p)
{
	vec_push(&b->probes, p);
	return b->probes.len - 1;
}
/** Runs it. A way that does not return is remembered as dead. */
void batch_run(struct batch *b, int milliseconds);
void batch_free(struct batch *b);
#define _cleanup_batch_ _cleanup_(batch_free)
/** What a probe that was not good means. */
enum answer batch_answer(const struct batch *b, const struct probe *p);

/** A file of the GPU's debugfs directory; NULL where that is not at hand. */
const char *silicon_file(const struct silicon *t, struct arena *a, const char *name);
/** Opens the gate, or says why not; reads what is @wanted through the render node on the way. */
struct wanted_list;
void gate_pass(struct silicon *t, struct wanted_list *wanted);
/** Adds a check that the gate is still open. If it is not, or if the batch is too old to be sure, the rest of the batch is skipped. */
size_t gate_guard(struct batch *b);
/** Whether the gate was still open at this look, so that what was read before it is the GPU's own. */
bool gate_held(const struct batch *b, size_t guard);

/** A register that was asked for. */
struct wanted {
	struct request *request;
	uint32_t address;
	struct bank bank;         // all -1 where it is not banked
	enum way way;             // WAYS: it has its answer, or no way is left
	size_t probe, lead, word; // its probe in the batch, and its word there; lead: the probe that sets the bank
};
struct wanted_list {
	struct wanted *data;
	size_t n;
};
struct wanted_list registers_wanted(struct silicon *t, struct arena *a, struct request *requests, size_t n);
bool registers_left(const struct wanted_list *w, bool render);
/** Gives each the first way that is possible now. */
void registers_choose(const struct silicon *t, struct wanted_list *w);
/** Adds probes for the registers that go through the render node, or for the others: one for each run of adjacent registers. */
void registers_plan(struct batch *b, struct wanted_list *w, bool render);
/** The register at @address that is read through the render node; NULL: none. */
const struct wanted *registers_planned(const struct wanted_list *w, uint32_t address);
/** A query of the render node for registers from @address on. */
struct probe registers_query(struct batch *b, uint32_t address, size_t words);
/** A read of registers from @address on through debugfs. */
struct probe registers_file(struct batch *b, uint32_t address, size_t words);
/** A read of the register at @address of XCC @xcc, which is not the first. */
struct probe registers_of_xcc(struct batch *b, uint32_t address, unsigned xcc);
/** Takes the values. Where one way failed, the register gets the next. */
void registers_take(struct batch *b, struct wanted_list *w, bool render);
/** Whether the GPU has this copy of its registers. */
bool bank_exists(const struct device *d, const struct wave_words *w, const struct bank *b);

/** Answers requests for registers and waves. */
void silicon_registers(struct silicon *t, struct request *requests, size_t n);
/** Answers requests for memory. */
void memory_answer(struct silicon *t, struct request *requests, size_t n);

void waves_plan(struct batch *b);
void waves_take(struct batch *b, struct request *r);
/** Whether to try again: the file of this batch did not answer, and there is another. */
bool waves_again(struct batch *b);
/** The state of amdgpu_gprwave for a slot, as the driver's files take it. */
struct gprwave_state *gprwave_of(struct arena *a, const struct wave_slot *asked);
/** A probe of what amdgpu_gprwave shows in a state. */
struct probe gprwave_probe(const char *path, const struct gprwave_state *s, size_t size);
void wave_registers_answer(struct silicon *t, struct request *r);
/** What was read of waves is old. */
void gprs_forget(struct silicon *t);

void rings_answer(struct silicon *t, struct request *r);
void fences_answer(struct silicon *t, struct request *r);
/** The text of amdgpu_fence_info. */
size_t fences_parse(struct arena *a, struct str text, const struct ring_fence **ret);
/** The bytes of a ring's file. */
bool ring_parse(struct arena *a, struct str name, const char *bytes, size_t n, struct ring *ret);
