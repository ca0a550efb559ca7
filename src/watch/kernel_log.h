// The log reader: a child that follows the kernel's log and its uevents, and hands on what it sees. It is the only process of the watch that
// opens them, so that the one that thinks never waits for them, and needs no rights.
#pragma once

#include "base/child.h"
#include "base/str.h"
#include "evidence/reader.h"
#include "source/source.h"
#include "store/store.h"

enum notice_kind {
	NOTICE_RECORD, // of the kernel's log, as /dev/kmsg gives it
	NOTICE_KEPT,   // a record that the kernel overwrote while nobody read: the journal has it
	NOTICE_GAP,    // such records that the journal has not got either
	NOTICE_LOST,   // records were overwritten before they were read
	NOTICE_READY,  // all that was in the log at the start was sent
	NOTICE_UEVENT, // a message of the kernel: a device came, went or changed
	NOTICE_FAILED, // the log cannot be read; the text says why
	NOTICE_VOTES,  // from the pulse: votes on the progress of a GPU; its PCI address is the first line
	NOTICE_BEAT,   // from the pulse: it lives
	NOTICE_HOLD,   // from the pulse: how a hold stands (pulse/holds.h)
	NOTICE_KFD,    // an event of KFD (source/kfd/events.h)
	NOTICE_LIVES,  // nothing happened, and it looks
	NOTICE_SAMPLE, // from the pulse: load, power, temperature and memory of a GPU (diary.c)
	NOTICE_ERRORS, // from the pulse: hardware errors that the driver counted (pulse/errors.h)
	NOTICE_ASTRAY, // the place that was kept is none of this log's
	NOTICE_KINDS
};

struct notice {
	enum notice_kind kind;
	struct str text;
};

enum { LOG_LIVES_MS = 20000 };  // something comes from it at least that often
enum { NOTICE_MOST = 8 << 10 }; // of a text; records and uevents of the kernel are no longer

/** @from: up to where the log was read before. @kfd: KFD is asked, too. */
bool kernel_log_begin(const struct store_place *from, bool kfd, struct child *ret);
/** Sends a frame to who reads @to; ends the process where nobody does. */
void notice_send(int to, enum notice_kind kind, struct str text);
/** Takes the next frame off @bytes. false: it is not whole yet; *@ret_wrong: it is none. */
bool notice_take(struct str *bytes, struct notice *ret, bool *ret_wrong);

/** The kernel's messages about devices: ACTION@DEVPATH, then KEY=VALUE, each with a NUL behind it. false: it is none. */
bool uevent_parse(struct str bytes, struct uevent *ret);
/** Whether it tells that evidence appeared: a device core, or a GPU that the driver gave up. */
bool uevent_matters(const struct uevent *u);

// gap.c: what the kernel wrote and overwrote while nobody read. The journal may have it, of the boot in which reading ended and of those
// since.
/** A record of the journal, as the log reader hands it on: the boot and the time of the day, and behind them what /dev/kmsg had of it. */
struct kept_record {
	struct str boot_id;
	int64_t wall_us; // < 0: unknown
	struct source_record record;
};
/** @boot_id: as /proc has it, with dashes. */
void kept_text(struct str boot_id, const struct source_record *r, struct text *to);
/** false: it is none. */
bool kept_parse(struct str text, struct kept_record *ret);

struct gap {
	struct store_place from;
	char boot_id[64];    // of this boot
	int64_t end_us;      // up to where, in this boot: /dev/kmsg has what came later
	uint64_t missing;    // records of this boot
	struct child reader; // of the journal
	int64_t deadline;    // of it, by now_ms()
};

/** Begins to read what lies between the place up to which all was read and the first record that /dev/kmsg has. It needs the rights to
 * read the journal. false: nothing is missing, or nobody reads. */
bool gap_begin(const struct store_place *from, struct str first, struct gap *ret);
/** Hands on what the journal has, and tells where that is not all. It waits until the deadline at most. */
void gap_send(struct gap *g, int to);
