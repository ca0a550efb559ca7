// What the looks at targets, GPUs and code share: how one begins, the GPUs that it is about, and who is told of what is odd.
#pragma once

#include "base/cleanup.h"
#include "gpu/silicon/silicon.h"
#include "report/live/look.h"
#include "session/machine.h"

/** Who is told of what is odd. */
struct teller {
	uh_problem_fn *problem;
	void *ctx;
};

/** Tells each line of @text. */
void look_tell(const struct teller *t, struct str text);
/** Problems of knowledge, told as FILE:LINE: what. @t has to live as long as they are used. */
struct know_problems knowledge_problems(const struct teller *t);
struct know *look_knowledge(struct teller t);
/** The same for a look at a machine, which may have it. It is freed with the second. */
struct know *look_knowledge_of(const struct uh_machine *m, struct teller t);
void look_knowledge_free(const struct uh_machine *m, struct know *k);
/** There is no block of this kind with this id: with what somebody may have meant, or the command that lists them. */
struct uh_error *look_no_such(const struct know *k, const char *kind, const char *lists, const char *id);
static inline void know_drop(struct know **k)
{
	know_free(*k);
	*k = NULL;
}
#define _cleanup_know_ _cleanup_(know_drop)

/** A look that somebody asked for. Its targets may name a bundle: then that is the machine, and the other targets are what to look at in it. */
struct looking {
	struct uh_look_options options;
	const char *targets[8];
	struct uh_machine *opened; // the bundle; NULL
	struct know *know;
	FILE *out;
	struct teller teller;
};
struct uh_error *looking_begin(struct looking *l, const struct uh_look_options *o, FILE *out, struct teller t);
void looking_end(struct looking *l);
#define _cleanup_looking_ _cleanup_(looking_end)

/** Tells what is odd about a target and its code. */
void look_tell_target(struct look *l, const struct teller *t);
/** Tells what is odd about code. */
void look_tell_code(const struct target_code *c, const struct teller *t);
/** Finds the GPUs of this machine and writes about their waves. */
struct uh_error *live_waves(struct looking *l);
/** The same for the queues of programs. @pid: only of this one; NULL: of all. */
struct uh_error *live_queues(struct looking *l, const int64_t *pid);

/** The verdict on each of the rings of a GPU that have work and did not move; of the others is.n is 0. In @a. */
const struct silicon_state *live_ring_states(const struct looking *at, const struct devices *d, struct str gpu, const struct ring_view *views,
					     size_t n, struct arena *a);

/** GPUs of a machine that are looked at. */
struct live {
	struct found_devices found;
	struct arena arena;
	const struct device **list; // those that were asked for
	size_t n;
};

/** All GPUs, or the one that is asked for. @track: what a tape calls the look. @one: an error if there are several and none was named. */
struct uh_error *live_find(const struct looking *l, const char *track, bool one, struct live *ret);
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
/** The device core that is the only target of a look. */
struct uh_error *look_open_dump(const struct looking *l, struct target **ret, struct str *ret_gfx);

// Lines of source files that are on this machine. Debug information may name any file. Only those are read that lie below a directory
// that the user named, or beside the code, and that the user who called may read.
struct source_texts;

/** @directories: in which files are looked for by the end of their path. */
struct source_texts *source_texts_new(const char *const *directories, size_t n);
/** @problems gets a line about the first file that exists and was not read. */
void source_texts_free(struct source_texts *t, struct text *problems);
/** The line without white space around it; empty where the file or the line is not there. @object: the file of the code. */
struct str source_line(struct source_texts *t, struct str object, struct str path, unsigned line);
