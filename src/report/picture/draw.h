// A picture in letters, for a terminal.
#pragma once

#include "report/picture/picture.h"

/** Writes it into lines of at most @width columns. @ascii: in ASCII, else with block characters. */
void picture_draw(const struct picture *p, bool ascii, size_t width, struct text *to);
