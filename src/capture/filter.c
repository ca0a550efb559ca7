// What a bundle must not hold.
#include "capture/parts.h"

/** Variables that tell which job a process belongs to. Those that change how programs behave are knowledge's. */
static const char *const of_the_job[] = {
	"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID",         "SLURM_LOCALID", "SLURM_NODEID", "RANK",
	"LOCAL_RANK",   "WORLD_SIZE",    "OMPI_COMM_WORLD_RANK", "PMI_RANK",      "POD_NAME",     "POD_NAMESPACE",
	"POD_UID",      "container",     "UNHANG_RECORD",
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

/** Files that set variables for everyone, or for a service. */
static bool sets_variables(struct str path)
{
	static const char *const places[] = { "/etc/environment*", "/etc/profile*", "/etc/systemd/system/*" };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (str_glob(str_z(places[i]), path))
			return true;
	return false;
}

/** The words of `Environment="A=B" C=D` whose names matter. */
static void keep_unit_line(const struct know *k, struct str line, struct text *ret)
{
	text_add(ret, S("Environment="));
	while (line.n) {
		char end = line.p[0] == '"' || line.p[0] == '\'' ? line.p[0] : ' ';
		line = str_from(line, end != ' ');
		struct str word = str_split(&line, end), value = word, name = str_split(&value, '=');
		if (word.n && wanted(k, name))
			text_printf(ret, "\"" STR_FMT "\" ", STR_ARG(word));
		line = str_trim(line);
	}
}

/** Lines keep their numbers: what does not matter is left empty. */
static void filter_file(const struct know *k, struct str all, struct text *ret)
{
	while (all.n) {
		struct str line = str_trim(str_split(&all, '\n')), rest = line;
		bool unit = str_behind(line, S("Environment="), &rest);
		if (!unit)
			str_behind(line, S("export "), &rest);
		struct str value = rest, name = str_split(&value, '=');
		if (unit)
			keep_unit_line(k, rest, ret);
		else if (name.n < rest.n && wanted(k, name))
			text_add(ret, line);
		text_add(ret, S("\n"));
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
	if (p->kind == PROBE_FILE && sets_variables(str_z(p->path))) {
		filter_file(c->options->know, data, instead);
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
