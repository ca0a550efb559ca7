// Memory behind an address of a GPU: its bytes, the way through its page tables, its instructions.
#include <unistd.h>

#include "session/live/log_fault.h"
#include "session/live/space.h"
#include "source/source.h"

enum {
	LENGTH = 64,
	CODE_LENGTH = 256,
	LENGTH_MOST = 1 << 20,
	AROUND = 64, // pages on each side
	BITS_MOST = 16,
};

struct memory_look {
	struct looking at;
	struct space_opened space;
	const struct uh_memory_query *query;
	struct arena arena;
	struct vm_walk *walks; // of each piece
	struct memory_piece *pieces;
	struct memory_seen seen;
	struct disassembly disassembly;
	struct vm_named_bits bits[BITS_MOST];
};

static void memory_look_close(struct memory_look *l)
{
	space_close(&l->space);
	arena_free(&l->arena);
	looking_end(&l->at);
}

static struct request request_at(const struct memory_look *l, uint64_t address, size_t size, void *to, struct vm_walk *walk)
{
	return (struct request){ .kind = REQUEST_MEMORY,
				 .address = address,
				 .size = size,
				 .to = to,
				 .vmid = l->space.of.vmid,
				 .hub = HUB_GFX,
				 .hub_instance = l->space.of.xcc,
				 .contents = true,
				 .walk = walk };
}

// --- bytes that the GPU itself cannot show ---

/** A page of another GPU of the hive, read there. */
static bool read_of_peer(struct memory_look *l, uint64_t physical, struct memory_piece *p)
{
	const struct device *own = l->space.device;
	const struct devices *all = &l->space.live.found.devices;
	for (size_t i = 0; i < all->n; i++) {
		const struct device *d = &all->list[i];
		uint64_t first, bytes;
		if (d == own || !d->hive.n || !str_eq(d->hive, own->hive))
			continue;
		_cleanup_target_ struct target *peer = target_device(l->at.know, d);
		if (!target_vram(peer, &first, &bytes) || physical < first || physical - first >= bytes)
			continue;
		struct request r = { .kind = REQUEST_MEMORY,
				     .hub = HUB_VRAM,
				     .address = physical - first,
				     .size = p->n,
				     .to = (void *)p->bytes,
				     .contents = true };
		if (target_ask(peer, &r) != ANSWER_GIVEN)
			return false;
		p->source = FROM_PEER;
		p->peer = d->pci;
		p->place = physical - first;
		return true;
	}
	return false;
}

/** Pages of the process that the driver does not show (userptr, SVM) have the same address there. */
static bool read_of_process(struct memory_look *l, struct memory_piece *p)
{
	struct target *process = space_process(&l->at, &l->space);
	if (!process || !target_contents(process, p->address, (void *)p->bytes, p->n))
		return false;
	p->source = FROM_PROCESS;
	return true;
}

// --- reading ---

static void plan_pieces(struct memory_look *l, uint64_t address, size_t length)
{
	const size_t most = length / VM_PAGE + 2;
	char *bytes = arena_alloc(&l->arena, length + 1);
	l->pieces = arena_alloc(&l->arena, most * sizeof(*l->pieces));
	l->walks = arena_alloc(&l->arena, most * sizeof(*l->walks));
	for (size_t at = 0; at < length;) {
		const size_t left = VM_PAGE - (address + at) % VM_PAGE, n = left < length - at ? left : length - at;
		l->pieces[l->seen.npieces++] = (struct memory_piece){ .address = address + at, .n = n, .bytes = bytes + at };
		at += n;
	}
}

static void memory_take_piece(struct memory_look *l, const struct request *r, const struct vm_walk *w, struct memory_piece *p)
{
	if (r->answer == ANSWER_GIVEN) {
		p->source = w->at.system ? FROM_SYSTEM : FROM_VRAM;
		p->place = w->at.address;
		return;
	}
	if (w->elsewhere && read_of_peer(l, w->physical, p))
		return;
	if (w->at.system && w->read && r->answer == ANSWER_ABSENT && read_of_process(l, p))
		return;
	p->why_not = r->why_not ? str_z(r->why_not) : live_why_not(&l->arena, l->space.target, r->answer);
}

