// Replaces what names people, machines and models, and secrets, by counters: `host-1`, `user-2`. The same name gets the same counter in
// the whole bundle. First all texts are searched, then every byte is held against what was found.
#pragma once

#include "base/arena.h"
#include "report/manifest.h"

enum redact_kind {
	REDACT_HOST,
	REDACT_USER,
	REDACT_SERIAL,
	REDACT_MAC,
	REDACT_IP,
	REDACT_MODEL,
	REDACT_SECRET,
	REDACT_NAME,
	REDACT_LINE,
	REDACT_KINDS
};

struct redact_term {
	struct str text;
	enum redact_kind kind;
	unsigned number; // 0: it stays
	bool alone;      // only where it stands as a word by itself: it is too short or too common
	bool known;      // knowledge has it
	bool sure;       // the machine itself names it so: it is no stranger's choice
	bool held;       // evidence is made of such words: it goes only where it was found, as part of a place
	uint32_t of;     // a place: the term + 1 that stands in it, from @at on; all else of it stays. 0: it is none
	uint32_t at;
};

struct allowed;

struct redactor {
	struct arena arena;
	const struct allowed *words; // that evidence is made of; NULL: nobody knows them
	const char *from;            // where that begins by which a name is told; NULL: it is told by nothing
	VEC(struct redact_term) terms;
	uint32_t *slots; // by text
	size_t nslots;
	uint32_t *sorted; // numbers of terms, by their text
	uint32_t *within; // of each place in it: the place + 1 of the longest term that it begins with; 0: none
	size_t nsorted;
	uint32_t *heads; // by the first two bytes: the first place; of the last pair + 1: nsorted
	unsigned asked;  // how often knowledge was searched for a word
	unsigned numbers[REDACT_KINDS];
	struct manifest_replaced counts[REDACT_KINDS];
};

void redactor_free(struct redactor *r);
/** Adds a name. What is empty or said of every machine is not added. */
void redact_add(struct redactor *r, enum redact_kind kind, struct str text);
/** Finds names and secrets in a text. @command: it is a command line or an environment, where secrets have no other sign. */
void redact_find(struct redactor *r, struct str text, bool command);
/** After the last was found; once more after redact_hold(). */
void redact_ready(struct redactor *r);
/** A text that must stay as it is: what would be replaced in it goes only where it was found. false: nothing would. */
bool redact_hold(struct redactor *r, struct str text);
/** The text with everything replaced. @same_size: in bytes whose places matter, each name is replaced by as many bytes. */
void redact_text(struct redactor *r, struct str text, bool same_size, struct text *ret);
/** The same where no stranger's words can stand: only numbers and addresses of devices are. */
void redact_kernel_text(struct redactor *r, struct str text, bool same_size, struct text *ret);
/** Puts a counter in the place of a word of which it is not known that it may stay. Only here: it may be any word. */
void redact_put_name(struct redactor *r, struct str word, bool same_size, struct text *to);
/** Whether a word is a counter that was put: host-1. */
bool redact_is_counter(const struct redactor *r, struct str word);
/** Adds a value if the name of its option or variable, which stands before it in the same text, says what it is. */
void redact_value(struct redactor *r, struct str name, struct str value);
/** Adds the value of something that is named by such: a number is no host, and a word is no serial number. */
void redact_add_value(struct redactor *r, enum redact_kind kind, struct str value);
/** What has a form of its own, at the front of @text: an address, a token, a host with its domain. @before: the mark
 * before it where it is part of something longer: a dash, a slash; else 0. Returns its length; 0: nothing. */
size_t redact_shape(struct str text, bool command, char before, enum redact_kind *ret);
/** Adds what may as well be a word of messages: not if knowledge has it, and only where it stands alone. */
void redact_add_weak(struct redactor *r, enum redact_kind kind, struct str text);
/** Whether it looks like the number of a disk or of another part: it has digits, or is made of nothing but those of hexadecimal numbers. */
bool redact_is_id(struct str value);
size_t redact_count_digits(struct str s);
/** Whether a value may have such a character. */
static inline bool redact_is_value(char c) { return !char_space(c) && c && !char_among(c, "\"'`,;()[]{}<>|"); }
/** What the words at the front of @rest tell: `UUID=X`, `serial X`, `SSID='X'`. Returns how far what was found reaches; 0: nothing. */
size_t redact_find_sign(struct redactor *r, struct str rest);
