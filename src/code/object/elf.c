#include "code/object/elf.h"

enum {
	HEADER_SIZE = sizeof(Elf64_Ehdr),
	SEGMENT_SIZE = sizeof(Elf64_Phdr),
	SECTION_SIZE = sizeof(Elf64_Shdr),
	NOTE_SIZE = sizeof(Elf64_Nhdr),
	NOTES_AGAIN = 4 // segments and sections are searched, for two notes
};

static struct uh_error *check_header(struct str b)
{
	if (b.n < 4 || memcmp(b.p,
			      "\x7f"
			      "ELF",
			      4) != 0)
		return uh_error_new("ELF header at 0x0: it does not begin with 0x7f ELF");
	if (b.n < HEADER_SIZE)
		return uh_error_new("ELF header at 0x0: its 64 bytes are cut off after %zu", b.n);
	if (b.p[4] != ELFCLASS64 || b.p[5] != ELFDATA2LSB)
		return uh_error_new("ELF header at 0x0: class %u and byte order %u at 0x4, not 64 bits and little-endian",
				    (unsigned char)b.p[4], (unsigned char)b.p[5]);
	if (b.p[6] != EV_CURRENT || get_u32(b.p + 20) != EV_CURRENT)
		return uh_error_new("ELF header at 0x0: version %u at 0x6 and %u at 0x14, not 1", (unsigned char)b.p[6],
				    get_u32(b.p + 20));
	if (get_u16(b.p + 18) != EM_AMDGPU)
		return uh_error_new("ELF header at 0x0: machine %u at 0x12, not 224 (AMDGPU)", get_u16(b.p + 18));
	unsigned type = get_u16(b.p + 16);
	if (type != ET_DYN && type != ET_EXEC)
		return uh_error_new("ELF header at 0x0: type %u at 0x10 is no linked object (2 or 3)", type);
	return NULL;
}

static struct uh_error *read_segments(struct arena *a, struct elf *e)
{
	uint64_t at = get_u64(e->bytes.p + 32);
	size_t n = get_u16(e->bytes.p + 56);
	unsigned each = get_u16(e->bytes.p + 54);
	if (!n)
		return uh_error_new("ELF header at 0x0: no program headers (0 at 0x38)");
	if (each != SEGMENT_SIZE)
		return uh_error_new("ELF header at 0x0: a program header of %u bytes at 0x36, not 56", each);
	if (at < HEADER_SIZE || !elf_inside(e, at, n * SEGMENT_SIZE))
		return uh_error_new(
			"program headers at 0x%jx: the bytes of %zu do not lie behind the ELF header in the file (%zu bytes)",
			(uintmax_t)at, n, e->bytes.n);
	struct elf_segment *s = arena_alloc(a, n * sizeof(*s));
	for (size_t i = 0; i < n; i++) {
		const char *p = e->bytes.p + at + i * SEGMENT_SIZE;
		s[i] = (struct elf_segment){
			.type = get_u32(p),
			.flags = get_u32(p + 4),
			.offset = get_u64(p + 8),
			.address = get_u64(p + 16),
			.file_size = get_u64(p + 32),
			.memory_size = get_u64(p + 40),
		};
	}
	e->segments = s;
	e->nsegments = n;
	return NULL;
}

/** Cuts @s down to what the file has of it. */
static void bound_segment(struct elf *e, size_t i, struct elf_segment *s)
{
	uint64_t size = s->file_size < s->memory_size ? s->file_size : s->memory_size;
	if (s->file_size > s->memory_size)
		code_problem(e->problems, "program header %zu: 0x%jx bytes in the file, but only 0x%jx in memory", i,
			     (uintmax_t)s->file_size, (uintmax_t)s->memory_size);
	if (!elf_inside(e, s->offset, size)) {
		code_problem(e->problems, "program header %zu: its bytes 0x%jx+0x%jx lie outside the file (%zu bytes)", i,
			     (uintmax_t)s->offset, (uintmax_t)s->file_size, e->bytes.n);
		size = s->offset < e->bytes.n ? e->bytes.n - s->offset : 0;
	}
	s->file_size = size;
}

static struct uh_error *choose_loads(struct arena *a, struct elf *e)
{
	struct code_segment *loads = arena_alloc(a, e->nsegments * sizeof(*loads));
	uint64_t end = 0;
	for (size_t i = 0; i < e->nsegments; i++) {
		struct elf_segment s = e->segments[i];
		if (s.type != PT_LOAD || !s.memory_size)
			continue;
		if (s.address < end || s.memory_size > UINT64_MAX - s.address) {
			code_problem(e->problems,
				     "program header %zu: addresses 0x%jx+0x%jx do not lie behind those of the one before", i,
				     (uintmax_t)s.address, (uintmax_t)s.memory_size);
			continue;
		}
		bound_segment(e, i, &s);
		end = s.address + s.memory_size;
		loads[e->nloads++] = (struct code_segment){ s.address, s.offset, s.file_size, s.memory_size, s.flags };
	}
	e->loads = loads;
	if (!e->nloads)
		return uh_error_new("program headers at 0x%jx: none of %zu is a segment to load",
				    (uintmax_t)get_u64(e->bytes.p + 32), e->nsegments);
	return NULL;
}

