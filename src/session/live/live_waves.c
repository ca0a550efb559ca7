// The waves on the GPUs of this machine.
#include <stdlib.h>

#include "gpu/process/target.h"
#include "gpu/memory/vm.h"
#include "session/look.h"

enum { BETWEEN_LOOKS_MS = 20, LOOKS = 2, PROCESSES_MOST = 16 };

/** One GPU. */
struct gpu_waves {
	const struct device *device;
	struct look look;
	struct target *process; // whose code the waves run, where it is clear which; else NULL
	struct target *memory;  // that they see, where there is no such process; else NULL
	struct code_places places;
	struct str stopped; // why there were fewer looks than there should be
};

/** A wave in a look: its place, and what was there. */
struct sighting {
	uint64_t place, pc;
};

static struct sighting sighting_of(const struct wave *w)
{
	const struct wave_slot *s = &w->slot;
	const unsigned parts[] = { s->xcc, s->se, s->sh, s->cu, s->simd, s->slot };
	uint64_t place = 0;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		place = place << 8 | (parts[i] & 0xff);
	return (struct sighting){ place, w->pc };
}

static int by_wave_place(const void *a, const void *b)
{
	const struct sighting *x = a, *y = b;
	return x->place < y->place ? -1 : x->place > y->place;
}

/** Marks the waves that are not where they were before, or were not there. */
static void mark_moved_waves(const struct request *before, const struct wave *waves, size_t n, bool *moved)
{
	_cleanup_free_ struct sighting *seen = mem_alloc(before->n * sizeof(*seen) + 1);
	for (size_t i = 0; i < before->n; i++)
		seen[i] = sighting_of(&before->waves[i]);
	qsort(seen, before->n, sizeof(*seen), by_wave_place);
	for (size_t i = 0; i < n; i++) {
		struct sighting now = sighting_of(&waves[i]);
		const struct sighting *then = bsearch(&now, seen, before->n, sizeof(*seen), by_wave_place);
		moved[i] |= !then || then->pc != now.pc;
	}
}

/** Several looks, since a wave that stands and one that loops look the same in one. Without any wave one look is enough. */
static void see_waves(struct gpu_waves *g, struct arena *a, struct waves_seen *ret)
{
	unsigned looks = g->look.options->looks ? g->look.options->looks : LOOKS;
	struct request *r = arena_alloc(a, looks * sizeof(*r));
	unsigned n = 0;
	while (n < looks) {
		if (n)
			tape_pause(g->device->patience->tape, BETWEEN_LOOKS_MS);
		r[n] = (struct request){ .kind = REQUEST_WAVES };
		if (target_ask(g->look.target, &r[n]) != ANSWER_GIVEN)
			break;
		if (!r[n++].n) // no wave is there that could move
			looks = n;
	}
	*ret = (struct waves_seen){ .look = &g->look, .gfx = g->device->gfx, .pci = g->device->pci };
	ret->title = live_title(a, g->device);
	if (n < looks)
		g->stopped = live_why_not(a, g->look.target, r[n].answer);
	if (!n) {
		ret->why_not = g->stopped;
		return;
	}
	ret->n = r[n - 1].n;
	ret->waves = r[n - 1].waves;
	bool *moved = arena_alloc(a, ret->n + 1);
	for (unsigned i = 0; i + 1 < n; i++)
		mark_moved_waves(&r[i], ret->waves, ret->n, moved);
	ret->moved = n > 1 || !ret->n ? moved : NULL;
}

/** What is known of the machine's processes. */
struct processes {
	const struct live *live;
	struct kfd kfd;
	bool looked, placed; // at kfd; at the places of queues
};

/** The processes that compute on a GPU; how many. */
static size_t computing_processes(const struct device *d, int64_t *ret, size_t most)
{
	size_t n = 0;
	for (size_t i = 0; i < d->nholders && n < most; i++) {
		bool known = !d->holders[i].compute;
		for (size_t k = 0; k < n; k++)
			known |= ret[k] == d->holders[i].pid;
		if (!known)
			ret[n++] = d->holders[i].pid;
	}
	return n;
}

/** A bit for each VMID that a process's queues on a GPU have. */
static uint32_t vmids_of(struct target *process, const struct device *d)
{
	struct request r = { .kind = REQUEST_QUEUES };
	uint32_t vmids = 0;
	target_ask(process, &r);
	for (size_t i = 0; i < r.n; i++) {
		const struct queue *q = &r.queues[i];
		if (q->slot.known && q->agent && (int64_t)q->agent->gpu_id == d->gpu_id)
			vmids |= 1u << (q->slot.vmid & 31);
	}
	return vmids;
}

