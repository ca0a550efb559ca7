// Incidents on the disk: a directory for each, in which `incident` says what it is. Beside it lie its bundle and its diagnosis.
#pragma once

#include "base/error.h"
#include "report/watch/incidents.h"

#define STORE_INCIDENT "incident"
#define STORE_BUNDLE "bundle.tar.zst"
#define STORE_CUT "bundle-interrupted.tar.zst" // what a capture had saved that was killed; STORE_BUNDLE is a later one
#define STORE_DIAGNOSIS "diagnosis.json"
#define STORE_TEXT "diagnosis.txt"
#define STORE_CORE "gpucore" // of unhang core, in place of a bundle
#define STORE_CLOSE "close"  // an operator asks a watch that runs to close it; the text is why

#define STORE_ORIGIN_KFD "kfd"        // KFD told of it, and no line of the log
#define STORE_ORIGIN_COUNTED "counters" // the driver counted it (ras/event_state), and no line of the log told
#define STORE_ORIGIN_HOLD "recording" // a recorder told of a fault, before any line of the log did

#define STORE_ORIGIN_CORE "core" // the runtime of a program that failed piped its GPU core to unhang core

enum { STORE_ID = 16, STORE_LIST_MOST = 100000 };

/** Whether @id can be one: 16 hexadecimal digits. */
bool store_is_id(struct str id);
/** DIRECTORY/incidents/ID */
const char *store_path(struct arena *a, const char *directory, struct str id);

/** The text of `incident`: a line for each value. */
void stored_text(const struct stored *i, struct text *to);
/** The other way round; texts are copied to @a. false: it has no id or no state. Lines of a newer unhang are left out. */
bool stored_parse(struct str text, struct arena *a, struct stored *ret);
/** The same as an object of JSON. */
struct json;
void stored_json(const struct stored *i, struct json *j);
/** Fills in what some lines of such a text say. */
void stored_add(struct str text, struct arena *a, struct stored *i);

/** Up to where the kernel's log is stored, with all that it told of. */
struct store_place {
	char boot_id[64];
	uint64_t sequence;    // of the record of /dev/kmsg
	int64_t microseconds; // of its time
};
void store_place_text(const struct store_place *p, struct text *to);
/** false: it is none. */
bool store_place_parse(struct str text, struct store_place *ret);
struct uh_error *store_place_save(const char *directory, const struct store_place *p);
/** false: none was kept. */
bool store_place_load(const char *directory, struct store_place *ret);

/** Lets members of the group `unhang` read incidents, also where an older unhang did not. */
void store_give(const char *directory);
/** Writes it whole or not at all. The directory of the incident is made where it is missing. */
struct uh_error *store_save(const char *directory, const struct stored *i);
/** Makes the directory of an incident whose record will come last, so that it is listed when it is whole. What is returned keeps others from
 * removing it, until it is closed; -1: see errno. */
int store_begin(const char *directory, struct str id);
/** Removes such a directory again. */
void store_drop(const char *directory, struct str id);
struct uh_error *store_load(const char *directory, struct str id, struct arena *a, struct stored *ret);
/** The document of its diagnosis, up to @most bytes; empty: there is none. No link in the directory of the incidents is followed. */
struct str store_diagnosis(const char *directory, struct str id, size_t most, struct arena *a);
/** Asks the watch that runs to close it. */
struct uh_error *store_ask_close(const char *directory, struct str id, struct str why);
/** Whether somebody asks for that; *@ret_why may be empty. */
bool store_close_asked(const char *directory, struct str id, struct text *ret_why);
/** How an operator closed it: what `closed_by` says. */
struct str store_closed_by(struct arena *a, struct str why);
/** Whether anything was ever stored there. */
bool store_begun(const char *directory);
/** All of them, the newest first. What cannot be read is told, and left out. No directory is no incident. */
struct stored_list {
	struct arena arena;
	VEC(const struct stored *) list;
	size_t unread;  // records that are there and cannot be read
	struct str why; // of the first of them
};
struct uh_error *store_list(const char *directory, struct stored_list *ret);
/** Adds those of another directory. */
struct uh_error *store_list_more(const char *directory, struct stored_list *ret);
void stored_list_free(struct stored_list *l);
/** Removes the oldest that are closed until there are no more than @most, and their bundles and cores use no more than @bytes; and what was
 * begun and never got its record. */
unsigned store_vacuum(const char *directory, size_t most, uint64_t bytes);
