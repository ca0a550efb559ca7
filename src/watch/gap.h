// What the kernel wrote and overwrote while nobody read: the journal may have it. Of the boot in which reading ended, and of those since.
#pragma once

#include "source/source.h"
#include "store/store.h"
#include "watch/eye.h"

/** A record of the journal, as the eye hands it on: the boot and the time of the day, and behind them what /dev/kmsg had of it. */
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
};

/** Begins to read what lies between the place up to which all was read and the first record that /dev/kmsg has. It needs the rights to
 * read the journal. false: nothing is missing, or nobody reads. */
bool gap_begin(const struct store_place *from, struct str first, struct gap *ret);
/** Hands on what the journal has, and tells where that is not all. It waits for some seconds at most. */
void gap_send(struct gap *g, int to);
