// The memory of a process: a symbol in what it has mapped, the runtime's list of code objects, and pages that are kept.
//
// Each read is a request to a child with a deadline, because rings and buffers are read through the driver, which may wait for a GPU that
// hangs. So everything here asks for much at once: a step of the search for a symbol asks all libraries together, and pages are read
// ahead.
#include "gpu/process/memory.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "source/tape/tape.h"

// --- symbols, by the tables of programs and libraries in memory: the files may be those of a container, or deleted ---

enum {
	PAGE = 4096,
	IMAGES_MOST = 4096,
	DYNAMIC_MOST = 64 << 10,
	CHAIN_WORDS = 64,
	DEADLINE_MS = 3000,
};

/** A mapped program or library. */
struct image {
	uint64_t begin, bias;
	uint64_t at; // what is read next
	size_t size;
	uint64_t symbols, strings;
	uint32_t buckets, first, index;
	uint64_t table; // of the buckets
	uint64_t value;
	bool out; // it does not have the symbol
};

struct symbol_wanted {
	const char *name;
	uint32_t hash;
};

/** A step takes what was read and says what is read next. false: the image does not have the symbol. */
typedef bool image_step(struct image *i, const struct symbol_wanted *w, struct str bytes);

static bool image_reads(struct image *i, uint64_t at, size_t size)
{
	i->at = at;
	i->size = size;
	return true;
}

static bool process_memory_take_head(struct image *i, const struct symbol_wanted *w, struct str b)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	uint64_t dynamic = 0, size = 0;
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
			dynamic = p.p_vaddr;
			size = p.p_memsz < DYNAMIC_MOST ? p.p_memsz : DYNAMIC_MOST;
		}
	}
	return based && size && image_reads(i, dynamic + i->bias, size);
}

static bool take_dynamic(struct image *i, const struct symbol_wanted *w, struct str b)
{
	uint64_t hash = 0;
	(void)w;
	for (size_t at = 0; at + sizeof(Elf64_Dyn) <= b.n; at += sizeof(Elf64_Dyn)) {
		Elf64_Dyn d;
		memcpy(&d, b.p + at, sizeof(d));
		if (d.d_tag == DT_NULL)
			break;
		// glibc's loader has turned these pointers into addresses; others leave them as they are in the file.
		const uint64_t address = d.d_un.d_ptr < i->begin ? d.d_un.d_ptr + i->bias : d.d_un.d_ptr;
		if (d.d_tag == DT_GNU_HASH)
			hash = address;
		else if (d.d_tag == DT_SYMTAB)
			i->symbols = address;
		else if (d.d_tag == DT_STRTAB)
			i->strings = address;
	}
	i->table = hash + 16;
	return hash && i->symbols && i->strings && image_reads(i, hash, 16);
}

static bool take_hash(struct image *i, const struct symbol_wanted *w, struct str b)
{
	if (b.n < 16)
		return false;
	i->buckets = get_u32(b.p);
	i->first = get_u32(b.p + 4);
	i->table += 8 * (uint64_t)get_u32(b.p + 8);
	return i->buckets && image_reads(i, i->table + 4 * (uint64_t)(w->hash % i->buckets), 4);
}

static bool take_bucket(struct image *i, const struct symbol_wanted *w, struct str b)
{
	(void)w;
	i->index = b.n == 4 ? get_u32(b.p) : 0;
	return i->index && i->index >= i->first &&
	       image_reads(i, i->table + 4 * ((uint64_t)i->buckets + i->index - i->first), 4 * CHAIN_WORDS);
}

static bool take_chain(struct image *i, const struct symbol_wanted *w, struct str b)
{
	for (size_t n = 0; n + 4 <= b.n; n += 4) {
		uint32_t h = get_u32(b.p + n);
		if ((h | 1) == (w->hash | 1)) {
			i->index += (uint32_t)(n / 4);
			return image_reads(i, i->symbols + sizeof(Elf64_Sym) * (uint64_t)i->index, sizeof(Elf64_Sym));
		}
		if (h & 1)
			break;
	}
	return false;
}

static bool process_memory_take_symbol(struct image *i, const struct symbol_wanted *w, struct str b)
{
	Elf64_Sym s;
	if (b.n != sizeof(s))
		return false;
	memcpy(&s, b.p, sizeof(s));
	i->value = s.st_value + i->bias;
	return s.st_shndx != SHN_UNDEF && image_reads(i, i->strings + s.st_name, strlen(w->name) + 1);
}

static bool take_name(struct image *i, const struct symbol_wanted *w, struct str b)
{
	(void)i;
	return b.n == strlen(w->name) + 1 && !memcmp(b.p, w->name, b.n);
}

