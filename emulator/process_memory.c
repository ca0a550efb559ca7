// The memory of a process that computes, which it maps and fills itself.
#include "emulator/machine.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"

/** The runtime's list of code objects. A debugger finds it by this name in the process's dynamic symbols. */
extern struct r_debug _amdgpu_r_debug;
struct r_debug _amdgpu_r_debug __attribute__((visibility("default"), used));

enum { R_DEBUG_VERSION = 9, SEGMENTS = 64 };

struct range {
	uint64_t begin, end;
};
struct ranges {
	VEC(struct range) list;
};

static void range_add(struct ranges *r, uint64_t begin, uint64_t end)
{
	begin &= ~(uint64_t)(EMU_PAGE - 1);
	end = (end + EMU_PAGE - 1) & ~(uint64_t)(EMU_PAGE - 1);
	if (r->list.len && r->list.data[r->list.len - 1].end == begin)
		r->list.data[r->list.len - 1].end = end;
	else if (!r->list.len || r->list.data[r->list.len - 1].begin > begin || r->list.data[r->list.len - 1].end < end)
		vec_push(&r->list, ((struct range){ begin, end }));
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

// --- code objects ---

/** A code object's file, and what of it is loaded. */
struct object {
	char *bytes;
	size_t size;
	Elf64_Phdr segments[SEGMENTS];
	size_t n;
};

static struct uh_error *read_object(const struct emu_code *code, struct object *ret)
{
	char path[PATH_MAX];
	struct stat st;
	Elf64_Ehdr head;
	str_copy(path, sizeof(path), code->path);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return uh_error_os(errno, "%s", path);
	if (st.st_size < (off_t)sizeof(head) || st.st_size > EMU_PROCESS_MOST)
		return uh_error_new("%s: this is no code object", path);
	ret->size = (size_t)st.st_size;
	ret->bytes = mem_large(ret->size);
	if (pread(fd, ret->bytes, ret->size, 0) != st.st_size)
		return uh_error_os(errno, "%s", path);
	memcpy(&head, ret->bytes, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > SEGMENTS ||
	    head.e_phoff > ret->size || head.e_phnum * sizeof(Elf64_Phdr) > ret->size - head.e_phoff)
		return uh_error_new("%s: this is no code object", path);
	for (size_t i = 0; i < head.e_phnum; i++) {
		Elf64_Phdr *p = &ret->segments[ret->n];
		memcpy(p, ret->bytes + head.e_phoff + i * sizeof(*p), sizeof(*p));
		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_filesz > p->p_memsz || p->p_memsz > EMU_PROCESS_MOST || p->p_vaddr > UINT64_C(1) << 40 ||
		    p->p_offset > ret->size || p->p_filesz > ret->size - p->p_offset)
			return uh_error_new("%s: a segment that is not inside of the file", path);
		ret->n++;
	}
	return NULL;
}

/** A link_map of the runtime's list. */
static void list_object(const struct emu_code *code, struct link_map *m, struct link_map *before)
{
	char path[PATH_MAX], whole[PATH_MAX];
	struct text uri = { 0 };
	str_copy(path, sizeof(path), code->path);
	text_printf(&uri, "file://%s", realpath(path, whole) ? whole : path);
	m->l_addr = code->address;
	m->l_name = uri.p;
	m->l_prev = before;
	if (before)
		before->l_next = m;
}

static void list_objects(const struct emu_process *p)
{
	struct link_map *maps = p->code.len ? mem_alloc(p->code.len * sizeof(*maps)) : NULL;
	for (size_t i = 0; i < p->code.len; i++)
		list_object(&p->code.data[i], &maps[i], i ? &maps[i - 1] : NULL);
	_amdgpu_r_debug.r_version = R_DEBUG_VERSION;
	_amdgpu_r_debug.r_map = maps;
}

// --- all of it ---

static struct uh_error *map_ranges(struct ranges *r)
{
	uint64_t total = 0;
	if (r->list.len)
		qsort(r->list.data, r->list.len, sizeof(*r->list.data), compare_ranges);
	for (size_t i = 0; i < r->list.len;) {
		uint64_t begin = r->list.data[i].begin, end = r->list.data[i].end;
		for (i++; i < r->list.len && r->list.data[i].begin <= end; i++)
			end = r->list.data[i].end > end ? r->list.data[i].end : end;
		total += end - begin;
		if (total > EMU_PROCESS_MOST)
			return uh_error_new("a process with more than %d MB of memory", EMU_PROCESS_MOST >> 20);
		void *at = mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE, // NOLINT: the scenario says where
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
		if (at == MAP_FAILED)
			return uh_error_os(errno, "memory at 0x%llx", (unsigned long long)begin);
	}
	return NULL;
}

static void put_word(const struct emu_word *w, double t)
{
	uint32_t v = (uint32_t)value_at(w->value, t);
	// Whoever reads it from outside sees a whole word.
	__atomic_store_n((uint32_t *)w->address, v, __ATOMIC_RELAXED); // NOLINT: mapped by map_ranges()
}

static struct uh_error *fill(const struct emu_process *p, struct object *objects, struct ranges *r)
{
	for (size_t i = 0; i < p->code.len; i++) {
		struct uh_error *err = read_object(&p->code.data[i], &objects[i]);
		if (err)
			return err;
		for (size_t n = 0; n < objects[i].n; n++) {
			uint64_t at = p->code.data[i].address + objects[i].segments[n].p_vaddr;
			range_add(r, at, at + objects[i].segments[n].p_memsz);
		}
	}
	struct uh_error *err = map_ranges(r);
	if (err)
		return err;
	for (size_t i = 0; i < p->code.len; i++)
		for (size_t n = 0; n < objects[i].n; n++) {
			const Elf64_Phdr *s = &objects[i].segments[n];
			memcpy((void *)(p->code.data[i].address + s->p_vaddr), // NOLINT
			       objects[i].bytes + s->p_offset, s->p_filesz);
		}
	for (size_t i = 0; i < p->memory.list.len; i++)
		put_word(&p->memory.list.data[i], 0);
	list_objects(p);
	return NULL;
}

struct uh_error *emu_process_fill(const struct emu_process *p)
{
	struct object *objects = mem_alloc(p->code.len * sizeof(*objects) + 1);
	struct ranges r = { 0 };
	for (size_t i = 0; i < p->memory.list.len; i++)
		range_add(&r, p->memory.list.data[i].address, p->memory.list.data[i].address + 4);
	for (size_t i = 0; i < p->machine->queues.len; i++) {
		const struct emu_process_queue *q = &p->machine->queues.data[i];
		if (q->facts.process == p)
			range_add(&r, q->facts.ring, q->facts.ring + q->facts.size);
	}
	struct uh_error *err = fill(p, objects, &r);
	for (size_t i = 0; i < p->code.len; i++)
		free(objects[i].bytes);
	free(objects);
	vec_free(&r.list);
	return err;
}

void emu_process_tick(const struct emu_process *p, double t)
{
	for (size_t i = 0; i < p->memory.list.len; i++)
		if (value_changes(p->memory.list.data[i].value))
			put_word(&p->memory.list.data[i], t);
}
