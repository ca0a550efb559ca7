// Registers that are written about, as text or as JSON.
#pragma once

#include "report/live/look.h"
#include "gpu/register_names.h"

enum row_state { ROW_LISTED, ROW_GIVEN, ROW_READ, ROW_REFUSED, ROW_ABSENT, ROW_TIMED_OUT };

struct row {
	struct named_register r;
	enum row_state state;
	struct str why_not;
	uint32_t value;
};

struct regs {
	const struct uh_look_options *options;
	FILE *out;
	struct arena arena;
	struct str target, gfx, title; // target: empty where no GPU was looked at
	VEC(struct row) rows;
};

void report_regs(const struct regs *g);
