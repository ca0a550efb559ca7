// What looks at a GPU show, as named facts that the verdicts of knowledge/silicon.know are held against.
#pragma once

#include "evidence/event.h"
#include "evidence/user_queues.h"
#include "gpu/silicon/watch.h"

enum { VERDICT_FACTS = 128 };

struct verdict_fact {
	struct str name, value;
	enum fact_type type;
	bool tell; // it is worth telling; else it is only for conditions
};

struct verdict_facts {
	struct arena *arena;
	size_t n;
	struct verdict_fact facts[VERDICT_FACTS];
};

void verdict_facts_of(struct verdict_facts *f, const struct watch *w, unsigned xcc, const struct user_queues *q);
enum { VERDICTS_MOST = 4 };
/** Finds the verdicts that hold and returns how many. The first is the answer. */
size_t verdicts_of(const struct know *k, const struct verdict_facts *f, const struct know_verdict *ret[static VERDICTS_MOST]);
/** Adds the fact ip_block, which is the unit that the verdict calls stuck, and its title. */
void verdict_facts_unit(struct verdict_facts *f, const struct know *k, const struct know_verdict *v);
/** The first value; empty where there is none. */
struct str verdict_fact(const struct verdict_facts *f, const char *name);
bool verdict_fact_is(const struct verdict_facts *f, const char *name, const char *value);
