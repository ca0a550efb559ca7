// --watch: a look again and again, with what changed marked.
#pragma once

#include <stdio.h>

struct uh_error;

enum { WATCH_MOST = 3600 }; // seconds

/** Looks every @seconds until somebody ends it, or a look fails. On a terminal, what changed since the look before is marked; elsewhere only
 * the lines that changed are written, behind the time. */
struct uh_error *look_again(unsigned seconds, struct uh_error *(*look)(void *ctx, FILE *out), void *ctx);
