// Disassembles through a library that may print, exit or crash, so it runs in a child. Where a child dies, shared memory tells at which
// instruction; that one is left out and a new child tries the rest. The parent checks every record that comes back.
#include "code/disassemble/disassemble.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/save.h"
#include "base/cleanup.h"
#include "base/door/library.h"
#include "base/door/trust.h"
#include "code/disassemble/disassembler.h"

// What the child writes for each instruction, range by range.
struct record {
	uint16_t size;
	uint16_t length; // of the text, which follows
};

enum {
	CODE_MAX = 16 << 20,
	WORD = 4,
	CHILD_MS = 10000,
	CHILD_BYTES_PER_MS = 250, // a quarter of what comgr reads, the slower one
	WRITE_AT = 1 << 16,
	CRASHES_MAX = 8,
	REFUSED_MOST = 1024,
};

struct disasm_library {
	uint32_t way, at; // the at-th of ways[way]
};

struct code_place {
	size_t range, offset;
};

/** How far the child is, in memory that it shares, so that it can die at any time and be understood. */
struct disasm_progress {
	enum { SEARCHES, LOADS, OPENS, READS } stage;
	struct disasm_library library;
	char by[LIBRARY_PATH];      // its path, and once it is loaded its name
	struct code_place place;    // of the instruction
	char refused[REFUSED_MOST]; // the first library that is there and not believed, and why
};

// The best first.
static const struct disassembler *const ways[] = { &disasm_rocm, &disasm_comgr, &disasm_llvm, &disasm_comgr_old };
enum { WAYS = ARRAY_SIZE(ways) };

struct disasm_work {
	struct str only;            // this kind; empty: any
	struct disasm_library from; // the first library to be tried
	const char *target_id;
	const struct code_range *ranges;
	size_t n;
	struct disasm_progress *progress;
	struct code_place fatal[CRASHES_MAX]; // where LLVM dies: LLVM 19 does so at some words that are no gfx10 instructions
	size_t nfatal;
	int64_t deadline; // of all attempts together
};

// In the child.

static void leave(void) { _exit(EXIT_FAILURE); }

static void *disassemble_load(const struct disasm_work *w)
{
	struct disasm_progress *p = w->progress;
	char path[LIBRARY_PATH];
	p->library = w->from;
	for (; p->library.way < WAYS; p->library.way++, p->library.at = 0) {
		const struct disassembler *way = ways[p->library.way];
		if (w->only.n && !str_eq(w->only, way->kind))
			continue;
		for (; way->path(p->library.at, path); p->library.at++) {
			str_copy(p->by, sizeof(p->by), str_z(path));
			p->stage = LOADS;
			_cleanup_error_ struct uh_error *refused = NULL;
			void *library = trust_load(path, RTLD_LAZY | RTLD_LOCAL, &refused);
			if (refused && !p->refused[0])
				str_copy(p->refused, sizeof(p->refused), str_z(refused->message));
			if (library && way->describe(library, path, p->by, sizeof(p->by)))
				return library;
		}
	}
	p->stage = SEARCHES;
	return NULL;
}

size_t disasm_normalise(char *text)
{
	size_t n = 0;
	for (const char *p = text; *p && *p != ';' && !(p[0] == '/' && p[1] == '/'); p++) {
		if (!char_space(*p))
			text[n++] = *p;
		else if (n && text[n - 1] != ' ')
			text[n++] = ' ';
	}
	return n && text[n - 1] == ' ' ? n - 1 : n;
}

size_t disasm_data(struct str bytes, char text[static INSTRUCTION_TEXT])
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	if (bytes.n >= WORD) {
		snprintf(text, INSTRUCTION_TEXT, ".long 0x%02x%02x%02x%02x", p[3], p[2], p[1], p[0]);
		return WORD;
	}
	int n = snprintf(text, INSTRUCTION_TEXT, ".byte 0x%02x", p[0]);
	for (size_t i = 1; i < bytes.n; i++)
		n += snprintf(text + n, INSTRUCTION_TEXT - (size_t)n, ", 0x%02x", p[i]);
	return bytes.n;
}

void disasm_record(struct text *out, size_t size, struct str text)
{
	const struct record r = { (uint16_t)size, (uint16_t)text.n };
	text_add(out, (struct str){ (const char *)&r, sizeof(r) });
	text_add(out, text);
}

/** The child's work: all ranges, as records to the parent. The place that it is at is written down first, since the next instruction
 * may be the one that it dies of. */
