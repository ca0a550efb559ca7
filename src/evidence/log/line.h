// One line of a log as people have it: with colours, quoted, wrapped in JSON.
#pragma once

#include "base/lifetime.h"
#include "evidence/event.h"
#include "evidence/log/prefix.h"
#include "evidence/log/stamp.h"

/** All texts are views of the line, or of its clean copy. */
struct logline {
	struct str text; // clean: no escape sequences, no control characters
	struct stamps stamps;
	struct str message; // text after the stamps
	struct str device, driver, module;
	struct str boot_id;
	struct source_note by;          // as the source says, or the journal's fields around the line
	struct str transport, facility; // of these
	struct opening opening;
	struct writer writer;
	struct str time_text; // of JSON around the line
	bool wrapped;         // there is such
	bool contained;       // and it says that a container's program wrote the line
	unsigned callers;     // frames of the stack above this one
};

enum { LINE_MAX_BYTES = 4096 };

/** The memory of a clean line. Views of the line are valid as long as it is. */
struct line_room {
	struct lifetime lent;
	char *bytes; // not on the stack, which may have 64 KB only
};

static inline void line_room_end(struct line_room *room)
{
	lifetime_end(&room->lent);
	free(room->bytes);
}

/** Declares one that is freed at the end of its scope. */
#define LINE_ROOM(name) _cleanup_(line_room_end) struct line_room name = { .bytes = mem_large(LINE_MAX_BYTES) }

/** The time of a line, of no clock where it has none. */
static inline struct stamp line_time(const struct logline *line)
{
	return line->stamps.found ? line->stamps.best : (struct stamp){ 0 };
}

/** @raw itself if it is clean, else a clean copy in @room. The line that was in @room before is no longer valid. */
struct str line_clean(struct str raw, struct line_room *room);
/** Whether the field @key of the journal says who wrote a record, and in which boot; if so, it is kept. */
bool line_field(struct str key, struct str value, struct logline *out);
/** Who wrote it, by all of these. */
void line_settle_writer(struct logline *out);
/** What a field around a line says: its text goes into @text, the rest into @out, as views. */
void line_wrapped_field(struct str key, struct str value, struct str *text, struct logline *out);
/** If @line is JSON around a log line: puts the text into @room and the times into @out. false: it is not. */
bool line_unwrap(struct str line, struct line_room *room, struct logline *out);
/** Fills @out with views of @clean, except what line_unwrap() has filled. Of what the kernel wrote itself (@out->by) nothing is taken
 * for a time or a name before the message. */
void line_parse(const struct know *k, struct str clean, struct logline *out);
/** The same for times and writer only. A line of a dump has no more. */
void line_parse_front(const struct know *k, struct str clean, struct logline *out);
/** Finds the message in @line, unless another driver wrote it. */
bool line_recognise(const struct know *k, const struct logline *line, struct match *ret);
enum line_speaker { SPEAKER_KERNEL, SPEAKER_DOUBTFUL, SPEAKER_PROGRAM };
/** Whose words the message at @begin of the line's message are, as far as the form of the line tells. */
enum line_speaker line_speaker(const struct know *k, const struct logline *line, size_t begin);
/** Whether a GPU's driver other than amdgpu and radeon wrote it. */
bool line_is_of_other_drm(const struct logline *line);
/** A name alone may stand in documentation, or in what somebody asks a model. */
bool line_speaks_of_error(struct str text);
/** As line_recognise() for a line that somebody typed. */
bool line_recognise_typed(const struct know *k, const struct logline *line, struct match *ret);
