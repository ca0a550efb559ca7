// What a light core takes from the process that waits: everything is read through the kernel, so that memory which is gone faults nobody.
#include <elf.h>

#include "base/bytes.h"
#include "base/child.h"
#include "code/names.h"
#include "gpu/core/light_parts.h"

enum {
	BACK = 64, // packets before the read index: some of them may still run
	XCCS_MOST = 64,
	SEGMENTS_MOST = 64,
	IMAGE_MOST = 64 << 20,
	ARGUMENTS_MOST = 64 << 10,
	ARGUMENTS_UNKNOWN = 256,
	SIGNAL = 64,
	RING_MOST = 16 << 20, // the runtime's largest has 8 MB
};

static bool late(struct light *l)
{
	if (now_ms() >= l->deadline)
		l->lacks |= LIGHT_TIME;
	return l->lacks & LIGHT_TIME;
}

static ssize_t read_some(const struct light *l, uint64_t at, void *to, size_t size)
{
	return l->o->read && at && at <= INT64_MAX - size ? l->o->read(l->o->ctx, at, to, size) : -1;
}

static bool get(void *ctx, uint64_t address, void *to, size_t size)
{
	return !late(ctx) && read_some(ctx, address, to, size) == (ssize_t)size;
}

/** What is not written yet of [*at, end): *at moves behind what is. Returns where the next piece begins. */
static uint64_t gap_at(const struct light *l, uint64_t *at, uint64_t end)
{
	for (bool moved = true; moved;) {
		moved = false;
		for (size_t i = 0; i < l->pieces.len; i++)
			if (*at - l->pieces.data[i].address < l->pieces.data[i].size) {
				*at = l->pieces.data[i].address + l->pieces.data[i].size;
				moved = true;
			}
	}
	for (size_t i = 0; i < l->pieces.len; i++)
		if (l->pieces.data[i].address > *at && l->pieces.data[i].address < end)
			end = l->pieces.data[i].address;
	return end;
}

/** Copies what can be read, up to the first page that cannot: a size in a note may be any, and to try each page of it would take long. false:
 * there was such a page, or there is no more time or room. */
static bool copy(struct light *l, uint64_t at, uint64_t end)
{
	struct light_piece *p = NULL;
	while (at < end && !late(l)) {
		const size_t wanted = end - at < LIGHT_BUFFER ? (size_t)(end - at) : LIGHT_BUFFER;
		const ssize_t n = read_some(l, at, l->room, wanted);
		if (n <= 0) {
			l->lacks |= l->reads_code ? LIGHT_CODE : 0;
			return false;
		}
		if (l->at + (uint64_t)n > l->most || !light_room(l, (size_t)n) || (!p && l->pieces.len == LIGHT_PIECES_MOST) ||
		    !light_write(l, (struct str){ l->room, (size_t)n }, l->at)) {
			l->lacks |= LIGHT_ROOM;
			return false;
		}
		if (!p) {
			vec_push(&l->pieces, ((struct light_piece){ .address = at, .offset = l->at }));
			p = &l->pieces.data[l->pieces.len - 1];
		}
		p->size += (uint64_t)n;
		l->at += (uint64_t)n;
		at += (uint64_t)n;
	}
	return at >= end;
}

/** Whole pages: what lies beside it may matter, too. */
static void light_add(struct light *l, uint64_t address, uint64_t size)
{
	uint64_t at = address / CORE_PAGE * CORE_PAGE;
	if (!l->o->read || !address || !size || size > INT64_MAX - CORE_PAGE || address > INT64_MAX - CORE_PAGE - size)
		return;
	const uint64_t end = (address + size + CORE_PAGE - 1) / CORE_PAGE * CORE_PAGE;
	for (bool good = !(l->lacks & LIGHT_ROOM); good && at < end;) {
		const uint64_t until = gap_at(l, &at, end);
		good = at >= end || copy(l, at, until);
		at = until;
	}
}

/** What the list of code objects is read from is kept. */
static bool get_kept(void *ctx, uint64_t address, void *to, size_t size)
{
	const bool good = get(ctx, address, to, size);
	if (good)
		light_add(ctx, address, size);
	return good;
}

static void nothing_odd(void *ctx, const char *message)
{
	(void)ctx;
	(void)message; // whoever reads the core says it
}

// --- code ---

/** A code object of a file, as it is loaded: the file may be another one by the time that somebody looks. */
static void image_add(struct light *l, uint64_t base)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	uint64_t end = 0;
	if (!get(l, base, &e, sizeof(e))) {
		l->lacks |= LIGHT_CODE;
		return;
	}
	if (!memcmp(e.e_ident, ELFMAG, SELFMAG) && e.e_phentsize == sizeof(p) && e.e_phoff < IMAGE_MOST)
		for (unsigned i = 0; i < e.e_phnum && i < SEGMENTS_MOST; i++)
			if (get(l, base + e.e_phoff + i * sizeof(p), &p, sizeof(p)) && p.p_type == PT_LOAD &&
			    p.p_vaddr < IMAGE_MOST && p.p_memsz < IMAGE_MOST && p.p_vaddr + p.p_memsz > end)
				end = p.p_vaddr + p.p_memsz;
	l->reads_code = true;
	light_add(l, base, end);
	l->reads_code = false;
}

