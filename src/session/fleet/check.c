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
#include "base/print.h"
#include "base/save.h"
#include "evidence/documents/document.h"
#include "report/node/node.h"
#include "report/sheet.h"
#include "session/history/history.h"
#include "session/session.h"
#include "source/source.h"
#include "store/store.h"
#include "watch/node/fitness.h"
#include "watch/node/state.h"
#include "watch/watch.h"

enum { LOOK_MS = 4500, LOOK_MOST = 4 << 20, SMOKE_MOST = 64 << 10, SMOKE_S = 900 };
#define SMOKE_FILE "smoke.json"

// --- a look of its own, in a child that is left behind where the GPU does not let go of it ---

static struct watched_gpu seen_gpu(const struct gpu_observation *g)
{
	return (struct watched_gpu){ .pci = g->device->pci,
				     .unique_id = g->device->unique_id,
				     .serial = g->device->serial,
				     .slot = g->device->slot,
				     .partition = g->device->compute_partition,
				     .health = g->health,
				     .says = g->says.n ? g->says : g->unseen,
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
	// Who reads our output waits until nobody has it open any more, and a child that is stuck stays.
	const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int n = STDIN_FILENO; n <= STDERR_FILENO; n++)
		dup2(nothing, n);
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

static struct uh_error *state_looked(struct arena *a, struct watch_state *ret)
{
	_cleanup_text_ struct text said = { 0 };
	_cleanup_child_ struct child c = { .fd = -1 };
	door_end(); // a child cannot use the one of its parent
	if (!child_start(CHILD_CHECK_LOOK, check_look, NULL, &c))
		return uh_error_os(errno, "a look at the GPUs");
	const enum child_end end = child_wait(&c, now_ms() + LOOK_MS, LOOK_MOST, &said);
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
	uh_error_free(save_file(AT_FDCWD, arena_printf(&a, "%s/" SMOKE_FILE, run_dir).p, (struct str){ text, n }, 0644));
}

/** One that began long ago and never ended has failed. */
static void smoke_read(const char *run_dir, struct arena *a, struct fitness_asked *to)
{
	struct str text;
	_cleanup_error_ struct uh_error *err =
		believed_read(NULL, arena_printf(a, "%s/" SMOKE_FILE, run_dir).p, SMOKE_MOST, a, &text);
	_cleanup_json_ json_t *root = err ? NULL : json_loadb(text.p, text.n, 0, NULL);
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

/** An incident that asks for a new part, or for the power to be switched off, outlives reboots: the store has it before the watch is there. */
static void judge_store(const char *state_dir, const struct fitness_asked *asked, struct arena *a, struct node_answer *to)
{
	_cleanup_(stored_list_free) struct stored_list all = { 0 };
	const struct stored *lasting[64];
	size_t n = 0;
	uh_error_free(store_list(state_dir, &all));
	for (size_t i = 0; i < all.list.len && n < ARRAY_SIZE(lasting); i++) {
		const struct stored *one = all.list.data[i];
		if (one->state == STORED_CLOSED || !str_among(one->action, STR_EQUALS, "replace|power-cycle|").n)
			continue;
		struct stored *copy = arena_copy(a, one, sizeof(*one));
		struct str *const texts[] = { &copy->gpu, &copy->class,  &copy->title, &copy->fault, &copy->action,
					      &copy->id,  &copy->bundle, &copy->job,   &copy->fit };
		for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
			*texts[k] = arena_str(a, *texts[k]);
		lasting[n++] = copy;
	}
	const struct watch_state s = { .open = lasting, .nopen = n, .looked = 1, .written = 1 };
	struct fitness_asked kept = *asked;
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
static bool answer_by_watch(const struct uh_check_options *o, const struct fitness_asked *asked, struct arena *a,
			    struct node_answer *ret, struct str *ret_why)
{
	struct watch_state s;
	_cleanup_error_ struct uh_error *err = state_read(o->run_dir ? o->run_dir : RUN_DIR, a, &s);
	*ret_why = err ? arena_str(a, str_z(err->errnum == ENOENT ? "No unhang watch runs." : uh_error_message(err))) :
			 (struct str){ 0 };
	if (err) {
		judge_store(o->state_dir ? o->state_dir : STATE_DIR, asked, a, ret);
		return false;
	}
	const bool holds = state_holds(&s, asked->now, ret_why);
	if (source_this_boot(s.boot_id))
		fitness_judge(&s, asked, a, ret);
	else
		judge_store(o->state_dir ? o->state_dir : STATE_DIR, asked, a, ret);
	answer_as(ret, &s, "watch", holds);
	if (!holds)
		*ret_why = arena_printf(a, "unhang watch: " STR_FMT ".", STR_ARG(*ret_why));
	return holds;
}

static void answer_by_look(const struct fitness_asked *asked, struct arena *a, struct node_answer *ret)
{
	struct watch_state s;
	_cleanup_error_ struct uh_error *err = state_looked(a, &s);
	if (err) {
		fitness_unknown(arena_str(a, str_z(uh_error_message(err))), ret);
		return;
	}
	fitness_judge(&s, asked, a, ret);
	answer_as(ret, &s, "look", true);
}

/** By a look. What the watch knew to be broken stays so: a GPU can look well, and fail the next job. */
static void answer_looking(const struct fitness_asked *asked, struct arena *a, struct node_answer *ret)
{
	struct node_answer before = *ret;
	*ret = (struct node_answer){ .source = S("none"), .asked = before.asked, .expected = before.expected };
	answer_by_look(asked, a, ret);
	for (size_t n = 0; n < before.findings.len; n++) {
		const struct node_finding *f = &before.findings.data[n];
		const bool told = f->incident.n &&
				  list_find(ret->findings.data, ret->findings.len, it, str_eq(it->incident, f->incident));
		if (f->status == NODE_FAILED && !f->observed && !told)
			fitness_add(ret, *f);
	}
	vec_free(&before.findings);
}

static uint64_t machine_number(void)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str id = { 0 };
	uh_error_free(root_read(NULL, "/etc/machine-id", 64, &a, &id, NULL));
	return hash_mix(str_hash(STR_HASH_BEGIN, str_trim(id)), 0);
}

static void answer(const struct uh_check_options *o, struct arena *a, struct node_answer *ret)
{
	enum { NEW_RULES = 1 };
	struct fitness_asked asked = { .now = time(NULL),
				       .expected = o->expected,
				       .partition = o->partition,
				       .new_rules = o->new_rules ? o->new_rules : NEW_RULES,
				       .machine = machine_number() };
	struct str why = { 0 };
	char host[SOURCE_HOST_MAX], boot[SOURCE_BOOT_MAX];
	*ret = (struct node_answer){ .source = S("none"), .asked = asked.now, .expected = o->expected };
	setenv("UNHANG_PATIENCE", "1", 0); // who asks does not wait for a directory that does not answer
	smoke_read(o->run_dir ? o->run_dir : RUN_DIR, a, &asked);
	const bool known = answer_by_watch(o, &asked, a, ret, &why) && !o->look;
	if (!known && (o->look || o->form == UH_CHECK_TEXT))
		answer_looking(&asked, a, ret);
	else if (!known)
		fitness_unknown(why, ret);
	fitness_end(ret);
	ret->watch.smoke = asked.smoke;
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
static struct uh_error *save_answer(const struct node_answer *a, void (*write)(const struct node_answer *, FILE *),
				    const char *path)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return uh_error_os(errno, "%s", path);
	write(a, out);
	fclose(out);
	return save_soon(AT_FDCWD, path, (struct str){ text, n }, 0644);
}

struct uh_error *uh_check(const struct uh_check_options *o, FILE *out, int *ret_status)
{
	static const int statuses[] = { [NODE_HEALTHY] = 0, [NODE_DEGRADED] = 0, [NODE_UNKNOWN] = 2, [NODE_FAILED] = 1 };
	_cleanup_arena_ struct arena a = { 0 };
	struct node_answer r;
	struct uh_error *err = NULL;
	answer(o, &a, &r);
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
			err = save_check(AT_FDCWD, o->file);
		if (!err && strcmp(o->file, "-"))
			err = save_answer(&r, report_node_prometheus, o->file);
		break;
	}
	// The last of all: it takes words out of the answer.
	if (o->publish && !err)
		err = save_answer(&r, check_put_document,
				  arena_printf(&a, "%s/" STR_FMT ".json", o->publish, STR_ARG(r.host)).p);
	vec_free(&r.findings);
	return err;
}
