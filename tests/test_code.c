// Code objects: every field of one that is written here, byte by byte; then cut at every byte and with every byte changed,
// as are the real ones that are the seeds of the fuzz target.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "code_check.h"
#include "code_writer.h"

enum { TRIAL_SECONDS = 60 }; // for all trials of an object

// --- reading it ---

struct reading {
	struct arena arena;
	struct text problems;
	struct code_object *object; // NULL: an error
	char error[256];
};

static void parse(struct str bytes, struct reading *ret)
{
	*ret = (struct reading){ 0 };
	struct uh_error *err = code_object_parse(&ret->arena, S("k.co"), bytes, &ret->problems, &ret->object);
	if (err)
		snprintf(ret->error, sizeof(ret->error), "%s", uh_error_message(err));
	uh_error_free(err);
}

static void done(struct reading *r)
{
	arena_free(&r->arena);
	text_free(&r->problems);
}

static void parse_whole(const struct layout *l, struct reading *r)
{
	parse(text_str(&l->file), r);
	if (!r->object)
		fail_msg("%s", r->error);
	const char *complaint = code_complaint(r->object);
	if (complaint)
		fail_msg("%s", complaint);
}

#define assert_text(s, z)                                                                                                      \
	do {                                                                                                                   \
		char _text[128];                                                                                               \
		str_copy(_text, sizeof(_text), s);                                                                             \
		assert_string_equal(_text, z);                                                                                 \
	} while (0)

static const struct code_kernel *kernel(const struct code_object *o, const char *name)
{
	for (size_t i = 0; i < o->nkernels; i++)
		if (str_is(o->kernels[i].name, name))
			return &o->kernels[i];
	fail_msg("no kernel %s", name);
	return NULL;
}

static void check_alpha(const struct layout *l, const struct code_kernel *k)
{
	assert_int_equal(k->descriptor, l->descriptors);
	assert_int_equal(k->entry, TEXT_ADDRESS);
	assert_int_equal(k->size, 0x30);
	assert_int_equal(k->vgprs, 43);
	assert_int_equal(k->agprs, 7);
	assert_int_equal(k->sgprs, 300);
	assert_int_equal(k->vgprs_allocated, 56);
	assert_int_equal(k->accum_offset, 44);
	assert_int_equal(k->vgpr_spills, 5);
	assert_int_equal(k->sgpr_spills, 6);
	assert_int_equal(k->lds, 2048);
	assert_int_equal(k->scratch, 96);
	assert_int_equal(k->kernarg_size, 280);
	assert_int_equal(k->max_workgroup, 1024);
	assert_int_equal(k->required_workgroup[0], 64);
	assert_int_equal(k->required_workgroup[1], 2);
	assert_int_equal(k->required_workgroup[2], 1);
	assert_int_equal(k->wave_size, 64);
	assert_true(k->dynamic_stack);
	assert_int_equal(k->narguments, 2);
	assert_text(k->arguments[0].name, "in");
	assert_text(k->arguments[0].type_name, "float*");
	assert_text(k->arguments[0].value_kind, "global_buffer");
	assert_text(k->arguments[0].address_space, "global");
	assert_text(k->arguments[0].access, "read_only");
	assert_int_equal(k->arguments[0].size, 8);
	assert_text(k->arguments[1].name, "n");
	assert_text(k->arguments[1].value_kind, "by_value");
	assert_int_equal(k->arguments[1].offset, 8);
	assert_int_equal(k->arguments[1].size, 4);
}

static void check_symbol(const struct code_object *o, uint64_t address, const char *name, uint64_t begin, uint64_t size,
			 bool is_kernel)
{
	const struct code_symbol *s = code_object_symbol(o, address);
	if (!s)
		fail_msg("no function at 0x%jx", (uintmax_t)address);
	assert_text(s->name, name);
	assert_int_equal(s->address, begin);
	assert_int_equal(s->size, size);
	assert_int_equal(s->kernel != NULL, is_kernel);
	if (is_kernel)
		assert_text(s->kernel->name, name);
}

