// Lines of source files, where the files are on this machine.
#pragma once

#include "base/arena.h"

struct source_texts;

/** @directories: in which files are looked for by the end of their path, besides the path itself. */
struct source_texts *source_texts_new(const char *const *directories, size_t n);
void source_texts_free(struct source_texts *t);
/** The line without white space around it; empty where the file or the line is not there. */
struct str source_line(struct source_texts *t, struct str path, unsigned line);
