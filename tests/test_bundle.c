// Containers of code objects, written here byte by byte: what is found in each; then cut at every byte and with every byte
// changed. Also the names of targets and of places.
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include <elf.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "code/object/bundle.h"
#include "code/object/unpack.h"
#include "code/names.h"

#define GFX90A "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"
#define GFX1100 "hipv4-amdgcn-amd-amdhsa--gfx1100"
#define PACKED GFX90A " 0xd0 194 unpacked; " GFX1100 " 0x198 204 unpacked; "

// --- writers ---

static void put(struct text *t, const void *p, size_t n) { text_add(t, (struct str){ p, n }); }
static void put16(struct text *t, uint16_t v) { put(t, &v, sizeof(v)); }
static void put32(struct text *t, uint32_t v) { put(t, &v, sizeof(v)); }
static void put64(struct text *t, uint64_t v) { put(t, &v, sizeof(v)); }
static void pad(struct text *t, size_t align)
{
	while (t->n % align)
		put(t, "", 1);
}

/** An object of GPU code with @n bytes of content and a section header table. */
static void put_object(struct text *t, char fill, size_t n)
{
	Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1, 64 },
			 .e_type = ET_DYN,
			 .e_machine = 224,
			 .e_version = 1,
			 .e_phoff = sizeof(h),
			 .e_ehsize = sizeof(h),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 1,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 1 };
	Elf64_Phdr p = { .p_type = PT_LOAD, .p_filesz = sizeof(h) + sizeof(p) + n };
	Elf64_Shdr s = { 0 };
	h.e_shoff = p.p_filesz;
	put(t, &h, sizeof(h));
	put(t, &p, sizeof(p));
	for (size_t i = 0; i < n; i++)
		put(t, &fill, 1);
	put(t, &s, sizeof(s));
}

enum { OBJECT = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + sizeof(Elf64_Shdr) };

/** A bundle with an entry for the host and two objects; @align as -bundle-align. */
static void put_bundle(struct text *t, size_t align)
{
	const char *names[] = { "host-x86_64-unknown-linux-gnu", GFX90A, GFX1100 };
	struct text body = { 0 };
	uint64_t offsets[3] = { 0 }, sizes[3] = { 0, OBJECT + 10, OBJECT + 20 };
	size_t table = 32;
	for (int i = 0; i < 3; i++)
		table += 24 + strlen(names[i]);
	table = (table + align - 1) / align * align;
	for (int i = 0; i < 3; i++) {
		pad(&body, align);
		offsets[i] = table + body.n;
		if (i)
			put_object(&body, (char)('0' + i), 10 * (size_t)i);
	}
	size_t begin = t->n;
	put(t, "__CLANG_OFFLOAD_BUNDLE__", 24);
	put64(t, 3);
	for (int i = 0; i < 3; i++) {
		put64(t, offsets[i]);
		put64(t, sizes[i]);
		put64(t, strlen(names[i]));
		put(t, names[i], strlen(names[i]));
	}
	while (t->n - begin < table)
		put(t, "", 1);
	put(t, body.p, body.n);
	text_free(&body);
}

static void put_packed(struct text *t, struct str s, bool zstd)
{
	uLongf n = compressBound(s.n) + ZSTD_compressBound(s.n);
	_cleanup_free_ uint8_t *to = mem_alloc(n);
	if (zstd)
		n = ZSTD_compress(to, n, s.p, s.n, 3);
	else
		compress(to, &n, (const Bytef *)s.p, s.n);
	put(t, to, n);
}

static void put_compressed(struct text *t, unsigned version, bool zstd)
{
	struct text bundle = { 0 }, packed = { 0 };
	put_bundle(&bundle, 8);
	put_packed(&packed, text_str(&bundle), zstd);
	put(t, "CCOB", 4);
	put16(t, (uint16_t)version);
	put16(t, zstd);
	if (version == 3) {
		put64(t, 32 + packed.n);
		put64(t, bundle.n);
	} else {
		if (version == 2)
			put32(t, (uint32_t)(24 + packed.n));
		put32(t, (uint32_t)bundle.n);
	}
	put64(t, unpack_hash((uint8_t *)bundle.p, bundle.n));
	put(t, packed.p, packed.n);
	text_free(&bundle);
	text_free(&packed);
}

