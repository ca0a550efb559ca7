// AMD's code object manager. Its few functions are declared here, so that unhang is built without ROCm.
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/door/library.h"
#include "code/disassemble/disassembler.h"

enum { STATUS_SUCCESS = 0 };

struct info {
	uint64_t handle;
};

typedef void version_fn(size_t *major, size_t *minor);
typedef uint64_t read_fn(uint64_t from, char *to, uint64_t size, void *ctx);
typedef void print_fn(const char *text, void *ctx);
typedef void annotate_fn(uint64_t address, void *ctx);
typedef int create_fn(const char *isa, read_fn *read, print_fn *print, annotate_fn *annotate, struct info *ret);
typedef int instruction_fn(struct info info, uint64_t address, void *ctx, uint64_t *ret_size);

struct comgr_opened {
	instruction_fn *instruction;
	struct info info;
	const struct machine_code *code; // of the call that runs
	char *text;
};

static const char *const names[] = { "libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so" };
enum { NAMES = ARRAY_SIZE(names) };

static int comgr_newest_first(const void *a, const void *b)
{
	return str_version_cmp(str_z(*(char *const *)b), str_z(*(char *const *)a));
}

/** The @at-th directory of those where ROCm installs itself; @room or a constant. */
static const char *rocm_directory(size_t at, char room[static LIBRARY_PATH])
{
	const char *chosen = secure_getenv("ROCM_PATH");
	if (chosen && *chosen && at-- == 0)
		return chosen;
	if (at-- == 0)
		return "/opt/rocm";
	glob_t found;
	if (glob("/opt/rocm-*", 0, NULL, &found))
		return NULL;
	qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), comgr_newest_first);
	if (at < found.gl_pathc)
		str_copy(room, LIBRARY_PATH, str_z(found.gl_pathv[at]));
	bool good = at < found.gl_pathc;
	globfree(&found);
	return good ? room : NULL;
}

static bool rocm_path(size_t at, char ret[static LIBRARY_PATH])
{
	char room[LIBRARY_PATH];
	const char *directory = rocm_directory(at / NAMES, room);
	if (!directory)
		return false;
	if (snprintf(ret, LIBRARY_PATH, "%s/lib/%s", directory, names[at % NAMES]) >= LIBRARY_PATH)
		*ret = '\0'; // which no library has
	return true;
}

// Version 2 in the loader's path is a distribution's, and older than the LLVM beside it: Debian 12's knows no gfx11. Only its name is
// looked at, because loading it to ask takes longer than LLVM does to disassemble.
static bool recent_path(size_t at, char ret[static LIBRARY_PATH])
{
	str_copy(ret, LIBRARY_PATH, str_z(names[0]));
	return at == 0;
}

static bool old_path(size_t at, char ret[static LIBRARY_PATH])
{
	if (at >= NAMES - 1)
		return false;
	str_copy(ret, LIBRARY_PATH, str_z(names[at + 1]));
	return true;
}

static bool comgr_describe(void *library, const char *path, char *ret_by, size_t size)
{
	(void)path;
	size_t major, minor;
	version_fn *version = library_find(library, "amd_comgr_get_version");
	if (!version)
		return false;
	version(&major, &minor);
	snprintf(ret_by, size, "comgr %zu.%zu", major, minor);
	return true;
}

static uint64_t comgr_read_memory(uint64_t from, char *to, uint64_t size, void *ctx)
{
	const struct comgr_opened *o = ctx;
	struct str left = from < o->code->address ? (struct str){ 0 } : str_from(o->code->bytes, from - o->code->address);
	left = str_cut(left, size);
	if (left.n)
		memcpy(to, left.p, left.n);
	return left.n;
}

static void print_instruction(const char *text, void *ctx)
{
	const struct comgr_opened *o = ctx;
	str_copy(o->text, INSTRUCTION_TEXT, str_z(text));
}

static void print_address(uint64_t address, void *ctx)
{
	(void)address;
	(void)ctx;
}

static void *comgr_open(void *library, const char *target_id)
{
	struct comgr_opened *o = mem_alloc(sizeof(*o));
	create_fn *create = library_find(library, "amd_comgr_create_disassembly_info");
	o->instruction = library_find(library, "amd_comgr_disassemble_instruction");
	if (!create || !o->instruction)
		return NULL;
	// A feature that this version does not know of must not hide a processor that it knows.
	const int lengths[] = { (int)strlen(target_id), (int)strcspn(target_id, ":") };
	for (size_t i = 0; i < 2; i++) {
		char isa[128];
		snprintf(isa, sizeof(isa), "amdgcn-amd-amdhsa--%.*s", lengths[i], target_id);
		if (create(isa, comgr_read_memory, print_instruction, print_address, &o->info) == STATUS_SUCCESS)
			return o;
	}
	return NULL;
}

static size_t comgr_instruction(void *opened, const struct machine_code *code, char text[static INSTRUCTION_TEXT])
{
	struct comgr_opened *o = opened;
	uint64_t size = 0;
	o->code = code;
	o->text = text;
	return o->instruction(o->info, code->address, o, &size) == STATUS_SUCCESS ? size : 0;
}

#define COMGR(places)                                                                                                          \
	{                                                                                                                      \
		.kind = { "comgr", 5 }, .path = places, .describe = comgr_describe, .open = comgr_open,                        \
		.instruction = comgr_instruction,                                                                              \
	}
const struct disassembler disasm_rocm = COMGR(rocm_path);
const struct disassembler disasm_comgr = COMGR(recent_path);
const struct disassembler disasm_comgr_old = COMGR(old_path);
