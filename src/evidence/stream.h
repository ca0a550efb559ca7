// Sources that cannot be mapped are read through a room that moves over them.
#pragma once

#include "evidence/log/log.h"
#include "evidence/log/scan.h"
#include "source/source.h"

enum { DOCUMENT_MAX = 32 << 20 };

/** The head of a source, by which it is recognised, and what comes behind it, window by window. */
struct reader_stream {
	struct source *source;
	char *bytes;
	size_t room;       // grows with what is read, up to STREAM_ROOM
	size_t have, from; // read so far; where the next window begins
	uint64_t offset;   // of bytes[0]
	bool ended;
	struct uh_error *err;
};

/** Fills the head of @stream; what is wrong with it is the result. */
struct uh_error *stream_head(struct source *s, struct reader_stream *stream);
/** The whole of a source whose head is in @stream, as far as a document may be long. */
void stream_whole(struct source *s, struct reader_stream *stream, struct text *out);
/** The rest as a log, in windows with what stands before and behind them. */
void stream_read(const struct scanner *scanner, struct reader_stream *s, struct log_reader *log);
