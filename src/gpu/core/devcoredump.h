// The driver's own dump of a hung GPU (/sys/class/drm/cardN/device/devcoredump/data), of 6.12 and of 7.x, line by line.
#pragma once

#include "base/arena.h"

enum dump_kind {
	DUMP_OTHER,
	DUMP_BLOCK,         // `IP: gfx_v11_0`: whose registers follow
	DUMP_INSTANCE,      // `Instance:1`, `Instance id:1`: which of several; in @numbers
	DUMP_QUEUE,         // `mec 0, pipe 1, queue 2`: whose registers follow; @numbers are XCC, ME, pipe, queue
	DUMP_REGISTER,      // `regGRBM_STATUS   0x00003028`
	DUMP_RING,          // `ring name: gfx_0.0.0`
	DUMP_RING_POINTERS, // @value and @other are rptr and wptr, @numbers the mask
	DUMP_RING_WORD,     // `0x20    0xc0023f00`: @other is the offset in bytes
	DUMP_RING_HEAD,     // lines between these
	DUMP_IB,            // `IB #0 0x800002c10000 16 dw`: @value is its address
	DUMP_IB_WORD,       // `0xc0012800`
	DUMP_VERSION,       // `HWIP: GC[1][0]: v11.0.0.0.0`: @text is 11.0.0.0.0, @numbers the instance
	DUMP_DEVICE,        // `SOC Device id: 29772`
	DUMP_REVISION,      // `SOC PCI Revision id: 200`
};

struct dump_line {
	enum dump_kind kind;
	struct str name, text; // text: the whole line, unless said otherwise
	uint64_t value, other;
	unsigned numbers[4];
};

/** What a line, without white space around it, says. */
struct dump_line dump_line_parse(struct str line);
