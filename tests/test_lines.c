// Objects that clang makes here: every instruction's lines are what llvm-symbolizer says, and a damaged object harms nobody.
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "code/lines/lines.h"

enum { ADDRESSES = 1 << 16, FLIPS = 300 };

static const char helpers_h[] = "static inline __attribute__((always_inline)) float load(global const float *p, int i)\n"
				"{\n"
				"\tfloat r = p[i & 255];\n"
				"\tif (r > 3.0f)\n"
				"\t\tr -= p[(i * 7) & 63];\n"
				"\treturn r;\n"
				"}\n";
static const char blend_h[] =
	"static inline __attribute__((always_inline)) float blend(global const float *p, int i)\n"
	"{\n"
	"\treturn load(p, i) * load(p, i + 3) +\n"
	"\t\tload(p, i * 5);\n"
	"}\n"
	"static __attribute__((noinline)) float apart(global const float *p, int i) { return blend(p, i) / 3; }\n";
static const char one_cl[] =
	"#include \"helpers.h\"\n"
	"#include \"sub/blend.h\"\n"
	"kernel void first(global float *out, global const float *in, int n)\n"
	"{\n"
	"\tfloat sum = 0;\n"
	"\tfor (int k = 0; k < n; k++)\n"
	"\t\tsum += blend(in, k ^ n) + apart(in, k);\n"
	"\tout[__builtin_amdgcn_workitem_id_x()] = sum;\n"
	"}\n"
	"kernel void second(global float *out, global const float *in, int n) { *out = blend(in, n) + apart(in, 2); }\n";
static const char two_cl[] = "#include \"helpers.h\"\n"
			     "__attribute__((noinline)) int dead(int i) { return i * 3; }\n"
			     "kernel void third(global float *out, global const float *in, int n)\n"
			     "{\n"
			     "\tif (n > 4)\n"
			     "\t\tout[n] = load(in, n);\n"
			     "\tout[0] = load(in, 1);\n"
			     "}\n";
static const char three_cpp[] =
	"namespace math {\n"
	"template <typename T> struct view {\n"
	"\tT *p;\n"
	"\tinline __attribute__((always_inline)) T at(int i) const { return p[i] + p[i + 1]; }\n"
	"\t__attribute__((noinline)) T slow(int i) const;\n"
	"};\n"
	"template <typename T> T view<T>::slow(int i) const { return at(i) * at(i + 9); }\n"
	"}\n"
	"static __attribute__((always_inline)) int twice(math::view<int> v, int i)\n"
	"{\n"
	"\tauto f = [&](int k) __attribute__((always_inline)) { return v.at(k) ^ v.slow(k); };\n"
	"\treturn f(i) + f(i + 1);\n"
	"}\n"
	"extern \"C\" __attribute__((amdgpu_kernel)) void fourth(int *out, int n) { *out = twice({ out }, n); }\n"
	"__attribute__((amdgpu_kernel)) void fifth(long *out, int n) { *out = math::view<long>{ out }.at(n); }\n";

struct place {
	char directory[32];
};

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");
	assert_non_null(f);
	assert_int_equal(fputs(text, f) < 0, 0);
	assert_int_equal(fclose(f), 0);
}

static bool has_program(const char *name)
{
	char command[128];
	snprintf(command, sizeof(command), "command -v %s >/dev/null", name);
	return !system(command);
}

static int set_up(void **state)
{
	struct place *p = mem_alloc(sizeof(*p));
	*state = p;
	strcpy(p->directory, "/tmp/unhang-lines-XXXXXX");
	if (!mkdtemp(p->directory) || chdir(p->directory) || mkdir("sub", 0700))
		return -1;
	write_file("helpers.h", helpers_h);
	write_file("sub/blend.h", blend_h);
	write_file("one.cl", one_cl);
	write_file("two.cl", two_cl);
	write_file("three.cpp", three_cpp);
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	char command[64];
	snprintf(command, sizeof(command), "rm -rf %s", p->directory);
	int bad = chdir("/") || system(command);
	free(p);
	return bad;
}

