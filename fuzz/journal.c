// Fuzzes journal files. They are large and nearly empty, so that the input is pieces of one: where each lies (four bytes), how long it is
// (two), and its bytes; all else is zero, up to the size of a new journal. libsystemd is not instrumented: what is seen is our own walk
// through it, and memory errors of both.
#include <fcntl.h>

#include "base/bytes.h"
#include "base/str.h"
#include "feed.h"
#include "inline_child.h"
#include "memory_file.h"
#include "source/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PATH "fuzz.journal" // libsystemd takes no file without a name

enum { JOURNAL_BYTES = 8 << 20 };

static void on_record(void *ctx, const char *name, const struct source_record *record)
{
	(void)ctx;
	if (!record)
		return;
	if (!name || !record->text.n || !feed_readable(record->text) || !feed_readable(record->boot_id))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	keep_library("libsystemd.so.0");
	if (fd < 0)
		fd = open(PATH, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (ftruncate(fd, 0) || ftruncate(fd, JOURNAL_BYTES))
		abort();
	while (size > 6) {
		size_t at = get_u32(data) % JOURNAL_BYTES, n = data[4] | data[5] << 8;
		n = n < size - 6 ? n : size - 6;
		n = n < JOURNAL_BYTES - at ? n : JOURNAL_BYTES - at;
		if (n && pwrite(fd, data + 6, n, (off_t)at) != (ssize_t)n)
			abort();
		data += 6 + n;
		size -= 6 + n;
	}
	uh_error_free(
		source_journal_file(&(struct named){ .path = PATH }, PATH, &(struct source_visitor){ .record = on_record }));
	return 0;
}
