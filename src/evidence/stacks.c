// Stacks of host threads: py-spy's dumps, Python's faulthandler, gdb's backtraces. What a frame means is in
// knowledge/frames.know.
//
//   Process 4242: python train.py              Current thread 0x00007f... (most recent call first):
//   Thread 4242 (active): "MainThread"           File "train.py", line 141 in train_step
//       synchronize (torch/cuda/__init__.py:954)
//                                              Thread 1 (Thread 0x7f... (LWP 5853) "python"):
//                                              #0  0x00007f... in hipStreamSynchronize () from /opt/rocm/lib/libamdhip64.so
//
// and what people write of them: `main -> train_step() -> hipStreamSynchronize -> hsa_signal_wait_scacquire`.
#include <jansson.h>
#include <stdio.h>

#include "evidence/artefact.h"
#include "evidence/documents/document.h"

enum { FRAME_BYTES = 200, TOLD_MAX = 24, KEPT_BYTES = 64 << 10 };

enum form { FORM_NONE, FORM_PYSPY, FORM_FAULTHANDLER, FORM_GDB, FORM_ARROWS };

struct stacks {
	struct artefact_output out;
	struct arena arena;
	enum form form;
	char pid[16], program[64]; // of the process
	struct str thread;         // name of the thread
	struct place at;
	struct stamp time;
	bool background, nvidia;
	struct str waits_in, peer_in, python_frame;
	bool locked;                                            // the thread waits for a lock
	struct str lock_in;                                     // the runtime's function that wants the lock
	char lock_first[FRAME_BYTES], lock_second[FRAME_BYTES]; // two such functions of different threads
	struct place lock_at;
	size_t lock_threads, gpu_threads; // that wait for a lock of the runtime, for the GPU
	size_t frames;
	size_t told;
};

/** `Thread 4242 (active+gil)` of py-spy */
static bool is_pyspy_thread(struct str line, struct str *ret_name)
{
	struct str rest, number;
	if (!str_behind(line, S("Thread "), &rest))
		return false;
	number = str_word(&rest);
	rest = str_trim(rest);
	if (!number.n || (!char_digit(number.p[0])) || !(str_starts(rest, S("(active")) || str_starts(rest, S("(idle"))))
		return false;
	*ret_name = (struct str){ 0 };
	str_after(rest, S("\""), ret_name);
	*ret_name = str_split(ret_name, '"');
	return true;
}

/** `Thread 1 (Thread 0x7f02e52b4740 (LWP 5853) "python"):` */
static bool is_gdb_thread(struct str line, struct str *ret_name)
{
	ptrdiff_t lwp = str_find(line, S("(LWP "));
	if (!str_starts(line, S("Thread ")) || lwp < 0 || !str_ends(line, S(":")))
		return false;
	ptrdiff_t open = str_find(line, S("\""));
	struct str rest = str_from(line, open >= 0 ? (size_t)open + 1 : (size_t)lwp + 5);
	*ret_name = open >= 0 ? str_split(&rest, '"') : str_cut(str_split(&rest, ')'), 0);
	return true;
}

static bool is_gdb_frame(struct str line)
{
	size_t n = 1;
	if (!line.n || line.p[0] != '#' || str_find(line, S(" from /boot/")) > 0) // kgdb's are the kernel's, not a thread's
		return false;
	while (n < line.n && char_digit(line.p[n]))
		n++;
	return n > 1 && n + 1 < line.n && line.p[n] == ' ' && (str_find(line, S(" in ")) > 0 || str_find(line, S("(")) > 0);
}

/** The next of the frames that stand between arrows, without what is around it; empty at the end. */
static struct str arrow_frame(struct str *rest)
{
	static const char *const arrows[] = { "->", "=>", "\xe2\x86\x92" };
	ptrdiff_t at = (ptrdiff_t)rest->n;
	size_t width = 0;
	for (size_t i = 0; i < ARRAY_SIZE(arrows); i++) {
		ptrdiff_t found = str_find(*rest, str_z(arrows[i]));
		if (found >= 0 && found < at) {
			at = found;
			width = strlen(arrows[i]);
		}
	}
	struct str frame = str_trim(str_cut(*rest, (size_t)at));
	*rest = str_from(*rest, (size_t)at + width);
	return frame;
}

