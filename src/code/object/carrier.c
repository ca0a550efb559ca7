// Files that carry code objects: ELF files of GPU and host, LLVM's offload binaries, archives.
#include <inttypes.h>
#include <elf.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "code/object/unpack.h"
#include "code/walk.h"

enum {
	EM_GPU = 224,
	SECTION_OFFLOADING = 0x6fff4c0b,
	SECTION_NAME = 256,
	SECTIONS = 1 << 16, // that have code or data
	OFFLOAD_ENTRIES = 1 << 16,
	OFFLOAD_STRINGS = 64, // of an image: "triple", "arch" and few more
};

/** Where the section headers are and how many, even if there are too many for the ELF header to say. false: they lie outside. */
static bool carrier_section_table(struct walk *w, struct stretch s, const Elf64_Ehdr *h, uint64_t *ret_n, uint64_t *ret_names)
{
	uint64_t n = h->e_shnum, names = h->e_shstrndx;
	if (h->e_shoff && (!n || names == SHN_XINDEX)) {
		Elf64_Shdr zero;
		struct str p =
			inside(s, h->e_shoff, sizeof(zero)) ? walk_peek(w, s.begin + h->e_shoff, s.end, sizeof(zero)) : S("");
		if (p.n < sizeof(zero))
			return false;
		memcpy(&zero, p.p, sizeof(zero));
		n = n ? n : zero.sh_size;
		names = names == SHN_XINDEX ? zero.sh_link : names;
	}
	*ret_n = h->e_shoff ? n : 0;
	*ret_names = names;
	return !*ret_n || (h->e_shentsize == sizeof(Elf64_Shdr) && n <= UINT64_MAX / sizeof(Elf64_Shdr) &&
			   inside(s, h->e_shoff, n * sizeof(Elf64_Shdr)));
}

static bool section_header(struct walk *w, struct stretch s, const Elf64_Ehdr *h, uint64_t i, Elf64_Shdr *ret)
{
	struct str p = walk_peek(w, s.begin + h->e_shoff + i * sizeof(*ret), s.end, sizeof(*ret));
	if (p.n < sizeof(*ret))
		return false;
	memcpy(ret, p.p, sizeof(*ret));
	return true;
}

/** Where the ELF file ends according to its headers. If a part of it lies outside, an error, and where the rest ends. */
static uint64_t elf_end(struct walk *w, struct stretch s, const Elf64_Ehdr *h, struct uh_error **ret_err)
{
	uint64_t end = s.begin + sizeof(*h), n, names;
	uint64_t segments = h->e_phoff ? (uint64_t)h->e_phnum * sizeof(Elf64_Phdr) : 0;
	if ((segments && h->e_phentsize != sizeof(Elf64_Phdr)) || !inside(s, h->e_phoff, segments)) {
		*ret_err = uh_error_new("ELF header at 0x%" PRIx64 ": its program headers lie outside (0x%" PRIx64 ")", s.begin,
					s.end);
		return end;
	}
	if (!carrier_section_table(w, s, h, &n, &names)) {
		*ret_err = uh_error_new("ELF header at 0x%" PRIx64 ": its section headers lie outside (0x%" PRIx64 ")", s.begin,
					s.end);
		return end;
	}
	end = later(end, s.begin + h->e_phoff + segments);
	end = later(end, n ? s.begin + h->e_shoff + n * sizeof(Elf64_Shdr) : 0);
	for (uint64_t i = 0; i < h->e_phnum && segments; i++) {
		Elf64_Phdr p;
		struct str bytes = walk_peek(w, s.begin + h->e_phoff + i * sizeof(p), s.end, sizeof(p));
		if (bytes.n < sizeof(p))
			break;
		memcpy(&p, bytes.p, sizeof(p));
		if (inside(s, p.p_offset, p.p_filesz))
			end = later(end, s.begin + p.p_offset + p.p_filesz);
		else if (!*ret_err)
			*ret_err = uh_error_new("program header %" PRIu64 " of the ELF file at 0x%" PRIx64
						": its bytes lie outside (0x%" PRIx64 ")",
						i, s.begin, s.end);
	}
	Elf64_Shdr section;
	for (uint64_t i = 0; i < n && section_header(w, s, h, i, &section); i++) {
		if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL)
			continue;
		if (inside(s, section.sh_offset, section.sh_size))
			end = later(end, s.begin + section.sh_offset + section.sh_size);
		else if (!*ret_err)
			*ret_err = uh_error_new("section header %" PRIu64 " of the ELF file at 0x%" PRIx64
						": its bytes lie outside (0x%" PRIx64 ")",
						i, s.begin, s.end);
	}
	return end;
}

