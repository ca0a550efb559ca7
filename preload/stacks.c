// Who asked: backtraces as modules and offsets, each once, so that they can be told when the process is gone.
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "preload/guard.h"
#include "recorder/recorder.h"

enum {
	STACK_WORDS = sizeof(struct alloc_stack) / 8,
	MODULE_WORDS = sizeof(struct alloc_module) / 8,
	MODULES_MOST = 512,
	KNOWN = 16384
};

/** Backtraces that are in the file, by a hash of their addresses. The lock is held. */
static struct {
	uint64_t hash;
	uint32_t id;
} known[KNOWN];
static uint32_t stacks_used, modules_used;

struct snapshot {
	struct alloc_module *modules;
	size_t n;
};

static void build_id_of(const struct dl_phdr_info *info, const ElfW(Phdr) * p, struct alloc_module *m)
{
	const char *at = (const char *)(info->dlpi_addr + p->p_vaddr), *end = at + p->p_memsz;
	while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) n;
		memcpy(&n, at, sizeof(n));
		at += sizeof(n);
		const uint64_t name = round_up(n.n_namesz, 4), text = round_up(n.n_descsz, 4), left = (uint64_t)(end - at);
		if (name > left || n.n_descsz > left - name)
			return;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(at, "GNU", 4) &&
		    n.n_descsz <= sizeof(m->build_id)) {
			memcpy(m->build_id, at + name, n.n_descsz);
			m->build_id_size = n.n_descsz;
		}
		at += name + (text < left - name ? text : left - name);
	}
}

static int module_look(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct snapshot *s = ctx;
	struct alloc_module *m = &s->modules[s->n];
	(void)size;
	*m = (struct alloc_module){ .base = info->dlpi_addr, .begin = UINT64_MAX };
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint64_t begin = info->dlpi_addr + p->p_vaddr, end = begin + p->p_memsz;
		if (p->p_type == PT_NOTE)
			build_id_of(info, p, m);
		if (p->p_type != PT_LOAD)
			continue;
		m->begin = begin < m->begin ? begin : m->begin;
		m->end = end > m->end ? end : m->end;
	}
	snprintf(m->path, sizeof(m->path), "%s", info->dlpi_name ? info->dlpi_name : "");
	s->n += m->end > m->begin;
	return s->n == MODULES_MOST;
}

/** The program itself has no name there: the kernel knows the file that is mapped. */
static void program_name(struct alloc_module *m)
{
	char line[512];
	unsigned long long begin;
	FILE *maps = m->path[0] ? NULL : fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-", &begin) == 1 && begin == m->begin / PAGE * PAGE && strchr(line, '/')) {
			line[strcspn(line, "\n")] = 0;
			snprintf(m->path, sizeof(m->path), "%s", strchr(line, '/'));
			break;
		}
	if (maps)
		fclose(maps);
}

/** The lock is held. */
static void module_keep(struct alloc_module *m)
{
	for (uint32_t i = 0; i < modules_used; i++)
		if (guard.modules[i].base == m->base && guard.modules[i].begin == m->begin &&
		    !strcmp(guard.modules[i].path, m->path))
			return;
	if (modules_used >= guard.nmodules) {
		count(&guard.header->lost_modules, 1);
		return;
	}
	m->loaded = now_ns();
	record_write(&guard.modules[modules_used], m, MODULE_WORDS, modules_used);
	modules_used++;
}

/** The loader's lock is taken here, so ours is not held meanwhile: who loads a library may allocate. */
static void modules_refresh(void)
{
	struct snapshot s = { 0 };
	_cleanup_free_ struct alloc_module *room = calloc(MODULES_MOST + 1, sizeof(*room));
	s.modules = room;
	if (!room)
		return;
	dl_iterate_phdr(module_look, &s);
	for (size_t i = 0; i < s.n; i++)
		program_name(&room[i]);
	pthread_mutex_lock(&guard.lock);
	for (size_t i = 0; i < s.n; i++)
		module_keep(&room[i]);
	pthread_mutex_unlock(&guard.lock);
}