/** LLVM's offload binary; 0 as @packed: not compressed. */
static void put_offload(struct text *t, unsigned version, bool packed)
{
	static const char strings[] = "\0triple\0amdgcn-amd-amdhsa\0arch\0gfx942";
	size_t header = version == 3 ? 40 : 32, row = version == 1 ? 16 : 24;
	size_t table = header + 40 + 2 * row, image = table + sizeof(strings);
	struct text body = { 0 };
	put16(&body, 1); // an object
	put16(&body, 4); // of HIP
	put32(&body, 0);
	put64(&body, header + 40);
	put64(&body, 2);
	put64(&body, image);
	put64(&body, OBJECT + 5);
	put64(&body, table + 1);
	put64(&body, table + 8);
	if (version > 1)
		put64(&body, 17);
	put64(&body, table + 26);
	put64(&body, table + 31);
	if (version > 1)
		put64(&body, 6);
	put(&body, strings, sizeof(strings));
	put_object(&body, 'x', 5);
	struct text small = { 0 };
	if (packed)
		put_packed(&small, text_str(&body), true);
	put(t, "\x10\xff\x10\xad", 4);
	put32(t, version);
	put64(t, header + (packed ? small.n : body.n));
	put64(t, header);
	put64(t, version == 1 ? 40 : 1);
	if (version == 3)
		put64(t, packed ? header + body.n : 0);
	put(t, packed ? small.p : body.p, packed ? small.n : body.n);
	assert_int_equal(image + OBJECT + 5, header + body.n);
	text_free(&body);
	text_free(&small);
}

struct part {
	const char *name;
	struct text *bytes;
};

/** A program for x86-64 with these sections; without their headers where @stripped. */
static void put_host(struct text *t, const struct part *parts, size_t n, bool stripped)
{
	struct text names = { 0 };
	size_t begin = t->n, at[8], name[8];
	Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
			 .e_type = ET_REL,
			 .e_machine = EM_X86_64,
			 .e_version = 1,
			 .e_ehsize = sizeof(h),
			 .e_shentsize = sizeof(Elf64_Shdr) };
	put(t, &h, sizeof(h));
	put(&names, "", 1);
	for (size_t i = 0; i < n; i++) {
		while ((t->n - begin) % 16)
			put(t, "", 1);
		at[i] = t->n - begin;
		put(t, parts[i].bytes->p, parts[i].bytes->n);
		name[i] = names.n;
		put(&names, parts[i].name, strlen(parts[i].name) + 1);
	}
	if (stripped) {
		text_free(&names);
		return;
	}
	Elf64_Shdr strings = { .sh_type = SHT_STRTAB, .sh_offset = t->n - begin, .sh_size = names.n };
	put(t, names.p, names.n);
	h.e_shoff = t->n - begin;
	h.e_shnum = (uint16_t)(n + 2);
	h.e_shstrndx = (uint16_t)(n + 1);
	memcpy(t->p + begin, &h, sizeof(h));
	put(t, &(Elf64_Shdr){ 0 }, sizeof(Elf64_Shdr));
	for (size_t i = 0; i < n; i++)
		put(t,
		    &(Elf64_Shdr){ .sh_name = (uint32_t)name[i],
				   .sh_type = SHT_PROGBITS,
				   .sh_flags = SHF_ALLOC,
				   .sh_offset = at[i],
				   .sh_size = parts[i].bytes->n },
		    sizeof(Elf64_Shdr));
	put(t, &strings, sizeof(strings));
	text_free(&names);
}

static void put_member(struct text *t, const char *name, const struct text *bytes)
{
	char head[61];
	snprintf(head, sizeof(head), "%-16s%-12d%-6d%-6d%-8o%-10zu`\n", name, 0, 0, 0, 0644u, bytes->n);
	put(t, head, 60);
	put(t, bytes->p, bytes->n);
	if (bytes->n % 2)
		put(t, "\n", 1);
}

// --- forms ---

