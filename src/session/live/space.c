// Whose address space a VMID is, and which VMID a process has. KFD's queues tell it by their places on the GPU, other clients by their PASID.
#include "session/live/space.h"

#include "gpu/process/target.h"

enum { XCCS_MOST = 16, CANDIDATES_MOST = 64 };

struct uh_error *space_address(const char *text, uint64_t *ret)
{
	struct str s = str_z(text);
	int64_t number;
	uint64_t address;
	if (str_starts(s, S("0x")) && str_hex(str_from(s, 2), &address))
		*ret = address >> 47 == 0x1ffff ? address & 0xffffffffffff : address;
	else if (str_number(s, &number) && number >= 0)
		*ret = (uint64_t)number;
	else
		return uh_error_new("'%s' is no address; give a number such as 0x7f0000000000", text);
	return NULL;
}

// --- the GPU ---

static const struct holder *holder_with(const struct device *d, int64_t pid)
{
	return list_find(d->holders, d->nholders, it, it->pid == pid);
}

/** Of several GPUs the one that the process has open. */
static struct uh_error *choose_gpu(struct space_opened *s, int64_t pid)
{
	_cleanup_text_ struct text names = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < s->live.n; i++)
		if (s->live.n == 1 || holder_with(s->live.list[i], pid)) {
			s->device = s->live.list[i];
			text_printf(&names, "%s" STR_FMT, n++ ? ", " : "", STR_ARG(s->device->pci));
		}
	if (!n)
		return uh_error_new("process %lld has no GPU of this machine open", (long long)pid);
	if (n > 1)
		return uh_error_new("which GPU? process %lld has %zu open; --gpu names one of " STR_FMT, (long long)pid, n,
				    STR_ARG(text_str(&names)));
	return NULL;
}

// --- the VMID ---

/** Whom an address could belong to. */
struct space_candidate {
	unsigned vmid, xcc;
	int64_t pid;
	uint64_t root;
};
struct space_candidates {
	size_t n;
	struct space_candidate list[CANDIDATES_MOST];
};

static void add_candidate(struct space_candidates *c, struct space_candidate one)
{
	const struct space_candidate *known =
		list_find(c->list, c->n, it, it->vmid == one.vmid && it->pid == one.pid && it->root == one.root);
	if (!known && c->n < CANDIDATES_MOST)
		c->list[c->n++] = one;
}

static void look_at_kfd(const struct looking *at, struct space_opened *s)
{
	if (!s->kfd_looked)
		kfd_look(&s->live.found.devices, &s->kfd);
	if (!s->kfd_placed)
		kfd_look_at_places(&s->kfd, at->know, &s->live.found.devices);
	s->kfd_looked = s->kfd_placed = true;
}

/** The VMIDs of a process that computes: those of its queues that are on the GPU. */
static void kfd_candidates(const struct looking *at, struct space_opened *s, int64_t pid, int xcc, struct space_candidates *to)
{
	_cleanup_target_ struct target *process = NULL;
	struct request queues = { .kind = REQUEST_QUEUES };
	look_at_kfd(at, s);
	_cleanup_error_ struct uh_error *err = target_process_of(at->know, &s->live.found.devices, &s->kfd, pid, &process);
	if (err)
		return;
	target_ask(process, &queues);
	for (size_t i = 0; i < queues.n; i++) {
		const struct queue *q = &queues.queues[i];
		unsigned partition;
		const uint64_t xccs = q->slot.xccs ? q->slot.xccs : UINT64_C(1) << (q->slot.xcc & 63);
		if (!q->slot.known || !q->agent ||
		    devices_with_gpu_id(&s->live.found.devices, q->agent->gpu_id, &partition) != s->device ||
		    (xcc >= 0 && !(xccs >> xcc & 1)))
			continue;
		struct address_space spaces[XCCS_MOST];
		const unsigned on = xcc >= 0 ? (unsigned)xcc : q->slot.xcc;
		const size_t n = target_spaces(s->target, q->slot.vmid, spaces, XCCS_MOST);
		add_candidate(to, (struct space_candidate){ q->slot.vmid, on, pid, on < n ? spaces[on].root : 0 });
	}
}

/** The VMIDs of a client of the driver, by its PASIDs. */
static void pasid_candidates(struct space_opened *s, const struct holder *h, int xcc, struct space_candidates *to)
{
	const uint32_t vmids = target_vmids_of(s->target, h->pasids, h->npasids);
	for (unsigned vmid = 1; vmid < VM_IDS; vmid++) {
		struct address_space spaces[XCCS_MOST];
		const unsigned on = xcc < 0 ? 0 : (unsigned)xcc;
		if (!(vmids >> vmid & 1))
			continue;
		const size_t n = target_spaces(s->target, vmid, spaces, XCCS_MOST);
		// A client's rings may each have a VMID, with the same tables: any of them serves.
		if (on < n && spaces[on].root && !list_find(to->list, to->n, it, it->root == spaces[on].root))
			add_candidate(to, (struct space_candidate){ vmid, on, h->pid, spaces[on].root });
	}
}

