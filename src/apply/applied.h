// A change that unhang makes to this machine: first a plan, then the record that undo needs. The record alone says what is written to
// which file. So a change that was cut short can be finished or taken back, however often that is tried.
//
// This room is the only one that writes to the system, and it runs no other program.
#pragma once

#include "base/command.h"
#include "base/error.h"

/** How a file carries our words. */
enum own_kind {
	OWN_MODPROBE,    // a file of ours in modprobe.d
	OWN_ENVIRONMENT, // a file of ours in environment.d
	OWN_PROFILE,     // a file of ours in profile.d
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
	bool bare;        // the file did not end with a newline before
	bool last;        // for GRUB: the words go to the very end of the command line, behind the user's
};

/** The most files in a record, and the most that had the words before. */
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
	bool kargs;   // rpm-ostree keeps the words: there is no file
	VEC(struct applied_set) sets;
	VEC(struct applied_set) variables; // of every session
	VEC(struct applied_set) limits;    // of the same, where the limit is 0
	VEC(struct own_file) files;
	VEC(struct str) made; // directories that we made
	VEC(struct str) had;  // files that had the words before us
};

void applied_free(struct applied *a);
/** `unhang doctor --undo ID` */
#define DOCTOR(arena, option, id) command_str(COMMAND_OF((arena), "unhang doctor " option " ", PIECE_WORD, (id)))
/** Whether it is made of letters, digits, `_`, `-` and `.`, the last two not at the front. */
bool applied_id_good(struct str id);
/** Whether it may become a word of a command line: a shell and a boot loader take every character of it literally. */
bool applied_set_good(struct str name, struct str value);
/** The same of a variable, in single quotes in environment.d; and of a limit. */
bool applied_variable_good(struct str name, struct str value);
bool applied_limit_good(struct str name, struct str value);
/** Whether this change may write a file of this kind at @path. */
bool own_file_good(const struct applied *a, enum own_kind kind, struct str path);
/** Whether the whole file is ours. */
static inline bool own_whole(enum own_kind k) { return k <= OWN_GRUB_D; }
/** Whether it is about sessions, and not about the kernel. */
static inline bool own_session(enum own_kind k) { return k == OWN_ENVIRONMENT || k == OWN_PROFILE; }
static inline bool own_entry(enum own_kind k) { return k == OWN_ENTRY_LINE || k == OWN_ENTRY_WORDS; }

// --- what is written; text.c ---

/** A title as one line: facts of the machine may stand in it, and it goes into files that a shell or modprobe reads. */
struct str title_line(struct arena *to, struct str title);

/** The text that we put into the file: all of it, a line, or words. */
struct str own_text(struct arena *to, const struct applied *a, const struct own_file *f);
/** @base with our text in it; false where there is no place for it. */
bool own_insert(struct arena *to, const struct applied *a, const struct own_file *f, struct str base, struct str *ret);
enum own_found { OWN_ABSENT, OWN_ALTERED, OWN_THERE };
/** @content without our text. OWN_ALTERED: somebody changed it since; what could still be recognised as ours was removed. */
enum own_found own_strip(struct arena *to, const struct applied *a, const struct own_file *f, struct str content,
			 struct str *ret);
/** Those of @words that the command line in the file's @content does not have yet. */
struct str own_missing(struct arena *to, enum own_kind kind, struct str content, struct str words);
/** The value of the last NAME=VALUE on a command line; false: none. */
bool command_line_value(struct str line, struct str name, struct str *ret);

// --- records; record.c ---

void applied_write(const struct applied *a, struct text *to);
/** Reads a record. The error names @where, the line, and what is wrong there. Free *ret with applied_free(). */
struct uh_error *applied_parse(struct str text, struct str id, const char *where, struct applied *ret);

/** The records below @root. Those that cannot be read are in @problems. */
struct applied_list {
	VEC(struct applied *) list;
	VEC(struct str) cut; // ids that have an unfinished record only: nothing was changed yet
	VEC(struct str) problems;
	bool empty; // our directory is there and empty: somebody made it, or a change was cut short at its very beginning or end
	struct arena arena;
};
void applied_load_all(const char *root, struct applied_list *ret);
void applied_list_free(struct applied_list *l);
struct applied *applied_named(const struct applied_list *l, struct str id);

#define APPLIED_DIRECTORY "/etc/unhang/applied"

// --- the machine; write.c ---

/** A file that exists, with links followed inside the root only. */
struct spot {
	int dir;          // the directory that holds it
	const char *name; // its name in there
	struct str content;
};
struct uh_error *spot_open(const char *root, struct str path, struct arena *a, struct spot *ret);
void spot_close(struct spot *s);

/** A file's content now, and after the change. */
struct own_preview {
	struct str before, after;
	bool there_before, there_after;
};
struct uh_error *own_preview(const char *root, const struct applied *a, const struct own_file *f, bool undo, struct arena *room,
			     struct own_preview *ret);
/** Adds boot entries that have our text by now: they were renamed, or made from a command line with our words. */
void applied_find_entries(const char *root, struct applied *a);
/** An error if a whole file of ours would replace somebody else's. */
struct uh_error *own_whole_free(const char *root, const struct applied *a, struct str path, struct arena *room);
/** Writes the record as planned, then the files, then the record as done. If it was cut short, call it again. */
struct uh_error *applied_do(const char *root, struct applied *a);
/** Takes the whole change back, the record last. If it was cut short, call it again. */
struct uh_error *applied_undo(const char *root, struct applied *a);
/** Removes what an unfinished record left, and our directory if it is empty. false: something could not be removed. */
bool applied_sweep(const char *root, struct str id);
