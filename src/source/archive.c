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

enum { BLOCK = 256 << 10, ENTRIES_MAX = 4096, NESTED_MAX = 2 };

bool source_is_archive(struct str head)
{
	static const struct {
		const char *bytes;
		size_t size, at;
	} magics[] = {
		{ "\x1f\x8b", 2, 0 },
		{ "\xfd"
		  "7zXZ",
		  5, 0 },
		{ "\x28\xb5\x2f\xfd", 4, 0 },
		{ "BZh", 3, 0 },
		{ "\x04\x22\x4d\x18", 4, 0 },
		{ "PK\x03\x04", 4, 0 },
		{ "ustar", 5, 257 },
	};
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (str_starts(str_from(head, magics[i].at), (struct str){ magics[i].bytes, magics[i].size }))
			return true;
	return false;
}

struct member {
	struct archive *archive;
	const char *name;
	struct str block; // what of the newest block has not been handed on
	bool ended, damaged;
};

/** Makes sure that @m has a block, unless it has ended. Blocks leave out what a sparse file does not hold, so that it is
 * not handed on as terabytes of zeros. */
static struct uh_error *next_block(struct member *m)
{
	while (!m->block.n && !m->ended) {
		const void *bytes;
		la_int64_t offset;
		int status = archive_read_data_block(m->archive, &bytes, &m->block.n, &offset);
		m->block.p = bytes;
		m->ended = status == ARCHIVE_EOF || status < ARCHIVE_WARN;
		if (m->ended)
			m->block.n = 0;
		if (status < ARCHIVE_WARN) {
			const char *why = archive_error_string(m->archive);
			m->damaged = true;
			return uh_error_new("%s: %s", m->name, why ? why : "damaged");
		}
	}
	return NULL;
}

static ssize_t read_entry(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	struct member *m = s->ctx;
	*ret_err = next_block(m);
	if (*ret_err)
		return -1;
	struct str part = str_cut(m->block, size);
	if (part.n)
		memcpy(buffer, part.p, part.n);
	m->block = str_from(m->block, part.n);
	return (ssize_t)part.n;
}

/** As libarchive wants to be fed, with the member of another archive. */
static la_ssize_t feed_nested(struct archive *a, void *ctx, const void **ret_bytes)
{
	struct member *m = ctx;
	struct uh_error *err = next_block(m);
	if (err) {
		archive_set_error(a, EIO, "%s", err->message);
		uh_error_free(err);
		return ARCHIVE_FATAL;
	}
	struct str block = m->block;
	m->block.n = 0;
	*ret_bytes = block.p;
	return (la_ssize_t)block.n;
}

static struct archive *new_archive(void)
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
	return a;
}

static void archive_walk(const char *name, struct archive *a, int depth, const struct source_visitor *v);

/** A member is read as it is, or, where it is an archive or compressed itself (kern.log.2.gz in a tar), opened in turn. */
static void visit_member(struct member *m, int depth, const struct source_visitor *v)
{
	struct uh_error *err = next_block(m);
	if (err) {
		v->problem(v->ctx, err);
		return;
	}
	if (depth < NESTED_MAX && source_is_archive(m->block)) {
		struct archive *nested = new_archive();
		if (archive_read_open(nested, m, NULL, feed_nested, NULL) == ARCHIVE_OK)
			archive_walk(m->name, nested, depth + 1, v);
		else
			v->problem(v->ctx, uh_error_new("%s: cannot be unpacked", m->name));
		archive_read_free(nested);
		return;
	}
	struct source s = { .name = m->name, .fd = -1, .read = read_entry, .ctx = m };
	v->visit(v->ctx, &s);
}

static void archive_walk(const char *name, struct archive *a, int depth, const struct source_visitor *v)
{
	struct archive_entry *entry;
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
		struct member m = { .archive = a, .name = member.p };
		visit_member(&m, depth, v);
		text_free(&member);
		if (m.damaged) // said already; what follows in the archive is lost with it
			return;
	}
	if (status < ARCHIVE_WARN)
		v->problem(v->ctx, uh_error_new("%s: %s", name, archive_error_string(a) ? archive_error_string(a) : "damaged"));
	else if (!found)
		v->problem(v->ctx, uh_error_new("%s: there is nothing in it", name));
}

void source_archive(const char *name, int fd, const struct source_visitor *v)
{
	struct archive *a = new_archive();
	if (archive_read_open_fd(a, fd, BLOCK) == ARCHIVE_OK)
		archive_walk(name, a, 0, v);
	else
		v->problem(v->ctx,
			   uh_error_new("%s: cannot be read%s", name, strcmp(name, "-") ? "" : "; standard input is closed"));
	archive_read_free(a);
}
