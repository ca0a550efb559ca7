// unhang fleet arbiter: the one program that drains, resumes and reboots nodes. It writes what it will do before it does it, so that it can be
// killed at any moment: what was begun counts against the limit, whether Slurm was told or not.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/child/put.h"
#include "base/cleanup.h"
#include "base/door/account.h"
#include "base/door/door.h"
#include "base/door/lock.h"
#include "base/save.h"
#include "session/fleet/fleet.h"

enum { JOURNAL_MOST = 256 << 20, NODE_NAME = 128, HOUR_S = 3600 };
#define JOURNAL "decisions"

struct arbiter {
	const struct uh_arbiter_options *o;
	struct fleet_rules rules;
	struct fleet_memory memory;
	int journal;
	bool can_reboot;
	FILE *out;
	uh_problem_fn *problem;
	void *ctx;
	uid_t owner;   // whose files are believed besides root's
	unsigned held; // back by the limit, in this round
	struct arbiter_heard {
		size_t of;          // nodes of Slurm
		unsigned said, old; // that published something, and too long ago
		char silent[64];    // the first that did not
	} heard, told;              // of this round, and as it was told last
};

// --- the journal ---

/** On the disk when it returns: what is not must not be done. */
static struct uh_error *arbiter_note(struct arbiter *a, const struct fleet_entry *e)
{
	_cleanup_text_ struct text line = { 0 };
	fleet_entry_write(&line, e);
	if (!write_all(a->journal, text_str(&line)) || fdatasync(a->journal))
		return uh_error_os(errno, "%s/" JOURNAL, a->o->state_dir);
	fleet_memory_take(&a->memory, e, time(NULL));
	fwrite(line.p, 1, line.n, a->out);
	fflush(a->out);
	return NULL;
}

static struct uh_error *arbiter_load(struct arbiter *a)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct str text = { 0 };
	unsigned damaged = 0;
	const char *path = arena_printf(&room, "%s/" JOURNAL, a->o->state_dir).p;
	struct uh_error *err = believed_read(NULL, path, JOURNAL_MOST, &room, &text);
	if (err && err->errnum == ENOENT) {
		uh_error_free(err);
		err = NULL;
	}
	for (struct fleet_entry e; !err && text.n;) {
		const struct str line = str_split(&text, '\n');
		if (fleet_entry_read(line, &e))
			fleet_memory_take(&a->memory, &e, time(NULL));
		else
			damaged += str_trim(line).n != 0;
	}
	if (damaged)
		a->problem(a->ctx,
			   "a part of the journal of decisions cannot be read; drains that Slurm knows count all the same");
	if (err)
		return err;
	a->journal = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	// A line that a kill has cut gets its end, so that the next one is whole.
	if (a->journal < 0 || (lseek(a->journal, 0, SEEK_END) > 0 && !write_all(a->journal, S("\n"))))
		return uh_error_os(errno, "%s", path);
	return NULL;
}

// --- one node ---

/** Slurm's view of it now: an administrator may have been faster. */
static bool still_so(const char *name, const struct slurm_node *before)
{
	_cleanup_(slurm_nodes_free) struct slurm_nodes now = { 0 };
	_cleanup_error_ struct uh_error *err = slurm_list(name, &now);
	return !err && str_eq(now.list.data[0].state, before->state) && str_eq(now.list.data[0].reason, before->reason) &&
	       str_eq(now.list.data[0].set, before->set);
}

static struct uh_error *tell_slurm(enum fleet_move move, const char *name, const char *reason)
{
	switch (move) {
	case MOVE_DRAIN:
		return slurm_drain(name, reason);
	case MOVE_RESUME:
		return slurm_resume(name);
	case MOVE_REBOOT:
		return slurm_reboot(name, reason);
	case MOVE_POWER:
	case MOVE_KEEP:
	case MOVE_NONE:
	case MOVES:
		break;
	}
	return NULL;
}

/** Writes what it will do, does it, and writes what Slurm made of it. */
static struct uh_error *arbiter_act(struct arbiter *a, const struct slurm_node *n, struct fleet_entry e)
{
	_cleanup_arena_ struct arena room = { 0 };
	const char *name = arena_z(&room, n->name), *reason = arena_z(&room, e.reason);
	if (!still_so(name, n))
		return NULL; // it is looked at again in the next round
	e.step = STEP_WILL;
	struct uh_error *err = arbiter_note(a, &e);
	if (err)
		return err;
	struct uh_error *refused = tell_slurm(e.move, name, reason);
	_cleanup_(slurm_nodes_free) struct slurm_nodes after = { 0 };
	if (!refused && e.move != MOVE_RESUME)
		refused = slurm_list(name, &after);
	e.when = time(NULL);
	e.step = refused ? STEP_FAILED : STEP_DONE;
	if (after.list.len == 1) {
		e.user = after.list.data[0].user;
		e.set = after.list.data[0].set;
	}
	if (refused)
		a->problem(a->ctx, uh_error_message(refused));
	uh_error_free(refused);
	return arbiter_note(a, &e);
}

