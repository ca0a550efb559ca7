// Where bytes come from: files, directories, archives, stdin, the journal, /dev/kmsg.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/door/named.h"
#include "base/str.h"

struct door_file;
struct bundle;

/** Bytes with a name. */
struct source {
	const char *name;
	struct door_file *door; // of a regular file, which can be read at any place, from several threads; or NULL
	uint64_t size;          // of that file, or of bytes in memory; 0: not known
	/** The next bytes; 0 at the end, -1 and *ret_err where reading failed. */
	ssize_t (*read)(struct source *s, void *buffer, size_t size, struct uh_error **ret_err);
	void *ctx;         // of read()
	const char *bytes; // all @size of them, where they are in memory; or NULL
	struct tape *tape; // of the machine that it was saved on; or NULL
};

/** Who wrote a record, as the kernel or journald notes beside it. No user can forge that, as he can the text. */
enum source_writer {
	WRITER_UNTOLD,   // nobody says it, as in a pasted text
	WRITER_KERNEL,   // the kernel
	WRITER_INTO_LOG, // a program, into the kernel's log
	WRITER_PROGRAM,  // a program
};

struct source_note {
	enum source_writer writer;
	struct str subsystem, device; // of what dev_*() prints: `pci` and `+pci:0000:03:00.0`; empty: none
};

/** A record of the journal, or of /dev/kmsg. */
struct source_record {
	struct str text, boot_id;
	double boot_seconds; // < 0: unknown
	double wall_seconds; // < 0: unknown
	struct source_note by;
};

/** Is called with what is found. */
struct source_visitor {
	void (*visit)(void *ctx, struct source *s);
	/** A source of records: a call with @record NULL begins it, one with @name NULL ends it. */
	void (*record)(void *ctx, const char *name, const struct source_record *record);
	/** What could not be read, and why. The callee frees the error. */
	void (*problem)(void *ctx, struct uh_error *err);
	void *ctx;
	/** A bundle (source/tape/bundle.h), by itself, in a directory or in an archive. The callee frees it. NULL: its members are visited. */
	void (*bundle)(void *ctx, const char *name, struct bundle *b);
};

/** A file, directory, archive, FIFO, journal file or /dev/kmsg; `-` is standard input. */
void source_path(const char *path, const struct source_visitor *v);

/** What the caller has in memory, under a name that he chose. */
void source_bytes(const char *name, struct str bytes, const struct source_visitor *v);

/** Hands a bundle to who wants bundles; to others its members, with their holes, which any other archive loses. It is freed. */
void source_bundle(const char *name, struct bundle *b, const struct source_visitor *v);

/** The kernel's messages in the journal of the boot @boot (0: this one, -1: the one before). @root NULL: this machine. EBADMSG: part of it is
 * damaged, and the rest was read. */
struct uh_error *source_journal(const char *root, int boot, const struct source_visitor *v);
/** The same of that boot and all before it, each as a source of its own, the newest first, for so long of a processor. @read: after each that was read to
 * its end; it gets the visitor's context. */
struct uh_error *source_journal_past(const char *root, int boot, int milliseconds, const struct source_visitor *v,
				     void (*read)(void *ctx, bool damaged));
/** The same of this machine from @us of the kernel's clock in the boot of this id on, of that boot and all later ones; where the journal does
 * not know it, from the beginning of @or_boot on. */
struct uh_error *source_journal_since(const char *boot, int64_t us, const char *or_boot, const struct source_visitor *v);
#define SOURCE_JOURNAL_MAGIC "LPKSHHRH" // with which a journal file begins
struct uh_error *source_journal_file(const struct named *n, const char *path, const struct source_visitor *v);
/** @ret: number of boots the journal knows, newest last; 0 where there is no journal, or with EBADMSG, where none of it can be read. */
struct uh_error *source_journal_boots(const char *root, int *ret);
/** A boot that the journal has. */
struct source_boot {
	struct str id;
	double begin, end; // its first and last entry of any kind, in seconds since 1970
	bool log;          // it has kernel lines
	bool clean;        // its last entries tell of a shutdown
};
/** Entries of programs, oldest first: those of root and of the user who asks. */
struct source_entries {
	const char *message;   // MESSAGE_ID=...
	const char *fields[4]; // of each, whose values are told; fewer: NULL
	void (*take)(void *ctx, double when, const struct str values[static 4]);
};
/** What is asked of all boots at once. Each is looked up by the journal's own indexes, and only its first kernel lines are read. */
struct source_boots {
	const char *const *marks; // a kernel line that has one of these is told; NULL behind the last
	int milliseconds;         // of a processor, after which older boots are left out
	/** Newest first, each followed by its lines. */
	void (*boot)(void *ctx, const struct source_boot *b);
	void (*line)(void *ctx, struct str text);
	const struct source_entries *entries; // NULL; behind the last one without a message
	void *ctx;
};
/** @ret_cut: there are more boots than were told. */
struct uh_error *source_journal_told(const char *root, const struct source_boots *w, bool *ret_cut);
/** What a record of /dev/kmsg says: `priority,sequence,microseconds,flags;text`, and lines of notes. A time that is none is -1. */
struct source_record source_kmsg_record(struct str record);
/** The number of such a record in its boot; 0: it has none. */
uint64_t source_kmsg_sequence(struct str record);
struct uh_error *source_kmsg(const char *path, const struct source_visitor *v);
/** The same of one that is open already, without blocking; read here, by a process that may hang. */
void source_kmsg_here(int fd, const char *path, const struct source_visitor *v);

/** What a crash leaves of the system under @root: pstore, kdump's dmesg. NULL: this machine. */
void source_crash_files(const char *root, const struct source_visitor *v);

/** Whether this is a container, so that the kernel's log and the driver's files are the host's. UNHANG_CONTAINER=yes or no
 * says it instead. */
bool source_in_container(void);
enum { SOURCE_HOST_MAX = 65, SOURCE_BOOT_MAX = 64 };
/** This machine's name, into @room; empty: unknown. A container has a name of its own: UNHANG_HOST is that of its node. */
const char *source_host(char room[SOURCE_HOST_MAX]);
/** Seconds since the kernel started, as /proc/uptime has them; -1 where it cannot be read. */
double source_uptime(void);
/** Whether this machine has been running since the boot of this id. */
bool source_this_boot(struct str boot_id);
/** The id of this boot; empty: unknown. */
struct str source_boot_id(char room[static SOURCE_BOOT_MAX]);

/** Whether a file that begins so is an archive or compressed. */
bool source_is_archive(struct str head);
/** An archive or a compressed file, or whatever else it is, as a stream. @n NULL: what is open at @fd. */
void source_archive(const struct named *n, int fd, const char *name, const struct source_visitor *v);
void source_archive_bytes(struct str bytes, const char *name, const struct source_visitor *v);
