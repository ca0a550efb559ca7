// What a bug report may keep: words that knowledge has, and values of a known form. A list of what stays, not of what goes: what nobody thought
// of goes. Names that go get a counter (`name-7`), the same in the whole bundle; lines of a log that are not about the GPU and its machine
// become empty, so that the others keep their numbers.
#pragma once

#include "capture/redact/redact.h"
#include "knowledge/know.h"

/** How an answer or a file is written, and so what may stay of it. */
enum allow_form {
	ALLOW_ALL,       // the kernel makes it, of numbers and of names of hardware
	ALLOW_WORDS,     // words that are known, and short numbers
	ALLOW_VALUES,    // the same, and numbers of any length
	ALLOW_FIELDS,    // the same, behind a name that the kernel gives each line
	ALLOW_LOG,       // lines of a log: those that matter
	ALLOW_DUMP,      // a device core: names of registers stay as well
	ALLOW_PATHS,     // names of files, a line each: each stays as long as it was
	ALLOW_MAPS,      // the mappings of a process
	ALLOW_COMMAND,   // arguments of a program
	ALLOW_VARIABLES, // an environment
	ALLOW_BOOT,      // parameters of the kernel, also in files of boot loaders
	ALLOW_MODULES,   // modprobe.d
	ALLOW_CHANGES,   // packages and their versions, as host/changes/ writes them
	ALLOW_PROCESSES, // files of processes, each behind a line with its name
};

/** Hashes of words. */
struct allow_set {
	uint64_t *slots; // 0: none
	size_t nslots, n;
};

struct allowed {
	const struct know *know;
	struct redactor *redactor; // has the counters
	struct allow_set words;    // of messages and names
	struct allow_set telling;  // that tell by themselves which software a line is about
	VEC(struct str) patterns;  // of names of programs, threads and rings
};

void allow_begin(struct allowed *a, const struct know *k, struct redactor *r);

/** Which form an answer of the machine has, by the path that was asked for. @list: it names files. */
enum allow_form allow_form_of(struct str path, bool list);
/** Which form a member of the bundle has that is no track. */
enum allow_form allow_form_of_member(struct str name);
/** What may stay of a text. @end: what ends an argument or a variable, NUL or a newline. */
void allow_text(struct allowed *a, enum allow_form form, struct str text, char end, struct text *to);
/** A path, as long as it was: it is also the key of an answer. Paths of the kernel's own file systems stay. */
void allow_path(struct allowed *a, struct str path, struct text *to);
/** Bytes whose places matter: paths in the midst of them, as long as they were. */
void allow_bytes(struct allowed *a, struct str bytes, struct text *to);

// --- between the two files ---

enum allow_numbers { NUMBERS_SHORT, NUMBERS_LONG };
/** Whether a word may stay. */
bool allow_known(const struct allowed *a, struct str word);
/** Whether evidence is made of such words: the driver's messages and knowledge have them, or it is the address or the id of a device. */
bool allow_is_evidence(const struct allowed *a, struct str text);
/** Puts a word, or its counter. @same_size: as many bytes. */
void allow_word(struct allowed *a, struct str word, enum allow_numbers numbers, bool same_size, struct text *to);
/** Whether a line tells which software it is about. */
bool allow_tells(const struct allowed *a, struct str line);
/** The words of a line, with all that stands between them. */
void allow_words(struct allowed *a, struct str line, enum allow_numbers numbers, struct text *to);