static void form_object(struct text *t) { put_object(t, 'a', 30); }
static void form_bundle(struct text *t) { put_bundle(t, 16); }
static void form_zlib_1(struct text *t) { put_compressed(t, 1, false); }
static void form_zstd_1(struct text *t) { put_compressed(t, 1, true); }
static void form_zlib_2(struct text *t) { put_compressed(t, 2, false); }
static void form_zstd_2(struct text *t) { put_compressed(t, 2, true); }
static void form_zstd_3(struct text *t) { put_compressed(t, 3, true); }
static void form_offload_1(struct text *t) { put_offload(t, 1, false); }
static void form_offload_2(struct text *t) { put_offload(t, 2, false); }
static void form_offload_3(struct text *t) { put_offload(t, 3, true); }

static void program(struct text *t, bool stripped)
{
	struct text fat = { 0 }, other = { 0 };
	put_bundle(&fat, 16);
	pad(&fat, 256);
	put_compressed(&fat, 2, true);
	pad(&fat, 16);
	put_compressed(&fat, 1, false);
	pad(&fat, 1024);
	put_bundle(&fat, 16);
	put(&other, "\177ELF in a text __CLANG_OFFLOAD_BUNDLE__ CCOB", 45);
	put_host(t, (struct part[]){ { ".rodata", &other }, { ".hip_fatbin", &fat } }, 2, stripped);
	text_free(&fat);
	text_free(&other);
}
static void form_program(struct text *t) { program(t, false); }
static void form_stripped(struct text *t) { program(t, true); }

static void form_relocatable(struct text *t)
{
	struct text object = { 0 }, host = { 0 }, offloading = { 0 };
	put_object(&object, 'r', 3);
	put(&host, "", 1);
	put_offload(&offloading, 1, false);
	pad(&offloading, 8);
	put_offload(&offloading, 2, false);
	put_host(t,
		 (struct part[]){ { "__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx1201", &object },
				  { "__CLANG_OFFLOAD_BUNDLE__host-x86_64-unknown-linux-gnu", &host },
				  { ".llvm.offloading", &offloading } },
		 3, false);
	text_free(&object);
	text_free(&host);
	text_free(&offloading);
}

static void form_data(struct text *t)
{
	struct text data = { 0 };
	put(&data, "\177ELF.. __CLANG_OFFLOAD_BUNDLE__ %s", 33);
	put_object(&data, 'd', 7);
	put_host(t, (struct part[]){ { ".rodata", &data } }, 1, false);
	text_free(&data);
}

static void form_archive(struct text *t)
{
	struct text symbols = { 0 }, member = { 0 };
	put(&symbols, "\0\0\0", 4);
	form_relocatable(&member);
	put(t, "!<arch>\n", 8);
	put_member(t, "/", &symbols);
	put_member(t, "one.o/", &member);
	text_clear(&member);
	put(&member, "a long name", 11);
	put_object(&member, 'm', 8);
	put_member(t, "#1/11", &member);
	text_free(&symbols);
	text_free(&member);
}

static void form_raw(struct text *t)
{
	put(t, "text before it, CCOB and all", 28);
	put_object(t, 'r', 9);
	put(t, "\177ELF", 4);
	put_bundle(t, 8);
	put(t, "?", 1);
	put_offload(t, 1, false);
	put_compressed(t, 3, false);
	put(t, "?", 1);
	put_compressed(t, 1, true);
}

