// The machine around the GPUs, as named facts with the place where each was seen. Readers here add facts and items and judge nothing:
// knowledge says what a fact means (`check`, `known-bad`, `remedy`). For what does not exist there is no fact.
//
// What could not be read in time is not absent but `unread`. Every fact that the reader derives after that is in doubt, unless a single
// file says it. A condition is TRUTH_UNREAD on a fact in doubt, and on a fact that is missing from an item in doubt.
//
// Names are those of docs/DOCTOR.md. A reader that would have to guess adds no fact. All facts and items belong to the host and live
// until host_free().
#pragma once

#include "base/arena.h"
#include "base/command.h"
#include "gpu/find/device.h"
#include "knowledge/know.h"
#include "source/probe.h"

struct host_fact {
	struct str name, value;
	struct str where; // a path, with `:LINE` if it has lines, as the machine names it, without --root's directory
	const struct command *command; // if the value is a step: as people may be told to run it; NULL
	bool doubt;                    // it may be wrong; without a value: it may exist
};

/** A thing that a machine may have several of. The first item is the machine itself. */
struct host_item {
	struct str kind;               // machine, gpu, setting, variable, process, rocm, tool
	const struct device *gpu;      // the GPU that it belongs to; NULL: none, or not known
	struct host_item *of;          // an item (its GPU) whose facts count for it too. Its own come first, the machine's last
	VEC(struct host_fact *) facts; // pointers to them stay valid when more are noted
	bool doubt;                    // it may have facts that are missing here
};

struct host {
	struct arena arena;
	const struct know *know;
	const char *root;  // the tree that is looked at instead of this machine; NULL
	struct tape *tape; // that it is recorded on, or that is looked at instead; NULL
	struct devices devices;
	bool devices_borrowed; // somebody else frees them
	VEC(struct host_item *) items;
	struct probe_count count;
	bool doubt; // the reader at work could not read something that it needs
};

/** Looks at this machine, or at another one: whose proc, sys, etc, boot, usr and more lie in a tree, or that is on a tape. It always
 * returns, even if files do not answer. */
void host_look(const struct know *k, struct machine_at at, struct host *ret);
/** The same with GPUs that were found already; NULL: none were. */
void host_look_with(const struct know *k, struct machine_at at, const struct devices *found, struct host *ret);
/** The same without asking a GPU, which may hang: kernel, parameters and software of this machine. */
void host_look_beside(const struct know *k, struct tape *tape, struct host *ret);
void host_free(struct host *h);

/** The machine, and one for a GPU of its list. */
struct host_item *host_machine(const struct host *h);
struct host_item *host_gpu(const struct host *h, const struct device *d);

/** Value @index of a fact: the item's own, or else that of the item that it belongs to, or else the machine's. NULL: none. */
const struct host_fact *host_fact(const struct host *h, const struct host_item *i, struct str name, size_t index);
/** Its first value; empty where there is none. */
struct str host_value(const struct host *h, const struct host_item *i, const char *name);
/** Whether the item itself has this fact with this value. An empty @value: with any value. */
bool host_says(const struct host_item *i, const char *name, struct str value);
/** As a view for conditions and phrases. `NAME@` is the place where NAME was seen. @ctx is a struct host_scope. */
struct host_scope {
	const struct host *host;
	const struct host_item *item;
};
bool host_get(const void *scope, struct str name, size_t index, struct str *ret);
/** All of these as one view, for conditions and steps. */
struct fact_view host_view(const struct host_scope *scope);

// --- for readers ---

/** @of: NULL, or the item of its GPU. */
struct host_item *host_add(struct host *h, const char *kind, struct host_item *of);
/** Several facts of one name are several values. An empty value is no fact. */
void host_note(struct host *h, struct host_item *i, const char *name, struct str value, struct str where);
/** Notes a step. Only as a step a value gets unchanged into what people are told to do. NULL is no fact. */
void host_note_command(struct host *h, struct host_item *i, const char *name, const struct command *c, struct str where);
void host_note_number(struct host *h, struct host_item *i, const char *name, int64_t value, struct str where);
/** Notes what a single file says. That file was read, so the fact is never in doubt. */
void host_note_said(struct host *h, struct host_item *i, const char *name, struct str value, struct str where);
/** Notes that the fact may exist, if the reader is in doubt and noted none. */
void host_note_doubt(struct host *h, struct host_item *i, const char *name);
/** Adds to `unread`: what there is no permission to read, for people, and where it was tried. */
void host_note_unread(struct host *h, const char *what, struct str where);
/** Reads files of this machine or of the tree, in one child. Notes what was refused and what was not read; the latter puts the reader
 * in doubt. */
void host_probe(struct host *h, struct probe *probes, size_t n);
/** Notes what was refused and what was not read. true: something was not read. */
bool host_note_ends(struct host *h, const struct probe *probes, size_t n);
/** For paths that are opened in other ways: whether the path answers. If not, that is noted and puts the reader in doubt. */
bool host_answers(struct host *h, const char *path);
/** The text of one file. Each call costs a child: ask for several files together with host_probe(). */
struct str host_text(struct host *h, const char *path, size_t most);

void host_read_kernel(struct host *h);      // kernel, driver, distribution, command line
void host_read_boot(struct host *h);        // boot loader, its entries, how the system is kept
void host_read_system(struct host *h);      // of host_read_boot(): package manager, initramfs, the way to the kernel's words
void host_read_settings(struct host *h);    // parameters: in effect, set, known to the module
void host_read_gpus(struct host *h);        // facts of each GPU: part, firmware, link, BAR, power, memory errors, displays
void host_read_security(struct host *h);    // of host_read_platform(): Secure Boot, lockdown, user namespaces
void host_read_platform(struct host *h);    // IOMMU, ASPM, journal, cores, container, permissions
void host_read_container(struct host *h);   // of host_read_platform(): container, limits, permissions
void host_read_software(struct host *h);    // ROCm, frameworks, debugging tools
void host_read_environment(struct host *h); // variables
void host_read_processes(struct host *h);   // who holds a GPU

// Words of a command line and of module options, as the kernel splits them.
/** A word and where it stands. */
struct placed_word {
	struct str text;
	struct str where; // a path, with `:LINE` where it has lines
};

/** Takes the next word off @rest; quotes hold white space together. false at the end. */
bool word_next(struct str *rest, struct str *ret);
/** `name=value` without the quotes around the value or the whole. false: it has no value. */
bool word_split(struct str word, struct str *ret_name, struct str *ret_value);
/** The name as the kernel takes it: - is _. */
struct str word_plain(struct arena *a, struct str name);

// What the readers of software share.
/** A directory whose names were read. */
struct host_listing {
	struct str path;
	struct host_item *rocm; // whose directory it is; NULL: the system's
	struct str names;
};

enum { HOST_PACKAGES = 5 };

/** The files that tell the versions of linux-firmware and of a distribution's ROCm. host_note_packages() notes what they say. */
void host_ask_packages(struct probe ret[static HOST_PACKAGES]);
void host_note_packages(struct host *h, const struct probe asked[static HOST_PACKAGES]);
/** The version of the ROCm that Debian or Ubuntu packaged; empty. */
struct str host_rocm_package(const struct probe asked[static HOST_PACKAGES]);
