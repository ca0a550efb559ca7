// The smoke test: a little work on a GPU through HIP, in a child that may hang with it. Each step is named before it begins, so that a
// hang tells how far it came.
#include "apply/smoke.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "base/door/library.h"
#include "base/door/trust.h"

enum {
	SIZE = 4 << 20,
	TEXT_MOST = 4096,
	KILL_MS = 500,
	NO_DEVICE = 100,
	FILL = 0xa5,
	TO_DEVICE = 1,
	TO_HOST = 2,
	ON_DEVICE = 3
};

/** The newest first; the directory is where AMD's packages put them. */
static const char *const libraries[] = {
	"/opt/rocm/lib/libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
};

// What is used of HIP: its C interface has not changed since ROCm 4.
int hipDeviceGetByPCIBusId(int *device, const char *pci);
int hipSetDevice(int device);
int hipMalloc(void **p, size_t size);
int hipMemset(void *p, int value, size_t size);
int hipMemcpy(void *to, const void *from, size_t size, int kind);
int hipDeviceSynchronize(void);
int hipFree(void *p);
const char *hipGetErrorString(int code);

// clang-format off
#define HIP_CALLS(call) \
	call(hipDeviceGetByPCIBusId) call(hipSetDevice) call(hipMalloc) call(hipMemset) call(hipMemcpy) \
	call(hipDeviceSynchronize) call(hipFree) call(hipGetErrorString)
// clang-format on

struct hip {
	LIBRARY_API(HIP_CALLS)
};

struct attempt {
	const char *pci, *library;
	int fd;
	struct hip hip;
};

/** The child's output: lines of a letter and a text. It tells each step before it makes it. */
static void apply_smoke_tell(const struct attempt *t, char what, const char *text) { dprintf(t->fd, "%c%s\n", what, text); }

static void *apply_smoke_load_library(const struct attempt *t, const char *name)
{
	_cleanup_error_ struct uh_error *refused = NULL;
	void *library = trust_load(name, RTLD_NOW, &refused);
	if (refused)
		apply_smoke_tell(t, 'U', refused->message);
	return library;
}

static bool apply_smoke_load(struct attempt *t)
{
	const char *name = t->library;
	void **library = &t->hip.library;
	*library = name ? apply_smoke_load_library(t, name) : NULL;
	for (size_t i = 0; !t->library && !*library && i < ARRAY_SIZE(libraries); i++)
		*library = apply_smoke_load_library(t, name = libraries[i]);
	if (LIBRARY_LOAD(&t->hip, HIP_CALLS, NULL))
		return false;
	apply_smoke_tell(t, 'L', name);
	return true;
}

static bool good(const struct attempt *t, int code)
{
	if (code)
		apply_smoke_tell(t, code == NO_DEVICE ? 'N' : 'E', t->hip.hipGetErrorString(code));
	return !code;
}

#define STEP(name, call) (apply_smoke_tell(t, 'S', (name)), good(t, (call)))

static bool all(const unsigned char *p, unsigned char want)
{
	for (size_t i = 0; i < SIZE; i++)
		if (p[i] != want)
			return false;
	return true;
}

/** As little work as shows that the GPU computes: a kernel fills memory, what it wrote is compared, and copies to, on and from the GPU
 * are. */
static void compute(const struct attempt *t, unsigned char *host)
{
	void *one = NULL, *two = NULL;
	int device = -1;
	bool ok = STEP("looking for the GPU", t->hip.hipDeviceGetByPCIBusId(&device, t->pci)) &&
		  STEP("choosing it", t->hip.hipSetDevice(device)) && STEP("reserving memory", t->hip.hipMalloc(&one, SIZE)) &&
		  STEP("reserving memory", t->hip.hipMalloc(&two, SIZE)) &&
		  STEP("filling memory with a kernel", t->hip.hipMemset(one, FILL, SIZE)) &&
		  STEP("waiting for the kernel", t->hip.hipDeviceSynchronize()) &&
		  STEP("copying back", t->hip.hipMemcpy(host, one, SIZE, TO_HOST));
	if (ok && !all(host, FILL)) {
		apply_smoke_tell(t, 'W', "");
		return;
	}
	memset(host, FILL ^ 0xff, SIZE);
	ok = ok && STEP("copying to the GPU", t->hip.hipMemcpy(one, host, SIZE, TO_DEVICE)) &&
	     STEP("copying inside the GPU", t->hip.hipMemcpy(two, one, SIZE, ON_DEVICE));
	memset(host, 0, SIZE);
	ok = ok && STEP("copying back", t->hip.hipMemcpy(host, two, SIZE, TO_HOST));
	if (ok && !all(host, FILL ^ 0xff)) {
		apply_smoke_tell(t, 'W', "");
		return;
	}
	if (ok && STEP("giving memory back", t->hip.hipFree(one)) && STEP("giving memory back", t->hip.hipFree(two)))
		apply_smoke_tell(t, 'P', "");
}

static void child(int fd, const void *ctx)
{
	struct attempt t = *(const struct attempt *)ctx;
	t.fd = fd;
	child_keep_only(fd);
	int null = -1;
	do // else what the runtime prints goes to the first files that it opens
		null = open("/dev/null", O_RDWR);
	while (null >= 0 && null < STDERR_FILENO);
	unsigned char *host = malloc(SIZE);
	apply_smoke_tell(&t, 'S', "loading the runtime");
	if (!host || !apply_smoke_load(&t))
		apply_smoke_tell(&t, 'R', "");
	else
		compute(&t, host);
	_exit(0); // the runtime's own clean-up may wait for a GPU that hangs
}

/** What the child said before it ended or was given up: the last step that it named is where it hangs. */
static void understand(struct arena *a, struct str told, struct smoke *ret)
{
	ret->end = SMOKE_CRASHED; // unless it says how it ended
	while (told.n) {
		struct str line = str_split(&told, '\n'), rest = arena_str(a, str_from(line, 1));
		switch (line.n ? line.p[0] : 0) {
		case 'S':
			ret->step = rest;
			break;
		case 'L':
			ret->library = rest;
			break;
		case 'U':
			ret->refused = rest;
			break;
		case 'R':
			ret->end = SMOKE_NO_RUNTIME;
			break;
		case 'N':
		case 'E':
			ret->end = line.p[0] == 'N' ? SMOKE_NO_DEVICE : SMOKE_FAILED;
			ret->error = rest;
			break;
		case 'W':
			ret->end = SMOKE_WRONG;
			break;
		case 'P':
			ret->end = SMOKE_PASSED;
			break;
		}
	}
}

void smoke_run(struct arena *a, struct str pci, const char *library, int milliseconds, struct smoke *ret)
{
	struct attempt t = { .pci = arena_z(a, pci), .library = library };
	struct child c;
	_cleanup_text_ struct text told = { 0 };
	int64_t began = now_ms();
	*ret = (struct smoke){ .end = SMOKE_CRASHED };
	if (!child_start(CHILD_SMOKE, child, &t, &c))
		return;
	enum child_end end = child_wait(&c, began + milliseconds, TEXT_MOST, &told);
	ret->left_behind = !child_kill(&c, KILL_MS);
	understand(a, text_str(&told), ret);
	if (end == CHILD_LATE)
		ret->end = SMOKE_LATE;
	ret->milliseconds = now_ms() - began;
}

const char *smoke_name(enum smoke_end e)
{
	static const char *const names[] = { "passed", "no-runtime", "no-device", "failed", "wrong", "late", "crashed" };
	return names[e];
}