static const struct form {
	const char *name;
	void (*write)(struct text *t);
	const char *found;
	int silent; // cuts that leave nothing to complain of: at the end of a member; -1: what is cut off may have been anything
} forms[] = {
	{ "object", form_object, " 0x0 214; ", -1 },
	{ "bundle", form_bundle, GFX90A " 0xd0 194; " GFX1100 " 0x1a0 204; " },
	{ "compressed 1, zlib", form_zlib_1, PACKED },
	{ "compressed 1, zstd", form_zstd_1, PACKED },
	{ "compressed 2, zlib", form_zlib_2, PACKED },
	{ "compressed 2, zstd", form_zstd_2, PACKED },
	{ "compressed 3, zstd", form_zstd_3, PACKED },
	{ "offload binary 1", form_offload_1, "amdgcn-amd-amdhsa--gfx942 0x8e 189; " },
	{ "offload binary 2", form_offload_2, "amdgcn-amd-amdhsa--gfx942 0x9e 189; " },
	{ "offload binary 3", form_offload_3, "amdgcn-amd-amdhsa--gfx942 0xa6 189 unpacked; " },
	{ "program", form_program,
	  GFX90A " 0x140 194; " GFX1100 " 0x210 204; " PACKED PACKED GFX90A " 0x940 194; " GFX1100 " 0xa10 204; " },
	{ "stripped program", form_stripped,
	  GFX90A " 0x140 194; " GFX1100 " 0x210 204; " PACKED PACKED GFX90A " 0x940 194; " GFX1100 " 0xa10 204; ", -1 },
	{ "relocatable", form_relocatable,
	  "hip-amdgcn-amd-amdhsa--gfx1201 0x40 187; amdgcn-amd-amdhsa--gfx942 0x19e 189; amdgcn-amd-amdhsa--gfx942 0x2fe "
	  "189; " },
	{ "data", form_data, " 0x61 191; ", -1 },
	{ "archive", form_archive,
	  "hip-amdgcn-amd-amdhsa--gfx1201 0xc4 187; amdgcn-amd-amdhsa--gfx942 0x222 189; amdgcn-amd-amdhsa--gfx942 0x382 189;  "
	  "0x645 192; ",
	  3 },
	{ "raw", form_raw,
	  " 0x1c 193; " GFX90A " 0x1b1 194; " GFX1100 " 0x279 204; "
	  "amdgcn-amd-amdhsa--gfx942 0x3d4 189; " PACKED PACKED,
	  -1 },
};

enum { FORMS = ARRAY_SIZE(forms) };

// --- what is found ---

struct seen {
	struct text found, problems;
	size_t n, nproblems;
	uint64_t sum;     // of all bytes, so that all are touched
	const char *only; // what is wanted
};

static void on_found(void *ctx, const struct code_found *f)
{
	struct seen *s = ctx;
	s->n++;
	for (size_t i = 0; i < f->bytes.n; i++)
		s->sum = s->sum * 31 + (uint8_t)f->bytes.p[i];
	text_printf(&s->found, STR_FMT " 0x%lx %zu%s; ", STR_ARG(f->target), f->offset, f->bytes.n,
		    f->unpacked ? " unpacked" : "");
}

static void on_problem(void *ctx, struct uh_error *err)
{
	struct seen *s = ctx;
	s->nproblems++;
	assert_non_null(strstr(uh_error_message(err), "0x"));
	assert_null(strchr(uh_error_message(err), '\n'));
	text_printf(&s->problems, "%s\n", uh_error_message(err));
	uh_error_free(err);
}

static bool on_wanted(void *ctx, struct str target)
{
	const struct seen *s = ctx;
	return !s->only || str_find(target, str_z(s->only)) >= 0;
}

/** The door's child finds what is open here. */
static struct file on_disk(int fd)
{
	char path[64];
	struct file f;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	assert_null(file_open(path, &f));
	f.name = S("disk");
	close(fd);
	return f;
}

static void look(struct seen *s, const struct file *f)
{
	code_find(f, &(struct code_finder){ on_wanted, on_found, on_problem, s });
	text_add(&s->found, (struct str){ "", 1 });
	text_add(&s->problems, (struct str){ "", 1 });
}

/** In memory of exactly this size, so that a byte behind it is noticed. */
static void look_in(struct seen *s, struct str bytes)
{
	_cleanup_free_ char *copy = malloc(bytes.n ? bytes.n : 1);
	memcpy(copy, bytes.p, bytes.n);
	struct file f = file_memory(S("memory"), (struct str){ copy, bytes.n });
	look(s, &f);
}

static void forget(struct seen *s)
{
	text_free(&s->found);
	text_free(&s->problems);
}

static void objects_are_found_in_every_form_of_container(void **state)
{
	(void)state;
	for (size_t i = 0; i < FORMS; i++) {
		struct text t = { 0 };
		struct seen memory = { 0 }, disk = { 0 }, one = { .only = "gfx1100" };
		forms[i].write(&t);
		look_in(&memory, text_str(&t));
		int fd = memfd_create("form", 0);
		assert_int_equal(write(fd, t.p, t.n), t.n);
		struct file f = on_disk(fd);
		look(&disk, &f);
		look(&one, &f);
		assert_string_equal(memory.problems.p, "");
		if (strcmp(memory.found.p, forms[i].found))
			print_error("%s: %s\n", forms[i].name, memory.found.p);
		assert_string_equal(memory.found.p, forms[i].found);
		assert_string_equal(disk.found.p, memory.found.p);
		assert_string_equal(disk.problems.p, "");
		assert_int_equal(disk.sum, memory.sum);
		assert_null(strstr(one.found.p, "gfx90a"));
		file_close(&f);
		forget(&memory);
		forget(&disk);
		forget(&one);
		text_free(&t);
	}
}

