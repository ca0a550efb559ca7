// libarchive, loaded when first needed: it brings ten others with it, a fifth of the time that a short log takes.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>

struct archive_api {
	void *library;
	typeof(archive_read_new) *read_new;
	typeof(archive_read_free) *read_free;
	typeof(archive_read_open) *read_open;
	typeof(archive_read_open_fd) *read_open_fd;
	typeof(archive_read_next_header) *read_next_header;
	typeof(archive_read_data_block) *read_data_block;
	typeof(archive_error_string) *error_string;
	typeof(archive_errno) *error_number;
	typeof(archive_set_error) *set_error;
	typeof(archive_entry_filetype) *entry_filetype;
	typeof(archive_entry_pathname) *entry_pathname;
	typeof(archive_entry_hardlink) *entry_hardlink;
	typeof(archive_entry_symlink) *entry_symlink;
	typeof(archive_entry_size) *entry_size;
};

/** Loads it where it is not yet. What is wrong with it, as a phrase; NULL: nothing. */
const char *archive_load(struct archive_api *api);
/** For what holds files, or for what is only compressed. */
struct archive *archive_new(const struct archive_api *api, bool container);
/** For a tar that zstd packed. */
struct archive *archive_new_bundle(const struct archive_api *api);
