// ELF64 as the GPU's linker writes it, from bytes that may be damaged or hostile. What lies outside of the file is cut off and told,
// and the rest is used: a core or a truncated copy still has most of its symbols.
#include "code/object/elf.h"

enum { PROBLEMS_MAX = 16 };

void code_problem(struct code_problems *p, const char *format, ...)
{
	p->count++;
	if (!p->to || p->count > PROBLEMS_MAX)
		return;
	size_t begin = p->to->n;
	va_list ap;
	va_start(ap, format);
	text_vprintf(p->to, format, ap);
	va_end(ap);
	// Names out of the file must not begin a line of their own.
	for (size_t i = begin; i < p->to->n; i++)
		if ((unsigned char)p->to->p[i] < ' ')
			p->to->p[i] = '?';
	text_add(p->to, p->count < PROBLEMS_MAX ? S("\n") : S("; more is damaged\n"));
}

// --- headers, segments, sections ---

enum {
	HEADER_SIZE = sizeof(Elf64_Ehdr),
	SEGMENT_SIZE = sizeof(Elf64_Phdr),
	SECTION_SIZE = sizeof(Elf64_Shdr),
	NOTE_SIZE = sizeof(Elf64_Nhdr),
	NOTES_AGAIN = 4 // segments and sections are searched, for two notes
};

/** A file is refused here, or where it has no segment. All that lies behind the header may be damaged. */
static struct uh_error *check_header(struct str b, bool gpu)
{
	if (b.n < SELFMAG || memcmp(b.p, ELFMAG, SELFMAG) != 0)
		return uh_error_new("ELF header at 0x0: it does not begin with 0x7f ELF");
	if (b.n < HEADER_SIZE)
		return uh_error_new("ELF header at 0x0: its 64 bytes are cut off after %zu", b.n);
	if (b.p[4] != ELFCLASS64 || b.p[5] != ELFDATA2LSB)
		return uh_error_new("ELF header at 0x0: class %u and byte order %u at 0x4, not 64 bits and little-endian",
				    (unsigned char)b.p[4], (unsigned char)b.p[5]);
	if (b.p[6] != EV_CURRENT || get_u32(b.p + 20) != EV_CURRENT)
		return uh_error_new("ELF header at 0x0: version %u at 0x6 and %u at 0x14, not 1", (unsigned char)b.p[6],
				    get_u32(b.p + 20));
	if (gpu && get_u16(b.p + 18) != EM_AMDGPU)
		return uh_error_new("ELF header at 0x0: machine %u at 0x12, not 224 (AMDGPU)", get_u16(b.p + 18));
	unsigned type = get_u16(b.p + 16);
	if (type != ET_DYN && type != ET_EXEC)
		return uh_error_new("ELF header at 0x0: type %u at 0x10 is no linked object (2 or 3)", type);
	return NULL;
}

/** Segments are what the loader goes by, so a file without them is refused; sections may be missing. */
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

/** Which segments are memory. In a damaged file they overlap: then the first one has the address, and the other is left out. */
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
		// Cuts @s down to what the file has of it.
		uint64_t size = s.file_size < s.memory_size ? s.file_size : s.memory_size;
		if (s.file_size > s.memory_size)
			code_problem(e->problems, "program header %zu: 0x%jx bytes in the file, but only 0x%jx in memory", i,
				     (uintmax_t)s.file_size, (uintmax_t)s.memory_size);
		if (!elf_inside(e, s.offset, size)) {
			code_problem(e->problems, "program header %zu: its bytes 0x%jx+0x%jx lie outside the file (%zu bytes)",
				     i, (uintmax_t)s.offset, (uintmax_t)s.file_size, e->bytes.n);
			size = s.offset < e->bytes.n ? e->bytes.n - s.offset : 0;
		}
		s.file_size = size;
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

/** Sections only help: a stripped file has none, and is read all the same. */
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