// --- damage ---

static void a_container_cut_at_any_byte_harms_nobody(void **state)
{
	(void)state;
	for (size_t i = 0; i < FORMS; i++) {
		struct text t = { 0 };
		struct seen whole = { 0 };
		forms[i].write(&t);
		look_in(&whole, text_str(&t));
		int silent = 0;
		for (size_t n = 0; n < t.n; n++) {
			struct seen s = { 0 };
			look_in(&s, (struct str){ t.p, n });
			assert_in_range(s.n, 0, whole.n);
			silent += n >= 32 && !s.nproblems;
			forget(&s);
		}
		if (forms[i].silent >= 0 && silent != forms[i].silent)
			fail_msg("%s: nothing is told of %d cuts", forms[i].name, silent);
		forget(&whole);
		text_free(&t);
	}
}

static void a_container_with_any_byte_changed_harms_nobody(void **state)
{
	(void)state;
	static const uint8_t changes[] = { 0xff, 0x80, 0x01 };
	for (size_t i = 0; i < FORMS; i++) {
		struct text t = { 0 };
		struct seen whole = { 0 };
		forms[i].write(&t);
		look_in(&whole, text_str(&t));
		for (size_t at = 0; at < t.n; at++) {
			for (size_t c = 0; c < sizeof(changes); c++) {
				struct seen s = { 0 };
				t.p[at] ^= (char)changes[c];
				look_in(&s, text_str(&t));
				t.p[at] ^= (char)changes[c];
				// A compressed bundle has a hash: whatever is changed in it is noticed.
				if (!strncmp(forms[i].name, "compressed", 10) && s.n && s.sum != whole.sum && !s.nproblems)
					fail_msg("%s changed at %zu: nothing is told of it", forms[i].name, at);
				forget(&s);
			}
		}
		forget(&whole);
		text_free(&t);
	}
}

static void put32_at(struct text *t, size_t at, uint32_t v) { memcpy(t->p + at, &v, sizeof(v)); }

static uint32_t get32_at(const struct text *t, size_t at)
{
	uint32_t v;
	memcpy(&v, t->p + at, sizeof(v));
	return v;
}

/** What is told of @t, which must contain @part. */
static void check_told(struct text *t, const char *part)
{
	struct seen s = { 0 };
	look_in(&s, text_str(t));
	if (!strstr(s.problems.p, part))
		fail_msg("not '%s' but: %s", part, s.problems.p);
	forget(&s);
	text_free(t);
}

static void damage_is_told_with_its_place(void **state)
{
	(void)state;
	struct text t = { 0 };
	put_bundle(&t, 16);
	t.n -= 1;
	check_told(&t, "entry 2 at 0x93 of the offload bundle at 0x0: its bytes 0x1a0-0x26c lie outside (0x26b)\n");
	put_compressed(&t, 2, true);
	t.n -= 1;
	check_told(&t, "compressed bundle at 0x0: zstd stream at 0x18: cut off at 0x");
	put_compressed(&t, 2, false);
	t.p[16] ^= 1;
	check_told(&t, "compressed bundle at 0x0: it holds ");
	put_compressed(&t, 3, true);
	t.p[16 + 5] = 1; // more than it may hold
	check_told(&t, "compressed bundle at 0x0: not unpacked: ");
	put_compressed(&t, 2, true);
	put32_at(&t, 12, get32_at(&t, 12) - 1);
	check_told(&t, "compressed bundle at 0x0: zstd stream at 0x18: holds more than the 611 bytes that its header declares");
	put_compressed(&t, 2, false);
	put32_at(&t, 12, get32_at(&t, 12) + 1);
	check_told(&t, "its header says 613 and ");
	form_program(&t);
	t.p[0x71] ^= 1;
	check_told(&t, ".hip_fatbin at 0x70: no offload bundle begins at 0x70\n");
	form_program(&t);
	put32_at(&t, t.n - 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), 0x10000);
	check_told(&t, "section .hip_fatbin (header at 0xb71): its 0x10000 bytes at 0x70 lie outside (0xbf1)\n");
	form_program(&t);
	size_t names = t.n - sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size);
	put32_at(&t, t.n - 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), 0x10000);
	put32_at(&t, names, get32_at(&t, names) - 1); // the last name does not end
	check_told(&t, "section .hip_fatbin (header at 0xb71): its 0x10000 bytes at 0x70 lie outside (0xbf1)\n");
	form_archive(&t);
	t.p[8 + 58] ^= 1;
	check_told(&t, "archive member at 0x8: its header is damaged");
	put_offload(&t, 2, false);
	t.p[24] = 100;
	check_told(&t, "offload binary at 0x0: its 100 entries at 0x20 lie outside");
}

