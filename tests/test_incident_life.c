// The life of an incident under the watch, without a clock, a disk or a GPU: each row of the table, and a random walk over all of it.
#include <setjmp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lifetime.h"
#include "diagnose/identity.h"
#include "watch/watcher.h"

#define BOOT "00000000-0000-0000-0000-00000000b007"
#define GPU "0000:03:00.0"
enum { STEPS = 1000000, IDS = 1 << 19, MANY = 10 };

// --- the world around: what is stored, told and run ---

/** What the world knows of an incident. */
struct known {
	uint64_t id;
	char *record; // as it was last written
	int64_t revision;
	unsigned opened, closed, hooks_open, hooks_closed;
	bool gave_way;
};

static struct world {
	struct watcher w;
	struct watch_options options;
	struct known *ids;
	uint64_t nids, seed;
	bool full;         // the disk
	bool refuses;      // to start a process
	bool operator;     // who wants all closed
	const char *told;  // the last word
	unsigned problems; // defects among them
	uint32_t asked, answered, released;
	unsigned *hits; // of rows
	bool walks;
} world;

static uint64_t chance(uint64_t below)
{
	world.seed ^= world.seed << 13;
	world.seed ^= world.seed >> 7;
	world.seed ^= world.seed << 17;
	return world.seed % below;
}

static struct known *known_of(struct str id)
{
	const uint64_t n = strtoull(id.p, NULL, 16);
	assert_true(id.n == STORE_ID && n);
	struct known *k = &world.ids[n % IDS];
	while (k->id && k->id != n)
		k = k + 1 < world.ids + IDS ? k + 1 : world.ids;
	k->id = n;
	return k;
}

static bool save_record(struct str text)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct stored s;
	assert_true(stored_parse(text, &a, &s));
	struct known *k = known_of(s.id);
	k->revision = s.revision; // that it is tried counts: of a full disk nobody hears less
	if (world.full)
		return false;
	if (k->record) {
		struct stored before;
		assert_true(stored_parse(str_z(k->record), &a, &before));
		assert_true(before.state != STORED_CLOSED || s.state == STORED_CLOSED); // over is over
	}
	free(k->record);
	k->record = strndup(text.p, text.n);
	return true;
}

bool __wrap_keeper_ask(int keeper, enum keeper_task task, struct str text, struct text *ret_why, int *ret_fd);
bool __wrap_keeper_ask(int keeper, enum keeper_task task, struct str text, struct text *ret_why, int *ret_fd)
{
	uint32_t number;
	(void)keeper;
	if (ret_fd)
		*ret_fd = -1;
	if (ret_why && task != KEEPER_CLOSES)
		text_printf(ret_why, "No space left on device");
	switch (task) {
	case KEEPER_SAVE:
		return save_record(text);
	case KEEPER_CLOSES:
		return world.operator;
	case KEEPER_HOOKS: {
		struct known *k = known_of(world.w.job.of->stored.id);
		const bool closed = world.w.job.of->stored.state == STORED_CLOSED;
		assert_true(k->revision == world.w.job.of->stored.revision); // stored first
		k->hooks_open += !closed;
		k->hooks_closed += closed;
		return !world.refuses;
	}
	case KEEPER_LOOK:
	case KEEPER_CAPTURE:
	case KEEPER_EXPLAIN:
		return !world.refuses;
	case KEEPER_HOLD:
		if (sscanf(text.p, "answer %u", &number) == 1)
			world.answered = number;
		if (sscanf(text.p, "release %u", &number) == 1) {
			assert_int_equal(number, world.answered);
			world.released = number;
		}
		return true;
	default:
		return true;
	}
}

static bool seen_well(const struct stored *i)
{
	bool well = world.w.ngpus > 0;
	for (size_t n = 0; n < world.w.ngpus; n++)
		if (!i->gpu.n || str_eq(i->gpu, world.w.gpus[n].pci))
			well &= world.w.gpus[n].seen && !world.w.gpus[n].unwell;
	return well && !str_is(i->fault, "node");
}

void __wrap_voice_incident(struct watch_voice *v, const struct stored *i, const char *what);
void __wrap_voice_incident(struct watch_voice *v, const struct stored *i, const char *what)
{
	struct known *k = known_of(i->id);
	(void)v;
	world.told = what;
	assert_int_equal(k->revision, i->revision); // it was stored first, or that was tried
	assert_int_equal(k->closed, 0);             // nothing is told of what is closed
	k->opened += !strcmp(what, "opened") || !strcmp(what, "suspected");
	assert_int_equal(k->opened, world.walks); // once, and before all else
	if (strcmp(what, "closed") != 0)
		return;
	k->closed++;
	const bool other_boot = !str_is(i->boot_id, world.w.boot_id);
	assert_true(i->closed_by.n && i->state == STORED_CLOSED);
	if (str_starts(i->closed_by, S("the GPU is well")))
		assert_true(seen_well(i) && !other_boot);
	if (str_starts(i->closed_by, S("the machine")))
		assert_true(other_boot && !(str_is(i->fault, "node") && str_is(i->action, "replace")));
}

