#include "capture/archive_writer.h"

#include <dlfcn.h>
#include <string.h>

const char *archive_writer_load(struct archive_writer *w)
{
	w->library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
	if (!w->library)
		return "libarchive is not on this machine, which packs bundles";
	const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{ "archive_write_new", &w->write_new },
		{ "archive_write_free", &w->write_free },
		{ "archive_write_close", &w->write_close },
		{ "archive_write_set_format_pax_restricted", &w->set_format },
		{ "archive_write_add_filter_zstd", &w->add_zstd },
		{ "archive_write_open_fd", &w->open_fd },
		{ "archive_write_header", &w->header },
		{ "archive_write_data", &w->data },
		{ "archive_error_string", &w->error_string },
		{ "archive_errno", &w->error_number },
		{ "archive_entry_new", &w->entry_new },
		{ "archive_entry_free", &w->entry_free },
		{ "archive_entry_set_pathname", &w->set_pathname },
		{ "archive_entry_set_size", &w->set_size },
		{ "archive_entry_set_filetype", &w->set_filetype },
		{ "archive_entry_set_perm", &w->set_perm },
		{ "archive_entry_set_mtime", &w->set_mtime },
		{ "archive_entry_sparse_add_entry", &w->add_data },
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(w->library, symbols[i].name);
		if (!symbol)
			return "this libarchive is too old to pack bundles";
		memcpy(symbols[i].at, &symbol, sizeof(symbol));
	}
	return NULL;
}
