// GPUs of this machine, for the commands that look at them.
#pragma once

#include "gpu/silicon/silicon.h"
#include "session/look.h"

struct live {
	struct devices devices;
	const struct device **list; // those that were asked for
	size_t n;
};

/** All GPUs, or the one that @gpu names. With @one it is an error that there are several and none was named. */
struct uh_error *live_find(const struct know *k, const char *gpu, bool one, struct live *ret);
void live_free(struct live *l);
/** `0000:03:00.0, Radeon RX 7900 XTX, gfx1100` */
struct str live_title(struct arena *a, const struct device *d);
/** Says that the GPU at @index is being looked at; behind the last one, that none is any more. */
void live_progress(const struct live *l, const struct uh_look_options *o, size_t index);
/** Why a GPU did not give an answer, as a phrase. */
struct str live_why_not(struct arena *a, struct target *t, enum answer answer);
/** One more GPU whose @what could not be read: the error is that of the last, those before it are told. */
void live_cannot(struct uh_error **err, const struct teller *t, struct str gpu, const char *what, struct str why_not);
/** In the end: tells it where others answered, and returns it where none did. */
struct uh_error *live_could(struct uh_error *err, const struct teller *t, size_t answered);
/** Says what root could see besides, where this is not root. */
void live_tell_root(const struct live *l, const struct teller *t);