void __wrap_voice_problem(struct watch_voice *v, const char *message);
void __wrap_voice_problem(struct watch_voice *v, const char *message)
{
	(void)v;
	if (!str_starts(str_z(message), S("A defect")))
		return;
	world.problems++;
	print_message("# %s\n", message);
}

bool __real_case_input(struct watcher *w, struct watch_case *c, enum case_input input);
bool __wrap_case_input(struct watcher *w, struct watch_case *c, enum case_input input);
bool __wrap_case_input(struct watcher *w, struct watch_case *c, enum case_input input)
{
	for (size_t i = 0; i < case_nrows && world.hits; i++)
		if (case_is(c, case_rows[i].states) && case_rows[i].input == input &&
		    (!case_rows[i].guard || case_rows[i].guard(w, c))) {
			world.hits[i]++;
			break;
		}
	return __real_case_input(w, c, input);
}

void __wrap_engine_close(struct engine *g, uint64_t order);
void __wrap_engine_close(struct engine *g, uint64_t order)
{
	(void)g;
	for (size_t n = 0; n < world.w.cases.len; n++)
		if (world.w.cases.data[n]->order == (int64_t)order) {
			world.w.cases.data[n]->order = NOT_IN_LOG;
			case_input(&world.w, world.w.cases.data[n], INPUT_QUIETED);
		}
}

static int begin(void **state)
{
	struct know_problems problems = { 0 };
	(void)state;
	world = (struct world){ .ids = calloc(IDS, sizeof(*world.ids)), .seed = 0x9e3779b97f4a7c15 };
	struct watcher *w = &world.w;
	*w = (struct watcher){ .options = &world.options,
			       .know = know_load(&problems),
			       .settings = { .capture = true, .capture_deadline = 30, .bundles_per_hour = 32, .quiet = 90 },
			       .now = 1000000,
			       .disk = -1,
			       .pulse = -1,
			       .ready = true,
			       .looked = 1,
			       .boot_id = BOOT,
			       .log_boot = BOOT,
			       .job.fd = -1 };
	w->progress = mem_alloc(GPUS_MOST * sizeof(*w->progress));
	w->engine = engine_new(w->know, (struct incident_sink){ .incident = cases_closed, .joined = cases_joined, .ctx = w });
	world.hits = calloc(case_nrows, sizeof(*world.hits));
	return !world.ids || !world.hits;
}

static int end(void **state)
{
	(void)state;
	cases_free(&world.w);
	vec_free(&world.w.holds);
	text_free(&world.w.job.answer);
	for (uint64_t i = 0; i < IDS; i++)
		free(world.ids[i].record);
	free(world.ids);
	free(world.hits);
	free(world.w.progress);
	arena_free(&world.w.gpus_arena);
	engine_free(world.w.engine);
	know_free((struct know *)(uintptr_t)world.w.know);
	return 0;
}

static struct watch_case *new_case(const char *origin)
{
	struct watch_case *c = case_add(&world.w);
	if (!c)
		return NULL;
	assert_true(++world.nids < IDS);
	c->stored.id = arena_printf(&c->arena, "%016llx", (unsigned long long)world.nids);
	c->stored.gpu = S(GPU);
	c->stored.boot_id = arena_str(&c->arena, str_z(world.w.boot_id));
	c->stored.first_us = c->stored.last_us = watch_kernel_ms(&world.w) * 1000;
	c->stored.origin = str_z(origin);
	return c;
}

static void see(bool seen, bool unwell)
{
	world.w.ngpus = 1;
	world.w.gpus[0] = (struct watched_gpu){ .pci = S(GPU), .seen = seen, .unwell = unwell };
}

// --- each row ---

enum {
	LOG = 1,           // the engine has it
	BUNDLE = 2,        // is in the record
	TAKEN = 4,         // there is a bundle, not yet explained
	FAILED = 8,        // there is none
	HEARD = 16,        // the hooks heard of it
	EARLIER = 32,      // of another boot
	NODE = 64,         // the machine is at fault
	REPLACE = 128,     // and a new boot mends nothing
	WELL = 256,        // its GPU was seen to be well
	UNKNOWN = 512,     // it was not seen
	ONCE = 1024,       // failed once
	TWICE = 2048,      // and once more
	SUSPECT = 4096,    // so says the record
	CLOSED = 8192,     // the same
	NO_BUNDLE = 16384, // the configuration wants none
	HEARS = 32768,     // the hooks run now
};

