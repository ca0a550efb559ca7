// What is known of a run before its job starts: its name, its command, where it runs, and which launcher started it; and the profile of
// variables that the user names.
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/command.h"
#include "job/supervisor.h"
#include "recorder/ranks.h"
#include "source/source.h"

// Rank, world size and job rank_number, as launchers put them into the environment.

enum { STAT_ROOM = 1024, NAME_MOST = 64 };

struct launcher {
	const char *name, *rank, *world, *job;
	const char *step;  // without this variable it is no rank; NULL: it always is
	const char *part;  // which of several starts in one job; NULL: there are none
	const char *round; // how often its ranks were started again; NULL: it never does that
};

// The innermost first: torchrun inside of a Slurm step is torchrun's rank.
static const struct launcher launchers[] = {
	{ "torchrun", RANK_OF_TORCH, "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RUN_ID", NULL,
	  "TORCHELASTIC_RESTART_COUNT" },
	{ "ray", RANK_OF_TORCH, "WORLD_SIZE", "RAY_JOB_ID", "RAY_JOB_ID", NULL,
	  NULL }, // a worker of Ray Train has torch's variables
	{ "torchrun", RANK_OF_TORCH, "WORLD_SIZE", "TORCHELASTIC_RUN_ID", NULL, NULL, NULL },
	{ "mpi", RANK_OF_OPENMPI, "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", NULL, NULL, NULL },
	{ "mpi", RANK_OF_PMI, "PMI_SIZE", "PMI_JOBID", NULL, NULL, NULL },
	// A batch script has the rank_number 0, too.
	{ "slurm", RANK_OF_SLURM, "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_ID", NULL },
};

#define NAMELESS "none" // what torchrun calls a job that was not given a name

static int64_t rank_number(const char *name)
{
	const char *text = getenv(name);
	int64_t n;
	return text && str_number(str_z(text), &n) && n >= 0 ? n : -1;
}

static struct str rank_text(const char *name)
{
	const char *text = name ? getenv(name) : NULL;
	return str_z(text ? text : "");
}

/** A rank_number of a process comes again; with its start it does not. */
static struct str parent_say(struct arena *a)
{
	char room[STAT_ROOM];
	struct process_stat stat = { 0 };
	const int64_t pid = getppid();
	process_stat_parse(process_file(pid, "stat", room, sizeof(room)), &stat);
	return arena_printf(a, "%lld-%llu", (long long)pid, (unsigned long long)stat.began);
}

/** Of strangers' words a name for files: only letters, digits and a few others. */
static struct str family_of(struct arena *a, struct str job, struct str part)
{
	char *name = arena_z(a, arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(str_cut(job, NAME_MOST)), part.n ? "-" : "",
					     STR_ARG(str_cut(part, NAME_MOST))));
	for (char *p = name; *p; p++)
		*p = char_word(*p) || *p == '-' ? *p : '_';
	return str_z(name);
}

static bool launcher_take(const struct launcher *l, struct run_told *r, struct arena *a)
{
	const struct str slurm = rank_text("SLURM_JOB_ID");
	struct str job = rank_text(l->job);
	const int64_t rank = rank_number(l->rank);
	if (rank < 0 || (l->step && !getenv(l->step)))
		return false;
	job = str_is(job, NAMELESS) || !job.n ? slurm : job;
	r->launcher = str_z(l->name);
	r->rank = rank;
	r->world = rank_number(l->world);
	r->rounds = l->round ? rank_number(l->round) : -1;
	r->job = arena_str(a, job);
	if (job.n || l->step)
		r->family = family_of(a, job.n ? job : r->parent, rank_text(l->part));
	return true;
}

/** Which launcher started us, by the environment. */
static void ranks_read(struct run_told *r, struct arena *a)
{
	const struct str slurm = rank_text("SLURM_JOB_ID");
	r->rank = r->world = r->rounds = -1;
	r->parent = parent_say(a);
	r->restarts = rank_number("SLURM_RESTART_COUNT");
	for (size_t i = 0; i < ARRAY_SIZE(launchers); i++)
		if (launcher_take(&launchers[i], r, a))
			return;
	if (!slurm.n)
		return;
	r->launcher = S("slurm");
	r->job = arena_str(a, slurm);
	r->family = family_of(a, slurm, (struct str){ 0 });
}

// What is known of a run before its job starts: its name, its command, where it runs.

int64_t run_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct str command_text(struct arena *a, char *const *command)
{
	_cleanup_text_ struct text t = { 0 };
	shell_words(&t, command);
	return arena_str(a, text_str(&t));
}

/** A job that is started again by its scheduler or its launcher goes on with its tries; so its name is the job's. */
static struct str run_name(struct arena *a, const struct run_told *r)
{
	char stamp[32] = "";
	const time_t now = (time_t)(r->began / 1000);
	struct tm tm;
	if (r->family.n && r->rank >= 0)
		return arena_printf(a, STR_FMT "-" STR_FMT "-rank%lld", STR_ARG(r->launcher), STR_ARG(r->family),
				    (long long)r->rank);
	if (r->family.n)
		return arena_printf(a, STR_FMT "-" STR_FMT, STR_ARG(r->launcher), STR_ARG(r->family));
	if (gmtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	return arena_printf(a, "%s-%lld", stamp, (long long)r->pid);
}

void run_describe(struct supervisor *s)
{
	char host[SOURCE_HOST_MAX];
	char boot[64];
	struct run_told *r = s->run;
	*r = (struct run_told){ .host = arena_str(s->arena, str_z(source_host(host))),
				.boot_id = arena_str(
					s->arena, source_boot_id(boot)),
				.command = command_text(s->arena, s->options->command),
				.began = run_now_ms(),
				.pid = getpid(),
				.status = -1,
				.recorder = str_z(s->options->recorder ? s->options->recorder : "") };
	ranks_read(r, s->arena);
	r->id = run_name(s->arena, r);
}

/** As shell_quote() writes it: what needs it stands between single quotes, and a single quote behind a backslash. */
static bool profile_unquote(struct str s, struct text *to)
{
	bool quoted = false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\'')
			quoted = !quoted;
		else if (!quoted && s.p[i] == '\\' && i + 1 < s.n)
			text_add(to, (struct str){ &s.p[++i], 1 });
		else
			text_add(to, (struct str){ &s.p[i], 1 });
	}
	return !quoted;
}

static bool profile_take(struct str line, struct text *to)
{
	struct str rest, name;
	if (!line.n || line.p[0] == '#')
		return true;
	if (!str_behind(line, S("export "), &rest))
		return false;
	name = rest;
	name = str_split(&name, '=');
	bool good = name.n && name.n < rest.n && !char_digit(name.p[0]);
	for (size_t i = 0; good && i < name.n; i++)
		good = char_word(name.p[i]);
	good = good && profile_unquote(rest, to);
	text_add(to, S("\n"));
	return good;
}

bool profile_parse(struct str text, struct text *to, struct str *ret_wrong)
{
	while (text.n) {
		*ret_wrong = str_trim(str_split(&text, '\n'));
		if (!profile_take(*ret_wrong, to))
			return false;
	}
	return true;
}
