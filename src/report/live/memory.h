// What `unhang memory` writes: bytes behind an address of a GPU, how its page tables lead there, and the instructions that they are.
#pragma once

#include "code/disassemble/disassemble.h"
#include "gpu/memory/vm.h"
#include "report/live/look.h"

/** Whose address space it is. */
struct memory_space {
	struct str title, target, gfx;
	unsigned vmid, xcc;
	bool several; // XCCs
	bool pasid_known;
	uint32_t pasid;
	int64_t pid; // 0: not known
	struct str process;
};

enum memory_source { FROM_NOWHERE, FROM_VRAM, FROM_SYSTEM, FROM_PEER, FROM_PROCESS };

/** A part of a page that was asked for. */
struct memory_piece {
	uint64_t address;
	size_t n;
	const char *bytes;
	enum memory_source source;
	uint64_t place; // in VRAM, or on the bus
	struct str peer;
	struct str why_not;
};

/** Pages beside each other of which the tables say the same. */
struct memory_run {
	uint64_t begin, end; // the last address of it
	struct vm_walk walk; // of its first page
};

/** A page fault that the log has, and what became of its address space. */
struct memory_fault {
	struct str incident, pci, process, client, rw; // empty: not known
	int64_t pid, when;                             // when: seconds since 1970; 0: not known
	double boot_seconds;                           // since the machine was started; below 0: not known
	unsigned vmid;
	uint32_t pasid; // 0: not said
	uint64_t address;
	enum fault_space { FAULT_NONE, FAULT_SAME, FAULT_GONE, FAULT_AWAY } space; // away: its process lives, but has no VMID now
	int64_t now_pid; // who has that VMID now; 0: nobody, or not known
	struct str now_process;
	uint32_t now_pasid;
};

/** The nearest page that is mapped on one side of an address. */
struct memory_edge {
	bool known;   // it was looked for as far as the tables go, or @there
	bool there;
	uint64_t at;  // its address that is next
	struct vm_walk walk;
};

struct memory_seen {
	struct memory_fault fault; // FAULT_NONE: an address was asked for
	struct memory_edge below, above;
	struct memory_space space;
	uint64_t address, length;
	size_t npieces;
	const struct memory_piece *pieces;
	const struct vm_walk *walk; // NULL: it was not asked for
	struct vm_format format;
	size_t nbits;
	const struct vm_named_bits *bits;
	size_t nruns;
	const struct memory_run *runs;
	bool code;
	const struct disassembly *disassembly; // NULL: there is none
	struct str no_code;                    // why
};

void report_memory(const struct memory_seen *m, const struct uh_look_options *o, FILE *out);
