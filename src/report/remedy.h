// One remedy: all that is known of it, for this machine.
#pragma once

#include "diagnose/remedy_state.h"
#include "knowledge/steps.h"
#include "unhang/unhang.h"

struct remedy_view {
	const struct know *know;
	const struct know_remedy *remedy;
	struct steps steps;
	struct remedy_verdict verdict; // on this machine
	struct str numbers;            // its settings, with the values that this machine gives them; empty
	struct str distribution;       // of this machine; empty: not known
};

void report_remedy(const struct remedy_view *v, const struct uh_remedy_options *o, FILE *out);