/** Finds the process whose waves these are: by the VMIDs of its queues, or because no other one computes on the GPU. */
static void find_wave_process(struct gpu_waves *g, struct processes *p, uint32_t vmids, const struct teller *t, struct arena *a)
{
	int64_t pids[PROCESSES_MOST];
	const size_t n = computing_processes(g->device, pids, PROCESSES_MOST);
	const struct str pci = g->device->pci;
	if (n && !p->looked)
		kfd_look(&p->live->found.devices, &p->kfd);
	// The places of queues, which have VMIDs, are only looked at where there are several processes to tell apart.
	if (n > 1 && !p->placed)
		kfd_look_at_places(&p->kfd, g->look.know, &p->live->found.devices);
	p->looked |= n;
	p->placed |= n > 1;
	for (size_t i = 0; i < n; i++) {
		_cleanup_error_ struct uh_error *err =
			target_process_of(g->look.know, &p->live->found.devices, &p->kfd, pids[i], &g->process);
		if (err) {
			look_tell(t, arena_printf(a, STR_FMT ": the code of process %lld cannot be read: %s", STR_ARG(pci),
						  (long long)pids[i], uh_error_message(err)));
			continue;
		}
		const bool owner = !(vmids & ~vmids_of(g->process, g->device));
		if (!owner && n == 1)
			look_tell(t,
				  arena_printf(a,
					       STR_FMT ": the waves are assumed to belong to process %lld, the only one that "
						       "computes on it",
					       STR_ARG(pci), (long long)pids[i]));
		if (owner || n == 1)
			return;
		target_close(g->process);
		g->process = NULL;
	}
	if (g->look.options->ncode)
		look_tell(t,
			  arena_printf(a,
				       STR_FMT ": the process of these waves is unknown, and so is where their code was loaded",
				       STR_ARG(pci)));
}

/** The memory that the waves see, read through the GPU. NULL if they have several VMIDs, because it would not be clear whose code it is. */
static struct target *memory_of_waves(const struct gpu_waves *g, const struct waves_seen *seen)
{
	const struct wave_slot first = seen->n ? seen->waves[0].slot : (struct wave_slot){ 0 };
	unsigned vmid = first.vmid ? first.vmid : VM_IDS;
	for (size_t i = 1; i < seen->n; i++)
		if (seen->waves[i].slot.vmid != first.vmid)
			vmid = VM_IDS;
	return target_vmid(g->look.target, HUB_GFX, first.xcc, vmid);
}

/** The code of waves is that of their process; else it is looked for in the GPU's memory. */
static void open_wave_code(struct gpu_waves *g, struct processes *p, const struct teller *t, const struct waves_seen *seen)
{
	const struct uh_look_options *o = g->look.options;
	_cleanup_arena_ struct arena a = { 0 };
	uint32_t vmids = 0;
	for (size_t i = 0; i < seen->n; i++)
		vmids |= 1u << (seen->waves[i].slot.vmid & 31);
	if (seen->n)
		find_wave_process(g, p, vmids, t, &a);
	g->places = (struct code_places){ .n = o->ncode, .paths = o->code, .tape = p->live->found.tape };
	g->memory = g->process ? NULL : memory_of_waves(g, seen);
	target_code_open(&g->look.code, g->process ? g->process : g->memory, &g->places);
}

/** Why there are no waves, and what can still be seen. */
static struct str why_no_waves(struct arena *a, const struct gpu_waves *g, struct str why_not)
{
	const struct gate gate = target_gate(g->look.target);
	const bool rings = g->device->debugfs.n && !gate.asleep && !gate.off_bus && !gate.refused;
	return rings ? arena_printf(a, STR_FMT "; unhang rings may still show what it was given to do", STR_ARG(why_not)) :
		       why_not;
}

/** All GPUs are seen before any is written about. */
struct uh_error *live_waves(struct looking *at)
{
	_cleanup_(live_free) struct live live;
	struct uh_error *failed = live_find(at, "waves", false, &live);
	if (failed)
		return failed;
	const struct uh_look_options *o = &at->options;
	const struct teller *t = &at->teller;
	_cleanup_free_ struct gpu_waves *gpus = mem_alloc(live.n * sizeof(*gpus));
	_cleanup_free_ struct waves_seen *seen = mem_alloc(live.n * sizeof(*seen));
	_cleanup_arena_ struct arena a = { 0 };
	struct processes processes = { .live = &live };
	size_t answered = 0;
	for (size_t i = 0; i < live.n; i++) {
		struct gpu_waves *g = &gpus[i];
		g->device = live.list[i];
		live_progress(&live, o, i);
		g->look = (struct look){
			.know = at->know, .options = o, .out = at->out, .target = target_device(at->know, g->device)
		};
		g->look.target->all_registers = o->registers;
		see_waves(g, &a, &seen[i]);
		answered += !seen[i].why_not.n;
		if (seen[i].why_not.n)
			live_cannot(&failed, t, g->device->pci, "waves", why_no_waves(&a, g, seen[i].why_not));
		else if (g->stopped.n)
			look_tell(t, arena_printf(&a, STR_FMT ": only one look was possible: " STR_FMT, STR_ARG(g->device->pci),
						  STR_ARG(g->stopped)));
		open_wave_code(g, &processes, t, &seen[i]);
	}
	live_progress(&live, o, live.n);
	for (size_t i = 0; i < live.n; i++)
		look_find_code(&seen[i], &a);
	report_waves(seen, live.n, o, at->out);
	for (size_t i = 0; i < live.n; i++) {
		look_tell_target(&gpus[i].look, t);
		target_code_close(&gpus[i].look.code);
		target_close(gpus[i].process);
		target_close(gpus[i].memory);
		target_close(gpus[i].look.target);
	}
	if (processes.looked)
		kfd_free(&processes.kfd);
	failed = live_could(failed, t, answered);
	live_tell_root(&live, t);
	return failed;
}