/** A shell command with the compiler in $C. Skips the test where there is no compiler. */
static void make(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void make(const char *format, ...)
{
	char command[1024];
	if (!has_program("clang-19") || !has_program("llvm-symbolizer-19") || !has_program("ld.lld-19")) {
		print_message("skipped: no clang-19, lld-19 or llvm-symbolizer-19\n");
		skip();
	}
	int n = snprintf(command, sizeof(command), "set -e; C='clang-19 -target amdgcn-amd-amdhsa -nogpulib -O2'; ");
	va_list ap;
	va_start(ap, format);
	vsnprintf(command + n, sizeof(command) - (size_t)n, format, ap);
	va_end(ap);
	if (system(command))
		fail_msg("%s", command);
}

static struct str read_all(const char *name)
{
	struct stat st;
	_cleanup_close_ int fd = open(name, O_RDONLY);
	assert_true(fd >= 0 && !fstat(fd, &st));
	char *p = mem_alloc((size_t)st.st_size + 1);
	assert_int_equal(read(fd, p, (size_t)st.st_size), st.st_size);
	return (struct str){ p, (size_t)st.st_size };
}

/** The address of every four bytes of every function. */
static size_t list_addresses(struct str bytes, uint64_t *ret)
{
	size_t count = 0;
	elf_version(EV_CURRENT);
	Elf *elf = elf_memory((char *)(uintptr_t)bytes.p, bytes.n);
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr header;
		GElf_Sym symbol;
		gelf_getshdr(scn, &header);
		if (header.sh_type != SHT_SYMTAB)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		for (int i = 0; gelf_getsym(data, i, &symbol); i++)
			for (uint64_t at = 0; GELF_ST_TYPE(symbol.st_info) == STT_FUNC && at < symbol.st_size; at += 4) {
				assert_true(count < ADDRESSES);
				ret[count++] = symbol.st_value + at;
			}
	}
	elf_end(elf);
	return count;
}

static void print_frames(struct text *out, const struct code_lines *l, uint64_t address)
{
	struct code_frame frames[CODE_FRAMES];
	size_t n = code_lines_at(l, address, frames);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(frames[i].inlined, i + 1 < n);
		text_printf(out, STR_FMT "\n" STR_FMT ":%u:%u\n", STR_ARG(frames[i].function), STR_ARG(frames[i].file),
			    frames[i].line, frames[i].column);
	}
	text_printf(out, "\n");
}

static struct code_lines *open_lines(const char *name, struct str bytes, const uint64_t *addresses, size_t n)
{
	struct code_lines *l = NULL;
	_cleanup_error_ struct uh_error *err = code_lines_new(str_z(name), bytes, addresses, n, &l);
	if (err)
		fail_msg("%s", uh_error_message(err));
	assert_non_null(l);
	return l;
}

/** Says only where two long texts begin to differ. */
static void assert_same(const char *name, struct str ours, struct str expected)
{
	size_t i = 0;
	while (i < ours.n && i < expected.n && ours.p[i] == expected.p[i])
		i++;
	size_t from = i < 200 ? 0 : i - 200;
	if (i < ours.n || i < expected.n)
		fail_msg("%s: ours\n" STR_FMT "\nbut expected\n" STR_FMT, name, STR_ARG(str_cut(str_from(ours, from), 400)),
			 STR_ARG(str_cut(str_from(expected, from), 400)));
}

static void check_rows(const struct code_lines *l, const uint64_t *addresses, size_t n)
{
	size_t exact = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t begin = 0, again = 0;
		assert_true(code_lines_row(l, addresses[i], &begin));
		assert_true(begin <= addresses[i] && begin % 4 == 0);
		assert_true(code_lines_row(l, begin, &again));
		assert_int_equal(begin, again);
		exact += begin == addresses[i];
	}
	assert_true(exact > 10);
}