/** What it would do, or does not because of the limit: each thing is written once. */
static struct uh_error *arbiter_would(struct arbiter *a, struct fleet_entry e, enum fleet_step step)
{
	const struct node_memory *m = fleet_remember(&a->memory, e.node, false);
	if (m && m->told == e.move && m->told_step == step && str_eq(m->told_of, e.incident))
		return NULL;
	e.step = step;
	return arbiter_note(a, &e);
}

/** When the reason of a node was set: Slurm's commands run in UTC here. 0: it is not known. */
static int64_t set_when(const struct slurm_node *n)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct tm tm = { 0 };
	return strptime(arena_z(&room, n->set), "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) : 0;
}

/** A drain that was begun when the arbiter was killed: Slurm has it, with the words and at the time that were meant. */
static struct uh_error *arbiter_adopt(struct arbiter *a, const struct slurm_node *n, const struct node_memory *m)
{
	enum { WITHIN_S = 120 };
	struct fleet_entry e = m->begun;
	const int64_t when = set_when(n);
	if (!e.when || !str_eq(n->reason, e.reason) || when < e.when || when > e.when + WITHIN_S)
		return NULL;
	e.step = STEP_DONE;
	e.user = n->user;
	e.set = n->set;
	return arbiter_note(a, &e);
}

static struct uh_error *arbiter_node(struct arbiter *a, const struct slurm_node *n, unsigned *budget)
{
	_cleanup_arena_ struct arena room = { 0 };
	_cleanup_text_ struct text reason = { 0 };
	struct node_word w;
	struct str why;
	const struct node_memory *m = fleet_remember(&a->memory, n->name, false);
	struct uh_error *err = m && a->o->enforce ? arbiter_adopt(a, n, m) : NULL;
	if (err)
		return err;
	if (n->name.n >= NODE_NAME || !node_word_read(a->o->nodes, a->owner, n->name, &room, &w))
		w = (struct node_word){ .status = NODE_UNKNOWN };
	a->heard.said += w.asked != 0;
	if (!w.asked && !a->heard.silent[0])
		snprintf(a->heard.silent, sizeof(a->heard.silent), STR_FMT, STR_ARG(n->name));
	a->heard.old += w.asked && !node_word_fresh(&w, a->rules.stale_s, time(NULL));
	struct fleet_rules rules = a->rules;
	rules.reboots &= a->can_reboot;
	const enum fleet_move move = fleet_decide(n, &w, m, &rules, time(NULL), &why);
	if (move == MOVE_NONE)
		return NULL;
	const bool held = move == MOVE_DRAIN && !*budget;
	*budget -= move == MOVE_DRAIN && !held;
	a->held += held;
	// What is done with a node later is said of what it was drained for.
	if (move != MOVE_DRAIN) {
		w.boot_id = m->boot_id;
		w.worst.action = m->action;
		w.worst.incident = m->incident;
		text_add(&reason, move == MOVE_REBOOT ? m->reason : why);
	} else {
		node_reason(&reason, &w.worst);
	}
	struct fleet_entry e = { .when = time(NULL),
				 .move = move,
				 .node = n->name,
				 .boot_id = w.boot_id,
				 .action = w.worst.action,
				 .incident = w.worst.incident,
				 .reason = text_str(&reason) };
	if (held || !a->o->enforce)
		return arbiter_would(a, e, held ? STEP_HELD : STEP_WOULD);
	return arbiter_act(a, n, e);
}

// --- rounds ---

/** Who may write the directory can take files out of it, and put old ones back. In one with the sticky bit, only those of his own. */
static struct uh_error *arbiter_judge_directory(const struct arbiter *a)
{
	const char *path = a->o->nodes;
	struct opened found;
	struct uh_error *err = door_look(&(struct named){ .path = path }, &found);
	if (err)
		return err;
	if (!S_ISDIR(found.st.st_mode))
		return uh_error_os(ENOTDIR, "%s", path);
	if (!node_word_owner(&found.st, a->owner))
		return uh_error_new(
			"%s belongs to somebody who could speak for any node; give it to root, or name its owner with "
			"--owner",
			path);
	if (found.st.st_mode & (S_IWGRP | S_IWOTH) && !(found.st.st_mode & S_ISVTX))
		return uh_error_new("%s: others than its owner may write there, and so speak for any node", path);
	return NULL;
}