static void every_field_of_an_object_is_read(void **state)
{
	(void)state;
	for (unsigned long_forms = 0; long_forms < 2; long_forms++) {
		struct layout l;
		struct reading r;
		build(&(struct recipe){ .abi = 3, .long_forms = long_forms }, &l);
		parse_whole(&l, &r);
		const struct code_object *o = r.object;
		assert_int_equal(r.problems.n, 0);
		assert_text(o->name, "k.co");
		assert_text(o->gfx, "gfx90a");
		assert_text(o->target_id, "gfx90a:sramecc+:xnack-");
		assert_int_equal(o->xnack, FEATURE_OFF);
		assert_int_equal(o->sramecc, FEATURE_ON);
		assert_int_equal(o->mach, GFX90A);
		assert_int_equal(o->abi, 3);
		assert_int_equal(o->nsegments, 2);
		assert_int_equal(o->segments[1].flags, PF_R | PF_X);
		assert_int_equal(o->begin, 0);
		assert_int_equal(o->end, TEXT_ADDRESS + TEXT_SIZE);
		assert_int_equal(o->nkernels, NKERNELS);
		check_alpha(&l, kernel(o, "alpha"));
		const struct code_kernel *gamma = kernel(o, "gamma"), *beta = kernel(o, "beta");
		assert_int_equal(gamma->vgprs, 9);
		assert_int_equal(gamma->descriptor, l.descriptors + 128);
		assert_int_equal(gamma->size, 0);
		assert_int_equal(beta->narguments, 0);
		assert_int_equal(beta->wave_size, 64);
		assert_int_equal(o->nsymbols, 4);
		check_symbol(o, TEXT_ADDRESS + 0x2f, "alpha", TEXT_ADDRESS, 0x30, true);
		assert_null(code_object_symbol(o, TEXT_ADDRESS + 0x30));
		assert_null(code_object_symbol(o, TEXT_ADDRESS - 1));
		check_symbol(o, TEXT_ADDRESS + 0x80, "helper", TEXT_ADDRESS + 0x80, 0x44, false);
		check_symbol(o, TEXT_ADDRESS + 0x1ff, "beta", TEXT_ADDRESS + 0x100, 0x100, true);
		struct str bytes = code_object_at(o, TEXT_ADDRESS + 8);
		assert_int_equal(bytes.n, TEXT_SIZE - 8);
		assert_ptr_equal(bytes.p, l.file.p + l.text + 8);
		assert_int_equal(code_object_at(o, TEXT_ADDRESS + TEXT_SIZE).n, 0);
		done(&r);
		text_free(&l.file);
	}
}

/** A function of no size ends with its section; where no symbol names that, with its segment. */
static void a_function_without_a_size_ends_with_its_section(void **state)
{
	(void)state;
	for (unsigned last = 0; last < 3; last++) {
		struct layout l;
		struct reading r;
		build(&(struct recipe){ .abi = 3 }, &l);
		if (last == 1) // beta's symbol is not where its kernel begins
			put_at(&l.file, l.dynsym + 3 * 24 + 8, TEXT_ADDRESS + 0x300, 8);
		if (last == 2) // gamma begins before
			put_at(&l.file, l.descriptors + 128 + 16, TEXT_ADDRESS + 0x40 - l.descriptors - 128, 8);
		parse_whole(&l, &r);
		if (last == 0)
			check_symbol(r.object, TEXT_ADDRESS + 0x3ff, "gamma", TEXT_ADDRESS + 0x200, 0x200, true);
		else if (last == 1)
			check_symbol(r.object, TEXT_ADDRESS + 0x300, "beta", TEXT_ADDRESS + 0x300, 0x80, false);
		else
			check_symbol(r.object, TEXT_ADDRESS + 0x100, "beta", TEXT_ADDRESS + 0x100, 0x280, true);
		done(&r);
		text_free(&l.file);
	}
}

/** More sections than the header can count are counted by the first section. */
static void more_sections_than_a_header_can_count(void **state)
{
	(void)state;
	for (unsigned damaged = 0; damaged < 2; damaged++) {
		struct layout l;
		struct reading r;
		build(&(struct recipe){ .abi = 3 }, &l);
		put_at(&l.file, 60, 0, 2);
		put_at(&l.file, l.sections + 32, damaged ? UINT64_MAX / 64 + 2 : 8, 8);
		parse_whole(&l, &r);
		assert_int_equal(r.object->nsymbols, damaged ? 3 : 4);
		assert_int_equal(r.problems.n != 0, damaged);
		done(&r);
		text_free(&l.file);
	}
}

