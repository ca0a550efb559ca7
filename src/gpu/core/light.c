// The stream has its headers first, then the note about GPUs and queues, then memory, segment by segment. Nothing of it can be read twice, so
// what is wanted is decided when the headers are there. ROCr leaves the areas out to which waves are saved, and the runtime's list of code
// objects: both are the process's own memory.
#include "gpu/core/light.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "gpu/core/light_parts.h"

enum {
	PARTS_MOST = 16384,
	HEAD_MOST = 64 << 20,
	NOTES_ROOM = 4096, // beside the note about GPUs
	SMALL = 1 << 20,   // segments of the stream that are kept where the process cannot be read
	GAP_MOST = 16,
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

bool light_room(struct light *l, size_t bytes)
{
	const bool room = !l->o->room || l->o->room(l->o->ctx, bytes);
	l->lacks |= room ? 0 : LIGHT_ROOM;
	return room;
}

bool light_write(struct light *l, struct str bytes, uint64_t at)
{
	size_t done = 0;
	ssize_t n = 1;
	while (done < bytes.n && n > 0)
		if ((n = pwrite(l->o->fd, bytes.p + done, bytes.n - done, (off_t)(at + done))) > 0)
			done += (size_t)n;
	return done == bytes.n;
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
	if (!core_begins(have) || e.e_machine != CORE_MACHINE || e.e_phentsize != sizeof(p) || e.e_phoff > HEAD_MOST)
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
	const uint64_t head = sizeof(Elf64_Ehdr) + (LIGHT_PIECES_MOST + PARTS_MOST + 1) * sizeof(Elf64_Phdr) + NOTES_ROOM +
			      l->core.gpu_note.n;
	l->begins = l->at = (head + CORE_PAGE - 1) / CORE_PAGE * CORE_PAGE;
	l->most = l->begins + l->o->most;
	l->deadline = now_ms() + l->o->milliseconds;
	light_process_try(l);
	const bool unread = l->lacks & (LIGHT_MEMORY | LIGHT_GONE | LIGHT_OTHER);
	l->wants = l->o->all || unread || l->lacks & (LIGHT_CODE | LIGHT_HOLE);
	if (!l->wants && l->o->enough)
		l->o->enough(l->o->ctx);
	if (!unread)
		light_process_add(l);
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
	l->wants = light_room(l, (size_t)(to - from));
	return !l->wants ||
	       light_write(l, str_cut(str_from(bytes, (size_t)(from - at)), (size_t)(to - from)), p->to + (from - begin));
}

static struct uh_error *light_pass(struct light *l, struct str bytes)
{
	struct uh_error *err = NULL;
	while (l->from < l->parts.len &&
	       (!l->parts.data[l->from].to || l->parts.data[l->from].begin + l->parts.data[l->from].kept <= l->passed))
		l->from++;
	for (size_t i = l->from; i < l->parts.len && !err && l->wants && l->parts.data[i].begin - l->gap < l->passed + bytes.n;
	     i++)
		if (!light_keep(l, &l->parts.data[i], bytes))
			err = uh_error_os(errno, "the core cannot be written");
	l->passed += l->wants ? bytes.n : 0;
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
	return err || !bytes.n || !l->wants ? err : light_pass(l, bytes);
}

// --- the end ---

/** Who it was, as the kernel notes it in cores of processes; what it lacks; and what the stream says of GPUs and queues. */
static struct str light_notes(struct light *l)
{
	char *notes = arena_alloc(&l->arena, NOTES_ROOM + l->core.gpu_note.n), *p = notes;
	p = core_note_begin(p, "CORE", NT_PRPSINFO, CORE_INFO_SIZE);
	memcpy(p + CORE_INFO_PID, &(uint32_t){ (uint32_t)l->o->pid }, 4);
	str_copy(p + CORE_INFO_NAME, CORE_INFO_ARGUMENTS - CORE_INFO_NAME, l->o->program);
	str_copy(p + CORE_INFO_ARGUMENTS, CORE_INFO_SIZE - CORE_INFO_ARGUMENTS, l->o->command);
	p = core_note_begin(p + CORE_INFO_SIZE, LIGHT_NOTE, LIGHT_NOTE_TYPE, sizeof(l->lacks));
	memcpy(p, &l->lacks, sizeof(l->lacks));
	p = core_note_begin(p + sizeof(l->lacks), "AMDGPU", CORE_NOTE_GPUS, (uint32_t)l->core.gpu_note.n);
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
	const Elf64_Phdr p = core_load_head(address, offset, kept, size);
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
		if (l->wants && l->parts.data[i].to && part_came(l, &l->parts.data[i], shift) < l->parts.data[i].kept)
			l->lacks |= LIGHT_STREAM;
	const struct str notes = light_notes(l);
	const uint64_t n = l->pieces.len + l->parts.len + 1, notes_at = sizeof(Elf64_Ehdr) + n * sizeof(Elf64_Phdr);
	const Elf64_Ehdr e = core_file_head(n);
	const Elf64_Phdr note = core_notes_head(notes_at, notes.n);
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