/** A directory that is not the nodes', or a name that Slurm has otherwise, would look like a cluster without a fault. */
static void arbiter_tell_heard(struct arbiter *a)
{
	char line[256];
	const struct arbiter_heard *h = &a->heard;
	if (!memcmp(h, &a->told, sizeof(*h)))
		return;
	a->told = *h;
	snprintf(line, sizeof(line), "%u of %zu nodes of Slurm have published to this directory, %u of them too long ago%s%s",
		 h->said, h->of, h->old, h->silent[0] ? "; the first that has not is " : "", h->silent);
	a->problem(a->ctx, line);
}

static struct uh_error *arbiter_round(struct arbiter *a)
{
	_cleanup_(slurm_nodes_free) struct slurm_nodes nodes = { 0 };
	_cleanup_error_ struct uh_error *err = put_answers(a->o->nodes); // else each node's file would be waited for
	if (!err)
		err = slurm_list(NULL, &nodes);
	size_t gpus = 0, drained = 0;
	if (err) {
		a->problem(a->ctx, uh_error_message(err)); // it may answer in the next round
		return NULL;
	}
	for (size_t n = 0; n < nodes.list.len; n++) {
		const struct slurm_node *one = &nodes.list.data[n];
		gpus += one->gpu;
		drained += fleet_drained(one);
		// Slurm remembers a drain that the journal has lost.
		if (str_starts(one->reason, S(FLEET_PREFIX)) && time(NULL) - set_when(one) < HOUR_S)
			fleet_count_drain(&a->memory, one->name, set_when(one));
	}
	a->held = 0;
	a->heard = (struct arbiter_heard){ .of = nodes.list.len };
	unsigned budget = fleet_budget(&a->memory, &a->rules, gpus ? gpus : nodes.list.len, drained, time(NULL));
	struct uh_error *failed = NULL;
	for (size_t n = 0; n < nodes.list.len && !failed; n++)
		failed = arbiter_node(a, &nodes.list.data[n], &budget);
	arbiter_tell_heard(a);
	if (a->held) {
		_cleanup_text_ struct text line = { 0 };
		text_printf(&line, "%u node%s not drained: the limit is reached (--most, --most-drained)", a->held,
			    a->held == 1 ? " was" : "s were");
		text_add(&line, (struct str){ "", 1 });
		a->problem(a->ctx, line.p);
	}
	return failed;
}

static bool arbiter_pause(unsigned seconds)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return sigtimedwait(&set, NULL, &(struct timespec){ .tv_sec = seconds }) < 0;
}

struct uh_error *uh_fleet_arbiter(const struct uh_arbiter_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	enum { STALE_S = 900, REBOOT_S = 1800, RESUMES = 3, MOST = 2, HELD_PERCENT = 10, INTERVAL_S = 30 };
	struct arbiter a = { .o = o,
			     .rules = { .most = o->most    ? o->most :
						o->percent ? 0 :
							     MOST,
					.percent = o->percent,
					.held_most = o->held_most,
					.held_percent = o->held_percent ? o->held_percent :
							o->held_most    ? 0 :
									  HELD_PERCENT,
					.reboots = o->reboots,
					.stale_s = o->stale ? o->stale : STALE_S,
					.reboot_s = o->reboot_wait ? o->reboot_wait : REBOOT_S,
					.resumes = RESUMES },
			     .journal = -1,
			     .out = out,
			     .problem = problem,
			     .ctx = ctx };
	_cleanup_(lock_release) struct lock lock = LOCK_FREE;
	_cleanup_close_ int place = -1;
	struct passwd who;
	char room[ACCOUNT_LINE];
	if (o->owner && !account_find(o->owner, 0, &who, room))
		return uh_error_new("there is no user %s", o->owner);
	a.owner = o->owner ? who.pw_uid : 0;
	struct uh_error *err = arbiter_judge_directory(&a);
	if (err)
		return err;
	mkdir(o->state_dir, 0755);
	place = open(o->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place < 0)
		return uh_error_os(errno, "%s", o->state_dir);
	const enum lock_end locked = lock_take(place, &lock);
	if (locked != LOCK_TAKEN)
		return locked == LOCK_HELD ? uh_error_new("another arbiter works in %s", o->state_dir) :
					     uh_error_os(errno, "%s", o->state_dir);
	err = arbiter_load(&a);
	a.can_reboot = !err && o->reboots && slurm_can_reboot();
	if (!err && o->reboots && !a.can_reboot)
		problem(ctx, "slurm.conf has no RebootProgram: nodes are not rebooted");
	do
		err = err ? err : arbiter_round(&a);
	while (!err && !o->once && arbiter_pause(o->interval ? o->interval : INTERVAL_S));
	fleet_memory_free(&a.memory);
	cleanup_close(&a.journal);
	return err;
}
