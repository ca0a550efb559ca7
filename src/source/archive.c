// Archives and compressed files through libarchive; anything else passes as it is.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "source/source.h"

enum { BLOCK = 256 << 10, ENTRIES_MAX = 4096 };

struct member {
	struct archive *archive;
	struct str block; // what of the newest block has not been handed on
	bool damaged;
};

/** Block by block: what a sparse file does not hold is left out, and not handed on as terabytes of zeros. */
static ssize_t read_entry(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	struct member *m = s->ctx;
	while (!m->block.n) {
		const void *bytes;
		la_int64_t offset;
		int status = archive_read_data_block(m->archive, &bytes, &m->block.n, &offset);
		if (status == ARCHIVE_EOF)
			return 0;
		if (status < ARCHIVE_WARN) {
			const char *why = archive_error_string(m->archive);
			m->damaged = true;
			m->block.n = 0;
			*ret_err = uh_error_new("%s: %s", s->name, why ? why : "damaged");
			return -1;
		}
		m->block.p = bytes;
	}
	struct str part = str_cut(m->block, size);
	memcpy(buffer, part.p, part.n);
	m->block = str_from(m->block, part.n);
	return (ssize_t)part.n;
}

/** NULL where the descriptor cannot even be read. */
static struct archive *open_archive(int fd)
{
	struct archive *a = archive_read_new();
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_lz4(a);
	archive_read_support_format_tar(a);
	archive_read_support_format_zip(a);
	archive_read_support_format_raw(a);
	archive_read_support_format_empty(a);
	if (archive_read_open_fd(a, fd, BLOCK) == ARCHIVE_OK)
		return a;
	archive_read_free(a);
	return NULL;
}

void source_archive(const char *name, int fd, const struct source_visitor *v)
{
	struct archive *a = open_archive(fd);
	if (!a) {
		v->problem(v->ctx,
			   uh_error_new("%s: cannot be read%s", name, strcmp(name, "-") ? "" : "; standard input is closed"));
		return;
	}
	struct archive_entry *entry;
	struct member m = { .archive = a };
	int found = 0, status;
	while ((status = archive_read_next_header(a, &entry)) == ARCHIVE_OK || status == ARCHIVE_WARN) {
		if (found == ENTRIES_MAX) {
			v->problem(v->ctx, uh_error_new("%s: more than %d members; the rest was not read", name, ENTRIES_MAX));
			break;
		}
		bool raw = archive_format(a) == ARCHIVE_FORMAT_RAW;
		if (!raw && archive_entry_filetype(entry) != AE_IFREG)
			continue;
		found++;
		struct text member = { 0 };
		text_printf(&member, "%s", name);
		if (!raw)
			text_printf(&member, "(%s)", archive_entry_pathname(entry) ? archive_entry_pathname(entry) : "?");
		m.block = (struct str){ 0 };
		struct source s = { .name = member.p, .fd = -1, .read = read_entry, .ctx = &m };
		v->visit(v->ctx, &s);
		text_free(&member);
		if (m.damaged) // said already; what follows in the archive is lost with it
			break;
	}
	if (status < ARCHIVE_WARN)
		v->problem(v->ctx, uh_error_new("%s: %s", name, archive_error_string(a) ? archive_error_string(a) : "damaged"));
	else if (!found)
		v->problem(v->ctx, uh_error_new("%s: there is nothing in it", name));
	archive_read_free(a);
}
