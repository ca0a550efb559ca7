// Looks at the machine, each on a track of its own.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/door/door.h"
#include "capture/parts.h"

enum { LOOK_MS = 20000 };

/** A track is written in place: each of its records is whole, or not there. */
static void look(struct step *s)
{
	const struct capture_look *l = s->ctx;
	struct item_file f;
	if (!item_create(s->capture, s->name, &f) || renameat(s->capture->dir, f.new_name, s->capture->dir, f.name)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		return;
	}
	struct tape *tape = tape_record(&(struct tape_recording){
		.fd = f.fd, .most = step_room(s), .filter = capture_filter(s->capture), .dead = s->capture->dead });
	l->look(tape, l->ctx);
	bool whole = tape_end(tape);
	int why = errno;
	s->shared->result.bytes = tape_written(tape);
	if (whole && !fsync(s->capture->dir))
		step_end(s, ITEM_SAVED, "%s", "");
	else
		step_end(s, ITEM_CUT, "%s", why == EFBIG ? "it has more bytes than an item may have" : strerror(why ? why : errno));
	tape_free(tape);
	door_end();
}

void capture_looks(struct taking *c, bool last)
{
	for (size_t i = 0; i < c->options->nlooks; i++) {
		const struct capture_look *l = &c->options->looks[i];
		if (l->last != last)
			continue;
		const char *name = arena_printf(c->arena, BUNDLE_TRACKS "%s", l->track).p;
		step_run(c, &(struct step_plan){ name, l->what, look, l, LOOK_MS, false });
	}
}