static void candidates_of(const struct looking *at, struct space_opened *s, const struct holder *h, int xcc,
			  struct space_candidates *to)
{
	const size_t before = to->n;
	if (h->compute)
		kfd_candidates(at, s, h->pid, xcc, to);
	if (to->n == before)
		pasid_candidates(s, h, xcc, to);
}

/** All XCCs on which the VMID has tables; those with the same ones are one space. */
static void vmid_candidates(struct space_opened *s, unsigned vmid, int xcc, struct space_candidates *to)
{
	struct address_space spaces[XCCS_MOST];
	const size_t n = target_spaces(s->target, vmid, spaces, XCCS_MOST);
	for (size_t i = 0; i < n; i++) {
		const struct space_candidate one = { vmid, (unsigned)i, 0, spaces[i].root };
		if ((xcc < 0 || (size_t)xcc == i) && (spaces[i].root || xcc >= 0 || !vmid))
			add_candidate(to, one);
	}
}

static struct uh_error *ask_back(const struct space_opened *s, const struct space_candidates *c,
				 const struct uh_memory_query *q)
{
	_cleanup_text_ struct text list = { 0 };
	bool one_vmid = true;
	for (size_t i = 0; i < c->n; i++) {
		const struct space_candidate *at = &c->list[i];
		const struct holder *h = at->pid ? holder_with(s->device, at->pid) : NULL;
		one_vmid &= at->vmid == c->list[0].vmid;
		text_printf(&list, "%sVMID %u", i ? "; " : "", at->vmid);
		if (s->of.several)
			text_printf(&list, " on XCC %u", at->xcc);
		if (at->pid)
			text_printf(&list, " (process %lld", (long long)at->pid);
		if (at->pid)
			text_printf(&list, h && h->name.n ? ", " STR_FMT ")" : ")", STR_ARG(h ? h->name : S("")));
	}
	return uh_error_new("whose address is it? %s says which of these: " STR_FMT,
			    one_vmid && s->of.several ? "--xcc" :
			    q->pid                    ? "--vmid" :
							"--vmid or --pid",
			    STR_ARG(text_str(&list)));
}

/** Why nobody comes into question. */
static struct uh_error *nobody(const struct space_opened *s, const struct uh_memory_query *q)
{
	const struct gate gate = target_gate(s->target);
	if (!gate.open)
		return uh_error_new(STR_FMT ": its memory cannot be read: " STR_FMT, STR_ARG(s->device->pci),
				    STR_ARG(gate.why_not.n ? gate.why_not : S("it is not safe now")));
	if (q->vmid >= 0 && q->xcc >= 0)
		return uh_error_new(STR_FMT " has no XCC %d", STR_ARG(s->device->pci), q->xcc);
	if (q->vmid >= 0)
		return uh_error_new("VMID %d of " STR_FMT " has no page tables now", q->vmid, STR_ARG(s->device->pci));
	if (q->pid)
		return uh_error_new("process %lld has no VMID on " STR_FMT
				    " now: none of its work is on the GPU, or its registers do not tell; --vmid names one",
				    q->pid, STR_ARG(s->device->pci));
	return uh_error_new("whose address is it? no process was found that computes on " STR_FMT
			    " now; --vmid or --pid names one",
			    STR_ARG(s->device->pci));
}

/** Who has the VMID, where only that was named. */
static void find_owner(const struct looking *at, struct space_opened *s)
{
	struct space_candidates c = { 0 };
	for (size_t i = 0; i < s->device->nholders && !s->of.pid; i++) {
		const struct holder *h = &s->device->holders[i];
		if (s->of.pasid_known && s->of.pasid && list_find(h->pasids, h->npasids, it, *it == s->of.pasid))
			s->of.pid = h->pid;
		// Where the PASID cannot be read, the places of queues tell.
		if (!s->of.pasid_known && h->compute)
			kfd_candidates(at, s, h->pid, (int)s->of.xcc, &c);
	}
	const struct space_candidate *found = list_find(c.list, c.n, it, it->vmid == s->of.vmid);
	if (found && !s->of.pid)
		s->of.pid = found->pid;
}

