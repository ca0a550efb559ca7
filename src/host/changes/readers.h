// Between the readers of this room: what each is given, and how it adds what it reads.
#pragma once

#include "host/changes/changes.h"

/** A file that was read. Its bytes are a stranger's. */
struct change_log {
	struct str text;
	struct str wal;  // of a database: what was written beside it and is not in it yet; empty
	struct str path; // as the machine names it
	double changed;  // when, in seconds since 1970
	bool own;        // it lies in a home
	double oldest;   // what is from before does not count; 0: all of it does
};

/** Adds what one form of log tells. */
typedef void change_parse_fn(struct changes *c, const struct know *k, const struct change_log *log);
change_parse_fn changes_of_dpkg, changes_of_apt, changes_of_pacman, changes_of_zypper; // logs.c
change_parse_fn changes_of_dnf4, changes_of_dnf5;                                      // databases.c
change_parse_fn changes_of_file, changes_of_snap, changes_of_record, changes_of_dkms, changes_of_ostree,
	changes_of_steam; // files.c: by the names, times and some bytes of files
/** Of a generation of Nix: @text is where its link points, and where its kernel's does, a line each. */
change_parse_fn changes_of_nix;

/** Adds a package to a transaction that is being read: one that concerns no GPU is counted only. */
void transaction_add(struct changes *c, const struct know *k, struct transaction *t, struct change change);
/** The transaction was read: keeps it where it concerns a GPU. @t is empty then, but for its manager. */
void transaction_end(struct changes *c, struct transaction *t);
/** It is there and could not be read, or not all of it. */
void changes_unread(struct changes *c, struct str what, const char *why);
/** `PATH:LINE`. */
struct str change_place(struct changes *c, const struct change_log *log, unsigned line);
/** Takes a time off the front of @s: `2025-07-08 10:00[:01][+0200]`, with T, one space or two between; without an offset it is local. */
bool change_time(struct str *s, double *ret, bool *ret_local);
/** The version that this manager gave the package last; empty. */
struct str change_before(const struct changes *c, struct str manager, struct str package);

/** What all of it is in a bundle, and on the way from the child that reads. */
void changes_write(const struct changes *c, struct text *to);
/** Adds what was written, which may be several times such a text. What is damaged ends it; false. */
bool changes_parse(struct changes *c, const struct know *k, struct str text);
/** Sorts them, and leaves out what is from the future. */
void changes_order(struct changes *c);
/** Leaves out what is from before. Nothing that was logged later moves this: one fresh file would hide all changes. */
void changes_keep_since(struct changes *c, double oldest);

/** Joins what tools did one by one, each a transaction, shortly one after the other: one call of pip installs several packages. */
void changes_join(struct changes *c);

/** What of a boot's lines says what it ran: a line has one of these; NULL behind the last. */
extern const char *const boot_marks[];
void boot_take_line(struct arena *a, const struct know *k, struct boot *b, struct str line);

/** Reads logs and files of this machine, or of a tree, in a child. In another build there may be none. */
void changes_collect(struct changes *c, const struct know *k, const char *root, double oldest);
/** The same of the journal. */
void changes_boots(struct changes *c, const struct know *k, const char *root);