static const struct life_step {
	enum case_state from;
	enum case_input input;
	unsigned given;
	enum case_state next;
	const char *told; // NULL: nothing
} steps[] = {
	{ CASE_NEW, INPUT_CAUSELESS, LOG, CASE_CAUSELESS, NULL },
	{ CASE_CAUSELESS, INPUT_CAUSELESS, LOG, CASE_CAUSELESS, NULL },
	{ CASE_NEW, INPUT_KNOWN, LOG, CASE_DROPPED, NULL },
	{ CASE_NEW, INPUT_LINES, 0, CASE_DROPPED, NULL },
	{ CASE_NEW, INPUT_CLOSE, 0, CASE_DROPPED, NULL },
	{ CASE_CAUSELESS, INPUT_QUIETED, 0, CASE_DROPPED, NULL },
	{ CASE_NEW, INPUT_SUSPECTED, 0, CASE_SUSPECTED, "suspected" },
	{ CASE_NEW, INPUT_OPENED, LOG, CASE_CAPTURING, "opened" },
	{ CASE_CAUSELESS, INPUT_OPENED, LOG, CASE_CAPTURING, "opened" },
	{ CASE_NEW, INPUT_OPENED, LOG | NO_BUNDLE, CASE_TELLING, "opened" },
	{ CASE_NEW, INPUT_RESUMED, SUSPECT, CASE_SUSPECTED, NULL },
	{ CASE_NEW, INPUT_RESUMED, CLOSED | HEARD, CASE_LATE_TELLING, NULL },
	{ CASE_NEW, INPUT_RESUMED, 0, CASE_CAPTURING, NULL },
	{ CASE_NEW, INPUT_RESUMED, LOG | BUNDLE, CASE_TELLING, NULL },
	{ CASE_NEW, INPUT_RESUMED, LOG | BUNDLE | HEARD, CASE_WATCHED, NULL },
	{ CASE_NEW, INPUT_RESUMED, BUNDLE | HEARD, CASE_QUIET, NULL },
	{ CASE_NEW, INPUT_RESUMED, EARLIER, CASE_TELLING, NULL },
	{ CASE_NEW, INPUT_RESUMED, EARLIER | HEARD, CASE_QUIET, NULL },
	{ CASE_SUSPECTED, INPUT_HUNG, 0, CASE_CAPTURING, "hung" },
	{ CASE_SUSPECTED, INPUT_HUNG, NO_BUNDLE, CASE_TELLING, "hung" },
	{ CASE_SUSPECTED, INPUT_LINES, LOG, CASE_CAPTURING, NULL },
	{ CASE_SUSPECTED, INPUT_LINES, LOG | NO_BUNDLE, CASE_TELLING, NULL },
	{ CASE_SUSPECTED, INPUT_MOVES, 0, CASE_OVER, "closed" },
	{ CASE_SUSPECTED, INPUT_LOOKED, WELL, CASE_OVER, "closed" },
	{ CASE_SUSPECTED, INPUT_LOOKED, UNKNOWN, CASE_SUSPECTED, NULL },
	{ CASE_SUSPECTED, INPUT_LOOKED, 0, CASE_SUSPECTED, NULL },
	{ CASE_SUSPECTED, INPUT_UNSEEN, WELL, CASE_SUSPECTED, NULL },
	{ CASE_SUSPECTED, INPUT_BOOT, EARLIER, CASE_OVER, "closed" },
	{ CASE_SUSPECTED, INPUT_CLOSE, 0, CASE_OVER, "closed" },
	{ CASE_CAPTURING, INPUT_CAPTURED, TAKEN, CASE_EXPLAINING, NULL },
	{ CASE_CAPTURING, INPUT_UNCAPTURED, FAILED, CASE_TELLING, "explained" },
	{ CASE_CAPTURING, INPUT_UNCAPTURED, FAILED | HEARD | LOG, CASE_WATCHED, "explained" },
	{ CASE_CAPTURING, INPUT_KILLED, FAILED, CASE_CAPTURING, NULL },
	{ CASE_CAPTURING, INPUT_KILLED, FAILED | ONCE, CASE_TELLING, "explained" },
	{ CASE_CAPTURING, INPUT_REFUSED, BUNDLE, CASE_TELLING, NULL },
	{ CASE_CAPTURING, INPUT_LOOKED, WELL, CASE_CAPTURING, NULL },
	{ CASE_CAPTURING, INPUT_CLOSE, 0, CASE_LATE_CAPTURING, "closed" },
	{ CASE_CAPTURING, INPUT_QUIETED, 0, CASE_CAPTURING, NULL },
	{ CASE_EXPLAINING, INPUT_EXPLAINED, TAKEN, CASE_TELLING, "explained" },
	{ CASE_EXPLAINING, INPUT_UNEXPLAINED, TAKEN, CASE_EXPLAINING, NULL },
	{ CASE_EXPLAINING, INPUT_UNEXPLAINED, TAKEN | ONCE, CASE_TELLING, NULL },
	{ CASE_EXPLAINING, INPUT_LOOKED, TAKEN | WELL, CASE_EXPLAINING, NULL },
	{ CASE_EXPLAINING, INPUT_UNSEEN, TAKEN | WELL, CASE_EXPLAINING, NULL },
	{ CASE_EXPLAINING, INPUT_CLOSE, TAKEN, CASE_LATE_EXPLAINING, "closed" },
	{ CASE_EXPLAINING, INPUT_LINES, TAKEN | LOG, CASE_EXPLAINING, NULL },
	{ CASE_EXPLAINING, INPUT_CHANGED, TAKEN | LOG, CASE_EXPLAINING, "changed" },
	{ CASE_TELLING, INPUT_TOLD, BUNDLE | LOG, CASE_WATCHED, NULL },
	{ CASE_TELLING, INPUT_TOLD, BUNDLE, CASE_QUIET, NULL },
	{ CASE_TELLING, INPUT_TELLER_KILLED, BUNDLE, CASE_TELLING, NULL },
	{ CASE_TELLING, INPUT_TELLER_KILLED, BUNDLE | ONCE, CASE_TELLING, NULL },
	{ CASE_TELLING, INPUT_TELLER_KILLED, BUNDLE | TWICE, CASE_QUIET, NULL },
	{ CASE_TELLING, INPUT_ROOM, FAILED, CASE_CAPTURING, NULL },
	{ CASE_TELLING, INPUT_BOOT, EARLIER, CASE_TELLING, NULL },
	{ CASE_TELLING, INPUT_LOOKED, BUNDLE | WELL, CASE_TELLING, NULL },
	{ CASE_TELLING, INPUT_CLOSE, FAILED, CASE_OVER, "closed" },
	{ CASE_TELLING, INPUT_CLOSE, FAILED | HEARS, CASE_LATE_TELLING, "closed" },
	{ CASE_TELLING, INPUT_CLOSE, BUNDLE | HEARS, CASE_LATE_EXPLAINING, "closed" },
	{ CASE_WATCHED, INPUT_QUIETED, BUNDLE | HEARD, CASE_QUIET, NULL },
	{ CASE_WATCHED, INPUT_CHANGED, BUNDLE | HEARD | LOG, CASE_WATCHED, "changed" },
	{ CASE_WATCHED, INPUT_ROOM, FAILED | HEARD | LOG, CASE_CAPTURING, NULL },
	{ CASE_WATCHED, INPUT_CLOSE, FAILED | HEARD, CASE_LATE_TELLING, "closed" },
	{ CASE_QUIET, INPUT_LINES, BUNDLE | HEARD | LOG, CASE_WATCHED, NULL },
	{ CASE_QUIET, INPUT_ROOM, FAILED | HEARD, CASE_CAPTURING, NULL },
	{ CASE_QUIET, INPUT_LOOKED, BUNDLE | HEARD | WELL, CASE_LATE_EXPLAINING, "closed" },
	{ CASE_QUIET, INPUT_LOOKED, FAILED | HEARD | WELL, CASE_LATE_TELLING, "closed" },
	{ CASE_QUIET, INPUT_LOOKED, BUNDLE | HEARD | UNKNOWN, CASE_QUIET, NULL },
	{ CASE_QUIET, INPUT_LOOKED, BUNDLE | HEARD, CASE_QUIET, NULL },
	{ CASE_QUIET, INPUT_LOOKED, BUNDLE | HEARD | WELL | NODE, CASE_QUIET, NULL },
	{ CASE_QUIET, INPUT_UNSEEN, BUNDLE | HEARD | WELL, CASE_QUIET, NULL },
	{ CASE_QUIET, INPUT_BOOT, EARLIER | BUNDLE | HEARD, CASE_LATE_TELLING, "closed" },
	{ CASE_QUIET, INPUT_BOOT, EARLIER | BUNDLE | HEARD | NODE, CASE_LATE_TELLING, "closed" },
	{ CASE_QUIET, INPUT_BOOT, EARLIER | BUNDLE | HEARD | NODE | REPLACE, CASE_QUIET, NULL },
	{ CASE_QUIET, INPUT_CLOSE, BUNDLE | HEARD | NODE, CASE_LATE_EXPLAINING, "closed" },
	{ CASE_LATE_CAPTURING, INPUT_CAPTURED, TAKEN, CASE_LATE_EXPLAINING, NULL },
	{ CASE_LATE_CAPTURING, INPUT_UNCAPTURED, FAILED, CASE_OVER, NULL },
	{ CASE_LATE_CAPTURING, INPUT_UNCAPTURED, FAILED | HEARD, CASE_LATE_TELLING, NULL },
	{ CASE_LATE_CAPTURING, INPUT_KILLED, FAILED, CASE_LATE_CAPTURING, NULL },
	{ CASE_LATE_CAPTURING, INPUT_KILLED, FAILED | ONCE, CASE_OVER, NULL },
	{ CASE_LATE_CAPTURING, INPUT_REFUSED, FAILED, CASE_OVER, NULL },
	{ CASE_LATE_CAPTURING, INPUT_GIVE_WAY, 0, CASE_OVER, NULL },
	{ CASE_LATE_EXPLAINING, INPUT_EXPLAINED, BUNDLE | HEARD, CASE_LATE_TELLING, NULL },
	{ CASE_LATE_EXPLAINING, INPUT_EXPLAINED, BUNDLE, CASE_OVER, NULL },
	{ CASE_LATE_EXPLAINING, INPUT_UNEXPLAINED, BUNDLE | HEARD, CASE_LATE_EXPLAINING, NULL },
	{ CASE_LATE_EXPLAINING, INPUT_UNEXPLAINED, BUNDLE | HEARD | ONCE, CASE_LATE_TELLING, NULL },
	{ CASE_LATE_EXPLAINING, INPUT_TOLD, BUNDLE, CASE_LATE_EXPLAINING, NULL },
	{ CASE_LATE_EXPLAINING, INPUT_TELLER_KILLED, BUNDLE, CASE_LATE_EXPLAINING, NULL },
	{ CASE_LATE_EXPLAINING, INPUT_GIVE_WAY, BUNDLE | HEARD, CASE_OVER, NULL },
	{ CASE_LATE_TELLING, INPUT_TOLD, BUNDLE | HEARD, CASE_OVER, NULL },
	{ CASE_LATE_TELLING, INPUT_TOLD, BUNDLE, CASE_LATE_TELLING, NULL }, // they heard that it is open
	{ CASE_LATE_TELLING, INPUT_TELLER_KILLED, BUNDLE | HEARD, CASE_LATE_TELLING, NULL },
	{ CASE_LATE_TELLING, INPUT_TELLER_KILLED, BUNDLE | HEARD | TWICE, CASE_OVER, NULL },
	{ CASE_LATE_TELLING, INPUT_GIVE_WAY, BUNDLE | HEARD, CASE_OVER, NULL },
	{ CASE_DROPPED, INPUT_QUIETED, 0, CASE_DROPPED, NULL },
	{ CASE_DROPPED, INPUT_CLOSE, 0, CASE_DROPPED, NULL },
};

