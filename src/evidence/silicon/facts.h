// What looks at a GPU show, as named facts that the verdicts of knowledge/silicon.know are held against.
#pragma once

#include "evidence/event.h"
#include "evidence/silicon/parties.h"
#include "evidence/silicon/silicon.h"

enum { VERDICT_FACTS = 128 };

struct verdict_fact {
	struct str name, value;
	enum fact_type type;
	bool tell; // it is worth telling; else it is only for conditions
};

struct verdict_facts {
	struct arena *arena;
	struct str late_ring; // of a dump: the ring that the driver says timed out; empty: it does not say
	size_t n;
	struct verdict_fact facts[VERDICT_FACTS];
};

/** What the looks show of one party. */
void verdict_facts_of(struct verdict_facts *f, const struct watch *w, const struct party *p, const struct user_queues *q);
/** Adds what the code behind its waves says: kernel, polls, polled_address, polled_value, shader. */
struct party_code;
void verdict_facts_code(struct verdict_facts *f, const struct party_code *c);
enum { VERDICTS_MOST = 4 };
/** Finds the verdicts that hold and returns how many. The first is the answer. */
size_t verdicts_of(const struct know *k, const struct verdict_facts *f, const struct know_verdict *ret[static VERDICTS_MOST]);
/** Adds the fact ip_block, which is the unit that the verdict calls stuck, and its title. */
void verdict_facts_unit(struct verdict_facts *f, const struct know *k, const struct know_verdict *v);
/** What a verdict tells beside the GPU though nothing is wrong; nothing where it has nothing to tell. */
void verdict_hint(const struct verdict_facts *f, const struct know_verdict *v, struct text *to);
/** Adds a fact that is only for conditions and hints. An empty one is none. */
void verdict_fact_add(struct verdict_facts *f, const char *name, struct str value);
/** The hints of all verdicts that stand aside and hold, a line each. Returns the worst `fit` of them. */
int verdict_asides(const struct know *k, const struct verdict_facts *f, struct text *to);
/** Adds what a reset of the GPU takes with it: reset_gpus, the GPUs of its hive, which the driver resets together, and reset_ends, whoever
 * uses one of them. */
void reset_facts(struct event *e, const struct devices *all, const struct device *d, struct arena *a);
struct fact_view verdict_view(const struct verdict_facts *f);
/** The first value; empty where there is none. */
struct str verdict_fact(const struct verdict_facts *f, const char *name);
bool verdict_fact_is(const struct verdict_facts *f, const char *name, const char *value);
/** Tells what the machine is. */
void silicon_tell_machine(const struct artefact_output *out, const struct devices *d);
