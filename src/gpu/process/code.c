// Finds a symbol in the programs and libraries that a process has mapped, by their tables in its memory: the files may be those of a
// container, or deleted.
#include <elf.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "gpu/process/target.h"

enum {
	PAGE = 4096,
	IMAGES_MOST = 4096,
	DYNAMIC_MOST = 64 << 10,
	CHAIN_WORDS = 64,
	DEADLINE_MS = 3000,
};

struct image {
	uint64_t begin, bias;
	uint64_t dynamic, dynamic_size;
	uint64_t hash, symbols, strings;
	uint32_t buckets, first, index;
	uint64_t table; // of the buckets
	uint32_t name;
	uint64_t value;
	bool out; // it does not have the symbol
};

struct code_wanted {
	const char *name;
	uint32_t hash;
};

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;
	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

/** A step: where the next piece to read lies, how long it is, and whether its content lets the image go on to the next step. */
struct code_step {
	void (*where)(const struct image *i, const struct code_wanted *w, uint64_t *at, size_t *size);
	bool (*take)(struct image *i, const struct code_wanted *w, struct str bytes);
};

static void where_head(const struct image *i, const struct code_wanted *w, uint64_t *at, size_t *size)
{
	(void)w;
	*at = i->begin;
	*size = PAGE;
}

static bool take_head(struct image *i, const struct code_wanted *w, struct str b)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	bool based = false;
	(void)w;
	if (b.n < sizeof(e))
		return false;
	memcpy(&e, b.p, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_phentsize != sizeof(p) ||
	    e.e_phoff > b.n || (b.n - e.e_phoff) / sizeof(p) < e.e_phnum)
		return false;
	for (unsigned n = 0; n < e.e_phnum; n++) {
		memcpy(&p, b.p + e.e_phoff + n * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD && !based) {
			i->bias = i->begin - (p.p_vaddr & ~(uint64_t)(PAGE - 1));
			based = true;
		}
		if (p.p_type == PT_DYNAMIC) {
			i->dynamic = p.p_vaddr;
			i->dynamic_size = p.p_memsz < DYNAMIC_MOST ? p.p_memsz : DYNAMIC_MOST;
		}
	}
	i->dynamic += i->bias;
	return based && i->dynamic_size;
}

static void where_dynamic(const struct image *i, const struct code_wanted *w, uint64_t *at, size_t *size)
{
	(void)w;
	*at = i->dynamic;
	*size = i->dynamic_size;
}

/** glibc's loader has turned these pointers into addresses; others leave them as they are in the file. */
static uint64_t relocated(const struct image *i, uint64_t pointer) { return pointer < i->begin ? pointer + i->bias : pointer; }

static bool take_dynamic(struct image *i, const struct code_wanted *w, struct str b)
{
	(void)w;
	for (size_t at = 0; at + sizeof(Elf64_Dyn) <= b.n; at += sizeof(Elf64_Dyn)) {
		Elf64_Dyn d;
		memcpy(&d, b.p + at, sizeof(d));
		if (d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_GNU_HASH)
			i->hash = relocated(i, d.d_un.d_ptr);
		else if (d.d_tag == DT_SYMTAB)
			i->symbols = relocated(i, d.d_un.d_ptr);
		else if (d.d_tag == DT_STRTAB)
			i->strings = relocated(i, d.d_un.d_ptr);
	}
	return i->hash && i->symbols && i->strings;
}

static void where_hash(const struct image *i, const struct code_wanted *w, uint64_t *at, size_t *size)
{
	(void)w;
	*at = i->hash;
	*size = 16;
}

static bool take_hash(struct image *i, const struct code_wanted *w, struct str b)
{
	(void)w;
	if (b.n < 16)
		return false;
	i->buckets = get_u32(b.p);
	i->first = get_u32(b.p + 4);
	i->table = i->hash + 16 + 8 * (uint64_t)get_u32(b.p + 8);
	return i->buckets;
}

static void where_bucket(const struct image *i, const struct code_wanted *w, uint64_t *at, size_t *size)
{
	*at = i->table + 4 * (uint64_t)(w->hash % i->buckets);
	*size = 4;
}

