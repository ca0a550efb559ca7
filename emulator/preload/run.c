// A kernel's run: which one it is, what the plan says of it, and what its stand-in does.
#include "emulator/preload/state.h"

#include <sys/mman.h>

/** What is found out about a packet while the lock `memory` is held. */
struct kmt_found {
	const struct standin *standin;
	struct plan_rule *rules[PLAN_RULES_MOST]; // that it is time for
	size_t nrules;
};

/** A kernel that the program does not know of: of the runtime, or of the flight recorder. */
static bool of_runtime(struct str symbol) { return str_starts(symbol, S("__amd_rocclr_")) || str_starts(symbol, S("unhang_")); }

/** Whether a rule is about this kernel, and this launch of it. */
static bool due(const struct kmt_run *run, struct plan_rule *r, struct str symbol)
{
	const struct kmt *t = run->kfd;
	if (r->gpu >= 0 && run->queue->gpu != &t->plan.gpus[r->gpu])
		return false;
	if (r->allocation || !symbol.n || (r->kernel[0] ? !plan_names(r, symbol) : of_runtime(symbol)))
		return false;
	uint64_t seen = __atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED);
	return !r->nth || r->nth == seen;
}

static void set_fault(struct kmt_run *r, uint64_t address, bool write, bool present)
{
	r->faulted = true;
	r->write = write;
	r->address = address;
	r->fault = (struct kfd_hsa_memory_exception_data){ .gpu_id = r->queue->gpu->id,
							   .va = address & ~(uint64_t)(KMT_PAGE - 1),
							   .failure = { .NotPresent = !present, .ReadOnly = present } };
}

/** The command processor reads the descriptor, the kernel its arguments: both fault where nothing is mapped. */
static void copy_arguments(struct kmt_run *r, const struct kmt_kernel *kernel, const struct standin *standin, uint64_t address)
{
	uint64_t there = 0;
	const char *from = memory_reach(r->kfd, r->queue->gpu, address, false, &there);
	size_t wanted = kernel ? kernel->argument_bytes : standin ? standin->argument_bytes : 0;
	r->argument_bytes = wanted < sizeof(r->arguments) ? wanted : sizeof(r->arguments);
	r->argument_bytes = r->argument_bytes < there ? r->argument_bytes : (size_t)there;
	if (from)
		memcpy(r->arguments, from, r->argument_bytes);
	else if (wanted)
		set_fault(r, address, false, false);
}

void run_hangs(const struct kmt_run *r)
{
	kfd_tell(r->kfd, "hang %u pc 0x%llx waves %u packet %llu group-waves %u", r->queue->id, (unsigned long long)r->entry,
		 r->waves, (unsigned long long)(*r->queue->read % r->queue->packets), r->group_waves);
}

static unsigned waves_of(const struct plan_gpu *g, const struct aql_kernel *p)
{
	uint64_t items = (uint64_t)p->grid[0] * (p->grid[1] ? p->grid[1] : 1) * (p->grid[2] ? p->grid[2] : 1);
	uint64_t waves = (items + 63) / 64, most = (uint64_t)g->engines * g->arrays * g->cus * g->simds * g->waves;
	return (unsigned)(waves < most ? waves : most);
}

static void find(struct kmt_run *r, const struct aql_kernel *packet, struct kmt_found *ret)
{
	struct kmt *t = r->kfd;
	bool unread = false;
	pthread_rwlock_rdlock(&t->memory);
	const struct kmt_kernel *kernel = code_kernel(t, packet->object, &unread);
	if (unread) {
		pthread_rwlock_unlock(&t->memory);
		pthread_rwlock_wrlock(&t->memory);
		code_read(t, packet->object);
		kernel = code_kernel(t, packet->object, &unread);
	}
	ret->standin = kernel ? kernel->standin : standin_of_code(t, r->queue->gpu, packet->object);
	for (size_t i = 0; i < t->plan.nrules; i++)
		if (due(r, &t->plan.rules[i], kernel ? kernel->symbol : (struct str){ 0 }))
			ret->rules[ret->nrules++] = &t->plan.rules[i];
	if (memory_reach(t, r->queue->gpu, packet->object, false, &(uint64_t){ 0 }))
		copy_arguments(r, kernel, ret->standin, packet->arguments);
	else
		set_fault(r, packet->object, false, false);
	r->entry = kernel ? kernel->entry : packet->object;
	r->waves = waves_of(r->queue->gpu, packet);
	r->group_waves = (packet->group[0] * (packet->group[1] ? packet->group[1] : 1u) * (packet->group[2] ? packet->group[2] : 1u) + 63) / 64;
	pthread_rwlock_unlock(&t->memory);
}

/** Memory of several blocks that follow each other, in one piece for as long as the kernel runs. *ret_there: how far they reach. */
static void *join(struct kmt_run *r, uint64_t address, uint64_t size, bool write, uint64_t *ret_there)
{
	const uint64_t begin = address / KMT_PAGE * KMT_PAGE,
		       bytes = (address + size - begin + KMT_PAGE - 1) / KMT_PAGE * KMT_PAGE;
	struct iovec *v = r->nviews < ARRAY_SIZE(r->views) && size <= KMT_FILE_BYTES ? &r->views[r->nviews] : NULL;
	char *p = v ? mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
	uint64_t at = begin, n;
	if (p == MAP_FAILED)
		return NULL;
	for (; at < begin + bytes; at += n) {
		const struct kmt_block *b = memory_block(r->kfd, at);
		if (!b || b->file < 0 || !memory_reach(r->kfd, r->queue->gpu, at, write, &n))
			break;
		n = n < begin + bytes - at ? n : begin + bytes - at;
		if (mmap(p + (at - begin), n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, b->file,
			 (off_t)(b->offset + at - b->base)) == MAP_FAILED)
			break;
	}
	if (at > address)
		*ret_there = at - address;
	if (at < begin + bytes) {
		munmap(p, bytes);
		return NULL;
	}
	*v = (struct iovec){ p, bytes };
	r->nviews++;
	return p + (address - begin);
}

