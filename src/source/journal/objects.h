// The format of journal files (systemd's JOURNAL_FILE_FORMAT) for their reader. The bytes are hostile and may be written to meanwhile: each
// object is checked where it is used, and chains go one way only. No hash is needed: the table of fields is short enough to be walked,
// and each value has a list of its entries.
#pragma once

#include "base/arena.h"

enum { RUNS_MOST = 64, MATCHES_MOST = 16, ID = 16 };

/** Where an entry stands among all others. */
struct journal_place {
	uint8_t seqnum_id[ID], boot[ID];
	uint64_t seqnum, realtime, monotonic, hash;
};

/** Entries of a file in the order of their time: all, or those that have one value. */
struct entry_list {
	uint64_t first; // stands in no array; 0: none does
	struct entry_run {
		uint64_t array;
		size_t n;
	} runs[RUNS_MOST];
	size_t nruns, n;
	bool damaged; // it should have more
};

struct journal_file {
	const uint8_t *p;
	size_t n;
	bool compact, mapped, keyed; // keyed: hashes are SipHash with the file's id as its key
	bool damaged;                // something that was looked for could not be read
	// Of the matches, made anew when they change.
	struct entry_list list;
	uint64_t values[MATCHES_MOST]; // the value's object; 0: the file does not have it
	size_t candidate;              // the next of the list that matches, counted from 1; 0: there is none
};

/** NAME=VALUE. */
struct journal_match {
	struct str text;
	size_t name; // length, with the =
};

/** Takes the head of a file. 0, or -errno as libsystemd has it. */
int journal_file_begin(struct str bytes, struct journal_file *ret);
struct entry_list journal_all_entries(const struct journal_file *f);
/** Whether its entries go as far as its head says. */
bool journal_is_whole(const struct journal_file *f);
/** Whether the file may have entries of this time (microseconds). */
bool journal_file_spans(const struct journal_file *f, uint64_t from, uint64_t until);
/** The object of NAME=VALUE; 0: this file does not have it. @f is marked where its index is damaged. */
uint64_t journal_find_value(struct journal_file *f, const struct journal_match *m);
/** The entries that have it. */
struct entry_list journal_value_list(const struct journal_file *f, uint64_t value);
/** The object of an entry; NULL: it is damaged, or not written yet. */
const uint8_t *journal_list_entry(const struct journal_file *f, const struct entry_list *l, size_t i);
struct journal_place journal_entry_place(const struct journal_file *f, const uint8_t *entry);
/** By the best clock that both have. The same entry in two files is one. */
int journal_place_compare(const struct journal_place *a, const struct journal_place *b);
/** The object of the @i-th value of an entry; 0: it has no more. */
uint64_t journal_entry_value(const struct journal_file *f, const uint8_t *entry, size_t i);
bool journal_entry_has(const struct journal_file *f, const uint8_t *entry, uint64_t value);
/** As much of the text of a value as is wanted, unpacked into @room if it has to be. @f is marked where it cannot be unpacked, or all of it is
 * wanted and is not what was written. */
struct str journal_data_text(struct journal_file *f, uint64_t at, size_t most, struct text *room);
