// The libraries that unhang loads where it has a machine are part of the module. They are found by the same names.
#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <string.h>

char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);

struct held_symbol {
	const char *library, *name;
	void *symbol;
};

#define ARCHIVE(name)                                                                                                          \
	{                                                                                                                      \
		"libarchive.so.13", #name, (void *)name                                                                        \
	}
static const struct held_symbol symbols[] = {
	{ "libstdc++.so.6", "__cxa_demangle", (void *)__cxa_demangle },
	ARCHIVE(archive_read_new),
	ARCHIVE(archive_read_free),
	ARCHIVE(archive_read_open),
	ARCHIVE(archive_read_open_fd),
	ARCHIVE(archive_read_next_header),
	ARCHIVE(archive_read_data_block),
	ARCHIVE(archive_error_string),
	ARCHIVE(archive_errno),
	ARCHIVE(archive_set_error),
	ARCHIVE(archive_entry_filetype),
	ARCHIVE(archive_entry_pathname),
	ARCHIVE(archive_entry_hardlink),
	ARCHIVE(archive_entry_symlink),
	ARCHIVE(archive_read_support_filter_bzip2),
	ARCHIVE(archive_read_support_filter_lz4),
	ARCHIVE(archive_read_support_filter_xz),
	ARCHIVE(archive_read_support_filter_zstd),
	ARCHIVE(archive_read_support_format_raw),
	ARCHIVE(archive_read_support_format_tar),
	ARCHIVE(archive_read_support_format_zip),
};

void *dlopen(const char *name, int flags)
{
	(void)flags;
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!strcmp(symbols[i].library, name))
			return (void *)symbols[i].library;
	return NULL;
}

void *dlsym(void *library, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!strcmp(symbols[i].library, library) && !strcmp(symbols[i].name, name))
			return symbols[i].symbol;
	return NULL;
}