static bool elf_header(struct walk *w, struct stretch s, Elf64_Ehdr *ret)
{
	struct str p = walk_peek(w, s.begin, s.end, sizeof(*ret));
	if (p.n < sizeof(*ret))
		return false;
	memcpy(ret, p.p, sizeof(*ret));
	return ret->e_ident[EI_CLASS] == ELFCLASS64 && ret->e_ident[EI_DATA] == ELFDATA2LSB && ret->e_ehsize == sizeof(*ret);
}

/** A host program whose headers are not read, because they are of 32 bits or have the other byte order. */
static bool elf_other(struct walk *w, struct stretch s)
{
	struct str p = walk_peek(w, s.begin, s.end, EI_NIDENT);
	return p.n == EI_NIDENT && (p.p[EI_CLASS] == ELFCLASS32 || p.p[EI_DATA] == ELFDATA2MSB);
}

uint64_t walk_elf(struct walk *w, struct stretch s, bool sure)
{
	Elf64_Ehdr h;
	_cleanup_error_ struct uh_error *err = NULL;
	if (!elf_header(w, s, &h)) {
		if (sure)
			walk_problem(w, "ELF header at 0x%" PRIx64 ": it is cut off or damaged", s.begin);
		return s.begin;
	}
	if (h.e_machine != EM_GPU || h.e_type == ET_CORE)
		return s.begin;
	uint64_t end = elf_end(w, s, &h, &err);
	if (err && sure)
		end = s.end; // who reads the object tells more exactly what is wrong with it
	else if (err)
		walk_problem(w, "%s", uh_error_message(err));
	if (!w->finder->wanted || w->finder->wanted(w->finder->ctx, s.target)) {
		s.end = end;
		walk_hand_over(w, s);
	}
	return end;
}

// --- host programs and their objects ---

struct section {
	uint64_t begin, size, header;
	char name[SECTION_NAME];
};

typedef VEC(struct section) sections;

static void section_name(struct walk *w, struct stretch s, const Elf64_Shdr *names, const Elf64_Shdr *h,
			 char ret[static SECTION_NAME])
{
	*ret = 0;
	if (!inside(s, names->sh_offset, names->sh_size) || h->sh_name >= names->sh_size)
		return;
	uint64_t n = earlier(names->sh_size - h->sh_name, SECTION_NAME - 1);
	// Not through the window, which has the headers.
	if (!file_read(w->f, s.begin + names->sh_offset + h->sh_name, ret, n))
		n = 0;
	ret[n] = 0;
}

static bool section_offloads(const char *name)
{
	struct str s = str_z(name);
	return str_starts(s, S(".hip_fatbin")) || str_starts(s, S(".llvm.offloading")) || str_starts(s, BUNDLE_MAGIC);
}

/** The sections with GPU code. Where there are none, those of data: a program may have a code object as an array of bytes. */
static void carrier_collect(struct walk *w, struct stretch s, const Elf64_Ehdr *h, bool data, sections *ret)
{
	uint64_t n, names_at;
	Elf64_Shdr section, names = { 0 };
	if (!carrier_section_table(w, s, h, &n, &names_at))
		return;
	if (names_at < n)
		section_header(w, s, h, names_at, &names);
	for (uint64_t i = 0; i < n && ret->len < SECTIONS && section_header(w, s, h, i, &section); i++) {
		if (section.sh_type != SHT_PROGBITS && section.sh_type != SECTION_OFFLOADING)
			continue;
		bool plain = (section.sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) == SHF_ALLOC &&
			     inside(s, section.sh_offset, section.sh_size);
		struct section new = { section.sh_offset, section.sh_size, s.begin + h->e_shoff + i * sizeof(section), "" };
		if (!data)
			section_name(w, s, &names, &section, new.name);
		if (section.sh_size && (data ? plain : section_offloads(new.name)))
			vec_push(ret, new);
	}
}

static int carrier_by_place(const void *a, const void *b)
{
	uint64_t x = ((const struct section *)a)->begin, y = ((const struct section *)b)->begin;
	return x < y ? -1 : x > y;
}

/** What a section holds. Its name may say for which target, else containers are looked for in it. */
static void walk_section(struct walk *w, struct stretch s, const struct section *section, uint64_t *done)
{
	if (!inside(s, section->begin, section->size))
		walk_problem(w,
			     "section %s (header at 0x%" PRIx64 "): its 0x%" PRIx64 " bytes at 0x%" PRIx64
			     " lie outside (0x%" PRIx64 ")",
			     section->name, section->header, section->size, s.begin + section->begin, s.end);
	struct stretch part = { s.begin + earlier(section->begin, s.end - s.begin), s.end, s.target, s.depth + 1 };
	part.end = part.begin + earlier(section->size, s.end - part.begin);
	// Bytes that are in two sections are looked at once.
	part.begin = later(part.begin, *done);
	if (part.begin >= part.end)
		return;
	*done = part.end;
	struct str name = str_z(section->name);
	if (str_starts(name, BUNDLE_MAGIC)) {
		part.target = str_from(name, BUNDLE_MAGIC.n);
		walk_image(w, part, section->name);
	} else {
		walk_containers(w, part, name.n ? section->name : NULL);
	}
}

