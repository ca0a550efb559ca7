#include "apply/smoke.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
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

/** What is used of HIP: its C interface has not changed since ROCm 4. */
struct hip {
	int (*by_pci)(int *device, const char *pci);
	int (*set_device)(int device);
	int (*malloc)(void **p, size_t size);
	int (*memset)(void *p, int value, size_t size);
	int (*memcpy)(void *to, const void *from, size_t size, int kind);
	int (*synchronize)(void);
	int (*free)(void *p);
	const char *(*error)(int code);
};
static const struct {
	const char *name;
	size_t at;
} symbols[] = {
	{ "hipDeviceGetByPCIBusId", offsetof(struct hip, by_pci) },
	{ "hipSetDevice", offsetof(struct hip, set_device) },
	{ "hipMalloc", offsetof(struct hip, malloc) },
	{ "hipMemset", offsetof(struct hip, memset) },
	{ "hipMemcpy", offsetof(struct hip, memcpy) },
	{ "hipDeviceSynchronize", offsetof(struct hip, synchronize) },
	{ "hipFree", offsetof(struct hip, free) },
	{ "hipGetErrorString", offsetof(struct hip, error) },
};

struct attempt {
	const char *pci, *library;
	int fd;
	struct hip hip;
};

/** The child's output: lines of a letter and a text. It tells each step before it makes it. */
static void tell(const struct attempt *t, char what, const char *text) { dprintf(t->fd, "%c%s\n", what, text); }

static void *load_library(const struct attempt *t, const char *name)
{
	_cleanup_error_ struct uh_error *refused = NULL;
	void *library = trust_load(name, RTLD_NOW, &refused);
	if (refused)
		tell(t, 'U', refused->message);
	return library;
}

static bool load(struct attempt *t)
{
	const char *name = t->library;
	void *library = name ? load_library(t, name) : NULL;
	for (size_t i = 0; !t->library && !library && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		library = load_library(t, name = libraries[i]);
	for (size_t i = 0; library && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(library, symbols[i].name);
		if (!symbol)
			return false;
		memcpy((char *)&t->hip + symbols[i].at, &symbol, sizeof(symbol));
	}
	if (library)
		tell(t, 'L', name);
	return library;
}

static bool good(const struct attempt *t, int code)
{
	if (code)
		tell(t, code == NO_DEVICE ? 'N' : 'E', t->hip.error(code));
	return !code;
}

#define STEP(name, call) (tell(t, 'S', (name)), good(t, (call)))

static bool all(const unsigned char *p, unsigned char want)
{
	for (size_t i = 0; i < SIZE; i++)
		if (p[i] != want)
			return false;
	return true;
}

static void compute(const struct attempt *t, unsigned char *host)
{
	void *one = NULL, *two = NULL;
	int device = -1;
	bool ok = STEP("looking for the GPU", t->hip.by_pci(&device, t->pci)) &&
		  STEP("choosing it", t->hip.set_device(device)) && STEP("reserving memory", t->hip.malloc(&one, SIZE)) &&
		  STEP("reserving memory", t->hip.malloc(&two, SIZE)) &&
		  STEP("filling memory with a kernel", t->hip.memset(one, FILL, SIZE)) &&
		  STEP("waiting for the kernel", t->hip.synchronize()) &&
		  STEP("copying back", t->hip.memcpy(host, one, SIZE, TO_HOST));
	if (ok && !all(host, FILL)) {
		tell(t, 'W', "");
		return;
	}
	memset(host, FILL ^ 0xff, SIZE);
	ok = ok && STEP("copying to the GPU", t->hip.memcpy(one, host, SIZE, TO_DEVICE)) &&
	     STEP("copying inside the GPU", t->hip.memcpy(two, one, SIZE, ON_DEVICE));
	memset(host, 0, SIZE);
	ok = ok && STEP("copying back", t->hip.memcpy(host, two, SIZE, TO_HOST));
	if (ok && !all(host, FILL ^ 0xff)) {
		tell(t, 'W', "");
		return;
	}
	if (ok && STEP("giving memory back", t->hip.free(one)) && STEP("giving memory back", t->hip.free(two)))
		tell(t, 'P', "");
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
	tell(&t, 'S', "loading the runtime");
	if (!host || !load(&t))
		tell(&t, 'R', "");
	else
		compute(&t, host);
	_exit(0); // the runtime's own clean-up may wait for a GPU that hangs
}

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
	struct text told = { 0 };
	int64_t began = now_ms();
	*ret = (struct smoke){ .end = SMOKE_CRASHED };
	if (!child_begin_free(child, &t, &c))
		return;
	enum child_end end = child_wait(&c, began + milliseconds, TEXT_MOST, &told);
	ret->left_behind = !child_kill(&c, KILL_MS);
	understand(a, text_str(&told), ret);
	if (end == CHILD_LATE)
		ret->end = SMOKE_LATE;
	ret->milliseconds = now_ms() - began;
	text_free(&told);
}

const char *smoke_name(enum smoke_end e)
{
	static const char *const names[] = { "passed", "no-runtime", "no-device", "failed", "wrong", "late", "crashed" };
	return names[e];
}