/** Three functions or more with arrows between them, and nothing that is prose. */
static bool is_arrow_stack(struct str text)
{
	size_t frames = 0;
	while (text.n) {
		struct str frame = arrow_frame(&text);
		size_t n = 0;
		while (n < frame.n && (char_word(frame.p[n]) || char_among(frame.p[n], ":~.()<>,*&@+")))
			n++;
		if (n < frame.n || !frame.n || !(char_alpha(frame.p[0]) || frame.p[0] == '_' || frame.p[0] == '~'))
			return false;
		frames++;
	}
	return frames > 2;
}

static bool stacks_begins(struct str line)
{
	struct str text = str_trim(line), name;
	return is_arrow_stack(text) || is_pyspy_thread(text, &name) || is_gdb_thread(text, &name) ||
	       (str_find(text, S("hread 0x")) >= 0 && str_ends(text, S("(most recent call first):"))) ||
	       (str_starts(text, S("#0 ")) && is_gdb_frame(text)) ||
	       (is_gdb_frame(text) && str_find(str_cut(text, 8), S(" 0x")) > 0 && str_find(text, S(" in ")) > 0) ||
	       (str_starts(text, S("Process ")) && str_find(text, S(": ")) > 0 && char_digit(text.p[8]));
}

// --- what is handed on ---

/** Threads that wait for locks of the runtime in different functions, while none waits for the GPU, wait for each other. */
static void note_lock(struct stacks *s)
{
	if (!s->lock_in.n) {
		s->gpu_threads += s->waits_in.n > 0;
		return;
	}
	s->lock_threads++;
	if (!s->lock_first[0]) {
		str_copy(s->lock_first, sizeof(s->lock_first), s->lock_in);
		s->lock_at = s->at;
	} else if (!s->lock_second[0] && !str_eq(str_z(s->lock_first), s->lock_in)) {
		str_copy(s->lock_second, sizeof(s->lock_second), s->lock_in);
	}
}

static void tell_locks(struct stacks *s)
{
	struct event e;
	char count[16];
	if (!s->lock_second[0] || s->gpu_threads || !artefact_event(&s->out, "stack-locks", s->lock_at, &e))
		return;
	snprintf(count, sizeof(count), "%zu", s->lock_threads);
	event_add(&e, S("lock_threads"), str_z(count), FACT_NUMBER);
	event_add(&e, S("lock_first"), str_z(s->lock_first), FACT_TEXT);
	event_add(&e, S("lock_second"), str_z(s->lock_second), FACT_TEXT);
	artefact_tell(&s->out, &e);
}

static void tell_thread(struct stacks *s)
{
	struct str where = s->peer_in.n ? s->peer_in : s->waits_in;
	struct event e;
	if (!s->background && where.n && (s->frames > 1 || s->peer_in.n) && s->told < TOLD_MAX &&
	    artefact_event(&s->out, s->peer_in.n ? "stack-waits-peer" : "stack-waits", s->at, &e)) {
		int64_t pid;
		s->told++;
		e.time = s->time;
		event_add(&e, S("waits_in"), where, FACT_TEXT);
		event_add(&e, S("thread"), s->thread, FACT_TEXT);
		event_add(&e, S("pid"), str_z(s->pid), str_number(str_z(s->pid), &pid) ? FACT_NUMBER : FACT_TEXT);
		event_add(&e, S("process"), str_z(s->program), FACT_TEXT);
		event_add(&e, S("python_frame"), s->python_frame, FACT_TEXT);
		artefact_tell(&s->out, &e);
	}
	if (!s->background)
		note_lock(s);
	s->background = s->locked = false;
	s->waits_in = s->peer_in = s->python_frame = s->thread = s->lock_in = (struct str){ 0 };
	s->frames = 0;
	arena_free(&s->arena);
}

static void stacks_begin_thread(struct stacks *s, const struct logline *line, struct str name, struct place at, enum form form)
{
	tell_thread(s);
	s->form = form;
	s->thread = arena_str(&s->arena, str_cut(name, 64));
	s->at = at;
	s->time = line_time(line);
}

// --- frames ---

