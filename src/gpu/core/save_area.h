// The area where a queue's waves are saved when it is taken off the GPU (CWSR).
#pragma once

#include "gpu/layout.h"

/** What a save area is read with. */
struct save_area {
	const struct queue *queue;
	const struct wave_layout *layout;
	int runtime_version; // of r_debug; 0: not known
	bool ttmps_set_up;   // so that workgroup and packet are known
	bool (*read)(void *ctx, uint64_t address, void *to, size_t size);
	void (*wave)(void *ctx, const struct wave *w);
	/** What is odd, while the rest is still read. */
	void (*odd)(void *ctx, const char *message);
	void *ctx;
};

/** Reads the saved waves of one XCC, in their order. An error names structure and address; the waves before it were handed over. */
struct uh_error *save_area_read(const struct save_area *s, unsigned xcc);
/** Whether the header there is consistent. Cores with shifted segments are recognised by this. */
bool save_area_plausible(const struct save_area *s, unsigned xcc);
