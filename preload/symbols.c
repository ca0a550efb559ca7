// How HIP's functions are found, and how those who look for them find ours: by linking, by dlsym(), by hipGetProcAddress().
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "preload/guard.h"

#define EXPORT __attribute__((visibility("default")))
#define HIP_LIBRARY "libamdhip64.so"

struct hip_functions hip;
typedef void *symbol_fn(void *handle, const char *name);
/** dlsym() of libc. The assembly below jumps there. */
symbol_fn *guard_next_dlsym __attribute__((visibility("hidden")));
// Also called before a sanitizer has begun.
#define EARLY __attribute__((no_sanitize("thread", "address")))
/** Two registers: what dlsym() answers, or (NULL) the handle with which libc does. */
struct looked_up {
	void *found, *handle;
};
struct looked_up guard_look_up(void *handle, const char *name) __attribute__((visibility("hidden"), used));

static EARLY void next_find(void)
{
	static const char *const versions[] = { "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34" };
	for (size_t i = 0; i < ARRAY_SIZE(versions) && !guard_next_dlsym; i++)
		guard_next_dlsym = (symbol_fn *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

EARLY void *next_symbol(void *handle, const char *name)
{
	if (!guard_next_dlsym)
		next_find();
	return guard_next_dlsym(handle, name);
}

static bool is_hip(const void *function)
{
	Dl_info in;
	return dladdr(function, &in) && in.dli_fname && strstr(in.dli_fname, HIP_LIBRARY);
}

/** What dlsym() has to answer in HIP's place, where a handle's own HIP is there. Without HIP our functions are not to be found either: who looks
 * for them wants to know whether it is there. */
EARLY struct looked_up guard_look_up(void *handle, const char *name)
{
	if (!guard_next_dlsym)
		next_find();
	void *ours = name && name[0] == 'h' && handle != RTLD_NEXT ? hook_named(name) : NULL;
	const void *theirs = ours ? guard_next_dlsym(handle, name) : NULL;
	if (theirs && theirs == ours && !strncmp(name, "hip", 3) && !hip_there())
		return (struct looked_up){ NULL, dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD) };
	const bool hooked = theirs && (is_hip(theirs) || !strcmp(name, "hsa_init"));
	return (struct looked_up){ hooked ? ours : NULL, handle };
}

// dlsym() looks at who calls it (RTLD_NEXT), so it is not called from here: what is not ours is a jump, with the stack as it was.
#if defined(__x86_64__)
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	sub $8, %rsp\n"
	"	call guard_look_up\n"
	"	add $8, %rsp\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	"	mov %rdx, %rdi\n"
	"	test %rax, %rax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	jmp *guard_next_dlsym(%rip)\n"
	".size dlsym, . - dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, %function\n"
	"dlsym:\n"
	"	stp x29, x30, [sp, #-32]!\n"
	"	stp x0, x1, [sp, #16]\n"
	"	bl guard_look_up\n"
	"	mov x9, x0\n"
	"	mov x10, x1\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	cbz x9, 1f\n"
	"	mov x0, x9\n"
	"	ret\n"
	"1:	mov x0, x10\n"
	"	adrp x9, guard_next_dlsym\n"
	"	ldr x9, [x9, #:lo12:guard_next_dlsym]\n"
	"	br x9\n"
	".size dlsym, . - dlsym\n");
#endif

struct loaded {
	char path[256];
};

static int library_look(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct loaded *l = ctx;
	(void)size;
	if (!info->dlpi_name || !strstr(info->dlpi_name, HIP_LIBRARY))
		return 0;
	snprintf(l->path, sizeof(l->path), "%s", info->dlpi_name);
	return 1;
}

/** Programs that load HIP themselves (Python) have it where RTLD_NEXT does not look. */
static void *hip_handle(void)
{
	struct loaded l = { "" };
	dl_iterate_phdr(library_look, &l);
	return l.path[0] ? dlopen(l.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

static void *hip_symbol(void *handle, const char *name)
{
	void *found = next_symbol(RTLD_NEXT, name);
	return found || !handle ? found : next_symbol(handle, name);
}

bool hip_there(void)
{
	struct loaded l = { "" };
	return next_symbol(RTLD_NEXT, "hipMalloc") || dl_iterate_phdr(library_look, &l);
}

const char *hip_find(void)
{
	static const char *const needed[] = { "hipMalloc",
					      "hipFree",
					      "hipGetDevice",
					      "hipSetDevice",
					      "hipMemGetInfo",
					      "hipDeviceSynchronize",
					      "hipMemsetAsync",
					      "hipMemcpyAsync",
					      "hipStreamCreateWithFlags",
					      "hipStreamSynchronize",
					      "hipMemGetAddressRange" };
	void *handle = hip_handle();
	Dl_info in;
#define X(function, ...) *(void **)&hip.function = hip_symbol(handle, #function);
	HIP_HOOKED(X)
	HIP_CALLED(X)
#undef X
	if (hip.hipMalloc && dladdr((const void *)hip.hipMalloc, &in) && in.dli_fname)
		snprintf(guard.header->hip, sizeof(guard.header->hip), "%s", in.dli_fname);
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!hip_symbol(handle, needed[i]))
			return needed[i];
	return NULL;
}

// --- before the HSA runtime reads its environment ---

int hsa_init(void)
{
	static int (*next)(void);
	environment_set();
	if (!next)
		*(void **)&next = next_symbol(RTLD_NEXT, "hsa_init");
	if (!next)
		*(void **)&next = next_symbol(dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD), "hsa_init");
	const int status = next ? next() : 0x1000; // HSA_STATUS_ERROR
	operations_find();                         // the runtime has loaded the recorder, if any
	return status;
}

/** A program that is linked with HIP has it now; one that loads it later gets there by hsa_init(). Any other keeps its environment. */
static __attribute__((constructor)) void loaded_with(void)
{
	struct loaded l = { "" };
	next_find();
	if (dl_iterate_phdr(library_look, &l))
		environment_set();
}

// --- calls of KFD are counted ---

enum { KFD_WAIT_EVENTS = 0x0c };

EXPORT int ioctl(int fd, unsigned long request, ...);
EXPORT int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int fd, unsigned long request, void *argument);
	va_list ap;
	va_start(ap, request);
	void *argument = va_arg(ap, void *);
	va_end(ap);
	if (!__atomic_load_n((void **)&next, __ATOMIC_RELAXED))
		__atomic_store_n((void **)&next, next_symbol(RTLD_NEXT, "ioctl"), __ATOMIC_RELAXED);
	// The console's of this letter have no size. ROCr 6.4 waits a million times a second (ROCm/rocm-systems#7425), which is no work.
	if (_IOC_TYPE(request) == 'K' && _IOC_SIZE(request) && _IOC_NR(request) != KFD_WAIT_EVENTS)
		count(&guard.header->kfd_calls, 1);
	return next(fd, request, argument);
}