void walk_host(struct walk *w, struct stretch s)
{
	Elf64_Ehdr h;
	uint64_t n, names, done = s.begin;
	_cleanup_vec_ sections found = { 0 };
	if (!elf_header(w, s, &h)) {
		if (!elf_other(w, s))
			walk_problem(w, "ELF header at 0x%" PRIx64 ": it is cut off or damaged", s.begin);
		s.begin += 4;
		walk_containers(w, s, NULL);
		return;
	}
	if (h.e_type == ET_CORE)
		return;
	bool table = carrier_section_table(w, s, &h, &n, &names);
	if (!table)
		walk_problem(w, "ELF header at 0x%" PRIx64 ": its section headers at 0x%" PRIx64 " lie outside (0x%" PRIx64 ")",
			     s.begin, h.e_shoff, s.end);
	if (!table || !n) {
		s.begin += sizeof(h);
		walk_containers(w, s, NULL);
		return;
	}
	carrier_collect(w, s, &h, false, &found);
	if (!found.len)
		carrier_collect(w, s, &h, true, &found);
	if (found.len)
		qsort(found.data, found.len, sizeof(found.data[0]), carrier_by_place);
	for (size_t i = 0; i < found.len; i++)
		walk_section(w, s, &found.data[i], &done);
}

// --- archives ---

static bool archive_number(struct str s, uint64_t *ret)
{
	int64_t v;
	s = str_trim(s);
	if (!s.n || !char_digit(s.p[0]) || !str_number(s, &v))
		return false;
	*ret = (uint64_t)v;
	return true;
}

void walk_archive(struct walk *w, struct stretch s)
{
	uint64_t at = s.begin + ARCHIVE_MAGIC.n;
	while (at < s.end) {
		struct str head = walk_peek(w, at, s.end, 60);
		uint64_t size, name = 0, data = at + 60;
		if (head.n < 60 || memcmp(head.p + 58, "`\n", 2) || !archive_number(str_cut(str_from(head, 48), 10), &size)) {
			walk_problem(w, "archive member at 0x%" PRIx64 ": its header is damaged or cut off", at);
			s.begin = at;
			walk_containers(w, s, NULL);
			return;
		}
		// BSD's ar has long names in front of the content, GNU's in a member of their own, beside one with the symbols.
		if (str_starts(head, S("#1/")))
			archive_number(str_cut(str_from(head, 3), 13), &name);
		bool table = head.p[0] == '/' && !char_digit(head.p[1]);
		if (size > s.end - data || name > size)
			walk_problem(w, "archive member at 0x%" PRIx64 ": its %" PRIu64 " bytes lie outside (0x%" PRIx64 ")",
				     at, size, s.end);
		struct stretch member = { data, data + earlier(size, s.end - data), s.target, s.depth + 1 };
		at = member.end + (member.end - data) % 2;
		member.begin += earlier(name, member.end - data);
		if (!table && member.begin < member.end)
			walk_whole(w, member);
	}
}

// --- LLVM's offload binaries ---

static uint64_t offload_string(struct walk *w, struct stretch s, uint64_t at, char *ret, size_t room)
{
	struct str p = inside(s, at, 0) ? walk_peek(w, s.begin + at, s.end, room - 1) : S("");
	size_t n = strnlen(p.p ? p.p : "", p.n);
	str_copy(ret, room, str_cut(p, n));
	return n;
}

/** amdgcn-amd-amdhsa--gfx90a, as bundles write it. */
static bool offload_target(struct walk *w, struct stretch s, unsigned version, uint64_t strings, uint64_t count,
			   char ret[static WALK_NAME])
{
	char triple[WALK_NAME / 4] = "", arch[WALK_NAME / 4] = "", key[8];
	size_t row = version == 1 ? 16 : 24;
	count = earlier(count, OFFLOAD_STRINGS);
	*ret = 0;
	if (!inside(s, strings, count * row))
		return false;
	for (uint64_t i = 0; i < count; i++) {
		struct str p = walk_peek(w, s.begin + strings + i * row, s.end, row);
		if (p.n < row)
			return false;
		uint64_t name = get_u64(p.p), value = get_u64(p.p + 8);
		offload_string(w, s, name, key, sizeof(key));
		if (!strcmp(key, "triple"))
			offload_string(w, s, value, triple, sizeof(triple));
		else if (!strcmp(key, "arch"))
			offload_string(w, s, value, arch, sizeof(arch));
	}
	snprintf(ret, WALK_NAME, "%s%s%s", triple, *arch ? "--" : "", arch);
	return true;
}

