// Registers that are written about, as text or as JSON.
#pragma once

#include "report/look.h"
#include "report/register_names.h"

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
	struct str why_not[ANSWER_TIMED_OUT + 1];
	VEC(struct row) rows;
};

void regs_write(const struct regs *g);
