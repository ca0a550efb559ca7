// Rank, world size and job number, as launchers put them into the environment.
#include <stdlib.h>

#include "job/parts.h"

struct launcher {
	const char *name, *rank, *world, *job;
	const char *step; // without this variable it is no rank; NULL: it always is
};

// The innermost first: torchrun inside of a Slurm step is torchrun's rank.
static const struct launcher launchers[] = {
	{ "torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RUN_ID" },
	{ "ray", "RANK", "WORLD_SIZE", "RAY_JOB_ID", "RAY_JOB_ID" }, // a worker of Ray Train has torch's variables
	{ "torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", NULL },
	{ "mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", NULL },
	{ "mpi", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", NULL },
	{ "slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID" }, // a batch script has the number 0, too
};

static int64_t number(const char *name)
{
	const char *text = getenv(name);
	int64_t n;
	return text && str_number(str_z(text), &n) && n >= 0 ? n : -1;
}

void ranks_read(struct run_told *r, struct arena *a)
{
	const char *slurm = getenv("SLURM_JOB_ID");
	r->rank = r->world = -1;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]) && !r->launcher.n; i++) {
		const struct launcher *l = &launchers[i];
		const char *job = getenv(l->job);
		const int64_t rank = number(l->rank);
		if (rank < 0 || (l->step && !getenv(l->step)))
			continue;
		r->launcher = str_z(l->name);
		r->rank = rank;
		r->world = number(l->world);
		r->job = arena_str(a, str_z(job ? job : slurm ? slurm : ""));
	}
	if (!r->launcher.n && slurm) {
		r->launcher = S("slurm");
		r->job = arena_str(a, str_z(slurm));
	}
	r->restarts = number("SLURM_RESTART_COUNT");
}
