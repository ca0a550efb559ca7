// What the emulated KFD shall be and do: its GPUs, and the launches and allocations at which something happens. The statements of a
// scenario's block `kfd` (docs/SCENARIOS.md), and of the variable UNHANG_KFD.
#pragma once

#include "base/str.h"

enum { PLAN_GPUS_MOST = 32, PLAN_RULES_MOST = 64, PLAN_NAME = 128, PLAN_WHY = 160, PLAN_TEXT_MOST = 64 << 10 };

struct plan_gpu {
	char gfx[16], name[64];
	unsigned node, id; // KFD's number of it in the topology, and its gpu_id
	unsigned domain, location, device, revision;
	int render;
	uint64_t vram;
	unsigned engines, arrays, cus, simds, waves; // arrays of an engine, CUs of an array, SIMDs of a CU, waves of a SIMD
};

enum plan_does { PLAN_HANG, PLAN_FAULT, PLAN_EXCEPTION, PLAN_SLOW, PLAN_LOSE };

struct plan_rule {
	enum plan_does does;
	bool allocation;        // it is about allocations, not about kernels
	char kernel[PLAN_NAME]; // empty: any of the program's
	uint64_t nth;           // of those that it is about; 0: each
	uint64_t bytes;         // of an allocation, at least
	int gpu;                // place of the only GPU that it is about; -1: all
	unsigned chance;        // per cent of the processes that it is about; 100: all
	double seconds;
	unsigned code; // of an exception
	int argument;  // of the kernel, that the address is counted from; -1: it is none
	uint64_t address;
	bool write;
	uint64_t seen; // launches or allocations that it is about, until now
};

struct kfd_plan {
	struct plan_gpu gpus[PLAN_GPUS_MOST];
	size_t ngpus;
	struct plan_rule rules[PLAN_RULES_MOST];
	size_t nrules;
	bool closed; // VRAM, to the host
};

/** One statement. false: what is wrong is in @why. */
bool plan_statement(struct kfd_plan *p, struct str line, char why[static PLAN_WHY]);
/** Several, in lines or parted by semicolons. */
bool plan_read(struct kfd_plan *p, struct str text, char why[static PLAN_WHY]);
/** The identifier in a mangled name: saxpy of _Z5saxpyPKfPffi. */
struct str plan_plain_name(struct str symbol);
/** Whether a rule's name, with * for any characters, is that of a kernel. */
bool plan_names(const struct plan_rule *r, struct str symbol);
