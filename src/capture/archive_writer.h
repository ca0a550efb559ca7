// What of libarchive writes a bundle, loaded when it is needed.
#pragma once

#include <archive.h>
#include <archive_entry.h>

struct archive_writer {
	void *library;
	typeof(archive_write_new) *write_new;
	typeof(archive_write_free) *write_free;
	typeof(archive_write_close) *write_close;
	typeof(archive_write_set_format_pax_restricted) *set_format;
	typeof(archive_write_add_filter_zstd) *add_zstd;
	typeof(archive_write_open_fd) *open_fd;
	typeof(archive_write_header) *header;
	typeof(archive_write_data) *data;
	typeof(archive_error_string) *error_string;
	typeof(archive_errno) *error_number;
	typeof(archive_entry_new) *entry_new;
	typeof(archive_entry_free) *entry_free;
	typeof(archive_entry_set_pathname) *set_pathname;
	typeof(archive_entry_set_size) *set_size;
	typeof(archive_entry_set_filetype) *set_filetype;
	typeof(archive_entry_set_perm) *set_perm;
	typeof(archive_entry_set_mtime) *set_mtime;
	typeof(archive_entry_sparse_add_entry) *add_data;
};

/** What is wrong with the library, as a phrase; NULL: nothing. */
const char *archive_writer_load(struct archive_writer *w);
