// Writes a small code object, part by part, for tests: kernels alpha (whole), beta (its size is not known, and the metadata do not
// list it) and gamma (a descriptor only), and a function helper.
#pragma once

#include <elf.h>

#include "base/arena.h"

enum {
	NKERNELS = 3,
	TEXT_ADDRESS = 0x2000,
	TEXT_SIZE = 0x400,
	GFX90A = 0x3f,
};

enum hashed { BY_HASH, BY_GNU_HASH, BY_NOTHING };

/** What the written object has; zero is the usual. */
struct recipe {
	uint32_t flags; // 0: gfx90a:sramecc+:xnack-
	unsigned char abi, osabi;
	bool without_sections, without_symtab, without_metadata, wave32, long_forms;
	enum hashed hashed;
};

/** Where the parts of a written object lie. */
struct layout {
	struct text file;
	size_t note, descriptors, dynsym, hash, dynstr, dynamic, text, symtab, strtab, sections;
	size_t metadata;
};

static void put(struct text *t, uint64_t v, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		char c = i < sizeof(v) ? (char)(v >> 8 * i) : 0;
		text_add(t, (struct str){ &c, 1 });
	}
}

static void put_at(struct text *t, size_t at, uint64_t v, size_t size)
{
	for (size_t i = 0; i < size; i++)
		t->p[at + i] = (char)(v >> 8 * i);
}

static size_t align(struct text *t, size_t to)
{
	while (t->n % to)
		put(t, 0, 1);
	return t->n;
}

/** A head of msgpack: its short form, or with 32-bit numbers. */
static void pack_head(struct text *t, bool long_form, unsigned char one, unsigned char five, uint32_t n)
{
	if (!long_form) {
		put(t, one | n, 1);
		return;
	}
	put(t, five, 1);
	for (int i = 3; i >= 0; i--)
		put(t, n >> 8 * i, 1);
}

struct packer {
	struct text *t;
	bool long_forms;
};

static void pack_map(struct packer p, uint32_t n) { pack_head(p.t, p.long_forms, 0x80, 0xdf, n); }
static void pack_array(struct packer p, uint32_t n) { pack_head(p.t, p.long_forms, 0x90, 0xdd, n); }
static void pack_text(struct packer p, const char *z)
{
	pack_head(p.t, p.long_forms || strlen(z) > 31, 0xa0, 0xdb, (uint32_t)strlen(z));
	text_add(p.t, str_z(z));
}
static void pack_number(struct packer p, uint32_t n) { pack_head(p.t, p.long_forms || n > 127, 0, 0xce, n); }

static void pack_pair(struct packer p, const char *key, uint32_t n)
{
	pack_text(p, key);
	pack_number(p, n);
}

static void pack_argument(struct packer p, const char *name, uint32_t offset, uint32_t size, const char *kind)
{
	pack_map(p, 8);
	pack_text(p, ".name");
	pack_text(p, name);
	pack_text(p, ".type_name");
	pack_text(p, "float*");
	pack_pair(p, ".offset", offset);
	pack_pair(p, ".size", size);
	pack_text(p, ".value_kind");
	pack_text(p, kind);
	pack_text(p, ".address_space");
	pack_text(p, "global");
	pack_text(p, ".actual_access");
	pack_text(p, "read_only");
	pack_text(p, ".unknown");
	pack_array(p, 2);
	pack_map(p, 1);
	pack_pair(p, "deep", 1);
	pack_number(p, 2);
}

static void pack_metadata(struct packer p, bool wave32)
{
	pack_map(p, 3);
	pack_text(p, "amdhsa.version");
	pack_array(p, 2);
	pack_number(p, 1);
	pack_number(p, 2);
	pack_text(p, "amdhsa.kernels");
	pack_array(p, 2);
	pack_map(p, 15);
	pack_text(p, ".name");
	pack_text(p, "alpha");
	pack_text(p, ".symbol");
	pack_text(p, "alpha.kd");
	pack_pair(p, ".vgpr_count", 43);
	pack_pair(p, ".agpr_count", 7);
	pack_pair(p, ".sgpr_count", 300);
	pack_pair(p, ".vgpr_spill_count", 5);
	pack_pair(p, ".sgpr_spill_count", 6);
	pack_pair(p, ".group_segment_fixed_size", 2048);
	pack_pair(p, ".private_segment_fixed_size", 96);
	pack_pair(p, ".kernarg_segment_size", 280);
	pack_pair(p, ".max_flat_workgroup_size", 1024);
	pack_pair(p, ".wavefront_size", wave32 ? 32 : 64);
	pack_text(p, ".reqd_workgroup_size");
	pack_array(p, 3);
	pack_number(p, 64);
	pack_number(p, 2);
	pack_number(p, 1);
	pack_text(p, ".uses_dynamic_stack");
	put(p.t, 0xc3, 1);
	pack_text(p, ".args");
	pack_array(p, 2);
	pack_argument(p, "in", 0, 8, "global_buffer");
	pack_argument(p, "n", 8, 4, "by_value");
	pack_map(p, 2);
	pack_text(p, ".symbol");
	pack_text(p, "gamma.kd");
	pack_pair(p, ".vgpr_count", 9);
	pack_text(p, "amdhsa.target");
	pack_text(p, "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-");
}