static void give(struct watch_case *c, enum case_state state, unsigned given)
{
	struct stored *s = &c->stored;
	c->state = state;
	c->order = given & LOG ? 7 : NOT_IN_LOG;
	s->state = given & SUSPECT || state == CASE_SUSPECTED ? STORED_SUSPECTED :
		   given & CLOSED || case_is(c, CASES_CLOSED) ? STORED_CLOSED :
								STORED_OPEN;
	s->bundle = given & BUNDLE ? S("taken") : (struct str){ 0 };
	c->taken = given & TAKEN ? S("taken") : given & FAILED ? S("No space left on device") : (struct str){ 0 };
	s->hooks = (given & HEARD) != 0;
	s->boot_id = given & EARLIER ? S("another") : S(BOOT);
	s->fault = given & NODE ? S("node") : S("program");
	s->action = given & REPLACE ? S("replace") : S("reboot");
	c->tries = given & TWICE ? 2 : (given & ONCE) != 0;
	c->why = S("a reason");
	c->patience = CHECK_FIRST_MS;
	world.w.settings.capture = !(given & NO_BUNDLE);
	world.w.job =
		given & HEARS ? (struct watch_job){ .kind = JOB_HOOKS, .of = c, .fd = -1 } : (struct watch_job){ .fd = -1 };
	see(!(given & UNKNOWN), !(given & (WELL | UNKNOWN)));
}

