// A GPU's registers by their places: what a packet, a message or an address means.
#pragma once

#include "gpu/find/device.h"
#include "gpu/register/registers.h"
#include "knowledge/know.h"

struct placed_register {
	uint32_t place;   // in the register space, in words
	struct str block; // gc, sdma0
	struct reg reg;
};

/** Whose registers: those of @device, or, without one, those of the graphics core of @gfx. They are looked up when the first is asked for. */
struct register_places {
	const struct know *know;
	const struct device *device;
	struct str gfx;
	bool made;
	VEC(struct placed_register) list;
};

/** The registers at a place: some have several names. The one that tells most stands first. NULL: there is none. */
const struct placed_register *registers_placed(struct register_places *p, uint32_t place, size_t *ret_n);
/** The register of the graphics core that is called so; NULL: it has none. */
const struct placed_register *register_placed_as(struct register_places *p, struct str name);
/** Whether any register has a place there. */
bool places_known(struct register_places *p);
void register_places_free(struct register_places *p);
