// What a source is decides who reads it: a document, a core, or a log. Logs are read in windows: files by log/scan_file.c, streams here.
#include "evidence/reader.h"

#include <stdlib.h>
#include <time.h>

#include "base/command.h"
#include "base/door/door.h"
#include "code/object/bundle.h"
#include "evidence/allocations/tell.h"
#include "evidence/artefact.h"
#include "evidence/hardware/cper.h"
#include "evidence/recording/places.h"
#include "evidence/recording/tell.h"
#include "evidence/stream.h"
#include "evidence/waves/gpu_core.h"
#include "evidence/log/scan_file.h"
#include "evidence/log/words.h"
#include "evidence/documents/document.h"
#include "evidence/silicon/silicon.h"
#include "evidence/waves/wave_code.h"
#include "source/file.h"
#include "source/tape/tape.h"

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
	struct event_sink told; // what others get; @sink adds what the allocators know
	struct allocation_books books;
	VEC(struct core_source) cores;
	size_t core_segments;
	struct machine_observation machine; // of the GPUs, where they were looked at
	struct scan_progress progress;
};

/** A fault whose address an allocator knows is handed on with what it knows. */
static void event_with_allocation(void *ctx, const struct event *e)
{
	struct evidence_reader *r = ctx;
	if (r->books.list.len)
		allocations_note(&r->books, e);
	if (!r->books.list.len || !allocations_asked(e)) {
		r->told.event(r->told.ctx, e);
		return;
	}
	_cleanup_arena_ struct arena a = { 0 };
	struct event more = *e;
	allocations_add_to(&r->books, &more, &a);
	r->told.event(r->told.ctx, &more);
}

static void take_machine(void *ctx, const struct machine_observation *m)
{
	const struct evidence_reader *r = ctx;
	r->told.machine(r->told.ctx, m);
}

static void term_told(void *ctx, uint32_t term, struct place at)
{
	const struct evidence_reader *r = ctx;
	r->told.named(r->told.ctx, term, at);
}

struct evidence_reader *evidence_reader_new(const struct know *k, struct event_sink sink)
{
	struct evidence_reader *r = mem_alloc(sizeof(*r));
	r->know = k;
	r->told = sink;
	r->sink = (struct event_sink){ event_with_allocation, r, sink.machine ? take_machine : NULL,
				       sink.named ? term_told : NULL };
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
	allocation_books_free(&r->books);
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

/** Files that are read as a whole. */
typedef struct uh_error *whole_read_fn(struct evidence_reader *r, const struct artefact_output *out, struct source *s,
				       struct str whole);

static struct uh_error *whole_recording(struct evidence_reader *r, const struct artefact_output *out, struct source *s,
					struct str whole)
{
	(void)r;
	return recording_read(out, s, whole);
}

static struct uh_error *whole_allocations(struct evidence_reader *r, const struct artefact_output *out, struct source *s,
					  struct str whole)
{
	return allocations_read(out, s, whole, &r->books);
}

static struct uh_error *whole_cper(struct evidence_reader *r, const struct artefact_output *out, struct source *s,
				   struct str whole)
{
	(void)r;
	// What could not be read may be the fatal one: no all-clear.
	return cper_read(out, whole) ? NULL :
				       uh_error_new("%s: a record of a hardware error (CPER) is cut off or damaged", s->name);
}

static bool read_whole(struct evidence_reader *r, struct source *s, struct reader_stream *stream, struct uh_error **ret_err)
{
	static const struct {
		const char *kind;
		bool (*begins)(struct str head);
		whole_read_fn *read;
		bool by_door; // the reader reads the file itself
	} kinds[] = {
		{ "recording", recording_begins, whole_recording, true },
		{ "allocations", allocations_begin, whole_allocations, true }, // of the guard or the pool
		{ "cper", cper_begins, whole_cper, false },
	};
	_cleanup_text_ struct text bytes = { 0 };
	size_t n = 0;
	while (n < ARRAY_SIZE(kinds) && !kinds[n].begins((struct str){ stream->bytes, stream->have }))
		n++;
	if (n == ARRAY_SIZE(kinds))
		return false;
	if (!s->bytes && !(s->door && kinds[n].by_door))
		stream_whole(s, stream, &bytes);
	const struct str whole = s->bytes ? (struct str){ s->bytes, s->size } : text_str(&bytes);
	struct counted c = { r->sink, 0 };
	struct evidence *e = evidence_add(r, s->name, kinds[n].kind);
	const struct artefact_output out = { .know = r->know, .source = e->id, .sink = { count_event, &c }, .name = e->path };
	*ret_err = kinds[n].read(r, &out, s, whole);
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
	if (stream.have && (keep_elf(r, s, &stream, &elf_err) || read_whole(r, s, &stream, &elf_err)))
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
	if (!err && log_reader_cut(log))
		err = uh_error_new(
			"%s: a record of the journal is cut off or damaged, or has a form that unhang does not know; it "
			"was not read, and maybe what is behind it (journalctl -o json writes all)",
			s->name);
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