static bool take_bucket(struct image *i, const struct code_wanted *w, struct str b)
{
	(void)w;
	i->index = b.n == 4 ? get_u32(b.p) : 0;
	return i->index && i->index >= i->first;
}

static void where_chain(const struct image *i, const struct code_wanted *w, uint64_t *at, size_t *size)
{
	(void)w;
	*at = i->table + 4 * ((uint64_t)i->buckets + i->index - i->first);
	*size = 4 * CHAIN_WORDS;
}

static bool take_chain(struct image *i, const struct code_wanted *w, struct str b)
{
	for (size_t n = 0; n + 4 <= b.n; n += 4) {
		uint32_t h = get_u32(b.p + n);
		if ((h | 1) == (w->hash | 1)) {
			i->index += (uint32_t)(n / 4);
			return true;
		}
		if (h & 1)
			break;
	}
	return false;
}

static void where_symbol(const struct image *i, const struct code_wanted *w, uint64_t *at, size_t *size)
{
	(void)w;
	*at = i->symbols + sizeof(Elf64_Sym) * (uint64_t)i->index;
	*size = sizeof(Elf64_Sym);
}

static bool take_symbol(struct image *i, const struct code_wanted *w, struct str b)
{
	Elf64_Sym s;
	(void)w;
	if (b.n != sizeof(s))
		return false;
	memcpy(&s, b.p, sizeof(s));
	i->name = s.st_name;
	i->value = s.st_value + i->bias;
	return s.st_shndx != SHN_UNDEF;
}

static void where_name(const struct image *i, const struct code_wanted *w, uint64_t *at, size_t *size)
{
	*at = i->strings + i->name;
	*size = strlen(w->name) + 1;
}

static bool take_name(struct image *i, const struct code_wanted *w, struct str b)
{
	(void)i;
	return b.n == strlen(w->name) + 1 && !memcmp(b.p, w->name, b.n);
}

static const struct code_step steps[] = {
	{ where_head, take_head },   { where_dynamic, take_dynamic }, { where_hash, take_hash }, { where_bucket, take_bucket },
	{ where_chain, take_chain }, { where_symbol, take_symbol },   { where_name, take_name },
};

/** One step for all images in one child. */
static void make_step(const struct code_step *s, const struct code_wanted *w, const struct mapped *m, struct image *images,
		      size_t n)
{
	struct arena a = { 0 };
	struct probe *probes = arena_alloc(&a, n * sizeof(*probes) + 1);
	struct image **of = arena_alloc(&a, n * sizeof(*of) + 1);
	struct probe_stuck stuck = { 0 };
	size_t asked = 0;
	for (size_t i = 0; i < n; i++) {
		if (images[i].out)
			continue;
		struct probe *p = &probes[asked];
		*p = (struct probe){ .kind = PROBE_READ, .path = m->mem };
		s->where(&images[i], w, &p->offset, &p->size);
		of[asked++] = &images[i];
	}
	if (asked)
		probe_run(&a, probes, asked, DEADLINE_MS, &stuck, m->count);
	for (size_t i = 0; i < asked; i++)
		of[i]->out = probes[i].end != PROBE_GOOD || !s->take(of[i], w, (struct str){ probes[i].data, probes[i].n });
	arena_free(&a);
}

size_t process_symbols(const struct mapped *m, const char *name, uint64_t *ret, size_t most)
{
	_cleanup_free_ struct image *images = mem_alloc(IMAGES_MOST * sizeof(*images));
	struct code_wanted w = { name, gnu_hash(name) };
	size_t found = 0, nimages = 0;
	for (size_t i = 0; i < m->n && nimages < IMAGES_MOST; i++) {
		const struct mapping *at = &m->maps[i];
		if (!at->offset && at->path.n && at->path.p[0] == '/' && !str_starts(at->path, S("/dev/")))
			images[nimages++].begin = at->begin;
	}
	for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++)
		make_step(&steps[s], &w, m, images, nimages);
	for (size_t i = 0; i < nimages && found < most; i++)
		if (!images[i].out)
			ret[found++] = images[i].value;
	return found;
}
