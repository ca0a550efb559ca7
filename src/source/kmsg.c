// The running kernel's messages. Each read() returns one record: priority,sequence,microseconds,flags;text
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "source/source.h"

static void kmsg_record(const char *name, struct str record, const struct source_visitor *v)
{
	struct str text = record, head = str_split(&text, ';');
	str_split(&head, ',');
	str_split(&head, ',');
	int64_t microseconds;
	struct source_record out = { .boot_seconds = -1, .wall_seconds = -1 };
	if (str_number(str_split(&head, ','), &microseconds))
		out.boot_seconds = (double)microseconds / 1e6;
	// Lines after the first are the device's properties (" SUBSYSTEM=pci").
	out.text = str_split(&text, '\n');
	v->record(v->ctx, name, &out);
}

struct uh_error *source_kmsg(const char *path, const struct source_visitor *v)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return uh_error_os(errno, "%s", path);
	struct uh_error *err = NULL;
	v->record(v->ctx, path, NULL);
	for (;;) {
		char record[8192];
		ssize_t n = read(fd, record, sizeof(record));
		if (n > 0) {
			kmsg_record(path, (struct str){ record, (size_t)n }, v);
		} else if (n == 0 || errno == EAGAIN) {
			break;
		} else if (errno != EPIPE && errno != EINTR) { // EPIPE: records were overwritten meanwhile; go on
			err = uh_error_os(errno, "%s", path);
			break;
		}
	}
	v->record(v->ctx, NULL, NULL);
	return err;
}
