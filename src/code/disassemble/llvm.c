// LLVM's C interface. Its few functions are declared here, so that unhang is built without LLVM.
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/door/library.h"
#include "code/disassemble/disassembler.h"

// 13 is the first that knows gfx90a. Those after today's newest will keep its names.
enum { VERSION_OLDEST = 13, VERSION_NEWEST = 32 };

typedef void initialise_fn(void);
typedef void version_fn(unsigned *major, unsigned *minor, unsigned *patch);
typedef void *create_fn(const char *triple, const char *cpu, const char *features, void *info, int tag, void *operand_info,
			void *symbol_lookup);
typedef size_t instruction_fn(void *context, uint8_t *bytes, uint64_t size, uint64_t pc, char *text, size_t room);

struct llvm_opened {
	create_fn *create;
	instruction_fn *instruction;
	char cpu[64];
	void *context;
	void *context64; // for wave64 code, made when there is some
};

static bool llvm_path(size_t at, char ret[static LIBRARY_PATH])
{
	static const struct {
		const char *before, *after; // the version
	} names[] = {
		{ "libLLVM.so.", ".1" },                   // since 18
		{ "libLLVM-", ".so.1" },                   // Debian's
		{ "libLLVM-", ".so" },                     // until 17
		{ "/usr/lib/llvm-", "/lib/libLLVM.so.1" }, // Debian's, upstream's packages
		{ "/usr/lib64/llvm", "/lib/libLLVM.so" },  // Fedora's
		{ "/usr/lib/llvm", "/lib/libLLVM.so" },    // Arch's, Alpine's
	};
	const size_t n = ARRAY_SIZE(names);
	if (at / n > VERSION_NEWEST - VERSION_OLDEST)
		return false;
	snprintf(ret, LIBRARY_PATH, "%s%u%s", names[at % n].before, VERSION_NEWEST - (unsigned)(at / n), names[at % n].after);
	return true;
}

static bool llvm_describe(void *library, const char *path, char *ret_by, size_t size)
{
	version_fn *version = library_find(library, "LLVMGetVersion"); // since 16
	if (version) {
		unsigned major, minor, patch;
		version(&major, &minor, &patch);
		snprintf(ret_by, size, "LLVM %u.%u.%u", major, minor, patch);
	} else {
		snprintf(ret_by, size, "LLVM %.2s", path + strcspn(path, "123"));
	}
	// A distribution may build it without AMD GPUs.
	return library_find(library, "LLVMInitializeAMDGPUDisassembler");
}

/** A context, or NULL where making it gave LLVM something to complain about: it goes on with a processor that it does not know, or
 * ends the process. */
static void *create_quietly(const struct llvm_opened *o, const char *features)
{
	int before = dup(STDERR_FILENO), complaints = memfd_create("complaints", MFD_CLOEXEC);
	if (before < 0 || complaints < 0 || dup2(complaints, STDERR_FILENO) < 0)
		return NULL;
	void *context = o->create("amdgcn-amd-amdhsa", o->cpu, features, NULL, 0, NULL, NULL);
	bool complained = lseek(complaints, 0, SEEK_END) != 0;
	dup2(before, STDERR_FILENO);
	close(before);
	close(complaints);
	return complained ? NULL : context;
}

static void *llvm_open(void *library, const char *target_id)
{
	static const char *const initialisers[] = { "LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTargetMC",
						    "LLVMInitializeAMDGPUDisassembler" };
	for (size_t i = 0; i < ARRAY_SIZE(initialisers); i++) {
		initialise_fn *initialise = library_find(library, initialisers[i]);
		if (!initialise)
			return NULL;
		initialise();
	}
	struct llvm_opened *o = mem_alloc(sizeof(*o));
	o->create = library_find(library, "LLVMCreateDisasmCPUFeatures");
	o->instruction = library_find(library, "LLVMDisasmInstruction");
	// xnack and sramecc make no difference to an encoding.
	str_copy(o->cpu, sizeof(o->cpu), (struct str){ target_id, strcspn(target_id, ":") });
	o->context = o->create && o->instruction ? create_quietly(o, "") : NULL;
	return o->context ? o : NULL;
}

static size_t llvm_instruction(void *opened, const struct machine_code *code, char text[static INSTRUCTION_TEXT])
{
	struct llvm_opened *o = opened;
	if (code->wave64 && !o->context64) {
		void *context = create_quietly(o, "-wavefrontsize32,+wavefrontsize64");
		o->context64 = context ? context : o->context;
	}
	void *context = code->wave64 ? o->context64 : o->context;
	return o->instruction(context, (uint8_t *)code->bytes.p, code->bytes.n, code->address, text, INSTRUCTION_TEXT);
}

const struct disassembler disasm_llvm = {
	.kind = { "llvm", 4 },
	.path = llvm_path,
	.describe = llvm_describe,
	.open = llvm_open,
	.instruction = llvm_instruction,
};