/** Entries that all have the same bytes would make work without end. */
static void entries_that_share_bytes_are_bounded(void **state)
{
	(void)state;
	enum { COUNT = 20000 };
	struct text t = { 0 };
	struct seen s = { 0 };
	put(&t, "__CLANG_OFFLOAD_BUNDLE__", 24);
	put64(&t, COUNT);
	for (int i = 0; i < COUNT; i++) {
		put64(&t, 32 + COUNT * 25);
		put64(&t, OBJECT + 1000000);
		put64(&t, 1);
		put(&t, "x", 1);
	}
	put_object(&t, 'x', 1000000);
	look_in(&s, text_str(&t));
	assert_in_range(s.n, 1, 8);
	assert_in_range(s.nproblems, 1, 32);
	forget(&s);
	text_free(&t);
}

/** Sections that have the same bytes are looked at once. */
static void sections_that_share_bytes_are_read_once(void **state)
{
	(void)state;
	struct text fat = { 0 }, t = { 0 };
	struct seen s = { 0 };
	put_bundle(&fat, 16);
	put_host(&t, (struct part[]){ { ".hip_fatbin", &fat }, { ".hip_fatbin.b", &fat } }, 2, false);
	size_t second = t.n - 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_offset);
	put32_at(&t, second, get32_at(&t, second - sizeof(Elf64_Shdr)));
	look_in(&s, text_str(&t));
	assert_int_equal(s.n, 2);
	forget(&s);
	text_free(&t);
	text_free(&fat);
}

/** A name of a section is as long as a stranger likes. */
static void long_names_of_sections_are_cut(void **state)
{
	(void)state;
	for (size_t n = 254; n <= 257; n++) {
		struct text fat = { 0 }, t = { 0 };
		char name[300] = ".hip_fatbin", told[300];
		memset(name + strlen(name), 'x', n - strlen(name));
		put_bundle(&fat, 16);
		put_host(&t, (struct part[]){ { name, &fat } }, 1, false);
		put32_at(&t, t.n - 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), 0x10000);
		snprintf(told, sizeof(told), "section %.255s (header at 0x", name);
		check_told(&t, told);
		text_free(&fat);
	}
}

static void bomb(size_t much, int times)
{
	struct text t = { 0 }, packed = { 0 };
	_cleanup_free_ char *zeros = calloc(1, much);
	put_packed(&packed, (struct str){ zeros, much }, true);
	for (int i = 0; i < times; i++) {
		put(&t, "CCOB\2\0\1", 8);
		put32(&t, (uint32_t)(24 + packed.n));
		put32(&t, (uint32_t)much);
		put64(&t, 0);
		put(&t, packed.p, packed.n);
	}
	text_free(&packed);
	check_told(&t, "not unpacked");
}

/** Much that is nothing packs well: neither one bundle nor all together may become that large. */
static void a_decompression_bomb_is_refused(void **state)
{
	(void)state;
	bomb(64 << 20, 1);
	bomb(16 << 20, 20);
}

/** Where one read ends and the next begins. */
static void an_object_across_a_window_is_found(void **state)
{
	(void)state;
	static const size_t places[] = { 4096, 4093 + (64 << 10) };
	for (size_t i = 0; i < 16; i++) {
		struct text t = { 0 };
		struct seen s = { 0 };
		for (size_t n = places[i / 8] - i % 8; n; n--)
			put(&t, "x", 1);
		put_object(&t, 'b', 3);
		int fd = memfd_create("boundary", 0);
		assert_int_equal(write(fd, t.p, t.n), t.n);
		struct file f = on_disk(fd);
		look(&s, &f);
		assert_int_equal(s.n, 1);
		file_close(&f);
		forget(&s);
		text_free(&t);
	}
}

