// The table of allocations in the file, and what was found.
#include "preload/guard.h"

enum { ROW_WORDS = sizeof(struct alloc_row) / 8, FINDING_WORDS = sizeof(struct alloc_finding) / 8, PROBES = 64 };

static uint32_t first_row(uint64_t address)
{
	return (uint32_t)((address >> 8) * 0x9e3779b97f4a7c15u >> 32) & (guard.nrows - 1);
}

static void row_store(uint32_t at, struct alloc_row *r) { record_write(&guard.rows[at], r, ROW_WORDS, at); }

/** Whether one row is a better place than another: free, then released for longest, then held for longest. */
static bool is_better(const struct alloc_row *a, const struct alloc_row *b)
{
	if (!b || a->state == ALLOC_FREE_SLOT)
		return true;
	return a->state != b->state ? a->state == ALLOC_RELEASED : a->died < b->died;
}

static uint32_t row_place(uint64_t address)
{
	const struct alloc_row *best = NULL;
	for (uint32_t i = first_row(address), n = 0; n < PROBES && n < guard.nrows; i++, n++) {
		const struct alloc_row *r = &guard.rows[i & (guard.nrows - 1)];
		if (r->state != ALLOC_LIVE && is_better(r, best))
			best = r;
		if (r->state == ALLOC_FREE_SLOT)
			break;
	}
	return best ? (uint32_t)(best - guard.rows) : ROW_NONE;
}

uint32_t row_add(const struct request *q, const struct alloc_row *wanted)
{
	struct alloc_row r = *wanted;
	const uint32_t at = row_place(r.address);
	if (at == ROW_NONE) {
		count(&guard.header->lost_rows, 1);
		return at;
	}
	r.by = q->thread;
	r.stack = q->stack;
	r.operation = q->operation;
	r.doing = q->doing;
	r.call = (uint16_t)q->call;
	r.device = (uint8_t)q->device;
	r.number = q->number;
	r.size = q->size;
	r.state = ALLOC_LIVE;
	memcpy(r.name, q->name, sizeof(r.name));
	row_store(at, &r);
	return at;
}

void row_end(uint32_t row, const struct request *q, enum alloc_state state, uint64_t died)
{
	if (row >= guard.nrows)
		return;
	struct alloc_row r = guard.rows[row];
	r.state = (uint8_t)state;
	r.died = died;
	if (q) {
		r.freed_by = q->thread;
		r.freed_stack = q->stack;
		r.freed_operation = q->operation;
		r.freed_doing = q->doing;
		memcpy(r.freed_name, q->name, sizeof(r.freed_name));
	}
	row_store(row, &r);
}

void row_state(uint32_t row, enum alloc_state state)
{
	if (row >= guard.nrows)
		return;
	struct alloc_row r = guard.rows[row];
	r.state = (uint8_t)state;
	row_store(row, &r);
}

void row_flag(uint32_t row, enum alloc_flag flag)
{
	if (row >= guard.nrows)
		return;
	struct alloc_row r = guard.rows[row];
	r.flags |= flag;
	row_store(row, &r);
}

uint32_t row_find(uint64_t address, enum alloc_state state)
{
	const struct alloc_row *newest = NULL;
	for (uint32_t i = first_row(address), n = 0; n < PROBES && n < guard.nrows; i++, n++) {
		const struct alloc_row *r = &guard.rows[i & (guard.nrows - 1)];
		if (r->state == state && r->address == address && (!newest || r->died > newest->died))
			newest = r;
		if (r->state == ALLOC_FREE_SLOT)
			break;
	}
	return newest ? (uint32_t)(newest - guard.rows) : ROW_NONE;
}

static void finding_tell(const struct alloc_finding *f, const struct alloc_row *r)
{
	const unsigned long long at = f->address, size = r ? r->size : 0, number = r ? r->number : 0;
	const long long begin = f->begin, end = f->end;
	const char *side = f->kind == ALLOC_FOUND_BROKEN_BELOW ? "before the start" : "past the end";
	switch (f->kind) {
	case ALLOC_FOUND_DOUBLE_FREE:
		rec_line("double free of %#llx: allocation %llu (%llu bytes) was freed before", at, number, size);
		break;
	case ALLOC_FOUND_WILD_FREE:
		if (r)
			rec_line("hipFree(%#llx) is %lld bytes inside of allocation %llu (%llu bytes)", at, begin, number,
				 size);
		else
			rec_line("hipFree(%#llx): no allocation begins there", at);
		break;
	case ALLOC_FOUND_BROKEN_BELOW:
	case ALLOC_FOUND_BROKEN_ABOVE:
		if (end - 1 == begin)
			rec_line("byte %lld of allocation %llu (%llu bytes at %#llx), %s, was overwritten", begin, number, size, at, side);
		else
			rec_line("bytes %lld to %lld of allocation %llu (%llu bytes at %#llx), %s, were overwritten", begin, end - 1,
				 number, size, at, side);
		break;
	}
}

void finding_add(struct alloc_finding *f, const struct request *q, uint32_t row)
{
	const struct alloc_row *r = row < guard.nrows ? &guard.rows[row] : NULL;
	f->time = now_ns();
	f->row = r ? row + 1 : 0;
	f->born = r ? r->born : 0;
	f->at_exit = !q;
	if (q) {
		f->call = q->call;
		f->thread = q->thread;
		f->stack = q->stack;
		memcpy(f->name, q->name, sizeof(f->name));
	}
	finding_tell(f, r);
	if (guard.found >= guard.nfindings) {
		count(&guard.header->lost_findings, 1);
		return;
	}
	const uint32_t id = ++guard.found;
	record_write(&guard.findings[id - 1], f, FINDING_WORDS, id);
}
