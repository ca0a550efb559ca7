// What a source is decides who reads it: a document, a core, or a log. Logs are read in windows: files by log/scan_file.c, streams here.
#include "evidence/reader.h"

#include <stdlib.h>
#include <time.h>

#include "base/command.h"
#include "base/door/door.h"
#include "code/object/bundle.h"
#include "evidence/artefact.h"
#include "evidence/recording/places.h"
#include "evidence/recording/tell.h"
#include "evidence/waves/gpu_core.h"
#include "evidence/log/scan_file.h"
#include "evidence/log/words.h"
#include "evidence/documents/document.h"
#include "evidence/silicon/silicon.h"
#include "evidence/waves/wave_code.h"
#include "source/file.h"
#include "source/tape/tape.h"

// --- sources that cannot be mapped: they are read through a room that moves over them ---

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

enum {
	DOCUMENT_MAX = 32 << 20,
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

/** The rest as a log, in windows with what stands before and behind them. */
static void stream_read(const struct scanner *scanner, struct reader_stream *s, struct log_reader *log)
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

/** Fills the head of @stream; what is wrong with it is the result. */
static struct uh_error *stream_head(struct source *s, struct reader_stream *stream)
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

/** The whole of a source whose head is in @stream, as far as a document may be long. */
static void stream_whole(struct source *s, struct reader_stream *stream, struct text *out)
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

// --- the reader ---

enum {
	SMALL = 4 << 20,         // what is not larger is matched line by line; of a stream, its head
	CORE_SEGMENTS = 4 << 20, // of all cores together, which are kept until the end
	NULS_TOLD = 512,         // this many at the beginning are worth telling
};

struct evidence_reader {
	const struct know *know;
	struct event_sink sink;
	struct log_words *words; // made when first needed
	struct arena arena;
	VEC(struct evidence *) evidence;
	struct log_reader *records; // of the journal or kmsg that is being read
	struct code_shelf *code;
	VEC(struct core_source) cores;
	size_t core_segments;
	struct machine_observation machine; // of the GPUs, where they were looked at
	struct scan_progress progress;
};

struct evidence_reader *evidence_reader_new(const struct know *k, struct event_sink sink)
{
	struct evidence_reader *r = mem_alloc(sizeof(*r));
	r->know = k;
	r->sink = sink;
	r->code = code_shelf_new();
	return r;
}

void evidence_reader_free(struct evidence_reader *r)
{
	if (!r)
		return;
	log_reader_free(r->records);
	log_words_free(r->words);
	code_shelf_free(r->code);
	for (size_t i = 0; i < r->cores.len; i++)
		core_source_free(&r->cores.data[i]);
	vec_free(&r->cores);
	vec_free(&r->evidence);
	machine_observation_free(&r->machine);
	arena_free(&r->arena);
	free(r);
}

void evidence_on_progress(struct evidence_reader *r,
			  void (*progress)(void *ctx, const char *name, unsigned long long done, unsigned long long total),
			  void *ctx)
{
	r->progress = (struct scan_progress){ progress, ctx };
}

size_t evidence_count(const struct evidence_reader *r) { return r->evidence.len; }
const struct evidence *evidence_at(const struct evidence_reader *r, size_t index) { return r->evidence.data[index]; }

static struct evidence *evidence_add(struct evidence_reader *r, const char *name, const char *kind)
{
	struct evidence *e = arena_alloc(&r->arena, sizeof(*e));
	*e = (struct evidence){ .id = (unsigned)r->evidence.len, .path = arena_str(&r->arena, str_z(name)), .kind = kind };
	vec_push(&r->evidence, e);
	return e;
}

static struct log_reader *open_log(struct evidence_reader *r, const struct evidence *e)
{
	if (!r->words)
		r->words = log_words_new(r->know);
	return log_reader_new(r->know, e->id, e->path, r->code, r->words, r->sink);
}

/** A sink that counts what goes through it. */
struct counted {
	struct event_sink sink;
	uint64_t events;
};

static void count_event(void *ctx, const struct event *e)
{
	struct counted *c = ctx;
	c->events++;
	c->sink.event(c->sink.ctx, e);
}

/** What was read ahead of a stream, and then the stream itself. */
struct read_ahead {
	struct source source;
	struct source *rest;
	struct text bytes;
	size_t at;
};

static void read_ahead_free(struct read_ahead *a) { text_free(&a->bytes); }
static void stream_free(struct reader_stream *s) { free(s->bytes); }

static ssize_t reader_read_again(struct source *source, void *buffer, size_t size, struct uh_error **ret_err)
{
	struct read_ahead *a = source->ctx;
	if (a->at >= a->bytes.n)
		return a->rest->read(a->rest, buffer, size, ret_err);
	size_t n = a->bytes.n - a->at < size ? a->bytes.n - a->at : size;
	memcpy(buffer, a->bytes.p + a->at, n);
	a->at += n;
	return (ssize_t)n;
}

/** Whether the source was a document of JSON that one of our readers knows. If not, what was read ahead of a stream is in @ahead. */
static bool read_document(struct evidence_reader *r, struct source *s, struct reader_stream *stream, struct evidence *e,
			  struct read_ahead *ahead)
{
	if (!document_begins((struct str){ stream->bytes, stream->have }))
		return false;
	stream_whole(s, stream, &ahead->bytes);
	struct counted c = { r->sink, 0 };
	const struct artefact_output out = {
		.know = r->know, .source = e->id, .sink = { count_event, &c }, .name = e->path, .line = 1, .code = r->code
	};
	const char *kind = document_read(&out, text_str(&ahead->bytes));
	if (!kind) {
		ahead->at = stream->have;
		ahead->rest = s;
		ahead->source = (struct source){ .name = s->name, .read = reader_read_again, .ctx = ahead };
		stream->source = &ahead->source;
		return false;
	}
	e->events = c.events;
	e->bytes = ahead->bytes.n;
	for (size_t i = 0; i < ahead->bytes.n; i++)
		e->lines += ahead->bytes.p[i] == '\n';
	e->kind = e->kinds[e->nkinds++] = kind;
	return true;
}

// --- cores and code objects ---

static bool gpu_code_wanted(void *ctx, struct str target)
{
	(void)target;
	*(bool *)ctx = true;
	return false;
}

static void gpu_code_found(void *ctx, const struct code_found *f)
{
	(void)f;
	*(bool *)ctx = true;
}

static void gpu_code_error(void *ctx, struct uh_error *err)
{
	(void)ctx;
	cleanup_error(&err);
}

/** A recording of the flight recorder is read as a whole. */
static bool read_recording(struct evidence_reader *r, struct source *s, struct reader_stream *stream, struct uh_error **ret_err)
{
	_cleanup_text_ struct text bytes = { 0 };
	if (!recording_begins((struct str){ stream->bytes, stream->have }))
		return false;
	if (!s->door && !s->bytes)
		stream_whole(s, stream, &bytes);
	const struct str whole = s->bytes ? (struct str){ s->bytes, s->size } : text_str(&bytes);
	struct counted c = { r->sink, 0 };
	struct evidence *e = evidence_add(r, s->name, "recording");
	const struct artefact_output out = { .know = r->know, .source = e->id, .sink = { count_event, &c }, .name = e->path };
	*ret_err = recording_read(&out, s, whole);
	e->bytes = s->door ? s->size : whole.n;
	e->events = c.events;
	e->kinds[e->nkinds++] = e->kind;
	return true;
}

/** A core is kept until all sources are known: that of the GPU and that of its process are read together. */
static bool keep_elf(struct evidence_reader *r, struct source *s, struct reader_stream *stream, struct uh_error **ret_err)
{
	struct str head = { stream->bytes, stream->have };
	if (!str_starts(head, S("\x7f"
				"ELF")))
		return false;
	struct core_source c;
	if (!core_begins(head)) {
		const struct file f = { .name = str_z(s->name), .door = s->door, .size = s->size };
		bool code = false;
		const struct code_finder finder = { gpu_code_wanted, gpu_code_found, gpu_code_error, &code };
		if (s->door)
			code_find(&f, &finder);
		if (!code)
			return false;
		code_shelf_add(r->code, s->name);
		evidence_add(r, s->name, "code-object")->bytes = s->size;
		return true;
	}
	struct text bytes = { 0 };
	if (!s->door)
		stream_whole(s, stream, &bytes);
	if (bytes.n >= DOCUMENT_MAX) {
		*ret_err = uh_error_new(
			"%s: a compressed core; unpack it first, so that unhang can read only the parts it needs", s->name);
		text_free(&bytes);
		return true;
	}
	*ret_err = core_source_keep(s, &bytes, &c);
	if (*ret_err)
		return true;
	if (r->core_segments + c.core.segments.len > CORE_SEGMENTS) {
		*ret_err = uh_error_new("%s: the cores together have more than %d segments; give fewer at once", s->name,
					CORE_SEGMENTS);
		core_source_free(&c);
		return true;
	}
	struct evidence *e = evidence_add(r, s->name, c.has_gpu ? "gpu-core" : "core");
	e->bytes = s->door ? s->size : bytes.n;
	e->kinds[e->nkinds++] = e->kind;
	c.evidence = e->id;
	r->core_segments += c.core.segments.len;
	vec_push(&r->cores, c);
	return true;
}

struct uh_error *evidence_read(struct evidence_reader *r, struct source *s)
{
	_cleanup_(stream_free) struct reader_stream stream = { .source = s };
	_cleanup_error_ struct uh_error *err = stream_head(s, &stream);
	struct uh_error *elf_err = NULL;
	if (stream.have && (keep_elf(r, s, &stream, &elf_err) || read_recording(r, s, &stream, &elf_err)))
		return elf_err;
	if (!err && (recording_named(str_z(s->name)) || recording_damaged((struct str){ stream.bytes, stream.have })))
		err = uh_error_new("%s: a recording, but its first bytes are damaged or missing", s->name);
	if (err)
		return take_ptr(err);
	uint64_t nuls = stream.offset;
	while (nuls - stream.offset < stream.have && !stream.bytes[nuls - stream.offset])
		nuls++;
	struct evidence *e = evidence_add(r, s->name, "text");
	_cleanup_(read_ahead_free) struct read_ahead ahead = { 0 };
	if (read_document(r, s, &stream, e, &ahead))
		return stream.err;
	struct log_reader *log = open_log(r, e);
	// A short text is matched line by line, so that nothing in it needs an anchor.
	bool differences = log_reader_look(log, (struct str){ stream.bytes, stream.have });
	bool every = stream.ended || differences || (s->size && s->size <= SMALL);
	struct scanner *scanner = every ? NULL : scanner_new(r->know, (struct str){ stream.bytes, stream.have });
	if (s->door && !stream.ended) {
		err = scan_file(scanner, s, stream.offset, log, &r->progress);
		e->bytes = s->size;
	} else {
		stream_read(scanner, &stream, log);
		err = stream.err;
		e->bytes = stream.offset + stream.have;
	}
	log_reader_end(log);
	e->lines = log_reader_lines(log);
	e->events = log_reader_events(log);
	e->nkinds = log_reader_kinds(log, e->kinds, EVIDENCE_KINDS);
	e->kind = e->nkinds ? e->kinds[0] : "text";
	if (!err && nuls >= NULS_TOLD)
		err = uh_error_new("%s: begins with %llu NUL bytes, as after a power cut; the rest was read", s->name,
				   (unsigned long long)nuls);
	if (!err && pickle_begins(text_str(&ahead.bytes)))
		err = uh_error_new("%s: a pickle that cannot be read: it is cut off, damaged, or of another protocol", s->name);
	if (!err && log_reader_lost(log)) {
		_cleanup_arena_ struct arena room = { 0 };
		struct str turn = command_str(COMMAND_OF(&room, ": tac ", PIECE_PATH, str_z(s->name)));
		err = uh_error_new("%s: runs backwards, and its %llu oldest events did not fit; reverse it first" STR_FMT,
				   s->name, (unsigned long long)log_reader_lost(log), STR_ARG(turn));
	}
	scanner_free(scanner);
	log_reader_free(log);
	return take_ptr(err);
}

static void note_wall(struct evidence *e, double began)
{
	e->wall_least = !e->wall_least || began < e->wall_least ? began : e->wall_least;
	e->wall_most = began > e->wall_most ? began : e->wall_most;
}

struct stamp evidence_wall(const struct evidence *e, struct stamp time)
{
	enum { SAME_BOOT = 60 }; // so far a clock is set while the machine runs
	if (time.clock != TIME_BOOT || !e->wall_least || e->wall_most - e->wall_least > SAME_BOOT)
		return time;
	return (struct stamp){ TIME_WALL, e->wall_most + time.seconds };
}

void evidence_record(struct evidence_reader *r, const char *name, const struct source_record *record)
{
	struct evidence *e = r->evidence.len ? r->evidence.data[r->evidence.len - 1] : NULL;
	if (!name) {
		log_reader_end(r->records);
		e->lines = log_reader_lines(r->records);
		e->events = log_reader_events(r->records);
		e->kinds[e->nkinds++] = e->kind;
		log_reader_free(r->records);
		r->records = NULL;
	} else if (!record) {
		e = evidence_add(r, name, "kernel-log");
		r->records = open_log(r, e);
		log_reader_live(r->records);
	} else {
		if (record->boot_seconds >= 0 && record->wall_seconds >= 0)
			note_wall(e, record->wall_seconds - record->boot_seconds);
		e->bytes += record->text.n + 1;
		log_reader_record(r->records, record);
	}
}

void evidence_machine(struct evidence_reader *r, const struct silicon_options *o)
{
	struct evidence *e = evidence_add(r, o->name ? o->name : "this machine", "live");
	struct artefact_output out = { .know = r->know, .source = e->id, .sink = r->sink, .code = r->code, .name = e->path };
	const double uptime = source_uptime();
	// When the machine was started: of a bundle its own, not that of the machine that reads it.
	const int64_t started = tape_number(o->tape, "started", uptime >= 0 ? (int64_t)((double)time(NULL) - uptime) : -1);
	e->kinds[e->nkinds++] = e->kind;
	if (started >= 0)
		note_wall(e, (double)started);
	silicon_read(&out, o, &r->machine);
}

void evidence_add_code(struct evidence_reader *r, const char *path) { code_shelf_add(r->code, path); }

const char *evidence_refused(const struct evidence_reader *r) { return code_shelf_refused(r->code); }

struct uh_error *evidence_end(struct evidence_reader *r)
{
	struct artefact_output out = { .know = r->know, .sink = r->sink, .code = r->code };
	return gpu_cores_read(&out, r->cores.data, r->cores.len);
}