/** The function alone: no address, no arguments, no library. */
static struct str function_of(struct str frame)
{
	ptrdiff_t in = str_find(frame, S(" in "));
	if (frame.n && frame.p[0] == '#') {
		struct str rest = frame;
		str_word(&rest);
		frame = str_trim(rest);
		in = str_find(frame, S(" in "));
		if (str_starts(frame, S("0x")) && in >= 0)
			frame = str_from(frame, (size_t)in + 4);
	}
	ptrdiff_t open = str_find(frame, S(" ("));
	frame = open > 0 ? str_cut(frame, (size_t)open) : frame;
	open = str_find(frame, S("("));
	return open > 0 ? str_cut(frame, (size_t)open) : frame;
}

/** What the table of frames says of one. */
struct frame_told {
	struct str first;            // the first that is said, but for whose software it is
	bool nvidia, locks, runtime; // nvidia: before that
};

static struct frame_told frame_tell(const struct know *k, struct str frame)
{
	struct frame_told told = { 0 };
	for (size_t i = 0; i < k->frames.len; i++) {
		const struct know_row *f = k->frames.data[i];
		if (str_find(frame, f->value) < 0)
			continue;
		told.locks |= str_is(f->head.id, "locks");
		told.runtime |= str_is(f->head.id, "runtime");
		if (!told.first.n && str_is(f->head.id, "nvidia"))
			told.nvidia = true;
		else if (!told.first.n)
			told.first = f->head.id;
	}
	return told;
}

static void stacks_take_frame(struct stacks *s, struct str frame, struct str python)
{
	s->frames++;
	if (s->arena.total < KEPT_BYTES) {
		const struct frame_told told = frame_tell(s->out.know, frame);
		const struct str function = str_cut(function_of(frame), FRAME_BYTES);
		// From the innermost frame outwards: the lock, then who wants it.
		const bool wanted = !s->lock_in.n && !s->waits_in.n;
		if (wanted && !told.locks && s->locked && told.runtime)
			s->lock_in = arena_str(&s->arena, str_cut(function, FRAME_BYTES - 1));
		s->locked |= wanted && told.locks;
		s->nvidia |= told.nvidia;
		s->background |= str_is(told.first, "background");
		if (str_is(told.first, "peer") && !s->peer_in.n)
			s->peer_in = arena_str(&s->arena, function);
		else if (str_is(told.first, "waits") &&
			 (!s->waits_in.n || str_find(function, S("hip")) >= 0 || str_starts(function, S("cl"))))
			s->waits_in =
				arena_str(&s->arena, function); // the program's own call says more than what waits below it
	}
	// The first frame that is the user's own.
	bool library = str_find(python, S("torch/")) >= 0 || str_find(python, S("site-packages")) >= 0 ||
		       str_find(python, S("dist-packages")) >= 0 || str_find(python, S("threading.py")) >= 0;
	if (python.n && !library && !s->python_frame.n)
		s->python_frame = arena_str(&s->arena, str_cut(python, FRAME_BYTES));
}

/** `  File "train.py", line 141 in train_step` */
static bool faulthandler_frame(struct stacks *s, struct str text)
{
	if (!str_starts(text, S("File \"")))
		return false;
	ptrdiff_t line = str_find(text, S("\", line "));
	ptrdiff_t behind_line = line < 0 ? -1 : str_find(str_from(text, (size_t)line), S(" in "));
	if (behind_line < 0)
		return true;
	ptrdiff_t in = line + behind_line;
	struct str file = str_cut(str_from(text, 6), (size_t)line - 6);
	struct str number = str_cut(str_from(text, (size_t)line + 8), (size_t)(in - line) - 8);
	struct str name = str_from(text, (size_t)in + 4);
	// As py-spy writes it, so that one table of frames serves both.
	ptrdiff_t torch = str_find(file, S("/torch/"));
	struct str from = torch >= 0 ? str_from(file, (size_t)torch + 1) : file;
	char room[256];
	int n = snprintf(room, sizeof(room), STR_FMT " (" STR_FMT ":" STR_FMT ")", STR_ARG(str_cut(name, 80)),
			 STR_ARG(str_cut(from, 100)), STR_ARG(str_cut(number, 10)));
	struct str frame = { room, n > 0 ? (size_t)n : 0 };
	stacks_take_frame(s, frame, frame);
	return true;
}

