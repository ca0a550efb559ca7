// Instructions by the program llvm-objdump, for an unhang that can load no library. The code goes to it as an ELF file in memory, each range a
// section; its output is as little trusted as that of a library.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/door/trust.h"
#include "base/save.h"
#include "code/disassemble/disassembler.h"

enum { WORD = 4, NAME_BYTES = 24, LINE_MOST = 256 };
// Of the file: the system, and any processor of these; the option --mcpu says which one it is.
enum { HSA = 64, ANY_GCN = 0x2c };

/** The best first. */
static bool objdump_path(size_t at, char ret[static LIBRARY_PATH])
{
	enum { NEWEST = 32, OLDEST = 13 };
	if (at == 0)
		str_copy(ret, LIBRARY_PATH, S("/opt/rocm/llvm/bin/llvm-objdump"));
	else if (at <= NEWEST - OLDEST + 1)
		snprintf(ret, LIBRARY_PATH, "/usr/bin/llvm-objdump-%zu", NEWEST + 1 - at);
	else if (at == NEWEST - OLDEST + 2)
		str_copy(ret, LIBRARY_PATH, S("/usr/bin/llvm-objdump"));
	else
		return false;
	return true;
}

static Elf64_Shdr section(size_t name, unsigned type, uint64_t address, size_t at, size_t n)
{
	return (Elf64_Shdr){ .sh_name = (Elf64_Word)name,
			     .sh_type = type,
			     .sh_flags = type == SHT_PROGBITS ? SHF_ALLOC | SHF_EXECINSTR : 0,
			     .sh_addr = address,
			     .sh_offset = at,
			     .sh_size = n,
			     .sh_addralign = 1 };
}

/** A file with those of the ranges that are for 64 lanes, or with the others; a section's name is the number of its range. */
static void write_file(struct text *to, const struct code_range *ranges, size_t n, bool wave64)
{
	_cleanup_text_ struct text names = { 0 };
	_cleanup_vec_ VEC(Elf64_Shdr) sections = { 0 };
	Elf64_Ehdr h = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, HSA },
			 .e_type = ET_DYN,
			 .e_machine = EM_AMDGPU,
			 .e_version = EV_CURRENT,
			 .e_flags = ANY_GCN,
			 .e_ehsize = sizeof(h),
			 .e_shentsize = sizeof(Elf64_Shdr) };
	text_add(to, (struct str){ (const char *)&h, sizeof(h) });
	text_add(&names, (struct str){ "", 1 });
	vec_push(&sections, (Elf64_Shdr){ 0 });
	for (size_t i = 0; i < n; i++) {
		if ((ranges[i].wave_size == 64) != wave64)
			continue;
		vec_push(&sections, section(names.n, SHT_PROGBITS, ranges[i].begin, to->n, ranges[i].bytes.n));
		text_add(to, ranges[i].bytes);
		text_printf(&names, "r%zu", i);
		text_add(&names, (struct str){ "", 1 });
	}
	vec_push(&sections, section(0, SHT_STRTAB, 0, to->n, names.n));
	text_add(to, text_str(&names));
	h.e_shoff = to->n;
	h.e_shnum = (Elf64_Half)sections.len;
	h.e_shstrndx = (Elf64_Half)(sections.len - 1);
	memcpy(to->p, &h, sizeof(h));
	text_add(to, (struct str){ (const char *)sections.data, sections.len * sizeof(Elf64_Shdr) });
}

struct objdump {
	const char *program, *cpu;
	bool wave64;
	int file, complaints;
};

