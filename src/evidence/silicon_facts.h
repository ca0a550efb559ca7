// What looks at a GPU show, as named facts that the verdicts of knowledge/silicon.know are held against.
#pragma once

#include "evidence/event.h"
#include "gpu/process/target.h"
#include "gpu/silicon/watch.h"

enum { VERDICT_FACTS = 96 };

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

/** A user queue at two looks. */
struct user_queue {
	struct str gpu; // PCI address
	uint32_t id;
	uint64_t first_read, read;
	uint64_t pending;  // behind the read index
	bool packets;      // @pending counts AQL packets
	bool known;        // its indexes were read at more than one look
	struct str packet; // at the read index: kernel_dispatch, barrier_and; empty
	struct str kernel;
	size_t process;
};

struct user_process {
	int64_t pid;
	struct str name;
	struct target *target;
};

struct user_queues {
	struct arena arena;
	size_t looks;
	struct kfd kfd;
	size_t nprocesses, n;
	struct user_process *processes;
	struct user_queue *list;
};

void user_queues_look(struct user_queues *q, const struct know *k, const struct devices *d);
void user_queues_free(struct user_queues *q);

void verdict_facts_of(struct verdict_facts *f, const struct watch *w, unsigned xcc, const struct user_queues *q);
enum { VERDICTS_MOST = 4 };
/** Finds the verdicts that hold and returns how many. The first is the answer. */
size_t verdicts_of(const struct know *k, const struct verdict_facts *f, const struct know_verdict *ret[static VERDICTS_MOST]);
/** Adds the fact ip_block, which is the unit that the verdict calls stuck, and its title. */
void verdict_facts_unit(struct verdict_facts *f, const struct know *k, const struct know_verdict *v);
/** Adds what a reset of the GPU takes with it: reset_gpus, the GPUs of its hive, which the driver resets together, and reset_ends, whoever
 * uses one of them. */
void reset_facts(struct event *e, const struct devices *all, const struct device *d, struct arena *a);
/** The first value; empty where there is none. */
struct str verdict_fact(const struct verdict_facts *f, const char *name);
bool verdict_fact_is(const struct verdict_facts *f, const char *name, const char *value);