/** What the record says in a state. */
static bool says_right(const struct watch_case *c)
{
	const enum stored_state s = c->stored.state;
	return !case_is(c, CASES_STORED) || (c->state == CASE_SUSPECTED ? s == STORED_SUSPECTED :
					     case_is(c, CASES_CLOSED)   ? s == STORED_CLOSED :
									  s == STORED_OPEN || s == STORED_HUNG);
}

static void each_row_leads_where_it_should(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const struct life_step *s = &steps[i];
		struct watch_case *c = new_case("log");
		give(c, s->from, s->given);
		world.walks = s->input == INPUT_OPENED || s->input == INPUT_SUSPECTED;
		world.told = NULL;
		const bool taken = case_input(&world.w, c, s->input);
		if (!taken || c->state != s->next ||
		    (s->told ? !world.told || strcmp(world.told, s->told) : world.told != NULL))
			fail_msg("step %zu: state %d, input %d, given %x: state %d, told %s", i, (int)s->from, (int)s->input,
				 s->given, (int)c->state, world.told ? world.told : "nothing");
		assert_true(says_right(c));
		world.w.job = (struct watch_job){ .fd = -1 };
		cases_free(&world.w);
	}
	for (size_t i = 0; i < case_nrows; i++)
		if (!world.hits[i] && case_rows[i].input != INPUT_NEXT)
			fail_msg("no step tries row %zu", i);
}

/** The GPU is looked at once the log is quiet, and no more while it tells of the incident. */
static void lines_put_an_end_to_looks(void **state)
{
	(void)state;
	static const enum case_state states[] = { CASE_SUSPECTED, CASE_QUIET, CASE_WATCHED };
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct watch_case *c = new_case("log");
		give(c, states[i], BUNDLE | HEARD | LOG);
		c->check = world.w.now + 5;
		assert_true(case_input(&world.w, c, INPUT_LINES));
		assert_int_equal(c->check, 0);
		cases_free(&world.w);
	}
	struct watch_case *c = new_case("log");
	give(c, CASE_WATCHED, BUNDLE | HEARD);
	assert_true(case_input(&world.w, c, INPUT_QUIETED));
	assert_true(c->check && world.w.look_wanted);
	cases_free(&world.w);
}

/** There is a limit to incidents at once; what is over gives its place to a new one. */
static void what_is_over_makes_room(void **state)
{
	(void)state;
	struct watch_case *c = NULL;
	while (world.w.cases.len < CASES_MOST) {
		c = new_case("log");
		give(c, CASE_QUIET, BUNDLE | HEARD);
	}
	assert_null(case_add(&world.w));
	c->state = CASE_OVER;
	c->unsaved = true; // its record has to be written first
	assert_null(case_add(&world.w));
	c->unsaved = false;
	assert_non_null(case_add(&world.w));
	assert_int_equal(world.w.cases.len, CASES_MOST);
	cases_free(&world.w);
}

