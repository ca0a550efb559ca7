// A child that parses what strangers wrote, or compresses it, needs neither rights nor a network. It puts them down before it begins.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	LOWER_NO_ONE =
		65533, // between the users that systemd gives out and nobody: whoever is nobody, as hooks are, can neither stop nor kill it
	LOWER_NOGROUP = 65534, // a group that owns nothing
};

// Capabilities, by what they are needed for.
#define LOWER_READS_FILES (UINT64_C(1) << 2) // CAP_DAC_READ_SEARCH
#define LOWER_READS_LOG (UINT64_C(1) << 34)  // CAP_SYSLOG: /dev/kmsg
#define LOWER_READS_PROCESSES                                                                                                  \
	(UINT64_C(1) << 19 | UINT64_C(1) << 21 | UINT64_C(1) << 38) // CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON

/** Leaves root behind: the process becomes a user that no one else is, with @group as its only group, without a network, and without system calls that such
 * work never needs. Where the kernel or a container does not allow a part of it, the rest is done. Files that are open, and the working
 * directory, stay. false: it was root, and still is. */
bool lower_privileges(gid_t group);
/** The same, but it keeps these capabilities, as far as it has them: for a library that opens what it takes apart. */
bool lower_keeping(gid_t group, uint64_t keep);
/** Puts the capabilities that it kept aside, or takes them up again. Of this thread. */
void lower_use_kept(bool use);
/** Becomes the user who owns a file, to write into it with no more rights than that user has. That user cannot look into the process. */
bool lower_to_owner(uid_t user, gid_t group);
/** For one that reads files for others and takes none of them apart: it stays root, but without a network, without other programs, and
 * with no capability beside those above. */
void lower_to_reading(void);