static size_t read_pieces(struct memory_look *l)
{
	const size_t n = l->seen.npieces;
	struct request *requests = arena_alloc(&l->arena, n * sizeof(*requests) + 1);
	size_t there = 0;
	for (size_t i = 0; i < n; i++)
		requests[i] = request_at(l, l->pieces[i].address, l->pieces[i].n, (void *)l->pieces[i].bytes, &l->walks[i]);
	l->space.target->ask(l->space.target, requests, n);
	for (size_t i = 0; i < n; i++) {
		memory_take_piece(l, &requests[i], &l->walks[i], &l->pieces[i]);
		there += l->pieces[i].source != FROM_NOWHERE;
	}
	l->seen.pieces = l->pieces;
	return there;
}

// --- page tables ---

/** Whether the tables say the same of two pages, but for where they lead. */
static bool alike(const struct memory_look *l, const struct vm_walk *a, const struct vm_walk *b)
{
	if (a->state != b->state || a->elsewhere != b->elsewhere || a->at.system != b->at.system)
		return false;
	if (a->state == VM_NONE && !a->elsewhere)
		return a->why_not == b->why_not;
	for (size_t i = 0; i < l->seen.nbits && a->read && b->read; i++)
		if (vm_bits_get(l->bits[i].bits, a->steps[a->read - 1].entry) !=
		    vm_bits_get(l->bits[i].bits, b->steps[b->read - 1].entry))
			return false;
	return true;
}

/** Walks to the address and to the pages around it, all at once. */
static struct uh_error *walk_around(struct memory_look *l, uint64_t address)
{
	const uint64_t page = address & ~(uint64_t)(VM_PAGE - 1);
	const uint64_t before = page / VM_PAGE < AROUND ? page / VM_PAGE : AROUND;
	const uint64_t begin = page - before * VM_PAGE;
	const size_t n = (size_t)before + 1 + AROUND;
	struct request *requests = arena_alloc(&l->arena, (n + 1) * sizeof(*requests));
	struct vm_walk *walks = arena_alloc(&l->arena, (n + 1) * sizeof(*walks));
	struct memory_run *runs = arena_alloc(&l->arena, n * sizeof(*runs));
	for (size_t i = 0; i < n; i++)
		requests[i] = request_at(l, begin + i * VM_PAGE, 0, NULL, &walks[i]);
	requests[n] = request_at(l, address, 0, NULL, &walks[n]);
	l->space.target->ask(l->space.target, requests, n + 1);
	if (requests[n].answer == ANSWER_REFUSED || requests[n].answer == ANSWER_TIMED_OUT)
		return uh_error_new(STR_FMT ": its page tables cannot be read: " STR_FMT, STR_ARG(l->space.of.target),
				    STR_ARG(live_why_not(&l->arena, l->space.target, requests[n].answer)));
	l->seen.walk = &walks[n];
	if (!walks[n].why_not)
		walks[n].why_not = requests[n].why_not;
	for (size_t i = 0; i < n; i++) {
		const uint64_t at = begin + i * VM_PAGE;
		struct memory_run *last = l->seen.nruns ? &runs[l->seen.nruns - 1] : NULL;
		if (!walks[i].why_not)
			walks[i].why_not = requests[i].why_not;
		if (last && alike(l, &last->walk, &walks[i]))
			last->end = at + VM_PAGE - 1;
		else
			runs[l->seen.nruns++] = (struct memory_run){ at, at + VM_PAGE - 1, walks[i] };
	}
	l->seen.runs = runs;
	return NULL;
}

// --- what is mapped next to an address ---

