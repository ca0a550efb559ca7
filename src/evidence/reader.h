// Evidence: a source whose kind is recognised by its content, and read by the reader for that kind.
#pragma once

#include "base/error.h"
#include "evidence/event.h"
#include "evidence/log/scan.h"
#include "source/kfd/events.h"
#include "source/source.h"

enum { EVIDENCE_KINDS = 8 };

/** What was read of a source. */
struct evidence {
	unsigned id;
	struct str path;
	const char *kind; // what it is: kernel-log, application-log, debug-agent, ...; text where nothing known is in it
	size_t nkinds;    // all that is in it
	const char *kinds[EVIDENCE_KINDS];
	uint64_t bytes, lines, events;
	double wall_least,
		wall_most; // when the boot's clock began, in seconds since 1970, by records that have both clocks; 0: none has
};
/** The time of the day of a time since the boot; where the source does not tell, or has several boots, @time as it is. */
struct stamp evidence_wall(const struct evidence *e, struct stamp time);

struct evidence_reader; // reads source after source

struct evidence_reader *evidence_reader_new(const struct know *k, struct event_sink sink);
/** Told how far a large file is read. */
void evidence_on_progress(struct evidence_reader *r,
			  void (*progress)(void *ctx, const char *name, unsigned long long done, unsigned long long total),
			  void *ctx);
/** Reads @s to its end. What was read before an error counts. */
struct uh_error *evidence_read(struct evidence_reader *r, struct source *s);
/** As source_visitor.record() hands them over. */
void evidence_record(struct evidence_reader *r, const char *name, const struct source_record *record);
/** Looks at this machine's GPUs, once. */
struct silicon_options;
void evidence_machine(struct evidence_reader *r, const struct silicon_options *o);
/** A file or directory with the code that waves ran, besides what lies beside the evidence. */
void evidence_add_code(struct evidence_reader *r, const char *path);
/** After the last source: what can only be read together is. The error is of one of them; the others were read. */
struct uh_error *evidence_end(struct evidence_reader *r);
/** As code_shelf_refused(). */
const char *evidence_refused(const struct evidence_reader *r);
size_t evidence_count(const struct evidence_reader *r);
const struct evidence *evidence_at(const struct evidence_reader *r, size_t index);
void evidence_reader_free(struct evidence_reader *r);

/** What KFD told, as an event without a time; its texts lie in @a. false: the user has retracted it. */
bool kfd_told_event(const struct know *k, const struct kfd_told *t, struct arena *a, struct event *ret);

/** What the kernel says of a device that came, went or changed. Views; empty: it does not say. */
struct uevent {
	struct str action, path, subsystem;
	struct str wedged;       // of a GPU that hung: what is left to do, `none` or a list
	struct str process, pid; // whose work it was
};
/** One of its KEY=VALUE. */
void uevent_take(struct uevent *u, struct str key, struct str value);
/** The PCI address of its device, or of the one that it belongs to. */
struct str uevent_pci(const struct uevent *u);
/** Of a GPU that hung, as an event without a time; its texts lie in @a. false: it is none, or the user has retracted it. */
bool uevent_event(const struct know *k, const struct uevent *u, struct arena *a, struct event *ret);

/** What the bytes at the front of a source are not: text. NULL where they are. */
const char *recognise_binary(struct str head);
