// Records of hardware errors as tools list them.
#pragma once

#include "evidence/artefact.h"

struct listed_record {
	struct str date, clock; // 2026/05/28 11:22:33; empty: not known
	struct str gpu, grade, file, afid;
};

/** Tells it as an event. false: no tool has such a grade. */
bool list_tell(const struct artefact_output *out, const struct listed_record *r, struct place at, struct str text);