/** Of every address what llvm-symbolizer says of it, with an index of all addresses and with one of some. */
static void compare(const char *name)
{
	static uint64_t addresses[ADDRESSES], some[ADDRESSES];
	_cleanup_free_ char *bytes = (char *)(uintptr_t)read_all(name).p;
	struct stat st;
	assert_int_equal(stat(name, &st), 0);
	struct str object = { bytes, (size_t)st.st_size };
	size_t n = list_addresses(object, addresses), nsome = 0;
	assert_true(n > 50);
	FILE *list = fopen("addresses", "w");
	for (size_t i = 0; i < n; i++)
		fprintf(list, "0x%llx\n", (unsigned long long)addresses[i]);
	fclose(list);
	make("llvm-symbolizer-19 --obj=%s --inlines --functions=linkage --no-demangle <addresses >expected", name);
	struct str expected = read_all("expected");
	struct code_lines *l = open_lines(name, object, NULL, 0);
	assert_int_equal(code_lines_note(l).n, 0);
	struct text ours = { 0 }, all = { 0 };
	for (size_t i = 0; i < n; i++)
		print_frames(&ours, l, addresses[i]);
	assert_same(name, text_str(&ours), expected);
	check_rows(l, addresses, n);
	code_lines_free(l);
	for (size_t i = 0; i < n; i += 17)
		some[nsome++] = addresses[n - 1 - i];
	struct code_lines *all_lines = open_lines(name, object, NULL, 0), *some_lines = open_lines(name, object, some, nsome);
	text_clear(&ours);
	for (size_t i = 0; i < nsome; i++) {
		print_frames(&ours, some_lines, some[i]);
		print_frames(&all, all_lines, some[i]);
	}
	assert_same(name, text_str(&ours), text_str(&all));
	code_lines_free(all_lines);
	code_lines_free(some_lines);
	text_free(&ours);
	text_free(&all);
	free((char *)(uintptr_t)expected.p);
}

static void every_address_has_the_lines_of_llvm_symbolizer(void **state)
{
	static const char *const processors[] = { "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1201" };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(processors); i++)
		for (int version = 4; version <= 5; version++) {
			make("$C -gdwarf-%d -mcpu=%s -x cl -cl-std=CL2.0 one.cl -o one.co", version, processors[i]);
			compare("one.co");
		}
}

static void names_of_cpp_are_demangled(void **state)
{
	(void)state;
	for (int version = 3; version <= 5; version++) {
		make("$C -gdwarf-%d -mcpu=gfx942 -std=c++17 three.cpp -o three.co", version);
		compare("three.co");
	}
}

/** The linker leaves a function out, and puts the code in another order than the line tables. */
static void lines_of_several_units(void **state)
{
	(void)state;
	make("printf 'third\\nsecond\\nfirst\\n' >order");
	for (int version = 4; version <= 5; version++) {
		make("for i in one two; do $C -gdwarf-%d -mcpu=gfx1100 -ffunction-sections -x cl -cl-std=CL2.0 -c $i.cl -o "
		     "$i.o; done; "
		     "ld.lld-19 -shared --gc-sections one.o two.o -o both.co",
		     version);
		compare("both.co");
		make("ld.lld-19 -shared --symbol-ordering-file=order two.o one.o -o both.co");
		compare("both.co");
	}
}

static void packed_debug_information_is_read(void **state)
{
	(void)state;
	make("$C -g -mcpu=gfx942 -x cl -cl-std=CL2.0 one.cl -o one.co; llvm-objcopy-19 --compress-debug-sections=zlib one.co "
	     "packed.co");
	compare("packed.co");
}

/** A function whose origin is in a supplementary file has lines, and no name: least of all that of what is at the same offset here. */
static void origins_in_another_file_name_nothing(void **state)
{
	enum { ABSTRACT_ORIGIN = 0x31, REF4 = 0x13, REF_SUP4 = 0x1c }; // the two forms are equally long
	static uint64_t addresses[ADDRESSES];
	(void)state;
	make("$C -gdwarf-5 -mcpu=gfx1100 -x cl -cl-std=CL2.0 one.cl -o one.co");
	struct str object = read_all("one.co");
	_cleanup_free_ char *bytes = (char *)(uintptr_t)object.p;
	size_t n = list_addresses(object, addresses), strings = 0, changed = 0, inlined = 0;
	Elf *elf = elf_memory(bytes, object.n);
	assert_int_equal(elf_getshdrstrndx(elf, &strings), 0);
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr header;
		gelf_getshdr(scn, &header);
		if (strcmp(elf_strptr(elf, strings, header.sh_name), ".debug_abbrev") != 0)
			continue;
		for (char *p = bytes + header.sh_offset; p + 1 < bytes + header.sh_offset + header.sh_size; p++)
			if (p[0] == ABSTRACT_ORIGIN && p[1] == REF4) {
				p[1] = REF_SUP4;
				changed++;
			}
	}
	elf_end(elf);
	assert_true(changed);
	struct code_lines *l = open_lines("one.co", object, NULL, 0);
	for (size_t i = 0; i < n; i++) {
		struct code_frame frames[CODE_FRAMES];
		for (size_t k = code_lines_at(l, addresses[i], frames); k-- > 0;) {
			assert_true(!frames[k].inlined || !frames[k].function.n);
			inlined += frames[k].inlined;
		}
	}
	assert_true(inlined);
	code_lines_free(l);
}

