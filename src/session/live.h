// GPUs of this machine, for the commands that look at them.
#pragma once

#include "gpu/silicon/silicon.h"
#include "session/look.h"
#include "session/machine.h"

struct live {
	struct found_devices found;
	struct arena arena;
	const struct device **list; // those that were asked for
	size_t n;
};

/** All GPUs, or the one that is asked for. @track: what a tape calls the look. @one: an error if there are several and none was named. Free with live_free(). */
struct uh_error *live_find(const struct know *k, const struct uh_look_options *o, const char *track, bool one,
			   struct live *ret);
void live_free(struct live *l);
/** `0000:03:00.0, Radeon RX 7900 XTX, gfx1100` */
struct str live_title(struct arena *a, const struct device *d);
/** Reports that the GPU at @index is being looked at. An index behind the last one: that all are done. */
void live_progress(const struct live *l, const struct uh_look_options *o, size_t index);
/** Why a GPU did not give an answer, as a phrase. */
struct str live_why_not(struct arena *a, struct target *t, enum answer answer);
/** Notes another GPU whose @what could not be read. *err is the newest such error; the one before it is told as a problem. */
void live_cannot(struct uh_error **err, const struct teller *t, struct str gpu, const char *what, struct str why_not);
/** At the end: returns the error if no GPU answered; else tells it as a problem and returns NULL. */
struct uh_error *live_could(struct uh_error *err, const struct teller *t, size_t answered);
/** Says what root could see besides, where this is not root. */
void live_tell_root(const struct live *l, const struct teller *t);
