// unhang check: may the next job run on this node? By the state of its watch; where there is none, and time for it, by a look of its own.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/child/put.h"
#include "base/print.h"
#include "base/save.h"
#include "evidence/documents/document.h"
#include "report/node/node.h"
#include "report/sheet.h"
#include "session/fleet/check.h"
#include "session/history/history.h"
#include "session/session.h"
#include "source/source.h"
#include "store/store.h"
#include "watch/node/fitness.h"
#include "watch/node/state.h"
#include "watch/watch.h"

enum { LOOK_MOST = 4 << 20, SMOKE_S = 900 };
// When each step must have ended, in milliseconds from the beginning. A child that is stuck costs 200 ms more: it is waited for after its kill.
// Who asks for a scheduler gets an answer within a second, others within five.
enum { READ_MS = 350, SAVE_MS = 650, LOOK_MS = 4500, LOOK_AND_SAVE_MS = 3800, LOOKED_SAVE_MS = 4600 };

// --- a look of its own, in a child that is left behind where the GPU does not let go of it ---

static struct watched_gpu seen_gpu(const struct gpu_observation *g)
{
	static const char *const fits[] = { [SITS_WELL] = "", [SITS_WARNS] = "warning", [SITS_UNKNOWN] = "unknown", [SITS_UNFIT] = "no" };
	return (struct watched_gpu){ .pci = g->device->pci,
				     .unique_id = g->device->unique_id,
				     .serial = g->device->serial,
				     .slot = g->device->slot,
				     .partition = g->device->compute_partition,
				     .health = g->health,
				     .says = g->says.n ? g->says : g->unseen,
				     .hardware = g->hardware,
				     .hardware_fit = str_z(fits[g->fit]),
				     .unwell = g->unwell,
				     .seen = g->unwell || g->known };
}

/** The state that a watch would have written now. */
static void write_seen(const struct uh_session *s, FILE *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	char host[SOURCE_HOST_MAX], boot[SOURCE_BOOT_MAX];
	const struct machine_observation *m = s->seen;
	const int64_t now = time(NULL);
	struct watched_gpu *gpus = arena_alloc(&a, ((m ? m->n : 0) + 1) * sizeof(*gpus));
	struct stored *open = arena_alloc(&a, (s->ledger.incidents.len + 1) * sizeof(*open));
	const struct stored **views = arena_alloc(&a, (s->ledger.incidents.len + 1) * sizeof(*views));
	struct watch_state w = { .host = str_z(source_host(host)),
				 .boot_id = source_boot_id(boot),
				 .written = now,
				 .valid_until = now + 1,
				 .looked = m ? now : 0,
				 .unread = s->log_wanted && !s->log_read ? S("The kernel log could not be read.") :
									   (struct str){ 0 },
				 .unlisted = m ? devices_unlisted(&m->devices, &a) : (struct str){ 0 },
				 .gpus = gpus,
				 .open = views };
	for (; m && w.ngpus < m->n; w.ngpus++)
		gpus[w.ngpus] = seen_gpu(&m->gpus[w.ngpus]);
	for (size_t n = 0; n < s->ledger.incidents.len; n++) {
		const struct incident *i = s->ledger.incidents.data[n];
		if (i->history)
			continue;
		open[w.nopen] = session_stored(s, i, now, &a);
		open[w.nopen].state = STORED_OPEN;
		views[w.nopen] = &open[w.nopen];
		w.nopen++;
	}
	report_state(&w, to);
}

static void check_look(int fd, const void *ctx)
{
	(void)ctx;
	prctl(PR_SET_NAME, "unhang-check");
	child_quiet();
	FILE *to = fdopen(fd, "w");
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	if (!to)
		_exit(1);
	uh_error_free(uh_session_add_machine(s, NULL));
	uh_session_add_newest(s, NULL);
	uh_session_end(s);
	write_seen(s, to);
	_exit(fflush(to) ? 1 : 0);
}

static struct uh_error *state_looked(int64_t deadline, struct arena *a, struct watch_state *ret)
{
	_cleanup_text_ struct text said = { 0 };
	_cleanup_child_ struct child c = { .fd = -1 };
	door_end(); // a child cannot use the one of its parent
	if (!child_start(CHILD_CHECK_LOOK, check_look, NULL, &c))
		return uh_error_os(errno, "a look at the GPUs");
	const enum child_end end = child_wait(&c, deadline, LOOK_MOST, &said);
	if (end == CHILD_LATE)
		return uh_error_new("The look at the GPUs did not end in time.");
	if (end != CHILD_GOOD)
		return uh_error_new("The look at the GPUs failed.");
	return state_parse(arena_str(a, text_str(&said)), a, ret);
}

// --- the smoke test of this boot ---

