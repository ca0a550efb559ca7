// What the readers of JSON documents share.
#pragma once

#include <jansson.h>

#include "base/str.h"

/** The string that @object holds under @key; empty where it holds none. */
struct str document_text(const json_t *object, const char *key);
