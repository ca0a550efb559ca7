// The `packet` blocks: what their lines mean.
#pragma once

#include "knowledge/know.h"

/** False and a problem where the block is not right. */
bool packet_parse(struct arena *a, const struct know_block *b, struct know_problems *problems, struct know_packet *p);