static void smoke_write(const char *run_dir, const char *result, struct str says)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	char boot[SOURCE_BOOT_MAX];
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return;
	struct sheet s = sheet_on(true, out);
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "schema", v_word("unhang/smoke/1") }, { "boot_id", v_text(source_boot_id(boot)) },
		     { "result", v_word(result) }, { "written", v_date(time(NULL)) }, { "says", v_known(says) });
	sheet_close(&s, '}');
	fclose(out);
	uh_error_free(put_file(arena_printf(&a, "%s/" SMOKE_FILE, run_dir).p, (struct str){ text, n }, 0644, PUT_OVER, 0));
}

/** One that began long ago and never ended has failed. */
static void smoke_take(struct str text, struct arena *a, struct fitness_asked *to)
{
	_cleanup_json_ json_t *root = text.n ? json_loadb(text.p, text.n, 0, NULL) : NULL;
	if (!root || !source_this_boot(document_text(root, "boot_id")))
		return;
	to->smoke = arena_str(a, document_text(root, "result"));
	to->smoke_says = arena_str(a, document_text(root, "says"));
	if (str_is(to->smoke, "running") && document_time(root, "written") + SMOKE_S < to->now) {
		to->smoke = S("failed");
		to->smoke_says = S("The smoke test of this boot did not end.");
	}
}

struct uh_error *uh_check_smoke(const struct uh_check_options *o, FILE *out, bool *ret_good)
{
	const char *run_dir = o->run_dir ? o->run_dir : RUN_DIR;
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	unsigned failed = 0;
	FILE *said = open_memstream(&text, &n);
	if (!said)
		return uh_error_os(errno, "the smoke test");
	smoke_write(run_dir, "running", (struct str){ 0 });
	struct uh_error *err = uh_doctor_smoke(&(struct uh_doctor_options){ 0 }, said, &failed);
	fclose(said);
	// A GPU that could not be tested says nothing, neither good nor bad.
	*ret_good = !failed;
	smoke_write(run_dir,
		    failed ? "failed" :
		    err    ? "untested" :
			     "passed",
		    err ? str_z(uh_error_message(err)) : str_trim((struct str){ text, n }));
	fwrite(text, 1, n, out);
	return err;
}

// --- what is known of this node ---

/** One question, and what is known until it is answered. */
struct check {
	const struct uh_check_options *o;
	int64_t began; // of now_ms()
	struct fitness_asked asked;
	struct check_found found;
	struct str why; // nothing newer is known; empty: the watch's state holds
	bool late;      // what could have been known of this node did not come in time
};

/** An incident that asks for a new part, or for the power to be switched off, outlives reboots: the store has it before the watch is there. */
static void judge_store(struct check *c, struct arena *a, struct node_answer *to)
{
	const char *state_dir = c->o->state_dir ? c->o->state_dir : STATE_DIR;
	if (!c->late && !check_read_store(state_dir, c->began + READ_MS, a, &c->found)) {
		c->late = true;
		c->why = arena_printf(a, "%s did not answer in time.", state_dir);
	}
	struct stored *records = arena_alloc(a, (c->found.nrecords + 1) * sizeof(*records));
	const struct stored **lasting = arena_alloc(a, (c->found.nrecords + 1) * sizeof(*lasting));
	size_t n = 0;
	for (size_t i = 0; i < c->found.nrecords; i++)
		if (stored_parse(c->found.records[i].text, a, &records[n])) {
			lasting[n] = &records[n];
			n++;
		}
	const struct watch_state s = { .open = lasting, .nopen = n, .looked = 1, .written = 1 };
	struct fitness_asked kept = c->asked;
	kept.expected = 0;
	if (n)
		fitness_judge(&s, &kept, a, to);
}

static void answer_as(struct node_answer *ret, const struct watch_state *s, const char *source, bool holds)
{
	ret->host = s->host;
	ret->boot_id = s->boot_id;
	ret->source = str_z(source);
	ret->valid_until = s->valid_until;
	ret->watch.runs = holds && !strcmp(source, "watch");
	ret->watch.written = s->written;
	ret->watch.lost = s->lost;
	ret->watch.unread = s->unread;
	ret->watch.uncounted = s->uncounted;
}

/** By the watch. What it knew last still counts where it was bad: that nobody looks any more makes nothing better. */
static bool answer_by_watch(struct check *c, struct arena *a, struct node_answer *ret)
{
	struct watch_state s;
	_cleanup_error_ struct uh_error *err = c->found.why.n ? NULL : state_parse(c->found.state, a, &s);
	c->why = err ? arena_str(a, str_z(uh_error_message(err))) : c->found.why;
	if (c->why.n) {
		judge_store(c, a, ret);
		return false;
	}
	const bool holds = state_holds(&s, c->asked.now, &c->why);
	if (!holds)
		c->why = arena_printf(a, "unhang watch: " STR_FMT ".", STR_ARG(c->why));
	if (source_this_boot(s.boot_id))
		fitness_judge(&s, &c->asked, a, ret);
	else
		judge_store(c, a, ret);
	answer_as(ret, &s, "watch", holds);
	return holds;
}

