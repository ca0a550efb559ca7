// ELF cores as memory, and the note in them that describes GPUs and queues. Every length in a core is a stranger's: it is held against what
// the file has before anything is read, and an error names the structure, its place and what is wrong with it.
#include "gpu/core/core.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "gpu/core/light.h"
#include "gpu/find/device.h"
#include "recorder/fault/core_form.h"

enum {
	SEGMENTS_MAX = 1 << 20,
	NOTES_BYTES = 64 << 20, // of one note segment
	PROBLEMS = 16,
};

bool core_begins(struct str head)
{
	return head.n >= sizeof(Elf64_Ehdr) && !memcmp(head.p, ELFMAG, SELFMAG) && head.p[EI_CLASS] == ELFCLASS64 &&
	       head.p[EI_DATA] == ELFDATA2LSB && get_u16(head.p + offsetof(Elf64_Ehdr, e_type)) == ET_CORE;
}

void core_problem(struct core *c, const char *format, ...)
{
	_cleanup_text_ struct text line = { 0 };
	size_t lines = 0;
	va_list ap;
	va_start(ap, format);
	text_vprintf(&line, format, ap);
	va_end(ap);
	text_add(&line, S("\n"));
	for (size_t i = 0; i < c->problems.n; i++)
		lines += c->problems.p[i] == '\n';
	if (lines < PROBLEMS && str_find(text_str(&c->problems), text_str(&line)) < 0)
		text_add(&c->problems, text_str(&line));
}

// --- notes ---

/** NT_FILE: count, page size, count times { begin, end, offset in pages }, count names. */
static void read_mappings(struct core *c, struct str desc)
{
	if (desc.n < 16)
		return;
	uint64_t count = get_u64(desc.p), page = get_u64(desc.p + 8);
	if (count > (desc.n - 16) / 24)
		return;
	struct str names = str_from(desc, 16 + 24 * (size_t)count);
	for (uint64_t i = 0; i < count && names.n; i++) {
		const char *p = desc.p + 16 + 24 * i;
		struct str name = str_split(&names, '\0');
		vec_push(&c->mappings, ((struct core_mapping){ get_u64(p), get_u64(p + 8), get_u64(p + 16) * page,
							       arena_str(&c->arena, name) }));
	}
}

/** What unhang core could not put into the core that it wrote. */
static void read_lacks(struct core *c, uint32_t lacks)
{
	static const char *const says[] = {
		"unhang core was not allowed to read the memory of the process, so that waves and code objects are missing. "
		"The kernel's Yama module forbids it where kernel.yama.ptrace_scope is not 0; a container may forbid it, too",
		"there was no room for all of the core: it reached the limit of unhang core, or its share of the disk",
		"reading the memory of the process took too long; some of it is missing",
		"the stream of the core ended early: the process was killed while it was written",
		"some of the code that ran on the GPU could not be read from the process",
		"the process had ended before unhang core could read its memory, so that waves and code objects are missing",
		"the process is not the one that waits for unhang core, or is another user's, so that waves and code objects "
		"are missing",
		"the core names an address for the runtime's list of code objects that its process does not have, so that code "
		"objects are "
		"missing",
	};
	for (size_t i = 0; i < ARRAY_SIZE(says); i++)
		if (lacks >> i & 1)
			core_problem(c, "%s", says[i]);
}

static void read_note(struct core *c, struct core_file *f, struct str name, uint32_t type, struct str desc, uint64_t at)
{
	enum { PRSTATUS_PID = 32 };
	if (str_is(name, "AMDGPU") && type == CORE_NOTE_GPUS) {
		if (c->gpu_note.p)
			core_problem(c, STR_FMT ": a second note about GPUs at 0x%llx is not read", STR_ARG(f->file.name),
				     (unsigned long long)at);
		else
			c->gpu_note = arena_str(&c->arena, desc), c->gpu_note_at = at;
	} else if (str_is(name, "CORE") && type == NT_PRSTATUS && desc.n >= PRSTATUS_PID + 4 && !f->pid) {
		f->pid = get_u32(desc.p + PRSTATUS_PID);
	} else if (str_is(name, "CORE") && type == NT_PRPSINFO && desc.n >= CORE_INFO_NAME + 16) {
		struct str program = str_cut(str_from(desc, CORE_INFO_NAME), 16);
		f->pid = get_u32(desc.p + CORE_INFO_PID);
		f->program = arena_str(&c->arena, str_split(&program, '\0'));
	} else if (str_is(name, LIGHT_NOTE) && type == LIGHT_NOTE_TYPE && desc.n >= 4) {
		read_lacks(c, get_u32(desc.p));
	} else if (str_is(name, "CORE") && type == NT_FILE) {
		read_mappings(c, desc);
	}
}

