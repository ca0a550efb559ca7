// What the page does for the module: it has the files, and can run a second instance of the module as a child. web/page/module.js has the
// other side.
#pragma once

#include <stddef.h>

#define FROM_PAGE(name) __attribute__((import_module("page"), import_name(#name)))

enum page_kind { PAGE_NOTHING, PAGE_FILE, PAGE_DIRECTORY };

/** What is called so among the files that were given. A file or directory has a descriptor, which page_close() closes. */
FROM_PAGE(open) enum page_kind page_open(const char *path, size_t n, int *ret_fd, double *ret_size);
FROM_PAGE(close) void page_close(int fd);
/** Up to @size bytes at @offset; negative: the next ones. -1: the browser cannot read the file. */
FROM_PAGE(read) int page_read(int fd, double offset, void *to, size_t size);
/** The next name in a directory, cut to @size; 0: there is none. */
FROM_PAGE(name) size_t page_name(int fd, char *to, size_t size);

enum page_end { PAGE_GOOD, PAGE_CRASHED, PAGE_MEMORY };
/** Runs @work in a copy of this instance. What it writes to its descriptor is read with page_take(), from the descriptor *@ret_fd. */
FROM_PAGE(child) enum page_end page_child(void (*work)(int fd, const void *ctx), const void *ctx, int *ret_fd);
FROM_PAGE(write) void page_write(int fd, const void *bytes, size_t n);
/** The next bytes of what a child wrote; 0: the end. */
FROM_PAGE(take) size_t page_take(int fd, void *to, size_t size);
