// A code object, taken apart: its processor, its kernels with descriptor and metadata, its functions. Symbols, descriptors and metadata
// may contradict each other in a damaged file; each is bounded by what the segments really hold.
#include "code/object/object.h"

#include <stdlib.h>

#include "code/object/elf.h"
#include "code/object/metadata.h"
#include "code/names.h"

enum {
	OSABI_HSA = 64,
	ABI_V4 = 2,
	ABI_V6 = 4,
	NOTE_METADATA = 32,
	NOTE_METADATA_V2 = 10,
	DESCRIPTOR_SIZE = 64,
	NESTED_MAX = 16, // functions in each other, which only assembly has
	SHOWN_MAX = 200  // of a name in a line
};

/** Where a function's name comes from, the best first. */
enum origin { OF_KERNEL, OF_GLOBAL, OF_LOCAL };

struct function {
	struct code_symbol symbol;
	enum origin origin;
	unsigned section;
};

struct kernel_descriptor {
	struct str name; // of the kernel
	uint64_t address;
	bool taken;
};

struct parse {
	struct arena *arena;
	struct code_object *object;
	struct elf elf;
	struct code_problems problems;
	const struct code_target *target;
	struct metadata metadata;
	VEC(struct function) functions;
	VEC(struct kernel_descriptor) descriptors; // by name
};

#define NAME_FMT "%.*s"
#define NAME_ARG(s) STR_ARG(str_cut(s, SHOWN_MAX))

// --- target ---

/** Since V4 a feature has two bits, before one. */
static enum code_feature feature(const struct elf *e, unsigned shift_v4, uint32_t bit_v3, bool has)
{
	static const enum code_feature v4[] = { FEATURE_NONE, FEATURE_ANY, FEATURE_OFF, FEATURE_ON };
	if (e->osabi == OSABI_HSA && e->abi >= ABI_V4)
		return v4[e->flags >> shift_v4 & 3];
	if (e->flags & bit_v3)
		return FEATURE_ON;
	return has ? FEATURE_OFF : FEATURE_NONE;
}

static const char *feature_text(enum code_feature f, const char *on, const char *off)
{
	return f == FEATURE_ON ? on : f == FEATURE_OFF ? off : "";
}

/** The flags of the header decide which processor it is; where they name none that is known, the metadata do. A contradiction is told. */
static void object_read_target(struct parse *p)
{
	struct code_object *o = p->object;
	// gfx90a of amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-.
	ptrdiff_t at = str_find(p->metadata.target, S("--"));
	struct str rest = at < 0 ? (struct str){ 0 } : str_from(p->metadata.target, (size_t)at + 2);
	struct str said = str_split(&rest, ':');
	o->mach = p->elf.flags & 0xff;
	o->abi = p->elf.abi;
	p->target = code_target_of(o->mach);
	if (p->target)
		o->gfx = str_z(p->target->name);
	if (p->target && said.n && !str_eq(said, o->gfx))
		code_problem(&p->problems, "ELF header at 0x0: e_flags 0x%x at 0x30 mean %s, the metadata say " NAME_FMT,
			     p->elf.flags, p->target->name, NAME_ARG(said));
	if (!p->target) {
		code_problem(&p->problems, "ELF header at 0x0: e_flags 0x%x at 0x30 name no processor that is known",
			     p->elf.flags);
		p->target = code_target_named(said);
		o->gfx = said;
	}
	if (o->abi > ABI_V6)
		code_problem(&p->problems, "ELF header at 0x0: ABI version %u at 0x8 is newer than those that are known (%u)",
			     o->abi, ABI_V6);
	o->xnack = feature(&p->elf, 8, 0x100, p->target && p->target->xnack);
	o->sramecc = feature(&p->elf, 10, 0x200, p->target && p->target->sramecc);
	if (o->gfx.n)
		o->target_id = arena_printf(p->arena, STR_FMT "%s%s", STR_ARG(o->gfx),
					    feature_text(o->sramecc, ":sramecc+", ":sramecc-"),
					    feature_text(o->xnack, ":xnack+", ":xnack-"));
}