/** false: it is not the memory of a process that its URI names. */
static bool uri_add(struct light *l, const struct loaded_code *c)
{
	struct code_uri u;
	const bool memory = code_uri_parse(&l->arena, c->uri, &u) && u.memory;
	if (memory && u.size < IMAGE_MOST)
		light_add(l, u.offset, u.size);
	return memory;
}

/** The code object that a kernel is in: the one that begins last before it. */
static void code_of(struct light *l, uint64_t kernel)
{
	enum { ENTRY = 16, AROUND = 16 << 10 }; // ENTRY: in a kernel's descriptor, where its code begins from there
	const size_t upto = sorted_upto(l->list.code.data, l->list.code.len, base, kernel);
	char entry[8];
	if (!upto && get(l, kernel + ENTRY, entry, sizeof(entry))) {
		light_add(l, kernel, AQL_PACKET);
		light_add(l, kernel + get_u64(entry), AROUND);
	}
	if (upto && !uri_add(l, &l->list.code.data[upto - 1]))
		image_add(l, l->list.code.data[upto - 1].base);
}

// --- queues ---

/** Of the area that waves are saved to only what is used: the whole may have hundreds of megabytes. */
static void waves_add(struct light *l, const struct queue *q)
{
	const struct save_area area = { .queue = q, .read = get, .ctx = l };
	const unsigned xccs = q->agent && q->agent->xccs ? q->agent->xccs : 1;
	for (unsigned i = 0; q->save_area && i < xccs && i < XCCS_MOST && !late(l); i++) {
		const uint64_t base = q->save_area + (uint64_t)i * q->save_area_size;
		uint64_t at, size;
		light_add(l, base, SIGNAL);
		if (save_area_used(&area, i, &at, &size))
			light_add(l, at, size);
	}
}

static uint64_t arguments_of(struct light *l, uint64_t kernel_object)
{
	enum { KERNARG_SIZE = 8 }; // in a kernel's descriptor
	char size[4];
	const uint32_t n = get(l, kernel_object + KERNARG_SIZE, size, sizeof(size)) ? get_u32(size) : 0;
	return n && n <= ARGUMENTS_MOST ? n : ARGUMENTS_UNKNOWN;
}

/** What a packet in flight points to. */
static void packet_add(struct light *l, const char *p)
{
	const unsigned type = (unsigned char)p[0];
	if (type == AQL_BARRIER_AND || type == AQL_BARRIER_OR || type == AQL_AGENT) {
		for (unsigned i = 1; i <= 5; i++)
			light_add(l, get_u64(p + 8 * i), SIGNAL);
	} else if (type == AQL_DISPATCH || type == AQL_INVALID) {
		light_add(l, get_u64(p + 40), arguments_of(l, get_u64(p + 32)));
		light_add(l, get_u64(p + 56), SIGNAL);
		code_of(l, get_u64(p + 32));
	}
}

static void queue_add(struct light *l, const struct queue *q)
{
	char r[8], w[8], p[AQL_PACKET];
	const uint64_t ring = q->ring_size < RING_MOST ? q->ring_size : RING_MOST;
	const uint64_t slots = q->type == QUEUE_AQL ? ring / AQL_PACKET : 0;
	light_add(l, q->ring, ring);
	light_add(l, q->read_address, sizeof(r));
	light_add(l, q->write_address, sizeof(w));
	if (!slots || !get(l, q->read_address, r, sizeof(r)) || !get(l, q->write_address, w, sizeof(w)))
		return;
	const uint64_t read = get_u64(r), ahead = get_u64(w) - read, write = read + (ahead > slots ? slots : ahead);
	for (uint64_t id = read > BACK ? read - BACK : 0; id < write && !late(l); id++)
		if (get(l, q->ring + id % slots * AQL_PACKET, p, sizeof(p)))
			packet_add(l, p);
}

static void list_take(struct light *l, bool (*read)(void *ctx, uint64_t address, void *to, size_t size))
{
	l->list.code.len = 0;
	l->list.read = read;
	runtime_list_read(&l->list);
}

void light_process_try(struct light *l)
{
	char byte;
	l->list = (struct runtime_list){ .odd = nothing_odd, .ctx = l, .arena = &l->arena, .r_debug = l->note.r_debug };
	if (!l->o->read) {
		l->lacks |= l->lacks & (LIGHT_GONE | LIGHT_OTHER) ? 0 : LIGHT_MEMORY;
		return;
	}
	const ssize_t n = l->note.r_debug ? read_some(l, l->note.r_debug, &byte, 1) : 1;
	if (n <= 0) {
		l->lacks |= n ? LIGHT_HOLE : LIGHT_GONE; // the kernel reads nothing of one that has ended
		return;
	}
	list_take(l, get);
	for (size_t i = 0; i < l->list.code.len; i++)
		if (l->list.code.data[i].base && !get(l, l->list.code.data[i].base, &byte, 1))
			l->lacks |= LIGHT_CODE;
}

/** Waves first: they are gone when their queue is saved the next time. */
void light_process_add(struct light *l)
{
	for (size_t i = 0; i < l->note.nqueues; i++)
		waves_add(l, &l->note.queues[i]);
	list_take(l, get_kept);
	for (size_t i = 0; i < l->note.nqueues; i++)
		queue_add(l, &l->note.queues[i]);
	for (size_t i = 0; i < l->list.code.len; i++)
		uri_add(l, &l->list.code.data[i]);
}