static void put_note(struct layout *l, const struct recipe *r)
{
	struct text *t = &l->file;
	l->note = align(t, 4);
	put(t, 4, 4); // a note of another owner before
	put(t, 1, 4);
	put(t, 32, 4);
	text_add(t, S("GNU\0x\0\0\0"));
	size_t at = t->n;
	put(t, 7, 4);
	put(t, 0, 4);
	put(t, r->without_metadata ? 31 : 32, 4);
	text_add(t, S("AMDGPU\0\0"));
	l->metadata = t->n;
	pack_metadata((struct packer){ t, r->long_forms }, r->wave32);
	put_at(t, at + 4, t->n - l->metadata, 4);
	align(t, 4);
}

static void put_descriptor(struct text *t, uint64_t entry, bool wave32, uint32_t lds)
{
	size_t at = t->n;
	put(t, lds, 4);
	put(t, lds ? 96 : 0, 4);
	put(t, lds ? 280 : 0, 4);
	put(t, 0, 4);
	put(t, entry - at, 8); // the address of this segment's bytes is their offset
	for (unsigned i = 0; i < 20; i++)
		put(t, 0, 1);
	put(t, 10, 4);   // rsrc3: accumulation VGPRs from 44 on
	put(t, 6, 4);    // rsrc1: seven granules
	put(t, 0x90, 4); // rsrc2
	put(t, wave32 << 10, 2);
	put(t, 0, 6);
}

static void put_symbol(struct text *t, uint32_t name, unsigned info, unsigned section, uint64_t address, uint64_t size)
{
	put(t, name, 4);
	put(t, info, 1);
	put(t, 3, 1);
	put(t, section, 2);
	put(t, address, 8);
	put(t, size, 8);
}

static const char names[] = "\0alpha\0alpha.kd\0beta\0beta.kd\0gamma.kd\0helper\0alias\0outside";
enum { N_ALPHA = 1, N_ALPHA_KD = 7, N_BETA = 16, N_BETA_KD = 21, N_GAMMA_KD = 29, N_HELPER = 38, N_ALIAS = 45, N_OUTSIDE = 51 };
enum { IN_RODATA = 1, IN_TEXT = 2, GLOBAL_FUNC = STB_GLOBAL << 4 | STT_FUNC, GLOBAL_OBJECT = STB_GLOBAL << 4 | STT_OBJECT };

/** alpha is whole; beta's size is not known; gamma has a descriptor only. */
static void put_dynamic(struct layout *l, enum hashed hashed)
{
	struct text *t = &l->file;
	l->dynsym = align(t, 8);
	put_symbol(t, 0, 0, 0, 0, 0);
	put_symbol(t, N_ALPHA, GLOBAL_FUNC, IN_TEXT, TEXT_ADDRESS, 0x30);
	put_symbol(t, N_ALPHA_KD, GLOBAL_OBJECT, IN_RODATA, l->descriptors, 64);
	put_symbol(t, N_BETA, GLOBAL_FUNC, IN_TEXT, TEXT_ADDRESS + 0x100, 0);
	put_symbol(t, N_BETA_KD, GLOBAL_OBJECT, IN_RODATA, l->descriptors + 64, 64);
	put_symbol(t, N_OUTSIDE, GLOBAL_FUNC, SHN_UNDEF, 0, 0);
	put_symbol(t, N_GAMMA_KD, GLOBAL_OBJECT, IN_RODATA, l->descriptors + 128, 64);
	l->hash = t->n;
	if (hashed == BY_HASH) {
		put(t, 1, 4);
		put(t, 7, 4);
		put(t, 0, 4 * 8);
	} else if (hashed == BY_GNU_HASH) {
		put(t, 2, 4); // two buckets, the first symbol is 1, a bloom word
		put(t, 1, 4);
		put(t, 1, 4);
		put(t, 0, 4 + 8);
		put(t, 1, 4);
		put(t, 4, 4);
		for (unsigned i = 1; i < 7; i++) // chains 1-3 and 4-6
			put(t, i == 3 || i == 6, 4);
	}
	l->dynstr = t->n;
	text_add(t, (struct str){ names, sizeof(names) });
	l->dynamic = align(t, 8);
	const uint64_t entries[][2] = { { DT_SYMTAB, l->dynsym },
					{ DT_STRTAB, l->dynstr },
					{ DT_STRSZ, sizeof(names) },
					{ hashed == BY_HASH     ? DT_HASH :
					  hashed == BY_GNU_HASH ? DT_GNU_HASH :
								  DT_DEBUG,
					  l->hash },
					{ DT_NULL, 0 } };
	for (size_t i = 0; i < 5; i++) {
		put(t, entries[i][0], 8);
		put(t, entries[i][1], 8);
	}
}

