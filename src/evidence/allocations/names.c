#include "evidence/allocations/names.h"

#include <stdlib.h>

#include "base/door/door.h"
#include "code/lines/lines.h"
#include "code/names.h"
#include "code/object/elf.h"

enum { MODULES_MOST = 32, FILE_MOST = 192 << 20, ALL_MOST = 384 << 20, LINES_MOST = 96, NAME_MOST = 120 };

/** A loaded file. */
struct named_module {
	const char *path;
	bool good; // it could be read, and is the same that was loaded
	struct str bytes;
	struct elf elf;
	struct code_problems problems;
};

struct module_names {
	struct arena arena;
	size_t n;
	struct named_module list[MODULES_MOST];
	size_t bytes, lines; // read so far; asked for so far
};

struct module_names *module_names_new(void) { return mem_alloc(sizeof(struct module_names)); }

void module_names_free(struct module_names *n)
{
	if (n)
		arena_free(&n->arena);
	free(n);
}

/** The build id is of the file that was loaded: another file would give wrong names. */
static bool same_build(struct elf *e, const struct alloc_module *m)
{
	struct elf_note note;
	const size_t n = m->build_id_size;
	if (!n || n > sizeof(m->build_id))
		return !n;
	return elf_note(e, S("GNU"), NT_GNU_BUILD_ID, &note) && note.text.n == n && !memcmp(note.text.p, m->build_id, n);
}

static struct named_module *module_open(struct module_names *n, const struct alloc_module *m)
{
	char path[sizeof(m->path) + 1];
	str_copy(path, sizeof(path), (struct str){ m->path, strnlen(m->path, sizeof(m->path)) });
	for (size_t i = 0; i < n->n; i++)
		if (!strcmp(n->list[i].path, path))
			return &n->list[i];
	if (n->n == MODULES_MOST)
		return NULL;
	struct named_module *o = &n->list[n->n++];
	*o = (struct named_module){ .path = arena_z(&n->arena, str_z(path)) };
	if (path[0] != '/' || n->bytes > ALL_MOST)
		return o;
	struct uh_error *err = named_read(&(struct named){ .path = o->path }, FILE_MOST, &n->arena, &o->bytes, NULL);
	n->bytes += o->bytes.n;
	if (!err && o->bytes.n && o->bytes.n < FILE_MOST)
		err = elf_open_program(&n->arena, o->bytes, &o->problems, &o->elf);
	o->good = !err && o->bytes.n && o->bytes.n < FILE_MOST && same_build(&o->elf, m);
	uh_error_free(err);
	return o;
}

struct symbol_search {
	uint64_t at;
	struct str name;
	uint64_t begin;
};

static void symbol_hold(void *ctx, const struct elf_symbol *s)
{
	struct symbol_search *f = ctx;
	const bool function = s->type == STT_FUNC || s->type == STT_GNU_IFUNC;
	if (function && s->section && s->address <= f->at && f->at - s->address < s->size && s->address >= f->begin) {
		f->name = s->name;
		f->begin = s->address;
	}
}

/** The name of a function without what it takes: `load<float>` of `load<float>(char const*)`. */
static struct str without_parameters(struct str name)
{
	size_t end = name.n, depth = 0;
	while (end && name.p[end - 1] != ')' && name.p[end - 1] != '>')
		end--;
	if (!end || name.p[end - 1] == '>')
		return name;
	for (size_t i = end; i-- > 1;) {
		depth += name.p[i] == ')';
		depth -= name.p[i] == '(';
		if (!depth)
			return str_cut(name, i);
	}
	return name;
}

/** As people call it. Of a template the mangled name has what it returns, too: mostly nothing. */
static struct str function_say(struct arena *a, struct str name)
{
	const struct str plain = without_parameters(demangle(a, name));
	return str_cut(str_starts(plain, S("void ")) ? str_from(plain, strlen("void ")) : plain, NAME_MOST);
}

/** The source line of the function that the symbol names; what was inlined there goes to @to, each with its own line. */
static struct str line_say(struct module_names *n, struct arena *a, const struct named_module *o, uint64_t at, struct text *to)
{
	struct code_frame frames[CODE_FRAMES];
	struct code_lines *lines = NULL;
	struct str said = { 0 };
	if (n->lines++ >= LINES_MOST)
		return said;
	uh_error_free(code_lines_new(str_z(o->path), o->bytes, &at, 1, &lines));
	const size_t known = lines ? code_lines_at(lines, at, frames) : 0;
	for (size_t i = 0; i < known; i++) {
		const struct code_frame *f = &frames[i];
		const struct str line = f->line ? arena_printf(a, STR_FMT ":%u", STR_ARG(str_base(f->file)), f->line) :
						  (struct str){ 0 };
		if (!f->inlined) {
			said = line;
			break;
		}
		const bool of_hip = str_starts(str_base(f->file), S("hip_runtime")); // its templates around its own calls
		if (f->function.n && line.n && !of_hip)
			text_printf(to, STR_FMT " (" STR_FMT ") < ", STR_ARG(function_say(a, f->function)), STR_ARG(line));
	}
	code_lines_free(lines);
	return said;
}

struct str module_place_say(struct module_names *n, struct arena *a, const struct alloc_module *m, uint64_t offset)
{
	struct named_module *o = module_open(n, m);
	struct symbol_search f = { .at = offset ? offset - 1 : 0 }; // it returns there: the call stands before
	struct str line = { 0 };
	_cleanup_text_ struct text said = { 0 };
	if (o && o->good) {
		o->elf.names = 4 * o->bytes.n; // names that may be read in one walk
		elf_symbols(&o->elf, symbol_hold, &f);
		line = line_say(n, a, o, f.at, &said);
	}
	const struct str base = str_base((struct str){ m->path, strnlen(m->path, sizeof(m->path)) });
	if (f.name.n)
		text_add(&said, function_say(a, f.name));
	else
		text_printf(&said, STR_FMT " + 0x%llx", STR_ARG(base), (unsigned long long)offset);
	if (line.n)
		text_printf(&said, " (" STR_FMT ")", STR_ARG(line));
	return arena_str(a, text_str(&said));
}

/** Frames of ours and of the runtimes say nothing of who asked. */
static bool frame_dull(const struct alloc_module *m)
{
	static const char *const dull[] = { "libunhang-", "libamdhip64.so", "libhsa-runtime64.so" };
	const struct str base = str_base((struct str){ m->path, strnlen(m->path, sizeof(m->path)) });
	for (size_t i = 0; i < ARRAY_SIZE(dull); i++)
		if (str_starts(base, str_z(dull[i])))
			return true;
	return false;
}

/** What calls main() is every program's. */
static bool frame_is_main(struct str place)
{
	for (ptrdiff_t at; (at = str_find(place, S(" < "))) >= 0;)
		place = str_from(place, (size_t)at + 3);
	return str_is(place, "main") || str_starts(place, S("main ("));
}

struct str frames_say(struct module_names *n, struct arena *a, const struct module_frame *frames, size_t count, size_t most)
{
	_cleanup_text_ struct text t = { 0 };
	size_t said = 0;
	for (size_t i = 0; i < count && said < most; i++) {
		const struct alloc_module *m = frames[i].module;
		if (m && frame_dull(m))
			continue;
		const struct str place = m && m->path[0] ? module_place_say(n, a, m, frames[i].offset) :
							   arena_printf(a, "0x%llx", (unsigned long long)frames[i].offset);
		text_printf(&t, "%s" STR_FMT, said++ ? " < " : "", STR_ARG(place));
		if (frame_is_main(place))
			break;
	}
	return arena_str(a, text_str(&t));
}
