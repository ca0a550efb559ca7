// Archives and compressed files through libarchive; anything else passes as it is. The library is loaded when first needed: it brings
// ten others with it, a fifth of the time that a short log takes.
#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
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

struct archive_api {
	void *library;
	typeof(archive_read_new) *read_new;
	typeof(archive_read_free) *read_free;
	typeof(archive_read_open) *read_open;
	typeof(archive_read_open_fd) *read_open_fd;
	typeof(archive_read_next_header) *read_next_header;
	typeof(archive_read_data_block) *read_data_block;
	typeof(archive_format) *format;
	typeof(archive_error_string) *error_string;
	typeof(archive_set_error) *set_error;
	typeof(archive_entry_filetype) *entry_filetype;
	typeof(archive_entry_pathname) *entry_pathname;
	int (*supports[9])(struct archive *a); // what is to be understood
};

static struct uh_error *archive_load(struct archive_api *api)
{
	static const char *const supports[] = { "archive_read_support_filter_gzip", "archive_read_support_filter_xz",
						"archive_read_support_filter_zstd", "archive_read_support_filter_bzip2",
						"archive_read_support_filter_lz4",  "archive_read_support_format_tar",
						"archive_read_support_format_zip",  "archive_read_support_format_raw",
						"archive_read_support_format_empty" };
	*api = (struct archive_api){ .library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL) };
	if (!api->library)
		return uh_error_new("archives and compressed files: libarchive is not on this machine");
	const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{ "archive_read_new", &api->read_new },
		{ "archive_read_free", &api->read_free },
		{ "archive_read_open", &api->read_open },
		{ "archive_read_open_fd", &api->read_open_fd },
		{ "archive_read_next_header", &api->read_next_header },
		{ "archive_read_data_block", &api->read_data_block },
		{ "archive_format", &api->format },
		{ "archive_error_string", &api->error_string },
		{ "archive_set_error", &api->set_error },
		{ "archive_entry_filetype", &api->entry_filetype },
		{ "archive_entry_pathname", &api->entry_pathname },
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(api->library, symbols[i].name);
		if (!symbol)
			return uh_error_new("archives: libarchive lacks %s", symbols[i].name);
		memcpy(symbols[i].at, &symbol, sizeof(symbol));
	}
	// A filter that it lacks is one kind of file less.
	for (size_t i = 0; i < sizeof(supports) / sizeof(supports[0]); i++) {
		void *symbol = dlsym(api->library, supports[i]);
		memcpy(&api->supports[i], &symbol, sizeof(symbol));
	}
	return NULL;
}

struct member {
	const struct archive_api *api;
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
		int status = m->api->read_data_block(m->archive, &bytes, &m->block.n, &offset);
		m->block.p = bytes;
		m->ended = status == ARCHIVE_EOF || status < ARCHIVE_WARN;
		if (m->ended)
			m->block.n = 0;
		if (status < ARCHIVE_WARN) {
			const char *why = m->api->error_string(m->archive);
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
		m->api->set_error(a, EIO, "%s", err->message);
		uh_error_free(err);
		return ARCHIVE_FATAL;
	}
	struct str block = m->block;
	m->block.n = 0;
	*ret_bytes = block.p;
	return (la_ssize_t)block.n;
}

static struct archive *new_archive(const struct archive_api *api)
{
	struct archive *a = api->read_new();
	for (size_t i = 0; i < sizeof(api->supports) / sizeof(api->supports[0]); i++)
		if (api->supports[i])
			api->supports[i](a);
	return a;
}

static void archive_walk(const struct archive_api *api, const char *name, struct archive *a, int depth,
			 const struct source_visitor *v);

/** A member is read as it is, or, where it is an archive or compressed itself (kern.log.2.gz in a tar), opened in turn. */
static void visit_member(struct member *m, int depth, const struct source_visitor *v)
{
	struct uh_error *err = next_block(m);
	if (err) {
		v->problem(v->ctx, err);
		return;
	}
	if (depth < NESTED_MAX && source_is_archive(m->block)) {
		struct archive *nested = new_archive(m->api);
		if (m->api->read_open(nested, m, NULL, feed_nested, NULL) == ARCHIVE_OK)
			archive_walk(m->api, m->name, nested, depth + 1, v);
		else
			v->problem(v->ctx, uh_error_new("%s: cannot be unpacked", m->name));
		m->api->read_free(nested);
		return;
	}
	struct source s = { .name = m->name, .fd = -1, .read = read_entry, .ctx = m };
	v->visit(v->ctx, &s);
}

static void archive_walk(const struct archive_api *api, const char *name, struct archive *a, int depth,
			 const struct source_visitor *v)
{
	struct archive_entry *entry;
	int found = 0, status;
	while ((status = api->read_next_header(a, &entry)) == ARCHIVE_OK || status == ARCHIVE_WARN) {
		if (found == ENTRIES_MAX) {
			v->problem(v->ctx, uh_error_new("%s: more than %d members; the rest was not read", name, ENTRIES_MAX));
			break;
		}
		bool raw = api->format(a) == ARCHIVE_FORMAT_RAW;
		if (!raw && api->entry_filetype(entry) != AE_IFREG)
			continue;
		found++;
		struct text member = { 0 };
		text_printf(&member, "%s", name);
		if (!raw)
			text_printf(&member, "(%s)", api->entry_pathname(entry) ? api->entry_pathname(entry) : "?");
		struct member m = { .api = api, .archive = a, .name = member.p };
		visit_member(&m, depth, v);
		text_free(&member);
		if (m.damaged) // said already; what follows in the archive is lost with it
			return;
	}
	if (status < ARCHIVE_WARN)
		v->problem(v->ctx, uh_error_new("%s: %s", name, api->error_string(a) ? api->error_string(a) : "damaged"));
	else if (!found)
		v->problem(v->ctx, uh_error_new("%s: there is nothing in it", name));
}

void source_archive(const char *name, int fd, const struct source_visitor *v)
{
	struct archive_api api;
	struct uh_error *err = archive_load(&api);
	if (err) {
		v->problem(v->ctx, err);
	} else {
		struct archive *a = new_archive(&api);
		if (api.read_open_fd(a, fd, BLOCK) == ARCHIVE_OK)
			archive_walk(&api, name, a, 0, v);
		else
			v->problem(v->ctx, uh_error_new("%s: cannot be read%s", name,
							strcmp(name, "-") ? "" : "; standard input is closed"));
		api.read_free(a);
	}
	if (api.library)
		dlclose(api.library);
}
