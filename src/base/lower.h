// A child that parses what strangers wrote, or compresses it, needs neither rights nor a network. It puts them down before it begins.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/** Leaves root behind: the process becomes nobody, with @group as its only group, without a network, and without system calls that such
 * work never needs. Where the kernel or a container does not allow a part of it, the rest is done. Files that are open, and the working
 * directory, stay. false: it was root, and still is. */
bool lower_privileges(gid_t group);
