// Python pickles of plain data, which is how torch writes its Flight Recorder's traces.
#pragma once

#include <jansson.h>

#include "base/str.h"

bool pickle_begins(struct str head);
/** The data as JSON, which the caller frees. NULL: it is no pickle, it is cut short, or it has more than plain data. Nothing in it is
 * executed. */
json_t *pickle_load(struct str bytes);
