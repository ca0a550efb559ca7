// The driver's rings, of each GPU or of a device core.
#pragma once

#include "gpu/ring_view.h"
#include "report/live/look.h"

struct rings_seen {
	struct str target, gfx, title;
	struct str why_not;  // its rings could not be read; empty
	unsigned watched_ms; // between two looks; 0: there was one
	const struct ring_view *views;
	size_t n;
};

/** @named: rings were asked for by name. */
void report_rings(const struct rings_seen *seen, size_t n, bool named, const struct uh_look_options *o, FILE *out);
