// The rows of the table (rights.h).
#include "base/child/rights.h"

#include "base/lower.h"

enum { GIGABYTE = 1024 };

// The rule behind it: what takes strangers' bytes apart has no rights, what has rights takes nothing apart, and what may block has a
// deadline of whoever waits for it.
const struct child_rights child_rights[CHILDREN] = {
	[CHILD_DOOR] = { "door", "opens and reads files that users and evidence name", CHILD_AS_CALLER },
	[CHILD_DOOR_CODE] = { "door for code",
			      "the same for one without rights; with its own only programs, libraries, GPU code",
			      CHILD_AS_NO_ONE, LOWER_READS_FILES, true },
	[CHILD_ARCHIVE] = { "archive", "unpacks archives (libarchive)", CHILD_AS_CALLER, .memory = GIGABYTE,
			    .milliseconds = 600000 },
	[CHILD_JOURNAL] = { "journal", "reads journals (libsystemd)", CHILD_AS_CALLER },
	[CHILD_BUNDLE] = { "bundle", "unpacks bundles (libzstd)", CHILD_AS_CALLER, .memory = GIGABYTE, .milliseconds = 120000 },
	[CHILD_DEMANGLE] = { "demangler", "makes names of C++ readable", CHILD_AS_CALLER, .memory = GIGABYTE,
			     .milliseconds = 2000 },
	[CHILD_DISASSEMBLE] = { "disassembler", "disassembles GPU code (LLVM, comgr)", CHILD_AS_CALLER, .memory = GIGABYTE },
	[CHILD_LINES] = { "debug information", "reads debug information (libdw)", CHILD_AS_CALLER, .memory = GIGABYTE,
			  .milliseconds = 20000 },
	[CHILD_READER] = { "reader", "reads files of the driver and the kernel that are on the list", CHILD_AS_CALLER,
			   .memory = GIGABYTE },
	[CHILD_PRIVILEGED_READER] = { "privileged reader", "reads what is on the list for one without rights",
				      CHILD_AS_READING },
	[CHILD_KERNEL_LOG] = { "kernel log", "reads /dev/kmsg", CHILD_AS_CALLER, .memory = GIGABYTE, .milliseconds = 1500 },
	[CHILD_SPACE] = { "free space", "asks how much room a file system has", CHILD_AS_CALLER, .memory = GIGABYTE,
			  .milliseconds = 300 },
	[CHILD_SMOKE] = { "smoke test", "computes on the GPU, when that was asked for", CHILD_AS_CALLER, .cores = true },
	[CHILD_CAPTURE_COPY] = { "copy", "copies dumps, cores and recordings into a bundle", CHILD_AS_READING, .later = true },
	[CHILD_CAPTURE_LOG] = { "log copy", "copies logs into a bundle", CHILD_AS_NO_ONE, LOWER_READS_FILES | LOWER_READS_LOG,
				true },
	[CHILD_CAPTURE_LOOK] = { "look", "looks at the machine for a bundle, by a privileged reader", CHILD_AS_NO_ONE,
				 .later = true },
	[CHILD_CAPTURE_WRITE] = { "write", "writes a file of a bundle", CHILD_AS_CALLER },
	[CHILD_REDACT] = { "redaction", "removes private words from what was captured", CHILD_AS_NO_ONE, .later = true },
	[CHILD_PACK] = { "packer", "packs a bundle", CHILD_AS_NO_ONE, .later = true },
	[CHILD_WATCH_JUDGE] = { "judge", "decides what the watch has seen, by a privileged reader", CHILD_AS_NO_ONE,
				.later = true },
	[CHILD_WATCH_LOG] = { "kernel log reader", "follows the kernel log for the watch", CHILD_AS_NO_ONE, .later = true },
	[CHILD_WATCH_KFD] = { "KFD events", "follows events of /dev/kfd for the watch", CHILD_AS_NO_ONE, .later = true },
	[CHILD_WATCH_PROGRESS] = { "progress", "follows recordings for the watch, by a privileged reader", CHILD_AS_NO_ONE,
				   .later = true },
	[CHILD_WATCH_JOURNAL] = { "journal gap", "reads what the journal has of the time without a watch", CHILD_AS_NO_ONE,
				  LOWER_READS_FILES },
	[CHILD_WATCH_ANSWER] = { "answer", "answers a hold in a user's recording", CHILD_AS_OWNER, .later = true },
	[CHILD_WATCH_CAPTURE] = { "capture", "captures for the watch; its own children have less", CHILD_AS_CALLER },
	[CHILD_EXPLAIN] = { "explain", "explains a bundle, or a GPU core that was piped", CHILD_AS_NO_ONE, .later = true },
	[CHILD_REPORT] = { "report", "writes the report of a bundle", CHILD_AS_NO_ONE, .later = true },
	[CHILD_CORE] = { "core", "takes a GPU core apart that a runtime pipes to unhang", CHILD_AS_NO_ONE },
	[CHILD_CORE_KEEP] = { "core keeper", "stores a GPU core; its own children have less", CHILD_AS_CALLER },
	[CHILD_RUN_STUDY] = { "study", "explains a failed job", CHILD_AS_NO_ONE, LOWER_READS_FILES | LOWER_READS_LOG, true },
	[CHILD_RUN_HELPER] = { "helper", "looks at a job that is silent", CHILD_AS_CALLER },
	[CHILD_RUN_PROCESSES] = { "processes", "lists processes that a run left, or that hold a GPU", CHILD_AS_CALLER,
				  .memory = GIGABYTE },
	[CHILD_RUN_CONTAINER] = { "container", "asks a container runtime for a name", CHILD_AS_CALLER, .memory = GIGABYTE },
};
