// Rank, world size and job number, as launchers put them into the environment.
#include <stdlib.h>
#include <unistd.h>

#include "job/parts.h"

enum { STAT_ROOM = 1024, NAME_MOST = 64 };

struct launcher {
	const char *name, *rank, *world, *job;
	const char *step;  // without this variable it is no rank; NULL: it always is
	const char *part;  // which of several starts in one job; NULL: there are none
	const char *round; // how often its ranks were started again; NULL: it never does that
};

// The innermost first: torchrun inside of a Slurm step is torchrun's rank.
static const struct launcher launchers[] = {
	{ "torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RUN_ID", NULL, "TORCHELASTIC_RESTART_COUNT" },
	{ "ray", "RANK", "WORLD_SIZE", "RAY_JOB_ID", "RAY_JOB_ID", NULL, NULL }, // a worker of Ray Train has torch's variables
	{ "torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", NULL, NULL, NULL },
	{ "mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", NULL, NULL, NULL },
	{ "mpi", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", NULL, NULL, NULL },
	// A batch script has the number 0, too.
	{ "slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_ID", NULL },
};

#define NAMELESS "none" // what torchrun calls a job that was not given a name

static int64_t number(const char *name)
{
	const char *text = getenv(name);
	int64_t n;
	return text && str_number(str_z(text), &n) && n >= 0 ? n : -1;
}

static struct str text_of(const char *name)
{
	const char *text = name ? getenv(name) : NULL;
	return str_z(text ? text : "");
}

/** A number of a process comes again; with its start it does not. */
static struct str parent_say(struct arena *a)
{
	char room[STAT_ROOM];
	struct process_stat stat = { 0 };
	const int64_t pid = getppid();
	process_stat_parse(process_file(pid, "stat", room, sizeof(room)), &stat);
	return arena_printf(a, "%lld-%llu", (long long)pid, (unsigned long long)stat.began);
}

/** Of strangers' words a name for files: only letters, digits and a few others. */
static struct str name_of(struct arena *a, struct str job, struct str part)
{
	char *name = arena_z(a, arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(str_cut(job, NAME_MOST)), part.n ? "-" : "",
					     STR_ARG(str_cut(part, NAME_MOST))));
	for (char *p = name; *p; p++)
		*p = char_word(*p) || *p == '-' ? *p : '_';
	return str_z(name);
}

static bool take(const struct launcher *l, struct run_told *r, struct arena *a)
{
	const struct str slurm = text_of("SLURM_JOB_ID");
	struct str job = text_of(l->job);
	const int64_t rank = number(l->rank);
	if (rank < 0 || (l->step && !getenv(l->step)))
		return false;
	job = str_is(job, NAMELESS) || !job.n ? slurm : job;
	r->launcher = str_z(l->name);
	r->rank = rank;
	r->world = number(l->world);
	r->rounds = l->round ? number(l->round) : -1;
	r->job = arena_str(a, job);
	if (job.n || l->step)
		r->family = name_of(a, job.n ? job : r->parent, text_of(l->part));
	return true;
}

void ranks_read(struct run_told *r, struct arena *a)
{
	const struct str slurm = text_of("SLURM_JOB_ID");
	r->rank = r->world = r->rounds = -1;
	r->parent = parent_say(a);
	r->restarts = number("SLURM_RESTART_COUNT");
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (take(&launchers[i], r, a))
			return;
	if (!slurm.n)
		return;
	r->launcher = S("slurm");
	r->job = arena_str(a, slurm);
	r->family = name_of(a, slurm, (struct str){ 0 });
}
