// The engine's own: what is open, and how it is found.
#pragma once

#include "diagnose/engine.h"
#include "diagnose/machine.h"

enum { OPEN_MAX = 32 }; // incidents that are open at once

struct engine {
	const struct know *know;
	const struct know_event *message; // what a message is that has no event of its own
	struct incident_sink sink;
	struct machine machine;
	size_t nopen;
	struct incident *open[OPEN_MAX];
	struct stamp last;
	struct str boot_id;
	char boot_id_room[64];
	uint64_t opened, taken;  // incidents; events that they took
	struct incident *newest; // that took the newest event
	struct stamp error_time; // of the driver's newest error
	struct place error_at;
	struct place frame_at; // of the newest frame of the driver
	uint64_t boots;
	bool marked; // nothing came yet after the marker of a boot
};

/** Concludes the nth and hands it on. */
void open_close(struct engine *g, size_t index);
void open_close_all(struct engine *g);
/** Those without news for as long as they may be. */
void open_close_old(struct engine *g, struct stamp now);
/** Where too many are open the oldest is closed, but not @keep, which may be NULL. */
struct incident *open_new(struct engine *g, const struct event *e, const struct incident *keep);
/** Whether the process of @e is that of @i: by its number, or else by that of its address space. */
bool open_is_process_of(const struct incident *i, const struct event *e);
/** Whether it is on this GPU: it is about it, or that one told of the same hardware error. */
bool open_is_on(const struct incident *i, struct str device);
/** Of those that are open on its GPU, the one of its process (@by_process); else the newest, as for lines that add to a fault. */
struct incident *open_find_on_gpu(const struct engine *g, const struct event *e, bool by_process);
/** The one that @e may belong to; NULL: none. */
struct incident *open_find(struct engine *g, const struct event *e);
/** If @e is of a hang or a reset, which concern all that is open on the GPU of @i: joins them to the first of them, which is returned. */
struct incident *open_join(struct engine *g, struct incident *i, const struct event *e);
/** The same whatever it tells. */
struct incident *open_merge(struct engine *g, struct incident *i);
/** A port tells of the error of a device behind it, which @e then is of. false: no GPU is known there. */
bool open_find_behind(const struct engine *g, struct event *e);
/** It takes the newest event. */
void open_touch(struct engine *g, struct incident *i);
