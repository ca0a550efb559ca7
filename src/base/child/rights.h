// What each child of unhang is and may do: one table, which is obeyed when a child begins (base/child.h) and which docs/SECURITY.md prints
// (tools/child-rights writes it there, tests/house.py compares).
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum child_name {
	// readers of what users and evidence name
	CHILD_DOOR,
	CHILD_DOOR_CODE,
	CHILD_ARCHIVE,
	CHILD_JOURNAL,
	CHILD_BUNDLE,
	CHILD_DEMANGLE,
	CHILD_DISASSEMBLE,
	CHILD_LINES,
	// readers of this machine
	CHILD_READER,
	CHILD_PRIVILEGED_READER,
	CHILD_KERNEL_LOG,
	CHILD_CHANGES,
	CHILD_SPACE,
	CHILD_SMOKE,
	// a capture
	CHILD_CAPTURE_COPY,
	CHILD_CAPTURE_LOG,
	CHILD_CAPTURE_LOOK,
	CHILD_CAPTURE_WRITE,
	CHILD_REDACT,
	CHILD_PACK,
	// the watch
	CHILD_WATCH_JUDGE,
	CHILD_WATCH_LOG,
	CHILD_WATCH_KFD,
	CHILD_WATCH_PROGRESS,
	CHILD_WATCH_JOURNAL,
	CHILD_WATCH_ANSWER,
	CHILD_WATCH_CAPTURE,
	CHILD_EXPLAIN,
	CHILD_REPORT,
	// a GPU core through a pipe
	CHILD_CORE,
	CHILD_CORE_KEEP,
	// a run
	CHILD_RUN_STUDY,
	CHILD_RUN_HELPER,
	CHILD_RUN_PROCESSES,
	CHILD_RUN_CONTAINER,
	CHILD_TRIAGE,
	CHILD_TRIAGE_WORKER,
	CHILD_SERVE_REPORT,
	CHILD_CHECK_LOOK,
	CHILD_CHECK_READ,
	CHILD_FLEET_COMMAND,
	CHILD_PUT,
	CHILDREN,
};

/** As whom it runs. Who is not root stays who he is. Each but the first is without a network and behind the filter of base/lower.h. */
enum child_user {
	CHILD_AS_CALLER,  // with all rights of the process that begins it
	CHILD_AS_NO_ONE,  // base/lower.h: lower_privileges()
	CHILD_AS_READING, // lower_to_reading(): it stays root, but can only read
	CHILD_AS_OWNER,   // lower_to_owner(): the user whose file it writes into
};

struct child_rights {
	const char *name, *what; // what it does, for docs/SECURITY.md
	enum child_user user;
	uint64_t keeps;   // capabilities, of nobody; those of CHILD_AS_READING are lower.h's
	bool later;       // it puts its rights down itself, by child_put_down(), once it has opened what it needs
	unsigned memory;  // MB of address space; 0: without a limit, for libraries that reserve more than they use
	int milliseconds; // that it may take; 0: the caller's deadline, or until it is ended
	bool cores;       // it may raise its limit of cores again: ROCm's runtime hands out none where that is 0
};

extern const struct child_rights child_rights[CHILDREN];
