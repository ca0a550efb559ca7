#include "source/archive/library.h"

#include <dlfcn.h>
#include <string.h>

const char *archive_load(struct archive_api *api)
{
	if (api->library)
		return NULL;
	api->library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
	if (!api->library)
		return "an archive or a compressed file, and libarchive is not on this machine";
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
		{ "archive_error_string", &api->error_string },
		{ "archive_errno", &api->error_number },
		{ "archive_set_error", &api->set_error },
		{ "archive_entry_filetype", &api->entry_filetype },
		{ "archive_entry_pathname", &api->entry_pathname },
		{ "archive_entry_size", &api->entry_size },
		{ "archive_entry_hardlink", &api->entry_hardlink },
		{ "archive_entry_symlink", &api->entry_symlink },
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(api->library, symbols[i].name);
		if (!symbol)
			return "an archive, and this libarchive is too old";
		memcpy(symbols[i].at, &symbol, sizeof(symbol));
	}
	return NULL;
}

/** What the library lacks is one kind of file less. */
static struct archive *new_with(const struct archive_api *api, const char *const *names)
{
	struct archive *a = api->read_new();
	for (; *names; names++) {
		int (*support)(struct archive *);
		void *symbol = dlsym(api->library, *names);
		memcpy(&support, &symbol, sizeof(symbol));
		if (symbol)
			support(a);
	}
	return a;
}

struct archive *archive_new_bundle(const struct archive_api *api)
{
	static const char *const names[] = { "archive_read_support_filter_zstd", "archive_read_support_format_tar", NULL };
	return new_with(api, names);
}

struct archive *archive_new(const struct archive_api *api, bool container)
{
	static const char *const containers[] = { "archive_read_support_format_tar", "archive_read_support_format_zip", NULL };
	static const char *const filters[] = { "archive_read_support_filter_xz",    "archive_read_support_filter_zstd",
					       "archive_read_support_filter_bzip2", "archive_read_support_filter_lz4",
					       "archive_read_support_format_raw",   NULL };
	return new_with(api, container ? containers : filters);
}