/** What is said of an object in which there are no lines to be found. */
static void expect_error(const char *name, const char *part)
{
	struct str bytes = read_all(name);
	struct code_lines *l = NULL;
	_cleanup_error_ struct uh_error *err = code_lines_new(str_z(name), bytes, NULL, 0, &l);
	assert_null(l);
	if (!part)
		assert_null(err);
	else if (!err || !strstr(uh_error_message(err), part))
		fail_msg("%s: %s", name, err ? uh_error_message(err) : "no error");
	free((char *)(uintptr_t)bytes.p);
}

static void objects_without_lines_have_none(void **state)
{
	(void)state;
	make("$C -mcpu=gfx942 -x cl -cl-std=CL2.0 one.cl -o plain.co; $C -g -mcpu=gfx942 -x cl -cl-std=CL2.0 -c one.cl -o "
	     "one.o; "
	     "printf 'no such thing' >text.co; : >empty.co");
	expect_error("plain.co", NULL);
	expect_error("one.o", "not linked");
	expect_error("text.co", "debug information of text.co: this is not an ELF file");
	expect_error("empty.co", "this is not an ELF file");
}

/** zstd is unpacked by a newer libelf, or named. */
static void debug_information_packed_by_zstd_is_read_or_named(void **state)
{
	(void)state;
	make("$C -g -mcpu=gfx942 -x cl -cl-std=CL2.0 one.cl -o one.co; llvm-objcopy-19 --compress-debug-sections=zstd one.co "
	     "packed.co");
	struct str bytes = read_all("packed.co");
	struct code_lines *l = NULL;
	_cleanup_error_ struct uh_error *err = code_lines_new(S("packed.co"), bytes, NULL, 0, &l);
	assert_true(!!l != !!err);
	if (err)
		assert_non_null(strstr(uh_error_message(err), "is compressed in a way"));
	code_lines_free(l);
	free((char *)(uintptr_t)bytes.p);
}

static void split_debug_information_is_named(void **state)
{
	(void)state;
	make("$C -g -gsplit-dwarf -mcpu=gfx942 -x cl -cl-std=CL2.0 -c one.cl -o one.o; ld.lld-19 -shared one.o -o split.co");
	struct str bytes = read_all("split.co");
	struct code_lines *l = open_lines("split.co", bytes, NULL, 0);
	assert_true(str_find(code_lines_note(l), S("one.dwo, which is not read")) >= 0);
	static uint64_t addresses[ADDRESSES];
	struct code_frame frames[CODE_FRAMES];
	assert_true(list_addresses(bytes, addresses) > 50);
	assert_int_equal(code_lines_at(l, addresses[0], frames), 1);
	assert_true(frames[0].line > 0 && frames[0].file.n && !frames[0].function.n);
	code_lines_free(l);
	free((char *)(uintptr_t)bytes.p);
}