// --- names ---

static void the_processor_is_read_from_target_names(void **state)
{
	(void)state;
	static const char *const names[][2] = {
		{ GFX90A, "gfx90a:xnack-" },
		{ "amdgcn-amd-amdhsa--gfx90a", "gfx90a" },
		{ "hip-amdgcn-amd-amdhsa-gfx906", "gfx906" },
		{ "gfx90a:sramecc+", "gfx90a:sramecc+" },
		{ "hipv4-amdgcn-amd-amdhsa--gfx9-4-generic:xnack+", "gfx9-4-generic:xnack+" },
		{ "host-x86_64-unknown-linux-gnu", "" },
		{ "", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_true(str_is(code_target_gfx(str_z(names[i][0])), names[i][1]));
}

static void code_uris_are_parsed(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct code_uri u;
	assert_true(code_uri_parse(&a, S("file:///opt/a%20b%23/lib%2Eso#offset=4096&size=0x20"), &u));
	assert_true(!u.memory && u.has_range && str_is(u.path, "/opt/a b#/lib.so"));
	assert_int_equal(u.offset, 4096);
	assert_int_equal(u.size, 32);
	assert_true(code_uri_parse(&a, S("file:///x%zz%4?size=7&offset=1"), &u));
	assert_true(str_is(u.path, "/x%zz%4") && u.offset == 1 && u.size == 7);
	assert_true(code_uri_parse(&a, S("file:///whole.co"), &u) && !u.has_range && str_is(u.path, "/whole.co"));
	assert_true(code_uri_parse(&a, S("memory://1234#offset=0x7f0012345678&size=99"), &u));
	assert_true(u.memory && u.pid == 1234 && u.offset == 0x7f0012345678 && u.size == 99);
	static const char *const bad[] = { "",
					   "file://",
					   "http://x",
					   "memory://1234",
					   "memory://x#offset=1&size=1",
					   "file:///x#offset=1",
					   "file:///x#offset=-1&size=2",
					   "file:///x#offset=1&size=2&y=1",
					   "file:///x#offset=1&size=99999999999999999999",
					   "memory://-1#offset=0&size=1" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (code_uri_parse(&a, str_z(bad[i]), &u))
			fail_msg("%s", bad[i]);
	assert_true(code_uri_saved_as(S("file:///a.so?offset=1&size=2#"), S("file____a.so_offset_1_size_2_")));
	assert_false(code_uri_saved_as(S("file:///a.so"), S("file____b.so")));
	assert_false(code_uri_saved_as(S("file:///a.so"), S("file____a.so_")));
	arena_free(&a);
}

static void the_hash_of_compressed_bundles_is_md5(void **state)
{
	(void)state;
	// Of the examples in RFC 1321.
	static const char digits[] = "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
	assert_int_equal(unpack_hash(NULL, 0), 0x04b2008fd98c1dd4);
	assert_int_equal(unpack_hash((const uint8_t *)"abc", 3), 0xb04fd23c98500190);
	assert_int_equal(unpack_hash((const uint8_t *)digits, 80), 0x55c9e32ba2f4ed57);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_found_in_every_form_of_container),
		cmocka_unit_test(a_container_cut_at_any_byte_harms_nobody),
		cmocka_unit_test(a_container_with_any_byte_changed_harms_nobody),
		cmocka_unit_test(damage_is_told_with_its_place),
		cmocka_unit_test(entries_that_share_bytes_are_bounded),
		cmocka_unit_test(a_decompression_bomb_is_refused),
		cmocka_unit_test(an_object_across_a_window_is_found),
		cmocka_unit_test(sections_that_share_bytes_are_read_once),
		cmocka_unit_test(long_names_of_sections_are_cut),
		cmocka_unit_test(the_processor_is_read_from_target_names),
		cmocka_unit_test(code_uris_are_parsed),
		cmocka_unit_test(the_hash_of_compressed_bundles_is_md5),
	};
	return cmocka_run_group_tests_name("bundle", tests, NULL, NULL);
}