/** Looks from @from on, downwards or upwards, for the first page that is mapped. A table that is not there stands for all of its pages. */
static void find_edge(struct memory_look *l, uint64_t from, bool up, struct memory_edge *ret)
{
	enum { ROUNDS = 24, AT_ONCE = 256 };
	_cleanup_arena_ struct arena a = { 0 };
	struct request *requests = arena_alloc(&a, AT_ONCE * sizeof(*requests));
	struct vm_walk *walks = arena_alloc(&a, AT_ONCE * sizeof(*walks));
	uint64_t at = from & ~(uint64_t)(VM_PAGE - 1), unit = VM_PAGE;
	for (size_t round = 0; round < ROUNDS; round++) {
		size_t n = 0;
		for (uint64_t next = at; n < AT_ONCE && (up ? next <= l->space.before.end : next <= at); n++, next += up ? unit : -unit)
			requests[n] = request_at(l, next, 0, NULL, &walks[n]);
		ret->known = !n; // there is no address left
		if (n)
			l->space.target->ask(l->space.target, requests, n);
		for (size_t i = 0; i < n; i++) {
			const struct vm_walk *w = &walks[i];
			const uint64_t here = requests[i].address;
			const unsigned shift = w->read ? w->steps[w->read - 1].shift : 63;
			if (requests[i].answer == ANSWER_REFUSED || requests[i].answer == ANSWER_TIMED_OUT)
				return;
			if (w->state == VM_FOUND || w->elsewhere) {
				*ret = (struct memory_edge){ true, true, up ? here : here | (VM_PAGE - 1), *w };
				return;
			}
			const uint64_t covers = UINT64_C(1) << (shift & 63), begin = here & ~(covers - 1);
			ret->known = up ? begin + covers <= begin || begin + covers > l->space.before.end : !begin;
			if (ret->known)
				return;
			at = up ? begin + covers : begin - VM_PAGE;
			// A table begins here whose pages are smaller than the steps: each of them is looked at.
			if (covers < unit || i + 1 == n) {
				unit = covers;
				break;
			}
		}
		if (ret->known)
			return;
	}
}

// --- a fault of the log ---

/** Whether a process is the one that the log names: it was there before the fault. */
static bool fault_process(const struct holder *h, const struct memory_fault *f)
{
	const long ticks = sysconf(_SC_CLK_TCK);
	const double began = h && ticks > 0 ? (double)h->began / (double)ticks : 0;
	const bool told = began > 0 && f->boot_seconds >= 0 && began <= source_uptime(); // else the clocks are not the same
	return h && (!told || began <= f->boot_seconds);
}

/** Who has the VMID of a fault now. */
static void find_successor(struct memory_look *l, struct memory_fault *f)
{
	struct address_space now;
	const struct device *d = l->space.device;
	if (!target_spaces(l->space.target, f->vmid, &now, 1) || now.answer != ANSWER_GIVEN || !now.pasid_known)
		return;
	f->now_pasid = now.pasid;
	for (size_t i = 0; i < d->nholders; i++)
		if (list_find(d->holders[i].pasids, d->holders[i].npasids, it, *it == now.pasid)) {
			f->now_pid = d->holders[i].pid;
			f->now_process = d->holders[i].name;
		}
}

/** Whether the address space of a fault is still there, and which it is. */
static struct uh_error *choose_fault_space(struct memory_look *l, struct memory_fault *f)
{
	const struct device *d = l->space.device;
	const struct holder *h = list_find(d->holders, d->nholders, it, it->pid == f->pid);
	const bool lives = f->pid && fault_process(h, f);
	struct uh_memory_query q = { .vmid = -1, .xcc = l->query->xcc, .pid = f->pid };
	const uint32_t vmids = lives && f->pasid ? target_vmids_of(l->space.target, &f->pasid, 1) : 0;
	const struct gate gate = target_gate(l->space.target);
	if (!gate.open)
		return uh_error_new(STR_FMT ": its page tables cannot be read: " STR_FMT, STR_ARG(d->pci), STR_ARG(gate.why_not));
	f->space = lives ? FAULT_AWAY : FAULT_GONE;
	if (vmids) {
		q.vmid = __builtin_ctz(vmids);
		q.pid = 0;
	}
	struct uh_error *err = lives && (vmids || h->compute) ? space_choose(&l->at, &q, &l->space) : NULL;
	if (lives && !err && (vmids || h->compute))
		f->space = l->space.before.pasid_known && f->pasid && l->space.before.pasid != f->pasid ? FAULT_AWAY : FAULT_SAME;
	if (f->space != FAULT_SAME)
		find_successor(l, f);
	// Several spaces that come into question are asked back; that none is on the GPU now is an answer.
	if (err && !str_starts(str_z(uh_error_message(err)), S("whose address"))) {
		uh_error_free(err);
		err = NULL;
	}
	return err;
}