static image_step *const image_steps[] = { process_memory_take_head,   take_dynamic, take_hash, take_bucket, take_chain,
					   process_memory_take_symbol, take_name };

/** One step for all images in one child. */
static void make_step(image_step *step, const struct symbol_wanted *w, const struct mapped *m, struct image *images, size_t n)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct probe *probes = arena_alloc(&a, n * sizeof(*probes) + 1);
	struct image **of = arena_alloc(&a, n * sizeof(*of) + 1);
	struct probe_stuck stuck = { 0 };
	size_t asked = 0;
	for (size_t i = 0; i < n; i++) {
		if (images[i].out)
			continue;
		probes[asked] =
			(struct probe){ .kind = PROBE_READ, .path = m->mem, .offset = images[i].at, .size = images[i].size };
		of[asked++] = &images[i];
	}
	if (asked)
		probe_run(&a, probes, asked, DEADLINE_MS, &stuck, m->count);
	for (size_t i = 0; i < asked; i++)
		of[i]->out = probes[i].end != PROBE_GOOD || !step(of[i], w, (struct str){ probes[i].data, probes[i].n });
}

size_t process_symbols(const struct mapped *m, const char *name, uint64_t *ret, size_t most)
{
	_cleanup_free_ struct image *images = mem_alloc(IMAGES_MOST * sizeof(*images));
	struct symbol_wanted w = { name, 5381 };
	size_t found = 0, nimages = 0;
	for (const char *c = name; *c; c++) // the hash of DT_GNU_HASH
		w.hash = w.hash * 33 + (unsigned char)*c;
	for (size_t i = 0; i < m->n && nimages < IMAGES_MOST; i++) {
		const struct mapping *at = &m->maps[i];
		if (!at->offset && at->path.n && at->path.p[0] == '/' && !str_starts(at->path, S("/dev/")))
			images[nimages++] = (struct image){ .begin = at->begin, .at = at->begin, .size = PAGE };
	}
	for (size_t s = 0; s < ARRAY_SIZE(image_steps); s++)
		make_step(image_steps[s], &w, m, images, nimages);
	for (size_t i = 0; i < nimages && found < most; i++)
		if (!images[i].out)
			ret[found++] = images[i].value;
	return found;
}

// --- the runtime's list of code objects ---

enum {
	R_DEBUG = 40,
	LINK_MAP = 40,
	CODE_MOST = 65536, // loaded code objects
	URI_MOST = 4096,
	URIS_BYTES = 64 << 20,
};

static void list_odd(const struct runtime_list *l, uint64_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void list_odd(const struct runtime_list *l, uint64_t at, const char *format, ...)
{
	_cleanup_text_ struct text line = { 0 };
	va_list ap;
	text_printf(&line, "link_map at 0x%llx", (unsigned long long)at);
	va_start(ap, format);
	text_vprintf(&line, format, ap);
	va_end(ap);
	l->odd(l->ctx, line.p);
}

static struct str read_uri(const struct runtime_list *l, uint64_t address)
{
	enum { STEP = 64 };
	char uri[URI_MOST];
	for (size_t n = 0; n + STEP <= sizeof(uri);) {
		// It may end shortly before the end of its segment.
		size_t step = STEP;
		if (!l->read(l->ctx, address + n, uri + n, step))
			step = l->read(l->ctx, address + n, uri + n, 1);
		size_t length = strnlen(uri + n, step);
		if (length < step || !step)
			return arena_str(l->arena, (struct str){ uri, n + length });
		n += step;
	}
	return (struct str){ 0 };
}

int runtime_list_version(const struct runtime_list *l)
{
	char d[R_DEBUG];
	return l->r_debug && l->read(l->ctx, l->r_debug, d, sizeof(d)) ? (int)get_u32(d) : 0;
}

static int compare_bases(const void *a, const void *b)
{
	const struct loaded_code *x = a, *y = b;
	return x->base != y->base ? (x->base < y->base ? -1 : 1) : str_cmp(x->uri, y->uri);
}

void runtime_list_read(struct runtime_list *l)
{
	char d[R_DEBUG], m[LINK_MAP];
	if (!l->r_debug || !l->read(l->ctx, l->r_debug, d, sizeof(d)))
		return;
	_cleanup_text_ struct text line = { 0 };
	if (get_u32(d + 24)) {
		text_printf(&line, "the runtime's list of code objects was being changed when it was read (r_debug at 0x%llx)",
			    (unsigned long long)l->r_debug);
		l->odd(l->ctx, line.p);
	}
	uint64_t at = get_u64(d + 8), earlier = 0;
	for (size_t n = 1, again = 1; at && n < CODE_MOST && l->arena->total < URIS_BYTES; n++) {
		if (!l->read(l->ctx, at, m, sizeof(m))) {
			list_odd(l, at, " (code object %zu of the runtime's list) is not in the core", n);
			at = 0;
			break;
		}
		uint64_t name = get_u64(m + 8), next = get_u64(m + 24);
		struct str uri = name ? read_uri(l, name) : (struct str){ 0 };
		if (uri.n)
			vec_push(&l->code, ((struct loaded_code){ get_u64(m), uri }));
		// A place is remembered for twice as many steps each time, so that any circle is noticed.
		if (n == again)
			earlier = at, again *= 2;
		if (next == earlier) {
			list_odd(l, at, ": the runtime's list of code objects goes round in a circle");
			next = 0;
		}
		at = next;
	}
	if (at)
		list_odd(l, at, ": the rest of the runtime's list of code objects is not read");
	if (l->code.len)
		qsort(l->code.data, l->code.len, sizeof(*l->code.data), compare_bases);
}

// --- pages ---

enum {
	AHEAD = 16,        // pages that are read at once
	KEPT_MOST = 16384, // pages
	SLOTS = 2 * KEPT_MOST,
	LARGE = AHEAD * PAGE, // reads of this size or more are not kept
};

struct page {
	uint64_t address;
	const char *bytes; // NULL: it cannot be read
};

static struct probe pages_ask(struct pages *p, struct arena *a, uint64_t address, size_t size)
{
	struct probe ask = { .kind = PROBE_READ, .path = p->mem, .offset = address, .size = size, .contents = true };
	p->run(p->ctx, a, &ask);
	p->refused |= ask.end == PROBE_FORBIDDEN || (ask.end == PROBE_FAILED && (ask.error == EACCES || ask.error == EPERM));
	return ask;
}

static bool read_fresh(struct pages *p, uint64_t address, void *to, size_t size)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct probe ask = pages_ask(p, &a, address, size);
	bool whole = ask.end == PROBE_GOOD && ask.n == size;
	if (whole)
		memcpy(to, ask.data, size);
	return whole;
}