static struct uh_error *choose_vmid(const struct looking *at, struct space_opened *s, const struct uh_memory_query *q)
{
	struct space_candidates c = { 0 };
	if (q->vmid >= 0)
		vmid_candidates(s, (unsigned)q->vmid, q->xcc, &c);
	for (size_t i = 0; q->vmid < 0 && i < s->device->nholders; i++) {
		const struct holder *h = &s->device->holders[i];
		if (q->pid ? h->pid == q->pid : h->compute)
			candidates_of(at, s, h, q->xcc, &c);
	}
	if (!c.n)
		return nobody(s, q);
	if (c.n > 1 && !(q->vmid == 0 && q->xcc < 0)) // the driver's own addresses are the same on all XCCs
		return ask_back(s, &c, q);
	s->of.vmid = c.list[0].vmid;
	s->of.xcc = c.list[0].xcc;
	s->of.pid = c.list[0].pid;
	return NULL;
}

// --- before and after ---

static struct uh_error *space_now(struct space_opened *s, struct address_space *ret)
{
	struct address_space spaces[XCCS_MOST];
	const size_t n = target_spaces(s->target, s->of.vmid, spaces, XCCS_MOST);
	_cleanup_arena_ struct arena a = { 0 };
	const enum answer answer = s->of.xcc < n ? spaces[s->of.xcc].answer : ANSWER_ABSENT;
	if (answer != ANSWER_GIVEN)
		return uh_error_new(STR_FMT ": its memory cannot be read: " STR_FMT, STR_ARG(s->device->pci),
				    STR_ARG(live_why_not(&a, s->target, answer)));
	*ret = spaces[s->of.xcc];
	return NULL;
}

struct uh_error *space_still(struct space_opened *s)
{
	struct address_space now;
	struct uh_error *err = space_now(s, &now);
	if (err)
		return err;
	if (now.root == s->before.root && now.pasid_known == s->before.pasid_known && now.pasid == s->before.pasid)
		return NULL;
	return uh_error_new("VMID %u of " STR_FMT " became another program's while it was read; nothing that was read counts, "
			    "try again",
			    s->of.vmid, STR_ARG(s->device->pci));
}

struct uh_error *space_open_gpu(const struct looking *at, const struct uh_memory_query *q, const char *track, struct space_opened *ret)
{
	struct space_opened *s = ret;
	*s = (struct space_opened){ 0 };
	struct uh_error *err = live_find(at, track, !q->pid, &s->live);
	if (!err && !s->live.found.devices.root)
		err = uh_error_new("the memory of a GPU can be read only by root");
	if (!err)
		err = choose_gpu(s, q->pid);
	if (err)
		return err;
	s->target = target_device(at->know, s->device);
	s->of.title = live_title(&s->arena, s->device);
	s->of.target = s->device->pci;
	s->of.gfx = s->device->gfx;
	s->of.several = s->device->shaders.xccs > 1;
	return NULL;
}

struct uh_error *space_choose(const struct looking *at, const struct uh_memory_query *q, struct space_opened *s)
{
	if (q->pid && !holder_with(s->device, q->pid))
		return uh_error_new("process %lld does not have " STR_FMT
				    " open, or is gone: its address space is gone with it",
				    q->pid, STR_ARG(s->device->pci));
	struct uh_error *err = choose_vmid(at, s, q);
	if (!err)
		err = space_now(s, &s->before);
	if (err)
		return err;
	s->of.pasid_known = s->before.pasid_known;
	s->of.pasid = s->before.pasid;
	if (s->of.vmid && !s->of.pid)
		find_owner(at, s);
	const struct holder *h = s->of.pid ? holder_with(s->device, s->of.pid) : NULL;
	s->of.process = h ? h->name : (struct str){ 0 };
	return NULL;
}

struct uh_error *space_open(const struct looking *at, const struct uh_memory_query *q, const char *track,
			    struct space_opened *ret)
{
	struct uh_error *err = space_open_gpu(at, q, track, ret);
	return err ? err : space_choose(at, q, ret);
}

struct target *space_process(const struct looking *at, struct space_opened *s)
{
	const struct holder *h = s->of.pid ? holder_with(s->device, s->of.pid) : NULL;
	if (!h || !h->compute || s->process_tried)
		return s->process;
	s->process_tried = true;
	if (!s->kfd_looked)
		kfd_look(&s->live.found.devices, &s->kfd);
	s->kfd_looked = true;
	_cleanup_error_ struct uh_error *err =
		target_process_of(at->know, &s->live.found.devices, &s->kfd, s->of.pid, &s->process);
	return s->process;
}

void space_close(struct space_opened *s)
{
	target_close(s->process);
	target_close(s->target);
	if (s->kfd_looked)
		kfd_free(&s->kfd);
	live_free(&s->live);
	arena_free(&s->arena);
}