/** What may be known of a closed one that it was not before: nothing of it is told again. */
static void what_has_no_row_is_a_defect(void **state)
{
	(void)state;
	struct watch_case *c = new_case("log");
	give(c, CASE_OVER, BUNDLE);
#ifdef UNHANG_DEBUG
	const pid_t pid = fork();
	int status = 0;
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		case_input(&world.w, c, INPUT_HUNG);
		_exit(0);
	}
	assert_true(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
	assert_false(case_input(&world.w, c, INPUT_HUNG));
	assert_int_equal(world.problems, 1);
	assert_int_equal(c->state, CASE_OVER);
#endif
}

// --- a random walk ---

static struct watch_case *any_case(unsigned states)
{
	const size_t n = world.w.cases.len, first = n ? chance(n) : 0;
	for (size_t i = 0; i < n; i++)
		if (case_is(world.w.cases.data[(first + i) % n], states))
			return world.w.cases.data[(first + i) % n];
	return NULL;
}

static struct str any_class(void)
{
	static const char *const classes[] = { "page-fault", "ring-timeout", "ras", "silent-hang", "oom" };
	return str_z(classes[chance(ARRAY_SIZE(classes))]);
}

static void begin_one(void)
{
	static int64_t order;
	static const char *const origins[] = { "log", "look", STORE_ORIGIN_HOLD, "uevent" };
	const char *origin = origins[chance(ARRAY_SIZE(origins))];
	struct watch_case *c = new_case(origin);
	if (!c)
		return;
	c->stored.fault = !strcmp(origin, "look") ? (struct str){ 0 } : chance(8) ? S("program") : S("node");
	c->stored.action = chance(2) ? S("replace") : S("reboot");
	c->stored.class = any_class();
	c->stored.fingerprint = c->stored.id;
	c->check = !strcmp(origin, "log") ? 0 : world.w.now + 1000;
	if (!strcmp(origin, "log")) {
		c->order = order++;
		if (chance(2))
			case_input(&world.w, c, INPUT_CAUSELESS);
		return;
	}
	case_input(&world.w, c, !strcmp(origin, "look") ? INPUT_SUSPECTED : INPUT_OPENED);
}

/** What the engine says of those that it has. */
static void tell_of_log(void)
{
	struct watch_case *c = any_case(CASES_NEW | CASES_TOLD | AT(DROPPED));
	if (!c || c->order == NOT_IN_LOG)
		return;
	const enum case_input first[] = { INPUT_OPENED, INPUT_OPENED, INPUT_CAUSELESS, INPUT_KNOWN };
	switch (chance(4)) {
	case 0:
		c->order = NOT_IN_LOG;
		case_input(&world.w, c, INPUT_QUIETED);
		break;
	case 1:
		c->order = NOT_IN_LOG;
		case_close(&world.w, c, INPUT_CLOSE, S("it is a part of another"));
		break;
	default:
		if (case_is(c, CASES_NEW))
			case_input(&world.w, c, first[chance(ARRAY_SIZE(first))]);
		else if (c->state != CASE_DROPPED)
			case_input(&world.w, c, INPUT_CHANGED);
	}
}

/** The driver tells of what a look had found. */
static void tell_lines(void)
{
	struct watch_case *o = any_case(CASES_OPEN), *c = any_case(CASES_NEW);
	if (!o || !c || o->order != NOT_IN_LOG || c->order == NOT_IN_LOG)
		return;
	o->order = c->order;
	c->order = NOT_IN_LOG;
	case_input(&world.w, c, INPUT_LINES);
	case_input(&world.w, o, INPUT_LINES);
}

static void tell_votes(void)
{
	struct watch_case *c = any_case(AT(SUSPECTED));
	if (!c)
		return;
	if (chance(2))
		case_input(&world.w, c, INPUT_HUNG);
	else
		case_close(&world.w, c, INPUT_MOVES, S("it moves again"));
}

/** What a child says at its end, which may be nothing. */
static void end_job(bool well)
{
	static const char *const captures[] = { "saved\nbundle taken\n", "bundle No space left on device\n", "bundle nothing\n",
						"", "" };
	static const char *const looks[] = { "well idle", "unwell hung", "unknown -" };
	struct watch_job *j = &world.w.job;
	const bool good = well || chance(4), late = !well && !chance(16);
	if (j->kind == JOB_NONE)
		return;
	if (late)
		world.w.now = j->deadline;
	if (j->kind == JOB_CAPTURE)
		text_add(&j->answer, str_z(captures[well ? 0 : chance(ARRAY_SIZE(captures))]));
	if (j->kind == JOB_EXPLAIN && !well && !chance(4))
		text_add(&j->answer, S("problem x\n"));
	if (j->kind == JOB_LOOK && good)
		text_printf(&j->answer, "gpu " GPU " - - - - owned %s\n", looks[well ? 0 : chance(ARRAY_SIZE(looks))]);
	jobs_end(&world.w, good && !late);
}