static struct uh_error *read_notes(struct core *c, struct core_file *f, uint64_t offset, uint64_t size)
{
	const struct file *file = &f->file;
	_cleanup_free_ char *bytes = NULL;
	// Several segments of notes may name the same bytes; together they cannot have more than the file.
	if (size > NOTES_BYTES || size > file->size - f->note_bytes)
		return uh_error_new(STR_FMT ": note segment at 0x%llx: its %llu bytes are more than %s", STR_ARG(file->name),
				    (unsigned long long)offset, (unsigned long long)size,
				    size > NOTES_BYTES ? "any core has" : "the file has left");
	f->note_bytes += size;
	bytes = mem_alloc((size_t)size + 1);
	if (!file_read(file, offset, bytes, (size_t)size))
		return uh_error_new(STR_FMT ": note segment at 0x%llx: its %llu bytes lie outside the file (%llu bytes)",
				    STR_ARG(file->name), (unsigned long long)offset, (unsigned long long)size,
				    (unsigned long long)file->size);
	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
		uint64_t namesz = get_u32(bytes + at), descsz = get_u32(bytes + at + 4);
		uint64_t name = at + sizeof(Elf64_Nhdr), desc = name + ((namesz + 3) & ~3ull);
		if (desc > size || descsz > size - desc)
			return uh_error_new(STR_FMT ": note at 0x%llx: its name (%llu) and content (%llu bytes) reach beyond "
						    "the note segment's end at 0x%llx",
					    STR_ARG(file->name), (unsigned long long)(offset + at), (unsigned long long)namesz,
					    (unsigned long long)descsz, (unsigned long long)(offset + size));
		struct str text = { bytes + name, (size_t)namesz };
		read_note(c, f, str_split(&text, '\0'), get_u32(bytes + at + 8), (struct str){ bytes + desc, (size_t)descsz },
			  offset + desc);
		at = desc + ((descsz + 3) & ~3ull);
	}
	return NULL;
}

// --- segments ---

/** The number of program headers; more than 65,534 stand in the first section header. */
static struct uh_error *count_segments(const struct file *f, const Elf64_Ehdr *e, uint64_t *ret)
{
	Elf64_Shdr first;
	*ret = e->e_phnum;
	if (e->e_phnum == PN_XNUM) {
		if (!file_read(f, e->e_shoff, &first, sizeof(first)))
			return uh_error_new(STR_FMT ": first section header at 0x%llx: lies outside the file (%llu bytes)",
					    STR_ARG(f->name), (unsigned long long)e->e_shoff, (unsigned long long)f->size);
		*ret = first.sh_info;
	}
	if (!*ret)
		return uh_error_new(STR_FMT ": ELF header at 0x0: it has no program headers, so there is no memory in it",
				    STR_ARG(f->name));
	if (e->e_phentsize != sizeof(Elf64_Phdr) || *ret > SEGMENTS_MAX)
		return uh_error_new(STR_FMT ": ELF header at 0x0: %llu program headers of %u bytes", STR_ARG(f->name),
				    (unsigned long long)*ret, e->e_phentsize);
	return NULL;
}

static void add_segment(struct core *c, struct core_file *f, const Elf64_Phdr *p)
{
	if (!p->p_memsz && !p->p_filesz)
		return;
	struct core_segment s = { .address = p->p_vaddr,
				  .size = p->p_memsz > p->p_filesz ? p->p_memsz : p->p_filesz,
				  .kept = p->p_filesz,
				  .offset = p->p_offset,
				  .file = (unsigned)c->nfiles };
	if (s.size > UINT64_MAX - s.address)
		s.size = UINT64_MAX - s.address;
	if (s.kept > s.size)
		s.kept = s.size;
	if (s.kept && s.offset <= UINT64_MAX - s.kept && s.offset + s.kept > f->end)
		f->end = s.offset + s.kept;
	if (s.kept && !f->segments++)
		f->loads_at = s.offset;
	vec_push(&c->segments, s);
}