/** A processor that we do not know, but the metadata name one. */
static void an_unknown_processor_number_is_taken_from_metadata(void **state)
{
	(void)state;
	struct layout l;
	struct reading r;
	build(&(struct recipe){ .abi = 3, .flags = 0xfe | 0x100 }, &l);
	parse_whole(&l, &r);
	assert_text(r.object->target_id, "gfx90a");
	assert_int_equal(r.object->mach, 0xfe);
	assert_int_equal(kernel(r.object, "alpha")->vgprs_allocated, 56);
	assert_true(str_find(text_str(&r.problems), S("e_flags 0x1fe at 0x30 name no processor")) >= 0);
	done(&r);
	text_free(&l.file);
}

static void numbers_of_metadata_in_every_encoding(void **state)
{
	(void)state;
	static const struct {
		struct str packed;
		uint32_t value; // 0: none that fits
	} cases[] = {
		{ S("\x07"), 7 },
		{ S("\xcc\xc8"), 200 },
		{ S("\xcd\x01\x02"), 258 },
		{ S("\xcf\0\0\0\0\0\0\0\x09"), 9 },
		{ S("\xd0\x0a"), 10 },
		{ S("\xd3\0\0\0\0\0\0\0\x0b"), 11 },
		{ S("\xcf\0\0\0\1\0\0\0\x09"), 0 },
		{ S("\xff"), 0 },
		{ S("\xd1\xff\xfe"), 0 },
		{ S("\xca\x3f\x80\0\0"), 0 },
		{ S("\xd6\1\2\3\4\5"), 0 },
		{ S("\xc7\2\1\xaa\xbb"), 0 },
		{ S("\x92\x01\x81\x02\x03"), 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct layout l;
		struct reading r;
		struct text t = { 0 };
		build(&(struct recipe){ .abi = 3 }, &l);
		text_add(&t, S("\x81\xae"
			       "amdhsa.kernels\x91\x83\xa7.symbol\xa8gamma.kd\xab.vgpr_count"));
		text_add(&t, cases[i].packed);
		text_add(&t, S("\xab.agpr_count\x05"));
		memcpy(l.file.p + l.metadata, t.p, t.n);
		put_at(&l.file, l.metadata - 16, t.n, 4);
		parse_whole(&l, &r);
		assert_int_equal(kernel(r.object, "gamma")->vgprs, cases[i].value);
		assert_int_equal(kernel(r.object, "gamma")->agprs, 5);
		assert_int_equal(str_find(text_str(&r.problems), S(".vgpr_count has no value of its kind")) >= 0,
				 !cases[i].value);
		done(&r);
		text_free(&l.file);
		text_free(&t);
	}
}

/** Only program headers: all but what stands in .symtab alone. */
static void an_object_without_sections_is_read_by_its_segments(void **state)
{
	(void)state;
	static const struct recipe recipes[] = {
		{ .abi = 2, .without_sections = true, .hashed = BY_HASH },
		{ .abi = 2, .without_sections = true, .hashed = BY_GNU_HASH },
		{ .abi = 2, .without_sections = true, .hashed = BY_NOTHING },
		{ .abi = 2, .without_symtab = true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(recipes); i++) {
		struct layout l;
		struct reading r;
		build(&recipes[i], &l);
		parse_whole(&l, &r);
		assert_int_equal(r.problems.n, 0);
		assert_int_equal(r.object->nkernels, NKERNELS);
		check_alpha(&l, kernel(r.object, "alpha"));
		assert_int_equal(r.object->nsymbols, 3);
		assert_null(code_object_symbol(r.object, TEXT_ADDRESS + 0x80));
		check_symbol(r.object, TEXT_ADDRESS + 0x180, "beta", TEXT_ADDRESS + 0x100, 0x100, true);
		done(&r);
		text_free(&l.file);
	}
}

static void kernels_without_metadata_come_from_descriptors(void **state)
{
	(void)state;
	struct layout l;
	struct reading r;
	build(&(struct recipe){ .abi = 3, .without_metadata = true }, &l);
	parse_whole(&l, &r);
	const struct code_kernel *k = kernel(r.object, "alpha");
	assert_int_equal(r.object->nkernels, NKERNELS);
	assert_int_equal(k->lds, 2048);
	assert_int_equal(k->kernarg_size, 280);
	assert_int_equal(k->vgprs, 0);
	assert_int_equal(k->vgprs_allocated, 56);
	done(&r);
	text_free(&l.file);
}

static void registers_are_counted_by_the_processor(void **state)
{
	(void)state;
	static const struct {
		uint32_t flags;
		unsigned char osabi, abi;
		bool wave32;
		const char *target_id;
		unsigned vgprs, accum;
	} cases[] = {
		{ 0x3f | 0x500, 64, 3, false, "gfx90a", 56, 44 },
		{ 0x4c | 0x800 | 0x300, 64, 2, false, "gfx942:sramecc-:xnack+", 56, 44 },
		{ 0x4f | 0x400 | 0x300, 64, 4, false, "gfx950:xnack+", 56, 44 },
		{ 0x2c | 0x100, 64, 1, false, "gfx900:xnack+", 28, 0 },
		{ 0x30, 64, 1, false, "gfx908:sramecc-:xnack-", 28, 0 },
		{ 0x2f | 0x200, 66, 0, false, "gfx906:sramecc+:xnack-", 28, 0 },
		{ 0x36, 64, 3, true, "gfx1030", 56, 0 },
		{ 0x36, 65, 0, false, "gfx1030", 28, 0 },
		{ 0x41, 64, 3, true, "gfx1100", 56, 0 },
		{ 0x4a, 64, 3, true, "gfx1151", 56, 0 },
		{ 0x58, 64, 3, true, "gfx1153", 56, 0 },
		{ 0x4e, 64, 3, true, "gfx1201", 56, 0 },
		{ 0x49, 64, 4, true, "gfx1250", 112, 0 },
		{ 0x5f | 0x500 | 1 << 24, 64, 4, false, "gfx9-4-generic", 56, 44 },
		{ 0xfe | 0x100, 64, 3, false, "", 0, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct layout l;
		struct reading r;
		build(&(struct recipe){ .flags = cases[i].flags,
					.osabi = cases[i].osabi,
					.abi = cases[i].abi,
					.wave32 = cases[i].wave32,
					.without_metadata = true },
		      &l);
		parse_whole(&l, &r);
		assert_text(r.object->target_id, cases[i].target_id);
		assert_int_equal(r.object->kernels[0].vgprs_allocated, cases[i].vgprs);
		assert_int_equal(r.object->kernels[0].accum_offset, cases[i].accum);
		assert_int_equal(r.object->kernels[0].wave_size, cases[i].wave32 ? 32 : 64);
		assert_int_equal(r.problems.n != 0, !*cases[i].target_id);
		done(&r);
		text_free(&l.file);
	}
}

// --- damage ---

/** @size bytes at @at become @value: an error, or a line of problems, says @text. */
struct damage {
	size_t at;
	uint64_t value;
	size_t size;
	const char *text;
	bool fatal;
	size_t nkernels; // that are still found
};

static void check_damage(const struct recipe *recipe, const struct damage *d)
{
	struct layout l;
	struct reading r;
	build(recipe, &l);
	put_at(&l.file, d->at, d->value, d->size);
	parse(text_str(&l.file), &r);
	if (!r.object != d->fatal)
		fail_msg("0x%zx: %s", d->at, r.object ? "no error" : r.error);
	struct str said = r.object ? text_str(&r.problems) : str_z(r.error);
	if (str_find(said, str_z(d->text)) < 0)
		fail_msg("0x%zx: not '%s' but '" STR_FMT "'", d->at, d->text, STR_ARG(said));
	if (r.object)
		assert_int_equal(r.object->nkernels, d->nkernels);
	done(&r);
	text_free(&l.file);
}

/** Where in the file @s ends. */
static size_t behind(const struct layout *l, struct str s) { return (size_t)str_find(text_str(&l->file), s) + s.n; }

static void each_kind_of_damage_is_told_and_the_rest_read(void **state)
{
	(void)state;
	struct layout l;
	const struct recipe whole = { .abi = 3 };
	build(&whole, &l);
	size_t size = behind(&l, S(".reqd_workgroup_size")), gamma = behind(&l, S(".symbol\xa8gamma"));
	text_free(&l.file);
	char metadata[64], kd[64];
	snprintf(metadata, sizeof(metadata), "metadata at 0x%zx: the note is no map", l.metadata);
	snprintf(kd, sizeof(kd), "kernel descriptor at address 0x%zx: its code would be at address", l.descriptors);
	const struct damage cases[] = {
		{ 1, 'F', 1, "ELF header at 0x0: it does not begin", true, 0 },
		{ 4, 1, 1, "ELF header at 0x0: class 1", true, 0 },
		{ 5, 2, 1, "byte order 2", true, 0 },
		{ 16, ET_CORE, 2, "ELF header at 0x0: type 4 at 0x10", true, 0 },
		{ 16, ET_REL, 2, "type 1 at 0x10", true, 0 },
		{ 18, 62, 2, "machine 62 at 0x12", true, 0 },
		{ 32, UINT64_MAX, 8, "program headers at 0xffffffffffffffff: the bytes of 4", true, 0 },
		{ 54, 32, 2, "a program header of 32 bytes", true, 0 },
		{ 56, 0, 2, "no program headers", true, 0 },
		{ 56, 0xffff, 2, "the bytes of 65535 do not lie", true, 0 },
		{ 8, 77, 1, "ABI version 77 at 0x8", false, 3 },
		{ 48, 0x3e, 1, "mean gfx1034, the metadata say gfx90a", false, 3 },
		{ 40, UINT64_MAX - 8, 8, "section headers at 0xfffffffffffffff7: the bytes of 8", false, 3 },
		{ 58, 63, 2, "a section header of 63 bytes", false, 3 },
		{ l.sections + 4 * 64 + 24, 1 << 30, 8, "section header 4 at 0x", false, 3 },
		{ l.sections + 4 * 64 + 40, 99, 4, "section header 4: the names of its symbols are in section 99", false, 3 },
		{ 64 + 56 + 8, 1 << 30, 8, "program header 1: its bytes 0x40000000+0x400 lie outside the file", false, 3 },
		{ 64 + 56 + 16, 0, 8, "program header 1: addresses 0x0+0x400 do not lie behind", false, 3 },
		{ 64 + 56 + 40, UINT64_MAX, 8, "program header 1: addresses", false, 3 },
		{ l.metadata, 0x90, 1, metadata, false, 3 },
		{ l.metadata - 16, l.descriptors - l.metadata + 4, 4, "note at 0x", false, 3 },
		{ size, 0x94, 1, "a size has 4 dimensions", false, 3 },
		{ gamma - 5, 0x6168706c61, 5, "kernel alpha is there twice", false, 3 },
		{ l.descriptors + 16, 1ull << 40, 8, kd, false, 3 },
		{ l.descriptors + 56, 0x400, 2, "waves of 32, the metadata say 64", false, 3 },
		{ l.dynsym + 24 + 8, 1ull << 40, 8, "symbol alpha: its address 0x10000000000 lies in no segment", false, 3 },
		{ l.dynsym + 3 * 24 + 8, TEXT_ADDRESS + TEXT_SIZE, 8, "symbol beta: its address 0x2400 lies in no segment",
		  false, 3 },
		{ l.dynsym + 3 * 24 + 16, 1ull << 40, 8, "symbol beta: 0x10000000000 bytes at address 0x2100 do not end", false,
		  3 },
		{ l.dynsym + 4 * 24 + 8, 1ull << 40, 8, "kernel descriptor beta.kd: its 64 bytes at address 0x10000000000",
		  false, 2 },
		{ l.dynsym + 6 * 24, 0x7fffffff, 4, "dynamic symbol table: entry 6 at 0x", false, 3 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_damage(&whole, &cases[i]);
	// The dynamic segment says where symbols are; they are in memory, but not in the file.
	const struct damage dynamic[] = {
		{ 64 + 2 * 56 + 32, UINT64_MAX, 8, "dynamic segment: its bytes 0x", false, 2 },
		{ 64 + 32, l.dynsym - 24, 8, "symbols at address 0x", false, 2 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(dynamic); i++)
		check_damage(&(struct recipe){ .abi = 3, .without_sections = true }, &dynamic[i]);
}

/** Parses a copy that ends where its memory does. */
static bool try_bytes(struct str bytes)
{
	char *copy = malloc(bytes.n ? bytes.n : 1);
	struct reading r;
	memcpy(copy, bytes.p, bytes.n);
	parse((struct str){ copy, bytes.n }, &r);
	const char *complaint = r.object ? code_complaint(r.object) : NULL;
	if (complaint)
		fail_msg("%s", complaint);
	bool ok = r.object && !r.problems.n;
	if (!r.object)
		assert_non_null(strstr(r.error, " at 0x"));
	if (r.problems.n)
		assert_int_equal(r.problems.p[r.problems.n - 1], '\n');
	done(&r);
	free(copy);
	return ok;
}

/** @needed: bytes without which it cannot be whole. */
static void torment(struct str bytes, size_t needed)
{
	static const unsigned char changes[] = { 0x01, 0x80, 0xff, 0x40 };
	clock_t begin = clock();
	assert_true(try_bytes(bytes));
	for (size_t n = 0; n < bytes.n; n++)
		if (try_bytes(str_cut(bytes, n)) && n < needed)
			fail_msg("nothing is said of what is missing behind 0x%zx", n);
	char *changed = malloc(bytes.n);
	memcpy(changed, bytes.p, bytes.n);
	for (size_t at = 0; at < bytes.n; at++) {
		for (size_t i = 0; i < sizeof(changes); i++) {
			changed[at] = (char)((unsigned char)bytes.p[at] ^ changes[i]);
			try_bytes((struct str){ changed, bytes.n });
		}
		changed[at] = bytes.p[at];
	}
	free(changed);
	assert_true((clock() - begin) / CLOCKS_PER_SEC < TRIAL_SECONDS);
}

static void objects_cut_or_changed_at_any_byte_harm_nobody(void **state)
{
	(void)state;
	static const struct recipe recipes[] = {
		{ .abi = 3 },
		{ .abi = 3, .long_forms = true },
		{ .abi = 2, .without_sections = true, .hashed = BY_HASH },
		{ .abi = 2, .without_sections = true, .hashed = BY_GNU_HASH },
		{ .abi = 2, .without_sections = true, .hashed = BY_NOTHING },
	};
	for (size_t i = 0; i < ARRAY_SIZE(recipes); i++) {
		struct layout l;
		build(&recipes[i], &l);
		torment(text_str(&l.file), l.file.n);
		text_free(&l.file);
	}
}

static void seeds_cut_or_changed_at_any_byte_harm_nobody(void **state)
{
	(void)state;
	static const char *const seeds[] = { SEEDS "/code-object/gfx90a", SEEDS "/code-object/gfx1100" };
	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
		static char bytes[8 << 10];
		FILE *in = fopen(seeds[i], "rb");
		assert_non_null(in);
		size_t n = fread(bytes, 1, sizeof(bytes), in);
		fclose(in);
		torment((struct str){ bytes, n }, n);
	}
}

/** Metadata that promise more than they hold: neither memory nor time goes by what a count says. */
static void metadata_that_promises_too_much_costs_no_memory(void **state)
{
	(void)state;
	static const struct str promises[] = {
		S("\x81\xae"
		  "amdhsa.kernels\xdd\xff\xff\xff\xff"),
		S("\x81\xae"
		  "amdhsa.kernels\x91\x81\xa5.args\xdd\xff\xff\xff\xff\x80\x80"),
		S("\xdf\xff\xff\xff\xff\xdf\xff\xff\xff\xff\xdf\xff\xff\xff\xff"),
		S("\x81\xa1x\xce\x01"),
		S("\x81\xa1x\xdb\xff\xff\xff\xff"),
	};
	for (size_t i = 0; i < ARRAY_SIZE(promises); i++) {
		struct layout l;
		struct reading r;
		build(&(struct recipe){ .abi = 3 }, &l);
		memcpy(l.file.p + l.metadata, promises[i].p, promises[i].n);
		put_at(&l.file, l.metadata - 16, promises[i].n, 4);
		parse(text_str(&l.file), &r);
		assert_non_null(r.object);
		assert_true(str_find(text_str(&r.problems), S("is cut off or none")) >= 0);
		assert_int_equal(r.object->nkernels, NKERNELS);
		assert_true(r.arena.total < 256 << 10);
		done(&r);
		text_free(&l.file);
	}
}

/** Symbols whose names are all the same long one would make a small file cost as much as a huge one. */
static void names_that_lie_over_each_other_cost_no_time(void **state)
{
	(void)state;
	enum { SYMBOLS = 100000, NAME = 2 << 20 };
	struct layout l;
	struct reading r;
	build(&(struct recipe){ .abi = 3 }, &l);
	size_t symbols = l.file.n, section = l.sections + 6 * 64;
	for (unsigned i = 0; i < SYMBOLS; i++)
		put_symbol(&l.file, 1 + i % 16, GLOBAL_FUNC, IN_TEXT, TEXT_ADDRESS + i % TEXT_SIZE, 4);
	size_t at = l.file.n;
	char *name = malloc(NAME);
	memset(name, 'x', NAME);
	name[NAME - 1] = 0;
	text_add(&l.file, (struct str){ name, NAME });
	free(name);
	put_at(&l.file, section + 24, symbols, 8);
	put_at(&l.file, section + 32, SYMBOLS * 24, 8);
	put_at(&l.file, section + 64 + 24, at, 8);
	put_at(&l.file, section + 64 + 32, NAME, 8);
	clock_t begin = clock();
	parse(text_str(&l.file), &r);
	assert_true((clock() - begin) / CLOCKS_PER_SEC < 2);
	assert_non_null(r.object);
	assert_true(str_find(text_str(&r.problems), S("lie over each other")) >= 0);
	done(&r);
	text_free(&l.file);
}

/** A name out of the file does not begin a line, and a file that is damaged everywhere does not fill the screen. */
static void complaints_are_bounded_and_clean(void **state)
{
	(void)state;
	enum { SYMBOLS = 100, LINES = 16 };
	struct layout l;
	struct reading r;
	build(&(struct recipe){ .abi = 3 }, &l);
	size_t symbols = l.file.n, section = l.sections + 6 * 64, lines = 0;
	for (unsigned i = 0; i < SYMBOLS; i++)
		put_symbol(&l.file, N_HELPER, GLOBAL_FUNC, IN_TEXT, 1 << 20, 4);
	l.file.p[l.strtab + N_HELPER + 2] = '\n';
	put_at(&l.file, section + 24, symbols, 8);
	put_at(&l.file, section + 32, SYMBOLS * 24, 8);
	parse_whole(&l, &r);
	for (struct str rest = text_str(&r.problems); rest.n; lines++)
		assert_true(str_starts(str_split(&rest, '\n'), S("symbol he?per: its address 0x100000 lies in no segment")));
	assert_int_equal(lines, LINES);
	assert_true(str_ends(text_str(&r.problems), S("; more is damaged\n")));
	done(&r);
	text_free(&l.file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_of_an_object_is_read),
		cmocka_unit_test(a_function_without_a_size_ends_with_its_section),
		cmocka_unit_test(more_sections_than_a_header_can_count),
		cmocka_unit_test(an_unknown_processor_number_is_taken_from_metadata),
		cmocka_unit_test(numbers_of_metadata_in_every_encoding),
		cmocka_unit_test(an_object_without_sections_is_read_by_its_segments),
		cmocka_unit_test(kernels_without_metadata_come_from_descriptors),
		cmocka_unit_test(registers_are_counted_by_the_processor),
		cmocka_unit_test(each_kind_of_damage_is_told_and_the_rest_read),
		cmocka_unit_test(objects_cut_or_changed_at_any_byte_harm_nobody),
		cmocka_unit_test(seeds_cut_or_changed_at_any_byte_harm_nobody),
		cmocka_unit_test(metadata_that_promises_too_much_costs_no_memory),
		cmocka_unit_test(names_that_lie_over_each_other_cost_no_time),
		cmocka_unit_test(complaints_are_bounded_and_clean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
