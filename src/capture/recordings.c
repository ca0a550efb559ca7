// What flight recorders wrote: files in memory that are gone with a reboot.
#include <errno.h>

#include "base/door/door.h"
#include "capture/parts.h"

#define SHARED_MEMORY "/dev/shm"

enum { STEP_MS = 10000, FILES_MOST = 256, DIRECTORIES_MOST = 64 };

/** HOST.PID.recording: the name in the bundle tells the process, and not the host. */
static const char *member_name(struct arena *a, struct str file, size_t index)
{
	struct str stem = str_cut(file, file.n - (sizeof(".recording") - 1));
	size_t digits = 0;
	while (digits < stem.n && char_digit(stem.p[stem.n - 1 - digits]))
		digits++;
	return arena_printf(a, BUNDLE_RECORDINGS "%zu-" STR_FMT ".recording", index, STR_ARG(str_from(stem, stem.n - digits)))
		.p;
}

/** false: it could not be saved. */
static bool copy(struct step *s, const struct named *from, const char *name)
{
	struct arena a = { 0 };
	struct item_file f = { .fd = -1 };
	struct str bytes;
	_cleanup_error_ struct uh_error *err = named_read(from, step_room(s), &a, &bytes, NULL);
	bool good = !err && item_create(s->capture, name, &f) && item_write(&f, bytes) && item_finish(s->capture, &f);
	if (good)
		s->shared->result.bytes += f.bytes;
	else if (f.fd >= 0)
		item_drop(s->capture, &f);
	arena_free(&a);
	return good;
}

struct copied {
	size_t saved, failed;
};

static void copy_directory(struct step *s, const char *path, struct copied *c)
{
	struct arena a = { 0 };
	struct door_names files = { 0 };
	uh_error_free(door_names(&(struct named){ .path = path }, false, &a, &files));
	for (size_t i = 0; i < files.n && c->saved + c->failed < FILES_MOST; i++) {
		struct named from = { .path = path, .below = files.list[i] };
		if (!str_ends(str_z(files.list[i]), S(".recording")))
			continue;
		bool good = copy(s, &from, member_name(&a, str_z(files.list[i]), c->saved + c->failed));
		c->saved += good;
		c->failed += !good;
		step_moved(s);
	}
	arena_free(&a);
}

static void copy_all(struct step *s)
{
	struct arena a = { 0 };
	struct door_names directories = { 0 };
	struct copied c = { 0 };
	size_t seen = 0;
	const char *only = s->capture->options->recordings;
	if (only)
		copy_directory(s, only, &c);
	else
		uh_error_free(door_names(&(struct named){ .path = SHARED_MEMORY }, false, &a, &directories));
	for (size_t d = 0; d < directories.n && seen < DIRECTORIES_MOST; d++) {
		if (!str_starts(str_z(directories.list[d]), S("unhang-")))
			continue;
		seen++;
		copy_directory(s, arena_printf(&a, SHARED_MEMORY "/%s", directories.list[d]).p, &c);
	}
	if (c.failed)
		step_end(s, ITEM_CUT, "%zu of %zu could not be saved", c.failed, c.saved + c.failed);
	else
		step_end(s, c.saved ? ITEM_SAVED : ITEM_ABSENT, "%s", c.saved ? "" : "no flight recorder was used");
	arena_free(&a);
}

void capture_recordings(struct taking *c)
{
	step_run(c, &(struct step_plan){ BUNDLE_RECORDINGS, "recordings of flight recorders", copy_all, NULL, STEP_MS, true });
}
