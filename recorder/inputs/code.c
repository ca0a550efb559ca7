// Level 10: the code of a kernel beside its inputs. Code that a program compiles while it runs (Triton, hipRTC), or that HIP unpacks, is in no file:
// with the process it would be gone. It is saved once, when inputs of one of its kernels are.
#include <stdio.h>
#include <stdlib.h>

#include "recorder/inputs/inputs.h"

enum { CODE_MOST = 1 << 28 };

/** A code object in memory of the process. */
struct code_row {
	hsa_handle executable;
	uint64_t base, size;     // where it was loaded
	uint64_t storage, bytes; // the object itself
	bool kept;               // or it cannot be
};
/** The recorder's lock guards them. */
static struct {
	struct code_row *rows;
	size_t n, room;
} code;

void code_loaded(const struct code_storage *s)
{
	if (rec.settings.max_level < LEVEL_INPUTS || !s->storage || s->bytes > CODE_MOST)
		return;
	if (code.n == code.room) {
		const size_t room = code.room ? 2 * code.room : 64;
		struct code_row *more = realloc(code.rows, room * sizeof(*more));
		if (!more)
			return;
		code.rows = more;
		code.room = room;
	}
	code.rows[code.n++] = (struct code_row){ s->executable, s->base, s->size, s->storage, s->bytes, false };
}

void code_unloaded(hsa_handle executable)
{
	size_t n = 0;
	for (size_t i = 0; i < code.n; i++)
		if (code.rows[i].executable != executable)
			code.rows[n++] = code.rows[i];
	code.n = n;
}

uint64_t code_keep(uint64_t kernel, char **ret_bytes, size_t *ret_size)
{
	uint64_t base = 0;
	pthread_mutex_lock(&rec.lock);
	for (size_t i = 0; i < code.n && !base; i++) {
		struct code_row *c = &code.rows[i];
		if (c->kept || kernel - c->base >= c->size)
			continue;
		c->kept = true;
		_cleanup_free_ char *bytes = malloc(c->bytes ? c->bytes : 1);
		if (!bytes || read_safely((const void *)(uintptr_t)c->storage, bytes, c->bytes))
			break;
		*ret_bytes = bytes;
		bytes = NULL;
		*ret_size = c->bytes;
		base = c->base;
	}
	pthread_mutex_unlock(&rec.lock);
	return base;
}
