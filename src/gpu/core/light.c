// The stream has its headers first, then the note about GPUs and queues, then memory, segment by segment. Nothing of it can be read twice, so
// what is wanted is decided when the headers are there. ROCr leaves the areas out to which waves are saved, and the runtime's list of code
// objects: both are the process's own memory.
#include "gpu/core/light.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "code/names.h"
#include "gpu/core/core.h"
#include "gpu/process/memory.h"

enum {
	PAGE = 4096,
	PIECES_MOST = 4096,
	PARTS_MOST = 16384,
	HEAD_MOST = 64 << 20,
	ROOM = 64 << 10,
	NOTES_ROOM = 4096, // beside the note about GPUs
	BACK = 64,         // packets before the read index: some of them may still run
	XCCS_MOST = 64,
	SEGMENTS_MOST = 64,
	IMAGE_MOST = 64 << 20,
	ARGUMENTS_MOST = 64 << 10,
	ARGUMENTS_UNKNOWN = 256,
	SIGNAL = 64,
	SMALL = 1 << 20, // segments of the stream that are kept where the process cannot be read
	GAP_MOST = 16,
	NOTE_GPUS = 33, // NT_AMDGPU_CORE_STATE
	MACHINE_AMDGPU = 224,
	OSABI_AMDGPU = 64,
	INFO_PID = 24, // in the kernel's elf_prpsinfo
	INFO_NAME = 40,
	INFO_ARGUMENTS = 56,
	INFO_SIZE = 136,
};

/** Memory that is in the file. */
struct light_piece {
	uint64_t address, size, offset;
};

/** A segment of the stream. */
struct light_part {
	uint64_t address, size, kept;
	uint64_t begin; // in the stream, as its header has it
	uint64_t to;    // in the file: where the bytes go that lie @gap before its begin; 0: it is not wanted
};

struct light {
	const struct light_options *o;
	struct text head;
	struct arena arena;
	struct core core; // the headers, parsed
	struct core_note note;
	struct runtime_list list;
	VEC(struct light_piece) pieces;
	VEC(struct light_part) parts; // in the order in which they come
	size_t from;                  // the first part that may still come
	unsigned gap;                 // between the notes and the first segment, by the headers
	uint64_t passed;              // bytes of the stream
	uint64_t begins, at, most;    // in the file: where memory begins, its end, its limit
	uint32_t lacks;
	bool whole, wants, reads_code; // whole: the head is complete; wants: more of the stream
	char room[ROOM];
};

struct light *light_new(const struct light_options *o)
{
	struct light *l = mem_alloc(sizeof(*l));
	l->o = o;
	l->lacks = o->lacks;
	l->wants = true;
	return l;
}

void light_free(struct light *l)
{
	if (!l)
		return;
	core_free(&l->core);
	vec_free(&l->pieces);
	vec_free(&l->parts);
	vec_free(&l->list.code);
	text_free(&l->head);
	arena_free(&l->arena);
	free(l);
}

bool light_wants_more(const struct light *l) { return l->wants; }

static bool late(struct light *l)
{
	if (now_ms() >= l->o->deadline)
		l->lacks |= LIGHT_TIME;
	return l->lacks & LIGHT_TIME;
}

/** false: there is no room for so much. */
static bool light_write(struct light *l, struct str bytes, uint64_t at)
{
	size_t done = 0;
	ssize_t n = 1;
	while (done < bytes.n && n > 0)
		if ((n = pwrite(l->o->fd, bytes.p + done, bytes.n - done, (off_t)(at + done))) > 0)
			done += (size_t)n;
	return done == bytes.n;
}

// --- the memory of the process ---

static ssize_t read_some(const struct light *l, uint64_t at, void *to, size_t size)
{
	return l->o->read && at && at <= INT64_MAX - size ? l->o->read(l->o->ctx, at, to, size) : -1;
}