struct uh_error *core_add(struct core *c, const struct file *file)
{
	Elf64_Ehdr e;
	if (c->nfiles == CORE_FILES)
		return uh_error_new(STR_FMT ": more than %d cores at once", STR_ARG(file->name), CORE_FILES);
	if (!file_read(file, 0, &e, sizeof(e)) || !core_begins((struct str){ (char *)&e, sizeof(e) }))
		return uh_error_new(STR_FMT ": ELF header at 0x0: this is no core (64 bits, little-endian)",
				    STR_ARG(file->name));
	uint64_t n;
	struct uh_error *err = count_segments(file, &e, &n);
	if (err)
		return err;
	if (e.e_phoff > file->size || n * sizeof(Elf64_Phdr) > file->size - e.e_phoff)
		return uh_error_new(STR_FMT
				    ": program headers at 0x%llx: %llu of them reach beyond the end of the file (%llu bytes)",
				    STR_ARG(file->name), (unsigned long long)e.e_phoff, (unsigned long long)n,
				    (unsigned long long)file->size);
	struct core_file *f = &c->files[c->nfiles];
	*f = (struct core_file){ .file = *file, .of_gpu = e.e_machine == CORE_MACHINE };
	f->file.name = arena_str(&c->arena, file->name);
	_cleanup_free_ Elf64_Phdr *headers = mem_alloc((size_t)n * sizeof(*headers));
	if (!file_read(file, e.e_phoff, headers, (size_t)n * sizeof(*headers)))
		return uh_error_new(STR_FMT ": program headers at 0x%llx could not be read", STR_ARG(file->name),
				    (unsigned long long)e.e_phoff);
	for (uint64_t i = 0; i < n && !err; i++) {
		if (headers[i].p_type == PT_LOAD) {
			add_segment(c, f, &headers[i]);
		} else if (headers[i].p_type == PT_NOTE) {
			if (!f->notes_end)
				f->notes_end = headers[i].p_offset + headers[i].p_filesz;
			err = read_notes(c, f, headers[i].p_offset, headers[i].p_filesz);
		}
	}
	if (err)
		return err;
	if (f->end > f->file.size && f->end - f->file.size >= 16)
		core_problem(c, STR_FMT ": cut off: it has %llu of %llu bytes; what lay behind is missing", STR_ARG(file->name),
			     (unsigned long long)file->size, (unsigned long long)f->end);
	c->nfiles++;
	return NULL;
}

bool core_join(struct core *to, struct core *from)
{
	if (from->nfiles > CORE_FILES - to->nfiles)
		return false;
	for (size_t i = 0; i < from->segments.len; i++) {
		struct core_segment s = from->segments.data[i];
		s.file += (unsigned)to->nfiles;
		vec_push(&to->segments, s);
	}
	for (size_t i = 0; i < from->mappings.len; i++) {
		struct core_mapping m = from->mappings.data[i];
		m.path = arena_str(&to->arena, m.path);
		vec_push(&to->mappings, m);
	}
	for (size_t i = 0; i < from->nfiles; i++) {
		struct core_file *f = &to->files[to->nfiles++];
		*f = from->files[i];
		f->file.name = arena_str(&to->arena, f->file.name);
		f->program = arena_str(&to->arena, f->program);
	}
	if (!to->gpu_note.p && from->gpu_note.p) {
		to->gpu_note = arena_str(&to->arena, from->gpu_note);
		to->gpu_note_at = from->gpu_note_at;
	}
	str_each (line, text_str(&from->problems), '\n')
		core_problem(to, STR_FMT, STR_ARG(line));
	core_free(from);
	return true;
}

static int core_compare_segments(const void *a, const void *b)
{
	const struct core_segment *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->kept != y->kept)
		return x->kept > y->kept ? -1 : 1;
	return x->file < y->file ? -1 : x->file > y->file;
}

