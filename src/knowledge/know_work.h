// Who is who: kinds of work, and whose fault an incident is. See docs/KNOWLEDGE.md.
#pragma once

#include "knowledge/condition.h"
#include "knowledge/know_head.h"

/** A kind of work: what the GPU did for whom when it failed. */
struct know_work_kind {
	struct know_head head;
	struct condition *when;
	struct str title;
};

/** Whose fault an incident is, where role and work say more than its cause does. */
struct know_blame {
	struct know_head head;
	struct condition *when;
	struct str fault;
	struct str say; // who that is, for people; empty: as the report says it
	int confidence;
};