static void offload_entry(struct walk *w, struct stretch s, unsigned version, uint64_t at)
{
	char target[WALK_NAME], what[96];
	struct str p = walk_peek(w, s.begin + at, s.end, 40);
	snprintf(what, sizeof(what), "entry at 0x%" PRIx64 " of the offload binary at 0x%" PRIx64, s.begin + at, s.begin);
	if (p.n < 40) {
		walk_problem(w, "%s: it cannot be read", what);
		return;
	}
	uint64_t strings = get_u64(p.p + 8), count = get_u64(p.p + 16), offset = get_u64(p.p + 24), size = get_u64(p.p + 32);
	if (!inside(s, offset, size)) {
		walk_problem(w, "%s: its 0x%" PRIx64 " bytes at 0x%" PRIx64 " lie outside (0x%" PRIx64 ")", what, size,
			     s.begin + offset, s.end);
		return;
	}
	if (!offload_target(w, s, version, strings, count, target))
		walk_problem(w, "%s: its strings at 0x%" PRIx64 " lie outside (0x%" PRIx64 ")", what, s.begin + strings, s.end);
	struct stretch image = { s.begin + offset, s.begin + offset + size, str_z(target), s.depth + 1 };
	if (size)
		walk_image(w, image, what);
}

/** Version 3 may have all behind its header compressed. */
static void offload_packed(struct walk *w, struct stretch s, struct str head)
{
	uint64_t front = get_u64(head.p + 16), size = get_u64(head.p + 32), have = s.end - s.begin;
	if (front < 40 || front > WALK_NAME || front > have || size < front || !walk_may_unpack(w, have, size)) {
		walk_problem(w,
			     "offload binary at 0x%" PRIx64 ": not unpacked: 0x%" PRIx64 " bytes of 0x%" PRIx64
			     ", or packed twice",
			     s.begin, size, have);
		return;
	}
	char header[40], place[64];
	memcpy(header, head.p, sizeof(header));
	memcpy(header + 8, &size, sizeof(size));
	memset(header + 32, 0, sizeof(size));
	bool zstd = str_starts(walk_peek(w, s.begin + front, s.end, 4), S("\x28\xb5\x2f\xfd"));
	struct unpacked u = { 0 };
	const struct packed_stream packed = { zstd ? UNPACK_ZSTD : UNPACK_ZLIB, s.begin + front, have - front,
					      .most = size - front, .front = front };
	_cleanup_error_ struct uh_error *err = unpack(w->f, &packed, &u);
	if (err)
		walk_problem(w, "offload binary at 0x%" PRIx64 ": %s", s.begin, uh_error_message(err));
	if (!u.bytes)
		return;
	memcpy(u.bytes, header, sizeof(header));
	snprintf(place, sizeof(place), "in the compressed offload binary at 0x%" PRIx64 ": ", s.begin);
	walk_unpacked(w, s, place, (struct str){ (const char *)u.bytes, u.size }, true);
	free(u.bytes);
}

uint64_t walk_offload_binary(struct walk *w, struct stretch s, bool sure)
{
	struct str head = walk_peek(w, s.begin, s.end, 40);
	unsigned version = head.n < 32 ? 0 : get_u32(head.p + 4);
	uint64_t size = head.n < 32 ? 0 : get_u64(head.p + 8);
	if (!version || version > 3 || size < 32 || (version == 3 && head.n < 40)) {
		if (sure)
			walk_problem(w, "offload binary at 0x%" PRIx64 ": its header is cut off, or of an unknown version",
				     s.begin);
		return s.begin;
	}
	if (!inside(s, 0, size))
		walk_problem(w, "offload binary at 0x%" PRIx64 ": its 0x%" PRIx64 " bytes lie outside (0x%" PRIx64 ")", s.begin,
			     size, s.end);
	s.end = s.begin + earlier(size, s.end - s.begin);
	if (version == 3 && get_u64(head.p + 32)) {
		offload_packed(w, s, head);
		return s.end;
	}
	uint64_t entries = get_u64(head.p + 16), count = version == 1 ? 1 : get_u64(head.p + 24);
	if (count > OFFLOAD_ENTRIES || !inside(s, entries, 40 * count)) {
		walk_problem(w,
			     "offload binary at 0x%" PRIx64 ": its %" PRIu64 " entries at 0x%" PRIx64 " lie outside (0x%" PRIx64
			     ")",
			     s.begin, count, s.begin + entries, s.end);
		return s.begin + 32;
	}
	for (uint64_t i = 0; i < count; i++)
		offload_entry(w, s, version, entries + 40 * i);
	return s.end;
}
