// libarchive, loaded when first needed: it brings ten others with it, a fifth of the time that a short log takes.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>

#include "base/door/library.h"

// clang-format off
#define ARCHIVE_CALLS(call) \
	call(archive_read_new) call(archive_read_free) call(archive_read_open) call(archive_read_open_fd) \
	call(archive_read_next_header) call(archive_read_data_block) call(archive_error_string) call(archive_errno) \
	call(archive_set_error) call(archive_entry_filetype) call(archive_entry_pathname) call(archive_entry_hardlink) \
	call(archive_entry_symlink) call(archive_entry_size) call(archive_read_support_filter_bzip2) \
	call(archive_read_support_filter_lz4) call(archive_read_support_filter_xz) call(archive_read_support_filter_zstd) \
	call(archive_read_support_format_raw) call(archive_read_support_format_tar) call(archive_read_support_format_zip)
// clang-format on

struct archive_api {
	LIBRARY_API(ARCHIVE_CALLS)
};

/** Loads it where it is not yet. What is wrong with it, as a phrase; NULL: nothing. */
const char *archive_load(struct archive_api *api);
/** For what holds files, or for what is only compressed. */
struct archive *archive_new(const struct archive_api *api, bool container);
/** For a tar that zstd packed. */
struct archive *archive_new_bundle(const struct archive_api *api);