static void disassemble_all(int fd, const void *ctx)
{
	const struct disasm_work *w = ctx;
	// A library that gives up prints a message and calls exit(), which would write the parent's buffers a second time. Or it crashes, which
	// the parent's handlers must not see.
	static const int deadly[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP };
	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
		signal(deadly[i], SIG_DFL);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 || atexit(leave))
		leave();
	void *library = disassemble_load(w);
	if (!library)
		return;
	const struct disassembler *way = ways[w->progress->library.way];
	w->progress->stage = OPENS;
	void *opened = way->open(library, w->target_id);
	if (!opened)
		return;
	w->progress->stage = READS;
	_cleanup_text_ struct text out = { 0 };
	for (size_t i = 0; i < w->n; i++) {
		const struct code_range *range = &w->ranges[i];
		struct machine_code code = { range->begin, range->bytes, range->wave_size == 64 };
		while (code.bytes.n) {
			char text[INSTRUCTION_TEXT] = "";
			const struct code_place at = { i, range->bytes.n - code.bytes.n };
			w->progress->place = at;
			const bool fatal = list_find(w->fatal, w->nfatal, it, it->range == at.range && it->offset == at.offset);
			size_t size = fatal ? 0 : way->instruction(opened, &code, text), length = disasm_normalise(text);
			if (!size || size > code.bytes.n || size > UINT16_MAX || !length) {
				size = disasm_data(code.bytes, text);
				length = strlen(text);
			}
			disasm_record(&out, size, (struct str){ text, length });
			if (out.n >= WRITE_AT) {
				if (!write_all(fd, text_str(&out)))
					leave();
				text_clear(&out);
			}
			code.address += size;
			code.bytes = str_from(code.bytes, size);
		}
	}
	if (!write_all(fd, text_str(&out)))
		leave();
}

// In the parent, which trusts nothing that the child wrote.

/** The encodings of branches (SOPP) and of s_call_b64 (SOPK) have been the same from gfx9 to gfx12, only their numbers have not:
 * the mnemonic tells them. The operand is not read, because it may be a symbol in a library to come. */
static uint64_t disassemble_branch_target(uint64_t address, struct str bytes, struct str text)
{
	if (bytes.n < WORD)
		return 0;
	const unsigned char *p = (const unsigned char *)bytes.p;
	const unsigned high = p[2] | (unsigned)p[3] << 8;
	const bool branch =
		(high & 0xff80) == 0xbf80 && (str_starts(text, S("s_branch ")) || str_starts(text, S("s_cbranch_")));
	const bool call = (high & 0xf000) == 0xb000 && str_starts(text, S("s_call_b64 "));
	if (!branch && !call)
		return 0;
	const int16_t words = (int16_t)(p[0] | p[1] << 8);
	return address + WORD + (uint64_t)((int64_t)words * WORD);
}

static bool printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

typedef VEC(struct instruction) instructions;

/** Whether @stream has records for all of @range, which are taken off it. */
static bool read_range(struct str *stream, const struct code_range *range, instructions *ret)
{
	struct str bytes = range->bytes;
	uint64_t address = range->begin;
	while (bytes.n) {
		struct record r;
		if (stream->n < sizeof(r))
			return false;
		memcpy(&r, stream->p, sizeof(r));
		*stream = str_from(*stream, sizeof(r));
		const struct str text = str_cut(*stream, r.length);
		if (!r.size || r.size > bytes.n || text.n < r.length || !printable(text))
			return false;
		vec_push(ret, ((struct instruction){ address, r.size, text, disassemble_branch_target(address, bytes, text) }));
		*stream = str_from(*stream, r.length);
		bytes = str_from(bytes, r.size);
		address += r.size;
	}
	return true;
}

