// A wave, as everything that tells of waves fills it.
#pragma once

#include "base/str.h"

enum { WAVE_LANES = 64 };

/** How far the addresses of an access are to be believed. */
enum access_trust {
	ACCESS_KNOWN,
	ACCESS_MAYBE, // its registers were reused since: a fault at an address that is still in them proves it, nothing else does
	ACCESS_LDS,   // offsets into LDS, where no page can be missing
};

/** An access that a wave made when it stopped, or may have made. */
struct wave_access {
	struct str instruction;
	uint64_t pc;
	enum access_trust trust;
	uint64_t addresses[WAVE_LANES]; // UINT64_MAX: the lane has none, or it is not known
};