static void hold_one(void)
{
	static const char *const stages[] = { "asks", "stands", "over" };
	char text[128];
	world.w.now++; // what begins in the same moment, of the same program, is the same
	if (!chance(3))
		world.asked++;
	snprintf(text, sizeof(text), "%s %u 5000 %lld %lld " GPU " unhang-0/x.1.recording", stages[chance(3)], world.asked,
		 (long long)world.w.now, (long long)world.w.now);
	holds_take(&world.w, str_z(text));
}

/** The watch is killed, and another one goes on, perhaps in another boot. What is not on the disk the next one reads in the log again. */
static void restart(void)
{
	struct watcher *w = &world.w;
	for (size_t n = 0; n < w->cases.len; n++)
		if (w->cases.data[n]->unsaved && case_is(w->cases.data[n], CASES_STORED))
			return;
	_cleanup_arena_ struct arena a = { 0 };
	w->before = (struct stored_list){ 0 };
	for (size_t n = 0; n < w->cases.len; n++) {
		const struct watch_case *c = w->cases.data[n];
		struct stored *s = arena_alloc(&a, sizeof(*s));
		if (case_is(c, CASES_STORED) && known_of(c->stored.id)->record &&
		    stored_parse(str_z(known_of(c->stored.id)->record), &a, s))
			vec_push(&w->before.list, s);
	}
	text_free(&w->job.answer);
	w->job = (struct watch_job){ .fd = -1 };
	w->holds.len = 0;
	cases_free(w);
	if (chance(2))
		snprintf(w->boot_id, sizeof(w->boot_id), "boot-%llu", (unsigned long long)chance(1000000));
	str_copy(w->log_boot, sizeof(w->log_boot), str_z(w->boot_id));
	w->nbundles = 0;
	cases_adopt(w);
	vec_free(&w->before.list);
}

/** Where there are more than can be followed some give way, and then nothing more is done for them. */
static void sweep(void)
{
	const bool many = world.w.cases.len > 64;
	cases_sweep(&world.w);
	for (size_t n = 0; n < world.w.cases.len && many; n++)
		known_of(world.w.cases.data[n]->stored.id)->gave_way |= world.w.cases.data[n]->state == CASE_OVER;
}

static void flood(void)
{
	while (world.w.cases.len < CASES_MOST - 8)
		begin_one();
}

static void check_all(void)
{
	const struct watcher *w = &world.w;
	bool saves = w->job.kind == JOB_CAPTURE && !jobs_saved(w);
	for (size_t n = 0; n < w->cases.len; n++) {
		const struct watch_case *c = w->cases.data[n];
		const struct known *k = known_of(c->stored.id);
		saves |= w->job.kind == JOB_NONE && case_is(c, CASES_CAPTURING);
		assert_true(says_right(c));
		assert_int_equal(k->closed, case_is(c, CASES_CLOSED));
		assert_true(case_is(c, CASES_STORED) == (k->opened == 1));
		assert_true(!case_is(c, AT(WATCHED) | AT(QUIET)) || k->hooks_open); // they heard of what is followed
		assert_true((c->state == CASE_WATCHED) <= (c->order != NOT_IN_LOG));
		assert_true((c->state == CASE_QUIET) <= (c->order == NOT_IN_LOG));
		// Who heard of it, to the end, hears that it is over.
		assert_true(c->state != CASE_OVER || c->stored.hooks != 1 || k->gave_way);
		assert_true(c->stored.hooks != 2 || k->hooks_closed);
	}
	for (size_t i = 0; i < w->holds.len; i++) // nobody stands still for nothing, nor longer than he said
		assert_true((!w->holds.data[i].stands || saves) && w->now < w->holds.data[i].until);
	assert_int_equal(world.problems, 0);
}

static void walk_one(void)
{
	struct watcher *w = &world.w;
	switch (chance(20)) {
	case 0:
	case 1:
		if (w->cases.len < MANY)
			begin_one();
		break;
	case 2:
	case 3:
		tell_of_log();
		break;
	case 4:
		tell_lines();
		break;
	case 5:
		tell_votes();
		break;
	case 6:
		hold_one();
		break;
	case 7:
		w->now += (int64_t)chance(20000);
		break;
	case 8:
		world.operator= !chance(8);
		world.full = !chance(4);
		world.refuses = !chance(16);
		if (!chance(500))
			restart();
		if (!chance(2000))
			flood();
		if (any_case(AT(TELLING) | AT(WATCHED) | AT(QUIET))) // there is room again
			any_case(AT(TELLING) | AT(WATCHED) | AT(QUIET))->lacked *= 2;
		break;
	case 9:
	case 10:
	case 11:
		sweep();
		break;
	default:
		end_job(false);
		jobs_start(w);
	}
	holds_follow(w);
}

