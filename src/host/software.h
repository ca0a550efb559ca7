// What the readers of software share.
#pragma once

#include "host/host.h"

/** A directory whose names were read. */
struct host_listing {
	struct str path;
	struct host_item *rocm; // whose directory it is; NULL: the system's
	struct str names;
};

/** Finds the tools that knowledge names in these directories, and notes which of them each ROCm has or lacks. */
void host_find_tools(struct host *h, const struct host_listing *listings, size_t n);

enum { HOST_PACKAGES = 5 };

/** The files that tell the versions of linux-firmware and of a distribution's ROCm. host_note_packages() notes what they say. */
void host_ask_packages(struct probe ret[static HOST_PACKAGES]);
void host_note_packages(struct host *h, const struct probe asked[static HOST_PACKAGES]);
/** The version of the ROCm that Debian or Ubuntu packaged; empty. */
struct str host_rocm_package(const struct probe asked[static HOST_PACKAGES]);