static struct uh_error *elf_open_any(struct arena *a, struct str bytes, struct code_problems *problems, bool gpu, struct elf *ret)
{
	struct uh_error *err = check_header(bytes, gpu);
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

struct uh_error *elf_open(struct arena *a, struct str bytes, struct code_problems *problems, struct elf *ret)
{
	return elf_open_any(a, bytes, problems, true, ret);
}

struct uh_error *elf_open_program(struct arena *a, struct str bytes, struct code_problems *problems, struct elf *ret)
{
	return elf_open_any(a, bytes, problems, false, ret);
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

/** The notes of all segments, each length checked against what is left of its segment before anything is read. */
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
	return list_find(e->segments, e->nsegments, s,
			 s->type == PT_NOTE && search_notes(e, s->offset, s->file_size, owner, type, ret)) ||
	       list_find(e->sections, e->nsections, s,
			 s->type == SHT_NOTE && search_notes(e, s->offset, s->size, owner, type, ret));
}

// --- symbols ---

enum { SYMBOL_SIZE = sizeof(Elf64_Sym), DYNAMIC_SIZE = sizeof(Elf64_Dyn) };

/** A symbol table and its names; both lie in the file. */
struct symbol_table {
	const char *what; // "symbol table", "dynamic symbol table"
	uint64_t offset;  // in the file
	struct str symbols, names;
};

/** false where the names are used up: then the table's names overlap beyond what a linker saves by sharing them. */
static bool read_name(struct elf *e, const struct symbol_table *t, size_t i, struct str *ret)
{
	uint32_t at = get_u32(t->symbols.p + i * SYMBOL_SIZE);
	uintmax_t where = t->offset + i * SYMBOL_SIZE;
	struct str rest = str_from(t->names, at);
	*ret = (struct str){ 0 };
	if (!at)
		return true;
	const char *end = rest.n ? memchr(rest.p, 0, rest.n < e->names ? rest.n : e->names) : NULL;
	if (!end && rest.n > e->names) {
		code_problem(e->problems, "%s: the names of entry %zu at 0x%jx and those before lie over each other", t->what,
			     i, where);
		return false;
	}
	if (!end) {
		code_problem(e->problems, "%s: entry %zu at 0x%jx has its name at 0x%x of 0x%zx, where none ends", t->what, i,
			     where, at, t->names.n);
		e->names -= rest.n;
		return true;
	}
	*ret = str_cut(rest, (size_t)(end - rest.p));
	e->names -= ret->n;
	return true;
}

static void read_table(struct elf *e, const struct symbol_table *t, elf_symbol_fn *fn, void *ctx)
{
	for (size_t i = 1; i < t->symbols.n / SYMBOL_SIZE; i++) {
		const char *p = t->symbols.p + i * SYMBOL_SIZE;
		struct elf_symbol s = {
			.address = get_u64(p + 8),
			.size = get_u64(p + 16),
			.type = (unsigned char)p[4] & 0xf,
			.binding = (unsigned char)p[4] >> 4,
			.section = get_u16(p + 6),
		};
		if (!read_name(e, t, i, &s.name))
			return;
		if (s.name.n)
			fn(ctx, &s);
	}
}

/** The table in the first section of this type. */
static bool elf_section_table(struct elf *e, uint32_t type, struct symbol_table *t)
{
	const struct elf_section *s = list_find(e->sections, e->nsections, it, it->type == type);
	if (!s)
		return false;
	const size_t i = (size_t)(s - e->sections);
	if (s->link >= e->nsections || !e->sections[s->link].type) {
		code_problem(e->problems, "section header %zu: the names of its symbols are in section %u, which is not there",
			     i, s->link);
		return false;
	}
	const struct elf_section *names = &e->sections[s->link];
	if (names->type == SHT_NOBITS) {
		code_problem(e->problems, "section header %zu: the names of its symbols are in section %u, which is empty", i,
			     s->link);
		return false;
	}
	t->offset = s->offset;
	t->symbols = str_cut(str_from(e->bytes, (size_t)s->offset), (size_t)s->size);
	t->names = str_cut(str_from(e->bytes, (size_t)names->offset), (size_t)names->size);
	return true;
}

/** The file's bytes from @address on. */
static struct str at_address(const struct elf *e, uint64_t address, uint64_t *ret_offset)
{
	const struct code_segment *s = elf_segment_at(e->loads, e->nloads, address);
	if (!s || address - s->address >= s->file_size)
		return (struct str){ 0 };
	*ret_offset = s->offset + (address - s->address);
	return str_cut(str_from(e->bytes, (size_t)*ret_offset), (size_t)(s->file_size - (address - s->address)));
}

/** Symbols that a GNU hash table leads to: the chain of the highest bucket ends with the last one. */
static uint64_t count_gnu(struct str hash)
{
	if (hash.n < 16)
		return 0;
	uint64_t buckets = get_u32(hash.p), first = get_u32(hash.p + 4), bloom = get_u32(hash.p + 8);
	if (bloom > (hash.n - 16) / 8 || buckets > (hash.n - 16 - 8 * bloom) / 4)
		return 0;
	struct str rest = str_from(hash, 16 + 8 * bloom);
	uint64_t last = 0;
	for (uint64_t i = 0; i < buckets; i++)
		last = get_u32(rest.p + 4 * i) > last ? get_u32(rest.p + 4 * i) : last;
	rest = str_from(rest, 4 * buckets);
	if (last < first)
		return first;
	for (uint64_t i = last - first; i < rest.n / 4; i++)
		if (get_u32(rest.p + 4 * i) & 1)
			return first + i + 1;
	return 0;
}

/** The table that PT_DYNAMIC leads to. Without a hash table nothing says how many symbols there are; then the table ends where the names
 * begin, which linkers put behind it. */
static bool dynamic_table(struct elf *e, struct symbol_table *t)
{
	const struct elf_segment *d = list_find(e->segments, e->nsegments, it, it->type == PT_DYNAMIC);
	uint64_t hash = 0, gnu = 0, symbols = 0, names = 0, names_size = 0, offset;
	if (!d)
		return false;
	if (!elf_inside(e, d->offset, d->file_size)) {
		code_problem(e->problems, "dynamic segment: its bytes 0x%jx+0x%jx lie outside the file (%zu bytes)",
			     (uintmax_t)d->offset, (uintmax_t)d->file_size, e->bytes.n);
		return false;
	}
	for (uint64_t at = 0; d->file_size - at >= DYNAMIC_SIZE; at += DYNAMIC_SIZE) {
		uint64_t tag = get_u64(e->bytes.p + d->offset + at), value = get_u64(e->bytes.p + d->offset + at + 8);
		if (tag == DT_NULL)
			break;
		hash = tag == DT_HASH ? value : hash;
		gnu = tag == DT_GNU_HASH ? value : gnu;
		symbols = tag == DT_SYMTAB ? value : symbols;
		names = tag == DT_STRTAB ? value : names;
		names_size = tag == DT_STRSZ ? value : names_size;
	}
	t->names = at_address(e, names, &offset);
	if (names_size <= t->names.n)
		t->names.n = (size_t)names_size;
	t->symbols = at_address(e, symbols, &t->offset);
	struct str counts = at_address(e, hash ? hash : gnu, &offset);
	uint64_t n = hash ? (counts.n >= 8 ? get_u32(counts.p + 4) : 0) : gnu ? count_gnu(counts) : 0;
	if (!n && names > symbols)
		n = (names - symbols) / SYMBOL_SIZE;
	if (!symbols || !names || n > t->symbols.n / SYMBOL_SIZE) {
		code_problem(e->problems,
			     "dynamic segment at 0x%jx: %ju symbols at address 0x%jx, names at 0x%jx, do not lie in the file",
			     (uintmax_t)d->offset, (uintmax_t)n, (uintmax_t)symbols, (uintmax_t)names);
		return false;
	}
	t->symbols.n = (size_t)n * SYMBOL_SIZE;
	return true;
}

void elf_symbols(struct elf *e, elf_symbol_fn *fn, void *ctx)
{
	struct symbol_table all = { .what = "symbol table" }, dynamic = { .what = "dynamic symbol table" };
	if (elf_section_table(e, SHT_SYMTAB, &all))
		read_table(e, &all, fn, ctx);
	if (elf_section_table(e, SHT_DYNSYM, &dynamic) || dynamic_table(e, &dynamic))
		read_table(e, &dynamic, fn, ctx);
}