static void put_section(struct text *t, uint32_t type, uint64_t address, uint64_t offset, uint64_t size, uint32_t link)
{
	put(t, 0, 4);
	put(t, type, 4);
	put(t, address ? SHF_ALLOC : 0, 8);
	put(t, address, 8);
	put(t, offset, 8);
	put(t, size, 8);
	put(t, link, 4);
	put(t, 0, 4 + 8 + 8);
}

static void put_sections(struct layout *l, const struct recipe *r)
{
	struct text *t = &l->file;
	l->symtab = align(t, 8);
	put_symbol(t, 0, 0, 0, 0, 0);
	put_symbol(t, N_ALIAS, STB_LOCAL << 4 | STT_FUNC, IN_TEXT, TEXT_ADDRESS, 0x20);
	put_symbol(t, N_ALPHA, GLOBAL_FUNC, IN_TEXT, TEXT_ADDRESS, 0x30);
	put_symbol(t, N_HELPER, STB_LOCAL << 4 | STT_FUNC, IN_TEXT, TEXT_ADDRESS + 0x80, 0x44);
	l->strtab = t->n;
	text_add(t, (struct str){ names, sizeof(names) });
	l->sections = align(t, 8);
	put_section(t, SHT_NULL, 0, 0, 0, 0);
	put_section(t, SHT_PROGBITS, l->descriptors, l->descriptors, 3 * 64, 0);
	put_section(t, SHT_PROGBITS, TEXT_ADDRESS, l->text, 0x380, 0);
	put_section(t, SHT_NOTE, l->note, l->note, l->descriptors - l->note, 0);
	put_section(t, SHT_DYNSYM, l->dynsym, l->dynsym, 7 * 24, 5);
	put_section(t, SHT_STRTAB, l->dynstr, l->dynstr, sizeof(names), 0);
	put_section(t, r->without_symtab ? SHT_PROGBITS : SHT_SYMTAB, 0, l->symtab, 4 * 24, 7);
	put_section(t, SHT_STRTAB, 0, l->strtab, sizeof(names), 0);
	put_at(t, 40, l->sections, 8);
	put_at(t, 58, 64 | 8 << 16, 4);
}

static void put_segment(struct text *t, size_t i, uint32_t type, uint64_t offset, uint64_t address, uint64_t size)
{
	size_t at = 64 + i * 56;
	put_at(t, at, type, 4);
	put_at(t, at + 4, address == TEXT_ADDRESS ? PF_R | PF_X : PF_R, 4);
	put_at(t, at + 8, offset, 8);
	put_at(t, at + 16, address, 8);
	put_at(t, at + 24, address, 8);
	put_at(t, at + 32, size, 8);
	put_at(t, at + 40, size, 8);
}

static void build(const struct recipe *r, struct layout *l)
{
	*l = (struct layout){ 0 };
	struct text *t = &l->file;
	text_add(t, S("\x7f"
		      "ELF\x02\x01\x01"));
	put(t, r->osabi ? r->osabi : 64, 1);
	put(t, r->abi, 1);
	while (t->n < 64 + 4 * 56)
		put(t, 0, 1);
	put_at(t, 16, ET_DYN | 224 << 16, 4);
	put_at(t, 20, 1, 4);
	put_at(t, 32, 64, 8);
	put_at(t, 48, r->flags ? r->flags : GFX90A | 0xc00 | 0x200, 4);
	put_at(t, 52, 64 | 56 << 16, 4);
	put_at(t, 56, 4, 2);
	put_note(l, r);
	l->descriptors = align(t, 64);
	put_descriptor(t, TEXT_ADDRESS, r->wave32, 2048);
	put_descriptor(t, TEXT_ADDRESS + 0x100, r->wave32, 0);
	put_descriptor(t, TEXT_ADDRESS + 0x200, r->wave32, 0);
	put_dynamic(l, r->hashed);
	size_t end = t->n;
	l->text = align(t, 256);
	for (unsigned i = 0; i < TEXT_SIZE / 4; i++)
		put(t, 0xbf800000 | i, 4);
	put_segment(t, 0, PT_LOAD, 0, 0, end);
	put_segment(t, 1, PT_LOAD, l->text, TEXT_ADDRESS, TEXT_SIZE);
	put_segment(t, 2, PT_DYNAMIC, l->dynamic, l->dynamic, end - l->dynamic);
	put_segment(t, 3, PT_NOTE, l->note, l->note, l->descriptors - l->note);
	if (!r->without_sections)
		put_sections(l, r);
}
