// Which GPU a text names: the output of lspci, inxi, glxinfo, vulkaninfo, neofetch, and the words of a bug report.
#pragma once

#include "evidence/artefact.h"
#include "evidence/log/words/words.h"

struct part_finder; // of one source

struct part_finder *part_finder_new(const struct know *k, const struct log_words *w, unsigned source);
/** Looks at a piece of text whose first line has the number @line, as long as it is of the source's front. Each part is told once. */
void part_find(struct part_finder *f, struct str text, uint64_t line, const struct event_sink *sink);
void part_finder_free(struct part_finder *f);
