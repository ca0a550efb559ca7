#include "gpu/find/kfd.h"

#include <errno.h>
#include <stdlib.h>

#include "gpu/silicon/silicon.h"

enum { LIST_BYTES = 1 << 20, FILE_BYTES = 16 << 20, DEADLINE_MS = 700, PIDS_MOST = 4096 };

static void take_pids(struct kfd *k, struct str names)
{
	k->pids = arena_alloc(&k->arena, PIDS_MOST * sizeof(*k->pids));
	while (names.n && k->npids < PIDS_MOST) {
		int64_t pid;
		if (str_number(str_split(&names, '\n'), &pid) && pid > 0)
			k->pids[k->npids++] = pid;
	}
	if (k->npids)
		qsort(k->pids, k->npids, sizeof(*k->pids), compare_numbers);
}

/** Why registers of all GPUs must not be read; empty. */
static struct str unsafe(struct arena *a, const struct know *know, const struct devices *d)
{
	struct str why = { 0 };
	for (size_t i = 0; i < d->n && !why.n; i++) {
		if (!str_is(d->list[i].driver, "amdgpu"))
			continue;
		struct target *t = target_device(know, &d->list[i]);
		struct gate g = target_gate(t);
		if (!g.open)
			why = arena_printf(a, STR_FMT ": " STR_FMT, STR_ARG(d->list[i].pci), STR_ARG(g.why_not));
		target_close(t);
	}
	return why;
}

static void explain(struct kfd *k, const struct probe *p, const char *lacks)
{
	if (k->why_not.n || p->end == PROBE_GOOD)
		return;
	if (p->end == PROBE_STUCK)
		k->why_not =
			arena_printf(&k->arena, "%s: reading it did not return within %d ms; %s", p->path, DEADLINE_MS, lacks);
	else if (p->end == PROBE_FAILED && (p->error == EACCES || p->error == EPERM))
		k->why_not = arena_printf(&k->arena, "%s can be read only by root: %s", p->path, lacks);
	else
		k->why_not = arena_printf(&k->arena, "%s could not be read: %s", p->path, lacks);
}

static void run(struct kfd *k, struct probe *p)
{
	struct probe_stuck stuck = { 0 };
	probe_run(&k->arena, p, 1, DEADLINE_MS, &stuck, &k->count);
	if (stuck.is)
		k->stuck = stuck;
}

void kfd_look(const struct devices *d, struct kfd *ret)
{
	struct probe processes = { .kind = PROBE_LIST, .path = "/sys/class/kfd/kfd/proc", .size = LIST_BYTES };
	struct probe mqds = { .kind = PROBE_FILE, .path = "/sys/kernel/debug/kfd/mqds", .size = FILE_BYTES };
	*ret = (struct kfd){ .count.patience = d->count.patience };
	run(ret, &processes);
	ret->there = processes.end == PROBE_GOOD;
	if (!ret->there)
		return;
	take_pids(ret, probe_text(&processes));
	run(ret, &mqds);
	ret->mqds_read = mqds.end == PROBE_GOOD;
	explain(ret, &mqds, "where the queues of processes lie in memory is not known");
	ret->nmqds = ret->mqds_read ? kfd_mqds_parse(&ret->arena, probe_text(&mqds), &ret->mqds) : 0;
}

void kfd_look_at_places(struct kfd *k, const struct know *know, const struct devices *d)
{
	struct probe hqds = { .kind = PROBE_FILE, .path = "/sys/kernel/debug/kfd/hqds", .size = FILE_BYTES };
	if (!k->nmqds)
		return;
	struct str why = unsafe(&k->arena, know, d);
	if (why.n) {
		k->why_not = arena_printf(&k->arena, "which queues are on a GPU was not checked: " STR_FMT, STR_ARG(why));
		return;
	}
	run(k, &hqds);
	k->hqds_read = hqds.end == PROBE_GOOD;
	explain(k, &hqds, "which queues are on a GPU is not known");
	k->nhqds = k->hqds_read ? kfd_hqds_parse(&k->arena, probe_text(&hqds), &k->hqds) : 0;
}

void kfd_look_at_runlists(struct kfd *k)
{
	struct probe rls = { .kind = PROBE_FILE, .path = "/sys/kernel/debug/kfd/rls", .size = FILE_BYTES };
	if (!k->nmqds || k->stuck.is)
		return;
	run(k, &rls);
	explain(k, &rls, "what the scheduler was told to run is not known");
	k->nrunlists = rls.end == PROBE_GOOD ? kfd_runlists_parse(&k->arena, probe_text(&rls), &k->runlists) : 0;
}

void kfd_free(struct kfd *k) { arena_free(&k->arena); }

const struct device *devices_with_gpu_id(const struct devices *d, int64_t gpu_id, unsigned *ret_partition)
{
	for (size_t i = 0; i < d->nkfd; i++)
		if (d->kfd[i].gpu_id == gpu_id) {
			*ret_partition = d->kfd[i].partition;
			return &d->list[d->kfd[i].device];
		}
	return NULL;
}

unsigned device_partitions(const struct device *d)
{
	static const char *const words[] = { "SPX", "DPX", "TPX", "QPX" };
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (str_is(d->compute_partition, words[i]))
			return i + 1;
	return str_is(d->compute_partition, "CPX") && d->shaders.xccs ? d->shaders.xccs : 1;
}
