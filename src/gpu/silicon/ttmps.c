// Trap temporaries (TTMPs) of waves on the GPU: when a wave of a compute queue starts, the hardware writes into them of which dispatch and
// workgroup it is. It does so where the driver or a program's runtime asks for it. Elsewhere they hold what other waves left there.
#include "base/bytes.h"
#include "base/cleanup.h"
#include "gpu/memory/vm.h"
#include "gpu/silicon/target.h"

enum { XCCS_MOST = 16, AT_ONCE = 256 };

/** A bit for each VMID of each XCC whose waves have them. */
struct ttmps_set {
	uint32_t vmids[XCCS_MOST];
};

static bool trap_handled(const struct wave *w)
{
	return w->slot.me && w->slot.xcc < XCCS_MOST && w->slot.vmid < VM_IDS && w->layout &&
	       layout_value(&w->layout->bits[LAYOUT_TRAP_ENABLED], w->hwregs, w->ttmps);
}

/** Where the driver does not always have it done, a register of each VMID says whether it is. */
static void ask_vmids(struct silicon *t, const struct wave *waves, size_t n, struct ttmps_set *ret)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct device_register *found = arena_alloc(&a, XCCS_MOST * sizeof(*found));
	struct request *requests = arena_alloc(&a, XCCS_MOST * VM_IDS * sizeof(*requests));
	const size_t copies = device_registers(t->device, S("gc.SPI_GDBG_PER_VMID_CNTL"), found, XCCS_MOST);
	uint32_t wanted[XCCS_MOST] = { 0 };
	size_t asked = 0;
	for (size_t i = 0; i < n; i++)
		wanted[waves[i].slot.xcc % XCCS_MOST] |= trap_handled(&waves[i]) ? 1u << waves[i].slot.vmid : 0;
	for (size_t x = 0; x < copies && x < XCCS_MOST; x++)
		for (unsigned vmid = 0; vmid < VM_IDS; vmid++) {
			struct bank bank = BANK_NONE;
			bank.xcc = x ? (int)x : -1;
			bank.me = bank.pipe = bank.queue = 0;
			bank.vmid = (int)vmid;
			if (wanted[x] >> vmid & 1)
				requests[asked++] = (struct request){ .kind = REQUEST_REGISTER,
								      .ip = found[x].ip->name,
								      .ip_instance = found[x].ip->instance,
								      .reg = &found[x].reg,
								      .bank = bank };
		}
	silicon_registers(t, requests, asked);
	for (size_t i = 0; i < asked; i++) {
		const struct request *q = &requests[i];
		struct reg_field set;
		if (q->answer == ANSWER_GIVEN && q->value != UINT32_MAX && register_field_find(q->reg, S("TRAP_EN"), &set) &&
		    field_of(&set, q->value))
			ret->vmids[q->bank.xcc < 0 ? 0 : q->bank.xcc] |= 1u << q->bank.vmid;
	}
}

/** They are the last of the SGPRs. The file for further XCCs shows registers only from the first on. */
static struct probe ttmps_probe(struct batch *b, const struct wave *w, size_t *ret_at)
{
	const struct wave_slot asked = wave_slot_asked(&b->t->words, &w->slot);
	if (!w->slot.xcc) {
		*ret_at = 0;
		return (struct probe){ .kind = PROBE_READ,
				       .path = silicon_file(b->t, &b->arena, "amdgpu_gpr"),
				       .offset = debugfs_gpr_position(&asked, false, 0) + 4 * SGPR_TTMPS,
				       .size = 4 * WAVE_TTMPS };
	}
	struct gprwave_state *s = gprwave_of(&b->arena, &asked);
	s->gpr_or_wave = 1;
	*ret_at = 4 * SGPR_TTMPS;
	return gprwave_probe(silicon_file(b->t, &b->arena, "amdgpu_gprwave"), s, 4 * (SGPR_TTMPS + WAVE_TTMPS));
}

static size_t read_ttmps(struct silicon *t, struct wave **waves, size_t n)
{
	_cleanup_batch_ struct batch b = { .t = t };
	size_t *at = arena_alloc(&b.arena, (n + 1) * sizeof(*at)), read = 0;
	gate_guard(&b);
	const size_t first = b.probes.len;
	for (size_t i = 0; i < n; i++)
		batch_add(&b, ttmps_probe(&b, waves[i], &at[i]));
	batch_run(&b, SILICON_LOOK_MS);
	for (size_t i = 0; i < n; i++) {
		const struct probe *p = &b.probes.data[first + i];
		if (p->end != PROBE_GOOD || p->n < at[i] + 4 * WAVE_TTMPS)
			continue;
		for (size_t k = 0; k < WAVE_TTMPS; k++)
			waves[i]->ttmps[k] = get_u32(p->data + at[i] + 4 * k);
		layout_find_place(waves[i]->layout, true, waves[i]);
		read += waves[i]->placed;
	}
	return read;
}

size_t target_ttmps(struct target *target, struct wave *waves, size_t n)
{
	struct silicon *t = (struct silicon *)target;
	_cleanup_free_ struct wave **wanted = mem_alloc((n + 1) * sizeof(*wanted));
	struct ttmps_set set = { 0 };
	size_t k = 0, read = 0;
	if (t->device->debug_properties & DEBUG_TTMPS)
		memset(set.vmids, 0xff, sizeof(set.vmids));
	else
		ask_vmids(t, waves, n, &set);
	for (size_t i = 0; i < n; i++)
		if (trap_handled(&waves[i]) && set.vmids[waves[i].slot.xcc] >> waves[i].slot.vmid & 1)
			wanted[k++] = &waves[i];
	for (size_t i = 0; i < k; i += AT_ONCE) {
		gate_pass(t, NULL);
		if (!t->gate.open)
			break;
		read += read_ttmps(t, wanted + i, k - i < AT_ONCE ? k - i : AT_ONCE);
	}
	return read;
}