static int by_address(const void *a, const void *b)
{
	const struct instruction *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

/** A child that dies leaves half of a record: such a stream is refused as a whole, and tried again without the place that it died at. */
static bool read_records(struct arena *a, const struct disasm_work *w, struct str stream, const char *by,
			 struct disassembly *ret)
{
	_cleanup_vec_ instructions found = { 0 };
	stream = arena_str(a, stream);
	bool good = true;
	for (size_t i = 0; i < w->n && good; i++)
		good = read_range(&stream, &w->ranges[i], &found);
	good = good && !stream.n;
	if (good) {
		struct instruction *all = arena_alloc(a, (found.len + 1) * sizeof(*all));
		if (found.len) {
			memcpy(all, found.data, found.len * sizeof(*all));
			qsort(all, found.len, sizeof(*all), by_address);
		}
		*ret = (struct disassembly){ found.len, all, arena_z(a, str_z(by)) };
	}
	return good;
}

enum outcome { DONE, ABSENT, UNKNOWN, DIED };

static enum outcome attempt(struct arena *a, const struct disasm_work *w, size_t bytes, struct disasm_progress *ret_progress,
			    struct disassembly *ret)
{
	_cleanup_(text_free) struct text out = { 0 };
	const size_t most = (bytes / WORD + w->n) * (sizeof(struct record) + INSTRUCTION_TEXT);
	const struct child_task task = { CHILD_DISASSEMBLE, .deadline = w->deadline, .most = most };
	w->progress->stage = SEARCHES;
	w->progress->place = (struct code_place){ 0 };
	const bool ended = w->deadline > now_ms() && child_collect(&task, disassemble_all, w, &out) == CHILD_GOOD;
	*ret_progress = *w->progress;
	ret_progress->by[sizeof(ret_progress->by) - 1] = '\0';
	if (ret_progress->stage == SEARCHES || !printable(str_z(ret_progress->by)))
		return ABSENT;
	if (ret_progress->stage == OPENS)
		return UNKNOWN;
	return ended && read_records(a, w, text_str(&out), ret_progress->by, ret) ? DONE : DIED;
}

/** What was tried without success, each once. */
static void disassemble_add_name(struct text *names, const char *by)
{
	if (str_find(text_str(names), str_z(by)) < 0)
		text_printf(names, "%s%s", names->n ? ", " : "", by);
}

/** As attempt(), again and again with the instructions left out that the library died of. */
static enum outcome attempt_around(struct arena *a, struct disasm_work *w, size_t bytes, struct disasm_progress *ret_progress,
				   struct disassembly *ret)
{
	for (w->nfatal = 0;; w->fatal[w->nfatal++] = ret_progress->place) {
		enum outcome outcome = attempt(a, w, bytes, ret_progress, ret);
		if (outcome != DIED || ret_progress->stage != READS || w->nfatal == CRASHES_MAX)
			return outcome;
		w->from = ret_progress->library;
	}
}

static struct uh_error *why_not(const char *target_id, struct text *unknown, struct text *died)
{
	const int gfx = (int)strcspn(target_id, ":");
	if (died->n)
		return uh_error_new("%.*s: " STR_FMT " did not finish with this code", gfx, target_id, STR_ARG(text_str(died)));
	if (!unknown->n)
		return uh_error_new("no disassembler: install the package llvm, or ROCm's comgr");
	return uh_error_new("%.*s is not known to " STR_FMT "; a newer LLVM or the comgr of a newer ROCm may know it", gfx,
			    target_id, STR_ARG(text_str(unknown)));
}

static bool valid_target(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!char_word(s.p[i]) && !char_among(s.p[i], ":+-"))
			return false;
	return str_starts(s, S("gfx")) && s.n > 3 && s.n < 64 && s.p[3] != ':';
}

/** By the first library that can. */
static struct uh_error *disassemble_by_any(struct arena *a, struct disasm_work *w, size_t bytes, struct disassembly *ret)
{
	_cleanup_(text_free) struct text unknown = { 0 }, died = { 0 };
	for (;;) {
		struct disasm_progress p;
		switch (attempt_around(a, w, bytes, &p, ret)) {
		case DONE:
			return NULL;
		case ABSENT:
			return why_not(w->target_id, &unknown, &died);
		case UNKNOWN: // older ones of its kind do not know it either
			disassemble_add_name(&unknown, p.by);
			w->from = (struct disasm_library){ .way = p.library.way + 1 };
			break;
		case DIED:
			disassemble_add_name(&died, p.by);
			w->from = (struct disasm_library){ .way = p.library.way, .at = p.library.at + 1 };
			break;
		}
	}
}

static struct uh_error *disassemble_by_program(struct arena *a, const struct disasm_work *w, struct disassembly *ret)
{
	_cleanup_text_ struct text records = { 0 };
	char by[LIBRARY_PATH];
	struct uh_error *err = objdump_disassemble(w->target_id, w->ranges, w->n, w->deadline, &records, by);
	if (err || read_records(a, w, text_str(&records), by, ret))
		return err;
	return uh_error_new("%s: %s did not finish with this code", w->target_id, by);
}

struct uh_error *disassemble(struct arena *a, struct str target_id, const struct code_range *ranges, size_t n,
			     struct disassembly *ret)
{
	const struct str only = str_z(secure_getenv("UNHANG_DISASSEMBLER"));
	if (str_is(only, "none"))
		return uh_error_new("no disassembler: UNHANG_DISASSEMBLER is none");
	const bool program = str_is(only, "objdump");
	if (only.n && !str_is(only, "llvm") && !str_is(only, "comgr") && !program)
		return uh_error_new("UNHANG_DISASSEMBLER is llvm, comgr, objdump or none, not " STR_FMT, STR_ARG(only));
	if (!valid_target(target_id))
		return uh_error_new("no processor has the name \"" STR_FMT "\"", STR_ARG(str_cut(target_id, 64)));
	size_t bytes = 0;
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].bytes.n > CODE_MAX - bytes)
			return uh_error_new("more than %u MB of code to disassemble at once", CODE_MAX >> 20);
		bytes += ranges[i].bytes.n;
	}
	struct disasm_progress *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return uh_error_os(errno, "no disassembler: no shared memory for it");
	struct disasm_work w = { .only = only, .target_id = arena_z(a, target_id), .ranges = ranges, .n = n, .progress = p };
	w.deadline = now_ms() + CHILD_MS + (int64_t)bytes / CHILD_BYTES_PER_MS;
	struct uh_error *err =
		program || !library_loads ? disassemble_by_program(a, &w, ret) : disassemble_by_any(a, &w, bytes, ret);
	if (p->refused[0])
		ret->refused = arena_z(a, (struct str){ p->refused, strnlen(p->refused, sizeof(p->refused)) });
	munmap(p, sizeof(*p));
	return err;
}