/** Where there are more sections than the header can count, the first section does. */
static size_t section_count(const struct elf *e, uint64_t at)
{
	size_t n = get_u16(e->bytes.p + 60);
	if (n || !at || !elf_inside(e, at, SECTION_SIZE))
		return n;
	uint64_t many = get_u64(e->bytes.p + at + 32);
	return many > e->bytes.n / SECTION_SIZE ? e->bytes.n / SECTION_SIZE + 1 : (size_t)many;
}

static void read_sections(struct arena *a, struct elf *e)
{
	uint64_t at = get_u64(e->bytes.p + 40);
	size_t n = section_count(e, at);
	unsigned each = get_u16(e->bytes.p + 58);
	if (!at || !n)
		return;
	if (each != SECTION_SIZE) {
		code_problem(e->problems, "ELF header at 0x0: a section header of %u bytes at 0x3a, not 64", each);
		return;
	}
	if (at < HEADER_SIZE || !elf_inside(e, at, n * SECTION_SIZE)) {
		code_problem(e->problems, "section headers at 0x%jx: the bytes of %zu do not lie in the file (%zu bytes)",
			     (uintmax_t)at, n, e->bytes.n);
		return;
	}
	struct elf_section *s = arena_alloc(a, n * sizeof(*s));
	for (size_t i = 0; i < n; i++) {
		const char *p = e->bytes.p + at + i * SECTION_SIZE;
		s[i] = (struct elf_section){
			.type = get_u32(p + 4),
			.flags = get_u64(p + 8),
			.address = get_u64(p + 16),
			.offset = get_u64(p + 24),
			.size = get_u64(p + 32),
			.link = get_u32(p + 40),
		};
		if (!s[i].type || s[i].type == SHT_NOBITS || elf_inside(e, s[i].offset, s[i].size))
			continue;
		code_problem(e->problems, "section header %zu at 0x%jx: its bytes 0x%jx+0x%jx lie outside the file (%zu bytes)",
			     i, (uintmax_t)(at + i * SECTION_SIZE), (uintmax_t)s[i].offset, (uintmax_t)s[i].size, e->bytes.n);
		s[i].type = 0;
	}
	e->sections = s;
	e->nsections = n;
}

struct uh_error *elf_open(struct arena *a, struct str bytes, struct code_problems *problems, struct elf *ret)
{
	struct uh_error *err = check_header(bytes);
	if (err)
		return err;
	struct elf e = {
		.bytes = bytes,
		.problems = problems,
		.osabi = (unsigned char)bytes.p[7],
		.abi = (unsigned char)bytes.p[8],
		.flags = get_u32(bytes.p + 48),
		.names = bytes.n <= SIZE_MAX / 4 ? 4 * bytes.n : SIZE_MAX,
		.notes = bytes.n / NOTE_SIZE * NOTES_AGAIN,
	};
	err = read_segments(a, &e);
	if (!err)
		err = choose_loads(a, &e);
	if (err)
		return err;
	read_sections(a, &e);
	*ret = e;
	return NULL;
}

const struct code_segment *elf_segment_at(const struct code_segment *segments, size_t n, uint64_t address)
{
	size_t low = 0;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		const struct code_segment *s = &segments[middle];
		if (address < s->address)
			n = middle;
		else if (address - s->address >= s->memory_size)
			low = middle + 1;
		else
			return s;
	}
	return NULL;
}

static uint64_t padded(uint64_t n) { return (n + 3) & ~3ull; }

static bool search_notes(struct elf *e, uint64_t offset, uint64_t size, struct str owner, uint32_t type, struct elf_note *ret)
{
	if (!elf_inside(e, offset, size))
		return false;
	struct str all = str_cut(e->bytes, (size_t)(offset + size));
	for (size_t at = (size_t)offset; all.n - at >= NOTE_SIZE && e->notes; e->notes--) {
		const char *p = all.p + at;
		uint64_t owner_size = get_u32(p), text_size = get_u32(p + 4), rest = all.n - at - NOTE_SIZE;
		if (padded(owner_size) > rest || text_size > rest - padded(owner_size)) {
			code_problem(
				e->problems,
				"note at 0x%zx: a name of %ju and a text of %ju bytes do not end in the notes at 0x%jx+0x%jx",
				at, (uintmax_t)owner_size, (uintmax_t)text_size, (uintmax_t)offset, (uintmax_t)size);
			return false;
		}
		struct elf_note note = { at, at + NOTE_SIZE + (size_t)padded(owner_size), { 0 } };
		note.text = str_cut(str_from(all, note.text_offset), (size_t)text_size);
		if (get_u32(p + 8) == type && owner_size == owner.n + 1 && !memcmp(p + NOTE_SIZE, owner.p, owner.n)) {
			*ret = note;
			return true;
		}
		if (padded(text_size) >= all.n - note.text_offset)
			return false;
		at = note.text_offset + (size_t)padded(text_size);
	}
	return false;
}

bool elf_note(struct elf *e, struct str owner, uint32_t type, struct elf_note *ret)
{
	for (size_t i = 0; i < e->nsegments; i++) {
		const struct elf_segment *s = &e->segments[i];
		if (s->type == PT_NOTE && search_notes(e, s->offset, s->file_size, owner, type, ret))
			return true;
	}
	for (size_t i = 0; i < e->nsections; i++) {
		const struct elf_section *s = &e->sections[i];
		if (s->type == SHT_NOTE && search_notes(e, s->offset, s->size, owner, type, ret))
			return true;
	}
	return false;
}
