// What a bundle must not hold.
#include "capture/parts.h"

/** Variables that tell which job a process belongs to. Those that change how programs behave are knowledge's. */
static const char *const of_the_job[] = {
	"SLURM_JOB_ID", "SLURM_STEP_ID",        "SLURM_PROCID",         "SLURM_LOCALID",        "SLURM_NODEID",
	"RANK",         "LOCAL_RANK",           "WORLD_SIZE",           "OMPI_COMM_WORLD_RANK", "PMI_RANK",
	"POD_NAME",     "POD_NAMESPACE",        "POD_UID",              "container",            "UNHANG_RECORD",
};

static bool wanted(const struct know *k, struct str name)
{
	for (size_t i = 0; i < sizeof(of_the_job) / sizeof(of_the_job[0]); i++)
		if (str_is(name, of_the_job[i]))
			return true;
	return know_variable(k, name);
}

void filter_environment(const struct know *k, struct str all, struct text *ret)
{
	while (all.n) {
		struct str entry = str_split(&all, 0), value = entry, name = str_split(&value, '=');
		if (name.n == entry.n || !wanted(k, name))
			continue;
		text_add(ret, entry);
		text_add(ret, (struct str){ "", 1 });
	}
}

static bool is_environment(struct str path) { return str_starts(path, S("/proc/")) && str_ends(path, S("/environ")); }

/** Registers of waves come from two files; in the second, an argument says whether it is them or the state of the wave. */
static bool is_register_file(const struct probe *p)
{
	struct str path = str_z(p->path);
	if (!str_starts(path, S("/sys/kernel/debug/dri/")))
		return false;
	uint32_t of_registers = 0;
	if (str_ends(path, S("/amdgpu_gprwave")) && p->argument && p->argument_size >= sizeof(of_registers))
		memcpy(&of_registers, p->argument, sizeof(of_registers));
	return str_ends(path, S("/amdgpu_gpr")) || of_registers;
}

static bool replace(void *ctx, const struct probe *p, struct text *instead)
{
	const struct taking *c = ctx;
	struct str data = { p->data, p->n };
	if (is_environment(str_z(p->path))) {
		filter_environment(c->options->know, data, instead);
		return true;
	}
	if (c->options->user_data == USER_DATA_NONE && is_register_file(p)) {
		char *zeros = text_room(instead, p->n + 1);
		memset(zeros, 0, p->n);
		instead->n += p->n;
		return true;
	}
	return false;
}

struct tape_filter capture_filter(const struct taking *c) { return (struct tape_filter){ replace, (void *)c }; }
