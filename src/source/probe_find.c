#include "source/probe_find.h"

#include <elf.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "source/source.h"

enum {
	WINDOW = 128 << 10,
	LINE = 4 << 10,            // bytes that are kept of the last block, for a line that goes on
	FIND_MOST = 64 << 20,      // bytes of a text
	UNPACKED_MOST = 256 << 20, // of an ELF file
	HEAD = 512,
};

static ssize_t probe_find_read_again(int fd, char *to, size_t size, uint64_t offset)
{
	ssize_t n;
	do {
		n = pread(fd, to, size, (off_t)offset);
	} while (n < 0 && errno == EINTR);
	return n;
}

ssize_t probe_find(int fd, struct str what, char *to, size_t size, probe_moved_fn *moved, void *ctx)
{
	_cleanup_free_ char *window = mem_large(WINDOW);
	size_t have = 0;
	for (uint64_t offset = 0; offset < FIND_MOST;) {
		moved(ctx);
		ssize_t n = probe_find_read_again(fd, window + have, WINDOW - have, offset + have);
		if (n <= 0)
			return n < 0 ? -1 : (errno = ENODATA, -1);
		have += (size_t)n;
		ptrdiff_t at = str_find((struct str){ window, have }, what);
		while (at > 0 && window[at - 1] != '\n')
			at--;
		if (at >= 0)
			return probe_find_read_again(fd, to, size, offset + (uint64_t)at);
		size_t gone = have > LINE ? have - LINE : 0;
		memmove(window, window + gone, have - gone);
		have -= gone;
		offset += gone;
	}
	return errno = EFBIG, -1;
}

// --- sections ---

static bool probe_find_inside(struct str s, uint64_t offset, uint64_t size) { return offset <= s.n && size <= s.n - offset; }

static bool section_at(struct str elf, const Elf64_Ehdr *head, size_t index, Elf64_Shdr *ret)
{
	uint64_t table = head->e_shoff;
	if (index >= head->e_shnum || !probe_find_inside(elf, table, (uint64_t)head->e_shnum * sizeof(*ret)))
		return false;
	memcpy(ret, elf.p + table + index * sizeof(*ret), sizeof(*ret));
	return ret->sh_type != SHT_NOBITS && probe_find_inside(elf, ret->sh_offset, ret->sh_size);
}

struct str section_find(struct str elf, struct str name)
{
	Elf64_Ehdr head;
	Elf64_Shdr names, one;
	if (elf.n < sizeof(head))
		return (struct str){ 0 };
	memcpy(&head, elf.p, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_shentsize != sizeof(one) ||
	    !section_at(elf, &head, head.e_shstrndx, &names))
		return (struct str){ 0 };
	for (size_t i = 0; i < head.e_shnum; i++) {
		const bool there = section_at(elf, &head, i, &one);
		const struct str its =
			str_from((struct str){ elf.p + names.sh_offset, names.sh_size }, there ? one.sh_name : SIZE_MAX);
		if (its.n > name.n && str_starts(its, name) && !its.p[name.n])
			return (struct str){ elf.p + one.sh_offset, one.sh_size };
	}
	return (struct str){ 0 };
}

static ssize_t probe_find_hand_over(struct str elf, struct str name, char *to, size_t size)
{
	struct str section = section_find(elf, name);
	if (!section.p)
		return errno = ENODATA, -1;
	section = str_cut(section, size);
	if (section.n)
		memcpy(to, section.p, section.n);
	return (ssize_t)section.n;
}

struct unpacking {
	struct text bytes;
	probe_moved_fn *moved;
	void *ctx;
	bool failed;
};

static void probe_find_take_bytes(void *ctx, struct source *s)
{
	struct unpacking *u = ctx;
	struct uh_error *err = NULL;
	ssize_t n = 1;
	while (n > 0 && u->bytes.n < UNPACKED_MOST) {
		u->moved(u->ctx);
		char *room = text_room(&u->bytes, WINDOW);
		n = s->read(s, room, WINDOW, &err);
		u->bytes.n += n > 0 ? (size_t)n : 0;
	}
	u->failed |= n != 0;
	uh_error_free(err);
}

static void probe_find_on_problem(void *ctx, struct uh_error *err)
{
	((struct unpacking *)ctx)->failed = true;
	uh_error_free(err);
}

static ssize_t unpacked_section(int fd, struct str name, char *to, size_t size, probe_moved_fn *moved, void *ctx)
{
	struct unpacking u = { .moved = moved, .ctx = ctx };
	const struct source_visitor visitor = { .visit = probe_find_take_bytes, .problem = probe_find_on_problem, .ctx = &u };
	source_archive(NULL, fd, "module", &visitor);
	ssize_t n = u.failed ? (errno = EBADMSG, -1) : probe_find_hand_over(text_str(&u.bytes), name, to, size);
	text_free(&u.bytes);
	return n;
}

ssize_t probe_section(int fd, struct str name, char *to, size_t size, probe_moved_fn *moved, void *ctx)
{
	char head[HEAD];
	struct stat st;
	moved(ctx);
	ssize_t n = probe_find_read_again(fd, head, sizeof(head), 0);
	if (n < 0 || fstat(fd, &st))
		return -1;
	if (source_is_archive((struct str){ head, (size_t)n }))
		return unpacked_section(fd, name, to, size, moved, ctx);
	if (st.st_size <= 0 || st.st_size > UNPACKED_MOST)
		return errno = EFBIG, -1;
	void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -1;
	n = probe_find_hand_over((struct str){ bytes, (size_t)st.st_size }, name, to, size);
	munmap(bytes, (size_t)st.st_size);
	return n;
}
