// Which kernel a packet names: the code object that the runtime has loaded begins with its ELF header, and its dynamic symbols are in
// memory with it.
#include "emulator/preload/state.h"

#include <elf.h>
#include <stdlib.h>

enum { SYMBOLS_MOST = 1 << 20 };

/** An object in memory, at which addresses count from its beginning. */
struct code_view {
	const char *p;
	uint64_t n;
};

static const void *view_at(const struct code_view *v, uint64_t at, uint64_t size, unsigned align)
{
	return at <= v->n && size <= v->n - at && !(at % align) ? v->p + at : NULL;
}

enum { WIDE = 8, WORD = 4, BYTE = 1 }; // how tables lie

struct code_tables {
	uint64_t symbols, strings, strings_size, hash;
};

static bool find_tables(const struct code_view *v, struct code_tables *ret)
{
	const Elf64_Ehdr *header = view_at(v, 0, sizeof(*header), WIDE);
	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_phentsize != sizeof(Elf64_Phdr))
		return false;
	const Elf64_Phdr *segments = view_at(v, header->e_phoff, header->e_phnum * sizeof(*segments), WIDE);
	const Elf64_Dyn *dynamic = NULL;
	size_t n = 0;
	for (size_t i = 0; segments && i < header->e_phnum; i++)
		if (segments[i].p_type == PT_DYNAMIC) {
			dynamic = view_at(v, segments[i].p_vaddr, segments[i].p_memsz, WIDE);
			n = segments[i].p_memsz / sizeof(*dynamic);
		}
	*ret = (struct code_tables){ 0 };
	for (size_t i = 0; dynamic && i < n && dynamic[i].d_tag != DT_NULL; i++) {
		uint64_t value = dynamic[i].d_un.d_val;
		switch (dynamic[i].d_tag) {
		case DT_SYMTAB:
			ret->symbols = value;
			break;
		case DT_STRTAB:
			ret->strings = value;
			break;
		case DT_STRSZ:
			ret->strings_size = value;
			break;
		case DT_HASH:
			ret->hash = value;
			break;
		default:
			break;
		}
	}
	return ret->symbols && ret->strings && ret->hash;
}

static int by_object(const void *a, const void *b)
{
	const struct kmt_kernel *x = a, *y = b;
	return (x->object > y->object) - (x->object < y->object);
}

static void read_kernels(struct kmt_code *c, const struct kmt_block *b)
{
	struct code_view v = { b->inside, b->size };
	struct code_tables t;
	if (!find_tables(&v, &t))
		return;
	const uint32_t *hash = view_at(&v, t.hash, 8, WORD);
	uint32_t n = hash && hash[1] < SYMBOLS_MOST ? hash[1] : 0;
	const Elf64_Sym *symbols = view_at(&v, t.symbols, n * sizeof(*symbols), WIDE);
	const char *strings = view_at(&v, t.strings, t.strings_size, BYTE);
	for (uint32_t i = 0; symbols && strings && i < n; i++) {
		if (symbols[i].st_name >= t.strings_size)
			continue;
		const char *name = strings + symbols[i].st_name;
		struct str symbol = { name, strnlen(name, t.strings_size - symbols[i].st_name) };
		const uint32_t *descriptor = view_at(&v, symbols[i].st_value, 64, WORD);
		if (!str_ends(symbol, S(".kd")) || !descriptor)
			continue;
		int64_t entry;
		memcpy(&entry, descriptor + 4, sizeof(entry));
		symbol = arena_str(&c->arena, str_cut(symbol, symbol.n - 3));
		vec_push(&c->kernels, ((struct kmt_kernel){ .object = b->base + symbols[i].st_value,
							    .symbol = symbol,
							    .argument_bytes = descriptor[2],
							    .entry = b->base + symbols[i].st_value + (uint64_t)entry,
							    .standin = standin_of(symbol) }));
	}
	if (c->kernels.len)
		qsort(c->kernels.data, c->kernels.len, sizeof(c->kernels.data[0]), by_object);
}

void code_read(struct kmt *t, uint64_t object)
{
	struct kmt_block *b = memory_block(t, object);
	if (!b || b->code)
		return;
	b->code = mem_alloc(sizeof(*b->code));
	if (b->inside)
		read_kernels(b->code, b);
}

const struct kmt_kernel *code_kernel(struct kmt *t, uint64_t object, bool *ret_unread)
{
	const struct kmt_block *b = memory_block(t, object);
	*ret_unread = b && !b->code;
	if (!b || !b->code || !b->code->kernels.len)
		return NULL;
	struct kmt_kernel wanted = { .object = object };
	return bsearch(&wanted, b->code->kernels.data, b->code->kernels.len, sizeof(wanted), by_object);
}

void code_free(struct kmt_code *c)
{
	if (!c)
		return;
	vec_free(&c->kernels);
	arena_free(&c->arena);
	free(c);
}
