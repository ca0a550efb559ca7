// Python pickles of plain data, which is how torch writes its Flight Recorder's traces.
#pragma once

#include <jansson.h>

#include "base/str.h"

bool pickle_begins(struct str head);
/** The data as JSON; NULL where it is no pickle, is cut short, or wants anything but plain data: nothing in it is executed. */
json_t *pickle_load(struct str bytes);
