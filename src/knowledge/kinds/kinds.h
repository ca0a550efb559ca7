// The kinds of knowledge. One table (table.c) says of each what a block of it holds, how it is read and where it is kept; whoever
// loads, frees, retracts, lists or shows blocks asks the table. docs/HOWTO_ADD_KIND.md adds a row to it.
#pragma once

#include "knowledge/know.h"

/** What the value of a key is, and with it the type of the member that takes it. */
enum key_type {
	KEY_NONE,
	KEY_TEXT,    // struct str
	KEY_LIST,    // struct know_list *: one for each line
	KEY_WORDS,   // struct know_list *: one for each word
	KEY_WHEN,    // struct condition *
	KEY_NUMBER,  // int
	KEY_SECONDS, // int, a day at most
	KEY_CHOICE,  // an enum, or an int: the place of the word in the choices
	KEY_FLAG,    // bool
	KEY_SET,     // struct know_pair *
	KEY_NEXT,    // struct know_next *
	KEY_MATCH,   // the templates of a know_signature
};

struct kind_key {
	const char *key;
	enum key_type type;
	size_t offset;
	bool required;
	const char *choices; // of a KEY_CHOICE, or of the words of a KEY_TEXT; separated by spaces
};

struct loader {
	struct know *know;
	struct know_problems *problems;
	bool user; // the file is the user's, not one of ours
};

/** What becomes of blocks with the same id. */
enum kind_same {
	SAME_REPLACES,    // the later one counts, so that a user's file can correct ours
	SAME_BESIDE,      // all count
	SAME_USERS_FIRST, // all count, and the first that fits is taken, so the user's come before ours
};

struct know_kind {
	const char *name;
	size_t size;  // of the struct that a block becomes; it begins with a know_head
	size_t place; // of the vector that keeps them, in struct know
	const struct kind_key *keys;
	const void *defaults; // of the struct; NULL: zeros
	enum kind_same same;
	bool fixed;               // they cannot be retracted
	bool bulk;                // there are many: they are listed only if this kind is asked for
	bool optional;            // a row need not have a value
	enum key_type label_type; // what `knowledge list` shows beside the id: its type
	size_t label;             // and its place in the struct
	/** NULL: the heading is an id, and the keys are @keys. */
	void (*load)(struct loader *l, const struct know_kind *kind, const struct know_block *b);
	/** Checks what @keys cannot express. false, and a problem was reported: the block is wrong. NULL: nothing to check. */
	bool (*check)(struct loader *l, struct know_head *object);
};

/** Ends with a row without a name. */
extern const struct know_kind know_kinds[];
extern const char know_subsystems[], know_levels[];
const struct know_kind *kind_named(struct str name);

// --- from blocks to structs ---
/** A new object with its heading, the rest zero or default. It lives as long as the knowledge. */
void *kind_object(struct loader *l, const struct know_kind *kind, const struct know_block *b, struct str id);
void kind_load(struct loader *l, const struct know_kind *kind, const struct know_block *b);
/** The keys of a block into an object; false where one is wrong. */
bool kind_fill(struct loader *l, const struct know_kind *kind, const struct know_block *b, struct know_head *object);
/** Checks an object and, if it is right, adds it to those of its kind. */
void kind_take(struct loader *l, struct know_head *object);
/** Place of @word in a list of words that are separated by spaces, or -1. */
int word_index(const char *list, struct str word);
void signature_template(struct loader *l, struct know_signature *s, struct str text, const char *file, unsigned line);
void pair_append(struct arena *a, struct know_pair **list, struct str name, struct str value);

/** Heading: NAME VALUE. */
void load_pair(struct loader *l, const struct know_kind *kind, const struct know_block *b);
/** NAMES... :: VALUE: a row for each name. */
void load_rows(struct loader *l, const struct know_kind *kind, const struct know_block *b);
/** Words, a row for each. */
void load_words(struct loader *l, const struct know_kind *kind, const struct know_block *b);
void load_anchor(struct loader *l, const struct know_kind *kind, const struct know_block *b);
void load_class(struct loader *l, const struct know_kind *kind, const struct know_block *b);
void load_message(struct loader *l, const struct know_kind *kind, const struct know_block *b);
void load_month(struct loader *l, const struct know_kind *kind, const struct know_block *b);
void load_names(struct loader *l, const struct know_kind *kind, const struct know_block *b);
void load_packet(struct loader *l, const struct know_kind *kind, const struct know_block *b);
void load_part(struct loader *l, const struct know_kind *kind, const struct know_block *b);
void load_register(struct loader *l, const struct know_kind *kind, const struct know_block *b);

bool check_bad(struct loader *l, struct know_head *object);
bool check_calibration(struct loader *l, struct know_head *object);
bool check_context(struct loader *l, struct know_head *object);
bool check_fact(struct loader *l, struct know_head *object);
bool check_opening(struct loader *l, struct know_head *object);
bool check_frame(struct loader *l, struct know_head *object);
bool check_instruction(struct loader *l, struct know_head *object);
bool check_parameter(struct loader *l, struct know_head *object);
bool check_ring(struct loader *l, struct know_head *object);
bool check_signature(struct loader *l, struct know_head *object);
bool check_sign(struct loader *l, struct know_head *object);
bool check_way(struct loader *l, struct know_head *object);
bool check_vendor(struct loader *l, struct know_head *object);

// --- the vectors of struct know ---
void kind_add(struct know *k, struct know_head *object);
void kinds_free(struct know *k);