// --- kernels ---

static void object_take_symbol(void *ctx, const struct elf_symbol *s)
{
	struct parse *p = ctx;
	if (s->section == SHN_UNDEF || s->section >= SHN_LORESERVE)
		return;
	if (s->type == STT_FUNC || s->type == STT_AMDGPU_HSA_KERNEL) {
		const enum origin from = s->binding == STB_LOCAL ? OF_LOCAL : OF_GLOBAL;
		vec_push(&p->functions, ((struct function){ { s->name, s->address, s->size, NULL }, from, s->section }));
	} else if (s->name.n > 3 && str_ends(s->name, S(".kd"))) {
		vec_push(&p->descriptors, ((struct kernel_descriptor){ str_cut(s->name, s->name.n - 3), s->address, false }));
	}
}

static int compare_addresses(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int compare_descriptors(const void *a, const void *b)
{
	const struct kernel_descriptor *x = a, *y = b;
	int order = str_cmp(x->name, y->name);
	return order ? order : compare_addresses(x->address, y->address);
}

static struct kernel_descriptor *descriptor_of(struct parse *p, struct str name)
{
	size_t low = 0, high = p->descriptors.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = str_cmp(name, p->descriptors.data[middle].name);
		if (!order)
			return &p->descriptors.data[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/** What the hardware is given counts, metadata only where it is silent. */
static bool read_descriptor(struct parse *p, uint64_t address, struct code_kernel *k)
{
	struct str bytes = code_object_at(p->object, address);
	if (bytes.n < DESCRIPTOR_SIZE) {
		code_problem(&p->problems,
			     "kernel descriptor " NAME_FMT ".kd: its 64 bytes at address 0x%jx do not lie in the file",
			     NAME_ARG(k->name), (uintmax_t)address);
		return false;
	}
	uint32_t lds = get_u32(bytes.p), scratch = get_u32(bytes.p + 4), kernarg = get_u32(bytes.p + 8);
	uint32_t resources3 = get_u32(bytes.p + 44), resources1 = get_u32(bytes.p + 48);
	uint16_t properties = get_u16(bytes.p + 56);
	bool wave32 = properties >> 10 & 1;
	uint64_t entry = address + get_u64(bytes.p + 16);
	k->descriptor = address;
	k->lds = lds ? lds : k->lds;
	k->scratch = scratch ? scratch : k->scratch;
	k->kernarg_size = kernarg ? kernarg : k->kernarg_size;
	k->dynamic_stack |= properties >> 11 & 1;
	unsigned said = k->wave_size;
	k->wave_size = wave32 ? 32 : 64;
	if (said && said != k->wave_size)
		code_problem(&p->problems, "kernel descriptor at address 0x%jx: waves of %u, the metadata say %u",
			     (uintmax_t)k->descriptor, k->wave_size, said);
	if (p->target && !(wave32 ? p->target->wave32 : p->target->wave64))
		code_problem(&p->problems, "kernel descriptor at address 0x%jx: waves of %u, which %s does not have",
			     (uintmax_t)k->descriptor, k->wave_size, p->target->name);
	if (p->target) {
		k->vgprs_allocated = ((resources1 & 0x3f) + 1) * (wave32 ? p->target->granule_32 : p->target->granule_64);
		k->accum_offset = p->target->accum_offset ? ((resources3 & 0x3f) + 1) * 4 : 0;
	}
	if (entry % 4 || !elf_segment_at(p->object->segments, p->object->nsegments, entry))
		code_problem(&p->problems, "kernel descriptor at address 0x%jx: its code would be at address 0x%jx",
			     (uintmax_t)address, (uintmax_t)entry);
	else
		k->entry = entry;
	return true;
}

static void add_kernel(struct parse *p, const struct code_kernel *k)
{
	struct code_kernel *to = (struct code_kernel *)p->object->kernels + p->object->nkernels++;
	*to = *k;
	if (k->entry)
		vec_push(&p->functions, ((struct function){ { k->name, k->entry, 0, to }, OF_KERNEL, SHN_UNDEF }));
}

/** A kernel is a descriptor with a symbol; metadata add its arguments where they are there. */
static void object_read_kernels(struct parse *p)
{
	// By name, each once: a symbol stands in both tables.
	size_t n = 0;
	if (p->descriptors.len)
		qsort(p->descriptors.data, p->descriptors.len, sizeof(*p->descriptors.data), compare_descriptors);
	for (size_t i = 0; i < p->descriptors.len; i++)
		if (!n || !str_eq(p->descriptors.data[i].name, p->descriptors.data[n - 1].name))
			p->descriptors.data[n++] = p->descriptors.data[i];
	p->descriptors.len = n;
	p->object->kernels = arena_alloc(p->arena, (p->metadata.nkernels + p->descriptors.len) * sizeof(*p->object->kernels));
	for (size_t i = 0; i < p->metadata.nkernels; i++) {
		struct metadata_kernel *m = &p->metadata.kernels[i];
		struct kernel_descriptor *d = descriptor_of(p, m->kernel.name);
		if (d && d->taken) {
			code_problem(&p->problems, "metadata at 0x%zx: kernel " NAME_FMT " is there twice", m->offset,
				     NAME_ARG(m->kernel.name));
			continue;
		}
		if (d) {
			d->taken = true;
			read_descriptor(p, d->address, &m->kernel);
		} else {
			code_problem(&p->problems, "metadata at 0x%zx: kernel " NAME_FMT " has no symbol " NAME_FMT ".kd",
				     m->offset, NAME_ARG(m->kernel.name), NAME_ARG(m->kernel.name));
		}
		add_kernel(p, &m->kernel);
	}
	for (size_t i = 0; i < p->descriptors.len; i++) {
		struct kernel_descriptor *d = &p->descriptors.data[i];
		struct code_kernel k = { .name = d->name };
		if (!d->taken && read_descriptor(p, d->address, &k))
			add_kernel(p, &k);
	}
}

// --- functions ---

static int compare_functions(const void *a, const void *b)
{
	const struct function *x = a, *y = b;
	int order = compare_addresses(x->symbol.address, y->symbol.address);
	if (!order)
		order = (int)x->origin - (int)y->origin;
	return order ? order : str_cmp(x->symbol.name, y->symbol.name);
}

/** Where a function of no stated size ends at the latest. */
static uint64_t object_end_of(const struct parse *p, size_t i, uint64_t segment_end)
{
	const struct function *f = &p->functions.data[i];
	uint64_t end = segment_end, address = f->symbol.address;
	if (i + 1 < p->functions.len && f[1].symbol.address < end)
		end = f[1].symbol.address;
	if (f->section < p->elf.nsections) {
		const struct elf_section *s = &p->elf.sections[f->section];
		if (s->type && address >= s->address && address - s->address < s->size && s->size < end - s->address)
			end = s->address + s->size;
	}
	return end;
}

/** Symbols of functions, ordered and bounded, so that a look-up is a binary search. */
static void read_functions(struct parse *p)
{
	// Each address once, with its best name and the first size that is given; none outside the segments.
	size_t n = 0;
	struct function *all = p->functions.data;
	if (p->functions.len)
		qsort(all, p->functions.len, sizeof(*all), compare_functions);
	for (size_t i = 0; i < p->functions.len; i++) {
		struct code_symbol *s = &all[i].symbol;
		if (!elf_segment_at(p->object->segments, p->object->nsegments, s->address)) {
			code_problem(&p->problems, "symbol " NAME_FMT ": its address 0x%jx lies in no segment",
				     NAME_ARG(s->name), (uintmax_t)s->address);
		} else if (n && all[n - 1].symbol.address == s->address) {
			if (!all[n - 1].symbol.size)
				all[n - 1].symbol.size = s->size;
			if (!all[n - 1].section)
				all[n - 1].section = all[i].section;
		} else {
			all[n++] = all[i];
		}
	}
	p->functions.len = n;
	struct code_symbol *to = arena_alloc(p->arena, p->functions.len * sizeof(*to));
	for (size_t i = 0; i < p->functions.len; i++) {
		struct code_symbol s = p->functions.data[i].symbol;
		const struct code_segment *segment = elf_segment_at(p->object->segments, p->object->nsegments, s.address);
		uint64_t end = segment->address + segment->memory_size;
		if (s.size > end - s.address) {
			code_problem(&p->problems,
				     "symbol " NAME_FMT ": 0x%jx bytes at address 0x%jx do not end in its segment",
				     NAME_ARG(s.name), (uintmax_t)s.size, (uintmax_t)s.address);
			s.size = 0;
		}
		if (s.kernel)
			((struct code_kernel *)s.kernel)->size = s.size;
		if (!s.size)
			s.size = object_end_of(p, i, end) - s.address;
		to[i] = s;
	}
	p->object->symbols = to;
	p->object->nsymbols = p->functions.len;
}

static struct uh_error *parse(struct arena *a, struct str name, struct str bytes, struct text *problems, bool metadata,
			      struct code_object **ret)
{
	struct parse p = { .arena = a, .problems = { problems, 0 } };
	struct uh_error *err = elf_open(a, bytes, &p.problems, &p.elf);
	if (err)
		return err;
	struct code_object *o = p.object = arena_alloc(a, sizeof(*o));
	o->name = name;
	o->bytes = bytes;
	o->segments = p.elf.loads;
	o->nsegments = p.elf.nloads;
	o->begin = o->segments[0].address;
	o->end = o->segments[o->nsegments - 1].address + o->segments[o->nsegments - 1].memory_size;
	if (metadata || !code_target_of(p.elf.flags & 0xff)) {
		// Without metadata an object still has symbols and descriptors.
		struct elf_note note;
		if (elf_note(&p.elf, S("AMDGPU"), NOTE_METADATA, &note))
			metadata_read(p.arena, p.elf.bytes, note.text_offset, note.text.n, &p.problems, &p.metadata);
		else if (elf_note(&p.elf, S("AMD"), NOTE_METADATA_V2, &note))
			code_problem(&p.problems, "note at 0x%zx: metadata of code object V2 (YAML) are not read", note.offset);
	}
	object_read_target(&p);
	elf_symbols(&p.elf, object_take_symbol, &p);
	object_read_kernels(&p);
	read_functions(&p);
	vec_free(&p.functions);
	vec_free(&p.descriptors);
	*ret = o;
	return NULL;
}

struct uh_error *code_object_parse(struct arena *a, struct str name, struct str bytes, struct text *problems,
				   struct code_object **ret)
{
	return parse(a, name, bytes, problems, true, ret);
}

struct uh_error *code_object_parse_functions(struct arena *a, struct str name, struct str bytes, struct text *problems,
					     struct code_object **ret)
{
	return parse(a, name, bytes, problems, false, ret);
}

const struct code_symbol *code_object_symbol(const struct code_object *o, uint64_t address)
{
	// The last that begins at @address or before it, without a branch that depends on what is found.
	size_t last = 0;
	for (size_t n = o->nsymbols; n > 1;) {
		size_t half = n / 2;
		last += o->symbols[last + half].address <= address ? half : 0;
		n -= half;
	}
	for (size_t i = 0; i < NESTED_MAX && i <= last && i < o->nsymbols; i++) {
		const struct code_symbol *s = &o->symbols[last - i];
		if (s->address <= address && address - s->address < s->size)
			return s;
	}
	return NULL;
}

struct str code_object_at(const struct code_object *o, uint64_t address)
{
	const struct code_segment *s = elf_segment_at(o->segments, o->nsegments, address);
	if (!s || address - s->address >= s->file_size)
		return (struct str){ 0 };
	uint64_t in = address - s->address;
	return str_cut(str_from(o->bytes, (size_t)(s->offset + in)), (size_t)(s->file_size - in));
}
