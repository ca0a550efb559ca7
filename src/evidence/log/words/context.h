// Context: what the text around a failure says of the work (`context` blocks of knowledge/).
#pragma once

#include "evidence/artefact.h"
#include "evidence/log/words/words.h"

struct context_finder; // of one source

struct context_finder *context_finder_new(const struct know *k, const struct log_words *w, unsigned source);
/** Looks at a piece of text whose first line has the number @line. @eventful: something happened in it. How much of a source is looked
 * at is bounded, so that a large log costs no more. Each context is told once. */
void context_find(struct context_finder *f, struct str text, uint64_t line, bool eventful, const struct event_sink *sink);
void context_finder_free(struct context_finder *f);
