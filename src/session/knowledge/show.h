// What installing and exporting signed knowledge share.
#pragma once

struct container;
struct uh_error;

/** NULL where each block loads with what is built in; else the first problem. */
struct uh_error *update_blocks_right(const struct container *c);
