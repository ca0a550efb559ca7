#include "evidence/stream.h"

#include <stdlib.h>

#include "base/door/door.h"
#include "evidence/artefact.h"
#include "evidence/log/scan_file.h"
#include "evidence/reader.h"

enum {
	STREAM_BODY = 512 << 10,
	STREAM_FIRST = 32 << 10,
	STREAM_ROOM = WINDOW_BEFORE + STREAM_BODY + WINDOW_AFTER,
	HEAD = 256 << 10,
};

// So many NULs are passed over; a stream of them may have no end.
static const uint64_t nuls_of_file = 4ull << 30, nuls_of_stream = 256 << 20;

_Static_assert(HEAD <= STREAM_ROOM, "a stream's room holds its head");

/** Where the next bytes go, and how many of them up to @upto; most sources are short, so that the room is small at first. */
static struct str stream_room(struct reader_stream *s, size_t upto)
{
	if (s->have == s->room) {
		size_t room = s->room ? 2 * s->room : STREAM_FIRST;
		room = room < STREAM_ROOM ? room : STREAM_ROOM;
		s->bytes = mem_grow(s->bytes, s->room, room);
		s->room = room;
	}
	return (struct str){ s->bytes + s->have, (upto < s->room ? upto : s->room) - s->have };
}

static void stream_fill(struct reader_stream *s, size_t upto)
{
	while (!s->ended && s->have < upto) {
		struct str room = stream_room(s, upto);
		ssize_t n = s->source->read(s->source, (char *)room.p, room.n, &s->err);
		if (n <= 0)
			s->ended = true;
		else
			s->have += (size_t)n;
	}
}

static void window_free(struct window *w) { vec_free(&w->candidates); }

void stream_read(const struct scanner *scanner, struct reader_stream *s, struct log_reader *log)
{
	_cleanup_(window_free) struct window w = { 0 };
	for (;;) {
		stream_fill(s, s->from + STREAM_BODY + WINDOW_AFTER);
		w.bytes = s->bytes;
		w.size = s->have;
		w.from = s->from;
		w.to = s->ended && s->have <= s->from + STREAM_BODY + WINDOW_AFTER ? s->have : s->from + STREAM_BODY;
		scan_window(scanner, &w);
		log_reader_window(log, &w, s->offset);
		if (w.to == s->have && s->ended)
			break;
		// Keep some of what was read as the context of what comes.
		size_t keep = w.to < WINDOW_BEFORE ? w.to : WINDOW_BEFORE;
		memmove(s->bytes, s->bytes + w.to - keep, s->have - w.to + keep);
		s->offset += w.to - keep;
		s->have -= w.to - keep;
		s->from = keep;
	}
}

/** The first bytes that are not all NUL. */
static struct uh_error *fill_head(struct source *s, struct reader_stream *stream)
{
	for (;;) {
		for (ssize_t n = 1; s->door && stream->have < HEAD && n > 0 && !stream->err;) {
			struct str room = stream_room(stream, HEAD);
			n = door_read(s->door, stream->offset + stream->have, (char *)room.p, room.n, &stream->err);
			stream->have += n > 0 ? (size_t)n : 0;
		}
		if (s->door)
			stream->ended = stream->err || s->size <= stream->offset + HEAD;
		else
			stream_fill(stream, HEAD);
		if (s->door && stream->err && !stream->have)
			return stream->err;
		// A log whose beginning was never written, after a power cut, begins with NULs: any number of them.
		const bool nuls =
			stream->have && !stream->bytes[0] && !memcmp(stream->bytes, stream->bytes + 1, stream->have - 1);
		if (stream->ended || !nuls || stream->offset >= (s->door ? nuls_of_file : nuls_of_stream))
			return NULL;
		stream->offset += stream->have;
		stream->have = 0;
	}
}

struct uh_error *stream_head(struct source *s, struct reader_stream *stream)
{
	struct uh_error *err = fill_head(s, stream);
	if (err)
		return err;
	struct str head = { stream->bytes, stream->have };
	const char *binary = stream->have && !document_begins(head) ? recognise_binary(head) : NULL;
	if (stream->have && !binary)
		return NULL;
	uh_error_free(binary ? stream->err : NULL);
	return binary      ? uh_error_new("%s: %s, not a log", s->name, binary) :
	       stream->err ? stream->err :
			     uh_error_new("%s: there is nothing to read", s->name);
}

void stream_whole(struct source *s, struct reader_stream *stream, struct text *out)
{
	text_add(out, (struct str){ stream->bytes, stream->have });
	_cleanup_free_ char *room = stream->ended ? NULL : mem_alloc(WINDOW_BODY);
	while (!stream->ended && out->n < DOCUMENT_MAX) {
		ssize_t n = s->door ? door_read(s->door, stream->offset + out->n, room, WINDOW_BODY, &stream->err) :
				      s->read(s, room, WINDOW_BODY, &stream->err);
		if (n <= 0)
			break;
		text_add(out, (struct str){ room, (size_t)n });
	}
}
