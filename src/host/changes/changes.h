// What was installed, updated or set on a machine, and when; and what each of its boots ran. Package managers write the first in logs of
// their own, each in another form; the journal has the second. Readers here judge nothing: diagnose/ says whether a change is to blame.
//
// What could not be read is in `unread`. A boot of which the journal has no kernel lines, or no orderly end, is not a quiet one.
#pragma once

#include "base/arena.h"
#include "knowledge/know.h"
#include "source/probe.h"

/** Names, versions and ids are cut to so many bytes: one of this length is none that a package manager knows. */
enum { CHANGE_WORD_MOST = 200 };

/** A package, or a setting, that became another. */
struct change {
	struct str package; // as its manager calls it, without the architecture; of a setting the path of its file
	struct str from;    // the version before; empty: it was installed, or nobody knows (struct transaction.last)
	struct str to;      // the version since; empty: it was removed, or nobody knows
	const struct know_package *kind; // never NULL
};

/** What one run of a package manager did. Only changes that concern a GPU are listed; one without any is not kept. */
struct transaction {
	double begin, when; // when it began and ended, in seconds since 1970
	bool local;         // the log has no zone: the machine's zone was taken
	bool own;           // of a file that a user can write: it never stands before a change of the system
	bool last;          // known by the time of a file only: earlier changes of it, and the version before, are unknown
	struct str
		manager;  // apt, dpkg, pacman, dnf, dnf5, zypper, rpm-ostree, rauc, nix, flatpak, snap, pip, dkms, steam, file
	struct str id;    // by which that manager undoes it (`dnf history undo 31`); empty: it has none
	struct str where; // the file, with `:LINE` where it has lines
	VEC(struct change) changes;
	size_t others; // packages that it changed besides
};

/** One boot of the machine, as its own lines tell it. */
struct boot {
	struct str id;     // 32 hexadecimal digits; empty: of a file, which names none
	double begin, end; // first and last line of any kind, in seconds since 1970
	bool log;          // it has kernel lines
	bool clean;        // it ended in order; the boot that still runs has not ended
	bool runs;         // it is the one that runs now (of a bundle: that ran then)
	// Empty: its lines do not say it.
	struct str kernel;       // release, as uname -r prints it
	struct str command_line; // only the words that knowledge has as parameters, and amdgpu's
	struct str bios;         // version and date of release: `F.62 11/06/2025`
	struct str vbios;        // of the first GPU: `113-D7020100-102`
	struct str firmware;     // versions that the driver printed, `DMUB 0x08005B00, SMU 78.88.0`
};

struct changes {
	struct arena arena;
	VEC(struct transaction) transactions; // by time, oldest first
	VEC(struct boot) boots;               // oldest first
	double since;                         // from then on the logs of packages are whole; 0: there is none
	bool boots_cut;                       // there are older boots, which were not read in time, or are too many
	VEC(struct str) unread; // what is there and could not be read: a path, or `the journal`, and why. It may be to blame
};

/** Reads them from this machine, a tree, or a tape: of the half year before @when, and all that came later; 0: everything. While a tape records,
 * what was read goes to it, so that its bundle says the same. */
void changes_read(const struct know *k, struct machine_at at, double when, struct changes *ret);
void changes_free(struct changes *c);
#define _cleanup_changes_ _cleanup_(changes_free)

// --- for log files with several boots ---

/** Takes a line of the kernel's at @when (seconds since 1970; negative: unknown). `Linux version` begins a boot. */
void changes_take_line(struct changes *c, const struct know *k, struct str line, double when);
