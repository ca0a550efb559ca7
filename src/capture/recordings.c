// What flight recorders wrote: files in memory that are gone with a reboot.
#include <errno.h>

#include "base/door/door.h"
#include "base/lower.h"
#include "capture/parts.h"
#include "evidence/recording/places.h"
#include "recorder/format.h"

#define RECORDING ".recording"
#define CORE ".gpucore"
enum { STEP_MS = 10000, FILES_MOST = 256 };

/** HOST.PID.recording: the name in the bundle tells the process, and not the host. */
static const char *member_name(struct arena *a, struct str stem, size_t index, const char *ending)
{
	size_t digits = 0;
	while (digits < stem.n && char_digit(stem.p[stem.n - 1 - digits]))
		digits++;
	return arena_printf(a, BUNDLE_RECORDINGS "%zu-" STR_FMT "%s", index, STR_ARG(str_from(stem, stem.n - digits)), ending)
		.p;
}

/** Arguments of kernels are the users': in their place come zeros, of a kind that readers pass over. What has another version may have them
 * anywhere. */
static bool blank_arguments(char *bytes, size_t n)
{
	struct rec_header h;
	const size_t table = RECORDING_EXTENTS * sizeof(struct rec_extent);
	if (n < RECORDING_EXTENTS_AT + table)
		return false;
	memcpy(&h, bytes, sizeof(h));
	if (memcmp(h.magic, RECORDING_MAGIC, sizeof(h.magic)) != 0 || h.version != RECORDING_VERSION)
		return false;
	for (size_t at = RECORDING_EXTENTS_AT; at < RECORDING_EXTENTS_AT + table; at += sizeof(struct rec_extent)) {
		struct rec_extent e;
		memcpy(&e, bytes + at, sizeof(e));
		if (e.kind != EXTENT_ARGUMENTS)
			continue;
		e.kind = EXTENT_LEFT_OUT;
		memcpy(bytes + at, &e, sizeof(e));
		if (e.offset < n)
			memset(bytes + e.offset, 0, e.size < n - e.offset ? (size_t)e.size : n - (size_t)e.offset);
	}
	return true;
}

/** What the options let through of it. Who captures a job of his own has all of its recordings. */
static bool may_have_arguments(const struct step *s)
{
	return s->capture->options->user_data == USER_DATA_ALL || s->capture->options->recordings;
}

/** false: it could not be saved. */
static bool copy(struct step *s, const struct named *from, const char *name, bool recording)
{
	struct arena a = { 0 };
	struct item_file f = { .fd = -1 };
	struct str bytes;
	_cleanup_error_ struct uh_error *err = named_read(from, step_room(s), &a, &bytes, NULL);
	const bool blank = recording && !may_have_arguments(s);
	bool good = !err && (!blank || blank_arguments((char *)(uintptr_t)bytes.p, bytes.n)) &&
		    item_create(s->capture, name, &f) && item_write(&f, bytes) && item_finish(s->capture, &f);
	if (good)
		s->shared->result.bytes += f.bytes;
	else if (f.fd >= 0)
		item_drop(s->capture, &f);
	arena_free(&a);
	return good;
}

/** With the light GPU core of a fault, which the recorder writes beside it: registers, LDS and arguments are the users'. */
static bool copy_with_core(struct step *s, struct arena *a, const struct recording_place *p, size_t index)
{
	const struct str stem = str_cut(str_z(p->name), strlen(p->name) - (sizeof(RECORDING) - 1));
	const struct named core = { .path = p->directory, .below = arena_printf(a, STR_FMT CORE, STR_ARG(stem)).p };
	if (s->capture->options->user_data == USER_DATA_ALL)
		copy(s, &core, member_name(a, stem, index, CORE), false);
	return copy(s, &(struct named){ .path = p->directory, .below = p->name }, member_name(a, stem, index, RECORDING), true);
}

static void copy_all(struct step *s)
{
	struct arena a = { 0 };
	struct recording_places places = { 0 };
	size_t saved = 0, failed = 0;
	const char *only = s->capture->options->recordings;
	lower_to_reading(); // it copies
	if (only)
		uh_error_free(recordings_in(&a, only, &places));
	else
		recordings_default(&a, &places);
	for (size_t i = 0; i < places.list.len && i < FILES_MOST; i++) {
		const bool good = copy_with_core(s, &a, &places.list.data[i], i);
		saved += good;
		failed += !good;
		step_moved(s);
	}
	vec_free(&places.list);
	if (failed)
		step_end(s, ITEM_CUT, "%zu of %zu could not be saved", failed, saved + failed);
	else
		step_end(s, saved ? ITEM_SAVED : ITEM_ABSENT, "%s", saved ? "" : "no flight recorder was used");
	arena_free(&a);
}

void capture_recordings(struct taking *c)
{
	step_run(c, &(struct step_plan){ BUNDLE_RECORDINGS, "recordings of flight recorders", copy_all, NULL, STEP_MS, true });
}