static void nothing_breaks_in_a_million_steps(void **state)
{
	struct watcher *w = &world.w;
	(void)state;
	world.walks = true;
	w->disk = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	see(true, false);
	const unsigned most =
		ADDRESSES_CHECKED ? STEPS / 4 : STEPS; // harm to memory shows in fewer, and each takes four times as long
	for (unsigned i = 0; i < most; i++) {
		walk_one();
		check_all();
	}
	// Then all is well: everything comes to an end.
	world.operator= world.full = world.refuses = false;
	for (unsigned i = 0; i < 100000 && w->cases.len; i++) {
		w->now += 10000;
		for (size_t n = 0; n < w->cases.len; n++) {
			struct watch_case *c = w->cases.data[n];
			c->stored.fault = S("program");
			if (c->order == NOT_IN_LOG)
				continue;
			c->order = NOT_IN_LOG;
			case_input(w, c, INPUT_QUIETED);
		}
		w->look_wanted = true;
		sweep();
		jobs_start(w);
		end_job(true);
		holds_follow(w);
		check_all();
	}
	assert_int_equal(w->cases.len, 0);
	assert_int_equal(w->holds.len, 0);
	uint64_t told = 0;
	for (uint64_t i = 0; i < IDS; i++) {
		const struct known *k = &world.ids[i];
		assert_int_equal(k->closed, k->opened); // each that was told of is closed, once
		told += k->opened;
	}
	for (size_t i = 0; i < case_nrows; i++)
		if (!world.hits[i] && case_rows[i].input != INPUT_NEXT && case_rows[i].input != INPUT_GIVE_WAY)
			fail_msg("the walk never came to row %zu", i);
	print_message("# %llu incidents of %llu were told\n", (unsigned long long)told, (unsigned long long)world.nids);
	close(w->disk);
}

/** Of a process that its recorder holds: the name that its case got, which is told to be over then. */
static struct str name_of_hold(unsigned number, long long pid, long long began)
{
	static const char *const stages[] = { "asks", "stands", "over" };
	struct watcher *w = &world.w;
	char text[128];
	static char name[STORE_ID + 1];
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
		snprintf(text, sizeof(text), "%s %u 5000 %lld %lld " GPU " unhang-0/x.1.recording", stages[i], number, pid,
			 began);
		holds_take(w, str_z(text));
	}
	assert_int_equal(w->cases.len, 1);
	str_copy(name, sizeof(name), w->cases.data[0]->stored.id);
	cases_free(w);
	struct known *k = known_of(str_z(name)); // nobody has heard of it
	free(k->record);
	*k = (struct known){ 0 };
	return str_z(name);
}

/** A program that is held twice fails twice; what has its number later is another program; and who names it by its recording, as explain does,
 * names it the same. */
static void each_hold_has_a_name(void **state)
{
	_cleanup_arena_ struct arena a = { 0 };
	(void)state;
	world.walks = true;
	const struct str first = arena_str(&a, name_of_hold(1, 77, 9000));
	const struct identity recorded = identity_recorded(S(BOOT), 0, 9000, 1),
			      nameless = identity_recorded(S(BOOT), 77, 0, 1);
	assert_true(str_eq(identity_name(&recorded, &a), first));
	assert_true(str_eq(name_of_hold(1, 77, 9000), first));
	assert_true(str_eq(name_of_hold(1, 3, 9000), first)); // its number in a container
	assert_false(str_eq(name_of_hold(2, 77, 9000), first));
	assert_false(str_eq(name_of_hold(1, 77, 9001), first));
	assert_true(str_eq(name_of_hold(1, 77, 0), identity_name(&nameless, &a)));
	assert_false(str_eq(name_of_hold(1, 3, 0), identity_name(&nameless, &a)));
}

/** A GPU core, which a bundle may lack, puts other events of the recording first. */
static void other_evidence_changes_no_name(void **state)
{
	_cleanup_arena_ struct arena a = { 0 };
	(void)state;
	struct diag_event core = { .program = true }, dispatch = { .recorded = true, .began = 9000 },
			  failed = { .recorded = true, .began = 9000, .hold = 1 };
	struct diag_event *with[] = { &core, &dispatch, &failed }, *without[] = { &failed, &dispatch };
	struct incident both = { .boot_id = S(BOOT), .events = { with, 3, 3 } },
			one = { .boot_id = S(BOOT), .events = { without, 2, 2 } };
	const struct identity recorded = identity_recorded(S(BOOT), 0, 9000, 1), all = incident_identity(&both),
			      some = incident_identity(&one);
	assert_true(str_eq(identity_name(&all, &a), identity_name(&recorded, &a)));
	assert_true(str_eq(identity_name(&some, &a), identity_name(&recorded, &a)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_row_leads_where_it_should, begin, end),
		cmocka_unit_test_setup_teardown(lines_put_an_end_to_looks, begin, end),
		cmocka_unit_test_setup_teardown(what_is_over_makes_room, begin, end),
		cmocka_unit_test_setup_teardown(what_has_no_row_is_a_defect, begin, end),
		cmocka_unit_test_setup_teardown(each_hold_has_a_name, begin, end),
		cmocka_unit_test(other_evidence_changes_no_name),
		cmocka_unit_test_setup_teardown(nothing_breaks_in_a_million_steps, begin, end),
	};
	return cmocka_run_group_tests_name("incident_life", tests, NULL, NULL);
}
