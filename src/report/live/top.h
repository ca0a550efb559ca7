// One screen for all GPUs, which is written anew every few seconds: what they do, what holds them back, and whose queues move.
#pragma once

#include "gpu/find/device.h"
#include "report/watch/incidents.h"
#include "unhang/unhang.h"

struct top_gpu {
	const struct device *device;
	struct str state;         // active, asleep, or why nothing is known of it
	int64_t memory_clock;     // MHz; -1: not known
	int64_t temperature_most; // millidegrees at which the driver acts; -1: not known
	bool throttle_known;
	struct str throttle; // what slows it down; empty
};

struct top_queue {
	struct str gpu, process;
	int64_t pid;
	uint32_t id;
	bool client;      // of a client of the driver, not of KFD
	const char *unit; // what waits: packets, words, bytes
	uint64_t waiting;
	bool compared; // it was seen before
	uint64_t done; // since then; of others than packets only whether it is 0
};

struct top_seen {
	int64_t now; // seconds since 1970
	struct str kernel;
	bool root;
	int64_t watched_ms; // since the queues were last looked at; 0: there was one look
	const struct top_gpu *gpus;
	size_t ngpus;
	const struct top_queue *queues;
	size_t nqueues;
	const struct stored *incident; // the newest that was stored; NULL: none, or it cannot be read
};

void report_top(const struct top_seen *t, const struct uh_top_style *style, FILE *out);