static bool get(void *ctx, uint64_t address, void *to, size_t size)
{
	return read_some(ctx, address, to, size) == (ssize_t)size;
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

/** Copies what can be read; a page that cannot ends the piece, and the next begins behind it. */
static void copy(struct light *l, uint64_t at, uint64_t end)
{
	struct light_piece *p = NULL;
	while (at < end && !late(l)) {
		const size_t wanted = end - at < ROOM ? (size_t)(end - at) : ROOM;
		const ssize_t n = read_some(l, at, l->room, wanted);
		if (n <= 0) {
			l->lacks |= l->reads_code ? LIGHT_CODE : 0;
			p = NULL;
			at = (at / PAGE + 1) * PAGE;
			continue;
		}
		if (l->at + (uint64_t)n > l->most || (!p && l->pieces.len == PIECES_MOST) ||
		    !light_write(l, (struct str){ l->room, (size_t)n }, l->at)) {
			l->lacks |= LIGHT_ROOM;
			return;
		}
		if (!p) {
			vec_push(&l->pieces, ((struct light_piece){ .address = at, .offset = l->at }));
			p = &l->pieces.data[l->pieces.len - 1];
		}
		p->size += (uint64_t)n;
		l->at += (uint64_t)n;
		at += (uint64_t)n;
	}
}

/** Whole pages: what lies beside it may matter, too. */
static void light_add(struct light *l, uint64_t address, uint64_t size)
{
	uint64_t at = address / PAGE * PAGE;
	if (!l->o->read || !address || !size || size > INT64_MAX - PAGE || address > INT64_MAX - PAGE - size)
		return;
	const uint64_t end = (address + size + PAGE - 1) / PAGE * PAGE;
	while (at < end && !late(l) && !(l->lacks & LIGHT_ROOM)) {
		const uint64_t until = gap_at(l, &at, end);
		if (at >= end)
			return;
		copy(l, at, until);
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
	const uint64_t slots = q->type == QUEUE_AQL ? q->ring_size / AQL_PACKET : 0;
	light_add(l, q->ring, q->ring_size);
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

/** Whether the process gives what is needed; if not, the stream has to. */
static void process_try(struct light *l)
{
	char byte;
	l->list = (struct runtime_list){ .odd = nothing_odd, .ctx = l, .arena = &l->arena, .r_debug = l->note.r_debug };
	if (!l->o->read || (l->note.r_debug && !get(l, l->note.r_debug, &byte, 1))) {
		l->lacks |= l->lacks & LIGHT_GONE ? 0 : LIGHT_MEMORY;
		return;
	}
	list_take(l, get);
	for (size_t i = 0; i < l->list.code.len; i++)
		if (l->list.code.data[i].base && !get(l, l->list.code.data[i].base, &byte, 1))
			l->lacks |= LIGHT_CODE;
}

/** Waves first: they are gone when their queue is saved the next time. */
static void process_add(struct light *l)
{
	for (size_t i = 0; i < l->note.nqueues; i++)
		waves_add(l, &l->note.queues[i]);
	list_take(l, get_kept);
	for (size_t i = 0; i < l->note.nqueues; i++)
		queue_add(l, &l->note.queues[i]);
	for (size_t i = 0; i < l->list.code.len; i++)
		uri_add(l, &l->list.code.data[i]);
}

// --- the head of the stream ---

/** How many bytes of it are needed to know more; 0: it can be none. */
static uint64_t head_needs(struct str have)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	if (have.n < sizeof(e))
		return sizeof(e);
	memcpy(&e, have.p, sizeof(e));
	uint64_t end = e.e_phoff + e.e_phnum * sizeof(p);
	if (!core_begins(have) || e.e_machine != MACHINE_AMDGPU || e.e_phentsize != sizeof(p) || e.e_phoff > HEAD_MOST)
		return 0;
	for (unsigned i = 0; i < e.e_phnum && have.n >= e.e_phoff + e.e_phnum * sizeof(p); i++) {
		memcpy(&p, have.p + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_NOTE && (p.p_offset > HEAD_MOST || p.p_filesz > HEAD_MOST))
			return 0;
		if (p.p_type == PT_NOTE && p.p_offset + p.p_filesz > end)
			end = p.p_offset + p.p_filesz;
	}
	return end;
}

static int compare_parts(const void *a, const void *b)
{
	const struct light_part *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/** Whether a part is kept: all are, or where the process did not give what is needed, those that are small or belong to a queue. */
static bool part_wanted(const struct light *l, const struct light_part *p)
{
	bool of_queue = false;
	if (!p->kept || l->o->all)
		return p->kept;
	for (size_t i = 0; i < l->note.nqueues && !of_queue; i++) {
		const struct queue *q = &l->note.queues[i];
		of_queue = q->ring - p->address < p->size || q->read_address - p->address < p->size ||
			   q->write_address - p->address < p->size;
	}
	return of_queue || p->kept <= SMALL;
}

static void parts_choose(struct light *l)
{
	for (size_t i = 0; i < l->parts.len && l->wants; i++) {
		struct light_part *p = &l->parts.data[i];
		if (!part_wanted(l, p))
			continue;
		if (p->kept > l->most || l->at > l->most - p->kept) {
			l->lacks |= LIGHT_ROOM;
			continue;
		}
		p->to = l->at;
		l->at += p->kept + l->gap;
	}
}

static struct uh_error *head_take(struct light *l)
{
	const struct file f = file_memory(S("the stream"), text_str(&l->head));
	struct uh_error *err = core_add(&l->core, &f);
	if (!err && !l->core.gpu_note.p)
		err = uh_error_new("the stream has no note about GPUs");
	if (!err)
		err = core_note_parse(&l->arena, l->core.gpu_note, l->core.gpu_note_at, &l->note);
	if (err)
		return err;
	const struct core_file *c = &l->core.files[0];
	if (c->loads_at > c->notes_end && c->loads_at - c->notes_end < GAP_MOST)
		l->gap = (unsigned)(c->loads_at - c->notes_end);
	for (size_t i = 0; i < l->core.segments.len && i < PARTS_MOST; i++) {
		const struct core_segment *s = &l->core.segments.data[i];
		vec_push(&l->parts, ((struct light_part){ s->address, s->size, s->kept, s->offset, 0 }));
	}
	if (l->parts.len)
		qsort(l->parts.data, l->parts.len, sizeof(*l->parts.data), compare_parts);
	const uint64_t head =
		sizeof(Elf64_Ehdr) + (PIECES_MOST + PARTS_MOST + 1) * sizeof(Elf64_Phdr) + NOTES_ROOM + l->core.gpu_note.n;
	l->begins = l->at = (head + PAGE - 1) / PAGE * PAGE;
	l->most = l->begins + l->o->most;
	process_try(l);
	const bool unread = l->lacks & (LIGHT_MEMORY | LIGHT_GONE);
	l->wants = l->o->all || unread || l->lacks & LIGHT_CODE;
	if (!l->wants && l->o->enough)
		l->o->enough(l->o->ctx);
	if (!unread)
		process_add(l);
	parts_choose(l);
	return NULL;
}

// --- the rest of the stream ---

/** Those bytes of @bytes, which have just passed, that belong to a part. */
static bool light_keep(struct light *l, const struct light_part *p, struct str bytes)
{
	const uint64_t begin = p->begin - l->gap, end = p->begin + p->kept, at = l->passed;
	const uint64_t from = begin > at ? begin : at, to = end < at + bytes.n ? end : at + bytes.n;
	if (!p->to || from >= to)
		return true;
	return light_write(l, str_cut(str_from(bytes, (size_t)(from - at)), (size_t)(to - from)), p->to + (from - begin));
}

static struct uh_error *light_pass(struct light *l, struct str bytes)
{
	struct uh_error *err = NULL;
	while (l->from < l->parts.len &&
	       (!l->parts.data[l->from].to || l->parts.data[l->from].begin + l->parts.data[l->from].kept <= l->passed))
		l->from++;
	for (size_t i = l->from; i < l->parts.len && !err && l->parts.data[i].begin - l->gap < l->passed + bytes.n; i++)
		if (!light_keep(l, &l->parts.data[i], bytes))
			err = uh_error_os(errno, "the core cannot be written");
	l->passed += bytes.n;
	return err;
}

struct uh_error *light_take(struct light *l, struct str bytes)
{
	struct uh_error *err = NULL;
	while (!l->whole && bytes.n && !err) {
		const uint64_t needs = head_needs(text_str(&l->head));
		if (!needs || needs > HEAD_MOST)
			return uh_error_new("the stream is no GPU core");
		const struct str more = str_cut(bytes, (size_t)(needs - l->head.n));
		text_add(&l->head, more);
		bytes = str_from(bytes, more.n);
		l->passed += more.n;
		l->whole = l->head.n >= head_needs(text_str(&l->head));
		if (l->whole)
			err = head_take(l);
	}
	return err || !bytes.n ? err : light_pass(l, bytes);
}

// --- the end ---

static char *light_note(char *at, const char *name, uint32_t type, uint32_t size)
{
	const uint32_t n = (uint32_t)strlen(name) + 1;
	memcpy(at, &(Elf64_Nhdr){ n, size, type }, sizeof(Elf64_Nhdr));
	memcpy(at + sizeof(Elf64_Nhdr), name, n);
	return at + sizeof(Elf64_Nhdr) + (n + 3) / 4 * 4;
}

/** Who it was, as the kernel notes it in cores of processes; what it lacks; and what the stream says of GPUs and queues. */
static struct str light_notes(struct light *l)
{
	char *notes = arena_alloc(&l->arena, NOTES_ROOM + l->core.gpu_note.n), *p = notes;
	p = light_note(p, "CORE", NT_PRPSINFO, INFO_SIZE);
	memcpy(p + INFO_PID, &(uint32_t){ (uint32_t)l->o->pid }, 4);
	str_copy(p + INFO_NAME, INFO_ARGUMENTS - INFO_NAME, l->o->program);
	str_copy(p + INFO_ARGUMENTS, INFO_SIZE - INFO_ARGUMENTS, l->o->command);
	p = light_note(p + INFO_SIZE, LIGHT_NOTE, LIGHT_NOTE_TYPE, sizeof(l->lacks));
	memcpy(p, &l->lacks, sizeof(l->lacks));
	p = light_note(p + sizeof(l->lacks), "AMDGPU", NOTE_GPUS, (uint32_t)l->core.gpu_note.n);
	memcpy(p, l->core.gpu_note.p, l->core.gpu_note.n);
	return (struct str){ notes, (size_t)(p - notes) + (l->core.gpu_note.n + 3) / 4 * 4 };
}

/** Where the bytes of a part begin: ROCr rounds the offsets in its headers up, and writes the segments right behind the notes. How long the
 * stream was tells which; of one that was cut, what stands where it would have left a gap. */
static unsigned light_shift(struct light *l)
{
	char gap[GAP_MOST];
	if (!l->gap || l->passed == l->core.files[0].end)
		return 0;
	if (l->passed + l->gap == l->core.files[0].end)
		return l->gap;
	const struct light_part *first = list_find(l->parts.data, l->parts.len, it, it->to);
	return first && pread(l->o->fd, gap, l->gap, (off_t)first->to) == (ssize_t)l->gap && !mem_zero(gap, l->gap) ? l->gap :
														      0;
}

/** What of a part has come. */
static uint64_t part_came(const struct light *l, const struct light_part *p, unsigned shift)
{
	const uint64_t begin = p->begin - shift;
	if (!p->to || l->passed <= begin)
		return 0;
	return l->passed - begin < p->kept ? l->passed - begin : p->kept;
}

static void header_add(struct text *t, uint64_t address, uint64_t offset, uint64_t kept, uint64_t size)
{
	const Elf64_Phdr p = { .p_type = PT_LOAD,
			       .p_flags = PF_R,
			       .p_offset = offset,
			       .p_vaddr = address,
			       .p_filesz = kept,
			       .p_memsz = size,
			       .p_align = PAGE };
	text_add(t, (struct str){ (const char *)&p, sizeof(p) });
}

/** Last: a file that was not finished does not begin as a core. */
struct uh_error *light_end(struct light *l)
{
	_cleanup_text_ struct text head = { 0 };
	if (!l->whole)
		return uh_error_new("the stream ended before its headers did");
	const unsigned shift = light_shift(l);
	for (size_t i = 0; i < l->parts.len; i++)
		if (l->parts.data[i].to && part_came(l, &l->parts.data[i], shift) < l->parts.data[i].kept)
			l->lacks |= LIGHT_STREAM;
	const struct str notes = light_notes(l);
	const uint64_t n = l->pieces.len + l->parts.len + 1, notes_at = sizeof(Elf64_Ehdr) + n * sizeof(Elf64_Phdr);
	const Elf64_Ehdr e = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT,
					    OSABI_AMDGPU },
			       .e_type = ET_CORE,
			       .e_machine = MACHINE_AMDGPU,
			       .e_version = EV_CURRENT,
			       .e_phoff = sizeof(e),
			       .e_ehsize = sizeof(e),
			       .e_phentsize = sizeof(Elf64_Phdr),
			       .e_phnum = (Elf64_Half)n };
	const Elf64_Phdr note = { .p_type = PT_NOTE, .p_offset = notes_at, .p_filesz = notes.n, .p_align = 4 };
	text_add(&head, (struct str){ (const char *)&note, sizeof(note) });
	for (size_t i = 0; i < l->pieces.len; i++)
		header_add(&head, l->pieces.data[i].address, l->pieces.data[i].offset, l->pieces.data[i].size,
			   l->pieces.data[i].size);
	for (size_t i = 0; i < l->parts.len; i++) {
		const struct light_part *p = &l->parts.data[i];
		header_add(&head, p->address, p->to + l->gap - shift, part_came(l, p, shift), p->size);
	}
	text_add(&head, notes);
	if (!light_write(l, text_str(&head), sizeof(e)) || !light_write(l, (struct str){ (const char *)&e, sizeof(e) }, 0))
		return uh_error_os(errno, "the core cannot be written");
	return NULL;
}