void *run_reach(struct kmt_run *r, uint64_t address, uint64_t size, bool write)
{
	uint64_t there = 0;
	const struct plan_gpu *g = r->queue->gpu;
	if (r->faulted || r->exception)
		return NULL;
	char *p = memory_reach(r->kfd, g, address, write, &there);
	if (p && size <= there)
		return p;
	void *joined = p ? join(r, address, size, write, &there) : NULL;
	if (joined)
		return joined;
	if (p)
		set_fault(r, address + there, write, false);
	else if (write && memory_reach(r->kfd, g, address, false, &there))
		set_fault(r, address, write, true);
	else
		set_fault(r, address, write, false);
	return NULL;
}

/** The address that a rule names, or that it counts from one of the kernel's arguments. */
static uint64_t planned_address(const struct kmt_run *r, const struct plan_rule *rule)
{
	uint64_t base = 0;
	size_t at = (size_t)rule->argument * sizeof(base);
	if (rule->argument >= 0 && at + sizeof(base) <= r->argument_bytes)
		memcpy(&base, r->arguments + at, sizeof(base));
	return base + rule->address;
}

/** Whether the kernel comes to its end in spite of what the plan says. */
static bool obey(struct kmt_run *r, struct kmt_found *found)
{
	for (size_t i = 0; i < found->nrules; i++) {
		const struct plan_rule *rule = found->rules[i];
		switch (rule->does) {
		case PLAN_LOSE:
			found->standin = NULL; // its signal comes all the same
			break;
		case PLAN_SLOW:
			sleep_seconds(rule->seconds);
			break;
		case PLAN_HANG:
			run_hangs(r);
			return false;
		case PLAN_EXCEPTION:
			r->exception = rule->code;
			break;
		case PLAN_FAULT:
			set_fault(r, planned_address(r, rule), rule->write, false);
			break;
		}
	}
	return true;
}

/** A fault and an exception stop the queue; the runtime decides what becomes of the process. */
static void report(struct kmt_run *r)
{
	if (r->faulted) {
		kfd_tell(r->kfd, "fault %u address 0x%llx write %u", r->queue->id, (unsigned long long)r->fault.va, r->write);
		__atomic_or_fetch(&r->kfd->faulted, gpu_bit(r->kfd, r->queue->gpu), __ATOMIC_RELEASE);
		event_fault(r->kfd, &r->fault);
	} else {
		queue_exception(r->queue, r->exception);
	}
}

/** Where a kernel that faults stands: at the first instruction that reads or writes memory by vector addresses (FLAT of gfx9). */
static void find_access(const struct kmt_run *r, struct kmt_standing *s)
{
	enum { WORDS = 256, FLAT = 0x37, NO_SCALAR = 0x7f };
	uint64_t there = 0;
	pthread_rwlock_rdlock(&r->kfd->memory);
	const char *code = memory_reach(r->kfd, r->queue->gpu, r->entry, false, &there);
	for (size_t at = 0; code && at + 8 <= there && at < WORDS * 4; at += 4) {
		uint32_t w[2];
		memcpy(w, code + at, sizeof(w));
		if (w[0] >> 26 != FLAT)
			continue;
		const int scalar = w[1] >> 16 & 0x7f;
		s->pc = r->entry + at;
		s->address -= (uint64_t)((int64_t)((w[0] & 0x1fff) ^ 0x1000) - 0x1000);
		s->scalar = scalar == NO_SCALAR ? -1 : scalar;
		s->vector = scalar == NO_SCALAR ? (int)(w[1] & 0xff) : -1;
		break;
	}
	pthread_rwlock_unlock(&r->kfd->memory);
}

/** For debuggers: what the queue stands in. */
static void stand(const struct kmt_run *r, const struct aql_kernel *packet)
{
	struct kmt_standing *s = &r->queue->standing;
	*s = (struct kmt_standing){ .faulted = r->faulted,
				    .exception = r->faulted ? EXCEPTION_MEMORY_VIOLATION : r->exception,
				    .pc = r->entry,
				    .address = r->address,
				    .scalar = -1,
				    .vector = -1,
				    .packet = (uint32_t)(*r->queue->read % r->queue->packets),
				    .grid = { packet->grid[0], packet->grid[1], packet->grid[2] },
				    .group = { packet->group[0], packet->group[1], packet->group[2] } };
	if (r->faulted)
		find_access(r, s);
	__atomic_store_n(&s->is, true, __ATOMIC_RELEASE);
}

bool run_kernel(struct kmt_queue *q, const struct aql_kernel *packet)
{
	struct kmt_run r = { .kfd = q->kfd, .queue = q, .items = packet->grid[0] };
	struct kmt_found found = { 0 };
	find(&r, packet, &found);
	bool goes_on = !found.nrules || obey(&r, &found);
	if (goes_on && !r.faulted && !r.exception && found.standin && r.argument_bytes >= found.standin->argument_bytes) {
		pthread_rwlock_rdlock(&q->kfd->memory);
		found.standin->run(&r);
		for (size_t i = 0; i < r.nviews; i++)
			munmap(r.views[i].iov_base, r.views[i].iov_len);
		pthread_rwlock_unlock(&q->kfd->memory);
	}
	if (goes_on && !r.faulted && !r.exception)
		return true;
	stand(&r, packet);
	if (goes_on)
		report(&r);
	queue_stand(q);
	return false;
}
