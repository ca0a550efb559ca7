// The machine around the GPUs, as named facts with the place where each was seen. Readers here add facts and items and judge nothing:
// what a fact means, knowledge says (`check`, `known-bad`, `remedy`). What is not there is no fact.
//
// What could not be read in time is not absent: it is `unread`, and every fact that a reader derives after that is in doubt, unless one
// file alone says it. A condition on a fact in doubt is TRUTH_UNREAD, and so is one on a fact that an item in doubt may lack.
//
// Names are those of docs/DOCTOR.md. Where a fact's reader would have to guess, it adds none.
#pragma once

#include "base/command.h"
#include "gpu/find/device.h"
#include "knowledge/know.h"
#include "source/probe.h"

struct host_fact {
	struct str name, value;
	struct str where; // a path, with `:LINE` where it has lines; as it is called in the machine, without --root's directory
	const struct command *command; // of a step: the value as it may be told to do; NULL
	bool doubt;                    // it may be otherwise; one without a value may be there
};

/** Something of which a machine may have several. The first item is the machine itself. */
struct host_item {
	struct str kind;          // machine, gpu, setting, variable, process, rocm, tool
	const struct device *gpu; // that it belongs to; NULL: none, or not known
	struct host_item *of; // whose facts are its own too, behind its own: those of its GPU; the machine's come last for all
	VEC(struct host_fact *) facts; // they stay where they are when others are noted
	bool doubt;                    // it may have facts that are not here
};

struct host {
	struct arena arena;
	const struct know *know;
	const char *root; // the tree that is looked at instead of this machine; NULL
	struct devices devices;
	VEC(struct host_item *) items;
	struct probe_count count;
	bool doubt; // of the reader at work: something that it goes by was not read
};

/** Looks at this machine, or at the one whose proc, sys, etc, boot, usr and more lie under @root. It ends whatever it meets. */
void host_look(const struct know *k, const char *root, struct host *ret);
/** What can be told of this machine without asking a GPU, which may hang: kernel, parameters, software. */
void host_look_beside(const struct know *k, struct host *ret);
void host_free(struct host *h);

/** The machine, and one for a GPU of its list. */
struct host_item *host_machine(const struct host *h);
struct host_item *host_gpu(const struct host *h, const struct device *d);

/** The index-th value, of the item, of what it belongs to, then of the machine; NULL. An item of its own hides those of the others. */
const struct host_fact *host_fact(const struct host *h, const struct host_item *i, struct str name, size_t index);
/** Its first value; empty where there is none. */
struct str host_value(const struct host *h, const struct host_item *i, const char *name);
/** Whether the item itself says so; an empty @value: whatever it says. */
bool host_says(const struct host_item *i, const char *name, struct str value);
/** As a view for conditions and phrases. `NAME@` is the place where NAME was seen. @ctx is a struct host_scope. */
struct host_scope {
	const struct host *host;
	const struct host_item *item;
};
bool host_get(const void *scope, struct str name, size_t index, struct str *ret);
/** As fact_view.command(). */
const struct command *host_get_command(const void *scope, struct str name);
/** Whether what host_get() says of it may be otherwise. */
bool host_unread(const void *scope, struct str name);
/** All of it, for conditions and steps. */
struct fact_view host_view(const struct host_scope *scope);

// --- for readers ---

/** @of: NULL, or the item of its GPU. */
struct host_item *host_add(struct host *h, const char *kind, struct host_item *of);
/** Several facts of one name are several values. An empty value is no fact. */
void host_note(struct host *h, struct host_item *i, const char *name, struct str value, struct str where);
/** A step: only as such it gets into what people are told to do as it stands. NULL is no fact. */
void host_note_command(struct host *h, struct host_item *i, const char *name, const struct command *c, struct str where);
void host_note_number(struct host *h, struct host_item *i, const char *name, int64_t value, struct str where);
/** What one file says that was read, whatever became of others. */
void host_note_said(struct host *h, struct host_item *i, const char *name, struct str value, struct str where);
/** That it may be there, where the reader is in doubt and noted none. */
void host_note_doubt(struct host *h, struct host_item *i, const char *name);
/** Adds to `unread`: what may not be read, for people, and where it was tried. */
void host_note_unread(struct host *h, const char *what, struct str where);
/** Looks at files in one child, of the tree where there is one; notes what was refused and what was not read, which puts the reader in
 * doubt. */
void host_probe(struct host *h, struct probe *probes, size_t n);
/** Notes what was refused and what was not read. true where there is such as was not read. */
bool host_note_ends(struct host *h, const struct probe *probes, size_t n);
/** Whether what is to be opened beside that answers; notes where it does not, which puts the reader in doubt. */
bool host_answers(struct host *h, const char *path);
/** The same for one file's text; each costs a child, so several are better asked together. */
struct str host_text(struct host *h, const char *path, size_t most);

void host_read_kernel(struct host *h);      // kernel, driver, distribution, command line
void host_read_boot(struct host *h);        // boot loader, its entries, what makes a change of it active
void host_read_settings(struct host *h);    // parameters: in effect, set, known to the module
void host_read_gpus(struct host *h);        // facts of each GPU: part, firmware, link, BAR, power, memory errors, displays
void host_read_platform(struct host *h);    // IOMMU, ASPM, journal, cores, container, permissions
void host_read_container(struct host *h);   // of host_read_platform(): container, limits, permissions
void host_read_software(struct host *h);    // ROCm, frameworks, debugging tools
void host_read_environment(struct host *h); // variables
void host_read_processes(struct host *h);   // who holds a GPU
