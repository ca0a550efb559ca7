// Fuzzes journal files. They are large and nearly empty, so that the input is pieces of one: where each lies (four bytes), how long it is
// (two), and its bytes; all else is zero, up to the size of a new journal. unhang's own reader takes it from memory, and
// libsystemd, which is not instrumented, from a file: there what is seen is our own walk through it, and memory errors of both.
#include <fcntl.h>

#include "base/bytes.h"
#include "base/str.h"
#include "feed.h"
#include "inline_child.h"
#include "memory_file.h"
#include "source/journal.h"
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

static void walk(const struct journal_api *api, sd_journal *j, int (*move)(sd_journal *))
{
	const void *data;
	size_t n;
	for (unsigned i = 0; i < 1000 && move(j) > 0; i++)
		if (api->sd_journal_get_data(j, "MESSAGE", &data, &n) >= 0 && !feed_readable((struct str){ data, n }))
			abort();
}

static void read_bytes(struct str bytes)
{
	const struct journal_api *api = &journal_files;
	sd_journal *j = journal_of_bytes(bytes);
	if (!j)
		return;
	uint64_t usec;
	sd_id128_t boot;
	api->sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
	walk(api, j, api->sd_journal_next);
	if (api->sd_journal_get_monotonic_usec(j, &usec, &boot) >= 0)
		api->sd_journal_seek_monotonic_usec(j, boot, usec / 2);
	walk(api, j, api->sd_journal_next);
	api->sd_journal_flush_matches(j);
	api->sd_journal_seek_tail(j);
	walk(api, j, api->sd_journal_previous);
	api->sd_journal_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	keep_library("libsystemd.so.0");
	if (fd < 0)
		fd = open(PATH, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (ftruncate(fd, 0) || ftruncate(fd, JOURNAL_BYTES))
		abort();
	_cleanup_free_ char *image = calloc(1, JOURNAL_BYTES);
	while (size > 6) {
		size_t at = get_u32(data) % JOURNAL_BYTES, n = data[4] | data[5] << 8;
		n = n < size - 6 ? n : size - 6;
		n = n < JOURNAL_BYTES - at ? n : JOURNAL_BYTES - at;
		if (n)
			memcpy(image + at, data + 6, n);
		if (n && pwrite(fd, data + 6, n, (off_t)at) != (ssize_t)n)
			abort();
		data += 6 + n;
		size -= 6 + n;
	}
	read_bytes((struct str){ image, JOURNAL_BYTES });
	uh_error_free(
		source_journal_file(&(struct named){ .path = PATH }, PATH, &(struct source_visitor){ .record = on_record }));
	return 0;
}
