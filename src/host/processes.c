// Who has a GPU open, and in which state it is.
#include "base/cleanup.h"
#include "host/host.h"

enum { STAT_MOST = 1024, PROCESSES_MOST = 256 };

/** Names of the kernel's letters for what a process does. */
static const struct {
	char letter;
	const char *name;
} states[] = {
	{ 'R', "running" }, { 'S', "sleeping" }, { 'D', "uninterruptible" }, { 'Z', "zombie" },
	{ 'X', "dead" },    { 'T', "stopped" },  { 't', "traced" },          { 'I', "idle" },
};

/** `4242 (a) name) S 1 ...`: the letter behind the last bracket. */
static struct str state_of(struct str stat)
{
	size_t at = stat.n;
	while (at && stat.p[at - 1] != ')')
		at--;
	struct str rest = str_trim(str_from(stat, at));
	for (size_t i = 0; at && rest.n && i < sizeof(states) / sizeof(states[0]); i++)
		if (states[i].letter == rest.p[0])
			return str_z(states[i].name);
	return (struct str){ 0 };
}

static void add_process(struct host *h, struct host_item *gpu, const struct holder *holder, const struct probe *stat,
			const struct probe *wchan)
{
	struct str where = arena_printf(&h->arena, "/proc/%lld", (long long)holder->pid),
		   off = know_switch(h->know, holder->name);
	struct host_item *i = host_add(h, "process", gpu);
	bool desktop = off.n || know_is_desktop(h->know, holder->name);
	host_note(h, i, "name", holder->name, where);
	host_note_number(h, i, "pid", holder->pid, where);
	host_note(h, i, "state", state_of(probe_text(stat)), str_z(stat->path));
	struct str function = str_trim(probe_text(wchan));
	if (!str_is(function, "0"))
		host_note(h, i, "waits_in", function, str_z(wchan->path));
	host_note(h, i, "compute", holder->compute ? S("yes") : S("no"), where);
	host_note(h, i, "desktop", desktop ? S("yes") : S("no"), where);
	host_note(h, i, "switch", off, (struct str){ 0 });
	if (holder->vram >= 0)
		host_note_number(h, i, "vram_mb", holder->vram >> 20, where);
	if (holder->compute && !desktop)
		host_note(h, gpu, "compute_process", holder->name, where);
}

void host_read_processes(struct host *h)
{
	_cleanup_free_ struct probe *probes = mem_alloc(2 * PROCESSES_MOST * sizeof(*probes));
	size_t n = 0, at = 0;
	for (size_t d = 0; d < h->devices.n; d++)
		for (size_t i = 0; i < h->devices.list[d].nholders && n < 2 * PROCESSES_MOST; i++) {
			long long pid = (long long)h->devices.list[d].holders[i].pid;
			probes[n++] =
				(struct probe){ .path = arena_printf(&h->arena, "/proc/%lld/stat", pid).p, .size = STAT_MOST };
			probes[n++] =
				(struct probe){ .path = arena_printf(&h->arena, "/proc/%lld/wchan", pid).p, .size = STAT_MOST };
		}
	if (n)
		host_probe(h, probes, n);
	for (size_t d = 0; d < h->devices.n; d++)
		for (size_t i = 0; i < h->devices.list[d].nholders && at < n; i++, at += 2)
			add_process(h, host_gpu(h, &h->devices.list[d]), &h->devices.list[d].holders[i], &probes[at],
				    &probes[at + 1]);
}
