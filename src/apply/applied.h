// A change of this machine that unhang makes: a plan at first, then the record that undo needs. What is written to which file follows
// from it alone, so that a change that was cut short can be finished or taken back, again and again.
//
// This room is the only one that writes to the system, and it runs no other program.
#pragma once

#include "base/command.h"
#include "base/error.h"

/** How a file carries our words. */
enum own_kind {
	OWN_MODPROBE,    // a file of ours in modprobe.d
	OWN_GRUB_D,      // a file of ours in grub.d
	OWN_GRUB,        // a line of ours at the end of /etc/default/grub
	OWN_ENTRY_LINE,  // an options line of ours in an entry: systemd-boot joins them
	OWN_ENTRY_WORDS, // words of ours in an entry's first options line: GRUB reads only that one
	OWN_CMDLINE,     // words of ours in /etc/kernel/cmdline
};

struct own_file {
	enum own_kind kind;
	struct str path;  // in the machine, without --root's directory
	struct str words; // amdgpu.cwsr_enable=0 iommu=pt
	bool bare;        // it did not end with a newline
	bool last;        // of GRUB's: to the very end of the command line, behind what the user has there
};

/** So many files, and so many that had the words before, a record holds. */
enum { APPLIED_FILES_MOST = 1000 };
enum applied_state { APPLIED_PLANNED, APPLIED_DONE, APPLIED_UNDOING };

struct applied_set {
	struct str name, value;
};

struct applied {
	struct arena arena;
	struct str id, title;
	enum applied_state state;
	int64_t date; // seconds since 1970
	bool kargs;   // the words are rpm-ostree's to keep: there is no file
	VEC(struct applied_set) sets;
	VEC(struct own_file) files;
	VEC(struct str) made; // directories that there were not before
	VEC(struct str) had;  // files that had the words before us
};

void applied_free(struct applied *a);
/** `unhang doctor --undo ID` */
#define DOCTOR(arena, option, id) command_str(COMMAND_OF((arena), "unhang doctor " option " ", PIECE_WORD, (id)))
/** Letters, digits, `_`, and `-` and `.`, but those not at the front. */
bool applied_id_good(struct str id);
/** Whether words may be made of it: nothing that a shell or a boot loader takes for more than itself. */
bool applied_set_good(struct str name, struct str value);
/** Whether this change may write to a file of this kind there. */
bool own_file_good(const struct applied *a, enum own_kind kind, struct str path);
/** Whether the whole file is ours. */
static inline bool own_whole(enum own_kind k) { return k <= OWN_GRUB_D; }
static inline bool own_entry(enum own_kind k) { return k == OWN_ENTRY_LINE || k == OWN_ENTRY_WORDS; }

// --- what is written; text.c ---

/** A title as one line: facts of the machine may stand in it, and it goes into files that a shell or modprobe reads. */
struct str title_line(struct arena *to, struct str title);

/** What of ours is in the file: all of it, a line, or words. */
struct str own_text(struct arena *to, const struct applied *a, const struct own_file *f);
/** @base with our text in it; false where it has no place for it. */
bool own_insert(struct arena *to, const struct applied *a, const struct own_file *f, struct str base, struct str *ret);
enum own_found { OWN_ABSENT, OWN_ALTERED, OWN_THERE };
/** @content without what is ours. ALTERED: somebody changed it since, and what could be told apart is gone. */
enum own_found own_strip(struct arena *to, const struct applied *a, const struct own_file *f, struct str content,
			 struct str *ret);
/** Those of @words that the command line in a file of this kind does not have yet. */
struct str own_missing(struct arena *to, enum own_kind kind, struct str content, struct str words);
/** The value of the last NAME=VALUE on a command line; false: none. */
bool command_line_value(struct str line, struct str name, struct str *ret);

// --- records; record.c ---

void applied_write(const struct applied *a, struct text *to);
/** @where: for errors. The error says what is wrong in which line. */
struct uh_error *applied_parse(struct str text, struct str id, const char *where, struct applied *ret);

/** Records below @root; those that cannot be read are told as problems. */
struct applied_list {
	VEC(struct applied *) list;
	VEC(struct str) cut; // ids of which only an unfinished record is there: nothing was changed yet
	VEC(struct str) problems;
	bool empty; // there is nothing in our directory: it was cut short at the very begin or end
	struct arena arena;
};
void applied_load_all(const char *root, struct applied_list *ret);
void applied_list_free(struct applied_list *l);
const struct applied *applied_named(const struct applied_list *l, struct str id);

#define APPLIED_DIRECTORY "/etc/unhang/applied"

// --- the machine; write.c ---

/** A file that exists, with links followed inside the root only. */
struct spot {
	int dir;          // that holds it
	const char *name; // in it
	struct str content;
};
struct uh_error *spot_open(const char *root, struct str path, struct arena *a, struct spot *ret);
void spot_close(struct spot *s);

/** What a file has now, and what it would have. */
struct own_preview {
	struct str before, after;
	bool there_before, there_after;
};
struct uh_error *own_preview(const char *root, const struct applied *a, const struct own_file *f, bool undo, struct arena *room,
			     struct own_preview *ret);
/** Adds entries that have our text now under another name, or that were made of a command line with our words. */
void applied_find_entries(const char *root, struct applied *a);
/** An error where a file of ours would take the place of somebody else's. */
struct uh_error *own_whole_free(const char *root, const struct applied *a, struct str path, struct arena *room);
/** Writes the record as planned, the files, then the record as done. It may be done again after it was cut short. */
struct uh_error *applied_do(const char *root, struct applied *a);
/** Takes all of it back, the record last. */
struct uh_error *applied_undo(const char *root, struct applied *a);
/** Removes what a record that was never finished left, and our directory where it is empty. false: something of it could not be. */
bool applied_sweep(const char *root, struct str id);