static void become_objdump(int fd, const void *ctx)
{
	const struct objdump *o = ctx;
	char path[NAME_BYTES + 16], cpu[NAME_BYTES + 64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", o->file);
	snprintf(cpu, sizeof(cpu), "--mcpu=%s", o->cpu);
	const char *const arguments[] = {
		o->program, "-D", "-z", cpu, o->wave64 ? "--mattr=-wavefrontsize32,+wavefrontsize64" : "--mattr=", path, NULL
	};
	const char *const environment[] = { "LC_ALL=C", NULL };
	if (dup2(fd, STDOUT_FILENO) >= 0 && dup2(o->complaints, STDERR_FILENO) >= 0 && fcntl(o->file, F_SETFD, 0) >= 0)
		execve(o->program, (char *const *)arguments, (char *const *)environment);
	_exit(EXIT_FAILURE);
}

/** `	s_nop 0    // 000000001700: BF800000 <name>`: the text, and how many bytes it stands for. false: no such line. */
static bool read_line(struct str line, uint64_t *ret_address, size_t *ret_size, char text[static INSTRUCTION_TEXT])
{
	const ptrdiff_t mark = str_find(line, S("// "));
	if (mark <= 0 || (size_t)mark >= INSTRUCTION_TEXT)
		return false;
	struct str rest = str_from(line, (size_t)mark + 3), address = str_split(&rest, ':');
	char hex[NAME_BYTES] = "0x";
	if (address.n > 16)
		return false;
	str_copy(hex + 2, sizeof(hex) - 2, address);
	if (!str_hex(str_z(hex), ret_address))
		return false;
	*ret_size = 0;
	for (struct str word; (rest = str_trim(rest)).n && (word = str_split(&rest, ' ')).n == 2 * WORD && word.p[0] != '<';)
		*ret_size += WORD;
	str_copy(text, INSTRUCTION_TEXT, str_cut(line, (size_t)mark));
	return *ret_size;
}

struct objdump_reading {
	const struct code_range *ranges;
	size_t n, range, done; // of the range that is read, and how much of it
	struct text *out;      // records of each range
};

static void take_data(struct objdump_reading *r, size_t until)
{
	const struct str bytes = r->ranges[r->range].bytes;
	while (r->done < until) {
		char text[INSTRUCTION_TEXT];
		const size_t size = disasm_data(str_cut(str_from(bytes, r->done), until - r->done), text);
		disasm_record(&r->out[r->range], size, (struct str){ text, strlen(text) });
		r->done += size;
	}
}

/** What the program leaves out or writes oddly is shown as data. */
static void objdump_take(struct objdump_reading *r, struct str output)
{
	r->range = r->n;
	str_each (line, output, '\n') {
		char text[INSTRUCTION_TEXT];
		uint64_t address;
		size_t size;
		int64_t number;
		if (str_starts(line, S("Disassembly of section r"))) {
			if (r->range < r->n)
				take_data(r, r->ranges[r->range].bytes.n);
			const struct str digits = str_from(line, strlen("Disassembly of section r"));
			const bool known =
				str_number(str_cut(digits, digits.n - 1), &number) && number >= 0 && (size_t)number < r->n;
			r->range = known && !r->out[number].n ? (size_t)number : r->n;
			r->done = 0;
			continue;
		}
		if (r->range == r->n || !read_line(line, &address, &size, text))
			continue;
		const struct code_range *range = &r->ranges[r->range];
		if (address < range->begin + r->done || address - range->begin > range->bytes.n ||
		    size > range->bytes.n - (address - range->begin))
			continue;
		take_data(r, address - range->begin);
		const size_t length = disasm_normalise(text);
		if (!length)
			continue;
		disasm_record(&r->out[r->range], size, (struct str){ text, length });
		r->done += size;
	}
	if (r->range < r->n)
		take_data(r, r->ranges[r->range].bytes.n);
}

/** false: it could not do it, or does not know the processor. */
static bool run_objdump(struct objdump *o, struct objdump_reading *r, int64_t deadline)
{
	_cleanup_text_ struct text file = { 0 }, out = { 0 };
	_cleanup_close_ int memory = memfd_create("code", MFD_CLOEXEC), complaints = memfd_create("complaints", MFD_CLOEXEC);
	size_t bytes = 0;
	for (size_t i = 0; i < r->n; i++)
		bytes += r->ranges[i].bytes.n;
	const struct child_task task = { CHILD_DISASSEMBLE, .deadline = deadline,
					 .most = (bytes / WORD + r->n + 16) * LINE_MOST };
	write_file(&file, r->ranges, r->n, o->wave64);
	if (memory < 0 || complaints < 0 || !write_all(memory, text_str(&file)))
		return false;
	o->file = memory;
	o->complaints = complaints;
	if (child_collect(&task, become_objdump, o, &out) != CHILD_GOOD || lseek(complaints, 0, SEEK_END))
		return false;
	objdump_take(r, text_str(&out));
	return true;
}

static bool some_for(const struct code_range *ranges, size_t n, bool wave64)
{
	return list_find(ranges, n, it, (it->wave_size == 64) == wave64);
}

struct uh_error *objdump_disassemble(const char *target_id, const struct code_range *ranges, size_t n, int64_t deadline,
				     struct text *ret, char ret_by[static LIBRARY_PATH])
{
	char cpu[64];
	bool found = false;
	str_copy(cpu, sizeof(cpu), (struct str){ target_id, strcspn(target_id, ":") });
	for (size_t at = 0; objdump_path(at, ret_by); at++) {
		_cleanup_arena_ struct arena room = { 0 };
		struct objdump o = { .cpu = cpu };
		_cleanup_error_ struct uh_error *refused = trust_real_path(&room, ret_by, &o.program);
		if (refused)
			continue;
		found = true;
		struct objdump_reading r = { ranges, n, .out = arena_alloc(&room, (n + 1) * sizeof(*r.out)) };
		bool good = true;
		for (int wave64 = 0; wave64 < 2 && good; wave64++) {
			o.wave64 = wave64;
			good = !some_for(ranges, n, wave64) || run_objdump(&o, &r, deadline);
		}
		for (size_t i = 0; i < n; i++) {
			if (good)
				text_add(ret, text_str(&r.out[i]));
			text_free(&r.out[i]);
		}
		if (good)
			return NULL;
	}
	return found ? uh_error_new("%s: no llvm-objdump here knows it, or may be run", cpu) :
		       uh_error_new("no disassembler: the static unhang needs llvm-objdump (package llvm, or ROCm's)");
}