static void answer_by_look(const struct check *c, struct arena *a, struct node_answer *ret)
{
	struct watch_state s;
	_cleanup_error_ struct uh_error *err = state_looked(c->began + (c->o->publish ? LOOK_AND_SAVE_MS : LOOK_MS), a, &s);
	if (err) {
		fitness_unknown(arena_str(a, str_z(uh_error_message(err))), ret);
		return;
	}
	fitness_judge(&s, &c->asked, a, ret);
	answer_as(ret, &s, "look", true);
}

/** By a look. What the watch knew to be broken stays so: a GPU can look well, and fail the next job. What it knew may be broken if it did not come
 * in time. */
static void answer_looking(const struct check *c, struct arena *a, struct node_answer *ret)
{
	struct node_answer before = *ret;
	*ret = (struct node_answer){ .source = S("none"), .asked = before.asked, .expected = before.expected };
	answer_by_look(c, a, ret);
	if (c->late)
		fitness_unknown(c->why, ret);
	for (size_t n = 0; n < before.findings.len; n++) {
		const struct node_finding *f = &before.findings.data[n];
		const bool told = f->incident.n &&
				  list_find(ret->findings.data, ret->findings.len, it, str_eq(it->incident, f->incident));
		if (f->status == NODE_FAILED && !f->observed && !told)
			fitness_add(ret, *f);
	}
	vec_free(&before.findings);
}

static void answer(struct check *c, struct arena *a, struct node_answer *ret)
{
	enum { NEW_RULES = 1 };
	const struct uh_check_options *o = c->o;
	char host[SOURCE_HOST_MAX], boot[SOURCE_BOOT_MAX];
	check_read_run(o->run_dir ? o->run_dir : RUN_DIR, c->began + READ_MS, a, &c->found);
	c->late = c->found.errnum == ETIMEDOUT;
	c->asked = (struct fitness_asked){ .now = time(NULL),
					   .expected = o->expected,
					   .partition = o->partition,
					   .new_rules = o->new_rules ? o->new_rules : NEW_RULES,
					   .machine = hash_mix(str_hash(STR_HASH_BEGIN, str_trim(c->found.machine)), 0) };
	*ret = (struct node_answer){ .source = S("none"), .asked = c->asked.now, .expected = o->expected };
	smoke_take(c->found.smoke, a, &c->asked);
	const bool known = answer_by_watch(c, a, ret) && !o->look;
	if (!known && (o->look || o->form == UH_CHECK_TEXT))
		answer_looking(c, a, ret);
	else if (!known)
		fitness_unknown(c->why, ret);
	fitness_end(ret);
	ret->watch.smoke = c->asked.smoke;
	if (!ret->host.n)
		ret->host = arena_str(a, str_z(source_host(host)));
	if (!ret->boot_id.n)
		ret->boot_id = arena_str(a, source_boot_id(boot));
}

// --- where the answer goes ---

/** For all who can read the directory: what may name a program or a user is left out. */
static void check_put_document(const struct node_answer *a, FILE *out)
{
	for (size_t n = 0; n < a->findings.len; n++)
		a->findings.data[n].says = a->findings.data[n].job = (struct str){ 0 };
	report_node(a, true, 0, out);
}

/** A file is whole, whoever reads it when. */
static struct uh_error *save_answer(const struct check *c, const struct node_answer *a,
				    void (*write)(const struct node_answer *, FILE *), const char *path, enum put_how how)
{
	const bool quick = c->o->form != UH_CHECK_TEXT;
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return uh_error_os(errno, "%s", path);
	write(a, out);
	fclose(out);
	return put_file(path, (struct str){ text, n }, 0644, how, c->began + (quick ? SAVE_MS : LOOKED_SAVE_MS));
}

struct uh_error *uh_check(const struct uh_check_options *o, FILE *out, int *ret_status)
{
	static const int statuses[] = { [NODE_HEALTHY] = 0, [NODE_DEGRADED] = 0, [NODE_UNKNOWN] = 2, [NODE_FAILED] = 1 };
	_cleanup_arena_ struct arena a = { 0 };
	struct check c = { .o = o, .began = now_ms() };
	struct node_answer r;
	struct uh_error *err = NULL;
	answer(&c, &a, &r);
	*ret_status = statuses[r.status];
	switch (o->form) {
	case UH_CHECK_TEXT:
		report_node(&r, o->json, o->width, out);
		break;
	case UH_CHECK_SLURM:
		report_node_slurm(&r, out);
		break;
	case UH_CHECK_NPD:
		*ret_status = report_node_npd(&r, out);
		break;
	case UH_CHECK_PROMETHEUS:
		if (!strcmp(o->file, "-"))
			report_node_prometheus(&r, out);
		else
			err = save_answer(&c, &r, report_node_prometheus, o->file, PUT_SOON);
		break;
	}
	// The last of all: it takes words out of the answer.
	if (o->publish && !err)
		err = save_answer(&c, &r, check_put_document,
				  arena_printf(&a, "%s/" STR_FMT ".json", o->publish, STR_ARG(r.host)).p, PUT_OVER);
	vec_free(&r.findings);
	return err;
}
