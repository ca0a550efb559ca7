// The `packet` blocks: what their lines mean.
#pragma once

#include "knowledge/know.h"

/** NULL and a problem where the block is not right. */
struct know_packet *packet_parse(struct arena *a, const struct know_block *b, struct know_problems *problems);
