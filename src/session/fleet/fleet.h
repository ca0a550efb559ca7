// A cluster under Slurm: what its nodes say of themselves, what Slurm says of them, and what the one arbiter may do about it. Nodes only
// publish; only the arbiter acts, within a limit that is counted in one place.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "report/node/node.h"
#include "unhang/unhang.h"

#define FLEET_PREFIX "[unhang " // of every reason that is ours

/** A node as Slurm has it. */
struct slurm_node {
	struct str name;
	struct str state;  // idle+drain+reboot_issued
	struct str reason; // empty: none
	struct str user;   // who set it
	struct str set;    // when, as Slurm writes it
	bool gpu;          // it has generic resources called gpu
};
struct slurm_nodes {
	struct arena arena;
	VEC(struct slurm_node) list;
};
void slurm_nodes_free(struct slurm_nodes *n);

/** All nodes, or the one that is named. The error is that Slurm did not answer. */
struct uh_error *slurm_list(const char *node, struct slurm_nodes *ret);
struct uh_error *slurm_drain(const char *node, const char *reason);
struct uh_error *slurm_resume(const char *node);
/** Without ASAP, which would take back the drain (22.05), and without nextstate, which takes it back whoever set it. */
struct uh_error *slurm_reboot(const char *node, const char *reason);
/** Whether slurm.conf has a RebootProgram. */
bool slurm_can_reboot(void);

/** What a node said of itself: the head of the document of unhang check. */
struct node_word {
	enum node_status status;
	struct str host, boot_id, smoke;
	int64_t asked;
	struct node_finding worst; // what decided; its words are strangers'
};
/** false: it is none, it is damaged, or its boot is none. */
bool node_word_parse(struct str json, struct arena *a, struct node_word *ret);
/** The word of a node, from DIR/NODE.json; false: there is none, it is damaged, it speaks of another node, or somebody else than root, this user and
 * @owner can have written it. */
bool node_word_read(const char *directory, uid_t owner, struct str node, struct arena *a, struct node_word *ret);
/** Whether what has this owner may speak for a node: root's, this user's and @owner's may. */
bool node_word_owner(const struct stat *st, uid_t owner);
/** Whether it is at most so old. One from the future is of a clock that is wrong: nobody knows how old it is. */
bool node_word_fresh(const struct node_word *w, int64_t seconds, int64_t now);
/** node17 of node17.cluster.example: who asks and the node may write it differently. */
bool node_word_same_host(struct str one, struct str other);

enum fleet_move { MOVE_NONE, MOVE_DRAIN, MOVE_RESUME, MOVE_REBOOT, MOVE_POWER, MOVE_KEEP, MOVES };
extern const char *const fleet_moves[];

/** One line of the journal. */
struct fleet_entry {
	int64_t when;
	enum fleet_move move;
	enum fleet_step { STEP_WOULD, STEP_HELD, STEP_WILL, STEP_DONE, STEP_FAILED, STEPS } step;
	struct str node, boot_id, user, set, action, incident, reason;
};
/** What the arbiter did with a node before, by its journal. */
struct node_memory {
	struct str name;
	int64_t drained;          // when it last drained it; 0: never
	struct fleet_entry begun; // a drain of which no end is known: the arbiter was killed then; when 0: none
	bool holds;               // that is the newest thing that it did with it
	struct str boot_id;       // of the node when it was drained
	struct str user, set;     // as Slurm had them behind it
	struct str action;        // what the node needed then
	struct str incident, reason;
	int64_t rebooted;     // when it asked for a reboot since; 0: it did not
	bool powered;         // it was told that only the power helps
	unsigned resumes;     // in the last day
	enum fleet_move told; // what it would have done last, where it only observes
	enum fleet_step told_step;
	struct str told_of; // incident of that
};
struct fleet_memory {
	struct arena arena;
	VEC(struct node_memory) list;
	VEC(struct fleet_drain {
		struct str name;
		int64_t when;
	})
	drains; // of the last hour
};

struct fleet_rules {
	unsigned most,
		percent; // drains in an hour: so many nodes, or so many of a hundred GPU nodes, whichever is less; 0: no such limit
	unsigned held_most, held_percent; // the same for nodes that it has drained and that are not back
	bool reboots;                     // it may ask for reboots
	int64_t stale_s;                  // a word that is older says nothing
	int64_t reboot_s;                 // a node that has not come back so long after a reboot needs the power switch
	unsigned resumes;                 // a node that was resumed so often in a day stays drained
};

/** What is to be done with a node; *@ret_why says why, for people. It does not know the limit. */
enum fleet_move fleet_decide(const struct slurm_node *n, const struct node_word *w, const struct node_memory *m,
			     const struct fleet_rules *r, int64_t now, struct str *ret_why);
/** How many nodes may be drained now, of so many, of which @drained are drained by it. */
unsigned fleet_budget(const struct fleet_memory *m, const struct fleet_rules *r, size_t gpu_nodes, size_t drained, int64_t now);
/** Whether Slurm has it drained with a reason of ours. */
bool fleet_drained(const struct slurm_node *n);
/** A node counts once in an hour, however often it was tried: after a kill it is not known whether Slurm was told. */
void fleet_count_drain(struct fleet_memory *m, struct str name, int64_t when);
/** What is known of a node; NULL: nothing. */
struct node_memory *fleet_remember(struct fleet_memory *m, struct str name, bool make);

void fleet_entry_write(struct text *to, const struct fleet_entry *e);
bool fleet_entry_read(struct str line, struct fleet_entry *ret);
/** What the entry makes of what is known. Entries come in their order. */
void fleet_memory_take(struct fleet_memory *m, const struct fleet_entry *e, int64_t now);
void fleet_memory_free(struct fleet_memory *m);