static struct page *process_memory_slot_of(struct pages *p, uint64_t address)
{
	size_t i = (size_t)(address / PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS;
	while (p->slots[i].address != address && p->slots[i].address != UINT64_MAX)
		i = (i + 1) % SLOTS;
	return &p->slots[i];
}

static void page_keep(struct pages *p, uint64_t address, struct str bytes)
{
	struct page *slot = process_memory_slot_of(p, address);
	if (slot->address == address || p->n == KEPT_MOST)
		return;
	*slot = (struct page){ address, bytes.n == PAGE ? arena_str(&p->arena, bytes).p : NULL };
	p->n++;
}

/** The page at an address; those behind it are read with it. NULL where no more are kept. */
static const struct page *page_at(struct pages *p, uint64_t address)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct page *slot = process_memory_slot_of(p, address);
	if (slot->address == address)
		return slot;
	struct probe ask = pages_ask(p, &a, address, LARGE);
	size_t got = ask.end == PROBE_GOOD ? ask.n : 0;
	page_keep(p, address, (struct str){ ask.data, got < PAGE ? 0 : PAGE });
	for (size_t at = PAGE; at + PAGE <= got; at += PAGE)
		page_keep(p, address + at, (struct str){ ask.data + at, PAGE });
	slot = process_memory_slot_of(p, address);
	return slot->address == address ? slot : NULL;
}

static bool read_pages(struct pages *p, uint64_t address, void *to, size_t size)
{
	char *out = to;
	if (size > UINT64_MAX - address || address >= UINT64_MAX - 2 * LARGE)
		return false;
	if (size >= LARGE)
		return read_fresh(p, address, to, size);
	if (!p->slots) {
		p->slots = mem_alloc(SLOTS * sizeof(*p->slots));
		for (size_t i = 0; i < SLOTS; i++)
			p->slots[i].address = UINT64_MAX;
	}
	while (size) {
		uint64_t in = address % PAGE, n = PAGE - in < size ? PAGE - in : size;
		const struct page *page = page_at(p, address - in);
		if (!page)
			return read_fresh(p, address, out, size);
		if (!page->bytes)
			return false;
		memcpy(out, page->bytes + in, n);
		out += n;
		address += n;
		size -= n;
	}
	return true;
}

/** Pages hold more than was asked for: a tape gets what was wanted of them. */
bool pages_read(struct pages *p, uint64_t address, void *to, size_t size, bool contents)
{
	if (tape_plays(p->tape) && tape_memory(p->tape, p->mem, address, to, size))
		return true;
	bool read = read_pages(p, address, to, size);
	if (read && !contents && tape_records(p->tape))
		tape_keep_memory(p->tape, p->mem, address, (struct str){ to, size });
	return read;
}

void pages_free(struct pages *p)
{
	arena_free(&p->arena);
	free(p->slots);
}