static unsigned next_random(unsigned *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/** Whatever it says, it must come back and be readable. */
static void try_damaged(struct str bytes, const uint64_t *addresses, size_t n)
{
	struct code_lines *l = NULL;
	_cleanup_error_ struct uh_error *err = code_lines_new(S("damaged.co"), bytes, NULL, 0, &l);
	if (err && (!strstr(uh_error_message(err), "debug information of damaged.co: ") ||
		    strstr(uh_error_message(err), "its reader")))
		fail_msg("%s", uh_error_message(err)); // the parent would survive a crash, but the child should not have one
	struct text out = { 0 };
	for (size_t i = 0; l && i < n; i++)
		print_frames(&out, l, addresses[i]);
	text_free(&out);
	code_lines_free(l);
}

struct section {
	uint64_t header, at, size; // where its header is, and its bytes
};

static size_t debug_sections(struct str bytes, struct section *ret, size_t most)
{
	GElf_Ehdr file;
	GElf_Shdr header;
	size_t n = 0;
	Elf *elf = elf_memory((char *)(uintptr_t)bytes.p, bytes.n);
	assert_non_null(gelf_getehdr(elf, &file));
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) && n < most;) {
		gelf_getshdr(scn, &header);
		if (!strncmp(elf_strptr(elf, file.e_shstrndx, header.sh_name), ".debug_", 7))
			ret[n++] = (struct section){ file.e_shoff + elf_ndxscn(scn) * file.e_shentsize, header.sh_offset,
						     header.sh_size };
	}
	elf_end(elf);
	return n;
}

static void damaged_objects_harm_nobody(void **state)
{
	(void)state;
	for (int version = 4; version <= 5; version++) {
		make("$C -gdwarf-%d -mcpu=gfx942 -x cl -cl-std=CL2.0 one.cl -o one.co", version);
		struct str good = read_all("one.co");
		static uint64_t addresses[ADDRESSES];
		struct section sections[32];
		size_t n = list_addresses(good, addresses), nsections = debug_sections(good, sections, 32);
		unsigned seed = (unsigned)version;
		char *bytes = mem_alloc(good.n);
		assert_true(nsections > 5);
		for (int i = 0; i < FLIPS; i++) {
			const struct section *s = &sections[(size_t)i % nsections];
			memcpy(bytes, good.p, good.n);
			for (unsigned flips = 1 + next_random(&seed) % 3; flips; flips--)
				bytes[s->at + next_random(&seed) % s->size] = (char)next_random(&seed);
			try_damaged((struct str){ bytes, good.n }, addresses, n);
		}
		for (int i = 0; i < FLIPS / 2; i++) {
			const struct section *s = &sections[(size_t)i % nsections];
			uint64_t cut = next_random(&seed) % s->size;
			memcpy(bytes, good.p, good.n);
			memcpy(bytes + s->header + offsetof(Elf64_Shdr, sh_size), &cut, sizeof(cut));
			try_damaged((struct str){ bytes, good.n }, addresses, n);
		}
		for (size_t cut = 0; cut < good.n; cut += good.n / 60)
			try_damaged((struct str){ good.p, cut }, addresses, n);
		free(bytes);
		free((char *)(uintptr_t)good.p);
	}
}

static void crash(void *room, size_t size, const void *ctx)
{
	(void)size;
	*(char *)room = 1;
	if (ctx)
		for (;;)
			pause();
	abort();
}

static void fill(void *room, size_t size, const void *ctx)
{
	(void)ctx;
	memset(room, 7, size);
}

static void children_that_end_badly(void **state)
{
	const struct child_task task = { CHILD_LINES }, late = { CHILD_LINES, .deadline = now_ms() + 50 };
	void *room = NULL;
	(void)state;
	assert_int_equal(child_fill(&task, crash, NULL, 4096, &room), CHILD_CRASHED);
	assert_int_equal(child_fill(&late, crash, "", 4096, &room), CHILD_LATE);
	assert_null(room);
	assert_int_equal(child_fill(&task, fill, NULL, 4096, &room), CHILD_GOOD);
	assert_int_equal(((char *)room)[4095], 7);
	munmap(room, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_address_has_the_lines_of_llvm_symbolizer),
		cmocka_unit_test(names_of_cpp_are_demangled),
		cmocka_unit_test(lines_of_several_units),
		cmocka_unit_test(packed_debug_information_is_read),
		cmocka_unit_test(origins_in_another_file_name_nothing),
		cmocka_unit_test(debug_information_packed_by_zstd_is_read_or_named),
		cmocka_unit_test(split_debug_information_is_named),
		cmocka_unit_test(objects_without_lines_have_none),
		cmocka_unit_test(damaged_objects_harm_nobody),
		cmocka_unit_test(children_that_end_badly),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
