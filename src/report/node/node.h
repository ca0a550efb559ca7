// The answer of a node to one question: may the next job run here, and if not, whose move is it? For people, schedulers and monitoring.
#pragma once

#include <stdio.h>

#include "base/arena.h"
#include "unhang/unhang.h"

/** What of it is worst comes last, so that the status of a node is the largest one of its findings; but what failed is known, whatever else
 * is not. */
enum node_status { NODE_HEALTHY, NODE_DEGRADED, NODE_UNKNOWN, NODE_FAILED };
extern const char *const node_statuses[]; // by their values, NULL behind the last

/** Something that speaks against the next job, or should be known. */
struct node_finding {
	enum node_status status;
	struct str rule;     // which rule of fitness found it
	bool observed;       // the rule is new and not yet in force on this node: it changes nothing
	struct str gpu;      // PCI address; empty: of the node
	struct str class;    // of the incident, or of what was found
	struct str says;     // one sentence; may name programs
	struct str fault;    // job, driver, node, unknown
	struct str action;   // what the machine needs
	struct str incident; // id; empty: none
	struct str bundle;   // taken, or why there is none; empty: not known
	struct str job;      // Slurm job, pod or program that held the GPU
	int64_t since;       // seconds since 1970; 0: not known
};

struct node_gpu {
	struct str pci, serial, unique_id, slot, partition, health;
	bool fit, known; // of this GPU alone
};

struct node_answer {
	enum node_status status;
	struct str host, boot_id;
	struct str source; // watch, look, none
	int64_t asked, valid_until;
	struct node_gpu *gpus;
	size_t ngpus;
	unsigned expected;                 // GPUs; 0: nobody said
	VEC(struct node_finding) findings; // the worst first
	struct {
		bool runs;            // its state is valid
		int64_t written;      // when it wrote it; 0: never
		uint64_t lost;        // times that messages of the kernel were lost
		struct str unread;    // why the kernel log is not read; empty: it is
		struct str uncounted; // why progress is not counted
		struct str smoke;     // passed, failed, running; empty: it was not run in this boot
	} watch;
};

/** The finding that decided; NULL: there is none. */
const struct node_finding *node_worst(const struct node_answer *a);
/** yes, no, unknown */
const char *node_fit(const struct node_answer *a);

/** The document of docs/check.schema.json, or some lines for people. */
void report_node(const struct node_answer *a, bool json, unsigned width, FILE *out);
/** `[unhang node] class GPU action incident`: words that may be public. */
void node_reason(struct text *to, const struct node_finding *f);
/** One line that a Slurm reason can be: `[unhang node] class GPU incident`. It is public: no program and no user is in it. */
void report_node_slurm(const struct node_answer *a, FILE *out);
/** One line of at most 80 characters, for node-problem-detector; `[unhang unknown] not-watched`: nobody watches, and no failure is known. Returns
 * its exit status: 0 good, 1 the condition is so, 2 unknown. */
int report_node_npd(const struct node_answer *a, FILE *out);
/** Metrics in the text format, for node-exporter's textfile collector. */
void report_node_prometheus(const struct node_answer *a, FILE *out);
