// What the readers of JSON documents share.
#pragma once

#include <jansson.h>

#include "base/arena.h"

static inline void cleanup_json(json_t **j) { json_decref(*j); }
#define _cleanup_json_ _cleanup_(cleanup_json)

/** The string that @object holds under @key; empty where it holds none. */
struct str document_text(const json_t *object, const char *key);
/** The time that it holds there, as our own documents write it (2026-08-27T03:28:27Z), in seconds since 1970; 0: it holds none. */
int64_t document_time(const json_t *object, const char *key);
/** Such a time as a text. */
int64_t document_date(struct str text);

// --- Python pickles of plain data, which is how torch writes its Flight Recorder's traces ---

bool pickle_begins(struct str head);
/** The data as JSON, which the caller frees. NULL: it is no pickle, it is cut short, or it has more than plain data. Nothing in it is
 * executed. */
json_t *pickle_load(struct str bytes);