static int compare_mappings(const void *a, const void *b)
{
	const struct core_mapping *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void core_ready(struct core *c)
{
	if (c->segments.len)
		qsort(c->segments.data, c->segments.len, sizeof(c->segments.data[0]), core_compare_segments);
	if (c->mappings.len)
		qsort(c->mappings.data, c->mappings.len, sizeof(c->mappings.data[0]), compare_mappings);
}

void core_free(struct core *c)
{
	vec_free(&c->segments);
	vec_free(&c->mappings);
	text_free(&c->problems);
	arena_free(&c->arena);
	c->nfiles = 0;
}

void core_close(struct core *c)
{
	for (size_t i = 0; i < c->nfiles; i++)
		file_close(&c->files[i].file);
	core_free(c);
}

// --- memory ---

enum { LOOK_BACK = 16 }; // segments of several files may overlap

const struct core_segment *core_segment_at(const struct core *c, uint64_t address)
{
	const struct core_segment *host = NULL, *without = NULL;
	const size_t upto = sorted_upto(c->segments.data, c->segments.len, address, address);
	for (size_t i = upto; i-- && upto - i <= LOOK_BACK;) {
		const struct core_segment *s = &c->segments.data[i];
		bool kept = address - s->address < s->kept;
		// The kernel may have written zeros in place of the GPU's memory into the process's core.
		if (kept && c->files[s->file].of_gpu)
			return s;
		if (kept)
			host = host ? host : s;
		else if (address - s->address < s->size)
			without = s;
	}
	return host ? host : without;
}

const struct core_mapping *core_mapping_at(const struct core *c, uint64_t address)
{
	const size_t upto = sorted_upto(c->mappings.data, c->mappings.len, begin, address);
	return upto && address < c->mappings.data[upto - 1].end ? &c->mappings.data[upto - 1] : NULL;
}

bool core_read(const struct core *c, uint64_t address, void *to, size_t size)
{
	while (size) {
		const struct core_segment *s = core_segment_at(c, address);
		uint64_t inside = s ? address - s->address : 0;
		if (!s || inside >= s->kept)
			return false;
		const struct core_file *f = &c->files[s->file];
		size_t n = s->kept - inside < size ? (size_t)(s->kept - inside) : size;
		if (s->offset + inside < f->shift || !file_read(&f->file, s->offset + inside - f->shift, to, n))
			return false;
		to = (char *)to + n;
		address += n;
		size -= n;
	}
	return true;
}

// The note that describes GPUs and queues in a core: NT_AMDGPU_CORE_STATE, in the words of the driver's debugger interface
// (kfd_ioctl.h: kfd_runtime_info, kfd_dbg_device_info_entry, kfd_queue_snapshot_entry).

enum {
	HEADER = 40,
	RUNTIME = 16,
	AGENT_LEAST = 112,
	QUEUE_LEAST = 60,
	AGENTS_MAX = 1024,
	QUEUES_MAX = 65536,
	QUEUE_ERROR = 1u << 30, // in a queue's id
	QUEUE_INVALID = 1u << 31,
};

static void read_agent(struct arena *a, const char *p, size_t size, struct agent *g)
{
	g->exceptions = get_u64(p);
	g->lds_base = get_u64(p + 8);
	g->scratch_base = get_u64(p + 24);
	const char *w = p + 56;
	g->gpu_id = get_u32(w);
	g->location = get_u32(w + 4);
	g->vendor = get_u32(w + 8);
	g->device = get_u32(w + 12);
	g->revision = get_u32(w + 16);
	g->firmware = get_u32(w + 28);
	g->target_version = get_u32(w + 32);
	g->simds = get_u32(w + 36);
	g->waves_per_simd = get_u32(w + 40);
	g->xccs = get_u32(w + 52);
	g->debug_properties = size >= 120 ? get_u32(w + 60) : 0;
	g->gfx = gfx_of_target(a, g->target_version);
}

static void read_queue(struct arena *a, const struct core_note *n, const char *p, struct queue *q)
{
	uint32_t flags = get_u32(p + 40);
	q->exceptions = get_u64(p);
	q->ring = get_u64(p + 8);
	q->write_address = get_u64(p + 16);
	q->read_address = get_u64(p + 24);
	q->save_area = get_u64(p + 32);
	q->id = flags & ~(QUEUE_INVALID | QUEUE_ERROR);
	uint32_t gpu_id = get_u32(p + 44);
	q->ring_size = get_u32(p + 48);
	q->type = get_u32(p + 52);
	q->save_area_size = get_u32(p + 56);
	q->agent = list_find(n->agents, n->nagents, it, it->gpu_id == gpu_id);
	if (flags & QUEUE_INVALID)
		q->problem = arena_printf(a, "queue %u was no queue of the process any more", q->id);
	else if (flags & QUEUE_ERROR)
		q->problem = arena_printf(a, "queue %u could not be suspended; what is saved of its waves may be old", q->id);
}

/** Entries of one kind in the note, as its header tells, and what may be. */
struct note_part {
	const char *what;
	uint64_t n, most, size, least;
};

/** The entries at *@at, which moves behind them. @file_at: where the note is. */
static struct uh_error *note_entries(struct str desc, uint64_t file_at, const struct note_part *p, uint64_t *at,
				     const char **ret)
{
	const unsigned long long n = p->n, size = p->size, place = file_at + *at;
	if (n && (size < p->least || size > 65536))
		return uh_error_new("GPU note, %s at 0x%llx: entries of %llu bytes; at least %llu are needed", p->what, place,
				    size, (unsigned long long)p->least);
	if (n > p->most)
		return uh_error_new("GPU note, %s at 0x%llx: %llu of them; at most %llu are read", p->what, place, n,
				    (unsigned long long)p->most);
	if (n * size > desc.n - *at)
		return uh_error_new("GPU note, %s at 0x%llx: %llu entries of %llu bytes reach beyond the note's end at 0x%llx",
				    p->what, place, n, size, (unsigned long long)(file_at + desc.n));
	*ret = desc.p + *at;
	uint64_t end = (*at + n * size + 7) & ~7ull;
	*at = end < desc.n ? end : desc.n;
	return NULL;
}

struct uh_error *core_note_parse(struct arena *a, struct str desc, uint64_t at, struct core_note *ret)
{
	const char *runtime = NULL, *agents = NULL, *queues = NULL;
	*ret = (struct core_note){ 0 };
	if (desc.n < HEADER)
		return uh_error_new("GPU note at 0x%llx: %zu bytes; its header has %d", (unsigned long long)at, desc.n, HEADER);
	ret->version = get_u64(desc.p);
	ret->kfd_major = get_u32(desc.p + 8);
	ret->kfd_minor = get_u32(desc.p + 12);
	if (ret->version != 1)
		return uh_error_new("GPU note at 0x%llx: version %llu; only version 1 is known", (unsigned long long)at,
				    (unsigned long long)ret->version);
	uint64_t runtime_size = get_u64(desc.p + 16);
	uint32_t nagents = get_u32(desc.p + 24), agent_size = get_u32(desc.p + 28);
	uint32_t nqueues = get_u32(desc.p + 32), queue_size = get_u32(desc.p + 36);
	uint64_t offset = HEADER;
	const struct note_part parts[] = { { "runtime", 1, 1, runtime_size, RUNTIME },
					   { "GPUs", nagents, AGENTS_MAX, agent_size, AGENT_LEAST },
					   { "queues", nqueues, QUEUES_MAX, queue_size, QUEUE_LEAST } };
	const char **const places[] = { &runtime, &agents, &queues };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct uh_error *err = note_entries(desc, at, &parts[i], &offset, places[i]);
		if (err)
			return err;
	}
	ret->r_debug = get_u64(runtime);
	ret->runtime_state = get_u32(runtime + 8);
	ret->ttmps_set_up = get_u32(runtime + 12);
	ret->nagents = nagents;
	ret->agents = arena_alloc(a, nagents * sizeof(*ret->agents) + 1);
	for (uint32_t i = 0; i < nagents; i++)
		read_agent(a, agents + (size_t)i * agent_size, agent_size, &ret->agents[i]);
	ret->nqueues = nqueues;
	ret->queues = arena_alloc(a, nqueues * sizeof(*ret->queues) + 1);
	for (uint32_t i = 0; i < nqueues; i++)
		read_queue(a, ret, queues + (size_t)i * queue_size, &ret->queues[i]);
	return NULL;
}
