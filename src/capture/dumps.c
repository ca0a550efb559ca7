// Devcoredumps: the driver frees one after five minutes, and while it exists makes no other.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/lower.h"
#include "capture/parts.h"
#include "source/probe_list.h"

enum { DUMPS_MOST = 64, LIST_MS = 700, PIECE = 1 << 17, SILENT_MS = 5000 };

/** The dumps that there are, of all PCI devices, with the name of each device. */
static size_t find(struct arena *a, struct str *ret)
{
	struct probe devices = { .kind = PROBE_LIST, .path = "/sys/bus/pci/devices", .size = 1 << 18 };
	struct probe_count count = { 0 };
	size_t n = 0, found = 0;
	probe_run(a, &devices, 1, LIST_MS, NULL, &count);
	struct str names = probe_text(&devices);
	struct probe *lists = arena_alloc(a, (devices.n + 1) * sizeof(*lists));
	struct str *pci = arena_alloc(a, (devices.n + 1) * sizeof(*pci));
	for (; names.n; n++) {
		pci[n] = str_split(&names, '\n');
		lists[n] = (struct probe){
			.kind = PROBE_LIST,
			.path = arena_printf(a, "/sys/bus/pci/devices/" STR_FMT "/devcoredump", STR_ARG(pci[n])).p
		};
	}
	if (n)
		probe_run(a, lists, n, LIST_MS, NULL, &count);
	for (size_t i = 0; i < n && found < DUMPS_MOST; i++)
		if (lists[i].end == PROBE_GOOD && str_find(probe_text(&lists[i]), S("data")) >= 0)
			ret[found++] = pci[i];
	return found;
}

/** The driver formats the dump anew for each read, from its beginning: so it is read in large pieces, and slowness is no sign of a
 * hang. */
static void copy(struct step *s)
{
	struct item_file f;
	_cleanup_free_ char *room = mem_large(PIECE);
	const char *path = s->ctx;
	lower_to_reading(); // it copies
	struct probe allowed = { .kind = PROBE_READ, .path = path };
	_cleanup_close_ int from = probe_allowed(&allowed) ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
	if (from < 0) {
		step_end(s, errno == EACCES ? ITEM_REFUSED : ITEM_FAILED, "%s: %s", path, strerror(errno));
		return;
	}
	if (!item_create(s->capture, s->name, &f)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		return;
	}
	ssize_t n = 1;
	uint64_t most = step_room(s);
	while (f.bytes < most && (n = read(from, room, PIECE)) > 0 && item_write(&f, (struct str){ room, (size_t)n }))
		step_moved(s);
	int why = errno;
	s->shared->result.bytes = f.bytes;
	if (n < 0 || (n > 0 && f.bytes < most))
		step_end(s, ITEM_FAILED, "%s", strerror(why));
	else if (n > 0)
		step_end(s, ITEM_CUT, "only its first %llu MB were kept", (unsigned long long)(most >> 20));
	else
		step_end(s, ITEM_SAVED, "%s", "");
	if (s->shared->result.state == ITEM_FAILED)
		item_drop(s->capture, &f);
	else if (!item_finish(s->capture, &f))
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
}

/** Writing to the file frees the dump, so that the driver can make another: only when it was asked for, and the copy is on the disk. */
static void release(struct step *s)
{
	_cleanup_close_ int fd = open(s->ctx, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || write(fd, "1", 1) != 1)
		step_end(s, ITEM_FAILED, "%s: %s", (const char *)s->ctx, strerror(errno));
	else
		step_end(s, ITEM_SAVED, "%s", "");
}

static void take(struct taking *c, struct str pci)
{
	const char *name = arena_printf(c->arena, BUNDLE_DUMPS STR_FMT ".txt", STR_ARG(pci)).p;
	const char *path = arena_printf(c->arena, "/sys/bus/pci/devices/" STR_FMT "/devcoredump/data", STR_ARG(pci)).p;
	const char *what = arena_printf(c->arena, "the devcoredump of " STR_FMT, STR_ARG(pci)).p;
	struct manifest_item *i = step_run(c, &(struct step_plan){ name, what, copy, path, SILENT_MS, true });
	bool saved = i->state == ITEM_SAVED;
	if (saved && c->options->release_dumps) {
		const char *freed = arena_printf(c->arena, "release of the devcoredump of " STR_FMT, STR_ARG(pci)).p;
		step_run(c, &(struct step_plan){ "release", freed, release, path, SILENT_MS, false });
	} else {
		vec_push(&c->manifest->notes, arena_printf(c->arena,
							   "The devcoredump of " STR_FMT
							   " still exists. Until the driver frees it, after five minutes, "
							   "it makes no other one%s.",
							   STR_ARG(pci), saved ? "; --release-devcoredump frees it" : ""));
	}
}

void capture_dumps(struct taking *c)
{
	struct str found[DUMPS_MOST];
	size_t n = find(c->arena, found);
	for (size_t i = 0; i < n; i++)
		take(c, found[i]);
	if (!n)
		step_note(c, BUNDLE_DUMPS, "devcoredumps", ITEM_ABSENT, "there is none");
}