static struct uh_error *look_fault(struct memory_look *l)
{
	struct memory_seen *m = &l->seen;
	struct memory_fault *f = &m->fault;
	struct uh_error *err = log_fault_find(l->query->incident, &l->at.teller, &l->arena, f);
	if (err)
		return err;
	l->at.options.gpu = arena_z(&l->arena, f->pci);
	err = space_open_gpu(&l->at, &(struct uh_memory_query){ .vmid = -1, .xcc = l->query->xcc }, "memory", &l->space);
	if (!err)
		err = choose_fault_space(l, f);
	if (err)
		return err;
	m->address = f->address;
	if (f->space == FAULT_SAME) {
		l->space.of.pid = f->pid;
		l->space.of.process = f->process;
	}
	m->space = l->space.of;
	if (f->space != FAULT_SAME)
		return NULL;
	m->nbits = vm_page_bits(l->at.know, l->space.of.gfx, l->bits, BITS_MOST);
	m->bits = l->bits;
	vm_format_of(l->at.know, l->space.of.gfx, &m->format);
	err = walk_around(l, f->address);
	if (!err && f->address >= VM_PAGE)
		find_edge(l, f->address - VM_PAGE, false, &m->below);
	if (!err)
		find_edge(l, f->address + VM_PAGE, true, &m->above);
	return err ? err : space_still(&l->space);
}

// --- instructions ---

static void disassemble_pieces(struct memory_look *l)
{
	struct code_range *ranges = arena_alloc(&l->arena, l->seen.npieces * sizeof(*ranges) + 1);
	size_t n = 0;
	bool open = false;
	for (size_t i = 0; i < l->seen.npieces; i++) {
		const struct memory_piece *p = &l->pieces[i];
		const bool there = p->source != FROM_NOWHERE;
		if (there && open)
			ranges[n - 1].bytes.n += p->n; // the bytes of all pieces lie beside each other
		else if (there)
			ranges[n++] = (struct code_range){ .begin = p->address, .bytes = (struct str){ p->bytes, p->n } };
		open = there;
	}
	_cleanup_error_ struct uh_error *err = n ? disassemble(&l->arena, l->space.of.gfx, ranges, n, &l->disassembly) :
						   uh_error_new("no bytes could be read");
	if (err)
		l->seen.no_code = arena_str(&l->arena, str_z(uh_error_message(err)));
	else
		l->seen.disassembly = &l->disassembly;
}

// --- all of it ---

static struct uh_error *look_memory(struct memory_look *l)
{
	const struct uh_memory_query *q = l->query;
	struct memory_seen *m = &l->seen;
	struct uh_error *err = space_address(q->address, &m->address);
	m->length = q->length ? q->length : q->code ? CODE_LENGTH : q->walk ? 0 : LENGTH;
	if (!err && m->length > LENGTH_MOST)
		err = uh_error_new("at most %d bytes are read at once", LENGTH_MOST);
	if (!err && m->address > UINT64_MAX - LENGTH_MOST)
		err = uh_error_new("%s is no address of a GPU", q->address);
	if (!err)
		err = space_open(&l->at, q, "memory", &l->space);
	if (err)
		return err;
	m->nbits = vm_page_bits(l->at.know, l->space.of.gfx, l->bits, BITS_MOST);
	m->bits = l->bits;
	vm_format_of(l->at.know, l->space.of.gfx, &m->format);
	plan_pieces(l, m->address, (size_t)m->length);
	const size_t there = read_pieces(l);
	if (q->walk)
		err = walk_around(l, m->address);
	if (!err)
		err = space_still(&l->space);
	if (err)
		return err;
	if (!there && !q->walk)
		return uh_error_new("0x%llx of VMID %u cannot be read: " STR_FMT, (unsigned long long)m->address,
				    l->space.of.vmid, STR_ARG(m->npieces ? l->pieces[0].why_not : S("nothing was asked for")));
	if (q->code)
		disassemble_pieces(l);
	m->code = q->code;
	m->space = l->space.of;
	return NULL;
}

struct uh_error *uh_look_memory(const struct uh_look_options *o, const struct uh_memory_query *q, FILE *out,
				uh_problem_fn *problem, void *ctx)
{
	_cleanup_(memory_look_close) struct memory_look l = { .query = q };
	struct uh_error *err = looking_begin(&l.at, o, out, (struct teller){ problem, ctx });
	if (!err)
		err = q->fault ? look_fault(&l) : look_memory(&l);
	if (!err)
		report_memory(&l.seen, &l.at.options, out);
	return err;
}