/** The newest module that has an address: others may have been there before. */
static uint64_t frame_of(uint64_t pc, bool *ret_known)
{
	for (uint32_t i = modules_used; i--;) {
		const struct alloc_module *m = &guard.modules[i];
		if (pc >= m->begin && pc < m->end) {
			*ret_known = true;
			return (uint64_t)(i + 1) << 48 | (pc - m->base);
		}
	}
	*ret_known = false;
	return pc & 0xffffffffffffu;
}

static uint64_t stack_hash(void *const *pcs, size_t n)
{
	uint64_t h = n * 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uintptr_t)pcs[i]) * 0xd6e8feb86659fd93u, h ^= h >> 32;
	return h | 1;
}

static uint32_t stack_known(uint64_t hash, size_t *ret_slot)
{
	for (size_t i = hash % KNOWN, n = 0; n < 32; n++, i = (i + 1) % KNOWN) {
		*ret_slot = i;
		if (known[i].hash == hash)
			return known[i].id;
		if (!known[i].hash)
			return 0;
	}
	return 0;
}

/** The lock is held. *ret_known: no module is missing. */
static uint32_t stack_add(void *const *pcs, size_t n, uint64_t hash, bool last, bool *ret_known)
{
	size_t slot = 0;
	uint32_t id = stack_known(hash, &slot);
	struct alloc_stack s = { .count = n };
	*ret_known = true;
	if (id)
		return id;
	for (size_t i = 0; i < n; i++) {
		bool there;
		s.frames[i] = frame_of((uintptr_t)pcs[i], &there);
		*ret_known &= there;
	}
	if (!*ret_known && !last)
		return 0;
	if (stacks_used >= guard.nstacks) {
		count(&guard.header->lost_stacks, 1);
		return 0;
	}
	id = ++stacks_used;
	record_write(&guard.stacks[id - 1], &s, STACK_WORDS, id);
	known[slot].hash = hash;
	known[slot].id = id;
	return id;
}

/** Without our own frames, which are the innermost. */
static size_t frames_take(void **pcs, const void *caller)
{
	void *raw[FRAMES_RAW];
	const int n = guard.settings.mode == ALLOC_MODE_GUARD ? backtrace(raw, FRAMES_RAW) : 0;
	int first = 0;
	while (first < n && raw[first] != caller)
		first++;
	if (first >= n) {
		pcs[0] = (void *)(uintptr_t)caller;
		return 1;
	}
	size_t kept = 0;
	for (int i = first; i < n && kept < ALLOC_FRAMES; i++)
		pcs[kept++] = raw[i];
	return kept;
}

uint32_t stack_here(const void *caller)
{
	void *pcs[ALLOC_FRAMES];
	const size_t n = frames_take(pcs, caller);
	const uint64_t hash = stack_hash(pcs, n);
	uint32_t id = 0;
	bool there = false;
	for (int again = 0; again < 2 && !id && !there; again++) {
		pthread_mutex_lock(&guard.lock);
		id = stack_add(pcs, n, hash, again, &there);
		pthread_mutex_unlock(&guard.lock);
		if (!id && !there && !again)
			modules_refresh();
	}
	return id;
}

static bool module_matches(uint64_t frame, const char *glob)
{
	const unsigned module = alloc_frame_module(frame);
	const char *path = module ? guard.modules[module - 1].path : "", *name = strrchr(path, '/');
	return module && (text_matches(glob, strlen(glob), path) || (name && text_matches(glob, strlen(glob), name + 1)));
}

bool stack_matches(uint32_t stack, const char *glob)
{
	const struct alloc_stack *s = stack && stack <= guard.nstacks ? &guard.stacks[stack - 1] : NULL;
	for (uint64_t i = 0; s && i < s->count && i < ALLOC_FRAMES; i++)
		if (module_matches(s->frames[i], glob))
			return true;
	return false;
}