static enum taken stacks_line(void *self, const struct logline *line, struct place at)
{
	struct stacks *s = self;
	struct str text = str_trim(line->message), name, rest, number;
	int64_t pid;
	if (str_behind(text, S("Process "), &rest) && str_number(number = str_split(&rest, ':'), &pid) && pid > 0) {
		tell_thread(s);
		str_copy(s->pid, sizeof(s->pid), number);
		str_copy(s->program, sizeof(s->program), str_base(str_word(&rest)));
		return true;
	}
	if (is_arrow_stack(text)) {
		stacks_begin_thread(s, line, S(""), at, FORM_ARROWS);
		while (text.n)
			stacks_take_frame(s, arrow_frame(&text), (struct str){ 0 });
	} else if (is_pyspy_thread(text, &name))
		stacks_begin_thread(s, line, name, at, FORM_PYSPY);
	else if (is_gdb_thread(text, &name))
		stacks_begin_thread(s, line, name, at, FORM_GDB);
	else if (str_find(text, S("hread 0x")) >= 0 && str_ends(text, S("(most recent call first):")))
		stacks_begin_thread(s, line, str_starts(text, S("Current")) ? S("the current thread") : S("a thread"), at,
				    FORM_FAULTHANDLER);
	else if (is_gdb_frame(text)) {
		if (s->form != FORM_GDB || (str_starts(text, S("#0 ")) && s->frames))
			stacks_begin_thread(s, line, S(""), at, FORM_GDB);
		stacks_take_frame(s, text, (struct str){ 0 });
	} else if (s->form == FORM_PYSPY) { // `    synchronize (torch/cuda/__init__.py:954)`
		const bool frame = str_find(text, S(" (")) > 0 && str_ends(text, S(")"));
		const bool python = str_find(text, S(".py:")) >= 0 || str_find(text, S("<string>")) >= 0;
		if (frame)
			stacks_take_frame(s, text, python ? text : (struct str){ 0 });
		return frame || str_starts(text, S("Python v")) || !text.n;
	} else if (s->form == FORM_FAULTHANDLER)
		return faulthandler_frame(s, text) || !text.n;
	else
		return !text.n || str_among(text, STR_BEGINS, "at |from |Python v").n;
	return true;
}

static void stacks_close(void *self)
{
	struct stacks *s = self;
	struct event e;
	tell_thread(s);
	tell_locks(s);
	if (s->nvidia && artefact_event(&s->out, "stack-nvidia", s->at, &e))
		artefact_tell(&s->out, &e);
	arena_free(&s->arena);
}

ARTEFACT_READER(stacks, "stacks", 12);

// --- py-spy dump --json ---

/** A frame as py-spy writes it in its text. */
static void json_frame(struct stacks *s, const json_t *frame)
{
	char room[300];
	struct str name = document_text(frame, "name"), file = document_text(frame, "short_filename");
	file = file.n ? file : document_text(frame, "filename");
	if (!name.n)
		return;
	int n = snprintf(room, sizeof(room), STR_FMT " (" STR_FMT ":%lld)", STR_ARG(str_cut(name, 120)),
			 STR_ARG(str_cut(file, 120)), (long long)json_integer_value(json_object_get(frame, "line")));
	struct str text = { room, n > 0 && n < (int)sizeof(room) ? (size_t)n : 0 };
	stacks_take_frame(s, text, str_find(text, S(".py:")) >= 0 ? text : (struct str){ 0 });
}

static bool py_spy_read(const struct artefact_output *out, const json_t *root)
{
	const json_t *first = json_array_get(root, 0);
	if (!json_is_array(json_object_get(first, "frames")) || !json_object_get(first, "thread_id"))
		return false;
	struct stacks *s = artefact_open(&stacks_reader, out);
	struct logline none = { 0 };
	for (size_t t = 0; t < json_array_size(root); t++) {
		const json_t *thread = json_array_get(root, t), *frames = json_object_get(thread, "frames");
		stacks_begin_thread(s, &none, document_text(thread, "thread_name"), (struct place){ out->source, out->line },
				    FORM_PYSPY);
		snprintf(s->pid, sizeof(s->pid), "%lld", (long long)json_integer_value(json_object_get(thread, "pid")));
		for (size_t f = 0; f < json_array_size(frames); f++)
			json_frame(s, json_array_get(frames, f));
	}
	artefact_close(&stacks_reader, s);
	return true;
}

const struct document_reader py_spy_document = { "stacks", py_spy_read };
