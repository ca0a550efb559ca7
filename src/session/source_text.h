// Lines of source files that are on this machine. Debug information may name any file. Only those are read that lie below a directory
// that the user named, or beside the code, and that the user who called may read.
#pragma once

#include "base/arena.h"

struct source_texts;

/** @directories: in which files are looked for by the end of their path. */
struct source_texts *source_texts_new(const char *const *directories, size_t n);
/** @problems gets a line about the first file that exists and was not read. */
void source_texts_free(struct source_texts *t, struct text *problems);
/** The line without white space around it; empty where the file or the line is not there. @object: the file of the code. */
struct str source_line(struct source_texts *t, struct str object, struct str path, unsigned line);
