// Who asked: backtraces of allocations, and of the launches that rows `trace` name. They go into the log as texts, one for each place in the
// program, with the files and offsets that a reader finds functions by.
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

#include "recorder/waits/waits.h"

enum { FRAMES_MOST = 32, TEXT_MOST = 6144 };

_Atomic bool traces_wanted;

struct loaded_file {
	uint64_t pc, base;
	char path[PATH_MAX];
};

static int file_look(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct loaded_file *f = ctx;
	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint64_t begin = info->dlpi_addr + p->p_vaddr;
		if (p->p_type != PT_LOAD || f->pc < begin || f->pc - begin >= p->p_memsz)
			continue;
		f->base = info->dlpi_addr;
		snprintf(f->path, sizeof(f->path), "%s", info->dlpi_name ? info->dlpi_name : "");
		return 1;
	}
	return 0;
}

/** A line `OFFSET PATH`; the program itself has no name among what is loaded. */
static bool frame_write(void *pc, char *to, size_t room, size_t *used)
{
	struct loaded_file f = { .pc = (uintptr_t)pc };
	if (!dl_iterate_phdr(file_look, &f))
		return false;
	const ssize_t n = f.path[0] ? -1 : readlink("/proc/self/exe", f.path, sizeof(f.path) - 1);
	if (n > 0)
		f.path[n] = 0;
	const int wrote = snprintf(to + *used, room - *used, "%llu %s\n", (unsigned long long)(f.pc - f.base), f.path);
	if (wrote < 0 || (size_t)wrote >= room - *used)
		return false;
	*used += (size_t)wrote;
	return true;
}

void traces_begin(bool wanted)
{
	void *first[1];
	if (wanted && backtrace(first, 1) >= 0) // it loads what it needs now, not inside of a launch
		atomic_store(&traces_wanted, true);
}

void trace_note(uint64_t what, uint64_t place)
{
	void *pcs[FRAMES_MOST];
	char text[TEXT_MOST];
	size_t used = 0;
	const uint64_t now = rec_ticks();
	const int n = backtrace(pcs, FRAMES_MOST);
	text[0] = 0;
	for (int i = 0; i < n; i++)
		if (!frame_write(pcs[i], text, sizeof(text), &used))
			text[used] = 0;
	if (used)
		event_at(thread_here(), CALL_TRACE, now, HSA_OK, (const uint64_t[4]){ what, place, text_number(text) });
}
