#include "code/object/elf.h"

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
static bool section_table(struct elf *e, uint32_t type, struct symbol_table *t)
{
	size_t i = 0;
	while (i < e->nsections && e->sections[i].type != type)
		i++;
	if (i == e->nsections)
		return false;
	const struct elf_section *s = &e->sections[i];
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

static const struct elf_segment *dynamic_segment(const struct elf *e)
{
	for (size_t i = 0; i < e->nsegments; i++)
		if (e->segments[i].type == PT_DYNAMIC)
			return &e->segments[i];
	return NULL;
}

/** The table that PT_DYNAMIC leads to. Without a hash table nothing says how many symbols there are; then the table ends where the names
 * begin, which linkers put behind it. */
static bool dynamic_table(struct elf *e, struct symbol_table *t)
{
	const struct elf_segment *d = dynamic_segment(e);
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
	if (section_table(e, SHT_SYMTAB, &all))
		read_table(e, &all, fn, ctx);
	if (section_table(e, SHT_DYNSYM, &dynamic) || dynamic_table(e, &dynamic))
		read_table(e, &dynamic, fn, ctx);
}
